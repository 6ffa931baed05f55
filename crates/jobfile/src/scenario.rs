//! What a job file says once it has been checked: plain values, every default filled in.

use std::path::PathBuf;
use std::time::Duration;

use tributary_protocol::Recovery;
use tributary_protocol::rtt::RttConfig;
use tributary_wire::{Epoch, JobId, Run, WorkerIndex};

use crate::topology::{HostId, Topology};

/// A checked job file: all that a fabric needs to run it.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Name for reports: the file's `name`, else the file name without its ending.
    pub name: String,
    /// Seed of every random choice: faults, random workloads, initial weights.
    pub seed: u64,
    /// The run fails if it takes longer.
    pub timeout: Duration,
    /// A job fails if one of its workers is silent for longer while others wait for it.
    pub worker_timeout: Duration,
    /// Bounds of the endpoints' retransmission timeouts; the protocol's own unless the switches are
    /// slow.
    pub timeouts: RttConfig,
    /// What workers take for lost.
    pub recovery: Recovery,
    /// Hosts, switches, links, and the faults of each link.
    pub topology: Topology,
    /// What every switch is built and set to.
    pub switch: SwitchSettings,
    /// The jobs, in the order of the file.
    pub jobs: Vec<Job>,
}

impl Scenario {
    /// How all jobs aggregate: a switch runs one program.
    ///
    /// # Panics
    /// If the scenario is not a checked one: no job.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.jobs.first().expect("a scenario has a job").protocol
    }

    /// What runs on a host: as worker of some jobs, as parameter server or reminder agent of others.
    /// A fabric that runs one process a host finds here what that process serves.
    pub fn duties(&self, host: HostId) -> impl Iterator<Item = (&Job, Duty)> {
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

/// What a host does for a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duty {
    /// It is this worker of the job.
    Worker(WorkerIndex),
    /// It is the job's parameter server, and with ESA the reminder agent too unless that has a host
    /// of its own.
    ParameterServer,
    /// It is the job's reminder agent (ESA), apart from the parameter server.
    ReminderAgent,
}

/// Settings of all switches: compile-time constants of the P4 program, and the queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchSettings {
    /// 32-bit values a packet carries: 32, 64, 256 or 2048.
    pub values_per_packet: u16,
    /// Aggregators a switch has, for all jobs together.
    pub pool: u32,
    /// ATP: an aggregator idle for longer may be taken over by another task.
    pub idle_timeout: Duration,
    /// Packets in an egress queue above which the switch marks congestion.
    pub ecn_threshold: u32,
    /// Packets an egress queue holds; more are dropped.
    pub queue_capacity: u32,
    /// ESA: which collisions end in a preemption.
    pub preemption: Preemption,
    /// SwitchML: static parts of the pool, of which a job gets one.
    pub partitions: u32,
}

/// When a packet takes an aggregator from another task (ESA §7.3, figure 11).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Preemption {
    /// When its priority is the higher one; else the aggregator's priority is halved.
    #[default]
    Priority,
    /// Always.
    Always,
    /// With probability one half.
    Coin,
}

impl Preemption {
    /// The word for it in job files and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Priority => "priority",
            Self::Always => "always",
            Self::Coin => "coin",
        }
    }
}

/// Bytes of an aggregation packet besides its values, from the IPv4 header on.
const PACKET_OVERHEAD: u32 = 20 + 8 + 28;

impl SwitchSettings {
    /// Bytes of the largest packet from the IPv4 header on: the MTU that a link needs.
    #[must_use]
    pub fn packet_bytes(&self) -> u32 {
        PACKET_OVERHEAD + 4 * u32::from(self.values_per_packet)
    }

    /// Aggregators in each of the [`partitions`](Self::partitions): an even number, as each slot has
    /// two.
    #[must_use]
    pub fn partition(&self) -> u32 {
        (self.pool / self.partitions) & !1
    }
}

/// The aggregation protocol that a job uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Protocol {
    /// Statistical aggregation, first come, first served.
    Atp,
    /// Preemptive: a packet of higher priority takes an aggregator from another task.
    Esa,
    /// Each job has a segment of the aggregators to itself, and the last packet of a fragment turns
    /// into the result.
    P4inc,
    /// Each job has an equal, static part of the aggregators, and two versions of each slot.
    SwitchMl,
}

impl From<Protocol> for tributary_wire::Protocol {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Atp => Self::Atp,
            Protocol::Esa => Self::Esa,
            Protocol::P4inc => Self::P4inc,
            Protocol::SwitchMl => Self::SwitchMl,
        }
    }
}

impl Protocol {
    /// The word for it in job files and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Atp => "atp",
            Self::Esa => "esa",
            Self::P4inc => "p4inc",
            Self::SwitchMl => "switchml",
        }
    }
}

/// Where a job of P4INC is summed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Aggregation {
    /// In switches: in one alone if all workers hang on it, else in each of them the part of its own
    /// workers, and the parameter server sums up.
    #[default]
    Network,
    /// At the parameter server; switches only forward.
    Server,
}

/// A job: its workers sum tensors through the network.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Identity on the wire.
    pub id: JobId,
    /// Which run of the job this is. In a parsed file it is the job's number, which is right where
    /// nothing outlives the run, as in virtual time. In a network it is what the controller issued.
    pub epoch: Epoch,
    /// Name for messages and reports; unique in the file.
    pub name: String,
    /// How it aggregates; the same for all jobs of a file.
    pub protocol: Protocol,
    /// Host of each worker, by worker index: 1 to 32, all different.
    pub workers: Vec<HostId>,
    /// Host of the parameter server; with other protocols than ATP none of the workers'. `None`: the job
    /// does without one.
    pub ps: Option<HostId>,
    /// Host of the reminder agent, none of the workers; with ESA only. The parameter server's host:
    /// the agent is in its process.
    pub agent: Option<HostId>,
    /// What the priorities of its packets follow from (ESA).
    pub profile: Profile,
    /// What is summed.
    pub workload: Workload,
    /// Fixed point: a value x travels as round(x · scale). Finite and positive.
    pub scale: f64,
    /// Share of a worker's non-zero values that may become zero in fixed point without a word.
    pub max_underflow: f64,
    /// What is done if more do.
    pub on_underflow: OnUnderflow,
    /// Fragments that may be under way at once: a power of two.
    pub slots: u32,
    /// Congestion window at the start, in packets: 1 to `slots`.
    pub window: u32,
    /// Where it is summed (P4INC).
    pub aggregation: Aggregation,
    /// Aggregators that the job has to itself in each switch that sums for it (P4INC, SwitchML);
    /// with the other protocols, which share the pool, zero.
    pub segment: u32,
    /// Each worker pauses before each tensor for a random time, evenly between zero and this.
    pub jitter: Duration,
    /// Workers that are slowed down.
    pub stragglers: Vec<Straggler>,
}

impl Job {
    /// The run that this is.
    #[must_use]
    pub const fn run(&self) -> Run {
        self.id.run(self.epoch)
    }

    /// Host of the parameter server of a job that must have one.
    ///
    /// # Panics
    /// If the job does without.
    #[must_use]
    pub fn server(&self) -> HostId {
        self.ps.expect("the job has a parameter server")
    }

    /// Pause that a worker makes before each tensor (zero for all but stragglers).
    #[must_use]
    pub fn straggler_delay(&self, worker: WorkerIndex) -> Duration {
        let own = self.stragglers.iter().filter(|straggler| straggler.worker == worker);
        own.map(|straggler| straggler.delay).sum()
    }
}

/// What is done if more values become zero in fixed point than a job allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnUnderflow {
    /// The report has a warning.
    Warn,
    /// The worker fails, before it uses the sums.
    Fail,
}

/// What is known of a job's training: the priorities of its packets follow from it (ESA §5.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Layers of the model.
    pub layers: u32,
    /// Time that an iteration communicates; not zero.
    pub communication: Duration,
    /// Time that an iteration computes; not zero.
    pub computation: Duration,
    /// Time that the training still takes at the start of the run; not zero. `None`: nobody knows,
    /// and the service that the job has had so far is looked at instead.
    pub remaining: Option<Duration>,
}

impl Default for Profile {
    /// One layer, as much communication as computation, and nobody knows for how long.
    fn default() -> Self {
        let millisecond = Duration::from_millis(1);
        Self { layers: 1, communication: millisecond, computation: millisecond, remaining: None }
    }
}

impl Profile {
    /// Layer of the `tensor`-th (from 0) of `of` tensors that are submitted front to back: from 1 to
    /// [`layers`](Self::layers), spread evenly.
    ///
    /// # Panics
    /// Unless `tensor` is less than `of`.
    #[must_use]
    pub fn layer(&self, tensor: usize, of: usize) -> u32 {
        assert!(tensor < of, "tensor {tensor} of {of}");
        let before = tensor as u128 * u128::from(self.layers) / of as u128;
        1 + u32::try_from(before).expect("less than the number of layers")
    }
}

/// A worker that is slowed down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Straggler {
    /// Which.
    pub worker: WorkerIndex,
    /// Its pause before each tensor.
    pub delay: Duration,
}

/// What a job sums.
#[derive(Clone, PartialEq, Debug)]
pub enum Workload {
    /// Tensors of random numbers.
    Random(RandomTensors),
    /// Tensors from files.
    Files(TensorFiles),
    /// Training of a classifier of handwritten digits.
    Digits(Digits),
}

impl Workload {
    /// The word for it in job files and reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Random(_) => "random",
            Self::Files(_) => "files",
            Self::Digits(_) => "digits",
        }
    }
}

/// Tensors of random numbers, different at each worker.
#[derive(Clone, PartialEq, Debug)]
pub struct RandomTensors {
    /// How many, one after the other.
    pub tensors: u32,
    /// 32-bit floating-point numbers in each.
    pub elements: u64,
    /// Seed of the numbers: with the worker's index it determines every one.
    pub seed: u64,
    /// How the numbers are spread.
    pub distribution: Distribution,
    /// Uniform: numbers lie in ±magnitude. Normal: the standard deviation.
    pub magnitude: f64,
}

/// How random numbers are spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distribution {
    /// Evenly between ±magnitude.
    Uniform,
    /// Normally around 0 with the magnitude as standard deviation.
    Normal,
}

/// Tensors from `.npy` or `.safetensors` files.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorFiles {
    /// Each worker's file, by worker index; relative paths were resolved against the job file's
    /// directory.
    pub inputs: Vec<PathBuf>,
    /// Directory for the sums; created when the run starts.
    pub output_dir: PathBuf,
}

/// Data-parallel training of a small classifier on the handwritten-digits data set.
#[derive(Clone, PartialEq, Debug)]
pub struct Digits {
    /// Passes over the training images, at most.
    pub epochs: u32,
    /// Images per step over all workers; at least one for each.
    pub batch: u32,
    /// Step size of gradient descent.
    pub learning_rate: f64,
    /// Share of the last step that the next one keeps: 0 to below 1.
    pub momentum: f64,
    /// Units of the hidden layer; 0 leaves it out.
    pub hidden: u32,
    /// The run fails if the trained classifier recognises a smaller share of the test images.
    pub target: f64,
    /// Seed of the initial weights and the order of the images.
    pub seed: u64,
}

/// A worker's index from its position in a job's list of at most 32 workers.
pub(crate) fn worker_index(position: usize) -> WorkerIndex {
    let index = u8::try_from(position).ok().and_then(WorkerIndex::new);
    index.expect("a job has at most 32 workers: the reader checked")
}
