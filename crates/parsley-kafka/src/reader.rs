//! Reading topics beside the application: no group, no commit, from any place.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parsley_core::{Channel, Header, Offset, TopicId};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset as KafkaOffset, TopicPartitionList};

use crate::cluster::{Cluster, ClusterError};
use crate::event::{ConsumerError, Partition, Polled, Record};
use crate::native::EventConsumer;

mod config;
mod error;

pub use config::{Isolation, ReadFrom, ReaderConfig, TopicSelection};
pub use error::ReaderError;

/// How much one poll gathers at most, in records and in bytes of keys and values.
const BATCH_RECORDS: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;

/// How often topic identities are looked at while reading.
const IDENTITY_INTERVAL: Duration = Duration::from_secs(30);

/// How long an opening waits for what is decided already to show: a commit is answered before its markers are written, so the last stable
/// offset follows a little later (decision K8).
const SETTLING: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// A record, with the identity of its topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRecord {
    /// The name of its topic.
    pub topic: Arc<str>,
    /// Its channel.
    pub channel: Channel,
    /// Its offset there.
    pub offset: Offset,
    /// Its timestamp, in milliseconds since the Unix epoch, if it has one.
    pub timestamp_ms: Option<i64>,
    /// Its key; `None` is null.
    pub key: Option<Bytes>,
    /// Its value; `None` is null.
    pub value: Option<Bytes>,
    /// All headers, the protocol's among them.
    pub headers: Vec<Header>,
}

/// How far a partition was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderPosition {
    /// The name of the topic.
    pub topic: Arc<str>,
    /// The channel.
    pub channel: Channel,
    /// The offset that is read next. Everything below it was handed out, or will never come; it can lie above the last record plus one.
    pub position: Offset,
    /// Where the partition ended at the opening, for this reader: reading committed records, its last stable offset.
    pub end: Offset,
    /// The high watermark at the opening. Above `end`, there was a transaction that was not decided.
    pub high_watermark: Offset,
}

impl ReaderPosition {
    /// Whether everything was read that was there at the opening.
    pub fn is_at_end(&self) -> bool {
        self.position >= self.end
    }
}

/// Reads partitions of topics, beside the groups that consume them: it joins none and commits nothing.
///
/// The end of a partition is a position, never a record: the last offset of a committed transaction is a marker that no reader sees, and so
/// are aborted records (decisions K2, K3). [`TopicReader::positions`] tells how far each partition was read.
pub struct TopicReader {
    config: ReaderConfig,
    consumer: EventConsumer,
    cluster: Cluster,
    topics: BTreeMap<Arc<str>, TopicId>,
    positions: BTreeMap<Partition, ReaderPosition>,
    identity_at: Instant,
    /// Since when no broker is connected, as far as is known.
    unreachable_since: Option<Instant>,
}

impl fmt::Debug for TopicReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicReader")
            .field("config", &self.config)
            .field("positions", &self.positions)
            .finish_non_exhaustive()
    }
}

impl TopicReader {
    /// Finds the topics, their ends, and where to begin.
    ///
    /// # Errors
    ///
    /// [`ReaderError`]: the configuration, a topic or a partition that there is not or that may not be read, an offset that is outside of
    /// what is there, a cluster that does not answer.
    pub fn open(config: &ReaderConfig, selections: &[TopicSelection]) -> Result<Self, ReaderError> {
        config.check()?;
        let mut client = config.client();
        client
            // It joins no group: the name is only for its queue.
            .set("group.id", "parsley-reader")
            .set("isolation.level", config.isolation.as_str())
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            // A position that is out of range is an error, never a silent jump.
            .set("auto.offset.reset", "error")
            .set("allow.auto.create.topics", "false");
        let consumer: BaseConsumer = client.create().map_err(ReaderError::Client)?;
        let mut reader = Self {
            config: config.clone(),
            consumer: EventConsumer::new(consumer).map_err(ReaderError::Client)?,
            cluster: Cluster::of(config.client()).map_err(ReaderError::Client)?,
            topics: BTreeMap::new(),
            positions: BTreeMap::new(),
            identity_at: Instant::now(),
            unreachable_since: None,
        };
        reader.find(selections)?;
        let mut assignment = TopicPartitionList::new();
        for (partition, position) in &reader.positions {
            let from = KafkaOffset::Offset(position.position);
            assignment
                .add_partition_offset(&partition.topic, partition.partition, from)
                .map_err(ReaderError::Client)?;
        }
        let consumer = reader.consumer.consumer();
        consumer.assign(&assignment).map_err(ReaderError::Client)?;
        if config.until_end {
            let read: Vec<Partition> = reader.positions.keys().cloned().collect();
            read.iter().try_for_each(|one| reader.leave_at_end(one))?;
        }
        Ok(reader)
    }

    fn find(&mut self, selections: &[TopicSelection]) -> Result<(), ReaderError> {
        let mut names: Vec<&str> = selections.iter().map(|one| &*one.topic).collect();
        names.sort_unstable();
        names.dedup();
        let found = self
            .cluster
            .topics_within(&names, self.config.answer_timeout);
        let found = found.map_err(|error| self.no_answer(error))?;
        for selection in selections {
            let Some(Some(info)) = found.get(&selection.topic) else {
                let topic = selection.topic.clone();
                return Err(ReaderError::UnknownTopic { topic });
            };
            let name: Arc<str> = Arc::from(&*selection.topic);
            self.topics.insert(Arc::clone(&name), info.id);
            let partitions = match &selection.partitions[..] {
                [] => (0..info.partitions).collect(),
                some => some.to_vec(),
            };
            for partition in partitions {
                if !(0..info.partitions).contains(&partition) {
                    return Err(ReaderError::UnknownPartition {
                        topic: selection.topic.clone(),
                        partition,
                        partitions: info.partitions,
                    });
                }
                let partition = Partition {
                    topic: Arc::clone(&name),
                    partition,
                };
                let position = self.begin(&partition, info.id, selection.from)?;
                self.positions.insert(partition, position);
            }
        }
        Ok(())
    }

    /// Where a partition begins and ends.
    fn begin(
        &self,
        partition: &Partition,
        topic: TopicId,
        from: ReadFrom,
    ) -> Result<ReaderPosition, ReaderError> {
        let patience = Instant::now() + SETTLING;
        let (start, end, high_watermark) = loop {
            let (start, high_watermark) = self.bounds(Isolation::ReadUncommitted, partition)?;
            if self.config.isolation == Isolation::ReadUncommitted {
                break (start, high_watermark, high_watermark);
            }
            let (_, last_stable) = self.bounds(Isolation::ReadCommitted, partition)?;
            if last_stable >= high_watermark || Instant::now() >= patience {
                break (start, last_stable, high_watermark);
            }
            std::thread::sleep(BETWEEN_LOOKS);
        };
        let position = match from {
            ReadFrom::Start => start,
            ReadFrom::End => end,
            ReadFrom::Offset(offset) if (start..=high_watermark).contains(&offset) => offset,
            ReadFrom::Offset(offset) => {
                return Err(ReaderError::OutOfRange {
                    partition: partition.clone(),
                    offset,
                    start,
                    end: high_watermark,
                });
            }
            ReadFrom::Timestamp(at) => self.first_since(partition, at)?.unwrap_or(end),
        };
        Ok(ReaderPosition {
            topic: Arc::clone(&partition.topic),
            channel: topic.partition(partition.partition),
            position,
            end,
            high_watermark,
        })
    }

    /// The log start, and the end that a reader of that isolation has.
    fn bounds(
        &self,
        isolation: Isolation,
        partition: &Partition,
    ) -> Result<(Offset, Offset), ReaderError> {
        let asked = match isolation {
            Isolation::ReadUncommitted => self.cluster.client(),
            Isolation::ReadCommitted => self.consumer.consumer(),
        };
        asked
            .fetch_watermarks(
                &partition.topic,
                partition.partition,
                self.config.answer_timeout,
            )
            .map_err(|source| {
                ReaderError::of_partition(&self.config.brokers, partition, "offsets", source)
            })
    }

    /// The offset of the first record that is not older.
    fn first_since(&self, partition: &Partition, at: i64) -> Result<Option<Offset>, ReaderError> {
        let failed = |source| {
            ReaderError::of_partition(
                &self.config.brokers,
                partition,
                "the offset of a timestamp",
                source,
            )
        };
        let mut asked = TopicPartitionList::new();
        asked
            .add_partition_offset(
                &partition.topic,
                partition.partition,
                KafkaOffset::Offset(at),
            )
            .map_err(ReaderError::Client)?;
        let consumer = self.consumer.consumer();
        let answer = consumer
            .offsets_for_times(asked, self.config.answer_timeout)
            .map_err(failed)?;
        let Some(found) = answer.find_partition(&partition.topic, partition.partition) else {
            return Ok(None);
        };
        found.error().map_err(failed)?;
        Ok(match found.offset() {
            KafkaOffset::Offset(offset) => Some(offset),
            _ => None,
        })
    }

    /// Waits up to `timeout` for something to read, and hands out what is there, up to a bound. It may be nothing: see
    /// [`TopicReader::is_at_end`].
    ///
    /// # Errors
    ///
    /// [`ReaderError`]: a topic that is gone or another one, a partition that may not be read, a position that retention has passed, a
    /// cluster that is gone.
    pub fn poll(&mut self, timeout: Duration) -> Result<Vec<ReadRecord>, ReaderError> {
        self.look_after()?;
        let (mut records, mut bytes) = (Vec::new(), 0);
        let mut wait = timeout;
        while records.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
            let Some(polled) = self.consumer.poll(wait) else {
                break;
            };
            match polled {
                Polled::Record(record) => {
                    self.unreachable_since = None;
                    wait = Duration::ZERO;
                    let size = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
                    bytes += size(&record.key) + size(&record.value);
                    records.extend(self.take(record)?);
                }
                Polled::Eof { partition, offset } => {
                    self.unreachable_since = None;
                    self.advance(&partition, offset)?;
                    if self.config.until_end && self.is_at_end() {
                        break;
                    }
                }
                Polled::Error(error) => self.judge(error)?,
                Polled::Assigned(_) | Polled::Revoked { .. } => {}
            }
        }
        Ok(records)
    }

    fn take(&mut self, record: Record) -> Result<Option<ReadRecord>, ReaderError> {
        let next = record.offset + 1;
        let Some(position) = self.positions.get(&record.partition) else {
            return Ok(None);
        };
        let is_beyond = self.config.until_end && record.offset >= position.end;
        let channel = position.channel;
        self.advance(&record.partition, next)?;
        if is_beyond {
            return Ok(None);
        }
        Ok(Some(ReadRecord {
            topic: record.partition.topic,
            channel,
            offset: record.offset,
            timestamp_ms: record.timestamp.to_millis(),
            key: record.key,
            value: record.value,
            headers: record.headers,
        }))
    }

    fn advance(&mut self, partition: &Partition, next: Offset) -> Result<(), ReaderError> {
        if let Some(position) = self.positions.get_mut(partition) {
            position.position = position.position.max(next);
        }
        self.leave_at_end(partition)
    }

    /// A reader that goes up to the ends does not fetch what is behind them while other partitions are not there yet.
    fn leave_at_end(&self, partition: &Partition) -> Result<(), ReaderError> {
        let at_end = self.positions.get(partition);
        if !self.config.until_end || !at_end.is_some_and(ReaderPosition::is_at_end) {
            return Ok(());
        }
        let mut left = TopicPartitionList::new();
        left.add_partition(&partition.topic, partition.partition);
        let consumer = self.consumer.consumer();
        consumer.pause(&left).map_err(ReaderError::Client)
    }

    /// Which errors end the reading. Most pass by themselves, and librdkafka goes on.
    fn judge(&mut self, error: ConsumerError) -> Result<(), ReaderError> {
        if error.fatal {
            return Err(ReaderError::Consumer(error));
        }
        let Some(partition) = &error.partition else {
            match error.code {
                RDKafkaErrorCode::AllBrokersDown => {
                    self.unreachable_since.get_or_insert_with(Instant::now);
                }
                RDKafkaErrorCode::Authentication => return Err(ReaderError::Consumer(error)),
                // Of the group that it never joins, it may not even be allowed to know.
                _ => tracing::debug!(%error, "reading topics"),
            }
            return Ok(());
        };
        match error.code {
            RDKafkaErrorCode::OffsetOutOfRange | RDKafkaErrorCode::AutoOffsetReset => {
                let position = self.positions.get(partition);
                let offset = position.map_or(0, |position| position.position);
                let (start, end) = self.bounds(Isolation::ReadUncommitted, partition)?;
                Err(ReaderError::OutOfRange {
                    partition: partition.clone(),
                    offset,
                    start,
                    end,
                })
            }
            code if ReaderError::is_denial(code) => Err(ReaderError::Denied {
                what: partition.to_string(),
                code,
            }),
            RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownPartition => self.check_identity(),
            _ => {
                tracing::debug!(%error, "reading topics");
                Ok(())
            }
        }
    }

    /// Looks now and then whether the topics are what they were, and whether the cluster is there when it seems not to be.
    fn look_after(&mut self) -> Result<(), ReaderError> {
        let is_lost = |since: Instant| since.elapsed() >= self.config.answer_timeout;
        if self.unreachable_since.is_some_and(is_lost)
            || self.identity_at.elapsed() >= IDENTITY_INTERVAL
        {
            self.check_identity()?;
        }
        Ok(())
    }

    /// Asks whether each topic is the one that was opened: a name may lead to another topic later, whose records are on other channels.
    ///
    /// # Errors
    ///
    /// [`ReaderError`], when one is gone or another, or the cluster does not answer.
    pub fn check_identity(&mut self) -> Result<(), ReaderError> {
        let names: Vec<&str> = self.topics.keys().map(|name| &**name).collect();
        let found = self
            .cluster
            .topics_within(&names, self.config.answer_timeout);
        let found = found.map_err(|error| self.no_answer(error))?;
        for (name, opened) in &self.topics {
            let found = found.get(&**name).copied().flatten().map(|info| info.id);
            if found != Some(*opened) {
                return Err(ReaderError::IdentityChanged {
                    topic: name.to_string(),
                    opened: *opened,
                    found,
                });
            }
        }
        (self.identity_at, self.unreachable_since) = (Instant::now(), None);
        Ok(())
    }

    /// What was wrong when the cluster gave no answer: the consumer may have heard why.
    fn no_answer(&mut self, error: ClusterError) -> ReaderError {
        let mut heard = None;
        while let Some(polled) = self.consumer.poll(Duration::ZERO) {
            match polled {
                // That all are down says less than why one of them is.
                Polled::Error(error) if error.code != RDKafkaErrorCode::AllBrokersDown => {
                    heard = Some(error);
                }
                _ => {}
            }
        }
        ReaderError::of_cluster(&self.config.brokers, error, heard)
    }

    /// How far each partition was read, by topic name and partition.
    pub fn positions(&self) -> impl Iterator<Item = &ReaderPosition> {
        self.positions.values()
    }

    /// Whether everything was read that was there at the opening.
    pub fn is_at_end(&self) -> bool {
        self.positions.values().all(ReaderPosition::is_at_end)
    }
}
