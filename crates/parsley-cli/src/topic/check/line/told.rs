//! What lines tell of one record's key and value, each in its own form: digests that are the same where the record is.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;

use serde_json::Value;
use serde_json::value::RawValue;

use super::LineJson;

/// What a line tells of a record's key and value; `None` is what it does not tell, or not as it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The bytes of the key, or that it is null.
    pub key: Option<NonZeroU64>,
    /// The value as JSON: a trace has read it, so that nothing is left of how it was written.
    pub value: Option<NonZeroU64>,
}

impl Told {
    /// What a dump tells. A value that is no JSON can be told by no trace.
    pub(super) fn by_dump(line: &LineJson<'_>) -> Self {
        let key = match (line.key, line.key_hex) {
            (Some(None), _) => Some(of_key(None)),
            (Some(Some(text)), _) => string(text).map(|text| of_key(Some(text.as_bytes()))),
            (None, Some(digits)) => string(digits)
                .and_then(|digits| hex::decode(digits).ok())
                .map(|bytes| of_key(Some(&bytes))),
            (None, None) => None,
        };
        let value = line.value.flatten().and_then(string);
        let value = value.and_then(|text| serde_json::from_str(&text).ok());
        Self {
            key,
            value: value.map(|value: Value| of_value(&value)),
        }
    }

    /// What a trace tells. Its keys are text, with a replacement character for what is none.
    pub(super) fn by_trace(line: &LineJson<'_>) -> Self {
        let key = match line.key {
            Some(None) => Some(of_key(None)),
            Some(Some(text)) => string(text)
                .filter(|text| !text.contains(char::REPLACEMENT_CHARACTER))
                .map(|text| of_key(Some(text.as_bytes()))),
            None => None,
        };
        let value = line.value.map(|raw| {
            raw.map_or(Some(Value::Null), |raw| {
                serde_json::from_str(raw.get()).ok()
            })
        });
        Self {
            key,
            value: value.flatten().map(|value| of_value(&value)),
        }
    }

    /// What an account tells: the key alone.
    pub(super) fn by_account(key: Option<&[u8]>) -> Self {
        Self {
            key: Some(of_key(key)),
            value: None,
        }
    }
}

fn string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn of_key(key: Option<&[u8]>) -> NonZeroU64 {
    digest(|hasher| key.hash(hasher))
}

fn of_value(value: &Value) -> NonZeroU64 {
    digest(|hasher| hash(value, hasher))
}

fn digest(feed: impl FnOnce(&mut DefaultHasher)) -> NonZeroU64 {
    let mut hasher = DefaultHasher::new();
    feed(&mut hasher);
    NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN)
}

/// The order of an object's keys means nothing. Fractions are written in many ways, and count as the same.
fn hash(value: &Value, hasher: &mut DefaultHasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Null => {}
        Value::Bool(is) => is.hash(hasher),
        Value::Number(number) => (number.as_u64(), number.as_i64()).hash(hasher),
        Value::String(text) => text.hash(hasher),
        Value::Array(values) => {
            values.len().hash(hasher);
            values.iter().for_each(|value| hash(value, hasher));
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|field| field.0);
            fields.len().hash(hasher);
            for (key, value) in fields {
                key.hash(hasher);
                hash(value, hasher);
            }
        }
    }
}
