//! The model as its host sees it.

use std::collections::{BTreeMap, BTreeSet};

use crate::broken::Broken;
use crate::clock::Clock;
use crate::execution::Execution;
use crate::facts::{Mark, OpenLine, Opened, Truncation};
use crate::hold::{Hold, Wait};
use crate::id::{Channel, Topic};
use crate::record::{Delivery, Event, Fetched, Stamp};
use crate::refused::Refused;
use crate::{layout, open};

/// Committed keys and values.
pub type Store = BTreeMap<String, Vec<u8>>;

const RUNS: &str = "an execution runs";

/// The model: committed bytes, and an execution while one runs.
///
/// What feeds, delivers, sends or reports panics when no execution runs, and [`open`](Model::open) when one does. A
/// refusal ends the execution, as an abort does.
#[derive(Clone, Debug)]
pub struct Model {
    committed: Store,
    execution: Option<Execution>,
    /// Largest clock in bytes, inclusive.
    budget: usize,
    broken: Option<Broken>,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            committed: BTreeMap::new(),
            execution: None,
            budget: 262_144,
            broken: None,
        }
    }
}

impl Model {
    /// A model without committed bytes; the budget is the largest clock in bytes, inclusive.
    pub fn with_budget(budget: usize) -> Model {
        Model {
            budget,
            ..Model::default()
        }
    }

    /// A stopped model over bytes that somebody else left.
    pub fn over(committed: Store, budget: usize) -> Model {
        Model {
            committed,
            budget,
            ..Model::default()
        }
    }

    /// The same model, breaking a rule or none from its next initialisation on.
    pub fn breaking(mut self, broken: Option<Broken>) -> Model {
        self.broken = broken;
        self
    }

    /// The rule that it breaks.
    pub fn broken(&self) -> Option<Broken> {
        self.broken
    }

    /// Whether an execution runs.
    pub fn running(&self) -> bool {
        self.execution.is_some()
    }

    /// Committed keys and values.
    pub fn store(&self) -> &Store {
        &self.committed
    }

    /// The execution, for whoever wants to look into it.
    pub fn execution(&self) -> &Execution {
        self.execution.as_ref().expect(RUNS)
    }

    /// Initialises from the committed bytes alone. What it changes is committed by the next `commit`.
    pub fn open(&mut self, line: &OpenLine) -> Result<Opened, Refused> {
        assert!(self.execution.is_none(), "open while an execution runs");
        let state = layout::parse(&self.committed).ok_or(Refused::bare("vc-corrupt-state"))?;
        let (execution, opened) = open::initialise(state, line, self.broken)?;
        self.execution = Some(execution);
        Ok(opened)
    }

    /// Feeds one record without delivering anything; `true` when it was dropped.
    pub fn receive(&mut self, on: Channel, fetched: &Fetched) -> Result<bool, Refused> {
        let budget = self.budget;
        self.run(|execution| execution.receive(on, fetched, budget))
    }

    /// Feeds one record and delivers what can be delivered.
    pub fn record(&mut self, on: Channel, fetched: &Fetched) -> Result<Vec<Event>, Refused> {
        let mut events = Vec::new();
        if self.receive(on, fetched)? {
            events.push(Event::Dropped {
                on,
                offset: fetched.offset,
            });
        }
        events.extend(self.drain().into_iter().map(Event::Delivered));
        Ok(events)
    }

    /// The consumer has passed everything below `next`.
    pub fn position(&mut self, on: Channel, next: i64) -> Result<(), Refused> {
        self.run(|execution| execution.position(on, next))
    }

    /// The next delivery of the plain scan, or `None` after a pass that delivered nothing.
    pub fn deliver_next(&mut self) -> Option<Delivery> {
        self.execution.as_mut().expect(RUNS).deliver_next()
    }

    /// Delivers until nothing more can go.
    pub fn drain(&mut self) -> Vec<Delivery> {
        std::iter::from_fn(|| self.deliver_next()).collect()
    }

    /// Stamps the next send to a channel.
    pub fn send(&mut self, to: Channel) -> Result<Stamp, Refused> {
        let budget = self.budget;
        self.run(|execution| execution.send(to, budget))
    }

    /// What was sent so far is acknowledged, with the offsets that are known (decision D10).
    pub fn fence(&mut self, acks: &BTreeMap<Channel, i64>) {
        self.execution.as_mut().expect(RUNS).fence(acks);
    }

    /// Ends the step: everything sent is acknowledged and the state is in the committed bytes. Returns the positions that
    /// belong to them.
    pub fn commit(&mut self, acks: &BTreeMap<Channel, i64>) -> BTreeMap<Channel, i64> {
        self.fence(acks);
        let execution = self.execution.as_mut().expect(RUNS);
        execution.sent_in_step.clear();
        self.committed = execution.leave();
        self.resume_positions()
    }

    /// The step is lost and the execution, if one runs, ends.
    pub fn abort(&mut self) {
        let ended = self.execution.take();
        if let Some(mut ended) = ended
            && ended.breaks(Broken::KeepStateAfterAbort)
        {
            self.committed = ended.leave();
        }
    }

    /// Commits and ends the execution.
    pub fn stop(&mut self) -> BTreeMap<Channel, i64> {
        let positions = self.commit(&BTreeMap::new());
        self.execution = None;
        positions
    }

    /// The point in this execution that an answer asked for from now on speaks for.
    pub fn mark(&self) -> Mark {
        self.execution().mark()
    }

    /// Takes high watermarks that were asked for after the mark.
    pub fn watermarks(&mut self, mark: &Mark, watermarks: &BTreeMap<Channel, i64>) {
        self.execution
            .as_mut()
            .expect(RUNS)
            .watermarks(mark, watermarks);
    }

    /// For counting what only evidence released.
    pub fn forget_evidence(&mut self) {
        self.execution.as_mut().expect(RUNS).evidence.clear();
    }

    /// Whether the next pull would deliver something.
    pub fn deliverable(&self) -> bool {
        self.clone().deliver_next().is_some()
    }

    /// A check, and a sweep if it refuses nothing.
    pub fn truncate(&mut self, truncation: &Truncation) -> Result<(), Refused> {
        self.check(&truncation.log_starts, &truncation.gone)?;
        self.sweep(&truncation.drop_below, &truncation.drop_gone);
        Ok(())
    }

    /// Judges what the host learned of log starts and deletions.
    pub fn check(
        &mut self,
        log_starts: &BTreeMap<Channel, i64>,
        gone: &BTreeSet<Topic>,
    ) -> Result<(), Refused> {
        self.run(|execution| execution.check(log_starts, gone))
    }

    /// Drops offset claims below the bounds, and all claims on topics gone for good.
    pub fn sweep(&mut self, drop_below: &BTreeMap<Channel, i64>, drop_gone: &BTreeSet<Topic>) {
        self.execution
            .as_mut()
            .expect(RUNS)
            .sweep(drop_below, drop_gone);
    }

    /// Every blocked head and what it waits for.
    pub fn holds(&self) -> Vec<Hold> {
        self.execution().holds()
    }

    /// What the host commits as its position on each channel: one past what a restore would know as fed.
    pub fn resume_positions(&self) -> BTreeMap<Channel, i64> {
        let execution = self.execution();
        let mut positions = BTreeMap::new();
        for &on in &execution.inputs {
            let last_held = execution.held(on).last().map(|held| held.record.offset);
            let fed = execution.frontier(on).max(last_held);
            if let Some(fed) = fed {
                positions.insert(on, fed.saturating_add(1));
            }
        }
        positions
    }

    /// What heads that nothing but sequence claims blocks wait for.
    pub fn waited_for_by_sequence(&self) -> BTreeSet<Channel> {
        let mut waited = BTreeSet::new();
        for hold in self.holds() {
            if hold
                .waits
                .iter()
                .all(|wait| matches!(wait, Wait::Sequence { .. }))
            {
                waited.extend(hold.waits.iter().map(Wait::on));
            }
        }
        waited
    }

    /// The channels that the clocks in custody name.
    pub fn stamp_channels(&self) -> BTreeSet<Channel> {
        let state = &self.execution().state;
        let mut named = BTreeSet::new();
        for clock in state.advertised.values().chain([&state.carried]) {
            named.extend(clock.offsets.keys().copied());
            named.extend(clock.sequences.keys().map(|&(on, _)| on));
        }
        named
    }

    /// How many sequence claims the next stamp may hold.
    pub fn sequence_claims(&self) -> usize {
        let execution = self.execution();
        execution.custody().sequences.len() + execution.own_claims.len()
    }

    /// The channels that the next stamp may claim by sequence.
    pub fn channels_claimed_by_sequence(&self) -> BTreeSet<Channel> {
        let execution = self.execution();
        let Clock { sequences, .. } = execution.custody();
        let own = execution.own_claims.keys().copied();
        sequences.keys().map(|&(on, _)| on).chain(own).collect()
    }

    /// How many records are held.
    pub fn held(&self) -> usize {
        self.execution().state.held.values().map(Vec::len).sum()
    }

    /// A refusal stops the whole node: nothing of the step is kept.
    fn run<T>(
        &mut self,
        step: impl FnOnce(&mut Execution) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let outcome = step(self.execution.as_mut().expect(RUNS));
        if outcome.is_err() {
            self.abort();
        }
        outcome
    }
}
