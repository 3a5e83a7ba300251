//! The lines that are judged: dumped records, deliveries of a trace, entries of an account of deliveries.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use parsley::{AuditRecord, Audited};
use parsley_core::wire::{self, CorruptClock};
use parsley_core::{Channel, Clock, SenderId, TopicId};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::clock::{ClockJson, JsonFault};
use crate::object::{self, Misshapen, Object};
use crate::plain::clipped;

mod told;

pub use told::Told;

/// What a line says.
#[derive(Debug)]
pub enum Line<'a> {
    /// A record of a topic.
    Dumped(Dumped<'a>),
    /// A delivery, as a trace tells it.
    Delivered(Delivered<'a>),
}

/// A record as `parsley topic dump` prints it.
#[derive(Debug)]
pub struct Dumped<'a> {
    pub topic: Cow<'a, str>,
    pub channel: Channel,
    pub offset: i64,
    /// What its protocol headers say; `None` when they cannot be read.
    pub stamp: Option<Stamp>,
    /// Whether it is known to be committed.
    pub is_committed: bool,
    /// A digest of what the record is, whatever the line looks like.
    pub content: u64,
    /// What a delivery of it has to tell as well.
    pub told: Told,
    /// The delivery that it tells of, when it is an entry of an account of deliveries.
    pub account: Option<Delivered<'a>>,
}

/// What a record claims, and who sent it under which sequence.
#[derive(Debug)]
pub struct Stamp {
    pub clock: Clock,
    pub sender: Option<(SenderId, i64)>,
}

/// A delivery to a task.
#[derive(Debug)]
pub struct Delivered<'a> {
    pub stage: Cow<'a, str>,
    pub partition: i32,
    pub topic: Cow<'a, str>,
    pub channel: Channel,
    pub offset: i64,
    pub clock: Clock,
    /// What it says of the record's key and value.
    pub told: Told,
    /// The sender; `None` when the line does not tell.
    pub sender: Option<Option<(SenderId, i64)>>,
    /// Which of the task's deliveries it is, from 0.
    pub number: Option<u64>,
    /// What was sent for it; `None` when the line does not tell.
    pub sent: Option<Vec<Sent<'a>>>,
}

/// A record that was sent for a delivery.
#[derive(Debug)]
pub struct Sent<'a> {
    pub topic: Cow<'a, str>,
    pub channel: Channel,
    pub offset: i64,
    pub sequence: Option<i64>,
}

/// A line is none that can be judged.
#[derive(Debug, thiserror::Error)]
pub enum LineFault {
    #[error(transparent)]
    Shape(#[from] Misshapen),
    #[error("clock: {0}")]
    Clock(#[from] JsonFault),
    #[error("the clock of an account's entry: {0}")]
    AccountClock(#[from] CorruptClock),
    #[error("found no `{key}`, expected {in_what} to have it")]
    Absent {
        key: &'static str,
        in_what: &'static str,
    },
    #[error("found `{found}` as {field}, expected {expected}")]
    Field {
        field: &'static str,
        found: String,
        expected: &'static str,
    },
    #[error("found `{present}` without `{absent}`, expected both or neither")]
    Unpaired {
        present: &'static str,
        absent: &'static str,
    },
    #[error("not UTF-8 from byte {valid_up_to} on")]
    NotUtf8 { valid_up_to: usize },
    #[error("longer than {limit} bytes")]
    TooLong { limit: usize },
}

/// A line as it stands. A field that may be null is `Some(None)` then; keys that are not named here are of no interest.
#[derive(Deserialize)]
struct LineJson<'a> {
    #[serde(borrow)]
    topic: Option<Cow<'a, str>>,
    #[serde(borrow)]
    channel: Option<Cow<'a, str>>,
    offset: Option<i64>,
    #[serde(borrow)]
    stage: Option<Cow<'a, str>>,
    partition: Option<i32>,
    #[serde(borrow)]
    timestamp_ms: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "object::present")]
    key: Option<Option<&'a RawValue>>,
    #[serde(borrow)]
    key_hex: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "object::present")]
    value: Option<Option<&'a RawValue>>,
    #[serde(borrow)]
    value_hex: Option<&'a RawValue>,
    #[serde(borrow)]
    headers: Option<&'a RawValue>,
    #[serde(borrow)]
    header_error: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "object::present")]
    clock: Option<Option<Object<ClockJson>>>,
    #[serde(borrow, default, deserialize_with = "object::present")]
    sender: Option<Option<Cow<'a, str>>>,
    #[serde(default, deserialize_with = "object::present")]
    sequence: Option<Option<i64>>,
    delivery: Option<u64>,
    #[serde(borrow)]
    sent: Option<Vec<Object<SentJson<'a>>>>,
    #[serde(borrow)]
    isolation: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct SentJson<'a> {
    #[serde(borrow)]
    topic: Cow<'a, str>,
    #[serde(borrow)]
    channel: Cow<'a, str>,
    offset: i64,
    sequence: Option<i64>,
}

/// Reads a line.
pub fn read(text: &str) -> Result<Line<'_>, LineFault> {
    let Object(json) = object::read::<Object<LineJson<'_>>>(text)?;
    match json.stage.is_some() {
        true => delivered(json).map(Line::Delivered),
        false => dumped(json).map(Line::Dumped),
    }
}

fn delivered(json: LineJson<'_>) -> Result<Delivered<'_>, LineFault> {
    let absent = |key| LineFault::Absent {
        key,
        in_what: "a delivery",
    };
    let told_of_record = Told::by_trace(&json);
    let sent = json.sent.map(|sent| {
        let read = |Object(sent): Object<SentJson<'_>>| -> Result<Sent<'_>, LineFault> {
            Ok(Sent {
                channel: channel(&sent.channel)?,
                offset: not_negative("offset", sent.offset)?,
                sequence: match sent.sequence {
                    None => None,
                    Some(sequence) => Some(not_negative("sequence", sequence)?),
                },
                topic: Cow::Owned(sent.topic.into_owned()),
            })
        };
        sent.into_iter().map(read).collect::<Result<Vec<_>, _>>()
    });
    let clock = json.clock.flatten().ok_or_else(|| absent("clock"))?;
    let told = json.sender.is_some() || json.sequence.is_some();
    let sender = sender(json.sender.flatten(), json.sequence.flatten())?;
    Ok(Delivered {
        stage: json.stage.ok_or_else(|| absent("stage"))?,
        partition: json.partition.ok_or_else(|| absent("partition"))?,
        topic: json.topic.ok_or_else(|| absent("topic"))?,
        channel: channel(&json.channel.ok_or_else(|| absent("channel"))?)?,
        offset: not_negative("offset", json.offset.ok_or_else(|| absent("offset"))?)?,
        clock: clock.0.into_clock()?,
        told: told_of_record,
        sender: told.then_some(sender),
        number: json.delivery,
        sent: sent.transpose()?,
    })
}

fn dumped(json: LineJson<'_>) -> Result<Dumped<'_>, LineFault> {
    let absent = |key| LineFault::Absent {
        key,
        in_what: "a dumped record (or `stage`, if it is a delivery)",
    };
    let mut content = DefaultHasher::new();
    let told = Told::by_dump(&json);
    let value = json.value.flatten();
    let parts = [
        json.timestamp_ms,
        json.key.flatten(),
        json.key_hex,
        value,
        json.value_hex,
        json.headers,
        json.header_error,
    ];
    parts.map(|part| part.map(RawValue::get)).hash(&mut content);
    let stamp = match (json.clock, json.header_error) {
        (None, None) => return Err(absent("clock")),
        (None, Some(_)) => None,
        (Some(clock), _) => Some(Stamp {
            clock: match clock {
                None => Clock::default(),
                Some(Object(clock)) => clock.into_clock()?,
            },
            sender: sender(json.sender.flatten(), json.sequence.flatten())?,
        }),
    };
    let channel = channel(&json.channel.ok_or_else(|| absent("channel"))?)?;
    Ok(Dumped {
        topic: json.topic.ok_or_else(|| absent("topic"))?,
        channel,
        offset: not_negative("offset", json.offset.ok_or_else(|| absent("offset"))?)?,
        stamp,
        is_committed: match json.isolation.as_deref() {
            None | Some("read_committed") => true,
            Some("read_uncommitted") => false,
            Some(other) => {
                return Err(LineFault::Field {
                    field: "isolation",
                    found: clipped(other),
                    expected: "read_committed or read_uncommitted",
                });
            }
        },
        content: content.finish(),
        told,
        account: value.map_or(Ok(None), account)?,
    })
}

/// The delivery that a record tells of, if it is an entry of an account and tells of one.
fn account(value: &RawValue) -> Result<Option<Delivered<'static>>, LineFault> {
    // Most records are no entries: it shows in how the text begins.
    if !value.get().starts_with(r#""{\"delivered\""#) {
        return Ok(None);
    }
    let Ok(text) = serde_json::from_str::<String>(value.get()) else {
        return Ok(None);
    };
    // An application may have records that look like one.
    let Ok(entry) = AuditRecord::decode(Some(text.as_bytes())) else {
        return Ok(None);
    };
    let Audited::Delivered { clock, key, .. } = &entry.audited else {
        return Ok(None);
    };
    Ok(Some(Delivered {
        stage: Cow::Owned(entry.stage.to_string()),
        partition: entry.partition,
        topic: Cow::Owned(entry.topic.to_string()),
        channel: entry.channel,
        offset: not_negative("offset", entry.offset)?,
        clock: wire::decode(clock)?.into_clock(),
        told: Told::by_account(key.as_deref()),
        sender: None,
        number: None,
        sent: None,
    }))
}

fn channel(text: &str) -> Result<Channel, LineFault> {
    let read = || {
        let (topic, partition) = text.split_once(':')?;
        let topic = TopicId::from_uuid(object::hyphenated(topic)?);
        let partition: i32 = partition.parse().ok().filter(|number| *number >= 0)?;
        Some(topic.partition(partition))
    };
    read().ok_or_else(|| LineFault::Field {
        field: "channel",
        found: clipped(text),
        expected: "a topic's UUID, a colon and a partition",
    })
}

fn sender(
    sender: Option<Cow<'_, str>>,
    sequence: Option<i64>,
) -> Result<Option<(SenderId, i64)>, LineFault> {
    match (sender, sequence) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(LineFault::Unpaired {
            present: "sender",
            absent: "sequence",
        }),
        (None, Some(_)) => Err(LineFault::Unpaired {
            present: "sequence",
            absent: "sender",
        }),
        (Some(sender), Some(sequence)) => {
            let uuid = object::hyphenated(&sender).ok_or_else(|| LineFault::Field {
                field: "sender",
                found: clipped(&sender),
                expected: "a UUID",
            })?;
            let sequence = not_negative("sequence", sequence)?;
            Ok(Some((SenderId::from_uuid(uuid), sequence)))
        }
    }
}

fn not_negative(field: &'static str, number: i64) -> Result<i64, LineFault> {
    match number {
        0.. => Ok(number),
        _ => Err(LineFault::Field {
            field,
            found: number.to_string(),
            expected: "a number from 0",
        }),
    }
}
