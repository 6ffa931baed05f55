//! The commands, a file each.

pub(crate) mod cable;
pub(crate) mod controller;
pub(crate) mod network;
pub(crate) mod p4;
pub(crate) mod place;
pub(crate) mod ps;
pub(crate) mod reminder;
pub(crate) mod run;
pub(crate) mod switch;
pub(crate) mod worker;

/// What gRPC runs on: one thread is enough for it, beside the process's own.
///
/// # Errors
/// If there can be no more threads.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    use anyhow::Context as _;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start threads")
}
