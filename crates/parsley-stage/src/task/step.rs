//! What a task hands to its host in the course of a step.

use std::sync::Arc;

use bytes::Bytes;
use parsley_core::{Changes, Channel, Header, Offset};

/// A record to be appended to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawSend {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The channel.
    pub channel: Channel,
    /// The round of the step that it belongs to. It must not be handed to the log before every send of an earlier round is acknowledged,
    /// which [`Task::take_sends`](super::Task::take_sends) and [`Task::fence`](super::Task::fence) see to.
    pub round: usize,
    /// The key; `None` is null.
    pub key: Option<Bytes>,
    /// The value; `None` is null.
    pub value: Option<Bytes>,
    /// Milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// The application's headers, then the three of the stamp.
    pub headers: Vec<Header>,
}

/// A delivery that was processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processed {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The channel.
    pub channel: Channel,
    /// The offset.
    pub offset: Offset,
    /// The record's key.
    pub key: Option<Bytes>,
    /// The record's timestamp.
    pub timestamp_ms: i64,
    /// The record's clock, canonically encoded; the empty clock where the record had none.
    pub clock: Bytes,
    /// Whether it outlived the drain, or the full step, that followed its receipt. A record that a full step did not reach counts as held,
    /// though it waited for no other.
    pub was_held: bool,
    /// How many records the logic emitted for it.
    pub sends: usize,
}

/// What the host makes durable at the end of a step, atomically and together with the step's sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a step exists once the host has made this durable"]
pub struct StepCommit {
    /// The next position to consume, per channel.
    pub positions: Vec<(Channel, Offset)>,
    /// Changes to the ordering store.
    pub ordering: Changes,
    /// Changes to the fold store.
    pub fold: Changes,
}
