//! The transactional producer of a worker: sends that tell where they came to stand, and the transaction around them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parsley_core::{Channel, Header, Offset};
use rdkafka::ClientContext;
use rdkafka::client::DefaultClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header as KafkaHeader, Headers, Message};
use rdkafka::producer::{BaseProducer, DeliveryResult, Producer as _, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;

use crate::config::KafkaConfig;
use crate::native::{self, Outgoing, ProducerTopic};

mod outcome;
mod positions;

use outcome::{again, classified, given_up};
use positions::Positions;

/// How long one call about a transaction may take before it is made again.
const CALL: Duration = Duration::from_secs(10);

/// How long to wait for a report before it is looked for again.
const MOMENT: Duration = Duration::from_micros(200);

/// How often those who send are told to hurry while acknowledgements are waited for.
const HURRY_EVERY: Duration = Duration::from_millis(5);

/// How long a batch that is not full waits for more records in the middle of a step; nothing waits at the end of a round.
const LINGER_MS: &str = "20";

/// How long an abort takes to drop what was not sent, before its reports are taken.
const REPORTS: Duration = Duration::from_millis(20);

/// What is done when positions are sent.
const SENDING: &str = "sending positions";

/// What is sent, and where it is to stand.
pub(crate) struct Send<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) key: Option<&'a Bytes>,
    pub(crate) value: Option<&'a Bytes>,
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) headers: &'a [Header],
}

/// Whose send a report is about, and where it was to go. librdkafka is handed its place in the producer's list.
type Tag = (i32, Channel);

/// What became of the sends of a transaction, as far as it is known.
#[derive(Default)]
struct Reports {
    /// Where the first and the last send of each tag stand, of those since it was last asked for.
    offsets: Vec<Option<(Offset, Offset)>>,
    /// Where the first send of each tag stands, of those of the transaction.
    firsts: Vec<Option<Offset>>,
    /// The send that failed first.
    failure: Option<Failed>,
}

#[derive(Clone)]
struct Failed {
    tag: usize,
    source: KafkaError,
    topic: String,
    bytes: usize,
}

impl Failed {
    /// Whether librdkafka dropped it by itself.
    fn was_dropped(&self) -> bool {
        use RDKafkaErrorCode::{PurgeInflight, PurgeQueue};
        matches!(
            self.source.rdkafka_error_code(),
            Some(PurgeInflight | PurgeQueue)
        )
    }
}

/// Where sends came to stand: the first and the last of each task on each channel.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged(BTreeMap<Tag, (Offset, Offset)>);

impl Acknowledged {
    /// What a task's sends came to.
    pub(crate) fn of(&self, task: i32) -> Vec<(Channel, Offset)> {
        self.0
            .iter()
            .filter(|((of, _), _)| *of == task)
            .map(|((_, channel), (_, last))| (*channel, *last))
            .collect()
    }

    /// Where the first and the last of each channel stand, whosever they are.
    pub(crate) fn spans(&self) -> BTreeMap<Channel, (Offset, Offset)> {
        let mut spans = BTreeMap::new();
        for (&(_, channel), &(first, last)) in &self.0 {
            let span = spans.entry(channel).or_insert((first, last));
            *span = (first.min(span.0), last.max(span.1));
        }
        spans
    }

    pub(crate) fn on(&self, task: i32, channel: Channel) -> Option<Offset> {
        let (_, last) = self.0.get(&(task, channel))?;
        Some(*last)
    }
}

#[derive(Default)]
pub(crate) struct Context {
    reports: Mutex<Reports>,
    /// Whether a connection was lost, or an answer not waited for any longer, since the producer was made.
    has_lost_answers: AtomicBool,
}

impl ClientContext for Context {
    /// Nothing but its log says that librdkafka has lost an answer: it asks again by itself. A loss that is like the one before goes unlogged for a
    /// while, the first never does.
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if matches!(facility, "FAIL" | "REQTMOUT") {
            self.has_lost_answers.store(true, Ordering::Relaxed);
        }
        DefaultClientContext.log(level, facility, message);
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, tag: usize) {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(record) => {
                let offset = record.offset();
                if reports.offsets.len() <= tag {
                    reports.offsets.resize(tag + 1, None);
                }
                // One that the broker had seen before comes without its offset.
                if offset >= 0 {
                    let known = &mut reports.offsets[tag];
                    *known = Some(known.map_or((offset, offset), |(first, last)| {
                        (first.min(offset), last.max(offset))
                    }));
                    if reports.firsts.len() <= tag {
                        reports.firsts.resize(tag + 1, None);
                    }
                    let first = &mut reports.firsts[tag];
                    *first = Some(first.map_or(offset, |first| first.min(offset)));
                }
            }
            Err((error, record)) => {
                let failed = Failed {
                    tag,
                    source: error.clone(),
                    topic: record.topic().to_owned(),
                    bytes: size_of(record),
                };
                match &reports.failure {
                    // What was only dropped was so for another that failed.
                    Some(known) if !known.was_dropped() => {}
                    _ => reports.failure = Some(failed),
                }
            }
        }
    }
}

/// A send, or a call about its transaction, failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProduceError {
    /// A record is larger than its topic takes.
    #[error(
        "a record of {bytes} bytes is larger than topic {topic} takes{}: raise its max.message.bytes",
        limit.map(|limit| format!(" ({limit} bytes with the overhead of a batch)")).unwrap_or_default()
    )]
    TooLarge {
        /// The partition of the task whose record it is.
        task: i32,
        /// The topic.
        topic: String,
        /// The size of the record's key, value and headers.
        bytes: usize,
        /// The topic's `max.message.bytes`, as far as it is known.
        limit: Option<usize>,
    },
    /// A send was acknowledged at an offset that its log was known to be beyond. The topic that it went to may be another one under the name.
    #[error(
        "{topic}/{partition} was at offset {last} and is at {found} now: its log has lost its end, or the topic was made again"
    )]
    WentBack {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The last offset that was known.
        last: Offset,
        /// The offset of the send.
        found: Offset,
    },
    /// The transaction cannot be committed, and is to be aborted.
    #[error("{what}: {source}")]
    Abort {
        /// What failed.
        what: &'static str,
        /// librdkafka's error.
        source: KafkaError,
    },
    /// The producer is beyond repair: it was fenced, or its transaction cannot be ended.
    #[error("{what}: {source}")]
    Fatal {
        /// What failed.
        what: &'static str,
        /// librdkafka's error.
        source: KafkaError,
    },
}

impl ProduceError {
    fn of(source: KafkaError, task: i32, topic: &str, bytes: usize) -> Self {
        match source.rdkafka_error_code() {
            Some(RDKafkaErrorCode::MessageSizeTooLarge) => Self::TooLarge {
                task,
                topic: topic.to_owned(),
                bytes,
                limit: None,
            },
            _ => Self::Abort {
                what: "a send",
                source,
            },
        }
    }

    /// librdkafka's code, if it has one.
    pub(crate) fn code(&self) -> Option<RDKafkaErrorCode> {
        match self {
            Self::TooLarge { .. } => Some(RDKafkaErrorCode::MessageSizeTooLarge),
            Self::WentBack { .. } => None,
            Self::Abort { source, .. } | Self::Fatal { source, .. } => source.rdkafka_error_code(),
        }
    }

    /// Whether a new producer is needed.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(self, Self::Fatal { .. })
    }
}

/// The size of a record's key, value and headers.
fn size_of(record: &impl Message) -> usize {
    let bytes = |field: Option<&[u8]>| field.map_or(0, <[u8]>::len);
    let headers = record.headers().map_or(0, |headers| {
        let header = |header: KafkaHeader<'_, &[u8]>| header.key.len() + bytes(header.value);
        headers.iter().map(header).sum()
    });
    bytes(record.key()) + bytes(record.payload()) + headers
}

/// How large librdkafka makes a batch if nothing is said.
const BATCH_BYTES: usize = 1_000_000;

/// Where records of a task go.
struct Target {
    tag: Tag,
    /// The place of its topic.
    topic: usize,
}

/// A producer with a transactional id.
pub(crate) struct Producer {
    id: String,
    // Both before the producer, which they belong to.
    topics: Vec<(String, ProducerTopic)>,
    positions: Option<Positions>,
    producer: Arc<BaseProducer<Context>>,
    /// What is sent by whom, in the order in which it was first sent.
    targets: Vec<Target>,
    is_open: bool,
    /// Whether it has aborted a transaction.
    has_aborted: bool,
    /// What became of a commit is not known.
    may_have_committed: bool,
    /// When the transaction that is open was begun, and how long the cluster leaves one open.
    began: Instant,
    timeout: Duration,
    /// A request that takes less was sent once.
    sent_once: Duration,
    /// Whether the end of a transaction may have been asked for twice.
    may_end_again: bool,
}

fn not_initialised(source: KafkaError) -> ProduceError {
    ProduceError::Fatal {
        what: "initialising transactions",
        source,
    }
}

impl Producer {
    /// The longest time that a client can ask for, in milliseconds.
    pub(crate) const LONGEST_MS: u32 = i32::MAX as u32;

    /// Asks for a transactional id and for transactions of the longest time. A broker looks at the permission first, and at the time before it keeps anything: one
    /// whose limit is lower refuses in any case.
    pub(crate) fn ask_for(config: &KafkaConfig, id: &str) -> Result<(), ProduceError> {
        let mut client = config.client();
        client
            .set("transactional.id", id)
            .set("transaction.timeout.ms", Self::LONGEST_MS.to_string());
        let asker: BaseProducer = client.create().map_err(not_initialised)?;
        asker.init_transactions(CALL).map_err(not_initialised)
    }

    /// Makes a producer, and ends what an earlier one of the same id left open. `smallest_limit` is the smallest `max.message.bytes` of the
    /// topics that it sends to: a broker takes a batch or refuses it as a whole.
    pub(crate) fn new(
        config: &KafkaConfig,
        id: &str,
        smallest_limit: Option<usize>,
    ) -> Result<Self, ProduceError> {
        let mut client = config.client();
        let timeout_ms = config.transaction_timeout.as_millis().to_string();
        client
            .set("transactional.id", id)
            .set("transaction.timeout.ms", timeout_ms)
            .set("enable.idempotence", "true")
            // The topics' own limits count.
            .set("message.max.bytes", "1000000000");
        // What is told of connections at this level is what tells of lost answers.
        client.set("log.connection.close", "true");
        if (client.log_level as i32) < RDKafkaLogLevel::Info as i32 {
            client.set_log_level(RDKafkaLogLevel::Info);
        }
        let has = |property| config.properties.contains_key(property);
        if !has("linger.ms") && !has("queue.buffering.max.ms") {
            client.set("linger.ms", LINGER_MS);
        }
        let wished = config.properties.get("batch.size");
        let wished = wished.and_then(|bytes| bytes.parse().ok());
        let batch_bytes = wished.unwrap_or(BATCH_BYTES);
        let batch_bytes = smallest_limit.map_or(batch_bytes, |limit| batch_bytes.min(limit).max(1));
        client.set("batch.size", batch_bytes.to_string());
        let producer: BaseProducer<Context> = client
            .create_with_context(Context::default())
            .map_err(not_initialised)?;
        producer.init_transactions(CALL).map_err(not_initialised)?;
        Ok(Self {
            id: id.to_owned(),
            producer: Arc::new(producer),
            topics: Vec::new(),
            positions: None,
            targets: Vec::new(),
            is_open: false,
            has_aborted: false,
            may_have_committed: false,
            began: Instant::now(),
            timeout: config.transaction_timeout,
            sent_once: sent_once(&config.properties),
            may_end_again: false,
        })
    }

    /// Begins a transaction, if none is open.
    pub(crate) fn begin(&mut self) -> Result<(), ProduceError> {
        if self.is_open {
            return Ok(());
        }
        *self.reports() = Reports::default();
        let begun = self.producer.begin_transaction();
        begun.map_err(|source| classified("beginning a transaction", source))?;
        self.is_open = true;
        self.began = Instant::now();
        Ok(())
    }

    /// Until when the transaction that is open is worth an attempt. What is left of its time is for the abort: a producer whose transaction the
    /// cluster has given up is fenced.
    pub(crate) fn deadline(&self) -> Instant {
        self.began + self.timeout * 3 / 4
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether it is to begin no other transaction. What the cluster did not mark of one that was aborted would be committed with the next (decision
    /// K27); and a request to end one that has ended may still be under way, which would end the next (decision K20).
    pub(crate) fn is_spent(&self) -> bool {
        self.has_aborted || self.may_end_again
    }

    /// Takes note of how the end of a transaction went, which was asked for at a time.
    fn note_end(&mut self, asked: Instant) {
        if asked.elapsed() < self.sent_once {
            return;
        }
        self.producer.poll(REPORTS);
        self.may_end_again |= self
            .producer
            .context()
            .has_lost_answers
            .load(Ordering::Relaxed);
    }

    /// The name that a channel's sends go by; its identity, if it was sent nothing.
    pub(crate) fn topic_of(&self, channel: Channel) -> String {
        let target = self.targets.iter().find(|target| target.tag.1 == channel);
        target.map_or_else(
            || channel.topic.to_string(),
            |target| self.topics[target.topic].0.clone(),
        )
    }

    /// Its transactional id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Where the transaction that is open begins on each partition, as far as that was acknowledged; nothing of one that may be committed.
    pub(crate) fn begins(&self) -> BTreeMap<Channel, (String, Offset)> {
        let mut begins: BTreeMap<Channel, (String, Offset)> = BTreeMap::new();
        if self.may_have_committed {
            return begins;
        }
        for (target, first) in self.targets.iter().zip(&self.reports().firsts) {
            let (Some(first), (_, channel)) = (first, target.tag) else {
                continue;
            };
            let (topic, _) = &self.topics[target.topic];
            let known = begins
                .entry(channel)
                .or_insert_with(|| (topic.clone(), *first));
            known.1 = known.1.min(*first);
        }
        begins
    }

    /// Hands a task's record to the transaction that is open, or to a new one.
    pub(crate) fn send(
        &mut self,
        task: i32,
        channel: Channel,
        send: &Send<'_>,
    ) -> Result<(), ProduceError> {
        self.begin()?;
        let tag = self.target((task, channel), send.topic)?;
        let record = Outgoing {
            partition: send.partition,
            key: send.key.map(|key| &**key),
            value: send.value.map(|value| &**value),
            timestamp_ms: send.timestamp_ms,
            headers: send.headers,
            tag,
        };
        loop {
            let (_, topic) = &self.topics[self.targets[tag].topic];
            match native::hand_over(&self.producer, topic, &record) {
                Ok(()) => return self.failure(),
                Err(RDKafkaErrorCode::QueueFull) => {
                    self.take_reports(|| false);
                    self.failure()?;
                }
                Err(code) => {
                    // A send that failed before has failed this as well, and says more.
                    self.producer.poll(REPORTS);
                    self.failure()?;
                    let header = |header: &Header| {
                        header.name.len() + header.value.as_ref().map_or(0, Bytes::len)
                    };
                    let bytes = send.key.map_or(0, Bytes::len)
                        + send.value.map_or(0, Bytes::len)
                        + send.headers.iter().map(header).sum::<usize>();
                    let source = KafkaError::MessageProduction(code);
                    return Err(ProduceError::of(source, task, send.topic, bytes));
                }
            }
        }
    }

    /// The place of a target. A worker has few tasks and a stage few sinks, and the one that sends is mostly the one that has just sent.
    fn target(&mut self, tag: Tag, topic: &str) -> Result<usize, ProduceError> {
        if let Some(place) = self.targets.iter().rposition(|known| known.tag == tag) {
            return Ok(place);
        }
        let known = self.topics.iter().position(|(name, _)| name == topic);
        let topic = match known {
            Some(place) => place,
            None => {
                let made = native::topic(&self.producer, topic);
                let made = made.ok_or_else(|| ProduceError::Abort {
                    what: "a send",
                    source: KafkaError::MessageProduction(RDKafkaErrorCode::UnknownTopic),
                })?;
                self.topics.push((topic.to_owned(), made));
                self.topics.len() - 1
            }
        };
        self.targets.push(Target { tag, topic });
        Ok(self.targets.len() - 1)
    }

    /// Lets reports come in.
    pub(crate) fn poll(&self) {
        self.producer.poll(Duration::ZERO);
    }

    /// Takes the reports that are there. If there is none, does something else that is useful meanwhile, or waits for a moment if there is
    /// nothing to do. `rdkafka` would wait for all of the time that it is given, and its own `flush` waits a tenth of a second at least.
    fn take_reports(&self, mut meanwhile: impl FnMut() -> bool) {
        let open = self.producer.in_flight_count();
        self.producer.poll(Duration::ZERO);
        if self.producer.in_flight_count() == open && !meanwhile() {
            std::thread::sleep(MOMENT);
        }
    }

    /// Waits until every send is acknowledged. Returns where the last one of each task on each channel stands, of those that were not told
    /// before. `meanwhile` is called while there is nothing to do here, and says whether it did anything.
    pub(crate) fn flush(
        &mut self,
        until: Instant,
        mut meanwhile: impl FnMut() -> bool,
    ) -> Result<Acknowledged, ProduceError> {
        let mut hurried: Option<Instant> = None;
        loop {
            self.producer.poll(Duration::ZERO);
            self.failure()?;
            if self.producer.in_flight_count() == 0 {
                break;
            }
            let now = Instant::now();
            if now >= until {
                let timed_out = RDKafkaErrorCode::OperationTimedOut;
                return Err(ProduceError::Abort {
                    what: "waiting for acknowledgements",
                    source: KafkaError::Flush(timed_out),
                });
            }
            if hurried.is_none_or(|at| now - at >= HURRY_EVERY) {
                native::hurry(self.producer.client());
                hurried = Some(now);
            } else {
                self.take_reports(&mut meanwhile);
            }
        }
        let offsets = std::mem::take(&mut self.reports().offsets);
        let tags = self.targets.iter().map(|target| target.tag);
        let told = tags.zip(offsets);
        let told = told.filter_map(|(tag, offset)| Some((tag, offset?)));
        Ok(Acknowledged(told.collect()))
    }

    fn failure(&self) -> Result<(), ProduceError> {
        let failure = self.reports().failure.clone();
        let Some(failed) = failure else {
            return Ok(());
        };
        // Why is said by no report.
        if failed.was_dropped()
            && let Some(source) = given_up(&self.producer)
        {
            return Err(classified("a send", source));
        }
        let (task, _) = self.targets[failed.tag].tag;
        Err(ProduceError::of(
            failed.source,
            task,
            &failed.topic,
            failed.bytes,
        ))
    }

    fn reports(&self) -> std::sync::MutexGuard<'_, Reports> {
        let reports = &self.producer.context().reports;
        reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the positions, in the name of a member of a generation, while records are under way. An outcome that is not known is asked for
    /// until it is, or `until` is over: of a call that has not ended a moment later nothing is known, and the producer is good for nothing.
    pub(crate) fn send_positions(
        &mut self,
        positions: &[(&str, i32, Offset)],
        group: &Arc<ConsumerGroupMetadata>,
        until: Instant,
    ) -> Result<(), ProduceError> {
        if self.producer.in_flight_count() > 0 {
            native::hurry(self.producer.client());
        }
        let sender = match &mut self.positions {
            Some(sender) => sender,
            none => {
                let begun = Positions::begin(&self.producer);
                none.insert(begun.map_err(|source| classified(SENDING, source))?)
            }
        };
        let sent = again(until, SENDING, |time| {
            sender.send(positions, group, time, until)
        });
        if sent.is_err() && !self.is_left() {
            // A send that failed has failed this as well, and says more.
            self.producer.poll(REPORTS);
            self.failure()?;
        }
        sent
    }

    /// Whether librdkafka still makes a call that is not waited for any longer. It takes no other then.
    fn is_left(&self) -> bool {
        self.positions.as_ref().is_some_and(Positions::is_left)
    }

    /// Commits, with everything acknowledged. An outcome that is not known is asked for until it is.
    pub(crate) fn commit(&mut self, until: Instant) -> Result<(), ProduceError> {
        let asked = Instant::now();
        // Once it is under way there is nothing to be aborted any more: it may take its time.
        let committed = again(until, "committing", |_| {
            self.producer.commit_transaction(CALL)
        });
        match &committed {
            Ok(()) => self.is_open = false,
            Err(ProduceError::Fatal { .. }) => self.may_have_committed = true,
            Err(_) => {}
        }
        self.note_end(asked);
        committed
    }

    /// Aborts the transaction, if one is open. What was sent in it is not read by anybody.
    pub(crate) fn abort(&mut self, until: Instant) -> Result<(), ProduceError> {
        if !self.is_open {
            return Ok(());
        }
        let asked = Instant::now();
        self.has_aborted = true;
        if self.is_left() {
            let timed_out = KafkaError::ConsumerCommit(RDKafkaErrorCode::OperationTimedOut);
            return Err(classified(SENDING, timed_out));
        }
        let aborted = again(until, "aborting", |time| {
            // librdkafka drops what it has not sent, and waits until the reports of that were taken, which nobody else does. What was under way
            // then may come back to be sent again: that is dropped by the next call alone.
            let is_awaited = self.producer.in_flight_count() > 0;
            let aborted = self
                .producer
                .abort_transaction(if is_awaited { REPORTS } else { time });
            let called = Instant::now();
            while aborted.is_err()
                && self.producer.in_flight_count() > 0
                && called.elapsed() < REPORTS
            {
                self.take_reports(|| false);
            }
            aborted
        });
        aborted.map_err(|error| match error {
            ProduceError::Abort { what, source } => ProduceError::Fatal { what, source },
            other => other,
        })?;
        self.is_open = false;
        self.note_end(asked);
        Ok(())
    }
}

/// How long librdkafka waits at least before it sends a request again, and half of that for its jitter.
fn sent_once(properties: &BTreeMap<String, String>) -> Duration {
    let ms = |property: &str, default: u64| {
        let set = properties.get(property);
        set.and_then(|ms| ms.parse().ok()).unwrap_or(default)
    };
    let backoff = ms("retry.backoff.ms", 100).min(ms("retry.backoff.max.ms", 1000));
    Duration::from_millis(backoff / 2)
}
