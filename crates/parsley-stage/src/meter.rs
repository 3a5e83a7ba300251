//! The metrics of a host, through the facade of crate `metrics` (decision T15).
//!
//! A host registers a [`TaskMeter`] for each task that it has and a [`StageMeter`] for each stage, and adds to them once in a step: nothing
//! is looked up by name or allocated for a record. Handles are those of the recorder that is installed when an application starts or, on
//! Kafka, when a task comes to the process; without one they do nothing. A recorder that wants units and help texts is told by [`describe`], which hosts call when they start an
//! application.
//!
//! Labels are bounded by the topology: application, stage, task (the partition's number), input (the topic's name), kinds and codes.
//! No offset and no key is one.

use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, Label, Unit};
use parsley_core::RefusalCode;

/// What a recorder is told of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// What can be done with it.
    pub kind: MetricKind,
    /// The unit.
    pub unit: Unit,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it counts.
    pub help: &'static str,
}

/// What can be done with a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It is what it is now.
    Gauge,
    /// It has a distribution.
    Histogram,
}

impl MetricKind {
    /// The kind in a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

const OF_TASK: &[&str] = &["application", "stage", "task"];
const OF_INPUT: &[&str] = &["application", "stage", "task", "input"];
const OF_STAGE: &[&str] = &["application", "stage"];

macro_rules! metrics {
    ($($constant:ident, $name:literal, $kind:ident, $unit:ident, $labels:expr, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Metric = Metric {
                name: $name, kind: MetricKind::$kind, unit: Unit::$unit, labels: $labels, help: $help,
            };
        )*
        /// Every metric.
        pub const ALL: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    RECEIVED, "parsley_received_records_total", Counter, Count, OF_TASK, "Records taken in, by committed steps.";
    DROPPED, "parsley_dropped_records_total", Counter, Count, OF_TASK, "Records that came again and were dropped.";
    DELIVERED, "parsley_delivered_records_total", Counter, Count, OF_TASK, "Records delivered to the logic, by committed steps.";
    TICKS, "parsley_emitted_ticks_total", Counter, Count, OF_TASK, "Ticks emitted, by committed steps.";
    HELD, "parsley_held_records", Gauge, Count, OF_INPUT, "Records taken in and waiting for others, now.";
    OLDEST_HOLD, "parsley_oldest_hold_seconds", Gauge, Seconds, OF_INPUT, "How long ago this process took in the first record that waits; 0 when none does.";
    STAMP_ENTRIES, "parsley_stamp_entries", Gauge, Count, &["application", "stage", "task", "kind"], "Claims in the next stamp, by kind: `offset` or `sequence`.";
    WIDEST_CLOCK, "parsley_widest_clock_bytes", Gauge, Bytes, OF_TASK, "The longest clock received or sent since the task was last opened.";
    REFUSALS, "parsley_refusals_total", Counter, Count, &["application", "stage", "task", "code"], "Refusals, by the guard's code.";
    RESTORED, "parsley_restored_records", Gauge, Count, OF_TASK, "Records read back from the changelogs, by the restore at hand or the last one.";
    RESTORE_LEFT, "parsley_restore_left_offsets", Gauge, Count, OF_TASK, "Offsets of the changelogs that the restore at hand has still to read; 0 when none is at hand.";
    STEP_SECONDS, "parsley_step_seconds", Histogram, Seconds, OF_STAGE, "How long a committed step took, from its first record to its commit.";
    FAILED_STEPS, "parsley_failed_steps_total", Counter, Count, OF_STAGE, "Steps given up because of a failure, to be tried again.";
    COMMIT_FAILURES, "parsley_commit_failures_total", Counter, Count, OF_STAGE, "Steps given up because the log did not take them: those of the failed steps that no code of the application is behind.";
    SKIPPED_SWEEPS, "parsley_skipped_sweeps_total", Counter, Count, OF_STAGE, "Looks for what was deleted of what stamps claim that were skipped, as the cluster did not answer.";
}

/// Tells the recorder what each metric is.
pub fn describe() {
    for metric in ALL {
        let Metric {
            name, unit, help, ..
        } = *metric;
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(name, unit, help),
            MetricKind::Gauge => metrics::describe_gauge!(name, unit, help),
            MetricKind::Histogram => metrics::describe_histogram!(name, unit, help),
        }
    }
}

/// The values of labels, in the order of a metric's names.
fn labels<const N: usize>(metric: Metric, values: [&Arc<str>; N]) -> Vec<Label> {
    debug_assert_eq!(metric.labels.len(), N);
    let pairs = metric.labels.iter().zip(values);
    pairs
        .map(|(name, value)| Label::new(*name, Arc::clone(value)))
        .collect()
}

fn counter<const N: usize>(metric: Metric, values: [&Arc<str>; N]) -> Counter {
    metrics::counter!(metric.name, labels(metric, values))
}

fn gauge<const N: usize>(metric: Metric, values: [&Arc<str>; N]) -> Gauge {
    metrics::gauge!(metric.name, labels(metric, values))
}

/// The metrics of a stage.
#[derive(Clone, Debug)]
pub struct StageMeter {
    step_seconds: Histogram,
    failed_steps: Counter,
    commit_failures: Counter,
    skipped_sweeps: Counter,
}

impl StageMeter {
    /// Registers them.
    pub fn register(application: &Arc<str>, stage: &Arc<str>) -> Self {
        let of_stage = [application, stage];
        Self {
            step_seconds: metrics::histogram!(STEP_SECONDS.name, labels(STEP_SECONDS, of_stage)),
            failed_steps: counter(FAILED_STEPS, of_stage),
            commit_failures: counter(COMMIT_FAILURES, of_stage),
            skipped_sweeps: counter(SKIPPED_SWEEPS, of_stage),
        }
    }

    /// A step was committed, and took so many seconds.
    pub fn step_committed(&self, seconds: f64) {
        self.step_seconds.record(seconds);
    }

    /// A step was given up; `by_log` says whether the log did not take it.
    pub fn step_failed(&self, by_log: bool) {
        self.failed_steps.increment(1);
        if by_log {
            self.commit_failures.increment(1);
        }
    }

    /// A sweep was skipped.
    pub fn sweep_skipped(&self) {
        self.skipped_sweeps.increment(1);
    }
}

/// What the committed steps of a task did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Records taken in.
    pub received: u64,
    /// Records that came again and were dropped.
    pub dropped: u64,
    /// Records delivered.
    pub delivered: u64,
    /// Ticks emitted.
    pub ticks: u64,
}

/// The metrics of a task. What is so now is 0 when it is dropped: the task is not here any more.
#[derive(Debug)]
pub struct TaskMeter {
    /// Application, stage and task.
    names: [Arc<str>; 3],
    received: Counter,
    dropped: Counter,
    delivered: Counter,
    ticks: Counter,
    offset_entries: Gauge,
    sequence_entries: Gauge,
    widest_clock: Gauge,
    restored: Gauge,
    restore_left: Gauge,
}

/// The metrics of one of a task's inputs.
#[derive(Debug)]
pub struct InputMeter {
    held: Gauge,
    oldest: Gauge,
}

impl TaskMeter {
    /// Registers them.
    pub fn register(application: &Arc<str>, stage: &Arc<str>, partition: i32) -> Self {
        let task: Arc<str> = partition.to_string().into();
        let of_task = [application, stage, &task];
        let entries = |kind: &str| gauge(STAMP_ENTRIES, [application, stage, &task, &kind.into()]);
        Self {
            received: counter(RECEIVED, of_task),
            dropped: counter(DROPPED, of_task),
            delivered: counter(DELIVERED, of_task),
            ticks: counter(TICKS, of_task),
            offset_entries: entries("offset"),
            sequence_entries: entries("sequence"),
            widest_clock: gauge(WIDEST_CLOCK, of_task),
            restored: gauge(RESTORED, of_task),
            restore_left: gauge(RESTORE_LEFT, of_task),
            names: of_task.map(Arc::clone),
        }
    }

    /// Registers those of an input.
    pub fn input(&self, topic: &Arc<str>) -> InputMeter {
        let [application, stage, task] = &self.names;
        let of_input = [application, stage, task, topic];
        InputMeter {
            held: gauge(HELD, of_input),
            oldest: gauge(OLDEST_HOLD, of_input),
        }
    }

    /// A step was committed.
    pub fn step_committed(&self, counts: StepCounts) {
        self.received.increment(counts.received);
        self.dropped.increment(counts.dropped);
        self.delivered.increment(counts.delivered);
        self.ticks.increment(counts.ticks);
    }

    /// How wide clocks are.
    pub fn clocks(&self, (by_offset, by_sequence): (usize, usize), widest_bytes: usize) {
        self.offset_entries.set(by_offset as f64);
        self.sequence_entries.set(by_sequence as f64);
        self.widest_clock.set(widest_bytes as f64);
    }

    /// A guard has stopped the task.
    pub fn refused(&self, code: RefusalCode) {
        let [application, stage, task] = &self.names;
        let code = code.as_str().into();
        counter(REFUSALS, [application, stage, task, &code]).increment(1);
    }

    /// How far the state is read back.
    pub fn restoring(&self, records: u64, left: u64) {
        self.restored.set(records as f64);
        self.restore_left.set(left as f64);
    }
}

impl Drop for TaskMeter {
    fn drop(&mut self) {
        self.clocks((0, 0), 0);
        self.restoring(0, 0);
    }
}

impl InputMeter {
    /// What is held of the input.
    pub fn held(&self, records: u64, oldest_ms: u64) {
        self.held.set(records as f64);
        self.oldest.set(oldest_ms as f64 / 1000.0);
    }
}

impl Drop for InputMeter {
    fn drop(&mut self) {
        self.held(0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of `docs/operations.md` says what is here, in this order.
    #[test]
    fn the_manual_lists_the_metrics() {
        let manual = include_str!("../../../docs/operations.md");
        let row = |metric: &Metric| {
            let unit = match metric.unit {
                Unit::Count => "count",
                other => other.as_str(),
            };
            let labels = metric.labels.join(", ");
            format!(
                "| `{}` | {}, {unit} | {labels} | {} |",
                metric.name,
                metric.kind.as_str(),
                metric.help
            )
        };
        let rows: Vec<String> = ALL.iter().map(row).collect();
        let listed: Vec<&str> = manual
            .lines()
            .filter(|line| line.starts_with("| `parsley_"))
            .collect();
        assert_eq!(listed, rows, "\n{}", rows.join("\n"));
    }
}
