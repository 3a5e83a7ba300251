//! Doing one action. What cannot be done now is passed over, so that any part of a run's list is a run.

use parsley_core::Offset;

use super::{Action, Life, Rule, Violation, World};
use crate::host::{ConformanceHost, CrashPoint, Move, Read, StepPlan, Stop, TaskNo, TickPlan};
use crate::plan::End;
use crate::trace::Kind;

impl<H: ConformanceHost> World<H> {
    /// Does one action, and judges what came of it.
    ///
    /// # Errors
    ///
    /// The first violation.
    pub fn act(&mut self, action: &Action) -> Result<(), Violation> {
        self.now += 1;
        self.counts.steps += 1;
        match action {
            Action::Step {
                task,
                reads,
                tick,
                crash,
            } => self.step_task(*task, reads, *tick, *crash)?,
            Action::Append(task, channel) => {
                if let Some(channel) = self.channels.get(*channel) {
                    self.make(Move::Append(TaskNo(*task), channel.channel))?;
                }
            }
            Action::Replicate(channel) => {
                if let Some(channel) = self.channels.get(*channel) {
                    self.make(Move::Replicate(channel.channel))?;
                }
            }
            Action::Proceed(task) => self.make(Move::Proceed(TaskNo(*task)))?,
            Action::Marker(channel, nth) => self.write_marker(*channel, *nth)?,
            Action::Crash(task) => self.crash(*task),
            Action::Start(task) => {
                if self
                    .tasks
                    .get(*task)
                    .is_some_and(|task| task.life == Life::Down)
                {
                    self.start_task(*task)?;
                }
            }
            Action::Evidence(task) => self.move_evidence(*task)?,
            Action::Check(task) => self.check(*task)?,
            Action::Send(edge, topic, key) => {
                if self
                    .edges
                    .get(*edge)
                    .is_some_and(|edge| edge.sends_left > 0)
                    && self.edge_send(*edge, *topic, *key, None)?
                {
                    self.edges[*edge].sends_left -= 1;
                }
            }
            Action::Read(edge, channel) => {
                self.edge_read(*edge, *channel)?;
            }
            Action::End(edge, commit) => {
                self.edge_end(*edge, *commit);
            }
            Action::Sweep(channel, before) => self.sweep_unneeded(*channel, *before),
            Action::Script(phase) => self.play(phase)?,
        }
        self.observe()
    }

    pub(super) fn runs(&self, task: usize) -> bool {
        self.tasks
            .get(task)
            .is_some_and(|task| task.life == Life::Running)
    }

    pub(super) fn step_task(
        &mut self,
        task: usize,
        reads: &[(usize, usize, bool)],
        tick: Option<usize>,
        crash: Option<CrashPoint>,
    ) -> Result<(), Violation> {
        if !self.runs(task) {
            return Ok(());
        }
        let read = |&(number, records_max, advance): &(usize, usize, bool)| {
            Some(Read {
                channel: self.channels.get(number)?.channel,
                records_max,
                advance,
            })
        };
        let plan = StepPlan {
            reads: reads.iter().filter_map(read).collect(),
            tick: tick.map(|after| TickPlan {
                timestamp_ms: self.tasks[task].ticks.into(),
                after,
            }),
            crash,
        };
        let held = self.host.held(TaskNo(task));
        let outcome = self.host.step(TaskNo(task), &plan, self.moment());
        if outcome == Err(Stop::Crashed) && crash.is_some() {
            self.count_crash(task, held, true);
        }
        self.conclude_planned(task, outcome, crash.is_some())
    }

    /// Takes up what an operation on a task came to in which no crash was planned.
    pub(super) fn conclude(
        &mut self,
        task: usize,
        outcome: Result<(), Stop>,
    ) -> Result<(), Violation> {
        self.conclude_planned(task, outcome, false)
    }

    fn conclude_planned(
        &mut self,
        task: usize,
        outcome: Result<(), Stop>,
        may_crash: bool,
    ) -> Result<(), Violation> {
        self.observe()?;
        // An execution may end by itself over a sink that is gone, and a start finds out. Any other end would be made good by the restart.
        if outcome == Err(Stop::Crashed) && !may_crash && !self.lacks_a_sink(task) {
            let text = "the execution ended, and nobody had ended it".to_owned();
            return Err(self.task_violation(task, Rule::HostFailed, text));
        }
        match outcome {
            Ok(()) => {
                self.observe_holds(task);
                Ok(())
            }
            Err(stop) => self.stopped(task, stop),
        }
    }

    fn lacks_a_sink(&self, task: usize) -> bool {
        let declaration = &self.stages[self.tasks[task].at.stage].declaration;
        let recreated_or_gone = |name| {
            let topic = self.topics.get(name);
            topic.is_none_or(|topic| !topic.exists || topic.incarnation > 0)
        };
        declaration.produced().any(recreated_or_gone)
    }

    fn stopped(&mut self, task: usize, stop: Stop) -> Result<(), Violation> {
        let actor = self.tasks[task].actor;
        self.tasks[task].told_holds.clear();
        match stop {
            Stop::Crashed => {
                self.tasks[task].life = Life::Down;
                self.tell(Some(actor), |_| Some(Kind::Crashed { mid_step: true }));
                Ok(())
            }
            Stop::Waits => {
                self.tasks[task].life = Life::Down;
                self.counts.starts_waiting += 1;
                Ok(())
            }
            Stop::Failed(why) => Err(self.task_violation(task, Rule::HostFailed, why)),
            Stop::Refused { code, found } => {
                self.tasks[task].life = Life::Refused;
                self.tell(Some(actor), |_| {
                    Some(Kind::Refused {
                        code: code.clone(),
                        found: found.clone(),
                    })
                });
                let stage = self.plan.stages[self.tasks[task].at.stage].name;
                match self.plan.rules.end {
                    End::Refused {
                        stage: expected,
                        code: expected_code,
                    } if stage == expected && code == expected_code => {
                        self.counts.refusals += 1;
                        Ok(())
                    }
                    _ => {
                        // What a guard found begins with its code.
                        let code_again = format!("{code} ");
                        let found = found.strip_prefix(&code_again).unwrap_or(&found);
                        let text = format!("{code}: {}", self.with_names(found));
                        Err(self.task_violation(task, Rule::UnexpectedRefusal, text))
                    }
                }
            }
        }
    }

    /// A text of the host's with the names that the world has for channels and topics in the place of their identifiers.
    fn with_names(&self, text: &str) -> String {
        // Later partitions of a topic first: their numbers may begin with those of earlier ones.
        let known = self.channels.iter().rev();
        let text = known.fold(text.to_owned(), |text, known| {
            text.replace(&known.channel.to_string(), &known.name)
        });
        self.channels.iter().fold(text, |text, known| {
            let (topic, _) = known.name.rsplit_once(':').unwrap_or((&known.name, ""));
            text.replace(&known.channel.topic.to_string(), topic)
        })
    }

    pub(super) fn make(&mut self, made: Move) -> Result<(), Violation> {
        let task = match made {
            Move::Append(task, _) | Move::Proceed(task) => Some(task.0),
            Move::Replicate(_) | Move::Marker(..) => None,
        };
        if task.is_some_and(|task| !self.runs(task)) {
            return Ok(());
        }
        // Only what the host offers now: a run with other parts left out may have come to another place.
        let moves = self.moves();
        if !moves.contains(&made) {
            return Ok(());
        }
        let outcome = self.host.make(made, self.moment());
        self.made(made, outcome)
    }

    /// Takes up what a move came to. The log's own moves cannot fail.
    pub(super) fn made(&mut self, made: Move, outcome: Result<(), Stop>) -> Result<(), Violation> {
        match made {
            Move::Append(task, _) | Move::Proceed(task) => self.conclude(task.0, outcome),
            Move::Replicate(_) | Move::Marker(..) => {
                outcome.map_err(|stop| self.violation(Rule::HostFailed, format!("{stop:?}")))
            }
        }
    }

    fn write_marker(&mut self, channel: usize, nth: usize) -> Result<(), Violation> {
        let Some(channel) = self.channels.get(channel).map(|channel| channel.channel) else {
            return Ok(());
        };
        let moves = self.moves();
        let pending = |made: &&Move| matches!(made, Move::Marker(_, at) if *at == channel);
        let chosen = moves.iter().filter(pending).nth(nth).copied();
        let chosen = chosen.or_else(|| moves.iter().find(pending).copied());
        match chosen {
            Some(made) => {
                let outcome = self.host.make(made, self.moment());
                self.made(made, outcome)?;
                if let Some(number) = self.number_of(channel) {
                    let name = self.channels[number].name.clone();
                    self.note(None, || format!("marker on {name}"));
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn crash(&mut self, task: usize) {
        if !self.runs(task) {
            return;
        }
        let held = self.host.held(TaskNo(task));
        let mid_step = self.host.is_in_step(TaskNo(task));
        self.host.crash(TaskNo(task));
        self.count_crash(task, held, mid_step);
        let actor = self.tasks[task].actor;
        self.tasks[task].life = Life::Down;
        self.tasks[task].told_holds.clear();
        self.tell(Some(actor), |_| Some(Kind::Crashed { mid_step }));
    }

    fn count_crash(&mut self, task: usize, held: u64, mid_step: bool) {
        self.crashes_left = self.crashes_left.saturating_sub(1);
        self.counts.crashes += 1;
        self.counts.crashes_mid_step += u64::from(mid_step);
        self.counts.crashes_holding += u64::from(held > 0);
        if held > 0 && self.tasks[task].held_when_down > 0 {
            self.counts.holds_over_two_restarts += 1;
        }
        self.tasks[task].held_when_down = held;
    }

    pub(super) fn move_evidence(&mut self, task: usize) -> Result<(), Violation> {
        if !self.runs(task) {
            return Ok(());
        }
        let outcome = self.host.evidence(TaskNo(task));
        self.conclude(task, outcome)?;
        self.drain_task(task)
    }

    /// What is new to a task without anything to read: evidence, or a check, may have freed something.
    pub(super) fn drain_task(&mut self, task: usize) -> Result<(), Violation> {
        if self.runs(task) && !self.host.is_in_step(TaskNo(task)) {
            self.step_task(task, &[], None, None)?;
        }
        Ok(())
    }

    pub(super) fn check(&mut self, task: usize) -> Result<(), Violation> {
        if !self.runs(task) || self.host.is_in_step(TaskNo(task)) {
            return Ok(());
        }
        let outcome = self.host.check(TaskNo(task), self.moment());
        self.conclude(task, outcome)?;
        self.drain_task(task)
    }

    /// Removes what no task needs any more, below that offset at most: a run with other parts left out may be behind the one in which it was
    /// chosen.
    fn sweep_unneeded(&mut self, number: usize, before: Offset) {
        if number < self.channels.len()
            && let Some(bound) = self.sweep_bound(number)
        {
            self.sweep(number, before.min(bound));
        }
    }

    pub(super) fn sweep(&mut self, number: usize, before: Offset) {
        let Some(channel) = self.channels.get(number).map(|channel| channel.channel) else {
            return;
        };
        let Some(ends) = self.host.ends(channel) else {
            return;
        };
        let before = before.min(ends.last_stable);
        if before > ends.log_start {
            self.host.delete_records(channel, before);
            self.counts.sweeps += 1;
            let resumes_at = |task| self.host.resumes_at(TaskNo(task), channel);
            let ahead: Vec<Offset> = (0..self.tasks.len())
                .filter(|&task| self.tasks[task].consumed.contains(&channel))
                .filter_map(|task| Some(before - resumes_at(task)?))
                .collect();
            self.counts.sweeps_to_a_position += u64::from(ahead.contains(&0));
            self.counts.sweeps_past_a_position += u64::from(ahead.contains(&1));
            self.sweeps_left = self.sweeps_left.saturating_sub(1);
            let name = self.channels[number].name.clone();
            self.note(None, || format!("{name} is kept from {before} on"));
        }
    }
}
