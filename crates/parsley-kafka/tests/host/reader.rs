//! [`TopicReader`] on a real broker: positions, ends, transactions, and what it cannot read.

use std::time::{Duration, Instant};

use parsley_kafka::{
    Isolation, ReadFrom, ReadRecord, ReaderConfig, ReaderError, TopicReader, TopicSelection,
};

use crate::world::*;

fn to_the_end(isolation: Isolation) -> ReaderConfig {
    ReaderConfig::new(bootstrap())
        .isolation(isolation)
        .until_end(true)
        .property("fetch.wait.max.ms", "20")
}

fn from(topic: &str, from: ReadFrom) -> TopicSelection {
    TopicSelection {
        from,
        ..TopicSelection::whole(topic)
    }
}

/// Reads up to the end. Returns the values.
fn read_on(reader: &mut TopicReader) -> Vec<String> {
    let until = Instant::now() + BOUND;
    let mut records: Vec<ReadRecord> = Vec::new();
    while !reader.is_at_end() {
        assert!(Instant::now() < until, "{reader:?} has no end");
        records.extend(reader.poll(Duration::from_millis(100)).unwrap());
    }
    records.iter().map(|record| text(&record.value)).collect()
}

fn read_from(isolation: Isolation, selection: TopicSelection) -> Vec<String> {
    read_on(&mut TopicReader::open(&to_the_end(isolation), &[selection]).unwrap())
}

fn opening_fails(selection: TopicSelection) -> ReaderError {
    TopicReader::open(&to_the_end(Isolation::ReadCommitted), &[selection]).unwrap_err()
}

/// Traps 1 to 3: the end of a partition is a marker, an aborted run, or a transaction that is still open.
#[test]
fn a_reader_ends_by_positions_whatever_stands_at_the_end() {
    let topic = "reader-ends";
    create_topic(topic, 4);
    let (committed, open) = (
        Foreign::transactional("reader-ends-committed"),
        Foreign::transactional("reader-ends-open"),
    );
    committed.begin();
    committed.append(topic, To::Partition(0), &[("k", "a"), ("k", "b")]);
    committed.commit();
    committed.begin();
    committed.append(topic, To::Partition(1), &[("k", "never")]);
    committed.abort();
    open.begin();
    open.append(topic, To::Partition(2), &[("k", "perhaps")]);
    committed.begin();
    committed.append(topic, To::Partition(2), &[("k", "behind")]);
    committed.commit();

    let config = to_the_end(Isolation::ReadCommitted);
    let mut reader = TopicReader::open(&config, &[TopicSelection::whole(topic)]).unwrap();
    assert_eq!(read_on(&mut reader), ["a", "b"]);
    let ends: Vec<_> = reader
        .positions()
        .map(|at| (at.position, at.end, at.high_watermark))
        .collect();
    // Partition 2: the open transaction, the record behind it, and that one's marker.
    assert_eq!(ends, [(3, 3, 3), (2, 2, 2), (0, 0, 3), (0, 0, 0)]);
    assert_eq!(
        reader.positions().next().unwrap().channel,
        channel(topic, 0)
    );

    let mut all = read_from(Isolation::ReadUncommitted, TopicSelection::whole(topic));
    all.sort();
    assert_eq!(all, ["a", "b", "behind", "never", "perhaps"]);

    open.commit();
    let mut all = read_from(Isolation::ReadCommitted, TopicSelection::whole(topic));
    all.sort();
    assert_eq!(all, ["a", "b", "behind", "perhaps"]);
}

#[test]
fn a_reader_begins_where_it_is_told_to() {
    let topic = "reader-begins";
    create_topic(topic, 1);
    let plain = Foreign::plain();
    plain.append(topic, To::Partition(0), &[("k", "0"), ("k", "1")]);
    std::thread::sleep(Duration::from_millis(20));
    let between = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let between = i64::try_from(between.as_millis()).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    plain.append(topic, To::Partition(0), &[("k", "2")]);

    let read = |place| read_from(Isolation::ReadCommitted, from(topic, place));
    assert_eq!(read(ReadFrom::Start), ["0", "1", "2"]);
    assert_eq!(read(ReadFrom::Offset(1)), ["1", "2"]);
    assert_eq!(read(ReadFrom::Offset(3)), [""; 0]);
    assert_eq!(read(ReadFrom::End), [""; 0]);
    assert_eq!(read(ReadFrom::Timestamp(between)), ["2"]);
    assert_eq!(read(ReadFrom::Timestamp(between + 3_600_000)), [""; 0]);

    delete_records(topic, 0, 2);
    assert_eq!(read(ReadFrom::Start), ["2"]);
    for offset in [1, 4] {
        let failed = opening_fails(from(topic, ReadFrom::Offset(offset)));
        assert!(
            matches!(failed, ReaderError::OutOfRange { start: 2, end: 3, offset: found, .. } if found == offset),
            "{failed:?}"
        );
    }
}

#[test]
fn without_an_end_a_reader_goes_on() {
    let topic = "reader-goes-on";
    create_topic(topic, 1);
    let config = ReaderConfig::new(bootstrap());
    let mut reader = TopicReader::open(&config, &[TopicSelection::whole(topic)]).unwrap();
    assert!(reader.is_at_end());
    Foreign::plain().append(topic, To::Partition(0), &[("k", "later")]);
    let until = Instant::now() + BOUND;
    let record = loop {
        assert!(Instant::now() < until, "nothing came");
        if let Some(record) = reader.poll(Duration::from_millis(100)).unwrap().pop() {
            break record;
        }
    };
    assert_eq!(
        (record.offset, text(&record.value)),
        (0, "later".to_owned())
    );
    assert!(record.timestamp_ms.is_some());
}

#[test]
fn what_cannot_be_read_is_named() {
    let topic = "reader-named";
    create_topic(topic, 2);
    let failed = opening_fails(TopicSelection::whole("reader-no-such-topic"));
    assert!(
        matches!(&failed, ReaderError::UnknownTopic { topic } if topic == "reader-no-such-topic"),
        "{failed:?}"
    );
    let failed = opening_fails(TopicSelection {
        partitions: vec![1, 2],
        ..TopicSelection::whole(topic)
    });
    assert!(
        matches!(
            failed,
            ReaderError::UnknownPartition {
                partition: 2,
                partitions: 2,
                ..
            }
        ),
        "{failed:?}"
    );

    // Nothing listens on the discard port of the loopback address.
    let mut nobody = ReaderConfig::new("127.0.0.1:9");
    nobody.answer_timeout = Duration::from_millis(500);
    let failed = TopicReader::open(&nobody, &[TopicSelection::whole(topic)]).unwrap_err();
    assert!(
        matches!(&failed, ReaderError::NoAnswer { brokers, .. } if brokers == "127.0.0.1:9"),
        "{failed:?}"
    );
    let owned = ReaderConfig::new(bootstrap()).property("isolation.level", "read_committed");
    let failed = TopicReader::open(&owned, &[TopicSelection::whole(topic)]).unwrap_err();
    assert!(matches!(failed, ReaderError::Config(_)), "{failed:?}");
}

/// A name leads to another topic after it was deleted and made again: what is read there is on other channels.
#[test]
fn a_topic_that_is_made_again_ends_the_reading() {
    let topic = "reader-made-again";
    create_topic(topic, 1);
    let first = id_of(topic).unwrap();
    let config = ReaderConfig::new(bootstrap());
    let mut reader = TopicReader::open(&config, &[TopicSelection::whole(topic)]).unwrap();
    reader.check_identity().unwrap();
    delete_topic(topic);
    create_topic(topic, 1);
    let second = id_of(topic);
    let failed = reader.check_identity().unwrap_err();
    assert!(
        matches!(failed, ReaderError::IdentityChanged { opened, found, .. } if opened == first && found == second),
        "{failed:?}"
    );
}
