//! The parts of tensors that the lanes of a worker sum.
//!
//! Tensors are cut between fragments, so that a fragment holds the same values with any number of
//! lanes: fixed point depends on the values of a whole fragment.

use tributary_protocol::Tensor;
use tributary_protocol::priority::Priority;

/// The first element of each lane's part of a tensor. The parts have nearly equal numbers of fragments;
/// some may be empty.
pub(crate) fn starts(elements: usize, lanes: usize, values_per_packet: usize) -> Vec<usize> {
    let fragments = elements.div_ceil(values_per_packet);
    (0..lanes).map(|lane| elements.min(fragments * lane / lanes * values_per_packet)).collect()
}

/// Cuts each tensor where its parts begin, into one for each lane. The first parts keep the memory of
/// the tensors; the others are copies.
pub(crate) fn cut(
    mut tensors: Vec<(Tensor, Priority)>,
    starts: &[Vec<usize>],
    lanes: usize,
) -> Vec<Vec<(Tensor, Priority)>> {
    let mut parts = Vec::with_capacity(lanes);
    for lane in (1..lanes).rev() {
        let whole = tensors.iter_mut().zip(starts);
        let part =
            whole.map(|((tensor, priority), starts)| (split_off(tensor, starts[lane]), *priority));
        parts.push(part.collect());
    }
    parts.push(tensors);
    parts.reverse();
    parts
}

/// Joins the sums of all lanes.
pub(crate) fn join(lanes: impl Iterator<Item = Vec<Tensor>>) -> Vec<Tensor> {
    let append = |mut sums: Vec<Tensor>, parts: Vec<Tensor>| {
        sums.iter_mut().zip(parts).for_each(|(sum, part)| append(sum, part));
        sums
    };
    lanes.reduce(append).unwrap_or_default()
}

fn split_off(tensor: &mut Tensor, at: usize) -> Tensor {
    match tensor {
        Tensor::F32(values) => Tensor::F32(values.split_off(at)),
        Tensor::I32(values) => Tensor::I32(values.split_off(at)),
    }
}

fn append(sum: &mut Tensor, part: Tensor) {
    match (sum, part) {
        (Tensor::F32(sum), Tensor::F32(part)) => sum.extend_from_slice(&part),
        (Tensor::I32(sum), Tensor::I32(part)) => sum.extend_from_slice(&part),
        _ => unreachable!("the type of a tensor is that of its sum"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            let priority = |at: usize| [Priority::LOWEST, Priority::HIGHEST][at % 2];
            let given = tensors.iter().cloned().enumerate().map(|(at, t)| (t, priority(at))).collect();
            let starts: Vec<_> = lengths.iter().map(|&n| starts(n, lanes, values)).collect();
            let parts = cut(given, &starts, lanes);
            prop_assert_eq!(parts.len(), lanes);
            for (at, &length) in lengths.iter().enumerate() {
                let sizes: Vec<usize> = parts.iter().map(|lane| lane[at].0.len()).collect();
                let fragments = sizes.iter().map(|size| size.div_ceil(values));
                prop_assert_eq!(fragments.clone().sum::<usize>(), length.div_ceil(values));
                prop_assert!(fragments.clone().max().unwrap() <= 1 + fragments.min().unwrap());
                prop_assert!(parts.iter().all(|lane| lane[at].1 == priority(at)));
            }
            let sums = parts.into_iter().map(|lane| lane.into_iter().map(|(part, _)| part).collect());
            prop_assert_eq!(join(sums), tensors);
        }
    }
}
