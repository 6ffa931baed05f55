//! P4Runtime's byte strings: big-endian, any number of leading zeros coming in, none going out.

use tributary_dataplane::Value;

use super::Refusal;

/// A value that came in, of at most `width` bits. `what` names it in the refusal.
pub(crate) fn decode(bytes: &[u8], width: u32, what: &str) -> Result<Value, Refusal> {
    if bytes.is_empty() {
        return Err(Refusal::out_of_range(format!("{what}: an empty byte string is no value")));
    }
    let value = Value::from_be_bytes(bytes);
    if value.fits(width) {
        Ok(value)
    } else {
        Err(Refusal::out_of_range(format!("{what}: {value} does not fit into {width} bits")))
    }
}

/// The shortest form of a value.
pub(crate) fn encode(value: &Value) -> Vec<u8> {
    value.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_p4runtime_proto::google::rpc::Code;

    use super::*;

    #[test]
    fn widths_are_checked_by_value_not_by_length() {
        assert_eq!(decode(&[0, 0, 0x63], 8, "v").unwrap(), Value::from(0x63u64));
        assert_eq!(decode(&[0x01, 0xff], 9, "v").unwrap(), Value::from(0x1ffu64));
        for (bytes, width) in [(&[0x02, 0x00][..], 9), (&[0x80], 7), (&[], 8)] {
            assert_eq!(decode(bytes, width, "v").unwrap_err().code, Code::OutOfRange);
        }
    }

    proptest! {
        #[test]
        fn what_goes_out_is_the_shortest_form_of_what_came_in(
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
