//! What a harness can get wrong.

use thiserror::Error;

use crate::{Actor, Emission};

/// The harness told the oracle something that cannot have happened. Nothing was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Misuse {
    /// A record was said to be at a negative offset.
    #[error("emission {} cannot be at offset {offset}: offsets are not negative", emission.index())]
    NegativeOffset {
        /// The record.
        emission: Emission,
        /// The offset.
        offset: i64,
    },
    /// A record was said to be at two offsets.
    #[error("emission {} cannot be at offset {offset}: it is at {before}", emission.index())]
    AppendedTwice {
        /// The record.
        emission: Emission,
        /// The offset it has.
        before: i64,
        /// The offset it was given now.
        offset: i64,
    },
    /// Two records were said to be at one place.
    #[error("emission {} cannot be at offset {offset}: emission {} is there", emission.index(), holder.index())]
    PlaceTaken {
        /// The record.
        emission: Emission,
        /// The offset.
        offset: i64,
        /// The record that is there.
        holder: Emission,
    },
    /// A send was put down to a record that its actor was not handed in the open step.
    #[error("emission {} cannot be the cause: actor {} was not handed it in this step", cause.index(), actor.index())]
    NotACause {
        /// Who sends.
        actor: Actor,
        /// The supposed cause.
        cause: Emission,
    },
}
