//! What a host keeps of a task to tell of it: metrics, ages of holds, warnings and events. The same on every host.
//!
//! It stands beside the task and changes nothing of what that does. It outlives the task's executions in a process and knows no clock:
//! times are arguments, in milliseconds from wherever the host likes.
//!
//! # Events
//!
//! Through `tracing`. None has bytes of a record's key, value or headers, at any level, but for the clock, which is the protocol's. Nor has any the
//! words of an application's error, as these may quote a record (decision T16); the host's status has them.
//!
//! | Target | Level | What |
//! |---|---|---|
//! | `parsley::hold` | warn | a record that has been held for longer than the host's `hold_warning_after`, once for each |
//! | `parsley::hold` | debug | a record that stands first on its channel and waits, once for each |
//! | `parsley::delivery` | debug | a delivery of a committed step |

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parsley_core::{Channel, Offset, RefusalCode};
use tracing::Level;

use crate::meter::{InputMeter, StepCounts, TaskMeter};
use crate::report::{Ages, HoldReport, Missing};
use crate::{Processed, Stage, Task, TopicInfo};

/// How often a host that rests looks at what is held.
const LOOK: Duration = Duration::from_secs(1);

/// What a host keeps of a task to tell of it.
#[derive(Debug)]
pub struct TaskWatch {
    stage: Arc<str>,
    partition: i32,
    warning_after: Duration,
    meter: TaskMeter,
    /// In channel order.
    inputs: Vec<WatchedInput>,
    ages: Ages,
    /// The held records that were told of and warned of last, by channel.
    told: BTreeMap<Channel, Offset>,
    warned: BTreeMap<Channel, Offset>,
}

#[derive(Debug)]
struct WatchedInput {
    channel: Channel,
    meter: InputMeter,
    /// What was shown last.
    held: u64,
    first_held: Option<Offset>,
}

impl TaskWatch {
    /// Registers the metrics of a task. `topics` tells what the stage's topics are.
    pub fn new<Name: std::borrow::Borrow<str> + Ord>(
        application: &Arc<str>,
        stage: &Stage,
        partition: i32,
        topics: &BTreeMap<Name, TopicInfo>,
        warning_after: Duration,
    ) -> Self {
        let name: Arc<str> = stage.name().into();
        let meter = TaskMeter::register(application, &name, partition);
        let input = |topic: &str| {
            let info = topics.get(topic)?;
            Some(WatchedInput {
                channel: info.id.partition(partition),
                meter: meter.input(&topic.into()),
                held: 0,
                first_held: None,
            })
        };
        let mut inputs: Vec<_> = stage.inputs().filter_map(input).collect();
        inputs.sort_unstable_by_key(|input| input.channel);
        Self {
            stage: name,
            partition,
            warning_after,
            inputs,
            meter,
            ages: Ages::default(),
            told: BTreeMap::new(),
            warned: BTreeMap::new(),
        }
    }

    /// The task's metrics.
    pub fn meter(&self) -> &TaskMeter {
        &self.meter
    }

    /// The task has opened. What it holds from before has been here since then, unless this process had taken it in already.
    pub fn opened(&mut self, task: &Task, now_ms: i64) {
        for (channel, next) in task.resume_positions() {
            self.ages.taken_in(channel, next, now_ms);
        }
        self.look(task, now_ms);
    }

    /// The task was fed everything below a position.
    pub fn taken_in(&mut self, channel: Channel, next: Offset, now_ms: i64) {
        self.ages.taken_in(channel, next, now_ms);
    }

    /// A step was committed.
    pub fn step_committed(
        &mut self,
        task: &Task,
        counts: StepCounts,
        deliveries: &[Processed],
        now_ms: i64,
    ) {
        self.meter.step_committed(counts);
        self.meter
            .clocks(task.stamp_entries(), task.widest_clock_bytes());
        if tracing::enabled!(target: "parsley::delivery", Level::DEBUG) {
            self.tell_deliveries(deliveries);
        }
        self.look(task, now_ms);
    }

    /// A guard has stopped the task.
    pub fn refused(&self, code: RefusalCode) {
        self.meter.refused(code);
    }

    /// Looks at what is held: shows it in the metrics, and warns of what has been held for long. A host that rests does so as often as
    /// [`TaskWatch::look_again`] says.
    pub fn look(&mut self, task: &Task, now_ms: i64) {
        let mut heads = task.heads().peekable();
        let tells = tracing::enabled!(target: "parsley::hold", Level::DEBUG);
        let mut reports = None;
        let Self {
            inputs,
            ages,
            told,
            warned,
            warning_after,
            ..
        } = self;
        for input in inputs {
            let channel = input.channel;
            while heads.next_if(|(at, ..)| *at < channel).is_some() {}
            let head = heads.next_if(|(at, ..)| *at == channel);
            let first_held = head.map(|(_, offset, _)| offset);
            if input.first_held != first_held {
                ages.released(channel, first_held);
            }
            let Some((_, offset, held)) = head else {
                if input.held > 0 {
                    input.meter.held(0, 0);
                }
                (input.held, input.first_held) = (0, None);
                continue;
            };
            (input.held, input.first_held) = (held, first_held);
            let age_ms = ages.age_ms(channel, offset, now_ms);
            input.meter.held(held, age_ms);
            let is_to_warn = u128::from(age_ms) >= warning_after.as_millis()
                && warned.get(&channel) != Some(&offset);
            let is_to_tell = tells && told.get(&channel) != Some(&offset);
            if !is_to_warn && !is_to_tell {
                continue;
            }
            let reports: &Vec<HoldReport> = reports.get_or_insert_with(|| {
                task.explain_holds(|channel, offset| ages.age_ms(channel, offset, now_ms))
            });
            let report = reports
                .iter()
                .find(|report| report.place.channel() == channel);
            // What only was not come to waits for nothing.
            let Some(report) = report.filter(|report| !report.waits.is_empty()) else {
                continue;
            };
            let (stage, partition) = (&self.stage, self.partition);
            let (code, missing) = (report.waits[0].code, Records(&report.missing));
            if is_to_tell {
                told.insert(channel, offset);
                let clock = task
                    .head_clock(channel)
                    .map(hex::encode)
                    .unwrap_or_default();
                tracing::debug!(
                    target: "parsley::hold", %stage, partition, hold = %report, clock, %missing, age_ms, "a record waits"
                );
            }
            if is_to_warn {
                warned.insert(channel, offset);
                tracing::warn!(
                    target: "parsley::hold", %stage, partition, %code, hold = %report, %missing, age_ms,
                    "a record has been held for long"
                );
            }
        }
    }

    /// In how long to look again although nothing has happened: sooner while something is to be warned of. `None` when nothing is held.
    pub fn look_again(&self) -> Option<Duration> {
        let is_warned_of =
            |input: &&WatchedInput| self.warned.get(&input.channel) == input.first_held.as_ref();
        let mut held = self.inputs.iter().filter(|input| input.held > 0).peekable();
        held.peek()?;
        match held.all(|input| is_warned_of(&input)) {
            true => Some(LOOK),
            false => Some(self.warning_after.clamp(LOOK / 100, LOOK)),
        }
    }

    /// What is held, for how long, and what is missing.
    pub fn explain_holds(&self, task: &Task, now_ms: i64) -> Vec<HoldReport> {
        task.explain_holds(|channel, offset| self.ages.age_ms(channel, offset, now_ms))
    }

    /// How many records of an input are held, and for how many milliseconds the first of them; as of the last look.
    pub fn held_on(&self, channel: Channel, now_ms: i64) -> (u64, Option<u64>) {
        let found = self
            .inputs
            .binary_search_by_key(&channel, |input| input.channel);
        let Some(input) = found.ok().map(|at| &self.inputs[at]) else {
            return (0, None);
        };
        let age = |offset| self.ages.age_ms(channel, offset, now_ms);
        (input.held, input.first_held.map(age))
    }

    fn tell_deliveries(&self, deliveries: &[Processed]) {
        let (stage, partition) = (&self.stage, self.partition);
        for delivery in deliveries {
            let Processed {
                topic,
                channel,
                offset,
                was_held,
                ..
            } = delivery;
            let clock = hex::encode(&delivery.clock);
            tracing::debug!(target: "parsley::delivery", %stage, partition, %topic, %channel, offset, was_held, clock, "delivered");
        }
    }
}

/// Missing records, in a list.
struct Records<'a>(&'a [Missing]);

impl fmt::Display for Records<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, missing) in self.0.iter().enumerate() {
            let between = if index == 0 { "" } else { "; " };
            write!(f, "{between}{missing}")?;
        }
        Ok(())
    }
}
