//! `parsley demo --brokers`. The demo's topics have fixed names, so each test has a broker of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use kafka_cluster::{ClusterConfig, KafkaCluster};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::Value;
use tempfile::TempDir;

use crate::causality::{self, Account};
use crate::running::{Run, parsley};
use crate::world::{BOUND, Foreign, create_topic_on, delete_topic_on, start};

/// The demo's topics and their partitions.
const TOPICS: [(&str, i32); 6] = [
    ("commands", 2),
    ("events", 2),
    ("views", 2),
    ("findings", 2),
    ("demo-audit", 2),
    ("demo-input", 1),
];

/// A broker, and a place for files.
pub struct Place {
    pub cluster: KafkaCluster,
    files: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let cluster = start(ClusterConfig::default());
        let files = tempfile::tempdir().expect("a directory");
        Self { cluster, files }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.at(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    pub fn arguments(&self, further: &[&str]) -> Vec<String> {
        let brokers = self.cluster.bootstrap();
        let arguments = [&["demo", "--json", "--brokers", &brokers], further].concat();
        arguments.into_iter().map(str::to_owned).collect()
    }

    pub fn run(&self, further: &[&str]) -> Run {
        parsley(&self.arguments(further), b"")
    }

    /// Starts a run that goes on beside the test.
    fn spawn(&self, further: &[&str]) -> Child {
        spawn(&self.arguments(further))
    }

    /// The ends of all partitions, by topic.
    pub fn ends(&self) -> BTreeMap<&'static str, Vec<i64>> {
        let asker: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", self.cluster.bootstrap())
            .create()
            .expect("a client");
        let ends = |(topic, partitions)| {
            let end = |partition| {
                let bounds = asker.fetch_watermarks(topic, partition, BOUND);
                bounds.expect("an answer").1
            };
            (topic, (0..partitions).map(end).collect())
        };
        TOPICS.into_iter().map(ends).collect()
    }

    /// The last view of each account, as anybody reads it.
    pub fn views(&self) -> BTreeMap<String, Account> {
        let brokers = self.cluster.bootstrap();
        let dump = ["topic", "dump", "--brokers", &brokers, "--topic", "views"];
        let dumped = parsley(&[&dump[..], &["--until-end"]].concat(), b"");
        assert_eq!((dumped.code, &*dumped.stderr), (0, ""));
        let mut views = BTreeMap::new();
        // Those of an account are on one partition, and come in their order.
        for line in dumped.lines() {
            let account = line["key"].as_str().expect("text").to_owned();
            let value = line["value"].as_str().expect("text");
            let value: Value = serde_json::from_str(value).expect("JSON");
            let number = |field: &str| value[field].as_u64().expect("a number");
            let (balance, rejected) = (number("balance"), number("rejected"));
            views.insert(account, Account { balance, rejected });
        }
        views
    }
}

pub fn spawn(arguments: &[String]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_parsley"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// Reads that many lines of a run, and has the rest read beside the test, so that the run never waits for its reader. Returns how many came.
pub fn read_lines(child: &mut Child, count: usize) -> usize {
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let (mut line, mut read) = (String::new(), 0);
    while read < count && stdout.read_line(&mut line).expect("a pipe") > 0 {
        read += 1;
    }
    std::thread::spawn(move || drop(std::io::copy(&mut stdout, &mut std::io::sink())));
    read
}

pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status();
    assert!(sent.expect("kill").success());
}

/// Waits for a run to end. Returns what it said on standard error.
pub fn ended(mut child: Child) -> (ExitStatus, String) {
    let until = Instant::now() + BOUND;
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() >= until {
            let _ = child.kill();
            panic!("it has not ended within {BOUND:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut said = String::new();
    let mut stderr = child.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut said).expect("text");
    (child.wait().expect("it has ended"), said)
}

/// The summary of a run that went well.
pub fn summary(run: &Run) -> Value {
    assert_eq!((run.code, &*run.stderr), (0, ""), "{}", run.stdout);
    let last = run.lines().pop().expect("a line");
    let summary = last["summary"].clone();
    assert_eq!(summary["views_match"], true, "{last}");
    assert_eq!(summary["inversions_delivered"], 0, "{last}");
    let commands = summary["commands"].as_u64().expect("a number");
    assert_eq!(summary["delivered"], 4 * commands, "{last}");
    summary
}

pub fn checked(trace: &Path) -> causality::Checked {
    let checked = causality::check(&fs::read_to_string(trace).expect("a trace"));
    assert_eq!(checked.faults, Vec::<String>::new());
    assert_eq!(checked.deliveries, 4 * checked.commands);
    assert_eq!(
        (
            checked.inversions_by_causality,
            checked.inversions_by_claims
        ),
        (0, 0)
    );
    assert!(checked.views_match());
    checked
}

/// Commands on some accounts, and what they ask of each.
fn input(commands: u64, prefix: &str) -> (String, BTreeMap<String, Vec<i128>>) {
    let mut text = String::new();
    let mut asked = BTreeMap::<String, Vec<i128>>::new();
    for number in 0..commands {
        let account = format!("{prefix}-{}", number % 37);
        let amount = 1 + number % 89;
        let (what, change) = match number % 5 {
            0 | 2 | 3 => ("deposit", i128::from(amount)),
            _ => ("withdraw", -i128::from(amount)),
        };
        writeln!(text, "{{\"account\":\"{account}\",\"{what}\":{amount}}}").expect("memory");
        asked.entry(account).or_default().push(change);
    }
    (text, asked)
}

#[test]
fn on_brokers_the_demo_comes_to_the_views_that_it_comes_to_in_a_process() {
    let place = Place::new();
    let missing = place.run(&[]);
    assert_eq!((missing.code, &*missing.stdout), (2, ""));
    let brokers = place.cluster.bootstrap();
    assert_eq!(
        missing.stderr,
        format!(
            "parsley: these topics do not exist: commands, events, views, findings, demo-audit, demo-input; \
             `parsley demo --brokers {brokers} --create-topics` makes them\n"
        )
    );

    let trace = place.at("trace").display().to_string();
    let first = place.run(&["--create-topics", "--trace", &trace]);
    let on_brokers = summary(&first);
    assert_eq!(on_brokers["commands"], 1000);
    let held = on_brokers["held"].as_u64().expect("a number");
    assert_eq!(held, first.lines().len() as u64 - 1);
    let seen = checked(Path::new(&trace));
    assert_eq!(
        on_brokers["inversions_prevented"], seen.inversions_by_arrival,
        "{on_brokers}"
    );
    // The adversary is late enough for some.
    assert!(seen.inversions_by_arrival > 0);

    let embedded_trace = place.at("embedded").display().to_string();
    let embedded = parsley(&["demo", "--json", "--trace", &embedded_trace], b"");
    let in_process = summary(&embedded);
    for field in ["commands", "malformed", "delivered", "views_match"] {
        assert_eq!(on_brokers[field], in_process[field], "{field}");
    }
    let shown = checked(Path::new(&embedded_trace)).shown;
    assert_eq!(seen.shown, shown);
    assert_eq!(place.views(), shown);

    // A second run appends nothing, and shows the same.
    let ends = place.ends();
    let again = place.run(&[]);
    assert_eq!(summary(&again), on_brokers);
    assert_eq!(place.ends(), ends);

    // Another input, on top of that. It is taken once, and only the one that was begun with.
    let (text, asked) = input(400, "file");
    let file = place.write("input", &text);
    assert_eq!(summary(&place.run(&["--input", &file]))["commands"], 1400);
    let ends = place.ends();
    assert_eq!(summary(&place.run(&["--input", &file]))["commands"], 1400);
    assert_eq!(place.ends(), ends);
    let alone = place.at("alone").display().to_string();
    let run = parsley(&["demo", "--input", &file, "--trace", &alone], b"");
    assert_eq!((run.code, &*run.stderr), (0, ""));
    let alone = checked(Path::new(&alone));
    assert_eq!(alone.asked, asked);
    let all: BTreeMap<_, _> = shown.into_iter().chain(alone.shown).collect();
    assert_eq!(place.views(), all);
    let other = place.write("other", &text.replace("deposit", "withdraw"));
    let refused = place.run(&["--input", &other]);
    assert_eq!((refused.code, &*refused.stdout), (2, ""));
    assert!(
        refused
            .stderr
            .contains("is not what these topics were begun with"),
        "{}",
        refused.stderr
    );
    assert_eq!(place.ends(), ends);
}

/// Killed twice and asked to stop once, the demo is started again, each time with a part of the input taken.
#[test]
fn killed_on_brokers_and_started_again_the_demo_delivers_each_once() {
    let place = Place::new();
    let (text, asked) = input(4000, "account");
    let file = place.write("input", &text);
    let trace = place.at("trace").display().to_string();
    let arguments = ["--create-topics", "--input", &file, "--trace", &trace];
    for (shown, name) in [(1, "KILL"), (600, "TERM"), (1500, "KILL")] {
        let mut child = place.spawn(&arguments);
        let read = read_lines(&mut child, shown);
        assert_eq!(read, shown, "it has ended: {:?}", ended(child));
        signal(&child, name);
        let (status, said) = ended(child);
        let by = std::os::unix::process::ExitStatusExt::signal(&status);
        match name {
            "KILL" => assert_eq!(by, Some(9), "{said}"),
            _ => {
                assert_eq!(by, Some(15), "{said}");
                assert_eq!(
                    said,
                    "parsley: stopped before all was delivered; what was done is kept, and the next run goes on from there\n"
                );
            }
        }
    }
    let run = place.run(&arguments);
    assert_eq!(summary(&run)["commands"], 4000);
    let seen = checked(Path::new(&trace));
    assert_eq!(seen.asked, asked);
    assert_eq!(
        summary(&run)["inversions_prevented"],
        seen.inversions_by_arrival
    );
    assert_eq!(place.views(), seen.shown);
    let ends = place.ends();
    assert_eq!(summary(&place.run(&arguments)), summary(&run));
    assert_eq!(place.ends(), ends);
}

/// The second process takes over the feeding and shares the stages; whatever becomes of the first, each command is delivered once.
#[test]
fn two_processes_on_brokers_deliver_each_command_once() {
    let place = Place::new();
    let (text, asked) = input(4000, "account");
    let file = place.write("input", &text);
    let mut first = place.spawn(&["--create-topics", "--input", &file]);
    assert_eq!(read_lines(&mut first, 1), 1, "{:?}", ended(first));
    let trace = place.at("trace").display().to_string();
    let second = place.run(&["--input", &file, "--trace", &trace]);
    assert_eq!(summary(&second)["commands"], 4000);
    let (status, said) = ended(first);
    match status.code() {
        // It had fed all before the second came.
        Some(0) => assert_eq!(said, ""),
        code => {
            assert_eq!(code, Some(6), "{said}");
            assert!(
                said.starts_with("parsley: another run of the demo feeds these topics by now"),
                "{said}"
            );
        }
    }
    let seen = checked(Path::new(&trace));
    assert_eq!(seen.asked, asked);
    assert_eq!(place.views(), seen.shown);
}

/// A run over what was done ended, with exit code 0, before its tasks were opened, so that none of them could say that its state was deleted.
/// And where processes have more workers than there are partitions, one without any is as much at rest as the others.
#[test]
fn the_demo_does_not_end_over_state_that_is_lost() {
    let place = Place::new();
    let first = summary(&place.run(&["--create-topics"]));
    let all = std::thread::scope(|scope| {
        let runs = [(); 3].map(|()| scope.spawn(|| place.run(&[])));
        runs.map(|run| run.join().expect("a run"))
    });
    for run in &all {
        assert_eq!(summary(run), first);
    }

    let ends = place.ends();
    delete_topic_on(&place.cluster.bootstrap(), "demo-commander-state-changelog");
    let run = place.run(&[]);
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("commander"), "{}", run.stderr);
    assert_eq!(place.ends(), ends);

    // A topic that was made anew is another one, and nothing is begun on it.
    delete_topic_on(&place.cluster.bootstrap(), "views");
    let run = place.run(&["--create-topics"]);
    assert_eq!((run.code, &*run.stdout), (2, ""), "{}", run.stderr);
    let said = "parsley: topic views is not the one that the runs before had";
    assert!(run.stderr.starts_with(said), "{}", run.stderr);
    assert_eq!(place.ends()["commands"], ends["commands"]);
}

/// One of these runs, in two dozen, never ended: a client that had asked for a topic a moment too early went on to say that there is none. And one
/// ended with 6, as a partition that was just made had no leader yet.
#[test]
fn on_brokers_the_topics_of_something_else_are_refused_and_named() {
    let place = Place::new();
    let brokers = place.cluster.bootstrap();
    let refusal = || {
        let run = place.run(&["--create-topics"]);
        assert_eq!((run.code, &*run.stdout), (2, ""), "{}", run.stderr);
        run.stderr
    };
    create_topic_on(&brokers, "commands", 3);
    assert_eq!(
        refusal(),
        "parsley: the cluster has the topics of another application: topic commands has 3 partitions, and 2 in the demo; \
         expected those of the demo, or none\n"
    );
    delete_topic_on(&brokers, "commands");
    create_topic_on(&brokers, "commands", 2);
    let foreign = Foreign::of(&brokers);
    foreign.text("commands", 1, "ada", r#"{"deposit":5}"#);
    let said = refusal();
    assert!(
        said.contains("topic commands has records that topic demo-input does not know of"),
        "{said}"
    );
    foreign.text("views", 0, "ada", "nothing of the demo's");
    let said = refusal();
    assert!(
        said.contains("views:0@0 is no record of the demo: "),
        "{said}"
    );
    assert_eq!(place.ends()["commands"], [0, 1]);
    assert_eq!(place.ends()["demo-input"], [0]);
}

/// Where nobody answers, that is said once, and a signal ends the wait.
#[test]
fn a_cluster_that_does_not_answer_is_asked_until_the_demo_is_stopped() {
    // Nobody listens on a port that was just given up.
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").port()
    };
    let brokers = format!("127.0.0.1:{port}");
    for name in ["INT", "TERM"] {
        let arguments = ["demo", "--brokers", &brokers].map(str::to_owned);
        let mut child = spawn(&arguments);
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut said = String::new();
        stderr.read_line(&mut said).expect("text");
        assert!(
            said.starts_with(&format!("parsley: no answer from {brokers} ("))
                && said.ends_with("; trying on\n"),
            "{said}"
        );
        signal(&child, name);
        let status = child.wait().expect("it ends");
        let by = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(by, Some(if name == "INT" { 2 } else { 15 }));
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).expect("text");
        assert_eq!(rest.lines().count(), 1, "{rest}");
    }
}

#[test]
fn what_the_command_line_cannot_mean_is_refused() {
    let wrong: [(&[&str], &str); 6] = [
        (&["--brokers", "a:1", "--data", "x"], "cannot be used with"),
        (&["--create-topics"], "--brokers"),
        (&["--property", "a=b"], "--brokers"),
        (&["--brokers", "a:1", "--property", "acks"], "KEY=VALUE"),
        (&["--brokers", "a:1", "--property", "acks=1"], "acks"),
        (
            &["--brokers", "a:1", "--property", "no.such=x"],
            "argument 1 of --property",
        ),
    ];
    for (further, said) in wrong {
        let run = parsley(&[&["demo"], further].concat(), b"");
        assert_eq!(
            (run.code, &*run.stdout),
            (2, ""),
            "{further:?}: {}",
            run.stderr
        );
        assert!(run.stderr.contains(said), "{}", run.stderr);
    }
}
