//! A job file from start to report: the same steps on every fabric.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;
use std::ops::Add as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::live::Hub;
use crate::live::model::Weight;
use anyhow::{Context, Result, anyhow, bail, ensure};
use tracing::{Instrument as _, info_span};
use tributary_base::one_line;
use tributary_controller::targets::Kind as Target;
use tributary_dataplane::EngineKind;
use tributary_embedded::program;
use tributary_endpoint::numbers;
use tributary_metrics::Metrics;
use tributary_model::jobfile::{Switches, TIMING_IGNORED};
use tributary_model::{Deployment, JobSpec, Scenario, Workload, services};
use tributary_netio::device::Kind as Io;
use tributary_p4::Architecture;
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_protocol::esa::agent::Stats as AgentStats;
use tributary_ps::report::{self as servers, ServerReport};
use tributary_sim::{Processing, Trace};
use tributary_wire::{Epoch, name_workers};
use tributary_worker::rounds::{Event, WorkerReport};
use tributary_worker::workload::{self, Rule, need};

use crate::capture::{self, Capture, Capturing};
use crate::fabric::{self, Bmv2, Fabric, Memory, Netns, Note, Sim, Stopped};
use crate::report::{Counted, JobReport, RunReport, SegmentReport, SwitchReport, aggregator_bits};
use crate::watch::Sampler;

/// The warning where threads have no effect.
const THREADS_IGNORED: &str =
    "`threads` of jobs is ignored: with `--fabric sim` each worker has one";

/// Interval of checks for stopped parts.
const LOOK: Duration = Duration::from_millis(250);

/// Time limit for the reports of parameter servers.
const REPORT_TIME: Duration = Duration::from_secs(5);

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The job file.
    pub job_file: PathBuf,
    /// The fabric.
    pub fabric: fabric::Kind,
    /// Kind of the switches.
    pub target: Target,
    /// Architecture of the program.
    pub arch: Architecture,
    /// Seed that replaces the file's.
    pub seed: Option<u64>,
    /// P4 program that replaces the built-in one.
    pub p4: Option<PathBuf>,
    /// How frames are sent and received on interfaces, on the fabric `netns`.
    pub io: Io,
    /// Execution engine of embedded switches.
    pub engine: EngineKind,
    /// Whether each switch gets a core of its own, and the hosts the others, on the fabric `netns`.
    pub pin: bool,
    /// Threads of each embedded switch, at least one.
    pub switch_threads: u16,
    /// Whether to record every frame, message and event, on the fabric `sim`.
    pub trace: bool,
    /// Where to capture every frame.
    pub capture: Option<Capture>,
    /// What shows the run while it lasts.
    pub watch: Option<Hub>,
    /// Processor time of hosts and switches, on the fabric `sim`; `None` for none.
    pub processing: Option<Processing>,
    /// Gets the metrics of all parts, on the fabrics that run in real time.
    pub metrics: Metrics,
}

impl Options {
    /// Embedded switches in memory, with the job file's settings.
    #[must_use]
    pub fn new(job_file: PathBuf) -> Self {
        Self {
            job_file,
            fabric: fabric::Kind::default(),
            target: Target::default(),
            arch: Architecture::V1model,
            seed: None,
            p4: None,
            io: Io::default(),
            engine: EngineKind::default(),
            pin: false,
            switch_threads: 1,
            trace: false,
            capture: None,
            watch: None,
            processing: None,
            metrics: Metrics::off(),
        }
    }

    /// How frames are sent and received if nobody says how: over UDP sockets at the hosts where they
    /// can serve, which is between network namespaces that a run makes. Where the kernel refuses to
    /// carry many datagrams in one buffer, they go one by one.
    #[must_use]
    pub fn default_io(fabric: fabric::Kind, target: Target) -> Io {
        match (fabric, target) {
            (fabric::Kind::Netns, Target::Embedded) => Io::UdpGso,
            _ => Io::Packet,
        }
    }

    /// Refuses options that exclude each other.
    fn check(&self) -> Result<()> {
        let Self { fabric, target, arch, io, engine, .. } = self;
        ensure!(
            !self.pin || (*fabric == fabric::Kind::Netns && *target == Target::Embedded),
            "--pin is for our own processes: it needs --fabric netns, and no --target"
        );
        ensure!(
            *io == Io::Packet || *fabric == fabric::Kind::Netns,
            "--io {io}: the fabric `{fabric}` has no network interfaces; add `--fabric netns`"
        );
        let traced = self.trace || self.capture == Some(Capture::Memory);
        ensure!(
            !traced || *fabric == fabric::Kind::Sim,
            "--frames: the fabric `{fabric}` records nothing; add `--fabric sim`"
        );
        ensure!(
            self.capture.is_none() || *io != Io::Xdp,
            "--capture: frames that AF_XDP takes cannot be captured; choose another --io"
        );
        if self.switch_threads > 1 {
            ensure!(
                *fabric != fabric::Kind::Sim && *target == Target::Embedded,
                "--switch-threads: only embedded switches in real time have threads; leave it out, \
                 or choose --fabric memory or netns, and no --target"
            );
            ensure!(
                matches!(io.of_ports(), Io::Packet | Io::Gso),
                "--switch-threads: the threads share a port's frames with --io packet, gso, udp or \
                 udp-gso only"
            );
        }
        match target {
            Target::Embedded => {}
            Target::Stratum => bail!(
                "--target {target}: a run starts its switches by itself; use `tributary controller \
                 --target {target}` for switches that run already"
            ),
            Target::Bmv2 => {
                ensure!(
                    io.of_ports() != Io::Gso,
                    "--io {io}: BMv2 takes datagrams one by one; use --io packet or udp"
                );
                ensure!(
                    *engine == EngineKind::Automatic,
                    "--engine {engine}: BMv2 has its own; leave --engine or --target out"
                );
                ensure!(
                    *fabric == fabric::Kind::Netns,
                    "--target bmv2 needs --fabric netns: BMv2's ports are network interfaces"
                );
                ensure!(
                    *arch == Architecture::V1model,
                    "--target bmv2 runs programs for v1model, not for {arch}: leave --target out"
                );
                // Missing programs are reported before the run starts.
                Bmv2::find()?;
            }
        }
        Ok(())
    }
}

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
    options.capture.iter().try_for_each(|to| capture::check(to, &options.job_file))?;
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
    ensure!(
        scenario.orchestration.is_none() || options.fabric != fabric::Kind::Memory,
        "units around a cross-connect need circuits that change: add --fabric sim, or --fabric netns"
    );
    need::check_run(&scenario, options.fabric == fabric::Kind::Netns)?;
    if options.fabric == fabric::Kind::Sim {
        Sim::long(&scenario).iter().for_each(|warning| observer.warn(warning));
    }
    // Report invalid workloads and excessive demands before starting anything.
    for (_, job) in scenario.whole_jobs() {
        workload::of(job, 0).with_context(|| format!("job {}", job.name))?;
    }
    let deployment = Arc::new(Deployment::new(scenario)?);
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

/// Watches for stopped processes.
#[derive(Default)]
struct Watch {
    /// Time of the last check.
    looked: Option<Instant>,
    /// The stopped part that was found first.
    found: Option<Found>,
}

/// A stopped part.
struct Found {
    part: Stopped,
    since: Instant,
}

impl Found {
    fn error(&self) -> anyhow::Error {
        let Stopped { what, process } = &self.part;
        let waited = self.since.elapsed().as_secs_f64();
        anyhow!(
            "{what} was not heard from for {waited:.1} s: its process {process} is stopped; continue \
             it with `kill -CONT {process}`"
        )
    }
}

impl Watch {
    /// Checks again if the interval is over.
    fn look(&mut self, fabric: &impl Fabric) -> Option<&Found> {
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

/// The reports of the endpoints so far.
struct Gathered {
    /// By the index of each job's first lane, and by worker.
    workers: Vec<Vec<Option<WorkerReport>>>,
    servers: BTreeMap<u16, ServerReport>,
    /// Reports of agents on hosts of their own.
    agents: BTreeMap<u16, AgentStats>,
    /// Workers whose processes have died, and without which their jobs go on.
    lost: BTreeSet<(usize, usize)>,
    /// What was said about jobs that go on.
    losses: BTreeSet<(usize, String)>,
}

impl Gathered {
    /// Adds reports of servers and agents: of each run, if a job goes on in another one.
    fn add(&mut self, servers: Vec<(u16, ServerReport)>, agents: Vec<(u16, AgentStats)>) {
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
        let mut gathered = Gathered {
            workers: scenario.jobs.iter().map(|job| vec![None; job.workers.len()]).collect(),
            servers: BTreeMap::new(),
            agents: BTreeMap::new(),
            lost: BTreeSet::new(),
            losses: BTreeSet::new(),
        };
        let outcome = match fabric.start_endpoints() {
            Ok(()) => self.follow(fabric, observer, &mut sampler, &mut gathered).await,
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
        if let Some(sampler) = &mut sampler {
            // Nothing changes from now on.
            sampler.sample(fabric).await;
        }
        let cleaned = self.clean(fabric).await;
        let ends = tokio::task::block_in_place(|| fabric.stop_switches());
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
        gathered: &mut Gathered,
    ) -> Result<()> {
        let mut watch = Watch::default();
        let notes = self.follow_notes(fabric, observer, &mut watch, sampler, gathered);
        let outcome = notes.await;
        // The first part to fail may have waited for a stopped one.
        match (outcome, watch.look(fabric)) {
            (Err(_), Some(found)) if !self.interrupted.load(Ordering::Relaxed) => {
                Err(found.error())
            }
            (outcome, _) => outcome,
        }
    }

    async fn follow_notes(
        &self,
        fabric: &mut impl Fabric,
        observer: &mut impl Observer,
        watch: &mut Watch,
        sampler: &mut Option<Sampler>,
        gathered: &mut Gathered,
    ) -> Result<()> {
        let scenario = self.scenario();
        let mut due: usize = scenario.whole_jobs().map(|(_, job)| job.workers.len()).sum();
        let warm_up = |job: &JobSpec| match &job.workload {
            Workload::Random(random) => u64::from(random.warm_up),
            Workload::Files(_) | Workload::Digits(_) => 0,
        };
        // Workers that are still warming up.
        let warming = scenario.whole_jobs().filter(|(_, job)| warm_up(job) > 0);
        let mut cold: BTreeSet<(usize, usize)> = warming
            .flat_map(|(lane, job)| (0..job.workers.len()).map(move |worker| (lane, worker)))
            .collect();
        // A job that goes on without a worker may sum its last round again.
        let mut warm = |fabric: &mut _, worker: (usize, usize)| {
            if cold.remove(&worker) && cold.is_empty() {
                Fabric::end_warm_up(fabric);
            }
        };
        while due > 0 {
            if self.interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            if let Some(found) = watch.look(fabric)
                && found.since.elapsed() >= scenario.network.worker_timeout
            {
                return Err(found.error());
            }
            if fabric.elapsed() >= scenario.timeout {
                bail!(
                    "the run took longer than its timeout of {:?}; raise `timeout` in the job file \
                     if it needs longer",
                    scenario.timeout
                );
            }
            if let Some(sampler) = sampler {
                sampler.look(fabric).await;
            }
            match fabric.next_note().await {
                None => {}
                Some(Note::Worker { job, worker, event }) => match event {
                    // Of no interest to who started all of them.
                    Event::Waiting { .. } | Event::Unadmitted { .. } | Event::Iteration { .. } => {}
                    Event::Round { done, of, note } => {
                        observer.round(job, worker, done, of, note.as_deref());
                        if let Some(sampler) = sampler {
                            sampler.round(job, worker, done);
                            if let Some(note) = &note {
                                sampler.note(fabric.elapsed(), Weight::Info, Some(job), note);
                            }
                        }
                        if done == warm_up(&scenario.jobs[job]) {
                            warm(fabric, (job, worker));
                        }
                    }
                    Event::Done(report) => {
                        gathered.workers[job][worker] = Some(*report);
                        due -= 1;
                        if let Some(sampler) = sampler {
                            sampler.done(job);
                        }
                    }
                    Event::GoesOn(loss) => {
                        let said = format!("job {} {loss}", scenario.jobs[job].name);
                        if gathered.losses.insert((job, said.clone())) {
                            if let Some(sampler) = sampler {
                                sampler.note(fabric.elapsed(), Weight::Warning, Some(job), &said);
                            }
                            observer.warn(&said);
                        }
                    }
                    Event::Failed { reason } => {
                        let name = &scenario.jobs[job].name;
                        bail!("job {name}: worker {worker} failed: {reason}");
                    }
                },
                Some(Note::Lost { job, worker, how }) => {
                    let all = &gathered.workers[job];
                    // Whatever happens to it afterwards.
                    if all[worker].is_some() {
                        continue;
                    }
                    let name = &scenario.jobs[job].name;
                    gathered.lost.insert((job, worker));
                    let left = (0..all.len()).filter(|at| !gathered.lost.contains(&(job, *at)));
                    if !fabric.may_go_on(job) || left.count() == 0 {
                        bail!("job {name}: worker {worker} failed: {how}");
                    }
                    observer.warn(&format!("job {name}: worker {worker} is lost: {how}"));
                    due -= 1;
                    warm(fabric, (job, worker));
                }
                Some(Note::Servers(event)) => self.hear(event, gathered)?,
                Some(Note::Warning(what)) => observer.warn(&what),
                Some(Note::Broken(what)) => bail!(what),
            }
        }
        Ok(())
    }

    fn hear(&self, event: servers::Event, gathered: &mut Gathered) -> Result<()> {
        match event {
            servers::Event::Ready | servers::Event::Serving { .. } | servers::Event::Idle => Ok(()),
            servers::Event::Done { servers, agents } => {
                gathered.add(servers, agents);
                Ok(())
            }
            servers::Event::Stalled { job, missing, seconds, quiet } => {
                let scenario = self.scenario();
                let known = scenario.jobs.iter().position(|known| known.id.get() == job);
                let name =
                    known.map_or("?", |lane| &scenario.jobs[scenario.lanes(lane).start].name);
                if quiet {
                    bail!(
                        "job {name}: its parameter server has received nothing from any worker for \
                         {seconds:.1} s (worker_timeout in the job file)"
                    );
                }
                let verb = if missing.len() == 1 { "was" } else { "were" };
                Err(anyhow!(
                    "job {name}: {} {verb} not heard from for {seconds:.1} s while others wait \
                     (worker_timeout in the job file)",
                    name_workers(missing)
                ))
            }
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

    /// The report of each job of the file, with all of its lanes.
    fn job_reports(&self, mut gathered: Gathered, counted: &[Counted]) -> Result<Vec<JobReport>> {
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
