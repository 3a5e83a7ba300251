//! The search itself: `stateright` goes all ways, breadth first.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stateright::{Checker, Model, Property};

use super::{Counterexample, Judged, SmallWorld};
use crate::TaskHost;
use crate::host::TaskNo;
use crate::plan::Plan;
use crate::run::guarded;
use crate::task_host::Sabotage;
use crate::world::{Action, Allowed, Sight, Violation, World};

/// What an exploration came to.
#[derive(Clone, Debug)]
pub struct Exploration {
    /// How many different states there are.
    pub states: usize,
    /// How many times an action led to a state, the first one included.
    pub transitions: usize,
    /// The number of actions on the way to the state that is furthest from the beginning.
    pub depth: usize,
    /// In how many states of all what a world is about has come to pass.
    pub seen: Seen,
    /// The shortest way into a violation of what is judged. The search ends with it.
    pub counterexample: Option<Counterexample>,
}

/// In how many states something was so. A world in which a thing never is so has not shown that it is right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// A task holds something.
    pub holding: usize,
    /// A task is down that had been holding something.
    pub down_while_holding: usize,
    /// A log has a record of a step, or of a client's transaction, that was aborted.
    pub aborted: usize,
    /// Nothing more can happen, crashes apart.
    pub at_rest: usize,
}

#[derive(Default)]
struct Tally {
    holding: AtomicUsize,
    down_while_holding: AtomicUsize,
    aborted: AtomicUsize,
    at_rest: AtomicUsize,
}

/// Goes all ways through a world, to the end or to the first violation.
pub fn explore(world: &SmallWorld, sabotage: Sabotage, judged: Judged) -> Exploration {
    Ways::of(world, sabotage, judged).go(None)
}

/// The same for ways of at most so many actions.
pub fn explore_up_to(
    world: &SmallWorld,
    sabotage: Sabotage,
    judged: Judged,
    actions_max: usize,
) -> Exploration {
    Ways::of(world, sabotage, judged).go(Some(actions_max))
}

/// The name of the one property. There is one alone because the checker keeps the first violation of a single property, and of several
/// the latest.
const RIGHT: &str = "right";

/// All ways through a world, as the checker sees them.
struct Ways {
    world: SmallWorld,
    plan: Arc<Plan>,
    sabotage: Sabotage,
    judged: Judged,
    tally: Tally,
}

/// The actions that led to a state, latest first.
struct Way {
    action: Action,
    before: Option<Arc<Way>>,
}

/// A state: how to get there, what it is, and what can happen next.
#[derive(Clone)]
struct State {
    way: Option<Arc<Way>>,
    digest: u64,
    next: Arc<[Action]>,
    sight: Sight,
    violation: Option<Arc<Violation>>,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.digest);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl State {
    /// What has happened, in order.
    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut way = self.way.as_ref();
        while let Some(Way { action, before }) = way.map(AsRef::as_ref) {
            actions.push(action.clone());
            way = before.as_ref();
        }
        actions.reverse();
        actions
    }
}

impl Ways {
    fn of(world: &SmallWorld, sabotage: Sabotage, judged: Judged) -> Self {
        Self {
            world: *world,
            plan: Arc::new((world.plan)()),
            sabotage,
            judged,
            tally: Tally::default(),
        }
    }

    fn go(self, actions_max: Option<usize>) -> Exploration {
        // On one thread: on several, the first way found need not be the shortest.
        let mut checker = self.checker().threads(1);
        if let Some(actions_max) = actions_max {
            // It counts the states of a way, and does not look at the last of them.
            checker = checker.target_max_depth(actions_max + 2);
        }
        let checker = checker.spawn_bfs().join();
        let found = checker.discovery(RIGHT).map(|path| path.into_actions());
        let ways = checker.model();
        Exploration {
            states: checker.unique_state_count(),
            transitions: checker.state_count(),
            // It counts states, also of ways that it then does not look at.
            depth: (checker.max_depth() - 1).min(actions_max.unwrap_or(usize::MAX)),
            seen: ways.tally.seen(),
            counterexample: found.and_then(|actions| ways.counterexample(actions)),
        }
    }

    /// The state that these actions lead to.
    fn state(&self, actions: &[Action], way: Option<Arc<Way>>) -> State {
        let mut reached = None;
        let violation = guarded(|| {
            let mut world = self.world.begin(&self.plan, self.sabotage, false)?;
            let mut spent = Spent::default();
            for action in actions {
                spent.add(&world, action);
                world.act(action)?;
            }
            reached = Some((world, spent));
            Ok(())
        });
        let Some((world, spent)) = reached else {
            return State {
                way,
                digest: Self::digest_of_violation(violation.as_ref()),
                next: Arc::default(),
                sight: Sight::default(),
                violation: violation.map(Arc::new),
            };
        };
        let allowed = Allowed {
            questions: spent.questions < self.world.questions,
            batches: self.world.batches,
        };
        let mut next = world.choices(allowed);
        if let Some(phase) = self.plan.script.get(spent.phases) {
            next.push(Action::Script(phase.clone()));
        }
        let mut digest = Collected::default();
        spent.hash(&mut digest);
        world.digest(&mut digest);
        State {
            way,
            digest: digest.finish(),
            next: next.into(),
            sight: world.sight(),
            violation: None,
        }
    }

    fn digest_of_violation(violation: Option<&Violation>) -> u64 {
        let mut digest = DefaultHasher::new();
        let said = violation.map(|violation| (violation.rule.to_string(), &violation.text));
        said.hash(&mut digest);
        digest.finish()
    }

    /// Whether nothing is wrong in the state.
    fn is_right(&self, state: &State) -> bool {
        self.tally.count(state);
        let rests = || {
            let actions = state.actions();
            let found = self.world.play(&self.plan, self.sabotage, &actions, true);
            found.is_none()
        };
        state.violation.is_none() && (self.judged == Judged::Actions || rests())
    }

    fn counterexample(&self, actions: Vec<Action>) -> Option<Counterexample> {
        let violation = self.world.judge(self.sabotage, self.judged, &actions)?;
        let acted = Judged::Actions;
        let at_rest = self.world.judge(self.sabotage, acted, &actions).is_none();
        let trace = self.world.trace(self.sabotage, &actions, at_rest);
        Some(Counterexample {
            actions,
            violation,
            at_rest,
            trace,
        })
    }
}

impl Model for Ways {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.state(&[], None)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend_from_slice(&state.next);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut actions = last.actions();
        actions.push(action.clone());
        let way = Way {
            action,
            before: last.way.clone(),
        };
        Some(self.state(&actions, Some(Arc::new(way))))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(RIGHT, Self::is_right)]
    }
}

/// Collects what it is told and hashes it in one go, which is faster than a piece at a time.
#[derive(Default)]
struct Collected(Vec<u8>);

impl Hasher for Collected {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.0);
        hasher.finish()
    }
}

/// What an exploration gives out by number, and has given out already.
#[derive(Clone, Copy, Default, Hash)]
struct Spent {
    /// Phases of the script.
    phases: usize,
    /// Questions about watermarks.
    questions: usize,
}

impl Spent {
    /// The action is about to happen in the world.
    fn add(&mut self, world: &World<TaskHost>, action: &Action) {
        match action {
            Action::Script(_) => self.phases += 1,
            Action::Evidence(task) if !world.host().is_asking(TaskNo(*task)) => self.questions += 1,
            _ => {}
        }
    }
}

impl Tally {
    fn count(&self, state: &State) {
        let Sight {
            holding,
            down_while_holding,
            aborted,
        } = state.sight;
        let goes_on = |action: &Action| {
            let idle = matches!(
                action,
                Action::Crash(_) | Action::Evidence(_) | Action::Check(_)
            );
            !idle && !matches!(action, Action::Step { crash: Some(_), .. })
        };
        let at_rest = state.violation.is_none() && !state.next.iter().any(goes_on);
        let add = |to: &AtomicUsize, is_so: bool| to.fetch_add(is_so.into(), Ordering::Relaxed);
        add(&self.holding, holding);
        add(&self.down_while_holding, down_while_holding);
        add(&self.aborted, aborted);
        add(&self.at_rest, at_rest);
    }

    fn seen(&self) -> Seen {
        let read = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        Seen {
            holding: read(&self.holding),
            down_while_holding: read(&self.down_while_holding),
            aborted: read(&self.aborted),
            at_rest: read(&self.at_rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use super::*;
    use crate::explore::worlds;

    /// The digests of what can follow a state, in order.
    fn successors(ways: &Ways, state: &State) -> Vec<u64> {
        let next = state.next.iter();
        let next = next.filter_map(|action| ways.next_state(state, action.clone()));
        let mut digests: Vec<u64> = next.map(|state| state.digest).collect();
        digests.sort_unstable();
        digests.dedup();
        digests
    }

    /// Taking two states for one is sound when what can follow is the same, whichever way led there. That is tried for every way that ends in a
    /// state which an earlier one had reached, in worlds of both kinds. Counts how many there were.
    fn check_merges(name: &str) -> usize {
        let world = worlds::named(name).expect("the world exists");
        let ways = Ways::of(world, Sabotage::None, Judged::Actions);
        let mut known: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut waiting = VecDeque::from(ways.init_states());
        let mut merged = 0;
        while let Some(state) = waiting.pop_front() {
            let after = successors(&ways, &state);
            if let Some(before) = known.get(&state.digest) {
                assert_eq!(before, &after, "{name}: {:?}", state.actions());
                merged += 1;
                continue;
            }
            known.insert(state.digest, after);
            let next = state.next.iter();
            waiting.extend(next.filter_map(|action| ways.next_state(&state, action.clone())));
        }
        merged
    }

    #[test]
    fn states_that_are_taken_for_one_have_the_same_future() {
        assert!(check_merges("triangle-one-by-one") > 100);
    }

    #[test]
    fn states_that_are_taken_for_one_have_the_same_future_after_crashes() {
        assert!(check_merges("triangle-two-crashes") > 500);
    }

    #[test]
    fn states_that_are_taken_for_one_have_the_same_future_on_two_sinks() {
        assert!(check_merges("two-sinks") > 500);
    }

    #[test]
    fn states_that_are_taken_for_one_have_the_same_future_after_aborts() {
        assert!(check_merges("aborts-one-by-one") > 500);
    }

    #[test]
    fn a_way_is_the_list_of_its_actions() {
        let world = worlds::named("triangle").expect("the world exists");
        let ways = Ways::of(world, Sabotage::None, Judged::Actions);
        let mut state = ways.init_states().remove(0);
        let mut actions = Vec::new();
        for _ in 0..4 {
            let action = state.next.first().expect("something can happen").clone();
            state = ways.next_state(&state, action.clone()).expect("it is done");
            actions.push(action);
        }
        assert_eq!(state.actions(), actions);
        assert_eq!(ways.state(&actions, None).digest, state.digest);
    }
}
