//! How much of a job's data a schedule has carried, and when each job ends (eqs. 10 and 11).

use crate::{Circuits, Job, Network, Schedule, UnitId};

/// Data below one bit is rounding.
pub(crate) const BIT: f64 = 1.0;

/// The state of a job that has begun to send.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Transfer {
    /// Bits left, by flow of the job's way: *D*.
    pub(crate) left: Vec<f64>,
    /// The job's rate in the slot before: *B*.
    pub(crate) rate: f64,
}

impl Transfer {
    /// A job before its first slot.
    pub(crate) fn new(job: &Job, way: usize) -> Self {
        let left = job.ways[way].flows.iter().map(|flow| flow.weight * job.bits).collect();
        Self { left, rate: 0.0 }
    }

    /// Sends for a slot (eq. 10). `grown` tells whether a pair of units has more circuits than in
    /// the slot before.
    pub(crate) fn send(
        &mut self,
        network: &Network,
        job: &Job,
        way: usize,
        rate: f64,
        grown: impl Fn(UnitId, UnitId) -> bool,
    ) {
        let increase = (rate - self.rate).max(0.0);
        for (left, flow) in self.left.iter_mut().zip(&job.ways[way].flows) {
            let interrupted = flow.from != flow.to && grown(flow.from, flow.to);
            let lost = if interrupted { increase * network.reconfiguration } else { 0.0 };
            *left = (*left - flow.weight * (rate * network.slot - lost)).max(0.0);
        }
        self.rate = rate;
    }

    /// Whether all data has arrived.
    pub(crate) fn is_over(&self) -> bool {
        self.left.iter().all(|&left| left < BIT)
    }
}

/// Whether a pair has more circuits in a slot than before: *α*.
///
/// The last line of eq. 7, `ΔP + 1 ≤ M α`, sets α also where the number stays the same. The text
/// says that α is 0 unless connections increase, and we follow the text: otherwise every increase
/// of a rate would be interrupted.
pub(crate) fn grown(before: &Circuits, now: &Circuits, a: UnitId, b: UnitId) -> bool {
    now.between(a, b) > before.between(a, b)
}

/// What a schedule achieves.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// By job: seconds from the start of slot 0 to the end of its iteration (eq. 11): the end of the
    /// last slot in which it sends, and its update. Infinite if the schedule leaves data behind.
    pub completion: Vec<f64>,
    /// Completion time of the batch (eq. 1): the largest of these; 0 without jobs.
    pub ct_bti: f64,
    /// Circuits that were set up, over all slots.
    pub reconfigurations: u32,
    /// Number of slots.
    pub slots: usize,
}

/// Evaluates a schedule.
///
/// Slot *i* ends at (*i* + 1) Δt. Eq. 11 multiplies the index by Δt, and the paper counts durations
/// from slot 1, which is the same.
///
/// # Panics
/// If the schedule is not for these jobs.
#[must_use]
pub fn outcome(network: &Network, jobs: &[Job], schedule: &Schedule) -> Outcome {
    let mut transfers: Vec<Transfer> =
        jobs.iter().zip(&schedule.ways).map(|(job, &way)| Transfer::new(job, way)).collect();
    // Without data, a job ends with its update.
    let end = |(job, &way): (&Job, &usize)| {
        let update = job.ways[way].update;
        if job.bits > 0.0 { f64::INFINITY } else { job.arrival as f64 * network.slot + update }
    };
    let mut completion: Vec<f64> = jobs.iter().zip(&schedule.ways).map(end).collect();
    let mut reconfigurations = 0;
    let mut before = &schedule.initial;
    for (at, slot) in schedule.slots.iter().enumerate() {
        reconfigurations += slot.circuits.new_since(before);
        for (index, job) in jobs.iter().enumerate() {
            let (way, rate) = (schedule.ways[index], slot.rates[index]);
            let transfer = &mut transfers[index];
            transfer.send(network, job, way, rate, |a, b| grown(before, &slot.circuits, a, b));
            if rate > 0.0 && transfer.is_over() {
                completion[index] = (at + 1) as f64 * network.slot + job.ways[way].update;
            }
        }
        before = &slot.circuits;
    }
    let ct_bti = completion.iter().copied().fold(0.0, f64::max);
    Outcome { completion, ct_bti, reconfigurations, slots: schedule.slots.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Slot, Unit};

    fn network() -> Network {
        let unit = Unit { ports: 4, inc: 1, bandwidth: 100.0 };
        Network { units: vec![unit; 2], port_rate: 10.0, reconfiguration: 0.25, slot: 1.0 }
    }

    fn job(bits: f64) -> Job {
        Job::training(0, 0, &[1, 0], UnitId(1), bits, 0.5).unwrap()
    }

    fn circuits(count: u32) -> Circuits {
        let mut circuits = Circuits::none(2);
        circuits.set(UnitId(0), UnitId(1), count);
        circuits
    }

    /// A schedule of one job: circuits before, and circuits and rate by slot.
    fn schedule(initial: u32, slots: &[(u32, f64)]) -> Schedule {
        let slots =
            slots.iter().map(|&(c, rate)| Slot { circuits: circuits(c), rates: vec![rate] });
        Schedule { ways: vec![0], initial: circuits(initial), slots: slots.collect() }
    }

    fn ends(bits: f64, initial: u32, slots: &[(u32, f64)]) -> f64 {
        outcome(&network(), &[job(bits)], &schedule(initial, slots)).completion[0]
    }

    #[test]
    fn a_job_ends_with_its_last_slot_and_its_update() {
        assert_eq!(ends(80.0, 4, &[(4, 40.0), (4, 40.0)]), 2.5);
        // It also occupies a slot in which it sends without data.
        assert_eq!(ends(80.0, 4, &[(4, 40.0), (4, 40.0), (4, 1.0)]), 3.5);
    }

    #[test]
    fn an_increase_carries_nothing_while_circuits_are_set_up() {
        // 10 units of rate more, on a pair with a new circuit, for a quarter of a slot.
        assert_eq!(ends(10.0 + 20.0 - 2.5, 1, &[(1, 10.0), (2, 20.0)]), 2.5);
        assert_eq!(ends(10.0 + 20.0, 1, &[(1, 10.0), (2, 20.0)]), f64::INFINITY);
        // The first slot is compared with the circuits before and with rate 0.
        assert_eq!(ends(10.0 - 2.5, 0, &[(1, 10.0)]), 1.5);
    }

    #[test]
    fn an_equal_number_of_circuits_interrupts_nothing() {
        // With α = 1 for ΔP = 0, as the last line of eq. 7 is printed, 5 bits would be left.
        assert_eq!(ends(10.0 + 20.0, 2, &[(2, 10.0), (2, 20.0)]), 2.5);
        // Nor does a smaller number, nor a lower rate.
        assert_eq!(ends(10.0 + 20.0, 3, &[(3, 10.0), (2, 20.0)]), 2.5);
        assert_eq!(ends(20.0 + 10.0, 2, &[(2, 20.0), (3, 10.0)]), 2.5);
    }

    #[test]
    fn set_up_circuits_are_counted_and_removed_ones_are_not() {
        let counted = schedule(2, &[(3, 10.0), (1, 10.0), (4, 10.0)]);
        let result = outcome(&network(), &[job(20.0)], &counted);
        assert_eq!(result.reconfigurations, 1 + 3);
        assert_eq!(result.slots, 3);
    }
}
