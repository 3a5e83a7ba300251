//! Everything of a log that outlives a process: topics and their records, group positions, the state of tasks.
//!
//! The rest of the crate changes it only through the methods here, with the log's lock held, and in units that have to become durable
//! together: a topic's creation or removal, an append, the end of a transaction, a deletion of records, a step. It decides nothing and
//! wakes nobody. A log on a disk replaces this struct alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use parsley_core::{Changes, Channel, MemoryStore, Offset, StateStore, StoreError, TopicId, Visit};

use super::partition::{Outcome, PartitionLog, TransactionId};

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

/// The two stores of a task, shared with the task that reads them.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskStores {
    pub(crate) ordering: CommittedStore,
    pub(crate) fold: CommittedStore,
}

#[derive(Debug, Default)]
pub(crate) struct Storage {
    names: BTreeMap<Arc<str>, TopicId>,
    topics: BTreeMap<TopicId, TopicLog>,
    /// How many topics of each name there have been.
    incarnations: BTreeMap<Arc<str>, u64>,
    groups: BTreeMap<String, Group>,
}

impl Storage {
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

    pub(crate) fn partition_mut(&mut self, channel: Channel) -> Option<&mut PartitionLog> {
        self.topics
            .get_mut(&channel.topic)?
            .partitions
            .get_mut(usize::try_from(channel.partition).ok()?)
    }

    /// How many topics of this name there have been so far.
    pub(crate) fn incarnations(&self, name: &str) -> u64 {
        self.incarnations.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn create_topic(
        &mut self,
        id: TopicId,
        name: &str,
        partitions: i32,
        offsets_max: Option<u64>,
    ) {
        let name: Arc<str> = name.into();
        let partitions = (0..partitions).map(|_| PartitionLog::default()).collect();
        self.topics.insert(
            id,
            TopicLog {
                name: Arc::clone(&name),
                offsets_max,
                partitions,
            },
        );
        *self.incarnations.entry(Arc::clone(&name)).or_insert(0) += 1;
        self.names.insert(name, id);
    }

    /// Removes a topic with all its records. What groups have committed on it stays, as it does on a broker.
    pub(crate) fn delete_topic(&mut self, name: &str) -> Option<TopicId> {
        let id = self.names.remove(name)?;
        self.topics.remove(&id);
        Some(id)
    }

    /// Ends a transaction on the partitions it wrote to, as far as they still exist, and applies size retention. Returns whether a log
    /// start moved.
    pub(crate) fn end_transaction<'a>(
        &mut self,
        id: TransactionId,
        touched: impl IntoIterator<Item = &'a Channel>,
        outcome: Outcome,
    ) -> bool {
        let mut moved = false;
        for channel in touched {
            if let Some(partition) = self.partition_mut(*channel) {
                partition.end_transaction(id, outcome);
            }
            moved |= self.retain_newest(*channel);
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

    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.get(name)
    }

    pub(crate) fn group_mut(&mut self, name: &str) -> &mut Group {
        self.groups.entry(name.to_owned()).or_default()
    }

    /// Applies what a step changed beside its sends.
    pub(crate) fn commit_task(
        &mut self,
        group: &str,
        partition: i32,
        positions: Vec<(Channel, Offset)>,
        ordering: Changes,
        fold: Changes,
    ) {
        let group = self.group_mut(group);
        group.positions.extend(positions);
        let task = group.task(partition);
        task.ordering.apply(ordering);
        task.fold.apply(fold);
    }
}

impl Group {
    /// The stores of a task, empty when it never ran.
    pub(crate) fn task(&mut self, partition: i32) -> TaskStores {
        self.tasks.entry(partition).or_default().clone()
    }

    /// The stores of a task that has run.
    pub(crate) fn known_task(&self, partition: i32) -> Option<&TaskStores> {
        self.tasks.get(&partition)
    }
}

/// A task's committed state: read by the task, written by the log when a step commits.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommittedStore(Arc<Mutex<MemoryStore>>);

/// A task stages its changes over its committed state and never writes to it.
#[derive(Debug, thiserror::Error)]
#[error("committed state is changed by the step's commit alone")]
struct ReadOnly;

impl CommittedStore {
    /// A copy of the whole store.
    pub(crate) fn snapshot(&self) -> MemoryStore {
        self.lock().clone()
    }

    fn apply(&self, changes: Changes) {
        self.lock().apply(changes);
    }

    /// Nothing that runs under this lock leaves the map half changed, so a panic elsewhere in the holder is no reason to stop reading.
    fn lock(&self) -> MutexGuard<'_, MemoryStore> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateStore for CommittedStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.lock().get(key)
    }

    fn put(&mut self, _: &[u8], _: Bytes) -> Result<(), StoreError> {
        Err(StoreError::new(ReadOnly))
    }

    fn delete(&mut self, _: &[u8]) -> Result<(), StoreError> {
        Err(StoreError::new(ReadOnly))
    }

    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], &Bytes) -> Visit,
    ) -> Result<(), StoreError> {
        self.lock().scan(prefix, from, visit)
    }
}
