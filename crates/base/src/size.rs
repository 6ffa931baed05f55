//! Numbers of bytes for people.

/// A number of bytes of memory: `512 bytes`, `4.0 MiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    with_unit(bytes, 1024.0, &UNITS)
}

/// A number of bytes that were sent, or are to be: `999 B`, `65.5 KB`.
#[must_use]
pub fn decimal_size(bytes: u64) -> String {
    with_unit(bytes, 1000.0, &["B", "KB", "MB", "GB"])
}

fn with_unit(bytes: u64, step: f64, units: &[&str]) -> String {
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = if unit == 0 { 0 } else { 1 };
    format!("{value:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::{decimal_size, size};

    #[test]
    fn sizes_are_readable() {
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(1023), "1023 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(4 << 20), "4.0 MiB");
        assert_eq!(size(16 << 30), "16.0 GiB");
        assert_eq!(size(u64::MAX), "16384.0 PiB");
        assert_eq!(decimal_size(999), "999 B");
        assert_eq!(decimal_size(65_536), "65.5 KB");
        assert_eq!(decimal_size(4_000_000), "4.0 MB");
    }
}
