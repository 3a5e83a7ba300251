//! Evidence that forgets against evidence that keeps every pair.

use proptest::prelude::*;

use super::*;
use crate::strategies::cases;

const CHANNELS: usize = 3;

fn mark(ordinal: u64, fed: &[Option<Offset>]) -> Mark {
    Mark {
        execution: Execution::default(),
        ordinal,
        fed: fed.into(),
        known: BTreeMap::new(),
        acknowledged: BTreeMap::new(),
    }
}

#[test]
fn an_execution_is_only_itself() {
    let one = Execution::default();
    assert_eq!(one, one.clone());
    assert_ne!(one, Execution::default());
}

#[test]
fn a_watermark_speaks_for_what_was_received_when_its_mark_was_taken() {
    let mut evidence = Evidence::default();
    assert!(evidence.is_empty());
    assert_eq!(evidence.lowest_after_receipt(0, 0), None);
    evidence.add(&mark(1, &[Some(4), None, Some(0)]), 10);
    assert!(!evidence.is_empty());
    assert_eq!(evidence.lowest_after_receipt(0, 3), Some(10));
    assert_eq!(evidence.lowest_after_receipt(0, 4), Some(10));
    assert_eq!(evidence.lowest_after_receipt(0, 5), None);
    // Nothing had been received on the second channel.
    assert_eq!(evidence.lowest_after_receipt(1, 0), None);
    assert_eq!(evidence.lowest_after_receipt(2, 0), Some(10));
    assert_eq!(evidence.lowest_after_receipt(2, 1), None);

    evidence.add(&mark(2, &[Some(9), Some(0), Some(0)]), 12);
    assert_eq!(evidence.lowest_after_receipt(0, 4), Some(10));
    assert_eq!(evidence.lowest_after_receipt(0, 5), Some(12));
    assert_eq!(evidence.lowest_after_receipt(0, 9), Some(12));
    assert_eq!(evidence.lowest_after_receipt(0, 10), None);
    assert_eq!(evidence.lowest_after_receipt(1, 0), Some(12));
}

#[test]
fn what_says_less_goes_when_more_is_known() {
    let fed = [Some(9)];
    let kept = |pairs: &[(u64, Offset)]| {
        let mut evidence = Evidence::default();
        for &(ordinal, position) in pairs {
            evidence.add(&mark(ordinal, &fed), position);
        }
        evidence
            .0
            .iter()
            .map(|kept| (kept.mark, kept.position))
            .collect::<Vec<_>>()
    };
    // The same mark, the same position; a later mark; a lower position.
    assert_eq!(kept(&[(1, 5), (1, 5)]), [(1, 5)]);
    assert_eq!(kept(&[(1, 5), (2, 5)]), [(2, 5)]);
    assert_eq!(kept(&[(1, 5), (1, 4)]), [(1, 4)]);
    // Each says something that the other does not.
    assert_eq!(kept(&[(1, 5), (2, 6)]), [(1, 5), (2, 6)]);
    assert_eq!(kept(&[(2, 6), (1, 5)]), [(2, 6), (1, 5)]);
}

#[test]
fn a_watermark_that_is_reached_makes_the_earlier_ones_useless() {
    let fed = [Some(9)];
    let three = || {
        let mut evidence = Evidence::default();
        for (ordinal, position) in [(1, 5), (2, 8), (3, 12)] {
            evidence.add(&mark(ordinal, &fed), position);
        }
        evidence
    };
    for (fed_up_to, expected) in [
        (None, vec![1, 2, 3]),
        (Some(3), vec![1, 2, 3]),
        (Some(4), vec![1, 2, 3]),
        (Some(6), vec![1, 2, 3]),
        (Some(7), vec![2, 3]),
        (Some(10), vec![2, 3]),
        (Some(11), vec![3]),
        (Some(i64::MAX), vec![3]),
    ] {
        let mut evidence = three();
        evidence.prune(fed_up_to);
        let marks: Vec<u64> = evidence.0.iter().map(|kept| kept.mark).collect();
        assert_eq!(marks, expected, "{fed_up_to:?}");
    }
}

#[derive(Clone, Debug)]
enum Event {
    /// What was fed on a channel grows.
    Fed(usize, Offset),
    Mark,
    /// The answer to a mark taken some time ago, so far above what was fed when it was taken.
    Answer(prop::sample::Index, Offset),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..CHANNELS, 1..4_i64).prop_map(|(on, by)| Event::Fed(on, by)),
        2 => Just(Event::Mark),
        3 => (any::<prop::sample::Index>(), 0..9_i64).prop_map(|(mark, by)| Event::Answer(mark, by)),
    ]
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn forgetting_never_changes_whether_a_reached_watermark_speaks_for_a_record(
        events in prop::collection::vec(event(), 1..40),
    ) {
        // Evidence on channel 0; records may stand on any.
        let mut evidence = Evidence::default();
        let mut kept: Vec<(Mark, Offset)> = Vec::new();
        let mut marks = vec![mark(1, &[None; CHANNELS])];
        let mut fed = [None; CHANNELS];
        for event in events {
            match event {
                Event::Fed(on, by) => {
                    fed[on] = Some(fed[on].unwrap_or(-1) + by);
                    evidence.prune(fed[0]);
                }
                Event::Mark => marks.push(mark(marks.len() as u64 + 1, &fed)),
                Event::Answer(which, by) => {
                    let answered = which.get(&marks);
                    let position = answered.fed[0].map_or(0, |fed| fed + 1) + by;
                    kept.push((answered.clone(), position));
                    evidence.add(answered, position);
                    evidence.prune(fed[0]);
                }
            }
            let latest_fed = fed[0].unwrap_or(-1);
            for (on, fed_there) in fed.iter().enumerate() {
                for offset in 0..=fed_there.unwrap_or(-1) {
                    // As it is now, and however far the channel is fed later.
                    for fed_then in latest_fed..latest_fed + 12 {
                        let reached = |position| fed_then >= position - 1;
                        let expected = kept.iter().any(|(mark, position)| {
                            mark.fed[on].is_some_and(|fed| offset <= fed) && reached(*position)
                        });
                        let found = evidence.lowest_after_receipt(on, offset).is_some_and(reached);
                        prop_assert_eq!(found, expected, "{}@{} at {}", on, offset, fed_then);
                    }
                }
            }
        }
    }
}
