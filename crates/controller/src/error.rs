//! What can go wrong between the controller and its switches: each one line that says what, where,
//! and how to mend it.

use tonic::Code;
use tributary_p4::Architecture;
use tributary_wire::{Epoch, JobId, Run};

use crate::segments::Refusal;

/// Why the controller could not do what it was asked to.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The switch's address cannot be one.
    #[error(
        "switch {switch}: `{address}` is no address of a P4Runtime server; write HOST:PORT or \
         unix:PATH"
    )]
    Address {
        /// Name of the switch.
        switch: String,
        /// What was given.
        address: String,
    },
    /// The certificates for encrypted connections are no good.
    #[error("cannot use the TLS certificates: {0}")]
    Certificates(String),
    /// Nobody answers.
    #[error(
        "switch {switch}: no P4Runtime server answers at {address} ({reason}); start the switch or \
         correct the address"
    )]
    Unreachable {
        /// Name of the switch.
        switch: String,
        /// Where it was looked for.
        address: String,
        /// What happened instead.
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
        /// What happened.
        reason: String,
    },
    /// The switch listens to another controller.
    #[error("switch {switch}: {}", not_primary(*primary, *own))]
    NotPrimary {
        /// Name of the switch.
        switch: String,
        /// The other's election ID; 0 if the switch does not tell.
        primary: u128,
        /// Ours.
        own: u128,
    },
    /// The switch has no device of that ID.
    #[error("switch {switch}: it has no device {device} ({reason}); correct --device-id")]
    Device {
        /// Name of the switch.
        switch: String,
        /// The device ID asked for.
        device: u64,
        /// What the switch said.
        reason: String,
    },
    /// The switch does not take the program.
    #[error("switch {switch}: the pipeline was refused: {diagnostics}; correct the P4 program")]
    PipelineRefused {
        /// Name of the switch.
        switch: String,
        /// What the switch said.
        diagnostics: String,
    },
    /// The switch did not do all that was asked.
    #[error("switch {switch}: {failed} of {all} updates failed, first {what}: {reason}; {mend}")]
    Write {
        /// Name of the switch.
        switch: String,
        /// Updates that failed.
        failed: usize,
        /// Updates in the batch.
        all: usize,
        /// The first one that failed, in words.
        what: String,
        /// Why.
        reason: String,
        /// What to do.
        mend: &'static str,
        /// Code of the first failure.
        code: Code,
    },
    /// The switch answered a request with an error.
    #[error("switch {switch}: {what} failed ({code:?}: {reason}); see the switch's log")]
    Request {
        /// Name of the switch.
        switch: String,
        /// What was asked for.
        what: &'static str,
        /// gRPC status code.
        code: Code,
        /// What the switch said.
        reason: String,
    },
    /// What a target is to run cannot be built, or is not what it should be.
    #[error("{what}: {reason}")]
    Bundle {
        /// The file or directory.
        what: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The job has not so many workers.
    #[error("job {job} has workers 0 to {}, and no other", .workers - 1)]
    NoWorker {
        /// The job.
        job: JobId,
        /// How many it has.
        workers: u32,
    },
    /// The controller did not tell which run of its job a process is in.
    #[error(
        "the controller at {address} (--controller) names no run: {reason}; start it with \
         --listen, and the endpoints after it"
    )]
    Joining {
        /// Where it was asked.
        address: String,
        /// Why not.
        reason: String,
    },
    /// The clock was set back, or a switch was given an epoch of the future.
    #[error(
        "the clock is {seconds} s behind the epoch of the latest run, so a new run could get the epoch \
         of an old one; correct the clock, or restart the switches if it is correct"
    )]
    Clock {
        /// How far it is behind.
        seconds: u64,
    },
    /// A client names an epoch that was not issued yet.
    #[error(
        "epoch {epoch} is {seconds} s ahead of the clock, so it was never issued; send 0 for a new run"
    )]
    FutureEpoch {
        /// What it named.
        epoch: Epoch,
        /// How far it is ahead.
        seconds: u64,
    },
    /// Another job has the epoch: aggregators are told apart by it.
    #[error("{0}: job {1} has the same epoch; let the controller issue another one")]
    EpochTaken(Run, JobId),
    /// The file that says which ports of a switch those of the job file are.
    #[error("{file}: {reason}")]
    Ports {
        /// The file.
        file: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The program does not have what the controller needs.
    #[error("the P4 program has no {what} that the controller could use; {mend}")]
    Program {
        /// What is missing, for example ``table `memberships` ``.
        what: String,
        /// What to do.
        mend: &'static str,
    },
    /// The P4 program cannot be compiled.
    #[error("{0}")]
    Compile(String),
    /// The file of the P4 program cannot be read.
    #[error("{path}: cannot read the P4 program: {reason}; correct the name after --p4")]
    ReadProgram {
        /// The file.
        path: String,
        /// What the operating system said.
        reason: String,
    },
    /// A program that is needed is not installed.
    #[error("{program} is not on the PATH; {mend}")]
    NoTool {
        /// The program.
        program: &'static str,
        /// What to do.
        mend: &'static str,
    },
    /// There is no program of that name.
    #[error("there is no P4 program `{name}` for {architecture}; the ones built in are {known}")]
    UnknownProgram {
        /// The name asked for.
        name: String,
        /// The architecture asked for.
        architecture: Architecture,
        /// The names that there are.
        known: String,
    },
    /// The job is there already, or its ID has not been freed by a sweep yet.
    #[error("job {0} is {1}; choose another job ID, or remove the job first")]
    JobTaken(JobId, &'static str),
    /// The job was not admitted.
    #[error("job {0} was not admitted; admit it first")]
    UnknownJob(JobId),
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
    /// Sums of several switches, or of none, are the parameter server's to make.
    #[error(
        "job {0} needs a parameter server: its workers hang on several switches, or switches are only \
         to forward its packets; give it one"
    )]
    NoServer(JobId),
    /// SwitchML knows no other jobs than those at one switch.
    #[error(
        "job {0}: with SwitchML, all workers of a job hang on one switch and are summed there; place \
         them so, or use P4INC"
    )]
    NotLocal(JobId),
    /// Switch memory is short, or what was asked for is not to be had.
    #[error("switch {switches}: {refusal}; ask for fewer, or wait until a job ends")]
    Memory {
        /// Names of the switches that it is about, with commas in between.
        switches: String,
        /// Why not.
        refusal: Refusal,
    },
    /// There is less memory than parts that it is to have.
    #[error(
        "{pool} aggregators cannot be divided into {partitions} parts of two or more; enlarge the pool, \
         or have fewer parts"
    )]
    Partitions {
        /// Aggregators of a switch.
        pool: u32,
        /// Parts wanted.
        partitions: u32,
    },
    /// The program gives jobs no aggregators of their own.
    #[error(
        "the P4 program gives jobs no aggregators of their own, so none can be assigned; push p4inc or \
         switchml"
    )]
    Unassigned,
    /// The assignment does not fit the job.
    #[error("job {job}: {reason}")]
    Assignment {
        /// The job.
        job: JobId,
        /// What does not fit, and what to do.
        reason: &'static str,
    },
    /// All counter slots are taken.
    #[error("{0} jobs run already, as many as a switch counts apart; wait until one ends")]
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
        /// How long the controller waited.
        seconds: u64,
    },
}

/// Who rules instead of us, and what to do.
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

/// Text from a switch may have many lines; an error is one.
pub(crate) fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" | ")
}
