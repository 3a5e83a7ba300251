//! Reads a topic beside the application, as anybody could: what the records say, where they stand, and what they came of.

use std::collections::BTreeMap;

use bytes::Bytes;
use parsley::core::wire::ProtocolHeaders;
use parsley::core::{Channel, Offset, SenderId};

use super::error::DemoError;
use super::ground::{Ground, LogReader};
use super::topology::{At, CAUSE_HEADER};

/// A record as it stands in the log.
#[derive(Clone, Debug)]
pub struct Mirrored {
    /// The channel.
    pub channel: Channel,
    /// The offset.
    pub offset: Offset,
    /// The value.
    pub value: Bytes,
    /// Who sent it, and its send sequence; `None` for what came from outside.
    pub sender: Option<(SenderId, i64)>,
}

/// A topic's records until they have been used.
#[derive(Debug)]
pub struct Mirror {
    reader: Box<dyn LogReader>,
    /// How often each record is used.
    uses: u32,
    records: BTreeMap<(i32, Offset), (u32, Mirrored)>,
    /// What came of each delivery, by the partition and offset of that: records of one topic come of records of one topic.
    by_cause: BTreeMap<(i32, Offset), Vec<(i32, Offset)>>,
    follows_causes: bool,
    /// Everything is read that what is looked for can be among.
    is_current: bool,
}

impl Mirror {
    /// A mirror of a topic each record of which is taken `uses` times.
    pub fn new(ground: &dyn Ground, topic: &'static str, uses: u32) -> Result<Self, DemoError> {
        Ok(Self {
            reader: ground.reader(topic)?,
            uses,
            records: BTreeMap::new(),
            by_cause: BTreeMap::new(),
            follows_causes: false,
            is_current: false,
        })
    }

    /// Has it keep what came of what, for [`Mirror::take_effects`].
    #[must_use]
    pub fn following_causes(mut self) -> Self {
        self.follows_causes = true;
        self
    }

    /// More has been delivered: what is looked for from now on may have come since.
    pub fn has_news(&mut self) {
        self.is_current = false;
    }

    /// A record of the topic. It is forgotten when it has been taken often enough.
    pub fn take(&mut self, partition: i32, offset: Offset) -> Result<Mirrored, DemoError> {
        let at = (partition, offset);
        while !self.records.contains_key(&at) && self.read()? {}
        self.used(at).ok_or_else(|| DemoError::Record {
            topic: self.reader.topic().to_owned(),
            partition,
            offset,
            reason: "it was delivered, and is not in the log".to_owned(),
        })
    }

    /// The records that came of a delivery. The step it belongs to has to be committed.
    pub fn take_effects(
        &mut self,
        partition: i32,
        offset: Offset,
    ) -> Result<Vec<Mirrored>, DemoError> {
        let cause = (partition, offset);
        while !self.by_cause.contains_key(&cause) && self.read()? {}
        let effects = self.by_cause.remove(&cause).unwrap_or_default();
        Ok(effects.into_iter().filter_map(|at| self.used(at)).collect())
    }

    /// Reads all there is: what has been read can be deleted from the log.
    pub fn catch_up(&mut self) -> Result<(), DemoError> {
        self.has_news();
        while self.read()? {}
        Ok(())
    }

    fn used(&mut self, at: (i32, Offset)) -> Option<Mirrored> {
        let (uses, record) = self.records.get_mut(&at)?;
        if *uses > 1 {
            *uses -= 1;
            return Some(record.clone());
        }
        self.records.remove(&at).map(|(_, record)| record)
    }

    fn read(&mut self) -> Result<bool, DemoError> {
        if self.is_current {
            return Ok(false);
        }
        let records = self.reader.read_on()?;
        let found = !records.is_empty();
        self.is_current = !found;
        for record in records {
            let at = (record.channel.partition, record.offset);
            if self.follows_causes
                && let Some(cause) = record
                    .headers
                    .iter()
                    .find(|header| header.name == CAUSE_HEADER)
                && let Some(cause) = cause
                    .value
                    .as_deref()
                    .and_then(|value| std::str::from_utf8(value).ok()?.parse::<At>().ok())
            {
                self.by_cause
                    .entry((cause.partition, cause.offset))
                    .or_default()
                    .push(at);
            }
            let sender = ProtocolHeaders::read(&record.headers)
                .ok()
                .and_then(|headers| headers.sender);
            let mirrored = Mirrored {
                channel: record.channel,
                offset: record.offset,
                value: record.value.unwrap_or_default(),
                sender,
            };
            self.records.insert(at, (self.uses, mirrored));
        }
        Ok(found)
    }
}
