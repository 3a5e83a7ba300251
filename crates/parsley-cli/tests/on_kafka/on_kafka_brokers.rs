//! `parsley topic check` over what stages have written while brokers were killed under them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use kafka_cluster::ClusterConfig;
use parsley_kafka::{KafkaConfig, KafkaHost};
use parsley_stage::{App, Message, Outbox, Stage, Topic, codec};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::json;

use crate::running::parsley;
use crate::world::{BOUND, start};

/// A cluster, to those who ask it.
#[derive(Clone)]
struct Asked(String);

impl Asked {
    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.0);
        config
    }

    /// Makes a topic of two partitions that every broker has.
    fn create_on_all(&self, name: &str) {
        let admin: AdminClient<DefaultClientContext> = self.client().create().unwrap();
        let topic = NewTopic::new(name, 2, TopicReplication::Fixed(3));
        for outcome in block_on(admin.create_topics([&topic], &AdminOptions::new())).unwrap() {
            outcome.unwrap();
        }
    }

    /// Who leads a partition, as a client knows that remembers nothing.
    fn leader_of(&self, topic: &str, partition: usize) -> Option<u16> {
        let asker: BaseConsumer = self.client().create().unwrap();
        let metadata = asker.fetch_metadata(Some(topic), BOUND).unwrap();
        let leader = metadata.topics()[0].partitions().get(partition)?.leader();
        u16::try_from(leader).ok()
    }

    /// How far a topic is committed, in sum.
    fn committed(&self, topic: &str) -> i64 {
        let mut config = self.client();
        config.set("isolation.level", "read_committed");
        let asker: BaseConsumer = config.create().unwrap();
        let end = |partition| {
            let bounds = asker.fetch_watermarks(topic, partition, BOUND);
            bounds.map_or(0, |(_, end)| end)
        };
        end(0) + end(1)
    }

    /// Writes numbers, each once, until it is told to end. Returns how many.
    fn write(&self, topic: &str, is_over: &AtomicBool) -> u64 {
        let mut config = self.client();
        config.set("enable.idempotence", "true");
        let producer: BaseProducer = config.create().unwrap();
        let mut written = 0;
        while !is_over.load(Ordering::SeqCst) {
            let (key, value) = (format!("k{}", written % 7), written.to_string());
            let record = BaseRecord::to(topic).key(&key).payload(&value);
            producer.send(record).map_err(|(error, _)| error).unwrap();
            written += 1;
            producer.poll(Duration::from_millis(2));
            std::thread::sleep(Duration::from_millis(2));
        }
        producer.flush(BOUND).unwrap();
        written
    }
}

fn wait_until(what: &str, is_reached: impl Fn() -> bool) {
    let until = Instant::now() + 2 * BOUND;
    while !is_reached() {
        assert!(Instant::now() < until, "{what}: not reached");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What is written to x is sent on to a, and both come together in b.
fn two_stages(name: impl Fn(&str) -> String) -> App {
    let [x, a, b] =
        ["x", "a", "b"].map(|part| Topic::new(name(part), codec::string(), codec::string()));
    let on = |sink: &Topic<String, String>| {
        let sink = sink.clone();
        move |message: Message<String, String>, out: &mut Outbox| {
            out.send(&sink, &message.key, &message.value)
        }
    };
    let first = Stage::stateless("first").sink(&a).on(&x, on(&a));
    let second = Stage::stateless("second")
        .sink(&b)
        .on(&x, on(&b))
        .on(&a, on(&b));
    App::named("killed")
        .stage(first.build().unwrap())
        .stage(second.build().unwrap())
        .build()
        .unwrap()
}

/// The leader of a sink's partition is killed under load, then that of a changelog's; each comes back when the others have gone on without it. By the account and by
/// all that was written, no cause came after its effect, nothing was left out, and nothing is there twice.
#[test]
#[ignore = "takes a minute and more: cargo xtask nemesis"]
fn order_and_effects_are_right_when_leaders_were_killed_under_load() {
    let config = ClusterConfig {
        brokers: 3,
        heap_mb: 384,
        properties: [("broker.session.timeout.ms".to_owned(), "5000".to_owned())].into(),
        ..ClusterConfig::default()
    };
    let cluster = start(config);
    let asked = Asked(cluster.bootstrap());
    let name = |part: &str| format!("killed-{part}");
    let topics = ["x", "a", "b", "account"].map(name);
    for topic in &topics {
        asked.create_on_all(topic);
    }
    let state = tempfile::tempdir().unwrap();
    let mut config = KafkaConfig::new(asked.0.clone(), state.path())
        .commit_interval(Duration::from_millis(20))
        .property("session.timeout.ms", "6000");
    config.backoff_longest = Duration::from_millis(500);
    let host = KafkaHost::new(config).unwrap().audit(name("account"));
    let running = host.start(two_stages(name)).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (asked, topic, is_over) = (asked.clone(), topics[0].clone(), Arc::clone(&is_over));
        move || asked.write(&topic, &is_over)
    });
    let goes_on = || {
        let begun = asked.committed(&topics[2]);
        wait_until("more effects", || asked.committed(&topics[2]) > begun + 200);
    };
    goes_on();
    for (topic, partition) in [("killed-b", 0), ("killed-second-state-changelog", 1)] {
        let leader = asked.leader_of(topic, partition).unwrap();
        cluster.kill_broker(leader).unwrap();
        wait_until("another leader", || {
            asked.leader_of(topic, partition) != Some(leader)
        });
        goes_on();
        cluster.start_broker(leader).unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    let written = writer.join().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let dump = |topic: &String| {
        let dump = ["topic", "dump", "--until-end", "--brokers", &asked.0];
        let run = parsley(&[&dump[..], &["--topic", topic]].concat(), b"");
        assert_eq!(run.code, 0, "{}", run.stderr);
        run
    };
    // Each number comes to b from x and from a.
    wait_until("all effects", || {
        asked.committed(&topics[2]) >= 2 * written as i64
            && dump(&topics[2]).lines().len() as u64 >= 2 * written
    });
    let status = running.stop();
    assert!(status.refused().is_empty(), "{status:#?}");
    let files: Vec<String> = topics
        .iter()
        .map(|topic| {
            let path = dir.path().join(format!("{topic}.jsonl"));
            std::fs::write(&path, dump(topic).stdout).unwrap();
            path.display().to_string()
        })
        .collect();
    let arguments: Vec<&str> = ["topic", "check"]
        .into_iter()
        .chain(files.iter().map(String::as_str))
        .collect();
    let run = parsley(&arguments, b"");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let summary = run.lines().pop().unwrap()["summary"].clone();
    println!("{written} written: {summary}");
    assert_eq!(summary["deliveries"], 3 * written);
    assert_eq!(summary["violations"], json!(0));
    assert_eq!(dump(&topics[2]).lines().len() as u64, 2 * written);
}
