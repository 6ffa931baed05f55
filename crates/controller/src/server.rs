//! The controller's gRPC servers.

use tributary_access::Limits;

/// Bounds on the clients of the job scheduler and of runs.
pub const LIMITS: Limits = Limits { connections: 512, calls: 32 };

/// Longest request, which names the hosts of 1024 workers, with 61 letters each. With the limits above, unfinished requests
/// take at most 1.2 GB of memory.
pub(crate) const MESSAGE_LIMIT: usize = 64 << 10;
