//! The jobs that a process of a host serves, as a controller tells it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, watch};
use tonic::Status;
use tributary_access::Remote;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::part::Role;
use tributary_api::jobs::v1::take_response::Notice;
use tributary_metrics::Metrics;
use tributary_model::job::Turn;
use tributary_model::{Deployment, HostId, JobSpec, Scenario};
use tributary_netio::Waker;
use tributary_wire::Epoch;

use crate::claim::claim;
pub use crate::stream::Setup;
use crate::stream::{Begun, Broken, KEEPALIVE, PATIENCE, Stream, turn};
use crate::{Args, names, numbers, until};

/// Pause before a controller that does not answer is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// Interval of checks for the end of the process.
const TICK: Duration = Duration::from_millis(50);

/// What a host serves.
#[derive(Clone, Debug)]
pub enum Host {
    /// The parameter servers of the host with this name.
    Servers(String),
    /// Its reminder agent.
    Agent(String),
}

/// What a controller has told of jobs, by their names.
#[derive(Clone, Debug, Default)]
struct Now {
    runs: BTreeMap<String, Begun>,
    turns: BTreeMap<String, Turn>,
}

/// The runs of the jobs that a host serves.
#[derive(Debug)]
struct Runs {
    now: watch::Receiver<Now>,
    failed: Arc<OnceLock<String>>,
    setup: Arc<OnceLock<Setup>>,
    ready: Arc<Notify>,
    /// Whether the controller has other jobs for the host by now.
    outdated: Arc<AtomicBool>,
    waker: Waker,
    /// Ends the thread when dropped.
    runtime: Option<Runtime>,
}

impl Runs {
    /// Follows the runs of a host's jobs at a controller, until the host has other jobs. While the controller does not
    /// answer, the last runs stay. If `patient`, the first call is repeated without limit: the controller
    /// has run before.
    fn follow(controller: Remote, host: Host, patient: bool) -> Result<Self> {
        let controller = controller.with_keepalive(KEEPALIVE);
        let (runs, now) = watch::channel(Now::default());
        let (failed, setup, ready) = (Arc::new(OnceLock::new()), Arc::default(), Arc::default());
        let (outdated, waker) = (Arc::default(), Waker::new());
        let runtime = crate::runtime()?;
        let follower = Follower {
            controller,
            host,
            runs,
            failed: Arc::clone(&failed),
            patient,
            setup: Arc::clone(&setup),
            told: None,
            ready: Arc::clone(&ready),
            outdated: Arc::clone(&outdated),
            waker: waker.clone(),
        };
        runtime.spawn(follower.follow());
        Ok(Self { now, failed, setup, ready, outdated, waker, runtime: Some(runtime) })
    }

    /// What the process needs to serve the jobs.
    ///
    /// # Errors
    /// If the controller does not answer or refuses, or `stop` is raised.
    fn setup(&self, stop: &AtomicBool) -> Result<Setup> {
        loop {
            if let Some(setup) = self.setup.get() {
                return Ok(setup.clone());
            }
            if let Some(reason) = self.failed.get() {
                return Err(anyhow!("{reason}"));
            }
            ensure!(!stop.load(Ordering::Relaxed), "stopped before the controller had answered");
            std::thread::sleep(TICK);
        }
    }

    /// The process has used its set-up.
    fn ready(&self) {
        self.ready.notify_one();
    }

    /// The runs of these jobs, when all are known; `None` if the host has other jobs by then.
    ///
    /// # Errors
    /// If the controller does not answer or refuses, or `stop` is raised.
    fn of(&mut self, jobs: &[&str], stop: &AtomicBool) -> Result<Option<Vec<Begun>>> {
        loop {
            {
                let now = self.now.borrow_and_update();
                let all: Option<Vec<Begun>> =
                    jobs.iter().map(|job| now.runs.get(*job).cloned()).collect();
                if let Some(all) = all {
                    return Ok(Some(all));
                }
            }
            if let Some(reason) = self.failed.get() {
                return Err(anyhow!("{reason}"));
            }
            if self.is_outdated() {
                return Ok(None);
            }
            if stop.load(Ordering::Relaxed) {
                let job = jobs.first().context("a host serves a job")?;
                bail!("job {job}: stopped before it had joined a run");
            }
            std::thread::sleep(TICK);
        }
    }

    fn is_outdated(&self) -> bool {
        self.outdated.load(Ordering::Relaxed)
    }

    /// Raises a flag when one of these jobs has another run than this, or the host has other jobs, or `stop` is raised.
    #[must_use]
    fn over(&self, jobs: Vec<(String, Epoch)>, stop: &Arc<AtomicBool>) -> Arc<AtomicBool> {
        let over = Arc::new(AtomicBool::new(false));
        let Some(runtime) = &self.runtime else { return over };
        let (raised, mut now, stop) = (Arc::clone(&over), self.now.clone(), Arc::clone(stop));
        let outdated = Arc::clone(&self.outdated);
        runtime.spawn(async move {
            let other = |now: &Now| {
                let run = |job: &str| now.runs.get(job).map(Begun::epoch);
                outdated.load(Ordering::Relaxed)
                    || jobs.iter().any(|(job, epoch)| run(job).is_some_and(|run| run != *epoch))
            };
            tokio::select! {
                () = until(&stop) => {}
                Ok(_) = now.wait_for(other) => {}
            }
            raised.store(true, Ordering::Relaxed);
        });
        over
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The stream of a host.
struct Follower {
    controller: Remote,
    host: Host,
    runs: watch::Sender<Now>,
    failed: Arc<OnceLock<String>>,
    patient: bool,
    setup: Arc<OnceLock<Setup>>,
    /// The set-up as it was told.
    told: Option<v1::Setup>,
    ready: Arc<Notify>,
    outdated: Arc<AtomicBool>,
    waker: Waker,
}

impl Follower {
    async fn follow(mut self) {
        let (begin, mut waits) = (Instant::now(), self.patient);
        while !self.outdated.load(Ordering::Relaxed) {
            let broken = self.once().await;
            // One that was there may come back.
            let patient = self.patient && !matches!(broken, Broken::Refused(_));
            if self.told.is_none() && !patient && !broken.passes(begin) {
                self.failed.get_or_init(|| broken.explained(&self.controller));
                return;
            }
            let (controller, reason) = (&self.controller, broken.reason());
            if self.told.is_none() && !std::mem::replace(&mut waits, true) {
                tracing::warn!("waiting for the controller at {controller}: {reason}");
            }
            tracing::debug!("{reason}");
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn once(&mut self) -> Broken {
        let role = match self.host.clone() {
            Host::Servers(host) => Role::Server(host),
            Host::Agent(host) => Role::Agent(host),
        };
        let mut unready = false;
        let mut stream = match Stream::open(&self.controller, role, PATIENCE).await {
            Ok(stream) => stream,
            Err(broken) => return broken,
        };
        loop {
            let notice = tokio::select! {
                notice = stream.notice() => notice,
                () = self.ready.notified(), if unready => {
                    unready = false;
                    stream.ready().await;
                    continue;
                }
            };
            let told = match notice {
                Ok(Notice::Setup(told)) => {
                    let before = self.told.replace(told.clone());
                    match before {
                        None => {
                            unready = true;
                            match Setup::of(told) {
                                Ok(setup) => drop(self.setup.set(setup)),
                                Err(status) => {
                                    self.told = None;
                                    return Broken::Refused(status);
                                }
                            }
                        }
                        Some(before) if before == told => stream.ready().await,
                        Some(_) => return self.has_others(),
                    }
                    Ok(())
                }
                Ok(Notice::Changed(v1::Changed {})) => return self.has_others(),
                Ok(Notice::Run(run)) => self.begun(run),
                Ok(Notice::Turn(told)) => self.turned(&told),
                Ok(_) => Ok(()),
                Err(broken) => return broken,
            };
            if let Err(status) = told {
                return Broken::Refused(status);
            }
        }
    }

    fn has_others(&self) -> Broken {
        self.outdated.store(true, Ordering::Relaxed);
        self.runs.send_modify(|_| {});
        self.waker.wake();
        Broken::Lost("it has other jobs for this host now".into())
    }

    fn begun(&self, run: v1::Run) -> Result<(), Status> {
        let job = run.job.clone();
        let begun = Begun::of(run)?;
        self.runs.send_if_modified(|now| {
            now.runs.insert(job, begun.clone()).is_none_or(|before| before != begun)
        });
        Ok(())
    }

    fn turned(&self, told: &v1::Turn) -> Result<(), Status> {
        let turn = turn(told)?;
        self.runs.send_modify(|now| {
            now.turns.insert(told.job.clone(), turn);
        });
        self.waker.wake();
        Ok(())
    }
}

/// The iterations of the jobs that a host serves, for the thread that serves.
#[derive(Clone, Debug)]
pub struct Turns {
    now: watch::Receiver<Now>,
    waker: Waker,
}

impl Turns {
    /// Those of jobs with iterations, by name, and the runs that they belong to, if there is something new.
    pub fn changes(&mut self) -> Option<BTreeMap<String, (Epoch, Turn)>> {
        if !self.now.has_changed().unwrap_or(false) {
            return None;
        }
        let Now { runs, turns } = &*self.now.borrow_and_update();
        let of =
            |(job, turn): (&String, &Turn)| Some((job.clone(), (runs.get(job)?.epoch(), *turn)));
        Some(turns.iter().filter_map(of).collect())
    }

    /// Ends the sleep of the thread that serves after each change.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.waker
    }
}

/// The jobs that a process of a host serves, and their runs.
#[derive(Debug)]
pub struct Serving {
    /// What the process needs for the jobs.
    pub setup: Setup,
    /// The host.
    pub id: HostId,
    /// Indices of the first lane of each job.
    jobs: Vec<usize>,
    runs: Runs,
}

/// A kind of process that serves a host's jobs.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What it is, as in "the parameter server of a job".
    pub name: &'static str,
    /// Such a process on the host with this name.
    pub host: fn(String) -> Host,
    /// Whether it serves a job on this host.
    pub serves: fn(&JobSpec, HostId) -> bool,
}

impl Serving {
    /// Serves the jobs that the controller has for a host, as they come and go, until `stop` is raised. `serve` returns
    /// when the host has other jobs, and `idle` is called when it has none.
    ///
    /// # Errors
    /// If the controller does not answer or refuses; another process serves one of the jobs; or of `serve`.
    pub fn run(
        args: &Args,
        name: Option<&str>,
        kind: Kind,
        stop: &Arc<AtomicBool>,
        metrics: &Metrics,
        idle: impl Fn(),
        mut serve: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let named = numbers::Jobs::default();
        metrics.add(named.clone());
        let name = args.host_name(name)?;
        let mut again = false;
        while !stop.load(Ordering::Relaxed) {
            let mut serving = match Self::new(args, &name, kind, again, stop) {
                Err(_) if again && stop.load(Ordering::Relaxed) => return Ok(()),
                serving => serving?,
            };
            again = true;
            let own = |job: &&JobSpec| (kind.serves)(job, serving.id);
            let jobs = || serving.scenario().jobs.iter().filter(own);
            named.set(jobs());
            if serving.jobs.is_empty() {
                let host = &serving.scenario().network.topology.host(serving.id).name;
                tracing::info!("no job has its {} on host {host} yet", kind.name);
                idle();
                serving.idle(stop);
                continue;
            }
            let _claim = claim(&args.interface, kind.name, jobs())?;
            serve(&mut serving)?;
        }
        Ok(())
    }

    fn new(args: &Args, name: &str, kind: Kind, again: bool, stop: &AtomicBool) -> Result<Self> {
        let runs = Runs::follow(args.controller()?, (kind.host)(name.to_owned()), again)?;
        let setup = runs.setup(stop)?;
        let scenario = setup.deployment.scenario();
        let id = names::host_at(scenario, name)?;
        let own = scenario.whole_jobs().filter(|(_, job)| (kind.serves)(job, id));
        let jobs = own.map(|(index, _)| index).collect();
        Ok(Self { setup, id, jobs, runs })
    }

    /// The network, and the jobs.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        self.setup.deployment.scenario()
    }

    /// Whether the host still has these jobs.
    #[must_use]
    pub fn goes_on(&self, stop: &AtomicBool) -> bool {
        !self.runs.is_outdated() && !stop.load(Ordering::Relaxed)
    }

    /// Waits until the controller has other jobs for the host, or `stop` is raised.
    fn idle(&self, stop: &AtomicBool) {
        self.runs.ready();
        while self.goes_on(stop) {
            std::thread::sleep(TICK);
        }
    }

    /// Waits until the controller knows the runs of the jobs. Returns the deployment with these and their workers;
    /// `None` if the host has other jobs by then. `Turn`s have the assignments of jobs with iterations.
    ///
    /// # Errors
    /// If the controller does not answer or refuses, or `stop` is raised.
    pub fn join(&mut self, stop: &AtomicBool) -> Result<Option<Deployment>> {
        self.runs.ready();
        let mut deployment = self.setup.deployment.clone();
        let scenario = self.setup.deployment.scenario();
        let names = self.jobs.iter().map(|job| scenario.jobs[*job].name.as_str());
        let Some(begun) = self.runs.of(&names.collect::<Vec<_>>(), stop)? else { return Ok(None) };
        for (job, Begun { epochs, workers, .. }) in self.jobs.iter().zip(begun) {
            let everyone = scenario.jobs[*job].workers.len();
            for (lane, epoch) in scenario.lanes(*job).zip(epochs) {
                deployment.set_epoch(lane, epoch);
                if workers.len() as usize != everyone {
                    deployment.keep(lane, workers);
                }
            }
        }
        Ok(Some(deployment))
    }

    /// The iterations of the jobs; `None` if no job has any.
    #[must_use]
    pub fn turns(&self) -> Option<Turns> {
        let runs = Some(&self.runs).filter(|_| !self.setup.stepped.is_empty())?;
        let mut now = runs.now.clone();
        now.mark_changed();
        Some(Turns { now, waker: runs.waker.clone() })
    }

    /// Raised when one of the jobs that `follows` has another run than the deployment has, when the host has other
    /// jobs, or with `stop`.
    #[must_use]
    pub fn over(
        &self,
        deployment: &Deployment,
        follows: impl Fn(&JobSpec) -> bool,
        stop: &Arc<AtomicBool>,
    ) -> Arc<AtomicBool> {
        let jobs = self.jobs.iter().map(|job| deployment.job(*job)).filter(|job| follows(job));
        self.runs.over(jobs.map(|job| (job.name.clone(), job.epoch)).collect(), stop)
    }
}
