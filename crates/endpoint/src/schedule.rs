//! What the job scheduler decides about a job, for the job's processes.
//!
//! A [`Follower`] keeps the newest [`Standing`] of one job, which the scheduler's `Watch` tells, and
//! delivers a worker's reports. It has tasks of its own, so that neither a slow nor a dead scheduler
//! delays packets. The endpoint's thread looks at [`Follower::news`] in each of its turns. Each
//! change ends that thread's sleep through its waker.
//!
//! # Failures
//!
//! | case | what happens |
//! | --- | --- |
//! | the scheduler cannot be reached, or does not know the job yet | there is no standing; it is asked again, after pauses that grow to [`LONGEST_PAUSE`] |
//! | the scheduler is lost later | the last standing remains in force, so a running iteration continues; it is asked again |
//! | it comes back and does not know the job | the same, because it may be about to admit the job again for the same run; [`News::unknown_since`] tells how long that takes |
//! | the stream ends without error | the job is released, and there is no standing; a scheduler with a journal also says so afterwards |
//! | another epoch | a new run; processes of the old run [end](Follower::check) |
//! | a report is not acknowledged | it is sent again until it is, or until the scheduler refuses it; reports may be repeated |
//!
//! `Watch` skips states that a slow reader would see too late. A worker misses none that matters,
//! because no iteration ends without its report. A parameter server may miss iterations.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tributary_access::Remote;
use tributary_model::JobSpec;
use tributary_netio::Waker;
use tributary_proto::scheduler::v1;
use tributary_proto::scheduler::v1::job_scheduler_client::JobSchedulerClient;
use tributary_protocol::{Assignment, Mode, Rate};
use tributary_wire::{AggregatorIndex, Epoch, JobId, Segment, Service, WorkerIndex};

/// Pauses before a request is repeated: the first, and the one to which they double.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// A job's processes learn of its admission at most this much later.
pub const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Timeout of a connection and of an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Interval and timeout of the HTTP/2 pings that detect a lost scheduler.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(5);

/// The state of an admitted job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The run that switches serve.
    pub epoch: Epoch,
    /// Number of the last iteration that has begun; 0 before the first one.
    pub iteration: u64,
    /// Whether some worker has not finished that iteration.
    pub running: bool,
    /// How switches serve the job: in that iteration if it runs, else in the next one.
    pub assignment: Assignment,
    /// The rate of each worker; `None` for no limit.
    pub rate: Option<Rate>,
}

/// What is known of a job.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct News {
    /// Its state as last told; `None` before its admission and after its release.
    pub standing: Option<Standing>,
    /// The last iteration whose end was reported and acknowledged.
    pub reported: u64,
    /// When the scheduler first answered that it does not know a job that it had admitted and did not
    /// release; `None` if it has known it since. It may have been away in between.
    pub unknown_since: Option<Instant>,
    /// Why there was no answer the last time, if there was none.
    pub trouble: Option<String>,
    /// Why the scheduler does not accept the worker's reports.
    pub refused: Option<String>,
}

/// Why a process has no part in its job any more.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Ending {
    /// The job is released.
    #[error("the scheduler at {0} has released the job")]
    Released(Arc<str>),
    /// The job has another run.
    #[error(
        "the scheduler at {address} has begun run {new} of the job, and this process takes part in \
         run {own}: start it again"
    )]
    Replaced {
        /// The scheduler's address.
        address: Arc<str>,
        /// The run of this process.
        own: Epoch,
        /// The new run.
        new: Epoch,
    },
    /// The scheduler refuses the worker's reports.
    #[error(
        "the scheduler at {address} does not accept the worker's reports ({reason}): do its job and \
         this job file name the same workers?"
    )]
    Refused {
        /// The scheduler's address.
        address: Arc<str>,
        /// Its reason.
        reason: String,
    },
}

/// Connects a process to the job scheduler. Dropping it ends what its followers do.
#[derive(Debug)]
pub struct Scheduler {
    address: Arc<str>,
    remote: Remote,
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
}

impl Scheduler {
    /// A scheduler. Connections are made later, and again when they break.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn at(remote: &Remote) -> Result<Self> {
        let address = remote.to_string().into();
        let remote = remote.clone().with_keepalive(KEEPALIVE);
        Ok(Self { address, remote, runtime: Some(crate::runtime()?) })
    }

    /// Follows a job. Each change wakes `waker`. A worker also reports.
    ///
    /// A follower has a connection of its own, because the scheduler limits how many streams share
    /// one.
    #[must_use]
    pub fn follow(&self, job: &JobSpec, worker: Option<WorkerIndex>, waker: Waker) -> Follower {
        let runtime = self.runtime.as_ref().expect("there until it is dropped");
        let _context = runtime.enter();
        let channel = self.remote.connect_lazy();
        let (due, reports) = watch::channel(0);
        let follower = Follower(Arc::new(Shared {
            address: Arc::clone(&self.address),
            job: job.id,
            news: Mutex::default(),
            waker,
            due,
        }));
        runtime.spawn(follower.clone().watch(channel.clone()));
        if let Some(worker) = worker {
            runtime.spawn(follower.clone().report(channel, worker, reports));
        }
        follower
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Follows one job. Clones share what they know.
#[derive(Clone, Debug)]
pub struct Follower(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    address: Arc<str>,
    job: JobId,
    news: Mutex<News>,
    waker: Waker,
    /// The last iteration that the worker has finished.
    due: watch::Sender<u64>,
}

impl Follower {
    /// What is known now.
    #[must_use]
    pub fn news(&self) -> News {
        self.lock().clone()
    }

    /// The job's standing, for a process that takes part in run `own` of the job.
    ///
    /// # Errors
    /// Why it no longer does.
    pub fn check(&self, own: Epoch) -> Result<Standing, Ending> {
        let news = self.news();
        let address = || Arc::clone(&self.0.address);
        if let Some(reason) = news.refused {
            return Err(Ending::Refused { address: address(), reason });
        }
        match news.standing {
            None => Err(Ending::Released(address())),
            Some(Standing { epoch: new, .. }) if new != own => {
                Err(Ending::Replaced { address: address(), own, new })
            }
            Some(standing) => Ok(standing),
        }
    }

    /// Reports that the worker has finished an iteration. [`News::reported`] becomes its number
    /// when the scheduler has acknowledged that.
    pub fn finish(&self, iteration: u64) {
        self.0.due.send_replace(iteration);
    }

    /// The scheduler's address.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// The waker that each change wakes.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.0.waker
    }

    fn lock(&self) -> MutexGuard<'_, News> {
        self.0.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known.
    fn tell(&self, change: impl FnOnce(&mut News)) {
        change(&mut self.lock());
        self.0.waker.wake();
    }

    /// Watches the job for ever.
    async fn watch(self, channel: Channel) {
        let mut client = JobSchedulerClient::new(channel);
        let mut pause = FIRST_PAUSE;
        loop {
            let mut heard = false;
            let outcome = self.watch_once(&mut client, &mut heard).await;
            if heard {
                pause = FIRST_PAUSE;
            }
            match outcome {
                Ok(()) => self.tell(|news| {
                    *news = News { reported: news.reported, ..News::default() };
                    news.trouble = Some("it has released the job".into());
                }),
                Err(status) => self.failed(&status),
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Returns when the job has been released.
    async fn watch_once(
        &self,
        client: &mut JobSchedulerClient<Channel>,
        heard: &mut bool,
    ) -> Result<(), Status> {
        let epoch = self.news().standing.map_or(0, |standing| standing.epoch.get());
        let request = v1::WatchRequest { job_id: self.0.job.get().into(), epoch };
        let mut told = within(client.watch(request)).await?.into_inner();
        // The first message comes at once, and the later ones with the changes.
        let mut next = within(told.message()).await?;
        while let Some(message) = next {
            let standing = standing(&message).map_err(Status::internal)?;
            let again = {
                let mut news = self.lock();
                news.trouble.take().filter(|_| news.standing.is_some())
            };
            if let Some(trouble) = again {
                tracing::info!("the scheduler at {} answers again ({trouble})", self.0.address);
            }
            *heard = true;
            self.tell(|news| {
                news.standing = Some(standing);
                news.unknown_since = None;
            });
            next = told.message().await?;
        }
        Ok(())
    }

    /// Notes why there is no stream. What was told before remains in force.
    fn failed(&self, status: &Status) {
        let reason = reason(status);
        let news = self.news();
        if news.standing.is_some() && news.trouble.is_none() {
            tracing::warn!(
                "job {}: no news from the scheduler at {} ({reason}); the job goes on as last told",
                self.0.job,
                self.0.address
            );
        }
        self.tell(|news| {
            // A connection that breaks tells nothing of the job.
            if status.code() == Code::NotFound && news.standing.is_some() {
                news.unknown_since.get_or_insert_with(Instant::now);
            }
            news.trouble = Some(reason);
        });
    }

    /// Reports the iterations that `due` names, each until it is acknowledged.
    async fn report(self, channel: Channel, worker: WorkerIndex, mut due: watch::Receiver<u64>) {
        let mut client = JobSchedulerClient::new(channel);
        while due.changed().await.is_ok() {
            let number = *due.borrow_and_update();
            let mut pause = FIRST_PAUSE;
            loop {
                let (job_id, worker) = (self.0.job.get().into(), worker.get().into());
                let report = v1::FinishIterationRequest { job_id, number, worker };
                match within(client.finish_iteration(report)).await {
                    Ok(_) => break self.tell(|news| news.reported = number),
                    Err(status) if status.code() == Code::InvalidArgument => {
                        return self.tell(|news| news.refused = Some(reason(&status)));
                    }
                    // Also a scheduler that was started again, and does not know of the iteration
                    // yet.
                    Err(status) => tracing::debug!("iteration {number}: {}", reason(&status)),
                }
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
        }
    }
}

/// An answer in time.
pub(crate) async fn within<T>(
    answer: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let late = |_| Status::deadline_exceeded(format!("no answer came in {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, answer).await.map_err(late)?
}

/// What the scheduler answered, or how the connection broke.
pub(crate) fn reason(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => crate::root_cause(source),
        None => status.message().to_owned(),
    }
}

/// A standing from a message.
fn standing(message: &v1::WatchResponse) -> Result<Standing, &'static str> {
    let epoch = Epoch::new(message.epoch).ok_or("the scheduler's run has no number")?;
    let iteration = message.iteration.as_ref().ok_or("the scheduler tells no iteration")?;
    let running = iteration.state() == v1::iteration::State::Running;
    Ok(Standing {
        epoch,
        iteration: iteration.number,
        running,
        assignment: assignment(message.assignment.as_ref())?,
        rate: Rate::new(message.rate),
    })
}

/// An assignment from a message.
pub(crate) fn assignment(message: Option<&v1::Assignment>) -> Result<Assignment, &'static str> {
    let told = message.ok_or("the scheduler tells no assignment")?;
    let mode = match told.mode() {
        v1::Mode::Local => Mode::Local,
        v1::Mode::Partial => Mode::Partial,
        v1::Mode::Forwarded => Mode::Forwarded,
        v1::Mode::Unspecified => return Err("the scheduler does not tell how the job is summed"),
    };
    let service = u8::try_from(told.service_id);
    let service = service.map_err(|_| "the scheduler's service ID is beyond 255")?;
    let segment = Segment { offset: AggregatorIndex(told.mem_id), size: told.size };
    Ok(Assignment { service: Service::new(service), segment, mode })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> v1::WatchResponse {
        let state = v1::iteration::State::Running.into();
        v1::WatchResponse {
            iteration: Some(v1::Iteration { number: 3, state, unfinished: vec![1] }),
            assignment: Some(v1::Assignment {
                service_id: 2,
                mem_id: 16,
                size: 32,
                mode: v1::Mode::Partial.into(),
            }),
            rate: 5_000_000,
            epoch: 7,
        }
    }

    #[test]
    fn a_standing_is_what_the_scheduler_tells() {
        let told = standing(&message()).unwrap();
        let segment = Segment { offset: AggregatorIndex(16), size: 32 };
        let assignment = Assignment { service: Service::new(2), segment, mode: Mode::Partial };
        assert_eq!((told.epoch.get(), told.iteration, told.running), (7, 3, true));
        assert_eq!((told.assignment, told.rate), (assignment, Rate::new(5_000_000)));
        assert_eq!(standing(&v1::WatchResponse { rate: 0, ..message() }).unwrap().rate, None);
    }

    #[test]
    fn messages_that_make_no_sense_are_refused() {
        let no_epoch = v1::WatchResponse { epoch: 0, ..message() };
        let no_iteration = v1::WatchResponse { iteration: None, ..message() };
        let no_assignment = v1::WatchResponse { assignment: None, ..message() };
        let mut no_mode = message();
        no_mode.assignment.as_mut().unwrap().mode = 0;
        let mut service = message();
        service.assignment.as_mut().unwrap().service_id = 256;
        for wrong in [no_epoch, no_iteration, no_assignment, no_mode, service] {
            assert!(standing(&wrong).is_err(), "{wrong:?}");
        }
    }
}
