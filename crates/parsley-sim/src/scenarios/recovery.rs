//! Aborted steps, restarts, positions and state that do not fit together, bytes that nobody can read.

use super::reached::{
    ALWAYS_REFUSED, CRASHED, CRASHED_HOLDING, CRASHED_MID_STEP, HELD, LATER_ROUNDS, RESTORED_HOLDS,
};
use crate::chance::Chance;
use crate::plan::{
    Declaration, Durable, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, partitioned, topics,
};
use crate::scenario::{Floor, Scenario};

/// On every seed: the script leaves nothing to chance.
const ALWAYS: u32 = 100;

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "b03-aborted-steps",
        about: "a stage with state, rounds and holds crashes again and again at every point of its steps (B03)",
        plan: aborted_steps,
        floors: &[
            CRASHED_MID_STEP,
            CRASHED_HOLDING,
            RESTORED_HOLDS,
            LATER_ROUNDS,
        ],
    },
    Scenario {
        name: "b04-fetched-is-not-handed-over",
        about: "a long log is read in bits, with crashes in between, and another topic claims records of it (B04)",
        plan: fetched_is_not_handed_over,
        floors: &[CRASHED, HELD],
    },
    Scenario {
        name: "b15-positions-moved-back",
        about: "someone moves a group's positions back: what comes again is dropped (B15)",
        plan: positions_moved_back,
        floors: &[
            Floor::on("a duplicate was dropped", ALWAYS, |counts| {
                counts.duplicates_dropped > 0
            }),
            Floor::on("positions were moved", ALWAYS, |counts| counts.rewinds > 0),
        ],
    },
    Scenario {
        name: "b15-positions-expired",
        about: "a group's positions are gone: the task resumes from its state (B15)",
        plan: positions_expired,
        floors: &[Floor::on("held records restored", ALWAYS, |counts| {
            counts.restores_with_holds > 0
        })],
    },
    Scenario {
        name: "g16-positions-moved-ahead",
        about: "someone moves a group's positions ahead of its state (B15)",
        plan: positions_moved_ahead,
        floors: &[ALWAYS_REFUSED],
    },
    Scenario {
        name: "g11-state-lost",
        about: "the state is gone, the group's positions are not (B22)",
        plan: state_lost,
        floors: &[ALWAYS_REFUSED],
    },
    Scenario {
        name: "g7-held-record-lost",
        about: "one held record is gone from the state, the rest is there (B22)",
        plan: held_record_lost,
        floors: &[ALWAYS_REFUSED],
    },
    Scenario {
        name: "b19-cascade",
        about: "one record frees a cascade and a diamond, and the task crashes in the middle of it (B19)",
        plan: cascade,
        floors: &[
            CRASHED_MID_STEP,
            CRASHED_HOLDING,
            Floor::on("a cascade of three", ALWAYS, |counts| counts.holds >= 3),
        ],
    },
    Scenario {
        name: "g1-corrupt-clock",
        about: "a record arrives whose clock nobody can read (B21)",
        plan: corrupt_clock,
        floors: &[ALWAYS_REFUSED],
    },
    Scenario {
        name: "b27-hold-over-two-restarts",
        about: "a record is held over two restarts (B27)",
        plan: hold_over_two_restarts,
        floors: &[Floor::on("a hold over two restarts", ALWAYS, |counts| {
            counts.holds_over_two_restarts > 0
        })],
    },
    Scenario {
        name: "b27-transactions-that-abort",
        about: "edge clients' transactions commit, abort and stay open over restarts, on several partitions (B27)",
        plan: transactions_that_abort,
        floors: &[
            CRASHED,
            Floor::new("a transaction open over a start", |counts| {
                counts.open_over_a_start > 0
            }),
            Floor::on("positions advanced", ALWAYS, |counts| {
                counts.position_advances > 0
            }),
        ],
    },
];

fn aborted_steps(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["one", "two", "c", "d"]),
        stages: vec![
            StagePlan::new(
                "n",
                Declaration::default()
                    .on("one", &[Emit::to("c"), Emit::to("d")])
                    .on("two", &[Emit::to("d"), Emit::to("c").one_in(2)]),
            )
            .stateful(),
            StagePlan::new("both", Declaration::reads(&["one", "c", "d"])),
        ],
        edges: vec![
            EdgePlan::sequential("e", &["one", "two"], chance.between(5, 8) as u32).keyed(2),
            EdgePlan::sequential("f", &["two", "one"], 4).keyed(2),
        ],
        script: vec![Phase::Random(110)],
        rules: Rules {
            crashes: 8,
            ..Rules::default()
        },
    }
}

fn fetched_is_not_handed_over(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["x", "y"]),
        stages: vec![StagePlan::new("n", Declaration::reads(&["x", "y"]))],
        edges: vec![
            EdgePlan::sequential("e", &["x"], 0),
            EdgePlan::sequential("f", &["x", "y"], 6),
        ],
        script: vec![
            Phase::Send("e", chance.between(4, 10) as u32),
            Phase::Random(40),
        ],
        rules: Rules {
            crashes: 3,
            ..Rules::default()
        },
    }
}

/// `n` has delivered all of x, and holds what y claims of z.
fn with_a_hold(chance: &mut Chance, then: Vec<Phase>, rules: Rules) -> Plan {
    let mut script = vec![
        Phase::Send("e", chance.between(2, 5) as u32),
        Phase::ReadOnly("n", "x"),
        Phase::Send("f", 2 * chance.between(1, 2) as u32),
        Phase::ReadOnly("n", "y"),
        Phase::Stop("n"),
    ];
    script.extend(then);
    Plan {
        topics: topics(&["x", "y", "z"]),
        stages: vec![StagePlan::new("n", Declaration::reads(&["x", "y", "z"]))],
        edges: vec![
            EdgePlan::sequential("e", &["x"], 2),
            EdgePlan::sequential("f", &["z", "y"], 2),
        ],
        script,
        rules,
    }
}

fn positions_moved_back(chance: &mut Chance) -> Plan {
    let then = vec![
        Phase::Rewind("n", chance.between(1, 6) as i64),
        Phase::Start("n"),
        Phase::Random(30),
    ];
    with_a_hold(chance, then, Rules::default())
}

fn positions_expired(chance: &mut Chance) -> Plan {
    let then = vec![
        Phase::Forget("n", Durable::Positions),
        Phase::Start("n"),
        Phase::Random(30),
    ];
    with_a_hold(chance, then, Rules::default())
}

fn positions_moved_ahead(chance: &mut Chance) -> Plan {
    let then = vec![
        Phase::Send("e", 3),
        Phase::Rewind("n", -(chance.between(1, 3) as i64)),
        Phase::Start("n"),
    ];
    with_a_hold(
        chance,
        then,
        Rules::until_refused("n", "vc-positions-ahead"),
    )
}

fn state_lost(chance: &mut Chance) -> Plan {
    let then = vec![Phase::Forget("n", Durable::State), Phase::Start("n")];
    with_a_hold(chance, then, Rules::until_refused("n", "vc-state-lost"))
}

fn held_record_lost(chance: &mut Chance) -> Plan {
    let then = vec![
        Phase::Forget("n", Durable::HeldRecord),
        Phase::Start("n"),
        Phase::Random(10),
    ];
    with_a_hold(chance, then, Rules::until_refused("n", "vc-corrupt-state"))
}

/// d waits for b and c, and both for a. The channels are read in the wrong order.
fn cascade(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["a", "b", "c", "d", "out"]),
        stages: vec![
            StagePlan::new(
                "n",
                Declaration::default()
                    .on("a", &[Emit::to("out")])
                    .on("b", &[Emit::to("out")])
                    .on("c", &[Emit::to("out")])
                    .on("d", &[Emit::to("out")]),
            )
            .steps_of(if chance.percent(50) { 2 } else { 1000 }),
            StagePlan::new("end", Declaration::reads(&["d", "out"])),
        ],
        edges: vec![
            EdgePlan::sequential("first", &["a"], 0),
            EdgePlan::observer("left", &["a"], &["b"], 0),
            EdgePlan::observer("right", &["a"], &["c"], 0),
            EdgePlan::observer("last", &["b", "c"], &["d"], 2),
        ],
        script: vec![
            Phase::Send("first", chance.between(1, 2) as u32),
            Phase::Read("left"),
            Phase::Send("left", 1),
            Phase::Read("right"),
            Phase::Send("right", 1),
            Phase::Read("last"),
            Phase::Send("last", 1),
            Phase::ReadOnly("n", "d"),
            Phase::ReadOnly("n", "c"),
            Phase::ReadOnly("n", "b"),
            Phase::Random(40),
        ],
        rules: Rules {
            crashes: 4,
            ..Rules::default()
        },
    }
}

fn corrupt_clock(chance: &mut Chance) -> Plan {
    let n = StagePlan::new("n", Declaration::reads(&["x", "y"]));
    Plan {
        topics: topics(&["x", "y"]),
        stages: vec![
            // A task remembers that it failed; a bare node has to by itself.
            if chance.percent(50) { n.bare() } else { n },
            StagePlan::new("other", Declaration::reads(&["y"])),
        ],
        edges: vec![
            EdgePlan::sequential("e", &["x"], 0),
            EdgePlan::sequential("f", &["y"], 3),
        ],
        script: vec![
            Phase::Send("e", chance.between(0, 3) as u32),
            Phase::SendCorrupt("e", "x"),
            Phase::Random(15),
        ],
        rules: Rules::until_refused("n", "vc-corrupt-clock"),
    }
}

fn hold_over_two_restarts(chance: &mut Chance) -> Plan {
    let restarts = chance.between(2, 3);
    let mut script = vec![
        Phase::Send("e", 2 * chance.between(1, 3) as u32),
        Phase::ReadOnly("n", "y"),
    ];
    for _ in 0..restarts {
        script.extend([Phase::Crash("n"), Phase::Start("n")]);
    }
    script.push(Phase::Random(30));
    Plan {
        topics: topics(&["x", "y"]),
        stages: vec![StagePlan::new("n", Declaration::reads(&["x", "y"]))],
        edges: vec![EdgePlan::sequential("e", &["x", "y"], 3)],
        script,
        rules: Rules::default(),
    }
}

fn transactions_that_abort(chance: &mut Chance) -> Plan {
    Plan {
        topics: partitioned(&["a", "b", "out"], chance.between(2, 3) as i32),
        stages: vec![
            StagePlan::new(
                "relay",
                Declaration::default()
                    .on("a", &[Emit::to("out")])
                    .on("b", &[Emit::to("out").one_in(2)]),
            ),
            StagePlan::new("all", Declaration::reads(&["a", "b", "out"])),
        ],
        edges: vec![
            EdgePlan::transactional("bank", &["a", "b"], 8, 50).keyed(5),
            EdgePlan::transactional("fund", &["b", "a"], 8, 50).keyed(5),
            EdgePlan::sequential("shop", &["a", "b"], 6).keyed(5),
        ],
        script: vec![Phase::Random(120)],
        rules: Rules {
            crashes: 3,
            sweeps: 2,
            ..Rules::default()
        },
    }
}
