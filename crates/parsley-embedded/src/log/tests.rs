use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parsley_core::{Changes, StateStore};

use super::*;

mod on_disk;
use crate::time::TimeSource;

fn fetch(
    log: &Log,
    channel: Channel,
    from: Offset,
    until: Option<Offset>,
    records_max: usize,
) -> Result<Fetched, OutOfRange> {
    let limits = FetchLimits {
        records_max,
        bytes_max: usize::MAX,
    };
    let begun = log.lock().storage.begin_fetch(channel, from, until, limits);
    let fetch = begun.expect("the partition exists")?;
    Ok(log.finish_fetch(fetch).unwrap())
}

/// A log in memory, one in a directory, and one that keeps nothing in memory of what its directory has.
fn logs() -> impl Iterator<Item = Log> {
    let config = LogConfig::default()
        .ids(Ids::Seeded(7))
        .time(TimeSource::from_fn(|| 1_000));
    let in_dir = |config| {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), config).unwrap();
        // The file is there as long as it is open.
        drop(dir);
        log
    };
    [
        Log::new(config.clone()),
        in_dir(config.clone()),
        in_dir(config.cache_bytes(0)),
    ]
    .into_iter()
}

fn to(topic: &str, value: &'static str) -> NewRecord {
    NewRecord::to(topic).value(value)
}

/// What a reader sees from a position on: values with their offsets, and where it stands afterwards.
fn read(log: &Log, channel: Channel, from: Offset) -> (Vec<(Offset, String)>, Offset) {
    let fetched = fetch(log, channel, from, None, usize::MAX).expect("in range");
    let text =
        |value: Option<Bytes>| String::from_utf8(value.expect("a value").to_vec()).expect("text");
    (
        fetched
            .records
            .into_iter()
            .map(|record| (record.offset, text(record.value)))
            .collect(),
        fetched.next,
    )
}

fn seen(records: &[(Offset, &str)]) -> Vec<(Offset, String)> {
    records
        .iter()
        .map(|(offset, value)| (*offset, (*value).to_owned()))
        .collect()
}

#[test]
fn a_commit_marker_takes_an_offset_that_readers_pass() {
    for log in logs() {
        let channel = log.create_topic("t", 1).unwrap().partition(0);
        let mut transaction = log.producer().begin();
        assert_eq!(
            transaction.send(to("t", "a")).unwrap(),
            Appended { channel, offset: 0 }
        );
        assert_eq!(transaction.send(to("t", "b")).unwrap().offset, 1);
        transaction.commit().unwrap();
        assert_eq!(log.high_watermark(channel), Some(3));
        assert_eq!(read(&log, channel, 0), (seen(&[(0, "a"), (1, "b")]), 3));
        assert_eq!(log.producer().send(to("t", "c")).unwrap().offset, 3);
        assert_eq!(read(&log, channel, 2), (seen(&[(3, "c")]), 4));
    }
}

#[test]
fn an_aborted_run_is_passed_at_the_head_in_the_middle_and_at_the_tail() {
    for log in logs() {
        let channel = log.create_topic("t", 1).unwrap().partition(0);
        let producer = log.producer();
        let abort = || {
            let mut transaction = producer.begin();
            transaction.send(to("t", "x")).unwrap();
            transaction.send(to("t", "x")).unwrap();
            transaction.abort();
        };
        abort(); // 0, 1, marker 2
        producer.send(to("t", "a")).unwrap(); // 3
        abort(); // 4, 5, marker 6
        producer.send(to("t", "b")).unwrap(); // 7
        abort(); // 8, 9, marker 10
        assert_eq!(read(&log, channel, 0), (seen(&[(3, "a"), (7, "b")]), 11));
        assert_eq!(read(&log, channel, 5), (seen(&[(7, "b")]), 11));
        assert_eq!(read(&log, channel, 8), (vec![], 11));
    }
}

#[test]
fn a_limited_fetch_stops_behind_what_follows_its_last_record() {
    for log in logs() {
        let channel = log.create_topic("t", 1).unwrap().partition(0);
        let mut transaction = log.producer().begin();
        transaction.send(to("t", "a")).unwrap();
        transaction.commit().unwrap();
        log.producer().send(to("t", "b")).unwrap();
        let first = fetch(&log, channel, 0, None, 1).unwrap();
        assert_eq!(
            (first.records.len(), first.next),
            (1, 2),
            "past the marker, before the next record"
        );
        let bounded = fetch(&log, channel, 0, Some(1), 9).unwrap();
        assert_eq!((bounded.records.len(), bounded.next), (1, 1));
    }
}

#[test]
fn readers_stop_at_the_oldest_open_transaction() {
    for log in logs() {
        let channel = log.create_topic("t", 1).unwrap().partition(0);
        let producer = log.producer();
        producer.send(to("t", "a")).unwrap(); // 0
        let mut first = producer.begin();
        let mut second = producer.begin();
        first.send(to("t", "b")).unwrap(); // 1
        second.send(to("t", "c")).unwrap(); // 2
        producer.send(to("t", "d")).unwrap(); // 3
        first.send(to("t", "e")).unwrap(); // 4
        assert_eq!(
            (log.last_stable_offset(channel), log.high_watermark(channel)),
            (Some(1), Some(5))
        );
        assert_eq!(read(&log, channel, 0), (seen(&[(0, "a")]), 1));
        first.commit().unwrap(); // marker 5
        assert_eq!(log.last_stable_offset(channel), Some(2));
        assert_eq!(read(&log, channel, 0), (seen(&[(0, "a"), (1, "b")]), 2));
        second.abort(); // marker 6
        assert_eq!(
            read(&log, channel, 0),
            (seen(&[(0, "a"), (1, "b"), (3, "d"), (4, "e")]), 7)
        );
    }
}

#[test]
fn a_transaction_ends_on_every_partition_it_wrote_to_and_on_no_other() {
    for log in logs() {
        let topic = log.create_topic("t", 3).unwrap();
        let mut transaction = log.producer().begin();
        transaction.send(to("t", "a").partition(0)).unwrap();
        transaction.send(to("t", "b").partition(2)).unwrap();
        drop(transaction);
        let ends: Vec<_> = (0..3)
            .map(|partition| log.high_watermark(topic.partition(partition)).unwrap())
            .collect();
        assert_eq!(ends, [2, 0, 2], "dropped is aborted");
        assert_eq!(read(&log, topic.partition(2), 0), (vec![], 2));
    }
}

#[test]
fn a_deletion_of_records_moves_the_log_start_and_nothing_else() {
    for log in logs() {
        let channel = log.create_topic("t", 1).unwrap().partition(0);
        for value in ["a", "b", "c"] {
            log.producer().send(to("t", value)).unwrap();
        }
        log.delete_records(channel, 2).unwrap();
        log.delete_records(channel, 1).unwrap();
        assert_eq!(
            (log.log_start(channel), log.high_watermark(channel)),
            (Some(2), Some(3))
        );
        assert_eq!(read(&log, channel, 2), (seen(&[(2, "c")]), 3));
        let out_of_range = OutOfRange {
            log_start: 2,
            high_watermark: 3,
        };
        assert_eq!(fetch(&log, channel, 1, None, 9), Err(out_of_range));
        assert_eq!(fetch(&log, channel, 4, None, 9), Err(out_of_range));
        for before in [-1, 4] {
            assert_eq!(
                log.delete_records(channel, before),
                Err(TopicError::OutOfRange {
                    channel,
                    before,
                    log_start: 2,
                    high_watermark: 3
                })
            );
        }
        log.delete_records(channel, 3).unwrap();
        assert_eq!(read(&log, channel, 3), (vec![], 3));
    }
}

#[test]
fn a_deletion_reaches_into_an_open_transaction() {
    for log in logs() {
        let channel = log.create_topic("t", 1).unwrap().partition(0);
        let mut transaction = log.producer().begin();
        transaction.send(to("t", "a")).unwrap();
        transaction.send(to("t", "b")).unwrap();
        log.delete_records(channel, 1).unwrap();
        assert_eq!(log.last_stable_offset(channel), Some(1));
        transaction.abort();
        assert_eq!(read(&log, channel, 1), (vec![], 3));
    }
}

#[test]
fn size_retention_keeps_the_newest_offsets_and_what_is_undecided() {
    for log in logs() {
        let channel = log
            .create_topic_with("t", TopicConfig::partitions(1).offsets_max(2))
            .unwrap()
            .partition(0);
        let producer = log.producer();
        for value in ["a", "b", "c"] {
            producer.send(to("t", value)).unwrap();
        }
        assert_eq!(read(&log, channel, 1), (seen(&[(1, "b"), (2, "c")]), 3));
        assert_eq!(log.log_start(channel), Some(1));
        let mut transaction = producer.begin();
        transaction.send(to("t", "d")).unwrap();
        for value in ["e", "f"] {
            producer.send(to("t", value)).unwrap();
        }
        assert_eq!(
            log.log_start(channel),
            Some(3),
            "the open transaction's record is kept"
        );
        transaction.commit().unwrap();
        assert_eq!(
            (log.log_start(channel), log.high_watermark(channel)),
            (Some(5), Some(7))
        );
    }
}

#[test]
fn a_topic_created_again_is_another_topic() {
    for log in logs() {
        let first = log.create_topic("t", 1).unwrap();
        log.producer().send(to("t", "a")).unwrap();
        let mut transaction = log.producer().begin();
        transaction.send(to("t", "b")).unwrap();
        let mut old = log.consumer("t").unwrap();
        log.delete_topic("t").unwrap();
        assert_eq!(
            log.delete_topic("t"),
            Err(TopicError::Unknown { topic: "t".into() })
        );
        let second = log.create_topic("t", 2).unwrap();
        assert_ne!(first, second);
        assert_eq!(log.high_watermark(first.partition(0)), None);
        transaction.commit().unwrap();
        assert_eq!(
            log.high_watermark(second.partition(0)),
            Some(0),
            "the old transaction ends with the old topic"
        );
        assert_eq!(
            old.poll_now(),
            Err(ReadError::DeletedTopic { topic: "t".into() })
        );
        assert_eq!(log.consumer("t").unwrap().poll_now(), Ok(vec![]));

        let same = Log::new(LogConfig::default().ids(Ids::Seeded(7)));
        assert_eq!(
            same.create_topic("t", 1).unwrap(),
            first,
            "seeded identities repeat"
        );
        let other = Log::new(LogConfig::default().ids(Ids::Seeded(8)));
        assert_ne!(other.create_topic("t", 1).unwrap(), first);
        let random = (
            Log::default().create_topic("t", 1).unwrap(),
            Log::default().create_topic("t", 1).unwrap(),
        );
        assert_ne!(random.0, random.1);
    }
}

#[test]
fn names_and_sizes_that_are_none_are_refused() {
    for log in logs() {
        for name in ["", ".", "..", "a b", "a/b", "größe", &"n".repeat(250)] {
            assert!(
                matches!(log.create_topic(name, 1), Err(TopicError::Name { .. })),
                "{name}"
            );
        }
        log.create_topic(&"n".repeat(249), 1).unwrap();
        for partitions in [i32::MIN, 0, PARTITIONS_MAX + 1, i32::MAX] {
            assert!(
                matches!(log.create_topic("t", partitions), Err(TopicError::Partitions { found, .. }) if found == partitions)
            );
        }
        assert_eq!(
            log.create_topic_with("t", TopicConfig::partitions(1).offsets_max(0)),
            Err(TopicError::Retention {
                topic: "t".into(),
                found: 0
            })
        );
        log.create_topic("t", 1).unwrap();
        assert_eq!(
            log.create_topic("t", 1),
            Err(TopicError::Exists { topic: "t".into() })
        );
        assert_eq!(
            log.consumer("u").unwrap_err(),
            ReadError::UnknownTopic { topic: "u".into() }
        );
        assert_eq!(
            log.producer().send(to("u", "")),
            Err(SendError::UnknownTopic { topic: "u".into() })
        );
        for partition in [-1, 1] {
            assert_eq!(
                log.producer().send(to("t", "").partition(partition)),
                Err(SendError::UnknownPartition {
                    topic: "t".into(),
                    found: partition,
                    partitions: 1
                })
            );
        }
        let nowhere = TopicId::of_name("nowhere").partition(0);
        assert_eq!(
            log.delete_records(nowhere, 0),
            Err(TopicError::UnknownPartition { channel: nowhere })
        );
        assert_eq!(
            log.consumer("t").unwrap().seek(1, 0),
            Err(ReadError::UnknownPartition {
                topic: "t".into(),
                found: 1,
                partitions: 1
            })
        );
    }
}

#[test]
fn a_record_beyond_the_size_limit_is_refused_whole() {
    let log = Log::new(LogConfig::default().record_bytes_max(10));
    let channel = log.create_topic("t", 1).unwrap().partition(0);
    let record = || NewRecord::to("t").key("abc").header("h", "de");
    log.producer().send(record().value("1234")).unwrap();
    assert_eq!(
        log.producer().send(record().value("12345")),
        Err(SendError::TooLarge {
            topic: "t".into(),
            bytes: 11,
            bytes_max: 10
        })
    );
    assert_eq!(log.high_watermark(channel), Some(1));
}

#[test]
fn the_key_chooses_the_partition_as_java_producers_do() {
    for log in logs() {
        log.create_topic("t", 4).unwrap();
        let mut partitions = BTreeSet::new();
        for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            let sent = log.producer().send(NewRecord::to("t").key(key)).unwrap();
            assert_eq!(
                sent.channel.partition,
                parsley_stage::partition::partition_of(Some(key.as_bytes()), 4)
            );
            partitions.insert(sent.channel.partition);
        }
        assert!(partitions.len() > 1);
        assert_eq!(
            log.producer()
                .send(NewRecord::to("t"))
                .unwrap()
                .channel
                .partition,
            0,
            "the null key"
        );
        assert_eq!(
            log.producer()
                .send(NewRecord::to("t").key("a").partition(3))
                .unwrap()
                .channel
                .partition,
            3
        );
    }
}

#[test]
fn a_timestamp_is_the_records_own_or_the_logs() {
    let now = Arc::new(AtomicI64::new(5));
    let time = TimeSource::from_fn({
        let now = Arc::clone(&now);
        move || now.load(Ordering::Relaxed)
    });
    let log = Log::new(LogConfig::default().time(time));
    log.create_topic("t", 1).unwrap();
    log.producer().send(NewRecord::to("t")).unwrap();
    now.store(6, Ordering::Relaxed);
    log.producer().send(NewRecord::to("t")).unwrap();
    log.producer()
        .send(NewRecord::to("t").timestamp_ms(-3))
        .unwrap();
    let times: Vec<_> = log
        .consumer("t")
        .unwrap()
        .read_to_end()
        .unwrap()
        .iter()
        .map(|record| record.timestamp_ms)
        .collect();
    assert_eq!(times, [5, 6, -3]);
}

/// The clock was once asked with the log's lock held: one that looked at the log waited for itself.
#[test]
fn the_clock_is_asked_while_nobody_holds_the_log() {
    let asked: Arc<OnceLock<Log>> = Arc::default();
    let time = TimeSource::from_fn({
        let asked = Arc::clone(&asked);
        move || {
            let log = asked
                .get()
                .expect("the log is there before it is written to");
            i64::from(log.shared.state.try_lock().is_ok())
        }
    });
    let log = Log::new(LogConfig::default().time(time));
    log.create_topic("t", 1).unwrap();
    asked.set(log.clone()).unwrap();
    log.producer().send(to("t", "plain")).unwrap();
    let mut transaction = log.producer().begin();
    transaction.send(to("t", "in a transaction")).unwrap();
    transaction.commit().unwrap();
    let records = log.consumer("t").unwrap().read_to_end().unwrap();
    let free: Vec<_> = records.iter().map(|record| record.timestamp_ms).collect();
    assert_eq!(free, [1, 1]);
}

#[test]
fn a_consumer_waits_for_records_and_wakes_when_they_come() {
    for log in logs() {
        log.create_topic("t", 2).unwrap();
        let mut consumer = log.consumer("t").unwrap();
        assert_eq!(
            consumer.poll(Duration::ZERO).unwrap(),
            vec![],
            "nothing comes, and the time is over"
        );
        let reader = std::thread::spawn(move || {
            let mut values = Vec::new();
            while values.len() < 2 {
                values.extend(
                    consumer
                        .poll(Duration::MAX)?
                        .into_iter()
                        .filter_map(|record| record.value),
                );
            }
            Ok::<_, ReadError>(values)
        });
        log.producer().send(to("t", "a").partition(1)).unwrap();
        let mut transaction = log.producer().begin();
        transaction.send(to("t", "b").partition(0)).unwrap();
        transaction.commit().unwrap();
        let mut values = reader.join().unwrap().unwrap();
        values.sort();
        assert_eq!(values, ["a", "b"]);
    }
}

#[test]
fn a_consumer_that_waits_learns_of_the_deletion() {
    for log in logs() {
        log.create_topic("t", 1).unwrap();
        let mut consumer = log.consumer("t").unwrap();
        let reader = std::thread::spawn(move || consumer.poll(Duration::MAX));
        log.delete_topic("t").unwrap();
        assert_eq!(
            reader.join().unwrap(),
            Err(ReadError::DeletedTopic { topic: "t".into() })
        );
    }
}

#[test]
fn a_consumer_continues_where_it_was_put() {
    for log in logs() {
        let channel = log.create_topic("t", 1).unwrap().partition(0);
        for value in ["a", "b", "c"] {
            log.producer().send(to("t", value)).unwrap();
        }
        let mut consumer = log.consumer("t").unwrap();
        assert_eq!(consumer.read_to_end().unwrap().len(), 3);
        consumer.seek(0, 2).unwrap();
        assert_eq!(
            consumer.read_to_end().unwrap()[0].value.as_deref(),
            Some(b"c".as_slice())
        );
        assert_eq!(consumer.positions()[&0], 3);
        log.delete_records(channel, 1).unwrap();
        consumer.seek(0, 0).unwrap();
        assert_eq!(
            consumer.poll_now(),
            Err(ReadError::OutOfRange {
                channel,
                position: 0,
                log_start: 1,
                high_watermark: 3
            })
        );
        assert_eq!(consumer.positions()[&0], 0, "a failed read moves nothing");
    }
}

fn send(channel: Channel, value: &'static str) -> Record {
    Record {
        channel,
        offset: 0,
        timestamp_ms: 0,
        key: None,
        value: Some(value.into()),
        headers: vec![],
    }
}

fn put(key: &'static str, value: &'static str) -> Changes {
    Changes([(Bytes::from(key), Some(Bytes::from(value)))].into())
}

fn changes(
    group: &str,
    positions: Vec<(Channel, Offset)>,
    ordering: Changes,
    fold: Changes,
) -> StepChanges {
    StepChanges {
        group: group.to_owned(),
        task: 0,
        positions,
        ordering,
        fold,
    }
}

#[test]
fn a_step_commits_sends_positions_and_state_together() {
    for log in logs() {
        let (a, b) = (
            log.create_topic("a", 1).unwrap().partition(0),
            log.create_topic("b", 1).unwrap().partition(0),
        );
        log.producer().send(to("b", "before")).unwrap();
        let mut step = log.step();
        let sends = [send(a, "1"), send(b, "2"), send(a, "3"), send(a, "4")];
        let offsets = sends.map(|send| step.append(send).unwrap());
        assert_eq!(offsets, [0, 1, 1, 2]);
        step.commit(changes(
            "app-stage",
            vec![(b, 1)],
            {
                let mut ordering = put("o", "1");
                ordering.0.extend(put("p", "1").0);
                ordering
            },
            put("f", "2"),
        ))
        .unwrap();
        assert_eq!(read(&log, a, 0), (seen(&[(0, "1"), (1, "3"), (2, "4")]), 4));
        assert_eq!(read(&log, b, 0), (seen(&[(0, "before"), (1, "2")]), 3));
        assert_eq!(log.committed_positions("app-stage"), [(b, 1)].into());
        assert_eq!(
            log.ordering_state("app-stage", 0)
                .unwrap()
                .unwrap()
                .get(b"o")
                .unwrap()
                .unwrap(),
            "1"
        );
        assert_eq!(
            log.fold_state("app-stage", 0)
                .unwrap()
                .unwrap()
                .get(b"f")
                .unwrap()
                .unwrap(),
            "2"
        );
        assert_eq!(log.ordering_state("app-stage", 1), Ok(None));

        log.step()
            .commit(changes(
                "app-stage",
                vec![(a, 4)],
                Changes([("o".into(), None)].into()),
                Changes::default(),
            ))
            .unwrap();
        assert_eq!(
            log.committed_positions("app-stage"),
            [(a, 4), (b, 1)].into()
        );
        assert_eq!(
            log.ordering_state("app-stage", 0)
                .unwrap()
                .unwrap()
                .get(b"o")
                .unwrap(),
            None
        );
        assert_eq!(
            log.high_watermark(a),
            Some(4),
            "a step without sends writes no marker"
        );
    }
}

#[test]
fn a_step_that_is_given_up_leaves_an_aborted_run_and_no_state() {
    for log in logs() {
        let channel = log.create_topic("a", 1).unwrap().partition(0);
        let mut step = log.step();
        step.append(send(channel, "1")).unwrap();
        drop(step);
        drop(log.step());
        assert_eq!(log.high_watermark(channel), Some(2));
        assert_eq!(read(&log, channel, 0), (vec![], 2));
        assert_eq!(log.committed_positions("app-stage"), BTreeMap::new());
    }
}

#[test]
fn a_step_to_a_deleted_topic_fails_whole() {
    for log in logs() {
        let kept = log.create_topic("kept", 1).unwrap().partition(0);
        let gone = log.create_topic("gone", 1).unwrap().partition(0);
        log.delete_topic("gone").unwrap();
        let mut step = log.step();
        assert_eq!(step.append(send(kept, "1")), Ok(0));
        assert_eq!(
            step.append(send(gone, "2")),
            Err(SendError::DeletedTopic { topic: gone.topic })
        );
        drop(step);
        assert_eq!(
            read(&log, kept, 0),
            (vec![], 2),
            "its record, withdrawn, and the marker"
        );
    }
}

#[test]
fn committed_state_is_written_by_steps_alone() {
    for log in logs() {
        let mut store = log.lock().storage.task_stores("g", 0).ordering;
        assert!(store.put(b"k", Bytes::new()).is_err());
        assert!(store.delete(b"k").is_err());
        log.step()
            .commit(changes("g", vec![], put("k", "v"), Changes::default()))
            .unwrap();
        assert_eq!(
            store.get(b"k").unwrap().unwrap(),
            "v",
            "a reader sees what was committed"
        );
    }
}
