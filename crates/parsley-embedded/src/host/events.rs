//! What a host tells an observer: deliveries in their order, and records that have to wait.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use parsley_core::{Channel, Hold, Offset, TopicId, Wait};

/// A delivery, reported after the step that it belongs to has been committed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliveryEvent {
    /// The stage.
    pub stage: Arc<str>,
    /// The stage's partition.
    pub partition: i32,
    /// The record's topic.
    pub topic: Arc<str>,
    /// The record's channel.
    pub channel: Channel,
    /// The record's offset.
    pub offset: Offset,
    /// The record's timestamp.
    pub timestamp_ms: i64,
    /// The record's key.
    pub key: Option<Bytes>,
    /// The record's clock, canonically encoded: the empty clock if it came without one.
    pub clock: Bytes,
    /// Whether it outlived the drain, or the full step, that followed its receipt. A record that a full step did not reach counts as held,
    /// though it waited for no other.
    pub was_held: bool,
    /// Which one of the records received by this task in this execution it was, from 0: the order of arrival. `None` for a record that
    /// an earlier execution received.
    pub arrival: Option<u64>,
}

/// A record that was received and could not be delivered at once. Reported after the commit of the step that ends the drain
/// that followed its receipt: the step that received it, or, if that was full, a later one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HoldEvent {
    /// The stage.
    pub stage: Arc<str>,
    /// The stage's partition.
    pub partition: i32,
    /// The record's topic.
    pub topic: Arc<str>,
    /// The record's channel.
    pub channel: Channel,
    /// The record's offset.
    pub offset: Offset,
    /// Which one of the records received by this task in this execution it was, from 0.
    pub arrival: u64,
    /// The record that stands first on the channel: this one, or the one that it has to stay behind.
    pub head: Offset,
    /// What that one waits for.
    pub waits: Vec<NamedWait>,
}

/// A claim that a held record waits for, with the name of its topic.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedWait {
    /// The topic claimed on. A claim that blocks is always on an input.
    pub topic: Arc<str>,
    /// The claim, how far it is met, and why not further.
    pub wait: Wait,
}

/// What stands first on a channel and cannot be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedHold {
    /// The channel's topic.
    pub topic: Arc<str>,
    /// The channel.
    pub channel: Channel,
    /// The offset of the record.
    pub offset: Offset,
    /// How many records stand behind it.
    pub behind: u64,
    /// What it waits for.
    pub waits: Vec<NamedWait>,
}

/// What a task holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskHolds {
    /// The stage.
    pub stage: Arc<str>,
    /// The stage's partition.
    pub partition: i32,
    /// One entry for each channel that holds records, in channel order.
    pub holds: Vec<NamedHold>,
}

impl NamedHold {
    pub(crate) fn new(hold: Hold, name_of: impl Fn(TopicId) -> Arc<str>) -> Self {
        let name = |wait: Wait| NamedWait {
            topic: name_of(wait.channel().topic),
            wait,
        };
        Self {
            topic: name_of(hold.channel.topic),
            channel: hold.channel,
            offset: hold.offset,
            behind: hold.behind,
            waits: hold.waits.into_iter().map(name).collect(),
        }
    }
}

/// `payments:0@7 (3 more behind it) waits for orders:0 up to 9, settled up to 4 (vc-hold-not-fetched)`.
impl fmt::Display for NamedHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}@{}",
            self.topic, self.channel.partition, self.offset
        )?;
        if self.behind > 0 {
            write!(f, " ({} more behind it)", self.behind)?;
        }
        for (index, wait) in self.waits.iter().enumerate() {
            write!(
                f,
                "{} {wait}",
                if index == 0 { " waits for" } else { " and for" }
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for NamedWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.topic, self.wait.channel().partition)?;
        match self.wait {
            Wait::Offset {
                claim,
                settled,
                code,
            } => {
                write!(f, " up to {}", claim.offset)?;
                match settled {
                    Some(settled) => write!(f, ", settled up to {settled} ({code})"),
                    None => write!(f, ", of which nothing is known ({code})"),
                }
            }
            Wait::Sequence {
                claim,
                delivered,
                code,
            } => {
                write!(f, ", sends of {} up to {}", claim.sender, claim.sequence)?;
                match delivered {
                    Some(delivered) => write!(f, ", delivered up to {delivered} ({code})"),
                    None => write!(f, ", none of which was delivered ({code})"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parsley_core::{HoldCode, OffsetClaim, SenderId, SequenceClaim};

    #[test]
    fn a_hold_reads_as_a_sentence() {
        let (orders, payments) = (
            TopicId::of_name("orders").partition(0),
            TopicId::of_name("payments").partition(2),
        );
        let sender = SenderId::of_name("alice");
        let hold = Hold {
            channel: payments,
            offset: 7,
            behind: 3,
            waits: vec![
                Wait::Offset {
                    claim: OffsetClaim {
                        channel: orders,
                        offset: 9,
                    },
                    settled: Some(4),
                    code: HoldCode::NotFetched,
                },
                Wait::Sequence {
                    claim: SequenceClaim {
                        channel: orders,
                        sender,
                        sequence: 1,
                    },
                    delivered: None,
                    code: HoldCode::SenderUnseen,
                },
            ],
        };
        let name_of = |topic| {
            if topic == orders.topic {
                "orders".into()
            } else {
                "payments".into()
            }
        };
        assert_eq!(
            NamedHold::new(hold, name_of).to_string(),
            format!(
                "payments:2@7 (3 more behind it) waits for orders:0 up to 9, settled up to 4 (vc-hold-not-fetched) and for \
                 orders:0, sends of {sender} up to 1, none of which was delivered (vc-hold-sender-unseen)"
            )
        );
    }
}
