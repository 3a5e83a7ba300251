//! One directed test per guard (`docs/protocol.md`, Guards), named after its number. G12 and G15 belong to hosts; G5 and G14 as a stage
//! meets them are in `parsley-stage`.

use crate::support::*;
use bytes::Bytes;
use parsley_core::{
    Header, MemoryStore, NodeError, NodeLimits, OpenFacts, Refusal, RefusalCode, StateStore, wire,
};

fn assert_at(refusal: &Refusal, code: RefusalCode, on: &str, offset: i64) {
    assert_eq!(
        (refusal.code, refusal.channel, refusal.offset),
        (code, Some(channel(on)), Some(offset)),
        "{refusal}"
    );
}

fn headers_refuse(headers: Vec<Header>) -> Refusal {
    let mut world = World::new(config(&["x:0"], &[]));
    let mut fed = record("x:0", 7);
    fed.headers = headers;
    let refusal = refusal(world.node.receive(fed));
    assert_eq!(
        (refusal.channel, refusal.offset),
        (Some(channel("x:0")), Some(7))
    );
    refusal
}

#[test]
fn g1_a_corrupt_clock_refuses_whatever_is_wrong_with_it() {
    let valid = wire::encode(&claims(&[("p:0", 4)]));
    let mut unknown_version = valid.clone();
    unknown_version[0] = 2;
    let mut trailing = valid.clone();
    trailing.push(0);
    let values: [Option<Vec<u8>>; 5] = [
        None,
        Some(Vec::new()),
        Some(unknown_version),
        Some(trailing),
        Some(valid[..valid.len() - 1].to_vec()),
    ];
    for value in values {
        let header = Header {
            name: Bytes::from_static(b"vc"),
            value: value.clone().map(Bytes::from),
        };
        assert_eq!(
            headers_refuse(vec![header]).code,
            RefusalCode::CorruptClock,
            "{value:?}"
        );
    }
}

#[test]
fn g1_a_corrupt_clock_refuses_also_on_a_record_that_would_be_dropped() {
    let mut first = World::new(config(&["x:0"], &[]));
    first.feed(record("x:0", 3));
    let mut again =
        World::open(config(&["x:0"], &[]), &OpenFacts::default(), first.stop()).expect("opens");
    let mut fed = record("x:0", 3);
    fed.headers.push(Header::new("vc", &b"\x09"[..]));
    assert_at(
        &refusal(again.node.receive(fed)),
        RefusalCode::CorruptClock,
        "x:0",
        3,
    );
}

#[test]
fn g2_sender_and_sequence_must_come_together_and_whole() {
    let sender = |length: usize| Header::new("vc-sender", vec![7; length]);
    let sequence = |value: i64| Header::new("vc-seq", value.to_be_bytes().to_vec());
    let clock = || Header::new("vc", wire::encode(&claims(&[])));
    let cases = [
        vec![sender(16)],
        vec![sequence(0)],
        vec![sender(15), sequence(0)],
        vec![sender(17), sequence(0)],
        vec![sender(16), Header::new("vc-seq", vec![0; 7])],
        vec![sender(16), Header::null("vc-seq")],
        vec![Header::null("vc-sender"), sequence(0)],
        vec![sender(16), sequence(-1)],
        vec![sender(16), sequence(i64::MIN)],
        vec![sender(16), sender(16), sequence(0)],
        vec![sender(16), sequence(0), sequence(0)],
        vec![clock(), clock()],
    ];
    for headers in cases {
        assert_eq!(
            headers_refuse(headers.clone()).code,
            RefusalCode::CorruptSender,
            "{headers:?}"
        );
    }
}

#[test]
fn g3_input_on_an_undeclared_channel_refuses() {
    let mut world = World::new(config(&["x:0"], &[]));
    assert_at(
        &refusal(world.node.receive(record("x:1", 4))),
        RefusalCode::UnconsumedChannel,
        "x:1",
        4,
    );
    let mut world = World::new(config(&["x:0"], &[]));
    let advance = refusal(world.node.advance(channel("y:0"), 4));
    assert_eq!(
        (advance.code, advance.channel),
        (RefusalCode::UnconsumedChannel, Some(channel("y:0")))
    );
}

#[test]
fn g4_a_channel_fed_at_or_below_what_it_was_fed_refuses() {
    for offset in [0, 4, 5] {
        let mut world = World::new(config(&["x:0"], &[]));
        world.feed(record("x:0", 5));
        assert_at(
            &refusal(world.node.receive(record("x:0", offset))),
            RefusalCode::OutOfOrderFeed,
            "x:0",
            offset,
        );
    }
    let mut world = World::new(config(&["x:0"], &[]));
    world.advance("x:0", 6);
    assert_at(
        &refusal(world.node.receive(record("x:0", 5))),
        RefusalCode::OutOfOrderFeed,
        "x:0",
        5,
    );
}

#[test]
fn g4_a_start_position_is_no_position_advance() {
    let facts = OpenFacts {
        start: channels(&[("x:0", 10)]),
        ..OpenFacts::default()
    };
    let mut world = World::open(config(&["x:0"], &[]), &facts, MemoryStore::new()).expect("opens");
    assert_eq!(
        world.node.receive(record("x:0", 4)).expect("no refusal"),
        parsley_core::Receipt::Dropped
    );
    assert_eq!(world.feed(record("x:0", 10)), ["x:0@10"]);
}

#[test]
fn g5_a_send_to_an_undeclared_sink_refuses() {
    let mut world = World::new(config(&["x:0"], &[("s", 1)]));
    let refused = refusal(world.node.prepare_send(channel("t:0")));
    assert_eq!(
        (refused.code, refused.channel, refused.offset),
        (RefusalCode::UndeclaredSink, Some(channel("t:0")), None)
    );
}

#[test]
fn g6_a_sink_that_does_not_resolve_refuses() {
    let unresolved = OpenFacts {
        unresolved: topics(&["s"]),
        ..OpenFacts::default()
    };
    let declared = World::open(
        config(&["x:0"], &[("s", 1)]),
        &unresolved,
        MemoryStore::new(),
    )
    .map(|_| ());
    assert_eq!(refusal(declared).code, RefusalCode::MissingSink);

    let with_sink = || World::new(config(&["x:0"], &[("s", 1)])).stop();
    let removed = World::open(config(&["x:0"], &[]), &unresolved, with_sink()).map(|_| ());
    assert_eq!(refusal(removed).code, RefusalCode::MissingSink);

    let gone = OpenFacts {
        gone: topics(&["s"]),
        ..OpenFacts::default()
    };
    assert!(
        World::open(config(&["x:0"], &[]), &gone, with_sink()).is_ok(),
        "a removed sink that is gone is skipped"
    );
    let declared_and_gone =
        World::open(config(&["x:0"], &[("s", 1)]), &gone, with_sink()).map(|_| ());
    assert_eq!(refusal(declared_and_gone).code, RefusalCode::MissingSink);
}

#[test]
fn g7_state_that_no_rule_explains_refuses_and_names_the_key() {
    let committed = || {
        let mut world = World::new(config(&["w:0", "x:0"], &[("s", 1)]));
        world.send("s:0");
        world.feed(with_sender(record("x:0", 2), "alice", 1));
        world.feed_claiming("x:0", 4, &claims(&[("w:0", 0), ("p:0", 1)]));
        world.feed_claiming("x:0", 5, &claims(&[]));
        world.stop()
    };
    let x = channel("x:0");
    let broken: Vec<(&str, String, Option<&[u8]>)> = vec![
        ("a key of no class", "zz".into(), Some(b"")),
        (
            "a key that does not parse",
            format!("f/{}:00", x.topic),
            Some(&[0; 8]),
        ),
        (
            "a key of a channel outside the scope",
            format!("f/{}", channel("other:0")),
            Some(&[0; 8]),
        ),
        ("a short frontier", format!("f/{x}"), Some(&[0; 7])),
        ("a negative frontier", format!("f/{x}"), Some(&[0xff; 8])),
        (
            "a frontier at the held head",
            format!("f/{x}"),
            Some(&[0, 0, 0, 0, 0, 0, 0, 4]),
        ),
        (
            "a clock with a trailing byte",
            format!("cc/{x}"),
            Some(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ),
        ("a carried clock of no version", "ca".into(), Some(&[9])),
        (
            "a sequence of three bytes",
            format!("sq/{}", channel("s:0")),
            Some(&[0; 3]),
        ),
        (
            "half a delivered mark",
            format!("ds/{x}/{}", x.topic),
            Some(&[0; 8]),
        ),
        (
            "a scope with a count that its bytes do not have",
            "scope".into(),
            Some(&[0x7f, 0xff, 0xff, 0xff]),
        ),
        ("no head and tail index", format!("q/{x}/m"), None),
        (
            "a tail beyond the entries",
            format!("q/{x}/m"),
            Some(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]),
        ),
        ("a missing entry", format!("q/{x}/e/0000000000000000"), None),
        (
            "a cut entry",
            format!("q/{x}/e/0000000000000001"),
            Some(&[0; 20]),
        ),
        ("no scope", "scope".into(), None),
    ];
    for (why, key, value) in broken {
        let mut store = committed();
        match value {
            Some(value) => store
                .put(key.as_bytes(), Bytes::copy_from_slice(value))
                .expect("memory"),
            None => {
                assert!(
                    store.get(key.as_bytes()).expect("memory").is_some(),
                    "{why}: {key} should have been there"
                );
                store.delete(key.as_bytes()).expect("memory");
            }
        }
        let refused = refusal(
            World::open(
                config(&["w:0", "x:0"], &[("s", 1)]),
                &OpenFacts::default(),
                store,
            )
            .map(|_| ()),
        );
        assert_eq!(refused.code, RefusalCode::CorruptState, "{why}");
        assert!(refused.found.contains("state key"), "{why}: {refused}");
    }
    assert!(
        World::open(
            config(&["w:0", "x:0"], &[("s", 1)]),
            &OpenFacts::default(),
            committed()
        )
        .is_ok()
    );
}

#[test]
fn g7_held_entries_out_of_position_order_refuse() {
    let mut world = World::new(config(&["w:0", "x:0"], &[]));
    world.feed_claiming("x:0", 4, &claims(&[("w:0", 0)]));
    world.feed(record("x:0", 5));
    let mut store = world.stop();
    let entry = |index| format!("q/{}/e/000000000000000{index}", channel("x:0"));
    let second = store
        .get(entry(1).as_bytes())
        .expect("memory")
        .expect("is held");
    store.put(entry(0).as_bytes(), second).expect("memory");
    let refused = refusal(
        World::open(config(&["w:0", "x:0"], &[]), &OpenFacts::default(), store).map(|_| ()),
    );
    assert_eq!(refused.code, RefusalCode::CorruptState);
    assert!(refused.found.contains(&entry(1)), "{refused}");
}

#[test]
fn g8_removing_an_input_that_holds_refuses() {
    let mut world = World::new(config(&["w:0", "x:0"], &[]));
    world.feed_claiming("x:0", 4, &claims(&[("w:0", 0)]));
    let refused = refusal(
        World::open(config(&["w:0"], &[]), &OpenFacts::default(), world.stop()).map(|_| ()),
    );
    assert_at(&refused, RefusalCode::RemovedInputHeld, "x:0", 4);
}

#[test]
fn g9_a_deleted_topic_that_still_holds_refuses_at_the_start_and_in_a_check() {
    let holding = || {
        let mut world = World::new(config(&["w:0", "x:0"], &[]));
        world.feed_claiming("x:0", 4, &claims(&[("w:0", 0)]));
        world
    };
    let gone = OpenFacts {
        gone: topics(&["x"]),
        ..OpenFacts::default()
    };
    let at_start = World::open(config(&["w:0", "x:0"], &[]), &gone, holding().stop()).map(|_| ());
    assert_at(&refusal(at_start), RefusalCode::DeletedInputHeld, "x:0", 4);
    let in_check = holding().node.check(&channels::<i64>(&[]), &topics(&["x"]));
    assert_at(&refusal(in_check), RefusalCode::DeletedInputHeld, "x:0", 4);
}

#[test]
fn g10_a_log_start_past_what_was_fed_or_what_is_held_refuses() {
    let fed_to_4 = || {
        let mut world = World::new(config(&["x:0", "y:0"], &[]));
        world.feed(record("x:0", 4));
        world
    };
    let none = topics(&[]);
    assert!(
        fed_to_4()
            .node
            .check(&channels(&[("x:0", 5)]), &none)
            .is_ok()
    );
    assert_at(
        &refusal(fed_to_4().node.check(&channels(&[("x:0", 6)]), &none)),
        RefusalCode::PositionsLost,
        "x:0",
        5,
    );

    let mut holding = fed_to_4();
    holding.feed_claiming("x:0", 7, &claims(&[("y:0", 0)]));
    assert!(holding.node.check(&channels(&[("x:0", 7)]), &none).is_ok());
    assert_at(
        &refusal(holding.node.check(&channels(&[("x:0", 8)]), &none)),
        RefusalCode::PositionsLost,
        "x:0",
        7,
    );

    for (log_start, start, lost) in [(6, Some(5), 5), (6, None, 5), (5, Some(4), 4)] {
        let facts = OpenFacts {
            log_starts: channels(&[("x:0", log_start)]),
            start: start
                .map(|start| (channel("x:0"), start))
                .into_iter()
                .collect(),
            ..OpenFacts::default()
        };
        let at_start =
            World::open(config(&["x:0", "y:0"], &[]), &facts, fed_to_4().stop()).map(|_| ());
        assert_at(&refusal(at_start), RefusalCode::PositionsLost, "x:0", lost);
    }
}

/// The refusal once named a reported start position below the head that was really lost.
#[test]
fn g10_names_the_held_head_rather_than_a_lower_position_that_was_reported() {
    let mut world = World::new(config(&["x:0", "y:0"], &[]));
    world.feed_claiming("x:0", 5, &claims(&[("y:0", 3)]));
    let facts = OpenFacts {
        start: channels(&[("x:0", 4)]),
        log_starts: channels(&[("x:0", 6)]),
        ..OpenFacts::default()
    };
    let at_start = World::open(config(&["x:0", "y:0"], &[]), &facts, world.stop()).map(|_| ());
    assert_at(&refusal(at_start), RefusalCode::PositionsLost, "x:0", 5);
}

/// P5: an execution that started at log start 0 was fed nothing; retention then deleted 0 to 9. Starting at 10 would skip them silently.
#[test]
fn g10_p5_nothing_fed_and_a_log_start_that_moved_is_not_a_fresh_start() {
    let facts = OpenFacts {
        start: channels(&[("x:0", 0)]),
        log_starts: channels(&[("x:0", 0)]),
        ..OpenFacts::default()
    };
    let world = World::open(config(&["x:0"], &[]), &facts, MemoryStore::new()).expect("opens");
    let moved = OpenFacts {
        log_starts: channels(&[("x:0", 10)]),
        ..OpenFacts::default()
    };
    let refused = refusal(World::open(config(&["x:0"], &[]), &moved, world.crash()).map(|_| ()));
    assert_at(&refused, RefusalCode::PositionsLost, "x:0", 0);

    let mut running =
        World::open(config(&["x:0"], &[]), &facts, MemoryStore::new()).expect("opens");
    let refused = refusal(running.node.check(&channels(&[("x:0", 10)]), &topics(&[])));
    assert_at(&refused, RefusalCode::PositionsLost, "x:0", 0);
}

#[test]
fn g11_committed_positions_without_state_refuse() {
    let facts = OpenFacts {
        start: channels(&[("x:0", 5)]),
        group_has_positions: true,
        ..OpenFacts::default()
    };
    let refused =
        refusal(World::open(config(&["x:0"], &[]), &facts, MemoryStore::new()).map(|_| ()));
    assert_eq!(refused.code, RefusalCode::StateLost);
    let world = World::new(config(&["x:0"], &[]));
    let facts = OpenFacts {
        group_has_positions: true,
        ..OpenFacts::default()
    };
    assert!(World::open(config(&["x:0"], &[]), &facts, world.stop()).is_ok());
}

#[test]
fn g13_a_clock_beyond_the_budget_refuses_on_receipt_and_on_sending() {
    let bytes_of_two = wire::encoded_len(2, 0);
    let limits = NodeLimits {
        clock_budget_bytes: bytes_of_two,
        ..NodeLimits::default()
    };
    let budgeted = || parsley_core::NodeConfig {
        limits,
        ..config(&["x:0"], &[("s", 1)])
    };

    let mut world = World::new(budgeted());
    assert_eq!(
        world.feed_claiming("x:0", 0, &claims(&[("p:0", 1), ("q:0", 1)])),
        ["x:0@0"],
        "at the budget"
    );
    let wide = with_clock(
        record("x:0", 1),
        &claims(&[("p:0", 1), ("q:0", 1), ("r:0", 1)]),
    );
    let before = world.committed();
    assert_at(
        &refusal(world.node.receive(wide)),
        RefusalCode::ClockTooWide,
        "x:0",
        1,
    );
    assert_eq!(world.committed(), before, "nothing durable carries it");

    let mut world = World::new(budgeted());
    world.feed_claiming("x:0", 0, &claims(&[("p:0", 1), ("q:0", 1)]));
    let refused = refusal(world.node.prepare_send(channel("s:0")));
    assert_eq!(
        (refused.code, refused.channel),
        (RefusalCode::ClockTooWide, Some(channel("s:0")))
    );
}

/// Nothing warned once: a node went from silence to a refusal that came back at every start.
#[test]
fn g13_a_clock_at_four_fifths_of_the_budget_is_told_before_it_is_refused() {
    for (budget, nears) in [(37, true), (45, true), (46, true), (47, false), (80, false)] {
        let limits = NodeLimits {
            clock_budget_bytes: budget,
            ..NodeLimits::default()
        };
        let declared = || parsley_core::NodeConfig {
            limits,
            ..config(&["x:0", "y:0"], &[("s", 1)])
        };
        let mut received = World::new(declared());
        assert!(!received.node.clock_nears_budget());
        let claim = claims(&[("p:0", 1)]);
        received.feed_claiming("x:0", 0, &claim);
        assert_eq!(received.node.widest_clock_bytes(), 37);
        assert_eq!(received.node.clock_nears_budget(), nears, "{budget}");
        let mut sending = World::new(declared());
        sending.feed(record("x:0", 0));
        sending.send("s:0");
        assert_eq!(sending.node.widest_clock_bytes(), 37);
        assert_eq!(sending.node.clock_nears_budget(), nears, "{budget}");
    }
}

/// One entry per partition was once kept for every declared sink.
#[test]
fn a_sink_of_two_thousand_million_partitions_costs_what_is_sent_to_it() {
    let mut world = World::new(config(&["x:0"], &[("s", i32::MAX)]));
    assert_eq!(world.send("s:2000000000").sequence, 0);
    assert_eq!(
        stamp_clock(&world.send("s:0")),
        clock(&[], &[("s:2000000000", "n", 0)])
    );
}

#[test]
fn g16_a_position_above_what_the_state_was_fed_refuses() {
    let committed = || {
        let mut world = World::new(config(&["x:0", "y:0"], &[]));
        world.feed(record("x:0", 4));
        world.stop()
    };
    for (on, start, refuses) in [
        ("x:0", 4, false),
        ("x:0", 5, false),
        ("x:0", 6, true),
        ("y:0", 0, false),
        ("y:0", 1, true),
    ] {
        let facts = OpenFacts {
            start: channels(&[(on, start)]),
            group_has_positions: true,
            ..OpenFacts::default()
        };
        let opened = World::open(config(&["x:0", "y:0"], &[]), &facts, committed()).map(|_| ());
        if refuses {
            assert_at(&refusal(opened), RefusalCode::PositionsAhead, on, start);
        } else {
            assert!(opened.is_ok(), "{on} from {start}");
        }
    }
}

#[test]
fn a_refusal_stops_the_whole_node() {
    let mut world = World::new(config(&["x:0", "y:0"], &[("s", 1)]));
    world.feed(record("x:0", 5));
    let first = refusal(world.node.receive(record("x:0", 5)));
    assert_eq!(refusal(world.node.receive(record("y:0", 0))), first);
    assert_eq!(refusal(world.node.prepare_send(channel("s:0"))), first);
    assert_eq!(refusal(world.node.next_delivery(&world.store)), first);
    assert_eq!(refusal(world.node.commit(&[], &mut world.store)), first);
    assert!(
        first.to_string().contains("restart the node"),
        "a refusal says what to do: {first}"
    );
}

#[test]
fn numbers_that_cannot_be_are_errors_and_not_panics() {
    let mut world = World::new(config(&["x:0"], &[("s", 1)]));
    assert!(matches!(
        world.node.receive(record("x:0", -1)),
        Err(NodeError::Negative { found: -1, .. })
    ));
    assert!(matches!(
        world.node.advance(channel("x:0"), i64::MIN),
        Err(NodeError::Negative { .. })
    ));
    assert!(matches!(
        world.node.prepare_send(channel("s:1")),
        Err(NodeError::UnknownPartition { .. })
    ));
    assert!(matches!(
        world.node.fence(&[(channel("t:0"), 1)]),
        Err(NodeError::NotASinkChannel { .. })
    ));
    assert!(matches!(
        world.node.fence(&[(channel("s:0"), -1)]),
        Err(NodeError::Negative { .. })
    ));
    let mark = world.node.mark();
    assert!(matches!(
        world.node.watermarks(&mark, &channels(&[("x:0", -1)])),
        Err(NodeError::Negative { .. })
    ));
    assert_eq!(
        world.feed(record("x:0", 0)),
        ["x:0@0"],
        "and the node goes on"
    );
}
