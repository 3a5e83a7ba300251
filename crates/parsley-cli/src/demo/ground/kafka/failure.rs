//! Why the demo cannot run on a cluster.

use std::io;

use parsley::kafka::{ConfigError, ReaderError, StageError, StartError};
use rdkafka::error::KafkaError;

use crate::exit::Exit;
use crate::property::PropertyError;

/// Why the demo cannot run on a cluster, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterFailure {
    /// What the command line says of the cluster is not usable.
    #[error(transparent)]
    Config(ConfigError),
    /// A property on the command line is none.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// There is no directory for what tasks keep while they run.
    #[error("no temporary directory: {0}")]
    Directory(#[source] io::Error),
    /// Signals cannot be waited for.
    #[error("no signals: {0}")]
    Signals(#[source] io::Error),
    /// Topics of the demo do not exist.
    #[error(
        "these topics do not exist: {}; `parsley demo --brokers {brokers} --create-topics` makes them",
        topics.join(", ")
    )]
    MissingTopics {
        /// Their names.
        topics: Vec<&'static str>,
        /// Where they do not.
        brokers: String,
    },
    /// Topics of the demo's names belong to something else.
    #[error(
        "the cluster has the topics of another application: {found}; expected those of the demo, or none"
    )]
    OtherTopics {
        /// What they have that the demo has not.
        found: String,
    },
    /// A topic cannot be made.
    #[error("topic {topic} cannot be made: {reason}")]
    Create {
        /// The topic.
        topic: &'static str,
        /// The cluster's words.
        reason: String,
    },
    /// A topic cannot be read.
    #[error(transparent)]
    Read(#[from] ReaderError),
    /// No client could be made.
    #[error("no client for the cluster: {0}")]
    Client(#[source] KafkaError),
    /// The application cannot be started.
    #[error(transparent)]
    Start(StartError),
    /// Commands cannot be written.
    #[error("the commands cannot be written: {0}")]
    Write(#[source] KafkaError),
    /// Another run of the demo writes commands to the topics, or the cluster gave up a transaction of this one: it says the same of both.
    #[error(
        "another run of the demo feeds these topics by now, or the cluster was away for too long; what this one fed is kept, and the next run goes on from there"
    )]
    TakenOver,
    /// The process was asked to end.
    #[error(
        "stopped before all was delivered; what was done is kept, and the next run goes on from there"
    )]
    Interrupted {
        /// By which signal.
        signal: i32,
    },
}

impl ClusterFailure {
    /// The exit code that stands for it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Config(_)
            | Self::Property(_)
            | Self::MissingTopics { .. }
            | Self::OtherTopics { .. } => Exit::Usage,
            Self::Start(StartError::Stage(StageError::CompactedInputs { .. })) => Exit::Usage,
            Self::Directory(_) => Exit::Io,
            Self::Start(StartError::Stage(StageError::Refused { .. })) => Exit::Refused,
            Self::Signals(_) | Self::Interrupted { .. } => Exit::Failed,
            _ => Exit::Cluster,
        }
    }

    /// The signal that the process was asked to end by.
    pub fn signal(&self) -> Option<i32> {
        match self {
            Self::Interrupted { signal } => Some(*signal),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A topic that was set to be compacted ended the demo with 6, as a cluster that does not answer does, and whoever tries that again tried for
    /// ever. It is how the topic is set up, as missing topics are.
    #[test]
    fn a_compacted_input_is_a_matter_of_configuration() {
        let topics = vec!["commands".to_owned()];
        let refused = StartError::Stage(StageError::CompactedInputs { topics });
        assert_eq!(ClusterFailure::Start(refused).exit(), Exit::Usage);
    }
}
