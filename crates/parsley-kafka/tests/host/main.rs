//! The host on a real broker: records in, effects out, exactly once, over restarts and lost state directories.

mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use parsley_kafka::{KafkaConfig, KafkaHost, KafkaRunning, StageError, StartError};
use parsley_stage::{App, Stage, Topic, codec};

use world::{BOUND, append, broker, create_topic, read};

/// Counts words: each count is an effect that may come once only.
fn wordcount(name: &str) -> (App, String, String) {
    let (words, counts) = (format!("{name}-words"), format!("{name}-counts"));
    let input = Topic::new(&*words, codec::string(), codec::string());
    let output = Topic::new(&*counts, codec::string(), codec::u64());
    let count = Stage::stateful("count", codec::string(), codec::u64())
        .sink(&output)
        .on(&input, move |seen, word, out| {
            *seen += 1;
            out.send(&output, &word.key, seen)
        })
        .build()
        .unwrap();
    let app = App::named(name).stage(count).build().unwrap();
    (app, words, counts)
}

fn config(dir: &tempfile::TempDir) -> KafkaConfig {
    KafkaConfig::new(broker().bootstrap(), dir.path()).commit_interval(Duration::from_millis(20))
}

fn start(config: KafkaConfig, app: &App) -> KafkaRunning {
    KafkaHost::new(config).unwrap().start(app).unwrap()
}

fn wait_for_deliveries(running: &KafkaRunning, count: u64) {
    let reached = running.wait(BOUND, |status| status.delivered() >= count);
    assert!(reached, "{:#?}", running.status());
}

/// The values of each key, in their order.
fn counts(topic: &str) -> BTreeMap<String, Vec<u64>> {
    let mut counts: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (key, value) in read(topic) {
        let value = u64::from_be_bytes(value.as_slice().try_into().unwrap());
        counts
            .entry(String::from_utf8(key).unwrap())
            .or_default()
            .push(value);
    }
    counts
}

#[test]
fn effects_come_once_over_restarts_and_a_lost_state_directory() {
    let (app, words, counted) = wordcount("restarts");
    for topic in [&words, &counted] {
        create_topic(topic, 2);
    }
    let keys: Vec<String> = (0..10).map(|key| format!("word{key}")).collect();
    let mut dir = tempfile::tempdir().unwrap();
    let mut expected: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for round in 1..=3_u64 {
        if round == 3 {
            dir = tempfile::tempdir().unwrap();
        }
        let running = start(config(&dir), &app);
        for key in &keys {
            append(&words, key, "seen");
            expected.entry(key.clone()).or_default().push(round);
        }
        wait_for_deliveries(&running, keys.len() as u64);
        let status = running.stop();
        assert!(status.refused().is_empty());
        assert_eq!(counts(&counted), expected, "round {round}");
    }
}

#[test]
fn a_missing_topic_is_said_at_the_start() {
    let (app, words, _) = wordcount("missing");
    create_topic(&words, 1);
    let dir = tempfile::tempdir().unwrap();
    let refused = KafkaHost::new(config(&dir)).unwrap().start(&app);
    let Err(StartError::Stage(StageError::MissingTopics { topics })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(topics, ["missing-counts"]);
}
