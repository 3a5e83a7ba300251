//! Tasks without threads: their caller says which one does what, and when.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parsley_core::{Channel, Offset, Opened};
use parsley_stage::App;
use parsley_stage::report::HoldReport;

use super::claim::{Claimed, GroupClaim, claim};
use super::context::Context;
use super::end::TaskEnd;
use super::error::StartError;
use super::evidence::WatermarkAnswer;
use super::execution::Execution;
use super::reads::Reads;
use super::report::{JoinedInput, Opening, StepError, StepReport};
use super::settings::Settings;
use super::status::InputStatus;
use crate::log::Log;

/// Runs an application's tasks step by step in the caller's thread: for tests that choose every interleaving.
///
/// From [`Host::step_by_step`](crate::Host::step_by_step). A step is the one that the threads of a [`Running`](crate::Running) take, of the
/// same code. What differs is who decides: nothing happens here that is not asked for. Watermarks and checks in particular come when the
/// caller wants them, with one exception that is part of every step: what the log has deleted is judged before anything is read (decision
/// E4). [Delays](crate::HostBuilder::delay) and the observers of the host work as ever, the observers in the caller's thread; a panic of
/// one goes through to the caller, and the task is no longer open.
///
/// While it lives the stages count as running: no other stepper, and no [`Running`](crate::Running), gets them. Dropping it lets go of
/// them, and of every task as [`Stepper::crash`] does.
///
/// Every method that names a task fails with [`StepError::NoTask`] when there is none, and all but [`Stepper::open`],
/// [`Stepper::crash`] and [`Stepper::is_open`] with [`StepError::NotOpen`] when it is not open.
///
/// ```
/// use parsley_embedded::{Host, NewRecord, Reads, StepError};
/// use parsley_stage::{App, Stage, Topic, codec};
///
/// let orders = Topic::new("orders", codec::string(), codec::u64());
/// let totals = Topic::new("totals", codec::string(), codec::u64());
/// let add = Stage::stateful("add", codec::string(), codec::u64())
///     .sink(&totals)
///     .on(&orders, {
///         let totals = totals.clone();
///         move |total, order, out| {
///             *total += order.value;
///             out.send(&totals, &order.key, total)
///         }
///     })
///     .build()?;
/// let app = App::named("shop").stage(add).build()?;
///
/// let host = Host::in_memory();
/// host.create_topic("orders", 1)?;
/// host.create_topic("totals", 1)?;
/// for amount in [3_u64, 4] {
///     host.producer().send(NewRecord::to("orders").key("ann").value(amount.to_be_bytes().to_vec()))?;
/// }
///
/// let mut stepper = host.step_by_step(&app)?;
/// stepper.open("add", 0)?;
/// let step = stepper.step("add", 0, &Reads::everything().at_most("orders", 1))?;
/// assert_eq!((step.delivered.len(), step.appended.len()), (1, 1));
///
/// // A crash between two steps loses nothing: the next opening goes on behind what was committed.
/// stepper.crash("add", 0)?;
/// let opening = stepper.open("add", 0)?;
/// assert!(opening.positions.values().eq(&[1]));
/// let step = stepper.step("add", 0, &Reads::everything())?;
/// assert_eq!(step.delivered[0].offset, 1);
/// assert!(!stepper.has_news("add", 0)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it lets go of the application's tasks"]
pub struct Stepper {
    log: Log,
    /// Before the claim: what runs is over when the groups are free.
    tasks: Vec<SteppedTask>,
    _groups: GroupClaim,
}

struct SteppedTask {
    context: Context,
    execution: Option<Execution>,
    /// The time of a tick that was asked for and is not committed.
    tick: Option<i64>,
}

impl fmt::Debug for Stepper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self
            .tasks
            .iter()
            .map(|task| (task.name(), task.execution.is_some()));
        f.write_str("Stepper { open: ")?;
        f.debug_map().entries(tasks).finish()?;
        f.write_str(" }")
    }
}

impl Stepper {
    pub(crate) fn new(log: &Log, settings: &Arc<Settings>, app: &App) -> Result<Self, StartError> {
        let Claimed {
            groups, contexts, ..
        } = claim(log, settings, app)?;
        let task = |context| SteppedTask {
            context,
            execution: None,
            tick: None,
        };
        Ok(Self {
            log: log.clone(),
            tasks: contexts.into_iter().map(task).collect(),
            _groups: groups,
        })
    }

    /// The tasks: stages in the order declared, partitions in order. None is open at first.
    pub fn tasks(&self) -> impl Iterator<Item = (&str, i32)> {
        self.tasks.iter().map(SteppedTask::name)
    }

    /// Opens a task by the full initialisation from committed state (`docs/protocol.md`, Words, H5), and commits what that writes. One that
    /// is open is crashed first. After a refusal, too, the task may be opened again, as it may when an application is started anew.
    ///
    /// # Errors
    ///
    /// When a guard refuses, or committed state cannot be read.
    pub fn open(&mut self, stage: &str, partition: i32) -> Result<Opening, StepError> {
        let task = self.task_mut(stage, partition)?;
        task.execution = None;
        let opened = Execution::open(&task.context);
        let (execution, opened) = opened.inspect_err(|end| task.context.telling.ended(end))?;
        let opening = opening(&execution, &task.context, &opened);
        task.execution = Some(execution);
        Ok(opening)
    }

    /// Whether a task is open.
    ///
    /// # Errors
    ///
    /// When there is no such task.
    pub fn is_open(&self, stage: &str, partition: i32) -> Result<bool, StepError> {
        Ok(self.task(stage, partition)?.execution.is_some())
    }

    /// Takes one step: reads on as far as it may, delivers what can be delivered, and commits.
    ///
    /// Behind a step that was full ([`StepReport::is_full`]) the next one reads nothing and goes on to deliver.
    ///
    /// # Errors
    ///
    /// [`StepError::Ended`] when a guard refuses, the application's code fails, or a send cannot be appended. The step is given up as in a
    /// running application, with what had been handed over left behind as an aborted run (decision E2). [`StepError::NoInput`] when a
    /// topic is named that the stage does not consume; nothing is done then.
    pub fn step(
        &mut self,
        stage: &str,
        partition: i32,
        reads: &Reads,
    ) -> Result<StepReport, StepError> {
        self.check_reads(stage, partition, reads)?;
        let mut report = StepReport::default();
        let tick = self.task(stage, partition)?.tick;
        let stepped = self.drive(stage, partition, |execution, context| {
            let committed = execution.step(context, reads, tick, &mut report)?;
            let positions = positions(execution, context);
            Ok((committed, positions, execution.is_draining()))
        });
        match stepped {
            Ok((committed, positions, is_full)) => {
                self.task_mut(stage, partition)?.tick = None;
                Ok(StepReport {
                    committed,
                    positions,
                    is_full,
                    ..report
                })
            }
            Err(StepError::Ended { end, .. }) => Err(StepError::Ended {
                end,
                given_up: Box::new(report),
            }),
            Err(error) => Err(error),
        }
    }

    /// Makes a tick due, with this timestamp in milliseconds since the Unix epoch: the next step emits it, and when that step is given up the
    /// one after it does. Nothing else makes a task tick here, whatever interval its stage declares. A tick that is due already is due once,
    /// with the later timestamp; a crash forgets it.
    ///
    /// # Errors
    ///
    /// [`StepError::NoTicks`] when the stage declares none.
    pub fn tick(
        &mut self,
        stage: &str,
        partition: i32,
        timestamp_ms: i64,
    ) -> Result<(), StepError> {
        let task = self.task_mut(stage, partition)?;
        if task.execution.is_none() {
            return Err(task.not_open());
        }
        if task.context.stage.tick_topic().is_none() {
            return Err(StepError::NoTicks {
                stage: stage.to_owned(),
            });
        }
        task.tick = Some(timestamp_ms);
        Ok(())
    }

    /// Takes a step and drops the task's execution before the commit, behind that many deliveries, or all that are possible: a crash in
    /// the middle of the step. What the first round has sent by then is left behind as an aborted run (decision E2). Returns what the
    /// step had done, of which nothing is kept.
    ///
    /// # Errors
    ///
    /// As [`Stepper::step`].
    pub fn crash_in_step(
        &mut self,
        stage: &str,
        partition: i32,
        reads: &Reads,
        deliveries: usize,
    ) -> Result<StepReport, StepError> {
        self.check_reads(stage, partition, reads)?;
        let mut given_up = StepReport::default();
        let tick = self.task(stage, partition)?.tick;
        let broken_off = self.drive(stage, partition, |execution, context| {
            execution.break_off(context, reads, tick, deliveries, &mut given_up)
        });
        match broken_off {
            Ok(()) => {
                self.crash(stage, partition)?;
                Ok(given_up)
            }
            Err(StepError::Ended { end, .. }) => Err(StepError::Ended {
                end,
                given_up: Box::new(given_up),
            }),
            Err(error) => Err(error),
        }
    }

    /// Drops the task's execution, open or not. What was not committed is gone, and the next opening starts from what was.
    ///
    /// # Errors
    ///
    /// When there is no such task.
    pub fn crash(&mut self, stage: &str, partition: i32) -> Result<(), StepError> {
        let task = self.task_mut(stage, partition)?;
        task.execution = None;
        task.tick = None;
        Ok(())
    }

    /// Looks at log starts and topic identities (guards G10, G9, G12), and stops claiming what has been known to be deleted for the
    /// [truncation delay](crate::HostBuilder::truncation_delay). Returns whether a truncation was due. The next committed step makes it durable.
    ///
    /// # Errors
    ///
    /// When a guard refuses.
    pub fn check(&mut self, stage: &str, partition: i32) -> Result<bool, StepError> {
        self.drive(stage, partition, |execution, context| {
            execution.check(context)
        })
    }

    /// Asks for high watermarks and hands them in at once, if they may help and anything has been written since they were last asked for:
    /// what a running task does when it would rest. Returns whether it did; deliveries may be possible then.
    ///
    /// # Errors
    ///
    /// When the task's state fails.
    pub fn give_evidence(&mut self, stage: &str, partition: i32) -> Result<bool, StepError> {
        self.drive(stage, partition, |execution, context| {
            execution.give_evidence(context)
        })
    }

    /// Takes a mark and reads the high watermarks that may help, of this moment. The answer may be handed in behind any number of further
    /// steps, or never.
    ///
    /// # Errors
    ///
    /// When the task is not open.
    pub fn ask_watermarks(
        &mut self,
        stage: &str,
        partition: i32,
    ) -> Result<WatermarkAnswer, StepError> {
        self.drive(stage, partition, |execution, context| {
            Ok(execution.ask_watermarks(context))
        })
    }

    /// Hands in high watermarks. An answer that was asked for by another task, or by an earlier execution of this one, says nothing
    /// and changes nothing.
    ///
    /// # Errors
    ///
    /// When the task's state fails.
    pub fn answer_watermarks(
        &mut self,
        stage: &str,
        partition: i32,
        answer: &WatermarkAnswer,
    ) -> Result<(), StepError> {
        self.drive(stage, partition, |execution, _| {
            execution.answer_watermarks(answer)
        })
    }

    /// Whether a step without limits would find something: something to read or to judge, or a full step's drain that goes on. What only
    /// [a delay](crate::HostBuilder::delay) keeps back counts.
    ///
    /// # Errors
    ///
    /// When the task is not open.
    pub fn has_news(&self, stage: &str, partition: i32) -> Result<bool, StepError> {
        let execution = self.opened(stage, partition)?.0;
        Ok(execution.has_news(&self.log.lock()))
    }

    /// What the task holds, for how long, what that waits for, and which record is missing in the end: one entry for each channel that holds
    /// records, in channel order.
    ///
    /// # Errors
    ///
    /// When the task is not open.
    pub fn holds(&self, stage: &str, partition: i32) -> Result<Vec<HoldReport>, StepError> {
        let (execution, context) = self.opened(stage, partition)?;
        Ok(execution.holds(context))
    }

    /// How many records the task holds.
    ///
    /// # Errors
    ///
    /// When the task is not open.
    pub fn held(&self, stage: &str, partition: i32) -> Result<u64, StepError> {
        Ok(self.opened(stage, partition)?.0.held())
    }

    /// Whether the next step goes on with the drain of a full one, and reads nothing.
    pub(crate) fn is_draining(&self, stage: &str, partition: i32) -> Result<bool, StepError> {
        Ok(self.opened(stage, partition)?.0.is_draining())
    }

    /// Where the task reads, and how much there is to read, by channel.
    ///
    /// # Errors
    ///
    /// When the task is not open.
    pub fn inputs(&self, stage: &str, partition: i32) -> Result<Vec<InputStatus>, StepError> {
        let (execution, context) = self.opened(stage, partition)?;
        let mut inputs = execution.inputs(context);
        let state = self.log.lock();
        for input in &mut inputs {
            input.measure(&state);
        }
        Ok(inputs)
    }

    /// The channels that the task's stamps name. A [check](Stepper::check) that finds a truncation due takes some out.
    ///
    /// # Errors
    ///
    /// When the task is not open.
    pub fn stamp_channels(&self, stage: &str, partition: i32) -> Result<Vec<Channel>, StepError> {
        Ok(self.opened(stage, partition)?.0.stamp_channels())
    }

    fn check_reads(&self, stage: &str, partition: i32, reads: &Reads) -> Result<(), StepError> {
        let declared = &self.task(stage, partition)?.context.stage;
        let is_input = |topic: &str| declared.inputs().any(|input| input == topic);
        match reads.topics().find(|topic| !is_input(topic)) {
            None => Ok(()),
            Some(topic) => Err(StepError::NoInput {
                stage: stage.to_owned(),
                topic: topic.to_owned(),
            }),
        }
    }

    fn index_of(&self, stage: &str, partition: i32) -> Result<usize, StepError> {
        let index = self.tasks().position(|name| name == (stage, partition));
        index.ok_or_else(|| StepError::NoTask {
            stage: stage.to_owned(),
            partition,
        })
    }

    fn task(&self, stage: &str, partition: i32) -> Result<&SteppedTask, StepError> {
        Ok(&self.tasks[self.index_of(stage, partition)?])
    }

    fn task_mut(&mut self, stage: &str, partition: i32) -> Result<&mut SteppedTask, StepError> {
        let index = self.index_of(stage, partition)?;
        Ok(&mut self.tasks[index])
    }

    fn opened(&self, stage: &str, partition: i32) -> Result<(&Execution, &Context), StepError> {
        let task = self.task(stage, partition)?;
        let execution = task.execution.as_ref().ok_or_else(|| task.not_open())?;
        Ok((execution, &task.context))
    }

    /// Has a task's execution do something. It is over when that fails or panics.
    fn drive<T>(
        &mut self,
        stage: &str,
        partition: i32,
        call: impl FnOnce(&mut Execution, &Context) -> Result<T, TaskEnd>,
    ) -> Result<T, StepError> {
        let task = self.task_mut(stage, partition)?;
        let Some(mut execution) = task.execution.take() else {
            return Err(task.not_open());
        };
        let done = call(&mut execution, &task.context);
        let done = done.inspect_err(|end| task.context.telling.ended(end))?;
        task.execution = Some(execution);
        Ok(done)
    }
}

impl SteppedTask {
    fn name(&self) -> (&str, i32) {
        (&self.context.stage_name, self.context.partition)
    }

    fn not_open(&self) -> StepError {
        StepError::NotOpen {
            stage: self.context.stage_name.to_string(),
            partition: self.context.partition,
        }
    }
}

fn positions(execution: &Execution, context: &Context) -> BTreeMap<Channel, Offset> {
    let inputs = execution.inputs(context).into_iter();
    inputs
        .map(|input| (input.channel, input.position))
        .collect()
}

fn opening(execution: &Execution, context: &Context, opened: &Opened) -> Opening {
    let joined = |input: InputStatus| {
        let joined = opened
            .joined
            .iter()
            .find(|joined| joined.channel == input.channel)?;
        Some(JoinedInput {
            topic: input.topic,
            channel: input.channel,
            seed: joined.seed,
            position: input.position,
        })
    };
    Opening {
        held: execution.held(),
        joined: execution
            .inputs(context)
            .into_iter()
            .filter_map(joined)
            .collect(),
        positions: positions(execution, context),
    }
}
