//! The generator of initial weights and of the order of images.
//!
//! It is implemented here rather than taken from a crate: a new version of a crate may change the
//! numbers of a seed, and with them every recorded digest.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a counter stepped by an odd constant, hashed.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// A separate generator for each purpose, named by `stream`.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self { state: seed };
        let mixed = random.next_u64();
        Self { state: mixed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03) }
    }

    fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[-limit, limit)`.
    pub(crate) fn symmetric(&mut self, limit: f32) -> f32 {
        // 24 bits fill the significand of an f32 exactly.
        let unit = (self.next_u64() >> 40) as f32 / (1u32 << 24) as f32;
        (unit * 2.0 - 1.0) * limit
    }

    /// Uniform in `0..bound`, from the high half of a product; its bias is below `bound` / 2^64.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// The Fisher–Yates shuffle.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published reference sequence for seed 1234567.
    #[test]
    fn first_numbers_are_those_of_splitmix64() {
        let mut random = Random { state: 1_234_567 };
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn shuffle_permutes_and_streams_differ() {
        let shuffled = |seed, stream| {
            let mut items: Vec<u32> = (0..100).collect();
            Random::new(seed, stream).shuffle(&mut items);
            items
        };
        let a = shuffled(1, 1);
        let mut sorted = a.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..100));
        assert_eq!(a, shuffled(1, 1));
        assert_ne!(a, shuffled(1, 2));
        assert_ne!(a, shuffled(2, 1));
    }

    #[test]
    fn shuffle_reaches_every_order_evenly() {
        let mut counts = std::collections::HashMap::new();
        let mut random = Random::new(7, 0);
        for _ in 0..6000 {
            let mut items = [0, 1, 2];
            random.shuffle(&mut items);
            *counts.entry(items).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        // Binomial with mean 1000, deviation 29: five deviations.
        assert!(counts.values().all(|c| (855..=1145).contains(c)), "{counts:?}");
    }

    #[test]
    fn symmetric_fills_its_range() {
        let mut random = Random::new(3, 0);
        let values: Vec<f32> = (0..10_000).map(|_| random.symmetric(0.5)).collect();
        assert!(values.iter().all(|v| (-0.5..0.5).contains(v)));
        let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / 10_000.0;
        assert!(mean.abs() < 0.015, "{mean}");
        assert!(values.iter().any(|v| *v < -0.49) && values.iter().any(|v| *v > 0.49));
    }
}
