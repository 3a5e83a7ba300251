//! The clock against a `BTreeMap` that keeps the larger value of each key, and the laws of a join.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::channel::Id;
use crate::strategies::{self as any, cases};

fn topic(number: i64) -> TopicId {
    TopicId(Id {
        msb: 0,
        lsb: number,
    })
}

fn channel(number: i64) -> Channel {
    topic(number).partition(0)
}

fn sender(number: i64) -> SenderId {
    SenderId(Id {
        msb: number,
        lsb: 0,
    })
}

fn offset(on: i64, offset: Offset) -> OffsetClaim {
    OffsetClaim {
        channel: channel(on),
        offset,
    }
}

fn sequence(on: i64, from: i64, sequence: i64) -> SequenceClaim {
    SequenceClaim {
        channel: channel(on),
        sender: sender(from),
        sequence,
    }
}

fn offsets(claims: &[(i64, Offset)]) -> Clock {
    Clock::from_claims(claims.iter().map(|&(on, at)| offset(on, at)), [])
}

fn sequences(claims: &[(i64, i64, i64)]) -> Clock {
    Clock::from_claims(
        [],
        claims
            .iter()
            .map(|&(on, from, up_to)| sequence(on, from, up_to)),
    )
}

/// The clock as the plainest thing that could do it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Reference {
    offsets: BTreeMap<Channel, Offset>,
    sequences: BTreeMap<(Channel, SenderId), i64>,
}

impl Reference {
    fn of(clock: &Clock) -> Self {
        let mut reference = Self::default();
        reference.join(clock);
        reference
    }

    fn join(&mut self, clock: &Clock) {
        for claim in clock.offsets() {
            raise(&mut self.offsets, claim.channel, claim.offset);
        }
        for claim in clock.sequences() {
            let key = (claim.channel, claim.sender);
            raise(&mut self.sequences, key, claim.sequence);
        }
    }

    fn dominates(&self, other: &Self) -> bool {
        fn covers<K: Ord>(wide: &BTreeMap<K, i64>, narrow: &BTreeMap<K, i64>) -> bool {
            narrow
                .iter()
                .all(|(key, value)| wide.get(key).is_some_and(|known| known >= value))
        }
        covers(&self.offsets, &other.offsets) && covers(&self.sequences, &other.sequences)
    }

    /// Both sections spelled out, so that the order of a clock's entries is compared too.
    fn entries(&self) -> (Vec<OffsetClaim>, Vec<SequenceClaim>) {
        let offsets = self
            .offsets
            .iter()
            .map(|(&channel, &offset)| OffsetClaim { channel, offset });
        let sequences = self
            .sequences
            .iter()
            .map(|(&(channel, sender), &sequence)| SequenceClaim {
                channel,
                sender,
                sequence,
            });
        (offsets.collect(), sequences.collect())
    }
}

fn raise<K: Ord>(map: &mut BTreeMap<K, i64>, key: K, value: i64) {
    let known = map.entry(key).or_insert(value);
    *known = value.max(*known);
}

fn entries(clock: &Clock) -> (Vec<OffsetClaim>, Vec<SequenceClaim>) {
    (clock.offsets().to_vec(), clock.sequences().to_vec())
}

fn joined(left: &Clock, right: &Clock) -> Clock {
    let mut joined = left.clone();
    joined.merge(right);
    joined
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn a_merge_is_what_the_reference_does(left in any::clock(), right in any::clock()) {
        let mut reference = Reference::of(&left);
        let before = reference.clone();
        reference.join(&right);
        let mut merged = left.clone();
        let changed = merged.merge(&right);
        prop_assert_eq!(entries(&merged), reference.entries());
        prop_assert_eq!(changed, reference != before);
    }

    #[test]
    fn a_merge_is_a_join(a in any::clock(), b in any::clock(), c in any::clock()) {
        prop_assert_eq!(joined(&a, &a), a.clone());
        prop_assert_eq!(joined(&a, &b), joined(&b, &a));
        prop_assert_eq!(joined(&joined(&a, &b), &c), joined(&a, &joined(&b, &c)));
        prop_assert_eq!(joined(&a, &Clock::new()), a.clone());
        prop_assert_eq!(joined(&Clock::new(), &a), a);
    }

    #[test]
    fn keys_are_compared_in_their_order(
        a in (any::channel(), any::id().prop_map(SenderId)),
        b in (any::channel(), any::id().prop_map(SenderId)),
    ) {
        // Also on one channel, where the senders decide.
        for b in [b, (a.0, b.1), (b.0, a.1)] {
            let of = |(channel, sender): (Channel, SenderId)| {
                (OffsetClaim { channel, offset: 0 }, SequenceClaim { channel, sender, sequence: 0 })
            };
            let ((offset_a, sequence_a), (offset_b, sequence_b)) = (of(a), of(b));
            prop_assert_eq!(offset_a.key_is_below(&offset_b), a.0 < b.0);
            prop_assert_eq!(sequence_a.key_is_below(&sequence_b), a < b);
        }
    }

    #[test]
    fn one_clock_dominates_another_exactly_when_joining_it_changes_nothing(
        a in any::clock(),
        b in any::clock(),
    ) {
        let reference = Reference::of(&a).dominates(&Reference::of(&b));
        prop_assert_eq!(a.dominates(&b), reference);
        prop_assert_eq!(!a.clone().merge(&b), reference);
        prop_assert!(joined(&a, &b).dominates(&a));
        prop_assert!(joined(&a, &b).dominates(&b));
    }

    #[test]
    fn claims_in_any_order_with_repetitions_give_one_clock(
        offsets in prop::collection::vec(any::offset_claim(), 0..30),
        sequences in prop::collection::vec(any::sequence_claim(), 0..30),
    ) {
        let mut one_by_one = Clock::new();
        for claim in &offsets {
            let before = one_by_one.clone();
            let changed = one_by_one.claim_offset(claim.channel, claim.offset);
            prop_assert_eq!(changed, one_by_one != before);
        }
        for claim in &sequences {
            let before = one_by_one.clone();
            let changed = one_by_one.claim_sequence(claim.channel, claim.sender, claim.sequence);
            prop_assert_eq!(changed, one_by_one != before);
        }
        let reversed = Clock::from_claims(
            offsets.iter().rev().copied(),
            sequences.iter().rev().copied(),
        );
        let forward = Clock::from_claims(offsets, sequences);
        prop_assert_eq!(&forward, &one_by_one);
        prop_assert_eq!(&forward, &reversed);
        prop_assert_eq!(entries(&forward), Reference::of(&forward).entries());
        prop_assert_eq!(forward.width(), forward.offsets().len() + forward.sequences().len());
        prop_assert_eq!(forward.is_empty(), forward.width() == 0);
    }

    #[test]
    fn look_ups_agree_with_the_entries(clock in any::clock(), channel in any::channel()) {
        let reference = Reference::of(&clock);
        prop_assert_eq!(clock.offset(channel), reference.offsets.get(&channel).copied());
        let on_it: Vec<SequenceClaim> =
            reference.entries().1.into_iter().filter(|claim| claim.channel == channel).collect();
        prop_assert_eq!(clock.sequences_on(channel), on_it.as_slice());
    }

    #[test]
    fn rewrites_agree_with_the_reference(
        clock in any::clock(),
        on in any::channel(),
        bound in any::natural(),
    ) {
        let mut truncated = clock.clone();
        let mut reference = Reference::of(&clock);
        let goes = reference.offsets.get(&on).is_some_and(|&offset| offset < bound);
        reference.offsets.retain(|&channel, &mut offset| channel != on || offset >= bound);
        prop_assert_eq!(truncated.truncate_below(on, bound), goes);
        prop_assert_eq!(entries(&truncated), reference.entries());

        let mut dropped = clock.clone();
        let mut reference = Reference::of(&clock);
        reference.offsets.retain(|channel, _| channel.topic != on.topic);
        reference.sequences.retain(|(channel, _), _| channel.topic != on.topic);
        let goes = reference != Reference::of(&clock);
        prop_assert_eq!(dropped.drop_topic(on.topic), goes);
        prop_assert_eq!(entries(&dropped), reference.entries());

        let mut resolved = clock.clone();
        let mut reference = Reference::of(&clock);
        let resolve = |sequence: i64| (sequence <= bound).then(|| sequence.saturating_add(3));
        for claim in clock.sequences() {
            if let Some(offset) = resolve(claim.sequence) {
                reference.sequences.remove(&(claim.channel, claim.sender));
                raise(&mut reference.offsets, claim.channel, offset);
            }
        }
        let changed = resolved.resolve_sequences(|claim| resolve(claim.sequence));
        prop_assert_eq!(changed, reference != Reference::of(&clock));
        prop_assert_eq!(entries(&resolved), reference.entries());
    }
}

#[test]
fn new_entries_take_their_place_at_the_front_in_the_middle_and_at_the_back() {
    let base = [(10, 1), (20, 1), (30, 1)];
    type Pairs = &'static [(i64, Offset)];
    let cases: [(Pairs, Pairs); 9] = [
        (&[(5, 9)], &[(5, 9), (10, 1), (20, 1), (30, 1)]),
        (&[(15, 9)], &[(10, 1), (15, 9), (20, 1), (30, 1)]),
        (&[(35, 9)], &[(10, 1), (20, 1), (30, 1), (35, 9)]),
        (
            &[(5, 9), (15, 9), (25, 9), (35, 9)],
            &[(5, 9), (10, 1), (15, 9), (20, 1), (25, 9), (30, 1), (35, 9)],
        ),
        (
            &[(1, 9), (2, 9)],
            &[(1, 9), (2, 9), (10, 1), (20, 1), (30, 1)],
        ),
        (
            &[(40, 9), (41, 9)],
            &[(10, 1), (20, 1), (30, 1), (40, 9), (41, 9)],
        ),
        // Raised where it stands, and new beside it.
        (&[(20, 7), (21, 9)], &[(10, 1), (20, 7), (21, 9), (30, 1)]),
        (&[(19, 9), (20, 7)], &[(10, 1), (19, 9), (20, 7), (30, 1)]),
        // A lower claim changes nothing beside a new one.
        (&[(10, 0), (15, 9)], &[(10, 1), (15, 9), (20, 1), (30, 1)]),
    ];
    for (other, expected) in cases {
        let mut clock = offsets(&base);
        assert!(clock.merge(&offsets(other)), "{other:?}");
        assert_eq!(clock, offsets(expected), "{other:?}");
        assert_eq!(clock.width(), expected.len(), "{other:?}");
    }
    let mut empty = Clock::new();
    assert!(empty.merge(&offsets(&base)));
    assert_eq!(empty, offsets(&base));
}

#[test]
fn a_merge_says_whether_it_changed_anything_in_either_section() {
    let mut clock = Clock::from_claims([offset(1, 5)], [sequence(1, 1, 5)]);
    let unchanged = clock.clone();
    assert!(!clock.merge(&offsets(&[(1, 5)])));
    assert!(!clock.merge(&offsets(&[(1, 4)])));
    assert!(!clock.merge(&sequences(&[(1, 1, 5)])));
    assert!(!clock.merge(&Clock::new()));
    assert_eq!(clock, unchanged);
    assert!(clock.merge(&offsets(&[(1, 6)])));
    assert!(clock.merge(&sequences(&[(1, 1, 6)])));
    assert!(clock.merge(&sequences(&[(1, 2, 0)])));
    let both = Clock::from_claims([offset(1, 7)], [sequence(1, 1, 7)]);
    assert!(clock.merge(&both));
    assert_eq!(
        clock,
        Clock::from_claims([offset(1, 7)], [sequence(1, 1, 7), sequence(1, 2, 0)])
    );
}

#[test]
fn a_clock_dominates_what_claims_no_more_on_the_same_keys() {
    let clock = Clock::from_claims([offset(1, 5), offset(3, 0)], [sequence(2, 1, 5)]);
    let cases = [
        (Clock::new(), true),
        (offsets(&[(1, 4)]), true),
        (offsets(&[(1, 5)]), true),
        (offsets(&[(1, 6)]), false),
        (offsets(&[(3, 0)]), true),
        (offsets(&[(1, 5), (3, 0)]), true),
        (offsets(&[(1, 5), (3, 1)]), false),
        // Absent is less than 0.
        (offsets(&[(0, 0)]), false),
        (offsets(&[(2, 0)]), false),
        (offsets(&[(4, 0)]), false),
        (sequences(&[(2, 1, 4)]), true),
        (sequences(&[(2, 1, 5)]), true),
        (sequences(&[(2, 1, 6)]), false),
        (sequences(&[(2, 2, 0)]), false),
        // An offset claim speaks for no sequence claim, nor the other way round.
        (sequences(&[(1, 1, 0)]), false),
        (offsets(&[(2, 0)]), false),
        (clock.clone(), true),
    ];
    for (other, expected) in cases {
        assert_eq!(clock.dominates(&other), expected, "{other:?}");
    }
    assert!(Clock::new().dominates(&Clock::new()));
    assert!(!Clock::new().dominates(&clock));
}

#[test]
fn truncation_drops_below_the_bound_and_keeps_the_bound() {
    let clock = Clock::from_claims(
        [offset(1, 9), offset(2, 10), offset(3, 11)],
        [sequence(1, 1, 0)],
    );
    for (on, bound, expected) in [
        (1, 9, &[(1, 9), (2, 10), (3, 11)][..]),
        (1, 10, &[(2, 10), (3, 11)]),
        (2, 10, &[(1, 9), (2, 10), (3, 11)]),
        (2, 11, &[(1, 9), (3, 11)]),
        (3, i64::MAX, &[(1, 9), (2, 10)]),
        (4, i64::MAX, &[(1, 9), (2, 10), (3, 11)]),
        (1, 0, &[(1, 9), (2, 10), (3, 11)]),
    ] {
        let mut truncated = clock.clone();
        let changed = truncated.truncate_below(channel(on), bound);
        assert_eq!(
            truncated.offsets(),
            offsets(expected).offsets(),
            "{on} below {bound}"
        );
        assert_eq!(truncated.sequences(), clock.sequences());
        assert_eq!(changed, expected.len() < 3, "{on} below {bound}");
    }
    let mut zero = offsets(&[(1, 0)]);
    assert!(!zero.truncate_below(channel(1), 0));
    assert!(zero.truncate_below(channel(1), 1));
    assert!(zero.is_empty());
    assert!(!zero.truncate_below(channel(1), 1));
}

#[test]
fn a_topic_is_dropped_with_all_its_channels_from_both_sections() {
    let other = topic(2).partition(0);
    let mut clock = Clock::new();
    for partition in [0, 1, 7] {
        clock.claim_offset(topic(1).partition(partition), 3);
        clock.claim_sequence(topic(1).partition(partition), sender(1), 3);
    }
    clock.claim_offset(other, 4);
    clock.claim_sequence(other, sender(1), 4);
    assert!(!clock.drop_topic(topic(3)));
    assert_eq!(clock.width(), 8);
    assert!(clock.drop_topic(topic(1)));
    assert_eq!(
        clock,
        Clock::from_claims([offset(2, 4)], [sequence(2, 1, 4)])
    );
    assert!(!clock.drop_topic(topic(1)));

    let mut by_offset = offsets(&[(1, 0)]);
    assert!(by_offset.drop_topic(topic(1)));
    assert!(by_offset.is_empty());
    let mut by_sequence = sequences(&[(1, 1, 0)]);
    assert!(by_sequence.drop_topic(topic(1)));
    assert!(by_sequence.is_empty());
}

#[test]
fn resolved_sequence_claims_become_offset_claims_and_never_lower_one() {
    let mut clock = Clock::from_claims(
        [offset(1, 8)],
        [
            sequence(1, 1, 2),
            sequence(1, 2, 3),
            sequence(2, 1, 0),
            sequence(3, 1, 9),
        ],
    );
    let mut asked = Vec::new();
    let changed = clock.resolve_sequences(|claim| {
        asked.push(*claim);
        match claim.sequence {
            2 => Some(9),
            3 => Some(4),
            0 => Some(0),
            _ => None,
        }
    });
    assert!(changed);
    assert_eq!(
        asked,
        [
            sequence(1, 1, 2),
            sequence(1, 2, 3),
            sequence(2, 1, 0),
            sequence(3, 1, 9)
        ]
    );
    assert_eq!(
        clock,
        Clock::from_claims([offset(1, 9), offset(2, 0)], [sequence(3, 1, 9)])
    );
    assert!(!clock.resolve_sequences(|_| None));
    assert!(!offsets(&[(1, 1)]).resolve_sequences(|_| Some(7)));
}

#[test]
fn sequence_claims_on_a_channel_are_a_run_of_the_section() {
    let clock = sequences(&[(1, 1, 0), (2, 1, 5), (2, 3, 6), (2, 9, 7), (3, 0, 0)]);
    assert_eq!(
        clock.sequences_on(channel(2)),
        [sequence(2, 1, 5), sequence(2, 3, 6), sequence(2, 9, 7)]
    );
    assert_eq!(clock.sequences_on(channel(1)), [sequence(1, 1, 0)]);
    assert_eq!(clock.sequences_on(channel(3)), [sequence(3, 0, 0)]);
    assert_eq!(clock.sequences_on(channel(0)), []);
    assert_eq!(clock.sequences_on(channel(4)), []);
}

#[test]
fn a_claim_names_its_channel_whichever_kind_it_is() {
    assert_eq!(Claim::Offset(offset(4, 1)).channel(), channel(4));
    assert_eq!(Claim::Sequence(sequence(5, 1, 1)).channel(), channel(5));
}

#[test]
fn a_merge_notes_the_places_it_raises_and_whether_they_are_all_it_changed() {
    let offsets_and = |offsets: &[(i64, Offset)], sequences: &[(i64, i64, i64)]| {
        joined(&self::offsets(offsets), &self::sequences(sequences))
    };
    let before = offsets_and(&[(1, 5), (3, 5), (5, 5)], &[(1, 1, 5)]);
    for (other, raised, all) in [
        (offsets_and(&[], &[]), vec![], true),
        (offsets_and(&[(1, 5), (3, 4)], &[(1, 1, 5)]), vec![], true),
        (
            offsets_and(&[(1, 6), (3, 5), (5, 9)], &[]),
            vec![0, 2],
            true,
        ),
        (offsets_and(&[(3, 6)], &[(1, 1, 6)]), vec![1], false),
        (offsets_and(&[(3, 6)], &[(1, 2, 0)]), vec![1], false),
        (offsets_and(&[(4, 0)], &[]), vec![], false),
    ] {
        let mut merged = before.clone();
        let mut noted = Vec::new();
        assert_eq!(merged.merge_noting(&other, &mut noted), all, "{other:?}");
        assert_eq!(merged, joined(&before, &other));
        assert_eq!(noted, raised, "{other:?}");
    }
}

#[test]
fn copied_offset_claims_come_without_the_sequence_claims() {
    let mut copy = sequences(&[(7, 7, 7)]);
    copy.copy_offsets(&joined(
        &offsets(&[(1, 3), (2, 4)]),
        &sequences(&[(1, 1, 1)]),
    ));
    assert_eq!(copy, offsets(&[(1, 3), (2, 4)]));
    let claims = [offset(1, 3), offset(2, 4)];
    assert_eq!(Clock::from_claims(claims, []), joined(&Clock::new(), &copy));
    let mut merged = Clock::new();
    assert!(
        merged.merge(&claims.as_slice()),
        "claims in order are a clock"
    );
    assert_eq!(merged, copy);
}

#[test]
fn sections_know_their_length_and_entries() {
    let clock = Clock::from_claims([offset(1, 1), offset(2, 2)], [sequence(1, 1, 1)]);
    assert_eq!(clock.offset_section().len(), 2);
    assert!(!clock.offset_section().is_empty());
    assert_eq!(clock.offset_section().get(1), offset(2, 2));
    assert_eq!(clock.sequence_section().len(), 1);
    assert_eq!(clock.sequence_section().get(0), sequence(1, 1, 1));
    assert!(Clock::new().offset_section().is_empty());
    assert!(Clock::new().sequence_section().is_empty());
}

#[test]
fn a_negative_number_shows_in_the_signs_also_beside_another() {
    let at = |partition, offset| OffsetClaim {
        channel: topic(1).partition(partition),
        offset,
    };
    for (claim, is_negative) in [
        (at(0, 0), false),
        (at(i32::MAX, i64::MAX), false),
        (at(-1, 0), true),
        (at(0, -1), true),
        (at(-1, -1), true),
        (at(i32::MIN, i64::MIN), true),
    ] {
        assert_eq!(claim.signs() < 0, is_negative, "{claim:?}");
    }
}

/// With the hint a look-up is quick, and whatever it is the answer is the same.
#[test]
fn a_claim_has_one_place_whatever_the_hint() {
    let clock = offsets(&[(1, 10), (3, 30), (5, 50)]);
    for hint in 0..5 {
        let places = [1, 3, 5].map(|on| clock.place_of(channel(on), hint));
        assert_eq!(places, [Some(0), Some(1), Some(2)], "{hint}");
        for absent in [0, 2, 4, 6] {
            assert_eq!(clock.place_of(channel(absent), hint), None, "{hint}");
        }
    }
}

#[test]
fn a_claim_is_raised_in_its_place_and_never_lowered() {
    let mut clock = offsets(&[(1, 10), (3, 30)]);
    for (offset, is_raised, after) in [(29, false, 30), (30, false, 30), (31, true, 31)] {
        assert_eq!(clock.raise_at(1, offset), is_raised, "{offset}");
        assert_eq!(clock, offsets(&[(1, 10), (3, after)]));
    }
}
