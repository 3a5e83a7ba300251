//! Small worlds, explored to the end: every order in which anything can happen in them.
//!
//! A run of a seed is one way through a world. Here all ways are gone, by the model checker `stateright`: breadth first, so that what goes wrong
//! is found by the fewest actions that it takes. A state is the list of actions that lead to it, played in a fresh [`World`] on real tasks, and the
//! digest of what that world came to; states of the same digest are one. What is judged: each action as in any run, by the oracle and by
//! the world; and from every state on, that the world comes to rest with nothing held and nothing missing (decision M10).

mod search;
pub mod worlds;

use std::fmt::Write;
use std::sync::Arc;

use crate::host::{AppendMode, Setting};
use crate::plan::Plan;
use crate::run::guarded;
use crate::task_host::{Sabotage, TaskHost};
use crate::trace::Trace;
use crate::world::{Action, Violation, World};

pub use search::{Exploration, Seen, explore, explore_up_to};

/// A world that is small enough to go all its ways.
#[derive(Clone, Copy, Debug)]
pub struct SmallWorld {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Topics, stages and clients. The phases of its script come in their order, each at any moment.
    pub plan: fn() -> Plan,
    /// How its log takes records.
    pub append: AppendMode,
    /// Whether acknowledgements tell offsets.
    pub offsets_known: bool,
    /// How many questions about watermarks all tasks together may begin.
    pub questions: usize,
    /// Whether a step may be fed several channels before it delivers.
    pub batches: bool,
}

/// What is judged of each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// What has happened on the way there.
    Actions,
    /// That, and that the world comes to rest from there as it has to: nothing held, nothing missing.
    ActionsAndRest,
}

/// A way into a violation.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// What has to happen, in order; no shorter list of actions leads to a violation.
    pub actions: Vec<Action>,
    /// What is wrong then.
    pub violation: Violation,
    /// Whether the last action is wrong, or the world does not come to rest as it has to after it.
    pub at_rest: bool,
    /// Everything that happens on the way, the coming to rest included where that is what is wrong.
    pub trace: Trace,
}

impl SmallWorld {
    fn begin(
        &self,
        plan: &Arc<Plan>,
        sabotage: Sabotage,
        traced: bool,
    ) -> Result<World<TaskHost>, Violation> {
        let setting = Setting {
            append: self.append,
            offsets_known: self.offsets_known,
            rules: plan.rules,
        };
        let host = TaskHost::sabotaged(setting, sabotage);
        let trace = traced.then_some((self.name, 0));
        let mut world = World::new(Arc::clone(plan), setting, host, trace)?;
        world.stop_time();
        Ok(world)
    }

    /// Plays these actions. `rest`: the world has to come to rest afterwards.
    fn play(
        &self,
        plan: &Arc<Plan>,
        sabotage: Sabotage,
        actions: &[Action],
        rest: bool,
    ) -> Option<Violation> {
        guarded(|| {
            let mut world = self.begin(plan, sabotage, false)?;
            actions.iter().try_for_each(|action| world.act(action))?;
            if rest { world.finish() } else { Ok(()) }
        })
    }

    /// What is said of these actions, each of which is passed over where it cannot be done.
    pub fn judge(
        &self,
        sabotage: Sabotage,
        judged: Judged,
        actions: &[Action],
    ) -> Option<Violation> {
        let plan = Arc::new((self.plan)());
        let acted = self.play(&plan, sabotage, actions, false);
        let rested = || self.play(&plan, sabotage, actions, true);
        acted.or_else(|| match judged {
            Judged::Actions => None,
            Judged::ActionsAndRest => rested(),
        })
    }

    /// What happens in these actions.
    fn trace(&self, sabotage: Sabotage, actions: &[Action], rest: bool) -> Trace {
        let plan = Arc::new((self.plan)());
        let mut traced = None;
        let _violation = guarded(|| {
            let world = traced.insert(self.begin(&plan, sabotage, true)?);
            actions.iter().try_for_each(|action| world.act(action))?;
            if rest { world.finish() } else { Ok(()) }
        });
        let trace = traced.and_then(World::into_trace);
        let mut trace = trace.unwrap_or_else(|| Trace::of(self.name, 0));
        trace.on_purpose = sabotage.on_purpose();
        trace
    }
}

impl Counterexample {
    /// The schedule for a reader: each action's events under its number, and what is wrong.
    pub fn schedule(&self) -> String {
        let mut text = String::new();
        let mut told = None;
        for event in &self.trace.events {
            if event.step > self.actions.len() as u64 && told <= Some(self.actions.len() as u64) {
                text.push_str("  then it comes to rest:\n");
            }
            told = Some(event.step);
            let actor = self.trace.actor(event.actor);
            // A text in memory takes everything.
            let _written = writeln!(
                text,
                "{:>5}  {actor:<12} {}",
                event.step,
                self.trace.text(event)
            );
        }
        let _written = writeln!(
            text,
            "VIOLATION {}: {}",
            self.violation.rule, self.violation.text
        );
        text
    }
}
