//! The stored value of a held record.

use bytes::Bytes;

use super::{CorruptValue, Fields, push_count, push_id_bits};
use crate::channel::{Id, Offset, SenderId};
use crate::record::Header;
use crate::wire::{self, Decoded};

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
        let length_of = |bytes: &Option<Bytes>| 4 + bytes.as_ref().map_or(0, Bytes::len);
        let headers: usize = self
            .headers
            .iter()
            .map(|header| 4 + header.name.len() + length_of(&header.value))
            .sum();
        let headers = headers + if self.headers.is_empty() { 0 } else { 4 };
        let payload = length_of(&self.key) + length_of(&self.value);
        let length = FIXED_BYTES + 4 + self.clock.len() + payload + headers;
        let mut value = Vec::with_capacity(length);
        value.extend_from_slice(&self.offset.to_be_bytes());
        value.extend_from_slice(&self.timestamp_ms.to_be_bytes());
        let (tagged, sender, sequence) = match self.sender {
            Some((sender, sequence)) => (1, sender.0, sequence),
            None => (0, NOBODY, -1),
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
        debug_assert_eq!(value.len(), length, "it is allocated once");
        value.into()
    }

    /// Reads the stored value.
    ///
    /// # Errors
    ///
    /// When it is not a held record. Two things that [`HeldRecord::to_bytes`] does not write are read all the same, since other writers of
    /// this layout may: any sender sequence on an untagged record, and a clock out of order, which is sorted.
    pub fn from_bytes(value: &Bytes) -> Result<Self, CorruptValue> {
        Ok(HeldRef::read(value)?.to_record(value))
    }
}

/// Offset, timestamp, tag, sender, sequence.
const FIXED_BYTES: usize = 8 + 8 + 1 + 16 + 8;
/// What stands in the place of the sender of an untagged record.
const NOBODY: Id = Id { msb: 0, lsb: 0 };

/// A stored held record, all of it checked, still in its bytes.
pub(crate) struct HeldRef<'a> {
    pub offset: Offset,
    pub sender: Option<(SenderId, i64)>,
    pub clock: Decoded<'a>,
    timestamp_ms: i64,
    clock_bytes: &'a [u8],
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: Vec<(&'a [u8], Option<&'a [u8]>)>,
}

impl<'a> HeldRef<'a> {
    /// Reads the stored value; see [`HeldRecord::from_bytes`].
    #[inline]
    pub fn read(value: &'a [u8]) -> Result<Self, CorruptValue> {
        let mut fields = Fields::of(value);
        let offset = fields.natural("offset")?;
        let timestamp_ms = fields.i64("timestamp")?;
        let tagged = fields.u8("tagged")?;
        let sender = SenderId(fields.id("sender")?);
        let sequence = fields.i64("sender sequence")?;
        let sender = match tagged {
            0 if sender.0 == NOBODY => None,
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
        let clock_bytes = fields.bytes("clock")?;
        let clock = wire::decode(clock_bytes)?;
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
                headers.push((name, fields.nullable_bytes("header value")?));
            }
        }
        fields.end("the end after the last field")?;
        Ok(Self {
            offset,
            sender,
            clock,
            timestamp_ms,
            clock_bytes,
            key,
            value: payload,
            headers,
        })
    }

    /// The record, sharing the memory of `value`, which it was read from.
    pub fn to_record(&self, value: &Bytes) -> HeldRecord {
        let shared = |part: &[u8]| value.slice_ref(part);
        let header = |&(name, value): &(&[u8], Option<&[u8]>)| Header {
            name: shared(name),
            value: value.map(shared),
        };
        HeldRecord {
            offset: self.offset,
            timestamp_ms: self.timestamp_ms,
            sender: self.sender,
            clock: match &self.clock {
                Decoded::InOrder(_) => shared(self.clock_bytes),
                Decoded::Resorted(sorted) => wire::encode(sorted).into(),
            },
            key: self.key.map(shared),
            value: self.value.map(shared),
            headers: self.headers.iter().map(header).collect(),
        }
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
