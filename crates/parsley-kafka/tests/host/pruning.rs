//! B14: claims that nobody needs any more are dropped, and not before those who hold something have been stopped.

use std::time::{Duration, Instant};

use kafka_cluster::Resource;
use parsley_core::{Channel, Clock, Header, SenderId, wire};
use parsley_kafka::{KafkaConfig, Status};
use parsley_stage::{App, Stage};

use crate::joining::*;
use crate::world::*;

/// Looks often for what was deleted, and waits little before it believes it.
fn forgetful(dir: &tempfile::TempDir) -> KafkaConfig {
    let mut config = watchful(dir);
    config.sweep_interval = Duration::from_millis(100);
    config.truncation_delay = Duration::from_secs(1);
    config
}

/// What others claim on a channel is deleted by retention, then an input goes with its topic, and nothing is held anywhere: stamps stop claiming what retention took,
/// the stage goes on, and nothing is refused. (What a stage was delivered of an input that it still declares stays its own claim.)
#[test]
fn b14_a_channel_that_dies_with_nothing_held_narrows_stamps_and_refuses_nothing() {
    let name = "dies-idle";
    let [a, b, out] = joining_topics(name);
    create_topic("dies-idle-far", 1);
    let plain = Foreign::plain();
    let (on_a, far) = (channel(&a, 0), channel("dies-idle-far", 0));
    plain.append("dies-idle-far", To::Key, &[("k", "v"); 3]);
    let dir = tempfile::tempdir().unwrap();
    let running = start(forgetful(&dir), &joining(name));
    plain.append_with(&a, To::Key, ("k", "1"), &stamp(&[(far, 2)], 0));
    let mut sent = 1;
    wait_for_deliveries(&running, sent);
    let claims_after = |sent: u64| {
        wait_until("its stamp", || read(&out).len() as u64 == sent);
        let (clock, ..) = stamp_of(read(&out).last().unwrap());
        [on_a, far].map(|channel| clock.offset(channel))
    };
    assert_eq!(claims_after(sent), [Some(0), Some(2)]);
    let mut deliver = || {
        plain.append(&b, To::Key, &[("k", "v")]);
        sent += 1;
        wait_for_deliveries(&running, sent);
        claims_after(sent)
    };
    delete_records("dies-idle-far", 0, 3);
    let begun = Instant::now();
    loop {
        match deliver() {
            [Some(0), Some(2)] => assert!(begun.elapsed() < BOUND, "the claim stays"),
            claims => break assert_eq!(claims, [Some(0), None]),
        }
    }
    delete_topic(&a);
    let checks = |status: &Status| status.workers[0].checks;
    let before = checks(&running.status());
    wait_for(&running, "checked", |status| checks(status) >= before + 2);
    assert_eq!(deliver(), [Some(0), None]);
    stop(&running);
    check_stamps(&out, name, "join", 1);
}

/// A clock from outside claimed on a partition that there is not: no sweep learned anything from then on, and no claim was dropped any more.
#[test]
fn b14_a_claim_on_a_partition_that_there_is_not_keeps_no_other_claim() {
    let name = "dies-nowhere";
    let [a, b, out] = joining_topics(name);
    create_topic("dies-nowhere-far", 1);
    let plain = Foreign::plain();
    let far = channel("dies-nowhere-far", 0);
    let nowhere = far.topic.partition(7);
    plain.append("dies-nowhere-far", To::Key, &[("k", "v"); 3]);
    let dir = tempfile::tempdir().unwrap();
    let running = start(forgetful(&dir), &joining(name));
    let claims = stamp(&[(far, 2), (nowhere, 5)], 0);
    plain.append_with(&a, To::Key, ("k", "1"), &claims);
    delete_records("dies-nowhere-far", 0, 3);
    let begun = Instant::now();
    for sent in 1.. {
        wait_for_deliveries(&running, sent);
        wait_until("its stamp", || read(&out).len() as u64 == sent);
        let (clock, ..) = stamp_of(read(&out).last().unwrap());
        assert_eq!(clock.offset(nowhere), Some(5), "it may be added");
        if clock.offset(far).is_none() {
            break;
        }
        assert!(begun.elapsed() < BOUND, "the claim stays");
        plain.append(&b, To::Key, &[("k", "v")]);
    }
    stop(&running);
}

/// Claims by sequence.
fn by_sequence(on: Channel, claimed: i64, sequence: i64) -> [Header; 3] {
    let (mut clock, sender) = (Clock::default(), SenderId::of_task("no", "body", 0));
    clock.claim_sequence(on, sender, claimed);
    let other = SenderId::of_task("somebody", "else", 0);
    wire::stamp_headers(wire::encode(&clock).into(), other, sequence)
}

/// A stage has taken up a claim by sequence on this channel, then `happens`, and then a record is held until high watermarks are learned. The stamp of what
/// it sends then.
fn stamp_behind_evidence(name: &str, claimed: Channel, happens: impl FnOnce()) -> Clock {
    let [a, b, out] = joining_topics(name);
    let plain = Foreign::plain();
    let dir = tempfile::tempdir().unwrap();
    let mut config = forgetful(&dir);
    // Nothing is dropped meanwhile.
    config.truncation_delay = Duration::from_secs(3_600);
    let running = start(config, &joining(name));
    plain.append_with(&a, To::Key, ("k", "1"), &by_sequence(claimed, 3, 0));
    plain.append(&b, To::Key, &[("k", "v")]);
    wait_for_deliveries(&running, 2);
    // By then the name of the topic is known.
    let sweeps = |status: &Status| status.workers[0].sweeps;
    let before = sweeps(&running.status());
    wait_for(&running, "swept", |status| sweeps(status) >= before + 2);
    happens();
    let waits = by_sequence(channel(&b, 0), 4, 1);
    plain.append_with(&a, To::Key, ("k", "2"), &waits);
    wait_for_deliveries(&running, 3);
    stop(&running);
    let sent = read(&out);
    assert_eq!(sent.len(), 3);
    stamp_of(&sent[2]).0
}

fn claims_by_sequence_alone(clock: &Clock, on: Channel) -> bool {
    let by_sequence = clock.sequences().iter().any(|claim| claim.channel == on);
    by_sequence && clock.offset(on).is_none()
}

/// A claim by sequence on a partition that there is not kept every other question about high watermarks from being asked, and what waits for their answers
/// was held for good.
#[test]
fn a_claim_on_a_partition_that_there_is_not_keeps_no_evidence_from_what_is_held() {
    create_topic("waits-nowhere-far", 1);
    let nowhere = channel("waits-nowhere-far", 0).topic.partition(7);
    let stamp = stamp_behind_evidence("waits-nowhere", nowhere, || {});
    assert!(claims_by_sequence_alone(&stamp, nowhere), "{stamp:?}");
}

/// Nor does one on a topic that is denied by now.
#[test]
fn a_claim_on_a_topic_that_is_denied_keeps_no_evidence_from_what_is_held() {
    create_topic("waits-denied-far", 1);
    let far = channel("waits-denied-far", 0);
    let stamp = stamp_behind_evidence("waits-denied", far, || {
        broker().deny(Resource::Topic("waits-denied-far")).unwrap();
    });
    assert!(claims_by_sequence_alone(&stamp, far), "{stamp:?}");
}

/// High watermarks are asked for by name. That of a topic made again under the name says nothing of what was sent to the one before: with it, a stamp would
/// claim less.
#[test]
fn the_end_of_a_topic_that_was_made_again_is_no_evidence_of_the_one_before() {
    create_topic("waits-again-far", 1);
    let far = channel("waits-again-far", 0);
    let stamp = stamp_behind_evidence("waits-again", far, || {
        make_again("waits-again-far");
        Foreign::plain().append("waits-again-far", To::Key, &[("k", "v")]);
    });
    assert!(claims_by_sequence_alone(&stamp, far), "{stamp:?}");
}

/// Sends what comes on `<name>-triggers` to the topic of that name that its value names.
fn relaying(name: &str) -> App {
    let topic = |part: &str| text_topic(&format!("{name}-{part}"));
    let (b, probes) = (topic("b"), topic("probes"));
    let relay = Stage::stateless("relay")
        .sink(&b)
        .sink(&probes)
        .on(&topic("triggers"), move |message, out| {
            let sink = if message.value == "b" { &b } else { &probes };
            out.send(sink, &message.key, &message.value)
        })
        .build()
        .unwrap();
    App::named(format!("{name}-relay"))
        .stage(relay)
        .build()
        .unwrap()
}

/// Who holds a record that retention has passed is stopped (G10) before what claims on it no more can reach it: by then it has delivered nothing.
#[test]
fn b14_who_holds_is_stopped_before_anybody_stops_claiming() {
    let name = "dies-held";
    let [a, b, out] = joining_topics(name);
    let (triggers, probes) = (format!("{name}-triggers"), format!("{name}-probes"));
    for topic in [&triggers, &probes] {
        create_topic(topic, 1);
    }
    let (plain, on_a) = (Foreign::plain(), channel(&a, 0));
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let holder = start(forgetful(&dirs[0]), &joining(name));
    let relay = start(forgetful(&dirs[1]), &relaying(name));
    let waits = stamp(&[(channel(&b, 0), 50)], 0);
    plain.append_with(&a, To::Key, ("k", "held"), &waits);
    wait_until_held(&holder, 1);
    let claim_of_probe = |probed: u64, headers: &[Header]| {
        plain.append_with(&triggers, To::Key, ("k", "probe"), headers);
        wait_for_deliveries(&relay, probed);
        wait_until("the probe", || read(&probes).len() as u64 == probed);
        let (clock, ..) = stamp_of(read(&probes).last().unwrap());
        clock.offset(on_a)
    };
    assert_eq!(claim_of_probe(1, &stamp(&[(on_a, 0)], 0)), Some(0));
    delete_records(&a, 0, 1);
    let begun = Instant::now();
    let mut probed = 2;
    while claim_of_probe(probed, &[]).is_some() {
        assert!(begun.elapsed() < BOUND, "the claim stays");
        probed += 1;
    }
    plain.append(&triggers, To::Key, &[("k", "b")]);
    wait_until("what claims nothing", || read(&b).len() == 1);
    assert_eq!(stamp_of(&read(&b)[0]).0.offset(on_a), None);
    assert_eq!(wait_for_refusal(&holder).0, "vc-positions-lost");
    holder.stop();
    stop(&relay);
    assert_eq!(values(&out), [""; 0]);
}
