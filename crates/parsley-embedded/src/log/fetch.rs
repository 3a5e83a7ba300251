//! Reading committed records: what is in memory under the log's lock, and what is in the directory without it.

use std::collections::BTreeSet;
use std::sync::Arc;

use parsley_core::{Channel, Offset};

use super::disk::{Disk, StorageError};
use super::partition::{FetchLimits, Fetched, PartitionLog};
use super::{Log, State};

/// A read that has begun. What it reads is what could be read then.
#[derive(Debug)]
pub(crate) struct Fetch {
    channel: Channel,
    end: Offset,
    limits: FetchLimits,
    fetched: Fetched,
    /// What comes next, if that is not in memory.
    on_disk: Option<DiskPart>,
}

#[derive(Debug)]
struct DiskPart {
    disk: Arc<Disk>,
    end: Offset,
    /// Records that the directory still has although they were withdrawn.
    withdrawn: BTreeSet<Offset>,
}

impl Fetch {
    pub(super) fn new(channel: Channel, from: Offset, end: Offset, limits: FetchLimits) -> Self {
        Self {
            channel,
            end,
            limits,
            fetched: Fetched::at(from),
            on_disk: None,
        }
    }

    pub(super) fn channel(&self) -> Channel {
        self.channel
    }

    /// Reads on in memory, or finds that what comes next is in the directory.
    pub(super) fn go_on(&mut self, partition: &PartitionLog, disk: Option<&Arc<Disk>>) {
        let next = self.fetched.next;
        let end = self.end.min(partition.tail_start());
        match disk {
            Some(disk) if next < end => {
                self.on_disk = Some(DiskPart {
                    disk: Arc::clone(disk),
                    end,
                    withdrawn: partition.withdrawn().range(next..end).copied().collect(),
                });
            }
            _ => partition.fetch_tail(&mut self.fetched, self.end, self.limits),
        }
    }
}

impl Log {
    /// Reads to the end. The log's lock must not be held.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read; also when what was to be read has been deleted meanwhile ([`State::upheavals`] has moved then).
    pub(crate) fn finish_fetch(&self, mut fetch: Fetch) -> Result<Fetched, StorageError> {
        while let Some(part) = fetch.on_disk.take() {
            let DiskPart {
                disk,
                end,
                withdrawn,
            } = part;
            disk.fetch(
                fetch.channel,
                &mut fetch.fetched,
                end,
                fetch.limits,
                &withdrawn,
            )?;
            // Otherwise it is full.
            if fetch.fetched.next >= end {
                self.lock().storage.go_on(&mut fetch);
            }
        }
        Ok(fetch.fetched)
    }

    /// Whether a log start has moved, or a topic come or gone, since there were so many upheavals.
    pub(crate) fn has_changed_since(&self, upheavals: u64) -> bool {
        let State {
            upheavals: found, ..
        } = *self.lock();
        found != upheavals
    }
}
