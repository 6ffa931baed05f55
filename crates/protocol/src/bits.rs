//! A set of the sequences in a window, one bit each.

/// A set of numbers, any two of which are less than `slots` apart. All operations take constant
/// time except the search, which tests 64 numbers at a time.
#[derive(Clone, Debug)]
pub(crate) struct SlotSet {
    words: Box<[u64]>,
    /// `slots` − 1, where `slots` is a power of two.
    mask: u32,
    /// Number of members: most sets are empty most of the time, and then nothing is searched.
    members: u32,
}

impl SlotSet {
    pub(crate) fn new(slots: u32) -> Self {
        debug_assert!(slots.is_power_of_two());
        Self { words: vec![0; slots.div_ceil(64) as usize].into(), mask: slots - 1, members: 0 }
    }

    /// Index of the word, and of the bit in it, of a number.
    fn place(&self, number: u32) -> (usize, u32) {
        let slot = number & self.mask;
        ((slot / 64) as usize, slot % 64)
    }

    pub(crate) fn insert(&mut self, number: u32) {
        let (word, bit) = self.place(number);
        self.members += u32::from(self.words[word] >> bit & 1 == 0);
        self.words[word] |= 1 << bit;
    }

    pub(crate) fn remove(&mut self, number: u32) {
        let (word, bit) = self.place(number);
        self.members -= u32::from(self.words[word] >> bit & 1 == 1);
        self.words[word] &= !(1 << bit);
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        let (word, bit) = self.place(number);
        self.words[word] >> bit & 1 == 1
    }

    /// The lowest member in `from..to`. The range is at most `slots` long.
    #[inline]
    pub(crate) fn next(&self, from: u32, to: u32) -> Option<u32> {
        let mut number = if self.members == 0 { to } else { from };
        while number < to {
            let (word, bit) = self.place(number);
            let rest = self.words[word] >> bit;
            if rest != 0 {
                let found = number + rest.trailing_zeros();
                return (found < to).then_some(found);
            }
            // To the end of the word, or of a ring that is shorter than a word.
            number += (64 - bit).min(self.mask + 1 - (number & self.mask));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(
            log in 0u32..9,
            base in 0u32..100_000,
            steps in prop::collection::vec((any::<bool>(), any::<u32>()), 0..200),
        ) {
            let slots = 1 << log;
            let mut set = SlotSet::new(slots);
            let mut model = BTreeSet::new();
            for (insert, offset) in steps {
                let number = base + offset % slots;
                if insert {
                    set.insert(number);
                    model.insert(number);
                } else {
                    set.remove(number);
                    model.remove(&number);
                }
                prop_assert_eq!(set.contains(number), insert);
                for (from, to) in [(base, base + slots), (number, base + slots), (base, number)] {
                    prop_assert_eq!(set.next(from, to), model.range(from..to).next().copied());
                }
            }
        }
    }
}
