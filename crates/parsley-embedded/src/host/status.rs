//! What an application is doing, as its operator sees it.

use std::sync::Arc;

use parsley_core::{Channel, Offset, Refusal};

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
    /// Records taken in.
    pub received: u64,
    /// Records that came again and were dropped.
    pub dropped: u64,
    /// Records delivered to the logic.
    pub delivered: u64,
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
    /// How many offsets can be read beyond it, markers and withdrawn records included.
    pub lag: u64,
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
    /// Why it stopped.
    pub refusal: Refusal,
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waited {
    /// What was waited for is so.
    Reached,
    /// It is not, and guards stopped these tasks.
    Refused(Vec<RefusedTask>),
    /// It is not, and a task has failed for good or the application was stopped.
    Over,
}
