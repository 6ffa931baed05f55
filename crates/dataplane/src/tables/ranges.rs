//! Keys that are matched by range.

/// A range for a key.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// The key's first word.
    pub(super) first: u32,
    pub(super) low: Box<[u64]>,
    pub(super) high: Box<[u64]>,
}

impl Bounds {
    pub(super) fn contains(&self, key: &[u64]) -> bool {
        let value = key[self.first as usize..][..self.low.len()].iter().rev();
        value.clone().ge(self.low.iter().rev()) && value.le(self.high.iter().rev())
    }
}

/// An index of entries with ranges: where to begin a search through them, best first.
///
/// An entry matches only if it is among those whose range begins at the key or below it, and among
/// those whose range ends at the key or above it. The best of each are known in logarithmic time, and
/// no better entry can match. Entries of a slot have the longest prefix in common that both bounds of
/// their ranges have. So all ranges contain the middle of the numbers with this prefix, each key is on
/// one side of it, and the worse of the two matches, unless there are several ranges.
#[derive(Clone, Debug)]
pub(super) struct Stabs {
    keys: Vec<Stab>,
    /// Number of entries.
    count: usize,
}

/// The ranges for one key.
#[derive(Clone, Debug)]
struct Stab {
    /// The key's first word, and number of words.
    first: usize,
    words: usize,
    /// The bounds in ascending order, each with the best position up to it.
    lows: Box<[(u128, u32)]>,
    /// The bounds in descending order, each with the best position up to it.
    highs: Box<[(u128, u32)]>,
}

impl Stabs {
    /// An index of the entries with these ranges, best first; none if it would not help.
    pub(super) fn new<'a, I>(rows: impl Fn() -> I) -> Option<Box<Self>>
    where
        I: ExactSizeIterator<Item = &'a [Bounds]>,
    {
        let of_key = |key: usize| -> Stab {
            let ranges = || rows().map(|ranges| &ranges[key]).zip(0..);
            let (first, words) = rows()
                .next()
                .map_or((0, 0), |ranges| (ranges[key].first as usize, ranges[key].low.len()));
            let mut lows: Box<[_]> = ranges().map(|(range, at)| (number(&range.low), at)).collect();
            lows.sort_unstable();
            keep_best(&mut lows);
            let mut highs: Box<[_]> =
                ranges().map(|(range, at)| (number(&range.high), at)).collect();
            highs.sort_unstable_by_key(|&(high, _)| std::cmp::Reverse(high));
            keep_best(&mut highs);
            Stab { first, words, lows, highs }
        };
        let indexed =
            rows().next()?.iter().enumerate().filter(|(_, range)| range.low.len() <= WORDS);
        let keys: Vec<Stab> = indexed.map(|(key, _)| of_key(key)).collect();
        (!keys.is_empty()).then(|| Box::new(Self { keys, count: rows().len() }))
    }

    /// The position of the first entry that may match.
    pub(super) fn first(&self, key: &[u64]) -> usize {
        let of_key = |stab: &Stab| {
            let key = number(&key[stab.first..][..stab.words]);
            let lows = stab.lows.partition_point(|&(low, _)| low <= key);
            let highs = stab.highs.partition_point(|&(high, _)| high >= key);
            let best = |bounds: &[(u128, u32)], count: usize| {
                count.checked_sub(1).map_or(self.count, |last| bounds[last].1 as usize)
            };
            best(&stab.lows, lows).max(best(&stab.highs, highs))
        };
        self.keys.iter().map(of_key).max().unwrap_or(0)
    }
}

/// Keys of up to this many words are indexed.
const WORDS: usize = 2;

fn number(words: &[u64]) -> u128 {
    words.iter().rev().fold(0, |number, &word| number << 64 | u128::from(word))
}

/// Replaces each position by the best so far.
fn keep_best(bounds: &mut [(u128, u32)]) {
    let mut best = u32::MAX;
    for (_, at) in bounds {
        best = best.min(*at);
        *at = best;
    }
}
