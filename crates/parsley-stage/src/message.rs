//! What logic is given: one delivered record, decoded.

use std::sync::Arc;

use parsley_core::{Header, Offset};

/// A delivered record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<K, V> {
    /// The key.
    pub key: K,
    /// The value.
    pub value: V,
    /// Milliseconds since the Unix epoch, as the record carries them. Nothing about the order of delivery depends on it.
    pub timestamp_ms: i64,
    /// The application's headers, in the record's order. The protocol's own never show here.
    pub headers: Vec<Header>,
    /// The topic it was read from.
    pub topic: Arc<str>,
    /// The partition it was read from.
    pub partition: i32,
    /// Its offset there.
    pub offset: Offset,
}

impl<K, V> Message<K, V> {
    /// The value of the last header of this name; `None` where there is none, or where it is null.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let last = self
            .headers
            .iter()
            .rev()
            .find(|header| header.name == name.as_bytes())?;
        last.value.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_header_of_a_name_counts() {
        let message = Message {
            key: (),
            value: (),
            timestamp_ms: 0,
            headers: vec![
                Header::new("a", "1"),
                Header::new("b", "2"),
                Header::new("a", "3"),
                Header::null("c"),
            ],
            topic: "t".into(),
            partition: 0,
            offset: 0,
        };
        assert_eq!(message.header("a"), Some(&b"3"[..]));
        assert_eq!(message.header("b"), Some(&b"2"[..]));
        assert_eq!(message.header("c"), None);
        assert_eq!(message.header("d"), None);
    }
}
