//! Plain producers and consumers outside of any stage: what they have seen, carried along, and claimed by what they send
//! (`docs/protocol.md`, Edge clients).
//!
//! A service that reads a topic and then writes to another one is a cause of what it writes, and stages know that only if its records say so.
//! A [`CausalClock`] is what the service has seen: it [observes](CausalClock::observe) the records consumed, takes up where the records
//! produced were [acknowledged](CausalClock::record_produced), and [stamps](CausalClock::stamp) what is produced next.
//!
//! ```
//! use parsley_core::TopicId;
//! use parsley_stage::CausalClock;
//!
//! let (orders, payments) = (TopicId::of_name("orders"), TopicId::of_name("payments"));
//!
//! // A client places an order; the broker acknowledged it at offset 41.
//! let mut seen = CausalClock::new();
//! seen.record_produced(orders, 3, 41)?;
//!
//! // The payment that follows says so, and no stage that consumes both is handed it before the order.
//! let mut headers = Vec::new();
//! seen.stamp(&mut headers)?;
//!
//! // Another client that reads the payment has the order behind it as well.
//! let mut reader = CausalClock::new();
//! reader.observe(payments.partition(0), 7, &headers)?;
//! assert_eq!(reader.claims().offset(orders.partition(3)), Some(41));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Such a client claims by offset, and only what it was told of: it sends neither `vc-sender` nor `vc-seq`, which belong to stages. It
//! is not held to any order itself: what it reads, it reads as its topic has it.
//!
//! # Tokens
//!
//! A service with many clients keeps a clock for each, or hands it out: [`CausalClock::to_bytes`] is the token, which the client brings along with
//! the next request. What comes back from outside goes through [`CausalClock::from_untrusted`], and the module [`token`] says why.
//! [`CausalClock::is_covered_by`] tells whether a stage has been delivered all of it: read-your-writes. Between services that trust each other
//! [`CausalClock::from_bytes`] will do, and [`CausalClock::merge`] makes one of two.

mod coverage;
mod error;
pub mod token;

#[cfg(test)]
mod tests;

use parsley_core::wire::{self, CLOCK_HEADER, CorruptClock, CorruptHeaders, ProtocolHeaders};
use parsley_core::{Channel, Clock, Header, NodeLimits, Offset, Record, TopicId};

pub use error::{ObserveError, ProducedError, StampError};

/// What a client outside of the stages has seen: the records it consumed and produced, and all that these depend on.
///
/// It only grows, by a maximum for each channel, so that the order in which things are observed does not matter, and observing twice does no
/// harm. Its size is one entry for each partition of each topic that it or its causes ever touched: 28 bytes each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CausalClock {
    claims: Clock,
}

impl CausalClock {
    /// A clock of a client that has seen nothing.
    pub const fn new() -> Self {
        Self {
            claims: Clock::new(),
        }
    }

    /// What it claims.
    pub fn claims(&self) -> &Clock {
        &self.claims
    }

    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Takes up a consumed record: what its clock claims, and the record itself. `headers` are all that it came with.
    ///
    /// # Errors
    ///
    /// When the record's place is none, or its protocol headers cannot be read; the same bytes stop a stage (guards G1, G2, G13). Nothing is
    /// taken up then: a clock that cannot be read is never read as an empty one. A client that goes on regardless, and sends, claims too little
    /// of what it has seen.
    pub fn observe(
        &mut self,
        channel: Channel,
        offset: Offset,
        headers: &[Header],
    ) -> Result<(), ObserveError> {
        if channel.partition < 0 || offset < 0 {
            return Err(ObserveError::NoPlace { channel, offset });
        }
        let corrupt = |why: CorruptHeaders| ObserveError::Corrupt {
            channel,
            offset,
            why,
        };
        let protocol = ProtocolHeaders::read(headers).map_err(corrupt)?;
        if let Some(bytes) = &protocol.clock {
            let budget = budget();
            if bytes.len() > budget {
                return Err(ObserveError::TooWide {
                    channel,
                    offset,
                    found: bytes.len(),
                    budget,
                });
            }
            let clock = wire::decode(bytes).map_err(|why| corrupt(why.into()))?;
            self.claims.merge(&clock.into_clock());
        }
        self.claims.claim_offset(channel, offset);
        Ok(())
    }

    /// [`CausalClock::observe`] of a record that was read with its headers.
    ///
    /// # Errors
    ///
    /// As [`CausalClock::observe`].
    pub fn observe_record(&mut self, record: &Record) -> Result<(), ObserveError> {
        self.observe(record.channel, record.offset, &record.headers)
    }

    /// Takes up a record that was produced, once it is acknowledged with its offset. Not before: a claim on what may never be appended has every
    /// consumer wait for it (duty H7).
    ///
    /// A producer in a transaction takes up what it sends in it like any other record; aborted, they are offsets that never come, which is
    /// how consumers take them.
    ///
    /// # Errors
    ///
    /// When the partition or the offset is negative: a client without acknowledgements (`acks=0`) is told -1, or -1001 by librdkafka.
    /// Nothing is taken up then.
    pub fn record_produced(
        &mut self,
        topic: TopicId,
        partition: i32,
        offset: Offset,
    ) -> Result<(), ProducedError> {
        let channel = topic.partition(partition);
        if partition < 0 || offset < 0 {
            return Err(ProducedError { channel, offset });
        }
        self.claims.claim_offset(channel, offset);
        Ok(())
    }

    /// Adds the header `vc` to those of a record that is to be produced. A client that has seen nothing claims nothing, and adds none.
    ///
    /// # Errors
    ///
    /// When there is a header of a reserved name already (`vc`, or one that begins with `vc-`). They are a consumed record's, and copied: its
    /// claims are not this client's before it [observed](CausalClock::observe) it, and its sender and sequence never are. Copy headers without those
    /// that [`wire::is_reserved`] names. And when the clock is wider than the metadata budget of nodes (default 256 KiB), as it would
    /// stop every stage that is fed it (guard G13). The headers are as they were then.
    pub fn stamp(&self, headers: &mut Vec<Header>) -> Result<(), StampError> {
        if let Some(reserved) = headers
            .iter()
            .find(|header| wire::is_reserved(&header.name))
        {
            let name = String::from_utf8_lossy(&reserved.name).into_owned();
            return Err(StampError::Reserved { name });
        }
        headers.extend(self.header()?);
        Ok(())
    }

    /// The header that [`CausalClock::stamp`] adds; `None` for a client that has seen nothing.
    ///
    /// # Errors
    ///
    /// When the clock is wider than the metadata budget of nodes.
    pub fn header(&self) -> Result<Option<Header>, StampError> {
        if self.is_empty() {
            return Ok(None);
        }
        let (found, budget) = (self.encoded_len(), budget());
        if found > budget {
            return Err(StampError::TooWide { found, budget });
        }
        Ok(Some(Header::new(CLOCK_HEADER, self.to_bytes())))
    }

    /// The clock as bytes, to be carried along: opaque, in the version that their first byte names. Equal clocks give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        wire::encode(&self.claims)
    }

    /// How many bytes [`CausalClock::to_bytes`] gives.
    pub fn encoded_len(&self) -> usize {
        wire::encoded_len(self.claims.offsets().len(), self.claims.sequences().len())
    }

    /// A clock from bytes that were given by [`CausalClock::to_bytes`] and were in trusted hands since. Others go through
    /// [`CausalClock::from_untrusted`].
    ///
    /// # Errors
    ///
    /// When the bytes are no clock of a known version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CorruptClock> {
        let claims = wire::decode(bytes)?.into_clock();
        Ok(Self { claims })
    }

    /// Takes up what another client has seen. Returns whether that was news.
    pub fn merge(&mut self, other: &Self) -> bool {
        self.claims.merge(&other.claims)
    }

    /// Whether all that another client has seen, this one has seen too.
    pub fn dominates(&self, other: &Self) -> bool {
        self.claims.dominates(&other.claims)
    }

    /// Turns claims by sequence into claims by offset. Stages make the former where an acknowledgement came without an offset, which is
    /// seldom; a clock has them of records observed. `end` is the high watermark of a channel, asked for after the clock had them: what they
    /// name lies below it (`docs/protocol.md`, Watermark evidence). `None` leaves the claim. Returns whether anything changed.
    pub fn resolve_sequences(&mut self, mut end: impl FnMut(Channel) -> Option<Offset>) -> bool {
        self.claims.resolve_sequences(|claim| {
            let below = end(claim.channel)?.checked_sub(1)?;
            (below >= 0).then_some(below)
        })
    }

    /// Drops every claim on a topic. Sound for a topic that is definitively gone, made again under the same name or not, and for no other. Returns
    /// whether there was any.
    pub fn forget_topic(&mut self, topic: TopicId) -> bool {
        self.claims.drop_topic(topic)
    }
}

/// The metadata budget that nodes have unless they are told otherwise.
fn budget() -> usize {
    NodeLimits::default().clock_budget_bytes
}
