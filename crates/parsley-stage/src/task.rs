//! The host core: one partition of one stage, without any I/O.
//!
//! A host feeds records and positions, asks for deliveries one by one, hands the sends to its log in the rounds that the task gives out,
//! and makes durable what [`Task::finish_step`] returns. Everything a step changes is staged until then: a host aborts a step by dropping
//! the task and opening it again from committed state.
//!
//! ```text
//! loop {
//!     feed: receive(..), advance(..)
//!     while !step_is_full() { process_next()? or break; hand over take_sends() }
//!     loop { flush, gather acks; if !has_later_rounds() { break }; fence(acks)?; hand over take_sends() }
//!     let step = finish_step(acks)?;
//!     commit the sends, step.positions, step.ordering and step.fold, all or nothing
//!     step_committed();
//! }
//! ```
//!
//! Opening writes too (the scope, the first positions), so the first step may well be one without a record.

mod config;
mod error;
mod look;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use parsley_core::decide::Settled;
use parsley_core::wire::{CLOCK_HEADER, SENDER_HEADER, SEQUENCE_HEADER};
use parsley_core::{
    Channel, Delivery, Mark, Node, Offset, OpenFacts, Opened, Receipt, Record, Refusal,
    RefusalCode, SenderId, Staged, StateStore, TopicId,
};

pub use config::{TaskConfig, TopicInfo};
pub use error::TaskError;
pub use step::{Processed, RawSend, StepCommit};

use crate::BoxError;
use crate::app::consumer_group;
use crate::failure::{ApplicationError, Failure, FailureKind};
use crate::fold::{FoldStore, TICK_STATE_KEY, state_key};
use crate::outbox::{Emission, Outbox, SendError};
use crate::rounds::Rounds;
use crate::stage::{Input, Stage, StateSlot};
use crate::ticks;

/// One partition of one stage. See the [module](self) for how a host drives it.
pub struct Task {
    stage: Stage,
    partition: i32,
    sender: SenderId,
    node: Node,
    ordering: Staged<Box<dyn StateStore + Send>>,
    fold: FoldStore,
    /// The channels consumed and the input of each, in channel order.
    inputs: Vec<(Channel, usize)>,
    max_rounds: usize,
    max_step_deliveries: usize,
    outbox: Outbox,
    rounds: Rounds,
    deliveries: usize,
    phase: Phase,
    /// Stamped and not yet taken by the host.
    ready: Vec<RawSend>,
    /// Emitted and not yet stamped, by round.
    later: BTreeMap<usize, Vec<Emission>>,
    failed: Option<TaskError>,
}

/// How far the current step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Delivering,
    /// Deliveries are over; later rounds go out.
    Fenced,
    /// The host is making the step durable.
    Finished,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Delivering => "the step takes deliveries",
            Self::Fenced => "the step is fenced",
            Self::Finished => "the step is being committed",
        }
    }
}

const UNTAKEN: &str = "sends of the step were not taken";

impl Task {
    /// Opens a task from committed state.
    ///
    /// `ordering` and `fold` are for reading what is committed; the task never writes to them. What it changes is in the [`StepCommit`]
    /// that ends each step, the first of which belongs to the opening itself.
    ///
    /// # Errors
    ///
    /// A refusal or another error of the node, or a configuration that does not fit the stage. A declared sink that the configuration
    /// does not resolve is guard G6, `vc-missing-sink`; one whose end offsets are not among the facts is [`TaskError::MissingEnd`].
    pub fn open(
        stage: Stage,
        config: TaskConfig,
        facts: &OpenFacts,
        ordering: Box<dyn StateStore + Send>,
        fold: Box<dyn StateStore + Send>,
    ) -> Result<(Self, Opened), TaskError> {
        let stage = stage
            .clone()
            .in_group(&consumer_group(&config.application, stage.name()));
        let resolved = config::Resolved::new(&stage, &config)?;
        resolved.check_ends(facts)?;
        let sender = resolved.node.sender;
        let mut ordering = Staged::over(ordering);
        let (node, opened) = Node::open(resolved.node, facts, &mut ordering)?;
        let task = Self {
            partition: config.partition,
            sender,
            node,
            ordering,
            fold: FoldStore::over(fold),
            inputs: resolved.inputs,
            max_rounds: config.max_rounds.max(1),
            max_step_deliveries: config.max_step_deliveries.max(1),
            outbox: Outbox::new(resolved.sinks),
            rounds: Rounds::new(stage.send_order(), stage.is_stateful()),
            deliveries: 0,
            phase: Phase::Delivering,
            ready: Vec::new(),
            later: BTreeMap::new(),
            failed: None,
            stage,
        };
        Ok((task, opened))
    }

    /// The stage.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Which of the stage's partitions this is.
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The identity that the task's sends carry, the same in every execution.
    pub fn sender(&self) -> SenderId {
        self.sender
    }

    /// The channels that the task consumes, in channel order, with the names of their topics. An input that has no partition of this
    /// task's number is not among them.
    pub fn inputs(&self) -> impl Iterator<Item = (Channel, &str)> {
        let declared = self.stage.declared_inputs();
        self.inputs
            .iter()
            .map(|&(channel, input)| (channel, &*declared[input].topic.name))
    }

    /// Takes a record that the host fetched.
    ///
    /// # Errors
    ///
    /// A refusal, or the error that stopped the task.
    pub fn receive(&mut self, record: Record) -> Result<Receipt, TaskError> {
        self.unless_failed(|task| Ok(task.node.receive(record)?))
    }

    /// Takes note that the host's consumer is now at `next` on a channel, all below having been fed.
    ///
    /// # Errors
    ///
    /// A refusal, or the error that stopped the task.
    pub fn advance(&mut self, channel: Channel, next: Offset) -> Result<(), TaskError> {
        self.unless_failed(|task| Ok(task.node.advance(channel, next)?))
    }

    /// Delivers the next record whose causes are delivered: decodes it, runs the logic, and stamps what it emitted for the step's first
    /// round. `None` when no record can be delivered now, or when the step is full.
    ///
    /// # Errors
    ///
    /// [`TaskError::Application`] when the logic or a codec fails or panics; a refusal; or the error that stopped the task. Nothing of
    /// the step may be kept then.
    pub fn process_next(&mut self) -> Result<Option<Processed>, TaskError> {
        self.unless_failed(|task| {
            task.expect_phase("process_next", &[Phase::Delivering])?;
            if task.step_is_full() {
                return Ok(None);
            }
            match task.node.next_delivery(&task.ordering)? {
                None => Ok(None),
                Some(delivery) => task.process(delivery).map(Some),
            }
        })
    }

    /// Emits a tick to the task's own partition of the tick topic, stamped like any send. It joins the step, and its logic runs when it
    /// comes back as a delivery. `timestamp_ms` is the host's wall clock, in milliseconds since the Unix epoch.
    ///
    /// # Errors
    ///
    /// A refusal, [`TaskError::OutOfTurn`] after a fence or when the stage declares no ticks, or the error that stopped the task.
    pub fn tick(&mut self, timestamp_ms: i64) -> Result<(), TaskError> {
        self.unless_failed(|task| {
            task.expect_phase("tick", &[Phase::Delivering])?;
            let Some((topic, channel)) = task.tick_channel() else {
                return Err(TaskError::OutOfTurn {
                    call: "tick",
                    state: "the stage declares no ticks",
                });
            };
            let emission = Emission {
                topic,
                channel,
                key: Some(ticks::key_of(task.partition)),
                value: None,
                timestamp_ms,
                headers: Vec::new(),
            };
            match task.rounds.place_tick(channel) {
                0 => task.stamp(0, emission),
                round => {
                    task.later.entry(round).or_default().push(emission);
                    Ok(())
                }
            }
        })
    }

    /// The sends that are to be handed to the log now, in this order.
    #[must_use = "the step cannot go on without these in the log"]
    pub fn take_sends(&mut self) -> Vec<RawSend> {
        std::mem::take(&mut self.ready)
    }

    /// The same one by one, in place. Those that are not taken are dropped, and the step with them is to be given up.
    pub fn drain_sends(&mut self) -> impl Iterator<Item = RawSend> + '_ {
        self.ready.drain(..)
    }

    /// Whether the step has to end before another delivery: its sends take `max_rounds` rounds, or it has `max_step_deliveries`
    /// deliveries.
    pub fn step_is_full(&self) -> bool {
        self.rounds.count() >= self.max_rounds || self.deliveries >= self.max_step_deliveries
    }

    /// How many deliveries the step has so far.
    pub fn step_deliveries(&self) -> usize {
        self.deliveries
    }

    /// How many rounds the step's sends take so far.
    pub fn step_rounds(&self) -> usize {
        self.rounds.count()
    }

    /// Whether the step has sends that wait for the acknowledgement of those handed over.
    pub fn has_later_rounds(&self) -> bool {
        !self.later.is_empty()
    }

    /// Takes note that everything handed over so far is acknowledged, with the offset of the last send on each channel where it is
    /// known, and stamps the next round, for [`Task::take_sends`] to give out. The step takes no more deliveries.
    ///
    /// # Errors
    ///
    /// A refusal, [`TaskError::OutOfTurn`] when sends were not taken, or the error that stopped the task.
    pub fn fence(&mut self, acks: &[(Channel, Offset)]) -> Result<(), TaskError> {
        self.unless_failed(|task| {
            task.expect_phase("fence", &[Phase::Delivering, Phase::Fenced])?;
            task.expect_taken("fence")?;
            task.node.fence(acks)?;
            task.phase = Phase::Fenced;
            if let Some((round, emissions)) = task.later.pop_first() {
                for emission in emissions {
                    task.stamp(round, emission)?;
                }
            }
            Ok(())
        })
    }

    /// Ends the step, everything handed over being acknowledged, with the offset of the last send on each channel where it is known.
    ///
    /// The task goes on with [`Task::step_committed`] once what is returned is durable; if it does not become so, drop the task.
    ///
    /// # Errors
    ///
    /// A refusal, [`TaskError::OutOfTurn`] when rounds remain or sends were not taken, or the error that stopped the task.
    pub fn finish_step(&mut self, acks: &[(Channel, Offset)]) -> Result<StepCommit, TaskError> {
        self.unless_failed(|task| {
            task.expect_phase("finish_step", &[Phase::Delivering, Phase::Fenced])?;
            task.expect_taken("finish_step")?;
            if task.has_later_rounds() {
                return Err(TaskError::OutOfTurn {
                    call: "finish_step",
                    state: "rounds of the step remain",
                });
            }
            let positions = task.node.commit(acks, &mut task.ordering)?;
            task.phase = Phase::Finished;
            Ok(StepCommit {
                positions,
                ordering: task.ordering.take_changes(),
                fold: task.fold.take_changes(),
            })
        })
    }

    /// Takes note that the step is durable and that the task's stores show it. The next step begins.
    ///
    /// Without a finished step the task stops with [`TaskError::OutOfTurn`], which the next call gives.
    pub fn step_committed(&mut self) {
        let _recorded = self.unless_failed(|task| {
            task.expect_phase("step_committed", &[Phase::Finished])?;
            task.phase = Phase::Delivering;
            task.rounds.begin_step();
            task.deliveries = 0;
            Ok(())
        });
    }

    /// Gives the step up. The same as dropping the task: nothing of the step is kept, and the next [`Task::open`] starts from what is
    /// committed.
    pub fn abort(self) {}

    /// The positions that a commit would give now, without one.
    pub fn resume_positions(&self) -> Vec<(Channel, Offset)> {
        self.node.resume_positions()
    }

    /// How far each input is settled now, in channel order: everything up to there is delivered, or will never come. Deliveries of a step that
    /// is not committed yet count; who must not take those for done asks between steps.
    pub fn settled(&self) -> Vec<(Channel, Settled)> {
        self.node.settled()
    }

    /// What watermarks asked for from now on speak for. To be taken between steps.
    pub fn mark(&mut self) -> Mark {
        self.node.mark()
    }

    /// Hands in high watermarks that were asked for after the mark was taken (`docs/protocol.md`, Watermark evidence).
    ///
    /// # Errors
    ///
    /// A refusal, or the error that stopped the task.
    pub fn watermarks(
        &mut self,
        mark: &Mark,
        watermarks: &BTreeMap<Channel, Offset>,
    ) -> Result<(), TaskError> {
        self.unless_failed(|task| Ok(task.node.watermarks(mark, watermarks)?))
    }

    /// Checks log starts and deletions that the host learned (guards G10 and G9).
    ///
    /// # Errors
    ///
    /// A refusal, or the error that stopped the task.
    pub fn check(
        &mut self,
        log_starts: &BTreeMap<Channel, Offset>,
        gone: &BTreeSet<TopicId>,
    ) -> Result<(), TaskError> {
        self.unless_failed(|task| Ok(task.node.check(log_starts, gone)?))
    }

    /// Drops claims from future stamps (`docs/protocol.md`, Truncation).
    ///
    /// # Errors
    ///
    /// A refusal, or the error that stopped the task.
    pub fn truncate(
        &mut self,
        drop_below: &BTreeMap<Channel, Offset>,
        drop_gone: &BTreeSet<TopicId>,
    ) -> Result<(), TaskError> {
        self.unless_failed(|task| Ok(task.node.truncate(drop_below, drop_gone)?))
    }

    fn unless_failed<T>(
        &mut self,
        call: impl FnOnce(&mut Self) -> Result<T, TaskError>,
    ) -> Result<T, TaskError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        call(self).inspect_err(|error| {
            self.ready.clear();
            self.later.clear();
            self.failed = Some(error.clone());
        })
    }

    fn expect_phase(&self, call: &'static str, phases: &[Phase]) -> Result<(), TaskError> {
        if phases.contains(&self.phase) {
            return Ok(());
        }
        Err(TaskError::OutOfTurn {
            call,
            state: self.phase.name(),
        })
    }

    fn expect_taken(&self, call: &'static str) -> Result<(), TaskError> {
        if self.ready.is_empty() {
            Ok(())
        } else {
            Err(TaskError::OutOfTurn {
                call,
                state: UNTAKEN,
            })
        }
    }

    fn process(&mut self, mut delivery: Delivery) -> Result<Processed, TaskError> {
        let mut emissions = self.run_logic(&mut delivery)?;
        self.deliveries += 1;
        match self.input(delivery.channel).state {
            StateSlot::Ticks => self.rounds.begin_tick_delivery(),
            StateSlot::None | StateSlot::Key => {
                self.rounds.begin_delivery(delivery.key.as_ref());
            }
        }
        let sends = emissions.len();
        for emission in emissions.drain(..) {
            match self.rounds.place(emission.channel) {
                0 => self.stamp(0, emission)?,
                round => self.later.entry(round).or_default().push(emission),
            }
        }
        self.outbox.take_back(emissions);
        Ok(Processed {
            topic: Arc::clone(&self.input(delivery.channel).topic.name),
            channel: delivery.channel,
            offset: delivery.offset,
            key: delivery.key,
            timestamp_ms: delivery.timestamp_ms,
            clock: delivery.clock,
            was_held: delivery.was_held,
            sends,
        })
    }

    /// Runs the logic of the delivery's input and stages the state it leaves. What it emitted is returned.
    fn run_logic(&mut self, delivery: &mut Delivery) -> Result<Vec<Emission>, TaskError> {
        let stage = self.stage.clone();
        let input = &stage.declared_inputs()[self.input_index(delivery.channel)];
        let state_key = match input.state {
            StateSlot::None => None,
            StateSlot::Key => Some(state_key(delivery.key.as_deref())),
            StateSlot::Ticks => Some(Bytes::from_static(&[TICK_STATE_KEY])),
        };
        let before = match &state_key {
            Some(state_key) => self.fold.get(state_key)?,
            None => None,
        };
        self.outbox.begin_delivery(delivery.timestamp_ms);
        // Whatever a panic leaves half done is dropped with the task: it stops for every failure.
        let run = catch_unwind(AssertUnwindSafe(|| {
            (input.logic)(delivery, before.as_ref(), &mut self.outbox)
        }));
        // Ahead of what the logic made of it: a failed emission is not the logic's to forgive.
        let emissions = self
            .outbox
            .take_emissions()
            .map_err(|error| self.unsendable(delivery, error))?;
        let after = run
            .unwrap_or_else(|payload| Err(Failure::of_panic(&*payload)))
            .map_err(|failure| self.application_error(delivery, failure))?;
        if let Some(state_key) = state_key {
            self.fold.replace(&state_key, before.as_ref(), after)?;
        }
        Ok(emissions)
    }

    fn stamp(&mut self, round: usize, emission: Emission) -> Result<(), TaskError> {
        let Emission {
            topic,
            channel,
            key,
            value,
            timestamp_ms,
            mut headers,
        } = emission;
        headers.extend(self.node.prepare_send(channel)?.headers());
        self.ready.push(RawSend {
            topic,
            channel,
            round,
            key,
            value,
            timestamp_ms,
            headers,
        });
        Ok(())
    }

    /// Where the task's ticks go.
    fn tick_channel(&self) -> Option<(Arc<str>, Channel)> {
        let name = self.stage.tick_topic()?;
        let declared = self.stage.declared_inputs();
        let found = self.inputs.iter().find_map(|&(channel, input)| {
            let topic = &declared[input].topic.name;
            (**topic == *name).then(|| (Arc::clone(topic), channel))
        });
        // The tick topic has a partition of every task's number (checked when the task was opened).
        found
    }

    fn input_index(&self, channel: Channel) -> usize {
        let found = self
            .inputs
            .binary_search_by_key(&channel, |&(channel, _)| channel);
        self.inputs[found.expect("the node delivers from declared channels only (G3)")].1
    }

    fn input(&self, channel: Channel) -> &Input {
        &self.stage.declared_inputs()[self.input_index(channel)]
    }

    /// The error for an emission that was not taken: a guard's, or the application's where its codec failed.
    fn unsendable(&self, delivery: &Delivery, error: SendError) -> TaskError {
        let code = match &error {
            SendError::UndeclaredSink { .. } => RefusalCode::UndeclaredSink,
            SendError::ReservedHeader { .. } => RefusalCode::ReservedHeader,
            SendError::Key { .. } | SendError::Value { .. } => {
                let failure = Failure::new(FailureKind::Encode, BoxError::from(error));
                return self.application_error(delivery, failure);
            }
        };
        let what = match &error {
            // A refusal is logged as it is, and a name that logic made up may be what a record says.
            SendError::ReservedHeader { topic, header } if !IN_USE.contains(&header.as_str()) => {
                format!(
                    "a header on an emission to {topic} has a name that begins with vc-: those are reserved for the protocol"
                )
            }
            _ => error.to_string(),
        };
        let found = format!("logic of stage {}: {what}", self.stage.name());
        TaskError::Refused(Refusal::at(code, delivery.channel, delivery.offset, found))
    }

    fn application_error(&self, delivery: &Delivery, failure: Failure) -> TaskError {
        TaskError::Application(Box::new(ApplicationError {
            stage: self.stage.name().into(),
            topic: Arc::clone(&self.input(delivery.channel).topic.name),
            channel: delivery.channel,
            offset: delivery.offset,
            kind: failure.kind,
            message: failure.message,
        }))
    }
}

/// The reserved header names that have a meaning.
const IN_USE: [&str; 3] = [CLOCK_HEADER, SENDER_HEADER, SEQUENCE_HEADER];

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("stage", &self.stage.name())
            .field("partition", &self.partition)
            .field("sender", &self.sender)
            .field("phase", &self.phase)
            .field("deliveries", &self.deliveries)
            .field("rounds", &self.rounds.count())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
