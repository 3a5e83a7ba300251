//! What stages and their clients are given: tokens, records of an account of deliveries, values.

use bytes::Bytes;
use parsley_core::{Header, TopicId, wire};
use parsley_stage::edge::token::{KnownTopics, TokenError, TokenLimits};
use parsley_stage::{AuditRecord, Audited, CausalClock, codec};

use crate::parts::Parts;

/// A token that is taken claims on known topics alone, below their ends, by offset, and no more than the limits say. One that is refused is
/// refused for what it is.
pub fn token(bytes: &[u8]) {
    let limits = TokenLimits {
        bytes: 400,
        claims: 8,
    };
    let (a, b) = (TopicId::of_name("a"), TopicId::of_name("b"));
    let mut known = KnownTopics::new();
    known
        .topic(a, 2)
        .end(a.partition(0), 42)
        .end(a.partition(1), 0)
        .topic(b, 1);
    let trusted = CausalClock::from_bytes(bytes);
    let token = CausalClock::from_untrusted(bytes, limits, &known);
    let clock = match (token, trusted) {
        (Ok(clock), Ok(trusted)) => {
            assert!(clock.claims().width() <= trusted.claims().width());
            clock
        }
        (Ok(_), Err(fault)) => panic!("a token that is no clock was taken: {fault}"),
        (Err(TokenError::TooLong { found, max }), _) => {
            return assert!(found == bytes.len() && found > max);
        }
        (Err(TokenError::Corrupt(fault)), Err(same)) => return assert_eq!(fault, same),
        (Err(TokenError::Corrupt(fault)), Ok(_)) => panic!("a clock was refused: {fault}"),
        (Err(_), Ok(trusted)) => return assert!(!trusted.is_empty()),
        (Err(error), Err(fault)) => panic!("{error}, and it is no clock: {fault}"),
    };
    assert!(clock.claims().sequences().is_empty());
    assert!(clock.claims().width() <= limits.claims);
    for claim in clock.claims().offsets() {
        assert!(known.knows(claim.channel));
        assert!(
            known
                .end_of(claim.channel)
                .is_none_or(|end| claim.offset < end)
        );
    }
    let carried = clock.to_bytes();
    assert_eq!(carried.len(), clock.encoded_len());
    assert_eq!(
        CausalClock::from_untrusted(&carried, limits, &known),
        Ok(clock.clone())
    );
    let mut headers = vec![Header::null("trace")];
    clock.stamp(&mut headers).expect("a narrow clock");
    let mut seen = CausalClock::new();
    seen.observe(a.partition(0), 0, &headers).expect("a stamp");
    assert!(seen.dominates(&clock));
}

/// An entry of an account that is read is written so that it is read again.
pub fn account_record(bytes: &[u8]) {
    let entry = match AuditRecord::decode(Some(bytes)) {
        Ok(entry) => entry,
        Err(error) => {
            let told = error.to_string();
            return assert!(
                !told.is_empty() && told.len() < 6 * bytes.len() + 400,
                "{told}"
            );
        }
    };
    let written = entry.encode();
    let again = AuditRecord::decode(Some(&written)).expect("what was written");
    assert_eq!(again, entry);
    assert_eq!(again.encode(), written);
    assert!(entry.channel.partition >= 0);
    assert!(entry.key().starts_with(entry.stage.as_bytes()));
    if let Audited::Delivered { clock, .. } = &entry.audited {
        // Whoever judges it decodes the clock; here it is bytes.
        let _ = wire::decode(clock);
    }
}

/// The codecs that come along: what they decode they encode to the same bytes. A nullable one takes null, and a fallible one takes all.
pub fn codec(bytes: &[u8]) {
    let mut parts = Parts(bytes);
    let kind = parts.byte();
    let value = (kind & 0x80 == 0).then(|| Bytes::copy_from_slice(parts.0));
    let value = value.as_ref();
    macro_rules! same {
        ($codec:expr) => {{
            let codec = $codec;
            if let Ok(decoded) = codec.decode(value) {
                assert_eq!(
                    codec.encode(&decoded).expect("it was decoded").as_ref(),
                    value
                );
            }
            let nullable = codec::nullable(codec.clone());
            if let Ok(decoded) = nullable.decode(value) {
                assert_eq!(
                    nullable.encode(&decoded).expect("it was decoded").as_ref(),
                    value
                );
            } else {
                assert!(value.is_some() && codec.decode(value).is_err());
            }
            let fallible = codec::fallible(codec);
            let decoded = fallible.decode(value).expect("it takes all");
            assert_eq!(
                fallible.encode(&decoded).expect("it was decoded").as_ref(),
                value
            );
        }};
    }
    match kind % 8 {
        0 => same!(codec::string()),
        1 => same!(codec::bytes()),
        2 => same!(codec::u64()),
        3 => same!(codec::i32()),
        4 => same!(codec::i64()),
        5 => same!(codec::null()),
        6 => same!(codec::byte_vec()),
        _ => {
            let codec = codec::json::<std::collections::BTreeMap<String, Option<u64>>>();
            if let Ok(decoded) = codec.decode(value) {
                let written = codec.encode(&decoded).expect("it was decoded");
                assert_eq!(
                    codec.decode(written.as_ref()).expect("it was written"),
                    decoded
                );
            }
        }
    }
}
