//! A record as a line of JSON.

use std::io::{self, Write};

use parsley::kafka::ReadRecord;
use parsley_core::Header;
use parsley_core::wire::{self, ProtocolHeaders};
use serde::Serialize;
use uuid::Uuid;

use crate::clock::ClockJson;

/// Bytes: as text where they are UTF-8, else in hexadecimal. A field that is `None` is left out, `Some(None)` is null.
type Text<'a> = Option<Option<&'a str>>;

#[derive(Serialize)]
struct RecordLine<'a> {
    topic: &'a str,
    channel: String,
    offset: i64,
    timestamp_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
    #[serde(flatten)]
    protocol: ProtocolLine,
    headers: Vec<HeaderLine<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    isolation: Option<&'static str>,
}

/// What the protocol's headers say, or that they say nothing that can be read. An unreadable clock is never shown as an empty one.
#[derive(Serialize)]
#[serde(untagged)]
enum ProtocolLine {
    Read {
        clock: Option<ClockJson>,
        sender: Option<Uuid>,
        sequence: Option<i64>,
    },
    Unreadable {
        header_error: HeaderErrorLine,
    },
}

#[derive(Serialize)]
struct HeaderErrorLine {
    error: String,
    headers: Vec<RawHeaderLine>,
}

#[derive(Serialize)]
struct RawHeaderLine {
    name: String,
    value_hex: Option<String>,
}

#[derive(Serialize)]
struct HeaderLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
}

fn shown(bytes: Option<&[u8]>) -> (Text<'_>, Option<String>) {
    match bytes.map(|bytes| (bytes, str::from_utf8(bytes))) {
        None => (Some(None), None),
        Some((_, Ok(text))) => (Some(Some(text)), None),
        Some((bytes, Err(_))) => (None, Some(hex::encode(bytes))),
    }
}

fn is_stamp(header: &Header) -> bool {
    let names = [
        wire::CLOCK_HEADER,
        wire::SENDER_HEADER,
        wire::SEQUENCE_HEADER,
    ];
    names.iter().any(|name| header.name == name.as_bytes())
}

impl ProtocolLine {
    fn of(headers: &[Header]) -> Self {
        let unreadable = |error: String| {
            let raw = headers.iter().filter(|header| is_stamp(header));
            let raw = raw.map(|header| RawHeaderLine {
                name: String::from_utf8_lossy(&header.name).into_owned(),
                value_hex: header.value.as_ref().map(hex::encode),
            });
            let header_error = HeaderErrorLine {
                error,
                headers: raw.collect(),
            };
            Self::Unreadable { header_error }
        };
        let read = match ProtocolHeaders::read(headers) {
            Ok(read) => read,
            Err(error) => return unreadable(error.to_string()),
        };
        let clock = match read.clock.as_deref().map(wire::decode).transpose() {
            Ok(clock) => clock.map(|clock| ClockJson::of(&clock.into_clock())),
            Err(error) => return unreadable(error.to_string()),
        };
        Self::Read {
            clock,
            sender: read.sender.map(|(sender, _)| sender.0.uuid()),
            sequence: read.sender.map(|(_, sequence)| sequence),
        }
    }
}

/// Writes a record. `isolation` is said of records that may not be committed.
pub fn write(
    record: &ReadRecord,
    isolation: Option<&'static str>,
    out: &mut impl Write,
) -> io::Result<()> {
    let (key, key_hex) = shown(record.key.as_deref());
    let (value, value_hex) = shown(record.value.as_deref());
    let others = record.headers.iter().filter(|header| !is_stamp(header));
    let headers = others.map(|header| {
        let (name, name_hex) = shown(Some(&header.name));
        let (value, value_hex) = shown(header.value.as_deref());
        HeaderLine {
            name,
            name_hex,
            value,
            value_hex,
        }
    });
    let line = RecordLine {
        topic: &record.topic,
        channel: record.channel.to_string(),
        offset: record.offset,
        timestamp_ms: record.timestamp_ms,
        key,
        key_hex,
        value,
        value_hex,
        protocol: ProtocolLine::of(&record.headers),
        headers: headers.collect(),
        isolation,
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parsley_core::{Clock, SenderId, TopicId};
    use serde_json::{Value, json};

    use super::*;

    fn line(record: &ReadRecord) -> Value {
        let mut bytes = Vec::new();
        write(record, None, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(b'\n'));
        serde_json::from_slice(&bytes).unwrap()
    }

    fn record(headers: Vec<Header>) -> ReadRecord {
        ReadRecord {
            topic: "orders".into(),
            channel: TopicId::of_name("orders").partition(2),
            offset: 7,
            timestamp_ms: Some(1700000000000),
            key: Some("ann".into()),
            value: Some("{\"n\": 1}".into()),
            headers,
        }
    }

    #[test]
    fn a_plain_record_has_no_clock_and_no_sender() {
        let topic = TopicId::of_name("orders");
        let other = vec![Header::new("vc-later", "x"), Header::null("trace")];
        assert_eq!(
            line(&record(other)),
            json!({"topic": "orders", "channel": format!("{topic}:2"), "offset": 7, "timestamp_ms": 1700000000000_i64,
                   "key": "ann", "value": "{\"n\": 1}", "clock": null, "sender": null, "sequence": null,
                   "headers": [{"name": "vc-later", "value": "x"}, {"name": "trace", "value": null}]})
        );
    }

    #[test]
    fn what_is_no_text_is_in_hexadecimal_and_null_is_null() {
        let mut odd = record(vec![Header::new("raw", &[0xff_u8][..])]);
        (odd.key, odd.value, odd.timestamp_ms) = (Some(Bytes::from_static(&[0xfe, 0])), None, None);
        let line = line(&odd);
        assert_eq!(line["key_hex"], "fe00");
        assert_eq!(line.get("key"), None);
        assert_eq!(line.get("value"), Some(&Value::Null));
        assert_eq!(line.get("timestamp_ms"), Some(&Value::Null));
        assert_eq!(line["headers"], json!([{"name": "raw", "value_hex": "ff"}]));
    }

    /// A name that is no text was shown as an empty one.
    #[test]
    fn the_name_of_a_header_may_be_no_text() {
        let mut header = Header::new("x", "y");
        header.name = Bytes::from_static(&[b'x', 0xff]);
        let line = line(&record(vec![header]));
        assert_eq!(line["headers"], json!([{"name_hex": "78ff", "value": "y"}]));
    }

    #[test]
    fn a_stamp_is_decoded() {
        let (cause, sender) = (TopicId::of_name("causes"), SenderId::of_task("a", "b", 0));
        let mut clock = Clock::default();
        clock.claim_offset(cause.partition(0), 3);
        let stamp = wire::stamp_headers(wire::encode(&clock).into(), sender, 9);
        let line = line(&record(stamp.to_vec()));
        assert_eq!(
            line["clock"],
            json!({"offsets": [{"topic": cause.to_string(), "partition": 0, "offset": 3}], "sequences": []})
        );
        assert_eq!(
            (&line["sender"], &line["sequence"]),
            (&json!(sender.to_string()), &json!(9))
        );
        assert_eq!(line["headers"], json!([]));
    }

    #[test]
    fn an_unreadable_header_is_shown_and_nothing_is_made_of_it() {
        let corrupt = vec![
            Header::new(wire::CLOCK_HEADER, &[2_u8, 0][..]),
            Header::new(wire::SENDER_HEADER, "short"),
            Header::new("mine", "kept"),
        ];
        let line = line(&record(corrupt));
        for field in ["clock", "sender", "sequence"] {
            assert_eq!(line.get(field), None, "{line}");
        }
        assert!(line["header_error"]["error"].is_string());
        assert_eq!(
            line["header_error"]["headers"],
            json!([{"name": "vc", "value_hex": "0200"}, {"name": "vc-sender", "value_hex": "73686f7274"}])
        );
        assert_eq!(line["headers"], json!([{"name": "mine", "value": "kept"}]));

        let null_clock = record(vec![Header::null(wire::CLOCK_HEADER)]);
        let line = self::line(&null_clock);
        assert_eq!(
            line["header_error"]["headers"],
            json!([{"name": "vc", "value_hex": null}])
        );
    }
}
