//! V8 and V9: the kit can fail. Every broken protocol and every shirked host duty is caught, on at least so many of 100 seeds of the scenario
//! that is made for it. A suite that passes while one of these slips through proves nothing.

use std::collections::BTreeSet;

use parsley_model::Broken;
use parsley_sim::scenario::SEED_FLOOR;
use parsley_sim::suite::Suite;
use parsley_sim::{HostFault, Sabotage, scenarios};

/// What is wrong on purpose, the scenario that catches it best, and on how many of 100 seeds at least. `docs/verification.md` has what was
/// measured over all scenarios.
const CAUGHT: &[(&str, &str, u64)] = &[
    ("h1-feeds-out-of-order", "transitive-hop", 100),
    ("h2-withholds-advances", "trailing-markers", 100),
    ("h3-keeps-state-after-abort", "b03-aborted-steps", 53),
    ("h3-keeps-sends-after-abort", "b03-aborted-steps", 36),
    ("h4-stamps-before-partitioning", "wide-soak", 100),
    ("h5-restarts-without-ends", "trailing-markers", 100),
    ("h5-restarts-before-decision", "p9-restart-amid-markers", 37),
    (
        "h6-jumps-over-log-start",
        "scope-growth-above-retention",
        100,
    ),
    ("h7-sends-without-rounds", "crash-recovery-chain", 100),
    ("drops-offset-three", "edge-cross-topic", 100),
    ("counts-prefetched-as-settled", "transitive-hop", 100),
    ("commits-fetch-position", "crash-while-holding", 100),
    ("h3-commits-earlier-positions", "shared-input-race", 100),
    (
        "reads-stable-ends",
        "own-sends-above-an-open-transaction",
        100,
    ),
    ("asks-before-mark", "evidence-older-than-its-record", 100),
    ("pauses-checks", "scope-growth-above-retention", 100),
    ("trusts-names", "b12-input-recreated-while-stopped", 100),
    ("truncates-at-once", "p10-delay-before-a-truncation", 100),
    ("truncates-above-bound", "truncation-at-the-bound", 100),
    ("stamps-ticks-early", "stage-tick-behind-deliveries", 100),
    (
        "h3-ticks-outside-the-step",
        "stage-tick-state-under-crashes",
        55,
    ),
    ("h3-loses-tick-state", "stage-tick-self-loop", 100),
    ("ignore-positions", "trailing-markers", 100),
    ("lose-offset-three", "edge-cross-topic", 100),
    ("eager", "crash-mid-step", 100),
    ("ignore-offset-claims", "crash-while-holding", 100),
    ("ignore-sequence-claims", "own-sends-by-sequence", 100),
    ("fed-for-settled", "crash-while-holding", 100),
    ("off-by-one-settled", "crash-while-holding", 100),
    (
        "undefined-settled-as-everything",
        "crash-while-holding",
        100,
    ),
    ("received-for-delivered", "scope-growth-by-sequence", 100),
    (
        "claims-on-own-channel-block",
        "claims-on-the-own-channel",
        100,
    ),
    ("unreceived-channels-block", "transitive-hop", 100),
    (
        "deleted-channels-block",
        "p8-sequence-claim-on-a-deleted-input",
        100,
    ),
    ("break-fifo", "evidence-over-a-held-record", 100),
    (
        "redeliver-what-was-fed-again",
        "b15-positions-moved-back",
        100,
    ),
    ("corrupt-clock-as-empty", "g1-corrupt-clock", 100),
    ("no-fold-at-delivery", "stamp-advertised-term", 100),
    ("fold-received-channels-only", "stamp-advertised-term", 100),
    ("drop-delivered-term", "crash-while-holding", 100),
    ("drop-advertised-term", "stamp-advertised-term", 100),
    ("drop-carried-term", "stamp-carried-term", 100),
    ("drop-own-term", "crash-mid-step", 100),
    ("forget-acknowledgements", "crash-mid-step", 100),
    ("claim-the-unacknowledged", "p1-concurrent-sends", 74),
    ("reuse-a-sequence", "own-sends-by-sequence", 100),
    (
        "settled-for-fed-in-evidence",
        "evidence-covers-a-later-record",
        100,
    ),
    (
        "evidence-without-mark",
        "evidence-older-than-its-record",
        100,
    ),
    ("evidence-despite-held", "evidence-over-a-held-record", 100),
    ("evidence-one-early", "evidence-before-the-marker", 37),
    ("keep-state-after-abort", "b03-aborted-steps", 65),
    ("forget-held-at-restore", "crash-while-holding", 100),
    ("forget-held-clocks-at-restore", "crash-while-holding", 100),
    (
        "forget-send-sequences-at-restore",
        "tick-across-a-dropped-sink",
        100,
    ),
    ("forget-past-at-restore", "the-past-survives-a-restart", 100),
    (
        "forget-delivered-marks-at-restore",
        "scope-growth-by-sequence",
        100,
    ),
    ("join-without-seed", "scope-growth-by-offset", 100),
    ("join-without-end", "scope-growth-by-sequence", 100),
    ("forget-removed-input", "stamp-carried-term", 100),
    ("forget-removed-sink", "dropped-sink-across-a-restart", 100),
    (
        "discard-held-of-removed-input",
        "g8-removed-input-holds",
        100,
    ),
    ("truncate-above-bound", "truncation-at-the-bound", 100),
    (
        "ignore-lost-positions",
        "p5-first-start-then-retention",
        100,
    ),
    ("ignore-deleted-held", "p11-deleted-while-held", 100),
];

fn sabotage(name: &str) -> Sabotage {
    match HostFault::of_name(name) {
        Some(fault) => Sabotage::Host(fault),
        None => Sabotage::Protocol(name.parse().expect("the name of a broken protocol")),
    }
}

#[test]
fn every_sabotage_has_a_line() {
    let listed: BTreeSet<&str> = CAUGHT.iter().map(|(name, ..)| *name).collect();
    let faults = HostFault::ALL.iter().map(|fault| fault.as_str());
    let broken = Broken::ALL.iter().map(|broken| broken.as_str());
    assert_eq!(listed, faults.chain(broken).collect());
    assert_eq!(listed.len(), CAUGHT.len());
}

#[test]
fn v8_v9_every_sabotage_is_caught() {
    let mut missed = Vec::new();
    for &(name, scenario, at_least) in CAUGHT {
        assert!(at_least >= u64::from(SEED_FLOOR));
        let suite = Suite {
            scenarios: vec![scenarios::named(scenario).expect("a scenario of that name")],
            ..Suite::all(0..100)
        };
        let caught = suite.run(sabotage(name), &|_| ())[0].violating;
        println!("{name}: caught on {caught} of 100 seeds of {scenario}");
        if caught < at_least {
            missed.push(format!(
                "{name}: {caught} of {scenario}, {at_least} are due"
            ));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// The naive model in the place of the node holds as well: what catches its broken variants is what is broken, not the model.
#[test]
fn v8_the_model_that_is_broken_holds_when_it_is_whole() {
    for report in Suite::all(0..20).run(Sabotage::Model, &|_| ()) {
        let first = report.violations.first();
        assert_eq!(report.violating, 0, "{}: {first:?}", report.scenario.name);
    }
}
