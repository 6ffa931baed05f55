//! The egress queues: one per port, or one per port and priority, first in first out, bounded.

use std::collections::VecDeque;

use tributary_dataplane::{Instance, Packet};

use crate::config::{PORT_COUNT, SwitchConfig};
use crate::multicast::Replica;
use crate::pool::Held;
use crate::statistics::{PortStatistics, SwitchStatistics};
use crate::trace::Loss;

/// A packet in an egress queue.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) held: Held,
    pub(crate) rid: u16,
    pub(crate) origin: Origin,
    pub(crate) enq_time_us: u64,
    /// The queue's depth before it, in the architecture's unit.
    pub(crate) enq_qdepth: u32,
    /// The depth that it adds.
    units: u32,
}

/// How a packet came into a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) instance: Instance,
    /// The first copy with its replication id.
    pub(crate) first: bool,
    /// It was to go to a queue that had no room.
    pub(crate) deflected: bool,
}

impl From<Instance> for Origin {
    fn from(instance: Instance) -> Self {
        Self { instance, ..Self::default() }
    }
}

/// What a queue needs to know of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    priority: u8,
    units: u32,
}

impl Size {
    pub(crate) fn of(packet: &Packet) -> Self {
        Self { priority: packet.priority(), units: packet.queue_units() }
    }
}

/// One queue.
#[derive(Debug, Default)]
struct Queue {
    packets: VecDeque<Queued>,
    /// The queue's depth as programs see it.
    units: u32,
}

/// The queues and counters of a port.
#[derive(Debug)]
pub(crate) struct PortQueues {
    /// By priority, lowest first.
    queues: Box<[Queue]>,
    pub(crate) statistics: PortStatistics,
}

/// The queues of all ports.
#[derive(Debug)]
pub(crate) struct Queues {
    ports: Vec<Option<PortQueues>>,
    /// Ports in `ports` that have no link.
    internal: Vec<u16>,
    limit: usize,
    priorities: usize,
    /// Ports that had no packet before the last [`take_waiting`](Self::take_waiting), by number.
    waiting: [u64; PORT_COUNT.div_ceil(64)],
}

impl Queues {
    pub(crate) fn new(config: &SwitchConfig) -> Self {
        let mut ports: Vec<Option<PortQueues>> = (0..PORT_COUNT).map(|_| None).collect();
        for &port in &config.ports {
            if let Some(place) = ports.get_mut(usize::from(port)) {
                *place = Some(PortQueues::new(config.priority_queues));
            }
        }
        let (limit, priorities) = (config.queue_limit, config.priority_queues);
        Self { ports, internal: Vec::new(), limit, priorities, waiting: Default::default() }
    }

    /// Sets the ports without a link, in addition to those with one, which stay.
    pub(crate) fn set_internal(&mut self, wanted: &[u16]) {
        let (kept, removed): (Vec<_>, Vec<_>) =
            self.internal.iter().copied().partition(|port| wanted.contains(port));
        removed.into_iter().for_each(|port| self.ports[usize::from(port)] = None);
        self.internal = kept;
        for &port in wanted {
            if let Some(place @ None) = self.ports.get_mut(usize::from(port)) {
                *place = Some(PortQueues::new(self.priorities));
                self.internal.push(port);
            }
        }
    }

    pub(crate) fn port(&self, port: u16) -> Option<&PortQueues> {
        self.ports.get(usize::from(port))?.as_ref()
    }

    pub(crate) fn port_mut(&mut self, port: u16) -> Option<&mut PortQueues> {
        self.ports.get_mut(usize::from(port))?.as_mut()
    }

    /// Why a queue does not accept another packet, if so; counted in the statistics. Checked before a packet is
    /// copied, so that a full queue costs nothing.
    pub(crate) fn refusal(
        &mut self,
        port: u16,
        size: Size,
        statistics: &mut SwitchStatistics,
    ) -> Option<Loss> {
        let limit = self.limit;
        let Some(port) = self.port_mut(port) else {
            statistics.no_such_port += 1;
            return Some(Loss::NoSuchPort);
        };
        match port.queues.get(usize::from(size.priority)) {
            None => {
                statistics.no_such_queue += 1;
                Some(Loss::NoSuchQueue)
            }
            Some(queue) if queue.packets.len() >= limit => {
                port.statistics.queue_drops += 1;
                Some(Loss::QueueFull)
            }
            Some(_) => None,
        }
    }

    /// The port for a packet that was refused: the one that is wanted for it, if its own queue was full and this
    /// one has room.
    pub(crate) fn deflection(&self, wanted: Option<u16>, loss: Loss, size: Size) -> Option<u16> {
        let port = wanted.filter(|_| loss == Loss::QueueFull)?;
        let queue = self.port(port)?.queues.get(usize::from(size.priority))?;
        (queue.packets.len() < self.limit).then_some(port)
    }

    /// Appends a packet to a queue that has room.
    pub(crate) fn push(
        &mut self,
        to: Replica,
        held: Held,
        size: Size,
        origin: impl Into<Origin>,
        now_us: u64,
    ) {
        let port = to.port;
        self.waiting[usize::from(port) / 64] |= 1 << (port % 64);
        let port = self.port_mut(port).expect("room was asked for");
        let queue = &mut port.queues[usize::from(size.priority)];
        let (enq_qdepth, units) = (queue.units, size.units);
        queue.units += units;
        queue.packets.push_back(Queued {
            held,
            rid: to.instance,
            origin: origin.into(),
            enq_time_us: now_us,
            enq_qdepth,
            units,
        });
        port.statistics.max_depth = port.statistics.max_depth.max(port.depth());
    }

    /// Removes the first packet of the highest priority. Returns it with the remaining depth.
    pub(crate) fn pop(&mut self, port: u16) -> Option<(Queued, u32)> {
        let mut queues = self.port_mut(port)?.queues.iter_mut().rev();
        let queue = queues.find(|queue| !queue.packets.is_empty())?;
        let queued = queue.packets.pop_front()?;
        queue.units -= queued.units;
        Some((queued, queue.units))
    }

    /// The lowest port to which packets were added since it was last returned.
    pub(crate) fn take_waiting(&mut self) -> Option<u16> {
        let word = self.waiting.iter().position(|word| *word != 0)?;
        let bit = self.waiting[word].trailing_zeros();
        self.waiting[word] &= self.waiting[word] - 1;
        u16::try_from(64 * word as u32 + bit).ok()
    }

    /// Removes all packets from all queues.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Queued> {
        let queues = self.ports.iter_mut().flatten().flat_map(|port| &mut port.queues);
        queues.flat_map(|queue| {
            queue.units = 0;
            queue.packets.drain(..)
        })
    }
}

impl PortQueues {
    fn new(priorities: usize) -> Self {
        let queues = (0..priorities.max(1)).map(|_| Queue::default()).collect();
        Self { queues, statistics: PortStatistics::default() }
    }

    /// Number of packets in all queues.
    pub(crate) fn depth(&self) -> usize {
        self.queues.iter().map(|queue| queue.packets.len()).sum()
    }
}
