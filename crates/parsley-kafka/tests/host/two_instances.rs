//! Instances that come and go.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parsley_kafka::KafkaRunning;

use crate::world::*;

fn partitions(running: &KafkaRunning, stage: &str) -> Vec<i32> {
    let status = running.status();
    let tasks = status
        .tasks()
        .filter(|(of, _, task)| *of == stage && task.steps > 0);
    tasks.map(|(_, partition, _)| partition).collect()
}

/// Every effect stands behind its cause, in every topic that has both; over two instances that come and go, each delivery has its effect once.
#[test]
fn instances_share_a_stage_and_lose_nothing_to_each_other() {
    let app = joined("shared");
    for topic in ["shared-orders", "shared-payments", "shared-seen"] {
        create_topic(topic, 4);
    }
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let plain = Foreign::plain();
    let send = |range: std::ops::Range<u32>| {
        for number in range {
            let (key, value) = (format!("key{}", number % 16), number.to_string());
            plain.send("shared-orders", To::Key, &key, &value, &[]);
        }
        plain.flush();
    };
    let first = start(config(&here), &app);
    send(0..100);
    wait_for_tasks(&first, 8);
    let second = start(config(&there), &app);
    wait_for_tasks(&second, 4);
    send(100..200);
    stop(&first);
    send(200..300);
    let until = Instant::now() + BOUND;
    let seen = loop {
        let seen = read("shared-seen");
        if seen.len() >= 600 {
            break seen;
        }
        assert!(
            Instant::now() < until,
            "{} effects: {:#?}",
            seen.len(),
            second.status()
        );
    };
    stop(&second);
    assert_eq!(seen.len(), 600);
    let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in seen {
        let seen = by_key.entry(text(&record.key)).or_default();
        seen.push(text(&record.value));
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

/// A task migrates over two rebalances, there and back: the same sender, sequences without a gap, and a state that no instance has alone.
#[test]
fn a_task_that_migrates_there_and_back_keeps_its_identity() {
    let (app, words, counted) = wordcount("migrates");
    for topic in [&words, &counted] {
        create_topic(topic, 2);
    }
    let keys: Vec<String> = (0..8).map(|key| format!("word{key}")).collect();
    let plain = Foreign::plain();
    let send = || {
        for key in &keys {
            plain.send(&words, To::Key, key, "seen", &[]);
        }
        plain.flush();
    };
    let all_counted = |rounds: u64| {
        let until = Instant::now() + BOUND;
        let expected: Vec<u64> = (1..=rounds).collect();
        loop {
            let found = counts(&counted);
            assert!(
                found.values().all(|seen| expected.starts_with(seen)),
                "{found:?}"
            );
            if found.len() == keys.len() && found.values().all(|seen| *seen == expected) {
                return;
            }
            assert!(Instant::now() < until, "round {rounds}: {found:?}");
        }
    };
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = start(config(&here), &app);
    wait_for_tasks(&first, 2);
    send();
    all_counted(1);
    // One of the two goes to the second instance.
    let second = start(config(&there), &app);
    wait_for_tasks(&second, 1);
    wait_for_tasks(&first, 1);
    let moved = partitions(&second, "count");
    assert!(!partitions(&first, "count").contains(&moved[0]));
    send();
    all_counted(2);
    // And comes back, to a state that is older than what the second has made of it.
    stop(&second);
    wait_for_tasks(&first, 2);
    assert!(partitions(&first, "count").contains(&moved[0]));
    send();
    all_counted(3);
    stop(&first);
    let sent = check_stamps(&counted, "migrates", "count", 2);
    assert_eq!(sent.values().sum::<usize>(), 3 * keys.len());
    assert!(sent.contains_key(&moved[0]), "{sent:?}");
}

/// Several workers in one process: two consumers and producers, each with the tasks that the group gives it (trap 12: no list of partitions is
/// shared between them, or used twice, over many assignments).
#[test]
fn trap_12_workers_of_one_process_share_its_tasks() {
    let name = "workers";
    let (input, output) = copying_topics(name, 8);
    let dir = tempfile::tempdir().unwrap();
    let plain = Foreign::plain();
    for round in 1..=3_usize {
        let running = start(config(&dir).workers(2), &copying(name));
        wait_for(&running, "four tasks each", |status| {
            let has_four = |worker: &parsley_kafka::WorkerStatus| {
                worker.tasks.len() == 4 && worker.tasks.values().all(|task| task.steps > 0)
            };
            status.workers.iter().all(has_four)
        });
        for key in 0..40 {
            plain.send(&input, To::Key, &key.to_string(), "v", &[]);
        }
        plain.flush();
        wait_for_deliveries(&running, 40);
        stop(&running);
        assert_eq!(read(&output).len(), 40 * round);
    }
    check_stamps(&output, name, "copy", 8);
}

/// Trap 10: a member that stops leaves its group, so the next start does not wait until the session of the one before has timed out.
#[test]
fn trap_10_a_restart_does_not_wait_for_the_session_to_time_out() {
    let name = "leaves";
    let (input, _) = copying_topics(name, 1);
    let dir = tempfile::tempdir().unwrap();
    let session = Duration::from_secs(50);
    let config = || config(&dir).property("session.timeout.ms", session.as_millis().to_string());
    let plain = Foreign::plain();
    plain.append(&input, To::Key, &[("k", "v")]);
    let running = start(config(), &copying(name));
    wait_for_deliveries(&running, 1);
    stop(&running);
    let stopped = Instant::now();
    let running = start(config(), &copying(name));
    wait_for_tasks(&running, 1);
    assert!(stopped.elapsed() < session / 2, "{:?}", stopped.elapsed());
    stop(&running);
}
