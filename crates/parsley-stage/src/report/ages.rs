//! How long records are held: when the process took them in, without a note for each of them.

use std::collections::{BTreeMap, VecDeque};

use parsley_core::{Channel, Offset};

/// How many notes are kept of a channel at most. Beyond that, every other one is given up.
const NOTES_MAX: usize = 64;

/// Knows about when records were taken in, by channel. A note says that all below a position had been taken in by a time; records that came
/// in between count from the later note. So an age is never longer than it is, and what is kept does not grow with what is held.
///
/// It knows no clock: times are the host's, in milliseconds from wherever it likes. It outlives the executions of a task in the same
/// process, as what is fed again after a failure was taken in before.
#[derive(Clone, Debug, Default)]
pub struct Ages(BTreeMap<Channel, VecDeque<Note>>);

/// All below the position was taken in by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    below: Offset,
    at_ms: i64,
}

impl Ages {
    /// Takes note that everything below `next` has been taken in on a channel. What was before, is not younger by that.
    pub fn taken_in(&mut self, channel: Channel, next: Offset, now_ms: i64) {
        let notes = self.0.entry(channel).or_default();
        match notes.back_mut() {
            Some(last) if last.below >= next => return,
            // Within a millisecond nothing is told apart.
            Some(last) if last.at_ms == now_ms => {
                last.below = next;
                return;
            }
            _ => {}
        }
        notes.push_back(Note {
            below: next,
            at_ms: now_ms,
        });
        if notes.len() > NOTES_MAX {
            // The first note counts for the oldest record, and stays; of two others the later stays.
            let mut number = 0;
            notes.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
    }

    /// Forgets what lies below a channel's first held record, which is all when none is held.
    pub fn released(&mut self, channel: Channel, first_held: Option<Offset>) {
        let Some(notes) = self.0.get_mut(&channel) else {
            return;
        };
        // The last note says up to where all was taken in, and stays.
        while notes.len() > 1 && first_held.is_none_or(|held| notes[0].below <= held) {
            notes.pop_front();
        }
    }

    /// For how long a record has been here, in milliseconds; 0 when it never was.
    pub fn age_ms(&self, channel: Channel, offset: Offset, now_ms: i64) -> u64 {
        let note = self.0.get(&channel).and_then(|notes| {
            let at = notes.partition_point(|note| note.below <= offset);
            notes.get(at)
        });
        note.map_or(0, |note| {
            u64::try_from(now_ms.saturating_sub(note.at_ms)).unwrap_or(0)
        })
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use parsley_core::TopicId;
    use proptest::prelude::*;

    use super::*;

    fn channel() -> Channel {
        TopicId::of_name("t").partition(0)
    }

    #[test]
    fn a_record_is_as_old_as_the_note_that_first_covers_it() {
        let mut ages = Ages::default();
        ages.taken_in(channel(), 3, 100);
        ages.taken_in(channel(), 5, 150);
        for (offset, age) in [(0, 100), (2, 100), (3, 50), (4, 50), (5, 0)] {
            assert_eq!(ages.age_ms(channel(), offset, 200), age, "{offset}");
        }
        ages.released(channel(), Some(3));
        assert_eq!(ages.age_ms(channel(), 3, 200), 50);
        let other = TopicId::of_name("u").partition(0);
        assert_eq!(ages.age_ms(other, 0, 200), 0);
        ages.clear();
        assert_eq!(ages.age_ms(channel(), 3, 200), 0);
    }

    /// What is told again takes nothing back, also within the same millisecond.
    #[test]
    fn what_is_taken_in_stays_so() {
        let mut ages = Ages::default();
        ages.taken_in(channel(), 10, 100);
        ages.taken_in(channel(), 5, 100);
        assert_eq!(ages.age_ms(channel(), 9, 150), 50);
    }

    #[test]
    fn as_many_notes_are_kept_as_may_be_and_one_for_a_millisecond() {
        let mut ages = Ages::default();
        for next in 1..=200 {
            ages.taken_in(channel(), next, 0);
        }
        assert_eq!(ages.0[&channel()].len(), 1);
        ages.clear();
        let notes_max = NOTES_MAX as Offset;
        for next in 1..=notes_max {
            ages.taken_in(channel(), next, next * 10);
        }
        for offset in 0..notes_max {
            let age = ages.age_ms(channel(), offset, 10_000);
            assert_eq!(age, 10_000 - (offset as u64 + 1) * 10, "{offset}");
        }
        ages.taken_in(channel(), notes_max + 1, 9_000);
        assert!(ages.0[&channel()].len() <= NOTES_MAX);
    }

    #[test]
    fn notes_of_what_is_released_go_but_for_the_last() {
        let mut ages = Ages::default();
        for (next, at) in [(3, 100), (5, 150), (9, 160)] {
            ages.taken_in(channel(), next, at);
        }
        let mut left = |first_held| {
            ages.released(channel(), first_held);
            ages.0[&channel()].len()
        };
        let held = [Some(2), Some(3), Some(4), Some(5), Some(8), None];
        assert_eq!(held.map(&mut left), [3, 2, 2, 1, 1, 1]);
        ages.released(TopicId::of_name("u").partition(0), None);
    }

    /// A step that fails is fed again: the records in it have been here since they came first.
    #[test]
    fn what_is_fed_again_is_as_old_as_before() {
        let mut ages = Ages::default();
        ages.taken_in(channel(), 4, 100);
        ages.released(channel(), None);
        ages.taken_in(channel(), 2, 900);
        ages.taken_in(channel(), 4, 900);
        assert_eq!(ages.age_ms(channel(), 3, 1000), 900);
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_age() {
        let mut ages = Ages::default();
        ages.taken_in(channel(), 1, 100);
        assert_eq!(ages.age_ms(channel(), 0, i64::MIN), 0);
        ages.taken_in(channel(), 2, i64::MIN);
        assert_eq!(ages.age_ms(channel(), 1, i64::MAX), i64::MAX as u64);
    }

    proptest! {
        /// Whatever is given up of the notes, no age is longer than it is, the record that has been here the longest keeps its own, and what is
        /// kept stays within its bound.
        #[test]
        fn ages_are_never_too_long_and_the_oldest_is_right(steps in prop::collection::vec((1..4_i64, 0..5_i64), 1..400)) {
            let (mut ages, mut next, mut now) = (Ages::default(), 0, 0);
            let mut taken = Vec::new();
            for (records, later) in steps {
                now += later;
                next += records;
                taken.resize(next as usize, now);
                ages.taken_in(channel(), next, now);
                prop_assert!(ages.0[&channel()].len() <= NOTES_MAX);
            }
            for (offset, at) in (0..).zip(&taken) {
                prop_assert!(ages.age_ms(channel(), offset, now) <= (now - at) as u64);
            }
            prop_assert_eq!(ages.age_ms(channel(), 0, now), (now - taken[0]) as u64);
        }
    }
}
