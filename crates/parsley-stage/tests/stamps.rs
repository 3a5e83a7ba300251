//! What the sends of a task claim, judged by a receiver that is fed them in the wrong order.

mod support;

use std::collections::BTreeMap;

use parsley_core::{
    Header, MemoryStore, Node, NodeConfig, NodeLimits, OpenFacts, Record, SenderId, TopicId, wire,
};
use parsley_stage::{Message, Outbox, Outcome, SendOrder, Stage, TaskConfig, Topic, codec};
use support::{Host, Log, claimed_offset, claims, clock_of, headers};

fn text(name: &str) -> Topic<String, String> {
    Topic::new(name, codec::string(), codec::string())
}

/// A receiver of both records' channels, fed `then` first, holds it until it was fed `first`.
fn assert_ordered(first: &Record, then: &Record) {
    let config = NodeConfig {
        sender: SenderId::of_name("receiver"),
        inputs: vec![first.channel, then.channel],
        sinks: vec![],
        limits: NodeLimits::default(),
    };
    let mut store = MemoryStore::new();
    let (mut node, _) = Node::open(config, &OpenFacts::default(), &mut store).unwrap();
    node.receive(then.clone()).unwrap();
    assert_eq!(
        node.next_delivery(&store).unwrap(),
        None,
        "{then:?} does not wait for {first:?}"
    );
    node.receive(first.clone()).unwrap();
    let mut next = || {
        node.next_delivery(&store)
            .unwrap()
            .map(|delivery| (delivery.channel, delivery.offset))
    };
    assert_eq!(next(), Some((first.channel, first.offset)));
    assert_eq!(next(), Some((then.channel, then.offset)));
}

/// Logic that sends to the topics that the message's value names, separated by commas. A topic of two partitions is written with the key
/// behind a colon.
fn directed(
    topics: &[&str],
) -> impl Fn(Message<String, String>, &mut Outbox) -> Outcome + Clone + Send + Sync + 'static {
    let topics: BTreeMap<String, Topic<String, String>> = topics
        .iter()
        .map(|&name| (name.to_owned(), text(name)))
        .collect();
    move |message, out| {
        for target in message.value.split(',').filter(|target| !target.is_empty()) {
            let (name, key) = target.split_once(':').unwrap_or((target, "k"));
            out.send(&topics[name], &key.to_owned(), &message.value)?;
        }
        Ok(())
    }
}

fn directed_stage(inputs: &[&str], sinks: &[&str], order: SendOrder) -> Stage {
    let mut stage = Stage::stateless("a").send_order(order);
    for sink in sinks {
        stage = stage.sink(&text(sink));
    }
    for input in inputs {
        stage = stage.on(&text(input), directed(sinks));
    }
    stage.build().unwrap()
}

/// Feeds one record with this value to the host's stage, in a step of its own.
fn command(host: &mut Host, log: &mut Log, input: &str, value: &str) {
    log.produce(&text(input), &"k".into(), &value.into(), vec![]);
    host.run(log, &[input]).unwrap();
}

fn both_ways(test: impl Fn(bool)) {
    test(true);
    test(false);
}

#[test]
fn b05_sends_of_one_step_to_two_sinks_are_ordered() {
    both_ways(|offsets_known| {
        let mut log = Log::new(&[("x", 1), ("y", 1), ("z", 1)]);
        let mut host = Host::new(&directed_stage(&["x"], &["y", "z"], SendOrder::PerKey));
        host.offsets_known = offsets_known;
        host.open(&log).unwrap();
        command(&mut host, &mut log, "x", "y,z");
        assert_ordered(&log.of("y")[0], &log.of("z")[0]);
        let claims = clock_of(&log.of("z")[0]).sequences().len();
        assert_eq!(
            claims,
            usize::from(!offsets_known),
            "an acknowledged offset is claimed as such"
        );
    });
}

#[test]
fn b05_sends_of_one_key_in_one_step_are_ordered() {
    both_ways(|offsets_known| {
        let mut log = Log::new(&[("x", 1), ("y", 1), ("z", 1)]);
        let mut host = Host::new(&directed_stage(&["x"], &["y", "z"], SendOrder::PerKey));
        host.offsets_known = offsets_known;
        host.open(&log).unwrap();
        log.produce(&text("x"), &"k".into(), &"y".into(), vec![]);
        command(&mut host, &mut log, "x", "z");
        assert_ordered(&log.of("y")[0], &log.of("z")[0]);
    });
}

#[test]
fn b05_sends_of_one_step_to_two_partitions_of_a_topic_are_ordered() {
    both_ways(|offsets_known| {
        let mut log = Log::new(&[("x", 1), ("y", 2)]);
        let (first, second) = (log.channel("y", 0), log.channel("y", 1));
        let key_of = |partition| {
            let keys = (0..100).map(|n| format!("key{n}"));
            let mut fitting = keys.filter(|key| {
                parsley_stage::partition::partition_of(Some(key.as_bytes()), 2) == partition
            });
            fitting.next().unwrap()
        };
        let mut host = Host::new(&directed_stage(&["x"], &["y"], SendOrder::PerKey));
        host.offsets_known = offsets_known;
        host.open(&log).unwrap();
        command(
            &mut host,
            &mut log,
            "x",
            &format!("y:{},y:{}", key_of(0), key_of(1)),
        );
        assert_ordered(&log.records[&first][0], &log.records[&second][0]);
        command(
            &mut host,
            &mut log,
            "x",
            &format!("y:{},y:{}", key_of(1), key_of(0)),
        );
        assert_eq!(
            claimed_offset(&log.records[&first][1], second).is_some(),
            offsets_known
        );
        let clock = clock_of(&log.records[&first][1]);
        assert_eq!(
            clock
                .sequences()
                .iter()
                .any(|claim| claim.channel == second),
            !offsets_known
        );
    });
}

#[test]
fn b05_sends_of_two_steps_are_ordered_with_and_without_a_restart_between_them() {
    both_ways(|offsets_known| {
        for restart in [false, true] {
            let mut log = Log::new(&[("x", 1), ("y", 1), ("z", 1)]);
            let stage = directed_stage(&["x"], &["y", "z"], SendOrder::PerDelivery);
            let mut host = Host::new(&stage);
            host.offsets_known = offsets_known;
            host.open(&log).unwrap();
            command(&mut host, &mut log, "x", "y");
            if restart {
                host.redeploy(&stage);
                host.open(&log).unwrap();
            }
            command(&mut host, &mut log, "x", "z");
            assert_ordered(&log.of("y")[0], &log.of("z")[0]);
        }
    });
}

#[test]
fn b05_sends_are_ordered_across_a_declaration_that_drops_an_input() {
    both_ways(|offsets_known| {
        let mut log = Log::new(&[("x", 1), ("w", 1), ("y", 1), ("z", 1)]);
        let mut host = Host::new(&directed_stage(&["x", "w"], &["y", "z"], SendOrder::PerKey));
        host.offsets_known = offsets_known;
        host.open(&log).unwrap();
        command(&mut host, &mut log, "x", "y");
        host.redeploy(&directed_stage(&["w"], &["y", "z"], SendOrder::PerKey));
        host.open(&log).unwrap();
        command(&mut host, &mut log, "w", "z");
        assert_ordered(&log.of("y")[0], &log.of("z")[0]);
        assert_ordered(&log.of("x")[0], &log.of("z")[0]);
    });
}

#[test]
fn b05_sends_are_ordered_across_a_declaration_that_drops_the_sink() {
    both_ways(|offsets_known| {
        let mut log = Log::new(&[("x", 1), ("y", 1), ("z", 1)]);
        let mut host = Host::new(&directed_stage(&["x"], &["y", "z"], SendOrder::PerKey));
        host.offsets_known = offsets_known;
        host.open(&log).unwrap();
        command(&mut host, &mut log, "x", "y");
        host.redeploy(&directed_stage(&["x"], &["z"], SendOrder::PerKey));
        host.open(&log).unwrap();
        command(&mut host, &mut log, "x", "z");
        assert_ordered(&log.of("y")[0], &log.of("z")[0]);
    });
}

#[test]
fn b05_a_relay_that_does_not_read_the_origin_passes_its_order_on() {
    let mut log = Log::new(&[("x", 1), ("y", 1), ("z", 1)]);
    let mut first = Host::new(&directed_stage(&["x"], &["y"], SendOrder::PerKey));
    let relay = Stage::stateless("relay")
        .sink(&text("z"))
        .on(&text("y"), |message, out| {
            out.send(&text("z"), &message.key, &message.value)
        });
    let mut relay = Host::new(&relay.build().unwrap());
    first.open(&log).unwrap();
    relay.open(&log).unwrap();
    command(&mut first, &mut log, "x", "y");
    relay.run(&mut log, &["y"]).unwrap();
    assert_ordered(&log.of("x")[0], &log.of("z")[0]);
    assert_ordered(&log.of("y")[0], &log.of("z")[0]);
}

#[test]
fn sends_of_different_keys_in_one_step_do_not_claim_each_other() {
    let mut log = Log::new(&[("x", 1), ("y", 1), ("z", 1)]);
    let mut host = Host::new(&directed_stage(&["x"], &["y", "z"], SendOrder::PerKey));
    host.open(&log).unwrap();
    log.produce(&text("x"), &"k".into(), &"y".into(), vec![]);
    log.produce(&text("x"), &"l".into(), &"z".into(), vec![]);
    host.run(&mut log, &["x"]).unwrap();
    assert_eq!(claimed_offset(&log.of("z")[0], log.channel("y", 0)), None);
    assert_eq!(
        claimed_offset(&log.of("z")[0], log.channel("x", 0)),
        Some(1)
    );
}

#[test]
fn a_stamp_of_the_first_round_covers_what_was_delivered_and_no_more() {
    let mut log = Log::new(&[("x", 1), ("y", 1)]);
    let mut host = Host::new(&directed_stage(&["x"], &["y"], SendOrder::PerKey));
    host.open(&log).unwrap();
    for _ in 0..3 {
        log.produce(&text("x"), &"k".into(), &"y".into(), vec![]);
    }
    host.run(&mut log, &["x"]).unwrap();
    let claimed: Vec<_> = log
        .of("y")
        .iter()
        .map(|sent| claimed_offset(sent, log.channel("x", 0)))
        .collect();
    assert_eq!(claimed, [Some(0), Some(1), Some(2)]);
}

#[test]
fn p15_one_delivery_that_emits_to_two_partitions_in_turn_is_one_step_of_ten_rounds() {
    let mut log = Log::new(&[("x", 1), ("y", 1), ("z", 1)]);
    let (y, z) = (log.channel("y", 0), log.channel("z", 0));
    let mut host = Host::new(&directed_stage(&["x"], &["y", "z"], SendOrder::PerDelivery));
    host.open(&log).unwrap();
    log.produce(
        &text("x"),
        &"k".into(),
        &"y,z,y,z,y,z,y,z,y,z".into(),
        vec![],
    );
    log.produce(&text("x"), &"l".into(), &"y".into(), vec![]);
    host.feed(&log, &["x"]).unwrap();
    let processed = host.task().process_next().unwrap().unwrap();
    assert_eq!((processed.offset, processed.sends), (0, 10));
    assert!(host.task().step_is_full());
    assert_eq!(host.task().step_rounds(), 10);
    assert_eq!(
        host.task().process_next().unwrap(),
        None,
        "the second delivery belongs to the next step"
    );
    let mut sends = host.task().take_sends();
    let mut rounds = 1;
    while host.task().has_later_rounds() {
        let acks: BTreeMap<_, _> = sends
            .iter()
            .map(|send| (send.channel, send.round as i64 / 2))
            .collect();
        host.task().fence(&Vec::from_iter(acks)).unwrap();
        let round = host.task().take_sends();
        assert_eq!(round.len(), 1);
        assert_eq!(round[0].round, rounds);
        sends.extend(round);
        rounds += 1;
    }
    assert_eq!(rounds, 10);
    for (round, send) in sends.iter().enumerate() {
        let (own, other) = if round % 2 == 0 { (y, z) } else { (z, y) };
        assert_eq!(send.channel, own);
        let claim = wire::decode(send.headers[0].value.as_deref().unwrap())
            .unwrap()
            .into_clock();
        let on_other = claim
            .offsets()
            .iter()
            .find(|claim| claim.channel == other)
            .map(|claim| claim.offset);
        let expected = (round > 0).then(|| (round as i64 - 1) / 2);
        assert_eq!(on_other, expected, "round {round}");
    }
    let _committed = host.task().finish_step(&[(y, 4), (z, 4)]).unwrap();
    host.task().step_committed();
    assert!(!host.task().step_is_full());
    assert_eq!(host.task().step_rounds(), 0);
    assert_eq!(host.task().process_next().unwrap().unwrap().offset, 1);
}

#[test]
fn a_step_ends_after_the_delivery_that_reaches_the_limits() {
    let full_after = |config: fn(&mut TaskConfig)| {
        let mut log = Log::new(&[("x", 1), ("y", 1), ("z", 1)]);
        let mut host =
            Host::new(&directed_stage(&["x"], &["y", "z"], SendOrder::PerKey)).configured(config);
        host.open(&log).unwrap();
        for value in ["", "y", "z", "y", "z", "y"] {
            log.produce(&text("x"), &"k".into(), &value.into(), vec![]);
        }
        host.feed(&log, &["x"]).unwrap();
        let mut deliveries = 0;
        while !host.task().step_is_full() && host.task().process_next().unwrap().is_some() {
            deliveries += 1;
        }
        assert_eq!(host.task().step_deliveries(), deliveries);
        deliveries
    };
    assert_eq!(full_after(|_| {}), 6);
    assert_eq!(full_after(|config| config.max_rounds = 3), 4);
    assert_eq!(full_after(|config| config.max_rounds = 1), 2);
    assert_eq!(
        full_after(|config| config.max_rounds = 0),
        2,
        "a limit below 1 is 1"
    );
    assert_eq!(full_after(|config| config.max_step_deliveries = 5), 5);
    assert_eq!(
        full_after(|config| config.max_step_deliveries = 0),
        1,
        "a limit below 1 is 1"
    );
}

#[test]
fn b23_copying_every_incoming_header_leaves_exactly_one_fresh_stamp() {
    let out = text("out");
    let stage = Stage::stateless("copier")
        .sink(&out)
        .on(&text("in"), move |message, outbox| {
            outbox
                .to(&out)
                .headers(&message.headers)
                .send(&message.key, &message.value)
        })
        .build()
        .unwrap();
    let mut log = Log::new(&[("in", 1), ("out", 1)]);
    let elsewhere = TopicId::of_name("elsewhere").partition(0);
    let application = [
        Header::new("a", "1"),
        Header::null("b"),
        Header::new("a", "2"),
    ];
    let stamp = wire::stamp_headers(
        claims(&[(elsewhere, 7)])[0].value.clone().unwrap(),
        SenderId::of_name("someone"),
        41,
    );
    let mut incoming = application.to_vec();
    incoming.extend(stamp);
    incoming.push(Header::new("vc-of-a-later-version", "?"));
    log.produce(&text("in"), &"k".into(), &"v".into(), incoming);
    let mut host = Host::new(&stage);
    host.open(&log).unwrap();
    host.run(&mut log, &["in"]).unwrap();

    let sent = &log.of("out")[0];
    assert_eq!(sent.headers.len(), 6);
    assert_eq!(sent.headers[..3], application);
    for name in [
        wire::CLOCK_HEADER,
        wire::SENDER_HEADER,
        wire::SEQUENCE_HEADER,
    ] {
        assert_eq!(headers(sent, name).len(), 1, "{name}");
    }
    assert_eq!(
        headers(sent, wire::SENDER_HEADER)[0],
        host.task().sender().0.uuid().as_bytes()[..]
    );
    assert_eq!(support::sequence_of(sent), 0);
    assert_eq!(claimed_offset(sent, log.channel("in", 0)), Some(0));
    assert_eq!(
        claimed_offset(sent, elsewhere),
        Some(7),
        "what the record claimed is passed on in the stamp"
    );
}

#[test]
fn the_sender_identity_is_that_of_application_stage_and_partition() {
    let log = Log::new(&[("x", 12), ("y", 1)]);
    let stage = Stage::stateless("settle")
        .on(&text("x"), |_, _| Ok(()))
        .build()
        .unwrap();
    let mut host = Host::of_partition(&stage, 11);
    host.open(&log).unwrap();
    assert_eq!(
        host.task().sender().to_string(),
        "1dba284c-e704-3e8a-b89c-19dbaec547ce"
    );
    assert_eq!(
        host.task().inputs().collect::<Vec<_>>(),
        [(log.channel("x", 11), "x")]
    );
}

#[test]
fn an_emission_has_the_deliverys_timestamp_unless_it_sets_one() {
    let out = text("out");
    let stage = Stage::stateless("s")
        .sink(&out)
        .on(&text("in"), move |message, outbox| {
            outbox.send(&out, &message.key, &"inherited".into())?;
            outbox
                .to(&out)
                .timestamp(-5)
                .send(&message.key, &"set".into())
        });
    let mut log = Log::new(&[("in", 1), ("out", 1)]);
    log.produce(&text("in"), &"k".into(), &"a".into(), vec![]);
    log.produce(&text("in"), &"k".into(), &"b".into(), vec![]);
    let mut host = Host::new(&stage.build().unwrap());
    host.open(&log).unwrap();
    host.run(&mut log, &["in"]).unwrap();
    assert_eq!(
        log.of("out")
            .iter()
            .map(|sent| sent.timestamp_ms)
            .collect::<Vec<_>>(),
        [1000, -5, 1001, -5]
    );
}

#[test]
fn keys_choose_the_partition_and_a_null_key_chooses_0() {
    let out = Topic::new("out", codec::nullable(codec::string()), codec::null());
    let stage = Stage::stateless("s")
        .sink(&out)
        .on(&text("in"), move |_, outbox| {
            for key in [Some("21"), Some("foobar"), Some("abc"), None] {
                outbox.send(&out, &key.map(str::to_owned), &())?;
            }
            Ok(())
        });
    let mut log = Log::new(&[("in", 1), ("out", 5)]);
    log.produce(&text("in"), &"k".into(), &"v".into(), vec![]);
    let mut host = Host::new(&stage.build().unwrap());
    host.open(&log).unwrap();
    host.run(&mut log, &["in"]).unwrap();
    let partition_of = |key: Option<&[u8]>| {
        let sent = log
            .records
            .values()
            .flatten()
            .find(|record| record.value.is_none() && record.key.as_deref() == key);
        sent.unwrap().channel.partition
    };
    let expected = |hash: i32| (hash & i32::MAX) % 5;
    assert_eq!(partition_of(Some(b"21")), expected(-973_932_308));
    assert_eq!(partition_of(Some(b"foobar")), expected(-790_332_482));
    assert_eq!(partition_of(Some(b"abc")), expected(479_470_107));
    assert_eq!(partition_of(None), 0);
}
