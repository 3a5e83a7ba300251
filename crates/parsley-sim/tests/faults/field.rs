//! Faults in the field (`docs/faults.md`), as scenarios; B26 is in `sight.rs`, B27 in `census.rs`, B28 in `determinism.rs`.

use parsley_model::Broken;
use parsley_sim::host::{AppendMode, ConformanceHost, CrashPoint, Setting};
use parsley_sim::plan::{Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, topics};
use parsley_sim::{Action, HostFault, TaskHost, World};

use crate::kit::*;

#[test]
fn b03_an_aborted_step_leaves_nothing_behind() {
    holds("b03-aborted-steps");
    catches(
        "b03-aborted-steps",
        &[
            host(HostFault::KeepsStateAfterAbort),
            host(HostFault::KeepsSendsAfterAbort),
            host(HostFault::CommitsFetchPosition),
            protocol(Broken::KeepStateAfterAbort),
            protocol(Broken::ForgetSendSequencesAtRestore),
        ],
    );
}

/// A stage with two sinks, and a client that has sent it three records.
fn three_records(setting: Setting) -> World<TaskHost> {
    let plan = Plan {
        topics: topics(&["x", "c", "d"]),
        stages: vec![
            StagePlan::new(
                "n",
                Declaration::default().on("x", &[Emit::to("c"), Emit::to("d")]),
            )
            .stateful(),
        ],
        edges: vec![EdgePlan::sequential("e", &["x"], 0)],
        script: Vec::new(),
        rules: setting.rules,
    };
    let mut world = world(&plan, setting);
    let sent = world.act(&Action::Script(Phase::Send("e", 3)));
    assert_eq!(sent, Ok(()));
    world
}

fn step(crash: Option<CrashPoint>) -> Action {
    Action::Step {
        task: 0,
        reads: vec![(0, 2, true)],
        tick: None,
        crash,
    }
}

#[test]
fn b03_the_step_that_is_done_again_is_the_step_that_was_aborted() {
    let setting = Setting {
        append: AppendMode::Atomic,
        offsets_known: true,
        rules: Rules::default(),
    };
    let straight = {
        let mut world = three_records(setting);
        for action in [step(None), step(None)] {
            assert_eq!(world.act(&action), Ok(()));
        }
        assert_eq!(world.finish(), Ok(()));
        world.into_trace().expect("a trace was asked for")
    };
    let points = [
        CrashPoint::Fed,
        CrashPoint::Delivered(0),
        CrashPoint::Delivered(1),
        CrashPoint::Delivered(2),
        CrashPoint::Appended,
    ];
    for point in points {
        for earlier in [0, 1] {
            let mut world = three_records(setting);
            let mut actions = vec![step(None); earlier];
            actions.extend([step(Some(point)), Action::Start(0), step(None), step(None)]);
            for action in actions {
                assert_eq!(world.act(&action), Ok(()), "{point:?}");
            }
            // The last judgement includes the state: every key counts each of its records once.
            assert_eq!(world.finish(), Ok(()), "{point:?}");
            let trace = world.into_trace().expect("a trace was asked for");
            assert_eq!(
                delivered(&trace, "n/0"),
                delivered(&straight, "n/0"),
                "{point:?} after {earlier} steps"
            );
            // Where nothing was appended before the crash, what goes out is the same to the last claim.
            let silent = matches!(point, CrashPoint::Fed | CrashPoint::Delivered(0));
            if silent && earlier == 0 {
                for sink in ["c:0", "d:0"] {
                    assert_eq!(
                        clocks_sent(&trace, "n/0", sink),
                        clocks_sent(&straight, "n/0", sink),
                        "{point:?} on {sink}"
                    );
                }
            }
        }
    }
}

#[test]
fn b04_what_was_fetched_and_not_handed_over_is_fetched_again() {
    holds("b04-fetched-is-not-handed-over");
    catches(
        "b04-fetched-is-not-handed-over",
        &[
            host(HostFault::CountsPrefetchedAsSettled),
            host(HostFault::CommitsFetchPosition),
        ],
    );
    // Ten records, four of them handed over and committed.
    let setting = Setting {
        append: AppendMode::Atomic,
        offsets_known: true,
        rules: Rules::default(),
    };
    let plan = Plan {
        topics: topics(&["x", "y"]),
        stages: vec![StagePlan::new("n", Declaration::reads(&["x", "y"]))],
        edges: vec![
            EdgePlan::sequential("e", &["x", "y"], 0),
            EdgePlan::sequential("f", &["x"], 0),
        ],
        script: Vec::new(),
        rules: setting.rules,
    };
    let mut world = world(&plan, setting);
    let read = |channel, records| Action::Step {
        task: 0,
        reads: vec![(channel, records, false)],
        tick: None,
        crash: None,
    };
    let before = [
        Action::Script(Phase::Send("f", 6)),
        // Offset 6 of x, and a record that claims it.
        Action::Script(Phase::Send("e", 2)),
        Action::Script(Phase::Send("f", 3)),
        read(0, 4),
        Action::Crash(0),
        Action::Start(0),
    ];
    for action in before {
        assert_eq!(world.act(&action), Ok(()));
    }
    let x = world.host().broker().topic_id("x").expect("it exists");
    let task = parsley_sim::host::TaskNo(0);
    assert_eq!(world.host().position(task, x.partition(0)), Some(4));
    assert_eq!(world.act(&read(1, 1)), Ok(()));
    assert_eq!(world.host().held(task), 1, "x@6 was not handed over");
    assert_eq!(world.finish(), Ok(()));
    let delivered = delivered(&world.into_trace().expect("a trace was asked for"), "n/0");
    assert_eq!(delivered.len(), 11);
}

#[test]
fn b05_a_stamp_says_all_that_its_sender_knows() {
    for (scenario, sabotages) in [
        (
            "b05-two-sends-of-one-step",
            &[Broken::DropOwnTerm, Broken::ForgetAcknowledgements][..],
        ),
        ("b05-restart-between-two-sends", &[Broken::DropOwnTerm]),
        (
            "b05-dropped-input-between-two-sends",
            &[Broken::ForgetRemovedInput, Broken::DropCarriedTerm],
        ),
        (
            "b05-relay-that-does-not-read-the-cause",
            &[
                Broken::NoFoldAtDelivery,
                Broken::FoldReceivedChannelsOnly,
                Broken::DropAdvertisedTerm,
            ],
        ),
    ] {
        holds(scenario);
        for &broken in sabotages {
            catches_on(scenario, protocol(broken), SEEDS);
        }
    }
    catches_on(
        "b05-restart-between-two-sends",
        host(HostFault::RestartsWithoutEnds),
        SEEDS,
    );
}

#[test]
fn b06_sequences_belong_to_what_commits() {
    holds("b06-aborted-numbers-leave-no-gap");
    catches(
        "b06-aborted-numbers-leave-no-gap",
        &[
            protocol(Broken::ForgetSendSequencesAtRestore),
            protocol(Broken::KeepStateAfterAbort),
            protocol(Broken::ReuseASequence),
        ],
    );
    holds("b06-two-senders-on-one-partition");
    catches(
        "b06-two-senders-on-one-partition",
        &[
            protocol(Broken::IgnoreSequenceClaims),
            protocol(Broken::BreakFifo),
        ],
    );
    holds("b06-recreated-target");
    catches_on(
        "b06-recreated-target",
        protocol(Broken::UnreceivedChannelsBlock),
        SEEDS,
    );
}

#[test]
fn b12_a_name_is_no_identity() {
    for scenario in [
        "b12-input-recreated-while-running",
        "b12-input-recreated-while-stopped",
        "b12-input-recreated-while-held",
        "b12-input-recreated-while-held-and-stopped",
        "b12-sink-recreated-while-running",
        "b12-loop-recreated-while-stopped",
    ] {
        let counts = holds(scenario);
        assert!(counts.recreations >= SEEDS);
    }
    for (scenario, sabotage) in [
        (
            "b12-input-recreated-while-running",
            host(HostFault::PausesChecks),
        ),
        (
            "b12-sink-recreated-while-running",
            host(HostFault::PausesChecks),
        ),
        (
            "b12-input-recreated-while-stopped",
            host(HostFault::TrustsNames),
        ),
        (
            "b12-loop-recreated-while-stopped",
            host(HostFault::TrustsNames),
        ),
        (
            "b12-input-recreated-while-held",
            protocol(Broken::IgnoreDeletedHeld),
        ),
        (
            "b12-input-recreated-while-held-and-stopped",
            protocol(Broken::DiscardHeldOfRemovedInput),
        ),
    ] {
        catches_on(scenario, sabotage, SEEDS);
    }
}

#[test]
fn b14_a_channel_that_dies_with_nothing_held_narrows_stamps_and_refuses_nothing() {
    let counts = holds("b14-a-deletion-narrows-stamps");
    assert_eq!(counts.refusals, 0);
    let trace = trace("b14-a-deletion-narrows-stamps", 0);
    let clocks = clocks_sent(&trace, "quiet/0", "y:0");
    assert!(!clocks.is_empty());
    assert!(
        clocks.iter().all(|clock| !clock.contains("c:0<=")),
        "{clocks:?}"
    );
}

#[test]
fn b15_no_answer_about_positions_is_taken_for_a_fresh_start() {
    // Lower: dropped. Gone: the state knows. Higher: refused.
    holds("b15-positions-moved-back");
    catches_on(
        "b15-positions-moved-back",
        protocol(Broken::RedeliverWhatWasFedAgain),
        SEEDS,
    );
    let counts = holds("b15-positions-expired");
    assert_eq!(counts.duplicates_dropped, 0);
    catches_on(
        "b15-positions-expired",
        protocol(Broken::ForgetHeldAtRestore),
        SEEDS,
    );
    holds("g16-positions-moved-ahead");
    // Not stable yet: the start waits.
    let counts = holds("p9-restart-amid-markers");
    assert!(counts.starts_waiting > 0);
}

#[test]
fn b19_a_cascade_goes_out_whole_or_comes_back_whole() {
    holds("b19-cascade");
    catches(
        "b19-cascade",
        &[
            host(HostFault::KeepsStateAfterAbort),
            protocol(Broken::KeepStateAfterAbort),
            protocol(Broken::ForgetHeldAtRestore),
            protocol(Broken::Eager),
        ],
    );
}

#[test]
fn b21_a_clock_that_cannot_be_read_is_not_an_empty_one() {
    holds("g1-corrupt-clock");
    catches_on(
        "g1-corrupt-clock",
        protocol(Broken::CorruptClockAsEmpty),
        SEEDS,
    );
}

#[test]
fn b22_positions_without_their_state_are_refused() {
    holds("g11-state-lost");
}

#[test]
fn b32_a_declaration_that_drops_what_it_needs_is_refused() {
    holds("g8-removed-input-holds");
    catches_on(
        "g8-removed-input-holds",
        protocol(Broken::DiscardHeldOfRemovedInput),
        SEEDS,
    );
    holds("g6-sink-deleted-while-stopped");
    holds("g6-sink-deleted-while-running");
}
