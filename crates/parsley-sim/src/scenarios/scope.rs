//! Declarations that change: inputs and sinks that come and go across restarts.

use super::reached::{
    ALWAYS_BY_SEQUENCE, ALWAYS_DEPLOYED, ALWAYS_HELD, ALWAYS_SEEDED, CRASHED, HELD,
};
use crate::chance::Chance;
use crate::plan::{Acks, Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, topics};
use crate::scenario::{Floor, Scenario};

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "scope-shrink-across-a-restart",
        about: "an input goes, its effects so far are retired, and a consumer of it joins: the carried past is the only claim",
        plan: scope_shrink,
        floors: &[
            ALWAYS_HELD,
            ALWAYS_DEPLOYED,
            // The script removes what would order the rest.
            Floor::on("history removed", 100, |counts| counts.sweeps > 0),
        ],
    },
    Scenario {
        name: "scope-growth-by-offset",
        about: "a channel joins that the delivered past names by offset: it is read from behind that",
        plan: scope_growth_by_offset,
        floors: &[ALWAYS_DEPLOYED, ALWAYS_SEEDED],
    },
    Scenario {
        name: "scope-growth-by-sequence",
        about: "a channel joins that the delivered past names by sequence alone: it is read from its end",
        plan: scope_growth_by_sequence,
        floors: &[ALWAYS_DEPLOYED, ALWAYS_SEEDED, ALWAYS_BY_SEQUENCE],
    },
    Scenario {
        name: "scope-growth-above-retention",
        about: "a channel joins that retention has emptied beyond what the delivered past names: what is gone holds nothing back",
        plan: scope_growth_above_retention,
        floors: &[
            ALWAYS_DEPLOYED,
            ALWAYS_SEEDED,
            // The script removes what the joining stage was never fed.
            Floor::on("history removed", 100, |counts| counts.sweeps > 0),
        ],
    },
    Scenario {
        name: "a-sink-becomes-an-input",
        about: "a stage reads what it has only sent before: nothing of it is skipped",
        plan: a_sink_becomes_an_input,
        floors: &[
            ALWAYS_DEPLOYED,
            // Sending is not delivering, so there is nothing to skip on any seed.
            Floor::on("nothing was skipped", 100, |counts| {
                counts.joins_seeded == 0
            }),
        ],
    },
    Scenario {
        name: "a-removed-input-vouches",
        about: "a stage that gives up an input names by offset what it has delivered there, and nobody waits for retired sends",
        plan: a_removed_input_vouches,
        floors: &[ALWAYS_DEPLOYED, ALWAYS_BY_SEQUENCE],
    },
    Scenario {
        name: "scope-changes-at-random",
        about: "inputs and sinks come and go several times while records are on their way",
        plan: scope_changes_at_random,
        floors: &[
            HELD,
            ALWAYS_DEPLOYED,
            Floor::new("a joining channel skipped its past", |counts| {
                counts.joins_seeded > 0
            }),
        ],
    },
    Scenario {
        name: "scope-changes-under-crashes",
        about: "the same, and tasks crash in between",
        plan: scope_changes_under_crashes,
        floors: &[HELD, ALWAYS_DEPLOYED, CRASHED],
    },
];

fn scope_shrink(chance: &mut Chance) -> Plan {
    let before = chance.between(10, 40) as u32;
    let after = chance.between(0, 10) as u32;
    Plan {
        topics: topics(&["t1a", "t1b", "t2"]),
        stages: vec![
            StagePlan::new(
                "join",
                Declaration::default()
                    .on("t1a", &[Emit::to("t2")])
                    .on("t1b", &[Emit::to("t2")]),
            )
            .then(Declaration::default().on("t1a", &[Emit::to("t2")])),
            StagePlan::new("see", Declaration::reads(&["t1b", "t2"])).late(),
        ],
        edges: vec![
            EdgePlan::sequential("a", &["t1a"], 4),
            EdgePlan::sequential("b", &["t1b"], 3),
        ],
        script: vec![
            Phase::Send("b", 1),
            Phase::Random(before),
            Phase::Settle,
            Phase::Deploy("join", 1),
            Phase::SweepAll("t2"),
            Phase::Random(after),
            Phase::Send("a", 1),
            Phase::Settle,
            Phase::Start("see"),
            Phase::ReadOnly("see", "t2"),
            Phase::Random(30),
        ],
        rules: Rules {
            crashes: 1,
            ..Rules::default()
        },
    }
}

fn scope_growth_by_offset(chance: &mut Chance) -> Plan {
    let sends = chance.between(1, 3) as u32;
    Plan {
        topics: topics(&["cause", "effect", "out"]),
        stages: vec![
            StagePlan::new(
                "act",
                Declaration::default().on("cause", &[Emit::to("effect")]),
            ),
            StagePlan::new(
                "grow",
                Declaration::default().on("effect", &[Emit::to("out")]),
            )
            .then(
                Declaration::default()
                    .on("effect", &[Emit::to("out")])
                    .on("cause", &[Emit::to("out")]),
            ),
            StagePlan::new("see", Declaration::reads(&["cause", "effect", "out"])),
        ],
        edges: vec![EdgePlan::sequential("source", &["cause"], 3)],
        script: vec![
            Phase::Send("source", sends),
            Phase::Settle,
            Phase::Deploy("grow", 1),
            Phase::Random(50),
        ],
        rules: Rules::default(),
    }
}

fn scope_growth_by_sequence(chance: &mut Chance) -> Plan {
    let sends = chance.between(1, 3) as u32;
    Plan {
        topics: topics(&["in", "first", "second", "out"]),
        stages: vec![
            StagePlan::new(
                "fork",
                Declaration::default().on("in", &[Emit::to("first"), Emit::to("second")]),
            ),
            StagePlan::new(
                "grow",
                Declaration::default().on("second", &[Emit::to("out")]),
            )
            .then(
                Declaration::default()
                    .on("second", &[Emit::to("out")])
                    .on("first", &[Emit::to("out")]),
            ),
            StagePlan::new("see", Declaration::reads(&["first", "second", "out"])),
        ],
        edges: vec![EdgePlan::sequential("source", &["in"], 3)],
        script: vec![
            Phase::Send("source", sends),
            Phase::Settle,
            Phase::Deploy("grow", 1),
            Phase::Random(50),
        ],
        rules: Rules {
            acks: Acks::WithoutOffsets,
            // A watermark would turn the claims into offsets before the channel joins.
            evidence: false,
            ..Rules::default()
        },
    }
}

fn scope_growth_above_retention(chance: &mut Chance) -> Plan {
    let more = chance.between(2, 4) as u32;
    Plan {
        topics: topics(&["cause", "effect", "out"]),
        stages: vec![
            StagePlan::new(
                "act",
                Declaration::default().on("cause", &[Emit::to("effect")]),
            ),
            StagePlan::new(
                "grow",
                Declaration::default().on("effect", &[Emit::to("out")]),
            )
            .then(
                Declaration::default()
                    .on("effect", &[Emit::to("out")])
                    .on("cause", &[Emit::to("out")]),
            ),
            StagePlan::new("see", Declaration::reads(&["effect", "out"])),
        ],
        edges: vec![EdgePlan::sequential("source", &["cause"], 0)],
        script: vec![
            Phase::Send("source", 1),
            Phase::Settle,
            Phase::Stop("grow"),
            Phase::Send("source", more),
            Phase::Settle,
            Phase::SweepAll("cause"),
            Phase::Deploy("grow", 1),
            Phase::Random(30),
        ],
        rules: Rules::default(),
    }
}

fn a_sink_becomes_an_input(chance: &mut Chance) -> Plan {
    let sends = chance.between(1, 4) as u32;
    Plan {
        topics: topics(&["in", "turned", "out"]),
        stages: vec![
            StagePlan::new(
                "turn",
                Declaration::default().on("in", &[Emit::to("turned")]),
            )
            .then(
                Declaration::default()
                    .on("in", &[Emit::to("out")])
                    .on("turned", &[Emit::to("out")]),
            ),
            StagePlan::new("see", Declaration::reads(&["in", "turned", "out"])),
        ],
        edges: vec![EdgePlan::sequential("source", &["in"], 3)],
        script: vec![
            Phase::Send("source", sends),
            Phase::Settle,
            Phase::Deploy("turn", 1),
            Phase::Random(60),
        ],
        rules: Rules::default(),
    }
}

/// `act` is told by sequence of what it delivers from `first`, both there and on `second`. Its consumer starts when that is retired.
fn a_removed_input_vouches(chance: &mut Chance) -> Plan {
    let mut script = Vec::new();
    for _ in 0..chance.between(2, 3) {
        script.extend([Phase::Send("source", 1), Phase::Settle]);
    }
    script.extend([
        Phase::Deploy("act", 1),
        Phase::SweepAll("first"),
        Phase::Send("prompter", 1),
        Phase::Settle,
        Phase::Start("see"),
        Phase::Random(20),
    ]);
    Plan {
        topics: topics(&["in", "first", "second", "prompt", "out"]),
        stages: vec![
            StagePlan::new(
                "fork",
                Declaration::default().on("in", &[Emit::to("first"), Emit::to("second")]),
            ),
            StagePlan::new(
                "act",
                Declaration::default()
                    .on("first", &[])
                    .on("second", &[])
                    .on("prompt", &[Emit::to("out")]),
            )
            .then(
                Declaration::default()
                    .on("second", &[])
                    .on("prompt", &[Emit::to("out")]),
            ),
            StagePlan::new("see", Declaration::reads(&["first", "out"])).late(),
        ],
        edges: vec![
            EdgePlan::sequential("source", &["in"], 0),
            EdgePlan::sequential("prompter", &["prompt"], 0),
        ],
        script,
        rules: Rules {
            acks: Acks::WithoutOffsets,
            // A watermark would release what the claims must not hold.
            evidence: false,
            ..Rules::default()
        },
    }
}

/// What the changing stage may be declared as: any of three inputs, each alone or with others, with one sink or two.
fn declarations() -> Vec<Declaration> {
    let mut all = Vec::new();
    for sinks in [&["out"][..], &["out", "side"][..]] {
        for chosen in 1..8_u8 {
            let mut declaration = Declaration::default();
            for (bit, topic) in ["a", "b", "c"].into_iter().enumerate() {
                if chosen & (1 << bit) == 0 {
                    continue;
                }
                let emits: Vec<Emit> = sinks.iter().map(|&sink| Emit::to(sink)).collect();
                declaration = declaration.on(topic, &emits);
            }
            all.push(declaration);
        }
    }
    all
}

fn changes(chance: &mut Chance, crashes: u32) -> Plan {
    let mut declared = declarations();
    let mut script = Vec::new();
    // The first is what it starts as.
    let first = chance.below(declared.len() as u64) as usize;
    declared.swap(0, first);
    for _ in 0..chance.between(3, 6) {
        let next = chance.below(declared.len() as u64) as usize;
        script.extend([
            Phase::Random(chance.between(10, 35) as u32),
            // An input that holds something cannot be removed.
            Phase::Settle,
            Phase::Deploy("change", next),
        ]);
    }
    script.push(Phase::Random(40));
    let mut stage = StagePlan::new("change", Declaration::default());
    stage.declarations = declared;
    Plan {
        topics: topics(&["a", "b", "c", "out", "side"]),
        stages: vec![
            StagePlan::new(
                "relay",
                Declaration::default().on("a", &[Emit::to("b"), Emit::to("c").one_in(2)]),
            ),
            stage,
            StagePlan::new("see", Declaration::reads(&["a", "b", "c", "out", "side"])),
        ],
        edges: vec![
            EdgePlan::sequential("source", &["a", "c"], 10),
            EdgePlan::observer("reader", &["out", "b"], &["c", "a"], 4),
        ],
        script,
        rules: Rules {
            crashes,
            ..Rules::default()
        },
    }
}

fn scope_changes_at_random(chance: &mut Chance) -> Plan {
    changes(chance, 0)
}

fn scope_changes_under_crashes(chance: &mut Chance) -> Plan {
    changes(chance, 5)
}
