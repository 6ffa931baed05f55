//! Lua's syntax.

use std::fmt::Write as _;

/// Most bits of a value that is a number.
pub(crate) const NUMBER_BITS: u32 = 32;

/// A string literal.
pub(crate) fn string(text: &str) -> String {
    let mut literal = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => literal.extend(['\\', c]),
            ' '..='~' => literal.push(c),
            // Bytes in decimal, with all three digits.
            _ => c.to_string().bytes().for_each(|byte| {
                let _ = write!(literal, "\\{byte:03}");
            }),
        }
    }
    literal.push('"');
    literal
}

/// Text for a comment, which ends at the end of the line.
pub(crate) fn comment(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// The literal of a value: a number of at most 32 bits, or a string of binary digits.
pub(crate) fn value(limbs: &[u64], width: u32) -> String {
    if width <= NUMBER_BITS {
        return limbs.first().copied().unwrap_or(0).to_string();
    }
    // A literal needs parentheses before a method.
    format!("(\"{}\")", digits(limbs, width))
}

/// The binary digits of a value, the highest first.
fn digits(limbs: &[u64], width: u32) -> String {
    let bit = |at: u32| limbs.get(at as usize / 64).is_some_and(|limb| limb >> (at % 64) & 1 == 1);
    (0..width).rev().map(|at| if bit(at) { '1' } else { '0' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_cannot_end_early() {
        assert_eq!(string("a\"b\\\n"), r#""a\"b\\\010""#);
        assert_eq!(string("é"), r#""\195\169""#);
    }

    #[test]
    fn wide_values_are_binary_digits() {
        assert_eq!(value(&[5], 32), "5");
        assert_eq!(
            value(&[1 << 32 | 1], 34),
            format!("(\"0{}1\")", "1".to_owned() + &"0".repeat(31))
        );
        assert_eq!(value(&[0, 1], 65), format!("(\"1{}\")", "0".repeat(64)));
    }
}
