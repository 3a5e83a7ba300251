//! All that can be seen of a log from outside.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use parsley_embedded::{Log, ReadError};

use crate::support::shop::{group, tasks};

/// A digest of all that can be seen of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u64);

/// What of a log a digest covers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Of {
    Everything,
    /// Without log starts and ends, which an aborted transaction moves too.
    WhatIsCommitted,
}

pub fn digest(log: &Log, of: Of) -> Result<Digest, ReadError> {
    let mut hasher = DefaultHasher::new();
    observe(log, of, &mut hasher)?;
    Ok(Digest(hasher.finish()))
}

fn observe(log: &Log, of: Of, hasher: &mut DefaultHasher) -> Result<(), ReadError> {
    let mut text = String::new();
    for (name, id) in log.topics() {
        let _ = write!(text, "topic {name} {id};");
        let partitions = log.partition_count(id).unwrap_or(0);
        for channel in (0..partitions).map(|partition| id.partition(partition)) {
            if of == Of::Everything {
                let (start, end) = (log.log_start(channel), log.high_watermark(channel));
                let _ = write!(text, "{channel} {start:?} {end:?};");
            }
        }
        for record in log.consumer(&name)?.read_to_end()? {
            record.channel.hash(hasher);
            record.offset.hash(hasher);
            record.timestamp_ms.hash(hasher);
            (&record.key, &record.value).hash(hasher);
            for header in &record.headers {
                (&header.name, &header.value).hash(hasher);
            }
        }
    }
    for (stage, partition) in tasks() {
        let group = group(stage);
        let _ = write!(text, "{:?};", log.committed_positions(&group));
        for state in [
            log.ordering_state(&group, partition)?,
            log.fold_state(&group, partition)?,
        ] {
            state.is_some().hash(hasher);
            for (key, value) in state.iter().flat_map(|state| state.iter()) {
                (key, value).hash(hasher);
            }
        }
    }
    text.hash(hasher);
    Ok(())
}
