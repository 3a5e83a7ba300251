//! Clocks: decode, decide, dominates, merge, encode.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use parsley_bench::clocks::{Clocks, WIDTHS};
use parsley_bench::time_of;
use parsley_core::decide::Verdict;
use parsley_core::wire;

fn clock(c: &mut Criterion) {
    for width in WIDTHS {
        let mut clocks = Clocks::new(width);
        let mut group = c.benchmark_group("clock");
        let id = |work| BenchmarkId::new(work, width);
        group.bench_function(id("decode"), |b| {
            b.iter(|| black_box(wire::decode(black_box(clocks.bytes()))).is_ok());
        });
        let in_bytes = clocks.in_bytes();
        assert_eq!(clocks.decide(&in_bytes), Verdict::Deliverable);
        group.bench_function(id("decide"), |b| {
            b.iter(|| black_box(&clocks).decide(black_box(&in_bytes)));
        });
        assert!(clocks.clock().dominates(&in_bytes));
        group.bench_function(id("dominates"), |b| {
            b.iter(|| black_box(clocks.clock()).dominates(black_box(&in_bytes)));
        });
        group.bench_function(id("encode"), |b| {
            b.iter(|| wire::encode(black_box(clocks.clock())));
        });
        group.bench_function(id("merge"), |b| {
            b.iter_custom(|units| {
                time_of(units, clocks.merges(), || {
                    clocks.reset();
                    let started = Instant::now();
                    clocks.merge();
                    let took = started.elapsed();
                    assert!(clocks.is_merged());
                    took
                })
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = all;
    config = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(700))
        .without_plots();
    targets = clock
}
criterion_main!(all);
