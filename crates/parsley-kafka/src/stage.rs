//! A stage as its workers know it: what stays the same from one session to the next.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parsley_core::{Channel, Refusal, RefusalCode, TopicId};
use parsley_stage::{App, Stage, TaskConfig, TickTopicWidth, TopicInfo};

use crate::changelog::{self, Changelog, ChangelogError};
use crate::cluster::{self, Cluster, ClusterError};
use crate::config::KafkaConfig;
use crate::names;
use crate::restore::Changelogs;
use crate::topic::Permitted;

/// Why the workers of a stage cannot begin.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// The cluster gave no answer. It is asked again.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Topics of the declaration do not exist.
    #[error("these topics do not exist: {}", topics.join(", "))]
    MissingTopics {
        /// Their names, in order.
        topics: Vec<String>,
    },
    /// The tick topic of a stage has another number of partitions than the stage has tasks.
    #[error(transparent)]
    TickTopicWidth(#[from] TickTopicWidth),
    /// The inputs of a stage have different numbers of partitions, so that no task sees all records of a key.
    #[error(
        "co-partition: the inputs of stage {stage} have different numbers of partitions: {}",
        listed(partitions)
    )]
    CoPartition {
        /// The stage.
        stage: String,
        /// The inputs and how many partitions each has.
        partitions: BTreeMap<String, i32>,
    },
    /// Inputs are compacted: a record can be gone before it was delivered, and what is left does not tell.
    #[error(
        "compaction takes records of {} away that this stage may not have been delivered, and nothing tells which: set cleanup.policy=delete, or copy what is there to another topic",
        topics.join(", ")
    )]
    CompactedInputs {
        /// Their names, in order.
        topics: Vec<String>,
    },
    /// A guard refuses the whole stage (G15).
    #[error("stage {stage}: {refusal}")]
    Refused {
        /// The stage.
        stage: String,
        /// Which guard, and why.
        refusal: Refusal,
    },
    /// A changelog topic cannot be used.
    #[error(transparent)]
    Changelog(#[from] ChangelogError),
    /// The topic of the account of deliveries is one of the application's.
    #[error(
        "the account of deliveries cannot be kept in topic {topic}, which the application declares"
    )]
    AuditDeclared {
        /// Its name.
        topic: String,
    },
    /// The topic of the account of deliveries has fewer partitions than a stage has tasks.
    #[error(
        "the account of deliveries in topic {topic} needs a partition for each task: {needed}, and there are {found}"
    )]
    AuditPartitions {
        /// Its name.
        topic: String,
        /// How many it has.
        found: i32,
        /// How many it needs.
        needed: i32,
    },
}

impl StageError {
    /// Whether asking again may help.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Cluster(_) => true,
            Self::Changelog(error) => error.may_pass(),
            Self::MissingTopics { .. }
            | Self::TickTopicWidth(_)
            | Self::CompactedInputs { .. }
            | Self::CoPartition { .. }
            | Self::Refused { .. }
            | Self::AuditDeclared { .. }
            | Self::AuditPartitions { .. } => false,
        }
    }
}

/// What there is of a changelog: `None` where it can be made, or all that does not fit, what a start refuses first.
pub(crate) type Examined = Result<Option<Changelog>, Vec<StageError>>;

fn listed(partitions: &BTreeMap<String, i32>) -> String {
    let each: Vec<String> = partitions
        .iter()
        .map(|(topic, count)| format!("{topic} has {count}"))
        .collect();
    each.join(", ")
}

/// Asks workers to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Inputs that reach stages late on purpose: [`KafkaHost::delay`](crate::KafkaHost::delay).
#[derive(Clone, Debug, Default)]
pub(crate) struct Adversary(BTreeMap<(String, String), Delay>);

/// How late a topic reaches a stage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delay {
    /// By so much.
    pub(crate) by: Duration,
    /// Not before this.
    pub(crate) not_before: Option<Instant>,
}

/// A time that is too far for any clock is as good as this.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

impl Adversary {
    pub(crate) fn delay(&mut self, stage: String, topic: String, delay: Duration) {
        self.0.entry((stage, topic)).or_default().by = delay;
    }

    pub(crate) fn withhold(&mut self, stage: String, topic: String, span: Duration) {
        let until = Instant::now() + span.min(YEAR);
        self.0.entry((stage, topic)).or_default().not_before = Some(until);
    }

    /// A delay of what the application's stage does not consume, if there is one.
    pub(crate) fn stray(&self, app: &App) -> Option<(&str, &str)> {
        let is_input = |stage: &str, topic: &str| {
            let mut stages = app.stages().iter().filter(|of| of.name() == stage);
            stages.any(|of| of.inputs().any(|input| input == topic))
        };
        let mut all = self.0.keys();
        let stray = all.find(|(stage, topic)| !is_input(stage, topic));
        stray.map(|(stage, topic)| (&**stage, &**topic))
    }

    fn delays_of(&self, stage: &str) -> BTreeMap<String, Delay> {
        let own = self.0.iter().filter(|((of, _), _)| of == stage);
        own.map(|((_, topic), delay)| (topic.clone(), *delay))
            .collect()
    }
}

/// A stage of an application, before the cluster was asked about it.
#[derive(Clone)]
pub(crate) struct Declared {
    pub(crate) config: Arc<KafkaConfig>,
    pub(crate) application: String,
    pub(crate) stage: Stage,
    pub(crate) stage_name: Arc<str>,
    pub(crate) group: String,
    /// Where the account of deliveries is kept, if it is.
    pub(crate) audit: Option<Arc<str>>,
    /// How late each input is let in.
    pub(crate) delays: BTreeMap<String, Delay>,
    ordering_changelog: String,
    fold_changelog: String,
}

impl Declared {
    pub(crate) fn new(
        config: Arc<KafkaConfig>,
        adversary: &Adversary,
        audit: Option<Arc<str>>,
        app: &App,
        stage: &Stage,
    ) -> Self {
        Self {
            config,
            audit,
            delays: adversary.delays_of(stage.name()),
            application: app.name().to_owned(),
            stage_name: stage.name().into(),
            group: app.consumer_group(stage),
            ordering_changelog: names::ordering_changelog(app, stage),
            fold_changelog: names::fold_changelog(app, stage),
            stage: stage.clone(),
        }
    }

    /// The topics that have to be there when the stage starts, each once: its own, and that of the account.
    pub(crate) fn topics(&self) -> Vec<&str> {
        let declared = self.stage.inputs().chain(self.stage.sinks());
        let mut names: Vec<&str> = declared.chain(self.audit.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What the stage does with each of its topics, its changelogs and that of the account. To a changelog of folds that it has none for nothing is done.
    pub(crate) fn access(&self) -> BTreeMap<&str, Permitted> {
        let mut access: BTreeMap<&str, Permitted> = BTreeMap::new();
        let folds = Some(&*self.fold_changelog).filter(|_| self.stage.is_stateful());
        let changelogs = || [&*self.ordering_changelog].into_iter().chain(folds);
        for name in self.stage.inputs().chain(changelogs()) {
            access.entry(name).or_default().reads = true;
        }
        let ticks = self.stage.tick_topic();
        let sent = self.stage.sinks().chain(ticks).chain(changelogs());
        for name in sent.chain(self.audit.as_deref()) {
            access.entry(name).or_default().writes = true;
        }
        access
    }

    /// The changelogs, that of the ordering state first.
    pub(crate) fn changelogs(&self) -> [&str; 2] {
        [&self.ordering_changelog, &self.fold_changelog]
    }

    /// What of the stage's topics does not fit the declaration, as a start refuses it, the first first. `found` has each that was asked for.
    pub(crate) fn faults(&self, found: &BTreeMap<String, Option<TopicInfo>>) -> Vec<StageError> {
        let mut faults = Vec::new();
        let missing: Vec<String> = found
            .iter()
            .filter(|(_, info)| info.is_none())
            .map(|(name, _)| name.clone())
            .collect();
        if !missing.is_empty() {
            faults.push(StageError::MissingTopics { topics: missing });
        }
        // It is one of the inputs: this says which of them is to be changed.
        let tick_topic =
            TickTopicWidth::check(&self.stage, |topic| Some((*found.get(topic)?)?.partitions));
        faults.extend(tick_topic.err().map(StageError::from));
        let mut partitions = self.partitions(found);
        if let Some(topic) = self.stage.tick_topic() {
            partitions.remove(topic);
        }
        let width = width_of(&partitions);
        if partitions.values().any(|count| *count != width) {
            faults.push(StageError::CoPartition {
                stage: self.stage_name.to_string(),
                partitions,
            });
        }
        let audit = self.audit.as_deref();
        if let Some(topic) = audit
            && let Some(Some(info)) = found.get(topic)
            && info.partitions < width
        {
            faults.push(StageError::AuditPartitions {
                topic: topic.to_owned(),
                found: info.partitions,
                needed: width,
            });
        }
        faults
    }

    /// How many partitions each input has.
    pub(crate) fn partitions(
        &self,
        found: &BTreeMap<String, Option<TopicInfo>>,
    ) -> BTreeMap<String, i32> {
        let inputs = self.stage.inputs();
        let known = inputs.filter_map(|name| Some((name, (*found.get(name)?)?.partitions)));
        known
            .map(|(name, partitions)| (name.to_owned(), partitions))
            .collect()
    }

    /// What of the settings of the inputs does not fit.
    pub(crate) fn check_settings(&self, inputs: &[&str]) -> Result<(), StageError> {
        let compacted = cluster::compacted(&self.config, inputs)?;
        match compacted.is_empty() {
            true => Ok(()),
            false => Err(StageError::CompactedInputs { topics: compacted }),
        }
    }

    /// What a changelog that cannot be used means for the stage.
    fn refused(&self, error: ChangelogError) -> StageError {
        match error {
            // It was made for as many tasks as the inputs had partitions.
            ChangelogError::Partitions { .. } => StageError::Refused {
                stage: self.stage_name.to_string(),
                refusal: Refusal::of_node(RefusalCode::TaskWidth, error.to_string()),
            },
            error => error.into(),
        }
    }

    /// What [`Declared::resolve`] would make of each changelog, of which none is made. `None` for one that is not there and can be made.
    pub(crate) fn examine_changelogs(
        &self,
        cluster: &Cluster,
        width: i32,
    ) -> [(&str, Examined); 2] {
        [&self.ordering_changelog, &self.fold_changelog].map(|name| {
            let refused = |faults: Vec<ChangelogError>| {
                let refused = faults.into_iter().map(|fault| self.refused(fault));
                Err(refused.collect())
            };
            let found = match changelog::examine(&self.config, cluster, name, width) {
                Ok(Some(found)) if found.faults.is_empty() => Ok(Some(found.changelog)),
                Ok(Some(found)) => refused(found.faults),
                Ok(None) => Ok(None),
                Err(error) => refused(vec![error]),
            };
            (name.as_str(), found)
        })
    }

    /// Asks the cluster for the stage's topics, and finds or makes its changelogs.
    pub(crate) fn resolve(&self, cluster: &Cluster) -> Result<Resolved, StageError> {
        let found = cluster.topics(&self.topics())?;
        if let Some(fault) = self.faults(&found).into_iter().next() {
            return Err(fault);
        }
        let partitions = self.partitions(&found);
        let width = width_of(&partitions);
        let inputs: Vec<&str> = partitions.keys().map(String::as_str).collect();
        self.check_settings(&inputs)?;
        let ensure = |name: &str| {
            let found = changelog::ensure(&self.config, cluster, name, width);
            found.map_err(|error| self.refused(error))
        };
        let changelogs = [
            ensure(&self.ordering_changelog)?,
            ensure(&self.fold_changelog)?,
        ];
        Ok(self.resolved(found, changelogs))
    }

    /// The stage's topics as they were found, and its changelogs.
    pub(crate) fn resolved(
        &self,
        found: BTreeMap<String, Option<TopicInfo>>,
        changelogs: [Changelog; 2],
    ) -> Resolved {
        let mut topics: BTreeMap<String, TopicInfo> = found
            .into_iter()
            .filter_map(|(name, info)| Some((name, info?)))
            .collect();
        // It is no topic of the stage, and goes by no name in what the stage is told.
        let audit = self.audit.as_deref().and_then(|name| topics.remove(name));
        let names = topics
            .iter()
            .map(|(name, info)| (info.id, Arc::from(name.as_str())))
            .collect();
        Resolved {
            topics,
            names,
            changelogs: Changelogs {
                names: [self.ordering_changelog.clone(), self.fold_changelog.clone()],
                topics: changelogs,
            },
            audit: audit.map(|info| info.id),
        }
    }

    pub(crate) fn task_dir(&self, partition: i32) -> PathBuf {
        self.config
            .state_dir
            .join(&self.application)
            .join(&*self.stage_name)
            .join(partition.to_string())
    }
}

/// Whether the topic of the account is one of the application's.
pub(crate) fn audit_declared(app: &App, audit: Option<&str>) -> Option<StageError> {
    let topic = audit.filter(|topic| app.topics().contains(topic))?;
    let topic = topic.to_owned();
    Some(StageError::AuditDeclared { topic })
}

/// How many tasks a stage has: as many as each of its inputs has partitions.
pub(crate) fn width_of(partitions: &BTreeMap<String, i32>) -> i32 {
    partitions.values().copied().next().unwrap_or(0)
}

/// A stage's topics, as the cluster has them.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) topics: BTreeMap<String, TopicInfo>,
    names: BTreeMap<TopicId, Arc<str>>,
    pub(crate) changelogs: Changelogs,
    /// The topic of the account of deliveries, if one is kept.
    pub(crate) audit: Option<TopicId>,
}

impl Resolved {
    pub(crate) fn task_config(&self, declared: &Declared, partition: i32) -> TaskConfig {
        TaskConfig {
            node: declared.config.node,
            max_rounds: declared.config.max_rounds,
            max_step_deliveries: declared.config.max_step_deliveries,
            ..TaskConfig::new(declared.application.clone(), partition, self.topics.clone())
        }
    }

    /// The stage's topics and their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = (TopicId, &str)> {
        self.names.iter().map(|(topic, name)| (*topic, &**name))
    }

    /// The name of one of the stage's topics.
    pub(crate) fn name_of(&self, topic: TopicId) -> Option<&Arc<str>> {
        self.names.get(&topic)
    }

    /// The channel that a partition of one of the stage's topics is.
    pub(crate) fn channel(&self, topic: &str, partition: i32) -> Option<Channel> {
        Some(self.topics.get(topic)?.id.partition(partition))
    }
}
