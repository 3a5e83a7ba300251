//! Ticking stages: what a stage sends to itself comes back through its gate with the stage's causal past. Each as a bare node and as a
//! stage with ticks, and what only a stage has: tick state, and an order among what its ticks send.

use super::reached::{
    ALWAYS_BY_SEQUENCE, ALWAYS_HELD, CRASHED, CRASHED_HOLDING, CRASHED_MID_STEP, HELD, LATER_ROUNDS,
};
use crate::chance::Chance;
use crate::plan::{
    Acks, Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, TopicName, partitioned,
    topics,
};
use crate::scenario::{Floor, Scenario};

const TICKED: Floor = Floor::new("a tick", |counts| counts.ticks > 0);

/// The script ticks.
const ALWAYS_TICKED: Floor = Floor::on("a tick", 100, |counts| counts.ticks > 0);

/// The script deploys.
const ALWAYS_DEPLOYED: Floor = Floor::on("a deployment", 100, |counts| counts.deployments > 0);

/// The tick's stamp has a delivery in it that only its own step knows of.
const TICKED_AMONG_DELIVERIES: Floor =
    Floor::new("a tick behind a delivery of its step", |counts| {
        counts.ticks_behind_deliveries > 0
    });

const TICK_ABORTED: Floor = Floor::new("a tick of a step that was given up", |counts| {
    counts.ticks_aborted > 0
});

/// The tick state goes back.
const TICK_DELIVERY_ABORTED: Floor =
    Floor::new("a tick delivered in a step that was given up", |counts| {
        counts.tick_deliveries_aborted > 0
    });

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "tick-self-loop",
        about: "a ticking node's ticks go to its own partition and carry its past to whoever reads them",
        plan: |chance| bare(tick_self_loop(chance)),
        floors: &[TICKED, HELD],
    },
    Scenario {
        name: "tick-under-crashes",
        about: "a ticking node crashes between and within its steps",
        plan: |chance| bare(tick_under_crashes(chance)),
        floors: &[TICKED, HELD, CRASHED, CRASHED_MID_STEP, CRASHED_HOLDING],
    },
    Scenario {
        name: "tick-across-a-dropped-sink",
        about: "a restart drops a sink that a node's tick still on its way claims",
        plan: |chance| bare(tick_across_a_dropped_sink(chance)),
        floors: &[ALWAYS_HELD, ALWAYS_TICKED, ALWAYS_DEPLOYED],
    },
    Scenario {
        name: "tick-echo-of-a-dropped-sink",
        about: "a node's tick brings back a claim on sends to a sink that is dropped and retired, and nobody waits for those",
        plan: |chance| bare(tick_echo_of_a_dropped_sink(chance)),
        floors: &[ALWAYS_BY_SEQUENCE, ALWAYS_TICKED, ALWAYS_DEPLOYED],
    },
    Scenario {
        name: "stage-tick-self-loop",
        about: "a stage's ticks carry its past to whoever reads them or what they cause",
        plan: tick_self_loop,
        floors: &[TICKED, TICKED_AMONG_DELIVERIES, HELD],
    },
    Scenario {
        name: "stage-tick-under-crashes",
        about: "a ticking stage crashes between and within its steps, ticks among them",
        plan: tick_under_crashes,
        floors: &[
            TICKED,
            TICK_ABORTED,
            HELD,
            CRASHED,
            CRASHED_MID_STEP,
            CRASHED_HOLDING,
        ],
    },
    Scenario {
        name: "stage-tick-across-a-dropped-sink",
        about: "a restart drops a sink that a stage's tick still on its way claims",
        plan: tick_across_a_dropped_sink,
        floors: &[ALWAYS_HELD, ALWAYS_TICKED, ALWAYS_DEPLOYED],
    },
    Scenario {
        name: "stage-tick-echo-of-a-dropped-sink",
        about: "a stage's tick brings back a claim on sends to a sink that is dropped and retired, and nobody waits for those",
        plan: tick_echo_of_a_dropped_sink,
        floors: &[ALWAYS_BY_SEQUENCE, ALWAYS_TICKED, ALWAYS_DEPLOYED],
    },
    Scenario {
        name: "stage-tick-behind-deliveries",
        about: "a tick joins a step behind its deliveries, and who reads it first waits for them",
        plan: tick_behind_deliveries,
        floors: &[
            ALWAYS_HELD,
            Floor::on("a tick behind a delivery of its step", 100, |counts| {
                counts.ticks_behind_deliveries > 0
            }),
        ],
    },
    Scenario {
        name: "stage-tick-state-under-crashes",
        about: "a stage with states of keys and of ticks, which share a key's bytes and nothing else, crashes",
        plan: tick_state_under_crashes,
        floors: &[
            TICKED,
            TICK_ABORTED,
            TICK_DELIVERY_ABORTED,
            HELD,
            LATER_ROUNDS,
            CRASHED_MID_STEP,
        ],
    },
    Scenario {
        name: "stage-tick-sends-in-order",
        about: "several ticks are delivered in one step, and what each sends follows what the one before it sent",
        plan: tick_sends_in_order,
        floors: &[
            ALWAYS_HELD,
            ALWAYS_TICKED,
            Floor::on("a step had several rounds", 100, |counts| {
                counts.later_rounds > 0
            }),
        ],
    },
    Scenario {
        name: "stage-stops-ticking",
        about: "a stage is deployed without the ticks that it has sent, and goes on claiming what they claimed",
        plan: stage_stops_ticking,
        floors: &[ALWAYS_HELD, ALWAYS_TICKED, ALWAYS_DEPLOYED],
    },
];

/// The topic of the ticks of the stage `clock`.
const TICKS: TopicName = "sim-clock-ticks";

/// The same with a bare node in the place of the ticking stage.
fn bare(mut plan: Plan) -> Plan {
    plan.stages[0] = plan.stages[0].clone().bare();
    plan
}

fn ticking(chance: &mut Chance, actions: u32, crashes: u32) -> Plan {
    Plan {
        topics: partitioned(&["in", "out", TICKS], 2),
        stages: vec![
            StagePlan::new(
                "clock",
                Declaration::default()
                    .on("in", &[Emit::to("out")])
                    .on(TICKS, &[Emit::to("out").keyed(4)])
                    .ticking(TICKS),
            ),
            StagePlan::new("see", Declaration::reads(&["in", TICKS, "out"])),
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
    let mut plan = ticking(chance, 220, 12);
    plan.rules.ticks = 8;
    plan
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
        topics: topics(&["x", TICKS, "dropped", "kept"]),
        stages: vec![
            StagePlan::new(
                "clock",
                Declaration::default()
                    .on("x", &[Emit::to("dropped")])
                    .on(TICKS, &[Emit::to("kept")])
                    .ticking(TICKS),
            )
            .then(
                Declaration::default()
                    .on("x", &[])
                    .on(TICKS, &[Emit::to("kept")])
                    .ticking(TICKS),
            ),
            StagePlan::new("see", Declaration::reads(&["dropped", "kept"])).late(),
        ],
        edges: vec![EdgePlan::sequential("of x", &["x"], 2)],
        script,
        rules,
    }
}

/// Each tick comes behind a delivery of its own step: nothing earlier claims that one for it.
fn tick_behind_deliveries(chance: &mut Chance) -> Plan {
    let ticks = chance.between(1, 3) as usize;
    let mut script = Vec::new();
    for _ in 0..ticks {
        let sends = chance.between(1, 2);
        script.push(Phase::Send("source", sends as u32));
        script.push(Phase::TickAmong("clock", "in", sends as usize));
    }
    script.push(Phase::Start("see"));
    script.extend([
        Phase::ReadOnly("clock", TICKS),
        Phase::ReadOnly("see", TICKS),
        Phase::Random(20),
    ]);
    Plan {
        topics: topics(&["in", "out", TICKS]),
        stages: vec![
            StagePlan::new(
                "clock",
                Declaration::default()
                    .on("in", &[])
                    .on(TICKS, &[Emit::to("out")])
                    .ticking(TICKS),
            ),
            StagePlan::new("see", Declaration::reads(&["in", TICKS, "out"])).late(),
        ],
        edges: vec![EdgePlan::sequential("source", &["in"], 3)],
        script,
        rules: Rules {
            ticks: 4,
            ..Rules::default()
        },
    }
}

fn tick_state_under_crashes(chance: &mut Chance) -> Plan {
    let clock = StagePlan::new(
        "clock",
        Declaration::default()
            .on("in", &[Emit::to("left"), Emit::to("right").keyed(4)])
            .on(TICKS, &[Emit::to("right"), Emit::to("left").keyed(4)])
            .ticking(TICKS),
    );
    let clock = clock.stateful();
    let per_delivery = chance.percent(50);
    Plan {
        topics: partitioned(&["in", "left", "right", TICKS], 2),
        stages: vec![
            match per_delivery {
                true => clock.per_delivery(),
                false => clock,
            },
            StagePlan::new("see", Declaration::reads(&["in", "left", "right"])),
        ],
        edges: vec![EdgePlan::sequential("source", &["in"], chance.between(3, 4) as u32).keyed(3)],
        script: vec![[Phase::Tick("clock"), Phase::Random(28)]; 10].concat(),
        rules: Rules {
            ticks: 16,
            crashes: 24,
            ..Rules::default()
        },
    }
}

/// All ticks come back in one step. `see` meets what the later ones sent to `left` first, which follows what the first one sent to `right`.
fn tick_sends_in_order(chance: &mut Chance) -> Plan {
    let mut script = vec![Phase::Send("source", chance.between(1, 2) as u32)];
    let ticks = chance.between(2, 4) as usize;
    script.extend(vec![Phase::Tick("clock"); ticks]);
    script.extend([
        Phase::ReadOnly("clock", TICKS),
        Phase::Start("see"),
        Phase::ReadOnly("see", "left"),
        Phase::Random(20),
    ]);
    let mut clock = StagePlan::new(
        "clock",
        Declaration::default()
            .on("in", &[Emit::to("right")])
            .on(TICKS, &[Emit::to("left"), Emit::to("right")])
            .ticking(TICKS),
    );
    if chance.percent(50) {
        clock = clock.per_delivery();
    }
    Plan {
        topics: topics(&["in", "left", "right", TICKS]),
        stages: vec![
            clock,
            StagePlan::new("see", Declaration::reads(&["left", "right"])).late(),
        ],
        edges: vec![EdgePlan::sequential("source", &["in"], 2)],
        script,
        rules: Rules::default(),
    }
}

/// Ticks that claim what the stage was delivered are there, delivered or not, when the stage ticks no more.
fn stage_stops_ticking(chance: &mut Chance) -> Plan {
    let mut script = vec![
        Phase::Send("of x", chance.between(1, 3) as u32),
        Phase::Settle,
        Phase::Tick("clock"),
        Phase::Settle,
    ];
    if chance.percent(50) {
        // On its way when nobody is there for it any more.
        script.push(Phase::Tick("clock"));
    }
    script.extend([
        Phase::Deploy("clock", 1),
        Phase::SendTo("of y", "y"),
        Phase::Settle,
        Phase::Start("see"),
        Phase::ReadOnly("see", "kept"),
        Phase::Random(40),
    ]);
    Plan {
        topics: topics(&["x", "y", TICKS, "kept"]),
        stages: vec![
            StagePlan::new(
                "clock",
                Declaration::default()
                    .on("x", &[])
                    .on("y", &[Emit::to("kept")])
                    .on(TICKS, &[])
                    .ticking(TICKS),
            )
            .then(Declaration::default().on("y", &[Emit::to("kept")])),
            StagePlan::new("see", Declaration::reads(&["x", "kept"])).late(),
            StagePlan::new("watch", Declaration::reads(&[TICKS, "kept"])),
        ],
        edges: vec![
            EdgePlan::sequential("of x", &["x"], 2),
            EdgePlan::sequential("of y", &["y"], 1),
        ],
        script,
        rules: Rules::default(),
    }
}
