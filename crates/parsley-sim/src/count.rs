//! What a run was like: figures to show that what a scenario is about really happened.

use std::ops::AddAssign;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// What happened in one run, or in several added up.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl Counts {
            /// Every figure with its name, in a fixed order.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),+].into_iter()
            }
        }

        impl AddAssign for Counts {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)+
            }
        }
    };
}

counts! {
    /// Actions of the scheduler, of the script and of the drain.
    steps,
    /// Records that edge clients sent.
    edge_sends,
    /// Records that edge clients read.
    edge_reads,
    /// Records that tasks appended.
    appends,
    /// Deliveries to tasks, each checked by the oracle.
    deliveries,
    /// Deliveries of records that had been held.
    holds,
    /// Moments at which a step ended with something held.
    steps_holding,
    /// Crashes, idle or within a step.
    crashes,
    /// Crashes within a step.
    crashes_mid_step,
    /// Crashes of a task that held records.
    crashes_holding,
    /// Executions that began.
    starts,
    /// Executions that restored held records.
    restores_with_holds,
    /// Crashes of a task that held records, and had held records when it went down the time before.
    holds_over_two_restarts,
    /// Starts that had to wait for an earlier execution's transaction.
    starts_waiting,
    /// Deployments after the first.
    deployments,
    /// Channels that joined a task and skipped what its delivered past covers.
    joins_seeded,
    /// Position advances reported.
    position_advances,
    /// Records dropped as fed before.
    duplicates_dropped,
    /// Ticks emitted.
    ticks,
    /// Ticks emitted behind a delivery of the same step.
    ticks_behind_deliveries,
    /// Ticks of steps that were given up.
    ticks_aborted,
    /// Deliveries of ticks in steps that were given up.
    tick_deliveries_aborted,
    /// Watermark answers handed in.
    evidence,
    /// Channels that a truncation took out of a task's stamps.
    truncated,
    /// Retention sweeps that removed something.
    sweeps,
    /// Sweeps up to just the position that some task would resume from.
    sweeps_to_a_position,
    /// Sweeps to one past the position that some task would resume from.
    sweeps_past_a_position,
    /// Topics deleted.
    deletions,
    /// Topics created again.
    recreations,
    /// Refusals, each of them expected.
    refusals,
    /// Sends whose stamp claimed something by sequence.
    stamps_by_sequence,
    /// Sends to another partition than a send before in the same step.
    later_rounds,
    /// The widest stamp, in claims, at the end added up over runs.
    widest_stamp,
    /// Positions moved back by an operator.
    rewinds,
    /// Transactions that were open while a task started.
    open_over_a_start,
    /// Partitions of multi-partition topics that got records.
    partitions_used,
}
