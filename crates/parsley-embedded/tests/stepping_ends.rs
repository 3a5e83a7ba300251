//! Executions that end while tasks are driven step by step, and what is not begun at all.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parsley_core::{Clock, Header, RefusalCode};
use parsley_embedded::{NewRecord, Reads, StartError, StepError, StepReport, TaskEnd};
use parsley_stage::{App, FailureKind, Stage};
use support::stepping::*;
use support::*;

/// A crash in the middle of a step: logic that fails behind a delivery whose sends had been handed over (decision E2).
#[test]
fn a_step_that_fails_in_its_middle_is_given_up_and_made_again() {
    let (a, s, t) = (text("a"), text("s"), text("t"));
    let fails = Arc::new(AtomicBool::new(true));
    let fork = Stage::stateless("fork")
        .on(&a, {
            let (fails, s, t) = (Arc::clone(&fails), s.clone(), t.clone());
            move |message, out| {
                if message.value == "1" && fails.load(Ordering::SeqCst) {
                    return Err("the second is refused".into());
                }
                out.send(&s, &message.key, &message.value)?;
                out.send(&t, &message.key, &message.value)
            }
        })
        .sink(&s)
        .sink(&t)
        .build()
        .unwrap();
    let app = App::named("app").stage(fork).build().unwrap();
    let host = builder().build().unwrap();
    create(&host, 1, &["a", "s", "t"]);
    let (at_a, at_s, at_t) = (
        channel(&host, "a", 0),
        channel(&host, "s", 0),
        channel(&host, "t", 0),
    );
    send_numbers(&host, "a", 0..2);
    let mut stepper = opened(&host, &app);
    let committed = || {
        let log = host.log();
        (
            log.ordering_state("app-fork", 0).unwrap(),
            log.committed_positions("app-fork"),
        )
    };
    let before = committed();
    let (end, given_up) = ended(stepper.step("fork", 0, &ALL));
    let error = end.application().expect("the application's failure");
    assert_eq!(
        (error.kind, error.channel, error.offset),
        (FailureKind::Logic, at_a, 1)
    );
    assert!(end.refusal().is_none() && end.to_string().contains("the second is refused"));
    assert_eq!(given_up.received, [(at_a, 0), (at_a, 1)]);
    assert_eq!(delivered(&given_up), [("a", 0)]);
    assert_eq!(
        appended(&given_up),
        [("s", 0, 0)],
        "the round behind it was not handed over yet"
    );
    assert!(!given_up.committed && given_up.positions.is_empty());
    assert!(!stepper.is_open("fork", 0).unwrap());
    // The aborted run and its marker stand in the log; nothing else of the step does.
    assert_eq!(host.log().high_watermark(at_s), Some(2));
    assert_eq!(host.log().high_watermark(at_t), Some(0));
    assert_eq!(records(&host, "s"), []);
    assert_eq!(committed(), before);

    fails.store(false, Ordering::SeqCst);
    assert_eq!(stepper.open("fork", 0).unwrap().positions[&at_a], 0);
    let step = stepper.step("fork", 0, &ALL).unwrap();
    assert_eq!(delivered(&step), [("a", 0), ("a", 1)]);
    assert_eq!(
        appended(&step),
        [("s", 2, 0), ("s", 3, 0), ("t", 0, 1), ("t", 1, 1)],
        "round by round"
    );
    assert_eq!(values(host.log(), "t"), ["0", "1"]);
    let claimed: Vec<_> = records(&host, "t")
        .iter()
        .map(|record| clock_of(record).offset(at_s))
        .collect();
    assert_eq!(
        claimed,
        [Some(3), Some(3)],
        "a round is acknowledged with the last offset of it"
    );
}

#[test]
fn a_refusal_ends_the_execution_and_comes_again_until_its_cause_is_gone() {
    let host = pair_host(builder());
    let x = channel(&host, "x", 0);
    let mut stepper = opened(&host, &pair());
    host.producer()
        .send(NewRecord::to("x").headers([Header::new("vc", "no clock")]))
        .unwrap();
    for _ in 0..2 {
        let (end, given_up) = ended(stepper.step("s", 0, &ALL));
        let refusal = end.refusal().expect("a refusal");
        assert_eq!(
            (refusal.code, refusal.channel, refusal.offset),
            (RefusalCode::CorruptClock, Some(x), Some(0))
        );
        assert_eq!(given_up, StepReport::default());
        assert!(end.application().is_none());
        assert!(!stepper.is_open("s", 0).unwrap());
        stepper.open("s", 0).unwrap();
    }
    // The other input can be read meanwhile, and a check refuses what retention took (G10).
    send(&host, "y", "k", "good");
    let step = stepper.step("s", 0, &ALL.without("x")).unwrap();
    assert_eq!(delivered(&step), [("y", 0)]);
    host.log().delete_records(x, 1).unwrap();
    let (end, _) = ended(stepper.check("s", 0));
    assert_eq!(end.refusal().unwrap().code, RefusalCode::PositionsLost);
    let (end, _) = ended(stepper.open("s", 0));
    assert_eq!(end.refusal().unwrap().code, RefusalCode::PositionsLost);
    assert!(!stepper.is_open("s", 0).unwrap());
}

/// Without a check that was asked for: what the log has deleted is judged before anything is fed (decision E4).
#[test]
fn what_was_deleted_is_judged_before_a_step_reads() {
    let host = pair_host(builder());
    let mut stepper = opened(&host, &pair());
    let mut clock = Clock::new();
    clock.claim_offset(channel(&host, "x", 0), 7);
    host.producer()
        .send(claiming("y", "waits", &clock))
        .unwrap();
    stepper.step("s", 0, &ALL).unwrap();
    host.delete_topic("y").unwrap();
    assert!(stepper.has_news("s", 0).unwrap());
    let (end, _) = ended(stepper.step("s", 0, &Reads::nothing()));
    assert_eq!(end.refusal().unwrap().code, RefusalCode::DeletedInputHeld);
}

#[test]
fn a_send_that_cannot_be_appended_ends_the_execution() {
    let host = pair_host(builder());
    let mut stepper = opened(&host, &pair());
    send(&host, "x", "k", "1");
    host.delete_topic("out").unwrap();
    let (end, given_up) = ended(stepper.step("s", 0, &ALL));
    assert!(matches!(end, TaskEnd::Append(_)), "{end:?}");
    assert_eq!(delivered(&given_up), [("x", 0)]);
    assert_eq!(given_up.appended, []);
    let (end, _) = ended(stepper.open("s", 0));
    assert_eq!(end.refusal().unwrap().code, RefusalCode::MissingSink);
}

#[test]
fn an_opening_that_is_refused_leaves_nothing_open() {
    let host = pair_host(builder());
    let mut stepper = opened(&host, &pair());
    host.delete_topic("out").unwrap();
    let (end, given_up) = ended(stepper.open("s", 0));
    assert_eq!(end.refusal().unwrap().code, RefusalCode::MissingSink);
    assert_eq!(given_up, StepReport::default());
    assert!(!stepper.is_open("s", 0).unwrap());
}

#[test]
fn a_stage_runs_once_on_threads_or_in_steps() {
    let host = pair_host(builder());
    let taken = |result: Result<(), StartError>| {
        assert!(
            matches!(&result, Err(StartError::AlreadyRunning { group }) if group == "app-s"),
            "{result:?}"
        );
    };
    let stepper = host.step_by_step(pair()).unwrap();
    taken(host.step_by_step(pair()).map(drop));
    taken(host.start(pair()).map(drop));
    drop(stepper);
    let running = host.start(pair()).unwrap();
    taken(host.step_by_step(pair()).map(drop));
    running.stop().unwrap();
    let mut stepper = host.step_by_step(pair()).unwrap();
    drop(running);
    taken(host.start(pair()).map(drop));
    send(&host, "x", "k", "1");
    stepper.open("s", 0).unwrap();
    assert!(stepper.step("s", 0, &ALL).unwrap().committed);
}

#[test]
fn a_declaration_is_judged_as_at_a_start_and_a_failed_one_takes_nothing() {
    let host = builder().build().unwrap();
    create(&host, 1, &["x", "out"]);
    let missing = host.step_by_step(pair()).map(drop);
    assert!(
        matches!(&missing, Err(StartError::MissingTopics { topics }) if *topics == ["y"]),
        "{missing:?}"
    );
    create(&host, 2, &["y"]);
    let uneven = host.step_by_step(pair()).map(drop);
    assert!(
        matches!(uneven, Err(StartError::CoPartition { .. })),
        "{uneven:?}"
    );
    host.delete_topic("y").unwrap();
    create(&host, 1, &["y"]);
    drop(host.step_by_step(pair()).unwrap());
    let delayed = builder()
        .delay("s", "out", 1)
        .over(host.log().clone())
        .build()
        .unwrap();
    let misdirected = delayed.step_by_step(pair()).map(drop);
    assert!(
        matches!(misdirected, Err(StartError::Delay { .. })),
        "{misdirected:?}"
    );
    for topic in ["x", "y"] {
        host.delete_topic(topic).unwrap();
        create(&host, 2, &[topic]);
    }
    let wider = host.step_by_step(pair()).map(drop);
    assert!(
        matches!(&wider, Err(StartError::Refused { refusal, .. }) if refusal.code == RefusalCode::TaskWidth),
        "{wider:?}"
    );
}

#[test]
fn what_cannot_be_meant_is_told_apart_from_an_end() {
    let host = pair_host(builder());
    let mut stepper = host.step_by_step(pair()).unwrap();
    send(&host, "x", "k", "1");
    assert!(matches!(
        stepper.step("s", 0, &ALL),
        Err(StepError::NotOpen { .. })
    ));
    assert!(matches!(
        stepper.holds("s", 0),
        Err(StepError::NotOpen { .. })
    ));
    for (stage, partition) in [("t", 0), ("s", 1), ("s", -1)] {
        let error = stepper.open(stage, partition).unwrap_err();
        assert!(matches!(error, StepError::NoTask { .. }), "{error}");
        assert!(error.end().is_none());
        assert!(stepper.crash(stage, partition).is_err());
        assert!(stepper.is_open(stage, partition).is_err());
    }
    stepper.open("s", 0).unwrap();
    let error = stepper.step("s", 0, &ALL.at_most("out", 1)).unwrap_err();
    assert!(
        matches!(&error, StepError::NoInput { topic, .. } if topic == "out"),
        "{error}"
    );
    assert!(stepper.is_open("s", 0).unwrap());
    assert_eq!(delivered(&stepper.step("s", 0, &ALL).unwrap()), [("x", 0)]);
}

/// An observer is the host's own code, as far as a step is concerned: the step it is told of stands.
#[test]
fn a_panic_of_an_observer_goes_through_and_leaves_what_was_committed() {
    let host = pair_host(builder().on_delivery(|_| panic!("the observer is broken")));
    let mut stepper = opened(&host, &pair());
    send(&host, "x", "k", "1");
    let step = std::panic::AssertUnwindSafe(|| stepper.step("s", 0, &ALL).map(drop));
    assert!(std::panic::catch_unwind(step).is_err());
    assert!(!stepper.is_open("s", 0).unwrap());
    assert_eq!(records(&host, "out").len(), 1);
    let opening = stepper.open("s", 0).unwrap();
    assert_eq!(opening.positions[&channel(&host, "x", 0)], 1);
}
