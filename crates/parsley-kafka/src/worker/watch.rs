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

/// How many sequence claims a stamp may hold before high watermarks are asked for.
const SEQUENCE_CLAIMS_MAX: usize = 64;

/// When what was looked at last.
#[derive(Debug, Default)]
pub(super) struct Watch {
    identities: Option<Instant>,
    log_starts: Option<Instant>,
    evidence: Option<Instant>,
    ahead: Option<Instant>,
}

impl Watch {
    /// Everything is looked at again: tasks have opened.
    pub(super) fn is_due_now(&mut self) {
        *self = Self::default();
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
        let (identities, log_starts) = (config.identity_interval, config.log_start_interval);
        let is_due_identities = is_due(&mut self.watch.identities, identities);
        if is_due(&mut self.watch.log_starts, log_starts) {
            self.check_log_starts()?;
        } else if is_due_identities {
            self.check_identities()?;
        }
        if is_due(&mut self.watch.evidence, EVIDENCE) {
            self.give_evidence()?;
        }
        if is_due(&mut self.watch.ahead, AHEAD) {
            self.show_ahead();
        }
        self.warn_of_wide_clocks();
        Ok(())
    }

    /// Shows what each task has before it.
    fn show_ahead(&self) {
        for (&partition, slot) in &self.slots {
            let Slot::Running(task) = slot else { continue };
            let lag = task.positions.iter().map(|(channel, position)| {
                let topic = self.resolved.name_of(channel.topic);
                let end = topic.and_then(|topic| self.consumer.known_end(topic, channel.partition));
                end.map_or(0, |end| u64::try_from(end - position).unwrap_or(0))
            });
            self.worker
                .board
                .ahead(self.worker.number, partition, lag.sum(), task.task.holds());
        }
    }

    /// The stage's topics that are gone. A topic that is another one by now, an input of another size, or a changelog that is not there any
    /// more refuses every task (G12, G15).
    pub(super) fn gone(&mut self) -> Result<BTreeSet<TopicId>, Trouble> {
        let resolved = std::sync::Arc::clone(&self.resolved);
        let changelogs = &resolved.changelogs;
        let changelogs = changelogs.names.iter().zip(&changelogs.topics);
        let names = resolved.topics.keys().chain(&resolved.changelogs.names);
        let names: Vec<&str> = names.map(String::as_str).collect();
        let found = self.cluster.topics(&names)?;
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
        Ok(gone)
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

    fn check_identities(&mut self) -> Result<(), Trouble> {
        let gone = self.gone()?;
        if gone.is_empty() {
            return Ok(());
        }
        self.judge(&BTreeMap::new(), &gone)
    }

    /// Learns log starts and deletions, judges them, and stops claiming what has been deleted for long enough.
    fn check_log_starts(&mut self) -> Result<(), Trouble> {
        let gone = self.gone()?;
        let inputs: Vec<Channel> = self
            .running()
            .flat_map(|(_, task)| task.positions.keys().copied().collect::<Vec<_>>())
            .collect();
        let log_starts = self.log_starts(&inputs, &gone)?;
        self.judge(&log_starts, &gone)?;

        let stamped: BTreeSet<Channel> = self
            .running()
            .flat_map(|(_, task)| task.task.stamp_channels())
            .collect();
        let all = self.cluster.all_topics()?;
        let stamped_gone: BTreeSet<TopicId> = stamped
            .iter()
            .map(|channel| channel.topic)
            .filter(|topic| !all.contains_key(topic))
            .collect();
        let mut stamped_starts = BTreeMap::new();
        for channel in &stamped {
            if let Some((name, _)) = all.get(&channel.topic) {
                let (start, _) = self.cluster.bounds(name, channel.partition)?;
                stamped_starts.insert(*channel, start);
            }
        }
        let (delay, now_ms) = (self.worker.declared.config.truncation_delay, now_ms());
        for (partition, task) in self.running() {
            let learned = Learned {
                log_starts: stamped_starts.clone(),
                gone: stamped_gone.clone(),
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
            let mut watermarks = BTreeMap::new();
            for channel in claimed.into_iter().chain(waited_for) {
                if let Some(name) = self.resolved.name_of(channel.topic) {
                    let (_, end) = self.cluster.bounds(name, channel.partition)?;
                    watermarks.insert(channel, end);
                }
            }
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
