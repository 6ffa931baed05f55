//! Random systems, small enough that thousands run in seconds.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_model::jobfile::parse;
use tributary_model::{End, LinkId, Preemption, Protocol, Scenario, SummedAt, SwitchId};
use tributary_protocol::priority::Priority;
use tributary_protocol::{Recovery, Tensor};
use tributary_sim::{Act, Cable, Disturbance, Inputs, Options, Pace};

use super::circuits::{Optical, UNITS};

/// Values per packet.
pub(crate) const VALUES: usize = 32;

/// A tensor that all workers of a job submit.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TensorCase {
    pub(crate) values: usize,
    pub(crate) integers: bool,
    /// Whether some of its values are too large for fixed point.
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
    /// P4INC, SwitchML: the units of its workers.
    pub(crate) place: Place,
    /// P4INC: requested aggregators; a local job gets at least one per slot.
    pub(crate) segment: u32,
    /// P4INC: whether it begins at its parameter server.
    pub(crate) at_server: bool,
}

/// The units of a job's workers, if there are two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// All in one unit.
    Unit(usize),
    /// Alternating between the units.
    Both,
}

/// The end of all disturbances by chance. What follows shows how long the recovery takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Calm {
    pub(crate) at: Duration,
    /// Time before it in which all links are down, so that timers back off.
    pub(crate) dark: Duration,
}

/// One seed in four has the papers' rules of recovery.
fn recovery(seed: u64) -> Recovery {
    if seed.is_multiple_of(4) { Recovery::Papers } else { Recovery::Rack }
}

/// A whole system and all events of its run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Case {
    pub(crate) protocol: Protocol,
    pub(crate) recovery: Recovery,
    /// Rack of the parameter servers, of two; `None`: one switch.
    pub(crate) ps_rack: Option<u32>,
    /// Packets name the workers of the rack without parameter servers by that rack.
    pub(crate) two_levels: bool,
    /// ATP: only some switches add for a job, or none.
    pub(crate) selective: bool,
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
    /// In microseconds, of links and of channels.
    pub(crate) jitter: u32,
    pub(crate) acts: Vec<(Duration, Act)>,
    /// The end of all disturbances by chance, if there is one.
    pub(crate) calm: Option<Calm>,
    /// When the link between the two units goes down, and for how long.
    pub(crate) outages: Vec<(Duration, Duration)>,
    /// A cross-connect in place of that link.
    pub(crate) optical: Option<Optical>,
    /// Seed of the links' faults.
    pub(crate) seed: u64,
    /// The only disturbances that may happen, if restricted.
    pub(crate) only: Option<BTreeSet<Disturbance>>,
}

impl Case {
    /// The ESA case of a seed.
    pub(crate) fn esa(seed: u64) -> Self {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        // Mostly few jobs: they run faster, and most violations need only few.
        let jobs = *[2, 2, 2, 3, 3, 4, 5, 8].choose(random).unwrap();
        let jobs: Vec<JobCase> = (0..jobs).map(|_| JobCase::esa(random, jobs)).collect();
        let slots = *[2, 4, 8, 16].choose(random).unwrap();
        let [loss, duplicate, reorder, jitter] = chance(random);
        let mut case = Self {
            protocol: Protocol::Esa,
            recovery: recovery(seed),
            ps_rack: [None, Some(1), Some(2)].choose(random).copied().unwrap(),
            two_levels: seed.is_multiple_of(3),
            selective: false,
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
            calm: Calm::random(seed),
            outages: Vec::new(),
            optical: None,
            seed,
            only: None,
            jobs,
        };
        case.add_acts(random);
        case
    }

    /// The P4INC or SwitchML case of a seed.
    pub(crate) fn segments(seed: u64) -> Self {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let protocol = if random.random_bool(0.75) { Protocol::P4inc } else { Protocol::SwitchMl };
        let slots = *[1, 2, 2, 4, 8].choose(random).unwrap();
        let jobs = *[1, 1, 2, 2, 3, 4].choose(random).unwrap();
        let jobs: Vec<JobCase> =
            (0..jobs).map(|_| JobCase::segments(random, protocol, slots)).collect();
        let [loss, duplicate, reorder, jitter] = chance(random);
        let mut case = Self {
            protocol,
            recovery: recovery(seed),
            ps_rack: [None, Some(1), Some(2)].choose(random).copied().unwrap(),
            two_levels: seed.is_multiple_of(3),
            selective: false,
            slots,
            window: random.random_range(1..=slots),
            pool: *[1, 64].choose(random).unwrap(),
            queue: random.random_range(4..48),
            ecn: random.random_range(2..4),
            preemption: Preemption::Priority,
            loss,
            duplicate,
            reorder,
            jitter,
            acts: Vec::new(),
            calm: Calm::random(seed),
            outages: Vec::new(),
            optical: None,
            seed,
            only: None,
            jobs,
        };
        case.add_segment_acts(random);
        case.add_deaths(0.4);
        case
    }

    /// The ATP case of a seed.
    pub(crate) fn atp(seed: u64) -> Self {
        let selective = seed % 5 < 2;
        let case = Self { protocol: Protocol::Atp, acts: Vec::new(), selective, ..Self::esa(seed) };
        let mut case = case;
        for job in &mut case.jobs {
            job.agent_apart = false;
        }
        case.add_deaths(0.5);
        case
    }

    /// Adds parameter servers of ATP and P4INC that die, some several times, and their successors.
    /// The random numbers for it change nothing else.
    fn add_deaths(&mut self, share: f64) {
        let random = &mut ChaCha8Rng::seed_from_u64(self.seed ^ 0x6465_6164);
        for job in (0..self.jobs.len()).filter(|job| self.has_server(*job)).collect::<Vec<_>>() {
            while random.random_bool(share) {
                let dies = time(random, 50_000);
                let lives = dies + time(random, 20_000);
                self.acts.push((dies, Act::StopServer(job)));
                self.acts.push((lives, Act::StartServer(job)));
            }
        }
        self.acts.sort_unstable();
    }

    /// Adds links that go down, jobs that are moved, ended or restarted, and workers that address
    /// aggregators of other jobs.
    fn add_segment_acts(&mut self, random: &mut ChaCha8Rng) {
        for (job, its) in self.jobs.iter().enumerate() {
            let p4inc = self.protocol == Protocol::P4inc;
            while p4inc && random.random_bool(0.3) {
                let to = match random.random_range(0..4) {
                    0 | 1 => SummedAt::Server,
                    2 => SummedAt::Network,
                    // One of the two with workers.
                    _ => SummedAt::Switch(SwitchId(random.random_range(0..2))),
                };
                self.acts.push((time(random, 2_000), Act::Move(job, to)));
            }
            while random.random_bool(0.5) {
                let stray = Act::Stray {
                    job,
                    worker: random.random_range(0..its.workers),
                    behind: random.random_range(0..64),
                    fragment: random.random_range(0..12),
                };
                self.acts.push((time(random, 1_000), stray));
            }
            // Late packets of a run at the server cannot be distinguished from those of the next
            // one.
            let of_job = |(_, act): &(Duration, Act)| *act == Act::Move(job, SummedAt::Server);
            let at_server = its.at_server || self.acts.iter().any(of_job);
            if !at_server && random.random_bool(0.1) {
                self.acts.push((time(random, 1_000), Act::Again(job)));
            }
            if random.random_bool(0.05) {
                self.acts.push((time(random, 20_000), Act::End(job)));
            }
        }
        self.acts.sort_unstable();
        while self.ps_rack.is_some() && random.random_bool(0.3) {
            let length = Duration::from_micros(random.random_range(1_000..=100_000));
            let begins = time(random, 2_000);
            let before = self.outages.last().map_or(Duration::ZERO, |(from, long)| *from + *long);
            self.outages.push((before + begins, length));
        }
    }

    /// Adds deaths, broken connections, and jobs that are ended early.
    fn add_acts(&mut self, random: &mut ChaCha8Rng) {
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

    /// The racks, units or star of a job file.
    fn topology(&self, per_rack: usize) -> String {
        match (self.ps_rack, &self.optical) {
            (_, Some(Optical { ports, outage, .. })) => format!(
                "kind = \"units\"\nunits = {UNITS}\nhosts_per_unit = {per_rack}\n\
                 optical_ports = {ports}\nreconfiguration = \"{}us\"",
                outage.as_micros()
            ),
            (None, _) => format!("kind = \"star\"\nworkers = {per_rack}"),
            (Some(rack), _) => format!(
                "kind = \"racks\"\nracks = 2\nhosts_per_rack = {per_rack}\nps_rack = {rack}"
            ),
        }
    }

    /// The case as a job file.
    pub(crate) fn job_file(&self) -> String {
        let esa = self.protocol == Protocol::Esa;
        let servers: Vec<bool> = (0..self.jobs.len()).map(|job| self.has_server(job)).collect();
        let count = |of: &[bool]| of.iter().filter(|one| **one).count();
        let hosts = count(&servers) + self.jobs.iter().filter(|job| job.agent_apart).count();
        let (per_rack, names) = self.places();
        let topology = self.topology(per_rack);
        let preemption = match esa {
            true => format!("preemption = \"{}\"\n", self.preemption.name()),
            false => String::new(),
        };
        let partitions = match self.protocol {
            Protocol::SwitchMl => format!("partitions = {}\n", self.jobs.len()),
            _ => String::new(),
        };
        let Self { slots, window, queue, ecn, jitter, .. } = self;
        let (protocol, pool) = (self.protocol.name(), self.cells());
        let recovery = self.recovery.name();
        let share = |per_thousand: u32| f64::from(per_thousand) / 1000.0;
        let mut file = format!(
            "[topology]\n{topology}\nps_hosts = {hosts}\n\
             [protocol]\nkind = \"{protocol}\"\nvalues_per_packet = {VALUES}\nslots = {slots}\n\
             window = {window}\nscale = 1000.0\nrecovery = \"{recovery}\"\n\
             [switch]\npool = {pool}\necn_threshold = {ecn}\nqueue_capacity = {queue}\n\
             {preemption}{partitions}\
             [faults]\nloss = {}\nduplicate = {}\nreorder = {}\njitter = \"{jitter}us\"\n",
            share(self.loss),
            share(self.duplicate),
            share(self.reorder),
        );
        let server = |number: usize| {
            if self.optical.is_some() {
                let before = hosts * (self.ps_rack.unwrap_or(1) as usize - 1);
                format!("ps{}", before + number)
            } else if hosts == 1 {
                "ps".to_owned()
            } else {
                format!("ps{number}")
            }
        };
        let mut agents = self.jobs.len();
        for (index, (job, names)) in self.jobs.iter().zip(&names).enumerate() {
            let mut names = names.clone();
            let two_levels = self.two_levels && !self.is_local(index);
            if two_levels {
                // Workers of a rack are listed one after another.
                names.sort_unstable();
            }
            let workers: Vec<String> = names.iter().map(|name| format!("\"w{name}\"")).collect();
            let levels = 1 + u8::from(two_levels);
            let _ =
                writeln!(file, "[[job]]\nlevels = {levels}\nworkers = [{}]", workers.join(", "));
            if servers[index] {
                let _ = writeln!(file, "ps = \"{}\"", server(count(&servers[..=index])));
            }
            if job.agent_apart {
                agents += 1;
                let _ = writeln!(file, "agent = \"{}\"", server(agents));
            }
            if self.protocol == Protocol::P4inc {
                let _ = writeln!(file, "segment = {}", self.segment(index));
            }
            if job.at_server {
                let _ = writeln!(file, "aggregation = \"server\"");
            }
            if self.selective {
                let names: &[&str] = match (self.ps_rack, (self.seed + index as u64) % 4) {
                    (_, 0) => &[],
                    (None, _) => &["s1"],
                    (_, 1) => &["rack1"],
                    (_, 2) => &["rack2"],
                    _ => &["rack1", "rack2"],
                };
                let _ = writeln!(file, "switches = {names:?}");
            }
            for (worker, pause) in &job.pauses {
                let _ =
                    writeln!(file, "[[job.straggler]]\nworker = {worker}\ndelay = \"{pause}us\"");
            }
        }
        file
    }

    /// Whether a job's workers are all below one switch.
    pub(crate) fn is_local(&self, job: usize) -> bool {
        let JobCase { place, workers, .. } = self.jobs[job];
        self.ps_rack.is_none() || matches!(place, Place::Unit(_)) || workers == 1
    }

    fn has_server(&self, job: usize) -> bool {
        let moved = |act: &Act| *act == Act::Move(job, SummedAt::Server);
        match self.protocol {
            Protocol::Atp | Protocol::Esa => true,
            Protocol::SwitchMl => false,
            Protocol::P4inc => {
                let at_server = self.jobs[job].at_server;
                at_server || !self.is_local(job) || self.acts.iter().any(|(_, act)| moved(act))
            }
        }
    }

    fn segment(&self, job: usize) -> u32 {
        let least = if self.is_local(job) { self.slots } else { 1 };
        self.jobs[job].segment.max(least)
    }

    /// Pool size of the switches. There are only a few sizes, because compiling a program takes
    /// longer than many runs.
    fn cells(&self) -> u32 {
        let needed = match self.protocol {
            Protocol::Atp | Protocol::Esa => return self.pool,
            Protocol::P4inc => (0..self.jobs.len()).map(|job| self.segment(job)).sum(),
            Protocol::SwitchMl => 2 * self.slots * self.jobs.len() as u32,
        };
        let sizes = [4, 16, 64, 256];
        sizes.into_iter().find(|size| *size >= needed.max(self.pool)).expect("jobs are few")
    }

    /// Number of hosts per rack or in total, and the hosts of each job's workers.
    fn places(&self) -> (usize, Vec<Vec<usize>>) {
        let hosts: usize = self.jobs.iter().map(|job| job.workers).sum();
        // Workers of ATP and ESA alternate between the racks; the case places those of P4INC.
        let mut all = 0..hosts;
        let mut used = [0; 2];
        let racks: Vec<Vec<(usize, usize)>> = self
            .jobs
            .iter()
            .map(|job| {
                let workers = all.by_ref().take(job.workers).enumerate();
                let place = |(own, overall)| {
                    let rack = match (self.ps_rack, self.protocol, job.place) {
                        (None, ..) => 0,
                        (Some(_), Protocol::Atp | Protocol::Esa, _) => overall % 2,
                        (Some(_), _, Place::Unit(unit)) => unit,
                        (Some(_), _, Place::Both) => own % 2,
                    };
                    used[rack] += 1;
                    (rack, used[rack])
                };
                workers.map(place).collect()
            })
            .collect();
        let per_rack = used[0].max(used[1]);
        let names = racks
            .iter()
            .map(|job| job.iter().map(|&(rack, number)| rack * per_rack + number).collect());
        (per_rack, names.collect())
    }

    /// All acts with their times.
    pub(crate) fn all_acts(&self, scenario: &Scenario) -> Vec<(Duration, Act)> {
        let mut acts = self.acts.clone();
        let is_switch = |end: &End| matches!(end, End::Switch(..));
        let links = &scenario.network.topology.links[..scenario.network.topology.fixed_links()];
        acts.extend(self.optical.iter().flat_map(Optical::acts));
        if let Some(link) = links.iter().position(|link| link.ends.iter().all(is_switch)) {
            for (from, long) in &self.outages {
                acts.push((*from, Act::Down(LinkId(link))));
                acts.push((*from + *long, Act::Up(LinkId(link))));
            }
        }
        if let Some(Calm { at, dark }) = self.calm.filter(|calm| !calm.dark.is_zero()) {
            for link in (0..links.len()).map(LinkId) {
                acts.push((at - dark, Act::Down(link)));
                acts.push((at, Act::Up(link)));
            }
        }
        acts
    }

    pub(crate) fn scenario(&self) -> Scenario {
        let file = self.job_file();
        parse(&file, "random.toml").unwrap_or_else(|error| panic!("{error}\n{file}"))
    }

    pub(crate) fn options(&self, trace: bool) -> Options {
        Options {
            cable: Cable { bandwidth: 1e9, latency: Duration::from_micros(2) },
            // TCP over three links that each lose a quarter pauses for many seconds.
            limit: Duration::from_secs(3600),
            farewell: Duration::from_secs(600),
            pace: Pace {
                latency: Duration::from_micros(20),
                jitter: Duration::from_micros(self.jitter.into()),
                reconnect: Duration::from_micros(300),
            },
            trace,
            only: self.only.clone(),
            until: self.calm.map(|calm| calm.at),
            ..Options::seeded(self.seed)
        }
    }

    pub(crate) fn priorities(&self) -> Vec<Vec<Priority>> {
        let priority = |tensor: &TensorCase| Priority::new(tensor.priority).unwrap();
        self.jobs.iter().map(|job| job.tensors.iter().map(priority).collect()).collect()
    }

    /// The workers' tensors. They depend only on the shape of the case, so that they stay the same
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

impl Calm {
    /// Calm for half of the seeds, and for half of these after darkness. The random numbers for it
    /// change nothing else.
    fn random(seed: u64) -> Option<Self> {
        let random = &mut ChaCha8Rng::seed_from_u64(seed ^ 0x6361_6c6d);
        let [calm, after_dark] = [(); 2].map(|()| random.random_bool(0.5));
        let dark = if after_dark { time(random, 2_000_000) } else { Duration::ZERO };
        calm.then(|| Self { at: time(random, 100_000) + dark, dark })
    }
}

/// Random loss, duplication, reordering and jitter.
fn chance(random: &mut ChaCha8Rng) -> [u32; 4] {
    let mut rate = |most: u32| match random.random_range(0..4) {
        0 => 0,
        1 => random.random_range(0..=most / 10),
        _ => random.random_range(0..=most),
    };
    let [loss, duplicate, reorder] = [250, 300, 300].map(&mut rate);
    [loss, duplicate, reorder, if random.random_bool(0.5) { random.random_range(0..60) } else { 0 }]
}

/// A time, uniform over magnitudes: much happens in the first hundred microseconds.
pub(crate) fn time(random: &mut ChaCha8Rng, most: u64) -> Duration {
    let most = 10_f64.powf(random.random_range(1.0..(most as f64).log10()));
    Duration::from_micros(random.random_range(0..=most as u64))
}

impl JobCase {
    fn esa(random: &mut ChaCha8Rng, jobs: usize) -> Self {
        let workers =
            if jobs > 4 { random.random_range(1..=3) } else { random.random_range(1..=5) };
        let agent_apart = random.random_bool(0.25);
        Self { agent_apart, ..Self::of(random, workers, 2) }
    }

    fn segments(random: &mut ChaCha8Rng, protocol: Protocol, slots: u32) -> Self {
        let workers = random.random_range(1..=4);
        let place = match random.random_range(0..4) {
            unit @ 0..2 => Place::Unit(unit),
            _ if protocol == Protocol::SwitchMl => Place::Unit(0),
            _ => Place::Both,
        };
        let p4inc = protocol == Protocol::P4inc;
        // Sometimes less than the window, so that rounds come too early.
        let most = *[1.max(slots / 2), 2 * slots].choose(random).unwrap();
        Self {
            place,
            segment: random.random_range(1..=most),
            at_server: p4inc && random.random_bool(0.1),
            ..Self::of(random, workers, 4)
        }
    }

    fn of(random: &mut ChaCha8Rng, workers: usize, most: usize) -> Self {
        let tensors = random.random_range(1..=most);
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
            agent_apart: false,
            place: Place::Unit(0),
            segment: 1,
            at_server: false,
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

    /// Number of the tensor's fragments.
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
