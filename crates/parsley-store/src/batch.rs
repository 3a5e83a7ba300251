//! What is changed together.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Changes of a database that become durable together: a new value for a key, or its removal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch(BTreeMap<Bytes, Option<Bytes>>);

impl Batch {
    /// Sets a key.
    pub fn put(&mut self, key: Bytes, value: Bytes) {
        self.set(key, Some(value));
    }

    /// Removes a key; one that is not there is no error.
    pub fn delete(&mut self, key: Bytes) {
        self.set(key, None);
    }

    /// Sets a key, or removes it. The last word on a key counts.
    pub fn set(&mut self, key: Bytes, value: Option<Bytes>) {
        self.0.insert(key, value);
    }

    /// Adds changes. Where both change a key, the added ones count.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The changes, in key order; `None` for a removal.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, Option<&Bytes>)> {
        self.0.iter().map(|(key, value)| (key, value.as_ref()))
    }
}
