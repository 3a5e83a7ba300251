//! The brokers of a test binary, and plain clients of them. Which brokers it is to be is the binary's own choice.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use kafka_cluster::KafkaCluster;
use parsley_core::wire::{self, ProtocolHeaders};
use parsley_core::{Channel, Clock, Header, SenderId, TopicId};
use parsley_kafka::{
    EventConsumer, KafkaConfig, KafkaHost, KafkaRunning, Polled, Record, Status, WorkerState,
    describe_topics,
};
use parsley_stage::{App, Message, Outbox, Stage, Topic, codec};
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier,
    TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header as KafkaHeader, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

/// Bound of every wait.
pub const BOUND: Duration = Duration::from_secs(60);

/// The brokers that all tests of this binary share. They are never dropped; their lifeline ends them with the test process.
pub fn broker() -> &'static KafkaCluster {
    static BROKER: OnceLock<KafkaCluster> = OnceLock::new();
    BROKER.get_or_init(|| {
        if std::env::var_os("PARSLEY_TEST_LOG").is_some() {
            tracing_subscriber::fmt()
                .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
                .init();
        }
        let mut config = crate::brokers();
        if let Ok(version) = std::env::var("PARSLEY_KAFKA_VERSION") {
            config.version = version;
        }
        let cluster =
            KafkaCluster::start(&config).unwrap_or_else(|error| panic!("no broker: {error}"));
        println!("broker: Apache Kafka {}", cluster.version());
        cluster
    })
}

/// Where a child process finds the broker of the test that started it.
pub const BROKERS: &str = "PARSLEY_TEST_BROKERS";

pub fn bootstrap() -> String {
    std::env::var(BROKERS).unwrap_or_else(|_| broker().bootstrap())
}

pub fn client() -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap());
    config
}

/// The partition of the brokers' own topic that a group's positions are on, and whose leader coordinates the group.
///
/// Brokers take the absolute value of a Java string's hash code. Without its sign, by which they choose the partition of a key, groups with a negative
/// one were looked for elsewhere, and a test held back what it waited for whenever the wrong broker led there.
pub fn coordinating(group: &str) -> i32 {
    let hash = group.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    let partitions = u32::try_from(partitions_of(POSITIONS)).unwrap();
    let partition = hash.checked_abs().unwrap_or(0).unsigned_abs() % partitions;
    i32::try_from(partition).unwrap()
}

/// The brokers' own topic of positions.
pub const POSITIONS: &str = "__consumer_offsets";

/// How a host of a test is set up: members notice each other soon, and an empty fetch is answered soon.
pub fn config(dir: impl AsRef<Path>) -> KafkaConfig {
    KafkaConfig::new(bootstrap(), dir.as_ref())
        .commit_interval(Duration::from_millis(20))
        .property("heartbeat.interval.ms", "100")
        .property("session.timeout.ms", "6000")
        .property("fetch.wait.max.ms", "50")
}

pub fn start(config: KafkaConfig, app: &App) -> KafkaRunning {
    KafkaHost::new(config).unwrap().start(app).unwrap()
}

/// Waits until the status is as wished; it has to become so.
pub fn wait_for(running: &KafkaRunning, what: &str, is_reached: impl FnMut(&Status) -> bool) {
    let reached = running.wait(BOUND, is_reached);
    assert!(reached, "not {what}: {:#?}", running.status());
}

pub fn wait_for_deliveries(running: &KafkaRunning, count: u64) {
    wait_for(running, &format!("{count} deliveries"), |status| {
        status.delivered() >= count
    });
}

/// Waits until each of so many tasks has committed its opening.
pub fn wait_for_tasks(running: &KafkaRunning, count: usize) {
    wait_for(running, &format!("{count} open tasks"), |status| {
        let open = status.tasks().filter(|(_, _, task)| task.steps > 0);
        open.count() == count
    });
}

/// Waits for a refusal. Returns its code and partition.
pub fn wait_for_refusal(running: &KafkaRunning) -> (String, i32) {
    wait_for(running, "refused", |status| !status.refused().is_empty());
    let status = running.status();
    let refused = status.refused();
    (refused[0].2.code.to_string(), refused[0].1)
}

/// Stops, and expects that nothing was refused or failed.
pub fn stop(running: &KafkaRunning) {
    let status = running.stop();
    assert!(status.refused().is_empty(), "{status:#?}");
    let stopped = |worker: &parsley_kafka::WorkerStatus| worker.state == WorkerState::Stopped;
    assert!(status.workers.iter().all(stopped), "{status:#?}");
}

pub fn admin() -> AdminClient<DefaultClientContext> {
    client().create().unwrap()
}

pub fn create_topic(name: &str, partitions: i32) {
    create_topic_with(name, partitions, &[]);
}

pub fn create_topic_with(name: &str, partitions: i32, settings: &[(&str, &str)]) {
    let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    for (setting, value) in settings {
        topic = topic.set(setting, value);
    }
    create(name, &topic);
}

/// Makes a topic as it is described, and waits until it is known.
pub fn create(name: &str, topic: &NewTopic<'_>) {
    for outcome in block_on(admin().create_topics([topic], &AdminOptions::new())).unwrap() {
        outcome.unwrap();
    }
    wait_until(name, || id_of(name).is_some());
}

/// Deletes a topic, and waits until it is unknown.
pub fn delete_topic(name: &str) {
    for outcome in block_on(admin().delete_topics(&[name], &AdminOptions::new())).unwrap() {
        outcome.unwrap();
    }
    wait_until(name, || id_of(name).is_none());
}

pub fn add_partitions(name: &str, partitions: usize) {
    let more = NewPartitions::new(name, partitions);
    for outcome in block_on(admin().create_partitions([&more], &AdminOptions::new())).unwrap() {
        outcome.unwrap();
    }
    wait_until(name, || partitions_of(name) == partitions);
}

pub fn set_topic(name: &str, setting: &str, value: &str) {
    let altered = AlterConfig::new(ResourceSpecifier::Topic(name)).set(setting, value);
    for outcome in block_on(admin().alter_configs([&altered], &AdminOptions::new())).unwrap() {
        outcome.unwrap();
    }
}

pub fn delete_group(group: &str) {
    for outcome in block_on(admin().delete_groups(&[group], &AdminOptions::new())).unwrap() {
        outcome.unwrap();
    }
}

/// Deletes the records of a partition below an offset.
pub fn delete_records(topic: &str, partition: i32, below: i64) {
    let mut offsets = TopicPartitionList::new();
    offsets
        .add_partition_offset(topic, partition, Offset::Offset(below))
        .unwrap();
    let deleted = block_on(admin().delete_records(&offsets, &AdminOptions::new())).unwrap();
    for element in deleted.elements() {
        element.error().unwrap();
    }
}

pub fn wait_until(what: &str, is_reached: impl Fn() -> bool) {
    let until = Instant::now() + BOUND;
    while !is_reached() {
        assert!(Instant::now() < until, "{what}: not within {BOUND:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn id_of(topic: &str) -> Option<TopicId> {
    let admin = admin();
    let mut answers = describe_topics(admin.inner(), &[topic], BOUND).unwrap();
    let found = answers.pop().unwrap().ok();
    found.map(|facts| TopicId::from_uuid(facts.id))
}

pub fn partitions_of(topic: &str) -> usize {
    let admin = admin();
    let mut answers = describe_topics(admin.inner(), &[topic], BOUND).unwrap();
    answers.pop().unwrap().map_or(0, |facts| facts.partitions)
}

pub fn channel(topic: &str, partition: i32) -> Channel {
    id_of(topic).unwrap().partition(partition)
}

/// The log start and the high watermark.
pub fn bounds(topic: &str, partition: i32) -> (i64, i64) {
    // Read committed, which is the default, would be told the last stable offset.
    let asker: BaseConsumer = client()
        .set("isolation.level", "read_uncommitted")
        .create()
        .unwrap();
    let until = Instant::now() + BOUND;
    loop {
        match asker.fetch_watermarks(topic, partition, BOUND) {
            Ok(bounds) => return bounds,
            // A broker that has just come back leads nothing yet.
            Err(error) => assert!(Instant::now() < until, "{topic}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn asker(group: &str) -> BaseConsumer {
    client()
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .create()
        .unwrap()
}

/// The stable position that a group has committed.
pub fn committed(group: &str, topic: &str, partition: i32) -> Option<i64> {
    let (asker, until) = (asker(group), Instant::now() + BOUND);
    let answered = loop {
        let mut asked = TopicPartitionList::new();
        asked.add_partition(topic, partition);
        match asker.committed_offsets(asked, BOUND) {
            Ok(answered) => break answered,
            // A group's coordinator moves while brokers come up.
            Err(error) => {
                use rdkafka::types::RDKafkaErrorCode::NotCoordinator;
                let code = error.rdkafka_error_code();
                assert!(
                    code == Some(NotCoordinator) && Instant::now() < until,
                    "{error}"
                );
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    };
    let element = answered.find_partition(topic, partition).unwrap();
    element.error().unwrap();
    match element.offset() {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    }
}

/// Moves the position of a group that has no member, as an admin tool does.
pub fn move_position(group: &str, topic: &str, partition: i32, to: i64) {
    let mut moved = TopicPartitionList::new();
    moved
        .add_partition_offset(topic, partition, Offset::Offset(to))
        .unwrap();
    asker(group).commit(&moved, CommitMode::Sync).unwrap();
}

/// A producer of somebody else.
pub struct Foreign(pub BaseProducer);

/// Where a record goes: by its key, as Java producers choose, or to a partition.
#[derive(Clone, Copy)]
pub enum To {
    Key,
    Partition(i32),
}

impl Foreign {
    pub fn plain() -> Self {
        let mut config = client();
        config.set("partitioner", "murmur2_random");
        Self(config.create().unwrap())
    }

    pub fn transactional(id: &str) -> Self {
        let mut config = client();
        config.set("transactional.id", id);
        let producer: BaseProducer = config.create().unwrap();
        producer.init_transactions(BOUND).unwrap();
        Self(producer)
    }

    pub fn begin(&self) {
        self.0.begin_transaction().unwrap();
    }

    pub fn commit(&self) {
        self.0.commit_transaction(BOUND).unwrap();
    }

    pub fn abort(&self) {
        self.0.abort_transaction(BOUND).unwrap();
    }

    /// Appends records, and waits until the broker has them.
    pub fn append(&self, topic: &str, to: To, records: &[(&str, &str)]) {
        for (key, value) in records {
            self.send(topic, to, key, value, &[]);
        }
        self.0.flush(BOUND).unwrap();
    }

    pub fn append_with(&self, topic: &str, to: To, record: (&str, &str), headers: &[Header]) {
        self.send(topic, to, record.0, record.1, headers);
        self.0.flush(BOUND).unwrap();
    }

    /// Hands a record to the client.
    pub fn send(&self, topic: &str, to: To, key: &str, value: &str, headers: &[Header]) {
        let mut owned = OwnedHeaders::new();
        for header in headers {
            owned = owned.insert(KafkaHeader {
                key: std::str::from_utf8(&header.name).unwrap(),
                value: header.value.as_deref(),
            });
        }
        let mut record = BaseRecord::to(topic).key(key).payload(value).headers(owned);
        if let To::Partition(partition) = to {
            record = record.partition(partition);
        }
        loop {
            match self.0.send(record) {
                Ok(()) => break,
                Err((error, back)) => {
                    use rdkafka::types::RDKafkaErrorCode::QueueFull;
                    assert_eq!(error.rdkafka_error_code(), Some(QueueFull), "{error}");
                    record = back;
                    self.0.poll(Duration::from_millis(10));
                }
            }
        }
    }

    pub fn flush(&self) {
        self.0.flush(BOUND).unwrap();
    }

    /// Appends keys and values that were read elsewhere, each to the partition that it came from.
    pub fn append_copies(&self, topic: &str, records: &[Record]) {
        for record in records {
            let mut copy =
                BaseRecord::<[u8], [u8]>::to(topic).partition(record.partition.partition);
            copy.key = record.key.as_deref();
            copy.payload = record.value.as_deref();
            self.0.send(copy).unwrap();
        }
        self.flush();
    }

    /// Sends positions of a group that has no member, in the open transaction.
    pub fn send_positions(&self, group: &str, topic: &str, partition: i32, position: i64) {
        let mut positions = TopicPartitionList::new();
        positions
            .add_partition_offset(topic, partition, Offset::Offset(position))
            .unwrap();
        let group = asker(group).group_metadata().unwrap();
        self.0
            .send_offsets_to_transaction(&positions, &group, BOUND)
            .unwrap();
    }
}

/// The headers of a stamp that claims these offsets.
pub fn stamp(claims: &[(Channel, i64)], sequence: i64) -> [Header; 3] {
    let mut clock = Clock::default();
    for (channel, offset) in claims {
        clock.claim_offset(*channel, *offset);
    }
    wire::stamp_headers(
        wire::encode(&clock).into(),
        SenderId::of_task("somebody", "else", 0),
        sequence,
    )
}

/// How long a reader waits for the markers of commits: they are answered before these stand in the partitions. Where it passes, a transaction is
/// open.
const MARKERS: Duration = Duration::from_secs(2);

/// Everything committed that a topic has, partition by partition.
pub fn read(topic: &str) -> Vec<Record> {
    read_as("read_committed", topic)
}

pub fn read_as(isolation: &str, topic: &str) -> Vec<Record> {
    let consumer: BaseConsumer = client()
        .set("group.id", "reader")
        .set("isolation.level", isolation)
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("fetch.wait.max.ms", "20")
        .create()
        .unwrap();
    let partitions = partitions_of(topic);
    let mut assignment = TopicPartitionList::new();
    for partition in 0..partitions {
        assignment
            .add_partition_offset(topic, partition as i32, Offset::Beginning)
            .unwrap();
    }
    consumer.assign(&assignment).unwrap();
    let mut consumer = EventConsumer::new(consumer).unwrap();
    let mut records = Vec::new();
    let ends: Vec<i64> = (0..partitions)
        .map(|partition| bounds(topic, partition as i32).1)
        .collect();
    let mut reached: BTreeMap<usize, i64> = BTreeMap::new();
    let is_at_end = |(partition, end): (&usize, &i64)| *end >= ends[*partition];
    let (begun, until) = (Instant::now(), Instant::now() + BOUND);
    while reached.len() < partitions || !reached.iter().all(is_at_end) && begun.elapsed() < MARKERS
    {
        assert!(Instant::now() < until, "{topic} has no end");
        match consumer.poll(Duration::from_millis(100)) {
            Some(Polled::Record(record)) => records.push(record),
            Some(Polled::Eof { partition, offset }) => {
                reached.insert(partition.partition as usize, offset);
            }
            Some(Polled::Error(error)) if error.partition.is_some() => panic!("{error}"),
            _ => {}
        }
    }
    records.sort_by_key(|record| (record.partition.partition, record.offset));
    records
}

pub fn text(bytes: &Option<bytes::Bytes>) -> String {
    String::from_utf8(bytes.as_ref().unwrap().to_vec()).unwrap()
}

/// The values of a topic, partition by partition.
pub fn values(topic: &str) -> Vec<String> {
    read(topic)
        .iter()
        .map(|record| text(&record.value))
        .collect()
}

/// The clock, the sender and the sequence of a record of a stage.
pub fn stamp_of(record: &Record) -> (Clock, SenderId, i64) {
    let headers = ProtocolHeaders::read(&record.headers).unwrap();
    let (sender, sequence) = headers.sender.unwrap();
    let clock = headers.clock.unwrap();
    (wire::decode(&clock).unwrap().into_clock(), sender, sequence)
}

/// Checks of a topic that a stage alone writes to that every record has a stamp, of one of the stage's tasks, and that the sequences of each
/// task on each partition are 0, 1, 2 and so on. Returns how many records each task has sent.
pub fn check_stamps(topic: &str, app: &str, stage: &str, tasks: i32) -> BTreeMap<i32, usize> {
    let mut next: BTreeMap<(i32, SenderId), i64> = BTreeMap::new();
    let mut sent: BTreeMap<i32, usize> = BTreeMap::new();
    for record in read(topic) {
        let (_, sender, sequence) = stamp_of(&record);
        let of = |task: &i32| SenderId::of_task(app, stage, *task) == sender;
        let task = (0..tasks).find(of).expect("a task of the stage");
        let next = next
            .entry((record.partition.partition, sender))
            .or_default();
        assert_eq!(sequence, *next, "{topic}: {record:?}");
        *next += 1;
        *sent.entry(task).or_default() += 1;
    }
    sent
}

pub fn text_topic(name: &str) -> Topic<String, String> {
    Topic::new(name, codec::string(), codec::string())
}

/// Sends each record of `<name>-in` on to `<name>-out`, with its key and value.
pub fn copying(name: &str) -> App {
    let (input, output) = (
        text_topic(&format!("{name}-in")),
        text_topic(&format!("{name}-out")),
    );
    let copy = Stage::stateless("copy")
        .sink(&output)
        .on(&input, move |message, out| {
            out.send(&output, &message.key, &message.value)
        })
        .build()
        .unwrap();
    App::named(name).stage(copy).build().unwrap()
}

/// Makes the topics of [`copying`].
pub fn copying_topics(name: &str, partitions: i32) -> (String, String) {
    let (input, output) = (format!("{name}-in"), format!("{name}-out"));
    create_topic(&input, partitions);
    create_topic(&output, partitions);
    (input, output)
}

/// Counts words, `<name>-words` to `<name>-counts`: each count is an effect that may come once only.
pub fn wordcount(name: &str) -> (App, String, String) {
    let (words, counts) = (format!("{name}-words"), format!("{name}-counts"));
    let input = text_topic(&words);
    let output = Topic::new(&*counts, codec::string(), codec::u64());
    let count = Stage::stateful("count", codec::string(), codec::u64())
        .sink(&output)
        .on(&input, move |seen, word, out| {
            *seen += 1;
            out.send(&output, &word.key, seen)
        })
        .build()
        .unwrap();
    let app = App::named(name).stage(count).build().unwrap();
    (app, words, counts)
}

/// The values of each key, in their order.
pub fn counts(topic: &str) -> BTreeMap<String, Vec<u64>> {
    let mut counts: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for record in read(topic) {
        let value = record.value.as_ref().unwrap();
        let value = u64::from_be_bytes(value[..].try_into().unwrap());
        counts.entry(text(&record.key)).or_default().push(value);
    }
    counts
}

/// Joins: a payment is held until the order that it came of was delivered, whichever way each travels.
pub fn joined(name: &str) -> App {
    let topic = |part: &str| text_topic(&format!("{name}-{part}"));
    let (orders, payments, seen) = (topic("orders"), topic("payments"), topic("seen"));
    let pay = Stage::stateless("pay")
        .sink(&payments)
        .on(&orders, {
            let payments = payments.clone();
            move |order, out| out.send(&payments, &order.key, &format!("for {}", order.value))
        })
        .build()
        .unwrap();
    let note = |topic: &'static str| {
        let seen = seen.clone();
        move |message: Message<String, String>, out: &mut Outbox| {
            out.send(&seen, &message.key, &format!("{topic} {}", message.value))
        }
    };
    let join = Stage::stateless("join")
        .sink(&seen)
        .on(&orders, note("order"))
        .on(&payments, note("payment"))
        .build()
        .unwrap();
    App::named(name).stage(pay).stage(join).build().unwrap()
}
