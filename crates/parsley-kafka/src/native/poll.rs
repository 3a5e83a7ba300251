//! A poll that yields events.

use std::ffi::{CString, c_int, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{ptr, slice};

use bytes::{Bytes, BytesMut};
use parsley_core::Header;
use parsley_core::wire::{CLOCK_HEADER, SENDER_HEADER, SEQUENCE_HEADER};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, DefaultConsumerContext};
use rdkafka::error::{IsError, KafkaError};
use rdkafka::message::Timestamp;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use rdkafka_sys as sys;

use super::{Event, Owned, Queue, bytes_of, error_of, text_of};
use crate::event::{ConsumerError, Partition, Polled, Record};

/// A consumer that is polled for events instead of messages (decisions K3 and K6).
///
/// It reads the queue that [`BaseConsumer::poll`] reads, which must not be called beside it: each event goes to one of them. Logs,
/// statistics and the outcome of offset commits go to the consumer's context. A context that makes OAuth tokens of its own is not
/// served: librdkafka is told that there is no token.
///
/// Dropping it gives up every partition and leaves the group, without asking anyone: a step that is open by then has to be aborted.
/// Only eager assignors are served, `range` among them.
pub struct EventConsumer<C: ConsumerContext = DefaultConsumerContext> {
    // Before the consumer: librdkafka wants a client's queues released first.
    queue: Queue,
    consumer: BaseConsumer<C>,
    /// Every topic name met so far, so that records share them.
    topics: Vec<Arc<str>>,
    pieces: Pieces,
}

// SAFETY: librdkafka's queues may be used and released from any thread, and polling takes `&mut self`.
unsafe impl<C: ConsumerContext> Send for EventConsumer<C> {}

impl<C: ConsumerContext> std::fmt::Debug for EventConsumer<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventConsumer")
            .field("topics", &self.topics)
            .finish_non_exhaustive()
    }
}

impl<C: ConsumerContext> EventConsumer<C> {
    /// Wraps a consumer.
    ///
    /// # Errors
    ///
    /// A client error when the consumer was configured without `group.id`: librdkafka then has no consumer queue.
    pub fn new(consumer: BaseConsumer<C>) -> Result<Self, KafkaError> {
        let client = consumer.client().native_ptr();
        // SAFETY: the client is alive, as `consumer` holds it. The call returns a new reference to the queue, ours to release, or null.
        let queue = unsafe {
            Owned::new(
                sys::rd_kafka_queue_get_consumer(client),
                sys::rd_kafka_queue_destroy,
            )
        };
        match queue {
            Some(queue) => Ok(Self {
                queue,
                consumer,
                topics: Vec::new(),
                pieces: Pieces::default(),
            }),
            None => Err(KafkaError::ClientCreation(
                "a consumer without group.id has no queue".to_owned(),
            )),
        }
    }

    /// The consumer, for everything but polling.
    #[must_use]
    pub fn consumer(&self) -> &BaseConsumer<C> {
        &self.consumer
    }

    /// The end of a partition, committed or not, as the last answer to a fetch told it; `None` before the first.
    #[must_use]
    pub fn known_end(&self, topic: &str, partition: i32) -> Option<i64> {
        let topic = CString::new(topic).ok()?;
        let (mut start, mut end) = (-1, -1);
        // SAFETY: the client is alive, the name is a string that outlives the call, and the two places are written.
        let answer = unsafe {
            sys::rd_kafka_get_watermark_offsets(
                self.consumer.client().native_ptr(),
                topic.as_ptr(),
                partition,
                &mut start,
                &mut end,
            )
        };
        (!answer.is_error() && end >= 0).then_some(end)
    }

    /// The next event, waited for up to `timeout`; `None` when there was none.
    pub fn poll(&mut self, timeout: Duration) -> Option<Polled> {
        // What waits for nobody need not look at the clock.
        let until = (!timeout.is_zero()).then(|| Instant::now() + timeout);
        loop {
            let left = until.map_or(Duration::ZERO, |until| {
                until.saturating_duration_since(Instant::now())
            });
            let left_ms = c_int::try_from(left.as_millis()).unwrap_or(c_int::MAX);
            // SAFETY: the queue is alive while `self.queue` is. The event returned is ours to release, or null.
            let event = unsafe {
                Owned::new(
                    sys::rd_kafka_queue_poll(self.queue.as_ptr(), left_ms),
                    sys::rd_kafka_event_destroy,
                )
            };
            match event {
                Some(event) => {
                    if let Some(polled) = self.read(&event) {
                        return Some(polled);
                    }
                }
                None if until.is_none_or(|until| Instant::now() >= until) => return None,
                None => {}
            }
        }
    }

    /// Acknowledges every rebalance that is open, and gives up partitions and subscription, until no rebalance is left to acknowledge.
    ///
    /// Without this, the consumer's own close would acknowledge what is left while librdkafka takes the group down, and that call can wait
    /// forever for an answer that nobody gives any more (librdkafka issue 4884). Here the group is still up, and answers.
    fn give_up(&mut self) {
        loop {
            // The first acknowledges a revoke, the second an assignment, polled or not; where none is open, neither has an effect. In
            // this order the unsubscription that follows is not put off until a rebalance ends.
            self.acknowledge(false);
            self.acknowledge(true);
            self.consumer.unsubscribe();
            let mut settled = true;
            while let Some(polled) = self.poll(Duration::ZERO) {
                match polled {
                    Polled::Assigned(_) => self.acknowledge(true),
                    Polled::Revoked { .. } => self.acknowledge(false),
                    _ => continue,
                }
                settled = false;
            }
            if settled {
                return;
            }
        }
    }

    /// Acknowledges an assignment, taking nothing of it, or a revoke. A failure says that there was nothing to acknowledge.
    fn acknowledge(&self, assignment: bool) {
        let _ = match assignment {
            true => self.consumer.assign(&TopicPartitionList::new()),
            false => self.consumer.unassign(),
        };
    }

    /// What an event says; `None` when it went to the consumer's context.
    fn read(&mut self, event: &Event) -> Option<Polled> {
        // SAFETY: the event is alive while `event` is.
        match unsafe { sys::rd_kafka_event_type(event.as_ptr()) } {
            sys::RD_KAFKA_EVENT_FETCH => self.read_fetch(event),
            sys::RD_KAFKA_EVENT_ERROR => self.read_error(event),
            sys::RD_KAFKA_EVENT_REBALANCE => Some(self.read_rebalance(event)),
            sys::RD_KAFKA_EVENT_OFFSET_COMMIT => {
                let outcome = match error_of(event) {
                    Some(code) => Err(KafkaError::ConsumerCommit(code)),
                    None => Ok(()),
                };
                let mut offsets = TopicPartitionList::new();
                for (partition, offset) in self.partitions_of(event) {
                    // Refused for a negative offset that has no name; the context learns the partition nevertheless.
                    let _ = offsets.add_partition_offset(
                        &partition.topic,
                        partition.partition,
                        Offset::from_raw(offset),
                    );
                }
                self.consumer.context().commit_callback(outcome, &offsets);
                None
            }
            sys::RD_KAFKA_EVENT_LOG => {
                self.pass_on_log(event);
                None
            }
            sys::RD_KAFKA_EVENT_STATS => {
                // SAFETY: a statistics event has a string, which lives as long as the event.
                let json = unsafe { bytes_of(sys::rd_kafka_event_stats(event.as_ptr())) };
                self.consumer.context().stats_raw(json);
                None
            }
            sys::RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH => {
                // SAFETY: the client is alive, and the string is a constant. The failure comes back as an error event.
                unsafe {
                    sys::rd_kafka_oauthbearer_set_token_failure(
                        self.consumer.client().native_ptr(),
                        c"no OAuth token can be made here".as_ptr(),
                    );
                }
                None
            }
            // No other event was asked for.
            _ => None,
        }
    }

    fn read_fetch(&mut self, event: &Event) -> Option<Polled> {
        // SAFETY: a fetch event holds one message, which lives as long as the event; null would end a list of them.
        let message = unsafe { sys::rd_kafka_event_message_next(event.as_ptr()).as_ref() }?;
        // SAFETY: a fetched message names its topic, whose name lives as long as the message.
        let topic = unsafe { text_of(sys::rd_kafka_topic_name(message.rkt)) };
        let partition = Partition {
            topic: self.shared(&topic),
            partition: message.partition,
        };
        if message.err.is_error() {
            // SAFETY: librdkafka's message for a message's error is a string that lives as long as the message.
            let reason = unsafe { text_of(sys::rd_kafka_message_errstr(message)) }.into_owned();
            let error = ConsumerError {
                code: message.err.into(),
                fatal: false,
                partition: Some(partition),
                reason,
            };
            return Some(Polled::Error(error));
        }
        // SAFETY: key and payload of a message without error are null, or point to as many bytes as their lengths say.
        let (key, value) = unsafe {
            (
                bytes_at(message.key, message.key_len),
                bytes_at(message.payload, message.len),
            )
        };
        let pieces = &mut self.pieces;
        Some(Polled::Record(Record {
            partition,
            offset: message.offset,
            key: key.map(|key| pieces.copy(key)),
            value: value.map(|value| pieces.copy(value)),
            headers: headers_of(message, pieces),
            timestamp: timestamp_of(message),
        }))
    }

    fn read_error(&mut self, event: &Event) -> Option<Polled> {
        let code = error_of(event)?;
        // SAFETY: the event is alive; what is returned is a new object, ours to release, or null.
        let at = unsafe {
            Owned::new(
                sys::rd_kafka_event_topic_partition(event.as_ptr()),
                sys::rd_kafka_topic_partition_destroy,
            )
        };
        let at = at.map(|at| {
            // SAFETY: the object is alive while `at` is, and so is its topic's name.
            let (at, topic) = unsafe { (at.pointer.as_ref(), text_of((*at.as_ptr()).topic)) };
            (
                Partition {
                    topic: self.shared(&topic),
                    partition: at.partition,
                },
                at.offset,
            )
        });
        match (code, at) {
            (RDKafkaErrorCode::PartitionEOF, Some((partition, offset))) => {
                Some(Polled::Eof { partition, offset })
            }
            (code, at) => {
                // SAFETY: the event is alive, and the string that it returns lives as long.
                let (reason, fatal) = unsafe {
                    let reason =
                        text_of(sys::rd_kafka_event_error_string(event.as_ptr())).into_owned();
                    (
                        reason,
                        sys::rd_kafka_event_error_is_fatal(event.as_ptr()) != 0,
                    )
                };
                Some(Polled::Error(ConsumerError {
                    code,
                    fatal,
                    partition: at.map(|(partition, _)| partition),
                    reason,
                }))
            }
        }
    }

    fn read_rebalance(&mut self, event: &Event) -> Polled {
        let partitions = self
            .partitions_of(event)
            .into_iter()
            .map(|(partition, _)| partition)
            .collect();
        match error_of(event) {
            Some(RDKafkaErrorCode::AssignPartitions) => Polled::Assigned(partitions),
            // A failed rebalance takes everything away as well.
            _ => Polled::Revoked {
                partitions,
                lost: self.consumer.assignment_lost(),
            },
        }
    }

    /// The partitions that an event lists, with the offsets beside them.
    fn partitions_of(&mut self, event: &Event) -> Vec<(Partition, i64)> {
        // SAFETY: the list, or null, belongs to the event and lives as long as it.
        let Some(list) =
            (unsafe { sys::rd_kafka_event_topic_partition_list(event.as_ptr()).as_ref() })
        else {
            return Vec::new();
        };
        let count = usize::try_from(list.cnt).unwrap_or(0);
        if count == 0 {
            return Vec::new();
        }
        // SAFETY: a list that is not empty holds `cnt` initialised elements from `elems` on.
        let elements = unsafe { slice::from_raw_parts(list.elems, count) };
        let mut partitions = Vec::with_capacity(count);
        for element in elements {
            // SAFETY: an element names its topic, with a name that lives as long as the list.
            let topic = unsafe { text_of(element.topic) };
            partitions.push((
                Partition {
                    topic: self.shared(&topic),
                    partition: element.partition,
                },
                element.offset,
            ));
        }
        partitions
    }

    fn pass_on_log(&self, event: &Event) {
        let (mut facility, mut message, mut level) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the event is alive, and the three places are written with strings that live as long as it.
        let (facility, message) = unsafe {
            if sys::rd_kafka_event_log(event.as_ptr(), &mut facility, &mut message, &mut level) != 0
            {
                return;
            }
            (text_of(facility), text_of(message))
        };
        let level = match level {
            0 => RDKafkaLogLevel::Emerg,
            1 => RDKafkaLogLevel::Alert,
            2 => RDKafkaLogLevel::Critical,
            3 => RDKafkaLogLevel::Error,
            4 => RDKafkaLogLevel::Warning,
            5 => RDKafkaLogLevel::Notice,
            6 => RDKafkaLogLevel::Info,
            _ => RDKafkaLogLevel::Debug,
        };
        self.consumer.context().log(level, &facility, &message);
    }

    /// The one copy of a topic's name. A consumer reads few topics, so they are looked for one by one.
    fn shared(&mut self, topic: &str) -> Arc<str> {
        if let Some(known) = self.topics.iter().find(|known| ***known == *topic) {
            return Arc::clone(known);
        }
        let new: Arc<str> = Arc::from(topic);
        self.topics.push(Arc::clone(&new));
        new
    }
}

impl<C: ConsumerContext> Drop for EventConsumer<C> {
    fn drop(&mut self) {
        // Once closed, the group is down and answers nothing.
        if !self.consumer.closed() {
            self.give_up();
        }
    }
}

fn headers_of(message: &sys::rd_kafka_message_t, pieces: &mut Pieces) -> Vec<Header> {
    let mut list = ptr::null_mut();
    // SAFETY: the message is alive, and the list that is written to the place belongs to it. Anything but success says that there are
    // none, or that they cannot be parsed, which librdkafka logs.
    if unsafe { sys::rd_kafka_message_headers(message, &mut list) }.is_error() {
        return Vec::new();
    }
    // SAFETY: the list lives as long as the message.
    let count = unsafe { sys::rd_kafka_header_cnt(list) };
    let mut headers = Vec::with_capacity(count);
    loop {
        let (mut name, mut value, mut len) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the list lives as long as the message; an index past its end is answered with an error.
        let found = unsafe {
            sys::rd_kafka_header_get_all(list, headers.len(), &mut name, &mut value, &mut len)
        };
        if found.is_error() {
            return headers;
        }
        // SAFETY: the name is a string, and the value null or `len` bytes, that live as long as the message.
        let (name, value) = unsafe { (bytes_of(name), bytes_at(value, len)) };
        headers.push(pieces.header(name, value));
    }
}

fn timestamp_of(message: &sys::rd_kafka_message_t) -> Timestamp {
    let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
    // SAFETY: the message is alive, and the place is written with one of the enumeration's values.
    let millis = unsafe { sys::rd_kafka_message_timestamp(message, &mut kind) };
    match kind {
        sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_CREATE_TIME if millis >= 0 => {
            Timestamp::CreateTime(millis)
        }
        sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME if millis >= 0 => {
            Timestamp::LogAppendTime(millis)
        }
        _ => Timestamp::NotAvailable,
    }
}

/// How long a part of a record may be that lies in one piece of memory with others.
const SMALL: usize = 4096;

/// How much memory is asked for at once. A record that is kept keeps the piece that it lies in.
const PIECE: usize = 16 << 10;

/// Memory that the parts of records are copied to. Records come by the hundred thousand, and asking for memory part by part, or record by record,
/// takes longer than the copying.
#[derive(Debug, Default)]
struct Pieces(BytesMut);

impl Pieces {
    fn copy(&mut self, part: &[u8]) -> Bytes {
        if part.is_empty() {
            return Bytes::new();
        }
        if part.len() > SMALL {
            return Bytes::copy_from_slice(part);
        }
        if self.0.capacity() < part.len() {
            self.0 = BytesMut::with_capacity(PIECE);
        }
        self.0.extend_from_slice(part);
        self.0.split().freeze()
    }

    fn header(&mut self, name: &[u8], value: Option<&[u8]>) -> Header {
        Header {
            name: match Self::known(name) {
                Some(name) => Bytes::from_static(name.as_bytes()),
                None => self.copy(name),
            },
            value: value.map(|value| self.copy(value)),
        }
    }

    /// The protocol's own names, which nearly every record has.
    fn known(name: &[u8]) -> Option<&'static str> {
        [CLOCK_HEADER, SENDER_HEADER, SEQUENCE_HEADER]
            .into_iter()
            .find(|known| known.as_bytes() == name)
    }
}

/// `len` bytes; `None` for null.
///
/// # Safety
///
/// `bytes` is null or points to `len` bytes that can be read for `'a`.
unsafe fn bytes_at<'a>(bytes: *const c_void, len: usize) -> Option<&'a [u8]> {
    if bytes.is_null() {
        return None;
    }
    // SAFETY: by the caller's promise.
    Some(unsafe { slice::from_raw_parts(bytes.cast::<u8>(), len) })
}

#[cfg(test)]
mod tests {
    use rdkafka::config::ClientConfig;

    use super::*;

    #[test]
    fn a_consumer_without_a_group_is_refused() {
        let consumer: BaseConsumer = ClientConfig::new().create().unwrap();
        let refused = EventConsumer::new(consumer);
        assert!(
            matches!(refused, Err(KafkaError::ClientCreation(_))),
            "{refused:?}"
        );
    }

    /// Small parts share memory, large ones do not; the end of a piece is met at every place.
    #[test]
    fn the_parts_of_a_record_are_copied_as_they_are() {
        let mut pieces = Pieces::default();
        let part = |len: usize| (0..len).map(|at| (at + len) as u8).collect::<Vec<u8>>();
        let lengths = (0..200).chain([SMALL - 1, SMALL, SMALL + 1, PIECE, PIECE + 1, 0, 1]);
        let parts: Vec<Vec<u8>> = lengths.map(part).collect();
        let copies: Vec<Bytes> = parts.iter().map(|part| pieces.copy(part)).collect();
        assert_eq!(copies, parts);
    }

    #[test]
    fn headers_are_copied_as_they_are() {
        let mut pieces = Pieces::default();
        let names = ["", "a", CLOCK_HEADER, SENDER_HEADER, SEQUENCE_HEADER, "vc-"];
        for name in names {
            for value in [None, Some(&b""[..]), Some(b"value")] {
                let copied = pieces.header(name.as_bytes(), value);
                assert_eq!(copied.name, name.as_bytes());
                assert_eq!(copied.value.as_deref(), value);
            }
        }
    }

    #[test]
    fn a_poll_with_nothing_to_tell_ends() {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("group.id", "nobody")
            .create()
            .unwrap();
        let mut consumer = EventConsumer::new(consumer).unwrap();
        assert_eq!(consumer.poll(Duration::ZERO), None);
    }
}
