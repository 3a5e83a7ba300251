//! What a host tells an observer: deliveries in their order, and records that have to wait.

use std::sync::Arc;

use bytes::Bytes;
use parsley_core::{Channel, Offset};
use parsley_stage::AuditedWait;

/// A delivery, reported after the step that it belongs to has been committed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliveryEvent {
    /// The stage.
    pub stage: Arc<str>,
    /// The stage's partition.
    pub partition: i32,
    /// The record's topic.
    pub topic: Arc<str>,
    /// The record's channel.
    pub channel: Channel,
    /// The record's offset.
    pub offset: Offset,
    /// The record's timestamp.
    pub timestamp_ms: i64,
    /// The record's key.
    pub key: Option<Bytes>,
    /// The record's clock, canonically encoded: the empty clock if it came without one.
    pub clock: Bytes,
    /// Whether it outlived the drain, or the full step, that followed its receipt. A record that a full step did not reach counts as held,
    /// though it waited for no other.
    pub was_held: bool,
    /// Which one of the records received by this task in this execution it was, from 0: the order of arrival. `None` for a record that
    /// an earlier execution received.
    pub arrival: Option<u64>,
}

/// A record that was received and could not be delivered at once. Reported after the commit of the step that ends the drain
/// that followed its receipt: the step that received it, or, if that was full, a later one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HoldEvent {
    /// The stage.
    pub stage: Arc<str>,
    /// The stage's partition.
    pub partition: i32,
    /// The record's topic.
    pub topic: Arc<str>,
    /// The record's channel.
    pub channel: Channel,
    /// The record's offset.
    pub offset: Offset,
    /// Which one of the records received by this task in this execution it was, from 0.
    pub arrival: u64,
    /// The record that stands first on the channel: this one, or the one that it has to stay behind.
    pub head: Offset,
    /// What that one waits for.
    pub waits: Vec<AuditedWait>,
}
