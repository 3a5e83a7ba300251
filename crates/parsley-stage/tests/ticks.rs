//! Ticks: records of the task's own, stamped, that come back through the decision (`docs/protocol.md`, Ticks).

mod support;

use std::time::Duration;

use bytes::Bytes;
use parsley_core::{Record, StateStore, TopicId};
use parsley_stage::{
    App, BuildError, FailureKind, SendOrder, Stage, TaskError, TickTopicWidth, Topic, codec,
};
use support::{GivenUp, Host, Log, claimed_offset, clock_of, headers, sequence_of};

const MINUTE: Duration = Duration::from_secs(60);
const TICKS: &str = "shop-watch-ticks";

fn text(name: &str) -> Topic<String, String> {
    Topic::new(name, codec::string(), codec::string())
}

/// What a tick emits: the task's partition, and the minute with the tick's own coordinates.
fn reports() -> Topic<i32, String> {
    Topic::new("reports", codec::i32(), codec::string())
}

/// A stateful stage that counts orders by key, and minutes by tick.
fn watching() -> Stage {
    let orders = text("orders");
    let reports = reports();
    Stage::stateful("watch", codec::string(), codec::u64())
        .on(&orders, |seen, _, _| {
            *seen += 1;
            Ok(())
        })
        .sink(&reports)
        .ticks(MINUTE, codec::u64(), move |minutes, tick, out| {
            *minutes += 1;
            let report = format!("{minutes} at {}, {}", tick.timestamp_ms, tick.offset);
            out.send(&reports, &tick.partition, &report)
        })
        .build()
        .unwrap()
}

fn shop(stage: &Stage) -> App {
    App::named("shop").stage(stage.clone()).build().unwrap()
}

fn log() -> Log {
    Log::new(&[("orders", 1), ("reports", 1), (TICKS, 1)])
}

/// A task of the watching stage, open, and the log.
fn open() -> (Host, Log) {
    let log = log();
    let mut host = Host::new(&watching());
    host.open(&log).unwrap();
    (host, log)
}

fn order(log: &mut Log, key: &str) {
    log.produce(&text("orders"), &key.into(), &"o".into(), vec![]);
}

fn values(log: &Log, topic: &str) -> Vec<String> {
    let value = |record: &Record| String::from_utf8(record.value.clone().unwrap().into()).unwrap();
    log.of(topic).iter().map(value).collect()
}

#[test]
fn in_an_application_the_tick_topic_is_an_input_and_a_sink() {
    let alone = watching();
    assert_eq!(
        (alone.tick_interval(), alone.tick_topic()),
        (Some(MINUTE), None)
    );
    assert!(alone.inputs().eq(["orders"]));
    let app = shop(&alone);
    let stage = app.stage("watch").unwrap();
    assert_eq!(stage.tick_topic(), Some(TICKS));
    assert!(stage.inputs().eq(["orders", TICKS]));
    assert!(stage.sinks().eq(["reports", TICKS]));
    assert!(app.topics().into_iter().eq(["orders", "reports", TICKS]));
    // A stage of one application can be declared in another.
    let moved = App::named("fair").stage(stage.clone()).build().unwrap();
    let stage = moved.stage("watch").unwrap();
    assert!(stage.inputs().eq(["orders", "fair-watch-ticks"]));
    assert!(stage.sinks().eq(["reports", "fair-watch-ticks"]));
    // In another one of the same name as well: its tick topic is not taken for a declared one.
    let again = shop(app.stage("watch").unwrap());
    assert!(again.topics().into_iter().eq(["orders", "reports", TICKS]));
    let quiet = Stage::stateless("quiet").on(&text("orders"), |_, _| Ok(()));
    let quiet = shop(&quiet.build().unwrap());
    assert_eq!(quiet.stage("quiet").unwrap().tick_interval(), None);
    assert!(quiet.topics().into_iter().eq(["orders"]));
}

#[test]
fn a_tick_is_a_stamped_record_on_the_tasks_own_partition() {
    let log_of = [("orders", 3), ("reports", 1), (TICKS, 3)];
    let mut log = Log::new(&log_of);
    let mut host = Host::of_partition(&watching(), 2);
    host.open(&log).unwrap();
    let own = log.channel("orders", 2);
    let record = text("orders").record(own, 0, &"k".into(), &"o".into());
    log.records.get_mut(&own).unwrap().push(record.unwrap());
    host.run(&mut log, &["orders"]).unwrap();
    host.task().tick(60_000).unwrap();
    host.step(&mut log, None).unwrap();
    let channel = log.channel(TICKS, 2);
    let tick = &log.records[&channel][0];
    assert_eq!(tick.key.as_deref(), Some(&[0, 0, 0, 2][..]));
    assert_eq!((&tick.value, tick.timestamp_ms), (&None, 60_000));
    assert_eq!(claimed_offset(tick, own), Some(0));
    assert_eq!(headers(tick, "vc-sender").len(), 1);
    assert_eq!(sequence_of(tick), 0);
    for partition in [0, 1] {
        assert!(log.records[&log.channel(TICKS, partition)].is_empty());
    }
}

/// The property that ticks are for: who is delivered what a tick caused has been delivered all that the ticking task had been.
#[test]
fn what_a_tick_causes_waits_for_all_that_its_task_had_been_delivered() {
    let (mut host, mut log) = open();
    order(&mut log, "a");
    host.run(&mut log, &["orders"]).unwrap();
    host.task().tick(60_000).unwrap();
    host.run(&mut log, &[TICKS]).unwrap();
    host.run(&mut log, &[TICKS]).unwrap();
    assert_eq!(values(&log, "reports"), ["1 at 60000, 0"]);
    let report = &log.of("reports")[0];
    assert_eq!(claimed_offset(report, log.channel("orders", 0)), Some(0));
    assert_eq!(claimed_offset(report, log.channel(TICKS, 0)), Some(0));

    let seen = Stage::stateless("seen")
        .on(&text("orders"), |_, _| Ok(()))
        .on(&reports(), |_, _| Ok(()));
    let mut reader = Host::new(&seen.build().unwrap());
    reader.open(&log).unwrap();
    reader.run(&mut log, &["reports"]).unwrap();
    assert!(reader.delivered.is_empty());
    reader.run(&mut log, &["orders"]).unwrap();
    let order = |host: &Host| -> Vec<String> {
        let topics = host.delivered.iter();
        topics
            .map(|delivered| delivered.topic.to_string())
            .collect()
    };
    assert_eq!(order(&reader), ["orders", "reports"]);
}

#[test]
fn the_tick_state_stands_apart_from_the_state_of_keys() {
    let (mut host, mut log) = open();
    // The key's bytes are those of a tick's key.
    order(&mut log, "\0\0\0\0");
    for minute in 1..=3 {
        host.task().tick(minute).unwrap();
        host.run(&mut log, &["orders", TICKS]).unwrap();
    }
    host.run(&mut log, &[TICKS]).unwrap();
    let stored = host.fold.contents();
    let stored = |key: &[u8]| stored.get(key).unwrap();
    let number = |number: u64| Some(Bytes::copy_from_slice(&number.to_be_bytes()));
    assert_eq!(stored(&[2]), number(3));
    assert_eq!(stored(b"\x01\0\0\0\0"), number(1));
    assert_eq!(values(&log, "reports")[2], "3 at 3, 2");
}

#[test]
fn a_stateless_stage_has_tick_state_too() {
    let mut log = log();
    let reports = reports();
    let stage = Stage::stateless("watch")
        .on(&text("orders"), |_, _| Ok(()))
        .sink(&reports)
        .ticks(MINUTE, codec::u64(), move |minutes, tick, out| {
            *minutes += 1;
            out.send(&reports, &tick.partition, &minutes.to_string())
        });
    let mut host = Host::new(&stage.build().unwrap());
    host.open(&log).unwrap();
    order(&mut log, "k");
    for _ in 0..2 {
        host.task().tick(0).unwrap();
        host.run(&mut log, &["orders", TICKS]).unwrap();
        host.run(&mut log, &[TICKS]).unwrap();
    }
    assert_eq!(values(&log, "reports"), ["1", "2"]);
    // Nothing else is stored: a stateless stage keeps nothing by key.
    let stored = host.fold.contents();
    assert!(stored.get(&[2]).unwrap().is_some());
    assert!(stored.get(b"\x01k").unwrap().is_none());
    // The state is there after a restart.
    host.redeploy(&{
        let reports = self::reports();
        let stage = Stage::stateless("watch").on(&text("orders"), |_, _| Ok(()));
        let stage = stage.sink(&reports);
        let tick = stage.ticks(MINUTE, codec::u64(), move |minutes, _, out| {
            out.send(&reports, &0, &format!("after {minutes}"))
        });
        tick.build().unwrap()
    });
    host.open(&log).unwrap();
    host.task().tick(0).unwrap();
    host.run(&mut log, &[TICKS]).unwrap();
    host.run(&mut log, &[TICKS]).unwrap();
    assert_eq!(values(&log, "reports")[2], "after 2");
}

/// A step that is given up takes its tick with it: the record, its sequence number, and what the tick's logic did.
#[test]
fn a_step_that_is_given_up_leaves_no_tick() {
    for given_up in GivenUp::ALL {
        let (mut host, mut log) = open();
        host.task().tick(1).unwrap();
        host.step(&mut log, Some(given_up)).unwrap();
        assert!(log.of(TICKS).is_empty(), "{given_up:?}");
        host.open(&log).unwrap();
        host.task().tick(2).unwrap();
        host.step(&mut log, None).unwrap();
        assert_eq!(sequence_of(&log.of(TICKS)[0]), 0, "{given_up:?}");

        host.feed(&log, &[TICKS]).unwrap();
        host.step(&mut log, Some(given_up)).unwrap();
        assert!(host.fold.contents().get(&[2]).unwrap().is_none());
        host.open(&log).unwrap();
        host.run(&mut log, &[TICKS]).unwrap();
        assert_eq!(values(&log, "reports"), ["1 at 2, 0"], "{given_up:?}");
    }
}

#[test]
fn ticks_keep_their_order_among_each_other_whatever_the_order_among_keys() {
    let mut log = log();
    log.create("left", TopicId::of_name("left"), 1);
    log.create("right", TopicId::of_name("right"), 1);
    let (left, right) = (text("left"), text("right"));
    let stage = Stage::stateless("watch")
        .on(&text("orders"), |_, _| Ok(()))
        .send_order(SendOrder::PerDelivery)
        .sink(&left)
        .sink(&right)
        .ticks(MINUTE, codec::u64(), move |minutes, _, out| {
            *minutes += 1;
            let side = if *minutes % 2 == 1 { &left } else { &right };
            out.send(side, &"k".into(), &minutes.to_string())
        });
    let mut host = Host::new(&stage.build().unwrap());
    host.open(&log).unwrap();
    for _ in 0..2 {
        host.task().tick(0).unwrap();
        host.step(&mut log, None).unwrap();
    }
    // Both come back in one step; the second knows of the first through the tick state.
    host.run(&mut log, &[TICKS]).unwrap();
    assert_eq!(host.delivered.len(), 2);
    assert_eq!(
        claimed_offset(&log.of("right")[0], log.channel("left", 0)),
        Some(0)
    );
}

/// A tick follows nothing of its own step but earlier ticks: it neither waits for another round nor opens one.
#[test]
fn a_tick_is_in_the_first_round() {
    let (mut host, mut log) = open();
    host.task().tick(1).unwrap();
    host.step(&mut log, None).unwrap();
    host.feed(&log, &[TICKS]).unwrap();
    assert!(host.task().process_next().unwrap().is_some());
    host.task().tick(2).unwrap();
    host.task().tick(3).unwrap();
    let sends = host.task().take_sends();
    let sent: Vec<(&str, usize)> = sends
        .iter()
        .map(|send| (&*send.topic, send.round))
        .collect();
    assert_eq!(sent, [("reports", 0), (TICKS, 0), (TICKS, 0)]);
    assert_eq!(host.task().step_rounds(), 1);
}

#[test]
fn a_tick_topic_has_a_partition_for_each_task_and_no_other() {
    for found in [1, 3] {
        let log = Log::new(&[("orders", 2), ("reports", 1), (TICKS, found)]);
        let refused = Host::new(&watching()).open(&log).unwrap_err();
        let TaskError::TickTopicWidth(width) = &refused else {
            panic!("{refused}");
        };
        let expected = TickTopicWidth {
            stage: "watch".into(),
            topic: TICKS.into(),
            expected: 2,
            found,
        };
        assert_eq!(width, &expected);
        assert_eq!(
            refused.to_string(),
            format!(
                "the tick topic shop-watch-ticks has {found} partitions, and the widest input of the stage watch has 2: create it with exactly 2"
            )
        );
    }
    let none = Log::new(&[("orders", 1), ("reports", 1)]);
    let refused = Host::new(&watching()).open(&none).unwrap_err();
    assert!(matches!(refused, TaskError::UnresolvedInput { topic } if &*topic == TICKS));
}

/// What somebody else has written to the tick topic is refused rather than taken for a tick.
#[test]
fn a_record_that_is_no_tick_of_the_task_stops_it() {
    type Fault = (Option<&'static [u8]>, Option<&'static [u8]>, &'static str);
    let faults: [Fault; 4] = [
        (Some(&[0, 0, 0, 7]), None, "its key is of partition 7"),
        (
            Some(&[0]),
            None,
            "its key has 1 bytes, and 4 are those of a partition",
        ),
        (None, None, "its key is null"),
        (
            Some(&[0, 0, 0, 0]),
            Some(b"xy"),
            "it has a value of 2 bytes",
        ),
    ];
    for (key, value, found) in faults {
        let (mut host, mut log) = open();
        let channel = log.channel(TICKS, 0);
        log.records.get_mut(&channel).unwrap().push(Record {
            channel,
            offset: 0,
            timestamp_ms: 0,
            key: key.map(Bytes::from_static),
            value: value.map(Bytes::from_static),
            headers: vec![],
        });
        let error = host.run(&mut log, &[TICKS]).unwrap_err();
        let application = error.application().expect("the codec of ticks refuses it");
        assert_eq!(application.kind, FailureKind::Decode);
        let message = format!("the record is no tick of this task: {found}");
        assert_eq!(application.message, message);
        assert!(values(&log, "reports").is_empty());
    }
}

#[test]
fn tick_logic_that_fails_or_panics_fails_the_step() {
    let failing: [fn(u64) -> u64; 2] = [|_| panic!("out of order"), |_| u64::MAX];
    for (index, fail) in failing.into_iter().enumerate() {
        let mut log = log();
        let stage = Stage::stateless("watch").on(&text("orders"), |_, _| Ok(()));
        let stage = stage.ticks(MINUTE, codec::u64(), move |minutes, _, _| {
            if fail(*minutes) == u64::MAX {
                return Err("out of order".into());
            }
            Ok(())
        });
        let mut host = Host::new(&stage.build().unwrap());
        host.open(&log).unwrap();
        host.task().tick(0).unwrap();
        host.step(&mut log, None).unwrap();
        let error = host.run(&mut log, &[TICKS]).unwrap_err();
        let application = error.application().unwrap();
        let kind = [FailureKind::Panic, FailureKind::Logic][index];
        assert_eq!((application.kind, &*application.topic), (kind, TICKS));
        assert!(
            application.message.contains("out of order"),
            "{application}"
        );
    }
}

#[test]
fn ticks_are_declared_once_and_at_an_interval() {
    let stage = || {
        let stage = Stage::stateless("watch").on(&text("orders"), |_, _| Ok(()));
        stage.ticks(MINUTE, codec::null(), |(), _, _| Ok(()))
    };
    let twice = stage().ticks(MINUTE, codec::null(), |(), _, _| Ok(()));
    let expected = BuildError::DuplicateTicks {
        stage: "watch".into(),
    };
    assert_eq!(twice.build().unwrap_err(), expected);
    let thrice = stage()
        .ticks(MINUTE, codec::null(), |(), _, _| Ok(()))
        .ticks(MINUTE, codec::null(), |(), _, _| Ok(()));
    assert_eq!(thrice.build().unwrap_err(), expected);
    let always = Stage::stateless("watch")
        .on(&text("orders"), |_, _| Ok(()))
        .ticks(Duration::ZERO, codec::null(), |(), _, _| Ok(()));
    let expected = BuildError::NoTickInterval {
        stage: "watch".into(),
    };
    assert_eq!(always.build().unwrap_err(), expected);
    // Ticks alone make no stage: how many tasks would it have?
    let only: parsley_stage::StageBuilder<parsley_stage::Stateless> = Stage::stateless("watch");
    let only = only.ticks(MINUTE, codec::null(), |(), _, _| Ok(()));
    assert!(matches!(
        only.build().unwrap_err(),
        BuildError::NoInput { .. }
    ));
}

#[test]
fn a_tick_out_of_turn_is_an_error() {
    let quiet = Stage::stateless("watch").on(&text("orders"), |_, _| Ok(()));
    let mut host = Host::new(&quiet.build().unwrap());
    host.open(&log()).unwrap();
    let error = host.task().tick(0).unwrap_err();
    let said = "tick was called while the stage declares no ticks";
    assert_eq!(error.to_string(), said);
    let (mut host, _) = open();
    host.task().fence(&[]).unwrap();
    let error = host.task().tick(0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tick was called while the step is fenced"
    );
}

/// A stage that stops declaring ticks owes what its ticks had claimed: the claims go on in its stamps.
#[test]
fn a_stage_without_its_ticks_still_claims_them() {
    let (mut host, mut log) = open();
    host.task().tick(1).unwrap();
    host.run(&mut log, &[TICKS]).unwrap();
    host.run(&mut log, &[TICKS]).unwrap();
    let out = text("reports");
    let copy = Stage::stateful("watch", codec::string(), codec::u64())
        .sink(&out)
        .on(&text("orders"), move |_, order, sends| {
            sends.send(&out, &order.key, &order.value)
        });
    host.redeploy(&copy.build().unwrap());
    host.open(&log).unwrap();
    order(&mut log, "k");
    host.run(&mut log, &["orders"]).unwrap();
    let sent = log.of("reports").last().unwrap();
    let clock = clock_of(sent);
    let ticks = log.channel(TICKS, 0);
    assert!(
        clock
            .offsets()
            .iter()
            .any(|claim| claim.channel == ticks && claim.offset == 0),
        "{clock:?}"
    );
}
