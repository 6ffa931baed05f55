//! A job file from start to report: the same steps on every fabric.

mod notes;
mod results;
mod stopped;

use std::collections::BTreeSet;
use std::iter::successors;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tracing::{Instrument as _, info_span};
use tributary_base::one_line;
use tributary_controller::targets::Kind as Target;
use tributary_embedded::program;
use tributary_endpoint::numbers;
use tributary_model::jobfile::{Switches, TIMING_IGNORED};
use tributary_model::{Deployment, JobSpec, Scenario};
use tributary_netio::device::Kind as Io;
use tributary_p4::Architecture;
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_ps::report as servers;
use tributary_sim::Trace;
use tributary_wire::Epoch;
use tributary_worker::workload::{self, need};

use crate::Options;
use crate::capture::{self, Capturing};
use crate::diagnosis::Diagnosis;
use crate::fabric::{self, Bmv2, Counted, CrossConnectKind, Fabric, Memory, Netns, Note, Sim};
use crate::report::{RunReport, SwitchReport, aggregator_bits};
use crate::testbed::OpenVSwitch;
use crate::watch::Sampler;

use notes::Notes;
use results::Gathered;
use stopped::Watch;

/// The warning where threads have no effect.
const THREADS_IGNORED: &str =
    "`threads` of jobs is ignored: with `--fabric sim` each worker has one";

/// The warning where only a switch could inject faults.
const FIBRES_IGNORED: &str =
    "`[faults]` is ignored on the fibres between units: BMv2 injects no faults";

/// Time limit for the reports of parameter servers.
const REPORT_TIME: Duration = Duration::from_secs(5);

/// Receives the progress of a run.
pub trait Observer {
    /// A part of the job file has no effect on this fabric, or a part of the run has died and was started
    /// again.
    fn warn(&mut self, _warning: &str) {}

    /// The jobs that are to run.
    fn begin(&mut self, _scenario: &Scenario) {}

    /// A worker finished `done` of `of` rounds; `note` describes a milestone.
    fn round(&mut self, _job: usize, _worker: usize, _done: u64, _of: u64, _note: Option<&str>) {}

    /// All endpoints are about to end.
    fn end(&mut self) {}

    /// The recorded trace of the network; also of a failed run.
    ///
    /// # Errors
    /// If it cannot be stored.
    fn trace(&mut self, _scenario: &Scenario, _trace: &Trace) -> Result<()> {
        Ok(())
    }

    /// The frames that were captured in memory, as the contents of a pcapng file; also of a failed
    /// run.
    ///
    /// # Errors
    /// If they cannot be stored.
    fn capture(&mut self, _capture: &[u8]) -> Result<()> {
        Ok(())
    }
}

impl Observer for () {}

/// The switches for which a job file is read.
fn switches(options: &Options) -> Switches {
    let bmv2 = options.target == Target::Bmv2;
    Switches { bmv2, tna: options.arch == Architecture::Tna }
}

/// Reads the job file and checks what a run of it needs: invalid workloads and excessive demands are reported before
/// anything is started.
fn load(options: &Options, observer: &mut impl Observer) -> Result<Scenario> {
    let mut scenario =
        tributary_model::jobfile::load_for(&options.job_file, options.seed, switches(options))?;
    // The network is new, so it contains no packets of earlier runs.
    let epochs = successors(Some(Epoch::FIRST), |epoch| epoch.next());
    scenario.jobs.iter_mut().zip(epochs).for_each(|(job, epoch)| job.epoch = epoch);
    if let Some(job) = scenario.jobs.iter().find(|job| job.lane.count > 1) {
        ensure!(
            options.io != Io::Xdp,
            "--io xdp: a worker of job {} has several threads, and only one socket of an interface gets \
             its packets through AF_XDP; choose another --io, or leave `threads` out of the job",
            job.name
        );
        if options.fabric == fabric::Kind::Sim {
            observer.warn(THREADS_IGNORED);
            scenario.join_lanes();
        }
    }
    if options.fabric != fabric::Kind::Sim && scenario.network.topology.has_timing() {
        observer.warn(TIMING_IGNORED);
        // The memory fabric uses the simulator's TCP, which would follow them.
        scenario.network.topology.clear_timing();
    }
    let optical = scenario.network.topology.optical.as_ref();
    if options.target == Target::Bmv2 && optical.is_some_and(|it| !it.fibre.faults.is_none()) {
        observer.warn(FIBRES_IGNORED);
    }
    ensure!(
        scenario.orchestration.is_none() || options.fabric != fabric::Kind::Memory,
        "units around a cross-connect need circuits that change: add --fabric sim, or --fabric netns"
    );
    ensure!(
        scenario.orchestration.is_some() || options.cross_connect == CrossConnectKind::default(),
        "--cross-connect: {} has no units around a cross-connect \
         (docs/start/job-files.md#units-around-a-cross-connect); leave the option out",
        options.job_file.display()
    );
    need::check_run(&scenario, options.fabric == fabric::Kind::Netns)?;
    if options.fabric == fabric::Kind::Sim {
        Sim::long(&scenario).iter().for_each(|warning| observer.warn(warning));
    }
    for (_, job) in scenario.whole_jobs() {
        workload::of(job, 0).with_context(|| format!("job {}", job.name))?;
    }
    Ok(scenario)
}

/// Runs a job file. `stop` ends the run early.
///
/// # Errors
/// One line that describes the problem; everything is cleaned up then.
pub fn run(
    options: &Options,
    stop: &AtomicBool,
    observer: &mut impl Observer,
) -> Result<RunReport> {
    options.check()?;
    if options.target == Target::Bmv2 {
        // Missing programs are reported before the run starts.
        Bmv2::find()?;
    }
    if options.cross_connect == CrossConnectKind::OpenVSwitch {
        OpenVSwitch::check()?;
    }
    options.capture.iter().try_for_each(|to| capture::check(to, &options.job_file))?;
    let deployment = Arc::new(Deployment::new(load(options, observer)?)?);
    let scenario = deployment.scenario();
    fabric::one_process_per_host(scenario)?;
    let replacement = options.p4.as_deref();
    let mut program = program::compile_for(scenario, options.arch, replacement)?;
    let aggregator_bits = aggregator_bits(&program.program, scenario.network.switch.pool);
    program.pipeline = program::pipeline(scenario, replacement, program.pipeline, options.target)?;
    // This must happen before there is a second thread.
    options.fabric.enter()?;
    options.metrics.add(numbers::Jobs::new(&scenario.jobs));
    let runtime = tributary_endpoint::runtime()?;
    let begin = |to| Capturing::begin(to, &options.job_file, scenario, options.fabric);
    let capturing = options.capture.as_ref().map(begin).transpose()?;
    let taps = capturing.as_ref().map(|capturing| &capturing.taps);
    let mut missing = 0;
    let info = options.watch.is_some().then(|| program.pipeline.p4info.clone());
    let run = Run { options, deployment: &deployment, aggregator_bits, info, interrupted: stop };
    let span = info_span!("run", file = scenario.name, fabric = options.fabric.name());
    let execution = async {
        match options.fabric {
            fabric::Kind::Memory => {
                let mut memory = Memory::start(&deployment, program, options, taps).await?;
                run.execute(&mut memory, observer).await
            }
            fabric::Kind::Netns => {
                let mut netns = Netns::start(&deployment, program, options, taps).await?;
                let report = run.execute(&mut netns, observer).await;
                missing = netns.end_capture();
                report
            }
            fabric::Kind::Sim => {
                let mut sim = Sim::start(&deployment, program, options, taps).await?;
                let report = run.execute(&mut sim, observer).await;
                sim.end_capture();
                let traced = sim.trace().map_or(Ok(()), |trace| observer.trace(scenario, trace));
                let report = report?;
                traced.map(|()| report)
            }
        }
    };
    let report = runtime.block_on(execution.instrument(span));
    if let Some(hub) = &options.watch {
        hub.end(report.as_ref().err().map(|error| one_line(error.as_ref())));
    }
    let Some(capturing) = capturing else { return report };
    let (captured, memory) = capturing.finish(missing, report.is_err());
    let stored = match captured {
        None => observer.capture(&memory),
        Some(_) => Ok(()),
    };
    let report = report?;
    stored.map(|()| RunReport { capture: captured, ..report })
}

struct Run<'a> {
    options: &'a Options,
    deployment: &'a Deployment,
    /// Memory per aggregator, in bits.
    aggregator_bits: u64,
    /// Of the program, if someone watches.
    info: Option<P4Info>,
    interrupted: &'a AtomicBool,
}

impl Run<'_> {
    fn scenario(&self) -> &Scenario {
        self.deployment.scenario()
    }

    async fn execute(
        &self,
        fabric: &mut impl Fabric,
        observer: &mut impl Observer,
    ) -> Result<RunReport> {
        let scenario = self.scenario();
        for job in 0..scenario.jobs.len() {
            let span = info_span!("job", name = scenario.jobs[job].name);
            fabric.admit(job).instrument(span).await?;
        }
        observer.begin(scenario);
        let mut sampler = match self.options.watch.as_ref().zip(self.info.as_ref()) {
            None => None,
            Some((hub, info)) => {
                let kind = self.options.fabric;
                Some(Sampler::begin(hub, self.deployment, info, fabric, kind).await?)
            }
        };
        let mut gathered = Gathered::new(scenario);
        let mut diagnosis = Diagnosis::new(scenario);
        let outcome = match fabric.start_endpoints() {
            Ok(()) => {
                let of = &mut diagnosis;
                self.follow(fabric, observer, &mut sampler, of, &mut gathered).await
            }
            Err(error) => Err(error),
        };
        let seconds = fabric.elapsed().as_secs_f64();
        observer.end();
        // Endpoints end and switches are cleaned even after an error.
        tokio::task::block_in_place(|| fabric.stop_endpoints());
        if outcome.is_ok() {
            self.gather_servers(fabric, &mut gathered).await;
        }
        let servers_cpu = fabric.servers_cpu();
        // Nothing changes from now on.
        diagnosis.look_once_more(fabric.crossings().await);
        if let Some(sampler) = &mut sampler {
            sampler.sample(fabric, &diagnosis).await;
        }
        let cleaned = self.clean(fabric).await;
        let ends = tokio::task::block_in_place(|| fabric.stop_switches());
        fabric.last_crossings().into_iter().for_each(|last| diagnosis.look_once_more(last));
        outcome?;
        let (mut switches, counted) = cleaned?;
        for (switch, end) in switches.iter_mut().zip(ends) {
            switch.longest_queue = end.queues.map(|queues| queues.longest);
            switch.queue_drops = end.queues.map(|queues| queues.drops);
            switch.cpu_seconds = end.cpu.map(|cpu| cpu.as_secs_f64());
            let bits = u64::from(scenario.network.switch.pool) * self.aggregator_bits;
            switch.memory_bytes = bits.div_ceil(8);
        }
        let jobs = self.job_reports(gathered, &counted)?;
        Ok(RunReport {
            name: scenario.name.clone(),
            fabric: self.options.fabric.name(),
            switch: self.options.target.name(),
            seed: scenario.seed,
            seconds,
            jobs,
            findings: diagnosis.of_run(),
            switches,
            servers_cpu_seconds: servers_cpu.map(|cpu| cpu.as_secs_f64()),
            capture: None,
        })
    }

    /// Receives notes until all workers are done.
    async fn follow(
        &self,
        fabric: &mut impl Fabric,
        observer: &mut impl Observer,
        sampler: &mut Option<Sampler>,
        diagnosis: &mut Diagnosis,
        gathered: &mut Gathered,
    ) -> Result<()> {
        let mut watch = Watch::default();
        let notes = Notes::new(self, fabric, observer, sampler, diagnosis, gathered);
        let outcome = notes.follow(&mut watch).await;
        // The first part to fail may have waited for a stopped one.
        match (outcome, watch.look(fabric)) {
            (Err(_), Some(found)) if !self.interrupted.load(Ordering::Relaxed) => {
                Err(found.error())
            }
            (outcome, _) => outcome,
        }
    }

    /// Collects the reports of the parameter servers, which they send when they end.
    async fn gather_servers(&self, fabric: &mut impl Fabric, gathered: &mut Gathered) {
        let deadline = Instant::now() + REPORT_TIME;
        let jobs = &self.scenario().jobs;
        let own_host = |job: &&JobSpec| job.agent.is_some() && job.agent != job.ps;
        let servers = jobs.iter().filter(|job| job.ps.is_some()).count();
        let agents = jobs.iter().filter(own_host).count();
        // Those of the last run: a job that goes on in another one has earlier reports.
        let (mut served, mut reminded) = (BTreeSet::new(), BTreeSet::new());
        while (served.len() < servers || reminded.len() < agents) && Instant::now() < deadline {
            // A stall reported at the end is not a fault.
            if let Some(Note::Servers(servers::Event::Done { servers, agents })) =
                fabric.next_note().await
            {
                served.extend(servers.iter().map(|(job, _)| *job));
                reminded.extend(agents.iter().map(|(job, _)| *job));
                gathered.add(servers, agents);
            }
        }
    }

    /// Removes the jobs from the switches. Returns the counters of each switch for all jobs, and of
    /// all switches for each job.
    async fn clean(&self, fabric: &mut impl Fabric) -> Result<(Vec<SwitchReport>, Vec<Counted>)> {
        let switches = &self.scenario().network.topology.switches;
        let report = |name: &String| SwitchReport { name: name.clone(), ..SwitchReport::default() };
        let mut reports: Vec<SwitchReport> =
            switches.iter().map(|switch| report(&switch.name)).collect();
        let mut of_jobs = Vec::with_capacity(self.scenario().jobs.len());
        let mut failure = None;
        for job in 0..self.scenario().jobs.len() {
            let removed = match fabric.remove(job).await {
                Ok(removed) => removed,
                Err(error) => {
                    failure = failure.or(Some(error));
                    continue;
                }
            };
            let mut all = Counted::default();
            for part in removed {
                let report = &mut reports[part.switch.0];
                report.swept += u64::from(part.freed);
                for (outcome, count) in part.outcomes.iter() {
                    *report.outcomes.entry(outcome.name()).or_default() += count.packets;
                }
                all.outcomes += part.outcomes;
                all.evictions += part.evictions;
            }
            of_jobs.push(all);
        }
        match failure {
            Some(error) => Err(error),
            None => Ok((reports, of_jobs)),
        }
    }
}
