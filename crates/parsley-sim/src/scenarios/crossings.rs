//! Sends of several partitions against one another: rounds, restarts between two sends, numbers that were given back.

use super::reached::{ALWAYS_BY_SEQUENCE, ALWAYS_HELD, CRASHED_MID_STEP, HELD};
use crate::chance::Chance;
use crate::plan::{
    Acks, Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, partitioned, topics,
};
use crate::scenario::{Floor, Scenario};

/// On every seed: the script leaves nothing to chance.
const ALWAYS: u32 = 100;

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "p1-crossed-sends",
        about: "two stages send to two topics in opposite order, each send following from the one before (P1)",
        plan: crossed_sends,
        floors: &[
            Floor::on("a send of a later round", ALWAYS, |counts| {
                counts.later_rounds > 0
            }),
            HELD,
        ],
    },
    Scenario {
        name: "p1-concurrent-sends",
        about: "two stages send to two topics in opposite order within a step, for different records (P1)",
        plan: concurrent_sends,
        floors: &[Floor::new("sends to both topics in one step", |counts| {
            counts.later_rounds > 0
        })],
    },
    Scenario {
        name: "p9-restart-amid-markers",
        about: "a task restarts while markers of its last transaction are missing (P9)",
        plan: restart_amid_markers,
        floors: &[
            // Where a transaction ends at once there is nothing to wait for.
            Floor::on("a start that had to wait", 50, |counts| {
                counts.starts_waiting > 0
            }),
            Floor::on("a crash", ALWAYS, |counts| counts.crashes > 0),
        ],
    },
    Scenario {
        name: "p15-ten-rounds",
        about: "each delivery emits to two topics in turn, ten times, against a stage that does so the other way round (P15)",
        plan: ten_rounds,
        floors: &[Floor::on("ten sends of one delivery", ALWAYS, |counts| {
            counts.later_rounds >= 9
        })],
    },
    Scenario {
        name: "b05-two-sends-of-one-step",
        about: "one step sends to two topics, and a consumer of both reads the later send first (B05)",
        plan: two_sends_of_one_step,
        floors: &[ALWAYS_HELD],
    },
    Scenario {
        name: "b05-restart-between-two-sends",
        about: "a task restarts between its sends to two topics, and a consumer of both reads the later send first (B05)",
        plan: restart_between_two_sends,
        floors: &[
            ALWAYS_HELD,
            Floor::on("a crash", ALWAYS, |counts| counts.crashes > 0),
        ],
    },
    Scenario {
        name: "b05-dropped-input-between-two-sends",
        about: "what a task sends depends on an input that it has dropped since (B05)",
        plan: dropped_input_between,
        floors: &[
            ALWAYS_HELD,
            Floor::on("a deployment", ALWAYS, |counts| counts.deployments > 0),
        ],
    },
    Scenario {
        name: "b05-relay-that-does-not-read-the-cause",
        about: "an effect comes through a relay that does not read its cause (B05)",
        plan: blind_relay,
        floors: &[ALWAYS_HELD],
    },
    Scenario {
        name: "b06-aborted-numbers-leave-no-gap",
        about: "steps abort with sequences given out, and nobody waits for a number that was given back (B06)",
        plan: aborted_numbers,
        floors: &[CRASHED_MID_STEP, ALWAYS_BY_SEQUENCE],
    },
    Scenario {
        name: "b06-two-senders-on-one-partition",
        about: "two tasks number their sends to the same partitions independently (B06)",
        plan: two_senders,
        floors: &[ALWAYS_BY_SEQUENCE, HELD],
    },
];

fn crossed_sends(chance: &mut Chance) -> Plan {
    let sends = chance.between(5, 7) as u32;
    Plan {
        topics: topics(&["p", "q", "c", "d"]),
        stages: vec![
            StagePlan::new(
                "paul",
                Declaration::default().on("p", &[Emit::to("c"), Emit::to("d")]),
            ),
            StagePlan::new(
                "quentin",
                Declaration::default().on("q", &[Emit::to("d"), Emit::to("c")]),
            ),
            StagePlan::new("both", Declaration::reads(&["c", "d"])),
        ],
        edges: vec![
            EdgePlan::sequential("e", &["p"], sends),
            EdgePlan::sequential("f", &["q"], sends),
        ],
        script: vec![Phase::Random(140)],
        rules: Rules {
            acks: Acks::WithoutOffsets,
            ..Rules::default()
        },
    }
}

/// Within a step, `paul` delivers what goes to c before what goes to d, and `quentin` the other way round, as the edge clients' claims demand.
fn concurrent_sends(chance: &mut Chance) -> Plan {
    let sends = 2 * chance.between(2, 3) as u32;
    Plan {
        topics: topics(&["pc", "pd", "qc", "qd", "c", "d"]),
        stages: vec![
            StagePlan::new(
                "paul",
                Declaration::default()
                    .on("pc", &[Emit::to("c")])
                    .on("pd", &[Emit::to("d")]),
            ),
            StagePlan::new(
                "quentin",
                Declaration::default()
                    .on("qd", &[Emit::to("d")])
                    .on("qc", &[Emit::to("c")]),
            ),
            StagePlan::new("both", Declaration::reads(&["c", "d"])),
        ],
        edges: vec![
            EdgePlan::sequential("e", &["pc", "pd"], 0),
            EdgePlan::sequential("f", &["qd", "qc"], 0),
        ],
        script: vec![
            Phase::Send("e", sends),
            Phase::Send("f", sends),
            Phase::Random(60),
        ],
        rules: Rules {
            acks: Acks::WithoutOffsets,
            ..Rules::default()
        },
    }
}

fn restart_amid_markers(chance: &mut Chance) -> Plan {
    let (before, after) = (chance.between(1, 3) as u32, chance.between(1, 3) as u32);
    Plan {
        topics: topics(&["in", "c", "d"]),
        stages: vec![
            StagePlan::new(
                "n",
                Declaration::default().on("in", &[Emit::to("c"), Emit::to("d")]),
            ),
            StagePlan::new("both", Declaration::reads(&["c", "d"])),
        ],
        edges: vec![EdgePlan::sequential("e", &["in"], 2)],
        script: vec![
            Phase::Send("e", before),
            Phase::StallMarkers(if chance.percent(50) { "c" } else { "d" }),
            Phase::ReadOnly("n", "in"),
            Phase::Crash("n"),
            Phase::Start("n"),
            Phase::Send("e", after),
            Phase::ReadOnly("n", "in"),
            Phase::ResumeMarkers("c"),
            Phase::ResumeMarkers("d"),
            Phase::Random(30),
        ],
        rules: Rules::default(),
    }
}

fn ten_rounds(chance: &mut Chance) -> Plan {
    let alternating = |first, second| -> Vec<Emit> {
        (0..10)
            .map(|number| Emit::to(if number % 2 == 0 { first } else { second }))
            .collect()
    };
    Plan {
        topics: topics(&["p", "q", "c", "d"]),
        stages: vec![
            StagePlan::new(
                "paul",
                Declaration::default().on("p", &alternating("c", "d")),
            ),
            StagePlan::new(
                "quentin",
                Declaration::default().on("q", &alternating("d", "c")),
            ),
            StagePlan::new("both", Declaration::reads(&["c", "d"])),
        ],
        edges: vec![
            EdgePlan::sequential("e", &["p"], chance.between(1, 2) as u32),
            EdgePlan::sequential("f", &["q"], 1),
        ],
        script: vec![Phase::Random(80)],
        rules: Rules::default(),
    }
}

fn two_sends_of_one_step(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["in", "y", "z"]),
        stages: vec![
            StagePlan::new(
                "a",
                Declaration::default().on("in", &[Emit::to("y"), Emit::to("z")]),
            ),
            StagePlan::new("b", Declaration::reads(&["y", "z"])).late(),
        ],
        edges: vec![EdgePlan::sequential("e", &["in"], 4)],
        script: vec![
            Phase::Send("e", chance.between(1, 3) as u32),
            Phase::Settle,
            Phase::Start("b"),
            Phase::ReadOnly("b", "z"),
            Phase::Random(30),
        ],
        rules: Rules::default(),
    }
}

fn restart_between_two_sends(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["one", "two", "y", "z"]),
        stages: vec![
            StagePlan::new(
                "a",
                Declaration::default()
                    .on("one", &[Emit::to("y")])
                    .on("two", &[Emit::to("z")]),
            ),
            StagePlan::new("b", Declaration::reads(&["y", "z"])).late(),
        ],
        edges: vec![
            EdgePlan::sequential("e", &["one"], 0),
            EdgePlan::sequential("f", &["two"], 3),
        ],
        script: vec![
            Phase::Send("e", chance.between(1, 3) as u32),
            Phase::Settle,
            Phase::Crash("a"),
            Phase::Start("a"),
            Phase::Send("f", 1),
            Phase::ReadOnly("a", "two"),
            Phase::Start("b"),
            Phase::ReadOnly("b", "z"),
            Phase::Random(20),
        ],
        rules: Rules::default(),
    }
}

/// What `a` carries of x is the only claim on it: the record of w claims nothing.
fn dropped_input_between(chance: &mut Chance) -> Plan {
    let sent = Declaration::default().on("w", &[Emit::to("z")]);
    Plan {
        topics: topics(&["x", "w", "z"]),
        stages: vec![
            StagePlan::new("a", sent.clone().on("x", &[])).then(sent),
            StagePlan::new("b", Declaration::reads(&["x", "z"])),
        ],
        edges: vec![
            EdgePlan::sequential("e", &["x"], 0),
            EdgePlan::sequential("f", &["w"], 3),
        ],
        script: vec![
            Phase::Send("e", chance.between(1, 3) as u32),
            Phase::ReadOnly("a", "x"),
            Phase::Deploy("a", 1),
            Phase::Send("f", 1),
            Phase::ReadOnly("a", "w"),
            Phase::ReadOnly("b", "z"),
            Phase::Random(20),
        ],
        rules: Rules::default(),
    }
}

fn blind_relay(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["x", "m", "z"]),
        stages: vec![
            StagePlan::new("relay", Declaration::default().on("m", &[Emit::to("z")])),
            StagePlan::new("b", Declaration::reads(&["x", "z"])),
        ],
        edges: vec![EdgePlan::sequential("e", &["x", "m"], 4)],
        script: vec![
            Phase::Send("e", 2 * chance.between(1, 3) as u32),
            Phase::ReadOnly("relay", "m"),
            Phase::ReadOnly("b", "z"),
            Phase::Random(30),
        ],
        rules: Rules::default(),
    }
}

fn aborted_numbers(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["in", "y", "z"]),
        stages: vec![
            StagePlan::new(
                "a",
                Declaration::default().on("in", &[Emit::to("y"), Emit::to("z")]),
            ),
            StagePlan::new("b", Declaration::reads(&["y", "z"])),
        ],
        edges: vec![EdgePlan::sequential("e", &["in"], 6)],
        script: vec![
            Phase::Send("e", chance.between(1, 2) as u32),
            Phase::Random(80),
        ],
        rules: Rules {
            evidence: false,
            crashes: 5,
            acks: Acks::WithoutOffsets,
            ..Rules::default()
        },
    }
}

fn two_senders(chance: &mut Chance) -> Plan {
    let mut all = partitioned(&["in"], 2);
    all.extend(topics(&["y", "z"]));
    Plan {
        topics: all,
        stages: vec![
            StagePlan::new(
                "a",
                Declaration::default().on("in", &[Emit::to("y"), Emit::to("z")]),
            ),
            StagePlan::new("b", Declaration::reads(&["y", "z"])),
        ],
        edges: vec![
            EdgePlan::sequential("e", &["in"], chance.between(5, 8) as u32).keyed(6),
            EdgePlan::sequential("f", &["in"], 2).keyed(6),
        ],
        script: vec![Phase::Random(70)],
        rules: Rules {
            evidence: false,
            acks: Acks::WithoutOffsets,
            ..Rules::default()
        },
    }
}
