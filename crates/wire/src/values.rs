//! The values behind the aggregation header: big-endian 32-bit words.

/// The words as signed integers.
pub fn read_i32(bytes: &[u8]) -> impl ExactSizeIterator<Item = i32> + '_ {
    bytes.as_chunks().0.iter().map(|w| i32::from_be_bytes(*w))
}

/// The words as IEEE 754 single-precision numbers.
pub fn read_f32(bytes: &[u8]) -> impl ExactSizeIterator<Item = f32> + '_ {
    bytes.as_chunks().0.iter().map(|w| f32::from_be_bytes(*w))
}

/// Writes as many of `values` as fit; what they do not cover stays as it is.
pub fn write_i32(bytes: &mut [u8], values: &[i32]) {
    for (word, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
        *word = value.to_be_bytes();
    }
}

/// Writes as many of `values` as fit; what they do not cover stays as it is.
pub fn write_f32(bytes: &mut [u8], values: &[f32]) {
    for (word, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
        *word = value.to_be_bytes();
    }
}
