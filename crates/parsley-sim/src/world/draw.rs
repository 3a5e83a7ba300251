//! Which action comes next: any that is enabled, by weight.

use super::{Action, Life, World};
use crate::chance::Chance;
use crate::host::{AppendMode, ConformanceHost, CrashPoint, Move, TaskNo};
use crate::plan::EdgeKind;

/// Something that can happen now, and how likely it is.
#[derive(Default)]
pub(crate) struct Choices {
    total: u64,
    items: Vec<(u64, Choice)>,
}

/// By the numbers of tasks, edge clients and channels.
#[derive(Clone, Copy)]
enum Choice {
    ReadOne(usize, usize),
    ReadAll(usize),
    /// Some of the channels with news, in either order.
    ReadSome(usize),
    Crash(usize),
    CrashStep(usize),
    Start(usize),
    Evidence(usize),
    Check(usize),
    Tick(usize),
    Send(usize),
    ReadEdge(usize, usize),
    End(usize),
    Move(Move),
    Sweep(usize),
}

/// In how many of 100 draws a task falls behind on a channel, or takes it up again.
const LAG_PERCENT: u64 = 10;

impl Choices {
    fn add(&mut self, weight: u64, choice: Choice) {
        self.total += weight;
        self.items.push((weight, choice));
    }

    fn draw(&self, chance: &mut Chance) -> Option<Choice> {
        let mut drawn = chance.below(self.total);
        for &(weight, choice) in &self.items {
            if drawn < weight {
                return Some(choice);
            }
            drawn -= weight;
        }
        None
    }
}

impl<H: ConformanceHost> World<H> {
    /// Draws the next action of a random phase; `None` when nothing is enabled.
    pub fn draw(&mut self, chance: &mut Chance) -> Option<Action> {
        self.draw_lag(chance);
        let mut choices = Choices::default();
        for task in 0..self.tasks.len() {
            self.offer_task(task, &mut choices);
        }
        for edge in 0..self.edges.len() {
            self.offer_edge(edge, &mut choices);
        }
        for made in self.moves() {
            choices.add(3, Choice::Move(made));
        }
        if self.sweeps_left > 0 {
            for number in 0..self.channels.len() {
                if self.sweep_bound(number).is_some() {
                    choices.add(1, Choice::Sweep(number));
                }
            }
        }
        let choice = choices.draw(chance)?;
        self.complete(choice, chance)
    }

    /// Now and then a task falls behind on a channel, or takes it up again. Where a step takes many actions, a reader that is always on
    /// time has read every cause long before its effect is there, and nothing would ever race.
    fn draw_lag(&mut self, chance: &mut Chance) {
        if self.setting.append == AppendMode::Atomic || !chance.percent(LAG_PERCENT) {
            return;
        }
        let Some(task) = chance.index(self.tasks.len()) else {
            return;
        };
        let consumed = &self.tasks[task].consumed;
        let channel = chance.pick(consumed).and_then(|&on| self.number_of(on));
        if let Some(number) = channel
            && !self.lagging.remove(&(task, number))
        {
            self.lagging.insert((task, number));
        }
    }

    /// What a task may be told to read in a random phase: all that is new on channels on which it does not lag.
    fn new_in_time(&self, task: usize) -> Vec<(usize, usize, bool)> {
        let mut reads = self.everything_new(task);
        reads.retain(|&(number, ..)| !self.lagging.contains(&(task, number)));
        reads
    }

    fn offer_task(&self, task: usize, choices: &mut Choices) {
        let state = &self.tasks[task];
        let task_no = TaskNo(task);
        match state.life {
            Life::Down => choices.add(4, Choice::Start(task)),
            Life::Stopped | Life::Refused => {}
            Life::Running => {
                let mut any = false;
                for (number, ..) in self.new_in_time(task) {
                    choices.add(3, Choice::ReadOne(task, number));
                    any = true;
                }
                if any {
                    choices.add(2, Choice::ReadAll(task));
                    choices.add(1, Choice::ReadSome(task));
                }
                let in_step = self.host.is_in_step(task_no);
                let held = self.host.held(task_no);
                if !any && held > 0 && self.can_deliver(task) {
                    choices.add(2, Choice::ReadAll(task));
                }
                // The last crash is kept for a task that holds something.
                if self.crashes_left > 1 || (self.crashes_left == 1 && held > 0) {
                    let weight = if held > 0 { 2 } else { 1 };
                    choices.add(weight, Choice::Crash(task));
                    if any && !in_step {
                        choices.add(weight, Choice::CrashStep(task));
                    }
                }
                if self.may_tick(task) {
                    choices.add(2, Choice::Tick(task));
                }
                if in_step {
                    return;
                }
                if self.setting.rules.evidence && self.host.wants_evidence(task_no) {
                    choices.add(1, Choice::Evidence(task));
                }
                if self.setting.rules.truncation || self.setting.rules.sweeps > 0 {
                    choices.add(1, Choice::Check(task));
                }
            }
        }
    }

    pub(super) fn may_tick(&self, task: usize) -> bool {
        let state = &self.tasks[task];
        state.ticks < self.setting.rules.ticks
            && self.stages[state.at.stage].declaration.ticks.is_some()
    }

    /// Behind how many deliveries a task may tick in a step in which it may crash.
    fn draw_tick(&self, task: usize, chance: &mut Chance) -> Option<usize> {
        (self.may_tick(task) && chance.percent(75)).then(|| behind(chance))
    }

    fn offer_edge(&self, edge: usize, choices: &mut Choices) {
        let state = &self.edges[edge];
        if state.sends_left > 0 && self.edge_is_acknowledged(edge) {
            choices.add(3, Choice::Send(edge));
        }
        if state.transaction.is_some() {
            choices.add(1, Choice::End(edge));
        }
        for number in self.observed_channels(edge) {
            if self.edge_has_news(edge, number) {
                choices.add(2, Choice::ReadEdge(edge, number));
            }
        }
    }

    /// How far retention may go without taking what some task still needs.
    pub(super) fn sweep_bound(&self, number: usize) -> Option<i64> {
        let channel = &self.channels[number];
        let ends = self.host.ends(channel.channel)?;
        let mut bound = ends.last_stable;
        for (task, state) in self.tasks.iter().enumerate() {
            let task_no = TaskNo(task);
            if !state.consumed.contains(&channel.channel) {
                continue;
            }
            if state.life != Life::Running || self.host.is_in_step(task_no) {
                return None;
            }
            bound = bound.min(self.host.resumes_at(task_no, channel.channel)?);
            let head = self
                .host
                .holds(task_no)
                .into_iter()
                .find(|hold| hold.channel == channel.channel);
            bound = head.map_or(bound, |head| bound.min(head.offset));
        }
        (bound > ends.log_start).then_some(bound)
    }

    fn complete(&self, choice: Choice, chance: &mut Chance) -> Option<Action> {
        let advances = self.setting.rules.advances;
        Some(match choice {
            Choice::ReadOne(task, number) => Action::Step {
                task,
                reads: vec![(number, records(chance), advances && chance.percent(60))],
                tick: None,
                crash: None,
            },
            Choice::ReadAll(task) => Action::Step {
                task,
                reads: self.new_in_time(task),
                tick: None,
                crash: None,
            },
            Choice::ReadSome(task) => Action::Step {
                task,
                reads: self.some_new(task, chance),
                tick: None,
                crash: None,
            },
            Choice::Crash(task) => Action::Crash(task),
            Choice::CrashStep(task) => {
                let reads = self.some_new(task, chance);
                let tick = self.draw_tick(task, chance);
                let point = match chance.below(6) {
                    0 => CrashPoint::Fed,
                    1..=3 => CrashPoint::Delivered(chance.between(0, 2) as usize),
                    _ => CrashPoint::Appended,
                };
                // Where steps take several actions, the crash is an action of its own.
                let crash = match self.setting.append {
                    AppendMode::Interleaved if point == CrashPoint::Appended => None,
                    _ => Some(point),
                };
                Action::Step {
                    task,
                    reads,
                    tick,
                    crash,
                }
            }
            Choice::Start(task) => Action::Start(task),
            Choice::Evidence(task) => Action::Evidence(task),
            Choice::Check(task) => Action::Check(task),
            // Alone, or among the deliveries of a step.
            Choice::Tick(task) => {
                let reads = match chance.percent(50) {
                    true => self.some_new(task, chance),
                    false => Vec::new(),
                };
                Action::Step {
                    task,
                    reads,
                    tick: Some(behind(chance)),
                    crash: None,
                }
            }
            Choice::Send(edge) => {
                let plan = &self.plan.edges[edge];
                let topic = chance.index(plan.to().len())?;
                let key = (plan.keys > 0).then(|| chance.below(plan.keys));
                Action::Send(edge, topic, key)
            }
            Choice::ReadEdge(edge, number) => Action::Read(edge, number),
            Choice::End(edge) => {
                let EdgeKind::Transactional { abort_percent, .. } = self.plan.edges[edge].kind
                else {
                    return None;
                };
                Action::End(edge, !chance.percent(abort_percent))
            }
            Choice::Move(made) => self.named(made, chance)?,
            Choice::Sweep(number) => {
                let bound = self.sweep_bound(number)?;
                let ends = self.host.ends(self.channels[number].channel)?;
                let low = ends.log_start + 1;
                let before = chance.between(low as u64, bound as u64) as i64;
                Action::Sweep(number, before)
            }
        })
    }

    fn some_new(&self, task: usize, chance: &mut Chance) -> Vec<(usize, usize, bool)> {
        let mut reads = Vec::new();
        for (number, _, advances) in self.new_in_time(task) {
            if chance.percent(70) {
                reads.push((number, records(chance), advances && chance.percent(60)));
            }
        }
        if chance.percent(50) {
            reads.reverse();
        }
        reads
    }

    fn named(&self, made: Move, chance: &mut Chance) -> Option<Action> {
        Some(match made {
            Move::Append(task, channel) => Action::Append(task.0, self.number_of(channel)?),
            Move::Replicate(channel) => Action::Replicate(self.number_of(channel)?),
            Move::Proceed(task) => Action::Proceed(task.0),
            Move::Marker(_, channel) => {
                Action::Marker(self.number_of(channel)?, chance.below(3) as usize)
            }
        })
    }
}

/// How many records a read takes.
fn records(chance: &mut Chance) -> usize {
    match chance.below(4) {
        0 | 1 => 1,
        2 => 2,
        _ => 5,
    }
}

/// Behind how many deliveries of a step a tick comes.
fn behind(chance: &mut Chance) -> usize {
    chance.between(0, 2) as usize
}
