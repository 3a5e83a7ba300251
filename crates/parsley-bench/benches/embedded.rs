//! The embedded host, from start to end.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use parsley_bench::told::Told;
use parsley_bench::{STEP_RECORDS, pipeline, time_of};
use parsley_embedded::Host;

/// Records that go through both stages in one run.
const RECORDS: u64 = 20_000;

/// Per record: a step of a task alone, and with what a host tells of it.
fn told(c: &mut Criterion) {
    let mut group = c.benchmark_group("task");
    group.sample_size(30);
    for is_told in [false, true] {
        let name = if is_told { "told" } else { "silent" };
        let mut task = Told::new(is_told).expect("the task opens");
        group.bench_function(BenchmarkId::new("step", name), |b| {
            b.iter_custom(|units| {
                let step = || task.step().expect("a store in memory does not fail");
                time_of(units, STEP_RECORDS as u64, step)
            });
        });
    }
    group.finish();
}

/// Per delivery.
fn embedded(c: &mut Criterion) {
    let mut group = c.benchmark_group("embedded");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.bench_function(BenchmarkId::new("two stages", "in memory"), |b| {
        b.iter_custom(|units| {
            time_of(units, 2 * RECORDS, || {
                let host = Host::in_memory();
                pipeline::run(&host, RECORDS).expect("the application runs")
            })
        });
    });
    group.bench_function(BenchmarkId::new("two stages", "durable"), |b| {
        b.iter_custom(|units| {
            time_of(units, 2 * RECORDS, || {
                let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"));
                let dir = dir.expect("a directory can be made beside what is built");
                let host = Host::open(dir.path()).expect("a new directory opens");
                pipeline::run(&host, RECORDS).expect("the application runs")
            })
        });
    });
    group.finish();
}

criterion_group! {
    name = all;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(3))
        .without_plots();
    targets = told, embedded
}
criterion_main!(all);
