//! A directory on a file system that is full, at any moment: sends, commits and steps fail with an error that says so; what was acknowledged
//! stays, and what was not does not appear; it goes on by itself once there is space.
//!
//! The file system is a small one in memory, mounted where this test alone sees it. That takes root, or a system that lets users have
//! namespaces of their own.
#![cfg(target_os = "linux")]

mod support;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use parsley_embedded::{
    Backoff, Host, HostError, OpenError, ReadError, Reads, Running, SendError, StepError,
    StorageError, TaskEnd, TaskState, TopicError,
};
use support::numbers::Numbers;
use support::process::{self, playing_by, role, say};
use support::shop::{self, Books};

/// How large the file system is.
const SIZE_BYTES: usize = 24 << 20;
const PAYLOAD_BYTES: usize = 2000;

/// The file system.
struct Small {
    ballast: PathBuf,
}

impl Small {
    fn new(mounted_at: &Path) -> Self {
        Self {
            ballast: mounted_at.join("ballast"),
        }
    }

    /// Takes all space but so much.
    fn leave(&self, bytes: u64) {
        let mut file = File::create(&self.ballast).unwrap();
        let block = vec![1; 64 << 10];
        let mut filled = 0;
        for block in [&block[..], &block[..4096]] {
            loop {
                match file.write(block) {
                    Ok(written) => filled += written as u64,
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                        break;
                    }
                }
            }
        }
        file.set_len(filled.saturating_sub(bytes)).unwrap();
    }

    fn make_space(&self) {
        fs::remove_file(&self.ballast).unwrap();
    }
}

/// What the producer has been told.
#[derive(Default)]
struct Told {
    next: u64,
    durable: BTreeSet<u64>,
    failed: BTreeSet<u64>,
    failed_commits: usize,
}

impl Told {
    /// Sends a record, or a transaction of three. Returns whether there was space.
    fn send(&mut self, host: &Host, numbers: &mut Numbers) -> bool {
        let mut record = |payload_bytes| {
            let topic = shop::FROM_OUTSIDE[numbers.below(2) as usize];
            self.next += 1;
            (self.next, shop::numbered(topic, self.next, payload_bytes))
        };
        if record(0).0 % 3 > 0 {
            let (number, record) = record(PAYLOAD_BYTES);
            let sent = host.producer().send(record);
            return self.note(&[number], sent.map(drop).map_err(full_of_send));
        }
        let mut transaction = host.producer().begin();
        let mut sent = Vec::new();
        for _ in 0..3 {
            let (number, record) = record(PAYLOAD_BYTES);
            transaction.send(record).unwrap();
            sent.push(number);
        }
        let committed = transaction.commit();
        self.failed_commits += usize::from(committed.is_err());
        self.note(&sent, committed)
    }

    fn note(&mut self, numbers: &[u64], outcome: Result<(), StorageError>) -> bool {
        let of = match &outcome {
            Ok(()) => &mut self.durable,
            Err(error) => {
                assert_full(error);
                &mut self.failed
            }
        };
        of.extend(numbers);
        outcome.is_ok()
    }

    /// Fails unless what was acknowledged is there and what failed is not.
    fn check(&self, host: &Host) -> Books {
        let books = Books::check(host.log());
        let topics = shop::FROM_OUTSIDE.into_iter();
        let there: BTreeSet<u64> = topics.flat_map(|topic| books.numbers(topic)).collect();
        self.assert_there(&there);
        books
    }

    fn assert_there(&self, there: &BTreeSet<u64>) {
        let lost: Vec<_> = self.durable.difference(there).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        let unasked: Vec<_> = there.difference(&self.durable).collect();
        assert!(unasked.is_empty(), "refused and there: {unasked:?}");
    }
}

fn assert_full(error: &StorageError) {
    assert!(matches!(error, StorageError::Full { .. }), "{error}");
}

fn full_of_send(error: SendError) -> StorageError {
    match error {
        SendError::Storage(error) => error,
        error => panic!("{error}"),
    }
}

/// A host over the directory; `None` when there is no space to open it.
fn open(dir: &Path) -> Option<Host> {
    // It tries again soon, and at its own pace.
    let backoff = Backoff {
        first: Duration::from_millis(1),
        longest: Duration::from_millis(20),
    };
    match Host::builder().backoff(backoff).data_dir(dir).build() {
        Ok(host) => Some(host),
        Err(HostError::Open(OpenError::Storage(error))) => {
            assert_full(&error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn start(host: &Host) -> Running {
    host.start(shop::app(&Arc::new(AtomicBool::new(false))))
        .unwrap()
}

/// How an attempt went.
#[derive(Default)]
struct Tally {
    attempts: usize,
    sends_failed: usize,
    commits_failed: usize,
    /// How many tasks failed, each counted once in an attempt.
    tasks_failed: usize,
    steps_failed: usize,
    /// How often there was no space to make a directory, to open one, to create a topic.
    not_made: usize,
    not_opened: usize,
    no_topic: usize,
    /// How often a read failed while the disk was full.
    not_read: usize,
    reads: usize,
}

impl Tally {
    /// Makes the directory with its topics, as far as there is space, and then for sure.
    fn make(&mut self, small: &Small, dir: &Path) -> Host {
        let host = open(dir).unwrap_or_else(|| {
            self.not_made += 1;
            small.make_space();
            open(dir).expect("there is space")
        });
        for topic in shop::TOPICS {
            if let Err(error) = shop::create(&host, topic) {
                let TopicError::Storage(error) = error else {
                    panic!("{error}");
                };
                assert_full(&error);
                self.no_topic += 1;
                if small.ballast.exists() {
                    small.make_space();
                }
                assert_eq!(host.log().topic_id(topic.0), None);
                shop::create(&host, topic).unwrap();
            }
        }
        host
    }

    /// Reads what came in, while there may be no space.
    fn read(&mut self, host: &Host, told: &Told) {
        self.reads += 1;
        let mut there = BTreeSet::new();
        for topic in shop::FROM_OUTSIDE {
            match host.consumer(topic).unwrap().read_to_end() {
                Ok(records) => there.extend(
                    records
                        .iter()
                        .map(|record| shop::number_of(&support::value_of(record))),
                ),
                Err(ReadError::Storage(error)) => {
                    assert_full(&error);
                    self.not_read += 1;
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
        told.assert_there(&there);
    }

    /// Runs the application until it and the producer have no space, then makes space: it goes on by itself, or after a restart.
    fn run_full(&mut self, small: &Small, dir: &Path, free: u64, numbers: &mut Numbers) {
        self.attempts += 1;
        let mut told = Told::default();
        small.leave(free);
        let host = self.make(small, dir);
        // Something for the tasks to do once there is no space.
        for _ in 0..30 {
            told.send(&host, numbers);
        }
        small.leave(free);
        let running = start(&host);
        while told.send(&host, numbers) {}
        // The tasks go on until they have no space either, or are done.
        let waited = running.wait_until_idle();
        for task in running.status().tasks {
            if let TaskState::Retrying { message, .. } = &task.state {
                assert!(message.starts_with("no space is left for "), "{message}");
                self.tasks_failed += 1;
            } else {
                assert_eq!(task.state, TaskState::Running, "{waited:?}");
            }
        }
        for _ in 0..5 {
            told.send(&host, numbers);
        }
        self.read(&host, &told);
        self.sends_failed += told.failed.len();
        self.commits_failed += told.failed_commits;
        if numbers.once_in(2) {
            small.make_space();
            running.wait_until_idle().reached().unwrap();
            running.stop().unwrap();
            told.send(&host, numbers);
            told.check(&host);
            drop((running, host));
        } else {
            running.stop().unwrap();
            drop((running, host));
            match open(dir) {
                Some(host) => self.read(&host, &told),
                None => self.not_opened += 1,
            }
            small.make_space();
        }
        let host = open(dir).expect("there is space");
        told.check(&host);
        let running = start(&host);
        running.wait_until_idle().reached().unwrap();
        running.stop().unwrap();
        told.check(&host).check_done();
        drop((running, host));
        fs::remove_dir_all(dir).unwrap();
    }

    /// Steps a task on a disk that is full: the step fails, is not there, and succeeds later.
    fn step_full(&mut self, small: &Small, dir: &Path, numbers: &mut Numbers) {
        let mut told = Told::default();
        let host = self.make(small, dir);
        while told.durable.len() < 40 {
            assert!(told.send(&host, numbers));
        }
        let app = shop::app(&Arc::new(AtomicBool::new(false)));
        let mut stepper = host.step_by_step(&app).unwrap();
        stepper.open("ship", 1).unwrap();
        // What is free within the file is gone as well: a step writes more than a record.
        small.leave(0);
        while told.send(&host, numbers) {}
        let Err(StepError::Ended {
            end: TaskEnd::Storage(error),
            given_up,
        }) = stepper.step("ship", 1, &Reads::everything())
        else {
            panic!("there is no space for the step");
        };
        assert_full(&error);
        assert!(!given_up.delivered.is_empty());
        self.steps_failed += 1;
        told.check(&host);
        small.make_space();
        stepper.open("ship", 1).unwrap();
        let again = stepper.step("ship", 1, &Reads::everything()).unwrap();
        assert_eq!(again.delivered, given_up.delivered);
        drop(stepper);
        told.check(&host);
        drop(host);
        fs::remove_dir_all(dir).unwrap();
    }
}

fn fill(mounted_at: &Path) {
    let began = Instant::now();
    let small = Small::new(mounted_at);
    let dir = mounted_at.join("data");
    let mut numbers = Numbers::of_seed(3);
    let mut tally = Tally::default();
    let grades = if cfg!(debug_assertions) { 4 } else { 60 };
    for grade in 0..grades {
        // Most of them small: a directory with nothing in it takes about 1 MiB.
        let free = match grade % 3 {
            0 => numbers.below(64 << 10),
            1 => numbers.below(2 << 20),
            _ => numbers.below(10 << 20),
        };
        tally.run_full(&small, &dir, free, &mut numbers);
    }
    for _ in 0..5 {
        tally.step_full(&small, &dir, &mut numbers);
    }
    let Tally {
        attempts,
        sends_failed,
        commits_failed,
        tasks_failed,
        steps_failed,
        not_made,
        not_opened,
        no_topic,
        not_read,
        reads,
    } = tally;
    say(format!(
        "filled {attempts} times in {:.1} s: no space for {sends_failed} records of producers, {commits_failed} commits of theirs, \
         {tasks_failed} tasks, {steps_failed} single steps, to make a directory {not_made} times, to open one {not_opened}, \
         to create a topic {no_topic}, to read {not_read} of {reads}",
        began.elapsed().as_secs_f64()
    ));
    assert!(commits_failed > 0 && tasks_failed > 0 && not_made > 0);
}

/// Begins to run a program where a small file system is mounted on a directory, which it and its children alone see.
fn mounting() -> Command {
    let script = format!(
        "mount -t tmpfs -o size={SIZE_BYTES} parsley-full-disk \"$PARSLEY_TEST_DIR\" && exec \"$@\""
    );
    let mut refused = String::new();
    for namespaces in ["-m", "-Urm"] {
        let place = tempfile::tempdir().unwrap();
        let with = |command: &mut Command| {
            command.args([namespaces, "sh", "-c", &script, "sh"]);
        };
        let mut probe = Command::new("unshare");
        with(&mut probe);
        let probed = probe
            .arg("true")
            .env("PARSLEY_TEST_DIR", place.path())
            .output();
        match probed {
            Ok(output) if output.status.success() => {
                let mut command = Command::new("unshare");
                with(&mut command);
                return command;
            }
            Ok(output) => refused += &String::from_utf8_lossy(&output.stderr),
            Err(error) => refused += &format!("unshare: {error}"),
        }
    }
    panic!("this test has to mount a file system, as root or in namespaces of its own: {refused}");
}

#[test]
fn a_full_disk_loses_nothing_and_is_got_over() {
    if let Some((_, dir)) = role() {
        return fill(Path::new(&dir));
    }
    let place = tempfile::tempdir().unwrap();
    const NAME: &str = "a_full_disk_loses_nothing_and_is_got_over";
    process::run(playing_by(mounting(), NAME, "fill", place.path()));
}
