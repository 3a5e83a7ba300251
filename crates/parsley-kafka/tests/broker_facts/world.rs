//! One broker for all facts, and the clients that they are read with.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use kafka_cluster::{ClusterConfig, KafkaCluster};
use parsley_kafka::{EventConsumer, Partition, Polled, Record, TopicFacts, describe_topics};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

/// Bound of every single answer of the broker.
pub const BOUND: Duration = Duration::from_secs(30);

/// The one broker. It is never dropped; its lifeline ends it with the test process.
pub fn broker() -> &'static KafkaCluster {
    static BROKER: OnceLock<KafkaCluster> = OnceLock::new();
    BROKER.get_or_init(|| {
        let mut config = ClusterConfig::default();
        if let Ok(version) = std::env::var("PARSLEY_KAFKA_VERSION") {
            config.version = version;
        }
        let cluster =
            KafkaCluster::start(&config).unwrap_or_else(|error| panic!("no broker: {error}"));
        println!("broker: Apache Kafka {}", cluster.version());
        cluster
    })
}

fn client() -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker().bootstrap());
    config
}

pub fn admin() -> AdminClient<DefaultClientContext> {
    client().create().unwrap()
}

pub fn create_topic(name: &str, partitions: i32) {
    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    for outcome in block_on(admin().create_topics([&topic], &AdminOptions::new())).unwrap() {
        outcome.unwrap();
    }
    describe_until(name, |answer| answer.is_some());
}

pub fn delete_topic(name: &str) {
    for outcome in block_on(admin().delete_topics(&[name], &AdminOptions::new())).unwrap() {
        outcome.unwrap();
    }
}

/// Describes a topic, `None` when it is unknown, until `wanted` holds of the answer.
pub fn describe_until(
    name: &str,
    wanted: impl Fn(&Option<TopicFacts>) -> bool,
) -> Option<TopicFacts> {
    let admin = admin();
    let deadline = Instant::now() + BOUND;
    loop {
        let answers = describe_topics(admin.inner(), &[name], BOUND).unwrap();
        let [answer] = <[_; 1]>::try_from(answers).unwrap();
        let answer = match answer {
            Ok(facts) => Some(facts),
            Err(parsley_kafka::DescribeError::Unknown { .. }) => None,
            Err(error) => panic!("{error}"),
        };
        if wanted(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "{name} is still {answer:?}");
    }
}

pub fn producer(transactional_id: &str) -> BaseProducer {
    let producer: BaseProducer = client()
        .set("transactional.id", transactional_id)
        .set("transaction.timeout.ms", "30000")
        .create()
        .unwrap();
    producer.init_transactions(BOUND).unwrap();
    producer
}

/// Appends records to partition 0 in the open transaction, and waits until the broker has them.
pub fn append(producer: &BaseProducer, topic: &str, values: &[&str]) {
    for value in values {
        let record = BaseRecord::<str, str>::to(topic)
            .partition(0)
            .key("k")
            .payload(*value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(BOUND).unwrap();
}

/// Appends records to partition 0 in a transaction of their own, and commits it.
pub fn append_and_commit(producer: &BaseProducer, topic: &str, values: &[&str]) {
    producer.begin_transaction().unwrap();
    append(producer, topic, values);
    producer.commit_transaction(BOUND).unwrap();
}

/// Appends records to partition 0 in a transaction of their own, and aborts it.
pub fn append_and_abort(producer: &BaseProducer, topic: &str, values: &[&str]) {
    producer.begin_transaction().unwrap();
    append(producer, topic, values);
    producer.abort_transaction(BOUND).unwrap();
}

/// How a consumer of a test is set up: as the host's are, with the times of a test.
pub fn consumer_config(group: &str, isolation: &str) -> ClientConfig {
    let mut config = client();
    config
        .set("group.id", group)
        .set("isolation.level", isolation)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "error")
        .set("enable.partition.eof", "true")
        .set("partition.assignment.strategy", "range")
        .set("session.timeout.ms", "2000")
        .set("heartbeat.interval.ms", "200")
        .set("fetch.wait.max.ms", "50");
    config
}

pub fn consumer(group: &str, isolation: &str) -> EventConsumer {
    EventConsumer::new(consumer_config(group, isolation).create().unwrap()).unwrap()
}

/// A consumer that reads partition 0 of a topic from its beginning, without a group's help.
pub fn reader(topic: &str, isolation: &str) -> EventConsumer {
    let reader = consumer(&format!("{topic}-reader-{isolation}"), isolation);
    reader
        .consumer()
        .assign(&positions(topic, &[(0, 0)]))
        .unwrap();
    reader
}

pub fn positions(topic: &str, positions: &[(i32, i64)]) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in positions {
        list.add_partition_offset(topic, *partition, Offset::Offset(*offset))
            .unwrap();
    }
    list
}

/// What a test compares: the events of partition 0, shortly.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// A record, by offset and value.
    Record(i64, String),
    /// The partition-EOF event, by its own offset.
    Eof(i64),
}

pub fn record(offset: i64, value: &str) -> Seen {
    Seen::Record(offset, value.to_owned())
}

/// The next event within `limit`. Errors that concern no partition and pass by themselves, such as a connection that is made anew,
/// are printed and passed over.
pub fn poll<C: ConsumerContext>(
    consumer: &mut EventConsumer<C>,
    limit: Duration,
) -> Option<Polled> {
    let started = Instant::now();
    loop {
        match consumer.poll(limit.saturating_sub(started.elapsed())) {
            Some(Polled::Error(error)) if !error.fatal && error.partition.is_none() => {
                println!("passing: {error}")
            }
            polled => return polled,
        }
    }
}

/// The next event, which has to be there within the bound.
pub fn next<C: ConsumerContext>(consumer: &mut EventConsumer<C>) -> Polled {
    poll(consumer, BOUND).unwrap_or_else(|| panic!("no event within {BOUND:?}"))
}

/// The next event of the partition, which has to be a record or the partition-EOF event.
pub fn next_seen(consumer: &mut EventConsumer) -> Seen {
    match next(consumer) {
        Polled::Record(record) => Seen::Record(record.offset, value(&record)),
        Polled::Eof { offset, .. } => Seen::Eof(offset),
        other => panic!("{other:?}"),
    }
}

/// The records up to the first partition-EOF event at `end` or above, and that event.
///
/// A commit is answered before its markers stand in the partitions, so until they do a reader is told ends before them.
pub fn seen_until_eof(consumer: &mut EventConsumer, end: i64) -> Vec<Seen> {
    let mut seen = Vec::new();
    loop {
        match next_seen(consumer) {
            Seen::Eof(offset) if offset < end => {}
            event => seen.push(event),
        }
        if matches!(seen.last(), Some(Seen::Eof(_))) {
            return seen;
        }
    }
}

/// The next record, past ends that were told before it was there ([`seen_until_eof`]).
pub fn next_record<C: ConsumerContext>(consumer: &mut EventConsumer<C>) -> Record {
    loop {
        match next(consumer) {
            Polled::Record(record) => return record,
            Polled::Eof { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

pub fn value(record: &Record) -> String {
    String::from_utf8(
        record
            .value
            .as_ref()
            .expect("a test appends no null value")
            .to_vec(),
    )
    .unwrap()
}

/// Polls until the group assigns partitions, and starts them at the positions that `start` gives.
pub fn join(consumer: &mut EventConsumer, start: impl Fn(&Partition) -> i64) -> Vec<Partition> {
    match next(consumer) {
        Polled::Assigned(partitions) => {
            assign(consumer, &partitions, start);
            partitions
        }
        other => panic!("before the assignment: {other:?}"),
    }
}

/// Acknowledges an assignment.
pub fn assign(
    consumer: &EventConsumer,
    partitions: &[Partition],
    start: impl Fn(&Partition) -> i64,
) {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition_offset(
            &partition.topic,
            partition.partition,
            Offset::Offset(start(partition)),
        )
        .unwrap();
    }
    consumer.consumer().assign(&list).unwrap();
}

/// The group's committed position of one partition, read as the host reads it: a position that an open transaction is about to
/// change is waited for. `None` when there is none.
pub fn committed(group: &str, topic: &str, partition: i32) -> Option<i64> {
    committed_within(group, "read_committed", topic, partition, BOUND).unwrap()
}

/// The group's committed position, asked for with an isolation level and a time limit.
pub fn committed_within(
    group: &str,
    isolation: &str,
    topic: &str,
    partition: i32,
    limit: Duration,
) -> rdkafka::error::KafkaResult<Option<i64>> {
    let asker: BaseConsumer = consumer_config(group, isolation).create().unwrap();
    let mut asked = TopicPartitionList::new();
    asked.add_partition(topic, partition);
    let answered = asker.committed_offsets(asked, limit)?;
    let element = answered
        .find_partition(topic, partition)
        .expect("the partition asked for is answered");
    element.error()?;
    Ok(match element.offset() {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    })
}
