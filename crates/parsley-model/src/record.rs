//! Records on their way through a node: fetched, held, delivered, sent.

use crate::clock::Clock;
use crate::id::{Channel, Sender};

/// A header as it stands on a record: the name, and bytes or null.
pub type Header = (String, Option<Vec<u8>>);

/// What the host fetched, all headers included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Its place on its channel.
    pub offset: i64,
    /// In milliseconds, as it was written.
    pub timestamp: i64,
    /// Null or bytes.
    pub key: Option<Vec<u8>>,
    /// Null or bytes.
    pub value: Option<Vec<u8>>,
    /// The protocol's own and the application's, in their order.
    pub headers: Vec<Header>,
}

impl Fetched {
    /// A record without key and value that carries the clock.
    pub fn claiming(offset: i64, clock: &Clock) -> Fetched {
        Fetched {
            offset,
            headers: vec![("vc".to_owned(), Some(clock.encode()))],
            ..Fetched::default()
        }
    }

    /// The same record with the tag of its sender.
    pub fn sent_by(mut self, sender: Sender, sequence: i64) -> Fetched {
        let sender = [sender.0.to_be_bytes(), sender.1.to_be_bytes()].concat();
        self.headers.push(("vc-sender".to_owned(), Some(sender)));
        self.headers
            .push(("vc-seq".to_owned(), Some(sequence.to_be_bytes().to_vec())));
        self
    }
}

/// A received record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place on its channel.
    pub offset: i64,
    /// In milliseconds, as it was written.
    pub timestamp: i64,
    /// Who sent it and as which of its sends to the channel.
    pub tag: Option<(Sender, i64)>,
    /// What it claims.
    pub clock: Clock,
    /// Null or bytes.
    pub key: Option<Vec<u8>>,
    /// Null or bytes.
    pub value: Option<Vec<u8>>,
    /// The application's headers.
    pub headers: Vec<Header>,
}

/// A received, undelivered record.
#[derive(Clone, Debug)]
pub struct Held {
    /// The record.
    pub record: Record,
    /// Its place in the stored queue, once it has one.
    pub index: Option<i64>,
    /// How many records this execution had received before; 0 for one that an earlier execution left.
    pub arrival: u64,
}

/// A delivery: the channel and the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The channel it was received on.
    pub on: Channel,
    /// The record.
    pub record: Record,
    /// It was still held when a drain or a step ended after its receipt.
    pub was_held: bool,
}

/// What came of one record or one other input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A record that had been fed before was dropped.
    Dropped {
        /// The channel it came from.
        on: Channel,
        /// Its offset.
        offset: i64,
    },
    /// A record was delivered.
    Delivered(Delivery),
}

/// A stamped send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Where it goes.
    pub to: Channel,
    /// Its number among this sender's sends there.
    pub sequence: i64,
    /// What it claims.
    pub clock: Clock,
    /// The same as the header's bytes.
    pub bytes: Vec<u8>,
}
