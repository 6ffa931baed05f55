//! `tributary run`: a job file from start to report.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::iter::successors;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use tokio::sync::mpsc::UnboundedReceiver;
use tributary_controller::jobs::Controller;
use tributary_controller::plan::Placement;
use tributary_controller::services;
use tributary_jobfile::{Job, Protocol, Scenario, Workload};
use tributary_p4::Architecture;
use tributary_wire::{Epoch, JobId};

use crate::agent::{Event, WorkerReport};
use crate::args::{self, RunArgs};
use crate::commands::{ps, reminder};
use crate::fabric::{Bmv2, Fabric, Note, Stopped};
use crate::progress::Bars;
use crate::report::{
    AgentReport, Counted, JobReport, RunReport, SegmentReport, ServerReport, SwitchReport,
    aggregator_bits,
};
use crate::settings;
use crate::workload::{self, Rule, need};

/// How often a run looks whether it was interrupted.
const TICK: Duration = Duration::from_millis(50);

/// How often it looks whether a part is stopped.
const LOOK: Duration = Duration::from_millis(250);

/// How long parameter servers have for their reports.
const REPORT_TIME: Duration = Duration::from_secs(5);

/// Runs a job file and prints its report.
///
/// # Errors
/// One line that says what went wrong; everything is cleaned up then.
pub(crate) fn run(args: &RunArgs) -> Result<()> {
    // Before the work, so that none is done in vain.
    let open = |path: &PathBuf| {
        File::create(path).with_context(|| format!("cannot write the report to {}", path.display()))
    };
    let json = args.json.as_ref().map(open).transpose()?;
    let report = execute(args)?;
    if let (Some(path), Some(mut file)) = (&args.json, json) {
        let json = serde_json::to_string_pretty(&report).expect("reports are plain data");
        writeln!(file, "{json}")
            .with_context(|| format!("cannot write the report to {}", path.display()))?;
    }
    crate::print(&report.to_text())
}

/// Runs a job file.
///
/// # Errors
/// One line that says what went wrong; everything is cleaned up then.
pub(crate) fn execute(args: &RunArgs) -> Result<RunReport> {
    ensure!(
        args.io == args::Io::Packet || args.fabric == args::Fabric::Netns,
        "--io xdp: the memory fabric has no network interfaces; add `--fabric netns`"
    );
    if args.switch == args::SwitchKind::Bmv2 {
        ensure!(
            args.engine == args::Engine::Automatic,
            "--engine {}: BMv2 has its own; leave --engine or --switch out",
            args.engine
        );
        ensure!(
            args.fabric == args::Fabric::Netns,
            "--switch bmv2 needs --fabric netns: BMv2's ports are network interfaces"
        );
        ensure!(
            args.arch == Architecture::V1model,
            "--switch bmv2 runs programs for v1model, not for {}: leave --switch out",
            args.arch
        );
        // Missing programs are said before anything is done.
        Bmv2::find()?;
    }
    let mut scenario = settings::load_with(&args.job, args.seed, args.switch, args.arch)?;
    // The network is new, so no packets of earlier runs are in it.
    let epochs = successors(Some(Epoch::FIRST), |epoch| epoch.next());
    scenario.jobs.iter_mut().zip(epochs).for_each(|(job, epoch)| job.epoch = epoch);
    let scenario = Arc::new(scenario);
    need::check_run(&scenario, args.fabric == args::Fabric::Netns)?;
    for job in &scenario.jobs {
        // What is wrong with a workload or too large for the switches is said before anything is
        // started.
        workload::of(job, 0).with_context(|| format!("job {}", job.name))?;
        settings::assignment(&scenario, job)?;
    }
    let compiled = settings::compile_for(&scenario, args.arch, args.p4.as_deref())?;
    let aggregator_bits = aggregator_bits(&compiled.program, scenario.switch.pool);
    let pipeline =
        settings::pipeline(&scenario, args.p4.as_deref(), compiled.pipeline, args.switch)?;
    if args.fabric == args::Fabric::Netns {
        // Before there is a second thread.
        tributary_testbed::enter_user_namespace_if_needed()?;
    }
    let stop = settings::stop_flag()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start threads")?;
    runtime.block_on(async {
        let mut fabric = Fabric::start(args.fabric, &scenario, args).await?;
        let switches = fabric.switches();
        let controller = Controller::connect(&scenario.topology, switches, &pipeline).await?;
        let run =
            Run { args, scenario: &scenario, aggregator_bits, controller, interrupted: &stop };
        run.execute(&mut fabric).await
    })
}

struct Run<'a> {
    args: &'a RunArgs,
    scenario: &'a Scenario,
    /// Memory that an aggregator takes.
    aggregator_bits: u64,
    controller: Controller,
    interrupted: &'a Arc<AtomicBool>,
}

/// Watches for parts that live and do nothing.
#[derive(Default)]
struct Watch {
    /// When it looked last.
    looked: Option<Instant>,
    /// The part that was found first.
    found: Option<Found>,
}

/// A part that does nothing.
struct Found {
    part: Stopped,
    since: Instant,
}

impl Found {
    fn error(&self) -> anyhow::Error {
        let Stopped { what, process } = &self.part;
        let waited = self.since.elapsed().as_secs_f64();
        anyhow!(
            "{what} was not heard of for {waited:.1} s: its process {process} is stopped; continue \
             it with `kill -CONT {process}`"
        )
    }
}

impl Watch {
    /// Looks, if it did not just now.
    fn look(&mut self, fabric: &Fabric) -> Option<&Found> {
        let now = Instant::now();
        if self.looked.is_none_or(|looked| now - looked >= LOOK) {
            self.looked = Some(now);
            let stopped = fabric.stopped();
            self.found.take_if(|found| !stopped.contains(&found.part));
            if self.found.is_none() {
                self.found = stopped.into_iter().next().map(|part| Found { part, since: now });
            }
        }
        self.found.as_ref()
    }
}

/// What came in of the endpoints.
struct Gathered {
    workers: Vec<Vec<Option<WorkerReport>>>,
    servers: BTreeMap<u16, ServerReport>,
    /// Of agents that have a host of their own.
    agents: BTreeMap<u16, AgentReport>,
}

impl Gathered {
    fn agent(&mut self, event: reminder::Event) {
        if let reminder::Event::Done { agents } = event {
            self.agents.extend(agents);
        }
    }
}

impl Run<'_> {
    async fn execute(self, fabric: &mut Fabric) -> Result<RunReport> {
        let scenario = self.scenario;
        for job in &scenario.jobs {
            let assignment = settings::assignment(scenario, job)?;
            self.controller.admit(&Placement::from(job).assigned(assignment)).await?;
        }
        let (notes, mut inbox) = tokio::sync::mpsc::unbounded_channel();
        let stop = Arc::new(AtomicBool::new(false));
        let mut bars = Bars::new(scenario);
        let mut gathered = Gathered {
            workers: scenario.jobs.iter().map(|job| vec![None; job.workers.len()]).collect(),
            servers: BTreeMap::new(),
            agents: BTreeMap::new(),
        };
        let start = Instant::now();
        let outcome = match fabric.start_endpoints(&notes, &stop) {
            Ok(()) => self.follow(fabric, &mut inbox, &mut bars, &mut gathered).await,
            Err(error) => Err(error),
        };
        let seconds = start.elapsed().as_secs_f64();
        let cpu = fabric.cpu_times();
        bars.finish();
        // The endpoints are ended in any case, and the switches are left clean.
        tokio::task::block_in_place(|| fabric.stop_endpoints());
        if outcome.is_ok() {
            self.gather_servers(&mut inbox, &mut gathered).await;
        }
        let cleaned = match fabric.switches_run() {
            true => self.clean().await,
            // There is nothing to clean, and who waits for an answer waits in vain.
            false => Err(anyhow!("a switch has ended or is stopped")),
        };
        // Before the switches end, so that nobody misses them.
        let Self { args, scenario, aggregator_bits, controller, .. } = self;
        drop(controller);
        let queues = tokio::task::block_in_place(|| fabric.stop_switches());
        outcome?;
        let (mut switches, counted) = cleaned?;
        for ((switch, queue), cpu) in switches.iter_mut().zip(queues).zip(cpu) {
            switch.longest_queue = queue.map(|queue| queue.longest);
            switch.queue_drops = queue.map(|queue| queue.drops);
            switch.cpu_seconds = cpu.map(|cpu| cpu.as_secs_f64());
            switch.memory_bytes = (u64::from(scenario.switch.pool) * aggregator_bits).div_ceil(8);
        }
        let jobs = job_reports(scenario, aggregator_bits, gathered, &counted)?;
        Ok(RunReport {
            name: scenario.name.clone(),
            fabric: match args.fabric {
                args::Fabric::Memory => "memory",
                args::Fabric::Netns => "netns",
            },
            switch: match args.switch {
                args::SwitchKind::Embedded => "embedded",
                args::SwitchKind::Bmv2 => "bmv2",
            },
            seed: scenario.seed,
            seconds,
            jobs,
            switches,
        })
    }

    /// Until all workers are done.
    async fn follow(
        &self,
        fabric: &Fabric,
        inbox: &mut UnboundedReceiver<Note>,
        bars: &mut Bars,
        gathered: &mut Gathered,
    ) -> Result<()> {
        let mut watch = Watch::default();
        let outcome = self.follow_notes(fabric, &mut watch, inbox, bars, gathered).await;
        // The first part to give up may have waited for one that is stopped.
        match (outcome, watch.look(fabric)) {
            (Err(_), Some(found)) if !self.interrupted.load(Ordering::Relaxed) => {
                Err(found.error())
            }
            (outcome, _) => outcome,
        }
    }

    async fn follow_notes(
        &self,
        fabric: &Fabric,
        watch: &mut Watch,
        inbox: &mut UnboundedReceiver<Note>,
        bars: &mut Bars,
        gathered: &mut Gathered,
    ) -> Result<()> {
        let deadline = Instant::now() + self.scenario.timeout;
        let mut left: usize = self.scenario.jobs.iter().map(|job| job.workers.len()).sum();
        while left > 0 {
            if self.interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            if let Some(found) = watch.look(fabric)
                && found.since.elapsed() >= self.scenario.worker_timeout
            {
                return Err(found.error());
            }
            if Instant::now() >= deadline {
                bail!(
                    "the run took longer than its timeout of {:?}; raise `timeout` in the job file \
                     if it needs longer",
                    self.scenario.timeout
                );
            }
            let Ok(note) = tokio::time::timeout(TICK, inbox.recv()).await else { continue };
            let Some(note) = note else { bail!("all endpoints have ended") };
            match note {
                Note::Worker { job, worker, event } => match event {
                    // Processes of `tributary run` receive their epoch and never wait to join.
                    Event::Waiting { .. } => {}
                    Event::Round { done, of, note } => {
                        bars.round(job, worker, done, of, note.as_deref());
                    }
                    Event::Done(report) => {
                        gathered.workers[job][worker] = Some(*report);
                        left -= 1;
                    }
                    Event::Failed { reason } => {
                        let name = &self.scenario.jobs[job].name;
                        bail!("job {name}: worker {worker} failed: {reason}");
                    }
                },
                Note::Servers(event) => self.hear(event, gathered)?,
                Note::Agent(event) => gathered.agent(event),
                Note::Broken(what) => bail!(what),
            }
        }
        Ok(())
    }

    fn hear(&self, event: ps::Event, gathered: &mut Gathered) -> Result<()> {
        match event {
            ps::Event::Ready => Ok(()),
            ps::Event::Done { reports } => {
                gathered.servers.extend(reports);
                Ok(())
            }
            ps::Event::Stalled { job, missing, seconds, quiet } => {
                let name = self
                    .scenario
                    .jobs
                    .iter()
                    .find(|known| known.id.get() == job)
                    .map_or("?", |job| job.name.as_str());
                if quiet {
                    bail!(
                        "job {name}: nothing has come to its parameter server for {seconds:.1} s, \
                         from no worker (worker_timeout in the job file)"
                    );
                }
                let workers: Vec<String> = missing.iter().map(u8::to_string).collect();
                Err(anyhow!(
                    "job {name}: worker {} was not heard of for {seconds:.1} s while others wait \
                     (worker_timeout in the job file)",
                    workers.join(", ")
                ))
            }
        }
    }

    /// The parameter servers report when they end.
    async fn gather_servers(&self, inbox: &mut UnboundedReceiver<Note>, gathered: &mut Gathered) {
        let deadline = Instant::now() + REPORT_TIME;
        let jobs = &self.scenario.jobs;
        let own_host = |job: &&Job| job.agent.is_some() && job.agent != job.ps;
        let servers = jobs.iter().filter(|job| job.ps.is_some()).count();
        let agents = jobs.iter().filter(own_host).count();
        while gathered.servers.len() < servers || gathered.agents.len() < agents {
            let left = deadline.saturating_duration_since(Instant::now());
            match tokio::time::timeout(left, inbox.recv()).await {
                Ok(Some(Note::Servers(ps::Event::Done { reports }))) => {
                    gathered.servers.extend(reports);
                }
                Ok(Some(Note::Agent(event))) => gathered.agent(event),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Reads what the switches counted, each for all jobs and all for each job, and removes the jobs
    /// from them.
    async fn clean(&self) -> Result<(Vec<SwitchReport>, Vec<Counted>)> {
        let topology = &self.scenario.topology;
        let mut reports: Vec<SwitchReport> = topology
            .switches
            .iter()
            .map(|switch| SwitchReport { name: switch.name.clone(), ..SwitchReport::default() })
            .collect();
        let mut of_jobs = Vec::with_capacity(self.scenario.jobs.len());
        let mut failure = None;
        for job in &self.scenario.jobs {
            match self.clean_job(job.id, &mut reports).await {
                Ok(counted) => of_jobs.push(counted),
                Err(error) => drop(failure.get_or_insert(error)),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok((reports, of_jobs)),
        }
    }

    async fn clean_job(&self, job: JobId, reports: &mut [SwitchReport]) -> Result<Counted> {
        // The job is removed whether or not its counters can be read.
        let counted = self.controller.outcomes(job).await;
        let evictions = self.controller.evictions(job).await;
        for (switch, freed) in self.controller.remove(job).await? {
            reports[switch.0].swept += u64::from(freed);
        }
        let mut all = Counted::default();
        for (switch, outcomes) in counted? {
            all.outcomes += outcomes;
            for (outcome, count) in outcomes.iter() {
                *reports[switch.0].outcomes.entry(outcome.name()).or_default() += count.packets;
            }
        }
        for count in evictions?.into_values() {
            all.evictions += count;
        }
        Ok(all)
    }
}

fn job_reports(
    scenario: &Scenario,
    aggregator_bits: u64,
    gathered: Gathered,
    counted: &[Counted],
) -> Result<Vec<JobReport>> {
    let jobs = scenario.jobs.iter().zip(gathered.workers).zip(counted);
    jobs.map(|((job, workers), counted)| {
        let workers: Option<Vec<WorkerReport>> = workers.into_iter().collect();
        let workers = workers.context("a worker did not report")?;
        for (index, worker) in workers.iter().enumerate() {
            ensure!(
                worker.verified == worker.values,
                "job {}: only {} of the {} values of worker {index} could be compared",
                job.name,
                worker.verified,
                worker.values
            );
        }
        let server = gathered.servers.get(&job.id.get()).copied();
        ensure!(
            server.is_some() == job.ps.is_some(),
            "the parameter server of job {} did not report",
            job.name
        );
        let agent = gathered.agents.get(&job.id.get()).copied();
        let server = server.map(|server| ServerReport { agent: agent.or(server.agent), ..server });
        let segment = if matches!(job.protocol, Protocol::P4inc | Protocol::SwitchMl) {
            let assignment = settings::assignment(scenario, job)?;
            let units = services::units(&scenario.topology, &job.into()).len();
            Some(SegmentReport::new(assignment, units, aggregator_bits, &workers, counted))
        } else {
            None
        };
        let mut report = JobReport::new(job, server, workers, counted);
        report.segment = segment;
        check_training(scenario, job, &mut report)?;
        Ok(report)
    })
    .collect()
}

/// Final weights: the same at all workers, and the same as with the sums taken in one process.
fn check_training(scenario: &Scenario, job: &Job, report: &mut JobReport) -> Result<()> {
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
    let rule = Rule::of(job, scenario.switch.values_per_packet);
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
