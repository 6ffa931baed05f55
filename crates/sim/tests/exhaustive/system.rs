//! The parts of a system and their single steps.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tributary_controller::programs::Source;
use tributary_model::jobfile::parse;
use tributary_model::{
    Deployment, End, JobSpec, Scenario,
    plan::{self, Placement},
};
use tributary_protocol::esa::AgentJob;
use tributary_protocol::priority::Priority;
use tributary_protocol::{
    ConfigError, Exchange, JobConfig, ParameterServer, Parts, PsConfig, Recovery, Tensor, Terms,
};
use tributary_wire::agg::Repr;
use tributary_wire::channel::{FromWorker, ToWorker};
use tributary_wire::{
    AggregatorIndex, Audience, Bitmap, Ecn, Envelope, Epoch, Flags, Host, JobId, Kind, Protocol,
    Rack, Sequence, WorkerIndex, emit_frame,
};

use crate::endpoints::{Labourer, Office, Output, is_something, timing};
use crate::hardware::{Hardware, Passed, Registers, Waiting};
use crate::model::{from_worker, result_of, to_worker, turned_back};
use crate::store::{Memo, Store};

/// Values per fragment.
const VALUES: usize = 32;
/// Maximum number of collisions before a cell is taken: each lowers its priority by six levels.
const MOST_COLLISIONS: usize = 43;

/// Creates a PS of ATP or P4INC.
type NewServer = fn(PsConfig) -> Result<ParameterServer, ConfigError>;

/// The system to be searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// The protocol, and so the program.
    pub(crate) protocol: &'static str,
    /// `[topology]` of the job file.
    pub(crate) topology: &'static str,
    /// Levels in which packets name workers: 1 or 2.
    pub(crate) levels: u8,
    /// Workers of each job.
    pub(crate) workers: &'static [usize],
    /// Priorities of each job's fragments.
    pub(crate) priorities: &'static [&'static [u8]],
    /// Window and slots.
    pub(crate) slots: u32,
    /// P4INC: aggregators of each job. ATP: aggregators of all jobs.
    pub(crate) segment: u32,
    /// P4INC, SwitchML: values are floats, too large for the first scale, and those of the second
    /// fragment also for the next scale.
    pub(crate) too_great: bool,
    /// The workers' loss recovery.
    pub(crate) recovery: Recovery,
    /// Whether workers begin at any time, instead of at once.
    pub(crate) late_starts: bool,
    /// Whether workers leave and wait to be dismissed.
    pub(crate) leave: bool,
    /// Whether workers ignore channel messages: a fault that the search must find.
    pub(crate) deaf: bool,
    /// What workers do with parts of tensors: fragment *n* is worker *n*'s, and so on in turns.
    pub(crate) parts: Option<Exchange>,
    /// Whether the second job is a later run of the first.
    pub(crate) again: Option<Again>,
}

/// How switches change to a later run of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Again {
    /// With a sweep of the previous run, as the controller does.
    Swept,
    /// Without a sweep.
    Unswept,
    /// With a sweep, but the same epoch for both runs: a fault that the search must find.
    SameEpoch,
}

/// A packet in flight.
#[derive(Debug)]
pub(crate) enum Item {
    ToSwitch {
        port: u16,
        frame: Vec<u8>,
    },
    ToHost {
        frame: Vec<u8>,
    },
    /// Between two passes.
    Again {
        waiting: Box<Waiting>,
    },
}

/// A direction of a reliable channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Channel {
    pub(crate) job: usize,
    worker: usize,
    /// The receiving part.
    pub(crate) part: usize,
}

#[derive(Debug)]
enum Message {
    Up(FromWorker),
    Down(ToWorker),
}

#[derive(Debug)]
enum Part {
    /// Locked, because threads cannot share a worker.
    Worker(Box<Mutex<Labourer>>),
    Office(Box<Office>),
    /// With the stage of the switch: before its entries were changed, or after.
    Cell(usize, Registers),
}

/// An input of a part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Stimulus {
    Item(u32),
    Message(u32),
    Timer,
    Submit,
    Reconnect,
    /// The entries of the next stage replace the present ones.
    Renew,
}

/// The result of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Effect {
    pub(crate) part: u32,
    pub(crate) items: Vec<u32>,
    pub(crate) messages: Vec<u32>,
    pub(crate) trouble: Option<u32>,
}

#[derive(Debug)]
struct JobPlace {
    id: JobId,
    config: JobConfig,
    workers: std::ops::Range<usize>,
    hosts: Vec<Host>,
    /// ESA.
    agent: Option<AgentJob>,
}

/// Parts, packets, messages, and all steps taken.
#[derive(Debug)]
pub(crate) struct System {
    setting: Setting,
    scenario: Scenario,
    jobs: Vec<JobPlace>,
    workers: usize,
    /// The other ends of each switch's ports.
    ends: Vec<Vec<End>>,
    hardware: Mutex<Hardware>,
    /// Separate hardware, so that tests of cells are not counted.
    bench: Mutex<Hardware>,
    parts: Store<Part>,
    items: Store<Item>,
    messages: Store<(Channel, Message)>,
    troubles: Store<String>,
    memo: Memo<(u32, Stimulus), Option<Arc<Effect>>>,
    /// The receivers of items and channels, by number.
    addressees: Memo<u32, usize>,
    channels: Memo<u32, Channel>,
}

impl System {
    pub(crate) fn new(setting: Setting, source: &Source) -> Self {
        let Setting { protocol, topology, levels, slots, segment, workers, .. } = setting;
        let jobs = u32::try_from(workers.len()).unwrap();
        let (memory, more) = match protocol {
            "p4inc" => (format!("pool = {}", jobs * segment), format!("segment = {segment}\n")),
            "atp" => (format!("pool = {}", segment.max(1)), String::new()),
            "switchml" => {
                (format!("pool = {}\npartitions = {jobs}", jobs * 2 * slots), String::new())
            }
            _ => ("pool = 1".into(), String::new()),
        };
        let mut file = format!(
            "protocol = {{ kind = \"{protocol}\", values_per_packet = {VALUES}, slots = {slots}, \
             window = {slots}, scale = 1.0 }}\n[topology]\n{topology}\n[switch]\n{memory}\n"
        );
        for workers in workers {
            file.push_str(&format!("[[job]]\nlevels = {levels}\nworkers = {workers}\n{more}"));
        }
        let mut scenario =
            parse(&file, "exhaustive.toml").unwrap_or_else(|error| panic!("{error}"));
        let deployment = Deployment::new(scenario.clone()).unwrap();
        let assigned = |job| (deployment.job(job).id, deployment.assignment(job));
        let assignments: BTreeMap<_, _> = (0..scenario.jobs.len()).map(assigned).collect();
        let mut stages: Vec<_> = std::iter::once(0..workers.len()).collect();
        if setting.again.is_some() {
            let same = setting.again == Some(Again::SameEpoch);
            let epoch = scenario.jobs[usize::from(!same)].epoch;
            scenario.jobs[1] = JobSpec { epoch, ..scenario.jobs[0].clone() };
            stages = vec![0..1, 1..2];
        }
        let topology = &scenario.network.topology;
        let mut first = 0;
        let jobs: Vec<JobPlace> = scenario
            .jobs
            .iter()
            .map(|job| {
                let workers = first..first + job.workers.len();
                first = workers.end;
                let config = scenario.network.job_config(job, assignments[&job.id]);
                let host = |id| topology.host(id).address;
                let same = |known: &usize| deployment.job(*known).id == job.id;
                let known = (0..deployment.scenario().jobs.len()).find(same).expect("a known ID");
                let agent = deployment.agent(known).expect("the PS sees all");
                let agent = agent.map(|agent| AgentJob { job: config, ..agent });
                JobPlace {
                    id: job.id,
                    config,
                    workers,
                    hosts: job.workers.iter().map(|&id| host(id)).collect(),
                    agent,
                }
            })
            .collect();
        let ends = topology.switch_ids();
        let ends = ends.map(|id| topology.ports(id).map(|(_, _, end)| end).collect()).collect();
        let hardware = || Mutex::new(Hardware::new(source, &scenario, &assignments, &stages));
        let (hardware, bench) = (hardware(), hardware());
        Self {
            workers: first,
            ends,
            hardware,
            bench,
            jobs,
            scenario,
            setting,
            parts: Store::default(),
            items: Store::default(),
            messages: Store::default(),
            troubles: Store::default(),
            memo: Memo::new(),
            addressees: Memo::new(),
            channels: Memo::new(),
        }
    }

    pub(crate) fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Number of workers: they are the first parts.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Number of jobs: their PSs are the parts after the workers.
    pub(crate) fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// The part that is a job's PS.
    pub(crate) fn office(&self, job: usize) -> usize {
        self.workers + job
    }

    pub(crate) fn workers_of(&self, job: usize) -> std::ops::Range<usize> {
        self.jobs[job].workers.clone()
    }

    /// The initial state of all parts.
    pub(crate) fn initial(&self) -> Vec<u32> {
        let mut parts = Vec::new();
        for part in 0..self.workers {
            parts.push(self.put_worker(part, self.labourer(part)));
        }
        parts.extend((0..self.jobs.len()).map(|job| self.new_office(job, ParameterServer::new)));
        let hardware = usable(&self.hardware);
        let (switches, empty) = (hardware.switches(), hardware.empty());
        drop(hardware);
        for switch in 0..switches {
            parts.push(self.put_cell(switch, 0, empty.clone()).0);
        }
        parts
    }

    fn job_of(&self, worker: usize) -> usize {
        self.jobs.iter().position(|job| job.workers.contains(&worker)).expect("a job's worker")
    }

    /// The value of a fragment in its first lane: a separate digit in base 8, so that a sum shows
    /// how often it contains each contribution.
    fn digit(&self, job: usize, worker: usize, sequence: usize) -> i32 {
        let first = self.jobs[..job].iter().zip(self.setting.priorities);
        let before: usize = first.map(|(job, layers)| job.hosts.len() * layers.len()).sum();
        let place = before + sequence * self.jobs[job].hosts.len() + worker;
        assert!(place < 9, "the sum of more does not fit");
        1 << (3 * place)
    }

    fn tensor(&self, job: usize, sequence: usize, workers: std::ops::Range<usize>) -> Tensor {
        let sum: i32 = workers.map(|worker| self.digit(job, worker, sequence)).sum();
        let sign = |lane: usize| if lane.is_multiple_of(2) { 1 } else { -1 };
        if self.setting.too_great {
            // Powers of two, which are exact at every scale: at scale 1, two workers' limit is
            // 2^30.
            let sum = sum as f32 * (1 << 28) as f32;
            return Tensor::F32((0..VALUES).map(|lane| sign(lane) as f32 * sum).collect());
        }
        Tensor::I32((0..VALUES).map(|lane| sign(lane) * sum).collect())
    }

    fn labourer(&self, part: usize) -> Labourer {
        let job = self.job_of(part);
        let place = &self.jobs[job];
        let worker = part - place.workers.start;
        let index = WorkerIndex::new(worker as u16).expect("a worker");
        let mut config = self.scenario.network.worker_config(
            &self.scenario.jobs[job],
            place.config.assignment,
            index,
        );
        config.timing = timing(self.setting.recovery);
        let layers = self.setting.priorities[job];
        let workers = place.hosts.len();
        let terms = |sequence: usize| {
            let priority = Priority::new(layers[sequence]).expect("a priority");
            let part = |exchange| Parts::new(exchange).after((sequence % workers) as u32);
            Terms { parts: self.setting.parts.map(part), ..priority.into() }
        };
        let own = |sequence| self.tensor(job, sequence, worker..worker + 1);
        let tensors = (0..layers.len()).map(|sequence| (own(sequence), terms(sequence)));
        let sums = (0..layers.len()).map(|sequence| {
            let owner = sequence % workers;
            match self.setting.parts {
                Some(Exchange::ReduceScatter) if owner != worker => own(sequence),
                Some(Exchange::AllGather) => self.tensor(job, sequence, owner..owner + 1),
                _ => self.tensor(job, sequence, 0..workers),
            }
        });
        Labourer::new(config, tensors.collect(), sums.collect(), self.setting.leave)
    }

    /// A PS that replaces a lost one.
    pub(crate) fn fresh_office(&self, job: usize) -> u32 {
        self.new_office(job, ParameterServer::successor)
    }

    fn new_office(&self, job: usize, plain: NewServer) -> u32 {
        let (its, place) = (&self.scenario.jobs[job], &self.jobs[job]);
        if its.ps.is_none() || self.goes_on(job) {
            return self.put_office(job, Office::nobody());
        }
        let mut config = self.scenario.network.ps_config(its, place.config.assignment);
        config.timing = timing(self.setting.recovery);
        let office = match &place.agent {
            Some(agent) => Office::esa(config, agent.clone()),
            None => Office::server(plain(config).expect("a right config")),
        };
        self.put_office(job, office)
    }

    /// Whether a job is a later run whose PS continues. ESA's does not: the new run has a new
    /// agent.
    fn goes_on(&self, job: usize) -> bool {
        self.setting.again.is_some() && job == 1 && self.setting.protocol != "esa"
    }

    fn put_worker(&self, part: usize, worker: Labourer) -> u32 {
        self.parts
            .put(format!("{part} {}", worker.name()), Part::Worker(Box::new(Mutex::new(worker))))
            .0
    }

    fn put_office(&self, job: usize, office: Office) -> u32 {
        let part = self.office(job);
        self.parts.put(format!("{part} {}", office.name()), Part::Office(Box::new(office))).0
    }

    /// Stores a cell; returns the violation if it is new and fails the test.
    fn put_cell(&self, switch: usize, stage: usize, registers: Registers) -> (u32, Option<String>) {
        let name = format!("cell {switch} {stage} {registers:?}");
        let (number, new) = self.parts.put(name, Part::Cell(stage, registers.clone()));
        let trouble = if new { self.try_out(switch, stage, &registers) } else { None };
        (number, trouble)
    }

    /// I3, I4: every cell can be freed by a sweep, and taken by another task.
    fn try_out(&self, switch: usize, stage: usize, registers: &Registers) -> Option<String> {
        let mut bench = usable(&self.bench);
        let at = bench.at(stage, switch);
        if self.setting.protocol != "esa" {
            let mut swept = registers.clone();
            for job in &self.jobs {
                swept = bench.sweep(at, &swept, job.config.run());
            }
            let clean = swept == bench.empty();
            return (!clean).then(|| format!("I4: sweeps leave something in {registers:?}"));
        }
        let holder = bench.holder(registers);
        let epoch = Epoch::new((holder >> 32) as u32)?;
        let run = self.jobs.iter().map(|job| job.config.run()).find(|run| run.epoch == epoch);
        let run = run.expect("a run of a job holds it");
        let job = run.job;
        let swept = bench.sweep(at, registers, run);
        if bench.holder(&swept) != 0 {
            return Some(format!("I4: a sweep of job {job} does not free its cell {registers:?}"));
        }
        for other in self.jobs.iter().filter(|other| other.id != job) {
            let swept = bench.sweep(at, registers, other.config.run());
            if swept != *registers {
                return Some(format!("I6: a sweep of job {} frees a cell of job {job}", other.id));
            }
        }
        // The other task belongs to another job if there is one.
        let other = self.jobs.iter().find(|other| other.id != job).unwrap_or(&self.jobs[stage]);
        let sequence = Sequence(1000);
        let task = u64::from(other.config.epoch.get()) << 32 | u64::from(sequence.0);
        let (port, rack, bitmap) = self.contributor(switch, other);
        let repr = Repr {
            protocol: Protocol::Esa,
            kind: Kind::Gradient,
            flags: Flags::NONE,
            priority: Priority::LOWEST.get(),
            job: other.id,
            epoch: other.config.epoch,
            values: other.config.values_per_packet,
            sequence,
            bitmap,
            rack,
            audience: Audience::ALL,
            index: other.config.tasks().index(sequence),
        };
        debug_assert_eq!(repr.index, AggregatorIndex(0));
        let envelope =
            Envelope { source: other.hosts[0], destination: self.server(other), ecn: Ecn::Ect0 };
        let mut frame = Vec::new();
        emit_frame(&mut frame, &envelope, &repr);
        let mut cell = registers.clone();
        for _ in 0..=MOST_COLLISIONS {
            cell = bench.run(at, &cell, port, &frame);
            if bench.holder(&cell) == task {
                return None;
            }
        }
        Some(format!("I3: a cell survives {} packets of another task", MOST_COLLISIONS + 1))
    }

    fn server(&self, job: &JobPlace) -> Host {
        job.agent.as_ref().expect("a job of ESA").host
    }

    /// A port of a switch on which fresh gradients of a job arrive, and what they name.
    fn contributor(&self, switch: usize, job: &JobPlace) -> (u16, Rack, Bitmap) {
        let index = self.jobs.iter().position(|other| other.id == job.id).expect("one of ours");
        let parts = plan::job(
            &self.scenario.network.topology,
            &Placement::unassigned(&self.scenario.jobs[index]),
        );
        let part = parts.iter().find(|part| part.switch.0 == switch).expect("on its path");
        let (&port, &unit) = part.units.iter().next().expect("it adds");
        (port, part.rack, unit)
    }

    // --- Steps --------------------------------------------------------------------------------

    /// The result of a stimulus for a part; `None` if it has no effect.
    pub(crate) fn effect(
        &self,
        part: usize,
        number: u32,
        stimulus: Stimulus,
    ) -> Option<Arc<Effect>> {
        let shard = u64::from(number)
            ^ match stimulus {
                Stimulus::Item(item) => u64::from(item) * 7,
                Stimulus::Message(message) => u64::from(message) * 5,
                Stimulus::Timer | Stimulus::Submit | Stimulus::Reconnect | Stimulus::Renew => 3,
            };
        self.memo.get((number, stimulus), shard, || {
            let step = AssertUnwindSafe(|| self.find_effect(part, number, stimulus));
            catch_unwind(step)
                .unwrap_or_else(|panic| {
                    let text = panic.downcast_ref::<String>().cloned();
                    let text =
                        text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
                    let text = format!("panic: {}", text.unwrap_or_default());
                    Some(Effect {
                        part: number,
                        items: Vec::new(),
                        messages: Vec::new(),
                        trouble: Some(self.put_trouble(text)),
                    })
                })
                .map(Arc::new)
        })
    }

    fn find_effect(&self, part: usize, number: u32, stimulus: Stimulus) -> Option<Effect> {
        match &*self.parts.get(number) {
            Part::Worker(worker) => {
                let worker = worker.lock().unwrap().clone();
                self.worker_effect(part, worker, stimulus)
            }
            Part::Office(office) => self.office_effect(part, (**office).clone(), stimulus),
            Part::Cell(stage, registers) => self.cell_effect(part, *stage, registers, stimulus),
        }
    }

    fn worker_effect(
        &self,
        part: usize,
        mut worker: Labourer,
        stimulus: Stimulus,
    ) -> Option<Effect> {
        let output = match stimulus {
            Stimulus::Item(item) => match &*self.items.get(item) {
                Item::ToHost { frame, .. } => worker.frame(frame),
                _ => unreachable!("for a switch"),
            },
            Stimulus::Message(message) => match &self.messages.get(message).1 {
                Message::Down(_) if self.setting.deaf => Output::default(),
                Message::Down(message) => worker.message(message.clone()),
                Message::Up(_) => unreachable!("for a PS"),
            },
            Stimulus::Timer => worker.timer().filter(is_something)?,
            Stimulus::Submit => worker.submit(),
            Stimulus::Reconnect => worker.reconnected(),
            Stimulus::Renew => unreachable!("switches are"),
        };
        let job = self.job_of(part);
        let channel =
            Channel { job, worker: part - self.jobs[job].workers.start, part: self.office(job) };
        let messages = output.messages.into_iter().map(|message| {
            let name = format!("{channel:?} {message:?}");
            self.put_message(name, channel, Message::Up(message))
        });
        Some(Effect {
            messages: messages.collect(),
            part: self.put_worker(part, worker),
            items: self.sent(part, output.frames),
            trouble: output.trouble.map(|text| self.put_trouble(text)),
        })
    }

    fn office_effect(&self, part: usize, mut office: Office, stimulus: Stimulus) -> Option<Effect> {
        let job = part - self.workers;
        let output = match stimulus {
            Stimulus::Item(item) => match &*self.items.get(item) {
                Item::ToHost { frame, .. } => office.frame(frame),
                _ => unreachable!("for a switch"),
            },
            Stimulus::Message(number) => match &*self.messages.get(number) {
                (channel, Message::Up(message)) => {
                    office.message(channel.worker as u8, message.clone())
                }
                _ => unreachable!("for a worker"),
            },
            Stimulus::Timer => office.timer().filter(is_something)?,
            Stimulus::Submit | Stimulus::Reconnect => unreachable!("workers do"),
            Stimulus::Renew => unreachable!("switches are"),
        };
        let messages = output.messages.into_iter().map(|(worker, message)| {
            let worker = usize::from(worker);
            let channel = Channel { job, worker, part: self.jobs[job].workers.start + worker };
            let name = format!("{channel:?} {message:?}");
            self.put_message(name, channel, Message::Down(message))
        });
        Some(Effect {
            messages: messages.collect(),
            part: self.put_office(job, office),
            items: self.sent(part, output.frames),
            trouble: output.trouble.map(|text| self.put_trouble(text)),
        })
    }

    fn cell_effect(
        &self,
        part: usize,
        stage: usize,
        registers: &Registers,
        stimulus: Stimulus,
    ) -> Option<Effect> {
        let switch = part - self.workers - self.jobs.len();
        let item = match stimulus {
            Stimulus::Item(item) => item,
            Stimulus::Renew => return Some(self.renewed(switch, registers)),
            _ => return None,
        };
        let (after, passed) = {
            let mut hardware = usable(&self.hardware);
            let switch = hardware.at(stage, switch);
            match &*self.items.get(item) {
                Item::ToSwitch { port, frame, .. } => {
                    hardware.arrive(switch, registers, *port, frame)
                }
                Item::Again { waiting, .. } => hardware.again(switch, registers, waiting),
                Item::ToHost { .. } => unreachable!("for a host"),
            }
        };
        let (cell, trouble) = self.put_cell(switch, stage, after);
        let mut items = match passed {
            Passed::Again(waiting) => {
                let name = format!("again {switch} {}", waiting.name());
                vec![self.put_item(name, part, Item::Again { waiting })]
            }
            Passed::Out(frames) => {
                let leave = |(port, frame)| self.leaves(switch, port, frame);
                frames.into_iter().flat_map(leave).collect()
            }
        };
        items.sort_unstable();
        let trouble = trouble.map(|text| self.put_trouble(text));
        Some(Effect { part: cell, items, messages: Vec::new(), trouble })
    }

    /// A switch gets the entries of the later run.
    fn renewed(&self, switch: usize, registers: &Registers) -> Effect {
        let after = match self.setting.again {
            Some(Again::Swept | Again::SameEpoch) => {
                let mut hardware = usable(&self.hardware);
                let at = hardware.at(0, switch);
                hardware.sweep(at, registers, self.jobs[0].config.run())
            }
            _ => registers.clone(),
        };
        let (part, trouble) = self.put_cell(switch, 1, after);
        let trouble = trouble.map(|text| self.put_trouble(text));
        Effect { part, items: Vec::new(), messages: Vec::new(), trouble }
    }

    /// The host of an endpoint, if there is one.
    fn host_of(&self, part: usize) -> Option<tributary_model::HostId> {
        if part < self.workers {
            let job = self.job_of(part);
            Some(self.scenario.jobs[job].workers[part - self.jobs[job].workers.start])
        } else if self.goes_on(part - self.workers) {
            None
        } else {
            self.scenario.jobs[part - self.workers].ps
        }
    }

    /// Frames leave the host of an endpoint.
    fn sent(&self, part: usize, frames: Vec<Vec<u8>>) -> Vec<u32> {
        let Some(host) = self.host_of(part) else { return Vec::new() };
        let (switch, port) = self.scenario.network.topology.attachment(host);
        frames.into_iter().map(|frame| self.arrives(switch.0, port, frame)).collect()
    }

    fn arrives(&self, switch: usize, port: u16, frame: Vec<u8>) -> u32 {
        let part = self.workers + self.jobs.len() + switch;
        let name = format!("switch {switch} {port} {frame:?}");
        self.put_item(name, part, Item::ToSwitch { port, frame })
    }

    /// A frame leaves a switch. A host passes it to each of its endpoints.
    fn leaves(&self, switch: usize, port: u16, frame: Vec<u8>) -> Vec<u32> {
        match self.ends[switch][usize::from(port) - 1] {
            End::Switch(next, into) => vec![self.arrives(next.0, into, frame)],
            End::Host(host) => {
                let parts = 0..self.workers + self.jobs.len();
                let there = parts.filter(|&part| self.host_of(part) == Some(host));
                let shown = there.map(|part| {
                    let name = format!("host {part} {frame:?}");
                    self.put_item(name, part, Item::ToHost { frame: frame.clone() })
                });
                shown.collect()
            }
        }
    }

    fn put_item(&self, name: String, part: usize, item: Item) -> u32 {
        let (number, _) = self.items.put(name, item);
        self.addressees.get(number, number.into(), || part);
        number
    }

    fn put_message(&self, name: String, channel: Channel, message: Message) -> u32 {
        let (number, _) = self.messages.put(name, (channel, message));
        self.channels.get(number, number.into(), || channel);
        number
    }

    fn put_trouble(&self, text: String) -> u32 {
        self.troubles.put(text.clone(), text).0
    }

    // --- What is asked of states --------------------------------------------------------------

    /// The part at which an item arrives.
    pub(crate) fn addressee(&self, item: u32) -> usize {
        self.addressees.get(item, item.into(), || unreachable!("all items have one"))
    }

    pub(crate) fn channel(&self, message: u32) -> Channel {
        self.channels.get(message, message.into(), || unreachable!("all messages have one"))
    }

    pub(crate) fn item(&self, item: u32) -> Arc<Item> {
        self.items.get(item)
    }

    /// Whether an item waits inside a switch, where it cannot be lost or duplicated.
    pub(crate) fn is_inside(&self, item: u32) -> bool {
        matches!(&*self.items.get(item), Item::Again { .. })
    }

    pub(crate) fn trouble(&self, number: u32) -> String {
        (*self.troubles.get(number)).clone()
    }

    /// Whether a packet for a worker, or a gradient for a switch, can no longer have any effect.
    pub(crate) fn is_spent(&self, part: usize, number: u32, item: u32) -> bool {
        if part >= self.workers && self.setting.protocol == "esa" {
            return false;
        }
        let over = match (&*self.items.get(item), &*self.parts.get(number)) {
            (Item::ToHost { frame, .. }, Part::Worker(worker)) => {
                let worker = worker.lock().unwrap();
                result_of(frame).is_some_and(|sequence| worker.has_sent(sequence))
                    || turned_back(frame).is_some_and(|sequence| worker.is_over(sequence))
            }
            (Item::ToSwitch { frame, .. }, Part::Cell(_, registers)) => {
                usable(&self.bench).is_behind(registers, frame)
            }
            _ => false,
        };
        let effect = || self.effect(part, number, Stimulus::Item(item));
        over && effect().is_some_and(|effect| {
            effect.part == number
                && effect.items.is_empty()
                && effect.messages.is_empty()
                && effect.trouble.is_none()
        })
    }

    /// The parts of switches whose entries have not been changed yet.
    pub(crate) fn unchanged(&self, parts: &[u32]) -> Vec<usize> {
        let first = self.workers + self.jobs.len();
        let before = |part: &usize| matches!(&*self.parts.get(parts[*part]), Part::Cell(0, _));
        let switches = first..parts.len();
        switches.filter(|_| self.setting.again.is_some()).filter(before).collect()
    }

    /// Whether an endpoint belongs to a run that ends when the switches change.
    pub(crate) fn is_of_the_run_before(&self, part: usize) -> bool {
        let job = if part < self.workers { self.job_of(part) } else { part - self.workers };
        self.setting.again.is_some() && job == 0 && (part < self.workers || !self.goes_on(1))
    }

    /// Whether a worker has not begun.
    pub(crate) fn waits(&self, number: u32) -> bool {
        matches!(&*self.parts.get(number), Part::Worker(worker) if worker.lock().unwrap().waits())
    }

    /// Whether an endpoint is done.
    pub(crate) fn is_done(&self, number: u32) -> bool {
        match &*self.parts.get(number) {
            Part::Worker(worker) => worker.lock().unwrap().is_done(),
            Part::Office(office) => office.is_done(),
            Part::Cell(..) => true,
        }
    }

    // --- For people ---------------------------------------------------------------------------

    pub(crate) fn part_name(&self, part: usize) -> String {
        if part < self.workers {
            let job = self.job_of(part);
            let job = &self.jobs[job];
            format!("worker {} of {}", part - job.workers.start, job.config.run())
        } else if part < self.workers + self.jobs.len() {
            format!("PS of {}", self.jobs[part - self.workers].config.run())
        } else {
            format!("switch {}", part - self.workers - self.jobs.len())
        }
    }

    pub(crate) fn message_words(&self, number: u32) -> String {
        let message = self.messages.get(number);
        let (channel, text) = match &*message {
            (channel, Message::Up(message)) => (channel, from_worker(message)),
            (channel, Message::Down(message)) => (channel, to_worker(message)),
        };
        let worker = self.part_name(self.jobs[channel.job].workers.start + channel.worker);
        if channel.part < self.workers {
            format!("{text} to {worker}")
        } else {
            format!("{text} from {worker}")
        }
    }

    pub(crate) fn cell_words(&self, number: u32) -> String {
        let part = self.parts.get(number);
        let Part::Cell(_, registers) = &*part else { unreachable!("a cell") };
        usable(&self.bench).words(registers)
    }

    /// Numbers of stored parts, packets, messages and steps.
    pub(crate) fn coverage(&self) -> String {
        let outcomes = usable(&self.hardware).outcomes(self.jobs.len());
        let outcomes: Vec<&str> = outcomes.into_keys().collect();
        format!(
            "{} states of parts, {} packets, {} messages, {} different steps of parts; \
             packets in switches were: {}",
            self.parts.len(),
            self.items.len(),
            self.messages.len(),
            self.memo.len(),
            outcomes.join(", ")
        )
    }
}

/// Ignores poisoning: a pass that panicked, as in a broken program, leaves the switch unchanged.
fn usable(hardware: &Mutex<Hardware>) -> MutexGuard<'_, Hardware> {
    hardware.lock().unwrap_or_else(PoisonError::into_inner)
}
