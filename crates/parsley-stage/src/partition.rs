//! Which partition a key goes to: the choice of Kafka's Java producers, so that every producer of a topic agrees.
//!
//! Murmur2 over the key's bytes, made positive by clearing the sign bit, modulo the partition count. A null key goes to partition 0
//! (Java producers spread null keys; a stamp needs one partition, fixed before stamping, the same on every run).

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;

/// 32-bit Murmur2 with the seed that Kafka uses.
pub fn murmur2(bytes: &[u8]) -> u32 {
    // The length wraps as it does in Java, where no array exceeds 2^31 - 1.
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> 24;
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed.wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        let mut word = [0; 4];
        word[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u32::from_le_bytes(word)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

/// The partition for a key on a topic with `partitions` partitions; 0 for a null key, and for a count below 1.
pub fn partition_of(key: Option<&[u8]>, partitions: i32) -> i32 {
    match key {
        Some(key) if partitions > 0 => {
            let positive = (murmur2(key) & 0x7fff_ffff) as i32;
            positive % partitions
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_nothing_to_choose_it_is_the_first() {
        assert_eq!(partition_of(None, 7), 0);
        for count in [0, -1, i32::MIN] {
            assert_eq!(partition_of(Some(b"foobar"), count), 0);
        }
        assert_eq!(partition_of(Some(b"foobar"), 1), 0);
    }

    /// The values that Kafka's own tests expect of its implementation, as signed 32-bit integers.
    #[test]
    fn hashes_are_those_of_java_producers() {
        let expected: [(&[u8], i32); 6] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (
                b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            (b"abc", 479_470_107),
        ];
        for (bytes, hash) in expected {
            assert_eq!(murmur2(bytes) as i32, hash, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_negative_hash_loses_its_sign_bit_and_not_its_sign() {
        assert_eq!(
            partition_of(Some(b"21"), 1000),
            (-973_932_308_i32 & i32::MAX) % 1000
        );
        assert_ne!(partition_of(Some(b"21"), 1000), 973_932_308 % 1000);
    }

    #[test]
    fn a_null_key_goes_to_partition_0_and_an_empty_one_is_hashed() {
        assert_eq!(partition_of(None, 7), 0);
        assert_eq!(
            partition_of(Some(b""), 7),
            (murmur2(b"") & 0x7fff_ffff) as i32 % 7
        );
        assert_ne!(partition_of(Some(b""), 7), 0);
    }

    #[test]
    fn every_partition_is_within_the_topic() {
        for partitions in 1..50 {
            for key in 0_u32..200 {
                let partition = partition_of(Some(&key.to_be_bytes()), partitions);
                assert!((0..partitions).contains(&partition));
            }
        }
    }
}
