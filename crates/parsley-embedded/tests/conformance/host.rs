//! The embedded host as the kit drives it: a log, and a stepper for each stage.
//!
//! A task's process is the stage's application: it ends with the last of the stage's tasks that runs, and begins, with the names of its topics
//! resolved anew, when one of them is started again. What the kit can ask for and this host has no way to do is done as nearly as
//! possible, as [`ConformanceHost`] allows:
//!
//! - A step appends and commits under one lock (decision E1), so it cannot be cut off behind its last delivery. Where the kit wants a crash
//!   there, the logic fails at what is probably the last delivery: all sends before it are appended, and aborted (decision E2). Where
//!   no delivery comes to fail at, the task crashes right behind the step.
//! - A step ticks ahead of its deliveries.
//! - The mark and the question about watermarks are one moment. The kit's second move is the answer's way back.
//! - Acknowledgements tell offsets, whatever the setting says: rounds are fenced with them (decision E1).
//! - Nobody can move a group's positions, so a rewind does nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parsley_core::{Channel, Hold, Offset, Record, StateStore, TopicId, Wait};
use parsley_embedded::{
    Host, Ids, InputStatus, Log, LogConfig, NewRecord, Producer, Reads, StepError, Stepper,
    TimeSource, Transaction, WatermarkAnswer,
};
use parsley_sim::host::{
    APPLICATION, AppendMode, CHECK_INTERVAL, ConformanceHost, CrashPoint, CrashSwitch, Deployment,
    EdgeTransaction, Ends, Event, Setting, Started, StepPlan, Stop, TRUNCATION_DELAY, TaskNo,
};
use parsley_stage::report::HoldReport;
use parsley_stage::{App, fold};
use tempfile::TempDir;

use crate::dir::fast_dir;

use crate::outcome::{self, failed, stop_of, stop_of_start};

pub struct EmbeddedHost {
    setting: Setting,
    /// The name under which stages run.
    pub application: String,
    log: Log,
    producer: Producer,
    now: Arc<AtomicI64>,
    stages: BTreeMap<usize, StageSlot>,
    tasks: BTreeMap<usize, TaskSlot>,
    transactions: BTreeMap<u64, Transaction>,
    transactions_begun: u64,
    pub events: Vec<Event>,
    /// Behind the log, which is in it.
    _dir: Option<TempDir>,
}

/// A deployed stage.
struct StageSlot {
    deployment: Deployment,
    /// Its application, while one of its tasks runs.
    process: Option<Process>,
}

struct Process {
    stepper: Stepper,
    group: String,
}

struct TaskSlot {
    stage: usize,
    partition: i32,
    /// The group that it ran in last.
    group: Option<String>,
    question: Question,
    /// The last step was full, so the next one goes on with its drain.
    is_full: bool,
    /// When it checked last.
    checked_at: u64,
}

/// A question about watermarks, on its way.
enum Question {
    None,
    Asked(WatermarkAnswer),
    Answered(WatermarkAnswer),
}

/// A running task, by the names that the stepper has for it.
struct Driven<'a> {
    stepper: &'a mut Stepper,
    stage: &'static str,
    partition: i32,
    slot: &'a mut TaskSlot,
}

impl EmbeddedHost {
    /// A topic's name, if it is the one that has it now.
    fn topic_name(&self, id: TopicId) -> Option<String> {
        let mut topics = self.log.topics().into_iter();
        topics.find_map(|(name, found)| (found == id).then_some(name))
    }

    fn stepper(&self, task: TaskNo) -> Option<(&Stepper, &'static str, i32)> {
        let slot = self.tasks.get(&task.0)?;
        let stage = self.stages.get(&slot.stage)?;
        let process = stage.process.as_ref()?;
        Some((&process.stepper, stage.deployment.plan.name, slot.partition))
    }

    fn driven(&mut self, task: TaskNo) -> Result<Driven<'_>, Stop> {
        let slot = self
            .tasks
            .get_mut(&task.0)
            .ok_or_else(|| failed("no such task"))?;
        let stage = self
            .stages
            .get_mut(&slot.stage)
            .ok_or_else(|| failed("the stage is not deployed"))?;
        let process = stage
            .process
            .as_mut()
            .ok_or_else(|| failed("the stage's application does not run"))?;
        Ok(Driven {
            stepper: &mut process.stepper,
            stage: stage.deployment.plan.name,
            partition: slot.partition,
            slot,
        })
    }

    fn group(&self, task: TaskNo) -> Option<&str> {
        self.tasks.get(&task.0)?.group.as_deref()
    }

    /// The stage's application, begun if none of its tasks runs.
    fn process(&mut self, stage: usize) -> Result<&mut Process, Stop> {
        let slot = self
            .stages
            .get_mut(&stage)
            .ok_or_else(|| failed("the stage is not deployed"))?;
        if let Some(process) = &slot.process
            && !runs_any(&process.stepper)
        {
            slot.process = None;
        }
        if slot.process.is_none() {
            let built = &slot.deployment.built;
            let app = App::named(self.application.clone())
                .stage(built.clone())
                .build()
                .map_err(|error| Stop::Failed(error.to_string()))?;
            let now = Arc::clone(&self.now);
            let truncation_delay = match self.setting.rules.truncation {
                true => Duration::from_millis(TRUNCATION_DELAY),
                false => Duration::MAX,
            };
            let host = Host::builder()
                .over(self.log.clone())
                .time(TimeSource::from_fn(move || now.load(Ordering::Relaxed)))
                .truncation_delay(truncation_delay)
                .max_step_deliveries(slot.deployment.plan.step_deliveries_max)
                .build()
                .map_err(|error| Stop::Failed(error.to_string()))?;
            let stepper = host
                .step_by_step(&app)
                .map_err(|error| stop_of_start(&error, &slot.deployment))?;
            slot.process = Some(Process {
                stepper,
                group: app.consumer_group(built),
            });
        }
        slot.process
            .as_mut()
            .ok_or_else(|| failed("the stage's application does not run"))
    }

    /// What the plan's reads are for the stepper. Without `advance` a read ends behind its last record.
    fn reads(&self, task: TaskNo, plan: &StepPlan) -> Result<Reads, Stop> {
        let (stepper, stage, partition) = self
            .stepper(task)
            .ok_or_else(|| failed("the task does not run"))?;
        let inputs = stepper.inputs(stage, partition).map_err(stop_of)?;
        let mut reads = Reads::nothing();
        for read in &plan.reads {
            let Some(input) = inputs.iter().find(|input| input.channel == read.channel) else {
                continue;
            };
            let topic = &*input.topic;
            if read.advance {
                reads = reads.at_most(topic, read.records_max);
                continue;
            }
            let (records, _) = self.read(read.channel, input.position, read.records_max);
            if let Some(last) = records.last() {
                reads = reads.with(topic).until(topic, last.offset + 1);
            }
        }
        Ok(reads)
    }

    /// The execution ended, and the step that was under way with it.
    fn ended(
        &mut self,
        task: TaskNo,
        error: StepError,
        before: &BTreeMap<Channel, Offset>,
        ticked: Option<i64>,
    ) -> Stop {
        if let StepError::Ended { given_up, .. } = &error {
            outcome::report(task, given_up, before, ticked, &mut self.events);
        }
        self.events.push(Event::Aborted(task));
        stop_of(error)
    }
}

impl EmbeddedHost {
    /// A host whose log is in a directory, and keeps nothing in memory of what that has.
    pub fn on_disk(setting: Setting) -> Self {
        Self::over(setting, |config| {
            let dir = fast_dir();
            let log =
                Log::open(dir.path(), config.cache_bytes(0)).expect("a new directory is made");
            (log, Some(dir))
        })
    }

    fn over(setting: Setting, make: impl FnOnce(LogConfig) -> (Log, Option<TempDir>)) -> Self {
        let now = Arc::new(AtomicI64::new(0));
        let time = TimeSource::from_fn({
            let now = Arc::clone(&now);
            move || now.load(Ordering::Relaxed)
        });
        let (log, dir) = make(LogConfig::default().ids(Ids::Seeded(1)).time(time));
        Self {
            setting,
            application: APPLICATION.to_owned(),
            producer: log.producer(),
            log,
            now,
            stages: BTreeMap::new(),
            tasks: BTreeMap::new(),
            transactions: BTreeMap::new(),
            transactions_begun: 0,
            events: Vec::new(),
            _dir: dir,
        }
    }
}

impl ConformanceHost for EmbeddedHost {
    fn supports(append: AppendMode) -> bool {
        append == AppendMode::Atomic
    }

    fn ticks() -> bool {
        true
    }

    fn can_withhold_offsets() -> bool {
        false
    }

    fn new(setting: Setting) -> Self {
        Self::over(setting, |config| (Log::new(config), None))
    }

    fn create_topic(&mut self, name: &str, partitions: i32) -> TopicId {
        self.log
            .create_topic(name, partitions)
            .expect("the kit creates topics that can be, and none twice")
    }

    fn delete_topic(&mut self, name: &str) {
        self.log
            .delete_topic(name)
            .expect("the kit deletes topics that exist");
    }

    fn delete_records(&mut self, channel: Channel, before: Offset) {
        self.log
            .delete_records(channel, before)
            .expect("the kit stays within the log");
    }

    fn ends(&self, channel: Channel) -> Option<Ends> {
        let high_watermark = self.log.high_watermark(channel)?;
        Some(Ends {
            log_start: self.log.log_start(channel)?,
            last_stable: self.log.last_stable_offset(channel)?,
            high_watermark,
            // One copy: what is appended is there for all.
            end: high_watermark,
        })
    }

    fn read(&self, channel: Channel, from: Offset, records_max: usize) -> (Vec<Record>, Offset) {
        let from = from.max(self.log.log_start(channel).unwrap_or(0));
        let read = || {
            let name = self.topic_name(channel.topic)?;
            let mut consumer = self.log.consumer(&name).ok()?;
            consumer.seek(channel.partition, from).ok()?;
            let mut records = consumer.poll_now().ok()?;
            records.retain(|record| record.channel == channel);
            if records.len() > records_max {
                let next = records[records_max].offset;
                records.truncate(records_max);
                return Some((records, next));
            }
            let next = consumer.positions().get(&channel.partition).copied()?;
            Some((records, next))
        };
        read().unwrap_or((Vec::new(), from))
    }

    fn begin(&mut self) -> EdgeTransaction {
        let number = self.transactions_begun;
        self.transactions_begun += 1;
        self.transactions.insert(number, self.producer.begin());
        EdgeTransaction(number)
    }

    fn append(&mut self, record: Record, within: Option<EdgeTransaction>) -> Option<Offset> {
        let mut new = NewRecord::to(self.topic_name(record.channel.topic)?)
            .partition(record.channel.partition)
            .timestamp_ms(record.timestamp_ms)
            .headers(record.headers);
        if let Some(key) = record.key {
            new = new.key(key);
        }
        if let Some(value) = record.value {
            new = new.value(value);
        }
        let appended = match within {
            Some(EdgeTransaction(number)) => self.transactions.get_mut(&number)?.send(new),
            None => self.producer.send(new),
        };
        appended.ok().map(|appended| appended.offset)
    }

    fn is_acknowledged(&self, _channel: Channel, _offset: Offset) -> bool {
        true
    }

    fn end(&mut self, transaction: EdgeTransaction, commit: bool) {
        match self.transactions.remove(&transaction.0) {
            Some(transaction) if commit => {
                transaction
                    .commit()
                    .expect("a log in memory takes every commit");
            }
            Some(transaction) => transaction.abort(),
            None => {}
        }
    }

    fn deploy(&mut self, deployment: &Deployment, tasks: &[(TaskNo, i32)]) {
        let stage = StageSlot {
            deployment: deployment.clone(),
            process: None,
        };
        self.stages.insert(deployment.stage, stage);
        for &(task, partition) in tasks {
            self.tasks.entry(task.0).or_insert(TaskSlot {
                stage: deployment.stage,
                partition,
                group: None,
                question: Question::None,
                is_full: false,
                checked_at: 0,
            });
        }
    }

    fn start(&mut self, task: TaskNo, now: u64) -> Result<Started, Stop> {
        self.set_time(now);
        let stage = self.tasks.get(&task.0).map(|slot| slot.stage);
        let process = self.process(stage.ok_or_else(|| failed("no such task"))?)?;
        let group = process.group.clone();
        let Driven {
            stepper,
            stage,
            partition,
            slot,
        } = self.driven(task)?;
        slot.group = Some(group);
        slot.is_full = false;
        slot.checked_at = now;
        let opening = stepper.open(stage, partition).map_err(stop_of)?;
        if let Question::Asked(late) | Question::Answered(late) =
            std::mem::replace(&mut slot.question, Question::None)
        {
            // What an earlier execution asked for may come now. It says nothing.
            stepper
                .answer_watermarks(stage, partition, &late)
                .map_err(stop_of)?;
        }
        self.events.push(Event::Committed(task));
        let seeded = opening.joined.iter().filter(|input| input.seed.is_some());
        Ok(Started {
            restored: opening.held,
            seeded: seeded.count() as u64,
            consumed: opening.positions.into_iter().collect(),
        })
    }

    fn step(&mut self, task: TaskNo, plan: &StepPlan, now: u64) -> Result<(), Stop> {
        self.set_time(now);
        if now > self.driven(task)?.slot.checked_at + CHECK_INTERVAL {
            self.check(task, now)?;
        }
        let reads = self.reads(task, plan)?;
        let before = self.positions(task);
        let stamped = self.stamp_channels(task);
        let switch = self.switch(task)?;
        if let Some(point) = plan.crash {
            // The last of those that it reads now, if none of them is held up. A crash behind a delivery undoes more than one before all.
            let last = self.readable(task, plan).saturating_sub(1).max(1);
            switch.arm(match point {
                CrashPoint::Fed => 0,
                CrashPoint::Delivered(deliveries) => deliveries.min(last),
                CrashPoint::Appended => last,
            });
        }
        let Driven {
            stepper,
            stage,
            partition,
            slot,
        } = self.driven(task)?;
        let ticked = plan.tick.map(|tick| tick.timestamp_ms);
        if let Some(timestamp_ms) = ticked {
            stepper
                .tick(stage, partition, timestamp_ms)
                .map_err(stop_of)?;
        }
        let mut outcome = stepper.step(stage, partition, &reads);
        if ticked.is_some() && outcome.is_err() {
            // The tick is that step's or nobody's.
            stepper.crash(stage, partition).map_err(stop_of)?;
        }
        if slot.is_full && outcome.as_ref().is_ok_and(|report| !report.committed) {
            // It found that the full step had been the drain's last. The host goes on at once.
            outcome = stepper.step(stage, partition, &reads);
        }
        slot.is_full = outcome.as_ref().is_ok_and(|report| report.is_full);
        let has_failed = plan.crash.is_some() && !switch.disarm();
        let report = match outcome {
            Ok(report) => report,
            Err(error) => {
                let is_planned =
                    has_failed && error.end().is_some_and(|end| end.application().is_some());
                let stop = self.ended(task, error, &before, ticked);
                return Err(if is_planned { Stop::Crashed } else { stop });
            }
        };
        self.report_truncation(task, &stamped);
        outcome::report(task, &report, &before, ticked, &mut self.events);
        if report.committed {
            self.events.push(Event::Committed(task));
        }
        if plan.crash.is_some() {
            self.crash(task);
            return Err(Stop::Crashed);
        }
        Ok(())
    }

    fn crash(&mut self, task: TaskNo) {
        let crashed = self.driven(task).and_then(|driven| {
            driven.slot.is_full = false;
            driven
                .stepper
                .crash(driven.stage, driven.partition)
                .map_err(stop_of)
        });
        // A task that never started cannot crash.
        if crashed.is_ok() {
            self.events.push(Event::Aborted(task));
        }
    }

    fn evidence(&mut self, task: TaskNo) -> Result<(), Stop> {
        let before = self.positions(task);
        let Driven {
            stepper,
            stage,
            partition,
            slot,
        } = self.driven(task)?;
        let moved = match std::mem::replace(&mut slot.question, Question::None) {
            Question::None => stepper.ask_watermarks(stage, partition).map(|answer| {
                slot.question = Question::Asked(answer);
                false
            }),
            Question::Asked(answer) => {
                slot.question = Question::Answered(answer);
                Ok(false)
            }
            Question::Answered(answer) => stepper
                .answer_watermarks(stage, partition, &answer)
                .map(|()| true),
        };
        match moved {
            Ok(true) => self.events.push(Event::Evidence(task)),
            Ok(false) => {}
            Err(error) => return Err(self.ended(task, error, &before, None)),
        }
        Ok(())
    }

    fn check(&mut self, task: TaskNo, now: u64) -> Result<(), Stop> {
        self.set_time(now);
        let before = self.positions(task);
        let stamped = self.stamp_channels(task);
        let Driven {
            stepper,
            stage,
            partition,
            slot,
        } = self.driven(task)?;
        slot.checked_at = now;
        if let Err(error) = stepper.check(stage, partition) {
            return Err(self.ended(task, error, &before, None));
        }
        self.report_truncation(task, &stamped);
        Ok(())
    }

    fn is_in_step(&self, _task: TaskNo) -> bool {
        false
    }

    fn position(&self, task: TaskNo, channel: Channel) -> Option<Offset> {
        self.positions(task).get(&channel).copied()
    }

    fn resumes_at(&self, task: TaskNo, channel: Channel) -> Option<Offset> {
        let positions = self.log.committed_positions(self.group(task)?);
        positions.get(&channel).copied()
    }

    fn held(&self, task: TaskNo) -> u64 {
        let held = self
            .stepper(task)
            .and_then(|(stepper, stage, partition)| stepper.held(stage, partition).ok());
        held.unwrap_or(0)
    }

    fn holds(&self, task: TaskNo) -> Vec<Hold> {
        let holds = self
            .stepper(task)
            .and_then(|(stepper, stage, partition)| stepper.holds(stage, partition).ok());
        holds.iter().flatten().map(HoldReport::to_hold).collect()
    }

    fn state_of(&self, task: TaskNo, key: Option<&[u8]>) -> Option<Bytes> {
        let partition = self.tasks.get(&task.0)?.partition;
        let state = self.log.fold_state(self.group(task)?, partition).ok()??;
        state.get(&fold::state_key(key)).ok().flatten()
    }

    fn tick_state_of(&self, task: TaskNo) -> Option<Bytes> {
        let partition = self.tasks.get(&task.0)?.partition;
        let state = self.log.fold_state(self.group(task)?, partition).ok()??;
        state.get(&[fold::TICK_STATE_KEY]).ok().flatten()
    }

    fn wants_evidence(&self, task: TaskNo) -> bool {
        let holds = self.holds(task);
        let mut waits = holds.iter().flat_map(|hold| &hold.waits);
        waits.any(|wait| matches!(wait, Wait::Sequence { .. }))
    }

    fn take_events(&mut self, events: &mut Vec<Event>) {
        events.append(&mut self.events);
    }
}

impl EmbeddedHost {
    /// How many records a step finds to read.
    fn readable(&self, task: TaskNo, plan: &StepPlan) -> usize {
        let positions = self.positions(task);
        let records = plan.reads.iter().filter_map(|read| {
            let position = positions.get(&read.channel)?;
            Some(self.read(read.channel, *position, read.records_max).0.len())
        });
        records.sum()
    }

    fn set_time(&self, now: u64) {
        self.now.store(now as i64, Ordering::Relaxed);
    }

    fn switch(&self, task: TaskNo) -> Result<CrashSwitch, Stop> {
        let stage = self
            .tasks
            .get(&task.0)
            .and_then(|slot| self.stages.get(&slot.stage));
        let stage = stage.ok_or_else(|| failed("the stage is not deployed"))?;
        Ok(stage.deployment.switch.clone())
    }

    fn positions(&self, task: TaskNo) -> BTreeMap<Channel, Offset> {
        let inputs = self
            .stepper(task)
            .and_then(|(stepper, stage, partition)| stepper.inputs(stage, partition).ok());
        let position = |input: InputStatus| (input.channel, input.position);
        inputs.into_iter().flatten().map(position).collect()
    }

    fn stamp_channels(&self, task: TaskNo) -> Vec<Channel> {
        let stamped = self
            .stepper(task)
            .and_then(|(stepper, stage, partition)| stepper.stamp_channels(stage, partition).ok());
        stamped.unwrap_or_default()
    }

    /// Reports what is no longer named. `before`: the channels that stamps named before a check, or a step, which may have checked.
    fn report_truncation(&mut self, task: TaskNo, before: &[Channel]) {
        let now = self.stamp_channels(task);
        let dropped = before.iter().filter(|channel| !now.contains(channel));
        let dropped = dropped.count() as u64;
        if dropped > 0 {
            self.events.push(Event::Truncated(task, dropped));
        }
    }
}

fn runs_any(stepper: &Stepper) -> bool {
    stepper
        .tasks()
        .any(|(stage, partition)| stepper.is_open(stage, partition).unwrap_or(false))
}
