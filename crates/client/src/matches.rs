//! Matches of keys as text.
//!
//! | match | text |
//! | --- | --- |
//! | exact | `VALUE` |
//! | lpm | `VALUE/LENGTH`, or `VALUE` for the whole width |
//! | ternary | `VALUE&&&MASK`, `VALUE/MASK`, `VALUE/LENGTH`, or `VALUE` |
//! | range | `LOW..HIGH`, or `VALUE` |
//! | optional | `VALUE` |
//!
//! `*` matches all values. P4Runtime leaves such a key out.

use num_bigint::BigUint;
use tributary_p4runtime::p4::v1::FieldMatch;
use tributary_p4runtime::p4::v1::field_match::{
    Exact, FieldMatchType, Lpm, Optional, Range, Ternary,
};

use crate::Error;
use crate::names::{Field, Match};
use crate::value::{self, Type};

/// Reads a match; `None` if it matches all values.
///
/// # Errors
/// One line with the key's name.
pub fn parse(field: &Field, text: &str) -> Result<Option<FieldMatch>, Error> {
    let kind = match (field.kind, text) {
        (Match::Exact, "*") if field.ty != Type::Name => {
            return Err(field.wrong("an exact key needs a value; `*` is for other keys"));
        }
        (Match::Exact, _) => Some(FieldMatchType::Exact(Exact { value: field.parse(text)? })),
        (_, "*") => None,
        (Match::Optional, _) => {
            Some(FieldMatchType::Optional(Optional { value: field.parse(text)? }))
        }
        (Match::Lpm | Match::Ternary | Match::Range, _) if field.ty == Type::Name => {
            let reason =
                "its values are names, which have no prefixes, masks and ranges; leave it out";
            return Err(field.wrong(reason));
        }
        (Match::Lpm, _) => lpm(field, text)?,
        (Match::Ternary, _) => ternary(field, text)?,
        (Match::Range, _) => range(field, text)?,
    };
    Ok(kind.map(|kind| FieldMatch { field_id: field.id, field_match_type: Some(kind) }))
}

fn width(field: &Field) -> u32 {
    match field.ty {
        Type::Bits(width) => width,
        Type::Name => 0,
    }
}

fn number(field: &Field, text: &str) -> Result<BigUint, Error> {
    value::number(text, width(field)).map_err(|reason| field.wrong(&reason))
}

/// All ones.
fn ones(width: u32) -> BigUint {
    (BigUint::from(1u8) << width) - BigUint::from(1u8)
}

/// A mask of the highest `length` of `width` bits.
fn prefix(width: u32, length: u32) -> BigUint {
    (ones(length.min(width))) << width.saturating_sub(length)
}

fn length(field: &Field, text: &str) -> Result<u32, Error> {
    let width = width(field);
    let length = text.parse().ok().filter(|length| *length <= width);
    length.ok_or_else(|| {
        field.wrong(&format!("`/{text}` is not a prefix length; it is from 0 to {width}"))
    })
}

fn lpm(field: &Field, text: &str) -> Result<Option<FieldMatchType>, Error> {
    let (value, length) = match text.rsplit_once('/') {
        Some((value, digits)) => (value, length(field, digits)?),
        None => (text, width(field)),
    };
    let value = number(field, value)? & prefix(width(field), length);
    let prefix_len = i32::try_from(length).unwrap_or(i32::MAX);
    let value = value::bytes(&value);
    Ok((length > 0).then_some(FieldMatchType::Lpm(Lpm { value, prefix_len })))
}

fn ternary(field: &Field, text: &str) -> Result<Option<FieldMatchType>, Error> {
    let given = text.split_once("&&&").map(|(value, mask)| (value, mask, false));
    let given = given.or_else(|| {
        let (value, mask) = text.rsplit_once('/')?;
        Some((value, mask, mask.bytes().all(|c| c.is_ascii_digit())))
    });
    let (value, mask) = match given {
        Some((value, digits, true)) => (value, prefix(width(field), length(field, digits)?)),
        Some((value, mask, false)) => (value, number(field, mask.trim())?),
        None => (text, ones(width(field))),
    };
    let value = value::bytes(&(number(field, value.trim())? & &mask));
    let all = mask == BigUint::ZERO;
    Ok((!all).then(|| FieldMatchType::Ternary(Ternary { value, mask: value::bytes(&mask) })))
}

fn range(field: &Field, text: &str) -> Result<Option<FieldMatchType>, Error> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let (low, high) = (number(field, low.trim())?, number(field, high.trim())?);
    if low > high {
        return Err(field.wrong(&format!("`{text}`: the range ends before it begins")));
    }
    let all = low == BigUint::ZERO && high == ones(width(field));
    let (low, high) = (value::bytes(&low), value::bytes(&high));
    Ok((!all).then_some(FieldMatchType::Range(Range { low, high })))
}

/// Writes a match. [`parse`] reads it back.
#[must_use]
pub fn show(field: &Field, found: &FieldMatch) -> String {
    let value = |value: &[u8]| field.show(value);
    match &found.field_match_type {
        Some(FieldMatchType::Exact(exact)) => value(&exact.value),
        Some(FieldMatchType::Optional(optional)) => value(&optional.value),
        Some(FieldMatchType::Lpm(lpm)) => format!("{}/{}", value(&lpm.value), lpm.prefix_len),
        Some(FieldMatchType::Range(range)) if range.low == range.high => value(&range.low),
        Some(FieldMatchType::Range(range)) => {
            format!("{}..{}", value(&range.low), value(&range.high))
        }
        Some(FieldMatchType::Ternary(ternary)) => {
            let mask = BigUint::from_bytes_be(&ternary.mask);
            let width = width(field);
            if mask == ones(width) {
                return value(&ternary.value);
            }
            let length = u32::try_from(mask.count_ones()).unwrap_or(0);
            match field.format.has_prefixes() && mask == prefix(width, length) {
                true => format!("{}/{length}", value(&ternary.value)),
                false => format!("{}&&&{mask:#x}", value(&ternary.value)),
            }
        }
        Some(FieldMatchType::Other(_)) => "?".to_owned(),
        None => "*".to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::Format;

    pub(crate) fn key(kind: Match, width: u32, format: Format) -> Field {
        let name = "hdr.x.key".to_owned();
        Field { id: 1, shown: "key".into(), name, ty: Type::Bits(width), format, kind }
    }

    fn shown(kind: Match, width: u32, format: Format, text: &str) -> String {
        let field = key(kind, width, format);
        let found = parse(&field, text).unwrap_or_else(|error| panic!("{text}: {error}"));
        found.map_or_else(|| "*".to_owned(), |found| show(&field, &found))
    }

    #[test]
    fn matches_are_read_in_all_notations() {
        for (kind, width, format, text, expected) in [
            (Match::Exact, 8, Format::Number, "0x10", "16"),
            (Match::Lpm, 32, Format::Ipv4, "10.1.2.3/8", "10.0.0.0/8"),
            (Match::Lpm, 32, Format::Ipv4, "10.1.2.3", "10.1.2.3/32"),
            (Match::Lpm, 32, Format::Ipv4, "0.0.0.0/0", "*"),
            (Match::Lpm, 128, Format::Ipv6, "2001:db8::1/32", "2001:db8::/32"),
            (Match::Ternary, 16, Format::Number, "0x0812&&&0xff00", "2048&&&0xff00"),
            (Match::Ternary, 16, Format::Number, "0x0812/0xff00", "2048&&&0xff00"),
            (Match::Ternary, 16, Format::Number, "0x0812/8", "2048&&&0xff00"),
            (Match::Ternary, 32, Format::Ipv4, "10.1.2.3/255.255.0.0", "10.1.0.0/16"),
            (Match::Ternary, 16, Format::Number, "7", "7"),
            (Match::Ternary, 16, Format::Number, "7&&&0", "*"),
            (Match::Range, 16, Format::Number, "1..80", "1..80"),
            (Match::Range, 16, Format::Number, "80", "80"),
            (Match::Range, 16, Format::Number, "0..0xffff", "*"),
            (Match::Optional, 8, Format::Number, "*", "*"),
            (Match::Optional, 8, Format::Number, "5", "5"),
        ] {
            assert_eq!(shown(kind, width, format, text), expected, "{kind:?} {text}");
        }
    }

    #[test]
    fn invalid_matches_are_refused() {
        for (kind, text, part) in [
            (Match::Exact, "*", "needs a value"),
            (Match::Lpm, "1/17", "from 0 to 16"),
            (Match::Lpm, "1/x", "from 0 to 16"),
            (Match::Range, "5..4", "ends before it begins"),
            (Match::Ternary, "70000", "does not fit into 16 bits"),
            (Match::Optional, "a", "`key`: `a` is not a value"),
        ] {
            let line = parse(&key(kind, 16, Format::Number), text).unwrap_err().to_string();
            assert!(line.contains(part), "{text}: {line}");
        }
    }

    proptest! {
        #[test]
        fn a_shown_match_is_read_back(
            a in any::<u64>(), b in any::<u64>(), width in 1u32..=64, kind in 0usize..5, ip: bool
        ) {
            let all = [Match::Exact, Match::Lpm, Match::Ternary, Match::Range, Match::Optional];
            let format = if ip { Format::Ipv4 } else { Format::Number };
            let field = key(all[kind], width, format);
            let cut = |value: u64| value & (u64::MAX >> (64 - width));
            let (low, high) = (cut(a).min(cut(b)), cut(a).max(cut(b)));
            let text = match all[kind] {
                Match::Exact | Match::Optional => format!("{low}"),
                Match::Lpm => format!("{low}/{}", b % u64::from(width + 1)),
                Match::Ternary => format!("{low}&&&{high:#x}"),
                Match::Range => format!("{low}..{high}"),
            };
            let first = parse(&field, &text).unwrap();
            if let Some(first) = first {
                let again = parse(&field, &show(&field, &first)).unwrap();
                prop_assert_eq!(again, Some(first));
            }
        }
    }
}
