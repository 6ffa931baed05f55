//! An independent check of schedules against eqs. 2–11 of P4INC-AOI §IV.B.
//!
//! It shares no code with the schedulers: it reads the equations off the types and recomputes what a
//! schedule achieves. Two rules hold by construction: a [`Schedule`] has one way per job for all slots
//! (eq. 2), and [`Circuits`](crate::Circuits) are symmetric without a diagonal (eq. 6, first line).
//!
//! Sums of rates are `f64`, whose rounding errors grow with the number of jobs. So a sum may exceed a
//! bandwidth, and a flow may miss its data, by a relative [`TOLERANCE`]. Counts are exact.

use crate::{Flow, Job, Network, Schedule, UnitId};

/// The greatest accepted relative error of bandwidths and of data.
pub const TOLERANCE: f64 = 1e-6;

/// What a valid schedule achieves.
#[derive(Clone, PartialEq, Debug)]
pub struct Checked {
    /// The time in seconds from the start of slot 0 to the end of the last job: CT-BTI, eq. 1.
    pub completion: f64,
    /// By job: the end of its last slot and its update in seconds, eq. 11.
    pub completions: Vec<f64>,
    /// Circuits newly set up, over all slots, counted from [`Schedule::initial`].
    pub reconfigured: u32,
}

/// A broken rule. Jobs are named by [`Job::id`], slots and units by their numbers from 0.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Violation {
    /// The schedule does not have one way per job.
    #[error("the schedule has ways for {found} jobs instead of {expected}")]
    Jobs {
        /// Number of jobs.
        expected: usize,
        /// Number of ways in the schedule.
        found: usize,
    },
    /// A slot does not have one rate per job.
    #[error("slot {slot}: there are rates for {found} jobs instead of {expected}")]
    Rates {
        /// The slot.
        slot: usize,
        /// Number of jobs.
        expected: usize,
        /// Number of rates.
        found: usize,
    },
    /// A way that the job does not have.
    #[error("job {job}: way {way} does not exist, the job has {ways}")]
    Way {
        /// The job.
        job: u32,
        /// The schedule's index.
        way: usize,
        /// Number of the job's ways.
        ways: usize,
    },
    /// A rate that is negative or not finite.
    #[error("job {job}, slot {slot}: the rate {rate} b/s is not a finite number from 0")]
    Rate {
        /// The job.
        job: u32,
        /// The slot.
        slot: usize,
        /// The rate in bits per second.
        rate: f64,
    },
    /// Eq. 3.
    #[error(
        "slot {slot}, unit {unit}: the switch aggregates {jobs} jobs, {} above its capacity of \
         {capacity} (eq. 3)",
        .jobs - .capacity
    )]
    Inc {
        /// The slot.
        slot: usize,
        /// The unit.
        unit: usize,
        /// Jobs that it aggregates.
        jobs: u32,
        /// Its capacity.
        capacity: u32,
    },
    /// Eq. 5.
    #[error(
        "slot {slot}, unit {unit}: the switch carries {load} b/s, {} b/s above its {capacity} b/s \
         (eq. 5)",
        .load - .capacity
    )]
    Switch {
        /// The slot.
        slot: usize,
        /// The unit.
        unit: usize,
        /// Load in bits per second.
        load: f64,
        /// Capacity in bits per second.
        capacity: f64,
    },
    /// Eq. 6, third line.
    #[error(
        "{}, unit {unit}: circuits use {used} ports, {} above its {ports} (eq. 6)",
        .slot.map_or("initially".to_owned(), |slot| format!("slot {slot}")),
        .used - .ports
    )]
    Ports {
        /// The slot; none for the circuits before slot 0.
        slot: Option<usize>,
        /// The unit.
        unit: usize,
        /// Ports with a circuit.
        used: u32,
        /// Its ports.
        ports: u32,
    },
    /// Eq. 6, second line.
    #[error(
        "slot {slot}, units {a} and {b}: jobs send {load} b/s, {} b/s above the circuits' {capacity} \
         b/s (eq. 6)",
        .load - .capacity
    )]
    Pair {
        /// The slot.
        slot: usize,
        /// A unit.
        a: usize,
        /// Another unit.
        b: usize,
        /// Traffic of both directions in bits per second.
        load: f64,
        /// Capacity of the circuits in bits per second.
        capacity: f64,
    },
    /// A job sends before it arrives.
    #[error("job {job}: it sends in slot {slot}, {} slots before it arrives", .arrival - .slot)]
    Early {
        /// The job.
        job: u32,
        /// The first slot in which it sends.
        slot: usize,
        /// The slot in which it arrives.
        arrival: usize,
    },
    /// The slots in which a job sends are not contiguous (the set of durations of §IV.B).
    #[error("job {job}: it sends from slot {first} to {last}, but not in slot {slot} (eq. 11)")]
    Gap {
        /// The job.
        job: u32,
        /// The first slot between in which it does not send.
        slot: usize,
        /// The first slot in which it sends.
        first: usize,
        /// The last slot in which it sends.
        last: usize,
    },
    /// A flow does not send all its data (eq. 10).
    #[error(
        "job {job}: the flow from unit {from} to {to} misses {missing} of {bits} bits (eq. 10)"
    )]
    Data {
        /// The job.
        job: u32,
        /// Where the flow starts.
        from: usize,
        /// Where it ends.
        to: usize,
        /// Bits that are not sent.
        missing: f64,
        /// Bits to send.
        bits: f64,
    },
    /// The workers of a job without flows do not send all their data to their switch (eqs. 5 and 10).
    #[error("job {job}: its workers miss {missing} of {bits} bits each (eq. 10)")]
    Workers {
        /// The job.
        job: u32,
        /// Bits that a worker does not send.
        missing: f64,
        /// Bits of a worker.
        bits: f64,
    },
}

/// Checks a schedule and recomputes what it achieves.
///
/// # Errors
/// All broken rules. If the schedule's lists do not match the jobs, only that is reported.
///
/// # Panics
/// If the schedule's circuits, or a way's loads or flows, are for fewer units than the network has.
pub fn check(
    network: &Network,
    jobs: &[Job],
    schedule: &Schedule,
) -> Result<Checked, Vec<Violation>> {
    let mut violations = shape(jobs, schedule);
    if !violations.is_empty() {
        return Err(violations);
    }
    ports(network, schedule, &mut violations);
    for slot in 0..schedule.slots.len() {
        switches(network, jobs, schedule, slot, &mut violations);
        pairs(network, jobs, schedule, slot, &mut violations);
    }
    for (index, job) in jobs.iter().enumerate() {
        transfer(network, job, index, schedule, &mut violations);
    }
    if !violations.is_empty() {
        return Err(violations);
    }
    let completions: Vec<f64> = (0..jobs.len())
        .map(|index| {
            let end = schedule.slots.iter().rposition(|slot| slot.rates[index] > 0.0);
            let end = end.map_or(jobs[index].arrival, |last| last + 1);
            end as f64 * network.slot + jobs[index].ways[schedule.ways[index]].update
        })
        .collect();
    let mut reconfigured = 0;
    let mut before = &schedule.initial;
    for slot in &schedule.slots {
        reconfigured += slot.circuits.new_since(before);
        before = &slot.circuits;
    }
    let completion = completions.iter().copied().fold(0.0, f64::max);
    Ok(Checked { completion, completions, reconfigured })
}

/// Checks what the other checks rely on.
fn shape(jobs: &[Job], schedule: &Schedule) -> Vec<Violation> {
    if schedule.ways.len() != jobs.len() {
        return vec![Violation::Jobs { expected: jobs.len(), found: schedule.ways.len() }];
    }
    let mut violations = Vec::new();
    for (job, &way) in jobs.iter().zip(&schedule.ways) {
        if way >= job.ways.len() {
            violations.push(Violation::Way { job: job.id, way, ways: job.ways.len() });
        }
    }
    for (slot, decided) in schedule.slots.iter().enumerate() {
        if decided.rates.len() != jobs.len() {
            let found = decided.rates.len();
            violations.push(Violation::Rates { slot, expected: jobs.len(), found });
            continue;
        }
        for (job, &rate) in jobs.iter().zip(&decided.rates) {
            if !rate.is_finite() || rate < 0.0 {
                violations.push(Violation::Rate { job: job.id, slot, rate });
            }
        }
    }
    violations
}

fn ports(network: &Network, schedule: &Schedule, violations: &mut Vec<Violation>) {
    let slots = schedule.slots.iter().enumerate();
    let slots = slots.map(|(slot, decided)| (Some(slot), &decided.circuits));
    for (slot, circuits) in std::iter::once((None, &schedule.initial)).chain(slots) {
        for unit in network.unit_ids() {
            let (used, ports) = (circuits.ports(unit), network.unit(unit).ports);
            if used > ports {
                violations.push(Violation::Ports { slot, unit: unit.0, used, ports });
            }
        }
    }
}

/// Eqs. 3 and 5 in a slot.
fn switches(
    network: &Network,
    jobs: &[Job],
    schedule: &Schedule,
    slot: usize,
    violations: &mut Vec<Violation>,
) {
    for unit in network.unit_ids() {
        let mut aggregated = 0;
        let mut load = 0.0;
        for (index, job) in jobs.iter().enumerate() {
            let way = &job.ways[schedule.ways[index]];
            let rate = schedule.slots[slot].rates[index];
            if rate > 0.0 && way.inc == Some(unit) {
                aggregated += 1;
            }
            load += way.load[unit.0] * rate;
        }
        let capacity = network.unit(unit).inc;
        if aggregated > capacity {
            violations.push(Violation::Inc { slot, unit: unit.0, jobs: aggregated, capacity });
        }
        let capacity = network.unit(unit).bandwidth;
        if load > capacity * (1.0 + TOLERANCE) {
            violations.push(Violation::Switch { slot, unit: unit.0, load, capacity });
        }
    }
}

/// Eq. 6, second line, in a slot.
fn pairs(
    network: &Network,
    jobs: &[Job],
    schedule: &Schedule,
    slot: usize,
    violations: &mut Vec<Violation>,
) {
    let units = network.units.len();
    let mut loads = vec![0.0; units * units];
    for (index, job) in jobs.iter().enumerate() {
        let rate = schedule.slots[slot].rates[index];
        for flow in &job.ways[schedule.ways[index]].flows {
            let (low, high) = (flow.from.0.min(flow.to.0), flow.from.0.max(flow.to.0));
            loads[low * units + high] += flow.weight * rate;
        }
    }
    for a in 0..units {
        for b in a + 1..units {
            let circuits = schedule.slots[slot].circuits.between(UnitId(a), UnitId(b));
            let capacity = f64::from(circuits) * network.port_rate;
            let load = loads[a * units + b];
            if load > capacity * (1.0 + TOLERANCE) {
                violations.push(Violation::Pair { slot, a, b, load, capacity });
            }
        }
    }
}

/// The rules of a job on its own: arrival, continuity and data.
fn transfer(
    network: &Network,
    job: &Job,
    index: usize,
    schedule: &Schedule,
    violations: &mut Vec<Violation>,
) {
    let sends = |slot: usize| schedule.slots[slot].rates[index] > 0.0;
    let sending: Vec<usize> = (0..schedule.slots.len()).filter(|&slot| sends(slot)).collect();
    if let (Some(&first), Some(&last)) = (sending.first(), sending.last()) {
        if first < job.arrival {
            violations.push(Violation::Early { job: job.id, slot: first, arrival: job.arrival });
        }
        if let Some(slot) = (first..last).find(|&slot| !sends(slot)) {
            violations.push(Violation::Gap { job: job.id, slot, first, last });
        }
    }
    let flows = &job.ways[schedule.ways[index]].flows;
    for flow in flows {
        let bits = flow.weight * job.bits;
        let missing = bits - sent(network, schedule, index, flow);
        if missing > bits * TOLERANCE {
            let (from, to) = (flow.from.0, flow.to.0);
            violations.push(Violation::Data { job: job.id, from, to, missing, bits });
        }
    }
    if flows.is_empty() {
        let sent: f64 = schedule.slots.iter().map(|slot| slot.rates[index] * network.slot).sum();
        let missing = job.bits - sent;
        if missing > job.bits * TOLERANCE {
            violations.push(Violation::Workers { job: job.id, missing, bits: job.bits });
        }
    }
}

/// Bits that a flow of a job sends in all slots: eq. 10 without its max, which only stops the count
/// at 0.
fn sent(network: &Network, schedule: &Schedule, index: usize, flow: &Flow) -> f64 {
    let mut sent = 0.0;
    let mut rate_before = 0.0;
    let mut circuits_before = &schedule.initial;
    for slot in &schedule.slots {
        let rate = flow.weight * slot.rates[index];
        sent += rate * network.slot;
        let (from, to) = (flow.from, flow.to);
        if from != to && slot.circuits.between(from, to) > circuits_before.between(from, to) {
            sent -= (rate - rate_before).max(0.0) * network.reconfiguration;
        }
        rate_before = rate;
        circuits_before = &slot.circuits;
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Circuits, Slot, Unit, Way};

    const GIGA: f64 = 1e9;

    /// Three units with 2 ports of 10 Gb/s each, of which each switch carries 60 Gb/s and aggregates
    /// one job.
    fn network() -> Network {
        Network {
            units: vec![Unit { ports: 2, inc: 1, bandwidth: 60.0 * GIGA }; 3],
            port_rate: 10.0 * GIGA,
            reconfiguration: 0.1,
            slot: 1.0,
        }
    }

    fn flow(from: usize, to: usize, weight: f64) -> Flow {
        Flow { from: UnitId(from), to: UnitId(to), weight }
    }

    /// A job with `workers` workers in `from` and its parameter server in `to`, with and without
    /// aggregation in the switch of `from`.
    fn job(id: u32, arrival: usize, from: usize, to: usize, workers: f64, bits: f64) -> Job {
        let plain = Way {
            inc: None,
            flows: vec![flow(from, to, workers)],
            load: vec![workers; 3],
            update: 0.25,
        };
        let aggregated = Way {
            inc: Some(UnitId(from)),
            flows: vec![flow(from, to, 1.0)],
            load: vec![workers; 3],
            update: 0.0,
        };
        Job { id, arrival, bits, pace: f64::INFINITY, ways: vec![plain, aggregated] }
    }

    fn circuits(pairs: &[(usize, usize, u32)]) -> Circuits {
        let mut circuits = Circuits::none(3);
        for &(a, b, count) in pairs {
            circuits.set(UnitId(a), UnitId(b), count);
        }
        circuits
    }

    /// Job 10 sends 18 Gb at 10 Gb/s from unit 0 to 1, job 11 sends 9.5 Gb per worker from unit 1 to 2
    /// once a circuit is set up in slot 1, and job 12 stays within unit 2.
    fn valid() -> (Network, Vec<Job>, Schedule) {
        let mut inside = job(12, 0, 2, 2, 1.0, 5.0 * GIGA);
        inside.ways.truncate(1);
        let jobs =
            vec![job(10, 0, 0, 1, 2.0, 18.0 * GIGA), job(11, 1, 1, 2, 1.0, 13.5 * GIGA), inside];
        let slot = |second: u32, rates: [f64; 3]| Slot {
            circuits: circuits(&[(0, 1, 1), (1, 2, second)]),
            rates: rates.map(|rate| rate * GIGA).to_vec(),
        };
        let schedule = Schedule {
            ways: vec![1, 0, 0],
            initial: circuits(&[(0, 1, 1)]),
            slots: vec![
                slot(0, [10.0, 0.0, 2.5]),
                slot(1, [8.0, 10.0, 2.5]),
                slot(1, [0.0, 4.5, 0.0]),
            ],
        };
        (network(), jobs, schedule)
    }

    /// The violations of the valid schedule after a change.
    fn after(change: impl FnOnce(&mut Network, &mut Vec<Job>, &mut Schedule)) -> Vec<Violation> {
        let (mut network, mut jobs, mut schedule) = valid();
        change(&mut network, &mut jobs, &mut schedule);
        check(&network, &jobs, &schedule).expect_err("a violation")
    }

    fn one(violations: Vec<Violation>) -> Violation {
        assert_eq!(violations.len(), 1, "{violations:?}");
        violations.into_iter().next().expect("one")
    }

    #[test]
    fn a_valid_schedule_passes() {
        let (network, jobs, schedule) = valid();
        let checked = check(&network, &jobs, &schedule).expect("valid");
        assert_eq!(checked.completions, [2.0, 3.25, 2.25]);
        assert_eq!(checked.completion, 3.25);
        assert_eq!(checked.reconfigured, 1);
    }

    #[test]
    fn lists_must_match_the_jobs() {
        let found = one(after(|_, _, schedule| schedule.ways.truncate(2)));
        assert_eq!(found, Violation::Jobs { expected: 3, found: 2 });
        let found = one(after(|_, _, schedule| schedule.slots[1].rates.truncate(1)));
        assert_eq!(found, Violation::Rates { slot: 1, expected: 3, found: 1 });
    }

    #[test]
    fn a_way_must_exist() {
        let found = one(after(|_, _, schedule| schedule.ways[2] = 1));
        assert_eq!(found, Violation::Way { job: 12, way: 1, ways: 1 });
        assert_eq!(found.to_string(), "job 12: way 1 does not exist, the job has 1");
    }

    #[test]
    fn a_rate_is_finite_and_not_negative() {
        for bad in [-1.0, f64::INFINITY] {
            let found = one(after(|_, _, schedule| schedule.slots[2].rates[2] = bad));
            assert_eq!(found, Violation::Rate { job: 12, slot: 2, rate: bad });
        }
        assert!(matches!(
            one(after(|_, _, schedule| schedule.slots[2].rates[2] = f64::NAN)),
            Violation::Rate { .. }
        ));
    }

    #[test]
    fn a_switch_aggregates_no_more_jobs_than_it_can() {
        // Job 10 sends in slots 0 and 1.
        let found = after(|network, _, _| network.units[0].inc = 0);
        let expected = |slot| Violation::Inc { slot, unit: 0, jobs: 1, capacity: 0 };
        assert_eq!(found, [expected(0), expected(1)]);
    }

    #[test]
    fn a_switch_carries_no_more_than_its_bandwidth() {
        let found = one(after(|network, _, _| network.units[1].bandwidth = 28.0 * GIGA));
        let Violation::Switch { slot: 1, unit: 1, load, .. } = found else { panic!("{found:?}") };
        assert_eq!(load, 28.5 * GIGA);
        assert!(found.to_string().contains("500000000 b/s above its 28000000000 b/s (eq. 5)"));
    }

    #[test]
    fn circuits_use_no_more_ports_than_a_unit_has() {
        let found = one(after(|_, _, schedule| {
            schedule.slots[2].circuits.set(UnitId(1), UnitId(0), 2);
        }));
        assert_eq!(found, Violation::Ports { slot: Some(2), unit: 1, used: 3, ports: 2 });
        assert_eq!(
            found.to_string(),
            "slot 2, unit 1: circuits use 3 ports, 1 above its 2 (eq. 6)"
        );
        let found = one(after(|network, _, schedule| {
            network.units[2].ports = 1;
            schedule.initial.set(UnitId(0), UnitId(2), 1);
            schedule.initial.set(UnitId(1), UnitId(2), 1);
            schedule.initial.set(UnitId(0), UnitId(1), 1);
        }));
        assert_eq!(found, Violation::Ports { slot: None, unit: 2, used: 2, ports: 1 });
    }

    #[test]
    fn a_pair_of_units_sends_no_more_than_its_circuits_carry() {
        let found = one(after(|_, _, schedule| schedule.slots[0].rates[0] = 12.0 * GIGA));
        let Violation::Pair { slot: 0, a: 0, b: 1, load, capacity } = found else {
            panic!("{found:?}");
        };
        assert_eq!((load, capacity), (12.0 * GIGA, 10.0 * GIGA));
    }

    #[test]
    fn both_directions_of_a_pair_count_together() {
        let found = one(after(|_, jobs, _| jobs[0].ways[1].flows.push(flow(1, 0, 0.2))));
        let Violation::Pair { slot: 0, a: 0, b: 1, load, .. } = found else { panic!("{found:?}") };
        assert_eq!(load, 12.0 * GIGA);
    }

    #[test]
    fn a_job_sends_nothing_before_it_arrives() {
        let found = one(after(|_, jobs, _| jobs[1].arrival = 2));
        assert_eq!(found, Violation::Early { job: 11, slot: 1, arrival: 2 });
    }

    #[test]
    fn a_job_sends_in_contiguous_slots() {
        let found = one(after(|_, _, schedule| {
            schedule.slots[1].rates[2] = 0.0;
            schedule.slots[2].rates[2] = 2.5 * GIGA;
        }));
        assert_eq!(found, Violation::Gap { job: 12, slot: 1, first: 0, last: 2 });
    }

    #[test]
    fn a_flow_sends_all_its_data() {
        let found = one(after(|_, _, schedule| schedule.slots[1].rates[0] = 7.0 * GIGA));
        let Violation::Data { job: 10, from: 0, to: 1, missing, .. } = found else {
            panic!("{found:?}");
        };
        assert_eq!(missing, GIGA);
        let found = one(after(|_, jobs, _| {
            jobs[2].ways[0].flows.clear();
            jobs[2].bits = 6.0 * GIGA;
        }));
        assert_eq!(found, Violation::Workers { job: 12, missing: GIGA, bits: 6.0 * GIGA });
    }

    #[test]
    fn a_new_circuit_carries_no_additional_bandwidth_while_it_is_set_up() {
        // Without the 0.1 s, job 11 would have sent 14.5 Gb.
        let found = one(after(|network, _, _| network.reconfiguration = 0.2));
        let Violation::Data { job: 11, from: 1, to: 2, missing, .. } = found else {
            panic!("{found:?}");
        };
        assert_eq!(missing, GIGA);
    }
}
