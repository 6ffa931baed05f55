//! Switches that run already, as a source of the live view: their tables, counters and registers over
//! P4Runtime, and the jobs of their controller. Everything is only read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tonic::transport::Channel;
use tributary_access::Remote;
use tributary_access::args::encrypts;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::iteration::State;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_controller::aggregators::{Held, Registers, Served};
use tributary_controller::client::{Client, SwitchConfig, Target};
use tributary_controller::outcomes::{self, Outcomes};
use tributary_controller::{Catalogue, Error};
use tributary_run::live::Hub;
use tributary_run::live::model::{
    Clock, Host, JobSample, Line, Link, MOST_CELLS, MOST_JOBS, Node, Note, Sample, Scene, ShownJob,
    ShownSwitch, SwitchSample, VERSION, Weight, WorkerSample,
};
use tributary_run::live::pool::{self, Holder, Tracker};
use tributary_wire::{Bitmap, Epoch, JobId, Run};

use super::WatchArgs;

/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(250);
/// How long a switch or the controller may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Runs whose counters are in one read.
const RUNS: usize = 100;

/// The switches and their controller.
pub(super) struct Source {
    switches: Vec<Arc<SwitchConfig>>,
    controller: Option<Remote>,
}

impl Source {
    pub(super) fn new(args: &WatchArgs) -> Result<Self> {
        let encrypted = args.switches.iter().any(|text| {
            encrypts(text.split_once('=').map_or(text.as_str(), |(_, address)| address))
        });
        let keys = if encrypted { args.keys.client_keys()? } else { None };
        let switch = |(number, text): (usize, &String)| {
            let named = text.split_once('=').filter(|(name, _)| !name.contains(':'));
            let (name, address) = match named {
                Some((name, address)) => (name.to_owned(), address),
                None => (format!("s{}", number + 1), text.as_str()),
            };
            Arc::new(SwitchConfig {
                keys: keys.clone(),
                device_id: args.device_id,
                request_timeout: PATIENCE,
                ..SwitchConfig::new(name, Target::Address(address.to_owned()))
            })
        };
        let switches: Vec<_> = args.switches.iter().enumerate().map(switch).collect();
        for (position, switch) in switches.iter().enumerate() {
            let twice = switches[..position].iter().any(|other| other.name == switch.name);
            ensure!(
                !twice,
                "--switch: two switches are called {}; name them NAME=ADDR",
                switch.name
            );
        }
        let controller = args.controller.as_deref();
        let controller = controller.map(|address| args.keys.remote("--controller", address));
        Ok(Self { switches, controller: controller.transpose()? })
    }

    /// Samples the switches until `stop` is raised.
    pub(super) fn follow(&self, hub: &Hub, stop: &AtomicBool) -> Result<()> {
        let runtime = tributary_endpoint::runtime()?;
        runtime.block_on(async {
            let mut view = Attached::new(self).await?;
            let begin = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                view.sample(hub, micros(begin.elapsed())).await;
                tokio::time::sleep(INTERVAL).await;
            }
            hub.end(None);
            Ok(())
        })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A switch, as last read.
struct Known {
    config: Arc<SwitchConfig>,
    client: Option<Client>,
    /// What its program is called by number; `None` while no program of ours runs.
    program: Option<(Catalogue, Option<Registers>)>,
    served: Served,
    held: BTreeMap<u32, Held>,
    counts: BTreeMap<Run, BTreeMap<String, u64>>,
    tracker: Tracker,
    /// The last error was told.
    lost: bool,
}

/// A port of a switch that one worker, or one rack, is behind.
type Place = (usize, u16);

/// All that is shown.
struct Attached {
    switches: Vec<Known>,
    controller: Option<JobsClient<Channel>>,
    /// Position in the scene, by job number.
    positions: BTreeMap<JobId, usize>,
    /// By position.
    jobs: Vec<Shown>,
    /// The last scene.
    scene: Option<Scene>,
    /// Whether the controller's last error was told.
    unheard: bool,
}

/// A job.
#[derive(Default)]
struct Shown {
    name: String,
    run: Option<Run>,
    workers: BTreeMap<Place, Bitmap>,
    /// As the controller reports it.
    iterations: Option<u64>,
    finished: Vec<u64>,
    names: Vec<String>,
}

impl Attached {
    /// Reads all switches once.
    async fn new(source: &Source) -> Result<Self> {
        let mut switches = Vec::new();
        for config in &source.switches {
            let mut known = Known {
                config: config.clone(),
                client: None,
                program: None,
                served: Served::default(),
                held: BTreeMap::new(),
                counts: BTreeMap::new(),
                tracker: Tracker::default(),
                lost: false,
            };
            known.read(source.switches.len()).await?;
            switches.push(known);
        }
        if switches.iter().all(|switch| switch.program.is_none()) {
            bail!("no switch runs a program of ours yet; start `tributary controller` first");
        }
        let controller =
            source.controller.as_ref().map(|remote| remote.clone().with_timeout(PATIENCE));
        let controller = controller.map(|remote| JobsClient::new(remote.connect_lazy()));
        let (positions, jobs) = (BTreeMap::new(), Vec::new());
        Ok(Self { switches, controller, positions, jobs, scene: None, unheard: false })
    }

    async fn sample(&mut self, hub: &Hub, at_us: u64) {
        let many = self.switches.len();
        for switch in &mut self.switches {
            let read = switch.read(many).await;
            let name = &switch.config.name;
            match &read {
                Err(error) if !switch.lost => tell(hub, at_us, Weight::Warning, error.to_string()),
                Ok(()) if switch.lost => {
                    tell(hub, at_us, Weight::Info, format!("switch {name} is back"));
                }
                _ => {}
            }
            switch.lost = read.is_err();
        }
        self.find_jobs();
        if let Err(error) = self.ask_controller().await
            && !std::mem::replace(&mut self.unheard, true)
        {
            tell(hub, at_us, Weight::Warning, format!("the controller: {error}"));
        }
        let scene = self.scene();
        if self.scene.as_ref() != Some(&scene) {
            hub.push(Line::Scene(scene.clone()));
            self.scene = Some(scene);
        }
        let switches = (0..many).map(|switch| self.switch(at_us, switch)).collect();
        let jobs = self.jobs.iter().map(|job| self.job(job)).collect();
        let sample = Sample { at_us, jobs, switches, ..Sample::default() };
        hub.push(Line::Sample(sample));
    }

    /// Takes over what the tables say about jobs.
    fn find_jobs(&mut self) {
        for job in &mut self.jobs {
            job.run = None;
        }
        for (switch, known) in self.switches.iter().enumerate() {
            for &run in known.served.runs.keys() {
                let next = self.jobs.len();
                if next >= MOST_JOBS && !self.positions.contains_key(&run.job) {
                    continue;
                }
                let position = *self.positions.entry(run.job).or_insert(next);
                if position == next {
                    let name = format!("job {}", run.job);
                    self.jobs.push(Shown { name, ..Shown::default() });
                }
                let job = &mut self.jobs[position];
                // The entries of two runs are there while one follows the other. Another run may have other
                // hosts.
                if job.run < Some(run) {
                    (job.run, job.workers) = (Some(run), BTreeMap::new());
                }
                let single = |(_, unit): &(&u16, &Bitmap)| unit.len() == 1;
                let units = known.served.units.get(&run).into_iter().flatten().filter(single);
                job.workers.extend(units.map(|(&port, &unit)| ((switch, port), unit)));
            }
        }
    }

    async fn ask_controller(&mut self) -> Result<(), tonic::Status> {
        let Some(controller) = &mut self.controller else { return Ok(()) };
        let jobs = controller.list(v1::ListRequest {}).await?.into_inner().jobs;
        self.unheard = false;
        for job in jobs {
            let id = u16::try_from(job.job_id).ok().and_then(JobId::new);
            let Some(&position) = id.and_then(|id| self.positions.get(&id)) else { continue };
            let shown = &mut self.jobs[position];
            if !job.name.is_empty() {
                shown.name = job.name;
            }
            shown.iterations = job.demand.map(|demand| demand.iterations).filter(|&it| it > 0);
            let iteration = job.iteration.unwrap_or_default();
            let finished = |worker: usize| {
                let unfinished = iteration.state() == State::Running
                    && iteration.unfinished.iter().any(|&it| it as usize == worker);
                iteration.number.saturating_sub(u64::from(unfinished))
            };
            shown.finished = (0..job.workers.len()).map(finished).collect();
            shown.names = job.workers;
        }
        Ok(())
    }

    fn scene(&self) -> Scene {
        let mut hosts = Vec::new();
        let mut links = Vec::new();
        let mut at: BTreeMap<Place, usize> = BTreeMap::new();
        let mut jobs = Vec::new();
        for job in &self.jobs {
            let mut workers = Vec::new();
            for (&(switch, port), unit) in &job.workers {
                let host = *at.entry((switch, port)).or_insert_with(|| {
                    let name = job.names.get(unit.0.trailing_zeros() as usize).cloned();
                    let own = || format!("{}:{port}", self.switches[switch].config.name);
                    hosts.push(Host { name: name.unwrap_or_else(own) });
                    let ends = [Node::Host(hosts.len() - 1), Node::Switch(switch)];
                    links.push(Link { ends, rate: None, loss: 0.0 });
                    hosts.len() - 1
                });
                workers.push(host);
            }
            let name = job.name.clone();
            jobs.push(ShownJob {
                name,
                workers,
                server: None,
                agent: None,
                rounds: job.iterations,
            });
        }
        let switch = |known: &Known| ShownSwitch {
            name: known.config.name.clone(),
            pool: known.registers().map_or(0, Registers::size),
            cells: known.cells(self.switches.len()),
        };
        let protocols = self.switches.iter().filter_map(|known| known.program.as_ref());
        let protocol = protocols.map(|(catalogue, _)| catalogue.protocol().name()).next();
        let names: Vec<_> = self.switches.iter().map(|it| it.config.name.as_str()).collect();
        Scene {
            version: VERSION,
            name: names.join(", "),
            protocol: protocol.unwrap_or_default().to_owned(),
            fabric: "attached".to_owned(),
            clock: Clock::Real,
            switches: self.switches.iter().map(switch).collect(),
            hosts,
            links,
            jobs,
        }
    }

    fn job(&self, job: &Shown) -> JobSample {
        let worker = |(&(switch, _), &unit): (&Place, &Bitmap)| {
            let epoch = job.run.map(|run| run.epoch);
            let known = &self.switches[switch];
            let its = |aggregator: u32, held: &Held| match held.epoch {
                Some(of) => Some(of) == epoch,
                None => known.segment_of(aggregator) == job.run.map(|run| run.job),
            };
            let waiting = known.held.iter().filter(|(at, held)| its(**at, held));
            let awaited = waiting.filter(|(_, held)| held.waits_for(unit)).count();
            let index = unit.0.trailing_zeros() as usize;
            WorkerSample {
                rounds: job.finished.get(index).copied().unwrap_or(0),
                awaited: u32::try_from(awaited).unwrap_or(u32::MAX),
                ..WorkerSample::default()
            }
        };
        JobSample { workers: job.workers.iter().map(worker).collect(), over: job.run.is_none() }
    }

    fn switch(&mut self, at_us: u64, switch: usize) -> SwitchSample {
        let cells = self.switches[switch].cells(self.switches.len());
        let mut sample = SwitchSample {
            counts: vec![BTreeMap::new(); self.jobs.len()],
            held: vec![0; self.jobs.len()],
            cells: String::new(),
        };
        let known = &mut self.switches[switch];
        let runs: BTreeMap<Epoch, usize> = known
            .served
            .runs
            .keys()
            .filter_map(|run| Some((run.epoch, *self.positions.get(&run.job)?)))
            .collect();
        for (run, counts) in &known.counts {
            if let Some(&job) = self.positions.get(&run.job) {
                sample.counts[job] = counts.clone();
            }
        }
        let Some(size) = known.registers().map(Registers::size) else { return sample };
        let holder = |aggregator: u32| {
            let held = known.held.get(&aggregator)?;
            let job = match held.epoch {
                Some(epoch) => runs.get(&epoch).copied(),
                None => {
                    known.segment_of(aggregator).and_then(|id| self.positions.get(&id)).copied()
                }
            };
            let epoch = held.epoch.map_or(0, Epoch::get);
            Some(Holder { job, task: u64::from(epoch) << 32 | u64::from(held.task) })
        };
        let holders: Vec<_> = pool::shown(size, cells).map(holder).collect();
        for job in holders.iter().flatten().filter_map(|holder| holder.job) {
            sample.held[job] += 1;
        }
        sample.cells = known.tracker.cells(at_us, &holders);
        sample
    }
}

impl Known {
    fn registers(&self) -> Option<&Registers> {
        self.program.as_ref()?.1.as_ref()
    }

    /// Number of its cells, of so many switches.
    fn cells(&self, switches: usize) -> u32 {
        let room = u32::try_from(MOST_CELLS / switches.max(1)).unwrap_or(0);
        self.registers().map_or(0, |registers| registers.size().min(room))
    }

    fn segment_of(&self, aggregator: u32) -> Option<JobId> {
        let its = self.served.segments.iter().find(|(_, segment)| segment.contains(&aggregator));
        its.map(|(job, _)| *job)
    }

    /// Reads everything. After an error, the next call connects anew.
    async fn read(&mut self, switches: usize) -> Result<(), Error> {
        let read = self.read_with(switches).await;
        if read.is_err() {
            self.client = None;
        }
        read
    }

    async fn read_with(&mut self, switches: usize) -> Result<(), Error> {
        let client = match &self.client {
            Some(client) => client.clone(),
            None => {
                let client = Client::connect(self.config.clone()).await?;
                self.program = None;
                self.client.insert(client).clone()
            }
        };
        if self.program.is_none() {
            let info = client.running().await?.and_then(|running| running.p4info);
            // Other programs have no jobs.
            let catalogue = info.as_ref().and_then(|info| Catalogue::new(info).ok());
            let Some((info, catalogue)) = info.as_ref().zip(catalogue) else { return Ok(()) };
            let registers = match Registers::new(info) {
                Some(registers) => {
                    let readable = client.read(registers.request([0])).await;
                    readable.is_ok_and(|answer| !answer.is_empty()).then_some(registers)
                }
                None => None,
            };
            self.program = Some((catalogue, registers));
        }
        let cells = self.cells(switches);
        let Some((catalogue, registers)) = &self.program else { return Ok(()) };
        let tables = client.read(Served::request(catalogue)).await?;
        self.served = Served::of(catalogue, &tables);
        let mut counts = BTreeMap::new();
        let runs: Vec<_> = self.served.runs.iter().collect();
        let evictions = match outcomes::evictions_request(catalogue) {
            request if request.is_empty() => Vec::new(),
            request => client.read(request).await?,
        };
        for some in runs.chunks(RUNS) {
            let request = some.iter();
            let request = request.flat_map(|(_, slot)| Outcomes::request(catalogue, Some(**slot)));
            let answer = client.read(request.collect()).await?;
            for (run, slot) in some {
                let outcomes = Outcomes::of(catalogue, Some(**slot), &answer);
                let mut counted = BTreeMap::new();
                let evicted = outcomes::evictions(catalogue, run.epoch, &evictions);
                tributary_run::watch::add(&mut counted, &outcomes, evicted);
                counts.insert(**run, counted);
            }
        }
        self.counts = counts;
        if let Some(registers) = registers {
            let shown = pool::shown(registers.size(), cells);
            let answer = client.read(registers.request(shown)).await?;
            self.held = registers.held(&answer);
        }
        Ok(())
    }
}

fn tell(hub: &Hub, at_us: u64, weight: Weight, text: String) {
    // A recording begins with the scene.
    if hub.look(|history| history.scene().is_some()) {
        hub.push(Line::Note(Note { at_us, weight, job: None, text }));
    }
}
