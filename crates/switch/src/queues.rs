//! The egress queues: one a port, first in first out, with a limit.

use std::collections::VecDeque;

use tributary_dataplane::Instance;

use crate::config::{PORT_COUNT, SwitchConfig};
use crate::pool::Slot;
use crate::statistics::PortStatistics;

/// A packet in an egress queue.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) slot: Box<Slot>,
    pub(crate) rid: u16,
    pub(crate) instance: Instance,
    pub(crate) enq_time_us: u64,
    /// Packets that were in the queue before it.
    pub(crate) enq_qdepth: u32,
}

/// One port's queue and counts.
#[derive(Debug, Default)]
pub(crate) struct Port {
    queue: VecDeque<Queued>,
    pub(crate) statistics: PortStatistics,
}

/// The queues of all ports.
#[derive(Debug)]
pub(crate) struct Queues {
    ports: Vec<Option<Port>>,
    limit: usize,
}

/// Whether a queue takes another packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Room {
    Yes,
    /// The queue is full; this has been counted.
    Full,
    NoSuchPort,
}

impl Queues {
    pub(crate) fn new(config: &SwitchConfig) -> Self {
        let mut ports: Vec<Option<Port>> = (0..PORT_COUNT).map(|_| None).collect();
        for &port in config.ports.iter().chain([&config.cpu_port]) {
            if let Some(place) = ports.get_mut(usize::from(port)) {
                *place = Some(Port::default());
            }
        }
        Self { ports, limit: config.queue_limit }
    }

    pub(crate) fn port(&self, port: u16) -> Option<&Port> {
        self.ports.get(usize::from(port))?.as_ref()
    }

    pub(crate) fn port_mut(&mut self, port: u16) -> Option<&mut Port> {
        self.ports.get_mut(usize::from(port))?.as_mut()
    }

    /// Asked before a packet is copied, so that a full queue costs nothing. Counts the drop.
    pub(crate) fn room(&mut self, port: u16) -> Room {
        let limit = self.limit;
        match self.port_mut(port) {
            None => Room::NoSuchPort,
            Some(port) if port.queue.len() >= limit => {
                port.statistics.queue_drops += 1;
                Room::Full
            }
            Some(_) => Room::Yes,
        }
    }

    /// Appends a packet to a queue that has room.
    pub(crate) fn push(
        &mut self,
        port: u16,
        slot: Box<Slot>,
        rid: u16,
        instance: Instance,
        now_us: u64,
    ) {
        let port = self.port_mut(port).expect("room was asked for");
        let enq_qdepth = port.queue.len() as u32;
        port.queue.push_back(Queued { slot, rid, instance, enq_time_us: now_us, enq_qdepth });
        port.statistics.max_depth = port.statistics.max_depth.max(port.queue.len());
    }

    /// Takes the first packet out, with the number of packets that stay behind it.
    pub(crate) fn pop(&mut self, port: u16) -> Option<(Queued, u32)> {
        let port = self.port_mut(port)?;
        let queued = port.queue.pop_front()?;
        Some((queued, port.queue.len() as u32))
    }

    /// Takes every packet out of every queue.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Queued> {
        self.ports.iter_mut().flatten().flat_map(|port| port.queue.drain(..))
    }
}

impl Port {
    pub(crate) fn depth(&self) -> usize {
        self.queue.len()
    }
}
