//! A P4Runtime client for people: the commands of `tributary p4runtime`.
//!
//! - [`words`]: a command line in words;
//! - [`names`]: what the switch's P4Info names;
//! - [`value`], [`mod@matches`], [`entry`], [`data`], [`text`]: values, keys, entries and other entities
//!   as text, and back;
//! - [`session`]: the connection;
//! - [`commands`]: the commands, each with its help; [`run()`] carries one out;
//! - [`complete`]: completion of a command that is being written;
//! - [`output`]: what commands print, as text and JSON.
//!
//! The crate knows nothing about aggregation, and nothing about terminals. It speaks standard P4Runtime, to any switch.
//! The connection itself is the one of `tributary-controller`.
//!
//! Start reading at [`commands`].

pub mod commands;
pub mod complete;
pub mod data;
pub mod entry;
mod error;
pub mod matches;
pub mod names;
pub mod output;
mod run;
pub mod session;
pub mod text;
pub mod value;
pub mod words;

pub use error::Error;
pub use output::Report;
pub use run::run;
pub use session::Session;
