//! The vertical lines of a diagram: whom they stand for, and in which order.

use crate::trace::{Kind, Trace};

/// What stands behind a vertical line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A task: its steps commit or are undone.
    Task,
    /// An edge client.
    Client,
    /// Actors that the trace names by a number it has no name for.
    Unknown,
    /// The log itself.
    Log,
}

/// One vertical line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// The name above it.
    pub(crate) name: String,
    /// What stands behind it.
    pub(crate) role: Role,
}

/// All vertical lines, from left to right: the actors in the order of their numbers, unknown ones, the log.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    all: Vec<Column>,
    actors: usize,
}

impl Columns {
    /// The lines that a trace needs. Every actor has one, also without any event; the log only if something happened to it.
    pub(crate) fn of(trace: &Trace) -> Self {
        let actors = trace.actors.len();
        let mut started = vec![false; actors];
        let (mut unknown, mut log) = (false, false);
        for event in &trace.events {
            match event.actor {
                None => log = true,
                Some(actor) => match started.get_mut(actor) {
                    Some(started) => *started |= matches!(event.kind, Kind::Started { .. }),
                    None => unknown = true,
                },
            }
        }
        let mut all: Vec<Column> = trace
            .actors
            .iter()
            .zip(started)
            .map(|(name, started)| {
                let role = if started || is_task(name) {
                    Role::Task
                } else {
                    Role::Client
                };
                Column {
                    name: name.clone(),
                    role,
                }
            })
            .collect();
        if unknown {
            all.push(Column {
                name: "?".to_owned(),
                role: Role::Unknown,
            });
        }
        if log {
            all.push(Column {
                name: "log".to_owned(),
                role: Role::Log,
            });
        }
        Self { all, actors }
    }

    /// The lines, from left to right.
    pub(crate) fn all(&self) -> &[Column] {
        &self.all
    }

    /// The line of an event's actor.
    pub(crate) fn index(&self, actor: Option<usize>) -> usize {
        match actor {
            None => self.all.len().saturating_sub(1),
            Some(actor) => actor.min(self.actors),
        }
    }
}

/// Whether a name is a task's, `<stage>/<partition>`.
fn is_task(name: &str) -> bool {
    name.rsplit_once('/').is_some_and(|(stage, partition)| {
        !stage.is_empty() && !partition.is_empty() && partition.bytes().all(|b| b.is_ascii_digit())
    })
}
