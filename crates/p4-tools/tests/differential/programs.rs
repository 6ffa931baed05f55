//! The programs, and their packets: the widths of the fields after the Ethernet header, in bits.
//! Fields of packets and keys of entries are drawn from the same few values, so that entries match.

/// The directory of the programs.
pub(crate) const DIRECTORY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/programs");

/// A program for the comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// The name of its file, without the extension.
    pub(crate) name: &'static str,
    /// Widths of a packet's fields in bits; their sum is whole bytes.
    pub(crate) fields: &'static [u32],
    /// Maximum number of passes of a packet through the switch.
    pub(crate) passes: usize,
}

const fn once(name: &'static str, fields: &'static [u32]) -> Program {
    Program { name, fields, passes: 1 }
}

/// All programs.
pub(crate) const ALL: &[Program] = &[
    once("arithmetic", &[8, 8, 32, 32, 64, 64, 13, 3]),
    once("branches", &[8, 8, 16]),
    once("checksums", &[8, 8, 16, 32, 16, 16]),
    Program { name: "clones", fields: &[1, 1, 1, 1, 1, 1, 1, 1, 16, 16], passes: 4 },
    once("constants", &[8, 16, 8, 8]),
    once("counters", &[8, 8]),
    once("hashes", &[8, 32, 16, 7, 1]),
    once("headers", &[4, 12, 4, 12, 32, 16]),
    once("loops", &[8, 8, 32, 16, 8, 8, 8]),
    once("lookahead", &[8, 8, 8, 24, 8, 56, 8]),
    once("lpm", &[32, 16, 8, 8]),
    once("meters", &[8, 8, 8, 8, 8]),
    once("multicast", &[8, 16, 7, 9, 32, 32]),
    once("profiles", &[8, 16, 32, 8, 8]),
    once("range", &[16, 8, 32, 8]),
    Program { name: "recirculate", fields: &[8, 8, 16, 32], passes: 4 },
    once("registers", &[8, 8, 48, 8, 32]),
    Program { name: "resubmit", fields: &[8, 16, 32], passes: 4 },
    once("stacks", &[8, 8, 20, 3, 1, 8, 20, 3, 1, 8, 20, 3, 1, 8, 20, 3, 1, 8, 20, 3, 1, 8]),
    once("ternary", &[16, 8, 128, 3, 5, 8]),
    once("truncate", &[8, 8]),
    once("unions", &[8, 8, 8, 8, 8, 8, 8, 8, 8, 8]),
    once("varbits", &[8, 8, 16, 8, 32, 32, 8]),
];
