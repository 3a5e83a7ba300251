//! What `parsley topic dump` prints of a record.

use bytes::Bytes;
use parsley::kafka::ReadRecord;
use parsley_core::wire::{self, ProtocolHeaders};
use parsley_core::{Header, TopicId};

use super::json_lines;
use crate::topic::check;
use crate::topic::check::line::Line as Judged;
use crate::topic::dump;

/// A record that is dumped is read back: its place, and what its protocol headers say, if they say anything.
pub fn dumped_record(bytes: &[u8]) {
    let mut rest = bytes;
    let mut field = || {
        let (&length, behind) = rest.split_first()?;
        let length = match length {
            u8::MAX => {
                return {
                    rest = behind;
                    None
                };
            }
            length => usize::from(length).min(behind.len()),
        };
        let (field, behind) = behind.split_at(length);
        rest = behind;
        Some(Bytes::copy_from_slice(field))
    };
    let number = |field: Option<Bytes>| {
        let mut digits = [0; 8];
        let field = field.unwrap_or_default();
        let length = field.len().min(8);
        digits[..length].copy_from_slice(&field[..length]);
        i64::from_le_bytes(digits)
    };
    let topic = String::from_utf8_lossy(&field().unwrap_or_default()).into_owned();
    let offset = number(field()) & i64::MAX;
    let timestamp = number(field());
    let (key, value) = (field(), field());
    let mut headers = Vec::new();
    while let Some(name) = field().filter(|_| headers.len() < 16) {
        let name = match name.as_ref() {
            b"0" => Bytes::from_static(b"vc"),
            b"1" => Bytes::from_static(b"vc-sender"),
            b"2" => Bytes::from_static(b"vc-seq"),
            _ => name,
        };
        headers.push(Header {
            name,
            value: field(),
        });
    }
    let record = ReadRecord {
        topic: topic.clone().into(),
        channel: TopicId::of_name("orders").partition((offset % 7) as i32),
        offset,
        timestamp_ms: (timestamp != 0).then_some(timestamp),
        key,
        value,
        headers,
    };
    let read = ProtocolHeaders::read(&record.headers)
        .ok()
        .and_then(|read| {
            let clock = read.clock.as_deref().map(wire::decode).transpose().ok()?;
            Some((
                clock.map(wire::Decoded::into_clock).unwrap_or_default(),
                read.sender,
            ))
        });
    for isolation in [None, Some("read_uncommitted")] {
        let mut out = Vec::new();
        dump::line::write(&record, isolation, &mut out).expect("memory takes it");
        assert_eq!(json_lines(&out), 1);
        let text = std::str::from_utf8(&out).expect("JSON is text");
        let line = check::line::read(text.trim_end());
        let Ok(Judged::Dumped(line)) = line else {
            panic!("what was dumped is read: {line:?}");
        };
        assert_eq!(line.topic, topic);
        assert_eq!((line.channel, line.offset), (record.channel, record.offset));
        assert_eq!(line.is_committed, isolation.is_none());
        let stamp = line.stamp.map(|stamp| (stamp.clock, stamp.sender));
        assert_eq!(stamp, read);
    }
}
