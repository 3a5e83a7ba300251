//! The decision whether a record may be delivered, and nothing else (`docs/protocol.md`, The decision).
//!
//! [`decide`] is pure: it reads its three arguments and nothing besides. Every delivery of every host is decided here.

use crate::channel::{Channel, Id, Offset, ReceivedChannels, SenderId, TopicId};
use crate::clock::{Claim, Claims, Entry, OffsetClaim, Section, SequenceClaim};

/// How far a received channel is settled: every position at or below it was delivered, or will never arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Nothing is known of the channel yet. Blocks every offset claim on it.
    Undefined,
    /// Settled up to this position; -1 while the record at position 0 is held.
    At(Offset),
    /// The channel's topic is gone: whatever was there is delivered or will never arrive.
    ToItsEnd,
}

/// What the decision asks about received channels, each named by its index in [`ReceivedChannels`].
pub trait SettledView {
    /// How far the channel is settled.
    fn settled(&self, channel: usize) -> Settled;

    /// The highest delivered send sequence of a sender on the channel.
    fn delivered_sequence(&self, channel: usize, sender: SenderId) -> Option<i64>;

    /// The highest position such that everything at or below it was fed or will never arrive.
    fn fed_up_to(&self, channel: usize) -> Option<Offset>;

    /// The lowest high watermark of the channel, `>= 1`, that was asked for after the record under decision had been received.
    fn watermark(&self, channel: usize) -> Option<Offset>;

    /// The lowest send sequence of a sender among the records held on the channel.
    fn lowest_held_sequence(&self, channel: usize, sender: SenderId) -> Option<i64>;
}

/// No channel is this one: none has a negative partition.
const NO_CHANNEL: Channel = Channel {
    topic: TopicId(Id { msb: 0, lsb: 0 }),
    partition: -1,
};

/// What a record waits for: the claims of its clock, without those on its own channel. Per-channel FIFO has discharged these, and a
/// record cannot wait for itself.
#[derive(Debug)]
pub struct Causes<'a, C> {
    clock: &'a C,
    own_channel: Channel,
}

impl<C> Clone for Causes<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Causes<'_, C> {}

impl<'a, C: Claims> Causes<'a, C> {
    /// The causes of a record on `own_channel` with this clock.
    pub fn of(clock: &'a C, own_channel: Channel) -> Self {
        Self { clock, own_channel }
    }

    /// All claims of a clock that is no record's: that of a client, who asks whether all of it has been delivered.
    pub fn of_no_record(clock: &'a C) -> Self {
        Self::of(clock, NO_CHANNEL)
    }
}

/// What [`decide`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every cause is met.
    Deliverable,
    /// A claim is not met. It is the first one, offset claims before sequence claims, in clock order.
    Blocked(Blocked),
}

/// The claim that blocks a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The claim.
    pub claim: Claim,
    /// The index of its channel among the received ones.
    pub channel: usize,
    /// How many entries of the offset section were met before it.
    pub met_offsets: usize,
}

impl Blocked {
    /// What of the record was found met. Offset claims stay met, so a caller that asks again about it may go on from here with
    /// [`decide_from`].
    pub fn met(&self) -> Met {
        Met {
            offsets: self.met_offsets,
            channel: self.channel,
        }
    }
}

/// How far an earlier decision on the same record in the same execution has come; at first, nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// How many entries of the offset section are met.
    pub(crate) offsets: usize,
    /// The received channel that the next of them stands on, or one before it.
    pub(crate) channel: usize,
}

/// Decides whether a record with these causes may be delivered at a node that receives these channels.
///
/// A claim on a channel that is not received imposes nothing: the node will never deliver that record, so no order that it could observe
/// is inverted.
pub fn decide<C: Claims>(
    causes: Causes<'_, C>,
    received: &ReceivedChannels,
    settled: &impl SettledView,
) -> Verdict {
    decide_from(causes, received, settled, Met::default())
}

/// [`decide`], passing over the claims that an earlier decision on the same record in the same execution found met.
pub fn decide_from<C: Claims>(
    causes: Causes<'_, C>,
    received: &ReceivedChannels,
    settled: &impl SettledView,
    met: Met,
) -> Verdict {
    match unmet_from(causes, received, settled, met).next() {
        Some(blocked) => Verdict::Blocked(blocked),
        None => Verdict::Deliverable,
    }
}

/// All claims that are not met, offset claims before sequence claims, each section in clock order: what a hold report shows. Found as they
/// are asked for; the first is the one that [`decide`] gives.
pub fn unmet<'a, C: Claims>(
    causes: Causes<'a, C>,
    received: &'a ReceivedChannels,
    settled: &'a impl SettledView,
) -> impl Iterator<Item = Blocked> + 'a {
    unmet_from(causes, received, settled, Met::default())
}

fn unmet_from<'a, C: Claims, V: SettledView>(
    causes: Causes<'a, C>,
    received: &'a ReceivedChannels,
    settled: &'a V,
    met: Met,
) -> Unmet<'a, impl Section<OffsetClaim> + 'a, impl Section<SequenceClaim> + 'a, V> {
    Unmet {
        own_channel: causes.own_channel,
        received,
        settled,
        offsets: Walk::from(causes.clock.offset_section(), met),
        sequences: Walk::from(causes.clock.sequence_section(), Met::default()),
    }
}

/// The claims of a clock that are not met, found in a walk beside the received channels.
struct Unmet<'a, O, S, V> {
    own_channel: Channel,
    received: &'a ReceivedChannels,
    settled: &'a V,
    offsets: Walk<O>,
    sequences: Walk<S>,
}

impl<O, S, V> Iterator for Unmet<'_, O, S, V>
where
    O: Section<OffsetClaim>,
    S: Section<SequenceClaim>,
    V: SettledView,
{
    type Item = Blocked;

    fn next(&mut self) -> Option<Blocked> {
        let (own_channel, received, settled) = (self.own_channel, self.received, self.settled);
        let by_offset = self
            .offsets
            .next_unmet(received, own_channel, |claim, channel| {
                offset_is_met(claim, settled.settled(channel))
            });
        if let Some((claim, channel)) = by_offset {
            return Some(Blocked {
                claim: Claim::Offset(claim),
                channel,
                met_offsets: self.offsets.next - 1,
            });
        }
        let by_sequence = self
            .sequences
            .next_unmet(received, own_channel, |claim, channel| {
                sequence_is_met(claim, channel, settled)
            });
        by_sequence.map(|(claim, channel)| Blocked {
            claim: Claim::Sequence(claim),
            channel,
            met_offsets: self.offsets.next,
        })
    }
}

/// How far a walk over a section has come: the next claim, and the first received channel that it can stand on.
struct Walk<S> {
    section: S,
    next: usize,
    channel: usize,
}

impl<S> Walk<S> {
    fn from(section: S, met: Met) -> Self {
        Self {
            section,
            next: met.offsets,
            channel: met.channel,
        }
    }

    /// The next claim on a received channel that is not met, with the channel's index. Those on the record's own channel are passed over.
    fn next_unmet<E: Entry>(
        &mut self,
        received: &ReceivedChannels,
        own_channel: Channel,
        is_met: impl Fn(&E, usize) -> bool,
    ) -> Option<(E, usize)>
    where
        S: Section<E>,
    {
        while self.next < self.section.len() {
            self.pass_met(received, &is_met);
            let (claim, channel) = self.next_received(received)?;
            if claim.channel() != own_channel && !is_met(&claim, channel) {
                return Some((claim, channel));
            }
        }
        None
    }

    /// Passes over claims that are met, for as long as they stand on one received channel after the other. Mostly that is all of them, so
    /// this loop is kept apart and small.
    #[inline(never)]
    fn pass_met<E: Entry>(
        &mut self,
        received: &ReceivedChannels,
        is_met: &impl Fn(&E, usize) -> bool,
    ) where
        S: Section<E>,
    {
        let channels = received.as_slice();
        let (mut next, mut channel) = (self.next, self.channel);
        while next < self.section.len() && channel < channels.len() {
            let claim = self.section.get(next);
            if channels[channel] != claim.channel() || !is_met(&claim, channel) {
                break;
            }
            next += 1;
            channel += E::CHANNEL_STEP;
        }
        (self.next, self.channel) = (next, channel);
    }

    /// The next claim on a received channel, with the channel's index.
    fn next_received<E: Entry>(&mut self, received: &ReceivedChannels) -> Option<(E, usize)>
    where
        S: Section<E>,
    {
        while self.next < self.section.len() && self.channel < received.len() {
            let claim = self.section.get(self.next);
            self.next += 1;
            match received.find_from(self.channel, claim.channel()) {
                Ok(channel) => {
                    self.channel = channel + E::CHANNEL_STEP;
                    return Some((claim, channel));
                }
                Err(larger) => self.channel = larger,
            }
        }
        self.next = self.section.len();
        None
    }
}

fn offset_is_met(claim: &OffsetClaim, settled: Settled) -> bool {
    match settled {
        Settled::Undefined => false,
        Settled::At(position) => claim.offset <= position,
        Settled::ToItsEnd => true,
    }
}

/// A sequence claim on a received channel is met by the sender's delivered records, by the channel's end, or by watermark evidence: a
/// high watermark asked for after the claiming record was received lies above every record that the claim can name; all of it was fed
/// here, and nothing that the claim names is held here.
fn sequence_is_met(claim: &SequenceClaim, channel: usize, settled: &impl SettledView) -> bool {
    if settled
        .delivered_sequence(channel, claim.sender)
        .is_some_and(|delivered| claim.sequence <= delivered)
    {
        return true;
    }
    if settled.settled(channel) == Settled::ToItsEnd {
        return true;
    }
    let (Some(watermark), Some(fed)) = (settled.watermark(channel), settled.fed_up_to(channel))
    else {
        return false;
    };
    fed >= watermark - 1
        && settled
            .lowest_held_sequence(channel, claim.sender)
            .is_none_or(|lowest| claim.sequence < lowest)
}

#[cfg(test)]
mod tests;
