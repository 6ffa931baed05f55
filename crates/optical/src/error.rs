//! Errors, one line each: what is wrong, where, and how to fix it.

/// Why jobs cannot be built, read or scheduled.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Error {
    /// A property of the network is impossible.
    #[error("network: {0}")]
    Network(String),
    /// A job is impossible.
    #[error("job {id}: {problem}")]
    Job {
        /// The job's number.
        id: u32,
        /// What is wrong, and how to fix it.
        problem: String,
    },
    /// The jobs need more slots than a schedule can have.
    #[error(
        "the schedule has more than {0} slots; give the jobs less data, or the network longer slots"
    )]
    Long(usize),
    /// A line of a trace is malformed.
    #[error("line {line}: {problem}")]
    Trace {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong, and how to fix it.
        problem: String,
    },
    /// A file of jobs is malformed: what is wrong, and its position.
    #[error("{0}")]
    File(String),
}

impl Error {
    pub(crate) fn job(id: u32, problem: impl Into<String>) -> Self {
        Self::Job { id, problem: problem.into() }
    }
}

impl From<tributary_base::document::Error> for Error {
    fn from(error: tributary_base::document::Error) -> Self {
        Self::File(error.to_string())
    }
}
