//! One execution of a task, from its opening to its end: what a step consists of, and what is done between steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parsley_core::decide::Settled;
use parsley_core::{Channel, Offset, Opened, Receipt, Record, Refusal, RefusalCode, TopicId};
use parsley_stage::meter::StepCounts;
use parsley_stage::opening::read_from;
use parsley_stage::report::HoldReport;
use parsley_stage::sweep::{Learned, Sweep};
use parsley_stage::{Processed, RawSend, StepCommit, Task};

use super::audit::Audit;
use super::context::Context;
use super::delay::DelayLine;
use super::end::TaskEnd;
use super::evidence::WatermarkAnswer;
use super::facts::open_facts;
use super::journal::Journal;
use super::observed::Observed;
use super::reads::Reads;
use super::status::InputStatus;
use crate::log::{
    Fetch, FetchLimits, Fetched, OutOfRange, SendError, State, StepChanges, StepWriter,
};

/// How many sequence claims a stamp may hold before the host asks for high watermarks.
const SEQUENCE_CLAIMS_MAX: usize = 64;

/// A busy task looks every that many steps whether watermarks would help it.
const EVIDENCE_EVERY_STEPS: u64 = 32;

pub(crate) struct Execution {
    task: Task,
    sources: Vec<Source>,
    observed: Observed,
    audit: Option<Audit>,
    sweep: Sweep,
    /// Fetch rounds so far.
    round: u64,
    steps_since_evidence: u64,
    steps_since_check: u64,
    /// The log's count of upheavals that the last check knew of; `None` before the first one. What an opening judges is less than a check
    /// does: the identities are those of the application's start, however long ago that was.
    upheavals: Option<u64>,
    /// The log's version at the last fetch.
    fetched_version: u64,
    /// What the step at hand took in.
    fed: StepCounts,
    /// The log's version when high watermarks were last asked for.
    evidence_version: Option<u64>,
    warned_of_wide_clocks: bool,
    /// The last step ended because it was full: deliveries may be possible without anything new.
    draining: bool,
}

/// An input, and how far it was read.
struct Source {
    topic: Arc<str>,
    channel: Channel,
    position: Offset,
    delay: Option<DelayLine>,
}

impl Execution {
    /// Opens the task from committed state, and commits what the opening writes.
    pub(crate) fn open(context: &Context) -> Result<(Self, Opened), TaskEnd> {
        context.log.without_doubt()?;
        let (facts, stores, audit) = {
            let mut state = context.log.lock();
            let stores = state.storage.task_stores(&context.group, context.partition);
            let audit = Audit::begin(context, &state);
            (open_facts(context, &state, &stores)?, stores, audit)
        };
        let (ordering, fold) = (Box::new(stores.ordering), Box::new(stores.fold));
        let (mut task, opened) = Task::open(
            context.stage.clone(),
            context.task_config(),
            &facts,
            ordering,
            fold,
        )?;
        let step = task.finish_step(&[])?;
        let committed: BTreeMap<Channel, Offset> = step.positions.iter().copied().collect();
        context.log.step().commit(changes_of(context, step))?;
        task.step_committed();
        context.telling.opened(&task);
        tracing::info!(
            group = %context.group, partition = context.partition, held = task.held(), "a task has opened"
        );
        for joined in &opened.joined {
            let log_start = facts.log_starts.get(&joined.channel).copied().unwrap_or(0);
            let skipped = joined
                .seed
                .map_or(0, |seed| (seed + 1).saturating_sub(log_start).max(0));
            tracing::info!(
                group = %context.group, partition = context.partition, channel = %joined.channel, skipped,
                "an input joins; offsets that the delivered past covers are skipped"
            );
        }
        let sources = task
            .inputs()
            .map(|(channel, topic)| {
                let position = read_from(
                    opened.resume.get(&channel).copied(),
                    committed.get(&channel).copied(),
                    facts.start.get(&channel).copied(),
                    facts.log_starts.get(&channel).copied().unwrap_or(0),
                );
                let delay = context
                    .settings
                    .delays
                    .get(&(context.stage.name().to_owned(), topic.to_owned()));
                let delay = delay.map(|delay| DelayLine::new(*delay, position));
                Source {
                    topic: topic.into(),
                    channel,
                    position,
                    delay,
                }
            })
            .collect();
        let execution = Self {
            task,
            sources,
            observed: Observed::default(),
            audit,
            sweep: Sweep::default(),
            round: 0,
            steps_since_evidence: 0,
            steps_since_check: 0,
            upheavals: None,
            fetched_version: 0,
            fed: StepCounts::default(),
            evidence_version: None,
            warned_of_wide_clocks: false,
            draining: false,
        };
        Ok((execution, opened))
    }

    /// Reads on, emits a tick of this time if one is due, delivers what can be delivered, and commits it all, if there was anything.
    /// Returns whether there was.
    pub(crate) fn step(
        &mut self,
        context: &Context,
        reads: &Reads,
        tick: Option<i64>,
        journal: &mut impl Journal,
    ) -> Result<bool, TaskEnd> {
        let begun = Instant::now();
        let moved = self.begin_step(context, reads, tick, journal)?;
        self.deliver_and_commit(context, moved, begun, journal)
    }

    /// Whether there is something to commit, whatever is delivered.
    fn begin_step(
        &mut self,
        context: &Context,
        reads: &Reads,
        tick: Option<i64>,
        journal: &mut impl Journal,
    ) -> Result<bool, TaskEnd> {
        self.fed = StepCounts::default();
        let moved = self.feed(context, reads, journal)?;
        if let Some(timestamp_ms) = tick {
            self.task.tick(timestamp_ms)?;
            self.fed.ticks += 1;
        }
        Ok(moved || tick.is_some())
    }

    /// Begins a step and takes it no further than that many deliveries: what was handed over by then is aborted. The execution is to be
    /// dropped.
    pub(crate) fn break_off(
        &mut self,
        context: &Context,
        reads: &Reads,
        tick: Option<i64>,
        deliveries_max: usize,
        journal: &mut impl Journal,
    ) -> Result<(), TaskEnd> {
        self.begin_step(context, reads, tick, journal)?;
        let mut sends = Vec::new();
        let delivered = self.deliver(context, deliveries_max, &mut sends, journal);
        let _ = append(&mut context.log.step(), sends, journal);
        delivered.map(drop)
    }

    /// Reads each input on from its position and hands the task what it finds, then how far it read. While a full step's drain goes on,
    /// nothing new is taken in. Returns whether a position has moved.
    fn feed(
        &mut self,
        context: &Context,
        reads: &Reads,
        journal: &mut impl Journal,
    ) -> Result<bool, TaskEnd> {
        if self.draining {
            return Ok(false);
        }
        let fetched = loop {
            let state = context.log.lock();
            if !self.has_judged(&state) {
                // What was deleted is judged before anything more is fed.
                drop(state);
                self.check(context)?;
                continue;
            }
            let upheavals = state.upheavals;
            let begun = self.begin_fetch(context, &state, reads)?;
            drop(state);
            let fetched = begun.into_iter().map(|(index, fetch)| {
                let fetched = context.log.finish_fetch(fetch)?;
                Ok((index, fetched))
            });
            match fetched.collect::<Result<Vec<_>, _>>() {
                Ok(fetched) => break fetched,
                // What was to be read has been deleted, perhaps.
                Err(_) if context.log.has_changed_since(upheavals) => {}
                Err(error) => return Err(TaskEnd::Storage(error)),
            }
        };
        self.round += 1;
        let mut fed = Vec::new();
        for (index, Fetched { records, next, .. }) in fetched {
            if next == self.sources[index].position {
                continue;
            }
            let channel = self.sources[index].channel;
            fed.push((channel, next));
            for record in records {
                let offset = record.offset;
                match self.task.receive(record)? {
                    Receipt::Accepted => {
                        self.fed.received += 1;
                        journal.received(channel, offset);
                        self.observed.arrived(context, channel, offset);
                        if let Some(audit) = &mut self.audit {
                            audit.arrived(channel, offset);
                        }
                    }
                    Receipt::Dropped => {
                        self.fed.dropped += 1;
                        journal.dropped(channel, offset);
                    }
                }
            }
            // Everything below has been fed by now (decision S10).
            self.task.advance(channel, next)?;
            self.sources[index].position = next;
        }
        context.telling.taken_in(&fed);
        Ok(!fed.is_empty())
    }

    fn begin_fetch(
        &mut self,
        context: &Context,
        state: &State,
        reads: &Reads,
    ) -> Result<Vec<(usize, Fetch)>, TaskEnd> {
        self.fetched_version = state.version;
        let mut begun = Vec::new();
        for (index, source) in self.sources.iter_mut().enumerate() {
            let Some(partition) = state.storage.partition(source.channel) else {
                continue;
            };
            let Some(limit) = reads.of(&source.topic) else {
                continue;
            };
            let delayed_until = source
                .delay
                .as_mut()
                .map(|delay| delay.observe(partition.last_stable_offset(), self.round));
            let until = delayed_until.into_iter().chain(limit.until).min();
            let records_max = context.settings.fetch_records_max;
            let records_max = limit
                .records_max
                .map_or(records_max, |limit| limit.min(records_max));
            let limits = FetchLimits {
                records_max,
                bytes_max: context.settings.fetch_bytes_max,
            };
            let fetch = state
                .storage
                .begin_fetch(source.channel, source.position, until, limits);
            let Some(fetch) = fetch else {
                continue;
            };
            let fetch = fetch.map_err(|range| out_of_range(source, range))?;
            begun.push((index, fetch));
        }
        Ok(begun)
    }

    /// Delivers what can be delivered and commits the step, if it did anything. Returns whether it did.
    fn deliver_and_commit(
        &mut self,
        context: &Context,
        moved: bool,
        begun: Instant,
        journal: &mut impl Journal,
    ) -> Result<bool, TaskEnd> {
        let was_draining = self.draining;
        let mut sends = Vec::new();
        let processed = match self.deliver(context, usize::MAX, &mut sends, journal) {
            Ok(processed) => processed,
            Err(end) => {
                // As on a broker, what had been handed over stays behind as an aborted run. Should a part of it fail to be appended, the
                // run is shorter.
                let _ = append(&mut context.log.step(), sends, journal);
                return Err(end);
            }
        };
        if processed.is_empty() && !moved {
            // A full step may have taken the last record that could be delivered: its drain ends here.
            if was_draining {
                self.observed.drained(context, || self.task.holds());
            }
            return Ok(false);
        }
        let audited = self.audit.as_mut().map_or_else(Vec::new, |audit| {
            audit.of_step(context, &processed, || self.task.holds())
        });
        let mut step = context.log.step();
        let mut acknowledged = append(&mut step, sends, journal)?;
        while self.task.has_later_rounds() {
            self.task.fence(&acknowledged)?;
            acknowledged = append(&mut step, self.task.take_sends(), journal)?;
        }
        let changes = self.task.finish_step(&acknowledged)?;
        for entry in audited {
            step.append(entry)?;
        }
        step.commit(changes_of(context, changes))?;
        self.task.step_committed();
        self.steps_since_evidence += 1;
        // What was fed may wait by sequence, and the log need not have changed since watermarks were last asked for.
        self.evidence_version = None;
        self.steps_since_check += 1;
        self.warn_of_wide_clocks(context);
        let counts = StepCounts {
            delivered: processed.len() as u64,
            ..self.fed
        };
        context
            .telling
            .step_committed(&self.task, counts, &processed, begun);
        self.observed.delivered(context, processed);
        if !self.draining {
            self.observed.drained(context, || self.task.holds());
        }
        Ok(true)
    }

    fn deliver(
        &mut self,
        context: &Context,
        deliveries_max: usize,
        sends: &mut Vec<RawSend>,
        journal: &mut impl Journal,
    ) -> Result<Vec<Processed>, TaskEnd> {
        let mut processed = Vec::new();
        self.draining = false;
        sends.append(&mut self.task.take_sends());
        loop {
            if processed.len() >= deliveries_max {
                return Ok(processed);
            }
            if self.task.step_is_full() || (context.stop.is_raised() && !processed.is_empty()) {
                self.draining = true;
                return Ok(processed);
            }
            let Some(delivery) = self.task.process_next()? else {
                return Ok(processed);
            };
            journal.delivered(&delivery);
            processed.push(delivery);
            sends.append(&mut self.task.take_sends());
        }
    }

    /// What is due between steps.
    pub(crate) fn between_steps(&mut self, context: &Context) -> Result<(), TaskEnd> {
        if self.steps_since_check >= context.settings.check_every_steps {
            self.check(context)?;
        }
        if self.steps_since_evidence >= EVIDENCE_EVERY_STEPS {
            self.steps_since_evidence = 0;
            self.give_evidence(context)?;
        }
        Ok(())
    }

    /// Learns log starts and identities, and judges them: G10, G9, G12. Then stops claiming what has been deleted for long enough.
    /// Returns whether there was such.
    pub(crate) fn check(&mut self, context: &Context) -> Result<bool, TaskEnd> {
        let stamped = self.task.stamp_channels();
        let (log_starts, gone, changed, learned) = {
            let state = context.log.lock();
            self.upheavals = Some(state.upheavals);
            let storage = &state.storage;
            let log_starts =
                |channels: &mut dyn Iterator<Item = Channel>| -> BTreeMap<Channel, Offset> {
                    channels
                        .filter_map(|channel| {
                            Some((channel, storage.partition(channel)?.log_start()))
                        })
                        .collect()
                };
            let gone = |topics: &mut dyn Iterator<Item = TopicId>| -> BTreeSet<TopicId> {
                topics
                    .filter(|topic| storage.topic(*topic).is_none())
                    .collect()
            };
            let changed = context.topics.iter().find_map(|(name, info)| {
                let found = storage.topic_id(name)?;
                (found != info.id).then(|| identity_changed(name, info.id, found))
            });
            let learned = Learned {
                log_starts: log_starts(&mut stamped.iter().copied()),
                gone: gone(&mut stamped.iter().map(|channel| channel.topic)),
            };
            (
                log_starts(&mut self.sources.iter().map(|source| source.channel)),
                gone(&mut context.topics.values().map(|info| info.id)),
                changed,
                learned,
            )
        };
        self.steps_since_check = 0;
        self.task.check(&log_starts, &gone)?;
        if let Some(refusal) = changed {
            return Err(TaskEnd::Refused(refusal));
        }
        let delay = context.settings.truncation_delay;
        let now_ms = context.settings.time.now_ms();
        let Some(aged) = self.sweep.learn(now_ms, learned, delay) else {
            return Ok(false);
        };
        self.task.truncate(&aged.log_starts, &aged.gone)?;
        Ok(true)
    }

    /// Asks for high watermarks if they may help and anything has been written since they were last asked for. Returns whether they were
    /// handed in: deliveries may be possible now.
    pub(crate) fn give_evidence(&mut self, context: &Context) -> Result<bool, TaskEnd> {
        if self.evidence_version == Some(context.log.version()) {
            return Ok(false);
        }
        let waited_for = self.task.channels_waited_for_by_sequence();
        let many = self.task.sequence_claims() > SEQUENCE_CLAIMS_MAX;
        if waited_for.is_empty() && !many {
            return Ok(false);
        }
        let answer = self.ask_watermarks(context);
        self.answer_watermarks(&answer)?;
        Ok(true)
    }

    /// Takes a mark, then asks for the high watermarks that may help.
    pub(crate) fn ask_watermarks(&mut self, context: &Context) -> WatermarkAnswer {
        // The mark comes first: the answer speaks for what was known when it was taken.
        let mark = self.task.mark();
        let claimed = self.task.channels_claimed_by_sequence();
        let waited_for = self.task.channels_waited_for_by_sequence();
        let channels: BTreeSet<Channel> = claimed.into_iter().chain(waited_for).collect();
        let state = context.log.lock();
        self.evidence_version = Some(state.version);
        let watermark =
            |channel: Channel| Some((channel, state.storage.partition(channel)?.high_watermark()));
        let watermarks = channels.into_iter().filter_map(watermark).collect();
        WatermarkAnswer { mark, watermarks }
    }

    /// Hands in what was asked for. Deliveries may be possible after it.
    pub(crate) fn answer_watermarks(&mut self, answer: &WatermarkAnswer) -> Result<(), TaskEnd> {
        Ok(self.task.watermarks(&answer.mark, &answer.watermarks)?)
    }

    /// Warns once in an execution when clocks near the metadata budget: beyond it the task refuses (G13).
    fn warn_of_wide_clocks(&mut self, context: &Context) {
        if !self.warned_of_wide_clocks && self.task.clock_nears_budget() {
            self.warned_of_wide_clocks = true;
            tracing::warn!(
                group = %context.group, partition = context.partition, bytes = self.task.widest_clock_bytes(),
                budget_bytes = context.settings.node.clock_budget_bytes,
                "a clock has come to 80 % of the metadata budget; beyond the budget the task refuses (vc-clock-too-wide)"
            );
        }
    }

    /// The longest clock that the execution received or stamped, in bytes.
    pub(crate) fn widest_clock_bytes(&self) -> usize {
        self.task.widest_clock_bytes()
    }

    /// Whether there is something to read, or to judge.
    pub(crate) fn has_news(&self, state: &State) -> bool {
        let readable = |source: &Source| {
            let partition = state.storage.partition(source.channel);
            partition.is_some_and(|partition| partition.last_stable_offset() > source.position)
        };
        self.draining || !self.has_judged(state) || self.sources.iter().any(readable)
    }

    /// Whether the log has changed since it was last read, or something is to be judged.
    pub(crate) fn is_behind(&self, state: &State) -> bool {
        state.version != self.fetched_version || !self.has_judged(state)
    }

    /// Whether the last check knew of everything that the log has deleted or created anew.
    fn has_judged(&self, state: &State) -> bool {
        self.upheavals == Some(state.upheavals)
    }

    /// Whether a delay keeps something back.
    pub(crate) fn is_delayed(&self) -> bool {
        self.sources
            .iter()
            .any(|source| source.delay.as_ref().is_some_and(DelayLine::holds_back))
    }

    /// Until when an input is withheld, if one is: the next time something changes by itself.
    pub(crate) fn withheld_until(&self) -> Option<Instant> {
        let delays = self
            .sources
            .iter()
            .filter_map(|source| source.delay.as_ref());
        delays.filter_map(DelayLine::withheld_until).min()
    }

    /// The channels that stamps name.
    pub(crate) fn stamp_channels(&self) -> Vec<Channel> {
        self.task.stamp_channels()
    }

    pub(crate) fn held(&self) -> u64 {
        self.task.held()
    }

    pub(crate) fn holds(&self, context: &Context) -> Vec<HoldReport> {
        context.telling.explain_holds(&self.task)
    }

    /// Looks at what is held, and warns of what has been held for long. Returns in how long to look again.
    pub(crate) fn look_at_holds(&self, context: &Context) -> Option<Duration> {
        context.telling.look(&self.task)
    }

    /// Whether the last step ended because it was full: the next one goes on with its drain and reads nothing.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining
    }

    /// Where the inputs are read. The lag is worked out when it is asked for.
    pub(crate) fn inputs(&self, context: &Context) -> Vec<InputStatus> {
        // In channel order.
        let settled = self.task.settled();
        let settled_of = |channel: Channel| {
            let found = settled.binary_search_by_key(&channel, |(channel, _)| *channel);
            found.map_or(Settled::Undefined, |at| settled[at].1)
        };
        context.telling.held_on(|held_on| {
            let input = |source: &Source| {
                let (held, held_since_ms) = held_on(source.channel);
                InputStatus {
                    topic: Arc::clone(&source.topic),
                    channel: source.channel,
                    position: source.position,
                    settled: settled_of(source.channel),
                    lag: 0,
                    held,
                    held_since_ms,
                }
            };
            self.sources.iter().map(input).collect()
        })
    }
}

/// Appends the sends of a round, in their order. Returns where the last one on each channel stands.
fn append(
    step: &mut StepWriter<'_>,
    sends: Vec<RawSend>,
    journal: &mut impl Journal,
) -> Result<Vec<(Channel, Offset)>, SendError> {
    let mut acknowledged = BTreeMap::new();
    for send in sends {
        let channel = send.channel;
        let kept = journal.keeps_sends().then(|| send.clone());
        let offset = step.append(record_of(send))?;
        acknowledged.insert(channel, offset);
        if let Some(send) = kept {
            journal.appended(send, offset);
        }
    }
    Ok(acknowledged.into_iter().collect())
}

fn changes_of(context: &Context, step: StepCommit) -> StepChanges {
    let StepCommit {
        positions,
        ordering,
        fold,
    } = step;
    StepChanges {
        group: context.group.clone(),
        task: context.partition,
        positions,
        ordering,
        fold,
    }
}

fn record_of(send: RawSend) -> Record {
    let RawSend {
        channel,
        key,
        value,
        timestamp_ms,
        headers,
        ..
    } = send;
    Record {
        channel,
        offset: 0,
        timestamp_ms,
        key,
        value,
        headers,
    }
}

fn out_of_range(source: &Source, range: OutOfRange) -> Refusal {
    let OutOfRange {
        log_start,
        high_watermark,
    } = range;
    let found = format!("the log has offsets {log_start} to {high_watermark} exclusively");
    Refusal::at(
        RefusalCode::PositionsLost,
        source.channel,
        source.position,
        found,
    )
}

fn identity_changed(name: &str, expected: TopicId, found: TopicId) -> Refusal {
    let found =
        format!("the topic {name} was {expected} when the application started and is {found} now");
    Refusal::on(RefusalCode::IdentityChanged, expected.partition(0), found)
}
