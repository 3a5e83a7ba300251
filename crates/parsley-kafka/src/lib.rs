//! Runs a Parsley application on Apache Kafka.
//!
//! [`KafkaHost`] is where to begin. A step of a worker is one transaction: the sends of its tasks, what they changed of their state, and
//! the positions that they consumed become visible together, or not at all (`docs/protocol.md`, Send order, State).
//!
//! Beneath it is what the host reads from a broker beyond the safe interface of `rdkafka`: a topic's UUID ([`describe_topics`]), and a poll
//! whose partition-EOF event names its partition and carries its position ([`EventConsumer`]). [`TopicReader`] reads topics beside the
//! application, from any place, up to their ends or on and on. The facts that all of it rests on are
//! decisions K1 to K8 of `docs/decisions.md`, and `tests/broker_facts` checks them on a real broker.

mod board;
mod changelog;
mod cluster;
mod config;
pub mod edge;
mod event;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod known;
mod names;
mod native;
pub mod probe;
mod producer;
mod reader;
mod restore;
mod stage;
mod state;
mod status;
mod topic;
mod worker;

pub use changelog::ChangelogError;
pub use cluster::ClusterError;
pub use config::{ChangelogConfig, ConfigError, KafkaConfig};
pub use edge::EdgeTopics;
pub use event::{ConsumerError, Partition, Polled, Record};
pub use host::{KafkaHost, KafkaRunning, StartError};
pub use native::{EventConsumer, describe_topics};
pub use probe::{ClusterReport, Description, Finding, ProbeError, Severity, probe_cluster};
pub use reader::{
    Isolation, ReadFrom, ReadRecord, ReaderConfig, ReaderError, ReaderPosition, TopicReader,
    TopicSelection,
};
pub use stage::StageError;
pub use status::{DeliveryEvent, Status, TaskState, TaskStatus, WorkerState, WorkerStatus};
pub use topic::{DescribeError, TopicFacts};
