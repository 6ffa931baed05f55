//! A client of the controller that decides about jobs at random: admits them, lets their iterations begin, moves and
//! paces them in between, leaves some to their workers with a lease, and releases others at any moment.
//!
//! It is a thread of its own. A call that fails is made again later: the controller may be away.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::time::timeout;
use tonic::Status;
use tonic::transport::Channel;
use tributary_access::Remote;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_model::{JobSpec, Scenario, Workload};

/// Pause between two looks at the jobs.
const PAUSE: Duration = Duration::from_millis(20);

/// Timeout of a call. A stopped switch delays changes.
const PATIENCE: Duration = Duration::from_secs(10);

/// The kinds of calls that are counted.
const CALLS: [&str; 8] = [
    "admissions",
    "iterations",
    "moves",
    "rates",
    "releases",
    "admissions with a lease",
    "releases after a move that failed",
    "admissions with a demand",
];

/// How many calls of each kind have succeeded.
#[derive(Debug, Default)]
pub(crate) struct Counts([AtomicU64; CALLS.len()]);

impl Counts {
    fn add(&self, call: usize) {
        self.0[call].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts with their names.
    pub(crate) fn text(&self) -> String {
        let named = CALLS.iter().zip(&self.0);
        let named = named.map(|(name, count)| format!("{} {name}", count.load(Ordering::Relaxed)));
        named.collect::<Vec<_>>().join(", ")
    }
}

const ADMISSION: usize = 0;
const ITERATION: usize = 1;
const MOVE: usize = 2;
const RATE: usize = 3;
const RELEASE: usize = 4;
const LEASE: usize = 5;
const BROKEN: usize = 6;
const DEMAND: usize = 7;

/// A job, as far as a client decides about it.
#[derive(Clone, Debug)]
struct Wanted {
    id: u32,
    segment: u32,
    /// The least segment that its window needs.
    least: u32,
    /// Whether it may be summed at its server without circuits between units.
    has_server: bool,
    /// Whether it has a segment and may be moved.
    moves: bool,
    /// Its demand, if there is a control loop.
    demand: Option<v1::Demand>,
    /// Whether its workers need light between units.
    needs_light: bool,
}

impl Wanted {
    fn new(job: &JobSpec, scenario: &Scenario) -> Self {
        let topology = &scenario.network.topology;
        let demand = scenario.orchestration.as_ref().and_then(|_| demand(job));
        let mut units = job.workers.iter().map(|&host| topology.attachment(host).0);
        let first = units.next();
        Self {
            id: job.id.get().into(),
            segment: job.segment.max(1),
            least: job.window.clamp(1, job.segment.max(1)),
            has_server: job.ps.is_some() && demand.is_none(),
            moves: job.protocol.can_move(),
            demand,
            needs_light: units.any(|unit| Some(unit) != first),
        }
    }
}

/// An iteration of the control loop is a sum.
fn demand(job: &JobSpec) -> Option<v1::Demand> {
    let Workload::Random(tensors) = &job.workload else { return None };
    let (bits, iterations) = (32 * tensors.elements, tensors.rounds());
    let update_us = job.update.as_micros() as u64;
    Some(v1::Demand { bits, iterations, aggregators: job.segment, update_us })
}

/// The client.
#[derive(Debug)]
pub(crate) struct Clients {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    problem: Arc<Mutex<Option<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Clients {
    /// Begins to decide about these jobs at the controller with this address.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(address: &str, scenario: &Scenario, seed: u64) -> Result<Self> {
        let jobs = scenario.whole_jobs().map(|(_, job)| Wanted::new(job, scenario));
        let jobs: Vec<Wanted> = jobs.collect();
        let remote = Remote::new(address, None)?.context("the controller has an address")?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = {
            let _context = runtime.enter();
            JobsClient::new(remote.connect_lazy())
        };
        let stop = Arc::<AtomicBool>::default();
        let counts = Arc::<Counts>::default();
        let problem = Arc::<Mutex<Option<String>>>::default();
        let mut deciding = Deciding {
            client,
            random: ChaCha8Rng::seed_from_u64(seed),
            counts: Arc::clone(&counts),
        };
        let (stopped, complaint) = (Arc::clone(&stop), Arc::clone(&problem));
        let work = move || {
            runtime.block_on(async {
                while !stopped.load(Ordering::Relaxed) {
                    if let Err(why) = deciding.look(&jobs).await {
                        *complaint.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            });
        };
        let thread = std::thread::Builder::new().name("clients".into()).spawn(work);
        Ok(Self { stop, counts, problem, thread: Some(thread.context("cannot start a thread")?) })
    }

    pub(crate) fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// What a controller has answered that it never should.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Deciding {
    client: JobsClient<Channel>,
    random: ChaCha8Rng,
    counts: Arc<Counts>,
}

/// A call's answer; `None` if it was refused, or there was none.
async fn answer<T>(
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<Option<T>, String> {
    match timeout(PATIENCE, call).await {
        Ok(Ok(answer)) => Ok(Some(answer.into_inner())),
        // What a switch refuses is a fault of ours.
        Ok(Err(status)) if status.code() == tonic::Code::Internal => {
            let broken = std::error::Error::source(&status).is_some();
            if broken { Ok(None) } else { Err(status.message().to_owned()) }
        }
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}

impl Deciding {
    async fn look(&mut self, jobs: &[Wanted]) -> Result<(), String> {
        let Some(listed) = answer(self.client.list(v1::ListRequest {})).await? else {
            return Ok(());
        };
        for wanted in jobs {
            match listed.jobs.iter().find(|job| job.job_id == wanted.id) {
                None => self.admit(wanted).await?,
                // It ends with its workers.
                Some(job) if job.lease.is_some() => {}
                Some(job) => self.step(wanted, job).await?,
            }
        }
        Ok(())
    }

    async fn admit(&mut self, wanted: &Wanted) -> Result<(), String> {
        let loops = wanted.needs_light || self.random.random_bool(0.5);
        let demand = wanted.demand.filter(|_| loops);
        let lease = demand.is_none() && self.random.random_bool(0.3);
        let aggregation = match demand {
            // The loop moves it later.
            Some(_) => v1::Aggregation::Server,
            None => self.place(wanted),
        };
        let request = v1::AdmitRequest {
            job_id: wanted.id,
            aggregation: aggregation.into(),
            size: wanted.segment,
            lease,
            stepped: demand.is_none() && !lease,
            demand,
            ..v1::AdmitRequest::default()
        };
        let admitted = self.client.admit(request).await;
        if let Err(status) = &admitted
            && status.code() == tonic::Code::InvalidArgument
        {
            // Another attempt would be refused for the same reason.
            return Err(status.message().to_owned());
        }
        if answer(async { admitted }).await?.is_some() {
            self.counts.add(match demand {
                Some(_) => DEMAND,
                None if lease => LEASE,
                None => ADMISSION,
            });
        }
        Ok(())
    }

    /// Where a job is summed next.
    fn place(&mut self, wanted: &Wanted) -> v1::Aggregation {
        match wanted.moves && wanted.has_server && self.random.random_bool(0.3) {
            true => v1::Aggregation::Server,
            false => v1::Aggregation::Network,
        }
    }

    async fn step(&mut self, wanted: &Wanted, job: &v1::Job) -> Result<(), String> {
        let job_id = wanted.id;
        let running = job
            .iteration
            .as_ref()
            .is_some_and(|iteration| iteration.state() == v1::iteration::State::Running);
        if self.random.random_bool(if running { 0.0005 } else { 0.003 }) {
            let released = answer(self.client.release(v1::ReleaseRequest { job_id })).await?;
            released.iter().for_each(|_| self.counts.add(RELEASE));
            return Ok(());
        }
        // The loop decides rate, place and iterations.
        if job.demand.is_some() {
            return Ok(());
        }
        if self.random.random_bool(0.1) {
            let rate = match self.random.random_bool(0.5) {
                true => self.random.random_range(5_000_000..50_000_000),
                false => 0,
            };
            let set = answer(self.client.set_rate(v1::SetRateRequest { job_id, rate })).await?;
            set.iter().for_each(|_| self.counts.add(RATE));
        }
        if running {
            return Ok(());
        }
        if wanted.moves && self.random.random_bool(0.2) {
            let aggregation = self.place(wanted).into();
            let size = self.random.random_range(wanted.least..=wanted.segment);
            let request = v1::MoveRequest { job_id, aggregation, size };
            let moved = answer(self.client.r#move(request)).await?;
            moved.iter().for_each(|_| self.counts.add(MOVE));
        }
        let request = v1::StartIterationRequest { job_id, number: 0 };
        match timeout(PATIENCE, self.client.start_iteration(request)).await {
            Ok(Ok(_)) => self.counts.add(ITERATION),
            // A move has failed at a switch that was away.
            Ok(Err(status)) if status.message().contains("left half-way") => {
                let released = answer(self.client.release(v1::ReleaseRequest { job_id })).await?;
                released.iter().for_each(|_| self.counts.add(BROKEN));
            }
            _ => {}
        }
        Ok(())
    }
}
