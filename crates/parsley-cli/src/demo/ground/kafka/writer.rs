//! Writes portions of commands, each in a transaction.

use std::sync::Arc;
use std::time::Duration;

use parsley::partition::partition_of;
use rdkafka::error::{KafkaError, RDKafkaError};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;

use super::cluster::{ANSWER, Cluster, is_silence};
use super::failure::ClusterFailure;
use crate::demo::error::DemoError;
use crate::demo::ground::{Entry, LogWriter, TOPICS};

/// The transactional id of whoever feeds the topics: a new one shuts out the one before, dead or alive.
const FEEDER: &str = "demo-feeder";

/// After how long the cluster gives up what a killed feeder has begun. The next run ends it at once; to one that lives this is an end as well, so
/// it is longer than a cluster mostly takes to be there again.
const TIMEOUT_MS: &str = "60000";

/// How long to wait for room in the client's queue.
const MOMENT: Duration = Duration::from_millis(5);

/// Writes portions as transactions. What could not be committed is aborted and written again.
pub struct Portions {
    cluster: Arc<Cluster>,
    producer: ThreadedProducer<DefaultProducerContext>,
    /// The portion at hand.
    entries: Vec<Entry>,
}

impl Portions {
    /// Shuts out every other run that feeds, and ends what it has begun and not committed.
    pub fn begin(cluster: &Arc<Cluster>) -> Result<Self, ClusterFailure> {
        let producer: ThreadedProducer<_> = cluster
            .client()
            .set("transactional.id", FEEDER)
            .set("transaction.timeout.ms", TIMEOUT_MS)
            .create()
            .map_err(ClusterFailure::Client)?;
        cluster.ask_client(|| producer.init_transactions(ANSWER))?;
        Ok(Self {
            cluster: Arc::clone(cluster),
            producer,
            entries: Vec::new(),
        })
    }

    fn try_commit(&self) -> Result<(), ClusterFailure> {
        let failed = |error| self.failed(error);
        self.producer.begin_transaction().map_err(failed)?;
        for entry in &self.entries {
            self.write(entry).map_err(failed)?;
        }
        self.until_decided(|| self.producer.commit_transaction(ANSWER))
    }

    fn write(&self, entry: &Entry) -> Result<(), KafkaError> {
        let mut topics = TOPICS.into_iter();
        let partitions = topics.find(|(topic, _)| *topic == entry.topic);
        let partitions = partitions.map_or(1, |(_, partitions)| partitions);
        let key = entry.key.as_deref().unwrap_or_default().as_bytes();
        let mut record = BaseRecord::to(entry.topic)
            .key(key)
            // As the stages choose it: an account's events and views are on the partition of that number.
            .partition(partition_of(Some(key), partitions))
            .payload(&entry.value);
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    std::thread::sleep(MOMENT);
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    /// Makes a call about the transaction until it has an outcome: librdkafka goes on with the call that it was making.
    fn until_decided(
        &self,
        mut call: impl FnMut() -> Result<(), KafkaError>,
    ) -> Result<(), ClusterFailure> {
        loop {
            match call() {
                Err(error) if is_silence(&error) && !requires_abort(&error) => {
                    self.cluster.interrupted()?;
                    self.cluster.is_silent(&error.to_string());
                }
                outcome => return outcome.map_err(|error| self.failed(error)),
            }
        }
    }

    fn failed(&self, error: KafkaError) -> ClusterFailure {
        let fenced = [
            RDKafkaErrorCode::Fenced,
            RDKafkaErrorCode::ProducerFenced,
            RDKafkaErrorCode::InvalidProducerEpoch,
        ];
        let fatal = self.producer.client().fatal_error().map(|(code, _)| code);
        let codes = [error.rdkafka_error_code(), fatal];
        match codes
            .into_iter()
            .flatten()
            .any(|code| fenced.contains(&code))
        {
            true => ClusterFailure::TakenOver,
            false => ClusterFailure::Write(error),
        }
    }
}

fn transaction_error(error: &KafkaError) -> Option<&RDKafkaError> {
    match error {
        KafkaError::Transaction(error) => Some(error),
        _ => None,
    }
}

fn requires_abort(error: &KafkaError) -> bool {
    transaction_error(error).is_some_and(RDKafkaError::txn_requires_abort)
}

impl LogWriter for Portions {
    fn send(&mut self, entry: Entry) -> Result<(), DemoError> {
        self.entries.push(entry);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DemoError> {
        loop {
            match self.try_commit() {
                Ok(()) => break,
                Err(ClusterFailure::Write(error)) if !is_fatal(&error) => {
                    self.cluster.interrupted()?;
                    self.until_decided(|| self.producer.abort_transaction(ANSWER))?;
                    self.cluster.is_silent(&error.to_string());
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        self.cluster.answers();
        self.entries.clear();
        Ok(())
    }
}

/// Whether nothing of this client's can be committed any more.
fn is_fatal(error: &KafkaError) -> bool {
    match transaction_error(error) {
        Some(error) => error.is_fatal() || !error.txn_requires_abort(),
        None => error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal),
    }
}
