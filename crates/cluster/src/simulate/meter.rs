//! What is measured while a simulation runs.

use crate::plan::Plan;
use crate::topology::Cluster;

/// A cluster at one instant, after all that happens then has happened.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sample {
    /// When, seconds from the start of the trace.
    pub time_s: f64,
    /// Jobs that run.
    pub running: u32,
    /// Jobs that wait.
    pub waiting: u32,
    /// Servers with at least one GPU taken (Titan §V.A, number of used machines).
    pub used_machines: u32,
    /// GPUs taken.
    pub busy_gpus: u32,
    /// Idle GPUs over all GPUs of a server, mean over the used servers; 0 if there are none (Titan
    /// §V.A, machine fragmentation rate).
    pub fragmentation: f64,
    /// What the running jobs send between servers in an iteration of each, bytes (Titan §V.B, exp.
    /// 3).
    pub traffic_bytes: f64,
    /// What the running jobs earn an hour, GPU-hours of computing, over the used machines (Titan
    /// §V.A, average profit rate); 0 if there are none.
    pub profit_rate: f64,
}

/// What is measured over a whole run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Totals {
    /// From the first submission to the last end, seconds.
    pub makespan_s: f64,
    /// Time in which some server was used, seconds.
    pub busy_s: f64,
    /// Used machines over time, seconds.
    pub machine_s: f64,
    /// GPUs taken over time, seconds.
    pub gpu_s: f64,
    /// Fragmentation over time, seconds; divided by `busy_s` it is the average.
    pub fragmentation_s: f64,
    /// Profit rate over time, seconds; divided by `busy_s` it is the average.
    pub profit_s: f64,
    /// Traffic of an iteration over time, byte-seconds; divided by `busy_s` it is the average.
    pub traffic_byte_s: f64,
    /// Profit rates of all instants at which a job arrived, added up (Titan §V.B, exp. 4).
    pub profit: f64,
    /// Most servers that were used at once.
    pub peak_machines: u32,
    /// Rounds held.
    pub rounds: u64,
    /// Times that the network's steady state was asked for anew.
    pub settlings: u64,
}

/// Follows which GPUs are taken and adds up.
#[derive(Debug)]
pub(super) struct Meter<'c> {
    cluster: &'c Cluster,
    taken: Vec<u32>,
    /// Idle over all GPUs, added up over the used servers.
    idle: f64,
    pub(super) now: Sample,
    pub(super) totals: Totals,
    start_s: f64,
    sample_s: Option<f64>,
    series: Vec<Sample>,
}

impl<'c> Meter<'c> {
    pub(super) fn new(cluster: &'c Cluster, start_s: f64, sample_s: Option<f64>) -> Self {
        Self {
            cluster,
            taken: vec![0; cluster.servers().len()],
            idle: 0.0,
            now: Sample { time_s: start_s, ..Sample::default() },
            totals: Totals::default(),
            start_s,
            sample_s,
            series: Vec::new(),
        }
    }

    /// Goes on to a later instant with all as it is.
    pub(super) fn advance(&mut self, to_s: f64) {
        let length_s = to_s - self.now.time_s;
        self.now.time_s = to_s;
        if self.now.used_machines == 0 {
            return;
        }
        let totals = &mut self.totals;
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
        self.totals.makespan_s = self.now.time_s - self.start_s;
        if self.now.running == 0 {
            // Whatever rounding left behind.
            (self.idle, self.now.traffic_bytes) = (0.0, 0.0);
        }
    }

    /// Takes or gives back GPUs of a server.
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

    /// Closes an instant: `earning` is what the running jobs earn an hour, GPU-hours.
    pub(super) fn close(&mut self, waiting: usize, earning: f64, arrived: bool) {
        let machines = f64::from(self.now.used_machines);
        let mean = |sum: f64| if machines > 0.0 { sum / machines } else { 0.0 };
        self.now.waiting = waiting as u32;
        self.now.fragmentation = mean(self.idle).max(0.0);
        self.now.profit_rate = mean(earning);
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
