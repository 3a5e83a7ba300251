//! An adversary: a topic that reaches one stage late. A delay counts rounds and no time, so a run with it ends as one without; a topic that is
//! withheld is the exception.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parsley_core::Offset;

/// A time that is too far for any clock is as good as this.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// How late a topic reaches a stage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delay {
    /// By so many fetch rounds.
    pub(crate) rounds: u64,
    /// Not before this.
    pub(crate) not_before: Option<Instant>,
}

impl Delay {
    pub(crate) fn withhold(&mut self, span: Duration) {
        self.not_before = Some(Instant::now() + span.min(YEAR));
    }
}

/// Holds back what a source has until enough fetch rounds have gone by.
#[derive(Clone, Debug)]
pub(crate) struct DelayLine {
    delay: Delay,
    /// Ends of the log as they were first seen, with the round from which on a fetch may reach them; both ascend.
    seen: VecDeque<(Offset, u64)>,
    /// How far a fetch may reach now.
    open_below: Offset,
    last_end: Offset,
}

impl DelayLine {
    /// A delay for everything at or above a position.
    pub(crate) fn new(delay: Delay, position: Offset) -> Self {
        Self {
            delay,
            seen: VecDeque::new(),
            open_below: position,
            last_end: position,
        }
    }

    /// Takes note of where the readable log ends in this round, and returns how far a fetch may reach.
    pub(crate) fn observe(&mut self, end: Offset, round: u64) -> Offset {
        if end > self.last_end {
            self.seen
                .push_back((end, round.saturating_add(self.delay.rounds)));
            self.last_end = end;
        }
        if self.withheld_until().is_some() {
            return self.open_below;
        }
        while let Some((end, _)) = self
            .seen
            .pop_front_if(|(_, from_round)| *from_round <= round)
        {
            self.open_below = end;
        }
        self.open_below
    }

    /// Until when nothing is let through, if that is yet to come.
    pub(crate) fn withheld_until(&self) -> Option<Instant> {
        self.delay
            .not_before
            .filter(|until| Instant::now() < *until)
    }

    /// Whether something was seen that a fetch may not reach yet.
    pub(crate) fn holds_back(&self) -> bool {
        !self.seen.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(rounds: u64) -> Delay {
        Delay {
            rounds,
            not_before: None,
        }
    }

    #[test]
    fn what_is_withheld_comes_when_its_time_has_come() {
        let mut delay = rounds(1);
        delay.withhold(Duration::MAX);
        let mut line = DelayLine::new(delay, 0);
        for round in 0..100 {
            assert_eq!(line.observe(3, round), 0);
        }
        assert!(line.withheld_until().is_some() && line.holds_back());
        delay.withhold(Duration::ZERO);
        let mut line = DelayLine::new(delay, 0);
        assert_eq!(line.withheld_until(), None);
        assert_eq!(line.observe(3, 0), 0, "a round has to go by");
        assert_eq!(line.observe(3, 1), 3);
    }

    #[test]
    fn a_record_can_be_fetched_that_many_rounds_after_it_was_seen() {
        let mut line = DelayLine::new(rounds(2), 5);
        assert_eq!(line.observe(5, 0), 5);
        assert!(!line.holds_back());
        assert_eq!(line.observe(7, 1), 5);
        assert_eq!(line.observe(8, 2), 5);
        assert!(line.holds_back());
        assert_eq!(line.observe(8, 3), 7, "seen in round 1");
        assert_eq!(line.observe(8, 4), 8, "seen in round 2");
        assert!(!line.holds_back());
    }

    #[test]
    fn no_rounds_are_no_delay() {
        let mut line = DelayLine::new(rounds(0), 0);
        assert_eq!(line.observe(3, 0), 3);
        assert!(!line.holds_back());
        let mut line = DelayLine::new(rounds(u64::MAX), 0);
        assert_eq!(line.observe(3, 7), 0);
        assert!(line.holds_back());
    }
}
