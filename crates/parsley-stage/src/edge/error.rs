//! What a client outside of the stages cannot take up, or send.

use parsley_core::wire::CorruptHeaders;
use parsley_core::{Channel, Offset};

/// A record cannot be taken up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// Its partition or its offset is negative.
    #[error("{channel}@{offset} is no place of a record: take up records as they were read")]
    NoPlace {
        /// The channel.
        channel: Channel,
        /// The offset.
        offset: Offset,
    },
    /// Its protocol headers cannot be read (guards G1, G2).
    #[error(
        "the protocol headers of {channel}@{offset} cannot be read: {why}; a stage that is fed this record stops, find the producer that wrote it"
    )]
    Corrupt {
        /// The record's channel.
        channel: Channel,
        /// Its offset.
        offset: Offset,
        /// What is wrong with them.
        why: CorruptHeaders,
    },
    /// Its clock is wider than the metadata budget (guard G13).
    #[error(
        "the clock of {channel}@{offset} has {found} bytes, and the metadata budget is {budget}: find why it names so many channels"
    )]
    TooWide {
        /// The record's channel.
        channel: Channel,
        /// Its offset.
        offset: Offset,
        /// The clock's length in bytes.
        found: usize,
        /// The budget in bytes.
        budget: usize,
    },
}

/// A produced record cannot be taken up: it is not known where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a record on {channel} was acknowledged at offset {offset}, which is none: produce with acks=all, and take up what was acknowledged"
)]
pub struct ProducedError {
    /// The channel.
    pub channel: Channel,
    /// The offset given.
    pub offset: Offset,
}

/// A record cannot be stamped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StampError {
    /// There is a header of a reserved name already.
    #[error(
        "there is a header {name} already, of a reserved name: copy the headers of a consumed record without those, and observe the record"
    )]
    Reserved {
        /// Its name.
        name: String,
    },
    /// The clock is wider than the metadata budget (guard G13).
    #[error(
        "the clock has {found} bytes, and the metadata budget is {budget}: every stage that is fed it would stop; forget topics that are gone"
    )]
    TooWide {
        /// Its length in bytes.
        found: usize,
        /// The budget in bytes.
        budget: usize,
    },
}
