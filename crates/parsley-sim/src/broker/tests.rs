use bytes::Bytes;
use parsley_core::{Channel, Header, Offset, Record, TopicId};

use super::*;

fn record(channel: Channel, value: &str) -> Record {
    Record {
        channel,
        offset: -1,
        timestamp_ms: 7,
        key: Some(Bytes::from_static(b"k")),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: vec![Header::new("h", "v")],
    }
}

fn one_topic(mode: AppendMode) -> (SimBroker, Channel) {
    let mut broker = SimBroker::new(mode);
    let channel = broker.create_topic("orders", 2).partition(0);
    (broker, channel)
}

fn append(broker: &mut SimBroker, channel: Channel, value: &str, txn: Option<Txn>) -> Offset {
    broker.append(record(channel, value), txn).unwrap()
}

/// The offsets and values from a position on, and the position afterwards.
fn read(broker: &SimBroker, channel: Channel, from: Offset) -> (Vec<(Offset, String)>, Offset) {
    let fetched = broker.fetch(channel, from, usize::MAX).unwrap();
    (fetched.records.iter().map(seen).collect(), fetched.next)
}

fn seen(record: &Record) -> (Offset, String) {
    let value = record.value.as_ref().unwrap().to_vec();
    (record.offset, String::from_utf8(value).unwrap())
}

fn expected(records: &[(Offset, &str)]) -> Vec<(Offset, String)> {
    records
        .iter()
        .map(|(offset, value)| (*offset, (*value).to_owned()))
        .collect()
}

/// Log start, last stable offset, high watermark, end.
fn bounds(broker: &SimBroker, channel: Channel) -> [Offset; 4] {
    [
        broker.log_start(channel).unwrap(),
        broker.last_stable_offset(channel).unwrap(),
        broker.high_watermark(channel).unwrap(),
        broker.end_offset(channel).unwrap(),
    ]
}

#[test]
fn a_topic_created_again_is_another_one_and_the_old_one_keeps_its_name() {
    let mut broker = SimBroker::new(AppendMode::Atomic);
    assert_eq!(broker.topic_id("orders"), None);
    assert_eq!(broker.delete_topic("orders"), None);
    let first = broker.create_topic("orders", 2);
    assert_eq!(first, TopicId::of_name("orders/0"));
    assert_eq!(broker.create_topic("orders", 5), first, "it is there");
    assert_eq!(broker.partitions(first), Some(2));
    append(&mut broker, first.partition(1), "a", None);

    assert_eq!(broker.delete_topic("orders"), Some(first));
    assert_eq!(broker.delete_topic("orders"), None);
    assert_eq!(broker.topic_id("orders"), None);
    let second = broker.create_topic("orders", 3);
    assert_eq!(second, TopicId::of_name("orders/1"));
    assert_eq!(broker.topic_id("orders"), Some(second));
    assert_eq!(broker.name_of(first), Some(("orders", 0)));
    assert_eq!(broker.name_of(second), Some(("orders", 1)));
    assert_eq!(broker.name_of(TopicId::of_name("orders/2")), None);
    assert_eq!((broker.exists(first), broker.exists(second)), (false, true));
    assert_eq!(
        (broker.partitions(first), broker.partitions(second)),
        (None, Some(3))
    );
    assert_eq!(bounds(&broker, second.partition(1)), [0; 4]);
}

#[test]
fn what_is_gone_or_never_was_is_answered_with_an_error() {
    let (mut broker, channel) = one_topic(AppendMode::Interleaved);
    let known = channel.topic;
    append(&mut broker, channel, "a", None);
    let stranger = TopicId::of_name("payments/0").partition(0);
    let deleted = broker.create_topic("payments", 1).partition(0);
    append(&mut broker, deleted, "p", None);
    broker.delete_topic("payments").unwrap();
    let lacking = [known.partition(2), known.partition(-1), stranger, deleted];
    for channel in lacking {
        assert_eq!(
            broker.append(record(channel, "x"), None),
            Err(AppendError::Unknown { channel })
        );
        assert_eq!(
            broker.fetch(channel, 0, 1),
            Err(ReadError::Gone { channel })
        );
        assert_eq!(
            broker.delete_records(channel, 0),
            Err(ReadError::Gone { channel })
        );
        assert_eq!(broker.log_start(channel), None);
        assert_eq!(broker.last_stable_offset(channel), None);
        assert_eq!(broker.high_watermark(channel), None);
        assert_eq!(broker.end_offset(channel), None);
        assert_eq!(broker.committed_records(channel).count(), 0);
        assert!(!broker.is_replicated(channel, 0));
        broker.replicate(channel);
    }
    assert_eq!(broker.unreplicated().collect::<Vec<_>>(), [channel]);
}

#[test]
fn markers_and_aborted_records_use_offsets_and_are_never_returned() {
    let (mut broker, channel) = one_topic(AppendMode::Atomic);
    for (values, outcome) in [
        (&["a", "b"][..], Outcome::Committed),
        (&["x", "y", "z"], Outcome::Aborted),
        (&["c"], Outcome::Committed),
    ] {
        let txn = broker.begin();
        for value in values {
            append(&mut broker, channel, value, Some(txn));
        }
        broker.end(txn, outcome).unwrap();
        assert_eq!(broker.outcome(txn), Some(outcome));
        assert!(broker.is_complete(txn));
    }
    let visible = expected(&[(0, "a"), (1, "b"), (7, "c")]);
    assert_eq!(read(&broker, channel, 0), (visible.clone(), 9));
    assert_eq!(bounds(&broker, channel), [0, 9, 9, 9]);
    let kept: Vec<_> = broker.committed_records(channel).map(seen).collect();
    assert_eq!(kept, visible);
    let first = broker.fetch(channel, 0, 1).unwrap();
    assert_eq!(first.records[0].headers, [Header::new("h", "v")]);
    assert_eq!((first.records[0].offset, first.next), (0, 1));
    let second = broker.fetch(channel, 1, 1).unwrap();
    assert_eq!(
        second.next, 7,
        "past the marker, the aborted records and their marker, up to the next record"
    );
    assert_eq!(read(&broker, channel, 3), (expected(&[(7, "c")]), 9));
    assert_eq!(read(&broker, channel, 8), (vec![], 9));
    assert_eq!(read(&broker, channel, 9), (vec![], 9));
    let none = broker.fetch(channel, 2, 0).unwrap();
    assert_eq!((none.records.len(), none.next), (0, 7));
}

#[test]
fn an_open_transaction_holds_back_what_stands_behind_it() {
    let (mut broker, channel) = one_topic(AppendMode::Atomic);
    let (early, late) = (broker.begin(), broker.begin());
    append(&mut broker, channel, "n", None);
    append(&mut broker, channel, "e", Some(early));
    append(&mut broker, channel, "l", Some(late));
    append(&mut broker, channel, "m", None);
    broker.end(late, Outcome::Committed).unwrap();
    assert_eq!(bounds(&broker, channel), [0, 1, 5, 5]);
    assert_eq!(read(&broker, channel, 0), (expected(&[(0, "n")]), 1));
    assert_eq!(
        read(&broker, channel, 3),
        (vec![], 3),
        "a position past the last stable offset is not taken back"
    );
    let kept: Vec<_> = broker.committed_records(channel).map(seen).collect();
    assert_eq!(kept, expected(&[(0, "n"), (2, "l"), (3, "m")]));

    broker.end(early, Outcome::Aborted).unwrap();
    assert_eq!(bounds(&broker, channel), [0, 6, 6, 6]);
    assert_eq!(
        read(&broker, channel, 1),
        (expected(&[(2, "l"), (3, "m")]), 6)
    );
}

#[test]
fn end_high_watermark_and_last_stable_offset_move_apart() {
    let (mut broker, channel) = one_topic(AppendMode::Interleaved);
    let other = channel.topic.partition(1);
    let txn = broker.begin();
    append(&mut broker, channel, "n", None);
    append(&mut broker, channel, "t", Some(txn));
    append(&mut broker, other, "o", Some(txn));
    assert_eq!(bounds(&broker, channel), [0, 0, 0, 2]);
    assert_eq!(read(&broker, channel, 0), (vec![], 0), "nothing replicated");
    assert_eq!(broker.unreplicated().collect::<Vec<_>>(), [channel, other]);
    assert!(!broker.is_replicated(channel, 0));

    broker.replicate(channel);
    assert_eq!(bounds(&broker, channel), [0, 1, 2, 2]);
    assert!(broker.is_replicated(channel, 1));
    assert!(!broker.is_replicated(channel, 2) && !broker.is_replicated(channel, -1));
    assert_eq!(
        broker.end(txn, Outcome::Committed),
        Err(EndError::Unreplicated {
            txn,
            channel: other
        })
    );
    assert_eq!(broker.outcome(txn), None, "it is still open");
    assert_eq!(broker.pending_markers().count(), 0);

    broker.replicate(other);
    broker.end(txn, Outcome::Committed).unwrap();
    assert_eq!(bounds(&broker, channel), [0, 1, 2, 2], "no marker yet");
    assert_eq!(
        broker.pending_markers().collect::<Vec<_>>(),
        [(txn, channel), (txn, other)]
    );
    assert_eq!(broker.write_marker(txn, channel), Some(2));
    assert_eq!(broker.write_marker(txn, channel), None, "it is written");
    assert_eq!(
        bounds(&broker, channel),
        [0, 1, 2, 3],
        "a marker that is not replicated makes nothing stable"
    );
    assert!(!broker.is_complete(txn));
    broker.replicate(channel);
    assert_eq!(
        read(&broker, channel, 0),
        (expected(&[(0, "n"), (1, "t")]), 3)
    );
    assert_eq!(
        read(&broker, other, 0),
        (vec![], 0),
        "the markers of one transaction come one by one"
    );
    assert_eq!(broker.write_marker(txn, other), Some(1));
    assert!(broker.is_complete(txn));
    broker.replicate(other);
    assert_eq!(read(&broker, other, 0), (expected(&[(0, "o")]), 2));
    assert_eq!(broker.unreplicated().count(), 0);
}

#[test]
fn an_abort_waits_for_no_replication() {
    let (mut broker, channel) = one_topic(AppendMode::Interleaved);
    let txn = broker.begin();
    append(&mut broker, channel, "x", Some(txn));
    broker.end(txn, Outcome::Aborted).unwrap();
    assert_eq!(broker.committed_records(channel).count(), 0);
    broker.settle();
    assert_eq!(read(&broker, channel, 0), (vec![], 2));
}

#[test]
fn a_transaction_ends_once_and_takes_nothing_afterwards() {
    for mode in [AppendMode::Atomic, AppendMode::Interleaved] {
        let (mut broker, channel) = one_topic(mode);
        let txn = broker.begin();
        append(&mut broker, channel, "x", Some(txn));
        broker.end(txn, Outcome::Aborted).unwrap();
        let before = bounds(&broker, channel);
        let not_open = EndError::NotOpen { txn };
        assert_eq!(broker.end(txn, Outcome::Aborted), Err(not_open));
        assert_eq!(broker.end(txn, Outcome::Committed), Err(not_open));
        assert_eq!(broker.outcome(txn), Some(Outcome::Aborted));
        assert_eq!(
            broker.append(record(channel, "y"), Some(txn)),
            Err(AppendError::NotOpen { txn })
        );
        assert_eq!(bounds(&broker, channel), before);
    }
}

#[test]
fn a_transaction_of_another_broker_is_unknown() {
    let (mut broker, channel) = one_topic(AppendMode::Interleaved);
    let txn = SimBroker::new(AppendMode::Atomic).begin();
    assert_eq!(
        broker.append(record(channel, "x"), Some(txn)),
        Err(AppendError::NotOpen { txn })
    );
    assert_eq!(
        broker.end(txn, Outcome::Committed),
        Err(EndError::NotOpen { txn })
    );
    assert_eq!(broker.outcome(txn), None);
    assert_eq!(broker.write_marker(txn, channel), None);
    assert!(!broker.is_complete(txn));
}

#[test]
fn an_empty_transaction_leaves_no_marker() {
    let (mut broker, channel) = one_topic(AppendMode::Interleaved);
    let txn = broker.begin();
    assert!(!broker.is_complete(txn), "it is open");
    broker.end(txn, Outcome::Committed).unwrap();
    assert!(broker.is_complete(txn));
    assert_eq!(broker.pending_markers().count(), 0);
    assert_eq!(bounds(&broker, channel), [0; 4]);
}

#[test]
fn deletion_ends_at_the_last_stable_offset() {
    let (mut broker, channel) = one_topic(AppendMode::Atomic);
    append(&mut broker, channel, "a", None);
    append(&mut broker, channel, "b", None);
    let txn = broker.begin();
    append(&mut broker, channel, "t", Some(txn));
    for position in [-1, 3] {
        assert_eq!(
            broker.delete_records(channel, position),
            Err(ReadError::OutOfRange {
                channel,
                position,
                lowest: 0,
                highest: 2
            })
        );
    }
    assert_eq!(broker.delete_records(channel, 0), Ok(false));
    assert_eq!(broker.delete_records(channel, 1), Ok(true));
    assert_eq!(broker.delete_records(channel, 1), Ok(false));
    assert_eq!(broker.delete_records(channel, 0), Ok(false));
    assert_eq!(bounds(&broker, channel), [1, 2, 3, 3]);
    for position in [0, 4] {
        assert_eq!(
            broker.fetch(channel, position, 1),
            Err(ReadError::OutOfRange {
                channel,
                position,
                lowest: 1,
                highest: 3
            })
        );
    }
    assert_eq!(read(&broker, channel, 1), (expected(&[(1, "b")]), 2));

    broker.end(txn, Outcome::Committed).unwrap();
    assert_eq!(broker.delete_records(channel, 4), Ok(true));
    assert_eq!(bounds(&broker, channel), [4; 4]);
    assert_eq!(broker.committed_records(channel).count(), 0);
    assert_eq!(append(&mut broker, channel, "c", None), 4);
    assert_eq!(read(&broker, channel, 4), (expected(&[(4, "c")]), 5));
    assert_eq!(broker.census().truncations, 2);
}

#[test]
fn a_transaction_outlives_the_topics_that_it_wrote_to() {
    let mut broker = SimBroker::new(AppendMode::Interleaved);
    let kept = broker.create_topic("kept", 1).partition(0);
    let doomed = broker.create_topic("doomed", 2);
    let (decided, open, late) = (broker.begin(), broker.begin(), broker.begin());
    for txn in [decided, open, late] {
        append(&mut broker, kept, "k", Some(txn));
        append(&mut broker, doomed.partition(0), "d", Some(txn));
        append(&mut broker, doomed.partition(1), "d", Some(txn));
    }
    broker.replicate(kept);
    broker.replicate(doomed.partition(0));
    broker.replicate(doomed.partition(1));
    append(&mut broker, doomed.partition(0), "unreplicated", Some(open));
    broker.end(decided, Outcome::Committed).unwrap();
    broker.delete_topic("doomed").unwrap();
    broker
        .end(open, Outcome::Committed)
        .expect("what was lost with a topic is not waited for");
    assert_eq!(
        broker.pending_markers().collect::<Vec<_>>(),
        [(decided, kept), (open, kept)],
        "no marker goes to a topic that is gone"
    );

    let again = broker.create_topic("doomed", 1).partition(0);
    broker.end(late, Outcome::Aborted).unwrap();
    assert_eq!(
        broker
            .pending_markers()
            .filter(|(txn, _)| *txn == late)
            .map(|(_, channel)| channel)
            .collect::<BTreeSet<_>>(),
        BTreeSet::from([kept, again]),
        "a marker goes to the partition that has the name now, where there is one"
    );
    append(&mut broker, again, "n", None);
    broker.settle();
    for txn in [decided, open, late] {
        assert!(broker.is_complete(txn));
    }
    assert_eq!(read(&broker, kept, 0), (expected(&[(0, "k"), (1, "k")]), 6));
    assert_eq!(
        read(&broker, again, 0),
        (expected(&[(0, "n")]), 2),
        "the stray marker takes an offset and aborts nothing"
    );
    assert_eq!(broker.census().stray_markers, 1);
}

#[test]
fn the_census_tells_where_markers_and_aborted_runs_stand() {
    let mut broker = SimBroker::new(AppendMode::Atomic);
    let topic = broker.create_topic("shapes", 3);
    let (busy, aborted, plain) = (topic.partition(0), topic.partition(1), topic.partition(2));
    let run = |broker: &mut SimBroker, channel, outcome, count| {
        let txn = broker.begin();
        for _ in 0..count {
            append(broker, channel, "r", Some(txn));
        }
        broker.end(txn, outcome).unwrap();
    };
    // Head: two aborted transactions are one run. Then a record, a middle run, two records, a tail run.
    run(&mut broker, busy, Outcome::Aborted, 1);
    run(&mut broker, busy, Outcome::Aborted, 2);
    run(&mut broker, busy, Outcome::Committed, 1);
    run(&mut broker, busy, Outcome::Aborted, 1);
    run(&mut broker, busy, Outcome::Committed, 2);
    run(&mut broker, busy, Outcome::Aborted, 1);
    let behind_tail = bounds(&broker, busy)[1];
    broker.delete_records(busy, behind_tail).unwrap();
    // All aborted: at the head and at the tail.
    run(&mut broker, aborted, Outcome::Aborted, 1);
    append(&mut broker, plain, "n", None);
    let open = broker.begin();
    append(&mut broker, plain, "open", Some(open));
    append(&mut broker, plain, "behind", None);
    broker.begin();

    let census = Census {
        committed_records: 4,
        markers: 7,
        markers_between_records: 2,
        trailing_markers: 2,
        aborted_runs_at_head: 2,
        aborted_runs_in_middle: 1,
        aborted_runs_at_tail: 2,
        committed_transactions: 2,
        aborted_transactions: 5,
        open_transactions: 1,
        appended_behind_open: 1,
        stray_markers: 0,
        truncations: 1,
        recreations: 0,
        topics_by_partitions: [(3, 1)].into(),
    };
    assert_eq!(broker.census(), census);

    // Deletion takes nothing out of the counts; what was not stable was never seen.
    broker.delete_topic("shapes").unwrap();
    broker.create_topic("shapes", 1);
    let recreated = Census {
        recreations: 1,
        topics_by_partitions: [(1, 1), (3, 1)].into(),
        ..census
    };
    assert_eq!(broker.census(), recreated);
}
