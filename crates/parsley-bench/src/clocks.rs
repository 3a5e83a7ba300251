//! The operations of clocks alone.

use parsley_core::decide::{Causes, Settled, SettledView, Verdict, decide};
use parsley_core::wire::{self, ClockRef, Decoded};
use parsley_core::{Channel, Clock, Offset, OffsetClaim, ReceivedChannels, SenderId};

use crate::world;

/// How many claims the clocks have.
pub const WIDTHS: [usize; 6] = [1, 4, 16, 64, 256, 1024];

/// How many claims the clocks together have that one measurement of [`Clocks::merge`] merges into.
const MERGED_CLAIMS: usize = 1024;

/// A clock of offset claims in its bytes, as it comes with a record; a node that receives every channel which it claims on; and clocks on
/// the same channels.
#[derive(Debug)]
pub struct Clocks {
    bytes: Vec<u8>,
    clock: Clock,
    own_channel: Channel,
    received: ReceivedChannels,
    settled: SettledAt,
    /// On the same channels; about every other claim is lower than the clock's.
    base: Clock,
    /// What [`Clocks::merge`] is to make of `base`.
    joined: Clock,
    targets: Vec<Clock>,
}

/// Every channel is settled up to a position of its own; nothing is known of senders.
#[derive(Debug)]
struct SettledAt(Vec<Offset>);

impl SettledView for SettledAt {
    fn settled(&self, channel: usize) -> Settled {
        Settled::At(self.0[channel])
    }
    fn delivered_sequence(&self, _: usize, _: SenderId) -> Option<i64> {
        None
    }
    fn fed_up_to(&self, channel: usize) -> Option<Offset> {
        Some(self.0[channel])
    }
    fn watermark(&self, _: usize) -> Option<Offset> {
        None
    }
    fn lowest_held_sequence(&self, _: usize, _: SenderId) -> Option<i64> {
        None
    }
}

impl Clocks {
    /// Clocks of `width` claims.
    pub fn new(width: usize) -> Self {
        let mut received = world::channels(width + 1);
        let own_channel = received.remove(width / 2);
        let claims = |offset: &dyn Fn(usize) -> Offset| {
            let claims = received.iter().enumerate();
            let claims = claims.map(|(index, &channel)| OffsetClaim {
                channel,
                offset: offset(index),
            });
            Clock::from_claims(claims, [])
        };
        let at = |index: usize| 1_000_000 + index as Offset;
        let clock = claims(&at);
        // Which claims are lower follows no pattern that a processor would learn: the lowest bit of a mixed index.
        let is_lower = |index: usize| {
            ((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).is_multiple_of(2)
        };
        let base = claims(&|index| at(index) + if is_lower(index) { -10 } else { 10 });
        let joined = claims(&|index| at(index) + if is_lower(index) { 0 } else { 10 });
        let targets = (MERGED_CLAIMS / width).clamp(4, 256);
        let mut declared = received.clone();
        declared.push(own_channel);
        let settled = SettledAt((0..declared.len()).map(|_| at(width)).collect());
        Self {
            bytes: wire::encode(&clock),
            clock,
            own_channel,
            received: ReceivedChannels::new(declared),
            settled,
            targets: vec![base.clone(); targets],
            base,
            joined,
        }
    }

    /// The clock's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The clock as it was decoded.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The checked clock in its bytes.
    pub fn in_bytes(&self) -> ClockRef<'_> {
        match wire::decode(&self.bytes) {
            Ok(Decoded::InOrder(clock)) => clock,
            other => panic!("the clock is in order: {other:?}"),
        }
    }

    /// Decides on a record with this clock: all its causes are met, so every claim is looked at.
    pub fn decide(&self, clock: &ClockRef<'_>) -> Verdict {
        decide(
            Causes::of(clock, self.own_channel),
            &self.received,
            &self.settled,
        )
    }

    /// How many merges one call of [`Clocks::merge`] makes.
    pub fn merges(&self) -> u64 {
        self.targets.len() as u64
    }

    /// Makes every target again what it was before a merge.
    pub fn reset(&mut self) {
        for target in &mut self.targets {
            target.clone_from(&self.base);
        }
    }

    /// Merges the clock, from its bytes, into every target; about half of the claims rise.
    pub fn merge(&mut self) {
        let Ok(Decoded::InOrder(clock)) = wire::decode(&self.bytes) else {
            panic!("the clock is in order")
        };
        for target in &mut self.targets {
            std::hint::black_box(&mut *target).merge(std::hint::black_box(&clock));
        }
    }

    /// Whether the targets are what a merge has to make of them.
    pub fn is_merged(&self) -> bool {
        self.targets.iter().all(|target| *target == self.joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operations_meet_what_they_claim_to_meet() {
        for width in WIDTHS {
            let mut clocks = Clocks::new(width);
            assert_eq!(clocks.clock().width(), width);
            assert_eq!(clocks.in_bytes().to_clock(), *clocks.clock());
            assert_eq!(clocks.decide(&clocks.in_bytes()), Verdict::Deliverable);
            assert!(clocks.joined.dominates(&clocks.in_bytes()));
            assert!(!clocks.is_merged());
            clocks.merge();
            assert!(clocks.is_merged());
            clocks.reset();
            let raised = clocks.base.offsets().iter().zip(clocks.joined.offsets());
            let raised = raised.filter(|(base, joined)| base != joined).count();
            assert!(
                width == 1 || (width / 4..width).contains(&raised),
                "{raised} of {width}"
            );
        }
    }

    #[test]
    fn the_decision_looks_at_every_claim() {
        let mut clocks = Clocks::new(64);
        let last = clocks.clock().offsets()[63].channel;
        let index = clocks.received.index_of(last).unwrap();
        clocks.settled.0[index] = 0;
        let Verdict::Blocked(blocked) = clocks.decide(&clocks.in_bytes()) else {
            panic!("the last claim is not met")
        };
        assert_eq!((blocked.channel, blocked.met_offsets), (index, 63));
    }
}
