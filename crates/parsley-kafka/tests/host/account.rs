//! What is true of every account of deliveries (decision E11).

use std::collections::BTreeMap;

use parsley_stage::{AuditRecord, Audited};

use crate::world::*;

/// The entries of an account, partition by partition. They carry the key of their task and no stamp.
pub fn account(topic: &str) -> Vec<AuditRecord> {
    let entry = |record: &parsley_kafka::Record| {
        let entry = AuditRecord::decode(record.value.as_deref()).unwrap();
        assert_eq!(record.key, Some(entry.key()));
        assert_eq!(record.partition.partition, entry.partition);
        assert!(record.headers.is_empty(), "{:?}", record.headers);
        entry
    };
    read(topic).iter().map(entry).collect()
}

/// The same, once it has all deliveries that are expected: a commit is answered before its markers are there.
#[allow(dead_code)] // Not every binary of tests has such an account.
pub fn account_of(topic: &str, deliveries: usize) -> Vec<AuditRecord> {
    let is_delivery = |entry: &&AuditRecord| matches!(entry.audited, Audited::Delivered { .. });
    wait_until("the account", || {
        account(topic).iter().filter(is_delivery).count() >= deliveries
    });
    account(topic)
}

/// Checks what is true of every account: each execution's arrivals count from 0 without gaps, executions follow each other, every record
/// is delivered once, and behind its hold if it was held. Returns how many records of each topic were delivered, and how many executions
/// each task had.
pub fn check(entries: &[AuditRecord]) -> (BTreeMap<String, usize>, BTreeMap<(String, i32), usize>) {
    let mut arrivals: BTreeMap<(String, i32), Vec<(i64, u64)>> = BTreeMap::new();
    let mut held = Vec::new();
    let mut delivered: BTreeMap<(String, String, i32, i64), usize> = BTreeMap::new();
    for entry in entries {
        let task = (entry.stage.to_string(), entry.partition);
        let record = (
            entry.stage.to_string(),
            entry.topic.to_string(),
            entry.channel.partition,
            entry.offset,
        );
        let arrival = match &entry.audited {
            Audited::Held { arrival, .. } => {
                held.push(record);
                Some(*arrival)
            }
            Audited::Delivered { arrival, .. } => {
                assert_ne!(arrival.is_some(), held.contains(&record), "{entry:?}");
                *delivered.entry(record).or_default() += 1;
                *arrival
            }
        };
        let seen = arrivals.entry(task).or_default();
        let last = seen.last().map_or(-1, |(execution, _)| *execution);
        assert!(entry.execution >= last, "{entry:?} after {last}");
        seen.extend(arrival.map(|arrival| (entry.execution, arrival)));
    }
    assert!(
        delivered.values().all(|count| *count == 1),
        "{delivered:#?}"
    );
    let mut executions = BTreeMap::new();
    for (task, seen) in arrivals {
        let mut of: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
        for (execution, arrival) in seen {
            of.entry(execution).or_default().push(arrival);
        }
        executions.insert(task, of.len());
        for (execution, mut arrivals) in of {
            arrivals.sort_unstable();
            let expected: Vec<u64> = (0..arrivals.len() as u64).collect();
            assert_eq!(arrivals, expected, "execution {execution}");
        }
    }
    let mut by_topic = BTreeMap::new();
    for (_, topic, ..) in delivered.into_keys() {
        *by_topic.entry(topic).or_default() += 1;
    }
    (by_topic, executions)
}
