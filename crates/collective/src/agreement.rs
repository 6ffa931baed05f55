//! What ranks tell each other before each sum.
//!
//! A rank's place has [`WORDS`] integers, small enough that no sum over 1024 workers overflows.

use std::fmt::Write as _;

use crate::ElementType;

/// Integers in a rank's place.
pub const WORDS: usize = 5;

/// Bits of a word.
const BITS: u32 = 20;
const MASK: u64 = (1 << BITS) - 1;

/// Operations that a rank may call, and names of types, by their number on the wire.
const OPERATIONS: [&str; 16] = [
    "sum",
    "average",
    "all_reduce",
    "broadcast",
    "all_gather",
    "all_gather_into_tensor",
    "gather",
    "scatter",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "all_reduce_coalesced",
    "all_gather_coalesced",
];
const TYPES: [&str; 3] = ["float32", "float16", "bfloat16"];

/// Exponents are sent with this added, so that they are positive.
const BIAS: i32 = 256;
const NOT_FINITE: u64 = 1;

/// What a rank calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Number of the operation.
    operation: u16,
    /// Number of the type of its elements.
    element: u16,
    /// Their number.
    pub elements: u64,
    /// Their magnitude.
    pub magnitude: Magnitude,
}

/// The greatest magnitude of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Magnitude {
    /// All are zero.
    Zero,
    /// Below 2 to this power, and not below half of that.
    Below(i32),
    /// One is NaN or infinite.
    NotFinite,
}

impl Magnitude {
    /// That of a number.
    #[must_use]
    pub fn of(greatest: f32) -> Self {
        if !greatest.is_finite() {
            return Self::NotFinite;
        }
        if greatest == 0.0 {
            return Self::Zero;
        }
        // Exact, and normal as an `f64`.
        let bits = f64::from(greatest.abs()).to_bits();
        Self::Below((bits >> 52) as i32 - 1022)
    }

    fn code(self) -> u64 {
        match self {
            Self::Zero => 0,
            Self::NotFinite => NOT_FINITE,
            Self::Below(exponent) => (exponent + BIAS) as u64,
        }
    }

    fn decode(code: u64) -> Self {
        match code {
            0 => Self::Zero,
            NOT_FINITE => Self::NotFinite,
            code => Self::Below(code as i32 - BIAS),
        }
    }
}

/// The place of a name in a list, or a number after it that depends on the name.
fn number(names: &[&str], name: &str) -> u16 {
    let listed = names.iter().position(|listed| *listed == name);
    let hash = name.bytes().fold(0_u16, |hash, byte| hash.wrapping_mul(31) ^ u16::from(byte));
    listed.map_or(names.len() as u16 + hash % 900, |at| at as u16)
}

fn name(names: &[&'static str], number: u16) -> &'static str {
    names.get(usize::from(number)).copied().unwrap_or("another")
}

impl Claim {
    /// A sum of values of which this is the greatest magnitude.
    #[must_use]
    pub fn sum(average: bool, elements: u64, element: ElementType, greatest: f32) -> Self {
        let operation = if average { "average" } else { "sum" };
        let magnitude = Magnitude::of(greatest);
        Self { magnitude, ..Self::elsewhere(operation, elements, element.name()) }
    }

    /// An operation that is carried out elsewhere.
    #[must_use]
    pub fn elsewhere(operation: &str, elements: u64, element: &str) -> Self {
        Self {
            operation: number(&OPERATIONS, operation),
            element: number(&TYPES, element),
            elements,
            magnitude: Magnitude::Zero,
        }
    }

    /// Whether two ranks call the same.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        let call = |claim: &Self| (claim.operation, claim.element, claim.elements);
        call(self) == call(other)
    }

    /// In words.
    #[must_use]
    pub fn describe(&self) -> String {
        let operation = name(&OPERATIONS, self.operation);
        format!("{operation} of {} × {}", self.elements, name(&TYPES, self.element))
    }

    /// The integers of a fragment in which one rank has filled in its place.
    #[must_use]
    pub fn encode(&self, rank: u16, ranks: u16) -> Vec<i32> {
        let mut words = vec![0; WORDS * usize::from(ranks)];
        let call = u64::from(self.operation) << 10 | u64::from(self.element);
        let parts = [
            call,
            self.elements & MASK,
            self.elements >> BITS & MASK,
            self.elements >> (2 * BITS) & MASK,
            self.magnitude.code(),
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
                operation: (word(0) >> 10) as u16,
                element: (word(0) & 0x3ff) as u16,
                elements: word(1) | word(2) << BITS | word(3) << (2 * BITS),
                magnitude: Magnitude::decode(word(4)),
            }
        };
        sums.chunks_exact(WORDS).take(ranks.into()).map(decode).collect()
    }
}

/// Whether one fragment holds the claims of all ranks, and the values of all.
#[must_use]
pub fn fits(elements: u64, ranks: u16, values_per_packet: u16) -> bool {
    let words = (WORDS as u64).saturating_add(elements.saturating_mul(2));
    words.saturating_mul(ranks.into()) <= values_per_packet.into()
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

/// The sums of values that were appended, added in the order of the ranks and rounded once.
#[must_use]
pub fn add_up(sums: &[i32], ranks: u16) -> Vec<f32> {
    let appended = &sums[WORDS * usize::from(ranks)..];
    let words = appended.len() / usize::from(ranks);
    let value = |word: &[i32]| f64::from(f32::from_bits((word[0] as u32) << 16 | word[1] as u32));
    let of = |rank: usize, at: usize| value(&appended[rank * words + 2 * at..]);
    let sum = |at| (0..usize::from(ranks)).map(|rank| of(rank, at)).sum::<f64>() as f32;
    (0..words / 2).map(sum).collect()
}

/// Who calls what, in a line. Ranks that call the same are named together.
#[must_use]
pub fn who_calls_what(claims: &[Claim]) -> String {
    let mut calls: Vec<(&Claim, Vec<usize>)> = Vec::new();
    for (rank, claim) in claims.iter().enumerate() {
        match calls.iter_mut().find(|(known, _)| known.agrees(claim)) {
            Some((_, ranks)) => ranks.push(rank),
            None => calls.push((claim, vec![rank])),
        }
    }
    let mut text = String::new();
    for (at, (claim, ranks)) in calls.iter().enumerate() {
        let comma = if at > 0 { ", " } else { "" };
        let verb = if ranks.len() == 1 { "calls" } else { "call" };
        write!(text, "{comma}{} {verb} {}", names(ranks), claim.describe()).expect("a string");
    }
    text
}

/// `rank 3`, or `ranks 0, 1 and 2`.
#[must_use]
pub fn names(ranks: &[usize]) -> String {
    let text = |ranks: &[usize]| ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    match ranks {
        [one] => format!("rank {one}"),
        [rest @ .., last] => format!("ranks {} and {last}", text(rest)),
        [] => "no rank".into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claims() -> impl Strategy<Value = Claim> {
        let magnitude = prop_oneof![
            any::<f32>().prop_map(Magnitude::of),
            Just(Magnitude::Zero),
            (0..23_u32).prop_map(|bit| Magnitude::of(f32::from_bits(1 << bit))),
        ];
        let operation = prop_oneof![(0..16_usize).prop_map(|at| OPERATIONS[at].to_owned()), ".*"];
        let element = prop_oneof![(0..3_usize).prop_map(|at| TYPES[at].to_owned()), ".*"];
        (operation, element, 0..1_u64 << 60, magnitude).prop_map(|(o, e, elements, magnitude)| {
            Claim { magnitude, ..Claim::elsewhere(&o, elements, &e) }
        })
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
            let claim = Claim::sum(false, 3, ElementType::F32, 1.0);
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

        #[test]
        fn a_magnitude_is_below_its_power_of_two(value in any::<f32>()) {
            match Magnitude::of(value) {
                Magnitude::Below(power) => {
                    let bound = f64::from(power).exp2();
                    prop_assert!(f64::from(value.abs()) < bound);
                    prop_assert!(f64::from(value.abs()) >= bound / 2.0);
                }
                Magnitude::Zero => prop_assert_eq!(value, 0.0),
                Magnitude::NotFinite => prop_assert!(!value.is_finite()),
            }
        }
    }

    #[test]
    fn ranks_that_differ_are_named() {
        let sum = |elements| Claim::sum(false, elements, ElementType::F32, 1.0);
        let claims = [sum(10), sum(10), Claim::elsewhere("broadcast", 5, "int64"), sum(10)];
        let text = who_calls_what(&claims);
        let expected = "ranks 0, 1 and 3 call sum of 10 × float32, \
                        rank 2 calls broadcast of 5 × another";
        assert_eq!(text, expected);
    }
}
