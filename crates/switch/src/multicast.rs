//! The packet replication engine: multicast groups, exclusion sets, clone sessions.

use std::collections::{BTreeMap, BTreeSet};

use tributary_dataplane::Replication;

/// One copy of a group or session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Replica {
    /// The copy's egress port.
    pub port: u16,
    /// What the egress pipeline sees as `egress_rid`.
    pub instance: u16,
}

/// A group as the controller wrote it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Group {
    pub(crate) replicas: Vec<Replica>,
    /// The controller's metadata.
    pub(crate) metadata: Vec<u8>,
    /// Which replicas are the first with their instance.
    first: Vec<bool>,
}

/// All groups by number; 0 means no group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    by_id: BTreeMap<u16, Group>,
    /// Excluded ports by exclusion id: a packet with that id gets no replicas of its own
    /// replication id on them.
    exclusions: BTreeMap<u16, BTreeSet<u16>>,
}

impl Group {
    pub(crate) fn new(replicas: Vec<Replica>, metadata: Vec<u8>) -> Self {
        let mut seen = BTreeSet::new();
        let first = replicas.iter().map(|replica| seen.insert(replica.instance)).collect();
        Self { replicas, metadata, first }
    }

    /// Its replicas, each with whether it is the first with its instance.
    pub(crate) fn copies(&self) -> impl Iterator<Item = (&Replica, bool)> {
        self.replicas.iter().zip(self.first.iter().copied())
    }
}

impl Groups {
    pub(crate) fn get(&self, id: u16) -> Option<&Group> {
        self.by_id.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &Group)> {
        self.by_id.iter().map(|(&id, group)| (id, group))
    }

    /// Sets a group, replacing an existing one.
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

    /// Whether a packet gets no replica on a port.
    pub(crate) fn excludes(&self, copies: &Replication, port: u16) -> bool {
        copies.exclusion != 0
            && self.exclusions.get(&copies.exclusion).is_some_and(|ports| ports.contains(&port))
    }
}

/// The copies of a clone session; TNA calls it a mirror session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Session {
    /// One copy each.
    pub(crate) replicas: Vec<Replica>,
    /// Maximum number of bytes copied.
    pub(crate) length: Option<usize>,
    /// Kept for the controller, but without effect.
    pub(crate) class_of_service: u32,
}

/// All clone sessions by number.
pub(crate) type Sessions = BTreeMap<u16, Session>;
