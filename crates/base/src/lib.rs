//! What every part needs: nothing here knows of gradients, switches or networks.
//!
//! - Files within limits ([`FileLimit`]), so that neither `/dev/zero` nor a large file named by mistake exhausts
//!   the memory. Every file that a person or another program names is read through this crate; the caller
//!   parses the contents. Files that are written exist whole or not at all ([`OutputFile`]).
//! - TOML with positions, for error messages ([`document`]).
//! - Limits of this process ([`descriptors`], [`address_space`]) and the machine's [`memory`]; how often a process
//!   that dies is started again ([`restarts`]); directories for output and sockets.
//! - Work on all cores ([`on_all_cores`]); pauses between attempts ([`Backoff`]).
//! - Text in messages ([`one_line`], [`printable`], [`shortened`], [`size`]); pictures ([`Svg`]).
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
mod size;
mod svg;
mod text;

pub use backoff::Backoff;
pub use cores::on_all_cores;
pub use directory::{output_directory, socket_parent};
pub use file::{FileLimit, Limited};
pub use output::{OutputFile, write_whole, write_whole_with_mode};
pub use process::{address_space, descriptors};
pub use random::{Fnv, SplitMix64};
pub use size::{decimal_size, size};
pub use svg::Svg;
pub use text::{EXCERPT, counted, joined_lines, one_line, printable, shortened, unprintable};

/// The target of lines of the log about decisions that its reader wants by default, such as where a job is placed.
pub const DECISIONS: &str = "tributary_decisions";
