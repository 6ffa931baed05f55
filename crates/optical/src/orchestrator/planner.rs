//! The decisions for a slot, from the state of the jobs and of the circuits.
//!
//! The scheduler is any [`Online`] one. Each job is scheduled one iteration at a time: an iteration is
//! what P4INC-AOI calls a job, and its data is what the job's workers send in one. The planner estimates
//! how much of that is left from the rates that it gave; whether an iteration is over, only the workers
//! tell.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::{Begun, Decision, Error, Fcfs, Job, Network, Online, Tw, Unit, UnitId, carries};
use tributary_model::{
    Orchestration, Policy, SummedAt, SwitchId, Topology, circuits::Circuits as Joined,
};
use tributary_protocol::Rate;
use tributary_wire::JobId;

use crate::orchestrator::ports;

/// The step in which schedulers raise a rate, in bits per second (§VII.B). A network with another step is
/// scheduled in multiples of it.
const STEP: f64 = 10e9;

/// What is never assumed to be sent, as a part of an iteration's data. As long as workers have not
/// reported its end, something is left: packets that were lost and are sent again, or those of a worker
/// that was late.
const REST: f64 = 0.25;

/// The rate up to which a job competes whose iterations are late, as a multiple of what its slowest worker has kept up
/// with: enough to see that it has become faster.
const MARGIN: f64 = 1.25;

/// By how much that grows with each iteration that is not late any more.
const GROWTH: f64 = 2.0;

/// A job, as far as the planner must know it.
#[derive(Clone, PartialEq, Debug)]
pub struct JobState {
    /// Its ID.
    pub id: JobId,
    /// The units of its workers, one for each worker.
    pub workers: Vec<SwitchId>,
    /// The unit of its parameter server.
    pub server: SwitchId,
    /// Bits of values that a worker sends in an iteration.
    pub bits: u64,
    /// Number of its iterations, if it is known.
    pub iterations: Option<u64>,
    /// Aggregators that it wants in the network.
    pub aggregators: u32,
    /// Where it is summed.
    pub place: SummedAt,
    /// What it needs after an iteration before it can begin the next one.
    pub update: Duration,
    /// The number of the last iteration that was started; 0 before the first.
    pub iteration: u64,
    /// Whether that one runs.
    pub running: bool,
}

impl JobState {
    fn is_done(&self) -> bool {
        !self.running && self.iterations.is_some_and(|all| self.iteration >= all)
    }

    /// Whether all its workers are in one unit.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.workers.iter().all(|unit| *unit == self.workers[0])
    }

    /// Where it is summed if the switch of a unit adds, or none does.
    fn place(&self, adds: Option<UnitId>) -> SummedAt {
        match adds {
            None => SummedAt::Server,
            Some(_) if self.is_local() => SummedAt::Network,
            Some(unit) => SummedAt::Switch(SwitchId(unit.0)),
        }
    }

    /// The way in which it is summed now.
    fn way_in(&self, order: &Job) -> usize {
        let its = order.ways.iter().position(|way| self.place(way.inc) == self.place);
        its.unwrap_or(0)
    }

    /// Ends of the circuits that it needs as long as it is summed at its server: pairs of units.
    fn ways(&self) -> impl Iterator<Item = (UnitId, UnitId)> {
        let others = self.workers.iter().filter(|unit| **unit != self.server);
        others.map(|unit| (UnitId(unit.0), UnitId(self.server.0)))
    }
}

/// Why a job is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// All its iterations are over.
    Done,
    /// An iteration took longer than the limit.
    Late {
        /// The iteration.
        iteration: u64,
        /// How long it has run.
        after: Duration,
    },
    /// It can never be scheduled.
    Impossible,
}

/// What is to be done in a slot, in the order of the fields.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// Jobs to release.
    pub releases: Vec<(JobId, End)>,
    /// Jobs to move, with the aggregators that they want.
    pub moves: Vec<(JobId, SummedAt, u32)>,
    /// The circuits; `None` if they stay.
    pub circuits: Option<Joined>,
    /// New rates of running jobs.
    pub rates: Vec<(JobId, Rate)>,
    /// Iterations to start, each with its number and its job's rate.
    pub starts: Vec<(JobId, u64, Rate)>,
    /// Running jobs that are seen to be late, with the greatest rate that their slowest worker can have kept up with.
    /// Others get more first.
    pub late: Vec<(JobId, Rate)>,
}

/// An iteration that runs.
#[derive(Clone, Copy, Debug)]
struct Flight {
    number: u64,
    since: Duration,
    begun: Begun,
    /// When `begun` was estimated.
    at: Duration,
    /// What was to be sent until then.
    sent: f64,
    /// Seconds with a rate.
    sending: f64,
    /// Whether its job's pace has bound it.
    paced: bool,
    /// Whether it is late.
    late: bool,
}

impl Flight {
    fn new(number: u64, since: Duration, begun: Begun) -> Self {
        let (sent, sending) = (0.0, 0.0);
        Self { number, since, begun, at: since, sent, sending, paced: false, late: false }
    }

    /// Estimates what is left of an iteration with so much data at this time. Returns whether it is seen to be late.
    ///
    /// A transfer that ends with its slot is heard of in the next one, so only a whole slot more is late.
    fn advance(&mut self, all: f64, now: Duration) -> bool {
        let late = !self.late && self.sent >= all;
        let time = (now - self.at).as_secs_f64();
        self.sent += self.begun.rate * time;
        self.sending += if self.begun.rate > 0.0 { time } else { 0.0 };
        self.begun.left = (all - self.sent).max(REST * all);
        self.at = now;
        self.late |= late;
        late
    }
}

/// The scheduler of a network, and what it has given to jobs.
#[derive(Debug)]
pub struct Planner {
    topology: Topology,
    network: Network,
    /// Its bits per second for one of ours.
    scale: f64,
    policy: Policy,
    /// Whether a switch may add for jobs that have workers in other units, too.
    partial_inc: bool,
    limit: Duration,
    flights: BTreeMap<JobId, Flight>,
    /// The rates up to which jobs with a straggler compete with others.
    paces: BTreeMap<JobId, f64>,
    /// Jobs between two iterations that cannot begin the next one, until then.
    updating: BTreeMap<JobId, Duration>,
    /// Places that had no room for a job when it was moved there, until then.
    no_room: BTreeMap<(JobId, SummedAt), Duration>,
    /// The order of arrivals.
    arrivals: Vec<JobId>,
}

/// How long a job that found no room in its switch is scheduled without aggregation.
const NO_ROOM: Duration = Duration::from_secs(10);

impl Planner {
    /// A planner for a topology with a cross-connect.
    ///
    /// # Panics
    /// If the topology has no cross-connect.
    #[must_use]
    pub fn new(topology: &Topology, settings: &Orchestration) -> Self {
        let optical = topology.optical.as_ref().expect("units have a cross-connect");
        let scale = STEP / settings.step as f64;
        let unit = Unit {
            ports: optical.ports.into(),
            inc: settings.inc,
            bandwidth: settings.switch_rate as f64 * scale,
        };
        let network = Network {
            units: vec![unit; topology.switches.len()],
            port_rate: settings.port_rate as f64 * scale,
            reconfiguration: optical.outage.as_secs_f64(),
            slot: settings.slot.as_secs_f64(),
        };
        Self {
            topology: topology.clone(),
            network,
            scale,
            policy: settings.policy,
            partial_inc: settings.partial_inc,
            limit: settings.iteration_timeout,
            flights: BTreeMap::new(),
            paces: BTreeMap::new(),
            updating: BTreeMap::new(),
            no_room: BTreeMap::new(),
            arrivals: Vec::new(),
        }
    }

    /// The topology.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Checks that an otherwise empty network can carry a job with workers in these units.
    ///
    /// # Errors
    /// Why none can.
    pub fn carries(&self, workers: &[SwitchId], server: SwitchId) -> Result<(), String> {
        let mut counts = vec![0; self.topology.switches.len()];
        workers.iter().for_each(|unit| counts[unit.0] += 1);
        let order = Job::training(0, 0, &counts, UnitId(server.0), 1.0, 0.0);
        let carried = order.and_then(|order| carries(&self.network, &order));
        if carried.map_err(|error| error.to_string())? {
            return Ok(());
        }
        let others: BTreeSet<SwitchId> =
            workers.iter().copied().filter(|unit| *unit != server).collect();
        let name = |unit: SwitchId| self.topology.switch(unit).name.as_str();
        let others: Vec<&str> = others.into_iter().map(name).collect();
        Err(format!(
            "it needs circuits from {} to its parameter server in {} at once, and a unit has `optical_ports = {}`; choose \
             another server, or give units more ports",
            others.join(", "),
            name(server),
            self.network.units[server.0].ports
        ))
    }

    /// Decides the slot that begins at `now`, with the circuits that exist.
    ///
    /// # Errors
    /// If the network is impossible.
    pub fn plan(
        &mut self,
        now: Duration,
        jobs: &[JobState],
        circuits: &Joined,
    ) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        self.forget(now, jobs);
        let jobs: BTreeMap<JobId, &JobState> = jobs.iter().map(|job| (job.id, job)).collect();
        let mut scheduled = Vec::new();
        let mut orders = Vec::new();
        let mut begun = Vec::new();
        for id in self.arrivals.clone() {
            let job = jobs[&id];
            if job.is_done() {
                plan.releases.push((id, End::Done));
                continue;
            }
            if !job.running && self.updating.get(&id).is_some_and(|until| now < *until) {
                continue;
            }
            let flight = self.advance(now, job, &mut plan);
            if let Some(Flight { since, number, .. }) = flight
                && now - since > self.limit
            {
                plan.releases.push((id, End::Late { iteration: number, after: now - since }));
                continue;
            }
            match self.order(job, now).filter(|order| carries(&self.network, order) == Ok(true)) {
                Some(order) => {
                    scheduled.push(job);
                    // The ways of a job depend on what has room.
                    let way = job.way_in(&order);
                    begun.push(flight.map(|flight| Begun { way, ..flight.begun }));
                    orders.push(order);
                }
                None => plan.releases.push((id, End::Impossible)),
            }
        }
        let before = ports::counted(&self.topology, circuits);
        let decision = self.scheduler().decide(&self.network, &orders, &begun, &before)?;
        let next = ports::joined(&self.topology, circuits, &decision.slot.circuits);
        plan.circuits = (next != *circuits).then_some(next);
        let ids: Vec<JobId> = scheduled.iter().map(|job| job.id).collect();
        let rates = self.fit(&ids, &orders, &decision);
        for (at, job) in scheduled.into_iter().enumerate() {
            let (way, rate) = (decision.ways[at], rates[at]);
            let bits_per_second = Rate::new((rate / self.scale).ceil() as u64);
            let Some(paced) = bits_per_second.filter(|_| rate > 0.0) else { continue };
            let bound = rate >= orders[at].pace * (1.0 - 1e-6);
            if job.running {
                plan.rates.push((job.id, paced));
                let flight = self.flights.get_mut(&job.id).expect("running jobs have one");
                flight.begun.rate = rate;
                flight.paced |= bound;
                continue;
            }
            let to = job.place(orders[at].ways[way].inc);
            if to != job.place {
                plan.moves.push((
                    job.id,
                    to,
                    if to == SummedAt::Server { 0 } else { job.aggregators },
                ));
            }
            let number = job.iteration + 1;
            let begun = Begun { way, left: orders[at].bits, rate };
            self.flights.insert(job.id, Flight { paced: bound, ..Flight::new(number, now, begun) });
            plan.starts.push((job.id, number, paced));
        }
        Ok(plan)
    }

    /// The decided rates, lowered to what circuits carry: a flow has one of them, while the scheduler takes several for one
    /// that is as fast as all. Flows have their circuits as [`plan::job`](tributary_model::plan::job) says.
    fn fit(&self, ids: &[JobId], orders: &[Job], decision: &Decision) -> Vec<f64> {
        let Decision { ways, slot } = decision;
        let circuits = |at: usize| {
            let flows = orders[at].ways[ways[at]].flows.iter();
            flows.filter(|flow| flow.from != flow.to).flat_map(move |flow| {
                let count = slot.circuits.between(flow.from, flow.to) as usize;
                // A partial sum, or the gradients of so many workers.
                let turns = (0..flow.weight as usize).filter(move |_| count > 0);
                let first = usize::from(ids[at].get());
                turns.map(move |turn| (flow.from, flow.to, (first + turn) % count))
            })
        };
        let mut loads = BTreeMap::<_, f64>::new();
        for (at, rate) in slot.rates.iter().enumerate() {
            circuits(at).for_each(|circuit| *loads.entry(circuit).or_default() += rate);
        }
        let fits = |(at, rate): (usize, &f64)| {
            let fullest = circuits(at).map(|circuit| loads[&circuit]).fold(0.0, f64::max);
            rate * (self.network.port_rate / fullest).min(1.0)
        };
        slot.rates.iter().enumerate().map(fits).collect()
    }

    /// The iteration was not started after all: it is scheduled again.
    pub fn not_started(&mut self, job: JobId) {
        self.flights.remove(&job);
    }

    /// The switch there had no room for the job. For a while it is scheduled elsewhere.
    pub fn found_no_room(&mut self, now: Duration, job: JobId, place: SummedAt) {
        self.no_room.insert((job, place), now + NO_ROOM);
        self.not_started(job);
    }

    /// Whether the job has an iteration that runs, or is about to be started.
    #[must_use]
    pub fn is_under_way(&self, job: JobId) -> bool {
        self.flights.contains_key(&job)
    }

    /// Whether these circuits lead from all workers of the job to its server.
    #[must_use]
    pub fn has_light(&self, job: &JobState, circuits: &Joined) -> bool {
        let circuits = ports::counted(&self.topology, circuits);
        job.ways().all(|(a, b)| circuits.between(a, b) > 0)
    }

    fn scheduler(&self) -> Box<dyn Online> {
        match self.policy {
            Policy::NoIncFcfs => Box::new(Fcfs::new(false)),
            Policy::IncFcfs => Box::new(Fcfs::new(true)),
            Policy::NoIncTw => Box::new(Tw::new(false, true)),
            Policy::IncTw => Box::new(Tw::new(true, true)),
        }
    }

    /// Drops what is known of jobs that are gone or between iterations, and adds new jobs. When an iteration has ended is
    /// known to a slot.
    fn forget(&mut self, now: Duration, jobs: &[JobState]) {
        let running: BTreeMap<JobId, u64> =
            jobs.iter().filter(|job| job.running).map(|job| (job.id, job.iteration)).collect();
        let over = |id: &JobId, flight: &mut Flight| running.get(id) != Some(&flight.number);
        let ended: BTreeMap<JobId, Flight> = self.flights.extract_if(.., over).collect();
        for job in jobs {
            let Some(flight) = ended.get(&job.id) else { continue };
            self.updating.insert(job.id, now + job.update);
            // It kept up with that, so perhaps with more.
            if !flight.late
                && flight.paced
                && let Some(pace) = self.paces.get_mut(&job.id)
            {
                *pace *= GROWTH;
            }
        }
        let known: BTreeSet<JobId> = jobs.iter().map(|job| job.id).collect();
        self.paces.retain(|id, _| known.contains(id));
        self.updating.retain(|id, _| known.contains(id));
        self.no_room.retain(|(id, _), _| known.contains(id));
        self.arrivals.retain(|id| known.contains(id));
        let new = known.into_iter().filter(|id| !self.arrivals.contains(id));
        let new: Vec<JobId> = new.collect();
        self.arrivals.extend(new);
    }

    /// What is known of a job's running iteration, with what is left of it. One that an earlier
    /// controller started counts as whole.
    ///
    /// In a sum, all workers wait for the slowest. While an iteration is late, its job keeps up with at most all data in
    /// the time in which it could send.
    fn advance(&mut self, now: Duration, job: &JobState, plan: &mut Plan) -> Option<Flight> {
        if !job.running {
            return None;
        }
        let all = job.bits as f64 * self.scale;
        let way = job.way_in(&self.order(job, now)?);
        let flight = self.flights.entry(job.id).or_insert_with(|| {
            Flight::new(job.iteration, now, Begun { way, left: all, rate: 0.0 })
        });
        let newly = flight.advance(all, now);
        if flight.late {
            let pace = all / flight.sending;
            self.paces.insert(job.id, (MARGIN * pace).max(STEP));
            plan.late.extend(
                Rate::new((pace / self.scale).ceil() as u64)
                    .filter(|_| newly)
                    .map(|rate| (job.id, rate)),
            );
        }
        Some(*flight)
    }

    /// An iteration of the job, as the scheduler sees it. Unless partial sums are allowed, a switch aggregates only
    /// for a job whose workers are all in its unit (§VI.A).
    fn order(&self, job: &JobState, now: Duration) -> Option<Job> {
        let mut workers = vec![0; self.topology.switches.len()];
        for unit in &job.workers {
            workers[unit.0] += 1;
        }
        let bits = job.bits as f64 * self.scale;
        let server = UnitId(job.server.0);
        let update = job.update.as_secs_f64();
        let order = Job::training(job.id.get().into(), 0, &workers, server, bits, update).ok()?;
        let order = if self.partial_inc { order } else { order.local_inc_only() };
        let room = |way: Option<UnitId>| {
            let until = self.no_room.get(&(job.id, job.place(way)));
            until.is_none_or(|until| *until <= now)
        };
        // A switch with one of several workers has nothing to add.
        let adds = |unit: UnitId| workers[unit.0] > 1 || job.is_local();
        let ways = order.ways.into_iter().filter(|way| match way.inc {
            // The way of a running iteration stays.
            Some(_) if job.running && job.place(way.inc) == job.place => true,
            Some(unit) => room(way.inc) && adds(unit),
            None => true,
        });
        // In steps: what is less than one is of no use to others.
        let steps = |pace: &f64| (pace / STEP).ceil() * STEP;
        let pace = self.paces.get(&job.id).map_or(f64::INFINITY, steps);
        Some(Job { ways: ways.collect(), pace, ..order })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units of four servers around a cross-connect, with slots of one second and ports of 40 Gb/s.
    fn planner(ports: u16, more: &str) -> Planner {
        let text = format!(
            "protocol = \"p4inc\"\n[topology]\nunits = 3\nhosts_per_unit = 4\noptical_ports = {ports}\n\
             [orchestrator]\n{more}\n[[job]]\nworkers = [\"w1\"]\nps = \"ps2\"\n"
        );
        let scenario = tributary_model::jobfile::parse(&text, "units");
        let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
        Planner::new(&scenario.network.topology, &scenario.orchestration.unwrap())
    }

    /// A job that waits at its server in the second unit, with workers in the first.
    fn job(id: u16, workers: usize, gigabits: u64) -> JobState {
        JobState {
            id: JobId::new(id).unwrap(),
            workers: vec![SwitchId(0); workers],
            server: SwitchId(1),
            bits: gigabits * 1_000_000_000,
            iterations: None,
            aggregators: 64,
            place: SummedAt::Server,
            update: Duration::ZERO,
            iteration: 0,
            running: false,
        }
    }

    fn gigabits(plan: &Plan) -> Vec<(u16, f64)> {
        let started = plan.starts.iter();
        started.map(|(id, _, rate)| (id.get(), rate.get() as f64 / 1e9)).collect()
    }

    fn start(planner: &mut Planner, jobs: &[JobState]) -> Plan {
        planner.plan(Duration::ZERO, jobs, &Joined::DARK).unwrap()
    }

    #[test]
    fn rates_are_those_that_the_fullest_circuit_carries() {
        // Without aggregation, and with data for more than a slot.
        let settings = "scheduler = \"noINC-FCFS\"";
        for (ports, workers, expected) in
            [(1, 1, 40.0), (1, 4, 10.0), (2, 4, 20.0), (2, 3, 20.0), (3, 4, 20.0), (4, 4, 40.0)]
        {
            let mut planner = planner(ports, settings);
            let plan = start(&mut planner, &[job(1, workers, 400)]);
            let rates = gigabits(&plan);
            assert_eq!(rates.len(), 1, "{ports} ports, {workers} workers");
            let (_, rate) = rates[0];
            assert!((rate - expected).abs() < 0.01, "{ports} ports, {workers} workers: {rate}");
        }
    }

    #[test]
    fn flows_of_several_jobs_share_a_circuit() {
        // Their IDs decide which circuit each begins with.
        for (ids, fits) in [([1, 2], true), ([1, 3], false)] {
            let mut planner = planner(2, "scheduler = \"noINC-FCFS\"");
            let plan = start(&mut planner, &ids.map(|id| job(id, 1, 400)));
            let rates = gigabits(&plan);
            let sum: f64 = rates.iter().map(|(_, rate)| rate).sum();
            assert!(sum <= if fits { 80.1 } else { 40.1 }, "{rates:?}");
            assert!(rates.iter().all(|(_, rate)| *rate <= 40.01), "{rates:?}");
        }
    }

    #[test]
    fn a_job_that_updates_its_model_gets_no_circuits() {
        let mut planner = planner(1, "scheduler = \"noINC-FCFS\"");
        let waits = JobState { update: Duration::from_secs(3), ..job(1, 1, 10) };
        let plan = start(&mut planner, std::slice::from_ref(&waits));
        assert_eq!(plan.starts.len(), 1);
        let circuits = plan.circuits.unwrap();
        let over = JobState { iteration: 1, ..waits };
        for slot in 1..=4 {
            let now = Duration::from_secs(slot);
            let plan = planner.plan(now, std::slice::from_ref(&over), &circuits).unwrap();
            // It is seen to be over in slot 1.
            assert_eq!(plan.starts.len(), usize::from(slot == 4), "slot {slot}");
        }
    }

    /// Two jobs without aggregation share a circuit of 40 Gb/s. An iteration of the first one takes as many slots as this,
    /// and that of the other has no end.
    fn behind_a_straggler(slots: u64) -> Vec<(Vec<f64>, bool)> {
        let mut planner = planner(1, "scheduler = \"noINC-FCFS\"");
        let mut jobs = [job(1, 1, 80), job(2, 1, 1_000_000)];
        let mut circuits = Joined::DARK;
        let mut all = Vec::new();
        for slot in 0..3 * slots {
            let plan = planner.plan(Duration::from_secs(slot), &jobs, &circuits).unwrap();
            circuits = plan.circuits.clone().unwrap_or(circuits);
            let rate = |job: &JobState| {
                let started = plan.starts.iter().map(|(id, _, rate)| (id, rate));
                let mut rates = started.chain(plan.rates.iter().map(|(id, rate)| (id, rate)));
                rates
                    .find(|(id, _)| **id == job.id)
                    .map_or(0.0, |(_, rate)| rate.get() as f64 / 1e9)
            };
            all.push((jobs.iter().map(rate).collect(), !plan.late.is_empty()));
            for (id, number, _) in plan.starts {
                let job = jobs.iter_mut().find(|job| job.id == id).unwrap();
                (job.iteration, job.running) = (number, true);
            }
            jobs[0].running &= (slot + 1) % slots != 0;
        }
        all
    }

    #[test]
    fn a_job_with_a_straggler_leaves_bandwidth_to_others() {
        let slots = behind_a_straggler(20);
        let late: Vec<usize> = (0..slots.len()).filter(|&slot| slots[slot].1).collect();
        let gets = |from: usize, to: usize, job: usize| {
            slots[from..to].iter().map(|(rates, _)| rates[job]).sum::<f64>() / (to - from) as f64
        };
        // Its 80 Gb take 20 slots, so it keeps up with 4 Gb/s.
        let (first, second) = (gets(10, 20, 0), gets(10, 20, 1));
        assert!((4.0..=11.0).contains(&first), "{slots:?}");
        assert!(first + second > 39.9, "nothing is wasted: {slots:?}");
        // It begins the next iterations with what it has shown.
        assert!((4.0..=12.0).contains(&gets(20, 40, 0)), "{slots:?}");
        assert!(late.len() == 3, "once per iteration: {late:?}");
    }

    #[test]
    fn a_job_that_keeps_up_again_gets_its_share_again() {
        let mut planner = planner(1, "scheduler = \"noINC-FCFS\"");
        let mut jobs = [job(1, 1, 40), job(2, 1, 1_000_000)];
        let mut circuits = Joined::DARK;
        let mut rates = Vec::new();
        for slot in 0..40 {
            let plan = planner.plan(Duration::from_secs(slot), &jobs, &circuits).unwrap();
            circuits = plan.circuits.clone().unwrap_or(circuits);
            for (id, number, _) in &plan.starts {
                let job = jobs.iter_mut().find(|job| job.id == *id).unwrap();
                (job.iteration, job.running) = (*number, true);
            }
            let started = plan.starts.iter().map(|(id, _, rate)| (id, rate));
            let mut all = started.chain(plan.rates.iter().map(|(id, rate)| (id, rate)));
            let own = all.find(|(id, _)| id.get() == 1);
            rates.push(own.map_or(0.0, |(_, rate)| rate.get() as f64 / 1e9));
            // Its first iteration has a straggler, and the others take what their rate needs.
            let needed = (40.0 / rates.last().unwrap()).ceil() as u64;
            jobs[0].running &=
                if jobs[0].iteration == 1 { slot < 9 } else { (slot - 9) % needed != 0 };
        }
        assert!(rates[9] < 10.1, "{rates:?}");
        // All but the step that the other job keeps.
        assert!(rates[39] > 29.9, "{rates:?}");
    }

    #[test]
    fn late_jobs_share_what_others_leave() {
        for scheduler in ["noINC-FCFS", "noINC-TW"] {
            let mut planner = planner(1, &format!("scheduler = \"{scheduler}\""));
            let mut jobs = vec![job(1, 1, 80)];
            let mut circuits = Joined::DARK;
            let (mut late, mut rates) = (0, Vec::new());
            for slot in 0..30 {
                if slot == 20 {
                    jobs.push(JobState { workers: vec![SwitchId(0)], ..job(3, 1, 80) });
                }
                let plan = planner.plan(Duration::from_secs(slot), &jobs, &circuits).unwrap();
                circuits = plan.circuits.clone().unwrap_or(circuits);
                for (id, number, _) in &plan.starts {
                    let job = jobs.iter_mut().find(|job| job.id == *id).unwrap();
                    (job.iteration, job.running) = (*number, true);
                }
                late += plan.late.len();
                let started = plan.starts.iter().map(|(id, _, rate)| (id.get(), rate.get()));
                let all = started.chain(plan.rates.iter().map(|(id, rate)| (id.get(), rate.get())));
                rates.push(all.collect::<BTreeMap<_, _>>());
            }
            // The first one never ends, and is late from slot 3 on. Alone, it gets everything.
            assert!(late >= 1, "{scheduler}: {rates:?}");
            let least = if scheduler.ends_with("TW") { 19_000_000_000 } else { 39_900_000_000 };
            assert!((4..20).all(|slot| rates[slot][&1] >= least), "{scheduler}: {rates:?}");
            assert!(
                (21..24).all(|slot| rates[slot][&3] >= 20_000_000_000),
                "{scheduler}: {rates:?}"
            );
        }
    }

    #[test]
    fn a_place_without_room_is_avoided_for_a_while() {
        let mut planner = planner(2, "partial_inc = true");
        let wide = JobState {
            workers: [vec![SwitchId(0); 3], vec![SwitchId(2); 2]].concat(),
            ..job(1, 0, 10)
        };
        let to = |plan: &Plan| plan.moves.iter().map(|(_, to, _)| *to).collect::<Vec<_>>();
        let plan = start(&mut planner, std::slice::from_ref(&wide));
        assert_eq!(to(&plan), [SummedAt::Switch(SwitchId(0))], "it saves most");
        planner.found_no_room(Duration::ZERO, wide.id, SummedAt::Switch(SwitchId(0)));
        let plan = planner.plan(Duration::from_secs(1), &[wide], &Joined::DARK).unwrap();
        assert_eq!(to(&plan), [SummedAt::Switch(SwitchId(2))]);
    }
}
