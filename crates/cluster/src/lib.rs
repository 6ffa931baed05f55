//! GPU clusters and the training jobs in them: what there is, who runs where, what the network
//! gives each job, and how a trace of jobs unfolds in time.
//!
//! Nothing here decides where a job goes: that is a [`Policy`], and the policies live in
//! `tributary-placement`. Nothing here moves packets either: rates are fluid, as in NetPack §4.
//!
//! Where to start: a [`Cluster`] is what there is, a [`Job`] is what someone wants, a [`Plan`] is a
//! policy's answer, and a [`State`] is a cluster with the plans of the jobs that run in it.
//! [`mod@file`] and [`trace`] read clusters and jobs, [`simulate`] runs them, [`metrics`] says how
//! good that was, and [`validate`] checks it.

pub mod aggregation;
mod collective;
pub mod file;
mod job;
pub mod metrics;
pub mod model;
mod plan;
mod policy;
pub mod simulate;
mod state;
mod steady;
mod topology;
pub mod trace;
pub mod validate;

pub use collective::{Collective, Phase, path_gbps};
pub use job::{Job, JobId};
pub use plan::Plan;
pub use policy::{Pending, Policy, Round};
pub use state::{Infeasible, Running, State};
pub use steady::Network;
pub use topology::{Cluster, Pod, PodIndex, Rack, RackIndex, Server, ServerIndex, Shape};
