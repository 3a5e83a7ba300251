//! Steps that are given up, and what is the same afterwards.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parsley_core::{Channel, MemoryStore, Offset, Record, TopicId};
use parsley_stage::{FailureKind, Stage, TaskConfig, Topic, codec};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use support::{GivenUp, Host, Log, claimed_offset, claims, sequence_of};

fn text(name: &str) -> Topic<String, String> {
    Topic::new(name, codec::string(), codec::string())
}

/// Consumes x and y, counts by key, and emits two totals and an audit line for each message.
fn counting() -> Stage {
    let (totals, audit) = (
        Topic::new("totals", codec::string(), codec::u64()),
        text("audit"),
    );
    let logic = move |seen: &mut u64,
                      message: parsley_stage::Message<String, String>,
                      out: &mut parsley_stage::Outbox| {
        *seen += 1;
        out.send(&totals, &message.key, seen)?;
        out.send(&audit, &message.value, &message.key)?;
        out.send(&totals, &message.value, seen)
    };
    Stage::stateful("counting", codec::string(), codec::u64())
        .sink(&Topic::new("totals", codec::string(), codec::u64()))
        .sink(&text("audit"))
        .on(&text("x"), logic.clone())
        .on(&text("y"), logic)
        .build()
        .unwrap()
}

fn empty_log() -> Log {
    Log::new(&[("x", 1), ("y", 1), ("totals", 2), ("audit", 2)])
}

/// What comes in before a step: each record's topic, key, and the offset on `x` that it claims.
#[derive(Clone, Debug)]
struct Episode {
    records: Vec<(&'static str, &'static str, Option<Offset>)>,
}

/// A run of any episodes.
///
/// `given_up` says in which of them steps are given up, once each, and how; the task is opened again each time. With `killed` it is also opened again
/// behind each step that is committed.
fn run_any(
    episodes: &[Episode],
    config: fn(&mut TaskConfig),
    given_up: &BTreeMap<usize, GivenUp>,
    killed: bool,
) -> Left {
    const INPUTS: [&str; 2] = ["x", "y"];
    let stage = counting();
    let mut log = empty_log();
    let mut host = Host::new(&stage).configured(config);
    host.open(&log).unwrap();
    for (number, episode) in episodes.iter().enumerate() {
        for (topic, key, claimed) in &episode.records {
            let claimed = claimed.map(|at| (TopicId::of_name("x").partition(0), at));
            let headers = claimed.map_or_else(Vec::new, |claim| claims(&[claim]));
            log.produce(
                &text(topic),
                &(*key).to_owned(),
                &"value".to_owned(),
                headers,
            );
        }
        host.feed(&log, &INPUTS).unwrap();
        if let Some(&how) = given_up.get(&number) {
            host.step(&mut log, Some(how)).unwrap();
            host.open(&log).unwrap();
            host.feed(&log, &INPUTS).unwrap();
        }
        while host.step(&mut log, None).unwrap() > 0 {
            if killed {
                host.redeploy(&stage);
                host.open(&log).unwrap();
                host.feed(&log, &INPUTS).unwrap();
            }
        }
    }
    Left::of(host, log)
}

fn episodes() -> impl Strategy<Value = Vec<Episode>> {
    let record = (
        prop_oneof![Just("x"), Just("y")],
        prop_oneof![Just("a"), Just("b"), Just("c")],
        prop::option::of(0_i64..8),
    );
    let episode = prop::collection::vec(record, 0..5).prop_map(|records| Episode { records });
    prop::collection::vec(episode, 1..6)
}

const CONFIGS: [fn(&mut TaskConfig); 3] = [
    |_| {},
    |config| config.max_step_deliveries = 2,
    |config| config.max_rounds = 2,
];

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        rng_seed: RngSeed::Fixed(0x7061_7273_6c65_7922),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A step aborted equals a step never begun, byte for byte in both stores, in the log, and in what is delivered when.
    #[test]
    fn b03_an_aborted_step_is_one_that_never_began(
        episodes in episodes(),
        given_up in prop::collection::btree_map(0_usize..6, prop::sample::select(GivenUp::ALL.to_vec()), 1..4),
        config in prop::sample::select(CONFIGS.to_vec()),
    ) {
        let never_begun = run_any(&episodes, config, &BTreeMap::new(), false);
        prop_assert_eq!(run_any(&episodes, config, &given_up, false), never_begun);
    }

    /// A task that is restored from what another one stored behaves as that one would have.
    #[test]
    fn b28_a_restored_task_behaves_as_the_one_that_stored(
        episodes in episodes(),
        config in prop::sample::select(CONFIGS.to_vec()),
    ) {
        let unkilled = run_any(&episodes, config, &BTreeMap::new(), false);
        prop_assert_eq!(run_any(&episodes, config, &BTreeMap::new(), true), unkilled);
    }
}

/// All that is left when a run is over.
#[derive(Debug, PartialEq)]
struct Left {
    log: Log,
    ordering: MemoryStore,
    fold: MemoryStore,
    positions: BTreeMap<Channel, Offset>,
    delivered: Vec<(Channel, Offset)>,
}

impl Left {
    fn of(host: Host, log: Log) -> Self {
        Self {
            ordering: host.ordering.contents(),
            fold: host.fold.contents(),
            delivered: host
                .delivered
                .iter()
                .map(|p| (p.channel, p.offset))
                .collect(),
            positions: host.positions,
            log,
        }
    }
}

/// Four episodes: something simple, records that are held, their release, and a trailing one. `abort` gives up the step of one episode,
/// once, and the task is opened again.
fn run(
    stage: &Stage,
    config: fn(&mut TaskConfig),
    abort: Option<(usize, GivenUp)>,
    kill_after_each_step: bool,
) -> Left {
    let mut log = empty_log();
    let (x, y) = (text("x"), text("y"));
    let mut host = Host::new(stage).configured(config);
    host.open(&log).unwrap();
    for episode in 0..4 {
        let claim = |offset| claims(&[(TopicId::of_name("x").partition(0), offset)]);
        match episode {
            0 => {
                log.produce(&x, &"a".into(), &"x0".into(), vec![]);
                log.produce(&x, &"b".into(), &"x1".into(), vec![]);
            }
            1 => {
                log.produce(&y, &"a".into(), &"y0".into(), claim(1));
                log.produce(&y, &"b".into(), &"y1".into(), claim(3));
                log.produce(&y, &"a".into(), &"y2".into(), vec![]);
            }
            2 => {
                log.produce(&x, &"b".into(), &"x2".into(), vec![]);
                log.produce(&x, &"a".into(), &"x3".into(), vec![]);
            }
            _ => {
                log.produce(&y, &"c".into(), &"y3".into(), claim(3));
            }
        }
        let topic = if episode % 2 == 0 { "x" } else { "y" };
        host.feed(&log, &[topic]).unwrap();
        if let Some((at, abort)) = abort
            && at == episode
        {
            host.step(&mut log, Some(abort)).unwrap();
            host.open(&log).unwrap();
            host.feed(&log, &[topic]).unwrap();
        }
        while host.step(&mut log, None).unwrap() > 0 {
            if kill_after_each_step {
                host.redeploy(stage);
                host.open(&log).unwrap();
                host.feed(&log, &[topic]).unwrap();
            }
        }
    }
    Left::of(host, log)
}

#[test]
fn b03_an_aborted_step_leaves_no_trace_wherever_it_is_given_up() {
    let stage = counting();
    let expected = run(&stage, |_| {}, None, false);
    let log = &expected.log;
    assert_eq!(expected.delivered.len(), 8);
    let totals = &log.records[&log.channel("totals", 1)];
    assert_eq!(log.of("totals").len() + totals.len(), 16);
    let fold: Vec<(&[u8], &[u8])> = expected
        .fold
        .iter()
        .map(|(key, value)| (key.as_ref(), value.as_ref()))
        .collect();
    let count = |n: u64| n.to_be_bytes();
    let counts = [
        (&b"\x01a"[..], &count(4)[..]),
        (b"\x01b", &count(3)),
        (b"\x01c", &count(1)),
    ];
    assert_eq!(fold, counts);
    let positions = [(log.channel("x", 0), 4), (log.channel("y", 0), 4)];
    assert_eq!(expected.positions, BTreeMap::from(positions));
    for episode in 0..4 {
        for abort in GivenUp::ALL {
            let aborted = run(&stage, |_| {}, Some((episode, abort)), false);
            assert_eq!(aborted, expected, "given up {abort:?} in episode {episode}");
        }
    }
}

#[test]
fn b28_killed_after_any_step_the_rest_is_that_of_the_unkilled_run() {
    let stage = counting();
    let configs: [fn(&mut TaskConfig); 3] = [
        |config| config.max_step_deliveries = 1,
        |config| config.max_step_deliveries = 2,
        |config| config.max_rounds = 2,
    ];
    for config in configs {
        let unkilled = run(&stage, config, None, false);
        assert_eq!(unkilled.delivered.len(), 8);
        assert_eq!(run(&stage, config, None, true), unkilled);
    }
}

#[test]
fn b06_an_aborted_step_gives_its_sequence_numbers_back() {
    let (input, out) = (text("x"), text("out"));
    let stage = Stage::stateless("s")
        .sink(&out)
        .on(&input, {
            let out = out.clone();
            move |message, outbox| outbox.send(&out, &message.key, &message.value)
        })
        .build()
        .unwrap();
    let mut log = Log::new(&[("x", 1), ("out", 1)]);
    let mut host = Host::new(&stage);
    host.open(&log).unwrap();
    for round in 0..5 {
        log.produce(&input, &"k".into(), &format!("v{round}"), vec![]);
        for abort in [GivenUp::HandedOver, GivenUp::CommitAsked] {
            host.feed(&log, &["x"]).unwrap();
            host.step(&mut log, Some(abort)).unwrap();
            host.open(&log).unwrap();
        }
        host.run(&mut log, &["x"]).unwrap();
    }
    assert_eq!(
        log.of("out").iter().map(sequence_of).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4]
    );
}

/// A stage that copies x to out, and tells done about it.
fn relay() -> Stage {
    let (out, done) = (text("out"), text("done"));
    Stage::stateless("relay")
        .sink(&out)
        .sink(&done)
        .on(&text("x"), move |message, outbox| {
            outbox.send(&out, &"k".into(), &message.value)?;
            outbox.send(&done, &"k".into(), &message.value)
        })
        .build()
        .unwrap()
}

#[test]
fn b06_two_tasks_that_send_to_one_partition_do_not_block_each_other() {
    let mut log = Log::new(&[("x", 2), ("out", 1), ("done", 1)]);
    let stage = relay();
    let mut hosts = [Host::of_partition(&stage, 0), Host::of_partition(&stage, 1)];
    for (partition, host) in (0..).zip(&mut hosts) {
        host.offsets_known = false;
        host.open(&log).unwrap();
        for offset in 0..3 {
            let value = format!("{partition}.{offset}");
            let record = text("x")
                .record(log.channel("x", partition), offset, &"k".into(), &value)
                .unwrap();
            log.records.get_mut(&record.channel).unwrap().push(record);
        }
        host.feed(&log, &["x"]).unwrap();
    }
    for _ in 0..3 {
        for host in &mut hosts {
            host.step(&mut log, None).unwrap();
        }
    }
    let sequences: Vec<i64> = log.of("out").iter().map(sequence_of).collect();
    assert_eq!(sequences, [0, 1, 2, 0, 1, 2]);
    assert_ne!(hosts[0].task().sender(), hosts[1].task().sender());

    let reader = Stage::stateless("reader")
        .on(&text("out"), |_, _| Ok(()))
        .on(&text("done"), |_, _| Ok(()))
        .build()
        .unwrap();
    for order in [["out", "done"], ["done", "out"]] {
        let mut host = Host::new(&reader);
        host.open(&log).unwrap();
        host.feed(&log, &order).unwrap();
        host.run(&mut log, &[]).unwrap();
        assert_eq!(host.delivered.len(), 12);
        assert_eq!(host.task().held(), 0);
    }
}

#[test]
fn b06_claims_on_a_recreated_target_neither_satisfy_nor_block() {
    let mut log = Log::new(&[("x", 1), ("out", 1), ("done", 1)]);
    let mut host = Host::new(&relay());
    host.open(&log).unwrap();
    log.produce(&text("x"), &"k".into(), &"before".into(), vec![]);
    host.run(&mut log, &["x"]).unwrap();
    let old = log.channel("out", 0);
    assert_eq!(claimed_offset(&log.of("done")[0], old), Some(0));

    log.create("out", TopicId::of_name("out, created again"), 1);
    host.redeploy(&relay());
    let mut facts = parsley_core::OpenFacts::default();
    facts.gone.insert(old.topic);
    host.open_knowing(&log, facts).unwrap();
    log.produce(&text("x"), &"k".into(), &"after".into(), vec![]);
    host.run(&mut log, &["x"]).unwrap();
    let new = log.channel("out", 0);
    assert_eq!(
        log.of("out").iter().map(sequence_of).collect::<Vec<_>>(),
        [0]
    );
    assert_eq!(claimed_offset(&log.of("done")[1], new), Some(0));

    let reader = Stage::stateless("reader")
        .on(&text("out"), |_, _| Ok(()))
        .on(&text("done"), |_, _| Ok(()))
        .build()
        .unwrap();
    let mut host = Host::new(&reader);
    host.open(&log).unwrap();
    host.run(&mut log, &["done"]).unwrap();
    let offsets = |host: &Host| {
        host.delivered
            .iter()
            .map(|p| (p.topic.to_string(), p.offset))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        offsets(&host),
        [("done".to_owned(), 0)],
        "the claim on the old one does not block, the one on the new does"
    );
    host.run(&mut log, &["out"]).unwrap();
    assert_eq!(
        offsets(&host)[1..],
        [("out".to_owned(), 0), ("done".to_owned(), 1)]
    );
}

#[test]
fn b19_logic_that_fails_in_the_middle_of_a_cascade_takes_the_whole_step_back() {
    let fails = Arc::new(AtomicBool::new(true));
    let out = text("out");
    let stage = {
        let fails = Arc::clone(&fails);
        let logic = move |seen: &mut Vec<String>,
                          message: parsley_stage::Message<String, String>,
                          outbox: &mut parsley_stage::Outbox| {
            seen.push(message.value.clone());
            outbox.send(&out, &message.key, &message.value)?;
            if message.value == "y1" && fails.load(Ordering::Relaxed) {
                return Err("not now".into());
            }
            Ok(())
        };
        Stage::stateful("s", codec::string(), codec::json::<Vec<String>>())
            .sink(&text("out"))
            .on(&text("x"), logic.clone())
            .on(&text("y"), logic.clone())
            .on(&text("z"), logic)
            .build()
            .unwrap()
    };
    let mut log = Log::new(&[("x", 1), ("y", 1), ("z", 1), ("out", 1)]);
    let (x, y, z) = (
        log.channel("x", 0),
        log.channel("y", 0),
        log.channel("z", 0),
    );
    let key = || "k".to_owned();
    log.produce(&text("y"), &key(), &"y0".into(), claims(&[(x, 0)]));
    log.produce(&text("y"), &key(), &"y1".into(), claims(&[(y, 0)]));
    log.produce(&text("y"), &key(), &"y2".into(), vec![]);
    log.produce(&text("z"), &key(), &"z0".into(), claims(&[(y, 2)]));
    let mut host = Host::new(&stage);
    host.open(&log).unwrap();
    host.run(&mut log, &["y", "z"]).unwrap();
    assert_eq!(host.task().held(), 4);
    let before = (
        host.ordering.contents(),
        host.fold.contents(),
        host.positions.clone(),
        log.clone(),
    );

    log.produce(&text("x"), &key(), &"x0".into(), vec![]);
    for _ in 0..2 {
        host.feed(&log, &["x"]).unwrap();
        let error = host.step(&mut log, None).unwrap_err();
        let failure = error.application().unwrap();
        assert_eq!(
            (failure.kind, &*failure.topic, failure.offset),
            (FailureKind::Logic, "y", 1)
        );
        assert_eq!(
            (
                &host.ordering.contents(),
                &host.fold.contents(),
                &host.positions
            ),
            (&before.0, &before.1, &before.2)
        );
        assert_eq!(log.of("out").len(), before.3.of("out").len());
        host.open(&log).unwrap();
        assert_eq!(host.task().held(), 4);
    }

    fails.store(false, Ordering::Relaxed);
    host.run(&mut log, &["x"]).unwrap();
    let delivered: Vec<(Channel, Offset)> = host
        .delivered
        .iter()
        .map(|p| (p.channel, p.offset))
        .collect();
    assert_eq!(delivered, [(x, 0), (y, 0), (y, 1), (y, 2), (z, 0)]);
    let values: Vec<Bytes> = log
        .of("out")
        .iter()
        .filter_map(|record| record.value.clone())
        .collect();
    assert_eq!(values, ["x0", "y0", "y1", "y2", "z0"]);
    let state = host
        .fold
        .contents()
        .iter()
        .next()
        .map(|(_, value)| value.clone());
    assert_eq!(
        state.as_deref(),
        Some(&br#"["x0","y0","y1","y2","z0"]"#[..])
    );
}

#[test]
fn b17_held_records_reach_the_logic_after_a_restart_as_they_came() {
    use parsley_core::Header;
    let input = || {
        Topic::new(
            "y",
            codec::nullable(codec::bytes()),
            codec::nullable(codec::bytes()),
        )
    };
    let out = Topic::new(
        "out",
        codec::nullable(codec::bytes()),
        codec::nullable(codec::bytes()),
    );
    let stage = Stage::stateless("s")
        .sink(&out)
        .on(&text("x"), |_, _| Ok(()))
        .on(&input(), {
            let out = out.clone();
            move |message, outbox| {
                let to = outbox.to(&out).headers(&message.headers);
                to.send(&message.key, &message.value)
            }
        })
        .build()
        .unwrap();
    let mut log = Log::new(&[("x", 1), ("y", 1), ("out", 1)]);
    let (x, y) = (log.channel("x", 0), log.channel("y", 0));
    let bytes = |bytes: &'static [u8]| Some(Bytes::from_static(bytes));
    let contents = [
        (None, None),
        (bytes(b""), bytes(b"")),
        (bytes(b"k"), None),
        (None, bytes(b"\xff\x00")),
    ];
    let application = [
        Header::new("a", "1"),
        Header::new("a", "2"),
        Header::null("n"),
        Header::new("", ""),
    ];
    let held: Vec<Record> = (0..40)
        .map(|offset: i64| {
            let (key, value) = contents[offset as usize % 4].clone();
            let headers = [
                claims(&[(x, 0)]),
                application[..offset as usize % 5].to_vec(),
            ]
            .concat();
            Record {
                channel: y,
                offset,
                timestamp_ms: -offset,
                key,
                value,
                headers,
            }
        })
        .collect();
    log.records.insert(y, held.clone());
    let mut host = Host::new(&stage).configured(|config| config.node.window_records = 3);
    host.open(&log).unwrap();
    host.run(&mut log, &["y"]).unwrap();
    host.redeploy(&stage);
    host.open(&log).unwrap();
    assert_eq!(host.task().held(), 40);
    log.produce(&text("x"), &"k".into(), &"x0".into(), vec![]);
    host.run(&mut log, &["x"]).unwrap();
    for (sent, came) in log.of("out").iter().zip(&held) {
        assert_eq!(
            (&sent.key, &sent.value, sent.timestamp_ms),
            (&came.key, &came.value, came.timestamp_ms)
        );
        let headers = sent.headers.len() - 3;
        assert_eq!(sent.headers[..headers], came.headers[1..]);
    }
    assert_eq!(log.of("out").len(), 40);
}

#[test]
fn records_fed_while_a_step_is_being_committed_belong_to_the_next() {
    let mut log = Log::new(&[("x", 1), ("out", 1), ("done", 1)]);
    let x = log.channel("x", 0);
    log.produce(&text("x"), &"k".into(), &"first".into(), vec![]);
    let mut host = Host::new(&relay());
    host.open(&log).unwrap();
    host.feed(&log, &["x"]).unwrap();
    let task = host.task();
    assert_eq!(task.process_next().unwrap().unwrap().offset, 0);
    let _handed_over = task.take_sends();
    task.fence(&[]).unwrap();
    let _handed_over = task.take_sends();
    let step = task.finish_step(&[]).unwrap();
    let second = text("x").record(x, 1, &"k".into(), &"second".into());
    task.receive(second.unwrap()).unwrap();
    task.advance(x, 3).unwrap();
    assert_eq!(step.positions, [(x, 1)]);
    task.step_committed();
    assert_eq!(task.process_next().unwrap().unwrap().offset, 1);
    let _handed_over = task.take_sends();
    task.fence(&[]).unwrap();
    let _handed_over = task.take_sends();
    assert_eq!(task.finish_step(&[]).unwrap().positions, [(x, 3)]);
}
