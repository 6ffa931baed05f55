//! Common parts of Titan and its baselines: machines with idle GPUs, and placing one job after
//! another.

use crate::{Cluster, Job, Pending, Plan, Round, ServerIndex, State, path_gbps};

use crate::placement::regions;

/// A machine with idle GPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// The server.
    pub server: ServerIndex,
    /// Number of idle GPUs: R<sub>s</sub> of Titan §III-A.
    pub free: u32,
    /// Whether all of its GPUs are idle: in S<sub>n</sub>, else in S<sub>f</sub>.
    pub idle: bool,
}

/// All machines with idle GPUs, in order.
pub(crate) fn with_idle_gpus<'s>(state: &'s State<'_>) -> impl Iterator<Item = Machine> + 's {
    let cluster = state.cluster();
    cluster.server_indices().filter_map(move |server| {
        let free = state.free(server);
        (free > 0).then(|| Machine { server, free, idle: free == cluster.server(server).gpus })
    })
}

/// The machine with the fewest idle GPUs that has at least `gpus`; the first of several.
pub(crate) fn tightest(machines: impl Iterator<Item = Machine>, gpus: u32) -> Option<Machine> {
    let mut best: Option<Machine> = None;
    for machine in machines {
        if machine.free >= gpus && best.is_none_or(|best| machine.free < best.free) {
            if machine.free == gpus {
                return Some(machine);
            }
            best = Some(machine);
        }
    }
    best
}

/// Sorts by idle GPUs, most first; ties by index.
pub(crate) fn sort_by_most(machines: &mut [Machine]) {
    machines.sort_unstable_by_key(|machine| (std::cmp::Reverse(machine.free), machine.server));
}

/// Numbers of GPUs on servers, in the order in which ranks fill them.
pub(crate) type Shares = Vec<(ServerIndex, u32)>;

/// As few machines as possible. While no machine has room for the rest, takes the one with the most
/// idle GPUs; then the one with the fewest that has room. `None` if there are too few GPUs.
pub(crate) fn consolidated(mut machines: Vec<Machine>, gpus: u32) -> Option<Shares> {
    if let Some(one) = tightest(machines.iter().copied(), gpus) {
        return Some(vec![(one.server, gpus)]);
    }
    sort_by_most(&mut machines);
    let (mut shares, mut rest, mut next) = (Vec::new(), gpus, 0);
    while machines.get(next)?.free < rest {
        shares.push((machines[next].server, machines[next].free));
        rest -= machines[next].free;
        next += 1;
    }
    let last = tightest(machines[next..].iter().copied(), rest)?;
    shares.push((last.server, rest));
    Some(shares)
}

/// The result of `place` for these machines. If it puts a job on machines that cannot reach each
/// other, tries one region after another (see [`regions`]).
pub(crate) fn within_reach(
    cluster: &Cluster,
    machines: Vec<Machine>,
    place: impl Fn(Vec<Machine>) -> Option<Shares>,
) -> Option<Shares> {
    let shares = place(machines.clone())?;
    let reaches = |&(server, _): &(ServerIndex, u32)| path_gbps(cluster, shares[0].0, server) > 0.0;
    if shares.iter().all(reaches) {
        return Some(shares);
    }
    regions::of(cluster).iter().find_map(|region| {
        let servers: Vec<_> = region.servers(cluster).collect();
        let mut machines = machines.clone();
        machines.retain(|machine| servers.binary_search(&machine.server).is_ok());
        place(machines)
    })
}

/// Places jobs in the order of submission. A job that does not fit waits; later jobs do not wait
/// for it.
pub(crate) fn in_order(
    round: &mut Round<'_, '_>,
    waiting: &[Pending],
    mut place: impl FnMut(&State<'_>, &Job) -> Option<Plan>,
) {
    for Pending { job, .. } in waiting {
        if round.free_total() == 0 {
            return;
        }
        if job.gpus <= round.free_total()
            && let Some(plan) = place(round, job)
        {
            round.start(job, plan).expect("policies take idle GPUs only");
        }
    }
}
