//! The node: the protocol as one state machine (`docs/protocol.md`).
//!
//! A host feeds it records and position advances, pulls deliveries one at a time, stamps what the logic emits, and commits. The node does
//! no I/O: the store is an argument, read in [`Node::next_delivery`] and written in [`Node::open`] and [`Node::commit`] alone. An abort is
//! to drop the node and what was staged in the store, and to open again from the committed state.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::channel::{Channel, Offset, ReceivedChannels, SenderId, TopicId};
use crate::clock::{Claim, Clock, OffsetClaim};
use crate::decide::{self, Causes, Settled, SettledView, Verdict};
use crate::drain::Drain;
use crate::hold::{Hold, HoldCode, Wait};
use crate::input::{Input, write_clock};
use crate::layout::{HeldRecord, StateKey, in_order};
use crate::record::{Header, Record};
use crate::refusal::{Refusal, RefusalCode};
use crate::stamp::{self, OwnSends, Stamp};
use crate::store::{StateStore, StoreError};
use crate::watermark::{Execution, Mark};
use crate::wire::{self, ClockRef, CorruptHeaders, ProtocolHeaders};

/// A sink topic and how many partitions it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sink {
    /// The topic.
    pub topic: TopicId,
    /// Its partition count, `>= 0`.
    pub partitions: i32,
}

/// Bounds of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// The metadata budget in bytes: the longest clock received or sent (G13). Default 256 KiB.
    pub clock_budget_bytes: usize,
    /// How many held records per channel stay in memory, at least 1. Default 256.
    pub window_records: usize,
}

impl NodeLimits {
    /// From this width on, 80 % of the metadata budget, a host warns of clocks that near it.
    pub fn clock_warning_bytes(&self) -> usize {
        self.clock_budget_bytes - self.clock_budget_bytes / 5
    }
}

impl Default for NodeLimits {
    fn default() -> Self {
        Self {
            clock_budget_bytes: 256 * 1024,
            window_records: 256,
        }
    }
}

/// What a node is declared to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Its identity as a sender; see [`SenderId::of_task`].
    pub sender: SenderId,
    /// The channels it receives.
    pub inputs: Vec<Channel>,
    /// The topics it sends to.
    pub sinks: Vec<Sink>,
    /// Its bounds.
    pub limits: NodeLimits,
}

/// Whether a record was taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// It is in the buffer now.
    Accepted,
    /// It had been fed before: it is in the buffer, or it was delivered in a committed step.
    Dropped,
}

/// A record that is delivered: hand it to the logic now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its channel.
    pub channel: Channel,
    /// Its position.
    pub offset: Offset,
    /// Its timestamp in milliseconds since the Unix epoch, as it came.
    pub timestamp_ms: i64,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Option<Bytes>,
    /// Its application headers.
    pub headers: Vec<Header>,
    /// Who sent it, with which send sequence, if it says so.
    pub sender: Option<(SenderId, i64)>,
    /// Its clock's bytes, entries in order; the empty clock when it carried none.
    pub clock: Bytes,
    /// Whether it was still held after the drain that followed its receipt.
    pub was_held: bool,
}

/// Why an operation on a node failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// A guard stopped the node. Every later call returns the same refusal.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The state store failed. The step cannot be committed; open again.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The execution ended with an earlier error; open again.
    #[error(
        "this execution has ended with an earlier error; open the node again from its committed state"
    )]
    Ended,
    /// The end offset of a joining channel is needed and the host did not give it.
    #[error(
        "the delivered past names {channel} by sequence, so its end offset is needed to join it"
    )]
    MissingEnd {
        /// The channel.
        channel: Channel,
    },
    /// A send to a partition that the declared sink does not have.
    #[error("the sink has no partition {channel}")]
    UnknownPartition {
        /// The channel.
        channel: Channel,
    },
    /// An acknowledgement for a channel that is not one of a declared sink.
    #[error("{channel} was acknowledged but is not a partition of a declared sink")]
    NotASinkChannel {
        /// The channel.
        channel: Channel,
    },
    /// A number that is never negative.
    #[error("negative {what} {found} for {channel}")]
    Negative {
        /// Which number.
        what: &'static str,
        /// The channel.
        channel: Channel,
        /// Its value.
        found: i64,
    },
}

/// How an execution ended early.
#[derive(Clone, Debug)]
enum Ended {
    Refused(Refusal),
    Failed,
}

/// One node: a task of a stage, as the protocol sees it.
#[derive(Debug)]
pub struct Node {
    pub(crate) limits: NodeLimits,
    pub(crate) sender: SenderId,
    pub(crate) received: ReceivedChannels,
    pub(crate) inputs: Vec<Input>,
    pub(crate) own: OwnSends,
    /// The carried term.
    pub(crate) carried: Clock,
    pub(crate) carried_changed: bool,
    /// The join of the carried term and every advertised one.
    pub(crate) past: Clock,
    /// Topics found gone in this execution.
    pub(crate) gone: BTreeSet<TopicId>,
    pub(crate) drain: Drain,
    /// Inputs with something to write.
    pub(crate) touched: Vec<usize>,
    /// Inputs with received records that have no index yet.
    fresh: Vec<usize>,
    /// The longest clock received or stamped, in bytes.
    widest_clock_bytes: usize,
    execution: Execution,
    marks: std::cell::Cell<u64>,
    stamp: Clock,
    ended: Option<Ended>,
}

impl Node {
    /// A node in memory, as `open` has put it together.
    pub(crate) fn assemble(
        config: &NodeConfig,
        inputs: Vec<Input>,
        own: OwnSends,
        carried: Clock,
        gone: BTreeSet<TopicId>,
    ) -> Self {
        let mut node = Self {
            limits: config.limits,
            sender: config.sender,
            received: ReceivedChannels::new(inputs.iter().map(|input| input.channel)),
            drain: Drain::new(inputs.len()),
            touched: Vec::new(),
            fresh: Vec::new(),
            inputs,
            own,
            carried,
            carried_changed: false,
            past: Clock::new(),
            gone,
            widest_clock_bytes: 0,
            execution: Execution::default(),
            marks: std::cell::Cell::new(0),
            stamp: Clock::new(),
            ended: None,
        };
        node.join_past();
        for index in 0..node.inputs.len() {
            node.touch(index);
            node.drain
                .head_changed(index, !node.inputs[index].queue.is_empty());
        }
        node
    }

    /// The channels received, in channel order.
    pub fn received(&self) -> &ReceivedChannels {
        &self.received
    }

    /// The identity that this node stamps.
    pub fn sender(&self) -> SenderId {
        self.sender
    }

    /// Takes up a record that the host fetched. Ask for deliveries after it.
    ///
    /// # Errors
    ///
    /// Refuses with G3, G4, G2, G13 or G1, in this order (decision D1).
    pub fn receive(&mut self, record: Record) -> Result<Receipt, NodeError> {
        self.running()?;
        let (channel, offset) = (record.channel, record.offset);
        if offset < 0 {
            return Err(NodeError::Negative {
                what: "record offset",
                channel,
                found: offset,
            });
        }
        let Some(index) = self.received.index_of(channel) else {
            return self.refuse(Refusal::at(
                RefusalCode::UnconsumedChannel,
                channel,
                offset,
                "a record of a channel that is not declared as an input",
            ));
        };
        let input = &self.inputs[index];
        if input.gone || input.is_out_of_order(offset) {
            let found = if input.gone {
                "a record of a topic that was found gone".to_owned()
            } else {
                format!(
                    "fed after {:?}, with the position at {:?}",
                    input.last_fed, input.advanced_to
                )
            };
            return self.refuse(Refusal::at(
                RefusalCode::OutOfOrderFeed,
                channel,
                offset,
                found,
            ));
        }
        let held = match self.read_protocol(record) {
            Ok(held) => held,
            Err((code, found)) => return self.refuse(Refusal::at(code, channel, offset, found)),
        };
        self.widest_clock_bytes = self.widest_clock_bytes.max(held.clock.len());
        self.drain.restart();
        let input = &mut self.inputs[index];
        input.last_fed = Some(offset);
        if input.fed_up_to.is_some_and(|fed| offset <= fed) {
            return Ok(Receipt::Dropped);
        }
        input.raise_fed_up_to(offset);
        let is_head = input.queue.is_empty();
        input.queue.push(held);
        if is_head {
            input.head_met_offsets = 0;
            self.drain.head_changed(index, true);
        }
        if self.fresh.last() != Some(&index) {
            self.fresh.push(index);
        }
        self.settled_moved(index);
        Ok(Receipt::Accepted)
    }

    fn read_protocol(&self, record: Record) -> Result<HeldRecord, (RefusalCode, String)> {
        let protocol = ProtocolHeaders::read(&record.headers)
            .map_err(|why| (header_code(&why), why.to_string()))?;
        let clock = match protocol.clock {
            None => Bytes::from_static(&wire::EMPTY_CLOCK),
            Some(bytes) => {
                let budget = self.limits.clock_budget_bytes;
                if bytes.len() > budget {
                    let found = format!(
                        "a clock of {} bytes, the budget is {budget} bytes",
                        bytes.len()
                    );
                    return Err((RefusalCode::ClockTooWide, found));
                }
                in_order(bytes).map_err(|why| (RefusalCode::CorruptClock, why.to_string()))?
            }
        };
        let mut headers = record.headers;
        headers.retain(|header| !wire::is_reserved(&header.name));
        Ok(HeldRecord {
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            sender: protocol.sender,
            clock,
            key: record.key,
            value: record.value,
            headers,
        })
    }

    /// The host's own fetch position on a channel is `next` now: everything below it was fed, or will never arrive. Ask for deliveries
    /// after it.
    ///
    /// # Errors
    ///
    /// Refuses with G3.
    pub fn advance(&mut self, channel: Channel, next: Offset) -> Result<(), NodeError> {
        self.running()?;
        if next < 0 {
            return Err(NodeError::Negative {
                what: "position",
                channel,
                found: next,
            });
        }
        let Some(index) = self.received.index_of(channel) else {
            return self.refuse(Refusal::on(
                RefusalCode::UnconsumedChannel,
                channel,
                "a position advance on a channel that is not declared as an input",
            ));
        };
        self.drain.restart();
        let input = &mut self.inputs[index];
        if input.gone {
            return Ok(());
        }
        input.advanced_to = input.advanced_to.max(Some(next));
        input.raise_fed_up_to(next - 1);
        self.settled_moved(index);
        Ok(())
    }

    /// The next record to deliver; `None` when nothing more is deliverable. Run the logic for it, and [`Node::prepare_send`] what it
    /// emits, before asking again: a stamp covers what was delivered up to its delivery and no more.
    ///
    /// # Errors
    ///
    /// When the store fails, or what it holds is corrupt (G7).
    pub fn next_delivery(
        &mut self,
        store: &(impl StateStore + ?Sized),
    ) -> Result<Option<Delivery>, NodeError> {
        self.running()?;
        while let Some(index) = self.drain.next_candidate() {
            let input = &self.inputs[index];
            let Some(head) = input.queue.head() else {
                self.drain.head_changed(index, false);
                continue;
            };
            let Some(clock) = ClockRef::of_checked(&head.clock) else {
                unreachable!("clocks are checked before they enter a queue");
            };
            let view = View {
                inputs: &self.inputs,
                on: index,
                offset: head.offset,
            };
            let causes = Causes::of(&clock, input.channel);
            match decide::decide_from(causes, &self.received, &view, input.head_met_offsets) {
                Verdict::Deliverable => return self.deliver(index, store),
                Verdict::Blocked(blocked) => {
                    self.drain.blocked(index, &blocked);
                    self.inputs[index].head_met_offsets = blocked.met_offsets;
                }
            }
        }
        for index in self.fresh.drain(..) {
            self.inputs[index].queue.settle_indices();
        }
        Ok(None)
    }

    fn deliver(
        &mut self,
        index: usize,
        store: &(impl StateStore + ?Sized),
    ) -> Result<Option<Delivery>, NodeError> {
        let taken = match self.inputs[index].queue.pop(store) {
            Ok(taken) => taken,
            Err(error) => return self.end(error),
        };
        let Some(taken) = taken else { return Ok(None) };
        let (record, was_held) = (taken.record, taken.was_held);
        if let Some(clock) = ClockRef::of_checked(&record.clock) {
            let input = &mut self.inputs[index];
            if input.advertised.merge(&clock) {
                input.advertised_changed = true;
                self.past.merge(&clock);
            }
        }
        let input = &mut self.inputs[index];
        input.delivered = Some(record.offset);
        input.head_met_offsets = 0;
        let has_head = !input.queue.is_empty();
        let evidence = !input.evidence.is_empty();
        self.drain.head_changed(index, has_head);
        if let Some((sender, sequence)) = record.sender {
            if self.inputs[index].note_delivered(sender, sequence, record.offset) {
                self.drain.sequence_delivered(index, sender, sequence);
            }
            if evidence {
                self.drain.sender_evidence_changed(index, sender);
            }
        }
        self.settled_moved(index);
        Ok(Some(Delivery {
            channel: self.inputs[index].channel,
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key,
            value: record.value,
            headers: record.headers,
            sender: record.sender,
            clock: record.clock,
            was_held,
        }))
    }

    /// Stamps one send to a sink's channel: the one place where stamps are made. Call it after the partition is chosen.
    ///
    /// # Errors
    ///
    /// Refuses with G5, or with G13 when the clock exceeds the budget.
    pub fn prepare_send(&mut self, channel: Channel) -> Result<Stamp, NodeError> {
        self.running()?;
        if !self.own.declares(channel.topic) {
            return self.refuse(Refusal::on(
                RefusalCode::UndeclaredSink,
                channel,
                "a send to a topic that is not declared as a sink",
            ));
        }
        let Some(sequence) = self.own.issue(channel) else {
            return Err(NodeError::UnknownPartition { channel });
        };
        let mut stamp = std::mem::take(&mut self.stamp);
        self.compute_stamp(&mut stamp);
        let clock = wire::encode(&stamp);
        self.stamp = stamp;
        if clock.len() > self.limits.clock_budget_bytes {
            let budget = self.limits.clock_budget_bytes;
            let found = format!(
                "the stamp takes {} bytes, the budget is {budget} bytes",
                clock.len()
            );
            return self.refuse(Refusal::on(RefusalCode::ClockTooWide, channel, found));
        }
        self.widest_clock_bytes = self.widest_clock_bytes.max(clock.len());
        Ok(Stamp {
            channel,
            sender: self.sender,
            sequence,
            clock: clock.into(),
        })
    }

    fn compute_stamp(&self, stamp: &mut Clock) {
        let delivered = self.inputs.iter().filter_map(|input| {
            input.delivered.map(|offset| OffsetClaim {
                channel: input.channel,
                offset,
            })
        });
        let vouched = |channel, sender, sequence| {
            let input = &self.inputs[self.received.index_of(channel)?];
            let known = input.delivered_sequences.get(&sender)?;
            (sequence <= known.sequence).then_some(known.offset)
        };
        stamp::compute(stamp, &self.past, delivered, &self.own, vouched, |topic| {
            self.gone.contains(&topic)
        });
    }

    /// Every send so far is acknowledged; `acknowledged` gives the offset of the last one per channel, where the broker told it.
    ///
    /// # Errors
    ///
    /// When a channel is not one of a declared sink, or an offset is negative.
    pub fn fence(&mut self, acknowledged: &[(Channel, Offset)]) -> Result<(), NodeError> {
        self.running()?;
        self.own.fence(acknowledged)
    }

    /// Ends the step: implies a fence, writes the step's state to the store, and returns the positions that moved since the last commit,
    /// for the host to commit with the state. The host makes store, positions and sends durable together, or drops the node.
    ///
    /// # Errors
    ///
    /// When the store fails; then nothing of the step may be kept.
    pub fn commit(
        &mut self,
        acknowledged: &[(Channel, Offset)],
        store: &mut (impl StateStore + ?Sized),
    ) -> Result<Vec<(Channel, Offset)>, NodeError> {
        self.running()?;
        self.own.fence(acknowledged)?;
        self.drain.restart();
        self.fresh.clear();
        match self.write(store) {
            Ok(positions) => Ok(positions),
            Err(error) => self.end(error),
        }
    }

    pub(crate) fn write(
        &mut self,
        store: &mut (impl StateStore + ?Sized),
    ) -> Result<Vec<(Channel, Offset)>, NodeError> {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        let mut positions = Vec::new();
        for &index in &touched {
            let input = &mut self.inputs[index];
            input.touched = false;
            input.write(store)?;
            let position = input.position_to_commit();
            if let Some(next) = position
                && position != input.committed_position
            {
                input.committed_position = position;
                positions.push((input.channel, next));
            }
        }
        touched.clear();
        self.touched = touched;
        if std::mem::take(&mut self.carried_changed) {
            write_clock(store, StateKey::Carried, &self.carried)?;
        }
        self.own.write(store)?;
        Ok(positions)
    }

    /// Per received channel, the position that belongs to the node's present state.
    pub fn resume_positions(&self) -> Vec<(Channel, Offset)> {
        self.inputs
            .iter()
            .filter_map(|input| Some((input.channel, input.position_to_commit()?)))
            .collect()
    }

    /// Takes the mark that the next high watermarks speak for. Take it at a step boundary, ask the broker after it, and hand the answer in
    /// whenever it comes.
    pub fn mark(&self) -> Mark {
        let mut known: BTreeMap<(Channel, SenderId), i64> = BTreeMap::new();
        let mut note = |channel, sender, sequence| {
            let highest = known.entry((channel, sender)).or_insert(sequence);
            *highest = sequence.max(*highest);
        };
        for claim in self.past.sequences() {
            note(claim.channel, claim.sender, claim.sequence);
        }
        for input in &self.inputs {
            input.queue.visit_claims(&mut note);
        }
        let ordinal = self.marks.get() + 1;
        self.marks.set(ordinal);
        Mark {
            execution: self.execution.clone(),
            ordinal,
            fed: self.inputs.iter().map(|input| input.fed_up_to).collect(),
            known,
            acknowledged: self.own.acknowledged(),
        }
    }

    /// Takes up high watermarks that were asked for after `mark`, at a step boundary. A mark of another execution says nothing. Ask for
    /// deliveries after it.
    ///
    /// # Errors
    ///
    /// When a watermark is negative.
    pub fn watermarks(
        &mut self,
        mark: &Mark,
        watermarks: &BTreeMap<Channel, Offset>,
    ) -> Result<(), NodeError> {
        self.running()?;
        if let Some((&channel, &found)) = watermarks.iter().find(|&(_, &watermark)| watermark < 0) {
            return Err(NodeError::Negative {
                what: "high watermark",
                channel,
                found,
            });
        }
        if mark.execution != self.execution {
            return Ok(());
        }
        self.drain.restart();
        // One of 0 says that nothing was ever appended, and vouches for nothing (decision D16).
        for (&channel, &watermark) in watermarks.iter().filter(|&(_, &watermark)| watermark > 0) {
            let acknowledged = mark.acknowledged.get(&channel).copied();
            self.own.watermark(channel, watermark, acknowledged);
            if let Some(index) = self.received.index_of(channel) {
                let input = &mut self.inputs[index];
                input.evidence.add(mark, watermark);
                input.evidence.prune(input.fed_up_to);
                self.drain.evidence_changed(index);
            }
        }
        let resolve = |claim: &crate::clock::SequenceClaim| {
            let watermark = watermarks
                .get(&claim.channel)
                .filter(|&&watermark| watermark > 0)?;
            let known = mark.known.get(&(claim.channel, claim.sender))?;
            (claim.sequence <= *known).then_some(watermark - 1)
        };
        // Each clock is judged by itself: one may hold a claim known at the mark below a later one of another.
        let claimed = self
            .past
            .sequences()
            .iter()
            .any(|claim| watermarks.contains_key(&claim.channel));
        if claimed {
            self.rewrite_past(|clock| clock.resolve_sequences(resolve));
        }
        Ok(())
    }

    /// How many sequence claims the next stamp may hold: a host asks for high watermarks when they are many.
    pub fn sequence_claims(&self) -> usize {
        self.past.sequences().len() + self.own.claimed_by_sequence().count()
    }

    /// The channels that the next stamp may claim by sequence: those whose high watermarks turn such claims into offsets.
    pub fn channels_claimed_by_sequence(&self) -> BTreeSet<Channel> {
        let past = self.past.sequences().iter().map(|claim| claim.channel);
        past.chain(self.own.claimed_by_sequence()).collect()
    }

    /// The channels whose high watermarks may release a head: those that a head, blocked by sequence claims alone, waits for.
    pub fn channels_waited_for_by_sequence(&self) -> BTreeSet<Channel> {
        let mut channels = BTreeSet::new();
        for hold in self.holds() {
            if hold
                .waits
                .iter()
                .all(|wait| matches!(wait, Wait::Sequence { .. }))
            {
                channels.extend(hold.waits.iter().map(Wait::channel));
            }
        }
        channels
    }

    /// Judges log starts and deletions that the host has learned: G10, then G9, each in channel order (decision D6). A received topic
    /// found gone with nothing held is settled to its end. Ask for deliveries after it.
    ///
    /// # Errors
    ///
    /// Refuses with G10 or G9.
    pub fn check(
        &mut self,
        log_starts: &BTreeMap<Channel, Offset>,
        gone: &BTreeSet<TopicId>,
    ) -> Result<(), NodeError> {
        self.running()?;
        self.drain.restart();
        let log_starts = self
            .inputs
            .iter()
            .filter(|input| !input.gone && !gone.contains(&input.channel.topic))
            .try_for_each(|input| {
                let log_start = log_starts.get(&input.channel);
                log_start.map_or(Ok(()), |&log_start| {
                    input.check_log_start(input.next_needed(), log_start)
                })
            });
        match log_starts.and_then(|()| self.settle_gone(gone)) {
            Ok(()) => Ok(()),
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// G9, and the end of what is gone.
    pub(crate) fn settle_gone(&mut self, gone: &BTreeSet<TopicId>) -> Result<(), Refusal> {
        for index in 0..self.inputs.len() {
            let input = &mut self.inputs[index];
            if input.gone || !gone.contains(&input.channel.topic) {
                continue;
            }
            if let Some(head) = input.queue.head() {
                let found = format!(
                    "the topic is gone while {} of its records are held",
                    input.queue.len()
                );
                return Err(Refusal::at(
                    RefusalCode::DeletedInputHeld,
                    input.channel,
                    head.offset,
                    found,
                ));
            }
            input.gone = true;
            self.settled_moved(index);
        }
        self.gone.extend(gone);
        Ok(())
    }

    /// Drops claims from the carried and advertised terms: offset claims below a bound, and every claim on topics gone for good. The one
    /// sound source of a bound is a log start learned a truncation delay ago.
    ///
    /// # Errors
    ///
    /// When the execution has ended.
    pub fn truncate(
        &mut self,
        drop_below: &BTreeMap<Channel, Offset>,
        drop_gone: &BTreeSet<TopicId>,
    ) -> Result<(), NodeError> {
        self.running()?;
        self.drain.restart();
        self.gone.extend(drop_gone);
        self.rewrite_past(|clock| {
            let mut changed = false;
            for (&channel, &bound) in drop_below {
                changed |= clock.truncate_below(channel, bound);
            }
            for &topic in drop_gone {
                changed |= clock.drop_topic(topic);
            }
            changed
        });
        Ok(())
    }

    /// The channels that the stamp-side clocks name, in channel order: those whose log starts are of use to a truncation.
    pub fn stamp_channels(&self) -> Vec<Channel> {
        let offsets = self.past.offsets().iter().map(|claim| claim.channel);
        let sequences = self.past.sequences().iter().map(|claim| claim.channel);
        let channels: BTreeSet<Channel> = offsets.chain(sequences).collect();
        channels.into_iter().collect()
    }

    /// The longest clock that this execution received or stamped, in bytes. A host warns when it comes to
    /// [`NodeLimits::clock_warning_bytes`]: beyond the budget the node refuses (G13).
    pub fn widest_clock_bytes(&self) -> usize {
        self.widest_clock_bytes
    }

    /// Whether a clock of this execution came near the metadata budget.
    pub fn clock_nears_budget(&self) -> bool {
        self.widest_clock_bytes >= self.limits.clock_warning_bytes()
    }

    /// How many records are held.
    pub fn held(&self) -> u64 {
        self.inputs.iter().map(|input| input.queue.len()).sum()
    }

    /// What is held, channels in order, with every claim that each head waits for.
    pub fn holds(&self) -> Vec<Hold> {
        let held = self.inputs.iter().enumerate();
        held.filter_map(|(index, input)| {
            let head = input.queue.head()?;
            let clock = ClockRef::of_checked(&head.clock)?;
            let view = View {
                inputs: &self.inputs,
                on: index,
                offset: head.offset,
            };
            let unmet = decide::unmet(Causes::of(&clock, input.channel), &self.received, &view);
            let waits = unmet
                .into_iter()
                .map(|(on, claim)| self.wait(on, claim))
                .collect();
            Some(Hold {
                channel: input.channel,
                offset: head.offset,
                behind: input.queue.len() - 1,
                waits,
            })
        })
        .collect()
    }

    fn wait(&self, on: usize, claim: Claim) -> Wait {
        let input = &self.inputs[on];
        match claim {
            Claim::Offset(claim) => {
                let was_fed = input.fed_up_to.is_some_and(|fed| claim.offset <= fed);
                let code = if was_fed {
                    HoldCode::HeldUpstream
                } else {
                    HoldCode::NotFetched
                };
                Wait::Offset {
                    claim,
                    settled: input.frontier(),
                    code,
                }
            }
            Claim::Sequence(claim) => {
                let delivered = input
                    .delivered_sequences
                    .get(&claim.sender)
                    .map(|known| known.sequence);
                let code = if delivered.is_some() {
                    HoldCode::SenderBehind
                } else {
                    HoldCode::SenderUnseen
                };
                Wait::Sequence {
                    claim,
                    delivered,
                    code,
                }
            }
        }
    }

    /// Something moved `fed_up_to` or the head of an input.
    fn settled_moved(&mut self, index: usize) {
        self.touch(index);
        let input = &mut self.inputs[index];
        if !input.evidence.is_empty() {
            input.evidence.prune(input.fed_up_to);
            self.drain.evidence_changed(index);
        }
        self.drain.settled(index, input.settled());
    }

    fn touch(&mut self, index: usize) {
        let input = &mut self.inputs[index];
        if !input.touched {
            input.touched = true;
            self.touched.push(index);
        }
    }

    /// Changes the carried and every advertised clock alike.
    fn rewrite_past(&mut self, mut rewrite: impl FnMut(&mut Clock) -> bool) {
        let mut changed = rewrite(&mut self.carried);
        self.carried_changed |= changed;
        for index in 0..self.inputs.len() {
            if rewrite(&mut self.inputs[index].advertised) {
                self.inputs[index].advertised_changed = true;
                self.touch(index);
                changed = true;
            }
        }
        if changed {
            self.join_past();
        }
    }

    fn join_past(&mut self) {
        self.past.clear();
        self.past.merge(&self.carried);
        for input in &self.inputs {
            self.past.merge(&input.advertised);
        }
    }

    fn running(&self) -> Result<(), NodeError> {
        match &self.ended {
            None => Ok(()),
            Some(Ended::Refused(refusal)) => Err(refusal.clone().into()),
            Some(Ended::Failed) => Err(NodeError::Ended),
        }
    }

    fn refuse<T>(&mut self, refusal: Refusal) -> Result<T, NodeError> {
        self.end(NodeError::Refused(refusal))
    }

    fn end<T>(&mut self, error: NodeError) -> Result<T, NodeError> {
        self.ended = Some(match &error {
            NodeError::Refused(refusal) => Ended::Refused(refusal.clone()),
            _ => Ended::Failed,
        });
        Err(error)
    }
}

fn header_code(why: &CorruptHeaders) -> RefusalCode {
    match why {
        CorruptHeaders::Clock(_) => RefusalCode::CorruptClock,
        _ => RefusalCode::CorruptSender,
    }
}

impl Wait {
    /// The channel that is waited for.
    pub fn channel(&self) -> Channel {
        match self {
            Self::Offset { claim, .. } => claim.channel,
            Self::Sequence { claim, .. } => claim.channel,
        }
    }
}

/// What the decision sees of the node, for the record at `offset` of the received channel `on`.
struct View<'a> {
    inputs: &'a [Input],
    on: usize,
    offset: Offset,
}

impl SettledView for View<'_> {
    fn settled(&self, channel: usize) -> Settled {
        self.inputs[channel].settled()
    }

    fn delivered_sequence(&self, channel: usize, sender: SenderId) -> Option<i64> {
        self.inputs[channel]
            .delivered_sequences
            .get(&sender)
            .map(|known| known.sequence)
    }

    fn fed_up_to(&self, channel: usize) -> Option<Offset> {
        self.inputs[channel].fed_up_to
    }

    fn watermark(&self, channel: usize) -> Option<Offset> {
        self.inputs[channel]
            .evidence
            .lowest_after_receipt(self.on, self.offset)
    }

    fn lowest_held_sequence(&self, channel: usize, sender: SenderId) -> Option<i64> {
        self.inputs[channel].queue.lowest_sequence(sender)
    }
}

#[cfg(test)]
mod tests;
