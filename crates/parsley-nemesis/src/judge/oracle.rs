//! What the oracle says: it is told who was handed what and what was sent for it, and sees no clock.
//!
//! Which deliveries were one step is not known from outside, so what a task sent for different deliveries counts as unrelated (decision K32).

use std::collections::{BTreeMap, HashMap};

use parsley_oracle::{Actor, Channel, Oracle, SendOrder, Violation};

use super::checked::{Found, SHOWN};
use crate::Trouble;
use crate::history::{Delivery, History, Place, Task};
use crate::topology::{PARTITIONS, STAGES, TOPICS};

/// What it finds, up to so many violations: each that follows from another one costs a search for its cause.
pub fn judge(history: &History, limit: usize) -> Result<Found, Trouble> {
    let mut world = World::of(history)?;
    let mut found = Vec::new();
    let mut next: BTreeMap<Task, usize> = BTreeMap::new();
    while found.len() < limit {
        let mut stuck = None;
        let mut has_moved = false;
        for (task, deliveries) in &history.deliveries {
            let next = next.entry(*task).or_default();
            while let Some(delivery) = deliveries.get(*next) {
                // What was not sent yet is told of by another task.
                if !world.stands(delivery.place, delivery.offset) {
                    stuck = Some((*task, delivery));
                    break;
                }
                (*next, has_moved) = (*next + 1, true);
                found.extend(world.deliver(*task, delivery)?);
                if found.len() >= limit {
                    return Ok(world.told(&found));
                }
            }
        }
        match stuck {
            None => break,
            Some(_) if has_moved => {}
            // All that is left waits for what nobody has sent: it is handed out all the same, which the oracle finds.
            Some((task, delivery)) => {
                *next.entry(task).or_default() += 1;
                found.extend(world.deliver(task, delivery)?);
            }
        }
    }
    found.extend(world.oracle.complete());
    Ok(world.told(&found))
}

struct World {
    oracle: Oracle,
    channels: BTreeMap<Place, Channel>,
    actors: BTreeMap<Task, Actor>,
    sent: HashMap<(usize, Place, i64), Vec<(Place, i64)>>,
    keys: HashMap<Vec<u8>, u64>,
}

impl World {
    /// The tasks, the channels, and what clients have written.
    fn of(history: &History) -> Result<Self, Trouble> {
        let mut world = Self {
            oracle: Oracle::new(),
            channels: BTreeMap::new(),
            actors: BTreeMap::new(),
            sent: history.sent(),
            keys: HashMap::new(),
        };
        for (topic, name) in TOPICS.iter().enumerate() {
            for partition in 0..PARTITIONS {
                let channel = world.oracle.add_channel(&format!("{name}:{partition}"));
                world.channels.insert(Place { topic, partition }, channel);
            }
        }
        for (stage, (name, inputs)) in STAGES.iter().enumerate() {
            for partition in 0..PARTITIONS {
                let name = format!("{name}/{partition}");
                let actor = world.oracle.add_actor(&name, SendOrder::WithinDelivery);
                world.actors.insert((stage, partition), actor);
                for (place, channel) in &world.channels {
                    if place.partition == partition && inputs.contains(&TOPICS[place.topic]) {
                        world.oracle.consume(actor, *channel, 0);
                    }
                }
            }
        }
        // Clients claim nothing: their commands are ordered by their channels alone.
        for partition in 0..PARTITIONS {
            let place = Place {
                topic: 0,
                partition,
            };
            let name = format!("client of partition {partition}");
            let client = world.oracle.add_actor(&name, SendOrder::Sequential);
            for record in history.records.get(&place).into_iter().flatten() {
                let key = world.key(&record.key);
                let emission = world.oracle.emit(client, world.channels[&place], key);
                world.oracle.appended(emission, record.offset)?;
                world.oracle.commit(client);
            }
        }
        Ok(world)
    }

    /// How many violations there are, and the first of them in words.
    fn told(&self, found: &[Violation]) -> Found {
        let shown = found.iter().take(SHOWN);
        let shown = shown.map(|one| self.oracle.explain(one));
        (found.len() as u64, shown.collect())
    }

    /// Keys go by numbers.
    fn key(&mut self, key: &[u8]) -> Option<u64> {
        let next = self.keys.len() as u64;
        Some(*self.keys.entry(key.to_vec()).or_insert(next))
    }

    fn stands(&self, place: Place, offset: i64) -> bool {
        let record = self.oracle.record_at(self.channels[&place], offset);
        record.is_some()
    }

    /// Hands a record to a task, and has it send what it has sent for it. What is wrong with that.
    fn deliver(&mut self, task: Task, delivery: &Delivery) -> Result<Option<Violation>, Trouble> {
        let (actor, channel) = (self.actors[&task], self.channels[&delivery.place]);
        let violation = self.oracle.deliver(actor, channel, delivery.offset).err();
        let of = self.sent.remove(&(task.0, delivery.place, delivery.offset));
        for (place, offset) in of.into_iter().flatten() {
            let key = self.key(delivery.key.as_deref().unwrap_or_default());
            let emission = self.oracle.emit(actor, self.channels[&place], key);
            self.oracle.appended(emission, offset)?;
        }
        self.oracle.commit(actor);
        Ok(violation)
    }
}
