//! What ranks tell each other of the magnitudes of their values.
//!
//! The values of a call are divided into blocks of a few fragments. Each rank fills in an integer for each block, in
//! its own place; the sum is a list of all. A block's integer is small enough that no sum over 1024 workers
//! overflows.

use tributary_protocol::fixed;

/// Bits of a power of two in a block's integer.
const BITS: u32 = 8;
const MASK: i32 = (1 << BITS) - 1;

/// Powers are sent with this added, so that they are positive.
const BIAS: i32 = 127;

/// A sum has at most one integer about magnitudes for so many values.
const VALUES_PER_WORD: usize = 32;

/// Of so many values of a block that are not zero, one may be so small that its sum is not precise.
const SMALL_ONES: usize = 1000;

/// The magnitudes of a block of values: those of a rank, or of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Magnitudes {
    /// `None` if no finite value differs from zero.
    pub(crate) range: Option<Range>,
    /// Whether no value is NaN or infinite.
    pub(crate) finite: bool,
}

/// Powers of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    /// All values are below this one.
    pub(crate) high: i32,
    /// All but a few values that are not zero are not below this one.
    pub(crate) low: i32,
}

/// The greatest power of two that is not above a positive number.
fn floor(number: f32) -> i32 {
    // Exact, and normal as an `f64`.
    (f64::from(number).to_bits() >> 52) as i32 - 1023
}

impl Magnitudes {
    /// Those of values, of which a sum keeps so many bits below the greatest one.
    fn of(values: &[f32], bits: i32) -> Self {
        let (least, greatest) = fixed::range(values);
        if greatest == 0.0 {
            return Self { range: None, finite: true };
        }
        if !greatest.is_finite() {
            let numbers: Vec<f32> = values.iter().copied().filter(|v| v.is_finite()).collect();
            return Self { finite: false, ..Self::of(&numbers, bits) };
        }
        let (high, least) = (floor(greatest) + 1, floor(least));
        let low = if high - least <= bits { least } else { low(values) };
        Self { range: Some(Range { high, low }), finite: true }
    }

    fn encode(self) -> i32 {
        let code = |power: i32| (power + BIAS).clamp(1, MASK);
        let range = self.range.map_or(0, |range| code(range.high) | code(range.low) << BITS);
        range | i32::from(!self.finite) << (2 * BITS)
    }

    fn decode(code: i32) -> Self {
        let power = |code: i32| (code & MASK) - BIAS;
        let range = Range { high: power(code), low: power(code >> BITS) };
        Self { range: (code & MASK != 0).then_some(range), finite: code >> (2 * BITS) == 0 }
    }

    fn and(self, other: Self) -> Self {
        let range = match (self.range, other.range) {
            (Some(one), Some(two)) => {
                Some(Range { high: one.high.max(two.high), low: one.low.min(two.low) })
            }
            (one, two) => one.or(two),
        };
        Self { range, finite: self.finite && other.finite }
    }
}

/// The greatest power of two below which at most one in a thousand non-zero values lies.
fn low(values: &[f32]) -> i32 {
    const LEAST: i32 = -149;
    let mut counts = [0_usize; 277];
    let powers = values.iter().filter(|value| **value != 0.0).map(|value| floor(value.abs()));
    powers.for_each(|power| counts[(power - LEAST) as usize] += 1);
    let mut few = counts.iter().sum::<usize>() / SMALL_ONES;
    let small = counts
        .iter()
        .take_while(|count| few.checked_sub(**count).inspect(|left| few = *left).is_some());
    LEAST + small.count() as i32
}

/// How a call's values are divided into blocks, the same at all ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Blocks {
    elements: usize,
    ranks: usize,
    values_per_packet: usize,
    /// Of a block.
    fragments: usize,
}

impl Blocks {
    pub(crate) fn new(elements: usize, ranks: u16, values_per_packet: u16) -> Self {
        let (ranks, values_per_packet) = (usize::from(ranks), usize::from(values_per_packet));
        let fragments = (VALUES_PER_WORD * ranks).div_ceil(values_per_packet).max(1);
        Self { elements, ranks, values_per_packet, fragments }
    }

    /// Elements of a block; the last one may have fewer.
    pub(crate) fn size(&self) -> usize {
        self.fragments * self.values_per_packet
    }

    fn count(&self) -> usize {
        self.elements.div_ceil(self.size())
    }

    /// Integers of a list of all ranks' magnitudes.
    pub(crate) fn words(&self) -> usize {
        self.count() * self.ranks
    }

    /// The block of each fragment.
    pub(crate) fn of_fragments(&self) -> impl Iterator<Item = usize> + use<> {
        let per_block = self.fragments;
        (0..self.elements.div_ceil(self.values_per_packet)).map(move |at| at / per_block)
    }

    /// The magnitudes of each block of a rank's values, of which a sum keeps so many bits.
    pub(crate) fn measure(&self, values: &[f32], bits: i32) -> Vec<Magnitudes> {
        values.chunks(self.size()).map(|block| Magnitudes::of(block, bits)).collect()
    }

    /// Appends a list in which one rank has filled in its place.
    pub(crate) fn append(&self, words: &mut Vec<i32>, rank: u16, own: &[Magnitudes]) {
        let place = words.len() + self.count() * usize::from(rank);
        words.resize(words.len() + self.words(), 0);
        let place = words[place..].iter_mut();
        place.zip(own).for_each(|(word, magnitudes)| *word = magnitudes.encode());
    }

    /// Those of all ranks together, from the sum of their lists.
    pub(crate) fn of_all(&self, sums: &[i32]) -> Vec<Magnitudes> {
        let mut ranks = sums.chunks_exact(self.count().max(1)).take(self.ranks);
        let decode = |words: &[i32]| words.iter().copied().map(Magnitudes::decode).collect();
        let mut all: Vec<_> = ranks.next().map(decode).unwrap_or_default();
        for words in ranks {
            let others = words.iter().copied().map(Magnitudes::decode);
            all.iter_mut().zip(others).for_each(|(all, other)| *all = all.and(other));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_one(value: f32) -> Range {
        Magnitudes::of(&[value], 20).range.unwrap()
    }

    #[test]
    fn few_small_values_do_not_count() {
        let mut values = vec![1.0; 5500];
        values[..5].fill(1e-30);
        let all = Magnitudes::of(&values, 20);
        assert_eq!(all, Magnitudes { range: Some(Range { high: 1, low: 0 }), finite: true });
        values[5] = -1e-20;
        assert_eq!(Magnitudes::of(&values, 20).range.unwrap().low, -67);
        values[6] = f32::NEG_INFINITY;
        assert_eq!(
            Magnitudes::of(&values, 20),
            Magnitudes { range: Some(Range { high: 1, low: -67 }), finite: false }
        );
        let none = Magnitudes { range: None, finite: false };
        assert_eq!(Magnitudes::of(&[0.0, f32::NAN, -0.0], 20), none);
    }

    proptest! {
        #[test]
        fn values_are_between_their_powers(value in any::<f32>()) {
            prop_assume!(value.is_finite() && value != 0.0);
            let Range { high, low } = of_one(value);
            let magnitude = f64::from(value.abs());
            prop_assert!(f64::from(low).exp2() <= magnitude && magnitude < f64::from(high).exp2());
            prop_assert_eq!(high, low + 1);
        }

        #[test]
        fn all_ranks_learn_the_magnitudes_of_all(
            values in prop::collection::vec(prop::collection::vec(any::<f32>(), 1000), 1..40),
            per_packet in 8..300_u16,
        ) {
            let ranks = values.len() as u16;
            let blocks = Blocks::new(1000, ranks, per_packet);
            prop_assert!(blocks.words() <= 1000_usize.div_ceil(VALUES_PER_WORD) + usize::from(ranks));
            let mut sums = vec![0; 3 + blocks.words()];
            for (rank, own) in (0..).zip(&values) {
                let mut words = vec![0; 3];
                blocks.append(&mut words, rank, &blocks.measure(own, 20));
                // No sum of as many as the most workers overflows.
                prop_assert!(words.iter().all(|word| (0..=i32::MAX / 1024).contains(word)));
                sums.iter_mut().zip(words).for_each(|(sum, word)| *sum += word);
            }
            let found = blocks.of_all(&sums[3..]);
            for (at, found) in found.iter().enumerate() {
                let block = at * blocks.size()..1000.min((at + 1) * blocks.size());
                let all = values.iter().flat_map(|own| own[block.clone()].iter().copied());
                let finite: Vec<f32> = all.clone().filter(|value| value.is_finite()).collect();
                prop_assert_eq!(found.finite, all.clone().count() == finite.len());
                let greatest = fixed::greatest(&finite);
                let high = (greatest != 0.0).then(|| of_one(greatest).high.max(1 - BIAS));
                prop_assert_eq!(found.range.map(|range| range.high), high);
            }
            prop_assert_eq!(blocks.of_fragments().last().unwrap(), found.len() - 1);
        }
    }
}
