//! What the cluster says of a topic.

use rdkafka::types::RDKafkaErrorCode;
use uuid::Uuid;

/// A topic's identity and size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicFacts {
    /// Its name.
    pub name: String,
    /// Its UUID: another one for a topic that was deleted and created again under the same name (decision K1).
    pub id: Uuid,
    /// How many partitions it has.
    pub partitions: usize,
}

/// What a client does with a topic, or may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Permitted {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

/// Why a topic, or all the topics asked for, could not be described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// The cluster knows no topic of that name. A topic that was just created can be unknown to some broker for a moment.
    #[error("topic `{name}` is unknown to the cluster")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The cluster refused to describe this topic.
    #[error("topic `{name}` was not described: {code}: {reason}{}", grant_of(*code))]
    Topic {
        /// The name.
        name: String,
        /// The cluster's code.
        code: RDKafkaErrorCode,
        /// The cluster's or librdkafka's words.
        reason: String,
    },
    /// The broker knows no topic UUIDs: it is older than Apache Kafka 2.8.
    #[error("the cluster gave no UUID for topic `{name}`: Apache Kafka 3.7 or newer is needed")]
    NoUuid {
        /// The name.
        name: String,
    },
    /// A name holds a zero byte, which no topic's name can.
    #[error("{name:?} is no topic name: it holds a zero byte")]
    Name {
        /// The name.
        name: String,
    },
    /// The whole request failed.
    #[error("topics were not described: {code}: {reason}")]
    Request {
        /// The code.
        code: RDKafkaErrorCode,
        /// librdkafka's words.
        reason: String,
    },
}

/// What to grant, if that is what was refused for.
fn grant_of(code: RDKafkaErrorCode) -> &'static str {
    match code {
        RDKafkaErrorCode::TopicAuthorizationFailed => ": grant Describe on it",
        _ => "",
    }
}
