//! What the demo's clients of a cluster have in common: how they are set up, and what is said while it does not answer.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use parsley::core::Offset;
use parsley::kafka::{ReaderConfig, ReaderError};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use signal_hook::consts::TERM_SIGNALS;
use signal_hook::flag;

use super::PROPERTIES;
use super::failure::ClusterFailure;
use crate::demo::Options;
use crate::plain::plain;
use crate::property::checked;

/// How long one answer may take before the question is asked again: not longer than a signal may go unnoticed.
pub const ANSWER: Duration = Duration::from_secs(5);

/// How long to wait before a question is asked again that was answered with an error.
const BETWEEN: Duration = Duration::from_millis(250);

/// How often a question is asked again that was answered with an error.
const TRIES: u32 = 20;

/// How long nothing answers until that is said.
const PATIENCE: Duration = Duration::from_secs(2);

/// For how long the cluster has given no answer.
#[derive(Default)]
struct Silence {
    since: Option<Instant>,
    is_said: bool,
}

/// A cluster, as the command line tells of it.
pub struct Cluster {
    /// Where it is.
    pub brokers: String,
    /// How clients are set up.
    pub properties: BTreeMap<String, String>,
    silence: Mutex<Silence>,
    /// Asks for ends. It belongs to no group and sees what is not committed.
    asker: Mutex<Option<BaseConsumer>>,
    /// The signal that asked the process to end.
    signal: Arc<AtomicUsize>,
}

impl Cluster {
    /// From now on a signal asks the demo to stop, and another one ends the process.
    pub fn new(brokers: &str, options: &Options) -> Result<Self, ClusterFailure> {
        let mut properties: BTreeMap<String, String> = PROPERTIES
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        properties.extend(checked(&options.properties)?);
        let signal = Arc::new(AtomicUsize::new(0));
        let asked = Arc::new(AtomicBool::new(false));
        for &of in TERM_SIGNALS {
            let number = usize::try_from(of).unwrap_or(0);
            // In this order: the first signal only raises the flag that makes the second end the process.
            flag::register_conditional_default(of, Arc::clone(&asked))
                .and_then(|_| flag::register(of, Arc::clone(&asked)))
                .and_then(|_| flag::register_usize(of, Arc::clone(&signal), number))
                .map_err(ClusterFailure::Signals)?;
        }
        Ok(Self {
            brokers: brokers.to_owned(),
            properties,
            silence: Mutex::default(),
            asker: Mutex::default(),
            signal,
        })
    }

    /// Fails when the process was asked to end.
    pub fn interrupted(&self) -> Result<(), ClusterFailure> {
        match i32::try_from(self.signal.load(Ordering::SeqCst)) {
            Ok(signal @ 1..) => Err(ClusterFailure::Interrupted { signal }),
            _ => Ok(()),
        }
    }

    /// What every client has in common.
    pub fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        for (name, value) in &self.properties {
            client.set(name, value);
        }
        client.set("bootstrap.servers", &self.brokers);
        client
    }

    /// How topics are read.
    pub fn reader(&self) -> ReaderConfig {
        let mut config = ReaderConfig::new(&self.brokers);
        config.properties = self.properties.clone();
        config.answer_timeout = ANSWER;
        config
    }

    /// Asks until there is an answer, whatever it is, or the process is asked to end. An error has to come several times to be one: a partition
    /// that was just made, or whose broker has just gone, has nobody for a moment who answers for it.
    pub fn ask<T>(
        &self,
        mut question: impl FnMut() -> Result<T, ReaderError>,
    ) -> Result<T, ClusterFailure> {
        let mut tries = 0;
        loop {
            self.interrupted()?;
            match question() {
                Err(ReaderError::NoAnswer { reason, .. }) => self.is_silent(&reason),
                Err(ReaderError::Refused { .. }) if tries < TRIES => {
                    tries += 1;
                    std::thread::sleep(BETWEEN);
                }
                answer => {
                    self.answers();
                    return Ok(answer?);
                }
            }
        }
    }

    /// As [`Cluster::ask`], in librdkafka's words. What is denied is not asked for again.
    pub fn ask_client<T>(
        &self,
        mut question: impl FnMut() -> Result<T, KafkaError>,
    ) -> Result<T, ClusterFailure> {
        loop {
            self.interrupted()?;
            match question() {
                Err(error) if is_silence(&error) => self.is_silent(&error.to_string()),
                answer => {
                    self.answers();
                    return answer.map_err(ClusterFailure::Client);
                }
            }
        }
    }

    /// The high watermark of a partition: an open transaction may come to something yet.
    ///
    /// A client that was once told that a partition has no leader may say so for minutes from what it remembers, so after an error a new
    /// one is asked.
    pub fn end(&self, topic: &str, partition: i32) -> Result<Offset, ClusterFailure> {
        self.ask_client(|| {
            let mut kept = self.asker.lock().unwrap_or_else(PoisonError::into_inner);
            let asker = match kept.take() {
                Some(asker) => asker,
                None => self
                    .client()
                    .set("isolation.level", "read_uncommitted")
                    .set("enable.auto.commit", "false")
                    .set("allow.auto.create.topics", "false")
                    .create()?,
            };
            let (_, end) = asker.fetch_watermarks(topic, partition, ANSWER)?;
            *kept = Some(asker);
            Ok(end)
        })
    }

    /// It did not answer. After a while this is said, once until it does; and a moment later it may be asked again.
    pub fn is_silent(&self, reason: &str) {
        let mut silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *silence.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= PATIENCE && !std::mem::replace(&mut silence.is_said, true) {
            let brokers = &self.brokers;
            say(&format!("no answer from {brokers} ({reason}); trying on"));
        }
        drop(silence);
        std::thread::sleep(BETWEEN);
    }

    /// It answers.
    pub fn answers(&self) {
        let mut silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *silence).is_said {
            say(&format!("{} answers", self.brokers));
        }
    }
}

/// Whether an error says that nobody answered, or not yet.
pub fn is_silence(error: &KafkaError) -> bool {
    if let KafkaError::Transaction(error) = error
        && error.is_retriable()
    {
        return true;
    }
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::OperationTimedOut
                | RDKafkaErrorCode::RequestTimedOut
                | RDKafkaErrorCode::BrokerTransportFailure
                | RDKafkaErrorCode::AllBrokersDown
                | RDKafkaErrorCode::Resolve
                | RDKafkaErrorCode::CoordinatorLoadInProgress
                | RDKafkaErrorCode::CoordinatorNotAvailable
                | RDKafkaErrorCode::NotCoordinator
                | RDKafkaErrorCode::WaitingForCoordinator
                | RDKafkaErrorCode::LeaderNotAvailable
                | RDKafkaErrorCode::NotLeaderForPartition
                | RDKafkaErrorCode::UnstableOffsetCommit
        )
    )
}

/// Says something on standard error. If that cannot be written there is nobody to tell.
pub fn say(message: &str) {
    let _ = writeln!(io::stderr(), "parsley: {}", plain(message));
}
