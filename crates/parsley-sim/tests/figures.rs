//! What scenarios reach over many seeds: how much the widest one does, and how wide stamps get.

use parsley_sim::run::{Outcome, Request};
use parsley_sim::{Counts, Sabotage, scenarios};

fn runs(scenario: &str) -> impl Iterator<Item = Outcome> {
    let scenario = scenarios::named(scenario).expect("a scenario of that name");
    (0..100).map(|seed| {
        let request = Request {
            scenario,
            seed,
            trace: false,
        };
        let outcome = request.run(Sabotage::None);
        assert_eq!(outcome.violation, None, "{} {seed}", scenario.name);
        outcome
    })
}

#[test]
fn the_wide_soak_does_as_much_as_it_should() {
    let mut sum = Counts::default();
    let mut restoring = 0;
    for outcome in runs("wide-soak") {
        restoring += u64::from(outcome.counts.restores_with_holds > 0);
        sum += outcome.counts;
    }
    assert!(sum.steps >= 10_000, "{sum:?}");
    assert!(sum.deliveries >= 5_000, "{sum:?}");
    assert!(sum.crashes >= 300, "{sum:?}");
    assert!(sum.position_advances >= 1_000, "{sum:?}");
    assert!(sum.restores_with_holds >= 100, "{sum:?}");
    assert!(
        restoring >= 60,
        "held records restored on {restoring} seeds"
    );
}

/// Three topics of four partitions: a stamp that names each of them once.
const EACH_CHANNEL_ONCE: u64 = 3 * 4;

#[test]
fn stamps_of_an_all_to_all_stage_name_each_channel_once_where_offsets_are_known() {
    let widest = runs("all-to-all").map(|outcome| {
        assert_eq!(outcome.counts.stamps_by_sequence, 0);
        outcome.counts.widest_stamp
    });
    let widest = widest.max().unwrap_or(0);
    assert!(widest <= EACH_CHANNEL_ONCE, "{widest} claims");
}

#[test]
fn stamps_of_an_all_to_all_stage_are_wider_where_offsets_are_unknown() {
    let widest = runs("all-to-all-by-sequence").map(|outcome| outcome.counts.widest_stamp);
    let widest = widest.max().unwrap_or(0);
    assert!(widest > EACH_CHANNEL_ONCE, "{widest} claims");
}
