//! The distance of each policy from the exact optimum of equation 1, over small random cases.

use crate::{
    Cluster, Collective, Job, JobId, Pending, Plan, Policy, Rack, RackIndex, Round, Server, State,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::exact::{Optimum, search};
use super::{Instance, place};
use crate::placement::elasticflow::{Elasticflow, Reading};
use crate::placement::{HiveD, Tiresias};

const GPUS: u32 = 4;

/// Parameters of random cases.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cases {
    /// Number of cases.
    pub count: u32,
    /// Seed of the generator.
    pub seed: u64,
    /// Maximum number of machines with idle GPUs per case.
    pub machines: u32,
    /// Maximum number of ranks per case.
    pub ranks: u32,
    /// Maximum bandwidth of links in Gb/s, which decides whether the bandwidth constraint binds:
    /// 12.5 GB are summed, and a phase may take 1 s.
    pub link_gbps: f64,
}

impl Default for Cases {
    fn default() -> Self {
        Self { count: 200, seed: 1, machines: 5, ranks: 7, link_gbps: 400.0 }
    }
}

/// The result of one policy over all solvable cases.
#[derive(Clone, PartialEq, Debug)]
pub struct Gap {
    /// The policy.
    pub policy: &'static str,
    /// Number of cases for which it found a placement.
    pub placed: u32,
    /// Number of its placements that meet the bandwidth constraint.
    pub feasible: u32,
    /// Number of machines of the cluster in use afterwards.
    pub launched: Against,
    /// Number of machines that the job uses.
    pub machines: Against,
    /// Bytes that cross machines.
    pub crossing: Against,
}

/// A sum over cases for a policy and for the optimum.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Against {
    /// The policy's sum.
    pub policy: f64,
    /// The optimum's sum.
    pub optimum: f64,
}

impl Against {
    /// Relative excess over the optimum: 0.05 is 5 %.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.policy / self.optimum - 1.0
    }

    fn add(&mut self, policy: f64, optimum: f64) {
        self.policy += policy;
        self.optimum += optimum;
    }
}

/// Runs all policies on the cases. Returns the number of solvable cases and a gap for each policy.
#[must_use]
pub fn gaps(cases: &Cases) -> (u32, Vec<Gap>) {
    let mut random = ChaCha8Rng::seed_from_u64(cases.seed);
    let mut gaps: Vec<_> = ["Titan", "Elasticflow", "HiveD", "Tiresias"].map(Gap::of).into();
    let mut solved = 0;
    for _ in 0..cases.count {
        let case = Case::draw(&mut random, cases);
        let state = case.state();
        let instance = Instance::of(&state, &case.job, Collective::HalvingDoubling, 1.0);
        let Some(optimum) = search(&instance) else { continue };
        solved += 1;
        let busy = case.free.iter().filter(|&&free| free < GPUS).count();
        for gap in &mut gaps {
            if let Some(plan) = case.place(gap.policy, &instance) {
                gap.add(&instance, &plan, &optimum, busy);
            }
        }
    }
    (solved, gaps)
}

impl Gap {
    fn of(policy: &'static str) -> Self {
        let none = Against::default();
        Self { policy, placed: 0, feasible: 0, launched: none, machines: none, crossing: none }
    }

    fn add(&mut self, instance: &Instance<'_>, plan: &[usize], optimum: &Optimum, busy: usize) {
        let objectives = instance.objectives(plan);
        self.placed += 1;
        self.feasible += u32::from(instance.is_feasible(plan));
        let launched = |idle: u32| busy as f64 + f64::from(idle);
        self.launched.add(launched(objectives.idle), launched(optimum.objectives.idle));
        self.machines.add(f64::from(objectives.machines), f64::from(optimum.objectives.machines));
        self.crossing
            .add(instance.cross_machine_bytes(plan), instance.cross_machine_bytes(&optimum.plan));
    }
}

/// A cluster with idle GPUs, and a job.
pub(super) struct Case {
    cluster: Cluster,
    free: Vec<u32>,
    pub(super) job: Job,
    /// Whether Tiresias should classify the job as sensitive to distribution.
    sensitive: bool,
}

impl Case {
    pub(super) fn draw(random: &mut ChaCha8Rng, cases: &Cases) -> Self {
        let machines = random.random_range(2..=cases.machines);
        let servers: Vec<_> = (0..machines)
            .map(|_| Server {
                rack: RackIndex(0),
                gpus: GPUS,
                link_gbps: cases.link_gbps * f64::from(random.random_range(1..=8)) / 8.0,
            })
            .collect();
        let rack =
            Rack { servers: 0..machines, pod: None, uplink_gbps: f64::INFINITY, pat_gbps: 0.0 };
        let free: Vec<_> = (0..machines).map(|_| random.random_range(1..=GPUS)).collect();
        let idle: u32 = free.iter().sum();
        let job = Job {
            id: JobId(0),
            submit_s: 0.0,
            gpus: random.random_range(1..=cases.ranks.min(idle)),
            iterations: 1.0,
            compute_s: 1.0,
            gradient_bytes: 12.5e9,
            value: 1.0,
        };
        let cluster = Cluster::new(servers, vec![rack], Vec::new());
        Self { cluster, free, job, sensitive: random.random() }
    }

    pub(super) fn state(&self) -> State<'_> {
        let mut state = State::new(&self.cluster);
        for (server, &free) in self.cluster.server_indices().zip(&self.free) {
            if free < GPUS {
                let job = Job { id: JobId(1 + server.0), gpus: GPUS - free, ..self.job.clone() };
                let plan = Plan::on_one(server, job.gpus);
                state.start(&job, plan).expect("the server is idle");
            }
        }
        state
    }

    /// A policy's plan, as machine numbers of the instance.
    fn place(&self, policy: &str, instance: &Instance<'_>) -> Option<Vec<usize>> {
        let collective = instance.collective;
        let mut policy: Box<dyn Policy> = match policy {
            // Not the policy, which may place a job without the constraint.
            "Titan" => return place(instance),
            "Elasticflow" => Box::new(Elasticflow::new(collective, Reading::BestFit)),
            "HiveD" => Box::new(HiveD::new(collective)),
            _ => {
                let consolidate_from = if self.sensitive { 0.0 } else { f64::INFINITY };
                Box::new(Tiresias { consolidate_from, ..Tiresias::new(collective) })
            }
        };
        let mut state = self.state();
        let pending = Pending { job: self.job.clone(), value: 1.0 };
        policy.place(&mut Round::new(&mut state), &[pending]);
        let running = state.running().get(&self.job.id)?;
        // All machines have idle GPUs, so the instance numbers them as the cluster does.
        Some(running.plan.ranks.iter().map(|server| server.at()).collect())
    }
}
