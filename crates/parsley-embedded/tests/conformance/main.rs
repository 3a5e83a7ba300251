//! The embedded host passes the conformance kit: every scenario, many seeds, an oracle that knows what really happened. And the kit is no
//! formality: with a fault around the same host it finds something.

mod faults;
mod host;

use std::collections::BTreeMap;
use std::ops::Range;

use parsley_sim::host::ConformanceHost;
use parsley_sim::suite::{Report, Suite};
use parsley_sim::{Counts, scenarios};

use faults::{Fault, FaultyHost};
use host::EmbeddedHost;

/// A build without optimisation runs fewer.
const SEEDS: Range<u64> = if cfg!(debug_assertions) {
    0..40
} else {
    0..100
};

/// Scenarios that this host cannot run, and why.
const PASSED_OVER: &[(&str, &str)] = &[];

/// What scenarios want to have seen and this host cannot do, and why. It must not have happened even once.
const OUT_OF_REACH: &[(&str, &str)] = &[
    (
        "a stamp claims by sequence",
        "a step's rounds are fenced with the offsets that they got, so no stamp needs a sequence (decision E1)",
    ),
    (
        "a start that had to wait",
        "a transaction and all its markers are decided under one lock, so no opening finds one half decided",
    ),
];

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
    let reports = Suite::all(SEEDS).run_on(&EmbeddedHost::new, &|_| {});
    println!("{}", table(&reports));
    let mut wrong = Vec::new();
    for report in &reports {
        let name = report.scenario.name;
        for (seed, violation) in &report.violations {
            wrong.push(format!(
                "{name}, seed {seed}: {}: {}",
                violation.rule, violation.text
            ));
        }
        let is_passed_over = PASSED_OVER.iter().any(|&(scenario, _)| scenario == name);
        if is_passed_over != (report.seeds == 0) {
            wrong.push(format!("{name} ran on {} seeds", report.seeds));
        }
        for (floor, &fired) in report.scenario.floors.iter().zip(&report.fired) {
            if OUT_OF_REACH.iter().any(|&(what, _)| what == floor.what) {
                if fired > 0 {
                    wrong.push(format!("{name}: {} is within reach", floor.what));
                }
            } else if fired < floor.of(report.seeds) {
                wrong.push(format!("{name}: {} on {fired} seeds", floor.what));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A list of exceptions that names what is not there hides something.
#[test]
fn every_exception_names_a_scenario_and_a_floor() {
    for (scenario, _) in PASSED_OVER {
        assert!(scenarios::named(scenario).is_some(), "{scenario}");
    }
    let all = scenarios::all();
    let floors = || all.iter().flat_map(|scenario| scenario.floors);
    for (what, _) in OUT_OF_REACH {
        assert!(floors().any(|floor| floor.what == *what), "{what}");
    }
}

/// V9: each fault is found, by what it does to deliveries and not by the fault's name.
#[test]
fn a_fault_around_the_host_is_found() {
    let suite = Suite::all(0..20);
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
