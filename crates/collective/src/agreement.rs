//! What ranks tell each other before each sum.
//!
//! A rank's place has [`WORDS`] integers, small enough that no sum over 1024 workers overflows.

use tributary_wire::ranges;

/// Integers in a rank's place.
pub const WORDS: usize = 4;

/// Bits of a word.
const BITS: u32 = 20;
const MASK: u64 = (1 << BITS) - 1;

/// Bytes of a call's description, of which a word holds two.
pub const TEXT: usize = 64;

/// What a rank calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Stands for the operation and the type of its elements.
    kind: u32,
    /// Their number.
    pub elements: u64,
}

impl Claim {
    /// An operation on this number of elements of a type.
    #[must_use]
    pub fn new(operation: &str, elements: u64, element: &str) -> Self {
        // FNV-1a, folded to the bits of a word.
        let bytes = operation.bytes().chain([0]).chain(element.bytes());
        let hash = bytes
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let kind = (hash >> BITS ^ hash) & MASK as u32;
        Self { kind, elements }
    }

    /// Stands for the operation and the type.
    #[must_use]
    pub fn kind(&self) -> u32 {
        self.kind
    }

    /// The integers of a fragment in which one rank has filled in its place.
    #[must_use]
    pub fn encode(&self, rank: u16, ranks: u16) -> Vec<i32> {
        let mut words = vec![0; WORDS * usize::from(ranks)];
        let parts = [
            self.kind.into(),
            self.elements & MASK,
            self.elements >> BITS & MASK,
            self.elements >> (2 * BITS) & MASK,
        ];
        for (word, part) in words[WORDS * usize::from(rank)..].iter_mut().zip(parts) {
            *word = part as i32;
        }
        words
    }

    /// The claims of all ranks, from the sum of their fragments.
    #[must_use]
    pub fn decode_all(sums: &[i32], ranks: u16) -> Vec<Self> {
        let decode = |words: &[i32]| {
            let word = |at: usize| words[at] as u64;
            Self {
                kind: word(0) as u32,
                elements: word(1) | word(2) << BITS | word(3) << (2 * BITS),
            }
        };
        sums.chunks_exact(WORDS).take(ranks.into()).map(decode).collect()
    }
}

/// Whether one fragment holds the claims of all ranks, and the values of all.
#[must_use]
pub fn fits(elements: usize, ranks: u16, values_per_packet: u16) -> bool {
    let words = elements.saturating_mul(2).saturating_mul(ranks.into());
    has_room(words, ranks, values_per_packet)
}

/// Whether one fragment holds the claims of all ranks, and so many integers.
#[must_use]
pub fn has_room(words: usize, ranks: u16, values_per_packet: u16) -> bool {
    words.saturating_add(WORDS * usize::from(ranks)) <= values_per_packet.into()
}

/// What follows the claims in the sum of their fragments.
#[must_use]
pub fn after_claims(sums: &[i32], ranks: u16) -> &[i32] {
    &sums[WORDS * usize::from(ranks)..]
}

/// Appends a place for the values of each rank to the claims, and fills in one rank's. A value is two
/// halves of its bits.
pub fn append(words: &mut Vec<i32>, rank: u16, ranks: u16, values: &[f32]) {
    let place = words.len() + 2 * values.len() * usize::from(rank);
    words.resize(words.len() + 2 * values.len() * usize::from(ranks), 0);
    for (word, value) in words[place..].chunks_exact_mut(2).zip(values) {
        word[0] = (value.to_bits() >> 16) as i32;
        word[1] = (value.to_bits() & 0xffff) as i32;
    }
}

/// The values that were appended for a rank.
fn appended(sums: &[i32], rank: usize, ranks: u16) -> impl Iterator<Item = f32> {
    let appended = after_claims(sums, ranks);
    let words = appended.len() / usize::from(ranks);
    let value = |word: &[i32]| f32::from_bits((word[0] as u32) << 16 | word[1] as u32);
    appended[rank * words..(rank + 1) * words].chunks_exact(2).map(value)
}

/// The sums of values that were appended, added in the order of the ranks and rounded once.
#[must_use]
pub fn add_up(sums: &[i32], ranks: u16) -> Vec<f32> {
    let mut totals: Vec<f64> = appended(sums, 0, ranks).map(f64::from).collect();
    for rank in 1..ranks.into() {
        let own = appended(sums, rank, ranks);
        totals.iter_mut().zip(own).for_each(|(total, value)| *total += f64::from(value));
    }
    totals.into_iter().map(|total| total as f32).collect()
}

/// Whether all values that were appended are finite.
#[must_use]
pub fn are_finite(sums: &[i32], ranks: u16) -> bool {
    (0..ranks.into()).all(|rank| appended(sums, rank, ranks).all(f32::is_finite))
}

/// What a rank calls, in words.
#[must_use]
pub fn describe(operation: &str, elements: u64, element: &str) -> String {
    match element {
        "" => operation.to_owned(),
        _ => format!("{operation} of {elements} × {element}"),
    }
}

/// The integers of a fragment in which one rank has filled in the description of its call, of which it
/// takes the first [`TEXT`] bytes.
#[must_use]
pub fn encode_text(text: &str, rank: u16, ranks: u16) -> Vec<i32> {
    let mut bytes = [0; TEXT];
    bytes.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
    let mut words = vec![0; TEXT / 2 * usize::from(ranks)];
    let own = words[TEXT / 2 * usize::from(rank)..].iter_mut();
    for (word, pair) in own.zip(bytes.chunks_exact(2)) {
        *word = i32::from(u16::from_be_bytes([pair[0], pair[1]]));
    }
    words
}

/// The descriptions of all ranks, from the sum of their fragments.
#[must_use]
pub fn decode_texts(sums: &[i32]) -> Vec<String> {
    let decode = |words: &[i32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| (*word as u16).to_be_bytes()).collect();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(TEXT);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    sums.chunks_exact(TEXT / 2).map(decode).collect()
}

/// Ascending ranks in words: `rank 3`, `ranks 0–2`, or `ranks 0, 1 and 4–7`.
#[must_use]
pub fn names(ranks: &[usize]) -> String {
    let ranges = ranges(ranks.iter().map(|&rank| rank as u64));
    match &ranges[..] {
        [] => "no rank".into(),
        [one] if ranks.len() == 1 => format!("rank {one}"),
        [one] => format!("ranks {one}"),
        [rest @ .., last] => format!("ranks {} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::members::Members;

    fn claims() -> impl Strategy<Value = Claim> {
        (".*", ".*", 0..1_u64 << 60)
            .prop_map(|(operation, element, elements)| Claim::new(&operation, elements, &element))
    }

    proptest! {
        #[test]
        fn every_rank_learns_the_claims_of_all(claims in prop::collection::vec(claims(), 1..40)) {
            let ranks = claims.len() as u16;
            let mut sums = vec![0; WORDS * claims.len()];
            for (rank, claim) in (0..).zip(&claims) {
                let words = claim.encode(rank, ranks);
                // No sum of as many as the most workers overflows.
                prop_assert!(words.iter().all(|word| (0..=i32::MAX / 1024).contains(word)));
                sums.iter_mut().zip(words).for_each(|(sum, word)| *sum += word);
            }
            prop_assert_eq!(Claim::decode_all(&sums, ranks), claims);
        }

        #[test]
        fn appended_values_are_added_as_floats(
            values in prop::collection::vec(prop::collection::vec(any::<f32>(), 3), 1..20),
        ) {
            let ranks = values.len() as u16;
            let claim = Claim::new("sum", 3, "float32");
            let mut sums = vec![0; (WORDS + 6) * values.len()];
            for (rank, own) in (0..).zip(&values) {
                let mut words = claim.encode(rank, ranks);
                append(&mut words, rank, ranks, own);
                sums.iter_mut().zip(words).for_each(|(sum, word)| *sum += word);
            }
            prop_assert_eq!(Claim::decode_all(&sums, ranks), vec![claim; values.len()]);
            let expected = (0..3).map(|at| {
                values.iter().map(|own| f64::from(own[at])).sum::<f64>() as f32
            });
            let bits = |value: f32| if value.is_nan() { 0 } else { value.to_bits() };
            let found: Vec<_> = add_up(&sums, ranks).into_iter().map(bits).collect();
            prop_assert_eq!(found, expected.map(bits).collect::<Vec<_>>());
        }
    }

    #[test]
    fn ranks_that_differ_are_named() {
        let sum = describe("sum", 10, "float32");
        let long = format!("broadcast{}", "ä".repeat(100));
        let texts = [&sum, &sum, &long, &sum];
        let mut sums = vec![0; TEXT / 2 * 4];
        for (rank, text) in (0..).zip(texts) {
            let words = encode_text(text, rank, 4);
            sums.iter_mut().zip(words).for_each(|(sum, word)| *sum += word);
        }
        let line = Members::each_alone(4).who_calls_what(&decode_texts(&sums));
        let expected = "ranks 0, 1 and 3 call sum of 10 × float32, rank 2 calls broadcastää";
        assert!(line.starts_with(expected), "{line}");
    }

    #[test]
    fn calls_that_differ_in_anything_disagree() {
        let sum = Claim::new("sum", 10, "float32");
        for other in [("average", 10, "float32"), ("sum", 11, "float32"), ("sum", 10, "float16")] {
            assert_ne!(sum, Claim::new(other.0, other.1, other.2));
        }
    }
}
