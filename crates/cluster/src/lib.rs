//! GPU clusters and the training jobs in them: the topology, the placement of jobs, the rates that
//! the network gives them, and the simulation of a trace.
//!
//! The crate does not decide where a job goes: that is a [`Policy`], and the policies are in
//! [`placement`]. It does not model packets either: rates are fluid, as in NetPack §4.
//!
//! Start reading here: a [`Cluster`] is the hardware, a [`Job`] is a request, a [`Plan`] is a
//! policy's answer, and a [`State`] is a cluster with the plans of its running jobs. [`mod@file`],
//! [`occupied`] and [`trace`] read clusters and jobs, [`simulate`] runs them, [`metrics`] evaluates the run, and
//! [`validate`] checks it.

pub mod aggregation;
mod collective;
pub mod file;
mod job;
pub mod metrics;
pub mod model;
pub mod occupied;
pub mod placement;
mod plan;
mod policy;
pub mod simulate;
mod state;
mod steady;
mod topology;
pub mod trace;
pub mod validate;
mod weighed;

pub use collective::{Collective, Phase, path_gbps};
pub use job::{Job, JobId};
pub use plan::Plan;
pub use policy::{Pending, Policy, Round};
pub use state::{Infeasible, Running, State};
pub use steady::{Link, SteadyNetwork};
pub use topology::{Cluster, Pod, PodIndex, Rack, RackIndex, Server, ServerIndex, Shape};
pub use weighed::{WEIGHED_MAX, Weighed};
