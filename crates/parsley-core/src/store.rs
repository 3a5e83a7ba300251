//! Where a node keeps its state (`docs/protocol.md`, State): a trait for hosts, an in-memory store, and staging.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;

/// A store failed. Carries the host's own error.
#[derive(Debug, thiserror::Error)]
#[error("the state store failed: {0}")]
pub struct StoreError(#[from] Box<dyn std::error::Error + Send + Sync>);

impl StoreError {
    /// Wraps the host's error.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

/// What a visitor of [`StateStore::scan`] answers after each entry.
pub type Visit = ControlFlow<()>;

/// An ordered map of bytes. A host makes it transactional with the step: what is written in a step becomes visible to later
/// executions with the step's sends and positions, or not at all.
pub trait StateStore {
    /// The value under a key.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// Sets a key.
    ///
    /// # Errors
    ///
    /// When the store cannot take the write.
    fn put(&mut self, key: &[u8], value: Bytes) -> Result<(), StoreError>;

    /// Removes a key; one that is not there is no error.
    ///
    /// # Errors
    ///
    /// When the store cannot take the write.
    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError>;

    /// Visits the keys that start with `prefix` and are at or above `from`, in key order, until the visitor breaks.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], &Bytes) -> Visit,
    ) -> Result<(), StoreError>;
}

impl<S: StateStore + ?Sized> StateStore for Box<S> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        (**self).get(key)
    }
    fn put(&mut self, key: &[u8], value: Bytes) -> Result<(), StoreError> {
        (**self).put(key, value)
    }
    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        (**self).delete(key)
    }
    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], &Bytes) -> Visit,
    ) -> Result<(), StoreError> {
        (**self).scan(prefix, from, visit)
    }
}

/// A store in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryStore {
    entries: BTreeMap<Bytes, Bytes>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// All entries in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.entries.iter()
    }

    /// Applies the changes of a step.
    pub fn apply(&mut self, changes: Changes) {
        for (key, value) in changes.0 {
            match value {
                Some(value) => self.entries.insert(key, value),
                None => self.entries.remove(&key),
            };
        }
    }
}

impl StateStore for MemoryStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.entries.get(key).cloned())
    }

    fn put(&mut self, key: &[u8], value: Bytes) -> Result<(), StoreError> {
        self.entries.insert(Bytes::copy_from_slice(key), value);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.entries.remove(key);
        Ok(())
    }

    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], &Bytes) -> Visit,
    ) -> Result<(), StoreError> {
        let start = prefix.max(from);
        let mut entries = self
            .entries
            .range::<[u8], _>((Bound::Included(start), Bound::Unbounded));
        // An empty prefix is not compared: a vector comparison of nothing, with an empty slice that points nowhere, can take longer than
        // all else that is done with an entry.
        let ends = |key: &[u8]| !prefix.is_empty() && !key.starts_with(prefix);
        entries.find(|(key, value)| ends(key) || visit(key, value).is_break());
        Ok(())
    }
}

/// The changes of one step, by key: a new value, or `None` for a removal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes(pub BTreeMap<Bytes, Option<Bytes>>);

impl Changes {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A store with a step staged over it: reads see the step's writes, the base sees none of them until the host applies
/// [`Staged::take_changes`].
#[derive(Clone, Debug, Default)]
pub struct Staged<S> {
    base: S,
    changes: Changes,
}

impl<S: StateStore> Staged<S> {
    /// Stages over `base`, starting with no changes.
    pub fn over(base: S) -> Self {
        Self {
            base,
            changes: Changes::default(),
        }
    }

    /// What the step changed so far.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Takes the step's changes out; reads see the base alone again.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Forgets the step's changes.
    pub fn rollback(&mut self) {
        self.changes.0.clear();
    }

    /// The store beneath.
    pub fn base(&self) -> &S {
        &self.base
    }

    /// The store beneath, for a host that applies changes to it.
    pub fn base_mut(&mut self) -> &mut S {
        &mut self.base
    }
}

impl<S: StateStore> StateStore for Staged<S> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        match self.changes.0.get(key) {
            Some(staged) => Ok(staged.clone()),
            None => self.base.get(key),
        }
    }

    fn put(&mut self, key: &[u8], value: Bytes) -> Result<(), StoreError> {
        self.changes
            .0
            .insert(Bytes::copy_from_slice(key), Some(value));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.changes.0.insert(Bytes::copy_from_slice(key), None);
        Ok(())
    }

    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], &Bytes) -> Visit,
    ) -> Result<(), StoreError> {
        let start = prefix.max(from);
        let mut staged = self
            .changes
            .0
            .range::<[u8], _>((Bound::Included(start), Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .peekable();
        let mut stopped = false;
        self.base.scan(prefix, from, &mut |key, value| {
            while let Some((staged_key, staged_value)) =
                staged.next_if(|(staged_key, _)| staged_key.as_ref() < key)
            {
                if let Some(value) = staged_value
                    && visit(staged_key, value).is_break()
                {
                    stopped = true;
                    return Visit::Break(());
                }
            }
            let visited = match staged.next_if(|(staged_key, _)| staged_key.as_ref() == key) {
                Some((_, None)) => Visit::Continue(()),
                Some((_, Some(value))) => visit(key, value),
                None => visit(key, value),
            };
            stopped = visited.is_break();
            visited
        })?;
        if !stopped {
            for (key, value) in staged {
                if let Some(value) = value
                    && visit(key, value).is_break()
                {
                    break;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
