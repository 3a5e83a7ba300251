//! Where logic puts what it emits. An outbox only collects: nothing leaves before the host hands it to the log.

use std::sync::Arc;

use bytes::Bytes;
use parsley_core::{Channel, Header, TopicId, wire};

use crate::codec::EncodeError;
use crate::partition::partition_of;
use crate::topic::{DeclaredTopic, Topic};
use crate::{BoxError, Outcome};

/// Why an emission was not taken. The step fails for it whatever the logic does with the error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The stage does not declare the topic as a sink, or declares it with other codecs. Guard G5, `vc-undeclared-sink`.
    #[error("the stage does not declare {topic}, with these codecs, as a sink")]
    UndeclaredSink {
        /// The topic's name.
        topic: Arc<str>,
    },
    /// A header's name is `vc` or starts with `vc-`. Guard G14, `vc-reserved-header`.
    #[error(
        "the header {header} on an emission to {topic} has a name that is reserved for the protocol"
    )]
    ReservedHeader {
        /// The topic's name.
        topic: Arc<str>,
        /// The header's name.
        header: String,
    },
    /// The key has no bytes.
    #[error("the key of an emission to {topic} does not encode: {error}")]
    Key {
        /// The topic's name.
        topic: Arc<str>,
        /// What the codec said.
        #[source]
        error: EncodeError,
    },
    /// The value has no bytes.
    #[error("the value of an emission to {topic} does not encode: {error}")]
    Value {
        /// The topic's name.
        topic: Arc<str>,
        /// What the codec said.
        #[source]
        error: EncodeError,
    },
}

/// A sink as a task knows it.
pub(crate) struct Sink {
    pub(crate) declared: Arc<DeclaredTopic>,
    pub(crate) id: TopicId,
    pub(crate) partitions: i32,
}

/// A collected emission, its partition chosen.
#[derive(Debug)]
pub(crate) struct Emission {
    pub(crate) topic: Arc<str>,
    pub(crate) channel: Channel,
    pub(crate) key: Option<Bytes>,
    pub(crate) value: Option<Bytes>,
    pub(crate) timestamp_ms: i64,
    pub(crate) headers: Vec<Header>,
}

/// Collects what the logic emits for one delivery, in order.
///
/// An emission that cannot be taken (see [`SendError`]) fails the step even when the logic ignores the error.
pub struct Outbox {
    /// In name order.
    sinks: Vec<Sink>,
    timestamp_ms: i64,
    emissions: Vec<Emission>,
    failure: Option<SendError>,
}

impl Outbox {
    pub(crate) fn new(mut sinks: Vec<Sink>) -> Self {
        sinks.sort_by(|a, b| a.declared.name.cmp(&b.declared.name));
        Self {
            sinks,
            timestamp_ms: 0,
            emissions: Vec::new(),
            failure: None,
        }
    }

    /// The emissions that follow are those of a delivery with this timestamp.
    pub(crate) fn begin_delivery(&mut self, timestamp_ms: i64) {
        self.timestamp_ms = timestamp_ms;
    }

    /// Takes out what the delivery emitted, or the first failure.
    pub(crate) fn take_emissions(&mut self) -> Result<Vec<Emission>, SendError> {
        let emissions = std::mem::take(&mut self.emissions);
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(emissions),
        }
    }

    /// Takes back the memory of what was taken.
    pub(crate) fn take_back(&mut self, emissions: Vec<Emission>) {
        if self.emissions.is_empty() {
            self.emissions = emissions;
        }
    }

    /// Emits a record with the delivered record's timestamp and no headers.
    ///
    /// The partition is the one that Java producers choose for the key's bytes; a null key goes to partition 0.
    ///
    /// # Errors
    ///
    /// A [`SendError`] in a box, so that a handler can end with this call.
    pub fn send<K, V>(&mut self, topic: &Topic<K, V>, key: &K, value: &V) -> Outcome {
        self.to(topic).send(key, value)
    }

    /// Starts an emission that sets its timestamp or has headers; [`To::send`] ends it.
    pub fn to<'a, K, V>(&'a mut self, topic: &'a Topic<K, V>) -> To<'a, K, V> {
        let timestamp_ms = self.timestamp_ms;
        To {
            outbox: self,
            topic,
            timestamp_ms,
            headers: Vec::new(),
        }
    }

    fn sink(&self, declared: &Arc<DeclaredTopic>) -> Option<&Sink> {
        let index = self
            .sinks
            .binary_search_by(|sink| sink.declared.name.cmp(&declared.name))
            .ok()?;
        let sink = &self.sinks[index];
        (Arc::ptr_eq(&sink.declared, declared) || sink.declared == *declared).then_some(sink)
    }

    fn collect<K, V>(
        &mut self,
        topic: &Topic<K, V>,
        key: &K,
        value: &V,
        timestamp_ms: i64,
        headers: Vec<Header>,
    ) -> Result<(), SendError> {
        let name = &topic.declared().name;
        let sink = self
            .sink(topic.declared())
            .ok_or_else(|| SendError::UndeclaredSink {
                topic: Arc::clone(name),
            })?;
        if let Some(header) = headers
            .iter()
            .find(|header| wire::is_reserved(&header.name))
        {
            let header = String::from_utf8_lossy(&header.name).into_owned();
            return Err(SendError::ReservedHeader {
                topic: Arc::clone(name),
                header,
            });
        }
        let key = topic.key().encode(key).map_err(|error| SendError::Key {
            topic: Arc::clone(name),
            error,
        })?;
        let value = topic
            .value()
            .encode(value)
            .map_err(|error| SendError::Value {
                topic: Arc::clone(name),
                error,
            })?;
        let channel = sink
            .id
            .partition(partition_of(key.as_deref(), sink.partitions));
        let topic = Arc::clone(&sink.declared.name);
        self.emissions.push(Emission {
            topic,
            channel,
            key,
            value,
            timestamp_ms,
            headers,
        });
        Ok(())
    }
}

/// An emission being put together. Nothing is emitted before [`To::send`].
#[must_use = "nothing is emitted before `send`"]
pub struct To<'a, K, V> {
    outbox: &'a mut Outbox,
    topic: &'a Topic<K, V>,
    timestamp_ms: i64,
    headers: Vec<Header>,
}

impl<K, V> To<'_, K, V> {
    /// Sets the timestamp, in milliseconds since the Unix epoch.
    pub fn timestamp(mut self, timestamp_ms: i64) -> Self {
        self.timestamp_ms = timestamp_ms;
        self
    }

    /// Adds a header behind those already there. A name may occur more than once; `vc` and names that start with `vc-` are refused.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Bytes>) -> Self {
        self.headers.push(Header::new(name.into(), value));
        self
    }

    /// Adds a header whose value is null.
    pub fn null_header(mut self, name: impl Into<String>) -> Self {
        self.headers.push(Header::null(name.into()));
        self
    }

    /// Adds headers behind those already there, such as all of the delivered message's: `.headers(&message.headers)`.
    pub fn headers<'h>(mut self, headers: impl IntoIterator<Item = &'h Header>) -> Self {
        self.headers.extend(headers.into_iter().cloned());
        self
    }

    /// Emits the record.
    ///
    /// # Errors
    ///
    /// A [`SendError`] in a box, as for [`Outbox::send`]; after one, every later emission of the delivery gives the same.
    pub fn send(self, key: &K, value: &V) -> Outcome {
        let Self {
            outbox,
            topic,
            timestamp_ms,
            headers,
        } = self;
        if outbox.failure.is_none() {
            outbox.failure = outbox
                .collect(topic, key, value, timestamp_ms, headers)
                .err();
        }
        match &outbox.failure {
            None => Ok(()),
            Some(failure) => Err(BoxError::from(failure.clone())),
        }
    }
}
