//! A process that is killed: what it had acknowledged is in the directory, every effect is there once, and the next process goes on. And two
//! processes that want one directory.
#![cfg(target_os = "linux")]

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Lines, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use parsley_embedded::{Host, HostError, Log, LogConfig, OpenError, Running};
use support::numbers::Numbers;
use support::process::{playing, role, said, say};
use support::shop::{self, Books};

const KILLS: usize = 20;
const PRODUCERS: u64 = 3;
/// Numbers of a producer's records begin at its own multiple of this.
const APART: u64 = 1_000_000;
const PAYLOAD_BYTES: usize = 300;

/// A process that plays a part, and that does not outlive the test.
struct Other {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(test: &str, role: &str, dir: &Path) -> Self {
        let mut command = playing(test, role, dir);
        // Its standard input ends with this process.
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line that it says; `None` when it is over.
    fn next(&mut self) -> Option<String> {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        lines.find_map(|line| said(&line).map(str::to_owned))
    }

    /// Kills it, and returns what else it had said.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        let said = std::iter::from_fn(|| self.next()).collect();
        self.child.wait().unwrap();
        said
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Works on until it is killed, and says what it has been told is durable.
fn work(dir: &Path) {
    say("opens");
    let host = Host::open(dir).unwrap();
    for topic in shop::TOPICS {
        if host.log().topic_id(topic.0).is_none() {
            shop::create(&host, topic).unwrap();
        }
    }
    // Whatever became of what was under way: the numbers that are there are not used again.
    let mut sent = BTreeSet::new();
    for topic in shop::FROM_OUTSIDE {
        let records = host.consumer(topic).unwrap().read_to_end().unwrap();
        sent.extend(
            records
                .iter()
                .map(|record| shop::number_of(support::value_of(record).as_str())),
        );
    }
    let _running = start(&host);
    say("works");
    std::thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let own = sent.range(producer * APART..(producer + 1) * APART);
            let next = own.last().map_or(producer * APART, |last| last + 1);
            let host = &host;
            scope.spawn(move || send_on(host, next));
        }
        // The test is gone if it says nothing more.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
}

fn start(host: &Host) -> Running {
    host.start(shop::app(&Arc::new(AtomicBool::new(false))))
        .unwrap()
}

/// Sends records one by one and some together, on both topics, and some in vain.
fn send_on(host: &Host, mut next: u64) {
    let producer = host.producer();
    let mut numbers = Numbers::of_seed(next);
    loop {
        let mut record = || {
            let topic = shop::FROM_OUTSIDE[numbers.below(2) as usize];
            next += 1;
            (next - 1, shop::numbered(topic, next - 1, PAYLOAD_BYTES))
        };
        let (first, alone) = record();
        producer.send(alone).unwrap();
        say(format!("has {first}"));
        let (mut transaction, mut sent) = (producer.begin(), Vec::new());
        for _ in 0..3 {
            let (number, record) = record();
            transaction.send(record).unwrap();
            sent.push(number.to_string());
        }
        let sent = sent.join(" ");
        match numbers.once_in(5) {
            true => {
                transaction.abort();
                say(format!("withdraws {sent}"));
            }
            false => {
                say(format!("commits {sent}"));
                transaction.commit().unwrap();
                say(format!("has {sent}"));
            }
        }
    }
}

/// The numbers in what a process says of one kind. Those of a line are of one transaction.
fn numbers_in<'a>(lines: &'a [String], kind: &'a str) -> impl Iterator<Item = BTreeSet<u64>> + 'a {
    let numbers = lines.iter().filter_map(move |line| line.strip_prefix(kind));
    numbers.map(|numbers| {
        let numbers = numbers.split_whitespace().map(str::parse);
        numbers.collect::<Result<_, _>>().unwrap()
    })
}

#[test]
fn what_was_acknowledged_is_there_and_its_effects_are_there_once() {
    const NAME: &str = "what_was_acknowledged_is_there_and_its_effects_are_there_once";
    if let Some((_, dir)) = role() {
        return work(Path::new(&dir));
    }
    let began = Instant::now();
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let mut numbers = Numbers::of_seed(11);
    let mut acknowledged_so_far: BTreeSet<u64> = BTreeSet::new();
    let (mut before_work, mut unacknowledged) = (0, 0);
    for round in 0..KILLS {
        let mut other = Other::start(NAME, "work", &dir);
        assert_eq!(other.next().as_deref(), Some("opens"));
        let mut lines = Vec::new();
        // Every fifth one dies while it opens the directory, or soon after.
        let wanted = match round % 5 {
            4 => numbers.below(2),
            _ => 1 + numbers.below(400),
        };
        while (lines.len() as u64) < wanted {
            lines.push(other.next().expect("it works on until it is killed"));
        }
        lines.extend(other.kill());
        before_work += usize::from(!lines.iter().any(|line| line == "works"));
        acknowledged_so_far.extend(numbers_in(&lines, "has").flatten());

        let log = Log::open(&dir, LogConfig::default()).unwrap();
        if acknowledged_so_far.is_empty() && log.topics().len() < shop::TOPICS.len() {
            continue;
        }
        let books = Books::check(&log);
        let topics = shop::FROM_OUTSIDE.into_iter();
        let there: BTreeSet<u64> = topics.flat_map(|topic| books.numbers(topic)).collect();
        let lost: Vec<_> = acknowledged_so_far.difference(&there).collect();
        assert!(lost.is_empty(), "lost in round {round}: {lost:?}");
        for together in numbers_in(&lines, "commits") {
            let is_whole = together.is_subset(&there) || together.is_disjoint(&there);
            assert!(is_whole, "a part of {together:?} in round {round}");
        }
        for withdrawn in numbers_in(&lines, "withdraws") {
            assert!(
                withdrawn.is_disjoint(&there),
                "{withdrawn:?} in round {round}"
            );
        }
        // What was under way may have become durable, or not.
        unacknowledged += there.len() - acknowledged_so_far.len();
        acknowledged_so_far = there;
    }
    let host = Host::open(&dir).unwrap();
    let running = start(&host);
    running.wait_until_idle().reached().unwrap();
    running.stop().unwrap();
    Books::check(host.log()).check_done();
    println!(
        "{KILLS} kills, {before_work} of them before it worked: {} records durable, {unacknowledged} of them not \
         acknowledged, in {:.1} s",
        acknowledged_so_far.len(),
        began.elapsed().as_secs_f64()
    );
    assert!(acknowledged_so_far.len() > 1000, "there was work");
}

/// Has the directory open until it is killed.
fn have_open(dir: &Path) {
    let _host = Host::open(dir).unwrap();
    say("has it open");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

#[test]
fn a_second_process_is_told_who_has_the_directory_and_gets_it_next() {
    const NAME: &str = "a_second_process_is_told_who_has_the_directory_and_gets_it_next";
    match role() {
        Some((role, dir)) if role == "have open" => return have_open(Path::new(&dir)),
        Some((_, dir)) => {
            // The other way round: this process is the second one.
            return say(format!("{:?}", Host::open(dir).err()));
        }
        None => {}
    }
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let mut other = Other::start(NAME, "have open", &dir);
    assert_eq!(other.next().as_deref(), Some("has it open"));
    let refused = Log::open(&dir, LogConfig::default()).unwrap_err();
    let in_use_by = |process| OpenError::InUse {
        dir: dir.clone(),
        process: Some(process),
    };
    assert_eq!(refused, in_use_by(other.child.id()));
    other.kill();
    let host = Host::open(&dir).unwrap();
    let second = Other::start(NAME, "be second", &dir).next();
    let refused = HostError::Open(in_use_by(std::process::id()));
    assert_eq!(second, Some(format!("{:?}", Some(refused))));
    drop(host);
    let second = Other::start(NAME, "be second", &dir).next();
    assert_eq!(second.as_deref(), Some("None"));
}
