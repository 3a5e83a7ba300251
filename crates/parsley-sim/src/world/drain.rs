//! Coming to rest: everything that can still happen happens, in a fixed order, and then nothing may be left.

use super::{Action, Life, Rule, Violation, World};
use crate::host::{ConformanceHost, TaskNo};
use crate::logic;
use crate::payload;
use crate::plan::{Driver, EdgeKind, End};

/// How many rounds the world may take to come to rest.
const ROUNDS_MAX: usize = 2_000;

impl<H: ConformanceHost> World<H> {
    /// Ends the run: edge clients end their transactions, crashed tasks start again, everything is read; then nothing may be held, nothing
    /// may be missing, and what the plan expects must have happened.
    ///
    /// # Errors
    ///
    /// The first violation.
    pub fn finish(&mut self) -> Result<(), Violation> {
        self.stalled.clear();
        self.settle(true)?;
        self.judge_end()
    }

    /// Lets the world come to rest. `at_the_end`: edge clients end what they have open.
    pub(super) fn settle(&mut self, at_the_end: bool) -> Result<(), Violation> {
        for _ in 0..ROUNDS_MAX {
            if !self.settle_round(at_the_end)? {
                return Ok(());
            }
        }
        Err(self.violation(
            Rule::Livelock,
            format!("no rest within {ROUNDS_MAX} rounds"),
        ))
    }

    fn settle_round(&mut self, at_the_end: bool) -> Result<bool, Violation> {
        self.now += 1;
        let mut moved = self.make_all_moves()?;
        if at_the_end {
            for edge in 0..self.edges.len() {
                if self.edges[edge].transaction.is_some() {
                    moved |= self.edge_end(edge, true);
                }
            }
        }
        for task in 0..self.tasks.len() {
            if self.tasks[task].life == Life::Down {
                self.start_task(task)?;
                moved = true;
            }
            if !self.runs(task) {
                continue;
            }
            let reads = self.everything_new(task);
            let goes_on = !reads.is_empty() || self.can_deliver(task);
            if goes_on && !self.host.is_in_step(TaskNo(task)) {
                let before = self.progress(task);
                self.act(&Action::Step {
                    task,
                    reads,
                    tick: None,
                    crash: None,
                })?;
                // A host that reads and gets nowhere is at rest.
                moved |= self.progress(task) != before;
            }
        }
        if moved || !self.setting.rules.evidence {
            return Ok(moved);
        }
        // Nothing else goes on: watermarks may free what is held.
        for task in 0..self.tasks.len() {
            let task_no = TaskNo(task);
            if self.runs(task) && self.host.held(task_no) > 0 && self.host.wants_evidence(task_no) {
                let before = self.counts.deliveries;
                self.give_evidence(task)?;
                moved |= self.counts.deliveries > before;
            }
        }
        Ok(moved)
    }

    /// Whether a task has something to deliver that its last step was too full for.
    pub(super) fn can_deliver(&self, task: usize) -> bool {
        let holds = self.host.holds(TaskNo(task));
        holds.iter().any(|hold| hold.waits.is_empty())
    }

    /// How far a task is: it moves with every read, delivery and send.
    fn progress(&self, task: usize) -> (Life, bool, u64, Vec<Option<parsley_core::Offset>>) {
        let positions = self.tasks[task].consumed.iter();
        (
            self.tasks[task].life,
            self.host.is_in_step(TaskNo(task)),
            self.counts.deliveries + self.counts.appends,
            positions
                .map(|&channel| self.host.position(TaskNo(task), channel))
                .collect(),
        )
    }

    /// Every channel of the task with something to read or to pass.
    pub(super) fn everything_new(&self, task: usize) -> Vec<(usize, usize, bool)> {
        let mut reads = Vec::new();
        for &channel in &self.tasks[task].consumed {
            let Some(number) = self.number_of(channel) else {
                continue;
            };
            let advances = self.setting.rules.advances;
            if self.has_news(task, number, advances) {
                reads.push((number, usize::MAX, advances));
            }
        }
        reads
    }

    /// Whether a task can read on, or pass something, on a channel.
    pub(super) fn has_news(&self, task: usize, number: usize, advances: bool) -> bool {
        let channel = self.channels[number].channel;
        let (Some(position), Some(ends)) = (
            self.host.position(TaskNo(task), channel),
            self.host.ends(channel),
        ) else {
            return false;
        };
        if position >= ends.last_stable {
            return false;
        }
        if advances {
            return true;
        }
        let from = usize::try_from(position).unwrap_or(0);
        let until = usize::try_from(ends.last_stable).unwrap_or(0);
        let content = &self.channels[number].content;
        let readable = content.get(from..until.min(content.len())).unwrap_or(&[]);
        readable.iter().any(Option::is_some) && !self.host.read(channel, position, 1).0.is_empty()
    }

    fn make_all_moves(&mut self) -> Result<bool, Violation> {
        let mut moved = false;
        for _ in 0..ROUNDS_MAX {
            let Some(&made) = self.moves().first() else {
                break;
            };
            moved = true;
            let outcome = self.host.make(made, self.moment());
            self.made(made, outcome)?;
        }
        Ok(moved)
    }

    /// Makes moves until the task is between two steps.
    pub(super) fn finish_step(&mut self, task: usize) -> Result<(), Violation> {
        if self.runs(task) && self.host.is_in_step(TaskNo(task)) {
            self.make_all_moves()?;
        }
        Ok(())
    }

    /// Starts a task, after whatever it has to wait for.
    pub(super) fn start_when_possible(&mut self, task: usize) -> Result<(), Violation> {
        if self.tasks[task].life != Life::Down {
            return Ok(());
        }
        self.start_task(task)?;
        if self.tasks[task].life == Life::Down {
            self.make_all_moves()?;
            self.start_task(task)?;
        }
        Ok(())
    }

    pub(super) fn observed_channels(&self, edge: usize) -> Vec<usize> {
        let EdgeKind::Observer { reads, .. } = &self.plan.edges[edge].kind else {
            return Vec::new();
        };
        let channels = |name: &&str| {
            let topic = self.topics.get(*name).filter(|topic| topic.exists)?;
            Some(topic.channels.clone())
        };
        reads.iter().filter_map(channels).flatten().collect()
    }

    fn judge_end(&mut self) -> Result<(), Violation> {
        let end = self.plan.rules.end;
        if let End::Refused { stage, code } = end {
            let tasks = self
                .stage_number(stage)
                .map_or_else(Vec::new, |stage| self.tasks_of(stage));
            if !tasks
                .iter()
                .any(|&task| self.tasks[task].life == Life::Refused)
            {
                let text = format!("no task of {stage} was refused with {code}");
                let first = tasks.first();
                return Err(Violation {
                    actor: first.map(|&task| self.tasks[task].actor.index()),
                    ..self.violation(Rule::MissingRefusal, text)
                });
            }
        }
        self.judge_rest()?;
        let mut holds = Vec::new();
        for task in 0..self.tasks.len() {
            if self.runs(task) {
                let held = self.host.holds(TaskNo(task));
                holds.extend(held.into_iter().map(|hold| (task, hold)));
            }
        }
        if let End::Wedged { stage, on } = end {
            self.judge_wedge(stage, on, &holds)?;
        } else if let Some((task, hold)) = holds.first() {
            let heads = holds.len();
            let waits: Vec<String> = hold.waits.iter().map(|wait| self.wait_text(wait)).collect();
            let text = format!(
                "{heads} heads held when nothing more can happen; {}@{} waits for {}",
                self.channel_name(hold.channel),
                hold.offset,
                waits.join(", ")
            );
            let mut violation = self.task_violation(*task, Rule::Undrained, text);
            violation.record = self.at(hold.channel, hold.offset);
            return Err(violation);
        }
        let is_due = |found: &parsley_oracle::Violation| {
            let task = self.tasks.iter().find(|task| task.actor == found.actor);
            let runs = task.is_none_or(|task| task.life == Life::Running);
            // What is held can be held only where that is the expected end.
            runs && !holds.iter().any(|(task, hold)| {
                self.tasks[*task].actor == found.actor
                    && self.number_of(hold.channel) == Some(found.channel.index())
                    && found.offset.is_some_and(|offset| offset >= hold.offset)
            })
        };
        let missing = self.oracle.complete().into_iter().find(is_due);
        match missing {
            Some(found) => Err(self.judged(&found)),
            None => self.judge_states(),
        }
    }

    /// Nothing is under way any more: what a step or a transaction that cannot end has sent is there for nobody, and nobody would miss it.
    fn judge_rest(&self) -> Result<(), Violation> {
        let mut tasks = 0..self.tasks.len();
        let in_step = |task: &usize| self.runs(*task) && self.host.is_in_step(TaskNo(*task));
        if let Some(task) = tasks.find(in_step) {
            let text = "a step that does not end".to_owned();
            return Err(self.task_violation(task, Rule::Undrained, text));
        }
        if let Some(edge) = self.edges.iter().find(|edge| edge.transaction.is_some()) {
            let name = self.plan.edges[edge.number].name;
            let text = format!("a transaction of {name} that does not end");
            return Err(self.violation(Rule::Undrained, text));
        }
        Ok(())
    }

    /// The state of each key of a stateful stage counts what was delivered to it, in all executions, and that of ticks the ticks.
    fn judge_states(&self) -> Result<(), Violation> {
        if !self.host.keeps_state() {
            return Ok(());
        }
        for (number, task) in self.tasks.iter().enumerate() {
            let stage = &self.plan.stages[task.at.stage];
            let runs_as_stage = stage.driver == Driver::Task || !H::runs_bare_nodes();
            if !runs_as_stage {
                continue;
            }
            self.judge_tick_state(number)?;
            if !stage.stateful {
                continue;
            }
            for (&key, &(delivered, _)) in &task.delivered_by_key {
                let bytes = key.map(payload::key_bytes);
                let state = self.host.state_of(TaskNo(number), bytes.as_deref());
                let counted = state.map(|state| {
                    let bytes = state.as_ref().try_into().ok();
                    bytes.map(u64::from_be_bytes)
                });
                let due = logic::counted(delivered);
                if counted != due.map(Some) {
                    let text = format!(
                        "the state of key {key:?} is {counted:?}, and {due:?} is due after {delivered} deliveries"
                    );
                    return Err(self.task_violation(number, Rule::WrongState, text));
                }
            }
        }
        Ok(())
    }

    /// Exactly one head, which one sequence claim on that topic blocks and nothing else.
    fn judge_wedge(
        &self,
        stage: &str,
        on: &str,
        holds: &[(usize, parsley_core::Hold)],
    ) -> Result<(), Violation> {
        let exact = match holds {
            [(task, hold)] => {
                let at = self.tasks[*task].at.stage;
                let claimed = match &hold.waits[..] {
                    [parsley_core::Wait::Sequence { claim, .. }] => Some(claim.channel),
                    _ => None,
                };
                let topic = claimed
                    .and_then(|channel| self.number_of(channel))
                    .map(|number| self.channels[number].topic);
                self.plan.stages[at].name == stage && topic == Some(on)
            }
            _ => false,
        };
        if exact {
            return Ok(());
        }
        let text = format!("expected one head of {stage} to wait for a sender on {on}: {holds:?}");
        Err(self.violation(Rule::Undrained, text))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::host::Setting;
    use crate::plan::{Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, topics};
    use crate::{Sabotage, TaskHost};

    fn world(edge: EdgePlan) -> World<TaskHost> {
        let relay = Declaration::default().on("a", &[Emit::to("b")]);
        let plan = Arc::new(Plan {
            topics: topics(&["a", "b"]),
            stages: vec![StagePlan::new("relay", relay)],
            edges: vec![edge],
            script: Vec::new(),
            rules: Rules::default(),
        });
        let setting = Setting {
            append: crate::host::AppendMode::Interleaved,
            offsets_known: true,
            rules: plan.rules,
        };
        let host = TaskHost::sabotaged(setting, Sabotage::None);
        World::new(plan, setting, host, None).expect("the plan can be deployed")
    }

    fn at_rest(world: &World<TaskHost>) -> Option<Rule> {
        world.judge_rest().err().map(|violation| violation.rule)
    }

    #[test]
    fn a_transaction_left_open_is_no_end() {
        let mut world = world(EdgePlan::transactional("edge", &["a"], 0, 0));
        let open = Action::Script(Phase::LeaveOpen("edge", "a"));
        assert_eq!(world.act(&open), Ok(()));
        assert_eq!(at_rest(&world), Some(Rule::Undrained));
        assert_eq!(world.finish(), Ok(()));
        assert_eq!(at_rest(&world), None);
    }

    #[test]
    fn a_step_under_way_is_no_end() {
        let mut world = world(EdgePlan::sequential("edge", &["a"], 0));
        let send = Action::Script(Phase::Send("edge", 1));
        assert_eq!(world.act(&send), Ok(()));
        let reads = world.everything_new(0);
        let step = Action::Step {
            task: 0,
            reads,
            tick: None,
            crash: None,
        };
        assert_eq!(world.act(&step), Ok(()));
        assert_eq!(at_rest(&world), Some(Rule::Undrained));
        assert_eq!(world.finish(), Ok(()));
        assert_eq!(at_rest(&world), None);
    }
}
