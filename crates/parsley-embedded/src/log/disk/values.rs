//! The database's values, but for chunks of entries and the state of tasks, which has the form that `docs/protocol.md` (State) gives it.
//!
//! Reading is strict: what this module would not have written is corrupt.

use bytes::{Buf, BufMut, Bytes};
use parsley_core::{Offset, TopicId};
use parsley_store::Batch;

use super::keys;

/// A value is not one that this module writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {found} bytes that are no {expected}")]
pub(crate) struct CorruptValue {
    found: usize,
    expected: &'static str,
}

/// What a topic is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicValue {
    pub(crate) name: String,
    pub(crate) partitions: i32,
    pub(crate) offsets_max: Option<u64>,
}

impl TopicValue {
    pub(crate) fn to_bytes(&self) -> Bytes {
        let mut value = Vec::new();
        value.put_i32(self.partitions);
        // No topic keeps 0 offsets.
        value.put_u64(self.offsets_max.unwrap_or(0));
        value.put_slice(self.name.as_bytes());
        value.into()
    }

    pub(crate) fn from_bytes(value: &[u8]) -> Result<Self, CorruptValue> {
        let corrupt = CorruptValue {
            found: value.len(),
            expected: "description of a topic",
        };
        let mut rest = value;
        let partitions = rest.try_get_i32().map_err(|_| corrupt)?;
        let offsets_max = rest.try_get_u64().map_err(|_| corrupt)?;
        let name = std::str::from_utf8(rest).map_err(|_| corrupt)?;
        if partitions < 1 {
            return Err(corrupt);
        }
        Ok(Self {
            name: name.to_owned(),
            partitions,
            offsets_max: (offsets_max > 0).then_some(offsets_max),
        })
    }
}

/// The changes that create a topic.
pub(crate) fn creation(id: TopicId, topic: &TopicValue, incarnations: u64) -> Batch {
    let mut batch = Batch::default();
    batch.put(keys::topic(id), topic.to_bytes());
    batch.put(keys::incarnations(&topic.name), count(incarnations));
    for partition in 0..topic.partitions {
        batch.put(keys::partition(id.partition(partition)), range(0, 0));
    }
    batch
}

/// An offset, or a position.
pub(crate) fn offset(offset: Offset) -> Bytes {
    Bytes::copy_from_slice(&offset.to_be_bytes())
}

pub(crate) fn offset_from(value: &[u8]) -> Result<Offset, CorruptValue> {
    let corrupt = CorruptValue {
        found: value.len(),
        expected: "position",
    };
    let offset = Offset::from_be_bytes(value.try_into().map_err(|_| corrupt)?);
    if offset < 0 { Err(corrupt) } else { Ok(offset) }
}

pub(crate) fn count(count: u64) -> Bytes {
    Bytes::copy_from_slice(&count.to_be_bytes())
}

pub(crate) fn count_from(value: &[u8]) -> Result<u64, CorruptValue> {
    let corrupt = CorruptValue {
        found: value.len(),
        expected: "count",
    };
    Ok(u64::from_be_bytes(value.try_into().map_err(|_| corrupt)?))
}

/// A number of tasks.
pub(crate) fn width(width: i32) -> Bytes {
    Bytes::copy_from_slice(&width.to_be_bytes())
}

pub(crate) fn width_from(value: &[u8]) -> Result<i32, CorruptValue> {
    let corrupt = CorruptValue {
        found: value.len(),
        expected: "number of tasks",
    };
    let width = i32::from_be_bytes(value.try_into().map_err(|_| corrupt)?);
    if width < 1 { Err(corrupt) } else { Ok(width) }
}

/// A log start and a high watermark.
pub(crate) fn range(log_start: Offset, high_watermark: Offset) -> Bytes {
    let mut value = Vec::with_capacity(16);
    value.put_i64(log_start);
    value.put_i64(high_watermark);
    value.into()
}

pub(crate) fn range_from(value: &[u8]) -> Result<(Offset, Offset), CorruptValue> {
    let corrupt = CorruptValue {
        found: value.len(),
        expected: "log start and high watermark",
    };
    let (start, end) = value.split_at_checked(8).ok_or(corrupt)?;
    let start = offset_from(start).map_err(|_| corrupt)?;
    let end = offset_from(end).map_err(|_| corrupt)?;
    if start > end {
        Err(corrupt)
    } else {
        Ok((start, end))
    }
}

/// Offsets in ascending order, as runs of a first one and a length.
pub(crate) fn offsets(offsets: &[Offset]) -> Bytes {
    let mut value = Vec::new();
    for run in offsets.chunk_by(|a, b| a + 1 == *b) {
        value.put_i64(run[0]);
        value.put_u64(run.len() as u64);
    }
    value.into()
}

/// Reads runs of offsets, each a first offset and the one behind its last.
pub(crate) fn offset_runs_from(value: &[u8]) -> Result<Vec<(Offset, Offset)>, CorruptValue> {
    let corrupt = CorruptValue {
        found: value.len(),
        expected: "runs of offsets",
    };
    let mut rest = value;
    let mut runs = Vec::new();
    let mut last_end = -1;
    while !rest.is_empty() {
        let first = rest.try_get_i64().map_err(|_| corrupt)?;
        let length = rest.try_get_u64().map_err(|_| corrupt)?;
        let end = first
            .checked_add_unsigned(length)
            .filter(|end| first > last_end && *end > first)
            .ok_or(corrupt)?;
        runs.push((first, end));
        last_end = end;
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_back() {
        for topic in [
            TopicValue {
                name: "orders".to_owned(),
                partitions: 3,
                offsets_max: None,
            },
            TopicValue {
                name: "o".to_owned(),
                partitions: 1,
                offsets_max: Some(10),
            },
        ] {
            assert_eq!(TopicValue::from_bytes(&topic.to_bytes()), Ok(topic));
        }
        assert_eq!(offset_from(&offset(7)), Ok(7));
        assert_eq!(count_from(&count(7)), Ok(7));
        assert_eq!(width_from(&width(7)), Ok(7));
        assert_eq!(range_from(&range(3, 9)), Ok((3, 9)));
        assert_eq!(
            offset_runs_from(&offsets(&[1, 2, 3, 7, 9, 10])),
            Ok(vec![(1, 4), (7, 8), (9, 11)])
        );
        assert_eq!(offset_runs_from(&offsets(&[])), Ok(vec![]));
    }

    #[test]
    fn what_is_never_written_is_corrupt() {
        let seven = [0; 7];
        assert!(TopicValue::from_bytes(&seven).is_err());
        assert!(TopicValue::from_bytes(&[0; 20]).is_err(), "no partition");
        assert!(offset_from(&seven).is_err());
        assert!(offset_from(&offset(-1)).is_err());
        assert!(count_from(&seven).is_err());
        assert!(width_from(&width(0)).is_err());
        assert!(range_from(&seven).is_err());
        assert!(range_from(&range(4, 3)).is_err());
        assert!(range_from(&range(-1, 3)).is_err());
        let run = |first: i64, length: u64| [first.to_be_bytes(), length.to_be_bytes()].concat();
        assert!(offset_runs_from(&seven).is_err());
        assert!(offset_runs_from(&run(3, 0)).is_err());
        assert!(offset_runs_from(&run(i64::MAX, 2)).is_err());
        assert!(offset_runs_from(&[run(5, 2), run(6, 1)].concat()).is_err());
        assert_eq!(
            width_from(&[1, 2]).unwrap_err().to_string(),
            "found 2 bytes that are no number of tasks"
        );
    }
}
