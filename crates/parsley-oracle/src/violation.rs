//! What an oracle finds wrong.

use std::fmt;

use thiserror::Error;

use crate::{Actor, Channel, Emission};

/// The rules of delivery, in the order in which a delivery is held against them; the last two are judged when all is said to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// What is delivered is a committed business record, on a channel that the actor consumes.
    Phantom,
    /// Nothing is delivered from below the position at which the actor joined the channel.
    BelowBaseline,
    /// A record is delivered to an actor at most once.
    Duplicate,
    /// The offsets delivered from one channel rise, also over a pause in consuming it.
    Fifo,
    /// Nothing is delivered that is part of the past of something delivered before.
    ReEntry,
    /// The past of a record is delivered before it, as far as the actor consumes it: each ancestor on a consumed channel, at or above the
    /// baseline there.
    CausalOrder,
    /// Each committed record on a consumed channel, at or above the baseline, is delivered in the end.
    Lost,
    /// Each send of a committed step is appended in the end.
    Unsent,
}

impl Rule {
    /// All rules, in their order.
    pub const ALL: [Self; 8] = [
        Self::Phantom,
        Self::BelowBaseline,
        Self::Duplicate,
        Self::Fifo,
        Self::ReEntry,
        Self::CausalOrder,
        Self::Lost,
        Self::Unsent,
    ];
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Phantom => "phantom",
            Self::BelowBaseline => "below baseline",
            Self::Duplicate => "duplicate",
            Self::Fifo => "fifo",
            Self::ReEntry => "re-entry",
            Self::CausalOrder => "causal order",
            Self::Lost => "lost",
            Self::Unsent => "unsent",
        })
    }
}

/// One broken rule. [`Oracle::explain`](crate::Oracle::explain) tells it with names.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{rule}: actor {}, channel {}, offset {}", actor.index(), channel.index(), Offset(*offset))]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Who was handed the record, or was not; under [`Rule::Unsent`] who sent it.
    pub actor: Actor,
    /// The record's channel.
    pub channel: Channel,
    /// The record's offset. `None` under [`Rule::Unsent`] alone.
    pub offset: Option<i64>,
    /// The record. `None` if there is none at that place.
    pub record: Option<Emission>,
    /// The other record of the pair: the missing ancestor ([`Rule::CausalOrder`]), the descendant that was delivered before
    /// ([`Rule::ReEntry`]), the record delivered last from the channel ([`Rule::Fifo`]).
    pub other: Option<Emission>,
    /// How the earlier of the pair came to be in the past of the later, both included; empty where no causes are concerned.
    pub path: Vec<Emission>,
}

struct Offset(Option<i64>);

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(offset) => write!(f, "{offset}"),
            None => f.write_str("none"),
        }
    }
}
