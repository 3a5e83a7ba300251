//! The terms of a stamp, one by one: each plan leaves one term alone to order a delivery.
//!
//! The consumer starts when everything is written, and is fed the effect first. What was sent before on the effect's channel is removed,
//! where the order of that channel would stand in for the claim.

use super::reached::{ALWAYS_BY_SEQUENCE, ALWAYS_HELD};
use crate::chance::Chance;
use crate::plan::{
    Acks, Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, partitioned, topics,
};
use crate::scenario::{Floor, Scenario};

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "stamp-delivered-term",
        about: "only the delivered term names the record that a send follows from",
        plan: delivered_term,
        floors: &[ALWAYS_HELD],
    },
    Scenario {
        name: "stamp-advertised-term",
        about: "only the advertised term names a cause on a topic that the sender does not read",
        plan: advertised_term,
        floors: &[ALWAYS_HELD],
    },
    Scenario {
        name: "stamp-carried-term",
        about: "only the carried term names what was delivered from an input that is no longer one",
        plan: carried_term,
        floors: &[
            ALWAYS_HELD,
            // The script deploys and removes.
            Floor::on("a deployment", 100, |counts| counts.deployments > 0),
            Floor::on("history removed", 100, |counts| counts.sweeps > 0),
        ],
    },
    Scenario {
        name: "stamp-own-term",
        about: "only the own term orders what one delivery sends to two sinks",
        plan: own_term,
        floors: &[ALWAYS_HELD],
    },
    Scenario {
        name: "own-sends-by-sequence",
        about: "sends to several partitions of a sink are ordered by sequence claims, as acknowledgements tell no offset",
        plan: own_sends_by_sequence,
        floors: &[ALWAYS_HELD, ALWAYS_BY_SEQUENCE],
    },
    Scenario {
        name: "own-sends-across-a-restart",
        about: "a consumer of both sinks joins after the restart: only the end offsets relate what the two executions sent",
        plan: own_sends_across_a_restart,
        floors: &[ALWAYS_HELD],
    },
    Scenario {
        name: "own-sends-above-an-open-transaction",
        about: "a restart finds its own committed sends above another producer's open transaction",
        plan: own_sends_above_an_open_transaction,
        floors: &[
            ALWAYS_HELD,
            // The script leaves the transaction open over the restart.
            Floor::on("a start over an open transaction", 100, |counts| {
                counts.open_over_a_start > 0
            }),
        ],
    },
    Scenario {
        name: "the-past-survives-a-restart",
        about: "a stage that restarts still claims what it was told of before",
        plan: past_survives,
        floors: &[ALWAYS_HELD],
    },
    Scenario {
        name: "the-delivered-survive-a-restart",
        about: "a stage that restarts still claims what it delivered before",
        plan: delivered_survive,
        floors: &[ALWAYS_HELD],
    },
    Scenario {
        name: "dropped-sink-across-a-restart",
        about: "what was sent to a sink that is no longer one still comes before what is sent now",
        plan: dropped_sink,
        floors: &[
            ALWAYS_HELD,
            // The script deploys.
            Floor::on("a deployment", 100, |counts| counts.deployments > 0),
        ],
    },
];

fn delivered_term(chance: &mut Chance) -> Plan {
    let sends = chance.between(1, 3) as u32;
    Plan {
        topics: topics(&["cause", "effect"]),
        stages: vec![
            StagePlan::new(
                "act",
                Declaration::default().on("cause", &[Emit::to("effect")]),
            ),
            StagePlan::new("see", Declaration::reads(&["cause", "effect"])).late(),
        ],
        edges: vec![EdgePlan::sequential("source", &["cause"], 3)],
        script: vec![
            Phase::Send("source", sends),
            Phase::Settle,
            Phase::Start("see"),
            Phase::ReadOnly("see", "effect"),
            Phase::Random(30),
        ],
        rules: Rules::default(),
    }
}

fn advertised_term(chance: &mut Chance) -> Plan {
    let sends = chance.between(1, 3) as u32;
    Plan {
        topics: topics(&["cause", "word", "effect"]),
        stages: vec![
            StagePlan::new(
                "tell",
                Declaration::default().on("cause", &[Emit::to("word")]),
            ),
            StagePlan::new(
                "act",
                Declaration::default().on("word", &[Emit::to("effect")]),
            ),
            StagePlan::new("see", Declaration::reads(&["cause", "effect"])).late(),
        ],
        edges: vec![EdgePlan::sequential("source", &["cause"], 3)],
        script: vec![
            Phase::Send("source", sends),
            Phase::Settle,
            Phase::Start("see"),
            Phase::ReadOnly("see", "effect"),
            Phase::Random(40),
        ],
        rules: Rules::default(),
    }
}

fn carried_term(chance: &mut Chance) -> Plan {
    let sends = chance.between(1, 3) as u32;
    let restarts = chance.percent(50);
    let mut script = vec![
        Phase::Send("before", sends),
        Phase::Settle,
        Phase::Deploy("act", 1),
    ];
    if restarts {
        script.extend([Phase::Crash("act"), Phase::Start("act")]);
    }
    script.extend([
        // What was sent while the input was one would order what comes behind it.
        Phase::SweepAll("effect"),
        Phase::Send("after", 1),
        Phase::Settle,
        Phase::Start("see"),
        Phase::ReadOnly("see", "effect"),
        Phase::Random(30),
    ]);
    Plan {
        topics: topics(&["cause", "other", "effect"]),
        stages: vec![
            StagePlan::new(
                "act",
                Declaration::default()
                    .on("cause", &[Emit::to("effect")])
                    .on("other", &[Emit::to("effect")]),
            )
            .then(Declaration::default().on("other", &[Emit::to("effect")])),
            StagePlan::new("see", Declaration::reads(&["cause", "effect"])).late(),
        ],
        edges: vec![
            EdgePlan::sequential("before", &["cause"], 2),
            EdgePlan::sequential("after", &["other"], 2),
        ],
        script,
        rules: Rules::default(),
    }
}

fn own_term(chance: &mut Chance) -> Plan {
    let sends = chance.between(1, 3) as u32;
    Plan {
        topics: topics(&["in", "first", "second"]),
        stages: vec![
            StagePlan::new(
                "fork",
                Declaration::default().on("in", &[Emit::to("first"), Emit::to("second")]),
            ),
            StagePlan::new("see", Declaration::reads(&["first", "second"])).late(),
        ],
        edges: vec![EdgePlan::sequential("source", &["in"], 3)],
        script: vec![
            Phase::Send("source", sends),
            Phase::Settle,
            Phase::Start("see"),
            Phase::ReadOnly("see", "second"),
            Phase::Random(30),
        ],
        rules: Rules::default(),
    }
}

/// Keys of records that go to the first and to the second of two partitions.
const TO_PARTITION: [u64; 2] = [1, 0];

/// `fork` sends to both partitions of `sink`; what comes of the second one meets the first one's at `see`.
fn own_sends_by_sequence(chance: &mut Chance) -> Plan {
    let sends = chance.between(1, 3) as u32;
    let [first, second] = TO_PARTITION;
    let mut all = topics(&["in"]);
    all.extend(partitioned(&["sink", "gathered"], 2));
    Plan {
        topics: all,
        stages: vec![
            StagePlan::new(
                "fork",
                Declaration::default().on(
                    "in",
                    &[
                        Emit::to("sink").under(first),
                        Emit::to("sink").under(second),
                    ],
                ),
            ),
            StagePlan::new(
                "gather",
                Declaration::default().on("sink", &[Emit::to("gathered").under(first)]),
            ),
            StagePlan::new("see", Declaration::reads(&["sink", "gathered"])).late(),
        ],
        edges: vec![EdgePlan::sequential("source", &["in"], 3)],
        script: vec![
            Phase::Send("source", sends),
            Phase::ReadOnly("fork", "in"),
            // What the other task would gather names the first partition's records by offset.
            Phase::ReadOnlyAt("gather", 1, "sink"),
            Phase::Start("see"),
            Phase::ReadOnly("see", "gathered"),
            Phase::Random(40),
        ],
        rules: Rules {
            acks: Acks::WithoutOffsets,
            ..Rules::default()
        },
    }
}

/// A stage that sends `x` on to `first` and `y` to `second`, and who sees both, later.
fn fork(script: Vec<Phase>) -> Plan {
    Plan {
        topics: topics(&["x", "y", "first", "second"]),
        stages: vec![
            StagePlan::new(
                "fork",
                Declaration::default()
                    .on("x", &[Emit::to("first")])
                    .on("y", &[Emit::to("second")]),
            )
            .then(
                Declaration::default()
                    .on("x", &[])
                    .on("y", &[Emit::to("second")]),
            ),
            StagePlan::new("see", Declaration::reads(&["first", "second"])).late(),
        ],
        edges: vec![
            EdgePlan::sequential("of x", &["x"], 0),
            EdgePlan::sequential("of y", &["y"], 2),
            EdgePlan::transactional("rival", &["first"], 0, 0),
        ],
        script,
        rules: Rules::default(),
    }
}

const FORK_IS_SEEN: [Phase; 5] = [
    Phase::Send("of y", 1),
    Phase::Settle,
    Phase::Start("see"),
    Phase::ReadOnly("see", "second"),
    Phase::Random(30),
];

fn own_sends_across_a_restart(chance: &mut Chance) -> Plan {
    let mut script = vec![
        Phase::Send("of x", chance.between(1, 4) as u32),
        Phase::Settle,
        Phase::Crash("fork"),
        Phase::Start("fork"),
    ];
    script.extend(FORK_IS_SEEN);
    fork(script)
}

fn own_sends_above_an_open_transaction(chance: &mut Chance) -> Plan {
    let mut script = Vec::new();
    for _ in 0..chance.between(0, 2) {
        script.extend([Phase::Send("of x", 1), Phase::Settle]);
    }
    script.extend([
        // The end of what was sent before would hold back what is to be held back by the send above the open transaction.
        Phase::SweepAll("first"),
        Phase::LeaveOpen("rival", "first"),
        Phase::Send("of x", 1),
        Phase::Settle,
        Phase::Crash("fork"),
        Phase::Start("fork"),
        Phase::Send("of y", 1),
        Phase::Settle,
        Phase::Decide("rival", true),
        Phase::Start("see"),
        Phase::ReadOnly("see", "second"),
        Phase::Random(30),
    ]);
    fork(script)
}

fn dropped_sink(chance: &mut Chance) -> Plan {
    let mut script = vec![
        Phase::Send("of x", chance.between(1, 3) as u32),
        Phase::Settle,
        Phase::Deploy("fork", 1),
    ];
    if chance.percent(50) {
        script.extend([Phase::Crash("fork"), Phase::Start("fork")]);
    }
    script.extend(FORK_IS_SEEN);
    fork(script)
}

fn past_survives(chance: &mut Chance) -> Plan {
    let sends = chance.between(1, 3) as u32;
    Plan {
        topics: topics(&["cause", "word", "prompt", "effect"]),
        stages: vec![
            StagePlan::new(
                "tell",
                Declaration::default().on("cause", &[Emit::to("word")]),
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
            EdgePlan::sequential("prompter", &["prompt"], 2),
        ],
        script: vec![
            Phase::Send("source", sends),
            Phase::Settle,
            Phase::Crash("act"),
            Phase::Start("act"),
            Phase::Send("prompter", 1),
            Phase::Settle,
            Phase::Start("see"),
            Phase::ReadOnly("see", "effect"),
            Phase::Random(30),
        ],
        rules: Rules::default(),
    }
}

/// One cause: a second one of the same client would name the first, and the stage would be told of that.
fn delivered_survive(chance: &mut Chance) -> Plan {
    let rest = chance.between(15, 35) as u32;
    Plan {
        topics: topics(&["cause", "prompt", "effect"]),
        stages: vec![
            StagePlan::new(
                "act",
                Declaration::default()
                    .on("cause", &[])
                    .on("prompt", &[Emit::to("effect")]),
            ),
            StagePlan::new("see", Declaration::reads(&["cause", "effect"])).late(),
        ],
        edges: vec![
            EdgePlan::sequential("source", &["cause"], 2),
            EdgePlan::sequential("prompter", &["prompt"], 2),
        ],
        script: vec![
            Phase::Send("source", 1),
            Phase::Settle,
            Phase::Crash("act"),
            Phase::Start("act"),
            Phase::Send("prompter", 1),
            Phase::ReadOnly("act", "prompt"),
            Phase::Start("see"),
            Phase::ReadOnly("see", "effect"),
            Phase::Random(rest),
        ],
        rules: Rules::default(),
    }
}
