//! Stores against a `BTreeMap`, and steps that are kept or forgotten.

use proptest::prelude::*;

use super::*;
use crate::strategies::cases;

type Reference = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Operation {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    /// Takes the step's changes out and applies them to the base.
    Commit,
    Rollback,
}

/// Keys of few letters, so that prefixes and repetitions are frequent.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, b'a', b'b', 0xff]), 0..4)
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (key(), prop::collection::vec(any::<u8>(), 0..2))
            .prop_map(|(key, value)| Operation::Put(key, value)),
        4 => key().prop_map(Operation::Delete),
        1 => Just(Operation::Commit),
        1 => Just(Operation::Rollback),
    ]
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// What a scan visits when the visitor breaks at the `stop`th entry.
fn scanned(store: &impl StateStore, prefix: &[u8], from: &[u8], stop: usize) -> Entries {
    let mut visited = Vec::new();
    store
        .scan(prefix, from, &mut |key, value| {
            visited.push((key.to_vec(), value.to_vec()));
            if visited.len() == stop {
                Visit::Break(())
            } else {
                Visit::Continue(())
            }
        })
        .expect("memory does not fail");
    visited
}

fn expected(reference: &Reference, prefix: &[u8], from: &[u8], stop: usize) -> Entries {
    reference
        .iter()
        .filter(|(key, _)| key.starts_with(prefix) && key.as_slice() >= from)
        .take(stop)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn get(store: &impl StateStore, key: &[u8]) -> Option<Vec<u8>> {
    store
        .get(key)
        .expect("memory does not fail")
        .map(|value| value.to_vec())
}

fn apply(store: &mut impl StateStore, operation: &Operation) {
    match operation {
        Operation::Put(key, value) => store.put(key, Bytes::copy_from_slice(value)),
        Operation::Delete(key) => store.delete(key),
        Operation::Commit | Operation::Rollback => Ok(()),
    }
    .expect("memory does not fail");
}

fn apply_to_reference(reference: &mut Reference, operation: &Operation) {
    match operation {
        Operation::Put(key, value) => {
            reference.insert(key.clone(), value.clone());
        }
        Operation::Delete(key) => {
            reference.remove(key);
        }
        Operation::Commit | Operation::Rollback => {}
    }
}

fn agrees(
    store: &impl StateStore,
    reference: &Reference,
    queries: &[(Vec<u8>, Vec<u8>, usize)],
) -> Result<(), TestCaseError> {
    for (prefix, from, stop) in queries {
        prop_assert_eq!(
            scanned(store, prefix, from, *stop),
            expected(reference, prefix, from, *stop)
        );
        prop_assert_eq!(get(store, from), reference.get(from).cloned());
    }
    let all = expected(reference, b"", b"", usize::MAX);
    prop_assert_eq!(scanned(store, b"", b"", usize::MAX), all);
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_staged_store_reads_like_a_map_and_its_base_sees_only_what_was_applied(
        operations in prop::collection::vec(operation(), 0..40),
        queries in prop::collection::vec((key(), key(), 1..5_usize), 4),
    ) {
        let mut staged = Staged::over(MemoryStore::new());
        let (mut committed, mut visible) = (Reference::new(), Reference::new());
        for operation in &operations {
            apply(&mut staged, operation);
            apply_to_reference(&mut visible, operation);
            match operation {
                Operation::Commit => {
                    let changes = staged.take_changes();
                    prop_assert!(staged.changes().is_empty());
                    // Until they are applied the step is invisible.
                    agrees(&staged, &committed, &queries)?;
                    staged.base_mut().apply(changes);
                    committed = visible.clone();
                }
                Operation::Rollback => {
                    staged.rollback();
                    prop_assert!(staged.changes().is_empty());
                    visible = committed.clone();
                }
                _ => prop_assert!(!staged.changes().is_empty()),
            }
            agrees(&staged, &visible, &queries)?;
        }
        agrees(staged.base(), &committed, &queries)?;
        let entries: Entries =
            staged.base().iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        prop_assert_eq!(entries, expected(&committed, b"", b"", usize::MAX));
    }

    #[test]
    fn a_memory_store_and_a_boxed_one_read_like_a_map(
        operations in prop::collection::vec(operation(), 0..40),
        queries in prop::collection::vec((key(), key(), 1..5_usize), 4),
    ) {
        let mut memory = MemoryStore::new();
        let mut boxed: Box<dyn StateStore> = Box::new(MemoryStore::new());
        let mut reference = Reference::new();
        for operation in &operations {
            apply(&mut memory, operation);
            apply(&mut boxed, operation);
            apply_to_reference(&mut reference, operation);
        }
        agrees(&memory, &reference, &queries)?;
        agrees(&boxed, &reference, &queries)?;
    }
}

fn base() -> MemoryStore {
    let mut store = MemoryStore::new();
    for key in ["a", "b", "c", "d"] {
        store
            .put(key.as_bytes(), Bytes::from_static(b"base"))
            .expect("memory does not fail");
    }
    store
}

#[test]
fn a_scan_merges_what_is_staged_into_what_is_beneath() {
    let mut staged = Staged::over(base());
    let staged_value = || Bytes::from_static(b"staged");
    for key in ["0", "b", "bb", "e", "f"] {
        staged.put(key.as_bytes(), staged_value()).expect("memory");
    }
    staged.delete(b"c").expect("memory");
    staged.delete(b"f").expect("memory");
    staged.delete(b"nowhere").expect("memory");
    let all = [
        ("0", "staged"),
        ("a", "base"),
        ("b", "staged"),
        ("bb", "staged"),
        ("d", "base"),
        ("e", "staged"),
    ]
    .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()));
    // Wherever the visitor breaks, nothing more is visited.
    for stop in 1..=all.len() {
        assert_eq!(scanned(&staged, b"", b"", stop), all[..stop]);
    }
    assert_eq!(scanned(&staged, b"b", b"", 9), all[2..4]);
    assert_eq!(scanned(&staged, b"b", b"b", 9), all[2..4]);
    assert_eq!(scanned(&staged, b"b", b"ba", 9), all[3..4]);
    assert_eq!(scanned(&staged, b"b", b"c", 9), []);
    assert_eq!(scanned(&staged, b"", b"c", 9), all[4..]);
    assert_eq!(staged.base(), &base());
}

#[test]
fn changes_of_a_step_hold_the_last_word_on_each_key() {
    let mut staged = Staged::over(base());
    assert!(staged.changes().is_empty());
    staged.put(b"a", Bytes::from_static(b"1")).expect("memory");
    staged.put(b"a", Bytes::from_static(b"2")).expect("memory");
    staged.put(b"x", Bytes::from_static(b"3")).expect("memory");
    staged.delete(b"x").expect("memory");
    staged.delete(b"b").expect("memory");
    let changes = staged.take_changes();
    let expected = [
        ("a", Some(Bytes::from_static(b"2"))),
        ("b", None),
        ("x", None),
    ];
    let expected = expected.map(|(key, value)| (Bytes::from_static(key.as_bytes()), value));
    assert_eq!(changes, Changes(expected.into()));
    assert!(!changes.is_empty());
    assert_eq!(get(&staged, b"a").as_deref(), Some(&b"base"[..]));

    staged.base_mut().apply(changes);
    assert_eq!(get(&staged, b"a").as_deref(), Some(&b"2"[..]));
    assert_eq!(get(&staged, b"b"), None);
    assert_eq!(staged.base().iter().count(), 3);
}

#[test]
fn a_rollback_forgets_the_step() {
    let mut staged = Staged::over(base());
    staged.put(b"a", Bytes::new()).expect("memory");
    staged.delete(b"b").expect("memory");
    staged.rollback();
    assert!(staged.changes().is_empty());
    assert_eq!(get(&staged, b"a").as_deref(), Some(&b"base"[..]));
    assert_eq!(get(&staged, b"b").as_deref(), Some(&b"base"[..]));
    assert_eq!(staged.base(), &base());
}

#[test]
fn a_store_error_carries_what_the_host_said() {
    let error = StoreError::new("disk on fire");
    assert_eq!(error.to_string(), "the state store failed: disk on fire");
    let source = std::error::Error::source(&error).expect("a source");
    assert_eq!(source.to_string(), "disk on fire");
}
