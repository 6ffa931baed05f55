//! One coflow at a time, as in Sunflow's evaluation (CoNEXT 2016, §5.3).

use crate::{
    Network, Order, Scheduler, Shuffle, Unit, Unsolved, check, circuit_bound, coflows, sunflow,
};
use tributary_base::on_all_cores;

/// The network, and how many coflows go to the schedulers of slots.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lone {
    /// Number of racks; each has one port to send and one to receive.
    pub racks: usize,
    /// Bits per second of a port.
    pub port_rate: f64,
    /// Seconds to set up a circuit.
    pub setup: f64,
    /// Seconds of a slot.
    pub slot: f64,
    /// Most flows of a coflow that is scheduled in slots.
    pub flows: usize,
}

impl Default for Lone {
    /// Sunflow's 150 racks with 1 Gb/s and 10 ms, and our slot of 1 s.
    fn default() -> Self {
        Self { racks: 150, port_rate: 1e9, setup: 0.01, slot: 1.0, flows: 1_000 }
    }
}

/// What was done with one coflow. Times are in seconds from its start to its end.
#[derive(Clone, PartialEq, Debug)]
pub struct Alone {
    /// The bound on all schedules of circuits.
    pub bound: f64,
    /// Sunflow, with flows in the order of ports.
    pub by_port: f64,
    /// Sunflow, with the largest flows first.
    pub largest: f64,
    /// By scheduler; none if the coflow has too many flows.
    pub in_slots: Vec<f64>,
}

/// Schedules each shuffle of a trace alone. Shuffles within one rack are left out.
///
/// For the schedulers of slots, a port sends and receives, and a circuit carries both directions. No
/// schedule in slots beats the bound, apart from the circuits that are there at the start.
///
/// # Errors
/// If a coflow cannot be scheduled, or a schedule is invalid.
pub fn alone(
    trace: &[Shuffle],
    lone: &Lone,
    schedulers: &[Box<dyn Scheduler + Send + Sync>],
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Vec<Alone>, Unsolved> {
    let &Lone { racks, port_rate, setup, slot, flows } = lone;
    // A switch carries what its port carries, and what stays in the rack.
    let unit = Unit { ports: 1, inc: 0, bandwidth: f64::MAX };
    let network = Network { units: vec![unit; racks], port_rate, reconfiguration: setup, slot };
    let all = on_all_cores(trace.len(), progress, |at| {
        let mut demands = trace[at].demands(racks);
        demands.retain(|demand| demand.from != demand.to);
        if demands.is_empty() {
            return Ok(None);
        }
        let end = |order| {
            let reservations = sunflow(&demands, order, port_rate, setup);
            reservations.iter().map(|reservation| reservation.end).fold(0.0, f64::max)
        };
        let mut in_slots = Vec::new();
        if demands.len() <= flows {
            // Alone, it is the first and arrives in slot 0.
            let jobs = coflows(&trace[at..=at], racks, 1, slot)?;
            for scheduler in schedulers {
                let schedule = scheduler.schedule(&network, &jobs)?;
                let checked = check(&network, &jobs, &schedule)
                    .map_err(|mut violations| Unsolved::Start(violations.swap_remove(0)))?;
                in_slots.push(checked.completion);
            }
        }
        Ok(Some(Alone {
            bound: circuit_bound(&demands, port_rate, setup),
            by_port: end(Order::Given),
            largest: end(Order::Largest),
            in_slots,
        }))
    });
    all.map(|all| all.into_iter().flatten().collect())
}
