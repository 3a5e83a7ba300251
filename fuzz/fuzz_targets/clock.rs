//! The clock decoder survives arbitrary bytes, and what it accepts has one encoding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parsley_core::wire::{Decoded, decode, encode};

fuzz_target!(|bytes: &[u8]| {
    let Ok(decoded) = decode(bytes) else { return };
    let in_order = matches!(decoded, Decoded::InOrder(_));
    let clock = decoded.into_clock();
    let encoded = encode(&clock);
    assert_eq!(
        encoded == bytes,
        in_order,
        "bytes in order are the encoding, others are not"
    );
    let again = decode(&encoded).expect("an encoded clock is one");
    assert!(
        matches!(again, Decoded::InOrder(_)),
        "an encoding is in order"
    );
    assert_eq!(again.into_clock(), clock);
});
