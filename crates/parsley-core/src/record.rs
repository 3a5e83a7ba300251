//! Records as they come from a log, before anything is read into them.

use bytes::Bytes;

use crate::channel::{Channel, Offset};

/// A record header: a name, and a value that may be null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name's bytes (UTF-8 on Kafka).
    pub name: Bytes,
    /// The value; `None` is Kafka's null.
    pub value: Option<Bytes>,
}

impl Header {
    /// A header with a value.
    pub fn new(name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self {
            name: name.into(),
            value: Some(value.into()),
        }
    }

    /// A header whose value is null.
    pub fn null(name: impl Into<Bytes>) -> Self {
        Self {
            name: name.into(),
            value: None,
        }
    }
}

/// A record as a host fetched it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it stands.
    pub channel: Channel,
    /// Its position, `>= 0`.
    pub offset: Offset,
    /// Milliseconds since the Unix epoch; any value is carried as it is.
    pub timestamp_ms: i64,
    /// The key; `None` is null.
    pub key: Option<Bytes>,
    /// The value; `None` is null.
    pub value: Option<Bytes>,
    /// All headers, the protocol's among them.
    pub headers: Vec<Header>,
}
