//! What a host tells a task when it opens it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parsley_core::{
    Channel, NodeConfig, NodeLimits, OpenFacts, Refusal, RefusalCode, SenderId, Sink as NodeSink,
    TopicId,
};

use super::TaskError;
use crate::outbox::Sink;
use crate::stage::Stage;
use crate::ticks::TickTopicWidth;
use crate::topic::DeclaredTopic;

/// A declared topic as the log knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its identity.
    pub id: TopicId,
    /// How many partitions it has, at least 1.
    pub partitions: i32,
}

/// What a task is opened with.
#[derive(Clone, Debug)]
pub struct TaskConfig {
    /// The application's name.
    pub application: String,
    /// Which of the stage's partitions this task is.
    pub partition: i32,
    /// The stage's topics by name. Others may stand there too.
    pub topics: BTreeMap<String, TopicInfo>,
    /// Limits of the ordering state.
    pub node: NodeLimits,
    /// A step ends after the delivery whose sends reach this many rounds. At least 1; default 8.
    pub max_rounds: usize,
    /// A step ends after this many deliveries. At least 1; default 1,000.
    pub max_step_deliveries: usize,
}

impl TaskConfig {
    /// The default of [`TaskConfig::max_rounds`].
    pub const MAX_ROUNDS: usize = 8;
    /// The default of [`TaskConfig::max_step_deliveries`].
    pub const MAX_STEP_DELIVERIES: usize = 1000;

    /// A configuration with default limits.
    pub fn new(
        application: impl Into<String>,
        partition: i32,
        topics: BTreeMap<String, TopicInfo>,
    ) -> Self {
        Self {
            application: application.into(),
            partition,
            topics,
            node: NodeLimits::default(),
            max_rounds: Self::MAX_ROUNDS,
            max_step_deliveries: Self::MAX_STEP_DELIVERIES,
        }
    }
}

/// A stage's declaration, resolved for one task.
pub(super) struct Resolved {
    /// The channels that the task consumes and which input each belongs to, in channel order.
    pub(super) inputs: Vec<(Channel, usize)>,
    pub(super) sinks: Vec<Sink>,
    pub(super) node: NodeConfig,
}

impl Resolved {
    pub(super) fn new(stage: &Stage, config: &TaskConfig) -> Result<Self, TaskError> {
        let mut inputs = Vec::new();
        for (index, input) in stage.declared_inputs().iter().enumerate() {
            let info = known(config, &input.topic)?.ok_or_else(|| TaskError::UnresolvedInput {
                topic: Arc::clone(&input.topic.name),
            })?;
            if (0..info.partitions).contains(&config.partition) {
                inputs.push((info.id.partition(config.partition), index));
            }
        }
        let partitions = |name: &str| config.topics.get(name).map(|info| info.partitions);
        TickTopicWidth::check(stage, partitions).map_err(TaskError::TickTopicWidth)?;
        if inputs.is_empty() {
            return Err(TaskError::NoChannel {
                stage: stage.name().into(),
                partition: config.partition,
            });
        }
        let mut sinks = Vec::new();
        for declared in stage.declared_sinks() {
            let Some(info) = known(config, declared)? else {
                let found = format!(
                    "the topic {} of stage {} cannot be resolved",
                    declared.name,
                    stage.name()
                );
                return Err(TaskError::Refused(Refusal::of_node(
                    RefusalCode::MissingSink,
                    found,
                )));
            };
            sinks.push(Sink {
                declared: Arc::clone(declared),
                id: info.id,
                partitions: info.partitions,
            });
        }
        inputs.sort_unstable();
        let shared = has_repetition(inputs.iter().map(|(channel, _)| channel.topic))
            .or_else(|| has_repetition(sinks.iter().map(|sink| sink.id)));
        if let Some(id) = shared {
            return Err(TaskError::SharedIdentity { id });
        }
        let node = NodeConfig {
            sender: SenderId::of_task(&config.application, stage.name(), config.partition),
            inputs: inputs.iter().map(|(channel, _)| *channel).collect(),
            sinks: sinks
                .iter()
                .map(|sink| NodeSink {
                    topic: sink.id,
                    partitions: sink.partitions,
                })
                .collect(),
            limits: config.node,
        };
        Ok(Self {
            inputs,
            sinks,
            node,
        })
    }

    /// Every partition of every sink has its end among the facts, unless the sink is gone, which the node refuses.
    pub(super) fn check_ends(&self, facts: &OpenFacts) -> Result<(), TaskError> {
        let known =
            |sink: &&Sink| !facts.gone.contains(&sink.id) && !facts.unresolved.contains(&sink.id);
        for sink in self.sinks.iter().filter(known) {
            let unread = (0..sink.partitions)
                .find(|&partition| !facts.ends.contains_key(&sink.id.partition(partition)));
            if let Some(partition) = unread {
                return Err(TaskError::MissingEnd {
                    topic: Arc::clone(&sink.declared.name),
                    partition,
                });
            }
        }
        Ok(())
    }
}

fn known(config: &TaskConfig, topic: &DeclaredTopic) -> Result<Option<TopicInfo>, TaskError> {
    match config.topics.get(&*topic.name) {
        Some(info) if info.partitions < 1 => Err(TaskError::NoPartitions {
            topic: Arc::clone(&topic.name),
            found: info.partitions,
        }),
        info => Ok(info.copied()),
    }
}

fn has_repetition(ids: impl Iterator<Item = TopicId>) -> Option<TopicId> {
    let mut seen = BTreeSet::new();
    ids.into_iter().find(|id| !seen.insert(*id))
}
