//! The proxy between librdkafka's clients and two real brokers.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_executor::block_on;
use kafka_cluster::proxy::{Action, ApiKey, Proxy, Reach, Requests};
use kafka_cluster::{ClusterConfig, KafkaCluster};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

/// Bound of every wait.
const BOUND: Duration = Duration::from_secs(60);

/// A test's turn, which leaves every broker within reach.
struct Turn {
    cluster: &'static KafkaCluster,
    _guard: MutexGuard<'static, ()>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        for broker in 1..=2 {
            proxy(self.cluster).set_reach(broker, Reach::Open);
        }
    }
}

/// Two brokers, for one test at a time: some cut what others need. They are never dropped; their lifeline ends them with the process.
fn cluster() -> (&'static KafkaCluster, Turn) {
    static CLUSTER: OnceLock<KafkaCluster> = OnceLock::new();
    static TURNS: Mutex<()> = Mutex::new(());
    let guard = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = CLUSTER.get_or_init(|| {
        let mut config = ClusterConfig {
            brokers: 2,
            heap_mb: 256,
            proxied: true,
            ..ClusterConfig::default()
        };
        if let Ok(version) = std::env::var("PARSLEY_KAFKA_VERSION") {
            config.version = version;
        }
        KafkaCluster::start(&config).unwrap_or_else(|error| panic!("{error}"))
    });
    let turn = Turn {
        cluster,
        _guard: guard,
    };
    (cluster, turn)
}

fn proxy(cluster: &KafkaCluster) -> &Proxy {
    cluster.proxy().expect("it is proxied")
}

fn client(bootstrap: String) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("reconnect.backoff.ms", "20")
        .set("reconnect.backoff.max.ms", "200");
    config
}

/// A topic with a partition on each broker, partition 0 on broker 1.
fn create_topic(cluster: &KafkaCluster, name: &str) {
    let admin: AdminClient<DefaultClientContext> =
        client(cluster.direct_bootstrap()).create().unwrap();
    let topic = NewTopic::new(name, 2, TopicReplication::Variable(&[&[1], &[2]]));
    for outcome in block_on(admin.create_topics([&topic], &AdminOptions::new())).unwrap() {
        outcome.unwrap();
    }
}

fn producer(config: &mut ClientConfig) -> BaseProducer {
    // A send is a request.
    config.set("linger.ms", "0").create().unwrap()
}

fn send(producer: &BaseProducer, topic: &str, partition: i32, value: &str) {
    let record = BaseRecord::<str, str>::to(topic)
        .partition(partition)
        .payload(value);
    producer.send(record).unwrap();
}

/// What is committed in a partition, read past the proxy.
fn values(cluster: &KafkaCluster, topic: &str, partition: i32, count: usize) -> Vec<String> {
    read(client(cluster.direct_bootstrap()), topic, partition, count)
}

fn read(mut config: ClientConfig, topic: &str, partition: i32, count: usize) -> Vec<String> {
    let consumer: BaseConsumer = config
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Beginning)
        .unwrap();
    consumer.assign(&list).unwrap();
    let mut values = Vec::new();
    while values.len() < count {
        let record = consumer.poll(BOUND).expect("a record").unwrap();
        values.push(String::from_utf8(record.payload().unwrap().to_vec()).unwrap());
    }
    values
}

/// The high watermark.
fn end(cluster: &KafkaCluster, topic: &str, partition: i32) -> i64 {
    let mut config = client(cluster.direct_bootstrap());
    config.set("isolation.level", "read_uncommitted");
    let asker: BaseConsumer = config.create().unwrap();
    asker.fetch_watermarks(topic, partition, BOUND).unwrap().1
}

#[test]
fn clients_stay_behind_the_proxy_and_others_go_past_it() {
    let (cluster, _turn) = cluster();
    let proxy = proxy(cluster);
    create_topic(cluster, "behind");
    let rules: Vec<_> = (0..2)
        .map(|partition| {
            let broker = u16::try_from(partition).unwrap() + 1;
            let to_partition = |api| Requests::of(api).to_broker(broker).of_client("behind");
            let sent = to_partition(ApiKey::PRODUCE).to_partition("behind", partition);
            let fetched = to_partition(ApiKey::FETCH);
            (
                proxy.rule(sent, Action::Watch),
                proxy.rule(fetched, Action::Watch),
            )
        })
        .collect();
    let behind = || {
        let mut config = client(cluster.bootstrap());
        config.set("client.id", "behind");
        config
    };
    let producer = producer(&mut behind());
    for partition in 0..2 {
        // Longer than what the proxy keeps of a request.
        send(&producer, "behind", partition, &"v".repeat(100_000));
    }
    producer.flush(BOUND).unwrap();
    for (partition, (sent, fetched)) in (0..2).zip(&rules) {
        sent.wait_for_answers(1, BOUND).unwrap();
        let read = read(behind(), "behind", partition, 1);
        assert_eq!(read, ["v".repeat(100_000)]);
        assert!(fetched.answered() > 0);
        let by_now = fetched.arrived();
        assert_eq!(values(cluster, "behind", partition, 1), read);
        assert_eq!(fetched.arrived(), by_now, "that reader is another client");
    }
    let any = proxy.rule(Requests::of(ApiKey::FETCH), Action::Watch);
    assert_eq!(values(cluster, "behind", 0, 1).len(), 1);
    assert_eq!(any.arrived(), 0, "it went past the proxy");
    assert!((1..=2).all(|broker| proxy.connections(broker) > 0));
    assert_eq!(proxy.faults(), []);
}

#[test]
fn a_held_partition_holds_its_own_records_alone() {
    let (cluster, _turn) = cluster();
    let proxy = proxy(cluster);
    create_topic(cluster, "held");
    let to = |partition| Requests::of(ApiKey::PRODUCE).to_partition("held", partition);
    let hold = proxy.rule(to(0).of_transactions("held-"), Action::HoldRequest);
    let watch = proxy.rule(to(1), Action::Watch);
    let mut config = client(cluster.bootstrap());
    let producer = producer(config.set("transactional.id", "held-1"));
    producer.init_transactions(BOUND).unwrap();
    producer.begin_transaction().unwrap();
    send(&producer, "held", 0, "first");
    send(&producer, "held", 1, "second");
    hold.wait_for_arrivals(1, BOUND).unwrap();
    watch.wait_for_answers(1, BOUND).unwrap();
    assert_eq!((end(cluster, "held", 0), end(cluster, "held", 1)), (0, 1));
    assert_eq!((hold.held(), hold.answered()), (1, 0));
    hold.release();
    producer.commit_transaction(BOUND).unwrap();
    assert_eq!(values(cluster, "held", 0, 1), ["first"]);
    assert_eq!(values(cluster, "held", 1, 1), ["second"]);
    assert_eq!((hold.arrived(), watch.arrived()), (1, 1));
    assert_eq!(proxy.faults(), []);
}

/// The commit's answer is lost, then the request itself: once the broker has committed and once it has not, the client asks again, and one record
/// is there for each.
#[test]
fn a_commit_that_is_not_answered_is_asked_for_again() {
    let (cluster, _turn) = cluster();
    let proxy = proxy(cluster);
    create_topic(cluster, "lost");
    let mut config = client(cluster.bootstrap());
    let producer = producer(config.set("transactional.id", "lost-1"));
    producer.init_transactions(BOUND).unwrap();
    for (round, action) in (1..).zip([Action::DropResponse, Action::DropRequest]) {
        let all = Requests::of(ApiKey::END_TXN).of_transactions("lost-1");
        let lost = proxy.rule(all.clone().next(1), action);
        let seen = proxy.rule(all, Action::Watch);
        producer.begin_transaction().unwrap();
        send(&producer, "lost", 0, &round.to_string());
        producer.commit_transaction(BOUND).unwrap();
        assert_eq!(lost.arrived(), 1);
        let answered = u64::from(action == Action::DropResponse);
        assert_eq!(lost.answered(), answered);
        assert!(seen.arrived() >= 2, "{}", seen.arrived());
    }
    assert_eq!(values(cluster, "lost", 0, 2), ["1", "2"]);
    // Two records and two markers.
    assert_eq!(end(cluster, "lost", 0), 4);
}

#[test]
fn a_broker_out_of_reach_takes_nothing_until_it_is_back() {
    let (cluster, _turn) = cluster();
    let proxy = proxy(cluster);
    create_topic(cluster, "reach");
    let mut config = client(cluster.bootstrap());
    let producer = producer(&mut config);
    send(&producer, "reach", 1, "before");
    producer.flush(BOUND).unwrap();
    for (reach, value) in [(Reach::Refused, "refused"), (Reach::Silent, "silent")] {
        let sent = end(cluster, "reach", 1);
        proxy.set_reach(2, reach);
        let to_it = Requests::of(ApiKey::PRODUCE).to_partition("reach", 1);
        let arrives = proxy.rule(to_it, Action::Watch);
        send(&producer, "reach", 1, value);
        // The other broker is there.
        send(&producer, "reach", 0, value);
        while end(cluster, "reach", 0) != sent {
            producer.poll(Duration::from_millis(10));
        }
        if reach == Reach::Silent {
            arrives.wait_for_arrivals(1, BOUND).unwrap();
        } else {
            assert_eq!((arrives.arrived(), proxy.connections(2)), (0, 0));
        }
        assert_eq!(end(cluster, "reach", 1), sent);
        proxy.set_reach(2, Reach::Open);
        producer.flush(BOUND).unwrap();
    }
    proxy.cut(2);
    send(&producer, "reach", 1, "cut");
    producer.flush(BOUND).unwrap();
    let expected = ["before", "refused", "silent", "cut"];
    assert_eq!(values(cluster, "reach", 1, 4), expected);
}
