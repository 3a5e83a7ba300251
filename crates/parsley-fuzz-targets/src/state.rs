//! Keys and values of the ordering state.

use bytes::Bytes;
use parsley_core::layout::{self, HeldRecord, StateKey};
use parsley_core::{Scope, wire};

/// A held record that is read is written back in as many bytes, and in the same ones unless its clock was out of order, or it has a
/// sequence and no sender.
pub fn held_record(bytes: &[u8]) {
    let value = Bytes::copy_from_slice(bytes);
    let held = match HeldRecord::from_bytes(&value) {
        Ok(held) => held,
        Err(fault) => return assert_length(&fault, bytes),
    };
    assert!(held.offset >= 0);
    let clock = wire::decode(&held.clock).expect("its clock was checked");
    assert!(
        matches!(clock, wire::Decoded::InOrder(_)),
        "and is in order"
    );
    let written = held.to_bytes();
    assert_eq!(written.len(), value.len());
    assert_eq!(HeldRecord::from_bytes(&written), Ok(held.clone()));
    let shown = [&held.key, &held.value].into_iter().flatten();
    let fields: usize = shown.map(Bytes::len).sum::<usize>()
        + held.clock.len()
        + held
            .headers
            .iter()
            .map(|header| header.name.len() + header.value.as_ref().map_or(0, Bytes::len))
            .sum::<usize>();
    assert!(fields < value.len());
    let sequence = 33..41;
    let is_lenient = held.sender.is_none() && value[sequence] != [0xff; 8];
    if written != value && !is_lenient {
        let at = 45..45 + held.clock.len();
        assert_eq!(written[..45], value[..45]);
        assert_eq!(written[at.end..], value[at.end..]);
        assert_eq!(
            wire::decode(&value[at]).map(wire::Decoded::into_clock),
            wire::decode(&held.clock).map(wire::Decoded::into_clock)
        );
    }
}

/// A wrong length is that of the value.
fn assert_length(fault: &layout::CorruptValue, bytes: &[u8]) {
    if let layout::CorruptValue::Length { found, .. } = fault {
        assert_eq!(*found, bytes.len());
    }
}

/// A key that is read is written back in the same bytes.
pub fn state_key(bytes: &[u8]) {
    if let Some(key) = StateKey::parse(bytes) {
        assert_eq!(key.to_bytes(), bytes);
        if let StateKey::QueueEntry(channel, _) = key {
            let prefix = StateKey::queue_entries(channel);
            assert!(bytes.starts_with(&prefix) && bytes.len() == prefix.len() + 16);
        }
    }
}

/// Scopes, numbers and pairs that are read are written back in the same bytes; which of them it is, and whether a clock, says the first
/// byte.
pub fn state_value(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    let value = Bytes::copy_from_slice(bytes);
    let written = match kind % 4 {
        0 => Scope::from_bytes(&value).map(|scope| {
            assert!(scope.channels.iter().all(|channel| channel.partition >= 0));
            assert_eq!(
                8 + 20 * scope.channels.len() + 16 * scope.sinks.len(),
                bytes.len()
            );
            scope.to_bytes()
        }),
        1 => layout::number_from_bytes(&value).map(|number| {
            assert!(number >= 0);
            layout::number_to_bytes(number)
        }),
        2 => layout::pair_from_bytes(&value).map(|(first, second)| {
            assert!(first >= 0 && second >= 0);
            layout::pair_to_bytes(first, second)
        }),
        _ => {
            let clock = layout::clock_from_bytes(&value);
            let decoded = wire::decode(&value).map(wire::Decoded::into_clock);
            assert_eq!(clock.is_ok(), decoded.is_ok());
            assert_eq!(clock.ok(), decoded.ok());
            return;
        }
    };
    match written {
        Ok(written) => assert_eq!(written, value),
        Err(fault) => assert_length(&fault, bytes),
    }
}
