//! Edge clients: what they take up, what they claim, and what they refuse.

use std::collections::BTreeSet;

use parsley_core::decide::Settled;
use parsley_core::{Claim, Id, OffsetClaim, SenderId, SequenceClaim};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::token::{KnownTopics, TokenError, TokenLimits};
use super::*;

fn orders() -> TopicId {
    TopicId::of_name("orders")
}

fn payments() -> Channel {
    TopicId::of_name("payments").partition(0)
}

fn seen(claims: &[(Channel, Offset)]) -> CausalClock {
    let mut clock = CausalClock::new();
    for (channel, offset) in claims {
        clock
            .record_produced(channel.topic, channel.partition, *offset)
            .unwrap();
    }
    clock
}

fn by_sequence(channel: Channel, sequence: i64) -> CausalClock {
    let mut claims = Clock::new();
    claims.claim_sequence(channel, SenderId::of_name("alice"), sequence);
    CausalClock { claims }
}

/// What a stage makes of it: the record itself, and all that it came with.
#[test]
fn a_consumed_record_is_taken_up_with_what_it_claims() {
    let mut headers = Vec::new();
    seen(&[(orders().partition(1), 9), (payments(), 3)])
        .stamp(&mut headers)
        .unwrap();
    let mut clock = CausalClock::new();
    clock.observe(payments(), 5, &headers).unwrap();
    assert_eq!(clock, seen(&[(orders().partition(1), 9), (payments(), 5)]));
    // A claim of its own channel that reaches beyond it stays what it is.
    clock.observe(payments(), 4, &headers).unwrap();
    assert_eq!(clock.claims().offset(payments()), Some(5));
}

#[test]
fn a_record_of_a_stage_is_taken_up_like_any_other() {
    let sender = SenderId::of_task("shop", "settle", 0);
    let stamp = wire::stamp_headers(seen(&[(payments(), 3)]).to_bytes().into(), sender, 7);
    let mut clock = CausalClock::new();
    clock.observe(orders().partition(0), 2, &stamp).unwrap();
    assert_eq!(clock, seen(&[(orders().partition(0), 2), (payments(), 3)]));
}

/// A clock that cannot be read is no empty one: the record is not taken up at all, and nothing else of it.
#[test]
fn a_record_that_cannot_be_read_changes_nothing() {
    let vc = |bytes: &'static [u8]| Header::new(CLOCK_HEADER, bytes);
    let twice = || vec![vc(&wire::EMPTY_CLOCK), vc(&wire::EMPTY_CLOCK)];
    let unreadable = [
        vec![vc(b"")],
        vec![vc(b"\x02\0\0\0\0\0\0\0\0")],
        vec![vc(b"\x01\0\0\0\x01\0\0\0\0")],
        vec![Header::null(CLOCK_HEADER)],
        vec![Header::new("vc-sender", &b"short"[..])],
        twice(),
    ];
    let before = seen(&[(orders().partition(1), 9)]);
    for headers in unreadable {
        let mut clock = before.clone();
        let refused = clock.observe(payments(), 5, &headers).unwrap_err();
        let ObserveError::Corrupt {
            channel, offset, ..
        } = &refused
        else {
            panic!("{refused}");
        };
        assert_eq!((*channel, *offset), (payments(), 5));
        assert_eq!(clock, before, "{refused}");
    }
    for (channel, offset) in [(payments(), -1), (orders().partition(-1), 0)] {
        let mut clock = before.clone();
        let refused = clock.observe(channel, offset, &[]).unwrap_err();
        assert!(matches!(refused, ObserveError::NoPlace { .. }), "{refused}");
        assert_eq!(clock, before);
    }
}

/// What librdkafka tells where it was told nothing; a clock with such a claim would stop every stage (G1).
#[test]
fn an_acknowledgement_without_offset_is_refused() {
    let mut clock = CausalClock::new();
    for (partition, offset) in [(0, -1001), (0, -1), (-1, 3)] {
        let refused = clock
            .record_produced(orders(), partition, offset)
            .unwrap_err();
        assert_eq!(refused.offset, offset);
        assert!(clock.is_empty());
    }
}

/// Headers of a consumed record that were copied: the stamp of a stage on a record of somebody else would pass for one of its sends.
#[test]
fn headers_of_reserved_names_are_not_stamped_over() {
    let clock = seen(&[(payments(), 3)]);
    for name in ["vc", "vc-sender", "vc-seq", "vc-anything"] {
        let mut headers = vec![Header::new("trace", "7"), Header::new(name, "x")];
        let before = headers.clone();
        let refused = clock.stamp(&mut headers).unwrap_err();
        assert_eq!(
            refused,
            StampError::Reserved {
                name: name.to_owned()
            }
        );
        assert_eq!(headers, before);
    }
    let mut headers = vec![Header::new("trace", "7"), Header::new("vcr", "no")];
    clock.stamp(&mut headers).unwrap();
    assert_eq!(headers.len(), 3);
    assert_eq!(headers[2], Header::new("vc", clock.to_bytes()));
    // Twice is a reserved name as well.
    assert!(clock.stamp(&mut headers).is_err());
}

#[test]
fn who_has_seen_nothing_claims_nothing() {
    let mut headers = Vec::new();
    CausalClock::new().stamp(&mut headers).unwrap();
    assert_eq!(headers, []);
    assert_eq!(CausalClock::new().to_bytes(), wire::EMPTY_CLOCK);
}

/// G13, before anybody is fed it: 256 KiB are 9,361 channels.
#[test]
fn a_clock_beyond_the_metadata_budget_is_neither_stamped_nor_taken_up() {
    let wide = |channels: i32| {
        let offsets = (0..channels).map(|partition| OffsetClaim {
            channel: orders().partition(partition),
            offset: 0,
        });
        CausalClock {
            claims: Clock::from_claims(offsets, []),
        }
    };
    let mut headers = Vec::new();
    wide(9_361).stamp(&mut headers).unwrap();
    let too_wide = wide(9_362);
    let refused = too_wide.stamp(&mut Vec::new()).unwrap_err();
    assert!(
        matches!(refused, StampError::TooWide { found: 262_145, .. }),
        "{refused}"
    );
    headers[0].value = Some(too_wide.to_bytes().into());
    let mut clock = CausalClock::new();
    let refused = clock.observe(payments(), 0, &headers).unwrap_err();
    assert!(matches!(refused, ObserveError::TooWide { .. }), "{refused}");
    assert!(clock.is_empty());
    // What is no clock is told as such, as long as it is within the budget.
    headers[0].value = Some(vec![0xff; 262_144].into());
    let refused = clock.observe(payments(), 0, &headers).unwrap_err();
    assert!(matches!(refused, ObserveError::Corrupt { .. }), "{refused}");
}

#[test]
fn a_record_is_taken_up_as_its_place_and_headers_are() {
    let mut headers = Vec::new();
    seen(&[(payments(), 3)]).stamp(&mut headers).unwrap();
    let channel = orders().partition(1);
    let record = Record {
        channel,
        offset: 8,
        timestamp_ms: 0,
        key: None,
        value: None,
        headers,
    };
    let mut clock = CausalClock::new();
    clock.observe_record(&record).unwrap();
    assert_eq!(clock, seen(&[(payments(), 3), (channel, 8)]));
}

#[test]
fn a_claim_by_sequence_becomes_one_by_offset_below_the_end() {
    let mut clock = by_sequence(payments(), 4);
    assert!(!clock.resolve_sequences(|_| None));
    // A channel that has nothing has none of alice's sends either.
    assert!(!clock.resolve_sequences(|_| Some(0)));
    assert_eq!(clock, by_sequence(payments(), 4));
    assert!(clock.resolve_sequences(|channel| (channel == payments()).then_some(8)));
    assert_eq!(clock, seen(&[(payments(), 7)]));
}

#[test]
fn who_judges_tokens_can_be_asked_what_is_known() {
    let mut known = KnownTopics::new();
    known.topic(orders(), 2).end(orders().partition(1), 7);
    let knows = [0, 1, 2].map(|partition| known.knows(orders().partition(partition)));
    assert_eq!(knows, [true, true, false]);
    assert!(!known.knows(payments()));
    let ends = [0, 1].map(|partition| known.end_of(orders().partition(partition)));
    assert_eq!(ends, [None, Some(7)]);
}

#[test]
fn a_topic_that_is_gone_is_forgotten() {
    let mut clock = seen(&[(orders().partition(1), 9), (payments(), 3)]);
    assert!(clock.forget_topic(orders()));
    assert!(!clock.forget_topic(orders()));
    assert_eq!(clock, seen(&[(payments(), 3)]));
}

/// Every row of the table of the module `token`.
#[test]
fn tokens_are_judged_by_what_is_known() {
    let mut known = KnownTopics::new();
    known.topic(orders(), 2).end(orders().partition(0), 10);
    known.topic(payments().topic, 1).end(payments(), 0);
    let limits = TokenLimits {
        claims: 2,
        bytes: wire::encoded_len(3, 0),
    };
    let judge =
        |clock: &CausalClock| CausalClock::from_untrusted(&clock.to_bytes(), limits, &known);
    let at = |partition| orders().partition(partition);
    let unknown = TopicId::of_name("elsewhere").partition(0);

    for taken in [
        seen(&[]),
        seen(&[(at(0), 9)]),
        seen(&[(at(0), 0), (at(1), i64::MAX)]),
    ] {
        assert_eq!(judge(&taken), Ok(taken));
    }
    assert_eq!(judge(&by_sequence(at(0), 3)), Ok(seen(&[(at(0), 9)])));

    let beyond = |channel, offset, end| {
        Err(TokenError::BeyondEnd {
            channel,
            offset,
            end,
        })
    };
    assert_eq!(judge(&seen(&[(at(0), 10)])), beyond(at(0), 10, 10));
    assert_eq!(judge(&seen(&[(payments(), 0)])), beyond(payments(), 0, 0));
    assert_eq!(judge(&by_sequence(payments(), 3)), beyond(payments(), 0, 0));
    assert_eq!(
        judge(&seen(&[(unknown, 0)])),
        Err(TokenError::UnknownTopic { channel: unknown })
    );
    assert_eq!(
        judge(&by_sequence(unknown, 0)),
        Err(TokenError::UnknownTopic { channel: unknown })
    );
    assert_eq!(
        judge(&seen(&[(at(2), 0)])),
        Err(TokenError::UnknownPartition {
            channel: at(2),
            partitions: 2
        })
    );
    assert_eq!(
        judge(&by_sequence(at(1), 0)),
        Err(TokenError::Sequence { channel: at(1) })
    );
    assert_eq!(
        judge(&seen(&[(at(0), 0), (at(1), 0), (unknown, 0)])),
        Err(TokenError::TooManyClaims { found: 3, max: 2 })
    );
    let long = vec![1; limits.bytes + 1];
    assert_eq!(
        CausalClock::from_untrusted(&long, limits, &known),
        Err(TokenError::TooLong {
            found: limits.bytes + 1,
            max: limits.bytes
        })
    );
    assert_eq!(
        CausalClock::from_untrusted(b"", limits, &known),
        Err(TokenError::Corrupt(CorruptClock::Empty))
    );
}

/// The documented defaults belong together: what has the most claims has no more bytes than are taken.
#[test]
fn the_default_limits_of_a_token_agree() {
    let TokenLimits { bytes, claims } = TokenLimits::default();
    assert!(wire::encoded_len(claims, 0) <= bytes);
    assert!(wire::encoded_len(claims + 1, 0) > bytes);
}

/// Delivered is what counts: what is held has been fetched, and does not cover.
#[test]
fn a_token_is_covered_by_what_is_delivered() {
    let at = |partition| orders().partition(partition);
    let token = seen(&[(at(0), 4), (at(1), 100), (payments(), 0)]);
    let inputs = |orders, payment| [(payments(), payment), (at(0), orders)];
    let cases = [
        (inputs(Settled::At(4), Settled::At(0)), vec![]),
        (inputs(Settled::At(9), Settled::ToItsEnd), vec![]),
        // A record is held at 4, or at 0.
        (inputs(Settled::At(3), Settled::At(0)), vec![at(0)]),
        (inputs(Settled::At(4), Settled::At(-1)), vec![payments()]),
        (
            inputs(Settled::Undefined, Settled::Undefined),
            token
                .claims()
                .offsets()
                .iter()
                .map(|claim| claim.channel)
                .filter(|channel| *channel != at(1))
                .collect(),
        ),
    ];
    for (inputs, uncovered) in cases {
        let found = token.uncovered_by(inputs);
        let found: Vec<Channel> = found.iter().map(Claim::channel).collect();
        assert_eq!(found, uncovered, "{inputs:?}");
        assert_eq!(token.is_covered_by(inputs), uncovered.is_empty());
    }
    assert!(
        token.is_covered_by([]),
        "a task without inputs has nothing to be delivered"
    );
    assert!(!by_sequence(at(0), 0).is_covered_by(inputs(Settled::At(9), Settled::At(9))));
    assert!(by_sequence(at(0), 0).is_covered_by(inputs(Settled::ToItsEnd, Settled::At(9))));
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(0x6564_6765),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn a_channel() -> impl Strategy<Value = Channel> {
    (0..3_i64, 0..3_i32).prop_map(|(half, partition)| {
        let id = Id {
            msb: half - 1,
            lsb: -half,
        };
        TopicId(id).partition(partition)
    })
}

fn an_offset() -> impl Strategy<Value = Offset> {
    prop_oneof![8 => 0..6_i64, 1 => Just(i64::MAX)]
}

fn a_clock() -> impl Strategy<Value = CausalClock> {
    let offset =
        (a_channel(), an_offset()).prop_map(|(channel, offset)| OffsetClaim { channel, offset });
    let sequence =
        (a_channel(), 0..2_u8, an_offset()).prop_map(|(channel, sender, sequence)| SequenceClaim {
            channel,
            sender: SenderId::of_name(&sender.to_string()),
            sequence,
        });
    (vec(offset, 0..6), vec(sequence, 0..3)).prop_map(|(offsets, sequences)| CausalClock {
        claims: Clock::from_claims(offsets, sequences),
    })
}

fn merged(one: &CausalClock, other: &CausalClock) -> CausalClock {
    let mut both = one.clone();
    let is_news = both.merge(other);
    assert_eq!(is_news, !one.dominates(other));
    both
}

/// Ends of some of the channels that clocks are drawn of.
fn known() -> impl Strategy<Value = KnownTopics> {
    (btree_set((a_channel(), 0..8_i64), 0..8), 1..4_i32).prop_map(|(ends, partitions)| {
        let mut known = KnownTopics::new();
        for (channel, end) in ends {
            known.topic(channel.topic, partitions).end(channel, end);
        }
        known
    })
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn bytes_come_back_as_they_went(clock in a_clock()) {
        let bytes = clock.to_bytes();
        prop_assert_eq!(bytes.len(), clock.encoded_len());
        prop_assert_eq!(CausalClock::from_bytes(&bytes), Ok(clock));
    }

    #[test]
    fn merging_is_a_least_upper_bound(a in a_clock(), b in a_clock(), c in a_clock()) {
        let both = merged(&a, &b);
        prop_assert!(both.dominates(&a) && both.dominates(&b));
        prop_assert_eq!(&both, &merged(&b, &a));
        prop_assert_eq!(merged(&both, &c), merged(&a, &merged(&b, &c)));
        prop_assert_eq!(&merged(&a, &a), &a);
        prop_assert_eq!(&merged(&a, &CausalClock::new()), &a);
        // And no more than that: whatever is above both is above it.
        let above = merged(&both, &c);
        prop_assert!(above.dominates(&both));
    }

    /// What is stamped next claims all that was observed before, and the records observed.
    #[test]
    fn a_stamp_dominates_what_was_observed(
        mut client in a_clock(),
        records in vec((a_channel(), an_offset(), a_clock()), 0..5),
    ) {
        let before = client.clone();
        for (channel, offset, clock) in &records {
            let mut headers = vec![Header::new("trace", "7")];
            clock.stamp(&mut headers).unwrap();
            client.observe(*channel, *offset, &headers).unwrap();
        }
        let mut headers = Vec::new();
        client.stamp(&mut headers).unwrap();
        let mut stamped = CausalClock::new();
        if let Some(header) = headers.first() {
            stamped = CausalClock::from_bytes(header.value.as_ref().unwrap()).unwrap();
        }
        prop_assert!(stamped.dominates(&before));
        for (channel, offset, clock) in &records {
            prop_assert!(stamped.dominates(clock));
            prop_assert!(stamped.claims().offset(*channel) >= Some(*offset));
        }
    }

    /// No bytes make it panic, and what it takes of them it can write again.
    #[test]
    fn whatever_comes_from_outside_is_judged(
        bytes in vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..80),
        known in known(),
    ) {
        let _ = CausalClock::from_untrusted(&bytes, TokenLimits::default(), &known);
        if let Ok(clock) = CausalClock::from_bytes(&bytes) {
            prop_assert_eq!(clock.encoded_len(), bytes.len());
        }
    }

    /// What is taken claims nothing that is not there, and nothing less than the token does where it claims by offset.
    #[test]
    fn what_is_taken_is_known(token in a_clock(), flip in any::<prop::sample::Index>(), known in known()) {
        let mut bytes = token.to_bytes();
        for is_flipped in [false, true] {
            if is_flipped {
                let at = flip.index(bytes.len() * 8);
                bytes[at / 8] ^= 1 << (at % 8);
            }
            let Ok(taken) = CausalClock::from_untrusted(&bytes, TokenLimits::default(), &known) else {
                continue;
            };
            prop_assert!(taken.claims().sequences().is_empty());
            for claim in taken.claims().offsets() {
                prop_assert!(known.knows(claim.channel));
                prop_assert!(known.end_of(claim.channel).is_none_or(|end| claim.offset < end));
            }
            let offsets = CausalClock::from_bytes(&bytes).unwrap();
            prop_assert!(taken.claims().dominates(&offsets.claims().offsets()));
        }
    }

    /// Covered is what the decision would deliver: the naive rule over sets says the same.
    #[test]
    fn coverage_is_the_naive_rule(
        token in a_clock(),
        settled in prop::collection::btree_map(a_channel(), prop_oneof![
            Just(Settled::Undefined),
            Just(Settled::ToItsEnd),
            (-1..7_i64).prop_map(Settled::At),
        ], 0..6),
    ) {
        let met = |channel: Channel, offset: Option<Offset>| match settled.get(&channel) {
            None | Some(Settled::ToItsEnd) => true,
            Some(Settled::At(at)) => offset.is_some_and(|offset| offset <= *at),
            Some(Settled::Undefined) => false,
        };
        let offsets = token.claims().offsets().iter().map(|claim| (Claim::Offset(*claim), Some(claim.offset)));
        let sequences = token.claims().sequences().iter().map(|claim| (Claim::Sequence(*claim), None));
        let naive: BTreeSet<Claim> = offsets
            .chain(sequences)
            .filter(|(claim, offset)| !met(claim.channel(), *offset))
            .map(|(claim, _)| claim)
            .collect();
        let inputs = || settled.iter().map(|(channel, settled)| (*channel, *settled));
        let found: BTreeSet<Claim> = token.uncovered_by(inputs()).into_iter().collect();
        prop_assert_eq!(token.is_covered_by(inputs()), naive.is_empty());
        prop_assert_eq!(found, naive);
    }
}
