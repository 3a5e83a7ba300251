//! Broken protocols: one rule taken out of the model, or bent.
//!
//! A judge of deliveries that never condemns anything proves nothing. Each variant breaks one rule of `docs/protocol.md` at
//! the place where the model keeps it, and every other rule holds. Whoever judges has to find each of them.

use std::fmt;
use std::str::FromStr;

macro_rules! broken {
    ($($(#[$wedges:ident])? $variant:ident = $name:literal: $about:literal;)*) => {
        /// A rule that a [`Model`](crate::Model) breaks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Broken {
            $(#[doc = concat!("`", $name, "`: ", $about, ".")] $variant,)*
        }

        impl Broken {
            /// Every variant, by the section of the protocol that has the rule.
            pub const ALL: &[Broken] = &[$(Broken::$variant,)*];

            /// Its name, as it is typed.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Broken::$variant => $name,)*
                }
            }

            /// What it does instead, in one line.
            pub const fn about(self) -> &'static str {
                match self {
                    $(Broken::$variant => $about,)*
                }
            }

            /// Whether what it breaks is the liveness: records are never delivered, and no order is wrong. Only a drain
            /// to the end can tell.
            pub const fn wedges(self) -> bool {
                match self {
                    $(Broken::$variant => false $(|| broken!(@$wedges))?,)*
                }
            }
        }
    };
    (@wedges) => { true };
}

broken! {
    // What moves fed_up_to.
    #[wedges] IgnorePositions = "ignore-positions": "a position advance moves nothing";
    LoseOffsetThree = "lose-offset-three": "the record at offset 3 of each channel is taken and never held";
    // The decision.
    Eager = "eager": "every claim counts as met";
    IgnoreOffsetClaims = "ignore-offset-claims": "every offset claim counts as met";
    IgnoreSequenceClaims = "ignore-sequence-claims": "every sequence claim counts as met";
    FedForSettled = "fed-for-settled": "an offset claim is met once the position was fed, though it may be held";
    OffByOneSettled = "off-by-one-settled": "an offset claim is met one position early";
    UndefinedSettledAsEverything = "undefined-settled-as-everything":
        "a channel of which nothing is known meets every offset claim";
    ReceivedForDelivered = "received-for-delivered":
        "a sequence claim is met once the send was received, though it may be held";
    #[wedges] ClaimsOnOwnChannelBlock = "claims-on-own-channel-block": "a record waits for claims on its own channel";
    #[wedges] UnreceivedChannelsBlock = "unreceived-channels-block":
        "a claim on a channel that is not received is never met";
    #[wedges] DeletedChannelsBlock = "deleted-channels-block": "a channel that was deleted is not settled to its end";
    // Order.
    BreakFifo = "break-fifo": "a record may overtake the blocked head in front of it";
    // Baselines and duplicates.
    RedeliverWhatWasFedAgain = "redeliver-what-was-fed-again":
        "a record that was delivered and is fed again is delivered again";
    CorruptClockAsEmpty = "corrupt-clock-as-empty": "a clock that does not decode claims nothing, and G1 is not raised";
    // The stamp.
    NoFoldAtDelivery = "no-fold-at-delivery": "the clock of a delivered record is not merged into the advertised term";
    FoldReceivedChannelsOnly = "fold-received-channels-only":
        "of a delivered record's clock only claims on received channels are merged";
    DropDeliveredTerm = "drop-delivered-term": "stamps lack the delivered term";
    DropAdvertisedTerm = "drop-advertised-term": "stamps lack the advertised term";
    DropCarriedTerm = "drop-carried-term": "stamps lack the carried term";
    DropOwnTerm = "drop-own-term": "stamps lack the own term";
    ForgetAcknowledgements = "forget-acknowledgements": "acknowledged sends do not enter the own term";
    #[wedges] ClaimTheUnacknowledged = "claim-the-unacknowledged":
        "a send is claimed as soon as it is stamped, before it is acknowledged";
    ReuseASequence = "reuse-a-sequence": "later sends of a step to a channel have the number of its first";
    // Watermark evidence.
    #[wedges] SettledForFedInEvidence = "settled-for-fed-in-evidence":
        "a watermark speaks only once everything below it is settled";
    EvidenceWithoutMark = "evidence-without-mark":
        "a watermark speaks for everything received so far, whatever its mark";
    EvidenceDespiteHeld = "evidence-despite-held": "a watermark speaks over a held record of the claimed sender";
    EvidenceOneEarly = "evidence-one-early": "a watermark speaks one position early";
    // State.
    KeepStateAfterAbort = "keep-state-after-abort": "what an aborted step did to the state is committed";
    ForgetHeldAtRestore = "forget-held-at-restore": "held records are gone after a restart, and count as delivered";
    ForgetHeldClocksAtRestore = "forget-held-clocks-at-restore": "held records claim nothing after a restart";
    ForgetSendSequencesAtRestore = "forget-send-sequences-at-restore": "send sequences count from 0 again after a restart";
    ForgetPastAtRestore = "forget-past-at-restore":
        "the delivered, the advertised and the carried term are empty after a restart";
    #[wedges] ForgetDeliveredMarksAtRestore = "forget-delivered-marks-at-restore":
        "which sends were delivered is not known any more after a restart";
    // Scope changes.
    JoinWithoutSeed = "join-without-seed": "a joining channel is read from its start, whatever was delivered";
    JoinWithoutEnd = "join-without-end": "a sequence claim in the delivered past gives a joining channel no seed";
    ForgetRemovedInput = "forget-removed-input": "what was delivered from a removed input is not carried";
    ForgetRemovedSink = "forget-removed-sink": "what was sent to a removed sink is not carried";
    DiscardHeldOfRemovedInput = "discard-held-of-removed-input":
        "a removed input's held records are thrown away, and G8 is not raised";
    // Truncation and its guards.
    TruncateAboveBound = "truncate-above-bound": "a truncation drops claims at its bound and one above it, too";
    IgnoreLostPositions = "ignore-lost-positions": "records that retention destroyed count as settled, and G10 is not raised";
    IgnoreDeletedHeld = "ignore-deleted-held":
        "a deleted channel is settled to its end though records of it are held, and G9 is not raised";
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that no broken protocol has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownBroken {
    /// The name that was given.
    pub name: String,
}

impl fmt::Display for UnknownBroken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no broken protocol has the name {:?}", self.name)
    }
}

impl std::error::Error for UnknownBroken {}

impl FromStr for Broken {
    type Err = UnknownBroken;

    fn from_str(name: &str) -> Result<Broken, UnknownBroken> {
        let named = Broken::ALL.iter().find(|broken| broken.as_str() == name);
        named.copied().ok_or_else(|| UnknownBroken {
            name: name.to_owned(),
        })
    }
}
