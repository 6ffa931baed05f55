//! The stream of a worker to its controller.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tonic::{Code, Status};
use tributary_access::Remote;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::part::Role;
use tributary_api::jobs::v1::take_request::Request;
use tributary_api::jobs::v1::take_response::Notice;
use tributary_model::job::{BEHIND, Stop, Stopped};
use tributary_wire::Epoch;

use super::{Begun, Said, Seat, Setup, Told, Turns, Verdict, Which, Who};
use crate::stream::{Broken, KEEPALIVE, PATIENCE, Stream, set, turn};

/// Pause before a controller that has not admitted the job is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// Pause before a worker in a run, which is soon taken for dead, calls again.
const SOON: Duration = Duration::from_millis(200);

/// Pause before a worker says again that it has finished an iteration.
const REPEAT: Duration = Duration::from_secs(1);

/// How long a controller may not know a job in which the worker takes part, before the worker takes it for released.
/// A controller that was started again admits its jobs again sooner.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// Time after which the silent host of another worker, in whose process the controller is, counts as gone.
const LED: Duration = Duration::from_secs(10);

/// Time for a connection to such a controller and for its answer, after the stream has broken.
const LED_AGAIN: Duration = Duration::from_secs(4);

/// The stream of a worker.
pub(super) struct Member {
    pub(super) controller: Remote,
    pub(super) which: Which,
    pub(super) seat: Seat,
    /// Raised when the worker is ready to begin.
    pub(super) ready: Arc<Notify>,
    pub(super) tell: mpsc::Sender<Told>,
    pub(super) turns: Turns,
    /// Rounds that the worker has begun, if it tells.
    pub(super) reached: Arc<AtomicU64>,
    /// The set-up as it was told, and whether the worker has used it.
    pub(super) told: Option<v1::Setup>,
    pub(super) is_ready: bool,
    /// Whether a controller that does not know the job has released it.
    pub(super) lease: bool,
    /// Whether the controller in another worker's process has not answered since the stream broke.
    pub(super) unled: bool,
    /// Since when no stream leads to the controller, in a run, and since when it does not know the job.
    pub(super) away: Option<Away>,
    pub(super) stop: Arc<AtomicBool>,
    /// Halts the worker in its run when the process is to stop.
    pub(super) stops: Option<JoinHandle<()>>,
}

/// A time without a stream.
pub(super) struct Away {
    unknown_since: Option<Instant>,
}

/// The controller, which may be in the process of another worker. That one is waited for while it is stopped: calls
/// of a group have their own timeout.
pub(super) fn watched(controller: Remote, led: bool) -> Remote {
    if led { controller.with_watched_host(LED) } else { controller.with_keepalive(KEEPALIVE) }
}

impl Member {
    /// Takes part until the last notice.
    pub(super) async fn attend(mut self, mut said: watch::Receiver<Option<Said>>) {
        let begin = Instant::now();
        loop {
            let broken = match self.once(&mut said).await {
                Ok(()) => return,
                Err(broken) => broken,
            };
            let in_a_run = self.seat.epoch.is_some();
            let code = match &broken {
                Broken::Refused(status) => Some(status.code()),
                Broken::Lost(_) | Broken::Away(_) => None,
            };
            match code {
                // It may be this worker that was not heard from.
                None if self.which.led && in_a_run && !std::mem::replace(&mut self.unled, true) => {
                }
                None if self.which.led && self.told.is_some() => {
                    self.tell(Told::Unled(broken.reason().to_owned()));
                    return;
                }
                Some(Code::NotFound) if in_a_run && self.lease => {
                    let (job, controller) = (&self.which.job, &self.controller);
                    return self.end(Verdict::Over(format!(
                        "job {job}: the controller at {controller} does not know it any more: it was released, or the \
                         controller was started again without its --journal"
                    )));
                }
                Some(Code::FailedPrecondition | Code::PermissionDenied) if in_a_run => {
                    return self.end(Verdict::Over(broken.reason().to_owned()));
                }
                Some(Code::FailedPrecondition) => return self.fail(broken.reason().to_owned()),
                // It waits for a job of the file, or for a controller that restarts or starts.
                Some(Code::Aborted) if !in_a_run => self.wait(&broken).await,
                // A controller in the process of another worker runs before others learn its address.
                None if !in_a_run
                    && (self.told.is_some() || !self.which.led && broken.passes(begin)) =>
                {
                    self.wait(&broken).await;
                }
                // The controller may have been started again, and not know the job yet.
                Some(Code::NotFound)
                    if !in_a_run
                        && self.told.is_some()
                        && !self.is_forgotten(true, broken.reason()) =>
                {
                    self.wait(&broken).await;
                }
                _ if !in_a_run => {
                    let (job, why) = (&self.which.job, broken.explained(&self.controller));
                    return self.fail(format!("job {job}: {why}"));
                }
                _ => {
                    let unknown = matches!(code, Some(Code::NotFound | Code::Aborted));
                    if self.is_forgotten(unknown, broken.reason()) {
                        return self.end(Verdict::Over(format!(
                            "job {}: the controller at {} has not known the job for {FORGOTTEN:?}, so it was released",
                            self.which.job, self.controller
                        )));
                    }
                    tokio::time::sleep(SOON).await;
                }
            }
        }
    }

    /// Says why the worker waits, and pauses.
    async fn wait(&self, broken: &Broken) {
        let reason = format!("{}: {}", self.controller, broken.reason());
        self.tell(Told::Unadmitted(reason));
        tokio::time::sleep(AGAIN).await;
    }

    /// Notes that there is no stream, and why. Returns whether the controller has not known the job for too long.
    fn is_forgotten(&mut self, unknown: bool, reason: &str) -> bool {
        let (job, controller) = (&self.which.job, &self.controller);
        let away = self.away.get_or_insert_with(|| {
            tracing::warn!("job {job}: no news from the controller at {controller} ({reason})");
            Away { unknown_since: None }
        });
        // A connection that breaks tells nothing of the job.
        if unknown {
            away.unknown_since.get_or_insert_with(Instant::now);
        }
        unknown && away.unknown_since.is_some_and(|since| since.elapsed() >= FORGOTTEN)
    }

    fn end(&mut self, verdict: Verdict) {
        let next = match &verdict {
            Verdict::GoOn(begun) => Some(begun.epoch()),
            Verdict::Complete | Verdict::Over(_) => None,
        };
        let before = self.sit(Seat::new(next));
        self.tell(Told::Ended(verdict, self.seat.clone()));
        // It may not know of any loss yet.
        before.halt.store(true, Ordering::Relaxed);
    }

    /// Takes the place in the next run. Returns the one before.
    fn sit(&mut self, seat: Seat) -> Seat {
        if let Some(before) = self.stops.replace(seat.follow(&self.stop)) {
            before.abort();
        }
        std::mem::replace(&mut self.seat, seat)
    }

    fn fail(&self, reason: String) {
        self.tell(Told::Failed(reason));
    }

    async fn open(&self) -> Result<Stream, Broken> {
        let which = match &self.which.who {
            Who::Index(index) => v1::worker::Which::Worker(index.get().into()),
            Who::Host(host) => v1::worker::Which::Host(host.clone()),
        };
        let worker = v1::Worker {
            job: self.which.job.clone(),
            job_id: self.which.id.map_or(0, |job| job.get().into()),
            key: self.which.key.clone(),
            which: Some(which),
            epoch: self.seat.epoch.map_or(0, Epoch::get),
        };
        let role = Role::Worker(worker);
        if self.which.led && self.seat.epoch.is_some() {
            let controller = self.controller.clone().with_patience(LED_AGAIN);
            return Stream::open(&controller, role, LED_AGAIN).await;
        }
        Stream::open(&self.controller, role, PATIENCE).await
    }

    /// Takes part on one stream, until the last notice.
    async fn once(&mut self, said: &mut watch::Receiver<Option<Said>>) -> Result<(), Broken> {
        let (mut unready, mut reached) = (false, 0);
        let mut looks = tokio::time::interval(BEHIND);
        let mut finished = self.turns.reports();
        let mut stream = self.open().await?;
        if self.seat.epoch.is_some() {
            // What the worker has said on an earlier stream, it says again.
            said.mark_changed();
            finished.mark_changed();
        }
        loop {
            let notice = tokio::select! {
                notice = stream.notice() => notice?,
                () = self.ready.notified(), if unready => {
                    (unready, self.is_ready) = (false, true);
                    stream.ready().await;
                    continue;
                }
                (epoch, number) = next_report(&self.turns, &mut finished) => {
                    stream.say(Request::Finished(v1::Finished { epoch: epoch.get(), number })).await;
                    continue;
                }
                changed = said.changed() => {
                    if changed.is_err() {
                        // The worker has gone, and this task with it.
                        return std::future::pending().await;
                    }
                    let now = said.borrow_and_update().clone();
                    match now {
                        Some(Said::Stopped(epoch, stopped)) => {
                            stream.say(Request::Stopped(message(epoch, stopped))).await;
                        }
                        Some(Said::Failed(why)) => {
                            stream.end(Request::Failed(why)).await;
                            return Ok(());
                        }
                        None => {}
                    }
                    continue;
                }
                _ = looks.tick() => {
                    let now = self.reached.load(Ordering::Relaxed);
                    if std::mem::replace(&mut reached, now) != now {
                        stream.say(Request::Reached(now)).await;
                    }
                    continue;
                }
            };
            self.is_back();
            match notice {
                Notice::Setup(told) => {
                    self.set_up(told)?;
                    match self.is_ready {
                        true => stream.ready().await,
                        false => unready = true,
                    }
                }
                Notice::Run(run) => {
                    self.begun(Begun::of(run).map_err(Broken::Refused)?);
                    // What was said before was of no run, or of another one.
                    reached = 0;
                }
                Notice::Complete(v1::Complete {}) => {
                    self.end(Verdict::Complete);
                    return Ok(());
                }
                Notice::Over(reason) => {
                    self.end(Verdict::Over(reason));
                    return Ok(());
                }
                Notice::Turn(told) => self.turn(&told)?,
                Notice::Changed(v1::Changed {}) => {}
                Notice::Waiting(v1::Waiting { missing }) => self.tell(Told::Waiting(set(&missing))),
                Notice::Lost(lost) => self.lost(&lost),
                Notice::Left(v1::Left { worker, rounds }) => {
                    set(&[worker]).iter().for_each(|left| self.tell(Told::Left(left, rounds)));
                }
                Notice::Behind(v1::Behind { workers, rounds }) => {
                    self.tell(Told::Behind(set(&workers), rounds));
                }
            }
        }
    }

    /// Notes that the controller answers.
    fn is_back(&mut self) {
        self.unled = false;
        if self.away.take().is_some() {
            let (job, controller) = (&self.which.job, &self.controller);
            tracing::info!("job {job}: the controller at {controller} answers again");
        }
    }

    /// Keeps the set-up. Another controller, for which the worker waited, tells the same one again.
    fn set_up(&mut self, told: v1::Setup) -> Result<(), Broken> {
        match &self.told {
            Some(known) if *known == told => {}
            Some(_) => {
                let why =
                    format!("job {} is another one now; start the worker again", self.which.job);
                return Err(Broken::Refused(Status::failed_precondition(why)));
            }
            None => {
                let setup = Setup::of(told.clone()).map_err(Broken::Refused)?;
                self.lease = setup.lease;
                self.told = Some(told);
                self.which.who = Who::Index(setup.worker);
                self.tell(Told::Setup(Box::new(setup)));
            }
        }
        Ok(())
    }

    fn turn(&self, told: &v1::Turn) -> Result<(), Broken> {
        let turn = turn(told).map_err(Broken::Refused)?;
        if let Some(run) = self.seat.epoch {
            self.turns.tell(run, turn);
        }
        Ok(())
    }

    fn lost(&mut self, lost: &v1::Lost) {
        for worker in set(&[lost.worker]).iter() {
            self.seat.lose(worker);
            self.tell(Told::Lost(worker, lost.reason.clone()));
        }
    }

    /// Tells the worker, which may have gone.
    fn tell(&self, told: Told) {
        drop(self.tell.send(told));
    }

    fn begun(&mut self, begun: Begun) {
        if self.seat.epoch != Some(begun.epoch()) {
            // Another turn follows.
            self.turns.clear();
        }
        match self.seat.epoch {
            // It is told again after another loss of the stream.
            Some(epoch) if epoch == begun.epoch() => {}
            Some(_) => self.end(Verdict::GoOn(begun)),
            None => {
                self.sit(Seat::new(Some(begun.epoch())));
                self.tell(Told::Begun(begun, self.seat.clone()));
            }
        }
    }
}

/// How far a worker has come in a run, and why it has stopped.
fn message(epoch: Epoch, Stopped { rounds, why }: Stopped) -> v1::Stopped {
    let why = match why {
        Stop::Stuck => v1::Stop::Unspecified,
        Stop::Done => v1::Stop::Done,
        Stop::Renewal => v1::Stop::Renewal,
    };
    v1::Stopped { epoch: epoch.get(), rounds, why: why.into() }
}

/// The next iteration whose end is to be reported: at once, and again if that is not recorded.
async fn next_report(
    turns: &Turns,
    finished: &mut watch::Receiver<Option<(Epoch, u64)>>,
) -> (Epoch, u64) {
    loop {
        let pause = if turns.due().is_some() { REPEAT } else { Duration::MAX };
        match tokio::time::timeout(pause, finished.changed()).await {
            Ok(Ok(())) => {
                finished.borrow_and_update();
            }
            // It lives as long as this task.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => {}
        }
        if let Some(due) = turns.due() {
            return due;
        }
    }
}
