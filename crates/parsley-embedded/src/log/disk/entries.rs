//! How a partition's entries stand in the database: in chunks, each the entries of consecutive offsets.
//!
//! A chunk is its entries one after the other. An entry begins with one byte that says what it is: 0 a record, 1 a record of an aborted
//! transaction, 2 a marker. The last two are no more than that. A record goes on with its length in bytes (8 of them), its timestamp, its key and its
//! value, the number of its headers, and each one's name and value. Numbers are big-endian; a field of bytes stands behind its length, and
//! the length -1 is null.

use bytes::{Buf, Bytes};
use parsley_core::{Channel, Header, Offset, Record};

use crate::log::partition::Entry;

/// How large a chunk becomes before another one is begun, in bytes. A single record may make it larger.
pub(crate) const CHUNK_BYTES: usize = 56 << 10;

const RECORD: u8 = 0;
const ABORTED: u8 = 1;
const MARKER: u8 = 2;

/// A chunk is not one that this module writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {index} at byte {at}: {found}")]
pub(crate) struct CorruptChunk {
    /// Which entry of the chunk.
    index: usize,
    /// Where it begins.
    at: usize,
    found: &'static str,
}

/// Appends an entry to a chunk.
pub(crate) fn write(chunk: &mut Vec<u8>, entry: &Entry) {
    let record = match entry {
        Entry::Aborted => return chunk.push(ABORTED),
        Entry::Marker => return chunk.push(MARKER),
        Entry::Record(record) => record,
    };
    chunk.push(RECORD);
    let length_at = chunk.len();
    chunk.extend_from_slice(&[0; 8]);
    chunk.extend_from_slice(&record.timestamp_ms.to_be_bytes());
    write_nullable(chunk, record.key.as_deref());
    write_nullable(chunk, record.value.as_deref());
    chunk.extend_from_slice(&length(record.headers.len()).to_be_bytes());
    for header in &record.headers {
        write_nullable(chunk, Some(&header.name));
        write_nullable(chunk, header.value.as_deref());
    }
    let bytes = (chunk.len() - length_at - 8) as u64;
    chunk[length_at..length_at + 8].copy_from_slice(&bytes.to_be_bytes());
}

fn write_nullable(chunk: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        None => chunk.extend_from_slice(&(-1_i32).to_be_bytes()),
        Some(bytes) => {
            chunk.extend_from_slice(&length(bytes.len()).to_be_bytes());
            chunk.extend_from_slice(bytes);
        }
    }
}

/// The length of a field, or the number of headers, as it is written.
fn length(bytes: usize) -> i32 {
    i32::try_from(bytes)
        .expect("a log takes records of at most i32::MAX bytes, and no memory holds 2^31 headers")
}

/// The number of bytes that a record takes in memory and in a chunk, roughly.
pub(crate) fn weight(entry: &Entry) -> usize {
    let Entry::Record(record) = entry else {
        return 1;
    };
    let field = |field: &Option<Bytes>| field.as_ref().map_or(0, Bytes::len);
    let headers: usize = record
        .headers
        .iter()
        .map(|header| header.name.len() + field(&header.value) + 8)
        .sum();
    25 + field(&record.key) + field(&record.value) + headers
}

/// Reads a chunk entry by entry. Records that are not asked for are passed by their length alone.
pub(crate) struct Chunk<'a> {
    channel: Channel,
    /// The offset of the next entry.
    next: Offset,
    index: usize,
    length: usize,
    rest: &'a [u8],
}

/// An entry where it stands, not taken apart.
pub(crate) enum RawEntry<'a> {
    Record(&'a [u8]),
    Aborted,
    Marker,
}

impl<'a> Chunk<'a> {
    /// A chunk whose first entry has this offset.
    pub(crate) fn new(channel: Channel, base: Offset, bytes: &'a [u8]) -> Self {
        Self {
            channel,
            next: base,
            index: 0,
            length: bytes.len(),
            rest: bytes,
        }
    }

    /// The offset of the next entry; at the end of the chunk, one past its last.
    pub(crate) fn next_offset(&self) -> Offset {
        self.next
    }

    fn corrupt(&self, found: &'static str) -> CorruptChunk {
        CorruptChunk {
            index: self.index,
            at: self.length - self.rest.len(),
            found,
        }
    }

    /// The next entry; `None` at the end.
    pub(crate) fn next_raw(&mut self) -> Result<Option<RawEntry<'a>>, CorruptChunk> {
        let mut rest = self.rest;
        let Ok(kind) = rest.try_get_u8() else {
            return Ok(None);
        };
        let entry = match kind {
            ABORTED => RawEntry::Aborted,
            MARKER => RawEntry::Marker,
            RECORD => {
                let cut = || self.corrupt("the chunk ends within a record");
                let length = rest.try_get_u64().map_err(|_| cut())?;
                let length = usize::try_from(length).map_err(|_| cut())?;
                let (record, behind) = rest.split_at_checked(length).ok_or_else(cut)?;
                rest = behind;
                RawEntry::Record(record)
            }
            _ => return Err(self.corrupt("it is of no known kind")),
        };
        let next = self.next.checked_add(1);
        self.next = next.ok_or_else(|| self.corrupt("no offset follows its own"))?;
        self.rest = rest;
        self.index += 1;
        Ok(Some(entry))
    }

    /// Takes a record apart that stands right before the next entry. It shares no memory with the chunk.
    pub(crate) fn record(&self, raw: &[u8]) -> Result<Record, CorruptChunk> {
        let wrong = |found| CorruptChunk {
            index: self.index - 1,
            at: self.length - self.rest.len() - raw.len(),
            found,
        };
        let mut rest = Bytes::copy_from_slice(raw);
        let timestamp_ms = rest
            .try_get_i64()
            .map_err(|_| wrong("a record without a timestamp"))?;
        let key = nullable(&mut rest).map_err(wrong)?;
        let value = nullable(&mut rest).map_err(wrong)?;
        let count = rest
            .try_get_i32()
            .map_err(|_| wrong("a record without a header count"))?;
        if count < 0 {
            return Err(wrong("a negative number of headers"));
        }
        let mut headers = Vec::new();
        for _ in 0..count {
            let name = nullable(&mut rest)
                .map_err(wrong)?
                .ok_or_else(|| wrong("a header without a name"))?;
            let value = nullable(&mut rest).map_err(wrong)?;
            headers.push(Header { name, value });
        }
        if !rest.is_empty() {
            return Err(wrong("bytes behind the last header"));
        }
        Ok(Record {
            channel: self.channel,
            offset: self.next - 1,
            timestamp_ms,
            key,
            value,
            headers,
        })
    }

    /// One past the offset of the last entry.
    pub(crate) fn end(mut self) -> Result<Offset, CorruptChunk> {
        while self.next_raw()?.is_some() {}
        Ok(self.next)
    }

    /// The next entry, taken apart; `None` at the end.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, CorruptChunk> {
        Ok(match self.next_raw()? {
            None => None,
            Some(RawEntry::Aborted) => Some(Entry::Aborted),
            Some(RawEntry::Marker) => Some(Entry::Marker),
            Some(RawEntry::Record(raw)) => Some(Entry::Record(self.record(raw)?)),
        })
    }
}

fn nullable(rest: &mut Bytes) -> Result<Option<Bytes>, &'static str> {
    let length = rest
        .try_get_i32()
        .map_err(|_| "a record ends before the length of a field")?;
    match usize::try_from(length) {
        Ok(length) if length <= rest.len() => Ok(Some(rest.split_to(length))),
        Ok(_) => Err("a field is longer than the record"),
        Err(_) if length == -1 => Ok(None),
        Err(_) => Err("a field has a negative length"),
    }
}

#[cfg(test)]
mod tests {
    use parsley_core::TopicId;
    use proptest::prelude::*;

    use super::*;

    fn channel() -> Channel {
        TopicId::of_name("orders").partition(1)
    }

    fn bytes() -> impl Strategy<Value = Bytes> {
        prop::collection::vec(any::<u8>(), 0..6).prop_map(Bytes::from)
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let nullable = || prop::option::of(bytes());
        let headers = prop::collection::vec((bytes(), nullable()), 0..3);
        let record = (any::<i64>(), nullable(), nullable(), headers).prop_map(
            |(timestamp_ms, key, value, headers)| {
                Entry::Record(Record {
                    channel: channel(),
                    offset: 0,
                    timestamp_ms,
                    key,
                    value,
                    headers: headers
                        .into_iter()
                        .map(|(name, value)| Header { name, value })
                        .collect(),
                })
            },
        );
        prop_oneof![4 => record, 1 => Just(Entry::Aborted), 1 => Just(Entry::Marker)]
    }

    fn read(bytes: &[u8]) -> Result<Vec<Entry>, CorruptChunk> {
        let mut chunk = Chunk::new(channel(), 7, bytes);
        let mut entries = Vec::new();
        while let Some(entry) = chunk.next_entry()? {
            entries.push(entry);
        }
        assert_eq!(chunk.next_offset(), 7 + entries.len() as Offset);
        Ok(entries)
    }

    fn written(entries: &[Entry]) -> Vec<u8> {
        let mut chunk = Vec::new();
        entries.iter().for_each(|entry| write(&mut chunk, entry));
        chunk
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(mut entries in prop::collection::vec(entry(), 0..5)) {
            for (offset, entry) in (7..).zip(&mut entries) {
                if let Entry::Record(record) = entry {
                    record.offset = offset;
                }
            }
            prop_assert_eq!(read(&written(&entries)).unwrap(), entries);
        }

        /// A chunk is read as nothing but what it was written from: cut anywhere within an entry it is corrupt.
        #[test]
        fn a_chunk_that_is_cut_within_an_entry_is_corrupt(entry in entry(), cut in any::<prop::sample::Index>()) {
            let whole = written(std::slice::from_ref(&entry));
            let cut = cut.index(whole.len());
            prop_assert_eq!(read(&whole[..cut]).is_err(), cut > 0);
        }

        #[test]
        fn any_bytes_are_read_or_corrupt_and_what_is_read_is_what_they_say(bytes in prop::collection::vec(0..4_u8, 0..60)) {
            if let Ok(entries) = read(&bytes) {
                prop_assert_eq!(written(&entries), bytes);
            }
        }
    }

    #[test]
    fn a_corrupt_chunk_says_where() {
        let two = [MARKER, 9];
        let error = read(&two).unwrap_err();
        assert_eq!(
            error.to_string(),
            "entry 1 at byte 1: it is of no known kind"
        );
    }

    /// A chunk whose key was damaged so that it began at the highest offset there is had the offset behind its entry counted: a debug build
    /// panicked when the directory was opened, and a release build went on below zero. Found by the fuzz target `log_chunk`.
    #[test]
    fn an_entry_behind_the_highest_offset_is_corrupt() {
        let chunk = |base| Chunk::new(channel(), base, &[MARKER, ABORTED]);
        assert_eq!(chunk(Offset::MAX - 2).end(), Ok(Offset::MAX));
        let told = chunk(Offset::MAX - 1).end().unwrap_err().to_string();
        assert_eq!(told, "entry 1 at byte 1: no offset follows its own");
    }
}
