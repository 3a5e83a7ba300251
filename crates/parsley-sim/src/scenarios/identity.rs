//! Topics that are deleted and created again under their names: another topic each time.

use super::reached::{ALWAYS_BY_SEQUENCE, ALWAYS_HOLDING, ALWAYS_RECREATED, ALWAYS_REFUSED};
use crate::chance::Chance;
use crate::plan::{Acks, Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, topics};
use crate::scenario::Scenario;

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "b12-input-recreated-while-running",
        about: "an input becomes another topic while its task runs (B12)",
        plan: input_recreated_while_running,
        floors: &[ALWAYS_REFUSED, ALWAYS_RECREATED],
    },
    Scenario {
        name: "b12-input-recreated-while-stopped",
        about: "an input becomes another topic, longer or shorter, while its task is stopped (B12)",
        plan: input_recreated_while_stopped,
        floors: &[ALWAYS_RECREATED],
    },
    Scenario {
        name: "b12-input-recreated-while-held",
        about: "an input becomes another topic while a record of the old one is held (B12)",
        plan: |chance| input_recreated_while_held(chance, true),
        floors: &[ALWAYS_REFUSED, ALWAYS_RECREATED, ALWAYS_HOLDING],
    },
    Scenario {
        name: "b12-input-recreated-while-held-and-stopped",
        about: "an input becomes another topic while its task is stopped and holds a record of the old one (B12)",
        plan: |chance| input_recreated_while_held(chance, false),
        floors: &[ALWAYS_REFUSED, ALWAYS_RECREATED, ALWAYS_HOLDING],
    },
    Scenario {
        name: "b12-sink-recreated-while-running",
        about: "a sink becomes another topic while its task runs (B12)",
        plan: sink_recreated_while_running,
        floors: &[ALWAYS_REFUSED, ALWAYS_RECREATED],
    },
    Scenario {
        name: "b12-loop-recreated-while-stopped",
        about: "a topic that is both a sink and an input becomes another one while its task is stopped (B12)",
        plan: loop_recreated_while_stopped,
        floors: &[ALWAYS_RECREATED],
    },
    Scenario {
        name: "b06-recreated-target",
        about: "a sink becomes another topic, and claims on the old one neither hold nor free what comes (B06)",
        plan: recreated_target,
        floors: &[ALWAYS_RECREATED, ALWAYS_BY_SEQUENCE],
    },
];

fn input_recreated_while_running(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["x", "y"]),
        stages: vec![StagePlan::new("n", Declaration::reads(&["x", "y"]))],
        edges: vec![EdgePlan::sequential("e", &["x", "y"], 0)],
        script: vec![
            Phase::Send("e", chance.between(2, 6) as u32),
            Phase::Settle,
            Phase::Delete("x"),
            Phase::Recreate("x"),
            Phase::Send("e", chance.between(2, 8) as u32),
            Phase::Check("n"),
            Phase::Random(10),
        ],
        rules: Rules::until_refused("n", "vc-identity-changed"),
    }
}

fn input_recreated_while_stopped(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["x", "y"]),
        stages: vec![StagePlan::new("n", Declaration::reads(&["x", "y"]))],
        edges: vec![
            EdgePlan::sequential("e", &["x"], 2),
            EdgePlan::sequential("f", &["y", "x"], 3),
        ],
        script: vec![
            Phase::Send("e", chance.between(2, 5) as u32),
            Phase::Settle,
            Phase::Stop("n"),
            Phase::Delete("x"),
            Phase::Recreate("x"),
            // Below the old position or above it.
            Phase::Send("e", chance.between(1, 8) as u32),
            Phase::Start("n"),
            Phase::Random(30),
        ],
        rules: Rules::default(),
    }
}

fn input_recreated_while_held(chance: &mut Chance, running: bool) -> Plan {
    let mut script = vec![
        Phase::Send("e", 2 * chance.between(1, 2) as u32),
        Phase::ReadOnly("n", "x"),
    ];
    if !running {
        script.push(Phase::Stop("n"));
    }
    script.push(Phase::Delete("x"));
    script.push(Phase::Recreate("x"));
    script.push(Phase::SendTo("f", "x"));
    script.push(if running {
        Phase::Check("n")
    } else {
        Phase::Start("n")
    });
    Plan {
        topics: topics(&["x", "z"]),
        stages: vec![StagePlan::new("n", Declaration::reads(&["x", "z"]))],
        edges: vec![
            EdgePlan::sequential("e", &["z", "x"], 0),
            EdgePlan::sequential("f", &["x"], 0),
        ],
        script,
        // To a start the old topic is an input that is no longer declared (G8), to a check one that is gone (G9).
        rules: if running {
            Rules::until_refused("n", "vc-deleted-input-held")
        } else {
            Rules::until_refused("n", "vc-removed-input-held")
        },
    }
}

fn sink_recreated_while_running(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["a", "s"]),
        stages: vec![StagePlan::new(
            "n",
            Declaration::default().on("a", &[Emit::to("s")]),
        )],
        edges: vec![EdgePlan::sequential("e", &["a"], 0)],
        script: vec![
            Phase::Send("e", chance.between(1, 4) as u32),
            Phase::Settle,
            Phase::Delete("s"),
            Phase::Recreate("s"),
            Phase::Check("n"),
            Phase::Send("e", 1),
        ],
        rules: Rules::until_refused("n", "vc-identity-changed"),
    }
}

fn loop_recreated_while_stopped(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["a", "loop", "out"]),
        stages: vec![
            StagePlan::new(
                "n",
                Declaration::default().on("a", &[Emit::to("loop")]).on(
                    "loop",
                    &[Emit::to("loop").while_hops_below(3), Emit::to("out")],
                ),
            ),
            StagePlan::new("all", Declaration::reads(&["a", "out"])),
        ],
        edges: vec![EdgePlan::sequential("e", &["a"], 3)],
        script: vec![
            Phase::Send("e", chance.between(1, 3) as u32),
            Phase::Settle,
            Phase::Stop("n"),
            Phase::Delete("loop"),
            Phase::Recreate("loop"),
            Phase::Send("e", chance.between(1, 2) as u32),
            Phase::Start("n"),
            Phase::Random(40),
        ],
        rules: Rules::default(),
    }
}

/// The claims that `a` carries of the old y, by sequence, meet a consumer that reads the new one.
fn recreated_target(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["in", "y", "z"]),
        stages: vec![
            StagePlan::new(
                "a",
                Declaration::default().on("in", &[Emit::to("y"), Emit::to("z")]),
            ),
            StagePlan::new("b", Declaration::reads(&["y", "z"])).late(),
        ],
        edges: vec![EdgePlan::sequential("e", &["in"], 3)],
        script: vec![
            Phase::Send("e", chance.between(1, 3) as u32),
            Phase::Settle,
            Phase::Stop("a"),
            Phase::Delete("y"),
            Phase::Recreate("y"),
            Phase::Start("a"),
            Phase::Start("b"),
            Phase::Send("e", chance.between(1, 2) as u32),
            Phase::ReadOnly("a", "in"),
            Phase::ReadOnly("b", "z"),
            Phase::Random(30),
        ],
        rules: Rules {
            evidence: false,
            acks: Acks::WithoutOffsets,
            ..Rules::default()
        },
    }
}
