//! The host under load, on a broker of its own: records that wait by the million, backlogs that wait for each other, records that are too large, wide
//! clocks.
//!
//! The gate runs small ones. `cargo test --release -p parsley-kafka --test load -- --ignored --nocapture --test-threads=1` runs them in full, and
//! tells what it measured.
#![cfg(target_os = "linux")]

mod backlog;
mod child;
mod clocks;
mod held;
#[path = "../../../parsley-embedded/tests/support/process.rs"]
#[allow(dead_code, reason = "each test binary uses a part")]
mod process;
mod too_large;
#[path = "../host/world.rs"]
#[allow(dead_code, reason = "each test binary uses a part")]
mod world;

fn brokers() -> kafka_cluster::ClusterConfig {
    kafka_cluster::ClusterConfig::default()
}

/// How much comes in how much time.
fn per_second(count: u64, time: std::time::Duration) -> u64 {
    (count as f64 / time.as_secs_f64()) as u64
}

/// How much time this process has worked for.
fn worked() -> std::time::Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, behind_name) = stat.rsplit_once(") ").unwrap();
    let ticks =
        |field: usize| -> u64 { behind_name.split(' ').nth(field).unwrap().parse().unwrap() };
    // User and system, in hundredths of a second on every Linux.
    std::time::Duration::from_millis((ticks(11) + ticks(12)) * 10)
}
