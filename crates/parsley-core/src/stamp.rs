//! The stamp (`docs/protocol.md`, The stamp): what a send claims, and the node's own sends.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::channel::{Channel, Offset, SenderId, TopicId};
use crate::clock::{Clock, OffsetClaim};
use crate::layout::{StateKey, number_to_bytes};
use crate::node::{NodeError, Sink};
use crate::record::Header;
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
#[derive(Clone, Debug)]
struct SinkChannel {
    channel: Channel,
    /// The last sequence issued.
    issued: Option<i64>,
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

/// The own term, and the sequence numbers.
#[derive(Clone, Debug)]
pub(crate) struct OwnSends {
    sender: SenderId,
    topics: BTreeSet<TopicId>,
    channels: Vec<SinkChannel>,
    /// Channels with sends since the last fence.
    unacknowledged: Vec<usize>,
    /// Channels whose sequence number is not written yet.
    unwritten: Vec<usize>,
}

impl OwnSends {
    /// The sinks' channels; `stored` gives each one's last sequence, `end` its high watermark.
    pub fn open(
        sender: SenderId,
        sinks: &[Sink],
        stored: impl Fn(Channel) -> Option<i64>,
        end: impl Fn(Channel) -> Option<Offset>,
    ) -> Self {
        let mut channels: Vec<SinkChannel> = sinks
            .iter()
            .flat_map(|sink| {
                (0..sink.partitions.max(0)).map(|partition| sink.topic.partition(partition))
            })
            .map(|channel| {
                let issued = stored(channel);
                let mut own = SinkChannel {
                    channel,
                    issued,
                    stored: issued,
                    offset: None,
                    covered: None,
                    claimed: None,
                };
                if let Some(end) = end(channel).filter(|&end| end > 0) {
                    own.cover(end - 1, issued);
                }
                own
            })
            .collect();
        channels.sort_unstable_by_key(|own| own.channel);
        channels.dedup_by_key(|own| own.channel);
        let topics = sinks.iter().map(|sink| sink.topic).collect();
        Self {
            sender,
            topics,
            channels,
            unacknowledged: Vec::new(),
            unwritten: Vec::new(),
        }
    }

    pub fn declares(&self, topic: TopicId) -> bool {
        self.topics.contains(&topic)
    }

    fn index_of(&self, channel: Channel) -> Option<usize> {
        self.channels
            .binary_search_by_key(&channel, |own| own.channel)
            .ok()
    }

    /// Issues the next sequence on a channel; `None` when the channel does not exist.
    pub fn issue(&mut self, channel: Channel) -> Option<i64> {
        let index = self.index_of(channel)?;
        let own = &mut self.channels[index];
        let sequence = own.issued.map_or(0, |last| last.saturating_add(1));
        own.issued = Some(sequence);
        if self.unacknowledged.last() != Some(&index) {
            self.unacknowledged.push(index);
        }
        if self.unwritten.last() != Some(&index) {
            self.unwritten.push(index);
        }
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
            if self.index_of(channel).is_none() {
                return Err(NodeError::NotASinkChannel { channel });
            }
        }
        for index in self.unacknowledged.drain(..) {
            let own = &mut self.channels[index];
            own.claimed = own.issued;
        }
        for &(channel, offset) in acknowledged {
            if let Some(index) = self.index_of(channel) {
                let issued = self.channels[index].issued;
                self.channels[index].cover(offset, issued);
            }
        }
        Ok(())
    }

    /// Per sink channel, the last sequence issued: what a mark remembers.
    pub fn issued(&self) -> Vec<Option<i64>> {
        self.channels.iter().map(|own| own.issued).collect()
    }

    /// A high watermark of `channel`, asked for when `issued` were the last sequences: what was sent by then lies below it. One of 0
    /// says that nothing was ever appended, so it vouches for nothing.
    pub fn watermark(&mut self, channel: Channel, watermark: Offset, issued: &[Option<i64>]) {
        if let Some(index) = self.index_of(channel)
            && watermark > 0
        {
            self.channels[index].cover(watermark - 1, issued[index]);
        }
    }

    /// How many own sequence claims the next stamp holds.
    pub fn sequence_claims(&self) -> usize {
        self.channels
            .iter()
            .filter(|own| own.claimed.is_some())
            .count()
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
        self.index_of(channel)
            .map(|index| &self.channels[index])
            .is_some_and(|own| own.offset.is_some() && own.covered >= Some(sequence))
    }

    pub fn write(&mut self, store: &mut (impl StateStore + ?Sized)) -> Result<(), NodeError> {
        for index in self.unwritten.drain(..) {
            let own = &mut self.channels[index];
            if own.stored != own.issued
                && let Some(sequence) = own.issued
            {
                store.put(
                    &StateKey::SendSequence(own.channel).to_bytes(),
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
    let own_offsets = own.channels.iter().filter_map(|own| {
        own.offset.map(|offset| OffsetClaim {
            channel: own.channel,
            offset,
        })
    });
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
    for own_channel in &own.channels {
        if let Some(sequence) = own_channel.claimed {
            stamp.claim_sequence(own_channel.channel, own.sender, sequence);
        }
    }
}

#[cfg(test)]
mod tests;
