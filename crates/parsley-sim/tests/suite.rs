//! Every scenario over its seeds: nothing is violated, everything drains, and what each is about happens on enough seeds (V1 to V7).

use parsley_sim::run::Request;
use parsley_sim::suite::Suite;
use parsley_sim::{Counts, Sabotage, scenarios};

/// A build without optimisation runs fewer.
const SEEDS: u64 = if cfg!(debug_assertions) { 20 } else { 100 };

#[test]
fn every_scenario_holds_and_reaches_its_floors() {
    let suite = Suite::all(0..SEEDS);
    let reports = suite.run(Sabotage::None, &|_| ());
    let mut total = Counts::default();
    let mut wrong = Vec::new();
    for report in &reports {
        assert_eq!(report.seeds, SEEDS, "{}", report.scenario.name);
        assert!(
            !report.scenario.floors.is_empty(),
            "{} would pass without anything happening",
            report.scenario.name
        );
        total += report.counts;
        for (seed, violation) in &report.violations {
            let name = report.scenario.name;
            wrong.push(format!(
                "{name}, seed {seed}: {}: {}",
                violation.rule, violation.text
            ));
        }
        for (what, fired, due) in report.floors_missed() {
            wrong.push(format!(
                "{}: {what} on {fired}, {due} are due",
                report.scenario.name
            ));
        }
    }
    println!("{} scenarios, {SEEDS} seeds each: {total:?}", reports.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What cannot happen in some settings of the log: transactions whose markers are all written at once leave nobody waiting, and where offsets are
/// told nothing is claimed by sequence.
const NOT_EVERYWHERE: &[&str] = &["a start that had to wait", "a stamp claimed by sequence"];

/// A floor over all seeds could be met by one of the two modes of appending alone, and the other would show nothing.
#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "takes a release build, which the gate's stage `sim` runs"
)]
fn what_a_scenario_is_about_happens_in_every_setting_of_the_log() {
    const SETTINGS: usize = 4;
    // Chance has to have a chance in each.
    const SEEDS_OF_SETTINGS: u64 = 100;
    let mut never = Vec::new();
    for scenario in scenarios::all() {
        let mut fired = vec![[0_u64; SETTINGS]; scenario.floors.len()];
        for seed in 0..SEEDS_OF_SETTINGS {
            let request = Request {
                scenario,
                seed,
                trace: false,
            };
            let counts = request.run(Sabotage::None).counts;
            for (fired, floor) in fired.iter_mut().zip(scenario.floors) {
                fired[seed as usize % SETTINGS] += u64::from((floor.fired)(&counts));
            }
        }
        for (fired, floor) in fired.iter().zip(scenario.floors) {
            if fired.contains(&0) && !NOT_EVERYWHERE.contains(&floor.what) {
                never.push(format!("{}: {}: {fired:?}", scenario.name, floor.what));
            }
        }
    }
    assert!(never.is_empty(), "{never:#?}");
}
