//! The account of what a task was handed, kept in a topic (decision E11): which records a step adds to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parsley_core::{Channel, Hold, Offset, Record, TopicId};
use parsley_stage::{App, AuditRecord, Audited, AuditedWait, Processed};

use super::context::Context;
use super::error::StartError;
use crate::log::{State, Storage};

/// Writes an execution's part of the account. What it keeps in memory is what the step at hand received.
#[derive(Debug)]
pub(crate) struct Audit {
    /// Where the account is.
    channel: Channel,
    /// The end of the account when the execution began.
    execution: Offset,
    /// How many records arrived.
    arrivals: u64,
    /// The ordinals of those that arrived in the step at hand.
    fresh: BTreeMap<(Channel, Offset), u64>,
}

impl Audit {
    /// The account of an execution that begins, if the host keeps one.
    pub(crate) fn begin(context: &Context, state: &State) -> Option<Self> {
        let channel = context.audit?.partition(context.partition);
        // A topic that is gone fails the first step that is to write to it.
        let end = state.storage.partition(channel);
        Some(Self {
            channel,
            execution: end.map_or(0, |partition| partition.high_watermark()),
            arrivals: 0,
            fresh: BTreeMap::new(),
        })
    }

    /// Takes note of a record that the task accepted.
    pub(crate) fn arrived(&mut self, channel: Channel, offset: Offset) {
        self.fresh.insert((channel, offset), self.arrivals);
        self.arrivals += 1;
    }

    /// What the step adds: its deliveries in their order, then what arrived in it and is held. The holds are asked for when there is such.
    pub(crate) fn of_step(
        &mut self,
        context: &Context,
        processed: &[Processed],
        holds: impl FnOnce() -> Vec<Hold>,
    ) -> Vec<Record> {
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
            entries.push(self.entry(context, topic, delivery.channel, delivery.offset, audited));
        }
        if !fresh.is_empty() {
            let heads: BTreeMap<Channel, Hold> = holds()
                .into_iter()
                .map(|hold| (hold.channel, hold))
                .collect();
            let mut fresh: Vec<_> = fresh.into_iter().collect();
            fresh.sort_unstable_by_key(|(_, arrival)| *arrival);
            for ((channel, offset), arrival) in fresh {
                let audited = held(context, heads.get(&channel), offset, arrival);
                let topic = context.topic_name(channel.topic);
                entries.push(self.entry(context, topic, channel, offset, audited));
            }
        }
        let timestamp_ms = context.settings.time.now_ms();
        let record = |entry: AuditRecord| Record {
            channel: self.channel,
            offset: 0,
            timestamp_ms,
            key: Some(entry.key()),
            value: Some(entry.encode()),
            headers: Vec::new(),
        };
        entries.into_iter().map(record).collect()
    }

    fn entry(
        &self,
        context: &Context,
        topic: Arc<str>,
        channel: Channel,
        offset: Offset,
        audited: Audited,
    ) -> AuditRecord {
        AuditRecord {
            stage: Arc::clone(&context.stage_name),
            partition: context.partition,
            execution: self.execution,
            topic,
            channel,
            offset,
            audited,
        }
    }
}

fn held(context: &Context, head: Option<&Hold>, offset: Offset, arrival: u64) -> Audited {
    // What is behind another record waits for that, whatever that one waits for.
    let waits = head
        .filter(|head| head.offset == offset)
        .into_iter()
        .flat_map(|head| &head.waits)
        .map(|wait| AuditedWait {
            topic: context.topic_name(wait.channel().topic),
            wait: *wait,
        });
    Audited::Held {
        arrival,
        head: head.map_or(offset, |head| head.offset),
        waits: waits.collect(),
    }
}

/// Finds the account's topic for an application: one that nobody else writes to, with a partition for each task.
pub(crate) fn find_topic(
    storage: &Storage,
    name: &str,
    app: &App,
    widest: i32,
) -> Result<TopicId, StartError> {
    let topic = || name.to_owned();
    let declared: BTreeSet<&str> = app.topics();
    if declared.contains(name) {
        return Err(StartError::AuditDeclared { topic: topic() });
    }
    let missing = || StartError::MissingTopics {
        topics: vec![topic()],
    };
    let id = storage.topic_id(name).ok_or_else(missing)?;
    let partitions = storage.topic(id).ok_or_else(missing)?.partition_count();
    if partitions < widest {
        return Err(StartError::AuditPartitions {
            topic: topic(),
            found: partitions,
            needed: widest,
        });
    }
    Ok(id)
}
