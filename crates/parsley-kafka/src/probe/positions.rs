//! The group's positions, and how long what is to be delivered has been kept.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parsley_core::Offset;
use rdkafka::TopicPartitionList;
use rdkafka::admin::AdminClient;
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

use super::{Clause, Probe, ProbeError, Severity, is_denied};
use crate::cluster::{self, ANSWER, BETWEEN_TRIES, Cluster, ClusterError};
use crate::stage::Declared;

/// How long the answer about a group's positions may take.
const POSITIONS: Duration = Duration::from_secs(5);

/// A partition of an input, and where the group reads on.
pub(super) struct Position {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: Offset,
}

impl Probe {
    /// The positions of a stage's group, where they are shown. Notes what retention is about to take.
    pub(super) fn positions(
        &mut self,
        declared: &Declared,
        cluster: &Cluster,
        inputs: &BTreeMap<String, i32>,
    ) -> Result<Option<Vec<Position>>, ProbeError> {
        let name = &*declared.stage_name;
        let mut client = declared.config.client();
        client
            .set("group.id", &declared.group)
            // A transaction of positions that is open may have them, and they are not waited for.
            .set("isolation.level", "read_uncommitted")
            .set("enable.auto.commit", "false");
        let asker: BaseConsumer = client.create().map_err(ProbeError::Client)?;
        let committed = match committed(&asker, &declared.group, inputs) {
            Ok(committed) => committed,
            // The coordinator of a group that is denied is looked for until the time is over; topics were answered for just now.
            Err(error) if is_denied(&error) || error.is_time_out() => {
                self.error(Clause::PositionsShown, Some(name), [], error.to_string());
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        for at in &committed {
            let (log_start, end) = cluster.bounds(&at.topic, at.partition)?;
            if (log_start..end).contains(&at.offset) {
                self.retention(declared, &asker, at)?;
            }
        }
        Ok(Some(committed))
    }

    /// Whether the next record of a partition has lived for more than half of the time that it is kept.
    fn retention(
        &mut self,
        declared: &Declared,
        asker: &BaseConsumer,
        at: &Position,
    ) -> Result<(), ProbeError> {
        let admin: AdminClient<DefaultClientContext> = declared
            .config
            .client()
            .create()
            .map_err(ProbeError::Client)?;
        let settings = match cluster::settings(&admin, &[&at.topic]) {
            Ok(settings) => settings,
            // Told of the inputs' settings before.
            Err(error) if is_denied(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let kept = settings
            .first()
            .and_then(|topic| topic.get("retention.ms")?.value.as_ref()?.parse().ok());
        // Kept for good is -1.
        let Some(kept_ms) = kept.filter(|kept: &i64| *kept >= 0) else {
            return Ok(());
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        let since_ms = i64::try_from(now.as_millis())
            .unwrap_or(i64::MAX)
            .saturating_sub(kept_ms / 2)
            .max(0);
        let mut asked = TopicPartitionList::new();
        let what = || format!("offsets of {}/{} by time", at.topic, at.partition);
        let failed = |source| ClusterError::request(what(), source);
        asked
            .add_partition_offset(&at.topic, at.partition, rdkafka::Offset::Offset(since_ms))
            .map_err(failed)?;
        let answered = asker.offsets_for_times(asked, ANSWER).map_err(failed)?;
        let young = answered.elements().first().map(|element| element.offset());
        let is_old = match young {
            Some(rdkafka::Offset::Offset(young)) => at.offset < young,
            // Nothing is that young.
            Some(rdkafka::Offset::End) => true,
            _ => false,
        };
        if is_old {
            let found = format!(
                "what the group {} is to be delivered next of {}/{}, offset {}, has lived for more than half of the {} s that it is kept",
                declared.group,
                at.topic,
                at.partition,
                at.offset,
                kept_ms / 1000
            );
            let (stage, topics) = (Some(&*declared.stage_name), [at.topic.clone()]);
            self.found(
                Severity::Note,
                Clause::RetentionBeyondLag,
                stage,
                topics,
                found,
            );
        }
        Ok(())
    }
}

fn committed(
    asker: &BaseConsumer,
    group: &str,
    inputs: &BTreeMap<String, i32>,
) -> Result<Vec<Position>, ClusterError> {
    let failed = |source| ClusterError::request(format!("committed positions of {group}"), source);
    let until = Instant::now() + POSITIONS;
    let answered = loop {
        let mut asked = TopicPartitionList::new();
        for (topic, partitions) in inputs {
            asked.add_partition_range(topic, 0, partitions - 1);
        }
        match asker.committed_offsets(asked, POSITIONS) {
            Ok(answered) => break answered,
            // A group's coordinator moves while brokers come up.
            Err(error) if is_moving(&error) && Instant::now() < until => {
                std::thread::sleep(BETWEEN_TRIES);
            }
            Err(error) => return Err(failed(error)),
        }
    };
    let mut positions = Vec::new();
    for element in answered.elements() {
        element.error().map_err(failed)?;
        if let rdkafka::Offset::Offset(offset) = element.offset() {
            positions.push(Position {
                topic: element.topic().to_owned(),
                partition: element.partition(),
                offset,
            });
        }
    }
    Ok(positions)
}

/// Whether somebody else is about to answer for a group.
fn is_moving(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator};
    matches!(
        error.rdkafka_error_code(),
        Some(CoordinatorLoadInProgress | CoordinatorNotAvailable | NotCoordinator)
    )
}
