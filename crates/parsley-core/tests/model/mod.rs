//! A naive model of `docs/protocol.md`, written from the page alone.
//!
//! It shares no code with the crate it judges: plain tuples for identities, maps for clocks, full scans everywhere, and
//! every derived value recomputed from what it is derived from. Where the page leaves something open it follows
//! `docs/decisions.md`. Clarity decides everything here, speed nothing.

#![allow(dead_code, reason = "each test target uses its own part of the model")]

pub mod clock;
pub mod delivery;
pub mod layout;
pub mod open;
pub mod script;
pub mod stamp;

use std::collections::{BTreeMap, BTreeSet};

use md5::{Digest, Md5};

pub use clock::Clock;

/// A topic: most and least significant half of its UUID, both signed.
pub type Topic = (i64, i64);
/// One partition of one topic.
pub type Channel = (i64, i64, i32);
/// A sender identity: the two halves of its UUID.
pub type Sender = (i64, i64);

pub fn channel(topic: Topic, partition: i32) -> Channel {
    (topic.0, topic.1, partition)
}

pub fn topic_of(channel: Channel) -> Topic {
    (channel.0, channel.1)
}

/// The version 3 UUID made from the MD5 of the name's bytes alone.
pub fn named(name: &str) -> (i64, i64) {
    let mut bytes: [u8; 16] = Md5::digest(name.as_bytes()).into();
    bytes[6] = bytes[6] & 0x0f | 0x30;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let whole = u128::from_be_bytes(bytes);
    ((whole >> 64) as i64, whole as i64)
}

pub fn uuid_text(id: (i64, i64)) -> String {
    let hex = format!("{:016x}{:016x}", id.0, id.1);
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

/// Only the canonical text: lower case, hyphens in their places.
pub fn parse_uuid(text: &str) -> Option<(i64, i64)> {
    let whole = u128::from_str_radix(&text.replace('-', ""), 16).ok()?;
    let id = ((whole >> 64) as i64, whole as i64);
    (uuid_text(id) == text).then_some(id)
}

pub fn channel_text(channel: Channel) -> String {
    format!("{}:{}", uuid_text(topic_of(channel)), channel.2)
}

pub fn parse_channel(text: &str) -> Option<Channel> {
    let (topic, partition) = text.split_once(':')?;
    let parsed = channel(parse_uuid(topic)?, partition.parse().ok()?);
    (parsed.2 >= 0 && channel_text(parsed) == text).then_some(parsed)
}

/// Not a guard: the host did not say where a joining channel ends that the past names by sequence (decision D8).
pub const MISSING_END: &str = "host: missing end offset";

/// Why the node stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub code: &'static str,
    pub on: Option<Channel>,
    pub offset: Option<i64>,
}

impl Refused {
    pub fn at(code: &'static str, on: Channel, offset: i64) -> Refused {
        Refused {
            code,
            on: Some(on),
            offset: Some(offset),
        }
    }

    pub fn on(code: &'static str, on: Channel) -> Refused {
        Refused {
            code,
            on: Some(on),
            offset: None,
        }
    }

    pub fn bare(code: &'static str) -> Refused {
        Refused {
            code,
            on: None,
            offset: None,
        }
    }
}

/// A header as it stands on a record: the name, and bytes or null.
pub type Header = (String, Option<Vec<u8>>);

/// What the host fetched, all headers included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<Header>,
}

/// A received record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub offset: i64,
    pub timestamp: i64,
    pub tag: Option<(Sender, i64)>,
    pub clock: Clock,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<Header>,
}

/// A received, undelivered record.
#[derive(Clone, Debug)]
pub struct Held {
    pub record: Record,
    /// Its place in the stored queue, once it has one.
    pub index: Option<i64>,
    /// How many records this execution had received before; 0 for one that an earlier execution left.
    pub arrival: u64,
}

/// A delivery: the channel and the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub on: Channel,
    pub record: Record,
    /// It was still held when a drain or a step ended after its receipt.
    pub was_held: bool,
}

/// What came of one record or one other input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Dropped { on: Channel, offset: i64 },
    Delivered(Delivery),
}

/// A stamped send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub to: Channel,
    pub sequence: i64,
    pub clock: Clock,
    pub bytes: Vec<u8>,
}

/// One unmet claim of a held head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    Offset {
        on: Channel,
        offset: i64,
        settled: Option<i64>,
        code: &'static str,
    },
    Sequence {
        on: Channel,
        sender: Sender,
        sequence: i64,
        delivered: Option<i64>,
        code: &'static str,
    },
}

impl Wait {
    pub fn on(&self) -> Channel {
        match *self {
            Wait::Offset { on, .. } | Wait::Sequence { on, .. } => on,
        }
    }
}

/// One held head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub on: Channel,
    pub offset: i64,
    pub behind: usize,
    pub waits: Vec<Wait>,
}

/// What one check and sweep learned.
#[derive(Clone, Debug, Default)]
pub struct Truncation {
    pub log_starts: BTreeMap<Channel, i64>,
    pub gone: BTreeSet<Topic>,
    pub drop_below: BTreeMap<Channel, i64>,
    pub drop_gone: BTreeSet<Topic>,
}

/// A point in an execution that watermark evidence can speak for.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Records received so far.
    pub arrivals: u64,
    /// Highest sequence per channel and sender in custody or on a held record.
    pub known: BTreeMap<(Channel, Sender), i64>,
    /// Last own sequence per channel.
    pub own: BTreeMap<Channel, i64>,
}

/// What one initialisation is told.
#[derive(Clone, Debug, Default)]
pub struct OpenLine {
    pub name: String,
    pub inputs: BTreeSet<Channel>,
    /// Declared sinks and their partition counts.
    pub sinks: BTreeMap<Topic, i32>,
    pub start: BTreeMap<Channel, i64>,
    pub ends: BTreeMap<Channel, i64>,
    pub log_starts: BTreeMap<Channel, i64>,
    pub deleted: BTreeSet<Topic>,
    /// Sinks that the host could not resolve.
    pub unresolved: BTreeSet<Topic>,
    /// The group had committed positions (what G11 asks).
    pub group_has_positions: bool,
}

/// What an initialisation answers: where joined channels with a seed are to be read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    pub resume: BTreeMap<Channel, i64>,
    /// The channels that joined, each with its seed if it has one.
    pub joined: BTreeMap<Channel, Option<i64>>,
}

/// What the node's committed bytes say, parsed.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Recorded inputs and sinks; `None` before the first initialisation.
    pub scope: Option<(BTreeSet<Channel>, BTreeSet<Topic>)>,
    /// Stored frontiers. While an execution runs they are derived, see [`layout::render`].
    pub frontiers: BTreeMap<Channel, i64>,
    pub advertised: BTreeMap<Channel, Clock>,
    pub carried: Clock,
    pub held: BTreeMap<Channel, Vec<Held>>,
    /// Head and tail index of each stored queue.
    pub indices: BTreeMap<Channel, (i64, i64)>,
    pub sent: BTreeMap<Channel, i64>,
    pub marks: BTreeMap<(Channel, Sender), (i64, i64)>,
}

/// One execution: the state and what lives in memory alone.
#[derive(Clone, Debug)]
pub struct Execution {
    pub me: Sender,
    pub inputs: BTreeSet<Channel>,
    pub sinks: BTreeMap<Topic, i32>,
    pub state: State,
    /// `fed_up_to`, absent while undefined. Topics that are gone are not in it.
    pub fed: BTreeMap<Channel, i64>,
    /// Where the host began to read, for channels that have fed nothing yet.
    pub resume: BTreeMap<Channel, i64>,
    pub gone: BTreeSet<Topic>,
    /// Topics whose claims a sweep has dropped: as gone as those, as far as stamps go.
    pub swept: BTreeSet<Topic>,
    pub last_fed: BTreeMap<Channel, i64>,
    /// Highest position reported by an advance that said something new.
    pub advanced: BTreeMap<Channel, i64>,
    pub arrivals: u64,
    /// Every watermark of every mark, per channel: (records received at the mark, high watermark).
    pub evidence: BTreeMap<Channel, Vec<(u64, i64)>>,
    /// The delivered term of the stamp.
    pub delivered: BTreeMap<Channel, i64>,
    /// The own term: offsets, the own sequence that each vouches for, and sequence claims.
    pub own_offsets: BTreeMap<Channel, i64>,
    pub own_vouched: BTreeMap<Channel, i64>,
    pub own_claims: BTreeMap<Channel, i64>,
    /// Channels with a send since the last fence.
    pub unfenced: BTreeSet<Channel>,
    /// Where the scan stands: the channel of the last delivery of this pass.
    pub cursor: Option<Channel>,
}

/// The model: committed bytes, and an execution while one runs.
#[derive(Clone, Debug)]
pub struct Model {
    committed: BTreeMap<String, Vec<u8>>,
    execution: Option<Execution>,
    /// Largest clock in bytes, inclusive.
    budget: usize,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            committed: BTreeMap::new(),
            execution: None,
            budget: 262_144,
        }
    }
}

impl Model {
    pub fn with_budget(budget: usize) -> Model {
        Model {
            budget,
            ..Model::default()
        }
    }

    /// A stopped model over bytes that somebody else left.
    pub fn over(committed: BTreeMap<String, Vec<u8>>, budget: usize) -> Model {
        Model {
            committed,
            execution: None,
            budget,
        }
    }

    pub fn running(&self) -> bool {
        self.execution.is_some()
    }

    /// Committed keys and values.
    pub fn store(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.committed
    }

    pub fn execution(&self) -> &Execution {
        self.execution.as_ref().expect("an execution runs")
    }

    /// Initialises from the committed bytes alone. What it changes is committed by the next `commit`.
    pub fn open(&mut self, line: &OpenLine) -> Result<Opened, Refused> {
        assert!(self.execution.is_none(), "open while an execution runs");
        let state = layout::parse(&self.committed).ok_or(Refused::bare("vc-corrupt-state"))?;
        let (execution, opened) = open::initialise(state, line)?;
        self.execution = Some(execution);
        Ok(opened)
    }

    /// Feeds one record without delivering anything; `true` when it was dropped.
    pub fn receive(&mut self, on: Channel, fetched: &Fetched) -> Result<bool, Refused> {
        let budget = self.budget;
        self.run(|execution| execution.receive(on, fetched, budget))
    }

    /// Feeds one record and delivers what can be delivered.
    pub fn record(&mut self, on: Channel, fetched: &Fetched) -> Result<Vec<Event>, Refused> {
        let mut events = Vec::new();
        if self.receive(on, fetched)? {
            events.push(Event::Dropped {
                on,
                offset: fetched.offset,
            });
        }
        events.extend(self.drain().into_iter().map(Event::Delivered));
        Ok(events)
    }

    pub fn position(&mut self, on: Channel, next: i64) -> Result<(), Refused> {
        self.run(|execution| execution.position(on, next))
    }

    /// The next delivery of the plain scan, or `None` after a pass that delivered nothing.
    pub fn deliver_next(&mut self) -> Option<Delivery> {
        self.execution
            .as_mut()
            .expect("an execution runs")
            .deliver_next()
    }

    pub fn drain(&mut self) -> Vec<Delivery> {
        std::iter::from_fn(|| self.deliver_next()).collect()
    }

    pub fn send(&mut self, to: Channel) -> Result<Stamp, Refused> {
        let budget = self.budget;
        self.run(|execution| execution.send(to, budget))
    }

    pub fn fence(&mut self, acks: &BTreeMap<Channel, i64>) {
        self.execution
            .as_mut()
            .expect("an execution runs")
            .fence(acks);
    }

    /// Ends the step: everything sent is acknowledged and the state is in the committed bytes.
    pub fn commit(&mut self, acks: &BTreeMap<Channel, i64>) {
        self.fence(acks);
        let execution = self.execution.as_mut().expect("an execution runs");
        execution.give_indices();
        execution.cursor = None;
        self.committed = layout::render(execution);
    }

    /// The step is lost and the execution ends.
    pub fn abort(&mut self) {
        self.execution = None;
    }

    pub fn stop(&mut self) {
        self.commit(&BTreeMap::new());
        self.execution = None;
    }

    pub fn mark(&self) -> Mark {
        self.execution().mark()
    }

    pub fn watermarks(&mut self, mark: &Mark, watermarks: &BTreeMap<Channel, i64>) {
        self.execution
            .as_mut()
            .expect("an execution runs")
            .watermarks(mark, watermarks);
    }

    /// For counting what only evidence released.
    pub fn forget_evidence(&mut self) {
        self.execution
            .as_mut()
            .expect("an execution runs")
            .evidence
            .clear();
    }

    /// Whether the next pull would deliver something.
    pub fn deliverable(&self) -> bool {
        self.clone().deliver_next().is_some()
    }

    pub fn truncate(&mut self, truncation: &Truncation) -> Result<(), Refused> {
        self.run(|execution| {
            execution.check(&truncation.log_starts, &truncation.gone)?;
            execution.sweep(truncation);
            Ok(())
        })
    }

    pub fn holds(&self) -> Vec<Hold> {
        self.execution().holds()
    }

    /// What the host commits as its position on each channel: one past what a restore would know as fed.
    pub fn resume_positions(&self) -> BTreeMap<Channel, i64> {
        let execution = self.execution();
        let mut positions = BTreeMap::new();
        for &on in &execution.inputs {
            let last_held = execution.held(on).last().map(|held| held.record.offset);
            let fed = execution.frontier(on).max(last_held);
            if let Some(fed) = fed {
                positions.insert(on, fed.saturating_add(1));
            }
        }
        positions
    }

    /// What heads that nothing but sequence claims blocks wait for.
    pub fn waited_for_by_sequence(&self) -> BTreeSet<Channel> {
        let mut waited = BTreeSet::new();
        for hold in self.holds() {
            if hold
                .waits
                .iter()
                .all(|wait| matches!(wait, Wait::Sequence { .. }))
            {
                waited.extend(hold.waits.iter().map(Wait::on));
            }
        }
        waited
    }

    /// The channels that the clocks in custody name.
    pub fn stamp_channels(&self) -> BTreeSet<Channel> {
        let state = &self.execution().state;
        let mut named = BTreeSet::new();
        for clock in state.advertised.values().chain([&state.carried]) {
            named.extend(clock.offsets.keys().copied());
            named.extend(clock.sequences.keys().map(|&(on, _)| on));
        }
        named
    }

    /// A refusal stops the whole node: nothing of the step is kept.
    fn run<T>(
        &mut self,
        step: impl FnOnce(&mut Execution) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let outcome = step(self.execution.as_mut().expect("an execution runs"));
        if outcome.is_err() {
            self.execution = None;
        }
        outcome
    }
}
