//! Why the demo cannot run to its end.

use std::io;
use std::path::PathBuf;

use parsley::BuildError;
use parsley::core::Refusal;
use parsley::embedded::{
    HostError, OpenError, ReadError, SendError, StartError, StopError, StorageError, TopicError,
};
use parsley::status::{RecorderTaken, ServeError};

#[cfg(feature = "kafka")]
use super::ground::ClusterFailure;
use super::taken::OtherInput;
use crate::exit::Exit;

/// Why the demo cannot run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The topology is not well formed.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The host cannot be made.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A topic cannot be made, or not be trimmed.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// The application cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The application did not stop as it should.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// The directory of data cannot be read or written.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A command cannot be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// A topic cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The directory has the topics of something else.
    #[error("{} is another application's: {found}; name a new directory", data.display())]
    OtherApplication {
        /// The directory.
        data: PathBuf,
        /// What it has that the demo has not.
        found: String,
    },
    /// This program was built without what speaks to brokers.
    #[cfg(not(feature = "kafka"))]
    #[error(
        "this program was built without its feature `kafka`: build it with `cargo build --release -p parsley-cli --features kafka`"
    )]
    WithoutKafka,
    /// The cluster, or what the demo has on it, does not let it run.
    #[cfg(feature = "kafka")]
    #[error(transparent)]
    Cluster(#[from] ClusterFailure),
    /// The input is not the one that earlier runs took lines of.
    #[error(
        "{input} is not {place} begun with: {lines} lines were taken, and it {fault}; nothing was changed"
    )]
    OtherInput {
        /// Which input.
        input: String,
        /// What was begun with another.
        place: &'static str,
        /// How many lines were taken.
        lines: u64,
        /// How it differs.
        fault: OtherInput,
    },
    /// A topic is not the one that the earlier runs had.
    #[error(
        "topic {topic} is not the one that the runs before had: it was made anew, its identity is {found} and was {noted}; nothing was changed"
    )]
    OtherTopic {
        /// The topic's name.
        topic: String,
        /// The identity that was noted.
        noted: String,
        /// The identity that it has.
        found: String,
    },
    /// A record is not what the demo's stages write.
    #[error("{topic}:{partition}@{offset} is not what was expected: {reason}")]
    Record {
        /// Its topic.
        topic: String,
        /// Its partition.
        partition: i32,
        /// Its offset.
        offset: i64,
        /// What is wrong with it.
        reason: String,
    },
    /// A guard stopped a task.
    #[error("partition {partition} of stage {stage}: {refusal}")]
    Refused {
        /// The stage.
        stage: String,
        /// The partition.
        partition: i32,
        /// Why.
        refusal: Refusal,
    },
    /// A task failed.
    #[error("partition {partition} of stage {stage} failed: {message}")]
    Failed {
        /// The stage.
        stage: String,
        /// The partition.
        partition: i32,
        /// What failed.
        message: String,
    },
    /// A worker of a stage has ended.
    #[cfg(feature = "kafka")]
    #[error("stage {stage} failed: {message}")]
    Worker {
        /// The stage.
        stage: String,
        /// What failed.
        message: String,
    },
    /// The page of the status cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Metrics cannot be recorded.
    #[error(transparent)]
    Metrics(#[from] RecorderTaken),
    /// A thread cannot be started.
    #[error("no thread: {0}")]
    Thread(#[source] io::Error),
    /// Nothing is heard of the application any more.
    #[error("the application went away before all was done")]
    Silent,
    /// The trace cannot be written.
    #[error("the trace {} cannot be written: {source}", path.display())]
    Trace {
        /// Where to.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The trace is a file that the demo reads from or prints to.
    #[error(
        "the trace {} is the same file as {other}, expected a file of its own; nothing was written to it",
        path.display()
    )]
    TraceShared {
        /// Where the trace was to go.
        path: PathBuf,
        /// What else is there.
        other: String,
    },
    /// The trace is to go where the demo keeps its data.
    #[error("the trace {} lies in {}, where the data are, expected a file outside", path.display(), data.display())]
    TraceInData {
        /// Where the trace was to go.
        path: PathBuf,
        /// The directory.
        data: PathBuf,
    },
    /// The trace is to go where the report goes.
    #[error("found `--trace -`, expected a file: standard output has the report")]
    TraceToStandardOutput,
}

impl DemoError {
    /// The signal that the demo was asked to end by.
    pub fn signal(&self) -> Option<i32> {
        match self {
            #[cfg(feature = "kafka")]
            Self::Cluster(failure) => failure.signal(),
            _ => None,
        }
    }

    /// The exit code that stands for it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Refused { .. } | Self::Start(StartError::Refused { .. }) => Exit::Refused,
            Self::Trace { .. }
            | Self::Serve(_)
            | Self::Storage(_)
            | Self::Topic(TopicError::Storage(_))
            | Self::Send(SendError::Storage(_))
            | Self::Read(ReadError::Storage(_)) => Exit::Io,
            Self::Host(HostError::Open(OpenError::Foreign { .. })) => Exit::Usage,
            Self::Host(HostError::Open(_)) => Exit::Io,
            #[cfg(feature = "kafka")]
            Self::Cluster(error) => error.exit(),
            #[cfg(not(feature = "kafka"))]
            Self::WithoutKafka => Exit::Usage,
            Self::TraceShared { .. }
            | Self::TraceInData { .. }
            | Self::TraceToStandardOutput
            | Self::OtherApplication { .. }
            | Self::OtherInput { .. }
            | Self::OtherTopic { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
