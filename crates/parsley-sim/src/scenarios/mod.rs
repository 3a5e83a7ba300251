//! All scenarios, by name.

mod chains;
mod crossings;
mod redeploys;

use crate::scenario::Scenario;

/// Every scenario, in the order in which they are listed.
pub fn all() -> Vec<&'static Scenario> {
    let groups = [
        chains::SCENARIOS,
        crossings::SCENARIOS,
        redeploys::SCENARIOS,
    ];
    groups.into_iter().flatten().collect()
}

/// The scenario of that name.
pub fn named(name: &str) -> Option<&'static Scenario> {
    all().into_iter().find(|scenario| scenario.name == name)
}
