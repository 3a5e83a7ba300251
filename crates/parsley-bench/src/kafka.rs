//! Records through Apache Kafka, exactly once: a bare loop over `rdkafka`, and the Kafka host on a stage that passes records on.
//!
//! Both read the same topic from its beginning and write each record, key and value as they are, to a topic of their own, in transactions
//! of one interval, with the same properties of librdkafka. What came out is compared with what went in, record by record.

mod bare;
mod cluster;
mod host;
mod meter;

use std::time::Duration;

use bare::Headers;
pub use cluster::Cluster;
pub use meter::Measured;

/// What every run ends well with, or says why not.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How many partitions each topic has.
pub const PARTITIONS: i32 = 4;

/// How many keys there are. A key is its number in 8 bytes.
pub const KEYS: u64 = 10_000;

/// After how long a transaction ends: the host's default.
const COMMIT_INTERVAL: Duration = Duration::from_millis(100);

/// How long a run may take before it is given up.
const BOUND: Duration = Duration::from_secs(300);

/// What passes the records on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Passer {
    /// A loop over `rdkafka`; headers stay behind.
    Bare,
    /// The same, and headers come along.
    BareWithHeaders,
    /// The same, and each record is given headers as long as those of a stamp.
    BareAddingHeaders,
    /// The host, with a stage that looks at nothing but the record.
    Host,
    /// The host, with a stage that counts the records of each key.
    StatefulHost,
}

impl Passer {
    /// Passes all records of a topic on to a topic that is made for it. Returns what was measured, once that topic has what it should have.
    ///
    /// # Errors
    ///
    /// When a client or the host fails, or when the records that came out are not those that went in.
    pub fn run(self, cluster: &Cluster, input: &Input, sink: &str) -> Outcome<Measured> {
        cluster.create_topic(sink)?;
        let measured = match self {
            Self::Bare => bare::run(cluster, input, sink, Headers::Dropped),
            Self::BareWithHeaders => bare::run(cluster, input, sink, Headers::PassedOn),
            Self::BareAddingHeaders => bare::run(cluster, input, sink, Headers::Added),
            Self::Host => host::run(cluster, input, sink, false),
            Self::StatefulHost => host::run(cluster, input, sink, true),
        }?;
        let came_out = cluster.contents(sink)?;
        if came_out != input.contents {
            let found = format!("{sink}: {came_out:?} came out of {:?}", input.contents);
            return Err(found.into());
        }
        Ok(measured)
    }
}

/// A topic to read, filled once.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name.
    pub topic: String,
    /// How many records it has.
    pub records: u64,
    /// What they are.
    pub contents: Contents,
}

impl Input {
    /// A topic that somebody has filled.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn of(cluster: &Cluster, topic: &str) -> Outcome<Self> {
        let contents = cluster.contents(topic)?;
        Ok(Self {
            topic: topic.to_owned(),
            records: contents.iter().map(|partition| partition.records).sum(),
            contents,
        })
    }
}

/// What a topic has, partition by partition.
pub type Contents = Vec<PartitionContents>;

/// What a partition has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionContents {
    /// How many records.
    pub records: u64,
    /// A digest of their keys and values, in their order.
    pub digest: u64,
}
