//! A host in a process of its own, which tells what it does and what memory it takes, and can be killed.

use std::fmt;
use std::io::{BufRead, BufReader, Lines, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use parsley_kafka::{KafkaConfig, TaskState};
use parsley_stage::App;

use crate::per_second;
use crate::process::{self, forget_peak, memory, playing, said, say};
use crate::world::*;

/// How often it tells.
const EVERY: Duration = Duration::from_millis(20);

/// What a process tells of its only task. Words between blanks, in this order.
#[derive(Clone, Debug, Default)]
pub struct Told {
    pub state: String,
    /// Offsets of the changelogs that are still to be read back.
    pub left: u64,
    pub steps: u64,
    pub received: u64,
    pub held: u64,
    pub delivered: u64,
    pub resident_kib: u64,
    pub peak_kib: u64,
    /// How much time its processors have worked for it.
    pub worked_ms: u64,
    /// The code of what its first head waits for, or `-`.
    pub reason: String,
    /// When it was heard.
    pub at: Option<Instant>,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            state,
            left,
            steps,
            received,
            held,
            delivered,
            resident_kib,
            peak_kib,
            worked_ms,
            reason,
            ..
        } = self;
        write!(
            f,
            "{state} {left} {steps} {received} {held} {delivered} {resident_kib} {peak_kib} {worked_ms} {reason}"
        )
    }
}

impl Told {
    fn of(line: &str) -> Self {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("a word").to_owned();
        let state = word();
        let mut number = || word().parse().expect("a number");
        Self {
            state,
            left: number(),
            steps: number(),
            received: number(),
            held: number(),
            delivered: number(),
            resident_kib: number(),
            peak_kib: number(),
            worked_ms: number(),
            reason: word(),
            at: Some(Instant::now()),
        }
    }

    /// How fast something has been counted since it told that: records a second, and the time of its processors for each.
    pub fn rate_since(&self, before: &Self, count: impl Fn(&Self) -> u64) -> String {
        let records = count(self) - count(before);
        let time = self.at.unwrap() - before.at.unwrap();
        let worked_us = 1000 * (self.worked_ms - before.worked_ms);
        let each = worked_us as f64 / records.max(1) as f64;
        format!(
            "{}/s, {each:.1} µs of its processors each",
            per_second(records, time)
        )
    }

    pub fn is_open(&self) -> bool {
        self.state == "running" && self.steps > 0
    }
}

/// Plays the part: runs a host until its input ends.
pub fn play(config: KafkaConfig, app: &App) {
    if std::env::var_os("PARSLEY_TEST_LOG").is_some() {
        tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
            .with_writer(std::io::stderr)
            .init();
    }
    forget_peak();
    let running = start(config, app);
    let (input_ended, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        let _ = input_ended.send(());
    });
    while let Err(mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(EVERY) {
        let status = running.status();
        assert!(status.refused().is_empty(), "{status:#?}");
        let memory = memory();
        let mut told = Told {
            state: "joining".to_owned(),
            reason: "-".to_owned(),
            resident_kib: memory.resident_kib,
            peak_kib: memory.peak_kib,
            worked_ms: crate::worked().as_millis() as u64,
            ..Told::default()
        };
        if let Some((_, _, task)) = status.tasks().next() {
            told.state = match task.state {
                TaskState::Running => "running",
                TaskState::Restoring { .. } => "restoring",
                _ => "assigned",
            }
            .to_owned();
            if let TaskState::Restoring { left, .. } = task.state {
                told.left = left;
            }
            (told.steps, told.received) = (task.steps, task.received);
            (told.held, told.delivered) = (task.held, task.delivered);
            if let Some(wait) = task.holds.first().and_then(|hold| hold.waits.first()) {
                told.reason = wait.code.to_string();
            }
        }
        say(told);
    }
    stop(&running);
}

/// Such a process.
pub struct Run {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    begun: Instant,
}

impl Run {
    /// Starts the part `run` of a test on a state directory.
    pub fn start(test: &str, dir: &Path) -> Self {
        let mut child = playing(test, "run", dir)
            .env(BROKERS, bootstrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        Self {
            child,
            lines: BufReader::new(stdout).lines(),
            begun: Instant::now(),
        }
    }

    /// What it tells when it has come so far.
    pub fn until(&mut self, what: &str, is_reached: impl Fn(&Told) -> bool) -> Told {
        let bound = Instant::now() + BOUND * 10;
        let mut rest = String::new();
        for line in &mut self.lines {
            let line = line.unwrap();
            let Some(line) = said(&line) else {
                rest += &format!("{line}\n");
                continue;
            };
            let told = Told::of(line);
            if is_reached(&told) {
                return told;
            }
            assert!(Instant::now() < bound, "not {what}: {told}");
        }
        panic!("it ended, and is not {what}\n{rest}");
    }

    /// Waits until its task is open. Prints how long it took, from when it had the partition.
    pub fn open(&mut self, what: &str) -> Told {
        let assigned = self.until("assigned", |told| told.state != "joining");
        let open = self.until("open", Told::is_open);
        let at = |told: &Told| told.at.unwrap();
        println!(
            "  {what}: joined after {:.2} s, restored and open {:.2} s later, with {:.2} s of its processors; {} held, {} MiB resident, {} MiB at most",
            (at(&assigned) - self.begun).as_secs_f64(),
            (at(&open) - at(&assigned)).as_secs_f64(),
            (open.worked_ms - assigned.worked_ms) as f64 / 1e3,
            open.held,
            open.resident_kib >> 10,
            open.peak_kib >> 10,
        );
        open
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Has it stop and end, which has to go well.
    pub fn stop(mut self) {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        for line in &mut self.lines {
            let line = line.unwrap();
            if said(&line).is_none() {
                rest += &format!("{line}\n");
            }
        }
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}\n{rest}");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The state directory, in the process that plays the part.
pub fn part() -> Option<String> {
    process::role().map(|(_, dir)| dir)
}
