//! The problem of placing one job (Titan equation 1).

use tributary_cluster::{Cluster, Collective, Job, ServerIndex, State, path_gbps};

use crate::machines::{Machine, with_idle_gpus};

/// Where the ranks of a job may go, and what they will send each other.
#[derive(Clone, Debug)]
pub struct Instance<'c> {
    /// What there is.
    pub cluster: &'c Cluster,
    /// Machines with idle GPUs, in order.
    pub machines: Vec<Machine>,
    /// Ranks, one GPU each: |N|.
    pub ranks: u32,
    /// Gradients of a rank, bytes.
    pub gradient_bytes: f64,
    /// How the ranks sum them.
    pub collective: Collective,
    /// Time in which a phase must get what it sends from one machine to another, seconds; infinite:
    /// no bandwidth constraint. Equation 1 compares bytes with a bandwidth, so some time is meant.
    pub phase_s: f64,
}

/// What equation 1 minimises, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Objectives {
    /// O<sub>1</sub>: idle machines that the job uses.
    pub idle: u32,
    /// O<sub>2</sub>: machines that the job uses.
    pub machines: u32,
}

impl<'c> Instance<'c> {
    /// The problem for a job in a cluster as it is.
    #[must_use]
    pub fn of(state: &State<'c>, job: &Job, collective: Collective, phase_s: f64) -> Self {
        Self {
            cluster: state.cluster(),
            machines: with_idle_gpus(state).collect(),
            ranks: job.gpus,
            gradient_bytes: job.gradient_bytes,
            collective,
            phase_s,
        }
    }

    /// Bytes that a phase may send from one machine to another: P<sub>s,s'</sub>.
    #[must_use]
    pub fn limit_bytes(&self, from: usize, to: usize) -> f64 {
        let (from, to) = (self.machines[from].server, self.machines[to].server);
        path_gbps(self.cluster, from, to) * self.phase_s / 8e-9
    }

    /// What a plan costs. A plan is the number of the machine of each rank.
    #[must_use]
    pub fn objectives(&self, plan: &[usize]) -> Objectives {
        let mut used = plan.to_vec();
        used.sort_unstable();
        used.dedup();
        let idle = used.iter().filter(|&&machine| self.machines[machine].idle).count();
        Objectives { idle: idle as u32, machines: used.len() as u32 }
    }

    /// Bytes that cross machines in one all-reduce under a plan.
    #[must_use]
    pub fn cross_machine_bytes(&self, plan: &[usize]) -> f64 {
        self.collective.cross_machine_bytes(self.gradient_bytes, &self.servers(plan))
    }

    /// The servers of a plan's ranks.
    #[must_use]
    pub fn servers(&self, plan: &[usize]) -> Vec<ServerIndex> {
        plan.iter().map(|&machine| self.machines[machine].server).collect()
    }

    /// Whether a plan meets the constraints of equation 1, recomputed from the whole schedule of the
    /// collective: every rank on one machine, no more ranks than idle GPUs, and in no phase more
    /// bytes from one machine to another than their path takes.
    #[must_use]
    pub fn is_feasible(&self, plan: &[usize]) -> bool {
        let held = |machine: usize| plan.iter().filter(|&&on| on == machine).count();
        let machines = || plan.iter().copied();
        plan.len() == self.ranks as usize
            && machines().all(|machine| held(machine) <= self.machines[machine].free as usize)
            && self.collective.schedule(self.ranks).all(|phase| {
                let bytes = phase.share * self.gradient_bytes;
                phase.transfers().all(|(from, to)| {
                    let (s, t) = (plan[from as usize], plan[to as usize]);
                    let together = phase
                        .transfers()
                        .filter(|&(a, b)| plan[a as usize] == s && plan[b as usize] == t)
                        .count();
                    s == t || within(together as f64 * bytes, self.limit_bytes(s, t))
                })
            })
    }

    /// Whether some placement could break the bandwidth constraint. If not, nobody needs to look.
    #[must_use]
    pub(crate) fn can_congest(&self) -> bool {
        if self.phase_s == f64::INFINITY {
            return false;
        }
        let narrowest = self.narrowest_gbps() * self.phase_s / 8e-9;
        let most = self.machines.iter().map(|machine| machine.free).max().unwrap_or(0);
        let share = self.collective.phases(self.ranks).map(|phase| phase.share).fold(0.0, f64::max);
        !within(f64::from(most.min(self.ranks)) * share * self.gradient_bytes, narrowest)
    }

    fn narrowest_gbps(&self) -> f64 {
        let servers = self.machines.iter().map(|m| self.cluster.server(m.server).link_gbps);
        let racks = self.cluster.racks().iter().map(|rack| rack.uplink_gbps);
        let pods = self.cluster.pods().iter().map(|pod| pod.uplink_gbps);
        servers.chain(racks).chain(pods).fold(f64::INFINITY, f64::min)
    }
}

/// At most, but for rounding.
pub(crate) fn within(bytes: f64, limit_bytes: f64) -> bool {
    bytes <= limit_bytes * (1.0 + 1e-9)
}
