//! `parsley node`: the scripts of testdata/node, and what makes a script malformed.

mod running;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use running::{Run, parsley, workspace};
use serde_json::{Value, json};

const OPEN: &str =
    r#"{"open": {"name": "n", "inputs": ["x:0", "y:0"], "sinks": ["s"], "partitions": {"s": 2}}}"#;
const OPENED: &str = "{\"opened\":{\"resume\":{}}}\n";

fn node(script: &str) -> Run {
    parsley(&["node", "-"], script.as_bytes())
}

fn scripts() -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace("testdata/node")).expect("scripts");
    let mut scripts: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    scripts.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "jsonl")
    });
    scripts.sort();
    scripts
}

/// Lines as JSON, without the text that is for people.
fn compared(lines: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut lines: Vec<Value> = lines.into_iter().collect();
    for line in &mut lines {
        if let Some(refused) = line.get_mut("refused").and_then(Value::as_object_mut) {
            refused.remove("message");
        }
    }
    lines
}

fn expected(script: &Path) -> Vec<Value> {
    let text = fs::read_to_string(script.with_extension("expected")).expect("expected output");
    compared(
        text.lines().map(|line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
        }),
    )
}

#[test]
fn every_script_gives_its_expected_output() {
    let scripts = scripts();
    assert!(scripts.len() >= 54, "only {} scripts found", scripts.len());
    let mut failed = String::new();
    for script in &scripts {
        let expected = expected(script);
        let run = parsley(&[Path::new("node"), script], b"");
        let printed = compared(run.lines());
        let refused = expected
            .last()
            .is_some_and(|line| line.get("refused").is_some());
        if printed != expected || run.code != if refused { 3 } else { 0 } || !run.stderr.is_empty()
        {
            let show = |lines: &[Value]| {
                lines
                    .iter()
                    .map(|line| format!("  {line}\n"))
                    .collect::<String>()
            };
            failed += &format!(
                "{} exits with {}\nexpected\n{}printed\n{}{}\n",
                script.display(),
                run.code,
                show(&expected),
                show(&printed),
                run.stderr
            );
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn the_example_of_the_documentation_is_right() {
    let page = fs::read_to_string(workspace("docs/node-script.md")).expect("the page");
    let example = page.split_once("## An example").expect("an example").1;
    let mut blocks = example
        .split("```json\n")
        .skip(1)
        .map(|block| block.split_once("```").expect("an end").0);
    let (script, printed) = (
        blocks.next().expect("a script"),
        blocks.next().expect("its output"),
    );
    let run = node(script);
    let printed = printed
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    assert_eq!(compared(run.lines()), compared(printed));
    assert_eq!(run.code, 3);
}

#[test]
fn a_refusal_tells_what_to_do_and_ends_with_3() {
    let run = node(&format!(
        "{OPEN}\n{{\"record\": {{\"on\": \"z:0\", \"offset\": 4}}}}\n# over\n\n"
    ));
    assert_eq!((run.code, run.stderr.as_str()), (3, ""));
    let refused = &run.lines()[1]["refused"];
    assert_eq!(
        (&refused["code"], &refused["on"], &refused["offset"]),
        (&json!("vc-unconsumed-channel"), &json!("z:0"), &json!(4))
    );
    assert!(
        refused["message"]
            .as_str()
            .is_some_and(|message| message.contains("declare the topic")),
        "{refused}"
    );
}

#[test]
fn a_script_that_opens_again_after_a_refusal_runs_through() {
    let refused = "{\"record\": {\"on\": \"z:0\", \"offset\": 4}}";
    let script = format!("{OPEN}\n{refused}\n{OPEN}\n{{\"stop\": {{}}}}\n");
    let run = node(&script);
    assert_eq!((run.code, run.lines().len()), (0, 3), "{}", run.stdout);
    assert_eq!(
        node(&format!("{OPEN}\n{refused}\n{OPEN}\n{refused}\n")).code,
        3
    );
}

#[test]
fn what_a_refusal_interrupts_is_gone() {
    let script = [
        OPEN,
        r#"{"begin": {}}"#,
        r#"{"record": {"on": "x:0", "offset": 0, "value": "v"}}"#,
        r#"{"send": {"to": "s:0"}}"#,
        r#"{"record": {"on": "z:0", "offset": 0}}"#,
        OPEN,
        r#"{"record": {"on": "x:0", "offset": 0, "value": "v"}}"#,
        r#"{"send": {"to": "s:0"}}"#,
    ]
    .join("\n");
    let run = node(&script);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let lines = run.lines();
    assert_eq!(lines[3]["refused"]["code"], "vc-unconsumed-channel");
    assert_eq!(
        lines[..3],
        lines[4..],
        "an execution like the first, with the same delivery and the same stamp"
    );
}

/// Each script is malformed at its last line; what its earlier lines answer is printed.
#[test]
fn a_malformed_script_exits_with_2_and_names_the_line() {
    let record = r#"{"record": {"on": "x:0", "offset": 0}}"#;
    let (begin, stop) = (r#"{"begin": {}}"#, r#"{"stop": {}}"#);
    let step = format!("{OPEN}\n{begin}");
    let joins = [
        OPEN,
        r#"{"record": {"on": "y:0", "offset": 0, "clock": {"sequences": [["w:0", "alice", 3]]}}}"#,
        stop,
        r#"{"open": {"name": "n", "inputs": ["w:0", "y:0", "x:0"], "sinks": ["s"], "partitions": {"s": 2}}}"#,
    ]
    .join("\n");
    let cases = [
        ("no JSON".to_owned(), "found no JSON, expected a value".to_owned()),
        ("[]".to_owned(), "expected an object with one key".to_owned()),
        (r#"{"halt": {}}"#.to_owned(), "found the unknown key `halt`, expected one of `open`".to_owned()),
        (format!("{OPEN}\n# a comment\n\n{{\"send\": {{\"to\": \"s:0\", \"at\": 1}}}}"), "found the unknown key `at`, expected `to`".to_owned()),
        (format!("{OPEN}\n{{\"send\": {{\"to\": \"s\"}}}}"), "found `s`, expected a channel".to_owned()),
        (format!("{OPEN}\n{{\"record\": {{\"on\": \"x:0\", \"offset\": -1}}}}"), "found -1, expected a whole number from 0 to 9223372036854775807".to_owned()),
        (format!("{OPEN}\n{{\"holds\": {{}}, \"store\": {{}}}}"), "second key `store`".to_owned()),
        (format!("{OPEN}\n{{\"send\": {{\"to\": \"s:2\"}}}}"), "`s:2`, expected a partition below 2".to_owned()),
        (
            "{\"open\": {\"name\": \"n\", \"inputs\": [], \"sinks\": [\"s\"]}}\n{\"send\": {\"to\": \"s:0\"}}".to_owned(),
            "expected `partitions` to say how many the sink `s` has".to_owned(),
        ),
        (format!("{OPEN}\n{OPEN}"), "found `open` while a node runs".to_owned()),
        (format!("{step}\n{OPEN}"), "found `open` while a node runs".to_owned()),
        (record.to_owned(), "found `record` while no node runs, expected `open`".to_owned()),
        (format!("{OPEN}\n{stop}\n{record}"), "found `record` while no node runs".to_owned()),
        (format!("{OPEN}\n{stop}\n{stop}"), "found `stop` while no node runs".to_owned()),
        (format!("{step}\n{{\"abort\": {{}}}}\n{{\"holds\": {{}}}}"), "found `holds` while no node runs".to_owned()),
        (format!("{OPEN}\n{{\"record\": {{\"on\": \"z:0\", \"offset\": 0}}}}\n{{\"store\": {{}}}}"), "found `store` after a refusal, expected `open`".to_owned()),
        (format!("{step}\n{begin}"), "found `begin` within a step".to_owned()),
        (format!("{OPEN}\n{{\"commit\": {{}}}}"), "found `commit` outside a step".to_owned()),
        (format!("{OPEN}\n{{\"fence\": {{}}}}"), "found `fence` outside a step".to_owned()),
        (format!("{OPEN}\n{{\"abort\": {{}}}}"), "found `abort` outside a step".to_owned()),
        (format!("{step}\n{{\"mark\": {{}}}}"), "found `mark` within a step".to_owned()),
        (format!("{step}\n{{\"watermarks\": {{}}}}"), "found `watermarks` within a step".to_owned()),
        (joins, "found no end of `w:0` in `ends`".to_owned()),
        (
            format!("{step}\n{{\"fence\": {{\"t:0\": 1}}}}"),
            "found an acknowledgement on `t:0`".to_owned(),
        ),
        (OPEN.replace(r#""y:0""#, r#""x:0""#), "found input `x:0` twice".to_owned()),
        (OPEN.replace(r#"["s"]"#, r#"["s", "s"]"#), "found sink `s` twice".to_owned()),
        (
            r#"{"open": {"name": "n", "inputs": [], "sinks": [], "topics": {"a": "00112233-4455-6677-8899-aabbccddeeff", "b": "00112233-4455-6677-8899-aabbccddeeff"}}}"#.to_owned(),
            "found the topic `00112233-4455-6677-8899-aabbccddeeff` twice".to_owned(),
        ),
        (format!("\u{feff}{OPEN}"), "column 1: found a byte order mark, expected `{`".to_owned()),
    ];
    for (script, reason) in cases {
        let run = node(&script);
        let place = format!("parsley: line {}: ", script.lines().count());
        assert_eq!(run.code, 2, "{script}\n{}{}", run.stdout, run.stderr);
        assert!(run.stderr.starts_with(&place), "{script}\n{}", run.stderr);
        assert!(run.stderr.contains(&reason), "{script}\n{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{script}\n{}", run.stderr);
        assert_eq!(
            run.stdout.contains("opened"),
            script.lines().count() > 1 && script.starts_with("{\"open\""),
            "{script}"
        );
    }
}

/// A host may report of more than the node was declared with, and a script that plays it again has that in it.
#[test]
fn reports_of_what_is_not_declared_are_of_no_consequence() {
    let more = r#""start": {"w:0": 3}, "ends": {"w:0": 9}, "log_starts": {"w:0": 1}"#;
    let open = OPEN
        .replace(r#"{"s": 2}"#, r#"{"s": 2, "w": 7}"#)
        .replace(r#""sinks""#, &format!(r#"{more}, "sinks""#));
    let rest = concat!(
        "\n{\"record\": {\"on\": \"x:0\", \"offset\": 4, \"headers\": {\"h\": null}}}\n",
        "{\"send\": {\"to\": \"s:1\"}}\n{\"store\": {}}\n"
    );
    let (with, without) = (
        node(&format!("{open}{rest}")),
        node(&format!("{OPEN}{rest}")),
    );
    assert_eq!((with.code, with.stderr.as_str()), (0, ""));
    assert_eq!(with.lines().len(), 4);
    assert_eq!(with.stdout, without.stdout);
    // Nor does `partitions` make a sink of it.
    let run = node(&format!("{open}\n{{\"send\": {{\"to\": \"w:0\"}}}}\n"));
    assert_eq!(
        (run.code, &run.lines()[1]["refused"]["code"]),
        (3, &json!("vc-undeclared-sink")),
        "{}",
        run.stdout
    );
}

/// Of two positions for one channel the one that was named later in the alphabet was taken; of two sinks, one.
#[test]
fn what_is_named_twice_by_two_names_is_malformed() {
    // `y` stands for what `x` stands for by itself, in this execution and in those that follow.
    let uuid = "9dd4e461-268c-3034-b5c8-564e155c67a6";
    let open = |fields: &str| {
        format!(r#"{{"open": {{"name": "n", "topics": {{"y": "{uuid}"}}, {fields}}}}}"#)
    };
    let opened = open(r#""inputs": ["x:0", "y:1"], "sinks": ["s"], "partitions": {"s": 1}"#);
    let two = "found `x:0` and `y:0`, which are two names of one channel, expected one of them";
    let places = r#"{"x:0": 1, "y:0": 2}"#;
    for (script, reason) in [
        (open(r#""inputs": ["x:0", "y:0"], "sinks": []"#), two),
        (
            open(r#""inputs": [], "sinks": ["x", "y"]"#),
            "found `x` and `y`, which are two names of one topic, expected one of them",
        ),
        (
            open(&format!(
                r#""inputs": ["x:0"], "sinks": [], "start": {places}"#
            )),
            two,
        ),
        (format!("{opened}\n{{\"watermarks\": {places}}}"), two),
        (
            format!("{opened}\n{{\"begin\": {{}}}}\n{{\"fence\": {places}}}"),
            two,
        ),
        (
            format!("{opened}\n{{\"truncate\": {{\"drop_below\": {places}}}}}"),
            two,
        ),
    ] {
        let run = node(&script);
        assert_eq!(run.code, 2, "{script}\n{}", run.stdout);
        assert!(run.stderr.contains(reason), "{script}\n{}", run.stderr);
    }
    // One at a time the names are as good as each other, and answers have the one that was used last.
    let run = node(&format!(
        "{opened}\n{}\n{}\n",
        r#"{"record": {"on": "y:0", "offset": 0}}"#, r#"{"record": {"on": "x:0", "offset": 1}}"#
    ));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let on = |line: usize| run.lines()[line]["delivered"]["on"].clone();
    assert_eq!((on(1), on(2)), (json!("y:0"), json!("x:0")));
}

#[test]
fn bytes_that_are_not_utf_8_are_a_malformed_script() {
    for line in [&b"# \xff"[..], b"{\"stop\xff\": {}}", b"\xff"] {
        let run = parsley(&["node", "-"], &[OPEN.as_bytes(), b"\n", line].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, OPENED));
        assert!(
            run.stderr
                .starts_with("parsley: line 2: not UTF-8 from byte "),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn a_line_past_the_limit_is_a_malformed_script() {
    let mut script = format!("{OPEN}\n#").into_bytes();
    script.resize(script.len() + (17 << 20), b'x');
    let run = parsley(&["node", "-"], &script);
    assert_eq!((run.code, run.stdout.as_str()), (2, OPENED));
    assert!(
        run.stderr
            .starts_with("parsley: line 2: longer than 16777216 bytes"),
        "{}",
        run.stderr
    );
}

#[test]
fn nesting_without_end_is_a_malformed_script() {
    let run = node(&format!("{OPEN}\n{{\"stop\": {}", "[".repeat(1 << 20)));
    assert_eq!((run.code, run.stdout.as_str()), (2, OPENED));
}

#[test]
fn a_value_that_is_not_text_comes_back_as_bytes() {
    let run = node(&format!(
        "{OPEN}\n{}\n{}\n",
        r#"{"record": {"on": "x:0", "offset": 0, "key": "", "value_b64": "//4="}}"#,
        r#"{"record": {"on": "x:0", "offset": 1, "value_b64": "aGk="}}"#
    ));
    let delivered = |offset: i64, fields: Value| {
        let mut line = json!({"delivered": {"on": "x:0", "offset": offset}});
        line["delivered"]
            .as_object_mut()
            .expect("an object")
            .extend(fields.as_object().expect("an object").clone());
        line
    };
    assert_eq!(
        run.lines()[1..],
        [
            delivered(0, json!({"key": "", "value_b64": "//4="})),
            delivered(1, json!({"key": null, "value": "hi"}))
        ]
    );
}

#[test]
fn header_names_may_repeat_and_are_kept_in_order() {
    let run = node(&format!(
        "{OPEN}\n{}\n{}\n",
        r#"{"record": {"on": "y:0", "offset": 0, "clock": {"offsets": {"x:0": 0}}, "headers": {"b": "1", "a": null, "b": ""}}}"#,
        r#"{"store": {}}"#
    ));
    let store = run.lines()[1]["store"].clone();
    let entries = store.as_array().expect("entries");
    let held = entries.iter().find(|entry| {
        entry[0]
            .as_str()
            .is_some_and(|key| key.ends_with("/e/0000000000000000"))
    });
    let held = held.expect("a held record")[1]
        .as_str()
        .expect("hexadecimal");
    // Null key, null value; three headers: b = "1", a = null, b = "".
    let tail = "ffffffffffffffff00000003000000016200000001310000000161ffffffff000000016200000000";
    assert!(held.ends_with(tail), "{held}");
}

#[test]
fn a_protocol_header_can_be_given_twice() {
    for header in [
        r#""headers": {"vc": "a", "vc": "b"}"#,
        r#""sequence": 0, "sender": "s", "headers": {"vc-seq": "12345678"}"#,
    ] {
        let run = node(&format!(
            "{OPEN}\n{{\"record\": {{\"on\": \"x:0\", \"offset\": 0, {header}}}}}\n"
        ));
        assert_eq!(
            (run.code, &run.lines()[1]["refused"]["code"]),
            (3, &json!("vc-corrupt-sender")),
            "{}",
            run.stdout
        );
    }
}

#[test]
fn what_a_record_carries_is_for_the_node_to_judge() {
    for clock in [
        r#"{"offsets": {"y:0": -1}}"#,
        r#"{"sequences": [["y:0", "s", -1]]}"#,
        r#"{"sequences": [["y:0", "s", 1], ["y:0", "s", 2]]}"#,
    ] {
        let run = node(&format!(
            "{OPEN}\n{{\"record\": {{\"on\": \"x:0\", \"offset\": 4, \"clock\": {clock}}}}}\n"
        ));
        let refused = json!({"code": "vc-corrupt-clock", "on": "x:0", "offset": 4});
        assert_eq!(
            (run.code, compared(run.lines())[1].clone()),
            (3, json!({ "refused": refused })),
            "{clock}"
        );
    }
}

/// G13: ten thousand claims are wider than the budget of 256 KiB, nine thousand are not.
#[test]
fn a_clock_past_the_budget_refuses() {
    for (claims, code) in [(9_000, 0), (10_000, 3)] {
        let offsets: serde_json::Map<String, Value> = (0..claims)
            .map(|partition| (format!("p:{partition}"), json!(1)))
            .collect();
        let record = json!({"record": {"on": "x:0", "offset": 4, "clock": {"offsets": offsets}}});
        let run = node(&format!("{OPEN}\n{record}\n"));
        assert_eq!(run.code, code, "{}", run.stderr);
        let line = &run.lines()[1];
        match code {
            0 => assert_eq!(line["delivered"]["offset"], 4),
            _ => assert_eq!(line["refused"]["code"], "vc-clock-too-wide"),
        }
    }
}

#[test]
fn topics_go_by_the_uuid_given_and_claims_without_a_name_by_theirs() {
    let uuid = "00112233-4455-6677-8899-aabbccddeeff";
    let (unnamed, clock) = (
        uuid,
        "010000000100112233445566778899aabbccddeeff00000007000000000000002a00000000",
    );
    let record = format!(r#"{{"record": {{"on": "x:0", "offset": 0, "clock_hex": "{clock}"}}}}"#);
    let run = node(&format!(
        "{OPEN}\n{record}\n{{\"send\": {{\"to\": \"s:0\"}}}}\n"
    ));
    let offsets = json!({format!("{unnamed}:7"): 42, "x:0": 0});
    assert_eq!(
        run.lines()[2]["stamp"]["clock"]["offsets"],
        offsets,
        "{}",
        run.stdout
    );

    let named = OPEN.replace(
        r#""inputs""#,
        &format!(r#""topics": {{"p": "{uuid}"}}, "inputs""#),
    );
    let run = node(&format!(
        "{named}\n{record}\n{{\"position\": {{\"on\": \"p:0\", \"next\": 1}}}}\n"
    ));
    assert_eq!(
        (run.code, &run.lines()[2]["refused"]["on"]),
        (3, &json!("p:0")),
        "{}",
        run.stdout
    );
}

#[test]
fn answers_come_before_the_next_line_is_asked_for() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_parsley"))
        .args(["node", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let (answered, answer) = mpsc::channel();
    let reader = thread::spawn(move || {
        answers.for_each(|line| answered.send(line.expect("text")).expect("the test reads"))
    });
    let mut ask = |line: &str| {
        writeln!(stdin, "{line}").expect("the program reads");
        let line = answer
            .recv_timeout(Duration::from_secs(60))
            .expect("an answer");
        serde_json::from_str::<Value>(&line).expect("JSON")
    };
    assert_eq!(ask(OPEN), json!({"opened": {"resume": {}}}));
    assert_eq!(ask(r#"{"holds": {}}"#), json!({"holds": []}));
    assert_eq!(
        ask(r#"{"record": {"on": "x:0", "offset": 3, "value": "v"}}"#),
        json!({"delivered": {"on": "x:0", "offset": 3, "key": null, "value": "v"}})
    );
    drop(stdin);
    reader.join().expect("all is read");
    assert_eq!(child.wait().expect("the program ends").code(), Some(0));
}
