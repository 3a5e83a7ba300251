//! A member killed with SIGKILL at each point of a step, with state and records that are held, and another one that takes over.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_cluster::proxy::{Action, ApiKey, Requests, Rule};
use parsley_kafka::TaskState;

use crate::account::{account_of, check};
use crate::child::*;
use crate::world::*;

/// Where a step is when its member is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Point {
    /// Its records are fed and delivered, and nothing is in a log.
    Fed,
    /// What it sent is in the log, and its positions are not sent.
    Produced,
    /// The group has its positions, and it does not know.
    PositionsSent,
    /// It has asked for the commit, and the cluster never hears of it in time.
    CommitUnseen,
    /// It has asked for the commit, and the cluster hears of it when the member is dead and another one waits for its task.
    CommitLate,
    /// It is committed, and it does not know.
    Committed,
}

impl Point {
    /// Stops the next step of a member there.
    fn hold(self, group: &str, client_id: &str) -> Rule {
        let (api, action) = match self {
            Self::Fed => (ApiKey::ADD_PARTITIONS_TO_TXN, Action::HoldRequest),
            Self::Produced => (ApiKey::ADD_OFFSETS_TO_TXN, Action::HoldRequest),
            Self::PositionsSent => (ApiKey::TXN_OFFSET_COMMIT, Action::HoldResponse),
            Self::CommitUnseen | Self::CommitLate => (ApiKey::END_TXN, Action::HoldRequest),
            Self::Committed => (ApiKey::END_TXN, Action::HoldResponse),
        };
        proxy().rule(of_stage(api, group, client_id), action)
    }

    fn wait(self, held: &Rule) {
        let waited = match self {
            Self::PositionsSent | Self::Committed => held.wait_for_answers(1, BOUND),
            _ => held.wait_for_arrivals(1, BOUND),
        };
        waited.unwrap();
    }

    fn is_committed(self) -> bool {
        matches!(self, Self::CommitLate | Self::Committed)
    }
}

/// Kills a member there, in a step that counts a word for the second time, and holds another one.
fn kill_at(point: Point) {
    let name = &*format!("killed-{point:?}").to_lowercase();
    let (group, topics) = (&*format!("{name}-count"), Counting::create(name));
    let mut child = Member::planned(
        name,
        Plan {
            // The cluster gives up what the dead one leaves open; if it is to hear of the commit late, not before that.
            transaction: match point {
                Point::CommitLate => NEVER,
                _ => Duration::from_secs(10),
            },
            interval: Duration::from_millis(200),
            ..Plan::of("count")
        },
    );
    child.wait_until_open(&topics.words);
    topics.say(&[("twice", "")]);
    topics.say_behind("behind 0", 0);
    let positions =
        || [&topics.words, &topics.waiting, &topics.causes].map(|topic| committed(group, topic, 0));
    wait_until("a count, and a word that is held", || {
        positions()[..2] == [Some(1), Some(1)]
    });

    let held = point.hold(group, &child_id(name));
    let foreign = Foreign::plain();
    let claim = stamp(&[(channel(&topics.causes, 0), 1)], 1);
    foreign.send(&topics.words, To::Key, "twice", "", &[]);
    foreign.send(&topics.waiting, To::Key, "behind 1", "", &claim);
    foreign.flush();
    point.wait(&held);
    let is_written = point != Point::Fed;
    wait_until("what is sent", || {
        topics.written() == 1 + usize::from(is_written)
    });
    drop(child);

    let dir = tempfile::tempdir().unwrap();
    let other = start_counting(member(&dir, &format!("{name}-other")), name);
    if point == Point::CommitLate {
        wait_for(&other, "waiting for the dead one", |status| {
            let waits =
                |state: &TaskState| matches!(state, TaskState::Restoring { left, .. } if *left > 0);
            status.tasks().any(|(.., task)| waits(&task.state))
        });
        held.release();
    }
    wait_for(&other, "both words are held", |status| {
        let is_held = |task: &parsley_kafka::TaskStatus| task.held == 2 && task.lag == 0;
        status.tasks().any(|(.., task)| is_held(task))
    });
    // What the dead one committed comes from the state, and is not delivered again.
    let again = other.status().delivered();
    assert_eq!(again, u64::from(!point.is_committed()), "{point:?}");
    Foreign::plain().append(&topics.causes, To::Key, &[("k", "0"), ("k", "1")]);
    topics.say(&[("twice", "")]);
    wait_for_deliveries(&other, again + 5);
    if point == Point::CommitUnseen {
        // The cluster gave the transaction up, and the producer with it.
        held.release();
    }
    stop(&other);

    let expected = [
        ("behind 0", vec![1]),
        ("behind 1", vec![1]),
        ("twice", vec![1, 2, 3]),
    ];
    let expected = expected.map(|(word, counts)| (word.to_owned(), counts));
    // A commit is answered before its markers are there.
    let expected: BTreeMap<_, _> = expected.into();
    wait_until("each once", || counts(&topics.counts) == expected);
    assert_eq!(
        topics.written(),
        5 + usize::from(is_written && !point.is_committed())
    );
    assert_eq!(
        check_stamps(&topics.counts, name, "count", 1),
        [(0, 5)].into()
    );
    assert_eq!(positions(), [Some(3), Some(2), Some(2)]);
    let (delivered, executions) = check(&account_of(&topics.account, 7));
    let expected = [(topics.words, 3), (topics.waiting, 2), (topics.causes, 2)];
    assert_eq!(delivered, expected.into(), "{point:?}");
    assert_eq!(executions.into_values().collect::<Vec<_>>(), [2]);
}

/// Whatever a step had done when its member was killed, each word is counted once, each count is sent once, what was held is held, and goes out once;
/// the commit decides, also one that nobody knows of, and one that comes when the member is dead. The members of the points wait side by side.
#[test]
fn killed_at_any_point_of_a_step_a_member_leaves_all_of_it_or_nothing() {
    broker();
    std::thread::scope(|scope| {
        let points = [
            Point::Fed,
            Point::Produced,
            Point::PositionsSent,
            Point::CommitUnseen,
            Point::CommitLate,
            Point::Committed,
        ];
        for point in points {
            scope.spawn(move || kill_at(point));
        }
    });
}

/// B04: a step waits for an acknowledgement, and its worker fetches on meanwhile. Killed when the step is committed and before the rest is handed over, it
/// leaves a position behind what was handed over, and not behind what was fetched; what waits for a record of the rest is held, and its own position
/// passes it in the transaction that has its hold.
#[test]
fn b04_what_is_fetched_and_not_handed_over_is_read_again() {
    let name = "fetched";
    let (group, topics) = ("fetched-count", Counting::create(name));
    let mut child = Member::planned(
        name,
        Plan {
            transaction: Duration::from_secs(10),
            ..Plan::of("count")
        },
    );
    child.wait_until_open(&topics.words);
    let of_child = |api| of_stage(api, group, &child_id(name));
    let sends = of_child(ApiKey::PRODUCE).to_topic(&topics.counts).next(1);
    let sends = proxy().rule(sends, Action::HoldResponse);
    // Offsets 0 to 3, which are there at once, and 4, which is a marker.
    let foreign = Foreign::transactional("fetched-foreign");
    foreign.begin();
    topics.say_in(&foreign, &[("0", ""), ("1", ""), ("2", ""), ("3", "")]);
    let claim = stamp(&[(channel(&topics.words, 0), 7)], 0);
    foreign.append_with(&topics.waiting, To::Key, ("behind", ""), &claim);
    foreign.commit();
    sends.wait_for_answers(1, BOUND).unwrap();
    // Offsets 5 to 10. An answer that comes after them has them.
    let rest = ["5", "6", "7", "8", "9", "10"];
    topics.say(&rest.map(|word| (word, "")));
    let fetches = Requests::of(ApiKey::FETCH).of_client(&child_id(name));
    let fetches = proxy().rule(fetches, Action::Watch);
    fetches.wait_for_answers(6, BOUND).unwrap();
    let end = proxy().rule(of_child(ApiKey::END_TXN), Action::HoldResponse);
    sends.release();
    end.wait_for_answers(1, BOUND).unwrap();
    drop(child);
    let position = |topic: &str| committed(group, topic, 0).unwrap();
    let words = position(&topics.words);
    assert!((1..=5).contains(&words), "{words}");
    let behind = position(&topics.waiting);

    let dir = tempfile::tempdir().unwrap();
    let other = start_counting(config(&dir), name);
    let first = u64::try_from(words.min(4)).unwrap();
    wait_for_deliveries(&other, 11 - first);
    stop(&other);
    let expected = ["0", "1", "2", "3", "behind"].into_iter().chain(rest);
    let expected = expected.map(|word| (word.to_owned(), vec![1]));
    let expected: BTreeMap<_, _> = expected.collect();
    wait_until("each once", || counts(&topics.counts) == expected);
    check_stamps(&topics.counts, name, "count", 1);
    let entries = account_of(&topics.account, 11);
    let (delivered, _) = check(&entries);
    assert_eq!(
        delivered,
        [(topics.words.clone(), 10), (topics.waiting.clone(), 1)].into()
    );
    let place = |topic: &str, offset: i64| {
        let is_it = |entry: &parsley_stage::AuditRecord| {
            &*entry.topic == topic
                && entry.offset == offset
                && matches!(entry.audited, parsley_stage::Audited::Delivered { .. })
        };
        entries.iter().position(is_it).unwrap()
    };
    assert!(place(&topics.words, 7) < place(&topics.waiting, 0));
    // What the first had passed, it had held: the account has that from the same transaction.
    let held = |entry: &parsley_stage::AuditRecord| {
        matches!(entry.audited, parsley_stage::Audited::Held { .. })
            && entry.execution == entries[0].execution
    };
    assert_eq!(
        behind == 1 || behind == 2,
        entries.iter().any(held),
        "{behind}"
    );
}
