//! Whether the stage's tasks could open: what is stored, and the positions that are to belong to it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parsley_core::{Channel, Offset, Refusal, RefusalCode};
use parsley_stage::TaskError;
use rdkafka::consumer::BaseConsumer;

use super::positions::Position;
use super::{Clause, Finding, Probe, ProbeError, Severity, is_denied};
use crate::cluster::{Cluster, ClusterError};
use crate::event::ConsumerError;
use crate::restore::{self, Restore, RestoreError};
use crate::stage::{Declared, Resolved};
use crate::state::{StoreKind, TaskState};
use crate::worker::{Trial, Trouble, is_denial, now_ms};

/// How long a changelog is read before it is looked whether anything came of it.
const TURN: Duration = Duration::from_millis(200);

/// For how long nothing may come of a changelog, beyond the time that transactions may last, before the rest of it is given up.
const STALLED: Duration = Duration::from_secs(4);

/// Why a task cannot be opened.
enum CannotOpen {
    /// A changelog has lost its head.
    Cut(Refusal),
    /// A guard refuses.
    Refused(Refusal),
    /// The changelogs cannot be read to their ends: so many offsets are left.
    Stalled(u64),
    /// The changelogs may not be read, which the cluster had not told.
    Denied(ConsumerError),
    /// The cluster does not answer as it would have to.
    Cluster(ClusterError),
    /// There is no directory to read them into.
    NoDirectory(std::io::Error),
    /// It cannot be tried.
    Untried(String),
}

impl From<Trouble> for CannotOpen {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Task {
                error: TaskError::Refused(refusal),
                ..
            } => Self::Refused(refusal),
            Trouble::Cluster(error) | Trouble::Restore(RestoreError::Cluster(error)) => {
                Self::Cluster(error)
            }
            Trouble::Restore(RestoreError::Consumer(error)) if is_denial(error.code) => {
                Self::Denied(error)
            }
            trouble => Self::Untried(trouble.to_string()),
        }
    }
}

impl From<RestoreError> for CannotOpen {
    fn from(error: RestoreError) -> Self {
        Trouble::from(error).into()
    }
}

impl Probe {
    /// Opens each task of a stage as its host would, with a state that is read into a directory of its own, and throws it away.
    pub(super) fn state(
        &mut self,
        declared: &Declared,
        cluster: &Cluster,
        resolved: &Resolved,
        positions: &[Position],
        tasks: i32,
    ) -> Result<(), ProbeError> {
        let mut client = declared.config.client();
        client
            .set("group.id", &declared.group)
            .set("isolation.level", "read_committed")
            .set("enable.auto.commit", "false");
        let asker: BaseConsumer = client.create().map_err(ProbeError::Client)?;
        let trial = Trial {
            asker: &asker,
            cluster,
            declared,
            resolved,
        };
        for partition in 0..tasks {
            let committed: BTreeMap<Channel, Offset> = positions
                .iter()
                .filter(|at| at.partition == partition)
                .filter_map(|at| Some((resolved.channel(&at.topic, partition)?, at.offset)))
                .collect();
            if let Err(why) = try_opening(&trial, partition, committed) {
                self.cannot_open(&trial, partition, why)?;
            }
        }
        Ok(())
    }

    fn cannot_open(
        &mut self,
        trial: &Trial<'_>,
        partition: i32,
        why: CannotOpen,
    ) -> Result<(), ProbeError> {
        let Trial {
            cluster,
            declared,
            resolved,
            ..
        } = *trial;
        let changelogs = &resolved.changelogs.names;
        let (mut severity, mut topics) = (Severity::Error, Vec::new());
        let (clause, found) = match why {
            CannotOpen::Cut(refusal) => {
                if TaskState::is_kept(&declared.task_dir(partition)) {
                    // A host goes on from that, where it has all that is missing.
                    severity = Severity::Note;
                }
                topics.extend_from_slice(changelogs);
                let found = match severity {
                    Severity::Note => format!(
                        "{}: {}; a host goes on from its state directory, where that has all that is missing",
                        refusal.code, refusal.found
                    ),
                    _ => refusal.to_string(),
                };
                (Clause::StateKept, found)
            }
            CannotOpen::Refused(refusal) => {
                let at = refusal.channel.and_then(|at| resolved.name_of(at.topic));
                match (refusal.code, at) {
                    (_, Some(name)) => topics.push(name.to_string()),
                    (RefusalCode::StateLost | RefusalCode::CorruptState, None) => {
                        topics.push(changelogs[0].clone());
                    }
                    _ => {}
                }
                (Clause::of_refusal(refusal.code), refusal.to_string())
            }
            CannotOpen::Stalled(left) => {
                severity = Severity::Note;
                topics.extend_from_slice(changelogs);
                let found = format!(
                    "the state is not looked at: {left} offsets of {} are left, and a transaction keeps readers from them, those of a host as well; \
                     wait until it ends, or have it aborted",
                    changelogs.join(" and ")
                );
                (Clause::StateTrusted, found)
            }
            CannotOpen::Denied(error) => {
                let topic = error.partition.as_ref().map(|at| at.topic.to_string());
                topics.extend(topic);
                let trouble = Trouble::from(RestoreError::Consumer(error));
                let denied = trouble.with_grant(declared, Some(cluster));
                (Clause::Access, denied.to_string())
            }
            CannotOpen::Cluster(error @ ClusterError::Unresolved { .. }) => {
                (Clause::FormerTopicShown, error.to_string())
            }
            CannotOpen::Cluster(error) if is_denied(&error) => {
                (Clause::TopicShown, error.to_string())
            }
            CannotOpen::Cluster(error) => return Err(error.into()),
            CannotOpen::NoDirectory(error) => return Err(ProbeError::Directory(error)),
            CannotOpen::Untried(reason) => {
                return Err(ProbeError::State {
                    stage: declared.stage_name.to_string(),
                    partition,
                    reason,
                });
            }
        };
        self.report.findings.push(Finding {
            severity,
            clause,
            stage: Some(declared.stage_name.to_string()),
            task: Some(partition),
            topics,
            found,
        });
        Ok(())
    }
}

fn try_opening(
    trial: &Trial<'_>,
    partition: i32,
    committed: BTreeMap<Channel, Offset>,
) -> Result<(), CannotOpen> {
    let changelogs = &trial.resolved.changelogs;
    let bounds = restore::bounds(trial.cluster, changelogs, partition);
    let (starts, ends) = bounds.map_err(CannotOpen::Cluster)?;
    if committed.is_empty() && starts == ends {
        // A first start.
        return Ok(());
    }
    let dir = directory().map_err(CannotOpen::NoDirectory)?;
    let mut restore = read_state(trial, partition, dir.path(), &StoreKind::ORDERING)?;
    // Folds are the logic's own, and are looked for only where nothing else is there.
    let folds = directory().map_err(CannotOpen::NoDirectory)?;
    if starts[&StoreKind::Fold] < ends[&StoreKind::Fold] && restore.has_no_ordering_state()? {
        restore = read_state(trial, partition, folds.path(), &StoreKind::BOTH)?;
    }
    Ok(trial.open(restore, partition, committed)?)
}

/// Reads the state of a task, up to where its changelogs end now.
fn read_state(
    trial: &Trial<'_>,
    partition: i32,
    dir: &std::path::Path,
    kinds: &'static [StoreKind],
) -> Result<Restore, CannotOpen> {
    let declared = trial.declared;
    let mut restore = Restore::begin(
        &declared.config,
        trial.cluster,
        &trial.resolved.changelogs,
        &declared.group,
        partition,
        dir,
        now_ms(),
        kinds,
    )?;
    if let Some(refusal) = restore.refusal() {
        return Err(CannotOpen::Cut(refusal));
    }
    read_on(&mut restore, declared)?;
    // A host that runs commits while this reads, and a step that is read in part contradicts itself.
    if kinds
        .iter()
        .all(|kind| !trial.resolved.changelogs.topic(*kind).is_missing())
    {
        restore
            .bound(trial.asker, partition)
            .map_err(CannotOpen::Cluster)?;
        read_on(&mut restore, declared)?;
    }
    Ok(restore)
}

/// Where state is read to: a directory of the system's own for such, by a name that tells whose it is if the process is killed.
fn directory() -> std::io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("parsley-probe-").tempdir()
}

/// Reads as far as there is something, and gives up where nothing comes.
fn read_on(restore: &mut Restore, declared: &Declared) -> Result<(), CannotOpen> {
    let patience = declared.config.transaction_timeout + STALLED;
    let (mut progress, mut since) = (restore.progress(), Instant::now());
    while !restore.advance(TURN)? {
        if restore.progress() != progress {
            (progress, since) = (restore.progress(), Instant::now());
        } else if since.elapsed() > patience {
            return Err(CannotOpen::Stalled(progress.1));
        }
    }
    Ok(())
}
