//! Timestamps in traces.

use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::{self, Offset};

/// Seconds from 1970 of a timestamp such as `2017-10-09 07:01:55`. The space may be a `T`. A
/// fraction and an offset (`+08:00`, `Z`, ` PDT`) are optional. Without an offset the time is UTC.
pub(super) fn parse(text: &str) -> Option<f64> {
    let text = text.trim();
    // Years have four digits; the library also takes a sign.
    text.split_once('-').filter(|(year, _)| year.len() == 4 && !year.starts_with('+'))?;
    let formats = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"];
    let parsed = formats.iter().find_map(|format| BrokenDownTime::parse_prefix(format, text).ok());
    let (time, used) = parsed?;
    let time = offset(text[used..].trim_start())?.to_timestamp(time.to_datetime().ok()?).ok()?;
    Some(time.as_second() as f64 + f64::from(time.subsec_nanosecond()) / 1e9)
}

/// An offset from UTC.
fn offset(text: &str) -> Option<Offset> {
    match text {
        "" | "Z" | "UTC" | "GMT" => Some(Offset::UTC),
        "PST" => Some(tz::offset(-8)),
        "PDT" => Some(tz::offset(-7)),
        _ => ["%z", "%:z", "%:::z"].iter().find_map(|format| {
            BrokenDownTime::parse(format, text).ok().and_then(|time| time.offset())
        }),
    }
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
