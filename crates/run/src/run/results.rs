//! The reports of the endpoints: gathered, checked, and put together for each job.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Add as _;

use anyhow::{Context as _, Result, ensure};
use tributary_model::{JobSpec, Scenario, Workload, services};
use tributary_protocol::esa::agent::Stats as AgentStats;
use tributary_ps::report::ServerReport;
use tributary_worker::rounds::WorkerReport;
use tributary_worker::workload::{self, Rule};

use crate::fabric::Counted;
use crate::report::{JobReport, SegmentReport, findings};

use super::Run;

/// The reports of the endpoints so far.
pub(super) struct Gathered {
    /// By the index of each job's first lane, and by worker.
    pub(super) workers: Vec<Vec<Option<WorkerReport>>>,
    servers: BTreeMap<u16, ServerReport>,
    /// Reports of agents on hosts of their own.
    agents: BTreeMap<u16, AgentStats>,
    /// Workers whose processes have died, and without which their jobs go on.
    pub(super) lost: BTreeSet<(usize, usize)>,
    /// What was said about jobs that go on.
    pub(super) losses: BTreeSet<(usize, String)>,
}

impl Gathered {
    /// The results of these jobs before any report.
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self {
            workers: scenario.jobs.iter().map(|job| vec![None; job.workers.len()]).collect(),
            servers: BTreeMap::new(),
            agents: BTreeMap::new(),
            lost: BTreeSet::new(),
            losses: BTreeSet::new(),
        }
    }

    /// Adds reports of servers and agents: of each run, if a job goes on in another one.
    pub(super) fn add(
        &mut self,
        servers: Vec<(u16, ServerReport)>,
        agents: Vec<(u16, AgentStats)>,
    ) {
        for (job, report) in servers {
            let before = self.servers.remove(&job);
            let all = before.map_or(report, |before| before + report);
            self.servers.insert(job, all);
        }
        for (job, stats) in agents {
            *self.agents.entry(job).or_default() += stats;
        }
    }
}

impl Run<'_> {
    /// The report of each job of the file, with all of its lanes.
    pub(super) fn job_reports(
        &self,
        mut gathered: Gathered,
        counted: &[Counted],
    ) -> Result<Vec<JobReport>> {
        let scenario = self.scenario();
        let jobs = scenario.whole_jobs().map(|(position, job)| {
            let lanes = scenario.lanes(position);
            let counted: Counted = counted[lanes.clone()].iter().copied().sum();
            let workers = std::mem::take(&mut gathered.workers[position]);
            let there = workers.into_iter().enumerate();
            let there = there.filter(|(worker, _)| !gathered.lost.contains(&(position, *worker)));
            let (indices, workers): (Vec<usize>, Vec<Option<WorkerReport>>) = there.unzip();
            let workers: Option<Vec<WorkerReport>> = workers.into_iter().collect();
            let workers = workers.context("a worker did not report")?;
            refuse_different(job, &indices, &workers)?;
            refuse_unverified(job, &workers)?;
            let servers = scenario.jobs[lanes.clone()].iter().filter_map(|lane| {
                let server = gathered.servers.get(&lane.id.get())?;
                let agent = gathered.agents.get(&lane.id.get()).copied().or(server.agent);
                Some(ServerReport { agent, ..*server })
            });
            let servers: Vec<ServerReport> = servers.collect();
            let expected = if job.ps.is_some() { lanes.len() } else { 0 };
            ensure!(
                servers.len() == expected,
                "the parameter server of job {} did not report",
                job.name
            );
            let server = servers.into_iter().reduce(ServerReport::add);
            // The control loop gives jobs other segments as they move.
            let fixed = scenario.orchestration.is_none();
            let segment = if fixed && job.protocol.has_segments() {
                let placement = self.deployment.placement(position);
                let units = services::units(&scenario.network.topology, &placement).len();
                let assignments = lanes.map(|lane| self.deployment.assignment(lane));
                Some(SegmentReport::new(
                    &assignments.collect::<Vec<_>>(),
                    units,
                    self.aggregator_bits,
                    &workers,
                    &counted,
                ))
            } else {
                None
            };
            let mut report = JobReport::new(job, server, workers, &counted);
            report.segment = segment;
            report.findings = findings(scenario, job, &indices, &report.workers);
            // Among the reports, those of lost workers are missing.
            if let Some(lost) = &mut report.lost {
                lost.worker = indices[lost.worker];
            }
            let answers = server.and_then(|server| server.agent).unwrap_or_default().answers;
            let warning = report.lost.and_then(|lost| lost.warning(scenario, &answers));
            report.warnings.extend(warning);
            check_training(scenario, job, &mut report)?;
            Ok(report)
        });
        jobs.collect()
    }
}

/// Checks that the final weights are equal at all workers, and to those of a training in one
/// process.
fn check_training(scenario: &Scenario, job: &JobSpec, report: &mut JobReport) -> Result<()> {
    let (Workload::Digits(digits), Some(training)) = (&job.workload, &report.training) else {
        return Ok(());
    };
    let others = report.workers.iter().filter_map(|worker| worker.training.as_ref());
    for (worker, other) in others.enumerate() {
        ensure!(
            other.weights == training.weights,
            "job {}: the final weights of worker {worker} differ from those of worker 0",
            job.name
        );
    }
    let rule = Rule::of(job, scenario.network.switch.values_per_packet);
    let reference = workload::reference_digest(digits, job.workers.len(), training.epochs, rule)?;
    ensure!(
        reference == training.weights,
        "job {}: the final weights {} differ from those of the same training in one process, \
         {reference}",
        job.name,
        training.weights
    );
    ensure!(
        training.test_accuracy >= digits.target,
        "job {}: {:.1} % of the test images are recognised, less than the target of {:.1} %",
        job.name,
        100.0 * training.test_accuracy,
        100.0 * digits.target
    );
    report.matches_reference = Some(true);
    Ok(())
}

/// Refuses sums that differ between the workers of a job that goes on.
fn refuse_different(job: &JobSpec, indices: &[usize], workers: &[WorkerReport]) -> Result<()> {
    let Some(first) = workers.first() else { return Ok(()) };
    for (index, worker) in indices.iter().zip(workers) {
        ensure!(
            worker.digest == first.digest && worker.losses == first.losses,
            "job {}: the sums of worker {index} differ from those of worker {}: please report this",
            job.name,
            indices[0]
        );
    }
    Ok(())
}

/// Refuses results that the workers could not compare: each worker all of its own, or all workers
/// together every value of a sum.
fn refuse_unverified(job: &JobSpec, workers: &[WorkerReport]) -> Result<()> {
    if job.workload.shares_verification() {
        let verified: u64 = workers.iter().map(|worker| worker.verified).sum();
        let values = workers.first().map_or(0, |worker| worker.values);
        ensure!(
            verified == values,
            "job {}: only {verified} of the {values} values of the sums could be compared",
            job.name
        );
        return Ok(());
    }
    for (index, worker) in workers.iter().enumerate() {
        ensure!(
            worker.verified == worker.values,
            "job {}: only {} of the {} values of worker {index} could be compared",
            job.name,
            worker.verified,
            worker.values
        );
    }
    Ok(())
}
