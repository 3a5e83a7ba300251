//! Wide clocks: what they cost, and that they grow no further than their declarations let them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parsley_core::wire::ProtocolHeaders;
use parsley_core::{Channel, TopicId};
use parsley_kafka::{Status, TaskStatus};
use parsley_stage::partition::partition_of;
use parsley_stage::{App, Stage};

use crate::world::*;
use crate::{per_second, worked};

/// The bytes of a clock of so many claims by offset, and none by sequence (`docs/protocol.md`, Wire format).
fn clock_bytes(claims: usize) -> usize {
    // A version and two counts; a topic, a partition and an offset each.
    1 + 4 + 4 + claims * (16 + 4 + 8)
}

/// The mean and the greatest of the clocks on a topic, in bytes.
fn widths(topic: &str) -> (f64, usize) {
    let widths: Vec<usize> = read(topic)
        .iter()
        .map(|record| {
            let headers = ProtocolHeaders::read(&record.headers).unwrap();
            headers.clock.expect("a stamp").len()
        })
        .collect();
    let sum: usize = widths.iter().sum();
    (
        sum as f64 / widths.len() as f64,
        widths.into_iter().max().unwrap_or(0),
    )
}

/// Passes on records whose stamps name so many channels, which it does not read. Prints what that takes.
fn pass_on(name: &str, channels: usize, count: u64) {
    let (input, output) = copying_topics(name, 1);
    let elsewhere = TopicId::of_name("elsewhere");
    let plain = Foreign(client().set("linger.ms", "20").create().unwrap());
    let claims: Vec<(Channel, i64)> = (0..channels)
        .map(|partition| (elsewhere.partition(partition as i32), 0))
        .collect();
    for number in 0..count as i64 {
        // Each knows a little more than the one before.
        let mut claims = claims.clone();
        if let Some(claim) = claims.get_mut(number as usize % channels.max(1)) {
            claim.1 = number;
        }
        plain.send(
            &input,
            To::Partition(0),
            "key",
            "value",
            &stamp(&claims, number),
        );
    }
    plain.flush();
    let dir = tempfile::tempdir().unwrap();
    let running = start(
        config(&dir).commit_interval(Duration::from_millis(100)),
        &copying(name),
    );
    wait_for_tasks(&running, 1);
    let (begun, before) = (Instant::now(), worked());
    let is_done = running.wait(BOUND * 10, |status| status.delivered() == count);
    assert!(is_done, "{:#?}", running.status());
    let rate = per_second(count, begun.elapsed());
    let each = (worked() - before).as_secs_f64() * 1e6 / count as f64;
    stop(&running);
    let (mean, greatest) = widths(&output);
    println!(
        "  {channels} channels: {rate}/s, {each:.1} µs of its processors each, clocks of {mean:.0} bytes in the mean and {greatest} at most"
    );
    // Those, the input and the output itself.
    assert!(greatest <= clock_bytes(channels + 2), "{greatest}");
    assert!(greatest >= clock_bytes(channels), "{greatest}");
}

fn pass_on_wide_clocks(name: &str, count: u64) {
    println!("{count} records passed on by one task, whose stamps name");
    for channels in [0, 20, 200] {
        pass_on(&format!("{name}-{channels}"), channels, count);
    }
}

#[test]
fn clocks_of_two_hundred_channels_are_passed_on() {
    pass_on_wide_clocks("wide", 2_000);
}

#[test]
#[ignore = "takes minutes: cargo xtask nemesis"]
fn clocks_of_two_hundred_channels_at_length() {
    pass_on_wide_clocks("wide-long", 20_000);
}

const PARTITIONS: i32 = 16;

/// A key for each partition.
fn keys() -> Vec<String> {
    let key_of = |partition| {
        let is_it = |key: &String| partition_of(Some(key.as_bytes()), PARTITIONS) == partition;
        (0..)
            .map(|number| format!("key{number}"))
            .find(is_it)
            .unwrap()
    };
    (0..PARTITIONS).map(key_of).collect()
}

/// Each task of the first stage sends to every partition of what the second reads, in turn, and each task of that in turn to every partition of the end.
/// A value is `<partition> <number>` of where it came from.
fn all_to_all(name: &str) -> App {
    let topic = |part: &str| text_topic(&format!("{name}-{part}"));
    let (start, middle, end) = (topic("start"), topic("middle"), topic("end"));
    let spread = |name: &str,
                  from: &parsley_stage::Topic<String, String>,
                  to: &parsley_stage::Topic<String, String>| {
        let (to, keys) = (to.clone(), keys());
        Stage::stateless(name)
            .sink(&to)
            .on(from, move |message, out| {
                let (_, number) = message.value.split_once(' ').ok_or("no number")?;
                let number: usize = number.parse()?;
                out.send(&to, &keys[number % keys.len()], &message.value)
            })
            .build()
            .unwrap()
    };
    App::named(name)
        .stage(spread("scatter", &start, &middle))
        .stage(spread("gather", &middle, &end))
        .build()
        .unwrap()
}

/// What the tasks of a stage have in all.
fn sum(status: &Status, stage: &str, of: impl Fn(&TaskStatus) -> u64) -> u64 {
    let tasks = status.tasks().filter(|(known, _, _)| *known == stage);
    tasks.map(|(_, _, task)| of(task)).sum()
}

/// Runs so many records for each partition through both stages.
fn run_all_to_all(name: &str, max_rounds: usize, each: usize) {
    let topics = ["start", "middle", "end"].map(|part| format!("{name}-{part}"));
    for topic in &topics {
        create_topic(topic, PARTITIONS);
    }
    let plain = Foreign(client().set("linger.ms", "20").create().unwrap());
    let keys = keys();
    for number in 0..each {
        for partition in 0..PARTITIONS {
            // Few keys: the sends of each go in an order, from one partition to the next.
            let key = &keys[number / PARTITIONS as usize % 4];
            plain.send(
                &topics[0],
                To::Partition(partition),
                key,
                &format!("{partition} {number}"),
                &[],
            );
        }
    }
    plain.flush();
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&dir).commit_interval(Duration::from_millis(100));
    config.max_rounds = max_rounds;
    let count = each as u64 * PARTITIONS as u64;
    let before = worked();
    let running = start(config, &all_to_all(name));
    wait_for_tasks(&running, 2 * PARTITIONS as usize);
    let begun = Instant::now();
    let is_done = running.wait(BOUND * 10, |status| {
        ["scatter", "gather"]
            .iter()
            .all(|stage| sum(status, stage, |task| task.delivered) >= count)
    });
    assert!(is_done, "{:#?}", running.status());
    let (elapsed, worked) = (begun.elapsed(), worked() - before);
    let status = running.status();
    let steps = sum(&status, "scatter", |task| task.steps) / PARTITIONS as u64;
    for (stage, partition, task) in status.tasks() {
        // Each delivery sends once here, so that it takes a round more at most.
        let bound = task.steps * max_rounds as u64;
        let is_counted = (1..=bound).contains(&task.rounds);
        assert!(is_counted, "{stage}/{partition}: {task:?}");
    }
    let greatest = status
        .tasks()
        .map(|(_, _, task)| task.rounds as f64 / task.steps as f64);
    println!(
        "  max_rounds {max_rounds}: {} deliveries/s, {:.0} µs of this process's processors each; the first stage took {steps} steps, with up to {:.2} rounds each in the mean",
        per_second(2 * count, elapsed),
        worked.as_secs_f64() * 1e6 / (2 * count) as f64,
        greatest.fold(0.0, f64::max),
    );
    stop(&running);
    let bound = clock_bytes(topics.len() * PARTITIONS as usize);
    for topic in &topics[1..] {
        let (mean, greatest) = widths(topic);
        println!(
            "  {topic}: clocks of {mean:.0} bytes in the mean, {greatest} at most, bound {bound}"
        );
        assert!(greatest <= bound, "{greatest}");
    }
    // What came of each partition came once, and what went to the same partition in its order.
    let mut last: BTreeMap<(i32, String), usize> = BTreeMap::new();
    let end = read(&topics[2]);
    assert_eq!(end.len() as u64, count);
    for record in end {
        let value = text(&record.value);
        let (from, number) = value.split_once(' ').unwrap();
        let number: usize = number.parse().unwrap();
        let before = last.insert((record.partition.partition, from.to_owned()), number);
        assert!(
            before.is_none_or(|before| before < number),
            "{value} behind {before:?}"
        );
    }
    check_stamps(&topics[1], name, "scatter", PARTITIONS);
    check_stamps(&topics[2], name, "gather", PARTITIONS);
}

fn all_to_all_with_rounds(name: &str, each: usize) {
    println!("{each} records from each of {PARTITIONS} partitions to all of them, twice:");
    for max_rounds in [8, 1] {
        run_all_to_all(&format!("{name}-{max_rounds}"), max_rounds, each);
    }
}

#[test]
fn stamps_of_sixteen_to_all_sixteen_stay_bounded() {
    all_to_all_with_rounds("all", 32);
}

#[test]
#[ignore = "takes minutes: cargo xtask nemesis"]
fn stamps_of_sixteen_to_all_sixteen_stay_bounded_at_length() {
    all_to_all_with_rounds("all-long", 500);
}
