//! The phases of a script that are played, not drawn.

use bytes::Bytes;
use parsley_core::Offset;

use super::{Life, Violation, World};
use crate::host::{ConformanceHost, Move, TRUNCATION_DELAY, TaskNo};
use crate::plan::Phase;

impl<H: ConformanceHost> World<H> {
    pub(super) fn play(&mut self, phase: &Phase) -> Result<(), Violation> {
        match phase {
            // Drawn by the scheduler, not played.
            Phase::Random(_) => Ok(()),
            Phase::Settle => self.settle(false),
            Phase::Send(edge, count) => {
                let Some(edge) = self.edge_number(edge) else {
                    return Ok(());
                };
                let topics = self.plan.edges[edge].to().len().max(1);
                for number in 0..*count as usize {
                    self.edge_send_now(edge, number % topics, None)?;
                }
                Ok(())
            }
            Phase::SendTo(edge, topic) => self.send_to(edge, topic, None),
            Phase::SendCorrupt(edge, topic) => {
                self.send_to(edge, topic, Some(Bytes::from_static(b"\x01\xff")))
            }
            Phase::LeaveOpen(edge, topic) => self.send_to(edge, topic, None),
            Phase::Decide(edge, commit) => {
                if let Some(edge) = self.edge_number(edge) {
                    self.await_acknowledgement(edge)?;
                    self.edge_end(edge, *commit);
                }
                Ok(())
            }
            Phase::Read(edge) => {
                let Some(edge) = self.edge_number(edge) else {
                    return Ok(());
                };
                for number in self.observed_channels(edge) {
                    while self.edge_read(edge, number)? {}
                }
                Ok(())
            }
            Phase::Start(stage) => {
                for task in self.stage_tasks(stage) {
                    if self.tasks[task].life == Life::Stopped {
                        self.tasks[task].life = Life::Down;
                    }
                    self.start_when_possible(task)?;
                }
                Ok(())
            }
            Phase::Stop(stage) => {
                for task in self.stage_tasks(stage) {
                    self.stop(task)?;
                }
                Ok(())
            }
            Phase::Deploy(stage, declaration) => self.deploy(stage, *declaration),
            Phase::ReadOnly(stage, topic) => self.read_only(stage, 0, topic, None),
            Phase::ReadOnlyAt(stage, partition, topic) => {
                self.read_only(stage, *partition, topic, None)
            }
            Phase::TickAmong(stage, topic, after) => self.read_only(stage, 0, topic, Some(*after)),
            Phase::Crash(stage) => {
                for task in self.stage_tasks(stage) {
                    self.crash(task);
                }
                Ok(())
            }
            Phase::SweepAll(topic) => {
                for number in self.topic_channels(topic) {
                    self.sweep(number, Offset::MAX);
                }
                Ok(())
            }
            Phase::SweepBelow(topic, before) => {
                if let Some(&number) = self.topic_channels(topic).first() {
                    self.sweep(number, *before);
                }
                Ok(())
            }
            Phase::Delete(topic) => {
                self.delete(topic);
                Ok(())
            }
            Phase::Hide(topic) => {
                self.host.hide_topic(topic);
                self.note(None, || format!("{topic} does not resolve"));
                Ok(())
            }
            Phase::Recreate(topic) => {
                let planned = self
                    .plan
                    .topics
                    .iter()
                    .find(|planned| planned.name == *topic);
                if let Some(planned) = planned
                    && !self.topics.get(topic).is_some_and(|topic| topic.exists)
                {
                    let (name, partitions) = (planned.name, planned.partitions);
                    self.create_topic(name, partitions);
                    self.counts.recreations += 1;
                    self.note(None, || format!("{name} is created again"));
                }
                Ok(())
            }
            Phase::Check(stage) => {
                for task in self.stage_tasks(stage) {
                    self.finish_step(task)?;
                    self.check(task)?;
                }
                Ok(())
            }
            Phase::Age => {
                self.now += TRUNCATION_DELAY + 1;
                Ok(())
            }
            Phase::Evidence(stage) => {
                for task in self.stage_tasks(stage) {
                    self.finish_step(task)?;
                    self.give_evidence(task)?;
                }
                Ok(())
            }
            Phase::EvidenceMove(stage) => {
                for task in self.stage_tasks(stage) {
                    self.finish_step(task)?;
                    self.move_evidence(task)?;
                }
                Ok(())
            }
            Phase::Tick(stage) => {
                for task in self.stage_tasks(stage) {
                    self.finish_step(task)?;
                    self.step_task(task, &[], Some(0), None)?;
                    self.finish_step(task)?;
                }
                Ok(())
            }
            Phase::StallMarkers(topic) => {
                let channels = self.topic_channels(topic);
                self.stalled.extend(channels);
                Ok(())
            }
            Phase::ResumeMarkers(topic) => {
                for number in self.topic_channels(topic) {
                    self.stalled.remove(&number);
                }
                Ok(())
            }
            Phase::Forget(stage, what) => {
                for task in self.stage_tasks(stage) {
                    if !self.runs(task) {
                        self.host.forget(TaskNo(task), *what);
                    }
                }
                Ok(())
            }
            Phase::Rewind(stage, by) => {
                for task in self.stage_tasks(stage) {
                    if !self.runs(task) {
                        self.host.rewind(TaskNo(task), *by);
                        self.counts.rewinds += 1;
                    }
                }
                Ok(())
            }
        }
    }

    fn read_only(
        &mut self,
        stage: &str,
        partition: i32,
        topic: &str,
        tick: Option<usize>,
    ) -> Result<(), Violation> {
        let tasks = self.stage_tasks(stage);
        let at = |&task: &usize| self.tasks[task].at.partition == partition;
        let Some(task) = tasks.into_iter().find(at) else {
            return Ok(());
        };
        let number = self
            .topics
            .get(topic)
            .and_then(|topic| topic.channels.get(usize::try_from(partition).ok()?));
        if let Some(&number) = number {
            self.step_task(task, &[(number, usize::MAX, true)], tick, None)?;
            self.finish_step(task)?;
        }
        Ok(())
    }

    /// Mark, question and answer, one after the other, and what comes of them. A question that was under way is answered first.
    pub(super) fn give_evidence(&mut self, task: usize) -> Result<(), Violation> {
        // Two moves end what was under way at most, three are a question of its own.
        for _ in 0..5 {
            self.move_evidence(task)?;
            self.finish_step(task)?;
        }
        Ok(())
    }

    fn send_to(&mut self, edge: &str, topic: &str, clock: Option<Bytes>) -> Result<(), Violation> {
        let Some(edge) = self.edge_number(edge) else {
            return Ok(());
        };
        let to = self.plan.edges[edge].to();
        match to.iter().position(|name| *name == topic) {
            Some(index) => self.edge_send_now(edge, index, clock),
            None => Ok(()),
        }
    }

    /// Sends, and waits until it is acknowledged.
    fn edge_send_now(
        &mut self,
        edge: usize,
        topic: usize,
        clock: Option<Bytes>,
    ) -> Result<(), Violation> {
        self.await_acknowledgement(edge)?;
        self.edge_send(edge, topic, None, clock)?;
        self.await_acknowledgement(edge)
    }

    fn await_acknowledgement(&mut self, edge: usize) -> Result<(), Violation> {
        let channels: Vec<_> = self.edges[edge]
            .unacknowledged
            .iter()
            .map(|&(channel, _)| channel)
            .collect();
        for channel in channels {
            self.make(Move::Replicate(channel))?;
        }
        Ok(())
    }

    fn stage_tasks(&self, stage: &str) -> Vec<usize> {
        self.stage_number(stage)
            .map_or_else(Vec::new, |stage| self.tasks_of(stage))
    }

    fn topic_channels(&self, topic: &str) -> Vec<usize> {
        self.topics
            .get(topic)
            .map_or_else(Vec::new, |topic| topic.channels.clone())
    }

    /// Stops a task between two steps.
    fn stop(&mut self, task: usize) -> Result<(), Violation> {
        self.finish_step(task)?;
        if self.runs(task) {
            self.tasks[task].held_when_down = self.host.held(TaskNo(task));
            self.host.crash(TaskNo(task));
            self.observe()?;
            let actor = self.tasks[task].actor;
            self.note(Some(actor), || "stopped".to_owned());
        }
        if self.tasks[task].life != Life::Refused {
            self.tasks[task].life = Life::Stopped;
        }
        self.tasks[task].told_holds.clear();
        Ok(())
    }

    fn deploy(&mut self, stage: &str, declaration: usize) -> Result<(), Violation> {
        let Some(number) = self.stage_number(stage) else {
            return Ok(());
        };
        let tasks = self.tasks_of(number);
        for &task in &tasks {
            self.stop(task)?;
        }
        let plan = self.plan.stages[number].clone();
        let deployment = self.deployment(number, &plan, declaration)?;
        let numbered: Vec<_> = tasks
            .iter()
            .map(|&task| (TaskNo(task), self.tasks[task].at.partition))
            .collect();
        self.host.deploy(&deployment, &numbered);
        self.stages[number] = deployment;
        self.counts.deployments += 1;
        for task in tasks {
            if self.tasks[task].life != Life::Refused {
                self.tasks[task].life = Life::Down;
                self.start_when_possible(task)?;
            }
        }
        Ok(())
    }

    fn delete(&mut self, topic: &str) {
        let Some(state) = self.topics.get_mut(topic) else {
            return;
        };
        if !state.exists {
            return;
        }
        state.exists = false;
        for number in state.channels.clone() {
            self.channels[number].exists = false;
            self.oracle.forget_channel(self.channels[number].oracle);
        }
        self.host.delete_topic(topic);
        self.counts.deletions += 1;
        self.note(None, || format!("{topic} is deleted"));
    }
}
