//! What simulated records carry: a label that is unique among what may be committed, and through how many stages it came.

use bytes::Bytes;

use crate::plan::{Declaration, Emit, KeyRule, TopicName, When};

/// The value of a simulated record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Payload {
    /// Follows from what caused the record, so a step that is done again emits the same labels.
    pub label: u64,
    /// Through how many stages it came.
    pub hops: u8,
}

/// An emission that follows from a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emission {
    /// Where to.
    pub to: TopicName,
    /// Under which key.
    pub key: Option<u64>,
    /// What it carries.
    pub payload: Payload,
}

impl Payload {
    /// The payload of an edge client's send of that number.
    pub fn of_edge(edge: usize, number: u64) -> Self {
        Self {
            label: mix(mix(0xed9e, edge as u64), number),
            hops: 0,
        }
    }

    /// The payload of a task's tick of that time. Its record carries none, and no two ticks of a task have the same time.
    pub fn of_tick(stage: usize, partition: i32, timestamp_ms: i64) -> Self {
        let of_task = mix(mix(0x71c4, stage as u64), partition as u64);
        Self {
            label: mix(of_task, timestamp_ms as u64),
            hops: 0,
        }
    }

    /// The bytes of a record's value.
    pub fn to_bytes(self) -> Bytes {
        let mut bytes = Vec::with_capacity(9);
        bytes.push(self.hops);
        bytes.extend(self.label.to_be_bytes());
        bytes.into()
    }

    /// Reads a value; `None` for what this simulator did not write.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (&hops, label) = bytes.split_first()?;
        let label = u64::from_be_bytes(label.try_into().ok()?);
        Some(Self { label, hops })
    }
}

/// What a stage emits for a record of the topic, in order.
pub fn emissions(
    declaration: &Declaration,
    stage: usize,
    topic: TopicName,
    key: Option<u64>,
    payload: Payload,
) -> Vec<Emission> {
    let input = declaration.inputs.iter().find(|input| input.topic == topic);
    let emits = input.map_or(&[][..], |input| &input.emits);
    let mut emitted = Vec::new();
    for (index, emit) in emits.iter().enumerate() {
        if !applies(emit, payload) {
            continue;
        }
        emitted.push(Emission {
            to: emit.to,
            key: match emit.key {
                KeyRule::Same => key,
                KeyRule::OneOf(keys) => Some(mix(payload.label, index as u64) % keys.max(1)),
                KeyRule::Fixed(key) => Some(key),
            },
            payload: Payload {
                label: mix(mix(payload.label, stage as u64 + 1), index as u64 + 1),
                hops: payload.hops.saturating_add(1),
            },
        });
    }
    emitted
}

fn applies(emit: &Emit, payload: Payload) -> bool {
    match emit.when {
        When::Always => true,
        When::OneIn(n) => payload.label.is_multiple_of(n.max(1)),
        When::HopsBelow(hops) => payload.hops < hops,
    }
}

/// The bytes of a key.
pub fn key_bytes(key: u64) -> Bytes {
    Bytes::copy_from_slice(&key.to_be_bytes())
}

/// The key of a task's ticks (`docs/protocol.md`, Tick record).
pub fn tick_key(partition: i32) -> Bytes {
    Bytes::copy_from_slice(&partition.to_be_bytes())
}

/// A key from its bytes.
pub fn key_of(bytes: Option<&Bytes>) -> Option<u64> {
    Some(u64::from_be_bytes(bytes?.as_ref().try_into().ok()?))
}

/// Spreads the bits of two numbers over one.
fn mix(a: u64, b: u64) -> u64 {
    let mut word = a ^ b.wrapping_add(0x9e37_79b9_7f4a_7c15).rotate_left(31);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
