//! A network in this process: switches that run a P4 program, their controller, parameter servers and reminder
//! agents, and the connections of workers. Nothing needs privileges.
//!
//! | module | content |
//! | --- | --- |
//! | `network` | the parts, joined by memory links: [`Embedded`] |
//! | `lanes` | links to hosts with several threads |
//! | `threads` | which thread of a switch a frame is for: [`row`] |
//! | `relay` | ESA's channels over links with faults |
//! | [`program`] | the P4 program of a job file, compiled |
//! | [`switches`] | the numbers of running switches, for metrics |
//!
//! Each switch has a thread, or several, and so has each server; all workers that share a core have one. The reliable
//! channel of ESA is TCP over loopback. Workers may also be [`Outside`], in other processes, as the ranks of a PyTorch
//! group are.

mod lanes;
mod network;
pub mod program;
mod relay;
pub mod switches;
mod threads;

pub use network::{
    Boards, Contacts, Embedded, LINK_CAPACITY, Note, Options, Outside, Tap, Tell, device_id, join,
    spawn,
};
pub use threads::{row, share};
