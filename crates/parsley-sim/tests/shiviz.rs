//! The log for ShiViz: what that tool asks of a log holds of every run.

mod runs;

use std::collections::BTreeMap;

use parsley_sim::shiviz::{PARSER, shiviz};
use parsley_sim::trace::{Kind, OnPurpose, Trace};
use runs::{Script, at};

struct Entry {
    host: String,
    clock: BTreeMap<String, u64>,
    text: String,
}

/// Takes a log apart the way its regular expression says.
fn parse(log: &str) -> Vec<Entry> {
    let mut lines = log.split('\n');
    assert_eq!(
        lines.next(),
        Some(PARSER),
        "the first line is the regular expression"
    );
    assert_eq!(
        lines.next(),
        Some(""),
        "the second says that there is one execution"
    );
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.last(), Some(&""), "the log ends with its last line");
    lines[..lines.len() - 1]
        .chunks(2)
        .map(|pair| {
            let (host, clock) = pair[0].split_once(' ').expect("a host and a clock");
            Entry {
                host: host.to_owned(),
                clock: serde_json::from_str(clock).expect("a clock is a JSON object of numbers"),
                text: pair[1].to_owned(),
            }
        })
        .collect()
}

/// What ShiViz checks, and that a host's clock never forgets.
fn check(entries: &[Entry]) {
    let mut last: BTreeMap<&str, &BTreeMap<String, u64>> = BTreeMap::new();
    for entry in entries {
        assert!(
            !entry.host.is_empty() && !entry.host.contains(char::is_whitespace),
            "{:?}",
            entry.host
        );
        assert!(!entry.text.is_empty());
        let before = last.get(entry.host.as_str());
        let own = before.map_or(0, |clock| clock[&entry.host]);
        assert_eq!(
            entry.clock[&entry.host],
            own + 1,
            "own events are counted from 1 without a gap"
        );
        for (host, &n) in before.into_iter().copied().flatten() {
            assert!(entry.clock[host] >= n, "a clock never forgets");
        }
        for (host, &n) in entry.clock.iter().filter(|(host, _)| **host != entry.host) {
            let seen = last.get(host.as_str()).map_or(0, |clock| clock[host]);
            assert!(
                (1..=seen).contains(&n),
                "{} knows of event {n} of {host}, which is at {seen}",
                entry.host
            );
        }
        last.insert(&entry.host, &entry.clock);
    }
}

fn lines(trace: &Trace) -> Vec<String> {
    shiviz(trace).lines().map(str::to_owned).collect()
}

#[test]
fn a_small_run_as_a_log() {
    let mut run = Script::new("small", 1, &["edge", "a/0"], &["in:0", "out:0"]);
    run.sent(0, at(0, 0), "")
        .step(1)
        .received(1, at(0, 0))
        .delivered(1, at(0, 0))
        .sent(1, at(1, 0), "in:0<=0");
    run.step(2).delivered(0, at(1, 0)).note(None, "a marker");
    assert_eq!(
        lines(&run.finish()),
        [
            r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)",
            "",
            r#"edge {"edge":1}"#,
            "begins",
            r#"a/0 {"a/0":1}"#,
            "begins",
            r#"log {"log":1}"#,
            "begins",
            r#"edge {"edge":2}"#,
            "sent in:0@0 [] (step 0)",
            r#"a/0 {"a/0":2}"#,
            "received in:0@0 (step 1)",
            r#"a/0 {"a/0":3,"edge":2}"#,
            "delivered in:0@0 (step 1)",
            r#"a/0 {"a/0":4,"edge":2}"#,
            "sent out:0@0 [in:0<=0] (step 1)",
            r#"edge {"edge":3,"a/0":4}"#,
            "delivered out:0@0 (step 2)",
            r#"log {"log":2}"#,
            "a marker (step 2)",
        ]
    );
}

#[test]
fn clocks_are_dense_and_hosts_stand_in_the_order_of_the_actors() {
    for trace in [runs::shop(), runs::careless_ledger(), runs::crowd()] {
        let entries = parse(&shiviz(&trace));
        check(&entries);
        let hosts = entries
            .iter()
            .take_while(|entry| entry.text == "begins")
            .count();
        assert_eq!(
            entries.len(),
            hosts + trace.events.len(),
            "every event is there once"
        );
        let first: Vec<&str> = entries[..hosts].iter().map(|entry| &*entry.host).collect();
        assert_eq!(first[..trace.actors.len()], trace.actors);
    }
}

#[test]
fn a_send_happens_before_its_delivery_and_not_after_a_concurrent_one() {
    let trace = runs::careless_ledger();
    let entries = parse(&shiviz(&trace));
    let entry = |host: &str, text: &str| {
        entries
            .iter()
            .find(|entry| entry.host == host && entry.text.starts_with(text))
            .expect("the entry is there")
    };
    let before =
        |a: &Entry, b: &Entry| b.clock.get(&a.host).is_some_and(|&n| n >= a.clock[&a.host]);
    let (bill, parcel) = (
        entry("billing/0", "sent bills:0@0"),
        entry("shipping/0", "sent parcels:0@0"),
    );
    assert!(before(bill, parcel));
    assert!(!before(parcel, bill));
    let received = entry("ledger/0", "received parcels:0@0");
    assert!(
        !before(parcel, received),
        "a receipt tells its host nothing"
    );
    assert!(before(parcel, entry("ledger/0", "delivered parcels:0@0")));
}

#[test]
fn names_are_words_of_their_own_and_texts_are_one_line() {
    let mut run = Script::new("names", 1, &["a b", "a_b", "", "{\"x\"}"], &["t:0"]);
    run.note(Some(0), "one\ntwo\u{2028}three")
        .note(Some(9), "")
        .note(Some(3), "{}");
    let entries = parse(&shiviz(&run.finish()));
    check(&entries);
    let hosts: Vec<&str> = entries.iter().take(5).map(|entry| &*entry.host).collect();
    assert_eq!(hosts, ["a_b", "a_b'", "_", "__x__", "?"]);
    assert_eq!(entries[5].text, "one two three (step 0)");
}

#[test]
fn what_is_wrong_on_purpose_is_no_event() {
    let mut trace = runs::shop();
    let log = shiviz(&trace);
    trace.on_purpose = Some(OnPurpose {
        kind: "sabotage".to_owned(),
        name: "eager".to_owned(),
        about: "every claim counts as met".to_owned(),
    });
    trace.replay = Some("a command".to_owned());
    assert_eq!(shiviz(&trace), log);
}

#[test]
fn a_record_that_was_never_sent_teaches_nothing() {
    let mut run = Script::new("unsent", 1, &["a", "b"], &[]);
    run.event(
        Some(0),
        Kind::Delivered {
            at: at(5, i64::MIN),
            was_held: true,
        },
    );
    let entries = parse(&shiviz(&run.finish()));
    check(&entries);
    assert_eq!(entries[2].clock.len(), 1);
}
