//! One broker, and plain clients of it.

use std::sync::OnceLock;
use std::time::Duration;

use futures_executor::block_on;
use kafka_cluster::{ClusterConfig, KafkaCluster};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::Value;

use crate::running::{Run, parsley};

/// Bound of every wait.
pub const BOUND: Duration = Duration::from_secs(60);

/// The one broker. It is never dropped; its lifeline ends it with the test process.
pub fn broker() -> &'static KafkaCluster {
    static BROKER: OnceLock<KafkaCluster> = OnceLock::new();
    BROKER.get_or_init(|| start(ClusterConfig::default().with_authorizer()))
}

/// Starts brokers of the version that is asked for.
pub fn start(mut config: ClusterConfig) -> KafkaCluster {
    if let Ok(version) = std::env::var("PARSLEY_KAFKA_VERSION") {
        config.version = version;
    }
    KafkaCluster::start(&config).unwrap_or_else(|error| panic!("no broker: {error}"))
}

pub fn bootstrap() -> String {
    broker().bootstrap()
}

pub fn client() -> ClientConfig {
    client_of(&bootstrap())
}

fn client_of(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    config
}

pub fn admin() -> AdminClient<DefaultClientContext> {
    admin_of(&bootstrap())
}

fn admin_of(brokers: &str) -> AdminClient<DefaultClientContext> {
    client_of(brokers).create().unwrap()
}

/// Makes a topic, and waits until the cluster tells of it. Returns its UUID.
pub fn create_topic(name: &str, partitions: i32) -> String {
    create_topic_on(&bootstrap(), name, partitions)
}

pub fn create_topic_on(brokers: &str, name: &str, partitions: i32) -> String {
    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    create(brokers, &topic)
}

pub fn create_compacted_topic(name: &str, partitions: i32) -> String {
    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    create(&bootstrap(), &topic.set("cleanup.policy", "compact"))
}

fn create(brokers: &str, topic: &NewTopic<'_>) -> String {
    let (admin, name) = (admin_of(brokers), topic.name);
    for outcome in block_on(admin.create_topics([topic], &AdminOptions::new())).unwrap() {
        outcome.unwrap();
    }
    let until = std::time::Instant::now() + BOUND;
    loop {
        let mut answers = parsley_kafka::describe_topics(admin.inner(), &[name], BOUND).unwrap();
        if let Ok(facts) = answers.pop().unwrap() {
            return facts.id.to_string();
        }
        assert!(std::time::Instant::now() < until, "{name} is not there");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub fn delete_topic(name: &str) {
    delete_topic_on(&bootstrap(), name);
}

pub fn delete_topic_on(brokers: &str, name: &str) {
    for outcome in block_on(admin_of(brokers).delete_topics(&[name], &AdminOptions::new())).unwrap()
    {
        outcome.unwrap();
    }
}

/// Deletes the records of a partition below an offset.
pub fn delete_records(topic: &str, partition: i32, below: i64) {
    let mut offsets = TopicPartitionList::new();
    offsets
        .add_partition_offset(topic, partition, Offset::Offset(below))
        .unwrap();
    block_on(admin().delete_records(&offsets, &AdminOptions::new())).unwrap();
}

/// A producer of somebody else.
pub struct Foreign(BaseProducer);

impl Foreign {
    pub fn plain() -> Self {
        Self::of(&bootstrap())
    }

    pub fn of(brokers: &str) -> Self {
        Self(client_of(brokers).create().unwrap())
    }

    pub fn transactional(id: &str) -> Self {
        let producer: BaseProducer = client().set("transactional.id", id).create().unwrap();
        producer.init_transactions(BOUND).unwrap();
        Self(producer)
    }

    pub fn begin(&self) {
        self.0.begin_transaction().unwrap();
    }

    pub fn commit(&self) {
        self.0.commit_transaction(BOUND).unwrap();
    }

    pub fn abort(&self) {
        self.0.abort_transaction(BOUND).unwrap();
    }

    /// Appends a record, and waits until the broker has it.
    pub fn append(
        &self,
        topic: &str,
        partition: i32,
        (key, value): (Option<&[u8]>, Option<&[u8]>),
        headers: &[(&str, Option<&[u8]>)],
    ) {
        let mut owned = OwnedHeaders::new();
        for (key, value) in headers {
            owned = owned.insert(Header { key, value: *value });
        }
        let mut record: BaseRecord<'_, [u8], [u8]> =
            BaseRecord::to(topic).partition(partition).headers(owned);
        (record.key, record.payload) = (key, value);
        self.0.send(record).map_err(|(error, _)| error).unwrap();
        self.0.flush(BOUND).unwrap();
    }

    /// Appends a record of text.
    pub fn text(&self, topic: &str, partition: i32, key: &str, value: &str) {
        let record = (Some(key.as_bytes()), Some(value.as_bytes()));
        self.append(topic, partition, record, &[]);
    }
}

/// `parsley topic dump --until-end` with further arguments.
pub fn dump(topic: &str, further: &[&str]) -> Run {
    let brokers = bootstrap();
    let dump = ["topic", "dump", "--brokers", &brokers, "--topic", topic];
    parsley(&[&dump[..], &["--until-end"], further].concat(), b"")
}

/// What is dumped when nothing is wrong: partition by partition.
pub fn dumped(topic: &str, further: &[&str]) -> Vec<Value> {
    let run = dump(topic, further);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    in_order(&run)
}

pub fn in_order(run: &Run) -> Vec<Value> {
    let mut lines = run.lines();
    lines.sort_by_key(|line| {
        let channel = line["channel"].as_str().unwrap().to_owned();
        (channel, line["offset"].as_i64().unwrap())
    });
    lines
}

/// The offsets by partition.
pub fn offsets(lines: &[Value]) -> Vec<(i32, i64)> {
    let place = |line: &Value| {
        let channel = line["channel"].as_str().unwrap();
        let (_, partition) = channel.split_once(':').unwrap();
        (partition.parse().unwrap(), line["offset"].as_i64().unwrap())
    };
    lines.iter().map(place).collect()
}
