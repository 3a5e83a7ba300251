//! Making changes durable: what a log on disk has not written yet, how it is collected, and what becomes of it.
//!
//! Whatever was changed before a save began is in it, so what a reader or a task has seen of the log is durable before anything that it
//! does thereafter: a directory never has an effect without its cause.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use parsley_core::{Channel, Offset, TopicId};
use parsley_store::Batch;

use super::{StepChanges, Storage};
use crate::log::disk::entries::{self, CHUNK_BYTES};
use crate::log::disk::keys::{self, StoreKind};
use crate::log::disk::values::{self, TopicValue};
use crate::log::disk::{Disk, StorageError, WriteError};
use crate::log::partition::{Outcome, PartitionLog, SavedPartition, TransactionId};
use crate::log::state::{CommittedStore, TaskStores};

/// How much may be unsaved, in bytes that records take in memory, before a sender has to save it.
const UNSAVED_BYTES_MAX: usize = 4 << 20;

/// What an entry in memory takes beside its bytes, roughly.
const ENTRY_OVERHEAD_BYTES: usize = 256;

/// Stands for a change until it is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a change is durable once its ticket is settled"]
pub(crate) enum Ticket {
    /// It took effect: there is nothing to wait for.
    Settled(Effect),
    /// It takes effect with a save.
    Waits(u64),
}

/// What commits did to the log when they took effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    /// Readers may see something new.
    pub(crate) is_readable: bool,
    /// A log start moved.
    pub(crate) log_start_moved: bool,
}

impl Effect {
    /// A topic was created or deleted: whoever looks at the log again finds that.
    fn of_topics() -> Self {
        Self {
            is_readable: true,
            log_start_moved: true,
        }
    }
}

/// What has been committed and is not durable.
#[derive(Debug)]
struct Unsettled {
    transaction: TransactionId,
    touched: BTreeSet<Channel>,
    changes: Option<StepChanges>,
    number: u64,
}

/// What is not in the directory yet.
#[derive(Debug)]
pub(crate) struct Saving {
    disk: Arc<Disk>,
    /// Partitions that have changed.
    changed: BTreeSet<Channel>,
    /// Values that go with the next save, whatever becomes of the steps in it.
    values: Batch,
    unsettled: Vec<Unsettled>,
    unsaved_bytes: usize,
    /// The last ticket given out.
    tickets: u64,
    /// Those that are not settled.
    waiting: BTreeSet<u64>,
    /// Of these, those that nobody asks for any more.
    given_up: BTreeSet<u64>,
    /// Of the settled tickets that nobody has asked for yet: those that failed.
    failures: BTreeMap<u64, StorageError>,
    /// What may be in the directory or not. Nothing else is written before that is known.
    doubt: Option<Doubt>,
    recent: Recent,
}

/// A write of which it is not known whether it took place.
#[derive(Debug)]
pub(super) enum Doubt {
    Save(Save),
    Creation(TopicId, TopicValue),
    Removal(TopicId),
}

/// What was saved lately and is still in memory.
#[derive(Debug)]
struct Recent {
    saves: VecDeque<(Channel, Offset, usize)>,
    bytes: usize,
    bytes_max: usize,
}

/// Everything that was not in the directory when the save began.
#[derive(Debug)]
pub(crate) struct Save {
    pub(crate) batch: Batch,
    partitions: Vec<(Channel, SavedPartition, usize)>,
    values: Batch,
    unsettled: Vec<Unsettled>,
    unsaved_bytes: usize,
}

impl Saving {
    pub(super) fn new(disk: Arc<Disk>, cache_bytes: usize) -> Self {
        Self {
            disk,
            changed: BTreeSet::new(),
            values: Batch::default(),
            unsettled: Vec::new(),
            unsaved_bytes: 0,
            tickets: 0,
            waiting: BTreeSet::new(),
            given_up: BTreeSet::new(),
            failures: BTreeMap::new(),
            doubt: None,
            recent: Recent {
                saves: VecDeque::new(),
                bytes: 0,
                bytes_max: cache_bytes,
            },
        }
    }

    pub(super) fn disk(&self) -> &Arc<Disk> {
        &self.disk
    }

    pub(super) fn doubt(&mut self, doubt: Doubt) {
        self.doubt = Some(doubt);
    }

    pub(super) fn changed(&mut self, channel: Channel) {
        self.changed.insert(channel);
    }

    /// An entry of so many bytes was appended.
    pub(super) fn took(&mut self, bytes: usize) {
        let bytes = bytes.saturating_add(ENTRY_OVERHEAD_BYTES);
        self.unsaved_bytes = self.unsaved_bytes.saturating_add(bytes);
    }

    pub(super) fn set_width(&mut self, group: &str, width: i32) {
        self.values.put(keys::group(group), values::width(width));
    }

    pub(super) fn forget_topic(&mut self, id: TopicId) {
        self.changed.retain(|channel| channel.topic != id);
    }

    pub(super) fn task_stores(&self, group: &str, task: i32) -> TaskStores {
        let store = |kind| CommittedStore::Disk(self.disk.store(keys::state(group, task, kind)));
        TaskStores {
            ordering: store(StoreKind::Ordering),
            fold: store(StoreKind::Fold),
        }
    }
}

impl Storage {
    /// Has a commit take effect when it is durable.
    pub(super) fn commit_when_durable(
        &mut self,
        transaction: TransactionId,
        touched: BTreeSet<Channel>,
        changes: Option<StepChanges>,
    ) -> Ticket {
        let Some(saving) = &mut self.saving else {
            let mut effect = Effect::default();
            self.take_effect(transaction, &touched, changes, &mut effect);
            return Ticket::Settled(effect);
        };
        saving.tickets += 1;
        let number = saving.tickets;
        saving.waiting.insert(number);
        saving.unsettled.push(Unsettled {
            transaction,
            touched,
            changes,
            number,
        });
        Ticket::Waits(number)
    }

    /// Has a durable commit take effect.
    fn take_effect(
        &mut self,
        transaction: TransactionId,
        touched: &BTreeSet<Channel>,
        changes: Option<StepChanges>,
        effect: &mut Effect,
    ) {
        if let Some(StepChanges {
            group,
            task,
            positions,
            ordering,
            fold,
        }) = changes
        {
            self.group_mut(&group).positions.extend(positions);
            if self.saving.is_none() {
                let stores = self.task_stores(&group, task);
                stores.ordering.apply(ordering);
                stores.fold.apply(fold);
            }
        }
        effect.is_readable |= !touched.is_empty();
        effect.log_start_moved |= self.settle(transaction, touched, Outcome::Committed);
    }

    /// What became of a ticket; `None` while it waits for a save, or is part of one that is in doubt.
    pub(crate) fn outcome_of(&mut self, ticket: u64) -> Option<Result<(), StorageError>> {
        let saving = self.saving.as_mut()?;
        (!saving.waiting.contains(&ticket))
            .then(|| saving.failures.remove(&ticket).map_or(Ok(()), Err))
    }

    /// How many failures nobody has asked for.
    #[cfg(test)]
    pub(crate) fn unasked_failures(&self) -> usize {
        self.saving
            .as_ref()
            .map_or(0, |saving| saving.failures.len() + saving.given_up.len())
    }

    /// Nobody asks for a ticket any more.
    pub(crate) fn give_up(&mut self, ticket: u64) {
        if let Some(saving) = &mut self.saving
            && saving.waiting.contains(&ticket)
        {
            saving.given_up.insert(ticket);
        }
    }

    /// Whether so much is unsaved that a save should not wait for the next commit.
    pub(crate) fn has_much_unsaved(&self) -> bool {
        self.saving
            .as_ref()
            .is_some_and(|saving| saving.unsaved_bytes > UNSAVED_BYTES_MAX)
    }

    /// Collects everything that the directory does not have. `None` in memory, and when there is nothing.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read. Then the commits that waited have failed.
    pub(crate) fn begin_save(&mut self) -> Option<Result<Save, (StorageError, Effect)>> {
        let saving = self.saving.as_mut()?;
        if saving.changed.is_empty() && saving.values.is_empty() && saving.unsettled.is_empty() {
            return None;
        }
        let mut save = Save {
            batch: Batch::default(),
            partitions: Vec::new(),
            values: std::mem::take(&mut saving.values),
            unsettled: std::mem::take(&mut saving.unsettled),
            unsaved_bytes: std::mem::take(&mut saving.unsaved_bytes),
        };
        let changed = std::mem::take(&mut saving.changed);
        let disk = Arc::clone(&saving.disk);
        save.batch.extend(save.values.clone());
        let (mut failed, mut unread) = (None, Vec::new());
        for channel in changed {
            let Some(partition) = self.partition_unchanged(channel) else {
                continue;
            };
            if let Err(error) = save.take_partition(channel, partition, &disk) {
                failed = Some(error);
                unread.push(channel);
            }
        }
        if let Some(error) = failed {
            let effect = self.end_save(save, Err(WriteError::NotWritten(error.clone())));
            for channel in unread {
                self.partition_mut(channel);
            }
            return Some(Err((error, effect)));
        }
        save.take_changes();
        Some(Ok(save))
    }

    /// How many commits wait for a save that has not begun.
    pub(crate) fn unsettled(&self) -> usize {
        self.saving
            .as_ref()
            .map_or(0, |saving| saving.unsettled.len())
    }

    /// Whether it is not known what became of the last write.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.saving
            .as_ref()
            .is_some_and(|saving| saving.doubt.is_some())
    }

    /// Takes note of what became of a write that was in doubt.
    pub(crate) fn end_doubt(&mut self, is_there: bool) -> Effect {
        let Some(saving) = &mut self.saving else {
            return Effect::default();
        };
        let dir = saving.disk.dir().to_owned();
        match saving.doubt.take() {
            None => Effect::default(),
            Some(Doubt::Save(save)) if is_there => self.end_save(save, Ok(())),
            Some(Doubt::Save(save)) => {
                let reason = "the directory does not have it".to_owned();
                self.end_save(
                    save,
                    Err(WriteError::NotWritten(StorageError::Io { dir, reason })),
                )
            }
            Some(Doubt::Creation(id, topic)) if is_there => {
                self.add_topic(id, topic);
                Effect::of_topics()
            }
            Some(Doubt::Removal(id)) if is_there => {
                self.remove_topic(id);
                Effect::of_topics()
            }
            Some(Doubt::Creation(..) | Doubt::Removal(_)) => Effect::default(),
        }
    }

    /// Aborts what waits for a save, as none can be made.
    pub(crate) fn fail_unsettled(&mut self, error: &StorageError) -> Effect {
        let Some(saving) = &mut self.saving else {
            return Effect::default();
        };
        let unsettled = std::mem::take(&mut saving.unsettled);
        self.abort_all(unsettled, error)
    }

    fn abort_all(&mut self, unsettled: Vec<Unsettled>, error: &StorageError) -> Effect {
        let mut effect = Effect::default();
        for unsettled in unsettled {
            if let Some(saving) = &mut self.saving {
                saving.waiting.remove(&unsettled.number);
                if !saving.given_up.remove(&unsettled.number) {
                    saving.failures.insert(unsettled.number, error.clone());
                }
            }
            effect.is_readable |= !unsettled.touched.is_empty();
            effect.log_start_moved |=
                self.settle(unsettled.transaction, &unsettled.touched, Outcome::Aborted);
        }
        effect
    }

    /// Takes note of what became of a save: what waited for it takes effect, or is aborted, or stays open while that is in doubt.
    pub(crate) fn end_save(&mut self, save: Save, written: Result<(), WriteError>) -> Effect {
        let mut effect = Effect::default();
        match written {
            Ok(()) => {
                for (channel, saved, bytes) in save.partitions {
                    self.note_saved(channel, &saved, bytes);
                }
                for unsettled in save.unsettled {
                    if let Some(saving) = &mut self.saving {
                        saving.waiting.remove(&unsettled.number);
                        saving.given_up.remove(&unsettled.number);
                    }
                    self.take_effect(
                        unsettled.transaction,
                        &unsettled.touched,
                        unsettled.changes,
                        &mut effect,
                    );
                }
            }
            Err(WriteError::InDoubt(_)) => {
                if let Some(saving) = &mut self.saving {
                    saving.doubt(Doubt::Save(save));
                }
                return effect;
            }
            Err(WriteError::NotWritten(error)) => {
                for (channel, saved, _) in &save.partitions {
                    // It still has to be saved.
                    if let Some(partition) = self.partition_mut(*channel) {
                        partition.undo_save(saved);
                    }
                }
                if let Some(saving) = &mut self.saving {
                    let newer = std::mem::replace(&mut saving.values, save.values);
                    saving.values.extend(newer);
                    saving.unsaved_bytes = saving.unsaved_bytes.saturating_add(save.unsaved_bytes);
                }
                effect = self.abort_all(save.unsettled, &error);
            }
        }
        effect
    }

    fn note_saved(&mut self, channel: Channel, saved: &SavedPartition, bytes: usize) {
        let Some(partition) = self.partition_unchanged(channel) else {
            return;
        };
        partition.end_save(saved);
        let Some(saving) = &mut self.saving else {
            return;
        };
        let recent = &mut saving.recent;
        if bytes == 0 {
            return;
        }
        recent.saves.push_back((channel, saved.end, bytes));
        recent.bytes += bytes;
        let mut forgotten = Vec::new();
        while recent.bytes > recent.bytes_max
            && let Some((channel, end, bytes)) = recent.saves.pop_front()
        {
            recent.bytes -= bytes;
            forgotten.push((channel, end));
        }
        for (channel, end) in forgotten {
            if let Some(partition) = self.partition_unchanged(channel) {
                partition.forget(end);
            }
        }
    }

    /// A partition that does not change in what it has to save.
    fn partition_unchanged(&mut self, channel: Channel) -> Option<&mut PartitionLog> {
        self.topics
            .get_mut(&channel.topic)?
            .partitions
            .get_mut(usize::try_from(channel.partition).ok()?)
    }
}

impl Save {
    /// How many commits are in it.
    pub(crate) fn commits(&self) -> usize {
        self.unsettled.len()
    }

    /// Takes what a partition has that the directory has not.
    fn take_partition(
        &mut self,
        channel: Channel,
        partition: &mut PartitionLog,
        disk: &Disk,
    ) -> Result<(), StorageError> {
        let (start, end) = (partition.log_start(), partition.high_watermark());
        self.batch
            .put(keys::partition(channel), values::range(start, end));
        let rewritten = partition.withdrawn().clone();
        if !rewritten.is_empty() {
            self.batch.extend(disk.rewritten(channel, &rewritten)?);
        }
        if start > partition.saved_start() {
            self.batch.extend(disk.chunks_below(channel, start)?);
        }
        let ended = partition.ended().clone();
        for &id in &ended {
            self.batch.delete(keys::open(channel, id));
        }
        let mut open = Vec::new();
        for (id, is_known, changed) in partition.open_transactions() {
            let ends_here = self
                .unsettled
                .iter()
                .any(|unsettled| unsettled.transaction == id);
            if ends_here && is_known {
                self.batch.delete(keys::open(channel, id));
            } else if let (false, Some(offsets)) = (ends_here, changed) {
                self.batch
                    .put(keys::open(channel, id), values::offsets(offsets));
                open.push((id, is_known));
            }
        }
        let bytes = self.take_entries(channel, partition);
        let saved = partition.begin_save(SavedPartition {
            start,
            end,
            rewritten,
            ended,
            open,
            saved_before: 0,
        });
        self.partitions.push((channel, saved, bytes));
        Ok(())
    }

    /// Takes a partition's entries, in chunks. Returns what they take in memory.
    fn take_entries(&mut self, channel: Channel, partition: &PartitionLog) -> usize {
        let mut bytes = 0;
        let mut chunk = Vec::new();
        let mut base = 0;
        for (offset, entry) in partition.unsaved() {
            let weight = entries::weight(entry);
            if !chunk.is_empty() && chunk.len() + weight > CHUNK_BYTES {
                let full = std::mem::take(&mut chunk);
                self.batch.put(keys::chunk(channel, base), full.into());
            }
            if chunk.is_empty() {
                base = offset;
            }
            entries::write(&mut chunk, entry);
            bytes += weight + ENTRY_OVERHEAD_BYTES;
        }
        if !chunk.is_empty() {
            self.batch.put(keys::chunk(channel, base), chunk.into());
        }
        bytes
    }

    /// Takes what the steps changed, in the order of their commits.
    fn take_changes(&mut self) {
        for changes in self
            .unsettled
            .iter()
            .filter_map(|step| step.changes.as_ref())
        {
            let StepChanges {
                group,
                task,
                positions,
                ordering,
                fold,
            } = changes;
            for &(channel, position) in positions {
                self.batch
                    .put(keys::position(group, channel), values::offset(position));
            }
            for (kind, changes) in [(StoreKind::Ordering, ordering), (StoreKind::Fold, fold)] {
                let prefix = keys::state(group, *task, kind);
                for (key, value) in &changes.0 {
                    let key = [&prefix, &key[..]].concat();
                    self.batch.set(key.into(), value.clone());
                }
            }
        }
    }
}
