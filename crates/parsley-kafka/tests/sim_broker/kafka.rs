//! Schedules on Apache Kafka.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use kafka_cluster::{ClusterConfig, KafkaCluster};
use parsley_kafka::{DescribeError, EventConsumer, Polled, describe_topics};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{Offset, TopicPartitionList};

use super::{Bounds, Broker, Read};

/// Bound of every single answer of the broker.
const BOUND: Duration = Duration::from_secs(30);

/// The one broker. It is never dropped; its lifeline ends it with the test process.
fn broker() -> &'static KafkaCluster {
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

/// Tells a record's offset to who sent it.
struct Reports;

type Report = Arc<OnceLock<Result<i64, KafkaError>>>;

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = Report;

    fn delivery(&self, delivered: &DeliveryResult<'_>, report: Report) {
        let outcome = match delivered {
            Ok(message) => Ok(message.offset()),
            Err((error, _)) => Err(error.clone()),
        };
        report.set(outcome).expect("a record is reported once");
    }
}

type ReportingProducer = BaseProducer<Reports>;

/// A producer with a transactional id.
struct Transactional {
    producer: ReportingProducer,
    is_open: bool,
}

pub struct Kafka {
    topic: &'static str,
    admin: AdminClient<DefaultClientContext>,
    plain: ReportingProducer,
    transactional: BTreeMap<&'static str, Transactional>,
    read_committed: BaseConsumer,
    read_uncommitted: BaseConsumer,
}

impl Kafka {
    pub fn new(topic: &'static str, partitions: i32) -> Self {
        let kafka = Self {
            topic,
            admin: client().create().unwrap(),
            plain: plain_producer(),
            transactional: BTreeMap::new(),
            read_committed: consumer_config(topic, "read_committed").create().unwrap(),
            read_uncommitted: consumer_config(topic, "read_uncommitted").create().unwrap(),
        };
        kafka.create(partitions);
        kafka
    }

    fn create(&self, partitions: i32) {
        let topic = NewTopic::new(self.topic, partitions, TopicReplication::Fixed(1));
        let created = self.admin.create_topics([&topic], &AdminOptions::new());
        for outcome in block_on(created).unwrap() {
            outcome.unwrap();
        }
        self.wait_until_known(Some(partitions));
    }

    /// Waits until the topic is known with so many partitions, or is unknown.
    fn wait_until_known(&self, partitions: Option<i32>) {
        let deadline = Instant::now() + BOUND;
        loop {
            let answers = describe_topics(self.admin.inner(), &[self.topic], BOUND).unwrap();
            let [answer] = <[_; 1]>::try_from(answers).unwrap();
            let known = match answer {
                Ok(facts) => Some(i32::try_from(facts.partitions).unwrap()),
                Err(DescribeError::Unknown { .. }) => None,
                Err(error) => panic!("{error}"),
            };
            if known == partitions {
                return;
            }
            assert!(Instant::now() < deadline, "{} has {known:?}", self.topic);
        }
    }

    fn transactional_producer(&self, name: &str) -> ReportingProducer {
        let producer: ReportingProducer = client()
            .set("transactional.id", format!("{}-{name}", self.topic))
            .set("transaction.timeout.ms", "60000")
            .set("linger.ms", "0")
            .create_with_context(Reports)
            .unwrap();
        producer.init_transactions(BOUND).unwrap();
        producer
    }
}

fn plain_producer() -> ReportingProducer {
    client()
        .set("acks", "all")
        .set("linger.ms", "0")
        .create_with_context(Reports)
        .unwrap()
}

/// Sends one record and waits for its offset.
fn send(producer: &ReportingProducer, topic: &str, partition: i32, value: &str) -> i64 {
    let report = Report::default();
    let record = BaseRecord::<str, str, Report>::with_opaque_to(topic, report.clone())
        .partition(partition)
        .payload(value);
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(BOUND).unwrap();
    match report.get() {
        Some(Ok(offset)) => *offset,
        other => panic!("{topic}:{partition}, {value}: {other:?}"),
    }
}

fn consumer_config(group: &str, isolation: &str) -> ClientConfig {
    let mut config = client();
    config
        .set("group.id", format!("{group}-{isolation}"))
        .set("isolation.level", isolation)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "error")
        .set("enable.partition.eof", "true")
        .set("fetch.wait.max.ms", "50");
    config
}

fn at(topic: &str, partition: i32, offset: i64) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset))
        .unwrap();
    list
}

impl Broker for Kafka {
    fn append(&mut self, partition: i32, value: &str, producer: Option<&'static str>) -> i64 {
        let Some(name) = producer else {
            return send(&self.plain, self.topic, partition, value);
        };
        self.begin(name);
        let producer = &self.transactional[name].producer;
        send(producer, self.topic, partition, value)
    }

    fn begin(&mut self, producer: &'static str) {
        if !self.transactional.contains_key(producer) {
            let new = Transactional {
                producer: self.transactional_producer(producer),
                is_open: false,
            };
            self.transactional.insert(producer, new);
        }
        let transactional = self.transactional.get_mut(producer).unwrap();
        if !transactional.is_open {
            transactional.producer.begin_transaction().unwrap();
            transactional.is_open = true;
        }
    }

    fn end(&mut self, producer: &'static str, commit: bool) {
        let transactional = self.transactional.remove(producer).unwrap();
        assert!(transactional.is_open);
        let ended = if commit {
            transactional.producer.commit_transaction(BOUND)
        } else {
            transactional.producer.abort_transaction(BOUND)
        };
        ended.unwrap();
        // The producer is answered when the outcome is decided, and the markers follow one by one. A successor under its id is let in when all
        // partitions have theirs; a marker seen below the high watermark does not tell as much, since the last stable offset follows later.
        let successor = Transactional {
            producer: self.transactional_producer(producer),
            is_open: false,
        };
        self.transactional.insert(producer, successor);
    }

    fn cut(&mut self, partition: i32, before: i64) -> bool {
        let cut = at(self.topic, partition, before);
        let answered = block_on(self.admin.delete_records(&cut, &AdminOptions::new())).unwrap();
        let answer = answered.find_partition(self.topic, partition).unwrap();
        match answer.error() {
            Ok(()) => true,
            Err(KafkaError::OffsetFetch(RDKafkaErrorCode::OffsetOutOfRange)) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn recreate(&mut self, partitions: i32) {
        let deleted = self
            .admin
            .delete_topics(&[self.topic], &AdminOptions::new());
        for outcome in block_on(deleted).unwrap() {
            outcome.unwrap();
        }
        self.wait_until_known(None);
        self.create(partitions);
        // Clients that knew the old topic may look for its partitions.
        let topic = self.topic;
        self.plain = plain_producer();
        self.transactional
            .retain(|_, transactional| transactional.is_open);
        self.read_committed = consumer_config(topic, "read_committed").create().unwrap();
        self.read_uncommitted = consumer_config(topic, "read_uncommitted").create().unwrap();
    }

    fn bounds(&mut self, partition: i32) -> Bounds {
        // To a read-committed client the high watermark is the last stable offset (decision K3).
        let [stable, high] = [&self.read_committed, &self.read_uncommitted].map(|asker| {
            asker
                .fetch_watermarks(self.topic, partition, BOUND)
                .unwrap()
        });
        assert_eq!(stable.0, high.0);
        Bounds {
            log_start: high.0,
            last_stable: stable.1,
            high_watermark: high.1,
        }
    }

    fn read(&mut self, partition: i32) -> Read {
        let Bounds {
            log_start,
            last_stable,
            ..
        } = self.bounds(partition);
        let config = consumer_config(&format!("{}-reader", self.topic), "read_committed");
        let mut reader = EventConsumer::new(config.create().unwrap()).unwrap();
        let start = at(self.topic, partition, log_start);
        reader.consumer().assign(&start).unwrap();
        let mut records = Vec::new();
        let deadline = Instant::now() + BOUND;
        loop {
            let limit = deadline.saturating_duration_since(Instant::now());
            match reader.poll(limit) {
                Some(Polled::Record(record)) => {
                    let value = record.value.unwrap().to_vec();
                    records.push((record.offset, String::from_utf8(value).unwrap()));
                }
                Some(Polled::Eof { offset, .. }) if offset >= last_stable => {
                    return Read {
                        records,
                        position: offset,
                    };
                }
                Some(Polled::Eof { .. }) => {}
                // Errors that concern no partition pass by themselves, such as a connection that is made anew.
                Some(Polled::Error(error)) if !error.fatal && error.partition.is_none() => {
                    println!("passing: {error}")
                }
                other => panic!("{}:{partition}: {other:?}", self.topic),
            }
        }
    }
}
