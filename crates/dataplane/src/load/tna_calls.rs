//! Compiles calls of TNA's externs.

use tributary_p4::ir::visit::{self, Visit};
use tributary_p4::ir::{
    Arg, CtorArg, Expr, ExprKind, Extern, ExternCall, ExternId, HeaderRef, Place, Program, Scalar,
    StatefulAction, Stmt, Table,
};

use super::calls::Args;
use super::{Context, Intrinsics, Loader};
use crate::bits::mask;
use crate::code::{ExternOp, Group, List, Op};
use crate::error::LoadError;
use crate::externs::binding::{DEPOSIT, TnaBehaviour};
use crate::externs::hash::Algorithm;
use crate::externs::math_unit::MathUnit;
use crate::externs::profile::Selector;
use crate::externs::tna_hash::{Polynomial, TnaHash};
use crate::layout::Layout;
use crate::slot::{Item, NO_SLOT, Slot};
use crate::store::Instance;
use crate::tna::metadata;

/// Bits of data that a resubmitted packet carries.
const RESUBMIT_BITS: u32 = 64;

/// A checksum that a parser leaves behind when it accepts the packet.
pub(super) struct Deposit {
    sum: Slot,
    /// Where the parser was at the call; zero without one.
    since: Slot,
    place: Place,
    ty: Scalar,
}

/// The number of calls after which a parser leaves a checksum behind.
pub(super) fn deposits(program: &Program) -> usize {
    struct Calls(usize);
    impl Visit<'_> for Calls {
        fn visit_stmt(&mut self, statement: &Stmt) {
            if let Stmt::Call(call) = statement {
                self.0 += usize::from(call.method == DEPOSIT);
            }
            visit::walk_stmt(self, statement);
        }
    }
    let mut calls = Calls(0);
    visit::walk_program(&mut calls, program);
    calls.0
}

impl Loader<'_> {
    pub(super) fn tna_call(
        &mut self,
        behaviour: TnaBehaviour,
        call: &ExternCall,
        args: &Args<'_>,
    ) -> Result<(), LoadError> {
        if let TnaBehaviour::Bound { lower } = behaviour {
            return self.bound(lower, args);
        }
        let instance = call.instance.ok_or_else(|| args.wrong("is called without an instance"))?;
        match behaviour {
            TnaBehaviour::Bound { .. } => {}
            TnaBehaviour::Execute => self.execute(instance, args)?,
            TnaBehaviour::ExecuteDirect => self.execute_direct(instance, args)?,
            TnaBehaviour::Parameter => self.tna_parameter(instance, args)?,
            TnaBehaviour::MathUnit => self.math_unit(instance, args)?,
            TnaBehaviour::Count => self.tna_count(instance, false, args)?,
            TnaBehaviour::DirectCount => self.tna_count(instance, true, args)?,
            TnaBehaviour::Meter => self.tna_meter(instance, false, args)?,
            TnaBehaviour::DirectMeter => self.tna_meter(instance, true, args)?,
            TnaBehaviour::Filter { drops } => self.tna_filter(instance, false, drops, args)?,
            TnaBehaviour::DirectFilter { drops } => self.tna_filter(instance, true, drops, args)?,
            TnaBehaviour::Random => {
                let (place, ty) = args.out(0)?;
                let width = args.narrow(ty)?;
                let (low, high) = (self.slots.constant(0), self.slots.constant(mask(width)));
                self.through_place(place, ty, |this, dst| {
                    this.extern_op(ExternOp::Random { dst, width, low, high });
                })?;
            }
            TnaBehaviour::Hash => self.tna_hash(instance, args)?,
            TnaBehaviour::ChecksumAdd { subtract } => {
                let sum = self.checksum(instance, args)?;
                let list = self.words_of(args, 0)?;
                self.extern_op(ExternOp::ChecksumAdd { sum, list, subtract });
            }
            TnaBehaviour::ChecksumGet => {
                let sum = self.checksum(instance, args)?;
                let (place, ty) = args.out(0)?;
                self.through_place(place, ty, |this, dst| {
                    this.extern_op(ExternOp::ChecksumGet { dst, sum, complement: false });
                })?;
            }
            TnaBehaviour::ChecksumVerify => {
                let sum = self.checksum(instance, args)?;
                let (place, ty) = args.out(0)?;
                let (whole, zero) = (self.slots.temporary(Scalar::bit(16)), self.slots.constant(0));
                self.extern_op(ExternOp::ChecksumGet { dst: whole, sum, complement: true });
                // The hardware's result is whether the checksum is wrong.
                self.through_place(place, ty, |this, dst| {
                    this.op(Op::Ne { dst, a: whole, b: zero });
                })?;
            }
            TnaBehaviour::ChecksumRest => self.checksum_rest(instance, args)?,
            TnaBehaviour::ChecksumUpdate => self.checksum_update(args)?,
            TnaBehaviour::Resubmit => self.tna_resubmit(args)?,
            TnaBehaviour::Mirror => {
                let session = self.word(args.value(0)?)?;
                let list = self.data(args, 1)?;
                self.extern_op(ExternOp::Mirror { session, list });
            }
            TnaBehaviour::Message => {
                let name = &self.program.externs[instance.index()].name;
                let digest = self.digest(name, args, 0)?;
                self.extern_op(ExternOp::Pack { digest });
            }
        }
        Ok(())
    }

    /// The table that an instance is attached to.
    pub(super) fn table_of(&self, instance: ExternId, args: &Args<'_>) -> Result<u32, LoadError> {
        let attached = |t: &Table| t.attached.contains(&instance);
        let table = self.program.tables.iter().position(attached);
        Ok(table.ok_or_else(|| args.wrong("is attached to no table"))? as u32)
    }

    fn math_unit(&mut self, instance: ExternId, args: &Args<'_>) -> Result<(), LoadError> {
        let unit = MathUnit::of(&self.program.externs[instance.index()]);
        let unit = Box::new(unit.map_err(|what| args.wrong(what))?);
        let operand = self.word(args.value(0)?)?;
        let (place, ty) = args.out(1)?;
        let width = args.narrow(ty)?;
        self.through_place(place, ty, |this, dst| {
            this.extern_op(ExternOp::MathUnit { dst, width, unit, operand });
        })
    }

    /// Compiles the functions `min` and `max`.
    fn bound(&mut self, lower: bool, args: &Args<'_>) -> Result<(), LoadError> {
        let (place, ty) = args.out(2)?;
        args.narrow(ty)?;
        let (a, b) = (self.word(args.value(0)?)?, self.word(args.value(1)?)?);
        let less = self.slots.temporary(Scalar::BOOL);
        self.op(match ty.signed {
            true => Op::SignedLt { dst: less, a, b, width: ty.width as u8 },
            false => Op::Lt { dst: less, a, b },
        });
        let (a, b) = if lower { (a, b) } else { (b, a) };
        self.through_place(place, ty, |this, dst| this.op(Op::Select { dst, c: less, a, b }))
    }

    /// Compiles a stateful action on one cell of its register.
    fn execute(&mut self, instance: ExternId, args: &Args<'_>) -> Result<(), LoadError> {
        let program = self.program;
        let action = program
            .stateful_action(instance)
            .ok_or_else(|| args.wrong("has no stateful action"))?;
        let Some(Instance::Register { first, scalars }) = self.instance(Some(action.register))
        else {
            return Err(args.wrong("does not work on a register"));
        };
        if scalars as usize != action.value.len() {
            return Err(args.wrong("has another cell than its register"));
        }
        let index = self.word(args.value(0)?)?;
        for (register, &field) in (first..).zip(&action.value) {
            let dst = self.slots.field(field);
            self.op(Op::CellRead { dst, register, index });
        }
        self.stateful_body(action)?;
        for (register, &field) in (first..).zip(&action.value) {
            let src = self.slots.field(field);
            self.op(Op::RegisterWrite { src, register, index });
        }
        self.stateful_result(action, args, 1)
    }

    /// Compiles the body of a stateful action, whose cell is in place.
    pub(super) fn stateful_body(&mut self, action: &StatefulAction) -> Result<(), LoadError> {
        if let Some(result) = action.result {
            let (item, zero) = (self.item(result), self.slots.constant(0));
            for dst in item.slot..item.slot + item.width.div_ceil(64) {
                self.op(Op::Move { dst, src: zero });
            }
        }
        self.returns.push(Vec::new());
        let compiled = self.statements(&action.body);
        let ends = self.returns.pop().unwrap_or_default();
        compiled?;
        if !ends.is_empty() {
            self.patch_here(&ends);
        }
        Ok(())
    }

    /// Stores the result of a stateful action in an argument, if there is one.
    pub(super) fn stateful_result(
        &mut self,
        action: &StatefulAction,
        args: &Args<'_>,
        at: usize,
    ) -> Result<(), LoadError> {
        if args.args.len() > at {
            let (place, ty) = args.out(at)?;
            match action.result {
                Some(result) => self.store(place, self.slots.field(result))?,
                None => {
                    let zero = self.slots.wide_constant(&[], ty.limbs());
                    self.store(place, zero)?;
                }
            }
        }
        Ok(())
    }

    /// Compiles the request of another ingress pass with data.
    fn tna_resubmit(&mut self, args: &Args<'_>) -> Result<(), LoadError> {
        let Intrinsics::Tna(metadata::Intrinsics { resubmit, resubmit_data, .. }) = self.intrinsics
        else {
            return Err(args.wrong("belongs to TNA"));
        };
        let list = self.data(args, 0)?;
        if let Some(list) = list
            && self.bits_of(list) > RESUBMIT_BITS
        {
            return Err(args.wrong("a packet takes at most 64 bits along"));
        }
        self.extern_op(ExternOp::Resubmit { flag: resubmit, data: resubmit_data, list });
        Ok(())
    }

    fn checksum_update(&mut self, args: &Args<'_>) -> Result<(), LoadError> {
        let condition = self.slots.constant(1);
        let list = self.words_of(args, 0)?;
        let last = args.args.len().saturating_sub(1);
        let zeros_as_ones = last == 2 && constant(args.value(1)?) != Some(0);
        if zeros_as_ones && constant(args.value(1)?).is_none() {
            return Err(args.wrong("`zeros_as_ones` must be a constant"));
        }
        let (place, ty) = args.out(last)?;
        let (zero, ones) = (self.slots.constant(0), self.slots.constant(0xffff));
        let is_zero = self.slots.temporary(Scalar::BOOL);
        self.through_place(place, ty, |this, checksum| {
            this.extern_op(ExternOp::UpdateChecksum {
                condition,
                checksum,
                width: 16,
                algorithm: Algorithm::Csum16,
                list,
                payload: false,
            });
            if zeros_as_ones {
                this.op(Op::Eq { dst: is_zero, a: checksum, b: zero });
                this.op(Op::Select { dst: checksum, c: is_zero, a: ones, b: checksum });
            }
        })
    }

    /// Notes the parser's position. The deposit is made where the parser accepts the packet.
    fn checksum_rest(&mut self, instance: ExternId, args: &Args<'_>) -> Result<(), LoadError> {
        if self.context != Context::Parser {
            return Err(args.wrong("is for parsers only"));
        }
        let sum = self.checksum(instance, args)?;
        let (place, ty) = args.out(0)?;
        if ty.width != 16 {
            return Err(args.wrong("the sum has 16 bits"));
        }
        let since = self.since;
        self.since += 1;
        self.extern_op(ExternOp::Consumed { dst: since });
        self.deposits.push(Deposit { sum, since, place: place.clone(), ty });
        Ok(())
    }

    /// Compiles the deposits of the sums whose call a packet has reached.
    pub(super) fn deposits(&mut self) -> Result<(), LoadError> {
        for Deposit { sum, since, place, ty } in std::mem::take(&mut self.deposits) {
            let skip = self.jump(Op::JumpUnless { c: since, to: 0 });
            self.through_place(&place, ty, |this, dst| {
                this.extern_op(ExternOp::ChecksumRest { dst, sum, since });
            })?;
            self.patch_here(&[skip]);
        }
        Ok(())
    }

    pub(super) fn checksum(&self, instance: ExternId, args: &Args<'_>) -> Result<Slot, LoadError> {
        match self.instance(Some(instance)) {
            Some(Instance::Checksum(sum)) => Ok(sum),
            _ => Err(args.wrong("is not a checksum")),
        }
    }

    /// Hashes values by the algorithm of a `Hash` instance.
    fn tna_hash(&mut self, instance: ExternId, args: &Args<'_>) -> Result<(), LoadError> {
        if args.args.len() != 2 {
            return Err(args.wrong("a base and a range are not supported"));
        }
        let algorithm = algorithm(self.program, &self.program.externs[instance.index()]);
        let algorithm = Box::new(algorithm.map_err(|reason| args.wrong(&reason))?);
        let list = self.number(args, 0)?;
        let (place, ty) = args.out(1)?;
        let width = args.narrow(ty)?;
        self.through_place(place, ty, |this, dst| {
            this.extern_op(ExternOp::Digest { dst, width, algorithm, list });
        })
    }

    /// A list of values as one number, padded with zeros in front to whole bytes.
    pub(super) fn number(&mut self, args: &Args<'_>, at: usize) -> Result<u32, LoadError> {
        let mut items = self.items(args, at)?;
        let bits: u32 = items.iter().map(|item| item.width).sum();
        if !bits.is_multiple_of(8) {
            items.insert(0, Item { slot: self.slots.constant(0), width: 8 - bits % 8 });
        }
        Ok(self.push_list(&items))
    }

    /// A list of values in wire order, regardless of validity.
    fn plain_list(&mut self, args: &Args<'_>, at: usize) -> Result<u32, LoadError> {
        let items = self.items(args, at)?;
        Ok(self.push_list(&items))
    }

    /// A list of values to sum, without those of invalid headers.
    pub(super) fn words_of(&mut self, args: &Args<'_>, at: usize) -> Result<u32, LoadError> {
        let list = self.list(args, at)?;
        if !self.bits_of(list).is_multiple_of(8) {
            return Err(args.wrong("the values are not whole bytes"));
        }
        Ok(list)
    }

    /// The data of a request, if any.
    fn data(&mut self, args: &Args<'_>, at: usize) -> Result<Option<u32>, LoadError> {
        if args.args.get(at).is_none() {
            return Ok(None);
        }
        let list = self.plain_list(args, at)?;
        if !self.bits_of(list).is_multiple_of(8) {
            return Err(args.wrong("the data is not whole bytes"));
        }
        Ok(Some(list))
    }

    fn items(&mut self, args: &Args<'_>, at: usize) -> Result<Vec<Item>, LoadError> {
        if let Some(Arg::Header(HeaderRef::Fixed(header))) = args.args.get(at) {
            let fields = &self.program.headers[header.index()].fields;
            return Ok(fields.iter().map(|&field| self.item(field)).collect());
        }
        let mut items = Vec::new();
        for expr in args.exprs(at) {
            items.push(Item { slot: self.expr(expr)?, width: expr.ty.width });
        }
        Ok(items)
    }

    fn push_list(&mut self, items: &[Item]) -> u32 {
        let group = Group {
            valid: NO_SLOT,
            length: NO_SLOT,
            items: items.to_vec(),
            layout: Layout::new(items),
        };
        self.lists.push(List { groups: vec![group], ragged: false });
        self.lists.len() as u32 - 1
    }

    fn bits_of(&self, list: u32) -> u32 {
        self.lists[list as usize].groups.iter().map(|group| group.layout.bits()).sum()
    }
}

impl Selector {
    /// The hash of an `ActionSelector`.
    pub(super) fn tofino(program: &Program, selector: &Extern) -> Result<Self, LoadError> {
        let wrong = |reason: String| LoadError::ExternUse { name: selector.name.clone(), reason };
        let hash = selector.args.iter().find_map(|arg| match arg {
            CtorArg::Instance(id) => {
                program.externs.get(id.index()).filter(|e| e.type_name == "Hash")
            }
            _ => None,
        });
        let hash = hash.ok_or_else(|| wrong("it has no hash".to_owned()))?;
        let width = hash.type_args.first().map_or(64, |scalar| scalar.width.min(64));
        Ok(Self::Tofino(Box::new(algorithm(program, hash).map_err(wrong)?), width))
    }
}

/// The algorithm of an instance of `Hash`.
fn algorithm(program: &Program, hash: &Extern) -> Result<TnaHash, String> {
    let Some(CtorArg::Symbol(_, name)) = hash.args.first() else {
        return Err("names no algorithm".to_owned());
    };
    if let Some(hash) = TnaHash::from_name(name) {
        return Ok(hash);
    }
    let Some(&CtorArg::Instance(polynomial)) = hash.args.get(1) else {
        return Err(format!("algorithm `{name}` is not supported"));
    };
    let polynomial = &program.externs[polynomial.index()];
    let value = |at: usize| match polynomial.args.get(at) {
        Some(CtorArg::Int(value)) => u64::try_from(*value).ok(),
        _ => None,
    };
    let flag = |at: usize| value(at).map(|value| value != 0);
    let crc = || {
        TnaHash::crc(Polynomial {
            width: polynomial.type_args.first()?.width,
            coefficient: value(0)?,
            reversed: flag(1)?,
            msb: flag(2)?,
            extended: flag(3)?,
            initial: value(4)?,
            last: value(5)?,
        })
    };
    crc().ok_or_else(|| {
        format!("polynomial `{}` needs 8 to 64 bits, and values that fit", polynomial.name)
    })
}

fn constant(expr: &Expr) -> Option<u64> {
    match &expr.kind {
        ExprKind::Const(limbs) => limbs.first().copied(),
        _ => None,
    }
}
