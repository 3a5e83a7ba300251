//! The model's clock: two maps, and the bytes of the `vc` header written field by field.

use std::collections::BTreeMap;

use crate::id::{Channel, Sender};

/// A clock as two maps. The maps' key order is the order of the wire format: every field signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Offset claims.
    pub offsets: BTreeMap<Channel, i64>,
    /// Sequence claims.
    pub sequences: BTreeMap<(Channel, Sender), i64>,
}

impl Clock {
    /// Whether it claims nothing.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty() && self.sequences.is_empty()
    }

    /// Claims every position of `channel` up to `offset`; a negative offset claims nothing.
    pub fn claim_offset(&mut self, channel: Channel, offset: i64) {
        if offset < 0 {
            return;
        }
        let claimed = self.offsets.entry(channel).or_insert(offset);
        *claimed = (*claimed).max(offset);
    }

    /// Claims every send of `sender` to `channel` up to `sequence`.
    pub fn claim_sequence(&mut self, channel: Channel, sender: Sender, sequence: i64) {
        let claimed = self.sequences.entry((channel, sender)).or_insert(sequence);
        *claimed = (*claimed).max(sequence);
    }

    /// Pointwise maximum.
    pub fn merge(&mut self, other: &Clock) {
        for (&channel, &offset) in &other.offsets {
            self.claim_offset(channel, offset);
        }
        for (&(channel, sender), &sequence) in &other.sequences {
            self.claim_sequence(channel, sender, sequence);
        }
    }

    /// The bytes of the header.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![1];
        put_i32(&mut out, self.offsets.len() as i32);
        for (&(msb, lsb, partition), &offset) in &self.offsets {
            put_i64(&mut out, msb);
            put_i64(&mut out, lsb);
            put_i32(&mut out, partition);
            put_i64(&mut out, offset);
        }
        put_i32(&mut out, self.sequences.len() as i32);
        for (&((msb, lsb, partition), (sender_msb, sender_lsb)), &sequence) in &self.sequences {
            put_i64(&mut out, msb);
            put_i64(&mut out, lsb);
            put_i32(&mut out, partition);
            put_i64(&mut out, sender_msb);
            put_i64(&mut out, sender_lsb);
            put_i64(&mut out, sequence);
        }
        out
    }

    /// `None` for whatever G1 names; entries may stand in any order.
    pub fn decode(bytes: &[u8]) -> Option<Clock> {
        let mut input = Reader(bytes);
        if input.bytes(1)? != [1] {
            return None;
        }
        let mut clock = Clock::default();
        for _ in 0..not_negative_i32(input.i32()?)? {
            let channel = input.channel()?;
            let offset = not_negative(input.i64()?)?;
            if clock.offsets.insert(channel, offset).is_some() {
                return None;
            }
        }
        for _ in 0..not_negative_i32(input.i32()?)? {
            let channel = input.channel()?;
            let sender = (input.i64()?, input.i64()?);
            let sequence = not_negative(input.i64()?)?;
            if clock
                .sequences
                .insert((channel, sender), sequence)
                .is_some()
            {
                return None;
            }
        }
        input.ended().then_some(clock)
    }
}

fn not_negative(value: i64) -> Option<i64> {
    (value >= 0).then_some(value)
}

fn not_negative_i32(value: i32) -> Option<i32> {
    (value >= 0).then_some(value)
}

pub(crate) fn put_i32(out: &mut Vec<u8>, value: i32) {
    out.extend(value.to_be_bytes());
}

pub(crate) fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend(value.to_be_bytes());
}

/// Reads big-endian fields off the front; `None` at the end of the bytes.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.bytes(4)?.try_into().ok()?))
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        Some(i64::from_be_bytes(self.bytes(8)?.try_into().ok()?))
    }

    pub(crate) fn channel(&mut self) -> Option<Channel> {
        let topic = (self.i64()?, self.i64()?);
        let partition = not_negative_i32(self.i32()?)?;
        Some((topic.0, topic.1, partition))
    }

    pub(crate) fn ended(&self) -> bool {
        self.0.is_empty()
    }
}
