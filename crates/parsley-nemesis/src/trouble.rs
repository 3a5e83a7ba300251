//! What keeps a run from being one.

use std::io;
use std::path::PathBuf;

use rdkafka::error::KafkaError;

/// A run could not be made or judged. What a run finds wrong is no trouble: it stands in the figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// No cluster could be had, or a broker of it did not start again.
    #[error(transparent)]
    Cluster(#[from] kafka_cluster::StartError),
    /// The client library cannot do what it was asked for.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// The cluster did not do what it was asked for in time.
    #[error("{0} took too long")]
    Late(&'static str),
    /// Files or processes.
    #[error("{what}: {source}")]
    Io {
        /// What was done.
        what: &'static str,
        /// The system's words.
        source: io::Error,
    },
    /// The evidence cannot be read back.
    #[error("{}: {reason}", path.display())]
    Evidence {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The program that judges did not end as it should.
    #[error("`parsley topic check` ended with {status}: {said}")]
    Check {
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said.
        said: String,
    },
    /// The oracle was told something that cannot be.
    #[error("the oracle: {0}")]
    Oracle(#[from] parsley_oracle::Misuse),
}

impl Trouble {
    /// Says what was done when a file or a process failed.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
