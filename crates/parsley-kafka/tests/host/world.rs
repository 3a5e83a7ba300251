//! One broker, and plain clients of it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use kafka_cluster::{ClusterConfig, KafkaCluster};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

/// Bound of every wait.
pub const BOUND: Duration = Duration::from_secs(60);

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

pub fn create_topic(name: &str, partitions: i32) {
    let admin: AdminClient<DefaultClientContext> = client().create().unwrap();
    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    for outcome in block_on(admin.create_topics([&topic], &AdminOptions::new())).unwrap() {
        outcome.unwrap();
    }
}

/// Appends a record, as a plain producer does: Java's choice of a partition, no stamp.
pub fn append(topic: &str, key: &str, value: &str) {
    static PRODUCER: OnceLock<BaseProducer> = OnceLock::new();
    let producer = PRODUCER.get_or_init(|| {
        client()
            .set("partitioner", "murmur2_random")
            .create()
            .unwrap()
    });
    let record = BaseRecord::to(topic).key(key).payload(value);
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(BOUND).unwrap();
}

/// Everything committed that a topic has, partition by partition.
pub fn read(topic: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let consumer: BaseConsumer = client()
        .set("group.id", "reader")
        .set("isolation.level", "read_committed")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .create()
        .unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), BOUND).unwrap();
    let partitions = metadata.topics()[0].partitions().len();
    let mut assignment = TopicPartitionList::new();
    for partition in 0..partitions {
        assignment
            .add_partition_offset(topic, partition as i32, Offset::Beginning)
            .unwrap();
    }
    consumer.assign(&assignment).unwrap();
    let (mut records, mut ended) = (Vec::new(), 0);
    let until = Instant::now() + BOUND;
    while ended < partitions {
        assert!(Instant::now() < until, "{topic} has no end");
        match consumer.poll(BOUND) {
            Some(Ok(record)) => records.push((
                record.key().unwrap().to_vec(),
                record.payload().unwrap().to_vec(),
            )),
            Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => ended += 1,
            Some(Err(error)) => panic!("{error}"),
            None => {}
        }
    }
    records
}
