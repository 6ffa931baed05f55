//! The problem of placing one job (Titan equation 1).

use crate::{Cluster, Collective, Job, ServerIndex, State, path_gbps};

use crate::placement::machines::{Machine, with_idle_gpus};

/// A job's ranks, the machines available to them, and the traffic between them.
#[derive(Clone, Debug)]
pub struct Instance<'c> {
    /// The cluster.
    pub cluster: &'c Cluster,
    /// Machines with idle GPUs, in order.
    pub machines: Vec<Machine>,
    /// Number of ranks, one GPU each: |N|.
    pub ranks: u32,
    /// Gradients of a rank in bytes.
    pub gradient_bytes: f64,
    /// The collective that sums gradients.
    pub collective: Collective,
    /// Time in seconds within which a phase must transfer its data from one machine to another.
    /// Infinite for no bandwidth constraint. Equation 1 compares bytes with a bandwidth, which
    /// implies such a time.
    pub phase_s: f64,
}

/// The objectives of equation 1, in descending priority.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Objectives {
    /// O<sub>1</sub>: number of idle machines that the job uses.
    pub idle: u32,
    /// O<sub>2</sub>: number of machines that the job uses.
    pub machines: u32,
}

impl<'c> Instance<'c> {
    /// The problem for a job in the current state of a cluster.
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

    /// Maximum number of bytes of a phase from one machine to another: P<sub>s,s'</sub>.
    #[must_use]
    pub fn limit_bytes(&self, from: usize, to: usize) -> f64 {
        let (from, to) = (self.machines[from].server, self.machines[to].server);
        path_gbps(self.cluster, from, to) * self.phase_s / 8e-9
    }

    /// The objectives of a plan. A plan contains the number of the machine of each rank.
    #[must_use]
    pub fn objectives(&self, plan: &[usize]) -> Objectives {
        let mut used = plan.to_vec();
        used.sort_unstable();
        used.dedup();
        let idle = used.iter().filter(|&&machine| self.machines[machine].idle).count();
        Objectives { idle: idle as u32, machines: used.len() as u32 }
    }

    /// Number of bytes that cross machines in one all-reduce under a plan.
    #[must_use]
    pub fn cross_machine_bytes(&self, plan: &[usize]) -> f64 {
        self.collective.cross_machine_bytes(self.gradient_bytes, &self.servers(plan))
    }

    /// The servers of a plan's ranks.
    #[must_use]
    pub fn servers(&self, plan: &[usize]) -> Vec<ServerIndex> {
        plan.iter().map(|&machine| self.machines[machine].server).collect()
    }

    /// Whether a plan meets the constraints of equation 1, recomputed from the whole schedule of
    /// the collective: every rank on one machine, no more ranks than idle GPUs, and no more bytes
    /// of any phase between two machines than the capacity of their path.
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

    /// Whether some placement could violate the bandwidth constraint. If not, it need not be
    /// checked.
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

/// Whether `bytes` is at most the limit, up to rounding.
pub(crate) fn within(bytes: f64, limit_bytes: f64) -> bool {
    bytes <= limit_bytes * (1.0 + 1e-9)
}
