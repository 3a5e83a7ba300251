//! Starting a task: what a host finds out before (`docs/protocol.md`, Baselines and duplicates).

use std::collections::{BTreeMap, BTreeSet};

use parsley_core::{
    Channel, NodeConfig, NodeLimits, Offset, OpenFacts, Opened, Scope, SenderId, Sink, TopicId,
};
use parsley_stage::{Initial, Task, TaskConfig, TopicInfo};

use super::run::{Run, Source};
use super::{Sabotage, Slot, TaskHost};
use crate::broker::Outcome;
use crate::engine::{Bare, BareConfig, Engine, ModelProtocol, NodeProtocol};
use crate::fault::HostFault;
use crate::host::{APPLICATION, Deployment, Event, Started, Stop, TaskNo};
use crate::plan::Driver;

impl TaskHost {
    pub(super) fn start_run(&mut self, task: TaskNo, now: u64) -> Result<Started, Stop> {
        self.fence_predecessor(task)?;
        let slot = self.slot(task).ok_or_else(|| failed("no such task"))?;
        let deployment = self
            .stages
            .get(&slot.stage)
            .ok_or_else(|| failed("the stage is not deployed"))?
            .clone();
        let topics = self.resolve(&deployment);
        let facts = self.open_facts(slot, &deployment, &topics)?;
        let (mut engine, opened) = open_engine(&self.sabotage, slot, &deployment, &topics, &facts)?;
        let restored = engine.held();
        let step = engine.finish(&[])?;
        let committed: BTreeMap<Channel, Offset> = step.positions.iter().copied().collect();
        let owed = consumed(slot.partition, &deployment, &topics)
            .into_iter()
            .map(|channel| {
                let log_start = facts.log_starts.get(&channel).copied().unwrap_or(0);
                let start = facts.start.get(&channel).copied();
                let resume = opened.resume.get(&channel).copied();
                let position = match resume {
                    Some(resume) => resume,
                    // Where the group says, which may be lower than what the state knows.
                    None => start
                        .or(committed.get(&channel).copied())
                        .unwrap_or(log_start),
                };
                (channel, position)
            })
            .collect::<Vec<_>>();
        let sources = owed.iter().map(|&(channel, position)| {
            let trusted = self.trusted_position(task, channel);
            Source::new(channel, trusted.unwrap_or(position))
        });
        let sources = sources.collect();
        let started = Started {
            restored,
            consumed: owed,
            seeded: opened
                .joined
                .iter()
                .filter(|joined| joined.seed.is_some())
                .count() as u64,
        };
        engine.committed();
        let slot = self.slot_mut(task)?;
        slot.positions.extend(committed);
        slot.ordering.apply(step.ordering);
        slot.fold.apply(step.fold);
        slot.run = Some(Run::new(engine, sources, topics, now));
        self.events.push(Event::Committed(task));
        Ok(started)
    }

    /// No earlier execution can commit any more, and what it committed is visible everywhere.
    fn fence_predecessor(&mut self, task: TaskNo) -> Result<(), Stop> {
        let Some(txn) = self.slot(task).and_then(|slot| slot.last) else {
            return Ok(());
        };
        if self.broker.outcome(txn).is_none() {
            let outcome = if self.shirks(HostFault::KeepsSendsAfterAbort) {
                Outcome::Committed
            } else {
                Outcome::Aborted
            };
            if self.broker.end(txn, outcome).is_err() {
                // What is not replicated cannot be committed, on purpose or not.
                let _ended = self.broker.end(txn, Outcome::Aborted);
            }
        }
        if self.broker.is_complete(txn) {
            return Ok(());
        }
        if !self.shirks(HostFault::RestartsBeforeDecision) {
            return Err(Stop::Waits);
        }
        // Without its markers, a read-committed reader finds the log as it was before.
        let slot = self.slot_mut(task)?;
        if let Some(earlier) = slot.before_last.take() {
            slot.ordering = earlier.ordering;
            slot.fold = earlier.fold;
            slot.positions = earlier.positions;
        }
        Ok(())
    }

    fn resolve(&self, deployment: &Deployment) -> BTreeMap<String, TopicInfo> {
        let declaration = &deployment.declaration;
        let names: BTreeSet<&str> = declaration
            .consumed()
            .chain(declaration.produced())
            .collect();
        let info = |name: &str| {
            let id = self.broker.topic_id(name)?;
            if self.hidden.contains(&id) {
                return None;
            }
            let partitions = self.broker.partitions(id)?;
            Some((name.to_owned(), TopicInfo { id, partitions }))
        };
        names.into_iter().filter_map(info).collect()
    }

    fn open_facts(
        &self,
        slot: &Slot,
        deployment: &Deployment,
        topics: &BTreeMap<String, TopicInfo>,
    ) -> Result<OpenFacts, Stop> {
        let recorded = self.recorded_scope(slot)?;
        let inputs = consumed(slot.partition, deployment, topics);
        let sinks: BTreeSet<TopicId> = deployment
            .declaration
            .produced()
            .filter_map(|name| Some(topics.get(name)?.id))
            .collect();
        let mut facts = OpenFacts::default();
        let recorded_topics = recorded.iter().flat_map(|scope| {
            let inputs = scope.channels.iter().map(|channel| channel.topic);
            inputs.chain(scope.sinks.iter().copied())
        });
        let named = inputs.iter().map(|channel| channel.topic);
        facts.gone = recorded_topics
            .clone()
            .chain(named)
            .chain(sinks.iter().copied())
            .filter(|&topic| !self.broker.exists(topic))
            .collect();
        for channel in inputs {
            let log_start = self.broker.log_start(channel).unwrap_or(0);
            facts.log_starts.insert(channel, log_start);
            let joins = recorded
                .as_ref()
                .is_some_and(|scope| !scope.channels.contains(&channel));
            let start = match &recorded {
                None => Some(match deployment.plan.initial {
                    Initial::Earliest => log_start,
                    Initial::Latest => self.broker.last_stable_offset(channel).unwrap_or(0),
                }),
                Some(_) if joins => Some(log_start),
                Some(_) => slot.positions.get(&channel).copied(),
            };
            let start = match start {
                Some(start) if self.shirks(HostFault::JumpsOverLogStart) => {
                    Some(start.max(log_start))
                }
                start => start,
            };
            facts.start.extend(start.map(|start| (channel, start)));
            if joins {
                facts
                    .ends
                    .extend(self.end_of(channel).map(|end| (channel, end)));
            }
        }
        if self.shirks(HostFault::JumpsOverLogStart) || self.shirks(HostFault::PausesChecks) {
            facts.log_starts.clear();
        }
        if self.shirks(HostFault::PausesChecks) {
            facts.gone.clear();
        }
        facts.group_has_positions = recorded.is_none() && !slot.positions.is_empty();
        let recorded_sinks = recorded
            .iter()
            .flat_map(|scope| scope.sinks.iter().copied());
        for topic in sinks.into_iter().chain(recorded_sinks) {
            if self.hidden.contains(&topic) {
                facts.unresolved.insert(topic);
                continue;
            }
            for partition in 0..self.broker.partitions(topic).unwrap_or(0) {
                let channel = topic.partition(partition);
                let end = self.end_of(channel).unwrap_or(0);
                facts.ends.insert(channel, end);
            }
        }
        Ok(facts)
    }

    /// For a host that trusts names: the position that the group has for a partition of another topic that had the name.
    fn trusted_position(&self, task: TaskNo, channel: Channel) -> Option<Offset> {
        if !self.shirks(HostFault::TrustsNames) {
            return None;
        }
        let slot = self.slot(task)?;
        let (name, _) = self.broker.name_of(channel.topic)?;
        let same = |other: Channel| {
            let named = self.broker.name_of(other.topic);
            other != channel
                && other.partition == channel.partition
                && named.is_some_and(|(other, _)| other == name)
        };
        let found = slot.positions.iter().find(|&(&other, _)| same(other));
        found.map(|(_, &position)| position)
    }

    fn end_of(&self, channel: Channel) -> Option<Offset> {
        if self.shirks(HostFault::RestartsWithoutEnds) {
            return Some(0);
        }
        if self.shirks(HostFault::ReadsStableEnds) {
            return self.broker.last_stable_offset(channel);
        }
        self.broker.high_watermark(channel)
    }

    fn recorded_scope(&self, slot: &Slot) -> Result<Option<Scope>, Stop> {
        if self.uses_model() {
            return Ok(slot.model.recorded_scope());
        }
        Ok(Scope::recorded(&slot.ordering)?)
    }

    pub(super) fn uses_model(&self) -> bool {
        matches!(self.sabotage, Sabotage::Protocol(_) | Sabotage::Model)
    }
}

/// The channels that a task consumes.
fn consumed(
    partition: i32,
    deployment: &Deployment,
    topics: &BTreeMap<String, TopicInfo>,
) -> Vec<Channel> {
    let channel = |name| {
        let info: &TopicInfo = topics.get(name)?;
        (partition < info.partitions).then(|| info.id.partition(partition))
    };
    let channels: BTreeSet<Channel> = deployment
        .declaration
        .consumed()
        .filter_map(channel)
        .collect();
    channels.into_iter().collect()
}

fn open_engine(
    sabotage: &Sabotage,
    slot: &Slot,
    deployment: &Deployment,
    topics: &BTreeMap<String, TopicInfo>,
    facts: &OpenFacts,
) -> Result<(Engine, Opened), Stop> {
    let bare = BareConfig {
        stage: deployment.stage,
        partition: slot.partition,
        declaration: deployment.declaration.clone(),
        topics: topics.clone(),
        plan: deployment.plan.clone(),
    };
    let missing = deployment
        .declaration
        .produced()
        .find(|&name| !topics.contains_key(name));
    let config = || NodeConfig {
        sender: SenderId::of_task(APPLICATION, deployment.plan.name, slot.partition),
        inputs: consumed(slot.partition, deployment, topics),
        sinks: deployment
            .declaration
            .produced()
            .filter_map(|name| topics.get(name))
            .map(|info| Sink {
                topic: info.id,
                partitions: info.partitions,
            })
            .collect(),
        limits: NodeLimits::default(),
    };
    let refused = |name: &str| Stop::Refused {
        code: "vc-missing-sink".to_owned(),
        found: format!("the topic {name} cannot be resolved"),
    };
    if matches!(sabotage, Sabotage::Protocol(_) | Sabotage::Model) {
        if let Some(name) = missing {
            return Err(refused(name));
        }
        let name = format!("{APPLICATION}/{}/{}", deployment.plan.name, slot.partition);
        let (protocol, opened) = ModelProtocol::open(&config(), name, facts, slot.model.clone())?;
        return Ok((Engine::Model(Bare::new(protocol, bare)), opened));
    }
    match deployment.plan.driver {
        Driver::Node => {
            if let Some(name) = missing {
                return Err(refused(name));
            }
            let (protocol, opened) = NodeProtocol::open(config(), facts, slot.ordering.clone())?;
            Ok((Engine::Node(Box::new(Bare::new(protocol, bare))), opened))
        }
        Driver::Task => {
            let mut config = TaskConfig::new(APPLICATION, slot.partition, topics.clone());
            config.max_step_deliveries = deployment.plan.step_deliveries_max;
            let (task, opened) = Task::open(
                deployment.built.clone(),
                config,
                facts,
                Box::new(slot.ordering.clone()),
                Box::new(slot.fold.clone()),
            )?;
            Ok((Engine::Task(Box::new(task)), opened))
        }
    }
}

fn failed(why: &str) -> Stop {
    Stop::Failed(why.to_owned())
}
