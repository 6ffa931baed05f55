//! Patterns of expected packets.

use std::fmt::Write as _;

/// Hexadecimal digits with wildcards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pattern {
    /// Upper-case digits and `*`.
    digits: String,
    /// Whether the packet must end with the pattern.
    exact: bool,
}

impl Pattern {
    pub(crate) fn new(digits: &str, exact: bool) -> Self {
        Self { digits: digits.to_ascii_uppercase(), exact }
    }

    /// A description of the first difference to a packet; `None` if the packet matches. The packet
    /// may be longer than the pattern, unless the pattern ends with `$`.
    pub(crate) fn difference(&self, packet: &[u8]) -> Option<String> {
        let got = hex(packet);
        let differs = |(&want, &got): (&u8, &u8)| want != b'*' && want != got;
        let first = self.digits.as_bytes().iter().zip(got.as_bytes()).position(differs);
        if let Some(digit) = first {
            let of = |text: &str| text.get(digit & !1..(digit & !1) + 2).map(str::to_owned);
            let (want, have) = (of(&self.digits), of(&got));
            return Some(format!(
                "byte {} is {}, not {}",
                digit / 2,
                have.as_deref().unwrap_or(&got[digit & !1..]),
                want.as_deref().unwrap_or(&self.digits[digit & !1..]),
            ));
        }
        let (want, have) = (self.digits.len(), got.len());
        if have < want {
            return Some(format!("it ends after {} bytes, not {}", packet.len(), want.div_ceil(2)));
        }
        (self.exact && have > want)
            .then(|| format!("it has {} bytes, not {}", packet.len(), want.div_ceil(2)))
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.digits, if self.exact { "$" } else { "" })
    }
}

/// Bytes as upper-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_digit_and_a_dollar_the_end() {
        let packet = [0x0a, 0x1b, 0x2c];
        for (digits, exact) in [("0A1B2C", true), ("0a*b**", true), ("0A", false), ("", false)] {
            assert_eq!(Pattern::new(digits, exact).difference(&packet), None, "{digits}");
        }
    }

    #[test]
    fn the_first_difference_is_named() {
        let difference = |digits, exact| Pattern::new(digits, exact).difference(&[0x0a, 0x1b]);
        assert_eq!(difference("0A1C", true).unwrap(), "byte 1 is 1B, not 1C");
        assert_eq!(difference("**2", false).unwrap(), "byte 1 is 1B, not 2");
        assert_eq!(difference("0A1B00", false).unwrap(), "it ends after 2 bytes, not 3");
        assert_eq!(difference("0A", true).unwrap(), "it has 2 bytes, not 1");
        assert_eq!(difference("", true).unwrap(), "it has 2 bytes, not 0");
    }
}
