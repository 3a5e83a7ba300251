//! The account of what tasks were handed: one record for each delivery, and one for each record that had to wait.
//!
//! A host that is told to keeps it in a topic of its own and writes there in the transaction of the step that it tells of (decision
//! E11). So it is exact, however often tasks are killed: what was delivered is in it once. The records are plain ones, without a stamp,
//! for people and for programs beside the application; no stage consumes them. Their form is the same on every host:
//!
//! ```json
//! {"delivered": {"stage": "settle", "partition": 0, "execution": 12, "topic": "orders",
//!                "channel": "5d7ce273-b3ed-34cb-95f7-bed1a25c3360:0", "offset": 7,
//!                "arrival": 3, "key": "ann", "timestamp_ms": 1700000000000, "clock": "010000000000000000"}}
//! {"held": {"stage": "settle", "partition": 0, "execution": 12, "topic": "payments",
//!           "channel": "1dba284c-e704-3e8a-b89c-19dbaec547ce:0", "offset": 4,
//!           "arrival": 4, "head": 4, "waits": [{"topic": "orders", "channel": "5d7ce273-b3ed-34cb-95f7-bed1a25c3360:0",
//!           "offset": 9, "settled": 7, "code": "vc-hold-not-fetched"}]}}
//! ```
//!
//! # Order
//!
//! The records of a task are on the partition of its number, beside those of other stages, with the [key](AuditRecord::key)
//! `<stage>/<partition>`. Those of a step stand in the order of its deliveries, behind them those of the records that the step received
//! and did not deliver. Every record that a task received is accounted for once before it is delivered, or with its delivery:
//!
//! * delivered by the step that received it: one [`Audited::Delivered`] with its arrival;
//! * otherwise [`Audited::Held`] with its arrival, and [`Audited::Delivered`] without one when the time has come.
//!
//! # Arrivals
//!
//! Arrivals count what an execution of the task received, from 0, without gaps. Executions are told apart by their `execution`, which
//! grows from one that wrote to the account to the next; what an earlier execution received arrived earlier.
//!
//! A reader ignores fields that it does not know. The key is in `key_hex`, in hexadecimal, when its bytes are not text, and in neither
//! field when it is null.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use parsley_core::{
    Channel, HoldCode, Offset, OffsetClaim, SenderId, SequenceClaim, TopicId, Wait,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

mod account;

pub use account::Account;

/// An entry of the account: which task was handed which record, and what became of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// The stage.
    pub stage: Arc<str>,
    /// The stage's partition.
    pub partition: i32,
    /// The execution of the task that wrote this. Grows from one execution to the next, with gaps: it is the end that the account's
    /// partition had when the execution began.
    pub execution: Offset,
    /// The name of the record's topic.
    pub topic: Arc<str>,
    /// The record's channel.
    pub channel: Channel,
    /// The record's offset.
    pub offset: Offset,
    /// What became of it.
    pub audited: Audited,
}

/// What became of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audited {
    /// The step that received it could not deliver it.
    Held {
        /// Which one of the records that the execution received it was, from 0.
        arrival: u64,
        /// The record that stands first on its channel: this one, or the one that it has to stay behind.
        head: Offset,
        /// What it waits for when it stands first itself. Nothing, then, if the step was full and only did not get to it.
        waits: Vec<AuditedWait>,
    },
    /// It was delivered.
    Delivered {
        /// Which one of the records that the execution received it was, from 0. `None` when it had been held: the entry that said
        /// so has its arrival.
        arrival: Option<u64>,
        /// The record's key; `None` is null.
        key: Option<Bytes>,
        /// The record's timestamp, in milliseconds since the Unix epoch.
        timestamp_ms: i64,
        /// The record's clock, canonically encoded: the empty clock if it came without one.
        clock: Bytes,
    },
}

/// A claim that a held record waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedWait {
    /// The name of the topic claimed on.
    pub topic: Arc<str>,
    /// The claim, how far it is met, and why not further.
    pub wait: Wait,
}

/// A record is not an entry of an account.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditRecordError {
    /// Its value is null.
    #[error("found a null value, expected an entry of the account")]
    Null,
    /// Its value is not JSON, or of another shape.
    #[error("found no entry of the account: {0}")]
    Shape(#[from] serde_json::Error),
    /// A field has text that says nothing.
    #[error("found `{found}` as {field}, expected {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// What stands there.
        found: String,
        /// What could.
        expected: &'static str,
    },
    /// It has its key twice.
    #[error("found `key` and `key_hex`, expected one of them or none")]
    TwoKeys,
    /// A claim that is waited for is neither one by offset nor one by sequence.
    #[error(
        "found neither `offset` alone nor `sender` and `sequence` in a wait, expected one of the two"
    )]
    Wait,
}

impl AuditRecord {
    /// The key under which it is written: `<stage>/<partition>`.
    pub fn key(&self) -> Bytes {
        format!("{}/{}", self.stage, self.partition).into()
    }

    /// The value that is written.
    pub fn encode(&self) -> Bytes {
        serde_json::to_vec(&EntryJson::of(self))
            .expect("text, numbers and arrays of them are JSON")
            .into()
    }

    /// Reads the value of a record.
    ///
    /// # Errors
    ///
    /// When it is not the value of an entry.
    pub fn decode(value: Option<&[u8]>) -> Result<Self, AuditRecordError> {
        let json: EntryJson<'_> = serde_json::from_slice(value.ok_or(AuditRecordError::Null)?)?;
        json.read()
    }
}

/// An entry as it is written.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EntryJson<'a> {
    #[serde(borrow)]
    Delivered(DeliveredJson<'a>),
    #[serde(borrow)]
    Held(HeldJson<'a>),
}

#[derive(Serialize, Deserialize)]
struct DeliveredJson<'a> {
    #[serde(borrow)]
    stage: Cow<'a, str>,
    partition: i32,
    execution: Offset,
    #[serde(borrow)]
    topic: Cow<'a, str>,
    #[serde(borrow)]
    channel: Cow<'a, str>,
    offset: Offset,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arrival: Option<u64>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    key_hex: Option<Cow<'a, str>>,
    timestamp_ms: i64,
    #[serde(borrow)]
    clock: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
struct HeldJson<'a> {
    #[serde(borrow)]
    stage: Cow<'a, str>,
    partition: i32,
    execution: Offset,
    #[serde(borrow)]
    topic: Cow<'a, str>,
    #[serde(borrow)]
    channel: Cow<'a, str>,
    offset: Offset,
    arrival: u64,
    head: Offset,
    #[serde(borrow)]
    waits: Vec<WaitJson<'a>>,
}

/// A claim by offset has `offset`, one by sequence has `sender` and `sequence`. `settled` and `delivered` are absent while nothing is known.
#[derive(Serialize, Deserialize)]
struct WaitJson<'a> {
    #[serde(borrow)]
    topic: Cow<'a, str>,
    #[serde(borrow)]
    channel: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offset: Option<Offset>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settled: Option<Offset>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    sender: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sequence: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delivered: Option<i64>,
    #[serde(borrow)]
    code: Cow<'a, str>,
}

impl<'a> EntryJson<'a> {
    fn of(record: &'a AuditRecord) -> Self {
        let (stage, topic) = (Cow::Borrowed(&*record.stage), Cow::Borrowed(&*record.topic));
        let channel = Cow::Owned(record.channel.to_string());
        let (partition, execution, offset) = (record.partition, record.execution, record.offset);
        match &record.audited {
            Audited::Delivered {
                arrival,
                key,
                timestamp_ms,
                clock,
            } => {
                let (key, key_hex) = match key.as_deref().map(|key| (key, str::from_utf8(key))) {
                    None => (None, None),
                    Some((_, Ok(text))) => (Some(Cow::Borrowed(text)), None),
                    Some((key, Err(_))) => (None, Some(Cow::Owned(hex::encode(key)))),
                };
                Self::Delivered(DeliveredJson {
                    stage,
                    partition,
                    execution,
                    topic,
                    channel,
                    offset,
                    arrival: *arrival,
                    key,
                    key_hex,
                    timestamp_ms: *timestamp_ms,
                    clock: hex::encode(clock).into(),
                })
            }
            Audited::Held {
                arrival,
                head,
                waits,
            } => Self::Held(HeldJson {
                stage,
                partition,
                execution,
                topic,
                channel,
                offset,
                arrival: *arrival,
                head: *head,
                waits: waits.iter().map(WaitJson::of).collect(),
            }),
        }
    }

    fn read(self) -> Result<AuditRecord, AuditRecordError> {
        Ok(match self {
            Self::Delivered(json) => AuditRecord {
                stage: json.stage.into(),
                partition: json.partition,
                execution: json.execution,
                topic: json.topic.into(),
                channel: channel_of(&json.channel)?,
                offset: json.offset,
                audited: Audited::Delivered {
                    arrival: json.arrival,
                    key: match (json.key, json.key_hex) {
                        (None, None) => None,
                        (Some(text), None) => Some(text.into_owned().into()),
                        (None, Some(digits)) => Some(bytes_of("key_hex", &digits)?),
                        (Some(_), Some(_)) => return Err(AuditRecordError::TwoKeys),
                    },
                    timestamp_ms: json.timestamp_ms,
                    clock: bytes_of("clock", &json.clock)?,
                },
            },
            Self::Held(json) => AuditRecord {
                stage: json.stage.into(),
                partition: json.partition,
                execution: json.execution,
                topic: json.topic.into(),
                channel: channel_of(&json.channel)?,
                offset: json.offset,
                audited: Audited::Held {
                    arrival: json.arrival,
                    head: json.head,
                    waits: json
                        .waits
                        .into_iter()
                        .map(WaitJson::read)
                        .collect::<Result<_, _>>()?,
                },
            },
        })
    }
}

impl<'a> WaitJson<'a> {
    fn of(AuditedWait { topic, wait }: &'a AuditedWait) -> Self {
        let (channel, code) = match wait {
            Wait::Offset { claim, code, .. } => (claim.channel, code),
            Wait::Sequence { claim, code, .. } => (claim.channel, code),
        };
        let mut json = Self {
            topic: Cow::Borrowed(topic),
            channel: Cow::Owned(channel.to_string()),
            offset: None,
            settled: None,
            sender: None,
            sequence: None,
            delivered: None,
            code: Cow::Borrowed(code.as_str()),
        };
        match wait {
            Wait::Offset { claim, settled, .. } => {
                (json.offset, json.settled) = (Some(claim.offset), *settled);
            }
            Wait::Sequence {
                claim, delivered, ..
            } => {
                json.sender = Some(Cow::Owned(claim.sender.to_string()));
                (json.sequence, json.delivered) = (Some(claim.sequence), *delivered);
            }
        }
        json
    }

    fn read(self) -> Result<AuditedWait, AuditRecordError> {
        let channel = channel_of(&self.channel)?;
        let code = HoldCode::ALL
            .into_iter()
            .find(|code| code.as_str() == self.code)
            .ok_or_else(|| unreadable("code", &self.code, "a code such as vc-hold-not-fetched"))?;
        let wait = match (self.offset, self.sender, self.sequence) {
            (Some(offset), None, None) => Wait::Offset {
                claim: OffsetClaim { channel, offset },
                settled: self.settled,
                code,
            },
            (None, Some(sender), Some(sequence)) => Wait::Sequence {
                claim: SequenceClaim {
                    channel,
                    sender: SenderId::from_uuid(uuid_of("sender", &sender)?),
                    sequence,
                },
                delivered: self.delivered,
                code,
            },
            _ => return Err(AuditRecordError::Wait),
        };
        Ok(AuditedWait {
            topic: self.topic.into(),
            wait,
        })
    }
}

fn channel_of(text: &str) -> Result<Channel, AuditRecordError> {
    const EXPECTED: &str = "a topic's UUID, a colon and a partition";
    let (topic, partition) = text
        .split_once(':')
        .and_then(|(topic, partition)| Some((topic, partition.parse().ok()?)))
        .filter(|(_, partition)| *partition >= 0)
        .ok_or_else(|| unreadable("channel", text, EXPECTED))?;
    Ok(TopicId::from_uuid(uuid_of("channel", topic)?).partition(partition))
}

fn uuid_of(field: &'static str, text: &str) -> Result<Uuid, AuditRecordError> {
    text.parse().map_err(|_| unreadable(field, text, "a UUID"))
}

fn bytes_of(field: &'static str, digits: &str) -> Result<Bytes, AuditRecordError> {
    hex::decode(digits)
        .map(Bytes::from)
        .map_err(|_| unreadable(field, digits, "bytes in hexadecimal"))
}

/// Names what was found, up to a length that fits a message.
fn unreadable(field: &'static str, found: &str, expected: &'static str) -> AuditRecordError {
    AuditRecordError::Field {
        field,
        found: found.chars().take(64).collect(),
        expected,
    }
}

#[cfg(test)]
mod tests;
