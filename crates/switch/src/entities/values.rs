//! P4Runtime's byte strings: big-endian, leading zeros are read but not written.

use tributary_dataplane::Value;

use super::Refusal;

/// Decodes a value of at most `width` bits. `what` names it in the refusal.
pub(crate) fn decode(bytes: &[u8], width: u32, what: &str) -> Result<Value, Refusal> {
    if bytes.is_empty() {
        return Err(Refusal::out_of_range(format!("{what}: an empty byte string is not a value")));
    }
    let value = Value::from_be_bytes(bytes);
    if value.fits(width) {
        Ok(value)
    } else {
        Err(Refusal::out_of_range(format!("{what}: {value} does not fit into {width} bits")))
    }
}

/// Encodes a value in its shortest form.
pub(crate) fn encode(value: &Value) -> Vec<u8> {
    value.to_be_bytes()
}

/// Decodes two's complement with any number of sign bits to `width` bits.
pub(super) fn decode_signed(bytes: &[u8], width: u32) -> Result<Value, Refusal> {
    let Some(&first) = bytes.first() else { return decode(bytes, width, "value") };
    let sign: u8 = if first & 0x80 == 0 { 0x00 } else { 0xff };
    let size = width.div_ceil(8) as usize;
    // At least one sign bit must remain: all bits above it are copies of it.
    let mut low = vec![sign; size + 1];
    let kept = bytes.len().min(size + 1);
    let (extra, significant) = bytes.split_at(bytes.len() - kept);
    low[size + 1 - kept..].copy_from_slice(significant);
    let bit = |i: u32| low[size - (i / 8) as usize] >> (i % 8) & 1;
    let copies = (width - 1..8 * (size as u32 + 1)).all(|i| bit(i) == sign & 1);
    if !copies || extra.iter().any(|&byte| byte != sign) {
        return Err(Refusal::out_of_range(format!("value: does not fit into int<{width}>")));
    }
    let (bits, ones) = (Value::from_be_bytes(&low), Value::ones(width));
    let limbs = 0..width.div_ceil(64) as usize;
    let cut: Vec<u64> = limbs.map(|limb| bits.limb(limb) & ones.limb(limb)).collect();
    Ok(Value::from_limbs(&cut))
}

/// Encodes `width` bits as the shortest two's complement.
pub(super) fn encode_signed(value: &Value, width: u32) -> Vec<u8> {
    let size = width.div_ceil(8) as usize;
    let top = width - 1;
    let negative = value.limb(top as usize / 64) >> (top % 64) & 1 == 1;
    let sign: u8 = if negative { 0xff } else { 0x00 };
    let bytes = value.to_be_bytes();
    let mut all = vec![0; size.saturating_sub(bytes.len())];
    all.extend(bytes);
    if negative && !width.is_multiple_of(8) {
        all[0] |= 0xff << (width % 8);
    }
    let redundant = |pair: &&[u8]| pair[0] == sign && (pair[1] ^ sign) & 0x80 == 0;
    let drop = all.windows(2).take_while(redundant).count();
    all.split_off(drop)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_p4runtime::google::rpc::Code;

    use super::*;

    #[test]
    fn widths_are_checked_by_value_not_by_length() {
        assert_eq!(decode(&[0, 0, 0x63], 8, "v").unwrap(), Value::from(0x63u64));
        assert_eq!(decode(&[0x01, 0xff], 9, "v").unwrap(), Value::from(0x1ffu64));
        for (bytes, width) in [(&[0x02, 0x00][..], 9), (&[0x80], 7), (&[], 8)] {
            assert_eq!(decode(bytes, width, "v").unwrap_err().code, Code::OutOfRange);
        }
    }

    /// The specification's tables of valid and invalid byte strings.
    #[test]
    fn signed_values_are_as_the_specification_shows_them() {
        let int = |bytes: &[u8], width| decode_signed(bytes, width).map_err(|r| r.code);
        for (bytes, width, shortest) in [
            (&[0x63][..], 8, &[0x63][..]),
            (&[0x9d], 8, &[0x9d]),
            (&[0xff, 0x9d], 8, &[0x9d]),
            (&[0xfd, 0x1d], 12, &[0xfd, 0x1d]),
            (&[0x00, 0x00], 16, &[0x00]),
            (&[0xff, 0xff, 0xff], 9, &[0xff]),
            (&[0x00, 0x80], 9, &[0x00, 0x80]),
            (&[0xff], 64, &[0xff]),
            (&[0xff], 1, &[0xff]),
        ] {
            let value = int(bytes, width).unwrap_or_else(|code| panic!("{bytes:x?}: {code:?}"));
            assert!(value.fits(width), "{bytes:x?}");
            assert_eq!(encode_signed(&value, width), shortest, "{bytes:x?} in int<{width}>");
        }
        assert_eq!(int(&[0xfd, 0x1d], 12), Ok(Value::from(0xd1du64)));
        for (bytes, width) in [
            (&[0x00, 0x9d][..], 8),
            (&[0x8d, 0x1d], 12),
            (&[], 16),
            (&[1], 1),
            (&[1, 0xff, 0xff], 8),
        ] {
            assert_eq!(int(bytes, width), Err(Code::OutOfRange), "{bytes:x?} in int<{width}>");
        }
    }

    proptest! {
        #[test]
        fn signed_values_can_be_decoded_again(value: i64, width in 1u32..100, padding in 0usize..3) {
            let shift = 64u32.saturating_sub(width);
            let value = value << shift >> shift;
            let sign = if value < 0 { 0xff } else { 0 };
            let mut bytes = vec![sign; padding];
            bytes.extend(value.to_be_bytes());
            let out = encode_signed(&decode_signed(&bytes, width).unwrap(), width);
            let again = decode_signed(&out, width).unwrap();
            prop_assert_eq!(&again, &decode_signed(&bytes, width).unwrap());
            let bits = 65 - (value ^ value >> 63).leading_zeros() as usize;
            prop_assert_eq!(out.len(), bits.div_ceil(8));
        }

        #[test]
        fn output_is_the_shortest_form_of_input(
            zeros in 0usize..4,
            bytes in proptest::collection::vec(any::<u8>(), 1..20),
        ) {
            let padded: Vec<u8> = std::iter::repeat_n(0, zeros).chain(bytes.iter().copied()).collect();
            let width = 8 * bytes.len() as u32;
            let out = encode(&decode(&padded, width, "v").unwrap());
            let significant: Vec<u8> = bytes.iter().copied().skip_while(|&b| b == 0).collect();
            prop_assert_eq!(out, if significant.is_empty() { vec![0] } else { significant });
        }
    }
}
