//! What an application is doing in this process, as its operator sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parsley_core::decide::Settled;
use parsley_core::{Channel, Offset, Refusal};
use parsley_stage::CausalClock;
use parsley_stage::report::{
    HoldReport, Holds, HostKind, InputReport, Report, Restoring, StateWord, TaskReport,
    WorkerReport,
};

/// The state of an application in this process: one entry for each worker.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// Its workers, stages in the order declared.
    pub workers: Vec<WorkerStatus>,
}

impl Status {
    /// The tasks of all workers, with the stage of each and its partition.
    pub fn tasks(&self) -> impl Iterator<Item = (&str, i32, &TaskStatus)> {
        self.workers.iter().flat_map(|worker| {
            let tasks = worker.tasks.iter();
            tasks.map(|(partition, task)| (&*worker.stage, *partition, task))
        })
    }

    /// A task of this process, if it has that one.
    pub fn task(&self, stage: &str, partition: i32) -> Option<&TaskStatus> {
        let mut tasks = self.tasks();
        let found = tasks.find(|(of, number, _)| (*of, *number) == (stage, partition));
        found.map(|(_, _, task)| task)
    }

    /// The same as plain data.
    pub(crate) fn report(&self, application: &str) -> Report {
        let tasks = self.workers.iter().flat_map(|worker| {
            let tasks = worker.tasks.iter();
            tasks.map(|(partition, task)| task.report(worker, *partition))
        });
        let mut tasks: Vec<TaskReport> = tasks.collect();
        // Workers of a stage stand together, and each may have any of its partitions.
        let in_order = |one: &TaskReport, other: &TaskReport| one.stage == other.stage;
        for tasks in tasks.chunk_by_mut(in_order) {
            tasks.sort_by_key(|task| task.partition);
        }
        Report {
            application: application.to_owned(),
            host: HostKind::Kafka,
            tasks,
            workers: self.workers.iter().map(WorkerStatus::report).collect(),
        }
    }

    /// What all tasks hold.
    pub(crate) fn holds(&self) -> Holds {
        let mut holds: Vec<HoldReport> = self
            .tasks()
            .flat_map(|(_, _, task)| task.holds.iter().cloned())
            .collect();
        let in_order = |one: &HoldReport, other: &HoldReport| one.stage == other.stage;
        for holds in holds.chunk_by_mut(in_order) {
            holds.sort_by_key(|hold| (hold.place.partition, hold.place.topic_id));
        }
        Holds { holds }
    }

    /// Whether every worker has ended.
    pub fn is_over(&self) -> bool {
        self.left().next().is_none()
    }

    /// The workers that have not ended.
    pub fn left(&self) -> impl Iterator<Item = &WorkerStatus> {
        self.workers.iter().filter(|worker| {
            let state = &worker.state;
            !matches!(state, WorkerState::Stopped | WorkerState::Failed { .. })
        })
    }

    /// How many records have been delivered by the tasks that are assigned now.
    pub fn delivered(&self) -> u64 {
        self.tasks().map(|(_, _, task)| task.delivered).sum()
    }

    /// The refusals, with the stage and the partition that each has stopped.
    pub fn refused(&self) -> Vec<(&str, i32, &Refusal)> {
        let refused = self
            .tasks()
            .filter_map(|(stage, partition, task)| match &task.state {
                TaskState::Refused(refusal) => Some((stage, partition, refusal)),
                _ => None,
            });
        refused.collect()
    }
}

/// What a worker is doing.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// Its stage.
    pub stage: Arc<str>,
    /// Its number among the application's workers in this process.
    pub number: usize,
    /// Whether it works.
    pub state: WorkerState,
    /// Whether its group has given it partitions once, or told it that there are none for it. Until then it has no tasks because nobody knows.
    pub has_joined: bool,
    /// The tasks of the partitions that are assigned to it.
    pub tasks: BTreeMap<i32, TaskStatus>,
    /// How often log starts and identities of its topics were judged, in answer to the cluster: what was deleted before is refused, or known, by then.
    pub checks: u64,
    /// How often it was looked for what was deleted of what stamps claim.
    pub sweeps: u64,
    /// How often the cluster did not answer when the worker looked for log starts, identities or high watermarks. Each is asked for again when
    /// it is due.
    pub unanswered: u64,
}

impl WorkerStatus {
    /// Its state in a word, why it is so, and how often in a row something has failed.
    fn word(&self) -> (StateWord, Option<&str>, u32) {
        match &self.state {
            WorkerState::Running => (StateWord::Running, None, 0),
            WorkerState::Retrying { message, attempt } => {
                (StateWord::Retrying, Some(message), *attempt)
            }
            WorkerState::Unchecked => (StateWord::Unchecked, None, 0),
            WorkerState::Failed { message } => (StateWord::Failed, Some(message), 0),
            WorkerState::Stopped => (StateWord::Stopped, None, 0),
        }
    }

    fn report(&self) -> WorkerReport {
        let (state, message, attempt) = self.word();
        WorkerReport {
            stage: self.stage.to_string(),
            number: self.number,
            state,
            message: message.map(str::to_owned),
            attempt,
            checks: self.checks,
            sweeps: self.sweeps,
            unanswered: self.unanswered,
        }
    }
}

impl TaskStatus {
    /// What is so of the worker is so of its tasks, but for what a guard has stopped; and where a step has failed, of those that are to be
    /// opened anew.
    fn report(&self, worker: &WorkerStatus, partition: i32) -> TaskReport {
        let (of_worker, message, attempt) = worker.word();
        let own = match &self.state {
            TaskState::Assigned => StateWord::Assigned,
            TaskState::Restoring { .. } => StateWord::Restoring,
            TaskState::Running => StateWord::Running,
            TaskState::Refused(_) => StateWord::Refused,
        };
        let state = match (of_worker, own) {
            (_, StateWord::Refused) | (StateWord::Running, _) => own,
            (StateWord::Retrying, StateWord::Assigned) => of_worker,
            (StateWord::Retrying, _) => own,
            (StateWord::Unchecked, StateWord::Running) => of_worker,
            (StateWord::Unchecked, _) => own,
            _ => of_worker,
        };
        let mut report = TaskReport::new(&*worker.stage, partition, state);
        if state == of_worker {
            (report.message, report.attempt) = (message.map(str::to_owned), attempt);
        }
        if let TaskState::Refused(refusal) = &self.state {
            report.refusal = Some(refusal.code);
            report.message = Some(refusal.to_string());
        }
        if let TaskState::Restoring { records, left } = self.state {
            report.restoring = Some(Restoring { records, left });
        }
        (report.received, report.dropped) = (self.received, self.dropped);
        (report.delivered, report.held) = (self.delivered, self.held);
        report.ticks = self.ticks;
        (report.steps, report.failed_steps) = (self.steps, self.failed_steps);
        report.widest_clock_bytes = self.widest_clock_bytes;
        report.inputs.clone_from(&self.inputs);
        report
    }
}

/// Whether a worker works.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerState {
    /// It does, or waits for something to do.
    Running,
    /// A step, or what precedes one, failed. It is tried again, and this is shown until the record that failed is delivered, or, if no record
    /// did, some record, or nothing has failed for a while.
    Retrying {
        /// What failed.
        message: String,
        /// How often in a row.
        attempt: u32,
    },
    /// Deliveries wait: for longer than is sound, the cluster did not say what was deleted. They go on when it does
    /// (`docs/protocol.md`, Truncation).
    Unchecked,
    /// It cannot work, and has ended.
    Failed {
        /// Why.
        message: String,
    },
    /// It was stopped.
    Stopped,
}

/// What a task is doing. Counts are of committed steps since the partition was assigned.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TaskStatus {
    /// Whether it runs.
    pub state: TaskState,
    /// Records taken in.
    pub received: u64,
    /// Records that came again and were dropped.
    pub dropped: u64,
    /// Records delivered to the logic.
    pub delivered: u64,
    /// Records taken in and waiting for others, now.
    pub held: u64,
    /// What stands first on each input and waits, for how long, for what, and which record is missing in the end. Looked at twice a second.
    pub holds: Vec<HoldReport>,
    /// Where it reads, in channel order. Looked at twice a second.
    pub inputs: Vec<InputReport>,
    /// The longest clock received or sent since it was opened, in bytes. Looked at twice a second.
    pub widest_clock_bytes: u64,
    /// How many offsets of its inputs are not read yet: records, markers, and what an open transaction of somebody else keeps from readers.
    /// Looked at twice a second.
    pub lag: u64,
    /// Steps committed, that of the opening included.
    pub steps: u64,
    /// Steps given up because of a failure, of this task or of another one of its worker.
    pub failed_steps: u64,
    /// Rounds that the sends of these steps took (`docs/protocol.md`, Send order): the acknowledgements of each are waited for before the next.
    pub rounds: u64,
    /// Ticks emitted (`docs/protocol.md`, Ticks). They are among what is received when they come back.
    pub ticks: u64,
    /// How far each input has been delivered in committed steps: everything up to there is, or will never come. Empty before the first.
    pub settled: Vec<(Channel, Settled)>,
}

impl TaskStatus {
    /// Whether the task has been delivered, in steps that are committed, all that a client has seen of its inputs
    /// ([`CausalClock::is_covered_by`]): what it sent because of that can be read as well. Not before its first step here, the opening's, is
    /// committed, and not any more if a guard stops it before that.
    ///
    /// What a client reads is of one key, and so of one task. A process asks its own: of a task that runs in another process it has no status.
    pub fn covers(&self, seen: &CausalClock) -> bool {
        !self.settled.is_empty() && seen.is_covered_by(self.settled.iter().copied())
    }
}

/// Whether a task runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskState {
    /// Its partition is assigned, and it is not open yet.
    #[default]
    Assigned,
    /// Its state is read back from the changelogs.
    Restoring {
        /// How many records were read.
        records: u64,
        /// How many offsets are left. When none are, a former owner of the partition may still commit: that is waited for.
        left: u64,
    },
    /// It works, or waits for something to do.
    Running,
    /// A guard stopped it; see [`RefusalCode::remedy`](parsley_core::RefusalCode::remedy).
    Refused(Refusal),
}

/// A delivery, reported after the step that it belongs to has been committed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliveryEvent {
    /// The stage.
    pub stage: Arc<str>,
    /// The stage's partition.
    pub partition: i32,
    /// The record's topic.
    pub topic: Arc<str>,
    /// The record's channel.
    pub channel: Channel,
    /// The record's offset.
    pub offset: Offset,
    /// The record's timestamp.
    pub timestamp_ms: i64,
    /// The record's key.
    pub key: Option<Bytes>,
    /// The record's clock, canonically encoded: the empty clock if it came without one.
    pub clock: Bytes,
    /// Whether it had to wait.
    pub was_held: bool,
}
