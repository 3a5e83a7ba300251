//! Ticks on the embedded host: due by its clock, one record each, and what they cause ordered behind all that their task was delivered.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parsley_core::Record;
use parsley_embedded::{Host, Reads, StartError, StepError, TaskState};
use parsley_stage::{App, Stage, Topic, codec};
use support::{builder, claiming, create, send, text, value_of};

const OFTEN: Duration = Duration::from_millis(2);
const NEVER: Duration = Duration::from_secs(1 << 40);
const TICKS: &str = "shop-watch-ticks";

fn reports() -> Topic<i32, String> {
    Topic::new("reports", codec::i32(), codec::string())
}

/// Counts ticks, and reports each with how many came before.
fn watching(every: Duration) -> App {
    let (orders, reports) = (text("orders"), reports());
    let watch = Stage::stateless("watch")
        .on(&orders, |_, _| Ok(()))
        .sink(&reports)
        .ticks(every, codec::u64(), move |minutes, tick, out| {
            *minutes += 1;
            let report = format!("{minutes} at {}", tick.timestamp_ms);
            out.send(&reports, &tick.partition, &report)
        });
    App::named("shop")
        .stage(watch.build().unwrap())
        .build()
        .unwrap()
}

fn host() -> Host {
    let host = builder().build().unwrap();
    create(&host, 2, &["orders", TICKS]);
    create(&host, 1, &["reports"]);
    host
}

fn records(host: &Host, topic: &str) -> Vec<Record> {
    host.consumer(topic).unwrap().read_to_end().unwrap()
}

#[test]
fn every_task_ticks_though_nothing_else_happens() {
    let host = host();
    let running = host.start(watching(OFTEN)).unwrap();
    let waited = running.wait(|status| status.tasks.iter().all(|task| task.delivered >= 3));
    waited.reached().unwrap();
    let status = running.stop().unwrap();
    let ticks = records(&host, TICKS);
    for partition in [0, 1] {
        let own: Vec<&Record> = ticks
            .iter()
            .filter(|tick| tick.channel.partition == partition)
            .collect();
        let task = status.task("watch", partition).unwrap();
        assert_eq!(task.ticks, own.len() as u64);
        for tick in own {
            assert_eq!(tick.key.as_deref(), Some(&partition.to_be_bytes()[..]));
            assert_eq!(tick.value, None);
            let names: Vec<&[u8]> = tick.headers.iter().map(|header| &*header.name).collect();
            assert_eq!(names, [&b"vc"[..], b"vc-sender", b"vc-seq"]);
        }
    }
    // Each tick was delivered once, and counted in the state of its task.
    let delivered: u64 = status.tasks.iter().map(|task| task.delivered).sum();
    assert_eq!(records(&host, "reports").len() as u64, delivered);
}

/// However often a busy worker comes by, a task has one tick an interval at most.
#[test]
fn a_task_ticks_once_an_interval() {
    let every = Duration::from_millis(30);
    let (host, begun) = (host(), Instant::now());
    let running = host.start(watching(every)).unwrap();
    let waited = running.wait(|status| status.tasks.iter().all(|task| task.ticks >= 3));
    waited.reached().unwrap();
    let status = running.stop().unwrap();
    let intervals = begun.elapsed().as_nanos() / every.as_nanos();
    for task in &status.tasks {
        assert!(u128::from(task.ticks) <= intervals, "{task:?}");
    }
}

#[test]
fn a_stage_whose_next_tick_is_far_off_is_idle() {
    let host = host();
    let running = host.start(watching(NEVER)).unwrap();
    send(&host, "orders", "k", "o");
    running.wait_until_idle().reached().unwrap();
    let status = running.stop().unwrap();
    assert_eq!(status.delivered(), 1);
    assert!(status.tasks.iter().all(|task| task.ticks == 0));
    assert!(records(&host, TICKS).is_empty());
}

/// A restart goes on with the tick state that was committed.
#[test]
fn tick_state_outlives_the_application() {
    let host = host();
    let mut stepper = host.step_by_step(watching(OFTEN)).unwrap();
    for partition in [0, 1] {
        stepper.open("watch", partition).unwrap();
    }
    for minute in 1..=2 {
        stepper.tick("watch", 0, minute).unwrap();
        let everything = Reads::everything();
        let emitted = stepper.step("watch", 0, &everything).unwrap();
        assert_eq!((emitted.committed, emitted.appended.len()), (true, 1));
        let delivered = stepper.step("watch", 0, &everything).unwrap();
        assert_eq!(&*delivered.delivered[0].topic, TICKS);
        stepper.crash("watch", 0).unwrap();
        stepper.open("watch", 0).unwrap();
    }
    let reports: Vec<String> = records(&host, "reports").iter().map(value_of).collect();
    assert_eq!(reports, ["1 at 1", "2 at 2"]);
    // Nobody asked the other task to tick, nor this one again.
    assert!(
        !stepper
            .step("watch", 1, &Reads::everything())
            .unwrap()
            .committed
    );
    assert!(
        !stepper
            .step("watch", 0, &Reads::everything())
            .unwrap()
            .committed
    );
}

/// What ticks are for: who is delivered what a tick caused has been delivered all that the ticking task had been. The order is held back
/// from the second stage, which is given the report at once.
#[test]
fn what_a_tick_causes_waits_for_its_causes() {
    let (orders, reports) = (text("orders"), reports());
    let read = Stage::stateless("read")
        .on(&orders, |_, _| Ok(()))
        .on(&reports, |_, _| Ok(()))
        .build()
        .unwrap();
    let watch = watching(OFTEN).stage("watch").unwrap().clone();
    let app = App::named("shop").stage(watch).stage(read).build().unwrap();
    let host = builder().build().unwrap();
    create(&host, 1, &["orders", "reports", TICKS]);
    let mut stepper = host.step_by_step(&app).unwrap();
    stepper.open("watch", 0).unwrap();
    stepper.open("read", 0).unwrap();
    send(&host, "orders", "k", "o");
    let everything = Reads::everything();
    stepper.step("watch", 0, &everything).unwrap();
    stepper.tick("watch", 0, 60_000).unwrap();
    stepper.step("watch", 0, &everything).unwrap();
    stepper.step("watch", 0, &everything).unwrap();
    let only_reports = Reads::everything().at_most("orders", 0);
    let early = stepper.step("read", 0, &only_reports).unwrap();
    assert_eq!((early.received.len(), early.delivered.len()), (1, 0));
    let late = stepper.step("read", 0, &everything).unwrap();
    let topics: Vec<&str> = late.delivered.iter().map(|record| &*record.topic).collect();
    assert_eq!(topics, ["orders", "reports"]);
}

/// A failure of the step that emits a tick gives the tick up with everything else, and it is emitted by the next one.
#[test]
fn a_tick_of_a_failed_step_is_due_still() {
    let orders = text("orders");
    let fails = Arc::new(AtomicBool::new(true));
    let failing = Arc::clone(&fails);
    let watch = Stage::stateless("watch")
        .on(&orders, move |_, _| match failing.load(Ordering::SeqCst) {
            true => Err("not yet".into()),
            false => Ok(()),
        })
        .ticks(OFTEN, codec::u64(), |minutes, _, _| {
            *minutes += 1;
            Ok(())
        });
    let app = App::named("shop").stage(watch.build().unwrap());
    let app = app.build().unwrap();
    let host = builder().build().unwrap();
    create(&host, 1, &["orders", TICKS]);
    send(&host, "orders", "k", "o");
    let mut stepper = host.step_by_step(&app).unwrap();
    stepper.open("watch", 0).unwrap();
    stepper.tick("watch", 0, 7).unwrap();
    let failed = stepper.step("watch", 0, &Reads::everything());
    assert!(matches!(failed, Err(StepError::Ended { .. })));
    assert!(records(&host, TICKS).is_empty());
    fails.store(false, Ordering::SeqCst);
    stepper.open("watch", 0).unwrap();
    stepper.step("watch", 0, &Reads::everything()).unwrap();
    let ticks = records(&host, TICKS);
    assert_eq!(ticks.len(), 1);
    assert_eq!(ticks[0].timestamp_ms, 7);
    // The aborted run of the first attempt stands before it.
    assert_eq!(ticks[0].offset, 2);
}

/// A crash in the middle of a step leaves its tick behind as an aborted record, and forgets that it was due.
#[test]
fn a_crash_in_a_step_takes_its_tick_with_it() {
    let host = host();
    let mut stepper = host.step_by_step(watching(OFTEN)).unwrap();
    stepper.open("watch", 0).unwrap();
    stepper.tick("watch", 0, 1).unwrap();
    let everything = Reads::everything();
    let given_up = stepper.crash_in_step("watch", 0, &everything, 0).unwrap();
    assert_eq!(given_up.appended.len(), 1);
    stepper.open("watch", 0).unwrap();
    assert!(
        stepper
            .step("watch", 0, &everything)
            .unwrap()
            .delivered
            .is_empty()
    );
    assert!(records(&host, TICKS).is_empty());
    stepper.tick("watch", 0, 2).unwrap();
    stepper.step("watch", 0, &everything).unwrap();
    let ticks = records(&host, TICKS);
    assert_eq!((ticks.len(), ticks[0].timestamp_ms), (1, 2));
    // The aborted record and its marker stand before it.
    assert_eq!(ticks[0].offset, 2);
}

/// A running task whose steps fail does not tick, and ticks once it has got over it, without having been started anew.
#[test]
fn a_task_ticks_again_once_its_failure_is_over() {
    let orders = text("orders");
    let fails = Arc::new(AtomicBool::new(true));
    let failing = Arc::clone(&fails);
    let watch = Stage::stateless("watch")
        .on(&orders, move |_, _| match failing.load(Ordering::SeqCst) {
            true => Err("not yet".into()),
            false => Ok(()),
        })
        .ticks(OFTEN, codec::null(), |(), _, _| Ok(()));
    let app = App::named("shop").stage(watch.build().unwrap());
    let host = builder().build().unwrap();
    create(&host, 1, &["orders", TICKS]);
    send(&host, "orders", "k", "o");
    let running = host.start(app.build().unwrap()).unwrap();
    let retrying =
        |state: &TaskState| matches!(state, TaskState::Retrying { attempt, .. } if *attempt >= 3);
    running
        .wait(|status| retrying(&status.tasks[0].state))
        .reached()
        .unwrap();
    assert_eq!(running.status().tasks[0].ticks, 0);
    assert_eq!(running.report().tasks[0].ticks, 0);
    fails.store(false, Ordering::SeqCst);
    running
        .wait(|status| status.tasks[0].ticks >= 2 && status.tasks[0].delivered >= 3)
        .reached()
        .unwrap();
    assert!(running.report().tasks[0].ticks >= 2);
    running.stop().unwrap();
}

/// A step takes a tick though one round is all it may have: the tick ends it, and what is to be delivered comes with the next.
#[test]
fn a_tick_and_deliveries_of_one_round_each() {
    let host = builder().max_rounds(1).build().unwrap();
    create(&host, 1, &["orders", "reports", TICKS]);
    let mut stepper = host.step_by_step(watching(OFTEN)).unwrap();
    stepper.open("watch", 0).unwrap();
    send(&host, "orders", "k", "o");
    stepper.tick("watch", 0, 1).unwrap();
    let first = stepper.step("watch", 0, &Reads::everything()).unwrap();
    assert_eq!(
        (first.appended.len(), first.delivered.len(), first.is_full),
        (1, 0, true)
    );
    let second = stepper.step("watch", 0, &Reads::everything()).unwrap();
    assert_eq!((second.appended.len(), second.delivered.len()), (0, 1));
}

#[test]
fn the_tick_topic_has_to_be_there_with_the_right_width() {
    let host = builder().build().unwrap();
    create(&host, 2, &["orders"]);
    create(&host, 1, &["reports"]);
    let missing = host.start(watching(OFTEN)).unwrap_err();
    assert!(matches!(&missing, StartError::MissingTopics { topics } if topics == &[TICKS]));
    create(&host, 3, &[TICKS]);
    let wide = host.start(watching(OFTEN)).unwrap_err();
    assert_eq!(
        wide.to_string(),
        "the tick topic shop-watch-ticks has 3 partitions, and the widest input of the stage watch has 2: create it with exactly 2"
    );
}

#[test]
fn a_stepper_ticks_only_tasks_that_are_open_and_tick() {
    let host = host();
    let mut stepper = host.step_by_step(watching(OFTEN)).unwrap();
    let error = stepper.tick("watch", 0, 0).unwrap_err();
    assert!(matches!(error, StepError::NotOpen { .. }));
    drop(stepper);
    let quiet = Stage::stateless("quiet").on(&text("orders"), |_, _| Ok(()));
    let app = App::named("shop").stage(quiet.build().unwrap());
    let mut stepper = host.step_by_step(app.build().unwrap()).unwrap();
    stepper.open("quiet", 0).unwrap();
    let error = stepper.tick("quiet", 0, 0).unwrap_err();
    assert_eq!(error.to_string(), "stage quiet declares no ticks");
}

/// A tick topic that was deleted and created again is another topic: the task that claims the old one's ticks refuses (G9), as for any input.
#[test]
fn a_tick_topic_that_was_created_again_is_refused() {
    let host = host();
    let mut stepper = host.step_by_step(watching(OFTEN)).unwrap();
    stepper.open("watch", 0).unwrap();
    stepper.tick("watch", 0, 1).unwrap();
    stepper.step("watch", 0, &Reads::everything()).unwrap();
    host.log().delete_topic(TICKS).unwrap();
    create(&host, 2, &[TICKS]);
    let refused = stepper.step("watch", 0, &Reads::everything()).unwrap_err();
    let StepError::Ended { end, .. } = refused else {
        panic!("{refused}");
    };
    assert!(end.refusal().is_some(), "{end}");
}

/// Somebody else's record on the tick topic fails the step and is not skipped.
#[test]
fn a_foreign_record_on_the_tick_topic_is_not_taken_for_a_tick() {
    let host = host();
    host.producer()
        .send(claiming(TICKS, "x", &parsley_core::Clock::new()))
        .unwrap();
    let running = host.start(watching(NEVER)).unwrap();
    let waited = running.wait(|status| {
        let failed = |state: &TaskState| matches!(state, TaskState::Retrying { message, .. } if message.contains("no tick of this task"));
        status.tasks.iter().any(|task| failed(&task.state))
    });
    waited.reached().unwrap();
    assert_eq!(running.stop().unwrap().delivered(), 0);
}
