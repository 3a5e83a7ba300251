//! What a task is told when it opens, as this log knows it.

use std::collections::BTreeMap;
use std::convert::Infallible;

use parsley_core::{Channel, NodeError, Offset, OpenFacts, Scope, TopicId};
use parsley_stage::opening::{self, Bounds, LogFacts};

use super::context::Context;
use crate::log::{State, Storage, TaskStores};

/// Reads the facts of one moment: no earlier execution of the task can commit any more, and its state is at rest.
pub(crate) fn open_facts(
    context: &Context,
    state: &State,
    stores: &TaskStores,
) -> Result<OpenFacts, NodeError> {
    let recorded = Scope::recorded(&stores.ordering)?;
    let mut log = LockedLog {
        storage: &state.storage,
        group: &context.group,
    };
    let topics = context.task_config().topics;
    let Ok(facts) = opening::open_facts(
        &context.stage,
        context.partition,
        &topics,
        recorded.as_ref(),
        &mut log,
    );
    Ok(facts)
}

/// The log under its lock: all answers are of one moment.
struct LockedLog<'a> {
    storage: &'a Storage,
    group: &'a str,
}

impl LogFacts for LockedLog<'_> {
    type Error = Infallible;

    fn positions(&mut self, partition: i32) -> Result<BTreeMap<Channel, Offset>, Infallible> {
        let group = self.storage.group(self.group);
        let positions = group.into_iter().flat_map(|group| &group.positions);
        Ok(positions
            .filter(|(channel, _)| channel.partition == partition)
            .map(|(channel, position)| (*channel, *position))
            .collect())
    }

    /// The log answers for all topics there are: one that it does not know is gone for good.
    fn partitions(&mut self, topic: TopicId) -> Result<Option<i32>, Infallible> {
        Ok(self
            .storage
            .topic(topic)
            .map(|topic| topic.partition_count()))
    }

    fn bounds(&mut self, channel: Channel) -> Result<Bounds, Infallible> {
        let partition = self.storage.partition(channel);
        let partition =
            partition.expect("the opening asks about partitions of topics that there are");
        Ok(Bounds {
            log_start: partition.log_start(),
            last_stable_offset: partition.last_stable_offset(),
            high_watermark: partition.high_watermark(),
        })
    }
}
