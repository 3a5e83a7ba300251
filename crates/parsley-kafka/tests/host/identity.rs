//! B12: a topic that is deleted and made again under its name is another topic, whatever it is to a stage, and whether the stage runs or not.

use std::time::Duration;

use parsley_kafka::KafkaHost;
use parsley_stage::{App, Message, Stage};

use crate::joining::*;
use crate::world::*;

/// An input that is made again while nothing runs: all of the new one is fed, whether its log is shorter than the position that the old one had, or longer;
/// and claims on the old one are met, as nobody can be handed it any more.
#[test]
fn b12_an_input_made_again_while_stopped_is_read_from_its_beginning() {
    for (name, count) in [("again-shorter", 2), ("again-longer", 8)] {
        let [a, b, out] = joining_topics(name);
        let plain = Foreign::plain();
        plain.append(&a, To::Key, &[("k", "old"); 5]);
        let old = channel(&a, 0);
        let dir = tempfile::tempdir().unwrap();
        let running = start(config(&dir), &joining(name));
        wait_for_deliveries(&running, 5);
        stop(&running);
        make_again(&a);
        let plain = Foreign::plain();
        plain.append(&a, To::Key, &vec![("k", "new"); count]);
        plain.append_with(&b, To::Key, ("k", "effect"), &stamp(&[(old, 7)], 0));
        let running = start(config(&dir), &joining(name));
        wait_for_deliveries(&running, count as u64 + 1);
        stop(&running);
        let mut delivered = values(&out);
        delivered.sort();
        let mut expected = vec!["effect".to_owned()];
        expected.extend(vec!["new".to_owned(); count]);
        expected.extend(vec!["old".to_owned(); 5]);
        assert_eq!(delivered, expected, "{name}");
        check_stamps(&out, name, "join", 1);
    }
}

/// The same with a record of the old one held: what it waited for may never be told apart again, so the start refuses, and goes on refusing.
#[test]
fn b12_an_input_made_again_with_something_held_is_refused() {
    for (name, count) in [("again-held-shorter", 0), ("again-held-longer", 3)] {
        let [a, b, out] = joining_topics(name);
        let plain = Foreign::plain();
        let cause = channel(&b, 0);
        let dir = tempfile::tempdir().unwrap();
        let running = start(config(&dir), &joining(name));
        plain.append_with(&a, To::Key, ("k", "held"), &stamp(&[(cause, 0)], 0));
        wait_until_held(&running, 1);
        stop(&running);
        make_again(&a);
        Foreign::plain().append(&a, To::Key, &vec![("k", "new"); count]);
        for dir in [dir, tempfile::tempdir().unwrap()] {
            let running = start(config(&dir), &joining(name));
            let (code, _) = wait_for_refusal(&running);
            assert!(
                ["vc-deleted-input-held", "vc-removed-input-held"].contains(&&*code),
                "{name}: {code}"
            );
            running.stop();
        }
        assert_eq!(values(&out), [""; 0]);
    }
}

/// While the stage runs, with nothing held: nothing of the new topic is fed, and the next start takes it for what it is, a topic that joins.
#[test]
fn b12_an_input_made_again_while_it_runs_is_refused() {
    for (name, count) in [("again-run-shorter", 2), ("again-run-longer", 5)] {
        let (input, output) = copying_topics(name, 1);
        Foreign::plain().append(&input, To::Key, &[("k", "old"); 3]);
        let dir = tempfile::tempdir().unwrap();
        let running = start(watchful(&dir), &copying(name));
        wait_for_deliveries(&running, 3);
        make_again(&input);
        Foreign::plain().append(&input, To::Key, &vec![("k", "new"); count]);
        assert_eq!(wait_for_refusal(&running).0, "vc-identity-changed");
        running.stop();
        assert_eq!(values(&output), ["old"; 3]);
        let running = start(config(&dir), &copying(name));
        wait_for_deliveries(&running, count as u64);
        stop(&running);
        assert_eq!(values(&output)[3..], vec!["new"; count]);
        check_stamps(&output, name, "copy", 1);
    }
}

/// While the stage runs, with something held: nothing of the new topic is fed, and nothing that is held is let go.
#[test]
fn b12_an_input_made_again_under_a_hold_is_refused_while_it_runs() {
    for (name, count) in [("again-under-shorter", 0), ("again-under-longer", 3)] {
        let [a, b, out] = joining_topics(name);
        let plain = Foreign::plain();
        let cause = channel(&b, 0);
        let dir = tempfile::tempdir().unwrap();
        let running = start(watchful(&dir), &joining(name));
        plain.append_with(&a, To::Key, ("k", "held"), &stamp(&[(cause, 0)], 0));
        wait_until_held(&running, 1);
        make_again(&a);
        Foreign::plain().append(&a, To::Key, &vec![("k", "new"); count]);
        let (code, _) = wait_for_refusal(&running);
        assert!(
            ["vc-deleted-input-held", "vc-identity-changed"].contains(&&*code),
            "{name}: {code}"
        );
        running.stop();
        assert_eq!(values(&out), [""; 0]);
    }
}

/// P14 on a broker: an input is deleted while the stage runs and nothing of it is held. What claims on it is delivered then, and not only after a
/// restart; the other input goes on.
#[test]
fn an_input_that_is_deleted_with_nothing_held_settles() {
    let name = "deleted-input";
    let [a, b, out] = joining_topics(name);
    let plain = Foreign::plain();
    let cause = channel(&a, 0);
    plain.append(&a, To::Key, &[("k", "cause")]);
    let dir = tempfile::tempdir().unwrap();
    let running = start(watchful(&dir), &joining(name));
    wait_for_deliveries(&running, 1);
    plain.append_with(&b, To::Key, ("k", "effect"), &stamp(&[(cause, 4)], 0));
    wait_until_held(&running, 1);
    delete_topic(&a);
    wait_for(&running, "delivered", |status| status.delivered() == 2);
    plain.append(&b, To::Key, &[("k", "and on")]);
    wait_for_deliveries(&running, 3);
    assert!(running.status().refused().is_empty());
    running.stop();
    assert_eq!(values(&out), ["cause", "effect", "and on"]);
}

/// Records of an input that had been fetched, and were not handed to the task yet, when it was found deleted. They came to the task behind the
/// check, which had settled the input to its end, and the task refused itself: out of order (G4). What was not fed is deleted with its topic.
#[test]
fn records_of_an_input_found_deleted_are_not_fed_any_more() {
    let name = "deleted-fetched";
    let [a, b, out] = joining_topics(name);
    let plain = Foreign::plain();
    let dir = tempfile::tempdir().unwrap();
    let running = KafkaHost::new(watchful(&dir))
        .unwrap()
        .delay("join", a.as_str(), Duration::from_secs(3))
        .start(joining(name))
        .unwrap();
    wait_for_tasks(&running, 1);
    let cause = channel(&a, 0);
    plain.append(&a, To::Key, &[("k", "fetched")]);
    plain.append_with(&b, To::Key, ("k", "effect"), &stamp(&[(cause, 0)], 0));
    wait_until_held(&running, 1);
    delete_topic(&a);
    // The check lets it go.
    wait_for_deliveries(&running, 1);
    // By then what is kept back has come, too.
    std::thread::sleep(Duration::from_secs(4));
    plain.append(&b, To::Key, &[("k", "and on")]);
    wait_for(&running, "two, or a refusal", |status| {
        status.delivered() == 2 || !status.refused().is_empty()
    });
    stop(&running);
    assert_eq!(values(&out), ["effect", "and on"]);
}

/// G9: the same with a record of it held.
#[test]
fn g9_an_input_that_is_deleted_with_something_held_is_refused() {
    let name = "deleted-held";
    let [a, b, out] = joining_topics(name);
    let plain = Foreign::plain();
    let cause = channel(&b, 0);
    let dir = tempfile::tempdir().unwrap();
    let running = start(watchful(&dir), &joining(name));
    plain.append_with(&a, To::Key, ("k", "held"), &stamp(&[(cause, 0)], 0));
    wait_until_held(&running, 1);
    delete_topic(&a);
    assert_eq!(wait_for_refusal(&running).0, "vc-deleted-input-held");
    running.stop();
    assert_eq!(values(&out), [""; 0]);
}

/// A sink that is made again while the stage runs: nothing is stamped for the new one under the old one's identity.
#[test]
fn b12_a_sink_made_again_while_it_runs_is_refused() {
    let name = "again-sink-running";
    let (input, output) = copying_topics(name, 1);
    let plain = Foreign::plain();
    let dir = tempfile::tempdir().unwrap();
    let running = start(watchful(&dir), &copying(name));
    plain.append(&input, To::Key, &[("k", "1")]);
    wait_for_deliveries(&running, 1);
    make_again(&output);
    assert_eq!(wait_for_refusal(&running).0, "vc-identity-changed");
    running.stop();
    assert_eq!(values(&output), [""; 0]);
    // The next start knows the new one.
    let plain = Foreign::plain();
    plain.append(&input, To::Key, &[("k", "2")]);
    let running = start(config(&dir), &copying(name));
    wait_for_deliveries(&running, 1);
    stop(&running);
    assert_eq!(values(&output), ["2"]);
    check_stamps(&output, name, "copy", 1);
}

/// A sink that is made again, and sent to before anybody looks who it is: the client goes on under the name, and its record was committed to the new topic, with a claim on
/// the old one's log. It stands at or below what was sent before, or at an end that was read, which no log has its next record at (decision K43). Where the log was empty there is
/// no such offset, and the first record of all has it asked who the topic is.
#[test]
fn b12_nothing_is_committed_to_a_sink_made_again_before_the_next_check() {
    for (name, is_sent_to) in [("again-unchecked", true), ("again-unsent", false)] {
        let (input, output) = copying_topics(name, 1);
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(&dir);
        config.check_interval = BOUND * 10;
        config.truncation_delay = BOUND * 20;
        let running = start(config, &copying(name));
        let plain = Foreign::plain();
        if is_sent_to {
            plain.append(&input, To::Key, &[("k", "1")]);
            wait_for_deliveries(&running, 1);
        } else {
            wait_for_tasks(&running, 1);
        }
        make_again(&output);
        plain.append(&input, To::Key, &[("k", "2")]);
        assert_eq!(wait_for_refusal(&running).0, "vc-identity-changed");
        running.stop();
        assert_eq!(values(&output), [""; 0], "{name}");
    }
}

/// Sends what it reads from `<name>-loop` back there, less one, until it is nothing.
fn counting_down(name: &str) -> App {
    let topic = text_topic(&format!("{name}-loop"));
    let count = Stage::stateless("loop")
        .sink(&topic)
        .on(
            &topic.clone(),
            move |message: Message<String, String>, out| {
                let number: u32 = message.value.parse()?;
                match number {
                    0 => Ok(()),
                    _ => out.send(&topic, &message.key, &(number - 1).to_string()),
                }
            },
        )
        .build()
        .unwrap();
    App::named(name).stage(count).build().unwrap()
}

/// A topic that is both, an input and a sink of one stage, made again while stopped.
#[test]
fn b12_an_input_that_is_a_sink_too_is_another_channel_when_it_is_made_again() {
    let name = "again-both";
    create_topic("again-both-loop", 1);
    let dir = tempfile::tempdir().unwrap();
    for expected in [["3", "2", "1", "0"]; 2] {
        let running = start(config(&dir), &counting_down(name));
        Foreign::plain().append("again-both-loop", To::Key, &[("k", "3")]);
        wait_for_deliveries(&running, 4);
        stop(&running);
        assert_eq!(values("again-both-loop"), expected);
        let records = read("again-both-loop");
        let sequences: Vec<i64> = records[1..].iter().map(|sent| stamp_of(sent).2).collect();
        assert_eq!(sequences, [0, 1, 2]);
        make_again("again-both-loop");
    }
}

/// The same while the stage runs, its new log shorter and longer than the old one's: it is refused, and the next start begins both anew.
#[test]
fn b12_an_input_that_is_a_sink_too_made_again_while_it_runs_is_refused() {
    for (name, count) in [("again-loop-shorter", 1), ("again-loop-longer", 6)] {
        let topic = format!("{name}-loop");
        create_topic(&topic, 1);
        Foreign::plain().append(&topic, To::Key, &[("k", "2")]);
        let dir = tempfile::tempdir().unwrap();
        let running = start(watchful(&dir), &counting_down(name));
        wait_for_deliveries(&running, 3);
        make_again(&topic);
        // Whoever took them for the old one's would send more.
        Foreign::plain().append(&topic, To::Key, &vec![("k", "1"); count]);
        assert_eq!(wait_for_refusal(&running).0, "vc-identity-changed");
        running.stop();
        assert_eq!(values(&topic), vec!["1"; count]);
        let running = start(config(&dir), &counting_down(name));
        wait_for_deliveries(&running, 2 * count as u64);
        stop(&running);
        let records = read(&topic);
        let sent = records[count..].iter().map(|sent| stamp_of(sent).2);
        assert_eq!(
            sent.collect::<Vec<i64>>(),
            (0..count as i64).collect::<Vec<_>>()
        );
    }
}
