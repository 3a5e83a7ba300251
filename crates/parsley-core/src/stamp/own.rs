//! The own term of a stamp, and the numbers of the node's own sends (`docs/protocol.md`, The stamp).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::channel::{Channel, Offset, SenderId, TopicId};
use crate::clock::OffsetClaim;
use crate::layout::{StateKey, number_to_bytes};
use crate::node::{NodeError, Sink};
use crate::store::StateStore;

/// What this node knows of its own sends to one sink channel.
#[derive(Clone, Debug, Default)]
pub(super) struct SinkChannel {
    /// The last sequence issued.
    issued: Option<i64>,
    /// The last sequence acknowledged.
    acknowledged: Option<i64>,
    /// `sq/<channel>` as it stands in the store.
    stored: Option<i64>,
    /// The own term by offset: a high watermark minus one, or where an acknowledged send stands.
    pub(super) offset: Option<Offset>,
    /// Own sends at or below this sequence lie at or below `offset`.
    pub(super) covered: Option<i64>,
}

/// The own term, and the sequence numbers. It knows of a sink's partitions no more than how many there are until something is sent or
/// read there, so a stamp costs what it claims.
#[derive(Clone, Debug)]
pub(crate) struct OwnSends {
    pub(super) sender: SenderId,
    /// The declared sinks and their partition counts.
    pub(super) sinks: BTreeMap<TopicId, i32>,
    /// The channels with sends or an end offset.
    pub(super) channels: BTreeMap<Channel, SinkChannel>,
    /// The own term by sequence: the last acknowledged send where no offset covers it.
    pub(super) claimed: BTreeMap<Channel, i64>,
    /// Channels with sends since the last fence.
    unacknowledged: Vec<Channel>,
    /// Channels whose sequence number is not written yet.
    unwritten: Vec<Channel>,
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
            claimed: BTreeMap::new(),
            unacknowledged: Vec::new(),
            unwritten: Vec::new(),
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
                let issued = own.channels.get(&channel).and_then(|sent| sent.issued);
                own.cover(channel, end - 1, issued);
            }
        }
        own
    }

    /// Own sends to `channel` up to `sequence` lie at or below `offset`.
    fn cover(&mut self, channel: Channel, offset: Offset, sequence: Option<i64>) {
        let sent = self.channels.entry(channel).or_default();
        sent.offset = sent.offset.max(Some(offset));
        sent.covered = sent.covered.max(sequence);
        if self.claimed.get(&channel).copied() <= sent.covered {
            self.claimed.remove(&channel);
        }
    }

    /// The own term by offset, in channel order.
    pub fn offsets(&self) -> impl Iterator<Item = OffsetClaim> {
        self.channels.iter().filter_map(|(&channel, sent)| {
            let offset = sent.offset?;
            Some(OffsetClaim { channel, offset })
        })
    }

    /// The own term by offset on one channel.
    pub fn offset(&self, channel: Channel) -> Option<Offset> {
        self.channels.get(&channel)?.offset
    }

    pub fn declares(&self, topic: TopicId) -> bool {
        self.sinks.contains_key(&topic)
    }

    fn has_channel(&self, channel: Channel) -> bool {
        has_channel(&self.sinks, channel)
    }

    /// Issues the next sequence on a channel; `None` when the channel does not exist.
    pub fn issue(&mut self, channel: Channel) -> Option<i64> {
        let sent = match self.channels.entry(channel) {
            Entry::Occupied(sent) => sent.into_mut(),
            Entry::Vacant(unsent) if has_channel(&self.sinks, channel) => {
                unsent.insert(SinkChannel::default())
            }
            Entry::Vacant(_) => return None,
        };
        if sent.issued == sent.acknowledged {
            self.unacknowledged.push(channel);
        }
        if sent.issued == sent.stored {
            self.unwritten.push(channel);
        }
        let sequence = sent.issued.map_or(0, |last| last.saturating_add(1));
        sent.issued = Some(sequence);
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
        for channel in self.unacknowledged.drain(..) {
            if let Some(sent) = self.channels.get_mut(&channel) {
                sent.acknowledged = sent.issued;
                self.claimed.extend(sent.issued.map(|last| (channel, last)));
            }
        }
        for &(channel, offset) in acknowledged {
            let sent = self.channels.entry(channel).or_default();
            // A send that no offset covers yet stands above whatever was known: an offset that does not is not its own.
            let is_claimed = self.claimed.contains_key(&channel);
            let is_stale = is_claimed && sent.offset.is_some_and(|known| offset <= known);
            if !is_stale {
                let issued = sent.issued;
                self.cover(channel, offset, issued);
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
            self.cover(channel, watermark - 1, acknowledged);
        }
    }

    /// The channels that the next stamp claims own sends on by sequence.
    pub fn claimed_by_sequence(&self) -> impl Iterator<Item = Channel> {
        self.claimed.keys().copied()
    }

    /// Whether a claim on an own send adds nothing to a stamp (decision D7).
    pub(super) fn is_subsumed(
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
        self.unwritten.sort_unstable();
        for channel in self.unwritten.drain(..) {
            let Some(own) = self.channels.get_mut(&channel) else {
                continue;
            };
            if own.stored != own.issued
                && let Some(sequence) = own.issued
            {
                store.put(
                    &StateKey::SendSequence(channel).text(),
                    number_to_bytes(sequence),
                )?;
                own.stored = own.issued;
            }
        }
        Ok(())
    }
}

fn has_channel(sinks: &BTreeMap<TopicId, i32>, channel: Channel) -> bool {
    let partitions = sinks.get(&channel.topic);
    partitions.is_some_and(|&partitions| (0..partitions).contains(&channel.partition))
}
