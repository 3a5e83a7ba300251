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

/// A set of channel indices with an ordered look-up. A bit of one level says whether a word of the level below has members, so that a
/// look-up costs the same wherever the next member is.
#[derive(Clone, Debug)]
struct IndexSet(Vec<Vec<u64>>);

impl IndexSet {
    /// An empty set of indices below `bound`.
    fn new(bound: usize) -> Self {
        let mut levels = vec![vec![0; bound.div_ceil(64).max(1)]];
        while let Some(below) = levels.last().map(Vec::len).filter(|&words| words > 1) {
            levels.push(vec![0; below.div_ceil(64)]);
        }
        Self(levels)
    }

    fn insert(&mut self, mut index: usize) {
        for level in &mut self.0 {
            level[index / 64] |= 1 << (index % 64);
            index /= 64;
        }
    }

    fn remove(&mut self, mut index: usize) {
        for level in &mut self.0 {
            let word = &mut level[index / 64];
            *word &= !(1 << (index % 64));
            if *word != 0 {
                break;
            }
            index /= 64;
        }
    }

    /// The lowest member at or above `from`.
    fn next(&self, from: usize) -> Option<usize> {
        let mut index = from;
        let mut levels = self.0.iter().enumerate();
        let (mut below, found) = loop {
            let (height, level) = levels.next()?;
            let bits = level.get(index / 64)? & (u64::MAX << (index % 64));
            if bits != 0 {
                let bit = bits.trailing_zeros() as usize;
                break (height, index / 64 * 64 + bit);
            }
            index = index / 64 + 1;
        };
        index = found;
        while below > 0 {
            below -= 1;
            index = index * 64 + self.0[below][index].trailing_zeros() as usize;
        }
        Some(index)
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
            candidates: IndexSet::new(channels),
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
        let waiting = &mut self.waiters[channel].sequences;
        if waiting.is_empty() {
            return;
        }
        let met = (sender, i64::MIN, 0)..=(sender, sequence, usize::MAX);
        while let Some(&waiter) = waiting.range(met.clone()).next() {
            waiting.remove(&waiter);
            self.candidates.insert(waiter.2);
        }
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
}

#[cfg(test)]
mod tests;
