//! Once each, in the order of the channel, after the causes.

use parsley_oracle::{Rule, Violation};

use crate::world::World;

#[test]
fn what_follows_its_causes_is_delivered() {
    let mut world = World::new();
    let (orders, payments) = (world.channel("orders:0"), world.channel("payments:0"));
    let client = world.actor("client");
    let pay = world.task("pay", &[orders]);
    let settle = world.task("settle", &[orders, payments]);
    let order = world.send(client, orders, 3);
    assert_eq!(world.deliver(pay, orders, 3), Ok(order));
    let payment = world.send(pay, payments, 0);
    assert_eq!(world.deliver(settle, orders, 3), Ok(order));
    assert_eq!(world.deliver(settle, payments, 0), Ok(payment));
    world.oracle.commit(settle);
    assert_eq!(world.oracle.complete(), []);
    assert!(world.oracle.is_delivered(settle, order));
    assert!(!world.oracle.is_delivered(pay, payment));
    assert_eq!(world.oracle.inputs(settle), [order, payment]);
    assert_eq!(world.oracle.creator(payment), pay);
    assert_eq!(world.oracle.coordinate(order), Some((orders, 3)));
    assert_eq!(world.oracle.past_of(payment).collect::<Vec<_>>(), [order]);
    assert!(world.oracle.happened_before(order, payment));
    assert!(!world.oracle.happened_before(payment, order));
}

#[test]
fn fifo() {
    let mut world = World::new();
    let orders = world.channel("orders:0");
    let clients = [
        world.actor("alice"),
        world.actor("bob"),
        world.actor("carol"),
    ];
    let task = world.task("task", &[orders]);
    let [_, second, third] = [0, 1, 2].map(|at| world.send(clients[at as usize], orders, at));
    assert_eq!(
        world.deliver(task, orders, 1),
        Ok(second),
        "a gap is no violation of this rule: nobody said it comes next"
    );
    let violation = world.oracle.deliver(task, orders, 0).unwrap_err();
    assert_eq!(
        (violation.rule, violation.other),
        (Rule::Fifo, Some(second))
    );
    assert_eq!(world.deliver(task, orders, 2), Ok(third));
}

#[test]
fn fifo_is_rolled_back_with_the_step() {
    let mut world = World::new();
    let orders = world.channel("orders:0");
    let clients = [
        world.actor("alice"),
        world.actor("bob"),
        world.actor("carol"),
    ];
    let task = world.task("task", &[orders]);
    let [first, second, third] = [0, 1, 2].map(|at| world.send(clients[at as usize], orders, at));
    assert_eq!(world.deliver(task, orders, 0), Ok(first));
    world.oracle.commit(task);
    assert_eq!(world.deliver(task, orders, 1), Ok(second));
    assert_eq!(world.deliver(task, orders, 2), Ok(third));
    world.oracle.abort(task);
    assert_eq!(world.oracle.inputs(task), [first]);
    assert_eq!(
        world.deliver(task, orders, 0),
        Err(Rule::Duplicate),
        "what was committed stays"
    );
    assert_eq!(world.deliver(task, orders, 1), Ok(second));
    assert_eq!(world.deliver(task, orders, 2), Ok(third));
}

#[test]
fn fifo_holds_over_a_pause_in_consuming_the_channel() {
    let mut world = World::new();
    let orders = world.channel("orders:0");
    let clients = [world.actor("alice"), world.actor("bob")];
    let task = world.actor("task");
    for offset in [3, 5] {
        world.send(clients[usize::from(offset == 3)], orders, offset);
    }
    world.oracle.consume(task, orders, 4);
    assert!(world.deliver(task, orders, 5).is_ok());
    world.oracle.commit(task);
    world.oracle.stop_consuming(task, orders);
    world.oracle.consume(task, orders, 0);
    assert_eq!(world.deliver(task, orders, 3), Err(Rule::Fifo));
}

#[test]
fn duplicate_of_an_open_and_of_a_committed_step() {
    let mut world = World::new();
    let orders = world.channel("orders:0");
    let client = world.actor("client");
    let task = world.task("task", &[orders]);
    let order = world.send(client, orders, 0);
    assert_eq!(world.deliver(task, orders, 0), Ok(order));
    assert_eq!(world.deliver(task, orders, 0), Err(Rule::Duplicate));
    world.oracle.abort(task);
    assert_eq!(
        world.deliver(task, orders, 0),
        Ok(order),
        "the first time never was"
    );
    world.oracle.commit(task);
    assert_eq!(world.deliver(task, orders, 0), Err(Rule::Duplicate));
    world.oracle.stop_consuming(task, orders);
    world.oracle.consume(task, orders, 0);
    let violation = world.oracle.deliver(task, orders, 0).unwrap_err();
    assert_eq!(
        (violation.rule, violation.record),
        (Rule::Duplicate, Some(order)),
        "also after joining again"
    );
}

#[test]
fn re_entry() {
    let mut world = World::new();
    let (orders, payments) = (world.channel("orders:0"), world.channel("payments:0"));
    let client = world.actor("client");
    let pay = world.task("pay", &[orders]);
    let order = world.send(client, orders, 0);
    world.deliver(pay, orders, 0).expect("nothing is before it");
    let payment = world.send(pay, payments, 0);
    let later = world.send(client, orders, 1);

    // A task that knew of the order by the payment alone joins the channel of the orders too early.
    let settle = world.task("settle", &[payments]);
    assert_eq!(world.deliver(settle, payments, 0), Ok(payment));
    world.oracle.commit(settle);
    world.oracle.consume(settle, orders, 0);
    let violation = world.oracle.deliver(settle, orders, 0).unwrap_err();
    assert_eq!(
        (violation.rule, violation.record, violation.other),
        (Rule::ReEntry, Some(order), Some(payment))
    );
    assert_eq!(violation.path, [order, payment]);
    assert_eq!(
        world.deliver(settle, orders, 1),
        Ok(later),
        "what was not in the past may come"
    );
}

#[test]
fn re_entry_looks_at_what_was_delivered_not_at_own_sends_or_observations() {
    let mut world = World::new();
    let (ticks, orders) = (world.channel("ticks:0"), world.channel("orders:0"));
    let task = world.task("task", &[ticks, orders]);
    let client = world.actor("client");
    let first = world.send(task, ticks, 0);
    let second = world.send(task, ticks, 1);
    assert!(world.oracle.happened_before(first, second));
    assert_eq!(
        world.deliver(task, ticks, 0),
        Ok(first),
        "its own sends come back to it"
    );
    assert_eq!(world.deliver(task, ticks, 1), Ok(second));

    let order = world.send(client, orders, 0);
    assert_eq!(world.oracle.observe(task, orders, 0), Ok(order));
    assert!(!world.oracle.is_delivered(task, order));
    assert_eq!(
        world.deliver(task, orders, 0),
        Ok(order),
        "reading something is not being delivered it"
    );
}

#[test]
fn causal_order_between_channels() {
    let mut world = World::new();
    let (orders, payments) = (world.channel("orders:0"), world.channel("payments:0"));
    let client = world.actor("client");
    let pay = world.task("pay", &[orders]);
    let settle = world.task("settle", &[orders, payments]);
    let order = world.send(client, orders, 7);
    world.deliver(pay, orders, 7).expect("nothing is before it");
    let payment = world.send(pay, payments, 0);
    let violation = world.oracle.deliver(settle, payments, 0).unwrap_err();
    let expected = Violation {
        rule: Rule::CausalOrder,
        actor: settle,
        channel: payments,
        offset: Some(0),
        record: Some(payment),
        other: Some(order),
        path: vec![order, payment],
    };
    assert_eq!(violation, expected);
    assert_eq!(
        world.deliver(settle, orders, 7),
        Err(Rule::ReEntry),
        "now it comes too late"
    );
}

#[test]
fn causal_order_through_a_hop_that_is_not_consumed() {
    let mut world = World::new();
    let [orders, checks, payments] =
        ["orders:0", "checks:0", "payments:0"].map(|name| world.channel(name));
    let client = world.actor("client");
    let check = world.task("check", &[orders]);
    let pay = world.task("pay", &[checks]);
    let settle = world.task("settle", &[orders, payments]);
    let order = world.send(client, orders, 0);
    world
        .deliver(check, orders, 0)
        .expect("nothing is before it");
    let checked = world.send(check, checks, 0);
    world
        .deliver(pay, checks, 0)
        .expect("the order is not consumed here");
    let payment = world.send(pay, payments, 0);
    let violation = world.oracle.deliver(settle, payments, 0).unwrap_err();
    assert_eq!(
        (violation.rule, violation.other),
        (Rule::CausalOrder, Some(order))
    );
    assert_eq!(violation.path, [order, checked, payment]);
}

#[test]
fn causal_order_names_the_nearest_missing_ancestor() {
    let mut world = World::new();
    let [a, b, c] = ["a:0", "b:0", "c:0"].map(|name| world.channel(name));
    let client = world.actor("client");
    let relay = world.task("relay", &[a]);
    let last = world.task("last", &[b]);
    let task = world.task("task", &[a, b, c]);
    world.send(client, a, 0);
    world.deliver(relay, a, 0).expect("nothing is before it");
    let near = world.send(relay, b, 0);
    world.deliver(last, b, 0).expect("a is not consumed here");
    let record = world.send(last, c, 0);
    let violation = world.oracle.deliver(task, c, 0).unwrap_err();
    assert_eq!(
        (violation.other, violation.path),
        (Some(near), vec![near, record])
    );
}

#[test]
fn causal_order_asks_only_for_what_is_owed() {
    let mut world = World::new();
    let [a, b, c, out] = ["a:0", "b:0", "c:0", "out:0"].map(|name| world.channel(name));
    let client = world.actor("client");
    let task = world.task("task", &[out, c]);
    world.oracle.consume(task, a, 1);
    world.send(client, a, 0);
    world.send(client, b, 0);
    world.send(client, c, 0);
    let record = world.send(client, out, 0);
    // a@0 is below the baseline, b is not consumed, c is deleted.
    assert_eq!(
        world
            .oracle
            .clone()
            .deliver(task, out, 0)
            .map_err(|violation| violation.rule),
        Err(Rule::CausalOrder)
    );
    world.oracle.forget_channel(c);
    assert_eq!(world.deliver(task, out, 0), Ok(record));
    assert_eq!(
        world.oracle.past_of(record).count(),
        3,
        "they are facts of the past nevertheless"
    );
}

#[test]
fn causal_order_is_asked_from_the_baseline_on_whether_appended_before_joining_or_after() {
    let mut world = World::new();
    let (a, out) = (world.channel("a:0"), world.channel("out:0"));
    let client = world.actor("client");
    let before = world.task("before", &[out]);
    world.oracle.consume(before, a, 1);
    let at_baseline = world.send(client, a, 1);
    world.send(client, out, 0);
    let after = world.task("after", &[out]);
    world.oracle.consume(after, a, 1);
    let joined = world.task("joined", &[out]);
    world.oracle.consume(joined, a, 2);
    for task in [before, after] {
        let violation = world.oracle.deliver(task, out, 0).unwrap_err();
        assert_eq!(
            (violation.rule, violation.other),
            (Rule::CausalOrder, Some(at_baseline))
        );
    }
    assert!(world.deliver(joined, out, 0).is_ok());
}

#[test]
fn causal_order_by_earlier_own_sends_and_by_observation() {
    let mut world = World::new();
    let [a, b, c] = ["a:0", "b:0", "c:0"].map(|name| world.channel(name));
    let (alice, reader) = (world.actor("alice"), world.actor("reader"));
    let task = world.task("task", &[a, b, c]);
    let first = world.send(alice, a, 0);
    let second = world.send(alice, b, 0);
    assert_eq!(world.oracle.observe(reader, b, 0), Ok(second));
    let third = world.send(reader, c, 0);
    assert_eq!(
        world.oracle.past_of(third).collect::<Vec<_>>(),
        [first, second]
    );
    let violation = world.oracle.clone().deliver(task, c, 0).unwrap_err();
    assert_eq!(
        (violation.rule, violation.other),
        (Rule::CausalOrder, Some(second))
    );
    let violation = world.oracle.clone().deliver(task, b, 0).unwrap_err();
    assert_eq!(
        (violation.rule, violation.other),
        (Rule::CausalOrder, Some(first))
    );
    for (channel, record) in [(a, first), (b, second), (c, third)] {
        assert_eq!(world.deliver(task, channel, 0), Ok(record));
    }
}

#[test]
fn an_aborted_observation_is_of_no_past() {
    let mut world = World::new();
    let (a, b) = (world.channel("a:0"), world.channel("b:0"));
    let (alice, reader) = (world.actor("alice"), world.actor("reader"));
    world.send(alice, a, 0);
    assert!(world.oracle.observe(reader, a, 0).is_ok());
    world.oracle.abort(reader);
    let record = world.send(reader, b, 0);
    assert_eq!(world.oracle.past_of(record).count(), 0);
}

#[test]
fn the_first_broken_rule_is_named() {
    let mut world = World::new();
    let (a, b) = (world.channel("a:0"), world.channel("b:0"));
    let (alice, bob) = (world.actor("alice"), world.actor("bob"));
    let relay = world.task("relay", &[a]);
    let task = world.actor("task");
    world.oracle.consume(task, a, 1);
    world.oracle.consume(task, b, 0);
    for offset in 0..3 {
        world.send(alice, a, offset);
        world.deliver(relay, a, offset).expect("in order");
    }
    world.send(relay, b, 0);
    world.send(bob, a, 3);
    // b@0 comes before a@1 and a@2, which makes both re-entries; a@3 then makes them breaks of the channel's order as well.
    assert_eq!(world.deliver(task, b, 0), Err(Rule::CausalOrder));
    assert_eq!(
        world
            .oracle
            .clone()
            .deliver(task, a, 1)
            .map_err(|violation| violation.rule),
        Err(Rule::ReEntry)
    );
    assert!(world.deliver(task, a, 3).is_ok());
    assert_eq!(world.deliver(task, a, 1), Err(Rule::Fifo));
    assert_eq!(
        world.deliver(task, a, 1),
        Err(Rule::Duplicate),
        "also of a delivery that broke a rule"
    );
    assert_eq!(world.deliver(task, a, 0), Err(Rule::BelowBaseline));
    world.oracle.stop_consuming(task, a);
    assert_eq!(world.deliver(task, a, 0), Err(Rule::Phantom));
}
