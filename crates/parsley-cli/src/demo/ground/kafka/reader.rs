//! Reads one of the demo's topics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parsley::core::{Offset, Record};
use parsley::kafka::{ReadRecord, ReaderError, TopicReader, TopicSelection};

use super::cluster::Cluster;
use super::failure::ClusterFailure;
use crate::demo::error::DemoError;
use crate::demo::ground::LogReader;

/// How long to wait for what is known to be there.
const MOMENT: Duration = Duration::from_millis(50);

/// A topic that is read from its beginning on and on, as it is committed.
pub struct TopicOfDemo {
    cluster: Arc<Cluster>,
    topic: &'static str,
    reader: TopicReader,
}

impl fmt::Debug for TopicOfDemo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicOfDemo")
            .field("reader", &self.reader)
            .finish_non_exhaustive()
    }
}

impl TopicOfDemo {
    pub fn open(cluster: &Arc<Cluster>, topic: &'static str) -> Result<Self, ClusterFailure> {
        let selection = [TopicSelection::whole(topic)];
        let reader = cluster.ask(|| TopicReader::open(&cluster.reader(), &selection))?;
        Ok(Self {
            cluster: Arc::clone(cluster),
            topic,
            reader,
        })
    }

    fn poll(&mut self, wait: Duration) -> Result<Vec<Record>, ClusterFailure> {
        match self.reader.poll(wait) {
            Ok(records) => {
                if !records.is_empty() {
                    self.cluster.answers();
                }
                Ok(records.into_iter().map(record_of).collect())
            }
            Err(ReaderError::NoAnswer { reason, .. }) => {
                self.cluster.is_silent(&reason);
                Ok(Vec::new())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Where each partition ends now: what is open by now as well, for it may be committed before the next look.
    fn ends(&self) -> Result<BTreeMap<i32, Offset>, ClusterFailure> {
        let end = |position: &parsley::kafka::ReaderPosition| {
            let partition = position.channel.partition;
            Ok((partition, self.cluster.end(self.topic, partition)?))
        };
        self.reader.positions().map(end).collect()
    }
}

impl LogReader for TopicOfDemo {
    fn topic(&self) -> &str {
        self.topic
    }

    fn poll_now(&mut self) -> Result<Vec<Record>, DemoError> {
        Ok(self.poll(Duration::ZERO)?)
    }

    fn read_on(&mut self) -> Result<Vec<Record>, DemoError> {
        let records = self.poll(Duration::ZERO)?;
        if !records.is_empty() {
            return Ok(records);
        }
        let ends = self.ends()?;
        loop {
            let is_read = |(partition, position): (i32, Offset)| {
                ends.get(&partition).is_none_or(|end| position >= *end)
            };
            if self.positions().into_iter().all(is_read) {
                return Ok(Vec::new());
            }
            let records = self.poll(MOMENT)?;
            if !records.is_empty() {
                return Ok(records);
            }
            self.cluster.interrupted()?;
        }
    }

    fn positions(&self) -> BTreeMap<i32, Offset> {
        let positions = self.reader.positions();
        positions
            .map(|at| (at.channel.partition, at.position))
            .collect()
    }
}

fn record_of(record: ReadRecord) -> Record {
    let ReadRecord {
        channel,
        offset,
        timestamp_ms,
        key,
        value,
        headers,
        ..
    } = record;
    Record {
        channel,
        offset,
        timestamp_ms: timestamp_ms.unwrap_or(-1),
        key,
        value,
        headers,
    }
}
