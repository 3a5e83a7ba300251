//! The broker, and what is asked of it before and after a run.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use kafka_cluster::{ClusterConfig, KafkaCluster};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::{BOUND, Contents, Input, KEYS, Outcome, PARTITIONS, PartitionContents};

/// One broker of Apache Kafka, with the settings that brokers have unless told otherwise.
#[derive(Debug)]
pub struct Cluster {
    kafka: KafkaCluster,
}

impl Cluster {
    /// Starts the broker.
    ///
    /// # Errors
    ///
    /// When it cannot be had.
    pub fn start() -> Outcome<Self> {
        // The harness's own are for tests, which want small segments that are looked at often.
        let properties = [
            ("log.segment.bytes", "1073741824"),
            ("log.index.size.max.bytes", "10485760"),
            ("log.retention.check.interval.ms", "300000"),
            ("log.cleaner.backoff.ms", "15000"),
            ("log.cleaner.dedupe.buffer.size", "134217728"),
            ("num.network.threads", "3"),
            ("num.io.threads", "8"),
        ];
        let properties = properties
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let kafka = KafkaCluster::start(&ClusterConfig {
            heap_mb: 1024,
            properties,
            ..ClusterConfig::default()
        })?;
        Ok(Self { kafka })
    }

    /// The version of Apache Kafka.
    pub fn version(&self) -> &str {
        self.kafka.version()
    }

    pub(super) fn brokers(&self) -> String {
        self.kafka.bootstrap()
    }

    pub(super) fn broker_process(&self) -> u32 {
        self.kafka.process_ids()[0]
    }

    /// Properties that all clients are given, those of the host too. Everything else is as librdkafka and the host have it.
    pub(super) fn properties(&self) -> BTreeMap<String, String> {
        let properties = [
            // A partition's queue that is full is looked at again soon; by default that takes a second, in which it runs empty.
            ("fetch.queue.backoff.ms", "10"),
            // The host's own defaults: batches fill in the middle of a transaction, and end with it.
            ("linger.ms", "20"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        properties.into_iter().map(owned).collect()
    }

    pub(super) fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        client.extend(self.properties());
        client.set("bootstrap.servers", self.brokers());
        client
    }

    fn admin(&self) -> Outcome<AdminClient<DefaultClientContext>> {
        Ok(self.client().create()?)
    }

    pub(super) fn create_topic(&self, name: &str) -> Outcome<()> {
        let topic = NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(1));
        // It answers as long as it is there.
        let admin = self.admin()?;
        let created = admin.create_topics([&topic], &AdminOptions::new());
        block_on(created).map(outcome_of)?
    }

    /// Deletes a topic, so that its records do not fill the disk.
    ///
    /// # Errors
    ///
    /// When the broker does not.
    pub fn delete_topic(&self, name: &str) -> Outcome<()> {
        let admin = self.admin()?;
        let deleted = admin.delete_topics(&[name], &AdminOptions::new());
        block_on(deleted).map(outcome_of)?
    }

    /// Makes a topic, and fills it with records without headers: [`KEYS`] keys in turn, each record on the partition that its key names.
    ///
    /// # Errors
    ///
    /// When the broker does not take them.
    pub fn fill(&self, topic: &str, records: u64, value_bytes: usize) -> Outcome<Input> {
        self.create_topic(topic)?;
        let producer: BaseProducer = self
            .client()
            .set("enable.idempotence", "true")
            .set("partitioner", "murmur2_random")
            .create()?;
        for number in 0..records {
            let key = (number % KEYS).to_be_bytes();
            let mut value = number.to_be_bytes().to_vec();
            value.resize(value_bytes, b'v');
            let mut record = BaseRecord::to(topic).key(&key).payload(&value);
            while let Err((error, back)) = producer.send(record) {
                if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                    return Err(error.into());
                }
                record = back;
                producer.poll(Duration::from_millis(1));
            }
            if number % 500 == 0 {
                producer.poll(Duration::ZERO);
            }
        }
        producer.flush(BOUND)?;
        let input = Input::of(self, topic)?;
        if input.records != records {
            return Err(format!("{topic} has {} of {records} records", input.records).into());
        }
        Ok(input)
    }

    /// What a topic has that is committed.
    pub(super) fn contents(&self, topic: &str) -> Outcome<Contents> {
        let consumer: BaseConsumer = self
            .client()
            .set("group.id", "contents")
            .set("isolation.level", "read_committed")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .create()?;
        let mut assignment = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            assignment.add_partition_offset(topic, partition, Offset::Beginning)?;
        }
        consumer.assign(&assignment)?;
        let mut hashers = vec![(0, DefaultHasher::new()); PARTITIONS as usize];
        let mut ended = 0;
        let until = Instant::now() + BOUND;
        while ended < PARTITIONS {
            match consumer.poll(Duration::from_secs(1)) {
                Some(Ok(message)) => {
                    let (records, hasher) = &mut hashers[message.partition() as usize];
                    *records += 1;
                    (message.key(), message.payload()).hash(hasher);
                }
                // Nobody writes meanwhile, so that each partition ends once.
                Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
                Some(Err(error)) => return Err(error.into()),
                None if Instant::now() > until => {
                    return Err(format!("{topic} was not read to its end").into());
                }
                None => {}
            }
        }
        let contents = hashers.into_iter().map(|(records, hasher)| {
            let digest = hasher.finish();
            PartitionContents { records, digest }
        });
        Ok(contents.collect())
    }
}

fn outcome_of(answers: Vec<Result<String, (String, RDKafkaErrorCode)>>) -> Outcome<()> {
    for answer in answers {
        answer.map_err(|(topic, code)| format!("{topic}: {code}"))?;
    }
    Ok(())
}
