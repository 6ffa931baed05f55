//! How the reminder agent of an ESA job reaches the switches that add for it.
//!
//! A reminder names a switch by the workers that meet in it and is addressed to one of these
//! workers, so that plain forwarding brings it to the switch. It comes from above if the agent is
//! at the parameter server, otherwise from any side, also through switches that have no other part
//! in the job. The switch's answer returns the same way.

use tributary_wire::{Bitmap, Rack};

use super::tree::parts_in_tree;
use super::{JobAtSwitch, Placement};
use crate::paths::Tree;
use crate::{Error, HostId, SwitchId, Topology};

/// A switch that adds for a job, and so may hold partial sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The switch.
    pub switch: SwitchId,
    /// The rack whose workers meet in it; [`Rack::NONE`]: positions do.
    pub rack: Rack,
    /// Those workers or positions.
    pub members: Bitmap,
    /// The destination of reminders for the switch: a worker whose packets from the agent pass it.
    pub via: HostId,
}

/// The switches that add for a job, in the order of [`plan::job`](crate::plan::job), and how the
/// agent reaches them.
///
/// # Errors
/// [`Error::AgentAside`] if it cannot reach one. An agent at the parameter server always can, and
/// so can every agent where switches form a tree.
///
/// # Panics
/// If the placement has workers that do not fit or names a host that the topology does not have.
pub fn targets(topology: &Topology, placement: &Placement) -> Result<Vec<Target>, Error> {
    let parts = parts_in_tree(topology, placement);
    let aggregating = parts.iter().filter(|part| part.aggregates());
    aggregating
        .map(|part| {
            let (via, _) = way_to(topology, placement, &parts, part).ok_or_else(|| {
                let agent = placement.agent.map_or("?", |agent| &topology.host(agent).name).into();
                let switch = topology.switch(part.switch).name.clone();
                Error::AgentAside { job: placement.job, agent, switch }
            })?;
            Ok(Target { switch: part.switch, rack: part.rack, members: part.members, via })
        })
        .collect()
}

/// A switch on the path of a reminder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub(super) switch: SwitchId,
    /// The port on which the reminder arrives.
    pub(super) into: u16,
    /// The port by which the reminder leaves, and on which the answer arrives.
    pub(super) out: u16,
}

/// A worker whose packets from the agent pass a switch, and the steps up to that switch.
pub(super) fn way_to(
    topology: &Topology,
    placement: &Placement,
    parts: &[JobAtSwitch],
    target: &JobAtSwitch,
) -> Option<(HostId, Vec<Step>)> {
    let agent = placement.agent?;
    placement.workers.iter().find_map(|&worker| {
        let mut steps = path(topology, agent, worker);
        let end = steps.iter().position(|step| step.switch == target.switch)?;
        steps.truncate(end + 1);
        // Answers must pass only ports whose unit contains all workers that an answer may contain.
        let fits = |step: &Step| {
            let part = parts.iter().find(|part| part.switch == step.switch);
            let same = part.filter(|part| part.rack == target.rack);
            let unit = same.and_then(|part| part.units.get(&step.out));
            unit.is_none_or(|unit| target.members.is_subset(*unit))
        };
        steps[..end].iter().all(fits).then_some((worker, steps))
    })
}

/// The switches between two hosts on the path of plain forwarding.
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
