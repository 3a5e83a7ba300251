//! What a queue can say of its held records without having them in memory.
//!
//! As nodes send, none of it grows with the number of held records:
//!
//! - The sequences of a sender on a channel follow one another, so however many are held, they are one run: an entry for each sender.
//! - What a sender claims by sequence under one key, a channel and the sender of what it names, only rises, so of its claims the last one
//!   stands alone: under each key at most an entry for each sender whose records lie mixed on the channel.
//!
//! The worst that records can do which no node has sent: 16 bytes for each whose sequence does not follow the one before it, 16 bytes for each
//! claim that is lower than one before it under its key, and some 100 bytes for each claim under a key of its own, which takes 44 bytes in
//! the record.

use std::collections::{BTreeMap, VecDeque};

use crate::channel::{Channel, SenderId};
use crate::clock::{Claims, Section};

/// The senders and the sequence claims of the records that have an index.
#[derive(Debug, Default)]
pub(super) struct HeldIndex {
    /// Senders stay when nothing of theirs is held any more: there will be, and their delivered marks stay as well.
    senders: BTreeMap<SenderId, Runs>,
    claims: BTreeMap<(Channel, SenderId), Maxima>,
}

impl HeldIndex {
    /// Takes up the record that is last in the queue.
    pub fn push(&mut self, index: u64, sender: Option<(SenderId, i64)>, clock: &impl Claims) {
        if let Some((sender, sequence)) = sender {
            match self.senders.get_mut(&sender) {
                Some(runs) => runs.push(sequence),
                None => {
                    self.senders.entry(sender).or_default().push(sequence);
                }
            }
        }
        let section = clock.sequence_section();
        for claim in (0..section.len()).map(|at| section.get(at)) {
            let maxima = self.claims.entry((claim.channel, claim.sender));
            maxima.or_default().push(index, claim.sequence);
        }
    }

    /// Forgets the record that was first in the queue.
    pub fn pop(&mut self, index: u64, sender: Option<(SenderId, i64)>, clock: &impl Claims) {
        if let Some((sender, _)) = sender
            && let Some(runs) = self.senders.get_mut(&sender)
        {
            runs.pop();
        }
        let section = clock.sequence_section();
        for claim in (0..section.len()).map(|at| section.get(at)) {
            let key = (claim.channel, claim.sender);
            if let Some(maxima) = self.claims.get_mut(&key)
                && maxima.pop(index)
            {
                self.claims.remove(&key);
            }
        }
    }

    /// The lowest sequence of a sender.
    pub fn lowest_sequence(&self, sender: SenderId) -> Option<i64> {
        self.senders.get(&sender)?.lowest()
    }

    /// The highest sequence of a sender.
    pub fn highest_sequence(&self, sender: SenderId) -> Option<i64> {
        self.senders.get(&sender)?.highest()
    }

    /// For every channel and sender that is claimed by sequence, the highest claim.
    pub fn claims(&self) -> impl Iterator<Item = (Channel, SenderId, i64)> {
        self.claims
            .iter()
            .filter_map(|(&(channel, sender), maxima)| Some((channel, sender, maxima.highest()?)))
    }
}

#[cfg(test)]
impl HeldIndex {
    /// How many runs of sequences and how many maxima of claims there are.
    pub fn sizes(&self) -> (usize, usize) {
        let runs = self.senders.values().map(|runs| {
            let first = usize::from(runs.first.count > 0);
            first + runs.later.len()
        });
        let maxima = self.claims.values().map(|maxima| maxima.0.len());
        (runs.sum(), maxima.sum())
    }
}

/// Consecutive sequences: the first one, and how many there are.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    first: i64,
    count: u64,
}

/// A sender's sequences in queue order, in runs.
#[derive(Debug, Default)]
struct Runs {
    /// Empty only when there is none.
    first: Run,
    later: VecDeque<Run>,
}

impl Runs {
    fn push(&mut self, sequence: i64) {
        let last = match self.later.back_mut() {
            None => &mut self.first,
            Some(last) => last,
        };
        if last.count > 0 && last.first.checked_add_unsigned(last.count) == Some(sequence) {
            last.count += 1;
            return;
        }
        let run = Run {
            first: sequence,
            count: 1,
        };
        if self.first.count == 0 {
            self.first = run;
        } else {
            self.later.push_back(run);
        }
    }

    fn pop(&mut self) {
        if self.first.count > 1 {
            self.first.first += 1;
            self.first.count -= 1;
        } else {
            self.first = self.later.pop_front().unwrap_or_default();
        }
    }

    fn lowest(&self) -> Option<i64> {
        let later = self.later.iter().map(|run| run.first);
        (self.first.count > 0).then(|| later.fold(self.first.first, i64::min))
    }

    fn highest(&self) -> Option<i64> {
        let last = |run: &Run| {
            run.first
                .saturating_add_unsigned(run.count.saturating_sub(1))
        };
        let later = self.later.iter().map(last);
        (self.first.count > 0).then(|| later.fold(last(&self.first), i64::max))
    }
}

/// Of the claims under one key, those that are higher than all behind them, with the index of their record: the first is the highest.
#[derive(Debug, Default)]
struct Maxima(VecDeque<(u64, i64)>);

impl Maxima {
    fn push(&mut self, index: u64, sequence: i64) {
        while self.0.back().is_some_and(|&(_, last)| last <= sequence) {
            self.0.pop_back();
        }
        self.0.push_back((index, sequence));
    }

    /// Forgets the claim of the record with this index, if it is there. Returns whether none is left.
    fn pop(&mut self, index: u64) -> bool {
        if self.0.front().is_some_and(|&(first, _)| first == index) {
            self.0.pop_front();
        }
        self.0.is_empty()
    }

    fn highest(&self) -> Option<i64> {
        self.0.front().map(|&(_, sequence)| sequence)
    }
}
