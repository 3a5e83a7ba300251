//! Ticking stages: what a stage sends to itself comes back through its gate with the stage's causal past. Bare nodes.

use super::reached::{
    ALWAYS_BY_SEQUENCE, ALWAYS_HELD, CRASHED, CRASHED_HOLDING, CRASHED_MID_STEP, HELD,
};
use crate::chance::Chance;
use crate::plan::{
    Acks, Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, partitioned, topics,
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
    Scenario {
        name: "tick-echo-of-a-dropped-sink",
        about: "a tick brings back a claim on sends to a sink that is dropped and retired, and nobody waits for those",
        plan: tick_echo_of_a_dropped_sink,
        floors: &[
            ALWAYS_BY_SEQUENCE,
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
    let ticks = chance.between(1, 2) as usize;
    let seen = [
        Phase::Start("see"),
        Phase::ReadOnly("see", "kept"),
        Phase::Random(40),
    ];
    dropping_a_sink(
        sends,
        ticks,
        &seen,
        Rules {
            ticks: 4,
            ..Rules::default()
        },
    )
}

fn tick_echo_of_a_dropped_sink(chance: &mut Chance) -> Plan {
    let sends = chance.between(1, 3) as u32;
    let ticks = chance.between(1, 2) as usize;
    let seen = [
        Phase::SweepAll("dropped"),
        Phase::Start("see"),
        Phase::Random(40),
    ];
    dropping_a_sink(
        sends,
        ticks,
        &seen,
        Rules {
            acks: Acks::WithoutOffsets,
            // A watermark would release what the claim must not hold.
            evidence: false,
            ..Rules::default()
        },
    )
}

/// Ticks that claim `dropped` are on their way when that is a sink no more; what they bring about goes to `kept`.
fn dropping_a_sink(sends: u32, ticks: usize, seen: &[Phase], rules: Rules) -> Plan {
    let mut script = vec![Phase::Send("of x", sends), Phase::Settle];
    script.extend(vec![Phase::Tick("clock"); ticks]);
    script.extend([Phase::Deploy("clock", 1), Phase::Settle]);
    script.extend_from_slice(seen);
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
        rules,
    }
}
