//! Lines made by hand: each kind of violation is found where it is, and nowhere else.

use parsley_core::{SenderId, TopicId};
use serde_json::{Value, json};

use super::finding::{Findings, Kind};
use super::world::{Place, World};
use super::*;

mod by_causes;
mod by_log;
mod by_oracle;

/// Judges files of lines. Returns the kinds found, with the number of the record's offset.
fn found(files: &[&[Value]]) -> Vec<(Kind, Option<i64>)> {
    let (world, findings, _) = judged(files, &[]);
    let offset = |record| world.records[record as usize].offset;
    let kept = findings.kept.iter();
    kept.map(|finding| (finding.kind, finding.record.map(offset)))
        .collect()
}

fn judged(files: &[&[Value]], compacted: &[String]) -> (World, Findings, Report) {
    let (mut world, mut findings) = (World::default(), Findings::new(usize::MAX));
    for (file, lines) in files.iter().enumerate() {
        world.begin_file();
        for (line, text) in (1..).zip(lines.iter().map(Value::to_string)) {
            let place = Place {
                file: count(file),
                line,
            };
            let line = line::read(&text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            world.take(line, place, &mut findings);
        }
    }
    world.end();
    let report = judge(&world, &mut findings, compacted);
    (world, findings, report)
}

fn channel(topic: &str) -> String {
    format!("{}:0", TopicId::of_name(topic))
}

fn sender(name: &str) -> String {
    SenderId::of_name(name).to_string()
}

/// A clock of claims by offset.
fn clock(claims: &[(&str, i64)]) -> Value {
    let claim = |(topic, offset): &(&str, i64)| json!({"topic": TopicId::of_name(topic).to_string(), "partition": 0, "offset": offset});
    json!({"offsets": claims.iter().map(claim).collect::<Vec<_>>(), "sequences": []})
}

/// A clock of one claim by sequence.
fn by_sequence(topic: &str, name: &str, sequence: i64) -> Value {
    let topic = TopicId::of_name(topic).to_string();
    json!({"sequences": [{"topic": topic, "partition": 0, "sender": sender(name), "sequence": sequence}]})
}

/// A plain record of a dump.
fn plain(topic: &str, offset: i64) -> Value {
    json!({"topic": topic, "channel": channel(topic), "offset": offset, "timestamp_ms": 1, "key": null, "value": "v",
           "clock": null, "sender": null, "sequence": null, "headers": []})
}

/// A stamped record of a dump.
fn stamped(topic: &str, offset: i64, name: &str, sequence: i64, clock: Value) -> Value {
    let mut line = plain(topic, offset);
    (line["clock"], line["sender"], line["sequence"]) =
        (clock, sender(name).into(), sequence.into());
    line
}

/// A delivery of a plain record to the task `stage/0`, of which nothing was sent.
fn delivered(stage: &str, number: u64, topic: &str, offset: i64) -> Value {
    json!({"stage": stage, "partition": 0, "topic": topic, "channel": channel(topic), "offset": offset, "key": null, "value": {},
           "clock": {"offsets": [], "sequences": []}, "sender": null, "sequence": null, "arrival": 0, "delivery": number,
           "held": false, "sent": []})
}

/// The same of a stamped record.
fn delivered_of(
    stage: &str,
    number: u64,
    (topic, offset): (&str, i64),
    (name, sequence): (&str, i64),
    clock: Value,
) -> Value {
    let mut line = delivered(stage, number, topic, offset);
    (line["clock"], line["sender"], line["sequence"]) =
        (clock, sender(name).into(), sequence.into());
    line
}

fn sending(mut line: Value, sent: &[(&str, i64, i64)]) -> Value {
    let sent = sent.iter().map(|(topic, offset, sequence)| {
        json!({"topic": topic, "channel": channel(topic), "offset": offset, "sequence": sequence})
    });
    line["sent"] = sent.collect::<Vec<_>>().into();
    line
}

#[test]
fn a_dump_rises_and_has_each_record_once() {
    let good = [plain("x", 3), plain("y", 0), plain("x", 4), plain("x", 9)];
    assert_eq!(found(&[&good]), []);
    let bad = [plain("x", 3), plain("x", 2)];
    assert_eq!(found(&[&bad]), [(Kind::ChannelOrder, Some(2))]);
    let bad = [plain("x", 3), plain("x", 3)];
    assert_eq!(found(&[&bad]), [(Kind::RepeatedRecord, Some(3))]);
    let bad = [plain("x", 3), plain("x", 4), plain("x", 3)];
    assert_eq!(found(&[&bad]), [(Kind::RepeatedRecord, Some(3))]);
}

#[test]
fn two_dumps_may_overlap_and_must_not_differ() {
    let (first, second) = (
        [plain("x", 0), plain("x", 1)],
        [plain("x", 1), plain("x", 2)],
    );
    let (world, findings, _) = judged(&[&second, &first], &[]);
    assert_eq!((findings.total(), world.overlaps, world.dumped), (0, 1, 3));
    for (field, other) in [
        ("value", json!("w")),
        ("key", json!("k")),
        ("timestamp_ms", json!(2)),
        ("headers", json!([{"name": "a", "value": "b"}])),
    ] {
        let mut differs = plain("x", 1);
        differs[field] = other;
        let expected = [(Kind::Contradiction, Some(1))];
        assert_eq!(found(&[&first, &[differs]]), expected, "{field}");
    }
    let other = [plain("x", 0), stamped("x", 1, "a", 0, clock(&[]))];
    assert_eq!(found(&[&first, &other]), [(Kind::Contradiction, Some(1))]);
    // What is told of a record in a trace is of the same record.
    let told = [delivered_of("t", 0, ("x", 1), ("a", 0), clock(&[]))];
    assert_eq!(found(&[&first, &told]), [(Kind::Contradiction, Some(1))]);
    let told = [delivered_of("t", 0, ("y", 1), ("a", 0), clock(&[("x", 0)]))];
    let dumped = [stamped("y", 1, "a", 0, clock(&[("x", 1)]))];
    assert_eq!(found(&[&dumped, &told]), [(Kind::Contradiction, Some(1))]);
}

#[test]
fn sequences_rise_by_one_for_each_sender() {
    let of = |offset, name, sequence| stamped("x", offset, name, sequence, clock(&[]));
    let good = [
        of(0, "a", 0),
        of(1, "b", 0),
        plain("x", 2),
        of(4, "a", 1),
        of(5, "b", 1),
    ];
    assert_eq!(found(&[&good]), []);
    let gap = [of(0, "a", 0), of(1, "b", 0), of(4, "a", 2)];
    assert_eq!(found(&[&gap]), [(Kind::SequenceGap, Some(4))]);
    let repeated = [of(0, "a", 0), of(1, "a", 1), of(4, "a", 1), of(5, "a", 2)];
    assert_eq!(found(&[&repeated]), [(Kind::RepeatedSequence, Some(4))]);
    let falling = [of(3, "a", 5), of(4, "a", 4)];
    assert_eq!(found(&[&falling]), [(Kind::SequenceOrder, Some(4))]);

    // Retention may have cut the head; where the first record is there, it has not.
    assert_eq!(found(&[&[of(7, "a", 3), of(8, "a", 4)]]), []);
    let headless = [plain("x", 0), of(8, "a", 3)];
    assert_eq!(found(&[&headless]), [(Kind::SequenceGap, Some(8))]);
    // What lies between two dumps was perhaps not dumped; compaction removes what nobody misses.
    let (world, findings, report) = judged(&[&[of(0, "a", 0)], &[of(9, "a", 9)]], &[]);
    assert_eq!((findings.total(), report.dumps.between_files), (0, 1));
    drop(world);
    assert_eq!(judged(&[&gap], &["x".to_owned()]).1.total(), 0);
    // Of what is not committed, aborted steps have given their sequences back.
    let uncommitted = repeated.map(|mut line| {
        line["isolation"] = "read_uncommitted".into();
        line
    });
    let (_, findings, report) = judged(&[&uncommitted], &[]);
    assert_eq!((findings.total(), report.dumps.uncommitted), (0, 1));
}

#[test]
fn what_a_sender_claims_does_not_shrink() {
    let of = |offset, clock| stamped("x", offset, "a", offset, clock);
    let good = [
        of(0, clock(&[("y", 3)])),
        of(1, clock(&[("y", 3), ("z", 1)])),
        of(2, clock(&[("y", 7), ("z", 1)])),
        // Truncated: nothing says that retention has not reached it.
        of(3, clock(&[("z", 2)])),
    ];
    assert_eq!(found(&[&good]), []);
    let less = [of(0, clock(&[("y", 3)])), of(1, clock(&[("y", 2)]))];
    assert_eq!(found(&[&less]), [(Kind::ClockShrank, Some(1))]);
    // The claimed record is there still, so it was not truncated.
    let there = [plain("y", 6), plain("y", 7)];
    assert_eq!(found(&[&good, &there]), [(Kind::ClockShrank, Some(3))]);
    assert_eq!(found(&[&good, &[plain("y", 8)]]), []);
    let less = [
        of(0, by_sequence("y", "b", 3)),
        of(1, by_sequence("y", "b", 2)),
    ];
    assert_eq!(found(&[&less]), [(Kind::ClockShrank, Some(1))]);
    let resolved = [of(0, by_sequence("y", "b", 3)), of(1, clock(&[("y", 9)]))];
    assert_eq!(found(&[&resolved]), []);
}

#[test]
fn an_unreadable_header_is_a_violation_and_no_empty_clock() {
    let mut corrupt = plain("x", 0);
    let fields = corrupt.as_object_mut().unwrap();
    for field in ["clock", "sender", "sequence"] {
        fields.remove(field);
    }
    corrupt["header_error"] = json!({"error": "wrong", "headers": []});
    assert_eq!(found(&[&[corrupt]]), [(Kind::UnreadableHeader, Some(0))]);
}

#[test]
fn a_task_is_delivered_a_channel_in_order_and_each_record_once() {
    let (first, second) = (delivered("t", 0, "x", 4), delivered("t", 1, "x", 5));
    assert_eq!(found(&[&[first.clone(), second.clone()]]), []);
    let bad = [delivered("t", 0, "x", 5), delivered("t", 1, "x", 4)];
    assert_eq!(found(&[&bad]), [(Kind::ChannelOrder, Some(4))]);
    let bad = [first.clone(), second.clone(), delivered("t", 2, "x", 4)];
    assert_eq!(found(&[&bad]), [(Kind::DeliveredTwice, Some(4))]);
    let bad = [first.clone(), delivered("t", 2, "x", 5)];
    assert_eq!(found(&[&bad]), [(Kind::DeliveryNumber, Some(5))]);
    assert_eq!(
        found(&[std::slice::from_ref(&second)]),
        [(Kind::DeliveryNumber, Some(5))]
    );
    // Two tasks are two histories, and a line of another file that says the same is no delivery.
    let other = delivered("u", 0, "x", 4);
    let (world, findings, _) = judged(&[&[first.clone(), other], &[first, second]], &[]);
    assert_eq!((findings.total(), world.overlaps), (0, 1));
}

#[test]
fn what_a_delivered_record_claims_is_delivered_before_it() {
    let effect = |number| {
        delivered_of(
            "t",
            number,
            ("y", 0),
            ("a", 0),
            clock(&[("x", 5), ("y", 9), ("z", 3)]),
        )
    };
    let cause = |number, offset| delivered("t", number, "x", offset);
    assert_eq!(
        found(&[&[cause(0, 4), cause(1, 5), effect(2), cause(3, 6)]]),
        []
    );
    let bad = [cause(0, 4), effect(1), cause(2, 5), cause(3, 6)];
    assert_eq!(found(&[&bad]), [(Kind::DeliveredAfterClaim, Some(5))]);
    // A claim on the record's own channel is no cause, and a channel that the task is not delivered is none either.
    let own = [effect(0), delivered("t", 1, "y", 1)];
    assert_eq!(found(&[&own]), []);

    let effect = |number| delivered_of("t", number, ("y", 0), ("a", 0), by_sequence("x", "b", 3));
    let cause = |number, offset, sequence| {
        delivered_of("t", number, ("x", offset), ("b", sequence), clock(&[]))
    };
    assert_eq!(found(&[&[cause(0, 7, 3), effect(1), cause(2, 8, 4)]]), []);
    let bad = [cause(0, 6, 2), effect(1), cause(2, 7, 3)];
    assert_eq!(found(&[&bad]), [(Kind::DeliveredAfterClaim, Some(7))]);
}

#[test]
fn what_is_known_and_claimed_has_to_be_delivered() {
    let history = [
        delivered("t", 0, "x", 1),
        delivered_of("t", 1, ("y", 0), ("a", 0), clock(&[("x", 3)])),
    ];
    let dump = |offsets: &[i64]| {
        offsets
            .iter()
            .map(|offset| plain("x", *offset))
            .collect::<Vec<_>>()
    };
    // Below its first delivery, and above the claim, nothing is asked.
    assert_eq!(found(&[&history, &dump(&[0, 1, 4])]), []);
    let expected = [(Kind::NotDelivered, Some(3))];
    assert_eq!(found(&[&history, &dump(&[0, 1, 3, 4])]), expected);
    assert_eq!(found(&[&dump(&[3]), &history]), expected);
    // Another task's delivery of it shows as well that it is there.
    assert_eq!(found(&[&history, &[delivered("u", 0, "x", 3)]]), expected);
    // What is not committed is not there.
    let mut uncommitted = plain("x", 3);
    uncommitted["isolation"] = "read_uncommitted".into();
    assert_eq!(found(&[&history, &[uncommitted]]), []);

    let history = [
        delivered("t", 0, "x", 1),
        delivered_of("t", 1, ("y", 0), ("a", 0), by_sequence("x", "b", 3)),
    ];
    let of = |offset, sequence| stamped("x", offset, "b", sequence, clock(&[]));
    let dump = [plain("x", 1), of(2, 3), of(3, 4)];
    assert_eq!(found(&[&history, &dump]), [(Kind::NotDelivered, Some(2))]);

    let history = [delivered("t", 0, "x", 1), delivered("t", 1, "x", 4)];
    let dump = [plain("x", 1), plain("x", 3), plain("x", 4), plain("x", 5)];
    assert_eq!(found(&[&history, &dump]), [(Kind::Skipped, Some(3))]);
}

/// An account of deliveries is a dumped topic. Its entries do not tell senders: those are in the dumps of what was delivered.
#[test]
fn an_account_is_a_history() {
    let entry = |at: i64, topic: &str, offset: i64, clock: &str| {
        let value = json!({"delivered": {"stage": "t", "partition": 0, "execution": 0, "topic": topic, "channel": channel(topic),
                                         "offset": offset, "arrival": 0, "timestamp_ms": 1, "clock": clock}});
        let mut line = plain("account", at);
        line["value"] = value.to_string().into();
        line
    };
    let claiming = |offset| {
        let mut clock = parsley_core::Clock::default();
        clock.claim_offset(TopicId::of_name("x").partition(0), offset);
        hex::encode(parsley_core::wire::encode(&clock))
    };
    let none = "010000000000000000";
    let good = [
        entry(0, "x", 4, none),
        entry(2, "y", 0, &claiming(4)),
        entry(3, "x", 5, none),
    ];
    let (world, findings, report) = judged(&[&good], &[]);
    assert_eq!(
        (findings.total(), report.tasks.deliveries, world.dumped),
        (0, 3, 3)
    );
    assert!(!report.made.tells_sends());
    // The order is that of the account's offsets, in whatever order the files are named.
    assert_eq!(found(&[&good[2..], &good[..2]]), []);
    let bad = [
        entry(0, "x", 4, none),
        entry(2, "y", 0, &claiming(5)),
        entry(3, "x", 5, none),
    ];
    assert_eq!(found(&[&bad]), [(Kind::DeliveredAfterClaim, Some(5))]);
    let twice = [entry(0, "x", 4, none), entry(2, "x", 4, none)];
    assert_eq!(found(&[&twice]), [(Kind::DeliveredTwice, Some(4))]);
    // A value of an application that only looks like one is a record like any.
    let mut other = plain("x", 0);
    other["value"] = r#"{"delivered": "yesterday"}"#.into();
    assert_eq!(judged(&[&[other]], &[]).2.tasks.deliveries, 0);
}

#[test]
fn what_is_no_such_line_is_named() {
    let good = delivered("t", 0, "x", 1);
    let without = |key: &str| {
        let mut line = good.clone();
        line.as_object_mut().unwrap().remove(key);
        line
    };
    let with = |key: &str, value: Value| {
        let mut line = good.clone();
        line[key] = value;
        line
    };
    for (line, said) in [
        (json!([]), "found an array, expected an object"),
        (json!({}), "found no `clock`"),
        (json!({"summary": {}}), "found no `clock`"),
        (
            without("clock"),
            "found no `clock`, expected a delivery to have it",
        ),
        (without("channel"), "found no `channel`"),
        (without("offset"), "found no `offset`"),
        (without("partition"), "found no `partition`"),
        (with("offset", json!(-1)), "found `-1` as offset"),
        (with("channel", json!("x:0")), "found `x:0` as channel"),
        (
            with("clock", json!({"offset": []})),
            "found the unknown key `offset`",
        ),
        (
            with("sender", json!(sender("a"))),
            "found `sender` without `sequence`",
        ),
        (
            with("sequence", json!(1)),
            "found `sequence` without `sender`",
        ),
        (
            with("sent", json!({})),
            "found an object, expected an array",
        ),
        (with("delivery", json!(-1)), "found -1"),
    ] {
        let text = line.to_string();
        let fault = line::read(&text).expect_err(&text).to_string();
        assert!(fault.contains(said), "{text}: {fault}");
    }
}
