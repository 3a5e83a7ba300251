//! Back-pressure: what waits fills every bound there is, and what it waits for comes through all the same.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use parsley_kafka::{KafkaConfig, KafkaHost};
use parsley_stage::{App, Stage};

use crate::per_second;
use crate::world::*;

/// Longer than this without a poll, and the group goes on without the member.
const POLL_INTERVAL: Duration = Duration::from_secs(6);

/// Everything that has a bound is small: what is held in memory, and what librdkafka fetches ahead, which is one queue for all partitions.
fn narrow(dir: &std::path::Path, window: usize) -> KafkaConfig {
    let mut config = config(dir)
        .property("queued.min.messages", "1")
        .property("queued.max.messages.kbytes", "16")
        .property("fetch.message.max.bytes", "8192")
        .property(
            "max.poll.interval.ms",
            POLL_INTERVAL.as_millis().to_string(),
        );
    config.node.window_records = window;
    config
}

/// Reads all of these inputs, and sends nothing.
fn watching(name: &str, parts: &[&str]) -> App {
    let stage = parts.iter().fold(Stage::stateless("watch"), |stage, part| {
        stage.on(&text_topic(&format!("{name}-{part}")), |_, _| Ok(()))
    });
    let stage = stage.build().unwrap();
    App::named(name).stage(stage).build().unwrap()
}

/// What was delivered, in order: topic and offset.
type Delivered = Arc<Mutex<Vec<(String, i64)>>>;

fn noting(config: KafkaConfig) -> (KafkaHost, Delivered) {
    let delivered = Delivered::default();
    let host = KafkaHost::new(config).unwrap().on_delivery({
        let delivered = Arc::clone(&delivered);
        move |event| {
            let place = (event.topic.to_string(), event.offset);
            delivered.lock().unwrap().push(place);
        }
    });
    (host, delivered)
}

/// Ten records that wait for `x@0` are as many as are kept in memory. More come, for longer than the group lets a member be silent: they are taken in,
/// the member stays one, and when `x@0` comes all of them go.
#[test]
fn b10_a_full_window_stops_no_polling() {
    let name = "b10-full";
    for part in ["x", "y"] {
        create_topic(&format!("{name}-{part}"), 1);
    }
    let (x, y) = (format!("{name}-x"), format!("{name}-y"));
    let dir = tempfile::tempdir().unwrap();
    let (host, delivered) = noting(narrow(dir.path(), 10));
    let running = host.start(watching(name, &["x", "y"])).unwrap();
    wait_for_tasks(&running, 1);
    let plain = Foreign::plain();
    let cause = channel(&x, 0);
    let mut sent = 0;
    let mut steps = 0;
    let until = Instant::now() + POLL_INTERVAL + Duration::from_secs(2);
    while sent < 20 || Instant::now() < until {
        for _ in 0..10 {
            plain.send(
                &y,
                To::Partition(0),
                "k",
                "waits",
                &stamp(&[(cause, 0)], sent),
            );
            sent += 1;
        }
        plain.flush();
        wait_for(&running, "taken in", |status| {
            let (_, _, task) = status.tasks().next().expect("its partition stays its own");
            assert!(task.steps >= steps, "it was opened anew");
            steps = task.steps;
            task.held == sent as u64
        });
    }
    plain.append(&x, To::Partition(0), &[("k", "cause")]);
    wait_for_deliveries(&running, sent as u64 + 1);
    stop(&running);
    let expected = std::iter::once((x, 0)).chain((0..sent).map(|offset| (y.clone(), offset)));
    assert!(expected.eq(delivered.lock().unwrap().iter().cloned()));
}

/// How many records each channel of a chain has.
const CHAIN: i64 = if cfg!(debug_assertions) {
    2_000
} else {
    50_000
};

/// Bound of the wait for all of them.
const DRAINED: Duration = Duration::from_secs(if cfg!(debug_assertions) { 150 } else { 600 });

/// The four channels of a chain, in topics that a scan meets in another order than they wait in.
const PARTS: [&str; 4] = ["c", "a", "d", "b"];

/// What a record of the chain claims: the first of the channel waits for one half way through the channel behind it, whose own first waits for half of
/// the next, and so on; from there on, each for the one beside it.
fn claimed(offset: i64) -> Option<i64> {
    match offset {
        0 => Some(CHAIN / 2 - 1),
        offset if offset < CHAIN / 2 => None,
        offset => Some(offset),
    }
}

/// Everything is there before the host starts: four channels, each of which waits for far more of the next than any queue takes. A host that took no
/// more of a channel while its window is full, or a queue that one channel filled for good, would never come to what all of it waits for.
#[test]
fn b10_chains_through_long_backlogs_drain() {
    let name = "b10-chains";
    let topics = PARTS.map(|part| format!("{name}-{part}"));
    for topic in &topics {
        create_topic(topic, 1);
    }
    let channels = topics.each_ref().map(|topic| channel(topic, 0));
    let plain = Foreign(client().set("linger.ms", "5").create().unwrap());
    let value = "v".repeat(200);
    for (at, topic) in topics.iter().enumerate() {
        for offset in 0..CHAIN {
            let cause = channels.get(at + 1).zip(claimed(offset));
            let claims: Vec<_> = cause
                .map(|(channel, claimed)| (*channel, claimed))
                .into_iter()
                .collect();
            plain.send(
                topic,
                To::Partition(0),
                "k",
                &value,
                &stamp(&claims, offset),
            );
        }
    }
    plain.flush();
    let dir = tempfile::tempdir().unwrap();
    let (host, delivered) = noting(narrow(dir.path(), 3));
    let begun = Instant::now();
    let running = host.start(watching(name, &PARTS)).unwrap();
    let count = CHAIN as u64 * PARTS.len() as u64;
    let is_done = running.wait(DRAINED, |status| status.delivered() >= count);
    assert!(is_done, "{:#?}", running.status());
    println!(
        "chains of {count} records drained at {}/s, start included",
        per_second(count, begun.elapsed())
    );
    stop(&running);
    let delivered = delivered.lock().unwrap();
    assert_eq!(delivered.len() as u64, count);
    let mut next: BTreeMap<&str, i64> = BTreeMap::new();
    for (topic, offset) in delivered.iter() {
        let at = topics.iter().position(|known| known == topic).unwrap();
        if let (Some(cause), Some(claimed)) = (topics.get(at + 1), claimed(*offset)) {
            let reached = next.get(&**cause).copied().unwrap_or(0);
            assert!(
                claimed < reached,
                "{topic}@{offset} before {cause}@{claimed}"
            );
        }
        let next = next.entry(topic).or_default();
        assert_eq!(offset, next, "{topic}");
        *next += 1;
    }
}
