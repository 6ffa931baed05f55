//! A cluster and its running jobs.

use std::collections::BTreeMap;

use crate::job::{Job, JobId};
use crate::plan::Plan;
use crate::steady::{Steady, SteadyNetwork};
use crate::topology::{Cluster, RackIndex, ServerIndex};

/// A running job.
#[derive(Clone, PartialEq, Debug)]
pub struct Running {
    /// The job.
    pub job: Job,
    /// Its plan.
    pub plan: Plan,
}

/// Why a plan is infeasible.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Infeasible {
    /// The job already runs.
    #[error("job {} runs already", .0.0)]
    Runs(JobId),
    /// The plan has too few or too many GPUs.
    #[error("job {} wants {wanted} GPUs; its plan has {planned}", job.0)]
    Gpus {
        /// The job.
        job: JobId,
        /// Number of GPUs requested.
        wanted: u32,
        /// Number of GPUs in the plan.
        planned: u32,
    },
    /// A server has fewer free GPUs than the plan takes.
    #[error("job {} takes {taken} GPUs of server {}, where {free} are free", job.0, server.0)]
    Taken {
        /// The job.
        job: JobId,
        /// The server.
        server: ServerIndex,
        /// Number of GPUs that the plan takes there.
        taken: u32,
        /// Number of free GPUs there.
        free: u32,
    },
    /// The plan names a server that is not in the cluster.
    #[error("job {} names server {}, which the cluster does not have", job.0, server.0)]
    Unknown {
        /// The job.
        job: JobId,
        /// The server.
        server: ServerIndex,
    },
}

/// A cluster and its running jobs.
#[derive(Clone, Debug)]
pub struct State<'c> {
    cluster: &'c Cluster,
    free: Vec<u32>,
    free_total: u32,
    /// By server: number of parameter servers.
    serving: Vec<u32>,
    running: BTreeMap<JobId, Running>,
    steady: Steady,
}

impl<'c> State<'c> {
    /// A cluster without jobs.
    #[must_use]
    pub fn new(cluster: &'c Cluster) -> Self {
        Self {
            cluster,
            free: cluster.servers().iter().map(|server| server.gpus).collect(),
            free_total: cluster.gpus(),
            serving: vec![0; cluster.servers().len()],
            running: BTreeMap::new(),
            steady: Steady::new(cluster),
        }
    }

    /// The cluster.
    #[must_use]
    pub const fn cluster(&self) -> &'c Cluster {
        self.cluster
    }

    /// Number of free GPUs of a server.
    #[must_use]
    pub fn free(&self, server: ServerIndex) -> u32 {
        self.free[server.at()]
    }

    /// Number of free GPUs of the cluster.
    #[must_use]
    pub const fn free_total(&self) -> u32 {
        self.free_total
    }

    /// Number of parameter servers of running jobs on a server.
    #[must_use]
    pub fn parameter_servers(&self, server: ServerIndex) -> u32 {
        self.serving[server.at()]
    }

    /// The running jobs.
    #[must_use]
    pub const fn running(&self) -> &BTreeMap<JobId, Running> {
        &self.running
    }

    /// Starts a job.
    ///
    /// # Errors
    ///
    /// If the plan is infeasible. The state is then unchanged.
    pub fn start(&mut self, job: &Job, plan: Plan) -> Result<(), Infeasible> {
        if self.running.contains_key(&job.id) {
            return Err(Infeasible::Runs(job.id));
        }
        if plan.ranks.len() != job.gpus as usize {
            return Err(Infeasible::Gpus {
                job: job.id,
                wanted: job.gpus,
                planned: plan.ranks.len() as u32,
            });
        }
        for &server in plan.ranks.iter().chain(&plan.ps) {
            if server.at() >= self.free.len() {
                return Err(Infeasible::Unknown { job: job.id, server });
            }
        }
        let workers = plan.workers();
        for &(server, taken) in &workers {
            let free = self.free(server);
            if taken > free {
                return Err(Infeasible::Taken { job: job.id, server, taken, free });
            }
        }
        for (server, taken) in workers {
            self.free[server.at()] -= taken;
        }
        self.free_total -= job.gpus;
        plan.ps.iter().for_each(|ps| self.serving[ps.at()] += 1);
        self.steady.insert(self.cluster, job.id, &plan);
        let job = job.clone();
        self.running.insert(job.id, Running { job, plan });
        Ok(())
    }

    /// Ends a job and frees its GPUs; `None` if it does not run.
    pub fn end(&mut self, job: JobId) -> Option<Running> {
        let ended = self.running.remove(&job)?;
        self.steady.remove(job);
        for (server, taken) in ended.plan.workers() {
            self.free[server.at()] += taken;
        }
        self.free_total += ended.job.gpus;
        ended.plan.ps.iter().for_each(|ps| self.serving[ps.at()] -= 1);
        Some(ended)
    }

    /// Sets the racks whose switches aggregate for a running job (NetPack §5.2, step 4).
    ///
    /// # Panics
    ///
    /// If the job does not run.
    pub fn aggregate_at(&mut self, job: JobId, racks: Vec<RackIndex>) {
        self.change(job, |plan| plan.aggregating = racks);
    }

    /// Moves the parameter server of a running job. All switches with something to sum then
    /// aggregate for the job.
    ///
    /// # Panics
    ///
    /// If the job does not run, or has no parameter server.
    pub fn serve_at(&mut self, job: JobId, ps: ServerIndex) {
        let (cluster, mut before) = (self.cluster, None);
        self.change(job, |plan| {
            before = plan.ps.replace(ps);
            plan.aggregating = plan.summing_racks(cluster);
        });
        self.serving[before.expect("the job has a parameter server").at()] -= 1;
        self.serving[ps.at()] += 1;
    }

    fn change(&mut self, job: JobId, change: impl FnOnce(&mut Plan)) {
        let running = self.running.get_mut(&job).expect("the job runs");
        change(&mut running.plan);
        self.steady.remove(job);
        self.steady.insert(self.cluster, job, &running.plan);
    }

    /// The rates of the running jobs, and the remaining capacity of the network.
    ///
    /// It costs nothing if nothing has changed since the last call. Otherwise new rates are
    /// computed for the affected jobs: those that the change reaches, from job to job, over
    /// saturated links and switches. If these jobs use `u` links and switches, each counted once
    /// per job, the cost is O(u log u).
    pub fn network(&mut self) -> &SteadyNetwork {
        self.steady.settle();
        self.steady.network()
    }

    /// [`network`](Self::network) together with the state.
    pub fn with_network(&mut self) -> (&Self, &SteadyNetwork) {
        self.steady.settle();
        (self, self.steady.network())
    }

    /// The running jobs that use the network and whose rates have changed since the last call, in
    /// order.
    pub fn take_rerated(&mut self) -> Vec<JobId> {
        self.steady.take_rerated()
    }
}
