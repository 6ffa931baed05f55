//! One worker's rounds, from its first tensor to its report: shared by real and virtual time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use tributary_controller::Deployment;
use tributary_jobfile::OnUnderflow;
use tributary_protocol::worker::Stats;
use tributary_protocol::{Assignment, Mode, Tensor, Terms};
use tributary_wire::WorkerIndex;

use crate::rounding::complaint;
use crate::workload::{self, Pauses, TrainingReport, Verifier, Workload};

/// An event of a running worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The worker waits until the others have joined.
    Waiting {
        /// Indices of workers that have not joined; empty while switches change to the new run.
        missing: Vec<u16>,
    },
    /// The job scheduler has not admitted the job, or does not answer.
    Unadmitted {
        /// What it answers, or why it does not.
        reason: String,
    },
    /// The worker begins an iteration that the job scheduler lets run.
    Iteration {
        /// Its number.
        number: u64,
        /// Where the job is summed: `local`, `partial` or `forwarded`.
        mode: String,
        /// The service ID; 0 if switches only forward.
        service: u8,
        /// Aggregators in the job's segment.
        size: u32,
    },
    /// A round is over.
    Round {
        /// Number of rounds finished.
        done: u64,
        /// Most rounds of the whole job.
        of: u64,
        /// A milestone, if there is one.
        note: Option<String>,
    },
    /// All rounds are over.
    Done(Box<WorkerReport>),
    /// The worker failed.
    Failed {
        /// The cause, in one line.
        reason: String,
    },
}

/// The report of a worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Number of rounds.
    pub rounds: u64,
    /// Number of values summed.
    pub values: u64,
    /// Number of values that equal a separately computed sum.
    pub verified: u64,
    /// Number of values summed after the warm-up.
    pub measured: u64,
    /// Seconds in all-reduce after the warm-up, without computing, pauses and verification.
    pub reduce_seconds: f64,
    /// Processor time of the worker's process in these all-reduces, in seconds; `None` if it shares
    /// its process with other parts.
    #[serde(default)]
    pub processor_seconds: Option<f64>,
    /// Counters of the protocol.
    #[serde(flatten)]
    pub stats: Stats,
    /// Result of the training, if there was one.
    pub training: Option<TrainingReport>,
}

/// One worker's rounds.
pub struct Rounds {
    deployment: Arc<Deployment>,
    job: usize,
    index: WorkerIndex,
    workload: Box<dyn Workload>,
    verifier: Verifier,
    pauses: Pauses,
    report: WorkerReport,
}

impl Event {
    /// The begin of an iteration.
    #[must_use]
    pub fn iteration(number: u64, assignment: Assignment) -> Self {
        let mode = match assignment.mode {
            Mode::Local => "local",
            Mode::Partial => "partial",
            Mode::Forwarded => "forwarded",
        };
        let (service, size) = (assignment.service.get(), assignment.segment.size);
        Self::Iteration { number, mode: mode.into(), service, size }
    }
}

impl Rounds {
    /// The rounds of a worker of the job with this index in the file.
    ///
    /// # Errors
    /// If the workload's files cannot be read or do not fit together.
    pub fn new(
        deployment: Arc<Deployment>,
        job: usize,
        index: WorkerIndex,
        verifier: Verifier,
    ) -> Result<Self> {
        let its = deployment.job(job);
        let workload = workload::of(its, index.get().into())?;
        let pauses = Pauses::new(deployment.scenario(), its, index);
        let report = WorkerReport::default();
        Ok(Self { deployment, job, index, workload, verifier, pauses, report })
    }

    /// The tensors of the next round, and the pause before they are submitted; `None` after the
    /// last round.
    ///
    /// # Errors
    /// If the workload fails.
    pub fn begin(&mut self) -> Result<Option<(Duration, Vec<Tensor>)>> {
        let tensors = self.workload.next()?;
        Ok(tensors.map(|tensors| (self.pauses.draw(), tensors)))
    }

    /// Takes note that the job scheduler has moved the job.
    pub fn reassign(&mut self, assignment: Assignment) {
        if assignment != self.deployment.assignment(self.job) {
            Arc::make_mut(&mut self.deployment).set_assignment(self.job, assignment);
        }
    }

    /// Number of rounds, at most.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.workload.rounds()
    }

    /// Adds priorities (ESA §5.4) to the tensors of a round, `elapsed` after the job's start: front
    /// to back over the tensors of a round, or over the rounds if each has one tensor.
    #[must_use]
    pub fn prioritize(&self, tensors: Vec<Tensor>, elapsed: Duration) -> Vec<(Tensor, Terms)> {
        let profile = &self.deployment.job(self.job).profile;
        let code = self.deployment.scenario().priorities;
        let (round, rounds, of) = (self.report.rounds, self.workload.rounds(), tensors.len());
        let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let priority = |tensor: usize| match of {
            1 if round < rounds => profile.priority(size(round), size(rounds), elapsed, code),
            _ => profile.priority(tensor, of, elapsed, code),
        };
        tensors.into_iter().enumerate().map(|(at, tensor)| (tensor, priority(at).into())).collect()
    }

    /// Adds processor time of the worker's process in the all-reduce that is about to end.
    pub fn count_processor(&mut self, used: Duration) {
        if self.report.rounds >= self.workload.warm_up() {
            *self.report.processor_seconds.get_or_insert(0.0) += used.as_secs_f64();
        }
    }

    /// Takes the sums of a round, which took `reduce`, and verifies them.
    ///
    /// # Errors
    /// If a sum is wrong or infinite, too many values became zero, or the workload fails.
    pub fn end(&mut self, sums: Vec<Tensor>, reduce: Duration, stats: &Stats) -> Result<Event> {
        let job = self.deployment.job(self.job);
        let report = &mut self.report;
        let values = sums.iter().map(|tensor| tensor.len() as u64).sum::<u64>();
        report.values += values;
        if report.rounds >= self.workload.warm_up() {
            report.measured += values;
            report.reduce_seconds += reduce.as_secs_f64();
        }
        refuse_infinite(&sums)?;
        if job.on_underflow == OnUnderflow::Fail
            && let Some(complaint) = complaint(&stats.rounding, job, stats.rounding.greatest)
        {
            bail!(complaint);
        }
        report.verified += self.verifier.check(report.rounds, self.workload.as_mut(), &sums)?;
        self.workload.finish(sums).context("cannot use the sums")?;
        report.rounds += 1;
        let (done, of, note) = (report.rounds, self.workload.rounds(), self.workload.note());
        Ok(Event::Round { done, of, note })
    }

    /// The report of the worker at its end.
    #[must_use]
    pub fn report(&self, stats: &Stats) -> WorkerReport {
        WorkerReport { stats: *stats, training: self.workload.training(), ..self.report.clone() }
    }

    /// How long a worker that has all its results waits for the others.
    #[must_use]
    pub fn patience(&self) -> Duration {
        2 * self.deployment.scenario().worker_timeout
    }

    /// Possible causes if no results arrive, as far as a worker can know.
    #[must_use]
    pub fn explain_stall(&self, error: &impl std::fmt::Display) -> anyhow::Error {
        let (scenario, job) = (self.deployment.scenario(), self.deployment.job(self.job));
        let host = job.workers[usize::from(self.index.get())];
        let (switch, _) = scenario.topology.attachment(host);
        let switch = &scenario.topology.switch(switch).name;
        let assignment = self.deployment.assignment(self.job);
        let local = assignment.service.is_aggregated() && assignment.mode == Mode::Local;
        match job.ps.filter(|_| !local) {
            None => anyhow!(
                "{error}; are switch {switch} and the job's other workers up, and is the job \
                 admitted there?"
            ),
            Some(ps) => {
                let ps = &scenario.topology.host(ps).name;
                anyhow!(
                    "{error}; are switch {switch}, the parameter server on {ps} and the job's other \
                     workers up, and is the job admitted at the switch?"
                )
            }
        }
    }
}

/// Without an early end, so that it is vectorised.
fn all_finite(values: &[f32]) -> bool {
    values.iter().fold(true, |all, value| all & value.is_finite())
}

/// The inputs are finite, so an infinite sum exceeds `f32` (I5: no silent overflow).
fn refuse_infinite(sums: &[Tensor]) -> Result<()> {
    for (tensor, sum) in sums.iter().enumerate() {
        if let Tensor::F32(values) = sum
            && !values.chunks(1024).all(all_finite)
            && let Some(at) = values.iter().position(|value| !value.is_finite())
        {
            bail!("tensor {tensor}, value {at}: the sum is beyond the range of f32");
        }
    }
    Ok(())
}
