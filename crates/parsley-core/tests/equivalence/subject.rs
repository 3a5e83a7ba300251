//! The node under judgement, spoken to in the model's terms.

use std::collections::{BTreeMap, BTreeSet};

use parsley_core::{
    Channel, Header, Id, Mark, MemoryStore, Node, NodeConfig, NodeError, NodeLimits, OpenFacts,
    Receipt, Record, SenderId, Sink, Staged, StateStore, TopicId, Wait,
};

use crate::model::{self, Fetched, MISSING_END, OpenLine, Opened, Refused, Truncation};

/// A node over a store that commits whole steps, and the positions that its host has committed.
pub struct Subject {
    store: Staged<MemoryStore>,
    node: Option<Node>,
    marks: Vec<Mark>,
    budget: usize,
    positions: BTreeMap<model::Channel, i64>,
}

fn topic(topic: model::Topic) -> TopicId {
    TopicId(Id {
        msb: topic.0,
        lsb: topic.1,
    })
}

fn channel(on: model::Channel) -> Channel {
    topic(model::topic_of(on)).partition(on.2)
}

fn plain(on: Channel) -> model::Channel {
    (on.topic.0.msb, on.topic.0.lsb, on.partition)
}

fn plain_sender(sender: SenderId) -> model::Sender {
    (sender.0.msb, sender.0.lsb)
}

fn channels(map: &BTreeMap<model::Channel, i64>) -> BTreeMap<Channel, i64> {
    map.iter().map(|(&on, &at)| (channel(on), at)).collect()
}

fn topics(set: &BTreeSet<model::Topic>) -> BTreeSet<TopicId> {
    set.iter().map(|&named| topic(named)).collect()
}

fn plain_header(header: &Header) -> model::Header {
    let name = String::from_utf8(header.name.to_vec()).expect("scripts name headers in UTF-8");
    (name, header.value.as_ref().map(|value| value.to_vec()))
}

fn refused(error: NodeError) -> Refused {
    match error {
        NodeError::Refused(refusal) => Refused {
            code: refusal.code.as_str(),
            on: refusal.channel.map(plain),
            offset: refusal.offset,
        },
        NodeError::MissingEnd { channel } => Refused::on(MISSING_END, plain(channel)),
        other => panic!("the node failed: {other}"),
    }
}

impl Subject {
    pub fn new(budget: usize) -> Subject {
        Subject::over(&BTreeMap::new(), budget)
    }

    pub fn over(store: &BTreeMap<String, Vec<u8>>, budget: usize) -> Subject {
        let mut base = MemoryStore::new();
        for (key, value) in store {
            base.put(key.as_bytes(), value.clone().into())
                .expect("memory takes every write");
        }
        Subject {
            store: Staged::over(base),
            node: None,
            marks: Vec::new(),
            budget,
            positions: BTreeMap::new(),
        }
    }

    pub fn budget(&self) -> usize {
        self.budget
    }

    fn node_mut(&mut self) -> &mut Node {
        self.node.as_mut().expect("a node runs")
    }

    fn node(&self) -> &Node {
        self.node.as_ref().expect("an execution runs")
    }

    pub fn open(&mut self, line: &OpenLine, window: usize) -> Result<Opened, Refused> {
        let config = NodeConfig {
            sender: SenderId::of_name(&line.name),
            inputs: line.inputs.iter().map(|&on| channel(on)).collect(),
            sinks: line
                .sinks
                .iter()
                .map(|(&named, &partitions)| Sink {
                    topic: topic(named),
                    partitions,
                })
                .collect(),
            limits: NodeLimits {
                clock_budget_bytes: self.budget,
                window_records: window,
            },
        };
        let facts = OpenFacts {
            start: channels(&line.start),
            group_has_positions: line.group_has_positions,
            ends: channels(&line.ends),
            log_starts: channels(&line.log_starts),
            gone: topics(&line.deleted),
            unresolved: topics(&line.unresolved),
        };
        self.marks.clear();
        match Node::open(config, &facts, &mut self.store) {
            Ok((node, opened)) => {
                self.node = Some(node);
                Ok(Opened {
                    resume: opened
                        .resume
                        .iter()
                        .map(|(&on, &from)| (plain(on), from))
                        .collect(),
                    joined: opened
                        .joined
                        .iter()
                        .map(|joined| (plain(joined.channel), joined.seed))
                        .collect(),
                })
            }
            Err(error) => {
                self.store.rollback();
                Err(refused(error))
            }
        }
    }

    /// Runs an operation; an error ends the execution, and the node must say so from then on.
    fn run<T>(
        &mut self,
        step: impl FnOnce(&mut Node, &mut Staged<MemoryStore>) -> Result<T, NodeError>,
    ) -> Result<T, Refused> {
        let node = self.node.as_mut().expect("an execution runs");
        let error = match step(node, &mut self.store) {
            Ok(answer) => return Ok(answer),
            Err(error) => refused(error),
        };
        let again = node
            .commit(&[], &mut self.store)
            .expect_err("nothing is committed after a refusal");
        assert_eq!(refused(again), error, "the refusal of every later call");
        self.abort();
        Err(error)
    }

    /// Whether it was dropped.
    pub fn receive(&mut self, on: model::Channel, fetched: &Fetched) -> Result<bool, Refused> {
        let bytes = |bytes: &Option<Vec<u8>>| bytes.clone().map(Into::into);
        let header = |(name, value): &model::Header| Header {
            name: name.clone().into(),
            value: bytes(value),
        };
        let record = Record {
            channel: channel(on),
            offset: fetched.offset,
            timestamp_ms: fetched.timestamp,
            key: bytes(&fetched.key),
            value: bytes(&fetched.value),
            headers: fetched.headers.iter().map(header).collect(),
        };
        self.run(|node, _| node.receive(record))
            .map(|receipt| receipt == Receipt::Dropped)
    }

    pub fn position(&mut self, on: model::Channel, next: i64) -> Result<(), Refused> {
        self.run(|node, _| node.advance(channel(on), next))
    }

    pub fn deliver_next(&mut self) -> Option<model::Delivery> {
        let delivery = self
            .run(|node, store| node.next_delivery(store))
            .expect("a delivery refuses nothing")?;
        let clock = model::Clock::decode(&delivery.clock).expect("a checked clock");
        assert_eq!(
            clock.encode(),
            delivery.clock,
            "a delivered clock is canonical"
        );
        Some(model::Delivery {
            on: plain(delivery.channel),
            record: model::Record {
                offset: delivery.offset,
                timestamp: delivery.timestamp_ms,
                tag: delivery
                    .sender
                    .map(|(sender, sequence)| (plain_sender(sender), sequence)),
                clock,
                key: delivery.key.map(|key| key.to_vec()),
                value: delivery.value.map(|value| value.to_vec()),
                headers: delivery.headers.iter().map(plain_header).collect(),
            },
            was_held: delivery.was_held,
        })
    }

    /// The sequence and the clock's bytes.
    pub fn send(&mut self, to: model::Channel) -> Result<(i64, Vec<u8>), Refused> {
        self.run(|node, _| node.prepare_send(channel(to)))
            .map(|stamp| (stamp.sequence, stamp.clock.to_vec()))
    }

    pub fn fence(&mut self, acks: &BTreeMap<model::Channel, i64>) {
        let acks: Vec<_> = channels(acks).into_iter().collect();
        self.run(|node, _| node.fence(&acks))
            .expect("a fence refuses nothing");
    }

    pub fn commit(&mut self, acks: &BTreeMap<model::Channel, i64>) {
        let acks: Vec<_> = channels(acks).into_iter().collect();
        let moved = self
            .run(|node, store| node.commit(&acks, store))
            .expect("a commit refuses nothing");
        self.positions
            .extend(moved.into_iter().map(|(on, at)| (plain(on), at)));
        let changes = self.store.take_changes();
        self.store.base_mut().apply(changes);
    }

    /// The positions that the host has committed, as it was told them.
    pub fn committed_positions(&self) -> &BTreeMap<model::Channel, i64> {
        &self.positions
    }

    pub fn abort(&mut self) {
        self.node = None;
        self.store.rollback();
    }

    pub fn stop(&mut self) {
        self.commit(&BTreeMap::new());
        self.node = None;
    }

    pub fn mark(&mut self) {
        let mark = self.node_mut().mark();
        self.marks.push(mark);
    }

    /// As of the mark so numbered, or as of now.
    pub fn watermarks(&mut self, mark: Option<usize>, watermarks: &BTreeMap<model::Channel, i64>) {
        let mark = match mark {
            Some(number) => self.marks[number].clone(),
            None => self.node_mut().mark(),
        };
        let watermarks = channels(watermarks);
        self.run(|node, _| node.watermarks(&mark, &watermarks))
            .expect("a watermark refuses nothing");
    }

    pub fn truncate(&mut self, truncation: &Truncation) -> Result<(), Refused> {
        let (log_starts, gone) = (channels(&truncation.log_starts), topics(&truncation.gone));
        let (drop_below, drop_gone) = (
            channels(&truncation.drop_below),
            topics(&truncation.drop_gone),
        );
        self.run(|node, _| {
            node.check(&log_starts, &gone)?;
            node.truncate(&drop_below, &drop_gone)
        })
    }

    pub fn holds(&self) -> Vec<model::Hold> {
        let waits = |wait: &Wait| match *wait {
            Wait::Offset {
                claim,
                settled,
                code,
            } => model::Wait::Offset {
                on: plain(claim.channel),
                offset: claim.offset,
                settled,
                code: code.as_str(),
            },
            Wait::Sequence {
                claim,
                delivered,
                code,
            } => model::Wait::Sequence {
                on: plain(claim.channel),
                sender: plain_sender(claim.sender),
                sequence: claim.sequence,
                delivered,
                code: code.as_str(),
            },
        };
        let holds: Vec<model::Hold> = self
            .node()
            .holds()
            .iter()
            .map(|hold| model::Hold {
                on: plain(hold.channel),
                offset: hold.offset,
                behind: usize::try_from(hold.behind).expect("a count"),
                waits: hold.waits.iter().map(waits).collect(),
            })
            .collect();
        let held: usize = holds.iter().map(|hold| hold.behind + 1).sum();
        assert_eq!(
            self.held(),
            held,
            "held records are the heads and what is behind them"
        );
        holds
    }

    /// What heads that sequence claims alone block wait for.
    pub fn waited_for_by_sequence(&self) -> BTreeSet<model::Channel> {
        self.node()
            .channels_waited_for_by_sequence()
            .into_iter()
            .map(plain)
            .collect()
    }

    pub fn channels_claimed_by_sequence(&self) -> BTreeSet<model::Channel> {
        self.node()
            .channels_claimed_by_sequence()
            .into_iter()
            .map(plain)
            .collect()
    }

    pub fn sequence_claims(&self) -> usize {
        self.node().sequence_claims()
    }

    pub fn held(&self) -> usize {
        usize::try_from(self.node().held()).expect("a count")
    }

    pub fn resume_positions(&self) -> BTreeMap<model::Channel, i64> {
        self.node()
            .resume_positions()
            .into_iter()
            .map(|(on, at)| (plain(on), at))
            .collect()
    }

    pub fn stamp_channels(&self) -> BTreeSet<model::Channel> {
        self.node()
            .stamp_channels()
            .into_iter()
            .map(plain)
            .collect()
    }

    pub fn store(&self) -> BTreeMap<String, Vec<u8>> {
        let text = |key: &[u8]| String::from_utf8(key.to_vec()).expect("keys are UTF-8");
        self.store
            .base()
            .iter()
            .map(|(key, value)| (text(key), value.to_vec()))
            .collect()
    }
}
