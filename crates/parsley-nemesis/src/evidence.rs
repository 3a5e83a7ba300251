//! The evidence: what was read of the topics, in the form of `parsley topic dump`, in a folder. It can be read back, and judged again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use parsley_core::wire::{self, ProtocolHeaders};
use parsley_core::{Clock, Header, TopicId};
use parsley_kafka::ReadRecord;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::Trouble;
use crate::history::History;
use crate::topology::{ACCOUNT, TOPICS};

/// The files of a run.
pub struct Evidence {
    folder: PathBuf,
    files: BTreeMap<String, BufWriter<File>>,
}

impl Evidence {
    /// Evidence in a folder, which is made if it is not there.
    pub fn begin(folder: &Path) -> Result<Self, Trouble> {
        std::fs::create_dir_all(folder)
            .map_err(Trouble::io("making the folder of the evidence"))?;
        Ok(Self {
            folder: folder.to_owned(),
            files: BTreeMap::new(),
        })
    }

    /// The file of a topic's dump.
    pub fn dump(folder: &Path, topic: &str) -> PathBuf {
        folder.join(format!("{topic}.jsonl"))
    }

    /// Adds a record to its topic's dump.
    pub fn add(&mut self, record: &ReadRecord) -> Result<(), Trouble> {
        let file = match self.files.get_mut(&*record.topic) {
            Some(file) => file,
            None => {
                let file = File::create(Self::dump(&self.folder, &record.topic))
                    .map_err(Trouble::io("making a dump"))?;
                self.files
                    .entry(record.topic.to_string())
                    .or_insert(BufWriter::new(file))
            }
        };
        writeln!(file, "{}", line(record)).map_err(Trouble::io("writing a dump"))
    }

    /// Hands out what was written.
    pub fn flush(&mut self) -> Result<(), Trouble> {
        let mut files = self.files.values_mut();
        files
            .try_for_each(Write::flush)
            .map_err(Trouble::io("writing a dump"))
    }
}

/// A field that is text, or its bytes in hexadecimal under another name.
fn put(line: &mut Value, name: &str, bytes: Option<&[u8]>) {
    match bytes.map(|bytes| (bytes, str::from_utf8(bytes))) {
        None => line[name] = Value::Null,
        Some((_, Ok(text))) => line[name] = text.into(),
        Some((bytes, Err(_))) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            line[format!("{name}_hex")] = digits.into();
        }
    }
}

/// A record as a line of a dump.
fn line(record: &ReadRecord) -> Value {
    let mut line = json!({
        "topic": &*record.topic,
        "channel": record.channel.to_string(),
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
    });
    put(&mut line, "key", record.key.as_deref());
    put(&mut line, "value", record.value.as_deref());
    let read = ProtocolHeaders::read(&record.headers).map_err(|error| error.to_string());
    let stamp = read.and_then(|read| {
        let clock = read.clock.as_deref().map(wire::decode).transpose();
        let clock = clock.map_err(|error| error.to_string())?;
        Ok((clock.map(wire::Decoded::into_clock), read.sender))
    });
    match stamp {
        Ok((clock, sender)) => {
            line["clock"] = clock.map_or(Value::Null, |clock| clock_line(&clock));
            line["sender"] = sender.map_or(Value::Null, |(sender, _)| sender.to_string().into());
            line["sequence"] = sender.map_or(Value::Null, |(_, sequence)| sequence.into());
        }
        Err(error) => line["header_error"] = json!({ "error": error }),
    }
    let others = record.headers.iter().filter(|header| !is_stamp(header));
    let headers = others.map(|header| {
        let mut line = json!({});
        put(&mut line, "name", Some(&header.name));
        put(&mut line, "value", header.value.as_deref());
        line
    });
    line["headers"] = headers.collect();
    line
}

fn is_stamp(header: &Header) -> bool {
    let names = [
        wire::CLOCK_HEADER,
        wire::SENDER_HEADER,
        wire::SEQUENCE_HEADER,
    ];
    names.iter().any(|name| header.name == name.as_bytes())
}

/// A clock as `parsley clock decode` prints one.
pub fn clock_line(clock: &Clock) -> Value {
    let offsets = clock.offsets().iter().map(|claim| {
        json!({
            "topic": claim.channel.topic.to_string(),
            "partition": claim.channel.partition,
            "offset": claim.offset,
        })
    });
    let sequences = clock.sequences().iter().map(|claim| {
        json!({
            "topic": claim.channel.topic.to_string(),
            "partition": claim.channel.partition,
            "sender": claim.sender.to_string(),
            "sequence": claim.sequence,
        })
    });
    json!({
        "offsets": offsets.collect::<Vec<_>>(),
        "sequences": sequences.collect::<Vec<_>>(),
    })
}

/// Reads back what was recorded of a run.
pub fn read_back(folder: &Path) -> Result<History, Trouble> {
    let mut history = History::default();
    for topic in TOPICS.iter().chain(&[ACCOUNT]) {
        let path = Evidence::dump(folder, topic);
        let file = File::open(&path).map_err(Trouble::io("opening a dump"))?;
        for text in BufReader::new(file).lines() {
            let text = text.map_err(Trouble::io("reading a dump"))?;
            let line: Option<Value> = serde_json::from_str(&text).ok();
            let record = line.as_ref().and_then(record);
            history.take(&record.ok_or_else(|| Trouble::Evidence {
                path: path.clone(),
                reason: format!("no line of a dump of this application: {text}"),
            })?);
        }
    }
    Ok(history)
}

/// A record as its line tells it, with its number, and without its clock: the account has the clocks of what was delivered.
fn record(line: &Value) -> Option<ReadRecord> {
    let (id, partition) = line["channel"].as_str()?.split_once(':')?;
    let id = TopicId::from_uuid(Uuid::parse_str(id).ok()?);
    let text = |name: &str| line[name].as_str().map(|text| text.to_owned().into());
    let sender = line["sender"].as_str().zip(line["sequence"].as_i64());
    let headers = match sender {
        None => Vec::new(),
        Some((sender, sequence)) => vec![
            Header::new(
                wire::SENDER_HEADER,
                Uuid::parse_str(sender).ok()?.as_bytes().to_vec(),
            ),
            Header::new(wire::SEQUENCE_HEADER, sequence.to_be_bytes().to_vec()),
        ],
    };
    Some(ReadRecord {
        topic: line["topic"].as_str()?.into(),
        channel: id.partition(partition.parse().ok()?),
        offset: line["offset"].as_i64()?,
        timestamp_ms: line["timestamp_ms"].as_i64(),
        key: text("key"),
        value: text("value"),
        headers,
    })
}

#[cfg(test)]
mod tests {
    use parsley_core::SenderId;

    use super::*;

    /// What is written is what a run was judged by: a history that is read back is the same.
    #[test]
    fn what_was_recorded_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut evidence = Evidence::begin(folder.path()).unwrap();
        let mut before = History::default();
        for topic in TOPICS.iter().chain(&[ACCOUNT]) {
            let value = match *topic {
                "commands" => r#"{"command":4}"#.to_owned(),
                ACCOUNT => r#"{"delivered":{"stage":"watch","partition":1,"execution":0,"topic":"events","channel":"CHANNEL:1","offset":3,"arrival":3,"key":"k1","timestamp_ms":7,"clock":"010000000000000000"}}"#
                    .replace("CHANNEL", &TopicId::of_name("events").to_string()),
                _ => r#"{"topic":"commands","partition":1,"offset":2,"count":9}"#.to_owned(),
            };
            let stamp = wire::stamp_headers(
                wire::encode(&Clock::default()).into(),
                SenderId::of_task("a", "b", 0),
                5,
            );
            let record = ReadRecord {
                topic: (*topic).into(),
                channel: TopicId::of_name(topic).partition(1),
                offset: 3,
                timestamp_ms: Some(7),
                key: Some("k1".into()),
                value: Some(value.into()),
                headers: match *topic {
                    "commands" | ACCOUNT => Vec::new(),
                    _ => stamp.to_vec(),
                },
            };
            evidence.add(&record).unwrap();
            before.take(&record);
        }
        evidence.flush().unwrap();
        assert_eq!(before.oddities, [""; 0]);
        assert_eq!(before.delivered(), 1);
        let after = read_back(folder.path()).unwrap();
        assert_eq!(format!("{after:?}"), format!("{before:?}"));
    }
}
