//! The circuits of a plan: those that its jobs need, those that are set up a slot before, and those that stay.

use crate::instance::{Choice, Instance};
use crate::{Schedule, Slot};

use super::Found;

/// Circuits by pair and rates by job, by slot.
pub(super) type Slots = Vec<(Vec<u32>, Vec<f64>)>;

/// Completes a plan. `initial` has the circuits by pair before slot 0, if they are given, and `options` the way of each
/// job.
///
/// Errors: the jobs that miss data, because circuits are new when they need them.
pub(super) fn settle(
    instance: &Instance<'_>,
    initial: Option<&[u32]>,
    options: &[usize],
    mut slots: Slots,
) -> Result<Found, Vec<usize>> {
    let choices: Vec<&Choice> =
        instance.jobs.iter().zip(options).map(|(job, &option)| &job.options[option]).collect();
    keep(instance, initial, &mut slots);
    let first = slots.first().map_or_else(|| vec![0; instance.pairs.len()], |slot| slot.0.clone());
    let initial = initial.unwrap_or(&first);
    let missing: Vec<usize> = (0..choices.len())
        .filter(|&job| misses(instance, initial, job, choices[job], &slots))
        .collect();
    if !missing.is_empty() {
        return Err(missing);
    }
    let mut completion = 0.0_f64;
    for (index, choice) in choices.iter().enumerate() {
        let last = slots.iter().rposition(|(_, rates)| rates[index] > 0.0);
        let end = last.map_or(instance.jobs[index].arrival, |last| last + 1);
        completion = completion.max(end as f64 * instance.network.slot + choice.update);
    }
    let initial = instance.circuits(initial);
    let slots = slots
        .into_iter()
        .map(|(circuits, rates)| Slot { circuits: instance.circuits(&circuits), rates });
    let ways = choices.iter().map(|choice| choice.way).collect();
    Ok(Found { completion, schedule: Schedule { ways, initial, slots: slots.collect() } })
}

/// Ports without a circuit, by unit.
fn free_ports(instance: &Instance<'_>, circuits: &[u32]) -> Vec<u32> {
    let mut free: Vec<u32> = instance.network.units.iter().map(|unit| unit.ports).collect();
    for (&(a, b), &count) in instance.pairs.iter().zip(circuits) {
        free[a] -= count;
        free[b] -= count;
    }
    free
}

/// Keeps circuits until their ports are needed.
fn keep(instance: &Instance<'_>, initial: Option<&[u32]>, slots: &mut Slots) {
    let mut before = initial.map(<[u32]>::to_vec);
    for (circuits, _) in slots {
        if let Some(before) = &before {
            let mut free = free_ports(instance, circuits);
            for (pair, &was) in before.iter().enumerate() {
                let (a, b) = instance.pairs[pair];
                let more = was.saturating_sub(circuits[pair]).min(free[a]).min(free[b]);
                circuits[pair] += more;
                free[a] -= more;
                free[b] -= more;
            }
        }
        before = Some(circuits.clone());
    }
}

/// Whether a pair of the job carries less than its data (eq. 10).
fn misses(
    instance: &Instance<'_>,
    initial: &[u32],
    job: usize,
    choice: &Choice,
    slots: &Slots,
) -> bool {
    let network = instance.network;
    choice.pairs.iter().any(|&(pair, _)| {
        let (mut sent, mut rate_before, mut circuits_before) = (0.0, 0.0, initial[pair]);
        for (circuits, rates) in slots {
            let rate = rates[job];
            sent += rate * network.slot;
            if circuits[pair] > circuits_before {
                sent -= network.reconfiguration * (rate - rate_before).max(0.0);
            }
            (rate_before, circuits_before) = (rate, circuits[pair]);
        }
        sent < instance.jobs[job].bits * (1.0 - 1e-9)
    })
}
