//! Why a job waits, in words on which its user can act.

/// Why the last round did not place a job.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Wait {
    /// There is no server to place it on.
    #[error("no server's agent is connected")]
    NoAgent,
    /// It cannot be placed before other agents connect.
    #[error("it wants {wanted} GPUs, and the servers with an agent have {there}")]
    TooFew {
        /// GPUs that it requests.
        wanted: u32,
        /// GPUs of all servers with an agent.
        there: u32,
    },
    /// Other jobs hold the GPUs.
    #[error("it wants {wanted} GPUs, and {free} are free")]
    Busy {
        /// GPUs that it requests.
        wanted: u32,
        /// Free GPUs, all servers together.
        free: u32,
    },
    /// The round gave the GPUs to others.
    #[error(
        "passed over: it wants {wanted} GPUs for a value of {value}; of the {free} that were free, others took \
         {taken}: {others}"
    )]
    PassedOver {
        /// GPUs that it requests.
        wanted: u32,
        /// Its value in this round.
        value: String,
        /// GPUs that were free before the round.
        free: u32,
        /// GPUs that the jobs of the round took.
        taken: u32,
        /// These jobs, with their values. Those of other tenants are only counted.
        others: String,
    },
    /// The policy had enough GPUs, and did not use them.
    #[error("{free} GPUs are free, and {policy} has no place for it; name another --policy")]
    NoPlace {
        /// Free GPUs, all servers together.
        free: u32,
        /// The policy.
        policy: String,
    },
    /// The network serves as many jobs as packets can name.
    #[error("all numbers of jobs in packets are in use; it waits until one of these jobs ends")]
    NoNumber,
}
