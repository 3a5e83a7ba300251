//! Faults that others had in this field (`docs/faults.md`, part B), each with the right value.

use bytes::Bytes;
use parsley_core::{
    Channel, Header, HoldCode, MemoryStore, NodeLimits, OpenFacts, Receipt, Record, RefusalCode,
    TopicId, Wait, wire,
};

use crate::support::*;

/// A consumer that is fed `second` before `first` must hold it. Both are stamped sends of one node.
fn assert_second_waits(
    first: (&str, i64, &parsley_core::Stamp),
    second: (&str, i64, &parsley_core::Stamp),
) {
    let mut consumer = World::new(config(&[first.0, second.0], &[]));
    let stamped = |(on, offset, stamp): (&str, i64, &parsley_core::Stamp)| {
        let mut sent = record(on, offset);
        sent.headers.extend(stamp.clone().headers());
        sent
    };
    assert!(
        consumer.feed(stamped(second)).is_empty(),
        "{} before {}",
        second.0,
        first.0
    );
    let both = [place_of(first), place_of(second)];
    assert_eq!(consumer.feed(stamped(first)), both);
}

fn place_of((on, offset, _): (&str, i64, &parsley_core::Stamp)) -> String {
    format!("{on}@{offset}")
}

#[test]
fn b05_a_later_send_of_one_step_claims_the_earlier_one_on_another_topic_and_partition() {
    for (first, second) in [("y:0", "z:0"), ("y:0", "y:1")] {
        let mut sender = World::new(config(&["x:0"], &[("y", 2), ("z", 1)]));
        let a1 = sender
            .node
            .prepare_send(channel(first))
            .expect("is stamped");
        sender.node.fence(&[]).expect("offsets unknown");
        let a2 = sender
            .node
            .prepare_send(channel(second))
            .expect("is stamped");
        assert_second_waits((first, 0, &a1), (second, 0, &a2));

        let mut sender = World::new(config(&["x:0"], &[("y", 2), ("z", 1)]));
        let a1 = sender
            .node
            .prepare_send(channel(first))
            .expect("is stamped");
        sender
            .node
            .fence(&[(channel(first), 6)])
            .expect("offsets known");
        let a2 = sender
            .node
            .prepare_send(channel(second))
            .expect("is stamped");
        assert_eq!(stamp_clock(&a2), claims(&[(first, 6)]));
        assert_second_waits((first, 6, &a1), (second, 0, &a2));
    }
}

#[test]
fn b05_a_send_after_a_restart_claims_those_before_it() {
    let declared = || config(&["x:0"], &[("y", 1), ("z", 1)]);
    let mut sender = World::new(declared());
    let a1 = sender.send("y:0");
    let facts = OpenFacts {
        ends: channels(&[("y:0", 1), ("z:0", 0)]),
        ..OpenFacts::default()
    };
    let mut sender = World::open(declared(), &facts, sender.stop()).expect("opens");
    let a2 = sender.send("z:0");
    assert_eq!(stamp_clock(&a2), claims(&[("y:0", 0)]));
    assert_second_waits(("y:0", 0, &a1), ("z:0", 0, &a2));
}

#[test]
fn b05_a_send_after_an_input_was_dropped_still_claims_what_came_through_it() {
    let mut relay = World::new(config(&["x:0", "w:0"], &[("z", 1)]));
    relay.feed_claiming("x:0", 4, &claims(&[("origin:0", 9)]));
    let mut relay = World::open(
        config(&["w:0"], &[("z", 1)]),
        &OpenFacts::default(),
        relay.stop(),
    )
    .expect("opens");
    assert_eq!(
        stamp_clock(&relay.send("z:0")),
        claims(&[("x:0", 4), ("origin:0", 9)])
    );
}

#[test]
fn b05_a_relay_that_does_not_read_the_origin_passes_its_claims_on() {
    let mut relay = World::new(config(&["y:0"], &[("z", 1)]));
    relay.feed_claiming("y:0", 0, &clock(&[("x:0", 5)], &[("x:1", "alice", 2)]));
    let sent = relay.send("z:0");
    assert_eq!(
        stamp_clock(&sent),
        clock(&[("x:0", 5), ("y:0", 0)], &[("x:1", "alice", 2)])
    );
    let mut consumer = World::new(config(&["x:0", "z:0"], &[]));
    let mut received = record("z:0", 0);
    received.headers.extend(sent.headers());
    assert!(consumer.feed(received).is_empty());
    assert_eq!(consumer.feed(record("x:0", 5)), ["x:0@5", "z:0@0"]);
}

#[test]
fn b06_numbers_of_an_aborted_step_are_issued_again() {
    let declared = || config(&["x:0"], &[("s", 1)]);
    let mut world = World::new(declared());
    assert_eq!(world.send("s:0").sequence, 0);
    let lost = world.node.prepare_send(channel("s:0")).expect("is stamped");
    assert_eq!(lost.sequence, 1);
    let mut world = World::open(declared(), &OpenFacts::default(), world.crash()).expect("opens");
    assert_eq!(world.send("s:0").sequence, 1);
    assert_eq!(world.send("s:0").sequence, 2);
}

#[test]
fn b06_two_senders_to_one_partition_do_not_wait_for_each_other() {
    let mut world = World::new(config(&["s:0", "y:0"], &[]));
    assert_eq!(
        world.feed(with_sender(record("s:0", 0), "bob", 7)),
        ["s:0@0"]
    );
    let claim = clock(&[], &[("s:0", "bob", 7)]);
    assert_eq!(
        world.feed_claiming("y:0", 0, &claim),
        ["y:0@0"],
        "alice's numbers have no part in it"
    );
}

#[test]
fn b06_claims_on_a_topic_that_was_created_again_neither_satisfy_nor_block() {
    let (old, new) = (
        TopicId::of_name("s").partition(0),
        TopicId::of_name("s again").partition(0),
    );
    let mut declared = config(&["y:0"], &[]);
    declared.inputs.push(new);
    let mut world = World::new(declared);
    let mut on_new = record("s:0", 0);
    on_new.channel = new;
    assert_eq!(world.feed(with_sender(on_new, "bob", 0)), ["s:0@0"]);
    let mut claim = clock(&[], &[("s:0", "bob", 40)]);
    claim.claim_offset(old, 99);
    assert_eq!(world.feed_claiming("y:0", 0, &claim), ["y:0@0"]);
    let mut claim_on_new = parsley_core::Clock::new();
    claim_on_new.claim_sequence(new, parsley_core::SenderId::of_name("bob"), 1);
    assert!(world.feed_claiming("y:0", 1, &claim_on_new).is_empty());
}

#[test]
fn b17_held_records_come_back_byte_for_byte_and_in_numeric_order() {
    let bytes = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    type Shape = (Option<Bytes>, Option<Bytes>, i64, Vec<Header>);
    let shapes: [Shape; 4] = [
        (None, None, -1, vec![]),
        (
            bytes(""),
            bytes(""),
            i64::MIN,
            vec![Header::new("h", "1"), Header::new("h", "2")],
        ),
        (
            bytes("k"),
            None,
            i64::MAX,
            vec![Header::null("n"), Header::new("", "")],
        ),
        (
            None,
            bytes("v"),
            0,
            vec![Header::new("h", ""), Header::null("h")],
        ),
    ];
    let waiting = claims(&[("w:0", 0), ("p:0", 3)]);
    let fed: Vec<Record> = (1..=300)
        .map(|offset| {
            let (key, value, timestamp_ms, headers) = shapes[offset % shapes.len()].clone();
            let mut fed = Record {
                channel: channel("x:0"),
                offset: offset as i64,
                timestamp_ms,
                key,
                value,
                headers,
            };
            if offset % 3 == 0 {
                fed = with_sender(fed, "alice", offset as i64);
            }
            with_clock(fed, &waiting)
        })
        .collect();
    for window_records in [1, 7, 1000] {
        let limits = NodeLimits {
            window_records,
            ..NodeLimits::default()
        };
        let declared = || parsley_core::NodeConfig {
            limits,
            ..config(&["w:0", "x:0"], &[])
        };
        let mut world = World::new(declared());
        for record in &fed {
            assert!(world.feed(record.clone()).is_empty());
        }
        let mut world =
            World::open(declared(), &OpenFacts::default(), world.stop()).expect("opens");
        assert_eq!(world.node.held(), 300);
        world.node.receive(record("w:0", 0)).expect("is accepted");
        let delivered = world.deliveries();
        assert_eq!(delivered.len(), 301);
        for (delivery, record) in delivered[1..].iter().zip(&fed) {
            assert_eq!(delivery.offset, record.offset);
            assert_eq!(
                (&delivery.key, &delivery.value),
                (&record.key, &record.value)
            );
            assert_eq!(delivery.timestamp_ms, record.timestamp_ms);
            assert_eq!(delivery.clock, wire::encode(&waiting));
            let application: Vec<&Header> = record
                .headers
                .iter()
                .filter(|header| !header.name.starts_with(b"vc"))
                .collect();
            assert_eq!(delivery.headers.iter().collect::<Vec<_>>(), application);
            assert!(delivery.was_held);
        }
    }
}

#[test]
fn b19_a_cascade_through_every_channel_is_one_drain() {
    let names: Vec<String> = (0..200).map(|i| format!("c{i}:0")).collect();
    let inputs: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(config(&inputs, &[]));
    for pair in names.windows(2) {
        assert!(
            world
                .feed_claiming(&pair[0], 0, &claims(&[(&pair[1], 0)]))
                .is_empty()
        );
    }
    let released = world.feed(record(&names[199], 0));
    let expected: Vec<String> = names.iter().rev().map(|name| format!("{name}@0")).collect();
    assert_eq!(released, expected);
}

#[test]
fn b19_what_a_lost_step_had_delivered_comes_again_in_the_same_order() {
    let declared = || config(&["a:0", "b:0", "c:0"], &[]);
    let mut world = World::new(declared());
    world.feed_claiming("a:0", 0, &claims(&[("b:0", 0)]));
    world.feed_claiming("b:0", 0, &claims(&[("c:0", 0)]));
    world.node.receive(record("c:0", 0)).expect("is accepted");
    let first = place(
        &world
            .node
            .next_delivery(&world.store)
            .expect("drains")
            .expect("c is deliverable"),
    );
    let second = place(
        &world
            .node
            .next_delivery(&world.store)
            .expect("drains")
            .expect("b is released"),
    );
    assert_eq!([first, second], ["c:0@0", "b:0@0"]);
    let mut again = World::open(declared(), &OpenFacts::default(), world.crash()).expect("opens");
    assert_eq!(again.feed(record("c:0", 0)), ["c:0@0", "b:0@0", "a:0@0"]);
}

#[test]
fn b20_what_another_process_says_it_delivered_satisfies_nothing() {
    let mut world = World::new(config(&["x:0", "y:0", "z:0"], &[]));
    world.feed_claiming("z:0", 0, &claims(&[("p:0", 3)]));
    assert!(
        world
            .feed_claiming("y:0", 0, &claims(&[("x:0", 0)]))
            .is_empty()
    );
    assert!(
        world
            .feed_claiming("z:0", 1, &claims(&[("x:0", 9)]))
            .is_empty(),
        "z's past names x, and is held itself"
    );
    let holds = world.holds();
    let waits: Vec<&Wait> = holds.iter().flat_map(|hold| &hold.waits).collect();
    assert_eq!(waits.len(), 2);
    for wait in waits {
        assert!(
            matches!(
                wait,
                Wait::Offset {
                    settled: None,
                    code: HoldCode::NotFetched,
                    ..
                }
            ),
            "{wait:?}"
        );
    }
}

#[test]
fn b21_every_cut_of_a_clock_refuses_the_record() {
    let whole = wire::encode(&clock(
        &[("p:0", 1), ("q:3", i64::MAX)],
        &[("p:0", "alice", 4)],
    ));
    for length in 0..whole.len() {
        let mut world = World::new(config(&["x:0"], &[]));
        let mut fed = record("x:0", 0);
        fed.headers
            .push(Header::new("vc", whole[..length].to_vec()));
        assert_eq!(
            refusal(world.node.receive(fed)).code,
            RefusalCode::CorruptClock,
            "{length} bytes"
        );
    }
}

#[test]
fn b23_reserved_headers_never_reach_the_application() {
    let mut world = World::new(config(&["x:0"], &[]));
    let mut fed = with_sender(with_clock(record("x:0", 0), &claims(&[])), "alice", 0);
    fed.headers.insert(1, Header::new("vc-later", "1"));
    fed.headers.insert(0, Header::new("trace", "t"));
    fed.headers.push(Header::new("vcx", "mine"));
    world.node.receive(fed).expect("is accepted");
    let names: Vec<Bytes> = world.deliveries()[0]
        .headers
        .iter()
        .map(|header| header.name.clone())
        .collect();
    assert_eq!(names, ["trace", "vcx"]);
}

#[test]
fn b24_the_boundaries_of_every_comparison() {
    const MAX: i64 = i64::MAX;
    // (start position of x, record fed on x, claim on x, delivered at once)
    let table = [
        (None, None, 0, false),
        (Some(0), None, 0, false),
        (Some(1), None, 0, true),
        (Some(1), None, 1, false),
        (Some(2), None, 1, true),
        (Some(MAX), None, MAX - 1, true),
        (Some(MAX), None, MAX, false),
        (None, Some(0), 0, true),
        (None, Some(0), 1, false),
        (None, Some(1), 0, true),
        (None, Some(1), 1, true),
        (None, Some(1), 2, false),
        (None, Some(MAX), MAX, true),
        (None, Some(MAX - 1), MAX, false),
    ];
    for (start, fed, claim, delivered) in table {
        let facts = OpenFacts {
            start: start
                .map(|start| (channel("x:0"), start))
                .into_iter()
                .collect(),
            ..OpenFacts::default()
        };
        let mut world =
            World::open(config(&["x:0", "y:0"], &[]), &facts, MemoryStore::new()).expect("opens");
        if let Some(offset) = fed {
            world.feed(record("x:0", offset));
        }
        let result = world.feed_claiming("y:0", 0, &claims(&[("x:0", claim)]));
        assert_eq!(
            !result.is_empty(),
            delivered,
            "start {start:?}, fed {fed:?}, claim {claim}"
        );
    }
    let mut world = World::new(config(&["x:0"], &[]));
    world.feed(record("x:0", MAX));
    assert_eq!(
        world.node.resume_positions(),
        [(channel("x:0"), MAX)],
        "saturates"
    );
    assert_eq!(
        refusal(world.node.receive(record("x:0", MAX))).code,
        RefusalCode::OutOfOrderFeed
    );
}

#[test]
fn b24_a_position_advance_covers_what_lies_below_it_and_no_more() {
    for (next, claim, delivered) in [(0, 0, false), (1, 0, true), (1, 1, false), (2, 1, true)] {
        let mut world = World::new(config(&["x:0", "y:0"], &[]));
        world.advance("x:0", next);
        let result = world.feed_claiming("y:0", 0, &claims(&[("x:0", claim)]));
        assert_eq!(!result.is_empty(), delivered, "next {next}, claim {claim}");
        assert_eq!(
            world
                .node
                .resume_positions()
                .iter()
                .any(|&(on, _)| on == channel("x:0")),
            next > 0
        );
    }
}

/// A deterministic world: records on six channels, each with claims a little behind or ahead of what was fed.
fn tangled_records() -> Vec<Record> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut next = [0_i64; 6];
    let mut records = Vec::new();
    for _ in 0..600 {
        let on = draw(6) as usize;
        next[on] += 1 + draw(3) as i64;
        let mut clock = parsley_core::Clock::new();
        for (other, &reached) in next.iter().enumerate() {
            if draw(3) == 0 {
                let offset = (reached + draw(6) as i64 - 4).max(0);
                clock.claim_offset(channel(&format!("c{other}:0")), offset);
            }
        }
        records.push(with_clock(record(&format!("c{on}:0"), next[on]), &clock));
    }
    records
}

fn tangled_config() -> parsley_core::NodeConfig {
    config(
        &["c0:0", "c1:0", "c2:0", "c3:0", "c4:0", "c5:0"],
        &[("s", 1)],
    )
}

/// What is delivered, and the stamp of a send after each step.
fn tangled_trace() -> String {
    let mut world = World::new(tangled_config());
    let mut trace = String::new();
    for record in tangled_records() {
        for delivered in world.feed(record) {
            trace.push_str(&delivered);
            trace.push('\n');
        }
        trace.push_str(&format!("{:?}\n", stamp_clock(&world.send("s:0"))));
    }
    trace
}

#[test]
fn b28_the_same_input_gives_the_same_trace_in_every_process_and_build() {
    let trace = tangled_trace();
    assert_eq!(trace, tangled_trace());
    let digest = parsley_core::Id::of_name(trace.as_bytes()).to_string();
    assert_eq!(
        digest, "b953465f-9604-31bb-8894-5be7a1ffaca0",
        "the digest of the trace that every build gives"
    );
}

#[test]
fn b28_killed_after_any_step_and_restored_the_order_stays() {
    let mut unbroken = World::new(tangled_config());
    let mut world = World::new(tangled_config());
    let mut held_over_a_restart = 0;
    for record in tangled_records() {
        let expected = unbroken.feed(record.clone());
        held_over_a_restart += usize::from(world.node.held() > 0);
        world = World::open(tangled_config(), &OpenFacts::default(), world.crash()).expect("opens");
        assert_eq!(world.feed(record), expected);
        assert_eq!(world.committed(), unbroken.committed());
    }
    assert!(
        held_over_a_restart > 100,
        "only {held_over_a_restart} restarts with records held"
    );
}

#[test]
fn b31_clocks_that_grow_are_refused_at_the_budget_before_anything_durable_carries_them() {
    let limits = NodeLimits {
        clock_budget_bytes: 4096,
        ..NodeLimits::default()
    };
    let mut world = World::new(parsley_core::NodeConfig {
        limits,
        ..config(&["x:0"], &[("s", 1)])
    });
    let mut clock = parsley_core::Clock::new();
    for partition in 0.. {
        clock.claim_offset(TopicId::of_name("wide").partition(partition), 1);
        let width = wire::encoded_len(clock.width(), 0);
        let fed = with_clock(record("x:0", partition.into()), &clock);
        let before = world.committed();
        if width <= 4096 {
            assert_eq!(world.feed(fed).len(), 1);
            continue;
        }
        let refused = refusal(world.node.receive(fed));
        assert_eq!(
            (refused.code, refused.offset),
            (RefusalCode::ClockTooWide, Some(partition.into()))
        );
        assert_eq!(world.committed(), before);
        assert_eq!(
            partition, 145,
            "146 claims of 28 bytes and 9 bytes around them are the first to exceed 4096"
        );
        break;
    }
}

#[test]
fn b32_a_redeploy_that_adds_an_input_feeds_it_from_behind_the_delivered_past() {
    let mut world = World::new(config(&["y:0"], &[]));
    world.feed_claiming("y:0", 0, &claims(&[("x:0", 9)]));
    let mut world = World::open(
        config(&["x:0", "y:0"], &[]),
        &OpenFacts::default(),
        world.stop(),
    )
    .expect("opens");
    assert_eq!(world.opened.resume, channels(&[("x:0", 10)]));
    assert_eq!(
        world.node.receive(record("x:0", 9)).expect("no refusal"),
        Receipt::Dropped
    );
    assert_eq!(world.feed(record("x:0", 10)), ["x:0@10"]);
}

#[test]
fn b32_a_redeploy_that_removes_an_input_keeps_its_past_in_the_stamp_and_drops_its_keys() {
    let mut world = World::new(config(&["x:0", "y:0"], &[("s", 1)]));
    world.feed(with_sender(record("x:0", 4), "alice", 0));
    let keys = |world: &World, channel: Channel| {
        world
            .keys()
            .into_iter()
            .filter(|key| key.contains(&channel.to_string()) && key != "scope")
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&world, channel("x:0")).len(), 2, "f and ds");
    let mut world = World::open(
        config(&["y:0"], &[("s", 1)]),
        &OpenFacts::default(),
        world.stop(),
    )
    .expect("opens");
    assert!(keys(&world, channel("x:0")).is_empty());
    assert_eq!(stamp_clock(&world.send("s:0")), claims(&[("x:0", 4)]));
}
