//! The topics in which the state of a stage's tasks outlives every machine.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_executor::block_on;
use parsley_core::TopicId;
use parsley_stage::TopicInfo;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::types::RDKafkaErrorCode;

use crate::cluster::{self, ANSWER, Cluster, ClusterError};
use crate::config::KafkaConfig;

/// A changelog topic as it was found, or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changelog {
    pub(crate) topic: TopicInfo,
    /// How long a removed key's marker is kept at least (`delete.retention.ms`).
    pub(crate) delete_retention: Duration,
}

impl Changelog {
    /// Stands for one that there is not, where none is made.
    pub(crate) fn missing(tasks: i32) -> Self {
        Self {
            topic: TopicInfo {
                id: TopicId::from_uuid(uuid::Uuid::nil()),
                partitions: tasks,
            },
            delete_retention: Duration::ZERO,
        }
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.topic.id.0.uuid().is_nil()
    }
}

/// A changelog topic that is there.
pub(crate) struct Found {
    pub(crate) changelog: Changelog,
    /// What of it does not fit: the first is what a start refuses.
    pub(crate) faults: Vec<ChangelogError>,
}

/// A changelog topic cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangelogError {
    /// The cluster gave no answer that helps.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// It could not be made.
    #[error("the changelog topic {topic} cannot be made: {reason}")]
    Create {
        /// The topic.
        topic: String,
        /// The cluster's words.
        reason: String,
    },
    /// Its cleanup policy would lose state, or keep all of its past.
    #[error("the changelog topic {topic} has cleanup.policy={found}, and needs compact")]
    Policy {
        /// The topic.
        topic: String,
        /// The policy found.
        found: String,
    },
    /// It was made for another number of tasks.
    #[error(
        "the changelog topic {topic} has {found} partitions, and the stage has {expected} tasks"
    )]
    Partitions {
        /// The topic.
        topic: String,
        /// How many it has.
        found: i32,
        /// How many tasks there are.
        expected: i32,
    },
}

impl ChangelogError {
    /// Whether asking again may help.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Cluster(_) | Self::Create { .. })
    }
}

/// Finds a changelog topic, or makes it, and checks that it fits.
pub(crate) fn ensure(
    config: &KafkaConfig,
    cluster: &Cluster,
    name: &str,
    tasks: i32,
) -> Result<Changelog, ChangelogError> {
    let admin = admin(config)?;
    let find = |found: Result<BTreeMap<String, Option<TopicInfo>>, ClusterError>| {
        Ok::<_, ChangelogError>(found?.remove(name).flatten())
    };
    // One that is there after all is made by nobody a second time.
    let topic = match find(cluster.topics_at_once(&[name], ANSWER))? {
        Some(topic) => topic,
        None => {
            create(config, &admin, name, tasks, false)?;
            find(cluster.topics(&[name]))?.ok_or_else(|| ChangelogError::Create {
                topic: name.to_owned(),
                reason: "it was made, and is not known yet".to_owned(),
            })?
        }
    };
    let found = look(&admin, name, topic, tasks);
    match found.faults.into_iter().next() {
        Some(fault) => Err(fault),
        None => Ok(found.changelog),
    }
}

/// What [`ensure`] would make of a changelog topic, which is not made: all that does not fit if it is there, and otherwise the cluster is asked whether it could be
/// made.
pub(crate) fn examine(
    config: &KafkaConfig,
    cluster: &Cluster,
    name: &str,
    tasks: i32,
) -> Result<Option<Found>, ChangelogError> {
    let admin = admin(config)?;
    match cluster
        .topics_at_once(&[name], ANSWER)?
        .remove(name)
        .flatten()
    {
        Some(topic) => Ok(Some(look(&admin, name, topic, tasks))),
        None => create(config, &admin, name, tasks, true).map(|()| None),
    }
}

fn admin(config: &KafkaConfig) -> Result<AdminClient<DefaultClientContext>, ClusterError> {
    let made = config.client().create();
    made.map_err(|source| ClusterError::request("an admin client", source))
}

/// Looks at a changelog topic that is there.
fn look(
    admin: &AdminClient<DefaultClientContext>,
    name: &str,
    topic: TopicInfo,
    tasks: i32,
) -> Found {
    let mut faults = Vec::new();
    if topic.partitions != tasks {
        faults.push(ChangelogError::Partitions {
            topic: name.to_owned(),
            found: topic.partitions,
            expected: tasks,
        });
    }
    let mut delete_retention = Duration::ZERO;
    match settings(admin, name) {
        Ok((policy, kept)) => {
            delete_retention = kept;
            if policy != "compact" {
                faults.push(ChangelogError::Policy {
                    topic: name.to_owned(),
                    found: policy,
                });
            }
        }
        Err(error) => faults.push(error.into()),
    }
    let changelog = Changelog {
        topic,
        delete_retention,
    };
    Found { changelog, faults }
}

fn create(
    config: &KafkaConfig,
    admin: &AdminClient<DefaultClientContext>,
    name: &str,
    tasks: i32,
    only_ask: bool,
) -> Result<(), ChangelogError> {
    let failed = |reason: String| ChangelogError::Create {
        topic: name.to_owned(),
        reason,
    };
    let replication = config.changelog.replication.unwrap_or(-1);
    let min_insync = config
        .changelog
        .min_insync_replicas
        .map(|count| count.to_string());
    let mut topic = NewTopic::new(name, tasks, TopicReplication::Fixed(replication))
        .set("cleanup.policy", "compact");
    if let Some(min_insync) = &min_insync {
        topic = topic.set("min.insync.replicas", min_insync);
    }
    let options = AdminOptions::new()
        .request_timeout(Some(ANSWER))
        .operation_timeout(Some(ANSWER))
        .validate_only(only_ask);
    let made = block_on(admin.create_topics([&topic], &options));
    for outcome in made.map_err(|error| failed(error.to_string()))? {
        match outcome {
            // Somebody else was as quick.
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((_, code)) => return Err(failed(code.to_string())),
        }
    }
    Ok(())
}

/// The cleanup policy of a topic, and how long it keeps the markers of removed keys.
fn settings(
    admin: &AdminClient<DefaultClientContext>,
    name: &str,
) -> Result<(String, Duration), ClusterError> {
    let described = cluster::settings(admin, &[name])?;
    let value = |setting: &str| described.first()?.get(setting)?.value.clone();
    let retention_ms = value("delete.retention.ms").and_then(|value| value.parse().ok());
    Ok((
        value("cleanup.policy").unwrap_or_default(),
        Duration::from_millis(retention_ms.unwrap_or(0)),
    ))
}
