//! A worker: one thread with a consumer, a producer, and the tasks of the partitions that the group gives it.
//!
//! Everything happens in the order in which the consumer's queue tells it (decision K6): records and ends are fed to tasks, rebalances end
//! the step at hand. A step is one transaction over all tasks of the worker; whatever fails aborts it, and the tasks open anew from what is
//! committed.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parsley_core::{Channel, Offset, Refusal, RefusalCode, TopicId};
use parsley_stage::TaskError;
use parsley_stage::meter::StageMeter;
use parsley_stage::watch::TaskWatch;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerGroupMetadata};
use rdkafka::types::RDKafkaErrorCode;

use crate::board::Board;
use crate::cluster::{self, Cluster};
use crate::event::{ConsumerError, Partition, Polled};
use crate::known::KnownTopics;
use crate::names;
use crate::native::{self, EventConsumer};
use crate::producer::{ProduceError, Producer};
use crate::restore::Restore;
use crate::stage::{Declared, Resolved, StopFlag};
use crate::state::StoreKind;

mod ahead;
mod denied;
mod ends;
mod failing;
mod late;
mod recover;
mod step;
mod task;
mod telling;
mod ticks;
mod trial;
mod trouble;
mod unmarked;
mod watch;

use ahead::Ahead;
pub(crate) use denied::{is_denial, is_of_group};
use ends::Ends;
use failing::Failing;
use late::Late;
pub(crate) use task::Counts;
use task::{ClusterFacts, RunningTask, Slot};
pub(crate) use ticks::Ticks;
pub(crate) use trial::Trial;
pub(crate) use trouble::Trouble;
pub(crate) use unmarked::Unmarked;
use watch::Watch;

/// How long a worker waits for something to happen before it looks around.
const TURN: Duration = Duration::from_millis(100);

/// How long a stop tries to abort what it could not commit. If it cannot, readers wait for the transaction's timeout.
const LAST_ABORT: Duration = Duration::from_secs(5);

/// How many events are fed before deliveries are looked for: what is fed when a step ends is held, and goes through the changelog.
const EVENTS_PER_TURN: usize = 100;

/// How much of what a step takes in may be held when it ends, in bytes of keys, values and headers (decision K30).
const HELD_BYTES_MAX: u64 = 8 << 20;

/// How a session ended.
enum End {
    Stopped,
    Trouble(Trouble),
}

pub(crate) struct Worker {
    pub(crate) declared: Declared,
    pub(crate) number: usize,
    pub(crate) stop: StopFlag,
    pub(crate) board: Arc<Board>,
    /// What the start found; `None` when the cluster did not answer.
    pub(crate) resolved: Option<Arc<Resolved>>,
    /// Partitions that a guard has stopped, until the application is started again.
    pub(crate) refused: BTreeMap<i32, Refusal>,
    /// What keeps failing, if anything does.
    pub(crate) failing: Failing,
    /// What was aborted, and may lack markers.
    pub(crate) unmarked: Vec<Unmarked>,
    pub(crate) meter: StageMeter,
    /// What is told of the tasks of the partitions that it has.
    pub(crate) watches: BTreeMap<i32, TaskWatch>,
    pub(crate) ticks: Ticks,
}

impl Worker {
    /// Runs until the application stops.
    pub(crate) fn run(mut self) {
        let ended = catch_unwind(AssertUnwindSafe(|| self.run_sessions()));
        if let Err(panic) = ended {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            // Its words may be an observer's; the panic hook and the status have them.
            tracing::error!(group = %self.declared.group, worker = self.number, "a worker has panicked");
            self.board
                .failed(self.number, text.unwrap_or("a panic without a message"));
        }
        tracing::info!(group = %self.declared.group, worker = self.number, "a worker has ended");
        self.board.ended(self.number);
    }

    fn run_sessions(&mut self) {
        while !self.stop.is_raised() {
            let ended = match Session::begin(self) {
                Ok(mut session) => session.run(),
                Err(trouble) => End::Trouble(trouble),
            };
            let End::Trouble(trouble) = ended else {
                return;
            };
            if let Trouble::Stage(error) = &trouble
                && !error.may_pass()
            {
                tracing::error!(group = %self.declared.group, worker = self.number, %error, "a worker is over");
                self.board.failed(self.number, &error.to_string());
                return;
            }
            let trouble = trouble.with_grant(&self.declared, None);
            let wait = self.note_failure(&trouble);
            let until = Instant::now() + wait;
            while Instant::now() < until && !self.stop.is_raised() {
                std::thread::sleep(TURN.min(until.saturating_duration_since(Instant::now())));
            }
        }
    }

    /// Takes note of a failure. Returns how long to wait before the next attempt.
    fn note_failure(&mut self, trouble: &Trouble) -> Duration {
        let wait = self.failing.note(trouble.failed(), &self.declared.config);
        let (group, attempt) = (&self.declared.group, self.failing.attempts());
        let wait_ms = wait.as_millis();
        let failure = trouble.without_words();
        tracing::warn!(%group, attempt, failure, wait_ms, "a step failed and will be tried again");
        self.meter
            .step_failed(!matches!(trouble, Trouble::Task { .. }));
        self.board
            .retrying(self.number, &trouble.to_string(), attempt);
        wait
    }
}

/// A pair of clients, and what is done with them until one is beyond repair.
struct Session<'a> {
    worker: &'a mut Worker,
    resolved: Arc<Resolved>,
    cluster: Cluster,
    producer: Producer,
    consumer: EventConsumer,
    ahead: Ahead,
    slots: BTreeMap<i32, Slot>,
    /// The place in the group that the assignment came with.
    membership: Option<Arc<ConsumerGroupMetadata>>,
    /// When the step at hand began.
    step_since: Option<Instant>,
    /// When tasks may be opened again after a failure.
    resume_at: Option<Instant>,
    /// What can be delivered was not delivered to its end.
    is_draining: bool,
    /// The partition whose task delivers first.
    goes_first: i32,
    late: Late,
    watch: Watch,
    /// Topics of the stage that every broker has said are gone. None of them comes back.
    certainly_gone: BTreeSet<TopicId>,
    /// How far the logs go that it sends to.
    ends: Ends,
    known: KnownTopics,
    /// The topic of the record that was fed last.
    last_topic: Option<(Arc<str>, TopicId)>,
}

impl<'a> Session<'a> {
    fn begin(worker: &'a mut Worker) -> Result<Self, Trouble> {
        let declared = &worker.declared;
        let config = &declared.config;
        let cluster = Cluster::new(config)?;
        let resolved = match &worker.resolved {
            Some(resolved) => Arc::clone(resolved),
            None => Arc::new(declared.resolve(&cluster)?),
        };
        worker.resolved = Some(Arc::clone(&resolved));
        let mut known = KnownTopics::default();
        known.learn(
            resolved
                .names()
                .map(|(topic, name)| (topic, name.to_owned())),
        );
        let producer = new_producer(declared, worker.number, &resolved)?;
        let mut client = config.client();
        client
            .set("group.id", &declared.group)
            .set("isolation.level", "read_committed")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("enable.partition.eof", "true")
            .set("partition.assignment.strategy", "range")
            .set("allow.auto.create.topics", "false");
        if !config.properties.contains_key("fetch.queue.backoff.ms") {
            // A queue that was full is looked at again soon: by default that takes a second, in which it runs empty.
            client.set("fetch.queue.backoff.ms", "10");
        }
        let consumer: BaseConsumer = client.create()?;
        let inputs: Vec<&str> = declared.stage.inputs().collect();
        consumer.subscribe(&inputs)?;
        Ok(Self {
            consumer: EventConsumer::new(consumer)?,
            ahead: Ahead::default(),
            resolved,
            cluster,
            producer,
            slots: BTreeMap::new(),
            membership: None,
            step_since: None,
            resume_at: None,
            is_draining: false,
            goes_first: 0,
            late: Late::new(&worker.declared.delays),
            watch: Watch::default(),
            certainly_gone: BTreeSet::new(),
            ends: Ends::default(),
            known,
            last_topic: None,
            worker,
        })
    }

    fn run(&mut self) -> End {
        loop {
            if self.worker.stop.is_raised() {
                return self.stop();
            }
            if let Err(trouble) = self.turn()
                && let Err(fatal) = self.recover(trouble)
            {
                return End::Trouble(fatal);
            }
        }
    }

    /// Ends the step at hand, and leaves.
    fn stop(&mut self) -> End {
        let ended = self
            .end_step()
            .and_then(|()| self.running().try_for_each(|(_, task)| task.rest()));
        if let Err(trouble) = ended {
            // What was not committed is done again after the next start.
            tracing::warn!(
                failure = trouble.without_words(),
                "the last step was given up"
            );
            let _ = self.abort(Instant::now() + LAST_ABORT);
        }
        End::Stopped
    }

    fn running(&mut self) -> impl Iterator<Item = (i32, &mut RunningTask)> {
        self.slots
            .iter_mut()
            .filter_map(|(partition, slot)| match slot {
                Slot::Running(task) => Some((*partition, &mut **task)),
                _ => None,
            })
    }

    /// Has the consumer read for the tasks that run, each from where it is.
    fn assign_running(&mut self) -> Result<(), Trouble> {
        self.ahead.clear();
        self.late.clear();
        let mut list = TopicPartitionList::new();
        for slot in self.slots.values() {
            let Slot::Running(task) = slot else { continue };
            for (channel, position) in task.to_read() {
                if let Some(topic) = self.resolved.name_of(channel.topic) {
                    let from = rdkafka::Offset::Offset(position);
                    list.add_partition_offset(topic, channel.partition, from)?;
                }
            }
        }
        Ok(self.consumer.consumer().assign(&list)?)
    }

    fn turn(&mut self) -> Result<(), Trouble> {
        if self.producer.is_spent() {
            self.replace_producer()?;
        }
        self.open_tasks()?;
        let wait = if self.is_draining || self.is_restoring() {
            Duration::ZERO
        } else {
            let until_due = self.late.until_due(Instant::now());
            let until = [self.until_step_end(), until_due, self.until_tick()];
            let until = until.into_iter().flatten().min();
            until.unwrap_or(TURN).min(TURN)
        };
        self.feed(wait)?;
        self.note_taken_in();
        self.deliver()?;
        let is_due = self.until_step_end() == Some(Duration::ZERO);
        let is_full = self.running().any(|(_, task)| task.task.step_is_full());
        let held_bytes: u64 = self.running().map(|(_, task)| task.held_bytes()).sum();
        if is_due || is_full || held_bytes >= HELD_BYTES_MAX {
            self.end_step()?;
        }
        // Between steps.
        if self.step_since.is_none() {
            self.mark_aborts();
            self.look_around()?;
        }
        if self.resume_at.is_none() && self.worker.failing.is_over() {
            self.recovered();
        }
        Ok(())
    }

    fn is_restoring(&self) -> bool {
        let restores =
            |slot: &Slot| matches!(slot, Slot::Restoring(restore) if !restore.is_put_off());
        self.slots.values().any(restores)
    }

    /// Restores tasks a little further, and opens those that are restored.
    fn open_tasks(&mut self) -> Result<(), Trouble> {
        if self
            .resume_at
            .is_some_and(|resume_at| Instant::now() < resume_at)
        {
            return Ok(());
        }
        self.resume_at = None;
        let now = Instant::now();
        for slot in self.slots.values_mut() {
            if matches!(slot, Slot::Waiting(until) if now >= *until) {
                *slot = Slot::Assigned;
            }
        }
        let mut has_opened = false;
        let mut ends_read = Vec::new();
        // What is open by now is asked for by the watch, what opens is asked for before it does.
        let is_to_open = |slot: &Slot| matches!(slot, Slot::Assigned | Slot::Restoring(_));
        let gone = match self.slots.values().any(is_to_open) {
            true => self.gone()?,
            false => Default::default(),
        };
        let partitions: Vec<i32> = self.slots.keys().copied().collect();
        for partition in partitions {
            let declared = &self.worker.declared;
            match self.slots.get_mut(&partition) {
                Some(slot @ Slot::Assigned) => {
                    let restore = Restore::begin(
                        &declared.config,
                        &self.cluster,
                        &self.resolved.changelogs,
                        &declared.group,
                        partition,
                        &declared.task_dir(partition),
                        now_ms(),
                        &StoreKind::BOTH,
                    )?;
                    if let Some(refusal) = restore.refusal() {
                        return Err(Trouble::task(partition, TaskError::Refused(refusal)));
                    }
                    *slot = Slot::Restoring(Box::new(restore));
                }
                Some(Slot::Restoring(restore)) => {
                    let mut log = ClusterFacts {
                        committed: None,
                        asker: self.consumer.consumer(),
                        cluster: &self.cluster,
                        declared,
                        resolved: &self.resolved,
                        gone: &gone,
                        known: &mut self.known,
                    };
                    if !log.restore(restore, partition)? {
                        let (records, left) = restore.progress();
                        self.worker.show_restore(partition, records, left);
                        continue;
                    }
                    let Some(Slot::Restoring(restore)) = self.slots.remove(&partition) else {
                        continue;
                    };
                    self.worker.show_restored(partition, restore.progress().0);
                    self.slots.insert(partition, Slot::Assigned);
                    let read = restore.ends(partition);
                    let task = RunningTask::open(*restore, log, partition)?;
                    ends_read.extend(read.iter().chain(&task.ends).copied());
                    self.worker.watch_opened(partition, &task.task);
                    self.slots.insert(partition, Slot::Running(Box::new(task)));
                    self.worker.ticks.opened(partition);
                    has_opened = true;
                }
                _ => {}
            }
        }
        if has_opened {
            // What the openings write is committed before anything is fed.
            self.end_step()?;
            // What other tasks had handed over may lie below these ends, and is acknowledged only now.
            for (channel, end) in ends_read {
                self.ends.read(channel, end);
            }
            self.watch.has_opened();
            self.look_around()?;
            self.assign_running()?;
        }
        Ok(())
    }

    /// Hands tasks what the consumer has for them.
    fn feed(&mut self, wait: Duration) -> Result<(), Trouble> {
        let mut wait = wait;
        for _ in 0..EVENTS_PER_TURN {
            let late = match self.late.is_idle() {
                true => None,
                false => self.late.due(Instant::now()),
            };
            let polled = match late {
                Some(polled) => polled,
                None => {
                    let Some(polled) = self.ahead.next(&mut self.consumer, wait) else {
                        return Ok(());
                    };
                    wait = Duration::ZERO;
                    let kept = match self.late.is_idle() {
                        true => Some(polled),
                        false => self.late.keep(polled, Instant::now()),
                    };
                    let Some(polled) = kept else { continue };
                    polled
                }
            };
            match polled {
                Polled::Record(record) => {
                    let (partition, channel) = self.place_of(&record.partition);
                    if let (Some(Slot::Running(task)), Some(channel)) =
                        (self.slots.get_mut(&partition), channel)
                    {
                        task.receive(channel, record)
                            .map_err(|error| Trouble::task(partition, error))?;
                        self.step_since.get_or_insert_with(Instant::now);
                        if task.held_bytes() >= HELD_BYTES_MAX {
                            return Ok(());
                        }
                    }
                }
                Polled::Eof {
                    partition: at,
                    offset,
                } => {
                    let (partition, channel) = self.place_of(&at);
                    if let (Some(Slot::Running(task)), Some(channel)) =
                        (self.slots.get_mut(&partition), channel)
                    {
                        task.advance(channel, offset)
                            .map_err(|error| Trouble::task(partition, error))?;
                        if task.is_dirty {
                            self.step_since.get_or_insert_with(Instant::now);
                        }
                    }
                }
                Polled::Assigned(partitions) => self.assigned(&partitions)?,
                Polled::Revoked { partitions, lost } => self.revoked(&partitions, lost)?,
                Polled::Error(error) => self.consumer_failed(error)?,
            }
        }
        Ok(())
    }

    /// The task that a partition's records are for, and their channel. Records come in runs of one topic.
    fn place_of(&mut self, at: &Partition) -> (i32, Option<Channel>) {
        let topic = match &self.last_topic {
            Some((name, topic)) if Arc::ptr_eq(name, &at.topic) => Some(*topic),
            _ => {
                let topic = self.resolved.topics.get(&*at.topic).map(|info| info.id);
                self.last_topic = topic.map(|topic| (Arc::clone(&at.topic), topic));
                topic
            }
        };
        (
            at.partition,
            topic.map(|topic| topic.partition(at.partition)),
        )
    }

    fn assigned(&mut self, partitions: &[Partition]) -> Result<(), Trouble> {
        // The range assignor is eager: the revoke before this has ended what there was.
        self.membership = native::membership(self.consumer.consumer()).map(Arc::new);
        self.slots = partitions
            .iter()
            .map(|at| at.partition)
            .map(|partition| {
                let slot = match self.worker.refused.get(&partition) {
                    Some(_) => Slot::Refused,
                    None => Slot::Assigned,
                };
                (partition, slot)
            })
            .collect();
        let numbers: Vec<i32> = self.slots.keys().copied().collect();
        self.worker.ticks.keep(&numbers);
        tracing::info!(group = %self.worker.declared.group, ?numbers, "partitions were assigned");
        self.worker.board.assigned(self.worker.number, &numbers);
        self.worker.watch_tasks(&numbers, &self.resolved);
        for partition in numbers {
            if let Some(refusal) = self.worker.refused.get(&partition) {
                self.worker
                    .board
                    .refused(self.worker.number, partition, refusal);
            }
        }
        self.assign_running()
    }

    fn revoked(&mut self, partitions: &[Partition], lost: bool) -> Result<(), Trouble> {
        let mut ended = if lost { Ok(()) } else { self.end_step() };
        if lost || ended.is_err() {
            let until = Instant::now() + self.worker.declared.config.transaction_timeout;
            self.step_since = None;
            self.is_draining = false;
            // What cannot be aborted says more than what had to be.
            if let Err(error) = self.abort(until) {
                ended = Err(error.into());
            }
        } else {
            ended = self.running().try_for_each(|(_, task)| task.rest());
        }
        let numbers: BTreeSet<i32> = partitions.iter().map(|at| at.partition).collect();
        tracing::info!(group = %self.worker.declared.group, ?numbers, lost, "partitions were revoked");
        // The range assignor is eager: nothing is left of the assignment.
        self.slots.clear();
        self.membership = None;
        self.late.clear();
        self.worker.board.assigned(self.worker.number, &[]);
        self.worker.watches.clear();
        self.ahead.clear();
        self.consumer.consumer().unassign()?;
        ended
    }

    fn consumer_failed(&mut self, error: ConsumerError) -> Result<(), Trouble> {
        if error.partition.is_some() {
            // A topic that is another one by now has no such position either.
            self.find_gone()?;
        }
        let out_of_range = matches!(
            error.code,
            RDKafkaErrorCode::OffsetOutOfRange | RDKafkaErrorCode::AutoOffsetReset
        );
        if let (true, Some(at)) = (out_of_range, &error.partition)
            && let (partition, Some(channel)) = self.place_of(at)
            && let Some(Slot::Running(task)) = self.slots.get(&partition)
        {
            let position = task.positions.get(&channel).copied().unwrap_or(0);
            let refusal = position_lost(channel, position, &error.reason);
            return Err(Trouble::task(partition, TaskError::Refused(refusal)));
        }
        if error.fatal || is_denial(error.code) {
            return Err(error.into());
        }
        // librdkafka goes on by itself.
        tracing::debug!(%error, "the consumer reports");
        Ok(())
    }
}

/// A position at which the log has nothing, and will have nothing that belongs there.
fn position_lost(channel: Channel, position: Offset, reason: &str) -> Refusal {
    let found = format!("the log does not have this position any more: {reason}");
    Refusal::at(RefusalCode::PositionsLost, channel, position, found)
}

/// A producer that shares its transactional id with none before it (decisions K19 and K27).
fn new_producer(
    declared: &Declared,
    worker: usize,
    resolved: &Resolved,
) -> Result<Producer, ProduceError> {
    let id = names::transactional_id(&declared.group, worker);
    Producer::new(&declared.config, &id, smallest_limit(declared, resolved))
}

/// The smallest batch that one of the topics takes which a stage's workers write to; `None` when the cluster does not tell.
fn smallest_limit(declared: &Declared, resolved: &Resolved) -> Option<usize> {
    let changelogs = resolved.changelogs.names.iter().map(String::as_str);
    let audit = declared.audit.as_deref();
    let topics: Vec<&str> = declared
        .stage
        .sinks()
        .chain(changelogs)
        .chain(audit)
        .collect();
    match cluster::batch_limits(&declared.config, &topics) {
        Ok(limits) => limits.into_values().min(),
        Err(error) => {
            let group = &declared.group;
            tracing::warn!(%group, %error, "how large batches may be is not known");
            None
        }
    }
}

pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
