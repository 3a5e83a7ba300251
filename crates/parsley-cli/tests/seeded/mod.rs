//! What tests that kill programs at random draw from a seed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// A sequence of numbers that look random (SplitMix64).
pub struct Numbers(u64);

impl Numbers {
    /// From the seed that is set, or another one each time.
    pub fn seeded() -> Self {
        let set = std::env::var("PARSLEY_KILL_SEED").ok();
        let seed = match &set {
            Some(seed) => seed.parse().expect("PARSLEY_KILL_SEED is a number"),
            None => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| u64::from(since.subsec_nanos())),
        };
        println!("PARSLEY_KILL_SEED={seed}");
        Self(seed)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// The commands, and what they ask of each account in their order.
pub fn input(commands: u64, numbers: &mut Numbers) -> (String, BTreeMap<String, Vec<i128>>) {
    let mut text = String::new();
    let mut asked = BTreeMap::<String, Vec<i128>>::new();
    for _ in 0..commands {
        let account = format!("account-{}", numbers.below(1000));
        let amount = 1 + numbers.below(100);
        let is_deposit = numbers.below(5) < 3;
        let (what, change) = match is_deposit {
            true => ("deposit", i128::from(amount)),
            false => ("withdraw", -i128::from(amount)),
        };
        writeln!(text, "{{\"account\":\"{account}\",\"{what}\":{amount}}}").expect("memory");
        asked.entry(account).or_default().push(change);
    }
    (text, asked)
}
