//! Small worlds, all ways: every order in which anything can happen in them (`docs/verification.md`, Exhaustive small worlds).
//!
//! The counts are exact. They change when another way opens or closes (an action that is not offered any more, a plan), and when tasks keep
//! something else in memory, which tells states apart that were one. A change of the first kind is to be understood before its count is
//! written down here and on the page; `cargo test --release -p parsley-sim --test explore -- --nocapture` prints all of them.

use parsley_model::Broken;
use parsley_sim::explore::{Judged, Seen, SmallWorld, explore, explore_up_to, worlds};
use parsley_sim::{HostFault, Sabotage};

/// States, transitions and the longest way; states in which something is held, in which a task is down that keeps held records, with an
/// aborted record in a log, at rest.
type Counted = [usize; 7];

fn world(name: &str) -> &'static SmallWorld {
    worlds::named(name).unwrap_or_else(|| panic!("no small world is called {name}"))
}

#[track_caller]
fn goes_right(name: &str, counted: Counted) {
    let found = explore(world(name), Sabotage::None, Judged::ActionsAndRest);
    if let Some(counterexample) = found.counterexample {
        panic!("{name}:\n{}", counterexample.schedule());
    }
    let Seen {
        holding,
        down_while_holding,
        aborted,
        at_rest,
    } = found.seen;
    println!(
        "{name}: {} states, {} transitions, ways of up to {} actions; {holding} holding, {down_while_holding} down while holding, \
         {aborted} with aborted records, {at_rest} at rest",
        found.states, found.transitions, found.depth
    );
    let (states, transitions, depth) = (found.states, found.transitions, found.depth);
    let held = [holding, down_while_holding];
    assert!(
        held.iter().all(|&states| states > 0),
        "{name} is about nothing"
    );
    assert!(at_rest > 0, "{name} never ends");
    let all = [
        states,
        transitions,
        depth,
        holding,
        down_while_holding,
        aborted,
        at_rest,
    ];
    assert_eq!(all, counted, "{name}");
}

macro_rules! every_way_goes_right {
    ($($(#[$attribute:meta])* $test:ident: $name:literal, $counted:expr;)*) => {
        $(
            $(#[$attribute])*
            #[test]
            fn $test() {
                goes_right($name, $counted);
            }
        )*

        const WITH_A_TEST: &[&str] = &[$($name),*];
    };
}

every_way_goes_right! {
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_triangle: "triangle", [1316, 3811, 11, 297, 22, 468, 134];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_triangle_two_crashes: "triangle-two-crashes", [370, 963, 9, 48, 11, 179, 55];
    every_way_through_triangle_one_by_one: "triangle-one-by-one", [264, 471, 18, 22, 2, 115, 20];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_chain: "chain", [8906, 35137, 13, 2146, 83, 4065, 416];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_two_writers: "two-writers", [572, 1389, 9, 72, 8, 176, 113];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_diamond: "diamond", [2152, 6551, 10, 399, 52, 973, 153];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_own_sends: "own-sends", [912, 2425, 10, 108, 4, 487, 94];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_own_sends_one_by_one: "own-sends-one-by-one", [12954, 28994, 32, 1196, 8, 10900, 298];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_past_over_a_restart: "past-over-a-restart", [371, 1171, 9, 19, 2, 102, 33];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_two_sinks: "two-sinks", [1675, 4357, 12, 160, 10, 615, 425];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_two_sinks_one_by_one: "two-sinks-one-by-one", [1336, 2769, 30, 219, 6, 1047, 45];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_sequence_through_a_hop: "sequence-through-a-hop", [8669, 33440, 14, 757, 38, 3263, 910];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_late_reader: "late-reader", [10501, 28177, 15, 1455, 72, 6074, 2314];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_retention: "retention", [6415, 17629, 13, 968, 55, 2525, 896];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_joiner: "joiner", [2292, 6370, 12, 423, 27, 958, 264];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_aborts: "aborts", [16287, 68289, 15, 2381, 123, 7887, 436];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_aborts_one_by_one: "aborts-one-by-one", [1097, 2581, 23, 59, 4, 527, 33];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_cycle: "cycle", [15860, 53285, 16, 3416, 140, 4513, 105];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_self_feedback: "self-feedback", [2270, 9365, 11, 407, 27, 604, 60];
    #[cfg_attr(debug_assertions, ignore = "too slow in a debug build")]
    every_way_through_ticks: "ticks", [7394, 29883, 12, 874, 48, 2290, 307];
}

#[test]
fn every_small_world_is_explored() {
    let all: Vec<&str> = worlds::ALL.iter().map(|world| world.name).collect();
    assert_eq!(all, WITH_A_TEST);
}

/// What is wrong on purpose, the world in which it is found by the fewest actions among those tried, what has to be judged for it, and how
/// many actions it takes.
const CAUGHT: &[(&str, &str, Judged, usize)] = &[
    ("eager", "triangle-one-by-one", Judged::Actions, 9),
    (
        "ignore-offset-claims",
        "triangle-one-by-one",
        Judged::Actions,
        9,
    ),
    (
        "fed-for-settled",
        "triangle-one-by-one",
        Judged::Actions,
        10,
    ),
    (
        "off-by-one-settled",
        "triangle-one-by-one",
        Judged::Actions,
        10,
    ),
    (
        "undefined-settled-as-everything",
        "triangle-one-by-one",
        Judged::Actions,
        9,
    ),
    (
        "drop-delivered-term",
        "triangle-one-by-one",
        Judged::Actions,
        9,
    ),
    (
        "forget-held-clocks-at-restore",
        "triangle-one-by-one",
        Judged::Actions,
        12,
    ),
    (
        "forget-held-at-restore",
        "triangle-one-by-one",
        Judged::ActionsAndRest,
        10,
    ),
    (
        "keep-state-after-abort",
        "triangle-two-crashes",
        Judged::ActionsAndRest,
        2,
    ),
    ("break-fifo", "two-writers", Judged::Actions, 4),
    ("no-fold-at-delivery", "chain", Judged::Actions, 4),
    ("drop-advertised-term", "chain", Judged::Actions, 4),
    ("fold-received-channels-only", "chain", Judged::Actions, 4),
    ("ignore-sequence-claims", "two-sinks", Judged::Actions, 3),
    ("drop-own-term", "own-sends", Judged::Actions, 5),
    ("forget-acknowledgements", "own-sends", Judged::Actions, 5),
    ("ignore-positions", "own-sends", Judged::ActionsAndRest, 4),
    (
        "unreceived-channels-block",
        "own-sends",
        Judged::ActionsAndRest,
        1,
    ),
    (
        "forget-past-at-restore",
        "past-over-a-restart",
        Judged::Actions,
        7,
    ),
    ("join-without-seed", "joiner", Judged::Actions, 5),
    (
        "forget-send-sequences-at-restore",
        "triangle",
        Judged::Actions,
        6,
    ),
    ("lose-offset-three", "triangle", Judged::Actions, 6),
    ("h1-feeds-out-of-order", "triangle", Judged::Actions, 3),
    (
        "h2-withholds-advances",
        "own-sends",
        Judged::ActionsAndRest,
        4,
    ),
    (
        "h3-keeps-state-after-abort",
        "triangle-one-by-one",
        Judged::ActionsAndRest,
        4,
    ),
    (
        "h3-keeps-sends-after-abort",
        "triangle-two-crashes",
        Judged::Actions,
        3,
    ),
    (
        "h3-commits-earlier-positions",
        "triangle-two-crashes",
        Judged::Actions,
        2,
    ),
    ("h5-restarts-without-ends", "own-sends", Judged::Actions, 7),
    (
        "h5-restarts-before-decision",
        "triangle-one-by-one",
        Judged::Actions,
        8,
    ),
    (
        "h7-sends-without-rounds",
        "two-sinks-one-by-one",
        Judged::Actions,
        4,
    ),
    ("commits-fetch-position", "triangle", Judged::Actions, 3),
    (
        "counts-prefetched-as-settled",
        "triangle",
        Judged::Actions,
        6,
    ),
    (
        "reads-stable-ends",
        "own-sends-one-by-one",
        Judged::Actions,
        18,
    ),
];

fn on_purpose(name: &str) -> Sabotage {
    let broken = name.parse::<Broken>().ok().map(Sabotage::Protocol);
    let fault = || HostFault::of_name(name).map(Sabotage::Host);
    broken
        .or_else(fault)
        .unwrap_or_else(|| panic!("nothing is called {name}"))
}

/// The way that is found is the shortest: nothing is wrong on any that is shorter, and nothing is on this one with any one action left out.
#[track_caller]
fn is_caught(name: &str, world_name: &str, judged: Judged, actions: usize) {
    let (world, sabotage) = (world(world_name), on_purpose(name));
    let found = explore(world, sabotage, judged).counterexample;
    let found = found.unwrap_or_else(|| panic!("{name} slips through {world_name}"));
    println!(
        "{name} in {world_name}, {actions} actions:\n{}",
        found.schedule()
    );
    assert_eq!(
        found.actions.len(),
        actions,
        "{name} in {world_name}:\n{}",
        found.schedule()
    );
    assert_eq!(found.at_rest, judged == Judged::ActionsAndRest, "{name}");
    let up_to = |actions| explore_up_to(world, sabotage, judged, actions).counterexample;
    assert!(up_to(actions - 1).is_none(), "{name}: a shorter way");
    let again = up_to(actions).map(|found| found.actions);
    assert_eq!(again, Some(found.actions.clone()), "{name}");
    for left_out in 0..actions {
        let mut rest = found.actions.clone();
        rest.remove(left_out);
        let wrong = world.judge(sabotage, judged, &rest);
        assert_eq!(wrong, None, "{name}: wrong without action {left_out}");
    }
    // What goes wrong is what was broken: the same actions are right without it.
    let right = world.judge(Sabotage::None, Judged::ActionsAndRest, &found.actions);
    assert_eq!(right, None, "{name}: wrong without the sabotage");
}

#[test]
fn a_rule_that_is_broken_is_found_by_the_shortest_way() {
    // In a debug build, one.
    let tried = if cfg!(debug_assertions) {
        1
    } else {
        CAUGHT.len()
    };
    for &(name, world, judged, actions) in &CAUGHT[..tried] {
        is_caught(name, world, judged, actions);
    }
}
