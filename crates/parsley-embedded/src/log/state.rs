//! A task's committed state: read by the task, written by the log when a step commits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use parsley_core::{Changes, MemoryStore, StateStore, StoreError, Visit};

use super::disk::DiskStore;

/// The two stores of a task, shared with the task that reads them.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskStores {
    pub(crate) ordering: CommittedStore,
    pub(crate) fold: CommittedStore,
}

/// A store as it was committed.
#[derive(Clone, Debug)]
pub(crate) enum CommittedStore {
    Memory(Arc<Mutex<MemoryStore>>),
    Disk(DiskStore),
}

/// A task stages its changes over its committed state and never writes to it.
#[derive(Debug, thiserror::Error)]
#[error("committed state is changed by the step's commit alone")]
struct ReadOnly;

impl Default for CommittedStore {
    fn default() -> Self {
        Self::Memory(Arc::default())
    }
}

impl CommittedStore {
    /// A copy of the whole store.
    pub(crate) fn snapshot(&self) -> Result<MemoryStore, StoreError> {
        let store = match self {
            Self::Memory(store) => return Ok(lock(store).clone()),
            Self::Disk(store) => store,
        };
        let mut copy = MemoryStore::new();
        let mut copied = Ok(());
        store.scan(b"", b"", &mut |key, value| {
            copied = copy.put(key, value.clone());
            Visit::Continue(())
        })?;
        copied.map(|()| copy)
    }

    /// Applies what a step has changed, where that is not done by its save.
    pub(crate) fn apply(&self, changes: Changes) {
        if let Self::Memory(store) = self {
            lock(store).apply(changes);
        }
    }
}

/// Nothing that runs under this lock leaves the map half changed, so a panic elsewhere in the holder is no reason to stop reading.
fn lock(store: &Mutex<MemoryStore>) -> MutexGuard<'_, MemoryStore> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StateStore for CommittedStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        match self {
            Self::Memory(store) => lock(store).get(key),
            Self::Disk(store) => store.get(key),
        }
    }

    fn put(&mut self, _: &[u8], _: Bytes) -> Result<(), StoreError> {
        Err(StoreError::new(ReadOnly))
    }

    fn delete(&mut self, _: &[u8]) -> Result<(), StoreError> {
        Err(StoreError::new(ReadOnly))
    }

    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], &Bytes) -> Visit,
    ) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => lock(store).scan(prefix, from, visit),
            Self::Disk(store) => store.scan(prefix, from, visit),
        }
    }
}
