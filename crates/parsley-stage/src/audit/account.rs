//! What a step adds to the account of deliveries: the part that is the same on every host.

use std::collections::BTreeMap;
use std::sync::Arc;

use parsley_core::{Channel, Hold, Offset, TopicId};

use super::{AuditRecord, Audited, AuditedWait};
use crate::Processed;

/// An execution's part of the account. What it keeps in memory is what the step at hand received.
///
/// A host begins one with each execution of a task, tells it of every record that the task accepted, and appends what
/// [`Account::of_step`] returns to the account's partition of the task's number, under the [key](AuditRecord::key) of each entry and
/// in the step's transaction. When the step is dropped, so is the execution, and the account with it.
#[derive(Debug)]
pub struct Account {
    stage: Arc<str>,
    partition: i32,
    /// The end of the account's partition when the execution began.
    execution: Offset,
    /// How many records arrived.
    arrivals: u64,
    /// The ordinals of those that arrived in the step at hand.
    fresh: BTreeMap<(Channel, Offset), u64>,
}

impl Account {
    /// The account of an execution that begins. `execution` is the end of the account's partition, asked for when no former execution of the
    /// task can write there any more.
    pub fn begin(stage: Arc<str>, partition: i32, execution: Offset) -> Self {
        Self {
            stage,
            partition,
            execution,
            arrivals: 0,
            fresh: BTreeMap::new(),
        }
    }

    /// Takes note of a record that the task accepted.
    pub fn arrived(&mut self, channel: Channel, offset: Offset) {
        self.fresh.insert((channel, offset), self.arrivals);
        self.arrivals += 1;
    }

    /// What the step adds: its deliveries in their order, then what arrived in it and is held. The holds are asked for when there is such;
    /// `topic_name` tells the names of the stage's topics.
    pub fn of_step(
        &mut self,
        processed: &[Processed],
        holds: impl FnOnce() -> Vec<Hold>,
        topic_name: impl Fn(TopicId) -> Arc<str>,
    ) -> Vec<AuditRecord> {
        let mut fresh = std::mem::take(&mut self.fresh);
        let mut entries = Vec::with_capacity(processed.len() + fresh.len());
        for delivery in processed {
            let audited = Audited::Delivered {
                arrival: fresh.remove(&(delivery.channel, delivery.offset)),
                key: delivery.key.clone(),
                timestamp_ms: delivery.timestamp_ms,
                clock: delivery.clock.clone(),
            };
            let topic = Arc::clone(&delivery.topic);
            entries.push(self.entry(topic, delivery.channel, delivery.offset, audited));
        }
        if !fresh.is_empty() {
            let heads: BTreeMap<Channel, Hold> = holds()
                .into_iter()
                .map(|hold| (hold.channel, hold))
                .collect();
            let mut fresh: Vec<_> = fresh.into_iter().collect();
            fresh.sort_unstable_by_key(|(_, arrival)| *arrival);
            for ((channel, offset), arrival) in fresh {
                let audited = held(heads.get(&channel), offset, arrival, &topic_name);
                let topic = topic_name(channel.topic);
                entries.push(self.entry(topic, channel, offset, audited));
            }
        }
        entries
    }

    fn entry(
        &self,
        topic: Arc<str>,
        channel: Channel,
        offset: Offset,
        audited: Audited,
    ) -> AuditRecord {
        AuditRecord {
            stage: Arc::clone(&self.stage),
            partition: self.partition,
            execution: self.execution,
            topic,
            channel,
            offset,
            audited,
        }
    }
}

fn held(
    head: Option<&Hold>,
    offset: Offset,
    arrival: u64,
    topic_name: impl Fn(TopicId) -> Arc<str>,
) -> Audited {
    // What is behind another record waits for that, whatever that one waits for.
    let waits = head
        .filter(|head| head.offset == offset)
        .into_iter()
        .flat_map(|head| &head.waits)
        .map(|wait| AuditedWait {
            topic: topic_name(wait.channel().topic),
            wait: *wait,
        });
    Audited::Held {
        arrival,
        head: head.map_or(offset, |head| head.offset),
        waits: waits.collect(),
    }
}

#[cfg(test)]
mod tests;
