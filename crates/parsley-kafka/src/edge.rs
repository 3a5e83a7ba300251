//! Plain `rdkafka` producers and consumers beside the stages: what they have seen, and say with what they send
//! (`docs/protocol.md`, Edge clients).
//!
//! [`EdgeTopics`] knows the identities of the topics that a client uses, and fills its [`CausalClock`]:
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use parsley_kafka::EdgeTopics;
//! use parsley_kafka::edge::headers_of;
//! use parsley_stage::CausalClock;
//! use rdkafka::ClientConfig;
//! use rdkafka::consumer::{BaseConsumer, Consumer};
//! use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
//!
//! let mut config = ClientConfig::new();
//! config.set("bootstrap.servers", "localhost:9092").set("group.id", "payer").set("isolation.level", "read_committed");
//! let consumer: BaseConsumer = config.create()?;
//! let producer: BaseProducer = config.create()?;
//! consumer.subscribe(&["quotes"])?;
//!
//! let mut topics = EdgeTopics::resolve(producer.client(), &["quotes", "payments"], Duration::from_secs(10))?;
//! let mut seen = CausalClock::new();
//! while let Some(quote) = consumer.poll(Duration::from_secs(1)) {
//!     topics.observe(&mut seen, &quote?)?;
//!     let payment = BaseRecord::to("payments").key("k").payload("3 coins").headers(headers_of(&seen)?);
//!     producer.send(payment).map_err(|(error, _)| error)?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What was produced is taken up from its delivery report, so that a client's next record comes after this one wherever the two go: with
//! [`EdgeTopics::acknowledged`] in a [`ProducerContext`](rdkafka::producer::ProducerContext), or [`EdgeTopics::produced`] with the partition and offset that a
//! `FutureProducer` returns.
//!
//! # Topics that are made again
//!
//! A topic that is deleted and made again under its name is another topic (decision K1), and a claim on the one that is gone has nobody wait: a client that
//! went on claiming it would lose the order of what it sends, in silence. Clients of librdkafka go on under the name, without a word. What tells, for nothing, is
//! that offsets begin again: at a record that stands at or below one that was taken up before it, [`EdgeError::WentBack`] comes instead of a claim.
//! [`EdgeTopics::verify`] then asks the cluster who is who. Offsets of a partition that nothing was taken up from before tell nothing, and those of a new topic that
//! has grown beyond do not either; so a client that lives on asks from time to time as well, like a host, every 30 seconds by default. Between two answers a
//! claim may be on a topic that is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use parsley_core::{Channel, Offset, TopicId};
use parsley_stage::edge::{ObserveError, ProducedError, StampError};
use parsley_stage::{CausalClock, TopicInfo};
use rdkafka::client::{Client, ClientContext};
use rdkafka::message::{Header as KafkaHeader, Headers, Message, OwnedHeaders};

pub use crate::native::NativeHeaders;
use crate::native::{describe_topics, protocol_headers};
use crate::topic::DescribeError;

/// The topics of a client outside of the stages: their identities, by name.
///
/// One for each consumer or producer: it follows the offsets of each, by which it is told that a topic was made again.
#[derive(Clone, Debug)]
pub struct EdgeTopics {
    topics: BTreeMap<String, TopicInfo>,
    /// The last offset taken up of each partition: consumed, and produced.
    consumed: BTreeMap<Channel, Offset>,
    produced: BTreeMap<Channel, Offset>,
}

/// A record is not taken up by a client's clock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EdgeError {
    /// Its topic was not among those resolved.
    #[error("topic {topic} was not resolved: name it to EdgeTopics::resolve")]
    Unresolved {
        /// The topic.
        topic: String,
    },
    /// It stands at or below one that was taken up before it: the topic was made again, or the client went back by itself.
    #[error(
        "{topic}/{partition} was at offset {last}, and is at {offset} now: ask EdgeTopics::verify whether the topic was made again, and take the record up after that"
    )]
    WentBack {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The record's offset.
        offset: Offset,
        /// The offset of the last record taken up.
        last: Offset,
    },
    /// The record cannot be read.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// The record was acknowledged without an offset.
    #[error(transparent)]
    Produced(#[from] ProducedError),
}

/// The topics of a client are not those that they were.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The cluster did not answer, or does not know a topic any more.
    #[error(transparent)]
    Describe(#[from] DescribeError),
    /// A topic was deleted and made again.
    #[error(
        "topic {topic} was {was} and is {is} now: it was deleted and made again; forget what the clock claims of the former, and resolve the topics anew"
    )]
    MadeAgain {
        /// The topic's name.
        topic: String,
        /// Its identity before.
        was: TopicId,
        /// Its identity now.
        is: TopicId,
    },
}

impl EdgeTopics {
    /// Asks the cluster, through any client of it, for the identities of topics. A name may be given twice.
    ///
    /// # Errors
    ///
    /// When a topic is unknown or denied, or the cluster did not answer within `timeout`. A topic that was just created can be unknown to some broker
    /// for a moment.
    pub fn resolve<C: ClientContext>(
        client: &Client<C>,
        names: &[&str],
        timeout: Duration,
    ) -> Result<Self, DescribeError> {
        Ok(Self {
            topics: described(client, names, timeout)?,
            consumed: BTreeMap::new(),
            produced: BTreeMap::new(),
        })
    }

    /// A topic, if it was resolved.
    pub fn topic(&self, name: &str) -> Option<TopicInfo> {
        self.topics.get(name).copied()
    }

    /// The topics and their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, TopicInfo)> {
        self.topics
            .iter()
            .map(|(name, info)| (name.as_str(), *info))
    }

    /// Takes up a consumed message ([`CausalClock::observe`]).
    ///
    /// # Errors
    ///
    /// When its topic was not resolved, its offset is not above that of the message taken up of its partition before, or its protocol headers cannot be
    /// read. Nothing is taken up then.
    pub fn observe<M: Message>(
        &mut self,
        seen: &mut CausalClock,
        message: &M,
    ) -> Result<(), EdgeError>
    where
        M::Headers: NativeHeaders,
    {
        let (partition, offset) = (message.partition(), message.offset());
        let channel = self.follows(&self.consumed, message.topic(), partition, offset)?;
        let headers = message.headers().map_or_else(Vec::new, protocol_headers);
        seen.observe(channel, offset, &headers)?;
        self.consumed.insert(channel, offset);
        Ok(())
    }

    /// Takes up a message of a delivery report that says it was produced ([`CausalClock::record_produced`]).
    ///
    /// # Errors
    ///
    /// As [`EdgeTopics::produced`].
    pub fn acknowledged(
        &mut self,
        seen: &mut CausalClock,
        message: &impl Message,
    ) -> Result<(), EdgeError> {
        self.produced(seen, message.topic(), message.partition(), message.offset())
    }

    /// Takes up where a produced record was acknowledged. In the order of the reports, which is that of the offsets where a producer is idempotent.
    ///
    /// # Errors
    ///
    /// When the topic was not resolved, the offset is none or is not above that of the record taken up of the partition before. Nothing is taken up then.
    pub fn produced(
        &mut self,
        seen: &mut CausalClock,
        topic: &str,
        partition: i32,
        offset: Offset,
    ) -> Result<(), EdgeError> {
        let channel = self.follows(&self.produced, topic, partition, offset)?;
        seen.record_produced(channel.topic, partition, offset)?;
        self.produced.insert(channel, offset);
        Ok(())
    }

    /// Asks the cluster whether the topics are still those that were resolved. If they are, the offsets of the client may go back once to wherever: it did so by
    /// itself, and what went back can be taken up now.
    ///
    /// # Errors
    ///
    /// When a topic was made again, which is when [`CausalClock::forget_topic`] and a new [`EdgeTopics::resolve`] are due. When the cluster did not answer within
    /// `timeout`, or a topic is gone. Nothing has changed then.
    pub fn verify<C: ClientContext>(
        &mut self,
        client: &Client<C>,
        timeout: Duration,
    ) -> Result<(), VerifyError> {
        let names: Vec<&str> = self.topics.keys().map(String::as_str).collect();
        let found = described(client, &names, timeout)?;
        for (name, was) in &self.topics {
            let is = found.get(name).map_or(was.id, |info| info.id);
            if is != was.id {
                return Err(VerifyError::MadeAgain {
                    topic: name.clone(),
                    was: was.id,
                    is,
                });
            }
        }
        // Partitions may have been added.
        self.topics = found;
        self.consumed.clear();
        self.produced.clear();
        Ok(())
    }

    /// The channel of a record that stands above the last.
    fn follows(
        &self,
        last: &BTreeMap<Channel, Offset>,
        topic: &str,
        partition: i32,
        offset: Offset,
    ) -> Result<Channel, EdgeError> {
        let Some(info) = self.topics.get(topic) else {
            let topic = topic.to_owned();
            return Err(EdgeError::Unresolved { topic });
        };
        let channel = info.id.partition(partition);
        match last.get(&channel) {
            // No offset at all is not one that went back.
            Some(&last) if (0..=last).contains(&offset) => Err(EdgeError::WentBack {
                topic: topic.to_owned(),
                partition,
                offset,
                last,
            }),
            _ => Ok(channel),
        }
    }
}

fn described<C: ClientContext>(
    client: &Client<C>,
    names: &[&str],
    timeout: Duration,
) -> Result<BTreeMap<String, TopicInfo>, DescribeError> {
    let mut unique = names.to_vec();
    unique.sort_unstable();
    unique.dedup();
    let described = describe_topics(client, &unique, timeout)?;
    described
        .into_iter()
        .map(|facts| {
            let facts = facts?;
            let info = TopicInfo {
                id: TopicId::from_uuid(facts.id),
                partitions: i32::try_from(facts.partitions).unwrap_or(i32::MAX),
            };
            Ok((facts.name, info))
        })
        .collect()
}

/// The headers of a record whose producer has seen this: none, or `vc`.
///
/// # Errors
///
/// As [`CausalClock::stamp`].
pub fn headers_of(seen: &CausalClock) -> Result<OwnedHeaders, StampError> {
    stamped(seen, OwnedHeaders::new())
}

/// The same, behind headers of the application.
///
/// # Errors
///
/// As [`CausalClock::stamp`]: among the headers is one of a reserved name, or the clock is too wide.
pub fn stamped(seen: &CausalClock, headers: OwnedHeaders) -> Result<OwnedHeaders, StampError> {
    let is_reserved = |name: &str| parsley_core::wire::is_reserved(name.as_bytes());
    if let Some(reserved) = headers.iter().find(|header| is_reserved(header.key)) {
        let name = reserved.key.to_owned();
        return Err(StampError::Reserved { name });
    }
    Ok(match seen.header()? {
        None => headers,
        Some(header) => headers.insert(KafkaHeader {
            key: parsley_core::wire::CLOCK_HEADER,
            value: header.value.as_deref(),
        }),
    })
}
