//! The embedded host passes the conformance kit: every scenario, many seeds, an oracle that knows what really happened. And the kit is no
//! formality: with a fault around the same host it finds something.

#[path = "../support/dir.rs"]
mod dir;
mod faults;
mod host;
mod outcome;

use std::collections::BTreeMap;

use parsley_sim::host::{AppendMode, ConformanceHost, Setting};
use parsley_sim::run::Request;
use parsley_sim::scenario::Scenario;
use parsley_sim::suite::{Report, Suite};
use parsley_sim::{Chance, Counts, scenarios};

use faults::{Fault, FaultyHost};
use host::EmbeddedHost;

/// How many seeds of each scenario are run. A build without optimisation runs fewer.
const SEEDS: u64 = if cfg!(debug_assertions) { 4 } else { 100 };

/// With a log in a directory.
const SEEDS_ON_DISK: u64 = if cfg!(debug_assertions) { 3 } else { 15 };

/// On how many seeds of each scenario a fault is looked for.
const SEEDS_WITH_A_FAULT: u64 = if cfg!(debug_assertions) { 4 } else { 20 };

/// Scenarios that this host cannot run, and why.
const PASSED_OVER: &[(&str, &str)] = &[
    // Its other half, `late-joiner-evidence`, runs: it has to come to rest, whatever stamps name.
    ("late-joiner-wedge", OFFSETS),
    ("b15-positions-moved-back", TAMPERING),
    ("b15-positions-expired", TAMPERING),
    ("g16-positions-moved-ahead", TAMPERING),
    ("g11-state-lost", TAMPERING),
    ("g7-held-record-lost", TAMPERING),
    ("g6-dropped-sink-unresolved", NAMES),
];

const NAMES: &str = "the log that has a topic resolves its name";

const TICKS: &str = "a step ticks ahead of its deliveries, so no tick is stamped with what its own step was delivered";

const OFFSETS: &str = "a step's rounds are fenced with the offsets that they got (decision E1), so stamps never name a send by \
    its sequence, and nothing waits for one";

const TAMPERING: &str =
    "positions and state stand in the log's storage side by side, out of everyone's reach";

/// What scenarios want to have seen and this host cannot do.
struct OutOfReach {
    what: &'static str,
    /// Where that is so; `None`: wherever it is wanted.
    scenarios: Option<&'static [&'static str]>,
    why: &'static str,
}

const OUT_OF_REACH: &[OutOfReach] = &[
    OutOfReach {
        what: "a stamp claimed by sequence",
        scenarios: None,
        why: OFFSETS,
    },
    OutOfReach {
        what: "a record was held",
        scenarios: Some(&[
            "late-joiner-evidence",
            "evidence-covers-a-later-record",
            "p7-joiner-after-retention",
            "p13-watermark-over-a-waiting-record",
        ]),
        why: OFFSETS,
    },
    OutOfReach {
        what: "watermarks were handed in",
        scenarios: Some(&[
            "late-joiner-evidence",
            "evidence-covers-a-later-record",
            "evidence-under-crashes",
            "p7-joiner-after-retention",
            "p13-watermark-over-a-waiting-record",
        ]),
        why: OFFSETS,
    },
    OutOfReach {
        what: "a tick behind a delivery of its step",
        scenarios: None,
        why: TICKS,
    },
    OutOfReach {
        what: "a record was held",
        scenarios: Some(&["stage-tick-behind-deliveries"]),
        why: TICKS,
    },
    OutOfReach {
        what: "a record was held",
        scenarios: Some(&["p14-deleted-while-running"]),
        why: "what was deleted is judged before the next record is fed (decision E4), so nothing comes to wait for it",
    },
    OutOfReach {
        what: "a start that had to wait",
        scenarios: None,
        why: "a transaction and all its markers are decided under one lock, so no opening finds one half decided",
    },
];

impl OutOfReach {
    fn excuses(&self, scenario: &str, what: &str) -> bool {
        let here = self.scenarios.is_none_or(|names| names.contains(&scenario));
        here && self.what == what
    }
}

fn table(reports: &[Report]) -> String {
    let line = |name: &str, seeds: u64, counts: &Counts| {
        let Counts {
            steps,
            deliveries,
            holds,
            crashes,
            restores_with_holds,
            position_advances,
            ..
        } = counts;
        format!(
            "{name:32} {seeds:>6} {steps:>7} {deliveries:>10} {holds:>6} {crashes:>7} {restores_with_holds:>8} {position_advances:>8}\n"
        )
    };
    let mut total = Counts::default();
    let mut text = format!(
        "{:32} {:>6} {:>7} {:>10} {:>6} {:>7} {:>8} {:>8}\n",
        "scenario", "seeds", "steps", "deliveries", "holds", "crashes", "restored", "advances"
    );
    for report in reports {
        total += report.counts;
        text += &line(report.scenario.name, report.seeds, &report.counts);
    }
    let seeds = reports.iter().map(|report| report.seeds).sum();
    text + &line("all", seeds, &total)
}

#[test]
fn every_scenario_holds_on_the_embedded_host() {
    let reports = Suite::all(0..SEEDS).run_on(&EmbeddedHost::new, &|_| {});
    let mut wrong = violations(&reports, SEEDS);
    // A build without optimisation has too few seeds for them.
    if !cfg!(debug_assertions) {
        wrong.extend(missed_floors(&reports));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The same with a log in a directory, from which everything is read. These are too few seeds for floors.
#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "takes a release build, which the gate's stage `sim` runs"
)]
fn every_scenario_holds_on_the_embedded_host_over_a_directory() {
    let reports = Suite::all(0..SEEDS_ON_DISK).run_on(&EmbeddedHost::on_disk, &|_| {});
    let wrong = violations(&reports, SEEDS_ON_DISK);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn violations(reports: &[Report], seeds: u64) -> Vec<String> {
    println!("{}", table(reports));
    let mut wrong = Vec::new();
    for report in reports {
        let name = report.scenario.name;
        for (seed, violation) in &report.violations {
            let (rule, text) = (violation.rule, &violation.text);
            wrong.push(format!("{name}, seed {seed}: {rule}: {text}"));
        }
        let passed_over = PASSED_OVER.iter().find(|&&(passed, _)| passed == name);
        if report.seeds != passed_over.map_or(seeds, |_| 0) {
            wrong.push(format!("{name} ran on {} seeds", report.seeds));
        }
        if let Some((_, why)) = passed_over {
            println!("{name} is passed over: {why}");
        }
    }
    wrong
}

fn missed_floors(reports: &[Report]) -> Vec<String> {
    let mut wrong = Vec::new();
    for report in reports.iter().filter(|report| report.seeds > 0) {
        let name = report.scenario.name;
        for (floor, &fired) in report.scenario.floors.iter().zip(&report.fired) {
            let excuse = OUT_OF_REACH
                .iter()
                .find(|excuse| excuse.excuses(name, floor.what));
            let is_missed = fired < floor.of(report.seeds);
            match excuse {
                Some(OutOfReach { why, .. }) if is_missed => {
                    println!("{name}: {}, on {fired} seeds: {why}", floor.what);
                }
                Some(_) => wrong.push(format!("{name}: {} is within reach", floor.what)),
                None if is_missed => {
                    wrong.push(format!("{name}: {}, on {fired} seeds", floor.what));
                }
                None => {}
            }
        }
    }
    wrong
}

/// An exception for what does not exist would hide the next thing of that name.
#[test]
fn every_exception_names_a_scenario_and_a_floor() {
    for (scenario, _) in PASSED_OVER {
        assert!(scenarios::named(scenario).is_some(), "{scenario}");
    }
    for excuse in OUT_OF_REACH {
        let wants = |scenario: &Scenario| {
            let mut floors = scenario.floors.iter();
            floors.any(|floor| floor.what == excuse.what)
        };
        match excuse.scenarios {
            None => assert!(scenarios::all().into_iter().any(wants), "{}", excuse.what),
            Some(names) => {
                for name in names {
                    let found = scenarios::named(name).is_some_and(wants);
                    assert!(found, "{name}: {}", excuse.what);
                }
            }
        }
    }
}

/// B28: nothing but the seed decides what happens.
#[test]
fn a_run_repeats_itself() {
    for scenario in scenarios::all() {
        if PASSED_OVER.iter().any(|&(name, _)| name == scenario.name) {
            continue;
        }
        let seed = 3;
        let plan = (scenario.plan)(&mut Chance::of_seed(seed));
        let setting = Setting {
            append: AppendMode::Atomic,
            ..Request::setting(seed, &plan)
        };
        let request = Request {
            scenario,
            seed,
            trace: true,
        };
        let run = || {
            let outcome = request.run_on(setting, EmbeddedHost::new);
            outcome.trace.expect("it was asked for").to_string()
        };
        let first = run();
        assert!(first.lines().count() > 10, "{}: {first}", scenario.name);
        assert_eq!(first, run(), "{}", scenario.name);
    }
}

/// V9: each fault is found, by what it does to deliveries and not by the fault's name.
#[test]
fn a_fault_around_the_host_is_found() {
    let suite = Suite::all(0..SEEDS_WITH_A_FAULT);
    let mut unnoticed = Vec::new();
    for fault in Fault::ALL {
        let make = |setting| FaultyHost::with(fault, setting);
        let reports = suite.run_on(&make, &|_| {});
        let caught: BTreeMap<&str, u64> = reports
            .iter()
            .filter(|report| report.violating > 0)
            .map(|report| (report.scenario.name, report.violating))
            .collect();
        let mut rules: BTreeMap<String, u64> = BTreeMap::new();
        for (_, violation) in reports.iter().flat_map(|report| &report.violations) {
            *rules.entry(violation.rule.to_string()).or_default() += 1;
        }
        println!("{fault:?}: {caught:?}, as {rules:?}");
        if caught.is_empty() {
            unnoticed.push(fault);
        }
    }
    assert!(unnoticed.is_empty(), "unnoticed: {unnoticed:?}");
}
