//! A plan for all slots, filled job by job: each job looks for room in all slots in which it can send.
//!
//! A job that finds no room takes the place of another one that finds room elsewhere. Jobs that still find none are
//! late; in the next attempt they come earlier.

use crate::instance::{Choice, Instance};

use super::settle::Slots;

/// What a slot in which a job sends is worth, in slots by which it ends later, in the attempts in turn: a job first
/// sends as early as possible, so that it leaves no room behind, then in as few slots as possible.
const PRICES: [f64; 2] = [-0.5, 0.1];

/// Most slots and jobs that the search of a number of ports may look at.
pub(super) const EFFORT: usize = 4_000_000;

/// Room in a slot.
#[derive(Clone)]
struct Room {
    /// By unit: bandwidth of the switch that is not used.
    switches: Vec<f64>,
    /// By unit: jobs that the switch can still aggregate.
    aggregators: Vec<u32>,
    /// By unit: ports without a circuit.
    ports: Vec<u32>,
    /// By pair: circuits that jobs need.
    circuits: Vec<u32>,
    /// By pair: bandwidth of these circuits that is not used.
    spare: Vec<f64>,
}

/// Where a job sends.
#[derive(Clone)]
struct Place {
    /// Its way.
    option: usize,
    first: usize,
    /// By slot, from the first one on.
    rates: Vec<f64>,
    /// Whether its circuits of the first slot are set up a slot before, so that it loses nothing (eq. 10).
    prepared: bool,
}

pub(super) struct Plan<'a> {
    instance: &'a Instance<'a>,
    time: f64,
    empty: Room,
    rooms: Vec<Room>,
    /// By job.
    places: Vec<Option<Place>>,
    /// One of [`PRICES`].
    price: f64,
    /// By job: whether its circuits may be set up a slot before.
    prepare: Vec<bool>,
    /// Whether this is tried first.
    prepare_first: bool,
    /// Ports by unit, and circuits by pair of a choice.
    scratch: (Vec<u32>, Vec<u32>),
    /// Slots and jobs that were looked at.
    pub(super) effort: usize,
}

impl<'a> Plan<'a> {
    pub(super) fn new(instance: &'a Instance<'a>) -> Self {
        let network = instance.network;
        let empty = Room {
            switches: network.units.iter().map(|unit| unit.bandwidth).collect(),
            aggregators: network.units.iter().map(|unit| unit.inc).collect(),
            ports: network.units.iter().map(|unit| unit.ports).collect(),
            circuits: vec![0; instance.pairs.len()],
            spare: vec![0.0; instance.pairs.len()],
        };
        Self {
            instance,
            time: 0.0,
            scratch: (empty.ports.clone(), Vec::new()),
            empty,
            rooms: Vec::new(),
            places: Vec::new(),
            price: 0.0,
            prepare: Vec::new(),
            prepare_first: false,
            effort: 0,
        }
    }

    /// Fills all slots until a time. By job, `options` has its preferred way, `weights` its importance, and `prepare`
    /// whether its circuits may be set up a slot before.
    ///
    /// Errors: the jobs that are late.
    pub(super) fn fill(
        &mut self,
        time: f64,
        options: &[usize],
        weights: &[f64],
        prepare: &[bool],
        attempt: usize,
    ) -> Result<(), Vec<usize>> {
        let instance = self.instance;
        self.time = time;
        self.price = PRICES[attempt / 2 % PRICES.len()];
        self.prepare.clear();
        self.prepare.extend(prepare);
        self.prepare_first = attempt % 2 == 1;
        self.rooms.clear();
        self.rooms.resize(instance.deadline(time, 0.0), self.empty.clone());
        self.places.clear();
        self.places.resize(options.len(), None);
        let mut order: Vec<(f64, usize)> = (0..options.len())
            .filter(|&job| instance.jobs[job].bits > 0.0)
            .map(|job| (weights[job] * self.hardness(job, options[job]), job))
            .collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut late = Vec::new();
        for (_, job) in order {
            // Once a job is late, the attempt only tells which others are.
            if !(self.insert(job, options[job]) || late.is_empty() && self.exchange(job)) {
                late.push(job);
            }
        }
        if late.is_empty() { Ok(()) } else { Err(late) }
    }

    /// By slot: circuits by pair and rates by job. `options` receives the ways.
    pub(super) fn result(&self, options: &mut [usize]) -> Slots {
        let end = self.places.iter().flatten().map(|place| place.first + place.rates.len()).max();
        let mut slots: Slots = self.rooms[..end.unwrap_or(0)]
            .iter()
            .map(|room| (room.circuits.clone(), vec![0.0; self.places.len()]))
            .collect();
        for (job, place) in self.places.iter().enumerate() {
            let Some(place) = place else { continue };
            options[job] = place.option;
            for (slot, &rate) in (place.first..).zip(&place.rates) {
                slots[slot].1[job] = rate;
            }
        }
        slots
    }

    /// The share of its slots that the job needs if it is alone.
    fn hardness(&self, job: usize, option: usize) -> f64 {
        let prepared = &self.instance.jobs[job];
        let choice = &prepared.options[option];
        let slots = self.instance.deadline(self.time, choice.update) - prepared.arrival;
        prepared.bits / (choice.fastest * self.instance.network.slot * slots as f64)
    }

    /// Places a job in its preferred way or another one.
    fn insert(&mut self, job: usize, preferred: usize) -> bool {
        let others = (0..self.instance.jobs[job].options.len()).filter(|&other| other != preferred);
        for option in std::iter::once(preferred).chain(others) {
            if let Some(place) = self.find(job, option) {
                self.add(job, place);
                return true;
            }
        }
        false
    }

    /// Places a job where another one was that finds another place.
    fn exchange(&mut self, job: usize) -> bool {
        let instance = self.instance;
        for (option, choice) in instance.jobs[job].options.iter().enumerate() {
            if !instance.in_time(job, choice, self.time) {
                continue;
            }
            let end = instance.deadline(self.time, choice.update);
            for other in 0..self.places.len() {
                self.effort += 1;
                if self.effort > EFFORT {
                    return false;
                }
                let Some(place) = &self.places[other] else { continue };
                let theirs = &instance.jobs[other].options[place.option];
                let shares = |unit: usize| theirs.load.iter().any(|&(other, _)| other == unit);
                if place.first >= end
                    || place.first + place.rates.len() <= instance.jobs[job].arrival
                    || !choice.load.iter().any(|&(unit, _)| shares(unit))
                {
                    continue;
                }
                let place = self.remove(other);
                if let Some(mine) = self.find(job, option) {
                    self.add(job, mine);
                    if self.insert(other, place.option) {
                        return true;
                    }
                    self.remove(job);
                }
                self.add(other, place);
            }
        }
        false
    }

    /// The best place of a job in a way.
    fn find(&mut self, job: usize, option: usize) -> Option<Place> {
        let choice = &self.instance.jobs[job].options[option];
        if !self.instance.in_time(job, choice, self.time) {
            return None;
        }
        if choice.pairs.is_empty() || !self.prepare[job] {
            return self.search(job, option, false);
        }
        let first = self.prepare_first;
        self.search(job, option, first).or_else(|| self.search(job, option, !first))
    }

    /// The best place of a job in a way, with circuits that are set up a slot before, or without.
    fn search(&mut self, job: usize, option: usize, prepared: bool) -> Option<Place> {
        let arrival = self.instance.jobs[job].arrival;
        let choice = &self.instance.jobs[job].options[option];
        let end = self.instance.deadline(self.time, choice.update);
        let price = self.price;
        let cost = |first: usize, slots: usize| (first + slots) as f64 + price * slots as f64;
        let mut best: Option<(f64, Place)> = None;
        let mut first = arrival.max(usize::from(prepared));
        let mut rates = Vec::new();
        let least = choice.least.max(1);
        while first + least <= end {
            if best.as_ref().is_some_and(|(known, _)| *known <= cost(first, least)) {
                break;
            }
            match self.fit(job, choice, (first, end), prepared, &mut rates) {
                Ok(()) => {
                    let cost = cost(first, rates.len());
                    if best.as_ref().is_none_or(|(known, _)| cost < *known) {
                        best =
                            Some((cost, Place { option, first, rates: rates.clone(), prepared }));
                    }
                    first += 1;
                }
                Err(next) => first = next,
            }
        }
        best.map(|(_, place)| place)
    }

    /// The rates with which a job sends from a slot on.
    ///
    /// Errors: the next slot from which it may be possible.
    fn fit(
        &mut self,
        job: usize,
        choice: &Choice,
        (first, end): (usize, usize),
        prepared: bool,
        rates: &mut Vec<f64>,
    ) -> Result<(), usize> {
        let network = self.instance.network;
        let slot = network.slot;
        let penalty = if choice.pairs.is_empty() { 0.0 } else { network.reconfiguration };
        rates.clear();
        let (mut left, mut before) = (self.instance.jobs[job].bits, 0.0);
        for now in first..end {
            self.effort += 1;
            // Other jobs can make circuits new in each slot, so that each increase loses data (eq. 10).
            let penalty = if prepared && now == first { 0.0 } else { penalty };
            let enough = if left <= before * slot {
                left / slot
            } else {
                (left - penalty * before) / (slot - penalty)
            };
            let mut rate = self.rate(now, choice, enough);
            if prepared && now == first {
                rate = self.widest(now - 1, choice, rate);
            }
            if rate <= choice.fastest * 1e-6 {
                return Err(now + 1);
            }
            rates.push(rate);
            if rate >= enough {
                return Ok(());
            }
            left -= rate * slot - penalty * (rate - before).max(0.0);
            before = rate;
        }
        Err(end)
    }

    /// The greatest rate up to a limit for which a slot has room.
    fn rate(&mut self, slot: usize, choice: &Choice, limit: f64) -> f64 {
        let room = &self.rooms[slot];
        if choice.inc.is_some_and(|unit| room.aggregators[unit] == 0) {
            return 0.0;
        }
        let loads = choice.load.iter();
        let limit = loads.map(|&(unit, factor)| room.switches[unit] / factor).fold(limit, f64::min);
        self.widest(slot, choice, limit)
    }

    /// The greatest rate up to a limit for which a slot has circuits, or ports for them.
    fn widest(&mut self, slot: usize, choice: &Choice, limit: f64) -> f64 {
        if choice.pairs.is_empty() || limit <= 0.0 {
            return limit;
        }
        let room = &self.rooms[slot];
        let port_rate = self.instance.network.port_rate;
        let (ports, added) = &mut self.scratch;
        ports.copy_from_slice(&room.ports);
        added.clear();
        added.resize(choice.pairs.len(), 0);
        loop {
            let mut narrowest = (f64::INFINITY, 0);
            for (entry, &(pair, factor)) in choice.pairs.iter().enumerate() {
                let rate = (room.spare[pair] + f64::from(added[entry]) * port_rate) / factor;
                if rate < narrowest.0 {
                    narrowest = (rate, entry);
                }
            }
            let (rate, entry) = narrowest;
            if rate >= limit {
                return limit;
            }
            let (a, b) = self.instance.pairs[choice.pairs[entry].0];
            if ports[a] == 0 || ports[b] == 0 {
                return rate;
            }
            ports[a] -= 1;
            ports[b] -= 1;
            added[entry] += 1;
        }
    }

    fn add(&mut self, job: usize, place: Place) {
        self.change(job, &place, 1.0);
        self.places[job] = Some(place);
    }

    fn remove(&mut self, job: usize) -> Place {
        let place = self.places[job].take().expect("a placed job");
        self.change(job, &place, -1.0);
        place
    }

    /// Takes what a job needs from the rooms, or gives it back.
    fn change(&mut self, job: usize, place: &Place, sign: f64) {
        let choice = &self.instance.jobs[job].options[place.option];
        if place.prepared {
            self.connect(place.first - 1, choice, sign * place.rates[0]);
        }
        for (slot, &rate) in (place.first..).zip(&place.rates) {
            let room = &mut self.rooms[slot];
            for &(unit, factor) in &choice.load {
                room.switches[unit] -= sign * factor * rate;
            }
            if let Some(unit) = choice.inc {
                let jobs = room.aggregators[unit];
                room.aggregators[unit] = if sign > 0.0 { jobs - 1 } else { jobs + 1 };
            }
            self.connect(slot, choice, sign * rate);
        }
    }

    /// Takes circuits for a rate, or gives them back for a rate below 0.
    fn connect(&mut self, slot: usize, choice: &Choice, rate: f64) {
        let port_rate = self.instance.network.port_rate;
        let room = &mut self.rooms[slot];
        for &(pair, factor) in &choice.pairs {
            let (a, b) = self.instance.pairs[pair];
            let spare = room.spare[pair] - factor * rate;
            let more = (-spare / port_rate - 1e-9).ceil() as i32;
            room.spare[pair] = spare + f64::from(more) * port_rate;
            room.circuits[pair] = room.circuits[pair].wrapping_add_signed(more);
            room.ports[a] = room.ports[a].wrapping_add_signed(-more);
            room.ports[b] = room.ports[b].wrapping_add_signed(-more);
        }
    }
}
