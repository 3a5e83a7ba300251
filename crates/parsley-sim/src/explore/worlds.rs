//! The small worlds: each the least in which something can go wrong that the protocol is there for.

use super::SmallWorld;
use crate::host::AppendMode;
use crate::plan::{Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, topics};

/// All of them.
pub static ALL: &[SmallWorld] = &[
    TRIANGLE,
    SmallWorld {
        name: "triangle-two-crashes",
        about: "the triangle, with tasks that crash twice, also while they hold something",
        plan: || crashing(2, triangle(1)),
        ..TRIANGLE
    },
    SmallWorld {
        name: "triangle-one-by-one",
        about: "the triangle, where records, replicas and markers come one by one between those of others",
        plan: || triangle(1),
        append: AppendMode::Interleaved,
        batches: false,
        ..TRIANGLE
    },
    SmallWorld {
        name: "chain",
        about: "an effect comes through two stages, its cause directly",
        plan: chain,
        ..TRIANGLE
    },
    SmallWorld {
        name: "two-writers",
        about: "behind a record that has to wait comes one that claims nothing",
        plan: two_writers,
        ..TRIANGLE
    },
    SmallWorld {
        name: "diamond",
        about: "one record goes through two stages, and a third is handed all of it",
        plan: diamond,
        ..TRIANGLE
    },
    SmallWorld {
        name: "own-sends",
        about: "a stage's sends of different steps, which nothing orders but that it made them",
        plan: own_sends,
        ..TRIANGLE
    },
    SmallWorld {
        name: "own-sends-one-by-one",
        about: "the same, where records, replicas and markers come one by one, and acknowledgements tell no offsets",
        plan: own_sends,
        append: AppendMode::Interleaved,
        offsets_known: false,
        batches: false,
        ..TRIANGLE
    },
    SmallWorld {
        name: "past-over-a-restart",
        about: "a send of one execution, and what its stage was delivered in an earlier one",
        plan: past_over_a_restart,
        ..TRIANGLE
    },
    SmallWorld {
        name: "two-sinks",
        about: "one delivery sends to two topics, the second send claims the first by sequence",
        plan: two_sinks,
        offsets_known: false,
        questions: 1,
        ..TRIANGLE
    },
    SmallWorld {
        name: "two-sinks-one-by-one",
        about: "the same, where records, replicas and markers come one by one",
        plan: two_sinks,
        append: AppendMode::Interleaved,
        offsets_known: false,
        batches: false,
        ..TRIANGLE
    },
    SmallWorld {
        name: "sequence-through-a-hop",
        about: "a claim by sequence, through a stage that cannot resolve it",
        plan: sequence_through_a_hop,
        offsets_known: false,
        questions: 1,
        ..TRIANGLE
    },
    SmallWorld {
        name: "late-reader",
        about: "a reader begins behind what claims by sequence name, and watermarks are what resolves them",
        plan: late_reader,
        offsets_known: false,
        questions: 1,
        ..TRIANGLE
    },
    SmallWorld {
        name: "retention",
        about: "a reader begins behind what retention has removed, and the rest still claims it",
        plan: retention,
        ..TRIANGLE
    },
    SmallWorld {
        name: "joiner",
        about: "a stage takes on an input whose effects it has been delivered already",
        plan: joiner,
        ..TRIANGLE
    },
    SmallWorld {
        name: "aborts",
        about: "a client's transactions commit or abort, and leave markers and nothing behind them",
        plan: aborts,
        ..TRIANGLE
    },
    SmallWorld {
        name: "aborts-one-by-one",
        about: "the same, where records, replicas and markers come one by one",
        plan: aborts_one_by_one,
        append: AppendMode::Interleaved,
        batches: false,
        ..TRIANGLE
    },
    SmallWorld {
        name: "cycle",
        about: "two stages send to one another, and a third is handed all of it",
        plan: cycle,
        batches: false,
        ..TRIANGLE
    },
    SmallWorld {
        name: "self-feedback",
        about: "a stage consumes what it sends",
        plan: self_feedback,
        ..TRIANGLE
    },
    SmallWorld {
        name: "ticks",
        about: "a stage ticks, and what its tick sends races what it was delivered before",
        plan: ticks,
        ..TRIANGLE
    },
];

/// The world of that name.
pub fn named(name: &str) -> Option<&'static SmallWorld> {
    ALL.iter().find(|world| world.name == name)
}

const TRIANGLE: SmallWorld = SmallWorld {
    name: "triangle",
    about: "a stage's output races its input at a consumer of both",
    plan: || triangle(2),
    append: AppendMode::Atomic,
    offsets_known: true,
    questions: 0,
    batches: true,
};

/// A plan with one crash, whose clients send so many records to these topics in turn.
fn plan(names: &[&'static str], stages: Vec<StagePlan>, edges: Vec<EdgePlan>) -> Plan {
    Plan {
        topics: topics(names),
        stages,
        edges,
        script: Vec::new(),
        rules: Rules {
            crashes: 1,
            ..Rules::default()
        },
    }
}

fn crashing(crashes: u32, mut plan: Plan) -> Plan {
    plan.rules.crashes = crashes;
    plan
}

fn relay(name: &'static str, from: &'static str, to: &'static str) -> StagePlan {
    StagePlan::new(name, Declaration::default().on(from, &[Emit::to(to)]))
}

fn reader(name: &'static str, of: &[&'static str]) -> StagePlan {
    StagePlan::new(name, Declaration::reads(of))
}

fn triangle(sends: u32) -> Plan {
    plan(
        &["a", "b"],
        vec![relay("relay", "a", "b"), reader("both", &["a", "b"])],
        vec![EdgePlan::sequential("edge", &["a"], sends)],
    )
}

fn chain() -> Plan {
    plan(
        &["a", "b", "c"],
        vec![
            relay("first", "a", "b"),
            relay("second", "b", "c"),
            reader("both", &["a", "c"]),
        ],
        vec![EdgePlan::sequential("edge", &["a"], 2)],
    )
}

fn two_writers() -> Plan {
    let mut plan = triangle(1);
    plan.edges.push(EdgePlan::sequential("other", &["b"], 1));
    plan
}

fn diamond() -> Plan {
    plan(
        &["a", "b", "c", "d"],
        vec![
            relay("left", "a", "b"),
            relay("right", "a", "c"),
            StagePlan::new(
                "join",
                Declaration::default()
                    .on("a", &[])
                    .on("b", &[Emit::to("d")])
                    .on("c", &[Emit::to("d")]),
            ),
        ],
        vec![EdgePlan::sequential("edge", &["a"], 1)],
    )
}

fn own_sends() -> Plan {
    let sender = Declaration::default()
        .on("a", &[Emit::to("c")])
        .on("b", &[Emit::to("d")]);
    plan(
        &["a", "b", "c", "d"],
        vec![
            StagePlan::new("sender", sender),
            reader("both", &["c", "d"]),
        ],
        vec![
            EdgePlan::sequential("one", &["a"], 1),
            EdgePlan::sequential("other", &["b"], 1),
        ],
    )
}

fn past_over_a_restart() -> Plan {
    let sender = Declaration::default()
        .on("a", &[])
        .on("b", &[Emit::to("c")]);
    plan(
        &["a", "b", "c"],
        vec![
            StagePlan::new("sender", sender),
            reader("both", &["a", "c"]),
        ],
        vec![
            EdgePlan::sequential("one", &["a"], 1),
            EdgePlan::sequential("other", &["b"], 1),
        ],
    )
}

fn splitter() -> StagePlan {
    StagePlan::new(
        "splitter",
        Declaration::default().on("a", &[Emit::to("b"), Emit::to("c")]),
    )
}

fn two_sinks() -> Plan {
    plan(
        &["a", "b", "c"],
        vec![splitter(), reader("both", &["b", "c"])],
        vec![EdgePlan::sequential("edge", &["a"], 1)],
    )
}

fn sequence_through_a_hop() -> Plan {
    plan(
        &["a", "b", "c", "d"],
        vec![
            splitter(),
            relay("relay", "c", "d"),
            reader("both", &["b", "d"]),
        ],
        vec![EdgePlan::sequential("edge", &["a"], 1)],
    )
}

fn late_reader() -> Plan {
    let mut plan = own_sends();
    plan.stages[1] = reader("both", &["c", "d"]).late().from_the_end();
    plan.script = vec![Phase::Start("both")];
    plan
}

fn retention() -> Plan {
    let mut plan = triangle(2);
    plan.stages[1] = reader("both", &["a", "b"]).late();
    plan.script = vec![Phase::Start("both")];
    plan.rules.sweeps = 1;
    plan
}

fn joiner() -> Plan {
    let mut plan = triangle(2);
    plan.stages[1] = reader("joiner", &["b"]).then(Declaration::reads(&["a", "b"]));
    plan.script = vec![Phase::Deploy("joiner", 1)];
    plan
}

fn aborts() -> Plan {
    let mut plan = triangle(2);
    plan.edges = vec![EdgePlan::transactional("edge", &["a"], 2, 50)];
    plan
}

fn aborts_one_by_one() -> Plan {
    let mut plan = triangle(1);
    plan.edges = vec![EdgePlan::transactional("edge", &["a"], 1, 50)];
    plan
}

fn cycle() -> Plan {
    plan(
        &["a", "b"],
        vec![
            relay("there", "a", "b"),
            StagePlan::new(
                "back",
                Declaration::default().on("b", &[Emit::to("a").while_hops_below(2)]),
            ),
            reader("both", &["a", "b"]),
        ],
        vec![EdgePlan::sequential("edge", &["a"], 1)],
    )
}

fn self_feedback() -> Plan {
    let looping = Declaration::default()
        .on("a", &[Emit::to("loop")])
        .on("loop", &[Emit::to("loop").while_hops_below(2)]);
    plan(
        &["a", "loop"],
        vec![
            StagePlan::new("feeder", looping),
            reader("both", &["a", "loop"]),
        ],
        vec![EdgePlan::sequential("edge", &["a"], 1)],
    )
}

fn ticks() -> Plan {
    let ticking = Declaration::default()
        .on("a", &[])
        .on("sim-ticker-ticks", &[Emit::to("b")])
        .ticking("sim-ticker-ticks");
    let mut plan = plan(
        &["a", "b", "sim-ticker-ticks"],
        vec![
            StagePlan::new("ticker", ticking),
            reader("both", &["a", "b"]),
        ],
        vec![EdgePlan::sequential("edge", &["a"], 2)],
    );
    plan.rules.ticks = 1;
    plan
}
