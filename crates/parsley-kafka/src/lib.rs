//! Runs a Parsley application on Apache Kafka.
