//! What is wrong with a run while it lasts: the numbers that the rules need, and what they have found.

use std::collections::BTreeSet;
use std::time::Duration;

use tributary_model::{End, Scenario};
use tributary_worker::measured::Measured;

use crate::fabric::{Crossings, Fabric};
use crate::findings::{WorkerNow, busy_processor, late_workers, lateness, lossy_links, small_pool};
use crate::live::model::{Finding, Rule};

/// In real time, findings are told from then on: what happens while parts start is no fault.
const BEGIN: Duration = Duration::from_secs(5);

/// Time between two looks, in real time.
const INTERVAL: Duration = Duration::from_millis(500);

/// A job of the file.
struct Job {
    name: String,
    /// Names of the workers' hosts.
    hosts: Vec<String>,
    measured: Vec<Measured>,
    /// Whether its workers can be compared.
    compared: bool,
}

/// The numbers of a run, and what is wrong by them.
pub(crate) struct Diagnosis {
    jobs: Vec<Job>,
    /// Position among the jobs, by the index of a job or of a lane.
    positions: Vec<usize>,
    pool: u32,
    /// Names of the ends of each link.
    links: Vec<[String; 2]>,
    crossings: Crossings,
    /// The part of the time for which workers wait for a core, if that is known.
    waits: Option<f64>,
    findings: Vec<Finding>,
    told: BTreeSet<(Rule, Option<usize>, Option<usize>)>,
    /// When it looks next.
    next: Duration,
}

impl Diagnosis {
    /// Of a scenario that is about to run.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let topology = &scenario.network.topology;
        let mut positions = vec![0; scenario.jobs.len()];
        let jobs = scenario.whole_jobs().enumerate().map(|(position, (first, job))| {
            scenario.lanes(first).for_each(|lane| positions[lane] = position);
            let hosts = job.workers.iter().map(|&host| topology.host(host).name.clone());
            Job {
                name: job.name.clone(),
                hosts: hosts.collect(),
                measured: vec![Measured::default(); job.workers.len()],
                compared: !job.on_death.goes_on(),
            }
        });
        let jobs = jobs.collect();
        let name = |end| match end {
            End::Host(host) => topology.host(host).name.clone(),
            End::Switch(switch, _) => topology.switch(switch).name.clone(),
        };
        let links = topology.links[..topology.fixed_links()].iter();
        Self {
            jobs,
            positions,
            pool: scenario.network.switch.pool,
            links: links.map(|link| link.ends.map(name)).collect(),
            crossings: Crossings::new(),
            waits: None,
            findings: Vec::new(),
            told: BTreeSet::new(),
            next: Duration::ZERO,
        }
    }

    /// A worker of the job with this index has finished a round.
    pub(crate) fn round(&mut self, job: usize, worker: usize, measured: Measured) {
        self.jobs[self.positions[job]].measured[worker] = measured;
    }

    /// Looks at the numbers while the endpoints run, if it is time to.
    pub(crate) async fn look(&mut self, fabric: &impl Fabric, is_watched: bool) {
        let now = fabric.elapsed();
        let begin = if is_watched { Duration::ZERO } else { BEGIN };
        if now < self.next.max(begin) {
            return;
        }
        self.next = now + if fabric.is_real() { INTERVAL } else { Duration::ZERO };
        if let Some((waited, workers)) = fabric.core_waits().filter(|_| now >= BEGIN) {
            let of = now.as_secs_f64() * workers.max(1) as f64;
            self.waits = Some(waited.as_secs_f64() / of);
        }
        self.look_once_more(fabric.crossings().await);
    }

    /// Looks at the numbers after the endpoints have ended.
    pub(crate) fn look_once_more(&mut self, crossings: Crossings) {
        self.crossings = crossings;
        let jobs = self.jobs.iter().enumerate().flat_map(|(position, job)| {
            let workers = job.workers();
            let late = late_workers(position, &workers).filter(|_| job.compared);
            late.into_iter().chain(small_pool(position, &workers, self.pool))
        });
        let links = lossy_links(&self.links, &self.crossings);
        let processor = self.waits.and_then(busy_processor);
        self.findings = links.into_iter().chain(jobs).chain(processor).collect();
    }

    /// What is wrong now.
    pub(crate) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// What is wrong with the network or the machine, one line each.
    pub(crate) fn of_run(&self) -> Vec<String> {
        let of_run = self.findings.iter().filter(|finding| finding.job.is_none());
        of_run.map(|finding| finding.text.clone()).collect()
    }

    /// What was not told before, and is to be told at this time: whole lines, with the positions of their jobs.
    pub(crate) fn fresh(&mut self, now: Duration) -> Vec<(Option<usize>, String)> {
        if now < BEGIN {
            return Vec::new();
        }
        let told = &mut self.told;
        let is_fresh = |it: &&Finding| told.insert((it.rule, it.job, it.link));
        let fresh: Vec<&Finding> = self.findings.iter().filter(is_fresh).collect();
        let line = |finding: &Finding| match finding.job {
            Some(job) => (Some(job), format!("{}: {}", self.jobs[job].name, finding.text)),
            None => (None, finding.text.clone()),
        };
        fresh.into_iter().map(line).collect()
    }

    /// Frames that each direction of a link has lost.
    pub(crate) fn lost(&self, link: usize) -> [u64; 2] {
        let ways = self.crossings.get(link).copied().unwrap_or_default();
        ways.map(|way| way.map_or(0, |crossing| crossing.lost()))
    }

    /// What the workers of the job at this position have sent again, and how late they begin a round, in
    /// microseconds.
    pub(crate) fn workers(&self, position: usize) -> Vec<(u64, u64)> {
        let job = &self.jobs[position];
        let mut late = if job.compared { lateness(&job.workers()) } else { Vec::new() };
        late.resize(job.measured.len(), 0.0);
        let resent = job.measured.iter().map(|measured| measured.resent);
        resent.zip(late.into_iter().map(|late| (1e6 * late).round() as u64)).collect()
    }
}

impl Job {
    fn workers(&self) -> Vec<WorkerNow<'_>> {
        let worker = |(index, (host, &measured))| WorkerNow { index, host, measured };
        let all = self.hosts.iter().map(String::as_str).zip(&self.measured);
        all.enumerate().map(worker).collect()
    }
}
