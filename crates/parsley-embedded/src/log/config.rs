//! How a log, and a topic of it, is made.

use crate::time::TimeSource;

/// The largest number of partitions of a topic.
pub const PARTITIONS_MAX: i32 = 100_000;

/// The largest record that a log can be set to take, in bytes: lengths are kept as 32-bit integers, on a broker as well.
pub const RECORD_BYTES_MAX: usize = i32::MAX as usize;

/// Where the identities of topics come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ids {
    /// Random, as a broker's: no two topics anywhere share one.
    #[default]
    Random,
    /// Made from the topic's name, how many topics of that name there were before, and this number: for runs that can be repeated.
    Seeded(u64),
}

/// How a log behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogConfig {
    /// Where topic identities come from. Random by default.
    pub ids: Ids,
    /// Where the timestamps of records come from that name none.
    pub time: TimeSource,
    /// The largest record taken, in bytes of key, value and headers; at most [`RECORD_BYTES_MAX`], which a greater number comes to.
    /// 64 MiB by default.
    pub record_bytes_max: usize,
    /// How much memory a log in a directory takes for what was written and read lately, in bytes. What is being written comes on top. 16 MiB
    /// by default. A log in memory has all of itself there.
    pub cache_bytes: usize,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            ids: Ids::Random,
            time: TimeSource::system(),
            record_bytes_max: 64 << 20,
            cache_bytes: 16 << 20,
        }
    }
}

impl LogConfig {
    /// Sets where topic identities come from.
    #[must_use]
    pub fn ids(mut self, ids: Ids) -> Self {
        self.ids = ids;
        self
    }

    /// Sets where default timestamps come from.
    #[must_use]
    pub fn time(mut self, time: TimeSource) -> Self {
        self.time = time;
        self
    }

    /// Sets the largest record taken, in bytes. A host is not built with more than [`RECORD_BYTES_MAX`].
    #[must_use]
    pub fn record_bytes_max(mut self, record_bytes_max: usize) -> Self {
        self.record_bytes_max = record_bytes_max;
        self
    }

    /// Sets how much memory a log in a directory takes for what was written and read lately, in bytes.
    #[must_use]
    pub fn cache_bytes(mut self, cache_bytes: usize) -> Self {
        self.cache_bytes = cache_bytes;
        self
    }

    /// The largest record taken, whatever the setting says.
    pub(crate) fn largest_record(&self) -> usize {
        self.record_bytes_max.min(RECORD_BYTES_MAX)
    }
}

/// How a topic is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicConfig {
    /// How many partitions it has: 1 to [`PARTITIONS_MAX`].
    pub partitions: i32,
    /// How many of the newest offsets a partition keeps, records and markers alike; everything by default. What an open transaction
    /// wrote is kept in any case, and all that follows it.
    pub offsets_max: Option<u64>,
}

impl TopicConfig {
    /// A topic that keeps everything.
    pub const fn partitions(partitions: i32) -> Self {
        Self {
            partitions,
            offsets_max: None,
        }
    }

    /// Keeps the newest offsets of each partition alone.
    #[must_use]
    pub const fn offsets_max(mut self, offsets_max: u64) -> Self {
        self.offsets_max = Some(offsets_max);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A length beyond an `i32` was once possible, and kept as the largest that is none.
    #[test]
    fn no_setting_takes_records_whose_length_cannot_be_kept() {
        let largest = |set| LogConfig::default().record_bytes_max(set).largest_record();
        assert_eq!(largest(usize::MAX), 2_147_483_647);
        assert_eq!(largest(RECORD_BYTES_MAX), RECORD_BYTES_MAX);
        assert_eq!(largest(10), 10);
    }
}
