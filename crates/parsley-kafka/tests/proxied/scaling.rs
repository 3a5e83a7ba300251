//! Instances that come and go under load, with state that takes longer to read back than a rebalance takes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kafka_cluster::proxy::{Action, ApiKey, Requests};
use parsley_kafka::{KafkaRunning, Status, TaskState};
use parsley_stage::{App, Stage, Topic, codec};

use crate::world::*;

const KEYS: usize = 20_000;
/// The last so many of them, which stand at the end of the changelogs, are counted on while instances come and go.
const HOT: usize = 1000;
const PARTITIONS: i32 = 6;

/// How much of a key's state is there for its size alone, in bytes.
const PADDING: usize = 1000;

/// Counts, in state that is large.
fn counting(name: &str) -> App {
    let input = text_topic(&format!("{name}-in"));
    let output = Topic::new(format!("{name}-out"), codec::string(), codec::u64());
    let count = Stage::stateful("count", codec::string(), codec::string())
        .sink(&output)
        .on(&input, move |state: &mut String, message, out| {
            let count = match state.split_once(' ') {
                Some((count, _)) => count.parse::<u64>()? + 1,
                None => 1,
            };
            *state = format!("{count} {}", "x".repeat(PADDING));
            out.send(&output, &message.key, &count)
        })
        .build()
        .unwrap();
    App::named(name).stage(count).build().unwrap()
}

/// Whether each task has so much of its state that a part of it is written down, and not all of it.
fn are_restoring(status: &Status) -> bool {
    let is_restoring = |state: &TaskState| matches!(state, TaskState::Restoring { records, left } if *records > 1500 && *left > 0);
    status.tasks().all(|(.., task)| is_restoring(&task.state))
}

/// Ends the load, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// One instance has all the state. A second joins, and is still reading its share of it back when a third joins, which takes a part of that away from it
/// again; then both leave, and the first has all again, in the middle of which it was left with copies that are older than what the others have made of them. Each
/// key is counted on from wherever it was, without a gap and without a repeat, and so are the sequences of each task.
#[test]
fn three_instances_come_and_go_while_state_is_read_back() {
    let name = "scaling";
    let (input, output) = copying_topics(name, PARTITIONS);
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let instance = |number: usize| {
        let config = config(&dirs[number])
            .property("client.id", format!("{name}-{number}"))
            // So that a restore takes many answers.
            .property("fetch.message.max.bytes", "65536");
        start(config, &counting(name))
    };
    let all_committed = |running: &KafkaRunning| {
        let group = format!("{name}-count");
        wait_until("everything counted", || {
            let status = running.status();
            assert!(status.refused().is_empty(), "{status:#?}");
            (0..PARTITIONS).all(|partition| {
                committed(&group, &input, partition) == Some(bounds(&input, partition).1)
            })
        });
    };
    let keys: Vec<String> = (0..KEYS).map(|key| format!("key{key}")).collect();
    let first = instance(0);
    let plain = Foreign::plain();
    for key in &keys {
        plain.send(&input, To::Key, key, "seen", &[]);
    }
    plain.flush();
    wait_for_tasks(&first, PARTITIONS as usize);
    all_committed(&first);

    let is_over = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut sent = 0;
            while !is_over.load(Ordering::SeqCst) {
                for _ in 0..10 {
                    plain.send(&input, To::Key, &keys[KEYS - HOT + sent % HOT], "seen", &[]);
                    sent += 1;
                }
                plain.flush();
                std::thread::sleep(Duration::from_millis(20));
            }
            sent
        });
        let over = Over(&is_over);
        let fetches = Requests::of(ApiKey::FETCH).of_client("scaling-1");
        let proxy = broker().proxy().expect("it is proxied");
        let slow = Action::DelayResponse(Duration::from_millis(100));
        let slowed = proxy.rule(fetches.clone(), slow);
        let second = instance(1);
        wait_for(&second, "in the middle of its restores", |status| {
            status.tasks().count() == 3 && are_restoring(status)
        });
        // It gets no further until the third has joined.
        let held = proxy.rule(fetches, Action::HoldRequest);
        drop(slowed);
        let third = instance(2);
        wait_for(&third, "a share for the third", |status| {
            status.tasks().count() == 2
        });
        wait_for(&second, "less for the second", |status| {
            let opened = status.tasks().any(|(.., task)| task.steps > 0);
            assert!(!opened, "it was not done when its assignment ended");
            status.tasks().count() == 2
        });
        drop(held);
        for running in [&first, &second, &third] {
            wait_for_tasks(running, 2);
        }
        wait_for_deliveries(&third, 100);
        wait_for_deliveries(&second, 100);
        stop(&second);
        stop(&third);
        wait_for_tasks(&first, PARTITIONS as usize);
        drop(over);
        load.join().unwrap()
    });
    all_committed(&first);
    stop(&first);

    let counted = counts(&output);
    assert_eq!(counted.len(), KEYS);
    for (number, key) in keys.iter().enumerate() {
        let times = match number.checked_sub(KEYS - HOT) {
            Some(hot) => 1 + sent / HOT + usize::from(hot < sent % HOT),
            None => 1,
        };
        let expected: Vec<u64> = (1..=times as u64).collect();
        assert_eq!(counted[key], expected, "{key}");
    }
    let of_tasks = check_stamps(&output, name, "count", PARTITIONS);
    assert_eq!(of_tasks.values().sum::<usize>(), KEYS + sent);
}
