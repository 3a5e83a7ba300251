//! A million records held behind one that is missing: what they take of memory while they come, after a restart, and while they are let
//! go of; how long the restart takes, and the release.
//!
//! Minutes of a release build: `cargo test --release -p parsley-embedded --test million_held -- --nocapture`.
#![cfg(target_os = "linux")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parsley_core::{Channel, Clock, Header, SenderId, wire};
use parsley_embedded::{Host, NewRecord, Running, TaskState, Transaction};
use parsley_stage::{App, Stage, Topic, codec};
use support::process::{self, forget_peak, memory, playing, say};

const PAYLOAD_BYTES: usize = 1024;
/// How much more memory the process may take than before the records came.
const GROWTH_KIB_MAX: u64 = 64 << 10;
/// Records of a transaction of the producer's.
const TRANSACTION_RECORDS: u64 = 500;
/// The sequence of the record that everything waits for.
const CAUSE_SEQUENCE: i64 = 7;

/// How many records, by default as many as the name says.
fn total() -> u64 {
    std::env::var("PARSLEY_HELD_RECORDS").map_or(1_000_000, |number| number.parse().unwrap())
}

/// How the records are held.
#[derive(Clone, Copy)]
struct Shape {
    inputs: u64,
    /// Whether their clocks claim the cause by its sender's sequence, and they have a sequence themselves. By offset otherwise.
    by_sequence: bool,
    /// Whether all of them are in the log before the task runs, so that it reads them from the directory.
    are_there_first: bool,
}

impl Shape {
    fn input(number: u64) -> String {
        format!("input-{number:02}")
    }

    fn inputs(self) -> impl Iterator<Item = String> {
        (0..self.inputs).map(Self::input)
    }

    fn each(self) -> u64 {
        total() / self.inputs
    }

    /// What a record of an input has in its headers, the first one of which is number 1.
    fn headers(self, cause: Channel, input: u64, number: u64) -> Vec<Header> {
        let mut clock = Clock::new();
        if !self.by_sequence {
            clock.claim_offset(cause, 0);
            return vec![Header::new(wire::CLOCK_HEADER, wire::encode(&clock))];
        }
        let sender = SenderId::of_name("elsewhere");
        clock.claim_sequence(cause, sender, CAUSE_SEQUENCE);
        // What its sender had sent before, to where this task is not fed from.
        let other = parsley_core::TopicId::of_name("other").partition(input as i32);
        clock.claim_sequence(other, sender, number as i64);
        wire::stamp_headers(wire::encode(&clock).into(), sender, number as i64).into()
    }

    /// The record that everything waits for.
    fn cause(self) -> NewRecord {
        let cause = NewRecord::to("cause").key("k").value("at last");
        if !self.by_sequence {
            return cause;
        }
        let no_claims = wire::encode(&Clock::new()).into();
        let sender = SenderId::of_name("elsewhere");
        cause.headers(wire::stamp_headers(no_claims, sender, CAUSE_SEQUENCE))
    }

    /// Keeps the cause from being missed. A claim by offset waits until something is there; one by sequence no longer does once everything
    /// that there is has been read, so that the cause has to be written, and its transaction open.
    fn keep_back(self, host: &Host) -> Option<Transaction> {
        self.by_sequence.then(|| {
            let mut transaction = host.producer().begin();
            transaction.send(self.cause()).unwrap();
            transaction
        })
    }
}

fn payload(input: u64, number: u64) -> Vec<u8> {
    let mut payload = vec![(number % 251) as u8; PAYLOAD_BYTES];
    payload[..8].copy_from_slice(&input.to_be_bytes());
    payload[8..16].copy_from_slice(&number.to_be_bytes());
    payload
}

/// What the logic saw.
#[derive(Default)]
struct Seen {
    causes: AtomicU64,
    /// The number of the last record of each input.
    last: Vec<AtomicU64>,
}

impl Seen {
    fn all(&self) -> u64 {
        self.last
            .iter()
            .map(|last| last.load(Ordering::Relaxed))
            .sum()
    }
}

/// One stage on the cause and all inputs, which fails on a record that is not the next one or not whole.
fn app(shape: Shape) -> (App, Arc<Seen>) {
    let seen = Arc::new(Seen {
        last: shape.inputs().map(|_| AtomicU64::new(0)).collect(),
        ..Seen::default()
    });
    let cause = Topic::new("cause", codec::string(), codec::string());
    let mut stage = Stage::stateless("wait").on(&cause, {
        let seen = Arc::clone(&seen);
        move |_, _| {
            seen.causes.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    });
    for (input, name) in (0..).zip(shape.inputs()) {
        let topic = Topic::new(&*name, codec::string(), codec::bytes());
        let seen = Arc::clone(&seen);
        stage = stage.on(&topic, move |message, _| {
            if message.topic.starts_with("input") && seen.causes.load(Ordering::Relaxed) == 0 {
                return Err("an effect before its cause".into());
            }
            let last = &seen.last[input as usize];
            let number = last.fetch_add(1, Ordering::Relaxed) + 1;
            match message.value[..] == payload(input, number) {
                true => Ok(()),
                false => Err(format!("not record {number} of input {input}").into()),
            }
        });
    }
    let stage = stage.build().unwrap();
    (App::named("held").stage(stage).build().unwrap(), seen)
}

fn start(host: &Host, shape: Shape) -> (Running, Arc<Seen>) {
    let (app, seen) = app(shape);
    (host.start(app).unwrap(), seen)
}

/// Waits until so many records are held. Fails with what the task says if it does not run.
fn wait_until_held(running: &Running, held: u64) {
    running
        .wait(|status| {
            let task = &status.tasks[0];
            assert_eq!(task.state, TaskState::Running);
            task.held == held && task.steps > 0
        })
        .reached()
        .unwrap();
}

fn per_second(records: u64, time: Duration) -> u64 {
    (records as f64 / time.as_secs_f64()) as u64
}

fn mib(kib: u64) -> String {
    format!("{:.1} MiB", kib as f64 / 1024.0)
}

/// What the process takes beyond what it took, at most; not too much.
fn growth(base_kib: u64, when: &str) -> String {
    let peak = memory().peak_kib.saturating_sub(base_kib);
    assert!(
        peak < GROWTH_KIB_MAX,
        "{} more than before, {when}",
        mib(peak)
    );
    mib(peak)
}

/// Everything comes and is held.
fn take_in(dir: &Path, shape: Shape) {
    let host = Host::open(dir).unwrap();
    host.create_topic("cause", 1).unwrap();
    for input in shape.inputs() {
        host.create_topic(&input, 1).unwrap();
    }
    let cause = host.log().topic_id("cause").unwrap().partition(0);
    let kept_back = shape.keep_back(&host);
    let (running, _seen) = start(&host, shape);
    running.wait_until_idle().reached().unwrap();
    forget_peak();
    let base = memory().resident_kib;
    let running = match shape.are_there_first {
        true => {
            running.stop().unwrap();
            None
        }
        false => Some(running),
    };

    let began = Instant::now();
    let producer = host.producer();
    let mut sent = 0;
    while sent < shape.each() {
        let until = (sent + TRANSACTION_RECORDS).min(shape.each());
        for input in 0..shape.inputs {
            let mut transaction = producer.begin();
            for number in sent + 1..=until {
                let record = NewRecord::to(Shape::input(input))
                    .key("k")
                    .value(payload(input, number))
                    .headers(shape.headers(cause, input, number));
                transaction.send(record).unwrap();
            }
            transaction.commit().unwrap();
        }
        sent = until;
    }
    let written = began.elapsed();
    let running = running.unwrap_or_else(|| start(&host, shape).0);
    wait_until_held(&running, shape.each() * shape.inputs);
    let taken = began.elapsed();
    let all = shape.each() * shape.inputs;
    say(format!(
        "taken in: {:.1} s ({}/s), written {:.1} s, {} more memory than the {} before",
        taken.as_secs_f64(),
        per_second(all, taken),
        written.as_secs_f64(),
        growth(base, "while they came"),
        mib(base)
    ));
    running.stop().unwrap();
    drop((kept_back, running, host));
    let size = std::fs::metadata(dir.join("log.redb")).unwrap().len();
    say(format!(
        "on disk: {} for {} of payloads",
        mib(size / 1024),
        mib(all * PAYLOAD_BYTES as u64 / 1024)
    ));
}

/// The application starts with everything held; then what it waits for comes.
fn let_go(dir: &Path, shape: Shape) {
    let all = shape.each() * shape.inputs;
    forget_peak();
    let base = memory().resident_kib;
    let began = Instant::now();
    let host = Host::open(dir).unwrap();
    let opened = began.elapsed();
    let kept_back = shape.keep_back(&host);
    let (running, seen) = start(&host, shape);
    wait_until_held(&running, all);
    // How long it takes is said and not judged: it is the disk's, and what else the machine does.
    say(format!(
        "restart: {:.2} s, {:.2} s of them the opening of the directory, {} more memory than the {} before",
        began.elapsed().as_secs_f64(),
        opened.as_secs_f64(),
        growth(base, "after the restart"),
        mib(base)
    ));

    let began = Instant::now();
    match kept_back {
        Some(transaction) => transaction.commit().unwrap(),
        None => drop(host.producer().send(shape.cause()).unwrap()),
    }
    running
        .wait(|status| {
            let task = &status.tasks[0];
            assert_eq!(task.state, TaskState::Running);
            task.held == 0 && task.delivered == all + 1
        })
        .reached()
        .unwrap();
    let released = began.elapsed();
    assert_eq!(seen.all(), all);
    say(format!(
        "released: {:.1} s ({}/s), each input in order, {} more memory",
        released.as_secs_f64(),
        per_second(all, released),
        growth(base, "while they were released")
    ));
    running.stop().unwrap();
}

fn hold_and_release(test: &str, shape: Shape) {
    match process::role() {
        Some((role, dir)) if role == "take in" => take_in(Path::new(&dir), shape),
        Some((_, dir)) => let_go(Path::new(&dir), shape),
        None => {
            let parent = tempfile::tempdir().unwrap();
            let dir = parent.path().join("data");
            println!("{test}, {} records:", shape.each() * shape.inputs);
            for role in ["take in", "let go"] {
                process::run(playing(test, role, &dir));
            }
        }
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "minutes of a release build")]
fn a_million_in_one_channel() {
    let shape = Shape {
        inputs: 1,
        by_sequence: false,
        are_there_first: false,
    };
    hold_and_release("a_million_in_one_channel", shape);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "minutes of a release build")]
fn a_million_in_sixteen_channels() {
    let shape = Shape {
        inputs: 16,
        by_sequence: false,
        are_there_first: true,
    };
    hold_and_release("a_million_in_sixteen_channels", shape);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "minutes of a release build")]
fn a_million_that_wait_by_sequence() {
    let shape = Shape {
        inputs: 16,
        by_sequence: true,
        are_there_first: false,
    };
    hold_and_release("a_million_that_wait_by_sequence", shape);
}
