//! A host of real tasks over the simulated broker: what a production host does, one choice at a time.
//!
//! It can be told to shirk a duty ([`HostFault`]) or to run a protocol with a broken rule; the suite has to notice.

mod digest;
mod facts;
mod run;
mod sweep;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use parsley_core::{Channel, Hold, Offset, Record, StateStore, TopicId};
use parsley_model::Broken;
use parsley_stage::fold;

use crate::broker::{Outcome, SimBroker, Txn};
use crate::engine::{SharedModel, SharedStore};
use crate::fault::HostFault;
use crate::host::{
    AppendMode, ConformanceHost, Deployment, EdgeTransaction, Ends, Event, Move, Setting, Started,
    StepPlan, Stop, TaskNo,
};
use crate::plan::Durable;

pub(crate) use digest::tell;
use run::Run;

/// Whether a key of the ordering state is that of a held record.
fn is_held_record(key: &[u8]) -> bool {
    key.starts_with(b"q/") && key.windows(3).any(|part| part == b"/e/")
}

/// What is wrong with a host on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// Nothing: the real protocol under a host that keeps its duties.
    #[default]
    None,
    /// A rule of the protocol is broken: the naive model orders the records.
    Protocol(Broken),
    /// A duty of the host is shirked.
    Host(HostFault),
    /// Nothing, with the naive model in the place of the node.
    Model,
}

/// Hosts tasks over a [`SimBroker`].
pub struct TaskHost {
    setting: Setting,
    sabotage: Sabotage,
    broker: SimBroker,
    stages: BTreeMap<usize, Deployment>,
    tasks: Vec<Option<Slot>>,
    edge_transactions: BTreeMap<u64, Txn>,
    events: Vec<Event>,
    /// Topics that exist and do not resolve.
    hidden: BTreeSet<TopicId>,
}

/// A task: what is durable of it, and its execution while one runs.
struct Slot {
    stage: usize,
    partition: i32,
    ordering: SharedStore,
    fold: SharedStore,
    model: SharedModel,
    /// The group's committed positions for this task. A commit moves those that it names.
    positions: BTreeMap<Channel, Offset>,
    /// The positions of the last step, where the host commits them with the next on purpose.
    late: Vec<(Channel, Offset)>,
    /// The transaction of the last step; the next may begin when it is complete.
    last: Option<Txn>,
    /// What was durable before that step: what a start reads that does not wait for its markers.
    before_last: Option<Committed>,
    run: Option<Run>,
}

/// What a step makes durable.
#[derive(Clone, Default)]
struct Committed {
    ordering: SharedStore,
    fold: SharedStore,
    positions: BTreeMap<Channel, Offset>,
}

impl Slot {
    /// A copy of what is durable now.
    fn committed(&self) -> Committed {
        Committed {
            ordering: self.ordering.copy(),
            fold: self.fold.copy(),
            positions: self.positions.clone(),
        }
    }
}

impl TaskHost {
    /// A world with something wrong on purpose.
    pub fn sabotaged(setting: Setting, sabotage: Sabotage) -> Self {
        Self {
            setting,
            sabotage,
            broker: SimBroker::new(setting.append),
            stages: BTreeMap::new(),
            tasks: Vec::new(),
            edge_transactions: BTreeMap::new(),
            events: Vec::new(),
            hidden: BTreeSet::new(),
        }
    }

    /// The broker beneath.
    pub fn broker(&self) -> &SimBroker {
        &self.broker
    }

    fn shirks(&self, fault: HostFault) -> bool {
        self.sabotage == Sabotage::Host(fault)
    }

    fn slot(&self, task: TaskNo) -> Option<&Slot> {
        self.tasks.get(task.0)?.as_ref()
    }

    fn run_of(&self, task: TaskNo) -> Option<&Run> {
        self.slot(task)?.run.as_ref()
    }

    fn slot_mut(&mut self, task: TaskNo) -> Result<&mut Slot, Stop> {
        let slot = self.tasks.get_mut(task.0).and_then(Option::as_mut);
        slot.ok_or_else(|| Stop::Failed("no such task".to_owned()))
    }

    fn run_mut(&mut self, task: TaskNo) -> Result<&mut Run, Stop> {
        let run = self.slot_mut(task)?.run.as_mut();
        run.ok_or_else(|| Stop::Failed("the task does not run".to_owned()))
    }

    /// Ends the execution, and what was not committed with it.
    fn end_run(&mut self, task: TaskNo) {
        let atomic = self.setting.append == AppendMode::Atomic;
        let keeps_state = self.shirks(HostFault::KeepsStateAfterAbort);
        let keeps_sends = self.shirks(HostFault::KeepsSendsAfterAbort);
        let Some(slot) = self.tasks.get_mut(task.0).and_then(Option::as_mut) else {
            return;
        };
        let Some(mut run) = slot.run.take() else {
            return;
        };
        // Between two steps there is nothing to keep.
        if keeps_state
            && let Ok(step) = run.engine.finish(&[])
            && !step.positions.is_empty()
        {
            slot.positions.extend(step.positions);
            slot.ordering.apply(step.ordering);
            slot.fold.apply(step.fold);
        }
        slot.model.stop();
        if let Some(txn) = run.step.and_then(|step| step.txn) {
            slot.last = Some(txn);
            // On a broker, a dead producer's transaction stays open until its successor fences it.
            if atomic && keeps_sends {
                let _ended = self.broker.end(txn, Outcome::Committed);
            } else if atomic {
                let _ended = self.broker.end(txn, Outcome::Aborted);
            }
        }
        self.events.push(Event::Aborted(task));
    }

    /// Ends the execution if the outcome stops it.
    fn ended<T>(&mut self, task: TaskNo, outcome: Result<T, Stop>) -> Result<T, Stop> {
        if outcome.is_err() {
            self.end_run(task);
        }
        outcome
    }
}

impl ConformanceHost for TaskHost {
    fn supports(_append: AppendMode) -> bool {
        true
    }

    fn runs_bare_nodes() -> bool {
        true
    }

    fn ticks() -> bool {
        true
    }

    fn keeps_state(&self) -> bool {
        !self.uses_model()
    }

    fn new(setting: Setting) -> Self {
        Self::sabotaged(setting, Sabotage::None)
    }

    fn create_topic(&mut self, name: &str, partitions: i32) -> TopicId {
        self.broker.create_topic(name, partitions)
    }

    fn delete_topic(&mut self, name: &str) {
        self.broker.delete_topic(name);
    }

    fn delete_records(&mut self, channel: Channel, before: Offset) {
        // The kit stays within the log.
        let _moved = self.broker.delete_records(channel, before);
    }

    fn ends(&self, channel: Channel) -> Option<Ends> {
        Some(Ends {
            log_start: self.broker.log_start(channel)?,
            last_stable: self.broker.last_stable_offset(channel)?,
            high_watermark: self.broker.high_watermark(channel)?,
            end: self.broker.end_offset(channel)?,
        })
    }

    fn read(&self, channel: Channel, from: Offset, records_max: usize) -> (Vec<Record>, Offset) {
        let from = from.max(self.broker.log_start(channel).unwrap_or(0));
        match self.broker.fetch(channel, from, records_max) {
            Ok(fetched) => (fetched.records, fetched.next),
            Err(_) => (Vec::new(), from),
        }
    }

    fn begin(&mut self) -> EdgeTransaction {
        let number = self.edge_transactions.len() as u64;
        let txn = self.broker.begin();
        self.edge_transactions.insert(number, txn);
        EdgeTransaction(number)
    }

    fn append(&mut self, record: Record, within: Option<EdgeTransaction>) -> Option<Offset> {
        let txn = match within {
            Some(EdgeTransaction(number)) => Some(*self.edge_transactions.get(&number)?),
            None => None,
        };
        self.broker.append(record, txn).ok()
    }

    fn is_acknowledged(&self, channel: Channel, offset: Offset) -> bool {
        self.broker.is_replicated(channel, offset) || !self.broker.exists(channel.topic)
    }

    fn end(&mut self, transaction: EdgeTransaction, commit: bool) {
        let outcome = if commit {
            Outcome::Committed
        } else {
            Outcome::Aborted
        };
        if let Some(&txn) = self.edge_transactions.get(&transaction.0) {
            let _ended = self.broker.end(txn, outcome);
        }
    }

    fn deploy(&mut self, deployment: &Deployment, tasks: &[(TaskNo, i32)]) {
        self.stages.insert(deployment.stage, deployment.clone());
        let broken = match self.sabotage {
            Sabotage::Protocol(broken) => Some(broken),
            _ => None,
        };
        for &(task, partition) in tasks {
            if self.tasks.len() <= task.0 {
                self.tasks.resize_with(task.0 + 1, || None);
            }
            self.tasks[task.0].get_or_insert_with(|| Slot {
                stage: deployment.stage,
                partition,
                ordering: SharedStore::default(),
                fold: SharedStore::default(),
                model: SharedModel::new(broken),
                positions: BTreeMap::new(),
                late: Vec::new(),
                last: None,
                before_last: None,
                run: None,
            });
        }
    }

    fn start(&mut self, task: TaskNo, now: u64) -> Result<Started, Stop> {
        let outcome = self.start_run(task, now);
        self.ended(task, outcome)
    }

    fn step(&mut self, task: TaskNo, plan: &StepPlan, now: u64) -> Result<(), Stop> {
        let outcome = self.run_step(task, plan, now);
        self.ended(task, outcome)
    }

    fn crash(&mut self, task: TaskNo) {
        self.end_run(task);
    }

    fn evidence(&mut self, task: TaskNo) -> Result<(), Stop> {
        let outcome = self.move_evidence(task);
        self.ended(task, outcome)
    }

    fn check(&mut self, task: TaskNo, now: u64) -> Result<(), Stop> {
        let outcome = self.run_check(task, now);
        self.ended(task, outcome)
    }

    fn can_be_tampered_with() -> bool {
        true
    }

    fn hide_topic(&mut self, name: &str) {
        self.hidden.extend(self.broker.topic_id(name));
    }

    fn forget(&mut self, task: TaskNo, what: Durable) {
        let Ok(slot) = self.slot_mut(task) else {
            return;
        };
        match what {
            Durable::Positions => slot.positions.clear(),
            Durable::HeldRecord => {
                slot.ordering.lose_first(is_held_record);
                slot.model.lose_first(is_held_record);
            }
            Durable::State => {
                slot.ordering = SharedStore::default();
                slot.fold = SharedStore::default();
                slot.model = SharedModel::new(slot.model.broken());
            }
        }
    }

    fn rewind(&mut self, task: TaskNo, by: Offset) {
        if let Ok(slot) = self.slot_mut(task) {
            for position in slot.positions.values_mut() {
                *position = (*position - by).max(0);
            }
        }
    }

    fn is_in_step(&self, task: TaskNo) -> bool {
        self.run_of(task).is_some_and(|run| run.step.is_some())
    }

    fn position(&self, task: TaskNo, channel: Channel) -> Option<Offset> {
        self.run_of(task)?.position(channel)
    }

    fn resumes_at(&self, task: TaskNo, channel: Channel) -> Option<Offset> {
        let slot = self.slot(task)?;
        slot.positions.get(&channel).copied()
    }

    fn held(&self, task: TaskNo) -> u64 {
        self.run_of(task).map_or(0, |run| run.engine.held())
    }

    fn holds(&self, task: TaskNo) -> Vec<Hold> {
        self.run_of(task)
            .map_or_else(Vec::new, |run| run.engine.holds())
    }

    fn state_of(&self, task: TaskNo, key: Option<&[u8]>) -> Option<Bytes> {
        let store = &self.slot(task)?.fold;
        store
            .with(|store| store.get(&fold::state_key(key)))
            .ok()
            .flatten()
    }

    fn tick_state_of(&self, task: TaskNo) -> Option<Bytes> {
        let store = &self.slot(task)?.fold;
        let state = store.with(|store| store.get(&[fold::TICK_STATE_KEY]));
        state.ok().flatten()
    }

    fn wants_evidence(&self, task: TaskNo) -> bool {
        self.run_of(task).is_some_and(Run::wants_evidence)
    }

    fn moves(&self, moves: &mut Vec<Move>) {
        self.list_moves(moves);
    }

    fn make(&mut self, made: Move, _now: u64) -> Result<(), Stop> {
        match made {
            Move::Append(task, channel) => {
                let outcome = self.append_next(task, channel);
                self.ended(task, outcome)
            }
            Move::Proceed(task) => {
                let outcome = self.proceed(task);
                self.ended(task, outcome)
            }
            Move::Replicate(channel) => {
                self.broker.replicate(channel);
                Ok(())
            }
            Move::Marker(number, channel) => {
                let pending = self
                    .broker
                    .pending_markers()
                    .find(|&(txn, at)| txn.number() == number && at == channel);
                if let Some((txn, channel)) = pending {
                    self.broker.write_marker(txn, channel);
                }
                Ok(())
            }
        }
    }

    fn take_events(&mut self, events: &mut Vec<Event>) {
        events.append(&mut self.events);
    }
}
