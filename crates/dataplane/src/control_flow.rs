//! Control flow of operations.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use crate::code::{Code, Op, Pc};

/// The operations reachable from an entry without a call or a return.
#[derive(Debug)]
pub(crate) struct Region {
    /// In program order.
    pub(crate) ops: Vec<Pc>,
    /// Targets of jumps.
    pub(crate) targets: HashSet<Pc>,
    /// Whether there are no jumps, and a return at the end.
    pub(crate) straight: bool,
}

/// The successors of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// The next one only.
    On,
    /// The target, or the next one.
    Branch(Pc),
    /// The target.
    Jump(Pc),
    /// None within the region.
    Out,
}

pub(crate) fn next(op: &Op) -> Next {
    match *op {
        Op::Jump(to) => Next::Jump(to),
        Op::JumpIf { to, .. }
        | Op::JumpUnless { to, .. }
        | Op::JumpEq { to, .. }
        | Op::JumpNe { to, .. }
        | Op::JumpMaskedNe { to, .. }
        | Op::JumpOutside { to, .. } => Next::Branch(to),
        Op::Return | Op::Exit | Op::Fail { .. } => Next::Out,
        _ => Next::On,
    }
}

/// The target of a jump.
pub(crate) fn target(op: &Op) -> Option<Pc> {
    match next(op) {
        Next::Branch(to) | Next::Jump(to) => Some(to),
        Next::On | Next::Out => None,
    }
}

/// The operations that may follow one, without those that it calls.
pub(crate) fn successors(op: &Op, pc: Pc) -> impl Iterator<Item = Pc> + use<> {
    let (on, to) = match next(op) {
        Next::On => (true, None),
        Next::Branch(to) => (true, Some(to)),
        Next::Jump(to) => (false, Some(to)),
        Next::Out => (false, None),
    };
    on.then_some(pc + 1).into_iter().chain(to)
}

/// Cached facts about a program.
#[derive(Debug)]
pub(crate) struct Analysis<'p> {
    code: &'p Code,
    regions: HashMap<Pc, Rc<Region>>,
    stops: HashMap<Pc, bool>,
}

impl<'p> Analysis<'p> {
    pub(crate) fn new(code: &'p Code) -> Self {
        Self { code, regions: HashMap::new(), stops: HashMap::new() }
    }

    pub(crate) fn region(&mut self, entry: Pc) -> Rc<Region> {
        let code = self.code;
        Rc::clone(self.regions.entry(entry).or_insert_with(|| Rc::new(region(code, entry))))
    }

    /// Whether a block that starts there may also end its caller: by `exit`, or by an error.
    pub(crate) fn stops(&mut self, entry: Pc) -> bool {
        if let Some(&known) = self.stops.get(&entry) {
            return known;
        }
        // The loader has checked that calls are not recursive.
        let region = self.region(entry);
        let stops = region.ops.iter().any(|&pc| match self.code.ops[pc as usize] {
            Op::Call(to) => self.stops(to),
            Op::Apply { table, .. } | Op::ApplyPicked { table } => {
                let code = self.code;
                code.tables[table as usize].actions.iter().any(|action| self.stops(action.entry))
            }
            ref op => may_stop(op),
        });
        self.stops.insert(entry, stops);
        stops
    }
}

/// Whether an operation other than a call may end its block and the callers.
pub(crate) fn may_stop(op: &Op) -> bool {
    !matches!(
        op,
        Op::Move { .. }
            | Op::Copy { .. }
            | Op::Truncate { .. }
            | Op::SignExtend { .. }
            | Op::Add { .. }
            | Op::Sub { .. }
            | Op::Mul { .. }
            | Op::And { .. }
            | Op::Or { .. }
            | Op::Xor { .. }
            | Op::Not { .. }
            | Op::Shl { .. }
            | Op::Shr { .. }
            | Op::Eq { .. }
            | Op::Ne { .. }
            | Op::Lt { .. }
            | Op::Le { .. }
            | Op::SignedLt { .. }
            | Op::SignedLe { .. }
            | Op::Select { .. }
            | Op::Slice { .. }
            | Op::Insert { .. }
            | Op::Concat { .. }
            | Op::Wide(_)
            | Op::Jump(_)
            | Op::JumpIf { .. }
            | Op::JumpUnless { .. }
            | Op::JumpEq { .. }
            | Op::JumpNe { .. }
            | Op::JumpMaskedNe { .. }
            | Op::JumpOutside { .. }
            | Op::Return
            | Op::SetValid(_)
            | Op::SetInvalid(_)
            | Op::CopyHeader { .. }
            | Op::LoadElement { .. }
            | Op::StoreElement { .. }
            | Op::Emit(_)
            | Op::RegisterRead { .. }
            | Op::CellRead { .. }
            | Op::RegisterWrite { .. }
            | Op::RegisterRun(_)
            | Op::Count { .. }
    )
}

pub(crate) fn region(code: &Code, entry: Pc) -> Region {
    let mut ops = BTreeSet::new();
    let mut targets = HashSet::new();
    let mut open = vec![entry];
    while let Some(pc) = open.pop() {
        if !ops.insert(pc) {
            continue;
        }
        match next(&code.ops[pc as usize]) {
            Next::On => open.push(pc + 1),
            Next::Branch(to) => {
                targets.insert(to);
                open.extend([pc + 1, to]);
            }
            Next::Jump(to) => {
                targets.insert(to);
                open.push(to);
            }
            Next::Out => {}
        }
    }
    let ops: Vec<Pc> = ops.into_iter().collect();
    let straight =
        targets.is_empty() && ops.last().is_some_and(|&last| code.ops[last as usize] == Op::Return);
    Region { ops, targets, straight }
}
