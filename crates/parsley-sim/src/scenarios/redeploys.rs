//! Declarations that change, and what a node has delivered before: records are skipped at most, never delivered again.

use super::reached::{
    ALWAYS_BY_SEQUENCE, ALWAYS_DEPLOYED, ALWAYS_HELD, ALWAYS_REFUSED, ALWAYS_SEEDED, ALWAYS_SWEPT,
};
use crate::chance::Chance;
use crate::plan::{Acks, Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, topics};
use crate::scenario::Scenario;

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "p2-joined-behind-a-sequence-claim",
        about: "a channel joins of which the delivered past names a record by sequence alone (P2)",
        plan: joined_behind_a_sequence,
        floors: &[ALWAYS_SEEDED, ALWAYS_BY_SEQUENCE],
    },
    Scenario {
        name: "p3-removed-while-waited-for",
        about: "a channel is removed while a record waits for it, and comes back when that record was delivered (P3)",
        plan: removed_while_waited_for,
        floors: &[ALWAYS_SEEDED, ALWAYS_HELD],
    },
    Scenario {
        name: "p4-sink-comes-back-as-an-input",
        about: "a sink is dropped by one redeploy and is an input in the next (P4)",
        plan: sink_comes_back,
        floors: &[ALWAYS_SEEDED],
    },
    Scenario {
        name: "causes-that-came-through-a-removed-input",
        about: "what the records of an input since removed claimed is claimed still, though nobody downstream reads that input",
        plan: causes_through_a_removed_input,
        floors: &[ALWAYS_DEPLOYED, ALWAYS_HELD],
    },
    Scenario {
        name: "p6-removed-and-added-again",
        about: "a channel is removed with its marks and comes back, and a record names one of before by sequence (P6)",
        plan: removed_and_added_again,
        floors: &[ALWAYS_SEEDED],
    },
    Scenario {
        name: "p12-joined-above-its-claims",
        about: "retention has passed what is carried of a channel that joins (P12)",
        plan: joined_above_its_claims,
        floors: &[ALWAYS_SEEDED, ALWAYS_SWEPT],
    },
    Scenario {
        name: "g8-removed-input-holds",
        about: "an input is removed of which records are held",
        plan: removed_input_holds,
        floors: &[ALWAYS_REFUSED],
    },
    Scenario {
        name: "g6-dropped-sink-unresolved",
        about: "a redeploy drops a sink that exists and does not resolve: what was sent there cannot be carried on",
        plan: dropped_sink_unresolved,
        floors: &[ALWAYS_REFUSED],
    },
    Scenario {
        name: "g6-sink-deleted-while-stopped",
        about: "a task starts when one of its sinks was deleted",
        plan: |chance| missing_sink(chance, false),
        floors: &[ALWAYS_REFUSED],
    },
    Scenario {
        name: "g6-sink-deleted-while-running",
        about: "a sink is deleted while its task runs and sends to it",
        plan: |chance| missing_sink(chance, true),
        floors: &[ALWAYS_REFUSED],
    },
];

fn joined_behind_a_sequence(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["in", "c", "d"]),
        stages: vec![
            StagePlan::new(
                "alice",
                Declaration::default().on("in", &[Emit::to("c"), Emit::to("d")]),
            ),
            StagePlan::new("n", Declaration::reads(&["d"])).then(Declaration::reads(&["c", "d"])),
        ],
        edges: vec![EdgePlan::sequential("e", &["in"], 3)],
        script: vec![
            Phase::Send("e", chance.between(1, 3) as u32),
            Phase::Settle,
            Phase::Deploy("n", 1),
            Phase::Random(30),
        ],
        rules: Rules {
            // Evidence would tell n the offsets.
            evidence: false,
            acks: Acks::WithoutOffsets,
            ..Rules::default()
        },
    }
}

fn removed_while_waited_for(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["c", "y"]),
        stages: vec![
            StagePlan::new("n", Declaration::reads(&["c", "y"]))
                .then(Declaration::reads(&["y"]))
                .then(Declaration::reads(&["c", "y"])),
        ],
        edges: vec![
            EdgePlan::sequential("e", &["c", "y"], 4),
            EdgePlan::sequential("f", &["c"], 3),
        ],
        script: vec![
            Phase::Send("e", 2 * chance.between(1, 2) as u32),
            Phase::ReadOnly("n", "y"),
            Phase::Deploy("n", 1),
            Phase::Settle,
            Phase::Deploy("n", 2),
            Phase::Random(30),
        ],
        rules: Rules::default(),
    }
}

/// What n sent comes back to it through an edge client, so it belongs to its past when the sink becomes an input.
fn sink_comes_back(chance: &mut Chance) -> Plan {
    let mut script = vec![
        Phase::Send("e", chance.between(1, 3) as u32),
        Phase::Settle,
        Phase::Read("clerk"),
        Phase::SendTo("clerk", "a"),
        Phase::Settle,
    ];
    if chance.percent(50) {
        // Some that nobody has seen: they may be skipped.
        script.push(Phase::SendTo("f", "s"));
    }
    script.extend([
        Phase::Deploy("n", 1),
        Phase::Deploy("n", 2),
        Phase::SendTo("f", "s"),
        Phase::Random(20),
    ]);
    Plan {
        topics: topics(&["a", "s"]),
        stages: vec![
            StagePlan::new("n", Declaration::default().on("a", &[Emit::to("s")]))
                .then(Declaration::reads(&["a"]))
                .then(Declaration::reads(&["a", "s"])),
        ],
        edges: vec![
            EdgePlan::sequential("e", &["a"], 0),
            EdgePlan::observer("clerk", &["s"], &["a"], 1),
            EdgePlan::sequential("f", &["s"], 2),
        ],
        script,
        rules: Rules::default(),
    }
}

/// n knows of a through b alone, and loses b before it sends; see reads a and what n sent, that first.
fn causes_through_a_removed_input(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["a", "b", "d", "out"]),
        stages: vec![
            StagePlan::new("relay", Declaration::default().on("a", &[Emit::to("b")])),
            StagePlan::new(
                "n",
                Declaration::default()
                    .on("b", &[])
                    .on("d", &[Emit::to("out")]),
            )
            .then(Declaration::default().on("d", &[Emit::to("out")])),
            StagePlan::new("see", Declaration::reads(&["a", "out"])).late(),
        ],
        edges: vec![
            EdgePlan::sequential("e", &["a"], 1),
            EdgePlan::sequential("f", &["d"], 1),
        ],
        script: vec![
            Phase::Send("e", chance.between(1, 3) as u32),
            Phase::Settle,
            Phase::Deploy("n", 1),
            Phase::Send("f", 1),
            Phase::Settle,
            Phase::Start("see"),
            Phase::ReadOnly("see", "out"),
            Phase::Random(20),
        ],
        rules: Rules::default(),
    }
}

fn removed_and_added_again(chance: &mut Chance) -> Plan {
    let again = chance.between(1, 2) as u32;
    Plan {
        topics: topics(&["in", "only-d", "c", "d"]),
        stages: vec![
            StagePlan::new(
                "alice",
                Declaration::default()
                    .on("in", &[Emit::to("c"), Emit::to("d")])
                    .on("only-d", &[Emit::to("d")]),
            ),
            StagePlan::new("n", Declaration::reads(&["c", "d"]))
                .then(Declaration::reads(&["d"]))
                .then(Declaration::reads(&["c", "d"])),
        ],
        edges: vec![
            EdgePlan::sequential("e", &["in"], 2),
            EdgePlan::sequential("f", &["only-d"], 1),
        ],
        script: vec![
            Phase::Send("e", 1),
            Phase::Settle,
            Phase::Deploy("n", 1),
            Phase::Send("e", again),
            Phase::Settle,
            Phase::Deploy("n", 2),
            // It names alice's last record on c, by sequence.
            Phase::Send("f", 1),
            Phase::Settle,
            Phase::Random(20),
        ],
        rules: Rules {
            evidence: false,
            acks: Acks::WithoutOffsets,
            ..Rules::default()
        },
    }
}

fn joined_above_its_claims(chance: &mut Chance) -> Plan {
    let lost = chance.between(1, 4);
    Plan {
        topics: topics(&["c", "y"]),
        stages: vec![
            StagePlan::new("n", Declaration::reads(&["c", "y"]))
                .then(Declaration::reads(&["y"]))
                .then(Declaration::reads(&["c", "y"])),
        ],
        edges: vec![
            EdgePlan::sequential("e", &["c"], 3),
            EdgePlan::sequential("f", &["y"], 2),
        ],
        script: vec![
            Phase::Send("e", 6),
            Phase::Settle,
            Phase::Deploy("n", 1),
            Phase::Send("e", lost as u32 + 2),
            Phase::SweepBelow("c", 6 + lost as i64),
            Phase::Deploy("n", 2),
            Phase::Random(30),
        ],
        rules: Rules::default(),
    }
}

fn removed_input_holds(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["c", "y"]),
        stages: vec![
            StagePlan::new("n", Declaration::reads(&["c", "y"])).then(Declaration::reads(&["c"])),
        ],
        edges: vec![EdgePlan::sequential("e", &["c", "y"], 2)],
        script: vec![
            Phase::Send("e", 2 * chance.between(1, 3) as u32),
            Phase::ReadOnly("n", "y"),
            Phase::Deploy("n", 1),
            Phase::Random(10),
        ],
        rules: Rules::until_refused("n", "vc-removed-input-held"),
    }
}

fn dropped_sink_unresolved(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["a", "s", "t"]),
        stages: vec![
            StagePlan::new("n", Declaration::default().on("a", &[Emit::to("s")]))
                .then(Declaration::default().on("a", &[Emit::to("t")])),
            StagePlan::new("see", Declaration::reads(&["s", "t"])),
        ],
        edges: vec![EdgePlan::sequential("e", &["a"], 1)],
        script: vec![
            Phase::Send("e", chance.between(1, 3) as u32),
            Phase::Settle,
            Phase::Hide("s"),
            Phase::Deploy("n", 1),
            Phase::Random(10),
        ],
        rules: Rules::until_refused("n", "vc-missing-sink"),
    }
}

fn missing_sink(chance: &mut Chance, running: bool) -> Plan {
    let mut script = vec![Phase::Send("e", chance.between(1, 3) as u32), Phase::Settle];
    if running {
        // What cannot be appended fails the step; the start that follows finds out why.
        script.extend([
            Phase::Delete("s"),
            Phase::Send("e", 1),
            Phase::ReadOnly("n", "a"),
        ]);
    } else {
        script.extend([Phase::Stop("n"), Phase::Delete("s")]);
    }
    script.push(Phase::Start("n"));
    Plan {
        topics: topics(&["a", "s"]),
        stages: vec![StagePlan::new(
            "n",
            Declaration::default().on("a", &[Emit::to("s")]),
        )],
        edges: vec![EdgePlan::sequential("e", &["a"], 0)],
        script,
        rules: Rules::until_refused("n", "vc-missing-sink"),
    }
}
