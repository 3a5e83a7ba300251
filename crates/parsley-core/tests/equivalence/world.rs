//! The logs that a script's node reads and writes.
//!
//! Records are appended in one global order and claim only what was appended before, so that what a node holds is
//! released once everything is fed; the node is fed each channel at another speed, which is what makes it hold.

use std::collections::{BTreeMap, BTreeSet};

use crate::equivalence::chance::Chance;
use crate::equivalence::ops::Names;
use crate::model::{
    Channel, Clock, Fetched, Header, Sender, Stamp, Topic, channel, named, topic_of,
};

pub const NODE: &str = "node";

#[derive(Clone, Debug, Default)]
pub struct Log {
    pub start: i64,
    /// High watermark: one past the last offset that anything took.
    pub end: i64,
    pub records: BTreeMap<i64, Fetched>,
}

pub struct World {
    pub names: Names,
    pub partitions: BTreeMap<Topic, i32>,
    pub logs: BTreeMap<Channel, Log>,
    pub gone: BTreeSet<Topic>,
    /// Last sequence that each sender has appended, and that readers can have seen.
    pub sequences: BTreeMap<(Channel, Sender), i64>,
    senders: Vec<Sender>,
    /// Claims name anything, appended or not.
    pub wild: bool,
    /// Sends of the open step: where they stand, not yet readable.
    pending: Vec<(Channel, i64, Fetched)>,
}

impl World {
    pub fn new(chance: &mut Chance) -> World {
        let mut world = World {
            names: Names::default(),
            partitions: BTreeMap::new(),
            logs: BTreeMap::new(),
            gone: BTreeSet::new(),
            sequences: BTreeMap::new(),
            senders: ["alice", "bob", "carol"].map(named).to_vec(),
            wild: chance.percent(8),
            pending: Vec::new(),
        };
        let shared_msb = chance.word() as i64;
        for number in 0..4 + chance.below(4) {
            let msb = if chance.percent(25) {
                shared_msb
            } else {
                chance.word() as i64
            };
            let topic = (msb, chance.word() as i64);
            world.names.0.push((format!("t{number}"), topic));
            let partitions = 1 + chance.between(0, 1) as i32;
            world.partitions.insert(topic, partitions);
            for partition in 0..partitions {
                let start = match chance.below(20) {
                    0..14 => 0,
                    14..19 => chance.between(1, 30),
                    _ => i64::MAX - chance.between(500, 100_000),
                };
                world.logs.insert(
                    channel(topic, partition),
                    Log {
                        start,
                        end: start,
                        records: BTreeMap::new(),
                    },
                );
            }
        }
        world
    }

    pub fn channels(&self) -> Vec<Channel> {
        self.logs.keys().copied().collect()
    }

    pub fn live_channels(&self) -> Vec<Channel> {
        self.logs
            .keys()
            .copied()
            .filter(|on| !self.gone.contains(&topic_of(*on)))
            .collect()
    }

    pub fn end(&self, on: Channel) -> i64 {
        self.logs.get(&on).map_or(0, |log| log.end)
    }

    /// The first record at or above `from`.
    pub fn next_record(&self, on: Channel, from: i64) -> Option<&Fetched> {
        self.logs
            .get(&on)?
            .records
            .range(from..)
            .next()
            .map(|(_, record)| record)
    }

    fn clock(&self, chance: &mut Chance) -> Clock {
        let mut clock = Clock::default();
        let channels = self.channels();
        for _ in 0..chance.below(4) {
            let Some(on) = chance.pick(&channels) else {
                continue;
            };
            let end = self.end(on);
            if self.wild && chance.percent(30) {
                clock.claim_offset(
                    on,
                    end.saturating_add(chance.between(0, 3)).min(i64::MAX - 1),
                );
            } else if end > self.logs[&on].start {
                clock.claim_offset(on, (end - 1 - chance.between(0, 2)).max(0));
            }
        }
        let seen: Vec<_> = self
            .sequences
            .iter()
            .map(|(&claimed, &last)| (claimed, last))
            .collect();
        for _ in 0..chance.below(3) {
            let of_the_node: Vec<_> = seen
                .iter()
                .copied()
                .filter(|((_, sender), _)| *sender == named(NODE))
                .collect();
            let from = if chance.percent(30) {
                &of_the_node
            } else {
                &seen
            };
            if let Some(((on, sender), last)) = chance.pick(from) {
                let back = chance.between(0, 1);
                let ahead = if self.wild { chance.between(0, 2) } else { 0 };
                clock.claim_sequence(on, sender, (last + ahead - back).max(0));
            }
        }
        if chance.percent(4) {
            let elsewhere = (
                chance.word() as i64,
                chance.word() as i64,
                chance.between(0, 3) as i32,
            );
            clock.claim_offset(elsewhere, chance.between(0, 40));
        }
        clock
    }

    /// Appends a foreign record, and sometimes what takes offsets and is never read.
    pub fn append(&mut self, chance: &mut Chance) {
        let Some(on) = chance.pick(&self.live_channels()) else {
            return;
        };
        let clock = self.clock(chance);
        let mut headers = Vec::new();
        if !clock.is_empty() || chance.percent(20) {
            headers.push(("vc".to_owned(), Some(encode(&clock, chance))));
        }
        if chance.percent(65) {
            let sender = self.senders[chance.below(self.senders.len())];
            let last = self.sequences.get(&(on, sender)).copied().unwrap_or(-1);
            let again = last >= 0 && chance.percent(6);
            let sequence = if again {
                last
            } else {
                last + 1 + chance.between(0, 8) / 8
            };
            self.sequences.insert((on, sender), sequence);
            headers.extend(tag(sender, sequence));
        }
        let offset = self.logs[&on].end;
        let fetched = Fetched {
            offset,
            timestamp: chance.between(-3, 1000),
            key: chance
                .pick(&[None, Some(b"k".to_vec()), Some(Vec::new())])
                .flatten(),
            value: chance
                .percent(80)
                .then(|| format!("{}@{offset}", self.names.channel(on)).into_bytes()),
            headers: with_application_headers(headers, chance),
        };
        self.logs
            .get_mut(&on)
            .expect("a log")
            .records
            .insert(offset, fetched);
        let gap = if chance.percent(25) {
            chance.between(1, 2)
        } else {
            0
        };
        self.logs.get_mut(&on).expect("a log").end = offset + 1 + gap;
    }

    /// Appends a send of the open step; the offset it got.
    pub fn append_send(&mut self, stamp: &Stamp) -> i64 {
        let log = self.logs.get_mut(&stamp.to).expect("a sink of this world");
        let offset = log.end;
        log.end += 1;
        let mut headers: Vec<Header> = vec![("vc".to_owned(), Some(stamp.bytes.clone()))];
        headers.extend(tag(named(NODE), stamp.sequence));
        let fetched = Fetched {
            offset,
            headers,
            ..Fetched::default()
        };
        self.pending.push((stamp.to, offset, fetched));
        offset
    }

    pub fn commit(&mut self) {
        for (on, offset, fetched) in std::mem::take(&mut self.pending) {
            let log = self.logs.get_mut(&on).expect("a sink of this world");
            let sequence = fetched
                .headers
                .last()
                .and_then(|(_, value)| value.as_deref())
                .expect("a sequence");
            let sequence = i64::from_be_bytes(sequence.try_into().expect("8 bytes"));
            self.sequences.insert((on, named(NODE)), sequence);
            log.records.insert(offset, fetched);
        }
    }

    /// The offsets of the step's sends stay taken; nobody reads them.
    pub fn abort(&mut self) {
        self.pending.clear();
    }
}

fn tag(sender: Sender, sequence: i64) -> [Header; 2] {
    let identity = [sender.0.to_be_bytes(), sender.1.to_be_bytes()].concat();
    [
        ("vc-sender".to_owned(), Some(identity)),
        ("vc-seq".to_owned(), Some(sequence.to_be_bytes().to_vec())),
    ]
}

/// The clock's bytes, now and then with the entries of its first section in another order.
fn encode(clock: &Clock, chance: &mut Chance) -> Vec<u8> {
    let mut bytes = clock.encode();
    let entries = clock.offsets.len();
    if entries > 1 && chance.percent(6) {
        bytes[5..5 + 28 * entries].rotate_left(28);
    }
    bytes
}

fn with_application_headers(mut headers: Vec<Header>, chance: &mut Chance) -> Vec<Header> {
    if chance.percent(15) {
        headers.insert(0, ("trace".to_owned(), Some(b"abc".to_vec())));
    }
    if chance.percent(8) {
        headers.push(("nothing".to_owned(), None));
    }
    if chance.percent(4) {
        headers.push(("vc-later".to_owned(), Some(b"?".to_vec())));
        headers.push(("vcx".to_owned(), Some(Vec::new())));
    }
    headers
}
