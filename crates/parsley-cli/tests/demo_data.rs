//! `parsley demo --data DIR`: what is taken once, what is refused, and what a run says that goes on where another ended.

mod causality;
mod directory;
mod running;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use running::{Run, parsley};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A place for a directory of data and the files around it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn data(&self) -> PathBuf {
        self.at("data")
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.at(name);
        fs::write(&path, text).expect("a file");
        path
    }

    /// Runs the demo on the directory.
    fn run(&self, arguments: &[&str], input: &str) -> Run {
        let data = self.data().display().to_string();
        let arguments = [&["demo", "--json", "--data", &data], arguments].concat();
        parsley(&arguments, input.as_bytes())
    }

    fn run_file(&self, file: &Path) -> Run {
        self.run(&["--input", &file.display().to_string()], "")
    }
}

fn deposits(amounts: std::ops::Range<u64>) -> String {
    amounts
        .map(|amount| format!("{{\"account\":\"a\",\"deposit\":{amount}}}\n"))
        .collect()
}

/// The summary of a run that went well.
fn summary(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{}", run.stderr);
    let last = run.lines().pop().expect("a line");
    assert_eq!(last["summary"]["views_match"], true, "{last}");
    assert_eq!(last["summary"]["inversions_delivered"], 0, "{last}");
    last["summary"].clone()
}

/// The holds that a run printed, in an order of their own: those of one partition come in that of their deliveries.
fn holds(run: &Run) -> Vec<String> {
    let mut holds: Vec<String> = run
        .stdout
        .lines()
        .filter(|line| line.starts_with("{\"held\":"))
        .map(str::to_owned)
        .collect();
    holds.sort_unstable();
    holds
}

#[test]
fn a_second_run_appends_nothing_and_shows_the_same() {
    let place = Place::new();
    let file = place.write("commands", &deposits(0..500));
    let file = file.display().to_string();
    for (input, commands) in [(&[][..], 1000), (&["--input", &file][..], 1500)] {
        let first = place.run(input, "");
        assert_eq!(summary(&first)["commands"], commands);
        assert_eq!(summary(&first)["delivered"], 4 * commands);
        let ends = directory::ends(&place.data());
        let again = place.run(input, "");
        assert_eq!(summary(&again), summary(&first));
        assert_eq!(holds(&again), holds(&first));
        assert!(!holds(&first).is_empty());
        assert_eq!(directory::ends(&place.data()), ends);
    }
    // What people see is the same as well, down to the rows.
    let data = place.data().display().to_string();
    let table = || parsley(&["demo", "--data", &data], b"").stdout;
    let shown = table();
    assert!(
        shown.contains("    1,500  commands, and 0 malformed lines"),
        "{shown}"
    );
    assert_eq!(table(), shown);
}

#[test]
fn a_file_that_has_grown_goes_on_with_its_new_lines() {
    let place = Place::new();
    let begin =
        "{\"account\":\"a\",\"deposit\":5}\n\nno command\n{\"account\":\"a\",\"withdraw\":9}";
    let first = place.run_file(&place.write("commands", begin));
    assert_eq!(
        (&summary(&first)["commands"], &summary(&first)["malformed"]),
        (&json!(2), &json!(1))
    );
    assert!(
        first.stderr.starts_with("parsley: line 3: "),
        "{}",
        first.stderr
    );

    // Lines are told apart by their text: the last one had no newline. The lines before are not spoken of again.
    let grown = format!("{begin}\n\n  \n{{\n{{\"account\":\"a\",\"deposit\":2}}\n");
    let second = place.run_file(&place.write("commands", &grown));
    assert_eq!(
        (
            &summary(&second)["commands"],
            &summary(&second)["malformed"]
        ),
        (&json!(3), &json!(2))
    );
    assert!(
        second.stderr.starts_with("parsley: line 7: "),
        "{}",
        second.stderr
    );
    assert_eq!(second.stderr.lines().count(), 1);
    assert_eq!(
        directory::commands(&place.data(), "a"),
        [
            json!({"deposit": 5}),
            json!({"withdraw": 9}),
            json!({"deposit": 2})
        ]
    );

    // Lines that are no commands are taken as well: they are passed over and not counted again.
    let only_blank = format!("{grown}\nnothing\n");
    let third = place.run_file(&place.write("commands", &only_blank));
    assert_eq!(summary(&third)["malformed"], 3);
    let ends = directory::ends(&place.data());
    let fourth = place.run_file(&place.at("commands"));
    assert_eq!((summary(&fourth), &*fourth.stderr), (summary(&third), ""));
    assert_eq!(directory::ends(&place.data()), ends);
}

#[test]
fn another_file_is_refused_and_nothing_is_changed() {
    let place = Place::new();
    let text = format!("{}{{\"account\":\"a\",\"deposit\":77}}", deposits(0..20));
    summary(&place.run_file(&place.write("commands", &text)));
    let ends = directory::ends(&place.data());
    let trace = place.write("trace", "of the run before\n");
    let trace = trace.display().to_string();
    let all = deposits(0..21);
    for (other, fault) in [
        (deposits(0..20), "21 lines were taken, and it has 20"),
        (String::new(), "21 lines were taken, and it has 0"),
        (
            all.clone(),
            "21 lines were taken, and it begins with others",
        ),
        (format!("{text}7"), "begins with others"),
        (format!("\n{text}"), "begins with others"),
        (text.replacen('\n', "\r\n", 1), "begins with others"),
    ] {
        let path = place.write("other", &other).display().to_string();
        let run = place.run(&["--input", &path, "--trace", &trace], "");
        assert_eq!((run.code, &*run.stdout), (2, ""), "{}", run.stderr);
        assert!(
            run.stderr.starts_with(&format!(
                "parsley: {path} is not what this directory was begun with: "
            )),
            "{}",
            run.stderr
        );
        assert!(run.stderr.contains(fault), "{}", run.stderr);
        assert_eq!(directory::ends(&place.data()), ends);
        assert_eq!(
            fs::read_to_string(&trace).expect("a file"),
            "of the run before\n"
        );
    }
    // The name of a file does not matter.
    fs::rename(place.at("commands"), place.at("other")).expect("a file");
    assert_eq!(summary(&place.run_file(&place.at("other")))["commands"], 21);
    assert_eq!(directory::ends(&place.data()), ends);
}

/// What was taken is noted by where it came from, and what is shown is of all.
#[test]
fn the_built_in_commands_a_file_and_standard_input_share_a_directory() {
    let place = Place::new();
    let file = place.write("commands", &deposits(0..50));
    let all = |run: &Run| summary(run)["commands"].as_u64().expect("a number");
    assert_eq!(all(&place.run(&["--input", "-"], &deposits(0..30))), 30);
    assert_eq!(all(&place.run_file(&file)), 80);
    assert_eq!(all(&place.run(&[], "")), 1080);
    // Standard input is new each time, and the others are not.
    assert_eq!(all(&place.run(&["--input", "-"], &deposits(0..30))), 1110);
    assert_eq!(all(&place.run_file(&file)), 1110);
    assert_eq!(all(&place.run(&[], "")), 1110);
    assert_eq!(directory::commands(&place.data(), "a").len(), 110);
}

/// A pipe has a name and cannot be read again: its lines are new, like those of standard input.
#[cfg(target_os = "linux")]
#[test]
fn a_pipe_with_a_name_is_no_file() {
    let place = Place::new();
    for commands in [3, 6] {
        let run = place.run(&["--input", "/dev/stdin"], &deposits(0..3));
        assert_eq!(summary(&run)["commands"], commands);
        assert!(
            run.stdout.contains("{\"taken\":{\"lines\":3}}\n"),
            "{}",
            run.stdout
        );
    }
}

/// A driver: it sends lines and hears which of them are taken.
struct Driver {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Driver {
    fn new(place: &Place, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_parsley"))
            .args(["demo", "--json", "--input", "-", "--data"])
            .arg(place.data())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Self {
            child,
            stdin,
            stdout,
        }
    }

    fn send(&mut self, lines: &str) {
        self.stdin
            .write_all(lines.as_bytes())
            .expect("the program reads");
    }

    /// Reads on until so many lines of this run are taken.
    fn taken(&mut self, lines: u64) {
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).expect("a line"), 0);
            let line: Value = serde_json::from_str(&line).expect("JSON");
            match line["taken"]["lines"].as_u64() {
                Some(taken) if taken >= lines => {
                    assert_eq!(taken, lines);
                    return;
                }
                _ => {}
            }
        }
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

#[test]
fn what_standard_input_was_told_is_taken_outlives_a_kill() {
    let place = Place::new();
    let mut driver = Driver::new(&place, &[]);
    driver.send(&deposits(0..250));
    driver.taken(250);
    driver.send("\nno command\n");
    driver.taken(252);
    driver.kill();
    assert_eq!(directory::commands(&place.data(), "a").len(), 250);

    // Confirmed lines are counted from each run's beginning.
    let trace = place.at("trace");
    let mut driver = Driver::new(&place, &["--trace", &trace.display().to_string()]);
    driver.send(&deposits(250..260));
    driver.taken(10);
    driver.send("{\"account\":\"a\",\"deposit\":260}");
    drop(driver.stdin);
    let printed: Vec<String> = driver
        .stdout
        .lines()
        .map(|line| line.expect("a line"))
        .collect();
    let output = driver.child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(
        printed.contains(&"{\"taken\":{\"lines\":11}}".to_owned()),
        "{printed:?}"
    );
    let last: Value = serde_json::from_str(printed.last().expect("a line")).expect("JSON");
    let summary = &last["summary"];
    assert_eq!(
        (
            &summary["commands"],
            &summary["malformed"],
            &summary["views_match"]
        ),
        (&json!(261), &json!(1), &json!(true))
    );

    // The trace is of both runs, what was killed among it.
    let checked = causality::check(&fs::read_to_string(trace).expect("a trace"));
    assert_eq!(checked.faults, Vec::<String>::new());
    assert_eq!((checked.commands, checked.deliveries), (261, 4 * 261));
    assert!(checked.asked["a"].iter().copied().eq(0..261));
    assert!(checked.views_match());
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
}

/// Nothing is confirmed where nothing outlives the run, and files need no confirmation.
#[test]
fn only_a_stream_into_a_directory_is_confirmed() {
    let place = Place::new();
    let file = place.write("commands", &deposits(0..9));
    let in_memory = parsley(
        &["demo", "--json", "--input", "-"],
        deposits(0..9).as_bytes(),
    );
    for run in [place.run_file(&file), place.run(&[], ""), in_memory] {
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(!run.stdout.contains("taken"), "{}", run.stdout);
    }
    let data = place.data().display().to_string();
    let table = parsley(
        &["demo", "--data", &data, "--input", "-"],
        deposits(0..9).as_bytes(),
    );
    assert!(!table.stdout.contains("taken"), "{}", table.stdout);
}

#[test]
fn a_directory_in_use_is_refused() {
    let place = Place::new();
    let mut driver = Driver::new(&place, &[]);
    driver.send(&deposits(0..1));
    driver.taken(1);
    let second = place.run(&[], "");
    assert_eq!((second.code, &*second.stdout), (5, ""));
    assert_eq!(
        second.stderr,
        format!(
            "parsley: {} is in use by process {}: one process can have it open, and once\n",
            place.data().display(),
            driver.child.id()
        )
    );
    // The first one does not mind.
    driver.send(&deposits(1..2));
    driver.taken(2);
    driver.kill();
    assert_eq!(summary(&place.run(&["--input", "-"], ""))["commands"], 2);
}

#[test]
fn what_is_no_directory_of_the_demo_is_refused() {
    let place = Place::new();
    let photos = place.at("photos");
    fs::create_dir(&photos).expect("a directory");
    fs::write(photos.join("photo.jpg"), "smile").expect("a file");
    let file = place.write("file", "no directory");
    let later = place.at("later");
    let run = |data: &Path| parsley(&["demo", "--data", &data.display().to_string()], b"");
    assert_eq!(run(&later).code, 0);
    fs::write(later.join("FORMAT"), "parsley embedded log, format 99\n").expect("a file");
    // A log of this library, and of somebody else.
    let another = place.at("another");
    let wider = place.at("wider");
    for (data, topic, partitions) in [(&another, "orders", 2), (&wider, "commands", 5)] {
        let host = parsley::embedded::Host::open(data).expect("a log");
        host.create_topic(topic, partitions).expect("a topic");
    }

    for (data, code, fault) in [
        (&photos, 2, "is no directory of a log: it holds photo.jpg"),
        (&file, 5, "parsley: "),
        (&later, 5, "is of format"),
        (&another, 2, "is another application's: it has topic orders"),
        (
            &wider,
            2,
            "is another application's: topic commands has 5 partitions, and 2 in the demo",
        ),
    ] {
        let run = run(data);
        assert_eq!(
            (run.code, &*run.stdout),
            (code, ""),
            "{data:?}: {}",
            run.stderr
        );
        assert!(
            run.stderr.contains(fault) && run.stderr.contains(&data.display().to_string()),
            "{}",
            run.stderr
        );
    }
    assert_eq!(directory::ends(&another).len(), 1);
    assert_eq!(fs::read_dir(&photos).expect("a directory").count(), 1);
    assert_eq!(parsley(&["demo", "--data"], b"").code, 2);
}

#[test]
fn a_trace_does_not_go_into_the_directory() {
    let place = Place::new();
    summary(&place.run(&[], ""));
    let ends = directory::ends(&place.data());
    let files = || {
        let mut files: Vec<_> = fs::read_dir(place.data())
            .expect("a directory")
            .map(|entry| entry.expect("a file").file_name())
            .collect();
        files.sort();
        files
    };
    let before = files();
    let mut traces: Vec<PathBuf> = before.iter().map(|name| place.data().join(name)).collect();
    traces.push(place.data().join("new"));
    traces.push(place.data().join("..").join("data").join("new"));
    // A link to what is not there yet was taken for a file beside it.
    #[cfg(unix)]
    {
        let link = place.at("link");
        std::os::unix::fs::symlink(place.data().join("linked"), &link).expect("a link");
        traces.push(link);
    }
    for trace in traces {
        let run = place.run(&["--trace", &trace.display().to_string()], "");
        assert_eq!((run.code, &*run.stdout), (2, ""), "{}", run.stderr);
        assert!(run.stderr.contains("where the data are"), "{}", run.stderr);
    }
    assert_eq!(files(), before);
    assert_eq!(directory::ends(&place.data()), ends);
}

/// A file system that takes no more: here a limit on the size of files. What was taken stays, and a run with more room goes on.
#[cfg(unix)]
#[test]
fn a_directory_that_cannot_grow_ends_the_run_and_the_next_one_goes_on() {
    let place = Place::new();
    let file = place.write("commands", &deposits(0..3000));
    let limited = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$0\" \"$@\""])
        .args([env!("CARGO_BIN_EXE_parsley"), "demo", "--json", "--data"])
        .arg(place.data())
        .arg("--input")
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let said = String::from_utf8(limited.stderr).expect("text");
    assert_eq!(limited.status.code(), Some(5), "{said}");
    assert!(said.contains(&place.data().display().to_string()), "{said}");
    let before = directory::deliveries(&place.data());
    assert!((1..12_000).contains(&before), "{before}");
    assert_eq!(summary(&place.run_file(&file))["delivered"], 12_000);
}
