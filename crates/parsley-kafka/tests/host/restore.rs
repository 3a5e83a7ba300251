//! State that comes back from the changelog.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use parsley_kafka::{KafkaRunning, Status, TaskState};

use crate::world::*;

const WORDS: u64 = 50_000;

fn restored(status: &Status) -> Option<(u64, u64)> {
    status.tasks().find_map(|(_, _, task)| match task.state {
        TaskState::Restoring { records, left } => Some((records, left)),
        _ => None,
    })
}

/// Counts a word on, and expects the count. Returns how much of a restore was seen before.
fn counts_on(running: &KafkaRunning, words: &str, counted: &str, count: u64) -> (u64, u64) {
    let mut seen = (0, 0);
    wait_for(running, "open", |status| {
        seen = restored(status).unwrap_or(seen);
        status.tasks().any(|(_, _, task)| task.steps > 0)
    });
    Foreign::plain().append(words, To::Key, &[("word7", "seen")]);
    wait_for_deliveries(running, 1);
    stop(running);
    assert_eq!(counts(counted)["word7"], (1..=count).collect::<Vec<u64>>());
    seen
}

/// A state of 50,000 keys is read back when the directory is lost, with its progress in the status, and not where the directory is there; and a
/// directory that is damaged, in whatever way, is as good as lost.
#[test]
fn b22_a_lost_or_damaged_state_directory_is_read_back() {
    let (app, words, counted) = wordcount("large");
    for topic in [&words, &counted] {
        create_topic(topic, 1);
    }
    let plain = Foreign::plain();
    for word in 0..WORDS {
        plain.send(&words, To::Key, &format!("word{word}"), "seen", &[]);
    }
    plain.flush();
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &app);
    wait_for_deliveries(&running, WORDS);
    stop(&running);

    // Lost.
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &app);
    let (records, left) = counts_on(&running, &words, &counted, 2);
    assert!(records > 0 && left > 0, "{records} {left}");
    // There.
    let running = start(config(&dir), &app);
    let (records, _) = counts_on(&running, &words, &counted, 3);
    assert!(records < 100, "{records}");

    // Damaged: bytes in the middle.
    let file = dir.path().join("large/count/0/state.redb");
    damage(&file);
    let running = start(config(&dir), &app);
    let (records, _) = counts_on(&running, &words, &counted, 4);
    assert!(records > 1000, "{records}");
    // Cut off, and emptied.
    for (round, bytes) in [(5, fs::metadata(&file).unwrap().len() / 2), (6, 0)] {
        let cut = fs::OpenOptions::new().write(true).open(&file).unwrap();
        cut.set_len(bytes).unwrap();
        drop(cut);
        let running = start(config(&dir), &app);
        let (records, _) = counts_on(&running, &words, &counted, round);
        assert!(records > 1000, "{records}");
    }
    assert_eq!(counts(&counted).len() as u64, WORDS);
}

/// Flips bytes all over a file, beyond its head.
fn damage(file: &PathBuf) {
    let open = fs::OpenOptions::new().read(true).write(true).open(file);
    let open = open.unwrap();
    let bytes = open.metadata().unwrap().len();
    for at in (4096..bytes).step_by(997) {
        let mut byte = [0];
        open.read_exact_at(&mut byte, at).unwrap();
        open.write_all_at(&[byte[0] ^ 0x55], at).unwrap();
    }
}
