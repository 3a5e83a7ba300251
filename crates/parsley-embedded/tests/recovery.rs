//! Restarts, failures of the application, and declarations that change.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parsley_core::RefusalCode;
use parsley_embedded::{Backoff, Host, StartError, TaskState, Waited};
use parsley_stage::{App, Stage};
use support::*;

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

/// Copies `a` to `b`, and asks `judge` about each value first.
fn judged(judge: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static) -> App {
    let (a, b) = (text("a"), text("b"));
    let stage = Stage::stateless("judged")
        .on(&a, {
            let b = b.clone();
            move |message, out| {
                judge(&message.value)?;
                out.send(&b, &message.key, &message.value)
            }
        })
        .sink(&b)
        .build()
        .unwrap();
    App::named("app").stage(stage).build().unwrap()
}

fn host_with(builder: parsley_embedded::HostBuilder, topics: &[&str]) -> Host {
    let host = builder.build().unwrap();
    create(&host, 1, topics);
    host
}

#[test]
fn restarts_neither_lose_nor_repeat() {
    let app = judged(|_| Ok(()));
    let host = host_with(builder().max_step_deliveries(3), &["a", "b"]);
    for round in 0..10 {
        send_numbers(&host, "a", round * 10..round * 10 + 7);
        let running = host.start(&app).unwrap();
        send_numbers(&host, "a", round * 10 + 7..round * 10 + 10);
        // Half of the rounds are stopped wherever they are.
        if round % 2 == 0 {
            assert_eq!(running.wait_until_idle(), Waited::Reached);
        }
        drop(running);
    }
    let running = host.start(&app).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(values(host.log(), "b"), numbers(0..100));
}

#[test]
fn held_records_are_held_over_a_restart_and_released_once() {
    let (orders, parcels, log) = (text("orders"), text("parcels"), text("log"));
    let app = App::named("shop")
        .stage(copying("ship", &[&orders], &parcels))
        .stage(copying("audit", &[&orders, &parcels], &log))
        .build()
        .unwrap();
    let late = host_with(
        builder().delay("audit", "orders", u64::MAX),
        &["orders", "parcels", "log"],
    );
    send_numbers(&late, "orders", 0..20);
    for _ in 0..2 {
        let running = late.start(&app).unwrap();
        assert_eq!(running.wait(|status| status.held() == 20), Waited::Reached);
        let status = running.stop().unwrap();
        assert_eq!(status.task("audit", 0).unwrap().delivered, 0);
    }
    let trace = Trace::default();
    let host = trace
        .observe(builder().over(late.log().clone()))
        .build()
        .unwrap();
    let running = host.start(&app).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    trace.assert_causal();
    assert_eq!(trace.order("audit", 0).len(), 40);
    let written = sorted(values(host.log(), "log"));
    let expected = (0..20).flat_map(|number| {
        [
            format!("audit(orders:{number})"),
            format!("audit(parcels:ship(orders:{number}))"),
        ]
    });
    assert_eq!(written, sorted(expected.collect()));
    let deliveries = trace.deliveries.lock().unwrap();
    let restored = deliveries
        .iter()
        .filter(|delivery| delivery.arrival.is_none());
    assert_eq!(
        restored.filter(|delivery| delivery.was_held).count(),
        20,
        "received by an earlier execution"
    );
}

#[test]
fn logic_that_fails_is_tried_again_and_nothing_is_doubled() {
    let failures = Arc::new(AtomicU32::new(0));
    let app = judged({
        let failures = Arc::clone(&failures);
        move |value| match value {
            "5" if failures.fetch_add(1, Ordering::SeqCst) < 3 => Err("five is refused".to_owned()),
            _ => Ok(()),
        }
    });
    let host = host_with(builder(), &["a", "b"]);
    send_numbers(&host, "a", 0..10);
    let running = host.start(&app).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(values(host.log(), "b"), numbers(0..10));
    assert_eq!(failures.load(Ordering::SeqCst), 4);
    let status = running.status();
    let task = status.task("judged", 0).unwrap();
    assert_eq!(
        (task.failed_steps, task.delivered, &task.state),
        (3, 10, &TaskState::Running)
    );
    // Three times five records and a marker were withdrawn, then ten and a marker committed.
    let b = channel(&host, "b", 0);
    assert_eq!(host.log().high_watermark(b), Some(3 * 6 + 11));
    let last = host
        .consumer("b")
        .unwrap()
        .read_to_end()
        .unwrap()
        .pop()
        .unwrap();
    assert_eq!(last.offset, 3 * 6 + 9);
    let sequences: Vec<i64> = host
        .consumer("b")
        .unwrap()
        .read_to_end()
        .unwrap()
        .iter()
        .map(|record| {
            let header = record
                .headers
                .iter()
                .find(|header| header.name == "vc-seq")
                .unwrap();
            i64::from_be_bytes(header.value.as_deref().unwrap().try_into().unwrap())
        })
        .collect();
    assert_eq!(
        sequences,
        (0..10).collect::<Vec<_>>(),
        "the withdrawn steps gave their numbers back"
    );
}

/// B19: logic that fails in the middle of what one record released.
#[test]
fn b19_a_cascade_that_fails_in_its_middle_comes_back_whole() {
    let (x, y, out) = (text("x"), text("y"), text("out"));
    let failed = AtomicBool::new(false);
    let stage = Stage::stateless("s")
        .on(&x, {
            let out = out.clone();
            move |message, outbox| outbox.send(&out, &message.key, &message.value)
        })
        .on(&y, {
            let out = out.clone();
            move |message, outbox| {
                if message.value == "2" && !failed.swap(true, Ordering::SeqCst) {
                    return Err("once".into());
                }
                outbox.send(&out, &message.key, &message.value)
            }
        })
        .sink(&out)
        .build()
        .unwrap();
    let app = App::named("app").stage(stage).build().unwrap();
    let trace = Trace::default();
    let host = host_with(trace.observe(builder()), &["x", "y", "out"]);
    let running = host.start(&app).unwrap();
    let mut clock = parsley_core::Clock::new();
    clock.claim_offset(channel(&host, "x", 0), 0);
    for number in 0..5 {
        host.producer()
            .send(claiming("y", &number.to_string(), &clock))
            .unwrap();
    }
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(running.status().held(), 5);
    send(&host, "x", "k", "cause");
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(
        values(host.log(), "out"),
        ["cause", "0", "1", "2", "3", "4"]
    );
    let order = trace.order("s", 0);
    assert_eq!(order.len(), 6, "a step that is given up is not reported");
    assert_eq!(order[0].0, "x");
    assert_eq!(running.status().tasks[0].failed_steps, 1);
    assert_eq!(
        (running.status().held(), running.status().tasks[0].delivered),
        (0, 6)
    );
}

#[test]
fn a_withdrawn_run_behind_a_claim_holds_nobody_up() {
    // The first attempt leaves withdrawn runs on both sinks. The second claims their ends, which are markers; `join` gets past them.
    let (a, s, t, end) = (text("a"), text("s"), text("t"), text("end"));
    let failed = AtomicBool::new(false);
    let fork = Stage::stateless("fork")
        .on(&a, {
            let (s, t) = (s.clone(), t.clone());
            move |message, out| {
                if message.value == "1" && !failed.swap(true, Ordering::SeqCst) {
                    return Err("once".into());
                }
                out.send(&s, &message.key, &message.value)?;
                out.send(&t, &message.key, &message.value)
            }
        })
        .sink(&s)
        .sink(&t)
        .build()
        .unwrap();
    let app = App::named("app")
        .stage(fork)
        .stage(copying("join", &[&s, &t], &end))
        .build()
        .unwrap();
    let trace = Trace::default();
    let host = host_with(trace.observe(builder()), &["a", "s", "t", "end"]);
    send_numbers(&host, "a", 0..2);
    let running = host.start(&app).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(running.status().held(), 0);
    assert_eq!(values(host.log(), "end").len(), 4);
    let (on_s, first) = (
        channel(&host, "s", 0),
        &host.consumer("s").unwrap().read_to_end().unwrap()[0],
    );
    assert!(first.offset > 0 && clock_of(first).offset(on_s) == Some(first.offset - 1));
    trace.assert_causal();
}

#[test]
fn the_status_shows_what_failed_while_it_fails() {
    let mended = Arc::new(AtomicBool::new(false));
    let app = judged({
        let mended = Arc::clone(&mended);
        move |value| {
            assert!(
                value != "1" || mended.load(Ordering::SeqCst),
                "number one is broken"
            );
            Ok(())
        }
    });
    let host = host_with(builder(), &["a", "b"]);
    send_numbers(&host, "a", 0..3);
    let running = host.start(&app).unwrap();
    let mut seen = None;
    let waited = running.wait(|status| match &status.tasks[0].state {
        TaskState::Retrying { message, attempt } if *attempt >= 3 => {
            seen = Some(message.clone());
            true
        }
        _ => false,
    });
    assert_eq!(waited, Waited::Reached);
    let message = seen.unwrap();
    assert!(message.contains("number one is broken"), "{message}");
    assert!(
        message.contains("stage judged") && message.contains("offset 1"),
        "{message}"
    );
    assert_eq!(
        values(host.log(), "b"),
        Vec::<String>::new(),
        "the step is not kept in part"
    );
    running.explain_holds();
    running.check_now();
    mended.store(true, Ordering::SeqCst);
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(running.status().tasks[0].state, TaskState::Running);
    assert_eq!(values(host.log(), "b"), numbers(0..3));
}

/// Who waited for idleness once waited for ever when logic failed for good, and saw nothing of it.
#[test]
fn a_wait_for_idleness_ends_when_logic_fails_and_fails() {
    let mended = Arc::new(AtomicBool::new(false));
    let app = judged({
        let mended = Arc::clone(&mended);
        move |_| match mended.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err("the book is closed".to_owned()),
        }
    });
    let host = host_with(builder(), &["a", "b"]);
    send_numbers(&host, "a", 0..1);
    let running = host.start(&app).unwrap();
    let error = running.wait_until_idle().reached().unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("judged/0 has failed") && message.contains("the book is closed"),
        "{message}"
    );
    mended.store(true, Ordering::SeqCst);
    assert_eq!(
        running.wait_until_idle(),
        Waited::Reached,
        "what failed before is not held against it"
    );
}

#[test]
fn a_stop_does_not_wait_for_the_next_attempt() {
    let app = judged(|_| Err("always".to_owned()));
    let hour = Duration::from_secs(3600);
    let host = host_with(
        builder().backoff(Backoff {
            first: hour,
            longest: hour,
        }),
        &["a", "b"],
    );
    send(&host, "a", "k", "0");
    let running = host.start(&app).unwrap();
    let retrying = |state: &TaskState| matches!(state, TaskState::Retrying { attempt: 1, .. });
    assert_eq!(
        running.wait(|status| retrying(&status.tasks[0].state)),
        Waited::Reached
    );
    running.explain_holds();
    running.check_now();
    let status = running.stop().unwrap();
    assert_eq!(
        (&status.tasks[0].state, status.delivered()),
        (&TaskState::Stopped, 0)
    );
    assert_eq!(running.wait_until_idle(), Waited::Over);
    assert_eq!(running.wait(|_| false), Waited::Over);
}

#[test]
fn a_failure_whose_record_is_gone_is_over() {
    let app = judged(|_| Err("always".to_owned()));
    let host = host_with(builder(), &["a", "b"]);
    send(&host, "a", "k", "0");
    let running = host.start(&app).unwrap();
    let retrying = |state: &TaskState| matches!(state, TaskState::Retrying { .. });
    assert_eq!(
        running.wait(|status| retrying(&status.tasks[0].state)),
        Waited::Reached
    );
    host.delete_topic("a").unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(running.status().tasks[0].state, TaskState::Running);
}

#[test]
fn a_record_too_large_for_the_log_fails_the_step_and_names_the_setting() {
    let (a, b) = (text("a"), text("b"));
    let growing = Stage::stateless("growing")
        .on(&a, {
            let b = b.clone();
            move |message, out| out.send(&b, &message.key, &message.value.repeat(1000))
        })
        .sink(&b)
        .build()
        .unwrap();
    let app = App::named("app").stage(growing).build().unwrap();
    let config = parsley_embedded::LogConfig::default().record_bytes_max(5000);
    let host = host_with(builder().log_config(config), &["a", "b"]);
    send(&host, "a", "k", "four");
    send(&host, "a", "k", "and six");
    let running = host.start(&app).unwrap();
    let mut message = String::new();
    let waited = running.wait(|status| match &status.tasks[0].state {
        TaskState::Retrying { message: found, .. } => {
            message.clone_from(found);
            true
        }
        _ => false,
    });
    assert_eq!(waited, Waited::Reached);
    assert!(
        message.contains("record_bytes_max, 5000") && message.contains("topic b"),
        "{message}"
    );
    assert_eq!(values(host.log(), "b"), Vec::<String>::new());
}

#[test]
fn an_observer_that_panics_fails_its_task_and_no_other() {
    let (a, b, c) = (text("a"), text("b"), text("c"));
    let app = App::named("app")
        .stage(copying("bad", &[&a], &b))
        .stage(copying("good", &[&a], &c))
        .build()
        .unwrap();
    let host = host_with(
        builder().on_delivery(|delivery| assert!(&*delivery.stage != "bad", "the observer broke")),
        &["a", "b", "c"],
    );
    send(&host, "a", "k", "0");
    let running = host.start(&app).unwrap();
    let done = running.wait(|status| {
        let failed = matches!(&status.tasks[0].state, TaskState::Failed { message } if message.contains("observer broke"));
        failed && status.tasks[1].delivered == 1
    });
    assert_eq!(done, Waited::Reached);
    assert_eq!(running.wait_until_idle(), Waited::Over);
    let error = running.stop().unwrap_err();
    assert!(error.to_string().contains("stage bad"), "{error}");
    assert_eq!(values(host.log(), "c").len(), 1);
    let again = builder().over(host.log().clone()).build().unwrap();
    let running = again.start(&app).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(
        values(host.log(), "b").len(),
        1,
        "the step was committed before it was observed"
    );
}

fn joining(inputs: &[&str]) -> App {
    let inputs: Vec<_> = inputs.iter().map(|name| text(name)).collect();
    let stage = copying("s", &inputs.iter().collect::<Vec<_>>(), &text("out"));
    App::named("app").stage(stage).build().unwrap()
}

/// Runs until nothing more can be done. Returns how many records came again.
fn run(host: &Host, app: &App) -> u64 {
    let running = host.start(app).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    let status = running.stop().unwrap();
    status.tasks.iter().map(|task| task.dropped).sum()
}

#[test]
fn an_input_that_leaves_and_joins_again_is_not_delivered_twice() {
    let host = host_with(builder(), &["x", "y", "out"]);
    send_numbers(&host, "x", 0..3);
    send_numbers(&host, "y", 0..3);
    run(&host, &joining(&["x", "y"]));
    send_numbers(&host, "x", 3..5);
    send_numbers(&host, "y", 3..5);
    run(&host, &joining(&["x"]));
    assert_eq!(values(host.log(), "out").len(), 8);
    send_numbers(&host, "y", 5..6);
    run(&host, &joining(&["x", "y"]));
    let expected = (0..5)
        .map(|n| format!("s(x:{n})"))
        .chain((0..6).map(|n| format!("s(y:{n})")));
    assert_eq!(
        sorted(values(host.log(), "out")),
        sorted(expected.collect())
    );
}

#[test]
fn an_added_input_is_read_from_where_the_delivered_past_ends() {
    let host = host_with(builder(), &["x", "y", "out"]);
    send_numbers(&host, "x", 0..4);
    let mut clock = parsley_core::Clock::new();
    clock.claim_offset(channel(&host, "x", 0), 1);
    host.producer()
        .send(claiming("y", "claims x up to 1", &clock))
        .unwrap();
    run(&host, &joining(&["y"]));
    let dropped = run(&host, &joining(&["x", "y"]));
    assert_eq!(dropped, 0, "what is skipped is not read");
    assert_eq!(
        values(host.log(), "out"),
        ["s(y:claims x up to 1)", "s(x:2)", "s(x:3)"]
    );
}

/// P12: the delivered past claims less than retention has taken.
#[test]
fn p12_an_added_input_is_read_from_its_log_start_when_that_is_higher() {
    let host = host_with(builder(), &["x", "y", "out"]);
    send_numbers(&host, "x", 0..12);
    let mut clock = parsley_core::Clock::new();
    clock.claim_offset(channel(&host, "x", 0), 5);
    host.producer()
        .send(claiming("y", "claims x up to 5", &clock))
        .unwrap();
    run(&host, &joining(&["y"]));
    host.log()
        .delete_records(channel(&host, "x", 0), 10)
        .unwrap();
    run(&host, &joining(&["x", "y"]));
    assert_eq!(
        values(host.log(), "out"),
        ["s(y:claims x up to 5)", "s(x:10)", "s(x:11)"]
    );
}

#[test]
fn g8_an_input_that_still_holds_records_cannot_be_removed() {
    let host = host_with(builder(), &["x", "y", "out"]);
    let mut clock = parsley_core::Clock::new();
    clock.claim_offset(channel(&host, "x", 0), 0);
    host.producer()
        .send(claiming("y", "waits", &clock))
        .unwrap();
    run(&host, &joining(&["x", "y"]));
    let running = host.start(joining(&["x"])).unwrap();
    let Waited::Refused(refused) = running.wait_until_idle() else {
        panic!("not refused")
    };
    assert_eq!(refused[0].refusal.code, RefusalCode::RemovedInputHeld);
    assert_eq!(refused[0].refusal.channel, Some(channel(&host, "y", 0)));
    running.stop().unwrap();
    send(&host, "x", "k", "0");
    run(&host, &joining(&["x", "y"]));
    assert_eq!(
        values(host.log(), "out"),
        ["s(x:0)", "s(y:waits)"],
        "the former declaration still works"
    );
}

#[test]
fn declarations_that_do_not_fit_the_log_are_refused_at_the_start() {
    let host = host_with(builder().delay("s", "nowhere", 1), &["x", "out"]);
    let app = joining(&["x", "y"]);
    let error = host.start(&app).unwrap_err();
    assert!(
        matches!(&error, StartError::Delay { topic, .. } if topic == "nowhere"),
        "{error}"
    );

    let host = host_with(builder(), &["x", "out"]);
    let error = host.start(&app).unwrap_err();
    assert!(
        matches!(&error, StartError::MissingTopics { topics } if topics == &["y"]),
        "{error}"
    );

    host.create_topic("y", 2).unwrap();
    let error = host.start(&app).unwrap_err();
    assert!(error.to_string().starts_with("co-partition: "), "{error}");
    let StartError::CoPartition { stage, partitions } = error else {
        panic!("{error}")
    };
    assert_eq!(
        (&*stage, partitions),
        ("s", BTreeMap::from([("x".into(), 1), ("y".into(), 2)]))
    );

    let app = joining(&["x"]);
    let running = host.start(&app).unwrap();
    let error = host.start(&app).unwrap_err();
    assert!(
        matches!(&error, StartError::AlreadyRunning { group } if group == "app-s"),
        "{error}"
    );
    running.stop().unwrap();
    run(&host, &app);
}

#[test]
fn g15_the_number_of_tasks_cannot_change() {
    let host = host_with(builder(), &["x", "out"]);
    run(&host, &joining(&["x"]));
    host.delete_topic("x").unwrap();
    host.create_topic("x", 2).unwrap();
    let error = host.start(joining(&["x"])).unwrap_err();
    let StartError::Refused { stage, refusal } = error else {
        panic!("{error}")
    };
    assert_eq!((&*stage, refusal.code), ("s", RefusalCode::TaskWidth));
    assert!(
        refusal.found.contains('2') && refusal.found.contains('1'),
        "{refusal}"
    );
    host.delete_topic("x").unwrap();
    host.create_topic("x", 1).unwrap();
    send(&host, "x", "k", "new");
    run(&host, &joining(&["x"]));
    assert_eq!(
        values(host.log(), "out"),
        ["s(x:new)"],
        "a topic created anew is an input that joins"
    );
}

#[test]
fn settings_of_zero_are_refused() {
    for (builder, setting) in [
        (builder().max_rounds(0), "max_rounds"),
        (builder().max_step_deliveries(0), "max_step_deliveries"),
        (builder().fetch_records_max(0), "fetch_records_max"),
        (builder().check_every_steps(0), "check_every_steps"),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!(error, parsley_embedded::HostError::Zero { setting });
    }
}

#[test]
fn a_record_whose_length_cannot_be_kept_cannot_be_allowed() {
    let config = parsley_embedded::LogConfig::default();
    let largest = parsley_embedded::RECORD_BYTES_MAX;
    let with = |bytes| builder().log_config(config.clone().record_bytes_max(bytes));
    assert!(with(largest).build().is_ok());
    let error = with(largest + 1).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "record_bytes_max is 2147483648, and can be 2147483647 at most"
    );
}
