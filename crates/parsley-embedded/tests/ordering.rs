//! Applications from start to end: what is delivered, in which order, and what waits.

mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parsley_core::{Clock, HoldCode, Wait};
use parsley_embedded::{Host, NewRecord, Running, TaskState, Waited};
use parsley_stage::report::{HoldReport, Holds};
use parsley_stage::{App, Initial, Stage, Topic, codec};
use support::*;

/// `orders → ship → parcels`, and `audit` sees orders and parcels.
fn shop() -> App {
    let (orders, parcels, log) = (text("orders"), text("parcels"), text("log"));
    App::named("shop")
        .stage(copying("ship", &[&orders], &parcels))
        .stage(copying("audit", &[&orders, &parcels], &log))
        .build()
        .unwrap()
}

fn shop_host(builder: parsley_embedded::HostBuilder, partitions: i32) -> Host {
    let host = builder.build().unwrap();
    create(&host, partitions, &["orders", "parcels", "log"]);
    host
}

fn delivered(running: &Running, stage: &str, partition: i32) -> u64 {
    running
        .status()
        .task(stage, partition)
        .expect("a task")
        .delivered
}

#[test]
fn effects_wait_for_causes_that_come_late() {
    let trace = Trace::default();
    let host = shop_host(trace.observe(builder().delay("audit", "orders", 1000)), 1);
    send_numbers(&host, "orders", 0..20);
    let running = host.start(shop()).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);

    let order = trace.order("audit", 0);
    assert_eq!(order.len(), 40);
    trace.assert_causal();
    let holds = trace.holds.lock().unwrap();
    assert_eq!(
        holds.len(),
        20,
        "no order can be fetched before every parcel is"
    );
    let orders = channel(&host, "orders", 0);
    for hold in holds.iter() {
        assert_eq!(
            (&*hold.stage, &*hold.topic, hold.head),
            ("audit", "parcels", 0)
        );
        let Wait::Offset {
            claim,
            settled,
            code,
        } = hold.waits[0].wait
        else {
            panic!("{hold:?}")
        };
        assert_eq!((&*hold.waits[0].topic, claim.channel), ("orders", orders));
        assert_eq!((settled, code), (None, HoldCode::NotFetched));
    }
    let deliveries = trace.deliveries.lock().unwrap();
    let held = deliveries
        .iter()
        .filter(|delivery| delivery.was_held)
        .count();
    assert_eq!(held, 20);
    let first_order = deliveries
        .iter()
        .find(|delivery| &*delivery.stage == "audit")
        .unwrap();
    assert_eq!(
        (&*first_order.topic, first_order.arrival),
        ("orders", Some(20)),
        "it arrived behind every parcel"
    );
    assert_eq!(first_order.key.as_deref(), Some(b"key-0".as_slice()));
    drop(deliveries);
    let status = running.stop().unwrap();
    assert_eq!((status.delivered(), status.held()), (60, 0));
    assert!(
        status
            .tasks
            .iter()
            .all(|task| task.state == TaskState::Stopped)
    );
}

/// A hold went unreported, or was reported with a later step's, when a full step took the last record that could be delivered.
#[test]
fn a_full_step_that_leaves_nothing_to_deliver_reports_what_is_held() {
    let (free, blocked, out) = (text("free"), text("blocked"), text("out"));
    let app = App::named("app")
        .stage(copying("s", &[&free, &blocked], &out))
        .build()
        .unwrap();
    let trace = Trace::default();
    let host = trace
        .observe(builder().max_step_deliveries(1))
        .build()
        .unwrap();
    create(&host, 1, &["free", "blocked", "out"]);
    send(&host, "free", "k", "0");
    let mut clock = Clock::new();
    clock.claim_offset(channel(&host, "free", 0), 1);
    host.producer()
        .send(claiming("blocked", "waits", &clock))
        .unwrap();
    let running = host.start(app).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    let status = running.stop().unwrap();
    assert_eq!((status.delivered(), status.held()), (1, 1));
    let holds = trace.holds.lock().unwrap();
    let reported: Vec<_> = holds
        .iter()
        .map(|hold| (&*hold.topic, hold.offset))
        .collect();
    assert_eq!(reported, [("blocked", 0)]);
}

#[test]
fn a_wait_for_idleness_covers_what_is_sent_before_it() {
    let trace = Trace::default();
    let host = shop_host(trace.observe(builder().delay("audit", "orders", 3)), 1);
    let running = host.start(shop()).unwrap();
    for round in 0..50 {
        send(&host, "orders", "k", &round.to_string());
        assert_eq!(running.wait_until_idle(), Waited::Reached);
        assert_eq!(delivered(&running, "audit", 0), 2 * (round + 1));
        assert_eq!(values(host.log(), "log").len() as u64, 2 * (round + 1));
    }
    trace.assert_causal();
    for task in running.status().tasks {
        assert!(task.inputs.iter().all(|input| input.lag == 0), "{task:?}");
    }
}

#[test]
fn every_partition_is_a_task_of_its_own() {
    let trace = Trace::default();
    let host = shop_host(trace.observe(builder().delay("audit", "orders", 100)), 3);
    let running = host.start(shop()).unwrap();
    send_numbers(&host, "orders", 0..60);
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    trace.assert_causal();
    let counts: Vec<u64> = (0..3)
        .map(|partition| delivered(&running, "ship", partition))
        .collect();
    assert_eq!(counts.iter().sum::<u64>(), 60);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    for (partition, count) in counts.iter().enumerate() {
        assert_eq!(
            delivered(&running, "audit", partition as i32),
            2 * count,
            "keys stay on their partition"
        );
    }
    assert_eq!(values(host.log(), "log").len(), 120);
}

#[test]
fn two_stages_read_one_topic_each_at_its_own_pace() {
    let (a, left, right) = (text("a"), text("left"), text("right"));
    let app = App::named("fan")
        .stage(copying("l", &[&a], &left))
        .stage(copying("r", &[&a], &right))
        .build()
        .unwrap();
    let host = builder().delay("r", "a", 500).build().unwrap();
    create(&host, 1, &["a", "left", "right"]);
    send_numbers(&host, "a", 0..10);
    let running = host.start(&app).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(values(host.log(), "left").len(), 10);
    assert_eq!(values(host.log(), "right").len(), 10);
    assert_ne!(host.log().committed_positions("fan-l"), Default::default());
    assert_eq!(
        host.log().committed_positions("fan-l"),
        host.log().committed_positions("fan-r")
    );
}

#[test]
fn a_backlog_larger_than_a_step_is_delivered_in_many_steps() {
    let trace = Trace::default();
    let host = shop_host(
        trace.observe(
            builder()
                .max_step_deliveries(10)
                .fetch_records_max(7)
                .delay("audit", "orders", 50),
        ),
        1,
    );
    send_numbers(&host, "orders", 0..500);
    let running = host.start(shop()).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    trace.assert_causal();
    let status = running.stop().unwrap();
    assert_eq!(status.task("audit", 0).unwrap().delivered, 1000);
    assert!(status.task("audit", 0).unwrap().steps >= 100);
    let holds = trace.holds.lock().unwrap();
    assert!(
        holds.iter().all(|hold| !hold.waits.is_empty()),
        "what only stands behind the end of a step is not held"
    );
    let shipped: Vec<String> = (0..500)
        .map(|number| format!("ship(orders:{number})"))
        .collect();
    assert_eq!(
        values(host.log(), "parcels"),
        shipped,
        "in the order of the input"
    );
}

#[test]
fn sends_of_one_delivery_claim_each_other_by_the_offsets_they_got() {
    let (a, s, t) = (text("a"), text("s"), text("t"));
    let alternating = Stage::stateless("alternating")
        .on(&a, {
            let (s, t) = (s.clone(), t.clone());
            move |message, out| {
                for round in 0..10 {
                    let topic = if round % 2 == 0 { &s } else { &t };
                    out.send(topic, &message.key, &round.to_string())?;
                }
                Ok(())
            }
        })
        .sink(&s)
        .sink(&t)
        .build()
        .unwrap();
    let app = App::named("rounds").stage(alternating).build().unwrap();
    let host = builder().build().unwrap();
    create(&host, 1, &["a", "s", "t"]);
    send_numbers(&host, "a", 0..2);
    let running = host.start(&app).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(
        running.status().task("alternating", 0).unwrap().delivered,
        2
    );
    let (on_s, on_t) = (channel(&host, "s", 0), channel(&host, "t", 0));
    let written = |topic| host.consumer(topic).unwrap().read_to_end().unwrap();
    let (s, t) = (written("s"), written("t"));
    assert_eq!((s.len(), t.len()), (10, 10));
    for index in 0..10 {
        let clock = clock_of(&t[index]);
        assert_eq!(
            clock.offset(on_s),
            Some(s[index].offset),
            "t's record {index} claims the one on s before it"
        );
        assert!(clock.sequences().is_empty());
        if index % 5 > 0 {
            assert_eq!(clock_of(&s[index]).offset(on_t), Some(t[index - 1].offset));
        }
    }
}

#[test]
fn what_comes_of_a_withheld_input_waits_for_it_and_a_stop_does_not() {
    let hour = Duration::from_secs(3600);
    let host = shop_host(builder().withhold("audit", "orders", hour), 2);
    send_numbers(&host, "orders", 0..20);
    let running = host.start(shop()).unwrap();
    let held = running.wait(|status| status.held() == 20);
    assert_eq!(held, Waited::Reached, "every parcel waits");
    let holds = running.explain_holds().holds;
    let missing: Vec<_> = holds.iter().flat_map(|hold| &hold.missing).collect();
    assert!(!missing.is_empty());
    assert!(
        missing
            .iter()
            .all(|missing| missing.place.topic == "orders")
    );
    running.stop().unwrap();

    // To idleness belongs what is withheld: all of it is over then.
    let trace = Trace::default();
    let moment = Duration::from_millis(200);
    let builder = builder().over(host.log().clone());
    let host = trace.observe(builder.withhold("audit", "orders", moment));
    let running = host.build().unwrap().start(shop()).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(running.status().held(), 0);
    assert_eq!(
        trace.order("audit", 0).len() + trace.order("audit", 1).len(),
        40
    );
    trace.assert_causal();
}

#[test]
fn a_first_start_at_the_end_sees_what_comes_after_it() {
    let (a, b) = (text("a"), text("b"));
    let late = Stage::stateless("late")
        .on(&a, {
            let b = b.clone();
            move |message, out| out.send(&b, &message.key, &message.value)
        })
        .sink(&b)
        .start_at(Initial::Latest)
        .build()
        .unwrap();
    let app = App::named("app").stage(late).build().unwrap();
    let host = builder().build().unwrap();
    create(&host, 1, &["a", "b"]);
    send_numbers(&host, "a", 0..3);
    let running = host.start(&app).unwrap();
    send_numbers(&host, "a", 3..5);
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    running.stop().unwrap();
    send_numbers(&host, "a", 5..7);
    let running = host.start(&app).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(
        values(host.log(), "b"),
        ["3", "4", "5", "6"],
        "the declared start holds for the first time alone"
    );
}

#[test]
fn state_by_key_is_kept_over_restarts() {
    let words = text("words");
    let counts: Topic<String, u64> = Topic::new("counts", codec::string(), codec::u64());
    let count = Stage::stateful("count", codec::string(), codec::u64())
        .on(&words, {
            let counts = counts.clone();
            move |seen, word, out| {
                *seen += 1;
                out.send(&counts, &word.key, seen)
            }
        })
        .sink(&counts)
        .build()
        .unwrap();
    let app = App::named("words").stage(count).build().unwrap();
    let host = builder().build().unwrap();
    create(&host, 2, &["words", "counts"]);
    for _ in 0..3 {
        let running = host.start(&app).unwrap();
        for word in ["sea", "sky", "sea"] {
            send(&host, "words", word, "");
        }
        assert_eq!(running.wait_until_idle(), Waited::Reached);
    }
    let mut last = std::collections::BTreeMap::new();
    for record in host.consumer("counts").unwrap().read_to_end().unwrap() {
        last.insert(
            record.key.clone(),
            counts.value().decode(record.value.as_ref()).unwrap(),
        );
    }
    assert_eq!(last.into_values().collect::<Vec<_>>(), [6, 3], "sea, sky");
}

#[test]
fn holds_are_explained_with_the_names_of_topics() {
    let host = shop_host(builder(), 1);
    let running = host.start(shop()).unwrap();
    let mut clock = Clock::new();
    clock.claim_offset(channel(&host, "orders", 0), 4);
    host.producer()
        .send(claiming("parcels", "early", &clock))
        .unwrap();
    host.producer()
        .send(claiming("parcels", "behind", &Clock::new()))
        .unwrap();
    assert_eq!(
        running.wait_until_idle(),
        Waited::Reached,
        "what waits for something unwritten is no work"
    );
    let explained = running.explain_holds();
    let audit: Vec<_> = explained.of_task("audit", 0).collect();
    assert_eq!((explained.holds.len(), audit.len()), (1, 1));
    assert_eq!(
        audit[0].to_string(),
        "parcels:0@0 (1 more behind it) waits for orders:0 up to 4, of which nothing is known (vc-hold-not-fetched)"
    );
    assert_eq!(audit[0].missing[0].to_string(), "orders:0@4");
    assert_eq!(running.status().held(), 2);
    running.stop().unwrap();
    let in_the_end = running.explain_holds();
    let holds = |holds: &Holds| -> Vec<_> { holds.holds.iter().map(HoldReport::to_hold).collect() };
    assert_eq!(
        holds(&in_the_end),
        holds(&explained),
        "a task that is over tells what it held in the end"
    );
}

#[test]
fn only_what_waits_is_reported_as_held() {
    let trace = Trace::default();
    let host = shop_host(trace.observe(builder()), 1);
    let mut clock = Clock::new();
    clock.claim_offset(channel(&host, "orders", 0), 4);
    let producer = host.producer();
    producer
        .send(claiming("parcels", "free", &Clock::new()))
        .unwrap();
    producer.send(claiming("parcels", "waits", &clock)).unwrap();
    producer
        .send(claiming("parcels", "behind", &Clock::new()))
        .unwrap();
    let running = host.start(shop()).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    let holds = trace.holds.lock().unwrap();
    let told: Vec<_> = holds
        .iter()
        .map(|hold| (hold.offset, hold.arrival, hold.head))
        .collect();
    assert_eq!(told, [(1, 1, 1), (2, 2, 1)]);
    assert_eq!(trace.order("audit", 0), [("parcels".to_owned(), 0)]);
}

#[test]
fn markers_and_withdrawn_runs_hold_nobody_up() {
    let host = shop_host(builder(), 1);
    let running = host.start(shop()).unwrap();
    let producer = host.producer();
    // orders: 0 committed, 1 its marker, 2 and 3 withdrawn, 4 their marker. Nothing more is ever written.
    let mut transaction = producer.begin();
    transaction
        .send(NewRecord::to("orders").key("k").value("only"))
        .unwrap();
    transaction.commit().unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    let mut transaction = producer.begin();
    transaction
        .send(NewRecord::to("orders").key("k").value("never"))
        .unwrap();
    transaction
        .send(NewRecord::to("orders").key("k").value("never"))
        .unwrap();
    let mut clock = Clock::new();
    clock.claim_offset(channel(&host, "orders", 0), 4);
    producer
        .send(claiming("parcels", "claims the last marker", &clock))
        .unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(running.status().held(), 1, "the transaction is open");
    transaction.abort();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(running.status().held(), 0);
    assert_eq!(delivered(&running, "audit", 0), 3);
}

/// P7: a record is named by its sender's sequence, and retention took it before the task ever read it.
#[test]
fn p7_watermarks_release_what_waits_for_a_record_that_never_comes() {
    let host = shop_host(builder(), 1);
    let orders = channel(&host, "orders", 0);
    send(&host, "orders", "k", "deleted");
    host.log().delete_records(orders, 1).unwrap();
    let mut clock = Clock::new();
    clock.claim_sequence(orders, parsley_core::SenderId::of_name("alice"), 0);
    host.producer()
        .send(claiming("parcels", "names it", &clock))
        .unwrap();
    let running = host.start(shop()).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(
        (delivered(&running, "audit", 0), running.status().held()),
        (1, 0)
    );
    // While the channel is written to, the evidence comes as well.
    host.producer()
        .send(claiming("parcels", "names it again", &clock))
        .unwrap();
    send_numbers(&host, "orders", 0..10);
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(
        (delivered(&running, "audit", 0), running.status().held()),
        (22, 0)
    );
}

/// The log need not change between two questions for watermarks: what is fed in between has to be asked for as well.
#[test]
fn watermarks_are_asked_for_again_when_only_the_task_has_moved() {
    let (x, y, w) = (text("x"), text("y"), text("w"));
    // Without a sink, so that its steps write nothing to the log.
    let mut watch = Stage::stateless("watch");
    for input in [&x, &y, &w] {
        watch = watch.on(input, |_, _| Ok(()));
    }
    let app = App::named("app")
        .stage(watch.build().unwrap())
        .build()
        .unwrap();
    let host = builder().fetch_records_max(1).build().unwrap();
    create(&host, 1, &["x", "y", "w"]);
    let x = channel(&host, "x", 0);
    send(&host, "x", "k", "deleted");
    host.log().delete_records(x, 1).unwrap();
    let by_sequence = |sender| {
        let mut clock = Clock::new();
        clock.claim_sequence(x, parsley_core::SenderId::of_name(sender), 0);
        clock
    };
    host.producer()
        .send(claiming("y", "early", &by_sequence("alice")))
        .unwrap();
    send_numbers(&host, "w", 0..50);
    host.producer()
        .send(claiming("w", "late", &by_sequence("bob")))
        .unwrap();
    let running = host.start(&app).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    let status = running.status();
    assert_eq!((status.delivered(), status.held()), (52, 0));
}

#[test]
fn a_stop_in_the_middle_ends_the_step_at_hand_and_loses_nothing() {
    let (a, b) = (text("a"), text("b"));
    let (entered, wait_entered) = mpsc::channel();
    let (go, wait_go) = mpsc::channel::<()>();
    let wait_go = std::sync::Mutex::new(wait_go);
    let runs = Arc::new(AtomicU64::new(0));
    let gated = Stage::stateless("gated")
        .on(&a, {
            let (b, runs) = (b.clone(), Arc::clone(&runs));
            move |message, out| {
                runs.fetch_add(1, Ordering::SeqCst);
                entered.send(()).unwrap();
                // Once the other end is dropped, the gate is open.
                let _ = wait_go.lock().unwrap().recv();
                out.send(&b, &message.key, &message.value)
            }
        })
        .sink(&b)
        .build()
        .unwrap();
    let app = App::named("app").stage(gated).build().unwrap();
    let host = builder().build().unwrap();
    create(&host, 1, &["a", "b"]);
    send_numbers(&host, "a", 0..10);
    let running = Arc::new(host.start(&app).unwrap());
    wait_entered.recv().unwrap();
    go.send(()).unwrap();
    wait_entered.recv().unwrap();
    let stopping = std::thread::spawn({
        let running = Arc::clone(&running);
        move || running.stop()
    });
    drop(go);
    let first = stopping.join().unwrap().unwrap().delivered();
    assert!((2..=10).contains(&first), "{first}");
    assert_eq!(
        values(host.log(), "b").len() as u64,
        first,
        "what was delivered is committed"
    );
    drop(running);
    let running = host.start(&app).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(running.stop().unwrap().delivered(), 10 - first);
    assert_eq!(runs.load(Ordering::SeqCst), 10, "nothing was done twice");
    assert_eq!(
        values(host.log(), "b"),
        (0..10).map(|number| number.to_string()).collect::<Vec<_>>()
    );
}
