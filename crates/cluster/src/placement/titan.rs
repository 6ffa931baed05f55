//! Titan: prefers machines in use to idle ones, few machines to many, and little traffic to much
//! (Fang et al., "Non-Idle Machine-Aware Worker Placement").
//!
//! [`Instance`] is the problem of one job (equation 1), [`place`] implements algorithms 1 to 3, and
//! [`exact`] is their reference. `docs/evaluation/titan.md` lists omissions and errors in the
//! paper, with our interpretations.

#[cfg(feature = "exact")]
pub mod exact;
mod feasible;
#[cfg(feature = "exact")]
pub mod gap;
mod instance;
mod merge;
mod overall;
mod shares;
pub mod testbed;

use crate::{Collective, Job, Pending, Plan, Policy, Round, State};

pub use instance::{Instance, Objectives};
pub use overall::place;

use crate::placement::machines::{in_order, tightest, with_idle_gpus};

/// Titan's policy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Titan {
    /// The collective that sums gradients.
    pub collective: Collective,
    /// Maximum time of a phase between two machines, in seconds.
    ///
    /// If no current placement meets this limit, the job waits. If even the empty cluster could not
    /// meet it, the job would wait forever, and is placed without the bandwidth constraint.
    pub phase_s: f64,
}

impl Default for Titan {
    /// Halving-doubling (§V-B) and one second: the bytes of a phase are compared with the capacity
    /// of a path in the unit of its bandwidth.
    fn default() -> Self {
        Self { collective: Collective::HalvingDoubling, phase_s: 1.0 }
    }
}

impl Titan {
    fn plan(&self, state: &State<'_>, job: &Job) -> Option<Plan> {
        // One machine in use has room. No placement has better objectives, and no traffic crosses
        // machines.
        let used = with_idle_gpus(state).filter(|machine| !machine.idle);
        if let Some(machine) = tightest(used, job.gpus) {
            return Some(Plan::on_one(machine.server, job.gpus));
        }
        let instance = Instance::of(state, job, self.collective, self.phase_s);
        let plan = place(&instance).or_else(|| self.place_unconstrained(state, job, &instance))?;
        Some(Plan { ranks: instance.servers(&plan), ..Plan::default() })
    }
}

impl Titan {
    /// Places a job that the bandwidth constraint would delay forever. A slow sum is better than
    /// none, but the placement must not include links without bandwidth.
    fn place_unconstrained(
        &self,
        state: &State<'_>,
        job: &Job,
        instance: &Instance<'_>,
    ) -> Option<Vec<usize>> {
        let empty = State::new(state.cluster());
        if place(&Instance::of(&empty, job, self.collective, self.phase_s)).is_some() {
            return None;
        }
        let plan = place(&Instance { phase_s: f64::INFINITY, ..instance.clone() })?;
        let ranks = instance.servers(&plan);
        let time_s = self.collective.time_s(state.cluster(), job.gradient_bytes, &ranks);
        time_s.is_finite().then_some(plan)
    }
}

impl Policy for Titan {
    fn name(&self) -> &'static str {
        "Titan"
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        in_order(round, waiting, |state, job| self.plan(state, job));
    }
}

#[cfg(all(test, feature = "exact"))]
mod tests;
