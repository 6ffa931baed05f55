//! Networks and jobs, and what each switch and endpoint is given for them.
//!
//! | type | is |
//! | --- | --- |
//! | [`Network`] | hosts, switches, the links between them, and how the switches are set |
//! | [`JobSpec`] | a job: who takes part, what is summed, and under which rules |
//! | [`Scenario`] | both, as a job file has them |
//! | [`Deployment`] | what each switch, worker, server and agent is given; follows from a scenario |
//!
//! Everything here is a value or a pure function of values: no sockets, no clocks, no P4. Only
//! [`jobfile`] reads files. `tributary-controller` writes plans into switches, and
//! the endpoints run what a [`Deployment`] gives them.
//!
//! | module | content |
//! | --- | --- |
//! | [`plan`] | from a topology and a job's [`Placement`](plan::Placement) to each switch's part |
//! | [`paths`] | shortest paths between switches, on which plans are built |
//! | [`services`] | how switches serve the jobs of P4INC and SwitchML |
//! | [`segments`] | allocates aggregators, where jobs have aggregators of their own |
//! | [`memory`] | the services and segments of all jobs of a network |
//! | [`job`] | a job's life, as a state machine |
//! | [`jobfile`] | job files: the text form of a scenario |
//! | [`papers`] | the rules of each paper, under one name |
//! | [`circuits`] | which ports of an optical cross-connect are joined |
//!
//! Start reading at [`Scenario`].

pub mod circuits;
mod configs;
mod deployment;
mod error;
pub mod job;
pub mod jobfile;
pub mod memory;
mod network;
mod orchestration;
mod pace;
pub mod papers;
pub mod paths;
pub mod plan;
pub mod segments;
pub mod services;
mod spec;
mod topology;

pub use deployment::Deployment;
pub use error::Error;
pub use network::{Network, Preemption, SwitchSettings};
pub use orchestration::{Orchestration, Policy};
pub use spec::{
    Aggregation, Digits, Distribution, Duty, JobSpec, LONGEST_PAUSE, Lane, Limits, OnDeath,
    OnUnderflow, Profile, RandomTensors, SCALES, Scenario, Straggler, SummedAt, TensorFiles,
    Verify, Workload, worker_index,
};
pub use topology::{
    End, Fibre, Host, HostId, HostRole, Link, LinkFaults, LinkId, Optical, ShortBursts, Switch,
    SwitchId, Topology, Unfit,
};
pub use tributary_wire::Protocol;
