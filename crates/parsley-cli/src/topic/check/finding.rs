//! What was found wrong.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::world::{Place, RecordNo, TaskNo};

/// What kind of wrong it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Offsets of a channel do not rise: in a dump, or among the deliveries of a task.
    ChannelOrder,
    /// A record stands in one dump twice.
    RepeatedRecord,
    /// Two lines tell different things of one record.
    Contradiction,
    /// A record has protocol headers that cannot be read.
    UnreadableHeader,
    /// A sender's sequences on a channel do not rise with the offsets.
    SequenceOrder,
    /// A sender has given one sequence to two records of a channel.
    RepeatedSequence,
    /// A sequence is missing.
    SequenceGap,
    /// A later record of a sender claims less than an earlier one.
    ClockShrank,
    /// A task was delivered a record twice.
    DeliveredTwice,
    /// A task's deliveries are not numbered 0, 1, 2 and so on.
    DeliveryNumber,
    /// A record was delivered after one that claims it.
    DeliveredAfterClaim,
    /// A record was delivered after one that really came of it.
    DeliveredAfterEffect,
    /// A record that had to be delivered before another never was.
    NotDelivered,
    /// A record was passed over: later ones of its channel were delivered.
    Skipped,
    /// A record was delivered that a dump which covers its offset does not have.
    NotInLog,
    /// A record was sent for two deliveries.
    SentTwice,
    /// A record was delivered before it was sent.
    DeliveredBeforeSent,
    /// A record's clock does not claim what its sender had been delivered.
    StampIncomplete,
}

impl Kind {
    /// Its name, which is stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ChannelOrder => "channel-order",
            Self::RepeatedRecord => "repeated-record",
            Self::Contradiction => "contradiction",
            Self::UnreadableHeader => "unreadable-header",
            Self::SequenceOrder => "sequence-order",
            Self::RepeatedSequence => "repeated-sequence",
            Self::SequenceGap => "sequence-gap",
            Self::ClockShrank => "clock-shrank",
            Self::DeliveredTwice => "delivered-twice",
            Self::DeliveryNumber => "delivery-number",
            Self::DeliveredAfterClaim => "delivered-after-claim",
            Self::DeliveredAfterEffect => "delivered-after-effect",
            Self::NotDelivered => "not-delivered",
            Self::Skipped => "skipped",
            Self::NotInLog => "not-in-log",
            Self::SentTwice => "sent-twice",
            Self::DeliveredBeforeSent => "delivered-before-sent",
            Self::StampIncomplete => "stamp-incomplete",
        }
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Something wrong.
#[derive(Clone, Debug)]
pub struct Finding {
    pub kind: Kind,
    /// The line that shows it.
    pub place: Place,
    /// What was found.
    pub found: String,
    /// Whose deliveries it is about.
    pub task: Option<TaskNo>,
    /// The record that it is about.
    pub record: Option<RecordNo>,
    /// What it contradicts: a record if it is another one, and the line that tells it.
    pub other: Option<(Option<RecordNo>, Place)>,
}

impl Finding {
    pub fn new(kind: Kind, place: Place, found: String) -> Self {
        Self {
            kind,
            place,
            found,
            task: None,
            record: None,
            other: None,
        }
    }
}

/// What was found: all counted, and the first ones kept.
#[derive(Debug)]
pub struct Findings {
    limit: usize,
    pub kept: Vec<Finding>,
    pub by_kind: BTreeMap<Kind, u64>,
}

impl Findings {
    /// Keeps at most so many.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            kept: Vec::new(),
            by_kind: BTreeMap::new(),
        }
    }

    pub fn add(&mut self, finding: Finding) {
        *self.by_kind.entry(finding.kind).or_default() += 1;
        if self.kept.len() < self.limit {
            self.kept.push(finding);
        }
    }

    pub fn total(&self) -> u64 {
        self.by_kind.values().sum()
    }
}
