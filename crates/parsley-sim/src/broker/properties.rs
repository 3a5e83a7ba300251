//! The broker against a list of what was done to it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use parsley_core::{Channel, Offset, Record};
use proptest::prelude::*;

use super::*;

const TOPICS: [&str; 2] = ["one", "two"];
const PARTITIONS: i32 = 2;
/// Producers, each with at most one open transaction.
const PRODUCERS: usize = 3;

#[derive(Clone, Debug)]
enum Operation {
    Append {
        topic: usize,
        partition: i32,
        producer: Option<usize>,
    },
    End {
        producer: usize,
        outcome: Outcome,
    },
    Replicate {
        topic: usize,
        partition: i32,
    },
    /// One of the pending markers.
    WriteMarker(prop::sample::Index),
    /// Up to a place between the log start and the last stable offset.
    Delete {
        topic: usize,
        partition: i32,
        upto: prop::sample::Index,
    },
    Recreate(usize),
}

fn operations(with_deletion: bool) -> impl Strategy<Value = Vec<Operation>> {
    let topic = || 0..TOPICS.len();
    let append = (
        topic(),
        0..PARTITIONS,
        prop::option::weighted(0.8, 0..PRODUCERS),
    )
        .prop_map(|(topic, partition, producer)| Operation::Append {
            topic,
            partition,
            producer,
        });
    let outcome = prop_oneof![Just(Outcome::Committed), Just(Outcome::Aborted)];
    let end = (0..PRODUCERS, outcome)
        .prop_map(|(producer, outcome)| Operation::End { producer, outcome });
    let replicate = (topic(), 0..PARTITIONS)
        .prop_map(|(topic, partition)| Operation::Replicate { topic, partition });
    let marker = any::<prop::sample::Index>().prop_map(Operation::WriteMarker);
    let delete = (topic(), 0..PARTITIONS, any::<prop::sample::Index>()).prop_map(
        |(topic, partition, upto)| Operation::Delete {
            topic,
            partition,
            upto,
        },
    );
    let operation = prop_oneof![
        12 => append,
        4 => end,
        5 => replicate,
        4 => marker,
        u32::from(with_deletion) => delete,
        1 => topic().prop_map(Operation::Recreate),
    ];
    prop::collection::vec(operation, 0..80)
}

/// What a log holds, written down as it came.
#[derive(Clone, Debug)]
enum Noted {
    Record { value: u32, txn: Option<Txn> },
    Marker(Txn),
}

#[derive(Clone, Debug, Default)]
struct NotedLog {
    start: usize,
    high_watermark: usize,
    entries: Vec<Noted>,
}

impl NotedLog {
    /// A transaction is stable once its marker is below the high watermark.
    fn last_stable(&self) -> usize {
        let unstable = |noted: &Noted| match noted {
            Noted::Record { txn: Some(txn), .. } => !self.entries[..self.high_watermark]
                .iter()
                .any(|noted| matches!(noted, Noted::Marker(ended) if ended == txn)),
            _ => false,
        };
        let first = self.entries.iter().position(unstable);
        first.unwrap_or(usize::MAX).min(self.high_watermark)
    }
}

/// A broker driven by operations, and the notes about it.
struct World {
    broker: SimBroker,
    notes: BTreeMap<Channel, NotedLog>,
    open: [Option<Txn>; PRODUCERS],
    outcomes: BTreeMap<Txn, Outcome>,
    /// By topic name and partition: the next incarnation's marker is the transaction's too.
    wrote: BTreeSet<(Txn, usize, i32)>,
    pending: BTreeSet<(Txn, Channel)>,
    appended: u32,
}

impl World {
    fn new(mode: AppendMode) -> Self {
        let mut world = Self {
            broker: SimBroker::new(mode),
            notes: BTreeMap::new(),
            open: [None; PRODUCERS],
            outcomes: BTreeMap::new(),
            wrote: BTreeSet::new(),
            pending: BTreeSet::new(),
            appended: 0,
        };
        for name in TOPICS {
            world.create(name);
        }
        world
    }

    fn create(&mut self, name: &str) {
        let topic = self.broker.create_topic(name, PARTITIONS);
        for partition in 0..PARTITIONS {
            let new = self
                .notes
                .insert(topic.partition(partition), NotedLog::default());
            assert!(new.is_none(), "the identity is a new one");
        }
    }

    fn channel(&self, topic: usize, partition: i32) -> Channel {
        let topic = self.broker.topic_id(TOPICS[topic]).unwrap();
        topic.partition(partition)
    }

    fn replicate(&mut self, channel: Channel) {
        self.broker.replicate(channel);
        self.note_replicated(channel);
    }

    fn note_replicated(&mut self, channel: Channel) {
        let note = self.notes.get_mut(&channel).unwrap();
        note.high_watermark = note.entries.len();
    }

    fn note_marker(&mut self, txn: Txn, channel: Channel) {
        let note = self.notes.get_mut(&channel).unwrap();
        note.entries.push(Noted::Marker(txn));
    }

    fn write_marker(&mut self, txn: Txn, channel: Channel) {
        let offset = self.broker.write_marker(txn, channel).unwrap();
        assert_eq!(offset as usize, self.notes[&channel].entries.len());
        assert!(self.pending.remove(&(txn, channel)));
        self.note_marker(txn, channel);
    }

    fn end(&mut self, txn: Txn, outcome: Outcome) {
        while let Err(error) = self.broker.end(txn, outcome) {
            let EndError::Unreplicated { channel, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(outcome, Outcome::Committed);
            assert!(!self.broker.is_complete(txn));
            self.replicate(channel);
        }
        self.outcomes.insert(txn, outcome);
    }

    fn run(&mut self, operation: &Operation) {
        let atomic = self.broker.mode() == AppendMode::Atomic;
        match *operation {
            Operation::Append {
                topic,
                partition,
                producer,
            } => {
                let channel = self.channel(topic, partition);
                let broker = &mut self.broker;
                let txn = producer
                    .map(|producer| *self.open[producer].get_or_insert_with(|| broker.begin()));
                let value = self.appended;
                self.appended += 1;
                let offset = broker.append(record(channel, value), txn).unwrap();
                let note = self.notes.get_mut(&channel).unwrap();
                assert_eq!(offset as usize, note.entries.len(), "offsets are dense");
                note.entries.push(Noted::Record { value, txn });
                if atomic {
                    self.note_replicated(channel);
                }
                self.wrote.extend(txn.map(|txn| (txn, topic, partition)));
            }
            Operation::End { producer, outcome } => {
                let Some(txn) = self.open[producer].take() else {
                    return;
                };
                self.end(txn, outcome);
                for channel in self.written_by(txn) {
                    if atomic {
                        self.note_marker(txn, channel);
                        self.note_replicated(channel);
                    } else {
                        self.pending.insert((txn, channel));
                    }
                }
            }
            Operation::Replicate { topic, partition } => {
                self.replicate(self.channel(topic, partition));
            }
            Operation::WriteMarker(index) => {
                let pending: Vec<_> = self.broker.pending_markers().collect();
                if !pending.is_empty() {
                    let (txn, channel) = *index.get(&pending);
                    self.write_marker(txn, channel);
                }
            }
            Operation::Delete {
                topic,
                partition,
                upto,
            } => {
                let channel = self.channel(topic, partition);
                let note = self.notes.get_mut(&channel).unwrap();
                let before = upto.index(note.last_stable() + 1);
                let moved = self.broker.delete_records(channel, before as Offset);
                assert_eq!(moved, Ok(before > note.start));
                note.start = note.start.max(before);
            }
            Operation::Recreate(topic) => {
                let id = self.broker.delete_topic(TOPICS[topic]).unwrap();
                self.notes.retain(|channel, _| channel.topic != id);
                self.pending.retain(|(_, channel)| channel.topic != id);
                self.create(TOPICS[topic]);
            }
        }
    }

    /// The channels that a transaction's markers go to.
    fn written_by(&self, wanted: Txn) -> Vec<Channel> {
        let wrote = self.wrote.iter().filter(|(txn, ..)| *txn == wanted);
        wrote
            .map(|&(_, topic, partition)| self.channel(topic, partition))
            .collect()
    }

    /// Ends every transaction, writes every marker, replicates everything.
    fn finish(&mut self) {
        for producer in 0..PRODUCERS {
            self.run(&Operation::End {
                producer,
                outcome: Outcome::Committed,
            });
        }
        let pending: Vec<_> = self.broker.pending_markers().collect();
        for (txn, channel) in pending {
            self.write_marker(txn, channel);
        }
        let unreplicated: Vec<_> = self.broker.unreplicated().collect();
        for channel in unreplicated {
            self.replicate(channel);
        }
    }

    fn is_committed(&self, txn: Option<Txn>) -> bool {
        txn.is_none_or(|txn| self.outcomes.get(&txn) == Some(&Outcome::Committed))
    }

    fn check(&self) {
        assert!(
            self.broker
                .pending_markers()
                .eq(self.pending.iter().copied())
        );
        for (&channel, note) in &self.notes {
            let stable = note.last_stable();
            let bounds = [
                self.broker.log_start(channel).unwrap(),
                self.broker.last_stable_offset(channel).unwrap(),
                self.broker.high_watermark(channel).unwrap(),
                self.broker.end_offset(channel).unwrap(),
            ];
            let end = note.entries.len();
            let noted = [note.start, stable, note.high_watermark, end];
            assert_eq!(bounds, noted.map(|offset| offset as Offset));
            assert!(bounds.is_sorted(), "{bounds:?}");
            assert_eq!(
                self.broker.unreplicated().any(|other| other == channel),
                note.high_watermark < end
            );

            let kept: Vec<(usize, u32)> = (note.start..end)
                .filter_map(|offset| match note.entries[offset] {
                    Noted::Record { value, txn } if self.is_committed(txn) => Some((offset, value)),
                    _ => None,
                })
                .collect();
            let committed = self.broker.committed_records(channel).map(seen);
            assert_eq!(committed.collect::<Vec<_>>(), kept);

            // What is visible is what is committed below the last stable offset, however it is cut into fetches.
            for from in note.start..=end {
                let mut rest = kept
                    .iter()
                    .copied()
                    .filter(|(offset, _)| (from..stable).contains(offset));
                let fetched = self.broker.fetch(channel, from as Offset, 2).unwrap();
                let expected: Vec<_> = rest.by_ref().take(2).collect();
                assert_eq!(
                    fetched.records.iter().map(seen).collect::<Vec<_>>(),
                    expected
                );
                let next = rest.next().map_or(stable.max(from), |(offset, _)| offset);
                assert_eq!(fetched.next as usize, next);
            }
            for outside in [note.start as Offset - 1, end as Offset + 1] {
                assert!(self.broker.fetch(channel, outside, 1).is_err());
            }
            let past_stable = stable as Offset + 1;
            assert!(
                self.broker
                    .clone()
                    .delete_records(channel, past_stable)
                    .is_err()
            );
        }
    }

    /// The visible values of the living partitions, by topic name and partition.
    fn visible(&self) -> BTreeMap<(&str, u32, i32), Vec<u32>> {
        let read = |channel: Channel| {
            let (name, incarnation) = self.broker.name_of(channel.topic).unwrap();
            let start = self.broker.log_start(channel).unwrap();
            let fetched = self.broker.fetch(channel, start, usize::MAX).unwrap();
            let values = fetched.records.iter().map(|record| seen(record).1);
            ((name, incarnation, channel.partition), values.collect())
        };
        self.notes.keys().map(|channel| read(*channel)).collect()
    }
}

fn record(channel: Channel, value: u32) -> Record {
    Record {
        channel,
        offset: 0,
        timestamp_ms: 0,
        key: None,
        value: Some(Bytes::copy_from_slice(&value.to_be_bytes())),
        headers: Vec::new(),
    }
}

fn seen(record: &Record) -> (usize, u32) {
    let value = record.value.as_deref().unwrap().try_into().unwrap();
    (record.offset as usize, u32::from_be_bytes(value))
}

proptest! {
    #[test]
    fn a_broker_is_what_was_done_to_it(operations in operations(true), atomic: bool) {
        let mode = if atomic { AppendMode::Atomic } else { AppendMode::Interleaved };
        let mut world = World::new(mode);
        for operation in &operations {
            world.run(operation);
            world.check();
        }
        world.finish();
        world.check();
        prop_assert_eq!(world.broker.pending_markers().count(), 0);
        for txn in world.outcomes.keys() {
            prop_assert!(world.broker.is_complete(*txn));
            prop_assert_eq!(world.broker.outcome(*txn), world.outcomes.get(txn).copied());
        }
        for (channel, note) in &world.notes {
            prop_assert_eq!(note.last_stable(), note.entries.len(), "{} is all stable", channel);
        }
    }

    #[test]
    fn both_modes_end_with_the_same_visible_records(operations in operations(false)) {
        let [atomic, interleaved] = [AppendMode::Atomic, AppendMode::Interleaved].map(|mode| {
            let mut world = World::new(mode);
            operations.iter().for_each(|operation| world.run(operation));
            world.finish();
            world
        });
        prop_assert_eq!(atomic.visible(), interleaved.visible());
        let expected = atomic.notes.keys().map(|channel| atomic.broker.committed_records(*channel).count());
        let visible = atomic.visible();
        prop_assert_eq!(expected.sum::<usize>(), visible.values().map(Vec::len).sum::<usize>());
    }
}
