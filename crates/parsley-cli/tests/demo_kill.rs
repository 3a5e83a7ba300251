//! `parsley demo --data DIR`, killed with SIGKILL again and again: nothing is lost, nothing is delivered twice, and what was told stays.
//!
//! A debug build runs a small one. `cargo test --release -p parsley-cli --test demo_kill` kills 20 times over 100,000 commands. The moments
//! are drawn from a seed, which is printed; `PARSLEY_KILL_SEED` sets it. What the threads did until then is not repeated by it.

mod causality;
mod directory;
mod running;
mod seeded;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use running::parsley;
use seeded::{Numbers, input};
use serde_json::{Value, json};

/// How much is asked of the demo.
struct Scale {
    commands: u64,
    kills: usize,
    /// How many of the kills have to come before the last delivery.
    early: usize,
}

const SCALE: Scale = if cfg!(debug_assertions) {
    Scale {
        commands: 5_000,
        kills: 5,
        early: 4,
    }
} else {
    Scale {
        commands: 100_000,
        kills: 20,
        early: 15,
    }
};

/// When a run is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// When it has shown so many records that had to wait, those of the runs before among them, and a little later.
    Shown(u64, Duration),
    /// A while after its start: it may be opening the directory, or reading what the runs before left.
    Started(Duration),
}

/// How many commands the demo may be ahead of what it has shown: up to 1,000 are under way, and some come while it is being killed.
const AHEAD: u64 = 2_000;

/// One moment for each kill, spread over all that there is to do: nearly every command has a view that has to wait.
fn moments(numbers: &mut Numbers) -> Vec<Moment> {
    let Scale {
        commands, kills, ..
    } = SCALE;
    let mut shown: Vec<u64> = (0..kills)
        .map(|_| numbers.below(commands * 95 / 100 - AHEAD))
        .collect();
    shown.sort_unstable();
    let mut moment = |shown| match numbers.below(5) {
        0 => Moment::Started(Duration::from_millis(numbers.below(300))),
        _ => Moment::Shown(shown, Duration::from_micros(numbers.below(20_000))),
    };
    shown.into_iter().map(&mut moment).collect()
}

/// The files of the test.
struct Files {
    data: PathBuf,
    input: PathBuf,
    trace: PathBuf,
}

impl Files {
    fn arguments(&self) -> [String; 8] {
        let name = |path: &Path| path.display().to_string();
        [
            "demo".to_owned(),
            "--json".to_owned(),
            "--data".to_owned(),
            name(&self.data),
            "--input".to_owned(),
            name(&self.input),
            "--trace".to_owned(),
            name(&self.trace),
        ]
    }

    /// Runs the demo and kills it. Returns whether it was still at work.
    fn run_and_kill(&self, moment: Moment) -> bool {
        let mut child = Command::new(env!("CARGO_BIN_EXE_parsley"))
            .args(self.arguments())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        match moment {
            Moment::Shown(count, later) => {
                let rest = read_lines(stdout, count);
                kill_after(later, rest, &mut child)
            }
            Moment::Started(after) => kill_after(after, stdout, &mut child),
        }
    }
}

/// Reads that many lines, or to the end.
fn read_lines(mut stdout: BufReader<ChildStdout>, count: u64) -> BufReader<ChildStdout> {
    let mut line = Vec::new();
    for _ in 0..count {
        line.clear();
        if stdout.read_until(b'\n', &mut line).expect("a pipe") == 0 {
            break;
        }
    }
    stdout
}

/// Kills a program after a while, in which it can go on to print. Returns whether it had not ended by itself.
fn kill_after(after: Duration, mut stdout: BufReader<ChildStdout>, child: &mut Child) -> bool {
    let rest = thread::spawn(move || {
        // Its end, by itself or not.
        let mut rest = [0; 1 << 16];
        while stdout.read(&mut rest).is_ok_and(|read| read > 0) {}
    });
    let begun = Instant::now();
    while begun.elapsed() < after {
        thread::yield_now();
    }
    let ran = child.try_wait().expect("a child").is_none();
    child.kill().expect("a child");
    child.wait().expect("it ends");
    rest.join().expect("no panic");
    ran
}

/// The lines of each task in a trace: how many, and a digest of them.
#[derive(Default)]
struct Told(BTreeMap<String, (u64, DefaultHasher)>);

impl Told {
    /// Adds a line. Returns how many its task has now, and their digest.
    fn add(&mut self, line: &[u8]) -> (u64, u64) {
        let task = task_of(line);
        if !self.0.contains_key(task) {
            self.0.insert(task.to_owned(), Default::default());
        }
        let (lines, digest) = self.0.get_mut(task).expect("it was added");
        *lines += 1;
        digest.write(line);
        (*lines, digest.finish())
    }

    /// What a trace tells, as far as its lines are whole: it was cut off.
    fn of(trace: &Path) -> BTreeMap<String, (u64, u64)> {
        let mut told = Self::default();
        for_each_line(trace, |line| {
            told.add(line);
        });
        told.0
            .into_iter()
            .map(|(task, (lines, digest))| (task, (lines, digest.finish())))
            .collect()
    }
}

/// `"stage":"commander","partition":0` of a line that begins so.
fn task_of(line: &[u8]) -> &str {
    let text = str::from_utf8(line).expect("text");
    let end = text.find(",\"topic\"").expect("a topic behind the task");
    &text[1..end]
}

fn for_each_line(trace: &Path, mut each: impl FnMut(&[u8])) {
    let Ok(file) = File::open(trace) else {
        return;
    };
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        reader.read_until(b'\n', &mut line).expect("a trace");
        if !line.ends_with(b"\n") {
            return;
        }
        each(&line);
    }
}

#[test]
fn killed_at_any_moment_and_started_again_the_demo_loses_nothing_and_repeats_nothing() {
    let mut numbers = Numbers::seeded();
    let place = tempfile::tempdir().expect("a directory");
    let files = Files {
        data: place.path().join("data"),
        input: place.path().join("commands.jsonl"),
        trace: place.path().join("trace.jsonl"),
    };
    let (text, asked) = input(SCALE.commands, &mut numbers);
    fs::write(&files.input, text).expect("room");
    let last = 4 * SCALE.commands;

    let begun = Instant::now();
    let mut early = 0;
    let mut before = 0;
    let mut told = Vec::new();
    for moment in moments(&mut numbers) {
        let ran = files.run_and_kill(moment);
        let deliveries = directory::deliveries(&files.data);
        println!(
            "{:5.1} s: {moment:?}, {deliveries} of {last} deliveries{}",
            begun.elapsed().as_secs_f64(),
            if ran { "" } else { ", and it had ended" }
        );
        assert!(deliveries >= before, "{before} were there");
        early += usize::from(ran && deliveries < last);
        before = deliveries;
        told.push(Told::of(&files.trace));
    }
    assert!(
        early >= SCALE.early,
        "{early} kills came before the last delivery, expected {}",
        SCALE.early
    );

    let end = parsley(&files.arguments(), b"");
    println!("{:5.1} s: to the end", begun.elapsed().as_secs_f64());
    assert_eq!((end.code, &*end.stderr), (0, ""));
    let summary: Value =
        serde_json::from_str(end.stdout.lines().last().expect("a line")).expect("JSON");
    let summary = &summary["summary"];
    assert_eq!(
        (
            &summary["commands"],
            &summary["malformed"],
            &summary["delivered"],
            &summary["inversions_delivered"],
            &summary["views_match"]
        ),
        (
            &json!(SCALE.commands),
            &json!(0),
            &json!(last),
            &json!(0),
            &json!(true)
        )
    );

    // By the trace, and by nothing that the program says of it.
    let checked = causality::check(&fs::read_to_string(&files.trace).expect("a trace"));
    assert_eq!(checked.faults, Vec::<String>::new());
    assert_eq!(
        (checked.commands, checked.deliveries),
        (SCALE.commands, last)
    );
    assert_eq!(
        (
            checked.inversions_by_causality,
            checked.inversions_by_claims
        ),
        (0, 0)
    );
    assert_eq!(
        Some(checked.inversions_by_arrival),
        summary["inversions_prevented"].as_u64()
    );
    assert!(
        checked.asked == asked,
        "the commands are those of the input"
    );
    assert!(checked.views_match());
    println!("{:5.1} s: checked", begun.elapsed().as_secs_f64());

    // Whatever a run had told before it was killed is what the last one tells.
    let mut due: BTreeMap<(String, u64), Vec<u64>> = BTreeMap::new();
    for (task, (lines, digest)) in told.into_iter().flatten() {
        due.entry((task, lines)).or_default().push(digest);
    }
    assert!(!due.is_empty());
    let mut all = Told::default();
    for_each_line(&files.trace, |line| {
        let (task, (lines, digest)) = (task_of(line), all.add(line));
        for earlier in due.remove(&(task.to_owned(), lines)).unwrap_or_default() {
            assert_eq!(earlier, digest, "{task}, the first {lines} deliveries");
        }
    });
    assert!(due.is_empty(), "more was told than there is");

    let ends = directory::ends(&files.data);
    let again = parsley(&files.arguments(), b"");
    assert_eq!(again.stdout.lines().last(), end.stdout.lines().last());
    assert_eq!(directory::ends(&files.data), ends);
    println!("{:5.1} s: all", begun.elapsed().as_secs_f64());
}
