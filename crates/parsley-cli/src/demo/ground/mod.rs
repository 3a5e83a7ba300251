//! What the demo stands on: a log with its topics, and a host that runs the application on it.
//!
//! Feeder, auditor and watch know these traits alone. There are two grounds: a host in this process, in memory or on a directory, and the
//! brokers of a cluster.

mod embedded;
#[cfg(feature = "kafka")]
mod kafka;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use parsley::App;
use parsley::core::{Offset, Record};
use parsley::report::Observed;

pub use embedded::Embedded;
#[cfg(feature = "kafka")]
pub use kafka::{ClusterFailure, Kafka};

use super::error::DemoError;
use super::feed::Pace;
use super::retention::Retention;
use super::topology::{AUDIT, COMMANDS, EVENTS, FINDINGS, INPUT, VIEWS};
use super::{Options, Seen};
use crate::input::Input;

/// How many partitions the demo's topics have.
const PARTITIONS: i32 = 2;

/// The demo's topics, with the number of their partitions.
const TOPICS: [(&str, i32); 6] = [
    (COMMANDS, PARTITIONS),
    (EVENTS, PARTITIONS),
    (VIEWS, PARTITIONS),
    (FINDINGS, PARTITIONS),
    (AUDIT, PARTITIONS),
    (INPUT, 1),
];

/// A log with the demo's topics, and a host on it.
pub trait Ground {
    /// Whether what it has outlives the process.
    fn is_durable(&self) -> bool;

    /// What it is to people: what an input has to fit.
    fn place(&self) -> &'static str;

    /// The identities of its topics, by name, where a topic can be made anew between two runs; none where that takes the notes with it.
    fn identities(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// In what portions commands come.
    fn pace(&self, input: Option<&Input>) -> Pace;

    /// Reads a topic from its beginning.
    fn reader(&self, topic: &'static str) -> Result<Box<dyn LogReader>, DemoError>;

    /// Writes to topics. There is one at a time: on a cluster it shuts out those of other runs, which are told when they commit.
    fn writer(&self) -> Result<Box<dyn LogWriter>, DemoError>;

    /// Has the log forget what is over; `None` where it keeps everything.
    fn retention(&self) -> Option<Retention>;

    /// Starts the application.
    fn start(&self, app: App) -> Result<Arc<dyn Application>, DemoError>;
}

/// Reads a topic from its beginning, beside the application: what is committed, each partition in its order.
pub trait LogReader: fmt::Debug + Send {
    /// The topic's name.
    fn topic(&self) -> &str;

    /// What has come by now, or some of it. Nothing says nothing about what is there.
    fn poll_now(&mut self) -> Result<Vec<Record>, DemoError>;

    /// What comes next, or some of it. Nothing only when everything was read that was there when this was called.
    fn read_on(&mut self) -> Result<Vec<Record>, DemoError>;

    /// Where each partition is read next.
    fn positions(&self) -> BTreeMap<i32, Offset>;
}

/// A record that is written from outside of the application.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The topic.
    pub topic: &'static str,
    /// The key, which chooses the partition.
    pub key: Option<String>,
    /// The value.
    pub value: Vec<u8>,
    /// Its number among the commands of all runs, if it is one.
    pub number: Option<u64>,
}

/// Writes portions of records, each of which is there as a whole or not at all.
pub trait LogWriter: Send {
    /// Adds a record to the portion at hand.
    fn send(&mut self, entry: Entry) -> Result<(), DemoError>;

    /// Ends the portion. It is there for good when this returns.
    fn commit(&mut self) -> Result<(), DemoError>;
}

/// The application, running.
pub trait Application: Observed {
    /// Waits until a task does not work as it should, and returns why; `None` when the application has stopped.
    fn await_failure(&self) -> Option<DemoError>;

    /// Waits until there is nothing to read for any task, of this process or another.
    fn await_rest(&self) -> Result<(), DemoError>;

    /// Whether what is held when it rests is held for good: then it is over.
    fn rests_for_good(&self) -> bool;

    /// Whether it waits for something that it does not have in hand.
    fn is_struggling(&self) -> bool;

    /// Stops it. What is under way is committed.
    fn stop(&self) -> Result<(), DemoError>;
}

/// The ground that was asked for. The bell rings when the account of deliveries may have grown.
pub fn open(options: &Options, bell: &Bell) -> Result<Box<dyn Ground>, DemoError> {
    match &options.brokers {
        None => Ok(Box::new(Embedded::open(
            options.data.as_deref(),
            options.withheld(),
            bell,
        )?)),
        #[cfg(feature = "kafka")]
        Some(brokers) => Ok(Box::new(Kafka::open(brokers.as_str(), options, bell)?)),
        #[cfg(not(feature = "kafka"))]
        Some(_) => Err(DemoError::WithoutKafka),
    }
}

/// Tells the one who watches that the account of deliveries has grown: once, until it is heard.
#[derive(Clone)]
pub struct Bell {
    rung: Arc<AtomicBool>,
    seen: SyncSender<Seen>,
}

impl Bell {
    /// A bell that is heard at the other end of a queue.
    pub fn new(seen: SyncSender<Seen>) -> Self {
        Self {
            rung: Arc::default(),
            seen,
        }
    }

    /// Rings, unless it has been rung and was not heard yet. False when nobody listens any more.
    pub fn ring(&self) -> bool {
        self.rung.swap(true, Ordering::SeqCst) || self.seen.send(Seen::News).is_ok()
    }

    /// Says that something does not work as it should.
    #[cfg(feature = "kafka")]
    pub fn broken(&self, error: DemoError) {
        // Nobody listens any more when the demo ends early.
        drop(self.seen.send(Seen::Broken(Box::new(error))));
    }

    /// It was heard. What has grown is to be looked at after this.
    pub fn heard(&self) {
        self.rung.store(false, Ordering::SeqCst);
    }
}
