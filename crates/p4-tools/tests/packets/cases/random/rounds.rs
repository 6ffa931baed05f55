//! Jobs of P4INC and SwitchML: segments, services, and consecutive rounds.

use rand::Rng;
use rand::seq::IndexedRandom;

use super::{JOBS, Net, POOL};
use crate::entries::Entry;
use crate::frames::{
    ALL_BUT, COLLISION, GRADIENT, MARKED, OVERFLOW, PARAMETER, QUERY, REPLY, RESEND, SWEEP, epoch,
};
use crate::model::{Membership, Part, Service};
use crate::target::Program;

/// Services that a job's packets may name; some have entries.
const SERVICES: [u8; 3] = [0, 5, 200];

fn entry((job, service): (u16, u8), what: Service) -> Entry {
    match what {
        Service::Aggregate(offset, size, everyone, total) => {
            Entry::aggregate_for(job, service, (offset, size), (everyone, total))
        }
        Service::Forward => Entry::forward(job, service),
    }
}

impl Net {
    /// Workers behind some ports, and a parameter server behind another if there are more workers
    /// elsewhere.
    pub(super) fn job_with_rounds(&mut self, job: u16) {
        let ports: Vec<u16> = (1..=4).filter(|_| self.rng.random_bool(0.75)).collect();
        let members = (1 << ports.len()) - 1;
        let slot = (job % 7) as u8 + 1;
        let group = *[11, 12].choose(&mut self.rng).expect("not empty");
        // One job is of several units, one is local, and one is either.
        let units = match self.lab.build().program {
            Program::SwitchMl => job == JOBS[1] && self.rng.random_bool(0.2),
            _ => job == JOBS[0] || job == JOBS[1] && self.rng.random_bool(0.5),
        };
        let everyone = if units { members | (members + 1) } else { members };
        // The unit's workers may be a rack.
        let racked = units && self.rng.random_bool(0.5);
        let (rack, upward, total) = match racked {
            true => (self.rng.random_range(1..=32), 1 << 4, self.rng.random_range(1..64)),
            false => (0, members, everyone),
        };
        for (worker, &port) in ports.iter().enumerate() {
            let group = if units { 0 } else { group };
            let unit = 1 << worker;
            self.insert(
                (job, epoch(job), port, GRADIENT, rack),
                Part { unit, members, upward, group, slot, ..Part::default() },
            );
        }
        let ps = self.rng.random_range(5..=6);
        let kinds: &[u8] = if units { &[PARAMETER, REPLY, QUERY] } else { &[] };
        for &kind in kinds {
            let group = if kind == PARAMETER { group } else { 0 };
            let rack = if kind == QUERY { rack } else { 0 };
            self.insert((job, epoch(job), ps, kind, rack), Part { group, slot, ..Part::default() });
        }
        let place = JOBS.iter().position(|known| *known == job).expect("one of them") as u32;
        let size = self.rng.random_range(1..=2);
        self.insert_service((job, 5), Service::Aggregate(2 * place, size, everyone, total));
        if self.rng.random_bool(0.5) {
            self.insert_service((job, 0), Service::Forward);
        }
    }

    fn insert_service(&mut self, key: (u16, u8), what: Service) {
        self.lab.insert(&[entry(key, what)]);
        self.model.services.insert(key, what);
    }

    /// The same for a service.
    pub(super) fn serve_again(&mut self) {
        let Some(&(key, what)) = self.services.choose(&mut self.rng) else { return };
        if self.model.services.remove(&key).is_some() {
            self.lab.delete(&[entry(key, what)]);
        } else {
            self.insert_service(key, what);
        }
    }

    /// Removes, adds or changes a service, including those that no controller would write, with
    /// overlapping segments. None exceeds the pool.
    pub(super) fn change_service(&mut self) {
        let job = *JOBS.choose(&mut self.rng).expect("not empty");
        let key = (job, *SERVICES.choose(&mut self.rng).expect("not empty"));
        let what = if self.rng.random_bool(0.2) {
            Service::Forward
        } else {
            let offset = self.rng.random_range(0..POOL);
            let size = self.rng.random_range(0..=POOL - offset);
            // All members of some port's entry, or any workers.
            let parts = self.model.parts.iter().filter(|(key, _)| key.0 == job);
            let known: Vec<u32> = parts.map(|(_, part)| part.members).collect();
            let known = known.choose(&mut self.rng).copied();
            let any = known.is_none() || self.rng.random_bool(0.2);
            let everyone = if any { self.rng.random_range(0..16) } else { known.unwrap_or(0) };
            let total =
                if self.rng.random_bool(0.8) { everyone } else { self.rng.random_range(0..16) };
            Service::Aggregate(offset, size, everyone, total)
        };
        match self.model.services.get(&key).copied() {
            None => self.insert_service(key, what),
            Some(old) if self.rng.random_bool(0.3) && self.model.services.len() > 3 => {
                self.lab.delete(&[entry(key, old)]);
                self.model.services.remove(&key);
            }
            Some(_) => {
                self.lab.modify(&[entry(key, what)]);
                self.model.services.insert(key, what);
            }
        }
    }

    /// A port's part in a job, including parts that no controller would write.
    pub(super) fn part_in_rounds(&mut self, (job, _, _, kind, _): Membership) -> Part {
        let slot = self.rng.random_range(0..=255);
        if kind != GRADIENT || self.rng.random_bool(0.3) {
            return self.part(kind);
        }
        let everyone = self.model.services.iter().find_map(|(key, service)| match service {
            Service::Aggregate(_, _, everyone, _) if key.0 == job => Some(*everyone),
            _ => None,
        });
        let unit = 1 << self.rng.random_range(0..4);
        let some = self.rng.random_range(0..16);
        let members = *[everyone.unwrap_or(some), some, unit].choose(&mut self.rng).expect("three");
        let group = *[0, 11, 12].choose(&mut self.rng).expect("three");
        let upward = if self.rng.random_bool(0.7) { members } else { self.rng.random() };
        Part { unit, members, upward, group, slot, ..Part::default() }
    }

    pub(super) fn sweep_segment(&mut self) {
        let job = *JOBS.choose(&mut self.rng).expect("not empty");
        let service = *SERVICES.choose(&mut self.rng).expect("not empty");
        let from = match self.model.services.get(&(job, service)) {
            Some(Service::Aggregate(offset, ..)) if self.rng.random_bool(0.7) => *offset,
            _ => self.rng.random_range(0..POOL),
        };
        let mut sweep = self.frame(SWEEP, 0).priority(service).with(|f| {
            (f.job, f.index, f.bitmap) = (job, from, 0);
        });
        sweep.trailer.clear();
        let frame = sweep.bytes();
        // The model has no cells beyond the pool; a sweep of one is malformed.
        let outputs = self.lab.packet_out(&frame);
        let back = self
            .model
            .sweep_segment(&frame)
            .map(|(end, unfinished)| sweep.bitmap(unfinished).with(|f| f.index = end).bytes());
        assert_eq!(outputs.packets_in, Vec::from_iter(back), "a sweep of job {job} from {from}");
        assert_eq!(outputs.frames, []);
    }

    /// A packet that follows the protocol: of a cell's current round, or of the one before or
    /// after.
    pub(super) fn plausible_round(&mut self) -> (u16, Vec<u8>) {
        let gradients = self.rng.random_bool(0.9);
        let known = self.model.parts.iter().filter(|(key, _)| (key.3 == GRADIENT) == gradients);
        let parts: Vec<(Membership, Part)> = known.map(|(key, part)| (*key, *part)).collect();
        let Some(&((job, _, port, kind, rack), part)) = parts.choose(&mut self.rng) else {
            return self.plain();
        };
        let mut frame = self.frame(kind, port);
        frame.job = job;
        frame.rack = rack;
        let services: Vec<(u8, Service)> = self
            .model
            .services
            .iter()
            .filter(|(key, _)| key.0 == job)
            .map(|(k, s)| (k.1, *s))
            .collect();
        let (service, what) = *services.choose(&mut self.rng).unwrap_or(&(5, Service::Forward));
        frame.priority = if self.rng.random_bool(0.95) { service } else { self.rng.random() };
        let mut everyone = part.members;
        if let Service::Aggregate(offset, size, _, all) = what {
            everyone = all;
            if size > 0 && self.rng.random_bool(0.95) {
                frame.index = offset + self.rng.random_range(0..size);
            }
        }
        frame.sequence = self.round_of(frame.index);
        frame.bitmap = if kind == GRADIENT { part.unit } else { everyone };
        if self.rng.random_bool(0.03) {
            frame.bitmap = self.rng.random_range(0..16);
        }
        for (flag, how_often) in [
            (RESEND, if kind == GRADIENT { 0.3 } else { 0.05 }),
            (OVERFLOW, 0.15),
            (MARKED, 0.1),
            (COLLISION, 0.02),
        ] {
            if self.rng.random_bool(how_often) {
                frame.flags |= flag;
            }
        }
        if kind == QUERY {
            frame.values.clear();
        }
        if self.rng.random_bool(0.2) {
            let audiences = [1, 2, 4, 32, ALL_BUT | 1, ALL_BUT | 3, ALL_BUT | 32, 33, ALL_BUT];
            frame.audience = *audiences.choose(&mut self.rng).expect("not empty");
            if kind == GRADIENT && self.rng.random_bool(0.5) {
                frame.values.clear();
            }
        }
        (port, frame.bytes())
    }

    fn round_of(&mut self, cell: u32) -> u32 {
        if self.rng.random_bool(0.01) {
            return *[0, 1, u32::MAX - 1, u32::MAX].choose(&mut self.rng).expect("four");
        }
        let Some((round, finished)) = self.model.round(cell) else {
            return self.rng.random_range(0..3);
        };
        let early = if finished { 0.5 } else { 0.05 };
        if self.rng.random_bool(early) {
            round.saturating_add(self.rng.random_range(1..3))
        } else if self.rng.random_bool(0.25) {
            round.saturating_sub(self.rng.random_range(1..3))
        } else {
            round
        }
    }
}
