//! What operations read and write, and what follows from it.

use std::collections::BTreeSet;

use crate::code::{Code, ExternOp, Op, Pc, RunKind};
use crate::control_flow::successors;
use crate::externs::register::Registers;
use crate::slot::{Item, Slot};

/// The operations of a block with those of the actions that it may run.
pub(crate) fn reachable(code: &Code, entry: Pc) -> BTreeSet<Pc> {
    let (mut open, mut seen) = (vec![entry], BTreeSet::new());
    while let Some(pc) = open.pop() {
        if !seen.insert(pc) {
            continue;
        }
        let op = &code.ops[pc as usize];
        match *op {
            Op::Call(to) => open.push(to),
            Op::Apply { table, .. } | Op::ApplyPicked { table } => {
                let actions = &code.tables[table as usize].actions;
                open.extend(actions.iter().map(|action| action.entry));
            }
            _ => {}
        }
        open.extend(successors(op, pc));
    }
    seen
}

/// Calls `each` for the first slot and the number of slots that an operation writes, without what
/// the actions that it calls write. An absent result is [`crate::slot::NO_SLOT`].
#[expect(clippy::too_many_lines, reason = "one arm for each kind of operation")]
pub(crate) fn written(
    code: &Code,
    registers: &Registers,
    op: &Op,
    mut each: impl FnMut(Slot, u32),
) {
    let header = |number: u32| &code.headers[number as usize];
    match *op {
        Op::Move { dst, .. }
        | Op::Truncate { dst, .. }
        | Op::SignExtend { dst, .. }
        | Op::Add { dst, .. }
        | Op::Sub { dst, .. }
        | Op::Mul { dst, .. }
        | Op::And { dst, .. }
        | Op::Or { dst, .. }
        | Op::Xor { dst, .. }
        | Op::Not { dst, .. }
        | Op::Shl { dst, .. }
        | Op::Shr { dst, .. }
        | Op::Eq { dst, .. }
        | Op::Ne { dst, .. }
        | Op::Lt { dst, .. }
        | Op::Le { dst, .. }
        | Op::SignedLt { dst, .. }
        | Op::SignedLe { dst, .. }
        | Op::Select { dst, .. }
        | Op::Slice { dst, .. }
        | Op::Insert { dst, .. }
        | Op::Concat { dst, .. } => each(dst, 1),
        Op::Copy { dst, words, .. } => each(dst, words),
        Op::Wide(number) => {
            let Item { slot, width } = code.wides[number as usize].dst;
            each(slot, width.div_ceil(64));
        }
        Op::Apply { table, .. } | Op::ApplyPicked { table } => {
            if let Op::Apply { hit, action, .. } = *op {
                each(hit, 1);
                each(action, 1);
            }
            let actions = &code.tables[table as usize].actions;
            actions.iter().for_each(|action| each(action.params, action.words));
        }
        Op::Extract(number)
        | Op::ExtractVarbit { header: number, .. }
        | Op::SetValid(number)
        | Op::CopyHeader { to: number, .. } => {
            each(header(number).valid, 1);
            each(header(number).first, header(number).words);
        }
        Op::SetInvalid(number) => each(header(number).valid, 1),
        Op::Lookahead(number) => {
            code.lookaheads[number as usize].slots().for_each(|(slot, count)| each(slot, count));
        }
        Op::LoadElement { dst, element, .. } => each(dst, code.elements[element as usize].words),
        Op::StoreElement { element, .. } => {
            let element = &code.elements[element as usize];
            element.slots.iter().for_each(|&slot| each(slot, element.words));
        }
        Op::RegisterRead { dst, register, .. } | Op::CellRead { dst, register, .. } => {
            each(dst, registers.registers[register as usize].width.div_ceil(64));
        }
        Op::RegisterRun(number) => {
            let run = &code.runs[number as usize];
            if run.kind != RunKind::Write {
                each(run.slot, run.count);
            }
            if let RunKind::Add { sum } = run.kind {
                each(sum, 1);
            }
        }
        Op::Extern(number) => written_by_extern(&code.externs[number as usize], each),
        Op::Jump(_)
        | Op::JumpIf { .. }
        | Op::JumpUnless { .. }
        | Op::JumpEq { .. }
        | Op::JumpNe { .. }
        | Op::JumpMaskedNe { .. }
        | Op::JumpOutside { .. }
        | Op::Call(_)
        | Op::Return
        | Op::Exit
        | Op::Fail { .. }
        | Op::Tick(_)
        | Op::Advance { .. }
        | Op::Emit(_)
        | Op::RegisterWrite { .. }
        | Op::Count { .. }
        | Op::Note(_) => {}
    }
}

fn written_by_extern(op: &ExternOp, mut each: impl FnMut(Slot, u32)) {
    match *op {
        ExternOp::Hash { dst, width, .. }
        | ExternOp::Random { dst, width, .. }
        | ExternOp::MathUnit { dst, width, .. }
        | ExternOp::Digest { dst, width, .. }
        | ExternOp::Meter { dst, width, .. }
        | ExternOp::UpdateChecksum { checksum: dst, width, .. } => each(dst, width.div_ceil(64)),
        ExternOp::VerifyChecksum { error: slot, .. }
        | ExternOp::Truncate { limit: slot, .. }
        | ExternOp::Assert { failed: slot, .. }
        | ExternOp::ChecksumAdd { sum: slot, .. }
        | ExternOp::DigestAdd { digest: slot, .. }
        | ExternOp::ChecksumGet { dst: slot, .. }
        | ExternOp::ChecksumRest { dst: slot, .. }
        | ExternOp::Consumed { dst: slot }
        | ExternOp::Contains { dst: slot, .. }
        | ExternOp::MeterAt { dst: slot, .. }
        | ExternOp::Filter { dst: slot, .. }
        | ExternOp::Learn { request: slot, .. } => each(slot, 1),
        ExternOp::Resubmit { flag, data, .. } => {
            each(flag, 1);
            each(data, 1);
        }
        ExternOp::CellLoad { ref cells, .. } => {
            cells.iter().for_each(|cell| each(cell.slot, cell.width.div_ceil(64)));
        }
        ExternOp::Log { .. }
        | ExternOp::CountAt { .. }
        | ExternOp::CellStore { .. }
        | ExternOp::Mirror { .. }
        | ExternOp::Pack { .. } => {}
    }
}

/// Slots that operations read or write.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) slots: Vec<(Slot, u32)>,
}

impl Touched {
    pub(crate) fn item(&mut self, item: Item) {
        self.slots.push((item.slot, item.width.div_ceil(64)));
    }

    fn words(&mut self, slots: &[Slot]) {
        self.slots.extend(slots.iter().map(|&slot| (slot, 1)));
    }

    /// Whether one of them is among `count` slots from `first` on.
    pub(crate) fn any(&self, first: Slot, count: u32) -> bool {
        self.slots.iter().any(|&(slot, words)| slot < first + count && first < slot + words)
    }

    /// Adds the slots of an operation; `None` if they are unknown, or if it does more than to
    /// change slots and to emit.
    #[rustfmt::skip]
    pub(crate) fn by(&mut self, code: &Code, op: &Op) -> Option<()> {
        match *op {
            Op::Jump(_) | Op::Return | Op::Exit | Op::Tick(_) => {}
            Op::Move { dst, src } | Op::Truncate { dst, src, .. } | Op::SignExtend { dst, src, .. }
            | Op::Slice { dst, src, .. } | Op::Insert { dst, src, .. } => self.words(&[dst, src]),
            Op::Copy { dst, src, words } => self.slots.extend([(dst, words), (src, words)]),
            Op::Not { dst, a, .. } => self.words(&[dst, a]),
            Op::Add { dst, a, b, .. } | Op::Sub { dst, a, b, .. } | Op::Mul { dst, a, b, .. }
            | Op::And { dst, a, b } | Op::Or { dst, a, b } | Op::Xor { dst, a, b }
            | Op::Shl { dst, a, b, .. } | Op::Shr { dst, a, b }
            | Op::Eq { dst, a, b } | Op::Ne { dst, a, b }
            | Op::Lt { dst, a, b } | Op::Le { dst, a, b }
            | Op::SignedLt { dst, a, b, .. } | Op::SignedLe { dst, a, b, .. }
            | Op::Concat { dst, a, b, .. } => self.words(&[dst, a, b]),
            Op::Select { dst, c, a, b } => self.words(&[dst, c, a, b]),
            Op::Wide(number) => {
                let wide = &code.wides[number as usize];
                [wide.dst, wide.a, wide.b].into_iter().for_each(|item| self.item(item));
            }
            Op::JumpIf { c, .. } | Op::JumpUnless { c, .. } => self.words(&[c]),
            Op::JumpEq { a, b, .. } | Op::JumpNe { a, b, .. } => self.words(&[a, b]),
            Op::JumpMaskedNe { a, mask, value, .. } => self.words(&[a, mask, value]),
            Op::JumpOutside { a, low, high, .. } => self.words(&[a, low, high]),
            Op::Fail { error } => self.words(&[error]),
            Op::Advance { bits } => self.words(&[bits]),
            Op::Lookahead(number) => self.slots.extend(code.lookaheads[number as usize].slots()),
            Op::LoadElement { dst, index, element } => {
                let element = &code.elements[element as usize];
                self.words(&[index]);
                self.slots.push((dst, element.words));
                self.slots.extend(element.slots.iter().map(|&slot| (slot, element.words)));
            }
            Op::Emit(number) => {
                let header = &code.headers[number as usize];
                self.slots.extend([(header.valid, 1), (header.first, header.words)]);
            }
            Op::Extern(number) => match code.externs[number as usize] {
                ExternOp::UpdateChecksum { condition, checksum, list, .. } => {
                    self.words(&[condition, checksum]);
                    for group in &code.lists[list as usize].groups {
                        // Without a slot, they are no slot of a value.
                        self.words(&[group.valid, group.length]);
                        group.items.iter().for_each(|&item| self.item(item));
                    }
                }
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }
}

/// How the replicas of a packet can share its egress, so that their frame is made once.
///
/// Each replica runs the egress control, which may look at what is different for it: its port, its
/// queue. It then leaves the same frame as another one if both have left the same in `compare`.
#[derive(Clone, Debug)]
pub(crate) struct Sharing {
    /// Slots to restore for the next replica.
    pub(crate) save: Vec<Slot>,
    /// What differs between packets after the egress control, if anything does.
    pub(crate) compare: Vec<Slot>,
}

/// Most slots that are restored after each replica. A copy of the packet is as cheap if egress writes more.
const MOST_SAVED: usize = 64;

impl Sharing {
    /// For a program with these blocks; `None` if what follows its egress control does more than to
    /// write the frame, or looks at what is `different` for each replica. `live` slots are what a
    /// packet brings to egress, and `requests` some that others than the blocks may write.
    pub(crate) fn of(
        code: &Code,
        registers: &Registers,
        egress: Pc,
        then: &[Pc],
        different: &[Slot],
        requests: &[Slot],
        live: usize,
    ) -> Option<Self> {
        let mut touched = Touched::default();
        let mut save: BTreeSet<Slot> = requests.iter().copied().collect();
        let mut compare = BTreeSet::new();
        let slots = |first: Slot, count: u32| first..first.saturating_add(count);
        for &entry in then {
            for pc in reachable(code, entry) {
                let op = &code.ops[pc as usize];
                touched.by(code, op)?;
                written(code, registers, op, |slot, count| save.extend(slots(slot, count)));
            }
        }
        if different.iter().any(|&slot| touched.any(slot, 1)) {
            return None;
        }
        for pc in reachable(code, egress) {
            written(code, registers, &code.ops[pc as usize], |slot, count| {
                save.extend(slots(slot, count));
                compare.extend(slots(slot, count));
            });
        }
        let is_live = |slot: &Slot| (*slot as usize) < live;
        compare.retain(|slot| is_live(slot) || touched.any(*slot, 1));
        save.retain(is_live);
        (save.len() <= MOST_SAVED).then(|| Self {
            save: save.into_iter().collect(),
            compare: compare.into_iter().collect(),
        })
    }
}
