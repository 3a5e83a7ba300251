//! Topics by identity: a cluster is asked by name, stamps and recorded scopes name identities.

use std::collections::{BTreeMap, BTreeSet};

use parsley_core::{Channel, TopicId};

use crate::cluster::{Cluster, ClusterError};

/// The names that topics have or had, as far as they were heard of.
#[derive(Debug, Default)]
pub(crate) struct KnownTopics(BTreeMap<TopicId, String>);

/// What became of topics. One that is in neither part is not known about: denied, or of a name that nobody knows (decision K11).
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// How many partitions each topic has that is there.
    pub(crate) there: BTreeMap<TopicId, i32>,
    /// Those that are definitively gone.
    pub(crate) gone: BTreeSet<TopicId>,
}

impl KnownTopics {
    /// Takes note of names.
    pub(crate) fn learn(&mut self, names: impl IntoIterator<Item = (TopicId, String)>) {
        self.0.extend(names);
    }

    /// A topic's name.
    pub(crate) fn name(&self, topic: TopicId) -> Option<&str> {
        self.0.get(&topic).map(String::as_str)
    }

    /// Looks for topics: in the list of those that the cluster shows, and those that it does not show by their names. What is not shown may
    /// be denied; gone is what every broker says of a name (decisions K11 and K40).
    pub(crate) fn find(
        &mut self,
        cluster: &Cluster,
        topics: &BTreeSet<TopicId>,
    ) -> Result<Found, ClusterError> {
        let mut found = Found::default();
        if topics.is_empty() {
            return Ok(found);
        }
        for (topic, (name, partitions)) in cluster.all_topics()? {
            if topics.contains(&topic) {
                found.there.insert(topic, partitions);
                self.0.insert(topic, name);
            }
        }
        for topic in topics {
            if found.there.contains_key(topic) {
                continue;
            }
            let Some(name) = self.name(*topic) else {
                tracing::debug!(%topic, "a topic of unknown name is not shown by the cluster");
                continue;
            };
            match cluster.identified(&[(name, *topic)].into(), &BTreeSet::new()) {
                Ok(answers) => match answers.get(name).copied().flatten() {
                    Some(info) if info.id == *topic => {
                        found.there.insert(*topic, info.partitions);
                    }
                    // Its name is another topic's by now, or nobody's.
                    _ => {
                        found.gone.insert(*topic);
                    }
                },
                Err(error) if error.is_denial() => {
                    tracing::debug!(%topic, %error, "a topic cannot be asked about");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Of these channels those that there are, and what their topics are called. Clocks come from outside, and may claim on a partition that there is not:
    /// whoever asks for it waits in vain, and learns nothing of the others either.
    pub(crate) fn there(
        &self,
        cluster: &Cluster,
        channels: impl IntoIterator<Item = Channel>,
    ) -> Result<BTreeMap<Channel, &str>, ClusterError> {
        let named = |channel: Channel| Some((channel, self.name(channel.topic)?));
        let mut there: BTreeMap<Channel, &str> = channels.into_iter().filter_map(named).collect();
        let names: BTreeSet<&str> = there.values().copied().collect();
        let shown = cluster.shown(&names.into_iter().collect::<Vec<_>>())?;
        there.retain(|channel, name| {
            let info = shown.get(*name);
            info.is_some_and(|info| info.id == channel.topic && channel.partition < info.partitions)
        });
        Ok(there)
    }
}
