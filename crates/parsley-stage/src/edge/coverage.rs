//! Whether a task has been delivered what a client has seen.

use parsley_core::decide::{self, Causes, Settled, SettledView};
use parsley_core::{Channel, Claim, Offset, ReceivedChannels, SenderId};

use super::CausalClock;

impl CausalClock {
    /// Whether a task with these inputs, each settled so far, has been delivered all that the clock claims on them. Hosts show them in the status of a task,
    /// as of its last committed step, and ask this there: `TaskStatus::covers`.
    ///
    /// What counts is delivered: a record that was fetched, or is held, does not cover a claim on it. It is the rule that releases a record of this clock
    /// (`docs/protocol.md`, The decision), so a claim on a channel that is not among the inputs imposes nothing: another task has it, or none. And an offset at which
    /// there is no record (a marker, an aborted record) is covered once the task has passed it. A claim by sequence on an input is not covered
    /// before the input's topic is gone; [`CausalClock::resolve_sequences`] makes an offset of it.
    pub fn is_covered_by(&self, inputs: impl IntoIterator<Item = (Channel, Settled)>) -> bool {
        let at = At::new(inputs);
        let causes = Causes::of_no_record(&self.claims);
        decide::decide(causes, &at.received, &at) == decide::Verdict::Deliverable
    }

    /// The claims that keep the clock from being [covered](CausalClock::is_covered_by): those by offset first, each kind in channel order.
    pub fn uncovered_by(&self, inputs: impl IntoIterator<Item = (Channel, Settled)>) -> Vec<Claim> {
        let at = At::new(inputs);
        let causes = Causes::of_no_record(&self.claims);
        let claims = decide::unmet(causes, &at.received, &at).map(|unmet| unmet.claim);
        claims.collect()
    }
}

/// Inputs and how far each is settled.
struct At {
    received: ReceivedChannels,
    /// In the order of the channels.
    settled: Vec<Settled>,
}

impl At {
    fn new(inputs: impl IntoIterator<Item = (Channel, Settled)>) -> Self {
        let mut inputs: Vec<(Channel, Settled)> = inputs.into_iter().collect();
        inputs.sort_by_key(|(channel, _)| *channel);
        // Of one that is named twice, the first.
        inputs.dedup_by_key(|(channel, _)| *channel);
        Self {
            received: ReceivedChannels::new(inputs.iter().map(|(channel, _)| *channel)),
            settled: inputs.into_iter().map(|(_, settled)| settled).collect(),
        }
    }
}

/// Nothing is known of senders: a claim by sequence is met where everything is.
impl SettledView for At {
    fn settled(&self, channel: usize) -> Settled {
        self.settled[channel]
    }

    fn delivered_sequence(&self, _: usize, _: SenderId) -> Option<i64> {
        None
    }

    fn fed_up_to(&self, _: usize) -> Option<Offset> {
        None
    }

    fn watermark(&self, _: usize) -> Option<Offset> {
        None
    }

    fn lowest_held_sequence(&self, _: usize, _: SenderId) -> Option<i64> {
        None
    }
}
