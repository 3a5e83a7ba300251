//! One partition: records, transaction markers, and what of them a reader may see.
//!
//! A log in memory has all of it here. A log on disk has here what is not saved yet, and of the rest what was written last; the directory
//! has everything up to `saved`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use parsley_core::{Offset, Record};

/// An open transaction's identity inside this log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TransactionId(pub(crate) u64);

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    Aborted,
}

/// What stands at an offset. Every offset between the log start and the high watermark has an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A record. Whether its transaction is still open follows from the last stable offset alone.
    Record(Record),
    /// A record of an aborted transaction. Nobody can read it any more, so only its offset is kept.
    Aborted,
    /// The end of a transaction.
    Marker,
}

/// What an open transaction wrote to this partition.
#[derive(Clone, Debug)]
struct Open {
    first: Offset,
    offsets: Vec<Offset>,
    /// Whether the directory takes the transaction for open.
    is_known: bool,
    /// Whether the offsets are others than the directory knows.
    has_changed: bool,
}

/// How much a fetch takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchLimits {
    pub(crate) records_max: usize,
    /// In bytes of keys, values and headers. The first record is taken whatever its size.
    pub(crate) bytes_max: usize,
}

/// What a read-committed fetch found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fetched {
    /// Committed records, in offset order.
    pub(crate) records: Vec<Record>,
    /// The reader's position afterwards: past the last record, and past every marker and aborted record that follows it.
    pub(crate) next: Offset,
    bytes: usize,
}

impl Fetched {
    /// Nothing yet.
    pub(crate) fn at(position: Offset) -> Self {
        Self {
            records: Vec::new(),
            next: position,
            bytes: 0,
        }
    }

    /// Whether a record of so many bytes is too many.
    pub(crate) fn is_full_for(&self, bytes: usize, limits: FetchLimits) -> bool {
        self.records.len() >= limits.records_max
            || (!self.records.is_empty() && self.bytes.saturating_add(bytes) > limits.bytes_max)
    }

    pub(crate) fn take(&mut self, record: Record, bytes: usize) {
        self.records.push(record);
        self.bytes = self.bytes.saturating_add(bytes);
        self.next += 1;
    }
}

/// What a save took of a partition.
#[derive(Debug)]
pub(crate) struct SavedPartition {
    /// The log start.
    pub(crate) start: Offset,
    /// One past the last entry.
    pub(crate) end: Offset,
    /// Records that it withdrew.
    pub(crate) rewritten: BTreeSet<Offset>,
    /// Transactions that are no longer open.
    pub(crate) ended: BTreeSet<TransactionId>,
    /// Transactions that are open and have changed, and whether the directory took them for open before.
    pub(crate) open: Vec<(TransactionId, bool)>,
    /// Up to where the directory had the entries before.
    pub(crate) saved_before: Offset,
}

/// The position asked for is not between the log start and the high watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfRange {
    pub(crate) log_start: Offset,
    pub(crate) high_watermark: Offset,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct PartitionLog {
    log_start: Offset,
    /// The offset of the first entry in memory.
    tail_start: Offset,
    tail: VecDeque<Entry>,
    open: BTreeMap<TransactionId, Open>,
    /// The directory has the entries below. 0 for a log in memory.
    saved: Offset,
    /// The log start that the directory knows.
    saved_start: Offset,
    /// Transactions that the directory takes for open and that have been aborted.
    ended: BTreeSet<TransactionId>,
    /// Offsets of records that the directory has, of transactions that were aborted since.
    withdrawn: BTreeSet<Offset>,
}

impl PartitionLog {
    /// A partition whose entries are all in the directory.
    pub(crate) fn saved(log_start: Offset, high_watermark: Offset) -> Self {
        Self {
            log_start,
            tail_start: high_watermark,
            saved: high_watermark,
            saved_start: log_start,
            ..Self::default()
        }
    }

    /// The lowest offset that is still kept.
    pub(crate) fn log_start(&self) -> Offset {
        self.log_start
    }

    /// One past the last offset written, by whatever transaction: the read-uncommitted end.
    pub(crate) fn high_watermark(&self) -> Offset {
        self.tail_start + self.tail.len() as Offset
    }

    /// The first offset of the oldest open transaction, or the high watermark: where a read-committed reader stops.
    pub(crate) fn last_stable_offset(&self) -> Offset {
        let first_open = self.open.values().map(|open| open.first).min();
        first_open.map_or(self.high_watermark(), |first| first.max(self.log_start))
    }

    /// Appends a record, within a transaction if one is given, and returns where it stands. The record's own offset is set to that.
    pub(crate) fn append(
        &mut self,
        mut record: Record,
        transaction: Option<TransactionId>,
    ) -> Offset {
        let offset = self.high_watermark();
        record.offset = offset;
        self.tail.push_back(Entry::Record(record));
        if let Some(id) = transaction {
            let open = self.open.entry(id).or_insert(Open {
                first: offset,
                offsets: Vec::new(),
                is_known: false,
                has_changed: true,
            });
            open.offsets.push(offset);
            open.has_changed = true;
        }
        offset
    }

    /// Appends a transaction's marker, if it wrote here. Readers do not pass its records before it is settled.
    pub(crate) fn mark_end(&mut self, id: TransactionId) {
        if self.open.contains_key(&id) {
            self.tail.push_back(Entry::Marker);
        }
    }

    /// Settles what becomes of a transaction's records here.
    pub(crate) fn settle(&mut self, id: TransactionId, outcome: Outcome) {
        let Some(open) = self.open.remove(&id) else {
            return;
        };
        if outcome == Outcome::Aborted {
            if open.is_known {
                self.ended.insert(id);
            }
            for offset in open.offsets {
                self.withdraw(offset);
            }
        }
    }

    /// Withdraws one record of an open transaction. Without any other here, the transaction did not write here.
    pub(crate) fn withdraw_one(&mut self, id: TransactionId, offset: Offset) {
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        let Ok(index) = open.offsets.binary_search(&offset) else {
            return;
        };
        open.offsets.remove(index);
        open.has_changed = true;
        if open.offsets.is_empty() {
            if open.is_known {
                self.ended.insert(id);
            }
            self.open.remove(&id);
        }
        self.withdraw(offset);
    }

    fn withdraw(&mut self, offset: Offset) {
        // Retention may have removed the head of an open transaction.
        if offset < self.log_start {
            return;
        }
        if offset < self.saved {
            self.withdrawn.insert(offset);
        }
        if let Some(entry) = self
            .index_of(offset)
            .and_then(|index| self.tail.get_mut(index))
        {
            *entry = Entry::Aborted;
        }
    }

    /// Up to where a read-committed reader may read from a position, and not to or beyond `until`.
    pub(crate) fn readable(
        &self,
        from: Offset,
        until: Option<Offset>,
    ) -> Result<Offset, OutOfRange> {
        if from < self.log_start || from > self.high_watermark() {
            return Err(OutOfRange {
                log_start: self.log_start,
                high_watermark: self.high_watermark(),
            });
        }
        Ok(until.map_or(self.last_stable_offset(), |until| {
            until.min(self.last_stable_offset())
        }))
    }

    /// From where on everything is in memory.
    pub(crate) fn tail_start(&self) -> Offset {
        self.tail_start
    }

    /// Reads on in memory up to `end`, which [`PartitionLog::readable`] has found, if what comes next is there.
    pub(crate) fn fetch_tail(&self, fetched: &mut Fetched, end: Offset, limits: FetchLimits) {
        while fetched.next < end {
            let Some(entry) = self
                .index_of(fetched.next)
                .and_then(|index| self.tail.get(index))
            else {
                return;
            };
            match entry {
                Entry::Record(record) => {
                    let bytes = record_bytes(record);
                    if fetched.is_full_for(bytes, limits) {
                        return;
                    }
                    fetched.take(record.clone(), bytes);
                }
                Entry::Aborted | Entry::Marker => fetched.next += 1,
            }
        }
    }

    /// Removes everything below an offset. Returns whether the log start moved.
    pub(crate) fn delete_records(&mut self, before: Offset) -> Result<bool, OutOfRange> {
        if before < 0 || before > self.high_watermark() {
            return Err(OutOfRange {
                log_start: self.log_start,
                high_watermark: self.high_watermark(),
            });
        }
        if before <= self.log_start {
            return Ok(false);
        }
        self.log_start = before;
        self.trim_to(before);
        self.withdrawn = self.withdrawn.split_off(&before);
        Ok(true)
    }

    /// Removes the oldest offsets beyond `offsets_max`, but nothing that an open transaction may still decide. Returns whether the log
    /// start moved.
    pub(crate) fn keep_newest(&mut self, offsets_max: u64) -> bool {
        let kept = (self.high_watermark() - self.log_start) as u64;
        let excess = kept.saturating_sub(offsets_max);
        let bound = (self.log_start + excess as Offset).min(self.last_stable_offset());
        // The bound is at most the high watermark, so nothing can be out of range.
        self.delete_records(bound).unwrap_or(false)
    }

    /// The entries that the directory does not have, with their offsets.
    pub(crate) fn unsaved(&self) -> impl Iterator<Item = (Offset, &Entry)> {
        let first = self.saved.max(self.tail_start);
        let skipped = usize::try_from(first - self.tail_start).unwrap_or(usize::MAX);
        (first..).zip(self.tail.iter().skip(skipped))
    }

    /// The log start that the directory knows.
    pub(crate) fn saved_start(&self) -> Offset {
        self.saved_start
    }

    /// Offsets whose records the directory still has although they were withdrawn.
    pub(crate) fn withdrawn(&self) -> &BTreeSet<Offset> {
        &self.withdrawn
    }

    /// Transactions that the directory still takes for open although they were aborted.
    pub(crate) fn ended(&self) -> &BTreeSet<TransactionId> {
        &self.ended
    }

    /// The transactions that are open here: whether the directory takes each for open, and the offsets that it wrote, if they are others
    /// than the directory knows.
    pub(crate) fn open_transactions(
        &self,
    ) -> impl Iterator<Item = (TransactionId, bool, Option<&[Offset]>)> {
        self.open.iter().map(|(id, open)| {
            let changed = open.has_changed.then_some(open.offsets.as_slice());
            (*id, open.is_known, changed)
        })
    }

    /// A save takes what the directory has not: from here on that counts as saved, so that what becomes of it meanwhile is noted for the
    /// next save. It stays in memory until the save is over.
    pub(crate) fn begin_save(&mut self, mut saved: SavedPartition) -> SavedPartition {
        saved.saved_before = self.saved;
        self.saved = self.saved.max(saved.end);
        for (id, was_known) in &mut saved.open {
            if let Some(open) = self.open.get_mut(id) {
                *was_known = std::mem::replace(&mut open.is_known, true);
                open.has_changed = false;
            }
        }
        saved
    }

    /// The directory has what a save took of this partition.
    pub(crate) fn end_save(&mut self, saved: &SavedPartition) {
        self.saved_start = saved.start;
        self.withdrawn
            .retain(|offset| !saved.rewritten.contains(offset));
        self.ended.retain(|id| !saved.ended.contains(id));
    }

    /// The directory has nothing of what a save took.
    pub(crate) fn undo_save(&mut self, saved: &SavedPartition) {
        self.saved = saved.saved_before;
        self.withdrawn.retain(|offset| *offset < saved.saved_before);
        for (id, was_known) in &saved.open {
            if let Some(open) = self.open.get_mut(id) {
                open.is_known = *was_known;
                open.has_changed = true;
            }
        }
    }

    /// Forgets the entries below an offset, as far as the directory has them.
    pub(crate) fn forget(&mut self, below: Offset) {
        self.trim_to(below.min(self.saved));
    }

    fn trim_to(&mut self, offset: Offset) {
        while self.tail_start < offset && self.tail.pop_front().is_some() {
            self.tail_start += 1;
        }
    }

    fn index_of(&self, offset: Offset) -> Option<usize> {
        usize::try_from(offset.checked_sub(self.tail_start)?).ok()
    }
}

/// The size of a record: its key, its value, and the names and values of its headers.
pub(crate) fn record_bytes(record: &Record) -> usize {
    let field = |field: &Option<bytes::Bytes>| field.as_ref().map_or(0, |field| field.len());
    let headers = record
        .headers
        .iter()
        .map(|header| header.name.len() + field(&header.value));
    field(&record.key) + field(&record.value) + headers.sum::<usize>()
}
