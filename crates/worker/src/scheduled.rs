//! One worker of a job whose iterations the job scheduler starts, in real time.
//!
//! Each round is one iteration. The worker begins it when the scheduler lets it run, with the
//! assignment that is then in force, sums at the rate that the scheduler tells, and reports when it
//! has all sums. Between iterations it still answers its parameter server, which may have been
//! replaced and then lacks results that other workers of the same iteration need.
//!
//! The worker does not need the scheduler during an iteration. How it gets over failures of the
//! scheduler is described in [`schedule`](tributary_endpoint::schedule).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use tracing::info_span;
use tributary_endpoint::schedule::{Follower, News, Standing};
use tributary_metrics::Board;
use tributary_model::{Deployment, JobSpec};
use tributary_netio::FrameIo;
use tributary_wire::{Epoch, WorkerIndex};

use crate::live;
use crate::node::{Error, Runner};
use crate::numbers::Numbers;
use crate::rounds::{Event, Rounds, WorkerReport};
use crate::workload::Verifier;

/// How long a scheduler may not know a job before the worker, between two iterations, takes it for
/// released. A scheduler that was started again admits its jobs again sooner.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// Waits until the scheduler has admitted a job. `tell` gets an event for each reason to wait.
///
/// # Errors
/// If `stop` is raised.
pub fn admitted(
    follower: &Follower,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<Standing> {
    let mut told = None;
    loop {
        let News { standing, trouble, .. } = follower.news();
        if let Some(standing) = standing {
            return Ok(standing);
        }
        if trouble != told {
            if let Some(reason) = &trouble {
                tell(Event::Unadmitted { reason: format!("{}: {reason}", follower.address()) });
            }
            told = trouble;
        }
        live::sleep(Duration::from_millis(20), stop)?;
    }
}

/// A worker's connections.
pub struct Port {
    /// Packets.
    pub io: Box<dyn FrameIo>,
    /// Where the worker publishes its numbers.
    pub board: Board<Numbers>,
}

/// A worker and what the scheduler tells it.
struct Attendant<'a> {
    runner: Runner<Box<dyn FrameIo>>,
    follower: &'a Follower,
    job: &'a JobSpec,
}

/// Runs a worker of the job with this index in the file. The deployment has the epoch and the
/// assignment of an [`admitted`] job. `tell` gets events for each round.
///
/// # Errors
/// One line that describes the problem.
pub fn work(
    deployment: &Arc<Deployment>,
    (job, index): (usize, WorkerIndex),
    port: Port,
    follower: &Follower,
    verifier: Verifier,
    stop: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(Event),
) -> Result<WorkerReport> {
    let its = deployment.job(job);
    let _span = info_span!("worker", job = its.name, %index).entered();
    let mut rounds = Rounds::new(Arc::clone(deployment), job, index, verifier)?;
    let config = deployment.worker(job, index);
    let Port { io, board } = port;
    let runner = Runner::following(config, io, follower.clone(), Arc::clone(stop), &board)?;
    let own_run = its.epoch;
    let mut own = Attendant { runner, follower, job: its };
    let begin = Instant::now();
    let mut number = 0;
    while let Some((pause, tensors)) = rounds.begin()? {
        number += 1;
        let standing = own.until(|news| due(news, own_run, number).transpose())??;
        own.runner.reassign(standing.assignment).map_err(|error| own.explain(error))?;
        rounds.reassign(standing.assignment);
        tell(Event::iteration(number, standing.assignment));
        live::sleep(pause, stop)?;
        let tensors = rounds.prioritize(tensors, begin.elapsed());
        let start = Instant::now();
        let sums = own.runner.reduce(tensors).map_err(|error| match error {
            Error::Stalled { .. } => rounds.explain_stall(&error),
            error => own.explain(error),
        })?;
        let reduce = start.elapsed();
        // Report before verifying: the iteration ends with the last report.
        follower.finish(number);
        tell(rounds.end(sums.tensors, reduce, &own.runner.stats())?);
        // A released job needs no report.
        let over = |news: &News| news.reported >= number || news.standing.is_none();
        own.until(|news| over(news).then_some(()))?;
    }
    own.leave(number, rounds.patience())?;
    Ok(rounds.report(&own.runner.stats()))
}

/// The standing with which iteration `number` of a run begins; `None` until the iteration runs.
fn due(news: &News, own: Epoch, number: u64) -> Result<Option<Standing>> {
    let standing = news.standing.filter(|standing| standing.epoch == own);
    let Some(Standing { iteration, running, .. }) = standing else { return Ok(None) };
    match iteration == number && running {
        true => Ok(standing),
        // No iteration ends without a report of this worker.
        false if iteration >= number => bail!(
            "iteration {iteration} of the job has begun, and this worker is due in iteration \
             {number}: it was started after its run, or another process was the same worker; \
             release the job, admit it again, and start all of its workers"
        ),
        false => Ok(None),
    }
}

impl Attendant<'_> {
    /// Waits until `done` of what the scheduler tells, and serves the parameter server meanwhile.
    fn until<T>(&mut self, mut done: impl FnMut(&News) -> Option<T>) -> Result<T> {
        loop {
            let news = self.follower.news();
            if let Some(done) = done(&news) {
                return Ok(done);
            }
            if let Some(since) = news.unknown_since
                && since.elapsed() >= FORGOTTEN
            {
                bail!(
                    "job {}: the scheduler at {} has not known the job for {FORGOTTEN:?}, so it was \
                     released; admit it again, and start all of its workers",
                    self.job.name,
                    self.follower.address()
                );
            }
            self.runner.idle().map_err(|error| self.explain(error))?;
        }
    }

    /// Stays until all workers have reported the last iteration, so that none lacks a result, or the
    /// job is released, at most for `patience`.
    fn leave(&mut self, last: u64, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        while let Ok(standing) = self.follower.check(self.job.epoch)
            && standing.running
            && standing.iteration == last
        {
            if Instant::now() >= deadline {
                tracing::warn!(
                    "the worker leaves, though not all others have reported the end of iteration \
                     {last} within {patience:?}"
                );
                break;
            }
            match self.runner.idle() {
                // A release after the last iteration is the normal end of a job.
                Ok(()) | Err(Error::Dismissed(_)) => {}
                Err(error) => return Err(self.explain(error)),
            }
        }
        Ok(())
    }

    fn explain(&self, error: Error) -> anyhow::Error {
        match error {
            Error::Dismissed(_) | Error::Reassign(_) => anyhow!("job {}: {error}", self.job.name),
            error => error.into(),
        }
    }
}
