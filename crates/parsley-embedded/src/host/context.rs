//! What a task's thread knows that stays the same from one execution to the next.

use std::collections::BTreeMap;
use std::sync::Arc;

use parsley_core::{NodeError, Refusal, TopicId};
use parsley_stage::{Stage, TaskConfig, TaskError, TopicInfo};

use super::board::Board;
use super::settings::Settings;
use crate::log::{Log, SendError};

pub(crate) struct Context {
    pub(crate) log: Log,
    pub(crate) settings: Arc<Settings>,
    pub(crate) board: Arc<Board>,
    /// The task's cell on the board.
    pub(crate) index: usize,
    pub(crate) application: String,
    pub(crate) stage: Stage,
    pub(crate) stage_name: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) group: String,
    /// The stage's topics as they were when the application started.
    pub(crate) topics: BTreeMap<Arc<str>, TopicInfo>,
}

/// Why an execution ended.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A guard refused: there is no point in trying again.
    Refused(Refusal),
    /// Anything else: it is tried again.
    Failed { message: String },
}

impl Context {
    pub(crate) fn task_config(&self) -> TaskConfig {
        let topics = self
            .topics
            .iter()
            .map(|(name, info)| (name.to_string(), *info))
            .collect();
        TaskConfig {
            node: self.settings.node,
            max_rounds: self.settings.max_rounds,
            max_step_deliveries: self.settings.max_step_deliveries,
            ..TaskConfig::new(self.application.clone(), self.partition, topics)
        }
    }

    /// The name that a topic of the stage had when the application started; for others, its identity.
    pub(crate) fn topic_name(&self, id: TopicId) -> Arc<str> {
        let known = self.topics.iter().find(|(_, info)| info.id == id);
        known.map_or_else(|| id.to_string().into(), |(name, _)| Arc::clone(name))
    }

    pub(crate) fn input_names(&self) -> impl Iterator<Item = (&Arc<str>, TopicInfo)> {
        self.stage
            .inputs()
            .filter_map(|name| self.topics.get_key_value(name))
            .map(|(name, info)| (name, *info))
    }

    pub(crate) fn sink_ids(&self) -> impl Iterator<Item = TopicInfo> {
        self.stage
            .sinks()
            .filter_map(|name| self.topics.get(name))
            .copied()
    }
}

impl From<TaskError> for Failure {
    fn from(error: TaskError) -> Self {
        match error {
            TaskError::Refused(refusal) => Self::Refused(refusal),
            error => Self::Failed {
                message: error.to_string(),
            },
        }
    }
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        TaskError::from(error).into()
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        Self::Failed {
            message: error.to_string(),
        }
    }
}
