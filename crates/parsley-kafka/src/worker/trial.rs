//! Opening a task to see whether it can be, and throwing it away.

use std::collections::{BTreeMap, BTreeSet};

use parsley_core::{Channel, Offset};
use parsley_stage::TaskError;
use rdkafka::consumer::BaseConsumer;

use super::task::{ClusterFacts, RunningTask};
use super::{Trouble, position_lost};
use crate::cluster::Cluster;
use crate::known::KnownTopics;
use crate::restore::Restore;
use crate::stage::{Declared, Resolved};

/// A stage whose tasks are opened on trial: of what an opening does nothing gets to the cluster.
pub(crate) struct Trial<'a> {
    /// A read-committed client of the group.
    pub(crate) asker: &'a BaseConsumer,
    pub(crate) cluster: &'a Cluster,
    pub(crate) declared: &'a Declared,
    pub(crate) resolved: &'a Resolved,
}

impl Trial<'_> {
    /// Opens a task whose state is restored, as a worker would, and looks whether it could read on. `committed` are the positions of the group, which have to be
    /// older than the state: somebody may go on with both.
    pub(crate) fn open(
        &self,
        restore: Restore,
        partition: i32,
        committed: BTreeMap<Channel, Offset>,
    ) -> Result<(), Trouble> {
        let mut known = KnownTopics::default();
        let names = self.resolved.names();
        known.learn(names.map(|(topic, name)| (topic, name.to_owned())));
        let log = ClusterFacts {
            committed: Some(committed),
            asker: self.asker,
            cluster: self.cluster,
            declared: self.declared,
            resolved: self.resolved,
            gone: &BTreeSet::new(),
            known: &mut known,
        };
        let task = RunningTask::open(restore, log, partition)?;
        for (channel, position) in task.to_read() {
            let Some(name) = self.resolved.name_of(channel.topic) else {
                continue;
            };
            let (_, end) = self.cluster.bounds(name, channel.partition)?;
            if position > end {
                let refusal = position_lost(channel, position, &format!("{name} ends at {end}"));
                return Err(Trouble::task(partition, TaskError::Refused(refusal)));
            }
        }
        Ok(())
    }
}
