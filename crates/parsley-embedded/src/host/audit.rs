//! The account of what a task was handed, kept in a topic (decision E11): where it is, and how it is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use parsley_core::{Channel, Hold, Offset, Record, TopicId};
use parsley_stage::audit::Account;
use parsley_stage::{App, AuditRecord, Processed};

use super::context::Context;
use super::error::StartError;
use crate::log::{State, Storage};

/// Writes an execution's part of the account.
#[derive(Debug)]
pub(crate) struct Audit {
    /// Where the account is.
    channel: Channel,
    account: Account,
}

impl Audit {
    /// The account of an execution that begins, if the host keeps one.
    pub(crate) fn begin(context: &Context, state: &State) -> Option<Self> {
        let channel = context.audit?.partition(context.partition);
        // A topic that is gone fails the first step that is to write to it.
        let end = state.storage.partition(channel);
        let execution = end.map_or(0, |partition| partition.high_watermark());
        let stage = Arc::clone(&context.stage_name);
        Some(Self {
            channel,
            account: Account::begin(stage, context.partition, execution),
        })
    }

    /// Takes note of a record that the task accepted.
    pub(crate) fn arrived(&mut self, channel: Channel, offset: Offset) {
        self.account.arrived(channel, offset);
    }

    /// The records that a step adds.
    pub(crate) fn of_step(
        &mut self,
        context: &Context,
        processed: &[Processed],
        holds: impl FnOnce() -> Vec<Hold>,
    ) -> Vec<Record> {
        let timestamp_ms = context.settings.time.now_ms();
        let record = |entry: AuditRecord| Record {
            channel: self.channel,
            offset: 0,
            timestamp_ms,
            key: Some(entry.key()),
            value: Some(entry.encode()),
            headers: Vec::new(),
        };
        self.account
            .of_step(processed, holds, |topic| context.topic_name(topic))
            .into_iter()
            .map(record)
            .collect()
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
