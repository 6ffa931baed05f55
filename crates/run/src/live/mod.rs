//! The live view of jobs in the network: what `tributary watch` and `tributary run --watch` show.
//!
//! A source describes the network once as a [`Scene`] and then reports the state of it again and again
//! as [`Sample`]s. Everything that is shown follows from these [`Line`]s, so a recording of them replays
//! to the same picture.
//!
//! | module | content |
//! | --- | --- |
//! | [`model`] | scene, samples, notes: the format of recordings and of the page's events |
//! | [`pool`] | from readings of a switch's registers to the cells of the heat map |
//! | [`history`] | the lines so far, in bounded memory |
//! | [`hub`] | the history, shared by a source and its viewers |
//! | [`recording`] | files of lines |
//! | [`server`] | the web page |
//! | [`terminal`] | the same for a terminal |
//!
//! This module reads no switch and runs no job: the rest of `tributary-run` does, and the command line for switches
//! that run elsewhere.

pub mod history;
pub mod hub;
pub mod log;
pub mod model;
pub mod pool;
pub mod recording;
pub mod server;
pub mod terminal;

pub use hub::Hub;
pub use model::{Line, Sample, Scene};
