//! Which head to look at next (`docs/protocol.md`, Order).
//!
//! The order is that of a plain scan: pass over the received channels in channel order, deliver a channel's heads while they are
//! deliverable, repeat until a whole pass delivers nothing. The index skips the channels whose head is known to be blocked: a blocked head
//! waits on the one claim that blocks it, and is looked at again when that claim may have been met. The plain scan itself stands in this
//! file's tests.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::channel::{Offset, SenderId};
use crate::clock::Claim;
use crate::decide::{Blocked, Settled};

/// A set of channel indices with an ordered look-up.
#[derive(Clone, Debug, Default)]
struct IndexSet(Vec<u64>);

impl IndexSet {
    fn insert(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    fn remove(&mut self, index: usize) {
        self.0[index / 64] &= !(1 << (index % 64));
    }

    /// The lowest member at or above `from`.
    fn next(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = self.0.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.0.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

/// The heads that wait for something to happen on one received channel.
#[derive(Clone, Debug, Default)]
struct Waiters {
    /// By the position claimed.
    offsets: BinaryHeap<Reverse<(Offset, usize)>>,
    /// By the sender and sequence claimed.
    sequences: BTreeSet<(SenderId, i64, usize)>,
}

/// The drain: a cursor over the received channels, and the index of heads that may be deliverable.
#[derive(Clone, Debug)]
pub(crate) struct Drain {
    cursor: usize,
    /// Channels whose head is not known to be blocked.
    candidates: IndexSet,
    waiters: Vec<Waiters>,
    /// How many heads were looked at, so that tests can tell near-linear work from quadratic.
    #[cfg(test)]
    pub looks: usize,
}

impl Drain {
    pub fn new(channels: usize) -> Self {
        Self {
            cursor: 0,
            candidates: IndexSet(vec![0; channels.div_ceil(64)]),
            waiters: vec![Waiters::default(); channels],
            #[cfg(test)]
            looks: 0,
        }
    }

    /// The next delivery is looked for from the first channel (decision D12).
    pub fn restart(&mut self) {
        self.cursor = 0;
    }

    /// The channel whose head is to be decided next; `None` ends the drain.
    pub fn next_candidate(&mut self) -> Option<usize> {
        let next = self
            .candidates
            .next(self.cursor)
            .or_else(|| self.candidates.next(0));
        self.cursor = next.unwrap_or(0);
        #[cfg(test)]
        {
            self.looks += usize::from(next.is_some());
        }
        next
    }

    /// A channel has a new head, or its head is gone.
    pub fn head_changed(&mut self, channel: usize, has_head: bool) {
        if has_head {
            self.candidates.insert(channel);
        } else {
            self.candidates.remove(channel);
        }
    }

    /// The head of `channel` is blocked: it is looked at again when its claim may have been met.
    pub fn blocked(&mut self, channel: usize, blocked: &Blocked) {
        self.candidates.remove(channel);
        let waiters = &mut self.waiters[blocked.channel];
        match blocked.claim {
            Claim::Offset(claim) => waiters.offsets.push(Reverse((claim.offset, channel))),
            Claim::Sequence(claim) => {
                waiters
                    .sequences
                    .insert((claim.sender, claim.sequence, channel));
            }
        }
    }

    /// `channel` is settled up to here now.
    pub fn settled(&mut self, channel: usize, settled: Settled) {
        let up_to = match settled {
            Settled::Undefined => return,
            Settled::At(position) => position,
            Settled::ToItsEnd => return self.anything(channel),
        };
        let offsets = &mut self.waiters[channel].offsets;
        while offsets
            .peek()
            .is_some_and(|&Reverse((offset, _))| offset <= up_to)
        {
            if let Some(Reverse((_, head))) = offsets.pop() {
                self.candidates.insert(head);
            }
        }
    }

    /// A record of `sender` with this sequence was delivered on `channel`.
    pub fn sequence_delivered(&mut self, channel: usize, sender: SenderId, sequence: i64) {
        self.wake_sequences(
            channel,
            (sender, i64::MIN, 0)..=(sender, sequence, usize::MAX),
        );
    }

    /// What is held of `sender` on `channel`, or what is known of its watermarks, has changed.
    pub fn sender_evidence_changed(&mut self, channel: usize, sender: SenderId) {
        self.wake_sequences(
            channel,
            (sender, i64::MIN, 0)..=(sender, i64::MAX, usize::MAX),
        );
    }

    /// Watermark evidence on `channel` may meet any sequence claim on it now.
    pub fn evidence_changed(&mut self, channel: usize) {
        for (_, _, head) in std::mem::take(&mut self.waiters[channel].sequences) {
            self.candidates.insert(head);
        }
    }

    /// Every claim on `channel` may be met now.
    fn anything(&mut self, channel: usize) {
        for Reverse((_, head)) in std::mem::take(&mut self.waiters[channel].offsets) {
            self.candidates.insert(head);
        }
        self.evidence_changed(channel);
    }

    fn wake_sequences(
        &mut self,
        channel: usize,
        claims: std::ops::RangeInclusive<(SenderId, i64, usize)>,
    ) {
        let waiting = &mut self.waiters[channel].sequences;
        while let Some(&waiter) = waiting.range(claims.clone()).next() {
            waiting.remove(&waiter);
            self.candidates.insert(waiter.2);
        }
    }
}

#[cfg(test)]
mod tests;
