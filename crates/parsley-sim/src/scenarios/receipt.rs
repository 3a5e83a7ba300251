//! Receipt alone (decision S1): every claim names a committed record, so no position has to be reported for anything to go on.
//!
//! No producer restarts and no watermark is asked for, as both would claim end offsets, which can be those of markers.

use super::reached::{BY_SEQUENCE, HELD, LATER_ROUNDS, RESTORED_HOLDS};
use crate::chance::Chance;
use crate::count::Counts;
use crate::plan::{
    Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, partitioned, topics,
};
use crate::scenario::{Floor, Scenario};

/// No position was reported: what the scenarios are about, on every seed.
const NO_ADVANCE: Floor = Floor::on("no position was reported", 100, no_advance);

fn no_advance(counts: &Counts) -> bool {
    counts.position_advances == 0
}

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "receipt-only-chain",
        about: "a chain and a consumer of all of it, without positions",
        plan: chain,
        floors: &[NO_ADVANCE, HELD],
    },
    Scenario {
        name: "receipt-only-fork",
        about: "one delivery is sent to several partitions and meets again, without positions",
        plan: fork,
        floors: &[NO_ADVANCE, HELD, LATER_ROUNDS, BY_SEQUENCE],
    },
    Scenario {
        name: "receipt-only-cycle",
        about: "feedback dies out, without positions",
        plan: cycle,
        floors: &[NO_ADVANCE, HELD],
    },
    Scenario {
        name: "receipt-only-aborts",
        about: "clients' transactions commit and abort beneath a chain, without positions",
        plan: aborts,
        floors: &[NO_ADVANCE, HELD],
    },
    Scenario {
        name: "receipt-only-restart",
        about: "a consumer that sends nothing restarts with what it holds, without positions",
        plan: restart,
        floors: &[NO_ADVANCE, HELD, RESTORED_HOLDS],
    },
];

const RULES: Rules = Rules {
    evidence: false,
    advances: false,
    crashes: 0,
    ticks: 0,
    sweeps: 0,
    truncation: false,
    acks: crate::plan::Acks::Either,
    end: crate::plan::End::Drained,
};

fn chain(chance: &mut Chance) -> Plan {
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
            StagePlan::new("all", Declaration::reads(&["origin", "middle", "result"])),
        ],
        edges: vec![EdgePlan::sequential(
            "source",
            &["origin"],
            chance.between(3, 8) as u32,
        )],
        script: vec![Phase::Random(100)],
        rules: RULES,
    }
}

fn fork(chance: &mut Chance) -> Plan {
    Plan {
        topics: partitioned(&["in", "left", "right", "met"], 2),
        stages: vec![
            StagePlan::new(
                "fork",
                Declaration::default().on(
                    "in",
                    &[
                        Emit::to("left").keyed(4),
                        Emit::to("right").keyed(4),
                        Emit::to("left").keyed(4),
                    ],
                ),
            )
            .stateful(),
            StagePlan::new(
                "meet",
                Declaration::default()
                    .on("left", &[Emit::to("met").keyed(4)])
                    .on("right", &[Emit::to("met").keyed(4)]),
            ),
            StagePlan::new("all", Declaration::reads(&["left", "right", "met", "in"])),
        ],
        edges: vec![EdgePlan::sequential("source", &["in"], chance.between(3, 7) as u32).keyed(4)],
        script: vec![Phase::Random(150)],
        rules: RULES,
    }
}

fn cycle(chance: &mut Chance) -> Plan {
    let hops = chance.between(3, 5) as u8;
    Plan {
        topics: topics(&["in", "there", "back"]),
        stages: vec![
            StagePlan::new(
                "ping",
                Declaration::default()
                    .on("in", &[Emit::to("there")])
                    .on("back", &[Emit::to("there").while_hops_below(hops)]),
            ),
            StagePlan::new(
                "pong",
                Declaration::default().on("there", &[Emit::to("back").while_hops_below(hops)]),
            ),
            StagePlan::new("see", Declaration::reads(&["in", "there", "back"])),
        ],
        edges: vec![EdgePlan::sequential(
            "source",
            &["in"],
            chance.between(2, 4) as u32,
        )],
        script: vec![Phase::Random(120)],
        rules: RULES,
    }
}

fn aborts(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["raw", "kept", "seen"]),
        stages: vec![
            StagePlan::new(
                "filter",
                Declaration::default().on("raw", &[Emit::to("kept").one_in(2), Emit::to("seen")]),
            ),
            StagePlan::new("all", Declaration::reads(&["raw", "kept", "seen"])),
        ],
        edges: vec![
            EdgePlan::sequential("sensor", &["raw"], chance.between(3, 6) as u32),
            EdgePlan::transactional("batch", &["raw", "kept", "seen"], 8, 50),
        ],
        script: vec![Phase::Random(120)],
        rules: RULES,
    }
}

fn restart(chance: &mut Chance) -> Plan {
    let mut script = Vec::new();
    for _ in 0..3 {
        script.extend([
            Phase::Random(chance.between(10, 30) as u32),
            Phase::Crash("all"),
        ]);
    }
    script.push(Phase::Random(40));
    Plan {
        script,
        ..fork(chance)
    }
}
