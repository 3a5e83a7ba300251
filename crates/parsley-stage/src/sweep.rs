//! When a truncation is due (`docs/protocol.md`, Truncation): hosts keep what they learn here until it is old enough.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parsley_core::{Channel, Offset, TopicId};

/// What was learned about the channels that stamps name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// Log starts, by channel.
    pub log_starts: BTreeMap<Channel, Offset>,
    /// Topics that are definitively gone.
    pub gone: BTreeSet<TopicId>,
}

/// In how many parts of a delay what was learned is kept apart.
const PARTS: u32 = 4;

/// Keeps what was learned until it is old enough to rest a truncation on. The newest is always kept, and what came before it is thinned out to
/// about one in each quarter of the delay. So little is kept however often there is something to learn, and a bound is a delay, a part
/// of one and a check interval old at most when it is used.
#[derive(Debug, Default)]
pub struct Sweep {
    /// In the order of time.
    learned: Vec<(i64, Learned)>,
}

impl Sweep {
    /// Takes note of what is known now. Returns the newest that has been known for the delay, once. A topic counts as gone when it was in all
    /// that was learned since: an answer that was stale or wrong proves nothing.
    pub fn learn(&mut self, now_ms: i64, learned: Learned, delay: Duration) -> Option<Learned> {
        for (_, earlier) in &mut self.learned {
            earlier.gone.retain(|topic| learned.gone.contains(topic));
        }
        self.keep(now_ms, learned, delay / PARTS);
        let is_due = |(at_ms, _): &(i64, Learned)| is_past(now_ms, *at_ms, delay);
        let newest = self.learned.iter().rposition(is_due)?;
        self.learned
            .drain(..=newest)
            .next_back()
            .map(|(_, learned)| learned)
    }

    fn keep(&mut self, now_ms: i64, learned: Learned, apart: Duration) {
        // A clock that has gone back would make it older than it is once it is right again.
        if self
            .learned
            .last()
            .is_some_and(|(at_ms, _)| now_ms < *at_ms)
        {
            return;
        }
        if let [.., (before_ms, _), newest] = &mut self.learned[..]
            && !is_past(now_ms, *before_ms, apart)
        {
            *newest = (now_ms, learned);
            return;
        }
        self.learned.push((now_ms, learned));
    }
}

/// Whether that much time has gone by since.
fn is_past(now_ms: i64, since_ms: i64, time: Duration) -> bool {
    u128::try_from(now_ms.saturating_sub(since_ms)).is_ok_and(|past| past >= time.as_millis())
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
        assert_eq!(sweep.learn(111, learned(4), delay), None, "once");
        assert_eq!(sweep.learn(121, learned(5), delay), Some(learned(4)));
    }

    /// A clock may stand still between two looks, and then the later one knows more.
    #[test]
    fn of_two_of_one_time_the_later_is_used() {
        let delay = Duration::from_millis(10);
        let mut sweep = Sweep::default();
        for offset in 1..=2 {
            assert_eq!(sweep.learn(100, learned(offset), delay), None);
        }
        assert_eq!(sweep.learn(110, learned(3), delay), Some(learned(2)));
        // One that has gone back has nothing to say.
        assert_eq!(sweep.learn(109, learned(4), delay), None);
        assert_eq!(sweep.learn(120, learned(5), delay), Some(learned(3)));
    }

    /// Only the first of a turn was kept once: what retention removed behind a check was claimed for up to two delays, and a task that
    /// checked twice, a delay apart, dropped nothing. In five scenarios of the conformance kit no claim was ever dropped.
    #[test]
    fn what_was_learned_last_is_used_a_delay_later() {
        let delay = Duration::from_millis(100);
        let mut sweep = Sweep::default();
        assert_eq!(sweep.learn(0, learned(0), delay), None);
        for at in 1..=3 {
            assert_eq!(sweep.learn(at, learned(at), delay), None);
        }
        assert_eq!(sweep.learn(103, learned(9), delay), Some(learned(3)));
    }

    #[test]
    fn little_is_kept_however_often_there_is_something_to_learn() {
        let delay = Duration::from_millis(1000);
        let mut sweep = Sweep::default();
        for now in 0..10_000 {
            if let Some(Learned { log_starts, .. }) = sweep.learn(now, learned(now), delay) {
                let age = now - log_starts.values().next().unwrap();
                assert!((1000..=1250).contains(&age), "{age}");
            }
            assert!(sweep.learned.len() <= 8, "{}", sweep.learned.len());
        }
    }

    #[test]
    fn a_longer_delay_than_there_are_milliseconds_is_never_over() {
        let mut sweep = Sweep::default();
        for now in [i64::MIN, 0, i64::MAX - 1] {
            assert_eq!(sweep.learn(now, learned(1), Duration::MAX), None, "{now}");
        }
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
        assert_eq!(
            sweep.learn(110, learned(3), Duration::from_millis(10)),
            Some(learned(1)),
            "what was learned at the wrong time is not taken for old"
        );
    }

    /// B13: a topic that one answer had not was taken for gone a delay later, whatever had been answered meanwhile.
    #[test]
    fn a_topic_that_is_there_again_was_never_gone() {
        let delay = Duration::from_millis(10);
        let (lost, dead) = (TopicId::of_name("lost"), TopicId::of_name("dead"));
        let gone = |topics: &[TopicId]| Learned {
            gone: topics.iter().copied().collect(),
            ..Learned::default()
        };
        let mut sweep = Sweep::default();
        assert_eq!(sweep.learn(0, gone(&[lost, dead]), delay), None);
        assert_eq!(sweep.learn(5, gone(&[dead]), delay), None);
        assert_eq!(
            sweep.learn(10, gone(&[lost, dead]), delay),
            Some(gone(&[dead]))
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
