//! Logic that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parsley_kafka::{KafkaConfig, Status, WorkerState};
use parsley_stage::{App, Stage, Topic, codec};

use crate::world::*;

/// Counts words, and sends on each twice; at the word "fatal" it sends, and then fails, unless it is mended.
fn failing(name: &str, is_mended: &Arc<AtomicBool>) -> App {
    let input = text_topic(&format!("{name}-in"));
    let output = Topic::new(format!("{name}-out"), codec::string(), codec::u64());
    let is_mended = Arc::clone(is_mended);
    let fail = Stage::stateful("fail", codec::string(), codec::u64())
        .sink(&output)
        .on(&input, move |seen, message, out| {
            *seen += 1;
            out.send(&output, &message.value, seen)?;
            if message.value == "fatal" && !is_mended.load(Ordering::SeqCst) {
                return Err("no word to go on with".into());
            }
            Ok(())
        })
        .build()
        .unwrap();
    App::named(name).stage(fail).build().unwrap()
}

fn attempt(status: &Status) -> u32 {
    match &status.workers[0].state {
        WorkerState::Retrying { message, attempt } => {
            assert!(message.contains("no word to go on with"), "{message}");
            *attempt
        }
        _ => 0,
    }
}

/// It is tried again, later each time; nothing of the failed step is seen, neither what was sent in it nor what it made of the state; the
/// status says so until the very record has passed.
#[test]
fn logic_that_fails_is_tried_again_and_leaves_nothing() {
    let name = "fails";
    create_topic("fails-in", 1);
    create_topic("fails-out", 1);
    let is_mended = Arc::new(AtomicBool::new(false));
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &failing(name, &is_mended));
    let plain = Foreign::plain();
    plain.append("fails-in", To::Key, &[("k", "fine"), ("k", "fine")]);
    wait_for_deliveries(&running, 2);
    let failed = Instant::now();
    // Readers see all three at once.
    let foreign = Foreign::transactional("fails-foreign");
    foreign.begin();
    let records = [("k", "doomed"), ("k", "fatal"), ("k", "behind")];
    foreign.append("fails-in", To::Key, &records);
    foreign.commit();
    wait_for(&running, "tried four times", |status| attempt(status) >= 4);
    // 100, 200 and 400 ms have gone by.
    assert!(
        failed.elapsed() >= Duration::from_millis(700),
        "{:?}",
        failed.elapsed()
    );
    assert_eq!(running.status().delivered(), 2);
    assert_eq!(
        counts("fails-out"),
        [("fine".to_owned(), vec![1, 2])].into()
    );
    assert_eq!(committed("fails-fail", "fails-in", 0), Some(2));
    is_mended.store(true, Ordering::SeqCst);
    wait_for(&running, "recovered", |status| {
        status.delivered() == 5 && attempt(status) == 0
    });
    stop(&running);
    let expected = [
        ("fine", vec![1, 2]),
        ("doomed", vec![3]),
        ("fatal", vec![4]),
        ("behind", vec![5]),
    ];
    let expected = expected.map(|(key, counts)| (key.to_owned(), counts));
    assert_eq!(counts("fails-out"), expected.into());
    check_stamps("fails-out", name, "fail", 1);
}

/// A stop does not wait for the next attempt, and the record is there for the next start.
#[test]
fn a_stop_between_attempts_is_quick() {
    let name = "fails-long";
    create_topic("fails-long-in", 1);
    create_topic("fails-long-out", 1);
    let is_mended = Arc::new(AtomicBool::new(false));
    let dir = tempfile::tempdir().unwrap();
    let patient = |mut config: KafkaConfig| {
        config.backoff_first = Duration::from_secs(60);
        config.backoff_longest = Duration::from_secs(60);
        config
    };
    let running = start(patient(config(&dir)), &failing(name, &is_mended));
    Foreign::plain().append("fails-long-in", To::Key, &[("k", "fatal")]);
    wait_for(&running, "failing", |status| attempt(status) == 1);
    let asked = Instant::now();
    stop(&running);
    assert!(
        asked.elapsed() < Duration::from_secs(30),
        "{:?}",
        asked.elapsed()
    );
    assert!(read("fails-long-out").is_empty());
    is_mended.store(true, Ordering::SeqCst);
    let running = start(config(&dir), &failing(name, &is_mended));
    wait_for_deliveries(&running, 1);
    stop(&running);
    assert_eq!(
        counts("fails-long-out"),
        [("fatal".to_owned(), vec![1])].into()
    );
}

/// One task's failing record holds back the steps of its worker, not those of others, and not the positions of its own.
#[test]
fn what_fails_does_not_stop_other_workers() {
    let name = "fails-alone";
    create_topic("fails-alone-in", 2);
    create_topic("fails-alone-out", 1);
    let is_mended = Arc::new(AtomicBool::new(false));
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir).workers(2), &failing(name, &is_mended));
    wait_for(&running, "one task each", |status| {
        let has_one = |worker: &parsley_kafka::WorkerStatus| {
            worker.tasks.len() == 1 && worker.tasks.values().all(|task| task.steps > 0)
        };
        status.workers.iter().all(has_one)
    });
    let plain = Foreign::plain();
    plain.append("fails-alone-in", To::Partition(0), &[("a", "fatal")]);
    wait_for(&running, "failing", |status| {
        status.workers.iter().any(|worker| {
            worker.tasks.contains_key(&0) && matches!(worker.state, WorkerState::Retrying { .. })
        })
    });
    plain.append("fails-alone-in", To::Partition(1), &[("b", "fine")]);
    wait_for_deliveries(&running, 1);
    assert_eq!(
        counts("fails-alone-out"),
        [("fine".to_owned(), vec![1])].into()
    );
    is_mended.store(true, Ordering::SeqCst);
    wait_for_deliveries(&running, 2);
    stop(&running);
}

/// A task that opened while others had sent something in the open step read the ends of its sinks with that in it. When it was acknowledged, it stood at or
/// below what was known of the log, and the step was given up as if the log had gone back (decision K43): at each attempt of a task that failed, as the
/// others go on meanwhile (K29).
#[test]
fn a_task_that_opens_again_gives_up_no_step_of_others() {
    const WORDS: usize = 6_000;
    create_topic("opens-again-in", 2);
    create_topic("opens-again-out", 1);
    let is_mended = Arc::new(AtomicBool::new(false));
    let dir = tempfile::tempdir().unwrap();
    let config = config(&dir).commit_interval(Duration::from_millis(400));
    let running = start(config, &failing("opens-again", &is_mended));
    wait_for_tasks(&running, 2);
    let plain = Foreign::plain();
    let words: Vec<String> = (0..WORDS).map(|word| format!("word-{word}")).collect();
    let records: Vec<(&str, &str)> = words.iter().map(|word| ("k", &**word)).collect();
    plain.append("opens-again-in", To::Partition(0), &records);
    plain.append("opens-again-in", To::Partition(1), &[("k", "fatal")]);
    // Whatever fails is the logic, at each attempt.
    let mut attempts = 0;
    wait_for(&running, "the other task's records", |status| {
        attempts = attempt(status).max(attempts);
        let tasks = &status.workers[0].tasks;
        attempts >= 4 && tasks[&0].delivered == WORDS as u64
    });
    is_mended.store(true, Ordering::SeqCst);
    wait_for_deliveries(&running, WORDS as u64 + 1);
    stop(&running);
}
