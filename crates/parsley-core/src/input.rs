//! What a node knows of one received channel (`docs/protocol.md`, What moves fed_up_to).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::channel::{Channel, Offset, SenderId};
use crate::clock::Clock;
use crate::decide::{Met, Settled, SettledView};
use crate::layout::{StateKey, number_to_bytes, pair_to_bytes};
use crate::node::NodeError;
use crate::queue::Queue;
use crate::refusal::{Refusal, RefusalCode};
use crate::stamp::StampPlaces;
use crate::store::StateStore;
use crate::watermark::Evidence;
use crate::wire;

/// The highest delivered sequence of a sender on a channel, and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeliveredSequence {
    pub sequence: i64,
    pub offset: Offset,
}

/// One received channel.
#[derive(Debug)]
pub(crate) struct Input {
    pub channel: Channel,
    /// `fed_up_to`: everything at or below it was fed or will never arrive.
    pub fed_up_to: Option<Offset>,
    /// Where the host reads from while `fed_up_to` is undefined; `None` when it did not say and no scope is recorded.
    pub resumes_at: Option<Offset>,
    /// The last record fed in this execution (G4).
    pub last_fed: Option<Offset>,
    /// The highest position advance of this execution (G4).
    pub advanced_to: Option<Offset>,
    /// The topic was found gone in this execution.
    pub gone: bool,
    /// The delivered term: the highest delivered position, or the restored frontier.
    pub delivered: Option<Offset>,
    /// The advertised term: the folded clocks of what was delivered.
    pub advertised: Clock,
    /// Where the stamp had the claims of these two the last time.
    pub places: StampPlaces,
    pub queue: Queue,
    pub delivered_sequences: BTreeMap<SenderId, DeliveredSequence>,
    pub evidence: Evidence,
    /// What of the head is known to be met.
    pub head_met: Met,
    /// `f/<channel>` as it stands in the store.
    pub stored_frontier: Option<Offset>,
    pub advertised_changed: bool,
    /// The senders whose delivered mark has moved since it was written, perhaps repeatedly.
    changed_senders: Vec<SenderId>,
    /// Whether the node has this input on its list of those to write.
    pub touched: bool,
    /// The position last given to the host to commit.
    pub committed_position: Option<Offset>,
}

impl Input {
    pub fn new(channel: Channel, window: usize) -> Self {
        Self {
            channel,
            fed_up_to: None,
            resumes_at: None,
            last_fed: None,
            advanced_to: None,
            gone: false,
            delivered: None,
            advertised: Clock::new(),
            places: StampPlaces::default(),
            queue: Queue::new(channel, window),
            delivered_sequences: BTreeMap::new(),
            evidence: Evidence::default(),
            head_met: Met::default(),
            stored_frontier: None,
            advertised_changed: false,
            changed_senders: Vec::new(),
            touched: false,
            committed_position: None,
        }
    }

    /// Everything at or below `position` was fed or will never arrive.
    pub fn raise_fed_up_to(&mut self, position: Offset) {
        if position >= 0 {
            self.fed_up_to = self.fed_up_to.max(Some(position));
        }
    }

    /// Whether a feed at `offset` stands at or below what this execution was fed, or below a position advance (G4).
    pub fn is_out_of_order(&self, offset: Offset) -> bool {
        self.last_fed.is_some_and(|last| offset <= last)
            || self.advanced_to.is_some_and(|next| offset < next)
    }

    /// The settled position without regard to deletion: what `f/<channel>` stores.
    pub fn frontier(&self) -> Option<Offset> {
        match self.queue.head() {
            Some(head) => Some(head.offset - 1),
            None => self.fed_up_to,
        }
    }

    /// How far the channel is settled.
    pub fn settled(&self) -> Settled {
        if self.gone {
            return Settled::ToItsEnd;
        }
        self.frontier().map_or(Settled::Undefined, Settled::At)
    }

    /// The position to commit with the state: one past the `fed_up_to` that a restore would compute from it.
    pub fn position_to_commit(&self) -> Option<Offset> {
        let frontier = self.frontier().filter(|&position| position >= 0);
        frontier
            .max(self.queue.last_offset())
            .map(|position| position.saturating_add(1))
    }

    /// The position to resume from, as far as it is known: what the log start must not pass (G10).
    pub fn next_needed(&self) -> Option<Offset> {
        self.fed_up_to
            .map(|fed| fed.saturating_add(1))
            .or(self.resumes_at)
    }

    /// G10: the log start passed a record still held, or the position to go on from.
    pub fn check_log_start(
        &self,
        resumes_at: Option<Offset>,
        log_start: Offset,
    ) -> Result<(), Refusal> {
        let passed = |position: &Offset| *position < log_start;
        let held = self.queue.head().map(|head| head.offset).filter(passed);
        let lost = held.or(resumes_at.filter(passed));
        match lost {
            None => Ok(()),
            Some(position) => Err(Refusal::at(
                RefusalCode::PositionsLost,
                self.channel,
                position,
                format!("the log starts at {log_start}, and this position was not delivered"),
            )),
        }
    }

    /// Notes that a tagged record was delivered. Returns whether the sender's highest sequence moved.
    pub fn note_delivered(&mut self, sender: SenderId, sequence: i64, offset: Offset) -> bool {
        let mark = DeliveredSequence { sequence, offset };
        match self.delivered_sequences.entry(sender) {
            Entry::Vacant(unseen) => {
                unseen.insert(mark);
            }
            Entry::Occupied(known) if known.get().sequence < sequence => {
                *known.into_mut() = mark;
            }
            Entry::Occupied(_) => return false,
        }
        if self.changed_senders.last() != Some(&sender) {
            self.changed_senders.push(sender);
        }
        true
    }

    /// Writes what changed since the last call.
    pub fn write(&mut self, store: &mut (impl StateStore + ?Sized)) -> Result<(), NodeError> {
        self.queue.write(store)?;
        let frontier = self.frontier().filter(|&position| position >= 0);
        if let Some(position) = frontier
            && frontier != self.stored_frontier
        {
            store.put(
                &StateKey::Frontier(self.channel).text(),
                number_to_bytes(position),
            )?;
            self.stored_frontier = frontier;
        }
        if std::mem::take(&mut self.advertised_changed) {
            write_clock(store, StateKey::Advertised(self.channel), &self.advertised)?;
        }
        self.changed_senders.sort_unstable();
        self.changed_senders.dedup();
        for sender in self.changed_senders.drain(..) {
            if let Some(known) = self.delivered_sequences.get(&sender) {
                let key = StateKey::DeliveredSequence(self.channel, sender).text();
                store.put(&key, pair_to_bytes(known.sequence, known.offset))?;
            }
        }
        Ok(())
    }
}

/// Writes a clock under its key; an empty one has none (decision D3).
pub(crate) fn write_clock(
    store: &mut (impl StateStore + ?Sized),
    key: StateKey,
    clock: &Clock,
) -> Result<(), NodeError> {
    if clock.is_empty() {
        store.delete(&key.text())?;
    } else {
        store.put(&key.text(), wire::encode(clock).into())?;
    }
    Ok(())
}

/// What the decision sees of the node, for the record at `offset` of the received channel `on`.
pub(crate) struct View<'a> {
    pub inputs: &'a [Input],
    pub on: usize,
    pub offset: Offset,
}

impl SettledView for View<'_> {
    fn settled(&self, channel: usize) -> Settled {
        self.inputs[channel].settled()
    }

    fn delivered_sequence(&self, channel: usize, sender: SenderId) -> Option<i64> {
        self.inputs[channel]
            .delivered_sequences
            .get(&sender)
            .map(|known| known.sequence)
    }

    fn fed_up_to(&self, channel: usize) -> Option<Offset> {
        self.inputs[channel].fed_up_to
    }

    fn watermark(&self, channel: usize) -> Option<Offset> {
        self.inputs[channel]
            .evidence
            .lowest_after_receipt(self.on, self.offset)
    }

    fn lowest_held_sequence(&self, channel: usize, sender: SenderId) -> Option<i64> {
        self.inputs[channel].queue.lowest_sequence(sender)
    }
}

#[cfg(test)]
mod tests;
