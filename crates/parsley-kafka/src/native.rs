//! The one module that calls librdkafka directly.
//!
//! Everything that leaves it is owned and safe. Three rules keep it so: a pointer that librdkafka hands over for release sits in an
//! [`Owned`] from its first moment on; what hangs on an event is copied before the event is released; and a client outlives every
//! queue and event of it, because the queue's holder holds the client.
#![allow(unsafe_code)]

mod describe;
mod headers;
mod hurry;
mod membership;
mod poll;
mod produce;

use std::borrow::Cow;
use std::ffi::{CStr, c_char};
use std::ptr::NonNull;

use rdkafka::error::IsError;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka_sys as sys;

pub use describe::describe_topics;
pub(crate) use describe::{describe_topics_on, permitted};
pub use headers::NativeHeaders;
pub(crate) use headers::protocol_headers;
pub(crate) use hurry::hurry;
pub(crate) use membership::membership;
pub use poll::EventConsumer;
pub(crate) use produce::{Outgoing, ProducerTopic, hand_over, topic};

/// A pointer that is ours to release, and the function that releases it.
struct Owned<T> {
    pointer: NonNull<T>,
    release: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    /// Takes over `pointer`; `None` when it is null.
    ///
    /// # Safety
    ///
    /// A `pointer` that is not null is valid, nothing else releases it, and `release` is librdkafka's function for what it points to.
    unsafe fn new(pointer: *mut T, release: unsafe extern "C" fn(*mut T)) -> Option<Self> {
        NonNull::new(pointer).map(|pointer| Self { pointer, release })
    }

    fn as_ptr(&self) -> *mut T {
        self.pointer.as_ptr()
    }

    /// Leaves the object to somebody who releases it.
    fn leave(self) {
        std::mem::forget(self);
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: `new` was promised that the pointer is valid, ours alone, and of the kind that this function releases.
        unsafe { (self.release)(self.pointer.as_ptr()) }
    }
}

type Event = Owned<sys::rd_kafka_event_t>;
type Queue = Owned<sys::rd_kafka_queue_t>;

/// The error of an event; `None` when it has none.
fn error_of(event: &Event) -> Option<RDKafkaErrorCode> {
    // SAFETY: the event is alive while `event` is.
    let code = unsafe { sys::rd_kafka_event_error(event.as_ptr()) };
    code.is_error().then(|| code.into())
}

/// The bytes of a C string; none for null.
///
/// # Safety
///
/// `string` is null or a string that lives for `'a`.
unsafe fn bytes_of<'a>(string: *const c_char) -> &'a [u8] {
    // SAFETY: by the caller's promise.
    if string.is_null() {
        &[]
    } else {
        unsafe { CStr::from_ptr(string) }.to_bytes()
    }
}

/// The text of a C string, with what is not UTF-8 replaced; empty for null.
///
/// # Safety
///
/// `string` is null or a string that lives for `'a`.
unsafe fn text_of<'a>(string: *const c_char) -> Cow<'a, str> {
    // SAFETY: by the caller's promise.
    String::from_utf8_lossy(unsafe { bytes_of(string) })
}
