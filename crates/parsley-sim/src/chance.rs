//! Chance that is the same on every machine: raw words of a ChaCha stream, mapped by arithmetic written here.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A seeded source of draws. Nothing of it depends on how another crate maps words to ranges, so a seed means the same run for ever.
#[derive(Clone, Debug)]
pub struct Chance(ChaCha8Rng);

impl Chance {
    /// The draws of a seed.
    pub fn of_seed(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number below `bound`; 0 when the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let word = u128::from(self.0.next_u64());
        ((word * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included; `low` when the range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Whether an event of `percent` in 100 happens.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// An index into something of that length; `None` when it is empty.
    pub fn index(&mut self, length: usize) -> Option<usize> {
        (length > 0).then(|| self.below(length as u64) as usize)
    }

    /// One of the items.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        self.index(items.len()).and_then(|index| items.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_draws_everywhere() {
        let mut chance = Chance::of_seed(7);
        let drawn: Vec<u64> = (0..6).map(|_| chance.below(1000)).collect();
        assert_eq!(drawn, PINNED);
    }

    #[test]
    fn draws_stay_in_their_range_and_reach_its_ends() {
        let mut chance = Chance::of_seed(1);
        let drawn: Vec<u64> = (0..400).map(|_| chance.between(3, 6)).collect();
        assert_eq!(drawn.iter().min(), Some(&3));
        assert_eq!(drawn.iter().max(), Some(&6));
        assert_eq!(chance.below(0), 0);
        assert_eq!(chance.index(0), None);
        assert_eq!(chance.pick::<u8>(&[]), None);
    }

    /// Written down once; another value means that every seed means another run.
    const PINNED: [u64; 6] = [157, 167, 704, 726, 601, 359];
}
