//! Producers and consumers that know nothing of Parsley, or write what they should not.

use parsley_core::Header;
use parsley_core::wire::CLOCK_HEADER;
use parsley_kafka::{TaskState, WorkerState};

use crate::world::*;

/// Aborted runs at the head, in the middle and at the tail of an input are passed.
#[test]
fn aborted_transactions_are_passed() {
    let name = "aborted";
    let (input, output) = copying_topics(name, 1);
    let foreign = Foreign::transactional("aborted-foreign");
    let aborted = |value| {
        foreign.begin();
        foreign.append(&input, To::Key, &[("k", value); 3]);
        foreign.abort();
    };
    let kept = |value| {
        foreign.begin();
        foreign.append(&input, To::Key, &[("k", value)]);
        foreign.commit();
    };
    aborted("head");
    kept("1");
    aborted("middle");
    kept("2");
    aborted("tail");
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &copying(name));
    wait_for_deliveries(&running, 2);
    let (_, end) = bounds(&input, 0);
    wait_for(&running, "read to the end", |status| {
        status.tasks().all(|(_, _, task)| task.lag == 0)
    });
    stop(&running);
    assert_eq!(values(&output), ["1", "2"]);
    assert_eq!(committed("aborted-copy", &input, 0), Some(end));
    // The tail is passed once: a restart begins behind it.
    let running = start(config(&dir), &copying(name));
    kept("3");
    wait_for_deliveries(&running, 1);
    stop(&running);
    assert_eq!(values(&output), ["1", "2", "3"]);
}

/// An open transaction of somebody else delays what stands behind it. The status shows that as lag; nothing is retried or refused.
#[test]
fn an_open_transaction_on_an_input_is_a_delay() {
    let name = "delays";
    let (input, output) = copying_topics(name, 1);
    let plain = Foreign::plain();
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &copying(name));
    plain.append(&input, To::Key, &[("k", "before")]);
    wait_for_deliveries(&running, 1);
    let foreign = Foreign::transactional("delays-foreign");
    foreign.begin();
    foreign.append(&input, To::Key, &[("k", "open")]);
    plain.append(&input, To::Key, &[("k", "behind"); 4]);
    wait_for(&running, "behind", |status| {
        status.tasks().any(|(_, _, task)| task.lag == 5)
    });
    let status = running.status();
    assert_eq!(status.workers[0].state, WorkerState::Running);
    assert!(
        status
            .tasks()
            .all(|(_, _, task)| task.state == TaskState::Running)
    );
    assert_eq!(status.delivered(), 1);
    assert_eq!(values(&output), ["before"]);
    foreign.commit();
    wait_for_deliveries(&running, 6);
    wait_for(&running, "read to the end", |status| {
        status.tasks().all(|(_, _, task)| task.lag == 0)
    });
    stop(&running);
    let expected = ["before", "open", "behind", "behind", "behind", "behind"];
    assert_eq!(values(&output), expected);
}

/// A record with a clock that cannot be read stops its task, and no other; it is refused again after a restart, and never skipped.
#[test]
fn a_corrupt_clock_stops_its_task_alone() {
    let name = "corrupt";
    let (input, output) = copying_topics(name, 2);
    let plain = Foreign::plain();
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &copying(name));
    plain.append(&input, To::Partition(0), &[("k", "before")]);
    wait_for_deliveries(&running, 1);
    let corrupt = [Header::new(CLOCK_HEADER, &b"\x07nonsense"[..])];
    plain.append_with(&input, To::Partition(0), ("k", "corrupt"), &corrupt);
    plain.append(&input, To::Partition(0), &[("k", "behind")]);
    assert_eq!(
        wait_for_refusal(&running),
        ("vc-corrupt-clock".to_owned(), 0)
    );
    let status = running.status();
    let refusal = status.refused()[0].2;
    assert_eq!(
        (refusal.channel, refusal.offset),
        (Some(channel(&input, 0)), Some(1))
    );
    let goes_on = |running: &parsley_kafka::KafkaRunning, value: &str| {
        plain.append(&input, To::Partition(1), &[("k", value)]);
        wait_for(running, "delivered elsewhere", |status| {
            status
                .tasks()
                .any(|(_, partition, task)| partition == 1 && task.delivered > 0)
        });
        assert_eq!(
            wait_for_refusal(running),
            ("vc-corrupt-clock".to_owned(), 0)
        );
        running.stop();
    };
    goes_on(&running, "elsewhere");
    goes_on(&start(config(&dir), &copying(name)), "elsewhere again");
    // Another member of the group is refused as well.
    let other = tempfile::tempdir().unwrap();
    goes_on(
        &start(config(&other), &copying(name)),
        "elsewhere on another machine",
    );
    let mut sent = values(&output);
    sent.sort();
    let expected = [
        "before",
        "elsewhere",
        "elsewhere again",
        "elsewhere on another machine",
    ];
    assert_eq!(sent, expected);
    assert_eq!(committed("corrupt-copy", &input, 0), Some(1));
}

/// Records in each of the codecs that producers use. A client that was built without one of them showed nothing of such records, and waited.
#[test]
fn records_in_every_codec_are_read() {
    let name = "codecs";
    let (input, output) = copying_topics(name, 1);
    let value = "compressible ".repeat(1000);
    let codecs = ["none", "gzip", "snappy", "lz4", "zstd"];
    for codec in codecs {
        let mut config = client();
        config.set("compression.type", codec);
        let producer = Foreign(config.create().unwrap());
        producer.append(&input, To::Key, &[(codec, &value)]);
    }
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &copying(name));
    wait_for_deliveries(&running, codecs.len() as u64);
    stop(&running);
    let records = read(&output);
    let keys: Vec<String> = records.iter().map(|record| text(&record.key)).collect();
    assert_eq!(keys, codecs);
    assert!(records.iter().all(|record| text(&record.value) == value));
}
