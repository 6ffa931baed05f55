//! A short digest of a set of weights, for reports and comparison by eye.

/// FNV-1a over 64 bits (Fowler, Noll and Vo). Detects accidents, not attacks.
#[derive(Clone, Copy, Debug)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self::new()
    }
}

impl Fnv {
    /// The digest of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// The digest of all bytes so far.
    #[must_use]
    pub fn finish(self) -> u64 {
        self.0
    }
}

/// Digest of the bits of tensors: lengths as 64-bit, values as 32-bit little-endian words, in
/// order. It distinguishes `0.0` from `-0.0`, and one tensor of two values from two of one.
pub(crate) fn of_tensors(tensors: &[Vec<f32>]) -> u64 {
    let mut fnv = Fnv::new();
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

    /// Test vectors published by the function's authors.
    #[test]
    fn known_digests() {
        for (text, digest) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8u64),
        ] {
            let mut fnv = Fnv::new();
            fnv.write(text.as_bytes());
            assert_eq!(fnv.finish(), digest, "{text}");
        }
    }

    #[test]
    fn every_bit_and_the_layout_count() {
        let base = of_tensors(&[vec![1.0, 0.0]]);
        assert_ne!(base, of_tensors(&[vec![1.0, -0.0]]));
        assert_ne!(base, of_tensors(&[vec![1.0], vec![0.0]]));
        assert_ne!(base, of_tensors(&[vec![f32::from_bits(1.0f32.to_bits() + 1), 0.0]]));
        assert_eq!(base, of_tensors(&[vec![1.0, 0.0]]));
    }
}
