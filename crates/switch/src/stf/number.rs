//! Numbers in scripts: `10`, `0x0a`, `0b1010`, `0o12`. In keys of entries, a `*` stands for a
//! don't-care digit.

use tributary_dataplane::Value;

/// A number with its digits. Their number and the `*` among them determine what an entry matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Number {
    /// 1, 3 or 4; `None` for decimal digits.
    bits_per_digit: Option<u32>,
    /// The digits without the prefix.
    digits: String,
}

/// Maximum number of digits: far more than any field needs, and few enough to compute with.
const MAX_DIGITS: usize = 4096;

impl Number {
    /// Parses a number. The error tells how to fix it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (bits_per_digit, digits) = match text.as_bytes() {
            [b'0', b'x' | b'X', ..] => (Some(4), &text[2..]),
            [b'0', b'o' | b'O', ..] => (Some(3), &text[2..]),
            [b'0', b'b' | b'B', ..] => (Some(1), &text[2..]),
            _ => (None, text),
        };
        let radix = bits_per_digit.map_or(10, |bits| 1 << bits);
        if digits.is_empty() || digits.len() > MAX_DIGITS {
            return Err(format!("`{text}` is not a number: write 10, 0x0a or 0b1010"));
        }
        if let Some(wrong) = digits.chars().find(|&c| c != '*' && !c.is_digit(radix)) {
            return Err(match bits_per_digit {
                Some(_) => format!("`{wrong}` is not a digit of `{text}`"),
                None => format!("`{text}` is not a number: write 10, 0x0a or 0b1010"),
            });
        }
        if bits_per_digit.is_none() && digits.contains('*') {
            return Err(format!("`{text}`: `*` stands for hexadecimal, octal or binary digits"));
        }
        if bits_per_digit.is_none() && digits.parse::<u128>().is_err() {
            return Err(format!("`{text}` is too large for a decimal number: write it as 0x…"));
        }
        Ok(Self { bits_per_digit, digits: digits.to_owned() })
    }

    /// The value; `None` if it contains a `*`.
    pub(crate) fn value(&self) -> Option<Value> {
        (!self.has_wildcards()).then(|| self.zero_filled())
    }

    /// The value as a `u64`, if it fits.
    pub(crate) fn to_u64(&self) -> Option<u64> {
        self.value()?.to_u64()
    }

    pub(crate) fn has_wildcards(&self) -> bool {
        self.digits.contains('*')
    }

    /// The value with zeros in place of `*`.
    pub(crate) fn zero_filled(&self) -> Value {
        match self.bits_per_digit {
            Some(bits) => {
                from_digits(bits, self.digits.chars().map(|c| c.to_digit(16).unwrap_or(0)))
            }
            None => Value::from(self.digits.parse::<u128>().unwrap_or(0)),
        }
    }

    /// Ones for the digits other than `*`; `None` for a decimal number, whose digits do not
    /// correspond to bits.
    pub(crate) fn mask(&self) -> Option<Value> {
        let bits = self.bits_per_digit?;
        let digit = |c| if c == '*' { 0 } else { (1 << bits) - 1 };
        Some(from_digits(bits, self.digits.chars().map(digit)))
    }

    /// The number of bits of the digits other than `*`, as a prefix length; `None` for a decimal
    /// number.
    pub(crate) fn prefix_bits(&self) -> Option<u32> {
        let counted = self.digits.chars().filter(|&c| c != '*').count();
        Some(self.bits_per_digit? * u32::try_from(counted).ok()?)
    }
}

/// A value from digits of `bits` bits each, most significant first.
fn from_digits(bits: u32, digits: impl DoubleEndedIterator<Item = u32>) -> Value {
    let mut limbs = vec![0u64];
    let mut used = 0;
    for digit in digits.rev() {
        for bit in 0..bits {
            if used == 64 {
                limbs.push(0);
                used = 0;
            }
            if let Some(limb) = limbs.last_mut() {
                *limb |= u64::from(digit >> bit & 1) << used;
            }
            used += 1;
        }
    }
    Value::from_limbs(&limbs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text).unwrap()
    }

    #[test]
    fn all_bases_give_their_value() {
        for text in ["70", "0x46", "0X046", "0b1000110", "0o106"] {
            assert_eq!(number(text).to_u64(), Some(70), "{text}");
        }
        let long = number("0x0102030405060708090a");
        assert_eq!(long.value().unwrap().to_string(), "0x102030405060708090a");
    }

    #[test]
    fn stars_leave_digits_out_of_mask_and_prefix() {
        let masked = number("0x0a**0b");
        assert_eq!(masked.value(), None);
        assert_eq!(masked.zero_filled(), Value::from(0x0a_00_0bu64));
        assert_eq!(masked.mask(), Some(Value::from(0xff_00_ffu64)));
        assert_eq!(number("0x0a0b****").prefix_bits(), Some(16));
        assert_eq!(number("0b10*").mask(), Some(Value::from(6u64)));
        assert_eq!(number("12").mask(), None);
    }

    #[test]
    fn invalid_numbers_are_reported() {
        for text in ["", "0x", "12a", "0b2", "1*", "port", "9".repeat(60).as_str()] {
            assert!(Number::parse(text).unwrap_err().contains(text), "{text}");
        }
    }
}
