//! Watches the application by its account of deliveries: judges each, follows what is held, and compares the views with the commands.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parsley::core::{Channel, Offset, Record};
use parsley::{AuditRecord, Audited};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::command::Command;
use super::error::DemoError;
use super::feed::Fed;
use super::gate::Gate;
use super::ground::{Ground, LogReader};
use super::holds::{Cause, Held, Holds, Until, Waiting};
use super::judge::{Judge, Role, Verdict};
use super::mirror::Mirror;
use super::retention::Retention;
use super::topology::{AUDIT, At, COMMANDS, FINDINGS, Finding, RECONCILER, VIEWS, View};
use super::trace::{Trace, TraceFile};

/// How it all came out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Commands fed.
    pub commands: u64,
    /// Lines of input that were none.
    pub malformed: u64,
    /// Deliveries at all stages.
    pub delivered: u64,
    /// Records that had to wait.
    pub held: u64,
    /// The most that waited at once in one partition of a stage.
    pub held_max: u64,
    /// Deliveries at the reconciler that would have come before their cause in the order of arrival.
    pub inversions_prevented: u64,
    /// Deliveries that did come before their cause, at any stage.
    pub inversions_delivered: u64,
    /// Whether the views are what the commands come to.
    pub views_match: bool,
}

impl Summary {
    /// Whether everything came out as it has to.
    pub fn is_good(&self) -> bool {
        self.inversions_delivered == 0 && self.views_match
    }
}

/// A delivery, as the account tells of it.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// The stage.
    pub stage: Arc<str>,
    /// The stage's partition.
    pub partition: i32,
    /// The record's topic.
    pub topic: Arc<str>,
    /// The record's channel.
    pub channel: Channel,
    /// The record's offset.
    pub offset: Offset,
    /// The record's key.
    pub key: Option<Bytes>,
    /// The record's clock.
    pub clock: Bytes,
    /// What it waited for, if it had to.
    pub held_until: Option<Until>,
}

impl Delivered {
    fn at(&self) -> At {
        At {
            topic: self.topic.to_string(),
            partition: self.channel.partition,
            offset: self.offset,
        }
    }

    /// The key as text.
    pub fn account(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.key.as_deref().unwrap_or_default())
    }
}

/// What is followed of one task.
#[derive(Debug, Default)]
struct TaskFollowed {
    judge: Judge,
    holds: Holds,
}

/// Watches the application.
pub struct Auditor {
    gate: Arc<Gate>,
    entries: Box<dyn LogReader>,
    commands: Mirror,
    views: Mirror,
    findings: Box<dyn LogReader>,
    trace: Option<Trace>,
    retention: Option<Retention>,
    tasks: BTreeMap<(Arc<str>, i32), TaskFollowed>,
    summary: Summary,
    /// The commands whose view has not come, by partition and offset.
    asked: BTreeMap<(i32, Offset), Command>,
    /// The last view of each account.
    shown: BTreeMap<String, u64>,
    /// How many commands have come out as views.
    done: u64,
    objections: u64,
}

impl Auditor {
    /// Watches the application that runs on a ground, from its first delivery on, and writes a trace if there is a file for it. Where the
    /// log forgets, it forgets what was seen.
    pub fn new(
        ground: &dyn Ground,
        gate: Arc<Gate>,
        trace: Option<TraceFile>,
    ) -> Result<Self, DemoError> {
        Ok(Self {
            gate,
            entries: ground.reader(AUDIT)?,
            commands: Mirror::new(ground, COMMANDS, 1)?,
            views: Mirror::new(ground, VIEWS, 1)?,
            findings: ground.reader(FINDINGS)?,
            trace: trace.map(|file| Trace::begin(file, ground)).transpose()?,
            retention: ground.retention(),
            tasks: BTreeMap::new(),
            summary: Summary::default(),
            asked: BTreeMap::new(),
            shown: BTreeMap::new(),
            done: 0,
            objections: 0,
        })
    }

    /// Reads on in the account, by one portion. Tells of each record that had to wait when it is delivered. Returns whether there was
    /// anything.
    pub fn read<E: From<DemoError>>(
        &mut self,
        on_held: impl FnMut(Held) -> Result<(), E>,
    ) -> Result<bool, E> {
        let entries = self.entries.poll_now()?;
        self.entries(entries, on_held)
    }

    /// Reads all that the account has by now.
    pub fn read_to_end<E: From<DemoError>>(
        &mut self,
        mut on_held: impl FnMut(Held) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let entries = self.entries.read_on()?;
            if !self.entries(entries, &mut on_held)? {
                return Ok(());
            }
        }
    }

    /// How many records wait, as far as the account was read.
    pub fn waiting(&self) -> usize {
        let waiting = self.tasks.values().map(|task| task.holds.waiting());
        waiting.sum()
    }

    fn entries<E: From<DemoError>>(
        &mut self,
        entries: Vec<Record>,
        mut on_held: impl FnMut(Held) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.commands.has_news();
        self.views.has_news();
        if let Some(trace) = &mut self.trace {
            trace.has_news();
        }
        for entry in &entries {
            if let Some(held) = self.entry(entry)? {
                on_held(held)?;
            }
        }
        if let Some(retention) = &mut self.retention
            && retention.falls_due(self.done)
        {
            self.forget()?;
        }
        Ok(!entries.is_empty())
    }

    /// Takes an entry of the account. Returns what was held, if it tells of its delivery.
    fn entry(&mut self, record: &Record) -> Result<Option<Held>, DemoError> {
        let corrupt = |reason: String| DemoError::Record {
            topic: AUDIT.to_owned(),
            partition: record.channel.partition,
            offset: record.offset,
            reason,
        };
        let AuditRecord {
            stage,
            partition,
            execution,
            topic,
            channel,
            offset,
            audited,
        } = AuditRecord::decode(record.value.as_deref())
            .map_err(|error| corrupt(error.to_string()))?;
        let task = self
            .tasks
            .entry((Arc::clone(&stage), partition))
            .or_default();
        match audited {
            Audited::Held {
                arrival,
                head,
                waits,
            } => {
                let at = At {
                    topic: topic.to_string(),
                    partition: channel.partition,
                    offset,
                };
                let waiting = Waiting {
                    arrival: task.holds.arrived(execution, arrival),
                    until: Until::of(&at, head, &waits),
                };
                task.holds.held(channel, offset, waiting);
                self.summary.held += 1;
                self.summary.held_max = self.summary.held_max.max(task.holds.max);
                Ok(None)
            }
            Audited::Delivered {
                arrival,
                key,
                clock,
                ..
            } => {
                let (arrival, held_until) = match arrival {
                    Some(arrival) => (task.holds.arrived(execution, arrival), None),
                    None => {
                        let waiting = task.holds.released(channel, offset).ok_or_else(|| {
                            corrupt(
                                "a record is delivered that was held, and nothing tells of that"
                                    .to_owned(),
                            )
                        })?;
                        (waiting.arrival, Some(waiting.until))
                    }
                };
                let delivered = Delivered {
                    stage,
                    partition,
                    topic,
                    channel,
                    offset,
                    key,
                    clock,
                    held_until,
                };
                self.delivered(delivered, arrival)
            }
        }
    }

    fn delivered(&mut self, delivered: Delivered, arrival: u64) -> Result<Option<Held>, DemoError> {
        let (stage, topic) = (&*delivered.stage, &*delivered.topic);
        let view: Option<View> = match (stage, topic) {
            (RECONCILER, VIEWS) => Some(value(&mut self.views, &delivered)?),
            (RECONCILER, COMMANDS) => {
                let command = value(&mut self.commands, &delivered)?;
                self.asked
                    .insert((delivered.channel.partition, delivered.offset), command);
                None
            }
            _ => None,
        };
        let role = match view {
            Some(view) => Role::Effect(view.command),
            None if stage == RECONCILER => Role::Cause,
            None => Role::Alone,
        };
        // Commands, events and views of an account are on partitions of one number: they have one key.
        let cause = view.map(|view| Cause {
            at: At {
                topic: COMMANDS.to_owned(),
                partition: delivered.partition,
                offset: view.command,
            },
            command: self.asked.remove(&(delivered.partition, view.command)),
        });
        let verdict = self
            .tasks
            .entry((Arc::clone(&delivered.stage), delivered.partition))
            .or_default()
            .judge
            .delivered(&delivered.topic, delivered.offset, arrival, role);
        self.summary.delivered += 1;
        self.summary.inversions_prevented += u64::from(verdict.is_prevented());
        self.summary.inversions_delivered += u64::from(verdict.is_inversion);
        if let Some(trace) = &mut self.trace {
            trace.delivered(&delivered, verdict.handed)?;
        }
        if let Some(retention) = &mut self.retention {
            retention.delivered(&delivered);
        }
        if let Some(view) = view {
            let account = delivered.account();
            match self.shown.get_mut(&*account) {
                Some(balance) => *balance = view.balance,
                None => {
                    self.shown.insert(account.into_owned(), view.balance);
                }
            }
            self.done += 1;
            self.gate.leave();
        }
        Ok(held(delivered, cause, &verdict))
    }

    /// Hands out what was traced so far.
    pub fn flush(&mut self) -> Result<(), DemoError> {
        self.trace.as_mut().map_or(Ok(()), Trace::flush)
    }

    /// How it all came out, once everything is delivered and read.
    pub fn end(mut self, fed: &Fed) -> Result<Summary, DemoError> {
        self.read_findings()?;
        self.flush()?;
        Ok(Summary {
            commands: fed.commands,
            malformed: fed.malformed,
            views_match: self.objections == 0
                && self.done == fed.commands
                && fed.balances.are(&self.shown),
            ..self.summary
        })
    }

    /// What the reconciler objects to. An inversion is counted where it is seen; here it counts against the views.
    fn read_findings(&mut self) -> Result<(), DemoError> {
        loop {
            let records = self.findings.read_on()?;
            if records.is_empty() {
                return Ok(());
            }
            let objections = records.iter().filter(|record| {
                serde_json::from_slice::<Finding>(record.value.as_deref().unwrap_or_default())
                    .is_ok()
            });
            self.objections += objections.count() as u64;
        }
    }

    /// Has the log forget what all stages have delivered and all who look on have read, so that a long input fits.
    fn forget(&mut self) -> Result<(), DemoError> {
        self.read_findings()?;
        self.commands.catch_up()?;
        self.views.catch_up()?;
        if let Some(trace) = &mut self.trace {
            trace.catch_up()?;
        }
        match &self.retention {
            Some(retention) => retention.forget(&self.entries.positions()),
            None => Ok(()),
        }
    }
}

fn held(delivered: Delivered, cause: Option<Cause>, verdict: &Verdict) -> Option<Held> {
    let (record, key) = (delivered.at(), delivered.account().into_owned());
    Some(Held {
        until: delivered.held_until?,
        stage: delivered.stage,
        record,
        key,
        handed: verdict.handed,
        cause,
        cause_handed: verdict.cause,
        is_prevented: verdict.is_prevented(),
    })
}

/// What a record says that was delivered.
fn value<T: DeserializeOwned>(topic: &mut Mirror, delivered: &Delivered) -> Result<T, DemoError> {
    let record = topic.take(delivered.channel.partition, delivered.offset)?;
    serde_json::from_slice(&record.value).map_err(|error| DemoError::Record {
        topic: delivered.topic.to_string(),
        partition: delivered.channel.partition,
        offset: delivered.offset,
        reason: error.to_string(),
    })
}
