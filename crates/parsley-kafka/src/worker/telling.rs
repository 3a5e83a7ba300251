//! What is told of a worker's tasks besides their status: metrics, warnings, events; and what a look at them shows.

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use parsley_core::Channel;
use parsley_stage::Task;
use parsley_stage::meter::StepCounts;
use parsley_stage::report::InputReport;
use parsley_stage::watch::TaskWatch;

use super::task::RunningTask;
use super::{Session, Slot, Worker};
use crate::board::Seen;
use crate::stage::Resolved;

/// The time that ages are measured with, in milliseconds: one that no operator turns.
fn now_ms() -> i64 {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    i64::try_from(BEGUN.elapsed().as_millis()).unwrap_or(i64::MAX)
}

impl Worker {
    /// These are the partitions that the worker has.
    pub(super) fn watch_tasks(&mut self, partitions: &[i32], resolved: &Resolved) {
        let declared = &self.declared;
        let application: Arc<str> = declared.application.as_str().into();
        self.watches
            .retain(|partition, _| partitions.contains(partition));
        for &partition in partitions {
            self.watches.entry(partition).or_insert_with(|| {
                let (stage, topics) = (&declared.stage, &resolved.topics);
                let warning_after = declared.config.hold_warning_after;
                TaskWatch::new(&application, stage, partition, topics, warning_after)
            });
        }
    }

    pub(super) fn show_restored(&self, partition: i32, records: u64) {
        let group = &self.declared.group;
        tracing::info!(%group, partition, records, "the state is read back");
        if let Some(watch) = self.watches.get(&partition) {
            watch.meter().restoring(records, 0);
        }
    }

    pub(super) fn show_restore(&self, partition: i32, records: u64, left: u64) {
        self.board.restoring(self.number, partition, records, left);
        if let Some(watch) = self.watches.get(&partition) {
            watch.meter().restoring(records, left);
        }
    }

    pub(super) fn watch_opened(&mut self, partition: i32, task: &Task) {
        let (group, held) = (&self.declared.group, task.held());
        tracing::info!(%group, partition, held, "a task has opened");
        if let Some(watch) = self.watches.get_mut(&partition) {
            watch.opened(task, now_ms());
        }
    }

    /// A task's part of a step is committed, and its counts are still there.
    pub(super) fn step_committed(&mut self, partition: i32, task: &RunningTask) {
        let counts = StepCounts {
            received: task.counts.received,
            dropped: task.counts.dropped,
            delivered: task.processed.len() as u64,
            ticks: task.counts.ticks,
        };
        if let Some(watch) = self.watches.get_mut(&partition) {
            watch.step_committed(&task.task, counts, &task.processed, now_ms());
        }
    }
}

impl Session<'_> {
    /// Takes note of what tasks were fed.
    pub(super) fn note_taken_in(&mut self) {
        let now_ms = now_ms();
        let Self { slots, worker, .. } = self;
        for (partition, slot) in slots {
            if let (Slot::Running(task), Some(watch)) = (slot, worker.watches.get_mut(partition))
                && task.is_dirty
            {
                for (channel, next) in &task.positions {
                    watch.taken_in(*channel, *next, now_ms);
                }
            }
        }
    }

    /// Shows what each task has before it, and looks at what it holds.
    pub(super) fn show_ahead(&mut self) {
        let now_ms = now_ms();
        let Self {
            slots,
            worker,
            resolved,
            consumer,
            ..
        } = self;
        for (&partition, slot) in slots.iter() {
            let (Slot::Running(task), Some(watch)) = (slot, worker.watches.get_mut(&partition))
            else {
                continue;
            };
            watch.look(&task.task, now_ms);
            let input = |(channel, position): (&Channel, &i64)| {
                let topic = resolved.name_of(channel.topic)?;
                let end = consumer.known_end(topic, channel.partition);
                let lag = end.map_or(0, |end| u64::try_from(end - position).unwrap_or(0));
                let mut input = InputReport::new(&**topic, channel.partition, *position, lag);
                (input.held, input.oldest_hold_ms) = watch.held_on(*channel, now_ms);
                Some(input)
            };
            let seen = Seen {
                inputs: task.positions.iter().filter_map(input).collect(),
                holds: watch.explain_holds(&task.task, now_ms),
                widest_clock_bytes: task.task.widest_clock_bytes() as u64,
            };
            worker.board.ahead(worker.number, partition, seen);
            // What is not committed is not shown.
            if !task.is_dirty {
                let settled = task.task.settled();
                worker.board.settled(worker.number, partition, settled);
            }
        }
    }
}
