//! Resource limits: file sizes ([`FileLimit`]), output directories that are tested before the work
//! ([`output_directory`]), output files that are there whole or not at all ([`OutputFile`]), a directory for
//! sockets ([`socket_parent`]), the limits of this process ([`descriptors`], [`address_space`]), the
//! available memory of this machine ([`memory`]), how often a process that dies is started again
//! ([`restarts`]), text in messages ([`shortened`], [`printable`], [`one_line`]), and the connections of a server
//! (`connections`, behind the feature of that name).
//!
//! Every file that a person or another program names is read through this crate, so that neither
//! `/dev/zero` nor a large file named by mistake exhausts the memory. The caller parses the
//! contents.

#[cfg(feature = "connections")]
pub mod connections;
mod directory;
mod file;
pub mod memory;
mod output;
mod process;
pub mod restarts;
mod text;

pub use directory::{output_directory, socket_parent};
pub use file::{FileLimit, Limited};
pub use output::{OutputFile, write_whole, write_whole_with_mode};
pub use process::{address_space, descriptors};
pub use text::{EXCERPT, one_line, printable, shortened, unprintable};

/// A number of bytes in human-readable form: `512 bytes`, `4.0 MiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1 << 10 {
        return format!("{bytes} bytes");
    }
    let unit = (bytes.ilog2() / 10).min(5);
    let value = bytes as f64 / (1_u64 << (10 * unit)) as f64;
    format!("{value:.1} {}", UNITS[unit as usize - 1])
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_readable() {
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(1023), "1023 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(4 << 20), "4.0 MiB");
        assert_eq!(size(16 << 30), "16.0 GiB");
        assert_eq!(size(u64::MAX), "16384.0 PiB");
    }
}
