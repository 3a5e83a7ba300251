//! Retention, and the claims that are dropped for it.

use super::reached::{ALWAYS_HELD, CRASHED, HELD};
use crate::chance::Chance;
use crate::plan::{Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, topics};
use crate::scenario::{Floor, Scenario};

/// Claims went, on every seed: the script ages what was learned.
const ALWAYS_TRUNCATED: Floor =
    Floor::on("a stamp was truncated", 100, |counts| counts.truncated > 0);

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "truncation-mid-history",
        about: "retention and truncation run while a chain goes on",
        plan: truncation_mid_history,
        floors: &[
            HELD,
            CRASHED,
            Floor::new("history removed", |counts| counts.sweeps > 0),
            Floor::new("a stamp was truncated", |counts| counts.truncated > 0),
        ],
    },
    Scenario {
        name: "log-start-stability",
        about: "everything is retired and the stamps forget it; what comes after is in order",
        plan: log_start_stability,
        floors: &[
            // The two channels that the second stage's clocks name: its own input, and the one that it does not read.
            Floor::on("a stamp's clocks were emptied", 100, |counts| {
                counts.truncated >= 2
            }),
            ALWAYS_HELD,
        ],
    },
    Scenario {
        name: "joiner-after-truncation",
        about: "a consumer that starts from the earliest offset comes after everything before was retired and forgotten",
        plan: joiner_after_truncation,
        floors: &[ALWAYS_TRUNCATED, ALWAYS_HELD],
    },
    Scenario {
        name: "truncation-at-the-bound",
        about: "a claim that names the first record kept is not dropped with those below it",
        plan: truncation_at_the_bound,
        floors: &[ALWAYS_TRUNCATED, ALWAYS_HELD],
    },
];

fn chain() -> Vec<StagePlan> {
    vec![
        StagePlan::new(
            "tell",
            Declaration::default().on("cause", &[Emit::to("word")]),
        ),
        StagePlan::new(
            "act",
            Declaration::default().on("word", &[Emit::to("effect")]),
        ),
    ]
}

fn truncation_mid_history(chance: &mut Chance) -> Plan {
    let mut stages = chain();
    stages.push(StagePlan::new(
        "see",
        Declaration::reads(&["cause", "word", "effect"]),
    ));
    let mut script = Vec::new();
    for _ in 0..3 {
        script.extend([Phase::Random(60), Phase::Age]);
    }
    Plan {
        topics: topics(&["cause", "word", "effect"]),
        stages,
        edges: vec![EdgePlan::sequential(
            "source",
            &["cause"],
            chance.between(8, 14) as u32,
        )],
        script,
        rules: Rules {
            crashes: 2,
            sweeps: 5,
            truncation: true,
            ..Rules::default()
        },
    }
}

/// Some history, all of it removed and forgotten.
fn retired(sends: u32) -> Vec<Phase> {
    vec![
        Phase::Send("source", sends),
        Phase::Settle,
        Phase::SweepAll("cause"),
        Phase::SweepAll("word"),
        Phase::SweepAll("effect"),
        // Only offsets can fall below a log start.
        Phase::Evidence("act"),
        Phase::Check("tell"),
        Phase::Check("act"),
        Phase::Age,
        Phase::Check("tell"),
        Phase::Check("act"),
    ]
}

fn after_retirement(sends: u32, joins: bool) -> Plan {
    let mut script = retired(sends);
    let mut see = StagePlan::new("see", Declaration::reads(&["cause", "effect"]));
    if joins {
        see = see.late();
    } else {
        script.push(Phase::Stop("see"));
    }
    let mut stages = chain();
    stages.push(see);
    script.extend([
        Phase::Send("source", 1),
        Phase::Settle,
        Phase::Start("see"),
        Phase::ReadOnly("see", "effect"),
        Phase::Random(50),
    ]);
    Plan {
        topics: topics(&["cause", "word", "effect"]),
        stages,
        edges: vec![EdgePlan::sequential("source", &["cause"], 4)],
        script,
        rules: Rules {
            truncation: true,
            ..Rules::default()
        },
    }
}

fn log_start_stability(chance: &mut Chance) -> Plan {
    after_retirement(chance.between(2, 4) as u32, false)
}

fn joiner_after_truncation(chance: &mut Chance) -> Plan {
    after_retirement(chance.between(1, 4) as u32, true)
}

/// `act` has been told of the last `cause` through `word`, and sends to `effect` only for a later prompt.
fn truncation_at_the_bound(chance: &mut Chance) -> Plan {
    let sends = chance.between(3, 6) as u32;
    let last = i64::from(sends) - 1;
    Plan {
        topics: topics(&["cause", "word", "old", "prompt", "effect"]),
        stages: vec![
            StagePlan::new(
                "tell",
                Declaration::default()
                    .on("cause", &[Emit::to("word")])
                    .on("old", &[Emit::to("word")]),
            ),
            StagePlan::new(
                "act",
                Declaration::default()
                    .on("word", &[])
                    .on("prompt", &[Emit::to("effect")]),
            ),
            StagePlan::new("see", Declaration::reads(&["cause", "effect"])).late(),
        ],
        edges: vec![
            EdgePlan::sequential("source", &["cause"], 2),
            EdgePlan::sequential("elder", &["old"], 0),
            EdgePlan::sequential("prompter", &["prompt"], 2),
        ],
        script: vec![
            Phase::Send("elder", 1),
            Phase::Send("source", sends),
            Phase::Settle,
            // All of `old` goes, and of `cause` all but the last.
            Phase::SweepAll("old"),
            Phase::SweepBelow("cause", last),
            Phase::Check("act"),
            Phase::Age,
            Phase::Check("act"),
            Phase::Send("prompter", 1),
            Phase::Settle,
            Phase::Start("see"),
            Phase::ReadOnly("see", "effect"),
            Phase::Random(40),
        ],
        rules: Rules {
            truncation: true,
            ..Rules::default()
        },
    }
}
