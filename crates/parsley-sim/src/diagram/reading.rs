//! What a trace says between its lines: which event follows from which, what became of a send, how long a record was held,
//! and when a task was down.

use std::collections::BTreeMap;

use super::columns::{Columns, Role};
use crate::trace::{At, Kind, Trace};

/// What became of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its transaction committed.
    Committed,
    /// Its transaction aborted, or its task ended before it could commit.
    Aborted,
    /// The trace ends before either.
    Undecided,
    /// It was part of no transaction.
    Appended,
}

impl Fate {
    /// The fate in a word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Aborted => "aborted",
            Self::Undecided => "not yet committed",
            Self::Appended => "appended",
        }
    }
}

/// How a stretch of holding ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldEnd {
    /// The record was delivered.
    Delivered,
    /// Its task went down.
    Down,
    /// The trace ended.
    Trace,
}

/// A stretch of time in which a task held a record: a hold that outlives an execution has one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// Where.
    pub(crate) column: usize,
    /// Which.
    pub(crate) at: At,
    /// The event that received the record, in this execution or an earlier one.
    pub(crate) received: usize,
    /// The event with which the stretch begins.
    pub(crate) from: usize,
    /// The event with which it ends; the number of events if the trace ended first.
    pub(crate) to: usize,
    /// How it ended.
    pub(crate) end: HoldEnd,
}

/// A stretch of time in which a task was down: from the event that stopped it to the one that started it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Down {
    /// Whose.
    pub(crate) column: usize,
    /// The event that stopped it; `None` for the time before its first start.
    pub(crate) from: Option<usize>,
    /// The event that started it; `None` if none did.
    pub(crate) to: Option<usize>,
}

/// A trace with its events linked. Events are named by their place in [`Trace::events`].
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// The lines.
    pub(crate) columns: Columns,
    /// For each event, its line.
    pub(crate) column: Vec<usize>,
    /// For each event that concerns a record, the event that sent it, if the trace has it.
    pub(crate) send: Vec<Option<usize>>,
    /// For each event, the one that it follows from, always an earlier one. Of a send it is the last delivery to its sender that
    /// its clock covers, since sends may be stamped before deliveries that the trace shows before them; where it covers none, the last
    /// delivery of all. One that was undone is no cause. Of anything else that concerns a record it is the record's send.
    pub(crate) cause: Vec<Option<usize>>,
    /// For each send, what became of it.
    pub(crate) fate: Vec<Option<Fate>>,
    /// The holds, in the order in which their stretches ended.
    pub(crate) holds: Vec<Hold>,
    /// When tasks were down.
    pub(crate) downs: Vec<Down>,
    /// What blocked a record at an actor: line and record, then event and claim.
    pub(crate) blocks: BTreeMap<(usize, At), Vec<usize>>,
}

/// A record that was received and not delivered.
#[derive(Clone, Copy, Debug)]
struct Kept {
    received: usize,
    from: usize,
    committed: bool,
}

/// What is known of one line at one moment.
#[derive(Clone, Debug, Default)]
struct Line {
    /// Sends since the last commit.
    sends: Vec<usize>,
    /// The deliveries that were not undone, and how many of them were committed.
    delivered: Vec<usize>,
    delivered_for_good: usize,
    /// Records in the buffer.
    kept: BTreeMap<At, Kept>,
    /// Records with a committed receipt that were delivered since the last commit.
    taken: BTreeMap<At, Kept>,
    /// The event that stopped it, while it is down.
    stopped: Option<usize>,
    /// Whether an execution of it has begun.
    started: bool,
}

/// The record that an event concerns.
pub(crate) fn record(kind: &Kind) -> Option<At> {
    match kind {
        Kind::Sent { at, .. }
        | Kind::Received { at }
        | Kind::Dropped { at }
        | Kind::Held { at, .. }
        | Kind::Delivered { at, .. } => Some(*at),
        _ => None,
    }
}

impl Reading {
    /// Reads a trace.
    pub(crate) fn of(trace: &Trace) -> Self {
        let columns = Columns::of(trace);
        let events = trace.events.len();
        let mut lines = vec![Line::default(); columns.all().len()];
        let mut sends: BTreeMap<At, usize> = BTreeMap::new();
        let mut reading = Self {
            column: trace
                .events
                .iter()
                .map(|event| columns.index(event.actor))
                .collect(),
            columns,
            send: vec![None; events],
            cause: vec![None; events],
            fate: vec![None; events],
            holds: Vec::new(),
            downs: Vec::new(),
            blocks: BTreeMap::new(),
        };
        for (i, event) in trace.events.iter().enumerate() {
            let column = reading.column[i];
            let is_task = reading.columns.all()[column].role == Role::Task;
            let line = &mut lines[column];
            if let Some(at) = record(&event.kind) {
                if let Kind::Sent { clock, .. } = &event.kind {
                    sends.insert(at, i);
                    reading.cause[i] = cause(trace, &line.delivered, clock);
                } else {
                    reading.cause[i] = sends.get(&at).copied();
                }
                reading.send[i] = sends.get(&at).copied();
            }
            reading.step(i, column, is_task, line, &event.kind);
        }
        for (column, line) in lines.iter_mut().enumerate() {
            let is_task = reading.columns.all()[column].role == Role::Task;
            reading.end(column, is_task, line, events);
        }
        reading
    }

    /// What an event changes for its line.
    fn step(&mut self, i: usize, column: usize, is_task: bool, line: &mut Line, kind: &Kind) {
        match kind {
            Kind::Started { .. } => {
                if line.stopped.is_none() {
                    self.undo(column, line, i);
                }
                let stopped = line.stopped.take();
                if stopped.is_some() || !line.started {
                    self.downs.push(Down {
                        column,
                        from: stopped.filter(|_| line.started),
                        to: Some(i),
                    });
                }
                line.started = true;
                for kept in line.kept.values_mut() {
                    kept.from = i;
                }
            }
            Kind::Crashed { .. } | Kind::Refused { .. } => {
                line.stopped.get_or_insert(i);
                if is_task {
                    self.settle(line, Fate::Aborted);
                    self.undo(column, line, i);
                }
            }
            Kind::Sent { .. } => {
                line.sends.push(i);
                self.fate[i] = Some(if is_task {
                    Fate::Undecided
                } else {
                    Fate::Appended
                });
            }
            Kind::Committed => {
                self.settle(line, Fate::Committed);
                line.delivered_for_good = line.delivered.len();
                line.taken.clear();
                line.kept
                    .values_mut()
                    .for_each(|kept| kept.committed = true);
            }
            Kind::Aborted => {
                self.settle(line, Fate::Aborted);
                if is_task && line.stopped.is_none() {
                    line.delivered.truncate(line.delivered_for_good);
                }
            }
            Kind::Received { at } => {
                let kept = Kept {
                    received: i,
                    from: i,
                    committed: false,
                };
                line.kept.entry(*at).or_insert(kept);
            }
            Kind::Held { at, .. } => self.blocks.entry((column, *at)).or_default().push(i),
            Kind::Delivered { at, was_held } => {
                line.delivered.push(i);
                if !is_task {
                    line.delivered_for_good = line.delivered.len();
                }
                if let Some(kept) = line.kept.remove(at) {
                    if *was_held || self.was_blocked(column, *at, kept.received) {
                        self.holds
                            .push(stretch(column, *at, kept, i, HoldEnd::Delivered));
                    }
                    if kept.committed {
                        line.taken.insert(*at, kept);
                    }
                }
            }
            Kind::Dropped { .. } | Kind::Advanced { .. } | Kind::Note(_) => {}
        }
    }

    /// Gives the sends since the last commit their fate.
    fn settle(&mut self, line: &mut Line, fate: Fate) {
        for send in line.sends.drain(..) {
            self.fate[send] = Some(fate);
        }
    }

    /// Takes back what a task did since its last commit.
    fn undo(&mut self, column: usize, line: &mut Line, i: usize) {
        line.delivered.truncate(line.delivered_for_good);
        for (&at, &kept) in &line.kept {
            if kept.committed || self.was_blocked(column, at, kept.received) {
                self.holds.push(stretch(column, at, kept, i, HoldEnd::Down));
            }
        }
        line.kept.retain(|_, kept| kept.committed);
        line.kept.append(&mut line.taken);
    }

    /// What is still so when the trace ends.
    fn end(&mut self, column: usize, is_task: bool, line: &mut Line, events: usize) {
        let never_started = is_task && !line.started;
        if line.stopped.is_some() || never_started {
            self.downs.push(Down {
                column,
                from: line.stopped.filter(|_| !never_started),
                to: None,
            });
        }
        if line.stopped.is_some() {
            return;
        }
        for (&at, &kept) in &line.kept {
            if kept.committed || self.was_blocked(column, at, kept.received) {
                self.holds
                    .push(stretch(column, at, kept, events, HoldEnd::Trace));
            }
        }
    }

    /// Whether a record was reported as held at an actor since an event.
    fn was_blocked(&self, column: usize, at: At, since: usize) -> bool {
        self.blocks
            .get(&(column, at))
            .is_some_and(|events| events.iter().any(|&i| i >= since))
    }
}

/// The delivery that a send with this clock follows from.
fn cause(trace: &Trace, delivered: &[usize], clock: &str) -> Option<usize> {
    let claims: BTreeMap<&str, i64> = clock
        .split(", ")
        .filter_map(|claim| claim.rsplit_once("<="))
        .filter_map(|(channel, offset)| Some((channel, offset.parse().ok()?)))
        .collect();
    let covered = |&i: &usize| {
        record(&trace.events[i].kind).is_some_and(|at| {
            claims
                .get(trace.channel(at.channel))
                .is_some_and(|&offset| at.offset <= offset)
        })
    };
    let last_covered = delivered.iter().rev().copied().find(covered);
    last_covered.or_else(|| delivered.last().copied())
}

fn stretch(column: usize, at: At, kept: Kept, to: usize, end: HoldEnd) -> Hold {
    Hold {
        column,
        at,
        received: kept.received,
        from: kept.from,
        to,
        end,
    }
}
