//! What stamps claim from one execution to the next, and what a node tells of the next one.

use parsley_core::OpenFacts;

use crate::support::*;

/// Broken by hand, a list without what is carried was seen by the comparison with the model alone: claims carried from inputs that are gone would
/// never have been truncated.
#[test]
fn the_channels_that_stamps_name_are_those_of_what_is_carried_and_of_what_is_advertised() {
    let in_order = |names: &[&str]| {
        let mut channels: Vec<_> = names.iter().map(|name| channel(name)).collect();
        channels.sort_unstable();
        channels
    };
    let mut world = World::new(config(&["x:0", "y:0"], &[("s", 1)]));
    world.feed_claiming("x:0", 0, &claims(&[("u:0", 4)]));
    world.feed_claiming("y:0", 0, &clock(&[], &[("v:0", "alice", 2)]));
    assert_eq!(world.node.stamp_channels(), in_order(&["u:0", "v:0"]));

    let world = World::open(
        config(&["y:0"], &[("s", 1)]),
        &OpenFacts::default(),
        world.stop(),
    )
    .expect("an input is dropped");
    assert_eq!(
        world.node.stamp_channels(),
        in_order(&["u:0", "v:0", "x:0"])
    );
}

/// What an operator is told of the width of stamps is told between sends as well, when new claims are not joined in yet.
#[test]
fn the_claims_of_the_next_stamp_are_counted_by_kind() {
    let mut world = World::new(config(&["a:0", "b:0", "c:0"], &[("s", 1)]));
    assert_eq!(world.node.stamp_entries(), (0, 0));
    world.feed(record("a:0", 0));
    assert_eq!(world.node.stamp_entries(), (1, 0));
    world.feed(record("b:0", 0));
    assert_eq!(world.node.stamp_entries(), (2, 0));
    // A channel is counted once, however often it was claimed on since.
    world.feed(record("c:0", 0));
    world.feed(record("c:0", 1));
    assert_eq!(world.node.stamp_entries(), (3, 0));
    world.feed_claiming("a:0", 1, &clock(&[("c:0", 0)], &[]));
    assert_eq!(world.node.stamp_entries(), (3, 0));
    let claims = clock(
        &[("a:0", 0), ("x:0", 1), ("y:0", 2)],
        &[("z:0", "alice", 3)],
    );
    world.feed_claiming("c:0", 2, &claims);
    assert_eq!(world.node.stamp_entries(), (5, 1));
    world.send("s:0");
    assert_eq!(world.node.stamp_entries(), (5, 2), "it is acknowledged");
    let entries = stamp_clock(&world.send("s:0"));
    assert_eq!((entries.offsets().len(), entries.sequences().len()), (5, 2));
}

/// Broken by hand, a sink that comes back with its numbers from 0 again was seen by the comparison with the model alone. A receiver's delivered
/// mark would meet claims on sends that the receiver was never given.
#[test]
fn a_sink_that_comes_back_goes_on_with_its_send_sequences() {
    let ends = OpenFacts {
        ends: channels(&[("s:0", 2), ("t:0", 0)]),
        ..OpenFacts::default()
    };
    let both = || config(&["x:0"], &[("s", 1), ("t", 1)]);
    let mut world = World::new(both());
    assert_eq!(
        [world.send("s:0"), world.send("s:0")].map(|stamp| stamp.sequence),
        [0, 1]
    );
    for config in [config(&["x:0"], &[("t", 1)]), both()] {
        world = World::open(config, &ends, world.stop()).expect("opens");
        assert!(
            world
                .keys()
                .iter()
                .any(|key| *key == format!("sq/{}", channel("s:0")))
        );
    }
    assert_eq!(world.send("s:0").sequence, 2);
}

/// What was sent to a sink that is removed is carried on as its end; one that nothing stands in has no such end.
#[test]
fn a_removed_sink_is_carried_as_its_last_offset_if_it_has_one() {
    for (end, carried) in [(0, None), (1, Some(0)), (5, Some(4))] {
        let world = World::new(config(&["x:0"], &[("s", 1), ("t", 1)]));
        let facts = OpenFacts {
            ends: channels(&[("s:0", end), ("t:0", 0)]),
            ..OpenFacts::default()
        };
        let mut world =
            World::open(config(&["x:0"], &[("t", 1)]), &facts, world.stop()).expect("opens");
        let stamp = stamp_clock(&world.send("t:0"));
        assert_eq!(stamp.offset(channel("s:0")), carried, "its end is {end}");
    }
}
