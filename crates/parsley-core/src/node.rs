//! The node: the protocol as one state machine (`docs/protocol.md`).
//!
//! A host feeds it records and position advances, pulls deliveries one at a time, stamps what the logic emits, and commits. The node does
//! no I/O: the store is an argument, read in [`Node::next_delivery`] and written in [`Node::open`] and [`Node::commit`] alone. An abort is
//! to drop the node and what was staged in the store, and to open again from the committed state.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::channel::{Channel, Offset, ReceivedChannels, SenderId, TopicId};
use crate::clock::Clock;
use crate::decide::{self, Causes, Met, Settled, Verdict};
use crate::drain::Drain;
use crate::input::{Input, View, write_clock};
use crate::layout::{HeldRecord, StateKey, in_order};
use crate::record::{Header, Record};
use crate::refusal::{Refusal, RefusalCode};
use crate::stamp::{KeptStamp, OwnSends};
use crate::store::{StateStore, StoreError};
use crate::watermark::Execution;
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
    /// Whether it outlived the drain that followed its receipt, or the step, where that ended within the drain.
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
    pub(crate) stamp: KeptStamp,
    /// Topics found gone in this execution.
    pub(crate) gone: BTreeSet<TopicId>,
    pub(crate) drain: Drain,
    /// Inputs with something to write.
    pub(crate) touched: Vec<usize>,
    /// Inputs with received records that have no index yet.
    fresh: Vec<usize>,
    /// The input fed last. What a host fetched comes channel by channel.
    fed_last: usize,
    /// The longest clock received or stamped, in bytes.
    pub(crate) widest_clock_bytes: usize,
    pub(crate) execution: Execution,
    /// How many marks were taken.
    pub(crate) marks: u64,
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
            fed_last: 0,
            inputs,
            own,
            carried,
            carried_changed: false,
            stamp: KeptStamp::default(),
            gone,
            widest_clock_bytes: 0,
            execution: Execution::default(),
            marks: 0,
            ended: None,
        };
        node.join_terms();
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
        let Some(index) = self.index_of_fed(channel) else {
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
            input.head_met = Met::default();
            self.drain.head_changed(index, true);
        }
        if self.fresh.last() != Some(&index) {
            self.fresh.push(index);
        }
        self.settled_moved(index);
        Ok(Receipt::Accepted)
    }

    fn index_of_fed(&mut self, channel: Channel) -> Option<usize> {
        let last = self.received.as_slice().get(self.fed_last);
        if last != Some(&channel) {
            self.fed_last = self.received.index_of(channel)?;
        }
        Some(self.fed_last)
    }

    fn read_protocol(&self, mut record: Record) -> Result<HeldRecord, (RefusalCode, String)> {
        let protocol = ProtocolHeaders::take(&mut record.headers)
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
        Ok(HeldRecord {
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            sender: protocol.sender,
            clock,
            key: record.key,
            value: record.value,
            headers: record.headers,
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
            match decide::decide_from(causes, &self.received, &view, input.head_met) {
                Verdict::Deliverable => return self.deliver(index, store),
                Verdict::Blocked(blocked) => {
                    self.drain.blocked(index, &blocked);
                    self.inputs[index].head_met = blocked.met();
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
            Ok(Some(taken)) => taken,
            Ok(None) => unreachable!("the head was there to be decided"),
            Err(error) => return self.end(error),
        };
        let (record, was_held) = (taken.record, taken.was_held);
        let input = &mut self.inputs[index];
        self.stamp.delivered(input, &record);
        input.head_met = Met::default();
        let has_head = !input.queue.is_empty();
        self.drain.head_changed(index, has_head);
        if let Some((sender, sequence)) = record.sender {
            let input = &mut self.inputs[index];
            if input.note_delivered(sender, sequence, record.offset) {
                self.stamp.mark_moved(input.channel, sender);
                self.drain.sequence_delivered(index, sender, sequence);
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
        self.acknowledge(acknowledged)?;
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

    /// How far each received channel is settled, in channel order: everything up to there is delivered, or will never come.
    pub fn settled(&self) -> Vec<(Channel, Settled)> {
        let settled = |input: &Input| (input.channel, input.settled());
        self.inputs.iter().map(settled).collect()
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

    /// Something moved `fed_up_to` or the head of an input. A delivery frees what evidence meets as well, by leaving the queue: so whoever waits by
    /// sequence is looked at again, whether the evidence has changed or not.
    pub(crate) fn settled_moved(&mut self, index: usize) {
        self.touch(index);
        let input = &mut self.inputs[index];
        if !input.evidence.is_empty() {
            input.evidence.prune(input.fed_up_to);
            self.drain.evidence_changed(index);
        }
        self.drain.settled(index, input.settled());
    }

    pub(crate) fn touch(&mut self, index: usize) {
        let input = &mut self.inputs[index];
        if !input.touched {
            input.touched = true;
            self.touched.push(index);
        }
    }

    pub(crate) fn running(&self) -> Result<(), NodeError> {
        match &self.ended {
            None => Ok(()),
            Some(Ended::Refused(refusal)) => Err(refusal.clone().into()),
            Some(Ended::Failed) => Err(NodeError::Ended),
        }
    }

    pub(crate) fn refuse<T>(&mut self, refusal: Refusal) -> Result<T, NodeError> {
        self.end(NodeError::Refused(refusal))
    }

    pub(crate) fn end<T>(&mut self, error: NodeError) -> Result<T, NodeError> {
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

#[cfg(test)]
mod tests;
