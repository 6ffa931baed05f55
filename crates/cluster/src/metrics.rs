//! The metrics of NetPack §6.1 and Titan §V.A for a run, and their spread over several runs.

use crate::simulate::{Outcome, Reason, Record};

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
        let records = &outcome.records;
        let totals = &outcome.totals;
        let over_time = |sum_s: f64| sum_s / totals.busy_s;
        let gave_up = |wanted: bool| {
            let rejected = |reason| matches!(reason, Reason::TooLarge | Reason::Senseless);
            let count = outcome.unfinished.iter().filter(|&&(_, why)| rejected(why) == wanted);
            count.count() as f64
        };
        match self {
            Self::Finished => records.len() as f64,
            Self::Rejected => gave_up(true),
            Self::Unfinished => gave_up(false),
            Self::AverageJct => mean(records, Record::jct_s),
            Self::MedianJct => percentile(records, 0.5),
            Self::Jct90 => percentile(records, 0.9),
            Self::Jct99 => percentile(records, 0.99),
            Self::AverageWait => mean(records, Record::wait_s),
            Self::AverageRun => mean(records, Record::run_s),
            Self::Makespan => totals.makespan_s,
            Self::Efficiency => mean(records, |record| record.job.ideal_s() / record.run_s()),
            Self::EfficiencyWithWait => {
                mean(records, |record| record.job.ideal_s() / record.jct_s())
            }
            Self::UsedMachines => over_time(totals.machine_s),
            Self::PeakMachines => f64::from(totals.peak_machines),
            Self::Fragmentation => over_time(totals.fragmentation_s),
            Self::MachineHours => totals.machine_s / 3600.0,
            Self::GpuHours => totals.gpu_s / 3600.0,
            Self::Traffic => over_time(totals.traffic_byte_s),
            Self::TotalTraffic => {
                records.iter().map(|record| record.job.iterations * record.traffic_bytes).sum()
            }
            Self::Utilisation => totals.gpu_s / totals.capacity_s,
            Self::ProfitRate => over_time(totals.profit_s),
            Self::TotalProfit => totals.profit,
        }
    }
}

fn mean(records: &[Record], of: impl Fn(&Record) -> f64) -> f64 {
    records.iter().map(of).sum::<f64>() / records.len() as f64
}

/// The smallest completion time that at least the given part of the jobs does not exceed.
fn percentile(records: &[Record], part: f64) -> f64 {
    let mut times: Vec<f64> = records.iter().map(Record::jct_s).collect();
    if times.is_empty() {
        return f64::NAN;
    }
    let rank = (part * times.len() as f64).ceil() as usize;
    let at = rank.clamp(1, times.len()) - 1;
    *times.select_nth_unstable_by(at, f64::total_cmp).1
}

/// All metrics of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary([f64; Metric::ALL.len()]);

impl Summary {
    /// Evaluates a run.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        Self(Metric::ALL.map(|metric| metric.of(outcome)))
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
    use crate::job::{Job, JobId};
    use crate::plan::Plan;
    use crate::simulate::Totals;
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
        let records: Vec<_> = (1..=100).map(|n| record(n, 0.0, 0.0, f64::from(n))).collect();
        let at = |part| percentile(&records, part);
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
