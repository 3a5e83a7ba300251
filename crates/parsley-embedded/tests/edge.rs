//! Clients outside of the stages: the order holds for what they send if they say what they have seen, and whether a stage has been
//! delivered that can be asked.

mod support;

use parsley_core::{Record, TopicId};
use parsley_embedded::{Appended, Host, NewRecord, Waited};
use parsley_stage::{App, CausalClock};
use support::*;

/// Sends a record with what the client has seen, if it says so, and takes up where it stands.
fn produce(
    host: &Host,
    seen: &mut CausalClock,
    topic: &str,
    value: &str,
    says_so: bool,
) -> Appended {
    let mut headers = Vec::new();
    if says_so {
        seen.stamp(&mut headers).unwrap();
    }
    let record = NewRecord::to(topic)
        .key("k")
        .value(value.to_owned())
        .headers(headers);
    let sent = host.producer().send(record).unwrap();
    seen.record_produced(sent.channel.topic, sent.channel.partition, sent.offset)
        .unwrap();
    sent
}

fn consume(host: &Host, seen: &mut CausalClock, topic: &str) -> Vec<Record> {
    let records = host.consumer(topic).unwrap().read_to_end().unwrap();
    for record in &records {
        seen.observe_record(record).unwrap();
    }
    records
}

/// A client orders, a stage quotes, another client reads the quote, which names the order by its clock alone, and pays. `settle` reads orders late. Returns
/// what it was handed, in order, and how many records had to wait.
fn order_of_settle(says_so: bool) -> (Vec<String>, usize) {
    let (orders, quotes, payments, log) = (
        text("orders"),
        text("quotes"),
        text("payments"),
        text("log"),
    );
    let trace = Trace::default();
    let host = trace
        .observe(builder().delay("settle", "orders", 1000))
        .build()
        .unwrap();
    create(&host, 1, &["orders", "quotes", "payments", "log"]);

    let mut buyer = CausalClock::new();
    produce(&host, &mut buyer, "orders", "3 apples", says_so);
    let quote = App::named("quote")
        .stage(copying("quote", &[&orders], &quotes))
        .build()
        .unwrap();
    let running = host.start(&quote).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    running.stop().unwrap();

    let mut payer = CausalClock::new();
    assert_eq!(consume(&host, &mut payer, "quotes").len(), 1);
    assert_eq!(payer.claims().offset(channel(&host, "orders", 0)), Some(0));
    produce(&host, &mut payer, "payments", "3 coins", says_so);

    let settle = App::named("settle")
        .stage(copying("settle", &[&orders, &payments], &log))
        .build()
        .unwrap();
    let running = host.start(&settle).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    running.stop().unwrap();
    trace.assert_causal();
    let order = trace.order("settle", 0);
    let held = trace.holds.lock().unwrap().len();
    (order.into_iter().map(|(topic, _)| topic).collect(), held)
}

#[test]
fn what_a_client_has_seen_comes_before_what_it_sends_if_it_says_so() {
    assert_eq!(
        order_of_settle(true),
        (vec!["orders".to_owned(), "payments".to_owned()], 1)
    );
}

/// The counterpart: nothing else would have kept the order.
#[test]
fn a_client_that_does_not_say_what_it_has_seen_is_ordered_by_nothing() {
    assert_eq!(
        order_of_settle(false),
        (vec!["payments".to_owned(), "orders".to_owned()], 0)
    );
}

/// Two partitions, so that no task alone has it all; one record that waits for what nobody has sent yet; markers at the end.
#[test]
fn a_stage_covers_what_its_tasks_have_been_delivered() {
    let (orders, payments, log) = (text("orders"), text("payments"), text("log"));
    let host = builder().build().unwrap();
    create(&host, 2, &["orders", "payments", "log"]);
    let app = App::named("shop")
        .stage(copying("settle", &[&orders, &payments], &log))
        .build()
        .unwrap();
    let running = host.start(&app).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);

    let [orders, payments] = ["orders", "payments"].map(|topic| id(&host, topic));
    let send = |topic: &str, partition, seen: &CausalClock| {
        let mut headers = Vec::new();
        seen.stamp(&mut headers).unwrap();
        let record = NewRecord::to(topic)
            .key("k")
            .value("v")
            .partition(partition);
        host.producer().send(record.headers(headers)).unwrap();
    };
    let upto = |topic: TopicId, partition, offset| {
        let mut seen = CausalClock::new();
        seen.record_produced(topic, partition, offset).unwrap();
        seen
    };
    let covers = |seen: &CausalClock| {
        assert_eq!(running.wait_until_idle(), Waited::Reached);
        let status = running.status();
        assert!(!status.covers("no such stage", seen));
        let each = [0, 1].map(|partition| status.task("settle", partition).unwrap().covers(seen));
        assert_eq!(status.covers("settle", seen), each == [true, true]);
        each
    };
    // Nothing is known of a channel that nothing was read of, and nothing seen is covered by any.
    assert_eq!(covers(&CausalClock::new()), [true, true]);
    assert_eq!(covers(&upto(orders, 1, 0)), [true, false]);

    // The payment is fetched, and waits for an order that nobody has sent.
    send("payments", 1, &upto(orders, 1, 0));
    assert_eq!(covers(&upto(payments, 1, 0)), [true, false]);
    send("orders", 1, &CausalClock::new());
    assert_eq!(covers(&upto(payments, 1, 0)), [true, true]);
    assert_eq!(covers(&upto(orders, 1, 1)), [true, false]);

    // An offset that no record has: that of a marker.
    let mut transaction = host.producer().begin();
    let record = NewRecord::to("orders").key("k").value("v").partition(1);
    transaction.send(record).unwrap();
    transaction.commit().unwrap();
    assert_eq!(covers(&upto(orders, 1, 2)), [true, true]);

    // What is not consumed by anybody imposes nothing.
    assert_eq!(
        covers(&upto(TopicId::of_name("elsewhere"), 0, 9)),
        [true, true]
    );

    // A topic that is deleted has nothing left to be delivered.
    assert_eq!(covers(&upto(orders, 0, 9)), [false, true]);
    host.delete_topic("orders").unwrap();
    running.check_now();
    assert_eq!(covers(&upto(orders, 0, 9)), [true, true]);
    running.stop().unwrap();
}
