//! The demo's topics on a cluster: found, made, and looked into whether they are the demo's.

use std::collections::BTreeMap;
use std::thread;

use futures_executor::block_on;
use parsley::AuditRecord;
use parsley::core::TopicId;
use parsley::kafka::{ReadRecord, ReaderError, TopicReader, TopicSelection};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use serde::de::DeserializeOwned;

use super::cluster::{ANSWER, Cluster};
use super::failure::ClusterFailure;
use crate::demo::command::Command;
use crate::demo::ground::TOPICS;
use crate::demo::taken::Taken;
use crate::demo::topology::{
    AUDIT, COMMANDS, EVENTS, Event, FINDINGS, Finding, INPUT, VIEWS, View,
};

/// What a topic was found to be.
struct Found {
    partitions: i32,
    id: Option<TopicId>,
    /// Its first record, if it has any.
    first: Option<ReadRecord>,
}

/// Finds the demo's topics, or makes them if that is asked for. They have to be as the demo makes them. Returns their identities, by name.
pub fn prepare(
    cluster: &Cluster,
    create: bool,
) -> Result<BTreeMap<String, String>, ClusterFailure> {
    if create {
        make(cluster)?;
    }
    let found = thread::scope(|scope| {
        let looks = TOPICS.map(|(topic, _)| scope.spawn(move || look(cluster, topic, create)));
        looks.map(|look| look.join().expect("looking into a topic does not panic"))
    });
    let mut identities = BTreeMap::new();
    let (mut missing, mut has_commands, mut has_notes) = (Vec::new(), false, false);
    for ((topic, expected), found) in TOPICS.into_iter().zip(found) {
        let Some(Found {
            partitions,
            id,
            first,
        }) = found?
        else {
            missing.push(topic);
            continue;
        };
        identities.extend(id.map(|id| (topic.to_owned(), id.to_string())));
        let other = |found| Err(ClusterFailure::OtherTopics { found });
        if partitions != expected {
            return other(format!(
                "topic {topic} has {partitions} partitions, and {expected} in the demo"
            ));
        }
        let Some(first) = first else { continue };
        if let Err(fault) = read(topic, &first) {
            let (partition, offset) = (first.channel.partition, first.offset);
            return other(format!(
                "{topic}:{partition}@{offset} is no record of the demo: {fault}"
            ));
        }
        has_commands |= topic == COMMANDS;
        has_notes |= topic == INPUT;
    }
    if !missing.is_empty() {
        return Err(ClusterFailure::MissingTopics {
            topics: missing,
            brokers: cluster.brokers.clone(),
        });
    }
    if has_commands && !has_notes {
        let found = format!("topic {COMMANDS} has records that topic {INPUT} does not know of");
        return Err(ClusterFailure::OtherTopics { found });
    }
    Ok(identities)
}

/// Makes the topics that there are not, to keep everything: `parsley demo` goes on where it was whenever it is started again.
fn make(cluster: &Cluster) -> Result<(), ClusterFailure> {
    // Asked before anything is made, so that it is said why nothing answers.
    cluster.ask(|| open(cluster, COMMANDS))?;
    let admin: AdminClient<DefaultClientContext> =
        cluster.client().create().map_err(ClusterFailure::Client)?;
    let options = AdminOptions::new()
        .request_timeout(Some(ANSWER))
        .operation_timeout(Some(ANSWER));
    let topics = TOPICS.map(|(name, partitions)| {
        // The broker's default.
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(-1));
        match name {
            // The last note holds.
            INPUT => topic.set("cleanup.policy", "compact"),
            _ => topic.set("retention.ms", "-1").set("retention.bytes", "-1"),
        }
    });
    let made = cluster.ask_client(|| block_on(admin.create_topics(&topics, &options)))?;
    for ((topic, _), outcome) in TOPICS.into_iter().zip(made) {
        match outcome {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((_, code)) => {
                let reason = KafkaError::AdminOp(code).to_string();
                return Err(ClusterFailure::Create { topic, reason });
            }
        }
    }
    Ok(())
}

/// Opens a topic up to its present end; `None` when there is none.
fn open(cluster: &Cluster, topic: &str) -> Result<Option<TopicReader>, ReaderError> {
    let config = cluster.reader().until_end(true);
    match TopicReader::open(&config, &[TopicSelection::whole(topic)]) {
        Ok(reader) => Ok(Some(reader)),
        Err(ReaderError::UnknownTopic { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Looks into a topic. One that was made just now is unknown for a moment; it is asked for with a new client each time, as one that has heard
/// that there is no such topic may stay with that.
fn look(cluster: &Cluster, topic: &str, is_made: bool) -> Result<Option<Found>, ClusterFailure> {
    let mut reader = loop {
        match cluster.ask(|| open(cluster, topic))? {
            Some(reader) => break reader,
            None if is_made => thread::sleep(super::LOOK),
            None => return Ok(None),
        }
    };
    let partitions = i32::try_from(reader.positions().count()).unwrap_or(i32::MAX);
    let id = reader.positions().next().map(|at| at.channel.topic);
    let mut first = None;
    while first.is_none() && !reader.is_at_end() {
        let records = cluster.ask(|| reader.poll(super::LOOK))?;
        first = records.into_iter().next();
    }
    Ok(Some(Found {
        partitions,
        id,
        first,
    }))
}

/// Reads a record as one of the demo's.
fn read(topic: &str, record: &ReadRecord) -> Result<(), String> {
    match topic {
        COMMANDS => value::<Command>(record),
        EVENTS => value::<Event>(record),
        VIEWS => value::<View>(record),
        FINDINGS => value::<Finding>(record),
        INPUT => value::<Taken>(record),
        AUDIT => AuditRecord::decode(record.value.as_deref())
            .map(drop)
            .map_err(|error| error.to_string()),
        _ => Ok(()),
    }
}

fn value<T: DeserializeOwned>(record: &ReadRecord) -> Result<(), String> {
    let value = record.value.as_deref().ok_or("found a null value")?;
    serde_json::from_slice::<T>(value)
        .map(drop)
        .map_err(|error| error.to_string())
}
