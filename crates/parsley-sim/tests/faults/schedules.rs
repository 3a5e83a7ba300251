//! Schedules that broke earlier wordings of the protocol (`docs/faults.md`, part P). P1 written by force is in `forced.rs`.

use parsley_model::Broken;
use parsley_sim::HostFault;
use parsley_sim::trace::Kind;

use crate::kit::*;

#[test]
fn p1_rounds_make_the_contradiction_unwritable() {
    let counts = holds("p1-crossed-sends");
    assert!(counts.stamps_by_sequence > 0);
    catches("p1-crossed-sends", &[host(HostFault::SendsWithoutRounds)]);
    holds("p1-concurrent-sends");
    catches(
        "p1-concurrent-sends",
        &[protocol(Broken::ClaimTheUnacknowledged)],
    );
}

#[test]
fn p2_a_joining_channel_is_not_re_entered_through_a_sequence_claim() {
    holds("p2-joined-behind-a-sequence-claim");
    catches_on(
        "p2-joined-behind-a-sequence-claim",
        protocol(Broken::JoinWithoutEnd),
        SEEDS,
    );
}

#[test]
fn p3_a_channel_removed_while_waited_for_is_not_re_entered() {
    holds("p3-removed-while-waited-for");
    catches_on(
        "p3-removed-while-waited-for",
        protocol(Broken::JoinWithoutSeed),
        SEEDS,
    );
}

#[test]
fn p4_a_sink_that_comes_back_as_an_input_may_skip_and_never_re_enters() {
    holds("p4-sink-comes-back-as-an-input");
    catches_on(
        "p4-sink-comes-back-as-an-input",
        protocol(Broken::JoinWithoutSeed),
        SEEDS,
    );
    // What n sent is in its past and is passed over; what came when it read the topic again is delivered.
    let trace = trace("p4-sink-comes-back-as-an-input", 0);
    let of_the_sink: Vec<String> = delivered(&trace, "n/0")
        .into_iter()
        .filter(|place| place.starts_with("s:0@"))
        .collect();
    let sent = |event: &parsley_sim::trace::Event| match event.kind {
        Kind::Sent { at, .. } if trace.channels[at.channel] == "s:0" => Some(trace.place(at)),
        _ => None,
    };
    let sends: Vec<String> = trace.events.iter().filter_map(sent).collect();
    assert!(of_the_sink.len() < sends.len(), "{of_the_sink:?} {sends:?}");
    assert!(sends.ends_with(&of_the_sink), "{of_the_sink:?} {sends:?}");
    assert!(!of_the_sink.is_empty());
}

#[test]
fn p5_a_first_start_is_not_moved_by_retention() {
    holds("p5-first-start-then-retention");
    for sabotage in [
        host(HostFault::JumpsOverLogStart),
        protocol(Broken::IgnoreLostPositions),
    ] {
        catches_on("p5-first-start-then-retention", sabotage, SEEDS);
    }
}

#[test]
fn p6_removed_and_added_again_neither_re_enters_nor_blocks() {
    holds("p6-removed-and-added-again");
    for broken in [Broken::JoinWithoutEnd, Broken::JoinWithoutSeed] {
        catches_on("p6-removed-and-added-again", protocol(broken), SEEDS);
    }
}

#[test]
fn p7_evidence_releases_what_names_a_record_that_retention_took() {
    holds("p7-joiner-after-retention");
    catches(
        "p7-joiner-after-retention",
        &[protocol(Broken::SettledForFedInEvidence)],
    );
}

#[test]
fn p8_a_sequence_claim_on_a_deleted_input_is_met() {
    holds("p8-sequence-claim-on-a-deleted-input");
    for sabotage in [
        protocol(Broken::DeletedChannelsBlock),
        host(HostFault::PausesChecks),
    ] {
        catches_on("p8-sequence-claim-on-a-deleted-input", sabotage, SEEDS);
    }
}

#[test]
fn p9_a_restart_waits_until_the_last_transaction_is_decided_everywhere() {
    holds("p9-restart-amid-markers");
    catches(
        "p9-restart-amid-markers",
        &[
            host(HostFault::RestartsBeforeDecision),
            host(HostFault::RestartsWithoutEnds),
        ],
    );
}

#[test]
fn p10_a_holder_refuses_before_anyone_stops_claiming_what_it_holds() {
    holds("p10-truncation-against-a-holder");
    for sabotage in [
        host(HostFault::PausesChecks),
        protocol(Broken::IgnoreLostPositions),
    ] {
        catches_on("p10-truncation-against-a-holder", sabotage, SEEDS);
    }
    // Where nothing else makes the holder wait, the delay alone keeps the order.
    holds("p10-delay-before-a-truncation");
    let at_once = host(HostFault::TruncatesAtOnce);
    catches_on("p10-delay-before-a-truncation", at_once, SEEDS);
    let trace = trace("p10-truncation-against-a-holder", 0);
    let clocks = clocks_sent(&trace, "quiet/0", "y:0");
    let [before, after] = &clocks[..] else {
        panic!("two sends: {clocks:?}");
    };
    assert!(before.contains("c:0<="), "{before}");
    assert!(!after.contains("c:0<="), "{after}");
}

#[test]
fn p11_a_deletion_stops_the_holder_before_any_claim_is_dropped() {
    holds("p11-deleted-while-held");
    for sabotage in [
        protocol(Broken::IgnoreDeletedHeld),
        host(HostFault::PausesChecks),
    ] {
        catches_on("p11-deleted-while-held", sabotage, SEEDS);
    }
    let trace = trace("p11-deleted-while-held", 0);
    let clocks = clocks_sent(&trace, "quiet/0", "y:0");
    assert_eq!(clocks.len(), 1);
    assert!(clocks[0].contains("c:0<="), "{clocks:?}");
}

#[test]
fn p12_a_channel_joins_at_its_log_start_without_a_refusal() {
    let counts = holds("p12-joined-above-its-claims");
    assert_eq!(counts.refusals, 0);
    assert!(counts.sweeps >= SEEDS);
}

#[test]
fn p13_evidence_asks_for_what_was_fed_and_makes_no_cycle() {
    holds("p13-watermark-over-a-waiting-record");
    catches_on(
        "p13-watermark-over-a-waiting-record",
        protocol(Broken::SettledForFedInEvidence),
        SEEDS,
    );
}

#[test]
fn p14_a_check_that_finds_the_topic_gone_releases_without_a_restart() {
    let counts = holds("p14-deleted-while-running");
    assert_eq!(counts.starts, SEEDS, "one start of n on each seed");
    for sabotage in [
        protocol(Broken::DeletedChannelsBlock),
        host(HostFault::PausesChecks),
    ] {
        catches_on("p14-deleted-while-running", sabotage, SEEDS);
    }
}

#[test]
fn p15_ten_alternating_sends_of_a_delivery_are_one_step() {
    holds("p15-ten-rounds");
    catches("p15-ten-rounds", &[host(HostFault::SendsWithoutRounds)]);
    for seed in 0..4 {
        let trace = trace("p15-ten-rounds", seed);
        let mut channels = Vec::new();
        let mut steps = 0;
        for event in &trace.events {
            if event.actor.is_none_or(|by| trace.actors[by] != "paul/0") {
                continue;
            }
            match event.kind {
                Kind::Sent { at, .. } => channels.push(trace.channels[at.channel].as_str()),
                Kind::Committed if !channels.is_empty() => {
                    for ten in channels.chunks(10) {
                        assert_eq!(ten, ["c:0", "d:0"].repeat(5), "seed {seed}");
                    }
                    steps += 1;
                    channels.clear();
                }
                _ => {}
            }
        }
        assert!(steps > 0, "seed {seed} committed no sends");
    }
}

#[test]
fn p16_a_watermark_speaks_only_for_what_was_known_at_its_mark() {
    holds("p16-watermarks-asked-for-late");
    catches_on(
        "p16-watermarks-asked-for-late",
        host(HostFault::AsksBeforeMark),
        SEEDS,
    );
    holds("p16-watermarks-handed-in-late");
    catches_on(
        "p16-watermarks-handed-in-late",
        protocol(Broken::EvidenceWithoutMark),
        SEEDS,
    );
}
