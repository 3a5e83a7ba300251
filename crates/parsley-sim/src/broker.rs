//! The simulated broker: topics, transactions, retention, and what a read-committed reader may see.
//!
//! Every record, every record of an aborted transaction and every transaction marker uses up an offset, as on Kafka (decision K2). Nothing
//! happens by itself: whoever drives the broker also decides when a log is replicated and when a marker reaches its partition, which is
//! how the end of a log, its high watermark and its last stable offset come apart ([`AppendMode::Interleaved`]).

mod census;
mod digest;
mod log;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use parsley_core::{Channel, Offset, Record, TopicId};
use thiserror::Error;

pub use census::Census;
pub(crate) use digest::TxnNames;
use log::Log;

/// When what was appended is replicated, and when the markers of a transaction are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AppendMode {
    /// An append is replicated at once, and ending a transaction writes all its markers at once.
    Atomic,
    /// A log is replicated by [`SimBroker::replicate`], and each marker is written by a [`SimBroker::write_marker`] of its own.
    Interleaved,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Its records become visible.
    Committed,
    /// Nobody is ever given its records. Their offsets stay used.
    Aborted,
}

/// A transaction of one broker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Txn(u64);

impl Txn {
    /// Its number, counted from 0 at its broker.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Txn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction {}", self.0)
    }
}

impl fmt::Debug for Txn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a record was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The topic is deleted or never was, or has no such partition.
    #[error("no partition {channel} to append to")]
    Unknown {
        /// The record's channel.
        channel: Channel,
    },
    /// The transaction is decided, or was not begun at this broker.
    #[error("{txn} is not open")]
    NotOpen {
        /// The transaction.
        txn: Txn,
    },
}

/// Why a transaction was not ended. It stays as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EndError {
    /// It is decided, or was not begun at this broker.
    #[error("{txn} is not open")]
    NotOpen {
        /// The transaction.
        txn: Txn,
    },
    /// A commit has to wait until everything of it is replicated.
    #[error("{txn} has records on {channel} that are not replicated")]
    Unreplicated {
        /// The transaction.
        txn: Txn,
        /// The first such channel that it wrote to.
        channel: Channel,
    },
}

/// Why a log was not read or truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The position is outside of what the operation may name.
    #[error("position {position} is not in {lowest} ..= {highest} of {channel}")]
    OutOfRange {
        /// The channel.
        channel: Channel,
        /// The position asked for.
        position: Offset,
        /// The lowest possible one.
        lowest: Offset,
        /// The highest possible one.
        highest: Offset,
    },
    /// The topic is deleted or never was, or has no such partition.
    #[error("no partition {channel} to read")]
    Gone {
        /// The channel asked for.
        channel: Channel,
    },
}

/// What a read-committed reader was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Committed records, by offset.
    pub records: Vec<Record>,
    /// The reader's position afterwards: past the last record, and past every marker and aborted record behind it.
    pub next: Offset,
}

/// A topic, one incarnation of its name. A deleted one stays, for [`SimBroker::name_of`] and the census.
#[derive(Clone, Debug)]
struct Topic {
    id: TopicId,
    name: String,
    incarnation: u32,
    deleted: bool,
    logs: Vec<Log>,
}

/// A transaction since its beginning.
#[derive(Clone, Debug, Default)]
struct Transaction {
    outcome: Option<Outcome>,
    /// Where it wrote, each channel once, in the order of its first records there.
    channels: Vec<Channel>,
}

/// A deterministic broker in memory.
#[derive(Clone, Debug)]
pub struct SimBroker {
    mode: AppendMode,
    /// In the order of their creation.
    topics: Vec<Topic>,
    /// Index of each topic, deleted ones included.
    by_id: BTreeMap<TopicId, usize>,
    /// Index of the newest incarnation of each name.
    by_name: BTreeMap<String, usize>,
    transactions: Vec<Transaction>,
    /// Markers of decided transactions that their partitions do not have yet.
    pending: BTreeSet<(Txn, Channel)>,
    truncations: u64,
}

impl SimBroker {
    /// A broker without topics.
    pub fn new(mode: AppendMode) -> Self {
        Self {
            mode,
            topics: Vec::new(),
            by_id: BTreeMap::new(),
            by_name: BTreeMap::new(),
            transactions: Vec::new(),
            pending: BTreeSet::new(),
            truncations: 0,
        }
    }

    /// The mode it was made with.
    pub fn mode(&self) -> AppendMode {
        self.mode
    }

    /// Creates a topic and returns its identity, `TopicId::of_name("<name>/<incarnation>")`. Incarnations of a name count from 0. A topic
    /// that exists stays as it is. A partition count below 1 makes a topic without partitions.
    pub fn create_topic(&mut self, name: &str, partitions: i32) -> TopicId {
        let newest = self.by_name.get(name).map(|&index| &self.topics[index]);
        let incarnation = match newest {
            Some(topic) if !topic.deleted => return topic.id,
            Some(topic) => topic.incarnation + 1,
            None => 0,
        };
        let id = TopicId::of_name(&format!("{name}/{incarnation}"));
        let index = self.topics.len();
        self.topics.push(Topic {
            id,
            name: name.to_owned(),
            incarnation,
            deleted: false,
            logs: (0..partitions).map(|_| Log::default()).collect(),
        });
        self.by_id.insert(id, index);
        self.by_name.insert(name.to_owned(), index);
        id
    }

    /// Deletes a topic with all its records, and returns the identity that it had; `None` when there is no such topic. What open
    /// transactions wrote to it is lost, and the markers that were pending on it are dropped.
    pub fn delete_topic(&mut self, name: &str) -> Option<TopicId> {
        let topic = &mut self.topics[*self.by_name.get(name)?];
        if topic.deleted {
            return None;
        }
        let id = topic.id;
        topic.deleted = true;
        topic.logs.iter_mut().for_each(Log::retire);
        self.pending.retain(|(_, channel)| channel.topic != id);
        Some(id)
    }

    /// The identity of the topic that now has this name.
    pub fn topic_id(&self, name: &str) -> Option<TopicId> {
        let topic = &self.topics[*self.by_name.get(name)?];
        (!topic.deleted).then_some(topic.id)
    }

    /// The name and the incarnation of a topic, also of a deleted one.
    pub fn name_of(&self, topic: TopicId) -> Option<(&str, u32)> {
        let topic = &self.topics[*self.by_id.get(&topic)?];
        Some((&topic.name, topic.incarnation))
    }

    /// Whether the topic was created and not deleted.
    pub fn exists(&self, topic: TopicId) -> bool {
        self.live(topic).is_some()
    }

    /// How many partitions a topic has that exists.
    pub fn partitions(&self, topic: TopicId) -> Option<i32> {
        let count = self.live(topic)?.logs.len();
        Some(i32::try_from(count).expect("the count came from an i32"))
    }

    /// Begins a transaction.
    pub fn begin(&mut self) -> Txn {
        let txn = Txn(self.transactions.len() as u64);
        self.transactions.push(Transaction::default());
        txn
    }

    /// Appends a record to its channel, in a transaction if one is given. Returns where it stands; the record's own offset becomes that.
    ///
    /// # Errors
    ///
    /// [`AppendError`]; nothing was appended then.
    pub fn append(&mut self, record: Record, txn: Option<Txn>) -> Result<Offset, AppendError> {
        let channel = record.channel;
        if let Some(txn) = txn
            && self.open_mut(txn).is_none()
        {
            return Err(AppendError::NotOpen { txn });
        }
        let mode = self.mode;
        let log = self
            .log_mut(channel)
            .ok_or(AppendError::Unknown { channel })?;
        let appended = log.append(record, txn);
        if mode == AppendMode::Atomic {
            log.replicate();
        }
        if appended.first_of_txn
            && let Some(transaction) = txn.and_then(|txn| self.open_mut(txn))
        {
            transaction.channels.push(channel);
        }
        Ok(appended.offset)
    }

    /// Lets the high watermark catch up with the end of the log. A marker written before takes effect for readers with this.
    pub fn replicate(&mut self, channel: Channel) {
        if let Some(log) = self.log_mut(channel) {
            log.replicate();
        }
    }

    /// The channels whose high watermark is below the end, topics in the order of their creation.
    pub fn unreplicated(&self) -> impl Iterator<Item = Channel> {
        self.live_logs()
            .filter(|(_, log)| log.high_watermark() < log.end())
            .map(|(channel, _)| channel)
    }

    /// Whether the offset is below the high watermark. Everything of a deleted topic is lost.
    pub fn is_replicated(&self, channel: Channel, offset: Offset) -> bool {
        self.log(channel)
            .is_some_and(|log| (0..log.high_watermark()).contains(&offset))
    }

    /// Decides a transaction. A marker for each partition that it wrote to is pending after it; in [`AppendMode::Atomic`] all are written.
    ///
    /// Kafka's coordinator names partitions by the names of their topics. So where a topic was created again since the transaction wrote to it,
    /// the marker goes to the new one, on which nothing is the transaction's.
    ///
    /// # Errors
    ///
    /// [`EndError`] when it is not open, or is to be committed before everything of it is replicated. Nothing changed then.
    pub fn end(&mut self, txn: Txn, outcome: Outcome) -> Result<(), EndError> {
        let transaction = self.open(txn).ok_or(EndError::NotOpen { txn })?;
        if outcome == Outcome::Committed {
            let unreplicated = transaction.channels.iter().find(|&&channel| {
                self.log(channel)
                    .is_some_and(|log| !log.has_replicated(txn))
            });
            if let Some(&channel) = unreplicated {
                return Err(EndError::Unreplicated { txn, channel });
            }
        }
        let channels: BTreeSet<Channel> = transaction
            .channels
            .iter()
            .filter_map(|&channel| self.newest(channel))
            .collect();
        if let Some(transaction) = self.open_mut(txn) {
            transaction.outcome = Some(outcome);
        }
        self.pending
            .extend(channels.iter().map(|&channel| (txn, channel)));
        if self.mode == AppendMode::Atomic {
            for channel in channels {
                self.write_marker(txn, channel);
            }
        }
        Ok(())
    }

    /// How a transaction was decided; `None` while it is open.
    pub fn outcome(&self, txn: Txn) -> Option<Outcome> {
        self.transaction(txn)?.outcome
    }

    /// The markers of decided transactions that are not written, by transaction and then in channel order.
    pub fn pending_markers(&self) -> impl Iterator<Item = (Txn, Channel)> {
        self.pending.iter().copied()
    }

    /// Writes a pending marker, and returns where it stands; `None` when no such marker is pending.
    pub fn write_marker(&mut self, txn: Txn, channel: Channel) -> Option<Offset> {
        let outcome = self.outcome(txn)?;
        if !self.pending.remove(&(txn, channel)) {
            return None;
        }
        let mode = self.mode;
        let log = self.log_mut(channel)?;
        let offset = log.write_marker(txn, outcome);
        if mode == AppendMode::Atomic {
            log.replicate();
        }
        Some(offset)
    }

    /// Whether a transaction is decided and all its markers are written. They need not be replicated.
    pub fn is_complete(&self, txn: Txn) -> bool {
        self.outcome(txn).is_some() && !self.pending.iter().any(|(pending, _)| *pending == txn)
    }

    /// Writes every pending marker and replicates every log: all that is decided becomes visible, as far as no open transaction stands before it.
    pub fn settle(&mut self) {
        while let Some(&(txn, channel)) = self.pending.first() {
            self.write_marker(txn, channel);
        }
        for topic in self.topics.iter_mut().filter(|topic| !topic.deleted) {
            topic.logs.iter_mut().for_each(Log::replicate);
        }
    }

    /// The lowest offset that is kept.
    pub fn log_start(&self, channel: Channel) -> Option<Offset> {
        self.log(channel).map(Log::start)
    }

    /// Where a read-committed reader stops: the first offset of the first transaction without a replicated marker, else the high watermark.
    pub fn last_stable_offset(&self, channel: Channel) -> Option<Offset> {
        self.log(channel).map(Log::last_stable)
    }

    /// One past the last replicated offset.
    pub fn high_watermark(&self, channel: Channel) -> Option<Offset> {
        self.log(channel).map(Log::high_watermark)
    }

    /// One past the last offset.
    pub fn end_offset(&self, channel: Channel) -> Option<Offset> {
        self.log(channel).map(Log::end)
    }

    /// Reads committed records from a position on, at most `records_max`. A reader at or past the last stable offset is given nothing and stays
    /// where it is.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the position is below the log start or past the end, or when there is no such partition.
    pub fn fetch(
        &self,
        channel: Channel,
        from: Offset,
        records_max: usize,
    ) -> Result<Fetched, ReadError> {
        let log = self.log(channel).ok_or(ReadError::Gone { channel })?;
        log.fetch(from, records_max).ok_or(ReadError::OutOfRange {
            channel,
            position: from,
            lowest: log.start(),
            highest: log.end(),
        })
    }

    /// The records of a channel that are kept and can never be taken back, by offset: those of committed transactions, and those outside of any
    /// transaction. They need not be visible yet.
    pub fn committed_records(&self, channel: Channel) -> impl Iterator<Item = &Record> {
        let records = self.log(channel).into_iter().flat_map(Log::records);
        records.filter_map(|(record, txn)| match txn {
            Some(txn) => (self.outcome(txn) == Some(Outcome::Committed)).then_some(record),
            None => Some(record),
        })
    }

    /// Removes everything below an offset. Returns whether the log start moved.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the offset is negative or past the last stable offset, or when there is no such partition.
    pub fn delete_records(&mut self, channel: Channel, before: Offset) -> Result<bool, ReadError> {
        let log = self.log_mut(channel).ok_or(ReadError::Gone { channel })?;
        let moved = log.delete(before).ok_or(ReadError::OutOfRange {
            channel,
            position: before,
            lowest: 0,
            highest: log.last_stable(),
        })?;
        self.truncations += u64::from(moved);
        Ok(moved)
    }

    /// What this broker has come to contain in its whole life.
    pub fn census(&self) -> Census {
        let mut census = Census {
            truncations: self.truncations,
            ..Census::default()
        };
        for transaction in &self.transactions {
            census.count_transaction(transaction.outcome, transaction.channels.len());
        }
        for topic in &self.topics {
            census.count_topic(topic.logs.len(), topic.incarnation);
            for log in &topic.logs {
                log.count(&mut census);
            }
        }
        census
    }

    fn live(&self, topic: TopicId) -> Option<&Topic> {
        let topic = &self.topics[*self.by_id.get(&topic)?];
        (!topic.deleted).then_some(topic)
    }

    /// The channel that now has the topic name and the partition of this one.
    fn newest(&self, channel: Channel) -> Option<Channel> {
        let (name, _) = self.name_of(channel.topic)?;
        let newest = self.topic_id(name)?.partition(channel.partition);
        self.log(newest).map(|_| newest)
    }

    fn live_logs(&self) -> impl Iterator<Item = (Channel, &Log)> {
        let live = self.topics.iter().filter(|topic| !topic.deleted);
        live.flat_map(|topic| {
            (0..)
                .zip(&topic.logs)
                .map(|(partition, log)| (topic.id.partition(partition), log))
        })
    }

    fn log(&self, channel: Channel) -> Option<&Log> {
        let partition = usize::try_from(channel.partition).ok()?;
        self.live(channel.topic)?.logs.get(partition)
    }

    fn log_mut(&mut self, channel: Channel) -> Option<&mut Log> {
        let partition = usize::try_from(channel.partition).ok()?;
        let topic = &mut self.topics[*self.by_id.get(&channel.topic)?];
        if topic.deleted {
            return None;
        }
        topic.logs.get_mut(partition)
    }

    fn transaction(&self, txn: Txn) -> Option<&Transaction> {
        self.transactions.get(usize::try_from(txn.0).ok()?)
    }

    fn open(&self, txn: Txn) -> Option<&Transaction> {
        self.transaction(txn)
            .filter(|transaction| transaction.outcome.is_none())
    }

    fn open_mut(&mut self, txn: Txn) -> Option<&mut Transaction> {
        self.transactions
            .get_mut(usize::try_from(txn.0).ok()?)
            .filter(|transaction| transaction.outcome.is_none())
    }
}
