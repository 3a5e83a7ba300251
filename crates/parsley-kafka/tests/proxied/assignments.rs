//! B07: what belongs to an earlier assignment of the same partition to the same member.

use kafka_cluster::proxy::{Action, ApiKey, Requests};

use crate::child::*;
use crate::world::*;

/// Records are on their way to a member when its partition is taken from it, and given back to it: they come when it has the partition again, for the second
/// time. They belong to the first, and are dropped; each is read anew and has one effect.
#[test]
fn b07_an_answer_to_an_earlier_assignment_of_the_same_partition_feeds_nothing() {
    let name = "given-back";
    let (input, output) = copying_topics(name, 1);
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Members are told apart by their client's name first, and the first of them has the only partition.
    let (first, second) = ("given-back-a", "given-back-b");
    // An empty answer is not what is held.
    let patient = member(&here, first).property("fetch.wait.max.ms", "4000");
    let running = start(patient, &copying(name));
    wait_for_tasks(&running, 1);
    let of_first = |api| Requests::of(api).of_client(first);
    let plain = Foreign::plain();
    plain.append(&input, To::Key, &[("k", "0")]);
    wait_for_deliveries(&running, 1);
    let late = proxy().rule(of_first(ApiKey::FETCH).next(1), Action::HoldResponse);
    // The request that waits now may have passed before the rule; the one behind it is held.
    plain.append(&input, To::Key, &[("k", "1")]);
    plain.append(&input, To::Key, &[("k", "2")]);
    late.wait_for_answers(1, BOUND).unwrap();
    let joins = proxy().rule(of_first(ApiKey::JOIN_GROUP), Action::Watch);
    let other = start(member(&there, second), &copying(name));
    wait_for(&other, "a member without partitions", |status| {
        status.workers[0].has_joined && status.workers[0].tasks.is_empty()
    });
    // It has given its partition up by then, and gets it back.
    joins.wait_for_answers(1, BOUND).unwrap();
    wait_for(&running, "assigned again", |status| {
        status.tasks().count() == 1
    });
    let position = committed("given-back-copy", &input, 0).unwrap();
    assert!(position < 3, "{position}: all of it came before");
    late.release();
    plain.append(&input, To::Key, &[("k", "3")]);
    wait_until("all of it", || values(&output) == ["0", "1", "2", "3"]);
    stop(&other);
    stop(&running);
    assert_eq!(values(&output).len(), 4);
    assert_eq!(written(&output).len(), 4, "nothing was given up");
    assert_eq!(check_stamps(&output, name, "copy", 1), [(0, 4)].into());
    assert_eq!(committed("given-back-copy", &input, 0), Some(4));
}
