//! What is told of a task besides its status: metrics, warnings, events.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use parsley_core::{Channel, Offset};
use parsley_stage::meter::{StageMeter, StepCounts};
use parsley_stage::report::HoldReport;
use parsley_stage::watch::TaskWatch;
use parsley_stage::{Processed, Task};

use super::end::TaskEnd;
use crate::time::TimeSource;

/// Lasts as long as the application runs, over all executions of a task.
pub(crate) struct Telling {
    watch: Mutex<TaskWatch>,
    stage: StageMeter,
    time: TimeSource,
}

impl Telling {
    pub(crate) fn new(watch: TaskWatch, stage: StageMeter, time: TimeSource) -> Self {
        Self {
            watch: Mutex::new(watch),
            stage,
            time,
        }
    }

    fn watch(&self) -> MutexGuard<'_, TaskWatch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn opened(&self, task: &Task) {
        self.watch().opened(task, self.time.now_ms());
    }

    /// The task was fed everything below a position, of each of these channels.
    pub(crate) fn taken_in(&self, fed: &[(Channel, Offset)]) {
        if fed.is_empty() {
            return;
        }
        let now_ms = self.time.now_ms();
        let mut watch = self.watch();
        for (channel, next) in fed {
            watch.taken_in(*channel, *next, now_ms);
        }
    }

    pub(crate) fn step_committed(
        &self,
        task: &Task,
        counts: StepCounts,
        deliveries: &[Processed],
        begun: Instant,
    ) {
        self.stage.step_committed(begun.elapsed().as_secs_f64());
        self.watch()
            .step_committed(task, counts, deliveries, self.time.now_ms());
    }

    /// An execution has ended.
    pub(crate) fn ended(&self, end: &TaskEnd) {
        match end {
            TaskEnd::Refused(refusal) => self.watch().refused(refusal.code),
            TaskEnd::Append(_) | TaskEnd::Storage(_) => self.stage.step_failed(true),
            TaskEnd::Task(_) => self.stage.step_failed(false),
        }
    }

    /// Looks at what is held. Returns in how long to look again.
    pub(crate) fn look(&self, task: &Task) -> Option<Duration> {
        let mut watch = self.watch();
        watch.look(task, self.time.now_ms());
        watch.look_again()
    }

    pub(crate) fn explain_holds(&self, task: &Task) -> Vec<HoldReport> {
        self.watch().explain_holds(task, self.time.now_ms())
    }

    /// How many records of each channel are held, and since when the first of them.
    pub(crate) fn held_on<T>(
        &self,
        ask: impl FnOnce(&dyn Fn(Channel) -> (u64, Option<i64>)) -> T,
    ) -> T {
        let (watch, now_ms) = (self.watch(), self.time.now_ms());
        let since = |age_ms: u64| now_ms.saturating_sub_unsigned(age_ms);
        ask(&|channel| {
            let (held, age_ms) = watch.held_on(channel, now_ms);
            (held, age_ms.map(since))
        })
    }
}
