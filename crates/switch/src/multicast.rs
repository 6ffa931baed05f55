//! The packet replication engine: multicast groups, exclusion sets, clone sessions.

use std::collections::{BTreeMap, BTreeSet};

use tributary_dataplane::Replication;

/// One copy that a group makes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Replica {
    /// Where the copy goes.
    pub port: u16,
    /// What the egress pipeline sees as `egress_rid`.
    pub instance: u16,
}

/// A group as the controller wrote it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Group {
    pub(crate) replicas: Vec<Replica>,
    /// The controller's own.
    pub(crate) metadata: Vec<u8>,
}

/// All groups by number; 0 is none.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    by_id: BTreeMap<u16, Group>,
    /// Ports that replicas of a packet's replication id are not made for, by exclusion id.
    exclusions: BTreeMap<u16, BTreeSet<u16>>,
}

impl Groups {
    pub(crate) fn get(&self, id: u16) -> Option<&Group> {
        self.by_id.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &Group)> {
        self.by_id.iter().map(|(&id, group)| (id, group))
    }

    /// Sets a group, whether it exists or not.
    pub(crate) fn set(&mut self, id: u16, group: Group) {
        self.by_id.insert(id, group);
    }

    /// Removes a group; false if there was none.
    pub(crate) fn remove(&mut self, id: u16) -> bool {
        self.by_id.remove(&id).is_some()
    }

    /// Sets the ports of an exclusion id.
    pub(crate) fn set_exclusion(&mut self, id: u16, ports: BTreeSet<u16>) {
        self.exclusions.insert(id, ports);
    }

    /// Whether a packet is to have no replica for a port.
    pub(crate) fn excludes(&self, copies: &Replication, port: u16) -> bool {
        copies.exclusion != 0
            && self.exclusions.get(&copies.exclusion).is_some_and(|ports| ports.contains(&port))
    }
}

/// Where a clone session's copies go; TNA calls it a mirror session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Session {
    /// One copy for each.
    pub(crate) replicas: Vec<Replica>,
    /// Bytes of the frame that are copied at most.
    pub(crate) length: Option<usize>,
    /// Kept for the controller: there is one queue a port.
    pub(crate) class_of_service: u32,
}

/// All clone sessions by number.
pub(crate) type Sessions = BTreeMap<u16, Session>;
