//! Small applications, and a look at what they did.
// Each binary of tests uses a part of it.
#![allow(dead_code)]

pub mod dir;
pub mod numbers;
pub mod process;
pub mod shop;
pub mod stepping;

use std::sync::{Arc, Mutex};

use parsley_core::{Channel, Clock, Header, Offset, Record, TopicId, wire};
use parsley_embedded::{
    Backoff, DeliveryEvent, HoldEvent, Host, HostBuilder, Ids, Log, LogConfig, NewRecord,
};
use parsley_stage::{Stage, Topic, codec};

pub type Text = Topic<String, String>;

pub fn text(name: &str) -> Text {
    Topic::new(name, codec::string(), codec::string())
}

/// A builder whose runs repeat and do not wait after failures.
pub fn builder() -> HostBuilder {
    Host::builder()
        .log_config(LogConfig::default().ids(Ids::Seeded(1)))
        .backoff(Backoff::NONE)
}

pub fn create(host: &Host, partitions: i32, topics: &[&str]) {
    for topic in topics {
        host.create_topic(topic, partitions).unwrap();
    }
}

/// Copies each record of the inputs to `to`, its value prefixed by the stage's name and the input's.
pub fn copying(name: &'static str, inputs: &[&Text], to: &Text) -> Stage {
    let mut stage = Stage::stateless(name).sink(to);
    for input in inputs {
        let to = to.clone();
        stage = stage.on(input, move |message, out| {
            let value = format!("{name}({}:{})", message.topic, message.value);
            out.send(&to, &message.key, &value)
        });
    }
    stage.build().unwrap()
}

pub fn send(host: &Host, topic: &str, key: &str, value: &str) -> Offset {
    let record = NewRecord::to(topic)
        .key(key.to_owned())
        .value(value.to_owned());
    host.producer().send(record).unwrap().offset
}

/// Sends `0`, `1`, ... as values.
pub fn send_numbers(host: &Host, topic: &str, numbers: std::ops::Range<usize>) {
    for number in numbers {
        send(host, topic, &format!("key-{number}"), &number.to_string());
    }
}

/// A record as a sender with a clock writes it.
pub fn claiming(topic: &str, value: &str, clock: &Clock) -> NewRecord {
    NewRecord::to(topic)
        .key("k")
        .value(value.to_owned())
        .headers([Header::new(wire::CLOCK_HEADER, wire::encode(clock))])
}

pub fn value_of(record: &Record) -> String {
    String::from_utf8(record.value.clone().expect("a value").to_vec()).expect("text")
}

/// The committed values of a topic.
pub fn values(log: &Log, topic: &str) -> Vec<String> {
    log.consumer(topic)
        .unwrap()
        .read_to_end()
        .unwrap()
        .iter()
        .map(value_of)
        .collect()
}

pub fn sorted(mut values: Vec<String>) -> Vec<String> {
    values.sort();
    values
}

/// The clock that a record carries.
pub fn clock_of(record: &Record) -> Clock {
    let header = record
        .headers
        .iter()
        .find(|header| header.name == wire::CLOCK_HEADER)
        .expect("a clock");
    wire::decode(header.value.as_ref().expect("not null"))
        .expect("decodable")
        .into_clock()
}

pub fn channel(host: &Host, topic: &str, partition: i32) -> Channel {
    host.log()
        .topic_id(topic)
        .expect("the topic exists")
        .partition(partition)
}

pub fn id(host: &Host, topic: &str) -> TopicId {
    host.log().topic_id(topic).expect("the topic exists")
}

/// Everything that a host reports.
#[derive(Clone, Default)]
pub struct Trace {
    pub deliveries: Arc<Mutex<Vec<DeliveryEvent>>>,
    pub holds: Arc<Mutex<Vec<HoldEvent>>>,
}

impl Trace {
    pub fn observe(&self, builder: HostBuilder) -> HostBuilder {
        let (deliveries, holds) = (Arc::clone(&self.deliveries), Arc::clone(&self.holds));
        builder
            .on_delivery(move |delivery| deliveries.lock().unwrap().push(delivery.clone()))
            .on_hold(move |hold| holds.lock().unwrap().push(hold.clone()))
    }

    /// What a task delivered: topic and offset, in order.
    pub fn order(&self, stage: &str, partition: i32) -> Vec<(String, Offset)> {
        let deliveries = self.deliveries.lock().unwrap();
        let ours = deliveries
            .iter()
            .filter(|delivery| &*delivery.stage == stage && delivery.partition == partition);
        ours.map(|delivery| (delivery.topic.to_string(), delivery.offset))
            .collect()
    }

    /// Panics if a task delivered a record before one that its clock names by offset, whatever the host thinks of it.
    pub fn assert_causal(&self) {
        let deliveries = self.deliveries.lock().unwrap();
        for (index, effect) in deliveries.iter().enumerate() {
            let clock = wire::decode(&effect.clock).expect("decodable").into_clock();
            for late in &deliveries[index + 1..] {
                let same_task = late.stage == effect.stage && late.partition == effect.partition;
                let claimed = clock
                    .offset(late.channel)
                    .filter(|_| late.channel != effect.channel);
                assert!(
                    !(same_task && claimed.is_some_and(|claimed| claimed >= late.offset)),
                    "{}@{} was delivered before its cause {}@{}",
                    effect.topic,
                    effect.offset,
                    late.topic,
                    late.offset
                );
            }
        }
    }
}
