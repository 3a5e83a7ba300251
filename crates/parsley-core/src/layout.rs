//! Keys and values of the state store (`docs/protocol.md`, State).
//!
//! Reading is strict: a key or value that this module would not have written is corrupt state (G7), with the key named.

use bytes::{Buf, Bytes};

use crate::channel::{Channel, Id, Offset, SenderId, TopicId};
use crate::clock::Clock;
use crate::record::Header;
use crate::wire::{self, Decoded};

/// The key of the recorded scope.
pub const SCOPE_KEY: &[u8] = b"scope";
/// The key of the carried ancestry.
pub const CARRIED_KEY: &[u8] = b"ca";

/// A state key, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKey {
    /// `scope`
    Scope,
    /// `ca`
    Carried,
    /// `f/<channel>`
    Frontier(Channel),
    /// `cc/<channel>`
    Advertised(Channel),
    /// `q/<channel>/m`
    QueueMeta(Channel),
    /// `q/<channel>/e/<index>`
    QueueEntry(Channel, u64),
    /// `sq/<channel>`
    SendSequence(Channel),
    /// `ds/<channel>/<sender>`
    DeliveredSequence(Channel, SenderId),
}

impl StateKey {
    /// The key's bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut key = Vec::with_capacity(64);
        match self {
            Self::Scope => key.extend_from_slice(SCOPE_KEY),
            Self::Carried => key.extend_from_slice(CARRIED_KEY),
            Self::Frontier(channel) => push_channel(&mut key, b"f/", channel),
            Self::Advertised(channel) => push_channel(&mut key, b"cc/", channel),
            Self::QueueMeta(channel) => {
                push_channel(&mut key, b"q/", channel);
                key.extend_from_slice(b"/m");
            }
            Self::QueueEntry(channel, index) => {
                key = Self::queue_entries(channel);
                for nibble in (0..16).rev() {
                    key.push(b"0123456789abcdef"[(index >> (4 * nibble) & 0xf) as usize]);
                }
            }
            Self::SendSequence(channel) => push_channel(&mut key, b"sq/", channel),
            Self::DeliveredSequence(channel, sender) => {
                push_channel(&mut key, b"ds/", channel);
                key.push(b'/');
                push_id(&mut key, sender.0);
            }
        }
        key
    }

    /// The prefix of a channel's queue entries.
    pub fn queue_entries(channel: Channel) -> Vec<u8> {
        let mut key = Vec::with_capacity(64);
        push_channel(&mut key, b"q/", channel);
        key.extend_from_slice(b"/e/");
        key
    }

    /// Parses a key. `None` when it is not exactly one that [`StateKey::to_bytes`] writes.
    pub fn parse(key: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(key).ok()?;
        let parsed = match text.split_once('/') {
            None if key == SCOPE_KEY => Self::Scope,
            None if key == CARRIED_KEY => Self::Carried,
            Some(("f", rest)) => Self::Frontier(parse_channel(rest)?),
            Some(("cc", rest)) => Self::Advertised(parse_channel(rest)?),
            Some(("sq", rest)) => Self::SendSequence(parse_channel(rest)?),
            Some(("ds", rest)) => {
                let (channel, sender) = rest.split_once('/')?;
                Self::DeliveredSequence(parse_channel(channel)?, SenderId(parse_id(sender)?))
            }
            Some(("q", rest)) => match rest.split_once('/')? {
                (channel, "m") => Self::QueueMeta(parse_channel(channel)?),
                (channel, entry) => {
                    let index = u64::from_str_radix(entry.strip_prefix("e/")?, 16).ok()?;
                    Self::QueueEntry(parse_channel(channel)?, index)
                }
            },
            _ => return None,
        };
        (parsed.to_bytes() == key).then_some(parsed)
    }
}

fn push_id(key: &mut Vec<u8>, id: Id) {
    key.extend_from_slice(id.uuid().hyphenated().encode_lower(&mut [0; 36]).as_bytes());
}

fn push_channel(key: &mut Vec<u8>, class: &[u8], channel: Channel) {
    key.extend_from_slice(class);
    push_id(key, channel.topic.0);
    key.push(b':');
    key.extend_from_slice(channel.partition.to_string().as_bytes());
}

fn parse_id(text: &str) -> Option<Id> {
    uuid::Uuid::parse_str(text).ok().map(Id::from_uuid)
}

fn parse_channel(text: &str) -> Option<Channel> {
    let (topic, partition) = text.split_once(':')?;
    let partition: i32 = partition.parse().ok()?;
    (partition >= 0).then_some(TopicId(parse_id(topic)?).partition(partition))
}

/// Why a stored value cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CorruptValue {
    /// The value ends before a field, or goes on after the last one.
    #[error("wrong length {found}: {field}")]
    Length {
        /// The value's length in bytes.
        found: usize,
        /// The field that does not fit, or what was expected.
        field: &'static str,
    },
    /// A field has a value that is never written.
    #[error("{field} is {found}")]
    Field {
        /// Which field.
        field: &'static str,
        /// Its value.
        found: i64,
    },
    /// A clock inside the value is corrupt.
    #[error(transparent)]
    Clock(#[from] wire::CorruptClock),
}

/// A cursor over a stored value that knows its whole length.
struct Fields {
    length: usize,
    rest: Bytes,
}

impl Fields {
    fn of(value: &Bytes) -> Self {
        Self {
            length: value.len(),
            rest: value.clone(),
        }
    }

    fn cut(&self, field: &'static str) -> CorruptValue {
        CorruptValue::Length {
            found: self.length,
            field,
        }
    }

    fn i64(&mut self, field: &'static str) -> Result<i64, CorruptValue> {
        self.rest.try_get_i64().map_err(|_| self.cut(field))
    }

    fn i32(&mut self, field: &'static str) -> Result<i32, CorruptValue> {
        self.rest.try_get_i32().map_err(|_| self.cut(field))
    }

    fn u8(&mut self, field: &'static str) -> Result<u8, CorruptValue> {
        self.rest.try_get_u8().map_err(|_| self.cut(field))
    }

    /// A number that is never negative.
    fn natural(&mut self, field: &'static str) -> Result<i64, CorruptValue> {
        match self.i64(field)? {
            found if found < 0 => Err(CorruptValue::Field { field, found }),
            found => Ok(found),
        }
    }

    fn id(&mut self, field: &'static str) -> Result<Id, CorruptValue> {
        Ok(Id {
            msb: self.i64(field)?,
            lsb: self.i64(field)?,
        })
    }

    /// Bytes behind a length; `None` for the length -1.
    fn nullable_bytes(&mut self, field: &'static str) -> Result<Option<Bytes>, CorruptValue> {
        let length = self.i32(field)?;
        match usize::try_from(length) {
            Ok(length) if length <= self.rest.len() => Ok(Some(self.rest.split_to(length))),
            Ok(_) => Err(self.cut(field)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(CorruptValue::Field {
                field,
                found: length.into(),
            }),
        }
    }

    fn bytes(&mut self, field: &'static str) -> Result<Bytes, CorruptValue> {
        self.nullable_bytes(field)?
            .ok_or(CorruptValue::Field { field, found: -1 })
    }

    fn end(&self, field: &'static str) -> Result<(), CorruptValue> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.cut(field))
        }
    }
}

/// What a node declares: its received channels and its sinks. Recorded at every initialisation and compared at the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The received channels, in channel order.
    pub channels: Vec<Channel>,
    /// The sink topics, in topic order.
    pub sinks: Vec<TopicId>,
}

impl Scope {
    /// The stored value.
    pub fn to_bytes(&self) -> Bytes {
        let mut value = Vec::with_capacity(8 + self.channels.len() * 20 + self.sinks.len() * 16);
        push_count(&mut value, self.channels.len());
        for channel in &self.channels {
            push_id_bits(&mut value, channel.topic.0);
            value.extend_from_slice(&channel.partition.to_be_bytes());
        }
        push_count(&mut value, self.sinks.len());
        for sink in &self.sinks {
            push_id_bits(&mut value, sink.0);
        }
        value.into()
    }

    /// Reads the stored value.
    ///
    /// # Errors
    ///
    /// When it is not one that [`Scope::to_bytes`] writes.
    pub fn from_bytes(value: &Bytes) -> Result<Self, CorruptValue> {
        let mut fields = Fields::of(value);
        let mut scope = Self::default();
        let count = fields.i32("channel count")?;
        check_count("channel count", count)?;
        for _ in 0..count {
            let topic = TopicId(fields.id("channel")?);
            let partition = fields.i32("partition")?;
            check_count("partition", partition)?;
            scope.channels.push(topic.partition(partition));
        }
        let count = fields.i32("sink count")?;
        check_count("sink count", count)?;
        for _ in 0..count {
            scope.sinks.push(TopicId(fields.id("sink")?));
        }
        fields.end("the end after the last sink")?;
        if !scope.channels.is_sorted_by(|a, b| a < b) || !scope.sinks.is_sorted_by(|a, b| a < b) {
            return Err(CorruptValue::Length {
                found: value.len(),
                field: "entries out of order or repeated",
            });
        }
        Ok(scope)
    }
}

fn check_count(field: &'static str, found: i32) -> Result<(), CorruptValue> {
    if found < 0 {
        Err(CorruptValue::Field {
            field,
            found: found.into(),
        })
    } else {
        Ok(())
    }
}

fn push_count(value: &mut Vec<u8>, count: usize) {
    value.extend_from_slice(&i32::try_from(count).unwrap_or(i32::MAX).to_be_bytes());
}

fn push_id_bits(value: &mut Vec<u8>, id: Id) {
    value.extend_from_slice(&id.msb.to_be_bytes());
    value.extend_from_slice(&id.lsb.to_be_bytes());
}

/// The value of one non-negative number (`f`, `sq`).
pub fn number_to_bytes(number: i64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Reads the value of one non-negative number.
///
/// # Errors
///
/// When it is not 8 bytes or is negative.
pub fn number_from_bytes(value: &Bytes) -> Result<i64, CorruptValue> {
    let mut fields = Fields::of(value);
    let number = fields.natural("position or sequence")?;
    fields.end("8 bytes")?;
    Ok(number)
}

/// The value of two non-negative numbers (`q/…/m`: head and tail index; `ds`: sequence and offset).
pub fn pair_to_bytes(first: i64, second: i64) -> Bytes {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&first.to_be_bytes());
    value[8..].copy_from_slice(&second.to_be_bytes());
    Bytes::copy_from_slice(&value)
}

/// Reads the value of two non-negative numbers.
///
/// # Errors
///
/// When it is not 16 bytes or one is negative.
pub fn pair_from_bytes(value: &Bytes) -> Result<(i64, i64), CorruptValue> {
    let mut fields = Fields::of(value);
    let pair = (
        fields.natural("first number")?,
        fields.natural("second number")?,
    );
    fields.end("16 bytes")?;
    Ok(pair)
}

/// Reads a stored clock.
///
/// # Errors
///
/// When it does not decode.
pub fn clock_from_bytes(value: &Bytes) -> Result<Clock, CorruptValue> {
    Ok(wire::decode(value)?.into_clock())
}

/// A record in the hold-back buffer, its clock checked and its entries in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldRecord {
    /// Its position.
    pub offset: Offset,
    /// Its timestamp, as it came.
    pub timestamp_ms: i64,
    /// The sender and its send sequence, if the record carried them.
    pub sender: Option<(SenderId, i64)>,
    /// Its clock's bytes in order; the empty clock when the header was absent.
    pub clock: Bytes,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Option<Bytes>,
    /// Its application headers.
    pub headers: Vec<Header>,
}

impl HeldRecord {
    /// The stored value.
    pub fn to_bytes(&self) -> Bytes {
        let lengths = self.clock.len()
            + self.key.as_ref().map_or(0, Bytes::len)
            + self.value.as_ref().map_or(0, Bytes::len);
        let mut value = Vec::with_capacity(53 + lengths);
        value.extend_from_slice(&self.offset.to_be_bytes());
        value.extend_from_slice(&self.timestamp_ms.to_be_bytes());
        let (tagged, sender, sequence) = match self.sender {
            Some((sender, sequence)) => (1, sender.0, sequence),
            None => (0, Id { msb: 0, lsb: 0 }, -1),
        };
        value.push(tagged);
        push_id_bits(&mut value, sender);
        value.extend_from_slice(&sequence.to_be_bytes());
        push_nullable(&mut value, Some(&self.clock));
        push_nullable(&mut value, self.key.as_ref());
        push_nullable(&mut value, self.value.as_ref());
        if !self.headers.is_empty() {
            push_count(&mut value, self.headers.len());
            for header in &self.headers {
                push_nullable(&mut value, Some(&header.name));
                push_nullable(&mut value, header.value.as_ref());
            }
        }
        value.into()
    }

    /// Reads the stored value.
    ///
    /// # Errors
    ///
    /// When it is not a held record. Two things that [`HeldRecord::to_bytes`] does not write are read all the same, since other writers of
    /// this layout may: any sender sequence on an untagged record, and a clock out of order, which is sorted.
    pub fn from_bytes(value: &Bytes) -> Result<Self, CorruptValue> {
        let mut fields = Fields::of(value);
        let offset = fields.natural("offset")?;
        let timestamp_ms = fields.i64("timestamp")?;
        let tagged = fields.u8("tagged")?;
        let sender = SenderId(fields.id("sender")?);
        let sequence = fields.i64("sender sequence")?;
        let sender = match tagged {
            0 if sender.0 == (Id { msb: 0, lsb: 0 }) => None,
            1 if sequence >= 0 => Some((sender, sequence)),
            1 => {
                return Err(CorruptValue::Field {
                    field: "sender sequence",
                    found: sequence,
                });
            }
            other => {
                return Err(CorruptValue::Field {
                    field: "tagged, or the sender of an untagged record,",
                    found: other.into(),
                });
            }
        };
        let clock = in_order(fields.bytes("clock")?)?;
        let key = fields.nullable_bytes("key")?;
        let payload = fields.nullable_bytes("value")?;
        let mut headers = Vec::new();
        if !fields.rest.is_empty() {
            let count = fields.i32("header count")?;
            if count < 1 {
                return Err(CorruptValue::Field {
                    field: "header count",
                    found: count.into(),
                });
            }
            for _ in 0..count {
                let name = fields.bytes("header name")?;
                headers.push(Header {
                    name,
                    value: fields.nullable_bytes("header value")?,
                });
            }
        }
        fields.end("the end after the last field")?;
        Ok(Self {
            offset,
            timestamp_ms,
            sender,
            clock,
            key,
            value: payload,
            headers,
        })
    }
}

/// Checks a clock's bytes and returns them with the entries in order (decision D2).
pub(crate) fn in_order(clock: Bytes) -> Result<Bytes, wire::CorruptClock> {
    let resorted = match wire::decode(&clock)? {
        Decoded::InOrder(_) => None,
        Decoded::Resorted(sorted) => Some(wire::encode(&sorted)),
    };
    Ok(resorted.map_or(clock, Bytes::from))
}

fn push_nullable(value: &mut Vec<u8>, bytes: Option<&Bytes>) {
    match bytes {
        None => value.extend_from_slice(&(-1_i32).to_be_bytes()),
        Some(bytes) => {
            push_count(value, bytes.len());
            value.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests;
