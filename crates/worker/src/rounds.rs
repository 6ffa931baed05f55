//! One worker's rounds, from its first tensor to its report: shared by real and virtual time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use tributary_base::Fnv;
use tributary_endpoint::membership::Begun;
use tributary_model::job::{Stop, Stopped};
use tributary_model::{Deployment, OnUnderflow, worker_index};
use tributary_netio::FrameCount;
use tributary_protocol::worker::Stats;
use tributary_protocol::{Assignment, Mode, Tensor, Terms};
use tributary_wire::{WorkerIndex, WorkerSet, name_workers};

use crate::measured::Measured;
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
    /// The job is not admitted yet, or the controller does not answer.
    Unadmitted {
        /// What it answers, or why it does not.
        reason: String,
    },
    /// The worker begins an iteration that a client lets run.
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
        /// What the worker has measured so far.
        #[serde(default)]
        measured: Measured,
    },
    /// Workers have died, and the job goes on without them, or with all again.
    GoesOn(Loss),
    /// All rounds are over.
    Done(Box<WorkerReport>),
    /// The worker failed.
    Failed {
        /// The cause, in one line.
        reason: String,
    },
}

/// Workers that have died, and how their job goes on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Loss {
    /// Their indices, if it goes on without them. None: it has waited for them.
    pub without: Vec<u16>,
    /// The first round of the run in which it goes on, counted from 1.
    pub round: u64,
}

impl Loss {
    fn said(&self, verb: &str) -> String {
        if self.without.is_empty() {
            return format!("{verb} on with all workers from round {}", self.round);
        }
        let without = name_workers(self.without.iter().copied());
        format!("{verb} on without {without} from round {}", self.round)
    }

    /// What to say after the job.
    #[must_use]
    pub fn went_on(&self) -> String {
        self.said("went")
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said("goes"))
    }
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
    /// Seconds between these all-reduces for which the worker's thread waited for a core.
    #[serde(default)]
    pub core_wait_seconds: f64,
    /// Counters of the protocol.
    #[serde(flatten)]
    pub stats: Stats,
    /// Result of the training, if there was one.
    pub training: Option<TrainingReport>,
    /// Workers that have died, in a job that goes on.
    #[serde(default)]
    pub losses: Vec<Loss>,
    /// Digest of all sums in such a job, which is the same at all workers that have all.
    #[serde(default)]
    pub digest: Option<String>,
    /// Frames at the host's end of its link; `None` if the host does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<FrameCount>,
}

impl WorkerReport {
    /// What a worker with these counters of the protocol has measured.
    #[must_use]
    pub fn measured(&self, stats: &Stats) -> Measured {
        let Self { rounds, values, measured, reduce_seconds, core_wait_seconds, frames, .. } =
            *self;
        // All rounds of a workload have the same size.
        let share = measured as f64 / values.max(1) as f64;
        Measured {
            rounds: (rounds as f64 * share).round() as u64,
            reduce_seconds,
            core_wait_seconds,
            fragments: stats.results,
            collisions: stats.collisions,
            resent: stats.resent + stats.direct,
            frames,
        }
    }
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
    /// In a job that goes on when a worker dies.
    ledger: Option<Ledger>,
}

/// What a worker remembers of its sums, so that it can sum its last round again: no worker is further behind,
/// because no round ends without all.
struct Ledger {
    /// Digest of the sums of all rounds.
    sums: Fnv,
    /// The worker's index in the job file.
    name: WorkerIndex,
    /// All before the last round.
    before: Option<Box<(WorkerReport, Fnv)>>,
    /// Counters of the runs before this one.
    earlier: Stats,
    /// Whether it has the sums of all rounds so far.
    is_whole: bool,
}

impl Ledger {
    fn new(name: WorkerIndex) -> Self {
        Self { sums: Fnv::default(), name, before: None, earlier: Stats::default(), is_whole: true }
    }

    fn note(&mut self, sums: &[Tensor], report: &WorkerReport) {
        self.before = Some(Box::new((report.clone(), self.sums)));
        for sum in sums {
            self.sums.write(&(sum.len() as u64).to_le_bytes());
            match sum {
                Tensor::F32(values) => {
                    values.iter().for_each(|value| self.sums.write(&value.to_bits().to_le_bytes()));
                }
                Tensor::I32(values) => {
                    values.iter().for_each(|value| self.sums.write(&value.to_le_bytes()));
                }
            }
        }
    }
}

impl Event {
    /// The worker waits for others.
    #[must_use]
    pub fn waiting(missing: WorkerSet) -> Self {
        Self::Waiting { missing: missing.iter().map(WorkerIndex::get).collect() }
    }

    /// The same event with the frames of the worker's host.
    #[must_use]
    pub(crate) fn with_frames(mut self, frames: FrameCount) -> Self {
        match &mut self {
            Self::Round { measured, .. } => measured.frames = Some(frames),
            Self::Done(report) => report.frames = Some(frames),
            _ => {}
        }
        self
    }

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
        let goes_on = deployment.job(job).on_death.goes_on();
        let ledger = goes_on.then(|| Ledger::new(index));
        Ok(Self { deployment, job, index, workload, verifier, pauses, report, ledger })
    }

    /// The deployment, the index of the worker's job in the file, and the worker's index in the job's run.
    #[must_use]
    pub fn part(&self) -> (&Arc<Deployment>, usize, WorkerIndex) {
        (&self.deployment, self.job, self.index)
    }

    /// The number of rounds whose sums the worker has, and whether these are all.
    #[must_use]
    pub fn stopped(&self) -> Stopped {
        let rounds = self.report.rounds;
        let done = rounds == self.workload.rounds();
        Stopped { rounds, why: if done { Stop::Done } else { Stop::Stuck } }
    }

    /// Begins after `done` rounds, whose sums the worker does not have: it was started again, and its job has
    /// waited for it.
    ///
    /// # Errors
    /// If the job does not wait for workers.
    pub fn come_back(&mut self, done: u64) -> Result<Event> {
        let ledger = self.ledger.as_mut().context("the job does not wait for workers")?;
        ledger.is_whole = false;
        let members: Vec<usize> = (0..self.deployment.job(self.job).workers.len()).collect();
        self.workload.go_on(done, &members)?;
        self.report.rounds = done;
        let loss = Loss { without: Vec::new(), round: done + 1 };
        self.report.losses.push(loss.clone());
        Ok(Event::GoesOn(loss))
    }

    /// Goes on in another run of the job, after a worker has died. `before` are those of the run that is over,
    /// and `stats` this worker's counters in it. The deployment has the job's next run and its workers.
    ///
    /// # Errors
    /// If the worker does not take part in the next run, or has summed too little or too much.
    pub fn go_on(
        &mut self,
        deployment: Arc<Deployment>,
        next: &Begun,
        before: WorkerSet,
        stats: &Stats,
    ) -> Result<Event> {
        let ledger = self.ledger.as_mut().context("the job does not go on")?;
        let Begun { workers, rounds, .. } = *next;
        let place = workers.iter().position(|worker| worker == ledger.name);
        self.index = worker_index(place.context("the next run is without this worker")?);
        self.deployment = deployment;
        ledger.earlier += *stats;
        match self.report.rounds.checked_sub(rounds) {
            Some(0) => {}
            Some(1) => {
                let kept = ledger.before.take().context("the last round is there once")?;
                (self.report, ledger.sums) = *kept;
            }
            _ => bail!(
                "the job goes on from round {}, and this worker has the sums of {} rounds: please report \
                 this",
                rounds.saturating_add(1),
                self.report.rounds
            ),
        }
        let members: Vec<usize> = workers.iter().map(|worker| worker.get().into()).collect();
        self.workload.go_on(rounds, &members)?;
        self.verifier.forget();
        let without = before.without(workers).iter().map(WorkerIndex::get).collect();
        let loss = Loss { without, round: rounds + 1 };
        self.report.losses.push(loss.clone());
        Ok(Event::GoesOn(loss))
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

    /// Takes note that the job was moved.
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
        let code = self.deployment.scenario().network.priorities;
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

    /// Adds a wait for a core before the all-reduce that is about to begin.
    pub(crate) fn count_core_wait(&mut self, wait: Duration) {
        if self.report.rounds >= self.workload.warm_up() {
            self.report.core_wait_seconds += wait.as_secs_f64();
        }
    }

    /// Takes the sums of a round, which took `reduce`, and verifies them.
    ///
    /// # Errors
    /// If a sum is wrong or infinite, too many values became zero, or the workload fails.
    pub fn end(&mut self, sums: Vec<Tensor>, reduce: Duration, stats: &Stats) -> Result<Event> {
        let job = self.deployment.job(self.job);
        let before = self.ledger.as_ref().map(|_| self.report.clone()).unwrap_or_default();
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
        let verified = self.verifier.check(report.rounds, self.workload.as_mut(), &sums)?;
        if let Some(ledger) = &mut self.ledger {
            ledger.note(&sums, &before);
        }
        report.verified += verified;
        self.workload.finish(sums).context("cannot use the sums")?;
        report.rounds += 1;
        let (done, of, note) = (report.rounds, self.workload.rounds(), self.workload.note());
        let mut all = *stats;
        if let Some(ledger) = &self.ledger {
            all += ledger.earlier;
        }
        let measured = self.report.measured(&all);
        Ok(Event::Round { done, of, note, measured })
    }

    /// The report of the worker at its end.
    #[must_use]
    pub fn report(&self, stats: &Stats) -> WorkerReport {
        let mut all = *stats;
        let digest = self.ledger.as_ref().and_then(|ledger| {
            all += ledger.earlier;
            ledger.is_whole.then(|| format!("{:016x}", ledger.sums.finish()))
        });
        let training = self.workload.training();
        WorkerReport { stats: all, training, digest, ..self.report.clone() }
    }

    /// How long a worker that has all its results waits for the others.
    #[must_use]
    pub fn patience(&self) -> Duration {
        2 * self.deployment.scenario().network.worker_timeout
    }

    /// Possible causes if no results arrive, as far as a worker can know.
    #[must_use]
    pub fn explain_stall(&self, error: &impl std::fmt::Display) -> anyhow::Error {
        let (scenario, job) = (self.deployment.scenario(), self.deployment.job(self.job));
        let host = job.workers[usize::from(self.index.get())];
        let (switch, _) = scenario.network.topology.attachment(host);
        let switch = &scenario.network.topology.switch(switch).name;
        let assignment = self.deployment.assignment(self.job);
        let local = assignment.service.is_aggregated() && assignment.mode == Mode::Local;
        match job.ps.filter(|_| !local) {
            None => anyhow!(
                "{error}; are switch {switch} and the job's other workers up, and is the job \
                 admitted there?"
            ),
            Some(ps) => {
                let ps = &scenario.network.topology.host(ps).name;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_the_warm_up_are_not_measured() {
        let report =
            WorkerReport { rounds: 20, values: 200, measured: 150, ..WorkerReport::default() };
        let rounds = |report: &WorkerReport| report.measured(&report.stats).rounds;
        assert_eq!(rounds(&report), 15);
        assert_eq!(rounds(&WorkerReport::default()), 0);
    }
}
