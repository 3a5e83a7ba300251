//! A clock as JSON.

use std::io::{self, Write};

use parsley_core::{Channel, Clock, OffsetClaim, SenderId, SequenceClaim, TopicId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::object::{self, Object};

/// A line of JSON is not a clock.
#[derive(Debug, thiserror::Error)]
pub enum JsonFault {
    /// It is not JSON, or of another shape.
    #[error("column {column}: {reason}")]
    Shape {
        /// Where in the line, from 1.
        column: usize,
        /// What was found and what was expected.
        reason: String,
    },
    /// A field that counts from 0 is below it.
    #[error("{section}[{index}]: {field} is {found}, expected at least 0")]
    Negative {
        /// `offsets` or `sequences`.
        section: &'static str,
        /// Which entry, from 0.
        index: usize,
        /// Which field.
        field: &'static str,
        /// Its value.
        found: i64,
    },
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
    topic: Uuid,
    partition: i32,
    offset: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SequenceJson {
    topic: Uuid,
    partition: i32,
    sender: Uuid,
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
}

/// Writes a clock as one line, its entries in clock order.
pub fn write(clock: &Clock, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &ClockJson::of(clock))?;
    writeln!(out)
}

/// Reads a clock from a line; its entries may stand in any order.
pub fn read(line: &str) -> Result<Clock, JsonFault> {
    let Object(json) = serde_json::from_str::<Object<ClockJson>>(line).map_err(|error| {
        let (reason, column) = object::fault(&error);
        JsonFault::Shape { column, reason }
    })?;
    let mut offsets = Vec::with_capacity(json.offsets.len());
    for (index, Object(entry)) in json.offsets.into_iter().enumerate() {
        check("offsets", index, "partition", entry.partition.into())?;
        check("offsets", index, "offset", entry.offset)?;
        let channel = Channel {
            topic: TopicId::from_uuid(entry.topic),
            partition: entry.partition,
        };
        offsets.push(OffsetClaim {
            channel,
            offset: entry.offset,
        });
    }
    let mut sequences = Vec::with_capacity(json.sequences.len());
    for (index, Object(entry)) in json.sequences.into_iter().enumerate() {
        check("sequences", index, "partition", entry.partition.into())?;
        check("sequences", index, "sequence", entry.sequence)?;
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

fn check(
    section: &'static str,
    index: usize,
    field: &'static str,
    found: i64,
) -> Result<(), JsonFault> {
    if found < 0 {
        Err(JsonFault::Negative {
            section,
            index,
            field,
            found,
        })
    } else {
        Ok(())
    }
}
