//! Aborted transactions that the cluster may not have marked (decision K27).
//!
//! A transaction's coordinator takes a partition without a leader for one that was deleted, writes no marker there, and calls the transaction over. Readers of
//! that partition wait behind it for good. Nobody but its producer can end it, which is whoever has its transactional id: what
//! that ends next on the partition ends this as well.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parsley_core::{Channel, Offset};

use super::Session;
use crate::cluster;
use crate::config::KafkaConfig;
use crate::producer::{ProduceError, Producer, Send};

/// How often it is looked whether markers are there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long to wait before it is looked again when something failed or lies before: twice as long each time, as that may never pass.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long a partition may take to acknowledge what is sent to it for its marker, and how long the abort may take.
const ACKNOWLEDGED: Duration = Duration::from_secs(2);
const ABORTED: Duration = Duration::from_secs(5);

/// A transaction that was aborted, and where it begins on each partition that may have no marker.
pub(crate) struct Unmarked {
    transactional_id: String,
    begins: BTreeMap<Channel, (String, Offset)>,
    look_at: Instant,
    pause: Duration,
}

impl Session<'_> {
    /// Aborts the transaction that is open, if one is. Its producer begins no other.
    pub(super) fn abort(&mut self, until: Instant) -> Result<(), ProduceError> {
        self.give_up_transaction();
        self.producer.abort(until)
    }

    /// Takes note of the transaction that is open, if one is, as one that is to be aborted: by its producer, or by the cluster if that is not
    /// to be had any more.
    pub(super) fn give_up_transaction(&mut self) {
        let begins = match self.producer.is_open() {
            true => self.producer.begins(),
            false => BTreeMap::new(),
        };
        if !begins.is_empty() {
            self.worker.unmarked.push(Unmarked {
                transactional_id: self.producer.id().to_owned(),
                begins,
                // A marker is written a moment after the abort is answered.
                look_at: Instant::now() + LOOK_EVERY,
                pause: FIRST_PAUSE,
            });
        }
    }

    /// Looks whether aborts are marked, and aborts once more where they are not. A look ends with the first partition that does not answer, as it
    /// keeps the worker from all else.
    pub(super) fn mark_aborts(&mut self) {
        let now = Instant::now();
        let mut all = self.worker.unmarked.iter();
        let Some(at) = all.position(|aborted| aborted.look_at <= now) else {
            return;
        };
        let mut aborted = self.worker.unmarked.swap_remove(at);
        let group = &self.worker.declared.group;
        let client = self.consumer.consumer();
        let (mut lacking, mut is_behind, mut has_failed) = (Vec::new(), false, false);
        aborted.begins.retain(|channel, (topic, begin)| {
            if has_failed {
                return true;
            }
            match cluster::watermarks(client, topic, channel.partition) {
                // What lies below the last stable offset is decided.
                Ok((_, stable)) if stable > *begin => return false,
                // All before it is decided, so that it alone is ended with what ends it.
                Ok((_, stable)) if stable == *begin => lacking.push((*channel, topic.clone())),
                // Something else is open before it; or the log is another one.
                Ok(_) => is_behind = true,
                Err(error) => {
                    tracing::debug!(%group, %topic, %error, "whether an abort is marked is not known");
                    has_failed = true;
                }
            }
            true
        });
        if !lacking.is_empty() {
            tracing::warn!(%group, ?lacking, "an abort has no marker, and is made once more");
            if let Err(error) = aborted.abort_again(&self.worker.declared.config, &lacking) {
                tracing::warn!(%group, %error, "an abort could not be made once more");
                has_failed = true;
            }
        }
        if !aborted.begins.is_empty() {
            let mut pause = LOOK_EVERY;
            if has_failed || is_behind {
                pause = aborted.pause;
                aborted.pause = LONGEST_PAUSE.min(pause * 2);
            }
            aborted.look_at = Instant::now() + pause;
            self.worker.unmarked.push(aborted);
        }
    }
}

impl Unmarked {
    /// Aborts another transaction of its producer's on these partitions, with a record in each, as they would have no part in it otherwise.
    fn abort_again(
        &self,
        config: &KafkaConfig,
        partitions: &[(Channel, String)],
    ) -> Result<(), ProduceError> {
        let mut producer = Producer::new(config, &self.transactional_id, None)?;
        let sent = send_to(&mut producer, partitions);
        let aborted = producer.abort(Instant::now() + ABORTED);
        sent.and(aborted)
    }
}

fn send_to(producer: &mut Producer, partitions: &[(Channel, String)]) -> Result<(), ProduceError> {
    for (channel, topic) in partitions {
        let empty = Send {
            topic,
            partition: channel.partition,
            // A compacted topic takes none without a key.
            key: Some(&Bytes::new()),
            value: None,
            timestamp_ms: None,
            headers: &[],
        };
        producer.send(channel.partition, *channel, &empty)?;
    }
    let flushed = producer.flush(Instant::now() + ACKNOWLEDGED, || false);
    flushed.map(|_| ())
}
