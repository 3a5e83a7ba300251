//! The stamp (`docs/protocol.md`, The stamp): what a send claims.

mod own;

use bytes::Bytes;

pub(crate) use self::own::OwnSends;
use crate::channel::{Channel, Offset, SenderId, TopicId};
use crate::clock::{Claims, Clock, OffsetClaim, SequenceClaim};
use crate::input::Input;
use crate::layout::HeldRecord;
use crate::node::{Node, NodeError};
use crate::record::Header;
use crate::refusal::{Refusal, RefusalCode};
use crate::wire::{self, ClockRef};

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

/// The stamp between sends: the four terms joined, and the bytes that the last send carried.
///
/// Deliveries, acknowledgements and watermarks only raise claims, so each is joined in as it happens, and the next send patches what was
/// raised into the bytes. What can lower a claim or take one out says so: a truncation and resolved sequence claims join the terms anew
/// ([`Node::join_terms`]), and what touches the normalisation has the bytes made anew ([`KeptStamp::renormalise`]).
#[derive(Debug, Default)]
pub(crate) struct KeptStamp {
    /// The join of the terms. The own term's sequence claims are not in it, those of the past stand as they came: normalisation takes up
    /// the ones and turns the others into what this node can vouch for.
    terms: Clock,
    /// The stamp's bytes, but for what was raised, unless stale.
    bytes: Vec<u8>,
    /// A copy of the bytes that sends share, once a second one carries the same.
    shared: Option<Bytes>,
    /// The places of the offset claims raised since the bytes were made.
    raised: Vec<usize>,
    /// Offset claims on channels that the terms had none on, one each, to be joined in together.
    added: Vec<OffsetClaim>,
    /// Whether the bytes are to be made anew.
    stale: bool,
    /// The stamp as a clock while its bytes are made. Kept for its memory.
    clock: Clock,
    /// The places of what a delivery raises in the advertised term. Kept for its memory.
    folded: Vec<usize>,
}

/// Where the stamp had the claims of an input the last time, to be looked at first.
#[derive(Debug, Default)]
pub(crate) struct StampPlaces {
    delivered: u32,
    /// In the order of the advertised term's offset claims.
    advertised: Vec<u32>,
}

impl KeptStamp {
    /// Takes up other terms in the place of those so far.
    fn replace(&mut self, terms: Clock) {
        self.terms = terms;
        self.added.clear();
        self.stale = true;
    }

    /// Takes up a delivery: its position is the input's delivered term now, and its clock is folded into the advertised one.
    pub fn delivered(&mut self, input: &mut Input, record: &HeldRecord) {
        if let Some(clock) = ClockRef::of_checked(&record.clock) {
            let mut folded = std::mem::take(&mut self.folded);
            let all_are_noted = input.advertised.merge_noting(&clock, &mut folded);
            input.advertised_changed |= !all_are_noted || !folded.is_empty();
            let (claims, places) = (input.advertised.offsets(), &mut input.places.advertised);
            places.resize(claims.len(), 0);
            // Beside terms that are not much wider, a walk takes less than a look at every claim, unless few were raised.
            let walks =
                self.terms.offsets().len() <= 4 * clock.width() && 2 * folded.len() > clock.width();
            if all_are_noted && !walks {
                for &at in &folded {
                    self.join_offset(claims[at].channel, claims[at].offset, &mut places[at]);
                }
            } else {
                self.join(&clock);
            }
            folded.clear();
            self.folded = folded;
        }
        input.delivered = Some(record.offset);
        self.join_offset(input.channel, record.offset, &mut input.places.delivered);
        self.bound();
    }

    /// Joins more claims into the terms.
    fn join(&mut self, claims: &impl Claims) {
        self.stale |= !self.terms.merge_noting(claims, &mut self.raised);
    }

    /// Joins one offset claim into the terms. `place` is where it was found the last time, and is told where it is now.
    fn join_offset(&mut self, channel: Channel, offset: Offset, place: &mut u32) {
        match self.terms.place_of(channel, *place as usize) {
            Some(found) => {
                *place = found as u32;
                if self.terms.raise_at(found, offset) {
                    self.raised.push(found);
                }
            }
            None => {
                let mut added = self.added.iter_mut();
                match added.find(|claim| claim.channel == channel) {
                    Some(claim) => claim.offset = claim.offset.max(offset),
                    None => self.added.push(OffsetClaim { channel, offset }),
                }
                self.stale = true;
            }
        }
    }

    /// Sees to it that what waits for the next send takes no more memory than the terms, or than one delivery raises.
    fn bound(&mut self) {
        let width = self.terms.offsets().len();
        self.stale |= self.raised.len() > width;
        if self.stale {
            self.raised.clear();
        }
        if self.added.len() > width {
            self.join_added();
        }
    }

    fn join_added(&mut self) {
        let added = Clock::from_claims(self.added.drain(..), []);
        self.terms.merge(&added);
    }

    /// Takes up what the own term says of these channels now.
    pub fn own_changed(&mut self, own: &OwnSends, channels: impl IntoIterator<Item = Channel>) {
        for channel in channels {
            if let Some(offset) = own.offset(channel) {
                self.join_offset(channel, offset, &mut 0);
            }
        }
        self.bound();
        // It takes no sequence claim out that is not there, and an echo that has fallen away does not come back.
        self.stale |= !own.claimed.is_empty() || !self.clock.sequences().is_empty();
    }

    /// What the past's sequence claims are turned into may have changed.
    pub fn renormalise(&mut self) {
        self.stale |= !self.terms.sequences().is_empty();
    }

    /// The delivered mark of a sender on a channel has moved.
    pub fn mark_moved(&mut self, channel: Channel, sender: SenderId) {
        let claims = self.terms.sequences();
        self.stale |= claims
            .binary_search_by_key(&(channel, sender), |claim| (claim.channel, claim.sender))
            .is_ok();
    }

    /// How many offset claims there are.
    pub fn offset_claims(&self) -> usize {
        let is_new = |claim: &&OffsetClaim| self.terms.place_of(claim.channel, 0).is_none();
        self.terms.offsets().len() + self.added.iter().filter(is_new).count()
    }

    /// The sequence claims of the past, as they came.
    pub fn past_sequences(&self) -> &[SequenceClaim] {
        self.terms.sequences()
    }

    /// The stamp's bytes. `normalise` puts the sequence claims of the past, and the own ones, into a clock that has the terms' offset claims,
    /// and returns whether it raised one of these.
    fn bytes(&mut self, normalise: impl FnOnce(&[SequenceClaim], &mut Clock) -> bool) -> Bytes {
        if self.stale {
            self.join_added();
            self.clock.copy_offsets(&self.terms);
            // A raised one is no term's claim, and the places in these bytes are not those in the terms: they serve once. This takes a stored
            // delivered mark above the stored frontier, and no node writes that.
            self.stale = normalise(self.terms.sequences(), &mut self.clock);
            self.bytes.clear();
            wire::encode_into(&self.clock, &mut self.bytes);
        } else if !self.raised.is_empty() {
            for &place in &self.raised {
                wire::set_offset(&mut self.bytes, place, self.terms.offsets()[place].offset);
            }
        } else {
            let shared = &mut self.shared;
            return shared
                .get_or_insert_with(|| Bytes::copy_from_slice(&self.bytes))
                .clone();
        }
        self.raised.clear();
        self.shared = None;
        // Mostly the next send is a delivery further, and shares nothing with this one.
        Bytes::copy_from_slice(&self.bytes)
    }
}

/// Normalisation: adds to `stamp` what becomes of the past's sequence claims, turned into offset claims where this node can vouch for
/// them, and the own claims by sequence. Returns whether an offset claim of `stamp` was raised or is new.
///
/// `vouched` gives the offset of the highest delivered sequence that covers a foreign sequence claim.
fn normalise(
    stamp: &mut Clock,
    past: &[SequenceClaim],
    own: &OwnSends,
    vouched: impl Fn(&SequenceClaim) -> Option<Offset>,
    is_gone: impl Fn(TopicId) -> bool,
) -> bool {
    let mut raised = false;
    for claim in past {
        if claim.sender == own.sender {
            if !own.is_subsumed(claim.channel, claim.sequence, &is_gone) {
                stamp.claim_sequence(claim.channel, claim.sender, claim.sequence);
            }
        } else if let Some(offset) = vouched(claim) {
            raised |= stamp.claim_offset(claim.channel, offset);
        } else {
            stamp.claim_sequence(claim.channel, claim.sender, claim.sequence);
        }
    }
    for (&channel, &sequence) in &own.claimed {
        stamp.claim_sequence(channel, own.sender, sequence);
    }
    raised
}

impl Node {
    /// Stamps one send to a sink's channel: the one place where stamps are made. Call it after the partition is chosen.
    ///
    /// # Errors
    ///
    /// Refuses with G5, or with G13 when the clock exceeds the budget.
    pub fn prepare_send(&mut self, channel: Channel) -> Result<Stamp, NodeError> {
        self.running()?;
        let Some(sequence) = self.own.issue(channel) else {
            if self.own.declares(channel.topic) {
                return Err(NodeError::UnknownPartition { channel });
            }
            return self.refuse(Refusal::on(
                RefusalCode::UndeclaredSink,
                channel,
                "a send to a topic that is not declared as a sink",
            ));
        };
        let clock = self.stamped();
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
            clock,
        })
    }

    /// The bytes of the stamp's clock.
    fn stamped(&mut self) -> Bytes {
        let (received, inputs, own) = (&self.received, &self.inputs, &self.own);
        let vouched = |claim: &SequenceClaim| {
            let input = &inputs[received.index_of(claim.channel)?];
            let known = input.delivered_sequences.get(&claim.sender)?;
            (claim.sequence <= known.sequence).then_some(known.offset)
        };
        let is_gone = |topic| self.gone.contains(&topic);
        self.stamp
            .bytes(|past, stamp| normalise(stamp, past, own, vouched, is_gone))
    }

    /// Joins the four terms anew, after one of them has lost a claim.
    pub(crate) fn join_terms(&mut self) {
        let delivered = self.inputs.iter().filter_map(|input| {
            let channel = input.channel;
            let offset = input.delivered?;
            Some(OffsetClaim { channel, offset })
        });
        let mut terms = self.past();
        terms.merge(&Clock::from_claims(delivered, []));
        terms.merge(&Clock::from_claims(self.own.offsets(), []));
        self.stamp.replace(terms);
    }

    /// The advertised and the carried term joined.
    pub(crate) fn past(&self) -> Clock {
        let mut past = self.carried.clone();
        for input in &self.inputs {
            past.merge(&input.advertised);
        }
        past
    }

    /// Every send so far is acknowledged; `acknowledged` gives the offset of the last one per channel, where the broker told it.
    ///
    /// # Errors
    ///
    /// When a channel is not one of a declared sink, or an offset is negative.
    pub fn fence(&mut self, acknowledged: &[(Channel, Offset)]) -> Result<(), NodeError> {
        self.running()?;
        self.acknowledge(acknowledged)
    }

    pub(crate) fn acknowledge(
        &mut self,
        acknowledged: &[(Channel, Offset)],
    ) -> Result<(), NodeError> {
        self.own.fence(acknowledged)?;
        let channels = acknowledged.iter().map(|&(channel, _)| channel);
        self.stamp.own_changed(&self.own, channels);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
