//! The loop that the host is compared with: consume, pass on, commit, exactly once, and nothing else.
//!
//! It is written for speed, as somebody would who knows the client. Positions are sent to the transaction while its records are under way.
//! The wait for their reports is a loop of its own, as `rdkafka`'s `flush`, and its `commit_transaction` if anything is open, would wait for
//! a tenth of a second at least.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use super::cluster::Cluster;
use super::meter::{Measured, Meter};
use super::{BOUND, COMMIT_INTERVAL, Input, Outcome, PARTITIONS};

/// After how many records reports are taken.
const REPORTS_EVERY: u64 = 500;

/// How long to wait for a report before it is looked for again.
const MOMENT: Duration = Duration::from_micros(200);

/// How often those who send are told to hurry while reports are waited for, as the host does.
const HURRY_EVERY: Duration = Duration::from_millis(5);

/// Keeps what failed.
#[derive(Default)]
struct Reports {
    failure: Mutex<Option<KafkaError>>,
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            let failure = self.failure.lock();
            failure
                .expect("nothing panics with this lock")
                .get_or_insert(error.clone());
        }
    }
}

/// What becomes of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// They stay behind.
    Dropped,
    /// They come along.
    PassedOn,
    /// Each record is given those of a stamp with two claims, which is what a stage stamps that passes one input on to one topic.
    Added,
}

/// The names of a stamp's headers, and how long their values are: a clock of two claims, a sender, a sequence number.
const STAMP: [(&str, &[u8]); 3] = [
    ("vc", &[0x11; 64]),
    ("vc-sender", &[0x22; 16]),
    ("vc-seq", &[0x33; 8]),
];

/// Passes all records on.
pub fn run(cluster: &Cluster, input: &Input, sink: &str, headers: Headers) -> Outcome<Measured> {
    let producer: BaseProducer<Reports> = cluster
        .client()
        .set("transactional.id", sink)
        .set("partitioner", "murmur2_random")
        .create_with_context(Reports::default())?;
    producer.init_transactions(BOUND)?;
    let consumer: BaseConsumer = cluster
        .client()
        .set("group.id", sink)
        .set("isolation.level", "read_committed")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "earliest")
        .set("partition.assignment.strategy", "range")
        .create()?;
    consumer.subscribe(&[&input.topic])?;

    let mut meter = Meter::new(cluster.broker_process());
    let mut passed = 0;
    let mut next: Vec<Option<i64>> = vec![None; PARTITIONS as usize];
    let give_up = Instant::now() + BOUND;
    while passed < input.records {
        // The transaction begins with its first record.
        let Some(first) = consumer.poll(COMMIT_INTERVAL) else {
            if Instant::now() > give_up {
                return Err(format!("{passed} of {} records came", input.records).into());
            }
            continue;
        };
        producer.begin_transaction()?;
        let until = Instant::now() + COMMIT_INTERVAL;
        let mut polled = Some(first);
        while let Some(message) = polled {
            let message = message?;
            pass_on(&producer, &message, sink, headers)?;
            next[message.partition() as usize] = Some(message.offset() + 1);
            passed += 1;
            if passed % REPORTS_EVERY == 0 {
                producer.poll(Duration::ZERO);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || passed == input.records {
                break;
            }
            polled = consumer.poll(left);
        }
        commit(&producer, &consumer, &input.topic, &next)?;
        meter.committed(passed)?;
    }
    Ok(meter.end()?)
}

fn pass_on(
    producer: &BaseProducer<Reports>,
    message: &BorrowedMessage<'_>,
    sink: &str,
    headers: Headers,
) -> Outcome<()> {
    let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(sink);
    record.key = message.key();
    record.payload = message.payload();
    record.timestamp = message.timestamp().to_millis();
    record.headers = match headers {
        Headers::Dropped => None,
        Headers::PassedOn => message.headers().map(|headers| headers.detach()),
        Headers::Added => {
            let mut added = OwnedHeaders::new_with_capacity(STAMP.len());
            for (key, value) in STAMP {
                let value = Some(value);
                added = added.insert(Header { key, value });
            }
            Some(added)
        }
    };
    while let Err((error, back)) = producer.send(record) {
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
            return Err(error.into());
        }
        record = back;
        take_reports(producer);
    }
    Ok(())
}

/// Has sent what lingers. `rdkafka` says so for a moment in each turn of its wait.
fn hurry(producer: &BaseProducer<Reports>) {
    let _ = producer.flush(Duration::from_millis(1));
}

/// Takes the reports that are there, or waits for a moment if there is none.
fn take_reports(producer: &BaseProducer<Reports>) {
    let open = producer.in_flight_count();
    producer.poll(Duration::ZERO);
    if producer.in_flight_count() == open {
        thread::sleep(MOMENT);
    }
}

fn commit(
    producer: &BaseProducer<Reports>,
    consumer: &BaseConsumer,
    topic: &str,
    next: &[Option<i64>],
) -> Outcome<()> {
    hurry(producer);
    let mut positions = TopicPartitionList::new();
    for (partition, next) in (0..).zip(next) {
        if let Some(next) = next {
            positions.add_partition_offset(topic, partition, Offset::Offset(*next))?;
        }
    }
    let group = consumer.group_metadata().ok_or("no member of a group")?;
    producer.send_offsets_to_transaction(&positions, &group, BOUND)?;
    let mut hurried = Instant::now();
    while producer.in_flight_count() > 0 {
        if hurried.elapsed() >= HURRY_EVERY {
            hurry(producer);
            hurried = Instant::now();
        }
        take_reports(producer);
    }
    let failure = producer.context().failure.lock();
    if let Some(failure) = failure.expect("nothing panics with this lock").take() {
        return Err(failure.into());
    }
    Ok(producer.commit_transaction(BOUND)?)
}
