//! What a task is told when it opens (`docs/protocol.md`, Baselines and duplicates).

use std::collections::BTreeSet;

use parsley_core::{Channel, NodeError, Offset, OpenFacts, Scope};
use parsley_stage::Initial;

use super::context::Context;
use crate::log::{State, TaskStores};

/// Reads the facts of one moment: no earlier execution of the task can commit any more, and its state is at rest.
pub(crate) fn open_facts(
    context: &Context,
    state: &State,
    stores: &TaskStores,
) -> Result<OpenFacts, NodeError> {
    let storage = &state.storage;
    let recorded = Scope::recorded(&stores.ordering)?;
    let inputs: Vec<Channel> = context
        .input_names()
        .map(|(_, info)| info.id.partition(context.partition))
        .collect();
    let sinks: BTreeSet<_> = context.sink_ids().map(|info| info.id).collect();
    let recorded_sinks = recorded
        .iter()
        .flat_map(|scope| scope.sinks.iter().copied());
    let recorded_inputs = recorded
        .iter()
        .flat_map(|scope| &scope.channels)
        .map(|channel| channel.topic);
    let named: BTreeSet<_> = inputs
        .iter()
        .map(|channel| channel.topic)
        .chain(sinks.iter().copied())
        .chain(recorded_sinks.clone())
        .chain(recorded_inputs)
        .collect();

    let mut facts = OpenFacts {
        // The log answers for all topics there are: one that it does not know is gone for good.
        gone: named
            .into_iter()
            .filter(|topic| storage.topic(*topic).is_none())
            .collect(),
        ..OpenFacts::default()
    };
    let positions = storage.group(&context.group).map(|group| &group.positions);
    let committed = |channel: &Channel| {
        positions
            .and_then(|positions| positions.get(channel))
            .copied()
    };
    for channel in inputs {
        let Some(partition) = storage.partition(channel) else {
            continue;
        };
        facts.log_starts.insert(channel, partition.log_start());
        let joins = recorded
            .as_ref()
            .is_some_and(|scope| !scope.channels.contains(&channel));
        let start = match &recorded {
            None => Some(match context.stage.initial() {
                Initial::Earliest => partition.log_start(),
                Initial::Latest => partition.last_stable_offset(),
            }),
            // A position that the group has left from earlier days says nothing about a channel that joins.
            Some(_) if joins => Some(partition.log_start()),
            Some(_) => committed(&channel),
        };
        facts.start.extend(start.map(|start| (channel, start)));
        if joins {
            facts.ends.insert(channel, partition.high_watermark());
        }
    }
    facts.group_has_positions = recorded.is_none()
        && positions.is_some_and(|positions| {
            positions
                .keys()
                .any(|channel| channel.partition == context.partition)
        });
    for topic in sinks.into_iter().chain(recorded_sinks) {
        let partitions = storage
            .topic(topic)
            .into_iter()
            .flat_map(|topic| &topic.partitions);
        let ends = (0..)
            .zip(partitions)
            .map(|(partition, log)| (topic.partition(partition), log.high_watermark()));
        facts.ends.extend(ends);
    }
    Ok(facts)
}

/// Where to read a channel after an opening: where a joined one resumes, else what the opening committed, else where it was told to start;
/// but not below what is kept, which guard G10 has judged.
pub(crate) fn read_from(
    resume: Option<Offset>,
    committed: Option<Offset>,
    start: Option<Offset>,
    log_start: Offset,
) -> Offset {
    match resume {
        // Not below the log start that the opening was told.
        Some(resume) => resume,
        None => committed.or(start).unwrap_or(log_start),
    }
}
