//! Opening a directory: what it says about topics and groups, checked.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};

use parsley_core::{Channel, Offset, TopicId};
use parsley_store::Batch;

use super::entries::{self, Chunk};
use super::keys::{self, DESCRIPTIONS, Description};
use super::values::{self, TopicValue};
use super::{Disk, StorageError, WriteError};
use crate::log::partition::{Entry, TransactionId};

/// What a directory says about topics and groups.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) topics: Vec<LoadedTopic>,
    pub(crate) incarnations: Vec<(String, u64)>,
    /// The number of tasks of each group.
    pub(crate) widths: Vec<(String, i32)>,
    /// Committed positions.
    pub(crate) positions: Vec<(String, Channel, Offset)>,
}

#[derive(Debug)]
pub(crate) struct LoadedTopic {
    pub(crate) id: TopicId,
    pub(crate) name: String,
    pub(crate) offsets_max: Option<u64>,
    /// The log start and the high watermark of each partition.
    pub(crate) partitions: Vec<(Offset, Offset)>,
}

/// As it is read, before it is put together.
#[derive(Default)]
struct Descriptions {
    topics: BTreeMap<TopicId, TopicValue>,
    partitions: BTreeMap<Channel, (Offset, Offset)>,
    open: BTreeMap<Channel, BTreeMap<TransactionId, Vec<(Offset, Offset)>>>,
    loaded: Loaded,
}

impl Disk {
    /// Reads what the directory says about topics and groups, and aborts the transactions that were left open.
    pub(super) fn load(&self) -> Result<Loaded, StorageError> {
        let mut read = Descriptions::default();
        let mut corrupt = None;
        for kind in DESCRIPTIONS {
            self.scan(
                &[kind],
                &[kind],
                &mut |key, value| match read.take(key, value) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(found) => {
                        corrupt = Some(format!("key {}: {found}", key.escape_ascii()));
                        ControlFlow::Break(())
                    }
                },
            )?;
        }
        if let Some(found) = corrupt {
            return Err(StorageError::corrupt(self.dir(), found));
        }
        self.check(&read)?;
        self.abort_open(&mut read)?;
        Ok(read.put_together())
    }

    fn abort_open(&self, read: &mut Descriptions) -> Result<(), StorageError> {
        let mut batch = Batch::default();
        for (&channel, transactions) in &read.open {
            let Some((log_start, high_watermark)) = read.partitions.get_mut(&channel) else {
                let found = format!("an open transaction on {channel}, which is no partition");
                return Err(StorageError::corrupt(self.dir(), found));
            };
            let mut offsets = BTreeSet::new();
            for &(first, end) in transactions.values().flatten() {
                let run = first.max(*log_start)..end.min(*high_watermark);
                self.take_up_run(channel, run, &mut offsets)?;
            }
            batch.extend(self.rewritten(channel, &offsets)?);
            let mut markers = Vec::new();
            for &id in transactions.keys() {
                entries::write(&mut markers, &Entry::Marker);
                batch.delete(keys::open(channel, id));
            }
            batch.put(keys::chunk(channel, *high_watermark), markers.into());
            let end = high_watermark.checked_add_unsigned(transactions.len() as u64);
            *high_watermark = end.ok_or_else(|| self.missing(channel, *high_watermark))?;
            batch.put(
                keys::partition(channel),
                values::range(*log_start, *high_watermark),
            );
        }
        if batch.is_empty() {
            return Ok(());
        }
        // Whatever comes of it, nobody has seen any of it yet.
        self.write(&batch).map_err(WriteError::into_error)
    }

    /// Takes up offsets that have an entry each: a run may say more of them than there are.
    fn take_up_run(
        &self,
        channel: Channel,
        run: Range<Offset>,
        offsets: &mut BTreeSet<Offset>,
    ) -> Result<(), StorageError> {
        let mut next = run.start;
        while next < run.end {
            let (key, value) = self.chunk_at(channel, next)?;
            let base = keys::chunk_base(&key).ok_or_else(|| self.missing(channel, next))?;
            let end = Chunk::new(channel, base, &value)
                .end()
                .map_err(|error| self.corrupt_chunk(channel, base, &error))?;
            if end <= next {
                return Err(self.missing(channel, next));
            }
            let taken = next..end.min(run.end);
            next = taken.end;
            offsets.extend(taken);
        }
        Ok(())
    }

    /// Topics and partitions belong to each other, and the entries reach to where they should.
    fn check(&self, read: &Descriptions) -> Result<(), StorageError> {
        let corrupt = |found: String| Err(StorageError::corrupt(self.dir(), found));
        let mut names = BTreeSet::new();
        let mut channels = 0;
        for (id, topic) in &read.topics {
            if !names.insert(&topic.name) {
                return corrupt(format!("two topics of the name {}", topic.name));
            }
            for channel in topic.channels(*id) {
                let Some(range) = read.partitions.get(&channel) else {
                    return corrupt(format!("the offsets of {channel} are missing"));
                };
                self.check_end(channel, *range)?;
                channels += 1;
            }
        }
        if channels != read.partitions.len() {
            return corrupt("offsets of a partition of no topic".to_owned());
        }
        Ok(())
    }

    /// The last entries that a partition has end where its high watermark says.
    fn check_end(
        &self,
        channel: Channel,
        (log_start, high_watermark): (Offset, Offset),
    ) -> Result<(), StorageError> {
        let last = self
            .database
            .at_or_below(&keys::chunks(channel), &keys::chunk(channel, Offset::MAX))
            .map_err(|error| StorageError::of(self.dir(), error))?;
        let end = match last {
            None => log_start,
            Some((key, value)) => {
                let base = keys::chunk_base(&key)
                    .ok_or_else(|| self.missing(channel, high_watermark - 1))?;
                Chunk::new(channel, base, &value)
                    .end()
                    .map_err(|error| self.corrupt_chunk(channel, base, &error))?
            }
        };
        if end == high_watermark {
            return Ok(());
        }
        let found = format!(
            "the entries of {channel} end at offset {end}, and its high watermark is {high_watermark}"
        );
        Err(StorageError::corrupt(self.dir(), found))
    }
}

impl TopicValue {
    fn channels(&self, id: TopicId) -> impl Iterator<Item = Channel> + use<> {
        (0..self.partitions).map(move |partition| id.partition(partition))
    }
}

impl Descriptions {
    fn put_together(self) -> Loaded {
        let Self {
            topics,
            partitions,
            mut loaded,
            ..
        } = self;
        let topics = topics.into_iter().map(|(id, topic)| LoadedTopic {
            id,
            partitions: topic
                .channels(id)
                .filter_map(|channel| partitions.get(&channel).copied())
                .collect(),
            name: topic.name,
            offsets_max: topic.offsets_max,
        });
        loaded.topics = topics.collect();
        loaded
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let description = Description::parse(key).ok_or("it is no key of a log")?;
        let text = |error: values::CorruptValue| error.to_string();
        match description {
            Description::Topic(id) => {
                self.topics
                    .insert(id, TopicValue::from_bytes(value).map_err(text)?);
            }
            Description::Incarnations(name) => {
                let count = values::count_from(value).map_err(text)?;
                self.loaded.incarnations.push((name, count));
            }
            Description::Partition(channel) => {
                self.partitions
                    .insert(channel, values::range_from(value).map_err(text)?);
            }
            Description::Open(channel, id) => {
                let runs = values::offset_runs_from(value).map_err(text)?;
                self.open.entry(channel).or_default().insert(id, runs);
            }
            Description::Group(name) => {
                let width = values::width_from(value).map_err(text)?;
                self.loaded.widths.push((name, width));
            }
            Description::Position(group, channel) => {
                let position = values::offset_from(value).map_err(text)?;
                self.loaded.positions.push((group, channel, position));
            }
        }
        Ok(())
    }
}
