//! A short digest of a set of weights, for reports and comparison by eye.

use tributary_base::Fnv;

/// Digest of the bits of tensors: lengths as 64-bit, values as 32-bit little-endian words, in
/// order. It distinguishes `0.0` from `-0.0`, and one tensor of two values from two of one.
pub(crate) fn of_tensors(tensors: &[Vec<f32>]) -> u64 {
    let mut fnv = Fnv::default();
    for tensor in tensors {
        fnv.write(&(tensor.len() as u64).to_le_bytes());
        for value in tensor {
            fnv.write(&value.to_bits().to_le_bytes());
        }
    }
    fnv.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_and_the_layout_count() {
        let base = of_tensors(&[vec![1.0, 0.0]]);
        assert_ne!(base, of_tensors(&[vec![1.0, -0.0]]));
        assert_ne!(base, of_tensors(&[vec![1.0], vec![0.0]]));
        assert_ne!(base, of_tensors(&[vec![f32::from_bits(1.0f32.to_bits() + 1), 0.0]]));
        assert_eq!(base, of_tensors(&[vec![1.0, 0.0]]));
    }
}
