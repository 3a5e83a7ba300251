//! Runs a Parsley application inside one process.

mod log;
mod time;

pub use log::{
    Appended, Consumer, Ids, Log, LogConfig, NewRecord, PARTITIONS_MAX, Producer, ReadError, SendError, TopicConfig,
    TopicError, Transaction,
};
pub use time::TimeSource;
