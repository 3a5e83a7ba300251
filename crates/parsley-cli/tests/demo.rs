//! `parsley demo`: what it reports is recomputed from its trace, and malformed input is skipped.

mod causality;
mod running;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use causality::{Account, Checked};
use running::{Run, parsley};
use serde_json::{Value, json};

fn summary(run: &Run) -> Value {
    let last: Value =
        serde_json::from_str(run.stdout.lines().last().expect("a line")).expect("JSON");
    last["summary"].clone()
}

fn number(summary: &Value, field: &str) -> u64 {
    summary[field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field} in {summary}"))
}

fn traced(arguments: &[&str], input: &[u8]) -> (Run, Checked) {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl").display().to_string();
    let run = parsley(
        &[&["demo", "--json", "--trace", &trace], arguments].concat(),
        input,
    );
    let text = std::fs::read_to_string(&trace).expect("a trace");
    (run, causality::check(&text))
}

#[test]
fn the_built_in_commands_show_holds_and_no_inversion_and_the_trace_says_the_same() {
    let (run, checked) = traced(&[], b"");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let summary = summary(&run);
    assert_eq!(number(&summary, "commands"), 1000);
    assert_eq!(number(&summary, "malformed"), 0);
    assert!(number(&summary, "held") >= 1, "{summary}");
    assert!(
        (1..=number(&summary, "held")).contains(&number(&summary, "held_max")),
        "{summary}"
    );
    assert!(number(&summary, "inversions_prevented") >= 1, "{summary}");
    assert_eq!(number(&summary, "inversions_delivered"), 0);
    assert_eq!(summary["views_match"], true);

    assert_eq!(checked.faults, Vec::<String>::new());
    assert_eq!(checked.commands, 1000);
    assert_eq!(checked.deliveries, number(&summary, "delivered"));
    assert_eq!(checked.inversions_by_causality, 0);
    assert_eq!(checked.inversions_by_claims, 0);
    assert_eq!(
        checked.inversions_by_arrival,
        number(&summary, "inversions_prevented")
    );
    assert!(checked.views_match());
    let rejected: u64 = checked
        .replayed
        .values()
        .map(|account| account.rejected)
        .sum();
    assert!((1..100).contains(&rejected), "a few rejections: {rejected}");
    assert!(
        checked.replayed.len() >= 24,
        "dozens of accounts: {}",
        checked.replayed.len()
    );
}

#[test]
fn every_hold_is_a_line_and_the_last_line_is_the_summary() {
    let run = parsley(&["demo", "--json"], b"");
    let lines = run.lines();
    let (last, holds) = lines.split_last().expect("lines");
    assert_eq!(number(&last["summary"], "held"), holds.len() as u64);
    let fields: Vec<&String> = last["summary"]
        .as_object()
        .expect("an object")
        .keys()
        .collect();
    assert_eq!(
        fields,
        [
            "commands",
            "malformed",
            "delivered",
            "held",
            "held_max",
            "inversions_prevented",
            "inversions_delivered",
            "views_match"
        ]
    );
    for hold in holds {
        let hold = &hold["held"];
        assert_eq!(hold["stage"], "reconciler");
        assert_eq!(hold["record"]["topic"], "views");
        assert_eq!(hold["cause"]["topic"], "commands");
        let order = |field: &str, at: &str| number(&hold[field], at);
        assert!(
            order("cause_handed", "delivery") < order("handed", "delivery"),
            "{hold}"
        );
        assert!(
            hold["command"]["deposit"].is_u64() ^ hold["command"]["withdraw"].is_u64(),
            "{hold}"
        );
        let prevented = order("handed", "arrival") < order("cause_handed", "arrival");
        assert_eq!(hold["inversion_prevented"], prevented, "{hold}");
    }
    assert!(
        holds
            .iter()
            .any(|hold| hold["held"]["until"]["record"]["topic"] == "commands")
    );
}

/// Rows were a dozen, had `view #0, command #15` without a word on what counts what, and not what the command was.
#[test]
fn people_see_what_was_held_and_for_which_cause() {
    let run = parsley(&["demo"], b"");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    for part in [
        "What had to wait (6 of ",
        " is offset ",
        " of partition ",
        "in order of arrival",
        "as delivered",
        "deliveries, 4 a command: itself at two stages, its event, its view",
        "✓ Every cause was delivered before its effects.",
    ] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let lines: Vec<&str> = run.stdout.lines().collect();
    let rows: Vec<&[&str]> = lines
        .windows(2)
        .filter(|pair| pair[0].starts_with("  views:"))
        .collect();
    assert_eq!(rows.len(), 6, "{}", run.stdout);
    for row in rows {
        let (first, second) = (row[0], row[1]);
        assert!(
            first.contains(" of commands:") && first.contains("✓ command "),
            "{first}"
        );
        assert!(
            second.contains(" deposit ") || second.contains(" withdraw "),
            "{second}"
        );
        assert!(second.contains("  its view "), "{second}");
        if first.contains('✗') {
            assert!(first.contains("✗ view "), "{first}");
            assert!(second.contains("  its command "), "{second}");
        }
    }
    assert!(!run.stdout.contains('\u{1b}'), "colour without a terminal");
    assert!(
        lines.iter().all(|line| line.chars().count() <= 80),
        "{}",
        run.stdout
    );
}

/// Accounts and amounts of any size stay within their column.
#[test]
fn what_people_see_is_80_columns_wide_whatever_the_commands() {
    let account = "\u{5927}\\u001b".repeat(60);
    let input: String = (0..300)
        .map(|_| format!("{{\"account\":\"{account}\",\"withdraw\":{}}}\n", u64::MAX))
        .collect();
    let run = parsley(&["demo", "--input", "-"], input.as_bytes());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(
        run.stdout.contains("… withdraw 18446744073709551615"),
        "{}",
        run.stdout
    );
    assert!(!run.stdout.contains('\u{1b}'), "{}", run.stdout);
    // The account's characters take two columns each.
    let columns = |line: &str| {
        line.chars()
            .map(|character| if character == '\u{5927}' { 2 } else { 1 })
            .sum::<usize>()
    };
    assert!(
        run.stdout.lines().all(|line| columns(line) <= 80),
        "{}",
        run.stdout
    );
}

#[test]
fn malformed_lines_are_named_and_the_rest_is_processed() {
    let most = u64::MAX;
    let lines: Vec<Vec<u8>> = vec![
        br#"{"account":"a","deposit":5}"#.to_vec(),
        b"".to_vec(),
        b"not JSON".to_vec(),
        br#"{"account":"a","deposit":-5}"#.to_vec(),
        br#"{"account":"a","withdraw":"7"}"#.to_vec(),
        br#"{"account":"a"}"#.to_vec(),
        br#"{"account":"a","deposit":1,"withdraw":1}"#.to_vec(),
        br#"{"account":"a","deposit":1,"memo":"x"}"#.to_vec(),
        br#"{"account":7,"deposit":1}"#.to_vec(),
        br#"{"account":"a","deposit":1.5}"#.to_vec(),
        br#"{"account":"a","deposit":18446744073709551616}"#.to_vec(),
        b"{\"account\":\"\xff\",\"deposit\":1}".to_vec(),
        b"\x1b[31m".to_vec(),
        br#"{"account":"a","withdraw":7}"#.to_vec(),
        format!(r#"{{"account":"b","deposit":{most}}}"#).into_bytes(),
        br#"{"account":"b","deposit":1}"#.to_vec(),
        "{\"account\":\"ä\",\"deposit\":0}\r".as_bytes().to_vec(),
        br#"{"account":"b","withdraw":1}"#.to_vec(),
    ];
    let (run, checked) = traced(&["--input", "-"], &lines.join(&b'\n'));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let summary = summary(&run);
    assert_eq!(
        (number(&summary, "commands"), number(&summary, "malformed")),
        (6, 11)
    );
    assert_eq!(
        (
            number(&summary, "inversions_delivered"),
            &summary["views_match"]
        ),
        (0, &json!(true))
    );

    let expected = [
        (3, "expected"),
        (
            4,
            "found -5, expected a whole number from 0 to 18446744073709551615",
        ),
        (5, "found the string \"7\", expected a whole number"),
        (6, "found neither `deposit` nor `withdraw`"),
        (7, "found `deposit` and `withdraw`"),
        (8, "found the unknown key `memo`"),
        (9, "found 7, expected a string"),
        (10, "found 1.5, expected a whole number"),
        (11, "found a number above 18446744073709551615"),
        (12, "not UTF-8 from byte 12 on"),
        (13, "expected"),
    ];
    let said: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(said.len(), expected.len(), "{}", run.stderr);
    for (said, (line, reason)) in said.iter().zip(expected) {
        assert!(
            said.starts_with(&format!("parsley: line {line}: ")) && said.contains(reason),
            "{said}"
        );
    }
    assert!(!run.stderr.contains('\u{1b}'), "{}", run.stderr);

    assert_eq!(checked.faults, Vec::<String>::new());
    let accounts: Vec<(&str, &Account)> = checked
        .replayed
        .iter()
        .map(|(account, state)| (account.as_str(), state))
        .collect();
    let account = |balance, rejected| Account { balance, rejected };
    assert_eq!(
        accounts,
        [
            ("a", &account(5, 1)),
            ("b", &account(most - 1, 1)),
            ("ä", &account(0, 0))
        ]
    );
    assert!(checked.views_match());
}

#[test]
fn many_malformed_lines_are_counted_and_some_are_shown() {
    let run = parsley(
        &["demo", "--input", "-", "--json"],
        "?\n".repeat(1000).as_bytes(),
    );
    assert_eq!(run.code, 0);
    let summary = summary(&run);
    assert_eq!(
        (number(&summary, "commands"), number(&summary, "malformed")),
        (0, 1000)
    );
    assert_eq!(summary["views_match"], true);
    assert_eq!(run.stderr.lines().count(), 21, "{}", run.stderr);
    assert!(
        run.stderr
            .ends_with("parsley: 980 more malformed lines were skipped\n"),
        "{}",
        run.stderr
    );
}

/// A line of 100 MB, from a file and without an end of line: read in passing, never held.
#[test]
fn a_line_of_100_megabytes_is_skipped_in_little_memory() {
    const MEGABYTE: usize = 1 << 20;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("long.jsonl");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).expect("a file"));
    let mut write = |bytes: &[u8]| file.write_all(bytes).expect("room");
    write(b"{\"account\":\"a\",\"deposit\":5}\n{\"account\":\"");
    (0..100).for_each(|_| write(&vec![b'x'; MEGABYTE]));
    write(b"\",\"deposit\":5}\n{\"account\":\"a\",\"deposit\":6}\n{\"account\":\"");
    (0..100).for_each(|_| write(&vec![b'y'; MEGABYTE]));
    file.flush().expect("room");

    let (run, memory_kb) = measured(&["demo", "--json", "--input", &path.display().to_string()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let summary = summary(&run);
    assert_eq!(
        (number(&summary, "commands"), number(&summary, "malformed")),
        (2, 2)
    );
    let said: Vec<&str> = run.stderr.lines().collect();
    let too_long =
        |line| format!("parsley: line {line}: longer than 65536 bytes, expected a line that fits");
    assert_eq!(said, [too_long(2), too_long(4)]);
    if let Some(memory_kb) = memory_kb {
        assert!(memory_kb < 60 * 1024, "{memory_kb} KiB");
    }
}

/// Runs the program under `/usr/bin/time`'s eyes where the system has `/proc`: the peak of its memory.
fn measured(arguments: &[&str]) -> (Run, Option<u64>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_parsley"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = None;
    while child.try_wait().expect("a child").is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        peak = peak.max(now);
        std::thread::yield_now();
    }
    let output = child.wait_with_output().expect("the program ends");
    let run = Run {
        code: output.status.code().expect("the program exits"),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    };
    (run, peak)
}

/// Long enough for the log to forget what has been read.
#[test]
fn a_long_input_passes_through_a_full_application() {
    let input: String = (0..5_500)
        .map(|n| format!("{{\"account\":\"{}\",\"deposit\":{n}}}\n", n % 50))
        .collect();
    let (run, checked) = traced(&["--input", "-"], input.as_bytes());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let summary = summary(&run);
    assert_eq!(
        (number(&summary, "commands"), number(&summary, "delivered")),
        (5_500, 22_000)
    );
    assert!(
        (1..=1000).contains(&number(&summary, "held_max")),
        "{summary}"
    );
    assert_eq!(checked.faults, Vec::<String>::new());
    assert_eq!(
        (
            checked.inversions_by_causality,
            checked.inversions_by_claims
        ),
        (0, 0)
    );
    assert_eq!(
        checked.inversions_by_arrival,
        number(&summary, "inversions_prevented")
    );
    assert!(checked.views_match());
}

/// The checker itself: a trace that was tampered with does not pass.
#[test]
fn the_checker_sees_what_is_wrong() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace.jsonl");
    let run = parsley(&["demo", "--trace", &path.display().to_string()], b"");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let trace = std::fs::read_to_string(&path).expect("a trace");
    let lines: Vec<Value> = trace
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let tampered = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut lines = lines.clone();
        change(&mut lines);
        causality::check(
            &lines
                .iter()
                .map(|line| format!("{line}\n"))
                .collect::<String>(),
        )
    };
    let find = |lines: &[Value], stage: &str, topic: &str| {
        lines
            .iter()
            .position(|line| line["stage"] == stage && line["topic"] == topic)
            .expect("a delivery")
    };

    let untouched = tampered(&|_| {});
    assert_eq!(
        (untouched.faults.len(), untouched.inversions_by_causality),
        (0, 0)
    );

    let view_first = tampered(&|lines| {
        let view = lines.remove(find(lines, "reconciler", "views"));
        let at = lines
            .iter()
            .position(|line| {
                line["stage"] == "reconciler" && line["partition"] == view["partition"]
            })
            .expect("a delivery");
        lines.insert(at, view);
    });
    assert!(view_first.inversions_by_causality >= 1 && view_first.inversions_by_claims >= 1);

    // A deposit that is the last command of its account: nothing after it can make up for the loss.
    let command_lost = tampered(&|lines| {
        let mut last = BTreeMap::new();
        for (at, line) in lines.iter().enumerate() {
            if line["stage"] == "reconciler" && line["topic"] == "commands" {
                last.insert(line["key"].to_string(), at);
            }
        }
        let deposit = last
            .into_values()
            .find(|at| lines[*at]["value"]["deposit"].is_u64());
        lines.remove(deposit.expect("an account that ends with a deposit"));
    });
    assert!(!command_lost.faults.is_empty());
    assert!(!command_lost.views_match());

    let claims_nothing = tampered(&|lines| {
        let at = find(lines, "reconciler", "views");
        lines[at]["clock"]["offsets"] = json!([]);
    });
    assert!(
        claims_nothing
            .faults
            .iter()
            .any(|fault| fault.contains("claims too little")),
        "{:?}",
        claims_nothing.faults
    );

    let another_balance = tampered(&|lines| {
        let last = lines
            .iter()
            .rposition(|line| line["topic"] == "views")
            .expect("a view");
        lines[last]["value"]["balance"] = json!(u64::MAX);
    });
    assert!(!another_balance.views_match());
}
