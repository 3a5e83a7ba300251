//! The embedded database: one ordered map from bytes to bytes, changed by atomic batches that are durable when they are written.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;
use redb::{Durability, ReadableDatabase, TableDefinition};

use super::values::Batch;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("log");

/// A file that is smaller is left as it is.
const COMPACT_FROM_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// The database failed.
#[derive(Debug)]
pub(super) enum DatabaseError {
    /// The system failed to read or to write.
    Io(io::Error),
    /// The file has something that was never written there.
    Corrupt(String),
}

/// An open database.
pub(super) struct Database {
    path: PathBuf,
    cache_bytes: usize,
    /// `None` after a failure, until it has been opened anew: what had been written stands, the write that failed does not.
    open: RwLock<Option<redb::Database>>,
}

impl Database {
    /// Makes a database where there is none.
    pub(super) fn create(path: &Path, cache_bytes: usize) -> Result<Self, DatabaseError> {
        let database = builder(cache_bytes).create(path)?;
        let transaction = database.begin_write()?;
        transaction.open_table(TABLE)?;
        transaction.commit()?;
        Ok(Self::of(path, cache_bytes, database))
    }

    /// Opens a database, and makes its file smaller when little of it is in use.
    pub(super) fn open(path: &Path, cache_bytes: usize) -> Result<Self, DatabaseError> {
        let mut database = builder(cache_bytes).open(path)?;
        if is_mostly_free(path, &database)? && database.compact().is_err() {
            // Whatever kept it from that need not keep it from working.
            drop(database);
            database = builder(cache_bytes).open(path)?;
        }
        Ok(Self::of(path, cache_bytes, database))
    }

    fn of(path: &Path, cache_bytes: usize, database: redb::Database) -> Self {
        Self {
            path: path.to_owned(),
            cache_bytes,
            open: RwLock::new(Some(database)),
        }
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Bytes>, DatabaseError> {
        self.read(|table| {
            Ok(table
                .get(key)?
                .map(|value| Bytes::copy_from_slice(value.value())))
        })
    }

    /// Visits the keys that start with `prefix` and are at or above `from`, in key order, until the visitor breaks.
    pub(super) fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], Bytes) -> ControlFlow<()>,
    ) -> Result<(), DatabaseError> {
        self.read(|table| {
            for entry in table.range(prefix.max(from)..)? {
                let (key, value) = entry?;
                if !key.value().starts_with(prefix)
                    || visit(key.value(), Bytes::copy_from_slice(value.value())).is_break()
                {
                    break;
                }
            }
            Ok(())
        })
    }

    /// The last entry at or below `key` whose key starts with `prefix`.
    pub(super) fn at_or_below(
        &self,
        prefix: &[u8],
        key: &[u8],
    ) -> Result<Option<(Bytes, Bytes)>, DatabaseError> {
        self.read(|table| {
            let Some(entry) = table.range(prefix..=key)?.next_back() else {
                return Ok(None);
            };
            let (key, value) = entry?;
            Ok(key.value().starts_with(prefix).then(|| {
                (
                    Bytes::copy_from_slice(key.value()),
                    Bytes::copy_from_slice(value.value()),
                )
            }))
        })
    }

    /// Writes a batch: all of it is durable when this returns, or nothing of it is.
    pub(super) fn write(&self, batch: &Batch) -> Result<(), DatabaseError> {
        let written = self.with(|database| {
            let mut transaction = database.begin_write()?;
            transaction.set_durability(Durability::Immediate)?;
            {
                let mut table = transaction.open_table(TABLE)?;
                for (key, value) in batch.iter() {
                    match value {
                        Some(value) => drop(table.insert(&key[..], &value[..])?),
                        None => drop(table.remove(&key[..])?),
                    }
                }
            }
            transaction.commit()?;
            Ok(())
        });
        if written.is_err() {
            self.close();
        }
        written
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&redb::ReadOnlyTable<&[u8], &[u8]>) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        self.with(|database| read(&database.begin_read()?.open_table(TABLE)?))
    }

    fn with<T>(
        &self,
        run: impl FnOnce(&redb::Database) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let mut open = self.is_open();
        if open.is_none() {
            drop(open);
            self.reopen()?;
            open = self.is_open();
        }
        match &*open {
            Some(database) => run(database),
            None => Err(DatabaseError::Io(io::Error::other(
                "the database was closed by a failure",
            ))),
        }
    }

    fn is_open(&self) -> RwLockReadGuard<'_, Option<redb::Database>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn reopen(&self) -> Result<(), DatabaseError> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if open.is_none() {
            *open = Some(builder(self.cache_bytes).open(&self.path)?);
        }
        Ok(())
    }
}

/// Whether a file is large, and less than a quarter of it is in use. What is free is used again, but never given back.
fn is_mostly_free(path: &Path, database: &redb::Database) -> Result<bool, DatabaseError> {
    let file_bytes = std::fs::metadata(path).map_err(DatabaseError::Io)?.len();
    if file_bytes < COMPACT_FROM_BYTES {
        return Ok(false);
    }
    let stats = database.begin_write()?.stats()?;
    let used_bytes = stats.stored_bytes() + stats.metadata_bytes();
    Ok(used_bytes < file_bytes / 4)
}

fn builder(cache_bytes: usize) -> redb::Builder {
    let mut builder = redb::Database::builder();
    // Reading checks nothing: whatever the file has is checked once, when it is opened.
    builder
        .set_cache_size(cache_bytes)
        .set_check_integrity_on_open(true);
    builder
}

impl<E: Into<redb::Error>> From<E> for DatabaseError {
    fn from(error: E) -> Self {
        match error.into() {
            redb::Error::Io(error) => Self::Io(error),
            redb::Error::Corrupted(found) => Self::Corrupt(found),
            other => Self::Corrupt(other.to_string()),
        }
    }
}
