//! What a task is told before it opens, and in which order the log is asked.

use std::collections::BTreeMap;
use std::convert::Infallible;

use parsley_core::{Channel, Offset, Scope, TopicId};
use parsley_stage::opening::{Bounds, LogFacts, open_facts};
use parsley_stage::{Message, Outbox, Stage, Topic, TopicInfo, codec};

/// A log in which every partition has the offsets 3 to 9, and which notes what it is asked.
#[derive(Default)]
struct Noted {
    positions: BTreeMap<Channel, Offset>,
    asked: Vec<&'static str>,
}

impl LogFacts for Noted {
    type Error = Infallible;

    fn positions(&mut self, _: i32) -> Result<BTreeMap<Channel, Offset>, Infallible> {
        self.asked.push("positions");
        Ok(self.positions.clone())
    }

    fn partitions(&mut self, _: TopicId) -> Result<Option<i32>, Infallible> {
        self.asked.push("partitions");
        Ok(Some(2))
    }

    fn bounds(&mut self, _: Channel) -> Result<Bounds, Infallible> {
        self.asked.push("bounds");
        Ok(Bounds {
            log_start: 3,
            last_stable_offset: 8,
            high_watermark: 10,
        })
    }
}

fn topic(name: &str) -> Topic<String, String> {
    Topic::new(name, codec::string(), codec::string())
}

/// A stage of two inputs and a sink, and its topics.
fn stage() -> (Stage, BTreeMap<String, TopicInfo>) {
    let logic = |_: Message<String, String>, _: &mut Outbox| Ok(());
    let stage = Stage::stateless("settle")
        .sink(&topic("settled"))
        .on(&topic("orders"), logic)
        .on(&topic("payments"), logic)
        .build()
        .unwrap();
    let info = |name: &str| TopicInfo {
        id: TopicId::of_name(name),
        partitions: 2,
    };
    let topics = ["orders", "payments", "settled"]
        .map(|name| (name.to_owned(), info(name)))
        .into();
    (stage, topics)
}

/// Nothing that an earlier execution began can be committed once the group's positions came back as stable. An end read before that can lie
/// below what that execution sent, and the stamps of this one would claim too little (`docs/protocol.md`, The stamp, When it is read). No
/// test held the order: the embedded log answers everything under one lock, and a broker has to be slow at the right moment.
#[test]
fn the_groups_positions_are_asked_for_before_any_end_is_read() {
    let (stage, topics) = stage();
    let orders = TopicId::of_name("orders").partition(1);
    let recorded = Scope {
        channels: vec![orders],
        sinks: vec![TopicId::of_name("settled")],
    };
    for recorded in [None, Some(&recorded)] {
        let mut log = Noted::default();
        let facts = open_facts(&stage, 1, &topics, recorded, &mut log).unwrap();
        assert_eq!(log.asked[0], "positions", "{:?}", log.asked);
        let asked = |what| log.asked.iter().filter(|asked| **asked == what).count();
        assert_eq!(asked("positions"), 1);
        let sink = TopicId::of_name("settled");
        assert_eq!(facts.ends[&sink.partition(0)], 10);
        assert_eq!(facts.ends[&sink.partition(1)], 10);
    }
}

/// Broken by hand, an opening that left out the positions the group has committed passed every test without a broker: the embedded log
/// commits them with the state, which knows them as well. Where someone has moved them, the state alone does not (G16).
#[test]
fn each_channel_has_the_start_position_of_its_case() {
    let (stage, topics) = stage();
    let on = |name| TopicId::of_name(name).partition(1);
    let (orders, payments) = (on("orders"), on("payments"));
    let recorded = Scope {
        channels: vec![orders],
        sinks: Vec::new(),
    };
    let start = |recorded, positions: &[(Channel, Offset)]| {
        let mut log = Noted {
            positions: positions.iter().copied().collect(),
            ..Noted::default()
        };
        let facts = open_facts(&stage, 1, &topics, recorded, &mut log).unwrap();
        (facts.start, facts.group_has_positions)
    };
    let joins_at = (payments, 3);
    assert_eq!(
        start(Some(&recorded), &[(orders, 6), (payments, 7)]),
        ([(orders, 6), joins_at].into(), false),
        "what is committed counts where the channel is in the recorded scope"
    );
    assert_eq!(
        start(Some(&recorded), &[]),
        ([joins_at].into(), false),
        "a position that is gone is the node's to say"
    );
    assert_eq!(
        start(None, &[]),
        ([(orders, 3), joins_at].into(), false),
        "a first start takes the declared initial position"
    );
    assert_eq!(
        start(None, &[(orders, 6)]),
        ([(orders, 3), joins_at].into(), true),
        "positions without a state are told (G11)"
    );
}
