//! Very many records that wait for one that does not come: what they take of memory, how long a restart takes, and the release.

use std::time::{Duration, Instant};

use bytes::Bytes;
use parsley_core::wire;
use parsley_core::{Clock, SenderId};
use parsley_stage::{App, Stage};
use rdkafka::producer::{BaseProducer, Producer};

use crate::child::{self, Run, Told};
use crate::per_second;
use crate::world::*;

const PAYLOAD_BYTES: usize = 1024;

/// How much memory a process may take in all. Of it librdkafka may take 32 MiB for what it has fetched, as [`child_config`] says.
const PEAK_MIB_MAX: u64 = 256;

fn payload(number: u64) -> String {
    format!("{number:.<PAYLOAD_BYTES$}")
}

/// Tells of what it is given, and fails on what is not whole.
fn app(name: &str) -> App {
    let (cause, out) = (
        text_topic(&format!("{name}-cause")),
        text_topic(&format!("{name}-out")),
    );
    let input = text_topic(&format!("{name}-in"));
    let wait = Stage::stateless("wait")
        .sink(&out)
        .on(&cause, {
            let out = out.clone();
            move |message, outbox| outbox.send(&out, &message.key, &message.value)
        })
        .on(&input, move |message, outbox| {
            let number: u64 = message.value.trim_end_matches('.').parse()?;
            match message.value == payload(number) {
                true => outbox.send(&out, &message.key, &number.to_string()),
                false => Err(format!("not record {number}").into()),
            }
        })
        .build()
        .unwrap();
    App::named(name).stage(wait).build().unwrap()
}

fn child_config(dir: &str) -> parsley_kafka::KafkaConfig {
    config(dir)
        .commit_interval(Duration::from_millis(100))
        .transaction_timeout(Duration::from_secs(4))
        .property("session.timeout.ms", "3000")
        .property("queued.max.messages.kbytes", "32768")
}

/// Appends so many records, each of which claims the first of `<name>-cause`.
fn append(name: &str, count: u64) {
    let plain = Foreign(client().set("linger.ms", "20").create().unwrap());
    let mut clock = Clock::default();
    clock.claim_offset(channel(&format!("{name}-cause"), 0), 0);
    let (clock, sender) = (
        Bytes::from(wire::encode(&clock)),
        SenderId::of_name("somebody"),
    );
    let topic = format!("{name}-in");
    for number in 0..count {
        let headers = wire::stamp_headers(clock.clone(), sender, number as i64);
        plain.send(&topic, To::Partition(0), "k", &payload(number), &headers);
    }
    plain.flush();
}

/// The record that all wait for is in a transaction that is open; a process is killed while it takes them in and another one while they are let go
/// of; in between the state is read back from the directory, and from the changelog alone.
fn hold_and_release(test: &str, name: &str, count: u64) {
    if let Some(dir) = child::part() {
        return child::play(child_config(&dir), &app(name));
    }
    for part in ["cause", "in", "out"] {
        create_topic(&format!("{name}-{part}"), 1);
    }
    println!("{count} records of {PAYLOAD_BYTES} bytes behind one:");
    let causes: BaseProducer = client()
        .set("transactional.id", format!("{name}-causes"))
        .set("transaction.timeout.ms", "900000")
        .create()
        .unwrap();
    let causes = Foreign(causes);
    causes.0.init_transactions(BOUND).unwrap();
    causes.begin();
    causes.append(
        &format!("{name}-cause"),
        To::Partition(0),
        &[("k", "cause")],
    );
    let begun = Instant::now();
    append(name, count);
    println!("  appended at {}/s", per_second(count, begun.elapsed()));

    let (here, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let check = |told: &Told| {
        let peak_mib = told.peak_kib >> 10;
        assert!(peak_mib < PEAK_MIB_MAX, "{peak_mib} MiB: {told}");
    };
    // Killed while it takes them in.
    let mut run = Run::start(test, here.path());
    run.open("first start");
    let killed = run.until("holding a quarter", |told| told.held >= count / 4);
    println!(
        "  killed with {} held, {} MiB at most",
        killed.held,
        killed.peak_kib >> 10
    );
    check(&killed);
    run.kill();

    let mut run = Run::start(test, here.path());
    let open = run.open("after the kill");
    let first = run.until("taking in", |told| told.received > 0);
    let all = run.until("holding all", |told| told.held == count);
    assert_eq!(all.delivered, 0);
    println!(
        "  held at {}, {} MiB at most",
        all.rate_since(&first, |told| told.held),
        all.peak_kib >> 10
    );
    assert!(open.held <= count);
    check(&all);
    let told = run.until("telling what is waited for", |told| told.reason != "-");
    assert_eq!(told.reason, "vc-hold-not-fetched");
    run.stop();

    let mut run = Run::start(test, elsewhere.path());
    let open = run.open("from the changelog");
    assert_eq!(open.held, count);
    check(&open);
    run.stop();

    // Killed while it lets go of them.
    let mut run = Run::start(test, here.path());
    let open = run.open("from the directory");
    assert_eq!(open.held, count);
    causes.commit();
    let first = run.until("letting go", |told| told.held < count);
    let killed = run.until("half way", |told| told.held < count / 2);
    println!(
        "  released at {}, killed with {} held, {} MiB at most",
        killed.rate_since(&first, |told| count - told.held),
        killed.held,
        killed.peak_kib >> 10
    );
    check(&killed);
    run.kill();

    let mut run = Run::start(test, elsewhere.path());
    run.open("where it had been before, after the kill");
    let end = run.until("letting go of all", |told| told.held == 0);
    check(&end);
    run.stop();
    let out = read(&format!("{name}-out"));
    assert_eq!(out.len() as u64, count + 1);
    assert_eq!(text(&out[0].value), "cause");
    for (number, record) in out[1..].iter().enumerate() {
        assert_eq!(text(&record.value), number.to_string());
    }
    println!("  all came, each once, in order");
}

/// Nothing but time ended a step that held all that it took in: with a commit interval of some seconds, or a full queue, it had tens of thousands of
/// records, and memory had each several times (decision K30).
#[test]
fn a_step_that_only_takes_in_ends_before_memory_is_full() {
    let name = "held-steps";
    for part in ["cause", "in", "out"] {
        create_topic(&format!("{name}-{part}"), 1);
    }
    let count = 24_000;
    append(name, count);
    let dir = tempfile::tempdir().unwrap();
    let config = config(&dir).commit_interval(Duration::from_secs(5));
    let running = start(config, &app(name));
    let of_a_step = (8 << 20) / PAYLOAD_BYTES as u64 + 1;
    wait_for(&running, "holding most of them", |status| {
        let tasks = status.tasks().next();
        tasks.is_some_and(|(_, _, task)| {
            // The opening is a step that takes in nothing.
            let at_most = task.steps.saturating_sub(1) * of_a_step;
            assert!(
                task.held <= at_most,
                "{} in {} steps",
                task.held,
                task.steps
            );
            task.held >= count / 2
        })
    });
    stop(&running);
}

#[test]
fn thousands_are_held_restored_and_released() {
    hold_and_release(
        "held::thousands_are_held_restored_and_released",
        "held",
        20_000,
    );
}

#[test]
#[ignore = "takes minutes: cargo xtask nemesis"]
fn a_million_are_held_restored_and_released() {
    hold_and_release(
        "held::a_million_are_held_restored_and_released",
        "held-million",
        1_000_000,
    );
}
