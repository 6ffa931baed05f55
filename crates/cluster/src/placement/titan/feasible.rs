//! The feasible worker set of a machine (Titan algorithm 1).

use std::collections::HashMap;

use crate::Phase;

use super::instance::{Instance, within};

/// A job with some ranks placed, and the traffic between them.
#[derive(Clone, Debug)]
pub(super) struct Deployment<'i, 'c> {
    pub(super) instance: &'i Instance<'c>,
    phases: Vec<Phase>,
    at: Vec<Option<usize>>,
    /// C<sub>f,f'</sub>: bytes of a phase from one machine to another. Only used for lookups, never
    /// iterated.
    loads: HashMap<(usize, usize, usize), f64>,
    /// Whether the bandwidth constraint can matter.
    constrained: bool,
}

impl<'i, 'c> Deployment<'i, 'c> {
    pub(super) fn new(instance: &'i Instance<'c>) -> Self {
        Self {
            instance,
            phases: instance.collective.phases(instance.ranks).collect(),
            at: vec![None; instance.ranks as usize],
            loads: HashMap::new(),
            constrained: instance.can_congest(),
        }
    }

    /// The machine of every rank; `None` if a rank has none.
    pub(super) fn plan(&self) -> Option<Vec<usize>> {
        self.at.iter().copied().collect()
    }

    /// A(s): the remaining ranks that this machine may get, all of them together.
    ///
    /// Algorithm 1 as printed admits a rank as soon as one of its exchanges fits, never accumulates
    /// the admitted traffic, and ignores the number of GPUs. Here a rank is admitted if all of its
    /// exchanges fit in all phases, in addition to those of the ranks placed or admitted before it,
    /// until the idle GPUs are used up.
    pub(super) fn feasible_set(&mut self, machine: usize, left: &[u32]) -> Vec<u32> {
        let room = self.instance.machines[machine].free as usize;
        if !self.constrained {
            return left[..room.min(left.len())].to_vec();
        }
        let mut set = Vec::new();
        for &rank in left {
            if set.len() == room {
                break;
            }
            if self.try_put(rank, machine) {
                set.push(rank);
            }
        }
        for &rank in set.iter().rev() {
            self.take(rank);
        }
        set
    }

    /// Whether a rank's exchanges with all placed ranks fit.
    fn fits(&self, rank: u32, machine: usize) -> bool {
        self.exchanges(rank, machine).all(|(key, bytes)| {
            let load = self.loads.get(&key).copied().unwrap_or(0.0);
            within(load + bytes, self.instance.limit_bytes(key.1, key.2))
        })
    }

    /// Places a rank on a machine.
    pub(super) fn put(&mut self, rank: u32, machine: usize) {
        if self.constrained {
            let added: Vec<_> = self.exchanges(rank, machine).collect();
            for (key, bytes) in added {
                *self.loads.entry(key).or_default() += bytes;
            }
        }
        self.at[rank as usize] = Some(machine);
    }

    /// Places a rank on a machine if its exchanges with all placed ranks fit.
    pub(super) fn try_put(&mut self, rank: u32, machine: usize) -> bool {
        let fits = !self.constrained || self.fits(rank, machine);
        if fits {
            self.put(rank, machine);
        }
        fits
    }

    /// Removes the rank that was placed last.
    pub(super) fn take(&mut self, rank: u32) {
        let machine = self.at[rank as usize].take().expect("the rank was put");
        let added: Vec<_> = self.exchanges(rank, machine).collect();
        for (key, bytes) in added {
            *self.loads.get_mut(&key).expect("it was added") -= bytes;
        }
    }

    /// The traffic in both directions between a rank on a machine and ranks on other machines:
    /// (phase, from, to) and bytes.
    fn exchanges(
        &self,
        rank: u32,
        machine: usize,
    ) -> impl Iterator<Item = ((usize, usize, usize), f64)> {
        self.phases.iter().enumerate().flat_map(move |(number, phase)| {
            let placed = |other: Option<u32>| {
                other.and_then(|other| self.at[other as usize]).filter(|&other| other != machine)
            };
            let bytes = phase.share * self.instance.gradient_bytes;
            let to = placed(phase.sends_to(rank)).map(|to| ((number, machine, to), bytes));
            let from =
                placed(phase.receives_from(rank)).map(|from| ((number, from, machine), bytes));
            to.into_iter().chain(from)
        })
    }
}
