//! What is noted while a step goes on. None of it is true of the log before the step has been committed.

use parsley_core::{Channel, Offset};
use parsley_stage::{Processed, RawSend};

/// Takes note of what a step does.
pub(crate) trait Journal {
    /// The task took a record in.
    fn received(&mut self, channel: Channel, offset: Offset);

    /// A record had been fed before, and was dropped.
    fn dropped(&mut self, channel: Channel, offset: Offset);

    /// The logic ran on a record.
    fn delivered(&mut self, delivery: &Processed);

    /// Whether [`Journal::appended`] is wanted, for which sends have to be copied.
    fn keeps_sends(&self) -> bool;

    /// A send was appended.
    fn appended(&mut self, send: RawSend, offset: Offset);
}

/// Counts, and keeps nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) received: u64,
    pub(crate) dropped: u64,
    pub(crate) delivered: u64,
    pub(crate) ticks: u64,
}

impl Journal for Counts {
    fn received(&mut self, _: Channel, _: Offset) {
        self.received += 1;
    }

    fn dropped(&mut self, _: Channel, _: Offset) {
        self.dropped += 1;
    }

    fn delivered(&mut self, _: &Processed) {
        self.delivered += 1;
    }

    fn keeps_sends(&self) -> bool {
        false
    }

    fn appended(&mut self, _: RawSend, _: Offset) {}
}
