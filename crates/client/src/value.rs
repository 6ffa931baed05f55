//! Values as text and as P4Runtime's byte strings.

use std::net::{Ipv4Addr, Ipv6Addr};

use num_bigint::BigUint;

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// A number of so many bits.
    Bits(u32),
    /// A name, of a type that is translated to strings.
    Name,
}

/// How people write a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Small numbers in decimal, others in hexadecimal.
    Number,
    /// Hexadecimal.
    Hex,
    /// `02:00:0a:00:01:01`.
    Mac,
    /// `10.0.1.1`.
    Ipv4,
    /// `2001:db8::1`.
    Ipv6,
}

impl Format {
    /// The format of a value: from its annotation `@format`, or guessed from its width and name.
    #[must_use]
    pub fn of(name: &str, width: u32, annotations: &[String]) -> Self {
        let annotated = annotations.iter().find_map(|text| {
            match text.strip_prefix("@format(")?.trim_end_matches(')').trim_matches('"') {
                "MAC_ADDRESS" => Some(Self::Mac),
                "IPV4_ADDRESS" => Some(Self::Ipv4),
                "IPV6_ADDRESS" => Some(Self::Ipv6),
                "HEX_STRING" => Some(Self::Hex),
                _ => None,
            }
        });
        let lower = name.to_lowercase();
        let is_address = ["ip", "addr"].iter().any(|word| lower.contains(word));
        match (annotated, width) {
            (Some(format), _) => format,
            (None, 48) => Self::Mac,
            (None, 128) => Self::Ipv6,
            (None, 32) if is_address => Self::Ipv4,
            _ => Self::Number,
        }
    }

    /// How to write it, for help.
    #[must_use]
    pub const fn example(self) -> &'static str {
        match self {
            Self::Number => "N",
            Self::Hex => "0xN",
            Self::Mac => "MAC",
            Self::Ipv4 => "IPV4",
            Self::Ipv6 => "IPV6",
        }
    }

    /// Whether prefixes of the value are usual, as of addresses.
    #[must_use]
    pub const fn has_prefixes(self) -> bool {
        matches!(self, Self::Ipv4 | Self::Ipv6)
    }
}

/// Reads a number: decimal, `0x`, `0o`, `0b`, `true`, `false`, or an Ethernet or IP address.
///
/// # Errors
/// One line, if it is none of these, or does not fit into so many bits.
pub fn number(text: &str, width: u32) -> Result<BigUint, String> {
    let negative = text.strip_prefix('-');
    let value = match negative {
        Some(digits) => {
            let value = plain(digits).ok_or_else(|| not_a_value(text))?;
            let bound = BigUint::from(1u8) << width.saturating_sub(1);
            if width == 0 || value > bound {
                return Err(format!("`{text}` does not fit into {width} bits"));
            }
            let modulus = BigUint::from(1u8) << width;
            (&modulus - value) % modulus
        }
        None => plain(text).or_else(|| address(text)).ok_or_else(|| not_a_value(text))?,
    };
    if value.bits() > u64::from(width) {
        return Err(format!("`{text}` does not fit into {width} bits"));
    }
    Ok(value)
}

fn not_a_value(text: &str) -> String {
    format!("`{text}` is not a value; write a number (10, 0xa, 0b1010) or an address")
}

fn plain(text: &str) -> Option<BigUint> {
    match text {
        "true" => return Some(BigUint::from(1u8)),
        "false" => return Some(BigUint::ZERO),
        _ => {}
    }
    let (digits, radix) = match text.get(..2) {
        Some("0x" | "0X") => (&text[2..], 16),
        Some("0b" | "0B") => (&text[2..], 2),
        Some("0o" | "0O") => (&text[2..], 8),
        _ => (text, 10),
    };
    let begins = digits.starts_with(|c: char| c.is_digit(radix));
    let good = begins && digits.chars().all(|c| c == '_' || c.is_digit(radix));
    let digits: Vec<u8> = digits.bytes().filter(|&c| c != b'_').collect();
    if good { BigUint::parse_bytes(&digits, radix) } else { None }
}

fn address(text: &str) -> Option<BigUint> {
    if let Some(mac) = mac(text) {
        return Some(BigUint::from_bytes_be(&mac));
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(BigUint::from(u32::from(address)));
    }
    text.parse::<Ipv6Addr>().ok().map(|address| BigUint::from(u128::from(address)))
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let mark = if text.contains('-') { '-' } else { ':' };
    let mut bytes = [0; 6];
    let mut parts = text.split(mark);
    for byte in &mut bytes {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()))?;
        let digits = part.bytes().all(|c| c.is_ascii_hexdigit());
        *byte = u8::from_str_radix(part, 16).ok().filter(|_| digits)?;
    }
    parts.next().is_none().then_some(bytes)
}

/// P4Runtime's shortest byte string of a number.
#[must_use]
pub fn bytes(value: &BigUint) -> Vec<u8> {
    value.to_bytes_be()
}

/// Reads a value as a byte string.
///
/// # Errors
/// As for [`number`]; a name must not be empty.
pub fn parse(text: &str, ty: Type) -> Result<Vec<u8>, String> {
    match ty {
        Type::Bits(width) => number(text, width).map(|value| bytes(&value)),
        Type::Name if text.is_empty() => Err("a name must not be empty".to_owned()),
        Type::Name => Ok(text.as_bytes().to_vec()),
    }
}

/// Writes a byte string as people do. [`parse`] reads it back.
#[must_use]
pub fn show(value: &[u8], ty: Type, format: Format) -> String {
    let Type::Bits(_) = ty else { return String::from_utf8_lossy(value).into_owned() };
    let number = BigUint::from_bytes_be(value);
    let small = u128::try_from(&number);
    match (format, small) {
        (Format::Mac, Ok(small)) if small < 1 << 48 => {
            let bytes = small.to_be_bytes();
            let parts: Vec<String> = bytes[10..].iter().map(|byte| format!("{byte:02x}")).collect();
            parts.join(":")
        }
        (Format::Ipv4, Ok(small)) if small < 1 << 32 => Ipv4Addr::from(small as u32).to_string(),
        (Format::Ipv6, Ok(small)) => Ipv6Addr::from(small).to_string(),
        (Format::Number, Ok(small)) if small < 1 << 16 => small.to_string(),
        _ => format!("{number:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_notations_are_read() {
        for (text, width, value) in [
            ("10", 8, 10u128),
            ("0xff", 8, 255),
            ("0b1_0", 2, 2),
            ("0o17", 8, 15),
            ("1_000", 16, 1000),
            ("true", 1, 1),
            ("-1", 8, 255),
            ("-128", 8, 128),
            ("10.0.1.2", 32, 0x0a00_0102),
            ("02:00:0a:00:01:02", 48, 0x0200_0a00_0102),
            ("2-0-a-0-1-2", 48, 0x0200_0a00_0102),
            ("::1", 128, 1),
            ("2001:db8::", 128, 0x2001_0db8_u128 << 96),
        ] {
            assert_eq!(number(text, width), Ok(BigUint::from(value)), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (text, width) in [
            ("256", 8),
            ("-129", 8),
            ("10.0.0.1", 16),
            ("0x", 8),
            ("", 8),
            ("1.2.3", 32),
            ("_1", 8),
        ] {
            assert!(number(text, width).is_err(), "{text}");
        }
        assert_eq!(number("300", 8), Err("`300` does not fit into 8 bits".to_owned()));
    }

    #[test]
    fn formats_are_guessed_or_annotated() {
        let none = &[];
        assert_eq!(Format::of("hdr.ipv4.dst", 32, none), Format::Ipv4);
        assert_eq!(Format::of("meta.flow", 32, none), Format::Number);
        assert_eq!(Format::of("x", 48, none), Format::Mac);
        let annotated = ["@format(IPV4_ADDRESS)".to_owned()];
        assert_eq!(Format::of("x", 32, &annotated), Format::Ipv4);
    }

    proptest! {
        #[test]
        fn a_shown_value_is_read_back(value in any::<u128>(), width in 1u32..=128, at in 0usize..5) {
            let formats = [Format::Number, Format::Hex, Format::Mac, Format::Ipv4, Format::Ipv6];
            let value = BigUint::from(value & (u128::MAX >> (128 - width)));
            let shown = show(&bytes(&value), Type::Bits(width), formats[at]);
            // An IPv6 address may end in an IPv4 address.
            prop_assert_eq!(number(&shown, width), Ok(value), "{}", shown);
        }
    }
}
