//! Runs a script: the host of one bare node.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use bytes::Bytes;
use parsley_core::wire::{self, CLOCK_HEADER, SENDER_HEADER, SEQUENCE_HEADER};
use parsley_core::{
    Channel, Header, Mark, MemoryStore, Node, NodeConfig, NodeError, NodeLimits, Offset, OpenFacts,
    Receipt, Record, SenderId, Sink, Staged, StoreError, TopicId,
};

use super::answer::Answer;
use super::line::{self, Line, Places, SequenceClaim};
use super::names::{self, ChannelName, Names};
use crate::plain::clipped;

/// Why a line ends the run.
#[derive(Debug)]
pub enum Fault {
    /// It stands where it may not, or says what cannot be.
    Malformed(Misplaced),
    /// The store failed.
    Store(StoreError),
    /// The answer cannot be written.
    Write(io::Error),
}

/// A line that is well formed by itself and wrong where it stands.
#[derive(Debug, thiserror::Error)]
pub enum Misplaced {
    #[error("found `{0}` while no node runs, expected `open`")]
    NotRunning(&'static str),
    #[error("found `{0}` after a refusal, expected `open`")]
    Refused(&'static str),
    #[error("found `open` while a node runs, expected `stop` or `abort` before it")]
    Running,
    #[error("found `begin` within a step, expected `commit` before it")]
    StepOpen,
    #[error("found `{0}` outside a step, expected `begin` before it")]
    NoStep(&'static str),
    #[error("found `{0}` within a step, expected `commit` before it")]
    WithinStep(&'static str),
    #[error("found {what} `{}` twice, expected it once", clipped(.name))]
    Twice { what: &'static str, name: String },
    #[error(
        "found `{}` and `{}`, which are two names of one {what}, expected one of them",
        clipped(.first),
        clipped(.second)
    )]
    Same {
        what: &'static str,
        first: String,
        second: String,
    },
    #[error(
        "found a send to `{}`, expected a partition below {partitions}, which `partitions` gives",
        clipped(.to)
    )]
    NoSuchPartition { to: ChannelName, partitions: i32 },
    #[error(
        "found a send to `{}`, expected `partitions` to say how many the sink `{}` has",
        clipped(.to),
        clipped(&.to.topic)
    )]
    NoPartitions { to: ChannelName },
    #[error(
        "found no end of `{}` in `ends`, expected one: the channel joins, and the delivered past names it by sequence",
        clipped(.0)
    )]
    MissingEnd(String),
    #[error(
        "found an acknowledgement on `{}`, expected partitions of declared sinks alone",
        clipped(.0)
    )]
    NotASink(String),
    #[error("{0}")]
    Node(NodeError),
}

impl From<Misplaced> for Fault {
    fn from(misplaced: Misplaced) -> Self {
        Self::Malformed(misplaced)
    }
}

/// What ends a line's work: a fault ends the run, a refusal ends the execution.
enum Stop {
    Fault(Fault),
    Node(NodeError),
}

impl<F: Into<Fault>> From<F> for Stop {
    fn from(fault: F) -> Self {
        Self::Fault(fault.into())
    }
}

impl From<NodeError> for Stop {
    fn from(error: NodeError) -> Self {
        Self::Node(error)
    }
}

/// One execution of the node.
struct Execution {
    node: Node,
    sinks: BTreeMap<TopicId, i32>,
    in_step: bool,
}

/// A script under way.
pub struct Run<W> {
    out: W,
    names: Names,
    store: Staged<MemoryStore>,
    execution: Option<Execution>,
    /// The last unused mark. It may be of an earlier execution: then it speaks for nothing in this one, as an answer that comes late does.
    mark: Option<Mark>,
    refused: bool,
}

impl<W: Write> Run<W> {
    /// Starts with an empty store.
    pub fn new(out: W) -> Self {
        Self {
            out,
            names: Names::default(),
            store: Staged::over(MemoryStore::new()),
            execution: None,
            mark: None,
            refused: false,
        }
    }

    /// Whether a refusal stopped the node, and no execution came after it.
    pub fn refused(&self) -> bool {
        self.refused
    }

    /// Hands out what was answered so far.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Runs one line and prints its answers.
    pub fn line(&mut self, line: Line) -> Result<(), Fault> {
        match self.dispatch(line) {
            Ok(()) => Ok(()),
            Err(Stop::Fault(fault)) => Err(fault),
            Err(Stop::Node(NodeError::Refused(refusal))) => {
                self.execution = None;
                self.store.rollback();
                self.refused = true;
                self.answer(&Answer::refused(&refusal, &self.names))
            }
            Err(Stop::Node(NodeError::Store(error))) => Err(Fault::Store(error)),
            Err(Stop::Node(NodeError::MissingEnd { channel })) => {
                Err(Misplaced::MissingEnd(self.names.show(channel)).into())
            }
            Err(Stop::Node(NodeError::NotASinkChannel { channel })) => {
                Err(Misplaced::NotASink(self.names.show(channel)).into())
            }
            Err(Stop::Node(error)) => Err(Misplaced::Node(error).into()),
        }
    }

    fn dispatch(&mut self, line: Line) -> Result<(), Stop> {
        match line {
            Line::Open(open) => self.open(*open),
            Line::Record(record) => self.record(*record),
            Line::Position(position) => {
                let channel = self.names.channel(&position.on);
                self.running("position")?
                    .node
                    .advance(channel, position.next.0)?;
                self.settle()
            }
            Line::Send(send) => self.send(&send.to),
            Line::Begin => {
                let execution = self.running("begin")?;
                if execution.in_step {
                    return Err(Misplaced::StepOpen.into());
                }
                execution.in_step = true;
                Ok(())
            }
            Line::Commit(acks) => {
                self.in_step("commit")?.in_step = false;
                let acks = self.acks(&acks)?;
                self.commit(&acks)
            }
            Line::Fence(acks) => {
                self.in_step("fence")?;
                let acks = self.acks(&acks)?;
                Ok(self.running("fence")?.node.fence(&acks)?)
            }
            Line::Abort => {
                self.in_step("abort")?;
                self.store.rollback();
                self.execution = None;
                Ok(())
            }
            Line::Mark => {
                self.mark = Some(self.between_steps("mark")?.node.mark());
                Ok(())
            }
            Line::Watermarks(ends) => {
                let ends = self.places(&ends)?;
                let unused = self.mark.take();
                let execution = self.between_steps("watermarks")?;
                let mark = unused.unwrap_or_else(|| execution.node.mark());
                execution.node.watermarks(&mark, &ends)?;
                self.settle()
            }
            Line::Stop => {
                self.running("stop")?;
                self.commit(&[])?;
                self.execution = None;
                Ok(())
            }
            Line::Truncate(truncate) => self.truncate(&truncate),
            Line::Holds => {
                let holds = self.running("holds")?.node.holds();
                Ok(self.answer(&Answer::holds(&holds, &self.names))?)
            }
            Line::Store => {
                self.running("store")?;
                let store = Answer::store(self.store.base()).map_err(Fault::Store)?;
                Ok(self.answer(&store)?)
            }
        }
    }

    fn open(&mut self, open: line::Open) -> Result<(), Stop> {
        if self.execution.is_some() {
            return Err(Misplaced::Running.into());
        }
        distinct("input", open.inputs.iter())?;
        distinct("sink", open.sinks.iter())?;
        let given: BTreeMap<String, TopicId> = open
            .topics
            .0
            .into_iter()
            .map(|(name, uuid)| (name, TopicId::from_uuid(uuid.0)))
            .collect();
        distinct("the topic", given.values())?;
        self.names.give(given);
        let inputs = self.channels(&open.inputs)?;
        let named = open.sinks.iter().map(|name| (self.names.topic(name), name));
        once("topic", named)?;
        // What `partitions` says of other topics is of no use here.
        let partitions = |name| open.partitions.0.get(name).map_or(0, |given| given.0);
        let sinks: BTreeMap<TopicId, i32> = open
            .sinks
            .iter()
            .map(|name| (self.names.topic(name), partitions(name)))
            .collect();
        let config = NodeConfig {
            sender: SenderId::of_name(&open.name),
            inputs: inputs.into_iter().collect(),
            sinks: sinks
                .iter()
                .map(|(&topic, &partitions)| Sink { topic, partitions })
                .collect(),
            limits: NodeLimits::default(),
        };
        let facts = OpenFacts {
            start: self.places(&open.start)?,
            // An execution with a recorded scope takes `start` for the group's positions by itself; one without starts for the first time.
            group_has_positions: false,
            ends: self.places(&open.ends)?,
            log_starts: self.places(&open.log_starts)?,
            gone: self.topics(&open.deleted),
            unresolved: BTreeSet::new(),
        };
        let (node, opened) = Node::open(config, &facts, &mut self.store)?;
        self.refused = false;
        self.execution = Some(Execution {
            node,
            sinks,
            in_step: false,
        });
        self.answer(&Answer::opened(&opened.resume, &self.names))?;
        self.settle()
    }

    fn record(&mut self, record: line::Record) -> Result<(), Stop> {
        let record = self.raw(record);
        let (channel, offset) = (record.channel, record.offset);
        if self.running("record")?.node.receive(record)? == Receipt::Dropped {
            self.answer(&Answer::Dropped {
                on: self.names.show(channel),
                offset,
            })?;
        }
        self.settle()
    }

    fn send(&mut self, to: &ChannelName) -> Result<(), Stop> {
        let channel = self.names.channel(to);
        let execution = self.running("send")?;
        match execution.sinks.get(&channel.topic) {
            Some(0) => return Err(Misplaced::NoPartitions { to: to.clone() }.into()),
            Some(&partitions) if channel.partition >= partitions => {
                return Err(Misplaced::NoSuchPartition {
                    to: to.clone(),
                    partitions,
                }
                .into());
            }
            // An undeclared sink is the node's to refuse (G5).
            _ => {}
        }
        let stamp = execution.node.prepare_send(channel)?;
        let clock = wire::decode(&stamp.clock)
            .expect("a stamp's clock is a clock")
            .into_clock();
        self.answer(&Answer::stamp(&stamp, &clock, &self.names))?;
        self.settle()
    }

    fn truncate(&mut self, truncate: &line::Truncate) -> Result<(), Stop> {
        let (log_starts, gone) = (
            self.places(&truncate.log_starts)?,
            self.topics(&truncate.gone),
        );
        let (drop_below, drop_gone) = (
            self.places(&truncate.drop_below)?,
            self.topics(&truncate.drop_gone),
        );
        let node = &mut self.running("truncate")?.node;
        node.check(&log_starts, &gone)?;
        node.truncate(&drop_below, &drop_gone)?;
        self.settle()
    }

    /// Delivers what the line released and, outside a step, commits it.
    fn settle(&mut self) -> Result<(), Stop> {
        let Some(execution) = &mut self.execution else {
            return Ok(());
        };
        while let Some(delivery) = execution.node.next_delivery(&self.store)? {
            Answer::delivered(&delivery, &self.names)
                .write(&mut self.out)
                .map_err(Fault::Write)?;
        }
        if execution.in_step {
            Ok(())
        } else {
            self.commit(&[])
        }
    }

    fn commit(&mut self, acks: &[(Channel, Offset)]) -> Result<(), Stop> {
        let Some(execution) = &mut self.execution else {
            return Ok(());
        };
        execution.node.commit(acks, &mut self.store)?;
        let changes = self.store.take_changes();
        self.store.base_mut().apply(changes);
        Ok(())
    }

    fn answer(&mut self, answer: &Answer) -> Result<(), Fault> {
        answer.write(&mut self.out).map_err(Fault::Write)
    }

    fn running(&mut self, line: &'static str) -> Result<&mut Execution, Misplaced> {
        match &mut self.execution {
            Some(execution) => Ok(execution),
            None if self.refused => Err(Misplaced::Refused(line)),
            None => Err(Misplaced::NotRunning(line)),
        }
    }

    fn in_step(&mut self, line: &'static str) -> Result<&mut Execution, Misplaced> {
        let execution = self.running(line)?;
        if execution.in_step {
            Ok(execution)
        } else {
            Err(Misplaced::NoStep(line))
        }
    }

    fn between_steps(&mut self, line: &'static str) -> Result<&mut Execution, Misplaced> {
        let execution = self.running(line)?;
        if execution.in_step {
            Err(Misplaced::WithinStep(line))
        } else {
            Ok(execution)
        }
    }

    fn places(&mut self, places: &Places) -> Result<BTreeMap<Channel, Offset>, Misplaced> {
        let names = places.0.keys();
        self.channels(names)?;
        let place =
            |(name, place): (&ChannelName, &line::Place)| (self.names.channel(name), place.0);
        Ok(places.0.iter().map(place).collect())
    }

    fn acks(&mut self, places: &Places) -> Result<Vec<(Channel, Offset)>, Misplaced> {
        Ok(self.places(places)?.into_iter().collect())
    }

    /// Channels that are named, each by one name.
    fn channels<'a>(
        &mut self,
        channels: impl IntoIterator<Item = &'a ChannelName>,
    ) -> Result<BTreeSet<Channel>, Misplaced> {
        once(
            "channel",
            channels
                .into_iter()
                .map(|name| (self.names.channel(name), name)),
        )
    }

    fn topics(&mut self, names: &[String]) -> BTreeSet<TopicId> {
        names.iter().map(|name| self.names.topic(name)).collect()
    }

    /// The record as a host would have fetched it: what it carries is in its headers.
    fn raw(&mut self, record: line::Record) -> Record {
        let header = |name: &'static str, value: Bytes| {
            Header::new(Bytes::from_static(name.as_bytes()), value)
        };
        let mut headers: Vec<Header> = record
            .headers
            .0
            .into_iter()
            .map(|(name, value)| Header {
                name: name.into(),
                value: value.map(Bytes::from),
            })
            .collect();
        if let Some(clock) = record.clock_hex {
            headers.push(header(CLOCK_HEADER, clock.0));
        }
        if let Some(clock) = record.clock {
            headers.push(header(CLOCK_HEADER, self.clock_bytes(clock.0)));
        }
        if let Some(sender) = record.sender {
            let uuid = names::sender(&sender).0.uuid();
            headers.push(header(
                SENDER_HEADER,
                Bytes::copy_from_slice(uuid.as_bytes()),
            ));
        }
        if let Some(sequence) = record.sequence {
            headers.push(header(
                SEQUENCE_HEADER,
                Bytes::copy_from_slice(&sequence.0.to_be_bytes()),
            ));
        }
        Record {
            channel: self.names.channel(&record.on),
            offset: record.offset.0,
            timestamp_ms: record.timestamp.0,
            key: record.key.map(Bytes::from),
            value: record
                .value
                .map(Bytes::from)
                .or(record.value_b64.map(|value| value.0)),
            headers,
        }
    }

    /// A clock's bytes, whatever it claims: a negative or repeated claim is for the node to find.
    fn clock_bytes(&mut self, clock: line::Clock) -> Bytes {
        let mut offsets: Vec<(Channel, Offset)> = clock
            .offsets
            .0
            .iter()
            .map(|(name, offset)| (self.names.channel(name), offset.0))
            .collect();
        let mut sequences: Vec<(Channel, SenderId, i64)> = clock
            .sequences
            .iter()
            .map(|SequenceClaim(name, sender, sequence)| {
                (self.names.channel(name), names::sender(sender), sequence.0)
            })
            .collect();
        offsets.sort_unstable();
        sequences.sort_unstable();
        let mut bytes = vec![wire::CLOCK_VERSION];
        let mut section = |entries: Vec<Vec<u8>>| {
            // A line is far too short for 2^31 entries.
            bytes.extend(
                i32::try_from(entries.len())
                    .unwrap_or(i32::MAX)
                    .to_be_bytes(),
            );
            bytes.extend(entries.into_iter().flatten());
        };
        section(
            offsets
                .iter()
                .map(|(channel, offset)| {
                    [channel_bytes(*channel), offset.to_be_bytes().to_vec()].concat()
                })
                .collect(),
        );
        section(
            sequences
                .iter()
                .map(|(channel, sender, sequence)| {
                    let sender = sender.0.uuid().into_bytes().to_vec();
                    [
                        channel_bytes(*channel),
                        sender,
                        sequence.to_be_bytes().to_vec(),
                    ]
                    .concat()
                })
                .collect(),
        );
        bytes.into()
    }
}

fn channel_bytes(channel: Channel) -> Vec<u8> {
    let mut bytes = channel.topic.0.uuid().into_bytes().to_vec();
    bytes.extend(channel.partition.to_be_bytes());
    bytes
}

fn distinct<'a, T: Ord + ToString + 'a>(
    what: &'static str,
    items: impl Iterator<Item = &'a T>,
) -> Result<(), Misplaced> {
    let mut seen = BTreeSet::new();
    for item in items {
        if !seen.insert(item) {
            return Err(Misplaced::Twice {
                what,
                name: item.to_string(),
            });
        }
    }
    Ok(())
}

/// What the names stand for; no two of them may stand for the same.
fn once<'a, K: Ord + Copy, T: ToString + 'a>(
    what: &'static str,
    named: impl Iterator<Item = (K, &'a T)>,
) -> Result<BTreeSet<K>, Misplaced> {
    let mut names: BTreeMap<K, &T> = BTreeMap::new();
    for (stands_for, name) in named {
        if let Some(first) = names.insert(stands_for, name) {
            return Err(Misplaced::Same {
                what,
                first: first.to_string(),
                second: name.to_string(),
            });
        }
    }
    Ok(names.into_keys().collect())
}
