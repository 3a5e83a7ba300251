//! What of a world can still bear on what happens in it and on how it is judged.

use std::hash::{Hash, Hasher};

use super::World;
use crate::TaskHost;
use crate::task_host::tell;

impl World<TaskHost> {
    /// Tells `state` everything that decides what can happen from now on and what will be said of it: the host with its log, the oracle, and
    /// what the world itself keeps. Two worlds of one plan that tell the same have the same future. What the past came to is in it as far as
    /// it can be held against a later delivery; counts, traces and the order of what has nothing to do with one another are not.
    pub(crate) fn digest(&self, state: &mut impl Hasher) {
        let open = self.edges.iter().filter_map(|edge| edge.transaction);
        self.host.digest(&open.collect::<Vec<_>>(), state);
        self.oracle.digest(state);
        (self.crashes_left, self.sweeps_left, &self.stalled).hash(state);
        for task in 0..self.tasks.len() {
            self.digest_task(task, state);
        }
        for edge in &self.edges {
            (edge.sends_left, edge.sent, edge.transaction.is_some()).hash(state);
            (&edge.unacknowledged, &edge.positions).hash(state);
            tell(&(&edge.clock, &edge.before_transaction), state);
        }
        for topic in self.topics.values() {
            (topic.exists, topic.incarnation).hash(state);
        }
    }

    fn digest_task(&self, task: usize, state: &mut impl Hasher) {
        let known = &self.tasks[task];
        tell(&known.life, state);
        (known.has_started, &known.consumed).hash(state);
        (known.ticks, known.step_ticks, known.ticks_delivered).hash(state);
        // What an open step has emitted and not appended, the oracle tells by its number among the step's sends.
        let labels = known.staged.iter().map(|(label, _)| *label);
        labels.collect::<Vec<_>>().hash(state);
        (&known.sequences, &known.open_sends, known.first_sent_to).hash(state);
        (known.step_deliveries, &known.delivered_by_key).hash(state);
        tell(&known.fed, state);
        let stage = &self.stages[known.at.stage];
        tell(&stage.declaration, state);
    }
}
