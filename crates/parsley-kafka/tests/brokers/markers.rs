//! Transactions whose markers the cluster does not write (decisions K19 and K27).
//!
//! From 4.0 on a coordinator takes a partition that has no leader for one that was deleted, and calls a transaction over without a marker there. Version 3.7
//! writes it when there is a leader again; both end as the tests say.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kafka_cluster::proxy::{Action, ApiKey, Requests};
use parsley_stage::{App, Stage};
use rdkafka::admin::{NewTopic, TopicReplication};

use crate::three::*;
use crate::world::*;

/// Copies, and fails at `poison` for as long as it is told to.
fn copying_but_poison(name: &str, fails: &Arc<AtomicBool>) -> App {
    let (input, output) = (
        text_topic(&format!("{name}-in")),
        text_topic(&format!("{name}-out")),
    );
    let fails = Arc::clone(fails);
    let copy = Stage::stateless("copy")
        .sink(&output)
        .on(&input, move |message, out| {
            if message.value == "poison" && fails.load(Ordering::SeqCst) {
                return Err("not yet".into());
            }
            out.send(&output, &message.key, &message.value)
        })
        .build()
        .unwrap();
    App::named(name).stage(copy).build().unwrap()
}

/// A step is given up while its sink has no leader: the abort is answered, and gets no marker there. Found here, with logic that fails: the producer went on, and
/// its next commit committed what was aborted, `a, a, poison`. With another producer nobody ended it at all, and readers of the sink waited for good.
#[test]
fn an_abort_while_the_sink_has_no_leader_is_marked_when_it_has_one() {
    let three = Three::take();
    let name = "unmarked";
    create_on_all("unmarked-in", 1);
    create_on("unmarked-out", 3);
    let fails = Arc::new(AtomicBool::new(true));
    let dir = tempfile::tempdir().unwrap();
    // Steps end when they fail, and at the stop.
    let mut config = config(&dir)
        .commit_interval(Duration::from_secs(300))
        .transaction_timeout(Duration::from_secs(600));
    config.backoff_longest = Duration::from_millis(500);
    let running = start(config, &copying_but_poison(name, &fails));
    wait_for_tasks(&running, 1);
    let plain = Foreign::plain();
    plain.append("unmarked-in", To::Key, &[("k", "a")]);
    let sent = || !read_as("read_uncommitted", "unmarked-out").is_empty();
    wait_until("a send", sent);
    let producers = Requests::of(ApiKey::INIT_PRODUCER_ID).of_transactions("unmarked-copy-");
    let producers = three.proxy().unwrap().rule(producers, Action::Watch);
    three.kill(3);
    wait_until_not_led_by(3, "unmarked-out", 0);
    plain.append("unmarked-in", To::Key, &[("k", "poison")]);
    wait_for(&running, "failing", |status| says(status, "not yet"));
    // What the first has left is nothing that the next could commit.
    assert!(producers.arrived() > 0, "the producer goes on");
    wait_for(&running, "without the sink", |status| {
        says(status, "offsets of unmarked-out/0")
    });
    three.start(3);
    wait_until("the abort is marked", || stable_end("unmarked-out") > 0);
    fails.store(false, Ordering::SeqCst);
    let is_last = |record: Option<&parsley_kafka::Record>| {
        record.is_some_and(|record| text(&record.value) == "poison")
    };
    wait_until("all sends", || {
        let records = read_as("read_uncommitted", "unmarked-out");
        let records = records.iter().filter(|record| record.value.is_some());
        is_last(records.collect::<Vec<_>>().last().copied())
    });
    stop(&running);
    wait_until("both", || values("unmarked-out").len() >= 2);
    assert_eq!(values("unmarked-out"), ["a", "poison"]);
    check_stamps("unmarked-out", name, "copy", 1);
}

/// The same of a changelog: its state is read back up to where the changelog ends, which never came. The step is given up as its positions are not answered.
#[test]
#[ignore = "takes most of a minute: cargo xtask nemesis"]
fn an_abort_while_the_changelog_has_no_leader_is_marked_when_it_has_one() {
    let three = Three::take();
    let name = "unkept";
    create_on_all("unkept-in", 1);
    create_on_all("unkept-out", 1);
    let changelog = "unkept-copy-state-changelog";
    // Held positions hold whatever comes behind them to the same broker, and are not to hold the writes. The group has to exist for its coordinator
    // to be known.
    assert_eq!(committed("unkept-copy", "unkept-in", 0), None);
    let coordinator = leader_of(POSITIONS, coordinating("unkept-copy")).unwrap();
    let leads = if coordinator == 3 { 2 } else { 3 };
    let replicas = [i32::from(leads)];
    let placed = [&replicas[..]];
    let topic = NewTopic::new(changelog, 1, TopicReplication::Variable(&placed));
    create(changelog, &topic.set("cleanup.policy", "compact"));
    let dir = tempfile::tempdir().unwrap();
    let proxy = three.proxy().unwrap();
    let of_step = |api| Requests::of(api).of_transactions("unkept-copy-");
    let mut config = config(&dir).transaction_timeout(Duration::from_secs(24));
    config.backoff_longest = Duration::from_millis(500);
    let running = start(config, &copying(name));
    wait_for_tasks(&running, 1);
    let writes = proxy.rule(of_step(ApiKey::PRODUCE).to_topic(changelog), Action::Watch);
    let positions = proxy.rule(of_step(ApiKey::TXN_OFFSET_COMMIT), Action::HoldRequest);
    Foreign::plain().append("unkept-in", To::Key, &[("k", "v")]);
    positions.wait_for_arrivals(1, BOUND).unwrap();
    writes.wait_for_answers(1, BOUND).unwrap();
    let stable = stable_end(changelog);
    three.kill(leads);
    wait_until_not_led_by(leads, changelog, 0);
    wait_for(&running, "given up", |status| {
        status
            .workers
            .iter()
            .any(|worker| matches!(worker.state, parsley_kafka::WorkerState::Retrying { .. }))
    });
    positions.release();
    three.start(leads);
    wait_for_deliveries(&running, 1);
    stop(&running);
    assert!(stable_end(changelog) > stable);
    assert_eq!(values("unkept-out"), ["v"]);
    check_stamps("unkept-out", name, "copy", 1);
}
