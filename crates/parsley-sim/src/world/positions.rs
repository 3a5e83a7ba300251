//! What a commit publishes: the positions that belong to the state that it commits with (duty H3), no more and no less.

use std::collections::BTreeMap;

use parsley_core::{Channel, Offset};

use super::{Rule, Violation, World};
use crate::host::{ConformanceHost, TaskNo};

/// What a task was fed, by channel.
#[derive(Clone, Debug, Default)]
pub(super) struct Fed(BTreeMap<Channel, FedChannel>);

#[derive(Clone, Copy, Debug, Default)]
struct FedChannel {
    /// One past the last record of a committed step.
    committed: Offset,
    /// One past the last record, with the open step.
    received: Offset,
    /// The highest position ever reported.
    advanced: Offset,
}

impl Fed {
    /// A record was handed to the task, whether it took it up or had had it before.
    pub fn receive(&mut self, channel: Channel, offset: Offset) {
        let fed = self.0.entry(channel).or_default();
        fed.received = fed.received.max(offset + 1);
    }

    /// A position was reported.
    pub fn advance(&mut self, channel: Channel, next: Offset) {
        let fed = self.0.entry(channel).or_default();
        fed.advanced = fed.advanced.max(next);
    }

    /// The task no longer consumes the channel. Should it do so again, it may begin elsewhere.
    pub fn forget(&mut self, channel: Channel) {
        self.0.remove(&channel);
    }

    /// The open step is fact.
    pub fn commit(&mut self) {
        for fed in self.0.values_mut() {
            fed.committed = fed.received;
        }
    }

    /// The open step never was.
    pub fn abort(&mut self) {
        for fed in self.0.values_mut() {
            fed.received = fed.committed;
        }
    }
}

impl<H: ConformanceHost> World<H> {
    /// After a commit: nothing that the committed steps were fed is read again, and nothing that they were not is passed over.
    pub(super) fn judge_positions(&self, task: TaskNo) -> Result<(), Violation> {
        let state = &self.tasks[task.0];
        for (&channel, fed) in &state.fed.0 {
            let exists = self
                .number_of(channel)
                .is_some_and(|number| self.channels[number].exists);
            if fed.committed == 0 || !exists || !state.consumed.contains(&channel) {
                continue;
            }
            let low = fed.committed;
            let high = low.max(fed.advanced);
            let position = self.host.resumes_at(task, channel);
            if position.is_none_or(|position| position < low || position > high) {
                let name = self
                    .number_of(channel)
                    .map_or("?", |number| &self.channels[number].name);
                let text = format!(
                    "the position committed for {name} is {position:?}; the steps so far were fed up to {low} exclusively, and \
                     {high} is the highest position reported"
                );
                return Err(self.task_violation(task.0, Rule::WrongPosition, text));
            }
        }
        Ok(())
    }
}
