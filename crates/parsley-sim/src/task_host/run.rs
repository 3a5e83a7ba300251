//! An execution of a task, and its steps.

use std::collections::{BTreeMap, VecDeque};

use parsley_core::{Channel, Offset, Receipt, Record};
use parsley_stage::{TopicInfo, fold};

use super::TaskHost;
use super::sweep::{Question, Sweep};
use crate::broker::{Outcome, ReadError, Txn};
use crate::engine::{Engine, Finished, Send};
use crate::fault::HostFault;
use crate::host::{AppendMode, CrashPoint, Event, Move, Read, StepPlan, Stop, TaskNo, TickPlan};

/// How many records a step reads of one channel at most, whatever the plan says.
const READ_MAX: usize = 10_000;

/// A running task.
pub(super) struct Run {
    pub engine: Engine,
    pub sources: Vec<Source>,
    /// The declared topics, as they were when the execution began.
    pub topics: BTreeMap<String, TopicInfo>,
    /// The step under way, where steps take more than one call.
    pub step: Option<OpenStep>,
    pub question: Question,
    pub sweep: Sweep,
}

/// A channel and how far it was read.
pub(super) struct Source {
    pub channel: Channel,
    /// One past the last record fed, or the last position reported.
    pub position: Offset,
    /// Fetched and not fed: only where the host counts that wrongly on purpose.
    pub prefetched: VecDeque<Record>,
}

/// A step that has begun.
#[derive(Default)]
pub(super) struct OpenStep {
    pub txn: Option<Txn>,
    /// Handed over and not appended, by channel.
    pub pending: BTreeMap<Channel, VecDeque<Send>>,
    /// Appended since the last fence.
    pub unacknowledged: Vec<(Channel, Offset)>,
    /// A round was fenced: no more deliveries.
    pub fenced: bool,
}

impl Source {
    pub fn new(channel: Channel, position: Offset) -> Self {
        Self {
            channel,
            position,
            prefetched: VecDeque::new(),
        }
    }
}

impl OpenStep {
    fn take_over(&mut self, sends: Vec<Send>) {
        for send in sends {
            self.pending
                .entry(send.record.channel)
                .or_default()
                .push_back(send);
        }
    }

    /// The last acknowledged offset of each channel, where acknowledgements tell it.
    fn acknowledgements(&mut self, offsets_known: bool) -> Vec<(Channel, Offset)> {
        let last: BTreeMap<Channel, Offset> = self.unacknowledged.drain(..).collect();
        if offsets_known {
            last.into_iter().collect()
        } else {
            Vec::new()
        }
    }
}

impl Run {
    pub fn new(
        engine: Engine,
        sources: Vec<Source>,
        topics: BTreeMap<String, TopicInfo>,
        now: u64,
    ) -> Self {
        Self {
            engine,
            sources,
            topics,
            step: None,
            question: Question::default(),
            sweep: Sweep::checked_at(now),
        }
    }

    pub fn position(&self, channel: Channel) -> Option<Offset> {
        let source = self.sources.iter().find(|source| source.channel == channel);
        source.map(|source| source.position)
    }

    pub fn wants_evidence(&self) -> bool {
        let (waited_for, claimed) = self.engine.evidence_channels();
        !waited_for.is_empty() || !claimed.is_empty()
    }
}

impl TaskHost {
    pub(super) fn run_step(&mut self, task: TaskNo, plan: &StepPlan, now: u64) -> Result<(), Stop> {
        let run = self.run_mut(task)?;
        if run.step.as_ref().is_some_and(|step| step.fenced) {
            return Ok(());
        }
        if run.sweep.is_stale(now) {
            // A task that has not checked for too long delivers nothing.
            if run.step.is_some() {
                return Ok(());
            }
            self.run_check(task, now)?;
        }
        let stamped = match plan.tick {
            Some(tick) if self.shirks(HostFault::StampsTicksEarly) => {
                self.stamp_tick(task, tick)?
            }
            _ => None,
        };
        let mut moved = false;
        for read in &plan.reads {
            moved |= self.feed(task, *read)?;
        }
        if plan.crash == Some(CrashPoint::Fed) {
            return Err(Stop::Crashed);
        }
        let deliveries_max = match plan.crash {
            Some(CrashPoint::Delivered(deliveries)) => deliveries,
            _ => usize::MAX,
        };
        let mut delivered = 0;
        if let Some(tick) = plan.tick {
            delivered += self.deliver(task, tick.after.min(deliveries_max))?;
            let stamped = match stamped {
                None => self.stamp_tick(task, tick)?,
                early => early,
            };
            if let Some(sends) = stamped {
                self.emit_tick(task, tick, sends)?;
                moved = true;
            }
        }
        delivered += self.deliver(task, deliveries_max - delivered)?;
        if plan.crash.is_some_and(|at| at != CrashPoint::Appended) {
            if self.setting.append == AppendMode::Atomic {
                self.append_pending(task)?;
            }
            return Err(Stop::Crashed);
        }
        let run = self.run_mut(task)?;
        if run.step.is_none() && (moved || delivered > 0) {
            run.step = Some(OpenStep::default());
        }
        match self.setting.append {
            AppendMode::Interleaved => self.proceed_if_nothing_is_out(task),
            AppendMode::Atomic => self.complete_step(task, plan.crash),
        }
    }

    /// Feeds what the plan says of one channel. Returns whether anything was.
    fn feed(&mut self, task: TaskNo, read: Read) -> Result<bool, Stop> {
        let jumps = self.shirks(HostFault::JumpsOverLogStart);
        let run = self.run_mut(task)?;
        let Some(index) = run
            .sources
            .iter()
            .position(|source| source.channel == read.channel)
        else {
            return Ok(false);
        };
        let from = run.sources[index].position;
        let fetched = match self
            .broker
            .fetch(read.channel, from, read.records_max.min(READ_MAX))
        {
            Ok(fetched) => fetched,
            Err(ReadError::OutOfRange { lowest, .. }) if from < lowest && jumps => {
                self.run_mut(task)?.sources[index].position = lowest;
                return Ok(true);
            }
            Err(ReadError::OutOfRange { lowest, .. }) if from < lowest => {
                return Err(Stop::Refused {
                    code: "vc-positions-lost".to_owned(),
                    found: format!("position {from} of {}, kept from {lowest}", read.channel),
                });
            }
            Err(_) => return Ok(false),
        };
        let mut records = VecDeque::from(fetched.records);
        if self.shirks(HostFault::DropsOffsetThree) {
            records.retain(|record| record.offset != 3);
        }
        if self.shirks(HostFault::FeedsOutOfOrder) && records.len() > 1 {
            records.swap(0, 1);
        }
        let keeps_back = self.shirks(HostFault::CountsPrefetchedAsSettled);
        let withholds = self.shirks(HostFault::WithholdsAdvances);
        let reported = self.setting.rules.advances && !withholds;
        let run = self.run_mut(task)?;
        let source = &mut run.sources[index];
        let mut moved = false;
        let mut earlier = std::mem::take(&mut source.prefetched);
        if keeps_back && records.len() > 1 {
            source.prefetched = records.split_off(records.len().div_ceil(2));
        }
        let kept_back = !source.prefetched.is_empty();
        earlier.append(&mut records);
        for record in earlier {
            let (channel, offset) = (record.channel, record.offset);
            let run = self.run_mut(task)?;
            run.sources[index].position = offset + 1;
            let receipt = run.engine.receive(record)?;
            moved = true;
            self.events.push(match receipt {
                Receipt::Accepted => Event::Received(task, channel, offset),
                Receipt::Dropped => Event::Dropped(task, channel, offset),
            });
        }
        let run = self.run_mut(task)?;
        let position = &mut run.sources[index].position;
        if (read.advance || kept_back) && reported && fetched.next > *position {
            *position = fetched.next;
            run.engine.advance(read.channel, fetched.next)?;
            self.events
                .push(Event::Advanced(task, read.channel, fetched.next));
            moved = true;
        }
        Ok(moved)
    }

    /// Delivers what can be delivered, and hands over what may go.
    fn deliver(&mut self, task: TaskNo, deliveries_max: usize) -> Result<usize, Stop> {
        let at_once = self.shirks(HostFault::SendsWithoutRounds);
        let mut delivered = 0;
        loop {
            let run = self.run_mut(task)?;
            let fenced = run.step.as_ref().is_some_and(|step| step.fenced);
            if delivered >= deliveries_max || fenced || run.engine.step_is_full() {
                break;
            }
            let Some(handed) = run.engine.process_next()? else {
                break;
            };
            delivered += 1;
            let sends = run.engine.take_sends();
            run.step.get_or_insert_default().take_over(sends);
            self.events.push(Event::Delivered {
                task,
                channel: handed.channel,
                offset: handed.offset,
                was_held: handed.was_held,
            });
        }
        let run = self.run_mut(task)?;
        while at_once && run.engine.has_later_rounds() {
            run.engine.fence(&[])?;
            let sends = run.engine.take_sends();
            let step = run.step.get_or_insert_default();
            step.fenced = true;
            step.take_over(sends);
        }
        Ok(delivered)
    }

    /// What can go of a tick, stamped. `None` when the task takes none: its stage has none, or a round was fenced.
    fn stamp_tick(&mut self, task: TaskNo, tick: TickPlan) -> Result<Option<Vec<Send>>, Stop> {
        let run = self.run_mut(task)?;
        let fenced = run.step.as_ref().is_some_and(|step| step.fenced);
        let ticks = !fenced && run.engine.tick(tick.timestamp_ms)?;
        Ok(ticks.then(|| run.engine.take_sends()))
    }

    fn emit_tick(&mut self, task: TaskNo, tick: TickPlan, sends: Vec<Send>) -> Result<(), Stop> {
        let outside = self.shirks(HostFault::TicksOutsideTheStep);
        let step = self.run_mut(task)?.step.get_or_insert_default();
        let alone = match outside {
            true => sends,
            false => {
                step.take_over(sends);
                Vec::new()
            }
        };
        self.events.push(Event::Ticked(task, tick.timestamp_ms));
        for Send { mut record } in alone {
            let appended = self.broker.append(record.clone(), None);
            record.offset = appended.map_err(|_| Stop::Crashed)?;
            self.events.push(Event::Appended { task, record });
        }
        Ok(())
    }

    /// Appends everything that was handed over, channel by channel.
    fn append_pending(&mut self, task: TaskNo) -> Result<(), Stop> {
        loop {
            let run = self.run_mut(task)?;
            let next = run.step.as_ref().and_then(|step| {
                let waiting = |(&channel, sends): (&Channel, &VecDeque<Send>)| {
                    (!sends.is_empty()).then_some(channel)
                };
                step.pending.iter().find_map(waiting)
            });
            match next {
                None => return Ok(()),
                Some(channel) => self.append_next(task, channel)?,
            }
        }
    }

    /// The whole rest of a step at once.
    fn complete_step(&mut self, task: TaskNo, crash: Option<CrashPoint>) -> Result<(), Stop> {
        let offsets_known = self.setting.offsets_known;
        if self.run_mut(task)?.step.is_none() {
            return Ok(());
        }
        loop {
            self.append_pending(task)?;
            let run = self.run_mut(task)?;
            let (Some(step), true) = (&mut run.step, run.engine.has_later_rounds()) else {
                break;
            };
            let acks = step.acknowledgements(offsets_known);
            run.engine.fence(&acks)?;
            let sends = run.engine.take_sends();
            if let Some(step) = &mut run.step {
                step.take_over(sends);
            }
        }
        if crash.is_some() {
            return Err(Stop::Crashed);
        }
        self.commit(task)
    }

    fn commit(&mut self, task: TaskNo) -> Result<(), Stop> {
        let offsets_known = self.setting.offsets_known;
        let commits_fetch_position = self.shirks(HostFault::CommitsFetchPosition);
        let ends: BTreeMap<Channel, Offset> = match commits_fetch_position {
            true => self.stable_ends(task),
            false => BTreeMap::new(),
        };
        let commits_late = self.shirks(HostFault::CommitsEarlierPositions);
        let loses_ticks = self.shirks(HostFault::LosesTickState);
        let run = self.run_mut(task)?;
        let Some(mut step) = run.step.take() else {
            return Ok(());
        };
        let acks = step.acknowledgements(offsets_known);
        let Finished {
            mut positions,
            ordering,
            mut fold,
        } = run.engine.finish(&acks)?;
        if loses_ticks {
            fold.0.remove(&[fold::TICK_STATE_KEY][..]);
        }
        for (channel, position) in &mut positions {
            *position = ends.get(channel).copied().unwrap_or(*position);
        }
        if let Some(txn) = step.txn {
            self.broker
                .end(txn, Outcome::Committed)
                .map_err(|error| Stop::Failed(error.to_string()))?;
        }
        let keeps_earlier = step.txn.is_some() && self.shirks(HostFault::RestartsBeforeDecision);
        let slot = self.slot_mut(task)?;
        if keeps_earlier {
            slot.before_last = Some(slot.committed());
        }
        slot.last = step.txn.or(slot.last);
        if commits_late {
            let due = std::mem::replace(&mut slot.late, positions);
            slot.positions.extend(due);
        } else {
            slot.positions.extend(positions);
        }
        slot.ordering.apply(ordering);
        slot.fold.apply(fold);
        self.run_mut(task)?.engine.committed();
        self.events.push(Event::Committed(task));
        Ok(())
    }

    fn stable_ends(&self, task: TaskNo) -> BTreeMap<Channel, Offset> {
        let channels = self
            .run_of(task)
            .into_iter()
            .flat_map(|run| run.sources.iter().map(|source| source.channel));
        channels
            .filter_map(|channel| Some((channel, self.broker.last_stable_offset(channel)?)))
            .collect()
    }

    /// Appends the next send to the channel.
    pub(super) fn append_next(&mut self, task: TaskNo, channel: Channel) -> Result<(), Stop> {
        let misplaces = self.shirks(HostFault::StampsBeforePartitioning);
        let run = self.run_mut(task)?;
        let Some(step) = &mut run.step else {
            return Ok(());
        };
        let queue = step.pending.entry(channel).or_default();
        let Some(Send { mut record }) = queue.pop_front() else {
            return Ok(());
        };
        if misplaces {
            match queue.front_mut() {
                // Stamped in one order, appended in another.
                Some(other) => std::mem::swap(&mut record.headers, &mut other.record.headers),
                None => {
                    let partitions = self.broker.partitions(channel.topic).unwrap_or(1);
                    let partition = (channel.partition + 1) % partitions.max(1);
                    record.channel = channel.topic.partition(partition);
                }
            }
        }
        let txn = match self.run_mut(task)?.step.as_ref().and_then(|step| step.txn) {
            Some(txn) => txn,
            None => {
                let txn = self.broker.begin();
                if let Some(step) = &mut self.run_mut(task)?.step {
                    step.txn = Some(txn);
                }
                txn
            }
        };
        let offset = self
            .broker
            .append(record.clone(), Some(txn))
            // Its topic is gone: the step fails, and the next start finds out.
            .map_err(|_| Stop::Crashed)?;
        record.offset = offset;
        if let Some(step) = &mut self.run_mut(task)?.step {
            step.unacknowledged.push((record.channel, offset));
        }
        self.events.push(Event::Appended { task, record });
        Ok(())
    }

    /// Everything handed over is acknowledged: the next round goes out, or the step is committed.
    pub(super) fn proceed(&mut self, task: TaskNo) -> Result<(), Stop> {
        let offsets_known = self.setting.offsets_known;
        let run = self.run_mut(task)?;
        let Some(step) = &mut run.step else {
            return Ok(());
        };
        if !run.engine.has_later_rounds() {
            return self.commit(task);
        }
        let acks = step.acknowledgements(offsets_known);
        run.engine.fence(&acks)?;
        let sends = run.engine.take_sends();
        step.fenced = true;
        step.take_over(sends);
        Ok(())
    }

    /// A step that sends nothing needs nobody to acknowledge it.
    fn proceed_if_nothing_is_out(&mut self, task: TaskNo) -> Result<(), Stop> {
        let run = self.run_mut(task)?;
        let quiet = run.step.as_ref().is_some_and(|step| {
            step.txn.is_none() && step.pending.values().all(VecDeque::is_empty)
        });
        if quiet && !run.engine.has_later_rounds() {
            return self.commit(task);
        }
        Ok(())
    }

    pub(super) fn list_moves(&self, moves: &mut Vec<Move>) {
        if self.setting.append == AppendMode::Atomic {
            return;
        }
        moves.extend(self.broker.unreplicated().map(Move::Replicate));
        let markers = self.broker.pending_markers();
        moves.extend(markers.map(|(txn, channel)| Move::Marker(txn.number(), channel)));
        for (number, slot) in self.tasks.iter().enumerate() {
            let Some(slot) = slot else { continue };
            let Some(step) = slot.run.as_ref().and_then(|run| run.step.as_ref()) else {
                continue;
            };
            let task = TaskNo(number);
            // One producer has one transaction at a time.
            let may_append =
                step.txn.is_some() || slot.last.is_none_or(|last| self.broker.is_complete(last));
            let waiting = |(&channel, sends): (&Channel, &VecDeque<Send>)| {
                (!sends.is_empty()).then_some(Move::Append(task, channel))
            };
            let before = moves.len();
            if may_append {
                moves.extend(step.pending.iter().filter_map(waiting));
            }
            let all_appended = step.pending.values().all(VecDeque::is_empty);
            let acknowledged = |&(channel, offset): &(Channel, Offset)| {
                self.broker.is_replicated(channel, offset) || !self.broker.exists(channel.topic)
            };
            if all_appended && moves.len() == before && step.unacknowledged.iter().all(acknowledged)
            {
                moves.push(Move::Proceed(task));
            }
        }
    }
}
