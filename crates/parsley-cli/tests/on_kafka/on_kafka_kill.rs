//! Two processes of `parsley demo --brokers`, killed with SIGKILL again and again, at random moments under load: nothing is lost, nothing is
//! delivered twice.
//!
//! A debug build runs a small one. `cargo test --release -p parsley-cli --test on_kafka on_kafka_kill` kills 20 times over 100,000 commands. The moments
//! are drawn from a seed, which is printed; `PARSLEY_KILL_SEED` sets it. What the processes did until then is not repeated by it.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::on_kafka_demo::{Place, checked, signal, summary};
use crate::running::parsley;
use crate::seeded::{Numbers, input};

/// How much is asked of the demo.
struct Scale {
    commands: u64,
    kills: u64,
    /// How many deliveries the kills are spread over: most of them, so that none finds the demo done.
    spread: u64,
    /// How long after a delivery a kill comes at most, in milliseconds.
    within: u64,
}

const SCALE: Scale = if cfg!(debug_assertions) {
    Scale {
        commands: 3_000,
        kills: 3,
        spread: 6_000,
        within: 300,
    }
} else {
    Scale {
        commands: 100_000,
        kills: 20,
        spread: 300_000,
        within: 1_000,
    }
};

/// What only guards against a run that never ends.
const BOUND: Duration = Duration::from_secs(900);

/// The two processes. One takes the commands of a file; the other's input is a pipe in which nothing comes, so that it delivers and feeds nothing.
/// Whoever is started shuts out the feeder before it: the first ends with 6 then, and is started again.
struct Processes<'a> {
    place: &'a Place,
    file: String,
    feeds: Child,
    delivers: Child,
}

impl<'a> Processes<'a> {
    fn start(place: &'a Place, file: String) -> Self {
        let delivers = Self::delivering(place);
        let feeds = Self::feeding(place, &file);
        Self {
            place,
            file,
            feeds,
            delivers,
        }
    }

    fn spawn(place: &Place, further: &[&str], stdout: Stdio) -> Child {
        // The group notices soon that a member has gone.
        let soon = ["--property", "session.timeout.ms=2000"];
        Command::new(env!("CARGO_BIN_EXE_parsley"))
            .args(place.arguments(&[&soon, further].concat()))
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts")
    }

    fn delivering(place: &Place) -> Child {
        Self::spawn(place, &["--input", "-"], Stdio::null())
    }

    fn feeding(place: &Place, file: &str) -> Child {
        let shown = File::create(place.at("shown")).expect("a file");
        let trace = place.at("trace").display().to_string();
        Self::spawn(place, &["--input", file, "--trace", &trace], shown.into())
    }

    /// Starts the feeder again if it was shut out. Returns whether it has come to the end.
    fn look_after(&mut self) -> bool {
        match ended(&mut self.feeds) {
            None => false,
            Some(0) => true,
            Some(code) => {
                assert_eq!(code, 6, "{}", said(&mut self.feeds));
                self.feeds = Self::feeding(self.place, &self.file);
                false
            }
        }
    }

    fn kill_one(&mut self, is_feeder: bool) {
        let child = if is_feeder {
            &mut self.feeds
        } else {
            &mut self.delivers
        };
        child.kill().expect("a child");
        child.wait().expect("it ends");
        match is_feeder {
            true => self.feeds = Self::feeding(self.place, &self.file),
            false => self.delivers = Self::delivering(self.place),
        }
    }

    /// Deliveries and holds in the account, with the markers beside them.
    fn progress(&self) -> i64 {
        self.place.ends()["demo-audit"].iter().sum()
    }
}

impl Drop for Processes<'_> {
    fn drop(&mut self) {
        for child in [&mut self.feeds, &mut self.delivers] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The exit code of a process that has ended by itself.
fn ended(child: &mut Child) -> Option<i32> {
    let status = child.try_wait().expect("a child")?;
    Some(status.code().expect("an exit code"))
}

fn said(child: &mut Child) -> String {
    let mut said = String::new();
    if let Some(stderr) = &mut child.stderr {
        std::io::Read::read_to_string(stderr, &mut said).expect("text");
    }
    said
}

#[test]
fn killed_at_any_moment_two_processes_on_brokers_lose_nothing_and_repeat_nothing() {
    let mut numbers = Numbers::seeded();
    let place = Place::new();
    // One that is asked for nothing makes the topics.
    let made = place.run(&["--create-topics", "--input", "-"]);
    assert_eq!((made.code, &*made.stderr), (0, ""));
    let (text, asked) = input(SCALE.commands, &mut numbers);
    let file = place.write("commands", &text);
    let last = 4 * SCALE.commands;

    let begun = Instant::now();
    let mut processes = Processes::start(&place, file.clone());
    for kill in 1..=SCALE.kills {
        // Most come under load, each in its part of the run and when there was a delivery since the last one; a few, whenever it may be, also into a start.
        let is_any = numbers.below(5) == 0;
        let is_feeder = numbers.below(2) == 0;
        let wait = Duration::from_millis(numbers.below(SCALE.within));
        let part = SCALE.spread / SCALE.kills;
        let part = ((kill - 1) * part + numbers.below(part)) as i64;
        let before = processes.progress().max(part);
        let mut at = is_any.then(|| Instant::now() + wait);
        while at.is_none_or(|at| Instant::now() < at) {
            assert!(!processes.look_after(), "it was done before kill {kill}");
            assert!(begun.elapsed() < BOUND, "nothing is delivered any more");
            if at.is_none() && processes.progress() > before {
                at = Some(Instant::now() + wait);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        processes.kill_one(is_feeder);
        println!(
            "{:5.1} s: kill {kill}, of the one that {}; the account's ends are {}",
            begun.elapsed().as_secs_f64(),
            if is_feeder { "feeds" } else { "delivers" },
            processes.progress()
        );
    }
    while !processes.look_after() {
        assert!(begun.elapsed() < BOUND, "it does not come to an end");
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("{:5.1} s: to the end", begun.elapsed().as_secs_f64());
    signal(&processes.delivers, "TERM");
    let status = processes.delivers.wait().expect("a child");
    assert_eq!(
        status.signal(),
        Some(15),
        "{}",
        said(&mut processes.delivers)
    );
    drop(processes);

    let run = place.run(&["--input", &file]);
    let summary = summary(&run);
    for (field, expected) in [
        ("commands", SCALE.commands),
        ("malformed", 0),
        ("delivered", last),
    ] {
        assert_eq!(summary[field], json!(expected), "{summary}");
    }
    // By the trace, and by nothing that the program says of it.
    let seen = checked(&place.at("trace"));
    assert_eq!(seen.commands, SCALE.commands);
    assert!(seen.asked == asked, "the commands are those of the input");
    // The views that anybody reads are those of a run in one process that nobody kills.
    let embedded = place.at("embedded").display().to_string();
    let alone = parsley(
        &["demo", "--json", "--input", &file, "--trace", &embedded],
        b"",
    );
    assert_eq!((alone.code, &*alone.stderr), (0, ""));
    assert!(place.views() == checked(Path::new(&embedded)).shown);
    println!("{:5.1} s: compared", begun.elapsed().as_secs_f64());

    // And by what stands in the topics.
    let brokers = place.cluster.bootstrap();
    let dumps = ["commands", "events", "views", "demo-audit"].map(|topic| {
        let path = place.at(&format!("{topic}.jsonl"));
        let dumped = Command::new(env!("CARGO_BIN_EXE_parsley"))
            .args([
                "topic",
                "dump",
                "--until-end",
                "--brokers",
                &brokers,
                "--topic",
                topic,
            ])
            .stdout(File::create(&path).expect("a file"))
            .status();
        assert!(dumped.expect("the program starts").success(), "{topic}");
        path.display().to_string()
    });
    let files = dumps.iter().map(String::as_str);
    let arguments: Vec<&str> = ["topic", "check"].into_iter().chain(files).collect();
    let judged = parsley(&arguments, b"");
    let summary = judged.lines().pop().expect("a line")["summary"].clone();
    println!("{:5.1} s: judged: {summary}", begun.elapsed().as_secs_f64());
    assert_eq!(judged.code, 0, "{}", judged.stdout);
    assert_eq!(summary["violations"], 0, "{summary}");
    assert_eq!(summary["deliveries"], last, "{summary}");
}
