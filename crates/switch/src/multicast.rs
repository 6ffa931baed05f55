//! Multicast groups.

use std::collections::BTreeMap;

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
}
