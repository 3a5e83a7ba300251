//! One run: a scenario and a seed, from the first action to the last judgement.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::chance::Chance;
use crate::count::Counts;
use crate::host::{AppendMode, ConformanceHost, Setting};
use crate::plan::{Acks, Phase, Plan};
use crate::report::RunId;
use crate::scenario::Scenario;
use crate::shrink::Part;
use crate::task_host::{Sabotage, TaskHost};
use crate::trace::{Found, Trace};
use crate::world::{Action, Rule, Violation, World};

/// How a run was.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What happened.
    pub counts: Counts,
    /// The actions, in order: those of the script and those drawn. The drain is not among them.
    pub actions: Vec<Action>,
    /// What it is guilty of.
    pub violation: Option<Violation>,
    /// What happened, where it was asked for.
    pub trace: Option<Trace>,
}

/// Which run.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The seed: it decides on the plan, on the schedule and on the mode of appending.
    pub seed: u64,
    /// Whether a trace is wanted.
    pub trace: bool,
}

impl Request<'_> {
    /// How the log takes records in the run of a seed, and whether acknowledgements tell offsets: all four combinations in turn,
    /// unless the plan wants one answer of acknowledgements.
    pub fn setting(seed: u64, plan: &Plan) -> Setting {
        Setting {
            append: if seed & 1 == 0 {
                AppendMode::Atomic
            } else {
                AppendMode::Interleaved
            },
            offsets_known: match plan.rules.acks {
                Acks::Either => seed & 2 == 0,
                Acks::WithOffsets => true,
                Acks::WithoutOffsets => false,
            },
            rules: plan.rules,
        }
    }

    pub(crate) fn parts(&self) -> (Chance, Arc<Plan>) {
        let mut chance = Chance::of_seed(self.seed);
        let plan = (self.scenario.plan)(&mut chance);
        (chance, Arc::new(plan))
    }

    /// Runs it on a host that `make` makes.
    pub fn run_on<H: ConformanceHost>(
        &self,
        setting: Setting,
        make: impl FnOnce(Setting) -> H,
    ) -> Outcome {
        let (mut chance, plan) = self.parts();
        let mut actions = Vec::new();
        let (world, violation) = self.begin(&plan, setting, make);
        let Some(mut world) = world else {
            return Self::conclude_without_world(violation);
        };
        let outcome = guarded(|| {
            Self::play(&mut world, &plan, &mut chance, &mut actions)?;
            world.finish()
        });
        Self::conclude(world, actions, outcome)
    }

    /// Runs the given actions instead of drawn ones, and comes to rest.
    pub fn replay_on<H: ConformanceHost>(
        &self,
        setting: Setting,
        make: impl FnOnce(Setting) -> H,
        actions: Vec<Action>,
    ) -> Outcome {
        self.replay_plan_on(&self.parts().1, setting, make, actions)
    }

    /// The same in the world of another plan than the seed's.
    pub(crate) fn replay_plan_on<H: ConformanceHost>(
        &self,
        plan: &Arc<Plan>,
        setting: Setting,
        make: impl FnOnce(Setting) -> H,
        actions: Vec<Action>,
    ) -> Outcome {
        let (world, violation) = self.begin(plan, setting, make);
        let Some(mut world) = world else {
            return Self::conclude_without_world(violation);
        };
        let outcome = guarded(|| {
            actions.iter().try_for_each(|action| world.act(action))?;
            world.finish()
        });
        Self::conclude(world, actions, outcome)
    }

    /// Runs it on the task host, as it is or with something wrong on purpose.
    pub fn run(&self, sabotage: Sabotage) -> Outcome {
        let (_, plan) = self.parts();
        let setting = Self::setting(self.seed, &plan);
        let outcome = self.run_on(setting, |setting| TaskHost::sabotaged(setting, sabotage));
        self.named(outcome, sabotage, Some(&Part::default()))
    }

    /// Runs these actions on the task host. Nobody knows a command for that.
    pub fn replay(&self, sabotage: Sabotage, actions: Vec<Action>) -> Outcome {
        let (_, plan) = self.parts();
        let setting = Self::setting(self.seed, &plan);
        let make = |setting| TaskHost::sabotaged(setting, sabotage);
        let outcome = self.replay_on(setting, make, actions);
        self.named(outcome, sabotage, None)
    }

    /// Has the trace say what is wrong on purpose, and which command shows it again.
    pub(crate) fn named(
        &self,
        mut outcome: Outcome,
        sabotage: Sabotage,
        part: Option<&Part>,
    ) -> Outcome {
        if let Some(trace) = &mut outcome.trace {
            trace.on_purpose = sabotage.on_purpose();
            trace.replay = part.map(|part| {
                let run = RunId {
                    scenario: self.scenario,
                    seed: self.seed,
                    sabotage,
                    part,
                };
                run.replay_command()
            });
        }
        outcome
    }

    fn begin<H: ConformanceHost>(
        &self,
        plan: &Arc<Plan>,
        setting: Setting,
        make: impl FnOnce(Setting) -> H,
    ) -> (Option<World<H>>, Option<Violation>) {
        let trace = self.trace.then_some((self.scenario.name, self.seed));
        let mut world = None;
        let violation = guarded(|| {
            world = Some(World::new(Arc::clone(plan), setting, make(setting), trace)?);
            Ok(())
        });
        (world, violation)
    }

    fn play<H: ConformanceHost>(
        world: &mut World<H>,
        plan: &Plan,
        chance: &mut Chance,
        actions: &mut Vec<Action>,
    ) -> Result<(), Violation> {
        for phase in &plan.script {
            let Phase::Random(count) = phase else {
                let action = Action::Script(phase.clone());
                actions.push(action.clone());
                world.act(&action)?;
                continue;
            };
            for _ in 0..*count {
                let Some(action) = world.draw(chance) else {
                    break;
                };
                actions.push(action.clone());
                world.act(&action)?;
            }
        }
        Ok(())
    }

    fn conclude<H: ConformanceHost>(
        world: World<H>,
        actions: Vec<Action>,
        violation: Option<Violation>,
    ) -> Outcome {
        let counts = world.counts();
        let mut trace = world.into_trace();
        if let (Some(trace), Some(violation)) = (&mut trace, &violation) {
            trace.violation = Some(Found {
                rule: violation.rule.to_string(),
                text: violation.text.to_string(),
                actor: violation.actor,
                record: violation.record,
                other: violation.other,
                path: violation.path.to_vec(),
            });
        }
        Outcome {
            counts,
            actions,
            violation,
            trace,
        }
    }

    fn conclude_without_world(violation: Option<Violation>) -> Outcome {
        Outcome {
            counts: Counts::default(),
            actions: Vec::new(),
            violation,
            trace: None,
        }
    }
}

/// A panic of whatever is judged, or of what judges it, is a violation as well: a run that ends in one has shown nothing.
pub(crate) fn guarded(run: impl FnOnce() -> Result<(), Violation>) -> Option<Violation> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => outcome.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Some(Violation {
                rule: Rule::Panicked,
                text: text.unwrap_or_default().into(),
                step: 0,
                actor: None,
                record: None,
                other: None,
                path: Box::default(),
            })
        }
    }
}
