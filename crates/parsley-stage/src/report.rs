//! What a host says of itself, as plain data: the same shape whatever the host, made to be shown and to be written as JSON.
//!
//! A host's own status has what programs beside it act on. This is what operators read, through a page or a terminal, and what tools
//! compare between hosts. The names of fields and the words of states and codes are stable; fields may be added.
//!
//! ```
//! use parsley_stage::report::{HostKind, Report, StateWord, TaskReport};
//!
//! let mut task = TaskReport::new("settle", 0, StateWord::Running);
//! task.delivered = 7;
//! let report = Report { application: "shop".into(), host: HostKind::Embedded, tasks: vec![task], workers: vec![] };
//! let json = serde_json::to_value(&report)?;
//! assert_eq!((&json["host"], &json["tasks"][0]["state"]), (&"embedded".into(), &"running".into()));
//! assert_eq!(json["tasks"][0]["delivered"], 7);
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::fmt;

use parsley_core::{Offset, RefusalCode};
use serde::{Serialize, Serializer};

mod ages;
mod holds;
mod observed;

pub use ages::Ages;
pub(crate) use holds::Held;
pub use holds::{Claimed, HoldReport, Holds, Hop, Missing, MissingRecord, Place, WaitReport};
pub use observed::Observed;

/// What a host says of an application that it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The application's name.
    pub application: String,
    /// What kind of host it is.
    pub host: HostKind,
    /// The tasks that this host has, stages in the order declared, partitions in order.
    pub tasks: Vec<TaskReport>,
    /// What runs them, where a worker has several tasks, and may have none yet: on Kafka.
    pub workers: Vec<WorkerReport>,
}

/// What a worker is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerReport {
    /// The stage.
    pub stage: String,
    /// Its number among the application's workers in this process.
    pub number: usize,
    /// Whether it works.
    pub state: StateWord,
    /// Why it does not, or what failed; as in [`TaskReport::message`].
    pub message: Option<String>,
    /// How often in a row a step has failed.
    pub attempt: u32,
    /// How often log starts and identities were judged.
    pub checks: u64,
    /// How often it was looked for what was deleted of what stamps claim.
    pub sweeps: u64,
    /// How often the cluster did not answer either, or for high watermarks.
    pub unanswered: u64,
}

/// A kind of host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum HostKind {
    /// In one process, over a log of its own.
    Embedded,
    /// On Apache Kafka: this process's share of the application.
    Kafka,
}

/// What a task is doing. Counts are of committed steps, since the host has had the task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TaskReport {
    /// The stage.
    pub stage: String,
    /// The stage's partition.
    pub partition: i32,
    /// Whether it runs.
    pub state: StateWord,
    /// Why it does not, or what failed. The words are the application's own where its code failed, and may quote what a record says.
    pub message: Option<String>,
    /// The guard's code, if one has stopped it.
    #[serde(serialize_with = "refusal_code")]
    pub refusal: Option<RefusalCode>,
    /// How often in a row a step has failed; 0 when the last one did not.
    pub attempt: u32,
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
    /// Steps committed, those of openings included.
    pub steps: u64,
    /// Steps given up because of a failure.
    pub failed_steps: u64,
    /// The longest clock received or sent since the task was last opened, in bytes.
    pub widest_clock_bytes: u64,
    /// How far its state is read back, while it is.
    pub restoring: Option<Restoring>,
    /// Where it reads, in channel order.
    pub inputs: Vec<InputReport>,
}

impl TaskReport {
    /// A task of which nothing is known but its state.
    pub fn new(stage: impl Into<String>, partition: i32, state: StateWord) -> Self {
        Self {
            stage: stage.into(),
            partition,
            state,
            message: None,
            refusal: None,
            attempt: 0,
            received: 0,
            dropped: 0,
            delivered: 0,
            ticks: 0,
            held: 0,
            steps: 0,
            failed_steps: 0,
            widest_clock_bytes: 0,
            restoring: None,
            inputs: Vec::new(),
        }
    }
}

/// Whether a task runs, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum StateWord {
    /// Its partition was assigned, and it is not open yet.
    Assigned,
    /// Its state is read back.
    Restoring,
    /// It works, or waits for something to do.
    Running,
    /// A step failed, and will be tried again.
    Retrying,
    /// It waits until the cluster says what was deleted.
    Unchecked,
    /// A guard has stopped it.
    Refused,
    /// It has failed for good.
    Failed,
    /// It was stopped.
    Stopped,
}

impl StateWord {
    /// The word. Stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Assigned => "assigned",
            Self::Restoring => "restoring",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Unchecked => "unchecked",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

impl fmt::Display for StateWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How far a task's state is read back from the changelogs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Restoring {
    /// How many records were read.
    pub records: u64,
    /// How many offsets are left.
    pub left: u64,
}

/// Where a task reads an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct InputReport {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The next position to read; all below was taken in.
    pub position: Offset,
    /// How many offsets can be read beyond it, as far as the host knows: markers and withdrawn records are among them.
    pub lag: u64,
    /// Records of this input that are taken in and wait.
    pub held: u64,
    /// How long ago this process took in the first of them, in milliseconds; `None` when none waits.
    pub oldest_hold_ms: Option<u64>,
}

impl InputReport {
    /// An input of which nothing is held.
    pub fn new(topic: impl Into<String>, partition: i32, position: Offset, lag: u64) -> Self {
        Self {
            topic: topic.into(),
            partition,
            position,
            lag,
            held: 0,
            oldest_hold_ms: None,
        }
    }
}

fn refusal_code<S: Serializer>(code: &Option<RefusalCode>, to: S) -> Result<S::Ok, S::Error> {
    code.map(RefusalCode::as_str).serialize(to)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_state_is_one_word_wherever_it_is_told() {
        use StateWord::{
            Assigned, Failed, Refused, Restoring, Retrying, Running, Stopped, Unchecked,
        };
        for state in [
            Assigned, Restoring, Running, Retrying, Unchecked, Refused, Failed, Stopped,
        ] {
            assert_eq!(state.to_string(), state.as_str());
            assert_eq!(json!(state), json!(state.as_str()));
        }
    }

    /// What stands here is read by other programs.
    #[test]
    fn a_report_has_these_names_in_json() {
        let mut task = TaskReport::new("settle", 1, StateWord::Refused);
        task.refusal = Some(RefusalCode::ClockTooWide);
        task.message = Some("too wide".into());
        task.restoring = Some(Restoring {
            records: 3,
            left: 4,
        });
        let mut input = InputReport::new("orders", 1, 9, 2);
        (input.held, input.oldest_hold_ms) = (1, Some(250));
        task.inputs.push(input);
        let report = Report {
            application: "shop".into(),
            host: HostKind::Kafka,
            tasks: vec![task],
            workers: vec![WorkerReport {
                stage: "settle".into(),
                number: 0,
                state: StateWord::Unchecked,
                message: None,
                attempt: 0,
                checks: 1,
                sweeps: 2,
                unanswered: 3,
            }],
        };
        let expected = json!({
            "application": "shop", "host": "kafka", "tasks": [{
                "stage": "settle", "partition": 1, "state": "refused", "message": "too wide", "refusal": "vc-clock-too-wide",
                "attempt": 0, "received": 0, "dropped": 0, "delivered": 0, "ticks": 0, "held": 0, "steps": 0, "failed_steps": 0,
                "widest_clock_bytes": 0, "restoring": {"records": 3, "left": 4},
                "inputs": [{"topic": "orders", "partition": 1, "position": 9, "lag": 2, "held": 1, "oldest_hold_ms": 250}],
            }],
            "workers": [{
                "stage": "settle", "number": 0, "state": "unchecked", "message": null, "attempt": 0, "checks": 1, "sweeps": 2,
                "unanswered": 3,
            }],
        });
        assert_eq!(serde_json::to_value(&report).expect("plain data"), expected);
    }

    #[test]
    fn a_states_word_is_the_one_in_json() {
        use StateWord::*;
        for state in [
            Assigned, Restoring, Running, Retrying, Unchecked, Refused, Failed, Stopped,
        ] {
            assert_eq!(
                serde_json::to_value(state).expect("a word"),
                state.as_str(),
                "{state}"
            );
        }
    }
}
