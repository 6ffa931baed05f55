//! Dividing a program's packets between cores, so that no two cores access the same register row.
//!
//! A program can be divided if it accesses all its registers at the same index, and that index is a
//! field of the arriving packet, as the index of an aggregator is. The field then names the core.
//! What packets only add to (counters) each core has for itself. The cores share the meters of table
//! entries. Other state that packets change (arrays of meters, filters, registers and ages of entries, digests that wait for
//! others) would have to be shared, too.

use std::collections::{BTreeSet, HashMap};

use crate::code::{Code, ExternOp, Op, Pc};
use crate::control_flow::successors;
use crate::effects::{reachable, written};
use crate::externs::register::Registers;
use crate::slot::Slot;

/// Low bits of a row's index that do not matter for the core to which it belongs. Neighbouring rows
/// belong together, about as many as a super-frame has datagrams.
pub const ROW_BITS: u32 = 6;

/// Why a program's packets cannot be divided between cores.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Undivided {
    /// Its index is not always the same field of the arriving packet as that of other registers.
    #[error("register `{0}` is not always accessed at an index that the packet arrived with")]
    Register(String),
    /// Each core parses the packets that it then hands over.
    #[error("its parser counts packets or accesses registers")]
    Parser,
    /// A meter's state depends on the packets of all cores.
    #[error("`{0}` is an array of meters")]
    Meter(String),
    /// State that depends on the packets of all cores.
    #[error("the state of `{0}` depends on all packets")]
    State(String),
    /// A digest list collects the digests of all packets.
    #[error("it sends digests `{0}`")]
    Digest(String),
    /// The age of an entry depends on the packets of all cores.
    #[error("entries of table `{0}` can have an idle timeout")]
    Ages(String),
}

/// A core's part of the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    pub(crate) core: u16,
    /// Number of cores, at least one.
    pub(crate) of: u16,
    pub(crate) by: By,
}

/// What names a packet's core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// A field, with the register row.
    Field(Slot),
    /// Where it arrived.
    Arrival,
    /// Nothing: all packets belong to core 0.
    First,
}

impl Share {
    /// All packets.
    pub(crate) const ALL: Self = Self { core: 0, of: 1, by: By::Arrival };

    /// The core to which a register row belongs.
    pub(crate) fn owner(&self, row: u64) -> u16 {
        match self.by {
            By::Field(_) => ((row >> ROW_BITS) % u64::from(self.of)) as u16,
            By::Arrival | By::First => 0,
        }
    }

    /// The core to which a parsed packet belongs, if it is another one.
    #[inline]
    pub(crate) fn elsewhere(&self, state: &[u64]) -> Option<u16> {
        let owner = match self.by {
            By::Arrival => return None,
            By::Field(field) => self.owner(state[field as usize]),
            By::First => 0,
        };
        (owner != self.core).then_some(owner)
    }
}

/// Whether a block changes more than the packet: registers, or counts.
pub(crate) fn changes_state(code: &Code, entry: Pc) -> bool {
    reachable(code, entry).into_iter().any(|pc| match code.ops[pc as usize] {
        Op::RegisterRead { .. }
        | Op::CellRead { .. }
        | Op::RegisterWrite { .. }
        | Op::RegisterRun(_)
        | Op::Count { .. }
        | Op::Apply { .. } => true,
        Op::Extern(number) => {
            let op = &code.externs[number as usize];
            matches!(op, ExternOp::CountAt { .. } | ExternOp::MeterAt { .. })
        }
        _ => false,
    })
}

/// The field of the arriving packet at which all registers are accessed. `first` are the blocks
/// that run in turn on a parsed packet, and `later` those that run after other packets may have.
///
/// # Errors
/// The number of a register that is also accessed elsewhere.
pub(crate) fn key(
    code: &Code,
    registers: &Registers,
    first: &[Pc],
    later: &[Pc],
) -> Result<Option<Slot>, u32> {
    let mut refused = None;
    let fields = code.headers.iter().flat_map(|header| header.first..header.first + header.words);
    for field in fields {
        let mut flow = Flow { code, registers, known: HashMap::new(), accesses: 0 };
        match flow.blocks(field, first, later) {
            Ok(()) if flow.accesses > 0 => return Ok(Some(field)),
            // No register is ever accessed.
            Ok(()) => return Ok(None),
            // Report the field that satisfies most accesses: the program most likely means it.
            Err(register) => refused = refused.max(Some((flow.accesses, register))),
        }
    }
    refused.map_or(Ok(None), |(_, register)| Err(register))
}

/// Slots that hold the value with which the packet arrived.
type Held = BTreeSet<Slot>;

/// Follows one field through a program.
struct Flow<'c> {
    code: &'c Code,
    registers: &'c Registers,
    /// What blocks leave, by entry and what they find; `None` if they never return.
    known: HashMap<(Pc, Held), Option<Held>>,
    /// Accesses to registers that were followed, all at the field.
    accesses: u32,
}

impl Flow<'_> {
    fn blocks(&mut self, field: Slot, first: &[Pc], later: &[Pc]) -> Result<(), u32> {
        let mut held = Held::from([field]);
        for &entry in first {
            let returned = self.run(entry, &held)?.unwrap_or_default();
            // A block may also end anywhere, by `exit`, and the next one runs even so.
            held = returned.intersection(&self.untouched(entry, held)).copied().collect();
        }
        for &entry in later {
            self.run(entry, &Held::new())?;
        }
        Ok(())
    }

    /// The slots that nothing in a block writes.
    fn untouched(&self, entry: Pc, mut held: Held) -> Held {
        for pc in reachable(self.code, entry) {
            let op = &self.code.ops[pc as usize];
            written(self.code, self.registers, op, |first, words| lose(&mut held, first, words));
        }
        held
    }

    /// Follows a block to its returns. Fails at a register that is accessed at another index.
    fn run(&mut self, entry: Pc, held: &Held) -> Result<Option<Held>, u32> {
        let place = (entry, held.clone());
        if let Some(known) = self.known.get(&place) {
            return Ok(known.clone());
        }
        let mut before: HashMap<Pc, Held> = HashMap::from([(entry, held.clone())]);
        let mut left: Option<Held> = None;
        let mut open = vec![entry];
        while let Some(pc) = open.pop() {
            let code = self.code;
            let op = &code.ops[pc as usize];
            let mut held = before[&pc].clone();
            self.check(op, &held)?;
            match *op {
                Op::Return => {
                    join(&mut left, &held);
                    continue;
                }
                Op::Call(to) => match self.run(to, &held)? {
                    Some(after) => held = after,
                    None => continue,
                },
                Op::Apply { table, .. } | Op::ApplyPicked { table } => {
                    self.write(op, &mut held);
                    let mut after = None;
                    for action in &code.tables[table as usize].actions {
                        if let Some(left) = self.run(action.entry, &held)? {
                            join(&mut after, &left);
                        }
                    }
                    // On a miss without a default action, nothing runs.
                    join(&mut after, &held);
                    held = after.unwrap_or_default();
                }
                _ => self.write(op, &mut held),
            }
            for next in successors(op, pc) {
                let known = before.get(&next);
                let mut joined = known.cloned();
                join(&mut joined, &held);
                if joined.as_ref() != known {
                    before.insert(next, joined.unwrap_or_default());
                    open.push(next);
                }
            }
        }
        self.known.insert(place, left.clone());
        Ok(left)
    }

    fn check(&mut self, op: &Op, held: &Held) -> Result<(), u32> {
        let (register, index) = match *op {
            Op::RegisterRead { register, index, .. }
            | Op::CellRead { register, index, .. }
            | Op::RegisterWrite { register, index, .. } => (register, index),
            Op::RegisterRun(run) => {
                let run = &self.code.runs[run as usize];
                (run.register, run.index)
            }
            _ => return Ok(()),
        };
        if !held.contains(&index) {
            return Err(register);
        }
        self.accesses += 1;
        Ok(())
    }

    /// Updates `held` for what an operation writes, except for actions and calls.
    fn write(&self, op: &Op, held: &mut Held) {
        let kept: Vec<Slot> = match *op {
            Op::Move { dst, src } if held.contains(&src) => vec![dst],
            Op::Copy { dst, src, words } => {
                let copies = (dst..).zip(src..).take(words as usize);
                copies.filter(|(_, src)| held.contains(src)).map(|(dst, _)| dst).collect()
            }
            _ => Vec::new(),
        };
        written(self.code, self.registers, op, |first, words| lose(held, first, words));
        held.extend(kept);
    }
}

fn lose(held: &mut Held, first: Slot, words: u32) {
    held.retain(|slot| !(first..first.saturating_add(words)).contains(slot));
}

/// Where two paths meet, a slot holds the value if it does on both.
fn join(held: &mut Option<Held>, other: &Held) {
    match held {
        Some(held) => held.retain(|slot| other.contains(slot)),
        None => *held = Some(other.clone()),
    }
}
