//! One partition of the simulated broker.

use std::hash::{Hash, Hasher};

use parsley_core::{Offset, Record};

use super::{Census, Fetched, Outcome, Txn};

/// What stands at an offset. There is one for each offset from 0 up to the end, also for those below the log start.
#[derive(Clone, Debug)]
enum Entry {
    /// A record, possibly of a transaction. Below the last stable offset it is committed.
    Record { record: Record, txn: Option<Txn> },
    /// A committed record that retention removed.
    Removed,
    /// A record of a transaction whose abort marker was written.
    Aborted,
    /// The end of a transaction.
    Marker,
}

/// A transaction that wrote here and has no replicated marker here.
#[derive(Clone, Debug)]
struct Unstable {
    txn: Txn,
    offsets: Vec<Offset>,
    marker_written: bool,
}

/// What an append did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appended {
    pub(super) offset: Offset,
    /// Whether this is the transaction's first record here.
    pub(super) first_of_txn: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    start: Offset,
    high_watermark: Offset,
    /// By offset.
    entries: Vec<Entry>,
    /// By their first offsets: a transaction comes in with its first record, at the end of the log.
    unstable: Vec<Unstable>,
    /// How many records were appended while another's transaction was unstable.
    appended_behind_open: u64,
    /// How many markers came of transactions that have no record here.
    stray_markers: u64,
}

impl Log {
    pub(super) fn start(&self) -> Offset {
        self.start
    }

    pub(super) fn last_stable(&self) -> Offset {
        let first = self
            .unstable
            .first()
            .and_then(|first| first.offsets.first());
        first.map_or(self.high_watermark, |&first| first.min(self.high_watermark))
    }

    pub(super) fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    pub(super) fn end(&self) -> Offset {
        // A log in memory is shorter than `i64::MAX`.
        self.entries.len() as Offset
    }

    pub(super) fn append(&mut self, mut record: Record, txn: Option<Txn>) -> Appended {
        let offset = self.end();
        record.offset = offset;
        self.entries.push(Entry::Record { record, txn });
        let own = self
            .unstable
            .iter()
            .position(|unstable| Some(unstable.txn) == txn);
        if self.unstable.len() > usize::from(own.is_some()) {
            self.appended_behind_open += 1;
        }
        match (own, txn) {
            (Some(own), _) => self.unstable[own].offsets.push(offset),
            (None, Some(txn)) => self.unstable.push(Unstable {
                txn,
                offsets: vec![offset],
                marker_written: false,
            }),
            (None, None) => {}
        }
        Appended {
            offset,
            first_of_txn: own.is_none() && txn.is_some(),
        }
    }

    pub(super) fn replicate(&mut self) {
        self.high_watermark = self.end();
        self.unstable.retain(|unstable| !unstable.marker_written);
    }

    /// Whether all that the transaction wrote here is replicated.
    pub(super) fn has_replicated(&self, txn: Txn) -> bool {
        let own = self.unstable.iter().find(|unstable| unstable.txn == txn);
        own.and_then(|own| own.offsets.last())
            .is_none_or(|&last| last < self.high_watermark)
    }

    pub(super) fn write_marker(&mut self, txn: Txn, outcome: Outcome) -> Offset {
        let offset = self.end();
        self.entries.push(Entry::Marker);
        let own = self
            .unstable
            .iter_mut()
            .find(|unstable| unstable.txn == txn);
        let Some(own) = own else {
            self.stray_markers += 1;
            return offset;
        };
        own.marker_written = true;
        if outcome == Outcome::Aborted {
            for &offset in &own.offsets {
                self.entries[offset as usize] = Entry::Aborted;
            }
        }
        offset
    }

    /// `None` when the position is below the log start or past the end.
    pub(super) fn fetch(&self, from: Offset, records_max: usize) -> Option<Fetched> {
        if !(self.start..=self.end()).contains(&from) {
            return None;
        }
        let mut fetched = Fetched {
            records: Vec::new(),
            next: from,
        };
        for entry in self.between(from, self.last_stable()) {
            if let Entry::Record { record, .. } = entry {
                if fetched.records.len() == records_max {
                    break;
                }
                fetched.records.push(record.clone());
            }
            fetched.next += 1;
        }
        Some(fetched)
    }

    /// All kept records that no abort marker has reached, by offset, with their transactions.
    pub(super) fn records(&self) -> impl Iterator<Item = (&Record, Option<Txn>)> {
        self.between(self.start, self.end())
            .iter()
            .filter_map(|entry| match entry {
                Entry::Record { record, txn } => Some((record, *txn)),
                Entry::Removed | Entry::Aborted | Entry::Marker => None,
            })
    }

    /// Removes everything below an offset, and tells whether there was anything. `None` when the offset is negative or past the last stable one.
    pub(super) fn delete(&mut self, before: Offset) -> Option<bool> {
        if !(0..=self.last_stable()).contains(&before) {
            return None;
        }
        if before <= self.start {
            return Some(false);
        }
        for entry in &mut self.entries[self.start as usize..before as usize] {
            if matches!(entry, Entry::Record { .. }) {
                *entry = Entry::Removed;
            }
        }
        self.start = before;
        Some(true)
    }

    /// Drops the records of a deleted topic, and what was never stable. The shape stays for the census.
    pub(super) fn retire(&mut self) {
        let stable = self.last_stable();
        self.entries.truncate(stable as usize);
        self.high_watermark = stable;
        self.unstable.clear();
        for entry in &mut self.entries {
            if matches!(entry, Entry::Record { .. }) {
                *entry = Entry::Removed;
            }
        }
        self.start = stable;
    }

    /// Tells `state` what stands here, but not whose it is.
    pub(super) fn digest(&self, state: &mut impl Hasher) {
        (self.start, self.high_watermark, self.entries.len()).hash(state);
        for entry in &self.entries {
            let shape = match entry {
                Entry::Record { .. } => 0,
                Entry::Removed => 1,
                Entry::Aborted => 2,
                Entry::Marker => 3,
            };
            state.write_u8(shape);
            if let Entry::Record { record, .. } = entry {
                (&record.key, &record.value, record.timestamp_ms).hash(state);
                for header in &record.headers {
                    (&header.name, &header.value).hash(state);
                }
            }
        }
    }

    /// The transactions without a replicated marker here: each with its offsets, and whether its marker is written.
    pub(super) fn unstable(&self) -> impl Iterator<Item = (Txn, &[Offset], bool)> {
        let unstable = self.unstable.iter();
        unstable.map(|of| (of.txn, &of.offsets[..], of.marker_written))
    }

    /// Adds what is below the last stable offset, from offset 0 on.
    pub(super) fn count(&self, census: &mut Census) {
        census.appended_behind_open += self.appended_behind_open;
        census.stray_markers += self.stray_markers;
        let stable = self.between(0, self.last_stable());
        let shape: Vec<Shape> = stable.iter().map(Shape::of).collect();
        let is_committed = |shape: &Shape| *shape == Shape::Committed;
        census.committed_records += shape.iter().filter(|shape| is_committed(shape)).count() as u64;
        let first = shape.iter().position(is_committed);
        let last = shape.iter().rposition(is_committed);
        for (at, what) in shape.iter().enumerate() {
            let after_one = first.is_some_and(|first| first < at);
            let before_one = last.is_some_and(|last| at < last);
            // A run of aborted records is told by its last one; the markers of the run's transactions do not end it.
            let ends_run = || {
                let behind = shape[at + 1..]
                    .iter()
                    .find(|shape| **shape != Shape::Marker);
                behind != Some(&Shape::Aborted)
            };
            match what {
                Shape::Committed => {}
                Shape::Marker => {
                    census.markers += 1;
                    census.markers_between_records += u64::from(after_one && before_one);
                }
                Shape::Aborted if ends_run() => {
                    census.aborted_runs_at_head += u64::from(!after_one);
                    census.aborted_runs_in_middle += u64::from(after_one && before_one);
                    census.aborted_runs_at_tail += u64::from(!before_one);
                }
                Shape::Aborted => {}
            }
        }
        census.trailing_markers += u64::from(shape.last() == Some(&Shape::Marker));
    }

    /// The entries from an offset on up to, not including, another; none when they are the wrong way round.
    fn between(&self, from: Offset, until: Offset) -> &[Entry] {
        self.entries
            .get(from as usize..until as usize)
            .unwrap_or_default()
    }
}

/// An entry as the census sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Committed,
    Aborted,
    Marker,
}

impl Shape {
    fn of(entry: &Entry) -> Self {
        match entry {
            Entry::Record { .. } | Entry::Removed => Self::Committed,
            Entry::Aborted => Self::Aborted,
            Entry::Marker => Self::Marker,
        }
    }
}
