//! Multicast groups and mirror sessions.
//!
//! BMv2 builds a group from nodes, each with a replication ID and ports, and a session may send to
//! a group. In P4Runtime, groups and sessions are lists of replicas instead. So nodes are kept
//! here, and every affected group and session is written to the switch again.

use std::collections::{BTreeMap, BTreeSet};

use crate::Switch;
use tributary_p4runtime::p4::v1 as p4;

use crate::stf::script::Replication;

use p4::packet_replication_engine_entry::Type;

/// The state built by the commands so far.
#[derive(Default)]
pub(super) struct Engine {
    /// Nodes by handle; a destroyed node leaves its place empty.
    nodes: Vec<Option<Node>>,
    /// The nodes of each group, in order of their association.
    groups: BTreeMap<u16, Vec<usize>>,
    sessions: BTreeMap<u32, Session>,
    /// Objects that exist on the switch.
    told: BTreeSet<Object>,
}

struct Node {
    rid: u16,
    ports: Vec<u16>,
}

enum Session {
    /// With the most bytes of the packet that are copied.
    Port(u16, Option<u32>),
    Group(u16),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Group(u16),
    Session(u32),
}

impl Engine {
    pub(super) fn execute(
        &mut self,
        switch: &mut Switch,
        command: &Replication,
    ) -> Result<(), String> {
        match command {
            Replication::MirrorToPort { session, port, length } => {
                self.sessions.insert(*session, Session::Port(*port, *length));
                self.write(switch, Object::Session(*session))
            }
            Replication::MirrorToGroup { session, group } => {
                self.sessions.insert(*session, Session::Group(*group));
                self.write(switch, Object::Session(*session))
            }
            Replication::MirrorDelete { session } => {
                self.sessions.remove(session).ok_or_else(|| no_session(*session))?;
                self.write(switch, Object::Session(*session))
            }
            Replication::MirrorGet { session } => {
                let known = self.sessions.contains_key(session);
                if known { Ok(()) } else { Err(no_session(*session)) }
            }
            Replication::GroupCreate { group } => {
                if self.groups.insert(*group, Vec::new()).is_some() {
                    return Err(format!("multicast group {group} exists already"));
                }
                self.write_group(switch, *group)
            }
            Replication::GroupDestroy { group } => {
                self.groups.remove(group).ok_or_else(|| no_group(*group))?;
                self.write_group(switch, *group)
            }
            Replication::NodeCreate { rid, ports } => {
                self.nodes.push(Some(Node { rid: *rid, ports: ports.clone() }));
                Ok(())
            }
            Replication::NodeUpdate { node, ports } => {
                let known = self.nodes.get_mut(*node).and_then(Option::as_mut);
                known.ok_or_else(|| no_node(*node))?.ports.clone_from(ports);
                self.write_groups_of(switch, *node)
            }
            Replication::NodeDestroy { node } => {
                let known = self.nodes.get_mut(*node).and_then(Option::take);
                known.ok_or_else(|| no_node(*node))?;
                self.write_groups_of(switch, *node)?;
                self.groups.values_mut().for_each(|nodes| nodes.retain(|one| one != node));
                Ok(())
            }
            Replication::NodeAssociate { group, node } => {
                if self.nodes.get(*node).is_none_or(Option::is_none) {
                    return Err(no_node(*node));
                }
                let nodes = self.groups.get_mut(group).ok_or_else(|| no_group(*group))?;
                if nodes.contains(node) {
                    return Err(format!("node {node} is in multicast group {group} already"));
                }
                nodes.push(*node);
                self.write_group(switch, *group)
            }
            Replication::NodeDissociate { group, node } => {
                let nodes = self.groups.get_mut(group).ok_or_else(|| no_group(*group))?;
                let at = nodes.iter().position(|one| one == node);
                let at = at.ok_or_else(|| format!("node {node} is not in group {group}"))?;
                nodes.remove(at);
                self.write_group(switch, *group)
            }
        }
    }

    fn write_groups_of(&mut self, switch: &mut Switch, node: usize) -> Result<(), String> {
        let with_node = self.groups.iter().filter(|(_, nodes)| nodes.contains(&node));
        let groups: Vec<u16> = with_node.map(|(group, _)| *group).collect();
        groups.into_iter().try_for_each(|group| self.write_group(switch, group))
    }

    /// Writes the group, and the sessions that send to it.
    fn write_group(&mut self, switch: &mut Switch, group: u16) -> Result<(), String> {
        self.write(switch, Object::Group(group))?;
        let to_group = |session: &Session| matches!(session, Session::Group(to) if *to == group);
        let sessions = self.sessions.iter().filter(|(_, session)| to_group(session));
        let sessions: Vec<u32> = sessions.map(|(id, _)| *id).collect();
        sessions.into_iter().try_for_each(|session| self.write(switch, Object::Session(session)))
    }

    /// Writes a group or a session to the switch. One without replicas is deleted there: its
    /// packets are dropped in either case.
    fn write(&mut self, switch: &mut Switch, object: Object) -> Result<(), String> {
        let replicas = match object {
            Object::Group(group) => self.replicas(group),
            Object::Session(session) => match self.sessions.get(&session) {
                Some(Session::Port(port, _)) => vec![replica(*port, 0)],
                Some(Session::Group(group)) => self.replicas(*group),
                None => Vec::new(),
            },
        };
        let change = match (replicas.is_empty(), self.told.contains(&object)) {
            (true, false) => return Ok(()),
            (true, true) => p4::update::Type::Delete,
            (false, true) => p4::update::Type::Modify,
            (false, false) => p4::update::Type::Insert,
        };
        let length = match object {
            Object::Session(session) => match self.sessions.get(&session) {
                Some(Session::Port(_, length)) => length.unwrap_or(0),
                _ => 0,
            },
            Object::Group(_) => 0,
        };
        let update = update(change, object, replicas, length);
        let results = switch.write(&[update]).map_err(|refusal| refusal.to_string())?;
        results.into_iter().collect::<Result<(), _>>().map_err(|refusal| refusal.to_string())?;
        match change {
            p4::update::Type::Delete => self.told.remove(&object),
            _ => self.told.insert(object),
        };
        Ok(())
    }

    /// The distinct copies of a packet for a group, node by node.
    fn replicas(&self, group: u16) -> Vec<p4::Replica> {
        let nodes = self.groups.get(&group).into_iter().flatten();
        let nodes = nodes.filter_map(|&node| self.nodes.get(node)?.as_ref());
        let copies = nodes.flat_map(|node| node.ports.iter().map(|&port| (port, node.rid)));
        let mut seen = BTreeSet::new();
        copies.filter(|&copy| seen.insert(copy)).map(|(port, rid)| replica(port, rid)).collect()
    }
}

fn no_session(session: u32) -> String {
    format!("there is no mirror session {session}")
}

fn no_group(group: u16) -> String {
    format!("there is no multicast group {group}: create it with mc_mgrp_create")
}

fn no_node(node: usize) -> String {
    format!("there is no node {node}: mc_node_create numbers them from 0")
}

fn replica(port: u16, rid: u16) -> p4::Replica {
    p4::Replica {
        port_kind: Some(p4::replica::PortKind::Port(port.to_be_bytes().to_vec())),
        instance: u32::from(rid),
        backup_replicas: Vec::new(),
    }
}

fn update(
    change: p4::update::Type,
    object: Object,
    replicas: Vec<p4::Replica>,
    length: u32,
) -> p4::Update {
    let entry = match object {
        Object::Group(group) => Type::MulticastGroupEntry(p4::MulticastGroupEntry {
            multicast_group_id: u32::from(group),
            replicas,
            ..Default::default()
        }),
        Object::Session(session_id) => Type::CloneSessionEntry(p4::CloneSessionEntry {
            session_id,
            replicas,
            packet_length_bytes: i32::try_from(length).unwrap_or(i32::MAX),
            ..Default::default()
        }),
    };
    let entry = p4::PacketReplicationEngineEntry { r#type: Some(entry) };
    p4::Update {
        r#type: change.into(),
        entity: Some(p4::Entity {
            entity: Some(p4::entity::Entity::PacketReplicationEngineEntry(entry)),
        }),
    }
}
