//! Every rule that a scenario is built around is load-bearing there: with the rule broken, the scenario fails on enough seeds.

use parsley_model::Broken;
use parsley_sim::suite::Suite;
use parsley_sim::{HostFault, Sabotage, scenarios};

/// Out of how many seeds. A build without optimisation runs fewer.
const SEEDS: u64 = if cfg!(debug_assertions) { 40 } else { 100 };

/// What is broken, where that is noticed, and on how many of 100 seeds at least. Less than 100 where chance has to help, or where the
/// fault is none in half of the settings: appends that are atomic leave no marker behind, and offsets that are known leave no
/// sequence claims.
const CAUGHT: &[(Sabotage, &str, u64)] = &[
    // The decision.
    (Sabotage::Protocol(Broken::Eager), "shared-input-race", 20),
    (Sabotage::Protocol(Broken::Eager), "edge-cross-topic", 20),
    (Sabotage::Protocol(Broken::Eager), "observed-causality", 20),
    (Sabotage::Protocol(Broken::Eager), "diamond", 20),
    (Sabotage::Protocol(Broken::Eager), "damped-feedback", 20),
    (Sabotage::Protocol(Broken::Eager), "self-feedback", 20),
    (Sabotage::Protocol(Broken::Eager), "tick-self-loop", 20),
    (
        Sabotage::Protocol(Broken::Eager),
        "stage-tick-self-loop",
        20,
    ),
    (
        Sabotage::Protocol(Broken::DropDeliveredTerm),
        "stage-tick-behind-deliveries",
        50,
    ),
    (
        Sabotage::Protocol(Broken::Eager),
        "truncation-mid-history",
        20,
    ),
    (Sabotage::Protocol(Broken::Eager), "receipt-only-chain", 20),
    (Sabotage::Protocol(Broken::Eager), "receipt-only-fork", 20),
    (Sabotage::Protocol(Broken::Eager), "receipt-only-cycle", 20),
    (Sabotage::Protocol(Broken::Eager), "receipt-only-aborts", 20),
    (Sabotage::Protocol(Broken::Eager), "latest-consumers", 20),
    (Sabotage::Protocol(Broken::Eager), "small-steps", 20),
    (
        Sabotage::Protocol(Broken::Eager),
        "stateful-keys-and-rounds",
        20,
    ),
    (
        Sabotage::Protocol(Broken::Eager),
        "order-within-each-delivery",
        20,
    ),
    (
        Sabotage::Protocol(Broken::IgnoreOffsetClaims),
        "baseline-above-history",
        100,
    ),
    (
        Sabotage::Protocol(Broken::IgnoreSequenceClaims),
        "own-sends-by-sequence",
        100,
    ),
    (
        Sabotage::Protocol(Broken::IgnoreSequenceClaims),
        "evidence-under-crashes",
        20,
    ),
    (
        Sabotage::Protocol(Broken::FedForSettled),
        "two-stages-one-topic",
        20,
    ),
    (
        Sabotage::Protocol(Broken::OffByOneSettled),
        "baseline-above-history",
        100,
    ),
    (
        Sabotage::Protocol(Broken::OffByOneSettled),
        "log-start-stability",
        100,
    ),
    (
        Sabotage::Protocol(Broken::OffByOneSettled),
        "joiner-after-truncation",
        100,
    ),
    (
        Sabotage::Protocol(Broken::UndefinedSettledAsEverything),
        "crash-while-holding",
        100,
    ),
    (
        Sabotage::Protocol(Broken::ReceivedForDelivered),
        "evidence-over-a-held-record",
        100,
    ),
    (
        Sabotage::Protocol(Broken::ClaimsOnOwnChannelBlock),
        "claims-on-the-own-channel",
        100,
    ),
    (
        Sabotage::Protocol(Broken::UnreceivedChannelsBlock),
        "transitive-hop",
        100,
    ),
    // The stamp.
    (
        Sabotage::Protocol(Broken::NoFoldAtDelivery),
        "transitive-hop",
        20,
    ),
    (
        Sabotage::Protocol(Broken::NoFoldAtDelivery),
        "stamp-advertised-term",
        100,
    ),
    (
        Sabotage::Protocol(Broken::FoldReceivedChannelsOnly),
        "transitive-hop",
        20,
    ),
    (
        Sabotage::Protocol(Broken::FoldReceivedChannelsOnly),
        "stamp-advertised-term",
        100,
    ),
    (
        Sabotage::Protocol(Broken::DropDeliveredTerm),
        "stamp-delivered-term",
        100,
    ),
    (
        Sabotage::Protocol(Broken::DropAdvertisedTerm),
        "stamp-advertised-term",
        100,
    ),
    (
        Sabotage::Protocol(Broken::DropAdvertisedTerm),
        "all-to-all",
        20,
    ),
    (
        Sabotage::Protocol(Broken::DropCarriedTerm),
        "stamp-carried-term",
        100,
    ),
    (
        Sabotage::Protocol(Broken::DropCarriedTerm),
        "scope-shrink-across-a-restart",
        100,
    ),
    (
        Sabotage::Protocol(Broken::DropOwnTerm),
        "stamp-own-term",
        100,
    ),
    (
        Sabotage::Protocol(Broken::DropOwnTerm),
        "own-sends-by-sequence",
        100,
    ),
    (
        Sabotage::Protocol(Broken::ForgetAcknowledgements),
        "all-to-all-by-sequence",
        20,
    ),
    // State.
    (
        Sabotage::Protocol(Broken::KeepStateAfterAbort),
        "crash-mid-step",
        20,
    ),
    (
        Sabotage::Protocol(Broken::ForgetHeldAtRestore),
        "crash-while-holding",
        100,
    ),
    (
        Sabotage::Protocol(Broken::ForgetHeldClocksAtRestore),
        "crash-while-holding",
        100,
    ),
    (
        Sabotage::Protocol(Broken::ForgetHeldAtRestore),
        "crash-recovery-chain",
        20,
    ),
    (
        Sabotage::Protocol(Broken::ForgetHeldAtRestore),
        "receipt-only-restart",
        20,
    ),
    (
        Sabotage::Protocol(Broken::ForgetSendSequencesAtRestore),
        "filter-quiet-sinks",
        20,
    ),
    (
        Sabotage::Protocol(Broken::ForgetPastAtRestore),
        "the-past-survives-a-restart",
        100,
    ),
    (
        Sabotage::Protocol(Broken::ForgetPastAtRestore),
        "the-delivered-survive-a-restart",
        100,
    ),
    (
        Sabotage::Protocol(Broken::ForgetDeliveredMarksAtRestore),
        "delivered-marks-across-a-restart",
        100,
    ),
    // Watermark evidence.
    (
        Sabotage::Protocol(Broken::EvidenceWithoutMark),
        "evidence-older-than-its-record",
        100,
    ),
    (
        Sabotage::Protocol(Broken::EvidenceDespiteHeld),
        "evidence-over-a-held-record",
        100,
    ),
    (
        Sabotage::Protocol(Broken::EvidenceOneEarly),
        "evidence-before-the-marker",
        50,
    ),
    (
        Sabotage::Protocol(Broken::SettledForFedInEvidence),
        "evidence-covers-a-later-record",
        100,
    ),
    (
        Sabotage::Protocol(Broken::EvidenceDespiteHeld),
        "evidence-under-crashes",
        20,
    ),
    (
        Sabotage::Protocol(Broken::EvidenceWithoutMark),
        "evidence-older-than-custody",
        100,
    ),
    (
        Sabotage::Protocol(Broken::EvidenceWithoutMark),
        "evidence-older-than-own-sends",
        100,
    ),
    (
        Sabotage::Host(HostFault::AsksBeforeMark),
        "evidence-older-than-its-record",
        100,
    ),
    // Scope changes.
    (
        Sabotage::Protocol(Broken::ForgetRemovedInput),
        "stamp-carried-term",
        100,
    ),
    (
        Sabotage::Protocol(Broken::ForgetRemovedInput),
        "scope-shrink-across-a-restart",
        100,
    ),
    (
        Sabotage::Protocol(Broken::ForgetRemovedInput),
        "scope-changes-at-random",
        20,
    ),
    (
        Sabotage::Protocol(Broken::ForgetRemovedSink),
        "dropped-sink-across-a-restart",
        100,
    ),
    (
        Sabotage::Protocol(Broken::ForgetRemovedSink),
        "tick-across-a-dropped-sink",
        50,
    ),
    (
        Sabotage::Protocol(Broken::ForgetRemovedSink),
        "stage-tick-across-a-dropped-sink",
        50,
    ),
    (
        Sabotage::Protocol(Broken::ForgetRemovedInput),
        "stage-stops-ticking",
        100,
    ),
    (
        Sabotage::Protocol(Broken::JoinWithoutSeed),
        "scope-growth-by-offset",
        100,
    ),
    (
        Sabotage::Protocol(Broken::JoinWithoutSeed),
        "scope-changes-under-crashes",
        20,
    ),
    (
        Sabotage::Protocol(Broken::JoinWithoutEnd),
        "scope-growth-by-sequence",
        100,
    ),
    // Truncation.
    (
        Sabotage::Protocol(Broken::TruncateAboveBound),
        "truncation-at-the-bound",
        100,
    ),
    (
        Sabotage::Host(HostFault::TruncatesAboveBound),
        "truncation-at-the-bound",
        100,
    ),
    // The host.
    (
        Sabotage::Host(HostFault::WithholdsAdvances),
        "trailing-markers",
        100,
    ),
    (
        Sabotage::Host(HostFault::WithholdsAdvances),
        "trailing-aborts",
        100,
    ),
    (
        Sabotage::Host(HostFault::WithholdsAdvances),
        "filter-quiet-sinks",
        20,
    ),
    (
        Sabotage::Host(HostFault::KeepsStateAfterAbort),
        "tick-under-crashes",
        20,
    ),
    (
        Sabotage::Host(HostFault::KeepsStateAfterAbort),
        "stage-tick-under-crashes",
        20,
    ),
    (
        Sabotage::Host(HostFault::KeepsSendsAfterAbort),
        "stage-tick-state-under-crashes",
        20,
    ),
    (
        Sabotage::Host(HostFault::StampsTicksEarly),
        "stage-tick-behind-deliveries",
        100,
    ),
    (
        Sabotage::Host(HostFault::TicksOutsideTheStep),
        "stage-tick-under-crashes",
        20,
    ),
    (
        Sabotage::Host(HostFault::LosesTickState),
        "stage-tick-state-under-crashes",
        100,
    ),
    (
        Sabotage::Host(HostFault::SendsWithoutRounds),
        "stage-tick-sends-in-order",
        100,
    ),
    (
        Sabotage::Host(HostFault::KeepsStateAfterAbort),
        "damped-feedback-under-crashes",
        20,
    ),
    (
        Sabotage::Host(HostFault::KeepsSendsAfterAbort),
        "crash-mid-step",
        20,
    ),
    (
        Sabotage::Host(HostFault::CommitsFetchPosition),
        "crash-while-holding",
        100,
    ),
    (
        Sabotage::Host(HostFault::RestartsWithoutEnds),
        "own-sends-across-a-restart",
        100,
    ),
    (
        Sabotage::Host(HostFault::ReadsStableEnds),
        "own-sends-above-an-open-transaction",
        100,
    ),
    (
        Sabotage::Host(HostFault::ReadsStableEnds),
        "evidence-before-the-marker",
        50,
    ),
];

/// On how many seeds of the scenario the run fails.
fn caught(sabotage: Sabotage, scenario: &str) -> u64 {
    let scenario = scenarios::named(scenario).expect("the table names a scenario");
    let suite = Suite {
        scenarios: vec![scenario],
        ..Suite::all(0..SEEDS)
    };
    let reports = suite.run(sabotage, &|_| {});
    reports.iter().map(|report| report.violating).sum()
}

#[test]
fn what_a_scenario_is_built_around_cannot_be_left_out() {
    let missed: Vec<String> = CAUGHT
        .iter()
        .filter_map(|&(sabotage, scenario, of_100)| {
            let caught = caught(sabotage, scenario);
            let due = of_100 * SEEDS / 100;
            (caught < due)
                .then(|| format!("{scenario}: {sabotage:?} on {caught} of {SEEDS}, not {due}"))
        })
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn without_positions_nobody_misses_them() {
    for scenario in scenarios::all() {
        if scenario.name.starts_with("receipt-only-") {
            let caught = caught(Sabotage::Host(HostFault::WithholdsAdvances), scenario.name);
            assert_eq!(caught, 0, "{} has use for a position", scenario.name);
        }
    }
}
