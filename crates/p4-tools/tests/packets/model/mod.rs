//! The rules of the protocols' pages in docs/concepts as a program with a very different structure
//! from the P4 source: a map of cells, and a match on the state that a packet finds. Idle cells are
//! never taken over, and no packet passes between the passes of another.

mod esa;
mod rounds;

use std::collections::BTreeMap;

pub(crate) use rounds::Service;

use crate::frames::{
    ABSENT, ALL_BUT, ARP, ASYNCHRONOUS, AUDIENCE, BITMAP, COLLISION, CONGESTED, EPOCH, GRADIENT,
    HEADERS, INDEX, IPV4, IPV6, MARKED, OVERFLOW, PARAMETER, QUERY, RACK, REMINDER, REPLY, RESEND,
    SEQUENCE, SWEEP, TUNNEL_PORTS, TUNNELS, internet_checksum,
};
use crate::lab::Outcome::{self, *};
use crate::lab::{NO_JOB, index};
use crate::target::{Build, Counts, Evictions, Program};

/// An entry of `memberships`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Part {
    pub(crate) unit: u32,
    pub(crate) members: u32,
    /// The positions of a whole sum.
    pub(crate) upward: u32,
    pub(crate) group: u16,
    pub(crate) slot: u8,
    pub(crate) transit: bool,
    /// Reminders for the switch of `members`.
    pub(crate) reminded: bool,
}

/// Job, epoch, ingress port, kind and rack.
pub(crate) type Membership = (u16, u32, u16, u8, u8);

/// A prefix, its length, and port, source and destination of the next hop.
type Route = (u32, u32, u16, u64, u64);

struct Cell {
    /// Epoch and sequence.
    task: (u32, u32),
    bitmap: u32,
    sums: Vec<i32>,
    marked: bool,
    /// ESA's priority.
    priority: u8,
}

pub(crate) struct Model {
    build: Build,
    pub(crate) parts: BTreeMap<Membership, Part>,
    pub(crate) hosts: BTreeMap<u64, u16>,
    pub(crate) own: Vec<u64>,
    pub(crate) routes: Vec<Route>,
    pub(crate) groups: BTreeMap<u16, Vec<u16>>,
    /// The circuits of flows, by job and port.
    pub(crate) circuits: BTreeMap<(u16, u16), u16>,
    /// The circuit of the frame, unless it turns back.
    circuit: Option<u16>,
    cells: BTreeMap<u32, Cell>,
    pub(crate) counts: Counts,
    /// How much longer the frame is than it came: zeros were added.
    filled: usize,
    /// By epoch: the job, the rack of its packets here, and the addresses of its parameter server.
    pub(crate) servers: BTreeMap<u32, (u16, u8, u64, u32)>,
    pub(crate) evictions: Evictions,
    /// Entries of P4INC and SwitchML, by job and service.
    pub(crate) services: BTreeMap<(u16, u8), Service>,
    places: BTreeMap<u32, rounds::Place>,
}

/// Frames and their ports.
type Out = Vec<(u16, Vec<u8>)>;

fn field<const N: usize>(frame: &[u8], at: usize) -> [u8; N] {
    frame[at..at + N].try_into().expect("the length was checked")
}

fn half(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(field(frame, at))
}

fn word(frame: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(field(frame, at))
}

fn address(frame: &[u8], at: usize) -> u64 {
    frame[at..at + 6].iter().fold(0, |address, byte| address << 8 | u64::from(*byte))
}

/// The classification of a frame by its headers.
enum Sort {
    Plain,
    Barred,
    Malformed,
    Aggregation,
}

impl Model {
    pub(crate) fn new(build: Build) -> Self {
        Self {
            build,
            parts: BTreeMap::new(),
            hosts: BTreeMap::new(),
            own: Vec::new(),
            routes: Vec::new(),
            groups: BTreeMap::new(),
            circuits: BTreeMap::new(),
            circuit: None,
            cells: BTreeMap::new(),
            counts: Counts::new(),
            filled: 0,
            servers: BTreeMap::new(),
            evictions: Evictions::new(),
            services: BTreeMap::new(),
            places: BTreeMap::new(),
        }
    }

    /// The output of the switch for a frame.
    pub(crate) fn pass(&mut self, port: u16, frame: &[u8]) -> Out {
        let mut frame = frame.to_vec();
        let out = match self.sort(&frame) {
            Sort::Malformed => self.gone(NO_JOB, Malformed, &frame),
            Sort::Barred => self.gone(NO_JOB, Barred, &frame),
            Sort::Plain => self.forward(NO_JOB, Forwarded, port, frame),
            Sort::Aggregation if frame[43] == SWEEP => self.gone(NO_JOB, Rejected, &frame),
            Sort::Aggregation => {
                self.circuit = self.circuits.get(&(half(&frame, 46), port)).copied();
                let key = (half(&frame, 46), word(&frame, EPOCH), port, frame[43], frame[RACK]);
                match self.parts.get(&key).copied() {
                    None => self.gone(NO_JOB, Rejected, &frame),
                    Some(part) if self.build.program.has_rounds() => self.rounds(part, port, frame),
                    Some(part) if part.transit => self.forward(part.slot, Bypassed, port, frame),
                    Some(part) if self.build.program == Program::Esa => self.esa(part, port, frame),
                    Some(part) if key.3 == GRADIENT => self.gradient(part, port, &mut frame),
                    Some(part) => self.result(part, port, frame),
                }
            }
        };
        (self.filled, self.circuit) = (0, None);
        out
    }

    /// A sweep of all cells for a run. Returns how many it frees.
    pub(crate) fn sweep(&mut self, epoch: u32) -> u32 {
        let before = self.cells.len();
        self.cells.retain(|_, cell| cell.task.0 != epoch);
        for _ in 0..self.build.pool {
            self.count(NO_JOB, Swept, HEADERS);
        }
        (before - self.cells.len()) as u32
    }

    fn sort(&self, frame: &[u8]) -> Sort {
        if frame.len() < 14 {
            return Sort::Malformed;
        }
        match half(frame, 12) {
            IPV4 => {}
            ARP | IPV6 => return Sort::Plain,
            _ => return Sort::Barred,
        }
        if frame.len() < 34 {
            return Sort::Malformed;
        }
        let header = &frame[14..34];
        if header[0] == 0x45 {
            let mut zeroed = header.to_vec();
            zeroed[10..12].fill(0);
            if internet_checksum(&zeroed) != half(header, 10) {
                return Sort::Malformed;
            }
        }
        let whole = header[0] == 0x45 && half(header, 6) & 0x3fff == 0;
        match header[9] {
            _ if header[0] >> 4 != 4 => return Sort::Barred,
            17 if !whole => return Sort::Barred,
            17 => {}
            protocol if TUNNELS.contains(&protocol) => return Sort::Barred,
            _ => return Sort::Plain,
        }
        if frame.len() < 42 {
            return Sort::Malformed;
        }
        match half(frame, 36) {
            29810 => {}
            port if TUNNEL_PORTS.contains(&port) => return Sort::Barred,
            _ => return Sort::Plain,
        }
        if frame.len() < HEADERS || half(frame, 40) != 0 {
            return Sort::Malformed;
        }
        let values = match frame[43] {
            GRADIENT | PARAMETER | REPLY | REMINDER | ABSENT => self.build.values,
            ASYNCHRONOUS if frame[42] == Program::P4inc.protocol() => self.build.values,
            QUERY | SWEEP => 0,
            _ => return Sort::Malformed,
        };
        // A contribution may be for some only, and one of zeros may lack them then.
        let for_some = frame[43] == GRADIENT && self.build.program.has_rounds();
        let for_some = for_some && frame[AUDIENCE] != 0;
        let gathered = for_some && frame[AUDIENCE] & ALL_BUT != 0;
        let values = if gathered && half(frame, 48) == 0 { 0 } else { values };
        let datagram = 36 + 4 * values;
        let agree = usize::from(half(frame, 48)) == values
            && usize::from(half(frame, 38)) == datagram
            && usize::from(half(frame, 16)) == 20 + datagram
            && frame.len() >= HEADERS + 4 * values;
        let known = frame[42] == self.build.program.protocol()
            && frame[44] & 0xf0 == 0
            && (frame[AUDIENCE] == 0 || for_some)
            && frame[AUDIENCE + 1..INDEX].iter().all(|byte| *byte == 0);
        if agree && known && word(frame, INDEX) < self.build.pool {
            Sort::Aggregation
        } else {
            Sort::Malformed
        }
    }

    fn gradient(&mut self, part: Part, port: u16, frame: &mut [u8]) -> Out {
        let bitmap = word(frame, BITMAP);
        let own = bitmap != 0 && bitmap & part.unit == bitmap;
        let flags = frame[44];
        if flags & (COLLISION | OVERFLOW) != 0 {
            return match own {
                true => self.forward(part.slot, Bypassed, port, frame.to_vec()),
                false => self.gone(part.slot, Malformed, frame),
            };
        }
        if flags & RESEND != 0 {
            return match own {
                true => self.resend(part, port, frame),
                false => self.gone(part.slot, Malformed, frame),
            };
        }
        if bitmap != part.unit {
            return self.gone(part.slot, Malformed, frame);
        }
        if part.unit == part.members {
            return self.forward(part.slot, Bypassed, port, frame.to_vec());
        }
        self.fresh(part, port, frame)
    }

    fn fresh(&mut self, part: Part, port: u16, frame: &mut [u8]) -> Out {
        let (task, place, bitmap) = key(frame);
        let values = self.values(frame);
        let marked = is_marked(frame);
        let Some(cell) = self.cells.get_mut(&place) else {
            self.cells.insert(place, Cell { task, bitmap, sums: values, marked, priority: 0 });
            return self.gone(part.slot, Absorbed, frame);
        };
        if cell.task != task {
            frame[44] |= COLLISION | if marked { MARKED } else { 0 };
            return self.forward(part.slot, Collided, port, frame.to_vec());
        }
        let twice = cell.bitmap & bitmap != 0;
        // Only differs from the old value if units overlap, which no controller writes.
        cell.bitmap |= bitmap;
        if twice {
            return self.gone(part.slot, Duplicate, frame);
        }
        add(&mut cell.sums, &values);
        cell.marked |= marked;
        if cell.bitmap != part.members {
            return self.gone(part.slot, Added, frame);
        }
        write(frame, part.upward, &cell.sums, cell.marked);
        frame[RACK] = 0;
        self.forward(part.slot, Completed, port, frame.to_vec())
    }

    fn resend(&mut self, part: Part, port: u16, frame: &mut [u8]) -> Out {
        let (task, place, bitmap) = key(frame);
        let marked = is_marked(frame);
        let mut values = self.values(frame);
        if self.cells.get(&place).is_none_or(|cell| cell.task != task) {
            write(frame, bitmap, &values, marked);
            return self.forward(part.slot, Resent, port, frame.to_vec());
        }
        let cell = self.cells.remove(&place).expect("just seen");
        if cell.bitmap & bitmap == 0 {
            add(&mut values, &cell.sums);
        } else {
            values = cell.sums;
        }
        write(frame, cell.bitmap | bitmap, &values, marked | cell.marked);
        self.forward(part.slot, Flushed, port, frame.to_vec())
    }

    fn result(&mut self, part: Part, port: u16, mut frame: Vec<u8>) -> Out {
        if frame[44] & RESEND != 0 {
            return self.gone(part.slot, Malformed, &frame);
        }
        if frame[43] == QUERY {
            return self.forward(part.slot, Queried, port, frame);
        }
        let (task, place, _) = key(&frame);
        if self.cells.get(&place).is_some_and(|cell| cell.task == task) {
            self.cells.remove(&place);
        }
        if frame[43] == PARAMETER {
            self.count(part.slot, Distributed, frame.len());
            return self.multicast(part.group, port, &frame);
        }
        if is_marked(&frame) {
            frame[44] |= MARKED;
        }
        self.forward(part.slot, Replied, port, frame)
    }

    fn gone(&mut self, slot: u8, outcome: Outcome, frame: &[u8]) -> Out {
        self.count(slot, outcome, frame.len());
        Vec::new()
    }

    fn count(&mut self, slot: u8, outcome: Outcome, bytes: usize) {
        let count = self.counts.entry(index(slot, outcome)).or_default();
        count.packets += 1;
        count.bytes += (bytes - self.filled) as i64;
    }

    fn forward(&mut self, slot: u8, outcome: Outcome, port: u16, mut frame: Vec<u8>) -> Out {
        self.count(slot, outcome, frame.len());
        if let Some(circuit) = self.circuit {
            return vec![(circuit, frame)];
        }
        let destination = address(&frame, 0);
        if !self.own.contains(&destination) {
            return match self.hosts.get(&destination) {
                Some(to) => vec![(*to, frame)],
                None => self.multicast(crate::entries::FLOOD, port, &frame),
            };
        }
        if half(&frame, 12) != IPV4 || frame[22] <= 1 {
            return Vec::new();
        }
        let to = word(&frame, 30);
        let fits = |route: &&Route| {
            to.checked_shr(32 - route.1).unwrap_or(0)
                == route.0.checked_shr(32 - route.1).unwrap_or(0)
        };
        let Some(route) = self.routes.iter().filter(fits).max_by_key(|route| route.1) else {
            return Vec::new();
        };
        frame[..6].copy_from_slice(&route.4.to_be_bytes()[2..]);
        frame[6..12].copy_from_slice(&route.3.to_be_bytes()[2..]);
        frame[22] -= 1;
        frame[24..26].fill(0);
        let checksum = internet_checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        vec![(route.2, frame)]
    }

    fn multicast(&self, group: u16, from: u16, frame: &[u8]) -> Out {
        let members = self.groups.get(&group).into_iter().flatten();
        let to = members.filter(|port| group != crate::entries::FLOOD || **port != from);
        let mut out: Out = to.map(|port| (*port, frame.to_vec())).collect();
        out.sort_by_key(|(port, _)| *port);
        out
    }

    fn values(&self, frame: &[u8]) -> Vec<i32> {
        let words = (0..self.build.values).map(|i| word(frame, HEADERS + 4 * i));
        words.map(|word| word.cast_signed()).collect()
    }
}

/// Task, cell and bitmap.
fn key(frame: &[u8]) -> ((u32, u32), u32, u32) {
    ((word(frame, EPOCH), word(frame, SEQUENCE)), word(frame, INDEX), word(frame, BITMAP))
}

fn is_marked(frame: &[u8]) -> bool {
    frame[15] & 3 == CONGESTED || frame[44] & MARKED != 0
}

fn add(sums: &mut [i32], values: &[i32]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = sum.wrapping_add(*value);
    }
}

fn write(frame: &mut [u8], bitmap: u32, values: &[i32], marked: bool) {
    frame[BITMAP..BITMAP + 4].copy_from_slice(&bitmap.to_be_bytes());
    for (i, value) in values.iter().enumerate() {
        frame[HEADERS + 4 * i..][..4].copy_from_slice(&value.to_be_bytes());
    }
    if marked {
        frame[44] |= MARKED;
    }
}
