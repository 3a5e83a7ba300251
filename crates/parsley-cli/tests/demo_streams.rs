//! `parsley demo` and what it reads and writes: files that are missing, full or one and the same, readers that go away, input that is waited for.

mod running;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use running::parsley;

#[test]
fn what_cannot_be_read_or_written_exits_with_5() {
    let run = parsley(&["demo", "--input", "/nowhere/commands.jsonl"], b"");
    assert_eq!((run.code, run.stdout.as_str()), (5, ""));
    assert!(
        run.stderr
            .starts_with("parsley: /nowhere/commands.jsonl cannot be read: "),
        "{}",
        run.stderr
    );
    let run = parsley(&["demo", "--trace", "/nowhere/trace.jsonl"], b"");
    assert_eq!((run.code, run.stdout.as_str()), (5, ""));
    assert!(
        run.stderr
            .starts_with("parsley: the trace /nowhere/trace.jsonl cannot be written: "),
        "{}",
        run.stderr
    );
    if Path::new("/dev/full").exists() {
        let run = parsley(&["demo", "--trace", "/dev/full"], b"");
        assert_eq!(run.code, 5, "{}", run.stderr);
    }
    assert_eq!(parsley(&["demo", "extra"], b"").code, 2);
}

/// `parsley demo --input F --trace F` once emptied F before it read it. Whatever the two are called, one file is not read and written.
#[test]
fn a_trace_that_is_the_input_is_refused_and_the_file_is_left_as_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let text = "{\"account\":\"a\",\"deposit\":5}\n";
    std::fs::write(at("commands"), text).expect("a file");
    std::fs::hard_link(at("commands"), at("hard")).expect("a link");
    let mut traces = vec![at("commands"), at("hard"), at(".").join("commands")];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(at("commands"), at("symbolic")).expect("a link");
        traces.push(at("symbolic"));
    }
    for trace in &traces {
        for input in ["-".as_ref(), at("commands").as_os_str()] {
            let output = Command::new(env!("CARGO_BIN_EXE_parsley"))
                .args(["demo", "--json", "--input"])
                .arg(input)
                .arg("--trace")
                .arg(trace)
                .stdin(std::fs::File::open(at("commands")).expect("a file"))
                .output()
                .expect("the program runs");
            let said = String::from_utf8(output.stderr).expect("text");
            assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
            assert!(
                said.contains("is the same file as the input, "),
                "{trace:?} {input:?}: {said}"
            );
            let left = std::fs::read_to_string(at("commands")).expect("a file");
            assert_eq!(left, text, "{trace:?} {input:?}");
        }
    }
}

/// The trace went into a file named `-`, or over the report that standard output was collecting.
#[test]
fn a_trace_does_not_go_where_the_report_goes() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = |trace: &Path, report: &Path| {
        let report = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(report)
            .expect("a file");
        Command::new(env!("CARGO_BIN_EXE_parsley"))
            .args(["demo", "--json", "--trace"])
            .arg(trace)
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(report)
            .output()
            .expect("the program runs")
    };
    let report = directory.path().join("report");
    for (trace, reason) in [
        (Path::new("-"), "found `--trace -`, expected a file"),
        (&report, "is the same file as standard output, "),
    ] {
        std::fs::write(&report, "before\n").expect("a file");
        let output = run(trace, &report);
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(reason), "{said}");
        assert_eq!(
            std::fs::read_to_string(&report).expect("a file"),
            "before\n"
        );
        assert!(!directory.path().join("-").exists());
    }
}

/// An input that is missing was noticed after the trace of the run before had been emptied.
#[test]
fn a_trace_is_kept_when_the_input_cannot_be_opened() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace");
    std::fs::write(&trace, "of the run before\n").expect("a file");
    let trace_name = trace.display().to_string();
    let input = directory.path().join("missing").display().to_string();
    let run = parsley(&["demo", "--input", &input, "--trace", &trace_name], b"");
    assert_eq!((run.code, run.stdout.as_str()), (5, ""), "{}", run.stderr);
    assert_eq!(
        std::fs::read_to_string(&trace).expect("a file"),
        "of the run before\n"
    );
    // A trace that is longer than the next one leaves nothing behind.
    std::fs::write(&trace, "x".repeat(1 << 20)).expect("a file");
    let run = parsley(
        &["demo", "--json", "--input", "-", "--trace", &trace_name],
        b"{\"account\":\"a\",\"deposit\":5}\n",
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = std::fs::read_to_string(&trace).expect("a file");
    assert_eq!(text.lines().count(), 4, "{text}");
}

/// A directory opens as a file does and cannot be read; the summary of nothing said that all was well.
#[test]
fn an_input_that_breaks_off_has_no_summary() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().display().to_string();
    for arguments in [
        &["demo", "--json", "--input", &path][..],
        &["demo", "--input", &path],
    ] {
        let run = parsley(arguments, b"");
        assert_eq!(run.code, 5, "{}", run.stdout);
        assert!(
            !run.stdout.contains("summary") && !run.stdout.contains('✓'),
            "{}",
            run.stdout
        );
        assert!(
            run.stderr
                .starts_with(&format!("parsley: {path} cannot be read: ")),
            "{}",
            run.stderr
        );
    }
}

/// Starts the demo on standard input and keeps that open.
fn typed_at(arguments: &[&str]) -> (std::process::Child, std::process::ChildStdin) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_parsley"))
        .args(["demo", "--input", "-"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(b"{\"account\":\"a\",\"deposit\":5}\n")
        .expect("the program reads");
    (child, stdin)
}

/// A line was answered when the next few thousand had come: what is found is now printed, and traced, before more input is waited for.
#[test]
fn what_is_found_is_handed_out_before_more_input_is_waited_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let (mut child, stdin) = typed_at(&["--json", "--trace", &path.display().to_string()]);
    let mut held = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    stdout.read_line(&mut held).expect("a line");
    assert!(held.starts_with("{\"held\":"), "{held}");
    // Each task tells what it delivered by itself, so the last lines of the trace may come a little after.
    let begun = Instant::now();
    let traced = || std::fs::read_to_string(&path).expect("a trace");
    while traced().lines().count() < 4 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", traced());
        std::thread::yield_now();
    }
    drop(stdin);
    let mut last = String::new();
    stdout.read_line(&mut last).expect("a line");
    assert!(last.starts_with("{\"summary\":"), "{last}");
    assert_eq!(child.wait().expect("the program ends").code(), Some(0));
}

/// With nothing to print, a reader that had gone away was noticed at the end of the input alone, which may never come.
#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_while_input_is_waited_for_ends_the_demo() {
    let (mut child, stdin) = typed_at(&[]);
    let mut shown = String::new();
    BufReader::new(child.stdout.take().expect("a pipe"))
        .read_line(&mut shown)
        .expect("a line");
    assert!(shown.starts_with("commands → commander"), "{shown}");
    let code = child.wait().expect("the program ends").code();
    assert_eq!(code, Some(0));
    drop(stdin);
}

/// `parsley demo --input - --json | head -1`, with input that never ends.
#[test]
fn a_reader_that_goes_away_ends_the_demo() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_parsley"))
        .args(["demo", "--json", "--input", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let feed = std::thread::spawn(move || {
        while stdin
            .write_all(b"{\"account\":\"a\",\"deposit\":1}\n")
            .is_ok()
        {}
    });
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("a pipe"))
        .read_line(&mut first)
        .expect("a line");
    assert!(first.starts_with("{\"held\":"), "{first}");
    let output = child.wait_with_output().expect("the program ends");
    feed.join().expect("the program no longer reads");
    assert_eq!(
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).as_ref()
        ),
        (Some(0), "")
    );
}
