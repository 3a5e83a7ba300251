//! What the host tells of itself: reports, metrics, warnings, events.

mod support;
#[path = "support/told.rs"]
mod told;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use parsley_core::{Clock, Header, RefusalCode, wire};
use parsley_embedded::{
    Host, HostBuilder, NewRecord, Reads, Running, TaskState, TimeSource, Waited,
};
use parsley_stage::meter;
use parsley_stage::report::{HostKind, StateWord};
use parsley_stage::{App, Stage, Topic, codec};
use support::*;
use told::{Events, Metrics, forms_of};

/// `see` is told of orders and payments.
fn app(name: &str) -> App {
    let (orders, payments, log) = (text("orders"), text("payments"), text("log"));
    let see = copying("see", &[&orders, &payments], &log);
    App::named(name).stage(see).build().unwrap()
}

fn host(builder: HostBuilder) -> Host {
    let host = builder.build().unwrap();
    create(&host, 1, &["orders", "payments", "log"]);
    host
}

/// A clock that a test turns.
#[derive(Clone)]
struct Hand(Arc<AtomicI64>);

impl Hand {
    fn new() -> Self {
        Self(Arc::new(AtomicI64::new(1_000_000)))
    }

    fn source(&self) -> TimeSource {
        let now = Arc::clone(&self.0);
        TimeSource::from_fn(move || now.load(Ordering::SeqCst))
    }

    fn turn(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

/// Sends a payment that claims orders up to an offset.
fn pay(host: &Host, claims: i64) {
    let mut clock = Clock::new();
    clock.claim_offset(channel(host, "orders", 0), claims);
    host.producer()
        .send(claiming("payments", "paid", &clock))
        .unwrap();
}

fn idle(running: &Running) {
    assert_eq!(running.wait_until_idle(), Waited::Reached);
}

/// Waits for what another thread is about to tell.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let bound = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < bound, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_report_says_what_is_held_where_and_for_how_long() {
    let hand = Hand::new();
    let host = host(builder().time(hand.source()));
    let running = host.start(app("reported")).unwrap();
    pay(&host, 0);
    pay(&host, 1);
    send(&host, "orders", "k", "tea");
    idle(&running);
    hand.turn(1500);
    let report = running.report();
    assert_eq!(
        (report.application.as_str(), report.host),
        ("reported", HostKind::Embedded)
    );
    let [task] = &report.tasks[..] else {
        panic!("{:?}", report.tasks);
    };
    assert_eq!(
        (&*task.stage, task.partition, task.state),
        ("see", 0, StateWord::Running)
    );
    assert_eq!((task.received, task.delivered, task.held), (3, 2, 1));
    let payments = task.inputs.iter().find(|input| input.topic == "payments");
    let payments = payments.unwrap();
    assert_eq!((payments.held, payments.oldest_hold_ms), (1, Some(1500)));
    assert_eq!((payments.position, payments.lag), (2, 0));
    let orders = task.inputs.iter().find(|input| input.topic == "orders");
    let orders = orders.unwrap();
    assert_eq!((orders.held, orders.oldest_hold_ms), (0, None));
    let holds = running.explain_holds();
    let [hold] = &holds.holds[..] else {
        panic!("{holds:?}");
    };
    assert_eq!((hold.offset, hold.behind, hold.age_ms), (1, 0, 1500));
    assert_eq!(hold.missing[0].to_string(), "orders:0@1");
    running.stop().unwrap();
    assert_eq!(running.report().tasks[0].state, StateWord::Stopped);
}

/// What an earlier process had taken in counts from the opening.
#[test]
fn what_was_held_before_is_as_old_as_the_opening() {
    let hand = Hand::new();
    let host = host(builder().time(hand.source()));
    let mut stepper = host.step_by_step(app("reopened")).unwrap();
    stepper.open("see", 0).unwrap();
    pay(&host, 0);
    stepper.step("see", 0, &Reads::everything()).unwrap();
    hand.turn(100);
    assert_eq!(stepper.holds("see", 0).unwrap()[0].age_ms, 100);
    // The process goes on: what it took in it has had since.
    stepper.crash("see", 0).unwrap();
    stepper.open("see", 0).unwrap();
    assert_eq!(stepper.holds("see", 0).unwrap()[0].age_ms, 100);
    drop(stepper);
    let mut stepper = host.step_by_step(app("reopened")).unwrap();
    stepper.open("see", 0).unwrap();
    hand.turn(7);
    assert_eq!(stepper.holds("see", 0).unwrap()[0].age_ms, 7);
}

#[test]
fn a_hold_is_warned_of_once_and_another_one_again() {
    let events = Events::installed(&[]);
    let hand = Hand::new();
    let host = host(
        builder()
            .time(hand.source())
            .hold_warning_after(Duration::from_secs(30)),
    );
    // Of a name that no other test has.
    let (orders, payments, log) = (text("orders"), text("payments"), text("log"));
    let wait = copying("warned-of", &[&orders, &payments], &log);
    let app = App::named("warned").stage(wait).build().unwrap();
    let running = host.start(app).unwrap();
    pay(&host, 0);
    pay(&host, 1);
    idle(&running);
    let warned = || events.with(&["WARN", "parsley::hold", "warned-of"]);
    hand.turn(29_999);
    running.explain_holds();
    assert_eq!(warned(), Vec::<String>::new());
    hand.turn(1);
    // The task rests, and looks by itself.
    until("a warning", || warned().len() == 1);
    for part in [
        "vc-hold-not-fetched",
        "payments:0@0 (1 more behind it)",
        "missing=orders:0@0",
        "age_ms=30000",
    ] {
        assert!(warned()[0].contains(part), "{part} in {}", warned()[0]);
    }
    // A step later it is the same hold.
    hand.turn(60_000);
    pay(&host, 1);
    idle(&running);
    assert_eq!(warned().len(), 1);
    // The one behind it was taken in with it.
    send(&host, "orders", "k", "tea");
    until("another warning", || warned().len() == 2);
    assert!(warned()[1].contains("payments:0@1"), "{}", warned()[1]);
    running.stop().unwrap();
}

#[test]
fn metrics_say_what_the_status_says() {
    let metrics = Metrics::installed();
    let hand = Hand::new();
    let host = host(builder().time(hand.source()));
    let running = host.start(app("metered")).unwrap();
    send(&host, "orders", "k", "tea");
    pay(&host, 0);
    pay(&host, 1);
    pay(&host, 1);
    idle(&running);
    hand.turn(2500);
    let of_task = |metric: meter::Metric| {
        format!(
            "{}{{application=\"metered\",stage=\"see\",task=\"0\"}}",
            metric.name
        )
    };
    let of_input = |metric: meter::Metric, input: &str| {
        format!(
            "{}{{application=\"metered\",stage=\"see\",task=\"0\",input=\"{input}\"}}",
            metric.name
        )
    };
    let entries = |kind: &str| {
        metrics.gauge(&format!(
            "{}{{application=\"metered\",stage=\"see\",task=\"0\",kind=\"{kind}\"}}",
            meter::STAMP_ENTRIES.name
        ))
    };
    let steps = format!(
        "{}{{application=\"metered\",stage=\"see\"}}",
        meter::STEP_SECONDS.name
    );
    let status = running.status();
    let task = status.task("see", 0).unwrap();
    assert_eq!(metrics.counter(&of_task(meter::RECEIVED)), 4);
    assert_eq!(metrics.counter(&of_task(meter::DELIVERED)), 2);
    assert_eq!(metrics.counter(&of_task(meter::DROPPED)), 0);
    assert_eq!(metrics.gauge(&of_input(meter::HELD, "payments")), 2.0);
    assert_eq!(metrics.gauge(&of_input(meter::HELD, "orders")), 0.0);
    // The task rests, and looks by itself.
    until("an age", || {
        metrics.gauge(&of_input(meter::OLDEST_HOLD, "payments")) == 2.5
    });
    // The orders, the payments, and the task's own sends.
    assert_eq!((entries("offset"), entries("sequence")), (3.0, 0.0));
    assert_eq!(
        metrics.gauge(&of_task(meter::WIDEST_CLOCK)),
        task.widest_clock_bytes as f64
    );
    // All steps but the opening's.
    assert_eq!(metrics.histogram(&steps).len() as u64, task.steps - 1);
    assert!(
        metrics
            .histogram(&steps)
            .iter()
            .all(|seconds| *seconds > 0.0)
    );
    send(&host, "orders", "k", "tea");
    idle(&running);
    assert_eq!(metrics.gauge(&of_input(meter::HELD, "payments")), 0.0);
    assert_eq!(
        metrics.gauge(&of_input(meter::OLDEST_HOLD, "payments")),
        0.0
    );
    assert_eq!(metrics.counter(&of_task(meter::DELIVERED)), 5);
    pay(&host, 1000);
    idle(&running);
    assert_eq!(metrics.gauge(&of_input(meter::HELD, "payments")), 1.0);
    running.stop().unwrap();
    drop(running);
    // The task is not here any more.
    assert_eq!(entries("offset"), 0.0);
    assert_eq!(metrics.gauge(&of_input(meter::HELD, "payments")), 0.0);
    for metric in meter::ALL {
        let (unit, help) = metrics.described(metric.name).expect(metric.name);
        assert_eq!((unit, &*help), (Some(metric.unit), metric.help));
    }
}

/// What does not come about on this host is counted as well.
#[test]
fn replays_skipped_sweeps_and_restores_have_their_metrics() {
    let metrics = Metrics::installed();
    let (application, stage) = (Arc::from("elsewhere"), Arc::from("see"));
    let task = meter::TaskMeter::register(&application, &stage, 7);
    let counts = meter::StepCounts {
        dropped: 3,
        ..Default::default()
    };
    task.step_committed(counts);
    task.restoring(40, 2);
    meter::StageMeter::register(&application, &stage).sweep_skipped();
    let of = |metric: meter::Metric, task: &str| {
        let name = metric.name;
        format!("{name}{{application=\"elsewhere\",stage=\"see\"{task}}}")
    };
    let of_task = |metric| of(metric, ",task=\"7\"");
    assert_eq!(metrics.counter(&of_task(meter::DROPPED)), 3);
    assert_eq!(metrics.gauge(&of_task(meter::RESTORED)), 40.0);
    assert_eq!(metrics.gauge(&of_task(meter::RESTORE_LEFT)), 2.0);
    assert_eq!(metrics.counter(&of(meter::SKIPPED_SWEEPS, "")), 1);
}

/// Labels are the topology's: whatever flows, there are no more of them.
#[test]
fn labels_are_bounded_by_the_topology() {
    let metrics = Metrics::installed();
    let host = host(builder());
    let running = host.start(app("bounded")).unwrap();
    let names = || metrics.names("application=\"bounded\"");
    let at_first = names();
    assert!(!at_first.is_empty());
    for number in 0..20 {
        send(&host, "orders", &format!("key-{number}"), "tea");
        pay(&host, 5 + number);
    }
    idle(&running);
    assert_eq!(names(), at_first);
    running.stop().unwrap();
}

#[test]
fn a_replay_a_refusal_and_a_failed_step_are_counted() {
    let metrics = Metrics::installed();
    let host = host(builder());
    let is_broken = Arc::new(AtomicBool::new(true));
    let orders = text("orders");
    let see = Stage::stateless("see")
        .on(&orders, {
            let is_broken = Arc::clone(&is_broken);
            move |_, _| match is_broken.load(Ordering::SeqCst) {
                true => Err("broken".into()),
                false => Ok(()),
            }
        })
        .build()
        .unwrap();
    let running = host
        .start(App::named("counted").stage(see).build().unwrap())
        .unwrap();
    let of_stage = |metric: meter::Metric| {
        metrics.counter(&format!(
            "{}{{application=\"counted\",stage=\"see\"}}",
            metric.name
        ))
    };
    send(&host, "orders", "k", "tea");
    until("failures", || of_stage(meter::FAILED_STEPS) >= 2);
    assert_eq!(running.report().tasks[0].state, StateWord::Retrying);
    is_broken.store(false, Ordering::SeqCst);
    idle(&running);
    assert_eq!(of_stage(meter::COMMIT_FAILURES), 0);
    assert_eq!(of_stage(meter::SKIPPED_SWEEPS), 0);
    assert_eq!(
        of_stage(meter::FAILED_STEPS),
        running.status().tasks[0].failed_steps
    );
    let broken = Header::new(wire::CLOCK_HEADER, "no clock");
    host.producer()
        .send(NewRecord::to("orders").headers([broken]))
        .unwrap();
    let refused =
        |status: &parsley_embedded::Status| matches!(status.tasks[0].state, TaskState::Refused(_));
    assert!(!matches!(running.wait(refused), Waited::Over));
    let report = &running.report().tasks[0];
    assert_eq!(
        (report.state, report.refusal),
        (StateWord::Refused, Some(RefusalCode::CorruptClock))
    );
    let refusals = format!(
        "{}{{application=\"counted\",stage=\"see\",task=\"0\",code=\"vc-corrupt-clock\"}}",
        meter::REFUSALS.name
    );
    assert_eq!(metrics.counter(&refusals), 1);
    running.stop().unwrap();
}

/// A sink that is gone takes no commit; no code of the application is behind that.
#[test]
fn a_step_that_the_log_does_not_take_is_a_commit_failure() {
    let metrics = Metrics::installed();
    let host = host(builder());
    let mut stepper = host.step_by_step(app("untaken")).unwrap();
    stepper.open("see", 0).unwrap();
    send(&host, "orders", "k", "tea");
    host.delete_topic("log").unwrap();
    stepper.step("see", 0, &Reads::everything()).unwrap_err();
    let refused = metrics.names("parsley_refusals_total{application=\"untaken\"");
    let failed = format!(
        "{}{{application=\"untaken\",stage=\"see\"}}",
        meter::COMMIT_FAILURES.name
    );
    assert_eq!((metrics.counter(&failed), refused.len()), (1, 0));
}

#[test]
fn deliveries_and_holds_are_told_with_coordinates_and_clocks() {
    let events = Events::installed(&[]);
    let host = host(builder());
    let (orders, payments, log) = (text("orders"), text("payments"), text("log"));
    let tell = copying("tell", &[&orders, &payments], &log);
    let app = App::named("telling").stage(tell).build().unwrap();
    let running = host.start(app).unwrap();
    pay(&host, 0);
    idle(&running);
    let held = events.with(&["DEBUG", "parsley::hold", "tell"]);
    assert_eq!(held.len(), 1, "{held:?}");
    assert!(
        held[0].contains("payments:0@0 waits for orders:0 up to 0"),
        "{}",
        held[0]
    );
    let mut clock = Clock::new();
    clock.claim_offset(channel(&host, "orders", 0), 0);
    let clock = hex::encode(wire::encode(&clock));
    assert!(held[0].contains(&clock), "{}", held[0]);
    send(&host, "orders", "k", "tea");
    idle(&running);
    let delivered = events.with(&["DEBUG", "parsley::delivery", "stage=tell"]);
    assert_eq!(delivered.len(), 2, "{delivered:?}");
    assert!(
        delivered[1].contains("topic=payments")
            && delivered[1].contains("offset=0")
            && delivered[1].contains("was_held=true")
            && delivered[1].contains(&clock),
        "{}",
        delivered[1]
    );
    running.stop().unwrap();
    for told in [
        "an application starts",
        "a task has opened",
        "a task has stopped",
    ] {
        assert!(!events.with(&["INFO", "tell", told]).is_empty(), "{told}");
    }
}

/// Nothing that a record says is in any event, whatever becomes of the record: it is delivered, held, warned of, cannot be decoded, makes
/// logic fail or panic, is refused, or is in a step that is given up. What an error of serde_json quotes is planted as well.
#[test]
fn no_event_says_what_a_record_says() {
    let events = Events::installed(&[]);
    let planted = |what: &str| format!("planted/{what}\"ü~payload");
    let hand = Hand::new();
    let host = Host::builder()
        .backoff(parsley_embedded::Backoff::NONE)
        .time(hand.source())
        .hold_warning_after(Duration::from_millis(1))
        .build()
        .unwrap();
    create(&host, 1, &["numbers", "causes", "texts", "out"]);
    let numbers: Topic<String, u64> = Topic::new("numbers", codec::string(), codec::json());
    let (causes, texts, out) = (text("causes"), text("texts"), text("out"));
    let count = Stage::stateful("count-planted", codec::string(), codec::u64())
        .on(&numbers, |_, _, _| Ok(()))
        .build()
        .unwrap();
    let is_mended = Arc::new(AtomicBool::new(false));
    let judge = Stage::stateless("judge-planted")
        .sink(&out)
        .on(&causes, |_, _| Ok(()))
        .on(&texts, {
            let (is_mended, out) = (Arc::clone(&is_mended), out.clone());
            move |message, sends| {
                sends
                    .to(&out)
                    .headers(&message.headers)
                    .send(&message.key, &message.value)?;
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
    let app = App::named("planted")
        .stage(count)
        .stage(judge)
        .build()
        .unwrap();
    let running = host.start(app).unwrap();
    let send = |topic: &str, what: &str, headers: Vec<Header>| {
        let mut all = vec![Header::new("theirs", planted("header"))];
        all.extend(headers);
        let record = NewRecord::to(topic)
            .key(planted("key"))
            .value(planted(what))
            .headers(all);
        host.producer().send(record).unwrap();
    };
    let failed = |stage: &str, times: u64| {
        until("failures", || {
            running.status().task(stage, 0).unwrap().failed_steps >= times
        });
    };
    // The JSON codec quotes what it finds: here a text where a number is to be.
    let quoted = format!("{:?}", planted("quoted"));
    let record = NewRecord::to("numbers").key(planted("key")).value(quoted);
    host.producer().send(record).unwrap();
    failed("count-planted", 2);
    let status = running.status();
    let words = status.task("count-planted", 0).unwrap().failing().unwrap();
    assert!(
        words.message.contains("planted/quoted"),
        "the status has its words"
    );
    // Held, and warned of.
    let mut clock = Clock::new();
    clock.claim_offset(channel(&host, "causes", 0), 0);
    let claim = Header::new(wire::CLOCK_HEADER, wire::encode(&clock));
    send("texts", "panic", vec![claim]);
    until("a hold", || running.status().held() == 1);
    hand.turn(5);
    until("a warning", || {
        !events
            .with(&["WARN", "parsley::hold", "judge-planted"])
            .is_empty()
    });
    // Logic panics, then fails, then is mended, and a header that is the protocol's cannot be read.
    send("causes", "cause", vec![]);
    failed("judge-planted", 2);
    send("texts", "error", vec![]);
    is_mended.store(true, Ordering::SeqCst);
    until("deliveries", || {
        running.status().task("judge-planted", 0).unwrap().delivered == 3
    });
    is_mended.store(false, Ordering::SeqCst);
    send("texts", "error", vec![]);
    let before = running
        .status()
        .task("judge-planted", 0)
        .unwrap()
        .failed_steps;
    failed("judge-planted", before + 2);
    is_mended.store(true, Ordering::SeqCst);
    send(
        "texts",
        "refused",
        vec![Header::new(wire::CLOCK_HEADER, planted("clock"))],
    );
    until("a refusal", || !running.status().refused().is_empty());
    running.stop().unwrap();
    let all = events.all();
    for part in [
        "decode failure",
        "panic failure",
        "logic failure",
        "vc-corrupt-clock",
        "parsley::delivery",
    ] {
        assert!(all.contains(part), "{part} was told of");
    }
    for what in [
        "key", "quoted", "panic", "error", "cause", "refused", "header", "clock",
    ] {
        for form in forms_of(&planted(what)) {
            let found = all.lines().find(|line| line.contains(&form));
            assert_eq!(found, None, "{form}");
        }
    }
}

#[test]
fn ticks_are_counted() {
    let metrics = Metrics::installed();
    let host = builder().build().unwrap();
    create(&host, 1, &["orders", "ticked-see-ticks"]);
    let see = Stage::stateless("see")
        .on(&text("orders"), |_, _| Ok(()))
        .ticks(Duration::from_millis(1), codec::null(), |(), _, _| Ok(()));
    let app = App::named("ticked").stage(see.build().unwrap());
    let running = host.start(app.build().unwrap()).unwrap();
    let ticked = running.wait(|status| status.tasks[0].ticks >= 2);
    assert_eq!(ticked, Waited::Reached);
    let ticks = running.stop().unwrap().tasks[0].ticks;
    let of_task = format!(
        "{}{{application=\"ticked\",stage=\"see\",task=\"0\"}}",
        meter::TICKS.name
    );
    assert_eq!(metrics.counter(&of_task), ticks);
}
