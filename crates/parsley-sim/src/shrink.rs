//! The least part of a run that still goes wrong in the same way.
//!
//! A run is a list of actions ([`Outcome::actions`]), and any part of the list is a run of its own: what cannot be done is passed over, and in
//! the end the world comes to rest as always. So parts are left out for as long as the same rule is violated: actions, first many
//! at a time and then one by one (delta debugging); stages, which then never start; records of actions that send or read several.
//!
//! What goes wrong on purpose is held against the run without it: a part that breaks the rule without the sabotage too, say because what had
//! to be refused was left out, shows nothing of the sabotage and is not taken.

mod keep;
mod reduce;

use std::sync::Arc;

use crate::host::Setting;
use crate::plan::{End, Phase, Plan};
use crate::run::{Outcome, Request};
use crate::task_host::{Sabotage, TaskHost};
use crate::world::{Action, Rule, Violation};

pub use keep::{INDEX_MAX, Keep, KeepError, Kept};
use reduce::{chunks_out, fewer};

/// A part of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Which of the run's actions; all of them where nothing is said.
    pub keep: Option<Keep>,
    /// Stages whose tasks do not start by themselves.
    pub idle: Vec<String>,
}

/// Why there is no such part of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// The run has no such action.
    #[error("found action {found}, and the run has {count}, numbered from 0")]
    NoSuchAction {
        /// Its number.
        found: usize,
        /// How many the run has.
        count: usize,
    },
    /// The action neither sends nor reads a number of records.
    #[error("found a number of records for action {index}, which has none to limit: {action}")]
    NothingToLimit {
        /// Its number.
        index: usize,
        /// What it is.
        action: String,
    },
    /// The plan has no such stage.
    #[error("found stage {found:?}, expected one of {}", stages.join(", "))]
    NoSuchStage {
        /// The name.
        found: String,
        /// The stages that there are.
        stages: Vec<&'static str>,
    },
}

impl Part {
    /// Whether it is the whole run.
    pub fn is_whole(&self) -> bool {
        self.keep.is_none() && self.idle.is_empty()
    }
}

impl Request<'_> {
    /// Runs a part of the run on the task host. The outcome's actions are those that were kept.
    ///
    /// # Errors
    ///
    /// When the run does not have what the part is made of.
    pub fn run_part(&self, sabotage: Sabotage, part: &Part) -> Result<Outcome, PartError> {
        if part.is_whole() {
            return Ok(self.run(sabotage));
        }
        let (_, plan) = self.parts();
        let setting = Self::setting(self.seed, &plan);
        let stages: Vec<_> = plan.stages.iter().map(|stage| stage.name).collect();
        if let Some(found) = part
            .idle
            .iter()
            .find(|name| !stages.contains(&name.as_str()))
        {
            let found = found.clone();
            return Err(PartError::NoSuchStage { found, stages });
        }
        let untraced = Request {
            trace: false,
            ..*self
        };
        let all = untraced.run(sabotage).actions;
        let actions = match &part.keep {
            None => all,
            Some(keep) => {
                let of = |kept: &Kept| select(&all, *kept);
                keep.actions().iter().map(of).collect::<Result<_, _>>()?
            }
        };
        let plan = with_idle(&plan, |name| part.idle.iter().any(|idle| idle == name));
        let outcome = self.replay_plan_on(&plan, setting, host(sabotage), actions);
        Ok(self.named(outcome, sabotage, Some(part)))
    }
}

fn host(sabotage: Sabotage) -> impl FnOnce(Setting) -> TaskHost {
    move |setting| TaskHost::sabotaged(setting, sabotage)
}

/// The plan with some stages whose tasks do not start by themselves. All numbers stay what they are.
fn with_idle(plan: &Arc<Plan>, is_idle: impl Fn(&str) -> bool) -> Arc<Plan> {
    let mut plan = Plan::clone(plan);
    for stage in &mut plan.stages {
        stage.starts_at_once &= !is_idle(stage.name);
    }
    Arc::new(plan)
}

/// An action of the run, limited.
fn select(all: &[Action], kept: Kept) -> Result<Action, PartError> {
    let action = all.get(kept.index).ok_or(PartError::NoSuchAction {
        found: kept.index,
        count: all.len(),
    })?;
    let Some(limit) = kept.records_max else {
        return Ok(action.clone());
    };
    limited(action, limit).ok_or_else(|| PartError::NothingToLimit {
        index: kept.index,
        action: format!("{action:?}"),
    })
}

/// The action with at most so many records; `None` where it has none to limit.
fn limited(action: &Action, limit: u32) -> Option<Action> {
    let mut action = action.clone();
    match &mut action {
        Action::Script(Phase::Send(_, records)) => *records = limit.min(*records),
        Action::Step { reads, .. } if !reads.is_empty() => {
            for (_, records, _) in reads {
                *records = (*records).min(limit as usize);
            }
        }
        _ => return None,
    }
    Some(action)
}

/// How many records an action has at most, where they can be limited.
fn records_of(action: &Action) -> Option<u32> {
    match action {
        Action::Script(Phase::Send(_, records)) => Some(*records),
        Action::Step { reads, .. } => {
            let most = reads.iter().map(|&(_, records, _)| records).max()?;
            // A read to the end of a log is as good as this in any run.
            Some(u32::try_from(most).unwrap_or(u32::MAX).min(READ_MAX))
        }
        _ => None,
    }
}

/// More records than a channel of a simulated world has.
const READ_MAX: u32 = 64;

/// A run that was shrunk.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// What is left of it.
    pub part: Part,
    /// How that ends, with a trace.
    pub outcome: Outcome,
    /// How many actions the whole run had.
    pub actions_before: usize,
    /// How many records the whole run had.
    pub records_before: u64,
    /// How many runs it took.
    pub runs: u64,
}

impl Shrunk {
    /// How many records are left: sent by edge clients, or appended by tasks.
    pub fn records(&self) -> u64 {
        records(&self.outcome)
    }
}

fn records(outcome: &Outcome) -> u64 {
    outcome.counts.edge_sends + outcome.counts.appends
}

/// A run with at most so many records is small enough to be read.
pub const RECORDS_ENOUGH: u64 = 12;

/// After so many runs the best found so far has to do.
const RUNS_MAX: u64 = 20_000;

/// Shrinks a run on the task host; `None` when it violates nothing. The same run shrinks to the same part, always.
pub fn shrink(request: &Request<'_>, sabotage: Sabotage) -> Option<Shrunk> {
    let untraced = Request {
        trace: false,
        ..*request
    };
    let whole = untraced.run(sabotage);
    let guilt = Guilt::of(whole.violation.as_ref()?);
    let (_, plan) = request.parts();
    let mut search = Search {
        request: untraced,
        sabotage,
        setting: Request::setting(request.seed, &plan),
        // What the script is for would go first: nothing is refused any more, or nothing wedges, because nothing happens.
        script_stays: plan.rules.end != End::Drained
            && matches!(sabotage, Sabotage::None | Sabotage::Model),
        plan,
        compares: false,
        guilt,
        runs: 1,
        records: records(&whole),
        actions: whole.actions.clone(),
    };
    let mut candidate = Candidate {
        kept: (0..whole.actions.len()).map(plain).collect(),
        idle: Vec::new(),
    };
    search.compares = !matches!(sabotage, Sabotage::None | Sabotage::Model)
        && !search.is_guilty(Sabotage::None, &candidate);
    loop {
        let before = candidate.clone();
        search.idle_stages(&mut candidate);
        search.fewer_actions(&mut candidate);
        search.fewer_records(&mut candidate);
        if candidate == before || search.runs >= RUNS_MAX {
            break;
        }
    }
    let keep = Keep::new(candidate.kept).expect("actions are taken out of a list that rises");
    let part = Part {
        keep: Some(keep),
        idle: candidate
            .idle
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
    };
    let traced = Request {
        trace: true,
        ..*request
    };
    let outcome = traced
        .run_part(sabotage, &part)
        .expect("the part is made of the run");
    Some(Shrunk {
        part,
        outcome,
        actions_before: whole.actions.len(),
        records_before: records(&whole),
        runs: search.runs,
    })
}

fn plain(index: usize) -> Kept {
    Kept {
        index,
        records_max: None,
    }
}

/// What a run has to be guilty of to be the same failure: the rule and, of a refusal that nobody expected, the guard's code.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Guilt {
    rule: Rule,
    code: Option<String>,
}

impl Guilt {
    fn of(violation: &Violation) -> Self {
        let code = || {
            let mut parts = violation.text.split(": ");
            parts
                .find(|part| part.starts_with("vc-"))
                .map(str::to_owned)
        };
        Self {
            rule: violation.rule,
            code: (violation.rule == Rule::UnexpectedRefusal)
                .then(code)
                .flatten(),
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
struct Candidate {
    kept: Vec<Kept>,
    idle: Vec<&'static str>,
}

struct Search<'a> {
    request: Request<'a>,
    sabotage: Sabotage,
    setting: Setting,
    plan: Arc<Plan>,
    script_stays: bool,
    /// Whether a part must not be guilty without the sabotage.
    compares: bool,
    guilt: Guilt,
    /// The whole run's.
    actions: Vec<Action>,
    runs: u64,
    /// Of the smallest part so far.
    records: u64,
}

impl Search<'_> {
    fn is_guilty(&mut self, sabotage: Sabotage, candidate: &Candidate) -> bool {
        self.outcome(sabotage, candidate)
            .is_some_and(|outcome| self.shows(&outcome))
    }

    fn shows(&self, outcome: &Outcome) -> bool {
        let violation = outcome.violation.as_ref();
        violation.is_some_and(|violation| Guilt::of(violation) == self.guilt)
    }

    fn outcome(&mut self, sabotage: Sabotage, candidate: &Candidate) -> Option<Outcome> {
        let selected = candidate.kept.iter();
        let actions = selected.map(|&kept| select(&self.actions, kept));
        let actions = actions.collect::<Result<Vec<_>, _>>().ok()?;
        let plan = with_idle(&self.plan, |name| candidate.idle.contains(&name));
        self.runs += 1;
        Some(
            self.request
                .replay_plan_on(&plan, self.setting, host(sabotage), actions),
        )
    }

    /// Whether the candidate is as good as what there is: guilty of the same, and with no more records, unless these are few.
    fn takes(&mut self, candidate: &Candidate) -> bool {
        if self.runs >= RUNS_MAX {
            return false;
        }
        let Some(outcome) = self.outcome(self.sabotage, candidate) else {
            return false;
        };
        let found = records(&outcome);
        if !self.shows(&outcome) || found > self.records.max(RECORDS_ENOUGH) {
            return false;
        }
        if self.compares && self.is_guilty(Sabotage::None, candidate) {
            return false;
        }
        self.records = found;
        true
    }

    fn idle_stages(&mut self, candidate: &mut Candidate) {
        let plan = Arc::clone(&self.plan);
        for stage in &plan.stages {
            if !stage.starts_at_once || candidate.idle.contains(&stage.name) {
                continue;
            }
            let mut tried = candidate.clone();
            tried.idle.push(stage.name);
            if self.takes(&tried) {
                *candidate = tried;
            }
        }
    }

    fn fewer_actions(&mut self, candidate: &mut Candidate) {
        let idle = candidate.idle.clone();
        let is_fixed = |kept: &Kept| {
            self.script_stays && matches!(self.actions[kept.index], Action::Script(_))
        };
        let (fixed, loose): (Vec<Kept>, Vec<Kept>) =
            candidate.kept.iter().copied().partition(is_fixed);
        let with_fixed = |loose: &[Kept]| {
            let mut kept: Vec<Kept> = fixed.iter().chain(loose).copied().collect();
            kept.sort_by_key(|kept| kept.index);
            Candidate {
                kept,
                idle: idle.clone(),
            }
        };
        let left = chunks_out(loose, |loose| self.takes(&with_fixed(loose)));
        *candidate = with_fixed(&left);
    }

    fn fewer_records(&mut self, candidate: &mut Candidate) {
        for position in 0..candidate.kept.len() {
            let kept = candidate.kept[position];
            let Some(all) = records_of(&self.actions[kept.index]) else {
                continue;
            };
            let now = kept.records_max.unwrap_or(all);
            let mut tried = candidate.clone();
            let least = fewer(now, |records| {
                tried.kept[position].records_max = Some(records);
                self.takes(&tried)
            });
            if least < now {
                candidate.kept[position].records_max = Some(least);
            }
        }
    }
}

#[cfg(test)]
mod tests;
