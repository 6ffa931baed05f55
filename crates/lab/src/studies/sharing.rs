//! Measured shares of a rack's links and of its switch's memory: ATP's endpoints and program in
//! virtual time, as NetPack measures them on its testbed (§6.4, figures 14 and 15).
//!
//! [`Rack::samples`] runs jobs and samples their parameter servers periodically; [`Rack::estimate`]
//! is the estimate of algorithm 1 for the running jobs.

use std::fmt::Write as _;
use std::time::Duration;

use tributary_cluster as cluster;
use tributary_cluster::{Cluster, Plan, RackIndex, ServerIndex, SteadyNetwork};
use tributary_controller::programs::Source;
use tributary_model::Scenario;
use tributary_model::jobfile::parse;
use tributary_p4::Architecture;
use tributary_protocol::Tensor;

use tributary_sim::Cable;
use tributary_sim::Program;
use tributary_sim::{Error, Inputs, Options, Run};

/// Values per packet.
const VALUES: usize = 64;

/// Bytes of an ATP packet on a link: headers, values, and framing.
const PACKET_BYTES: f64 = (14 + 20 + 8 + 28 + 4 * VALUES + 24) as f64;

/// A job of a [`Rack`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sender {
    /// Number of workers, each on a server of its own.
    pub workers: u32,
    /// When it starts.
    pub start: Duration,
    /// Packets per worker.
    pub packets: u32,
}

/// Jobs whose workers and parameter servers are attached to one switch.
#[derive(Clone, PartialEq, Debug)]
pub struct Rack {
    /// The jobs.
    pub senders: Vec<Sender>,
    /// Number of hosts of parameter servers, assigned to jobs in turn.
    pub ps_hosts: u32,
    /// Number of aggregators of the switch.
    pub pool: u32,
    /// A worker's window in packets.
    pub window: u32,
    /// The links.
    pub cable: Cable,
    /// Seed of the summed values.
    pub seed: u64,
}

/// A job's share in a span of time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Share {
    /// Packets of each worker that were summed.
    pub packets: u64,
    /// Packets that the switch summed for all workers.
    pub aggregated: u64,
    /// Rate of these packets on each worker's link, in Gb/s.
    pub rate_gbps: f64,
}

impl Share {
    /// Fraction of its packets that the switch summed; zero without packets.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.aggregated as f64 / self.packets.max(1) as f64
    }
}

/// The estimated share of a job.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Estimate {
    /// Rate on each worker's link, in Gb/s.
    pub rate_gbps: f64,
    /// Fraction that the switch sums.
    pub ratio: f64,
}

/// The jobs' shares from the previous sample to `until`.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Time since the start.
    pub until: Duration,
    /// By job.
    pub shares: Vec<Share>,
}

impl Rack {
    /// Figure 14: jobs of two workers and a parameter server each, with links so fast that only a
    /// worker's window limits it to `rate_gbps`. `pat_ratio` is the switch's memory relative to the
    /// packets that *one* job has in flight.
    #[must_use]
    pub fn figure_14(jobs: u32, pat_ratio: f64, rate_gbps: f64) -> Self {
        let window = 64;
        let round_trip_s = f64::from(window) * PACKET_BYTES * 8.0 / (rate_gbps * 1e9);
        // A round trip crosses four links.
        let cable =
            Cable { bandwidth: 400e9, latency: Duration::from_secs_f64(round_trip_s / 4.0) };
        let sender = Sender { workers: 2, start: Duration::ZERO, packets: u32::MAX };
        Self {
            senders: vec![sender; jobs as usize],
            ps_hosts: jobs,
            pool: ((f64::from(window) * pat_ratio).round() as u32).max(1),
            window,
            cable,
            seed: 1,
        }
    }

    /// Figure 15: jobs that arrive one after the other and leave in the opposite order, with their
    /// parameter servers on one host and memory for all. Changes are a millisecond or two apart.
    #[must_use]
    pub fn figure_15() -> Self {
        let sender = |start_ms, packets| Sender {
            workers: 2,
            start: Duration::from_millis(start_ms),
            packets,
        };
        Self {
            senders: vec![sender(0, 13_400), sender(1, 6_100), sender(2, 2_400)],
            ps_hosts: 1,
            pool: 4096,
            window: 64,
            cable: Cable::default(),
            seed: 1,
        }
    }

    /// Figure 15 with scarce memory: two jobs of three workers, a parameter server each.
    #[must_use]
    pub fn short_of_memory(pool: u32) -> Self {
        let sender = Sender { workers: 3, start: Duration::ZERO, packets: u32::MAX };
        Self { senders: vec![sender; 2], ps_hosts: 2, pool, ..Self::figure_15() }
    }

    /// Peak aggregation throughput of the switch in Gb/s: its memory divided by the round-trip
    /// time, which is the propagation delay plus the queueing delay at the marking threshold
    /// (NetPack §4.1, footnote 3).
    #[must_use]
    pub fn pat_gbps(&self) -> f64 {
        let waiting_s =
            f64::from(self.scenario().network.switch.ecn_threshold) * PACKET_BYTES * 8.0
                / self.cable.bandwidth;
        f64::from(self.pool) * PACKET_BYTES * 8.0 / (self.propagation_s() + waiting_s) / 1e9
    }

    /// Propagation delay from a worker to the parameter server and back, in seconds.
    fn propagation_s(&self) -> f64 {
        4.0 * self.cable.latency.as_secs_f64()
    }

    /// A worker's maximum rate: limited by its link or its window.
    fn worker_gbps(&self) -> f64 {
        let window_bits = f64::from(self.window) * PACKET_BYTES * 8.0;
        self.cable.bandwidth.min(window_bits / self.propagation_s()) / 1e9
    }

    /// The estimate of algorithm 1 for each job, if those marked in `runs` run.
    #[must_use]
    pub fn estimate(&self, runs: &[bool]) -> Vec<Estimate> {
        let workers: u32 = self.senders.iter().map(|sender| sender.workers).sum();
        let rack = RackIndex(0);
        let host = |at| cluster::Server {
            rack,
            gpus: 1,
            link_gbps: if at < workers { self.worker_gbps() } else { self.cable.bandwidth / 1e9 },
        };
        let hosts = workers + self.ps_hosts;
        let racks = vec![cluster::Rack {
            servers: 0..hosts,
            pod: None,
            uplink_gbps: 0.0,
            pat_gbps: self.pat_gbps(),
        }];
        let cluster = Cluster::new((0..hosts).map(host).collect(), racks, Vec::new());
        let mut next = 0;
        let mut plans = Vec::new();
        for (job, sender) in (0..).zip(&self.senders) {
            let shares: Vec<_> =
                (next..next + sender.workers).map(|at| (ServerIndex(at), 1)).collect();
            let ps = ServerIndex(workers + job % self.ps_hosts);
            plans.push((cluster::JobId(job), Plan::spread(&cluster, &shares, ps)));
            next += sender.workers;
        }
        let running = plans.iter().zip(runs).filter(|(_, runs)| **runs);
        let network = SteadyNetwork::plain(&cluster, running.map(|((job, plan), _)| (*job, plan)));
        let of = |((job, _), runs): (&(cluster::JobId, Plan), &bool)| {
            if !runs {
                return Estimate::default();
            }
            let rate_gbps = network.rate_gbps(*job);
            Estimate { rate_gbps, ratio: network.aggregated_gbps(*job, rack) / rate_gbps }
        };
        plans.iter().zip(runs).map(of).collect()
    }

    /// The jobs that run throughout each sample; `None` for a sample in which a job starts or ends.
    #[must_use]
    pub fn running(&self, samples: &[Sample]) -> Vec<Option<Vec<bool>>> {
        let mut sent = vec![0; self.senders.len()];
        let mut from = Duration::ZERO;
        let mut all = Vec::new();
        for sample in samples {
            let mut running = Some(Vec::new());
            for ((sender, share), sent) in self.senders.iter().zip(&sample.shares).zip(&mut sent) {
                let before = sender.start >= sample.until || *sent >= u64::from(sender.packets);
                *sent += share.packets;
                let through = sender.start <= from && *sent < u64::from(sender.packets);
                running = running.filter(|_| before || through);
                if let Some(running) = &mut running {
                    running.push(through);
                }
            }
            all.push(running);
            from = sample.until;
        }
        all
    }

    /// Runs the jobs until `until` or until all have ended, and samples every whole span `every`.
    ///
    /// # Errors
    /// [`Error`]; not expected.
    pub fn samples(&self, every: Duration, until: Duration) -> Result<Vec<Sample>, Error> {
        let scenario = self.scenario();
        let source = Source::built_in_for(Architecture::V1model, "atp")?;
        let program = Program::compile(&source, &scenario.network.switch)?;
        let options = Options { cable: self.cable, limit: until, ..Options::seeded(self.seed) };
        let mut run = Run::start(&scenario, &program, self.inputs(until), &options)?;
        let mut samples = Vec::new();
        let mut before = vec![(0, 0); self.senders.len()];
        loop {
            let next = every * (samples.len() as u32 + 1);
            let mut goes_on = true;
            while goes_on && run.elapsed() < next {
                goes_on = run.step()?;
            }
            if run.elapsed() < next {
                return Ok(samples);
            }
            let now = self.counts(&scenario, &run);
            let share = |(now, before): (&(u64, u64), &(u64, u64))| {
                let packets = now.0 - before.0;
                let rate_gbps = packets as f64 * PACKET_BYTES * 8.0 / every.as_secs_f64() / 1e9;
                Share { packets, aggregated: now.1 - before.1, rate_gbps }
            };
            let shares = now.iter().zip(&before).map(share).collect();
            samples.push(Sample { until: next, shares });
            before = now;
        }
    }

    /// Tasks that each job's parameter server completed, and how many of them arrived complete.
    fn counts(&self, scenario: &Scenario, run: &Run<'_>) -> Vec<(u64, u64)> {
        let count = |job: &tributary_model::JobSpec| {
            let server = job.ps.and_then(|host| run.system.network.server(host, job.id));
            let stats = server.map(|server| *server.stats()).unwrap_or_default();
            (stats.completed, stats.complete_on_arrival)
        };
        scenario.jobs.iter().map(count).collect()
    }

    fn scenario(&self) -> Scenario {
        let workers: u32 = self.senders.iter().map(|sender| sender.workers).sum();
        // Three later results halve windows, as when docs/evaluation/steady-state.md was measured.
        let mut file = format!(
            "[topology]\nkind = \"star\"\nworkers = {workers}\nps_hosts = {}\n\
             [protocol]\nvalues_per_packet = {VALUES}\nslots = {window}\nwindow = {window}\n\
             recovery = \"papers\"\nlater_results = \"halve\"\n\
             [switch]\npool = {}\n",
            self.ps_hosts,
            self.pool,
            window = self.window,
        );
        let mut next = 1;
        for sender in &self.senders {
            let names: Vec<_> =
                (next..next + sender.workers).map(|w| format!("\"w{w}\"")).collect();
            let _ = writeln!(file, "[[job]]\nworkers = [{}]", names.join(", "));
            for worker in 0..sender.workers {
                let delay = sender.start.as_nanos();
                let _ =
                    writeln!(file, "[[job.straggler]]\nworker = {worker}\ndelay = \"{delay}ns\"");
            }
            next += sender.workers;
        }
        parse(&file, "rack.toml").expect("a job file")
    }

    /// A tensor for each worker, no longer than it can send in time.
    fn inputs(&self, until: Duration) -> Inputs {
        let most = until.as_secs_f64() * self.cable.bandwidth / (PACKET_BYTES * 8.0);
        let window = f64::from(self.window) * until.as_secs_f64();
        let most = most.min(window / (4.0 * self.cable.latency.as_secs_f64())) as u32 + self.window;
        let tensor = |sender: &Sender, worker: u32| {
            let values = VALUES * sender.packets.min(most) as usize;
            Tensor::F32((0..values).map(|at| (at as u32 % 1013 + worker) as f32).collect())
        };
        let job = |sender: &Sender| {
            (0..sender.workers).map(|worker| vec![tensor(sender, worker)]).collect()
        };
        self.senders.iter().map(job).collect()
    }
}
