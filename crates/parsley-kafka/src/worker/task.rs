//! A task of a worker: being restored, running, or stopped by a guard.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parsley_core::{
    Changes, Channel, Offset, Receipt, Record, Refusal, RefusalCode, Scope, TopicId,
};
use parsley_stage::audit::{Account, AuditRecord};
use parsley_stage::opening::{self, Bounds, LogFacts};
use parsley_stage::sweep::Sweep;
use parsley_stage::{Processed, RawSend, StepCommit, Task, TaskError};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Timestamp;

use super::Trouble;
use crate::cluster::{self, ANSWER, Cluster, ClusterError};
use crate::event;
use crate::known::KnownTopics;
use crate::restore::Restore;
use crate::stage::{Declared, Resolved};
use crate::state::{self, Checkpoint, StoreKind, TaskState};

/// What a worker does with a partition that was assigned to it.
pub(super) enum Slot {
    /// Nothing yet.
    Assigned,
    /// What it did has failed, and it opens anew when the time has come (decision K29).
    Waiting(Instant),
    Restoring(Box<Restore>),
    Running(Box<RunningTask>),
    /// A guard has stopped it; the board knows which.
    Refused,
}

pub(super) struct RunningTask {
    pub(super) task: Task,
    state: TaskState,
    checkpoint: Checkpoint,
    /// The next position to read, of every input.
    pub(super) positions: BTreeMap<Channel, Offset>,
    /// The positions that the group has committed, as far as this execution knows.
    committed: BTreeMap<Channel, Offset>,
    /// Where the logs ended that it sends to, when it opened.
    pub(super) ends: Vec<(Channel, Offset)>,
    /// Its part of the account of deliveries, if one is kept.
    account: Option<Account>,
    /// Inputs that are gone: nothing is read of them, and a position on one would be refused.
    pub(super) gone: BTreeSet<TopicId>,
    /// What the step at hand delivered.
    pub(super) processed: Vec<Processed>,
    /// Something was fed, or is to be written, that no step has committed.
    pub(super) is_dirty: bool,
    pub(super) counts: Counts,
    /// How much the step at hand took in, in bytes of keys, values and headers.
    taken_bytes: u64,
    /// How many of the records that it took in were delivered without having to wait.
    passed: u64,
    commit: Option<StepCommit>,
    /// Names of topics that the changelog does not have yet.
    new_names: Changes,
    pub(super) sweep: Sweep,
    pub(super) warned_of_wide_clocks: bool,
}

/// What a step did, for the status.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) received: u64,
    pub(crate) dropped: u64,
    /// How many rounds its sends took.
    pub(crate) rounds: u64,
    /// Ticks emitted.
    pub(crate) ticks: u64,
}

/// A log on a cluster, asked before a task opens.
pub(super) struct ClusterFacts<'a> {
    /// The positions of the group, where they were asked for before the state was read.
    pub(super) committed: Option<BTreeMap<Channel, Offset>>,
    /// A read-committed client of the group.
    pub(super) asker: &'a BaseConsumer,
    pub(super) cluster: &'a Cluster,
    pub(super) declared: &'a Declared,
    pub(super) resolved: &'a Resolved,
    /// The stage's own topics that are gone.
    pub(super) gone: &'a BTreeSet<TopicId>,
    pub(super) known: &'a mut KnownTopics,
}

/// How long a restore reads on before rebalances are looked at.
const RESTORE_TURN: Duration = Duration::from_millis(50);

/// How long stable positions are waited for before others get a turn.
const STABLE: Duration = Duration::from_secs(1);

impl ClusterFacts<'_> {
    /// Restores a little further. Returns whether everything is read that a former owner of the partition may have committed.
    pub(super) fn restore(
        &mut self,
        restore: &mut Restore,
        partition: i32,
    ) -> Result<bool, Trouble> {
        if restore.is_put_off() || !restore.advance(RESTORE_TURN)? {
            return Ok(false);
        }
        if restore.is_final() {
            return Ok(true);
        }
        match self.positions_within(partition, STABLE) {
            Ok(_) => {
                restore.look_again(self.cluster, partition)?;
                Ok(restore.advance(Duration::ZERO)?)
            }
            Err(error) if error.is_time_out() => {
                restore.put_off();
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn stable(&self, name: &str, channel: Channel) -> Result<Offset, ClusterError> {
        let bounds = cluster::watermarks(self.asker, name, channel.partition);
        let (_, stable) =
            bounds.map_err(|source| ClusterError::request(format!("the end of {name}"), source))?;
        Ok(stable)
    }

    /// Read-committed, so that a transaction of an earlier owner that may still commit is waited for.
    fn positions_within(
        &self,
        partition: i32,
        timeout: Duration,
    ) -> Result<BTreeMap<Channel, Offset>, ClusterError> {
        let mut list = TopicPartitionList::new();
        for topic in self.declared.stage.inputs() {
            list.add_partition(topic, partition);
        }
        let what = || format!("committed positions of {}", self.declared.group);
        let committed = self
            .asker
            .committed_offsets(list, timeout)
            .map_err(|source| ClusterError::request(what(), source))?;
        let mut positions = BTreeMap::new();
        for element in committed.elements() {
            element
                .error()
                .map_err(|source| ClusterError::request(what(), source))?;
            if let rdkafka::Offset::Offset(offset) = element.offset()
                && let Some(channel) = self.resolved.channel(element.topic(), partition)
            {
                positions.insert(channel, offset);
            }
        }
        Ok(positions)
    }

    fn name(&mut self, channel: Channel) -> Result<String, ClusterError> {
        let topic = channel.topic;
        self.known
            .name(topic)
            .map(str::to_owned)
            .ok_or(ClusterError::Unresolved { topic, name: None })
    }
}

impl LogFacts for ClusterFacts<'_> {
    type Error = ClusterError;

    fn positions(&mut self, partition: i32) -> Result<BTreeMap<Channel, Offset>, ClusterError> {
        match self.committed.take() {
            Some(committed) => Ok(committed),
            None => self.positions_within(partition, ANSWER),
        }
    }

    fn partitions(&mut self, topic: TopicId) -> Result<Option<i32>, ClusterError> {
        if self.gone.contains(&topic) {
            return Ok(None);
        }
        match self.resolved.name_of(topic) {
            Some(name) => Ok(self
                .resolved
                .topics
                .get(&**name)
                .map(|info| info.partitions)),
            None => {
                let found = self.known.find(self.cluster, &[topic].into())?;
                if let Some(partitions) = found.there.get(&topic) {
                    return Ok(Some(*partitions));
                }
                if found.gone.contains(&topic) {
                    return Ok(None);
                }
                let name = self.known.name(topic).map(str::to_owned);
                Err(ClusterError::Unresolved { topic, name })
            }
        }
    }

    fn bounds(&mut self, channel: Channel) -> Result<Bounds, ClusterError> {
        let name = self.name(channel)?;
        let (log_start, high_watermark) = self.cluster.bounds(&name, channel.partition)?;
        Ok(Bounds {
            log_start,
            last_stable_offset: self.stable(&name, channel)?,
            high_watermark,
        })
    }
}

impl RunningTask {
    /// Opens a task whose state is restored. What the opening writes is committed with the first step.
    pub(super) fn open(
        restore: Restore,
        mut log: ClusterFacts<'_>,
        partition: i32,
    ) -> Result<Self, Trouble> {
        let (declared, resolved) = (log.declared, log.resolved);
        let (state, checkpoint) = restore.end();
        let named = state.topics()?;
        let mut new_names: BTreeMap<_, _> = resolved
            .names()
            .filter(|(topic, name)| named.get(topic).map(String::as_str) != Some(name))
            .map(|(topic, name)| state::topic_name(topic, name))
            .collect();
        let fold_changelog = resolved.changelogs.topic(StoreKind::Fold).topic.id;
        if check_fold_changelog(&state, resolved, partition)? {
            new_names.extend([state::fold_changelog(fold_changelog)]);
        }
        log.known.learn(named);
        let ordering = state.store(StoreKind::Ordering);
        let recorded = Scope::recorded(&ordering)
            .map_err(|error| Trouble::task(partition, TaskError::from(error)))?;
        let facts = opening::open_facts(
            &declared.stage,
            partition,
            &resolved.topics,
            recorded.as_ref(),
            &mut log,
        )?;
        // The positions are known by now, and the state: no former owner of the partition can write to the account any more.
        let mut ends: Vec<(Channel, Offset)> =
            facts.ends.iter().map(|(&of, &end)| (of, end)).collect();
        let account = match &declared.audit {
            Some(topic) => {
                let (_, end) = log.cluster.bounds(topic, partition)?;
                ends.extend(
                    resolved
                        .audit
                        .map(|topic| (topic.partition(partition), end)),
                );
                let stage = Arc::clone(&declared.stage_name);
                Some(Account::begin(stage, partition, end))
            }
            None => None,
        };
        let (task, opened) = Task::open(
            declared.stage.clone(),
            resolved.task_config(declared, partition),
            &facts,
            Box::new(ordering),
            Box::new(state.store(StoreKind::Fold)),
        )
        .map_err(|error| Trouble::task(partition, told_by_name(error, log.known)))?;
        let committed: BTreeMap<Channel, Offset> = task.resume_positions().into_iter().collect();
        let positions = task
            .inputs()
            .map(|(channel, _)| {
                let position = opening::read_from(
                    opened.resume.get(&channel).copied(),
                    committed.get(&channel).copied(),
                    facts.start.get(&channel).copied(),
                    facts.log_starts.get(&channel).copied().unwrap_or(0),
                );
                (channel, position)
            })
            .collect();
        Ok(Self {
            task,
            state,
            checkpoint,
            positions,
            committed,
            gone: log.gone.clone(),
            ends,
            account,
            processed: Vec::new(),
            is_dirty: true,
            counts: Counts::default(),
            taken_bytes: 0,
            passed: 0,
            commit: None,
            new_names: Changes(new_names),
            sweep: Sweep::default(),
            warned_of_wide_clocks: false,
        })
    }

    /// Hands the task a record.
    pub(super) fn receive(
        &mut self,
        channel: Channel,
        record: event::Record,
    ) -> Result<(), TaskError> {
        let (offset, next) = (record.offset, record.offset + 1);
        let bytes = record.bytes() as u64;
        let received = self.task.receive(record_of(channel, record))?;
        match received {
            Receipt::Accepted => {
                self.counts.received += 1;
                self.taken_bytes += bytes;
                if let Some(account) = &mut self.account {
                    account.arrived(channel, offset);
                }
            }
            Receipt::Dropped => self.counts.dropped += 1,
        }
        self.positions.insert(channel, next);
        self.is_dirty = true;
        Ok(())
    }

    /// How much of what the step at hand took in is held, in bytes: as much of them as of the records. Memory has it until the step ends, and
    /// the changelog and the local state get it then.
    pub(super) fn held_bytes(&self) -> u64 {
        let received = self.counts.received;
        let held = received.saturating_sub(self.passed);
        match held == received {
            true => self.taken_bytes,
            false => (self.taken_bytes / received).saturating_mul(held),
        }
    }

    /// Tells the task that it has been fed everything below a position.
    pub(super) fn advance(&mut self, channel: Channel, next: Offset) -> Result<(), TaskError> {
        self.task.advance(channel, next)?;
        if self.positions.insert(channel, next) != Some(next) {
            self.is_dirty = true;
        }
        Ok(())
    }

    /// Delivers one record. Returns what it sends at once; `None` when nothing can be delivered.
    pub(super) fn deliver(
        &mut self,
    ) -> Result<Option<impl Iterator<Item = RawSend> + '_>, TaskError> {
        let Some(delivery) = self.task.process_next()? else {
            return Ok(None);
        };
        self.passed += u64::from(!delivery.was_held);
        self.processed.push(delivery);
        self.is_dirty = true;
        Ok(Some(self.task.drain_sends()))
    }

    /// Emits a tick. Returns what it sends at once.
    pub(super) fn tick(
        &mut self,
        now_ms: i64,
    ) -> Result<impl Iterator<Item = RawSend> + '_, TaskError> {
        self.task.tick(now_ms)?;
        self.counts.ticks += 1;
        self.is_dirty = true;
        Ok(self.task.drain_sends())
    }

    /// Ends the task's part of a step, with what was acknowledged since the last fence.
    pub(super) fn finish(&mut self, acknowledged: &[(Channel, Offset)]) -> Result<(), TaskError> {
        self.counts.rounds = self.task.step_rounds() as u64;
        let mut commit = self.task.finish_step(acknowledged)?;
        commit.ordering.0.append(&mut self.new_names.0);
        self.commit = Some(commit);
        Ok(())
    }

    pub(super) fn is_finished(&self) -> bool {
        self.commit.is_some()
    }

    /// What the step changes, once it is finished.
    pub(super) fn changes(&self) -> [&Changes; 2] {
        static NONE: std::sync::LazyLock<Changes> = std::sync::LazyLock::new(Changes::default);
        match &self.commit {
            Some(commit) => [&commit.ordering, &commit.fold],
            None => [&NONE, &NONE],
        }
    }

    /// What the step adds to the account of deliveries, once its deliveries are made.
    pub(super) fn audited(&mut self, resolved: &Resolved) -> Vec<AuditRecord> {
        let name_of = |topic: TopicId| {
            let known = resolved.name_of(topic).cloned();
            known.unwrap_or_else(|| topic.to_string().into())
        };
        let Self {
            task,
            account,
            processed,
            ..
        } = self;
        account.as_mut().map_or_else(Vec::new, |account| {
            account.of_step(processed, || task.holds(), name_of)
        })
    }

    /// Where to read on, of each input that there is.
    pub(super) fn to_read(&self) -> impl Iterator<Item = (Channel, Offset)> {
        let is_there = |channel: &Channel| !self.gone.contains(&channel.topic);
        self.positions
            .iter()
            .filter(move |(channel, _)| is_there(channel))
            .map(|(channel, position)| (*channel, *position))
    }

    /// The positions to send with the step: all that there are, as an empty list fences nobody (decision K5).
    pub(super) fn positions_to_commit(&self) -> BTreeMap<Channel, Offset> {
        let mut positions = self.committed.clone();
        for (channel, start) in &self.positions {
            positions.entry(*channel).or_insert(*start);
        }
        positions.extend(
            self.commit
                .iter()
                .flat_map(|commit| commit.positions.iter().copied()),
        );
        positions.retain(|channel, _| !self.gone.contains(&channel.topic));
        positions
    }

    /// The step is committed: its changes are what is there now. `written` is where the last changelog entry of each kind stands. Fails
    /// when the local copy of the state could not take it up.
    pub(super) fn committed(
        &mut self,
        written: [Option<Offset>; 2],
        now_ms: i64,
    ) -> Result<(), Trouble> {
        let Some(commit) = self.commit.take() else {
            return Ok(());
        };
        for (kind, last) in StoreKind::BOTH.into_iter().zip(written) {
            if let Some(last) = last {
                self.checkpoint.advance(kind, last + 1);
            }
        }
        self.checkpoint.at_ms = now_ms;
        self.committed.extend(commit.positions);
        let kept = self
            .state
            .apply([&commit.ordering, &commit.fold], self.checkpoint);
        self.task.step_committed();
        self.is_dirty = false;
        self.counts = Counts::default();
        self.taken_bytes = 0;
        self.passed = 0;
        self.processed.clear();
        kept.map_err(Trouble::from)
    }

    /// Makes the local copy of the state durable.
    pub(super) fn rest(&mut self) -> Result<(), Trouble> {
        Ok(self.state.make_durable()?)
    }
}

/// The fold state belongs to the ordering state: neither says anything without the other (G11). Returns whether that is still to be written down.
fn check_fold_changelog(
    state: &TaskState,
    resolved: &Resolved,
    partition: i32,
) -> Result<bool, Trouble> {
    let changelogs = &resolved.changelogs;
    let (name, found) = (
        changelogs.name(StoreKind::Fold),
        changelogs.topic(StoreKind::Fold).topic.id,
    );
    let lost = match state.fold_changelog()? {
        Some(known) if known == found => return Ok(false),
        Some(known) if changelogs.topic(StoreKind::Fold).is_missing() => {
            format!("the state was written beside {name} {known}, which is gone")
        }
        Some(known) => format!("the state was written beside {name} {known}, which is {found} now"),
        None if state.is_empty(StoreKind::Ordering)? && !state.is_empty(StoreKind::Fold)? => {
            let ordering = changelogs.name(StoreKind::Ordering);
            format!("{name} has state of partition {partition} and {ordering} has none")
        }
        None => return Ok(true),
    };
    let refusal = Refusal::of_node(RefusalCode::StateLost, lost);
    Err(Trouble::task(partition, TaskError::Refused(refusal)))
}

/// Says of a refusal by which name its topic goes: the protocol knows identities alone.
fn told_by_name(mut error: TaskError, known: &KnownTopics) -> TaskError {
    if let TaskError::Refused(refusal) = &mut error
        && let Some(name) = refusal.channel.and_then(|at| known.name(at.topic))
    {
        refusal.found = format!("topic {name}: {}", refusal.found);
    }
    error
}

fn record_of(channel: Channel, record: event::Record) -> Record {
    let timestamp_ms = match record.timestamp {
        Timestamp::CreateTime(ms) | Timestamp::LogAppendTime(ms) => ms,
        Timestamp::NotAvailable => -1,
    };
    Record {
        channel,
        offset: record.offset,
        timestamp_ms,
        key: record.key,
        value: record.value,
        headers: record.headers,
    }
}
