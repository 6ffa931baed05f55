//! A model of an ATP switch as endpoints see it. The real program is P4 and is tested elsewhere.
//! The model provides the endpoints with partial sums, collisions and abandoned aggregators.

use std::time::Duration;

use tributary_protocol::Time;
use tributary_wire::agg::{Packet, Repr};
use tributary_wire::{Bitmap, Ecn, Envelope, Flags, JobId, Kind, Sequence, emit_frame, values};

/// Time after which another task takes over an idle aggregator.
const IDLE: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
struct Cell {
    task: (JobId, Sequence),
    bitmap: Bitmap,
    sums: Vec<i32>,
    marked: bool,
    used: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) absorbed: u64,
    pub(crate) completed: u64,
    pub(crate) duplicates: u64,
    pub(crate) collisions: u64,
    pub(crate) takeovers: u64,
    pub(crate) flushed: u64,
    pub(crate) freed: u64,
    pub(crate) refused: u64,
}

pub(crate) struct ModelSwitch {
    cells: Vec<Option<Cell>>,
    pub(crate) counters: Counters,
}

/// The outcome for a frame.
pub(crate) enum Fate {
    Absorbed,
    /// Sent towards the PS.
    Up(Vec<u8>),
    /// Sent towards the addressed workers.
    Down(Vec<u8>),
}

fn emit(packet: &Packet<&[u8]>, repr: Repr, sums: &[i32], mark: bool) -> Vec<u8> {
    let mut envelope: Envelope = packet.envelope();
    if mark {
        envelope.ecn = Ecn::CongestionExperienced;
    }
    let mut frame = Vec::new();
    values::write_i32(emit_frame(&mut frame, &envelope, &repr), sums);
    frame
}

fn add(sums: &mut [i32], packet: &Packet<&[u8]>) {
    for (sum, value) in sums.iter_mut().zip(packet.values_i32()) {
        *sum = sum.wrapping_add(value);
    }
}

impl ModelSwitch {
    pub(crate) fn new(pool: u32) -> Self {
        Self { cells: vec![None; pool as usize], counters: Counters::default() }
    }

    /// `unit` is the set of workers that may send through the port, `members` the set of workers
    /// below this switch.
    pub(crate) fn process(
        &mut self,
        now: Time,
        packet: &Packet<&[u8]>,
        unit: Bitmap,
        members: Bitmap,
        from_above: bool,
        mark: bool,
    ) -> Fate {
        let words: Vec<i32> = packet.values_i32().collect();
        let as_it_is = emit(packet, *packet.repr(), &words, mark);
        match packet.kind() {
            Kind::Gradient if packet.bitmap().is_subset(unit) => {
                self.gradient(now, packet, unit, members, as_it_is)
            }
            Kind::Parameter | Kind::Reply if from_above => {
                if self.matching(packet).is_some() {
                    self.counters.freed += 1;
                    self.cells[packet.index().0 as usize] = None;
                }
                Fate::Down(as_it_is)
            }
            Kind::Query if from_above => Fate::Down(as_it_is),
            _ => {
                self.counters.refused += 1;
                Fate::Absorbed
            }
        }
    }

    fn matching(&self, packet: &Packet<&[u8]>) -> Option<&Cell> {
        let cell = self.cells.get(packet.index().0 as usize)?.as_ref()?;
        (cell.task == (packet.job(), packet.sequence())).then_some(cell)
    }

    fn gradient(
        &mut self,
        now: Time,
        packet: &Packet<&[u8]>,
        unit: Bitmap,
        members: Bitmap,
        as_it_is: Vec<u8>,
    ) -> Fate {
        let flags = packet.flags();
        if flags.contains(Flags::OVERFLOW) || flags.contains(Flags::COLLISION) {
            return Fate::Up(as_it_is);
        }
        if flags.contains(Flags::RESEND) {
            return self.resend(packet, as_it_is);
        }
        if packet.bitmap() != unit {
            self.counters.refused += 1;
            return Fate::Absorbed;
        }
        if unit == members {
            return Fate::Up(as_it_is);
        }
        let task = (packet.job(), packet.sequence());
        let Some(place) = self.cells.get_mut(packet.index().0 as usize) else {
            self.counters.refused += 1;
            return Fate::Absorbed;
        };
        let fresh = Cell {
            task,
            bitmap: packet.bitmap(),
            sums: packet.values_i32().collect(),
            marked: packet.is_marked(),
            used: now,
        };
        match place {
            None => {
                *place = Some(fresh);
                self.counters.absorbed += 1;
                Fate::Absorbed
            }
            Some(cell) if cell.task != task && now - cell.used > IDLE => {
                *cell = fresh;
                self.counters.takeovers += 1;
                Fate::Absorbed
            }
            Some(cell) if cell.task != task => {
                self.counters.collisions += 1;
                let repr = Repr { flags: flags | Flags::COLLISION, ..*packet.repr() };
                Fate::Up(emit(packet, repr, &fresh.sums, packet.is_marked()))
            }
            Some(cell) => {
                cell.used = now;
                if !packet.bitmap().is_disjoint(cell.bitmap) {
                    self.counters.duplicates += 1;
                    return Fate::Absorbed;
                }
                add(&mut cell.sums, packet);
                cell.bitmap |= packet.bitmap();
                cell.marked |= packet.is_marked();
                if cell.bitmap != members {
                    self.counters.absorbed += 1;
                    return Fate::Absorbed;
                }
                self.counters.completed += 1;
                let repr = Repr {
                    bitmap: cell.bitmap,
                    flags: if cell.marked { flags | Flags::ECN } else { flags },
                    ..*packet.repr()
                };
                Fate::Up(emit(packet, repr, &cell.sums, false))
            }
        }
    }

    fn resend(&mut self, packet: &Packet<&[u8]>, as_it_is: Vec<u8>) -> Fate {
        let Some(mut cell) = self.matching(packet).cloned() else {
            return Fate::Up(as_it_is);
        };
        self.cells[packet.index().0 as usize] = None;
        self.counters.flushed += 1;
        if packet.bitmap().is_disjoint(cell.bitmap) {
            add(&mut cell.sums, packet);
            cell.bitmap |= packet.bitmap();
        }
        let mut repr = *packet.repr();
        repr.bitmap = cell.bitmap;
        if cell.marked || packet.is_marked() {
            repr.flags |= Flags::ECN;
        }
        Fate::Up(emit(packet, repr, &cell.sums, false))
    }
}
