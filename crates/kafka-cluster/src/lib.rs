//! Starts real Apache Kafka brokers for tests.
//!
//! [`KafkaJars::fetch`] brings the broker's jars to a folder once, with Maven. [`KafkaCluster::start`] runs brokers from them on
//! free loopback ports, waits until they answer, and ends them when it is dropped. A broker also ends when the process that
//! started it dies without dropping anything. Clients can be kept behind a [`proxy`], which loses, delays and holds back what a test says.
//!
//! Needs a Unix, Java 17 (`JAVA_HOME`, else `java` on the path) and Maven (`mvn` on the path, for the first fetch only).

mod access;
mod ask;
mod broker;
mod cluster;
mod jars;
mod java;
mod metadata;
mod ports;
mod properties;
pub mod proxy;

pub use access::{Operation, Resource};
pub use cluster::{ClusterConfig, KafkaCluster, StartError};
pub use jars::{FetchError, KafkaJars};
pub use java::JavaError;

/// The newest version of Apache Kafka that the tests run against, and the default of [`ClusterConfig`].
pub const NEWEST: &str = "4.4.0";

/// The oldest version of Apache Kafka that the tests run against.
pub const OLDEST: &str = "3.7.0";
