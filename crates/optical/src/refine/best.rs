//! The best schedule of all schedulers, for each number of ports.

use crate::instance::Instance;
use crate::{Circuits, Error, Fcfs, Job, Network, Schedule, Scheduler, Tw, bound, drive, outcome};

use super::{Found, Search};

/// The circuits before slot 0.
#[derive(Clone, Copy)]
pub(super) enum Start<'a> {
    /// Uniform ones.
    Uniform,
    /// These.
    Given(&'a Circuits),
    /// Any.
    Free,
}

impl Start<'_> {
    /// The circuits of a network, unless they are free.
    fn circuits(self, network: &Network) -> Option<Circuits> {
        match self {
            Self::Uniform => Some(Circuits::uniform(network)),
            Self::Given(circuits) => Some(circuits.clone()),
            Self::Free => None,
        }
    }

    /// Whether the circuits of a network contain those of the same one with fewer ports. Always, if all units
    /// have as many ports.
    fn contains(self, fewer: &Network, network: &Network) -> bool {
        match self {
            Self::Uniform => Circuits::uniform(fewer).new_since(&Circuits::uniform(network)) == 0,
            Self::Given(_) | Self::Free => true,
        }
    }

    /// The ports that a unit needs for these circuits, whatever is scheduled.
    fn ports(self, network: &Network) -> u32 {
        match self {
            Self::Uniform | Self::Free => 0,
            Self::Given(circuits) => {
                network.unit_ids().map(|unit| circuits.ports(unit)).max().unwrap_or(0)
            }
        }
    }
}

/// The best of all schedulers' schedules, among equals the one that sets up the fewest circuits.
///
/// A schedule for fewer ports in every unit is also one for the network: uniform circuits of more ports
/// contain those of fewer ones, so that no circuit is new that was not. If all units have as many ports, the
/// candidates of a network are among those of a network with a port more in every unit, so that this port is
/// never worse. Numbers of ports
/// whose lower bound is not below the best known schedule are left out, which changes nothing.
pub(super) fn best(network: &Network, jobs: &[Job], start: Start<'_>) -> Result<Schedule, Error> {
    for job in jobs {
        drive::check(network, job)?;
    }
    let mut best: Option<((f64, u32), Schedule)> = None;
    let most = network.units.iter().map(|unit| unit.ports).max().unwrap_or(0);
    for ports in (start.ports(network).min(most)..=most).rev() {
        let mut capped = network.clone();
        capped.units.iter_mut().for_each(|unit| unit.ports = unit.ports.min(ports));
        let instance = match Instance::new(&capped, jobs) {
            Ok(instance) => instance,
            Err(error) if best.is_none() => return Err(error),
            Err(_) => break,
        };
        if !start.contains(&capped, network) {
            continue;
        }
        let bound = bound::quick(&instance);
        let near = 1e-7 * network.slot;
        if bound > instance.longest() {
            break;
        }
        if best.as_ref().is_some_and(|((completion, _), _)| bound >= completion - near) {
            break;
        }
        for Found { completion, mut schedule } in candidates(&instance, jobs, bound, start) {
            if let Start::Uniform = start {
                schedule.initial = Circuits::uniform(network);
            }
            let rank = (completion, outcome(network, jobs, &schedule).reconfigurations);
            if best.as_ref().is_none_or(|(known, _)| rank < *known) {
                best = Some((rank, schedule));
            }
        }
    }
    let slots = crate::limits::slots(network, jobs);
    best.map(|(_, schedule)| schedule).ok_or(Error::Long(slots))
}

/// The schedules of the paper's schedulers that can carry out all jobs, and that of the search.
fn candidates(instance: &Instance<'_>, jobs: &[Job], bound: f64, start: Start<'_>) -> Vec<Found> {
    let network = instance.network;
    let initial = start.circuits(network);
    let from = || initial.clone().unwrap_or_else(|| Circuits::uniform(network));
    let fcfs = [false, true].map(|inc| Fcfs::new(inc).schedule_from(network, jobs, from()));
    let tw = [(false, true), (true, true), (true, false)]
        .map(|(inc, reconfigure)| Tw::new(inc, reconfigure).schedule_from(network, jobs, from()));
    let found = |schedule: Schedule| Found {
        completion: outcome(network, jobs, &schedule).ct_bti,
        schedule,
    };
    let mut all: Vec<Found> = fcfs.into_iter().chain(tw).flatten().map(found).collect();
    let known = all.iter().map(|found| found.completion).fold(f64::INFINITY, f64::min);
    let found = Search::new(instance, initial.as_ref()).run(bound, known);
    all.extend(found.filter(|found| found.schedule.slots.len() <= instance.slots));
    all
}
