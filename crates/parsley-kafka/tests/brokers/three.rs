//! The brokers in one test's hands, and who of them leads what.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kafka_cluster::KafkaCluster;
use kafka_cluster::proxy::Reach;
use rdkafka::admin::{NewTopic, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::world::*;
use parsley_kafka::WorkerState;

/// The numbers of the brokers.
pub const ALL: [u16; 3] = [1, 2, 3];

/// The brokers, for one test. When it ends all run again, and can be reached.
pub struct Three(#[allow(dead_code, reason = "it is held")] MutexGuard<'static, ()>);

impl Three {
    pub fn take() -> Self {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let turn = ONE_AT_A_TIME.lock();
        Self(turn.unwrap_or_else(PoisonError::into_inner))
    }

    pub fn kill(&self, number: u16) {
        self.kill_broker(number).unwrap();
    }

    pub fn start(&self, number: u16) {
        self.start_broker(number).unwrap();
    }
}

impl Deref for Three {
    type Target = KafkaCluster;

    fn deref(&self) -> &KafkaCluster {
        broker()
    }
}

impl Drop for Three {
    fn drop(&mut self) {
        for number in ALL {
            if let Some(proxy) = self.proxy() {
                proxy.set_reach(number, Reach::Open);
            }
            if let Err(error) = self.start_broker(number) {
                eprintln!("broker {number} does not come back: {error}");
            }
        }
    }
}

/// Makes a topic that every broker has.
pub fn create_on_all(name: &str, partitions: i32) {
    create(
        name,
        &NewTopic::new(name, partitions, TopicReplication::Fixed(3)),
    );
}

/// Makes a topic of one partition that one broker alone has.
pub fn create_on(name: &str, number: u16) {
    let placed = [&[i32::from(number)][..]];
    create(
        name,
        &NewTopic::new(name, 1, TopicReplication::Variable(&placed)),
    );
}

/// Who leads a partition, if the cluster knows somebody.
pub fn leader_of(topic: &str, partition: i32) -> Option<u16> {
    // A new client, which remembers nothing.
    let asker: BaseConsumer = client().create().unwrap();
    let metadata = asker.fetch_metadata(Some(topic), BOUND).unwrap();
    let partitions = metadata.topics()[0].partitions();
    let found = partitions.iter().find(|found| found.id() == partition)?;
    u16::try_from(found.leader()).ok()
}

/// Waits until another broker leads a partition, or none does.
pub fn wait_until_not_led_by(number: u16, topic: &str, partition: i32) {
    wait_until("another leader", || {
        leader_of(topic, partition) != Some(number)
    });
}

/// Whether a worker is trying again, for a reason that says this.
pub fn says(status: &parsley_kafka::Status, what: &str) -> bool {
    status.workers.iter().any(|worker| {
        matches!(&worker.state, WorkerState::Retrying { message, .. } if message.contains(what))
    })
}

/// Up to where the first partition of a topic is decided.
pub fn stable_end(topic: &str) -> i64 {
    let asker: BaseConsumer = client()
        .set("isolation.level", "read_committed")
        .create()
        .unwrap();
    let bounds = asker.fetch_watermarks(topic, 0, BOUND);
    bounds.map_or(0, |(_, end)| end)
}
