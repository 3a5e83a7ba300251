//! What the kit asks of a host: a log, and tasks that run on it one step at a time.
//!
//! A host that implements [`ConformanceHost`] can be put through every scenario ([`crate::suite`]). The kit decides what happens and in
//! which order; the host does it as it would in production, and reports what came of it as [`Event`]s, by coordinate. It never judges.
//!
//! | Duty (`docs/protocol.md`, Host duties) | Where the kit leans on it |
//! |---|---|
//! | H1, H2 | [`ConformanceHost::step`] feeds by increasing offset, and reports positions past what never arrives |
//! | H3 | [`ConformanceHost::step`] commits state, positions and sends together; [`CrashPoint`] and [`ConformanceHost::crash`] undo all three |
//! | H4 | [`Event::Appended`] tells where a send went, and what was stamped on it |
//! | H5 | [`ConformanceHost::start`] |
//! | H6 | [`ConformanceHost::start`], [`ConformanceHost::check`] |
//! | H7 | [`ConformanceHost::moves`]: a send is offered when what it claims by sequence is acknowledged |
//!
//! # What to report
//!
//! A step is reported in the order in which it goes: channel by channel what was [received](Event::Received) or [dropped](Event::Dropped)
//! and then how far the position [advanced](Event::Advanced) beyond it, the [deliveries](Event::Delivered), among them the [tick](Event::Ticked), the
//! sends as they are [appended](Event::Appended), and at the end that it was [committed](Event::Committed), or [aborted](Event::Aborted) when the execution ends
//! before. What an aborted step appended may be left out. A step that did nothing is not reported. An opening is a commit of what it
//! wrote.
//!
//! # What a host cannot do
//!
//! It says so where there is a question to answer ([`ConformanceHost::supports`], [`ConformanceHost::runs_bare_nodes`],
//! [`ConformanceHost::ticks`], [`ConformanceHost::can_withhold_offsets`], [`ConformanceHost::can_be_tampered_with`]); what it then cannot be put through is passed
//! over, and its [report](crate::suite::Report) has no seeds. Elsewhere it does the nearest thing: a step that cannot be cut off at a
//! [`CrashPoint`] fails in its logic ([`CrashSwitch`]) or crashes right behind; one move of watermarks may do nothing where mark and question
//! are one moment. A read without `advance` can end behind its last record, which leaves no position to report. Floors that a host cannot
//! reach are for whoever runs the suite to list.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use parsley_core::{Channel, Hold, Offset, Record, TopicId};
use parsley_stage::Stage;

pub use crate::broker::AppendMode;
use crate::plan::{Declaration, Durable, Rules, StagePlan};

/// The application that every simulated stage belongs to.
pub const APPLICATION: &str = "sim";

/// How long a host waits, in moments of the world, before it uses a log start that it has learned to drop claims. All tasks check at
/// least every [`CHECK_INTERVAL`] moments, or stop delivering.
pub const TRUNCATION_DELAY: u64 = 60;

/// See [`TRUNCATION_DELAY`].
pub const CHECK_INTERVAL: u64 = 20;

/// What holds for one world.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// How the log takes records.
    pub append: AppendMode,
    /// Whether acknowledgements tell the offset (decision S13).
    pub offsets_known: bool,
    /// The scenario's rules.
    pub rules: Rules,
}

/// A task's number in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskNo(pub usize);

/// A task to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskAt {
    /// The number of its stage in the plan.
    pub stage: usize,
    /// Its partition.
    pub partition: i32,
}

/// A stage as it is deployed now.
#[derive(Clone)]
pub struct Deployment {
    /// Its number in the plan.
    pub stage: usize,
    /// What the plan says of it.
    pub plan: Arc<StagePlan>,
    /// Its declaration.
    pub declaration: Arc<Declaration>,
    /// The same, as an application would declare it.
    pub built: Stage,
    /// Makes the logic of `built` fail.
    pub switch: CrashSwitch,
}

/// Makes a stage's logic fail at one of the deliveries to come, for hosts that cannot be stopped within a step otherwise.
#[derive(Clone, Debug, Default)]
pub struct CrashSwitch(Arc<AtomicI64>);

impl CrashSwitch {
    /// The delivery after so many more fails.
    pub fn arm(&self, after: usize) {
        self.0.store(after as i64 + 1, Ordering::Relaxed);
    }

    /// No delivery fails. Returns whether one was still to fail.
    pub fn disarm(&self) -> bool {
        self.0.swap(0, Ordering::Relaxed) > 0
    }

    /// For the logic: whether this delivery fails.
    pub(crate) fn fails_now(&self) -> bool {
        if self.0.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.0.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

/// What a task reads in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The channel.
    pub channel: Channel,
    /// How many records at most.
    pub records_max: usize,
    /// Whether the position past what yields no record is reported.
    pub advance: bool,
}

/// Where a step is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// After feeding.
    Fed,
    /// After so many deliveries; what they sent may be appended, and is aborted.
    Delivered(usize),
    /// With everything appended, before the commit.
    Appended,
}

/// A tick of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickPlan {
    /// The time by the host's wall clock, another for each tick of a task.
    pub timestamp_ms: i64,
    /// Behind how many deliveries of this step it is emitted, or behind all that there are. A host that does not tick there ticks
    /// before them, or behind.
    pub after: usize,
}

/// One step of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPlan {
    /// What it reads. Channels that are not named are not read. A host that cannot do less may report all positions.
    pub reads: Vec<Read>,
    /// The tick that it emits, where the task's stage ticks.
    pub tick: Option<TickPlan>,
    /// Where it crashes. A host that cannot crash there crashes elsewhere in the step, or right after it.
    pub crash: Option<CrashPoint>,
}

/// What a start came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// How many held records were restored.
    pub restored: u64,
    /// The channels consumed, and the position from which each is owed to the task if it did not consume it before.
    pub consumed: Vec<(Channel, Offset)>,
    /// The consumed channels that joined and skip what the delivered past covers.
    pub seeded: u64,
}

/// Why a task does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A guard refused.
    Refused {
        /// Its code.
        code: String,
        /// What it found.
        found: String,
    },
    /// The execution ended, as after a crash; it can be started again.
    Crashed,
    /// It cannot start yet: an earlier execution's last transaction is not decided everywhere.
    Waits,
    /// The host itself failed.
    Failed(String),
}

/// What happened at a host, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A record was handed to the task.
    Received(TaskNo, Channel, Offset),
    /// The task had been fed it before.
    Dropped(TaskNo, Channel, Offset),
    /// The task's position on the channel was reported.
    Advanced(TaskNo, Channel, Offset),
    /// A record was delivered.
    Delivered {
        /// To which task.
        task: TaskNo,
        /// Its channel.
        channel: Channel,
        /// Its offset.
        offset: Offset,
        /// Whether it had been held.
        was_held: bool,
    },
    /// The task emitted a tick of this time, with all that it was delivered before.
    Ticked(TaskNo, i64),
    /// A task's send was appended; it is committed or aborted with the step.
    Appended {
        /// Whose.
        task: TaskNo,
        /// The record, as it stands in the log.
        record: Record,
    },
    /// The step is fact: state, positions and sends.
    Committed(TaskNo),
    /// The step never was.
    Aborted(TaskNo),
    /// Claims were dropped from the task's custody.
    Truncated(TaskNo, u64),
    /// Watermarks were handed in.
    Evidence(TaskNo),
}

/// A log's ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// The lowest offset kept.
    pub log_start: Offset,
    /// Where a read-committed reader stops.
    pub last_stable: Offset,
    /// One past what all replicas have.
    pub high_watermark: Offset,
    /// One past what was appended.
    pub end: Offset,
}

/// Something that the log or a task in the middle of a step can do by itself; chosen by the kit like everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Move {
    /// The next of the task's sends to the channel is appended.
    Append(TaskNo, Channel),
    /// The replicas of the channel catch up.
    Replicate(Channel),
    /// All sends handed over are acknowledged: the next round, or the commit.
    Proceed(TaskNo),
    /// A transaction's marker reaches the channel.
    Marker(u64, Channel),
}

/// An edge client's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeTransaction(pub u64);

/// A log and the tasks on it, driven step by step. Errors of the log itself are a host's failure: [`Stop::Failed`].
pub trait ConformanceHost {
    /// Whether it can append in this mode. Scenarios run in every mode that it can.
    fn supports(append: AppendMode) -> bool
    where
        Self: Sized;

    /// Whether it can run a bare node. A host of stages runs every stage as a stage.
    fn runs_bare_nodes() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Whether its tasks can tick ([`StepPlan::tick`]). A host whose tasks cannot passes over scenarios whose stages do.
    fn ticks() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Whether acknowledgements can keep their offsets to themselves ([`Setting::offsets_known`]), so that stamps name sends by sequence. A host
    /// that always tells them passes over scenarios that end with something waiting for a sequence.
    fn can_withhold_offsets() -> bool
    where
        Self: Sized,
    {
        true
    }

    /// Whether it keeps the state of stateful stages. A protocol without a task around it has none.
    fn keeps_state(&self) -> bool {
        true
    }

    /// An empty log, no tasks.
    fn new(setting: Setting) -> Self
    where
        Self: Sized;

    /// Creates a topic; one that was deleted before gets another identity.
    fn create_topic(&mut self, name: &str, partitions: i32) -> TopicId;
    /// Deletes a topic with all its records.
    fn delete_topic(&mut self, name: &str);
    /// Retention: removes records below an offset; at most up to the last stable offset.
    fn delete_records(&mut self, channel: Channel, before: Offset);
    /// The ends of a partition; `None` when it does not exist.
    fn ends(&self, channel: Channel) -> Option<Ends>;
    /// Committed records from a position on, as a plain consumer reads them, and the position after them.
    fn read(&self, channel: Channel, from: Offset, records_max: usize) -> (Vec<Record>, Offset);

    /// Begins an edge client's transaction.
    fn begin(&mut self) -> EdgeTransaction;
    /// Appends an edge client's record; `None` when its topic is gone.
    fn append(&mut self, record: Record, within: Option<EdgeTransaction>) -> Option<Offset>;
    /// Whether an edge client's record is acknowledged.
    fn is_acknowledged(&self, channel: Channel, offset: Offset) -> bool;
    /// Ends an edge client's transaction, all of whose records are acknowledged.
    fn end(&mut self, transaction: EdgeTransaction, commit: bool);

    /// Deploys a stage. Its tasks are not running; they have the numbers given, one for each partition.
    fn deploy(&mut self, deployment: &Deployment, tasks: &[(TaskNo, i32)]);
    /// Starts a task from committed state.
    ///
    /// # Errors
    ///
    /// A refusal, or [`Stop::Waits`].
    fn start(&mut self, task: TaskNo, now: u64) -> Result<Started, Stop>;
    /// One step of a running task.
    ///
    /// # Errors
    ///
    /// A refusal, or [`Stop::Crashed`] when the plan says so.
    fn step(&mut self, task: TaskNo, plan: &StepPlan, now: u64) -> Result<(), Stop>;
    /// The task's process ends; a step under way is lost.
    fn crash(&mut self, task: TaskNo);
    /// The task's next move in asking for watermarks: takes the mark, or asks, or hands the answer in. To be called between steps.
    ///
    /// # Errors
    ///
    /// A refusal.
    fn evidence(&mut self, task: TaskNo) -> Result<(), Stop>;
    /// The task learns log starts and deletions, judges them, and drops claims that what it learned long enough ago allows to drop.
    ///
    /// # Errors
    ///
    /// A refusal.
    fn check(&mut self, task: TaskNo, now: u64) -> Result<(), Stop>;

    /// Whether others can reach what is durable of its tasks, so that [`ConformanceHost::rewind`] and [`ConformanceHost::forget`] do
    /// something. A host of which nobody else can move or lose anything passes over scenarios in which that happens.
    fn can_be_tampered_with() -> bool
    where
        Self: Sized,
    {
        false
    }
    /// The topic goes on, and its name and identity do not resolve any more: neither its ends nor that it is gone can be told.
    fn hide_topic(&mut self, _name: &str) {}
    /// Someone moves the task's committed positions back by so many offsets, but not below 0, while it does not run; forward, when the
    /// number is negative.
    fn rewind(&mut self, _task: TaskNo, _by: Offset) {}
    /// Something durable of the task is lost while it does not run.
    fn forget(&mut self, _task: TaskNo, _what: Durable) {}

    /// Whether a task is in the middle of a step that goes on by [`ConformanceHost::make`].
    fn is_in_step(&self, task: TaskNo) -> bool;
    /// The task's position on a channel, if it is running and reads it.
    fn position(&self, task: TaskNo, channel: Channel) -> Option<Offset>;
    /// The position that the task would commit now, or has committed when it does not run: nothing below it is needed again.
    fn resumes_at(&self, task: TaskNo, channel: Channel) -> Option<Offset>;
    /// How many records a running task holds.
    fn held(&self, task: TaskNo) -> u64;
    /// What a running task holds and why.
    fn holds(&self, task: TaskNo) -> Vec<Hold>;
    /// The committed state of a key of a stateful stage's task, as its bytes; `None` when there is none.
    fn state_of(&self, task: TaskNo, key: Option<&[u8]>) -> Option<Bytes>;
    /// The committed tick state of a stage's task, as its bytes; `None` when there is none.
    fn tick_state_of(&self, _task: TaskNo) -> Option<Bytes> {
        None
    }
    /// Whether watermarks may help the task.
    fn wants_evidence(&self, task: TaskNo) -> bool;

    /// What the log and tasks in the middle of a step can do now.
    fn moves(&self, _moves: &mut Vec<Move>) {}
    /// Makes a move.
    ///
    /// # Errors
    ///
    /// A refusal.
    fn make(&mut self, _move: Move, _now: u64) -> Result<(), Stop> {
        Ok(())
    }

    /// Moves what happened since the last call to the end of `events`.
    fn take_events(&mut self, events: &mut Vec<Event>);
}
