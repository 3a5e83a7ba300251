//! What a recorder of metrics is told, by name and labels.

#[path = "../../parsley-embedded/tests/support/recorder.rs"]
mod recorder;

use std::sync::Arc;

use metrics::Unit;
use parsley_core::RefusalCode;
use parsley_stage::meter::{self, InputMeter, MetricKind, StageMeter, StepCounts, TaskMeter};

use recorder::Metrics;

const OF_STAGE: &str = "{application=\"depot\",stage=\"settle\"}";
const OF_TASK: &str = "{application=\"shop\",stage=\"settle\",task=\"3\"}";
const OF_INPUT: &str = "{application=\"shop\",stage=\"settle\",task=\"3\",input=\"orders\"}";

/// The meters of one stage of one application, and the recorder that they are registered with. Whoever tests gives the application a name of its own.
fn registered(application: &str) -> (&'static Metrics, StageMeter, TaskMeter, InputMeter) {
    let metrics = Metrics::installed();
    let [application, stage, topic] = [application, "settle", "orders"].map(Arc::from);
    let task = TaskMeter::register(&application, &stage, 3);
    let input = task.input(&topic);
    (
        metrics,
        StageMeter::register(&application, &stage),
        task,
        input,
    )
}

#[test]
fn a_recorder_is_told_what_each_metric_is() {
    let metrics = Metrics::installed();
    meter::describe();
    for metric in meter::ALL {
        let expected = (Some(metric.unit), metric.help.to_owned());
        assert_eq!(metrics.described(metric.name), Some(expected));
    }
    assert_eq!(meter::STEP_SECONDS.unit, Unit::Seconds);
    assert_eq!(meter::STEP_SECONDS.kind, MetricKind::Histogram);
}

#[test]
fn the_steps_of_a_stage_are_counted_and_timed() {
    let (metrics, stage, ..) = registered("depot");
    stage.step_committed(0.25);
    stage.step_committed(1.5);
    for by_log in [false, true, false] {
        stage.step_failed(by_log);
    }
    stage.sweep_skipped();
    let named = |name: &str| format!("{name}{OF_STAGE}");
    let seconds = metrics.histogram(&named("parsley_step_seconds"));
    assert_eq!(seconds, [0.25, 1.5]);
    let counted = |name: &str| metrics.counter(&named(name));
    assert_eq!(counted("parsley_failed_steps_total"), 3);
    assert_eq!(counted("parsley_commit_failures_total"), 1);
    assert_eq!(counted("parsley_skipped_sweeps_total"), 1);
}

#[test]
fn what_a_task_did_is_counted_and_what_it_has_is_gone_with_it() {
    let (metrics, _, task, input) = registered("shop");
    let counts = StepCounts {
        received: 7,
        dropped: 1,
        delivered: 5,
        ticks: 2,
    };
    task.step_committed(counts);
    task.step_committed(counts);
    let counted = |name: &str| metrics.counter(&format!("{name}{OF_TASK}"));
    assert_eq!(counted("parsley_received_records_total"), 14);
    assert_eq!(counted("parsley_dropped_records_total"), 2);
    assert_eq!(counted("parsley_delivered_records_total"), 10);
    assert_eq!(counted("parsley_emitted_ticks_total"), 4);

    task.refused(RefusalCode::CorruptClock);
    let refusals = "parsley_refusals_total{application=\"shop\",stage=\"settle\",task=\"3\",code=\"vc-corrupt-clock\"}";
    assert_eq!(metrics.counter(refusals), 1);

    task.clocks((4, 1), 121);
    task.restoring(30, 12);
    input.held(2, 1_500);
    let of_task = |name: &str| metrics.gauge(&format!("{name}{OF_TASK}"));
    let entries = |kind: &str| {
        let name = "parsley_stamp_entries{application=\"shop\",stage=\"settle\",task=\"3\",kind=";
        metrics.gauge(&format!("{name}{kind:?}}}"))
    };
    let now = || {
        let of_input = |name: &str| metrics.gauge(&format!("{name}{OF_INPUT}"));
        [
            entries("offset"),
            entries("sequence"),
            of_task("parsley_widest_clock_bytes"),
            of_task("parsley_restored_records"),
            of_task("parsley_restore_left_offsets"),
            of_input("parsley_held_records"),
            of_input("parsley_oldest_hold_seconds"),
        ]
    };
    assert_eq!(now(), [4.0, 1.0, 121.0, 30.0, 12.0, 2.0, 1.5]);
    drop(input);
    assert_eq!(now()[5..], [0.0, 0.0]);
    drop(task);
    assert_eq!(now(), [0.0; 7]);
}
