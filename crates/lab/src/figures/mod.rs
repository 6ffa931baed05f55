//! Comparisons of policies over a trace, and the figures of the papers on ESA, NetPack, Titan and
//! P4INC-AOI, as tables, charts and pages.
//!
//! All results come from `tributary-cluster`, `tributary-sim` and
//! `tributary-optical`. This module sets up, repeats and presents experiments. It does not print or
//! write: the caller does that with each [`Figure`].

mod agreement;
mod chart;
pub mod compare;
mod digest;
pub mod esa;
pub mod gantt;
mod interval;
pub mod netpack;
pub mod optical;
mod page;
mod raster;
mod runs;
pub mod sweep;
mod table;
pub mod titan;
mod verdict;
mod workload;

pub use chart::{
    Chart, DrawError, Estimates, Heat, HeatPanel, Line, Marks, Measured, Paper, PaperAt, Scale,
    Series,
};
pub use digest::{Digest, Trial, digest};
pub use interval::Interval;
pub use page::{Figure, page};
pub use runs::{Progress, Run, RunError, policy, run};
pub use table::{Cell, Table};
pub use workload::{Drawn, Workload, factor, load};
