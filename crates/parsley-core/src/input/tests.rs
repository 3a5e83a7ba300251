//! What is known of one received channel: tables of positions, and what is written.

use bytes::Bytes;

use super::*;
use crate::channel::{Id, TopicId};
use crate::layout::HeldRecord;
use crate::store::{Changes, MemoryStore, Staged};

fn channel() -> Channel {
    TopicId(Id { msb: 0, lsb: 1 }).partition(0)
}

fn sender(number: i64) -> SenderId {
    SenderId(Id {
        msb: number,
        lsb: 0,
    })
}

fn record(offset: Offset) -> HeldRecord {
    HeldRecord {
        offset,
        timestamp_ms: 0,
        sender: None,
        clock: Bytes::from_static(&wire::EMPTY_CLOCK),
        key: None,
        value: None,
        headers: vec![],
    }
}

/// A channel that was fed up to a position and holds records at others.
fn input(fed_up_to: Option<Offset>, held: &[Offset]) -> Input {
    let mut input = Input::new(channel(), 2);
    input.fed_up_to = fed_up_to;
    for &offset in held {
        input.queue.push(record(offset));
    }
    input
}

#[test]
fn nothing_is_known_of_a_new_channel() {
    let input = Input::new(channel(), 2);
    assert_eq!(input.fed_up_to, None);
    assert_eq!(input.settled(), Settled::Undefined);
    assert_eq!(input.frontier(), None);
    assert_eq!(input.position_to_commit(), None);
    assert_eq!(input.next_needed(), None);
    assert_eq!(input.delivered, None);
    assert!(!input.is_out_of_order(0));
}

#[test]
fn fed_up_to_only_rises_and_is_never_negative() {
    for (before, position, after) in [
        (None, -1, None),
        (None, i64::MIN, None),
        (None, 0, Some(0)),
        (None, 7, Some(7)),
        (Some(0), -1, Some(0)),
        (Some(7), 6, Some(7)),
        (Some(7), 7, Some(7)),
        (Some(7), 8, Some(8)),
        (Some(7), i64::MAX, Some(i64::MAX)),
    ] {
        let mut input = input(before, &[]);
        input.raise_fed_up_to(position);
        assert_eq!(input.fed_up_to, after, "{before:?} to {position}");
    }
}

#[test]
fn a_feed_is_out_of_order_at_or_below_the_last_one_and_below_a_reported_position() {
    for (last_fed, advanced_to, in_order_from) in [
        (None, None, 0),
        (Some(0), None, 1),
        (Some(4), None, 5),
        (None, Some(0), 0),
        (None, Some(4), 4),
        (Some(4), Some(4), 5),
        (Some(4), Some(5), 5),
        (Some(4), Some(9), 9),
        (Some(9), Some(4), 10),
    ] {
        // A start position, or what an earlier execution was fed, is none of this.
        let mut input = input(Some(20), &[]);
        (input.last_fed, input.advanced_to) = (last_fed, advanced_to);
        for offset in 0..12 {
            assert_eq!(
                input.is_out_of_order(offset),
                offset < in_order_from,
                "{offset} after {last_fed:?}, {advanced_to:?}"
            );
        }
    }
}

#[test]
fn settled_and_the_position_to_commit_follow_from_what_was_fed_and_what_is_held() {
    use Settled::{At, Undefined};
    // Fed up to, held, settled, the position to commit.
    type Row = (Option<Offset>, &'static [Offset], Settled, Option<Offset>);
    let table: [Row; 9] = [
        (None, &[], Undefined, None),
        (Some(0), &[], At(0), Some(1)),
        (Some(9), &[], At(9), Some(10)),
        (Some(0), &[0], At(-1), Some(1)),
        (Some(1), &[1], At(0), Some(2)),
        (Some(5), &[5], At(4), Some(6)),
        (Some(9), &[5], At(4), Some(6)),
        (Some(9), &[5, 7, 9], At(4), Some(10)),
        (Some(i64::MAX), &[], At(i64::MAX), Some(i64::MAX)),
    ];
    for (fed_up_to, held, settled, position) in table {
        let input = input(fed_up_to, held);
        assert_eq!(input.settled(), settled, "{fed_up_to:?} {held:?}");
        let frontier = match settled {
            At(position) => Some(position),
            _ => None,
        };
        assert_eq!(input.frontier(), frontier, "{fed_up_to:?} {held:?}");
        assert_eq!(
            input.position_to_commit(),
            position,
            "{fed_up_to:?} {held:?}"
        );
    }
}

#[test]
fn a_topic_found_gone_is_settled_to_its_end_and_commits_what_was_fed() {
    let mut input = input(Some(4), &[]);
    input.gone = true;
    assert_eq!(input.settled(), Settled::ToItsEnd);
    // A deletion is never stored nor committed.
    assert_eq!(input.frontier(), Some(4));
    assert_eq!(input.position_to_commit(), Some(5));
}

#[test]
fn the_position_needed_next_is_behind_what_was_fed_or_where_the_host_reads_from() {
    for (fed_up_to, resumes_at, expected) in [
        (None, None, None),
        (None, Some(0), Some(0)),
        (None, Some(7), Some(7)),
        (Some(0), None, Some(1)),
        (Some(9), Some(3), Some(10)),
        (Some(i64::MAX), None, Some(i64::MAX)),
    ] {
        let mut input = input(fed_up_to, &[]);
        input.resumes_at = resumes_at;
        assert_eq!(
            input.next_needed(),
            expected,
            "{fed_up_to:?} {resumes_at:?}"
        );
    }
}

#[test]
fn the_delivered_mark_of_a_sender_only_rises() {
    let mut input = Input::new(channel(), 2);
    let mark = |input: &Input, number| {
        let known = input.delivered_sequences.get(&sender(number));
        known.map(|known| (known.sequence, known.offset))
    };
    assert!(input.note_delivered(sender(1), 0, 5));
    assert_eq!(mark(&input, 1), Some((0, 5)));
    assert!(!input.note_delivered(sender(1), 0, 6));
    assert_eq!(mark(&input, 1), Some((0, 5)));
    assert!(input.note_delivered(sender(1), 4, 7));
    assert!(!input.note_delivered(sender(1), 3, 8));
    assert_eq!(mark(&input, 1), Some((4, 7)));
    assert_eq!(mark(&input, 2), None);
    assert!(input.note_delivered(sender(2), 0, 9));
    assert_eq!(mark(&input, 2), Some((0, 9)));
    assert!(input.note_delivered(sender(1), 5, 10));
    let mark = |number, sequence, offset| {
        (
            StateKey::DeliveredSequence(channel(), sender(number)),
            Some(pair_to_bytes(sequence, offset)),
        )
    };
    assert_eq!(
        written(&mut input),
        changes(&[mark(1, 5, 10), mark(2, 0, 9)])
    );
    assert!(written(&mut input).is_empty());
}

/// What a write changes in a store.
fn written(input: &mut Input) -> Changes {
    let mut staged = Staged::over(MemoryStore::new());
    input.write(&mut staged).expect("memory does not fail");
    staged.take_changes()
}

fn changes(expected: &[(StateKey, Option<Bytes>)]) -> Changes {
    let expected = expected
        .iter()
        .map(|(key, value)| (Bytes::from(key.to_bytes()), value.clone()));
    Changes(expected.collect())
}

#[test]
fn only_what_changed_is_written_and_once() {
    let mut input = input(Some(7), &[]);
    input.note_delivered(sender(1), 3, 6);
    input.note_delivered(sender(1), 4, 7);
    input.advertised.claim_offset(channel(), 1);
    input.advertised_changed = true;
    let expected = changes(&[
        (StateKey::Frontier(channel()), Some(number_to_bytes(7))),
        (
            StateKey::Advertised(channel()),
            Some(wire::encode(&input.advertised).into()),
        ),
        (
            StateKey::DeliveredSequence(channel(), sender(1)),
            Some(pair_to_bytes(4, 7)),
        ),
    ]);
    assert_eq!(written(&mut input), expected);
    assert!(written(&mut input).is_empty());

    input.raise_fed_up_to(8);
    let expected = changes(&[(StateKey::Frontier(channel()), Some(number_to_bytes(8)))]);
    assert_eq!(written(&mut input), expected);
    assert_eq!(input.stored_frontier, Some(8));
    assert!(written(&mut input).is_empty());

    // Emptied by a truncation: the clock's key goes.
    input.advertised = Clock::new();
    input.advertised_changed = true;
    let expected = changes(&[(StateKey::Advertised(channel()), None)]);
    assert_eq!(written(&mut input), expected);
}

#[test]
fn a_frontier_is_written_one_below_the_head_and_never_negative() {
    let entry = |index, offset| {
        (
            StateKey::QueueEntry(channel(), index),
            Some(record(offset).to_bytes()),
        )
    };
    let meta = |head, tail| {
        (
            StateKey::QueueMeta(channel()),
            Some(pair_to_bytes(head, tail)),
        )
    };
    let mut at_zero = input(Some(0), &[0]);
    assert_eq!(
        written(&mut at_zero),
        changes(&[entry(0, 0), meta(0, 1)]),
        "no frontier"
    );
    assert_eq!(at_zero.stored_frontier, None);
    let mut at_five = input(Some(5), &[5]);
    assert_eq!(
        written(&mut at_five),
        changes(&[
            (StateKey::Frontier(channel()), Some(number_to_bytes(4))),
            entry(0, 5),
            meta(0, 1)
        ])
    );
    let mut undefined = input(None, &[]);
    assert!(written(&mut undefined).is_empty());
}

#[test]
fn a_clock_that_claims_nothing_has_no_key() {
    let mut store = MemoryStore::new();
    let mut clock = Clock::new();
    clock.claim_offset(channel(), 3);
    write_clock(&mut store, StateKey::Carried, &clock).expect("memory");
    assert_eq!(
        store.get(b"ca").expect("memory"),
        Some(wire::encode(&clock).into())
    );
    write_clock(&mut store, StateKey::Carried, &Clock::new()).expect("memory");
    assert_eq!(store, MemoryStore::new());
}
