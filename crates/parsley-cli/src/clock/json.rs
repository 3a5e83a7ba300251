//! A clock as JSON.

use std::io::{self, Write};

use parsley_core::{Channel, Clock, OffsetClaim, SenderId, SequenceClaim, TopicId};
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use crate::object::{self, Misshapen, Object};

/// A line of JSON is not a clock.
#[derive(Debug, thiserror::Error)]
pub enum JsonFault {
    /// It is not JSON, or of another shape.
    #[error(transparent)]
    Shape(#[from] Misshapen),
    /// Two entries of a section claim on the same key.
    #[error("{section}: {key} is listed twice")]
    Repeated {
        /// `offsets` or `sequences`.
        section: &'static str,
        /// The channel, or channel and sender.
        key: String,
    },
}

/// A clock, in the order of its entries.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockJson {
    #[serde(default)]
    offsets: Vec<Object<OffsetJson>>,
    #[serde(default)]
    sequences: Vec<Object<SequenceJson>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OffsetJson {
    #[serde(deserialize_with = "object::uuid")]
    topic: Uuid,
    #[serde(deserialize_with = "partition")]
    partition: i32,
    #[serde(deserialize_with = "position")]
    offset: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SequenceJson {
    #[serde(deserialize_with = "object::uuid")]
    topic: Uuid,
    #[serde(deserialize_with = "partition")]
    partition: i32,
    #[serde(deserialize_with = "object::uuid")]
    sender: Uuid,
    #[serde(deserialize_with = "position")]
    sequence: i64,
}

impl ClockJson {
    /// A clock's entries, in clock order.
    pub fn of(clock: &Clock) -> Self {
        let offsets = clock.offsets().iter().map(|claim| {
            Object(OffsetJson {
                topic: claim.channel.topic.0.uuid(),
                partition: claim.channel.partition,
                offset: claim.offset,
            })
        });
        let sequences = clock.sequences().iter().map(|claim| {
            Object(SequenceJson {
                topic: claim.channel.topic.0.uuid(),
                partition: claim.channel.partition,
                sender: claim.sender.0.uuid(),
                sequence: claim.sequence,
            })
        });
        Self {
            offsets: offsets.collect(),
            sequences: sequences.collect(),
        }
    }

    /// The clock; the entries may stand in any order.
    pub fn into_clock(self) -> Result<Clock, JsonFault> {
        let mut offsets = Vec::with_capacity(self.offsets.len());
        for Object(entry) in self.offsets {
            let channel = Channel {
                topic: TopicId::from_uuid(entry.topic),
                partition: entry.partition,
            };
            offsets.push(OffsetClaim {
                channel,
                offset: entry.offset,
            });
        }
        let mut sequences = Vec::with_capacity(self.sequences.len());
        for Object(entry) in self.sequences {
            let channel = Channel {
                topic: TopicId::from_uuid(entry.topic),
                partition: entry.partition,
            };
            let sender = SenderId::from_uuid(entry.sender);
            sequences.push(SequenceClaim {
                channel,
                sender,
                sequence: entry.sequence,
            });
        }
        offsets.sort_unstable();
        sequences.sort_unstable();
        if let Some(pair) = offsets
            .windows(2)
            .find(|pair| pair[0].channel == pair[1].channel)
        {
            return Err(JsonFault::Repeated {
                section: "offsets",
                key: pair[0].channel.to_string(),
            });
        }
        let key = |claim: &SequenceClaim| (claim.channel, claim.sender);
        if let Some(pair) = sequences
            .windows(2)
            .find(|pair| key(&pair[0]) == key(&pair[1]))
        {
            let (channel, sender) = key(&pair[0]);
            return Err(JsonFault::Repeated {
                section: "sequences",
                key: format!("{channel} of {sender}"),
            });
        }
        Ok(Clock::from_claims(offsets, sequences))
    }
}

/// Writes a clock as one line, its entries in clock order.
pub fn write(clock: &Clock, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &ClockJson::of(clock))?;
    writeln!(out)
}

/// Reads a clock from a line; its entries may stand in any order.
pub fn read(line: &str) -> Result<Clock, JsonFault> {
    let Object(json) = object::read::<Object<ClockJson>>(line)?;
    json.into_clock()
}

fn partition<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    object::whole(deserializer, 0, i32::MAX.into())
}

fn position<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    object::whole(deserializer, 0, i64::MAX.into())
}
