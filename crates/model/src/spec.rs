//! The content of a validated job file: plain values with all defaults filled in.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use tributary_protocol::Rate;
use tributary_protocol::priority::Priority;
use tributary_wire::{Epoch, JobId, Protocol, Run, WorkerIndex};

use crate::topology::{HostId, SwitchId, Topology};
use crate::{Network, Orchestration};

/// Valid [scales](JobSpec::scale).
pub const SCALES: RangeInclusive<f64> = 1e-30..=1e30;

/// A validated job file: everything that a fabric needs to run it.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Scenario {
    /// Name for reports: the file's `name`, else the file name without its extension.
    pub name: String,
    /// Seed of all random choices: faults, random workloads, initial weights.
    pub seed: u64,
    /// The run fails if it takes longer than this.
    pub timeout: Duration,
    /// Where the jobs run.
    pub network: Network,
    /// How the jobs are scheduled, if a cross-connect joins the units.
    pub orchestration: Option<Orchestration>,
    /// The jobs, in the order of the file. A job with several threads per worker is as many jobs here,
    /// one after the other: its [lanes](Lane).
    pub jobs: Vec<JobSpec>,
}

impl Scenario {
    /// The jobs as the file has them, with their indices: the first lane of each.
    pub fn whole_jobs(&self) -> impl Iterator<Item = (usize, &JobSpec)> {
        self.jobs.iter().enumerate().filter(|(_, job)| job.lane.is_first())
    }

    /// Indices of all lanes of the job to which the job with this index belongs.
    #[must_use]
    pub fn lanes(&self, job: usize) -> Range<usize> {
        let Lane { index, count } = self.jobs[job].lane;
        job - index..job - index + count
    }

    /// Number of threads for the parameter servers of a host: as many as one of its jobs has lanes.
    /// Those of ESA have one, because they share a channel to the reminder agent.
    #[must_use]
    pub fn server_threads(&self, host: HostId) -> usize {
        let jobs = self.jobs.iter().filter(|job| job.ps == Some(host));
        let jobs = jobs.filter(|job| !job.protocol.has_reminder_agent());
        jobs.map(|job| job.lane.count).max().unwrap_or(1)
    }

    /// Gives each worker one thread: all jobs keep their first lane only.
    pub fn join_lanes(&mut self) {
        self.jobs.retain(|job| job.lane.is_first());
        self.jobs.iter_mut().for_each(|job| job.lane = Lane::default());
    }

    /// Indices of a job in the file and of its worker on a host; `None` if there is no such worker.
    #[must_use]
    pub fn worker_on(&self, host: HostId, job: JobId) -> Option<(usize, usize)> {
        let job = self.jobs.iter().position(|known| known.id == job)?;
        let worker = self.jobs[job].workers.iter().position(|&at| at == host)?;
        Some((job, worker))
    }

    /// The duties of a host: worker of some jobs, parameter server or reminder agent of others. A
    /// fabric with one process per host uses it to find what the process serves.
    pub fn duties(&self, host: HostId) -> impl Iterator<Item = (&JobSpec, Duty)> {
        self.jobs.iter().flat_map(move |job| {
            let workers = job.workers.iter().enumerate();
            let worker = workers
                .filter(move |&(_, &at)| at == host)
                .map(|(index, _)| Duty::Worker(worker_index(index)));
            let server = (job.ps == Some(host)).then_some(Duty::ParameterServer);
            let agent = job.agent == Some(host) && job.agent != job.ps;
            let agent = agent.then_some(Duty::ReminderAgent);
            worker.chain(server).chain(agent).map(move |duty| (job, duty))
        })
    }
}

/// A part of a job whose workers have several threads. In the network, each lane is a job of its own,
/// with its own ID, epoch, slots and aggregators; it sums one part of each tensor. All lanes have the
/// workers and the servers of the job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct Lane {
    /// Its number, from 0.
    pub index: usize,
    /// Number of lanes of the job, at least 1.
    pub count: usize,
}

impl Lane {
    /// The thread that serves it, of this many.
    #[must_use]
    pub fn thread(self, of: usize) -> usize {
        self.index % of
    }

    /// Whether it is the first lane of its job, which stands for the job in reports and messages.
    #[must_use]
    pub const fn is_first(self) -> bool {
        self.index == 0
    }
}

impl Default for Lane {
    /// The only lane of a job.
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

/// The duty of a host in a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duty {
    /// This worker of the job.
    Worker(WorkerIndex),
    /// The job's parameter server, and in ESA also the reminder agent, unless the agent has its own
    /// host.
    ParameterServer,
    /// The job's reminder agent (ESA), on another host than the parameter server.
    ReminderAgent,
}

/// Where a P4INC job is summed.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize, serde::Deserialize,
)]
pub enum Aggregation {
    /// In switches. If all workers are attached to one switch, that switch computes the sum.
    /// Otherwise each switch sums its own workers, and the parameter server adds these partial
    /// sums.
    #[default]
    Network,
    /// At the parameter server. Switches only forward.
    Server,
}

impl Aggregation {
    /// The word for it in job files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Server => "server",
        }
    }
}

/// The longest update time and pause of a job.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Where a job of P4INC or SwitchML is moved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SummedAt {
    /// To its parameter server.
    Server,
    /// To all switches that its workers are attached to.
    Network,
    /// To one of several such switches (P4INC-AOI, eq. 2): the others forward.
    Switch(SwitchId),
}

impl From<Aggregation> for SummedAt {
    fn from(aggregation: Aggregation) -> Self {
        match aggregation {
            Aggregation::Network => Self::Network,
            Aggregation::Server => Self::Server,
        }
    }
}

impl SummedAt {
    /// The place in words, for a network of these switches.
    #[must_use]
    pub fn name(self, topology: &Topology) -> String {
        match self {
            Self::Server | Self::Network => self.aggregation().name().into(),
            Self::Switch(switch) => format!("switch of {}", topology.switch(switch).name),
        }
    }

    /// Whether switches sum the job.
    #[must_use]
    pub fn aggregation(self) -> Aggregation {
        if self == Self::Server { Aggregation::Server } else { Aggregation::Network }
    }

    /// The switches that sum it, unless all do.
    #[must_use]
    pub fn adding(self) -> Option<BTreeSet<SwitchId>> {
        if let Self::Switch(switch) = self { Some([switch].into()) } else { None }
    }
}

/// A job: its workers sum tensors through the network.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct JobSpec {
    /// The job ID in packets.
    pub id: JobId,
    /// The run of the job. A parsed file has the job's number here, which suffices if no state
    /// outlives the run, as in virtual time. In a network, the controller assigns the epoch.
    pub epoch: Epoch,
    /// Name in messages and reports; unique in the file. Lanes after the first have their number
    /// behind the job's name: `job1/1`.
    pub name: String,
    /// Which part of the job this is.
    pub lane: Lane,
    /// Its aggregation protocol, the same for all jobs of a file.
    pub protocol: Protocol,
    /// Host of each worker, by worker index: 1 to 1024 distinct hosts.
    pub workers: Vec<HostId>,
    /// Host of the parameter server; in protocols other than ATP it has no worker of the job.
    /// `None` if the job has no parameter server.
    pub ps: Option<HostId>,
    /// Host of the reminder agent, which has no worker of the job; in ESA only. If it is the
    /// parameter server's host, the agent runs in the parameter server's process.
    pub agent: Option<HostId>,
    /// The profile from which packet priorities are computed (ESA).
    pub profile: Profile,
    /// The tensors to sum.
    pub workload: Workload,
    /// Fixed-point scale: a value x is sent as round(x · scale). Finite and positive.
    pub scale: f64,
    /// Maximum share of a worker's non-zero values that may become zero in fixed point without
    /// consequences.
    pub max_underflow: f64,
    /// The consequence if the share is larger.
    pub on_underflow: OnUnderflow,
    /// Maximum number of fragments in flight: a power of two.
    pub slots: u32,
    /// Initial congestion window in packets: 1 to `slots`.
    pub window: u32,
    /// Bits of values per second that each worker sends in all lanes together; `None` for no limit.
    pub rate: Option<Rate>,
    /// What switches let it take.
    pub limits: Limits,
    /// Where it is summed (P4INC).
    pub aggregation: Aggregation,
    /// The switches that add where contributions meet; `None`: all on the way (ATP: NetPack §5.2, step 4; P4INC: a
    /// control loop chooses one).
    #[serde(default)]
    pub adding: Option<BTreeSet<SwitchId>>,
    /// Number of the job's own aggregators in each switch that sums it (P4INC, SwitchML); zero in
    /// other protocols, whose jobs share the pool.
    pub segment: u32,
    /// Whether packets name workers by rack even if the job has up to 32.
    pub two_levels: bool,
    /// What it needs after an iteration before it can begin the next one, for a control loop (P4INC-AOI's *a*).
    #[serde(default)]
    pub update: Duration,
    /// Maximum random pause of each worker before each tensor, uniformly distributed from zero.
    pub jitter: Duration,
    /// Workers that are slowed down.
    pub stragglers: Vec<Straggler>,
    /// The consequence of a worker's death.
    pub on_death: OnDeath,
}

/// The consequence if a worker dies in the middle of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum OnDeath {
    /// The job ends.
    #[default]
    End,
    /// The others go on without it, if at least this many are left: from a round on which they agree.
    Continue {
        /// At least 1.
        least: u32,
    },
    /// The others wait until the worker has been started again, and go on with it from a round on which they
    /// agree.
    Wait,
}

impl OnDeath {
    /// Whether the job goes on.
    #[must_use]
    pub const fn goes_on(self) -> bool {
        !matches!(self, Self::End)
    }
}

/// What switches let a job take from others: its packets beyond that are dropped or changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// Bits of values per second of each of its workers. Switches drop what a worker's port sends above
    /// twice that, which leaves room for headers and for packets that are sent again; and above as
    /// much for each worker what the parameter server's port sends. `None`: no limit.
    pub rate: Option<Rate>,
    /// Bits of values per second of each of its workers with the priority that its packets name (ESA).
    /// Switches count twice that, as with `rate`, and treat packets above it as those of the lowest priority.
    /// `None`: no limit but `rate`.
    pub preemption: Option<Rate>,
    /// The highest priority of its packets (ESA): switches lower those above it.
    pub priority: Priority,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self { rate: None, preemption: None, priority: Priority::HIGHEST };

    /// Both these limits and others.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let lower = |a: Option<Rate>, b: Option<Rate>| a.into_iter().chain(b).min();
        Self {
            rate: lower(self.rate, other.rate),
            preemption: lower(self.preemption, other.preemption),
            priority: self.priority.min(other.priority),
        }
    }

    /// The limits of each of several lanes, at least 1 b/s.
    #[must_use]
    pub fn shared(self, lanes: u32) -> Self {
        let share = |rate: Rate| Rate::new((rate.get() / u64::from(lanes)).max(1));
        let (rate, preemption) = (self.rate.and_then(share), self.preemption.and_then(share));
        Self { rate, preemption, ..self }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::NONE
    }
}

impl JobSpec {
    /// The run of the job.
    #[must_use]
    pub const fn run(&self) -> Run {
        self.id.run(self.epoch)
    }

    /// Host of the parameter server.
    ///
    /// # Panics
    ///
    /// If the job has no parameter server.
    #[must_use]
    pub fn server(&self) -> HostId {
        self.ps.expect("the job has a parameter server")
    }

    /// Pause of a worker before each tensor: zero except for stragglers.
    #[must_use]
    pub fn straggler_delay(&self, worker: WorkerIndex) -> Duration {
        let own = self.stragglers.iter().filter(|straggler| straggler.worker == worker);
        own.map(|straggler| straggler.delay).sum()
    }
}

/// The consequence if more values become zero in fixed point than a job allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum OnUnderflow {
    /// The report contains a warning.
    Warn,
    /// The worker fails before it uses the sums.
    Fail,
}

/// A job's training profile, from which packet priorities are computed (ESA §5.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Profile {
    /// Number of layers of the model.
    pub layers: u32,
    /// Communication time per iteration; not zero.
    pub communication: Duration,
    /// Computation time per iteration; not zero.
    pub computation: Duration,
    /// Remaining training time at the start of the run; not zero. If `None`, the service attained
    /// so far is used instead.
    pub remaining: Option<Duration>,
}

impl Default for Profile {
    /// One layer, equal communication and computation times, and an unknown remaining time.
    fn default() -> Self {
        let millisecond = Duration::from_millis(1);
        Self { layers: 1, communication: millisecond, computation: millisecond, remaining: None }
    }
}

impl Profile {
    /// Layer of tensor number `tensor` (from 0) of `of` tensors that are submitted from front to
    /// back: from 1 to [`layers`](Self::layers), spread evenly.
    ///
    /// # Panics
    ///
    /// Unless `tensor` is less than `of`.
    #[must_use]
    pub fn layer(&self, tensor: usize, of: usize) -> u32 {
        assert!(tensor < of, "tensor {tensor} of {of}");
        let before = tensor as u128 * u128::from(self.layers) / of as u128;
        1 + u32::try_from(before).expect("less than the number of layers")
    }
}

/// A worker that is slowed down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Straggler {
    /// The worker.
    pub worker: WorkerIndex,
    /// Its pause before each tensor.
    pub delay: Duration,
}

/// The tensors that a job sums.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Workload {
    /// Tensors of random numbers.
    Random(RandomTensors),
    /// Tensors from files.
    Files(TensorFiles),
    /// Training of a classifier of handwritten digits.
    Digits(Digits),
}

impl Workload {
    /// Whether each worker compares only its share of the values of a sum.
    #[must_use]
    pub fn shares_verification(&self) -> bool {
        matches!(self, Self::Random(random) if random.verify == Verify::Share)
    }
}

/// Tensors of random numbers, different at each worker.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct RandomTensors {
    /// Number of tensors, summed one after the other.
    pub tensors: u32,
    /// How many times each of them is summed.
    pub repeat: u32,
    /// Number of sums at the start that do not count in the goodput; fewer than all.
    pub warm_up: u32,
    /// Number of 32-bit floating-point elements per tensor.
    pub elements: u64,
    /// Seed of the numbers. Together with the worker's index it determines all of them.
    pub seed: u64,
    /// Distribution of the numbers.
    pub distribution: Distribution,
    /// Uniform distribution: the numbers lie in ±magnitude. Normal distribution: the standard
    /// deviation.
    pub magnitude: f64,
    /// Which values of a sum each worker compares.
    pub verify: Verify,
}

impl RandomTensors {
    /// Number of sums, one after the other.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        u64::from(self.tensors) * u64::from(self.repeat)
    }
}

/// Which values of a sum a worker compares with a separately computed sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Verify {
    /// All. Each worker creates the tensors of all workers for that.
    All,
    /// Its share, so that all workers together compare every value once.
    Share,
}

/// A distribution of random numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Distribution {
    /// Uniform between ±magnitude.
    Uniform,
    /// Normal with mean 0 and the magnitude as standard deviation.
    Normal,
}

/// Tensors from `.npy` or `.safetensors` files.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct TensorFiles {
    /// Each worker's file, by worker index. Relative paths have been resolved against the job
    /// file's directory.
    pub inputs: Vec<PathBuf>,
    /// Directory for the sums; created when the run starts.
    pub output_dir: PathBuf,
}

/// Data-parallel training of a small classifier on the handwritten-digits data set.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Digits {
    /// Maximum number of passes over the training images.
    pub epochs: u32,
    /// Number of images per step over all workers, at least one per worker.
    pub batch: u32,
    /// Step size of gradient descent.
    pub learning_rate: f64,
    /// Share of the last step that is added to the next one: 0 to below 1.
    pub momentum: f64,
    /// Number of units of the hidden layer; 0 for no hidden layer.
    pub hidden: u32,
    /// Minimum share of test images that the trained classifier must recognise. Otherwise the run
    /// fails.
    pub target: f64,
    /// Seed of the initial weights and the order of the images.
    pub seed: u64,
}

/// The worker index for a position in a job's list of workers.
///
/// # Panics
///
/// If the position is 1024 or more.
#[must_use]
pub fn worker_index(position: usize) -> WorkerIndex {
    let index = u16::try_from(position).ok().and_then(WorkerIndex::new);
    index.expect("a job has at most 1024 workers")
}
