//! What an application is doing, as its operator sees it.

use std::fmt;
use std::sync::Arc;

use parsley_core::decide::Settled;
use parsley_core::{Channel, Offset, Refusal};
use parsley_stage::CausalClock;
use parsley_stage::report::{HostKind, InputReport, Report, StateWord, TaskReport};

use crate::log::{State, StorageError};

/// The state of an application: one entry for each task, stages in the order declared, partitions in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The application's name.
    pub application: String,
    /// Its tasks.
    pub tasks: Vec<TaskStatus>,
}

impl Status {
    /// The task of a stage and partition.
    pub fn task(&self, stage: &str, partition: i32) -> Option<&TaskStatus> {
        self.tasks
            .iter()
            .find(|task| &*task.stage == stage && task.partition == partition)
    }

    /// The same as plain data. `now_ms` is the time by the host's clock.
    pub(crate) fn report(&self, now_ms: i64) -> Report {
        Report {
            application: self.application.clone(),
            host: HostKind::Embedded,
            tasks: self.tasks.iter().map(|task| task.report(now_ms)).collect(),
            workers: Vec::new(),
        }
    }

    /// Whether every task of a stage has been delivered what a client has seen of its inputs ([`TaskStatus::covers`]). Not, if there is no such
    /// stage.
    pub fn covers(&self, stage: &str, seen: &CausalClock) -> bool {
        let mut tasks = self.tasks.iter().filter(|task| &*task.stage == stage);
        let mut any = false;
        tasks.all(|task| {
            any = true;
            task.covers(seen)
        }) && any
    }

    /// How many records have been delivered, by all tasks since they were started.
    pub fn delivered(&self) -> u64 {
        self.tasks.iter().map(|task| task.delivered).sum()
    }

    /// How many records are held, by all tasks.
    pub fn held(&self) -> u64 {
        self.tasks.iter().map(|task| task.held).sum()
    }

    /// The refusals, with the tasks they stopped.
    pub fn refused(&self) -> Vec<RefusedTask> {
        let refused = |task: &TaskStatus| match &task.state {
            TaskState::Refused(refusal) => Some(RefusedTask {
                stage: Arc::clone(&task.stage),
                partition: task.partition,
                topic: task.refused_topic.clone(),
                refusal: refusal.clone(),
            }),
            _ => None,
        };
        self.tasks.iter().filter_map(refused).collect()
    }
}

/// What a task is doing. Counts are of committed steps since the application was started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskStatus {
    /// The stage.
    pub stage: Arc<str>,
    /// The stage's partition.
    pub partition: i32,
    /// Whether it runs, and if not, why.
    pub state: TaskState,
    /// What was wrong with the log's directory, if that is why the last step failed.
    pub storage: Option<StorageError>,
    /// The name of the topic that a refusal is about, where it is about one.
    pub refused_topic: Option<Arc<str>>,
    /// Records taken in.
    pub received: u64,
    /// Records that came again and were dropped.
    pub dropped: u64,
    /// Records delivered to the logic.
    pub delivered: u64,
    /// Ticks emitted.
    pub ticks: u64,
    /// Records taken in and waiting for others, now.
    pub held: u64,
    /// Steps committed, that of the opening included.
    pub steps: u64,
    /// Steps given up because of a failure.
    pub failed_steps: u64,
    /// The longest clock received or sent since the task was last opened, in bytes. From 80 % of the metadata budget on a warning is
    /// logged; beyond the budget the task refuses (guard G13).
    pub widest_clock_bytes: usize,
    /// Where it reads, by channel.
    pub inputs: Vec<InputStatus>,
}

impl TaskStatus {
    fn report(&self, now_ms: i64) -> TaskReport {
        let mut report = TaskReport::new(&*self.stage, self.partition, self.state.word());
        match &self.state {
            TaskState::Retrying { message, .. } | TaskState::Failed { message } => {
                report.message = Some(message.clone());
            }
            TaskState::Refused(refusal) => {
                report.refusal = Some(refusal.code);
                report.message = Some(refusal.to_string());
            }
            TaskState::Running | TaskState::Stopped => {}
        }
        report.attempt = self.attempt();
        (report.received, report.dropped) = (self.received, self.dropped);
        (report.delivered, report.held) = (self.delivered, self.held);
        report.ticks = self.ticks;
        (report.steps, report.failed_steps) = (self.steps, self.failed_steps);
        report.widest_clock_bytes = self.widest_clock_bytes as u64;
        report.inputs = self
            .inputs
            .iter()
            .map(|input| input.report(now_ms))
            .collect();
        report
    }

    /// Whether the task has been delivered, in steps that are committed, all that a client has seen of its inputs
    /// ([`CausalClock::is_covered_by`]): what it sent because of that is there to be read as well. Not before it is open for the first time, and
    /// not any more if a guard stops it before that.
    pub fn covers(&self, seen: &CausalClock) -> bool {
        let settled = self
            .inputs
            .iter()
            .map(|input| (input.channel, input.settled));
        !self.inputs.is_empty() && seen.is_covered_by(settled)
    }

    /// How often in a row the task's step has failed; 0 when the last one did not.
    pub fn attempt(&self) -> u32 {
        match self.state {
            TaskState::Retrying { attempt, .. } => attempt,
            _ => 0,
        }
    }

    /// The failure, if the task's last step failed.
    pub fn failing(&self) -> Option<FailingTask> {
        let TaskState::Retrying { message, attempt } = &self.state else {
            return None;
        };
        Some(FailingTask {
            stage: Arc::clone(&self.stage),
            partition: self.partition,
            message: message.clone(),
            attempt: *attempt,
        })
    }
}

/// Where a task reads an input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputStatus {
    /// The topic.
    pub topic: Arc<str>,
    /// The channel.
    pub channel: Channel,
    /// The next position to read; the task has been fed all below.
    pub position: Offset,
    /// How far the task has been delivered it: everything up to there is, or will never come. Below the position where something is held.
    pub settled: Settled,
    /// How many offsets can be read beyond it, markers and withdrawn records included.
    pub lag: u64,
    /// Records of this input that were taken in and wait.
    pub held: u64,
    /// When this process took in the first of them, by the host's clock.
    pub(crate) held_since_ms: Option<i64>,
}

impl InputStatus {
    fn report(&self, now_ms: i64) -> InputReport {
        let (topic, partition) = (&*self.topic, self.channel.partition);
        let mut report = InputReport::new(topic, partition, self.position, self.lag);
        report.held = self.held;
        let age_ms = |since_ms| u64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or(0);
        report.oldest_hold_ms = self.held_since_ms.map(age_ms);
        report
    }

    /// Works out the lag.
    pub(crate) fn measure(&mut self, state: &State) {
        let end = state
            .storage
            .partition(self.channel)
            .map(|partition| partition.last_stable_offset());
        self.lag = end.map_or(0, |end| {
            u64::try_from(end.saturating_sub(self.position)).unwrap_or(0)
        });
    }
}

/// Whether a task runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskState {
    /// It works, or waits for something to do.
    Running,
    /// A step failed. It is tried again, in the same order, until it succeeds.
    Retrying {
        /// What failed, in the words of the application where the application failed.
        message: String,
        /// How often it has failed in a row.
        attempt: u32,
    },
    /// A guard stopped it. It is not tried again; see [`RefusalCode::remedy`](parsley_core::RefusalCode::remedy).
    Refused(Refusal),
    /// The host itself, or an observer of deliveries, panicked. It is not tried again.
    Failed {
        /// The panic's message.
        message: String,
    },
    /// The application was stopped.
    Stopped,
}

impl TaskState {
    /// The state in a word.
    pub fn word(&self) -> StateWord {
        match self {
            Self::Running => StateWord::Running,
            Self::Retrying { .. } => StateWord::Retrying,
            Self::Refused(_) => StateWord::Refused,
            Self::Failed { .. } => StateWord::Failed,
            Self::Stopped => StateWord::Stopped,
        }
    }

    /// Whether the task is over, for one reason or another.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Failed { .. } | Self::Stopped)
    }
}

/// A refusal and the task that it stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedTask {
    /// The stage.
    pub stage: Arc<str>,
    /// The stage's partition.
    pub partition: i32,
    /// The name of the topic that the refusal is about, where it is about one.
    pub topic: Option<Arc<str>>,
    /// Why it stopped.
    pub refusal: Refusal,
}

/// `settle/0 was refused, topic payments: vc-corrupt-clock at …`.
impl fmt::Display for RefusedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} was refused", self.stage, self.partition)?;
        if let Some(topic) = &self.topic {
            write!(f, ", topic {topic}")?;
        }
        write!(f, ": {}", self.refusal)
    }
}

/// A task whose step fails again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailingTask {
    /// The stage.
    pub stage: Arc<str>,
    /// The stage's partition.
    pub partition: i32,
    /// What failed, in the words of the application where the application failed.
    pub message: String,
    /// How often it has failed in a row.
    pub attempt: u32,
}

/// `settle/0 has failed 5 times in a row: …`.
impl fmt::Display for FailingTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stage,
            partition,
            message,
            attempt,
        } = self;
        write!(
            f,
            "{stage}/{partition} has failed {attempt} times in a row: {message}"
        )
    }
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "what was waited for may not have come about; `reached()?` turns that into an error"]
#[non_exhaustive]
pub enum Waited {
    /// What was waited for is so.
    Reached,
    /// It is not, and guards stopped these tasks.
    Refused(Vec<RefusedTask>),
    /// It is not, and these tasks fail again and again while the others have nothing to do. They go on trying.
    Failing(Vec<FailingTask>),
    /// It is not, and a task has failed for good or the application was stopped.
    Over,
}

impl Waited {
    /// Whether what was waited for came about, as a result.
    ///
    /// # Errors
    ///
    /// [`NotReached`] says what stood in the way.
    pub fn reached(self) -> Result<(), NotReached> {
        match self {
            Self::Reached => Ok(()),
            Self::Refused(tasks) => Err(NotReached::Refused(tasks)),
            Self::Failing(tasks) => Err(NotReached::Failing(tasks)),
            Self::Over => Err(NotReached::Over),
        }
    }
}

/// What was waited for did not come about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotReached {
    /// Guards stopped these tasks.
    #[error("{}", lines(.0))]
    Refused(Vec<RefusedTask>),
    /// These tasks fail again and again.
    #[error("{}", lines(.0))]
    Failing(Vec<FailingTask>),
    /// A task has failed for good, or the application was stopped.
    #[error("the application is over")]
    Over,
}

fn lines(tasks: &[impl fmt::Display]) -> String {
    tasks
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}
