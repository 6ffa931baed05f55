//! The controller's gRPC server.

use tributary_access::{Limits, SILENCE};

/// Bounds on endpoints and clients. There are twice as many as a job has workers, because those of a run that has ended
/// may still be there when others come, and some for hosts and clients.
pub const LIMITS: Limits = Limits { connections: 2304, calls: 8, silence: SILENCE };

/// Longest request, which names the hosts of 1024 workers, with 61 letters each. With the limits above, unfinished requests
/// take at most 1.2 GB of memory.
pub(crate) const MESSAGE_LIMIT: usize = 64 << 10;
