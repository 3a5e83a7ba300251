//! What a log refuses to do.

use parsley_core::{Channel, Offset, StoreError, TopicId};

use super::StorageError;

/// A topic could not be created, changed or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopicError {
    /// The name is taken.
    #[error("topic {topic} exists already")]
    Exists {
        /// The name.
        topic: String,
    },
    /// There is no topic of this name.
    #[error("there is no topic {topic}")]
    Unknown {
        /// The name.
        topic: String,
    },
    /// There is no such partition, or its topic has been deleted.
    #[error("there is no partition {channel}")]
    UnknownPartition {
        /// The partition asked for.
        channel: Channel,
    },
    /// The name is not one that Kafka would take: 1 to 249 characters out of letters, digits, `.`, `_`, `-`, and not `.` or `..`.
    #[error(
        "{topic:?} is no name for a topic: 1 to 249 characters out of a-z, A-Z, 0-9, '.', '_' and '-', and not '.' or '..'"
    )]
    Name {
        /// The name as given, shortened when it is long.
        topic: String,
    },
    /// The number of partitions is out of range.
    #[error("topic {topic} cannot have {found} partitions: 1 to {partitions_max} are possible")]
    Partitions {
        /// The topic's name.
        topic: String,
        /// The number asked for.
        found: i32,
        /// The largest number possible.
        partitions_max: i32,
    },
    /// The retention is out of range: at least one offset has to be kept.
    #[error("topic {topic} cannot keep {found} offsets: at least 1 has to be kept")]
    Retention {
        /// The topic's name.
        topic: String,
        /// The number asked for.
        found: u64,
    },
    /// Records cannot be deleted up to an offset that was never written.
    #[error(
        "records of {channel} cannot be deleted below {before}: its offsets are {log_start} to {high_watermark}"
    )]
    OutOfRange {
        /// The partition.
        channel: Channel,
        /// The bound asked for.
        before: Offset,
        /// The lowest offset kept.
        log_start: Offset,
        /// One past the last offset.
        high_watermark: Offset,
    },
    /// The directory could not be read or written.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// A record could not be appended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// There is no topic of this name.
    #[error("there is no topic {topic}")]
    UnknownTopic {
        /// The name.
        topic: String,
    },
    /// The topic that a step sends to has been deleted since the step began.
    #[error("topic {topic} has been deleted")]
    DeletedTopic {
        /// Its identity.
        topic: TopicId,
    },
    /// The topic has no such partition.
    #[error("topic {topic} has partitions 0 to {}, not {found}", partitions - 1)]
    UnknownPartition {
        /// The topic's name.
        topic: String,
        /// The partition asked for.
        found: i32,
        /// How many partitions the topic has.
        partitions: i32,
    },
    /// The record is larger than the log takes.
    #[error(
        "a record of {bytes} bytes for topic {topic} is larger than record_bytes_max, {bytes_max}"
    )]
    TooLarge {
        /// The topic's name.
        topic: String,
        /// Size of the record: key, value, and the names and values of its headers.
        bytes: usize,
        /// The largest size taken ([`LogConfig::record_bytes_max`](crate::LogConfig::record_bytes_max)).
        bytes_max: usize,
    },
    /// The directory could not be read or written.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Records could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There is no topic of this name.
    #[error("there is no topic {topic}")]
    UnknownTopic {
        /// The name.
        topic: String,
    },
    /// The topic that was subscribed to has been deleted. A new one under its name is another topic, and is subscribed to anew.
    #[error("topic {topic} has been deleted")]
    DeletedTopic {
        /// Its name.
        topic: String,
    },
    /// The topic has no such partition.
    #[error("topic {topic} has partitions 0 to {}, not {found}", partitions - 1)]
    UnknownPartition {
        /// The topic's name.
        topic: String,
        /// The partition asked for.
        found: i32,
        /// How many partitions the topic has.
        partitions: i32,
    },
    /// The position lies below what retention left, or above what was written.
    #[error(
        "position {position} of {channel} is not between its log start {log_start} and its end {high_watermark}"
    )]
    OutOfRange {
        /// The partition.
        channel: Channel,
        /// The position asked for.
        position: Offset,
        /// The lowest offset kept.
        log_start: Offset,
        /// One past the last offset.
        high_watermark: Offset,
    },
    /// A task's state could not be read.
    #[error("{reason}")]
    State {
        /// What the store says.
        reason: String,
    },
    /// The directory could not be read or written.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::State {
            reason: error.to_string(),
        }
    }
}
