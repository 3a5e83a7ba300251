//! What becomes of logs under a stage: retention, compaction, transactions that other producers abort or leave open.

use std::time::Duration;

use parsley_kafka::{KafkaConfig, KafkaHost, StageError, StartError};
use parsley_stage::{App, Stage};

use crate::world::*;

fn watchful(dir: &tempfile::TempDir) -> KafkaConfig {
    let mut config = config(dir);
    config.check_interval = Duration::from_millis(100);
    config
}

/// Sends the records of two inputs on to `<name>-out`.
fn joining(name: &str) -> App {
    let topic = |part: &str| text_topic(&format!("{name}-{part}"));
    let (a, b, out) = (topic("a"), topic("b"), topic("out"));
    let copy = |out: &parsley_stage::Topic<String, String>| {
        let sink = out.clone();
        move |message: parsley_stage::Message<String, String>, out: &mut parsley_stage::Outbox| {
            out.send(&sink, &message.key, &message.value)
        }
    };
    let join = Stage::stateless("join")
        .sink(&out)
        .on(&a, copy(&out))
        .on(&b, copy(&out))
        .build()
        .unwrap();
    App::named(name).stage(join).build().unwrap()
}

fn joining_topics(name: &str) -> (String, String, String) {
    let names = ["a", "b", "out"].map(|part| format!("{name}-{part}"));
    for topic in &names {
        create_topic(topic, 1);
    }
    let [a, b, out] = names;
    (a, b, out)
}

fn wait_until_held(running: &parsley_kafka::KafkaRunning, count: u64) {
    wait_for(running, "held", |status| {
        status.tasks().map(|(_, _, task)| task.held).sum::<u64>() == count
    });
}

/// G10 while the stage runs: retention up to the record that is held takes nothing; past it, the record would be delivered from memory
/// although others may have stopped claiming it.
#[test]
fn g10_retention_past_a_held_record_is_refused_and_up_to_it_is_not() {
    let name = "retained";
    let (a, b, out) = joining_topics(name);
    let plain = Foreign::plain();
    let cause = channel(&b, 0);
    plain.append(&a, To::Key, &[("k", "first")]);
    let dir = tempfile::tempdir().unwrap();
    let running = start(watchful(&dir), &joining(name));
    wait_for_deliveries(&running, 1);
    plain.append_with(&a, To::Key, ("k", "effect"), &stamp(&[(cause, 0)], 0));
    wait_until_held(&running, 1);
    // The log of a: first, effect. Up to the held one.
    delete_records(&a, 0, 1);
    let before = running.status().workers[0].clone();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(running.status().workers[0].state, before.state);
    assert!(running.status().refused().is_empty());
    // Past it.
    plain.append(&a, To::Key, &[("k", "last")]);
    delete_records(&a, 0, 2);
    assert_eq!(wait_for_refusal(&running).0, "vc-positions-lost");
    running.stop();
    // Neither with its state nor with the changelog does it go on; and nothing of what is behind is delivered.
    plain.append(&b, To::Key, &[("k", "cause")]);
    for dir in [dir, tempfile::tempdir().unwrap()] {
        let running = start(watchful(&dir), &joining(name));
        assert_eq!(wait_for_refusal(&running).0, "vc-positions-lost");
        running.stop();
    }
    assert_eq!(values(&out), ["first"]);
}

/// Records that nobody commits, at the head, in the middle and at the tail of what a cause stands among: the effect is delivered when everything up to its
/// cause is passed, and not before.
#[test]
fn b01_aborted_runs_anywhere_around_a_cause_settle_it() {
    let name = "aborted-runs";
    let (a, b, out) = joining_topics(name);
    let (plain, foreign) = (
        Foreign::plain(),
        Foreign::transactional("aborted-runs-foreign"),
    );
    let aborted = |count: usize| {
        foreign.begin();
        foreign.append(&a, To::Key, &vec![("k", "never"); count]);
        foreign.abort();
    };
    aborted(3); // 0 to 2, marker 3
    plain.append(&a, To::Key, &[("k", "a4")]);
    aborted(1); // 5, marker 6
    foreign.begin();
    foreign.append(&a, To::Key, &[("k", "a7")]);
    foreign.commit(); // marker 8
    aborted(2); // 9 and 10, marker 11
    assert_eq!(bounds(&a, 0), (0, 12));
    let cause = channel(&a, 0);
    // Each claims an offset that nothing is read from, or that is the end of a run.
    let claims = [2, 3, 5, 6, 8, 10, 11];
    for (sequence, claim) in claims.into_iter().enumerate() {
        let value = format!("b after {claim}");
        let stamped = stamp(&[(cause, claim)], sequence as i64);
        plain.append_with(&b, To::Key, ("k", &value), &stamped);
    }
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &joining(name));
    wait_for_deliveries(&running, 9);
    // The next is still to come, and comes as an aborted run.
    plain.append_with(&b, To::Key, ("k", "b after 13"), &stamp(&[(cause, 13)], 7));
    wait_until_held(&running, 1);
    aborted(1); // 12, marker 13
    wait_for_deliveries(&running, 10);
    stop(&running);
    let out = values(&out);
    let place = |value: &str| out.iter().position(|found| found == value).unwrap();
    assert_eq!(out.len(), 10);
    for claim in claims {
        let effect = place(&format!("b after {claim}"));
        assert!(claim < 4 || effect > place("a4"), "{claim}: {out:?}");
        assert!(claim < 7 || effect > place("a7"), "{claim}: {out:?}");
    }
    assert_eq!(committed("aborted-runs-join", &a, 0), Some(14));
}

/// Compaction may take a record away before it was delivered, and what is left does not tell: refused, with its reason.
#[test]
fn a_compacted_input_is_refused_at_the_start() {
    for (name, policy) in [
        ("compacted", "compact"),
        ("compacted-too", "compact,delete"),
    ] {
        create_topic_with(&format!("{name}-in"), 1, &[("cleanup.policy", policy)]);
        create_topic(&format!("{name}-out"), 1);
        let dir = tempfile::tempdir().unwrap();
        let refused = KafkaHost::new(config(&dir)).unwrap().start(copying(name));
        let Err(StartError::Stage(error @ StageError::CompactedInputs { .. })) = refused else {
            panic!("{refused:?}")
        };
        let said = error.to_string();
        assert!(said.contains(&format!("{name}-in")) && said.contains("cleanup.policy=delete"));
        // A sink may be what it likes.
        set_topic(&format!("{name}-in"), "cleanup.policy", "delete");
        set_topic(&format!("{name}-out"), "cleanup.policy", policy);
        let running = start(config(&dir), &copying(name));
        wait_for_tasks(&running, 1);
        stop(&running);
    }
}
