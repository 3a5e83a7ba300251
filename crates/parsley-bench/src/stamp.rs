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
    /// The sends of the step: a host keeps them until its end.
    sends: Vec<Stamp>,
    sent: Offset,
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
            sends: Vec::new(),
            sent: 0,
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

    /// Ends the step. What was sent in it is acknowledged.
    pub fn commit(&mut self) {
        self.sent += self.sends.len() as Offset;
        let last = [(world::sink(), self.sent - 1)];
        let acknowledged = if self.sends.is_empty() {
            &[]
        } else {
            &last[..]
        };
        self.sends.clear();
        let positions = self.node.commit(acknowledged, &mut self.store);
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
        let delivery = black_box(&delivery).as_ref();
        let is_there = delivery.expect("a store in memory does not fail").is_some();
        assert!(is_there, "its causes were delivered");
    }

    /// Receives a record and delivers it.
    pub fn deliver(&mut self) {
        let record = self.next();
        self.take(record);
    }

    fn send(&mut self) {
        let stamp = self.node.prepare_send(black_box(world::sink()));
        self.sends.push(stamp.expect("the sink is declared"));
    }

    /// Stamps one send, and returns how long it took.
    pub fn stamp(&mut self) -> Duration {
        let started = Instant::now();
        self.send();
        started.elapsed()
    }

    /// Delivers a record and stamps one send after it; how long both took together.
    pub fn deliver_and_stamp(&mut self) -> Duration {
        let record = self.next();
        let started = Instant::now();
        self.take(record);
        self.send();
        started.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use parsley_core::wire;

    use super::*;

    fn last_clock(stamping: &Stamping) -> Clock {
        let stamp = stamping.sends.last().unwrap();
        wire::decode(&stamp.clock).unwrap().into_clock()
    }

    #[test]
    fn a_stamp_claims_the_last_delivery_of_every_channel() {
        let mut stamping = Stamping::new(16);
        for delivered in 17..=40 {
            stamping.deliver();
            stamping.stamp();
            let clock = last_clock(&stamping);
            assert_eq!(clock.width(), 16);
            let sum: Offset = clock.offsets().iter().map(|claim| claim.offset).sum();
            assert_eq!(sum, delivered);
        }
        stamping.stamp();
        let [.., before, again] = &stamping.sends[..] else {
            panic!("every send is there")
        };
        assert_eq!(before.clock, again.clock);
        assert_eq!(before.sequence + 1, again.sequence);
    }

    #[test]
    fn after_a_step_the_last_send_is_claimed_too() {
        let mut stamping = Stamping::new(4);
        stamping.deliver_and_stamp();
        stamping.deliver_and_stamp();
        stamping.commit();
        assert!(stamping.sends.is_empty());
        stamping.stamp();
        let clock = last_clock(&stamping);
        assert_eq!((clock.offsets().len(), clock.sequences().len()), (5, 0));
        assert_eq!(clock.offset(world::sink()), Some(1));
    }
}
