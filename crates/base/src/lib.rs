//! What every part needs: nothing here knows of gradients, switches or networks.
//!
//! - Files within limits ([`FileLimit`]), so that neither `/dev/zero` nor a large file named by mistake exhausts
//!   the memory. Every file that a person or another program names is read through this crate; the caller
//!   parses the contents. Files that are written exist whole or not at all ([`OutputFile`]).
//! - TOML with positions, for error messages ([`document`]).
//! - Limits of this process ([`descriptors`], [`address_space`]) and the machine's [`memory`]; how often a process
//!   that dies is started again ([`restarts`]); directories for output and sockets.
//! - Work on all cores ([`on_all_cores`]); pauses between attempts ([`Backoff`]).
//! - Text in messages ([`one_line`], [`printable`], [`shortened`]); pictures ([`Svg`]).
//! - Functions of bits that never change ([`SplitMix64`], [`Fnv`]).
//! - The other programs of this workspace ([`programs`]), and behind the feature `program` what the programs do
//!   alike; behind `connections`, the limits of a server's connections.

mod backoff;
#[cfg(feature = "connections")]
pub mod connections;
mod cores;
mod directory;
pub mod document;
mod file;
pub mod memory;
mod output;
mod process;
#[cfg(feature = "program")]
pub mod program;
pub mod programs;
mod random;
pub mod restarts;
mod svg;
mod text;

pub use backoff::Backoff;
pub use cores::on_all_cores;
pub use directory::{output_directory, socket_parent};
pub use file::{FileLimit, Limited};
pub use output::{OutputFile, write_whole, write_whole_with_mode};
pub use process::{address_space, descriptors};
pub use random::{Fnv, SplitMix64};
pub use svg::Svg;
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
