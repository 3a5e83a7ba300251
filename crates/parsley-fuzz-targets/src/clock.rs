//! The clock: its bytes, and that it is joined as clocks are.

use parsley_core::wire::{self, CorruptClock, Decoded};
use parsley_core::{Clock, OffsetClaim, SequenceClaim};

use crate::parts::Parts;

/// The decoder takes what the model's takes and nothing else; what it takes has one encoding, and what it refuses is where it says.
pub fn clock(bytes: &[u8]) {
    let modelled = parsley_model::Clock::decode(bytes);
    let decoded = match wire::decode(bytes) {
        Ok(decoded) => decoded,
        Err(fault) => {
            assert_eq!(modelled, None, "{fault}");
            return names_its_place(fault, bytes);
        }
    };
    let modelled = modelled.expect("the model takes what the decoder takes");
    let in_order = matches!(decoded, Decoded::InOrder(_));
    let clock = decoded.into_clock();
    let encoded = wire::encode(&clock);
    assert_eq!(encoded.len(), bytes.len());
    assert_eq!(encoded, modelled.encode());
    assert_eq!(
        encoded == bytes,
        in_order,
        "bytes in order are the encoding, others are not"
    );
    let again = wire::decode(&encoded).expect("an encoded clock is one");
    assert!(
        matches!(again, Decoded::InOrder(_)),
        "an encoding is in order"
    );
    assert_eq!(again.into_clock(), clock);
    let copied = Clock::from_claims(
        clock.offsets().iter().rev().copied(),
        clock.sequences().iter().rev().copied(),
    );
    assert_eq!(copied, clock, "in whatever order the claims come");
}

fn names_its_place(fault: CorruptClock, bytes: &[u8]) {
    match fault {
        CorruptClock::Empty => assert!(bytes.is_empty()),
        CorruptClock::UnknownVersion { found } => {
            assert_eq!(bytes.first(), Some(&found));
            assert_ne!(found, wire::CLOCK_VERSION);
        }
        CorruptClock::Truncated { length, needed, .. } => {
            assert_eq!(length, bytes.len());
            assert!(needed > length);
        }
        CorruptClock::TrailingBytes { extra } => {
            let clock = &bytes[..bytes.len() - extra];
            let without = wire::decode(clock);
            let is_cut = matches!(
                without,
                Err(CorruptClock::Truncated { .. }
                    | CorruptClock::TrailingBytes { .. }
                    | CorruptClock::Empty)
            );
            assert!(extra > 0 && !is_cut, "the clock ends there");
        }
        CorruptClock::Negative { found, .. } => {
            assert!(found < 0);
            let full = found.to_be_bytes();
            let stands = |digits: &[u8]| bytes.windows(digits.len()).any(|window| window == digits);
            assert!(stands(&full) || stands(&full[4..]));
        }
        CorruptClock::Repeated { channel, .. } => {
            let mut entry = [0; 20];
            entry[..8].copy_from_slice(&channel.topic.0.msb.to_be_bytes());
            entry[8..16].copy_from_slice(&channel.topic.0.lsb.to_be_bytes());
            entry[16..].copy_from_slice(&channel.partition.to_be_bytes());
            let places = bytes.windows(20).filter(|window| **window == entry);
            assert!(places.count() > 1);
        }
        other => panic!("bytes that are there are not {other:?}"),
    }
}

/// Three clocks: their join is one, whatever the order, and says rightly whether anything was new.
pub fn clock_join(bytes: &[u8]) {
    let mut parts = Parts(bytes);
    let encoded = [parts.part(), parts.part(), parts.0];
    let [Ok(a), Ok(b), Ok(c)] = encoded.map(wire::decode) else {
        return;
    };
    let borrowed = [&a, &b].map(|clock| match clock {
        Decoded::InOrder(clock) => Some(*clock),
        _ => None,
    });
    let (a, b, c) = (
        a.clone().into_clock(),
        b.clone().into_clock(),
        c.into_clock(),
    );
    let joined = |one: &Clock, other: &Clock| {
        let mut joined = one.clone();
        let is_news = joined.merge(other);
        assert_eq!(is_news, joined != *one);
        assert_eq!(is_news, !one.dominates(other));
        assert!(joined.dominates(one) && joined.dominates(other));
        joined
    };
    let ab = joined(&a, &b);
    assert_eq!(joined(&a, &a), a);
    assert_eq!(joined(&Clock::new(), &a), a);
    assert_eq!(joined(&b, &a), ab);
    assert_eq!(joined(&joined(&c, &b), &a), joined(&ab, &c));
    assert_eq!(
        wire::encode(&ab),
        modelled(&[encoded[0], encoded[1]]).encode()
    );
    if let [Some(_), Some(other)] = borrowed {
        let mut in_place = a.clone();
        in_place.merge(&other);
        assert_eq!(in_place, ab, "read where it lies");
    }
    let mut one_by_one = a.clone();
    for &OffsetClaim { channel, offset } in b.offsets() {
        one_by_one.claim_offset(channel, offset);
        assert!(one_by_one.offset(channel) >= Some(offset));
    }
    for &SequenceClaim {
        channel,
        sender,
        sequence,
    } in b.sequences()
    {
        one_by_one.claim_sequence(channel, sender, sequence);
    }
    assert_eq!(one_by_one, ab);
    joined(&ab, &c);
}

fn modelled(clocks: &[&[u8]]) -> parsley_model::Clock {
    let mut joined = parsley_model::Clock::default();
    for bytes in clocks {
        let clock = parsley_model::Clock::decode(bytes);
        joined.merge(&clock.expect("the model takes what the decoder takes"));
    }
    joined
}
