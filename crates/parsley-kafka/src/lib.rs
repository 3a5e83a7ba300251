//! Runs a Parsley application on Apache Kafka.
//!
//! What exists so far is what the host reads from a broker beyond the safe interface of `rdkafka`: a topic's UUID
//! ([`describe_topics`]), and a poll whose partition-EOF event names its partition and carries its position
//! ([`EventConsumer`]). The facts that they rest on are decisions K1 to K6 of `docs/decisions.md`, and `tests/broker_facts.rs` checks
//! them on a real broker.

mod config;
mod event;
mod native;
mod topic;

pub use config::{ChangelogConfig, ConfigError, KafkaConfig};
pub use event::{ConsumerError, Partition, Polled, Record};
pub use native::{EventConsumer, describe_topics};
pub use topic::{DescribeError, TopicFacts};
