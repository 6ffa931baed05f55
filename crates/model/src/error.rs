//! Why a job cannot be served by a network.

use tributary_wire::JobId;

use crate::circuits::Invalid;
use crate::segments::Refusal;

/// Why a job cannot be served as it is asked for. One line each, with problem, place and fix.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The circuits do not fit the cross-connect.
    #[error("cannot route over these circuits: {0}")]
    Circuits(#[from] Invalid),
    /// Reminders could not reach a switch that holds partial sums.
    #[error(
        "job {job}: from host {agent}, no packet to a worker passes switch {switch}, which the reminder \
         agent must reach; place the agent at the parameter server"
    )]
    AgentAside {
        /// The job.
        job: JobId,
        /// Name of the agent's host.
        agent: String,
        /// Name of the switch.
        switch: String,
    },
    /// The job needs a parameter server: its workers are attached to several switches, or switches
    /// only forward.
    #[error(
        "job {0} needs a parameter server: its workers are attached to several switches, or switches are only \
         to forward its packets; give it one"
    )]
    NoServer(JobId),
    /// SwitchML serves only jobs whose workers are attached to one switch.
    #[error(
        "job {0}: with SwitchML, all workers of a job are attached to one switch and are summed there; place \
         them so, or use P4INC"
    )]
    NotLocal(JobId),
    /// Switches cannot provide the requested memory.
    #[error("switch {switches}: {refusal}; ask for fewer, or wait until a job ends")]
    Memory {
        /// Names of these switches, separated by commas.
        switches: String,
        /// The cause.
        refusal: Refusal,
    },
    /// The switches have too few aggregators for that many parts.
    #[error(
        "{pool} aggregators cannot be divided into {partitions} parts of two or more; enlarge the pool, \
         or have fewer parts"
    )]
    Partitions {
        /// Aggregators of a switch.
        pool: u32,
        /// Requested number of parts.
        partitions: u32,
    },
}
