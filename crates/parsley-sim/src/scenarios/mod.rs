//! All scenarios, by name.

mod chains;
mod crossings;
mod cycles;
mod filters;
mod identity;
mod joins;
mod reached;
mod receipt;
mod recovery;
mod redeploys;
mod retention;
mod rounds;
mod scope;
mod terms;
mod ticks;
mod truncation;
mod watermarks;

use crate::scenario::Scenario;

/// Every scenario, in the order in which they are listed.
pub fn all() -> Vec<&'static Scenario> {
    let groups = [
        chains::SCENARIOS,
        filters::SCENARIOS,
        cycles::SCENARIOS,
        ticks::SCENARIOS,
        terms::SCENARIOS,
        scope::SCENARIOS,
        truncation::SCENARIOS,
        joins::SCENARIOS,
        receipt::SCENARIOS,
        rounds::SCENARIOS,
        crossings::SCENARIOS,
        redeploys::SCENARIOS,
        retention::SCENARIOS,
        watermarks::SCENARIOS,
        identity::SCENARIOS,
        recovery::SCENARIOS,
    ];
    groups.into_iter().flatten().collect()
}

/// The scenario of that name.
pub fn named(name: &str) -> Option<&'static Scenario> {
    all().into_iter().find(|scenario| scenario.name == name)
}
