//! The generator of initial weights and of the order of images.

use tributary_base::SplitMix64;

/// Numbers of one seed and purpose.
#[derive(Clone, Debug)]
pub(crate) struct Random(SplitMix64);

impl Random {
    /// A separate generator for each purpose, named by `stream`.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mixed = SplitMix64::new(seed).next_u64();
        Self(SplitMix64::new(mixed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03)))
    }

    /// Uniform in `[-limit, limit)`.
    pub(crate) fn symmetric(&mut self, limit: f32) -> f32 {
        // 24 bits fill the significand of an f32 exactly.
        let unit = (self.0.next_u64() >> 40) as f32 / (1u32 << 24) as f32;
        (unit * 2.0 - 1.0) * limit
    }

    /// Uniform in `0..bound`, from the high half of a product; its bias is below `bound` / 2^64.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.0.next_u64()) * bound as u128) >> 64) as usize
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
