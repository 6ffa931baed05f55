//! Why a job waits, in words on which its user can act.

use tributary_base::counted;

fn gpus(count: u32) -> String {
    counted(count as usize, "GPU")
}

fn is(count: u32) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// Why the last round did not place a job.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Wait {
    /// There is no server to place it on.
    #[error("no server's agent is connected")]
    NoAgent,
    /// It cannot be placed before other agents connect.
    #[error("it wants {}, and the servers with an agent have {there}", gpus(*wanted))]
    TooFew {
        /// GPUs that it requests.
        wanted: u32,
        /// GPUs of all servers with an agent.
        there: u32,
    },
    /// Other jobs hold the GPUs.
    #[error("it wants {}, and {free} {} free", gpus(*wanted), is(*free))]
    Busy {
        /// GPUs that it requests.
        wanted: u32,
        /// Free GPUs, all servers together.
        free: u32,
    },
    /// The round gave the GPUs to others.
    #[error(
        "passed over: it wants {} for a value of {value}; of the {free} that were free, others took {taken}: {others}",
        gpus(*wanted)
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
    #[error("{} {} free, and {policy} has no place for it; name another --policy", gpus(*free), is(*free))]
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
