//! Starts real Apache Kafka brokers for tests.
