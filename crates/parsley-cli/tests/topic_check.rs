//! `parsley topic check`: traces of the demo are right, and wrong as soon as something is changed in them; malformed lines are named.

mod running;

use std::collections::BTreeMap;

use running::{Run, parsley};
use serde_json::{Value, json};

/// A trace of the demo over so many commands.
fn trace(commands: usize) -> Vec<Value> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace.jsonl").display().to_string();
    let input: String = (0..commands)
        .map(|number| {
            let account = ["ada", "bob", "cyd", "dan", "eve"][number % 5];
            format!("{{\"account\": \"{account}\", \"deposit\": {number}}}\n")
        })
        .collect();
    let run = parsley(
        &["demo", "--json", "--input", "-", "--trace", &path],
        input.as_bytes(),
    );
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let text = std::fs::read_to_string(&path).expect("a trace");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn check(lines: &[Value]) -> Run {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    parsley(&["topic", "check", "-"], text.as_bytes())
}

fn summary(run: &Run) -> Value {
    run.lines().pop().expect("a line")["summary"].clone()
}

/// Checks lines that are wrong. Returns how often each kind was found.
fn kinds(lines: &[Value]) -> BTreeMap<String, u64> {
    let run = check(lines);
    assert_eq!((run.code, run.stderr.as_str()), (1, ""), "{}", run.stdout);
    let by_kind = summary(&run)["by_kind"].clone();
    let by_kind: BTreeMap<String, u64> = serde_json::from_value(by_kind).expect("kinds");
    let mut shown = run.lines();
    shown.pop();
    assert_eq!(shown.len() as u64, by_kind.values().sum::<u64>().min(100));
    for line in shown {
        let kind = line["violation"]["kind"].as_str().expect("a kind");
        assert!(by_kind.contains_key(kind), "{line}");
        assert!(line["violation"]["at"].is_string(), "{line}");
    }
    by_kind
}

fn task(line: &Value) -> (String, i64) {
    let stage = line["stage"].as_str().expect("a stage").to_owned();
    (stage, line["partition"].as_i64().expect("a partition"))
}

/// Numbers the deliveries of each task anew, so that numbers tell nothing.
fn renumber(mut lines: Vec<Value>) -> Vec<Value> {
    let mut next: BTreeMap<_, u64> = BTreeMap::new();
    for line in &mut lines {
        let number = next.entry(task(line)).or_default();
        line["delivery"] = json!(*number);
        *number += 1;
    }
    lines
}

/// The numbers of a generator that is the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

#[test]
fn a_trace_of_the_demo_is_right() {
    let trace = trace(200);
    let run = check(&trace);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let summary = summary(&run);
    for (field, expected) in [
        ("lines", 800),
        ("malformed", 0),
        ("deliveries", 800),
        ("records", 600),
        ("tasks", 6),
        ("violations", 0),
    ] {
        assert_eq!(summary[field], expected, "{field}: {summary}");
    }
    // All that a trace allows was judged, and what it does not is said.
    for made in summary["checks"].as_array().expect("checks") {
        let about_dumps = [
            "channel order and duplicates of dumps",
            "sequences of senders",
            "clocks of a sender do not shrink",
            "what was delivered is in the log",
        ];
        let is_about_dumps = about_dumps.iter().any(|name| made["check"] == **name);
        assert_eq!(made["judged"] == 0, is_about_dumps, "{made}");
        assert_eq!(made["not_made"].is_string(), is_about_dumps, "{made}");
    }
}

#[test]
fn an_effect_that_is_moved_before_its_cause_is_found_by_claims_and_by_causes() {
    let trace = trace(60);
    let mut numbers = Numbers(1);
    let views: Vec<usize> = (0..trace.len())
        .filter(|at| trace[*at]["topic"] == "views")
        .collect();
    for _ in 0..40 {
        let at = views[numbers.below(views.len())];
        // The command of a view is the last one that its clock claims of the partition.
        let claims = trace[at]["clock"]["offsets"].as_array().expect("claims");
        let is_cause = |line: &Value| {
            task(line) == task(&trace[at])
                && line["topic"] == "commands"
                && claims.iter().any(|claim| {
                    let channel = format!(
                        "{}:{}",
                        claim["topic"].as_str().expect("a topic"),
                        claim["partition"]
                    );
                    line["channel"] == channel && line["offset"] == claim["offset"]
                })
        };
        let cause = trace.iter().position(is_cause).expect("its command");
        assert!(cause < at);
        let mut moved = trace.clone();
        let effect = moved.remove(at);
        moved.insert(cause, effect);
        let found = kinds(&renumber(moved));
        for kind in ["delivered-after-claim", "delivered-after-effect"] {
            assert!(found.contains_key(kind), "{kind}: {found:?}");
        }
    }
}

#[test]
fn a_delivery_that_is_left_out_is_found() {
    let trace = trace(60);
    let mut numbers = Numbers(2);
    let mut unnoticed = 0;
    for _ in 0..60 {
        let at = numbers.below(trace.len());
        let mut left = trace.clone();
        let gone = left.remove(at);
        let same_task = |line: &&Value| task(line) == task(&gone);
        if !left[at..].iter().any(|line| same_task(&line)) {
            // The history that ends earlier is a history.
            unnoticed += 1;
            continue;
        }
        assert!(kinds(&left).contains_key("delivery-number"));
        // Without the numbers it is missed where the task was delivered the channel before and after it.
        let on_channel =
            |line: &&Value| task(line) == task(&gone) && line["channel"] == gone["channel"];
        let is_between = left[..at].iter().any(|line| on_channel(&line))
            && left[at..].iter().any(|line| on_channel(&line));
        if is_between {
            let found = kinds(&renumber(left));
            let missed = found.contains_key("skipped") || found.contains_key("not-delivered");
            assert!(missed, "{gone}: {found:?}");
        }
    }
    assert!(unnoticed < 10);
}

#[test]
fn what_is_doubled_or_exchanged_is_found() {
    let trace = trace(60);
    let mut numbers = Numbers(3);
    for _ in 0..40 {
        let at = numbers.below(trace.len());
        let mut doubled = trace.clone();
        let to = at + 1 + numbers.below(trace.len() - at);
        doubled.insert(to, trace[at].clone());
        assert!(kinds(&renumber(doubled)).contains_key("delivered-twice"));

        let on_channel = |line: &Value| {
            task(line) == task(&trace[at]) && line["channel"] == trace[at]["channel"]
        };
        let other = trace.iter().rposition(on_channel).expect("itself");
        if other == at {
            continue;
        }
        let mut exchanged = trace.clone();
        exchanged.swap(at, other);
        assert!(kinds(&renumber(exchanged)).contains_key("channel-order"));
    }
}

/// Nothing is out of order, and the clocks or sequences say less than they have to.
#[test]
fn stamps_that_say_too_little_are_found() {
    let trace = trace(60);
    let mut numbers = Numbers(4);
    let views: Vec<usize> = (0..trace.len())
        .filter(|at| trace[*at]["topic"] == "views")
        .collect();
    for _ in 0..20 {
        let at = views[numbers.below(views.len())];
        let mut weaker = trace.clone();
        let claims = weaker[at]["clock"]["offsets"]
            .as_array_mut()
            .expect("claims");
        // The projector is delivered events, and what those came of are commands: it has to claim both.
        let own = trace[at]["channel"].as_str().expect("a channel");
        let of_others: Vec<usize> = (0..claims.len())
            .filter(|claim| {
                let topic = claims[*claim]["topic"].as_str().expect("a topic");
                !own.starts_with(topic) && claims[*claim]["partition"] == trace[at]["partition"]
            })
            .collect();
        let which = of_others[numbers.below(of_others.len())];
        match claims[which]["offset"].as_i64().expect("an offset") {
            0 => drop(claims.remove(which)),
            offset => claims[which]["offset"] = json!(offset - 1),
        }
        assert!(kinds(&weaker).contains_key("stamp-incomplete"));

        let sending: Vec<usize> = (0..trace.len())
            .filter(|at| trace[*at]["sent"][0]["sequence"] != Value::Null)
            .collect();
        let at = sending[numbers.below(sending.len())];
        let mut resequenced = trace.clone();
        resequenced[at]["sent"][0]["sequence"] = json!(1_000_000);
        let found = kinds(&resequenced);
        assert!(found.contains_key("contradiction"), "{found:?}");
    }
}

#[test]
fn malformed_lines_are_named_and_the_others_judged() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("bad.jsonl");
    let good = trace(5);
    let mut bytes = format!("{}\n\n{{\"a\": 1}}\nno JSON\n", good[0]).into_bytes();
    bytes.extend([0xff, 0xfe, b'\n']);
    std::fs::write(&path, bytes).expect("a file");
    let path = path.display().to_string();
    let run = parsley(&["topic", "check", &path], b"");
    assert_eq!(run.code, 4);
    assert_eq!(
        run.stderr,
        format!(
            "parsley: {path}:3: found no `clock`, expected a dumped record (or `stage`, if it is a delivery) to have it\n\
             parsley: {path}:4: column 2: found no JSON, expected a value\n\
             parsley: {path}:5: not UTF-8 from byte 0 on\n"
        )
    );
    let summary = summary(&run);
    assert_eq!(
        (&summary["malformed"], &summary["deliveries"]),
        (&json!(3), &json!(1))
    );

    // Many are counted.
    let run = parsley(&["topic", "check", "-"], "x\n".repeat(30).as_bytes());
    assert_eq!((run.code, run.stderr.lines().count()), (4, 21));
    assert!(
        run.stderr
            .ends_with("parsley: 10 more lines are malformed\n")
    );
    // A trace that is cut off in the middle of a line.
    let text: String = good.iter().map(|line| format!("{line}\n")).collect();
    let run = parsley(&["topic", "check", "-"], &text.as_bytes()[..text.len() - 5]);
    assert_eq!(run.code, 4);
}

#[test]
fn nothing_to_judge_is_no_success() {
    for input in ["", "\n\n"] {
        let run = parsley(&["topic", "check", "-"], input.as_bytes());
        assert_eq!(run.code, 1);
        assert_eq!(
            run.stderr,
            "parsley: there is nothing to judge: no input has a line\n"
        );
    }
    let run = parsley::<&str>(&["topic", "check"], b"");
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    let run = parsley(&["topic", "check", "/no/such/file"], b"");
    assert_eq!((run.code, run.stdout.as_str()), (5, ""));
}

/// As many violations as are asked for are shown, and all are counted.
#[test]
fn what_is_shown_is_bounded() {
    let mut trace = trace(60);
    for line in &mut trace {
        line["delivery"] = json!(7);
    }
    let text: String = trace.iter().map(|line| format!("{line}\n")).collect();
    let run = parsley(&["topic", "check", "--show", "3", "-"], text.as_bytes());
    assert_eq!((run.code, run.lines().len()), (1, 4));
    assert_eq!(summary(&run)["violations"], trace.len());
}
