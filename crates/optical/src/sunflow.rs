//! Sunflow's schedule of one coflow (CoNEXT 2016, §3), and the lower bound that it is measured by.
//!
//! This is another model than that of the rest of the crate. Each unit has one port to send and one to
//! receive, and a circuit joins a sending port with a receiving one. Setting up a circuit takes a time
//! δ, in which only its two ports stand still. There are no slots.
//!
//! Sunflow never interrupts a flow: whenever both ports of a waiting flow are free, the flow gets a
//! circuit until its last bit. Let the flow that ends last begin at *s*. Before *s*, one of its ports is
//! always busy with other flows, so *s* is at most what both ports need for the others. So the end is
//! below twice what the busiest port needs, which is a bound for every schedule: a port has a circuit
//! for each of its flows, and a δ before each of them.

use crate::Demand;

/// A circuit for a flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reservation {
    /// Index of the demand.
    pub demand: usize,
    /// Seconds from the coflow's start until both ports are reserved; the set-up begins.
    pub start: f64,
    /// Seconds from the coflow's start until the last bit is sent.
    pub end: f64,
}

/// The order in which waiting flows are tried. The bound holds for every order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// As the demands are given.
    Given,
    /// The most data first.
    Largest,
}

/// Reserves circuits for a coflow. Ports send `port_rate` bits per second, and a circuit is set up in
/// `setup` seconds. Demands within a unit need no circuit and get no reservation.
#[must_use]
pub fn sunflow(demands: &[Demand], order: Order, port_rate: f64, setup: f64) -> Vec<Reservation> {
    let mut waiting: Vec<usize> =
        (0..demands.len()).filter(|&at| demands[at].from != demands[at].to).collect();
    if order == Order::Largest {
        waiting.sort_by(|&a, &b| demands[b].bits.total_cmp(&demands[a].bits));
    }
    let mut busy = Ports::new(demands);
    let mut reservations = Vec::with_capacity(waiting.len());
    let mut now = 0.0;
    while !waiting.is_empty() {
        waiting.retain(|&demand| {
            let Demand { from, to, bits } = demands[demand];
            if busy.sending[from.0] > now || busy.receiving[to.0] > now {
                return true;
            }
            let end = now + setup + bits / port_rate;
            busy.sending[from.0] = end;
            busy.receiving[to.0] = end;
            reservations.push(Reservation { demand, start: now, end });
            false
        });
        // Ports become free only when a circuit ends.
        let ends = busy.sending.iter().copied().filter(|&end| end > now);
        now = ends.fold(f64::INFINITY, f64::min);
    }
    reservations
}

/// The least time in seconds in which any schedule of circuits can send a coflow: what its busiest port
/// needs, with a set-up for each flow (Sunflow §4).
#[must_use]
pub fn circuit_bound(demands: &[Demand], port_rate: f64, setup: f64) -> f64 {
    let mut needed = Ports::new(demands);
    for &Demand { from, to, bits } in demands.iter().filter(|demand| demand.from != demand.to) {
        let time = setup + bits / port_rate;
        needed.sending[from.0] += time;
        needed.receiving[to.0] += time;
    }
    needed.sending.into_iter().chain(needed.receiving).fold(0.0, f64::max)
}

/// A time for each port, in seconds, by unit.
struct Ports {
    sending: Vec<f64>,
    receiving: Vec<f64>,
}

impl Ports {
    fn new(demands: &[Demand]) -> Self {
        let ends = demands.iter().map(|demand| demand.from.0.max(demand.to.0) + 1);
        let units = ends.max().unwrap_or(0);
        Self { sending: vec![0.0; units], receiving: vec![0.0; units] }
    }
}
