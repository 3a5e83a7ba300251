//! Everything of a log that outlives a process: topics and their records, group positions, the state of tasks.
//!
//! The rest of the crate changes it only through the methods here, with the log's lock held. It decides nothing and wakes nobody.
//!
//! What is changed together is written down together ([`Storage::commit`], [`Storage::send`]), takes effect when it is durable, and has a
//! [`Ticket`] until then. In memory that is at once. On disk it is when a [`Save`] that has it succeeds: [`Storage::begin_save`] collects
//! everything that is not in the directory yet, and [`Storage::end_save`] hears what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parsley_core::{Changes, Channel, Offset, Record, TopicId};

use super::disk::values::{self, TopicValue};
use super::disk::{Disk, Loaded, StorageError, WriteError};
use super::fetch::Fetch;
use super::partition::{FetchLimits, OutOfRange, Outcome, PartitionLog, TransactionId};
use super::state::TaskStores;

mod save;

use save::Doubt;
pub(crate) use save::{Effect, Ticket};

/// A topic that exists.
#[derive(Clone, Debug)]
pub(crate) struct TopicLog {
    pub(crate) name: Arc<str>,
    pub(crate) offsets_max: Option<u64>,
    pub(crate) partitions: Vec<PartitionLog>,
}

impl TopicLog {
    /// How many partitions there are. Creation bounds it.
    pub(crate) fn partition_count(&self) -> i32 {
        i32::try_from(self.partitions.len())
            .expect("a topic is created with a partition count that is an i32")
    }
}

/// What a consumer group has committed, and the state of its tasks.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) positions: BTreeMap<Channel, Offset>,
    /// How many tasks the group has: recorded when it first starts (guard G15).
    pub(crate) width: Option<i32>,
    tasks: BTreeMap<i32, TaskStores>,
}

/// What a step changes beside its sends.
#[derive(Debug)]
pub(crate) struct StepChanges {
    pub(crate) group: String,
    pub(crate) task: i32,
    pub(crate) positions: Vec<(Channel, Offset)>,
    pub(crate) ordering: Changes,
    pub(crate) fold: Changes,
}

#[derive(Debug, Default)]
pub(crate) struct Storage {
    names: BTreeMap<Arc<str>, TopicId>,
    topics: BTreeMap<TopicId, TopicLog>,
    /// How many topics of each name there have been.
    incarnations: BTreeMap<Arc<str>, u64>,
    groups: BTreeMap<String, Group>,
    /// `None` in memory.
    saving: Option<save::Saving>,
}

impl Storage {
    /// The storage of a log on disk, with what its directory has.
    pub(crate) fn on_disk(disk: Arc<Disk>, loaded: Loaded, cache_bytes: usize) -> Self {
        let mut storage = Self {
            saving: Some(save::Saving::new(disk, cache_bytes)),
            ..Self::default()
        };
        let mut channels_of_all = Vec::new();
        for topic in loaded.topics {
            let name: Arc<str> = topic.name.into();
            let channels = (0..).zip(&topic.partitions);
            channels_of_all.extend(channels.map(|(partition, _)| topic.id.partition(partition)));
            storage.names.insert(Arc::clone(&name), topic.id);
            let partitions = topic
                .partitions
                .into_iter()
                .map(|(log_start, high_watermark)| PartitionLog::saved(log_start, high_watermark))
                .collect();
            let log = TopicLog {
                name,
                offsets_max: topic.offsets_max,
                partitions,
            };
            storage.topics.insert(topic.id, log);
        }
        for (name, count) in loaded.incarnations {
            storage.incarnations.insert(name.into(), count);
        }
        for (name, width) in loaded.widths {
            storage.group_mut(&name).width = Some(width);
        }
        for (name, channel, position) in loaded.positions {
            storage.group_mut(&name).positions.insert(channel, position);
        }
        // What was open when the directory was left may have kept retention back.
        for channel in channels_of_all {
            storage.retain_newest(channel);
        }
        storage
    }

    pub(crate) fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.names.get(name).copied()
    }

    pub(crate) fn topic(&self, id: TopicId) -> Option<&TopicLog> {
        self.topics.get(&id)
    }

    pub(crate) fn topic_names(&self) -> impl Iterator<Item = (&Arc<str>, TopicId)> {
        self.names.iter().map(|(name, id)| (name, *id))
    }

    pub(crate) fn partition(&self, channel: Channel) -> Option<&PartitionLog> {
        self.topics
            .get(&channel.topic)?
            .partitions
            .get(usize::try_from(channel.partition).ok()?)
    }

    /// A partition that is about to change.
    fn partition_mut(&mut self, channel: Channel) -> Option<&mut PartitionLog> {
        let partition = self
            .topics
            .get_mut(&channel.topic)?
            .partitions
            .get_mut(usize::try_from(channel.partition).ok()?)?;
        if let Some(saving) = &mut self.saving {
            saving.changed(channel);
        }
        Some(partition)
    }

    /// How many topics of this name there have been so far.
    pub(crate) fn incarnations(&self, name: &str) -> u64 {
        self.incarnations.get(name).copied().unwrap_or(0)
    }

    /// Creates a topic.
    ///
    /// # Errors
    ///
    /// When the directory cannot be written; then there is none.
    pub(crate) fn create_topic(
        &mut self,
        id: TopicId,
        name: &str,
        partitions: i32,
        offsets_max: Option<u64>,
    ) -> Result<(), StorageError> {
        let topic = TopicValue {
            name: name.to_owned(),
            partitions,
            offsets_max,
        };
        let incarnations = self.incarnations(name) + 1;
        if let Some(saving) = &mut self.saving {
            let batch = values::creation(id, &topic, incarnations);
            match saving.disk().write(&batch) {
                Ok(()) => {}
                Err(WriteError::NotWritten(error)) => return Err(error),
                Err(WriteError::InDoubt(error)) => {
                    saving.doubt(Doubt::Creation(id, topic));
                    return Err(error);
                }
            }
        }
        self.add_topic(id, topic);
        Ok(())
    }

    fn add_topic(&mut self, id: TopicId, topic: TopicValue) {
        let name: Arc<str> = topic.name.into();
        let partitions = (0..topic.partitions)
            .map(|_| PartitionLog::default())
            .collect();
        let log = TopicLog {
            name: Arc::clone(&name),
            offsets_max: topic.offsets_max,
            partitions,
        };
        self.topics.insert(id, log);
        *self.incarnations.entry(Arc::clone(&name)).or_insert(0) += 1;
        self.names.insert(name, id);
    }

    /// Removes a topic with all its records. What groups have committed on it stays, as it does on a broker. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// When the directory cannot be written; then it is still there.
    pub(crate) fn delete_topic(&mut self, name: &str) -> Result<bool, StorageError> {
        let Some(id) = self.topic_id(name) else {
            return Ok(false);
        };
        if let Some(saving) = &mut self.saving {
            let disk = Arc::clone(saving.disk());
            match disk.write(&disk.removal(id)?) {
                Ok(()) => {}
                Err(WriteError::NotWritten(error)) => return Err(error),
                Err(WriteError::InDoubt(error)) => {
                    saving.doubt(Doubt::Removal(id));
                    return Err(error);
                }
            }
        }
        self.remove_topic(id);
        Ok(true)
    }

    fn remove_topic(&mut self, id: TopicId) {
        if let Some(topic) = self.topics.remove(&id) {
            self.names.remove(&topic.name);
        }
        if let Some(saving) = &mut self.saving {
            saving.forget_topic(id);
        }
    }

    /// Appends a record of a transaction to a partition that exists. Returns where it stands.
    pub(crate) fn append(&mut self, record: Record, transaction: TransactionId) -> Option<Offset> {
        let bytes = super::partition::record_bytes(&record);
        let offset = self
            .partition_mut(record.channel)?
            .append(record, Some(transaction));
        if let Some(saving) = &mut self.saving {
            saving.took(bytes);
        }
        Some(offset)
    }

    /// Appends a record that is a transaction of its own, without a marker, to a partition that exists.
    pub(crate) fn send(
        &mut self,
        record: Record,
        transaction: TransactionId,
    ) -> Option<(Offset, Ticket)> {
        let channel = record.channel;
        let offset = self.append(record, transaction)?;
        let ticket = self.commit_when_durable(transaction, BTreeSet::from([channel]), None);
        Some((offset, ticket))
    }

    /// Commits a transaction with a marker on each of the partitions it wrote to, as far as they still exist, together with what a step
    /// changes.
    pub(crate) fn commit(
        &mut self,
        transaction: TransactionId,
        touched: BTreeSet<Channel>,
        changes: Option<StepChanges>,
    ) -> Ticket {
        self.mark_end(transaction, &touched);
        self.commit_when_durable(transaction, touched, changes)
    }

    /// Aborts a transaction, with a marker on each of the partitions it wrote to. Returns whether a log start moved.
    pub(crate) fn abort(
        &mut self,
        transaction: TransactionId,
        touched: &BTreeSet<Channel>,
    ) -> bool {
        self.mark_end(transaction, touched);
        self.settle(transaction, touched, Outcome::Aborted)
    }

    fn mark_end(&mut self, transaction: TransactionId, touched: &BTreeSet<Channel>) {
        for channel in touched {
            if let Some(partition) = self.partition_mut(*channel) {
                partition.mark_end(transaction);
            }
        }
    }

    /// Withdraws a record of an open transaction.
    pub(crate) fn withdraw(
        &mut self,
        transaction: TransactionId,
        channel: Channel,
        offset: Offset,
    ) {
        if let Some(partition) = self.partition_mut(channel) {
            partition.withdraw_one(transaction, offset);
        }
    }

    /// Settles a transaction on the partitions it wrote to, as far as they still exist, and applies size retention. Returns whether a log
    /// start moved.
    fn settle(
        &mut self,
        transaction: TransactionId,
        touched: &BTreeSet<Channel>,
        outcome: Outcome,
    ) -> bool {
        let mut moved = false;
        for &channel in touched {
            if let Some(partition) = self.partition_mut(channel) {
                partition.settle(transaction, outcome);
            }
            moved |= self.retain_newest(channel);
        }
        moved
    }

    /// Applies a topic's size retention to one of its partitions. Returns whether its log start moved.
    pub(crate) fn retain_newest(&mut self, channel: Channel) -> bool {
        let Some(offsets_max) = self
            .topics
            .get(&channel.topic)
            .and_then(|topic| topic.offsets_max)
        else {
            return false;
        };
        self.partition_mut(channel)
            .is_some_and(|partition| partition.keep_newest(offsets_max))
    }

    /// Removes the records of a partition that exists below an offset. Returns whether the log start moved.
    pub(crate) fn delete_records(
        &mut self,
        channel: Channel,
        before: Offset,
    ) -> Option<Result<bool, OutOfRange>> {
        Some(self.partition_mut(channel)?.delete_records(before))
    }

    /// Begins to read committed records of a partition that exists from a position, and nothing at or above `until`.
    pub(crate) fn begin_fetch(
        &self,
        channel: Channel,
        from: Offset,
        until: Option<Offset>,
        limits: FetchLimits,
    ) -> Option<Result<Fetch, OutOfRange>> {
        let end = match self.partition(channel)?.readable(from, until) {
            Ok(end) => end,
            Err(range) => return Some(Err(range)),
        };
        let mut fetch = Fetch::new(channel, from, end, limits);
        self.go_on(&mut fetch);
        Some(Ok(fetch))
    }

    /// Reads on in memory, or finds that what comes next is in the directory. A partition that is gone has nothing more.
    pub(crate) fn go_on(&self, fetch: &mut Fetch) {
        if let Some(partition) = self.partition(fetch.channel()) {
            let disk = self.saving.as_ref().map(|saving| saving.disk());
            fetch.go_on(partition, disk);
        }
    }

    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.get(name)
    }

    fn group_mut(&mut self, name: &str) -> &mut Group {
        self.groups.entry(name.to_owned()).or_default()
    }

    /// Records how many tasks a group has. Durable with the first step that one of them commits.
    pub(crate) fn set_width(&mut self, group: &str, width: i32) {
        self.group_mut(group).width = Some(width);
        if let Some(saving) = &mut self.saving {
            saving.set_width(group, width);
        }
    }

    /// The stores of a task, empty when it never ran.
    pub(crate) fn task_stores(&mut self, group: &str, task: i32) -> TaskStores {
        match &self.saving {
            None => self.group_mut(group).tasks.entry(task).or_default().clone(),
            Some(saving) => saving.task_stores(group, task),
        }
    }

    /// The stores of a task that has run.
    pub(crate) fn known_task(&self, group: &str, task: i32) -> Option<TaskStores> {
        match &self.saving {
            None => self.groups.get(group)?.tasks.get(&task).cloned(),
            Some(saving) => Some(saving.task_stores(group, task)),
        }
    }
}
