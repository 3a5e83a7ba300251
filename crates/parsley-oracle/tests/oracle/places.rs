//! What can be delivered at all: business records, on consumed channels, from the baseline on.

use parsley_oracle::{Rule, Violation};

use crate::world::World;

#[test]
fn phantom_nothing_stands_there() {
    let mut world = World::new();
    let orders = world.channel("orders:0");
    let task = world.task("task", &[orders]);
    for offset in [0, -1, i64::MIN, i64::MAX] {
        let violation = world.oracle.deliver(task, orders, offset).unwrap_err();
        let expected = Violation {
            rule: Rule::Phantom,
            actor: task,
            channel: orders,
            offset: Some(offset),
            record: None,
            other: None,
            path: vec![],
        };
        assert_eq!(violation, expected);
        assert_eq!(world.oracle.observe(task, orders, offset), Err(expected));
    }
    assert_eq!(world.oracle.inputs(task), []);
}

#[test]
fn phantom_the_step_has_not_committed_or_was_aborted() {
    let mut world = World::new();
    let orders = world.channel("orders:0");
    let client = world.actor("client");
    let task = world.task("task", &[orders]);
    let open = world.oracle.emit(client, orders, None);
    world.oracle.appended(open, 0).expect("the place is free");
    let violation = world.oracle.deliver(task, orders, 0).unwrap_err();
    assert_eq!(
        (violation.rule, violation.record),
        (Rule::Phantom, Some(open))
    );

    world.oracle.abort(client);
    assert_eq!(world.deliver(task, orders, 0), Err(Rule::Phantom));
    assert_eq!(
        world
            .oracle
            .observe(task, orders, 0)
            .map_err(|violation| violation.rule),
        Err(Rule::Phantom)
    );
    assert!(!world.oracle.is_committed(open));
    assert_eq!(
        world.oracle.coordinate(open),
        Some((orders, 0)),
        "an aborted record occupies its offset"
    );
    assert_eq!(
        world.oracle.inputs(task),
        [],
        "there was nothing to deliver"
    );
    world.oracle.commit(task);
    assert_eq!(world.oracle.complete(), [], "an aborted record is not owed");
}

#[test]
fn phantom_not_even_its_own_actor_sees_an_open_send() {
    let mut world = World::new();
    let ticks = world.channel("ticks:0");
    let task = world.task("task", &[ticks]);
    let tick = world.oracle.emit(task, ticks, None);
    world.oracle.appended(tick, 0).expect("the place is free");
    assert_eq!(world.deliver(task, ticks, 0), Err(Rule::Phantom));
    world.oracle.commit(task);
    assert_eq!(world.deliver(task, ticks, 0), Ok(tick));
}

#[test]
fn phantom_the_channel_is_not_consumed() {
    let mut world = World::new();
    let (orders, other) = (world.channel("orders:0"), world.channel("other:0"));
    let client = world.actor("client");
    let task = world.task("task", &[other]);
    let order = world.send(client, orders, 0);
    let violation = world.oracle.deliver(task, orders, 0).unwrap_err();
    assert_eq!(
        (violation.rule, violation.record),
        (Rule::Phantom, Some(order))
    );
    assert!(
        world.oracle.is_delivered(task, order),
        "it was handed in all the same"
    );
    world.oracle.consume(task, orders, 0);
    world.oracle.stop_consuming(task, orders);
    world.oracle.abort(task);
    assert_eq!(world.deliver(task, orders, 0), Err(Rule::Phantom));
}

#[test]
fn a_record_can_be_delivered_when_it_is_both_appended_and_committed() {
    let mut world = World::new();
    let orders = world.channel("orders:0");
    let client = world.actor("client");
    let task = world.task("task", &[orders]);
    let order = world.oracle.emit(client, orders, None);
    world.oracle.commit(client);
    assert_eq!(world.deliver(task, orders, 0), Err(Rule::Phantom));
    world.oracle.appended(order, 0).expect("the place is free");
    assert_eq!(world.deliver(task, orders, 0), Ok(order));
}

#[test]
fn below_baseline() {
    let mut world = World::new();
    let orders = world.channel("orders:0");
    let client = world.actor("client");
    let task = world.actor("task");
    let before = world.send(client, orders, 4);
    let first = world.send(client, orders, 5);
    world.oracle.consume(task, orders, 5);
    assert_eq!(world.oracle.baseline(task, orders), Some(5));
    let violation = world.oracle.deliver(task, orders, 4).unwrap_err();
    assert_eq!(
        (violation.rule, violation.record),
        (Rule::BelowBaseline, Some(before))
    );
    assert_eq!(
        world.deliver(task, orders, 5),
        Ok(first),
        "the baseline itself is included"
    );
}

#[test]
fn a_consumed_channel_keeps_its_baseline_and_a_joined_one_has_a_new_one() {
    let mut world = World::new();
    let orders = world.channel("orders:0");
    let client = world.actor("client");
    let task = world.actor("task");
    for offset in 0..10 {
        world.send(client, orders, offset);
    }
    world.oracle.consume(task, orders, 4);
    world.oracle.consume(task, orders, 8);
    world.oracle.consume(task, orders, 2);
    let from = |first: i64| {
        (first..10)
            .map(|offset| (orders, Some(offset)))
            .collect::<Vec<_>>()
    };
    assert_eq!(world.lost(task), from(4));
    world.oracle.stop_consuming(task, orders);
    assert_eq!(world.oracle.baseline(task, orders), None);
    assert_eq!(world.lost(task), []);
    world.oracle.consume(task, orders, 8);
    assert_eq!(world.lost(task), from(8));
    assert_eq!(world.deliver(task, orders, 7), Err(Rule::BelowBaseline));
}
