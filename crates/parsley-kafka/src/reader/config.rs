//! What a reader reads, and how.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use parsley_core::Offset;
use rdkafka::ClientConfig;

use crate::cluster::ANSWER;
use crate::config::{ConfigError, check_properties, client_of, range, shown};

/// What a reader sees of transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// What is committed. A partition is read up to its last stable offset: the first record of a transaction that is still open.
    #[default]
    ReadCommitted,
    /// Everything, aborted records and those of open transactions among them.
    ReadUncommitted,
}

impl Isolation {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read_committed",
            Self::ReadUncommitted => "read_uncommitted",
        }
    }
}

/// Where reading begins, for each partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// At what retention has left.
    #[default]
    Start,
    /// Behind everything that is there at the opening.
    End,
    /// At this offset, which is not outside of what is there.
    Offset(Offset),
    /// At the first record with this timestamp or a later one, in milliseconds since the Unix epoch; at the end if there is none.
    Timestamp(i64),
}

/// A topic to read, or some of its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSelection {
    /// Its name.
    pub topic: String,
    /// The partitions; empty for all.
    pub partitions: Vec<i32>,
    /// Where to begin.
    pub from: ReadFrom,
}

impl TopicSelection {
    /// All of a topic.
    pub fn whole(topic: impl Into<String>) -> Self {
        Self {
            topic: topic.into(),
            partitions: Vec::new(),
            from: ReadFrom::Start,
        }
    }
}

/// How a reader is configured. Printing it shows no secret.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReaderConfig {
    /// Where to find the cluster: `host:port`, several separated by commas.
    pub brokers: String,
    /// What it sees of transactions; by default what is committed.
    pub isolation: Isolation,
    /// Whether it reads up to the ends that the partitions have at the opening, and nothing behind them. Default: it reads on and on.
    pub until_end: bool,
    /// How long one answer of the cluster may take. Default 10 s.
    pub answer_timeout: Duration,
    /// Further properties of librdkafka: security, buffers. Those that [`KafkaConfig`](crate::KafkaConfig) refuses are refused here.
    pub properties: BTreeMap<String, String>,
}

impl ReaderConfig {
    /// A configuration with defaults.
    pub fn new(brokers: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            isolation: Isolation::default(),
            until_end: false,
            answer_timeout: ANSWER,
            properties: BTreeMap::new(),
        }
    }

    /// Sets what it sees of transactions.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets whether it ends where the partitions end at the opening.
    #[must_use]
    pub fn until_end(mut self, until_end: bool) -> Self {
        self.until_end = until_end;
        self
    }

    /// Sets a property of librdkafka.
    #[must_use]
    pub fn property(mut self, property: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(property.into(), value.into());
        self
    }

    /// Checks every setting.
    ///
    /// # Errors
    ///
    /// When there are no brokers, or a property of librdkafka is not to be set, unknown, or has a value that librdkafka does not take.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.brokers.trim().is_empty() {
            let expected = "host:port, several separated by commas";
            return Err(range("brokers", "empty", expected));
        }
        check_properties(&self.properties)
    }

    pub(super) fn client(&self) -> ClientConfig {
        client_of(&self.brokers, &self.properties)
    }
}

impl fmt::Debug for ReaderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReaderConfig")
            .field("brokers", &self.brokers)
            .field("isolation", &self.isolation)
            .field("until_end", &self.until_end)
            .field("answer_timeout", &self.answer_timeout)
            .field("properties", &shown(&self.properties))
            .finish()
    }
}
