//! Logs in directories: what is durable when, and what a disk that fails does to it.

use super::*;

/// A log in a directory that keeps nothing in memory of what that has, and the directory.
fn on_disk() -> (Log, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (opened(&dir), dir)
}

fn opened(dir: &tempfile::TempDir) -> Log {
    let config = LogConfig::default()
        .ids(Ids::Seeded(7))
        .time(TimeSource::from_fn(|| 1_000))
        .cache_bytes(0);
    Log::open(dir.path(), config).unwrap()
}

fn disk(log: &Log) -> &Arc<Disk> {
    log.shared.disk.as_ref().expect("it is in a directory")
}

fn set_full(log: &Log, full: bool) {
    let fault = if full { Fault::Full } else { Fault::None };
    disk(log).faults.set(fault);
}

fn full(log: &Log) -> StorageError {
    disk::tests::full(log.dir().unwrap())
}

/// The offsets at which a partition's chunks begin.
fn chunks(log: &Log, channel: Channel) -> Vec<Offset> {
    let mut bases = Vec::new();
    let prefix = disk::keys::chunks(channel);
    let all = disk(log).store(prefix);
    all.scan(b"", b"", &mut |key, _| {
        bases.push(Offset::from_be_bytes(key.try_into().unwrap()));
        Visit::Continue(())
    })
    .unwrap();
    bases
}

fn value(byte: u8, bytes: usize) -> Bytes {
    vec![byte; bytes].into()
}

#[test]
fn what_a_full_disk_does_not_take_has_not_happened() {
    let (log, dir) = on_disk();
    let channel = log.create_topic("t", 1).unwrap().partition(0);
    let producer = log.producer();
    producer.send(to("t", "before")).unwrap();
    let mut open = producer.begin();
    open.send(to("t", "open")).unwrap();

    set_full(&log, true);
    let error = full(&log);
    assert_eq!(producer.send(to("t", "no")), Err(error.clone().into()));
    let mut transaction = producer.begin();
    transaction.send(to("t", "no")).unwrap();
    assert_eq!(transaction.commit(), Err(error.clone()));
    let mut step = log.step();
    step.append(send(channel, "no")).unwrap();
    let step_changes = || changes("g", vec![(channel, 1)], put("o", "1"), put("f", "1"));
    assert_eq!(step.commit(step_changes()), Err(error.clone()));
    assert_eq!(log.create_topic("u", 1), Err(error.clone().into()));
    assert_eq!(log.delete_topic("t"), Err(error.clone().into()));
    assert_eq!(log.topics().len(), 1);
    // Nobody can read past what is open; and what failed leaves offsets behind, as an aborted run does.
    assert_eq!(read(&log, channel, 0), (seen(&[(0, "before")]), 1));
    assert_eq!(log.high_watermark(channel), Some(7));
    assert_eq!(log.committed_positions("g"), BTreeMap::new());
    assert_eq!(log.ordering_state("g", 0), Ok(None));

    set_full(&log, false);
    let mut step = log.step();
    step.append(send(channel, "step")).unwrap();
    step.commit(step_changes()).unwrap();
    open.commit().unwrap();
    producer.send(to("t", "after")).unwrap();
    let all = seen(&[(0, "before"), (1, "open"), (7, "step"), (10, "after")]);
    assert_eq!(read(&log, channel, 0), (all.clone(), 11));
    drop(producer);
    drop(log);
    let log = opened(&dir);
    assert_eq!(read(&log, channel, 0), (all, 11));
    assert_eq!(log.committed_positions("g"), [(channel, 1)].into());
    let ordering = log.ordering_state("g", 0).unwrap().unwrap();
    assert_eq!(ordering.get(b"o").unwrap().unwrap(), "1");
    let fold = log.fold_state("g", 0).unwrap().unwrap();
    assert_eq!(fold.get(b"f").unwrap().unwrap(), "1");
}

/// A transaction that goes on and on is written down as it grows, and what of it the disk does not take is not part of it.
#[test]
fn a_long_transaction_is_not_kept_in_memory() {
    let (log, dir) = on_disk();
    let channel = log.create_topic("t", 1).unwrap().partition(0);
    let mut transaction = log.producer().begin();
    let mebibyte = |byte| NewRecord::to("t").value(value(byte, 1 << 20));
    for byte in 0..9 {
        transaction.send(mebibyte(byte)).unwrap();
    }
    assert!(chunks(&log, channel).len() >= 4, "it was written down");
    assert!(log.lock().storage.partition(channel).unwrap().tail_start() >= 4);
    set_full(&log, true);
    let refused = (9..20)
        .map(|byte| transaction.send(mebibyte(byte)))
        .position(|sent| sent == Err(full(&log).into()))
        .unwrap() as u8
        + 9;
    set_full(&log, false);
    let last = transaction.send(mebibyte(200)).unwrap().offset;
    transaction.commit().unwrap();
    let bytes = |log: &Log| -> Vec<u8> {
        let records = log.consumer("t").unwrap().read_to_end().unwrap();
        records
            .iter()
            .map(|record| record.value.as_ref().unwrap()[0])
            .collect()
    };
    // Those behind the refused one were refused as well: there was no more room in memory.
    let expected: Vec<u8> = (0..refused).chain([200]).collect();
    assert_eq!(bytes(&log), expected);
    assert!(last >= Offset::from(refused));
    drop(log);
    assert_eq!(bytes(&opened(&dir)), expected);
}

/// What is known to the directory as open, and is withdrawn before or behind a restart, is withdrawn there.
#[test]
fn an_open_transaction_that_was_written_down_can_still_be_aborted() {
    for restarts in [false, true] {
        let (log, dir) = on_disk();
        let channel = log.create_topic("t", 1).unwrap().partition(0);
        let producer = log.producer();
        let mut aborted = producer.begin();
        let mut committed = producer.begin();
        aborted.send(to("t", "0")).unwrap();
        committed.send(to("t", "1")).unwrap();
        aborted.send(to("t", "2")).unwrap();
        producer.send(to("t", "3")).unwrap();
        assert_eq!(chunks(&log, channel), [0]);
        committed.send(to("t", "4")).unwrap();
        committed.commit().unwrap();
        let all = seen(&[(1, "1"), (3, "3"), (4, "4")]);
        if restarts {
            // As a process that is killed leaves it.
            std::mem::forget(aborted);
            let copy = tempfile::tempdir().unwrap();
            for file in std::fs::read_dir(dir.path()).unwrap() {
                let path = file.unwrap().path();
                std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
            }
            let log = opened(&copy);
            assert_eq!(read(&log, channel, 0), (all.clone(), 7));
            drop(log);
            assert_eq!(read(&opened(&copy), channel, 0), (all, 7));
        } else {
            aborted.abort();
            assert_eq!(read(&log, channel, 0), (all.clone(), 7));
            producer.send(to("t", "7")).unwrap();
            drop((producer, log));
            let all = [all, seen(&[(7, "7")])].concat();
            assert_eq!(read(&opened(&dir), channel, 0), (all, 8));
        }
    }
}

#[test]
fn what_retention_and_deletion_remove_leaves_the_directory() {
    let (log, dir) = on_disk();
    let config = TopicConfig::partitions(1).offsets_max(10);
    let kept = log.create_topic_with("kept", config).unwrap().partition(0);
    let gone = log.create_topic("gone", 2).unwrap();
    let producer = log.producer();
    for _ in 0..50 {
        producer.send(to("kept", "x")).unwrap();
        producer.send(to("gone", "x").partition(1)).unwrap();
    }
    // One save later at the latest.
    producer.send(to("kept", "x")).unwrap();
    let left = chunks(&log, kept);
    assert_eq!(
        (log.log_start(kept), left.len()),
        (Some(41), 11),
        "{left:?}"
    );
    log.delete_records(gone.partition(1), 48).unwrap();
    assert_eq!(chunks(&log, gone.partition(1)), [48, 49]);
    // A chunk that has more than was deleted stays whole.
    let mut transaction = producer.begin();
    for _ in 0..5 {
        transaction.send(to("gone", "y").partition(0)).unwrap();
    }
    transaction.commit().unwrap();
    log.delete_records(gone.partition(0), 3).unwrap();
    assert_eq!(chunks(&log, gone.partition(0)), [0]);
    drop((producer, log));

    let log = opened(&dir);
    assert_eq!(log.log_start(kept), Some(41));
    assert_eq!(log.log_start(gone.partition(1)), Some(48));
    assert_eq!(read(&log, gone.partition(0), 3).0.len(), 2);
    log.delete_records(gone.partition(0), 6).unwrap();
    assert_eq!(chunks(&log, gone.partition(0)), [] as [Offset; 0]);
    log.delete_topic("gone").unwrap();
    for prefix in disk::keys::all_of_topic(gone) {
        disk(&log)
            .store(prefix)
            .scan(b"", b"", &mut |key, _| panic!("{key:?} is left"))
            .unwrap();
    }
    assert_ne!(log.create_topic("gone", 1), Ok(gone), "a third one");
    drop(log);
    assert_eq!(opened(&dir).topics().len(), 2);
}

#[test]
fn commits_that_wait_together_are_written_together() {
    const SENDERS: u64 = 8;
    let (log, _dir) = on_disk();
    let channel = log.create_topic("t", 1).unwrap().partition(0);
    let writes = disk(&log).faults.writes();
    std::thread::scope(|scope| {
        let writing = log.to_write();
        let senders: Vec<_> = (0..SENDERS)
            .map(|_| scope.spawn(|| log.producer().send(to("t", "x")).unwrap()))
            .collect();
        // None is readable before it is durable.
        while log.high_watermark(channel) != Some(SENDERS as Offset) {
            std::thread::yield_now();
        }
        assert_eq!(log.last_stable_offset(channel), Some(0));
        drop(writing);
        for sender in senders {
            sender.join().unwrap();
        }
    });
    assert_eq!(log.last_stable_offset(channel), Some(SENDERS as Offset));
    assert_eq!(disk(&log).faults.writes() - writes, 1);
}

/// A commit that is durable once waited for the next write, which had begun before it heard.
#[test]
fn who_has_an_outcome_waits_for_no_other_write() {
    let (log, _dir) = on_disk();
    let channel = log.create_topic("t", 1).unwrap().partition(0);
    let faults = &disk(&log).faults;
    let until = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        let send = || scope.spawn(|| log.producer().send(to("t", "x")).unwrap());
        let sent = |count| until(&|| log.high_watermark(channel) == Some(count));
        let before = faults.writes();
        let writes = |count| until(&|| faults.writes() == before + count);
        faults.let_through(0);
        let first = send();
        writes(1);
        // These are in the second write, and those behind them in the third.
        let second: Vec<_> = (0..3).map(|_| send()).collect();
        sent(4);
        faults.let_through(1);
        first.join().unwrap();
        writes(2);
        let third: Vec<_> = (0..3).map(|_| send()).collect();
        sent(7);
        faults.let_through(1);
        for sender in second {
            sender.join().unwrap();
        }
        writes(3);
        assert!(third.iter().all(|sender| !sender.is_finished()));
        faults.let_through(None);
        for sender in third {
            sender.join().unwrap();
        }
        assert_eq!(faults.writes() - before, 3);
    });
}

/// The lock was held once while this was told, and waited for.
#[test]
fn a_save_that_finds_the_directory_damaged_fails_what_waits_for_it() {
    let (log, _dir) = on_disk();
    let channel = log.create_topic("t", 1).unwrap().partition(0);
    let mut transaction = log.producer().begin();
    transaction.send(to("t", "withdrawn")).unwrap();
    // The directory has both now.
    log.producer().send(to("t", "kept")).unwrap();
    let mut damage = parsley_store::Batch::default();
    damage.delete(disk::keys::chunk(channel, 0));
    disk(&log).write(&damage).unwrap();
    transaction.abort();
    for _ in 0..2 {
        let failed = log.producer().send(to("t", "no")).unwrap_err();
        assert!(
            matches!(failed, SendError::Storage(StorageError::Corrupt { .. })),
            "{failed}"
        );
    }
}

#[test]
fn what_is_deleted_while_it_is_read_is_found_to_be_gone() {
    let begin = |log: &Log, channel| {
        let state = log.lock();
        let limits = FetchLimits {
            records_max: 9,
            bytes_max: usize::MAX,
        };
        let begun = state.storage.begin_fetch(channel, 0, None, limits);
        (begun.unwrap().unwrap(), state.upheavals)
    };
    for deletes_topic in [false, true] {
        // Nothing is in memory.
        let log = logs().last().unwrap();
        let channel = log.create_topic("t", 1).unwrap().partition(0);
        for value in ["a", "b"] {
            log.producer().send(to("t", value)).unwrap();
        }
        let (fetch, upheavals) = begin(&log, channel);
        assert!(!log.has_changed_since(upheavals));
        assert_eq!(log.finish_fetch(fetch).unwrap().records.len(), 2);
        let (fetch, upheavals) = begin(&log, channel);
        match deletes_topic {
            true => log.delete_topic("t").unwrap(),
            false => log.delete_records(channel, 2).unwrap(),
        }
        log.finish_fetch(fetch).unwrap_err();
        assert!(log.has_changed_since(upheavals));
    }
}

/// Readers hold no lock while they read the directory, out of which retention takes what they are about to read.
#[test]
fn readers_and_retention_do_not_meet() {
    const BATCHES: u64 = 200;
    let log = logs().last().unwrap();
    let config = TopicConfig::partitions(1).offsets_max(30);
    let channel = log.create_topic_with("t", config).unwrap().partition(0);
    let read_all = || {
        let mut consumer = log.consumer("t").unwrap();
        let mut read = 0;
        while consumer.positions()[&0] < (BATCHES * 11) as Offset {
            match consumer.poll_now() {
                Ok(records) => {
                    for record in records {
                        let number = record.offset.to_string();
                        assert_eq!(record.value.as_deref(), Some(number.as_bytes()));
                        read += 1;
                    }
                }
                Err(ReadError::OutOfRange { log_start, .. }) => {
                    consumer.seek(0, log_start).unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
        read
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(read_all), scope.spawn(read_all)];
        for batch in 0..BATCHES {
            let mut transaction = log.producer().begin();
            for number in 0..10 {
                let number = (batch * 11 + number).to_string();
                transaction.send(NewRecord::to("t").value(number)).unwrap();
            }
            transaction.commit().unwrap();
        }
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
    assert_eq!(log.log_start(channel), Some((BATCHES * 11 - 30) as Offset));
}

/// One step's failure is not another's: the next save has what came while the disk was full.
#[test]
fn a_width_outlives_a_save_that_failed() {
    let (log, dir) = on_disk();
    log.create_topic("t", 1).unwrap();
    log.lock().storage.set_width("g", 3);
    set_full(&log, true);
    log.producer().send(to("t", "no")).unwrap_err();
    set_full(&log, false);
    log.producer().send(to("t", "yes")).unwrap();
    drop(log);
    let width = |log: &Log| log.lock().storage.group("g").and_then(|group| group.width);
    assert_eq!(width(&opened(&dir)), Some(3));
}

#[test]
fn a_fetch_ends_with_the_bytes_it_may_take() {
    for log in logs() {
        let channel = log.create_topic("t", 1).unwrap().partition(0);
        for bytes in [1_000, 10, 10, 10, 2_000, 10] {
            log.producer()
                .send(NewRecord::to("t").value(value(1, bytes)))
                .unwrap();
        }
        let fetched = |from| {
            let limits = FetchLimits {
                records_max: 4,
                bytes_max: 25,
            };
            let begun = log.lock().storage.begin_fetch(channel, from, None, limits);
            log.finish_fetch(begun.unwrap().unwrap()).unwrap().next
        };
        assert_eq!([0, 1, 3, 4, 5].map(fetched), [1, 3, 4, 5, 6]);
    }
}

/// The room of what retention has removed is used again.
#[test]
fn a_directory_does_not_grow_with_what_has_been_removed() {
    let (log, dir) = on_disk();
    let config = TopicConfig::partitions(1).offsets_max(20);
    log.create_topic_with("t", config).unwrap();
    let file_bytes = || {
        std::fs::metadata(dir.path().join("log.redb"))
            .unwrap()
            .len()
    };
    let send = |count: u8| {
        for byte in 0..count {
            let record = NewRecord::to("t").value(value(byte, 50_000));
            log.producer().send(record).unwrap();
        }
    };
    send(60);
    let once = file_bytes();
    send(120);
    assert_eq!(file_bytes(), once);
}

/// A sync that fails may have written all the same: then what was told to have failed has happened, once that can be told.
#[test]
fn a_write_in_doubt_is_taken_for_what_the_disk_has() {
    for writes in [true, false] {
        let (log, dir) = on_disk();
        let channel = log.create_topic("t", 1).unwrap().partition(0);
        let producer = log.producer();
        producer.send(to("t", "before")).unwrap();
        let faults = |fault| disk(&log).faults.set(fault);
        let step_changes = |value| changes("g", vec![(channel, 1)], put("o", value), put("f", "1"));

        faults(Fault::Silent { writes });
        let mut step = log.step();
        step.append(send(channel, "step")).unwrap();
        let told = step.commit(step_changes("1"));
        assert!(
            matches!(told, Err(StorageError::InDoubt { .. })),
            "{told:?}"
        );
        // It is neither there nor gone, and nothing else is written.
        assert_eq!(read(&log, channel, 0), (seen(&[(0, "before")]), 1));
        assert_eq!(log.committed_positions("g"), BTreeMap::new());
        assert_eq!(log.without_doubt(), Err(full(&log)));
        assert_eq!(producer.send(to("t", "no")), Err(full(&log).into()));
        assert_eq!(log.create_topic("u", 1), Err(full(&log).into()));
        assert_eq!(log.last_stable_offset(channel), Some(1));

        faults(Fault::None);
        log.without_doubt().unwrap();
        let mut all = seen(&[(0, "before")]);
        all.extend(writes.then(|| (1, "step".to_owned())));
        assert_eq!(read(&log, channel, 0), (all.clone(), 4));
        let positions = writes.then_some((channel, 1)).into_iter().collect();
        assert_eq!(log.committed_positions("g"), positions);
        assert_eq!(log.ordering_state("g", 0).unwrap().is_some(), writes);
        producer.send(to("t", "after")).unwrap();
        all.push((4, "after".to_owned()));
        assert_eq!(read(&log, channel, 0), (all.clone(), 5));
        drop((producer, log));
        let log = opened(&dir);
        assert_eq!(read(&log, channel, 0), (all, 5));
        assert_eq!(log.committed_positions("g"), positions);
    }
}

#[test]
fn a_topic_in_doubt_is_there_or_not_once_the_disk_can_tell() {
    for writes in [true, false] {
        let (log, dir) = on_disk();
        let kept = log.create_topic("kept", 1).unwrap();
        let faults = |fault| disk(&log).faults.set(fault);
        faults(Fault::Silent { writes });
        assert_eq!(log.create_topic("t", 2), Err(full(&log).into()));
        assert_eq!(log.topic_id("t"), None);
        faults(Fault::None);
        log.without_doubt().unwrap();
        let created = log.topic_id("t");
        assert_eq!(created.is_some(), writes);
        let again = log.create_topic("t", 2);
        assert_eq!(again.is_err(), writes);
        let created = created.or(again.ok());

        faults(Fault::Silent { writes });
        assert_eq!(log.delete_topic("kept"), Err(full(&log).into()));
        assert_eq!(log.topic_id("kept"), Some(kept));
        faults(Fault::None);
        // Whoever writes next finds out.
        let deleted = log.delete_topic("kept");
        assert_eq!(deleted.is_err(), writes, "{deleted:?}");
        assert_eq!(log.topic_id("kept"), None);
        drop(log);
        let log = opened(&dir);
        assert_eq!(
            log.topics().into_values().collect::<Vec<_>>(),
            Vec::from_iter(created)
        );
    }
}

/// Three commits waited for one save, which came to be in doubt: the first was told so, and the two behind it were taken for durable,
/// since all tickets up to the last were counted as settled.
#[test]
fn commits_that_wait_together_are_in_doubt_together() {
    for writes in [true, false] {
        let (log, _dir) = on_disk();
        let channel = log.create_topic("t", 1).unwrap().partition(0);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let writing = log.to_write();
            let senders: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| log.producer().send(to("t", "x"))))
                .collect();
            while log.high_watermark(channel) != Some(3) {
                std::thread::yield_now();
            }
            disk(&log).faults.set(Fault::Silent { writes });
            drop(writing);
            senders
                .into_iter()
                .map(|sender| sender.join().unwrap())
                .collect()
        });
        for outcome in outcomes {
            // The first is told what failed, the others that it is not known.
            assert!(
                matches!(outcome, Err(SendError::Storage(_))),
                "writes: {writes}, {outcome:?}"
            );
        }
        disk(&log).faults.set(Fault::None);
        log.without_doubt().unwrap();
        let records = read(&log, channel, 0).0.len();
        assert_eq!(records, if writes { 3 } else { 0 });
        // Nobody is left to ask what became of them.
        log.producer().send(to("t", "y")).unwrap();
        assert_eq!(log.lock().storage.unasked_failures(), 0);
    }
}

/// What waits for something to read is told when a doubt ends.
#[test]
fn a_reader_is_woken_when_a_doubt_ends() {
    let (log, _dir) = on_disk();
    log.create_topic("t", 1).unwrap();
    disk(&log).faults.set(Fault::Silent { writes: true });
    log.producer().send(to("t", "x")).unwrap_err();
    disk(&log).faults.set(Fault::None);
    let before = log.version();
    log.without_doubt().unwrap();
    assert!(log.version() > before);
}

/// A transaction's first record on a partition was refused, and what stayed behind of it kept readers from the partition until the log was
/// opened anew.
#[test]
fn a_partition_goes_on_when_a_transactions_only_record_there_was_refused() {
    let (log, dir) = on_disk();
    log.create_topic("a", 1).unwrap();
    let b = log.create_topic("b", 1).unwrap().partition(0);
    let producer = log.producer();
    let mut transaction = producer.begin();
    for byte in 0..4 {
        // Just as much as may be unsaved.
        let record = NewRecord::to("a").value(value(byte, (1 << 20) - 300));
        transaction.send(record).unwrap();
    }
    set_full(&log, true);
    assert_eq!(transaction.send(to("b", "refused")), Err(full(&log).into()));
    set_full(&log, false);
    transaction.commit().unwrap();
    producer.send(to("b", "after")).unwrap();
    assert_eq!(read(&log, b, 0).0, seen(&[(1, "after")]));
    drop((producer, log));
    assert_eq!(read(&opened(&dir), b, 0).0, seen(&[(1, "after")]));
}

/// A record was withdrawn that the directory had, another took its place in the transaction, and the directory never heard of that one: after a
/// crash it was readable.
#[test]
fn what_follows_a_withdrawn_record_is_open_in_the_directory_too() {
    let (log, dir) = on_disk();
    let t = log.create_topic("t", 1).unwrap().partition(0);
    log.create_topic("u", 1).unwrap();
    let producer = log.producer();
    let mut transaction = producer.begin();
    for byte in 0..3 {
        let record = NewRecord::to("t").value(value(byte, 1 << 20));
        transaction.send(record).unwrap();
    }
    disk(&log).faults.set(Fault::Silent { writes: true });
    let too_much = NewRecord::to("t").value(value(9, 2 << 20));
    transaction.send(too_much).unwrap_err();
    disk(&log).faults.set(Fault::None);
    log.without_doubt().unwrap();
    transaction.send(to("t", "uncommitted")).unwrap();
    producer.send(to("u", "x")).unwrap();
    // As a process that is killed leaves it.
    std::mem::forget(transaction);
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    assert_eq!(read(&opened(&copy), t, 0).0, []);
}

/// A record without a byte was taken for none, and any number of them stayed in memory.
#[test]
fn small_records_do_not_stay_in_memory() {
    let (log, _dir) = on_disk();
    let channel = log.create_topic("t", 1).unwrap().partition(0);
    let mut transaction = log.producer().begin();
    for _ in 0..40_000 {
        transaction.send(NewRecord::to("t")).unwrap();
    }
    assert!(log.lock().storage.partition(channel).unwrap().tail_start() > 10_000);
}
