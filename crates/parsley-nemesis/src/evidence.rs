//! The evidence: what was read of the topics, in the form of `parsley topic dump`, in a folder.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use parsley_core::wire::{self, ProtocolHeaders};
use parsley_core::{Clock, Header};
use parsley_kafka::ReadRecord;
use serde_json::{Value, json};

use crate::Trouble;

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
