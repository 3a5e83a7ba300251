//! What the cluster says of topics.

use std::ffi::{CStr, CString, c_char, c_int};
use std::slice;
use std::time::Duration;

use rdkafka::client::{Client, ClientContext};
use rdkafka::error::IsError;
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};
use rdkafka_sys as sys;
use uuid::Uuid;

use super::{Owned, error_of, text_of};
use crate::topic::{DescribeError, Permitted, TopicFacts};

/// Asks the cluster for the UUID and the partition count of topics, through any client of it. One answer a topic, in the order of
/// `names`.
///
/// # Errors
///
/// [`DescribeError`], when the request as a whole failed: no broker answered within `timeout`, or a name was malformed or given twice.
pub fn describe_topics<C: ClientContext>(
    client: &Client<C>,
    names: &[&str],
    timeout: Duration,
) -> Result<Vec<Result<TopicFacts, DescribeError>>, DescribeError> {
    let answers = describe(client, None, names, false, timeout)?;
    Ok(answers.into_iter().map(facts_of).collect())
}

/// The same, asked of a broker that the client has heard of.
pub(crate) fn describe_topics_on<C: ClientContext>(
    client: &Client<C>,
    broker: i32,
    names: &[&str],
    timeout: Duration,
) -> Result<Vec<Result<TopicFacts, DescribeError>>, DescribeError> {
    let answers = describe(client, Some(broker), names, false, timeout)?;
    Ok(answers.into_iter().map(facts_of).collect())
}

/// Asks the cluster what this client may do with topics. One answer a topic, in the order of `names`; `None` where the cluster does not tell.
pub(crate) fn permitted<C: ClientContext>(
    client: &Client<C>,
    names: &[&str],
    timeout: Duration,
) -> Result<Vec<Result<Option<Permitted>, DescribeError>>, DescribeError> {
    let answers = describe(client, None, names, true, timeout)?;
    let permitted = |answer: Described| answer.map(|(_, permitted)| permitted);
    Ok(answers.into_iter().map(permitted).collect())
}

/// What the cluster says of a topic, and of what the client may do with it if that was asked and is told.
type Described = Result<(TopicFacts, Option<Permitted>), DescribeError>;

fn facts_of(answer: Described) -> Result<TopicFacts, DescribeError> {
    answer.map(|(facts, _)| facts)
}

fn describe<C: ClientContext>(
    client: &Client<C>,
    broker: Option<i32>,
    names: &[&str],
    with_operations: bool,
    timeout: Duration,
) -> Result<Vec<Described>, DescribeError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let owned_names = names
        .iter()
        .map(|name| {
            CString::new(*name).map_err(|_| DescribeError::Name {
                name: (*name).to_owned(),
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut name_pointers: Vec<*const c_char> =
        owned_names.iter().map(|name| name.as_ptr()).collect();
    let timeout_ms = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
    let rk = client.native_ptr();
    let null = |what: &str| DescribeError::Request {
        code: RDKafkaErrorCode::Fail,
        reason: format!("librdkafka made no {what}"),
    };

    // SAFETY: the client is alive through `client`, the names through `owned_names`, and librdkafka copies them. Each call
    // returns an object that is ours to release.
    let (topics, options, queue) = unsafe {
        (
            Owned::new(
                sys::rd_kafka_TopicCollection_of_topic_names(
                    name_pointers.as_mut_ptr(),
                    name_pointers.len(),
                ),
                sys::rd_kafka_TopicCollection_destroy,
            )
            .ok_or_else(|| null("list of topics"))?,
            Owned::new(
                sys::rd_kafka_AdminOptions_new(
                    rk,
                    sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
                ),
                sys::rd_kafka_AdminOptions_destroy,
            )
            .ok_or_else(|| null("options"))?,
            Owned::new(sys::rd_kafka_queue_new(rk), sys::rd_kafka_queue_destroy)
                .ok_or_else(|| null("queue"))?,
        )
    };
    set_option(
        &options,
        sys::rd_kafka_AdminOptions_set_request_timeout,
        timeout_ms,
    )?;
    if let Some(broker) = broker {
        set_option(&options, sys::rd_kafka_AdminOptions_set_broker, broker)?;
    }
    // SAFETY: the options are alive. The error returned is ours to release; null for none.
    let refused = unsafe {
        Owned::new(
            sys::rd_kafka_AdminOptions_set_include_authorized_operations(
                options.as_ptr(),
                c_int::from(with_operations),
            ),
            sys::rd_kafka_error_destroy,
        )
    };
    if let Some(error) = refused {
        // SAFETY: the error is alive, and the string that it returns lives as long.
        let (code, reason) = unsafe {
            (
                sys::rd_kafka_error_code(error.as_ptr()),
                text_of(sys::rd_kafka_error_string(error.as_ptr())).into_owned(),
            )
        };
        return Err(DescribeError::Request {
            code: code.into(),
            reason,
        });
    }
    // SAFETY: all four are alive; librdkafka copies topics and options and answers on the queue, which it holds a reference to.
    unsafe { sys::rd_kafka_DescribeTopics(rk, topics.as_ptr(), options.as_ptr(), queue.as_ptr()) };
    // SAFETY: the queue is alive. The event returned is ours to release. Without a limit of its own: the request always answers, at
    // the latest with a time-out after `timeout`.
    let event = unsafe {
        Owned::new(
            sys::rd_kafka_queue_poll(queue.as_ptr(), -1),
            sys::rd_kafka_event_destroy,
        )
    };
    let event = event.ok_or_else(|| null("answer"))?;
    if let Some(code) = error_of(&event) {
        // SAFETY: the event is alive, and the string that it returns lives as long.
        let reason =
            unsafe { text_of(sys::rd_kafka_event_error_string(event.as_ptr())) }.into_owned();
        return Err(DescribeError::Request { code, reason });
    }
    // SAFETY: the event is alive; a result, or null for an event of another kind, is part of it.
    let result = unsafe { sys::rd_kafka_event_DescribeTopics_result(event.as_ptr()) };
    if result.is_null() {
        return Err(null("result"));
    }
    let mut count = 0;
    // SAFETY: the result is alive, and the array returned lives as long and has `count` elements; null or 0 for none.
    let described = unsafe {
        let first = sys::rd_kafka_DescribeTopics_result_topics(result, &mut count);
        if first.is_null() {
            &[]
        } else {
            slice::from_raw_parts(first, count)
        }
    };
    // SAFETY: every element is a description that lives as long as the result, which lives as long as `event`.
    let mut answers: Vec<_> = described
        .iter()
        .map(|topic| unsafe { read_description(*topic) })
        .collect();
    // librdkafka answers in its own order.
    answers.sort_by_key(|(name, _)| names.iter().position(|asked| asked == name));
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

/// Sets an option by one of librdkafka's functions that set a number.
fn set_option<N>(
    options: &Owned<sys::rd_kafka_AdminOptions_t>,
    set: unsafe extern "C" fn(
        *mut sys::rd_kafka_AdminOptions_t,
        N,
        *mut c_char,
        usize,
    ) -> RDKafkaRespErr,
    to: N,
) -> Result<(), DescribeError> {
    let mut reason = [0_u8; 512];
    // SAFETY: the options are alive, and the buffer has the length given and is written with a string.
    let outcome = unsafe {
        set(
            options.as_ptr(),
            to,
            reason.as_mut_ptr().cast(),
            reason.len(),
        )
    };
    if outcome.is_error() {
        let reason =
            CStr::from_bytes_until_nul(&reason).map(|reason| reason.to_string_lossy().into_owned());
        return Err(DescribeError::Request {
            code: outcome.into(),
            reason: reason.unwrap_or_default(),
        });
    }
    Ok(())
}

/// A topic's name and what the cluster says of it.
///
/// # Safety
///
/// `topic` is a description that lives through the call.
unsafe fn read_description(topic: *const sys::rd_kafka_TopicDescription_t) -> (String, Described) {
    // SAFETY: by the caller's promise; name, error and UUID are parts of the description and live as long.
    unsafe {
        let name = text_of(sys::rd_kafka_TopicDescription_name(topic)).into_owned();
        let error = sys::rd_kafka_TopicDescription_error(topic);
        let code = if error.is_null() {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR
        } else {
            sys::rd_kafka_error_code(error)
        };
        if code == RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART {
            return (name.clone(), Err(DescribeError::Unknown { name }));
        }
        if code.is_error() {
            let reason = text_of(sys::rd_kafka_error_string(error)).into_owned();
            return (
                name.clone(),
                Err(DescribeError::Topic {
                    name,
                    code: code.into(),
                    reason,
                }),
            );
        }
        let id = sys::rd_kafka_TopicDescription_topic_id(topic);
        let id = if id.is_null() {
            Uuid::nil()
        } else {
            // The bits, not the signs, are what matters.
            Uuid::from_u64_pair(
                sys::rd_kafka_Uuid_most_significant_bits(id).cast_unsigned(),
                sys::rd_kafka_Uuid_least_significant_bits(id).cast_unsigned(),
            )
        };
        if id.is_nil() {
            return (name.clone(), Err(DescribeError::NoUuid { name }));
        }
        let mut partitions = 0;
        sys::rd_kafka_TopicDescription_partitions(topic, &mut partitions);
        (
            name.clone(),
            Ok((
                TopicFacts {
                    name,
                    id,
                    partitions,
                },
                read_permitted(topic),
            )),
        )
    }
}

/// What a description says that the client may do; `None` if it was not asked for, or not told.
///
/// # Safety
///
/// `topic` is a description that lives through the call.
unsafe fn read_permitted(topic: *const sys::rd_kafka_TopicDescription_t) -> Option<Permitted> {
    use sys::rd_kafka_AclOperation_t::{RD_KAFKA_ACL_OPERATION_READ, RD_KAFKA_ACL_OPERATION_WRITE};
    let mut count = 0;
    // SAFETY: by the caller's promise; the array is part of the description, lives as long and has `count` elements; null if it was not asked for or
    // not told, and not to be read where there are none. It is read as what the enumeration is represented by, as a librdkafka that is
    // newer than the bindings may have operations that these do not know.
    let operations: &[u32] = unsafe {
        let first = sys::rd_kafka_TopicDescription_authorized_operations(topic, &mut count);
        match (first.is_null(), count) {
            (true, _) => return None,
            (false, 0) => &[],
            (false, count) => slice::from_raw_parts(first.cast(), count),
        }
    };
    Some(Permitted {
        reads: operations.contains(&(RD_KAFKA_ACL_OPERATION_READ as u32)),
        writes: operations.contains(&(RD_KAFKA_ACL_OPERATION_WRITE as u32)),
    })
}

#[cfg(test)]
mod tests {
    use rdkafka::config::ClientConfig;
    use rdkafka::producer::{BaseProducer, Producer};

    use super::*;

    /// Nothing listens on the discard port of the loopback address.
    fn client_of_nobody() -> BaseProducer {
        ClientConfig::new()
            .set("bootstrap.servers", "127.0.0.1:9")
            .create()
            .unwrap()
    }

    #[test]
    fn a_cluster_that_does_not_answer_fails_the_request() {
        let client = client_of_nobody();
        let failed = describe_topics(client.client(), &["t"], Duration::from_millis(10));
        assert!(
            matches!(failed, Err(DescribeError::Request { .. })),
            "{failed:?}"
        );
    }

    #[test]
    fn no_names_are_answered_without_a_request() {
        assert_eq!(
            describe_topics(client_of_nobody().client(), &[], Duration::ZERO),
            Ok(Vec::new())
        );
    }
}
