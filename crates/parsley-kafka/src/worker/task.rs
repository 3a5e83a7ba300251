//! A task of a worker: being restored, running, or stopped by a guard.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parsley_core::{Changes, Channel, Header, Offset, Receipt, Record, Scope, TopicId};
use parsley_stage::audit::{Account, AuditRecord};
use parsley_stage::opening::{self, Bounds, LogFacts};
use parsley_stage::sweep::Sweep;
use parsley_stage::{Processed, RawSend, StepCommit, Task, TaskError};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer;
use rdkafka::message::Timestamp;

use super::Trouble;
use crate::cluster::{ANSWER, Cluster, ClusterError};
use crate::event;
use crate::native::EventConsumer;
use crate::restore::Restore;
use crate::stage::{Declared, Resolved};
use crate::state::{Checkpoint, StoreKind, TaskState};

/// What a worker does with a partition that was assigned to it.
pub(super) enum Slot {
    /// Nothing yet.
    Assigned,
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
    /// Its part of the account of deliveries, if one is kept.
    account: Option<Account>,
    /// What the step at hand delivered.
    pub(super) processed: Vec<Processed>,
    /// Something was fed, or is to be written, that no step has committed.
    pub(super) is_dirty: bool,
    pub(super) counts: Counts,
    commit: Option<StepCommit>,
    pub(super) sweep: Sweep,
    pub(super) warned_of_wide_clocks: bool,
}

/// What a step did, for the status.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) received: u64,
    pub(super) dropped: u64,
}

/// A log on a cluster, asked before a task opens.
struct ClusterFacts<'a> {
    consumer: &'a EventConsumer,
    cluster: &'a Cluster,
    declared: &'a Declared,
    resolved: &'a Resolved,
    /// The stage's own topics that are gone.
    gone: &'a BTreeSet<TopicId>,
    /// The cluster's topics, listed when one is asked about that is not the stage's own.
    all: Option<BTreeMap<TopicId, (String, i32)>>,
}

impl ClusterFacts<'_> {
    fn stable(&self, name: &str, channel: Channel) -> Result<Offset, ClusterError> {
        let bounds = self
            .consumer
            .consumer()
            .fetch_watermarks(name, channel.partition, ANSWER);
        let (_, stable) =
            bounds.map_err(|source| ClusterError::request(format!("the end of {name}"), source))?;
        Ok(stable)
    }

    fn name(&mut self, channel: Channel) -> Result<String, ClusterError> {
        if let Some(name) = self.resolved.name_of(channel.topic) {
            return Ok(name.to_string());
        }
        let topic = channel.topic;
        let named = self.all()?.get(&topic).map(|(name, _)| name.clone());
        named.ok_or(ClusterError::Vanished { topic })
    }

    fn all(&mut self) -> Result<&BTreeMap<TopicId, (String, i32)>, ClusterError> {
        if self.all.is_none() {
            self.all = Some(self.cluster.all_topics()?);
        }
        Ok(self.all.get_or_insert_default())
    }
}

impl LogFacts for ClusterFacts<'_> {
    type Error = ClusterError;

    /// Read-committed, so that a transaction of an earlier owner that may still commit is waited for.
    fn positions(&mut self, partition: i32) -> Result<BTreeMap<Channel, Offset>, ClusterError> {
        let mut list = TopicPartitionList::new();
        for topic in self.declared.stage.inputs() {
            list.add_partition(topic, partition);
        }
        let what = || format!("committed positions of {}", self.declared.group);
        let committed = self
            .consumer
            .consumer()
            .committed_offsets(list, ANSWER)
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
            None => Ok(self.all()?.get(&topic).map(|(_, partitions)| *partitions)),
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
        consumer: &EventConsumer,
        cluster: &Cluster,
        declared: &Declared,
        resolved: &Resolved,
        gone: &BTreeSet<TopicId>,
        partition: i32,
    ) -> Result<Self, Trouble> {
        let (state, checkpoint) = restore.end();
        let ordering = state.store(StoreKind::Ordering);
        let recorded = Scope::recorded(&ordering)
            .map_err(|error| Trouble::task(partition, TaskError::from(error)))?;
        let mut log = ClusterFacts {
            consumer,
            cluster,
            declared,
            resolved,
            gone,
            all: None,
        };
        let facts = opening::open_facts(
            &declared.stage,
            partition,
            &resolved.topics,
            recorded.as_ref(),
            &mut log,
        )?;
        // The positions are known by now, and the state: no former owner of the partition can write to the account any more.
        let account = match &declared.audit {
            Some(topic) => {
                let (_, end) = cluster.bounds(topic, partition)?;
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
        .map_err(|error| Trouble::task(partition, error))?;
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
            account,
            processed: Vec::new(),
            is_dirty: true,
            counts: Counts::default(),
            commit: None,
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
        let received = self.task.receive(record_of(channel, record))?;
        match received {
            Receipt::Accepted => {
                self.counts.received += 1;
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

    /// Tells the task that it has been fed everything below a position.
    pub(super) fn advance(&mut self, channel: Channel, next: Offset) -> Result<(), TaskError> {
        self.task.advance(channel, next)?;
        if self.positions.insert(channel, next) != Some(next) {
            self.is_dirty = true;
        }
        Ok(())
    }

    /// Delivers one record. Returns what it sends at once; `None` when nothing can be delivered.
    pub(super) fn deliver(&mut self) -> Result<Option<Vec<RawSend>>, TaskError> {
        let Some(delivery) = self.task.process_next()? else {
            return Ok(None);
        };
        self.processed.push(delivery);
        self.is_dirty = true;
        Ok(Some(self.task.take_sends()))
    }

    /// Ends the task's part of a step, with what was acknowledged since the last fence.
    pub(super) fn finish(&mut self, acknowledged: &[(Channel, Offset)]) -> Result<(), TaskError> {
        self.commit = Some(self.task.finish_step(acknowledged)?);
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
        positions
    }

    /// The step is committed: its changes are what is there now. `written` is where the last changelog entry of each kind stands. Returns what
    /// the step delivered, and whether the local copy of the state could take it up.
    pub(super) fn committed(
        &mut self,
        written: [Option<Offset>; 2],
        now_ms: i64,
    ) -> (Vec<Processed>, Result<(), Trouble>) {
        let Some(commit) = self.commit.take() else {
            return (Vec::new(), Ok(()));
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
        let processed = std::mem::take(&mut self.processed);
        (processed, kept.map_err(Trouble::from))
    }

    /// Makes the local copy of the state durable.
    pub(super) fn rest(&mut self) -> Result<(), Trouble> {
        Ok(self.state.make_durable()?)
    }
}

fn record_of(channel: Channel, record: event::Record) -> Record {
    let timestamp_ms = match record.timestamp {
        Timestamp::CreateTime(ms) | Timestamp::LogAppendTime(ms) => ms,
        Timestamp::NotAvailable => -1,
    };
    let headers = record.headers.into_iter().map(|(name, value)| Header {
        name: name.into(),
        value,
    });
    Record {
        channel,
        offset: record.offset,
        timestamp_ms,
        key: record.key,
        value: record.value,
        headers: headers.collect(),
    }
}
