//! Filters: sinks that get little, and logs that end in markers or in what was aborted.

use super::reached::{ADVANCED, ALWAYS_HELD, CRASHED, HELD};
use crate::chance::Chance;
use crate::plan::{Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, topics};
use crate::scenario::{Floor, Scenario};

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "filter-quiet-sinks",
        about: "a filter passes few records on to one sink and none to another, and restarts",
        plan: filter_quiet_sinks,
        floors: &[HELD, CRASHED, ADVANCED],
    },
    Scenario {
        name: "trailing-markers",
        about: "a claim names the marker at the end of a log, and only the consumer's position gets past it",
        plan: trailing_markers,
        floors: &[
            ALWAYS_HELD,
            // Nothing else can pass the marker that the restarted stage claims.
            Floor::on("positions advanced", 100, |counts| {
                counts.position_advances > 0
            }),
        ],
    },
    Scenario {
        name: "trailing-aborts",
        about: "a claim names the end of an aborted run, which no record follows",
        plan: trailing_aborts,
        floors: &[
            ALWAYS_HELD,
            // Nothing else can pass the aborted run that the restarted stage claims.
            Floor::on("positions advanced", 100, |counts| {
                counts.position_advances > 0
            }),
        ],
    },
];

fn filter_quiet_sinks(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["raw", "kept", "alarms", "never"]),
        stages: vec![
            StagePlan::new(
                "filter",
                Declaration::default()
                    .on(
                        "raw",
                        &[Emit::to("alarms").one_in(5), Emit::to("kept").one_in(2)],
                    )
                    .quiet_sink("never"),
            ),
            StagePlan::new(
                "see",
                Declaration::reads(&["kept", "alarms", "never", "raw"]),
            ),
        ],
        edges: vec![
            EdgePlan::sequential("sensor", &["raw"], chance.between(4, 7) as u32),
            EdgePlan::transactional("batch", &["raw"], 3, 60),
        ],
        script: vec![
            Phase::Random(70),
            // From here on its stamps claim the markers at the ends of its sinks.
            Phase::Crash("filter"),
            Phase::Start("filter"),
            Phase::Send("sensor", 2),
            Phase::Random(60),
        ],
        rules: Rules {
            crashes: 3,
            ..Rules::default()
        },
    }
}

/// `fork` sends `x` on to `quiet`, restarts and so claims the end of `quiet`, then sends `y` on to `loud`.
fn restarted_fork(sends: u32, before_the_restart: &[Phase]) -> Plan {
    let mut script = vec![Phase::Send("first", sends), Phase::Settle];
    script.extend_from_slice(before_the_restart);
    script.extend([
        Phase::Crash("fork"),
        Phase::Start("fork"),
        Phase::Send("second", 1),
        Phase::Settle,
        Phase::Start("both"),
        Phase::ReadOnly("both", "loud"),
        Phase::Random(30),
    ]);
    Plan {
        topics: topics(&["x", "y", "quiet", "loud"]),
        stages: vec![
            StagePlan::new(
                "fork",
                Declaration::default()
                    .on("x", &[Emit::to("quiet")])
                    .on("y", &[Emit::to("loud")]),
            ),
            StagePlan::new("both", Declaration::reads(&["quiet", "loud"])).late(),
        ],
        edges: vec![
            EdgePlan::sequential("first", &["x"], 0),
            EdgePlan::sequential("second", &["y"], 2),
            EdgePlan::transactional("rival", &["quiet"], 0, 100),
        ],
        script,
        rules: Rules::default(),
    }
}

fn trailing_markers(chance: &mut Chance) -> Plan {
    restarted_fork(chance.between(1, 3) as u32, &[])
}

fn trailing_aborts(chance: &mut Chance) -> Plan {
    let mut aborted = Vec::new();
    for _ in 0..chance.between(1, 2) {
        aborted.extend([
            Phase::LeaveOpen("rival", "quiet"),
            Phase::Decide("rival", false),
        ]);
    }
    restarted_fork(chance.between(1, 2) as u32, &aborted)
}
