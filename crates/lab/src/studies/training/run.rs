//! Iterations of all jobs of a [`Setup`], packet by packet.

use std::collections::BTreeSet;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tributary_controller::outcomes::Outcomes;
use tributary_dataplane::EngineKind;
use tributary_model::{Deployment, HostId};
use tributary_protocol::priority::{Horizon, JobProfile};
use tributary_protocol::{ParameterServer, Tensor, Time, Worker, server, worker};
use tributary_wire::JobId;

use super::Error;
use super::model::{Model, Part};
use super::setup::{Delays, Setup};
use tributary_sim::Happening;
use tributary_sim::System;
use tributary_sim::{EsaStats, Options};

/// The result of an experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Trained {
    /// By job.
    pub jobs: Vec<TrainedJob>,
    /// Frame arrivals at hosts and the switch.
    pub hops: u64,
    /// Virtual time.
    pub elapsed: Duration,
    /// Digest of all frames, if wanted.
    pub digest: Option<u64>,
}

/// A job of an experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct TrainedJob {
    /// Duration of each measured iteration: from its start until its last worker has computed.
    pub iterations: Vec<Duration>,
    /// Time from a worker's first gradient to its last sum, by measured iteration: mean over the
    /// workers.
    pub communication: Vec<Duration>,
    /// Bytes of gradients of each worker per iteration.
    pub bytes: u64,
    /// Outcomes of its packets at the switch.
    pub outcomes: Outcomes,
    /// Counters of its workers.
    pub workers: Vec<worker::Stats>,
    /// Counters of its parameter server (ATP).
    pub server: server::Stats,
    /// Counters of its parameter server and reminder agent (ESA).
    pub esa: EsaStats,
}

impl TrainedJob {
    /// Mean duration of an iteration: the job completion time of ESA §7.2.1.
    #[must_use]
    pub fn jct(&self) -> Duration {
        mean(&self.iterations)
    }

    /// Aggregation throughput in bits of gradients per second and worker, while it communicates.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.bytes as f64 * 8.0 / mean(&self.communication).as_secs_f64()
    }
}

fn mean(times: &[Duration]) -> Duration {
    times.iter().sum::<Duration>() / (times.len() as u32).max(1)
}

/// Something that a worker does at a given time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    /// Submits its next part.
    Submit,
    /// Has computed the forward pass of a layer.
    Computed,
}

/// A worker in its current iteration.
#[derive(Clone, Debug)]
struct Trainer {
    host: HostId,
    begun: Time,
    /// Number of submitted and of summed parts.
    submitted: usize,
    summed: usize,
    /// Parts without a sum, by layer.
    missing: Vec<usize>,
    /// Number of layers whose forward pass is done, and whether the next one's goes on.
    computed: usize,
    computing: bool,
    /// Start of the first part, and duration from there to the last sum, in this and the previous
    /// iteration.
    first: Time,
    communication: Option<Duration>,
}

#[derive(Debug)]
struct Training {
    id: JobId,
    model: Model,
    parts: Vec<Part>,
    per_layer: Vec<usize>,
    trainers: Vec<Trainer>,
    /// Current iteration of each worker.
    iteration: Vec<u32>,
    /// Times by iteration: earliest start, latest end, sum of communication times.
    spans: Vec<(Time, Time, Duration)>,
}

/// An experiment that is running.
#[derive(Debug)]
pub struct Run<'a> {
    setup: &'a Setup,
    system: System,
    jobs: Vec<Training>,
    due: BTreeSet<(Time, usize, usize, Step)>,
    random: ChaCha8Rng,
}

impl<'a> Run<'a> {
    /// Programs the switch and starts the endpoints.
    ///
    /// # Errors
    /// [`Error`].
    pub fn start(setup: &'a Setup) -> Result<Self, Error> {
        setup.check()?;
        let scenario = setup.scenario()?;
        let program = setup.program(&scenario)?;
        let deployment = Deployment::new(scenario).map_err(tributary_sim::Error::from)?;
        let stretch = 4 * usize::from(setup.values - setup.carried());
        let Setup { cable, processing, seed, .. } = *setup;
        // Runs are long, and use all cores: a compiler in the background would take seconds.
        let engine = EngineKind::Compiled;
        let options = Options { cable, processing, stretch, engine, ..Options::seeded(seed) };
        let system = System::start(deployment, &program, &options)?;
        let random = ChaCha8Rng::seed_from_u64(setup.seed);
        let mut run = Self { setup, system, jobs: Vec::new(), due: BTreeSet::new(), random };
        for job in 0..setup.jobs.len() {
            run.begin(job)?;
        }
        Ok(run)
    }

    /// Digests every frame from now on.
    pub fn digest_frames(&mut self) {
        self.system.network.digest_frames();
    }

    fn begin(&mut self, job: usize) -> Result<(), Error> {
        self.system.serve(job)?;
        self.system.start_endpoints(job, ParameterServer::new)?;
        let start = Time::ZERO + self.draw(self.setup.start);
        let its = self.system.deployment().job(job);
        let model = self.setup.jobs[job].model.clone();
        let parts = model.parts(self.setup.cable.bandwidth);
        let mut per_layer = vec![0; model.layers.len()];
        for part in &parts {
            per_layer[part.layer] += 1;
        }
        let trainer = |&host: &HostId| Trainer {
            host,
            begun: start,
            submitted: 0,
            summed: 0,
            missing: Vec::new(),
            computed: 0,
            computing: false,
            first: start,
            communication: None,
        };
        let trainers: Vec<_> = its.workers.iter().map(trainer).collect();
        let iteration = vec![0; trainers.len()];
        let id = its.id;
        self.jobs.push(Training {
            id,
            model,
            parts,
            per_layer,
            trainers,
            iteration,
            spans: vec![],
        });
        for worker in 0..self.jobs[job].trainers.len() {
            self.iterate(job, worker, start);
        }
        Ok(())
    }

    /// A random time from zero to this.
    fn draw(&mut self, most: Duration) -> Duration {
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        let drawn = u128::from(self.random.next_u64()) * (u128::from(nanos) + 1);
        Duration::from_nanos((drawn >> 64) as u64)
    }

    /// Begins the next iteration of a worker.
    fn iterate(&mut self, job: usize, worker: usize, now: Time) {
        let delay = match self.setup.delays {
            Delays::PerIteration => self.draw(self.setup.jitter),
            Delays::PerTensor => Duration::ZERO,
        };
        let training = &mut self.jobs[job];
        let iteration = training.iteration[worker] as usize;
        if training.spans.len() == iteration {
            training.spans.push((now, now, Duration::ZERO));
        }
        let span = &mut training.spans[iteration];
        span.0 = span.0.min(now);
        let trainer = &mut training.trainers[worker];
        trainer.begun = now + delay;
        trainer.first = trainer.begun;
        trainer.submitted = 0;
        trainer.summed = 0;
        trainer.missing.clone_from(&training.per_layer);
        trainer.computed = 0;
        self.schedule(job, worker, now);
    }

    /// Schedules the submission of a worker's next part; now, it has submitted the one before.
    fn schedule(&mut self, job: usize, worker: usize, now: Time) {
        let training = &self.jobs[job];
        let trainer = &training.trainers[worker];
        let Some(part) = training.parts.get(trainer.submitted) else { return };
        let ready = trainer.begun + part.ready;
        let due = match self.setup.delays {
            Delays::PerIteration => ready,
            // All workers send their parts in the same order, so a part is late with the one before.
            Delays::PerTensor => ready.max(now) + self.draw(self.setup.jitter),
        };
        self.due.insert((due, job, worker, Step::Submit));
    }

    fn submit(&mut self, job: usize, worker: usize, now: Time) -> Result<(), Error> {
        let setup = self.setup;
        let training = &mut self.jobs[job];
        let trainer = &mut training.trainers[worker];
        let number = trainer.submitted;
        let part = training.parts[number];
        if number == 0 {
            trainer.first = now;
        }
        trainer.submitted += 1;
        // What the priority needs: all times are measured, the first iteration's are ideal.
        let seconds = |bytes: u64| bytes as f64 * 8.0 / setup.cable.bandwidth;
        let ideal = Duration::from_secs_f64(seconds(training.model.bytes()));
        let communication = trainer.communication.unwrap_or(ideal);
        let computation = training.model.computation();
        let left: u64 = training.parts[number..].iter().map(|part| part.bytes).sum();
        let share = left as f64 / training.model.bytes() as f64;
        let profile = JobProfile {
            layers: training.model.layers.len() as u32,
            communication,
            computation,
            horizon: Horizon::Remaining(communication.mul_f64(share) + computation),
        };
        let by_formula = profile.of_layer(part.layer as u32 + 1, setup.priorities);
        let priority = setup.ranking.of_job(job, setup.jobs.len()).unwrap_or(by_formula);
        let values = setup.packets(part.bytes) as usize * usize::from(setup.carried());
        let tensor = Tensor::I32(values_of(number, worker).take(values).collect());
        let (host, id) = (trainer.host, training.id);
        let submit = |worker: &mut Worker| worker.submit_with(tensor, priority);
        if let Some(Err(source)) = self.system.network.with_worker(host, id, submit) {
            return Err(tributary_sim::Error::Submit { job, worker, source }.into());
        }
        self.schedule(job, worker, now);
        Ok(())
    }

    /// Handles the endpoints' events.
    fn hear(&mut self) -> Result<(), Error> {
        for happening in self.system.network.take_happenings() {
            let (host, id, tensor) = match happening {
                Happening::Worker(host, id, worker::Event::TensorDone { tensor, .. }) => {
                    (host, id, tensor)
                }
                Happening::Worker(_, id, event) => {
                    return Err(Error::Stalled(format!("worker of job {id}: {event:?}")));
                }
                Happening::Server(id, event) => {
                    return Err(Error::Stalled(format!("server of job {id}: {event:?}")));
                }
            };
            let job = usize::from(id.get()) - 1;
            let training = &self.jobs[job];
            let worker = training.trainers.iter().position(|trainer| trainer.host == host);
            self.take(job, worker.expect("a worker of the job"), &tensor)?;
        }
        Ok(())
    }

    /// A sum arrived at a worker.
    fn take(&mut self, job: usize, worker: usize, tensor: &Tensor) -> Result<(), Error> {
        let now = self.system.network.now();
        let training = &mut self.jobs[job];
        let workers = training.trainers.len();
        let trainer = &mut training.trainers[worker];
        let number = trainer.summed;
        let Tensor::I32(sums) = tensor else { unreachable!("integers were submitted") };
        // The values of worker w are those of worker 0 plus w.
        let beyond = (0..workers as i32).sum::<i32>();
        let mut expected = values_of(number, 0).map(|value| workers as i32 * value + beyond);
        if !sums.iter().all(|&sum| Some(sum) == expected.next()) {
            return Err(Error::Sum { job, worker });
        }
        trainer.missing[training.parts[number].layer] -= 1;
        trainer.summed += 1;
        if trainer.summed == training.parts.len() {
            let communication = now - trainer.first;
            trainer.communication = Some(communication);
            training.spans[training.iteration[worker] as usize].2 += communication;
        }
        self.compute(job, worker, now);
        Ok(())
    }

    /// Starts the forward pass of the next layer if its sums are there.
    fn compute(&mut self, job: usize, worker: usize, now: Time) {
        let training = &mut self.jobs[job];
        let trainer = &mut training.trainers[worker];
        if !trainer.computing && trainer.missing.get(trainer.computed) == Some(&0) {
            trainer.computing = true;
            let until = now + training.model.layers[trainer.computed].forward;
            self.due.insert((until, job, worker, Step::Computed));
        }
    }

    /// A worker has computed a layer's forward pass.
    fn computed(&mut self, job: usize, worker: usize, now: Time) {
        let training = &mut self.jobs[job];
        let trainer = &mut training.trainers[worker];
        trainer.computing = false;
        trainer.computed += 1;
        if trainer.computed < training.model.layers.len() {
            return self.compute(job, worker, now);
        }
        let span = &mut training.spans[training.iteration[worker] as usize];
        span.1 = span.1.max(now);
        training.iteration[worker] += 1;
        self.iterate(job, worker, now);
    }

    fn is_over(&self) -> bool {
        let wanted = self.setup.warm_up + self.setup.iterations;
        self.jobs.iter().all(|job| job.iteration.iter().all(|&done| done >= wanted))
    }

    /// Processes the next event. Returns false when all jobs have finished their measured
    /// iterations.
    ///
    /// # Errors
    /// [`Error`].
    pub fn step(&mut self) -> Result<bool, Error> {
        let due = self.due.first().copied();
        let until = due.map_or(Time::ZERO + LIMIT, |(time, ..)| time);
        // Nothing new is due before the endpoints' next event.
        while self.system.network.step(until) {
            if self.system.network.has_happened() {
                self.hear()?;
                return Ok(true);
            }
        }
        let Some((time, job, worker, step)) = self.due.pop_first() else {
            return Err(Error::Stalled("no worker has anything to do".into()));
        };
        match step {
            Step::Submit => self.submit(job, worker, time)?,
            Step::Computed => self.computed(job, worker, time),
        }
        self.hear()?;
        Ok(!self.is_over())
    }

    /// What was measured.
    ///
    /// # Errors
    /// If the switch refuses to be read.
    pub fn finish(self) -> Result<Trained, Error> {
        let mut jobs = Vec::new();
        let wanted = self.setup.warm_up as usize..;
        for (index, training) in self.jobs.iter().enumerate() {
            let wanted = wanted.clone().take(self.setup.iterations as usize);
            let spans: Vec<_> = wanted.map(|at| training.spans[at]).collect();
            let count = training.trainers.len() as u32;
            let network = &self.system.network;
            let stats = |trainer: &Trainer| {
                let worker = network.worker(trainer.host, training.id);
                worker.map(|worker| *worker.stats()).unwrap_or_default()
            };
            let job = self.system.deployment().job(index);
            let server = job.ps.and_then(|ps| network.server(ps, training.id));
            let outcomes = self.system.outcomes(index)?;
            jobs.push(TrainedJob {
                iterations: spans.iter().map(|(start, end, _)| *end - *start).collect(),
                communication: spans.iter().map(|(.., sum)| *sum / count).collect(),
                bytes: training.model.bytes(),
                outcomes: outcomes[0],
                workers: training.trainers.iter().map(stats).collect(),
                server: server.map(|server| *server.stats()).unwrap_or_default(),
                esa: EsaStats::of(self.system.backends(training.id), training.id),
            });
        }
        let network = &self.system.network;
        if !network.is_balanced() {
            return Err(Error::Unbalanced);
        }
        let elapsed = network.now() - Time::ZERO;
        Ok(Trained { jobs, hops: network.hops(), elapsed, digest: network.digest() })
    }
}

/// Virtual time limit, for a run that makes no progress.
const LIMIT: Duration = Duration::from_secs(3600);

/// The values of a worker in a part, without end.
fn values_of(part: usize, worker: usize) -> impl Iterator<Item = i32> {
    const MODULUS: i32 = 1009;
    let first = part as i32 % MODULUS;
    let next =
        |&value: &i32| Some(if value + 7 < MODULUS { value + 7 } else { value + 7 - MODULUS });
    std::iter::successors(Some(first), next).map(move |value| value + worker as i32)
}

/// Runs an experiment to its end.
///
/// # Errors
/// [`Error`].
pub fn train(setup: &Setup) -> Result<Trained, Error> {
    let mut run = Run::start(setup)?;
    while run.step()? {}
    run.finish()
}
