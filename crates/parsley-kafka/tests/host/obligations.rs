//! What a host owes to the protocol: the facts that it asks the cluster for, effects that come once, one identity for each task.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use parsley_core::OffsetClaim;
use parsley_kafka::{KafkaHost, StageError, StartError};
use parsley_stage::{App, Stage};

use crate::world::*;

/// End offsets: of every partition of every sink, the empty ones too, and beyond an open transaction of somebody else (trap 3: the last stable
/// offset would be below what that one has appended, and this test's own committed records).
#[test]
fn trap_3_the_first_stamp_claims_the_end_of_every_sink_partition() {
    let name = "ends";
    create_topic("ends-in", 1);
    create_topic("ends-out", 4);
    let plain = Foreign::plain();
    // Partition 0 has committed records, 1 and 3 have none, 2 has an open transaction with more behind it.
    plain.append("ends-out", To::Partition(0), &[("k", "v"); 4]);
    let open = Foreign::transactional("ends-foreign");
    open.begin();
    open.append("ends-out", To::Partition(2), &[("k", "v"); 2]);
    plain.append("ends-out", To::Partition(2), &[("k", "v")]);
    // A key that goes to one of the empty ones.
    let is_wanted = |key: &String| {
        let to = parsley_stage::partition::partition_of(Some(key.as_bytes()), 4);
        to == 1 || to == 3
    };
    let key = (0..100).map(|key| key.to_string()).find(is_wanted).unwrap();

    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &copying(name));
    plain.append("ends-in", To::Key, &[(&key, "hello")]);
    wait_for_deliveries(&running, 1);
    stop(&running);
    let records = read("ends-out");
    let sent = records.iter().find(|record| text(&record.key) == key);
    let (clock, _, sequence) = stamp_of(sent.unwrap());
    let claim = |topic: &str, partition, offset| OffsetClaim {
        channel: channel(topic, partition),
        offset,
    };
    let mut expected = vec![
        claim("ends-in", 0, 0),
        claim("ends-out", 0, 3),
        claim("ends-out", 2, 2),
    ];
    expected.sort_by_key(|claim| claim.channel);
    assert_eq!(clock.offsets(), expected);
    assert!(clock.sequences().is_empty());
    assert_eq!(sequence, 0);
    open.abort();
}

/// Log starts: a first start begins where deletion has left the log, not at 0; and deletion beyond the position is refused (G10).
#[test]
fn log_starts_follow_the_deletion_of_records() {
    let name = "starts";
    let (input, output) = copying_topics(name, 1);
    let plain = Foreign::plain();
    let numbers: Vec<String> = (0..13).map(|number| number.to_string()).collect();
    let records: Vec<(&str, &str)> = numbers.iter().map(|value| ("k", value.as_str())).collect();
    plain.append(&input, To::Key, &records[..10]);
    delete_records(&input, 0, 5);
    assert_eq!(bounds(&input, 0), (5, 10));
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &copying(name));
    wait_for_deliveries(&running, 5);
    stop(&running);
    assert_eq!(values(&output), numbers[5..10]);
    assert_eq!(committed("starts-copy", &input, 0), Some(10));

    // Up to the position: nothing is lost.
    plain.append(&input, To::Key, &records[10..12]);
    delete_records(&input, 0, 10);
    let running = start(config(&dir), &copying(name));
    wait_for_deliveries(&running, 2);
    stop(&running);
    assert_eq!(values(&output), numbers[5..12]);

    // Beyond it.
    plain.append(&input, To::Key, &[records[12], ("k", "13")]);
    delete_records(&input, 0, 13);
    let running = start(config(&dir), &copying(name));
    assert_eq!(wait_for_refusal(&running).0, "vc-positions-lost");
    running.stop();
    assert_eq!(values(&output), numbers[5..12]);
    assert_eq!(committed("starts-copy", &input, 0), Some(12));
}

/// Sends each record to both sinks.
fn doubling(name: &str) -> App {
    let topic = |part: &str| text_topic(&format!("{name}-{part}"));
    let (input, a, b) = (topic("in"), topic("a"), topic("b"));
    let double = Stage::stateless("double")
        .sink(&a)
        .sink(&b)
        .on(&input, move |message, out| {
            out.send(&a, &message.key, &message.value)?;
            out.send(&b, &message.key, &message.value)
        })
        .build()
        .unwrap();
    App::named(name).stage(double).build().unwrap()
}

/// Absence by UUID: a sink that was deleted and made again under its name while nothing ran is another channel, whatever its log has by then, and the old
/// one is claimed on no more.
#[test]
fn b12_a_sink_that_was_made_again_is_another_channel() {
    for (name, count) in [("again-shorter-sink", 0), ("again-longer-sink", 5)] {
        let [input, in_a, in_b] = ["in", "a", "b"].map(|part| format!("{name}-{part}"));
        for topic in [&input, &in_a, &in_b] {
            create_topic(topic, 1);
        }
        let plain = Foreign::plain();
        let dir = tempfile::tempdir().unwrap();
        let app = doubling(name);
        let running = start(config(&dir), &app);
        plain.append(&input, To::Key, &[("k", "1"), ("k", "2")]);
        wait_for_deliveries(&running, 2);
        stop(&running);
        let (a, old) = (channel(&in_a, 0), channel(&in_b, 0));
        let (_, _, sequence) = stamp_of(read(&in_b).last().unwrap());
        assert_eq!(sequence, 1);

        delete_topic(&in_b);
        create_topic(&in_b, 1);
        let new = channel(&in_b, 0);
        assert_ne!(old, new);
        Foreign::plain().append(&in_b, To::Key, &vec![("k", "of somebody"); count]);
        let running = start(config(&dir), &app);
        plain.append(&input, To::Key, &[("k", "3")]);
        wait_for_deliveries(&running, 1);
        stop(&running);
        let on_a = read(&in_a);
        let (clock, _, sequence) = stamp_of(on_a.last().unwrap());
        assert_eq!(sequence, 2, "the sink that stayed goes on");
        assert_eq!(clock.offset(old), None);
        // Its end, where it has one.
        assert_eq!(
            clock.offset(new),
            (count as i64).checked_sub(1).filter(|end| *end >= 0)
        );
        let on_b = read(&in_b);
        assert_eq!(on_b.len(), count + 1);
        let (clock, _, sequence) = stamp_of(on_b.last().unwrap());
        assert_eq!(sequence, 0, "the new one begins");
        assert_eq!(clock.offset(old), None);
        assert_eq!(clock.offset(a), Some(on_a.last().unwrap().offset));
    }
}

/// The assembled runtime: every send has headers that the protocol can read, sequences have no gap, and a restart on the same state directory,
/// or on none, loses nothing and repeats nothing. A plain consumer reads keys and values with its own codec.
#[test]
fn effects_come_once_over_restarts_and_a_lost_state_directory() {
    let (app, words, counted) = wordcount("restarts");
    for topic in [&words, &counted] {
        create_topic(topic, 2);
    }
    let keys: Vec<String> = (0..10).map(|key| format!("word{key}")).collect();
    let mut dir = tempfile::tempdir().unwrap();
    let mut expected: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let plain = Foreign::plain();
    for round in 1..=3_u64 {
        if round == 3 {
            dir = tempfile::tempdir().unwrap();
        }
        let running = start(config(&dir), &app);
        let records: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "seen")).collect();
        plain.append(&words, To::Key, &records);
        for key in &keys {
            expected.entry(key.clone()).or_default().push(round);
        }
        wait_for_deliveries(&running, keys.len() as u64);
        stop(&running);
        assert_eq!(counts(&counted), expected, "round {round}");
        let sent = check_stamps(&counted, "restarts", "count", 2);
        assert_eq!(sent.values().sum::<usize>(), keys.len() * round as usize);
    }
}

/// A step that ends before everything is delivered is followed by others, though nothing more is read.
#[test]
fn what_a_full_step_did_not_reach_is_delivered_and_committed() {
    let name = "full";
    let (input, output) = copying_topics(name, 1);
    let plain = Foreign::plain();
    let records: Vec<(&str, &str)> = vec![("k", "v"); 25];
    plain.append(&input, To::Key, &records);
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&dir);
    config.max_step_deliveries = 10;
    let steps: Arc<Mutex<Vec<i64>>> = Arc::default();
    let seen = Arc::clone(&steps);
    let host = KafkaHost::new(config)
        .unwrap()
        .on_delivery(move |event| seen.lock().unwrap().push(event.offset));
    let running = host.start(copying(name)).unwrap();
    wait_for_deliveries(&running, 25);
    let status = running.status();
    let steps_committed: u64 = status.tasks().map(|(_, _, task)| task.steps).sum();
    assert!(steps_committed >= 4, "{status:#?}");
    stop(&running);
    assert_eq!(*steps.lock().unwrap(), (0..25).collect::<Vec<i64>>());
    assert_eq!(read(&output).len(), 25);
}

#[test]
fn a_missing_topic_is_said_at_the_start() {
    let (app, words, _) = wordcount("missing");
    create_topic(&words, 1);
    let dir = tempfile::tempdir().unwrap();
    let refused = KafkaHost::new(config(&dir)).unwrap().start(&app);
    let Err(StartError::Stage(StageError::MissingTopics { topics })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(topics, ["missing-counts"]);
}
