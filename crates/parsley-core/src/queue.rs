//! The hold-back buffer of one channel (`docs/protocol.md`, State).
//!
//! Held records may live in the store alone: memory keeps the head and a bounded window behind it, and what arrived since the last
//! commit. Everything between is read back from the store, window by window, as deliveries reach it.

mod index;

use std::collections::VecDeque;

use bytes::Bytes;

use self::index::HeldIndex;
use crate::channel::{Channel, Offset, SenderId};
use crate::clock::{Claims, Section};
use crate::layout::{EntryKeys, HeldRecord, HeldRef, StateKey, pair_to_bytes};
use crate::node::NodeError;
use crate::refusal::{Refusal, RefusalCode};
use crate::store::{StateStore, Visit};
use crate::wire::{ClockRef, Decoded};

/// A held record with its index, as it leaves the queue.
pub(crate) struct Taken {
    pub record: HeldRecord,
    /// Whether it outlived the drain that followed its receipt.
    pub was_held: bool,
}

/// A channel's held records in position order: `front`, then those in the store alone, then `back`.
///
/// Records take an index when they are still held after a drain ([`Queue::settle_indices`], decision D11); indices `[head, tail)` are
/// taken, those below `stored` are in the store.
#[derive(Debug)]
pub(crate) struct Queue {
    channel: Channel,
    window: usize,
    head: u64,
    tail: u64,
    stored: u64,
    /// The head's index when the store was last written: entries `[stored_head, head)` are still there.
    stored_head: u64,
    meta_changed: bool,
    front: VecDeque<HeldRecord>,
    spilled: u64,
    back: VecDeque<HeldRecord>,
    /// The highest position ever pushed and still held.
    last_offset: Offset,
    /// What the records with an index send and claim by sequence.
    held: HeldIndex,
}

impl Queue {
    pub fn new(channel: Channel, window: usize) -> Self {
        Self {
            channel,
            window: window.max(1),
            head: 0,
            tail: 0,
            stored: 0,
            stored_head: 0,
            meta_changed: false,
            front: VecDeque::new(),
            spilled: 0,
            back: VecDeque::new(),
            last_offset: -1,
            held: HeldIndex::default(),
        }
    }

    pub fn len(&self) -> u64 {
        self.front.len() as u64 + self.spilled + self.back.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.front.is_empty()
    }

    /// The record at the head. It is always in memory.
    pub fn head(&self) -> Option<&HeldRecord> {
        self.front.front()
    }

    /// The position of the last held record.
    pub fn last_offset(&self) -> Option<Offset> {
        (!self.is_empty()).then_some(self.last_offset)
    }

    pub fn push(&mut self, record: HeldRecord) {
        self.last_offset = record.offset;
        if self.spilled == 0 && self.back.is_empty() && self.front.len() < self.window {
            self.front.push_back(record);
        } else {
            self.back.push_back(record);
        }
    }

    /// Removes the head; the next one is read from the store if it is there alone.
    #[inline]
    pub fn pop(&mut self, store: &(impl StateStore + ?Sized)) -> Result<Option<Taken>, NodeError> {
        let Some(record) = self.front.pop_front() else {
            return Ok(None);
        };
        let was_held = self.head < self.tail;
        if was_held {
            if let Some(clock) = ClockRef::of_checked(&record.clock) {
                self.held.pop(self.head, record.sender, &clock);
            }
            self.head += 1;
            self.meta_changed = true;
        }
        if self.front.is_empty() {
            if self.spilled > 0 {
                self.refill(store)?;
            } else {
                std::mem::swap(&mut self.front, &mut self.back);
            }
        }
        Ok(Some(Taken { record, was_held }))
    }

    fn refill(&mut self, store: &(impl StateStore + ?Sized)) -> Result<(), NodeError> {
        let wanted = (self.window as u64).min(self.spilled);
        let mut next = self.head;
        let mut corrupt = None;
        let from = EntryKeys::from(self.channel, next);
        let mut keys = from.clone();
        let front = &mut self.front;
        store.scan(from.prefix(), from.key(), &mut |key, value| {
            match HeldRecord::from_bytes(value) {
                Ok(record) if keys.take(key) == Some(next) => front.push_back(record),
                Ok(_) => return Visit::Break(()),
                Err(why) => {
                    corrupt = Some(corrupt_key(key, why));
                    return Visit::Break(());
                }
            }
            next += 1;
            if next - self.head < wanted {
                Visit::Continue(())
            } else {
                Visit::Break(())
            }
        })?;
        if let Some(refusal) = corrupt {
            return Err(refusal.into());
        }
        if next - self.head < wanted {
            let missing = StateKey::QueueEntry(self.channel, next).text();
            return Err(corrupt_key(&missing, "the held entry is missing").into());
        }
        self.spilled -= wanted;
        Ok(())
    }

    /// Gives every record that is still held after a drain its index.
    pub fn settle_indices(&mut self) {
        let end = self.head + self.len();
        if self.tail == end {
            return;
        }
        let fresh = last(&self.front, &self.back, (end - self.tail) as usize);
        for (index, record) in (self.tail..end).zip(fresh) {
            if let Some(clock) = ClockRef::of_checked(&record.clock) {
                self.held.push(index, record.sender, &clock);
            }
        }
        self.tail = end;
        self.meta_changed = true;
    }

    /// The record that has this index; one of those in memory.
    fn in_memory(&self, index: u64) -> &HeldRecord {
        let from_head = (index - self.head) as usize;
        match from_head.checked_sub(self.front.len()) {
            None => &self.front[from_head],
            Some(behind) => &self.back[behind - self.spilled as usize],
        }
    }

    /// The records without an index.
    fn fresh(&self) -> impl Iterator<Item = &HeldRecord> {
        let fresh = self.len() - (self.tail - self.head);
        last(&self.front, &self.back, fresh as usize)
    }

    /// The lowest send sequence of a sender among all records held here.
    pub fn lowest_sequence(&self, sender: SenderId) -> Option<i64> {
        let indexed = self.held.lowest_sequence(sender);
        let fresh = self
            .fresh()
            .filter_map(|record| record.sender)
            .filter(|&(from, _)| from == sender);
        indexed
            .into_iter()
            .chain(fresh.map(|(_, sequence)| sequence))
            .min()
    }

    /// The highest send sequence of a sender among all records held here.
    pub fn highest_sequence(&self, sender: SenderId) -> Option<i64> {
        let indexed = self.held.highest_sequence(sender);
        let fresh = self
            .fresh()
            .filter_map(|record| record.sender)
            .filter(|&(from, _)| from == sender);
        indexed
            .into_iter()
            .chain(fresh.map(|(_, sequence)| sequence))
            .max()
    }

    /// Visits, for every channel and sender that a held record's clock claims by sequence, the highest claim.
    pub fn visit_claims(&self, mut visit: impl FnMut(Channel, SenderId, i64)) {
        for (channel, sender, sequence) in self.held.claims() {
            visit(channel, sender, sequence);
        }
        for record in self.fresh() {
            let Some(clock) = ClockRef::of_checked(&record.clock) else {
                continue;
            };
            let section = clock.sequence_section();
            for claim in (0..section.len()).map(|at| section.get(at)) {
                visit(claim.channel, claim.sender, claim.sequence);
            }
        }
    }

    /// Writes what changed since the last call and drops from memory what the store now has beyond the window.
    pub fn write(&mut self, store: &mut (impl StateStore + ?Sized)) -> Result<(), NodeError> {
        self.settle_indices();
        if self.meta_changed {
            self.write_entries(store)?;
        }
        let beyond = self.front.len().saturating_sub(self.window);
        self.front.truncate(self.window);
        self.spilled += (beyond + self.back.len()) as u64;
        self.back.clear();
        // Memory is kept from step to step, but for that of a step which took more than usual.
        for buffer in [&mut self.front, &mut self.back] {
            if buffer.capacity() > 2 * self.window {
                buffer.shrink_to(self.window);
            }
        }
        Ok(())
    }

    fn write_entries(&mut self, store: &mut (impl StateStore + ?Sized)) -> Result<(), NodeError> {
        let mut keys = EntryKeys::from(self.channel, self.stored_head);
        for _ in self.stored_head..self.head.min(self.stored) {
            store.delete(keys.key())?;
            keys.advance();
        }
        self.stored_head = self.head;
        let unstored = self.stored.max(self.head);
        keys.go_to(unstored);
        for index in unstored..self.tail {
            store.put(keys.key(), self.in_memory(index).to_bytes())?;
            keys.advance();
        }
        self.stored = self.tail;
        let meta = pair_to_bytes(self.head as i64, self.tail as i64);
        store.put(&StateKey::QueueMeta(self.channel).text(), meta)?;
        self.meta_changed = false;
        Ok(())
    }

    /// Takes up one entry of a stored queue, in key order. Only what lies in the window is kept.
    pub fn restore_entry(
        &mut self,
        index: u64,
        held: &HeldRef<'_>,
        value: &Bytes,
    ) -> Result<(), &'static str> {
        if self.is_empty() {
            (self.head, self.tail, self.stored, self.stored_head) = (index, index, index, index);
        } else if index != self.tail {
            return Err("the held entries have a gap before this one");
        }
        if !self.is_empty() && held.offset <= self.last_offset {
            return Err("the held entries stand out of position order");
        }
        self.last_offset = held.offset;
        match &held.clock {
            Decoded::InOrder(clock) => self.held.push(index, held.sender, clock),
            Decoded::Resorted(clock) => self.held.push(index, held.sender, clock),
        }
        self.tail = index.checked_add(1).ok_or("the index is out of range")?;
        self.stored = self.tail;
        if self.front.len() < self.window {
            self.front.push_back(held.to_record(value));
        } else {
            self.spilled += 1;
        }
        Ok(())
    }

    /// Takes up the stored head and tail index, after all entries.
    pub fn restore_meta(&mut self, head: i64, tail: i64) -> Result<(), &'static str> {
        let (head, tail) = (head as u64, tail as u64);
        if head > tail {
            return Err("the head index lies above the tail index");
        }
        if self.is_empty() {
            (self.head, self.tail, self.stored, self.stored_head) = (head, tail, tail, head);
        }
        if (self.head, self.tail) != (head, tail) || self.len() != tail - head {
            return Err("the held entries do not fill the range from head to tail index");
        }
        Ok(())
    }
}

/// The last so many records of the two, in order.
fn last<'a>(
    front: &'a VecDeque<HeldRecord>,
    back: &'a VecDeque<HeldRecord>,
    count: usize,
) -> impl Iterator<Item = &'a HeldRecord> {
    let in_back = count.min(back.len());
    let in_front = count - in_back;
    let front = front.range(front.len() - in_front..);
    front.chain(back.range(back.len() - in_back..))
}

/// Corrupt state (G7) at a key.
pub(crate) fn corrupt_key(key: &[u8], why: impl std::fmt::Display) -> Refusal {
    Refusal::of_node(
        RefusalCode::CorruptState,
        format!("state key {:?}: {why}", String::from_utf8_lossy(key)),
    )
}

#[cfg(test)]
mod tests;
