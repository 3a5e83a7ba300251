//! Every scenario over its seeds: nothing is violated, everything drains, and what each is about happens on enough seeds (V1 to V7).

use parsley_sim::suite::Suite;
use parsley_sim::{Counts, Sabotage};

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
