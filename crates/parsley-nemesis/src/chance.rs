//! What a seed draws.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Draws of a seed: raw words of a ChaCha stream, mapped by arithmetic written here, as the simulator's are. Each of the lanes that disturb a run
/// has a stream of its own, so that what one draws does not depend on how far another has come.
#[derive(Clone, Debug)]
pub struct Chance(ChaCha8Rng);

impl Chance {
    /// One of the streams of a seed.
    pub fn of_stream(seed: u64, stream: u64) -> Self {
        let mut words = ChaCha8Rng::seed_from_u64(seed);
        words.set_stream(stream);
        Self(words)
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

    /// A time in milliseconds from `low` to `high`.
    pub fn time(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// One of the items, by weight; the last one when the weights are all 0.
    ///
    /// # Panics
    ///
    /// When there are no items.
    pub fn weighted<T: Copy>(&mut self, items: &[(u64, T)]) -> T {
        let mut left = self.below(items.iter().map(|(weight, _)| weight).sum());
        for (weight, item) in items {
            match left.checked_sub(*weight) {
                None => return *item,
                Some(rest) => left = rest,
            }
        }
        items.last().expect("something is to be drawn from").1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64, stream: u64) -> Vec<u64> {
        let mut chance = Chance::of_stream(seed, stream);
        (0..6).map(|_| chance.below(1000)).collect()
    }

    #[test]
    fn a_seed_draws_the_same_everywhere_and_its_streams_differ() {
        // Written down once; others mean that every seed means another schedule.
        assert_eq!(drawn(7, 0), [157, 167, 704, 726, 601, 359]);
        assert_ne!(drawn(7, 1), drawn(7, 0));
        assert_ne!(drawn(8, 0), drawn(7, 0));
    }

    #[test]
    fn what_has_no_weight_is_not_drawn() {
        let mut chance = Chance::of_stream(1, 0);
        let drawn: Vec<u64> = (0..200)
            .map(|_| chance.weighted(&[(0, 0), (1, 1), (3, 2), (0, 3)]))
            .collect();
        assert!(drawn.contains(&1) && drawn.contains(&2));
        assert!(!drawn.contains(&0) && !drawn.contains(&3));
        assert!((400..=500).contains(&chance.time(400, 500).as_millis()));
    }
}
