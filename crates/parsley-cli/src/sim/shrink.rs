//! `parsley sim shrink`: the least part of a run that still goes wrong in the same way.

use std::io::{self, Write};

use parsley_sim::Sabotage;
use parsley_sim::report::{FailureReport, RunId};
use parsley_sim::run::Request;
use parsley_sim::scenario::Scenario;
use parsley_sim::shrink::{RECORDS_ENOUGH, Shrunk, shrink};

use super::args::{Scenarios, Wrong};
use super::error::SimError;
use super::{names, seeds};
use crate::exit::Exit;
use crate::failure::Failure;

/// How many violating seeds are shrunk in search of a small one.
const SEEDS_SHRUNK_MAX: usize = 10;

/// Shrinks the run of a seed, or of the first seeds that violate something until one is small.
pub fn run(
    scenarios: &Scenarios,
    seed: Option<&str>,
    wrong: &Wrong,
    out: &mut impl Write,
) -> Result<Exit, Failure> {
    let sabotage = names::sabotage(wrong).map_err(SimError::from)?;
    let seeds = match seed {
        None => seeds::seeds(&scenarios.seeds),
        Some(seed) => seeds::seed(seed).map(|seed| seed..seed + 1),
    };
    let seeds = seeds.map_err(SimError::from)?;
    let scenarios = names::scenarios_of(&scenarios.scenario).map_err(SimError::from)?;
    let mut best: Option<Found> = None;
    let mut tried = 0;
    // Seed by seed through all scenarios: a scenario that cannot see it costs one run at a time.
    let runs = seeds.clone().flat_map(|seed| {
        let scenarios = scenarios.iter();
        scenarios.map(move |&scenario| (scenario, seed))
    });
    for (scenario, seed) in runs {
        let request = Request {
            scenario,
            seed,
            trace: true,
        };
        let Some(shrunk) = shrink(&request, sabotage) else {
            continue;
        };
        tried += 1;
        let found = Found {
            scenario,
            seed,
            sabotage,
            shrunk,
        };
        if best
            .as_ref()
            .is_none_or(|best| found.shrunk.records() < best.shrunk.records())
        {
            best = Some(found);
        }
        let is_small = |best: &Found| best.shrunk.records() <= RECORDS_ENOUGH;
        if tried == SEEDS_SHRUNK_MAX || best.as_ref().is_some_and(is_small) {
            break;
        }
    }
    let written = match &best {
        Some(found) => found.write(out),
        None => {
            let runs = (seeds.end - seeds.start) * scenarios.len() as u64;
            writeln!(out, "Nothing to shrink: all {runs} runs held.")
        }
    };
    written.and_then(|()| out.flush()).map_err(Failure::Write)?;
    Ok(if best.is_some() {
        Exit::Done
    } else {
        Exit::Failed
    })
}

struct Found {
    scenario: &'static Scenario,
    seed: u64,
    sabotage: Sabotage,
    shrunk: Shrunk,
}

impl Found {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Self {
            scenario, shrunk, ..
        } = self;
        let outcome = &shrunk.outcome;
        if let Some(trace) = &outcome.trace {
            writeln!(out, "{trace}")?;
        }
        let run = RunId {
            scenario,
            seed: self.seed,
            sabotage: self.sabotage,
            part: &shrunk.part,
        };
        let Some(report) = FailureReport::of(run, outcome) else {
            return Ok(());
        };
        let counts = outcome.counts;
        writeln!(
            out,
            "Shrunk in {} runs: {} of {} records left ({} sent, {} appended by tasks), {} of {} actions, {} crashes.\n",
            shrunk.runs,
            shrunk.records(),
            shrunk.records_before,
            counts.edge_sends,
            counts.appends,
            outcome.actions.len(),
            shrunk.actions_before,
            counts.crashes
        )?;
        write!(out, "{report}")
    }
}
