//! Jobs.

/// The number of a job, in the order of submission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobId(pub u32);

/// A training job: iterations of computing on every GPU, followed by summing the gradients of all
/// GPUs.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// Time of submission, in seconds from the start of the trace.
    pub submit_s: f64,
    /// Number of GPUs requested, at least 1.
    pub gpus: u32,
    /// Number of iterations.
    pub iterations: f64,
    /// Computing time per iteration on each GPU, in seconds.
    pub compute_s: f64,
    /// Gradients summed per iteration, in bytes per worker.
    pub gradient_bytes: f64,
    /// The value of running it (NetPack §5.2, step 1).
    pub value: f64,
}

impl Job {
    /// Run time in seconds if summing gradients takes no time.
    #[must_use]
    pub fn ideal_s(&self) -> f64 {
        self.iterations * self.compute_s
    }
}
