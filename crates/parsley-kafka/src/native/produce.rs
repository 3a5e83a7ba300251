//! Handing records to a producer.
//!
//! `rdkafka` copies the topic's name and the headers' names into strings of their own for each record, and has the topic looked up by its
//! name. Here the topic is held, and what lies in memory is passed as it lies there.

use std::ffi::{CString, c_void};
use std::ptr;

use parsley_core::Header;
use rdkafka::error::IsError;
use rdkafka::producer::{BaseProducer, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka_sys as sys;

use super::Owned;

/// A topic of a producer. It is to be dropped before the producer.
pub(crate) struct ProducerTopic(Owned<sys::rd_kafka_topic_t>);

// SAFETY: librdkafka's topics may be used and released from any thread.
unsafe impl Send for ProducerTopic {}

/// A record to be handed over.
pub(crate) struct Outgoing<'a> {
    pub(crate) partition: i32,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    /// `None` is the time at which it is handed over.
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) headers: &'a [Header],
    /// What its report is told by.
    pub(crate) tag: usize,
}

/// A topic that records are to be handed over for; `None` when its name is none, or librdkafka has no memory.
pub(crate) fn topic<C: ProducerContext>(
    producer: &BaseProducer<C>,
    name: &str,
) -> Option<ProducerTopic> {
    let name = CString::new(name).ok()?;
    // SAFETY: the client is alive, and copies the name. What is returned is ours to release, or null.
    let topic = unsafe {
        Owned::new(
            sys::rd_kafka_topic_new(
                producer.client().native_ptr(),
                name.as_ptr(),
                ptr::null_mut(),
            ),
            sys::rd_kafka_topic_destroy,
        )
    };
    topic.map(ProducerTopic)
}

/// Hands a record to the producer, which copies it. Its report comes with the tag.
///
/// # Errors
///
/// librdkafka's code; the record is not taken then.
pub(crate) fn hand_over<C: ProducerContext<DeliveryOpaque = usize>>(
    producer: &BaseProducer<C>,
    topic: &ProducerTopic,
    record: &Outgoing<'_>,
) -> Result<(), RDKafkaErrorCode> {
    let headers = match record.headers {
        [] => None,
        headers => Some(headers_of(headers)?),
    };
    let (key, key_len) = parts_of(record.key);
    let (value, value_len) = parts_of(record.value);
    let list = headers.as_ref().map_or(ptr::null_mut(), Owned::as_ptr);
    // SAFETY: client and topic are alive, and the topic is the client's. Each tag is followed by what librdkafka reads behind it. Key and value
    // are null or as long as they say, and are copied. The headers are taken over when the record is, and remain ours when not.
    let outcome = unsafe {
        sys::rd_kafka_producev(
            producer.client().native_ptr(),
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_RKT,
            topic.0.as_ptr(),
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_PARTITION,
            record.partition,
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_MSGFLAGS,
            sys::RD_KAFKA_MSG_F_COPY,
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_VALUE,
            value,
            value_len,
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_KEY,
            key,
            key_len,
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_OPAQUE,
            // As `rdkafka` reads it back.
            record.tag as *mut c_void,
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_TIMESTAMP,
            record.timestamp_ms.unwrap_or(0),
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_HEADERS,
            list,
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_END,
        )
    };
    if outcome.is_error() {
        return Err(outcome.into());
    }
    if let Some(headers) = headers {
        headers.leave();
    }
    Ok(())
}

type Headers = Owned<sys::rd_kafka_headers_t>;

fn headers_of(headers: &[Header]) -> Result<Headers, RDKafkaErrorCode> {
    // SAFETY: what is returned is ours to release, or null.
    let list = unsafe {
        Owned::new(
            sys::rd_kafka_headers_new(headers.len()),
            sys::rd_kafka_headers_destroy,
        )
    };
    let list = list.ok_or(RDKafkaErrorCode::Fail)?;
    for header in headers {
        let (value, value_len) = parts_of(header.value.as_deref());
        // A length of -1 would have a value measured as a string.
        let (Ok(name_len), Ok(value_len)) = (
            isize::try_from(header.name.len()),
            isize::try_from(value_len),
        ) else {
            return Err(RDKafkaErrorCode::MessageSizeTooLarge);
        };
        // SAFETY: the list is alive; name and value are as long as they say, or null, and are copied.
        let added = unsafe {
            sys::rd_kafka_header_add(
                list.as_ptr(),
                header.name.as_ptr().cast(),
                name_len,
                value,
                value_len,
            )
        };
        if added.is_error() {
            return Err(added.into());
        }
    }
    Ok(list)
}

/// Where bytes lie, and how many there are; null for none.
fn parts_of(bytes: Option<&[u8]>) -> (*mut c_void, usize) {
    match bytes {
        // librdkafka reads what is here, and does not write to it.
        Some(bytes) => (bytes.as_ptr().cast_mut().cast(), bytes.len()),
        None => (ptr::null_mut(), 0),
    }
}
