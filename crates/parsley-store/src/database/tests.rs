use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use redb::StorageBackend;
use redb::backends::FileBackend;

use super::*;

/// What is to fail, by path.
static FAULTS: LazyLock<Mutex<HashMap<PathBuf, Arc<Mutex<Fault>>>>> = LazyLock::new(Mutex::default);

#[derive(Debug, Default)]
struct Fault {
    syncs: u64,
    sync_fails_at: u64,
    opening_fails: bool,
}

#[derive(Debug)]
struct Faulty(FileBackend, Arc<Mutex<Fault>>);

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        let mut fault = self.1.lock().unwrap();
        fault.syncs += 1;
        if fault.syncs == fault.sync_fails_at {
            return Err(io::Error::other("sync"));
        }
        self.0.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

fn fault(path: &Path) -> Arc<Mutex<Fault>> {
    Arc::clone(FAULTS.lock().unwrap().entry(path.to_owned()).or_default())
}

fn faulty(path: &Path, cache_bytes: usize) -> Result<redb::Database, redb::DatabaseError> {
    let fault = fault(path);
    if fault.lock().unwrap().opening_fails {
        return Err(redb::DatabaseError::Storage(redb::StorageError::Io(
            io::Error::other("open"),
        )));
    }
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap();
    #[allow(deprecated)]
    builder(cache_bytes).create_with_backend(Faulty(FileBackend::new(file)?, fault))
}

fn batch(of: &[(&str, Option<&str>)]) -> Batch {
    let mut batch = Batch::default();
    for (key, value) in of {
        batch.set(
            copied(key.as_bytes()),
            value.map(|value| copied(value.as_bytes())),
        );
    }
    batch
}

fn all(database: &Database) -> Vec<(String, String)> {
    let mut found = vec![];
    database
        .scan(b"", b"", &mut |k, v| {
            found.push((
                String::from_utf8(k.to_vec()).unwrap(),
                String::from_utf8(v.to_vec()).unwrap(),
            ));
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

#[test]
fn reads_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let database = Database::create(&path, 1 << 20).unwrap();
    assert!(matches!(
        Database::create(&path, 1 << 20),
        Err(DatabaseError::Io(_))
    ));
    assert!(matches!(
        Database::open(&path, 1 << 20),
        Err(DatabaseError::InUse)
    ));
    database
        .write(&batch(&[
            ("a1", Some("1")),
            ("a3", Some("3")),
            ("b1", Some("x")),
            ("c", Some("y")),
        ]))
        .unwrap();
    database.write(&batch(&[("c", None)])).unwrap();
    drop(database);
    let database = Database::open(&path, 1 << 20).unwrap();
    let last = |found: Option<(Bytes, Bytes)>| {
        found.map(|(key, _)| String::from_utf8(key.to_vec()).unwrap())
    };
    assert_eq!(
        last(database.at_or_below(b"a", b"a2").unwrap()).as_deref(),
        Some("a1")
    );
    assert_eq!(last(database.at_or_below(b"a", b"a0").unwrap()), None);
    assert_eq!(last(database.at_or_below(b"b", b"a").unwrap()), None);
    assert_eq!(last(database.at_or_below(b"a", b"z").unwrap()), None);
    let from_below = |prefix: &[u8], key: &[u8]| {
        let mut found = vec![];
        let visit = &mut |key: &[u8], _: &[u8]| {
            found.push(String::from_utf8(key.to_vec()).unwrap());
            ControlFlow::Continue(())
        };
        database.scan_from_below(prefix, key, visit).unwrap();
        found
    };
    assert_eq!(from_below(b"a", b"a2"), ["a1", "a3"]);
    assert_eq!(from_below(b"a", b"a3"), ["a3"]);
    assert_eq!(from_below(b"", b"b"), ["a3", "b1"]);
    for (prefix, key) in [("a", "a0"), ("a", "z"), ("b", "a"), ("c", "c")] {
        assert!(from_below(prefix.as_bytes(), key.as_bytes()).is_empty());
    }
    assert_eq!(database.get(b"b1").unwrap().unwrap(), "x");
    assert_eq!(all(&database).len(), 3);
}

#[test]
fn a_visitors_panic_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("log"), 1 << 20).unwrap();
    database.write(&batch(&[("a", Some("1"))])).unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        database.scan(b"", b"", &mut |_, _| panic!("mine"))
    }))
    .unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"mine"));
    assert_eq!(all(&database).len(), 1);
}

#[test]
fn a_failed_sync_says_what_became_of_the_batch() {
    let dir = tempfile::tempdir().unwrap();
    // A commit syncs twice: what it wrote, and that it is what counts.
    for (at, is_there) in [(1, false), (2, true)] {
        let path = dir.path().join(at.to_string());
        let database = Database::create_with(&path, 1 << 20, faulty).unwrap();
        database.write(&batch(&[("a", Some("1"))])).unwrap();
        let fault = fault(&path);
        {
            let mut fault = fault.lock().unwrap();
            fault.sync_fails_at = fault.syncs + at;
        }
        let written = database.write(&batch(&[("a", Some("2")), ("b", Some("2"))]));
        assert_eq!(written.is_ok(), is_there, "{written:?}");
        let found = all(&database);
        assert_eq!(found.len(), if is_there { 2 } else { 1 });
        assert_eq!(found[0].1, if is_there { "2" } else { "1" });
        database.write(&batch(&[("c", Some("3"))])).unwrap();
        let before = all(&database);
        drop(database);
        assert_eq!(all(&Database::open(&path, 1 << 20).unwrap()), before);
    }
}

#[test]
fn a_write_in_doubt_is_resolved_when_the_file_opens() {
    let dir = tempfile::tempdir().unwrap();
    for (at, is_there) in [(1, false), (2, true)] {
        let path = dir.path().join(at.to_string());
        let database = Database::create_with(&path, 1 << 20, faulty).unwrap();
        let fault = fault(&path);
        {
            let mut fault = fault.lock().unwrap();
            fault.sync_fails_at = fault.syncs + at;
            fault.opening_fails = true;
        }
        let b = batch(&[("a", Some("2"))]);
        assert!(matches!(database.write(&b), Err(DatabaseError::InDoubt(_))));
        assert!(matches!(database.write(&b), Err(DatabaseError::InDoubt(_))));
        assert!(matches!(database.resolve(), Err(DatabaseError::Io(_))));
        assert!(matches!(database.get(b"a"), Err(DatabaseError::Io(_))));
        fault.lock().unwrap().opening_fails = false;
        assert_eq!(database.resolve().unwrap(), Some(is_there));
        assert_eq!(database.resolve().unwrap(), None);
        assert_eq!(all(&database).len(), usize::from(is_there));
        database.write(&b).unwrap();
        assert_eq!(all(&database).len(), 1);
    }
}

/// What was removed is given back when the file is opened, and nothing else changes.
#[test]
fn a_file_that_is_mostly_free_is_made_smaller() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let database = Database::create(&path, 1 << 20).unwrap();
    let large = "x".repeat(100_000);
    let names: Vec<String> = (0..50).map(|number| format!("{number:02}")).collect();
    for name in &names {
        database.write(&batch(&[(name, Some(&large))])).unwrap();
    }
    // The last one stands far behind, with free room ahead of it.
    let removed: Vec<_> = names[..49].iter().map(|name| (&**name, None)).collect();
    database.write(&batch(&removed)).unwrap();
    let bytes = || std::fs::metadata(&path).unwrap().len();
    drop(database);
    let before = bytes();
    let database = Database::open(&path, 1 << 20).unwrap();
    assert!(bytes() < before / 4, "{} of {before}", bytes());
    assert_eq!(all(&database), [("49".to_owned(), large)]);
}

/// Such a read once failed with the write, although nothing was wrong with what it reads.
#[test]
fn a_read_under_which_a_write_fails_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    // Without a cache everything is read from the file.
    let database = Database::create_with(&path, 0, faulty).unwrap();
    let large = "x".repeat(1000);
    let names: Vec<String> = (0..100).map(|number| format!("{number:02}")).collect();
    let entries: Vec<_> = names.iter().map(|name| (&**name, Some(&*large))).collect();
    database.write(&batch(&entries)).unwrap();
    let before = all(&database);
    let mut visited = Vec::new();
    std::thread::scope(|scope| {
        let visit = &mut |key: &[u8], _: &[u8]| {
            if visited.len() == 5 {
                {
                    let fault = fault(&path);
                    let mut fault = fault.lock().unwrap();
                    fault.sync_fails_at = fault.syncs + 1;
                }
                // It ends when this has: the file is not closed while it is read.
                scope.spawn(|| {
                    let error = database.write(&batch(&[("never", Some("1"))])).unwrap_err();
                    assert!(matches!(error, DatabaseError::Io(_)), "{error}");
                });
                // Once it waits for this to end, the library has given up.
                while database.handle.try_read().is_ok() {
                    std::thread::yield_now();
                }
            }
            visited.push(String::from_utf8(key.to_vec()).unwrap());
            ControlFlow::Continue(())
        };
        database.scan(b"", b"", visit).unwrap();
    });
    assert_eq!(visited, names);
    assert_eq!(all(&database), before);
}

#[test]
fn a_file_that_is_no_longer_a_database_is_corrupt() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    drop(Database::create(&path, 1 << 20).unwrap());
    let whole = std::fs::read(&path).unwrap();
    // The magic number, and the format of the library's that a commit is in.
    for at in [0, 8, 64, 192] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let opened = Database::open(&path, 1 << 20);
        assert!(
            matches!(opened, Err(DatabaseError::Corrupt(_))),
            "{opened:?}"
        );
    }
    std::fs::write(&path, "").unwrap();
    let opened = Database::open(&path, 1 << 20);
    assert!(
        matches!(opened, Err(DatabaseError::Corrupt(_))),
        "{opened:?}"
    );
}

#[test]
fn how_much_is_in_use_is_known_without_looking() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let database = Database::create(&path, 1 << 20).unwrap();
    let used = |database: &Database| {
        let (last, used_bytes) = database.with(last_batch).unwrap();
        assert_eq!(last, database.writes().last);
        used_bytes
    };
    assert_eq!(used(&database), 0);
    let changes = [
        vec![("a", Some("12")), ("bc", Some("")), ("d", None)],
        vec![("a", Some("1234")), ("bc", None)],
        vec![("a", Some("1")), ("bc", Some("5"))],
    ];
    for changes in changes {
        database.write(&batch(&changes)).unwrap();
        let entries = all(&database).into_iter();
        let bytes: usize = entries.map(|(key, value)| key.len() + value.len()).sum();
        assert_eq!(used(&database), bytes as u64);
    }
    drop(database);
    assert_eq!(used(&Database::open(&path, 1 << 20).unwrap()), 5);
}

/// What is to be durable soon is read at once, and outlives the process with the next write; a failure takes all of it back.
#[test]
fn a_batch_that_is_durable_soon_is_durable_with_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let database = Database::create_with(&path, 1 << 20, faulty).unwrap();
    database.write(&batch(&[("a", Some("1"))])).unwrap();
    database.write_soon(&batch(&[("b", Some("2"))])).unwrap();
    database
        .write_soon(&batch(&[("a", None), ("c", Some("3"))]))
        .unwrap();
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(all(&database), [pair("b", "2"), pair("c", "3")]);
    // As a process that is killed leaves it.
    let copy = dir.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(
        all(&Database::open(&copy, 1 << 20).unwrap()),
        [pair("a", "1")]
    );
    let fault = fault(&path);
    {
        let mut fault = fault.lock().unwrap();
        fault.sync_fails_at = fault.syncs + 1;
    }
    database.write(&batch(&[("d", Some("4"))])).unwrap_err();
    assert_eq!(all(&database), [pair("a", "1")]);
    database.write_soon(&batch(&[("b", Some("2"))])).unwrap();
    database.write(&batch(&[("d", Some("4"))])).unwrap();
    drop(database);
    let last = [pair("a", "1"), pair("b", "2"), pair("d", "4")];
    assert_eq!(all(&Database::open(&path, 1 << 20).unwrap()), last);
}
