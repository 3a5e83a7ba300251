//! One world per rule, and per case in which it must stay silent.

use parsley_oracle::{Actor, Channel, Emission, Misuse, Oracle, Rule, SendOrder, Violation};

/// A world of sequential clients and tasks.
struct World {
    oracle: Oracle,
}

impl World {
    fn new() -> Self {
        Self {
            oracle: Oracle::new(),
        }
    }

    fn actor(&mut self, name: &str) -> Actor {
        self.oracle.add_actor(name, SendOrder::Sequential)
    }

    fn channel(&mut self, name: &str) -> Channel {
        self.oracle.add_channel(name)
    }

    /// A task that consumes the channels from their beginnings.
    fn task(&mut self, name: &str, inputs: &[Channel]) -> Actor {
        let task = self
            .oracle
            .add_actor(name, SendOrder::PerKey { null_is_key: false });
        for input in inputs {
            self.oracle.consume(task, *input, 0);
        }
        task
    }

    /// Sends, appends and commits one record.
    fn send(&mut self, actor: Actor, to: Channel, offset: i64) -> Emission {
        let emission = self.oracle.emit(actor, to, None);
        self.oracle
            .appended(emission, offset)
            .expect("the place is free");
        self.oracle.commit(actor);
        emission
    }

    fn deliver(&mut self, actor: Actor, channel: Channel, offset: i64) -> Result<Emission, Rule> {
        self.oracle
            .deliver(actor, channel, offset)
            .map_err(|violation| violation.rule)
    }

    /// What `actor` still misses at the end, as channel and offset.
    fn lost(&self, actor: Actor) -> Vec<(Channel, Option<i64>)> {
        let lost = self.oracle.complete_for(actor);
        assert!(
            lost.iter()
                .all(|violation| violation.rule == Rule::Lost && violation.actor == actor)
        );
        lost.iter()
            .map(|violation| (violation.channel, violation.offset))
            .collect()
    }
}

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
