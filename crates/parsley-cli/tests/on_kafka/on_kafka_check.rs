//! `parsley topic check` over what real stages have written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kafka_cluster::ClusterConfig;
use parsley_kafka::{KafkaConfig, KafkaHost};
use parsley_stage::{App, Stage, Topic, codec};
use serde_json::{Value, json};

use crate::running::{Run, parsley};
use crate::world::*;

const RECORDS: u64 = 40;

/// Dumps topics into files, one each.
fn dump_all(dir: &std::path::Path, topics: &[String], further: &[&str]) -> Vec<String> {
    let into = |topic: &String| {
        let run = dump(topic, further);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        let path = dir.join(format!("{topic}.jsonl"));
        std::fs::write(&path, run.stdout).unwrap();
        path.display().to_string()
    };
    topics.iter().map(into).collect()
}

fn check(files: &[String]) -> Run {
    let files = files.iter().map(String::as_str);
    let arguments: Vec<&str> = ["topic", "check"].into_iter().chain(files).collect();
    parsley(&arguments, b"")
}

fn summary(run: &Run) -> Value {
    run.lines().pop().unwrap()["summary"].clone()
}

/// Two stages: what is written to x is sent on to a, and both come together in b. Now and then logic fails, so that steps are aborted: their
/// records are in the logs, and their sequences are given out again.
#[test]
fn what_stages_have_written_is_right_also_after_aborted_steps() {
    let name = |part: &str| format!("check-{part}");
    let topics = ["x", "a", "b", "account"].map(name);
    for topic in &topics {
        create_topic(topic, 2);
    }
    let [x, a, b] =
        ["x", "a", "b"].map(|part| Topic::new(name(part), codec::string(), codec::string()));
    let failing = Arc::new(AtomicU64::new(0));
    let first = Stage::stateless("first")
        .sink(&a)
        .on(&x, {
            let a = a.clone();
            move |message, out| {
                out.send(&a, &message.key, &message.value)?;
                match failing.fetch_add(1, Ordering::Relaxed) {
                    5 | 12 | 20 => {
                        // What was sent before is on the broker by then.
                        std::thread::sleep(std::time::Duration::from_millis(300));
                        Err("not yet".into())
                    }
                    _ => Ok(()),
                }
            }
        })
        .build()
        .unwrap();
    let on = |sink: &Topic<String, String>| {
        let sink = sink.clone();
        move |message: parsley_stage::Message<String, String>, out: &mut parsley_stage::Outbox| {
            out.send(&sink, &message.key, &message.value)
        }
    };
    let second = Stage::stateless("second")
        .sink(&b)
        .on(&x, on(&b))
        .on(&a, on(&b))
        .build()
        .unwrap();
    let app = App::named("check")
        .stage(first)
        .stage(second)
        .build()
        .unwrap();
    let state = tempfile::tempdir().unwrap();
    let mut config = KafkaConfig::new(bootstrap(), state.path());
    config.commit_interval = std::time::Duration::from_millis(20);
    let host = KafkaHost::new(config).unwrap().audit(name("account"));
    let running = host.start(&app).unwrap();
    let plain = Foreign::plain();
    for number in 0..RECORDS {
        let key = format!("k{}", number % 7);
        plain.text(
            &topics[0],
            (number % 7 % 2) as i32,
            &key,
            &number.to_string(),
        );
    }
    let all = running.wait(BOUND, |status| status.delivered() >= 3 * RECORDS);
    assert!(all, "{:#?}", running.status());
    running.stop();

    let dir = tempfile::tempdir().unwrap();
    let files = dump_all(dir.path(), &topics, &[]);
    let run = check(&files);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let summary_of = summary(&run);
    assert_eq!(summary_of["deliveries"], 3 * RECORDS, "{summary_of}");
    assert_eq!(summary_of["tasks"], 4);
    for check in summary_of["checks"].as_array().unwrap() {
        let needs_sends = [
            "causes are delivered first",
            "stamps claim what their senders were delivered",
        ];
        let needs_sends = needs_sends.iter().any(|name| check["check"] == **name);
        assert_eq!(check["not_made"].is_string(), needs_sends, "{check}");
        assert_eq!(check["judged"] == 0, needs_sends, "{check}");
    }

    // An entry that is left out of the account, and two that change their places.
    let account = std::fs::read_to_string(&files[3]).unwrap();
    let lines: Vec<&str> = account.lines().collect();
    let is_second =
        |line: &&&str| line.contains(r#"{\"delivered\":{\"stage\":\"second\",\"partition\":0"#);
    let of_second: Vec<&str> = lines.iter().filter(is_second).copied().collect();
    let middle = of_second[of_second.len() / 2];
    let left: Vec<&str> = lines
        .iter()
        .filter(|line| **line != middle)
        .copied()
        .collect();
    std::fs::write(&files[3], left.join("\n")).unwrap();
    let run = check(&files);
    let found = summary(&run)["by_kind"].clone();
    assert_eq!(run.code, 1, "{middle}");
    assert!(
        found["skipped"] == 1 || found["not-delivered"] == 1,
        "{found}"
    );

    // Everything that is there, aborted records as well: sequences are not judged then, and that is said.
    let topics = &topics[..3];
    let run = check(&dump_all(
        dir.path(),
        topics,
        &["--isolation", "read_uncommitted"],
    ));
    assert_eq!(run.code, 0, "{}", run.stdout);
    let summary_of = summary(&run);
    assert!(
        summary_of["dumped"].as_u64().unwrap() > 4 * RECORDS,
        "nothing was aborted: {summary_of}"
    );
    let said = summary_of["checks"].as_array().unwrap().last().unwrap()["not_made"].clone();
    assert_eq!(
        said,
        json!("6 channels were dumped with what is not committed")
    );
}

/// All checks at once: a trace, which tells what really happened before what, the account, and everything that was written. The demo's topics have
/// fixed names, so it has a broker of its own.
#[test]
fn the_demo_on_a_cluster_is_right_by_its_trace_and_by_its_topics() {
    let cluster = start(ClusterConfig::default());
    let brokers = cluster.bootstrap();
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.jsonl").display().to_string();
    let run = parsley(
        &[
            "demo",
            "--json",
            "--brokers",
            &brokers,
            "--create-topics",
            "--trace",
            &trace,
        ],
        b"",
    );
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let mut files = vec![trace];
    for topic in ["commands", "events", "views", "findings", "demo-audit"] {
        let dump = ["topic", "dump", "--until-end", "--brokers", &brokers];
        let run = parsley(&[&dump[..], &["--topic", topic]].concat(), b"");
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        let path = dir.path().join(format!("{topic}.jsonl"));
        std::fs::write(&path, run.stdout).unwrap();
        files.push(path.display().to_string());
    }
    let run = check(&files);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let summary = summary(&run);
    // Each of 4,000 deliveries is told by the trace and by the account, as two histories of six tasks.
    assert_eq!(
        (&summary["deliveries"], &summary["tasks"]),
        (&json!(8000), &json!(12))
    );
    for check in summary["checks"].as_array().unwrap() {
        assert_ne!(check["judged"], 0, "{check}");
    }
}
