//! Reduces a failing case while it still fails: first the system, then the random disturbances.

use std::collections::BTreeSet;
use std::panic;
use std::time::Duration;

use tributary_model::{Preemption, Protocol};
use tributary_sim::{Act, Disturbance};

use super::case::{Case, JobCase, Place, TensorCase, VALUES};
use super::judge::{Judge, Violation};

/// A smaller system has other frames and other disturbances, so it is tried with a few seeds.
const LUCK: u64 = 12;

/// Maximum number of runs per case.
const PATIENCE: usize = 4_000;

/// A shrunk case.
pub(crate) struct Shrunk {
    pub(crate) case: Case,
    pub(crate) violation: Violation,
}

/// Shrinks a case that fails.
pub(crate) fn shrink(judge: &Judge, case: Case, violation: Violation) -> Shrunk {
    // A case that fails by a panic would print it hundreds of times.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let shrunk = shrink_aloud(judge, case, violation);
    panic::set_hook(hook);
    shrunk
}

fn shrink_aloud(judge: &Judge, case: Case, violation: Violation) -> Shrunk {
    let mut shrinker = Shrinker { judge, runs: 0, best: Shrunk { case, violation } };
    while shrinker.smaller_system() {}
    shrinker.fewer_disturbances();
    while shrinker.fewer_frames() {}
    shrinker.best
}

struct Shrinker<'a> {
    judge: &'a Judge,
    runs: usize,
    best: Shrunk,
}

impl Shrinker<'_> {
    /// Keeps a case if it fails in the same way.
    fn take(&mut self, case: Case) -> bool {
        self.runs += 1;
        if self.runs > PATIENCE {
            return false;
        }
        match self.judge.judge(&case) {
            Err(violation) if violation.invariant == self.best.violation.invariant => {
                self.best = Shrunk { case, violation };
                true
            }
            _ => false,
        }
    }

    /// One step to a smaller system, if possible.
    fn smaller_system(&mut self) -> bool {
        for candidate in smaller(&self.best.case) {
            let calm = candidate.loss == 0 && candidate.duplicate == 0 && candidate.reorder == 0;
            let seeds = if calm && candidate.jitter == 0 { 1 } else { LUCK };
            let seed = candidate.seed;
            for luck in 0..seeds {
                let mut candidate = Case { seed: seed.wrapping_add(luck), ..candidate.clone() };
                if luck % 2 == 1 {
                    raise(&mut candidate);
                }
                if self.take(candidate) {
                    return true;
                }
            }
        }
        false
    }

    /// Removes random disturbances in halves, quarters and so on, down to single frames.
    fn fewer_disturbances(&mut self) {
        let outcome = self.judge.run(&self.best.case, false);
        let mut left: Vec<Disturbance> = outcome.disturbances.into_iter().collect();
        let with = |case: &Case, only: &[Disturbance]| Case {
            only: Some(only.iter().copied().collect::<BTreeSet<_>>()),
            ..case.clone()
        };
        if !self.take(with(&self.best.case, &left)) {
            return;
        }
        let mut size = left.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < left.len() {
                let mut rest = left.clone();
                rest.drain(at..(at + size).min(left.len()));
                if self.take(with(&self.best.case, &rest)) {
                    left = rest;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
    }

    /// One step to a smaller system with the same disturbances, which may allow removing more.
    fn fewer_frames(&mut self) -> bool {
        smaller(&self.best.case).into_iter().any(|candidate| self.take(candidate))
    }
}

/// Cases that are a step smaller, the largest steps first.
#[expect(clippy::too_many_lines, reason = "one offer for each part of a case")]
fn smaller(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    let mut offer = |change: &dyn Fn(&mut Case)| {
        let mut candidate = case.clone();
        change(&mut candidate);
        if candidate != *case {
            all.push(candidate);
        }
    };
    for job in 0..case.jobs.len() {
        if case.jobs.len() > 1 {
            offer(&|case| without_job(case, job));
        }
    }
    offer(&|case| case.acts.clear());
    for act in 0..case.acts.len() {
        offer(&|case| leave_out(&mut case.acts, act));
    }
    offer(&|case| case.optical = None);
    for patch in 1..case.optical.as_ref().map_or(0, |optical| optical.patches.len()) {
        // The last one brings light.
        offer(&|case| drop(case.optical.as_mut().unwrap().patches.remove(patch - 1)));
    }
    offer(&|case| {
        if let Some(optical) = &mut case.optical {
            optical.outage = Duration::ZERO;
        }
    });
    offer(&|case| case.calm = None);
    offer(&|case| {
        if let Some(calm) = &mut case.calm {
            calm.at -= std::mem::take(&mut calm.dark);
        }
    });
    offer(&|case| case.outages.clear());
    for outage in 0..case.outages.len() {
        offer(&|case| leave_out(&mut case.outages, outage));
    }
    offer(&|case| case.ps_rack = None);
    offer(&|case| case.two_levels = false);
    offer(&|case| case.selective = false);
    offer(&|case| case.loss = 0);
    offer(&|case| case.duplicate = 0);
    offer(&|case| case.reorder = 0);
    offer(&|case| case.jitter = 0);
    for (index, job) in case.jobs.iter().enumerate() {
        for tensor in 0..job.tensors.len() {
            if job.tensors.len() > 1 {
                offer(&|case| leave_out(&mut case.jobs[index].tensors, tensor));
            }
        }
        for worker in 0..job.workers {
            if job.workers > 1 {
                offer(&|case| without_worker(case, index, worker));
            }
        }
        offer(&|case| case.jobs[index].pauses.clear());
        for pause in 0..job.pauses.len() {
            offer(&|case| leave_out(&mut case.jobs[index].pauses, pause));
        }
        offer(&|case| case.jobs[index].agent_apart = false);
        offer(&|case| case.jobs[index].place = Place::Unit(0));
        offer(&|case| case.jobs[index].at_server = false);
        offer(&|case| case.jobs[index].segment = 1);
        for (round, tensor) in job.tensors.iter().enumerate() {
            let mut change = |change: &dyn Fn(&mut TensorCase)| {
                offer(&|case| change(&mut case.jobs[index].tensors[round]));
            };
            let fragments = tensor.fragments();
            if fragments > 1 {
                change(&|tensor| tensor.values = VALUES);
                change(&|tensor| tensor.values = VALUES * fragments.div_ceil(2));
                change(&|tensor| tensor.values = VALUES * (fragments - 1));
            }
            change(&|tensor| tensor.overflows = false);
            change(&|tensor| tensor.integers = false);
        }
    }
    offer(&|case| case.preemption = Preemption::Priority);
    offer(&|case| case.ecn = 3);
    offer(&|case| case.queue = 48);
    offer(&|case| case.pool = 1);
    offer(&|case| case.window = 1);
    offer(&|case| {
        case.slots = case.slots.min(4);
        case.window = case.window.min(4);
    });
    if case.protocol != Protocol::Esa && case.slots > 1 {
        for slots in [1, case.slots / 2] {
            offer(&|case| {
                case.slots = slots;
                case.window = case.window.min(slots);
            });
        }
    }
    all
}

/// With few frames, each needs a higher chance of disturbances for any to happen.
fn raise(case: &mut Case) {
    for rate in [&mut case.loss, &mut case.duplicate, &mut case.reorder] {
        if *rate > 0 {
            *rate = (*rate).max(200);
        }
    }
}

fn leave_out<T>(list: &mut Vec<T>, at: usize) {
    list.remove(at);
}

/// Removes a job and renumbers the acts, which name jobs by index.
fn without_job(case: &mut Case, job: usize) {
    case.jobs.remove(job);
    case.acts.retain(|(_, act)| act.job() != Some(job));
    for (_, act) in &mut case.acts {
        *act = act.of_job(|its| if its > job { its - 1 } else { its });
    }
}

fn without_worker(case: &mut Case, job: usize, worker: usize) {
    let JobCase { workers, pauses, .. } = &mut case.jobs[job];
    *workers -= 1;
    pauses.retain(|(whose, _)| *whose != worker);
    for (whose, _) in pauses.iter_mut() {
        *whose -= usize::from(*whose > worker);
    }
    let of = |act: &Act| match *act {
        Act::Cut(its, whose) | Act::Stray { job: its, worker: whose, .. } => {
            (its == job).then_some(whose)
        }
        _ => None,
    };
    case.acts.retain(|(_, act)| of(act) != Some(worker));
    for (_, act) in &mut case.acts {
        if let Act::Cut(its, whose) | Act::Stray { job: its, worker: whose, .. } = act
            && *its == job
        {
            *whose -= usize::from(*whose > worker);
        }
    }
}
