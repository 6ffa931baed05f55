//! One slot at a time: for a controller that learns as it goes which jobs there are and how far they
//! are.

use crate::allocation::{Allocation, Shape};
use crate::drive::{Rules, check, prepare};
use crate::transfer::Transfer;
use crate::{Circuits, Error, Job, Network, Scheduler, Slot};

/// A job that has begun to send in an earlier slot.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Begun {
    /// The index of its way, which does not change any more.
    pub way: usize,
    /// Bits left of a flow of weight 1.
    pub left: f64,
    /// The rate of such a flow until now, in bits per second.
    pub rate: f64,
}

/// What is decided for a slot.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// By job: the index of its way. Without a rate, it may be another one in the next slot.
    pub ways: Vec<usize>,
    /// Circuits and rates.
    pub slot: Slot,
}

/// A scheduler that decides each slot when it begins, from what is known then.
pub trait Online: Scheduler {
    /// Decides a slot. `jobs` are those that have data left, in the order of their arrivals, and `begun`
    /// tells which of them have begun. `before` are the circuits that exist.
    ///
    /// # Errors
    /// If the network is impossible, or it can never carry a job: see [`carries`].
    ///
    /// # Panics
    /// If the lists differ in length, or a job has begun in a way that it does not have.
    fn decide(
        &self,
        network: &Network,
        jobs: &[Job],
        begun: &[Option<Begun>],
        before: &Circuits,
    ) -> Result<Decision, Error>;
}

/// Whether an empty network can carry a job at all, without aggregation in a switch.
///
/// # Errors
/// If the job was made for another network.
pub fn carries(network: &Network, job: &Job) -> Result<bool, Error> {
    check(network, job)?;
    Ok(Shape::new(network, &job.ways[0], None).step > 0.0)
}

/// [`Online::decide`] with the decisions of `fill`.
pub(crate) fn decide(
    network: &Network,
    jobs: &[Job],
    begun: &[Option<Begun>],
    before: &Circuits,
    rules: Rules,
    fill: impl Fn(&mut Allocation<'_>),
) -> Result<Decision, Error> {
    assert_eq!(jobs.len(), begun.len(), "one for each job");
    network.check()?;
    let fixed = (!rules.reconfigure).then_some(before);
    let mut shapes = Vec::with_capacity(jobs.len());
    let mut transfers = Vec::with_capacity(jobs.len());
    for (job, begun) in jobs.iter().zip(begun) {
        check(network, job)?;
        shapes.push(prepare(network, job, rules, fixed)?);
        transfers.push(begun.map(|Begun { way, left, rate }| Transfer {
            left: job.ways[way].flows.iter().map(|flow| flow.weight * left).collect(),
            rate,
        }));
    }
    let ways: Vec<usize> = begun.iter().map(|begun| begun.map_or(0, |begun| begun.way)).collect();
    let active: Vec<usize> = (0..jobs.len()).collect();
    let freedom = (!rules.reconfigure, rules.take);
    let mut slot =
        Allocation::new(network, jobs, &shapes, &active, &transfers, before, &ways, freedom);
    fill(&mut slot);
    slot.outpace();
    let circuits = slot.circuits();
    let Allocation { ways, rates, .. } = slot;
    Ok(Decision { ways, slot: Slot { circuits, rates } })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Fcfs, Tw, Unit, UnitId};

    /// Decides slot after slot, as a controller whose jobs do exactly what it decides.
    fn slots(scheduler: &dyn Online, network: &Network, jobs: &[Job]) -> Vec<Slot> {
        let mut circuits = Circuits::uniform(network);
        let mut transfers: Vec<Option<(Transfer, usize)>> = vec![None; jobs.len()];
        let over = |transfer: &Option<(Transfer, usize)>| {
            transfer.as_ref().is_some_and(|(transfer, _)| transfer.is_over())
        };
        let mut slots = Vec::new();
        while !transfers.iter().all(over) {
            let here = |&job: &usize| jobs[job].arrival <= slots.len() && !over(&transfers[job]);
            let mut active: Vec<usize> = (0..jobs.len()).filter(here).collect();
            active.sort_by_key(|&job| (jobs[job].arrival, job));
            let own: Vec<Job> = active.iter().map(|&job| jobs[job].clone()).collect();
            let begun = active.iter().map(|&job| {
                let (transfer, way) = transfers[job].as_ref()?;
                let flows = transfer.left.iter().zip(&jobs[job].ways[*way].flows);
                let left = flows.map(|(left, flow)| left / flow.weight).fold(0.0, f64::max);
                Some(Begun { way: *way, left, rate: transfer.rate })
            });
            let begun: Vec<_> = begun.collect();
            let Decision { ways, slot } =
                scheduler.decide(network, &own, &begun, &circuits).unwrap();
            let mut rates = vec![0.0; jobs.len()];
            for (at, &job) in active.iter().enumerate().filter(|(at, _)| slot.rates[*at] > 0.0) {
                rates[job] = slot.rates[at];
                let (transfer, _) = transfers[job]
                    .get_or_insert_with(|| (Transfer::new(&jobs[job], ways[at]), ways[at]));
                let grown = |a, b| crate::transfer::grown(&circuits, &slot.circuits, a, b);
                transfer.send(network, &jobs[job], ways[at], rates[job], grown);
            }
            circuits = slot.circuits.clone();
            slots.push(Slot { circuits: slot.circuits, rates });
        }
        slots
    }

    proptest! {
        /// Without surprises, deciding each slot when it begins gives the schedule of all slots.
        #[test]
        fn slot_by_slot_is_the_whole_schedule(
            jobs in prop::collection::vec((0..4usize, 0..3u32, 0..3u32, 0..3usize, 1..40u32), 1..12),
        ) {
            let unit = Unit { ports: 3, inc: 1, bandwidth: 400e9 };
            let network = Network {
                units: vec![unit; 3], port_rate: 40e9, reconfiguration: 0.0, slot: 1.0,
            };
            let job = |(id, &(arrival, a, b, server, gigabits)): (u32, &(usize, u32, u32, usize, u32))| {
                let bits = f64::from(gigabits) * 1e9;
                let job = Job::training(id, arrival, &[a, b, 1], UnitId(server), bits, 0.1);
                job.unwrap().local_inc_only()
            };
            // Ties are decided by the order of the jobs, which must be that of arrivals then.
            let mut jobs = jobs;
            jobs.sort();
            let jobs: Vec<Job> = (0..).zip(&jobs).map(job).collect();
            let schedulers: [Box<dyn Online>; 4] = [
                Box::new(Tw::new(true, true)), Box::new(Tw::new(false, true)),
                Box::new(Fcfs::new(true)), Box::new(Fcfs::new(false)),
            ];
            for scheduler in schedulers {
                let whole = scheduler.schedule(&network, &jobs).unwrap();
                let mut single = slots(&*scheduler, &network, &jobs);
                // Slots before the first arrival decide nothing.
                single.truncate(whole.slots.len());
                prop_assert_eq!(single.len(), whole.slots.len());
                for (one, other) in single.iter().zip(&whole.slots) {
                    prop_assert_eq!(&one.circuits, &other.circuits);
                    let same = one.rates.iter().zip(&other.rates).all(|(a, b)| (a - b).abs() < 1.0);
                    prop_assert!(same, "{:?} {:?}", one.rates, other.rates);
                }
            }
        }
    }
}
