//! A log inside this process that behaves as a broker's: topics with an identity of their own, partitions, offsets that markers take as
//! well, transactions, read-committed readers, retention.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use parsley_core::{Channel, Id, MemoryStore, Offset, Record, StateStore, TopicId, Visit};
use parsley_stage::NameFault;
use uuid::Uuid;

mod config;
mod consumer;
pub(crate) mod disk;
mod error;
mod fetch;
pub(crate) mod partition;
mod producer;
mod settling;
mod state;
mod step;
mod storage;
#[cfg(test)]
mod tests;

pub use config::{Ids, LogConfig, PARTITIONS_MAX, RECORD_BYTES_MAX, TopicConfig};
pub use consumer::Consumer;
#[cfg(test)]
pub(crate) use disk::tests::Fault;
pub use disk::{OpenError, StorageError};
pub use error::{ReadError, SendError, TopicError};
pub(crate) use fetch::Fetch;
pub(crate) use partition::{FetchLimits, Fetched, OutOfRange};
pub use producer::{Appended, NewRecord, Producer, Transaction};
pub(crate) use state::{CommittedStore, TaskStores};
pub(crate) use step::StepWriter;
pub(crate) use storage::{StepChanges, Storage};

use disk::Disk;
use partition::{TransactionId, record_bytes};

/// A log. A clone is another handle to the same log.
///
/// ```
/// use parsley_embedded::{Log, LogConfig, NewRecord};
///
/// let log = Log::new(LogConfig::default());
/// let first = log.create_topic("orders", 2)?;
/// log.producer().send(NewRecord::to("orders").key("alice").value("3 apples"))?;
/// assert_eq!(log.consumer("orders")?.read_to_end()?.len(), 1);
///
/// // A topic that is created again is another topic.
/// log.delete_topic("orders")?;
/// assert_ne!(log.create_topic("orders", 2)?, first);
/// assert_eq!(log.consumer("orders")?.read_to_end()?.len(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
}

struct Shared {
    config: LogConfig,
    /// `None` in memory.
    disk: Option<Arc<Disk>>,
    state: Mutex<State>,
    /// Something can be read, is gone, or was asked of a task: what readers and tasks wait for.
    changed: Condvar,
    /// A task got somewhere: what those wait for who watch an application.
    progress: Condvar,
    /// What commits wait for.
    settling: settling::Signals,
}

/// What the log's lock protects: the storage, and what only this process knows.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) storage: Storage,
    /// Moves whenever a reader might see something new.
    pub(crate) version: u64,
    /// Moves whenever a topic was deleted or created anew, or a log start moved.
    pub(crate) upheavals: u64,
    /// Moves whenever a task got somewhere.
    pub(crate) progress: u64,
    /// Groups whose tasks are running.
    pub(crate) running_groups: BTreeSet<String>,
    transactions: u64,
    settling: settling::Turns,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let topics: Vec<_> = self.topics().into_keys().collect();
        f.debug_struct("Log")
            .field("topics", &topics)
            .finish_non_exhaustive()
    }
}

impl Default for Log {
    fn default() -> Self {
        Self::new(LogConfig::default())
    }
}

impl Log {
    /// An empty log in memory.
    pub fn new(config: LogConfig) -> Self {
        Self::of(config, None, Storage::default())
    }

    /// The log in a directory, which is made when there is none. It is open until the last handle to it is dropped, and one process can
    /// have it open, once.
    ///
    /// What has been acknowledged is durable: a topic when it has been created or deleted, a record when its send returns, a transaction
    /// when its commit does, a step of a task when others see it. A transaction that was open when the directory was left, however that
    /// came, is aborted. [`Log::high_watermark`], [`Log::log_start`] and what [`Transaction::send`] returns tell of what may yet be lost.
    ///
    /// ```
    /// use parsley_embedded::{Log, LogConfig, NewRecord};
    ///
    /// # let parent = tempfile::tempdir()?;
    /// # let dir = parent.path().join("data");
    /// let log = Log::open(&dir, LogConfig::default())?;
    /// log.create_topic("orders", 2)?;
    /// log.producer().send(NewRecord::to("orders").key("alice").value("3 apples"))?;
    /// drop(log);
    ///
    /// let log = Log::open(&dir, LogConfig::default())?;
    /// assert_eq!(log.consumer("orders")?.read_to_end()?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When another process has it open, it holds something else than a log, or a log in a format that this build does not know, and when
    /// it cannot be read or is damaged. It is left as it is then.
    pub fn open(dir: impl AsRef<Path>, config: LogConfig) -> Result<Self, OpenError> {
        // Half for what tasks and readers find in memory, half for the database.
        let cache_bytes = config.cache_bytes / 2;
        let (disk, loaded) = Disk::open(dir.as_ref(), cache_bytes)?;
        let disk = Arc::new(disk);
        let storage = Storage::on_disk(Arc::clone(&disk), loaded, cache_bytes);
        Ok(Self::of(config, Some(disk), storage))
    }

    fn of(config: LogConfig, disk: Option<Arc<Disk>>, storage: Storage) -> Self {
        let state = State {
            storage,
            ..State::default()
        };
        let shared = Shared {
            config,
            disk,
            state: Mutex::new(state),
            changed: Condvar::default(),
            progress: Condvar::default(),
            settling: settling::Signals::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The log's directory; `None` in memory.
    pub fn dir(&self) -> Option<&Path> {
        self.shared.disk.as_ref().map(|disk| disk.dir())
    }

    /// The log's settings.
    pub fn config(&self) -> &LogConfig {
        &self.shared.config
    }

    /// Creates a topic that keeps everything, and returns its identity.
    ///
    /// # Errors
    ///
    /// When the name is taken or is none, the number of partitions is out of range, or the directory cannot be written.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<TopicId, TopicError> {
        self.create_topic_with(name, TopicConfig::partitions(partitions))
    }

    /// Creates a topic, and returns its identity.
    ///
    /// # Errors
    ///
    /// When the name is taken or is none, a number is out of range, or the directory cannot be written.
    pub fn create_topic_with(
        &self,
        name: &str,
        config: TopicConfig,
    ) -> Result<TopicId, TopicError> {
        let topic = || name.to_owned();
        if NameFault::of_topic(name).is_some() {
            return Err(TopicError::Name {
                topic: name.chars().take(64).collect(),
            });
        }
        if !(1..=PARTITIONS_MAX).contains(&config.partitions) {
            let (found, partitions_max) = (config.partitions, PARTITIONS_MAX);
            return Err(TopicError::Partitions {
                topic: topic(),
                found,
                partitions_max,
            });
        }
        if config.offsets_max == Some(0) {
            return Err(TopicError::Retention {
                topic: topic(),
                found: 0,
            });
        }
        let _writing = self.to_write();
        self.end_doubt()?;
        let mut state = self.lock();
        if state.storage.topic_id(name).is_some() {
            return Err(TopicError::Exists { topic: topic() });
        }
        let id = match self.shared.config.ids {
            Ids::Random => TopicId::from_uuid(Uuid::new_v4()),
            // A topic's name has no '/', so no two topics give one text.
            Ids::Seeded(seed) => TopicId(Id::of_name(
                format!("{seed}/{name}/{}", state.storage.incarnations(name)).as_bytes(),
            )),
        };
        let is_new_name = state.storage.incarnations(name) == 0;
        state
            .storage
            .create_topic(id, name, config.partitions, config.offsets_max)?;
        if !is_new_name {
            state.upheavals += 1;
        }
        self.wake(&mut state);
        Ok(id)
    }

    /// Deletes a topic with all its records. The name is free afterwards; a new topic under it has a new identity.
    ///
    /// # Errors
    ///
    /// When there is no such topic, or the directory cannot be written.
    pub fn delete_topic(&self, name: &str) -> Result<(), TopicError> {
        let _writing = self.to_write();
        self.end_doubt()?;
        let mut state = self.lock();
        if !state.storage.delete_topic(name)? {
            return Err(TopicError::Unknown {
                topic: name.to_owned(),
            });
        }
        state.upheavals += 1;
        self.wake(&mut state);
        Ok(())
    }

    /// Deletes the records of a partition below an offset: its log start moves there.
    ///
    /// # Errors
    ///
    /// When there is no such partition, or the offset is negative or above the high watermark. When the directory cannot be written the
    /// records are gone all the same, unless the process ends before a later write succeeds.
    pub fn delete_records(&self, channel: Channel, before: Offset) -> Result<(), TopicError> {
        let mut state = self.lock();
        let moved = state
            .storage
            .delete_records(channel, before)
            .ok_or(TopicError::UnknownPartition { channel })?
            .map_err(
                |OutOfRange {
                     log_start,
                     high_watermark,
                 }| {
                    TopicError::OutOfRange {
                        channel,
                        before,
                        log_start,
                        high_watermark,
                    }
                },
            )?;
        if moved {
            state.upheavals += 1;
            self.wake(&mut state);
        }
        drop(state);
        Ok(self.save()?)
    }

    /// The topics there are, by name.
    pub fn topics(&self) -> BTreeMap<String, TopicId> {
        self.lock()
            .storage
            .topic_names()
            .map(|(name, id)| (name.to_string(), id))
            .collect()
    }

    /// The identity that a name has now.
    pub fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.lock().storage.topic_id(name)
    }

    /// How many partitions a topic has; `None` when it does not exist.
    pub fn partition_count(&self, topic: TopicId) -> Option<i32> {
        self.lock()
            .storage
            .topic(topic)
            .map(storage::TopicLog::partition_count)
    }

    /// The lowest offset that a partition still has; `None` when it does not exist.
    pub fn log_start(&self, channel: Channel) -> Option<Offset> {
        self.lock()
            .storage
            .partition(channel)
            .map(|partition| partition.log_start())
    }

    /// One past the last offset written to a partition, committed or not; `None` when it does not exist.
    pub fn high_watermark(&self, channel: Channel) -> Option<Offset> {
        self.lock()
            .storage
            .partition(channel)
            .map(|partition| partition.high_watermark())
    }

    /// Where a read-committed reader of a partition has to stop: at its oldest open transaction, or at the high watermark. `None` when
    /// the partition does not exist.
    pub fn last_stable_offset(&self, channel: Channel) -> Option<Offset> {
        self.lock()
            .storage
            .partition(channel)
            .map(|partition| partition.last_stable_offset())
    }

    /// The positions that a consumer group has committed. The group of a stage is `<application>-<stage>`.
    pub fn committed_positions(&self, group: &str) -> BTreeMap<Channel, Offset> {
        self.lock()
            .storage
            .group(group)
            .map(|group| group.positions.clone())
            .unwrap_or_default()
    }

    /// A copy of the committed ordering state of a group's task (`docs/protocol.md`, State); `None` if it never committed a step.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub fn ordering_state(
        &self,
        group: &str,
        partition: i32,
    ) -> Result<Option<MemoryStore>, ReadError> {
        self.copy_of(group, partition, |stores| stores.ordering)
    }

    /// A copy of the committed fold state of a group's task (`docs/protocol.md`, State); `None` if it never committed a step.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub fn fold_state(
        &self,
        group: &str,
        partition: i32,
    ) -> Result<Option<MemoryStore>, ReadError> {
        self.copy_of(group, partition, |stores| stores.fold)
    }

    fn copy_of(
        &self,
        group: &str,
        partition: i32,
        which: impl FnOnce(TaskStores) -> CommittedStore,
    ) -> Result<Option<MemoryStore>, ReadError> {
        let Some(stores) = self.lock().storage.known_task(group, partition) else {
            return Ok(None);
        };
        // Every step writes ordering state.
        let mut has_committed = false;
        stores.ordering.scan(b"", b"", &mut |_, _| {
            has_committed = true;
            Visit::Break(())
        })?;
        has_committed
            .then(|| which(stores).snapshot())
            .transpose()
            .map_err(ReadError::from)
    }

    /// A producer.
    pub fn producer(&self) -> Producer {
        Producer::new(self.clone())
    }

    /// A reader of a topic, at the log start of each partition.
    ///
    /// # Errors
    ///
    /// When there is no such topic.
    pub fn consumer(&self, topic: &str) -> Result<Consumer, ReadError> {
        Consumer::new(self.clone(), topic)
    }

    /// Begins a step of a group's task. Nobody else reads or writes until it ends.
    pub(crate) fn step(&self) -> StepWriter<'_> {
        let mut state = self.lock();
        let transaction = state.next_transaction();
        StepWriter::new(self, state, transaction)
    }

    fn begin_transaction(&self) -> TransactionId {
        self.lock().next_transaction()
    }

    fn commit_transaction(
        &self,
        id: TransactionId,
        touched: BTreeSet<Channel>,
    ) -> Result<(), StorageError> {
        let mut state = self.lock();
        let ticket = state.storage.commit(id, touched, None);
        self.settle(state, ticket)
    }

    fn abort_transaction(&self, id: TransactionId, touched: &BTreeSet<Channel>) {
        let mut state = self.lock();
        if state.storage.abort(id, touched) {
            state.upheavals += 1;
        }
        self.wake(&mut state);
    }

    /// What is wrong with its disk, for tests.
    #[cfg(test)]
    pub(crate) fn faults(&self) -> &disk::tests::Faults {
        let disk = self.shared.disk.as_ref();
        &disk.expect("the test has it in a directory").faults
    }

    fn append(
        &self,
        record: NewRecord,
        transaction: Option<TransactionId>,
    ) -> Result<Appended, SendError> {
        let NewRecord {
            topic,
            partition,
            timestamp_ms,
            key,
            value,
            headers,
        } = record;
        // Before the lock is taken: the clock may be the application's own, and look at the log.
        let timestamp_ms = timestamp_ms.unwrap_or_else(|| self.shared.config.time.now_ms());
        let mut state = self.lock();
        let Some((id, partitions)) = state.storage.topic_id(&topic).and_then(|id| {
            let partitions = state.storage.topic(id)?.partition_count();
            Some((id, partitions))
        }) else {
            return Err(SendError::UnknownTopic { topic });
        };
        let partition = partition
            .unwrap_or_else(|| parsley_stage::partition::partition_of(key.as_deref(), partitions));
        if !(0..partitions).contains(&partition) {
            return Err(SendError::UnknownPartition {
                topic,
                found: partition,
                partitions,
            });
        }
        let channel = id.partition(partition);
        let record = Record {
            channel,
            offset: 0,
            timestamp_ms,
            key,
            value,
            headers,
        };
        self.check_size(&topic, &record)?;
        let exists = "the partition is below the topic's count";
        let Some(transaction) = transaction else {
            let alone = state.next_transaction();
            let (offset, ticket) = state.storage.send(record, alone).expect(exists);
            self.settle(state, ticket)?;
            return Ok(Appended { channel, offset });
        };
        let offset = state.storage.append(record, transaction).expect(exists);
        if state.storage.retain_newest(channel) {
            state.upheavals += 1;
            self.wake(&mut state);
        }
        if state.storage.has_much_unsaved() {
            drop(state);
            self.save().inspect_err(|_| {
                self.lock().storage.withdraw(transaction, channel, offset);
            })?;
        }
        Ok(Appended { channel, offset })
    }

    fn check_size(&self, topic: &str, record: &Record) -> Result<(), SendError> {
        let bytes = record_bytes(record);
        let bytes_max = self.shared.config.largest_record();
        if bytes > bytes_max {
            return Err(SendError::TooLarge {
                topic: topic.to_owned(),
                bytes,
                bytes_max,
            });
        }
        Ok(())
    }

    /// The log's state. Nothing under this lock runs foreign code, and each change checks before it writes, so the state is whole even
    /// when a holder panicked.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn version(&self) -> u64 {
        self.lock().version
    }

    /// Notes that a reader might see something new, and wakes those who wait for that.
    pub(crate) fn wake(&self, state: &mut State) {
        state.version += 1;
        self.shared.changed.notify_all();
        self.report_progress(state);
    }

    /// Wakes the tasks although nothing changed: something is asked of them.
    pub(crate) fn nudge(&self, _: &MutexGuard<'_, State>) {
        self.shared.changed.notify_all();
    }

    /// Wakes those who watch an application.
    pub(crate) fn report_progress(&self, state: &mut State) {
        state.progress += 1;
        self.shared.progress.notify_all();
    }

    /// Releases the lock until the log changed or a task is asked for something, but not beyond the instant.
    pub(crate) fn wait_for_change<'a>(
        &self,
        state: MutexGuard<'a, State>,
        until: Option<Instant>,
    ) -> MutexGuard<'a, State> {
        wait(&self.shared.changed, state, until)
    }

    /// Releases the lock until a task got somewhere.
    pub(crate) fn wait_for_progress<'a>(
        &self,
        state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        wait(&self.shared.progress, state, None)
    }

    /// A bounded wait that begins now. A bound too far for the clock is none.
    pub(crate) fn waiting(&self, bound: Duration) -> Waiting {
        Waiting {
            log: self.clone(),
            until: Instant::now().checked_add(bound),
        }
    }
}

fn wait<'a>(
    condition: &Condvar,
    state: MutexGuard<'a, State>,
    until: Option<Instant>,
) -> MutexGuard<'a, State> {
    match until {
        None => condition
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner),
        Some(until) => {
            let left = until.saturating_duration_since(Instant::now());
            condition
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0
        }
    }
}

/// A bounded wait for the log to change.
pub(crate) struct Waiting {
    log: Log,
    until: Option<Instant>,
}

impl Waiting {
    /// Waits until the log is no longer at a version. False when the time is over first.
    pub(crate) fn for_change_since(&self, version: u64) -> bool {
        let mut state = self.log.lock();
        while state.version == version {
            if self.until.is_some_and(|until| Instant::now() >= until) {
                return false;
            }
            state = self.log.wait_for_change(state, self.until);
        }
        true
    }
}

impl State {
    fn next_transaction(&mut self) -> TransactionId {
        self.transactions += 1;
        TransactionId(self.transactions)
    }
}
