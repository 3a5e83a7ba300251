//! When a truncation is due (`docs/protocol.md`, Truncation).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parsley_core::{Channel, Offset, TopicId};

/// What was learned about the channels that stamps name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Learned {
    pub(crate) log_starts: BTreeMap<Channel, Offset>,
    pub(crate) gone: BTreeSet<TopicId>,
}

/// Keeps one set of learned facts until it is old enough to rest a truncation on. What is learned in the meantime waits for the next
/// turn, so a bound is between one delay and two delays (and a check interval) old when it is used.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    learned: Option<(i64, Learned)>,
}

impl Sweep {
    /// Takes note of what is known now. Returns what has been known for the delay, once.
    pub(crate) fn learn(
        &mut self,
        now_ms: i64,
        learned: Learned,
        delay: Duration,
    ) -> Option<Learned> {
        let (learned_at_ms, _) = self.learned.get_or_insert((now_ms, learned));
        let age_ms = now_ms.saturating_sub(*learned_at_ms);
        if u128::try_from(age_ms).is_ok_and(|age_ms| age_ms >= delay.as_millis()) {
            return self.learned.take().map(|(_, learned)| learned);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(offset: Offset) -> Learned {
        Learned {
            log_starts: [(TopicId::of_name("t").partition(0), offset)].into(),
            ..Learned::default()
        }
    }

    #[test]
    fn a_bound_is_used_once_it_is_as_old_as_the_delay() {
        let delay = Duration::from_millis(10);
        let mut sweep = Sweep::default();
        assert_eq!(sweep.learn(100, learned(1), delay), None);
        assert_eq!(sweep.learn(109, learned(2), delay), None);
        assert_eq!(sweep.learn(110, learned(3), delay), Some(learned(1)));
        assert_eq!(
            sweep.learn(111, learned(4), delay),
            None,
            "what came in between is learned anew"
        );
        assert_eq!(sweep.learn(121, learned(5), delay), Some(learned(4)));
    }

    #[test]
    fn a_clock_that_goes_back_makes_nothing_old() {
        let mut sweep = Sweep::default();
        assert_eq!(
            sweep.learn(100, learned(1), Duration::from_millis(10)),
            None
        );
        assert_eq!(
            sweep.learn(i64::MIN, learned(2), Duration::from_millis(10)),
            None
        );
    }

    #[test]
    fn without_a_delay_what_is_known_counts_at_once() {
        assert_eq!(
            Sweep::default().learn(5, learned(1), Duration::ZERO),
            Some(learned(1))
        );
    }
}
