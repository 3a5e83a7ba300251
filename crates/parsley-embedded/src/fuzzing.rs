//! What fuzz targets do with the bytes of a log's directory (`docs/verification.md`, Fuzzing). Every function panics when something that it
//! asserts does not hold.

use parsley_core::{Offset, TopicId};

use crate::log::disk::directory;
use crate::log::disk::entries::{self, Chunk, RawEntry};
use crate::log::disk::keys::{self, DESCRIPTIONS, Description};
use crate::log::disk::values::{self, TopicValue};

/// The first offset of a chunk and the chunk: what is read of it is written back in the same bytes, whichever way it is read.
pub fn log_chunk(bytes: &[u8]) {
    let Some((base, bytes)) = bytes.split_first_chunk() else {
        return;
    };
    let channel = TopicId::of_name("orders").partition(1);
    let key = [&keys::chunks(channel)[..], base].concat();
    let Some(base) = keys::chunk_base(&key) else {
        return assert!(Offset::from_be_bytes(*base) < 0);
    };
    assert_eq!(keys::chunk(channel, base), key);

    let mut chunk = Chunk::new(channel, base, bytes);
    let mut written = Vec::new();
    let mut read = 0;
    let fault = loop {
        match chunk.next_entry() {
            Ok(Some(entry)) => {
                read += 1;
                assert_eq!(chunk.next_offset(), base + read);
                let before = written.len();
                entries::write(&mut written, &entry);
                assert!(bytes.starts_with(&written));
                assert!(entries::weight(&entry) <= 25 + 2 * (written.len() - before));
            }
            Ok(None) => break None,
            Err(fault) => break Some(fault),
        }
    };
    let end = Chunk::new(channel, base, bytes).end();
    let mut raw = Chunk::new(channel, base, bytes);
    let mut passed = 0;
    while let Ok(Some(entry)) = raw.next_raw() {
        passed += 1;
        if let RawEntry::Record(record) = entry {
            assert!(record.len() < bytes.len());
        }
    }
    match fault {
        None => {
            assert_eq!(written, bytes);
            assert_eq!(end, Ok(base + read));
        }
        Some(fault) => {
            assert!(passed >= read, "what can be read can be passed");
            let told = fault.to_string();
            assert!(
                told.starts_with(&format!("entry {read} at byte ")),
                "{told}"
            );
        }
    }
}

/// The length of a key, the key, and its value: what is read is written back in the same bytes.
pub fn log_description(bytes: &[u8]) {
    let Some((&length, rest)) = bytes.split_first() else {
        return;
    };
    let Some((key, value)) = rest.split_at_checked(length.into()) else {
        return;
    };
    let Some(description) = Description::parse(key) else {
        return;
    };
    assert_eq!(description.to_bytes(), key);
    assert!(DESCRIPTIONS.contains(&key[0]));
    let written = match description {
        Description::Topic(_) => TopicValue::from_bytes(value).map(|topic| {
            assert!(topic.partitions > 0 && topic.offsets_max != Some(0));
            topic.to_bytes()
        }),
        Description::Incarnations(_) => values::count_from(value).map(values::count),
        Description::Partition(_) => values::range_from(value).map(|(start, end)| {
            assert!(0 <= start && start <= end);
            values::range(start, end)
        }),
        Description::Group(_) => values::width_from(value).map(values::width),
        Description::Position(..) => values::offset_from(value).map(values::offset),
        Description::Open(..) => {
            if let Ok(runs) = values::offset_runs_from(value) {
                assert_runs(&runs, value);
            }
            return;
        }
    };
    match written {
        Ok(written) => assert_eq!(written, value),
        Err(fault) => {
            let told = fault.to_string();
            assert!(
                told.starts_with(&format!("found {} bytes", value.len())),
                "{told}"
            );
        }
    }
}

/// Runs have something in them, stand apart, and are written back; those with too much in them to be written out are not.
fn assert_runs(runs: &[(Offset, Offset)], value: &[u8]) {
    assert_eq!(runs.len() * 16, value.len());
    assert!(runs.iter().all(|(first, end)| 0 <= *first && first < end));
    assert!(runs.windows(2).all(|pair| pair[0].1 < pair[1].0));
    let few = runs.iter().all(|(first, end)| end - first < 64);
    if few {
        let offsets: Vec<Offset> = runs.iter().flat_map(|(first, end)| *first..*end).collect();
        assert_eq!(values::offsets(&offsets), value);
    }
}

/// The text of a format file: it is the one that is written, or it is told, in few words.
pub fn log_format(text: &[u8]) {
    let known = text.trim_ascii_end() == b"parsley embedded log, format 1";
    match directory::other_format(text) {
        None => {
            assert!(String::from_utf8_lossy(text).trim_end() == "parsley embedded log, format 1")
        }
        Some(found) => {
            assert!(!known);
            assert!(found.chars().count() <= 10 * 40 + 8, "{found}");
        }
    }
}
