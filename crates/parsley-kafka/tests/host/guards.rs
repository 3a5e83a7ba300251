//! Guards, each against what an admin can do on the cluster.

use std::time::Duration;

use parsley_kafka::{KafkaConfig, KafkaHost, StageError, StartError};

use crate::world::*;

/// Looks often for what was changed on the cluster.
fn watchful(dir: &tempfile::TempDir) -> KafkaConfig {
    let mut config = config(dir);
    config.check_interval = Duration::from_millis(200);
    config
}

/// Delivers one record, and stops.
fn run_once(name: &str, dir: &tempfile::TempDir, value: &str) {
    let running = start(config(dir), &copying(name));
    Foreign::plain().append(&format!("{name}-in"), To::Key, &[("k", value)]);
    wait_for_deliveries(&running, 1);
    stop(&running);
}

/// G6, in a process that runs on: the task that opens again finds its sink gone.
#[test]
fn g6_a_sink_that_is_gone_is_refused() {
    let name = "g6";
    let (input, output) = copying_topics(name, 1);
    let dir = tempfile::tempdir().unwrap();
    // Not before the send has found it out.
    let running = start(config(&dir), &copying(name));
    let plain = Foreign::plain();
    plain.append(&input, To::Key, &[("k", "1")]);
    wait_for_deliveries(&running, 1);
    delete_topic(&output);
    plain.append(&input, To::Key, &[("k", "2")]);
    assert_eq!(wait_for_refusal(&running).0, "vc-missing-sink");
    let status = running.stop();
    let refused = status.refused()[0].2.to_string();
    assert!(refused.contains("topic g6-out: the declared"), "{refused}");
    assert_eq!(committed("g6-copy", &input, 0), Some(1));
}

/// G11: the changelogs are gone, and with them the state behind the positions; what is left in the directory belongs to other topics.
#[test]
fn g11_positions_without_state_are_refused() {
    let name = "g11";
    let (input, output) = copying_topics(name, 1);
    let dir = tempfile::tempdir().unwrap();
    run_once(name, &dir, "1");
    for changelog in ["g11-copy-state-changelog", "g11-copy-fold-changelog"] {
        delete_topic(changelog);
    }
    for _ in 0..2 {
        let running = start(config(&dir), &copying(name));
        assert_eq!(wait_for_refusal(&running).0, "vc-state-lost");
        running.stop();
    }
    assert_eq!(values(&output), ["1"]);
    assert_eq!(committed("g11-copy", &input, 0), Some(1));
}

/// A changelog that is deleted under a process that runs stops it, before it would go on with a part of its state.
#[test]
fn g12_a_changelog_that_is_deleted_while_it_runs_is_refused() {
    let name = "g12-changelog";
    copying_topics(name, 1);
    let dir = tempfile::tempdir().unwrap();
    let running = start(watchful(&dir), &copying(name));
    wait_for_tasks(&running, 1);
    delete_topic("g12-changelog-copy-state-changelog");
    assert_eq!(wait_for_refusal(&running).0, "vc-identity-changed");
    running.stop();
}

/// G12 (`identity.rs`), with nobody polling often: the consumer's own trouble with the topic makes the host look.
#[test]
fn g12_trouble_with_a_partition_makes_the_host_look() {
    let name = "g12-trouble";
    let (input, output) = copying_topics(name, 1);
    let plain = Foreign::plain();
    plain.append(&input, To::Key, &[("k", "old"); 3]);
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&dir);
    config.check_interval = Duration::from_secs(1800);
    let running = start(config, &copying(name));
    wait_for_deliveries(&running, 3);
    delete_topic(&input);
    create_topic(&input, 1);
    Foreign::plain().append(&input, To::Key, &[("k", "new")]);
    assert_eq!(wait_for_refusal(&running).0, "vc-identity-changed");
    running.stop();
    assert_eq!(values(&output), ["old"; 3]);
}

/// G15: the inputs have another number of partitions than the state was made for: at a start, and while the stage runs.
#[test]
fn g15_another_number_of_tasks_is_refused() {
    let name = "g15";
    let (input, output) = copying_topics(name, 1);
    let dir = tempfile::tempdir().unwrap();
    run_once(name, &dir, "1");
    let running = start(watchful(&dir), &copying(name));
    wait_for_tasks(&running, 1);
    add_partitions(&input, 2);
    assert_eq!(wait_for_refusal(&running).0, "vc-task-width");
    running.stop();
    let refused = KafkaHost::new(config(&dir)).unwrap().start(copying(name));
    let Err(StartError::Stage(StageError::Refused { refusal, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(refusal.code.to_string(), "vc-task-width");
    assert_eq!(values(&output), ["1"]);
}

/// G16: somebody has moved the group's position on; what lies between would be settled without having been fed.
#[test]
fn b15_g16_a_position_that_was_moved_on_is_refused() {
    let name = "g16";
    let (input, output) = copying_topics(name, 1);
    let dir = tempfile::tempdir().unwrap();
    run_once(name, &dir, "1");
    Foreign::plain().append(&input, To::Key, &[("k", "2"), ("k", "3")]);
    move_position("g16-copy", &input, 0, 3);
    let running = start(config(&dir), &copying(name));
    assert_eq!(wait_for_refusal(&running).0, "vc-positions-ahead");
    running.stop();
    assert_eq!(values(&output), ["1"]);
    // Put back, it goes on.
    move_position("g16-copy", &input, 0, 1);
    let running = start(config(&dir), &copying(name));
    wait_for_deliveries(&running, 2);
    stop(&running);
    assert_eq!(values(&output), ["1", "2", "3"]);
}

/// A position that was moved back feeds nothing again: the state knows better, and is what is committed next. One that was deleted, or has
/// expired, is found in the state too.
#[test]
fn b15_positions_that_were_moved_back_or_deleted_repeat_nothing() {
    let name = "moved";
    let (input, output) = copying_topics(name, 1);
    let dir = tempfile::tempdir().unwrap();
    for value in ["1", "2", "3"] {
        run_once(name, &dir, value);
    }
    move_position("moved-copy", &input, 0, 0);
    run_once(name, &dir, "4");
    assert_eq!(committed("moved-copy", &input, 0), Some(4));
    delete_group("moved-copy");
    assert_eq!(committed("moved-copy", &input, 0), None);
    run_once(name, &dir, "5");
    assert_eq!(committed("moved-copy", &input, 0), Some(5));
    assert_eq!(values(&output), ["1", "2", "3", "4", "5"]);
    check_stamps(&output, name, "copy", 1);
}
