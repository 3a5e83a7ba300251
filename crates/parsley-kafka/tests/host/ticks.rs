//! Ticks: emitted by the host, stamped, on the task's own partition, and delivered like any record. Whatever becomes of steps, tasks and instances, each tick
//! that is committed has its effect once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kafka_cluster::Resource;
use parsley_core::{Channel, SenderId, wire};
use parsley_kafka::{
    DeliveryEvent, KafkaHost, KafkaRunning, Record, StageError, StartError, Status, WorkerState,
};
use parsley_stage::{App, Stage, StageBuilder, TickTopicWidth, Topic, codec};
use rdkafka::message::Timestamp;

use crate::joining::{make_again, watchful};
use crate::world::*;

const EVERY: Duration = Duration::from_millis(100);

pub fn ticks_of(app: &str, stage: &str) -> String {
    format!("{app}-{stage}-ticks")
}

fn reports(app: &str, stage: &str) -> Topic<i32, String> {
    let name = format!("{app}-{stage}-reports");
    Topic::new(name, codec::i32(), codec::string())
}

/// Makes the topics of a ticking stage but the tick topic.
pub fn topics_but_ticks(app: &str, stage: &str, partitions: i32) {
    create_topic(&format!("{app}-orders"), partitions);
    create_topic(&format!("{app}-{stage}-reports"), partitions);
}

pub fn topics(app: &str, stage: &str, partitions: i32) {
    topics_but_ticks(app, stage, partitions);
    create_topic(&ticks_of(app, stage), partitions);
}

/// A stage, so far, that reports every tick: how many there were, its offset, its timestamp. While `fails` is set, the logic fails when it has sent.
pub fn reporting<F>(
    stage: StageBuilder<F>,
    app: &str,
    name: &str,
    every: Duration,
    fails: &Arc<AtomicBool>,
) -> StageBuilder<F> {
    let (reports, fails) = (reports(app, name), Arc::clone(fails));
    let stage = stage.sink(&reports);
    stage.ticks(every, codec::u64(), move |count, tick, out| {
        *count += 1;
        let report = format!("{count} {} {}", tick.offset, tick.timestamp_ms);
        out.send(&reports, &tick.partition, &report)?;
        match fails.load(Ordering::SeqCst) {
            true => Err("it is to fail".into()),
            false => Ok(()),
        }
    })
}

fn never() -> Arc<AtomicBool> {
    Arc::default()
}

/// Consumes `<app>-orders` without a state.
pub fn stateless(app: &str, name: &str, fails: &Arc<AtomicBool>) -> Stage {
    let stage = Stage::stateless(name).on(&text_topic(&format!("{app}-orders")), |_, _| Ok(()));
    let stage = reporting(stage, app, name, EVERY, fails);
    stage.build().unwrap()
}

/// Counts `<app>-orders` by key.
pub fn stateful(app: &str, name: &str, fails: &Arc<AtomicBool>) -> Stage {
    let orders = text_topic(&format!("{app}-orders"));
    let stage = Stage::stateful(name, codec::string(), codec::u64());
    let stage = stage.on(&orders, |seen, _, _| {
        *seen += 1;
        Ok(())
    });
    let stage = reporting(stage, app, name, EVERY, fails);
    stage.build().unwrap()
}

pub fn app(name: &str, stage: Stage) -> App {
    App::named(name).stage(stage).build().unwrap()
}

/// How many ticks each task of a stage has emitted.
fn emitted(status: &Status, stage: &str) -> BTreeMap<i32, u64> {
    let tasks = status.tasks().filter(|(of, ..)| *of == stage);
    tasks
        .map(|(_, partition, task)| (partition, task.ticks))
        .collect()
}

/// Waits until each task has emitted so many more ticks.
pub fn wait_for_ticks(running: &KafkaRunning, stage: &str, more: u64) {
    let before = emitted(&running.status(), stage);
    wait_for(running, &format!("{more} more ticks of each"), |status| {
        let now = emitted(status, stage);
        !now.is_empty()
            && now.iter().all(|(partition, ticks)| {
                *ticks >= before.get(partition).copied().unwrap_or(0) + more
            })
    });
    // What everybody else is shown says so as well.
    let report = running.report();
    for (partition, ticks) in before {
        let mut tasks = report.tasks.iter();
        let task = tasks
            .find(|task| task.stage == stage && task.partition == partition)
            .expect("a task that ticked");
        assert!(task.ticks >= ticks + more, "{task:?}");
    }
}

fn timestamp(record: &Record) -> i64 {
    match record.timestamp {
        Timestamp::CreateTime(ms) => ms,
        other => panic!("{other:?}"),
    }
}

/// What a task has reported: how many ticks there were, and the offset and the timestamp of each.
pub type Reports = BTreeMap<i32, Vec<(u64, i64, i64)>>;

pub fn reported(app: &str, stage: &str) -> Reports {
    let mut reported = Reports::new();
    for record in read(reports(app, stage).name()) {
        let key = record.key.as_ref().unwrap();
        let partition = i32::from_be_bytes(key[..].try_into().unwrap());
        let report = text(&record.value);
        let report: Vec<i64> = report
            .split(' ')
            .map(|part| part.parse().unwrap())
            .collect();
        let report = (report[0] as u64, report[1], report[2]);
        reported.entry(partition).or_default().push(report);
    }
    reported
}

/// Stops, and checks of a stage that its tick topic has what the protocol says, and that each tick that was taken in has its effect once, in the tick state and
/// in what was reported. Returns how many ticks of each task there are.
pub fn check_ticks(
    running: &KafkaRunning,
    app: &str,
    stage: &str,
    tasks: i32,
) -> BTreeMap<i32, usize> {
    stop(running);
    let status = running.status();
    let held = |partition: i32| {
        let mut tasks = status.tasks();
        let of = tasks.find(|(of, at, _)| *of == stage && *at == partition);
        of.map_or(0, |(.., task)| task.held)
    };
    let topic = ticks_of(app, stage);
    let sent = check_stamps(&topic, app, stage, tasks);
    let mut own: BTreeMap<i32, Vec<Record>> = BTreeMap::new();
    for tick in read(&topic) {
        let partition = tick.partition.partition;
        assert_eq!(tick.key.as_deref(), Some(&partition.to_be_bytes()[..]));
        assert_eq!(tick.value, None);
        let sender = SenderId::of_task(app, stage, partition);
        assert_eq!(stamp_of(&tick).1, sender, "{tick:?}");
        own.entry(partition).or_default().push(tick);
    }
    let mut reported = reported(app, stage);
    for (partition, ticks) in own {
        let group = format!("{app}-{stage}");
        let read_to = committed(&group, &topic, partition).unwrap();
        let mut expected: Vec<(u64, i64, i64)> = (1..)
            .zip(ticks.iter().filter(|tick| tick.offset < read_to))
            .map(|(count, tick)| (count, tick.offset, timestamp(tick)))
            .collect();
        // What the last step had no time for.
        expected.truncate(expected.len() - held(partition) as usize);
        let reported = reported.remove(&partition).unwrap_or_default();
        assert_eq!(reported, expected, "{topic}/{partition}");
    }
    assert_eq!(reported, Reports::new());
    sent
}

fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis() as i64
}

/// Nothing comes but ticks: they make steps of their own, and are no more than one for each interval.
#[test]
fn every_task_of_an_idle_stage_ticks_on_its_own_partition() {
    let (name, dir) = ("idle-ticks", tempfile::tempdir().unwrap());
    topics(name, "watch", 3);
    let begun = now_ms();
    // Many steps would fit into it.
    let every = Duration::from_millis(500);
    let stage = Stage::stateless("watch").on(&text_topic("idle-ticks-orders"), |_, _| Ok(()));
    let stage = reporting(stage, name, "watch", every, &never());
    let running = start(config(&dir), &app(name, stage.build().unwrap()));
    wait_for_tasks(&running, 3);
    let (since, before) = (Instant::now(), emitted(&running.status(), "watch"));
    wait_for_ticks(&running, "watch", 4);
    let after = emitted(&running.status(), "watch");
    // One was late when it began.
    let most = 2 + (since.elapsed().as_millis() / every.as_millis()) as u64;
    for (partition, ticks) in &after {
        assert!(ticks - before[partition] <= most, "{most}: {after:?}");
    }
    let ticks = check_ticks(&running, name, "watch", 3);
    let ended = now_ms();
    let shown: BTreeMap<i32, usize> = emitted(&running.status(), "watch")
        .into_iter()
        .map(|(partition, ticks)| (partition, ticks as usize))
        .collect();
    assert_eq!(shown, ticks);
    for tick in read(&ticks_of(name, "watch")) {
        assert!((begun..=ended).contains(&timestamp(&tick)), "{tick:?}");
    }
}

/// What a stage delivered, in order: the channel, the offset, what it claims by offset, whether it waited.
type Delivered = Arc<Mutex<Vec<DeliveryEvent>>>;

fn observed(config: parsley_kafka::KafkaConfig, stage: &'static str) -> (KafkaHost, Delivered) {
    let delivered = Delivered::default();
    let seen = Arc::clone(&delivered);
    let host = KafkaHost::new(config).unwrap().on_delivery(move |event| {
        if &*event.stage == stage {
            seen.lock().unwrap().push(event.clone());
        }
    });
    (host, delivered)
}

fn claimed(event: &DeliveryEvent, channel: Channel) -> Option<i64> {
    let clock = wire::decode(&event.clock).unwrap().into_clock();
    clock.offset(channel)
}

/// The property that ticks are for. The orders are kept from the stage that reads reports: of two ticking stages, one with a state and one without, it is
/// delivered nothing that a tick caused behind an order before it has been delivered the order.
#[test]
fn what_a_tick_causes_waits_for_all_that_its_task_was_delivered() {
    let name = "tick-causes";
    topics(name, "watch", 1);
    create_topic("tick-causes-glance-reports", 1);
    create_topic("tick-causes-glance-ticks", 1);
    let orders = text_topic("tick-causes-orders");
    let seen = Stage::stateless("seen")
        .on(&orders, |_, _| Ok(()))
        .on(&reports(name, "watch"), |_, _| Ok(()))
        .on(&reports(name, "glance"), |_, _| Ok(()));
    let app = App::named(name)
        .stage(stateful(name, "watch", &never()))
        .stage(stateless(name, "glance", &never()))
        .stage(seen.build().unwrap())
        .build()
        .unwrap();
    let cause = channel("tick-causes-orders", 0);
    let from = ["watch", "glance"].map(|stage| channel(reports(name, stage).name(), 0));
    let dir = tempfile::tempdir().unwrap();
    let (host, before) = observed(config(&dir), "seen");
    let running = host
        .delay("seen", orders.name(), Duration::from_secs(3600))
        .start(&app)
        .unwrap();
    let numbers: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let records: Vec<(&str, &str)> = numbers.iter().map(|value| ("k", value.as_str())).collect();
    Foreign::plain().append(orders.name(), To::Key, &records);
    wait_for(&running, "reports of both are held", |status| {
        let holds = status.tasks().filter(|(stage, ..)| *stage == "seen");
        let held: BTreeSet<Channel> = holds
            .flat_map(|(.., task)| task.holds.iter().map(|hold| hold.place.channel()))
            .collect();
        held == from.into()
    });
    stop(&running);
    for event in before.lock().unwrap().iter() {
        assert_ne!(event.channel, cause);
        assert_eq!(claimed(event, cause), None, "{event:?}");
    }

    let (host, after) = observed(config(&dir), "seen");
    let running = host.start(&app).unwrap();
    let is_last_of = |event: &DeliveryEvent, of: Channel| {
        event.channel == of && claimed(event, cause) == Some(9)
    };
    wait_for(&running, "the last of both", |_| {
        let after = after.lock().unwrap();
        let is_there = |of: &Channel| after.iter().any(|event| is_last_of(event, *of));
        from.iter().all(is_there)
    });
    stop(&running);
    let mut delivered = None;
    let mut waited = BTreeSet::new();
    for event in after.lock().unwrap().iter() {
        if event.channel == cause {
            delivered = Some(event.offset);
            continue;
        }
        assert!(claimed(event, cause) <= delivered, "{event:?}");
        if event.was_held && claimed(event, cause).is_some() {
            waited.insert(event.channel);
        }
    }
    assert_eq!(waited, from.into());
    for stage in ["watch", "glance"] {
        check_ticks(&running, name, stage, 1);
    }
}

/// How often in a row a step was given up.
fn retries(status: &Status) -> u32 {
    match status.workers[0].state {
        WorkerState::Retrying { attempt, .. } => attempt,
        _ => 0,
    }
}

/// Steps with ticks are given up: those that emit one, as a changelog takes nothing, and those that deliver one, as its logic fails when it has sent. The tick
/// state counts each committed tick once, and none that was not.
#[test]
fn a_tick_of_a_step_that_was_given_up_counts_once() {
    let (name, dir) = ("aborted-ticks", tempfile::tempdir().unwrap());
    topics(name, "watch", 1);
    let fails = Arc::default();
    let running = start(config(&dir), &app(name, stateful(name, "watch", &fails)));
    wait_for_tasks(&running, 1);
    wait_for_ticks(&running, "watch", 2);
    let changelog = Resource::Topic("aborted-ticks-watch-state-changelog");
    // One that emits, and not only such as deliver: its tick's sequence number is there again.
    let is_given_up = || {
        let ticks = read_as("read_uncommitted", &ticks_of(name, "watch"));
        let sequences: BTreeSet<i64> = ticks.iter().map(|tick| stamp_of(tick).2).collect();
        sequences.len() < ticks.len()
    };
    let mut rounds = 0;
    while !is_given_up() {
        assert!(rounds < 30, "no tick was given up");
        rounds += 1;
        broker().deny(changelog).unwrap();
        wait_for(&running, "given up", |status| retries(status) > 0);
        broker().allow(changelog).unwrap();
        wait_for_ticks(&running, "watch", 2);
    }
    fails.store(true, Ordering::SeqCst);
    wait_for(&running, "given up", |status| retries(status) > 0);
    fails.store(false, Ordering::SeqCst);
    wait_for_ticks(&running, "watch", 2);
    let ticks = check_ticks(&running, name, "watch", 1);
    assert_eq!(emitted(&running.status(), "watch")[&0], ticks[&0] as u64);
}

/// A stage without a state has a fold changelog for its ticks: what they keep is there after a restart, and where nothing is left but the changelog.
#[test]
fn tick_state_survives_a_restart_and_a_lost_directory() {
    let (name, mut dir) = ("kept-ticks", tempfile::tempdir().unwrap());
    topics(name, "watch", 1);
    for round in 1..=3 {
        if round == 3 {
            dir = tempfile::tempdir().unwrap();
        }
        let running = start(config(&dir), &app(name, stateless(name, "watch", &never())));
        wait_for_tasks(&running, 1);
        wait_for_ticks(&running, "watch", 2);
        let ticks = check_ticks(&running, name, "watch", 1);
        assert!(ticks[&0] >= 2 * round, "{ticks:?}");
    }
}

/// A task moves to another instance and back, and its tick state with it.
#[test]
fn tick_state_moves_with_its_task() {
    let name = "moved-ticks";
    topics(name, "watch", 2);
    let app = app(name, stateful(name, "watch", &never()));
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = start(config(&here), &app);
    wait_for_tasks(&first, 2);
    wait_for_ticks(&first, "watch", 2);
    let second = start(config(&there), &app);
    wait_for_tasks(&second, 1);
    wait_for_tasks(&first, 1);
    for running in [&first, &second] {
        wait_for_ticks(running, "watch", 2);
    }
    stop(&second);
    wait_for_tasks(&first, 2);
    wait_for_ticks(&first, "watch", 2);
    let ticks = check_ticks(&first, name, "watch", 2);
    assert!(ticks.values().all(|ticks| *ticks >= 4), "{ticks:?}");
}

/// A tick topic has to exist, with a partition for each task and no other. The host makes none.
#[test]
fn a_tick_topic_that_is_missing_or_of_another_width_is_refused() {
    for (name, found) in [
        ("no-ticks", None),
        ("few-ticks", Some(1)),
        ("many-ticks", Some(3)),
    ] {
        topics_but_ticks(name, "watch", 2);
        let topic = ticks_of(name, "watch");
        if let Some(partitions) = found {
            create_topic(&topic, partitions);
        }
        let dir = tempfile::tempdir().unwrap();
        let app = app(name, stateful(name, "watch", &never()));
        let refused = KafkaHost::new(config(&dir)).unwrap().start(&app);
        match (refused, found) {
            (Err(StartError::Stage(StageError::MissingTopics { topics })), None) => {
                assert_eq!(topics, [&*topic]);
                assert_eq!(id_of(&topic), None);
            }
            (Err(StartError::Stage(StageError::TickTopicWidth(width))), Some(found)) => {
                let expected = TickTopicWidth {
                    stage: "watch".into(),
                    topic,
                    expected: 2,
                    found,
                };
                assert_eq!(width, expected);
            }
            (refused, _) => panic!("{name}: {refused:?}"),
        }
    }
    create_topic_with(
        &ticks_of("thin-ticks", "watch"),
        1,
        &[("cleanup.policy", "compact")],
    );
    topics_but_ticks("thin-ticks", "watch", 1);
    let dir = tempfile::tempdir().unwrap();
    let app = app("thin-ticks", stateful("thin-ticks", "watch", &never()));
    let refused = KafkaHost::new(config(&dir)).unwrap().start(&app);
    let Err(StartError::Stage(StageError::CompactedInputs { topics })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(topics, [ticks_of("thin-ticks", "watch")]);
}

/// A ticking stage with a sink that nothing is sent to, and that every check asks for. While it is denied, no check is answered.
fn with_a_spare_sink(name: &str) -> App {
    topics(name, "watch", 1);
    let spare = format!("{name}-spare");
    create_topic(&spare, 1);
    let orders = text_topic(&format!("{name}-orders"));
    let stage = Stage::stateless("watch").on(&orders, |_, _| Ok(()));
    let stage = stage.sink(&text_topic(&spare));
    let stage = reporting(stage, name, "watch", EVERY, &never());
    app(name, stage.build().unwrap())
}

fn start_checked(app: &App, dir: &tempfile::TempDir) -> KafkaRunning {
    let mut config = watchful(dir);
    config.truncation_delay = Duration::from_millis(300);
    let running = start(config, app);
    wait_for_tasks(&running, 1);
    wait_for_ticks(&running, "watch", 2);
    running
}

/// Waits until no tick is emitted any more.
fn wait_until_unchecked(running: &KafkaRunning) {
    wait_for(running, "unchecked", |status| {
        status.workers[0].state == WorkerState::Unchecked
    });
    // The cluster is asked between steps: what had ticked is committed by then.
    wait_for_no_answers(running, 1);
}

fn wait_for_no_answers(running: &KafkaRunning, more: u64) {
    let before = running.status().workers[0].unanswered;
    wait_for(running, "not answered", |status| {
        status.workers[0].unanswered >= before + more
    });
}

/// Where deliveries have to wait for a check, ticks do: they would only pile up, to be delivered all at once.
#[test]
fn ticks_wait_while_the_cluster_does_not_answer_checks() {
    let (name, dir) = ("unchecked-ticks", tempfile::tempdir().unwrap());
    let app = with_a_spare_sink(name);
    let running = start_checked(&app, &dir);
    let spare = Resource::Topic("unchecked-ticks-spare");
    broker().deny(spare).unwrap();
    wait_until_unchecked(&running);
    let ticked = emitted(&running.status(), "watch");
    wait_for_no_answers(&running, 5);
    let status = running.status();
    assert_eq!(emitted(&status, "watch"), ticked, "{status:#?}");
    broker().allow(spare).unwrap();
    wait_for_ticks(&running, "watch", 2);
    check_ticks(&running, name, "watch", 1);
}

/// B12: a tick topic that is made again while the stage runs, an input and a sink in one, with no tick under way. The next start begins its ticks anew, and the
/// tick state goes on.
#[test]
fn b12_a_tick_topic_made_again_while_it_runs_is_refused() {
    let (name, dir) = ("again-ticks", tempfile::tempdir().unwrap());
    let app = with_a_spare_sink(name);
    let running = start_checked(&app, &dir);
    let spare = Resource::Topic("again-ticks-spare");
    let mut rounds = 0;
    loop {
        broker().deny(spare).unwrap();
        wait_until_unchecked(&running);
        // No tick is under way, which would be held, and refuse the next start (G8).
        if read(&ticks_of(name, "watch")).len() == reported(name, "watch")[&0].len() {
            break;
        }
        assert!(rounds < 30, "a tick is always under way");
        rounds += 1;
        broker().allow(spare).unwrap();
        wait_for_ticks(&running, "watch", 2);
    }
    make_again(&ticks_of(name, "watch"));
    broker().allow(spare).unwrap();
    assert_eq!(wait_for_refusal(&running).0, "vc-identity-changed");
    running.stop();
    let before = reported(name, "watch")[&0].len();
    assert!(before > 0);
    assert!(read(&ticks_of(name, "watch")).is_empty());

    let running = start_checked(&app, &dir);
    stop(&running);
    check_stamps(&ticks_of(name, "watch"), name, "watch", 1);
    let ticks = read(&ticks_of(name, "watch"));
    let reported = reported(name, "watch").remove(&0).unwrap();
    let counts: Vec<u64> = reported.iter().map(|(count, ..)| *count).collect();
    assert_eq!(counts, (1..=reported.len() as u64).collect::<Vec<u64>>());
    let offsets: Vec<i64> = reported[before..].iter().map(|report| report.1).collect();
    let expected: Vec<i64> = ticks.iter().map(|tick| tick.offset).collect();
    assert!(!offsets.is_empty() && expected.starts_with(&offsets));
}
