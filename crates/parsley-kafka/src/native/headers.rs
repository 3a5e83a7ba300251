//! The protocol's headers of a message that `rdkafka` has read.
//!
//! `rdkafka` panics at a header whose name is not UTF-8, which anybody may write; librdkafka reads it.

use std::ptr;

use bytes::Bytes;
use parsley_core::{Header, wire};
use rdkafka::error::IsError;
use rdkafka::message::{BorrowedHeaders, OwnedHeaders};
use rdkafka_sys as sys;

use super::bytes_of;

/// Headers that librdkafka holds: those of a borrowed message, or of an owned one.
pub trait NativeHeaders: sealed::Sealed {
    /// The same, borrowed.
    #[doc(hidden)]
    fn borrowed(&self) -> &BorrowedHeaders;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::BorrowedHeaders {}
    impl Sealed for super::OwnedHeaders {}
}

impl NativeHeaders for BorrowedHeaders {
    fn borrowed(&self) -> &BorrowedHeaders {
        self
    }
}

impl NativeHeaders for OwnedHeaders {
    fn borrowed(&self) -> &BorrowedHeaders {
        self.as_borrowed()
    }
}

/// Those headers whose names are reserved.
pub(crate) fn protocol_headers(headers: &impl NativeHeaders) -> Vec<Header> {
    // A `BorrowedHeaders` has no size; its address is librdkafka's list, which is how `rdkafka` itself comes by it.
    let list: *const sys::rd_kafka_headers_t = ptr::from_ref(headers.borrowed()).cast();
    let mut found = Vec::new();
    for place in 0.. {
        let (mut name, mut value, mut len) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the list lives as long as `headers`; an index past its end is answered with an error.
        let end =
            unsafe { sys::rd_kafka_header_get_all(list, place, &mut name, &mut value, &mut len) };
        if end.is_error() {
            break;
        }
        // SAFETY: the name is a string that lives as long as the list.
        let name = unsafe { bytes_of(name) };
        if !wire::is_reserved(name) {
            continue;
        }
        let value = (!value.is_null()).then(|| {
            // SAFETY: a value that is not null is `len` bytes that live as long as the list.
            let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len) };
            Bytes::copy_from_slice(bytes)
        });
        found.push(Header {
            name: Bytes::copy_from_slice(name),
            value,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::message::Header as KafkaHeader;

    #[test]
    fn reserved_names_are_read_as_they_are() {
        let mut headers = OwnedHeaders::new();
        for (key, value) in [
            ("trace", Some("7")),
            ("vc", Some("clock")),
            ("vc-sender", None),
            ("vc", Some("")),
        ] {
            headers = headers.insert(KafkaHeader { key, value });
        }
        let expected = [
            Header::new("vc", "clock"),
            Header::null("vc-sender"),
            Header::new("vc", ""),
        ];
        assert_eq!(protocol_headers(&headers), expected);
        assert_eq!(protocol_headers(headers.as_borrowed()), expected);
        assert_eq!(protocol_headers(&OwnedHeaders::new()), []);
    }

    /// `rdkafka` panics here.
    #[test]
    fn a_name_that_is_no_text_is_passed_over() {
        let mut headers = OwnedHeaders::new();
        headers = headers.insert(KafkaHeader {
            key: "trace",
            value: Some("7"),
        });
        let list = ptr::from_ref(headers.as_borrowed()).cast_mut().cast();
        let add = |name: &[u8], value: &[u8]| {
            // SAFETY: the list is alive and this test's alone; name and value have the lengths given, and are copied.
            let added = unsafe {
                sys::rd_kafka_header_add(
                    list,
                    name.as_ptr().cast(),
                    name.len() as isize,
                    value.as_ptr().cast(),
                    value.len() as isize,
                )
            };
            assert!(!added.is_error());
        };
        add(b"\xff\xfe", b"x");
        add(b"vc", b"clock");
        assert_eq!(protocol_headers(&headers), [Header::new("vc", "clock")]);
    }
}
