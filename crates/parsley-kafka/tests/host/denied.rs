//! B13: what the cluster does not tell is not taken for an answer. Access is denied and given back by real access rules.

use std::time::Duration;

use kafka_cluster::{Operation, Resource};
use parsley_core::{Channel, TopicId};
use parsley_kafka::{KafkaConfig, KafkaRunning, Status, WorkerState};
use parsley_stage::{App, Stage};

use crate::world::*;

/// Looks often for what was deleted, and waits little before it believes it.
fn watchful(dir: &tempfile::TempDir) -> KafkaConfig {
    let mut config = config(dir);
    config.check_interval = Duration::from_millis(100);
    config.sweep_interval = Duration::from_millis(100);
    config.truncation_delay = Duration::from_millis(300);
    config
}

fn deny(topic: &str) {
    broker().deny(Resource::Topic(topic)).unwrap();
}

fn allow(topic: &str) {
    broker().allow(Resource::Topic(topic)).unwrap();
}

/// `<name>-in` to `<name>-<sink>`.
fn copying_to(name: &str, sink: &str) -> App {
    let (input, sink) = (
        text_topic(&format!("{name}-in")),
        text_topic(&format!("{name}-{sink}")),
    );
    let copy = Stage::stateless("copy")
        .sink(&sink)
        .on(&input, move |message, out| {
            out.send(&sink, &message.key, &message.value)
        })
        .build()
        .unwrap();
    App::named(name).stage(copy).build().unwrap()
}

/// Runs until one more record is delivered.
fn deliver_one(app: &App, dir: &tempfile::TempDir, input: &str, value: &str) {
    let running = start(config(dir), app);
    Foreign::plain().append(input, To::Key, &[("k", value)]);
    wait_for_deliveries(&running, 1);
    stop(&running);
}

fn claim_of_last(topic: &str, channel: Channel) -> Option<i64> {
    stamp_of(read(topic).last().unwrap()).0.offset(channel)
}

fn is_retrying(status: &Status, words: &str) -> bool {
    status.workers.iter().any(|worker| {
        matches!(&worker.state, WorkerState::Retrying { message, .. } if message.contains(words))
    })
}

/// A sink of the declaration before that the application may not see any more: it was taken for gone, and the first stamps did not claim
/// what had been sent to it.
#[test]
fn b13_a_removed_sink_that_is_denied_holds_the_start() {
    let name = "denied-sink";
    for part in ["in", "one", "two"] {
        create_topic(&format!("{name}-{part}"), 1);
    }
    let dir = tempfile::tempdir().unwrap();
    let (input, one) = ("denied-sink-in", "denied-sink-one");
    deliver_one(&copying_to(name, "one"), &dir, input, "1");
    let old = channel(one, 0);
    deny(one);
    // Neither with the state at hand nor with that of the changelog, which knows the topic's name as well.
    for dir in [dir, tempfile::tempdir().unwrap()] {
        let running = start(config(&dir), &copying_to(name, "two"));
        wait_for(&running, "held", |status| {
            is_retrying(status, one) && is_retrying(status, "Describe")
        });
        running.stop();
    }
    assert_eq!(values("denied-sink-two"), [""; 0]);
    allow(one);
    let dir = tempfile::tempdir().unwrap();
    deliver_one(&copying_to(name, "two"), &dir, input, "2");
    // Its end, a marker included.
    assert_eq!(claim_of_last("denied-sink-two", old), Some(1));
}

/// The same sink, deleted while nothing ran: its name is known, and the cluster says that there is none. Also when a new topic has its name.
#[test]
fn a_removed_sink_that_was_deleted_is_gone() {
    for (name, is_made_again) in [("deleted-sink", false), ("again-sink", true)] {
        for part in ["in", "one", "two"] {
            create_topic(&format!("{name}-{part}"), 1);
        }
        let (input, one) = (format!("{name}-in"), format!("{name}-one"));
        let dir = tempfile::tempdir().unwrap();
        deliver_one(&copying_to(name, "one"), &dir, &input, "1");
        let old = channel(&one, 0);
        delete_topic(&one);
        if is_made_again {
            create_topic(&one, 1);
        }
        let dir = tempfile::tempdir().unwrap();
        deliver_one(&copying_to(name, "two"), &dir, &input, "2");
        let two = format!("{name}-two");
        assert_eq!(claim_of_last(&two, old), None);
        assert_eq!(values(&two), ["2"]);
    }
}

fn wait_for_sweeps(running: &KafkaRunning, more: u64) {
    let sweeps = |status: &Status| status.workers[0].sweeps;
    let before = sweeps(&running.status());
    wait_for(running, "swept", |status| sweeps(status) >= before + more);
}

/// A topic that this stage has nothing to do with, which its stamps claim on, as what it consumes came of it.
#[test]
fn b13_claims_on_a_topic_that_is_denied_stay_and_those_on_a_dead_one_go() {
    let name = "denied-origin";
    let (input, output) = copying_topics(name, 1);
    create_topic("denied-origin-far", 1);
    create_topic("denied-origin-dead", 1);
    let plain = Foreign::plain();
    for topic in ["denied-origin-far", "denied-origin-dead"] {
        plain.append(topic, To::Key, &[("k", "v"); 3]);
    }
    let (far, dead) = (
        channel("denied-origin-far", 0),
        channel("denied-origin-dead", 0),
    );
    let never = TopicId::of_name("denied-origin-never").partition(0);
    let dir = tempfile::tempdir().unwrap();
    let running = start(watchful(&dir), &copying(name));
    let stamped = stamp(&[(far, 2), (dead, 2), (never, 2)], 0);
    plain.append_with(&input, To::Key, ("k", "1"), &stamped);
    wait_for_deliveries(&running, 1);
    // The names are known by now.
    wait_for_sweeps(&running, 1);
    deny("denied-origin-far");
    delete_topic("denied-origin-dead");
    let mut sent = 1;
    loop {
        wait_for_sweeps(&running, 5);
        plain.append(&input, To::Key, &[("k", "v")]);
        sent += 1;
        wait_for_deliveries(&running, sent);
        let (clock, ..) = stamp_of(read(&output).last().unwrap());
        assert_eq!(clock.offset(far), Some(2), "denied");
        assert_eq!(clock.offset(never), Some(2), "never heard of");
        if clock.offset(dead).is_none() {
            break;
        }
        assert!(sent < 100, "claims on a topic that is gone stay");
    }
    // Deleted as well, and the cluster tells: known by its name.
    allow("denied-origin-far");
    delete_topic("denied-origin-far");
    loop {
        wait_for_sweeps(&running, 5);
        plain.append(&input, To::Key, &[("k", "v")]);
        sent += 1;
        wait_for_deliveries(&running, sent);
        if claim_of_last(&output, far).is_none() {
            break;
        }
        assert!(sent < 200, "claims on a topic that is gone stay");
    }
    stop(&running);
}

/// The check that others rely on is not answered for longer than they wait: deliveries stop, nothing is refused, and they go on when it is.
#[test]
fn b13_deliveries_wait_while_the_cluster_does_not_answer_checks() {
    let name = "denied-check";
    let (input, output) = copying_topics(name, 1);
    let plain = Foreign::plain();
    let dir = tempfile::tempdir().unwrap();
    let running = start(watchful(&dir), &copying(name));
    plain.append(&input, To::Key, &[("k", "1")]);
    wait_for_deliveries(&running, 1);
    // A stateless stage does not write to it, but has to know that it is there.
    let changelog = "denied-check-copy-fold-changelog";
    deny(changelog);
    wait_for(&running, "unchecked", |status| {
        status.workers[0].state == WorkerState::Unchecked && status.workers[0].unanswered > 0
    });
    plain.append(&input, To::Key, &[("k", "2")]);
    wait_for(&running, "taken in", |status| {
        status.tasks().any(|(_, _, task)| task.received == 2)
    });
    let status = running.status();
    assert_eq!(status.delivered(), 1, "{status:#?}");
    assert!(status.refused().is_empty(), "{status:#?}");
    allow(changelog);
    wait_for_deliveries(&running, 2);
    wait_for(&running, "running", |status| {
        status.workers[0].state == WorkerState::Running
    });
    stop(&running);
    assert_eq!(values(&output), ["1", "2"]);
}

/// An input that the application may not read for a while is a delay.
#[test]
fn b13_an_input_that_is_denied_is_waited_for() {
    let name = "denied-input";
    let (input, output) = copying_topics(name, 1);
    let plain = Foreign::plain();
    let dir = tempfile::tempdir().unwrap();
    plain.append(&input, To::Key, &[("k", "1")]);
    deny(&input);
    let running = start(watchful(&dir), &copying(name));
    wait_for(&running, "held", |status| is_retrying(status, &input));
    allow(&input);
    wait_for_deliveries(&running, 1);
    deny(&input);
    wait_for(&running, "held", |status| is_retrying(status, &input));
    allow(&input);
    plain.append(&input, To::Key, &[("k", "2")]);
    wait_for_deliveries(&running, 2);
    stop(&running);
    assert_eq!(values(&output), ["1", "2"]);
}

/// Waits until the status says that something is denied: what, of which name, and what to grant.
fn wait_until_denied(running: &KafkaRunning, denial: &str, grant: &str) {
    wait_for(running, grant, |status| {
        is_retrying(status, denial) && is_retrying(status, grant)
    });
}

/// Records that are denied on their way were told of as purged, changelogs and inputs that may be described and not read as nothing at all, and so was a group. The
/// stage stood still, and its status had no reason.
#[test]
fn b13_a_denial_names_what_is_denied_and_what_to_grant() {
    let name = "denied-named";
    let (input, output) = copying_topics(name, 1);
    let (group, changelog) = ("denied-named-copy", "denied-named-copy-state-changelog");
    let plain = Foreign::plain();
    let mut expected = Vec::new();
    let mut append = || {
        let value = expected.len().to_string();
        plain.append(&input, To::Key, &[("k", &value)]);
        expected.push(value);
        expected.len() as u64
    };
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &copying(name));
    let count = append();
    wait_for_deliveries(&running, count);

    // While it runs.
    let (topic, group_denied) = ("Topic authorization failed", "Group authorization failed");
    let output_resource = Resource::Topic(&output);
    broker()
        .deny_one(output_resource, Operation::Write)
        .unwrap();
    let count = append();
    wait_until_denied(&running, topic, "grant Write on topic denied-named-out");
    broker()
        .allow_one(output_resource, Operation::Write)
        .unwrap();
    wait_for_deliveries(&running, count);
    let of_group = "grant Read and Describe on group denied-named-copy";
    broker().deny(Resource::Group(group)).unwrap();
    let count = append();
    wait_until_denied(&running, group_denied, of_group);
    broker().allow(Resource::Group(group)).unwrap();
    wait_for_deliveries(&running, count);
    let input_resource = Resource::Topic(&input);
    broker().deny_one(input_resource, Operation::Read).unwrap();
    let count = append();
    wait_until_denied(&running, topic, "grant Read on topic denied-named-in");
    broker().allow_one(input_resource, Operation::Read).unwrap();
    wait_for_deliveries(&running, count);
    stop(&running);

    // At a start: one that reads all of its state back.
    broker().deny(Resource::Group(group)).unwrap();
    let changelog = Resource::Topic(changelog);
    broker().deny_one(changelog, Operation::Read).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &copying(name));
    wait_until_denied(&running, group_denied, of_group);
    assert!(!running.status().workers[0].has_joined);
    broker().allow(Resource::Group(group)).unwrap();
    let of_changelog = "grant Read on topic denied-named-copy-state-changelog";
    wait_until_denied(&running, topic, of_changelog);
    broker().allow_one(changelog, Operation::Read).unwrap();
    append();
    wait_for_deliveries(&running, 1);
    wait_for(&running, "running", |status| {
        status.workers[0].state == WorkerState::Running
    });
    stop(&running);
    assert_eq!(values(&output), expected);
}
