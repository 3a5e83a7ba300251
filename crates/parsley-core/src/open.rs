//! Initialisation (`docs/protocol.md`, State, Scope changes, Baselines and duplicates): restore, scope changes, the own reading, start
//! positions, and the first check.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::channel::{Channel, Offset, TopicId};
use crate::clock::Clock;
use crate::input::{DeliveredSequence, Input};
use crate::layout::{self, CorruptValue, EntryKeys, HeldRef, SCOPE_KEY, Scope, StateKey};
use crate::node::{Node, NodeConfig, NodeError};
use crate::queue::corrupt_key;
use crate::refusal::{Refusal, RefusalCode};
use crate::stamp::OwnSends;
use crate::store::{StateStore, Visit};

/// What the host learned before the execution. Read the recorded [`Scope`] first to know about which channels to ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenFacts {
    /// Start positions: the group's committed ones, or on a first start the declared initial ones, resolved.
    pub start: BTreeMap<Channel, Offset>,
    /// Whether `start` holds committed group positions; then an empty state is G11.
    pub group_has_positions: bool,
    /// High watermarks of the partitions of declared sinks, of removed sinks, and of joining channels. Read them after the group's
    /// positions were answered as stable and the state is restored.
    pub ends: BTreeMap<Channel, Offset>,
    /// Log starts of received channels.
    pub log_starts: BTreeMap<Channel, Offset>,
    /// Topics that are definitively gone.
    pub gone: BTreeSet<TopicId>,
    /// Sinks that the cluster could not resolve (G6).
    pub unresolved: BTreeSet<TopicId>,
}

/// A channel that joined the received set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The channel.
    pub channel: Channel,
    /// The highest position that the delivered past claims on it. Records at or below it are skipped: their effects were delivered here
    /// before, so they can no longer come first.
    pub seed: Option<Offset>,
}

/// What an initialisation found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Where a joined channel that has a seed is to be read from.
    pub resume: BTreeMap<Channel, Offset>,
    /// The channels that joined, in channel order.
    pub joined: Vec<Joined>,
}

impl Scope {
    /// The scope that the last execution recorded; `None` before the first.
    ///
    /// # Errors
    ///
    /// When the store fails, or the value is corrupt (G7).
    pub fn recorded(store: &(impl StateStore + ?Sized)) -> Result<Option<Self>, NodeError> {
        let Some(value) = store.get(SCOPE_KEY)? else {
            return Ok(None);
        };
        Ok(Some(
            Self::from_bytes(&value).map_err(|why| corrupt_key(SCOPE_KEY, why))?,
        ))
    }

    fn declared(config: &NodeConfig) -> Self {
        let channels: BTreeSet<Channel> = config.inputs.iter().copied().collect();
        let sinks: BTreeSet<TopicId> = config.sinks.iter().map(|sink| sink.topic).collect();
        Self {
            channels: channels.into_iter().collect(),
            sinks: sinks.into_iter().collect(),
        }
    }
}

/// The state as stored, parsed and checked.
struct Restored {
    scope: Option<Scope>,
    inputs: BTreeMap<Channel, Input>,
    carried: Clock,
    send_sequences: BTreeMap<Channel, i64>,
    /// The channels whose queue has its head and tail index.
    queue_metas: BTreeSet<Channel>,
    /// The queue whose entries are being read: they follow one another.
    entries: Option<(Channel, EntryKeys)>,
}

impl Restored {
    fn read(store: &(impl StateStore + ?Sized), window: usize) -> Result<Self, NodeError> {
        let scope = Scope::recorded(store)?;
        let channels = scope.iter().flat_map(|scope| &scope.channels);
        let inputs = channels
            .map(|&channel| (channel, Input::new(channel, window)))
            .collect();
        let mut restored = Self {
            scope,
            inputs,
            carried: Clock::new(),
            send_sequences: BTreeMap::new(),
            queue_metas: BTreeSet::new(),
            entries: None,
        };
        let mut corrupt = None;
        store.scan(
            b"",
            b"",
            &mut |key, value| match restored.take_up(key, value) {
                Ok(()) => Visit::Continue(()),
                Err(why) => {
                    corrupt = Some(corrupt_key(key, why));
                    Visit::Break(())
                }
            },
        )?;
        if let Some(refusal) = corrupt {
            return Err(refusal.into());
        }
        for (&channel, input) in &mut restored.inputs {
            input
                .finish_restore(restored.queue_metas.contains(&channel))
                .map_err(|(key, why)| corrupt_key(&key.to_bytes(), format!("{channel}: {why}")))?;
        }
        Ok(restored)
    }

    fn take_up(&mut self, key: &[u8], value: &Bytes) -> Result<(), String> {
        if let Some((channel, keys)) = &mut self.entries
            && let Some(index) = keys.take(key)
        {
            let channel = *channel;
            return self.take_up_entry(channel, index, value);
        }
        let parsed = StateKey::parse(key).ok_or("not a key of the ordering state")?;
        if self.scope.is_none() {
            return Err("state without a recorded scope".to_owned());
        }
        let text = |why: CorruptValue| why.to_string();
        match parsed {
            StateKey::Scope => {}
            StateKey::Carried => self.carried = layout::clock_from_bytes(value).map_err(text)?,
            StateKey::SendSequence(channel) => {
                self.send_sequences
                    .insert(channel, layout::number_from_bytes(value).map_err(text)?);
            }
            StateKey::Frontier(channel) => {
                self.input(channel)?.stored_frontier =
                    Some(layout::number_from_bytes(value).map_err(text)?);
            }
            StateKey::Advertised(channel) => {
                self.input(channel)?.advertised = layout::clock_from_bytes(value).map_err(text)?;
            }
            StateKey::QueueEntry(channel, index) => {
                self.take_up_entry(channel, index, value)?;
                let next = EntryKeys::from(channel, index.wrapping_add(1));
                self.entries = Some((channel, next));
            }
            StateKey::QueueMeta(channel) => {
                let (head, tail) = layout::pair_from_bytes(value).map_err(text)?;
                let input = self.input(channel)?;
                input.queue.restore_meta(head, tail)?;
                self.queue_metas.insert(channel);
            }
            StateKey::DeliveredSequence(channel, sender) => {
                let (sequence, offset) = layout::pair_from_bytes(value).map_err(text)?;
                self.input(channel)?
                    .delivered_sequences
                    .insert(sender, DeliveredSequence { sequence, offset });
            }
        }
        Ok(())
    }

    fn take_up_entry(&mut self, channel: Channel, index: u64, value: &Bytes) -> Result<(), String> {
        let held = HeldRef::read(value).map_err(|why| why.to_string())?;
        let queue = &mut self.input(channel)?.queue;
        Ok(queue.restore_entry(index, &held, value)?)
    }

    fn input(&mut self, channel: Channel) -> Result<&mut Input, String> {
        self.inputs
            .get_mut(&channel)
            .ok_or_else(|| "its channel is not in the recorded scope".to_owned())
    }
}

impl Input {
    /// Derives from the stored values what is not stored, and checks them against each other.
    fn finish_restore(&mut self, has_queue_meta: bool) -> Result<(), (StateKey, &'static str)> {
        if let Some(head) = self.queue.head() {
            if !has_queue_meta {
                return Err((
                    StateKey::QueueMeta(self.channel),
                    "held entries without their head and tail index",
                ));
            }
            if self
                .stored_frontier
                .is_some_and(|frontier| frontier >= head.offset)
            {
                return Err((
                    StateKey::Frontier(self.channel),
                    "the frontier does not lie below the held head",
                ));
            }
        }
        self.fed_up_to = self.stored_frontier.max(self.queue.last_offset());
        self.delivered = self.stored_frontier;
        Ok(())
    }

    /// The keys of this channel in the store, while it holds nothing.
    fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys = vec![
            StateKey::Frontier(self.channel).to_bytes(),
            StateKey::Advertised(self.channel).to_bytes(),
            StateKey::QueueMeta(self.channel).to_bytes(),
        ];
        keys.extend(
            self.delivered_sequences
                .keys()
                .map(|&sender| StateKey::DeliveredSequence(self.channel, sender).to_bytes()),
        );
        keys
    }
}

impl Node {
    /// Initialises an execution from the committed state and writes what the initialisation changes (decision D4). The host commits these
    /// writes with the first step, before it feeds.
    ///
    /// # Errors
    ///
    /// Refuses with G7, G11, G8, G6, G16, G10 or G9; then nothing that was written may be kept. [`NodeError::MissingEnd`] when a joining
    /// channel needs an end offset that `facts` lacks.
    pub fn open(
        config: NodeConfig,
        facts: &OpenFacts,
        store: &mut (impl StateStore + ?Sized),
    ) -> Result<(Self, Opened), NodeError> {
        let mut restored = Restored::read(&*store, config.limits.window_records)?;
        let declared = Scope::declared(&config);
        if restored.scope.is_none() && facts.group_has_positions {
            let found = "the group has committed positions and there is no ordering state";
            return Err(Refusal::of_node(RefusalCode::StateLost, found).into());
        }
        let mut change = ScopeChange {
            facts,
            restored: &mut restored,
            obsolete: Vec::new(),
            changed: Changed::default(),
        };
        change.remove_inputs(&declared)?;
        let opened = change.add_inputs(&declared, config.limits.window_records)?;
        change.remove_sinks(&declared)?;
        let (obsolete, changed) = (change.obsolete, change.changed);
        for &topic in &declared.sinks {
            check_resolved(topic, facts, true)?;
        }

        let joined: BTreeSet<Channel> = opened.joined.iter().map(|joined| joined.channel).collect();
        let first_start = restored.scope.is_none();
        let mut inputs: Vec<Input> = restored.inputs.into_values().collect();
        for input in &mut inputs {
            let joins = joined.contains(&input.channel);
            take_start_position(input, facts, first_start, joins)?;
        }
        let own = OwnSends::open(
            config.sender,
            &config.sinks,
            &restored.send_sequences,
            &facts.ends,
        );
        let mut node = Self::assemble(&config, inputs, own, restored.carried, facts.gone.clone());
        node.carried_changed = changed.carried;
        for input in &mut node.inputs {
            input.advertised_changed = changed.advertised.contains(&input.channel);
        }
        for input in &node.inputs {
            let judged =
                !joined.contains(&input.channel) && !facts.gone.contains(&input.channel.topic);
            if let (true, Some(&log_start)) = (judged, facts.log_starts.get(&input.channel)) {
                let resumes_at = facts
                    .start
                    .get(&input.channel)
                    .copied()
                    .or(input.next_needed());
                input.check_log_start(resumes_at, log_start)?;
            }
        }
        node.settle_gone(&facts.gone)?;

        for key in obsolete {
            store.delete(&key)?;
        }
        store.put(SCOPE_KEY, declared.to_bytes())?;
        node.write(store)?;
        for input in &mut node.inputs {
            input.committed_position = None;
        }
        for index in 0..node.inputs.len() {
            node.touch_at_open(index);
        }
        Ok((node, opened))
    }

    fn touch_at_open(&mut self, index: usize) {
        self.inputs[index].touched = true;
        self.touched.push(index);
    }
}

/// What scope changes did to clocks that are stored.
#[derive(Default)]
struct Changed {
    carried: bool,
    advertised: BTreeSet<Channel>,
}

/// Compares the recorded scope with the declaration. The causal past that the node delivered or carried may be skipped, never dropped,
/// never re-entered. The order of the three parts is that of decision S9.
struct ScopeChange<'a> {
    facts: &'a OpenFacts,
    restored: &'a mut Restored,
    /// Keys that go.
    obsolete: Vec<Vec<u8>>,
    changed: Changed,
}

impl ScopeChange<'_> {
    /// Inputs that are no longer declared: their frontier and advertised clock are carried on.
    fn remove_inputs(&mut self, declared: &Scope) -> Result<(), NodeError> {
        let is_removed = |channel: &Channel| declared.channels.binary_search(channel).is_err();
        let removed: Vec<Channel> = self
            .restored
            .inputs
            .keys()
            .copied()
            .filter(is_removed)
            .collect();
        for channel in removed {
            let Some(input) = self.restored.inputs.remove(&channel) else {
                continue;
            };
            if let Some(head) = input.queue.head() {
                let found = format!(
                    "the input is no longer declared and still holds {} records",
                    input.queue.len()
                );
                return Err(Refusal::at(
                    RefusalCode::RemovedInputHeld,
                    channel,
                    head.offset,
                    found,
                )
                .into());
            }
            self.obsolete.extend(input.keys());
            let vouched = |claim: &crate::clock::SequenceClaim| {
                let known = input.delivered_sequences.get(&claim.sender)?;
                (claim.channel == channel && claim.sequence <= known.sequence)
                    .then_some(known.offset)
            };
            self.restored.carried.merge(&input.advertised);
            if let Some(frontier) = input.stored_frontier {
                self.restored.carried.claim_offset(channel, frontier);
            }
            self.restored.carried.resolve_sequences(vouched);
            self.changed.carried = true;
            for (&kept, other) in &mut self.restored.inputs {
                if other.advertised.resolve_sequences(vouched) {
                    self.changed.advertised.insert(kept);
                }
            }
        }
        Ok(())
    }

    /// Inputs that are declared anew: each is seeded with what the delivered past claims on it.
    fn add_inputs(&mut self, declared: &Scope, window: usize) -> Result<Opened, NodeError> {
        let mut past = self.restored.carried.clone();
        for input in self.restored.inputs.values() {
            past.merge(&input.advertised);
        }
        let mut opened = Opened::default();
        for &channel in &declared.channels {
            if self.restored.inputs.contains_key(&channel) {
                continue;
            }
            let mut input = Input::new(channel, window);
            if self.restored.scope.is_some() {
                let seed = self.seed(&mut input, &past)?;
                if let Some(seed) = seed {
                    let log_start = self.facts.log_starts.get(&channel).copied().unwrap_or(0);
                    let resume = seed.saturating_add(1).max(log_start);
                    opened.resume.insert(channel, resume);
                    input.raise_fed_up_to(seed);
                    input.raise_fed_up_to(resume - 1);
                    input.delivered = Some(seed);
                }
                opened.joined.push(Joined { channel, seed });
            }
            self.restored.inputs.insert(channel, input);
        }
        Ok(opened)
    }

    fn seed(&self, input: &mut Input, past: &Clock) -> Result<Option<Offset>, NodeError> {
        let channel = input.channel;
        if self.facts.gone.contains(&channel.topic) {
            return Ok(None);
        }
        let by_offset = past.offset(channel);
        let by_sequence = past.sequences_on(channel);
        if by_sequence.is_empty() {
            return Ok(by_offset);
        }
        let &end = self
            .facts
            .ends
            .get(&channel)
            .ok_or(NodeError::MissingEnd { channel })?;
        let seed = by_offset.max(end.checked_sub(1).filter(|&last| last >= 0));
        if let Some(offset) = seed {
            for claim in by_sequence {
                input.note_delivered(claim.sender, claim.sequence, offset);
            }
        }
        Ok(seed)
    }

    /// Sinks that are no longer declared: what was sent there is carried on as their end offsets.
    fn remove_sinks(&mut self, declared: &Scope) -> Result<(), NodeError> {
        let Some(recorded) = &self.restored.scope else {
            return Ok(());
        };
        for &topic in recorded
            .sinks
            .iter()
            .filter(|topic| declared.sinks.binary_search(topic).is_err())
        {
            if self.facts.gone.contains(&topic) {
                continue;
            }
            check_resolved(topic, self.facts, false)?;
            let partitions = topic.partition(0)..=topic.partition(i32::MAX);
            for (&channel, &end) in self.facts.ends.range(partitions) {
                if end > 0 {
                    self.changed.carried |= self.restored.carried.claim_offset(channel, end - 1);
                }
            }
        }
        Ok(())
    }
}

fn check_resolved(topic: TopicId, facts: &OpenFacts, is_declared: bool) -> Result<(), NodeError> {
    let gone = is_declared && facts.gone.contains(&topic);
    if gone || facts.unresolved.contains(&topic) {
        let what = if is_declared { "declared" } else { "removed" };
        let why = if gone { "is gone" } else { "does not resolve" };
        let found = format!("the {what} sink {why}");
        let refusal = Refusal {
            channel: Some(topic.partition(0)),
            ..Refusal::of_node(RefusalCode::MissingSink, found)
        };
        return Err(refusal.into());
    }
    Ok(())
}

/// Takes up the reported start position of one channel (decision D5).
fn take_start_position(
    input: &mut Input,
    facts: &OpenFacts,
    first_start: bool,
    joins: bool,
) -> Result<(), NodeError> {
    let channel = input.channel;
    let start = facts.start.get(&channel).copied();
    if let Some(found) = start.filter(|&start| start < 0) {
        return Err(NodeError::Negative {
            what: "start position",
            channel,
            found,
        });
    }
    let is_seeded = input.fed_up_to.is_some();
    let is_gone = facts.gone.contains(&channel.topic);
    if joins && (is_seeded || is_gone) {
        return Ok(());
    }
    if !first_start && !joins {
        let next = input.next_needed().unwrap_or(0);
        if let Some(start) = start.filter(|&start| start > next) {
            let found = format!(
                "the group's position is {start}, and the state was fed up to {next} exclusively"
            );
            return Err(Refusal::at(RefusalCode::PositionsAhead, channel, start, found).into());
        }
        input.resumes_at = Some(next);
    }
    if let Some(start) = start {
        input.raise_fed_up_to(start - 1);
        input.resumes_at = Some(start);
    }
    Ok(())
}
