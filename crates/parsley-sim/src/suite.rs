//! All seeds of a scenario, all scenarios: run, counted, held against their floors.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::count::Counts;
use crate::host::{AppendMode, ConformanceHost, Setting};
use crate::plan::{End, Phase, Plan};
use crate::run::{Outcome, Request};
use crate::scenario::Scenario;
use crate::task_host::Sabotage;
use crate::world::Violation;
use crate::{Chance, scenarios};

/// What the seeds of one scenario came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// How many seeds were run.
    pub seeds: u64,
    /// What happened, added up.
    pub counts: Counts,
    /// On how many seeds each floor's event happened, in the order of the scenario's floors.
    pub fired: Vec<u64>,
    /// The seeds that violated something, in order; the first few with what they violated.
    pub violations: Vec<(u64, Violation)>,
    /// How many seeds violated something.
    pub violating: u64,
    /// How many of them violated which rule first.
    pub rules: BTreeMap<String, u64>,
}

/// How many violations a report keeps.
const VIOLATIONS_KEPT: usize = 20;

impl Report {
    fn new(scenario: &'static Scenario) -> Self {
        Self {
            scenario,
            seeds: 0,
            counts: Counts::default(),
            fired: vec![0; scenario.floors.len()],
            violations: Vec::new(),
            violating: 0,
            rules: BTreeMap::new(),
        }
    }

    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.seeds += 1;
        for (fired, floor) in self.fired.iter_mut().zip(self.scenario.floors) {
            *fired += u64::from((floor.fired)(&outcome.counts));
        }
        self.counts += outcome.counts;
        if let Some(violation) = outcome.violation {
            self.violating += 1;
            *self.rules.entry(violation.rule.to_string()).or_default() += 1;
            if self.violations.len() < VIOLATIONS_KEPT {
                self.violations.push((seed, violation));
            }
        }
    }

    fn absorb(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.counts += other.counts;
        for (fired, more) in self.fired.iter_mut().zip(other.fired) {
            *fired += more;
        }
        self.violating += other.violating;
        for (rule, seeds) in other.rules {
            *self.rules.entry(rule).or_default() += seeds;
        }
        self.violations.extend(other.violations);
        self.violations.sort_by_key(|(seed, _)| *seed);
        self.violations.truncate(VIOLATIONS_KEPT);
    }

    /// The floors that were missed: what, on how many seeds it happened, and on how many it should have.
    pub fn floors_missed(&self) -> Vec<(&'static str, u64, u64)> {
        let floors = self.scenario.floors.iter().zip(&self.fired);
        floors
            .map(|(floor, &fired)| (floor.what, fired, floor.of(self.seeds)))
            .filter(|&(_, fired, due)| fired < due)
            .collect()
    }

    /// Nothing was violated, and every floor was reached.
    pub fn holds(&self) -> bool {
        self.violating == 0 && self.floors_missed().is_empty()
    }
}

/// How a suite is run.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The scenarios, in the order of the reports.
    pub scenarios: Vec<&'static Scenario>,
    /// The seeds of each.
    pub seeds: Range<u64>,
    /// On how many threads.
    pub jobs: NonZeroUsize,
}

/// Seeds that a thread takes at a time.
const CHUNK: u64 = 20;

impl Suite {
    /// All scenarios.
    pub fn all(seeds: Range<u64>) -> Self {
        Self {
            scenarios: scenarios::all(),
            seeds,
            jobs: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }

    /// How many runs that is.
    pub fn runs(&self) -> u64 {
        let seeds = self.seeds.end.saturating_sub(self.seeds.start);
        seeds * self.scenarios.len() as u64
    }

    /// Runs everything on the task host, as it is or with something wrong on purpose. `progress` is told how many runs are done.
    pub fn run(&self, sabotage: Sabotage, progress: &(dyn Fn(u64) + Sync)) -> Vec<Report> {
        let run = |scenario, seed| {
            let request = Request {
                scenario,
                seed,
                trace: false,
            };
            Some(request.run(sabotage))
        };
        self.run_each(&run, progress)
    }

    /// Runs everything that a host can run. A host without a mode of appending runs every seed in the one that it has.
    pub fn run_on<H: ConformanceHost>(
        &self,
        make: &(dyn Fn(Setting) -> H + Sync),
        progress: &(dyn Fn(u64) + Sync),
    ) -> Vec<Report> {
        let run = |scenario, seed| {
            let request = Request {
                scenario,
                seed,
                trace: false,
            };
            let plan = (scenario.plan)(&mut Chance::of_seed(seed));
            if !can_run::<H>(&plan) {
                return None;
            }
            let mut setting = Request::setting(seed, &plan);
            if !H::supports(setting.append) {
                setting.append = match setting.append {
                    AppendMode::Atomic => AppendMode::Interleaved,
                    AppendMode::Interleaved => AppendMode::Atomic,
                };
            }
            Some(request.run_on(setting, make))
        };
        self.run_each(&run, progress)
    }

    fn run_each(
        &self,
        run: &(dyn Fn(&'static Scenario, u64) -> Option<Outcome> + Sync),
        progress: &(dyn Fn(u64) + Sync),
    ) -> Vec<Report> {
        let seeds = self.seeds.end.saturating_sub(self.seeds.start);
        let chunks = seeds.div_ceil(CHUNK);
        let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let fresh = || self.scenarios.iter().map(|scenario| Report::new(scenario));
        let total = Mutex::new(fresh().collect::<Vec<_>>());
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.get() {
                scope.spawn(|| {
                    let mut reports: Vec<Report> = fresh().collect();
                    loop {
                        let chunk = next.fetch_add(1, Ordering::Relaxed);
                        let index = (chunk / chunks.max(1)) as usize;
                        let Some(report) = reports.get_mut(index) else {
                            break;
                        };
                        let first = self.seeds.start + chunk % chunks * CHUNK;
                        for seed in first..(first + CHUNK).min(self.seeds.end) {
                            if let Some(outcome) = run(report.scenario, seed) {
                                report.add(seed, outcome);
                            }
                            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
                        }
                    }
                    let mut total = total
                        .lock()
                        .expect("a thread that panics ends the whole scope");
                    for (sum, report) in total.iter_mut().zip(reports) {
                        sum.absorb(report);
                    }
                });
            }
        });
        total
            .into_inner()
            .expect("a thread that panics ends the whole scope")
    }
}

/// Whether a host can do what a plan is about.
fn can_run<H: ConformanceHost>(plan: &Plan) -> bool {
    let mut declarations = plan.stages.iter().flat_map(|stage| &stage.declarations);
    let ticks = declarations.any(|declaration| declaration.ticks.is_some());
    let tampers = |phase: &Phase| {
        matches!(
            phase,
            Phase::Rewind(..) | Phase::Forget(..) | Phase::Hide(..)
        )
    };
    let wedges = matches!(plan.rules.end, End::Wedged { .. });
    (H::ticks() || !ticks)
        && (H::can_be_tampered_with() || !plan.script.iter().any(tampers))
        && (H::can_withhold_offsets() || !wedges)
}
