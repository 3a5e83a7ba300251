//! What keeps failing, and how long to wait before it is tried again.

use std::time::{Duration, Instant};

use parsley_core::{Channel, Offset};
use parsley_stage::Processed;

use crate::config::KafkaConfig;

/// How long nothing fails, beyond twice the last wait, until what has failed is taken to be over without a delivery that shows it.
const CALM: Duration = Duration::from_secs(1);

/// What failed, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Failed {
    /// Something of the worker.
    #[default]
    Worker,
    /// Something of the task of a partition.
    Task(i32),
    /// A record of that task could not be processed.
    Record(i32, (Channel, Offset)),
}

impl Failed {
    /// The task that failed, if it was one.
    pub(super) fn task(self) -> Option<i32> {
        match self {
            Self::Worker => None,
            Self::Task(partition) | Self::Record(partition, _) => Some(partition),
        }
    }
}

/// Failures in a row. That a task opens again and commits its opening ends no row: what fails comes behind that.
#[derive(Debug, Default)]
pub(crate) struct Failing {
    attempts: u32,
    at: Failed,
    /// When it is over if nothing has failed by then.
    calm_at: Option<Instant>,
}

impl Failing {
    /// One more failure. Returns how long to wait.
    pub(super) fn note(&mut self, at: Failed, config: &KafkaConfig) -> Duration {
        self.attempts = self.attempts.saturating_add(1);
        self.at = at;
        let doublings = self.attempts.saturating_sub(1).min(31);
        let wait = config.backoff_first.saturating_mul(1 << doublings);
        let wait = wait.min(config.backoff_longest);
        self.calm_at = Some(Instant::now() + wait.saturating_mul(3) + CALM);
        wait
    }

    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Whether the deliveries of a task in a step that is committed show that what failed does not any more.
    pub(super) fn is_overcome_by(&self, task: i32, deliveries: &[Processed]) -> bool {
        let is_it = |delivery: &Processed| match self.at {
            Failed::Worker => true,
            Failed::Task(failed) => failed == task,
            Failed::Record(_, at) => at == (delivery.channel, delivery.offset),
        };
        self.attempts > 0 && deliveries.iter().any(is_it)
    }

    /// Whether nothing has failed for long enough.
    pub(super) fn is_over(&self) -> bool {
        self.calm_at
            .is_some_and(|calm_at| Instant::now() >= calm_at)
    }

    pub(super) fn overcome(&mut self) {
        *self = Self::default();
    }
}
