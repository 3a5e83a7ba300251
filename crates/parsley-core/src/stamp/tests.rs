//! Own sends, and the four terms of a stamp.

mod kept;
mod reference;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::channel::Id;
use crate::layout::{StateKey, number_to_bytes};
use crate::node::Sink;
use crate::store::{MemoryStore, Staged};

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

/// The node that stamps.
const SELF: i64 = 1;
/// Somebody else.
const OTHER: i64 = 2;

/// Own sends to the sinks 10 (two partitions) and 20 (one).
fn own(stored: &[(Channel, i64)], ends: &[(Channel, Offset)]) -> OwnSends {
    OwnSends::open(
        sender(SELF),
        &[
            Sink {
                topic: topic(20),
                partitions: 1,
            },
            Sink {
                topic: topic(10),
                partitions: 2,
            },
        ],
        &stored.iter().copied().collect(),
        &ends.iter().copied().collect(),
    )
}

fn sink() -> Channel {
    channel(10)
}

fn offset(on: Channel, offset: Offset) -> OffsetClaim {
    OffsetClaim {
        channel: on,
        offset,
    }
}

fn sequence(on: Channel, from: i64, sequence: i64) -> SequenceClaim {
    SequenceClaim {
        channel: on,
        sender: sender(from),
        sequence,
    }
}

fn clock(
    offsets: impl IntoIterator<Item = OffsetClaim>,
    sequences: impl IntoIterator<Item = SequenceClaim>,
) -> Clock {
    Clock::from_claims(offsets, sequences)
}

/// The stamp of a node with these terms: its bytes, read back.
fn made(
    past: &Clock,
    delivered: &[OffsetClaim],
    own: &OwnSends,
    vouched: impl Fn(&SequenceClaim) -> Option<Offset>,
    is_gone: impl Fn(TopicId) -> bool,
) -> Clock {
    let mut terms = past.clone();
    terms.merge(&delivered);
    terms.merge(&Clock::from_claims(own.offsets(), []));
    let mut kept = KeptStamp::default();
    kept.replace(terms);
    let bytes = kept.bytes(|past, stamp| normalise(stamp, past, own, vouched, is_gone));
    wire::decode(&bytes).expect("a clock").into_clock()
}

/// The stamp of a node that has delivered nothing and knows nobody's sends but its own.
fn stamped(past: &Clock, own: &OwnSends) -> Clock {
    made(past, &[], own, |_| None, |_| false)
}

fn own_term(own: &OwnSends) -> Clock {
    stamped(&Clock::new(), own)
}

fn fence(own: &mut OwnSends, acknowledged: &[(Channel, Offset)]) {
    own.fence(acknowledged).expect("channels of sinks");
}

#[test]
fn sequences_count_from_zero_or_from_what_is_stored_channel_by_channel() {
    let other = topic(10).partition(1);
    let mut own = own(&[(other, 41)], &[]);
    assert_eq!(own.issue(sink()), Some(0));
    assert_eq!(own.issue(other), Some(42));
    assert_eq!(own.issue(sink()), Some(1));
    assert_eq!(own.issue(channel(20)), Some(0));
    assert_eq!(
        own.acknowledged(),
        [(other, 41)].into(),
        "what a mark remembers"
    );
    fence(&mut own, &[]);
    assert_eq!(
        own.acknowledged(),
        [(sink(), 1), (other, 42), (channel(20), 0)].into()
    );
    // Not a channel of a sink.
    assert_eq!(own.issue(topic(10).partition(2)), None);
    assert_eq!(own.issue(channel(30)), None);
    assert!(own.declares(topic(10)));
    assert!(own.declares(topic(20)));
    assert!(!own.declares(topic(30)));
}

#[test]
fn a_sink_without_partitions_has_no_channels_and_a_sink_given_twice_has_them_once() {
    let ends = [(channel(10), 5), (topic(10).partition(1), 5)].into();
    let open = |sinks: &[Sink]| OwnSends::open(sender(SELF), sinks, &BTreeMap::new(), &ends);
    for partitions in [0, -1] {
        let sink = Sink {
            topic: topic(10),
            partitions,
        };
        let mut own = open(&[sink]);
        assert!(own.declares(topic(10)));
        assert_eq!(own.issue(channel(10)), None);
        assert_eq!(own_term(&own), Clock::new());
    }
    let twice = [1, 2].map(|partitions| Sink {
        topic: topic(10),
        partitions,
    });
    let own = open(&twice);
    assert_eq!(
        own_term(&own),
        clock(
            [offset(channel(10), 4), offset(topic(10).partition(1), 4)],
            []
        )
    );
}

#[test]
fn the_own_reading_claims_one_below_the_end_and_an_empty_channel_nothing() {
    for (end, claimed) in [
        (None, None),
        (Some(0), None),
        (Some(1), Some(0)),
        (Some(8), Some(7)),
    ] {
        let ends: Vec<_> = end.map(|end| (sink(), end)).into_iter().collect();
        let own = own(&[(sink(), 3)], &ends);
        let offsets = claimed.map(|at| offset(sink(), at));
        assert_eq!(own_term(&own), clock(offsets, []), "{end:?}");
        assert_eq!(own.claimed_by_sequence().count(), 0);
    }
}

#[test]
fn a_send_is_claimed_once_it_is_acknowledged_by_offset_where_one_was_told() {
    let mut own = own(&[], &[]);
    own.issue(sink());
    own.issue(sink());
    own.issue(channel(20));
    assert_eq!(own_term(&own), Clock::new());
    fence(&mut own, &[(channel(20), 6)]);
    assert_eq!(
        own_term(&own),
        clock([offset(channel(20), 6)], [sequence(sink(), SELF, 1)])
    );
    assert_eq!(own.claimed_by_sequence().count(), 1);
    // Nothing was sent since: nothing changes.
    fence(&mut own, &[]);
    assert_eq!(own.claimed_by_sequence().count(), 1);
    // The next send's offset ends the claim on all before it (D10).
    own.issue(sink());
    fence(&mut own, &[(sink(), 9)]);
    assert_eq!(
        own_term(&own),
        clock([offset(channel(20), 6), offset(sink(), 9)], [])
    );
    assert_eq!(own.claimed_by_sequence().count(), 0);
    // One that does not lie above what was known is not the new send's: the sequence claim stands. So it does without one.
    for stale in [8, 9] {
        own.issue(sink());
        fence(&mut own, &[(sink(), stale)]);
        assert_eq!(own_term(&own).offset(sink()), Some(9));
        assert_eq!(own.claimed_by_sequence().collect::<Vec<_>>(), [sink()]);
        fence(&mut own, &[(sink(), 9)]);
        assert_eq!(
            own.claimed_by_sequence().count(),
            1,
            "told late, it is no more that send's than before"
        );
    }
    own.issue(sink());
    fence(&mut own, &[]);
    assert_eq!(
        own_term(&own).sequences_on(sink()),
        [sequence(sink(), SELF, 5)]
    );
    // An offset that comes late ends it all the same.
    fence(&mut own, &[(sink(), 12)]);
    assert_eq!(own_term(&own).sequences_on(sink()), []);
    assert_eq!(own_term(&own).offset(sink()), Some(12));
}

#[test]
fn an_acknowledgement_that_cannot_be_is_an_error_and_changes_nothing() {
    let mut own = own(&[], &[]);
    own.issue(sink());
    let refused = own.fence(&[(channel(20), 3), (sink(), -1)]);
    assert!(matches!(
        refused,
        Err(NodeError::Negative { what: "acknowledged offset", channel, found: -1 }) if channel == sink()
    ));
    let refused = own.fence(&[(sink(), 3), (channel(30), 3)]);
    assert!(matches!(
        refused,
        Err(NodeError::NotASinkChannel { channel: on }) if on == channel(30)
    ));
    assert_eq!(own_term(&own), Clock::new());
    fence(&mut own, &[(sink(), 0)]);
    assert_eq!(own_term(&own), clock([offset(sink(), 0)], []));
}

#[test]
fn a_watermark_ends_the_claims_from_before_its_mark() {
    let claiming = || {
        let mut own = own(&[], &[]);
        for _ in 0..3 {
            own.issue(sink());
        }
        fence(&mut own, &[]);
        own
    };
    let third = sequence(sink(), SELF, 2);
    // The last sequence acknowledged when the mark was taken.
    for (acknowledged, ends) in [
        (None, false),
        (Some(1), false),
        (Some(2), true),
        (Some(3), true),
    ] {
        let mut own = claiming();
        own.watermark(sink(), 8, acknowledged);
        let claims = (!ends).then_some(third);
        assert_eq!(
            own_term(&own),
            clock([offset(sink(), 7)], claims),
            "{acknowledged:?}"
        );
    }
    // One of a channel that is no sink's is for others.
    let mut own = claiming();
    own.watermark(channel(30), 9, Some(2));
    assert_eq!(own_term(&own), clock([], [third]));
    own.watermark(sink(), 1, Some(2));
    assert_eq!(own_term(&own), clock([offset(sink(), 0)], []));
    // A lower one, asked for earlier, changes nothing.
    own.watermark(sink(), 5, Some(2));
    own.watermark(sink(), 3, None);
    assert_eq!(own_term(&own), clock([offset(sink(), 4)], []));
}

/// Decision D7.
#[test]
fn an_own_echo_falls_away_only_where_the_own_offset_vouches_for_it() {
    // Sequence 5 was the last one when the end 8 was read.
    let read = || own(&[(sink(), 5)], &[(sink(), 8)]);
    let echo = |up_to| clock([], [sequence(sink(), SELF, up_to)]);
    let at = |offset_there, up_to: Option<i64>| {
        clock(
            [offset(sink(), offset_there)],
            up_to.map(|up_to| sequence(sink(), SELF, up_to)),
        )
    };
    let mut own = read();
    assert_eq!(stamped(&echo(0), &own), at(7, None));
    assert_eq!(stamped(&echo(5), &own), at(7, None));
    assert_eq!(stamped(&echo(6), &own), at(7, Some(6)));

    // Sent and acknowledged without an offset: joined with the own claim.
    own.issue(sink());
    own.issue(sink());
    fence(&mut own, &[]);
    assert_eq!(stamped(&echo(5), &own), at(7, Some(7)));
    assert_eq!(stamped(&echo(6), &own), at(7, Some(7)));
    assert_eq!(stamped(&echo(9), &own), at(7, Some(9)));

    // A fence with an offset vouches for all sent so far, a watermark for what was sent by its mark.
    let mut fenced = own.clone();
    fence(&mut fenced, &[(sink(), 12)]);
    assert_eq!(stamped(&echo(7), &fenced), at(12, None));
    assert_eq!(stamped(&echo(8), &fenced), at(12, Some(8)));
    own.watermark(sink(), 11, Some(6));
    assert_eq!(stamped(&echo(6), &own), at(10, Some(7)));
    own.watermark(sink(), 11, Some(7));
    assert_eq!(stamped(&echo(7), &own), at(10, None));
    assert_eq!(stamped(&echo(8), &own), at(10, Some(8)));

    // An end of 0, or none read, vouches for nothing (D16).
    for ends in [&[][..], &[(sink(), 0)]] {
        let own = super::tests::own(&[(sink(), 5)], ends);
        assert_eq!(stamped(&echo(3), &own), echo(3), "{ends:?}");
    }
    // Nothing was ever sent there, and the channel has an end.
    let own = super::tests::own(&[], &[(sink(), 8)]);
    assert_eq!(stamped(&echo(0), &own), at(7, Some(0)));
}

#[test]
fn an_own_echo_on_what_is_no_sink_any_more_falls_away() {
    let own = own(&[], &[]);
    let past = clock(
        [],
        [
            sequence(channel(30), SELF, 4),
            sequence(channel(20), SELF, 4),
            sequence(topic(20).partition(9), SELF, 4),
            sequence(channel(30), OTHER, 4),
        ],
    );
    assert_eq!(
        stamped(&past, &own),
        clock(
            [],
            [
                sequence(channel(20), SELF, 4),
                sequence(topic(20).partition(9), SELF, 4),
                sequence(channel(30), OTHER, 4)
            ]
        )
    );
    assert_eq!(
        made(&past, &[], &own, |_| None, |gone| gone == topic(20)),
        clock([], [sequence(channel(30), OTHER, 4)])
    );
}

#[test]
fn a_stamp_is_the_largest_of_its_terms_on_every_channel() {
    let own = own(&[], &[(channel(10), 31), (channel(20), 31)]);
    let past = clock(
        [
            offset(channel(1), 5),
            offset(channel(2), 5),
            offset(channel(3), 5),
            offset(channel(10), 9),
            offset(channel(20), 90),
            offset(channel(40), 0),
        ],
        [],
    );
    let delivered = [
        offset(channel(2), 4),
        offset(channel(3), 6),
        offset(channel(4), 1),
        offset(channel(10), 8),
        offset(channel(50), 2),
    ];
    assert_eq!(
        made(&past, &delivered, &own, |_| None, |_| false),
        clock(
            [
                offset(channel(1), 5),
                offset(channel(2), 5),
                offset(channel(3), 6),
                offset(channel(4), 1),
                offset(channel(10), 30),
                offset(channel(20), 90),
                offset(channel(40), 0),
                offset(channel(50), 2),
            ],
            []
        )
    );
}

#[test]
fn a_foreign_claim_that_a_delivered_mark_covers_becomes_its_offset() {
    let own = own(&[], &[]);
    let past = clock(
        [offset(channel(1), 3), offset(channel(2), 9)],
        [
            sequence(channel(1), OTHER, 4),
            sequence(channel(2), OTHER, 4),
            sequence(channel(3), OTHER, 5),
            sequence(channel(4), OTHER, 0),
        ],
    );
    // Marks: sequence 4 at offset 7, on every channel.
    let vouched = |claim: &SequenceClaim| {
        assert_eq!(claim.sender, sender(OTHER));
        (claim.sequence <= 4 && claim.channel != channel(4)).then_some(7)
    };
    assert_eq!(
        made(&past, &[], &own, vouched, |_| false),
        clock(
            [offset(channel(1), 7), offset(channel(2), 9)],
            [
                sequence(channel(3), OTHER, 5),
                sequence(channel(4), OTHER, 0)
            ]
        )
    );
}

#[test]
fn sequence_numbers_are_written_once_they_moved() {
    let key = |on| Bytes::from(StateKey::SendSequence(on).to_bytes());
    let mut own = own(&[(channel(20), 6)], &[]);
    let mut staged = Staged::over(MemoryStore::new());
    let mut written = |own: &mut OwnSends| {
        own.write(&mut staged).expect("memory does not fail");
        staged.take_changes().0.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(written(&mut own), []);
    own.issue(sink());
    own.issue(channel(20));
    own.issue(sink());
    assert_eq!(
        written(&mut own),
        [
            (key(sink()), Some(number_to_bytes(1))),
            (key(channel(20)), Some(number_to_bytes(7)))
        ]
    );
    assert_eq!(written(&mut own), []);
    own.issue(sink());
    assert_eq!(written(&mut own), [(key(sink()), Some(number_to_bytes(2)))]);
}

#[test]
fn a_stamp_turns_into_the_three_headers() {
    let stamp = Stamp {
        channel: sink(),
        sender: sender(SELF),
        sequence: 3,
        clock: Bytes::from_static(&wire::EMPTY_CLOCK),
    };
    let headers = stamp.headers();
    let names: Vec<&[u8]> = headers.iter().map(|header| header.name.as_ref()).collect();
    assert_eq!(names, [&b"vc"[..], b"vc-sender", b"vc-seq"]);
    let read = wire::ProtocolHeaders::read(&headers).expect("its own headers");
    assert_eq!(read.sender, Some((sender(SELF), 3)));
    assert_eq!(read.clock.as_deref(), Some(&wire::EMPTY_CLOCK[..]));
}
