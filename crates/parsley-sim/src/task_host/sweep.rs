//! Between steps: watermarks, and what may be dropped from stamps.

use std::collections::{BTreeMap, BTreeSet};

use parsley_core::{Channel, Offset, TopicId};

use super::TaskHost;
use crate::engine::AnyMark;
use crate::fault::HostFault;
use crate::host::{CHECK_INTERVAL, Event, Stop, TRUNCATION_DELAY, TaskNo};

/// A question about high watermarks, on its way. Mark, question and answer are moments apart.
#[derive(Debug, Default)]
pub(super) enum Question {
    #[default]
    None,
    Marked(AnyMark, BTreeSet<Channel>),
    Answered(AnyMark, BTreeMap<Channel, Offset>),
}

impl Question {
    /// Whether a question was begun and its answer is not handed in.
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::None)
    }
}

/// What was learned at a check.
#[derive(Debug)]
struct Learned {
    at: u64,
    log_starts: BTreeMap<Channel, Offset>,
    gone: BTreeSet<TopicId>,
}

/// The checks of an execution.
#[derive(Debug)]
pub(super) struct Sweep {
    checked_at: u64,
    learned: Vec<Learned>,
}

impl Sweep {
    pub fn checked_at(now: u64) -> Self {
        Self {
            checked_at: now,
            learned: Vec::new(),
        }
    }

    /// The last check is so long ago that deliveries have to wait for one.
    pub fn is_stale(&self, now: u64) -> bool {
        now > self.checked_at + CHECK_INTERVAL
    }
}

impl TaskHost {
    pub(super) fn move_evidence(&mut self, task: TaskNo) -> Result<(), Stop> {
        let early = self.shirks(HostFault::AsksBeforeMark);
        let run = self.run_mut(task)?;
        if run.step.is_some() {
            return Ok(());
        }
        match std::mem::take(&mut run.question) {
            Question::None => {
                let (waited_for, claimed) = run.engine.evidence_channels();
                let channels: BTreeSet<Channel> = waited_for.into_iter().chain(claimed).collect();
                let mark = run.engine.mark();
                let question = if early {
                    Question::Answered(mark, self.watermarks(&channels))
                } else {
                    Question::Marked(mark, channels)
                };
                self.run_mut(task)?.question = question;
            }
            Question::Marked(mark, channels) => {
                let watermarks = self.watermarks(&channels);
                self.run_mut(task)?.question = Question::Answered(mark, watermarks);
            }
            Question::Answered(mark, watermarks) => {
                let mark = if early { run.engine.mark() } else { mark };
                run.engine.watermarks(&mark, &watermarks)?;
                self.events.push(Event::Evidence(task));
            }
        }
        Ok(())
    }

    fn watermarks(&self, channels: &BTreeSet<Channel>) -> BTreeMap<Channel, Offset> {
        let stable = self.shirks(HostFault::ReadsStableEnds);
        let watermark = |&channel: &Channel| {
            let found = if stable {
                self.broker.last_stable_offset(channel)
            } else {
                self.broker.high_watermark(channel)
            };
            Some((channel, found?))
        };
        channels.iter().filter_map(watermark).collect()
    }

    pub(super) fn run_check(&mut self, task: TaskNo, now: u64) -> Result<(), Stop> {
        let hasty = self.shirks(HostFault::TruncatesAtOnce);
        let too_far = self.shirks(HostFault::TruncatesAboveBound);
        if self.shirks(HostFault::PausesChecks) || self.shirks(HostFault::JumpsOverLogStart) {
            self.run_mut(task)?.sweep.checked_at = now;
            return Ok(());
        }
        let run = self
            .run_of(task)
            .ok_or_else(|| Stop::Failed("the task does not run".to_owned()))?;
        let log_start = |channel: Channel| Some((channel, self.broker.log_start(channel)?));
        let inputs = run.sources.iter().map(|source| source.channel);
        let log_starts: BTreeMap<Channel, Offset> = inputs.filter_map(log_start).collect();
        let is_gone = |topic: &TopicId| !self.broker.exists(*topic);
        let declared = run.topics.values().map(|info| info.id);
        let gone: BTreeSet<TopicId> = declared.filter(is_gone).collect();
        let changed = run.topics.iter().find(|(name, info)| {
            let found = self.broker.topic_id(name);
            found.is_some_and(|found| found != info.id)
        });
        let changed = changed.map(|(name, _)| name.clone());
        let stamped = run.engine.stamp_channels();
        let learned = Learned {
            at: now,
            log_starts: stamped.iter().copied().filter_map(log_start).collect(),
            gone: stamped
                .iter()
                .map(|channel| channel.topic)
                .filter(is_gone)
                .collect(),
        };
        let truncates = self.setting.rules.truncation;
        let run = self.run_mut(task)?;
        run.sweep.checked_at = now;
        run.engine.check(&log_starts, &gone)?;
        if let Some(name) = changed {
            return Err(Stop::Refused {
                code: "vc-identity-changed".to_owned(),
                found: format!("the topic {name} is another one now"),
            });
        }
        if !truncates {
            return Ok(());
        }
        run.sweep.learned.push(learned);
        let delay = if hasty { 0 } else { TRUNCATION_DELAY };
        let old_enough = |learned: &Learned| learned.at + delay <= now;
        let Some(newest) = run.sweep.learned.iter().rposition(old_enough) else {
            return Ok(());
        };
        run.sweep.learned.drain(..newest);
        let Some(aged) = run.sweep.learned.first() else {
            return Ok(());
        };
        let mut bounds = aged.log_starts.clone();
        if too_far {
            bounds.values_mut().for_each(|bound| *bound += 2);
        }
        let before = run.engine.stamp_channels().len();
        let gone = aged.gone.clone();
        run.engine.truncate(&bounds, &gone)?;
        let after = run.engine.stamp_channels().len();
        if after < before {
            self.events
                .push(Event::Truncated(task, (before - after) as u64));
        }
        Ok(())
    }
}
