//! Directories, in what states they are found, and a disk that fails.

use std::fs;
use std::sync::Condvar;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::log::{Log, LogConfig, NewRecord};

/// A disk that does not work, on request.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    fault: Mutex<Fault>,
    /// Whether the batch in doubt was written.
    doubt: Mutex<Option<bool>>,
    writes: AtomicU64,
    /// How many writes may go on. Others wait.
    gate: (Mutex<Option<u64>>, Condvar),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// Nothing more is written.
    Full,
    /// Writing fails, and so does finding out what was written.
    Silent { writes: bool },
}

impl Faults {
    pub(crate) fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    /// How many batches were written, or should have been.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }

    /// Lets so many writes go on, and no more; all of them for `None`.
    pub(crate) fn let_through(&self, writes: impl Into<Option<u64>>) {
        *self.gate.0.lock().unwrap() = writes.into();
        self.gate.1.notify_all();
    }

    pub(super) fn at_write(&self, disk: &Disk, batch: &Batch) -> Option<WriteError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        let (gate, opens) = &self.gate;
        let is_shut = |left: &mut Option<u64>| *left == Some(0);
        let mut left = opens.wait_while(gate.lock().unwrap(), is_shut).unwrap();
        *left = left.map(|left| left - 1);
        drop(left);
        let error = full(disk.dir());
        match *self.fault.lock().unwrap() {
            Fault::None => None,
            Fault::Full => Some(WriteError::NotWritten(error)),
            Fault::Silent { writes } => {
                assert_eq!(
                    self.doubt.lock().unwrap().replace(writes),
                    None,
                    "nothing is written before a doubt is resolved"
                );
                if writes {
                    disk.database.write(batch).unwrap();
                }
                Some(WriteError::InDoubt(error))
            }
        }
    }

    pub(super) fn at_resolve(&self, dir: &Path) -> Option<Result<bool, StorageError>> {
        let mut doubt = self.doubt.lock().unwrap();
        doubt.as_ref()?;
        match *self.fault.lock().unwrap() {
            Fault::Silent { .. } => Some(Err(full(dir))),
            _ => doubt.take().map(Ok),
        }
    }
}

/// What such a disk says.
pub(crate) fn full(dir: &Path) -> StorageError {
    StorageError::Full {
        dir: dir.to_owned(),
        reason: "the test says so".to_owned(),
    }
}

fn open(dir: &Path) -> Result<Log, OpenError> {
    Log::open(dir, LogConfig::default())
}

/// A directory with a log that has one record.
fn made() -> tempfile::TempDir {
    let parent = tempfile::tempdir().unwrap();
    let log = open(&parent.path().join("some/data")).unwrap();
    log.create_topic("orders", 1).unwrap();
    log.producer()
        .send(NewRecord::to("orders").value("3 apples"))
        .unwrap();
    parent
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|file| {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(path).unwrap())
        })
        .filter(|(name, _)| name != "LOCK")
        .collect();
    files.sort();
    files
}

#[test]
fn one_handle_has_a_directory_open_and_the_next_is_told_who() {
    let parent = made();
    let dir = parent.path().join("some/data");
    let log = open(&dir).unwrap();
    let clone = log.clone();
    let refused = open(&dir).unwrap_err();
    assert_eq!(
        refused,
        OpenError::InUse {
            dir: dir.clone(),
            process: Some(std::process::id())
        }
    );
    drop(log);
    assert_eq!(
        open(&dir).unwrap_err(),
        refused,
        "a clone has it open still"
    );
    drop(clone);
    let log = open(&dir).unwrap();
    assert_eq!(log.dir(), Some(&*dir));
    assert_eq!(
        log.consumer("orders").unwrap().read_to_end().unwrap().len(),
        1
    );
    assert_eq!(Log::default().dir(), None);
}

#[test]
fn a_directory_of_something_else_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("photo.jpg"), "a photo").unwrap();
    assert_eq!(
        open(dir.path()).unwrap_err(),
        OpenError::Foreign {
            dir: dir.path().to_owned(),
            found: "photo.jpg".to_owned()
        }
    );
    assert_eq!(
        files(dir.path()),
        [("photo.jpg".to_owned(), b"a photo".to_vec())]
    );
    assert!(!dir.path().join("LOCK").exists());
    let file = dir.path().join("photo.jpg");
    assert!(matches!(open(&file), Err(OpenError::Io { path, .. }) if path == file));
}

#[test]
fn a_format_that_this_build_does_not_know_is_refused() {
    for (text, found) in [
        ("parsley embedded log, format 2\n", "2"),
        ("parsley embedded log, format 1.5", "1.5"),
        ("something else", "\"something else\""),
        ("", "\"\""),
    ] {
        let parent = made();
        let dir = parent.path().join("some/data");
        fs::write(dir.join("FORMAT"), text).unwrap();
        let before = files(&dir);
        assert_eq!(
            open(&dir).unwrap_err(),
            OpenError::Format {
                dir: dir.clone(),
                found: found.to_owned(),
                expected: 1
            }
        );
        assert_eq!(files(&dir), before);
    }
}

/// Whatever a crash leaves of a directory that is being made: it had no log yet, and is made.
#[test]
fn a_directory_that_was_not_finished_is_made() {
    let whole = made();
    let whole = files(&whole.path().join("some/data"));
    let database = whole.iter().find(|(name, _)| name == "log.redb").unwrap();
    let half = database.1[..database.1.len() / 2].to_vec();
    for left in [
        vec![],
        vec![("LOCK", vec![])],
        vec![("LOCK", b"77".to_vec()), ("UNFINISHED", vec![])],
        vec![("UNFINISHED", vec![]), ("log.redb", vec![])],
        vec![("UNFINISHED", vec![]), ("log.redb", half)],
        vec![
            ("UNFINISHED", vec![]),
            ("log.redb", database.1.clone()),
            ("FORMAT.new", b"parsley".to_vec()),
        ],
    ] {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in &left {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        let log = open(dir.path()).unwrap();
        assert_eq!(log.topics().len(), 0);
        log.create_topic("orders", 1).unwrap();
        drop(log);
        let names: Vec<String> = files(dir.path())
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["FORMAT", "log.redb"]);
        assert_eq!(open(dir.path()).unwrap().topics().len(), 1);
    }
}

/// What is missing was there once: nothing is made in its place.
#[test]
fn a_directory_that_lost_a_file_is_damaged() {
    for lost in ["FORMAT", "log.redb"] {
        let parent = made();
        let dir = parent.path().join("some/data");
        fs::remove_file(dir.join(lost)).unwrap();
        let before = files(&dir);
        let refused = open(&dir).unwrap_err();
        assert!(matches!(refused, OpenError::Storage(_)), "{refused}");
        assert_eq!(files(&dir), before);
    }
    // The crash that leaves this came after everything was there: it goes, or it would have the log made anew were FORMAT lost later.
    let parent = made();
    let dir = parent.path().join("some/data");
    fs::write(dir.join("UNFINISHED"), "").unwrap();
    assert_eq!(open(&dir).unwrap().topics().len(), 1);
    assert!(!dir.join("UNFINISHED").exists());
}

#[test]
fn a_description_that_makes_no_sense_is_damage() {
    let channel = |log: &Log| log.topic_id("orders").unwrap().partition(0);
    let spoil = |spoil: &dyn Fn(&Log, &mut Batch)| {
        let parent = made();
        let dir = parent.path().join("some/data");
        let log = open(&dir).unwrap();
        let mut batch = Batch::default();
        spoil(&log, &mut batch);
        log.shared.disk.as_ref().unwrap().write(&batch).unwrap();
        drop(log);
        match open(&dir) {
            Err(OpenError::Storage(StorageError::Corrupt { found, .. })) => found,
            other => panic!("{other:?}"),
        }
    };
    let put = |key: Bytes, value: Bytes| {
        move |_: &Log, batch: &mut Batch| batch.put(key.clone(), value.clone())
    };
    let found = spoil(&put("pyz".into(), "".into()));
    assert_eq!(found, "key pyz: it is no key of a log");
    let found = spoil(&put(keys::group("g"), "".into()));
    assert!(
        found.ends_with("found 0 bytes that are no number of tasks"),
        "{found}"
    );
    let found = spoil(&|log, batch| {
        batch.put(keys::partition(channel(log)), values::range(0, 2));
    });
    assert!(
        found.contains("end at offset 1, and its high watermark is 2"),
        "{found}"
    );
    let found = spoil(&|log, batch| batch.delete(keys::partition(channel(log))));
    assert!(found.ends_with("are missing"), "{found}");
    let found = spoil(&|log, batch| batch.delete(keys::chunk(channel(log), 0)));
    assert!(
        found.contains("end at offset 0, and its high watermark is 1"),
        "{found}"
    );
    let found = spoil(&|log, batch| {
        let other = TopicId::of_name("other").partition(0);
        batch.put(keys::partition(other), values::range(0, 0));
        batch.put(keys::partition(channel(log)), values::range(0, 1));
    });
    assert_eq!(found, "offsets of a partition of no topic");
    let found = spoil(&|log, batch| {
        let same = values::TopicValue {
            name: "orders".to_owned(),
            partitions: 1,
            offsets_max: None,
        };
        let _ = log;
        batch.extend(values::creation(TopicId::of_name("other"), &same, 2));
    });
    assert_eq!(found, "two topics of the name orders");
    let found = spoil(&|log, batch| {
        let id = crate::log::partition::TransactionId(3);
        let other = channel(log).topic.partition(1);
        batch.put(keys::open(other, id), values::offsets(&[0]));
    });
    assert!(found.ends_with("which is no partition"), "{found}");
    // Behind the highest offset there is, the marker of the transaction that was left open has no place: a debug build panicked.
    let id = crate::log::partition::TransactionId(3);
    let found = spoil(&|log, batch| {
        let channel = channel(log);
        batch.delete(keys::chunk(channel, 0));
        batch.put(keys::chunk(channel, i64::MAX - 1), Bytes::from_static(&[2]));
        batch.put(keys::partition(channel), values::range(0, i64::MAX));
        batch.put(keys::open(channel, id), values::offsets(&[i64::MAX - 1]));
    });
    assert!(
        found.ends_with(&format!("at offset {} is missing", i64::MAX)),
        "{found}"
    );
    // A run of more offsets than there are entries was written out offset by offset before the first was looked for, and took all memory.
    let end = 1 << 60;
    let all_but_one = [i64::to_be_bytes(0), i64::to_be_bytes(end - 1)].concat();
    let spoiled = |log_start| {
        let all_but_one = all_but_one.clone();
        move |log: &Log, batch: &mut Batch| {
            let channel = channel(log);
            batch.delete(keys::chunk(channel, 0));
            batch.put(keys::chunk(channel, end - 1), Bytes::from_static(&[2]));
            batch.put(keys::partition(channel), values::range(log_start, end));
            batch.put(keys::open(channel, id), all_but_one.clone().into());
        }
    };
    let found = spoil(&spoiled(0));
    assert!(found.ends_with("at offset 0 is missing"), "{found}");
    // Where all of it was below the log start, which is no damage, it took all time.
    let parent = made();
    let dir = parent.path().join("some/data");
    let log = open(&dir).unwrap();
    let mut batch = Batch::default();
    spoiled(end - 1)(&log, &mut batch);
    log.shared.disk.as_ref().unwrap().write(&batch).unwrap();
    drop(log);
    assert!(open(&dir).is_ok());
}
