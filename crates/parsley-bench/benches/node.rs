//! Nodes: streams of records, idle channels, holding and releasing, stamps, restoring.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use parsley_bench::release::{Held, Pattern};
use parsley_bench::restore::Stored;
use parsley_bench::stamp::Stamping;
use parsley_bench::stream::Stream;
use parsley_bench::{STEP_RECORDS, time_of};

/// Per record.
fn stream(c: &mut Criterion) {
    let mut group = c.benchmark_group("stream");
    let step = STEP_RECORDS as u64;
    for (work, stamps, widths) in [
        ("deliver", false, &[0, 1, 4, 64, 1024][..]),
        ("deliver and stamp", true, &[1, 4, 64][..]),
    ] {
        for &width in widths {
            let mut stream = Stream::new(width, STEP_RECORDS, stamps);
            group.bench_function(BenchmarkId::new(work, width), |b| {
                b.iter_custom(|units| time_of(units, step, || stream.step()));
            });
        }
    }
    for idle in [1, 16, 64, 256, 1024] {
        let mut stream = Stream::idle(idle, 1);
        group.bench_function(BenchmarkId::new("idle", idle), |b| {
            b.iter_custom(|units| time_of(units, 1, || stream.step()));
        });
    }
    group.finish();
}

/// Per released record, or per held one.
fn release(c: &mut Criterion) {
    let mut group = c.benchmark_group("release");
    group.sampling_mode(SamplingMode::Flat).sample_size(20);
    for (work, pattern, counts) in [
        ("chain", Pattern::Chain, &[16, 256, 1024][..]),
        ("same claim", Pattern::SameClaim, &[1000, 10_000][..]),
    ] {
        for &count in counts {
            let mut held = Held::new(pattern, count);
            let units_in_round = count as u64 + 1;
            group.bench_function(BenchmarkId::new(work, count), |b| {
                b.iter_custom(|units| {
                    time_of(units, units_in_round, || held.round(usize::MAX).release)
                });
            });
            group.bench_function(BenchmarkId::new(format!("{work} committed"), count), |b| {
                b.iter_custom(|units| {
                    time_of(units, units_in_round, || {
                        let took = held.round(usize::MAX);
                        took.release + took.commit
                    })
                });
            });
        }
    }
    for count in [200, 10_000] {
        let mut held = Held::new(Pattern::OneChannel, count);
        let count = count as u64;
        group.bench_function(BenchmarkId::new("hold", count), |b| {
            b.iter_custom(|units| time_of(units, count, || held.round(STEP_RECORDS).hold));
        });
        group.bench_function(BenchmarkId::new("release", count), |b| {
            b.iter_custom(|units| {
                time_of(units, count + 1, || {
                    let took = held.round(STEP_RECORDS);
                    took.release + took.commit
                })
            });
        });
    }
    group.finish();
}

/// Per stamp; what stands beside it in a step is not measured.
fn stamp(c: &mut Criterion) {
    let mut group = c.benchmark_group("stamp");
    let step = STEP_RECORDS as u64;
    for n in [16, 64, 256] {
        let mut stamping = Stamping::new(n);
        let mut measure = |work, stamp: fn(&mut Stamping) -> Duration| {
            group.bench_function(BenchmarkId::new(work, n), |b| {
                b.iter_custom(|units| {
                    time_of(units, step, || {
                        let took = (0..step).map(|_| stamp(&mut stamping)).sum();
                        stamping.commit();
                        took
                    })
                });
            });
        };
        measure("after a delivery", |stamping| {
            stamping.deliver();
            stamping.stamp()
        });
        measure("again", Stamping::stamp);
        measure("with its delivery", Stamping::deliver_and_stamp);
    }
    group.finish();
}

/// Per restored node.
fn restore(c: &mut Criterion) {
    let mut group = c.benchmark_group("restore");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    let records = 100_000;
    let mut stored = Stored::new(records);
    group.bench_function(BenchmarkId::new("held records", records), |b| {
        b.iter_custom(|units| time_of(units, 1, || stored.restore()));
    });
    group.finish();
}

criterion_group! {
    name = all;
    config = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .without_plots();
    targets = stream, release, stamp, restore
}
criterion_main!(all);
