//! Guards that a host runs into, and what it stops claiming.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parsley_core::{Clock, Header, Refusal, RefusalCode, SenderId};
use parsley_embedded::{
    Host, HostBuilder, NewRecord, Running, TaskState, TimeSource, TopicConfig, Waited,
};
use parsley_stage::{App, Stage};
use support::*;

/// `left` copies x and y to `out`; `right` copies z to `aside`.
fn app() -> App {
    App::named("app")
        .stage(copying("left", &[&text("x"), &text("y")], &text("out")))
        .stage(copying("right", &[&text("z")], &text("aside")))
        .build()
        .unwrap()
}

fn host_of(builder: HostBuilder) -> Host {
    let host = builder.build().unwrap();
    create(&host, 1, &["x", "y", "z", "out", "aside"]);
    host
}

/// The refusal of `left`, once the other stage has delivered `others` records.
fn refused(running: &Running, others: u64) -> Refusal {
    let mut refusal = None;
    let waited = running.wait(|status| {
        if let TaskState::Refused(found) = &status.task("left", 0).unwrap().state {
            refusal = Some(found.clone());
        }
        refusal.is_some() && status.task("right", 0).unwrap().delivered == others
    });
    assert_eq!(waited, Waited::Reached);
    assert!(
        matches!(running.wait_until_idle(), Waited::Refused(refused) if &*refused[0].stage == "left")
    );
    refusal.unwrap()
}

fn waiting_on_y(host: &Host) {
    let mut clock = Clock::new();
    clock.claim_offset(channel(host, "x", 0), 7);
    host.producer()
        .send(claiming("y", "waits", &clock))
        .unwrap();
}

#[test]
fn a_refusal_stops_its_task_alone_and_is_not_tried_again() {
    let host = host_of(builder());
    let running = host.start(app()).unwrap();
    send(&host, "x", "k", "good");
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    host.producer()
        .send(NewRecord::to("x").headers([Header::new("vc", "no clock")]))
        .unwrap();
    send(&host, "x", "k", "behind");
    send(&host, "z", "k", "elsewhere");
    let refusal = refused(&running, 1);
    assert_eq!(
        (refusal.code, refusal.channel, refusal.offset),
        (
            RefusalCode::CorruptClock,
            Some(channel(&host, "x", 0)),
            Some(1)
        )
    );
    assert!(!refusal.code.remedy().is_empty());
    running.check_now();
    let status = running.stop().unwrap();
    let left = status.task("left", 0).unwrap();
    assert_eq!((left.delivered, left.failed_steps), (1, 0));
    assert_eq!(values(host.log(), "out"), ["left(x:good)"]);
    let running = host.start(app()).unwrap();
    assert_eq!(
        self::refused(&running, 0),
        refusal,
        "nothing has changed, so it refuses again"
    );
}

#[test]
fn g10_retention_that_passes_a_reader_stops_it_at_the_start() {
    let host = host_of(builder());
    send_numbers(&host, "x", 0..3);
    let running = host.start(app()).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    running.stop().unwrap();
    send_numbers(&host, "x", 3..9);
    host.log()
        .delete_records(channel(&host, "x", 0), 5)
        .unwrap();
    let running = host.start(app()).unwrap();
    let refusal = refused(&running, 0);
    assert_eq!(
        (refusal.code, refusal.channel, refusal.offset),
        (
            RefusalCode::PositionsLost,
            Some(channel(&host, "x", 0)),
            Some(3)
        )
    );
}

#[test]
fn g10_retention_that_passes_a_reader_stops_it_while_it_runs() {
    // `left` sees the records of x and cannot fetch them.
    let host = host_of(builder().delay("left", "x", u64::MAX));
    let running = host.start(app()).unwrap();
    send_numbers(&host, "x", 0..3);
    send(&host, "y", "k", "0");
    assert_eq!(
        running.wait(|status| status.task("left", 0).unwrap().delivered == 1),
        Waited::Reached
    );
    // At the position itself nothing is lost.
    let x = channel(&host, "x", 0);
    host.log().delete_records(x, 0).unwrap();
    running.check_now();
    assert!(running.status().refused().is_empty());
    host.log().delete_records(x, 2).unwrap();
    let refusal = refused(&running, 0);
    assert_eq!(
        (refusal.code, refusal.channel),
        (RefusalCode::PositionsLost, Some(x))
    );
}

#[test]
fn g10_size_retention_that_passes_a_held_record_stops_its_holder() {
    let host = builder().build().unwrap();
    create(&host, 1, &["x", "z", "out", "aside"]);
    host.create_topic_with("y", TopicConfig::partitions(1).offsets_max(3))
        .unwrap();
    let running = host.start(app()).unwrap();
    waiting_on_y(&host);
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    send_numbers(&host, "y", 0..2);
    assert_eq!(
        running.wait_until_idle(),
        Waited::Reached,
        "three offsets are kept"
    );
    assert_eq!(running.status().held(), 3);
    send_numbers(&host, "y", 2..3);
    let refusal = refused(&running, 0);
    assert_eq!(
        (refusal.code, refusal.channel, refusal.offset),
        (
            RefusalCode::PositionsLost,
            Some(channel(&host, "y", 0)),
            Some(0)
        )
    );
}

#[test]
fn g9_a_topic_deleted_while_its_records_are_held_stops_the_holder() {
    let host = host_of(builder());
    let running = host.start(app()).unwrap();
    waiting_on_y(&host);
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    let y = channel(&host, "y", 0);
    host.delete_topic("y").unwrap();
    let refusal = refused(&running, 0);
    assert_eq!(
        (refusal.code, refusal.channel, refusal.offset),
        (RefusalCode::DeletedInputHeld, Some(y), Some(0))
    );
}

/// P5: a first start with an empty log, nothing fed, and retention that moves the log start before the second.
#[test]
fn p5_what_retention_took_between_two_starts_is_not_skipped() {
    let host = host_of(builder());
    let running = host.start(app()).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    running.stop().unwrap();
    send_numbers(&host, "x", 0..10);
    host.log()
        .delete_records(channel(&host, "x", 0), 10)
        .unwrap();
    let running = host.start(app()).unwrap();
    assert_eq!(refused(&running, 0).code, RefusalCode::PositionsLost);
}

#[test]
fn g8_a_topic_created_again_while_stopped_does_not_take_the_place_of_one_that_is_held() {
    let host = host_of(builder());
    let running = host.start(app()).unwrap();
    waiting_on_y(&host);
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    running.stop().unwrap();
    let before = channel(&host, "y", 0);
    host.delete_topic("y").unwrap();
    host.create_topic("y", 1).unwrap();
    let running = host.start(app()).unwrap();
    let refusal = refused(&running, 0);
    assert_eq!(
        (refusal.code, refusal.channel),
        (RefusalCode::RemovedInputHeld, Some(before))
    );
}

/// P14: x@3 is fed, x@4 is not, x is deleted while nothing of it is held; y@0 claims x up to 4.
#[test]
fn p14_a_deleted_input_with_nothing_held_is_settled_to_its_end() {
    let host = host_of(builder());
    let running = host.start(app()).unwrap();
    send_numbers(&host, "x", 0..4);
    waiting_on_y(&host);
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(running.status().held(), 1);
    host.delete_topic("x").unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    assert_eq!(running.status().held(), 0);
    assert_eq!(values(host.log(), "out").last().unwrap(), "left(y:waits)");
}

#[test]
fn g12_a_topic_created_again_under_its_name_stops_who_declared_it() {
    for topic in ["x", "out"] {
        let host = host_of(builder());
        let running = host.start(app()).unwrap();
        send(&host, "x", "k", "0");
        assert_eq!(running.wait_until_idle(), Waited::Reached);
        let before = channel(&host, topic, 0);
        host.delete_topic(topic).unwrap();
        // Its deletion alone is none: a sink may not be needed, and nothing of the input is held.
        running.check_now();
        assert!(running.status().refused().is_empty());
        host.create_topic(topic, 1).unwrap();
        let refusal = refused(&running, 0);
        assert_eq!(
            (refusal.code, refusal.channel),
            (RefusalCode::IdentityChanged, Some(before)),
            "{topic}"
        );
        running.stop().unwrap();
        // The remedy is a restart. Nothing of the old topic counts for the new one.
        send(&host, "x", "k", "1");
        let running = host.start(app()).unwrap();
        assert_eq!(running.wait_until_idle(), Waited::Reached);
        assert_eq!(values(host.log(), "out").last().unwrap(), "left(x:1)");
    }
}

/// A task that waited to try a step again when an input was created anew once opened without a word, and read that input no more.
#[test]
fn g12_a_topic_created_again_between_two_attempts_stops_who_declared_it() {
    let host = host_of(builder());
    let before = channel(&host, "x", 0);
    let log = host.log().clone();
    let stage = Stage::stateless("left")
        .on(&text("x"), move |_, _| {
            // The step that this delivery belongs to is tried again after the topic's end.
            log.delete_topic("x")?;
            log.create_topic("x", 1)?;
            Err("not yet".into())
        })
        .build()
        .unwrap();
    send(&host, "x", "k", "0");
    let app = App::named("app").stage(stage).build().unwrap();
    let running = host.start(app).unwrap();
    let waited = running.wait_until_idle();
    let Waited::Refused(refused) = &waited else {
        panic!("{waited:?}")
    };
    assert_eq!(
        (refused[0].refusal.code, refused[0].refusal.channel),
        (RefusalCode::IdentityChanged, Some(before))
    );
    assert_eq!(running.status().tasks[0].failed_steps, 1);
}

#[test]
fn g6_a_sink_that_was_deleted_stops_its_sender() {
    let host = host_of(builder());
    let running = host.start(app()).unwrap();
    host.delete_topic("out").unwrap();
    send(&host, "x", "k", "0");
    let refusal = refused(&running, 0);
    assert_eq!(refusal.code, RefusalCode::MissingSink);
    assert_eq!(
        running.status().task("left", 0).unwrap().failed_steps,
        1,
        "the step that could not be appended"
    );
}

/// A record of `x` whose clock names z, and the clock with which `left` then sends on.
fn stamp_after(host: &Host, running: &Running, value: &str) -> Clock {
    send(host, "x", "k", value);
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    clock_of(
        &host
            .consumer("out")
            .unwrap()
            .read_to_end()
            .unwrap()
            .pop()
            .unwrap(),
    )
}

#[test]
fn claims_on_deleted_records_leave_the_stamps_after_the_delay() {
    let now = Arc::new(AtomicI64::new(1_000));
    let time = TimeSource::from_fn({
        let now = Arc::clone(&now);
        move || now.load(Ordering::SeqCst)
    });
    let host = host_of(
        builder()
            .time(time)
            .truncation_delay(Duration::from_millis(100)),
    );
    let gone = host.create_topic("gone", 1).unwrap().partition(0);
    let aside = channel(&host, "aside", 0);
    let running = host.start(app()).unwrap();
    for number in 0..4 {
        host.producer()
            .send(NewRecord::to("aside").value(number.to_string()))
            .unwrap();
    }
    let mut clock = Clock::new();
    clock.claim_offset(aside, 3);
    clock.claim_sequence(gone, SenderId::of_name("alice"), 5);
    host.producer()
        .send(claiming("x", "claims both", &clock))
        .unwrap();
    let claims = |clock: &Clock| (clock.offset(aside), clock.sequences_on(gone).len());
    assert_eq!(claims(&stamp_after(&host, &running, "1")), (Some(3), 1));

    host.log().delete_records(aside, 4).unwrap();
    host.delete_topic("gone").unwrap();
    running.check_now();
    now.store(1_099, Ordering::SeqCst);
    running.check_now();
    assert_eq!(
        claims(&stamp_after(&host, &running, "2")),
        (Some(3), 1),
        "not known for long enough"
    );
    now.store(1_100, Ordering::SeqCst);
    running.check_now();
    // The first fact that was learned may be older than the deletion; the one after it is not.
    now.store(1_300, Ordering::SeqCst);
    running.check_now();
    running.check_now();
    now.store(1_500, Ordering::SeqCst);
    running.check_now();
    assert_eq!(claims(&stamp_after(&host, &running, "3")), (None, 0));
}

#[test]
fn checks_come_by_themselves_after_the_set_number_of_steps() {
    let host = host_of(
        builder()
            .check_every_steps(2)
            .truncation_delay(Duration::ZERO),
    );
    let aside = channel(&host, "aside", 0);
    let running = host.start(app()).unwrap();
    host.producer()
        .send(NewRecord::to("aside").value("0"))
        .unwrap();
    host.log().delete_records(aside, 1).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    let mut clock = Clock::new();
    clock.claim_offset(aside, 0);
    host.producer()
        .send(claiming("x", "claims it", &clock))
        .unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached);
    let mut stamps =
        (0..3).map(|number| stamp_after(&host, &running, &number.to_string()).offset(aside));
    assert!(stamps.any(|claimed| claimed.is_none()), "within two steps");
}

/// A refusal once named its topic by UUID alone, which nobody who declared the topic by name knows.
#[test]
fn a_refusal_names_the_topic() {
    let host = host_of(builder());
    let corrupt = NewRecord::to("x").value("1").header("vc", "?");
    host.producer().send(corrupt).unwrap();
    let running = host.start(app()).unwrap();
    let error = running.wait_until_idle().reached().unwrap_err().to_string();
    assert!(
        error.contains("left/0 was refused, topic x: vc-corrupt-clock at "),
        "{error}"
    );
}
