//! The work that the benchmarks measure, apart from the measuring, so that tests can ask whether it does what it claims.
//!
//! `docs/performance.md` says what each figure means. Every piece of work counts what it did, and panics when that is not what was to be
//! done: a benchmark of something else would be worse than none.

#![forbid(unsafe_code)]

use std::time::Duration;

pub mod clocks;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(feature = "embedded")]
pub mod pipeline;
pub mod release;
pub mod restore;
pub mod stamp;
pub mod stream;
#[cfg(feature = "embedded")]
pub mod told;
mod world;

/// How many records a step takes in where the work is a stream of them, unless the figure says otherwise: as many as the embedded host
/// fetches from an input for a step, unless told otherwise.
pub const STEP_RECORDS: usize = 500;

/// The time that `units` would have taken, from rounds of `units_in_round` of which each tells its own time: what a benchmark returns whose
/// smallest piece of work is more than its unit.
pub fn time_of(units: u64, units_in_round: u64, mut round: impl FnMut() -> Duration) -> Duration {
    let rounds = units.div_ceil(units_in_round);
    let took: Duration = (0..rounds).map(|_| round()).sum();
    took.mul_f64(units as f64 / (rounds * units_in_round) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_s_time_is_its_share_of_whole_rounds() {
        let mut rounds = 0;
        let took = time_of(25, 10, || {
            rounds += 1;
            Duration::from_nanos(40)
        });
        assert_eq!((rounds, took), (3, Duration::from_nanos(100)));
    }
}
