//! What can be asked of a task between two steps, without a change to it.

use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;
use parsley_core::{Channel, Hold, Offset};

use super::Task;
use crate::report::{Held, HoldReport};

impl Task {
    /// The channels that stamps name.
    pub fn stamp_channels(&self) -> Vec<Channel> {
        self.node.stamp_channels()
    }

    /// What waits at the head of each channel, and for what.
    pub fn holds(&self) -> Vec<Hold> {
        self.node.holds()
    }

    /// The same in words and by name, with the records that are missing in the end. `age_ms` tells how long a record has been here.
    pub fn explain_holds(&self, age_ms: impl Fn(Channel, Offset) -> u64) -> Vec<HoldReport> {
        let names = self.inputs().map(|(channel, name)| (channel.topic, name));
        let held = Held {
            stage: self.stage.name(),
            holds: &self.node.holds(),
            names: &names.collect(),
        };
        held.explain(|claim| self.node.is_held(claim), age_ms)
    }

    /// The clock of a channel's first held record, canonically encoded; `None` when none is held.
    pub fn head_clock(&self, channel: Channel) -> Option<Bytes> {
        self.node.head_clock(channel)
    }

    /// The first held record of each channel that has one, and how many are held there. It looks at no clock.
    pub fn heads(&self) -> impl Iterator<Item = (Channel, Offset, u64)> {
        self.node.heads()
    }

    /// How many received records wait.
    pub fn held(&self) -> u64 {
        self.node.held()
    }

    /// Everything that the task has in memory and not in its committed stores, records with their content among it, as text: for a search through
    /// executions, which has to tell two tasks apart that differ in anything. Its form is nothing to rely on.
    pub fn in_memory(&self) -> impl fmt::Debug + '_ {
        let open = (&self.rounds, &self.ready, &self.later);
        let staged = (self.ordering.changes(), self.fold.changes());
        let failed = &self.failed;
        (
            &self.node,
            self.phase,
            self.deliveries,
            open,
            staged,
            failed,
        )
    }

    /// How many claims the next stamp would have: by offset, and by sequence.
    pub fn stamp_entries(&self) -> (usize, usize) {
        self.node.stamp_entries()
    }

    /// How many sequence claims the next stamp would have; above 64, a host asks for watermarks.
    pub fn sequence_claims(&self) -> usize {
        self.node.sequence_claims()
    }

    /// The channels that the next stamp may claim by sequence: those whose watermarks turn such claims into offsets.
    pub fn channels_claimed_by_sequence(&self) -> BTreeSet<Channel> {
        self.node.channels_claimed_by_sequence()
    }

    /// The channels whose watermarks may release a head that nothing but sequence claims blocks.
    pub fn channels_waited_for_by_sequence(&self) -> BTreeSet<Channel> {
        self.node.channels_waited_for_by_sequence()
    }

    /// The longest clock that this execution received or stamped, in bytes.
    pub fn widest_clock_bytes(&self) -> usize {
        self.node.widest_clock_bytes()
    }

    /// Whether a clock of this execution came to 80 % of the metadata budget, beyond which the task refuses (guard G13).
    pub fn clock_nears_budget(&self) -> bool {
        self.node.clock_nears_budget()
    }
}
