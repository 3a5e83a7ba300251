//! What must have happened in the end.

use parsley_oracle::{Rule, Violation};

use crate::world::World;

#[test]
fn lost() {
    let mut world = World::new();
    let (a, b) = (world.channel("a:0"), world.channel("b:0"));
    let client = world.actor("client");
    let task = world.task("task", &[b, a]);
    world.oracle.consume(client, a, 1);
    for (channel, offset) in [(a, 0), (a, 2), (b, 1)] {
        world.send(client, channel, offset);
    }
    assert_eq!(world.lost(task), [(a, Some(0)), (a, Some(2)), (b, Some(1))]);
    assert_eq!(
        world.lost(client),
        [(a, Some(2))],
        "0 is below its baseline, b is not consumed"
    );
    assert_eq!(world.oracle.complete().len(), 4);

    assert!(world.deliver(task, a, 0).is_ok());
    assert_eq!(
        world.lost(task).len(),
        3,
        "an open step delivers nothing for good"
    );
    world.oracle.commit(task);
    assert_eq!(world.lost(task), [(a, Some(2)), (b, Some(1))]);
    assert!(world.deliver(task, a, 2).is_ok());
    world.oracle.abort(task);
    assert_eq!(world.lost(task), [(a, Some(2)), (b, Some(1))]);
    world.oracle.forget_channel(a);
    assert_eq!(
        world.lost(task),
        [(b, Some(1))],
        "nothing on a deleted channel is owed"
    );
    world.oracle.stop_consuming(task, b);
    assert_eq!(world.lost(task), []);
    assert_eq!(world.oracle.complete(), []);
}

#[test]
fn a_channel_stays_forgotten() {
    let mut world = World::new();
    let (a, out) = (world.channel("a:0"), world.channel("out:0"));
    let client = world.actor("client");
    let task = world.task("task", &[a, out]);
    world.oracle.forget_channel(a);
    let late = world.send(client, a, 0);
    let record = world.send(client, out, 0);
    let joiner = world.task("joiner", &[out, a]);
    for actor in [task, joiner] {
        assert_eq!(
            world.deliver(actor, out, 0),
            Ok(record),
            "the record of the deleted channel is not waited for"
        );
        world.oracle.commit(actor);
        assert_eq!(world.lost(actor), []);
    }
    assert!(world.oracle.happened_before(late, record));
}

#[test]
fn unsent() {
    let mut world = World::new();
    let (a, b) = (world.channel("a:0"), world.channel("b:0"));
    let client = world.actor("client");
    let aborted = world.oracle.emit(client, a, None);
    world.oracle.abort(client);
    let sent = world.oracle.emit(client, a, None);
    let to_b = world.oracle.emit(client, b, None);
    assert_eq!(
        world.oracle.complete(),
        [],
        "an open step owes nothing yet, an aborted one never"
    );
    world.oracle.commit(client);
    let unsent = |channel, record| Violation {
        rule: Rule::Unsent,
        actor: client,
        channel,
        offset: None,
        record: Some(record),
        other: None,
        path: vec![],
    };
    assert_eq!(world.oracle.complete(), [unsent(a, sent), unsent(b, to_b)]);
    world.oracle.forget_channel(b);
    assert_eq!(world.oracle.complete(), [unsent(a, sent)]);
    world.oracle.appended(sent, 0).expect("the place is free");
    assert_eq!(world.oracle.complete(), []);
    assert_eq!(world.oracle.coordinate(aborted), None);
}
