//! Watches the application from outside: judges each delivery, follows what is held, and compares the views with the commands.

use std::collections::BTreeMap;
use std::sync::Arc;

use parsley::core::Offset;
use parsley::embedded::{Consumer, DeliveryEvent, HoldEvent, Host};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::command::Command;
use super::error::DemoError;
use super::feed::Fed;
use super::gate::Gate;
use super::holds::{Cause, Held, Holds};
use super::judge::{Judge, Role, Verdict};
use super::mirror::Mirror;
use super::topology::{
    At, COMMANDER, COMMANDS, EVENTS, FINDINGS, Finding, PROJECTOR, RECONCILER, VIEWS, View,
};
use super::trace::{Trace, TraceFile};

/// After how many commands the log is made to forget what everybody has read.
const FORGET_EVERY: u64 = 5000;

/// Which stages deliver each topic.
const READERS: [(&str, &[&str]); 3] = [
    (COMMANDS, &[COMMANDER, RECONCILER]),
    (EVENTS, &[PROJECTOR]),
    (VIEWS, &[RECONCILER]),
];

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
    /// The most that waited at once.
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

/// Watches the application.
pub struct Auditor {
    host: Host,
    gate: Arc<Gate>,
    commands: Mirror,
    views: Mirror,
    findings: Consumer,
    trace: Option<Trace>,
    judges: BTreeMap<(Arc<str>, i32), Judge>,
    holds: Holds,
    summary: Summary,
    /// The commands whose view has not come, by partition and offset.
    asked: BTreeMap<(i32, Offset), Command>,
    /// The last view of each account.
    shown: BTreeMap<String, u64>,
    /// How many commands have come out as views.
    done: u64,
    objections: u64,
    last: BTreeMap<(Arc<str>, Arc<str>, i32), Offset>,
}

impl Auditor {
    /// Watches the application that will run on a host, and writes a trace if there is a file for it. The topics have to exist.
    pub fn new(host: Host, gate: Arc<Gate>, trace: Option<TraceFile>) -> Result<Self, DemoError> {
        Ok(Self {
            commands: Mirror::new(&host, COMMANDS, 1)?,
            views: Mirror::new(&host, VIEWS, 1)?,
            findings: host.consumer(FINDINGS)?,
            trace: trace.map(|file| Trace::begin(file, &host)).transpose()?,
            host,
            gate,
            judges: BTreeMap::new(),
            holds: Holds::default(),
            summary: Summary::default(),
            asked: BTreeMap::new(),
            shown: BTreeMap::new(),
            done: 0,
            objections: 0,
            last: BTreeMap::new(),
        })
    }

    /// A record has to wait.
    pub fn held(&mut self, event: &HoldEvent) {
        self.holds.held(event);
    }

    /// A record was delivered. Returns what it waited for, if it had to.
    pub fn delivered(&mut self, event: &DeliveryEvent) -> Result<Option<Held>, DemoError> {
        let (stage, topic) = (&*event.stage, &*event.topic);
        let view: Option<View> = match (stage, topic) {
            (RECONCILER, VIEWS) => Some(value(&mut self.views, event)?),
            (RECONCILER, COMMANDS) => {
                let command = value(&mut self.commands, event)?;
                self.asked
                    .insert((event.channel.partition, event.offset), command);
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
                partition: event.partition,
                offset: view.command,
            },
            command: self.asked.remove(&(event.partition, view.command)),
        });
        let judge = self
            .judges
            .entry((Arc::clone(&event.stage), event.partition))
            .or_default();
        // Every record arrives in the one execution that delivers it.
        let arrival = event.arrival.unwrap_or(0);
        let verdict: Verdict = judge.delivered(&event.topic, event.offset, arrival, role);
        self.summary.delivered += 1;
        self.summary.inversions_prevented += u64::from(verdict.is_prevented());
        self.summary.inversions_delivered += u64::from(verdict.is_inversion);
        if let Some(trace) = &mut self.trace {
            trace.delivered(event, verdict.handed)?;
        }
        let held = self.holds.delivered(event, cause, &verdict);
        self.last.insert(
            (
                Arc::clone(&event.stage),
                Arc::clone(&event.topic),
                event.channel.partition,
            ),
            event.offset,
        );
        if let Some(view) = view {
            let account = String::from_utf8_lossy(event.key.as_deref().unwrap_or_default());
            match self.shown.get_mut(&*account) {
                Some(balance) => *balance = view.balance,
                None => {
                    self.shown.insert(account.into_owned(), view.balance);
                }
            }
            self.done += 1;
            if self.done.is_multiple_of(FORGET_EVERY) {
                self.forget()?;
            }
            self.gate.leave();
        }
        Ok(held)
    }

    /// Hands out what was traced so far.
    pub fn flush(&mut self) -> Result<(), DemoError> {
        self.trace.as_mut().map_or(Ok(()), Trace::flush)
    }

    /// How it all came out, once everything is delivered.
    pub fn end(mut self, fed: &Fed) -> Result<Summary, DemoError> {
        self.read_findings()?;
        self.flush()?;
        Ok(Summary {
            commands: fed.commands,
            malformed: fed.malformed,
            held: self.holds.held,
            held_max: self.holds.held_max,
            views_match: self.objections == 0
                && self.done == fed.commands
                && fed.balances.are(&self.shown),
            ..self.summary
        })
    }

    /// What the reconciler objects to. An inversion is counted where it is seen; here it counts against the views.
    fn read_findings(&mut self) -> Result<(), DemoError> {
        loop {
            let records = self.findings.poll_now()?;
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
        let topics = self.host.log().topics();
        for (topic, readers) in READERS {
            let Some(&id) = topics.get(topic) else {
                continue;
            };
            for partition in 0..self.host.log().partition_count(id).unwrap_or(0) {
                let delivered = readers.iter().map(|&stage| {
                    self.last
                        .get(&(Arc::from(stage), Arc::from(topic), partition))
                        .copied()
                });
                if let Some(Some(all)) = delivered.min() {
                    self.host
                        .log()
                        .delete_records(id.partition(partition), all)?;
                }
            }
        }
        Ok(())
    }
}

/// What a record says that was delivered.
fn value<T: DeserializeOwned>(topic: &mut Mirror, event: &DeliveryEvent) -> Result<T, DemoError> {
    let record = topic.take(event.channel.partition, event.offset)?;
    serde_json::from_slice(&record.value).map_err(|error| DemoError::Record {
        topic: event.topic.to_string(),
        partition: event.channel.partition,
        offset: event.offset,
        reason: error.to_string(),
    })
}
