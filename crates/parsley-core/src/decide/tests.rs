//! The decision as tables of numbers, with no node and no host, and against the rules written out.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::channel::{Id, TopicId};
use crate::clock::Clock;
use crate::strategies::cases;

/// What is known of one received channel.
#[derive(Clone, Debug)]
struct Known {
    settled: Settled,
    delivered: BTreeMap<SenderId, i64>,
    fed_up_to: Option<Offset>,
    watermark: Option<Offset>,
    lowest_held: BTreeMap<SenderId, i64>,
}

impl Known {
    fn settled(settled: Settled) -> Self {
        Self {
            settled,
            delivered: BTreeMap::new(),
            fed_up_to: None,
            watermark: None,
            lowest_held: BTreeMap::new(),
        }
    }
}

/// A snapshot that answers the decision's questions: all that it takes.
#[derive(Clone, Debug)]
struct Snapshot(Vec<Known>);

impl SettledView for Snapshot {
    fn settled(&self, channel: usize) -> Settled {
        self.0[channel].settled
    }
    fn delivered_sequence(&self, channel: usize, sender: SenderId) -> Option<i64> {
        self.0[channel].delivered.get(&sender).copied()
    }
    fn fed_up_to(&self, channel: usize) -> Option<Offset> {
        self.0[channel].fed_up_to
    }
    fn watermark(&self, channel: usize) -> Option<Offset> {
        self.0[channel].watermark
    }
    fn lowest_held_sequence(&self, channel: usize, sender: SenderId) -> Option<i64> {
        self.0[channel].lowest_held.get(&sender).copied()
    }
}

fn channel(number: i64) -> Channel {
    TopicId(Id {
        msb: 0,
        lsb: number,
    })
    .partition(0)
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

/// The channels 0, 10, 20, ... in order, as many as the snapshot knows.
fn received(snapshot: &Snapshot) -> ReceivedChannels {
    ReceivedChannels::new((0..snapshot.0.len() as i64).map(|index| channel(10 * index)))
}

/// The channel that every record of these tests stands on, unless it says otherwise. It is not received.
const ELSEWHERE: i64 = 999;

fn verdict(clock: &Clock, on: i64, snapshot: &Snapshot) -> Verdict {
    decide(
        Causes::of(clock, channel(on)),
        &received(snapshot),
        snapshot,
    )
}

fn blocked(claim: Claim, channel: usize, met_offsets: usize) -> Verdict {
    Verdict::Blocked(Blocked {
        claim,
        channel,
        met_offsets,
    })
}

/// B24: off by one, implicit zero.
mod b24 {
    use super::*;

    #[test]
    fn an_offset_claim_is_met_at_and_below_the_settled_position() {
        use Settled::{At, ToItsEnd, Undefined};
        const MAX: Offset = Offset::MAX;
        // For each settled position, whether the claims on 0, 1, MAX - 1 and MAX are met.
        let table = [
            (Undefined, [false, false, false, false]),
            (At(-1), [false, false, false, false]),
            (At(0), [true, false, false, false]),
            (At(1), [true, true, false, false]),
            (At(MAX - 2), [true, true, false, false]),
            (At(MAX - 1), [true, true, true, false]),
            (At(MAX), [true, true, true, true]),
            (ToItsEnd, [true, true, true, true]),
        ];
        for (settled, expected) in table {
            for (claimed, met) in [0, 1, MAX - 1, MAX].into_iter().zip(expected) {
                let clock = Clock::from_claims([offset(0, claimed)], []);
                let mut known = Known::settled(settled);
                // None of this speaks for a position.
                known.fed_up_to = Some(MAX);
                known.watermark = Some(1);
                known.delivered.insert(sender(1), MAX);
                let verdict = verdict(&clock, ELSEWHERE, &Snapshot(vec![known]));
                let expected = if met {
                    Verdict::Deliverable
                } else {
                    blocked(Claim::Offset(offset(0, claimed)), 0, 0)
                };
                assert_eq!(verdict, expected, "{claimed} at {settled:?}");
            }
        }
    }

    #[test]
    fn a_sequence_claim_is_met_at_and_below_the_delivered_sequence() {
        const MAX: i64 = i64::MAX;
        let table = [
            (None, [false, false, false, false]),
            (Some(0), [true, false, false, false]),
            (Some(1), [true, true, false, false]),
            (Some(MAX - 1), [true, true, true, false]),
            (Some(MAX), [true, true, true, true]),
        ];
        for (delivered, expected) in table {
            for (claimed, met) in [0, 1, MAX - 1, MAX].into_iter().zip(expected) {
                let clock = Clock::from_claims([], [sequence(0, 1, claimed)]);
                let mut known = Known::settled(Settled::At(MAX));
                known.delivered.extend(delivered.map(|to| (sender(1), to)));
                // Somebody else's.
                known.delivered.insert(sender(2), MAX);
                let verdict = verdict(&clock, ELSEWHERE, &Snapshot(vec![known]));
                let expected = if met {
                    Verdict::Deliverable
                } else {
                    blocked(Claim::Sequence(sequence(0, 1, claimed)), 0, 0)
                };
                assert_eq!(verdict, expected, "{claimed} at {delivered:?}");
            }
        }
    }

    #[test]
    fn watermark_evidence_needs_everything_below_the_watermark_fed() {
        const MAX: Offset = Offset::MAX;
        let table = [
            (None, None, false),
            (None, Some(MAX), false),
            (Some(1), None, false),
            (Some(1), Some(0), true),
            (Some(1), Some(1), true),
            (Some(2), Some(0), false),
            (Some(2), Some(1), true),
            (Some(10), Some(8), false),
            (Some(10), Some(9), true),
            (Some(10), Some(10), true),
            (Some(MAX), Some(MAX - 2), false),
            (Some(MAX), Some(MAX - 1), true),
        ];
        for (watermark, fed_up_to, met) in table {
            // What is asked for is what was fed; it may be held all the same.
            for settled in [Settled::Undefined, Settled::At(-1), Settled::At(MAX)] {
                let mut known = Known::settled(settled);
                (known.watermark, known.fed_up_to) = (watermark, fed_up_to);
                known.delivered.insert(sender(1), 3);
                let clock = Clock::from_claims([], [sequence(0, 1, 4)]);
                let verdict = verdict(&clock, ELSEWHERE, &Snapshot(vec![known]));
                let expected = if met {
                    Verdict::Deliverable
                } else {
                    blocked(Claim::Sequence(sequence(0, 1, 4)), 0, 0)
                };
                assert_eq!(verdict, expected, "{watermark:?}, fed {fed_up_to:?}");
            }
        }
    }

    #[test]
    fn watermark_evidence_does_not_speak_for_what_is_held() {
        for (lowest_held, met) in [
            (None, true),
            (Some(0), false),
            (Some(3), false),
            (Some(4), false),
            (Some(5), true),
            (Some(i64::MAX), true),
        ] {
            let mut known = Known::settled(Settled::At(0));
            (known.watermark, known.fed_up_to) = (Some(10), Some(9));
            known
                .lowest_held
                .extend(lowest_held.map(|lowest| (sender(1), lowest)));
            known.lowest_held.insert(sender(2), 0);
            let clock = Clock::from_claims([], [sequence(0, 1, 4)]);
            let verdict = verdict(&clock, ELSEWHERE, &Snapshot(vec![known]));
            let expected = if met {
                Verdict::Deliverable
            } else {
                blocked(Claim::Sequence(sequence(0, 1, 4)), 0, 0)
            };
            assert_eq!(verdict, expected, "held from {lowest_held:?}");
        }
    }
}

#[test]
fn a_channel_settled_to_its_end_meets_claims_of_both_kinds() {
    let clock = Clock::from_claims([offset(0, i64::MAX)], [sequence(0, 1, i64::MAX)]);
    let snapshot = Snapshot(vec![Known::settled(Settled::ToItsEnd)]);
    assert_eq!(verdict(&clock, ELSEWHERE, &snapshot), Verdict::Deliverable);
    // Settled as far as positions go is not settled to the end.
    let snapshot = Snapshot(vec![Known::settled(Settled::At(i64::MAX))]);
    assert_eq!(
        verdict(&clock, ELSEWHERE, &snapshot),
        blocked(Claim::Sequence(sequence(0, 1, i64::MAX)), 0, 1)
    );
}

#[test]
fn channels_that_are_not_received_impose_nothing() {
    let unknown = Snapshot(vec![Known::settled(Settled::Undefined); 3]);
    // Before, between and after the received ones 0, 10, 20.
    let elsewhere = [-5, 5, 15, 25];
    let clock = Clock::from_claims(
        elsewhere.map(|on| offset(on, i64::MAX)),
        elsewhere.map(|on| sequence(on, 1, i64::MAX)),
    );
    assert_eq!(verdict(&clock, ELSEWHERE, &unknown), Verdict::Deliverable);
    let nothing = Snapshot(vec![]);
    assert_eq!(verdict(&clock, ELSEWHERE, &nothing), Verdict::Deliverable);
    // Another partition of a received topic is another channel.
    let other = OffsetClaim {
        channel: channel(10).topic.partition(1),
        offset: 0,
    };
    let clock = Clock::from_claims([other], []);
    assert_eq!(verdict(&clock, ELSEWHERE, &unknown), Verdict::Deliverable);
    // They do not hide the received ones among them.
    for on in [0, 10, 20] {
        let mut clock = Clock::from_claims(elsewhere.map(|on| offset(on, 0)), []);
        clock.claim_offset(channel(on), 0);
        let at = clock
            .offsets()
            .iter()
            .position(|claim| claim.channel == channel(on));
        assert_eq!(
            verdict(&clock, ELSEWHERE, &unknown),
            blocked(
                Claim::Offset(offset(on, 0)),
                on as usize / 10,
                at.expect("it was claimed")
            )
        );
        let mut clock = Clock::from_claims([], elsewhere.map(|on| sequence(on, 1, 0)));
        clock.claim_sequence(channel(on), sender(1), 0);
        assert_eq!(
            verdict(&clock, ELSEWHERE, &unknown),
            blocked(Claim::Sequence(sequence(on, 1, 0)), on as usize / 10, 0)
        );
    }
}

#[test]
fn claims_on_the_records_own_channel_are_left_out() {
    let unknown = Snapshot(vec![Known::settled(Settled::Undefined); 3]);
    let own = Clock::from_claims([offset(10, 7)], [sequence(10, 1, 7), sequence(10, 2, 7)]);
    assert_eq!(verdict(&own, 10, &unknown), Verdict::Deliverable);
    assert_eq!(
        verdict(&own, 0, &unknown),
        blocked(Claim::Offset(offset(10, 7)), 1, 0)
    );
    // What stands around them counts.
    let mut clock = own.clone();
    clock.claim_offset(channel(20), 0);
    assert_eq!(
        verdict(&clock, 10, &unknown),
        blocked(Claim::Offset(offset(20, 0)), 2, 1)
    );
    let mut clock = own.clone();
    clock.claim_sequence(channel(20), sender(1), 0);
    assert_eq!(
        verdict(&clock, 10, &unknown),
        blocked(Claim::Sequence(sequence(20, 1, 0)), 2, 1)
    );
}

#[test]
fn claims_of_no_record_stand_on_no_channel_of_their_own() {
    let zero = TopicId(Id { msb: 0, lsb: 0 });
    for partition in [0, 1, i32::MAX] {
        let on = zero.partition(partition);
        let clock = Clock::from_claims(
            [OffsetClaim {
                channel: on,
                offset: 0,
            }],
            [],
        );
        let snapshot = Snapshot(vec![Known::settled(Settled::Undefined)]);
        let received = ReceivedChannels::new([on]);
        let verdict = decide(Causes::of_no_record(&clock), &received, &snapshot);
        assert!(matches!(verdict, Verdict::Blocked(_)), "{partition}");
    }
}

#[test]
fn the_first_unmet_claim_blocks_offsets_before_sequences() {
    let mut snapshot = Snapshot(vec![Known::settled(Settled::At(5)); 4]);
    let clock = Clock::from_claims(
        [offset(0, 5), offset(5, 9), offset(20, 6), offset(30, 6)],
        [
            sequence(0, 1, 1),
            sequence(0, 2, 1),
            sequence(10, 1, 1),
            sequence(30, 1, 1),
        ],
    );
    assert_eq!(
        verdict(&clock, ELSEWHERE, &snapshot),
        blocked(Claim::Offset(offset(20, 6)), 2, 2)
    );
    snapshot.0[2].settled = Settled::At(6);
    assert_eq!(
        verdict(&clock, ELSEWHERE, &snapshot),
        blocked(Claim::Offset(offset(30, 6)), 3, 3)
    );
    snapshot.0[3].settled = Settled::At(6);
    assert_eq!(
        verdict(&clock, ELSEWHERE, &snapshot),
        blocked(Claim::Sequence(sequence(0, 1, 1)), 0, 4)
    );
    snapshot.0[0].delivered.insert(sender(1), 1);
    // The second sender of the same channel.
    assert_eq!(
        verdict(&clock, ELSEWHERE, &snapshot),
        blocked(Claim::Sequence(sequence(0, 2, 1)), 0, 4)
    );
    snapshot.0[0].delivered.insert(sender(2), 1);
    assert_eq!(
        verdict(&clock, ELSEWHERE, &snapshot),
        blocked(Claim::Sequence(sequence(10, 1, 1)), 1, 4)
    );
    snapshot.0[1].delivered.insert(sender(1), 1);
    assert_eq!(
        verdict(&clock, ELSEWHERE, &snapshot),
        blocked(Claim::Sequence(sequence(30, 1, 1)), 3, 4)
    );
    snapshot.0[3].delivered.insert(sender(1), 1);
    assert_eq!(verdict(&clock, ELSEWHERE, &snapshot), Verdict::Deliverable);
}

#[test]
fn claims_of_several_senders_on_one_channel_are_all_looked_at() {
    let mut known = Known::settled(Settled::At(9));
    known.delivered.insert(sender(1), 5);
    let snapshot = Snapshot(vec![known.clone(), known]);
    // Met, and so passed over, then one on the same channel that is not; and the same on the channel behind.
    for on in [0, 10] {
        let claims = [sequence(on, 1, 5), sequence(on, 2, 0), sequence(on, 3, 0)];
        let clock = Clock::from_claims([offset(0, 9), offset(10, 9)], claims);
        let index = usize::from(on == 10);
        assert_eq!(
            verdict(&clock, ELSEWHERE, &snapshot),
            blocked(Claim::Sequence(claims[1]), index, 2)
        );
        let received = received(&snapshot);
        let causes = Causes::of(&clock, channel(ELSEWHERE));
        let unmet: Vec<Claim> = unmet(causes, &received, &snapshot)
            .map(|blocked| blocked.claim)
            .collect();
        assert_eq!(
            unmet,
            claims[1..]
                .iter()
                .copied()
                .map(Claim::Sequence)
                .collect::<Vec<_>>()
        );
    }
}

#[test]
fn claims_beyond_the_last_received_channel_count_as_met() {
    let snapshot = Snapshot(vec![Known::settled(Settled::At(9))]);
    let claim = sequence(0, 1, 0);
    let clock = Clock::from_claims([offset(-1, 5), offset(5, 5), offset(6, 5)], [claim]);
    assert_eq!(
        verdict(&clock, ELSEWHERE, &snapshot),
        blocked(Claim::Sequence(claim), 0, 3)
    );
}

#[test]
fn a_decision_goes_on_from_where_an_earlier_one_stopped() {
    let snapshot = Snapshot(vec![Known::settled(Settled::At(5)); 3]);
    let clock = Clock::from_claims(
        [offset(0, 5), offset(10, 9), offset(20, 9)],
        [sequence(0, 1, 0)],
    );
    let causes = Causes::of(&clock, channel(ELSEWHERE));
    let from = |offsets| {
        let met = Met {
            offsets,
            channel: 0,
        };
        decide_from(causes, &received(&snapshot), &snapshot, met)
    };
    assert_eq!(from(0), blocked(Claim::Offset(offset(10, 9)), 1, 1));
    assert_eq!(from(1), blocked(Claim::Offset(offset(10, 9)), 1, 1));
    // What it is told is met, it does not look at again.
    assert_eq!(from(2), blocked(Claim::Offset(offset(20, 9)), 2, 2));
    assert_eq!(from(3), blocked(Claim::Sequence(sequence(0, 1, 0)), 0, 3));
    // It begins with the channel that the last one stopped at.
    let Verdict::Blocked(at) = from(0) else {
        panic!("the second claim is not met");
    };
    let met = at.met();
    assert_eq!((met.offsets, met.channel), (1, 1));
    assert_eq!(
        decide_from(causes, &received(&snapshot), &snapshot, met),
        Verdict::Blocked(at)
    );
}

#[test]
fn a_record_that_claims_nothing_is_deliverable() {
    let unknown = Snapshot(vec![Known::settled(Settled::Undefined)]);
    assert_eq!(verdict(&Clock::new(), 0, &unknown), Verdict::Deliverable);
    let (nothing, received) = (Clock::new(), received(&unknown));
    assert_eq!(
        unmet(Causes::of(&nothing, channel(0)), &received, &unknown).count(),
        0
    );
}

#[test]
fn a_hold_report_lists_every_unmet_claim_with_its_channel() {
    let mut snapshot = Snapshot(vec![Known::settled(Settled::At(5)); 4]);
    snapshot.0[1].delivered.insert(sender(1), 4);
    let clock = Clock::from_claims(
        [
            offset(0, 5),
            offset(5, 9),
            offset(10, 6),
            offset(20, 9),
            offset(30, 7),
        ],
        [
            sequence(5, 1, 0),
            sequence(10, 1, 4),
            sequence(10, 2, 0),
            sequence(20, 1, 1),
            sequence(30, 3, 2),
        ],
    );
    let received = received(&snapshot);
    let found = unmet(Causes::of(&clock, channel(20)), &received, &snapshot);
    assert_eq!(
        found
            .map(|blocked| (blocked.channel, blocked.claim))
            .collect::<Vec<_>>(),
        [
            (1, Claim::Offset(offset(10, 6))),
            (3, Claim::Offset(offset(30, 7))),
            (1, Claim::Sequence(sequence(10, 2, 0))),
            (3, Claim::Sequence(sequence(30, 3, 2))),
        ]
    );
}

fn number() -> impl Strategy<Value = i64> {
    0..6_i64
}

fn known() -> impl Strategy<Value = Known> {
    let settled = prop_oneof![
        2 => Just(Settled::Undefined),
        6 => (-1..6_i64).prop_map(Settled::At),
        1 => Just(Settled::ToItsEnd),
    ];
    let by_sender = || prop::collection::btree_map((0..3_i64).prop_map(sender), number(), 0..3);
    (
        settled,
        by_sender(),
        prop::option::of(number()),
        prop::option::of(1..7_i64),
        by_sender(),
    )
        .prop_map(
            |(settled, delivered, fed_up_to, watermark, lowest_held)| Known {
                settled,
                delivered,
                fed_up_to,
                watermark,
                lowest_held,
            },
        )
}

fn clock() -> impl Strategy<Value = Clock> {
    // Steps of 5: every other one is received.
    let on = || (0..8_i64).prop_map(|step| 5 * step);
    (
        prop::collection::btree_map(on(), number(), 0..6),
        prop::collection::btree_map((on(), 0..3_i64), number(), 0..6),
    )
        .prop_map(|(offsets, sequences)| {
            Clock::from_claims(
                offsets.into_iter().map(|(on, at)| offset(on, at)),
                sequences
                    .into_iter()
                    .map(|((on, from), to)| sequence(on, from, to)),
            )
        })
}

/// The rules one by one, in the words of the page.
fn is_met(claim: &Claim, own: Channel, snapshot: &Snapshot) -> bool {
    let on = claim.channel();
    let Some(known) = (0..snapshot.0.len())
        .find(|&index| channel(10 * index as i64) == on)
        .map(|index| &snapshot.0[index])
    else {
        return true;
    };
    if on == own {
        return true;
    }
    match claim {
        Claim::Offset(claim) => match known.settled {
            Settled::Undefined => false,
            Settled::At(settled) => claim.offset <= settled,
            Settled::ToItsEnd => true,
        },
        Claim::Sequence(claim) => {
            let (from, n) = (claim.sender, claim.sequence);
            let delivered = known
                .delivered
                .get(&from)
                .is_some_and(|&highest| highest >= n);
            let to_its_end = known.settled == Settled::ToItsEnd;
            let fed = match (known.fed_up_to, known.watermark) {
                (Some(fed), Some(watermark)) => fed + 1 >= watermark,
                _ => false,
            };
            let held = known
                .lowest_held
                .get(&from)
                .is_some_and(|&lowest| lowest <= n);
            delivered || to_its_end || (fed && !held)
        }
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn the_decision_is_the_first_claim_that_the_rules_leave_unmet(
        clock in clock(),
        snapshot in prop::collection::vec(known(), 1..5).prop_map(Snapshot),
        own in 0..8_i64,
    ) {
        let own = channel(5 * own);
        let offsets = clock.offsets().iter().map(|&claim| Claim::Offset(claim));
        let sequences = clock.sequences().iter().map(|&claim| Claim::Sequence(claim));
        let claims: Vec<Claim> = offsets.chain(sequences).collect();
        let first = claims.iter().position(|claim| !is_met(claim, own, &snapshot));
        let received = received(&snapshot);
        let causes = Causes::of(&clock, own);

        let expected = match first {
            None => Verdict::Deliverable,
            Some(at) => {
                let index = received.index_of(claims[at].channel()).expect("only those block");
                blocked(claims[at], index, at.min(clock.offsets().len()))
            }
        };
        prop_assert_eq!(decide(causes, &received, &snapshot), expected);

        let met = first.unwrap_or(claims.len()).min(clock.offsets().len());
        for offsets in 0..=met {
            let met = Met { offsets, channel: 0 };
            prop_assert_eq!(decide_from(causes, &received, &snapshot, met), expected);
        }
        if let Verdict::Blocked(blocked) = expected {
            prop_assert_eq!(decide_from(causes, &received, &snapshot, blocked.met()), expected);
        }

        let unmet_claims: Vec<Claim> =
            claims.into_iter().filter(|claim| !is_met(claim, own, &snapshot)).collect();
        let found: Vec<Blocked> = unmet(causes, &received, &snapshot).collect();
        prop_assert!(found.iter().all(|found| received.as_slice()[found.channel] == found.claim.channel()));
        let found: Vec<Claim> = found.into_iter().map(|found| found.claim).collect();
        prop_assert_eq!(found, unmet_claims);
    }
}
