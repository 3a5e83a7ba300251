//! How long to wait before a failed step is tried again.

use std::time::Duration;

/// The wait after a failure doubles from `first` to at most `longest`. Stopping an application interrupts it.
///
/// What a failed step had handed over stays in the log as an aborted run, offsets without payload, until retention removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure. Default 100 ms.
    pub first: Duration,
    /// The longest wait. Default 30 s.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(30),
        }
    }
}

impl Backoff {
    /// No waiting at all, for tests. Each failed attempt leaves an aborted run on the sinks that it wrote to, and without a wait those of
    /// logic that fails for good come as fast as it runs: they stay in the log until retention
    /// ([`TopicConfig::offsets_max`](crate::TopicConfig::offsets_max)) removes them.
    pub const NONE: Self = Self {
        first: Duration::ZERO,
        longest: Duration::ZERO,
    };

    /// The wait after the failure with this number, counted from 1.
    pub(crate) fn after(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1).min(31);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_the_longest() {
        let waits: Vec<u128> = (1..=11)
            .map(|attempt| Backoff::default().after(attempt).as_millis())
            .collect();
        assert_eq!(
            waits,
            [
                100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000
            ]
        );
        assert_eq!(Backoff::default().after(u32::MAX), Duration::from_secs(30));
        assert_eq!(
            Backoff {
                first: Duration::MAX,
                longest: Duration::MAX
            }
            .after(9),
            Duration::MAX
        );
        assert_eq!(Backoff::NONE.after(5), Duration::ZERO);
    }
}
