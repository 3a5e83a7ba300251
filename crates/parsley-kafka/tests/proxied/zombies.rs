//! B08: who has lost its place in the group commits nothing, whatever its step is made of; who keeps its partitions commits on.

use std::time::Duration;

use kafka_cluster::proxy::{Action, ApiKey, Requests, Rule};
use parsley_kafka::TaskState;

use crate::account::{account_of, check};
use crate::child::*;
use crate::world::*;

/// Stops a child with a step under way whose positions wait in `late`, until the group has moved on and a successor waits for the child's transaction; then
/// lets it go on. The successor is told when it has delivered so much.
fn let_wake(name: &str, child: &Member, late: &Rule, delivered: u64) {
    late.wait_for_arrivals(1, BOUND).unwrap();
    child.signal("-STOP");
    // It is not to come back.
    let joins = Requests::of(ApiKey::JOIN_GROUP).of_client(&child_id(name));
    let _joins = proxy().rule(joins, Action::HoldRequest);
    let dir = tempfile::tempdir().unwrap();
    let other = start_counting(member(&dir, &format!("{name}-other")), name);
    wait_for(&other, "waiting for the zombie", |status| {
        let waits =
            |state: &TaskState| matches!(state, TaskState::Restoring { left, .. } if *left > 0);
        status.tasks().any(|(.., task)| waits(&task.state))
    });
    child.signal("-CONT");
    late.release();
    wait_for_deliveries(&other, delivered);
    stop(&other);
}

/// A step that takes nothing in: what an earlier one had no room to deliver goes out. No position of it is new, and the fence has to hold all the same.
#[test]
fn b08_a_zombies_step_of_sends_alone_is_not_seen() {
    let name = "zombie-sends";
    let (group, topics) = ("zombie-sends-count", Counting::create(name));
    let mut child = Member::planned(
        name,
        Plan {
            step_deliveries: 1,
            ..Plan::of("count")
        },
    );
    child.wait_until_open(&topics.words);
    let positions = of_stage(ApiKey::TXN_OFFSET_COMMIT, group, &child_id(name));
    // The first step passes, the second does not.
    let first = Action::DelayRequest(Duration::ZERO);
    let first = proxy().rule(positions.clone().next(1), first);
    let late = proxy().rule(positions, Action::HoldRequest);
    // Both are fed at once, and no marker stands behind them whose end would be a new position.
    let batch = client().set("linger.ms", "500").create().unwrap();
    topics.say_in(&Foreign(batch), &[("a", ""), ("b", "")]);
    late.wait_for_arrivals(1, BOUND).unwrap();
    assert_eq!(first.arrived(), 1);
    let position = committed(group, &topics.words, 0);
    assert_eq!(position, Some(2), "both were taken in by the first step");
    wait_until("a send of each step", || topics.written() == 2);
    let_wake(name, &child, &late, 1);
    let expected = ["a", "b"].map(|word| (word.to_owned(), vec![1]));
    wait_until("each once", || {
        counts(&topics.counts) == expected.clone().into()
    });
    assert_eq!(
        topics.written(),
        3,
        "the zombie's is there, and nobody reads it"
    );
    check_stamps(&topics.counts, name, "count", 1);
    let (delivered, _) = check(&account_of(&topics.account, 2));
    assert_eq!(delivered, [(topics.words, 2)].into());
}

/// A step that sends nothing: what it made of the state is not there either.
#[test]
fn b08_a_zombies_step_of_state_alone_is_not_seen() {
    let name = "zombie-state";
    let (group, topics) = ("zombie-state-count", Counting::create(name));
    let mut child = Member::planned(name, Plan::of("count"));
    child.wait_until_open(&topics.words);
    let positions = of_stage(ApiKey::TXN_OFFSET_COMMIT, group, &child_id(name));
    let late = proxy().rule(positions, Action::HoldRequest);
    topics.say(&[("a", "quiet")]);
    late.wait_for_arrivals(1, BOUND).unwrap();
    topics.say(&[("a", "")]);
    let_wake(name, &child, &late, 2);
    let expected = [("a".to_owned(), vec![2])];
    wait_until("the second", || {
        counts(&topics.counts) == expected.clone().into()
    });
    check_stamps(&topics.counts, name, "count", 1);
    let (delivered, _) = check(&account_of(&topics.account, 2));
    assert_eq!(delivered, [(topics.words, 2)].into());
}

/// The group goes on without a member whose heartbeats are late, while its step waits for an acknowledgement. When it learns of that it has no place in the
/// group, and gets another one only when it has given its partitions up: what it was fed before is committed under neither, and is done again.
#[test]
fn b08_the_place_of_before_a_join_commits_nothing() {
    let name = "late-heart";
    let (group, topics) = ("late-heart-count", Counting::create(name));
    let dir = tempfile::tempdir().unwrap();
    let config = member(&dir, name)
        .transaction_timeout(BOUND)
        .property("session.timeout.ms", "2000");
    let running = start_counting(config, name);
    wait_for_tasks(&running, 1);
    let mine = |api| of_stage(api, group, name);
    let sends = mine(ApiKey::PRODUCE).to_topic(&topics.counts);
    let sends = proxy().rule(sends.next(1), Action::HoldResponse);
    topics.say(&[("a", "")]);
    sends.wait_for_answers(1, BOUND).unwrap();
    let heart = Requests::of(ApiKey::HEARTBEAT).of_client(name);
    let beats = proxy().rule(heart.clone(), Action::HoldRequest);
    beats.wait_for_arrivals(1, BOUND).unwrap();
    wait_until("the group is empty", || is_empty(group));
    // It learns that it has no place any more, and asks for none as long as it has partitions.
    beats.release();
    beats.wait_for_answers(1, BOUND).unwrap();
    let positions = proxy().rule(mine(ApiKey::TXN_OFFSET_COMMIT), Action::Watch);
    sends.release();
    positions.wait_for_answers(1, BOUND).unwrap();
    let once = [("a".to_owned(), vec![1])];
    wait_until("once", || counts(&topics.counts) == once.clone().into());
    stop(&running);
    assert_eq!(topics.written(), 2, "the step was given up, and done again");
    check_stamps(&topics.counts, name, "count", 1);
    assert_eq!(committed(group, &topics.words, 0), Some(1));
    let (delivered, executions) = check(&account_of(&topics.account, 1));
    assert_eq!(delivered, [(topics.words, 1)].into());
    assert_eq!(executions.into_values().collect::<Vec<_>>(), [1]);
}

/// A member that comes and gets nothing begins a new generation for all. The step that is open then is committed in the old one, the next ones in the new
/// one, and nothing is given up: what is written is what is read.
#[test]
fn b08_a_generation_with_the_same_partitions_fails_no_commit() {
    let name = "same-again";
    let (group, topics) = ("same-again-count", Counting::create(name));
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Members are told apart by their client's name first, and the first of them has the only partition.
    let (first, second) = ("same-again-a", "same-again-b");
    let patient = member(&here, first)
        .commit_interval(NEVER / 2)
        .transaction_timeout(NEVER);
    let running = start_counting(patient, name);
    wait_for_tasks(&running, 1);
    let mut other = None;
    for said in 1..=2 {
        topics.say(&[("a", "")]);
        wait_until("a send", || topics.written() == said);
        assert_eq!(committed(group, &topics.words, 0), Some(said as i64 - 1));
        let joins = Requests::of(ApiKey::JOIN_GROUP).of_client(first);
        let joins = proxy().rule(joins, Action::Watch);
        match other.take() {
            None => {
                let member = start_counting(member(&there, second), name);
                wait_for(&member, "a member without partitions", |status| {
                    status.workers[0].has_joined && status.workers[0].tasks.is_empty()
                });
                other = Some(member);
            }
            Some(member) => stop(&member),
        }
        // It joins again when the step is over.
        joins.wait_for_answers(1, BOUND).unwrap();
        assert_eq!(committed(group, &topics.words, 0), Some(said as i64));
        wait_for_tasks(&running, 1);
    }
    stop(&running);
    let expected = [("a".to_owned(), vec![1, 2])].into();
    wait_until("each once", || counts(&topics.counts) == expected);
    assert_eq!(topics.written(), 2);
    check_stamps(&topics.counts, name, "count", 1);
}
