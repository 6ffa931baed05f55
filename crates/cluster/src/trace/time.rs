//! Timestamps in traces.

/// Seconds from 1970 of a timestamp such as `2017-10-09 07:01:55`. The space may be a `T`. A
/// fraction and an offset (`+08:00`, `Z`, ` PDT`) are optional. Without an offset the time is UTC.
pub(super) fn parse(text: &str) -> Option<f64> {
    let text = text.trim();
    let (date, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix([' ', 'T'])?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let [year, month, day] = parts(date, b'-', [4, 2, 2])?;
    let [hour, minute, second] = parts(clock, b':', [2, 2, 2])?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (fraction, rest) = fraction(rest)?;
    let days = days(year, month, day)?;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second - offset_s(rest.trim_start())?;
    Some(seconds as f64 + fraction)
}

/// Three numbers of these widths, separated by `separator`.
fn parts(text: &str, separator: u8, widths: [usize; 3]) -> Option<[i64; 3]> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut numbers = [0; 3];
    for (index, (number, width)) in numbers.iter_mut().zip(widths).enumerate() {
        if index > 0 {
            (bytes.get(at) == Some(&separator)).then_some(())?;
            at += 1;
        }
        for &digit in bytes.get(at..at + width)? {
            digit.is_ascii_digit().then_some(())?;
            *number = *number * 10 + i64::from(digit - b'0');
        }
        at += width;
    }
    (at == bytes.len()).then_some(numbers)
}

/// An optional fraction of a second, and the text after it.
fn fraction(text: &str) -> Option<(f64, &str)> {
    let Some(digits) = text.strip_prefix('.') else { return Some((0.0, text)) };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    (end > 0).then_some(())?;
    let value = text[..=end].parse().ok()?;
    Some((value, &digits[end..]))
}

/// Seconds east of UTC.
fn offset_s(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first() {
        None => return Some(0),
        Some(b'+') => 1,
        Some(b'-') => -1,
        Some(_) => {
            return match text {
                "Z" | "UTC" | "GMT" => Some(0),
                "PST" => Some(-8 * 3600),
                "PDT" => Some(-7 * 3600),
                _ => None,
            };
        }
    };
    let digits: String = text[1..].chars().filter(|&c| c != ':').collect();
    let [hours, minutes] = match digits.len() {
        2 => [&digits[..], "0"],
        4 if digits.is_ascii() => [&digits[..2], &digits[2..]],
        _ => return None,
    };
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

/// Days from 1970-01-01 in the Gregorian calendar; `None` if the date does not exist.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, 28 + i64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let months = lengths.get(..usize::try_from(month - 1).ok()?)?;
    let length = *lengths.get(months.len())?;
    (1..=length).contains(&day).then_some(())?;
    // Leap days until the end of the preceding year, minus those before 1970.
    let before = year - 1;
    let leaps = before / 4 - before / 100 + before / 400 - 477;
    Some((year - 1970) * 365 + leaps + months.iter().sum::<i64>() + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_points_in_time() {
        assert_eq!(parse("1970-01-01 00:00:00"), Some(0.0));
        assert_eq!(parse("2000-03-01 00:00:00"), Some(951_868_800.0));
        assert_eq!(parse("2017-10-09 07:01:55"), Some(1_507_532_515.0));
        assert_eq!(parse("2024-02-29T23:59:59"), Some(1_709_251_199.0));
        assert_eq!(parse("1969-12-31 23:59:59"), Some(-1.0));
    }

    #[test]
    fn offsets_and_fractions() {
        assert_eq!(parse("2023-03-01 00:18:22+08:00"), Some(1_677_601_102.0));
        assert_eq!(parse("2023-02-28 16:18:22Z"), Some(1_677_601_102.0));
        assert_eq!(parse("2023-02-28 16:18:22.250+0000"), Some(1_677_601_102.25));
        assert_eq!(parse("2017-10-03 00:08:00 PDT"), parse("2017-10-03 07:08:00"));
        assert_eq!(parse("2017-11-27 00:04:00 PST"), parse("2017-11-27 08:04:00"));
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut last = days(1999, 12, 31).unwrap();
        for year in 2000..=2104 {
            for month in 1..=12 {
                for day in 1..=31 {
                    if let Some(now) = days(year, month, day) {
                        assert_eq!(now, last + 1, "{year}-{month}-{day}");
                        last = now;
                    }
                }
            }
        }
        assert_eq!(last, days(1999, 12, 31).unwrap() + 105 * 365 + 26);
    }

    #[test]
    fn invalid_times_are_none() {
        for text in [
            "",
            "None",
            "2017-10-09",
            "2017-13-01 00:00:00",
            "2017-02-29 00:00:00",
            "2017-00-01 00:00:00",
            "2017-10-00 00:00:00",
            "2017-10-09 24:00:00",
            "2017-10-09 07:60:00",
            "2017/10/09 07:01:55",
            "2017-10-09 07:01",
            "+017-10-09 07:01:55",
            "2017-10-09 07:01:55 CET",
            "2017-10-09 07:01:55+8",
            "2017-10-09 07:01:55.",
            "日本語日本語日本語日本語",
            "2017-10-09 07:01:5é",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
