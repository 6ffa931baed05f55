//! The decisions for one slot while they are made: rates, and the circuits that they need.

use crate::scheduler::{STEP, Take};
use crate::transfer::Transfer;
use crate::{Circuits, Job, Network, UnitId, Way};

/// Relative error that sums of rates may have.
const ROUNDING: f64 = 1e-9;

/// A way of a job, prepared for allocation.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Shape {
    /// Pairs of units with the total weight of the flows between them, in both directions.
    pairs: Vec<Pair>,
    /// By flow: its weight, and the index of its pair unless it stays in its unit.
    flows: Vec<(f64, Option<usize>)>,
    /// Units with load, as multiples of the job's rate.
    loads: Vec<(usize, f64)>,
    /// The step by which the job's rate grows: δB, or less if an otherwise empty network carries
    /// less. 0 if it cannot carry the job at all.
    pub(crate) step: f64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Pair {
    low: usize,
    high: usize,
    weight: f64,
}

impl Shape {
    /// Prepares a way. `fixed` are the circuits if they cannot change.
    pub(crate) fn new(network: &Network, way: &Way, fixed: Option<&Circuits>) -> Self {
        let mut pairs: Vec<Pair> = Vec::new();
        let mut flows = Vec::new();
        let mut places = std::collections::BTreeMap::new();
        for flow in &way.flows {
            let (low, high) = (flow.from.0.min(flow.to.0), flow.from.0.max(flow.to.0));
            if low == high {
                flows.push((flow.weight, None));
                continue;
            }
            let at = *places.entry((low, high)).or_insert_with(|| {
                pairs.push(Pair { low, high, weight: 0.0 });
                pairs.len() - 1
            });
            pairs[at].weight += flow.weight;
            flows.push((flow.weight, Some(at)));
        }
        let loads = way.load.iter().copied().enumerate().filter(|(_, load)| *load > 0.0).collect();
        let mut shape = Self { pairs, flows, loads, step: 0.0 };
        shape.step = shape.alone(network, fixed);
        shape
    }

    /// The largest rate up to δB in an otherwise empty network.
    fn alone(&self, network: &Network, fixed: Option<&Circuits>) -> f64 {
        let switches = self.loads.iter().map(|&(unit, load)| network.units[unit].bandwidth / load);
        let mut rate = switches.fold(STEP, f64::min);
        if let Some(fixed) = fixed {
            let links = self.pairs.iter().map(|pair| {
                let count = fixed.between(UnitId(pair.low), UnitId(pair.high));
                f64::from(count) * network.port_rate / pair.weight
            });
            return links.fold(rate, f64::min);
        }
        let ports = |unit: usize| f64::from(network.units[unit].ports);
        let links = self
            .pairs
            .iter()
            .map(|pair| ports(pair.low).min(ports(pair.high)) * network.port_rate / pair.weight);
        rate = links.fold(rate, f64::min);
        // One circuit less, until the ports suffice.
        let count = |pair: &Pair, rate: f64| circuits_for(rate * pair.weight, network.port_rate);
        loop {
            let mut ports = vec![0; network.units.len()];
            for pair in &self.pairs {
                ports[pair.low] += count(pair, rate);
                ports[pair.high] += count(pair, rate);
            }
            if ports.iter().zip(&network.units).all(|(used, unit)| *used <= unit.ports) {
                return rate;
            }
            let fewer = |pair: &Pair| {
                f64::from(count(pair, rate).saturating_sub(1)) * network.port_rate / pair.weight
            };
            rate = self.pairs.iter().map(fewer).fold(0.0, f64::max);
            if rate == 0.0 {
                return 0.0;
            }
        }
    }
}

/// Number of circuits that carry this traffic.
fn circuits_for(traffic: f64, port_rate: f64) -> u32 {
    (traffic / port_rate - ROUNDING).ceil().max(0.0) as u32
}

/// One slot: what jobs have, and what is free.
///
/// Circuits follow from rates: a pair has at least as many as its traffic needs, and a circuit without
/// traffic gives way when its port is needed elsewhere. A reconfiguration is feasible if the ports
/// at both ends are not needed by traffic.
pub(crate) struct Allocation<'a> {
    pub(crate) network: &'a Network,
    pub(crate) jobs: &'a [Job],
    shapes: &'a [Vec<Shape>],
    /// Jobs that have arrived and have data left, in order of arrival.
    pub(crate) active: &'a [usize],
    /// By job: its transfer, once it has begun.
    transfers: &'a [Option<Transfer>],
    before: &'a Circuits,
    fixed: bool,
    take: Take,
    /// Whether a job's rate is limited to its pace.
    paced: bool,
    /// By job: its way. That of a job which has begun must not change.
    pub(crate) ways: Vec<usize>,
    /// By job: its rate in this slot.
    pub(crate) rates: Vec<f64>,
    /// By unit: number of further jobs that its switch can aggregate.
    pub(crate) inc: Vec<u32>,
    load: Vec<f64>,
    /// By pair of units, the lower one first.
    traffic: Vec<f64>,
    needed: Vec<u32>,
    /// By unit: ports that traffic needs.
    ports: Vec<u32>,
    /// By unit: zeros between calls.
    extra: Vec<u32>,
    /// By job: whether a step did not fit. Bandwidth only shrinks within a slot, so none will.
    blocked: Vec<bool>,
    /// Number of times that a pair came to need new circuits. As long as it stays the same, a job's
    /// next step and its end do not depend on other jobs.
    pub(crate) growths: u32,
}

impl<'a> Allocation<'a> {
    /// Starts a slot. Each job that has begun keeps at least a step of its rate, because transfers
    /// are continuous; this always fits, because it fitted in the slot before.
    #[expect(clippy::too_many_arguments, reason = "one caller, which has all of this")]
    pub(crate) fn new(
        network: &'a Network,
        jobs: &'a [Job],
        shapes: &'a [Vec<Shape>],
        active: &'a [usize],
        transfers: &'a [Option<Transfer>],
        before: &'a Circuits,
        ways: &[usize],
        (fixed, take): (bool, Take),
    ) -> Self {
        let units = network.units.len();
        let mut slot = Self {
            network,
            jobs,
            shapes,
            active,
            transfers,
            before,
            fixed,
            take,
            paced: true,
            ways: ways.to_vec(),
            rates: vec![0.0; jobs.len()],
            inc: network.units.iter().map(|unit| unit.inc).collect(),
            load: vec![0.0; units],
            traffic: vec![0.0; units * units],
            needed: vec![0; units * units],
            ports: vec![0; units],
            extra: vec![0; units],
            blocked: vec![false; jobs.len()],
            growths: 0,
        };
        for &job in active {
            let Some(transfer) = &transfers[job] else { continue };
            if let Some(unit) = jobs[job].ways[ways[job]].inc {
                slot.inc[unit.0] -= 1;
            }
            let least =
                transfer.rate.min(slot.shape(job).step).min(slot.enough(job)).min(jobs[job].pace);
            let kept = slot.raise(job, least);
            debug_assert!(kept, "it fitted in the slot before");
        }
        slot
    }

    fn shape(&self, job: usize) -> &'a Shape {
        &self.shapes[job][self.ways[job]]
    }

    /// Whether the job can send in its way. Otherwise, it waits for a switch to aggregate.
    pub(crate) fn can_send(&self, job: usize) -> bool {
        self.shape(job).step > 0.0
    }

    /// Whether the job has begun to send in an earlier slot.
    pub(crate) fn has_begun(&self, job: usize) -> bool {
        self.transfers[job].is_some()
    }

    /// Ways of the job in which this unit's switch aggregates, and that the network can carry.
    pub(crate) fn inc_ways(&self, job: usize) -> impl Iterator<Item = usize> {
        let ways = self.jobs[job].ways.iter().enumerate();
        ways.filter(move |(at, way)| way.inc.is_some() && self.shapes[job][*at].step > 0.0)
            .map(|(at, _)| at)
    }

    /// Bits left of the job's flow with this index.
    pub(crate) fn left(&self, job: usize, flow: usize) -> f64 {
        match &self.transfers[job] {
            Some(transfer) => transfer.left[flow],
            None => self.shape(job).flows[flow].0 * self.jobs[job].bits,
        }
    }

    fn rate_before(&self, job: usize) -> f64 {
        self.transfers[job].as_ref().map_or(0.0, |transfer| transfer.rate)
    }

    fn at(&self, pair: &Pair) -> usize {
        pair.low * self.network.units.len() + pair.high
    }

    /// Whether a pair gets new circuits if the job has this rate.
    fn grows(&self, job: usize, pair: &Pair, rate: f64) -> bool {
        let traffic = self.traffic[self.at(pair)] + pair.weight * (rate - self.rates[job]);
        circuits_for(traffic, self.network.port_rate) > self.count_before(pair)
    }

    fn count_before(&self, pair: &Pair) -> u32 {
        self.before.between(UnitId(pair.low), UnitId(pair.high))
    }

    /// The rate with which the job's transfer ends in this slot.
    fn enough(&self, job: usize) -> f64 {
        let Network { slot, reconfiguration, .. } = *self.network;
        let shape = self.shape(job);
        let per_weight = |(flow, (weight, _)): (usize, &(f64, _))| self.left(job, flow) / weight;
        let data = shape.flows.iter().enumerate().map(per_weight).fold(0.0, f64::max);
        let mut rate = data / slot;
        // New circuits cost time, which costs rate, which may cost more circuits.
        loop {
            let mut more = rate;
            for (flow, &(weight, pair)) in shape.flows.iter().enumerate() {
                if pair.is_some_and(|pair| self.grows(job, &shape.pairs[pair], rate)) {
                    let carried = self.rate_before(job) * reconfiguration;
                    let missing = self.left(job, flow) / weight - carried;
                    more = more.max(missing / (slot - reconfiguration));
                }
            }
            if more <= rate {
                return rate;
            }
            rate = more;
        }
    }

    /// The next increase of the job's rate: a step δB, or less where less ends the transfer with the
    /// slot; `None` if an increase is of no use.
    ///
    /// Algorithm 2 repeats steps until no bandwidth is left. More than a transfer needs carries
    /// nothing (the maximum in eq. 10) and takes circuits from others, so [`Take::Enough`] stops
    /// there, and the last step is smaller. So it is at the job's pace.
    pub(crate) fn step(&self, job: usize) -> Option<f64> {
        if self.blocked[job] || !self.can_send(job) {
            return None;
        }
        let pace = if self.paced { self.jobs[job].pace } else { f64::INFINITY };
        let most = match self.take {
            Take::All => pace,
            Take::Enough => self.enough(job).min(pace),
        };
        let rate = self.rates[job];
        (rate < most * (1.0 - ROUNDING)).then(|| (most - rate).min(self.shape(job).step))
    }

    /// Seconds from now to the end of the job's iteration if it keeps this rate.
    ///
    /// Not rounded up to slots, unlike eq. 11: most jobs would tie.
    pub(crate) fn completion(&self, job: usize, rate: f64) -> f64 {
        let shape = self.shape(job);
        let increase = (rate - self.rate_before(job)).max(0.0);
        let time = |(flow, &(weight, pair)): (usize, &(f64, Option<usize>))| {
            let grows = pair.is_some_and(|pair| self.grows(job, &shape.pairs[pair], rate));
            let lost = if grows { increase * self.network.reconfiguration } else { 0.0 };
            (self.left(job, flow) / weight + lost) / rate
        };
        let transfer = shape.flows.iter().enumerate().map(time).fold(0.0, f64::max);
        transfer + self.jobs[job].ways[self.ways[job]].update
    }

    /// Raises the job's rate, if the switches and ports allow it.
    pub(crate) fn raise(&mut self, job: usize, by: f64) -> bool {
        let shape = self.shape(job);
        let fits = self.fits(shape, by);
        self.blocked[job] = !fits;
        if fits {
            for &(unit, load) in &shape.loads {
                self.load[unit] += load * by;
            }
            for pair in &shape.pairs {
                let at = self.at(pair);
                self.traffic[at] += pair.weight * by;
                let now = circuits_for(self.traffic[at], self.network.port_rate);
                let more = now - self.needed[at];
                self.growths += u32::from(more > 0 && now > self.count_before(pair));
                self.needed[at] = now;
                self.ports[pair.low] += more;
                self.ports[pair.high] += more;
            }
            self.rates[job] += by;
        }
        fits
    }

    /// Gives jobs what others have left, beyond their pace, step by step in turn: they may have become faster.
    pub(crate) fn outpace(&mut self) {
        self.paced = false;
        let slow = |job: &usize| self.rates[*job] > 0.0 && self.jobs[*job].pace.is_finite();
        let mut slow: Vec<usize> = self.active.iter().copied().filter(slow).collect();
        while !slow.is_empty() {
            slow.retain(|&job| self.step(job).is_some_and(|step| self.raise(job, step)));
        }
    }

    fn fits(&mut self, shape: &Shape, by: f64) -> bool {
        let bandwidth = |unit: usize| self.network.units[unit].bandwidth * (1.0 + ROUNDING);
        if shape.loads.iter().any(|&(unit, load)| self.load[unit] + load * by > bandwidth(unit)) {
            return false;
        }
        let mut fits = true;
        for pair in &shape.pairs {
            let at = self.at(pair);
            let traffic = self.traffic[at] + pair.weight * by;
            let now = circuits_for(traffic, self.network.port_rate);
            let more = now - self.needed[at];
            self.extra[pair.low] += more;
            self.extra[pair.high] += more;
            fits &= !self.fixed || now <= self.count_before(pair);
        }
        for pair in &shape.pairs {
            for unit in [pair.low, pair.high] {
                let ports = self.ports[unit] + std::mem::take(&mut self.extra[unit]);
                fits &= ports <= self.network.units[unit].ports;
            }
        }
        fits
    }

    /// The circuits of the slot: those of the slot before, those that traffic needs in addition, and
    /// without as many idle ones as ports are needed.
    pub(crate) fn circuits(&self) -> Circuits {
        let units = self.network.units.len();
        let mut circuits = self.before.clone();
        for (a, b, count) in self.before.pairs() {
            circuits.set(a, b, count.max(self.needed[a.0 * units + b.0]));
        }
        let mut over: Vec<u32> = self.network.unit_ids().map(|unit| circuits.ports(unit)).collect();
        for (used, unit) in over.iter_mut().zip(&self.network.units) {
            *used = used.saturating_sub(unit.ports);
        }
        for unit in self.network.unit_ids() {
            while over[unit.0] > 0 {
                let others = self.network.unit_ids().filter(|&other| other != unit);
                let idle = |other: UnitId| {
                    let (low, high) = (unit.0.min(other.0), unit.0.max(other.0));
                    circuits.between(unit, other) - self.needed[low * units + high]
                };
                // Free a port at both ends if both need one, then from the most idle pair.
                let best = others.filter(|&other| idle(other) > 0).max_by_key(|&other| {
                    (over[other.0] > 0, idle(other), std::cmp::Reverse(other))
                });
                let other = best.expect("needed circuits fit the ports, so others are idle");
                circuits.set(unit, other, circuits.between(unit, other) - 1);
                over[unit.0] -= 1;
                over[other.0] = over[other.0].saturating_sub(1);
            }
        }
        circuits
    }
}
