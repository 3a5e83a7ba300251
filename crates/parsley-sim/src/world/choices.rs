//! Everything that can happen next, for whoever lets all of it happen.

use super::{Action, Life, World};
use crate::TaskHost;
use crate::host::{AppendMode, ConformanceHost, CrashPoint, Move, TaskNo};
use crate::plan::EdgeKind;

/// What may happen beside what the plan's rules say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    /// Tasks may begin a question about watermarks.
    pub questions: bool,
    /// A step may be fed several channels before it delivers.
    pub batches: bool,
}

/// What is to be seen in a world.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sight {
    /// A running task holds something.
    pub holding: bool,
    /// A task is down, and what is durable of it has held records.
    pub down_while_holding: bool,
    /// A log has an aborted record.
    pub aborted: bool,
}

impl World<TaskHost> {
    /// What is to be seen now.
    pub(crate) fn sight(&self) -> Sight {
        let down = |task: usize| self.tasks[task].life == Life::Down;
        let mut tasks = 0..self.tasks.len();
        let census = self.host.broker().census();
        Sight {
            holding: tasks.clone().any(|task| self.host.held(TaskNo(task)) > 0),
            down_while_holding: tasks.any(|task| down(task) && self.host.keeps_held(TaskNo(task))),
            aborted: census.aborted_runs_at_head
                + census.aborted_runs_in_middle
                + census.aborted_runs_at_tail
                > 0,
        }
    }

    /// All that can happen now, in a fixed order. What a plan's script says comes at its caller's word.
    pub(crate) fn choices(&self, allowed: Allowed) -> Vec<Action> {
        let mut choices = Vec::new();
        for task in 0..self.tasks.len() {
            self.choose_of_task(task, allowed, &mut choices);
        }
        for edge in 0..self.edges.len() {
            self.choose_of_edge(edge, &mut choices);
        }
        let moves = self.moves();
        for (nth, made) in moves.iter().enumerate() {
            choices.extend(self.choice_of(*made, &moves[..nth]));
        }
        if self.sweeps_left > 0 {
            for number in 0..self.channels.len() {
                let bound = self.sweep_bound(number);
                choices.extend(bound.map(|bound| Action::Sweep(number, bound)));
            }
        }
        choices
    }

    fn choose_of_task(&self, task: usize, allowed: Allowed, choices: &mut Vec<Action>) {
        let task_no = TaskNo(task);
        match self.tasks[task].life {
            Life::Stopped | Life::Refused => return,
            Life::Down => {
                choices.push(Action::Start(task));
                return;
            }
            Life::Running => {}
        }
        let begun = choices.len();
        let mut step = |reads, tick| {
            choices.push(Action::Step {
                task,
                reads,
                tick,
                crash: None,
            });
        };
        for reads in self.feeds(task, allowed.batches) {
            step(reads, None);
        }
        if self.can_deliver(task) && !self.host.is_in_step(task_no) {
            step(Vec::new(), None);
        }
        if self.may_tick(task) {
            step(Vec::new(), Some(0));
        }
        if self.crashes_left > 0 {
            // Where a step takes several actions, it can be cut off between any two of them. One that sends nothing leaves nothing behind, wherever it is
            // cut off.
            let stage = &self.stages[self.tasks[task].at.stage];
            let sends = stage.declaration.produced().next().is_some();
            if sends && self.setting.append == AppendMode::Atomic {
                let cut_off: Vec<Action> = choices[begun..].iter().flat_map(cut_off).collect();
                choices.extend(cut_off);
            }
            choices.push(Action::Crash(task));
        }
        let asks = self.setting.rules.evidence && !self.host.is_in_step(task_no);
        let begins = allowed.questions && self.host.wants_evidence(task_no);
        if asks && (begins || self.host.is_asking(task_no)) {
            choices.push(Action::Evidence(task));
        }
        if self.setting.rules.truncation {
            choices.push(Action::Check(task));
        }
    }

    /// What a step of the task may be fed: of one channel the next record, or the position behind what yields none; in batches, the next
    /// record of each of several channels, and all that there is.
    fn feeds(&self, task: usize, batches: bool) -> Vec<Vec<(usize, usize, bool)>> {
        let mut feeds = Vec::new();
        let mut with_records = Vec::new();
        for &channel in &self.tasks[task].consumed {
            let (Some(number), Some(position)) = (
                self.number_of(channel),
                self.host.position(TaskNo(task), channel),
            ) else {
                continue;
            };
            if !self.has_news(task, number, true) {
                continue;
            }
            let (record, _) = self.host.read(channel, position, 1);
            if !record.is_empty() {
                with_records.push(number);
                feeds.push(vec![(number, 1, false)]);
            }
            let (_, passed) = self.host.read(channel, position, 0);
            if passed > position && self.setting.rules.advances {
                feeds.push(vec![(number, 0, true)]);
            }
        }
        if batches {
            for chosen in 1_u32..1 << with_records.len() {
                let chosen = with_records
                    .iter()
                    .enumerate()
                    .filter(|(bit, _)| chosen >> bit & 1 == 1);
                let several: Vec<_> = chosen.map(|(_, &number)| (number, 1, false)).collect();
                if several.len() > 1 {
                    feeds.push(several);
                }
            }
            let all = self.everything_new(task);
            if !all.is_empty() {
                feeds.push(all);
            }
        }
        feeds
    }

    fn choose_of_edge(&self, edge: usize, choices: &mut Vec<Action>) {
        let (state, plan) = (&self.edges[edge], &self.plan.edges[edge]);
        if state.sends_left > 0 && self.edge_is_acknowledged(edge) {
            let topics = plan.to().len().max(1) as u64;
            let turn = state.sent % topics;
            choices.push(Action::Send(edge, turn as usize, None));
        }
        if state.transaction.is_some() {
            if self.edge_is_acknowledged(edge) {
                choices.push(Action::End(edge, true));
            }
            if matches!(
                plan.kind,
                EdgeKind::Transactional {
                    abort_percent: 1..,
                    ..
                }
            ) {
                choices.push(Action::End(edge, false));
            }
        }
        for number in self.observed_channels(edge) {
            if self.edge_has_news(edge, number) {
                choices.push(Action::Read(edge, number));
            }
        }
    }

    /// A move as an action; `before` are the moves listed ahead of it.
    fn choice_of(&self, made: Move, before: &[Move]) -> Option<Action> {
        Some(match made {
            Move::Append(task, channel) => Action::Append(task.0, self.number_of(channel)?),
            Move::Replicate(channel) => Action::Replicate(self.number_of(channel)?),
            Move::Proceed(task) => Action::Proceed(task.0),
            Move::Marker(_, channel) => {
                let same = |made: &&Move| matches!(made, Move::Marker(_, on) if *on == channel);
                let nth = before.iter().filter(same).count();
                Action::Marker(self.number_of(channel)?, nth)
            }
        })
    }
}

/// The step, cut off: with what its first delivery sent appended, and with all of it.
fn cut_off(step: &Action) -> Vec<Action> {
    let Action::Step {
        task, reads, tick, ..
    } = step
    else {
        return Vec::new();
    };
    let at = |point| Action::Step {
        task: *task,
        reads: reads.clone(),
        tick: *tick,
        crash: Some(point),
    };
    vec![at(CrashPoint::Delivered(1)), at(CrashPoint::Appended)]
}
