//! Bit operations on bytes and limbs.

/// The lowest `width` bits set (`width` at most 64).
pub(crate) const fn mask(width: u32) -> u64 {
    if width == 0 { 0 } else { u64::MAX >> (64 - width) }
}

/// Up to eight bytes as a big-endian number.
#[inline]
pub(crate) fn load_be(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_be_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)),
    }
}

/// Writes the low bytes of a number, most significant first; `bytes` has at most eight.
#[inline]
pub(crate) fn store_be(bytes: &mut [u8], value: u64) {
    let all = value.to_be_bytes();
    let length = bytes.len();
    bytes.copy_from_slice(&all[8 - length..]);
}

/// Reads `width` bits that start at bit `at` (0 is the highest bit of the first byte) into limbs.
pub(crate) fn get_bits(bytes: &[u8], at: usize, width: usize, limbs: &mut [u64]) {
    limbs.fill(0);
    // Byte by byte from the low end.
    let mut done = 0;
    while done < width {
        let end = at + width - done;
        let (byte, used) = ((end - 1) / 8, (end - 1) % 8 + 1);
        let take = used.min(width - done);
        let part = u64::from(bytes[byte] >> (8 - used)) & mask(take as u32);
        limbs[done / 64] |= part << (done % 64);
        if done % 64 + take > 64 {
            limbs[done / 64 + 1] |= part >> (64 - done % 64);
        }
        done += take;
    }
}

/// Writes the low `width` bits of a number at bit `at`; other bits are unchanged.
pub(crate) fn put_bits(bytes: &mut [u8], at: usize, width: usize, limbs: &[u64]) {
    let mut done = 0;
    while done < width {
        let end = at + width - done;
        let (byte, used) = ((end - 1) / 8, (end - 1) % 8 + 1);
        let take = used.min(width - done);
        let mut part = limbs[done / 64] >> (done % 64);
        if done % 64 + take > 64 {
            part |= limbs[done / 64 + 1] << (64 - done % 64);
        }
        let ones = mask(take as u32) as u8;
        let shift = 8 - used;
        bytes[byte] = bytes[byte] & !(ones << shift) | (part as u8 & ones) << shift;
        done += take;
    }
}

/// The value of `width` bits in two's complement.
#[inline]
pub(crate) const fn signed(value: u64, width: u32) -> i64 {
    let shift = 64 - width;
    ((value << shift) as i64) >> shift
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_are_the_slice_of_the_big_number(
            bytes in proptest::collection::vec(any::<u8>(), 1..40),
            a in 0usize..320, b in 0usize..320, fill: u64,
        ) {
            let bits = bytes.len() * 8;
            let (low, high) = (a.min(b) % bits, a.max(b) % bits);
            let (at, end) = (low.min(high), low.max(high) + 1);
            let width = end - at;
            let mut limbs = vec![u64::MAX; width.div_ceil(64)];
            get_bits(&bytes, at, width, &mut limbs);
            let got = limbs.iter().rev().fold(BigUint::ZERO, |n, &limb| (n << 64u32) + limb);
            let expected = (BigUint::from_bytes_be(&bytes) >> (bits - end))
                & ((BigUint::from(1u32) << width) - 1u32);
            prop_assert_eq!(&got, &expected);

            let mut copy = bytes.clone();
            put_bits(&mut copy, at, width, &vec![fill; limbs.len()]);
            put_bits(&mut copy, at, width, &limbs);
            prop_assert_eq!(copy, bytes);
        }

        #[test]
        fn short_numbers_make_the_round_trip(value: u64, length in 1usize..=8) {
            let mut bytes = vec![0; length];
            store_be(&mut bytes, value);
            prop_assert_eq!(load_be(&bytes), value & mask(8 * length as u32));
        }
    }

    #[test]
    fn the_top_bit_is_the_sign() {
        assert_eq!(signed(0x80, 8), -128);
        assert_eq!(signed(0x7f, 8), 127);
        assert_eq!(signed(1, 1), -1);
        assert_eq!(signed(u64::MAX, 64), -1);
    }
}
