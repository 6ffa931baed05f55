//! What someone wants to run.

/// A job's number, in the order of submission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobId(pub u32);

/// A training job: iterations of computing on every GPU, then summing the gradients of all.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Which job.
    pub id: JobId,
    /// When it was submitted, seconds from the start of the trace.
    pub submit_s: f64,
    /// GPUs that it wants, at least 1.
    pub gpus: u32,
    /// Iterations that it runs.
    pub iterations: f64,
    /// Time that an iteration computes on each GPU, seconds.
    pub compute_s: f64,
    /// Gradients that an iteration sums, bytes a worker.
    pub gradient_bytes: f64,
    /// What it is worth to have it run (NetPack §5.2, step 1).
    pub value: f64,
}

impl Job {
    /// Time that the job takes once it runs and its gradients are summed in no time, seconds.
    #[must_use]
    pub fn ideal_s(&self) -> f64 {
        self.iterations * self.compute_s
    }
}
