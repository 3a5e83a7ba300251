//! The application on the brokers of a cluster, as far as this process runs it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parsley::App;
use parsley::core::Offset;
use parsley::kafka::{KafkaRunning, Status, TaskState, TaskStatus, WorkerState};
use parsley::report::{Holds, Observed, Report};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;

use super::cluster::{ANSWER, Cluster, say};
use super::failure::ClusterFailure;
use crate::demo::error::DemoError;
use crate::demo::ground::{Application, TOPICS};

/// How often it is looked whether there is nothing to read.
const LOOK: Duration = Duration::from_millis(50);

/// How long a wait for a change of the status is.
const WAIT: Duration = Duration::from_secs(1);

/// What a partition of a topic is read up to, or goes up to.
type Offsets = BTreeMap<(String, i32), Offset>;

/// The application, with what tells whether it rests: that is asked of the cluster, as other processes may have a part of the tasks.
pub struct OnBrokers {
    cluster: Arc<Cluster>,
    running: KafkaRunning,
    /// For each stage who asks for the positions of its group, and its inputs.
    groups: Vec<(BaseConsumer, Vec<String>)>,
}

impl OnBrokers {
    pub fn new(
        cluster: &Arc<Cluster>,
        app: &App,
        running: KafkaRunning,
    ) -> Result<Self, ClusterFailure> {
        let groups = app.stages().iter().map(|stage| {
            let asker = cluster
                .client()
                .set("group.id", app.consumer_group(stage))
                .set("isolation.level", "read_committed")
                .set("enable.auto.commit", "false")
                .create()
                .map_err(ClusterFailure::Client)?;
            Ok((asker, stage.inputs().map(str::to_owned).collect()))
        });
        Ok(Self {
            cluster: Arc::clone(cluster),
            running,
            groups: groups.collect::<Result<_, ClusterFailure>>()?,
        })
    }

    /// Whether every task that this process has was opened. One that is refused never is: that ends the demo by itself.
    fn has_opened(&self) -> bool {
        let status = self.running.status();
        status.workers.iter().all(|worker| {
            let is_open = |task: &TaskStatus| task.state == TaskState::Running;
            worker.has_joined && worker.tasks.values().all(is_open)
        })
    }

    /// Whether each stage has read all of its inputs and committed what came of it, which none of them has added to since. What is held is not
    /// told by this.
    fn is_at_rest(&self) -> Result<bool, ClusterFailure> {
        let ends = self.input_ends()?;
        for (asker, inputs) in &self.groups {
            let positions = self.cluster.ask_client(|| positions(asker, inputs))?;
            let is_read = |((topic, partition), end): (&(String, i32), &Offset)| {
                !inputs.contains(topic) || positions.get(&(topic.clone(), *partition)) == Some(end)
            };
            if !ends.iter().all(is_read) {
                return Ok(false);
            }
        }
        // What a stage has sent is there before its position is. So nothing came of what was read, or the ends are others.
        Ok(self.input_ends()? == ends)
    }

    /// The high watermarks: an open transaction may come to something yet.
    fn input_ends(&self) -> Result<Offsets, ClusterFailure> {
        let is_input = |topic: &str| {
            let mut inputs = self.groups.iter().flat_map(|(_, inputs)| inputs);
            inputs.any(|input| input == topic)
        };
        let mut ends = BTreeMap::new();
        for (topic, partitions) in TOPICS.into_iter().filter(|(topic, _)| is_input(topic)) {
            for partition in 0..partitions {
                let end = self.cluster.end(topic, partition)?;
                ends.insert((topic.to_owned(), partition), end);
            }
        }
        Ok(ends)
    }
}

/// The committed positions of a group.
fn positions(asker: &BaseConsumer, inputs: &[String]) -> Result<Offsets, KafkaError> {
    let mut list = TopicPartitionList::new();
    for (topic, partitions) in TOPICS {
        if inputs.iter().any(|input| input == topic) {
            for partition in 0..partitions {
                list.add_partition(topic, partition);
            }
        }
    }
    let committed = asker.committed_offsets(list, ANSWER)?;
    let mut positions = BTreeMap::new();
    for element in committed.elements() {
        element.error()?;
        if let rdkafka::Offset::Offset(offset) = element.offset() {
            positions.insert((element.topic().to_owned(), element.partition()), offset);
        }
    }
    Ok(positions)
}

impl Observed for OnBrokers {
    fn report(&self) -> Report {
        self.running.report()
    }

    fn holds(&self) -> Holds {
        self.running.holds()
    }
}

impl Application for OnBrokers {
    /// A step that fails is tried again, for a cluster that does not answer may. That is said, once for each reason in a row.
    fn await_failure(&self) -> Option<DemoError> {
        let mut said: BTreeMap<usize, String> = BTreeMap::new();
        let mut found = None;
        loop {
            let is_over = self.running.wait(WAIT, |status| {
                for worker in &status.workers {
                    match &worker.state {
                        WorkerState::Retrying { message, .. } => {
                            if said.insert(worker.number, message.clone()).as_ref() != Some(message)
                            {
                                let stage = &worker.stage;
                                say(&format!("stage {stage}: {message}; trying again"));
                            }
                        }
                        _ => drop(said.remove(&worker.number)),
                    }
                }
                found = broken(status);
                found.is_some() || status.is_over()
            });
            if is_over {
                return found;
            }
        }
    }

    fn await_rest(&self) -> Result<(), DemoError> {
        // What opens may find that its state is lost, or deliver what was held. It is over when that is, whatever has been committed before.
        while !(self.has_opened() && self.is_at_rest()?) {
            self.cluster.interrupted()?;
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// A position may pass what a full step has left to the next.
    fn rests_for_good(&self) -> bool {
        false
    }

    fn is_struggling(&self) -> bool {
        let status = self.running.status();
        status.workers.iter().any(|worker| {
            let is_at_work = |state: &TaskState| *state == TaskState::Running;
            worker.state != WorkerState::Running
                || worker.tasks.is_empty()
                || !worker.tasks.values().all(|task| is_at_work(&task.state))
        })
    }

    fn stop(&self) -> Result<(), DemoError> {
        self.running.stop();
        Ok(())
    }
}

fn broken(status: &Status) -> Option<DemoError> {
    if let Some((stage, partition, refusal)) = status.refused().first() {
        return Some(DemoError::Refused {
            stage: (*stage).to_owned(),
            partition: *partition,
            refusal: (*refusal).clone(),
        });
    }
    status
        .workers
        .iter()
        .find_map(|worker| match &worker.state {
            WorkerState::Failed { message } => Some(DemoError::Worker {
                stage: worker.stage.to_string(),
                message: message.clone(),
            }),
            _ => None,
        })
}
