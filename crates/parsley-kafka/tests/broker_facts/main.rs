//! The six facts that the Kafka host rests on (docs/decisions.md, K1 to K6), each read from a real broker.
//!
//! The broker is Apache Kafka, of the version in `PARSLEY_KAFKA_VERSION`, else the newest one tested. Without a broker the tests fail.

mod world;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use parsley_kafka::{DescribeError, EventConsumer, Partition, Polled, Record, describe_topics};
use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders, Timestamp};
use rdkafka::producer::{BaseRecord, Producer};
use rdkafka::types::RDKafkaRespErr;
use uuid::Uuid;
use world::*;

#[test]
fn k1_describe_topics_gives_the_uuid_and_a_recreated_topic_has_another() {
    let topic = "k1";
    create_topic(topic, 3);
    let admin = admin();
    let answers = describe_topics(admin.inner(), &["k1-unknown", topic], BOUND).unwrap();
    let [unknown, first] = <[_; 2]>::try_from(answers).unwrap();
    assert_eq!(
        unknown,
        Err(DescribeError::Unknown {
            name: "k1-unknown".to_owned()
        }),
        "answers keep the order of the question"
    );
    let first = first.unwrap();
    assert_eq!((first.name.as_str(), first.partitions), (topic, 3));

    // The broker's own note of the topic, in the form of Kafka's tools.
    let note = broker()
        .data_folder(1)
        .unwrap()
        .join("k1-0/partition.metadata");
    let note = fs::read_to_string(note).unwrap();
    let noted = note
        .lines()
        .find_map(|line| line.strip_prefix("topic_id: "))
        .unwrap();
    let noted = Uuid::from_slice(&URL_SAFE_NO_PAD.decode(noted).unwrap()).unwrap();
    assert_eq!(
        first.id, noted,
        "the UUID's bytes are in the broker's order"
    );

    delete_topic(topic);
    describe_until(topic, Option::is_none);
    create_topic(topic, 2);
    let second = describe_until(topic, Option::is_some).unwrap();
    assert_eq!(second.partitions, 2);
    assert_ne!(second.id, first.id);
    println!(
        "K1: {topic} was {} with 3 partitions, created again it is {} with 2",
        first.id, second.id
    );

    let twice = describe_topics(admin.inner(), &[topic, topic], BOUND);
    assert!(
        matches!(twice, Err(DescribeError::Request { .. })),
        "{twice:?}"
    );
    let zero = describe_topics(admin.inner(), &["k1\0"], BOUND);
    assert!(matches!(zero, Err(DescribeError::Name { .. })), "{zero:?}");
}

#[test]
fn k2_markers_take_offsets_and_a_committed_read_skips_aborted_records() {
    let topic = "k2";
    create_topic(topic, 1);
    let producer = producer("k2");
    append_and_commit(&producer, topic, &["a", "b"]);
    append_and_abort(&producer, topic, &["x", "y", "z"]);
    append_and_commit(&producer, topic, &["c"]);

    let committed = seen_until_eof(&mut reader(topic, "read_committed"), 9);
    let uncommitted = seen_until_eof(&mut reader(topic, "read_uncommitted"), 9);
    println!("K2: read_committed {committed:?}\nK2: read_uncommitted {uncommitted:?}");
    assert_eq!(
        committed,
        [record(0, "a"), record(1, "b"), record(7, "c"), Seen::Eof(9)]
    );
    assert_eq!(
        uncommitted,
        [
            record(0, "a"),
            record(1, "b"),
            record(3, "x"),
            record(4, "y"),
            record(5, "z"),
            record(7, "c"),
            Seen::Eof(9),
        ],
        "offsets 2, 6 and 8 are markers, which no reader is given"
    );
    let watermarks = reader(topic, "read_uncommitted")
        .consumer()
        .fetch_watermarks(topic, 0, BOUND)
        .unwrap();
    assert_eq!(
        watermarks,
        (0, 9),
        "the last offset below the high watermark is a marker"
    );
}

#[test]
fn k3_the_partition_eof_event_carries_the_position_past_markers_and_aborted_runs() {
    let topic = "k3";
    create_topic(topic, 1);
    let producer_one = producer("k3-one");
    let producer_two = producer("k3-two");
    let mut reader = reader(topic, "read_committed");

    assert_eq!(
        next_seen(&mut reader),
        Seen::Eof(0),
        "an empty partition has its end at 0"
    );

    append_and_commit(&producer_one, topic, &["a", "b"]);
    let trailing_marker = seen_until_eof(&mut reader, 3);
    assert_eq!(
        trailing_marker,
        [record(0, "a"), record(1, "b"), Seen::Eof(3)],
        "one past the marker at 2"
    );

    append_and_abort(&producer_one, topic, &["x", "y"]);
    let aborted_run = seen_until_eof(&mut reader, 6);
    assert_eq!(
        aborted_run,
        [Seen::Eof(6)],
        "one past the aborted records 3 and 4 and their marker at 5"
    );
    let position = reader.consumer().position().unwrap();
    let position = position.find_partition(topic, 0).unwrap().offset();

    // What is committed behind an open transaction is held back, and the end with it.
    producer_one.begin_transaction().unwrap();
    append(&producer_one, topic, &["c"]);
    append_and_commit(&producer_two, topic, &["d"]);
    let end_seen = |isolation: &str| {
        let asker: BaseConsumer = consumer_config("k3-asker", isolation).create().unwrap();
        asker.fetch_watermarks(topic, 0, BOUND).unwrap().1
    };
    let deadline = Instant::now() + BOUND;
    while end_seen("read_uncommitted") < 9 {
        assert!(Instant::now() < deadline, "the marker of \"d\" is missing");
    }
    let (stable, high) = (end_seen("read_committed"), end_seen("read_uncommitted"));
    producer_one.commit_transaction(BOUND).unwrap();
    let behind_open = seen_until_eof(&mut reader, 10);
    println!(
        "K3: {trailing_marker:?}, then {aborted_run:?} with position() {position:?}; with a transaction open the end is {stable} \
         read_committed and {high} read_uncommitted, then {behind_open:?}"
    );
    assert_eq!(
        (stable, high),
        (6, 9),
        "what is called the high watermark is the last stable offset to a read_committed client"
    );
    assert_eq!(behind_open, [record(6, "c"), record(7, "d"), Seen::Eof(10)]);

    // Paused and resumed, the same end is raised again.
    reader
        .consumer()
        .pause(&positions(topic, &[(0, 0)]))
        .unwrap();
    reader
        .consumer()
        .resume(&positions(topic, &[(0, 0)]))
        .unwrap();
    assert_eq!(next_seen(&mut reader), Seen::Eof(10));
}

#[test]
fn k4_positions_sent_with_a_transaction_commit_with_it_and_not_when_it_aborts() {
    let (group, input, output) = ("k4", "k4-in", "k4-out");
    create_topic(input, 1);
    create_topic(output, 1);
    append_and_commit(&producer("k4-source"), input, &["a", "b"]);
    let mut consumer = consumer(group, "read_committed");
    consumer.consumer().subscribe(&[input]).unwrap();
    join(&mut consumer, |_| 0);
    assert_eq!(seen_until_eof(&mut consumer, 3).last(), Some(&Seen::Eof(3)));
    assert_eq!(committed(group, input, 0), None);

    let producer = producer("k4-stage");
    let member = consumer.consumer().group_metadata().unwrap();
    producer.begin_transaction().unwrap();
    append(&producer, output, &["A"]);
    producer
        .send_offsets_to_transaction(&positions(input, &[(0, 2)]), &member, BOUND)
        .unwrap();
    let while_open = committed_within(group, "read_uncommitted", input, 0, BOUND).unwrap();
    let stable_while_open =
        committed_within(group, "read_committed", input, 0, Duration::from_secs(1));
    producer.commit_transaction(BOUND).unwrap();
    let after_commit = committed(group, input, 0);

    producer.begin_transaction().unwrap();
    append(&producer, output, &["B"]);
    producer
        .send_offsets_to_transaction(&positions(input, &[(0, 3)]), &member, BOUND)
        .unwrap();
    producer.abort_transaction(BOUND).unwrap();
    let after_abort = committed(group, input, 0);
    let delivered = seen_until_eof(&mut reader(output, "read_committed"), 4);
    println!(
        "K4: while open {while_open:?} (stable: {stable_while_open:?}), after commit {after_commit:?}, after abort {after_abort:?}; \
         output {delivered:?}"
    );
    assert_eq!(while_open, None);
    assert!(
        stable_while_open.is_err(),
        "a stable position is waited for while a transaction is about to change it"
    );
    assert_eq!(after_commit, Some(2));
    assert_eq!(after_abort, Some(2));
    assert_eq!(delivered, [record(0, "A"), Seen::Eof(4)]);
}

#[test]
fn k5_a_stale_generation_is_refused() {
    let (group, input, output) = ("k5", "k5-in", "k5-out");
    create_topic(input, 1);
    create_topic(output, 1);
    append_and_commit(&producer("k5-source"), input, &["a", "b"]);

    // The zombie reads, begins its transaction, and then stands still until the group has moved on without it.
    let mut zombie = {
        let mut config = consumer_config(group, "read_committed");
        config.set("max.poll.interval.ms", "2000");
        EventConsumer::new(config.create().unwrap()).unwrap()
    };
    zombie.consumer().subscribe(&[input]).unwrap();
    join(&mut zombie, |_| 0);
    assert_eq!(value(&next_record(&mut zombie)), "a");
    let stale = zombie.consumer().group_metadata().unwrap();
    let producer_of_zombie = producer("k5-zombie");
    producer_of_zombie.begin_transaction().unwrap();
    append(&producer_of_zombie, output, &["by the zombie"]);

    let mut heir = consumer(group, "read_committed");
    heir.consumer().subscribe(&[input]).unwrap();
    join(&mut heir, |_| 0);
    let member = heir.consumer().group_metadata().unwrap();
    let producer_of_heir = producer("k5-heir");
    producer_of_heir.begin_transaction().unwrap();
    append(&producer_of_heir, output, &["by the heir"]);
    producer_of_heir
        .send_offsets_to_transaction(&positions(input, &[(0, 1)]), &member, BOUND)
        .unwrap();
    producer_of_heir.commit_transaction(BOUND).unwrap();

    let refused =
        producer_of_zombie.send_offsets_to_transaction(&positions(input, &[(0, 2)]), &stale, BOUND);
    let commit = producer_of_zombie.commit_transaction(BOUND);
    producer_of_zombie.abort_transaction(BOUND).unwrap();
    println!("K5: positions of a stale generation: {refused:?}; the commit after it: {commit:?}");
    let Err(KafkaError::Transaction(refused)) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        refused.txn_requires_abort() && !refused.is_fatal(),
        "{refused:?}"
    );
    assert!(
        matches!(
            refused.code(),
            RDKafkaErrorCode::UnknownMemberId | RDKafkaErrorCode::IllegalGeneration
        ),
        "{refused:?}"
    );
    assert!(commit.is_err(), "the zombie's commit was accepted");
    assert_eq!(committed(group, input, 0), Some(1));
    let visible = seen_until_eof(&mut reader(output, "read_committed"), 4);
    assert_eq!(visible, [record(1, "by the heir"), Seen::Eof(4)]);

    // Without positions librdkafka asks nobody: an empty list fences nothing. The last positions, sent unchanged, do.
    producer_of_zombie.begin_transaction().unwrap();
    append(&producer_of_zombie, output, &["without positions"]);
    let empty =
        producer_of_zombie.send_offsets_to_transaction(&TopicPartitionList::new(), &stale, BOUND);
    producer_of_zombie.abort_transaction(BOUND).unwrap();
    producer_of_zombie.begin_transaction().unwrap();
    append(&producer_of_zombie, output, &["with unchanged positions"]);
    let unchanged =
        producer_of_zombie.send_offsets_to_transaction(&positions(input, &[(0, 1)]), &stale, BOUND);
    producer_of_zombie.abort_transaction(BOUND).unwrap();
    println!(
        "K5: an empty list of a stale generation: {empty:?}; unchanged positions: {unchanged:?}"
    );
    assert!(empty.is_ok(), "{empty:?}");
    assert!(unchanged.is_err());
}

#[test]
fn k6_a_revoke_commits_before_it_returns_and_the_new_owner_sees_it() {
    let (group, input, output) = ("k6", "k6-in", "k6-out");
    create_topic(input, 2);
    create_topic(output, 1);
    append_and_commit(&producer("k6-source"), input, &["a", "b"]);
    let mut leaver = consumer(group, "read_committed");
    leaver.consumer().subscribe(&[input]).unwrap();
    assert_eq!(join(&mut leaver, |_| 0).len(), 2);
    let mut fed = BTreeMap::new();
    while fed != BTreeMap::from([(0, 3), (1, 0)]) {
        let (partition, position) = match next(&mut leaver) {
            Polled::Record(record) => (record.partition, record.offset + 1),
            Polled::Eof { partition, offset } => (partition, offset),
            other => panic!("{other:?}"),
        };
        fed.insert(partition.partition, position);
    }
    let producer = producer("k6-leaver");
    producer.begin_transaction().unwrap();
    append(&producer, output, &["A", "B"]);

    let mut comer = consumer(group, "read_committed");
    comer.consumer().subscribe(&[input]).unwrap();
    let member = leaver.consumer().group_metadata().unwrap();
    let deadline = Instant::now() + BOUND;
    let mut revoked = Vec::new();
    let mut taken: BTreeMap<Partition, Option<i64>> = BTreeMap::new();
    while taken.is_empty() {
        assert!(Instant::now() < deadline, "the group did not settle");
        match poll(&mut leaver, Duration::from_millis(20)) {
            Some(Polled::Revoked { partitions, lost }) => {
                assert!(!lost);
                // Held back by the revoke, the group is still of the old generation, and the commit is accepted.
                let fed: Vec<(i32, i64)> = fed
                    .iter()
                    .map(|(partition, offset)| (*partition, *offset))
                    .collect();
                producer
                    .send_offsets_to_transaction(&positions(input, &fed), &member, BOUND)
                    .unwrap();
                producer.commit_transaction(BOUND).unwrap();
                assert!(
                    poll(&mut comer, Duration::ZERO).is_none(),
                    "nobody is given a partition before the revoke is acknowledged"
                );
                leaver.consumer().unassign().unwrap();
                revoked.extend(partitions);
            }
            Some(Polled::Assigned(partitions)) => {
                assign(&leaver, &partitions, |partition| fed[&partition.partition])
            }
            Some(Polled::Eof { .. }) | None => {}
            other => panic!("{other:?}"),
        }
        match poll(&mut comer, Duration::from_millis(20)) {
            Some(Polled::Assigned(partitions)) => {
                assert!(
                    !revoked.is_empty(),
                    "assigned before the revoke was acknowledged"
                );
                for partition in &partitions {
                    taken.insert(
                        partition.clone(),
                        committed(group, input, partition.partition),
                    );
                }
                assign(&comer, &partitions, |partition| taken[partition].unwrap());
            }
            None => {}
            other => panic!("{other:?}"),
        }
    }
    let visible = seen_until_eof(&mut reader(output, "read_committed"), 3);
    // The same member, with the generation that it has just committed in.
    producer.begin_transaction().unwrap();
    let late = producer.send_offsets_to_transaction(&positions(input, &[(0, 0)]), &member, BOUND);
    producer.abort_transaction(BOUND).unwrap();
    println!(
        "K6: revoked {revoked:?} at {fed:?}, the new owner found {taken:?}; output {visible:?}; after it {late:?}"
    );
    let Err(KafkaError::Transaction(late)) = late else {
        panic!("{late:?}")
    };
    assert_eq!(late.code(), RDKafkaErrorCode::IllegalGeneration);
    assert_eq!(
        revoked.len(),
        2,
        "the range assignor takes everything away first"
    );
    assert_eq!(taken.len(), 1);
    for (partition, position) in &taken {
        assert_eq!(*position, fed.get(&partition.partition).copied());
    }
    assert_eq!(visible, [record(0, "A"), record(1, "B"), Seen::Eof(3)]);
}

/// No fact of the broker, but of the poll: nothing of a record is lost on the way.
#[test]
fn a_polled_record_is_whole() {
    let topic = "whole";
    create_topic(topic, 1);
    let producer = producer("whole");
    // Of today: the broker deletes what is older than its retention time.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now_ms = i64::try_from(now.as_millis()).unwrap();
    producer.begin_transaction().unwrap();
    let headers = OwnedHeaders::new()
        .insert(Header {
            key: "a",
            value: Some("1"),
        })
        .insert(Header {
            key: "b",
            value: None::<&str>,
        })
        .insert(Header {
            key: "a",
            value: Some(""),
        });
    let full = BaseRecord::to(topic)
        .partition(0)
        .key("k")
        .payload("v")
        .headers(headers)
        .timestamp(now_ms);
    producer.send(full).map_err(|(error, _)| error).unwrap();
    let bare = BaseRecord::<str, str>::to(topic)
        .partition(0)
        .timestamp(now_ms + 1);
    producer.send(bare).map_err(|(error, _)| error).unwrap();
    let empty = BaseRecord::to(topic)
        .partition(0)
        .key("")
        .payload("")
        .timestamp(now_ms + 2);
    producer.send(empty).map_err(|(error, _)| error).unwrap();
    producer.commit_transaction(BOUND).unwrap();

    let partition = Partition {
        topic: topic.into(),
        partition: 0,
    };
    let bytes = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    let expected = |offset, key, value, headers: &[(&str, Option<Bytes>)]| Record {
        partition: partition.clone(),
        offset,
        key,
        value,
        headers: headers
            .iter()
            .map(|(name, value)| parsley_core::Header {
                name: Bytes::copy_from_slice(name.as_bytes()),
                value: value.clone(),
            })
            .collect(),
        timestamp: Timestamp::CreateTime(now_ms + offset),
    };
    let mut reader = reader(topic, "read_committed");
    let full_headers = [("a", bytes("1")), ("b", None), ("a", bytes(""))];
    // The end at 0 was told first once, and the test failed.
    assert_eq!(
        next_record(&mut reader),
        expected(0, bytes("k"), bytes("v"), &full_headers)
    );
    assert_eq!(next_record(&mut reader), expected(1, None, None, &[]));
    assert_eq!(
        next_record(&mut reader),
        expected(2, bytes(""), bytes(""), &[])
    );
    assert_eq!(
        next(&mut reader),
        Polled::Eof {
            partition,
            offset: 4
        }
    );
}

/// Counts the rebalances that the consumer hands to its context, as its own close does.
struct CountsRebalances(Arc<AtomicUsize>);

impl ClientContext for CountsRebalances {}

impl ConsumerContext for CountsRebalances {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        _: RDKafkaRespErr,
        _: &mut TopicPartitionList,
    ) {
        self.0.fetch_add(1, Ordering::SeqCst);
        consumer.unassign().unwrap();
    }
}

/// A zombie's drop once hung: its unread revoke was acknowledged by the consumer's close while librdkafka took the group down
/// (librdkafka issue 4884). Everything has to be acknowledged before the close, which then has nothing to hand to the context.
#[test]
fn a_drop_acknowledges_everything_before_the_close_and_leaves_the_group() {
    let (group, topic) = ("drop", "drop");
    create_topic(topic, 1);
    for acknowledged in [true, false] {
        let counted = Arc::new(AtomicUsize::new(0));
        let dropped: BaseConsumer<CountsRebalances> = consumer_config(group, "read_committed")
            .create_with_context(CountsRebalances(Arc::clone(&counted)))
            .unwrap();
        let mut dropped = EventConsumer::new(dropped).unwrap();
        dropped.consumer().subscribe(&[topic]).unwrap();
        let Polled::Assigned(_) = next(&mut dropped) else {
            panic!("no assignment")
        };
        if acknowledged {
            dropped
                .consumer()
                .assign(&positions(topic, &[(0, 0)]))
                .unwrap();
        }
        drop(dropped);
        assert_eq!(
            counted.load(Ordering::SeqCst),
            0,
            "acknowledged before: {acknowledged}"
        );
        let mut heir = consumer(group, "read_committed");
        heir.consumer().subscribe(&[topic]).unwrap();
        assert_eq!(join(&mut heir, |_| 0).len(), 1);
    }
}
