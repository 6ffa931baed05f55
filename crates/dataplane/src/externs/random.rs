//! The generator of `random()`: seeded, so that a run can be repeated.

/// Increment of the counter.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The `number`th output of a generator that starts at zero.
pub(crate) const fn mix(number: u64) -> u64 {
    scramble(number.wrapping_mul(STEP))
}

const fn scramble(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// SplitMix64: a counter with a mixing function.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        scramble(self.0)
    }

    /// A uniform number within `low..=high`; `None` if the range is empty.
    pub(crate) fn within(&mut self, low: u64, high: u64) -> Option<u64> {
        let span = high.checked_sub(low)?;
        let Some(count) = span.checked_add(1) else { return Some(self.next()) };
        // Lemire's method, which avoids a division in the common case.
        loop {
            let product = u128::from(self.next()) * u128::from(count);
            if product as u64 >= count || product as u64 >= count.wrapping_neg() % count {
                return Some(low + (product >> 64) as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_within_bounds_and_reach_all_of_a_small_range() {
        let mut random = Random::new(7);
        let mut seen = [0u32; 6];
        for _ in 0..6000 {
            seen[random.within(10, 15).unwrap() as usize - 10] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
        assert_eq!(random.within(3, 3), Some(3));
        assert_eq!(random.within(4, 3), None);
        assert!(random.within(0, u64::MAX).is_some());
    }
}
