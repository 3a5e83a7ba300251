//! What is looked at between steps: topic identities, log starts, deletions, high watermarks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use parsley_core::{Channel, Offset, Refusal, RefusalCode, TopicId};
use parsley_stage::TaskError;
use parsley_stage::sweep::Learned;

use super::{Session, Slot, Trouble, now_ms};

/// How often high watermarks are asked for while records wait for what nobody may send any more.
const EVIDENCE: Duration = Duration::from_secs(1);

/// How often it is looked at what a task has before it.
const AHEAD: Duration = Duration::from_millis(500);

/// How long they are not asked for after the cluster gave no answer.
const EVIDENCE_PAUSE: Duration = Duration::from_secs(30);

/// How many sequence claims a stamp may hold before high watermarks are asked for.
const SEQUENCE_CLAIMS_MAX: usize = 64;

/// When what was looked at last.
#[derive(Debug, Default)]
pub(super) struct Watch {
    check: Option<Instant>,
    sweep: Option<Instant>,
    evidence: Option<Instant>,
    ahead: Option<Instant>,
    /// When log starts and identities were judged last: by a check, or by an opening.
    checked: Option<Instant>,
    /// Deliveries wait for a check.
    pub(super) is_overdue: bool,
    /// Topics that a check has settled to their end.
    gone: BTreeSet<TopicId>,
}

impl Watch {
    /// Everything is looked at again: tasks have opened, which judges log starts and identities.
    pub(super) fn has_opened(&mut self) {
        *self = Self {
            checked: Some(Instant::now()),
            is_overdue: self.is_overdue,
            ..Self::default()
        };
    }
}

fn is_due(last: &mut Option<Instant>, every: Duration) -> bool {
    let now = Instant::now();
    if last.is_some_and(|last| now < last + every) {
        return false;
    }
    *last = Some(now);
    true
}

impl Session<'_> {
    /// Looks at what is due.
    pub(super) fn look_around(&mut self) -> Result<(), Trouble> {
        if self.running().next().is_none() {
            return Ok(());
        }
        let config = &self.worker.declared.config;
        let (check, sweep) = (config.check_interval, config.sweep_interval);
        if is_due(&mut self.watch.check, check) {
            let checked = self.check();
            if self.was_answered("log starts and identities were not checked", checked)? {
                self.watch.checked = Some(Instant::now());
                self.worker.board.checked(self.worker.number);
            }
        }
        if is_due(&mut self.watch.sweep, sweep) {
            let swept = self.sweep();
            if self.was_answered("stamps were not relieved of what was deleted", swept)? {
                self.worker.board.swept(self.worker.number);
            } else {
                self.worker.meter.sweep_skipped();
            }
        }
        if is_due(&mut self.watch.evidence, EVIDENCE) {
            let given = self.give_evidence();
            if !self.was_answered("high watermarks were not learned", given)? {
                self.watch.evidence = Some(Instant::now() + EVIDENCE_PAUSE);
            }
        }
        if is_due(&mut self.watch.ahead, AHEAD) {
            self.show_ahead();
        }
        self.warn_of_wide_clocks();
        Ok(())
    }

    /// Whether the cluster has answered. What it did not answer skips its turn, and is counted.
    fn was_answered(&self, skipped: &str, outcome: Result<(), Trouble>) -> Result<bool, Trouble> {
        let error = match outcome {
            Ok(()) => return Ok(true),
            Err(Trouble::Cluster(error)) => error,
            Err(trouble) => return Err(trouble),
        };
        let group = &self.worker.declared.group;
        tracing::warn!(%group, %error, "the cluster did not answer: {skipped}");
        self.worker.board.unanswered(self.worker.number);
        Ok(false)
    }

    /// Whether deliveries have to wait for a check: others may have stopped claiming what was deleted since the last (`docs/protocol.md`,
    /// Truncation).
    pub(super) fn check_is_overdue(&mut self) -> bool {
        let config = &self.worker.declared.config;
        let longest = config
            .truncation_delay
            .saturating_sub(config.check_interval);
        let since = self.watch.checked.map(|checked| checked.elapsed());
        let is_overdue = since.is_some_and(|since| since > longest);
        if is_overdue != self.watch.is_overdue {
            self.watch.is_overdue = is_overdue;
            self.worker.board.overdue(self.worker.number, is_overdue);
        }
        is_overdue
    }

    /// The stage's topics that are gone. A topic that is another one by now, an input of another size, or a changelog that is not there any
    /// more refuses every task (G12, G15).
    pub(super) fn gone(&mut self) -> Result<BTreeSet<TopicId>, Trouble> {
        let resolved = std::sync::Arc::clone(&self.resolved);
        let changelogs = &resolved.changelogs;
        let changelogs = changelogs.names.iter().zip(&changelogs.topics);
        let topics = resolved.topics.iter().map(|(name, info)| (name, info.id));
        let topics = topics.chain(changelogs.clone().map(|(name, of)| (name, of.topic.id)));
        let topics = topics.map(|(name, id)| (name.as_str(), id)).collect();
        let found = self.cluster.identified(&topics, &self.certainly_gone)?;
        let found = |name: &str| found.get(name).copied().flatten();
        for (name, expected) in changelogs {
            let expected = expected.topic.id;
            let state = match found(name) {
                Some(info) if info.id == expected => continue,
                Some(info) => format!("is {} now", info.id),
                None => "is gone".to_owned(),
            };
            let found = format!("the changelog {name} was {expected} and {state}");
            let refusal = Refusal::on(RefusalCode::IdentityChanged, expected.partition(0), found);
            return Err(self.refuse_all(refusal));
        }
        let mut gone = BTreeSet::new();
        for (name, expected) in &resolved.topics {
            match found(name) {
                None => {
                    gone.insert(expected.id);
                }
                Some(info) if info.id == expected.id => {
                    let inputs = || self.worker.declared.stage.inputs();
                    if info.partitions != expected.partitions && inputs().any(|input| input == name)
                    {
                        let found = format!(
                            "the input {name} had {} partitions and has {}",
                            expected.partitions, info.partitions
                        );
                        let at = expected.id.partition(0);
                        let refusal = Refusal::on(RefusalCode::TaskWidth, at, found);
                        return Err(self.refuse_all(refusal));
                    }
                }
                Some(info) => {
                    let found = format!(
                        "the topic {name} was {} when the application started and is {} now",
                        expected.id, info.id
                    );
                    let at = expected.id.partition(0);
                    let refusal = Refusal::on(RefusalCode::IdentityChanged, at, found);
                    return Err(self.refuse_all(refusal));
                }
            }
        }
        self.certainly_gone.extend(&gone);
        Ok(gone)
    }

    /// Has the next commit leave out what is gone, and the next check judge it: what is not there takes no position.
    pub(super) fn find_gone(&mut self) -> Result<(), Trouble> {
        let gone = self.gone()?;
        if !gone.is_empty() {
            self.watch.check = None;
            for (_, task) in self.running() {
                task.gone.extend(&gone);
            }
        }
        Ok(())
    }

    /// A refusal of the whole stage: what stops one task stops each.
    fn refuse_all(&mut self, refusal: Refusal) -> Trouble {
        let partitions: Vec<i32> = self.slots.keys().copied().collect();
        for partition in &partitions {
            self.refuse(*partition, refusal.clone());
        }
        let partition = partitions.first().copied().unwrap_or(0);
        Trouble::task(partition, TaskError::Refused(refusal))
    }

    /// Learns log starts of inputs and which of the stage's topics there are, and judges them: G12, G15, G10, G9.
    fn check(&mut self) -> Result<(), Trouble> {
        let gone = self.gone()?;
        let inputs: Vec<Channel> = self
            .running()
            .flat_map(|(_, task)| task.positions.keys().copied().collect::<Vec<_>>())
            .collect();
        let log_starts = self.log_starts(&inputs, &gone)?;
        self.judge(&log_starts, &gone)?;
        if !gone.is_subset(&self.watch.gone) {
            // They are settled to their ends: what was fetched of them is not fed any more.
            self.watch.gone.extend(gone);
            self.assign_running()?;
        }
        Ok(())
    }

    /// Learns what has been deleted of what stamps claim, and stops claiming what has been for long enough.
    fn sweep(&mut self) -> Result<(), Trouble> {
        let stamped: BTreeSet<Channel> = self
            .running()
            .flat_map(|(_, task)| task.task.stamp_channels())
            .collect();
        let topics = stamped.iter().map(|channel| channel.topic).collect();
        let found = self.known.find(&self.cluster, &topics)?;
        let mut log_starts = BTreeMap::new();
        for channel in &stamped {
            // One on a partition that there is not stays: it may be added.
            let partitions = found.there.get(&channel.topic);
            if partitions.is_some_and(|partitions| channel.partition < *partitions)
                && let Some(name) = self.known.name(channel.topic)
            {
                let (start, _) = self.cluster.bounds(name, channel.partition)?;
                log_starts.insert(*channel, start);
            }
        }
        let (delay, now_ms) = (self.worker.declared.config.truncation_delay, now_ms());
        for (partition, task) in self.running() {
            let learned = Learned {
                log_starts: log_starts.clone(),
                gone: found.gone.clone(),
            };
            if let Some(aged) = task.sweep.learn(now_ms, learned, delay) {
                task.task
                    .truncate(&aged.log_starts, &aged.gone)
                    .map_err(|error| Trouble::task(partition, error))?;
                task.is_dirty = true;
            }
        }
        Ok(())
    }

    fn log_starts(
        &self,
        channels: &[Channel],
        gone: &BTreeSet<TopicId>,
    ) -> Result<BTreeMap<Channel, Offset>, Trouble> {
        let mut log_starts = BTreeMap::new();
        for channel in channels {
            if let Some(name) = self.resolved.name_of(channel.topic)
                && !gone.contains(&channel.topic)
            {
                let (start, _) = self.cluster.bounds(name, channel.partition)?;
                log_starts.insert(*channel, start);
            }
        }
        Ok(log_starts)
    }

    fn judge(
        &mut self,
        log_starts: &BTreeMap<Channel, Offset>,
        gone: &BTreeSet<TopicId>,
    ) -> Result<(), Trouble> {
        for (partition, task) in self.running() {
            let own: BTreeMap<Channel, Offset> = log_starts
                .iter()
                .filter(|(channel, _)| channel.partition == partition)
                .map(|(channel, start)| (*channel, *start))
                .collect();
            task.gone.extend(gone);
            task.task
                .check(&own, gone)
                .map_err(|error| Trouble::task(partition, error))?;
        }
        Ok(())
    }

    /// Asks for high watermarks where they may help a task on.
    fn give_evidence(&mut self) -> Result<(), Trouble> {
        let partitions: Vec<i32> = self.running().map(|(partition, _)| partition).collect();
        for partition in partitions {
            let Some(Slot::Running(task)) = self.slots.get_mut(&partition) else {
                continue;
            };
            let waited_for = task.task.channels_waited_for_by_sequence();
            if waited_for.is_empty() && task.task.sequence_claims() <= SEQUENCE_CLAIMS_MAX {
                continue;
            }
            // The mark comes first: the answer speaks for what was known when it was taken.
            let mark = task.task.mark();
            let claimed = task.task.channels_claimed_by_sequence();
            let asked = claimed.into_iter().chain(waited_for);
            let there = self.known.there(&self.cluster, asked)?;
            let mut watermarks = BTreeMap::new();
            for (channel, name) in &there {
                let (_, end) = self.cluster.bounds(name, channel.partition)?;
                watermarks.insert(*channel, end);
            }
            // By now the name may be another topic's, whose end says nothing.
            let there = self.known.there(&self.cluster, there.into_keys())?;
            watermarks.retain(|channel, _| there.contains_key(channel));
            task.task
                .watermarks(&mark, &watermarks)
                .map_err(|error| Trouble::task(partition, error))?;
            task.is_dirty = true;
            self.is_draining = true;
            self.step_since.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    /// Warns once in an execution when clocks near the metadata budget: beyond it the task refuses (G13).
    fn warn_of_wide_clocks(&mut self) {
        let group = self.worker.declared.group.clone();
        for (partition, task) in self.running() {
            if !task.warned_of_wide_clocks && task.task.clock_nears_budget() {
                task.warned_of_wide_clocks = true;
                tracing::warn!(
                    %group, partition, bytes = task.task.widest_clock_bytes(),
                    "a clock has come to 80 % of the metadata budget; beyond the budget the task refuses (vc-clock-too-wide)"
                );
            }
        }
    }
}
