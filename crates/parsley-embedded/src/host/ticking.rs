//! When a task of a running application ticks (`docs/protocol.md`, Tick record).

use std::time::Instant;

use parsley_stage::{Stage, TickSchedule};

/// A task's schedule on the process's monotonic clock. It outlives the task's executions: one that fails does not start it anew.
#[derive(Debug)]
pub(crate) struct Ticking {
    origin: Instant,
    schedule: TickSchedule,
}

impl Ticking {
    /// The schedule of a task that starts now, if its stage ticks.
    pub(crate) fn starting_now(stage: &Stage) -> Option<Self> {
        let origin = Instant::now();
        Some(Self {
            schedule: TickSchedule::starting_at(origin.elapsed(), stage.tick_interval()?),
            origin,
        })
    }

    pub(crate) fn is_due(&self) -> bool {
        self.schedule.is_due(self.origin.elapsed())
    }

    /// A tick was committed.
    pub(crate) fn ticked(&mut self) {
        self.schedule.ticked(self.origin.elapsed());
    }

    /// When the next tick is due; `None` when that is beyond what the clock can tell.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.origin.checked_add(self.schedule.next())
    }
}
