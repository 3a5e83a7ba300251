//! Where workers and those who watch an application meet.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use parsley_core::Refusal;
use parsley_stage::Processed;

use crate::status::{DeliveryEvent, Status, TaskState, TaskStatus, WorkerState, WorkerStatus};

type Observer = Arc<dyn Fn(&DeliveryEvent) + Send + Sync>;

/// What workers report, and who is told of it.
pub(crate) struct Board {
    workers: Mutex<Vec<WorkerStatus>>,
    changed: Condvar,
    on_delivery: Option<Observer>,
}

impl Board {
    pub(crate) fn new(stages: Vec<(Arc<str>, usize)>, on_delivery: Option<Observer>) -> Self {
        let worker = |(stage, number)| WorkerStatus {
            stage,
            number,
            state: WorkerState::Running,
            tasks: BTreeMap::new(),
        };
        Self {
            workers: Mutex::new(stages.into_iter().map(worker).collect()),
            changed: Condvar::new(),
            on_delivery,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<WorkerStatus>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, worker: usize, change: impl FnOnce(&mut WorkerStatus)) {
        if let Some(status) = self.lock().get_mut(worker) {
            change(status);
        }
        self.changed.notify_all();
    }

    pub(crate) fn status(&self) -> Status {
        Status {
            workers: self.lock().clone(),
        }
    }

    /// Waits until the status is as wished, but not longer than a bound. Returns whether it is.
    pub(crate) fn wait(
        &self,
        bound: Duration,
        mut is_reached: impl FnMut(&Status) -> bool,
    ) -> bool {
        let until = Instant::now() + bound;
        let mut workers = self.lock();
        loop {
            let status = Status {
                workers: workers.clone(),
            };
            if is_reached(&status) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            workers = self
                .changed
                .wait_timeout(workers, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    pub(crate) fn assigned(&self, worker: usize, partitions: &[i32]) {
        self.change(worker, |status| {
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

    fn task(&self, worker: usize, partition: i32, change: impl FnOnce(&mut TaskStatus)) {
        self.change(worker, |status| {
            change(status.tasks.entry(partition).or_default());
        });
    }

    pub(crate) fn committed(
        &self,
        worker: usize,
        partition: i32,
        received: u64,
        dropped: u64,
        deliveries: Vec<Processed>,
        held: u64,
    ) {
        if let Some(observer) = &self.on_delivery {
            let stage = self
                .lock()
                .get(worker)
                .map(|status| Arc::clone(&status.stage));
            for delivery in &deliveries {
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
            status.state = WorkerState::Running;
            let task = status.tasks.entry(partition).or_default();
            task.state = TaskState::Running;
            task.steps += 1;
            task.received += received;
            task.dropped += dropped;
            task.delivered += deliveries.len() as u64;
            task.held = held;
        });
    }

    pub(crate) fn retrying(&self, worker: usize, message: &str, attempt: u32) {
        self.change(worker, |status| {
            status.state = WorkerState::Retrying {
                message: message.to_owned(),
                attempt,
            };
        });
    }

    pub(crate) fn failed(&self, worker: usize, message: &str) {
        tracing::error!(worker, %message, "a worker is over");
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
