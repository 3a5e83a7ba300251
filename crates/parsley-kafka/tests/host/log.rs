//! What becomes of logs under a stage: retention, compaction, transactions that other producers abort or leave open.

use parsley_kafka::{KafkaHost, StageError, StartError};

use crate::joining::*;
use crate::world::*;

/// G10 while the stage runs: retention up to the record that is held takes nothing; past it, the record would be delivered from memory
/// although others may have stopped claiming it.
#[test]
fn g10_retention_past_a_held_record_is_refused_and_up_to_it_is_not() {
    let name = "retained";
    let [a, b, out] = joining_topics(name);
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
    let before = running.status().workers[0].state.clone();
    wait_for_checks(&running, 3);
    let status = running.status();
    assert_eq!(status.workers[0].state, before);
    assert!(status.refused().is_empty(), "{status:#?}");
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
    let [a, b, out] = joining_topics(name);
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

/// G10 at a reader that lags while it runs: retention up to its position takes nothing from it; one record further is one that it has not been fed, and
/// that it was already fetched does not count.
#[test]
fn g10_retention_one_past_a_reader_that_lags_is_refused_and_up_to_it_is_not() {
    let name = "lagging";
    let (input, output) = copying_topics(name, 1);
    let dir = tempfile::tempdir().unwrap();
    let plain = Foreign::plain();
    plain.append(&input, To::Key, &[("k", "0"), ("k", "1")]);
    let running = start(config(&dir), &copying(name));
    wait_for_deliveries(&running, 2);
    stop(&running);
    // Kept back for longer than the test takes.
    let running = KafkaHost::new(watchful(&dir))
        .unwrap()
        .delay("copy", input.as_str(), BOUND * 10)
        .start(copying(name))
        .unwrap();
    wait_for_tasks(&running, 1);
    plain.append(&input, To::Key, &[("k", "2"), ("k", "3"), ("k", "4")]);
    wait_for(&running, "three behind", |status| {
        status.tasks().all(|(_, _, task)| task.lag == 3)
    });
    delete_records(&input, 0, 2);
    wait_for_checks(&running, 3);
    assert!(running.status().refused().is_empty());
    delete_records(&input, 0, 3);
    assert_eq!(wait_for_refusal(&running).0, "vc-positions-lost");
    running.stop();
    assert_eq!(values(&output), ["0", "1"]);
    assert_eq!(committed("lagging-copy", &input, 0), Some(2));
}

/// B01 as the catalogue has it: what follows the committed position is an aborted run and its marker, and nothing more ever comes. What claims on the position
/// before, or on any offset of the run, goes; with the state at hand, and with one that is read back.
#[test]
fn b01_an_aborted_tail_behind_the_committed_position_settles_by_itself() {
    for (name, is_kept) in [("aborted-tail", true), ("aborted-tail-lost", false)] {
        let [x, b, out] = joining_topics(name);
        let plain = Foreign::plain();
        plain.append(&x, To::Key, &[("k", "x0")]);
        let mut dir = tempfile::tempdir().unwrap();
        let running = start(config(&dir), &joining(name));
        wait_for_deliveries(&running, 1);
        stop(&running);
        let group = format!("{name}-join");
        assert_eq!(committed(&group, &x, 0), Some(1));
        let foreign = Foreign::transactional(&format!("{name}-foreign"));
        foreign.begin();
        foreign.append(&x, To::Key, &[("k", "never"); 2]);
        foreign.abort();
        assert_eq!(bounds(&x, 0), (0, 4));
        let cause = channel(&x, 0);
        for claim in 0..4 {
            let (value, stamped) = (format!("b after {claim}"), stamp(&[(cause, claim)], claim));
            plain.append_with(&b, To::Key, ("k", &value), &stamped);
        }
        if !is_kept {
            dir = tempfile::tempdir().unwrap();
        }
        let running = start(config(&dir), &joining(name));
        wait_for_deliveries(&running, 4);
        stop(&running);
        let expected = ["x0", "b after 0", "b after 1", "b after 2", "b after 3"];
        assert_eq!(values(&out), expected);
        assert_eq!(committed(&group, &x, 0), Some(4));
    }
}
