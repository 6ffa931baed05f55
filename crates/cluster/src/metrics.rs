//! The metrics of NetPack §6.1 and Titan §V.A for a run, and their spread over several runs.

use crate::job::Job;
use crate::simulate::{Outcome, Reason, Record, Results, Totals};

/// A metric of a whole run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Metric {
    /// Number of jobs that finished.
    Finished,
    /// Number of jobs that are larger than the cluster or invalid.
    Rejected,
    /// Number of jobs that were not placed, or got no bandwidth.
    Unfinished,
    /// Mean job completion time over the finished jobs: from submission to end.
    AverageJct,
    /// Median job completion time.
    MedianJct,
    /// 90th percentile of the job completion time.
    Jct90,
    /// 99th percentile of the job completion time.
    Jct99,
    /// Mean waiting time of jobs.
    AverageWait,
    /// Mean run time of jobs.
    AverageRun,
    /// From the first submission to the last end.
    Makespan,
    /// Mean ratio of the jobs' speed to the speed of the same number of independent GPUs, while
    /// they run.
    Efficiency,
    /// The same ratio, including the waiting time.
    EfficiencyWithWait,
    /// Mean number of servers with a job, over the time in which there was at least one.
    UsedMachines,
    /// Maximum number of servers with a job.
    PeakMachines,
    /// Share of idle GPUs in the used servers, mean over servers and time.
    Fragmentation,
    /// Number of used servers, integrated over time.
    MachineHours,
    /// Number of allocated GPUs, integrated over time.
    GpuHours,
    /// Bytes that the running jobs send between servers in one iteration each, mean over time.
    Traffic,
    /// Total bytes sent between servers.
    TotalTraffic,
    /// Share of the GPUs that are allocated, mean over the measured time.
    Utilisation,
    /// GPU-hours of computing per hour of a used server, mean over time.
    ProfitRate,
    /// Sum of the profit rates at all arrivals.
    TotalProfit,
}

impl Metric {
    /// All metrics, in the order of a table.
    pub const ALL: [Self; 22] = [
        Self::Finished,
        Self::Rejected,
        Self::Unfinished,
        Self::AverageJct,
        Self::MedianJct,
        Self::Jct90,
        Self::Jct99,
        Self::AverageWait,
        Self::AverageRun,
        Self::Makespan,
        Self::Efficiency,
        Self::EfficiencyWithWait,
        Self::UsedMachines,
        Self::PeakMachines,
        Self::Fragmentation,
        Self::MachineHours,
        Self::GpuHours,
        Self::Traffic,
        Self::TotalTraffic,
        Self::Utilisation,
        Self::ProfitRate,
        Self::TotalProfit,
    ];

    /// The key in data files, with the unit.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Finished => "finished_jobs",
            Self::Rejected => "rejected_jobs",
            Self::Unfinished => "unfinished_jobs",
            Self::AverageJct => "average_jct_s",
            Self::MedianJct => "median_jct_s",
            Self::Jct90 => "jct_p90_s",
            Self::Jct99 => "jct_p99_s",
            Self::AverageWait => "average_wait_s",
            Self::AverageRun => "average_run_s",
            Self::Makespan => "makespan_s",
            Self::Efficiency => "distribution_efficiency",
            Self::EfficiencyWithWait => "distribution_efficiency_with_wait",
            Self::UsedMachines => "used_machines",
            Self::PeakMachines => "peak_used_machines",
            Self::Fragmentation => "fragmentation",
            Self::MachineHours => "machine_hours",
            Self::GpuHours => "gpu_hours",
            Self::Traffic => "traffic_bytes",
            Self::TotalTraffic => "total_traffic_bytes",
            Self::Utilisation => "gpu_utilisation",
            Self::ProfitRate => "profit_rate",
            Self::TotalProfit => "total_profit",
        }
    }

    /// The metric of a run; NaN if no job of the run contributes to it.
    #[must_use]
    pub fn of(self, outcome: &Outcome) -> f64 {
        Summary::of(outcome).get(self)
    }
}

/// The results of a run, added up while it goes on. It keeps one number per finished job.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tally {
    /// Completion times of the finished jobs, in seconds.
    times_s: Vec<f64>,
    wait_s: f64,
    run_s: f64,
    jct_s: f64,
    efficiency: f64,
    efficiency_with_wait: f64,
    traffic_bytes: f64,
    rejected: u64,
    unfinished: u64,
}

impl Tally {
    /// Adds a finished job.
    pub fn add(&mut self, record: &Record) {
        self.times_s.push(record.jct_s());
        self.jct_s += record.jct_s();
        self.wait_s += record.wait_s();
        self.run_s += record.run_s();
        self.efficiency += record.job.ideal_s() / record.run_s();
        self.efficiency_with_wait += record.job.ideal_s() / record.jct_s();
        self.traffic_bytes += record.job.iterations * record.traffic_bytes;
    }

    /// Adds a job that did not finish.
    pub fn add_unfinished(&mut self, reason: Reason) {
        match reason {
            Reason::TooLarge | Reason::Senseless => self.rejected += 1,
            Reason::NotPlaced | Reason::Stalled => self.unfinished += 1,
        }
    }

    /// Completion times of the finished jobs in seconds, in ascending order.
    pub fn times_s(&mut self) -> &[f64] {
        self.times_s.sort_unstable_by(f64::total_cmp);
        &self.times_s
    }

    /// The metrics of the run.
    #[must_use]
    pub fn summary(&mut self, totals: &Totals) -> Summary {
        self.times_s();
        Summary(Metric::ALL.map(|metric| self.metric(metric, totals)))
    }

    fn metric(&self, metric: Metric, totals: &Totals) -> f64 {
        let over_time = |sum_s: f64| sum_s / totals.busy_s;
        let mean = |sum: f64| sum / self.times_s.len() as f64;
        match metric {
            Metric::Finished => self.times_s.len() as f64,
            Metric::Rejected => self.rejected as f64,
            Metric::Unfinished => self.unfinished as f64,
            Metric::AverageJct => mean(self.jct_s),
            Metric::MedianJct => percentile(&self.times_s, 0.5),
            Metric::Jct90 => percentile(&self.times_s, 0.9),
            Metric::Jct99 => percentile(&self.times_s, 0.99),
            Metric::AverageWait => mean(self.wait_s),
            Metric::AverageRun => mean(self.run_s),
            Metric::Makespan => totals.makespan_s,
            Metric::Efficiency => mean(self.efficiency),
            Metric::EfficiencyWithWait => mean(self.efficiency_with_wait),
            Metric::UsedMachines => over_time(totals.machine_s),
            Metric::PeakMachines => f64::from(totals.peak_machines),
            Metric::Fragmentation => over_time(totals.fragmentation_s),
            Metric::MachineHours => totals.machine_s / 3600.0,
            Metric::GpuHours => totals.gpu_s / 3600.0,
            Metric::Traffic => over_time(totals.traffic_byte_s),
            Metric::TotalTraffic => self.traffic_bytes,
            Metric::Utilisation => totals.gpu_s / totals.capacity_s,
            Metric::ProfitRate => over_time(totals.profit_s),
            Metric::TotalProfit => totals.profit,
        }
    }
}

impl Results for Tally {
    fn finished(&mut self, record: Record) {
        self.add(&record);
    }

    fn unfinished(&mut self, _: Job, reason: Reason) {
        self.add_unfinished(reason);
    }
}

/// The smallest of some ascending times that at least the given part of them does not exceed.
fn percentile(times: &[f64], part: f64) -> f64 {
    let rank = (part * times.len() as f64).ceil() as usize;
    times.get(rank.max(1) - 1).or(times.last()).copied().unwrap_or(f64::NAN)
}

/// All metrics of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary([f64; Metric::ALL.len()]);

impl Summary {
    /// Evaluates a run.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        let mut tally = Tally::default();
        outcome.records.iter().for_each(|record| tally.add(record));
        outcome.unfinished.iter().for_each(|&(_, reason)| tally.add_unfinished(reason));
        tally.summary(&outcome.totals)
    }

    /// Returns one metric.
    #[must_use]
    pub fn get(&self, metric: Metric) -> f64 {
        self.0[metric as usize]
    }

    /// All metrics, in the order of a table.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, f64)> + '_ {
        Metric::ALL.into_iter().zip(self.0)
    }
}

/// The spread of a metric over runs with different seeds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// Number of runs.
    pub runs: usize,
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation (divided by the number of runs minus one); 0 for one run.
    pub deviation: f64,
}

impl Spread {
    /// The spread of these values; NaN if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let runs = values.len();
        let mean = values.iter().sum::<f64>() / runs as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if runs > 1 { (squares / (runs - 1) as f64).sqrt() } else { 0.0 };
        Self { runs, mean, deviation }
    }

    /// The spread of one metric over several runs.
    #[must_use]
    pub fn of_metric(summaries: &[Summary], metric: Metric) -> Self {
        Self::of(&summaries.iter().map(|summary| summary.get(metric)).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobId;
    use crate::plan::Plan;
    use crate::topology::ServerIndex;

    /// A job with 10 s of computing.
    fn record(id: u32, submit_s: f64, start_s: f64, end_s: f64) -> Record {
        let job = Job {
            id: JobId(id),
            submit_s,
            gpus: 2,
            iterations: 5.0,
            compute_s: 2.0,
            gradient_bytes: 1e6,
            value: 1.0,
        };
        let plan = Plan::on_one(ServerIndex(0), 2);
        Record { job, plan, start_s, end_s, traffic_bytes: 3e6 }
    }

    fn outcome() -> Outcome {
        let records = vec![record(0, 0.0, 0.0, 10.0), record(1, 5.0, 10.0, 30.0)];
        let rejected = (record(2, 0.0, 0.0, 0.0).job, Reason::TooLarge);
        let stalled = (record(3, 0.0, 0.0, 0.0).job, Reason::Stalled);
        let totals = Totals {
            makespan_s: 30.0,
            capacity_s: 28_800.0,
            busy_s: 20.0,
            machine_s: 40.0,
            gpu_s: 7200.0,
            fragmentation_s: 10.0,
            profit_s: 5.0,
            traffic_byte_s: 100.0,
            profit: 8.0,
            peak_machines: 3,
            rounds: 2,
            settlings: 0,
        };
        Outcome { records, unfinished: vec![rejected, stalled], totals, series: Vec::new() }
    }

    #[test]
    fn every_measure_of_a_small_run() {
        let summary = Summary::of(&outcome());
        for (metric, expected) in [
            (Metric::Finished, 2.0),
            (Metric::Rejected, 1.0),
            (Metric::Unfinished, 1.0),
            (Metric::AverageJct, 17.5),
            (Metric::MedianJct, 10.0),
            (Metric::Jct90, 25.0),
            (Metric::Jct99, 25.0),
            (Metric::AverageWait, 2.5),
            (Metric::AverageRun, 15.0),
            (Metric::Makespan, 30.0),
            (Metric::Efficiency, 0.75),
            (Metric::EfficiencyWithWait, 0.7),
            (Metric::UsedMachines, 2.0),
            (Metric::PeakMachines, 3.0),
            (Metric::Fragmentation, 0.5),
            (Metric::MachineHours, 40.0 / 3600.0),
            (Metric::GpuHours, 2.0),
            (Metric::Traffic, 5.0),
            (Metric::TotalTraffic, 3e7),
            (Metric::Utilisation, 0.25),
            (Metric::ProfitRate, 0.25),
            (Metric::TotalProfit, 8.0),
        ] {
            assert!((summary.get(metric) - expected).abs() < 1e-12, "{}", metric.key());
        }
        let keys: std::collections::BTreeSet<_> = Metric::ALL.iter().map(|m| m.key()).collect();
        assert_eq!(keys.len(), Metric::ALL.len());
        for (at, metric) in Metric::ALL.into_iter().enumerate() {
            assert_eq!(metric as usize, at, "the table is in the order of the measures");
        }
    }

    #[test]
    fn percentiles_are_completion_times_of_jobs() {
        let times: Vec<f64> = (1..=100).map(f64::from).collect();
        let at = |part| percentile(&times, part);
        assert_eq!((at(0.5), at(0.9), at(0.99), at(0.0), at(1.0)), (50.0, 90.0, 99.0, 1.0, 100.0));
        assert!(percentile(&[], 0.5).is_nan());
    }

    #[test]
    fn spread_over_seeds() {
        let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((spread.runs, spread.mean), (8, 5.0));
        assert!((spread.deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(Spread::of(&[3.0]).deviation, 0.0);
        let summaries = [Summary::of(&outcome()); 3];
        assert_eq!(Spread::of_metric(&summaries, Metric::AverageJct).mean, 17.5);
    }
}
