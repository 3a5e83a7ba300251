//! B09: a commit has three outcomes. It has landed, it has not, or it lands later, and whoever asked for it may not know which.

use std::time::Duration;

use kafka_cluster::proxy::{Action, ApiKey, Requests};
use parsley_kafka::{KafkaConfig, KafkaRunning, TaskState, WorkerState};

use crate::account::{account_of, check};
use crate::child::*;
use crate::world::*;

/// How long clients wait for an answer where one is to be given up, and how long it is late then.
const ANSWER: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_millis(2500);

/// A host of the counting stage, and the requests that are its transactions'.
struct Counter {
    name: String,
    topics: Counting,
    running: KafkaRunning,
    said: u64,
    _dir: tempfile::TempDir,
}

impl Counter {
    fn start(name: &str, configure: impl FnOnce(KafkaConfig) -> KafkaConfig) -> Self {
        let topics = Counting::create(name);
        let dir = tempfile::tempdir().unwrap();
        let running = start_counting(configure(member(&dir, name)), name);
        wait_for_tasks(&running, 1);
        Self {
            name: name.to_owned(),
            topics,
            running,
            said: 0,
            _dir: dir,
        }
    }

    fn requests(&self, api: ApiKey) -> Requests {
        of_stage(api, &format!("{}-count", self.name), &self.name)
    }

    /// Says the word once more.
    fn say(&mut self) {
        self.topics.say(&[("word", "")]);
        self.said += 1;
    }

    /// Waits until each is counted once, as anybody reads it.
    fn wait(&self, what: &str) {
        let expected = [("word".to_owned(), (1..=self.said).collect())].into();
        wait_until(what, || {
            assert!(self.running.status().refused().is_empty());
            counts(&self.topics.counts) == expected
        });
    }

    /// Stops, and checks that every word had one effect.
    fn end(self) {
        stop(&self.running);
        let (counts, said) = (&self.topics.counts, self.said as usize);
        self.wait("each once");
        assert_eq!(
            check_stamps(counts, &self.name, "count", 1),
            [(0, said)].into()
        );
        let group = format!("{}-count", self.name);
        let position = committed(&group, &self.topics.words, 0);
        assert_eq!(position, Some(said as i64));
        let (delivered, _) = check(&account_of(&self.topics.account, said));
        assert_eq!(delivered, [(self.topics.words, said)].into());
    }
}

/// Each request that makes up the end of a step is lost on its way, or its answer is: it is asked for again, and nothing is given up and done again. Or
/// one of them is late, beyond the time that clients wait: it may be that the step has to be done again, and every word still counts once. The requests
/// wait side by side.
#[test]
fn b09_what_is_lost_or_late_at_the_end_of_a_step_has_one_effect() {
    broker();
    let asked = [
        ("partitions", ApiKey::ADD_PARTITIONS_TO_TXN),
        ("group", ApiKey::ADD_OFFSETS_TO_TXN),
        ("positions", ApiKey::TXN_OFFSET_COMMIT),
        ("end", ApiKey::END_TXN),
    ];
    let lost = [Action::DropRequest, Action::DropResponse];
    let late = [Action::DelayRequest(LATE), Action::DelayResponse(LATE)];
    std::thread::scope(|scope| {
        for (what, api) in asked {
            scope.spawn(move || {
                let answer = ANSWER.as_millis().to_string();
                let mut counter = Counter::start(&format!("lost-{what}"), |config| {
                    config
                        // Enough that no step is given up on a slow machine.
                        .transaction_timeout(Duration::from_secs(20))
                        .property("socket.timeout.ms", answer)
                });
                for action in [lost, late].concat() {
                    let rule = proxy().rule(counter.requests(api).next(1), action);
                    counter.say();
                    counter.wait(&format!("{action:?} of {what}"));
                    assert_eq!(rule.arrived(), 1);
                    // And on.
                    counter.say();
                    counter.wait("the next");
                    if lost.contains(&action) {
                        assert_eq!(counter.topics.written() as u64, counter.said);
                    }
                }
                counter.end();
            });
        }
    });
}

/// What becomes of a commit that nobody answers for so long that whoever asked for it gives the producer up.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unanswered {
    Landed,
    /// When another producer waits for it.
    LandsLater,
    /// The cluster gives its transaction up.
    NeverLands,
}

/// One call takes ten seconds, and is the last when three quarters of the transaction's time are over by then. The cluster counts that time from when it
/// hears of the transaction: so late that it still has patience when the client has none.
const TRANSACTION: Duration = Duration::from_secs(16);
const UNHEARD: Duration = Duration::from_secs(2);

fn unanswered(outcome: Unanswered) {
    let name = format!("unknown-{outcome:?}").to_lowercase();
    let mut counter = Counter::start(&name, |config| config.transaction_timeout(TRANSACTION));
    counter.say();
    counter.wait("the first");
    let asked = |api| counter.requests(api);
    let begin = asked(ApiKey::ADD_PARTITIONS_TO_TXN).next(1);
    let _begin = proxy().rule(begin, Action::DelayRequest(UNHEARD));
    let held = match outcome {
        Unanswered::Landed => Action::HoldResponse,
        _ => Action::HoldRequest,
    };
    let end = proxy().rule(asked(ApiKey::END_TXN).next(1), held);
    let producers = proxy().rule(asked(ApiKey::INIT_PRODUCER_ID), Action::Watch);
    counter.say();
    producers.wait_for_arrivals(1, BOUND).unwrap();
    assert_eq!(end.arrived(), 1);
    if outcome == Unanswered::LandsLater {
        wait_for(&counter.running, "waiting for the end", |status| {
            let waits =
                |state: &TaskState| matches!(state, TaskState::Restoring { left, .. } if *left > 0);
            status.tasks().any(|(.., task)| waits(&task.state))
        });
        end.release();
    }
    counter.wait("the one of which nothing was known");
    counter.say();
    counter.wait("the next");
    // The answer finds nobody, the request a producer that is shut out.
    end.release();
    counter.say();
    counter.wait("the last");
    let again = u64::from(outcome == Unanswered::NeverLands);
    assert_eq!(
        counter.topics.written() as u64,
        counter.said + again,
        "{outcome:?}"
    );
    counter.end();
}

/// Of a commit nothing is known for as long as its step is worth an attempt. It may have landed, it may land yet: nothing is aborted, the producer is dropped,
/// and the task is restored from what the cluster has decided, which is waited for. The three outcomes wait side by side.
#[test]
fn b09_when_the_outcome_stays_unknown_the_task_is_restored_and_each_has_one_effect() {
    broker();
    std::thread::scope(|scope| {
        let outcomes = [
            Unanswered::Landed,
            Unanswered::LandsLater,
            Unanswered::NeverLands,
        ];
        for outcome in outcomes {
            scope.spawn(move || unanswered(outcome));
        }
    });
}

/// The group's coordinator does not take a step's positions, and nobody says who is the next. librdkafka waited for that without an end, and its worker
/// with it, which showed itself as one that runs: it made no other step, and a stop gave it up with the process. Now such a step is given up at its
/// deadline, and a host that is asked to stop ends; the cluster ends the transaction, nothing of it is committed, and each word counts once.
#[test]
fn b09_positions_that_nobody_takes_keep_a_host_neither_from_going_on_nor_from_stopping() {
    broker();
    let mut counter = Counter::start("untaken", |mut config| {
        config.backoff_longest = Duration::from_secs(1);
        config.transaction_timeout(Duration::from_secs(4))
    });
    counter.say();
    counter.wait("the first");
    let nobody_takes = |counter: &Counter| {
        let lost = counter.requests(ApiKey::TXN_OFFSET_COMMIT).next(1);
        let lost = proxy().rule(lost, Action::DropRequest);
        let asked = Requests::of(ApiKey::FIND_COORDINATOR).of_client("untaken");
        (lost, proxy().rule(asked, Action::HoldRequest))
    };
    let (lost, asked) = nobody_takes(&counter);
    counter.say();
    asked.wait_for_arrivals(1, BOUND).unwrap();
    assert_eq!(lost.arrived(), 1);
    wait_for(&counter.running, "given up", |status| {
        let says = |state: &WorkerState| matches!(state, WorkerState::Retrying { message, .. } if message.contains("sending positions"));
        status.workers.iter().any(|worker| says(&worker.state))
    });
    drop(asked);
    counter.wait("the one that was given up");

    let (lost, asked) = nobody_takes(&counter);
    counter.say();
    asked.wait_for_arrivals(1, BOUND).unwrap();
    assert_eq!(lost.arrived(), 1);
    stop(&counter.running);
    drop(asked);
    let group = "untaken-count";
    assert_eq!(committed(group, &counter.topics.words, 0), Some(2));
    let dir = tempfile::tempdir().unwrap();
    counter.running = start_counting(config(&dir), "untaken");
    counter.wait("the one that was open");
    counter.end();
}

/// A commit is asked for twice, as the first request got lost: so the client thinks, and it is only late. It is for the producer's transaction, whichever
/// that is by then: it committed the next one in the middle, with what was sent in it and without its positions, and whoever took over sent all of it
/// again (decision K20).
#[test]
fn b09_a_commit_that_comes_late_does_not_commit_the_next_step() {
    let name = "stale-commit";
    let (group, topics) = (&*format!("{name}-count"), Counting::create(name));
    let mut child = Member::planned(
        name,
        Plan {
            answer: Some(ANSWER),
            transaction: Duration::from_secs(15),
            ..Plan::of("count")
        },
    );
    child.wait_until_open(&topics.words);
    let of_child = |api| of_stage(api, group, &child_id(name));
    let late = proxy().rule(of_child(ApiKey::END_TXN).next(1), Action::HoldRequest);
    topics.say(&[("word", "")]);
    let position = || committed(group, &topics.words, 0);
    wait_until("the commit", || position() == Some(1));
    assert_eq!(late.arrived(), 1);

    let open = proxy().rule(of_child(ApiKey::ADD_OFFSETS_TO_TXN), Action::HoldRequest);
    topics.say(&[("word", "")]);
    open.wait_for_arrivals(1, BOUND).unwrap();
    wait_until("a send", || topics.written() == 2);
    late.release();
    // The broker has had time to look at it.
    let heartbeats = Requests::of(ApiKey::HEARTBEAT).of_client(&child_id(name));
    let heartbeats = proxy().rule(heartbeats, Action::Watch);
    heartbeats.wait_for_answers(10, BOUND).unwrap();
    drop(child);
    let once = |counted: &[u64]| [("word".to_owned(), counted.to_vec())].into();
    assert_eq!(counts(&topics.counts), once(&[1]));

    let dir = tempfile::tempdir().unwrap();
    let other = start_counting(config(&dir), name);
    wait_for_deliveries(&other, 1);
    stop(&other);
    wait_until("each once", || counts(&topics.counts) == once(&[1, 2]));
    check_stamps(&topics.counts, name, "count", 1);
    assert_eq!(position(), Some(2));
}
