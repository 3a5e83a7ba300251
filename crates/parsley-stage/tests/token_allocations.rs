//! Reading a token from outside takes memory in proportion to the bytes that came, whatever they announce.

use allocation_counter::measure;
use parsley_core::{Clock, OffsetClaim, SenderId, TopicId};
use parsley_stage::CausalClock;
use parsley_stage::edge::token::{KnownTopics, TokenLimits};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The most memory that judging these bytes had at once.
fn judged(bytes: &[u8]) -> u64 {
    let (limits, known) = (
        TokenLimits {
            bytes: usize::MAX,
            claims: usize::MAX,
        },
        KnownTopics::new(),
    );
    let info = measure(|| {
        let _ = CausalClock::from_untrusted(bytes, limits, &known);
    });
    info.bytes_max
}

/// Entries out of order are copied to be sorted; nothing takes more than a few times that.
fn bound(bytes: &[u8]) -> u64 {
    64 + 8 * bytes.len() as u64
}

/// The counts of both sections, at their largest, over bytes that do not back them.
#[test]
fn what_a_token_announces_reserves_nothing() {
    for count in [1_u32, 1 << 16, i32::MAX as u32, u32::MAX] {
        let mut bytes = vec![1];
        bytes.extend(count.to_be_bytes());
        assert_eq!(judged(&bytes), 0, "{count} offsets");
        let mut bytes = vec![1, 0, 0, 0, 0];
        bytes.extend(count.to_be_bytes());
        bytes.extend([0; 43]);
        assert_eq!(judged(&bytes), 0, "{count} sequences");
    }
}

#[test]
fn a_wide_token_takes_what_its_bytes_take() {
    let channel = |partition| TopicId::of_name("t").partition(partition);
    let offsets = (0..2_000).map(|partition| OffsetClaim {
        channel: channel(partition),
        offset: 3,
    });
    let mut clock = Clock::from_claims(offsets, []);
    for sender in 0..500 {
        clock.claim_sequence(channel(0), SenderId::of_task("a", "s", sender), 1);
    }
    let in_order = parsley_core::wire::encode(&clock);
    // The entries of the first section the other way round.
    let mut reversed = in_order.clone();
    let section = &mut reversed[5..5 + 2_000 * 28];
    let entries: Vec<Vec<u8>> = section.chunks(28).rev().map(<[u8]>::to_vec).collect();
    section.copy_from_slice(&entries.concat());
    assert_ne!(in_order, reversed);
    for bytes in [in_order, reversed] {
        let found = judged(&bytes);
        assert!(
            found > 0 && found <= bound(&bytes),
            "{found} bytes for {}",
            bytes.len()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        rng_seed: RngSeed::Fixed(0x746f_6b65),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_bytes_take_more_than_in_proportion(
        bytes in vec(prop_oneof![4 => Just(0_u8), 2 => Just(1), 1 => any::<u8>()], 0..400),
    ) {
        prop_assert!(judged(&bytes) <= bound(&bytes));
    }
}
