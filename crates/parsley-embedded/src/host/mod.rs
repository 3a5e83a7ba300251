//! The host: runs the tasks of an application on threads, over a log.

use std::borrow::Borrow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use parsley_core::TopicId;
use parsley_stage::App;

use crate::log::{Consumer, Log, Producer, ReadError, TopicConfig, TopicError};

mod audit;
mod backoff;
mod board;
mod claim;
mod context;
mod delay;
mod end;
mod error;
mod events;
mod evidence;
mod execution;
mod facts;
mod journal;
mod observed;
mod reads;
mod report;
mod running;
mod settings;
mod start;
mod status;
mod stepper;
mod telling;
#[cfg(test)]
mod tests;
mod ticking;
mod worker;

pub use backoff::Backoff;
pub use end::TaskEnd;
pub use error::{HostError, StartError, StopError};
pub use events::{DeliveryEvent, HoldEvent};
pub use evidence::WatermarkAnswer;
pub use reads::Reads;
pub use report::{AppendedSend, JoinedInput, Opening, StepError, StepReport};
pub use running::Running;
pub use settings::HostBuilder;
pub use status::{
    FailingTask, InputStatus, NotReached, RefusedTask, Status, TaskState, TaskStatus, Waited,
};
pub use stepper::Stepper;

/// Runs applications inside this process. A clone is another handle to the same host, with the same log.
///
/// ```
/// use parsley_embedded::{Host, NewRecord};
/// use parsley_stage::{App, Stage, Topic, codec};
///
/// let words = Topic::new("words", codec::string(), codec::string());
/// let counts = Topic::new("counts", codec::string(), codec::u64());
/// let count = Stage::stateful("count", codec::string(), codec::u64())
///     .on(&words, {
///         let counts = counts.clone();
///         move |seen, word, out| {
///             *seen += 1;
///             out.send(&counts, &word.key, seen)
///         }
///     })
///     .sink(&counts)
///     .build()?;
/// let app = App::named("wordcount").stage(count).build()?;
///
/// let host = Host::in_memory();
/// host.create_topic("words", 2)?;
/// host.create_topic("counts", 2)?;
/// let running = host.start(&app)?;
/// for word in ["sea", "sky", "sea"] {
///     host.producer().send(NewRecord::to("words").key(word).value("read"))?;
/// }
/// running.wait_until_idle().reached()?;
/// running.stop()?;
///
/// let counts = host.consumer("counts")?.read_to_end()?;
/// assert_eq!(counts.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Host {
    log: Log,
    settings: Arc<settings::Settings>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

impl Host {
    /// A host with default settings and an empty log in memory.
    pub fn in_memory() -> Self {
        Self::builder()
            .build()
            .expect("no default setting is out of range, and a log in memory needs nothing")
    }

    /// A host with default settings and the log in a directory, which is made when there is none ([`Log::open`]). Topics, records,
    /// positions and the state of every task outlive the process: an application that is started again goes on where it was.
    ///
    /// ```
    /// use parsley_embedded::Host;
    ///
    /// # let parent = tempfile::tempdir()?;
    /// # let dir = parent.path().join("data");
    /// let host = Host::open(&dir)?;
    /// host.create_topic("orders", 2)?;
    /// drop(host);
    /// assert!(Host::open(&dir)?.log().topic_id("orders").is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the directory cannot be opened.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, HostError> {
        Self::builder().data_dir(dir.as_ref()).build()
    }

    /// Configures a host.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Creates a topic that keeps everything; see [`Log::create_topic`].
    ///
    /// # Errors
    ///
    /// When the name is taken or is none, the number of partitions is out of range, or the directory cannot be written.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<TopicId, TopicError> {
        self.log.create_topic(name, partitions)
    }

    /// Creates a topic; see [`Log::create_topic_with`].
    ///
    /// # Errors
    ///
    /// When the name is taken or is none, a number is out of range, or the directory cannot be written.
    pub fn create_topic_with(
        &self,
        name: &str,
        config: TopicConfig,
    ) -> Result<TopicId, TopicError> {
        self.log.create_topic_with(name, config)
    }

    /// Deletes a topic; see [`Log::delete_topic`].
    ///
    /// # Errors
    ///
    /// When there is no such topic, or the directory cannot be written.
    pub fn delete_topic(&self, name: &str) -> Result<(), TopicError> {
        self.log.delete_topic(name)
    }

    /// A plain producer, for what comes from outside.
    pub fn producer(&self) -> Producer {
        self.log.producer()
    }

    /// A plain reader of a topic, for what goes outside.
    ///
    /// # Errors
    ///
    /// When there is no such topic.
    pub fn consumer(&self, topic: &str) -> Result<Consumer, ReadError> {
        self.log.consumer(topic)
    }

    /// Starts an application: opens a task for each stage and partition from what is committed, and runs each on a thread. The declaration
    /// may differ from that of an earlier start (`docs/protocol.md`, Scope changes).
    ///
    /// A task that a guard refuses does not keep the others from running; it shows in [`Running::status`].
    ///
    /// # Errors
    ///
    /// When a topic does not exist, the inputs of a stage have different numbers of partitions or another number than when it first
    /// started (G15), a stage of that name is running already, a delay is set for what is no input, the topic of the
    /// [account](HostBuilder::audit) does not fit, or the system has no thread.
    pub fn start(&self, app: impl Borrow<App>) -> Result<Running, StartError> {
        start::start(&self.log, &self.settings, app.borrow())
    }

    /// Takes an application's tasks to run them step by step in the caller's thread, for tests. None is open yet.
    ///
    /// # Errors
    ///
    /// As [`Host::start`], but for the threads.
    pub fn step_by_step(&self, app: impl Borrow<App>) -> Result<Stepper, StartError> {
        Stepper::new(&self.log, &self.settings, app.borrow())
    }
}
