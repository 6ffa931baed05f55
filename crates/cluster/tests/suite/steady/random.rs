//! Random clusters, and jobs that start and end in them.

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_cluster::{
    Cluster, Job, JobId, Plan, Pod, PodIndex, Rack, RackIndex, Server, ServerIndex, State,
};

/// Size limits.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) racks: u32,
    pub(crate) servers_per_rack: u32,
}

pub(crate) struct Random {
    rng: ChaCha8Rng,
    size: Size,
}

impl Random {
    pub(crate) fn new(seed: u64, size: Size) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed), size }
    }

    pub(crate) fn chance(&mut self, of: f64) -> bool {
        self.rng.random_bool(of)
    }

    pub(crate) fn upto(&mut self, most: u32) -> u32 {
        self.rng.random_range(1..=most)
    }

    /// Often one of a few values, so that several resources are exhausted at once; sometimes zero.
    fn gbps(&mut self, usual: f64) -> f64 {
        match self.rng.random_range(0..10) {
            0 => 0.0,
            1..=5 => usual * *[0.5, 1.0, 1.0, 2.0].choose(&mut self.rng).expect("four"),
            _ => usual * self.rng.random_range(0.1..3.0),
        }
    }

    /// Rarely zero, because a job that uses the link then has no rate.
    fn link_gbps(&mut self) -> f64 {
        let gbps = self.gbps(100.0);
        if gbps == 0.0 && self.chance(0.8) { 100.0 } else { gbps }
    }

    /// One big switch or a fat tree, with random bandwidths and memories.
    pub(crate) fn cluster(&mut self) -> Cluster {
        let count = self.upto(self.size.racks);
        let mut servers = Vec::new();
        let mut racks = Vec::new();
        for rack in (0..count).map(RackIndex) {
            let first = servers.len() as u32;
            for _ in 0..self.upto(self.size.servers_per_rack) {
                let (gpus, link_gbps) = (self.upto(4), self.link_gbps());
                servers.push(Server { rack, gpus, link_gbps });
            }
            racks.push(Rack {
                servers: first..servers.len() as u32,
                pod: None,
                uplink_gbps: self.link_gbps() * 2.0,
                pat_gbps: self.gbps(100.0),
            });
        }
        let pods = if self.chance(0.3) { self.pods(&mut racks) } else { Vec::new() };
        Cluster::new(servers, racks, pods)
    }

    fn pods(&mut self, racks: &mut [Rack]) -> Vec<Pod> {
        let mut pods = Vec::new();
        let mut first = 0;
        while first < racks.len() as u32 {
            let end = (first + self.upto(2)).min(racks.len() as u32);
            racks[first as usize..end as usize]
                .iter_mut()
                .for_each(|rack| rack.pod = Some(PodIndex(pods.len() as u32)));
            pods.push(Pod { racks: first..end, uplink_gbps: self.link_gbps() * 2.0 });
            first = end;
        }
        pods
    }

    /// A plan for at most `gpus` GPUs, if any are free.
    pub(crate) fn plan(&mut self, state: &State<'_>, gpus: u32) -> Option<Plan> {
        let cluster = state.cluster();
        let mut free: Vec<_> = cluster
            .server_indices()
            .flat_map(|server| std::iter::repeat_n(server, state.free(server) as usize))
            .collect();
        free.shuffle(&mut self.rng);
        free.truncate(gpus as usize);
        if free.is_empty() {
            return None;
        }
        let ps = ServerIndex(self.rng.random_range(0..cluster.servers().len() as u32));
        let mut plan = Plan { ranks: free, ps: Some(ps), aggregating: Vec::new() };
        plan.aggregating = self.aggregating(&plan, cluster);
        if self.chance(0.05) {
            plan.ps = None;
        }
        Some(plan)
    }

    /// All, some or none of the racks.
    pub(crate) fn aggregating(&mut self, plan: &Plan, cluster: &Cluster) -> Vec<RackIndex> {
        let mut racks = plan.racks(cluster);
        match self.rng.random_range(0..4) {
            0 => racks.clear(),
            1 => racks.retain(|_| self.rng.random_bool(0.5)),
            _ => {}
        }
        racks
    }

    /// A random running job.
    pub(crate) fn one(&mut self, state: &State<'_>) -> Option<JobId> {
        let running: Vec<_> = state.running().keys().copied().collect();
        running.choose(&mut self.rng).copied()
    }
}

/// A job of which only the size matters.
pub(crate) fn job(id: u32, gpus: u32) -> Job {
    Job {
        id: JobId(id),
        submit_s: 0.0,
        gpus,
        iterations: 1.0,
        compute_s: 1.0,
        gradient_bytes: 1.0,
        value: 1.0,
    }
}

/// Starts at most `jobs` jobs.
pub(crate) fn start(random: &mut Random, state: &mut State<'_>, jobs: u32, gpus: u32) {
    for id in 0..jobs {
        let most = random.upto(gpus);
        if let Some(plan) = random.plan(state, most) {
            state.start(&job(id, plan.ranks.len() as u32), plan).expect("it fits");
        }
    }
}
