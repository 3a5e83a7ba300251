//! Numbers that look random and are the same for a seed.

pub struct Numbers(u64);

impl Numbers {
    pub fn of_seed(seed: u64) -> Self {
        // Neighbouring seeds begin far apart, and none begins with 0, from which nothing would follow.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
