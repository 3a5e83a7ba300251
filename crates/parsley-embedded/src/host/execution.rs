//! One execution of a task, from its opening to its end: what a step consists of, and what is done between steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parsley_core::{Channel, Offset, Receipt, Record, Refusal, RefusalCode, TopicId};
use parsley_stage::{Processed, RawSend, Task};

use super::context::{Context, Failure};
use super::delay::DelayLine;
use super::events::NamedHold;
use super::facts::{open_facts, read_from};
use super::observed::Observed;
use super::status::InputStatus;
use super::sweep::{Learned, Sweep};
use crate::log::{Fetched, OutOfRange, State};

/// How many sequence claims a stamp may hold before the host asks for high watermarks.
const SEQUENCE_CLAIMS_MAX: usize = 64;

/// A busy task looks every that many steps whether watermarks would help it.
const EVIDENCE_EVERY_STEPS: u64 = 32;

pub(crate) struct Execution {
    task: Task,
    sources: Vec<Source>,
    observed: Observed,
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

/// What a fetch round handed to the task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fed {
    pub(crate) received: u64,
    pub(crate) dropped: u64,
    moved: bool,
}

/// What a step came to.
pub(crate) struct StepDone {
    pub(crate) delivered: u64,
    pub(crate) fed: Fed,
}

impl Execution {
    /// Opens the task from committed state, and commits what the opening writes.
    pub(crate) fn open(context: &Context) -> Result<Self, Failure> {
        let (facts, stores) = {
            let mut state = context.log.lock();
            let stores = state
                .storage
                .group_mut(&context.group)
                .task(context.partition);
            (open_facts(context, &state, &stores)?, stores)
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
        context.log.step().commit(
            &context.group,
            context.partition,
            step.positions,
            step.ordering,
            step.fold,
        );
        task.step_committed();
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
                let delay = delay.map(|polls| DelayLine::new(*polls, position));
                Source {
                    topic: topic.into(),
                    channel,
                    position,
                    delay,
                }
            })
            .collect();
        Ok(Self {
            task,
            sources,
            observed: Observed::default(),
            sweep: Sweep::default(),
            round: 0,
            steps_since_evidence: 0,
            steps_since_check: 0,
            upheavals: None,
            fetched_version: 0,
            evidence_version: None,
            warned_of_wide_clocks: false,
            draining: false,
        })
    }

    /// Reads each input on from its position and hands the task what it finds, then how far it read. While a full step's drain goes on,
    /// nothing new is taken in.
    pub(crate) fn feed(&mut self, context: &Context) -> Result<Fed, Failure> {
        if self.draining {
            return Ok(Fed::default());
        }
        let fetched = loop {
            let state = context.log.lock();
            if self.has_judged(&state) {
                break self.fetch(context, &state)?;
            }
            // What was deleted is judged before anything more is fed.
            drop(state);
            self.check(context)?;
        };
        let mut fed = Fed::default();
        for (index, Fetched { records, next }) in fetched {
            let channel = self.sources[index].channel;
            for record in records {
                let offset = record.offset;
                match self.task.receive(record)? {
                    Receipt::Accepted => {
                        fed.received += 1;
                        self.observed.arrived(context, channel, offset);
                    }
                    Receipt::Dropped => fed.dropped += 1,
                }
            }
            // Everything below has been fed by now (decision S10).
            self.task.advance(channel, next)?;
            self.sources[index].position = next;
            fed.moved = true;
        }
        Ok(fed)
    }

    fn fetch(
        &mut self,
        context: &Context,
        state: &State,
    ) -> Result<Vec<(usize, Fetched)>, Refusal> {
        self.fetched_version = state.version;
        let mut fetched = Vec::new();
        for (index, source) in self.sources.iter_mut().enumerate() {
            let Some(partition) = state.storage.partition(source.channel) else {
                continue;
            };
            let until = source
                .delay
                .as_mut()
                .map(|delay| delay.observe(partition.last_stable_offset(), self.round));
            let found = partition
                .fetch(source.position, until, context.settings.fetch_records_max)
                .map_err(|range| out_of_range(source, range))?;
            if found.next > source.position {
                fetched.push((index, found));
            }
        }
        self.round += 1;
        Ok(fetched)
    }

    /// Delivers what can be delivered and commits the step, if it did anything. `None` when it did not.
    pub(crate) fn step(
        &mut self,
        context: &Context,
        fed: Fed,
    ) -> Result<Option<StepDone>, Failure> {
        let was_draining = self.draining;
        let mut sends = Vec::new();
        let processed = match self.deliver(context, &mut sends) {
            Ok(processed) => processed,
            Err(failure) => {
                // As on a broker, what had been handed over stays behind as an aborted run. Should a part of it fail to be appended, the
                // run is shorter.
                let _ = context
                    .log
                    .step()
                    .append(sends.into_iter().map(record_of).collect());
                return Err(failure);
            }
        };
        if processed.is_empty() && !fed.moved {
            // A full step may have taken the last record that could be delivered: its drain ends here.
            if was_draining {
                self.observed.drained(context, || self.task.holds());
            }
            return Ok(None);
        }
        let mut step = context.log.step();
        let mut acknowledged = step.append(sends.into_iter().map(record_of).collect())?;
        while self.task.has_later_rounds() {
            self.task.fence(&acknowledged)?;
            acknowledged =
                step.append(self.task.take_sends().into_iter().map(record_of).collect())?;
        }
        let changes = self.task.finish_step(&acknowledged)?;
        step.commit(
            &context.group,
            context.partition,
            changes.positions,
            changes.ordering,
            changes.fold,
        );
        self.task.step_committed();
        self.steps_since_evidence += 1;
        // What was fed may wait by sequence, and the log need not have changed since watermarks were last asked for.
        self.evidence_version = None;
        self.steps_since_check += 1;
        let delivered = processed.len() as u64;
        self.warn_of_wide_clocks(context);
        self.observed.delivered(context, processed);
        if !self.draining {
            self.observed.drained(context, || self.task.holds());
        }
        Ok(Some(StepDone { delivered, fed }))
    }

    fn deliver(
        &mut self,
        context: &Context,
        sends: &mut Vec<RawSend>,
    ) -> Result<Vec<Processed>, Failure> {
        let mut processed = Vec::new();
        self.draining = false;
        loop {
            if self.task.step_is_full() || (context.board.is_stopping() && !processed.is_empty()) {
                self.draining = true;
                return Ok(processed);
            }
            let Some(delivery) = self.task.process_next()? else {
                return Ok(processed);
            };
            processed.push(delivery);
            sends.append(&mut self.task.take_sends());
        }
    }

    /// What is due between steps.
    pub(crate) fn between_steps(&mut self, context: &Context) -> Result<(), Failure> {
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
    pub(crate) fn check(&mut self, context: &Context) -> Result<(), Failure> {
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
            return Err(Failure::Refused(refusal));
        }
        let delay = context.settings.truncation_delay;
        if let Some(aged) = self
            .sweep
            .learn(context.settings.time.now_ms(), learned, delay)
        {
            self.task.truncate(&aged.log_starts, &aged.gone)?;
        }
        Ok(())
    }

    /// Asks for high watermarks if they may help and anything has been written since they were last asked for. Returns whether they were
    /// handed in: deliveries may be possible now.
    pub(crate) fn give_evidence(&mut self, context: &Context) -> Result<bool, Failure> {
        if self.evidence_version == Some(context.log.version()) {
            return Ok(false);
        }
        let waited_for = self.task.channels_waited_for_by_sequence();
        let many = self.task.sequence_claims() > SEQUENCE_CLAIMS_MAX;
        if waited_for.is_empty() && !many {
            return Ok(false);
        }
        // The mark comes first: the answer speaks for what was known when it was taken.
        let mark = self.task.mark();
        let claimed = self.task.channels_claimed_by_sequence();
        let channels: BTreeSet<Channel> = claimed.into_iter().chain(waited_for).collect();
        let watermarks = {
            let state = context.log.lock();
            self.evidence_version = Some(state.version);
            let watermark = |channel: Channel| {
                Some((channel, state.storage.partition(channel)?.high_watermark()))
            };
            channels.into_iter().filter_map(watermark).collect()
        };
        self.task.watermarks(&mark, &watermarks)?;
        Ok(true)
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

    pub(crate) fn held(&self) -> u64 {
        self.task.held()
    }

    pub(crate) fn holds(&self, context: &Context) -> Vec<NamedHold> {
        let named = |hold| NamedHold::new(hold, |topic| context.topic_name(topic));
        self.task.holds().into_iter().map(named).collect()
    }

    /// Where the inputs are read. The lag is worked out when it is asked for.
    pub(crate) fn inputs(&self) -> Vec<InputStatus> {
        let input = |source: &Source| InputStatus {
            topic: Arc::clone(&source.topic),
            channel: source.channel,
            position: source.position,
            lag: 0,
        };
        self.sources.iter().map(input).collect()
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

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
