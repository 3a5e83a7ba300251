//! Why a cluster could not be probed.

use crate::exit::Exit;

/// A cluster cannot be probed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The program was built without the client.
    #[cfg(not(feature = "kafka"))]
    #[error(
        "this build cannot speak to Kafka: build it with `cargo build --release -p parsley-cli --features kafka`"
    )]
    NoKafka,
    /// A property is none.
    #[cfg(feature = "kafka")]
    #[error(transparent)]
    Property(#[from] crate::property::PropertyError),
    /// The file describes no application.
    #[cfg(feature = "kafka")]
    #[error("{input} describes no application: {source}")]
    Description {
        /// Which input.
        input: String,
        /// Why.
        source: parsley::kafka::probe::DescriptionError,
    },
    /// The file is longer than a description is.
    #[cfg(feature = "kafka")]
    #[error("{input} describes no application: it is longer than {bytes_max} bytes")]
    TooLong {
        /// Which input.
        input: String,
        /// How many bytes are read.
        bytes_max: u64,
    },
    /// The file is no text.
    #[cfg(feature = "kafka")]
    #[error("{input} describes no application: it is not UTF-8: {source}")]
    NoText {
        /// Which input.
        input: String,
        /// Where it is not.
        source: std::str::Utf8Error,
    },
    /// The cluster did not answer.
    #[cfg(feature = "kafka")]
    #[error("the cluster at {brokers} cannot be looked at: {source}")]
    Cluster {
        /// The brokers that were asked.
        brokers: String,
        /// Why.
        source: Box<parsley::kafka::ProbeError>,
    },
}

impl ProbeError {
    /// The exit code that stands for it.
    pub fn exit(&self) -> Exit {
        match self {
            #[cfg(not(feature = "kafka"))]
            Self::NoKafka => Exit::Usage,
            #[cfg(feature = "kafka")]
            Self::Property(_)
            | Self::Description { .. }
            | Self::TooLong { .. }
            | Self::NoText { .. } => Exit::Usage,
            #[cfg(feature = "kafka")]
            Self::Cluster { source, .. } => match **source {
                parsley::kafka::ProbeError::Directory(_) => Exit::Io,
                _ => Exit::Cluster,
            },
        }
    }
}
