//! Checks of log starts and deletions, and the truncation of clocks (`docs/protocol.md`, Truncation).

use std::collections::{BTreeMap, BTreeSet};

use crate::channel::{Channel, Offset, TopicId};
use crate::clock::Clock;
use crate::node::{Node, NodeError};
use crate::refusal::{Refusal, RefusalCode};

impl Node {
    /// Judges log starts and deletions that the host has learned: G10, then G9, each in channel order (decision D6). A received topic
    /// found gone with nothing held is settled to its end. Ask for deliveries after it.
    ///
    /// # Errors
    ///
    /// Refuses with G10 or G9.
    pub fn check(
        &mut self,
        log_starts: &BTreeMap<Channel, Offset>,
        gone: &BTreeSet<TopicId>,
    ) -> Result<(), NodeError> {
        self.running()?;
        self.drain.restart();
        let log_starts = self
            .inputs
            .iter()
            .filter(|input| !input.gone && !gone.contains(&input.channel.topic))
            .try_for_each(|input| {
                let log_start = log_starts.get(&input.channel);
                log_start.map_or(Ok(()), |&log_start| {
                    input.check_log_start(input.next_needed(), log_start)
                })
            });
        match log_starts.and_then(|()| self.settle_gone(gone)) {
            Ok(()) => Ok(()),
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// G9, and the end of what is gone.
    pub(crate) fn settle_gone(&mut self, gone: &BTreeSet<TopicId>) -> Result<(), Refusal> {
        for index in 0..self.inputs.len() {
            let input = &mut self.inputs[index];
            if input.gone || !gone.contains(&input.channel.topic) {
                continue;
            }
            if let Some(head) = input.queue.head() {
                let found = format!(
                    "the topic is gone while {} of its records are held",
                    input.queue.len()
                );
                return Err(Refusal::at(
                    RefusalCode::DeletedInputHeld,
                    input.channel,
                    head.offset,
                    found,
                ));
            }
            input.gone = true;
            self.settled_moved(index);
        }
        self.gone.extend(gone);
        self.stamp.renormalise();
        Ok(())
    }

    /// Drops claims from the carried and advertised terms: offset claims below a bound, and every claim on topics gone for good. The one
    /// sound source of a bound is a log start learned a truncation delay ago.
    ///
    /// # Errors
    ///
    /// When the execution has ended.
    pub fn truncate(
        &mut self,
        drop_below: &BTreeMap<Channel, Offset>,
        drop_gone: &BTreeSet<TopicId>,
    ) -> Result<(), NodeError> {
        self.running()?;
        self.drain.restart();
        self.gone.extend(drop_gone);
        self.rewrite_past(|clock| {
            let mut changed = false;
            for (&channel, &bound) in drop_below {
                changed |= clock.truncate_below(channel, bound);
            }
            for &topic in drop_gone {
                changed |= clock.drop_topic(topic);
            }
            changed
        });
        Ok(())
    }

    /// The channels that the stamp-side clocks name, in channel order: those whose log starts are of use to a truncation.
    pub fn stamp_channels(&self) -> Vec<Channel> {
        let past = self.past();
        let offsets = past.offsets().iter().map(|claim| claim.channel);
        let sequences = past.sequences().iter().map(|claim| claim.channel);
        let channels: BTreeSet<Channel> = offsets.chain(sequences).collect();
        channels.into_iter().collect()
    }

    /// Changes the carried and every advertised clock alike.
    pub(crate) fn rewrite_past(&mut self, mut rewrite: impl FnMut(&mut Clock) -> bool) {
        let mut changed = rewrite(&mut self.carried);
        self.carried_changed |= changed;
        for index in 0..self.inputs.len() {
            if rewrite(&mut self.inputs[index].advertised) {
                self.inputs[index].advertised_changed = true;
                self.touch(index);
                changed = true;
            }
        }
        if changed {
            self.join_terms();
        }
    }
}
