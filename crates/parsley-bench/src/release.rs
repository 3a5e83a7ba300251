//! Holding records back, and releasing them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use parsley_core::{Channel, Clock, MemoryStore, Node, Offset, Record};

use crate::{STEP_RECORDS, world};

/// What is held, and what releases it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One record on each channel, each waiting for the one on the next channel: the order that costs a scan in channel order a whole pass for every
    /// record. What the last one waits for releases all.
    Chain,
    /// One record on each channel, all waiting for the same.
    SameClaim,
    /// All records on one channel, all waiting for the same, and so behind the first.
    OneChannel,
}

/// How long a round of [`Held::round`] took, by its parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    /// Receiving what is held, in steps of [`STEP_RECORDS`], with their commits.
    pub hold: Duration,
    /// Receiving what releases it, and pulling all deliveries.
    pub release: Duration,
    /// The commit, or the commits where it takes more than one step.
    pub commit: Duration,
}

/// A node that holds a number of records and releases them, round after round.
#[derive(Debug)]
pub struct Held {
    node: Node,
    store: MemoryStore,
    pattern: Pattern,
    /// The channels with what is held, in channel order.
    channels: Vec<Channel>,
    /// The channel of what releases it.
    releasing: Channel,
    records: usize,
    round: Offset,
}

impl Held {
    /// A node that is to hold `records` records.
    pub fn new(pattern: Pattern, records: usize) -> Self {
        let count = match pattern {
            Pattern::Chain | Pattern::SameClaim => records,
            Pattern::OneChannel => 1,
        };
        let mut channels = world::channels(count + 1);
        let mut store = MemoryStore::new();
        let node = world::node(&channels, &mut store);
        let releasing = channels.pop().expect("there is one more than held");
        Self {
            node,
            store,
            pattern,
            channels,
            releasing,
            records,
            round: 0,
        }
    }

    fn to_hold(&self) -> Vec<Record> {
        let claiming = |channel, position| {
            let mut clock = Clock::new();
            clock.claim_offset(channel, position);
            clock
        };
        let release = claiming(self.releasing, self.round);
        match self.pattern {
            Pattern::OneChannel => {
                let first = self.round * self.records as Offset;
                (first..first + self.records as Offset)
                    .map(|offset| world::stamped(self.channels[0], offset, &release))
                    .collect()
            }
            Pattern::SameClaim => {
                let channels = self.channels.iter();
                channels
                    .map(|&channel| world::stamped(channel, self.round, &release))
                    .collect()
            }
            Pattern::Chain => {
                let after = self.channels.iter().skip(1).chain([&self.releasing]);
                let pairs = self.channels.iter().zip(after);
                pairs
                    .map(|(&channel, &next)| {
                        world::stamped(channel, self.round, &claiming(next, self.round))
                    })
                    .collect()
            }
        }
    }

    fn drain(&mut self, most: usize) -> usize {
        let mut delivered = 0;
        while delivered < most
            && black_box(&self.node.next_delivery(&self.store))
                .as_ref()
                .expect("what was stored is there")
                .is_some()
        {
            delivered += 1;
        }
        delivered
    }

    fn commit(&mut self) {
        let positions = self.node.commit(&[], &mut self.store);
        black_box(positions.expect("a store in memory does not fail"));
    }

    fn receive(&mut self, record: Record) {
        let receipt = self.node.receive(record);
        black_box(receipt.expect("the records are in order"));
    }

    /// Holds and releases once, with deliveries in steps of at most `step` records.
    ///
    /// # Panics
    ///
    /// When not everything was held, or not everything was delivered.
    pub fn round(&mut self, step: usize) -> Took {
        let records = self.to_hold();
        let releasing = world::plain(self.releasing, self.round);
        self.round += 1;
        let mut took = Took::default();

        let mut fetches: Vec<Vec<Record>> = Vec::new();
        for chunk in records.chunks(STEP_RECORDS) {
            fetches.push(chunk.to_vec());
        }
        let started = Instant::now();
        for fetch in fetches {
            for record in fetch {
                self.receive(record);
            }
            assert_eq!(self.drain(usize::MAX), 0, "nothing is deliverable yet");
            self.commit();
        }
        took.hold = started.elapsed();
        assert_eq!(self.node.held(), self.records as u64, "everything is held");

        let all = self.records + 1;
        let mut delivered = 0;
        let mut started = Instant::now();
        self.receive(releasing);
        while delivered < all {
            let before = delivered;
            delivered += self.drain(step);
            took.release += started.elapsed();
            started = Instant::now();
            self.commit();
            took.commit += started.elapsed();
            started = Instant::now();
            assert_ne!(before, delivered, "everything held is released");
        }
        assert_eq!((delivered, self.node.held()), (all, 0));
        took
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_pattern_all_is_held_and_released() {
        for pattern in [Pattern::Chain, Pattern::SameClaim, Pattern::OneChannel] {
            let mut held = Held::new(pattern, 300);
            for _ in 0..3 {
                let took = held.round(usize::MAX);
                assert!(took.hold > Duration::ZERO && took.release > Duration::ZERO);
            }
            held.round(STEP_RECORDS);
        }
    }

    #[test]
    fn a_chain_goes_against_the_order_of_its_channels() {
        let mut held = Held::new(Pattern::Chain, 8);
        for record in held.to_hold() {
            held.receive(record);
        }
        let releasing = world::plain(held.releasing, 0);
        held.receive(releasing);
        let mut order = Vec::new();
        while let Some(delivery) = held.node.next_delivery(&held.store).unwrap() {
            order.push(delivery.channel);
        }
        assert_eq!(order.len(), 9);
        assert!(order.is_sorted_by(|a, b| a > b), "{order:?}");
    }
}
