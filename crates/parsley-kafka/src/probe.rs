//! Looking at a cluster before a host does: whether an application could start there, and what would stop it.

mod access;
mod brokers;
mod clause;
mod description;
mod positions;
mod state;
mod transactions;

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parsley_stage::{App, TopicInfo};
use rdkafka::types::RDKafkaErrorCode;

pub use clause::Clause;
pub use description::{Description, DescriptionError, StageDescription};

use brokers::TimeLimits;

use crate::changelog::Changelog;
use crate::cluster::{Cluster, ClusterError};
use crate::config::KafkaConfig;
use crate::stage::{Adversary, Declared, StageError, audit_declared, width_of};
use crate::topic::DescribeError;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// A host that is started now refuses, or tries in vain for as long as this stands.
    Error,
    /// Nothing is wrong, and it is good to know.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Note => "note",
        })
    }
}

/// Something that a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What the cluster owes the application.
    pub clause: Clause,
    /// The stage that it is about, if it is about one.
    pub stage: Option<String>,
    /// The partition of the task that it is about, if it is about one.
    pub task: Option<i32>,
    /// The topics that it is about, in order.
    pub topics: Vec<String>,
    /// What was found: in the words of the host where the host refuses.
    pub found: String,
}

/// `error probe-co-partition: stage settle: …`, and what to do about it.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.severity, self.clause.code())?;
        if let Some(stage) = &self.stage {
            write!(f, "stage {stage}: ")?;
        }
        if let Some(task) = self.task {
            write!(f, "task {task}: ")?;
        }
        let (written, remedy) = (self.clause.written(), self.clause.remedy());
        f.write_str(&self.found)?;
        // The host's words may well end with it.
        // What is wrong with state is one thing, what keeps a probe from looking at it another: such a note says itself what to do.
        let of_state = matches!(self.clause, Clause::StateTrusted | Clause::StateKept);
        let is_said = self.found.contains(remedy) || (of_state && self.severity == Severity::Note);
        if !is_said {
            write!(f, "; {remedy}")?;
        }
        write!(f, " ({written})")
    }
}

/// What a probe of a cluster found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterReport {
    /// The findings: stages in the order declared, then what is about no stage alone.
    pub findings: Vec<Finding>,
}

impl ClusterReport {
    /// Whether nothing was found that would stop the application.
    pub fn is_fit(&self) -> bool {
        self.errors().next().is_none()
    }

    /// What would stop the application.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        let all = self.findings.iter();
        all.filter(|finding| finding.severity == Severity::Error)
    }
}

/// One line for each finding.
impl fmt::Display for ClusterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, finding) in self.findings.iter().enumerate() {
            let end = if at > 0 { "\n" } else { "" };
            write!(f, "{end}{finding}")?;
        }
        Ok(())
    }
}

/// A cluster could not be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// No client could be made.
    #[error("no client for the cluster: {0}")]
    Client(rdkafka::error::KafkaError),
    /// It did not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// There is no temporary directory to read state into: where it is, the environment says (`TMPDIR`).
    #[error("no temporary directory to read state into: {0}")]
    Directory(std::io::Error),
    /// The state of a task could not be looked at.
    #[error("the state of partition {partition} of stage {stage} cannot be looked at: {reason}")]
    State {
        /// The stage.
        stage: String,
        /// The task's partition.
        partition: i32,
        /// Why.
        reason: String,
    },
}

/// Looks whether an application could start on a cluster, and changes nothing there: each rule that [`KafkaHost`](crate::KafkaHost) has for topics,
/// changelogs and positions is asked of the same code, and what it would refuse is found here with the same words. `docs/operations.md` has the
/// list.
///
/// `audit` names the topic of the [account of deliveries](crate::KafkaHost::audit), if one is to be kept.
///
/// ```no_run
/// # fn app() -> Result<parsley_stage::App, parsley_stage::BuildError> { unimplemented!() }
/// use parsley_kafka::{KafkaConfig, probe_cluster};
///
/// let report = probe_cluster(app()?, &KafkaConfig::new("localhost:9092", "/var/lib/shop"), None)?;
/// assert!(report.is_fit(), "{report}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It opens each task that there is state of as a host would, with a state that it reads from the ordering changelog into a temporary directory, and throws it
/// away (decision K41). What it does not see: what only a state directory knows, and fold state, which is the logic's own.
///
/// # Errors
///
/// When there is no client, no temporary directory to read state into, or the cluster does not answer. A cluster that denies something has answered.
pub fn probe_cluster(
    app: impl Borrow<App>,
    config: &KafkaConfig,
    audit: Option<&str>,
) -> Result<ClusterReport, ProbeError> {
    let app = app.borrow();
    let mut probe = Probe::default();
    if let Err(error) = config.check() {
        probe.error(Clause::Configuration, None, [], error.to_string());
        return Ok(probe.report);
    }
    if let Some(error) = audit_declared(app, audit) {
        probe.refused(None, &error)?;
    }
    let cluster = Cluster::new(config).map_err(ProbeError::Client)?;
    let config = Arc::new(config.clone());
    let limits = TimeLimits::ask(&config, &cluster)?;
    for stage in app.stages() {
        let audit = audit.map(Arc::from);
        let declared = Declared::new(
            Arc::clone(&config),
            &Adversary::default(),
            audit,
            app,
            stage,
        );
        probe.stage(&declared, &cluster)?;
        probe.transactional_ids(&declared, &limits);
    }
    probe.transaction_timeout(&config, &limits);
    Ok(probe.report)
}

/// A probe under way.
#[derive(Default)]
struct Probe {
    report: ClusterReport,
}

impl Probe {
    fn error(
        &mut self,
        clause: Clause,
        stage: Option<&str>,
        topics: impl IntoIterator<Item = String>,
        found: String,
    ) {
        self.found(Severity::Error, clause, stage, topics, found);
    }

    fn found(
        &mut self,
        severity: Severity,
        clause: Clause,
        stage: Option<&str>,
        topics: impl IntoIterator<Item = String>,
        found: String,
    ) {
        self.report.findings.push(Finding {
            severity,
            clause,
            stage: stage.map(str::to_owned),
            task: None,
            topics: topics.into_iter().collect(),
            found,
        });
    }

    /// Takes down what a host would refuse. Fails when it is no answer of the cluster.
    fn refused(&mut self, stage: Option<&str>, error: &StageError) -> Result<(), ProbeError> {
        let (clause, topics) = clause::of(error)?;
        self.error(clause, stage, topics, error.to_string());
        Ok(())
    }

    fn stage(&mut self, declared: &Declared, cluster: &Cluster) -> Result<(), ProbeError> {
        let name = &*declared.stage_name;
        let mut found: BTreeMap<String, Option<TopicInfo>> = BTreeMap::new();
        // One by one, as a topic that is denied is the answer to a request as a whole.
        for topic in declared.topics() {
            match cluster.topics(&[topic]) {
                Ok(answer) => found.extend(answer),
                Err(error) => {
                    let denied = is_denied(&error);
                    if !denied {
                        return Err(error.into());
                    }
                    let topics = [topic.to_owned()];
                    self.error(Clause::TopicShown, Some(name), topics, error.to_string());
                }
            }
        }
        self.access(declared, cluster)?;
        for fault in declared.faults(&found) {
            self.refused(Some(name), &fault)?;
        }
        let partitions = declared.partitions(&found);
        for input in partitions.keys() {
            if let Err(error) = declared.check_settings(&[input]) {
                self.refused(Some(name), &error)?;
            }
        }
        let width = width_of(&partitions);
        // How many tasks the stage has is not known where its inputs differ, or one is missing.
        let is_known = partitions.values().all(|count| *count == width)
            && partitions.len() == declared.stage.inputs().count();
        if !is_known {
            return Ok(());
        }
        let mut changelogs = Vec::new();
        for (topic, changelog) in declared.examine_changelogs(cluster, width) {
            match changelog {
                Ok(Some(found)) => changelogs.push(found),
                Ok(None) => {
                    changelogs.push(Changelog::missing(width));
                    let found = format!("the changelog topic {topic} is not there yet");
                    let topics = [topic.to_owned()];
                    self.found(
                        Severity::Note,
                        Clause::ChangelogMade,
                        Some(name),
                        topics,
                        found,
                    );
                }
                Err(faults) => {
                    for fault in faults {
                        self.refused(Some(name), &fault)?;
                    }
                }
            }
        }
        let positions = self.positions(declared, cluster, &partitions)?;
        // Where something is missing or denied, no opening gets as far as the state.
        if let (Some(positions), Ok(changelogs)) = (positions, changelogs.try_into())
            && found.values().all(Option::is_some)
            && found.len() == declared.topics().len()
            && !self.is_denied_one_of(name, &declared.changelogs())
        {
            let resolved = declared.resolved(found, changelogs);
            self.state(declared, cluster, &resolved, &positions, width)?;
        }
        Ok(())
    }

    /// Whether the stage was found to be denied one of these topics.
    fn is_denied_one_of(&self, stage: &str, topics: &[&str]) -> bool {
        self.report.findings.iter().any(|finding| {
            finding.clause == Clause::Access
                && finding.severity == Severity::Error
                && finding.stage.as_deref() == Some(stage)
                && finding
                    .topics
                    .iter()
                    .any(|topic| topics.contains(&&**topic))
        })
    }
}

/// Whether the cluster has answered, and it does not say what there is, or not as the host needs it.
fn is_denied(error: &ClusterError) -> bool {
    match error {
        ClusterError::Describe(DescribeError::Topic { .. } | DescribeError::NoUuid { .. }) => true,
        ClusterError::Request { source, .. } => matches!(
            source.rdkafka_error_code(),
            Some(
                RDKafkaErrorCode::TopicAuthorizationFailed
                    | RDKafkaErrorCode::GroupAuthorizationFailed
                    | RDKafkaErrorCode::ClusterAuthorizationFailed
            )
        ),
        _ => false,
    }
}
