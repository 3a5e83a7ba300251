//! Draws from ChaCha's raw words, so that a seed gives the same script on every machine.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

pub struct Chance(ChaCha8Rng);

impl Chance {
    pub fn seeded(seed: u64) -> Chance {
        Chance(ChaCha8Rng::seed_from_u64(seed))
    }

    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// One of `0 .. bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound as u64) as usize
    }

    /// One of `low ..= high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + (self.word() % (high - low + 1) as u64) as i64
    }

    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() {
            None
        } else {
            Some(from[self.below(from.len())].clone())
        }
    }
}
