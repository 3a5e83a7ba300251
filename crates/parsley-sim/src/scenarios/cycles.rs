//! Feedback that dies out. The stages of a loop cannot gate each other, so a consumer of both sides does.

use super::reached::{CRASHED, CRASHED_MID_STEP, HELD};
use crate::chance::Chance;
use crate::plan::{Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, topics};
use crate::scenario::Scenario;

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "damped-feedback",
        about: "two stages answer each other until the record has come through enough of them",
        plan: damped_feedback,
        floors: &[HELD],
    },
    Scenario {
        name: "damped-feedback-under-crashes",
        about: "the same loop, whose stages crash",
        plan: damped_feedback_under_crashes,
        floors: &[HELD, CRASHED, CRASHED_MID_STEP],
    },
    Scenario {
        name: "self-feedback",
        about: "a stage reads what it sends, until the record has come through it often enough",
        plan: self_feedback,
        floors: &[HELD, CRASHED],
    },
];

fn feedback(chance: &mut Chance, actions: u32, crashes: u32) -> Plan {
    let hops = chance.between(3, 6) as u8;
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
            StagePlan::new("see", Declaration::reads(&["there", "back"])),
        ],
        edges: vec![EdgePlan::sequential(
            "source",
            &["in"],
            chance.between(2, 4) as u32,
        )],
        script: vec![Phase::Random(actions)],
        rules: Rules {
            crashes,
            ..Rules::default()
        },
    }
}

fn damped_feedback(chance: &mut Chance) -> Plan {
    feedback(chance, 130, 0)
}

fn damped_feedback_under_crashes(chance: &mut Chance) -> Plan {
    feedback(chance, 190, 8)
}

fn self_feedback(chance: &mut Chance) -> Plan {
    let hops = chance.between(2, 4) as u8;
    Plan {
        topics: topics(&["in", "loop", "out"]),
        stages: vec![
            StagePlan::new(
                "spin",
                Declaration::default()
                    .on("in", &[Emit::to("loop"), Emit::to("out")])
                    .on(
                        "loop",
                        &[Emit::to("out"), Emit::to("loop").while_hops_below(hops)],
                    ),
            )
            .steps_of(2),
            StagePlan::new("see", Declaration::reads(&["in", "loop", "out"])),
        ],
        edges: vec![EdgePlan::sequential(
            "source",
            &["in"],
            chance.between(2, 4) as u32,
        )],
        script: vec![Phase::Random(130)],
        rules: Rules {
            crashes: 2,
            ..Rules::default()
        },
    }
}
