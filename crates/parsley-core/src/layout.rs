//! Keys and values of the state store (`docs/protocol.md`, State).
//!
//! Reading is strict: a key or value that this module would not have written is corrupt state (G7), with the key named.

mod held;
mod keys;

use bytes::Bytes;

use crate::channel::{Channel, Id, TopicId};
use crate::clock::Clock;
use crate::wire;

pub use held::HeldRecord;
pub(crate) use held::{HeldRef, in_order};
pub(crate) use keys::EntryKeys;
pub use keys::{CARRIED_KEY, SCOPE_KEY, StateKey};

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
struct Fields<'a> {
    length: usize,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn of(value: &'a [u8]) -> Self {
        Self {
            length: value.len(),
            rest: value,
        }
    }

    fn cut(&self, field: &'static str) -> CorruptValue {
        CorruptValue::Length {
            found: self.length,
            field,
        }
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], CorruptValue> {
        let (&array, rest) = self
            .rest
            .split_first_chunk()
            .ok_or_else(|| self.cut(field))?;
        self.rest = rest;
        Ok(array)
    }

    fn i64(&mut self, field: &'static str) -> Result<i64, CorruptValue> {
        self.array(field).map(i64::from_be_bytes)
    }

    fn i32(&mut self, field: &'static str) -> Result<i32, CorruptValue> {
        self.array(field).map(i32::from_be_bytes)
    }

    fn u8(&mut self, field: &'static str) -> Result<u8, CorruptValue> {
        self.array(field).map(u8::from_be_bytes)
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
    fn nullable_bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, CorruptValue> {
        let length = self.i32(field)?;
        let Ok(length) = usize::try_from(length) else {
            return match length {
                -1 => Ok(None),
                _ => Err(CorruptValue::Field {
                    field,
                    found: length.into(),
                }),
            };
        };
        let (bytes, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| self.cut(field))?;
        self.rest = rest;
        Ok(Some(bytes))
    }

    fn bytes(&mut self, field: &'static str) -> Result<&'a [u8], CorruptValue> {
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

#[cfg(test)]
mod tests;
