//! Stamps of a node that has been delivered much.

use std::hint::black_box;
use std::time::{Duration, Instant};

use parsley_core::{Channel, Clock, MemoryStore, Node, Offset, Record, Stamp};

use crate::world;

/// A node of `n` channels, each of which has delivered a record with a clock of `n` claims, one for each of these channels.
#[derive(Debug)]
pub struct Stamping {
    node: Node,
    store: MemoryStore,
    channels: Vec<Channel>,
    /// The clock of the next record.
    clock: Clock,
    turn: usize,
    offset: Offset,
}

impl Stamping {
    /// A node of `n` channels.
    pub fn new(n: usize) -> Self {
        let channels = world::channels(n);
        let mut store = MemoryStore::new();
        let node = world::node(&channels, &mut store);
        let mut clock = Clock::new();
        // Claims on the channel of their own record travel on, and what they claim on the others is to be there.
        for &channel in &channels {
            clock.claim_offset(channel, 0);
        }
        let mut stamping = Self {
            node,
            store,
            channels,
            clock,
            turn: 0,
            offset: 1,
        };
        for &channel in &stamping.channels {
            stamping.node.advance(channel, 1).expect("it is declared");
        }
        for _ in 0..n {
            stamping.deliver();
        }
        stamping.commit();
        stamping
    }

    /// Ends the step.
    pub fn commit(&mut self) {
        let positions = self.node.commit(&[], &mut self.store);
        black_box(positions.expect("a store in memory does not fail"));
    }

    /// The next record: the channels take turns, and one claim is higher than in the clock of the record before it.
    fn next(&mut self) -> Record {
        if self.turn == self.channels.len() {
            self.turn = 0;
            self.offset += 1;
        }
        let channel = self.channels[self.turn];
        let record = world::stamped(channel, self.offset, &self.clock);
        // What comes next has seen this one.
        self.clock.claim_offset(channel, self.offset);
        self.turn += 1;
        record
    }

    fn take(&mut self, record: Record) {
        let receipt = self.node.receive(record);
        black_box(receipt.expect("the records are in order"));
        let delivery = self.node.next_delivery(&self.store);
        let delivery = delivery.expect("a store in memory does not fail");
        assert!(black_box(delivery).is_some(), "its causes were delivered");
    }

    /// Receives a record and delivers it.
    pub fn deliver(&mut self) {
        let record = self.next();
        self.take(record);
    }

    /// Stamps one send, and returns how long it took.
    pub fn stamp(&mut self) -> (Stamp, Duration) {
        let started = Instant::now();
        let stamp = black_box(self.node.prepare_send(black_box(world::sink())));
        let took = started.elapsed();
        (stamp.expect("the sink is declared"), took)
    }

    /// Delivers a record and stamps one send after it; how long both took together.
    pub fn deliver_and_stamp(&mut self) -> Duration {
        let record = self.next();
        let started = Instant::now();
        self.take(record);
        let stamp = black_box(self.node.prepare_send(black_box(world::sink())));
        let took = started.elapsed();
        drop(stamp.expect("the sink is declared"));
        took
    }
}

#[cfg(test)]
mod tests {
    use parsley_core::wire;

    use super::*;

    #[test]
    fn a_stamp_claims_the_last_delivery_of_every_channel() {
        let mut stamping = Stamping::new(16);
        for delivered in 17..=40 {
            stamping.deliver();
            let (stamp, _) = stamping.stamp();
            let clock = wire::decode(&stamp.clock).unwrap().into_clock();
            assert_eq!(clock.width(), 16);
            let sum: Offset = clock.offsets().iter().map(|claim| claim.offset).sum();
            assert_eq!(sum, delivered);
        }
        let before = stamping.stamp().0;
        let again = stamping.stamp().0;
        assert_eq!(before.clock, again.clock);
        assert_eq!(before.sequence + 1, again.sequence);
    }

    #[test]
    fn delivering_and_stamping_in_one_goes_on_from_there() {
        let mut stamping = Stamping::new(4);
        stamping.deliver_and_stamp();
        stamping.commit();
        let clock = stamping.stamp().0.clock;
        let clock = wire::decode(&clock).unwrap().into_clock();
        // Four channels, and since the commit the own send.
        assert_eq!((clock.offsets().len(), clock.sequences().len()), (4, 1));
    }
}
