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

/// Joins: a payment is held until the order that it came of was delivered, whichever way each travels.
fn joined(name: &str) -> App {
    let text = |topic: &str| {
        Topic::new(
            &*format!("{name}-{topic}"),
            codec::string(),
            codec::string(),
        )
    };
    let (orders, payments, seen) = (text("orders"), text("payments"), text("seen"));
    let pay = Stage::stateless("pay")
        .sink(&payments)
        .on(&orders, {
            let payments = payments.clone();
            move |order, out| out.send(&payments, &order.key, &format!("for {}", order.value))
        })
        .build()
        .unwrap();
    let note = |topic: &'static str| {
        let seen = seen.clone();
        move |message: parsley_stage::Message<String, String>, out: &mut parsley_stage::Outbox| {
            out.send(&seen, &message.key, &format!("{topic} {}", message.value))
        }
    };
    let join = Stage::stateless("join")
        .sink(&seen)
        .on(&orders, note("order"))
        .on(&payments, note("payment"))
        .build()
        .unwrap();
    App::named(name).stage(pay).stage(join).build().unwrap()
}

/// Every effect stands behind its cause, in every topic that has both; over two instances that come and go, each delivery has its effect
/// once.
#[test]
fn instances_share_a_stage_and_lose_nothing_to_each_other() {
    let app = joined("shared");
    for topic in ["shared-orders", "shared-payments", "shared-seen"] {
        create_topic(topic, 4);
    }
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let send = |range: std::ops::Range<u32>| {
        for number in range {
            append(
                "shared-orders",
                &format!("key{}", number % 16),
                &number.to_string(),
            );
        }
    };
    let first = start(config(&here), &app);
    send(0..100);
    let second = start(config(&there), &app);
    let both_work = first.wait(BOUND, |_| {
        let tasks = |running: &KafkaRunning| running.status().tasks().count();
        tasks(&second) == 4 && second.status().tasks().all(|(_, _, task)| task.steps > 0)
    });
    assert!(both_work, "{:#?} {:#?}", first.status(), second.status());
    send(100..200);
    let status = first.stop();
    assert!(status.refused().is_empty(), "{status:#?}");
    send(200..300);
    let until = std::time::Instant::now() + BOUND;
    let seen = loop {
        let seen = read("shared-seen");
        if seen.len() >= 600 || std::time::Instant::now() > until {
            break seen;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    let status = second.stop();
    assert!(status.refused().is_empty(), "{status:#?}");
    let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in seen {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        by_key.entry(text(key)).or_default().push(text(value));
    }
    for (key, seen) in &by_key {
        let orders: Vec<&str> = seen
            .iter()
            .filter_map(|seen| seen.strip_prefix("order "))
            .collect();
        let payments: Vec<&str> = seen
            .iter()
            .filter_map(|seen| seen.strip_prefix("payment for "))
            .collect();
        let number: u32 = key["key".len()..].parse().unwrap();
        let expected: Vec<String> = (0..300)
            .filter(|order| order % 16 == number)
            .map(|order| order.to_string())
            .collect();
        assert_eq!(orders, expected, "{key}");
        assert_eq!(payments, expected, "{key}");
        for order in &expected {
            let at = |text: String| seen.iter().position(|seen| *seen == text);
            assert!(
                at(format!("order {order}")) < at(format!("payment for {order}")),
                "{key}: {seen:?}"
            );
        }
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
