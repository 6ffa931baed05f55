//! A random system, small enough that thousands of them run in seconds.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_jobfile::{Preemption, Scenario, parse};
use tributary_protocol::Tensor;
use tributary_protocol::priority::Priority;
use tributary_sim::{Act, Cable, Disturbance, Inputs, Options, Pace};

/// Values of a packet.
pub(crate) const VALUES: usize = 32;

/// A tensor that all workers of a job submit.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TensorCase {
    pub(crate) values: usize,
    pub(crate) integers: bool,
    /// Some of its values are too great for fixed point.
    pub(crate) overflows: bool,
    pub(crate) priority: u8,
}

/// A job.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct JobCase {
    pub(crate) workers: usize,
    pub(crate) tensors: Vec<TensorCase>,
    /// Pauses of workers before each tensor, in microseconds.
    pub(crate) pauses: Vec<(usize, u32)>,
    /// Whether the reminder agent has a host of its own.
    pub(crate) agent_apart: bool,
}

/// A whole system and all that happens to it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Case {
    /// Two racks, the parameter servers in the first or the second of them; or one switch.
    pub(crate) ps_rack: Option<u32>,
    pub(crate) jobs: Vec<JobCase>,
    pub(crate) slots: u32,
    pub(crate) window: u32,
    pub(crate) pool: u32,
    pub(crate) queue: u32,
    pub(crate) ecn: u32,
    pub(crate) preemption: Preemption,
    /// Per thousand.
    pub(crate) loss: u32,
    pub(crate) duplicate: u32,
    pub(crate) reorder: u32,
    /// In microseconds, of cables and of channels.
    pub(crate) jitter: u32,
    pub(crate) acts: Vec<(Duration, Act)>,
    /// Of what the cables do.
    pub(crate) seed: u64,
    /// All that chance may do to frames, if that was narrowed down.
    pub(crate) only: Option<BTreeSet<Disturbance>>,
}

impl Case {
    /// The case of a seed.
    pub(crate) fn random(seed: u64) -> Self {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        // Mostly few jobs: they are faster, and what goes wrong goes wrong with few.
        let jobs = *[2, 2, 2, 3, 3, 4, 5, 8].choose(random).unwrap();
        let jobs: Vec<JobCase> = (0..jobs).map(|_| JobCase::random(random, jobs)).collect();
        let slots = *[2, 4, 8, 16].choose(random).unwrap();
        let mut rate = |most: u32| match random.random_range(0..4) {
            0 => 0,
            1 => random.random_range(0..=most / 10),
            _ => random.random_range(0..=most),
        };
        let (loss, duplicate, reorder) = (rate(250), rate(300), rate(300));
        let jitter = if random.random_bool(0.5) { random.random_range(0..60) } else { 0 };
        let mut case = Self {
            ps_rack: [None, Some(1), Some(2)].choose(random).copied().unwrap(),
            slots,
            window: random.random_range(1..=slots),
            pool: random.random_range(1..=8),
            queue: random.random_range(4..48),
            ecn: random.random_range(2..4),
            preemption: *[Preemption::Priority, Preemption::Always, Preemption::Coin]
                .choose(random)
                .unwrap(),
            loss,
            duplicate,
            reorder,
            jitter,
            acts: Vec::new(),
            seed,
            only: None,
            jobs,
        };
        case.add_acts(random);
        case
    }

    /// Deaths, broken connections, and jobs that are ended in the middle.
    fn add_acts(&mut self, random: &mut ChaCha8Rng) {
        let time = |random: &mut ChaCha8Rng, most: u64| {
            // Evenly over the magnitudes: much happens in the first hundred microseconds.
            let most = 10_f64.powf(random.random_range(1.0..(most as f64).log10()));
            Duration::from_micros(random.random_range(0..=most as u64))
        };
        for job in 0..self.jobs.len() {
            if random.random_bool(0.15) {
                let dies = time(random, 50_000);
                let lives = dies + time(random, 20_000);
                self.acts.push((dies, Act::StopServer(job)));
                self.acts.push((lives, Act::StartServer(job)));
            }
            if self.jobs[job].agent_apart && random.random_bool(0.3) {
                let dies = time(random, 50_000);
                let lives = dies + time(random, 20_000);
                self.acts.push((dies, Act::StopAgent(job)));
                self.acts.push((lives, Act::StartAgent(job)));
            }
            while random.random_bool(0.15) {
                let worker = random.random_range(0..self.jobs[job].workers);
                self.acts.push((time(random, 50_000), Act::Cut(job, worker)));
            }
            if random.random_bool(0.08) {
                self.acts.push((time(random, 20_000), Act::End(job)));
            }
        }
        self.acts.sort_unstable();
    }

    /// The case as a job file.
    pub(crate) fn job_file(&self) -> String {
        let hosts: usize = self.jobs.iter().map(|job| job.workers).sum();
        let servers = self.jobs.len() + self.jobs.iter().filter(|job| job.agent_apart).count();
        let per_rack = hosts.div_ceil(2);
        let topology = match self.ps_rack {
            None => format!("kind = \"star\"\nworkers = {hosts}"),
            Some(rack) => format!(
                "kind = \"racks\"\nracks = 2\nhosts_per_rack = {per_rack}\nps_rack = {rack}"
            ),
        };
        let preemption = self.preemption.name();
        let Self { slots, window, pool, queue, ecn, jitter, .. } = self;
        let share = |per_thousand: u32| f64::from(per_thousand) / 1000.0;
        let mut file = format!(
            "[topology]\n{topology}\nps_hosts = {servers}\n\
             [protocol]\nkind = \"esa\"\nvalues_per_packet = {VALUES}\nslots = {slots}\n\
             window = {window}\nscale = 1000.0\n\
             [switch]\npool = {pool}\necn_threshold = {ecn}\nqueue_capacity = {queue}\n\
             preemption = \"{preemption}\"\n\
             [faults]\nloss = {}\nduplicate = {}\nreorder = {}\njitter = \"{jitter}us\"\n",
            share(self.loss),
            share(self.duplicate),
            share(self.reorder),
        );
        // In turn from the one rack and from the other.
        let mut names = (0..hosts).map(|at| match self.ps_rack {
            None => at + 1,
            Some(_) => at / 2 + 1 + per_rack * (at % 2),
        });
        let server = |number: usize| {
            if servers == 1 { "ps".to_owned() } else { format!("ps{number}") }
        };
        let mut agents = self.jobs.len();
        for (index, job) in self.jobs.iter().enumerate() {
            let workers: Vec<String> =
                names.by_ref().take(job.workers).map(|name| format!("\"w{name}\"")).collect();
            let _ = writeln!(
                file,
                "[[job]]\nworkers = [{}]\nps = \"{}\"",
                workers.join(", "),
                server(index + 1)
            );
            if job.agent_apart {
                agents += 1;
                let _ = writeln!(file, "agent = \"{}\"", server(agents));
            }
            for (worker, pause) in &job.pauses {
                let _ =
                    writeln!(file, "[[job.straggler]]\nworker = {worker}\ndelay = \"{pause}us\"");
            }
        }
        file
    }

    pub(crate) fn scenario(&self) -> Scenario {
        let file = self.job_file();
        parse(&file, "random.toml").unwrap_or_else(|error| panic!("{error}\n{file}"))
    }

    pub(crate) fn options(&self, trace: bool) -> Options {
        Options {
            cable: Cable { bandwidth: 1e9, latency: Duration::from_micros(2) },
            limit: Duration::from_secs(60),
            pace: Pace {
                latency: Duration::from_micros(20),
                jitter: Duration::from_micros(self.jitter.into()),
                reconnect: Duration::from_micros(300),
            },
            trace,
            only: self.only.clone(),
            ..Options::seeded(self.seed)
        }
    }

    pub(crate) fn priorities(&self) -> Vec<Vec<Priority>> {
        let priority = |tensor: &TensorCase| Priority::new(tensor.priority).unwrap();
        self.jobs.iter().map(|job| job.tensors.iter().map(priority).collect()).collect()
    }

    /// What the workers sum. It depends on the shape of the case only, so that it stays the same
    /// when something else is left out.
    pub(crate) fn inputs(&self) -> Inputs {
        let jobs = self.jobs.iter().enumerate();
        jobs.map(|(index, job)| {
            let worker = |worker: usize| {
                let rounds = job.tensors.iter().enumerate();
                rounds
                    .map(|(round, tensor)| tensor.values(index, worker, round, job.workers))
                    .collect()
            };
            (0..job.workers).map(worker).collect()
        })
        .collect()
    }
}

impl JobCase {
    fn random(random: &mut ChaCha8Rng, jobs: usize) -> Self {
        let workers =
            if jobs > 4 { random.random_range(1..=3) } else { random.random_range(1..=5) };
        let tensors = random.random_range(1..=2);
        let mut pauses = Vec::new();
        for worker in 0..workers {
            if random.random_bool(0.2) {
                let most = *[50, 500, 5_000].choose(random).unwrap();
                pauses.push((worker, random.random_range(1..most)));
            }
        }
        Self {
            workers,
            tensors: (0..tensors).map(|_| TensorCase::random(random)).collect(),
            pauses,
            agent_apart: random.random_bool(0.25),
        }
    }
}

impl TensorCase {
    fn random(random: &mut ChaCha8Rng) -> Self {
        Self {
            values: random.random_range(0..=VALUES * 6),
            integers: random.random_bool(0.3),
            overflows: random.random_bool(0.2),
            priority: random.random_range(1..=255),
        }
    }

    /// Fragments that the tensor takes.
    pub(crate) fn fragments(&self) -> usize {
        self.values.div_ceil(VALUES)
    }

    /// A worker's tensor.
    fn values(&self, job: usize, worker: usize, round: usize, workers: usize) -> Tensor {
        let place = [job, worker, round].iter().fold(17, |seed, part| seed * 31 + *part as u64);
        let random = &mut ChaCha8Rng::seed_from_u64(place);
        if self.integers {
            let limit = i32::MAX / workers as i32;
            return Tensor::I32(
                (0..self.values).map(|_| random.random_range(-limit..=limit)).collect(),
            );
        }
        let mut value = |_| {
            let great = self.overflows && random.random_bool(0.02);
            random.random_range(-1e3..1e3) * if great { 1e6 } else { 1.0 }
        };
        Tensor::F32((0..self.values).map(&mut value).collect())
    }
}
