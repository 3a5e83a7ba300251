//! What had to wait, and for what.

use std::collections::BTreeMap;
use std::sync::Arc;

use parsley::core::{Offset, Wait};
use parsley::embedded::{DeliveryEvent, HoldEvent, NamedWait};

use super::command::Command;
use super::judge::{Handed, Verdict};
use super::topology::At;

/// A record that had to wait and has been delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The stage.
    pub stage: Arc<str>,
    /// The record.
    pub record: At,
    /// Its key.
    pub key: String,
    /// What it had to wait for: the claim that blocked it, or the record ahead of it.
    pub until: Until,
    /// When the record arrived and was delivered.
    pub handed: Handed,
    /// What it came of, if that reaches the stage as well.
    pub cause: Option<Cause>,
    /// When that arrived and was delivered.
    pub cause_handed: Option<Handed>,
    /// Whether it would have come before its cause in the order of arrival.
    pub is_prevented: bool,
}

/// The command that a record came of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Where it stands.
    pub at: At,
    /// What it asks for, where it has been delivered.
    pub command: Option<Command>,
}

/// What a record had to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// All records of a channel up to this one.
    Delivered {
        /// The one that blocked.
        cause: At,
        /// Why it was not there.
        code: &'static str,
    },
    /// The sends of a sender to a channel.
    Sent {
        /// The topic and partition, and the sender.
        channel: String,
        /// Up to which.
        sequence: i64,
        /// Why they were not there.
        code: &'static str,
    },
    /// The record ahead of it on its channel, which waited itself.
    Ahead(At),
}

impl std::fmt::Display for Until {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Delivered { cause, .. } => write!(f, "{cause}"),
            Self::Sent {
                channel, sequence, ..
            } => write!(f, "{channel} send {sequence}"),
            Self::Ahead(at) => write!(f, "{at}"),
        }
    }
}

type Key = (Arc<str>, i32, Arc<str>, Offset);

/// Follows what is held.
#[derive(Debug, Default)]
pub struct Holds {
    now: BTreeMap<Key, Until>,
    /// How many records had to wait.
    pub held: u64,
    /// The most that waited at once.
    pub held_max: u64,
}

impl Holds {
    /// A record has to wait.
    pub fn held(&mut self, event: &HoldEvent) {
        let until = match event.waits.first() {
            Some(wait) if event.offset == event.head => Until::of(wait),
            _ => Until::Ahead(At {
                topic: event.topic.to_string(),
                partition: event.channel.partition,
                offset: event.head,
            }),
        };
        let key = (
            Arc::clone(&event.stage),
            event.partition,
            Arc::clone(&event.topic),
            event.offset,
        );
        self.now.insert(key, until);
        self.held += 1;
        self.held_max = self.held_max.max(self.now.len() as u64);
    }

    /// A record is delivered: what it waited for, if it had to.
    pub fn delivered(
        &mut self,
        event: &DeliveryEvent,
        cause: Option<Cause>,
        verdict: &Verdict,
    ) -> Option<Held> {
        if self.now.is_empty() {
            return None;
        }
        let key = (
            Arc::clone(&event.stage),
            event.partition,
            Arc::clone(&event.topic),
            event.offset,
        );
        let until = self.now.remove(&key)?;
        Some(Held {
            stage: key.0,
            record: At {
                topic: key.2.to_string(),
                partition: event.channel.partition,
                offset: key.3,
            },
            key: String::from_utf8_lossy(event.key.as_deref().unwrap_or_default()).into_owned(),
            until,
            handed: verdict.handed,
            cause,
            cause_handed: verdict.cause,
            is_prevented: verdict.is_prevented(),
        })
    }
}

impl Until {
    fn of(NamedWait { topic, wait, .. }: &NamedWait) -> Self {
        match wait {
            Wait::Offset { claim, code, .. } => Self::Delivered {
                cause: At {
                    topic: topic.to_string(),
                    partition: claim.channel.partition,
                    offset: claim.offset,
                },
                code: code.as_str(),
            },
            Wait::Sequence { claim, code, .. } => Self::Sent {
                channel: format!("{topic}:{} of {}", claim.channel.partition, claim.sender),
                sequence: claim.sequence,
                code: code.as_str(),
            },
        }
    }
}
