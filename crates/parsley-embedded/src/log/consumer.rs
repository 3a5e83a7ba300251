//! Reading a log from outside.

use std::collections::BTreeMap;
use std::time::Duration;

use parsley_core::{Offset, Record, TopicId};

use super::fetch::Fetch;
use super::{FetchLimits, Log, OutOfRange, ReadError, StorageError};

/// How much of a partition a consumer takes at once.
const BATCH: FetchLimits = FetchLimits {
    records_max: 1024,
    bytes_max: 4 << 20,
};

/// A plain reader of one topic: committed records, partition by partition, in offset order. It belongs to no group and commits nothing.
///
/// It reads the topic that had the name when it was made. When that is deleted the consumer fails, also if a new one takes the name.
#[derive(Debug)]
pub struct Consumer {
    log: Log,
    name: String,
    topic: TopicId,
    positions: BTreeMap<i32, Offset>,
}

impl Consumer {
    /// A consumer at the log start of every partition.
    pub(super) fn new(log: Log, name: &str) -> Result<Self, ReadError> {
        let (topic, positions) = {
            let state = log.lock();
            let unknown = || ReadError::UnknownTopic {
                topic: name.to_owned(),
            };
            let topic = state.storage.topic_id(name).ok_or_else(unknown)?;
            let partitions = &state.storage.topic(topic).ok_or_else(unknown)?.partitions;
            (
                topic,
                (0..)
                    .zip(partitions.iter().map(|partition| partition.log_start()))
                    .collect(),
            )
        };
        Ok(Self {
            log,
            name: name.to_owned(),
            topic,
            positions,
        })
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.name
    }

    /// The topic's identity.
    pub fn topic_id(&self) -> TopicId {
        self.topic
    }

    /// Where it reads next, by partition.
    pub fn positions(&self) -> &BTreeMap<i32, Offset> {
        &self.positions
    }

    /// Continues at a position of a partition. Whether the position exists shows at the next read.
    ///
    /// # Errors
    ///
    /// When there is no such partition.
    pub fn seek(&mut self, partition: i32, position: Offset) -> Result<(), ReadError> {
        let partitions = self.positions.len();
        let Some(current) = self.positions.get_mut(&partition) else {
            return Err(ReadError::UnknownPartition {
                topic: self.name.clone(),
                found: partition,
                partitions: i32::try_from(partitions).unwrap_or(i32::MAX),
            });
        };
        *current = position;
        Ok(())
    }

    /// The next committed records, without waiting. None when everything committed has been read, or stands behind an open transaction.
    ///
    /// # Errors
    ///
    /// When the topic has been deleted, a position is out of range, or the directory cannot be read.
    pub fn poll_now(&mut self) -> Result<Vec<Record>, ReadError> {
        self.read(None)
    }

    /// The next committed records. Waits until there is one, but not longer than `wait`; returns none when the time is over.
    ///
    /// # Errors
    ///
    /// As [`Consumer::poll_now`].
    pub fn poll(&mut self, wait: Duration) -> Result<Vec<Record>, ReadError> {
        let waiting = self.log.waiting(wait);
        loop {
            let version = self.log.version();
            let records = self.poll_now()?;
            if !records.is_empty() || !waiting.for_change_since(version) {
                return Ok(records);
            }
        }
    }

    /// Everything that is committed by now and was not read before, without waiting for more.
    ///
    /// # Errors
    ///
    /// As [`Consumer::poll_now`].
    pub fn read_to_end(&mut self) -> Result<Vec<Record>, ReadError> {
        let ends = self.last_stable_offsets();
        let mut all = Vec::new();
        loop {
            let records = self.read(Some(&ends))?;
            if records.is_empty() {
                return Ok(all);
            }
            all.extend(records);
        }
    }

    fn last_stable_offsets(&self) -> BTreeMap<i32, Offset> {
        let state = self.log.lock();
        let end = |partition: i32| {
            Some(
                state
                    .storage
                    .partition(self.topic.partition(partition))?
                    .last_stable_offset(),
            )
        };
        self.positions
            .keys()
            .filter_map(|&partition| Some((partition, end(partition)?)))
            .collect()
    }

    /// One batch of every partition, below the given ends. No position moves when one of the partitions cannot be read.
    fn read(&mut self, ends: Option<&BTreeMap<i32, Offset>>) -> Result<Vec<Record>, ReadError> {
        loop {
            let (begun, upheavals) = self.begin_read(ends)?;
            match self.finish_read(begun) {
                Ok(records) => return Ok(records),
                // What was to be read has been deleted, perhaps.
                Err(_) if self.log.has_changed_since(upheavals) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn begin_read(
        &self,
        ends: Option<&BTreeMap<i32, Offset>>,
    ) -> Result<(Vec<(i32, Fetch)>, u64), ReadError> {
        let state = self.log.lock();
        let begin = |(&partition, &position): (&i32, &Offset)| {
            let channel = self.topic.partition(partition);
            let until = ends.and_then(|ends| ends.get(&partition).copied());
            let begun = state.storage.begin_fetch(channel, position, until, BATCH);
            let deleted = || ReadError::DeletedTopic {
                topic: self.name.clone(),
            };
            let out_of_range = |range: OutOfRange| ReadError::OutOfRange {
                channel,
                position,
                log_start: range.log_start,
                high_watermark: range.high_watermark,
            };
            let fetch = begun.ok_or_else(deleted)?.map_err(out_of_range)?;
            Ok::<_, ReadError>((partition, fetch))
        };
        let begun: Result<_, _> = self.positions.iter().map(begin).collect();
        Ok((begun?, state.upheavals))
    }

    fn finish_read(&mut self, begun: Vec<(i32, Fetch)>) -> Result<Vec<Record>, StorageError> {
        let mut records = Vec::new();
        let mut positions = BTreeMap::new();
        for (partition, fetch) in begun {
            let fetched = self.log.finish_fetch(fetch)?;
            positions.insert(partition, fetched.next);
            records.extend(fetched.records);
        }
        self.positions = positions;
        Ok(records)
    }
}
