//! What a stage is called on the cluster.

use parsley_stage::{App, Stage};

/// The changelog of a stage's ordering state.
pub(crate) fn ordering_changelog(app: &App, stage: &Stage) -> String {
    format!("{}-state-changelog", app.consumer_group(stage))
}

/// The changelog of a stage's fold state.
pub(crate) fn fold_changelog(app: &App, stage: &Stage) -> String {
    format!("{}-fold-changelog", app.consumer_group(stage))
}

/// The transactional id of a producer of one of a process's workers, another one each time (decision K19). No two producers share one, so none fences
/// another by it. What fences a task's former owner is the generation that its positions are sent with.
pub(crate) fn transactional_id(group: &str, worker: usize) -> String {
    format!("{group}-{}-{worker}", uuid::Uuid::new_v4())
}
