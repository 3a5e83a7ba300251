//! A log's directory: what it holds, and how it is read and written.
//!
//! `LOCK` keeps other processes out, `FORMAT` says how to read the rest, and the database has everything in one ordered map
//! ([`keys`], [`values`], [`entries`]). A batch of changes is atomic, and durable when [`Disk::write`] returns.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use parsley_core::{Channel, Offset, StoreError, TopicId, Visit};
use parsley_store::{Batch, Database, DatabaseError, Visitor};

use super::partition::{Entry, FetchLimits, Fetched, record_bytes};

pub(crate) mod directory;
pub(crate) mod entries;
mod error;
pub(crate) mod keys;
mod load;
pub(crate) mod values;

pub(crate) use error::WriteError;
pub use error::{OpenError, StorageError};
pub(crate) use load::Loaded;

use directory::Directory;
use entries::{Chunk, CorruptChunk, RawEntry};

/// An open directory.
pub(crate) struct Disk {
    database: Database,
    /// Who holds it may write.
    writing: Mutex<()>,
    // Behind the database, which is closed before anybody else may open it.
    directory: Directory,
    #[cfg(test)]
    pub(crate) faults: tests::Faults,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk")
            .field("dir", &self.dir())
            .finish_non_exhaustive()
    }
}

impl Disk {
    /// Opens a directory, or makes one. Transactions that were open when it was left are aborted.
    pub(crate) fn open(dir: &Path, cache_bytes: usize) -> Result<(Self, Loaded), OpenError> {
        let directory = Directory::lock(dir)?;
        let database = directory.database(|path, is_new| {
            let opened = match is_new {
                true => Database::create(path, cache_bytes),
                false => Database::open(path, cache_bytes),
            };
            opened.map_err(|error| StorageError::of(dir, error))
        })?;
        let disk = Self {
            database,
            writing: Mutex::default(),
            directory,
            #[cfg(test)]
            faults: tests::Faults::default(),
        };
        let loaded = disk.load()?;
        Ok((disk, loaded))
    }

    pub(crate) fn dir(&self) -> &Path {
        self.directory.path()
    }

    /// Waits until nobody else writes. Taken before the log's lock, never while holding it.
    pub(crate) fn to_write(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes changes durable: all of them, or none when it fails, unless that is in doubt.
    pub(crate) fn write(&self, batch: &Batch) -> Result<(), WriteError> {
        #[cfg(test)]
        if let Some(failure) = self.faults.at_write(self, batch) {
            return Err(failure);
        }
        self.database.write(batch).map_err(|error| {
            let is_in_doubt = matches!(error, DatabaseError::InDoubt(_));
            let error = StorageError::of(self.dir(), error);
            match is_in_doubt {
                true => WriteError::InDoubt(error),
                false => WriteError::NotWritten(error),
            }
        })
    }

    /// Whether the batch that was in doubt is there.
    pub(crate) fn resolve(&self) -> Result<bool, StorageError> {
        #[cfg(test)]
        if let Some(resolved) = self.faults.at_resolve(self.dir()) {
            return resolved;
        }
        let resolved = self.database.resolve();
        // With no batch in doubt there is none that is there.
        resolved
            .map(|is_there| is_there.unwrap_or(false))
            .map_err(|error| StorageError::of(self.dir(), error))
    }

    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        self.database
            .scan(prefix, from, visit)
            .map_err(|error| StorageError::of(self.dir(), error))
    }

    /// The state of a task, under the keys that begin so.
    pub(crate) fn store(self: &Arc<Self>, prefix: Vec<u8>) -> DiskStore {
        DiskStore {
            disk: Arc::clone(self),
            prefix,
        }
    }

    /// The changes that remove all there is about a topic, but how many of its name there have been.
    pub(crate) fn removal(&self, id: TopicId) -> Result<Batch, StorageError> {
        let mut batch = Batch::default();
        for prefix in keys::all_of_topic(id) {
            self.scan(&prefix, &prefix, &mut |key, _| {
                batch.delete(Bytes::copy_from_slice(key));
                ControlFlow::Continue(())
            })?;
        }
        Ok(batch)
    }

    /// Reads records of a partition on from what was fetched, up to `end`, all of which was saved. Withdrawn ones are passed.
    pub(crate) fn fetch(
        &self,
        channel: Channel,
        fetched: &mut Fetched,
        end: Offset,
        limits: FetchLimits,
        withdrawn: &BTreeSet<Offset>,
    ) -> Result<(), StorageError> {
        let (prefix, from) = (keys::chunks(channel), keys::chunk(channel, fetched.next));
        let mut ended = Ok(false);
        let scanned = self
            .database
            .scan_from_below(&prefix, &from, &mut |key, value| {
                let base = keys::chunk_base(key).filter(|base| *base <= fetched.next);
                let Some(base) = base else {
                    return ControlFlow::Break(());
                };
                ended = take(
                    Chunk::new(channel, base, value),
                    fetched,
                    end,
                    limits,
                    withdrawn,
                )
                .map_err(|error| self.corrupt_chunk(channel, base, &error));
                match ended {
                    Ok(false) => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                }
            });
        scanned.map_err(|error| StorageError::of(self.dir(), error))?;
        match ended {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.missing(channel, fetched.next)),
            Err(error) => Err(error),
        }
    }

    /// The chunk that has an offset, with its key.
    fn chunk_at(&self, channel: Channel, offset: Offset) -> Result<(Bytes, Bytes), StorageError> {
        let (prefix, key) = (keys::chunks(channel), keys::chunk(channel, offset));
        let found = self
            .database
            .at_or_below(&prefix, &key)
            .map_err(|error| StorageError::of(self.dir(), error))?;
        found.ok_or_else(|| self.missing(channel, offset))
    }

    /// The changes that withdraw records.
    pub(crate) fn rewritten(
        &self,
        channel: Channel,
        offsets: &BTreeSet<Offset>,
    ) -> Result<Batch, StorageError> {
        let mut batch = Batch::default();
        let mut left = offsets.iter().copied().peekable();
        while let Some(&offset) = left.peek() {
            let (key, value) = self.chunk_at(channel, offset)?;
            let base = keys::chunk_base(&key).ok_or_else(|| self.missing(channel, offset))?;
            let corrupt = |error| self.corrupt_chunk(channel, base, &error);
            let mut chunk = Chunk::new(channel, base, &value);
            let mut rewritten = Vec::with_capacity(value.len());
            while let Some(entry) = chunk.next_entry().map_err(corrupt)? {
                let at = chunk.next_offset() - 1;
                let is_withdrawn = left.next_if_eq(&at).is_some();
                entries::write(
                    &mut rewritten,
                    if is_withdrawn {
                        &Entry::Aborted
                    } else {
                        &entry
                    },
                );
            }
            if left.peek() == Some(&offset) {
                return Err(self.missing(channel, offset));
            }
            // Little of it is left, and many may wait to be written.
            rewritten.shrink_to_fit();
            batch.put(key, rewritten.into());
        }
        Ok(batch)
    }

    /// The changes that remove the chunks of which nothing is left at or above a log start.
    pub(crate) fn chunks_below(
        &self,
        channel: Channel,
        log_start: Offset,
    ) -> Result<Batch, StorageError> {
        let prefix = keys::chunks(channel);
        let mut batch = Batch::default();
        let mut before: Option<(Bytes, Bytes)> = None;
        let mut is_passed = false;
        self.scan(&prefix, &prefix, &mut |key, value| {
            is_passed = keys::chunk_base(key).is_none_or(|base| base > log_start);
            if is_passed {
                return ControlFlow::Break(());
            }
            let this = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
            if let Some((key, _)) = before.replace(this) {
                batch.delete(key);
            }
            ControlFlow::Continue(())
        })?;
        // The last one that begins at or below the log start goes if it ends there as well.
        if let Some((key, value)) = before {
            let base = keys::chunk_base(&key).unwrap_or(0);
            let end = Chunk::new(channel, base, &value)
                .end()
                .map_err(|error| self.corrupt_chunk(channel, base, &error))?;
            if end <= log_start {
                batch.delete(key);
            }
        }
        Ok(batch)
    }

    fn corrupt_chunk(&self, channel: Channel, base: Offset, error: &CorruptChunk) -> StorageError {
        let found = format!("the entries of {channel} from offset {base} on: {error}");
        StorageError::corrupt(self.dir(), found)
    }

    fn missing(&self, channel: Channel, offset: Offset) -> StorageError {
        let found = format!("the entry of {channel} at offset {offset} is missing");
        StorageError::corrupt(self.dir(), found)
    }
}

/// Takes what comes next out of a chunk. Returns whether that was all there is to take.
fn take(
    mut chunk: Chunk<'_>,
    fetched: &mut Fetched,
    end: Offset,
    limits: FetchLimits,
    withdrawn: &BTreeSet<Offset>,
) -> Result<bool, CorruptChunk> {
    while fetched.next < end {
        let at = chunk.next_offset();
        let Some(entry) = chunk.next_raw()? else {
            return Ok(false);
        };
        if at < fetched.next {
            continue;
        }
        match entry {
            RawEntry::Record(raw) if !withdrawn.contains(&at) => {
                let record = chunk.record(raw)?;
                let bytes = record_bytes(&record);
                if fetched.is_full_for(bytes, limits) {
                    return Ok(true);
                }
                fetched.take(record, bytes);
            }
            _ => fetched.next += 1,
        }
    }
    Ok(true)
}

/// One of the two stores of a task, as it is in the directory.
#[derive(Clone, Debug)]
pub(crate) struct DiskStore {
    disk: Arc<Disk>,
    prefix: Vec<u8>,
}

impl DiskStore {
    fn key(&self, key: &[u8]) -> Vec<u8> {
        [&self.prefix, key].concat()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.disk
            .database
            .get(&self.key(key))
            .map_err(|error| StoreError::new(StorageError::of(self.disk.dir(), error)))
    }

    pub(crate) fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], &Bytes) -> Visit,
    ) -> Result<(), StoreError> {
        let skipped = self.prefix.len();
        self.disk
            .scan(&self.key(prefix), &self.key(from), &mut |key, value| {
                visit(&key[skipped..], &Bytes::copy_from_slice(value))
            })
            .map_err(StoreError::new)
    }
}

#[cfg(test)]
pub(crate) mod tests;
