//! Values for this crate's property tests: few topics and senders, so that they meet, with either sign bit in their halves.
//!
//! Every run draws the same values, so that a test that turned red turns red again.

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::channel::{Channel, Id, SenderId, TopicId};
use crate::clock::{Clock, OffsetClaim, SequenceClaim};
use crate::layout::HeldRecord;
use crate::record::Header;
use crate::wire;

const HALVES: [i64; 4] = [i64::MIN, -1, 0, 7];

pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(0x7061_7273_6c65_7921),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

pub(crate) fn id() -> impl Strategy<Value = Id> {
    (0..HALVES.len(), 0..HALVES.len()).prop_map(|(msb, lsb)| Id {
        msb: HALVES[msb],
        lsb: HALVES[lsb],
    })
}

pub(crate) fn channel() -> impl Strategy<Value = Channel> {
    let partition = prop_oneof![4 => 0..3_i32, 1 => Just(i32::MAX)];
    (id(), partition).prop_map(|(topic, partition)| TopicId(topic).partition(partition))
}

pub(crate) fn sender() -> impl Strategy<Value = SenderId> {
    (0..HALVES.len()).prop_map(|half| {
        SenderId(Id {
            msb: HALVES[half],
            lsb: HALVES[HALVES.len() - 1 - half],
        })
    })
}

/// A number that is never negative: small ones that collide, and the largest.
pub(crate) fn natural() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0..5_i64, 1 => Just(i64::MAX), 1 => 0..=i64::MAX]
}

pub(crate) fn offset_claim() -> impl Strategy<Value = OffsetClaim> {
    (channel(), natural()).prop_map(|(channel, offset)| OffsetClaim { channel, offset })
}

pub(crate) fn sequence_claim() -> impl Strategy<Value = SequenceClaim> {
    (channel(), sender(), natural()).prop_map(|(channel, sender, sequence)| SequenceClaim {
        channel,
        sender,
        sequence,
    })
}

pub(crate) fn clock() -> impl Strategy<Value = Clock> {
    (
        prop::collection::vec(offset_claim(), 0..12),
        prop::collection::vec(sequence_claim(), 0..12),
    )
        .prop_map(|(offsets, sequences)| Clock::from_claims(offsets, sequences))
}

pub(crate) fn bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..6).prop_map(Bytes::from)
}

pub(crate) fn nullable_bytes() -> impl Strategy<Value = Option<Bytes>> {
    prop_oneof![1 => Just(None), 3 => bytes().prop_map(Some)]
}

pub(crate) fn application_headers() -> impl Strategy<Value = Vec<Header>> {
    let name = prop_oneof![Just(""), Just("trace"), Just("a")];
    let header = (name, nullable_bytes()).prop_map(|(name, value)| Header {
        name: Bytes::from_static(name.as_bytes()),
        value,
    });
    prop::collection::vec(header, 0..4)
}

pub(crate) fn held_record() -> impl Strategy<Value = HeldRecord> {
    (
        natural(),
        any::<i64>(),
        prop::option::of((sender(), natural())),
        clock(),
        (nullable_bytes(), nullable_bytes()),
        application_headers(),
    )
        .prop_map(
            |(offset, timestamp_ms, sender, clock, (key, value), headers)| HeldRecord {
                offset,
                timestamp_ms,
                sender,
                clock: wire::encode(&clock).into(),
                key,
                value,
                headers,
            },
        )
}
