//! The stamp (`docs/protocol.md`, The stamp): what a send claims, and the node's own sends.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::channel::{Channel, Offset, SenderId, TopicId};
use crate::clock::{Clock, OffsetClaim};
use crate::layout::{StateKey, number_to_bytes};
use crate::node::{Node, NodeError, Sink};
use crate::record::Header;
use crate::refusal::{Refusal, RefusalCode};
use crate::store::StateStore;
use crate::wire;

/// The protocol's part of one send: its sequence number and its clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Where the record is to be appended.
    pub channel: Channel,
    /// The sending node.
    pub sender: SenderId,
    /// The send sequence on this channel, from 0.
    pub sequence: i64,
    /// The clock's bytes.
    pub clock: Bytes,
}

impl Stamp {
    /// The three headers to send with the record.
    pub fn headers(self) -> [Header; 3] {
        wire::stamp_headers(self.clock, self.sender, self.sequence)
    }
}

/// What this node knows of its own sends to one sink channel.
#[derive(Clone, Debug, Default)]
struct SinkChannel {
    /// The last sequence issued.
    issued: Option<i64>,
    /// The last sequence acknowledged.
    acknowledged: Option<i64>,
    /// `sq/<channel>` as it stands in the store.
    stored: Option<i64>,
    /// The own term by offset: a high watermark minus one, or where an acknowledged send stands.
    offset: Option<Offset>,
    /// Own sends at or below this sequence lie at or below `offset`.
    covered: Option<i64>,
    /// The own term by sequence: the last acknowledged send that `offset` does not cover.
    claimed: Option<i64>,
}

impl SinkChannel {
    /// Own sends up to `sequence` lie at or below `offset`.
    fn cover(&mut self, offset: Offset, sequence: Option<i64>) {
        self.offset = self.offset.max(Some(offset));
        self.covered = self.covered.max(sequence);
        if self.claimed <= self.covered {
            self.claimed = None;
        }
    }
}

/// The own term, and the sequence numbers. It knows of a sink's partitions no more than how many there are until something is sent or
/// read there, so a stamp costs what it claims.
#[derive(Clone, Debug)]
pub(crate) struct OwnSends {
    sender: SenderId,
    /// The declared sinks and their partition counts.
    sinks: BTreeMap<TopicId, i32>,
    /// The channels with sends or an end offset.
    channels: BTreeMap<Channel, SinkChannel>,
    /// Channels with sends since the last fence.
    unacknowledged: BTreeSet<Channel>,
    /// Channels whose sequence number is not written yet.
    unwritten: BTreeSet<Channel>,
}

impl OwnSends {
    /// The own term at the start of an execution: `stored` has the last sequence of every channel that was ever sent to, `ends` the high
    /// watermarks as they were read.
    pub fn open(
        sender: SenderId,
        sinks: &[Sink],
        stored: &BTreeMap<Channel, i64>,
        ends: &BTreeMap<Channel, Offset>,
    ) -> Self {
        let mut own = Self {
            sender,
            sinks: sinks
                .iter()
                .map(|sink| (sink.topic, sink.partitions))
                .collect(),
            channels: BTreeMap::new(),
            unacknowledged: BTreeSet::new(),
            unwritten: BTreeSet::new(),
        };
        for (&channel, &sequence) in stored {
            if own.has_channel(channel) {
                let last = Some(sequence);
                let sent = SinkChannel {
                    issued: last,
                    acknowledged: last,
                    stored: last,
                    ..SinkChannel::default()
                };
                own.channels.insert(channel, sent);
            }
        }
        for (&channel, &end) in ends {
            if own.has_channel(channel) && end > 0 {
                let sink = own.channels.entry(channel).or_default();
                sink.cover(end - 1, sink.issued);
            }
        }
        own
    }

    pub fn declares(&self, topic: TopicId) -> bool {
        self.sinks.contains_key(&topic)
    }

    fn has_channel(&self, channel: Channel) -> bool {
        let partitions = self.sinks.get(&channel.topic);
        partitions.is_some_and(|&partitions| (0..partitions).contains(&channel.partition))
    }

    /// Issues the next sequence on a channel; `None` when the channel does not exist.
    pub fn issue(&mut self, channel: Channel) -> Option<i64> {
        if !self.has_channel(channel) {
            return None;
        }
        let own = self.channels.entry(channel).or_default();
        let sequence = own.issued.map_or(0, |last| last.saturating_add(1));
        own.issued = Some(sequence);
        self.unacknowledged.insert(channel);
        self.unwritten.insert(channel);
        Some(sequence)
    }

    /// Every send so far is acknowledged, the last on each named channel at the offset given (decisions S13, D10).
    pub fn fence(&mut self, acknowledged: &[(Channel, Offset)]) -> Result<(), NodeError> {
        for &(channel, offset) in acknowledged {
            if offset < 0 {
                return Err(NodeError::Negative {
                    what: "acknowledged offset",
                    channel,
                    found: offset,
                });
            }
            if !self.has_channel(channel) {
                return Err(NodeError::NotASinkChannel { channel });
            }
        }
        for channel in std::mem::take(&mut self.unacknowledged) {
            if let Some(own) = self.channels.get_mut(&channel) {
                own.acknowledged = own.issued;
                own.claimed = own.issued;
            }
        }
        for &(channel, offset) in acknowledged {
            let own = self.channels.entry(channel).or_default();
            // A send that no offset covers yet stands above whatever was known: an offset that does not is not its own.
            let is_stale = own.claimed.is_some() && own.offset.is_some_and(|known| offset <= known);
            if !is_stale {
                own.cover(offset, own.issued);
            }
        }
        Ok(())
    }

    /// Per sink channel, the last sequence acknowledged: what a mark remembers.
    pub fn acknowledged(&self) -> BTreeMap<Channel, i64> {
        let sent = self.channels.iter();
        sent.filter_map(|(&channel, own)| Some((channel, own.acknowledged?)))
            .collect()
    }

    /// A high watermark of `channel`, asked for when `acknowledged` was the last acknowledged sequence: what was sent by then lies below it.
    pub fn watermark(&mut self, channel: Channel, watermark: Offset, acknowledged: Option<i64>) {
        if self.has_channel(channel) {
            self.channels
                .entry(channel)
                .or_default()
                .cover(watermark - 1, acknowledged);
        }
    }

    /// The channels that the next stamp claims own sends on by sequence.
    pub fn claimed_by_sequence(&self) -> impl Iterator<Item = Channel> {
        self.channels
            .iter()
            .filter(|(_, own)| own.claimed.is_some())
            .map(|(&channel, _)| channel)
    }

    /// Whether a claim on an own send adds nothing to a stamp (decision D7).
    fn is_subsumed(
        &self,
        channel: Channel,
        sequence: i64,
        is_gone: impl Fn(TopicId) -> bool,
    ) -> bool {
        if !self.declares(channel.topic) || is_gone(channel.topic) {
            return true;
        }
        self.channels
            .get(&channel)
            .is_some_and(|own| own.offset.is_some() && own.covered >= Some(sequence))
    }

    pub fn write(&mut self, store: &mut (impl StateStore + ?Sized)) -> Result<(), NodeError> {
        for channel in std::mem::take(&mut self.unwritten) {
            let Some(own) = self.channels.get_mut(&channel) else {
                continue;
            };
            if own.stored != own.issued
                && let Some(sequence) = own.issued
            {
                store.put(
                    &StateKey::SendSequence(channel).to_bytes(),
                    number_to_bytes(sequence),
                )?;
                own.stored = own.issued;
            }
        }
        Ok(())
    }
}

/// Computes the stamp's clock into `stamp`: the maximum of the four terms, sequence claims turned into offset claims where this node can
/// vouch for them.
///
/// `past` is the join of the advertised and carried terms, `delivered` the delivered term in channel order, `vouched` gives the offset of
/// the highest delivered sequence that covers a foreign sequence claim.
pub(crate) fn compute(
    stamp: &mut Clock,
    past: &Clock,
    delivered: impl Iterator<Item = OffsetClaim>,
    own: &OwnSends,
    vouched: impl Fn(Channel, SenderId, i64) -> Option<Offset>,
    is_gone: impl Fn(TopicId) -> bool,
) {
    stamp.clear();
    let own_offsets = own
        .channels
        .iter()
        .filter_map(|(&channel, own)| own.offset.map(|offset| OffsetClaim { channel, offset }));
    let mut terms = (
        past.offsets().iter().copied().peekable(),
        delivered.peekable(),
        own_offsets.peekable(),
    );
    loop {
        let heads = [terms.0.peek(), terms.1.peek(), terms.2.peek()];
        let Some(channel) = heads.iter().flatten().map(|claim| claim.channel).min() else {
            break;
        };
        let on_it = [
            terms.0.next_if(|claim| claim.channel == channel),
            terms.1.next_if(|claim| claim.channel == channel),
            terms.2.next_if(|claim| claim.channel == channel),
        ];
        if let Some(offset) = on_it.iter().flatten().map(|claim| claim.offset).max() {
            stamp.push_offset(OffsetClaim { channel, offset });
        }
    }
    for claim in past.sequences() {
        if claim.sender == own.sender {
            if !own.is_subsumed(claim.channel, claim.sequence, &is_gone) {
                stamp.claim_sequence(claim.channel, claim.sender, claim.sequence);
            }
        } else if let Some(offset) = vouched(claim.channel, claim.sender, claim.sequence) {
            stamp.claim_offset(claim.channel, offset);
        } else {
            stamp.claim_sequence(claim.channel, claim.sender, claim.sequence);
        }
    }
    for (&channel, sent) in &own.channels {
        if let Some(sequence) = sent.claimed {
            stamp.claim_sequence(channel, own.sender, sequence);
        }
    }
}

impl Node {
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
        compute(stamp, &self.past, delivered, &self.own, vouched, |topic| {
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
}

#[cfg(test)]
mod tests;
