//! The life of a job: admission, endpoints, work, report, sweep.
//!
//! [`run()`] takes a job file through it on a [`Fabric`]: threads of one process
//! ([`fabric::Memory`]), processes in network namespaces ([`fabric::Netns`]), or virtual time
//! ([`fabric::Sim`]). All of them give the same [`report`].
//!
//! | module | concern |
//! | --- | --- |
//! | [`mod@run`] | the steps, the same on every fabric |
//! | [`fabric`] | where switches and endpoints run |
//! | [`program`] | the P4 program of a job file, compiled |
//! | [`rounds`] | one worker's rounds: tensors, pauses, comparison with sums computed apart |
//! | [`worker`] | those rounds over a port, in real time |
//! | [`workload`] | where tensors come from, and what their sums must be |
//! | [`servers`] | what parameter servers and reminder agents report |
//! | [`faults`] | the faults of a job file's links, around ports |
//! | [`names`] | jobs and hosts by their names |
//! | [`channel`], [`tokens`] | ESA's reliable channels |
//! | [`report`] | the result, as tables and as JSON |
//!
//! To add a fabric, implement [`Fabric`] and add it to [`fabric::Kind`] and [`run()`].

pub mod alone;
pub mod channel;
pub mod fabric;
pub mod faults;
pub mod names;
pub mod program;
pub mod report;
pub mod rounds;
pub mod run;
pub mod servers;
pub mod tokens;
pub mod worker;
pub mod workload;

use anyhow::{Context, Result};

pub use fabric::Fabric;
pub use run::{Options, run};

/// What gRPC runs on: one thread beside the calling one is enough for it.
///
/// # Errors
/// If there can be no more threads.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start threads")
}

/// The chain of causes in one line; a cause that is part of its error's text is not repeated. Errors can
/// contain names from files and other machines, so control characters are escaped.
#[must_use]
pub fn one_line(error: &anyhow::Error) -> String {
    let line = error.chain().skip(1).fold(error.to_string(), |line, cause| {
        let cause = cause.to_string();
        if line.contains(&cause) { line } else { format!("{line}: {cause}") }
    });
    line.split('\n').map(tributary_p4::printable).collect::<Vec<_>>().join("\n")
}
