//! The packets that each port of a switch may send for a job.

use std::collections::{BTreeMap, BTreeSet};

use tributary_wire::{Kind, Protocol, Rack};

use super::{JobAtSwitch, Membership, Part};
use crate::services;

impl JobAtSwitch {
    /// The packets of the job that each port may send, and what the switch does with them.
    #[must_use]
    pub fn memberships(&self, protocol: Protocol) -> Vec<Membership> {
        if protocol.has_services() {
            return services::memberships(self);
        }
        let Self { members, upward, rack, .. } = *self;
        let esa = protocol == Protocol::Esa;
        let top = esa && self.top;
        let forwards = self.forwards && !esa;
        let gradients = self.units.iter().map(|(&port, &unit)| {
            let add = Part::Contribute { unit, members, upward, top };
            let part = if forwards { Part::Pass } else { add };
            Membership { port, kind: Kind::Gradient, rack, part }
        });
        let mut all: Vec<Membership> = gradients.collect();
        let mut add = |port, kind, rack, part| all.push(Membership { port, kind, rack, part });
        for (port, rack) in pairs(&self.relays) {
            add(port, Kind::Gradient, rack, Part::Pass);
        }
        if let Some(uplink) = self.uplink {
            if !esa {
                add(uplink, Kind::Reply, Rack::NONE, Part::Answer);
            }
            for rack in self.names() {
                // A question of an ESA server names a worker, and is for all, as a result is.
                if esa || rack == Rack::NONE {
                    add(uplink, Kind::Parameter, rack, Part::Distribute);
                }
                if !esa {
                    add(uplink, Kind::Query, rack, Part::Answer);
                }
            }
        }
        if esa {
            for (port, target) in pairs(&self.reminders) {
                let own = self.aggregates() && target == rack;
                let part = if own { Part::Remind { members } } else { Part::Answer };
                add(port, Kind::Reminder, target, part);
            }
            for (port, target) in pairs(&self.answers) {
                add(port, Kind::Absent, target, Part::Answer);
                // Ports with gradients admit partial sums anyway.
                let adds = target == rack && self.units.contains_key(&port);
                if !adds && !self.relays.get(&port).is_some_and(|racks| racks.contains(&target)) {
                    add(port, Kind::Gradient, target, Part::Pass);
                }
            }
        }
        all
    }
}

/// Each port with each of its racks.
fn pairs(racks: &BTreeMap<u16, BTreeSet<Rack>>) -> impl Iterator<Item = (u16, Rack)> {
    racks.iter().flat_map(|(&port, racks)| racks.iter().map(move |&rack| (port, rack)))
}
