//! One partition: records, transaction markers, and what of them a reader may see.

use std::collections::{BTreeMap, VecDeque};

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
#[derive(Clone, Debug)]
enum Entry {
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
}

/// What a read-committed fetch found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fetched {
    /// Committed records, in offset order.
    pub(crate) records: Vec<Record>,
    /// The reader's position afterwards: past the last record, and past every marker and aborted record that follows it.
    pub(crate) next: Offset,
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
    entries: VecDeque<Entry>,
    open: BTreeMap<TransactionId, Open>,
}

impl PartitionLog {
    /// The lowest offset that is still kept.
    pub(crate) fn log_start(&self) -> Offset {
        self.log_start
    }

    /// One past the last offset written, by whatever transaction: the read-uncommitted end.
    pub(crate) fn high_watermark(&self) -> Offset {
        self.log_start + self.entries.len() as Offset
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
        self.entries.push_back(Entry::Record(record));
        if let Some(id) = transaction {
            self.open
                .entry(id)
                .or_insert(Open {
                    first: offset,
                    offsets: Vec::new(),
                })
                .offsets
                .push(offset);
        }
        offset
    }

    /// Ends a transaction with a marker, if it wrote here.
    pub(crate) fn end_transaction(&mut self, id: TransactionId, outcome: Outcome) {
        let Some(open) = self.open.remove(&id) else {
            return;
        };
        if outcome == Outcome::Aborted {
            for offset in open.offsets {
                // Retention may have removed the head of an open transaction.
                if let Some(entry) = self
                    .index_of(offset)
                    .and_then(|index| self.entries.get_mut(index))
                {
                    *entry = Entry::Aborted;
                }
            }
        }
        self.entries.push_back(Entry::Marker);
    }

    /// Reads committed records from a position: at most `records_max`, and nothing at or above `until`.
    pub(crate) fn fetch(
        &self,
        from: Offset,
        until: Option<Offset>,
        records_max: usize,
    ) -> Result<Fetched, OutOfRange> {
        if from < self.log_start || from > self.high_watermark() {
            return Err(OutOfRange {
                log_start: self.log_start,
                high_watermark: self.high_watermark(),
            });
        }
        let end = until.map_or(self.last_stable_offset(), |until| {
            until.min(self.last_stable_offset())
        });
        let mut fetched = Fetched {
            records: Vec::new(),
            next: from,
        };
        while fetched.next < end {
            let Some(entry) = self
                .index_of(fetched.next)
                .and_then(|index| self.entries.get(index))
            else {
                break;
            };
            if let Entry::Record(record) = entry {
                if fetched.records.len() == records_max {
                    break;
                }
                fetched.records.push(record.clone());
            }
            fetched.next += 1;
        }
        Ok(fetched)
    }

    /// Removes everything below an offset. Returns whether the log start moved.
    pub(crate) fn delete_records(&mut self, before: Offset) -> Result<bool, OutOfRange> {
        if before < 0 || before > self.high_watermark() {
            return Err(OutOfRange {
                log_start: self.log_start,
                high_watermark: self.high_watermark(),
            });
        }
        let moved = before > self.log_start;
        while self.log_start < before {
            self.entries.pop_front();
            self.log_start += 1;
        }
        Ok(moved)
    }

    /// Removes the oldest offsets beyond `offsets_max`, but nothing that an open transaction may still decide. Returns whether the log
    /// start moved.
    pub(crate) fn keep_newest(&mut self, offsets_max: u64) -> bool {
        let excess = (self.entries.len() as u64).saturating_sub(offsets_max);
        let bound = (self.log_start + excess as Offset).min(self.last_stable_offset());
        // The bound is at most the high watermark, so nothing can be out of range.
        self.delete_records(bound).unwrap_or(false)
    }

    fn index_of(&self, offset: Offset) -> Option<usize> {
        usize::try_from(offset.checked_sub(self.log_start)?).ok()
    }
}
