//! Races and chains: a cause and its effect reach one consumer by ways of different length.

use super::reached::{
    ADVANCED, ALWAYS_HELD, CRASHED, CRASHED_HOLDING, CRASHED_MID_STEP, HELD, RESTORED_HOLDS, pauses,
};
use crate::chance::Chance;
use crate::plan::{
    Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, partitioned, topics,
};
use crate::scenario::{Floor, Scenario};

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "shared-input-race",
        about: "a stage's output races its input at a consumer of both",
        plan: shared_input_race,
        floors: &[HELD],
    },
    Scenario {
        name: "transitive-hop",
        about: "a cause reaches a consumer through two stages, the second of which does not read its topic",
        plan: transitive_hop,
        floors: &[HELD],
    },
    Scenario {
        name: "edge-cross-topic",
        about: "a sequential client's sends to two topics stay in their order at a consumer of both",
        plan: edge_cross_topic,
        floors: &[HELD],
    },
    Scenario {
        name: "observed-causality",
        about: "what a plain client writes follows what it has read, at a consumer of both",
        plan: observed_causality,
        floors: &[
            HELD,
            Floor::new("the client read something", |counts| counts.edge_reads > 0),
        ],
    },
    Scenario {
        name: "diamond",
        about: "two ways of different length meet again, and the join has the origin as well",
        plan: diamond,
        floors: &[HELD],
    },
    Scenario {
        name: "two-stages-one-topic",
        about: "two stages of one application read one topic and meet at a consumer of all",
        plan: two_stages_one_topic,
        floors: &[HELD, CRASHED],
    },
    Scenario {
        name: "crash-recovery-chain",
        about: "a chain whose tasks crash between and within steps",
        plan: crash_recovery_chain,
        floors: &[
            HELD,
            CRASHED,
            CRASHED_MID_STEP,
            CRASHED_HOLDING,
            RESTORED_HOLDS,
        ],
    },
    Scenario {
        name: "crash-mid-step",
        about: "one stage crashes again and again within its steps, and nothing of those steps is left",
        plan: crash_mid_step,
        floors: &[
            CRASHED,
            // The budget is eight crashes and every other one offered cuts a step off.
            Floor::on("a crash within a step", 50, |counts| {
                counts.crashes_mid_step > 0
            }),
        ],
    },
    Scenario {
        name: "crash-while-holding",
        about: "a consumer crashes once and again while it holds, and restores what it held",
        plan: crash_while_holding,
        floors: &[
            ALWAYS_HELD,
            // The script crashes the consumer when it is known to hold.
            Floor::on("held records restored", 100, |counts| {
                counts.restores_with_holds > 0
            }),
            Floor::new("a record held over two restarts", |counts| {
                counts.holds_over_two_restarts > 0
            }),
        ],
    },
    Scenario {
        name: "baseline-above-history",
        about: "a consumer starts above what retention has removed, so the stamp alone orders what is left",
        plan: baseline_above_history,
        floors: &[
            ALWAYS_HELD,
            // The script removes the history.
            Floor::on("history removed", 100, |counts| counts.sweeps > 0),
        ],
    },
    Scenario {
        name: "wide-soak",
        about: "most of everything at once: edge clients, transactions, chains, cycles, crashes, retention",
        plan: wide_soak,
        floors: &[
            HELD,
            CRASHED,
            CRASHED_MID_STEP,
            CRASHED_HOLDING,
            RESTORED_HOLDS,
            ADVANCED,
            Floor::new("a start over an open transaction", |counts| {
                counts.open_over_a_start > 0
            }),
            Floor::new("a stamp was truncated", |counts| counts.truncated > 0),
        ],
    },
];

fn shared_input_race(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["orders", "invoices"]),
        stages: vec![
            StagePlan::new(
                "bill",
                Declaration::default().on("orders", &[Emit::to("invoices")]),
            ),
            StagePlan::new("ship", Declaration::reads(&["orders", "invoices"])),
        ],
        edges: vec![EdgePlan::sequential(
            "shop",
            &["orders"],
            chance.between(3, 8) as u32,
        )],
        script: vec![Phase::Random(60)],
        rules: Rules::default(),
    }
}

fn transitive_hop(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["origin", "middle", "result"]),
        stages: vec![
            StagePlan::new(
                "first",
                Declaration::default().on("origin", &[Emit::to("middle")]),
            ),
            StagePlan::new(
                "second",
                Declaration::default().on("middle", &[Emit::to("result")]),
            ),
            StagePlan::new("ends", Declaration::reads(&["origin", "result"])),
        ],
        edges: vec![EdgePlan::sequential(
            "source",
            &["origin"],
            chance.between(3, 8) as u32,
        )],
        script: pauses(chance, "ends", 4),
        rules: Rules::default(),
    }
}

fn edge_cross_topic(chance: &mut Chance) -> Plan {
    let sends = chance.between(6, 14) as u32;
    Plan {
        topics: topics(&["left", "right"]),
        stages: vec![StagePlan::new(
            "both",
            Declaration::reads(&["left", "right"]),
        )],
        edges: vec![
            EdgePlan::sequential("clerk", &["left", "right"], sends),
            EdgePlan::sequential("other", &["right"], 2),
        ],
        script: vec![Phase::Random(60)],
        rules: Rules::default(),
    }
}

fn observed_causality(chance: &mut Chance) -> Plan {
    let sends = chance.between(3, 8) as u32;
    Plan {
        topics: topics(&["facts", "comments"]),
        stages: vec![StagePlan::new(
            "both",
            Declaration::reads(&["facts", "comments"]),
        )],
        edges: vec![
            EdgePlan::sequential("writer", &["facts"], sends),
            EdgePlan::observer("reader", &["facts"], &["comments"], sends),
        ],
        script: pauses(chance, "both", 4),
        rules: Rules::default(),
    }
}

fn diamond(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["origin", "short", "detour", "long"]),
        stages: vec![
            StagePlan::new(
                "fork",
                Declaration::default().on("origin", &[Emit::to("short"), Emit::to("detour")]),
            ),
            StagePlan::new(
                "around",
                Declaration::default().on("detour", &[Emit::to("long")]),
            ),
            StagePlan::new("join", Declaration::reads(&["origin", "short", "long"])),
        ],
        edges: vec![EdgePlan::sequential(
            "source",
            &["origin"],
            chance.between(3, 6) as u32,
        )],
        script: vec![Phase::Random(90)],
        rules: Rules {
            crashes: 1,
            ..Rules::default()
        },
    }
}

fn two_stages_one_topic(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["orders", "invoices", "parcels"]),
        stages: vec![
            StagePlan::new(
                "bill",
                Declaration::default().on("orders", &[Emit::to("invoices")]),
            ),
            StagePlan::new(
                "pack",
                Declaration::default()
                    .on("orders", &[Emit::to("parcels").one_in(2)])
                    .on("invoices", &[Emit::to("parcels")]),
            ),
            StagePlan::new(
                "see",
                Declaration::reads(&["orders", "invoices", "parcels"]),
            ),
        ],
        edges: vec![EdgePlan::sequential(
            "shop",
            &["orders"],
            chance.between(3, 7) as u32,
        )],
        script: vec![Phase::Random(100)],
        rules: Rules {
            crashes: 2,
            ..Rules::default()
        },
    }
}

fn crash_recovery_chain(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["origin", "middle", "result"]),
        stages: vec![
            StagePlan::new(
                "first",
                Declaration::default().on("origin", &[Emit::to("middle"), Emit::to("result")]),
            ),
            StagePlan::new(
                "second",
                Declaration::default().on("middle", &[Emit::to("result")]),
            )
            .stateful(),
            StagePlan::new("all", Declaration::reads(&["origin", "middle", "result"])),
        ],
        edges: vec![EdgePlan::sequential(
            "source",
            &["origin"],
            chance.between(4, 8) as u32,
        )],
        script: vec![Phase::Random(140)],
        rules: Rules {
            crashes: 5,
            ..Rules::default()
        },
    }
}

fn crash_mid_step(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["in", "left", "right"]),
        stages: vec![
            StagePlan::new(
                "fork",
                Declaration::default().on("in", &[Emit::to("left"), Emit::to("right")]),
            )
            .stateful(),
            StagePlan::new("both", Declaration::reads(&["left", "right", "in"])),
        ],
        edges: vec![EdgePlan::sequential(
            "source",
            &["in"],
            chance.between(5, 9) as u32,
        )],
        script: vec![Phase::Random(150)],
        rules: Rules {
            crashes: 8,
            ..Rules::default()
        },
    }
}

fn crash_while_holding(chance: &mut Chance) -> Plan {
    let mut script = vec![
        Phase::Send("shop", chance.between(1, 3) as u32),
        Phase::Settle,
        Phase::Start("ship"),
        Phase::ReadOnly("ship", "invoices"),
        Phase::Crash("ship"),
        Phase::Start("ship"),
    ];
    if chance.percent(50) {
        script.extend([Phase::Crash("ship"), Phase::Start("ship")]);
    }
    script.push(Phase::Random(40));
    Plan {
        topics: topics(&["orders", "invoices"]),
        stages: vec![
            StagePlan::new(
                "bill",
                Declaration::default().on("orders", &[Emit::to("invoices")]),
            ),
            StagePlan::new("ship", Declaration::reads(&["orders", "invoices"])).late(),
        ],
        edges: vec![EdgePlan::sequential("shop", &["orders"], 4)],
        script,
        rules: Rules {
            crashes: 1,
            ..Rules::default()
        },
    }
}

fn baseline_above_history(chance: &mut Chance) -> Plan {
    let earlier = chance.between(1, 4) as u32;
    Plan {
        topics: topics(&["orders", "invoices"]),
        stages: vec![
            StagePlan::new(
                "bill",
                Declaration::default().on("orders", &[Emit::to("invoices")]),
            ),
            StagePlan::new("ship", Declaration::reads(&["orders", "invoices"])).late(),
        ],
        edges: vec![EdgePlan::sequential("shop", &["orders"], 3)],
        script: vec![
            Phase::Send("shop", earlier),
            Phase::Settle,
            Phase::SweepAll("orders"),
            Phase::SweepAll("invoices"),
            Phase::Send("shop", 1),
            Phase::Settle,
            Phase::Start("ship"),
            Phase::ReadOnly("ship", "invoices"),
            Phase::Random(40),
        ],
        rules: Rules::default(),
    }
}

fn wide_soak(chance: &mut Chance) -> Plan {
    let partitions = chance.between(1, 2) as i32;
    Plan {
        topics: partitioned(&["a", "b", "c", "d", "e", "loop"], partitions),
        stages: vec![
            StagePlan::new(
                "split",
                Declaration::default()
                    .on("a", &[Emit::to("c").keyed(4), Emit::to("d").keyed(4)])
                    .on("b", &[Emit::to("d").one_in(2)]),
            )
            .stateful(),
            StagePlan::new(
                "cycle",
                Declaration::default().on("c", &[Emit::to("loop")]).on(
                    "loop",
                    &[Emit::to("loop").while_hops_below(4), Emit::to("e").keyed(3)],
                ),
            ),
            StagePlan::new(
                "all",
                Declaration::reads(&["a", "b", "c", "d", "e", "loop"]),
            ),
            StagePlan::new("relay", Declaration::default().on("d", &[Emit::to("e")])).bare(),
        ],
        edges: vec![
            EdgePlan::sequential("shop", &["a", "b"], 7).keyed(4),
            EdgePlan::observer("clerk", &["c", "e"], &["a", "b"], 3).keyed(4),
            EdgePlan::transactional("bank", &["b", "d"], 5, 50).keyed(4),
        ],
        script: vec![Phase::Random(220)],
        rules: Rules {
            crashes: 9,
            sweeps: 2,
            truncation: true,
            ..Rules::default()
        },
    }
}
