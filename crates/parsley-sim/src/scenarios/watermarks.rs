//! Watermark evidence: what it frees, and that it speaks only for what was known when it was asked for.

use super::reached::{ALWAYS_ANSWERED, ALWAYS_BY_SEQUENCE, ALWAYS_HELD};
use crate::chance::Chance;
use crate::plan::{Acks, Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, topics};
use crate::scenario::Scenario;

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "p13-watermark-over-a-waiting-record",
        about: "a watermark covers a record that itself waits for the one that needs the watermark (P13)",
        plan: watermark_over_a_waiting_record,
        floors: &[ALWAYS_HELD, ALWAYS_ANSWERED, ALWAYS_BY_SEQUENCE],
    },
    Scenario {
        name: "p16-watermarks-asked-for-late",
        about: "a record arrives between the mark and the question (P16)",
        plan: |chance| a_record_in_between(chance, 1),
        floors: &[ALWAYS_HELD, ALWAYS_ANSWERED, ALWAYS_BY_SEQUENCE],
    },
    Scenario {
        name: "p16-watermarks-handed-in-late",
        about: "a record arrives between the question and its answer (P16)",
        plan: |chance| a_record_in_between(chance, 2),
        floors: &[ALWAYS_HELD, ALWAYS_ANSWERED, ALWAYS_BY_SEQUENCE],
    },
];

/// Alice's first record on x is gone, the clerk's record behind it waits for y, and the head of y names alice's.
fn watermark_over_a_waiting_record(chance: &mut Chance) -> Plan {
    let order = if chance.percent(50) {
        ["x", "y"]
    } else {
        ["y", "x"]
    };
    let mut script = vec![
        Phase::Send("e", 1),
        Phase::Settle,
        Phase::Read("clerk"),
        Phase::SendTo("clerk", "x"),
        Phase::SweepBelow("x", 1),
        Phase::Start("n"),
    ];
    script.extend(order.map(|topic| Phase::ReadOnly("n", topic)));
    script.push(Phase::Random(20));
    Plan {
        topics: topics(&["in", "x", "y"]),
        stages: vec![
            StagePlan::new(
                "alice",
                Declaration::default().on("in", &[Emit::to("x"), Emit::to("y")]),
            ),
            StagePlan::new("n", Declaration::reads(&["x", "y"])).late(),
        ],
        edges: vec![
            EdgePlan::sequential("e", &["in"], 2),
            EdgePlan::observer("clerk", &["y"], &["x"], 0),
        ],
        script,
        rules: Rules {
            acks: Acks::WithoutOffsets,
            ..Rules::default()
        },
    }
}

/// After so many of the three moves of a question, alice sends again. `n` is fed only the send that names the other.
fn a_record_in_between(chance: &mut Chance, moves: usize) -> Plan {
    let mut script = vec![
        Phase::Send("e", 1),
        Phase::ReadOnly("alice", "in"),
        Phase::ReadOnly("n", "y"),
    ];
    let asking = |count| vec![Phase::EvidenceMove("n"); count];
    script.extend(asking(moves));
    script.extend([
        Phase::ReadOnly("n", "x"),
        Phase::Send("e", chance.between(1, 2) as u32),
        Phase::ReadOnly("alice", "in"),
        Phase::ReadOnly("n", "y"),
    ]);
    script.extend(asking(3 - moves));
    script.push(Phase::Random(20));
    Plan {
        topics: topics(&["in", "x", "y"]),
        stages: vec![
            StagePlan::new(
                "alice",
                Declaration::default().on("in", &[Emit::to("x"), Emit::to("y")]),
            ),
            StagePlan::new("n", Declaration::reads(&["x", "y"])),
        ],
        edges: vec![EdgePlan::sequential("e", &["in"], 2)],
        script,
        rules: Rules {
            acks: Acks::WithoutOffsets,
            ..Rules::default()
        },
    }
}
