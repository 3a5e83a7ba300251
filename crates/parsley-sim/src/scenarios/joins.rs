//! Sequence claims that no delivery can meet, and the watermarks that meet them instead.

use super::reached::{
    ALWAYS_BY_SEQUENCE, ALWAYS_HELD, ALWAYS_HOLDING, BY_SEQUENCE, HELD, RESTORED_HOLDS,
};
use crate::chance::Chance;
use crate::plan::{Acks, Declaration, EdgePlan, Emit, End, Phase, Plan, Rules, StagePlan, topics};
use crate::scenario::{Floor, Scenario};

/// An answer about watermarks was handed in, on every seed: the script asks.
const ALWAYS_ASKED: Floor = Floor::on("watermarks were handed in", 100, |counts| {
    counts.evidence > 0
});

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "late-joiner-wedge",
        about: "without watermarks, what names a retired send by its sequence is held for ever, and nothing else is",
        plan: late_joiner_wedge,
        floors: &[ALWAYS_HOLDING, ALWAYS_BY_SEQUENCE],
    },
    Scenario {
        name: "late-joiner-evidence",
        about: "a watermark releases what names a retired send by its sequence",
        plan: late_joiner_evidence,
        floors: &[ALWAYS_HELD, ALWAYS_BY_SEQUENCE, ALWAYS_ASKED],
    },
    Scenario {
        name: "evidence-covers-a-later-record",
        about: "the watermark that releases a record also covers one that waits for it",
        plan: evidence_covers_a_later_record,
        floors: &[ALWAYS_HELD, ALWAYS_BY_SEQUENCE, ALWAYS_ASKED],
    },
    Scenario {
        name: "evidence-older-than-its-record",
        about: "a watermark that was asked for before a record came says nothing about it",
        plan: evidence_older_than_its_record,
        floors: &[ALWAYS_HELD, ALWAYS_BY_SEQUENCE, ALWAYS_ASKED],
    },
    Scenario {
        name: "evidence-over-a-held-record",
        about: "a watermark does not release what waits for a record that is held here",
        plan: evidence_over_a_held_record,
        floors: &[ALWAYS_HELD, ALWAYS_BY_SEQUENCE, ALWAYS_ASKED],
    },
    Scenario {
        name: "evidence-before-the-marker",
        about: "watermarks are asked for while a committed record's marker has not reached its log",
        plan: evidence_before_the_marker,
        floors: &[ALWAYS_HELD, ALWAYS_BY_SEQUENCE, ALWAYS_ASKED],
    },
    Scenario {
        name: "evidence-older-than-custody",
        about: "a watermark turns no claim in custody into an offset that was taken in after the mark",
        plan: evidence_older_than_custody,
        floors: &[ALWAYS_HELD, ALWAYS_BY_SEQUENCE, ALWAYS_ASKED],
    },
    Scenario {
        name: "evidence-older-than-own-sends",
        about: "a watermark says nothing about the stage's own sends since the mark",
        plan: evidence_older_than_own_sends,
        floors: &[ALWAYS_HELD, ALWAYS_BY_SEQUENCE, ALWAYS_ASKED],
    },
    Scenario {
        name: "evidence-under-crashes",
        about: "watermarks are asked for and answered while tasks crash and records come",
        plan: evidence_under_crashes,
        floors: &[
            HELD,
            RESTORED_HOLDS,
            ALWAYS_BY_SEQUENCE,
            Floor::new("watermarks were handed in", |counts| counts.evidence > 0),
        ],
    },
    Scenario {
        name: "claims-on-the-own-channel",
        about: "what names a retired send on its own channel waits for nothing",
        plan: claims_on_the_own_channel,
        floors: &[ALWAYS_BY_SEQUENCE],
    },
    Scenario {
        name: "delivered-marks-across-a-restart",
        about: "after a restart it is still known which sends were delivered",
        plan: delivered_marks_across_a_restart,
        floors: &[ALWAYS_BY_SEQUENCE],
    },
    Scenario {
        name: "latest-consumers",
        about: "consumers that begin at the end of their topics, above what the records to come name",
        plan: latest_consumers,
        floors: &[HELD, BY_SEQUENCE],
    },
];

/// `fork` sends each record of `in` to `first` and then to `second`; `see` reads both, later.
fn fork(script: Vec<Phase>, rules: Rules) -> Plan {
    Plan {
        topics: topics(&["in", "first", "second"]),
        stages: vec![
            StagePlan::new(
                "fork",
                Declaration::default().on("in", &[Emit::to("first"), Emit::to("second")]),
            ),
            StagePlan::new("see", Declaration::reads(&["first", "second"])).late(),
        ],
        edges: vec![
            EdgePlan::sequential("source", &["in"], 0),
            EdgePlan::observer("reader", &["second"], &["first"], 0),
        ],
        script,
        rules: Rules {
            acks: Acks::WithoutOffsets,
            ..rules
        },
    }
}

fn without_evidence() -> Rules {
    Rules {
        evidence: false,
        ..Rules::default()
    }
}

fn late_joiner(chance: &mut Chance, rules: Rules) -> Plan {
    let sends = chance.between(1, 3) as u32;
    let mut script = vec![
        Phase::Send("source", sends),
        Phase::Settle,
        Phase::SweepAll("first"),
        Phase::Start("see"),
    ];
    if chance.percent(50) {
        script.push(Phase::ReadOnly("see", "second"));
    }
    script.push(Phase::Random(20));
    fork(script, rules)
}

fn late_joiner_wedge(chance: &mut Chance) -> Plan {
    let rules = Rules {
        end: End::Wedged {
            stage: "see",
            on: "first",
        },
        ..without_evidence()
    };
    late_joiner(chance, rules)
}

fn late_joiner_evidence(chance: &mut Chance) -> Plan {
    late_joiner(chance, Rules::default())
}

/// The first send is retired, so only a watermark releases what names it; that watermark lies above a client's record on the same topic
/// that follows from what waits.
fn evidence_covers_a_later_record(chance: &mut Chance) -> Plan {
    let sends = chance.between(1, 3) as u32;
    fork(
        vec![
            Phase::Send("source", sends),
            Phase::Settle,
            Phase::SweepAll("first"),
            Phase::Read("reader"),
            Phase::SendTo("reader", "first"),
            Phase::Start("see"),
            Phase::Random(25),
        ],
        Rules::default(),
    )
}

/// First a record comes between the mark and the question, then one between the answer and its handing in; of each the half that waits
/// for the other half.
fn evidence_older_than_its_record(chance: &mut Chance) -> Plan {
    let before = chance.between(1, 2) as u32;
    fork(
        vec![
            Phase::Start("see"),
            Phase::Send("source", before),
            Phase::Settle,
            Phase::EvidenceMove("see"),
            Phase::Send("source", 1),
            Phase::ReadOnly("fork", "in"),
            Phase::ReadOnly("see", "second"),
            Phase::EvidenceMove("see"),
            Phase::EvidenceMove("see"),
            Phase::ReadOnly("see", "first"),
            Phase::EvidenceMove("see"),
            Phase::EvidenceMove("see"),
            Phase::Send("source", 1),
            Phase::ReadOnly("fork", "in"),
            Phase::ReadOnly("see", "second"),
            Phase::EvidenceMove("see"),
            Phase::Random(25),
        ],
        Rules::default(),
    )
}

/// In front of the first send stands a client's record that waits for `far`.
fn evidence_over_a_held_record(chance: &mut Chance) -> Plan {
    let before = chance.between(0, 2) as u32;
    let mut plan = fork(
        vec![
            Phase::Start("see"),
            Phase::Send("source", before),
            Phase::Settle,
            Phase::SendTo("client", "far"),
            Phase::SendTo("client", "first"),
            Phase::Send("source", 1),
            Phase::ReadOnly("fork", "in"),
            Phase::ReadOnly("see", "first"),
            Phase::ReadOnly("see", "second"),
            Phase::Evidence("see"),
            Phase::Random(25),
        ],
        Rules::default(),
    );
    plan.topics.extend(topics(&["far"]));
    plan.stages[1].declarations = vec![Declaration::reads(&["first", "second", "far"])];
    plan.edges
        .push(EdgePlan::sequential("client", &["far", "first"], 0));
    plan
}

/// The marker of `second` is written, that of `first` is not: `see` can read the one half of the pair alone.
fn evidence_before_the_marker(chance: &mut Chance) -> Plan {
    let before = chance.between(1, 2) as u32;
    fork(
        vec![
            Phase::Start("see"),
            Phase::Send("source", before),
            Phase::Settle,
            Phase::StallMarkers("first"),
            Phase::Send("source", 1),
            Phase::ReadOnly("fork", "in"),
            Phase::ReadOnly("see", "second"),
            Phase::Evidence("see"),
            Phase::ResumeMarkers("first"),
            Phase::Random(25),
        ],
        Rules::default(),
    )
}

/// `relay` asks about `first` when it knows of one send there, of the same stage as the next one or of another, and is answered when it
/// knows of the next one too. What it sends then has to name that one.
fn evidence_older_than_custody(chance: &mut Chance) -> Plan {
    let earlier = if chance.percent(50) {
        ("source", "fork", "in")
    } else {
        ("other source", "other", "more")
    };
    let forks = |name, on| {
        StagePlan::new(
            name,
            Declaration::default().on(on, &[Emit::to("first"), Emit::to("second")]),
        )
    };
    Plan {
        topics: topics(&["in", "more", "first", "second", "prompt", "out"]),
        stages: vec![
            forks("fork", "in"),
            forks("other", "more"),
            StagePlan::new(
                "relay",
                Declaration::default()
                    .on("second", &[])
                    .on("prompt", &[Emit::to("out")]),
            ),
            StagePlan::new("see", Declaration::reads(&["first", "out"])),
        ],
        edges: vec![
            EdgePlan::sequential("source", &["in"], 2),
            EdgePlan::sequential("other source", &["more"], 2),
            EdgePlan::sequential("prompter", &["prompt"], 1),
        ],
        script: vec![
            Phase::Send(earlier.0, 1),
            Phase::ReadOnly(earlier.1, earlier.2),
            Phase::ReadOnly("relay", "second"),
            Phase::ReadOnly("see", "first"),
            Phase::EvidenceMove("relay"),
            Phase::EvidenceMove("relay"),
            Phase::Send("source", 1),
            Phase::ReadOnly("fork", "in"),
            Phase::ReadOnly("relay", "second"),
            Phase::EvidenceMove("relay"),
            Phase::Send("prompter", 1),
            Phase::ReadOnly("relay", "prompt"),
            Phase::ReadOnly("see", "out"),
            Phase::Random(40),
        ],
        rules: Rules {
            acks: Acks::WithoutOffsets,
            ..Rules::default()
        },
    }
}

/// `act` asks about `first` between two sends to it, and is answered after the second.
fn evidence_older_than_own_sends(chance: &mut Chance) -> Plan {
    let earlier = chance.between(1, 3) as u32;
    Plan {
        topics: topics(&["x", "y", "first", "second"]),
        stages: vec![
            StagePlan::new(
                "act",
                Declaration::default()
                    .on("x", &[Emit::to("first")])
                    .on("y", &[Emit::to("second")]),
            ),
            StagePlan::new("see", Declaration::reads(&["first", "second"])),
        ],
        edges: vec![
            EdgePlan::sequential("of x", &["x"], 2),
            EdgePlan::sequential("of y", &["y"], 2),
        ],
        script: vec![
            Phase::Send("of x", earlier),
            Phase::ReadOnly("act", "x"),
            Phase::ReadOnly("see", "first"),
            Phase::EvidenceMove("act"),
            Phase::EvidenceMove("act"),
            Phase::Send("of x", 1),
            Phase::ReadOnly("act", "x"),
            Phase::EvidenceMove("act"),
            Phase::Send("of y", 1),
            Phase::ReadOnly("act", "y"),
            Phase::ReadOnly("see", "second"),
            Phase::Random(40),
        ],
        rules: Rules {
            acks: Acks::WithoutOffsets,
            ..Rules::default()
        },
    }
}

fn evidence_under_crashes(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["in", "first", "second", "third"]),
        stages: vec![
            StagePlan::new(
                "fork",
                Declaration::default().on("in", &[Emit::to("first"), Emit::to("second")]),
            ),
            StagePlan::new(
                "relay",
                Declaration::default().on("second", &[Emit::to("third"), Emit::to("first")]),
            ),
            StagePlan::new("see", Declaration::reads(&["first", "third"])).late(),
        ],
        edges: vec![EdgePlan::sequential(
            "source",
            &["in"],
            chance.between(5, 8) as u32,
        )],
        script: vec![
            Phase::Send("source", 1),
            Phase::Settle,
            // Whoever starts now is never fed what the next records name.
            Phase::SweepAll("first"),
            Phase::Start("see"),
            Phase::Random(130),
        ],
        rules: Rules {
            crashes: 4,
            acks: Acks::WithoutOffsets,
            ..Rules::default()
        },
    }
}

fn claims_on_the_own_channel(chance: &mut Chance) -> Plan {
    let sends = chance.between(1, 3) as u32;
    let mut plan = fork(
        vec![
            Phase::Send("source", sends),
            Phase::Settle,
            Phase::SweepAll("first"),
            Phase::Send("source", 1),
            Phase::Settle,
            Phase::Start("see"),
            Phase::Random(20),
        ],
        without_evidence(),
    );
    plan.stages[1].declarations = vec![Declaration::reads(&["first"])];
    plan
}

fn delivered_marks_across_a_restart(chance: &mut Chance) -> Plan {
    let sends = chance.between(1, 3) as u32;
    fork(
        vec![
            Phase::Start("see"),
            Phase::Send("source", sends),
            Phase::ReadOnly("fork", "in"),
            Phase::ReadOnly("see", "first"),
            Phase::Crash("see"),
            Phase::Start("see"),
            Phase::ReadOnly("see", "second"),
        ],
        without_evidence(),
    )
}

fn latest_consumers(chance: &mut Chance) -> Plan {
    let before = chance.between(20, 40) as u32;
    Plan {
        topics: topics(&["in", "first", "second"]),
        stages: vec![
            StagePlan::new(
                "fork",
                Declaration::default().on("in", &[Emit::to("first"), Emit::to("second")]),
            ),
            StagePlan::new("see", Declaration::reads(&["in", "first", "second"]))
                .from_the_end()
                .late(),
        ],
        edges: vec![EdgePlan::sequential(
            "source",
            &["in"],
            chance.between(6, 10) as u32,
        )],
        script: vec![
            Phase::Random(before),
            Phase::Start("see"),
            // Where a step is one action, all that was sent before may be through by now.
            Phase::Send("source", 3),
            Phase::Random(60),
        ],
        rules: Rules::default(),
    }
}
