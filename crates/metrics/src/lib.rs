//! Numbers of a running process: published by its parts, and served to Prometheus.
//!
//! Parts publish what they count on a [`Board`], a few times per second, so that neither their packets
//! nor a reader waits for the other. Any number of readers look at a board: a [`Source`] of metrics, a live
//! view. [`Metrics`] collects the sources of a process, and a [`Server`] writes them on a page that
//! Prometheus reads. The page of another process can be [added](Metrics::add_process), and so can
//! [parts](Metrics::add_part) of this one that are alike.
//!
//! This crate knows neither jobs nor packets. What a part counts, and how its metrics are named, is in the
//! part's own crate.

mod board;
mod merged;
mod metrics;
mod page;
mod process;
mod remote;
mod serve;

pub use board::{Board, Entry, PERIOD, Schedule};
pub use metrics::{Guest, Metrics};
pub use page::{Page, Source};
pub use serve::Server;
