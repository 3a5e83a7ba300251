//! What orders a simulated task's records: the real `Task`, the real bare `Node`, or a model with a broken rule. The host above drives
//! them all alike.

mod bare;
mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parsley_core::{
    Changes, Channel, Hold, Mark, MemoryStore, NodeError, Offset, Receipt, Record, StateStore,
    StoreError, TopicId, Visit,
};
use parsley_stage::{Task, TaskError};

pub(crate) use bare::{Bare, BareConfig, NodeProtocol, Protocol};
pub(crate) use model::{ModelProtocol, SharedModel};

use crate::host::Stop;

/// A committed store, read by the running task and written by its host.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedStore(Arc<Mutex<MemoryStore>>);

impl SharedStore {
    /// A store with the same content, which goes its own way from here.
    pub fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.with(|store| store.clone()))))
    }

    /// Makes a step's changes fact.
    pub fn apply(&self, changes: Changes) {
        self.with(|store| store.apply(changes));
    }

    /// Loses the first key of this kind.
    pub fn lose_first(&self, is_lost: impl Fn(&[u8]) -> bool) {
        self.with(|store| {
            let mut lost = None;
            let scanned = store.scan(b"", b"", &mut |key, _| {
                if is_lost(key) {
                    lost = Some(key.to_vec());
                    return Visit::Break(());
                }
                Visit::Continue(())
            });
            if let (Ok(()), Some(key)) = (scanned, lost) {
                let _deleted = store.delete(&key);
            }
        });
    }

    /// Looks at the store.
    pub fn with<T>(&self, look: impl FnOnce(&mut MemoryStore) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl StateStore for SharedStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.with(|store| store.get(key))
    }
    fn put(&mut self, key: &[u8], value: Bytes) -> Result<(), StoreError> {
        self.with(|store| store.put(key, value))
    }
    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.with(|store| store.delete(key))
    }
    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], &Bytes) -> Visit,
    ) -> Result<(), StoreError> {
        self.with(|store| store.scan(prefix, from, visit))
    }
}

/// A delivery, by coordinate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handed {
    pub channel: Channel,
    pub offset: Offset,
    pub was_held: bool,
}

/// A stamped send.
#[derive(Clone, Debug)]
pub(crate) struct Send {
    pub record: Record,
}

/// What a finished step makes durable.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    pub positions: Vec<(Channel, Offset)>,
    pub ordering: Changes,
    pub fold: Changes,
}

/// A mark, of whichever protocol.
#[derive(Clone, Debug)]
pub(crate) enum AnyMark {
    Node(Mark),
    Model(parsley_model::Mark),
}

/// One running task.
pub(crate) enum Engine {
    Task(Box<Task>),
    Node(Box<Bare<NodeProtocol>>),
    Model(Bare<ModelProtocol>),
}

macro_rules! each {
    ($engine:expr, $task:ident => $of_task:expr, $bare:ident => $of_bare:expr) => {
        match $engine {
            Engine::Task($task) => $of_task,
            Engine::Node($bare) => $of_bare,
            Engine::Model($bare) => $of_bare,
        }
    };
}

impl Engine {
    pub fn receive(&mut self, record: Record) -> Result<Receipt, Stop> {
        let outcome =
            each!(self, task => Ok(task.receive(record)?), bare => bare.protocol.receive(record));
        self.stays_refused(outcome)
    }

    /// A guard stops the whole node: asked once more, it has to refuse as before.
    fn stays_refused<T>(&mut self, outcome: Result<T, Stop>) -> Result<T, Stop> {
        // A model that has refused is stopped already.
        if matches!(self, Self::Model(_)) || !matches!(outcome, Err(Stop::Refused { .. })) {
            return outcome;
        }
        match (self.process_next(), &outcome) {
            (Err(Stop::Refused { code: again, .. }), Err(Stop::Refused { code, .. }))
                if again == *code =>
            {
                outcome
            }
            (after, _) => Err(Stop::Failed(format!("went on after a refusal: {after:?}"))),
        }
    }

    pub fn advance(&mut self, channel: Channel, next: Offset) -> Result<(), Stop> {
        each!(self, task => Ok(task.advance(channel, next)?), bare => bare.protocol.advance(channel, next))
    }

    pub fn process_next(&mut self) -> Result<Option<Handed>, Stop> {
        each!(self, task => {
            let processed = task.process_next()?;
            Ok(processed.map(|processed| Handed {
                channel: processed.channel,
                offset: processed.offset,
                was_held: processed.was_held,
            }))
        }, bare => bare.process_next())
    }

    pub fn take_sends(&mut self) -> Vec<Send> {
        each!(self, task => {
            let sends = task.take_sends().into_iter();
            sends.map(|send| Send {
                record: Record {
                    channel: send.channel,
                    offset: 0,
                    timestamp_ms: send.timestamp_ms,
                    key: send.key,
                    value: send.value,
                    headers: send.headers,
                },
            }).collect()
        }, bare => bare.take_sends())
    }

    pub fn step_is_full(&self) -> bool {
        each!(self, task => task.step_is_full(), bare => bare.step_is_full())
    }

    pub fn has_later_rounds(&self) -> bool {
        each!(self, task => task.has_later_rounds(), bare => bare.has_later_rounds())
    }

    pub fn fence(&mut self, acks: &[(Channel, Offset)]) -> Result<(), Stop> {
        each!(self, task => Ok(task.fence(acks)?), bare => bare.fence(acks))
    }

    pub fn finish(&mut self, acks: &[(Channel, Offset)]) -> Result<Finished, Stop> {
        each!(self, task => {
            let step = task.finish_step(acks)?;
            Ok(Finished { positions: step.positions, ordering: step.ordering, fold: step.fold })
        }, bare => bare.finish(acks))
    }

    pub fn committed(&mut self) {
        each!(self, task => task.step_committed(), bare => bare.committed());
    }

    /// A tick joins the step. `false` when the stage declares none.
    pub fn tick(&mut self, timestamp_ms: i64) -> Result<bool, Stop> {
        each!(self, task => {
            let ticks = task.stage().tick_topic().is_some();
            if ticks {
                task.tick(timestamp_ms)?;
            }
            Ok(ticks)
        }, bare => bare.tick(timestamp_ms))
    }

    pub fn mark(&mut self) -> AnyMark {
        match self {
            Self::Task(task) => AnyMark::Node(task.mark()),
            Self::Node(bare) => bare.protocol.mark(),
            Self::Model(bare) => bare.protocol.mark(),
        }
    }

    pub fn watermarks(
        &mut self,
        mark: &AnyMark,
        watermarks: &BTreeMap<Channel, Offset>,
    ) -> Result<(), Stop> {
        match (self, mark) {
            (Self::Task(task), AnyMark::Node(mark)) => Ok(task.watermarks(mark, watermarks)?),
            (Self::Task(_), AnyMark::Model(_)) => Ok(()),
            (Self::Node(bare), mark) => bare.protocol.watermarks(mark, watermarks),
            (Self::Model(bare), mark) => bare.protocol.watermarks(mark, watermarks),
        }
    }

    pub fn check(
        &mut self,
        log_starts: &BTreeMap<Channel, Offset>,
        gone: &BTreeSet<TopicId>,
    ) -> Result<(), Stop> {
        let outcome = each!(self, task => Ok(task.check(log_starts, gone)?), bare => bare.protocol.check(log_starts, gone));
        self.stays_refused(outcome)
    }

    pub fn truncate(
        &mut self,
        drop_below: &BTreeMap<Channel, Offset>,
        drop_gone: &BTreeSet<TopicId>,
    ) -> Result<(), Stop> {
        each!(self, task => Ok(task.truncate(drop_below, drop_gone)?), bare => bare.protocol.truncate(drop_below, drop_gone))
    }

    /// Writes all that the task has in memory, as text.
    pub fn write_memory(&self, out: &mut impl fmt::Write) -> fmt::Result {
        each!(self, task => write!(out, "{:?}", task.in_memory()), bare => write!(out, "{:?}", bare.in_memory()))
    }

    pub fn stamp_channels(&self) -> Vec<Channel> {
        each!(self, task => task.stamp_channels(), bare => bare.protocol.stamp_channels())
    }

    pub fn holds(&self) -> Vec<Hold> {
        each!(self, task => task.holds(), bare => bare.protocol.holds())
    }

    pub fn held(&self) -> u64 {
        each!(self, task => task.held(), bare => bare.protocol.held())
    }

    /// The channels whose watermarks may free a head, and those that stamps claim by sequence.
    pub fn evidence_channels(&self) -> (BTreeSet<Channel>, BTreeSet<Channel>) {
        each!(self,
            task => (task.channels_waited_for_by_sequence(), task.channels_claimed_by_sequence()),
            bare => bare.protocol.evidence_channels())
    }
}

impl From<TaskError> for Stop {
    fn from(error: TaskError) -> Self {
        match error {
            TaskError::Refused(refusal) => Self::Refused {
                code: refusal.code.as_str().to_owned(),
                found: refusal.to_string(),
            },
            TaskError::Application(_) => Self::Crashed,
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<NodeError> for Stop {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Refused(refusal) => Self::Refused {
                code: refusal.code.as_str().to_owned(),
                found: refusal.to_string(),
            },
            other => Self::Failed(other.to_string()),
        }
    }
}
