//! What the host tells of itself: reports, metrics, warnings, events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parsley_core::{Header, RefusalCode, wire};
use parsley_kafka::{KafkaConfig, WorkerState};
use parsley_stage::meter::{self, Metric};
use parsley_stage::report::{HostKind, StateWord};
use parsley_stage::{App, Stage, Topic, codec};

use crate::joining::*;
use crate::telling::{Events, Metrics, forms_of};
use crate::world::*;

/// Events of the workers of these tests.
fn events() -> &'static Events {
    Events::installed(&["told"])
}

fn warning_soon(dir: &tempfile::TempDir) -> KafkaConfig {
    config(dir).hold_warning_after(Duration::from_millis(1))
}

/// The name of a metric of the only task of a stage.
fn of(metric: Metric, application: &str, stage: &str, more: &str) -> String {
    let Metric { name, labels, .. } = metric;
    let task = match labels.contains(&"task") {
        true => ",task=\"0\"",
        false => "",
    };
    format!("{name}{{application=\"{application}\",stage=\"{stage}\"{task}{more}}}")
}

#[test]
fn a_hold_is_reported_measured_and_warned_of_before_and_after_its_state_is_read_back() {
    let (metrics, events) = (Metrics::installed(), events());
    let name = "told-held";
    let [a, b, _] = joining_topics(name);
    let plain = Foreign::plain();
    let cause = channel(&b, 0);
    let dir = tempfile::tempdir().unwrap();
    let running = start(warning_soon(&dir), &joining(name));
    plain.append(&a, To::Key, &[("k", "first")]);
    plain.append_with(&a, To::Key, ("k", "effect"), &stamp(&[(cause, 0)], 0));
    let is_shown = || {
        running
            .explain_holds()
            .holds
            .iter()
            .any(|hold| hold.age_ms > 0)
    };
    wait_until("held, and shown", is_shown);
    let holds = running.explain_holds().holds;
    assert_eq!(
        (holds.len(), &*holds[0].stage, holds[0].offset),
        (1, "join", 1)
    );
    assert_eq!(holds[0].missing[0].to_string(), format!("{b}:0@0"));
    let report = running.report();
    assert_eq!((report.host, &*report.application), (HostKind::Kafka, name));
    assert_eq!(report.workers[0].state, StateWord::Running);
    let [task] = &report.tasks[..] else {
        panic!("{report:#?}");
    };
    assert_eq!(
        (task.state, task.held, task.delivered),
        (StateWord::Running, 1, 1)
    );
    let input = task.inputs.iter().find(|input| input.topic == a).unwrap();
    assert_eq!((input.held, input.position, input.lag), (1, 2, 0));
    assert!(input.oldest_hold_ms > Some(0), "{input:?}");
    let held = of(meter::HELD, name, "join", &format!(",input=\"{a}\""));
    let oldest = of(meter::OLDEST_HOLD, name, "join", &format!(",input=\"{a}\""));
    assert_eq!(metrics.gauge(&held), 1.0);
    assert!(metrics.gauge(&oldest) > 0.0);
    let delivered = of(meter::DELIVERED, name, "join", "");
    assert_eq!(metrics.counter(&delivered), 1);
    assert_eq!(metrics.counter(&of(meter::RECEIVED, name, "join", "")), 2);
    assert!(
        !metrics
            .histogram(&of(meter::STEP_SECONDS, name, "join", ""))
            .is_empty()
    );
    assert!(metrics.gauge(&of(meter::STAMP_ENTRIES, name, "join", ",kind=\"offset\"")) >= 2.0);
    let warned = || events.with(&["WARN", "parsley::hold", "code=vc-hold-not-fetched", name]);
    assert_eq!(warned().len(), 1, "{:?}", warned());
    stop(&running);
    assert_eq!(running.report().tasks.len(), 1);
    assert_eq!(running.report().tasks[0].state, StateWord::Stopped);
    drop(running);

    // On another machine.
    let dir = tempfile::tempdir().unwrap();
    let running = start(warning_soon(&dir), &joining(name));
    wait_until_held(&running, 1);
    assert!(metrics.gauge(&of(meter::RESTORED, name, "join", "")) > 0.0);
    assert_eq!(
        metrics.gauge(&of(meter::RESTORE_LEFT, name, "join", "")),
        0.0
    );
    wait_until("warned of again, by another process", || {
        warned().len() == 2
    });
    plain.append(&b, To::Key, &[("k", "cause")]);
    wait_for_deliveries(&running, 2);
    wait_until("not held", || metrics.gauge(&held) == 0.0);
    assert_eq!(metrics.counter(&delivered), 3);
    let told = events.with(&["DEBUG", "parsley::delivery", "was_held=true", &a]);
    assert_eq!(told.len(), 1, "{told:?}");
    stop(&running);
}

/// Nothing that a record says is in any event, whatever becomes of it; and what stops a step is counted.
#[test]
fn no_event_says_what_a_record_says_and_failures_are_counted() {
    let (metrics, events) = (Metrics::installed(), events());
    let name = "told-planted";
    let planted = |what: &str| format!("planted/{what}\"ü~payload");
    let (texts, out) = (
        text_topic("told-planted-in"),
        text_topic("told-planted-out"),
    );
    create_topic(texts.name(), 1);
    create_topic_with(out.name(), 1, &[("max.message.bytes", "1000")]);
    let is_mended = Arc::new(AtomicBool::new(false));
    let judge = Stage::stateless("judge")
        .sink(&out)
        .on(&texts, {
            let (is_mended, out) = (Arc::clone(&is_mended), out.clone());
            move |message, sends| {
                let send = sends.to(&out).headers(&message.headers);
                send.send(&message.key, &message.value)?;
                if is_mended.load(Ordering::SeqCst) {
                    return Ok(());
                }
                match message.value.contains("panic") {
                    true => panic!("{} {:?}", message.value, message.key),
                    false => Err(format!("{} of {:?}", message.value, message.headers).into()),
                }
            }
        })
        .build()
        .unwrap();
    let numbers: Topic<String, u64> =
        Topic::new("told-planted-numbers", codec::string(), codec::json());
    create_topic(numbers.name(), 1);
    let count = Stage::stateless("count")
        .on(&numbers, |_, _| Ok(()))
        .build()
        .unwrap();
    let app = App::named(name).stage(judge).stage(count).build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut config = warning_soon(&dir);
    config.backoff_longest = Duration::from_millis(100);
    let running = start(config, &app);
    let plain = Foreign::plain();
    let send = |what: &str, headers: &[Header]| {
        let mut all = vec![Header::new("theirs", planted("header"))];
        all.extend_from_slice(headers);
        plain.send(texts.name(), To::Key, &planted("key"), what, &all);
        plain.flush();
    };
    let counted = |metric, more: &str| {
        let name = of(metric, name, "judge", more);
        match metrics.names(&name).is_empty() {
            true => 0,
            false => metrics.counter(&name),
        }
    };
    for what in ["panic", "error"] {
        is_mended.store(false, Ordering::SeqCst);
        let (failed, delivered) = (
            counted(meter::FAILED_STEPS, ""),
            running.status().delivered(),
        );
        send(&planted(what), &[]);
        wait_until("failures", || {
            counted(meter::FAILED_STEPS, "") >= failed + 2
        });
        is_mended.store(true, Ordering::SeqCst);
        wait_for_deliveries(&running, delivered + 1);
    }
    assert_eq!(counted(meter::COMMIT_FAILURES, ""), 0);
    // What the sink does not take.
    let large = planted("large").repeat(100);
    send(&large, &[]);
    wait_until("a commit failure", || {
        counted(meter::COMMIT_FAILURES, "") > 0
    });
    assert!(running.report().tasks[0].failed_steps > 0);
    set_topic(out.name(), "max.message.bytes", "100000");
    wait_for_deliveries(&running, 3);
    // What cannot be decoded: the JSON codec quotes what it finds, here a text where a number is to be, and the status has its words.
    let quoted = format!("{:?}", planted("quoted"));
    plain.append(numbers.name(), To::Key, &[(&planted("key"), &quoted)]);
    wait_for(&running, "what it found", |status| {
        status.workers.iter().any(|worker| {
            let state = &worker.state;
            matches!(state, WorkerState::Retrying { message, attempt } if *attempt >= 2 && message.contains("planted/quoted"))
        })
    });
    send(
        &planted("refused"),
        &[Header::new(wire::CLOCK_HEADER, planted("clock"))],
    );
    assert_eq!(wait_for_refusal(&running).0, "vc-corrupt-clock");
    assert_eq!(counted(meter::REFUSALS, ",code=\"vc-corrupt-clock\""), 1);
    let report = &running.report().tasks[0];
    let expected = (StateWord::Refused, Some(RefusalCode::CorruptClock));
    assert_eq!((report.state, report.refusal), expected);
    let status = running.status();
    let refusals: Vec<String> = status
        .refused()
        .iter()
        .map(|(.., refusal)| format!("{refusal} {refusal:?}"))
        .collect();
    running.stop();
    let all = format!("{}\n{}", events.all(), refusals.join("\n"));
    for part in [
        "panic failure",
        "decode failure",
        "logic failure",
        "vc-corrupt-clock",
        "parsley::delivery",
    ] {
        assert!(all.contains(part), "{part} was told of");
    }
    for what in [
        "key", "panic", "error", "large", "quoted", "refused", "header", "clock",
    ] {
        for form in forms_of(&planted(what)) {
            let found = all.lines().find(|line| line.contains(&form));
            assert_eq!(found, None, "{form}");
        }
    }
}
