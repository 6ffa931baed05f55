//! Measurements during a simulation.

use super::Options;
use crate::plan::Plan;
use crate::topology::Cluster;

/// The state of a cluster at one instant, after all events of the instant.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sample {
    /// Time in seconds from the start of the trace.
    pub time_s: f64,
    /// Number of running jobs.
    pub running: u32,
    /// Number of waiting jobs.
    pub waiting: u32,
    /// Number of servers with at least one allocated GPU (Titan §V.A, number of used machines).
    pub used_machines: u32,
    /// Number of allocated GPUs.
    pub busy_gpus: u32,
    /// Share of idle GPUs of a server, mean over the used servers; 0 if there are none (Titan §V.A,
    /// machine fragmentation rate).
    pub fragmentation: f64,
    /// Bytes that the running jobs send between servers in one iteration each (Titan §V.B, exp. 3).
    pub traffic_bytes: f64,
    /// GPU-hours of computing per hour over all running jobs, divided by the number of used
    /// machines (Titan §V.A, average profit rate); 0 if there are none.
    pub profit_rate: f64,
}

/// Measurements over the whole run, or over the part of it that is measured.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Totals {
    /// From the first submission to the last end, seconds.
    pub makespan_s: f64,
    /// Number of GPUs of the cluster, integrated over time, in seconds.
    pub capacity_s: f64,
    /// Time in which at least one server was used, in seconds.
    pub busy_s: f64,
    /// Number of used machines, integrated over time, in seconds.
    pub machine_s: f64,
    /// Number of allocated GPUs, integrated over time, in seconds.
    pub gpu_s: f64,
    /// Fragmentation, integrated over time, in seconds. Divided by `busy_s` it is the average.
    pub fragmentation_s: f64,
    /// Profit rate, integrated over time, in seconds. Divided by `busy_s` it is the average.
    pub profit_s: f64,
    /// Traffic per iteration, integrated over time, in byte-seconds. Divided by `busy_s` it is the
    /// average.
    pub traffic_byte_s: f64,
    /// Sum of the profit rates at all instants at which a job arrived (Titan §V.B, exp. 4).
    pub profit: f64,
    /// Maximum number of used servers.
    pub peak_machines: u32,
    /// Number of rounds held.
    pub rounds: u64,
    /// Number of times that the network's steady state was queried.
    pub settlings: u64,
}

/// Tracks allocated GPUs and accumulates the measurements.
#[derive(Debug)]
pub(super) struct Meter<'c> {
    cluster: &'c Cluster,
    taken: Vec<u32>,
    /// Sum over the used servers of the share of idle GPUs.
    idle: f64,
    pub(super) now: Sample,
    pub(super) totals: Totals,
    start_s: f64,
    sample_s: Option<f64>,
    window_s: [f64; 2],
    series: Vec<Sample>,
}

impl<'c> Meter<'c> {
    pub(super) fn new(cluster: &'c Cluster, start_s: f64, options: &Options) -> Self {
        Self {
            cluster,
            taken: vec![0; cluster.servers().len()],
            idle: 0.0,
            now: Sample { time_s: start_s, ..Sample::default() },
            totals: Totals::default(),
            start_s,
            sample_s: options.sample_s,
            window_s: options.window_s.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]),
            series: Vec::new(),
        }
    }

    /// Advances to a later instant without changes.
    pub(super) fn advance(&mut self, to_s: f64) {
        let [from_s, until_s] = self.window_s;
        let length_s = (to_s.min(until_s) - self.now.time_s.max(from_s)).max(0.0);
        self.now.time_s = to_s;
        let totals = &mut self.totals;
        totals.capacity_s += f64::from(self.cluster.gpus()) * length_s;
        if self.now.used_machines == 0 {
            return;
        }
        totals.busy_s += length_s;
        totals.machine_s += f64::from(self.now.used_machines) * length_s;
        totals.gpu_s += f64::from(self.now.busy_gpus) * length_s;
        totals.fragmentation_s += self.now.fragmentation * length_s;
        totals.profit_s += self.now.profit_rate * length_s;
        totals.traffic_byte_s += self.now.traffic_bytes * length_s;
    }

    pub(super) fn start(&mut self, plan: &Plan, traffic_bytes: f64) {
        for (server, gpus) in plan.workers() {
            self.place(server.at(), gpus, true);
        }
        self.now.running += 1;
        self.now.busy_gpus += plan.ranks.len() as u32;
        self.now.traffic_bytes += traffic_bytes;
    }

    pub(super) fn end(&mut self, plan: &Plan, traffic_bytes: f64) {
        for (server, gpus) in plan.workers() {
            self.place(server.at(), gpus, false);
        }
        self.now.running -= 1;
        self.now.busy_gpus -= plan.ranks.len() as u32;
        self.now.traffic_bytes -= traffic_bytes;
        if self.now.running == 0 {
            // Clear rounding errors.
            (self.idle, self.now.traffic_bytes) = (0.0, 0.0);
        }
    }

    /// A job of the trace has ended.
    pub(super) fn finished(&mut self) {
        self.totals.makespan_s = self.now.time_s - self.start_s;
    }

    /// Allocates or frees GPUs of a server.
    fn place(&mut self, server: usize, gpus: u32, take: bool) {
        let all = self.cluster.servers()[server].gpus;
        let idle =
            |taken: u32| if taken == 0 { 0.0 } else { f64::from(all - taken) / f64::from(all) };
        let before = self.taken[server];
        let after = if take { before + gpus } else { before - gpus };
        self.taken[server] = after;
        self.idle += idle(after) - idle(before);
        match (before, after) {
            (0, _) => self.now.used_machines += 1,
            (_, 0) => self.now.used_machines -= 1,
            _ => {}
        }
    }

    /// Closes an instant. `earning` is the GPU-hours per hour of the running jobs.
    pub(super) fn close(&mut self, waiting: usize, earning: f64, arrived: bool) {
        let machines = f64::from(self.now.used_machines);
        let mean = |sum: f64| if machines > 0.0 { sum / machines } else { 0.0 };
        self.now.waiting = waiting as u32;
        self.now.fragmentation = mean(self.idle).max(0.0);
        self.now.profit_rate = mean(earning);
        let [from_s, until_s] = self.window_s;
        if !(from_s..=until_s).contains(&self.now.time_s) {
            return;
        }
        let totals = &mut self.totals;
        totals.peak_machines = totals.peak_machines.max(self.now.used_machines);
        if arrived {
            totals.profit += self.now.profit_rate;
        }
        let Some(sample_s) = self.sample_s else { return };
        if self.series.last().is_none_or(|last| self.now.time_s - last.time_s >= sample_s) {
            self.series.push(self.now);
        }
    }

    pub(super) fn finish(self) -> (Totals, Vec<Sample>) {
        (self.totals, self.series)
    }
}
