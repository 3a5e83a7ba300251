//! Writing to a log from outside: plain sends, and transactions.

use std::collections::BTreeSet;

use bytes::Bytes;
use parsley_core::{Channel, Header, Offset};

use super::partition::TransactionId;
use super::{Log, SendError, StorageError};

/// A record to be appended.
///
/// ```
/// use parsley_embedded::NewRecord;
///
/// let record = NewRecord::to("orders").key("alice").value("3 apples").header("source", "shop");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a record is appended once it is sent"]
pub struct NewRecord {
    pub(crate) topic: String,
    pub(crate) partition: Option<i32>,
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) key: Option<Bytes>,
    pub(crate) value: Option<Bytes>,
    pub(crate) headers: Vec<Header>,
}

impl NewRecord {
    /// A record for a topic, with null key and null value.
    pub fn to(topic: impl Into<String>) -> Self {
        Self {
            topic: topic.into(),
            partition: None,
            timestamp_ms: None,
            key: None,
            value: None,
            headers: Vec::new(),
        }
    }

    /// Sets the key. It chooses the partition, unless one is named.
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the value.
    pub fn value(mut self, value: impl Into<Bytes>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// Adds a header. Names may repeat.
    pub fn header(mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.headers.push(Header::new(name, value));
        self
    }

    /// Adds headers as they are.
    pub fn headers(mut self, headers: impl IntoIterator<Item = Header>) -> Self {
        self.headers.extend(headers);
        self
    }

    /// Names the partition, instead of having the key choose it.
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Sets the timestamp, in milliseconds since the Unix epoch, instead of the log's own clock.
    pub fn timestamp_ms(mut self, timestamp_ms: i64) -> Self {
        self.timestamp_ms = Some(timestamp_ms);
        self
    }
}

/// Where a record was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The partition.
    pub channel: Channel,
    /// Its offset there.
    pub offset: Offset,
}

/// A plain producer: it stamps nothing, and claims nothing.
///
/// Each record sent is committed at once; [`Producer::begin`] makes several visible together.
///
/// ```
/// use parsley_embedded::{Log, LogConfig, NewRecord};
///
/// let log = Log::new(LogConfig::default());
/// log.create_topic("orders", 1)?;
/// let producer = log.producer();
///
/// let sent = producer.send(NewRecord::to("orders").key("alice").value("3 apples"))?;
/// assert_eq!(sent.offset, 0);
///
/// let mut transaction = producer.begin();
/// transaction.send(NewRecord::to("orders").key("bob").value("never mind"))?;
/// transaction.abort();
///
/// let records = log.consumer("orders")?.read_to_end()?;
/// assert_eq!(records.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Producer {
    log: Log,
}

impl Producer {
    pub(super) fn new(log: Log) -> Self {
        Self { log }
    }

    /// Appends a committed record, durable when this returns.
    ///
    /// # Errors
    ///
    /// When the topic or the partition does not exist, the record is too large, or the directory cannot be written.
    pub fn send(&self, record: NewRecord) -> Result<Appended, SendError> {
        self.log.append(record, None)
    }

    /// Begins a transaction. Any number may be open at once, also on the same partitions.
    pub fn begin(&self) -> Transaction {
        let id = self.log.begin_transaction();
        Transaction {
            log: self.log.clone(),
            id,
            touched: BTreeSet::new(),
            open: true,
        }
    }
}

/// An open transaction: its records become readable together when it commits, or never. Dropping it aborts it.
///
/// While it is open, readers of the partitions it wrote to stop at its first record, whatever others commit behind that.
#[derive(Debug)]
#[must_use = "a transaction that is dropped is aborted"]
pub struct Transaction {
    log: Log,
    id: TransactionId,
    touched: BTreeSet<Channel>,
    open: bool,
}

impl Transaction {
    /// Appends a record that becomes readable with the commit.
    ///
    /// # Errors
    ///
    /// When the topic or the partition does not exist, the record is too large, or the directory cannot be written. The transaction stays
    /// open, without that record.
    pub fn send(&mut self, record: NewRecord) -> Result<Appended, SendError> {
        let appended = self.log.append(record, Some(self.id))?;
        self.touched.insert(appended.channel);
        Ok(appended)
    }

    /// Makes the records readable, and durable. A marker takes the next offset of every partition written to. Topics deleted in the meantime
    /// took their share of the transaction with them.
    ///
    /// # Errors
    ///
    /// When the directory cannot be written. The transaction is aborted then, unless the error says that this is not known
    /// ([`StorageError::InDoubt`]).
    pub fn commit(mut self) -> Result<(), StorageError> {
        self.open = false;
        let touched = std::mem::take(&mut self.touched);
        self.log.commit_transaction(self.id, touched)
    }

    /// Withdraws the records. They keep their offsets, and a marker takes the next one.
    pub fn abort(self) {
        // Dropping it does.
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.open {
            self.log.abort_transaction(self.id, &self.touched);
        }
    }
}
