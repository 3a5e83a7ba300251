//! Where workers and those who watch an application meet.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use parsley_core::decide::Settled;
use parsley_core::{Channel, Refusal};
use parsley_stage::Processed;
use parsley_stage::report::{HoldReport, InputReport};

use crate::status::{DeliveryEvent, Status, TaskState, TaskStatus, WorkerState, WorkerStatus};
use crate::worker::Counts;

type Observer = Arc<dyn Fn(&DeliveryEvent) + Send + Sync>;

/// What workers report, and who is told of it.
pub(crate) struct Board {
    shown: Mutex<Shown>,
    changed: Condvar,
    on_delivery: Option<Observer>,
}

/// What a look at a task has seen.
pub(crate) struct Seen {
    pub(crate) inputs: Vec<InputReport>,
    pub(crate) holds: Vec<HoldReport>,
    pub(crate) widest_clock_bytes: u64,
}

struct Shown {
    workers: Vec<WorkerStatus>,
    /// How often it has changed.
    changes: u64,
}

impl Board {
    pub(crate) fn new(stages: Vec<(Arc<str>, usize)>, on_delivery: Option<Observer>) -> Self {
        let worker = |(stage, number)| WorkerStatus {
            stage,
            number,
            state: WorkerState::Running,
            has_joined: false,
            tasks: BTreeMap::new(),
            checks: 0,
            sweeps: 0,
            unanswered: 0,
        };
        Self {
            shown: Mutex::new(Shown {
                workers: stages.into_iter().map(worker).collect(),
                changes: 0,
            }),
            changed: Condvar::new(),
            on_delivery,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, worker: usize, change: impl FnOnce(&mut WorkerStatus)) {
        let mut shown = self.lock();
        if let Some(status) = shown.workers.get_mut(worker) {
            change(status);
            shown.changes += 1;
        }
        drop(shown);
        self.changed.notify_all();
    }

    pub(crate) fn status(&self) -> Status {
        Status {
            workers: self.lock().workers.clone(),
        }
    }

    /// Waits until the status is as wished, but not longer than a bound. Returns whether it is. Who is asked may ask for the status.
    pub(crate) fn wait(
        &self,
        bound: Duration,
        mut is_reached: impl FnMut(&Status) -> bool,
    ) -> bool {
        let until = Instant::now() + bound;
        loop {
            let shown = self.lock();
            let seen = shown.changes;
            let status = Status {
                workers: shown.workers.clone(),
            };
            drop(shown);
            if is_reached(&status) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let is_unchanged = |shown: &mut Shown| shown.changes == seen;
            drop(
                self.changed
                    .wait_timeout_while(self.lock(), left, is_unchanged)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
    }

    pub(crate) fn assigned(&self, worker: usize, partitions: &[i32]) {
        self.change(worker, |status| {
            status.has_joined = true;
            status
                .tasks
                .retain(|partition, _| partitions.contains(partition));
            for &partition in partitions {
                status.tasks.entry(partition).or_default();
            }
        });
    }

    pub(crate) fn restoring(&self, worker: usize, partition: i32, records: u64, left: u64) {
        self.task(worker, partition, |task| {
            task.state = TaskState::Restoring { records, left };
        });
    }

    pub(crate) fn refused(&self, worker: usize, partition: i32, refusal: &Refusal) {
        self.task(worker, partition, |task| {
            task.state = TaskState::Refused(refusal.clone());
        });
    }

    /// The tasks of these partitions are to be opened anew.
    pub(crate) fn reopening(&self, worker: usize, partitions: &[i32]) {
        self.change(worker, |status| {
            for partition in partitions {
                let task = status.tasks.entry(*partition).or_default();
                if !matches!(task.state, TaskState::Refused(_)) {
                    task.state = TaskState::Assigned;
                }
            }
        });
    }

    /// What a task has before it: how far it has read of each input, and what its heads wait for.
    pub(crate) fn ahead(&self, worker: usize, partition: i32, seen: Seen) {
        let Seen {
            inputs,
            holds,
            widest_clock_bytes,
        } = seen;
        let is_news = self.lock().workers.get(worker).is_some_and(|status| {
            let task = status.tasks.get(&partition);
            task.is_some_and(|task| {
                task.inputs != inputs
                    || task.holds != holds
                    || task.widest_clock_bytes != widest_clock_bytes
            })
        });
        if is_news {
            self.task(worker, partition, |task| {
                task.lag = inputs.iter().map(|input| input.lag).sum();
                task.inputs = inputs;
                task.holds = holds;
                task.widest_clock_bytes = widest_clock_bytes;
            });
        }
    }

    fn task(&self, worker: usize, partition: i32, change: impl FnOnce(&mut TaskStatus)) {
        self.change(worker, |status| {
            change(status.tasks.entry(partition).or_default());
        });
    }

    pub(crate) fn committed(
        &self,
        worker: usize,
        partition: i32,
        counts: Counts,
        deliveries: &[Processed],
        held: u64,
        settled: Vec<(Channel, Settled)>,
    ) {
        if let Some(observer) = &self.on_delivery {
            let stage = self
                .lock()
                .workers
                .get(worker)
                .map(|status| Arc::clone(&status.stage));
            for delivery in deliveries {
                observer(&DeliveryEvent {
                    stage: stage.clone().unwrap_or_else(|| "".into()),
                    partition,
                    topic: Arc::clone(&delivery.topic),
                    channel: delivery.channel,
                    offset: delivery.offset,
                    timestamp_ms: delivery.timestamp_ms,
                    key: delivery.key.clone(),
                    clock: delivery.clock.clone(),
                    was_held: delivery.was_held,
                });
            }
        }
        self.change(worker, |status| {
            let task = status.tasks.entry(partition).or_default();
            task.state = TaskState::Running;
            task.steps += 1;
            task.received += counts.received;
            task.dropped += counts.dropped;
            task.rounds += counts.rounds;
            task.ticks += counts.ticks;
            task.delivered += deliveries.len() as u64;
            task.held = held;
            task.settled = settled;
        });
    }

    /// What is known of a task's inputs moves without a step as well: one that is deleted is settled to its end.
    pub(crate) fn settled(&self, worker: usize, partition: i32, settled: Vec<(Channel, Settled)>) {
        let is_news = self.lock().workers.get(worker).is_some_and(|status| {
            let task = status.tasks.get(&partition);
            task.is_some_and(|task| !task.settled.is_empty() && task.settled != settled)
        });
        if is_news {
            self.task(worker, partition, |task| task.settled = settled);
        }
    }

    /// A check was made, and stopped nothing.
    pub(crate) fn checked(&self, worker: usize) {
        self.change(worker, |status| status.checks += 1);
    }

    /// A sweep was made.
    pub(crate) fn swept(&self, worker: usize) {
        self.change(worker, |status| status.sweeps += 1);
    }

    /// The cluster did not answer what a worker asked between steps.
    pub(crate) fn unanswered(&self, worker: usize) {
        self.change(worker, |status| status.unanswered += 1);
    }

    /// Deliveries wait for a check, or do not any more.
    pub(crate) fn overdue(&self, worker: usize, is_overdue: bool) {
        self.change(worker, |status| match (is_overdue, &status.state) {
            (true, WorkerState::Running) => status.state = WorkerState::Unchecked,
            (false, WorkerState::Unchecked) => status.state = WorkerState::Running,
            _ => {}
        });
    }

    /// What had failed does not fail any more.
    pub(crate) fn recovered(&self, worker: usize) {
        self.change(worker, |status| status.state = WorkerState::Running);
    }

    pub(crate) fn retrying(&self, worker: usize, message: &str, attempt: u32) {
        self.change(worker, |status| {
            for task in status.tasks.values_mut() {
                if !matches!(task.state, TaskState::Refused(_)) {
                    task.failed_steps += 1;
                }
            }
            status.state = WorkerState::Retrying {
                message: message.to_owned(),
                attempt,
            };
        });
    }

    pub(crate) fn failed(&self, worker: usize, message: &str) {
        self.change(worker, |status| {
            status.state = WorkerState::Failed {
                message: message.to_owned(),
            };
        });
    }

    pub(crate) fn ended(&self, worker: usize) {
        self.change(worker, |status| {
            if !matches!(status.state, WorkerState::Failed { .. }) {
                status.state = WorkerState::Stopped;
            }
        });
    }
}
