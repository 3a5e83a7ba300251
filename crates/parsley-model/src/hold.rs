//! Hold reports.

use crate::id::{Channel, Sender};

/// One unmet claim of a held head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// An offset claim.
    Offset {
        /// The channel it names.
        on: Channel,
        /// The position it names.
        offset: i64,
        /// How far that channel is settled.
        settled: Option<i64>,
        /// The report's code.
        code: &'static str,
    },
    /// A sequence claim.
    Sequence {
        /// The channel it names.
        on: Channel,
        /// The sender it names.
        sender: Sender,
        /// The send it names.
        sequence: i64,
        /// The highest send of the sender that was delivered there.
        delivered: Option<i64>,
        /// The report's code.
        code: &'static str,
    },
}

impl Wait {
    /// The channel that is waited for.
    pub fn on(&self) -> Channel {
        match *self {
            Wait::Offset { on, .. } | Wait::Sequence { on, .. } => on,
        }
    }
}

/// One held head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Its channel.
    pub on: Channel,
    /// Its offset.
    pub offset: i64,
    /// How many records wait behind it.
    pub behind: usize,
    /// Its unmet claims, offset claims first, each section in clock order.
    pub waits: Vec<Wait>,
}
