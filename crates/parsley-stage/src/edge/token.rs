//! Clocks that come from outside: tokens that a service handed to a client, and that came back, or did not.
//!
//! What a token can do to others, if it is taken as it comes, and what [`CausalClock::from_untrusted`] does about it:
//!
//! | Whoever makes up a token | could | so |
//! |---|---|---|
//! | claims a position that nothing has reached | have every stage hold the record that is stamped with it, and all behind it, until something does: for good | refused where the [end](KnownTopics::end) is known |
//! | claims everything that is there | have his record wait until all of that was delivered | taken: it is bounded by what is there, and is what a client that has seen it all would claim |
//! | claims topics that are not there | widen the clock of every record that comes of his, for good, until nodes stop for its width (G13) | refused: topics and partitions are known, or not |
//! | sends many claims, or many bytes | have memory used before anything is looked at | bounded by [`TokenLimits`] before a byte is read; reading takes memory in proportion to the bytes there are |
//! | sends what is no clock | have nodes stop that are fed it (G1) | refused; nothing of a token is passed on as it came |
//! | claims by sequence | name a send that never was, which no delivery meets | made a claim by offset below the known end, or refused |
//! | claims less than his token did, or nothing | have his own records overtake their causes | not seen: it is his order alone |
//!
//! An end that is not known bounds nothing: such a token may be waited on, with a bound, and must not be stamped into a record. Ends are
//! high watermarks, read *after* the token came: an older one refuses what an honest client has just written, and the last stable
//! offset may lie below that as well.
//!
//! A token is neither secret nor signed. It shows identities of topics, and how much is in them; a service that minds seals it, and a
//! service that signs it still has topics that were made again since. Who waits for a token's coverage bounds the wait, and how
//! many wait at once.

use std::collections::BTreeMap;

use parsley_core::wire::{self, CorruptClock};
use parsley_core::{Channel, Offset, TopicId};

use super::CausalClock;

/// How large a token may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLimits {
    /// Its length in bytes. Default 4,096, which is 145 claims and fits into a header of HTTP.
    pub bytes: usize,
    /// How many claims it may have. Default 145.
    pub claims: usize,
}

impl Default for TokenLimits {
    fn default() -> Self {
        Self {
            bytes: 4096,
            claims: 145,
        }
    }
}

/// The topics that tokens may name, and where their partitions end.
///
/// ```
/// use parsley_core::TopicId;
/// use parsley_stage::CausalClock;
/// use parsley_stage::edge::token::{KnownTopics, TokenError, TokenLimits};
///
/// let orders = TopicId::of_name("orders");
/// let mut known = KnownTopics::new();
/// known.topic(orders, 2).end(orders.partition(0), 42);
///
/// let mut seen = CausalClock::new();
/// seen.record_produced(orders, 0, 41)?;
/// let token = seen.to_bytes();
/// assert_eq!(CausalClock::from_untrusted(&token, TokenLimits::default(), &known)?, seen);
///
/// seen.record_produced(orders, 0, 42)?;
/// let beyond = CausalClock::from_untrusted(&seen.to_bytes(), TokenLimits::default(), &known);
/// assert!(matches!(beyond, Err(TokenError::BeyondEnd { offset: 42, end: 42, .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownTopics {
    partitions: BTreeMap<TopicId, i32>,
    ends: BTreeMap<Channel, Offset>,
}

impl KnownTopics {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a topic and how many partitions it has.
    pub fn topic(&mut self, topic: TopicId, partitions: i32) -> &mut Self {
        self.partitions.insert(topic, partitions);
        self
    }

    /// Sets where a partition ends: its high watermark, one past the last position there is.
    pub fn end(&mut self, channel: Channel, end: Offset) -> &mut Self {
        self.ends.insert(channel, end);
        self
    }

    /// Whether a channel is one of a topic that was added.
    pub fn knows(&self, channel: Channel) -> bool {
        self.check(channel).is_ok()
    }

    /// Where a channel ends, if that was set.
    pub fn end_of(&self, channel: Channel) -> Option<Offset> {
        self.ends.get(&channel).copied()
    }

    fn check(&self, channel: Channel) -> Result<(), TokenError> {
        match self.partitions.get(&channel.topic) {
            None => Err(TokenError::UnknownTopic { channel }),
            Some(&partitions) if channel.partition >= partitions => {
                Err(TokenError::UnknownPartition {
                    channel,
                    partitions,
                })
            }
            Some(_) => Ok(()),
        }
    }
}

/// A token is refused. Whoever brought it has to go on without: he begins anew, and has seen nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is longer than is taken.
    #[error("the token has {found} bytes, and {max} are taken: raise the limit, or begin anew")]
    TooLong {
        /// Its length in bytes.
        found: usize,
        /// The longest taken.
        max: usize,
    },
    /// It has more claims than are taken.
    #[error("the token has {found} claims, and {max} are taken: raise the limit, or begin anew")]
    TooManyClaims {
        /// How many it has.
        found: usize,
        /// The most taken.
        max: usize,
    },
    /// Its bytes are no clock.
    #[error("the token cannot be read: {0}; begin anew")]
    Corrupt(#[from] CorruptClock),
    /// It claims on a topic that is not known: made up, or deleted since.
    #[error("the token claims on {channel}, whose topic is not known here: begin anew")]
    UnknownTopic {
        /// The channel claimed on.
        channel: Channel,
    },
    /// It claims on a partition that a known topic does not have.
    #[error(
        "the token claims on {channel}, and the topic has {partitions} partitions here: learn of those added since, or begin anew"
    )]
    UnknownPartition {
        /// The channel claimed on.
        channel: Channel,
        /// How many partitions the topic has.
        partitions: i32,
    },
    /// It claims a position that is not there yet.
    #[error(
        "the token claims {channel} up to {offset}, and the channel ends at {end}: read the end after the token came, or begin anew"
    )]
    BeyondEnd {
        /// The channel claimed on.
        channel: Channel,
        /// The position claimed.
        offset: Offset,
        /// The channel's end.
        end: Offset,
    },
    /// It claims by sequence on a channel whose end is not known.
    #[error(
        "the token claims on {channel} by the sequence of a sender, and where that ends is not known: say its end, or begin anew"
    )]
    Sequence {
        /// The channel claimed on.
        channel: Channel,
    },
}

impl CausalClock {
    /// A clock from bytes that came from outside: bounded, of known topics alone, and with no claim beyond an end that is known. Claims
    /// by sequence become claims by offset where the end is known; so the result has none.
    ///
    /// # Errors
    ///
    /// [`TokenError`] with the first fault found. Nothing of the token is taken then.
    pub fn from_untrusted(
        bytes: &[u8],
        limits: TokenLimits,
        known: &KnownTopics,
    ) -> Result<Self, TokenError> {
        if bytes.len() > limits.bytes {
            return Err(TokenError::TooLong {
                found: bytes.len(),
                max: limits.bytes,
            });
        }
        let mut claims = wire::decode(bytes)?.into_clock();
        if claims.width() > limits.claims {
            return Err(TokenError::TooManyClaims {
                found: claims.width(),
                max: limits.claims,
            });
        }
        for claim in claims.offsets() {
            let channel = claim.channel;
            known.check(channel)?;
            if let Some(&end) = known.ends.get(&channel)
                && claim.offset >= end
            {
                return Err(TokenError::BeyondEnd {
                    channel,
                    offset: claim.offset,
                    end,
                });
            }
        }
        for claim in claims.sequences() {
            known.check(claim.channel)?;
            if !known.ends.contains_key(&claim.channel) {
                return Err(TokenError::Sequence {
                    channel: claim.channel,
                });
            }
        }
        let below = |channel: &Channel| Some(known.ends.get(channel)?.saturating_sub(1));
        claims.resolve_sequences(|claim| below(&claim.channel).filter(|below| *below >= 0));
        // What remains names sends to a channel that has none.
        let empty = claims.sequences().first().map(|claim| claim.channel);
        match empty {
            Some(channel) => Err(TokenError::BeyondEnd {
                channel,
                offset: 0,
                end: 0,
            }),
            None => Ok(Self { claims }),
        }
    }
}
