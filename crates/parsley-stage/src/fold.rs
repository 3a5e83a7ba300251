//! Where a stateful stage keeps its state (`docs/protocol.md`, State): keys of the fold store, and a step staged over it.
//!
//! The state of a key is read and written as bytes for every delivery. Nothing decoded is kept from one delivery to the next: a
//! state that does not survive its own codec would then live until the step ends, and steps end where the host pleases.

use bytes::Bytes;
use parsley_core::{Changes, Staged, StateStore, StoreError};

/// First byte of the state of the null key; nothing follows.
pub const NULL_KEY: u8 = 0x00;
/// First byte of the state of a key; the key's bytes follow, possibly none.
pub const PRESENT_KEY: u8 = 0x01;
/// The single key of a task's tick state, apart from the state of every message key.
pub const TICK_STATE_KEY: u8 = 0x02;

/// Under which key of the fold store the state of a message key stands.
pub fn state_key(key: Option<&[u8]>) -> Bytes {
    match key {
        None => Bytes::from_static(&[NULL_KEY]),
        Some(key) => {
            let mut bytes = Vec::with_capacity(1 + key.len());
            bytes.push(PRESENT_KEY);
            bytes.extend_from_slice(key);
            bytes.into()
        }
    }
}

/// A task's fold store with the current step staged over it.
pub(crate) struct FoldStore {
    staged: Staged<Box<dyn StateStore + Send>>,
}

impl FoldStore {
    pub(crate) fn over(store: Box<dyn StateStore + Send>) -> Self {
        Self {
            staged: Staged::over(store),
        }
    }

    pub(crate) fn get(&self, state_key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.staged.get(state_key)
    }

    /// Stages a state where it differs from the one before; `None` is no state.
    pub(crate) fn replace(
        &mut self,
        state_key: &[u8],
        before: Option<&Bytes>,
        after: Option<Bytes>,
    ) -> Result<(), StoreError> {
        if before == after.as_ref() {
            return Ok(());
        }
        match after {
            Some(after) => self.staged.put(state_key, after),
            None => self.staged.delete(state_key),
        }
    }

    /// What the step has staged so far.
    pub(crate) fn changes(&self) -> &Changes {
        self.staged.changes()
    }

    pub(crate) fn take_changes(&mut self) -> Changes {
        self.staged.take_changes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parsley_core::MemoryStore;

    #[test]
    fn the_null_key_the_empty_key_and_the_tick_state_stand_apart() {
        assert_eq!(state_key(None).as_ref(), [0]);
        assert_eq!(state_key(Some(b"")).as_ref(), [1]);
        assert_eq!(state_key(Some(b"ab")).as_ref(), [1, b'a', b'b']);
        assert_eq!(state_key(Some(&[0])).as_ref(), [1, 0]);
        assert_eq!(TICK_STATE_KEY, 2);
    }

    #[test]
    fn only_what_differs_is_staged() {
        let mut committed = MemoryStore::new();
        committed.put(b"\x01a", Bytes::from_static(b"1")).unwrap();
        let mut fold = FoldStore::over(Box::new(committed));
        let before = fold.get(b"\x01a").unwrap();
        fold.replace(b"\x01a", before.as_ref(), Some(Bytes::from_static(b"1")))
            .unwrap();
        fold.replace(b"\x01b", None, None).unwrap();
        assert!(fold.take_changes().is_empty());
        fold.replace(b"\x01a", before.as_ref(), None).unwrap();
        fold.replace(b"\x01b", None, Some(Bytes::new())).unwrap();
        assert_eq!(fold.get(b"\x01a").unwrap(), None);
        assert_eq!(fold.get(b"\x01b").unwrap(), Some(Bytes::new()));
        let changes = fold.take_changes();
        let expected = [
            (Bytes::from_static(b"\x01a"), None),
            (Bytes::from_static(b"\x01b"), Some(Bytes::new())),
        ];
        assert!(changes.0.into_iter().eq(expected));
    }
}
