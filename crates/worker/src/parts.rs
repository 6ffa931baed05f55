//! The parts of tensors that the lanes of a worker sum.
//!
//! Tensors are cut between fragments, so that a fragment holds the same values with any number of
//! lanes: fixed point depends on the values of a whole fragment.

use tributary_protocol::{Tensor, Terms};

/// The first element of each lane's part of a tensor. The parts have nearly equal numbers of fragments;
/// some may be empty.
pub(crate) fn starts(elements: usize, lanes: usize, values_per_packet: usize) -> Vec<usize> {
    let fragments = elements.div_ceil(values_per_packet);
    (0..lanes).map(|lane| elements.min(fragments * lane / lanes * values_per_packet)).collect()
}

/// Cuts each tensor where its parts begin, into one for each lane. The parts stay in place.
pub(crate) fn cut(
    mut tensors: Vec<(Tensor, Terms)>,
    starts: &[Vec<usize>],
    lanes: usize,
    values_per_packet: usize,
) -> Vec<Vec<(Tensor, Terms)>> {
    let mut parts = Vec::with_capacity(lanes);
    for lane in (1..lanes).rev() {
        let cut = |((tensor, terms), starts): (&mut (Tensor, Terms), &Vec<usize>)| {
            let (start, mut terms) = (starts[lane], terms.clone());
            let fragments = start.div_ceil(values_per_packet);
            terms.scales = terms.scales.map(|scales| scales.after(fragments));
            // A tensor of more fragments is refused when it is submitted.
            let fragments = u32::try_from(fragments).unwrap_or(u32::MAX);
            terms.parts = terms.parts.map(|parts| parts.after(fragments));
            (tensor.split_off(start), terms)
        };
        parts.push(tensors.iter_mut().zip(starts).map(cut).collect());
    }
    parts.push(tensors);
    parts.reverse();
    parts
}

/// Joins the sums of all lanes.
pub(crate) fn join(lanes: impl Iterator<Item = Vec<Tensor>>) -> Vec<Tensor> {
    let append = |mut sums: Vec<Tensor>, parts: Vec<Tensor>| {
        sums.iter_mut().zip(parts).for_each(|(sum, part)| sum.join(part));
        sums
    };
    lanes.reduce(append).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_protocol::priority::Priority;
    use tributary_protocol::{Point, Scales};

    use super::*;

    proptest! {
        #[test]
        fn parts_of_whole_fragments_are_joined_to_the_same_tensors(
            lengths in prop::collection::vec(0..2_000_usize, 0..5),
            lanes in 1..20_usize,
            values in 1..100_usize,
        ) {
            let tensor = |(at, &length): (usize, &usize)| match at % 2 {
                0 => Tensor::F32((0..length).map(|value| value as f32).collect()),
                _ => Tensor::I32((0..length).map(|value| value as i32).collect()),
            };
            let tensors: Vec<Tensor> = lengths.iter().enumerate().map(tensor).collect();
            let point = |at: usize| Point { exponent: (at % 127) as i8, rest: 0 };
            let scales =
                |length: usize| Scales::new((0..length.div_ceil(values)).map(point).collect());
            let terms = |at: usize| Terms {
                scales: at.is_multiple_of(2).then(|| scales(lengths[at])),
                ..Terms::from([Priority::LOWEST, Priority::HIGHEST][at % 2])
            };
            let given = tensors.iter().cloned().enumerate().map(|(at, t)| (t, terms(at))).collect();
            let starts: Vec<_> = lengths.iter().map(|&n| starts(n, lanes, values)).collect();
            let parts = cut(given, &starts, lanes, values);
            prop_assert_eq!(parts.len(), lanes);
            for (at, &length) in lengths.iter().enumerate() {
                let sizes: Vec<usize> = parts.iter().map(|lane| lane[at].0.len()).collect();
                let fragments = sizes.iter().map(|size| size.div_ceil(values));
                prop_assert_eq!(fragments.clone().sum::<usize>(), length.div_ceil(values));
                prop_assert!(fragments.clone().max().unwrap() <= 1 + fragments.min().unwrap());
                let mut first = 0;
                for (part, own) in parts.iter().map(|lane| &lane[at]) {
                    prop_assert_eq!(own.priority, terms(at).priority);
                    for fragment in 0..part.len().div_ceil(values) {
                        let of = |terms: &Terms, at| terms.scales.as_ref().map(|all| all.of(at));
                        prop_assert_eq!(of(own, fragment), of(&terms(at), first + fragment));
                    }
                    first += part.len().div_ceil(values);
                }
            }
            let sums = parts.into_iter().map(|lane| lane.into_iter().map(|(part, _)| part).collect());
            prop_assert_eq!(join(sums), tensors);
        }
    }
}
