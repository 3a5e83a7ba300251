//! The only broker is away: at the start, and for longer than a transaction and a session last.

use std::time::Duration;

use kafka_cluster::proxy::{Action, ApiKey, Reach, Requests};
use parsley_kafka::{KafkaConfig, KafkaHost, Status, WorkerState};
use parsley_stage::meter::SKIPPED_SWEEPS;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::Only;
use crate::telling::Metrics;
use crate::world::*;

/// A host that does not wait long between attempts.
fn eager(dir: &tempfile::TempDir) -> KafkaConfig {
    let mut config = config(dir);
    config.backoff_longest = Duration::from_millis(500);
    config
}

/// Who asks the broker past the proxy.
struct Direct(String);

impl Direct {
    fn asker(&self, isolation: &str) -> BaseConsumer {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.0);
        config.set("isolation.level", isolation).create().unwrap()
    }

    /// Whether no transaction is open on a topic's only partition.
    fn is_decided(&self, topic: &str) -> bool {
        let end = |isolation| {
            let asker = self.asker(isolation);
            asker.fetch_watermarks(topic, 0, BOUND).unwrap().1
        };
        end("read_committed") == end("read_uncommitted")
    }

    fn members(&self, group: &str) -> usize {
        let groups = self
            .asker("read_committed")
            .fetch_group_list(Some(group), BOUND)
            .unwrap();
        groups
            .groups()
            .iter()
            .map(|group| group.members().len())
            .sum()
    }
}

fn is_retrying(status: &Status) -> bool {
    let retrying = |state: &WorkerState| matches!(state, WorkerState::Retrying { .. });
    status.workers.iter().all(|worker| retrying(&worker.state))
}

/// An application is started before its broker can be reached: nothing is refused, the status says what is not answered, and it goes on when the broker
/// is there. So it is when nobody listens, and when whatever is sent vanishes.
#[test]
fn an_application_may_start_before_its_broker() {
    let only = Only::take();
    for (name, reach) in [("early", Reach::Refused), ("unheard", Reach::Silent)] {
        let (input, output) = copying_topics(name, 1);
        Foreign::plain().append(&input, To::Key, &[("k", "v")]);
        only.reach(reach);
        let dir = tempfile::tempdir().unwrap();
        let running = start(eager(&dir), &copying(name));
        wait_for(&running, "retrying", is_retrying);
        assert!(running.status().refused().is_empty());
        only.reach(Reach::Open);
        wait_for_deliveries(&running, 1);
        wait_for(&running, "recovered", |status| {
            status.workers[0].state == WorkerState::Running
        });
        stop(&running);
        assert_eq!(values(&output), ["v"]);
    }
}

/// One of the addresses that are configured has nobody: others are asked, and nothing is said.
#[test]
fn one_address_of_several_that_has_nobody_is_passed_over() {
    let _only = Only::take();
    let (input, output) = copying_topics("several", 1);
    Foreign::plain().append(&input, To::Key, &[("k", "v")]);
    // A port that is free, and held by nobody.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = nobody.local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut config = eager(&dir);
    config.brokers = format!("{nobody},{}", bootstrap());
    let running = KafkaHost::new(config)
        .unwrap()
        .start(copying("several"))
        .unwrap();
    wait_for_deliveries(&running, 1);
    stop(&running);
    assert_eq!(values(&output), ["v"]);
}

/// The broker is away for longer than the transaction and the session last, with a step in flight: refused, and then so that nobody hears of it. The
/// step is given up by the cluster and by the host, and done again; its effect comes once.
#[test]
fn a_broker_that_is_away_for_longer_than_sessions_and_transactions_costs_no_effect() {
    let only = Only::take();
    for (name, reach) in [("refused", Reach::Refused), ("silent", Reach::Silent)] {
        let (app, words, counted) = wordcount(name);
        for topic in [&words, &counted] {
            create_topic(topic, 1);
        }
        let dir = tempfile::tempdir().unwrap();
        let config = eager(&dir)
            .transaction_timeout(Duration::from_secs(4))
            .property("session.timeout.ms", "3000");
        let running = start(config, &app);
        wait_for_tasks(&running, 1);
        let plain = Foreign::plain();
        plain.append(&words, To::Key, &[("word", "seen")]);
        wait_for_deliveries(&running, 1);
        // A step is open, and its positions are on their way.
        let positions = Requests::of(ApiKey::TXN_OFFSET_COMMIT)
            .of_transactions(&format!("{name}-count-"))
            .next(1);
        let positions = only.at().rule(positions, Action::HoldRequest);
        plain.append(&words, To::Key, &[("word", "seen")]);
        positions.wait_for_arrivals(1, BOUND).unwrap();
        only.reach(reach);
        drop(positions);
        // The cluster itself, which is well, ends the transaction and the session: the group has no member, and the sink no open end.
        let direct = Direct(only.direct_bootstrap());
        wait_until("the transaction is over", || direct.is_decided(&counted));
        wait_until("the session is over", || {
            direct.members(&format!("{name}-count")) == 0
        });
        only.reach(Reach::Open);
        plain.append(&words, To::Key, &[("word", "seen")]);
        wait_until("all effects", || {
            counts(&counted)
                .get("word")
                .is_some_and(|seen| seen.len() >= 3)
        });
        stop(&running);
        assert_eq!(
            counts(&counted),
            [("word".to_owned(), vec![1, 2, 3])].into()
        );
        check_stamps(&counted, name, "count", 1);
    }
}

/// A sweep that the cluster does not answer skips its turn, which is counted.
#[test]
fn skipped_sweeps_are_counted() {
    let only = Only::take();
    let (metrics, name) = (Metrics::installed(), "away-swept");
    let (input, _) = copying_topics(name, 1);
    create_topic("away-swept-far", 1);
    let far = channel("away-swept-far", 0);
    let dir = tempfile::tempdir().unwrap();
    let mut config = eager(&dir);
    config.sweep_interval = Duration::from_millis(100);
    let running = start(config, &copying(name));
    Foreign::plain().append_with(&input, To::Key, ("k", "v"), &stamp(&[(far, 0)], 0));
    wait_for_deliveries(&running, 1);
    only.reach(Reach::Silent);
    let counter = SKIPPED_SWEEPS.name;
    let skipped = format!("{counter}{{application=\"{name}\",stage=\"copy\"}}");
    wait_until("a sweep was skipped", || metrics.counter(&skipped) > 0);
    assert!(running.status().workers[0].unanswered > 0);
    only.reach(Reach::Open);
    running.stop();
}
