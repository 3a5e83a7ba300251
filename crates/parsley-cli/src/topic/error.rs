//! Why a command about topics did not end well.

use crate::exit::Exit;

/// A command about topics did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopicError {
    /// Nothing that was given can be right or wrong.
    #[error("there is nothing to judge: no input has a line")]
    NothingToJudge,
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
    /// The topic cannot be read, or not any further.
    #[cfg(feature = "kafka")]
    #[error(transparent)]
    Reader(#[from] parsley::kafka::ReaderError),
}

impl TopicError {
    /// The exit code that stands for it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::NothingToJudge => Exit::Failed,
            #[cfg(not(feature = "kafka"))]
            Self::NoKafka => Exit::Usage,
            #[cfg(feature = "kafka")]
            Self::Property(_) | Self::Reader(parsley::kafka::ReaderError::Config(_)) => Exit::Usage,
            #[cfg(feature = "kafka")]
            Self::Reader(_) => Exit::Cluster,
        }
    }
}
