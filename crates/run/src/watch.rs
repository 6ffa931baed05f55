//! The live view of a run: samples of its switches and workers, for the viewers of a hub.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::diagnosis::Diagnosis;
use crate::live::Hub;
use crate::live::model::{
    self, Clock, Finding, JobSample, Line, LinkSample, MOST_CELLS, MOST_JOBS, Node, Note, Sample,
    Scene, SwitchSample, VERSION, Weight, WorkerSample,
};
use crate::live::pool::{self, Holder, Tracker};
use anyhow::{Context, Result};
use tributary_controller::Catalogue;
use tributary_controller::aggregators::{Held, Registers, Served};
use tributary_controller::outcomes::{Count, Outcomes};
use tributary_model::{Deployment, End, JobSpec, Scenario, SwitchId, worker_index};
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_wire::{Bitmap, Epoch, JobId};

use crate::Fabric;
use crate::fabric::Kind;

/// Time between samples at first. It doubles after every [`SAMPLES`] of them, up to [`LONGEST`] in real
/// time.
const REAL: Duration = Duration::from_millis(50);
const VIRTUAL: Duration = Duration::from_micros(20);
const SAMPLES: u32 = 600;
const LONGEST: Duration = Duration::from_millis(500);

/// Sampling takes at most one of so many parts of real time.
const SHARE: u32 = 10;

/// How long a sample may wait for a switch.
const PATIENCE: Duration = Duration::from_secs(1);

/// Samples a run.
pub(crate) struct Sampler {
    hub: Hub,
    scene: Scene,
    /// `None` if the switches do not let registers be read.
    registers: Option<Registers>,
    /// By switch.
    trackers: Vec<Tracker>,
    /// Position in the scene, by the index of a job or of a lane.
    positions: Vec<usize>,
    /// Position in the scene, by the epoch of a job or of a lane, and by its number.
    runs: BTreeMap<Epoch, usize>,
    ids: BTreeMap<JobId, usize>,
    catalogue: Catalogue,
    /// Of the links.
    ends: Vec<[End; 2]>,
    /// By position: each worker's switch, and its bitmap there.
    places: Vec<Vec<(SwitchId, Bitmap)>>,
    /// By position: rounds of each worker.
    rounds: Vec<Vec<u64>>,
    /// By position: workers that have ended.
    ended: Vec<usize>,
    next: Duration,
    interval: Duration,
    taken: u32,
    real: bool,
}

impl Sampler {
    /// Describes the run to the hub.
    pub(crate) async fn begin(
        hub: &Hub,
        deployment: &Deployment,
        info: &P4Info,
        fabric: &impl Fabric,
        kind: Kind,
    ) -> Result<Self> {
        let scenario = deployment.scenario();
        let registers = readable(info, fabric).await;
        let switches = scenario.network.topology.switches.len();
        let room = u32::try_from(MOST_CELLS / switches.max(1)).unwrap_or(0);
        let pool = scenario.network.switch.pool;
        let cells = registers.map_or(0, |registers| registers.size().min(pool).min(room));
        let whole: Vec<_> = scenario.whole_jobs().take(MOST_JOBS).collect();
        let mut positions = vec![usize::MAX; scenario.jobs.len()];
        let (mut runs, mut ids) = (BTreeMap::new(), BTreeMap::new());
        for (position, (first, _)) in whole.iter().enumerate() {
            for lane in scenario.lanes(*first) {
                positions[lane] = position;
                runs.insert(scenario.jobs[lane].epoch, position);
                ids.insert(scenario.jobs[lane].id, position);
            }
        }
        let places = whole.iter().map(|(index, job)| places(deployment, *index, job)).collect();
        let scene = scene(scenario, kind, cells)?;
        hub.push(Line::Scene(scene.clone()));
        let interval = if kind == Kind::Sim { VIRTUAL } else { REAL };
        Ok(Self {
            hub: hub.clone(),
            registers: registers.filter(|_| cells > 0),
            trackers: vec![Tracker::default(); switches],
            positions,
            runs,
            ids,
            catalogue: Catalogue::new(info)?,
            ends: scenario.network.topology.links.iter().map(|link| link.ends).collect(),
            places,
            rounds: scene.jobs.iter().map(|job| vec![0; job.workers.len()]).collect(),
            ended: vec![0; scene.jobs.len()],
            scene,
            next: Duration::ZERO,
            interval,
            taken: 0,
            real: kind != Kind::Sim,
        })
    }

    /// A worker of the job with this index has finished a round.
    pub(crate) fn round(&mut self, job: usize, worker: usize, done: u64) {
        if let Some(rounds) = self.rounds.get_mut(self.positions[job])
            && let Some(rounds) = rounds.get_mut(worker)
        {
            *rounds = done;
        }
    }

    /// A worker of the job with this index has ended.
    pub(crate) fn done(&mut self, job: usize) {
        if let Some(ended) = self.ended.get_mut(self.positions[job]) {
            *ended += 1;
        }
    }

    /// An event that samples do not show, of the job with this index.
    pub(crate) fn note(&self, at: Duration, weight: Weight, job: Option<usize>, text: &str) {
        self.note_of(at, weight, job.map(|job| self.positions[job]), text);
    }

    /// The same of the job at this position.
    pub(crate) fn note_of(&self, at: Duration, weight: Weight, job: Option<usize>, text: &str) {
        let job = job.filter(|&job| job < self.scene.jobs.len());
        let note = Note { at_us: micros(at), weight, job, text: text.to_owned() };
        self.hub.push(Line::Note(note));
    }

    /// Whether a sample is due at this time.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// Takes a sample.
    pub(crate) async fn sample(&mut self, fabric: &mut impl Fabric, diagnosis: &Diagnosis) {
        let (now, begun) = (fabric.elapsed(), Instant::now());
        let real = self.real;
        let sample = self.read(fabric, diagnosis, micros(now));
        let sample = match real {
            true => tokio::time::timeout(PATIENCE, sample).await.unwrap_or(None),
            // No time passes there.
            false => sample.await,
        };
        if let Some(sample) = sample {
            self.hub.push(Line::Sample(sample));
        }
        self.taken += 1;
        if self.taken.is_multiple_of(SAMPLES) {
            let longest = if self.real { LONGEST } else { Duration::MAX };
            self.interval = self.interval.saturating_mul(2).min(longest);
        }
        let pause = if self.real { SHARE * begun.elapsed() } else { Duration::ZERO };
        self.next = fabric.elapsed().max(now) + self.interval.max(pause);
        fabric.pause_at(self.next);
    }

    /// `None` if a switch does not answer, which the run notices by itself.
    async fn read(
        &mut self,
        fabric: &impl Fabric,
        diagnosis: &Diagnosis,
        at_us: u64,
    ) -> Option<Sample> {
        let jobs = self.scene.jobs.len();
        let mut switches = vec![SwitchSample::default(); self.scene.switches.len()];
        for switch in &mut switches {
            switch.counts = vec![BTreeMap::new(); jobs];
            switch.held = vec![0; jobs];
        }
        for (index, &position) in self.positions.iter().enumerate() {
            if position >= jobs {
                continue;
            }
            for (switch, counted) in fabric.counts(index).await.ok()? {
                let counts = &mut switches[switch.0].counts[position];
                add(counts, &counted.outcomes, counted.evictions);
            }
        }
        let mut awaited: Vec<Vec<u32>> =
            self.rounds.iter().map(|workers| vec![0; workers.len()]).collect();
        let mut known = Vec::new();
        if let Some(registers) = self.registers {
            for (id, switch) in switches.iter_mut().enumerate() {
                let shown: Vec<u32> =
                    pool::shown(registers.size(), self.scene.switches[id].cells).collect();
                let request = registers.request(shown.iter().copied());
                let answer = fabric.read(SwitchId(id), request).await.ok()?;
                let held = registers.held(&answer);
                let segments = self.segments(fabric, SwitchId(id)).await;
                let holder = |aggregator: &u32| {
                    let held = held.get(aggregator)?;
                    let job = self.job_of(*aggregator, held, &segments);
                    Some((job, *held))
                };
                let holders: Vec<_> = shown.iter().map(holder).collect();
                for (job, held) in holders.iter().flatten() {
                    let Some(job) = *job else { continue };
                    switch.held[job] += 1;
                    for (place, awaited) in self.places[job].iter().zip(&mut awaited[job]) {
                        let (own, bitmap) = *place;
                        *awaited += u32::from(own.0 == id && held.waits_for(bitmap));
                    }
                }
                let task = |(job, held): (Option<usize>, Held)| {
                    let epoch = held.epoch.map_or(0, Epoch::get);
                    Holder { job, task: u64::from(epoch) << 32 | u64::from(held.task) }
                };
                known.push(holders.into_iter().map(|held| held.map(task)).collect::<Vec<_>>());
            }
        }
        let links = self.links(fabric, diagnosis).await;
        // Nothing is awaited from here on: a sample that is given up has changed nothing.
        for ((switch, tracker), holders) in switches.iter_mut().zip(&mut self.trackers).zip(known) {
            switch.cells = tracker.cells(at_us, &holders);
        }
        let worker = |((&rounds, awaited), (resent, late_us))| WorkerSample {
            rounds,
            awaited,
            resent,
            late_us,
        };
        let jobs = self.rounds.iter().zip(awaited).zip(&self.ended).enumerate();
        let jobs = jobs.map(|(position, ((rounds, awaited), &ended))| JobSample {
            workers: rounds
                .iter()
                .zip(awaited)
                .zip(diagnosis.workers(position))
                .map(worker)
                .collect(),
            over: ended >= rounds.len(),
        });
        let shown = |finding: &&Finding| finding.job.is_none_or(|job| job < self.scene.jobs.len());
        let findings = diagnosis.findings().iter().filter(shown).cloned().collect();
        Some(Sample { at_us, jobs: jobs.collect(), switches, links, findings })
    }

    /// The job that holds an aggregator, by position.
    fn job_of(
        &self,
        aggregator: u32,
        held: &Held,
        segments: &BTreeMap<JobId, Range<u32>>,
    ) -> Option<usize> {
        let Some(epoch) = held.epoch else {
            let (id, _) = segments.iter().find(|(_, segment)| segment.contains(&aggregator))?;
            return self.ids.get(id).copied();
        };
        self.runs.get(&epoch).copied()
    }

    /// The aggregators of jobs that have their own. They may move.
    async fn segments(
        &self,
        fabric: &impl Fabric,
        switch: SwitchId,
    ) -> BTreeMap<JobId, Range<u32>> {
        if self.catalogue.pool().is_none() {
            return BTreeMap::new();
        }
        let answer = fabric.read(switch, Served::request(&self.catalogue)).await;
        answer.map_or_else(|_| BTreeMap::new(), |it| Served::of(&self.catalogue, &it).segments)
    }

    /// What the ports at the ends of links counted: each direction at the switch that sends, or else at
    /// the one that receives.
    async fn links(&self, fabric: &impl Fabric, diagnosis: &Diagnosis) -> Vec<LinkSample> {
        let mut ports = BTreeMap::new();
        for switch in 0..self.scene.switches.len() {
            for (port, count) in fabric.ports(SwitchId(switch)).await {
                ports.insert((switch, port), count);
            }
        }
        if ports.is_empty() {
            return Vec::new();
        }
        let link = |(number, ends): (usize, &[End; 2])| {
            let mut link = LinkSample { lost: diagnosis.lost(number), ..LinkSample::default() };
            for (way, end) in ends.iter().enumerate() {
                if let End::Switch(switch, port) = end
                    && let Some(count) = ports.get(&(switch.0, *port))
                {
                    link.bytes[way] = count.sent;
                    link.drops[way] = count.drops;
                    if matches!(ends[1 - way], End::Host(_)) {
                        link.bytes[1 - way] = count.received;
                    }
                }
            }
            link
        };
        self.ends.iter().enumerate().map(link).collect()
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The program's registers, if the switches let them be read.
async fn readable(info: &P4Info, fabric: &impl Fabric) -> Option<Registers> {
    let registers = Registers::new(info)?;
    let one = fabric.read(SwitchId(0), registers.request([0]));
    one.await.is_ok_and(|answer| !answer.is_empty()).then_some(registers)
}

fn places(deployment: &Deployment, index: usize, job: &JobSpec) -> Vec<(SwitchId, Bitmap)> {
    let topology = &deployment.scenario().network.topology;
    let racks = deployment.placement(index).racks(topology);
    let place = |(worker, &host)| {
        let (switch, _) = topology.attachment(host);
        (switch, racks.name(worker_index(worker)).1)
    };
    job.workers.iter().enumerate().map(place).collect()
}

fn scene(scenario: &Scenario, kind: Kind, cells: u32) -> Result<Scene> {
    let topology = &scenario.network.topology;
    let node = |end| match end {
        End::Host(host) => Node::Host(host.0),
        End::Switch(switch, _) => Node::Switch(switch.0),
    };
    let rate = |rate: Option<u64>| match kind {
        Kind::Sim => Some(rate.unwrap_or(tributary_sim::Cable::default().bandwidth as u64)),
        Kind::Memory | Kind::Netns => None,
    };
    let jobs = scenario.whole_jobs().take(MOST_JOBS).map(|(_, job)| {
        let rounds = tributary_worker::workload::of(job, 0).map(|workload| workload.rounds());
        let server = job.ps.map(|host| host.0);
        Ok(model::ShownJob {
            name: job.name.clone(),
            workers: job.workers.iter().map(|host| host.0).collect(),
            server,
            agent: job.agent.map(|host| host.0).filter(|&agent| Some(agent) != server),
            rounds: Some(rounds.with_context(|| format!("job {}", job.name))?),
        })
    });
    let links = topology.links.iter().map(|link| model::Link {
        ends: link.ends.map(node),
        rate: rate(link.rate),
        loss: link.faults.loss,
    });
    let switches = topology.switches.iter().map(|switch| model::ShownSwitch {
        name: switch.name.clone(),
        pool: scenario.network.switch.pool,
        cells,
    });
    let hosts = topology.hosts.iter().map(|host| model::Host { name: host.name.clone() });
    let scene = Scene {
        version: VERSION,
        name: scenario.name.clone(),
        protocol: scenario.network.protocol.name().to_owned(),
        fabric: kind.name().to_owned(),
        clock: if kind == Kind::Sim { Clock::Virtual } else { Clock::Real },
        switches: switches.collect(),
        hosts: hosts.collect(),
        links: links.collect(),
        jobs: jobs.collect::<Result<_>>()?,
    };
    scene.check().context("--watch and --record")?;
    Ok(scene)
}

/// Adds what a switch counted to the counts of a sample.
pub fn add(counts: &mut BTreeMap<String, u64>, outcomes: &Outcomes, evictions: Count) {
    let outcomes = outcomes.iter().map(|(outcome, count)| (outcome.name(), count.packets));
    for (name, packets) in outcomes.chain([("evicted", evictions.packets)]) {
        if packets > 0 {
            *counts.entry(name.to_owned()).or_default() += packets;
        }
    }
}
