//! B27: what the simulated world really contained, counted over all seeds. A count of zero would mean that nothing was shown about it.

use parsley_sim::broker::Census;
use parsley_sim::{Counts, Sabotage};

use crate::kit::*;

/// The broker's and the world's counts over all seeds of a scenario, each run to its end.
fn counted(scenario: &str) -> (Census, Counts) {
    let mut sum = Census::default();
    let mut counts = Counts::default();
    for seed in 0..SEEDS {
        let (mut world, outcome) = play(scenario, seed, Sabotage::None);
        let finished = outcome.and_then(|()| world.finish());
        assert_eq!(finished, Ok(()), "{scenario} {seed}");
        let census = world.host().broker().census();
        sum.committed_records += census.committed_records;
        sum.markers += census.markers;
        sum.markers_between_records += census.markers_between_records;
        sum.trailing_markers += census.trailing_markers;
        sum.aborted_runs_at_head += census.aborted_runs_at_head;
        sum.aborted_runs_in_middle += census.aborted_runs_in_middle;
        sum.aborted_runs_at_tail += census.aborted_runs_at_tail;
        sum.committed_transactions += census.committed_transactions;
        sum.aborted_transactions += census.aborted_transactions;
        sum.appended_behind_open += census.appended_behind_open;
        sum.truncations += census.truncations;
        sum.recreations += census.recreations;
        for (partitions, topics) in census.topics_by_partitions {
            *sum.topics_by_partitions.entry(partitions).or_default() += topics;
        }
        counts += world.counts();
    }
    (sum, counts)
}

/// None of these may be zero.
fn none_is_zero(scenario: &str, counted: &[(&str, u64)]) {
    let zero: Vec<&str> = counted
        .iter()
        .filter(|(_, count)| *count == 0)
        .map(|(what, _)| *what)
        .collect();
    assert!(zero.is_empty(), "{scenario} never met: {zero:?}");
}

#[test]
fn b27_markers_aborted_runs_and_open_transactions_are_met() {
    for scenario in ["b27-transactions-that-abort", "wide-soak"] {
        let (census, counts) = counted(scenario);
        none_is_zero(
            scenario,
            &[
                ("a marker between records", census.markers_between_records),
                ("a trailing marker", census.trailing_markers),
                ("an aborted run at the head", census.aborted_runs_at_head),
                (
                    "an aborted run in the middle",
                    census.aborted_runs_in_middle,
                ),
                ("an aborted run at the tail", census.aborted_runs_at_tail),
                ("an aborted transaction", census.aborted_transactions),
                (
                    "a record behind an open transaction",
                    census.appended_behind_open,
                ),
                (
                    "a transaction open over a restart",
                    counts.open_over_a_start,
                ),
                ("a truncation", census.truncations),
                ("a crash within a step", counts.crashes_mid_step),
            ],
        );
        let several = census
            .topics_by_partitions
            .range(2..)
            .map(|(_, topics)| topics);
        assert_ne!(several.sum::<u64>(), 0, "{scenario} has several partitions");
    }
}

#[test]
fn b27_truncations_at_a_position_and_past_it_are_met() {
    let (census, counts) = counted("b27-truncation-at-the-position");
    none_is_zero(
        "b27-truncation-at-the-position",
        &[
            ("a truncation", census.truncations),
            ("a sweep to just a position", counts.sweeps_to_a_position),
        ],
    );
    assert_eq!(counts.refusals, 0);
    let (_, counts) = counted("b27-truncation-past-the-position");
    assert_eq!(counts.sweeps_past_a_position, SEEDS);
    assert_eq!(counts.refusals, SEEDS);
}

#[test]
fn b27_duplicates_recreations_and_long_holds_are_met() {
    let (_, counts) = counted("b15-positions-moved-back");
    none_is_zero(
        "b15-positions-moved-back",
        &[("a duplicate", counts.duplicates_dropped)],
    );
    let (census, _) = counted("b12-input-recreated-while-stopped");
    assert_eq!(census.recreations, SEEDS);
    let (_, counts) = counted("b27-hold-over-two-restarts");
    none_is_zero(
        "b27-hold-over-two-restarts",
        &[
            ("a hold over two restarts", counts.holds_over_two_restarts),
            ("held records restored", counts.restores_with_holds),
        ],
    );
}
