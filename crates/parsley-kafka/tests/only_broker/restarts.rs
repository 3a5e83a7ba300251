//! The only broker restarts.

use std::time::Duration;

use kafka_cluster::KafkaCluster;
use parsley_kafka::Status;
use parsley_stage::{App, Message, Outbox, Stage};

use crate::Only;
use crate::world::*;

/// How many payments there are, each of an order.
const COUNT: i64 = 20;

/// Payments are held, as the orders that they claim are not written yet, over a broker that ends and over one that is killed. Then the orders come: all
/// is delivered, each payment behind its order, and has its effect once.
#[test]
fn records_are_held_over_restarts_of_the_only_broker() {
    let only = Only::take();
    for (name, end) in [
        (
            "ended",
            KafkaCluster::end_broker as fn(&KafkaCluster, u16) -> _,
        ),
        ("killed", KafkaCluster::kill_broker),
    ] {
        held_over_a_restart(name, || {
            end(&only, 1).unwrap();
            only.start_broker(1).unwrap();
        });
    }
}

/// Sends on what it is delivered, and says what it was.
fn noting(name: &str) -> (App, [String; 3]) {
    let names = ["orders", "payments", "seen"].map(|part| format!("{name}-{part}"));
    let [orders, payments, seen] = [&names[0], &names[1], &names[2]].map(|name| text_topic(name));
    let note = |what: &'static str| {
        let seen = seen.clone();
        move |message: Message<String, String>, out: &mut Outbox| {
            out.send(&seen, &message.key, &format!("{what} {}", message.value))
        }
    };
    let stage = Stage::stateless("note")
        .sink(&seen)
        .on(&orders, note("order"))
        .on(&payments, note("payment"))
        .build()
        .unwrap();
    (App::named(name).stage(stage).build().unwrap(), names)
}

fn held_over_a_restart(name: &str, restart: impl Fn()) {
    let (app, [orders, payments, seen]) = noting(name);
    for topic in [&orders, &payments, &seen] {
        create_topic(topic, 1);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut set_up = config(&dir);
    set_up.backoff_longest = Duration::from_millis(500);
    let running = start(set_up, &app);
    wait_for_tasks(&running, 1);
    let ordered = channel(&orders, 0);
    for number in 0..COUNT {
        let (claims, value) = ([(ordered, number)], number.to_string());
        let headers = stamp(&claims, number);
        Foreign::plain().append_with(&payments, To::Key, ("k", &value), &headers);
    }
    let are_held = |status: &Status| {
        let held = status.tasks().map(|(.., task)| task.held);
        held.sum::<u64>() == COUNT as u64
    };
    wait_for(&running, "holding all", are_held);
    restart();
    let numbers: Vec<String> = (0..COUNT).map(|number| number.to_string()).collect();
    let records: Vec<(&str, &str)> = numbers.iter().map(|value| ("k", value.as_str())).collect();
    Foreign::plain().append(&orders, To::Key, &records);
    wait_until("all effects", || values(&seen).len() >= 2 * records.len());
    stop(&running);
    let found = values(&seen);
    let of = |what: &str| {
        let found = found.iter().filter_map(|found| found.strip_prefix(what));
        found.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(found.len(), 2 * records.len(), "{found:?}");
    assert_eq!((&of("order "), &of("payment ")), (&numbers, &numbers));
    for number in &numbers {
        let at = |what: &str| {
            let sought = format!("{what} {number}");
            found.iter().position(|found| *found == sought)
        };
        assert!(at("order") < at("payment"), "{found:?}");
    }
    check_stamps(&seen, name, "note", 1);
}
