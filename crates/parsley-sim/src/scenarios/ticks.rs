//! Ticking stages: what a stage sends to itself comes back through its gate with the stage's causal past. Bare nodes.

use super::reached::{ALWAYS_HELD, CRASHED, CRASHED_HOLDING, CRASHED_MID_STEP, HELD};
use crate::chance::Chance;
use crate::plan::{
    Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, partitioned, topics,
};
use crate::scenario::{Floor, Scenario};

const TICKED: Floor = Floor::new("a tick", |counts| counts.ticks > 0);

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "tick-self-loop",
        about: "a ticking stage's ticks go to its own partition and carry its past to whoever reads them",
        plan: tick_self_loop,
        floors: &[TICKED, HELD],
    },
    Scenario {
        name: "tick-under-crashes",
        about: "a ticking stage crashes between and within its steps",
        plan: tick_under_crashes,
        floors: &[TICKED, HELD, CRASHED, CRASHED_MID_STEP, CRASHED_HOLDING],
    },
    Scenario {
        name: "tick-across-a-dropped-sink",
        about: "a restart drops a sink that a tick still on its way claims",
        plan: tick_across_a_dropped_sink,
        floors: &[
            ALWAYS_HELD,
            // The script ticks and deploys.
            Floor::on("a tick", 100, |counts| counts.ticks > 0),
            Floor::on("a deployment", 100, |counts| counts.deployments > 0),
        ],
    },
];

fn ticking(chance: &mut Chance, actions: u32, crashes: u32) -> Plan {
    Plan {
        topics: partitioned(&["in", "out", "ticks"], 2),
        stages: vec![
            StagePlan::new(
                "clock",
                Declaration::default()
                    .on("in", &[Emit::to("out")])
                    .on("ticks", &[Emit::to("out").keyed(4)])
                    .ticking("ticks"),
            )
            .bare(),
            StagePlan::new("see", Declaration::reads(&["in", "ticks", "out"])),
        ],
        edges: vec![EdgePlan::sequential("source", &["in"], chance.between(4, 8) as u32).keyed(4)],
        script: vec![Phase::Random(actions)],
        rules: Rules {
            ticks: 3,
            crashes,
            ..Rules::default()
        },
    }
}

fn tick_self_loop(chance: &mut Chance) -> Plan {
    ticking(chance, 120, 0)
}

fn tick_under_crashes(chance: &mut Chance) -> Plan {
    ticking(chance, 170, 6)
}

fn tick_across_a_dropped_sink(chance: &mut Chance) -> Plan {
    let sends = chance.between(1, 3) as u32;
    let mut script = vec![Phase::Send("of x", sends), Phase::Settle];
    for _ in 0..chance.between(1, 2) {
        script.push(Phase::Tick("clock"));
    }
    script.extend([
        Phase::Deploy("clock", 1),
        Phase::Settle,
        Phase::Start("see"),
        Phase::ReadOnly("see", "kept"),
        Phase::Random(40),
    ]);
    Plan {
        topics: topics(&["x", "ticks", "dropped", "kept"]),
        stages: vec![
            StagePlan::new(
                "clock",
                Declaration::default()
                    .on("x", &[Emit::to("dropped")])
                    .on("ticks", &[Emit::to("kept")])
                    .ticking("ticks"),
            )
            .then(
                Declaration::default()
                    .on("x", &[])
                    .on("ticks", &[Emit::to("kept")])
                    .ticking("ticks"),
            )
            .bare(),
            StagePlan::new("see", Declaration::reads(&["dropped", "kept"])).late(),
        ],
        edges: vec![EdgePlan::sequential("of x", &["x"], 2)],
        script,
        rules: Rules {
            ticks: 4,
            ..Rules::default()
        },
    }
}
