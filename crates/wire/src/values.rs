//! The values after the aggregation header: big-endian 32-bit words.

/// Decodes the words as signed integers.
pub fn read_i32(bytes: &[u8]) -> impl ExactSizeIterator<Item = i32> + '_ {
    bytes.as_chunks().0.iter().map(|w| i32::from_be_bytes(*w))
}

/// Decodes the words as IEEE 754 single-precision numbers.
pub fn read_f32(bytes: &[u8]) -> impl ExactSizeIterator<Item = f32> + '_ {
    bytes.as_chunks().0.iter().map(|w| f32::from_be_bytes(*w))
}

/// Encodes as many of `values` as fit. The rest of `bytes` is unchanged.
pub fn write_i32(bytes: &mut [u8], values: &[i32]) {
    for (word, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
        *word = value.to_be_bytes();
    }
}

/// Encodes as many of `values` as fit. The rest of `bytes` is unchanged.
pub fn write_f32(bytes: &mut [u8], values: &[f32]) {
    for (word, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
        *word = value.to_be_bytes();
    }
}
