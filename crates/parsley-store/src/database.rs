//! The map in its file.
//!
//! A batch has a number, which is written with it. When a commit fails, the database is opened anew and the number tells what became of
//! the batch: a failed sync may leave it in place, and then it stands.

use std::io;
use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use redb::{Durability, ReadableDatabase, TableDefinition};

use crate::{Batch, DatabaseError};

const ENTRIES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("log");
/// One row: the number of the last batch, and how many bytes the keys and values have that are there since.
const BATCHES: TableDefinition<'_, (), (u64, u64)> = TableDefinition::new("batches");

type Entries = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;
/// Takes the entries of a scan, key and value, until it breaks.
pub type Visitor<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;
type Opener = fn(&Path, usize) -> Result<redb::Database, redb::DatabaseError>;

/// How often a read is begun anew because what others did failed under it.
const ATTEMPTS: usize = 8;
/// A file that is smaller is left as it is.
const COMPACT_FROM_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// An open database. One handle at a time has its file open.
///
/// Every method fails with [`DatabaseError::Io`] when the system does, and with [`DatabaseError::Corrupt`] or [`DatabaseError::Panicked`] when the
/// file has what was never written there. After a failure the file is opened anew by the call that needs it.
pub struct Database {
    path: PathBuf,
    cache_bytes: usize,
    opener: Opener,
    handle: RwLock<Handle>,
    writes: Mutex<Writes>,
}

struct Handle {
    /// `None` after a failure, until it has been opened anew.
    open: Option<redb::Database>,
    /// How often it has been opened.
    openings: u64,
}

struct Writes {
    /// The number of the last batch that is known to be there.
    last: u64,
    /// The batch after it may be there or not.
    in_doubt: bool,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Makes a database where there is no file. Making the file's name durable is up to the caller. `cache_bytes` bounds what it keeps in
    /// memory, but for what is being written.
    ///
    /// # Errors
    ///
    /// When there is a file, or it cannot be made.
    pub fn create(path: &Path, cache_bytes: usize) -> Result<Self, DatabaseError> {
        drop(std::fs::File::create_new(path)?);
        Self::create_with(path, cache_bytes, open_or_create)
    }

    /// Opens a database, and checks all of its file: about a second for each GB, three where it is not in the system's cache. A file that
    /// is large and mostly free is made smaller.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is open already, or is damaged.
    pub fn open(path: &Path, cache_bytes: usize) -> Result<Self, DatabaseError> {
        Self::open_with(path, cache_bytes, open_file)
    }

    fn create_with(path: &Path, cache_bytes: usize, opener: Opener) -> Result<Self, DatabaseError> {
        let database = guarded(|| {
            let database = opener(path, cache_bytes)?;
            let transaction = begin_write(&database)?;
            transaction.open_table(ENTRIES)?;
            transaction.open_table(BATCHES)?.insert((), (0, 0))?;
            transaction.commit()?;
            Ok(database)
        })?;
        Ok(Self::of(path, cache_bytes, opener, database, 0))
    }

    fn open_with(path: &Path, cache_bytes: usize, opener: Opener) -> Result<Self, DatabaseError> {
        let (database, last) = guarded(|| {
            let mut database = opener(path, cache_bytes)?;
            let (last, used_bytes) = last_batch(&database)?;
            if is_mostly_free(path, used_bytes)? && database.compact().is_err() {
                // Whatever kept it from that need not keep it from working.
                drop(database);
                database = opener(path, cache_bytes)?;
            }
            Ok((database, last))
        })?;
        Ok(Self::of(path, cache_bytes, opener, database, last))
    }

    fn of(
        path: &Path,
        cache_bytes: usize,
        opener: Opener,
        database: redb::Database,
        last: u64,
    ) -> Self {
        Self {
            path: path.to_owned(),
            cache_bytes,
            opener,
            handle: RwLock::new(Handle {
                open: Some(database),
                openings: 1,
            }),
            writes: Mutex::new(Writes {
                last,
                in_doubt: false,
            }),
        }
    }

    /// The value of a key.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, DatabaseError> {
        self.read(|entries| Ok(entries.get(key)?.map(|value| copied(value.value()))))
    }

    /// Visits the keys that start with `prefix` and are at or above `from`, in key order, until the visitor breaks.
    ///
    /// The visitor must not use the database: a write that fails waits for all that read.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        visit: &mut Visitor<'_>,
    ) -> Result<(), DatabaseError> {
        self.scan_from(prefix, visit, |_| Ok(Some(copied(prefix.max(from)))))
    }

    /// Visits the last entry at or below `key` whose key starts with `prefix`, and what follows it, as [`Database::scan`] does. Nothing is
    /// visited when there is no such entry.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn scan_from_below(
        &self,
        prefix: &[u8],
        key: &[u8],
        visit: &mut Visitor<'_>,
    ) -> Result<(), DatabaseError> {
        self.scan_from(prefix, visit, |entries| {
            at_or_below(entries, prefix, key, |key, _| copied(key))
        })
    }

    fn scan_from(
        &self,
        prefix: &[u8],
        visit: &mut Visitor<'_>,
        first: impl Fn(&Entries) -> Result<Option<Bytes>, DatabaseError>,
    ) -> Result<(), DatabaseError> {
        // What the visitor panics with is not the library's.
        let mut panicked = None;
        let mut visited: Option<Vec<u8>> = None;
        let scanned = self.read(|entries| {
            let first = match visited {
                Some(_) => None,
                None => match first(entries)? {
                    None => return Ok(()),
                    first => first,
                },
            };
            // Begun anew it goes on behind what has been visited.
            let start = match (&first, &visited) {
                (Some(first), _) => Bound::Included(&first[..]),
                (None, Some(last)) => Bound::Excluded(&last[..]),
                (None, None) => Bound::Unbounded,
            };
            for entry in entries.range::<&[u8]>((start, Bound::Unbounded))? {
                let (key, value) = entry?;
                let (key, value) = (key.value(), value.value());
                if !key.starts_with(prefix) {
                    break;
                }
                match catch_unwind(AssertUnwindSafe(|| visit(key, value))) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => break,
                    Err(panic) => {
                        panicked = Some(panic);
                        break;
                    }
                }
                let last = visited.get_or_insert_default();
                last.clear();
                last.extend_from_slice(key);
            }
            Ok(())
        });
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
        scanned
    }

    /// The last entry at or below `key` whose key starts with `prefix`.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn at_or_below(
        &self,
        prefix: &[u8],
        key: &[u8],
    ) -> Result<Option<(Bytes, Bytes)>, DatabaseError> {
        self.read(|entries| {
            at_or_below(entries, prefix, key, |key, value| {
                (copied(key), copied(value))
            })
        })
    }

    /// Writes a batch: all of it is durable when this returns.
    ///
    /// # Errors
    ///
    /// With [`DatabaseError::InDoubt`], [`Database::resolve`] has to be asked before anything else is written. With any other, nothing
    /// of the batch is there, and the next write may succeed.
    pub fn write(&self, batch: &Batch) -> Result<(), DatabaseError> {
        let mut writes = self.writes();
        if writes.in_doubt {
            let error = io::Error::other("the write before it has not been resolved");
            return Err(DatabaseError::InDoubt(Box::new(error.into())));
        }
        // A database that cannot be opened takes nothing, so there is no doubt about that.
        self.with(|_| Ok(()))?;
        let number = writes.last + 1;
        let written = self.with(|database| {
            let (_, used_bytes) = last_batch(database)?;
            let transaction = begin_write(database)?;
            let used_bytes = apply(&transaction, batch, used_bytes)?;
            transaction
                .open_table(BATCHES)?
                .insert((), (number, used_bytes))?;
            transaction.commit()?;
            Ok(())
        });
        let Err(error) = written else {
            writes.last = number;
            return Ok(());
        };
        self.close(|_| true);
        writes.in_doubt = true;
        match self.settle(&mut writes) {
            Ok(true) => Ok(()),
            Ok(false) => Err(error),
            Err(_) => Err(DatabaseError::InDoubt(Box::new(error))),
        }
    }

    /// Writes a batch that is durable with the next [`Database::write`], and atomic: until then a crash leaves all of it or none, and none
    /// without those before it.
    ///
    /// # Errors
    ///
    /// When the file cannot be written. Then what was written since the last [`Database::write`] is gone.
    pub fn write_soon(&self, batch: &Batch) -> Result<(), DatabaseError> {
        let _writes = self.writes();
        let written = self.with(|database| {
            let (number, used_bytes) = last_batch(database)?;
            let mut transaction = database.begin_write()?;
            transaction.set_durability(Durability::None)?;
            let used_bytes = apply(&transaction, batch, used_bytes)?;
            transaction
                .open_table(BATCHES)?
                .insert((), (number, used_bytes))?;
            transaction.commit()?;
            Ok(())
        });
        if written.is_err() {
            self.close(|_| true);
        }
        written
    }

    /// What became of a write that was in doubt: whether its batch is there. `None` when no write is in doubt.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened; the write is in doubt still.
    pub fn resolve(&self) -> Result<Option<bool>, DatabaseError> {
        let mut writes = self.writes();
        if !writes.in_doubt {
            return Ok(None);
        }
        self.settle(&mut writes).map(Some)
    }

    fn settle(&self, writes: &mut Writes) -> Result<bool, DatabaseError> {
        // The file has been closed since. Opening it syncs it, so what is found in it now is durable, also where a sync failed before.
        let (found, _) = self.with(last_batch)?;
        if found != writes.last && found != writes.last + 1 {
            return Err(DatabaseError::Corrupt(format!(
                "batch {found} is the last one, after batch {}",
                writes.last
            )));
        }
        let is_there = found > writes.last;
        (writes.last, writes.in_doubt) = (found, false);
        Ok(is_there)
    }

    fn writes(&self) -> MutexGuard<'_, Writes> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(
        &self,
        mut read: impl FnMut(&Entries) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        for _ in 1..ATTEMPTS {
            match self.read_once(&mut read) {
                Err(DatabaseError::Interrupted) => {}
                done => return done,
            }
        }
        self.read_once(read)
    }

    fn read_once<T>(
        &self,
        read: impl FnOnce(&Entries) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        self.with(|database| read(&database.begin_read()?.open_table(ENTRIES)?))
    }

    fn with<T>(
        &self,
        run: impl FnOnce(&redb::Database) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let (done, openings) = loop {
            let handle = self.handle.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(database) = &handle.open {
                break (guarded(|| run(database)), handle.openings);
            }
            drop(handle);
            // Others may fail before this one gets to it.
            self.open_anew()?;
        };
        let is_lost = match &done {
            Ok(_) => false,
            // Once the system has failed, the library refuses everything until the file is opened anew.
            Err(
                DatabaseError::Io(_)
                | DatabaseError::Interrupted
                | DatabaseError::Panicked(_)
                | DatabaseError::Corrupt(_),
            ) => true,
            Err(DatabaseError::InDoubt(_) | DatabaseError::InUse | DatabaseError::Refused(_)) => {
                false
            }
        };
        if is_lost {
            self.close(|handle| handle.openings == openings);
        }
        done
    }

    /// Opens the file if a failure has closed it.
    fn open_anew(&self) -> Result<(), DatabaseError> {
        let mut handle = self.handle.write().unwrap_or_else(PoisonError::into_inner);
        if handle.open.is_none() {
            handle.open = Some(guarded(|| {
                Ok((self.opener)(&self.path, self.cache_bytes)?)
            })?);
            handle.openings += 1;
        }
        Ok(())
    }

    /// Closes the file, if it is the one that failed.
    fn close(&self, is_the_one: impl FnOnce(&Handle) -> bool) {
        let mut handle = self.handle.write().unwrap_or_else(PoisonError::into_inner);
        if !is_the_one(&handle) {
            return;
        }
        let closed = handle.open.take();
        // Whatever closing it fails with, opening it anew finds.
        let _ = guarded(|| {
            drop(closed);
            Ok(())
        });
    }
}

/// What is made of the last entry at or below `key` whose key starts with `prefix`.
fn at_or_below<T>(
    entries: &Entries,
    prefix: &[u8],
    key: &[u8],
    make: impl FnOnce(&[u8], &[u8]) -> T,
) -> Result<Option<T>, DatabaseError> {
    if key < prefix {
        return Ok(None);
    }
    let Some(entry) = entries.range(prefix..=key)?.next_back() else {
        return Ok(None);
    };
    let (key, value) = entry?;
    let (key, value) = (key.value(), value.value());
    Ok(key.starts_with(prefix).then(|| make(key, value)))
}

fn begin_write(database: &redb::Database) -> Result<redb::WriteTransaction, DatabaseError> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    // Of a commit in one phase, damage after a crash can leave the one before it, and nothing tells.
    transaction.set_two_phase_commit(true);
    Ok(transaction)
}

/// Changes what a batch says. Returns how many bytes are in use then.
fn apply(
    transaction: &redb::WriteTransaction,
    batch: &Batch,
    used_bytes: u64,
) -> Result<u64, DatabaseError> {
    let mut used_bytes = used_bytes;
    let mut entries = transaction.open_table(ENTRIES)?;
    for (key, value) in batch.iter() {
        let (before, after) = match value {
            Some(value) => {
                let before = entries.insert(&key[..], &value[..])?;
                (entry_bytes(key, before), key.len() + value.len())
            }
            None => (entry_bytes(key, entries.remove(&key[..])?), 0),
        };
        used_bytes = (used_bytes + after as u64).saturating_sub(before as u64);
    }
    Ok(used_bytes)
}

/// The number of the last batch, and how many bytes are in use since.
fn last_batch(database: &redb::Database) -> Result<(u64, u64), DatabaseError> {
    let found = database.begin_read()?.open_table(BATCHES)?.get(())?;
    let found = found.map(|found| found.value());
    found.ok_or_else(|| DatabaseError::Corrupt("the number of the last batch is missing".into()))
}

/// What an entry takes that was there under a key.
fn entry_bytes(key: &Bytes, value: Option<redb::AccessGuard<'_, &[u8]>>) -> usize {
    value.map_or(0, |value| key.len() + value.value().len())
}

/// Whether a file is large, and less than a quarter of it is in use. What is free is used again, but never given back.
fn is_mostly_free(path: &Path, used_bytes: u64) -> Result<bool, DatabaseError> {
    let file_bytes = std::fs::metadata(path)?.len();
    Ok(file_bytes >= COMPACT_FROM_BYTES && used_bytes < file_bytes / 4)
}

fn open_file(path: &Path, cache_bytes: usize) -> Result<redb::Database, redb::DatabaseError> {
    builder(cache_bytes).open(path)
}

/// The file is there, and empty.
fn open_or_create(path: &Path, cache_bytes: usize) -> Result<redb::Database, redb::DatabaseError> {
    builder(cache_bytes).create(path)
}

fn builder(cache_bytes: usize) -> redb::Builder {
    let mut builder = redb::Database::builder();
    // Reading checks nothing: whatever the file has is checked once, when it is opened.
    builder
        .set_cache_size(cache_bytes)
        .set_check_integrity_on_open(true);
    builder
}

/// Runs the library, whose panics are errors.
fn guarded<T>(run: impl FnOnce() -> Result<T, DatabaseError>) -> Result<T, DatabaseError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = (panic.downcast_ref::<String>().map(String::as_str))
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(DatabaseError::Panicked(
            text.unwrap_or("no message").to_owned(),
        ))
    })
}

fn copied(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

#[cfg(test)]
mod tests;
