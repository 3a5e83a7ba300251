//! Opening a node that holds many records.

use std::hint::black_box;
use std::time::{Duration, Instant};

use parsley_core::{Channel, Clock, MemoryStore, Node, OpenFacts};

use crate::{STEP_RECORDS, world};

/// The stored state of a node that holds records back.
#[derive(Debug)]
pub struct Stored {
    inputs: Vec<Channel>,
    store: MemoryStore,
    facts: OpenFacts,
    records: u64,
}

impl Stored {
    /// State with `records` held records on one channel, each with a clock of four claims and a value of 100 bytes.
    pub fn new(records: u64) -> Self {
        let inputs = world::channels(5);
        let mut store = MemoryStore::new();
        let mut node = world::node(&inputs, &mut store);
        let mut clock = Clock::new();
        for &channel in &inputs[1..] {
            clock.claim_offset(channel, 7);
        }
        for offset in 0..records {
            let record = world::stamped(inputs[0], offset as i64, &clock);
            let receipt = node.receive(record);
            receipt.expect("the records are in order");
            if (offset + 1).is_multiple_of(STEP_RECORDS as u64) {
                node.commit(&[], &mut store)
                    .expect("a store in memory does not fail");
            }
        }
        node.commit(&[], &mut store)
            .expect("a store in memory does not fail");
        let facts = OpenFacts {
            start: node.resume_positions().into_iter().collect(),
            group_has_positions: true,
            ..OpenFacts::default()
        };
        Self {
            inputs,
            store,
            facts,
            records,
        }
    }

    /// Opens the node, and returns how long that took.
    ///
    /// # Panics
    ///
    /// When it does not hold every record.
    pub fn restore(&mut self) -> Duration {
        let config = world::config(&self.inputs);
        let started = Instant::now();
        let opened = Node::open(config, black_box(&self.facts), &mut self.store);
        let (node, _) = black_box(opened).expect("a node opens from what it stored");
        let took = started.elapsed();
        assert_eq!(node.held(), self.records, "everything is held again");
        took
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_held_again_however_often_it_is_opened() {
        let mut stored = Stored::new(1050);
        stored.restore();
        stored.restore();
        let entries = stored.store.iter().count();
        assert!(entries > 1050, "{entries} keys");
    }
}
