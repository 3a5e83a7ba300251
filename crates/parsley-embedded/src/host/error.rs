//! Why a host cannot be made, started or stopped.

use std::collections::BTreeMap;

use parsley_core::Refusal;
use parsley_stage::TickTopicWidth;

use crate::log::OpenError;

/// A host cannot be made as it is set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A setting that has to be at least 1 is 0.
    #[error("{setting} has to be at least 1")]
    Zero {
        /// The setting.
        setting: &'static str,
    },
    /// A setting is larger than what can be.
    #[error("{setting} is {found}, and can be {max} at most")]
    TooLarge {
        /// The setting.
        setting: &'static str,
        /// The number set.
        found: usize,
        /// The largest number possible.
        max: usize,
    },
    /// Both a log and a directory are named.
    #[error(
        "a host works over the log that it is given, or over the one in a directory, not over both"
    )]
    TwoLogs,
    /// The directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// An application cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Topics of the declaration do not exist.
    #[error("these topics do not exist: {}", topics.join(", "))]
    MissingTopics {
        /// Their names, in order.
        topics: Vec<String>,
    },
    /// The tick topic of a stage has not as many partitions as its widest input.
    #[error(transparent)]
    TickTopic(#[from] TickTopicWidth),
    /// The inputs of a stage have different numbers of partitions, so that no task sees all records of a key.
    #[error(
        "co-partition: the inputs of stage {stage} have different numbers of partitions: {}",
        listed(partitions)
    )]
    CoPartition {
        /// The stage.
        stage: String,
        /// The inputs and how many partitions each has.
        partitions: BTreeMap<String, i32>,
    },
    /// A stage of this name runs in this log already.
    #[error("the tasks of {group} are running already")]
    AlreadyRunning {
        /// The stage's consumer group.
        group: String,
    },
    /// A guard refuses the whole stage (G15).
    #[error("stage {stage}: {refusal}")]
    Refused {
        /// The stage.
        stage: String,
        /// Which guard, and why.
        refusal: Refusal,
    },
    /// A delay is set for a topic that the stage does not consume.
    #[error("a delay is set for {topic} at stage {stage}, which does not consume it")]
    Delay {
        /// The stage.
        stage: String,
        /// The topic.
        topic: String,
    },
    /// The topic of the account of deliveries is one of the application's.
    #[error(
        "the account of deliveries cannot be kept in topic {topic}, which the application declares"
    )]
    AuditDeclared {
        /// Its name.
        topic: String,
    },
    /// The topic of the account of deliveries has fewer partitions than a stage has tasks.
    #[error(
        "the account of deliveries in topic {topic} needs a partition for each task: {needed}, and there are {found}"
    )]
    AuditPartitions {
        /// Its name.
        topic: String,
        /// How many it has.
        found: i32,
        /// How many it needs.
        needed: i32,
    },
    /// The system has no thread for a task.
    #[error("no thread for a task of stage {stage}: {source}")]
    Thread {
        /// The stage.
        stage: String,
        /// The system's error.
        source: std::io::Error,
    },
}

/// An application has stopped, but not as it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// A task's thread had panicked. What it had committed stands.
    #[error("partition {partition} of stage {stage} had failed: {message}")]
    Failed {
        /// The stage.
        stage: String,
        /// The partition.
        partition: i32,
        /// The panic's message.
        message: String,
    },
}

fn listed(partitions: &BTreeMap<String, i32>) -> String {
    let each: Vec<String> = partitions
        .iter()
        .map(|(topic, count)| format!("{topic} has {count}"))
        .collect();
    each.join(", ")
}
