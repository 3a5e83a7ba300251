//! What had to wait, and for what: of one task, from its entries in the account.

use std::collections::BTreeMap;
use std::sync::Arc;

use parsley::AuditedWait;
use parsley::core::{Channel, Offset, Wait};

use super::command::Command;
use super::judge::Handed;
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
    /// No record: the step that received it was full, and the next one had to do it.
    NextStep,
}

impl Until {
    /// What a record waited for that stood somewhere on its channel behind the head, or was the head and waited for these.
    pub fn of(record: &At, head: Offset, waits: &[AuditedWait]) -> Self {
        if head != record.offset {
            return Self::Ahead(At {
                offset: head,
                ..record.clone()
            });
        }
        let Some(AuditedWait { topic, wait }) = waits.first() else {
            return Self::NextStep;
        };
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

impl std::fmt::Display for Until {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Delivered { cause, .. } => write!(f, "{cause}"),
            Self::Sent {
                channel, sequence, ..
            } => write!(f, "{channel} send {sequence}"),
            Self::Ahead(at) => write!(f, "{at}"),
            Self::NextStep => f.write_str("the next step"),
        }
    }
}

/// A record that waits now.
#[derive(Debug)]
pub struct Waiting {
    /// Which one of the task's arrivals it was.
    pub arrival: u64,
    /// What it waits for.
    pub until: Until,
}

/// Follows what a task holds, and numbers its arrivals over all its executions.
#[derive(Debug, Default)]
pub struct Holds {
    now: BTreeMap<(Channel, Offset), Waiting>,
    /// The most that waited at once.
    pub max: u64,
    /// The execution whose arrivals are being counted.
    execution: Option<Offset>,
    /// How many records earlier executions received.
    before: u64,
    /// How many this one has received.
    arrived: u64,
}

impl Holds {
    /// Takes note of an arrival: the number among those of its execution becomes one among all of the task.
    pub fn arrived(&mut self, execution: Offset, arrival: u64) -> u64 {
        if self.execution != Some(execution) {
            self.execution = Some(execution);
            self.before += std::mem::take(&mut self.arrived);
        }
        self.arrived += 1;
        self.before.saturating_add(arrival)
    }

    /// A record has to wait.
    pub fn held(&mut self, channel: Channel, offset: Offset, waiting: Waiting) {
        self.now.insert((channel, offset), waiting);
        self.max = self.max.max(self.now.len() as u64);
    }

    /// How many wait now.
    pub fn waiting(&self) -> usize {
        self.now.len()
    }

    /// A record that had to wait is delivered.
    pub fn released(&mut self, channel: Channel, offset: Offset) -> Option<Waiting> {
        self.now.remove(&(channel, offset))
    }
}

#[cfg(test)]
mod tests {
    use parsley::core::TopicId;

    use super::*;

    /// Held records arrive in one execution and are delivered in another, and every execution counts from 0.
    #[test]
    fn arrivals_are_counted_over_all_executions() {
        let mut holds = Holds::default();
        let mut arrivals = Vec::new();
        for (execution, arrival) in [(4, 1), (4, 0), (4, 2), (9, 0), (9, 1), (30, 1), (30, 0)] {
            arrivals.push(holds.arrived(execution, arrival));
        }
        assert_eq!(arrivals, [1, 0, 2, 3, 4, 6, 5]);
    }

    #[test]
    fn the_most_that_waited_at_once_is_kept() {
        let channel = TopicId::of_name("views").partition(0);
        let mut holds = Holds::default();
        let waiting = |arrival| Waiting {
            arrival,
            until: Until::NextStep,
        };
        holds.held(channel, 3, waiting(7));
        holds.held(channel, 4, waiting(8));
        assert_eq!(
            holds.released(channel, 3).map(|waiting| waiting.arrival),
            Some(7)
        );
        assert!(holds.released(channel, 3).is_none());
        holds.held(channel, 5, waiting(9));
        assert_eq!(holds.max, 2);
    }
}
