//! Looks into a directory of the demo's data while no program has it open.

#![allow(dead_code, reason = "not every test file uses all of it")]

use std::collections::BTreeMap;
use std::path::Path;

use parsley::embedded::{Log, LogConfig};
use serde_json::Value;

/// The ends of all partitions, by topic.
pub fn ends(data: &Path) -> BTreeMap<String, Vec<i64>> {
    let log = open(data);
    let end = |channel| log.high_watermark(channel).expect("it exists");
    log.topics()
        .into_iter()
        .map(|(name, id)| {
            let partitions = log.partition_count(id).expect("it exists");
            let ends = (0..partitions).map(|partition| end(id.partition(partition)));
            (name, ends.collect())
        })
        .collect()
}

/// How many deliveries the account of deliveries tells of.
pub fn deliveries(data: &Path) -> u64 {
    let log = open(data);
    if log.topic_id("demo-audit").is_none() {
        return 0;
    }
    let mut entries = log.consumer("demo-audit").expect("it exists");
    let mut count = 0;
    loop {
        let records = entries.poll_now().expect("readable");
        if records.is_empty() {
            return count;
        }
        let delivered = records.iter().filter(|record| {
            let value = record.value.as_deref().expect("a value");
            value.starts_with(b"{\"delivered\":")
        });
        count += delivered.count() as u64;
    }
}

/// The commands on an account, in their order.
pub fn commands(data: &Path, account: &str) -> Vec<Value> {
    let records = open(data)
        .consumer("commands")
        .expect("it exists")
        .read_to_end()
        .expect("readable");
    records
        .into_iter()
        .filter(|record| record.key.as_deref() == Some(account.as_bytes()))
        .map(|record| {
            serde_json::from_slice(record.value.as_deref().expect("a value")).expect("JSON")
        })
        .collect()
}

fn open(data: &Path) -> Log {
    Log::open(data, LogConfig::default()).expect("a log that nobody has open")
}
