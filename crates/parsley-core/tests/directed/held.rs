//! What a node tells of the records that it holds, and how far its channels are settled, before and after a restart.

use std::collections::BTreeMap;

use parsley_core::decide::Settled;
use parsley_core::{Node, OpenFacts, SenderId, SequenceClaim, wire};

use crate::support::{
    World, channel, channels, claims, config, record, topics, with_clock, with_sender,
};

/// `x` holds two records, the second from alice, and `z` one; `y` none.
fn holding() -> World {
    let mut world = World::new(config(&["x:0", "y:0", "z:0"], &[]));
    let waits = claims(&[("y:0", 5)]);
    for fed in [
        with_clock(record("x:0", 3), &waits),
        with_sender(
            with_clock(record("x:0", 4), &claims(&[("y:0", 6)])),
            "alice",
            7,
        ),
        with_clock(record("z:0", 0), &claims(&[("x:0", 9)])),
    ] {
        assert_eq!(world.feed(fed), Vec::<String>::new());
    }
    world
}

/// Tries it on a node that has just received what it holds, and on one that was restarted since.
fn before_and_after_a_restart(test: impl Fn(&Node)) {
    let world = holding();
    test(&world.node);
    let declared = config(&["x:0", "y:0", "z:0"], &[]);
    let again = World::open(declared, &OpenFacts::default(), world.stop()).expect("opens");
    test(&again.node);
}

#[test]
fn heads_are_told_with_how_many_are_held() {
    let empty = World::new(config(&["x:0"], &[]));
    assert_eq!(empty.node.heads().count(), 0);
    before_and_after_a_restart(|node| {
        let heads = node.heads().map(|(on, offset, held)| (on, (offset, held)));
        assert_eq!(
            heads.collect::<BTreeMap<_, _>>(),
            channels(&[("x:0", (3, 2)), ("z:0", (0, 1))])
        );
    });
}

#[test]
fn the_clock_of_a_head_is_told_of_its_channel_alone() {
    before_and_after_a_restart(|node| {
        for (on, claimed) in [
            ("x:0", Some(claims(&[("y:0", 5)]))),
            ("y:0", None),
            ("z:0", Some(claims(&[("x:0", 9)]))),
            ("other:0", None),
        ] {
            let expected = claimed.map(|clock| wire::encode(&clock).into());
            assert_eq!(node.head_clock(channel(on)), expected, "{on}");
        }
    });
}

#[test]
fn a_sequence_is_held_up_to_the_highest_of_its_sender_on_its_channel() {
    before_and_after_a_restart(|node| {
        for (on, sender, sequence, is_held) in [
            ("x:0", "alice", 6, true),
            ("x:0", "alice", 7, true),
            ("x:0", "alice", 8, false),
            ("x:0", "bob", 7, false),
            ("y:0", "alice", 7, false),
            ("z:0", "alice", 7, false),
            ("other:0", "alice", 7, false),
        ] {
            let claim = SequenceClaim {
                channel: channel(on),
                sender: SenderId::of_name(sender),
                sequence,
            };
            assert_eq!(node.is_held(&claim), is_held, "{claim:?}");
        }
    });
}

#[test]
fn every_channel_is_told_how_far_it_is_settled() {
    before_and_after_a_restart(|node| {
        let settled: BTreeMap<_, _> = node.settled().into_iter().collect();
        let expected = [
            ("x:0", Settled::At(2)),
            ("y:0", Settled::Undefined),
            ("z:0", Settled::At(-1)),
        ];
        assert_eq!(settled, channels(&expected));
    });
    let mut world = World::new(config(&["x:0", "y:0"], &[]));
    world.feed(record("x:0", 7));
    world
        .node
        .check(&channels(&[]), &topics(&["y"]))
        .expect("nothing of y is held");
    let settled: BTreeMap<_, _> = world.node.settled().into_iter().collect();
    let expected = [("x:0", Settled::At(7)), ("y:0", Settled::ToItsEnd)];
    assert_eq!(settled, channels(&expected));
}
