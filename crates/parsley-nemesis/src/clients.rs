//! What the driver asks of the cluster. It goes past the proxy, so that only brokers that are down are out of its reach.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use parsley_core::TopicId;
use parsley_kafka::describe_topics;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::Trouble;

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(10);

/// How long something is tried again that brokers which come and go refuse.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a deletion of records is tried.
const DELETION: Duration = Duration::from_secs(20);

/// Between two tries.
const BETWEEN: Duration = Duration::from_millis(200);

/// The driver's access to the cluster.
pub struct Clients {
    config: ClientConfig,
    admin: AdminClient<DefaultClientContext>,
    asker: BaseConsumer,
}

impl Clients {
    /// Access by these addresses.
    pub fn new(brokers: &str) -> Result<Self, Trouble> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", brokers)
            .set("group.id", "nemesis-driver")
            .set("isolation.level", "read_uncommitted");
        Ok(Self {
            admin: config.create()?,
            asker: config.create()?,
            config,
        })
    }

    fn options() -> AdminOptions {
        AdminOptions::new()
            .request_timeout(Some(ANSWER))
            .operation_timeout(Some(ANSWER))
    }

    /// Makes topics on three brokers, and waits until they are known.
    pub fn create(&self, names: &[&str], partitions: i32) -> Result<(), Trouble> {
        persist("creating topics", || {
            let topics: Vec<NewTopic<'_>> = names
                .iter()
                .map(|name| {
                    NewTopic::new(name, partitions, TopicReplication::Fixed(3))
                        .set("min.insync.replicas", "2")
                })
                .collect();
            let done = block_on(self.admin.create_topics(&topics, &Self::options()))?;
            all(done, RDKafkaErrorCode::TopicAlreadyExists)
        })?;
        persist("finding topics", || {
            Ok(self.ids(names)?.len() == names.len())
        })
    }

    /// Deletes a topic, and waits until it is unknown. How it was answered is not asked: brokers that come and go answer late.
    pub fn delete(&self, name: &str) -> Result<(), Trouble> {
        persist("deleting a topic", || {
            let done = block_on(self.admin.delete_topics(&[name], &Self::options()))?;
            all(done, RDKafkaErrorCode::UnknownTopicOrPartition)
        })?;
        persist("losing a topic", || Ok(self.ids(&[name])?.is_empty()))
    }

    /// The identities of those topics that there are.
    pub fn ids(&self, names: &[&str]) -> Result<BTreeMap<String, TopicId>, KafkaError> {
        let answers = describe_topics(self.admin.inner(), names, ANSWER)
            .map_err(|_| KafkaError::AdminOp(RDKafkaErrorCode::RequestTimedOut))?;
        let found = answers.into_iter().filter_map(Result::ok);
        Ok(found
            .map(|facts| (facts.name, TopicId::from_uuid(facts.id)))
            .collect())
    }

    /// The identity of a topic that there is.
    pub fn id(&self, name: &str) -> Result<TopicId, Trouble> {
        let mut found = None;
        persist("asking for a topic", || {
            found = self.ids(&[name])?.remove(name);
            Ok(found.is_some())
        })?;
        found.ok_or(Trouble::Late("asking for a topic"))
    }

    /// Deletes the records of partitions of a topic below offsets. While a replica is behind it may not be answered in time, and be done later.
    pub fn delete_records(&self, topic: &str, below: &BTreeMap<i32, i64>) -> Result<(), Trouble> {
        let mut offsets = TopicPartitionList::new();
        for (partition, below) in below {
            offsets.add_partition_offset(topic, *partition, Offset::Offset(*below))?;
        }
        let until = Instant::now() + DELETION;
        loop {
            // One that has known the leaders for long goes on asking them when they are leaders no more.
            let admin: AdminClient<DefaultClientContext> = self.config.create()?;
            let done = block_on(admin.delete_records(&offsets, &Self::options()));
            let done = done.and_then(|done| {
                let outcomes = done.elements();
                outcomes.iter().try_for_each(|outcome| outcome.error())
            });
            match done {
                Err(error) if Instant::now() > until => return Err(error.into()),
                Err(_) => std::thread::sleep(BETWEEN),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// The high watermarks of a topic.
    pub fn ends(&self, topic: &str, partitions: i32) -> Result<BTreeMap<i32, i64>, Trouble> {
        let mut ends = BTreeMap::new();
        persist("asking for ends", || {
            for partition in 0..partitions {
                let (_, end) = self.asker.fetch_watermarks(topic, partition, ANSWER)?;
                ends.insert(partition, end);
            }
            Ok(true)
        })?;
        Ok(ends)
    }

    /// Whether each partition of each topic has a leader and all its replicas in sync.
    pub fn is_whole(&self) -> bool {
        let Ok(metadata) = self.asker.fetch_metadata(None, ANSWER) else {
            return false;
        };
        let partitions = metadata
            .topics()
            .iter()
            .flat_map(|topic| topic.partitions());
        metadata.brokers().len() == 3
            && partitions
                .into_iter()
                .all(|one| one.leader() >= 0 && one.isr().len() == one.replicas().len())
    }
}

fn all(
    outcomes: Vec<Result<String, (String, RDKafkaErrorCode)>>,
    but: RDKafkaErrorCode,
) -> Result<bool, KafkaError> {
    let is_done = |outcome: &Result<_, (_, RDKafkaErrorCode)>| match outcome {
        Ok(_) => true,
        Err((_, code)) => *code == but,
    };
    Ok(outcomes.iter().all(is_done))
}

/// Tries until it is done, whatever goes wrong meanwhile.
fn persist(
    what: &'static str,
    mut attempt: impl FnMut() -> Result<bool, KafkaError>,
) -> Result<(), Trouble> {
    let until = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Ok(true) => return Ok(()),
            Ok(false) if Instant::now() > until => return Err(Trouble::Late(what)),
            Err(error) if Instant::now() > until => return Err(error.into()),
            _ => std::thread::sleep(BETWEEN),
        }
    }
}
