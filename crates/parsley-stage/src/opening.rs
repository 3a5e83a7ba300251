//! What a task has to be told before it opens (`docs/protocol.md`, Baselines and duplicates), and from where.

use std::collections::{BTreeMap, BTreeSet};

use parsley_core::{Channel, Offset, OpenFacts, Scope, TopicId};

use crate::stage::{Initial, Stage};
use crate::task::TopicInfo;

/// How far a partition reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The lowest offset that it still has.
    pub log_start: Offset,
    /// Where a read-committed reader stops.
    pub last_stable_offset: Offset,
    /// One past the last offset, committed or not.
    pub high_watermark: Offset,
}

/// A log as a host reads it before it opens a task. Its answers come in the order in which they are asked for: positions first, as nothing
/// that an earlier owner of the task had begun may come after them.
pub trait LogFacts {
    /// Why the log gave no answer.
    type Error;

    /// The positions that the stage's group has committed, on any channel of this partition number.
    ///
    /// # Errors
    ///
    /// When there is no answer.
    fn positions(&mut self, partition: i32) -> Result<BTreeMap<Channel, Offset>, Self::Error>;

    /// How many partitions a topic has; `None` when there is no such topic any more.
    ///
    /// # Errors
    ///
    /// When there is no answer.
    fn partitions(&mut self, topic: TopicId) -> Result<Option<i32>, Self::Error>;

    /// How far a partition reaches, of a topic that there is.
    ///
    /// # Errors
    ///
    /// When there is no answer.
    fn bounds(&mut self, channel: Channel) -> Result<Bounds, Self::Error>;
}

/// Asks the log for what a task of a stage has to be told. `recorded` is the scope that its last execution has left; `topics` are the
/// stage's own.
///
/// # Errors
///
/// When the log gives no answer.
pub fn open_facts<L: LogFacts>(
    stage: &Stage,
    partition: i32,
    topics: &BTreeMap<String, TopicInfo>,
    recorded: Option<&Scope>,
    log: &mut L,
) -> Result<OpenFacts, L::Error> {
    let committed = log.positions(partition)?;
    let ids = |names: &mut dyn Iterator<Item = &str>| -> BTreeSet<TopicId> {
        names
            .filter_map(|name| topics.get(name))
            .map(|info| info.id)
            .collect()
    };
    let inputs = ids(&mut stage.inputs());
    let recorded_sinks = recorded
        .iter()
        .flat_map(|scope| scope.sinks.iter().copied());
    let sinks: BTreeSet<TopicId> = ids(&mut stage.sinks())
        .into_iter()
        .chain(recorded_sinks)
        .collect();
    let recorded_inputs = recorded
        .iter()
        .flat_map(|scope| &scope.channels)
        .map(|channel| channel.topic);

    let mut facts = OpenFacts::default();
    let mut counts = BTreeMap::new();
    let named: BTreeSet<TopicId> = inputs.iter().copied().chain(recorded_inputs).collect();
    for topic in named.union(&sinks).copied() {
        match log.partitions(topic)? {
            Some(partitions) => drop(counts.insert(topic, partitions)),
            None => drop(facts.gone.insert(topic)),
        }
    }
    for channel in inputs.iter().map(|topic| topic.partition(partition)) {
        if !counts.contains_key(&channel.topic) {
            continue;
        }
        let bounds = log.bounds(channel)?;
        facts.log_starts.insert(channel, bounds.log_start);
        let joins = recorded.is_some_and(|scope| !scope.channels.contains(&channel));
        let start = match recorded {
            None => Some(match stage.initial() {
                Initial::Earliest => bounds.log_start,
                Initial::Latest => bounds.last_stable_offset,
            }),
            // A position that the group has left from earlier days says nothing about a channel that joins.
            Some(_) if joins => Some(bounds.log_start),
            Some(_) => committed.get(&channel).copied(),
        };
        facts.start.extend(start.map(|start| (channel, start)));
        if joins {
            facts.ends.insert(channel, bounds.high_watermark);
        }
    }
    facts.group_has_positions = recorded.is_none() && !committed.is_empty();
    for topic in sinks {
        for partition in 0..counts.get(&topic).copied().unwrap_or(0) {
            let channel = topic.partition(partition);
            facts
                .ends
                .insert(channel, log.bounds(channel)?.high_watermark);
        }
    }
    Ok(facts)
}

/// Where to read a channel after an opening: where a joined one resumes, else what the opening committed, else where it was told to start;
/// but not below what is kept, which guard G10 has judged.
pub fn read_from(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_begins_at_the_first_of_what_is_known() {
        assert_eq!(read_from(Some(9), Some(7), Some(5), 3), 9);
        assert_eq!(read_from(None, Some(7), Some(5), 3), 7);
        assert_eq!(read_from(None, None, Some(5), 3), 5);
        assert_eq!(read_from(None, None, None, 3), 3);
    }
}
