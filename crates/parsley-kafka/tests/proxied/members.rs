//! Members that lose their partitions: asked for them, without knowing it, or killed (traps 5, 6 and 9).

use std::collections::BTreeSet;
use std::time::Duration;

use kafka_cluster::proxy::{Action, ApiKey, Requests};
use parsley_kafka::TaskState;
use parsley_stage::{App, Stage};
use rdkafka::admin::{NewTopic, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::child::*;
use crate::world::*;

/// Trap 5: the step that is open when partitions are revoked is committed before the member takes part in the rebalance; the new owner finds its
/// position, and repeats nothing.
#[test]
fn trap_5_a_revoke_returns_after_the_step_is_committed() {
    let name = "revoked";
    let (input, output) = copying_topics(name, 2);
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let patient = |dir: &tempfile::TempDir, id: &str| {
        member(dir, id)
            .commit_interval(NEVER / 2)
            .transaction_timeout(NEVER)
    };
    let first = start(patient(&here, "revoked-first"), &copying(name));
    wait_for_tasks(&first, 2);
    Foreign::plain().append(&input, To::Partition(0), &[("k", "v")]);
    wait_until("a send", || written(&output) == ["v"]);
    assert_eq!(committed("revoked-copy", &input, 0), Some(0));
    let commits = of_transactions(ApiKey::END_TXN, name, "revoked-first");
    let commit = proxy().rule(commits, Action::HoldRequest);
    let watch = |api| proxy().rule(Requests::of(api).of_client("revoked-first"), Action::Watch);
    let joins = watch(ApiKey::JOIN_GROUP);
    let second = start(patient(&there, "revoked-second"), &copying(name));
    commit.wait_for_arrivals(1, BOUND).unwrap();
    // The first is alive all the time, and the second has got nothing.
    watch(ApiKey::HEARTBEAT)
        .wait_for_answers(10, BOUND)
        .unwrap();
    assert_eq!(joins.arrived(), 0, "before the commit is answered");
    assert_eq!(second.status().tasks().count(), 0);
    commit.release();
    joins.wait_for_arrivals(1, BOUND).unwrap();
    assert_eq!(committed("revoked-copy", &input, 0), Some(1));
    wait_for_tasks(&second, 1);
    wait_for_tasks(&first, 1);
    stop(&first);
    stop(&second);
    assert_eq!(written(&output), ["v"], "sent once");
    assert_eq!(values(&output), ["v"]);
}

/// Traps 5 and 6: a member is stopped with a step open until the group has moved on. When it wakes it learns that its partitions are lost, and aborts:
/// its transaction would stay open for longer than the test takes otherwise. Nothing of the step is seen, and no position of it is sent.
#[test]
fn trap_5_the_step_of_a_lost_partition_is_aborted() {
    let name = "lost";
    let (input, output) = copying_topics(name, 1);
    let mut child = Member::start(name, NEVER / 2, NEVER);
    child.wait_until_open(&input);
    Foreign::plain().append(&input, To::Key, &[("k", "v")]);
    wait_until("a send", || written(&output) == ["v"]);
    let positions = of_transactions(ApiKey::TXN_OFFSET_COMMIT, name, &child_id(name));
    let positions = proxy().rule(positions, Action::Watch);
    child.signal("-STOP");
    // It is not to come back, which would take its partition away from the other one.
    let joins = Requests::of(ApiKey::JOIN_GROUP).of_client(&child_id(name));
    let joins = proxy().rule(joins, Action::HoldRequest);
    let dir = tempfile::tempdir().unwrap();
    let other = start(config(&dir), &copying(name));
    wait_for_deliveries(&other, 1);
    assert_eq!(written(&output), ["v", "v"]);
    assert!(read(&output).is_empty(), "behind an open transaction");
    child.signal("-CONT");
    wait_until("what the other sent", || values(&output) == ["v"]);
    joins.wait_for_arrivals(1, BOUND).unwrap();
    assert_eq!(positions.arrived(), 0);
    stop(&other);
    // The first of the two is the zombie's.
    assert_eq!(read(&output)[0].offset, 1);
    assert_eq!(committed("lost-copy", &input, 0), Some(1));
}

/// Trap 6: a member is stopped with its commit under way, and the commit arrives when the group has moved on. It carries a generation that is over, and is
/// refused; the member aborts, and the one that waits for its transaction delivers the record in its place.
#[test]
fn trap_6_a_zombie_that_wakes_cannot_commit() {
    let name = "zombie";
    let (input, output) = copying_topics(name, 1);
    let mut child = Member::start(name, Duration::from_millis(20), NEVER);
    child.wait_until_open(&input);
    let of_child = |api| of_transactions(api, name, &child_id(name));
    let late = proxy().rule(of_child(ApiKey::TXN_OFFSET_COMMIT), Action::HoldRequest);
    let ends = proxy().rule(of_child(ApiKey::END_TXN), Action::Watch);
    Foreign::plain().append(&input, To::Key, &[("k", "v")]);
    late.wait_for_arrivals(1, BOUND).unwrap();
    child.signal("-STOP");
    let joins = Requests::of(ApiKey::JOIN_GROUP).of_client(&child_id(name));
    let joins = proxy().rule(joins, Action::HoldRequest);
    let dir = tempfile::tempdir().unwrap();
    let other = start(config(&dir), &copying(name));
    // What the zombie wrote to the changelog may still be committed.
    wait_for(&other, "waiting for the zombie", |status| {
        let waits =
            |state: &TaskState| matches!(state, TaskState::Restoring { left, .. } if *left > 0);
        status.tasks().any(|(.., task)| waits(&task.state))
    });
    assert_eq!(ends.arrived(), 0);
    child.signal("-CONT");
    late.release();
    wait_for_deliveries(&other, 1);
    late.wait_for_answers(1, BOUND).unwrap();
    ends.wait_for_answers(1, BOUND).unwrap();
    assert_eq!(written(&output), ["v", "v"]);
    wait_until("one of them", || values(&output) == ["v"]);
    stop(&other);
    drop(joins);
    // The other's, behind the zombie's record and its marker.
    assert_eq!(read(&output)[0].offset, 2);
    assert_eq!(committed("zombie-copy", &input, 0), Some(1));
    let sent = check_stamps(&output, name, "copy", 1);
    assert_eq!(sent, [(0, 1)].into());
}

/// Trap 9: a member that is killed leaves its transaction open, and who reads what it wrote waits until the cluster gives that up. The
/// status shows a delay: offsets that are not read yet, no record held, a task that runs. Then all goes on, and the record is there once.
#[test]
fn trap_9_a_killed_member_delays_its_readers_and_the_status_says_so() {
    let name = "killed";
    let (input, output) = copying_topics(name, 1);
    let follow = Stage::stateless("follow")
        .on(&text_topic(&output), |_, _| Ok(()))
        .build()
        .unwrap();
    let follow = App::named("killed-follow").stage(follow).build().unwrap();
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let follower = start(config(&here), &follow);
    wait_for_tasks(&follower, 1);
    // It is killed before its step would end.
    let transaction = Duration::from_secs(20);
    let mut child = Member::start(name, transaction / 2, transaction);
    child.wait_until_open(&input);
    wait_for(&follower, "at the end", |status| {
        status.tasks().all(|(.., task)| task.lag == 0)
    });
    Foreign::plain().append(&input, To::Key, &[("k", "v")]);
    wait_until("a send", || written(&output) == ["v"]);
    drop(child);
    wait_for(&follower, "delayed", |status| {
        status.tasks().all(|(.., task)| {
            task.state == TaskState::Running
                && (task.lag, task.held, task.delivered) == (1, 0, 0)
                && task.holds.is_empty()
        })
    });
    let other = start(config(&there), &copying(name));
    wait_for_deliveries(&other, 1);
    wait_for_deliveries(&follower, 1);
    wait_for(&follower, "at the end again", |status| {
        status.tasks().all(|(.., task)| task.lag == 0)
    });
    stop(&other);
    stop(&follower);
    assert_eq!(written(&output), ["v", "v"]);
    assert_eq!(values(&output), ["v"]);
    check_stamps(&output, name, "copy", 1);
}

/// The broker that coordinates a group.
fn coordinator_of(group: &str) -> i32 {
    let asker: BaseConsumer = client().create().unwrap();
    let metadata = asker.fetch_metadata(Some(POSITIONS), BOUND).unwrap();
    let partition = coordinating(group);
    let mut partitions = metadata.topics()[0].partitions().iter();
    partitions
        .find(|found| found.id() == partition)
        .unwrap()
        .leader()
}

/// Groups whose hash codes are negative and not: their positions go where the tests look for their coordinators.
#[test]
fn positions_go_to_the_partition_that_coordinates_the_group() {
    let topic = "coordinated-in";
    create_topic(topic, 1);
    let groups = [
        "coordinated-0",
        "coordinated-2",
        "0-coordinated",
        "4-coordinated",
        "a-coordinated-group",
    ];
    for group in groups {
        move_position(group, topic, 0, 1);
    }
    // Positions of another test, in a transaction that is open, would hide what stands behind them.
    let written = read_as("read_uncommitted", POSITIONS);
    let of_group = |key: &[u8], group: &str| {
        let name = [&(group.len() as u16).to_be_bytes(), group.as_bytes()].concat();
        // Behind the key's version.
        key.get(2..).is_some_and(|key| key.starts_with(&name))
    };
    let mut expected = BTreeSet::new();
    for group in groups {
        let found = written.iter().find(|record| {
            let key = record.key.as_deref();
            key.is_some_and(|key| of_group(key, group))
        });
        let found = &found.expect("the position was committed").partition;
        assert_eq!(found.partition, coordinating(group), "{group}");
        expected.insert(coordinating(group));
    }
    assert!(expected.len() > 1, "{expected:?}");
}

/// A member's positions are accepted while what it writes to its changelog is still on the way; then the group goes on without it. Its successor
/// took the changelog's end for all that there was to restore, waited for the positions, and had them without the state that belongs to them: it
/// refused itself (G16), or, where a step had moved no position, would have delivered again what that step delivered. The changelog's end counts only
/// once the positions are stable.
#[test]
fn what_a_former_owner_commits_late_is_restored() {
    let name = "late-changelog";
    let (input, output) = copying_topics(name, 1);
    let group = "late-changelog-copy";
    // The group has to exist for its coordinator to be known.
    assert_eq!(committed(group, &input, 0), None);
    let other_broker = 3 - coordinator_of(group);
    let changelog = "late-changelog-copy-state-changelog";
    let placed = [&[other_broker][..]];
    let topic = NewTopic::new(changelog, 1, TopicReplication::Variable(&placed));
    create(changelog, &topic.set("cleanup.policy", "compact"));
    let mut child = Member::start(name, Duration::from_millis(20), NEVER);
    child.wait_until_open(&input);
    let of_child = |api| of_transactions(api, name, &child_id(name));
    let positions = proxy().rule(of_child(ApiKey::TXN_OFFSET_COMMIT), Action::Watch);
    let writes = of_child(ApiKey::PRODUCE).to_topic(changelog);
    let late = proxy().rule(writes, Action::HoldRequest);
    Foreign::plain().append(&input, To::Key, &[("k", "v")]);
    positions.wait_for_answers(1, BOUND).unwrap();
    late.wait_for_arrivals(1, BOUND).unwrap();
    child.signal("-STOP");
    let joins = Requests::of(ApiKey::JOIN_GROUP).of_client(&child_id(name));
    let joins = proxy().rule(joins, Action::HoldRequest);
    let asks = Requests::of(ApiKey::OFFSET_FETCH).of_client("late-changelog-other");
    let asks = proxy().rule(asks, Action::Watch);
    let dir = tempfile::tempdir().unwrap();
    let other = start(member(&dir, "late-changelog-other"), &copying(name));
    // It has read the changelog, and asks for positions until they are stable.
    asks.wait_for_answers(2, BOUND).unwrap();
    late.release();
    child.signal("-CONT");
    wait_for(&other, "open, or refused", |status| {
        status.tasks().any(|(.., task)| task.steps > 0) || !status.refused().is_empty()
    });
    Foreign::plain().append(&input, To::Key, &[("k", "w")]);
    wait_for(&other, "one delivery, or a refusal", |status| {
        status.delivered() >= 1 || !status.refused().is_empty()
    });
    stop(&other);
    drop(joins);
    assert_eq!(values(&output), ["v", "w"]);
    assert_eq!(check_stamps(&output, name, "copy", 1), [(0, 2)].into());
}
