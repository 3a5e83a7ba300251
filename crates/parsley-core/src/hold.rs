//! Hold reports: what is held, and what each head waits for (`docs/protocol.md`, The decision).

use std::fmt;

use bytes::Bytes;

use crate::channel::{Channel, Offset};
use crate::clock::{Claim, OffsetClaim, SequenceClaim};
use crate::decide::{self, Causes};
use crate::input::View;
use crate::node::Node;
use crate::wire::ClockRef;

/// Why a claim is not met yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HoldCode {
    /// The claimed position lies above what this node was fed.
    NotFetched,
    /// The claimed position was fed and is itself held.
    HeldUpstream,
    /// No record of the claimed sender was delivered on the channel.
    SenderUnseen,
    /// Records of the claimed sender were delivered, not yet up to the sequence.
    SenderBehind,
}

impl HoldCode {
    /// Every code.
    pub const ALL: [Self; 4] = [
        Self::NotFetched,
        Self::HeldUpstream,
        Self::SenderUnseen,
        Self::SenderBehind,
    ];

    /// The code as operators see it. Stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFetched => "vc-hold-not-fetched",
            Self::HeldUpstream => "vc-hold-held-upstream",
            Self::SenderUnseen => "vc-hold-sender-unseen",
            Self::SenderBehind => "vc-hold-sender-behind",
        }
    }
}

impl fmt::Display for HoldCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One channel with held records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The channel.
    pub channel: Channel,
    /// The head's position.
    pub offset: Offset,
    /// How many records are held behind the head.
    pub behind: u64,
    /// Every claim of the head that is not met, offset claims first, in clock order. Empty when the head is deliverable and a drain has
    /// not reached it yet.
    pub waits: Vec<Wait>,
}

/// A claim that a head waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A position is not settled.
    Offset {
        /// The claim.
        claim: OffsetClaim,
        /// How far its channel is settled: `None` while nothing is known of it, -1 while its head stands at position 0.
        settled: Option<Offset>,
        /// Why it is not met.
        code: HoldCode,
    },
    /// A sender's sequence was not delivered.
    Sequence {
        /// The claim.
        claim: SequenceClaim,
        /// The highest delivered sequence of that sender.
        delivered: Option<i64>,
        /// Why it is not met.
        code: HoldCode,
    },
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

impl Node {
    /// The position of the first held record of each channel that has one, and how many are held there. Looks at nothing else: to be asked
    /// for as often as one likes.
    pub fn heads(&self) -> impl Iterator<Item = (Channel, Offset, u64)> {
        self.inputs.iter().filter_map(|input| {
            let head = input.queue.head()?;
            Some((input.channel, head.offset, input.queue.len()))
        })
    }

    /// The clock of a channel's first held record, canonically encoded; `None` when none is held.
    pub fn head_clock(&self, channel: Channel) -> Option<Bytes> {
        let mut inputs = self.inputs.iter();
        let input = inputs.find(|input| input.channel == channel)?;
        input.queue.head().map(|head| head.clock.clone())
    }

    /// Whether what a sequence claim names is among the records that are held: then it is not missing, and what stands first on its channel
    /// keeps it back.
    pub fn is_held(&self, claim: &SequenceClaim) -> bool {
        let mut inputs = self.inputs.iter();
        let input = inputs.find(|input| input.channel == claim.channel);
        let highest = input.and_then(|input| input.queue.highest_sequence(claim.sender));
        highest.is_some_and(|highest| highest >= claim.sequence)
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
                .map(|blocked| self.wait(blocked.channel, blocked.claim))
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
}

#[cfg(test)]
mod tests;
