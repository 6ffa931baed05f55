//! Fixed functions of bits. A new version of a crate may change the numbers of a seed, and with them every
//! recorded digest; these functions never change.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a counter stepped by an odd constant, hashed.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Difference between the seeds of two generators, of which one is a number ahead of the other.
    pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// A generator for this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// FNV-1a over 64 bits (Fowler, Noll and Vo). It detects accidents, not attacks.
#[derive(Clone, Copy, Debug)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds bytes.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// The digest of all bytes so far.
    #[must_use]
    pub const fn finish(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published reference sequence for seed 1234567.
    #[test]
    fn first_numbers_are_those_of_splitmix64() {
        let mut random = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    /// Test vectors published by the function's authors.
    #[test]
    fn known_digests() {
        for (text, digest) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8u64),
        ] {
            let mut fnv = Fnv::default();
            fnv.write(text.as_bytes());
            assert_eq!(fnv.finish(), digest, "{text}");
        }
    }
}
