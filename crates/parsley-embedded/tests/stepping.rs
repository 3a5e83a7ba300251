//! Tasks driven step by step: the caller chooses the interleaving, the crashes, and when evidence comes.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parsley_core::{Channel, Clock, HoldCode, Offset, SenderId, Wait};
use parsley_embedded::{
    Host, HostBuilder, NewRecord, Reads, StepError, StepReport, Stepper, TimeSource, Waited,
};
use parsley_stage::App;
use support::stepping::*;
use support::*;

/// `ship` copies orders to parcels, `audit` both to log.
fn shop() -> App {
    let (orders, parcels, log) = (text("orders"), text("parcels"), text("log"));
    App::named("shop")
        .stage(copying("ship", &[&orders], &parcels))
        .stage(copying("audit", &[&orders, &parcels], &log))
        .build()
        .unwrap()
}

fn shop_host(builder: HostBuilder) -> Host {
    let host = builder.build().unwrap();
    create(&host, 1, &["orders", "parcels", "log"]);
    host
}

#[test]
fn the_caller_chooses_the_interleaving_of_two_tasks() {
    let run = || {
        let trace = Trace::default();
        let host = shop_host(trace.observe(repeatable()));
        let mut stepper = opened(&host, &shop());
        assert!(stepper.tasks().eq([("ship", 0), ("audit", 0)]));
        send_numbers(&host, "orders", 0..2);
        let first = stepper.step("ship", 0, &ALL.at_most("orders", 1)).unwrap();
        // The parcel is there, its order was not read: it waits.
        let ahead = stepper.step("audit", 0, &ALL.without("orders")).unwrap();
        let waits = stepper.holds("audit", 0).unwrap();
        let held = stepper.held("audit", 0).unwrap();
        // The order that it does not depend on is kept back, and it goes.
        let released = stepper.step("audit", 0, &ALL.at_most("orders", 1)).unwrap();
        let second = stepper.step("ship", 0, &ALL).unwrap();
        let rest = stepper.step("audit", 0, &ALL).unwrap();
        for (stage, partition) in [("ship", 0), ("audit", 0)] {
            assert!(!stepper.has_news(stage, partition).unwrap());
        }
        trace.assert_causal();
        assert_eq!(trace.order("audit", 0).len(), 4);
        (host, first, ahead, waits, held, released, second, rest)
    };
    let (host, first, ahead, waits, held, released, second, rest) = run();
    let at = |topic| channel(&host, topic, 0);
    assert!(first.committed && !first.is_full);
    assert_eq!(first.received, [(at("orders"), 0)]);
    assert_eq!(delivered(&first), [("orders", 0)]);
    assert_eq!(appended(&first), [("parcels", 0, 0)]);
    assert_eq!(first.positions, [(at("orders"), 1)].into());

    assert_eq!(ahead.received, [(at("parcels"), 0)]);
    assert!(ahead.committed, "what is held is state");
    assert_eq!((delivered(&ahead), held), (vec![], 1));
    assert_eq!(ahead.positions[&at("orders")], 0);
    assert_eq!(ahead.positions[&at("parcels")], 2, "past the marker");
    assert!(
        matches!(&*waits, [hold] if &*hold.place.topic == "parcels" && matches!(
            hold.to_hold().waits[0],
            Wait::Offset { claim, code: HoldCode::NotFetched, .. } if claim.channel == at("orders") && claim.offset == 0
        ))
    );

    assert_eq!(delivered(&released), [("orders", 0), ("parcels", 0)]);
    assert!(released.delivered[1].was_held && !released.delivered[0].was_held);
    assert_eq!(released.dropped, []);
    assert_eq!(delivered(&second), [("orders", 1)]);
    let order = delivered(&rest);
    let place = |wanted| order.iter().position(|found| *found == wanted).unwrap();
    assert!(place(("orders", 1)) < place(("parcels", 2)));
    // What is reported as sent is what stands in the log.
    let sent = released.appended.iter().chain(&rest.appended);
    for (sent, record) in sent.zip(records(&host, "log")) {
        assert_eq!(
            (sent.offset, sent.send.channel),
            (record.offset, record.channel)
        );
        assert_eq!(
            (&sent.send.value, &sent.send.headers),
            (&record.value, &record.headers)
        );
    }

    let again = run();
    assert_eq!(
        (first, ahead, waits, held, released, second, rest),
        (
            again.1, again.2, again.3, again.4, again.5, again.6, again.7
        )
    );
    assert_eq!(records(&host, "log"), records(&again.0, "log"));
}

/// What threads do with an application, steps do: the log and the states are the same bytes.
#[test]
fn steps_and_threads_leave_the_same_bytes() {
    let filled = || {
        let host = pair_host(repeatable().max_step_deliveries(3));
        let mut clock = Clock::new();
        clock.claim_offset(channel(&host, "x", 0), 4);
        for number in 0..9 {
            send(&host, "x", &number.to_string(), "cause");
        }
        host.producer()
            .send(claiming("y", "effect", &clock))
            .unwrap();
        clock.claim_offset(channel(&host, "x", 0), 20);
        host.producer()
            .send(claiming("y", "waits", &clock))
            .unwrap();
        host
    };
    let by_threads = filled();
    let running = by_threads.start(pair()).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(running.stop().unwrap().held(), 1);

    let by_steps = filled();
    let mut stepper = opened(&by_steps, &pair());
    let mut steps = 0;
    while stepper.has_news("s", 0).unwrap() {
        stepper.step("s", 0, &ALL).unwrap();
        steps += 1;
    }
    assert!(steps >= 4, "ten deliveries at three for a step");
    for topic in ["x", "y", "out"] {
        assert_eq!(records(&by_threads, topic), records(&by_steps, topic));
    }
    let ordering = |host: &Host| host.log().ordering_state("app-s", 0).unwrap();
    assert!(ordering(&by_steps).is_some());
    assert_eq!(ordering(&by_threads), ordering(&by_steps));
    let positions = |host: &Host| host.log().committed_positions("app-s");
    assert_eq!(positions(&by_threads), positions(&by_steps));
    assert_eq!(stepper.held("s", 0).unwrap(), 1);
}

#[test]
fn a_crash_between_steps_keeps_what_was_committed_and_nothing_else() {
    let host = pair_host(builder());
    let (x, y) = (channel(&host, "x", 0), channel(&host, "y", 0));
    let mut stepper = opened(&host, &pair());
    let mut clock = Clock::new();
    clock.claim_offset(x, 1);
    host.producer()
        .send(claiming("y", "effect", &clock))
        .unwrap();
    send_numbers(&host, "x", 0..3);
    let step = stepper.step("s", 0, &ALL.at_most("x", 1)).unwrap();
    assert_eq!(delivered(&step), [("x", 0)]);
    stepper.crash("s", 0).unwrap();
    assert!(!stepper.is_open("s", 0).unwrap());
    assert!(matches!(
        stepper.step("s", 0, &ALL),
        Err(StepError::NotOpen { partition: 0, .. })
    ));
    let opening = stepper.open("s", 0).unwrap();
    assert_eq!((opening.held, opening.joined), (1, vec![]));
    assert_eq!(opening.positions, [(x, 1), (y, 1)].into());
    // An execution that is open is dropped by the next opening.
    assert_eq!(stepper.open("s", 0).unwrap().held, 1);
    let step = stepper.step("s", 0, &ALL).unwrap();
    assert_eq!(sorted_pairs(&step), [("x", 1), ("x", 2), ("y", 0)]);
    let order = delivered(&step);
    let place = |wanted| order.iter().position(|found| *found == wanted).unwrap();
    assert!(place(("x", 1)) < place(("y", 0)));
    assert_eq!(records(&host, "out").len(), 4);
    stepper.crash("s", 0).unwrap();
    stepper.crash("s", 0).unwrap();
}

fn sorted_pairs(step: &StepReport) -> Vec<(&str, Offset)> {
    let mut pairs = delivered(step);
    pairs.sort_unstable();
    pairs
}

/// The example of `docs/protocol.md`, Watermark evidence: an answer speaks for what was known when it was asked for.
#[test]
fn watermarks_answered_late_speak_for_the_mark() {
    let (x, y, z, out) = (text("x"), text("y"), text("z"), text("out"));
    let app = App::named("app")
        .stage(copying("s", &[&x, &y, &z], &out))
        .build()
        .unwrap();
    let host = builder().build().unwrap();
    create(&host, 1, &["x", "y", "z", "out"]);
    let x = channel(&host, "x", 0);
    let naming = |sequence| {
        let mut clock = Clock::new();
        clock.claim_sequence(x, SenderId::of_name("alice"), sequence);
        clock
    };
    let claim = |topic, sequence| {
        let record = claiming(topic, "effect", &naming(sequence));
        host.producer().send(record).unwrap();
    };
    send_numbers(&host, "x", 0..10);
    claim("y", 3);
    let mut stepper = opened(&host, &app);
    stepper.step("s", 0, &ALL).unwrap();
    assert_eq!(stepper.held("s", 0).unwrap(), 1);
    let early = stepper.ask_watermarks("s", 0).unwrap();
    assert_eq!(*early.watermarks(), [(x, 10)].into());
    claim("z", 4);
    let step = stepper.step("s", 0, &ALL).unwrap();
    assert_eq!(step.received.len(), 1);
    assert!(delivered(&step).is_empty());

    stepper.answer_watermarks("s", 0, &early).unwrap();
    assert!(
        !stepper.has_news("s", 0).unwrap(),
        "evidence is not news: who gives it steps"
    );
    let step = stepper.step("s", 0, &ALL).unwrap();
    assert_eq!(delivered(&step), [("y", 0)]);
    assert_eq!(stepper.holds("s", 0).unwrap()[0].offset, 0, "z waits still");
    stepper.answer_watermarks("s", 0, &early).unwrap();
    assert!(!stepper.step("s", 0, &ALL).unwrap().committed);

    // A question of an execution that is over says nothing to the next.
    let outlived = stepper.ask_watermarks("s", 0).unwrap();
    assert_eq!(stepper.open("s", 0).unwrap().held, 1);
    stepper.answer_watermarks("s", 0, &outlived).unwrap();
    assert!(delivered(&stepper.step("s", 0, &ALL).unwrap()).is_empty());

    assert!(stepper.give_evidence("s", 0).unwrap());
    assert_eq!(delivered(&stepper.step("s", 0, &ALL).unwrap()), [("z", 0)]);
    assert!(!stepper.give_evidence("s", 0).unwrap(), "nothing waits");
}

#[test]
fn a_step_reads_of_each_input_what_it_may() {
    let host = pair_host(builder());
    let (x, y) = (channel(&host, "x", 0), channel(&host, "y", 0));
    for topic in ["x", "y"] {
        // Offsets 0, 1 and a marker at 2, then 3.
        let mut transaction = host.producer().begin();
        for value in ["0", "1"] {
            transaction
                .send(NewRecord::to(topic).key("k").value(value))
                .unwrap();
        }
        transaction.commit().unwrap();
        send(&host, topic, "k", "3");
    }
    let mut stepper = opened(&host, &pair());
    let lags = |stepper: &Stepper| -> BTreeMap<Channel, (Offset, u64)> {
        let inputs = stepper.inputs("s", 0).unwrap().into_iter();
        inputs
            .map(|input| (input.channel, (input.position, input.lag)))
            .collect()
    };
    assert_eq!(lags(&stepper), [(x, (0, 4)), (y, (0, 4))].into());
    let nothing = stepper.step("s", 0, &Reads::nothing()).unwrap();
    assert!(!nothing.committed && nothing.received.is_empty());
    assert_eq!(nothing.positions, [(x, 0), (y, 0)].into());
    let only = Reads::nothing().until("x", 2);
    assert_eq!(
        stepper.step("s", 0, &only).unwrap().received,
        [(x, 0), (x, 1)]
    );
    assert_eq!(
        lags(&stepper),
        [(x, (2, 2)), (y, (0, 4))].into(),
        "the marker is not passed yet"
    );
    // The position alone moves.
    let advance = ALL.at_most("x", 0).without("y");
    let step = stepper.step("s", 0, &advance).unwrap();
    assert!(step.committed && step.received.is_empty());
    assert_eq!(step.positions[&x], 3);
    assert!(!stepper.step("s", 0, &advance).unwrap().committed);
    // Two records, and the marker behind them.
    let step = stepper
        .step("s", 0, &Reads::nothing().with("y").at_most("y", 2))
        .unwrap();
    assert_eq!(step.received, [(y, 0), (y, 1)]);
    assert_eq!(step.positions, [(x, 3), (y, 3)].into());
    let step = stepper.step("s", 0, &ALL).unwrap();
    assert_eq!(step.received.len(), 2);
    assert_eq!(lags(&stepper), [(x, (4, 0)), (y, (4, 0))].into());
    // The host's own limit holds as well.
    send_numbers(&host, "x", 0..3);
    let narrow = builder()
        .fetch_records_max(1)
        .over(host.log().clone())
        .build()
        .unwrap();
    drop(stepper);
    let mut stepper = opened(&narrow, &pair());
    let step = stepper.step("s", 0, &ALL.at_most("x", 2)).unwrap();
    assert_eq!(step.received, [(x, 4)]);
}

#[test]
fn a_full_step_goes_on_before_anything_is_read() {
    let host = pair_host(builder().max_step_deliveries(2));
    send_numbers(&host, "x", 0..3);
    let mut stepper = opened(&host, &pair());
    let step = stepper.step("s", 0, &ALL).unwrap();
    assert_eq!((step.received.len(), delivered(&step).len()), (3, 2));
    assert!(step.is_full);
    send_numbers(&host, "x", 3..4);
    assert!(stepper.has_news("s", 0).unwrap());
    let step = stepper.step("s", 0, &ALL).unwrap();
    assert_eq!(
        (&*step.received, delivered(&step)),
        (&[][..], vec![("x", 2)])
    );
    assert!(!step.is_full);
    let step = stepper.step("s", 0, &ALL).unwrap();
    assert_eq!(delivered(&step), [("x", 3)]);
}

#[test]
fn a_check_truncates_once_what_it_rests_on_is_old_enough() {
    let now = Arc::new(AtomicI64::new(1_000));
    let time = TimeSource::from_fn({
        let now = Arc::clone(&now);
        move || now.load(Ordering::SeqCst)
    });
    let host = pair_host(
        builder()
            .truncation_delay(Duration::from_millis(100))
            .time(time),
    );
    create(&host, 1, &["aside"]);
    let aside = channel(&host, "aside", 0);
    send_numbers(&host, "aside", 0..3);
    let mut clock = Clock::new();
    clock.claim_offset(aside, 2);
    host.producer()
        .send(claiming("x", "names it", &clock))
        .unwrap();
    let mut stepper = opened(&host, &pair());
    stepper.step("s", 0, &ALL).unwrap();
    host.log().delete_records(aside, 3).unwrap();
    let stamped = |stepper: &mut Stepper| {
        send(&host, "y", "k", "v");
        stepper.step("s", 0, &ALL).unwrap();
        let last = records(&host, "out").pop().unwrap();
        clock_of(&last).offset(aside)
    };
    now.store(1_100, Ordering::SeqCst);
    assert!(stepper.check("s", 0).unwrap());
    assert_eq!(
        stamped(&mut stepper),
        Some(2),
        "it rested on what the first step had learned"
    );
    assert!(!stepper.check("s", 0).unwrap());
    now.store(1_199, Ordering::SeqCst);
    assert!(!stepper.check("s", 0).unwrap());
    assert_eq!(stamped(&mut stepper), Some(2));
    now.store(1_200, Ordering::SeqCst);
    assert!(stepper.check("s", 0).unwrap());
    assert_eq!(stamped(&mut stepper), None);
}

#[test]
fn an_input_that_joins_is_reported_with_its_seed() {
    let (orders, parcels, log) = (text("orders"), text("parcels"), text("log"));
    let of = |inputs: &[&Text]| {
        App::named("shop")
            .stage(copying("audit", inputs, &log))
            .build()
            .unwrap()
    };
    let host = shop_host(builder());
    let at = channel(&host, "orders", 0);
    send_numbers(&host, "orders", 0..6);
    let mut clock = Clock::new();
    clock.claim_offset(at, 3);
    host.producer()
        .send(claiming("parcels", "effect", &clock))
        .unwrap();
    let mut stepper = opened(&host, &of(&[&parcels]));
    stepper.step("audit", 0, &ALL).unwrap();
    drop(stepper);
    let mut stepper = host.step_by_step(of(&[&orders, &parcels])).unwrap();
    let opening = stepper.open("audit", 0).unwrap();
    assert_eq!(opening.joined.len(), 1);
    let joined = &opening.joined[0];
    assert_eq!(
        (&*joined.topic, joined.channel, joined.seed, joined.position),
        ("orders", at, Some(3), 4)
    );
    assert_eq!(opening.positions[&at], 4);
    let step = stepper.step("audit", 0, &ALL).unwrap();
    assert_eq!(delivered(&step), [("orders", 4), ("orders", 5)]);
}

#[test]
fn the_tasks_of_a_stage_read_a_partition_each() {
    let host = builder().build().unwrap();
    create(&host, 2, &["x", "y", "out"]);
    let mut stepper = opened(&host, &pair());
    assert!(stepper.tasks().eq([("s", 0), ("s", 1)]));
    let record = NewRecord::to("x").key("k").value("v").partition(1);
    host.producer().send(record).unwrap();
    assert!(!stepper.step("s", 0, &ALL).unwrap().committed);
    let step = stepper.step("s", 1, &ALL).unwrap();
    assert_eq!(step.received, [(channel(&host, "x", 1), 0)]);
}
