//! What one step sends to several partitions: rounds, keys, and how wide stamps get.

use super::reached::{BY_SEQUENCE, CRASHED, HELD, LATER_ROUNDS, RESTORED_HOLDS};
use crate::chance::Chance;
use crate::plan::{
    Acks, Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, partitioned, topics,
};
use crate::scenario::{Floor, Scenario};

/// Every partition of the topic in the middle got records, and one of the topics around it: on every seed, as a single delivery does that.
const ALL_PARTITIONS: Floor = Floor::on("all partitions were sent to", 100, |counts| {
    counts.partitions_used >= PARTITIONS as u64 + 2
});

/// The scenarios of this file.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "all-to-all",
        about: "every task of a stage sends to every partition, and acknowledgements tell offsets",
        plan: all_to_all,
        floors: &[HELD, ALL_PARTITIONS, LATER_ROUNDS],
    },
    Scenario {
        name: "all-to-all-by-sequence",
        about: "every task of a stage sends to every partition, and acknowledgements tell no offset",
        plan: all_to_all_by_sequence,
        floors: &[HELD, ALL_PARTITIONS, LATER_ROUNDS, BY_SEQUENCE],
    },
    Scenario {
        name: "stateful-keys-and-rounds",
        about: "a stage with a state for each key sends several records for each, to several partitions",
        plan: stateful_keys_and_rounds,
        floors: &[HELD, LATER_ROUNDS, CRASHED],
    },
    Scenario {
        name: "order-within-each-delivery",
        about: "a stage orders what each delivery sends and nothing else",
        plan: order_within_each_delivery,
        floors: &[HELD, LATER_ROUNDS, CRASHED],
    },
    Scenario {
        name: "small-steps",
        about: "steps of one to three deliveries, each a transaction of its own",
        plan: small_steps,
        floors: &[HELD, LATER_ROUNDS, CRASHED, RESTORED_HOLDS],
    },
];

/// Partitions of the all-to-all topics.
const PARTITIONS: i32 = 4;

/// Keys that go to the partitions of an all-to-all topic, in order.
const KEYS: [u64; PARTITIONS as usize] = [1, 6, 9, 0];

fn to_each_partition(topic: &'static str) -> Vec<Emit> {
    KEYS.iter().map(|&key| Emit::to(topic).under(key)).collect()
}

fn shuffle(chance: &mut Chance, acks: Acks) -> Plan {
    Plan {
        topics: partitioned(&["in", "mixed", "out"], PARTITIONS),
        stages: vec![
            StagePlan::new(
                "shuffle",
                Declaration::default().on("in", &to_each_partition("mixed")),
            ),
            StagePlan::new(
                "again",
                Declaration::default().on("mixed", &[Emit::to("out").keyed(8)]),
            ),
            StagePlan::new("all", Declaration::reads(&["in", "mixed", "out"])),
        ],
        edges: vec![EdgePlan::sequential("source", &["in"], chance.between(5, 8) as u32).keyed(8)],
        script: vec![Phase::Random(160)],
        rules: Rules {
            acks,
            ..Rules::default()
        },
    }
}

fn all_to_all(chance: &mut Chance) -> Plan {
    shuffle(chance, Acks::WithOffsets)
}

fn all_to_all_by_sequence(chance: &mut Chance) -> Plan {
    shuffle(chance, Acks::WithoutOffsets)
}

/// A stage whose one delivery has several rounds, and who sees all of it.
fn several_rounds(chance: &mut Chance, crashes: u32) -> Plan {
    Plan {
        topics: partitioned(&["in", "left", "right"], 2),
        stages: vec![
            StagePlan::new(
                "spread",
                Declaration::default().on(
                    "in",
                    &[
                        Emit::to("left"),
                        Emit::to("right").keyed(4),
                        Emit::to("left").keyed(4).one_in(2),
                    ],
                ),
            ),
            StagePlan::new(
                "relay",
                Declaration::default().on("right", &[Emit::to("left").keyed(4)]),
            ),
            StagePlan::new("all", Declaration::reads(&["in", "left", "right"])),
        ],
        edges: vec![
            EdgePlan::sequential("source", &["in"], chance.between(5, 8) as u32).keyed(3),
            EdgePlan::sequential("other", &["in"], 3).keyed(3),
        ],
        script: vec![Phase::Random(170)],
        rules: Rules {
            crashes,
            ..Rules::default()
        },
    }
}

fn stateful_keys_and_rounds(chance: &mut Chance) -> Plan {
    let mut plan = several_rounds(chance, 4);
    plan.stages[0] = plan.stages[0].clone().stateful();
    plan.stages[1] = plan.stages[1].clone().stateful();
    plan
}

fn order_within_each_delivery(chance: &mut Chance) -> Plan {
    let mut plan = several_rounds(chance, 4);
    plan.stages[0] = plan.stages[0].clone().stateful().per_delivery();
    plan.stages[1] = plan.stages[1].clone().per_delivery();
    plan
}

fn small_steps(chance: &mut Chance) -> Plan {
    let steps = [
        chance.between(1, 3) as usize,
        chance.between(1, 3) as usize,
        chance.between(1, 3) as usize,
    ];
    let mut stages = vec![
        StagePlan::new(
            "first",
            Declaration::default().on("in", &[Emit::to("left"), Emit::to("right")]),
        ),
        StagePlan::new(
            "second",
            Declaration::default().on("left", &[Emit::to("right")]),
        )
        .stateful(),
        StagePlan::new("all", Declaration::reads(&["in", "left", "right"])),
    ];
    for (stage, deliveries) in stages.iter_mut().zip(steps) {
        *stage = stage.clone().steps_of(deliveries);
    }
    Plan {
        topics: topics(&["in", "left", "right"]),
        stages,
        edges: vec![EdgePlan::sequential(
            "source",
            &["in"],
            chance.between(5, 9) as u32,
        )],
        script: vec![Phase::Random(150)],
        rules: Rules {
            crashes: 4,
            ..Rules::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload;

    #[test]
    fn the_keys_of_an_all_to_all_stage_reach_every_partition() {
        let partition = |&key: &u64| {
            parsley_stage::partition::partition_of(Some(&payload::key_bytes(key)), PARTITIONS)
        };
        assert!(KEYS.iter().map(partition).eq(0..PARTITIONS));
    }
}
