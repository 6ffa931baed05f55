//! Errors between the controller and its switches: one line each, with problem, place and fix.

use tonic::Code;
use tributary_p4::Architecture;
use tributary_wire::{Epoch, JobId, Run};

/// Why the controller could not do what was requested.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The switch's address is invalid.
    #[error(
        "switch {switch}: `{address}` is not an address of a P4Runtime server; write HOST:PORT or \
         unix:PATH"
    )]
    Address {
        /// Name of the switch.
        switch: String,
        /// The given address.
        address: String,
    },
    /// The certificates for encrypted connections are unusable.
    #[error("cannot use the TLS certificates: {0}")]
    Certificates(String),
    /// The network cannot serve the job.
    #[error(transparent)]
    Model(#[from] tributary_model::Error),
    /// No server answers.
    #[error(
        "switch {switch}: no P4Runtime server answers at {address} ({reason}); start the switch or \
         correct the address"
    )]
    Unreachable {
        /// Name of the switch.
        switch: String,
        /// The address.
        address: String,
        /// The cause.
        reason: String,
    },
    /// The connection broke, and did not come back in time.
    #[error(
        "switch {switch}: the connection was lost ({reason}) and did not come back in time; see \
         whether the switch still runs"
    )]
    Lost {
        /// Name of the switch.
        switch: String,
        /// The cause.
        reason: String,
    },
    /// Another controller is primary.
    #[error("switch {switch}: {}", not_primary(*primary, *own))]
    NotPrimary {
        /// Name of the switch.
        switch: String,
        /// Its election ID; 0 if the switch does not report it.
        primary: u128,
        /// Our election ID.
        own: u128,
    },
    /// The switch has no device with that ID.
    #[error("switch {switch}: it has no device {device} ({reason}); correct --device-id")]
    Device {
        /// Name of the switch.
        switch: String,
        /// The requested device ID.
        device: u64,
        /// The switch's answer.
        reason: String,
    },
    /// The switch does not accept the program.
    #[error("switch {switch}: the pipeline was refused: {diagnostics}; correct the P4 program")]
    PipelineRefused {
        /// Name of the switch.
        switch: String,
        /// The switch's answer.
        diagnostics: String,
    },
    /// Some updates failed.
    #[error("switch {switch}: {failed} of {all} updates failed, first {what}: {reason}; {fix}")]
    Write {
        /// Name of the switch.
        switch: String,
        /// Number of updates that failed.
        failed: usize,
        /// Number of updates in the batch.
        all: usize,
        /// Description of the first update that failed.
        what: String,
        /// Why it failed.
        reason: String,
        /// How to fix it.
        fix: &'static str,
        /// Code of the first failure.
        code: Code,
    },
    /// The switch answered a request with an error.
    #[error("switch {switch}: {what} failed ({code:?}: {reason}); see the switch's log")]
    Request {
        /// Name of the switch.
        switch: String,
        /// What was requested.
        what: &'static str,
        /// gRPC status code.
        code: Code,
        /// The switch's answer.
        reason: String,
    },
    /// A target's pipeline cannot be built, or is invalid.
    #[error("{what}: {reason}")]
    Bundle {
        /// The file or directory.
        what: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The clock was set back, or a switch has an epoch from the future.
    #[error(
        "the clock is {seconds} s behind the epoch of the latest run, so a new run could get the epoch \
         of an old one; correct the clock, or restart the switches if it is correct"
    )]
    Clock {
        /// How far the clock is behind, in seconds.
        seconds: u64,
    },
    /// A client names an epoch that was not issued yet.
    #[error(
        "epoch {epoch} is {seconds} s ahead of the clock, so it was never issued; send 0 for a new run"
    )]
    FutureEpoch {
        /// The epoch.
        epoch: Epoch,
        /// How far it is ahead, in seconds.
        seconds: u64,
    },
    /// Another job has the epoch, but aggregators are identified by epochs.
    #[error("{0}: job {1} has the same epoch; let the controller issue another one")]
    EpochTaken(Run, JobId),
    /// The chassis configuration needs a port map.
    #[error(
        "--chassis-config: nothing is known about port {port} of switch {switch}; give a file with --ports"
    )]
    UnknownPanel {
        /// The switch.
        switch: String,
        /// The port's number in the job file.
        port: u16,
    },
    /// The program does not have what the controller needs.
    #[error("the P4 program has no {what} that the controller could use; {fix}")]
    Program {
        /// What is missing, for example ``table `memberships` ``.
        what: String,
        /// How to fix it.
        fix: &'static str,
    },
    /// The P4 program cannot be compiled.
    #[error("{0}")]
    Compile(String),
    /// There is no room for the P4 compiler.
    #[error("{0}")]
    NoCompiler(String),
    /// The file of the P4 program cannot be read.
    #[error("{path}: cannot read the P4 program: {reason}; correct the name after --p4")]
    ReadProgram {
        /// The file.
        path: String,
        /// The operating system's error.
        reason: String,
    },
    /// A required program is not installed.
    #[error("{program} is not on the PATH; {fix}")]
    NoTool {
        /// The program.
        program: &'static str,
        /// How to fix it.
        fix: &'static str,
    },
    /// The library has no program of that name.
    #[error("there is no P4 program `{name}` for {architecture}; the ones built in are {known}")]
    UnknownProgram {
        /// The requested name.
        name: String,
        /// The requested architecture.
        architecture: Architecture,
        /// The existing names.
        known: String,
    },
    /// The job already exists, or a sweep has not freed its ID yet.
    #[error("job {0} is {1}; choose another job ID, or remove the job first")]
    JobTaken(JobId, &'static str),
    /// The job was not admitted.
    #[error("job {0} was not admitted; admit it first")]
    UnknownJob(JobId),
    /// The program gives jobs no aggregators of their own.
    #[error(
        "the P4 program gives jobs no aggregators of their own, so none can be assigned; push p4inc or \
         switchml"
    )]
    Unassigned,
    /// The journal cannot be written.
    #[error("cannot record the change in the journal: {0}")]
    Unrecorded(String),
    /// The assignment does not fit the job.
    #[error("job {job}: {reason}")]
    Assignment {
        /// The job.
        job: JobId,
        /// What does not fit, and how to fix it.
        reason: &'static str,
    },
    /// All counter slots are taken.
    #[error("{0} jobs run already, as many as a switch can count separately; wait until one ends")]
    Full(usize),
    /// The sweep did not come back.
    #[error(
        "switch {switch}: the sweep for job {job} did not come back within {seconds} s; the job's ID \
         stays taken: remove the job again"
    )]
    SweepLost {
        /// Name of the switch.
        switch: String,
        /// The job.
        job: JobId,
        /// How long the controller waited, in seconds.
        seconds: u64,
    },
}

/// Names the primary controller, and how to fix it.
fn not_primary(primary: u128, own: u128) -> String {
    match primary {
        0 => format!(
            "another controller has become primary (our election ID is {own}); stop it, or take over \
             with a higher --election-id"
        ),
        primary if primary == own => format!(
            "another controller has our election ID {own}; stop it, or take over with --election-id {}",
            own.saturating_add(1)
        ),
        primary => format!(
            "another controller is primary (election ID {primary}, ours is {own}); stop it, or take \
             over with --election-id {}",
            primary.saturating_add(1)
        ),
    }
}

/// A switch's message in one line.
pub(crate) fn one_line(text: &str) -> String {
    tributary_base::joined_lines(text, " | ")
}
