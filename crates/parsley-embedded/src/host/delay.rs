//! An adversary: a topic that reaches one stage late. Nothing here counts time, so a run with it ends as one without.

use std::collections::VecDeque;

use parsley_core::Offset;

/// Holds back what a source has until enough fetch rounds have gone by.
#[derive(Clone, Debug)]
pub(crate) struct DelayLine {
    polls: u64,
    /// Ends of the log as they were first seen, with the round from which on a fetch may reach them; both ascend.
    seen: VecDeque<(Offset, u64)>,
    /// How far a fetch may reach now.
    open_below: Offset,
    last_end: Offset,
}

impl DelayLine {
    /// A delay of `polls` rounds for everything at or above a position.
    pub(crate) fn new(polls: u64, position: Offset) -> Self {
        Self {
            polls,
            seen: VecDeque::new(),
            open_below: position,
            last_end: position,
        }
    }

    /// Takes note of where the readable log ends in this round, and returns how far a fetch may reach.
    pub(crate) fn observe(&mut self, end: Offset, round: u64) -> Offset {
        if end > self.last_end {
            self.seen.push_back((end, round.saturating_add(self.polls)));
            self.last_end = end;
        }
        while let Some((end, _)) = self
            .seen
            .pop_front_if(|(_, from_round)| *from_round <= round)
        {
            self.open_below = end;
        }
        self.open_below
    }

    /// Whether something was seen that a fetch may not reach yet.
    pub(crate) fn holds_back(&self) -> bool {
        !self.seen.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_can_be_fetched_that_many_rounds_after_it_was_seen() {
        let mut line = DelayLine::new(2, 5);
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
        let mut line = DelayLine::new(0, 0);
        assert_eq!(line.observe(3, 0), 3);
        assert!(!line.holds_back());
        let mut line = DelayLine::new(u64::MAX, 0);
        assert_eq!(line.observe(3, 7), 0);
        assert!(line.holds_back());
    }
}
