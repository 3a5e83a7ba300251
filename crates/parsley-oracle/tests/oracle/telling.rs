//! What the oracle is told, and what it gives back.

use parsley_oracle::Misuse;

use crate::world::World;

#[test]
fn an_impossible_place_is_refused_and_changes_nothing() {
    let mut world = World::new();
    let (a, b) = (world.channel("a:0"), world.channel("b:0"));
    let client = world.actor("client");
    let first = world.send(client, a, 5);
    let second = world.oracle.emit(client, a, Some(9));
    assert_eq!(
        world.oracle.appended(second, -1),
        Err(Misuse::NegativeOffset {
            emission: second,
            offset: -1
        })
    );
    assert_eq!(
        world.oracle.appended(second, 5),
        Err(Misuse::PlaceTaken {
            emission: second,
            offset: 5,
            holder: first
        })
    );
    assert_eq!(
        world.oracle.appended(first, 6),
        Err(Misuse::AppendedTwice {
            emission: first,
            before: 5,
            offset: 6
        })
    );
    assert_eq!(world.oracle.coordinate(second), None);
    assert_eq!(world.oracle.record_at(a, 6), None);
    assert_eq!(
        world.oracle.appended(second, 2),
        Ok(()),
        "below others, when it became known late"
    );
    assert_eq!(
        (world.oracle.record_at(a, 2), world.oracle.record_at(a, 5)),
        (Some(second), Some(first))
    );
    assert_eq!(world.oracle.record_at(b, 5), None);
    assert_eq!(
        (world.oracle.key(second), world.oracle.channel(second)),
        (Some(9), a)
    );
    assert_eq!(
        Misuse::PlaceTaken {
            emission: second,
            offset: 5,
            holder: first
        }
        .to_string(),
        "emission 1 cannot be at offset 5: emission 0 is there"
    );
}

#[test]
fn a_cause_is_something_handed_in_the_open_step() {
    let mut world = World::new();
    let a = world.channel("a:0");
    let client = world.actor("client");
    let task = world.task("task", &[a]);
    let record = world.send(client, a, 0);
    let not_a_cause = Err(Misuse::NotACause {
        actor: task,
        cause: record,
    });
    assert_eq!(
        world.oracle.emit_for(task, Some(record), a, None),
        not_a_cause
    );
    world.deliver(task, a, 0).expect("nothing is before it");
    let emission = world
        .oracle
        .emit_for(task, Some(record), a, None)
        .expect("it was handed in");
    assert_eq!(world.oracle.past_of(emission).collect::<Vec<_>>(), [record]);
    world.oracle.commit(task);
    assert_eq!(
        world.oracle.emit_for(task, Some(record), a, None),
        not_a_cause
    );
    assert_eq!(
        world.oracle.emissions().count(),
        2,
        "a refused send is none"
    );
}

#[test]
fn names_and_numbers_are_those_given_out() {
    let mut world = World::new();
    let (a, b) = (world.channel("a:0"), world.channel("b:0"));
    let (alice, bob) = (world.actor("alice"), world.actor("bob"));
    assert_eq!(world.oracle.actors().collect::<Vec<_>>(), [alice, bob]);
    assert_eq!(world.oracle.channels().collect::<Vec<_>>(), [a, b]);
    assert_eq!(
        (world.oracle.actor_name(bob), world.oracle.channel_name(a)),
        ("bob", "a:0")
    );
    assert_eq!(
        (alice.index(), bob.index(), a.index(), b.index()),
        (0, 1, 0, 1)
    );
}

#[test]
fn a_path_is_a_shortest_one_by_the_latest_causes() {
    let mut world = World::new();
    let [a, b, c, d] = ["a:0", "b:0", "c:0", "d:0"].map(|name| world.channel(name));
    let client = world.actor("client");
    let relays = [(); 3].map(|()| world.task("relay", &[a]));
    let last = world.task("last", &[b, c]);
    let from = world.send(client, a, 0);
    for relay in relays {
        world.deliver(relay, a, 0).expect("nothing is before it");
    }
    let first = world.send(relays[0], b, 0);
    let second = world.send(relays[1], c, 0);
    let third = world.send(relays[2], b, 1);
    for (channel, offset) in [(b, 0), (b, 1), (c, 0)] {
        world
            .deliver(last, channel, offset)
            .expect("a is not consumed");
    }
    let own = world.send(last, d, 0);
    let to = world.send(last, d, 1);
    assert_eq!(world.oracle.inputs(last), [first, third, second]);
    assert_eq!(world.oracle.path(from, own), Some(vec![from, second, own]));
    assert_eq!(
        world.oracle.path(from, to),
        Some(vec![from, second, to]),
        "not by its own earlier send, which is a detour"
    );
    assert_eq!(world.oracle.path(own, to), Some(vec![own, to]));
    assert_eq!(world.oracle.path(to, own), None);
    assert_eq!(world.oracle.path(to, to), None);
    assert!(world.oracle.concurrent(first, second) && !world.oracle.concurrent(first, first));
}

#[test]
fn a_path_goes_over_a_send_only_if_it_is_a_cause() {
    let mut world = World::new();
    let [a, b, c, d] = ["a:0", "b:0", "c:0", "d:0"].map(|name| world.channel(name));
    let (alice, bob) = (world.actor("alice"), world.actor("bob"));
    let task = world.task("task", &[a, b]);
    world.send(alice, a, 0);
    world.send(bob, b, 0);
    let both = [(a, c), (b, d)].map(|(from, to)| {
        world.deliver(task, from, 0).expect("clients are unrelated");
        world.oracle.emit(task, to, None)
    });
    assert_eq!(world.oracle.path(both[0], both[1]), None);
    assert!(world.oracle.concurrent(both[0], both[1]));
}
