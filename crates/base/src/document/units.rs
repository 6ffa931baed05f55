//! Values with units: `"4MB"`, `"50ms"`, `"10Gb/s"`.

use std::time::Duration;

/// Units of size and their number of bytes. Decimal units are powers of 1000, binary units of 1024.
const SIZES: [(&str, u64); 8] = [
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// Units of time and their number of nanoseconds.
const TIMES: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Units of rate and their number of bits per second: as texts write them, and as `tc` does.
const RATES: [(&str, u64); 10] = [
    ("Tb/s", 1_000_000_000_000),
    ("Gb/s", 1_000_000_000),
    ("Mb/s", 1_000_000),
    ("kb/s", 1_000),
    ("b/s", 1),
    ("Tbit", 1_000_000_000_000),
    ("Gbit", 1_000_000_000),
    ("Mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
];

/// Number of bytes in a size such as `64KB` or `1.5 MiB`. `None` if the text is not a size, or not
/// a whole number of bytes.
#[must_use]
pub fn size(text: &str) -> Option<u64> {
    quantity(text, &SIZES)
}

/// A duration such as `50ms`, `1.5s` or `2h`. `None` if the text is not a duration, or finer than a
/// nanosecond.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    quantity(text, &TIMES).map(Duration::from_nanos)
}

/// Bits per second in a rate such as `10Gb/s` or `2.5 Gbit`. `None` if the text is not a rate, or
/// not a whole number of bits per second.
pub fn rate(text: &str) -> Option<u64> {
    quantity(text, &RATES)
}

/// Writes a rate in the largest unit that needs no fraction.
pub(crate) fn rate_text(bits_per_second: u64) -> String {
    let whole = |(_, factor): &&(&str, u64)| {
        bits_per_second >= *factor && bits_per_second.is_multiple_of(*factor)
    };
    let (unit, factor) = RATES.iter().find(whole).unwrap_or(&("b/s", 1));
    format!("{}{unit}", bits_per_second / factor)
}

/// An exact decimal number and a unit: `digits [. digits] [space] unit`.
fn quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let unit = unit.trim_start();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    // No unit can use more than twelve digits after the point.
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 12 || fraction.contains('.') {
        return None;
    }
    let denominator = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let numerator = whole
        .parse::<u64>()
        .ok()
        .and_then(|whole| u128::from(whole).checked_mul(denominator))?
        .checked_add(fraction.parse::<u128>().ok()?)?
        .checked_mul(u128::from(*factor))?;
    if numerator % denominator != 0 {
        return None;
    }
    u64::try_from(numerator / denominator).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("4MB"), Some(4_000_000));
        assert_eq!(size("4MiB"), Some(4 << 20));
        assert_eq!(size("1.5 KB"), Some(1500));
        assert_eq!(size("0.3B"), None, "not a whole number of bytes");
        assert_eq!(size("4"), None, "a unit is needed");
        assert_eq!(size("-4MB"), None);
        assert_eq!(size("4mb"), None, "m would be milli");
        assert_eq!(size("1..5MB"), None);
        assert_eq!(size("99999999999999999999GB"), None);
        assert_eq!(size("18446744073709551615GB"), None);
        assert_eq!(size("18446744073709551615B"), Some(u64::MAX));
    }

    #[test]
    fn rates() {
        assert_eq!(rate("10Gb/s"), Some(10_000_000_000));
        assert_eq!(rate("2.5 Gbit"), Some(2_500_000_000));
        assert_eq!(rate("10GB/s"), None, "B would be bytes");
        assert_eq!(rate("1.5b/s"), None, "not a whole number of bits");
        assert_eq!(rate("-1Gb/s"), None);
        assert_eq!(rate("nan"), None);
        assert_eq!(rate("99999999Tb/s"), None);
        for text in ["10Tb/s", "1500Mb/s", "1kb/s", "1001b/s", "0b/s"] {
            assert_eq!(rate_text(rate(text).expect(text)), text);
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("50ms"), Some(Duration::from_millis(50)));
        assert_eq!(duration("1.25 s"), Some(Duration::from_millis(1250)));
        assert_eq!(duration("3µs"), duration("3us"));
        assert_eq!(duration("2min"), Some(Duration::from_secs(120)));
        assert_eq!(duration("1.5h"), Some(Duration::from_secs(90 * 60)));
        assert_eq!(duration("400 d"), Some(Duration::from_secs(400 * 24 * 60 * 60)));
        assert_eq!(duration("300000d"), None, "u64 nanoseconds end after 584 years");
        assert_eq!(duration("0.5ns"), None);
        assert_eq!(duration(""), None);
        assert_eq!(duration("ms"), None);
        assert_eq!(duration(".5ms"), None);
        assert_eq!(duration("5.ms"), None);
    }
}
