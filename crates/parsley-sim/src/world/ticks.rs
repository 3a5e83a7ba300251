//! Ticks: what the world takes for one, when it came to be, and what its state has to count.

use parsley_core::Record;

use super::{Rule, Violation, World};
use crate::host::{ConformanceHost, TaskNo};
use crate::payload::{self, Payload};

impl<H: ConformanceHost> World<H> {
    /// A task emitted a tick: what it was delivered so far comes before it, the open step's deliveries among that, and of the open step's sends
    /// only earlier ticks.
    pub(super) fn observe_tick(
        &mut self,
        task: TaskNo,
        timestamp_ms: i64,
    ) -> Result<(), Violation> {
        let state = &mut self.tasks[task.0];
        let (at, actor) = (state.at, state.actor);
        state.ticks += 1;
        state.step_ticks += 1;
        state.in_step = true;
        self.counts.ticks += 1;
        self.counts.ticks_behind_deliveries += u64::from(state.step_deliveries > 0);
        self.note(Some(actor), || format!("ticked at {timestamp_ms}"));
        let own = self.own_tick_channel(task.0);
        let own = own
            .map(|number| self.channels[number].oracle)
            .ok_or_else(|| {
                let text = "a tick of a stage that has none".to_owned();
                self.task_violation(task.0, Rule::HostFailed, text)
            })?;
        let emission = self
            .oracle
            .emit_for(actor, None, own, None)
            .map_err(|misuse| self.violation(Rule::HostFailed, misuse.to_string()))?;
        let label = Payload::of_tick(at.stage, at.partition, timestamp_ms).label;
        self.tasks[task.0].staged.push((label, emission));
        Ok(())
    }

    /// Whether the task's ticks go to that topic.
    pub(super) fn is_tick_topic(&self, task: usize, topic: &str) -> bool {
        let stage = self.tasks[task].at.stage;
        self.stages[stage].declaration.ticks == Some(topic)
    }

    /// The channel of a task's ticks.
    fn own_tick_channel(&self, task: usize) -> Option<usize> {
        let at = self.tasks[task].at;
        let topic = self.topics.get(self.stages[at.stage].declaration.ticks?)?;
        let partition = usize::try_from(at.partition).ok()?;
        topic.channels.get(partition).copied()
    }

    /// What a task's send carries: a tick nothing but its key and its time (`docs/protocol.md`, Tick record).
    pub(super) fn payload_sent(&self, task: usize, record: &Record) -> Option<Payload> {
        let topic = self.channels[self.number_of(record.channel)?].topic;
        if !self.is_tick_topic(task, topic) {
            return record.value.as_deref().and_then(Payload::of_bytes);
        }
        let at = self.tasks[task].at;
        let is_tick = record.value.is_none() && record.key == Some(payload::tick_key(at.partition));
        is_tick.then(|| Payload::of_tick(at.stage, at.partition, record.timestamp_ms))
    }

    /// The tick state counts the ticks that were delivered, in all executions.
    pub(super) fn judge_tick_state(&self, task: usize) -> Result<(), Violation> {
        let (delivered, _) = self.tasks[task].ticks_delivered;
        let state = self.host.tick_state_of(TaskNo(task));
        let counted = state.map(|state| state.as_ref().try_into().map(u64::from_be_bytes).ok());
        if counted == (delivered > 0).then_some(Some(delivered)) {
            return Ok(());
        }
        let text = format!("the tick state is {counted:?} after {delivered} deliveries of ticks");
        Err(self.task_violation(task, Rule::WrongState, text))
    }
}
