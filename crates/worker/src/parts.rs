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
