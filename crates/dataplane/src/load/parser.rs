//! Compiles parsers: states become labels, selects become tests.

use tributary_p4::Architecture;
use tributary_p4::ir::{
    Expr, ExternId, FieldId, HeaderRef, Keyset, Parser, ParserId, Scalar, StateId, Target,
    Transition,
};

use super::Loader;
use crate::code::{ExternOp, Op, Pc};
use crate::error::LoadError;
use crate::layout::Layout;
use crate::slot::{Item, Slot};
use crate::store::Instance;
use crate::wide::WideKind;

impl Loader<'_> {
    /// Compiles a parser. Returns its entry.
    pub(super) fn parser(&mut self, id: ParserId) -> Result<Pc, LoadError> {
        let program = self.program;
        let parser: &Parser = &program.parsers[id.index()];
        let mut places = Vec::new();
        let mut jumps = Vec::new();
        for (i, state) in parser.states.iter().enumerate() {
            places.push(self.here());
            self.note_state(id, StateId(i as u32));
            self.statements(&state.body)?;
            let mark = self.slots.mark();
            match &state.transition {
                Transition::To(target) => {
                    self.note_transition(&[], None, *target);
                    self.go(*target, i, &mut jumps);
                }
                Transition::Select { on, cases } => self.select(on, cases, i, &mut jumps)?,
            }
            self.slots.release(&mark);
        }
        for (at, StateId(state)) in jumps {
            let place = *places
                .get(state as usize)
                .ok_or_else(|| LoadError::Malformed(format!("no parser state {state}")))?;
            self.patch(at, place);
        }
        let accepts = std::mem::take(&mut self.accepts);
        if !self.deposits.is_empty() {
            let end = self.here();
            for accept in accepts {
                self.ops[accept] = Op::Jump(end);
            }
            self.deposits()?;
            self.jump(Op::Return);
        }
        places
            .first()
            .copied()
            .ok_or_else(|| LoadError::Malformed(format!("parser `{}` has no states", parser.name)))
    }

    fn go(&mut self, target: Target, from: usize, jumps: &mut Vec<(usize, StateId)>) {
        match target {
            // BMv2 continues with ingress either way; an error is only set where one was raised. A
            // Tofino treats rejection as an error.
            Target::Reject if self.intrinsics.architecture() == Architecture::Tna => {
                let code = super::error_code(self.program, "NoMatch", 2);
                let error = self.slots.constant(code);
                self.jump(Op::Fail { error });
            }
            Target::Accept | Target::Reject => {
                let accept = self.jump(Op::Return);
                self.accepts.push(accept);
            }
            Target::State(state) => {
                // Every loop has a transition backwards.
                if state.index() <= from {
                    self.tick();
                }
                jumps.push((self.jump(Op::Jump(0)), state));
            }
        }
    }

    fn select(
        &mut self,
        on: &[Expr],
        cases: &[(Vec<Keyset>, Target)],
        from: usize,
        jumps: &mut Vec<(usize, StateId)>,
    ) -> Result<(), LoadError> {
        let mut values = Vec::new();
        for value in on {
            values.push((self.expr(value)?, value.ty));
        }
        let keys: Vec<Item> =
            values.iter().map(|&(slot, ty)| Item { slot, width: ty.width }).collect();
        for (number, (keysets, target)) in cases.iter().enumerate() {
            let whole = matches!(keysets[..], [Keyset::Any | Keyset::ValueSet(_)]);
            if keysets.len() != values.len() && !whole {
                return Err(LoadError::Malformed("a case has another number of keys".to_owned()));
            }
            if let ([Keyset::Value(constant)], &[(slot, ty)]) = (&keysets[..], &values[..])
                && let Target::State(state) = target
                && state.index() > from
                && ty.width <= 64
                && self.notes.is_none()
            {
                // One operation for the common case.
                let b = self.slots.wide_constant(constant, 1);
                jumps.push((self.jump(Op::JumpEq { a: slot, b, to: 0 }), *state));
                continue;
            }
            let mut others = Vec::new();
            if let ([Keyset::ValueSet(instance)], [_, _, ..]) = (&keysets[..], &values[..]) {
                // A set of tuples is compared with all keys at once.
                let dst = self.slots.temporary(Scalar::BOOL);
                self.contains(*instance, keys.clone(), dst)?;
                others.push(self.jump(Op::JumpUnless { c: dst, to: 0 }));
                self.note_transition(&keys, Some(number), *target);
                self.go(*target, from, jumps);
                self.patch_here(&others);
                continue;
            }
            for (keyset, &(slot, ty)) in keysets.iter().zip(&values) {
                let value = Item { slot, width: ty.width };
                self.unless_matched(value, ty, keyset, &mut others)?;
            }
            self.note_transition(&keys, Some(number), *target);
            self.go(*target, from, jumps);
            if others.is_empty() {
                return Ok(());
            }
            self.patch_here(&others);
        }
        self.note_transition(&keys, None, Target::Reject);
        self.go(Target::Reject, from, jumps);
        Ok(())
    }

    /// Compiles a test whether values are in a parser value set.
    fn contains(
        &mut self,
        instance: ExternId,
        keys: Vec<Item>,
        dst: Slot,
    ) -> Result<(), LoadError> {
        let Some(Instance::ValueSet(set)) = self.instance(Some(instance)) else {
            return Err(LoadError::Malformed("a keyset that is not a value set".to_owned()));
        };
        let scalars = &self.program.externs[instance.index()].type_args;
        if !scalars.iter().map(|scalar| scalar.width).eq(keys.iter().map(|key| key.width)) {
            return Err(LoadError::Malformed("a value set of another type".to_owned()));
        }
        self.extern_op(ExternOp::Contains { dst, set, keys });
        Ok(())
    }

    /// Compiles jumps that are taken if a value is not in the set.
    fn unless_matched(
        &mut self,
        value: Item,
        ty: Scalar,
        keyset: &Keyset,
        jumps: &mut Vec<usize>,
    ) -> Result<(), LoadError> {
        let limbs = ty.limbs();
        match keyset {
            Keyset::Any => {}
            Keyset::Value(constant) => jumps.push(self.jump_unless_equal(value, constant)),
            Keyset::Masked { value: constant, mask } => {
                let masked: Vec<u64> = constant.iter().zip(mask).map(|(v, m)| v & m).collect();
                jumps.push(self.jump_unless_masked(value, ty, &masked, mask));
            }
            Keyset::Prefix { value: constant, len } => {
                let mask: Vec<u64> = (0..limbs as u32)
                    .map(|limb| {
                        let below = ty.width.saturating_sub(*len).saturating_sub(64 * limb);
                        let here = ty.width.saturating_sub(64 * limb);
                        crate::bits::mask(here.min(64)) & !crate::bits::mask(below.min(64))
                    })
                    .collect();
                let masked: Vec<u64> = constant.iter().zip(&mask).map(|(v, m)| v & m).collect();
                jumps.push(self.jump_unless_masked(value, ty, &masked, &mask));
            }
            Keyset::Range { low, high } => {
                let low = self.slots.wide_constant(low, limbs);
                let high = self.slots.wide_constant(high, limbs);
                if ty.width <= 64 && !ty.signed {
                    jumps.push(self.jump(Op::JumpOutside { a: value.slot, low, high, to: 0 }));
                } else {
                    let (low, high) = (Item { slot: low, ..value }, Item { slot: high, ..value });
                    for (a, b) in [(low, value), (value, high)] {
                        let c = self.slots.temporary(Scalar::BOOL);
                        self.wide(WideKind::Le, c, Scalar::BOOL, a, b, ty.signed);
                        jumps.push(self.jump(Op::JumpUnless { c, to: 0 }));
                    }
                }
            }
            Keyset::ValueSet(instance) => {
                let dst = self.slots.temporary(Scalar::BOOL);
                let keys = vec![value];
                self.contains(*instance, keys, dst)?;
                jumps.push(self.jump(Op::JumpUnless { c: dst, to: 0 }));
            }
        }
        Ok(())
    }

    fn jump_unless_masked(&mut self, a: Item, ty: Scalar, value: &[u64], mask: &[u64]) -> usize {
        let mask = self.slots.wide_constant(mask, ty.limbs());
        if ty.width <= 64 {
            let value = self.slots.wide_constant(value, 1);
            self.jump(Op::JumpMaskedNe { a: a.slot, mask, value, to: 0 })
        } else {
            let masked = self.slots.temporary(ty);
            self.wide(WideKind::And, masked, ty, a, Item { slot: mask, ..a }, false);
            self.jump_unless_equal(Item { slot: masked, ..a }, value)
        }
    }

    pub(super) fn extract(
        &mut self,
        header: &HeaderRef,
        varbit_bits: Option<&Expr>,
    ) -> Result<(), LoadError> {
        let bits = varbit_bits.map(|bits| self.word(bits)).transpose()?;
        self.on_header(header, &mut |this, header| {
            let code = this.header(header);
            match (bits, code.varbit.is_some()) {
                (None, false) => this.op(Op::Extract(header.0)),
                (Some(bits), true) => this.op(Op::ExtractVarbit { header: header.0, bits }),
                _ => {
                    return Err(LoadError::Malformed(format!(
                        "header `{}`: the two-argument extract is for varbit headers",
                        code.name
                    )));
                }
            }
            Ok(())
        })?;
        if let HeaderRef::Next(stack) = header {
            let (next, one) = (self.next_index(*stack), self.slots.constant(1));
            self.op(Op::Add { dst: next, a: next, b: one, width: 32 });
        }
        Ok(())
    }

    pub(super) fn lookahead(&mut self, fields: &[FieldId]) {
        let items: Vec<Item> = fields.iter().map(|&field| self.item(field)).collect();
        let number = self.lookaheads.len() as u32;
        self.lookaheads.push(Layout::new(&items));
        self.op(Op::Lookahead(number));
    }
}
