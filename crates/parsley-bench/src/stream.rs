//! A stream of records through a node, as a host drives it: a fetch is received, the deliveries are pulled, the step is committed.

use std::hint::black_box;
use std::time::{Duration, Instant};

use parsley_core::{Channel, Clock, MemoryStore, Node, Offset, Receipt, Record, Stamp};

use crate::world;

/// Beyond every position that is claimed.
const FAR: Offset = 1 << 40;

/// A node and the records that come to it on one of its channels. Whatever they claim is met.
#[derive(Debug)]
pub struct Stream {
    node: Node,
    store: MemoryStore,
    channel: Channel,
    next: Offset,
    /// The clock of the next record; one claim rises from record to record, in turn.
    clock: Clock,
    step_records: usize,
    stamps: bool,
    sent: Offset,
    records: Vec<Record>,
    /// The sends of the step: a host keeps them until its end.
    sends: Vec<Stamp>,
}

impl Stream {
    /// Records with clocks of `width` offset claims, each on another channel that the node receives. At width 0 they have no protocol headers at
    /// all. When `stamps`, one send is stamped for each delivery.
    pub fn new(width: usize, step_records: usize, stamps: bool) -> Self {
        let mut stream = Self::idle(width, step_records);
        stream.stamps = stamps;
        for &channel in &world::channels(width + 1) {
            if channel != stream.channel {
                stream.clock.claim_offset(channel, 0);
            }
        }
        stream
    }

    /// Records without protocol headers, on one channel beside `idle` others on which nothing comes.
    pub fn idle(idle: usize, step_records: usize) -> Self {
        let mut store = MemoryStore::new();
        let inputs = world::channels(idle + 1);
        let channel = inputs[idle / 2];
        let mut node = world::node(&inputs, &mut store);
        for &other in inputs.iter().filter(|&&other| other != channel) {
            node.advance(other, FAR).expect("the channel is declared");
        }
        node.commit(&[], &mut store)
            .expect("nothing is wrong with it");
        Self {
            node,
            store,
            channel,
            next: 0,
            clock: Clock::new(),
            step_records,
            stamps: false,
            sent: 0,
            records: Vec::new(),
            sends: Vec::new(),
        }
    }

    fn fetch(&mut self) {
        self.records.clear();
        for _ in 0..self.step_records {
            let offset = self.next;
            self.next += 1;
            if self.clock.is_empty() {
                self.records.push(world::plain(self.channel, offset));
                continue;
            }
            let turn = offset as usize % self.clock.width();
            let raised = self.clock.offsets()[turn];
            self.clock.claim_offset(raised.channel, raised.offset + 1);
            self.records
                .push(world::stamped(self.channel, offset, &self.clock));
        }
    }

    /// Takes the next step and returns how long it took: receipt, decision, delivery and stamp of its records, and the commit.
    ///
    /// # Panics
    ///
    /// When not all of its records were delivered.
    pub fn step(&mut self) -> Duration {
        self.fetch();
        // The log keeps what was fetched.
        let fetched = self.records.clone();
        let started = Instant::now();
        let delivered = self.take(fetched);
        let took = started.elapsed();
        // The log takes over what was sent.
        self.sends.clear();
        assert_eq!(delivered, self.step_records, "everything is delivered");
        took
    }

    #[inline(never)]
    fn take(&mut self, records: Vec<Record>) -> usize {
        for record in records {
            let receipt = self.node.receive(record);
            assert_eq!(
                receipt.expect("the records are in order"),
                Receipt::Accepted
            );
        }
        let mut delivered = 0;
        // The logic has the delivery while it sends. What else a host does with it is not measured, so it stays where it is handed out.
        while let Some(_delivery) = black_box(&self.node.next_delivery(&self.store))
            .as_ref()
            .expect("a store in memory does not fail")
        {
            delivered += 1;
            if self.stamps {
                let stamp = self.node.prepare_send(world::sink());
                self.sends.push(stamp.expect("the sink is declared"));
                self.sent += 1;
            }
        }
        let sent = [(world::sink(), self.sent - 1)];
        let acknowledged = if self.stamps { &sent[..] } else { &[] };
        black_box(&self.sends);
        let positions = self.node.commit(acknowledged, &mut self.store);
        black_box(positions.expect("a store in memory does not fail"));
        delivered
    }

    /// Stamps one send. What it claims is for tests.
    pub fn stamp(&mut self) -> Clock {
        let stamp = self.node.prepare_send(world::sink());
        let stamp = stamp.expect("the sink is declared");
        match parsley_core::wire::decode(&stamp.clock) {
            Ok(decoded) => decoded.into_clock(),
            Err(why) => panic!("a stamp is a clock: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_of_a_step_is_delivered_and_leaves_its_claims() {
        for width in [0, 1, 4, 64] {
            let mut stream = Stream::new(width, 10, false);
            for _ in 0..3 {
                stream.step();
            }
            let stamp = stream.stamp();
            assert_eq!(stamp.offset(stream.channel), Some(29));
            assert_eq!(stamp.width(), width + 1);
            let raised: Offset = stream
                .clock
                .offsets()
                .iter()
                .map(|claim| claim.offset)
                .sum();
            assert_eq!(raised, if width == 0 { 0 } else { 30 });
            assert!(stamp.dominates(&stream.clock));
        }
    }

    #[test]
    fn a_stream_that_stamps_claims_its_own_sends() {
        let mut stream = Stream::new(4, 10, true);
        stream.step();
        let stamp = stream.stamp();
        assert_eq!(stamp.offset(world::sink()), Some(9));
        assert_eq!(stamp.width(), 6);
    }

    #[test]
    fn beside_idle_channels_every_record_is_delivered() {
        let mut stream = Stream::idle(1024, 1);
        stream.step();
        stream.step();
        assert_eq!(stream.stamp().offset(stream.channel), Some(1));
    }
}
