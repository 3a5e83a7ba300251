//! The program as a whole: exit codes, help, a reader that goes away.

mod running;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use running::{parsley, workspace};

#[test]
fn help_has_the_table_of_exit_codes_everywhere() {
    let table = "Exit codes:\n  0  done";
    for arguments in [
        &["--help"][..],
        &["node", "--help"],
        &["clock", "--help"],
        &["clock", "decode", "--help"],
    ] {
        let run = parsley(arguments, b"");
        assert_eq!(run.code, 0);
        assert!(run.stdout.contains(table), "{arguments:?}: {}", run.stdout);
        assert!(
            !run.stdout.contains('\u{1b}'),
            "{arguments:?}: colour without a terminal"
        );
    }
}

#[test]
fn the_documented_exit_codes_are_those_of_help() {
    let page = std::fs::read_to_string(workspace("docs/exit-codes.md")).expect("the page");
    let help = parsley(&["--help"], b"").stdout;
    let table = help.split_once("Exit codes:\n").expect("the table").1;
    let rows: Vec<(&str, &str)> = table
        .lines()
        .filter_map(|line| line.trim().split_once("  "))
        .collect();
    assert_eq!(rows.len(), 7, "{table}");
    for (code, meaning) in rows {
        assert!(
            page.contains(&format!("| {code} | {meaning} |")),
            "{code}: {meaning}"
        );
    }
}

#[test]
fn the_version_is_printed() {
    for argument in ["-V", "--version"] {
        let run = parsley(&[argument], b"");
        assert_eq!(
            (run.code, run.stdout),
            (0, format!("parsley {}\n", env!("CARGO_PKG_VERSION")))
        );
    }
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    for arguments in [
        &[][..],
        &["nod"],
        &["node"],
        &["node", "a", "b"],
        &["clock"],
        &["clock", "decode"],
        &["node", "--x", "-"],
    ] {
        let run = parsley::<&str>(arguments, b"");
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (2, ""),
            "{arguments:?}: {}",
            run.stderr
        );
    }
}

#[test]
fn input_that_cannot_be_read_exits_with_5() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = directory.path().join("missing.jsonl").display().to_string();
    let directory = directory.path().display().to_string();
    for path in [&missing, &directory] {
        for arguments in [&["node", path][..], &["clock", "encode", path]] {
            let run = parsley(arguments, b"");
            assert_eq!((run.code, run.stdout.as_str()), (5, ""), "{arguments:?}");
            assert!(
                run.stderr
                    .starts_with(&format!("parsley: {path} cannot be read: ")),
                "{}",
                run.stderr
            );
        }
    }
}

/// `parsley ... | head -1`.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let script: String = (0..100_000)
        .map(|offset| format!("{{\"record\": {{\"on\": \"x:0\", \"offset\": {offset}}}}}\n"))
        .collect();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("long.jsonl");
    std::fs::write(
        &path,
        format!(
            "{{\"open\": {{\"name\": \"n\", \"inputs\": [\"x:0\"], \"sinks\": []}}}}\n{script}"
        ),
    )
    .expect("a script");
    let mut child = Command::new(env!("CARGO_BIN_EXE_parsley"))
        .arg("node")
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("a pipe"))
        .read_line(&mut first)
        .expect("a line");
    assert_eq!(first, "{\"opened\":{\"resume\":{}}}\n");
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).as_ref()
        ),
        (Some(0), "")
    );
}
