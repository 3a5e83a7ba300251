//! Schedules on the simulated broker.

use std::collections::BTreeMap;

use bytes::Bytes;
use parsley_core::{Channel, Record};
use parsley_sim::broker::{AppendMode, Census, Outcome, SimBroker, Txn};

use super::{Bounds, Broker, Read};

const TOPIC: &str = "t";

pub struct Simulated {
    broker: SimBroker,
    open: BTreeMap<&'static str, Txn>,
}

impl Simulated {
    pub fn new(partitions: i32) -> Self {
        let mut broker = SimBroker::new(AppendMode::Atomic);
        broker.create_topic(TOPIC, partitions);
        Self {
            broker,
            open: BTreeMap::new(),
        }
    }

    pub fn census(&self) -> Census {
        self.broker.census()
    }

    fn channel(&self, partition: i32) -> Channel {
        self.broker.topic_id(TOPIC).unwrap().partition(partition)
    }
}

impl Broker for Simulated {
    fn append(&mut self, partition: i32, value: &str, producer: Option<&'static str>) -> i64 {
        let txn = producer.map(|producer| {
            self.begin(producer);
            self.open[producer]
        });
        let record = Record {
            channel: self.channel(partition),
            offset: 0,
            timestamp_ms: 0,
            key: None,
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
            headers: Vec::new(),
        };
        self.broker.append(record, txn).unwrap()
    }

    fn begin(&mut self, producer: &'static str) {
        let broker = &mut self.broker;
        self.open.entry(producer).or_insert_with(|| broker.begin());
    }

    fn end(&mut self, producer: &'static str, commit: bool) {
        let txn = self.open.remove(producer).unwrap();
        let outcome = if commit {
            Outcome::Committed
        } else {
            Outcome::Aborted
        };
        self.broker.end(txn, outcome).unwrap();
    }

    fn cut(&mut self, partition: i32, before: i64) -> bool {
        let channel = self.channel(partition);
        self.broker.delete_records(channel, before).is_ok()
    }

    fn recreate(&mut self, partitions: i32) {
        self.broker.delete_topic(TOPIC).unwrap();
        self.broker.create_topic(TOPIC, partitions);
    }

    fn bounds(&mut self, partition: i32) -> Bounds {
        let channel = self.channel(partition);
        let high_watermark = self.broker.high_watermark(channel).unwrap();
        assert_eq!(self.broker.end_offset(channel), Some(high_watermark));
        Bounds {
            log_start: self.broker.log_start(channel).unwrap(),
            last_stable: self.broker.last_stable_offset(channel).unwrap(),
            high_watermark,
        }
    }

    fn read(&mut self, partition: i32) -> Read {
        let channel = self.channel(partition);
        let start = self.broker.log_start(channel).unwrap();
        let fetched = self.broker.fetch(channel, start, usize::MAX).unwrap();
        let seen = |record: &Record| {
            let value = record.value.as_deref().unwrap().to_vec();
            (record.offset, String::from_utf8(value).unwrap())
        };
        Read {
            records: fetched.records.iter().map(seen).collect(),
            position: fetched.next,
        }
    }
}
