//! A scenario: a family of worlds, and what must have happened in enough of them for their success to mean something.

use crate::chance::Chance;
use crate::count::Counts;
use crate::plan::Plan;

/// How many of 100 seeds must have reached what a scenario is about, where it gives no other number.
pub const SEED_FLOOR: u32 = 20;

/// A family of worlds.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name on the command line, in kebab case.
    pub name: &'static str,
    /// What it is about, in a sentence.
    pub about: &'static str,
    /// Draws the world of a seed.
    pub plan: fn(&mut Chance) -> Plan,
    /// What must have fired.
    pub floors: &'static [Floor],
}

/// Something that must have happened on enough seeds.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    /// What, in a few words.
    pub what: &'static str,
    /// On how many of 100 seeds.
    pub of_100: u32,
    /// Whether it happened in a run.
    pub fired: fn(&Counts) -> bool,
}

impl Floor {
    /// Something that must have happened on [`SEED_FLOOR`] of 100 seeds.
    pub const fn new(what: &'static str, fired: fn(&Counts) -> bool) -> Self {
        Self {
            what,
            of_100: SEED_FLOOR,
            fired,
        }
    }

    /// The same, on so many of 100 seeds.
    pub const fn on(what: &'static str, of_100: u32, fired: fn(&Counts) -> bool) -> Self {
        Self {
            what,
            of_100,
            fired,
        }
    }

    /// How many of so many seeds that is: rounded down, and 0 below five seeds, of which nothing can be said.
    pub fn of(&self, seeds: u64) -> u64 {
        if seeds < 5 {
            return 0;
        }
        u64::from(self.of_100) * seeds / 100
    }
}
