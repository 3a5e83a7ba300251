//! Case B27: the simulated broker lays out its logs as Apache Kafka does. Scripted schedules run on both, and everything that a
//! client could have seen is compared: where each record went, where each log starts and ends after every step, and what a
//! read-committed reader is given and where it ends up.
//!
//! The broker is Apache Kafka, of the version in `PARSLEY_KAFKA_VERSION`, else the newest one tested. Without a broker the tests fail.

mod kafka;
mod schedules;
mod simulated;

use kafka::Kafka;
use schedules::{SCHEDULES, Schedule, Step};
use simulated::Simulated;

/// What a partition's log tells about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    log_start: i64,
    last_stable: i64,
    high_watermark: i64,
}

/// What a read-committed reader is given that starts at the log start, and its position at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Read {
    records: Vec<(i64, String)>,
    position: i64,
}

/// A broker with one topic, on which a schedule can run.
trait Broker {
    /// Appends a record, within the producer's transaction if one is named, and tells its offset. A producer's first record begins one.
    fn append(&mut self, partition: i32, value: &str, producer: Option<&'static str>) -> i64;
    /// Begins a producer's transaction, if none is open.
    fn begin(&mut self, producer: &'static str);
    /// Ends a producer's transaction. All markers are written when this returns.
    fn end(&mut self, producer: &'static str, commit: bool);
    /// Removes everything below an offset; tells whether the broker accepted that.
    fn cut(&mut self, partition: i32, before: i64) -> bool;
    /// Deletes the topic and creates it again.
    fn recreate(&mut self, partitions: i32);
    fn bounds(&mut self, partition: i32) -> Bounds;
    fn read(&mut self, partition: i32) -> Read;
}

/// One thing that was seen while a schedule ran.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Appended {
        value: &'static str,
        offset: i64,
    },
    Cut {
        accepted: bool,
    },
    Bounds {
        after: Step,
        partition: i32,
        bounds: Bounds,
    },
    Read {
        partition: i32,
        read: Read,
    },
}

fn run(schedule: &Schedule, broker: &mut impl Broker) -> Vec<Seen> {
    let mut partitions = schedule.partitions;
    let mut seen = Vec::new();
    for &step in schedule.steps {
        let mut append = |broker: &mut _, partition, values: &[&'static str], producer| {
            seen.extend(values.iter().map(|&value| Seen::Appended {
                value,
                offset: Broker::append(broker, partition, value, producer),
            }));
        };
        match step {
            Step::Plain(partition, values) => append(broker, partition, values, None),
            Step::Begin(producer) => broker.begin(producer),
            Step::In(producer, partition, values) => {
                append(broker, partition, values, Some(producer))
            }
            Step::Commit(producer) => broker.end(producer, true),
            Step::Abort(producer) => broker.end(producer, false),
            Step::Cut(partition, before) => seen.push(Seen::Cut {
                accepted: broker.cut(partition, before),
            }),
            Step::Recreate(count) => {
                partitions = count;
                broker.recreate(count);
            }
        }
        seen.extend((0..partitions).map(|partition| Seen::Bounds {
            after: step,
            partition,
            bounds: broker.bounds(partition),
        }));
    }
    seen.extend((0..partitions).map(|partition| Seen::Read {
        partition,
        read: broker.read(partition),
    }));
    seen
}

/// Runs a schedule on both brokers.
fn compare(schedule: &Schedule) {
    let simulated = run(schedule, &mut Simulated::new(schedule.partitions));
    let real = run(
        schedule,
        &mut Kafka::new(schedule.name, schedule.partitions),
    );
    let first_difference = simulated
        .iter()
        .zip(&real)
        .position(|(one, other)| one != other);
    if let Some(at) = first_difference {
        panic!(
            "{}, observation {at}\n simulated: {:?}\n Kafka:     {:?}",
            schedule.name, simulated[at], real[at]
        );
    }
    assert_eq!(simulated.len(), real.len());
    let count = |wanted: fn(&Seen) -> bool| real.iter().filter(|seen| wanted(seen)).count();
    println!(
        "B27: {}: {} offsets, {} bounds, {} reads are the same",
        schedule.name,
        count(|seen| matches!(seen, Seen::Appended { .. })),
        count(|seen| matches!(seen, Seen::Bounds { .. })),
        count(|seen| matches!(seen, Seen::Read { .. })),
    );
}

#[test]
fn b27_the_schedules_contain_every_shape() {
    assert!(SCHEDULES.len() >= 20);
    let reached = |what: &str, wanted: fn(&parsley_sim::broker::Census) -> u64| {
        let schedules = SCHEDULES.iter().filter(|schedule| {
            let mut broker = Simulated::new(schedule.partitions);
            run(schedule, &mut broker);
            wanted(&broker.census()) > 0
        });
        let count = schedules.count();
        println!("B27: {what} in {count} of the schedules");
        assert!(count > 0, "no schedule has {what}");
    };
    reached("a marker between records", |census| {
        census.markers_between_records
    });
    reached("a trailing marker", |census| census.trailing_markers);
    reached("an aborted run at the head", |census| {
        census.aborted_runs_at_head
    });
    reached("an aborted run in the middle", |census| {
        census.aborted_runs_in_middle
    });
    reached("an aborted run at the tail", |census| {
        census.aborted_runs_at_tail
    });
    reached("an open transaction", |census| census.open_transactions);
    reached("a record behind an open transaction", |census| {
        census.appended_behind_open
    });
    reached("a truncation", |census| census.truncations);
    reached("a topic created again", |census| census.recreations);
    reached(
        "a marker of an earlier incarnation's transaction",
        |census| census.stray_markers,
    );
    reached("several partitions", |census| {
        census
            .topics_by_partitions
            .range(2..)
            .map(|(_, topics)| topics)
            .sum()
    });
}
