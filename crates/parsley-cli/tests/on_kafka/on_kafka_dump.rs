//! `parsley topic dump`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use kafka_cluster::{ClusterConfig, Resource};
use parsley::core::SenderId;
use parsley_stage::{App, Stage, Topic, codec};
use serde_json::{Value, json};

use crate::running::parsley;
use crate::world::*;

/// What a stage has sent: clocks, senders, sequences.
#[test]
fn the_records_of_a_stage_are_shown_with_what_they_claim() {
    let (input, output) = ("dump-stage-in", "dump-stage-out");
    let (input_id, output_id) = (create_topic(input, 1), create_topic(output, 1));
    let plain = Foreign::plain();
    plain.text(input, 0, "ann", "first");
    plain.text(input, 0, "ann", "second");
    let copied = Topic::new(output, codec::string(), codec::string());
    let copy = Stage::stateless("copy")
        .sink(&copied)
        .on(&Topic::new(input, codec::string(), codec::string()), {
            let copied = copied.clone();
            move |message, out| out.send(&copied, &message.key, &message.value)
        })
        .build()
        .unwrap();
    let app = App::named("dump-stage").stage(copy).build().unwrap();
    let state = tempfile::tempdir().unwrap();
    let config = parsley_kafka::KafkaConfig::new(bootstrap(), state.path());
    let running = parsley_kafka::KafkaHost::new(config)
        .unwrap()
        .start(&app)
        .unwrap();
    assert!(running.wait(BOUND, |status| status.delivered() == 2));
    running.stop();

    let lines = dumped(output, &[]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    let sender = SenderId::of_task("dump-stage", "copy", 0).to_string();
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(line["topic"], output);
        assert_eq!(line["channel"], format!("{output_id}:0"));
        assert_eq!(line["value"], ["first", "second"][number]);
        assert_eq!(
            (&line["sender"], &line["sequence"]),
            (&json!(sender), &json!(number))
        );
        let claims = line["clock"]["offsets"].as_array().unwrap();
        let cause = json!({"topic": input_id, "partition": 0, "offset": number});
        assert!(claims.contains(&cause), "{line}");
    }
    // The input is of a plain producer.
    for line in dumped(input, &[]) {
        for field in ["clock", "sender", "sequence"] {
            assert_eq!(line.get(field), Some(&Value::Null), "{line}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_shown_and_the_dump_goes_on() {
    let topic = "dump-corrupt";
    create_topic(topic, 1);
    let foreign = Foreign::plain();
    let bytes: &[u8] = &[0xff, 0];
    foreign.append(topic, 0, (Some(b"k"), Some(b"v")), &[("vc", Some(&[9, 9]))]);
    foreign.append(
        topic,
        0,
        (Some(b"k"), Some(b"v")),
        &[("vc-sender", Some(b"ab"))],
    );
    foreign.append(
        topic,
        0,
        (Some(b"k"), None),
        &[("mine", Some(b"x")), ("mine", None)],
    );
    foreign.append(topic, 0, (None, Some(bytes)), &[]);
    let lines = dumped(topic, &[]);
    assert_eq!(offsets(&lines), [(0, 0), (0, 1), (0, 2), (0, 3)]);
    for (line, header) in lines.iter().zip([("vc", "0909"), ("vc-sender", "6162")]) {
        assert_eq!(line.get("clock"), None);
        assert_eq!(
            line["header_error"]["headers"],
            json!([{"name": header.0, "value_hex": header.1}])
        );
    }
    assert_eq!(lines[2].get("value"), Some(&Value::Null), "a tombstone");
    assert_eq!(
        lines[2]["headers"],
        json!([{"name": "mine", "value": "x"}, {"name": "mine", "value": null}])
    );
    assert_eq!(lines[3].get("key"), Some(&Value::Null));
    assert_eq!(lines[3]["value_hex"], "ff00");
}

/// The end of a partition is no record: markers, aborted runs, nothing at all, a head that is gone, a transaction that is open.
#[test]
fn a_dump_ends_where_the_partitions_end() {
    let topic = "dump-ends";
    create_topic(topic, 5);
    let (committed, open) = (
        Foreign::transactional("dump-ends-committed"),
        Foreign::transactional("dump-ends-open"),
    );
    committed.begin();
    committed.text(topic, 0, "k", "a");
    committed.text(topic, 0, "k", "b");
    committed.commit();
    committed.begin();
    committed.text(topic, 1, "k", "never");
    committed.abort();
    for value in ["gone", "gone too", "left"] {
        Foreign::plain().text(topic, 2, "k", value);
    }
    delete_records(topic, 2, 2);
    assert_eq!(offsets(&dumped(topic, &[])), [(0, 0), (0, 1), (2, 2)]);

    Foreign::plain().text(topic, 4, "k", "before");
    open.begin();
    open.text(topic, 4, "k", "perhaps");
    committed.begin();
    committed.text(topic, 4, "k", "behind");
    committed.commit();
    let run = dump(topic, &["--partition", "4", "--partition", "3"]);
    assert_eq!((run.code, offsets(&in_order(&run))), (0, vec![(4, 0)]));
    assert_eq!(
        run.stderr,
        "parsley: dump-ends/4: a transaction is open from offset 1 on; nothing of it and of what follows, up to 3, is printed\n"
    );
    let everything = dumped(topic, &["--isolation", "read_uncommitted"]);
    assert_eq!(
        offsets(&everything),
        [(0, 0), (0, 1), (1, 0), (2, 2), (4, 0), (4, 1), (4, 2)]
    );
    assert!(
        everything
            .iter()
            .all(|line| line["isolation"] == "read_uncommitted")
    );
    open.abort();
    let left = dumped(topic, &["--partition", "4"]);
    assert_eq!(offsets(&left), [(4, 0), (4, 2)]);
    assert_eq!(left[0].get("isolation"), None);

    let behind = dumped(topic, &["--partition", "4", "--from", "1"]);
    assert_eq!(offsets(&behind), [(4, 2)]);
    assert_eq!(dumped(topic, &["--from", "end"]), [Value::Null; 0]);
    let at = left[1]["timestamp_ms"].as_i64().unwrap();
    let at = format!("@{}", at + 3_600_000);
    assert_eq!(dumped(topic, &["--from", &at]), [Value::Null; 0]);
}

#[test]
fn what_is_not_there_ends_with_6_and_is_named() {
    let topic = "dump-not-there";
    create_topic(topic, 1);
    for (topic, further, said) in [
        (
            "dump-no-such-topic",
            &[][..],
            "topic `dump-no-such-topic` is unknown to the cluster",
        ),
        (
            topic,
            &["--partition", "1"],
            "topic `dump-not-there` has no partition 1: it has 1, counted from 0",
        ),
        (
            topic,
            &["--from", "1"],
            "offset 1 of dump-not-there/0 is out of range: its records are from 0 to below 0",
        ),
    ] {
        let run = dump(topic, further);
        assert_eq!((run.code, run.stdout.as_str()), (6, ""), "{}", run.stderr);
        assert_eq!(run.stderr, format!("parsley: {said}\n"));
    }
    let brokers = bootstrap();
    let dump = ["topic", "dump", "--brokers", &brokers, "--topic", topic];
    for wrong in [
        ["--property", "isolation.level=read_committed"],
        ["--property", "no.such.property=1"],
        ["--property", "x"],
        ["--from", "middle"],
        ["--partition", "-1"],
        ["--isolation", "none"],
    ] {
        let run = parsley(&[&dump[..], &wrong].concat(), b"");
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (2, ""),
            "{wrong:?}: {}",
            run.stderr
        );
    }
}

#[test]
fn what_is_denied_ends_with_6_and_is_named() {
    let topic = "dump-denied";
    create_topic(topic, 1);
    broker().deny(Resource::Topic(topic)).unwrap();
    let run = dump(topic, &[]);
    assert_eq!((run.code, run.stdout.as_str()), (6, ""), "{}", run.stderr);
    assert!(
        run.stderr
            .starts_with("parsley: the cluster denied topic `dump-denied`: "),
        "{}",
        run.stderr
    );
    broker().allow(Resource::Topic(topic)).unwrap();
    assert_eq!(dumped(topic, &[]), [Value::Null; 0]);
}

/// A cluster that goes away while nothing comes from it is noticed.
#[test]
fn a_cluster_that_goes_away_ends_the_dump() {
    let topic = "dump-goes-away";
    let cluster = start(ClusterConfig::default());
    create_topic_on(&cluster.bootstrap(), topic, 1);
    Foreign::of(&cluster.bootstrap()).text(topic, 0, "k", "v");
    let mut child = Command::new(env!("CARGO_BIN_EXE_parsley"))
        .args(["topic", "dump", "--topic", topic])
        .args(["--brokers", &cluster.bootstrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    drop(cluster);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.starts_with("parsley: no broker of "), "{said}");
}

/// Without an end it goes on, until nobody reads what it prints.
#[test]
fn a_dump_follows_until_its_reader_goes_away() {
    let topic = "dump-follows";
    create_topic(topic, 1);
    let mut child = Command::new(env!("CARGO_BIN_EXE_parsley"))
        .args(["topic", "dump", "--brokers", &bootstrap(), "--topic", topic])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for value in ["one", "two"] {
        Foreign::plain().text(topic, 0, "k", value);
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["value"], value);
    }
    drop(lines);
    // No further record comes that it could notice it by.
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).as_ref()
        ),
        (Some(0), "")
    );
}

/// A topic that is made again under its name is another one: its records would be shown on the wrong channel.
#[test]
fn a_topic_that_is_deleted_ends_the_dump() {
    let topic = "dump-deleted";
    create_topic(topic, 1);
    let mut child = Command::new(env!("CARGO_BIN_EXE_parsley"))
        .args(["topic", "dump", "--brokers", &bootstrap(), "--topic", topic])
        .args(["--property", "topic.metadata.refresh.interval.ms=200"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    Foreign::plain().text(topic, 0, "k", "v");
    out.read_line(&mut first).unwrap();
    delete_topic(topic);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(
        said.contains("topic `dump-deleted` is not the one that was opened"),
        "{said}"
    );
}
