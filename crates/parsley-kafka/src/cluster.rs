//! What a host asks the cluster, beside reading and writing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use parsley_core::{Offset, TopicId};
use parsley_stage::TopicInfo;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

use crate::config::KafkaConfig;
use crate::native::{describe_topics, describe_topics_on, permitted};
use crate::topic::{DescribeError, Permitted, TopicFacts};

/// How long one answer may take.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

/// How long it may take who was the one to answer, before it is asked who is now.
const FIRST_ANSWER: Duration = Duration::from_secs(2);

/// How often a topic that is unknown is asked for before it is taken to be missing, and how long in between: a new one can be unknown to
/// every broker for a moment.
pub(crate) const TRIES: u32 = 3;
pub(crate) const BETWEEN_TRIES: Duration = Duration::from_millis(500);

/// The cluster gave no answer, or one that helps nobody. Asking again may.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Topics could not be described.
    #[error(transparent)]
    Describe(#[from] DescribeError),
    /// A request failed.
    #[error("{what}: {source}")]
    Request {
        /// What was asked for.
        what: String,
        /// librdkafka's error.
        source: KafkaError,
    },
    /// Some brokers do not know topics, and another that may know them does not answer (decision K40).
    #[error(
        "whether there is {} is not certain: broker {broker} does not tell, and those that do know of none: {source}",
        topics.join(", ")
    )]
    Uncertain {
        /// The names of the topics.
        topics: Vec<String>,
        /// The broker.
        broker: i32,
        /// Its answer.
        source: DescribeError,
    },
    /// The cluster does not say whether a topic of an earlier declaration is there. Nothing that rests on its being gone is done.
    #[error(
        "topic {} was read or written by this stage before, and the cluster does not tell whether it is still there: grant Describe on it",
        known_as(*topic, name.as_deref())
    )]
    Unresolved {
        /// Its identity.
        topic: TopicId,
        /// Its name, as far as it is known.
        name: Option<String>,
    },
}

impl ClusterError {
    /// Whether the cluster does not show a topic to this client.
    pub(crate) fn is_denial(&self) -> bool {
        matches!(
            self,
            Self::Describe(DescribeError::Topic {
                code: RDKafkaErrorCode::TopicAuthorizationFailed,
                ..
            })
        )
    }

    /// Whether there was no answer in the time that was given to a request.
    pub(crate) fn is_time_out(&self) -> bool {
        let code = match self {
            Self::Request { source, .. } => source.rdkafka_error_code(),
            _ => None,
        };
        code == Some(RDKafkaErrorCode::OperationTimedOut)
    }

    pub(crate) fn request(what: impl Into<String>, source: KafkaError) -> Self {
        Self::Request {
            what: what.into(),
            source,
        }
    }
}

fn known_as(topic: TopicId, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{name} ({topic})"),
        None => topic.to_string(),
    }
}

/// A client that belongs to no group and sees what is not committed.
pub(crate) struct Cluster {
    client: BaseConsumer,
}

impl Cluster {
    pub(crate) fn new(config: &KafkaConfig) -> Result<Self, KafkaError> {
        Self::of(config.client())
    }

    pub(crate) fn of(mut client: ClientConfig) -> Result<Self, KafkaError> {
        // To a read-committed client an open transaction hides the end (decision K3).
        client
            .set("isolation.level", "read_uncommitted")
            .set("enable.auto.commit", "false")
            .set("allow.auto.create.topics", "false");
        Ok(Self {
            client: client.create()?,
        })
    }

    /// The topics of these names, `None` for one that no broker knows (decision K40).
    pub(crate) fn topics(
        &self,
        names: &[&str],
    ) -> Result<BTreeMap<String, Option<TopicInfo>>, ClusterError> {
        self.topics_within(names, ANSWER)
    }

    /// The same, with another time for one answer.
    pub(crate) fn topics_within(
        &self,
        names: &[&str],
        timeout: Duration,
    ) -> Result<BTreeMap<String, Option<TopicInfo>>, ClusterError> {
        self.topics_until(names, timeout, |_, info| info.is_some())
    }

    /// What goes by the names of topics of these identities: the topic itself if any broker says so (decision K40). Of those in `certain` one answer is
    /// enough.
    pub(crate) fn identified(
        &self,
        topics: &BTreeMap<&str, TopicId>,
        certain: &BTreeSet<TopicId>,
    ) -> Result<BTreeMap<String, Option<TopicInfo>>, ClusterError> {
        let names: Vec<&str> = topics.keys().copied().collect();
        self.topics_until(&names, ANSWER, |name, info| {
            let expected = topics.get(name);
            expected.is_none_or(|expected| {
                certain.contains(expected) || info.is_some_and(|info| info.id == *expected)
            })
        })
    }

    /// Asks for topics until all are found, of every broker from the second time on. `None` for one that no broker knows.
    fn topics_until(
        &self,
        names: &[&str],
        timeout: Duration,
        is_found: impl Fn(&str, Option<TopicInfo>) -> bool,
    ) -> Result<BTreeMap<String, Option<TopicInfo>>, ClusterError> {
        let mut found = self.topics_at_once(names, timeout)?;
        for _ in 1..TRIES {
            let is_open = |name: &&str| !is_found(name, found.get(*name).copied().flatten());
            let open: Vec<&str> = names.iter().copied().filter(is_open).collect();
            if open.is_empty() {
                break;
            }
            std::thread::sleep(BETWEEN_TRIES);
            found.extend(self.topics_of_every_broker(&open, timeout, &is_found)?);
        }
        Ok(found)
    }

    /// Asks every broker for topics, until all are found; what was told of each that any broker knows.
    fn topics_of_every_broker(
        &self,
        names: &[&str],
        timeout: Duration,
        is_found: impl Fn(&str, Option<TopicInfo>) -> bool,
    ) -> Result<BTreeMap<String, Option<TopicInfo>>, ClusterError> {
        let mut found = BTreeMap::new();
        let mut open = names.to_vec();
        // Brokers that have come since the client was told of them are asked as well.
        let told = self.client.fetch_metadata(names.first().copied(), timeout);
        let told = told.map_err(|source| ClusterError::request("the list of brokers", source))?;
        let client = self.client.client();
        for broker in told.brokers().iter().map(|broker| broker.id()) {
            let answers = describe_topics_on(client, broker, &open, FIRST_ANSWER.min(timeout));
            let answers = answers.map_err(|source| ClusterError::Uncertain {
                topics: open.iter().map(|name| (*name).to_owned()).collect(),
                broker,
                source,
            })?;
            let answers = named(&open, answers)?;
            // Who lags behind knows less, or what was before.
            found.extend(answers.into_iter().filter(|(_, info)| info.is_some()));
            open.retain(|name| !is_found(name, found.get(*name).copied().flatten()));
            if open.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    /// The same, and a topic that the broker does not know yet is none.
    pub(crate) fn topics_at_once(
        &self,
        names: &[&str],
        timeout: Duration,
    ) -> Result<BTreeMap<String, Option<TopicInfo>>, ClusterError> {
        let Some(first) = names.first() else {
            return Ok(BTreeMap::new());
        };
        let answers = ask(&self.client, first, timeout, |time| {
            describe_topics(self.client.client(), names, time)
        })?;
        named(names, answers)
    }

    /// The topics of these names that the broker shows. Those that it does not know, or denies, are left out.
    pub(crate) fn shown(
        &self,
        names: &[&str],
    ) -> Result<BTreeMap<String, TopicInfo>, ClusterError> {
        let Some(first) = names.first() else {
            return Ok(BTreeMap::new());
        };
        let answers = ask(&self.client, first, ANSWER, |time| {
            describe_topics(self.client.client(), names, time)
        })?;
        let mut shown = BTreeMap::new();
        for (name, answer) in names.iter().zip(answers) {
            match named(&[name], vec![answer]) {
                Ok(told) => shown.extend(
                    told.into_iter()
                        .filter_map(|(name, info)| Some((name, info?))),
                ),
                Err(error) if error.is_denial() => {
                    tracing::debug!(topic = name, %error, "a topic cannot be asked about");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(shown)
    }

    /// Every topic that the cluster shows to this client: names and partition counts by identity.
    pub(crate) fn all_topics(&self) -> Result<BTreeMap<TopicId, (String, i32)>, ClusterError> {
        let metadata = self.client.fetch_metadata(None, ANSWER);
        let metadata =
            metadata.map_err(|source| ClusterError::request("the list of topics", source))?;
        let names: Vec<&str> = metadata.topics().iter().map(|topic| topic.name()).collect();
        let mut all = BTreeMap::new();
        // The client has just been told who is who.
        for answer in describe_topics(self.client.client(), &names, ANSWER)? {
            match answer {
                Ok(facts) => {
                    let partitions = i32::try_from(facts.partitions).unwrap_or(i32::MAX);
                    all.insert(TopicId::from_uuid(facts.id), (facts.name, partitions));
                }
                // Deleted since it was listed.
                Err(DescribeError::Unknown { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(all)
    }

    /// What this client may do with topics, as far as the cluster tells; nothing of those that there are not, or that it does not show.
    pub(crate) fn permitted(
        &self,
        names: &[&str],
    ) -> Result<BTreeMap<String, Option<Permitted>>, ClusterError> {
        let Some(first) = names.first() else {
            return Ok(BTreeMap::new());
        };
        let answers = ask(&self.client, first, ANSWER, |time| {
            permitted(self.client.client(), names, time)
        })?;
        let told = names.iter().zip(answers);
        Ok(told
            .filter_map(|(name, answer)| Some(((*name).to_owned(), answer.ok()?)))
            .collect())
    }

    /// The brokers that there are.
    pub(crate) fn brokers(&self) -> Result<Vec<i32>, ClusterError> {
        let metadata = self.client.fetch_metadata(None, ANSWER);
        let metadata =
            metadata.map_err(|source| ClusterError::request("the list of brokers", source))?;
        Ok(metadata
            .brokers()
            .iter()
            .map(|broker| broker.id())
            .collect())
    }

    /// The client, for what is asked elsewhere.
    pub(crate) fn client(&self) -> &BaseConsumer {
        &self.client
    }

    /// The log start and the high watermark of a partition.
    pub(crate) fn bounds(
        &self,
        topic: &str,
        partition: i32,
    ) -> Result<(Offset, Offset), ClusterError> {
        watermarks(&self.client, topic, partition).map_err(|source| {
            ClusterError::request(format!("offsets of {topic}/{partition}"), source)
        })
    }
}

/// Answers by name; `None` for a topic that is unknown.
fn named(
    names: &[&str],
    answers: Vec<Result<TopicFacts, DescribeError>>,
) -> Result<BTreeMap<String, Option<TopicInfo>>, ClusterError> {
    let by_name = |(name, answer): (&&str, Result<TopicFacts, DescribeError>)| {
        let info = match answer {
            Ok(facts) => Some(TopicInfo {
                id: TopicId::from_uuid(facts.id),
                partitions: i32::try_from(facts.partitions).unwrap_or(i32::MAX),
            }),
            Err(DescribeError::Unknown { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(((*name).to_owned(), info))
    };
    names.iter().zip(answers).map(by_name).collect()
}

/// The log start and the end of a partition, as a client sees them: read committed or not.
pub(crate) fn watermarks(
    client: &BaseConsumer,
    topic: &str,
    partition: i32,
) -> Result<(Offset, Offset), KafkaError> {
    ask(client, topic, ANSWER, |time| {
        client.fetch_watermarks(topic, partition, time)
    })
}

/// Asks whom a client remembers to be the one to ask. Who does not answer soon may have gone, and librdkafka asks on for minutes: so the cluster is
/// asked who it is now, and then the question again (decision K26).
fn ask<T, E: fmt::Display>(
    client: &BaseConsumer,
    topic: &str,
    timeout: Duration,
    mut question: impl FnMut(Duration) -> Result<T, E>,
) -> Result<T, E> {
    let until = Instant::now() + timeout;
    let error = match question(FIRST_ANSWER.min(timeout / 2)) {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    let left = || {
        let left = until.saturating_duration_since(Instant::now());
        left.max(timeout / 4)
    };
    tracing::debug!(topic, %error, "the cluster is asked whom to ask");
    match client.fetch_metadata(Some(topic), left() / 2) {
        Ok(_) => question(left()),
        Err(_) => Err(error),
    }
}

/// The settings of topics, in the order asked for.
pub(crate) fn settings(
    admin: &AdminClient<DefaultClientContext>,
    topics: &[&str],
) -> Result<Vec<ConfigResource>, ClusterError> {
    let what = || format!("the settings of {}", topics.join(", "));
    let options = AdminOptions::new().request_timeout(Some(ANSWER));
    let asked: Vec<ResourceSpecifier<'_>> = topics
        .iter()
        .copied()
        .map(ResourceSpecifier::Topic)
        .collect();
    let failed = |code: RDKafkaErrorCode| ClusterError::request(what(), KafkaError::AdminOp(code));
    for attempt in 1..=TRIES {
        if attempt > 1 {
            std::thread::sleep(BETWEEN_TRIES);
        }
        let described = block_on(admin.describe_configs(&asked, &options))
            .map_err(|source| ClusterError::request(what(), source))?
            .into_iter()
            .collect::<Result<Vec<ConfigResource>, _>>()
            .map_err(failed)?;
        // `rdkafka` leaves the error of a single topic out: one that the broker does not know has no settings at all.
        if described.iter().all(|topic| !topic.entries.is_empty()) {
            return Ok(described);
        }
    }
    Err(failed(RDKafkaErrorCode::UnknownTopicOrPartition))
}

/// A setting of a broker, which answers for itself alone; `None` where it does not show it.
pub(crate) fn broker_setting(
    admin: &AdminClient<DefaultClientContext>,
    broker: i32,
    setting: &str,
) -> Result<Option<String>, ClusterError> {
    let options = AdminOptions::new().request_timeout(Some(ANSWER));
    let asked = ResourceSpecifier::Broker(broker);
    let described = block_on(admin.describe_configs([&asked], &options));
    let described = described.map_err(|source| {
        ClusterError::request(format!("the settings of broker {broker}"), source)
    })?;
    // One that is denied comes without settings, and `rdkafka` leaves its error out.
    let shown = described.into_iter().flatten().next();
    Ok(shown.and_then(|settings| settings.get(setting)?.value.clone()))
}

/// Those of the topics that are compacted.
pub(crate) fn compacted(
    config: &KafkaConfig,
    topics: &[&str],
) -> Result<Vec<String>, ClusterError> {
    let admin: AdminClient<DefaultClientContext> = config
        .client()
        .create()
        .map_err(|source| ClusterError::request("an admin client", source))?;
    let settings = settings(&admin, topics)?;
    let is_compacted = |settings: &ConfigResource| {
        let policy = settings
            .get("cleanup.policy")
            .and_then(|policy| policy.value.as_deref());
        policy.is_some_and(|policy| policy.split(',').any(|policy| policy.trim() == "compact"))
    };
    Ok(topics
        .iter()
        .zip(&settings)
        .filter(|(_, settings)| is_compacted(settings))
        .map(|(topic, _)| (*topic).to_owned())
        .collect())
}

/// How large a batch of records each topic takes (`max.message.bytes`).
pub(crate) fn batch_limits(
    config: &KafkaConfig,
    topics: &[&str],
) -> Result<BTreeMap<String, usize>, ClusterError> {
    let admin: AdminClient<DefaultClientContext> = config
        .client()
        .create()
        .map_err(|source| ClusterError::request("an admin client", source))?;
    let limit = |settings: &ConfigResource| {
        let limit = settings.get("max.message.bytes")?.value.as_ref()?;
        limit.parse().ok()
    };
    let settings = settings(&admin, topics)?;
    Ok(topics
        .iter()
        .zip(&settings)
        .filter_map(|(topic, settings)| Some(((*topic).to_owned(), limit(settings)?)))
        .collect())
}

#[cfg(test)]
mod tests {
    use rdkafka::mocking::MockCluster;

    use super::*;

    /// A broker that does not answer may be the one that knows: no other speaks for it (decision K40).
    #[test]
    fn what_is_absent_is_absent_from_every_broker() {
        let brokers = MockCluster::new(2).unwrap();
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", brokers.bootstrap_servers());
        let cluster = Cluster::of(client).unwrap();
        let ask = || {
            let is_found = |_: &str, info: Option<TopicInfo>| info.is_some();
            cluster.topics_of_every_broker(&["never"], ANSWER, is_found)
        };
        assert_eq!(ask().unwrap(), BTreeMap::new());
        // Not within the time that an answer may take, and soon enough for the list of brokers.
        brokers.broker_round_trip_time(2, 2 * FIRST_ANSWER).unwrap();
        let uncertain = ask().unwrap_err();
        let ClusterError::Uncertain { topics, broker, .. } = &uncertain else {
            panic!("{uncertain}");
        };
        assert_eq!((&topics[..], *broker), (&["never".to_owned()][..], 2));
        brokers.broker_round_trip_time(2, Duration::ZERO).unwrap();
        assert_eq!(ask().unwrap(), BTreeMap::new());
    }
}
