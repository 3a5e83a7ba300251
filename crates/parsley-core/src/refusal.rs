//! Refusals: the guards that stop a node rather than guess (`docs/protocol.md`, Guards).

use std::fmt;

use crate::channel::{Channel, Offset};

/// A guard's stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RefusalCode {
    /// G1: a clock is present and not decodable.
    CorruptClock,
    /// G2: sender and sequence headers are malformed, unpaired, or a protocol header is given twice.
    CorruptSender,
    /// G3: input on a channel outside the declaration.
    UnconsumedChannel,
    /// G4: a channel was fed at or below what it was fed before in this execution.
    OutOfOrderFeed,
    /// G5: an emission to a sink that was not declared.
    UndeclaredSink,
    /// G6: a declared or just removed sink does not resolve.
    MissingSink,
    /// G7: stored state cannot be trusted.
    CorruptState,
    /// G8: the declaration removed an input that still holds records.
    RemovedInputHeld,
    /// G9: a received topic is gone while records of it are held.
    DeletedInputHeld,
    /// G10: retention destroyed what was not delivered.
    PositionsLost,
    /// G11: the group has positions and the state behind them is empty.
    StateLost,
    /// G12: a declared topic's identity changed while the node ran.
    IdentityChanged,
    /// G13: an encoded clock exceeds the metadata budget.
    ClockTooWide,
    /// G14: logic emitted a header in the reserved namespace.
    ReservedHeader,
    /// G15: the partition count no longer matches the state.
    TaskWidth,
    /// G16: the group's position lies above what the state was fed.
    PositionsAhead,
}

impl RefusalCode {
    /// Every code, in guard order.
    pub const ALL: [Self; 16] = [
        Self::CorruptClock,
        Self::CorruptSender,
        Self::UnconsumedChannel,
        Self::OutOfOrderFeed,
        Self::UndeclaredSink,
        Self::MissingSink,
        Self::CorruptState,
        Self::RemovedInputHeld,
        Self::DeletedInputHeld,
        Self::PositionsLost,
        Self::StateLost,
        Self::IdentityChanged,
        Self::ClockTooWide,
        Self::ReservedHeader,
        Self::TaskWidth,
        Self::PositionsAhead,
    ];

    /// The code as operators see it. Stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CorruptClock => "vc-corrupt-clock",
            Self::CorruptSender => "vc-corrupt-sender",
            Self::UnconsumedChannel => "vc-unconsumed-channel",
            Self::OutOfOrderFeed => "vc-out-of-order-feed",
            Self::UndeclaredSink => "vc-undeclared-sink",
            Self::MissingSink => "vc-missing-sink",
            Self::CorruptState => "vc-corrupt-state",
            Self::RemovedInputHeld => "vc-removed-input-held",
            Self::DeletedInputHeld => "vc-deleted-input-held",
            Self::PositionsLost => "vc-positions-lost",
            Self::StateLost => "vc-state-lost",
            Self::IdentityChanged => "vc-identity-changed",
            Self::ClockTooWide => "vc-clock-too-wide",
            Self::ReservedHeader => "vc-reserved-header",
            Self::TaskWidth => "vc-task-width",
            Self::PositionsAhead => "vc-positions-ahead",
        }
    }

    /// What an operator does about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::CorruptClock => {
                "find the producer that wrote this header, stop it, and move the record out of the way by hand"
            }
            Self::CorruptSender => {
                "find the producer that wrote these headers, stop it, and move the record out of the way by hand"
            }
            Self::UnconsumedChannel => "declare the topic as an input, or stop feeding it",
            Self::OutOfOrderFeed => {
                "restart the node; if it comes back, the host feeds a channel out of order"
            }
            Self::UndeclaredSink => "declare the sink on the stage",
            Self::MissingSink => {
                "create the topic, or wait until the cluster can resolve it, and start again"
            }
            Self::CorruptState => {
                "restore the ordering state from its changelog or a backup; do not edit it"
            }
            Self::RemovedInputHeld => "declare the input again, let it drain, then remove it",
            Self::DeletedInputHeld => {
                "what is held can no longer be ordered: reset the application, or restore the topic from a backup"
            }
            Self::PositionsLost => {
                "records were deleted before they were delivered: lengthen retention, then reset the application's positions and state"
            }
            Self::StateLost => {
                "restore the ordering state, or reset the group's positions along with it"
            }
            Self::IdentityChanged => {
                "a declared topic was deleted and created again: restart the node"
            }
            Self::ClockTooWide => {
                "raise the metadata budget, or find why the clock names so many channels"
            }
            Self::ReservedHeader => "rename the header that the logic emits",
            Self::TaskWidth => "restore the former partition count, or reset the application",
            Self::PositionsAhead => {
                "the group's positions were moved by hand: put them back, or reset the state along with them"
            }
        }
    }
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a node stopped. It stops as a whole: after a refusal on one channel, a later send on another could claim too little.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}{}: {found}; {}", Coordinate(*channel, *offset), code.remedy())]
pub struct Refusal {
    /// Which guard.
    pub code: RefusalCode,
    /// The channel it is about, if it is about one.
    pub channel: Option<Channel>,
    /// The position it is about, if it is about one.
    pub offset: Option<Offset>,
    /// What was found.
    pub found: String,
}

impl Refusal {
    /// A refusal about a record or position.
    pub fn at(
        code: RefusalCode,
        channel: Channel,
        offset: Offset,
        found: impl Into<String>,
    ) -> Self {
        Self {
            code,
            channel: Some(channel),
            offset: Some(offset),
            found: found.into(),
        }
    }

    /// A refusal about a channel as a whole.
    pub fn on(code: RefusalCode, channel: Channel, found: impl Into<String>) -> Self {
        Self {
            code,
            channel: Some(channel),
            offset: None,
            found: found.into(),
        }
    }

    /// A refusal about the node as a whole.
    pub fn of_node(code: RefusalCode, found: impl Into<String>) -> Self {
        Self {
            code,
            channel: None,
            offset: None,
            found: found.into(),
        }
    }
}

struct Coordinate(Option<Channel>, Option<Offset>);

impl fmt::Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Some(channel), Some(offset)) => write!(f, " at {channel}@{offset}"),
            (Some(channel), None) => write!(f, " on {channel}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
