//! What a poll of a consumer yields.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use parsley_core::Header;
use rdkafka::message::Timestamp;
use rdkafka::types::RDKafkaErrorCode;

/// A partition of a topic, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition, from 0 on.
    pub partition: i32,
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// A record as it was fetched, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it was read.
    pub partition: Partition,
    /// Its offset there.
    pub offset: i64,
    /// Its key; `None` is a null key.
    pub key: Option<Bytes>,
    /// Its value; `None` is a null value.
    pub value: Option<Bytes>,
    /// Its headers in their order.
    pub headers: Vec<Header>,
    /// Its timestamp.
    pub timestamp: Timestamp,
}

impl Record {
    /// How long its key, value and headers are in all.
    pub(crate) fn bytes(&self) -> usize {
        let len = |field: &Option<Bytes>| field.as_ref().map_or(0, Bytes::len);
        let header = |header: &Header| header.name.len() + len(&header.value);
        len(&self.key) + len(&self.value) + self.headers.iter().map(header).sum::<usize>()
    }
}

/// One thing that happened to a consumer, in the order in which librdkafka queued it.
///
/// A rebalance is a value here and no callback, so that whoever polls can commit or abort its open transaction with everything at
/// hand before it acknowledges (decision K6). While it is not acknowledged, the group's rebalance waits for this member, up to
/// `max.poll.interval.ms`.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a rebalance that is not acknowledged stops the consumer"]
#[non_exhaustive]
pub enum Polled {
    /// A record.
    Record(Record),
    /// The fetch position of a partition reached its end: in read-committed mode, the last stable offset. Everything below `offset`
    /// was polled before this, or will never arrive (decision K3). Raised only with `enable.partition.eof=true`.
    Eof {
        /// The partition.
        partition: Partition,
        /// The position: the offset that is read next.
        offset: i64,
    },
    /// The group gave these partitions to this member. To be acknowledged with `assign` on the consumer, with start positions.
    Assigned(Vec<Partition>),
    /// The group takes these partitions from this member. To be acknowledged with `unassign` on the consumer.
    Revoked {
        /// The partitions.
        partitions: Vec<Partition>,
        /// Whether they are lost: others may own them already, and a transaction about them can only be aborted.
        lost: bool,
    },
    /// The consumer failed in some way. Most errors pass by themselves; [`ConsumerError::fatal`] tells those that do not.
    Error(ConsumerError),
}

/// An error that a consumer reports.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{code}{}: {reason}", .partition.as_ref().map(|partition| format!(" on {partition}")).unwrap_or_default())]
pub struct ConsumerError {
    /// Its code.
    pub code: RDKafkaErrorCode,
    /// Whether the client is beyond repair and has to be made anew.
    pub fatal: bool,
    /// The partition that it concerns, when it concerns one.
    pub partition: Option<Partition>,
    /// librdkafka's words.
    pub reason: String,
}
