//! The trace: every delivery at every stage as a line of JSON, with all that an independent checker needs.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use parsley::core::{Clock, wire};
use same_file::Handle;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::audit::Delivered;
use super::error::DemoError;
use super::ground::Ground;
use super::judge::Handed;
use super::mirror::{Mirror, Mirrored};
use super::topology::{COMMANDER, COMMANDS, EVENTS, FINDINGS, PROJECTOR, VIEWS};
use crate::clock::ClockJson;

/// The file of a trace, opened and empty.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    file: File,
}

/// A file that the demo has open for something else, and what that is.
#[derive(Debug)]
pub struct Occupied {
    /// What it is, for people.
    pub name: String,
    /// Which file.
    pub handle: Handle,
}

impl TraceFile {
    /// Opens a file for a trace. What stood in it is gone, unless it is one of those that are in use: then it is left as it is.
    /// It is not put into a directory of data either.
    pub fn create(
        path: &Path,
        in_use: &[Occupied],
        data: Option<&Path>,
    ) -> Result<Self, DemoError> {
        if path.as_os_str() == "-" {
            return Err(DemoError::TraceToStandardOutput);
        }
        if let Some(data) = data.filter(|data| lies_in(path, data)) {
            return Err(DemoError::TraceInData {
                path: path.to_owned(),
                data: data.to_owned(),
            });
        }
        let failed = |source| DemoError::Trace {
            path: path.to_owned(),
            source,
        };
        // Emptied only when it is known to be no other file under another name.
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !is_device(&metadata) {
            let handle = file
                .try_clone()
                .and_then(Handle::from_file)
                .map_err(failed)?;
            if let Some(other) = in_use.iter().find(|other| other.handle == handle) {
                return Err(DemoError::TraceShared {
                    path: path.to_owned(),
                    other: other.name.clone(),
                });
            }
        }
        if metadata.is_file() {
            file.set_len(0).map_err(failed)?;
        }
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }
}

/// How many links a name may lead through; the system takes no more.
const LINKS_MAX: usize = 40;

/// Whether a file lies in a directory, or would if it existed, under whatever names the two are known.
fn lies_in(path: &Path, directory: &Path) -> bool {
    // A link to a file that does not exist yet: the file is made where it leads.
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = path.read_link() else { break };
        path = path
            .parent()
            .map_or(target.clone(), |folder| folder.join(&target));
    }
    let folder = || match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.canonicalize(),
        _ => Path::new(".").canonicalize(),
    };
    match (
        path.canonicalize().or_else(|_| folder()),
        directory.canonicalize(),
    ) {
        (Ok(path), Ok(directory)) => path.starts_with(directory),
        _ => false,
    }
}

/// Whether it is a device, as `/dev/null` and terminals are: reading one and writing to it do not meet.
#[cfg(unix)]
fn is_device(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_char_device()
}

#[cfg(not(unix))]
fn is_device(metadata: &std::fs::Metadata) -> bool {
    !metadata.is_file()
}

/// Writes the trace. It sees the topics as a reader beside the application does.
pub struct Trace {
    path: PathBuf,
    file: BufWriter<File>,
    commands: Mirror,
    events: Mirror,
    views: Mirror,
    findings: Mirror,
}

#[derive(Serialize)]
struct DeliveryLine<'a> {
    stage: &'a str,
    partition: i32,
    topic: &'a str,
    channel: String,
    offset: i64,
    key: Option<Cow<'a, str>>,
    value: Value,
    clock: ClockJson,
    sender: Option<Uuid>,
    sequence: Option<i64>,
    arrival: u64,
    delivery: u64,
    held: bool,
    sent: Vec<SentLine<'a>>,
}

#[derive(Serialize)]
struct SentLine<'a> {
    topic: &'a str,
    channel: String,
    offset: i64,
    sequence: Option<i64>,
}

impl Trace {
    /// Begins a trace in a file.
    pub fn begin(
        TraceFile { path, file }: TraceFile,
        ground: &dyn Ground,
    ) -> Result<Self, DemoError> {
        Ok(Self {
            path,
            file: BufWriter::with_capacity(1 << 16, file),
            // Each command is delivered to two stages. Each event and view is sent once and delivered once.
            commands: Mirror::new(ground, COMMANDS, 2)?,
            events: Mirror::new(ground, EVENTS, 2)?.following_causes(),
            views: Mirror::new(ground, VIEWS, 2)?.following_causes(),
            findings: Mirror::new(ground, FINDINGS, 1)?.following_causes(),
        })
    }

    /// Writes a delivery.
    pub fn delivered(&mut self, delivered: &Delivered, handed: Handed) -> Result<(), DemoError> {
        let (partition, offset) = (delivered.channel.partition, delivered.offset);
        let Mirrored { value, sender, .. } = match &*delivered.topic {
            COMMANDS => self.commands.take(partition, offset)?,
            EVENTS => self.events.take(partition, offset)?,
            _ => self.views.take(partition, offset)?,
        };
        let (topic, sent) = match (&*delivered.stage, &*delivered.topic) {
            (COMMANDER, _) => (EVENTS, self.events.take_effects(partition, offset)?),
            (PROJECTOR, _) => (VIEWS, self.views.take_effects(partition, offset)?),
            (_, VIEWS) => (FINDINGS, self.findings.take_effects(partition, offset)?),
            _ => (FINDINGS, Vec::new()),
        };
        let sent = sent.iter().map(|sent| SentLine {
            topic,
            channel: sent.channel.to_string(),
            offset: sent.offset,
            sequence: sent.sender.map(|(_, sequence)| sequence),
        });
        let corrupt = |reason: String| DemoError::Record {
            topic: delivered.topic.to_string(),
            partition,
            offset,
            reason,
        };
        let clock: Clock = wire::decode(&delivered.clock)
            .map_err(|error| corrupt(error.to_string()))?
            .into_clock();
        let line = DeliveryLine {
            stage: &delivered.stage,
            partition: delivered.partition,
            topic: &delivered.topic,
            channel: delivered.channel.to_string(),
            offset,
            key: delivered.key.is_some().then(|| delivered.account()),
            value: serde_json::from_slice(&value).map_err(|error| corrupt(error.to_string()))?,
            clock: ClockJson::of(&clock),
            sender: sender.map(|(sender, _)| sender.0.uuid()),
            sequence: sender.map(|(_, sequence)| sequence),
            arrival: handed.arrival,
            delivery: handed.delivery,
            held: delivered.held_until.is_some(),
            sent: sent.collect(),
        };
        let written = serde_json::to_writer(&mut self.file, &line).map_err(std::io::Error::from);
        written
            .and_then(|()| self.file.write_all(b"\n"))
            .map_err(|source| self.unwritable(source))
    }

    /// More has been delivered.
    pub fn has_news(&mut self) {
        let mirrors = [
            &mut self.commands,
            &mut self.events,
            &mut self.views,
            &mut self.findings,
        ];
        mirrors.into_iter().for_each(Mirror::has_news);
    }

    /// Reads what the log has, before the log forgets it.
    pub fn catch_up(&mut self) -> Result<(), DemoError> {
        [
            &mut self.commands,
            &mut self.events,
            &mut self.views,
            &mut self.findings,
        ]
        .into_iter()
        .try_for_each(Mirror::catch_up)
    }

    /// Hands out what was written so far.
    pub fn flush(&mut self) -> Result<(), DemoError> {
        self.file.flush().map_err(|source| self.unwritable(source))
    }

    fn unwritable(&self, source: std::io::Error) -> DemoError {
        DemoError::Trace {
            path: self.path.clone(),
            source,
        }
    }
}
