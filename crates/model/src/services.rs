//! How switches serve the jobs of P4INC and SwitchML, which have an assignment.
//!
//! Sums are computed at one level, in the switches that workers are attached to (P4INC-AOI §VI-A).
//! A switch's part in a job follows from the assignment's mode:
//!
//! | mode | switches that workers are attached to | other switches on the tree |
//! | --- | --- | --- |
//! | local | the only one computes the result and multicasts it | none: there is no tree |
//! | partial | add their own workers and send the sum to the parameter server | pass gradients on |
//! | forwarded | pass gradients on | pass gradients on |
//!
//! A partial job may have only one of these switches add ([`Placement::adding`]); the others pass gradients on.
//!
//! Except for local jobs, every switch on the tree multicasts packets from the parameter server to
//! the ports with workers below.
//!
//! Two tables admit a packet. The program's `services` table has the job's service ID, so packets
//! of an earlier assignment are dropped. The `memberships` table has who may send what from where.

use std::collections::BTreeSet;

use tributary_protocol::Mode;
use tributary_wire::{Bitmap, Kind, Protocol, Rack, Segment, Service};

use crate::Error;
use crate::plan::{JobAtSwitch, Membership, Part, Placement};
use crate::{Aggregation, SwitchId, Topology};

/// The switches that a job's workers are attached to: those that can add for it.
///
/// # Panics
/// If the placement names a host that the topology does not have.
#[must_use]
pub fn units(topology: &Topology, placement: &Placement) -> BTreeSet<SwitchId> {
    placement.workers.iter().map(|&worker| topology.attachment(worker).0).collect()
}

/// Those of its [`units`] that add for a job in the network, each with a segment.
///
/// # Panics
/// As [`units`].
#[must_use]
pub fn adders(topology: &Topology, placement: &Placement) -> BTreeSet<SwitchId> {
    let mut units = units(topology, placement);
    if let Some(adding) = &placement.adding {
        units.retain(|unit| adding.contains(unit));
    }
    units
}

/// The mode for a job's place of aggregation.
///
/// # Errors
/// [`Error::NoServer`] if the mode needs a parameter server and the job has none;
/// [`Error::NotLocal`] if the protocol is SwitchML, which serves jobs at one switch only.
///
/// # Panics
/// As [`units`].
pub fn mode(
    topology: &Topology,
    placement: &Placement,
    protocol: Protocol,
    aggregation: Aggregation,
) -> Result<Mode, Error> {
    let mode = match aggregation {
        Aggregation::Network if units(topology, placement).len() == 1 => return Ok(Mode::Local),
        Aggregation::Network => Mode::Partial,
        Aggregation::Server => Mode::Forwarded,
    };
    if !protocol.spans_switches() {
        return Err(Error::NotLocal(placement.job));
    }
    if placement.ps.is_none() {
        return Err(Error::NoServer(placement.job));
    }
    Ok(mode)
}

/// The next service ID, never [`Service::FORWARDED`]. IDs repeat after 255, long after the last
/// packet that carried the ID is gone.
#[must_use]
pub fn next(service: Service) -> Service {
    Service::new(service.get() % u8::MAX + 1)
}

/// In the switch of a rack: all workers elsewhere. A round waits for them until the parameter server
/// has answered.
pub const OTHERS: Bitmap = Bitmap(1 << 31);

/// A job's entry in the `services` table of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServiceAtSwitch {
    /// The switch adds for the job, in this segment.
    Aggregate {
        /// The job's aggregators.
        segment: Segment,
        /// All whose contributions a round waits for: positions, or the workers of a rack and
        /// [`OTHERS`].
        everyone: Bitmap,
        /// All positions of the job.
        total: Bitmap,
    },
    /// The switch lets the job's packets through.
    Forward,
}

impl JobAtSwitch {
    /// The job's entry in the `services` table, if the protocol has one.
    #[must_use]
    pub fn service(&self) -> ServiceAtSwitch {
        match self.segment() {
            Some(segment) => ServiceAtSwitch::Aggregate {
                segment,
                everyone: if self.rack == Rack::NONE {
                    self.everyone
                } else {
                    self.members | OTHERS
                },
                total: self.everyone,
            },
            None => ServiceAtSwitch::Forward,
        }
    }

    /// The job's aggregators in the switch, if its assignment has any.
    #[must_use]
    pub fn segment(&self) -> Option<Segment> {
        let adds = self.assignment.service.is_aggregated() && !self.forwards;
        (adds && self.own().next().is_some()).then_some(self.assignment.segment)
    }

    /// The workers attached to the switch, by port.
    fn own(&self) -> impl Iterator<Item = (u16, Bitmap)> {
        let units = self.units.iter().map(|(&port, &unit)| (port, unit));
        units.filter(|(port, _)| !self.lower.contains(port))
    }
}

/// The packets of a job with an assignment that each port may send.
pub(crate) fn memberships(part: &JobAtSwitch) -> Vec<Membership> {
    let members = part.own().fold(Bitmap::EMPTY, |all, (_, unit)| all | unit);
    let top = part.assignment.mode == Mode::Local;
    // In the switch of a rack, all sums are of the rack.
    let upward = if part.rack == Rack::NONE { members } else { part.upward };
    let own = part.own().map(|(port, unit)| {
        (port, Kind::Gradient, part.rack, Part::Contribute { unit, members, upward, top })
    });
    let lower = part.lower.iter().flat_map(|&port| {
        let sums = part.units.contains_key(&port).then_some(Rack::NONE);
        let racks = part.relays.get(&port).into_iter().flatten().copied().chain(sums);
        racks.flat_map(move |rack| {
            part.with_beside(port).map(move |port| (port, Kind::Gradient, rack, Part::Pass))
        })
    });
    // The server's switch may know of other circuits by now, or not yet.
    let answers =
        part.uplink.into_iter().flat_map(|port| part.with_beside(port)).flat_map(|port| {
            let results = [
                (port, Kind::Parameter, Rack::NONE, Part::Distribute),
                (port, Kind::Reply, Rack::NONE, Part::Answer),
            ];
            let queries = part.names().into_iter();
            let queries = queries.map(move |rack| (port, Kind::Query, rack, Part::Answer));
            results.into_iter().chain(queries)
        });
    let all = own.chain(lower).chain(answers);
    all.map(|(port, kind, rack, part)| Membership { port, kind, rack, part }).collect()
}
