//! The lines that a script's run prints.

use std::io::{self, Write};

use base64::Engine;
use parsley_core::{
    Channel, Clock, Delivery, Hold, Offset, Refusal, Stamp, StateStore, StoreError, Visit, Wait,
};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::names::Names;

/// Pairs that are written as an object, in their order.
pub struct InOrder<V>(pub Vec<(String, V)>);

impl<V: Serialize> Serialize for InOrder<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// One line of output.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Initialisation is done.
    Opened {
        /// Where joined channels are to be read from.
        resume: InOrder<Offset>,
    },
    /// A record was delivered.
    Delivered {
        /// The channel.
        on: String,
        /// Its position.
        offset: Offset,
        /// The key.
        key: Option<String>,
        /// The value.
        #[serde(flatten)]
        value: Value,
    },
    /// A record was at or below what had been fed.
    Dropped {
        /// The channel.
        on: String,
        /// Its position.
        offset: Offset,
    },
    /// A send was stamped.
    Stamp {
        /// The channel.
        to: String,
        /// The send sequence.
        sequence: i64,
        /// The clock.
        clock: ClockLine,
        /// Its bytes.
        hex: String,
    },
    /// What is held.
    Holds(Vec<HoldLine>),
    /// The committed store.
    Store(Vec<(String, String)>),
    /// A guard stopped the node.
    Refused {
        /// Which guard.
        code: &'static str,
        /// The channel.
        on: Option<String>,
        /// The position.
        offset: Option<Offset>,
        /// For people.
        message: String,
    },
}

/// A value: text where it is text, else bytes in base 64.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Null, or text.
    Value(Option<String>),
    /// Bytes that are not text.
    ValueB64(String),
}

/// A clock, in clock order.
#[derive(Serialize)]
pub struct ClockLine {
    offsets: InOrder<Offset>,
    sequences: Vec<(String, String, i64)>,
}

/// A blocked head.
#[derive(Serialize)]
pub struct HoldLine {
    on: String,
    offset: Offset,
    behind: u64,
    waits: Vec<WaitLine>,
}

/// An unmet claim.
#[derive(Serialize)]
#[serde(untagged)]
enum WaitLine {
    Offset {
        on: String,
        offset: Offset,
        settled: Option<Offset>,
        code: &'static str,
    },
    Sequence {
        on: String,
        sender: String,
        sequence: i64,
        delivered: Option<i64>,
        code: &'static str,
    },
}

impl Answer {
    /// The line about an initialisation.
    pub fn opened<'a>(
        resume: impl IntoIterator<Item = (&'a Channel, &'a Offset)>,
        names: &Names,
    ) -> Self {
        Self::Opened {
            resume: InOrder(
                resume
                    .into_iter()
                    .map(|(&on, &from)| (names.show(on), from))
                    .collect(),
            ),
        }
    }

    /// The line about a delivery.
    pub fn delivered(delivery: &Delivery, names: &Names) -> Self {
        Self::Delivered {
            on: names.show(delivery.channel),
            offset: delivery.offset,
            // A script's keys are text, and the store gives back what it was given.
            key: delivery
                .key
                .as_deref()
                .map(|key| String::from_utf8_lossy(key).into_owned()),
            value: match delivery
                .value
                .as_deref()
                .map(std::str::from_utf8)
                .transpose()
            {
                Ok(text) => Value::Value(text.map(str::to_owned)),
                Err(_) => Value::ValueB64(
                    base64::engine::general_purpose::STANDARD
                        .encode(delivery.value.as_deref().unwrap_or_default()),
                ),
            },
        }
    }

    /// The line about a stamp with this clock.
    pub fn stamp(stamp: &Stamp, clock: &Clock, names: &Names) -> Self {
        Self::Stamp {
            to: names.show(stamp.channel),
            sequence: stamp.sequence,
            clock: ClockLine::of(clock, names),
            hex: hex::encode(&stamp.clock),
        }
    }

    /// The line about what is held.
    pub fn holds(holds: &[Hold], names: &Names) -> Self {
        let line = |hold: &Hold| HoldLine {
            on: names.show(hold.channel),
            offset: hold.offset,
            behind: hold.behind,
            waits: hold
                .waits
                .iter()
                .map(|wait| WaitLine::of(wait, names))
                .collect(),
        };
        Self::Holds(holds.iter().map(line).collect())
    }

    /// The line about a store.
    pub fn store(store: &impl StateStore) -> Result<Self, StoreError> {
        let mut entries = Vec::new();
        store.scan(b"", b"", &mut |key, value| {
            entries.push((
                String::from_utf8_lossy(key).into_owned(),
                hex::encode(value),
            ));
            Visit::Continue(())
        })?;
        Ok(Self::Store(entries))
    }

    /// The line about a refusal.
    pub fn refused(refusal: &Refusal, names: &Names) -> Self {
        Self::Refused {
            code: refusal.code.as_str(),
            on: refusal.channel.map(|channel| names.show(channel)),
            offset: refusal.offset,
            message: format!("{}; {}", refusal.found, refusal.code.remedy()),
        }
    }

    /// Prints it.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

impl ClockLine {
    fn of(clock: &Clock, names: &Names) -> Self {
        let offsets = clock
            .offsets()
            .iter()
            .map(|claim| (names.show(claim.channel), claim.offset));
        let sequences = clock.sequences().iter();
        let sequences = sequences.map(|claim| {
            (
                names.show(claim.channel),
                claim.sender.to_string(),
                claim.sequence,
            )
        });
        Self {
            offsets: InOrder(offsets.collect()),
            sequences: sequences.collect(),
        }
    }
}

impl WaitLine {
    fn of(wait: &Wait, names: &Names) -> Self {
        match *wait {
            Wait::Offset {
                claim,
                settled,
                code,
            } => Self::Offset {
                on: names.show(claim.channel),
                offset: claim.offset,
                settled,
                code: code.as_str(),
            },
            Wait::Sequence {
                claim,
                delivered,
                code,
            } => Self::Sequence {
                on: names.show(claim.channel),
                sender: claim.sender.to_string(),
                sequence: claim.sequence,
                delivered,
                code: code.as_str(),
            },
        }
    }
}
