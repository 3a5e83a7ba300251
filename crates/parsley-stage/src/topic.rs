//! Topics: a name, and how keys and values are written on it.

use std::fmt;
use std::sync::Arc;

use parsley_core::{Channel, Offset, Record};

use crate::codec::{Codec, CodecId, EncodeError, Rewrite};

/// A topic whose records have keys of type `K` and values of type `V`. Cheap to clone; logic captures a clone of each sink it sends to.
///
/// ```
/// use parsley_stage::{Topic, codec};
///
/// let visits: Topic<String, u64> = Topic::new("visits", codec::string(), codec::u64());
/// assert_eq!(visits.name(), "visits");
/// ```
pub struct Topic<K, V> {
    declared: Arc<DeclaredTopic>,
    key: Codec<K>,
    value: Codec<V>,
}

/// What is left of a topic when its types are erased.
pub(crate) struct DeclaredTopic {
    pub(crate) name: Arc<str>,
    pub(crate) key: CodecId,
    pub(crate) value: CodecId,
    pub(crate) keys: Arc<dyn Rewrite>,
    pub(crate) values: Arc<dyn Rewrite>,
}

/// A topic is its name and its codecs (decision T3).
impl PartialEq for DeclaredTopic {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.key == other.key && self.value == other.value
    }
}

impl Eq for DeclaredTopic {}

impl<K: 'static, V: 'static> Topic<K, V> {
    /// A topic of this name. The name is checked when a stage that uses the topic is built.
    pub fn new(name: impl Into<Arc<str>>, key: Codec<K>, value: Codec<V>) -> Self {
        let declared = DeclaredTopic {
            name: name.into(),
            key: key.id().clone(),
            value: value.id().clone(),
            keys: Arc::new(key.clone()),
            values: Arc::new(value.clone()),
        };
        Self {
            declared: Arc::new(declared),
            key,
            value,
        }
    }
}

impl<K, V> Topic<K, V> {
    /// The name.
    pub fn name(&self) -> &str {
        &self.declared.name
    }

    /// The codec of keys.
    pub fn key(&self) -> &Codec<K> {
        &self.key
    }

    /// The codec of values.
    pub fn value(&self) -> &Codec<V> {
        &self.value
    }

    /// A record of this topic without headers and with timestamp 0, as a producer outside of the application would write it.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] when the key or the value has no bytes.
    pub fn record(
        &self,
        channel: Channel,
        offset: Offset,
        key: &K,
        value: &V,
    ) -> Result<Record, EncodeError> {
        let (key, value) = (self.key.encode(key)?, self.value.encode(value)?);
        Ok(Record {
            channel,
            offset,
            timestamp_ms: 0,
            key,
            value,
            headers: Vec::new(),
        })
    }

    pub(crate) fn declared(&self) -> &Arc<DeclaredTopic> {
        &self.declared
    }
}

impl<K, V> Clone for Topic<K, V> {
    fn clone(&self) -> Self {
        Self {
            declared: Arc::clone(&self.declared),
            key: self.key.clone(),
            value: self.value.clone(),
        }
    }
}

impl<K, V> fmt::Debug for Topic<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic")
            .field("name", &self.declared.name)
            .field("key", &self.key)
            .field("value", &self.value)
            .finish()
    }
}
