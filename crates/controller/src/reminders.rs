//! How the reminder agent of an ESA job reaches the switches that add for it.
//!
//! A reminder names a switch by the workers that meet in it and is addressed to one of them, so that
//! plain forwarding brings it there. It comes from wherever the agent is: from above where the agent
//! is at the parameter server, else from any side, through switches that have no other part in the
//! job. What the switch answers goes back the same way.

use tributary_jobfile::{HostId, SwitchId, Topology};
use tributary_wire::Bitmap;

use crate::Error;
use crate::paths::Tree;
use crate::plan::{JobAtSwitch, Placement, parts_in_tree};

/// A switch that adds for a job, and so may hold partial sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The switch.
    pub switch: SwitchId,
    /// The workers that meet in it.
    pub members: Bitmap,
    /// One of them, such that packets for it from the agent pass the switch.
    pub via: HostId,
}

/// The switches that add for a job, in the order of [`plan::job`](crate::plan::job), and how the
/// agent reaches them.
///
/// # Errors
/// [`Error::AgentAside`] if it cannot reach one. It always can where it is at the parameter server,
/// and wherever switches form a tree.
///
/// # Panics
/// If the placement has more than 32 workers or names a host that the topology does not have.
pub fn targets(topology: &Topology, placement: &Placement) -> Result<Vec<Target>, Error> {
    let parts = parts_in_tree(topology, placement);
    let aggregating = parts.iter().filter(|part| part.aggregates());
    aggregating
        .map(|part| {
            let (via, _) = way_to(topology, placement, &parts, part).ok_or_else(|| {
                let agent = topology.host(placement.agent).name.clone();
                let switch = topology.switch(part.switch).name.clone();
                Error::AgentAside { job: placement.job, agent, switch }
            })?;
            Ok(Target { switch: part.switch, members: part.members, via })
        })
        .collect()
}

/// A switch on the way of a reminder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) switch: SwitchId,
    /// The port that the reminder comes from.
    pub(crate) into: u16,
    /// The port that it leaves by, and that the answer comes from.
    pub(crate) out: u16,
}

/// A worker whose packets from the agent pass a switch, and the steps up to that switch.
pub(crate) fn way_to(
    topology: &Topology,
    placement: &Placement,
    parts: &[JobAtSwitch],
    target: &JobAtSwitch,
) -> Option<(HostId, Vec<Step>)> {
    placement.workers.iter().find_map(|&worker| {
        let mut steps = path(topology, placement.agent, worker);
        let end = steps.iter().position(|step| step.switch == target.switch)?;
        steps.truncate(end + 1);
        // What comes back passes only ports that speak for all that may be in it.
        let fits = |step: &Step| {
            let part = parts.iter().find(|part| part.switch == step.switch);
            let unit = part.and_then(|part| part.units.get(&step.out));
            unit.is_none_or(|unit| target.members.is_subset(*unit))
        };
        steps[..end].iter().all(fits).then_some((worker, steps))
    })
}

/// The switches between two hosts, as plain forwarding goes.
fn path(topology: &Topology, from: HostId, to: HostId) -> Vec<Step> {
    let (home, last) = topology.attachment(to);
    let tree = Tree::towards(topology, home);
    let (mut switch, mut into) = topology.attachment(from);
    let mut steps = Vec::new();
    while let Some(hop) = tree.hop(switch) {
        steps.push(Step { switch, into, out: hop.out });
        (switch, into) = (hop.to, hop.into);
    }
    steps.push(Step { switch, into, out: last });
    steps
}
