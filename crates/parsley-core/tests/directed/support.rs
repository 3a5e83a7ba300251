//! A host in miniature for directed tests: one node over a staged in-memory store, every input its own committed step unless a test says
//! otherwise.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use parsley_core::{
    Channel, Clock, Delivery, Header, Hold, MemoryStore, Node, NodeConfig, NodeError, NodeLimits,
    Offset, OpenFacts, Opened, Receipt, Record, Refusal, SenderId, Sink, Staged, Stamp, TopicId,
    wire,
};

/// `"x:0"` as a channel, its topic named by the name's MD5.
pub fn channel(text: &str) -> Channel {
    let (topic, partition) = text.split_once(':').expect("topic:partition");
    topic_id(topic).partition(partition.parse().expect("a number"))
}

pub fn topic_id(name: &str) -> TopicId {
    TopicId::of_name(name)
}

pub fn channels<V: Copy>(pairs: &[(&str, V)]) -> BTreeMap<Channel, V> {
    pairs
        .iter()
        .map(|&(text, value)| (channel(text), value))
        .collect()
}

pub fn topics(names: &[&str]) -> BTreeSet<TopicId> {
    names.iter().map(|name| topic_id(name)).collect()
}

/// A clock from `("x:0", 5)` offset claims.
pub fn claims(offsets: &[(&str, Offset)]) -> Clock {
    clock(offsets, &[])
}

/// A clock from offset claims and `("x:0", "alice", 3)` sequence claims.
pub fn clock(offsets: &[(&str, Offset)], sequences: &[(&str, &str, i64)]) -> Clock {
    let mut clock = Clock::new();
    for &(text, offset) in offsets {
        clock.claim_offset(channel(text), offset);
    }
    for &(text, sender, sequence) in sequences {
        clock.claim_sequence(channel(text), SenderId::of_name(sender), sequence);
    }
    clock
}

/// A record with the place as its value.
pub fn record(on: &str, offset: Offset) -> Record {
    Record {
        channel: channel(on),
        offset,
        timestamp_ms: 0,
        key: None,
        value: Some(Bytes::from(format!("{on}@{offset}"))),
        headers: Vec::new(),
    }
}

pub fn with_clock(mut record: Record, clock: &Clock) -> Record {
    record
        .headers
        .push(Header::new(wire::CLOCK_HEADER, wire::encode(clock)));
    record
}

pub fn with_sender(mut record: Record, sender: &str, sequence: i64) -> Record {
    let sender = SenderId::of_name(sender).0.uuid().as_bytes().to_vec();
    record
        .headers
        .push(Header::new(wire::SENDER_HEADER, sender));
    record.headers.push(Header::new(
        wire::SEQUENCE_HEADER,
        sequence.to_be_bytes().to_vec(),
    ));
    record
}

pub fn config(inputs: &[&str], sinks: &[(&str, i32)]) -> NodeConfig {
    NodeConfig {
        sender: SenderId::of_name("n"),
        inputs: inputs.iter().map(|text| channel(text)).collect(),
        sinks: sinks
            .iter()
            .map(|&(name, partitions)| Sink {
                topic: topic_id(name),
                partitions,
            })
            .collect(),
        limits: NodeLimits::default(),
    }
}

pub fn place(delivery: &Delivery) -> String {
    String::from_utf8(delivery.value.clone().unwrap_or_default().to_vec())
        .expect("the value is the place")
}

/// One node and what it commits.
pub struct World {
    pub node: Node,
    pub store: Staged<MemoryStore>,
    pub opened: Opened,
}

impl World {
    pub fn new(config: NodeConfig) -> Self {
        Self::open(config, &OpenFacts::default(), MemoryStore::new()).expect("opens")
    }

    pub fn open(
        config: NodeConfig,
        facts: &OpenFacts,
        committed: MemoryStore,
    ) -> Result<Self, NodeError> {
        let mut store = Staged::over(committed);
        let (node, opened) = Node::open(config, facts, &mut store)?;
        let mut world = Self {
            node,
            store,
            opened,
        };
        world.commit();
        Ok(world)
    }

    pub fn commit(&mut self) -> Vec<(Channel, Offset)> {
        self.commit_acknowledged(&[])
    }

    pub fn commit_acknowledged(
        &mut self,
        acknowledged: &[(Channel, Offset)],
    ) -> Vec<(Channel, Offset)> {
        let positions = self
            .node
            .commit(acknowledged, &mut self.store)
            .expect("commits");
        let changes = self.store.take_changes();
        self.store.base_mut().apply(changes);
        positions
    }

    /// Ends the execution and keeps what is committed.
    pub fn stop(mut self) -> MemoryStore {
        self.commit();
        self.committed()
    }

    /// Ends the execution as a crash does: what is staged is lost.
    pub fn crash(self) -> MemoryStore {
        self.committed()
    }

    pub fn committed(&self) -> MemoryStore {
        self.store.base().clone()
    }

    pub fn drain(&mut self) -> Vec<String> {
        self.deliveries().iter().map(place).collect()
    }

    pub fn deliveries(&mut self) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        while let Some(delivery) = self.node.next_delivery(&self.store).expect("drains") {
            deliveries.push(delivery);
        }
        deliveries
    }

    /// Feeds a record in a step of its own and names what was delivered.
    pub fn feed(&mut self, record: Record) -> Vec<String> {
        assert_eq!(
            self.node.receive(record).expect("is accepted"),
            Receipt::Accepted
        );
        let delivered = self.drain();
        self.commit();
        delivered
    }

    pub fn feed_claiming(&mut self, on: &str, offset: Offset, clock: &Clock) -> Vec<String> {
        self.feed(with_clock(record(on, offset), clock))
    }

    pub fn advance(&mut self, on: &str, next: Offset) -> Vec<String> {
        self.node.advance(channel(on), next).expect("is accepted");
        let delivered = self.drain();
        self.commit();
        delivered
    }

    pub fn watermarks(&mut self, watermarks: &[(&str, Offset)]) -> Vec<String> {
        let mark = self.node.mark();
        self.node
            .watermarks(&mark, &channels(watermarks))
            .expect("is accepted");
        let delivered = self.drain();
        self.commit();
        delivered
    }

    /// A stamp in a step of its own.
    pub fn send(&mut self, to: &str) -> Stamp {
        let stamp = self.node.prepare_send(channel(to)).expect("is stamped");
        self.commit();
        stamp
    }

    pub fn holds(&self) -> Vec<Hold> {
        self.node.holds()
    }

    pub fn keys(&self) -> Vec<String> {
        self.store
            .base()
            .iter()
            .map(|(key, _)| String::from_utf8(key.to_vec()).expect("keys are UTF-8"))
            .collect()
    }
}

pub fn stamp_clock(stamp: &Stamp) -> Clock {
    wire::decode(&stamp.clock)
        .expect("a stamp decodes")
        .into_clock()
}

/// The refusal in a result; panics on anything else.
pub fn refusal<T: std::fmt::Debug>(result: Result<T, NodeError>) -> Refusal {
    match result {
        Err(NodeError::Refused(refusal)) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
