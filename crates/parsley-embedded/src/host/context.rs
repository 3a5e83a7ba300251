//! What stays the same from one execution of a task to the next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parsley_core::TopicId;
use parsley_stage::{Stage, TaskConfig, TopicInfo};

use super::settings::Settings;
use super::telling::Telling;
use crate::log::Log;

pub(crate) struct Context {
    pub(crate) log: Log,
    pub(crate) settings: Arc<Settings>,
    pub(crate) stop: StopFlag,
    pub(crate) application: String,
    pub(crate) stage: Stage,
    pub(crate) stage_name: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) group: String,
    /// The stage's topics as they were when the application started.
    pub(crate) topics: BTreeMap<Arc<str>, TopicInfo>,
    /// The topic of the account, if the host keeps one.
    pub(crate) audit: Option<TopicId>,
    pub(crate) telling: Telling,
}

/// Asks tasks to stop: a step that is under way ends behind the delivery at hand.
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
}
