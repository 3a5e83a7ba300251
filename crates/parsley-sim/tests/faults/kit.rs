//! What the tests of both catalogues share.

use std::num::NonZeroUsize;
use std::sync::Arc;

use parsley_model::Broken;
use parsley_sim::host::Setting;
use parsley_sim::plan::{Phase, Plan};
use parsley_sim::run::{Outcome, Request};
use parsley_sim::scenario::Scenario;
use parsley_sim::suite::{Report, Suite};
use parsley_sim::trace::{Kind, Trace};
use parsley_sim::{
    Action, Chance, Counts, HostFault, Sabotage, TaskHost, Violation, World, scenarios,
};

/// On how many seeds a scenario is run. A build without optimisation runs fewer.
pub const SEEDS: u64 = if cfg!(debug_assertions) { 40 } else { 100 };

/// On how many of them a sabotage has to be caught, where a test says nothing else.
pub const CAUGHT: u64 = SEEDS / 5;

pub const fn host(fault: HostFault) -> Sabotage {
    Sabotage::Host(fault)
}

pub const fn protocol(broken: Broken) -> Sabotage {
    Sabotage::Protocol(broken)
}

pub fn named(name: &str) -> &'static Scenario {
    scenarios::named(name).unwrap_or_else(|| panic!("no scenario {name}"))
}

fn report(name: &str, sabotage: Sabotage) -> Report {
    let suite = Suite {
        scenarios: vec![named(name)],
        seeds: 0..SEEDS,
        jobs: NonZeroUsize::MIN,
    };
    let mut reports = suite.run(sabotage, &|_| {});
    reports.pop().expect("one report for one scenario")
}

/// The scenario holds on every seed, with the node and with the model, and reaches its floors. Returns what happened in it.
pub fn holds(name: &str) -> Counts {
    let model = report(name, Sabotage::Model);
    assert_eq!(
        model.violating, 0,
        "{name}, by the model: {:?}",
        model.violations
    );
    let report = report(name, Sabotage::None);
    assert_eq!(report.violating, 0, "{name}: {:?}", report.violations);
    assert_eq!(report.floors_missed(), [], "{name} misses what it is about");
    report.counts
}

/// With that broken, the scenario fails on at least so many seeds.
pub fn catches_on(name: &str, sabotage: Sabotage, seeds: u64) {
    let violating = report(name, sabotage).violating;
    assert!(
        violating >= seeds,
        "{name} notices {sabotage:?} on {violating} seeds, {seeds} are due"
    );
}

/// With each of those broken, the scenario fails on enough seeds.
pub fn catches(name: &str, sabotages: &[Sabotage]) {
    for &sabotage in sabotages {
        catches_on(name, sabotage, CAUGHT);
    }
}

/// A run with its trace.
pub fn run(name: &str, seed: u64) -> Outcome {
    let request = Request {
        scenario: named(name),
        seed,
        trace: true,
    };
    request.run(Sabotage::None)
}

/// The trace of a run that violates nothing.
pub fn trace(name: &str, seed: u64) -> Trace {
    let outcome = run(name, seed);
    assert_eq!(outcome.violation, None, "{name} {seed}");
    outcome.trace.expect("a trace was asked for")
}

/// The clocks of what an actor sent to a channel, in order.
pub fn clocks_sent(trace: &Trace, actor: &str, channel: &str) -> Vec<String> {
    let sent = |event: &parsley_sim::trace::Event| match &event.kind {
        Kind::Sent { at, clock }
            if trace.channels[at.channel] == channel
                && event.actor.is_some_and(|by| trace.actors[by] == actor) =>
        {
            Some(clock.clone())
        }
        _ => None,
    };
    trace.events.iter().filter_map(sent).collect()
}

/// What was delivered to an actor by steps that were committed, in order.
pub fn delivered(trace: &Trace, actor: &str) -> Vec<String> {
    let mut committed = Vec::new();
    let mut open = Vec::new();
    for event in &trace.events {
        if event.actor.is_none_or(|by| trace.actors[by] != actor) {
            continue;
        }
        match &event.kind {
            Kind::Delivered { at, .. } => open.push(trace.place(*at)),
            Kind::Committed => committed.append(&mut open),
            Kind::Aborted | Kind::Crashed { .. } => open.clear(),
            _ => {}
        }
    }
    committed
}

/// The world of a plan on the task host, with a trace.
pub fn world(plan: &Plan, setting: Setting) -> World<TaskHost> {
    let host = TaskHost::sabotaged(setting, Sabotage::None);
    World::new(Arc::new(plan.clone()), setting, host, Some(("by hand", 0)))
        .expect("the plan can be deployed")
}

/// Plays the script of a scenario's plan. Afterwards the world is to be finished.
pub fn play(name: &str, seed: u64, sabotage: Sabotage) -> (World<TaskHost>, Result<(), Violation>) {
    let mut chance = Chance::of_seed(seed);
    let plan = (named(name).plan)(&mut chance);
    let setting = Request::setting(seed, &plan);
    let host = TaskHost::sabotaged(setting, sabotage);
    let mut world =
        World::new(Arc::new(plan.clone()), setting, host, None).expect("the plan can be deployed");
    let mut outcome = Ok(());
    for phase in &plan.script {
        let count = match phase {
            Phase::Random(count) => *count,
            phase => {
                outcome = outcome.and_then(|()| world.act(&Action::Script(phase.clone())));
                0
            }
        };
        for _ in 0..count {
            let Some(action) = world.draw(&mut chance) else {
                break;
            };
            outcome = outcome.and_then(|()| world.act(&action));
        }
    }
    (world, outcome)
}
