//! Retention and deletion: what was lost is told, what is gone blocks nobody, and claims go only when nobody can miss them.

use super::reached::{
    ALWAYS_ANSWERED, ALWAYS_DELETED, ALWAYS_HELD, ALWAYS_HOLDING, ALWAYS_REFUSED, ALWAYS_SWEPT,
    ALWAYS_TRUNCATED,
};
use crate::chance::Chance;
use crate::plan::{
    Acks, Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, TopicName, topics,
};
use crate::scenario::{Floor, Scenario};

/// On every seed: the script leaves nothing to chance.
const ALWAYS: u32 = 100;

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "p5-first-start-then-retention",
        about: "a task starts at 0, is fed nothing and crashes, and retention takes what it has not read (P5)",
        plan: first_start_then_retention,
        floors: &[ALWAYS_REFUSED, ALWAYS_SWEPT],
    },
    Scenario {
        name: "p7-joiner-after-retention",
        about: "a joiner starts behind a record that retention took and that a later one names by sequence (P7)",
        plan: joiner_after_retention,
        floors: &[ALWAYS_HELD, ALWAYS_SWEPT, ALWAYS_ANSWERED],
    },
    Scenario {
        name: "p8-sequence-claim-on-a-deleted-input",
        about: "a record names another by sequence on an input that was deleted (P8)",
        plan: sequence_claim_on_a_deleted_input,
        floors: &[ALWAYS_HELD, ALWAYS_DELETED],
    },
    Scenario {
        name: "p10-truncation-against-a-holder",
        about: "retention passes a held record, and a stage elsewhere drops its claims on that record (P10)",
        plan: truncation_against_a_holder,
        floors: &[ALWAYS_REFUSED, ALWAYS_SWEPT, ALWAYS_TRUNCATED],
    },
    Scenario {
        name: "p10-delay-before-a-truncation",
        about: "a stage learns that retention passed what another one holds, and all that this waits for: only the delay keeps it from sending too soon without the claims (P10)",
        plan: delay_before_a_truncation,
        floors: &[ALWAYS_REFUSED, ALWAYS_SWEPT, ALWAYS_TRUNCATED],
    },
    Scenario {
        name: "p11-deleted-while-held",
        about: "a topic is deleted while a record of it is held (P11)",
        plan: deleted_while_held,
        floors: &[ALWAYS_REFUSED, ALWAYS_HOLDING, ALWAYS_DELETED],
    },
    Scenario {
        name: "p14-deleted-while-running",
        about: "a topic is deleted of which a record was not read yet, and a record of another topic claims it (P14)",
        plan: deleted_while_running,
        floors: &[ALWAYS_HELD, ALWAYS_DELETED],
    },
    Scenario {
        name: "b14-a-deletion-narrows-stamps",
        about: "a channel dies with nothing held anywhere: stamps get narrower, and nobody is refused (B14)",
        plan: deletion_narrows_stamps,
        floors: &[ALWAYS_DELETED, ALWAYS_TRUNCATED],
    },
    Scenario {
        name: "b27-truncation-at-the-position",
        about: "retention takes all that a task has read and nothing more (B27)",
        plan: truncation_at_the_position,
        floors: &[
            Floor::on("a sweep to just a position", ALWAYS, |counts| {
                counts.sweeps_to_a_position > 0
            }),
            Floor::on("a crash", ALWAYS, |counts| counts.crashes > 0),
        ],
    },
    Scenario {
        name: "b27-truncation-past-the-position",
        about: "retention takes one record that a task has not read (B27)",
        plan: truncation_past_the_position,
        floors: &[
            ALWAYS_REFUSED,
            Floor::on("a sweep to one past a position", ALWAYS, |counts| {
                counts.sweeps_past_a_position > 0
            }),
        ],
    },
];

fn first_start_then_retention(chance: &mut Chance) -> Plan {
    let mut script = vec![
        Phase::Crash("n"),
        Phase::Send("e", chance.between(10, 14) as u32),
        Phase::SweepBelow("x", 10),
    ];
    if chance.percent(50) {
        script.insert(0, Phase::Send("f", 2));
    }
    Plan {
        topics: topics(&["x", "y"]),
        stages: vec![StagePlan::new("n", Declaration::reads(&["x", "y"]))],
        edges: vec![
            EdgePlan::sequential("e", &["x"], 0),
            EdgePlan::sequential("f", &["y"], 0),
        ],
        script,
        rules: Rules::until_refused("n", "vc-positions-lost"),
    }
}

/// Sends to c and to d for each record, and names its sends by sequence.
fn alice() -> StagePlan {
    StagePlan::new(
        "alice",
        Declaration::default().on("in", &[Emit::to("c"), Emit::to("d")]),
    )
}

fn joiner_after_retention(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["in", "c", "d"]),
        stages: vec![
            alice(),
            StagePlan::new("n", Declaration::reads(&["c", "d"])).late(),
        ],
        edges: vec![EdgePlan::sequential("e", &["in"], 3)],
        script: vec![
            Phase::Send("e", chance.between(1, 3) as u32),
            Phase::Settle,
            Phase::SweepAll("c"),
            Phase::Start("n"),
            Phase::ReadOnly("n", "d"),
            Phase::Random(20),
        ],
        rules: Rules {
            acks: Acks::WithoutOffsets,
            ..Rules::default()
        },
    }
}

fn sequence_claim_on_a_deleted_input(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["in", "c", "d"]),
        stages: vec![
            alice(),
            StagePlan::new("n", Declaration::reads(&["c", "d"])),
        ],
        edges: vec![EdgePlan::sequential("e", &["in"], 0)],
        script: vec![
            Phase::Send("e", chance.between(1, 3) as u32),
            Phase::ReadOnly("alice", "in"),
            Phase::ReadOnly("n", "d"),
            Phase::Stop("alice"),
            Phase::Delete("c"),
            Phase::Check("n"),
        ],
        rules: Rules {
            evidence: false,
            acks: Acks::WithoutOffsets,
            ..Rules::default()
        },
    }
}

/// `relay` hands the claim on c to `quiet`, which does not read c, so that its stamps carry nothing of c but that claim. What `n`
/// holds of c waits for `z`, which it has not read.
fn around_a_holder(read: u32) -> (Vec<StagePlan>, Vec<EdgePlan>, Vec<Phase>) {
    let stages = vec![
        StagePlan::new("relay", Declaration::default().on("c", &[Emit::to("m")])),
        StagePlan::new(
            "quiet",
            Declaration::default()
                .on("m", &[])
                .on("a", &[Emit::to("y")]),
        ),
        StagePlan::new("n", Declaration::reads(&["c", "y", "z"])),
    ];
    let edges = vec![
        EdgePlan::sequential("first", &["c"], 0),
        EdgePlan::sequential("e", &["z", "c"], 0),
        EdgePlan::sequential("f", &["a"], 0),
    ];
    let script = vec![
        Phase::Send("first", read),
        Phase::ReadOnly("n", "c"),
        Phase::Send("e", 2),
        Phase::ReadOnly("n", "c"),
        Phase::ReadOnly("relay", "c"),
        Phase::ReadOnly("quiet", "m"),
        Phase::Check("n"),
    ];
    (stages, edges, script)
}

const AROUND_A_HOLDER: &[TopicName] = &["c", "m", "a", "y", "z"];

fn truncation_against_a_holder(chance: &mut Chance) -> Plan {
    truncation_after(chance, &[Phase::SweepAll("c")])
}

/// Without claims on `z` either, nothing but the claim on what it holds makes `n` wait with what `quiet` sends.
fn delay_before_a_truncation(chance: &mut Chance) -> Plan {
    truncation_after(chance, &[Phase::SweepAll("c"), Phase::SweepAll("z")])
}

fn truncation_after(chance: &mut Chance, sweeps: &[Phase]) -> Plan {
    let (stages, edges, mut script) = around_a_holder(chance.between(1, 5) as u32);
    script.extend_from_slice(sweeps);
    script.extend([
        Phase::Check("quiet"),
        // With the claim, as the log start was learned just now.
        Phase::SendTo("f", "a"),
        Phase::ReadOnly("quiet", "a"),
        Phase::ReadOnly("n", "y"),
        Phase::Age,
        Phase::Check("quiet"),
        // Without the claim: n has to check before it reads that.
        Phase::SendTo("f", "a"),
        Phase::ReadOnly("quiet", "a"),
        Phase::ReadOnly("n", "y"),
    ]);
    Plan {
        topics: topics(AROUND_A_HOLDER),
        stages,
        edges,
        script,
        rules: Rules {
            truncation: true,
            ..Rules::until_refused("n", "vc-positions-lost")
        },
    }
}

fn deleted_while_held(chance: &mut Chance) -> Plan {
    let (stages, edges, mut script) = around_a_holder(chance.between(1, 5) as u32);
    script.extend([
        Phase::Stop("relay"),
        Phase::Delete("c"),
        Phase::Check("quiet"),
        Phase::SendTo("f", "a"),
        Phase::ReadOnly("quiet", "a"),
        if chance.percent(50) {
            Phase::Check("n")
        } else {
            // The check comes before anything that follows is read.
            Phase::Age
        },
    ]);
    Plan {
        topics: topics(AROUND_A_HOLDER),
        stages,
        edges,
        script,
        rules: Rules {
            truncation: true,
            ..Rules::until_refused("n", "vc-deleted-input-held")
        },
    }
}

fn deleted_while_running(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["c", "d"]),
        stages: vec![StagePlan::new("n", Declaration::reads(&["c", "d"]))],
        edges: vec![
            EdgePlan::sequential("first", &["c"], 0),
            EdgePlan::sequential("e", &["c", "d"], 0),
        ],
        script: vec![
            Phase::Send("first", chance.between(1, 4) as u32),
            Phase::ReadOnly("n", "c"),
            Phase::Send("e", 2),
            Phase::Delete("c"),
            Phase::ReadOnly("n", "d"),
            Phase::Check("n"),
        ],
        rules: Rules::default(),
    }
}

fn deletion_narrows_stamps(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["c", "m", "a", "y"]),
        stages: vec![
            StagePlan::new("relay", Declaration::default().on("c", &[Emit::to("m")])),
            StagePlan::new(
                "quiet",
                Declaration::default()
                    .on("m", &[])
                    .on("a", &[Emit::to("y")]),
            ),
            StagePlan::new("n", Declaration::reads(&["y", "c"])),
        ],
        edges: vec![
            EdgePlan::sequential("e", &["c"], 0),
            EdgePlan::sequential("f", &["a"], 2),
        ],
        script: vec![
            Phase::Send("e", chance.between(1, 3) as u32),
            Phase::Settle,
            Phase::Stop("relay"),
            Phase::Delete("c"),
            Phase::Check("quiet"),
            Phase::Age,
            Phase::Check("quiet"),
            Phase::SendTo("f", "a"),
            Phase::Random(20),
        ],
        rules: Rules {
            truncation: true,
            ..Rules::default()
        },
    }
}

fn truncation_at_the_position(chance: &mut Chance) -> Plan {
    let read = chance.between(2, 6);
    Plan {
        topics: topics(&["x", "y"]),
        stages: vec![StagePlan::new("n", Declaration::reads(&["x", "y"]))],
        edges: vec![
            EdgePlan::sequential("e", &["x"], 0),
            EdgePlan::sequential("f", &["y", "x"], 4),
        ],
        script: vec![
            Phase::Send("e", read as u32),
            Phase::ReadOnly("n", "x"),
            Phase::SweepBelow("x", read as i64),
            Phase::Crash("n"),
            Phase::Start("n"),
            Phase::Random(20),
        ],
        rules: Rules::default(),
    }
}

fn truncation_past_the_position(chance: &mut Chance) -> Plan {
    let read = chance.between(2, 6);
    let mut script = vec![
        Phase::Send("e", read as u32),
        Phase::ReadOnly("n", "x"),
        Phase::Send("e", 2),
    ];
    // Found by a start, by a check, or by the log's answer to the next read.
    script.extend(match chance.below(3) {
        0 => [
            Phase::Crash("n"),
            Phase::SweepBelow("x", read as i64 + 1),
            Phase::Start("n"),
        ],
        1 => [
            Phase::SweepBelow("x", read as i64 + 1),
            Phase::Check("n"),
            Phase::ReadOnly("n", "x"),
        ],
        _ => [
            Phase::SweepBelow("x", read as i64 + 1),
            Phase::ReadOnly("n", "x"),
            Phase::Check("n"),
        ],
    });
    Plan {
        topics: topics(&["x"]),
        stages: vec![StagePlan::new("n", Declaration::reads(&["x"]))],
        edges: vec![EdgePlan::sequential("e", &["x"], 0)],
        script,
        rules: Rules::until_refused("n", "vc-positions-lost"),
    }
}
