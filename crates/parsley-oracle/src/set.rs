//! Sets of records.

use crate::Emission;

const BITS: usize = u64::BITS as usize;

/// A set of emissions, one bit each.
#[derive(Debug, Default)]
pub(crate) struct EmissionSet {
    words: Vec<u64>,
}

impl Clone for EmissionSet {
    fn clone(&self) -> Self {
        Self {
            words: self.words.clone(),
        }
    }

    /// Keeps the allocation: a step's end copies whole sets.
    fn clone_from(&mut self, source: &Self) {
        self.words.clone_from(&source.words);
    }
}

impl EmissionSet {
    #[inline]
    pub(crate) fn contains(&self, emission: Emission) -> bool {
        let index = emission.index();
        self.words
            .get(index / BITS)
            .is_some_and(|word| word >> (index % BITS) & 1 == 1)
    }

    #[inline]
    pub(crate) fn insert(&mut self, emission: Emission) {
        let index = emission.index();
        self.grow(index / BITS + 1);
        self.words[index / BITS] |= 1 << (index % BITS);
    }

    #[inline]
    pub(crate) fn unite(&mut self, other: &Self) {
        self.grow(other.words.len());
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
    }

    /// What is in this set and in `among`, and not in `except`.
    pub(crate) fn missing<'a>(
        &'a self,
        among: &'a Self,
        except: &'a Self,
    ) -> impl Iterator<Item = Emission> + 'a {
        let words = self.words.iter().zip(&among.words).enumerate();
        let words = words.map(|(at, (word, among))| {
            (
                at,
                word & among & !except.words.get(at).copied().unwrap_or(0),
            )
        });
        words.flat_map(|(at, word)| Bits(word).map(move |bit| Emission::new(at * BITS + bit)))
    }

    /// The members, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Emission> + '_ {
        let words = self.words.iter().enumerate();
        words.flat_map(|(at, word)| Bits(*word).map(move |bit| Emission::new(at * BITS + bit)))
    }

    #[inline]
    fn grow(&mut self, words: usize) {
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
    }
}

/// The numbers of the bits that are set in a word, lowest first.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(members: &BTreeSet<usize>) -> EmissionSet {
        let mut set = EmissionSet::default();
        for member in members {
            set.insert(Emission::new(*member));
        }
        set
    }

    fn members(emissions: impl Iterator<Item = Emission>) -> Vec<usize> {
        emissions.map(Emission::index).collect()
    }

    fn some() -> impl Strategy<Value = BTreeSet<usize>> {
        proptest::collection::btree_set(0_usize..200, 0..40)
    }

    proptest! {
        #[test]
        fn the_operations_are_those_of_a_tree_of_numbers(a in some(), b in some(), c in some(), probe in 0_usize..400) {
            let (left, among, except) = (set(&a), set(&b), set(&c));
            prop_assert_eq!(left.contains(Emission::new(probe)), a.contains(&probe));
            prop_assert_eq!(members(left.iter()), a.iter().copied().collect::<Vec<_>>());
            let expected: Vec<usize> = a.iter().filter(|m| b.contains(m) && !c.contains(m)).copied().collect();
            prop_assert_eq!(members(left.missing(&among, &except)), expected);
            let mut union = left.clone();
            union.unite(&among);
            prop_assert_eq!(members(union.iter()), a.union(&b).copied().collect::<Vec<_>>());
            union.clone_from(&except);
            prop_assert_eq!(members(union.iter()), c.iter().copied().collect::<Vec<_>>());
            union.clear();
            prop_assert_eq!(union.iter().count(), 0);
        }
    }
}
