//! Damage to a committed store.

use std::collections::BTreeMap;

use crate::equivalence::chance::Chance;

/// One or two keys set or removed, so that most of the results cannot be trusted any more.
pub fn of(
    store: &BTreeMap<String, Vec<u8>>,
    chance: &mut Chance,
) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut edits = BTreeMap::new();
    let entries: Vec<(String, Vec<u8>)> = store
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    for _ in 0..1 + chance.below(2) {
        let Some((key, mut value)) = chance.pick(&entries) else {
            return edits;
        };
        match chance.below(9) {
            0 => drop(edits.insert(key, None)),
            1 => {
                value.truncate(chance.below(value.len()));
                edits.insert(key, Some(value));
            }
            2 => {
                value.push(chance.word() as u8);
                edits.insert(key, Some(value));
            }
            3 => {
                let at = chance.below(value.len());
                value[at] ^= 1 << chance.below(8);
                edits.insert(key, Some(value));
            }
            4 => {
                value[0] ^= 0x80;
                edits.insert(key, Some(value));
            }
            5 => {
                let strange = chance
                    .pick(&["", "x", "f/", "q", "scope/", "ca/x", "f/0:0", "zz/1"])
                    .expect("a key");
                edits.insert(strange.to_owned(), Some(value));
            }
            6 => {
                let mut renamed = key.clone().into_bytes();
                let at = chance.below(renamed.len());
                renamed[at] = chance.pick(b"0123456789abcdefgh/:-").expect("a character");
                edits.insert(key, None);
                edits.insert(String::from_utf8(renamed).expect("ASCII"), Some(value));
            }
            7 => drop(edits.insert(format!("{key}0"), Some(value))),
            _ => {
                let (other, _) = chance.pick(&entries).expect("an entry");
                edits.insert(other, Some(value));
            }
        }
    }
    edits
}
