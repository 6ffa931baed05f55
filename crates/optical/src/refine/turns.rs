//! A slot in which jobs take turns: each takes all that it can use.
//!
//! A unit has few ports, and each pair of units with traffic takes a whole circuit. If all jobs shared the
//! network evenly, many circuits would be almost empty. So the jobs that matter most fill circuits first.

use crate::instance::{Choice, Instance};

use super::running::Running;

/// Number of jobs at the head of the order among which efficiency decides.
const WINDOW: usize = 8;

/// Greatest efficiency that counts: a job that needs no new circuits has no greater one.
const EFFICIENT: f64 = 2.0;

pub(super) struct Turns<'a> {
    instance: &'a Instance<'a>,
    jobs: &'a [Option<Running<'a>>],
    /// By job.
    weights: &'a [f64],
    now: usize,
    /// By pair: whether its number of circuits may be greater than before.
    growing: Vec<bool>,
    /// By unit: the share of its ports' capacity, until the last deadline, that jobs need.
    pressure: Vec<f64>,
    /// By unit: ports without a circuit.
    free: Vec<u32>,
    /// By pair.
    circuits: Vec<u32>,
    /// By pair: bandwidth of circuits that is not used.
    spare: Vec<f64>,
    /// By unit: bandwidth of the switch that is not used.
    switches: Vec<f64>,
    /// By job.
    rates: Vec<f64>,
    /// For offers.
    scratch: Vec<u32>,
}

/// What a job can take.
#[derive(Clone, Default)]
struct Offer {
    rate: f64,
    /// New circuits, by pair of the choice.
    added: Vec<u32>,
}

impl<'a> Turns<'a> {
    pub(super) fn new(
        instance: &'a Instance<'a>,
        now: usize,
        jobs: &'a [Option<Running<'a>>],
        weights: &'a [f64],
        before: Option<&Vec<u32>>,
    ) -> Self {
        let network = instance.network;
        let free: Vec<u32> = network.units.iter().map(|unit| unit.ports).collect();
        Self {
            instance,
            jobs,
            weights,
            now,
            growing: vec![before.is_some(); instance.pairs.len()],
            pressure: pressure(instance, now, jobs),
            scratch: free.clone(),
            free,
            circuits: vec![0; instance.pairs.len()],
            spare: vec![0.0; instance.pairs.len()],
            switches: network.units.iter().map(|unit| unit.bandwidth).collect(),
            rates: vec![0.0; jobs.len()],
        }
    }

    /// Serves the admitted jobs. Returns circuits by pair, free ports by unit, and rates by job.
    pub(super) fn run(
        mut self,
        admitted: &[usize],
        start: f64,
        power: i32,
    ) -> (Vec<u32>, Vec<u32>, Vec<f64>) {
        for &index in admitted {
            self.go_on(index);
        }
        let order = self.order(admitted);
        let mut waiting = order.clone();
        let mut best = Offer::default();
        while !waiting.is_empty() {
            let (mut most, mut first) = (0.0, 0);
            for (at, &(matter, index)) in waiting.iter().take(WINDOW).enumerate() {
                let offer = self.offer(index, start);
                if offer.rate > 0.0 {
                    let value = matter * self.efficiency(index, &offer).powi(power);
                    if value > most {
                        (most, first, best) = (value, at, offer);
                    }
                } else if at == 0 {
                    break;
                }
            }
            let (_, index) = waiting.remove(first);
            if most > 0.0 {
                self.take(index, &best);
            }
        }
        // What later jobs left over.
        for (_, index) in order {
            let offer = self.offer(index, start);
            if offer.rate > 0.0 {
                self.take(index, &offer);
            }
        }
        (self.circuits, self.free, self.rates)
    }

    fn job(&self, index: usize) -> &'a Running<'a> {
        self.jobs[index].as_ref().expect("a job with data")
    }

    /// Lets a job that has begun to send go on, if ever so slowly.
    fn go_on(&mut self, index: usize) {
        let job = self.job(index);
        if !job.started {
            return;
        }
        let added = job.choice.pairs.iter().map(|&(pair, _)| u32::from(self.circuits[pair] == 0));
        let offer = Offer { rate: 1e-6 * job.choice.fastest, added: added.collect() };
        self.take(index, &offer);
    }

    /// The jobs, those first that matter most: jobs of units whose ports are needed most, and jobs that
    /// must send fast until their deadline.
    fn order(&self, admitted: &[usize]) -> Vec<(f64, usize)> {
        let slot = self.instance.network.slot;
        let matters = |&index: &usize| {
            let job = self.job(index);
            let units = job.choice.ports.iter();
            let pressed = units.map(|&(unit, _)| self.pressure[unit]).fold(0.0, f64::max);
            let slots = job.planned.saturating_sub(self.now).max(1) as f64;
            let alone = job.bits() / (job.choice.fastest * slot * slots);
            (self.weights[index] * (pressed + alone), index)
        };
        let mut order: Vec<(f64, usize)> = admitted.iter().map(matters).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        order
    }

    /// The greatest additional rate of a job, and the circuits that it adds.
    fn offer(&mut self, index: usize, start: f64) -> Offer {
        let network = self.instance.network;
        let job = self.job(index);
        let most = job.finishing(&self.growing, network.slot, network.reconfiguration);
        let loads = job.choice.load.iter();
        let limit = loads
            .map(|&(unit, factor)| self.switches[unit] / factor)
            .fold(most - self.rates[index], f64::min);
        if limit <= most * 1e-9 {
            return Offer::default();
        }
        let offer = self.widest(job.choice, limit);
        let begins = self.rates[index] == 0.0;
        // A job that begins to send occupies circuits until its end.
        if begins && offer.rate < start * most.min(job.choice.fastest) {
            return Offer::default();
        }
        offer
    }

    /// The greatest additional rate up to a limit, with new circuits where the traffic is stopped first.
    fn widest(&mut self, choice: &Choice, limit: f64) -> Offer {
        let port_rate = self.instance.network.port_rate;
        self.scratch.copy_from_slice(&self.free);
        let mut added = vec![0_u32; choice.pairs.len()];
        let rate = loop {
            let mut narrowest = (f64::INFINITY, 0);
            for (entry, &(pair, factor)) in choice.pairs.iter().enumerate() {
                let rate = (self.spare[pair] + f64::from(added[entry]) * port_rate) / factor;
                if rate < narrowest.0 {
                    narrowest = (rate, entry);
                }
            }
            let (rate, entry) = narrowest;
            if rate >= limit {
                break limit;
            }
            let (a, b) = self.instance.pairs[choice.pairs[entry].0];
            if self.scratch[a] == 0 || self.scratch[b] == 0 {
                break rate.max(0.0);
            }
            self.scratch[a] -= 1;
            self.scratch[b] -= 1;
            added[entry] += 1;
        };
        // Circuits that it cannot use are for others.
        for (added, &(pair, factor)) in added.iter_mut().zip(&choice.pairs) {
            let used = (factor * rate - self.spare[pair]) / port_rate;
            *added = (*added).min((used - 1e-9).ceil().max(0.0) as u32);
        }
        Offer { rate, added }
    }

    /// The job's share of the new circuits' bandwidth. Circuits count more where ports are needed most.
    fn efficiency(&self, index: usize, offer: &Offer) -> f64 {
        let (mut gain, mut cost) = (0.0, 0.0);
        for (&(pair, factor), &added) in self.job(index).choice.pairs.iter().zip(&offer.added) {
            let (a, b) = self.instance.pairs[pair];
            let price = self.pressure[a].powi(2) + self.pressure[b].powi(2) + 1e-3;
            gain += factor * offer.rate / self.instance.network.port_rate * price;
            cost += f64::from(added) * price;
        }
        if cost > 0.0 { (gain / cost).min(EFFICIENT) } else { EFFICIENT }
    }

    fn take(&mut self, index: usize, offer: &Offer) {
        let choice = self.job(index).choice;
        for (&(pair, factor), &added) in choice.pairs.iter().zip(&offer.added) {
            let (a, b) = self.instance.pairs[pair];
            self.circuits[pair] += added;
            self.free[a] -= added;
            self.free[b] -= added;
            let new = f64::from(added) * self.instance.network.port_rate;
            self.spare[pair] += new - factor * offer.rate;
        }
        for &(unit, factor) in &choice.load {
            self.switches[unit] -= factor * offer.rate;
        }
        self.rates[index] += offer.rate;
    }
}

/// By unit: the share of its ports' capacity, until the last deadline, that jobs need.
fn pressure(instance: &Instance<'_>, now: usize, jobs: &[Option<Running<'_>>]) -> Vec<f64> {
    let network = instance.network;
    let end = jobs.iter().flatten().map(|job| job.deadline).max().unwrap_or(now);
    let mut bits = vec![0.0; network.units.len()];
    for job in jobs.iter().flatten() {
        for &(unit, factor) in &job.choice.ports {
            bits[unit] += factor * job.bits();
        }
    }
    let time = (end.max(now + 1) - now) as f64 * network.slot;
    let capacities = network.units.iter().map(|unit| f64::from(unit.ports) * network.port_rate);
    let shares = bits.iter().zip(capacities).map(|(&bits, capacity)| {
        // Only units without traffic may have no ports.
        if bits > 0.0 { bits / (capacity * time) } else { 0.0 }
    });
    shares.collect()
}
