//! Policies compared over a trace, and the figures of NetPack's and Titan's papers, as tables, charts
//! and pages.
//!
//! Every number comes from `tributary-cluster` and `tributary-placement`; here experiments are set up,
//! repeated and shown. Nothing is printed or written: a [`Figure`] is what the caller prints and writes.

mod agreement;
mod chart;
pub mod compare;
pub mod netpack;
mod page;
mod runs;
pub mod sweep;
mod table;
pub mod titan;
mod workload;

pub use chart::{Chart, DrawError, Line, Marks, Scale};
pub use page::{Figure, page};
pub use runs::{Progress, Run, RunError, policy, run};
pub use table::{Cell, Table};
pub use workload::{Workload, load};
