//! What an oracle knows about one record.

use crate::set::EmissionSet;
use crate::{Actor, Channel};

/// One emission and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) creator: Actor,
    pub(crate) channel: Channel,
    pub(crate) key: Option<u64>,
    /// Where it was appended, once that is known.
    pub(crate) offset: Option<i64>,
    pub(crate) fate: Fate,
    /// Its creator's step, counted over those that committed.
    pub(crate) step: usize,
    /// What made its creator send it.
    pub(crate) sent: Sent,
    /// How many of its creator's inputs came before it.
    pub(crate) inputs_before: usize,
    /// How many of its creator's sends came before it.
    pub(crate) sends_before: usize,
    /// Everything that happened before it.
    pub(crate) past: EmissionSet,
}

/// What has become of the step that emitted a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is still open.
    Open,
    /// It is a fact.
    Committed,
    /// It never was.
    Aborted,
}

/// What made an actor send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The delivery that is its creator's input of that number.
    For { input: usize, of: Of },
    /// No delivery: a timer, or a client's own will.
    Unprompted,
}

/// What deliveries have in common whose sends may be ordered among each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// The key of their records.
    Key(Option<u64>),
    /// They are ticks of the actor's own.
    Ticks,
}
