//! One delivery of a probe: a task of its own, on a state that is given, without any past.

use std::collections::BTreeMap;
use std::sync::Arc;

use parsley_core::{Changes, MemoryStore, OpenFacts, Record, RefusalCode, TopicId, wire};

use super::report::{Clause, Place};
use super::samples::Encoded;
use crate::failure::FailureKind;
use crate::stage::Stage;
use crate::task::{RawSend, Task, TaskConfig, TaskError, TopicInfo};

/// What is delivered.
#[derive(Clone)]
pub(super) enum Given {
    /// A sample, by its place among the topic's.
    Record {
        index: usize,
        topic: Arc<str>,
        record: Encoded,
    },
    /// A tick.
    Tick,
}

/// A delivery, and the state that it meets.
pub(super) struct Case {
    pub(super) given: Given,
    /// Which state that is, in words.
    pub(super) on: &'static str,
    pub(super) fold: MemoryStore,
}

/// What became of it.
pub(super) enum Outcome {
    Done(Done),
    Failed { clause: Clause, message: String },
}

pub(super) struct Done {
    pub(super) sends: Vec<RawSend>,
    pub(super) changes: Changes,
}

impl Case {
    pub(super) fn run(&self, application: &str, stage: &Stage) -> Outcome {
        match self.deliver(application, stage) {
            Ok(done) => Outcome::Done(done),
            Err(error) => Outcome::Failed {
                clause: clause_of(&error),
                message: match error.application() {
                    Some(failure) => failure.message.clone(),
                    None => error.to_string(),
                },
            },
        }
    }

    pub(super) fn place(&self, stage: &Stage) -> Place {
        let topic = match &self.given {
            Given::Record { topic, .. } => Some(topic.to_string()),
            Given::Tick => stage.tick_topic().map(str::to_owned),
        };
        Place {
            stage: Some(stage.name().to_owned()),
            topic,
            sample: self.sample(),
        }
    }

    pub(super) fn sample(&self) -> Option<usize> {
        match &self.given {
            Given::Record { index, .. } => Some(*index),
            Given::Tick => None,
        }
    }

    fn deliver(&self, application: &str, stage: &Stage) -> Result<Done, TaskError> {
        let channel = |topic: &str| TopicId::of_name(topic).partition(0);
        let topics = stage.inputs().chain(stage.sinks());
        let topics: BTreeMap<String, TopicInfo> = topics
            .map(|name| {
                let id = TopicId::of_name(name);
                (name.to_owned(), TopicInfo { id, partitions: 1 })
            })
            .collect();
        let facts = OpenFacts {
            ends: stage.sinks().map(|sink| (channel(sink), 0)).collect(),
            ..OpenFacts::default()
        };
        let config = TaskConfig::new(application, 0, topics);
        let (ordering, fold) = (MemoryStore::new(), self.fold.clone());
        let (mut task, _) = Task::open(
            stage.clone(),
            config,
            &facts,
            Box::new(ordering),
            Box::new(fold),
        )?;
        let record = match &self.given {
            Given::Record { topic, record, .. } => {
                let mut headers = record.headers.clone();
                // What it claims is no matter here, and what cannot be read was found already.
                headers.retain(|header| !wire::is_reserved(&header.name));
                Record {
                    channel: channel(topic),
                    offset: 0,
                    timestamp_ms: record.timestamp_ms,
                    key: record.key.clone(),
                    value: record.value.clone(),
                    headers,
                }
            }
            Given::Tick => {
                task.tick(0)?;
                let mut ticks = task.take_sends();
                let tick = ticks
                    .pop()
                    .expect("a task that takes the call has emitted its tick");
                Record {
                    channel: tick.channel,
                    offset: 0,
                    timestamp_ms: tick.timestamp_ms,
                    key: tick.key,
                    value: tick.value,
                    headers: tick.headers,
                }
            }
        };
        task.receive(record)?;
        task.process_next()?;
        let mut sends = task.take_sends();
        // Where they would stand is no matter here.
        while task.has_later_rounds() {
            task.fence(&[])?;
            sends.append(&mut task.take_sends());
        }
        let changes = task.finish_step(&[])?.fold;
        Ok(Done { sends, changes })
    }
}

/// Which clause an error is a breach of.
fn clause_of(error: &TaskError) -> Clause {
    if let Some(refusal) = error.refusal() {
        return match refusal.code {
            RefusalCode::UndeclaredSink => Clause::SinkDeclared,
            RefusalCode::ReservedHeader => Clause::HeaderFree,
            _ => Clause::LogicTakesAll,
        };
    }
    match error.application().map(|failure| failure.kind) {
        Some(FailureKind::Decode) => Clause::CodecTakesAll,
        Some(FailureKind::Encode) => Clause::OutputWrites,
        Some(FailureKind::State) => Clause::StateComesBack,
        _ => Clause::LogicTakesAll,
    }
}

impl Outcome {
    pub(super) fn changes(&self) -> Option<Changes> {
        match self {
            Self::Done(done) => Some(done.changes.clone()),
            Self::Failed { .. } => None,
        }
    }

    /// In what another run of the same case differs. The words of a failure may.
    pub(super) fn difference(&self, again: &Self) -> Option<String> {
        match (self, again) {
            (Self::Done(first), Self::Done(second)) => {
                let differing = first.sends.iter().zip(&second.sends);
                if let Some((send, _)) = differing.into_iter().find(|(a, b)| a != b) {
                    return Some(format!(
                        "the second time a send to {} was another",
                        send.topic
                    ));
                }
                let (sends, again) = (first.sends.len(), second.sends.len());
                if sends != again {
                    return Some(format!("{sends} sends, and {again} the second time"));
                }
                (first.changes != second.changes)
                    .then(|| "the second time it left another state".to_owned())
            }
            (Self::Failed { clause, .. }, Self::Failed { clause: again, .. }) => {
                (clause != again).then(|| "it failed in two ways".to_owned())
            }
            _ => Some("it failed in one run of two".to_owned()),
        }
    }
}
