//! Races and chains: a cause and its effect reach one consumer by ways of different length.

use crate::chance::Chance;
use crate::plan::{
    Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, partitioned, topics,
};
use crate::scenario::{Floor, Scenario};

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "shared-input-race",
        about: "a stage's output races its input at a consumer of both",
        plan: shared_input_race,
        floors: &[Floor::new("a record was held", |counts| counts.holds > 0)],
    },
    Scenario {
        name: "wide-soak",
        about: "most of everything at once: edge clients, transactions, chains, cycles, crashes, retention",
        plan: wide_soak,
        floors: &[
            Floor::new("a record was held", |counts| counts.holds > 0),
            Floor::new("a crash", |counts| counts.crashes > 0),
            Floor::new("a crash within a step", |counts| {
                counts.crashes_mid_step > 0
            }),
            Floor::new("a crash of a task that holds", |counts| {
                counts.crashes_holding > 0
            }),
            Floor::new("held records restored", |counts| {
                counts.restores_with_holds > 0
            }),
            Floor::new("positions advanced", |counts| counts.position_advances > 0),
        ],
    },
];

fn shared_input_race(chance: &mut Chance) -> Plan {
    Plan {
        topics: topics(&["orders", "invoices"]),
        stages: vec![
            StagePlan::new(
                "bill",
                Declaration::default().on("orders", &[Emit::to("invoices")]),
            ),
            StagePlan::new("ship", Declaration::reads(&["orders", "invoices"])),
        ],
        edges: vec![EdgePlan::sequential(
            "shop",
            &["orders"],
            chance.between(3, 8) as u32,
        )],
        script: vec![Phase::Random(60)],
        rules: Rules::default(),
    }
}

fn wide_soak(chance: &mut Chance) -> Plan {
    let partitions = chance.between(1, 2) as i32;
    Plan {
        topics: partitioned(&["a", "b", "c", "d", "e", "loop"], partitions),
        stages: vec![
            StagePlan::new(
                "split",
                Declaration::default()
                    .on("a", &[Emit::to("c").keyed(4), Emit::to("d").keyed(4)])
                    .on("b", &[Emit::to("d").one_in(2)]),
            )
            .stateful(),
            StagePlan::new(
                "cycle",
                Declaration::default().on("c", &[Emit::to("loop")]).on(
                    "loop",
                    &[Emit::to("loop").while_hops_below(4), Emit::to("e").keyed(3)],
                ),
            ),
            StagePlan::new(
                "all",
                Declaration::reads(&["a", "b", "c", "d", "e", "loop"]),
            ),
            StagePlan::new("relay", Declaration::default().on("d", &[Emit::to("e")])).bare(),
        ],
        edges: vec![
            EdgePlan::sequential("shop", &["a", "b"], 7).keyed(4),
            EdgePlan::observer("clerk", &["c", "e"], &["a", "b"], 3).keyed(4),
            EdgePlan::transactional("bank", &["b", "d"], 5, 50).keyed(4),
        ],
        script: vec![Phase::Random(150)],
        rules: Rules {
            crashes: 5,
            sweeps: 2,
            truncation: true,
            ..Rules::default()
        },
    }
}
