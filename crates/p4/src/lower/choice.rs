//! Elements that an index chooses at run time from places that are not a stack of the IR: a second
//! index into an array of arrays, and elements of an array of structs that contain headers.
//!
//! A value is read through a tree of comparisons with the index. A statement on such an element
//! becomes a `switch` on the index, with the statement on one element in each case. As with stacks,
//! reading beyond the end gives zero or an invalid header, and storing there does nothing.

use std::rc::Rc;

use super::store::{Choice, Loc, scalar};
use super::{Lowerer, Value, build};
use crate::check::fold::limbs;
use crate::ir::{BinaryOp, Expr, Scalar, Stmt};
use crate::types::Type;

/// Steps for an element: an access to it is some hundred bytes, once for each element.
const STEPS: u64 = 4;

impl Choice {
    /// The positions that the index can have.
    fn reachable(&self) -> &[Loc] {
        let width = self.index.ty.width;
        let most = if width < 32 { 1 << width } else { usize::MAX };
        &self.parts[..self.parts.len().min(most)]
    }

    /// Whether the index can be beyond the end.
    fn may_be_beyond(&self) -> bool {
        let width = self.index.ty.width;
        width >= 32 || self.parts.len() < 1 << width
    }

    fn constant(&self, position: usize) -> Expr {
        build::constant(&position.into(), self.index.ty)
    }
}

impl Lowerer<'_, '_> {
    /// The element of a list of places that an index chooses.
    pub(super) fn choice(&mut self, index: Expr, parts: Vec<Loc>) -> Loc {
        self.reporter.work(STEPS * parts.len() as u64);
        // A negative index is beyond the end.
        let unsigned = Scalar::bit(index.ty.width);
        let index = self.keep_index(build::cast(index, unsigned));
        Loc::Choice(Rc::new(Choice { index, parts }))
    }

    /// The choice of parts that a function finds in the elements.
    pub(super) fn chosen_parts(
        &mut self,
        choice: &Choice,
        part: impl FnMut(&mut Self, Loc) -> Loc,
    ) -> Loc {
        self.reporter.work(STEPS * choice.parts.len() as u64);
        let mut part = part;
        let parts = choice.parts.iter().map(|loc| part(self, loc.clone())).collect();
        Loc::Choice(Rc::new(Choice { index: choice.index.clone(), parts }))
    }

    /// A value read from the chosen element: `read` gives it for each one.
    pub(super) fn chosen_value(
        choice: &Choice,
        read: &mut impl FnMut(&Loc) -> Option<Expr>,
    ) -> Option<Expr> {
        let values = choice.reachable().iter().map(read).collect::<Option<Vec<Expr>>>()?;
        let ty = values.first()?.ty;
        let value = tree(choice, &values, 0);
        if !choice.may_be_beyond() {
            return Some(value);
        }
        let within =
            build::binary(BinaryOp::Lt, choice.index.clone(), choice.constant(values.len()));
        Some(build::mux(within, value, build::constant(&0.into(), ty)))
    }

    /// Emits a statement on the chosen element.
    pub(super) fn for_chosen(&mut self, choice: &Choice, f: impl FnMut(&mut Self, &Loc)) {
        self.for_chosen_or(choice, f, |_| {});
    }

    /// The same, and other statements if the index is beyond the end.
    fn for_chosen_or(
        &mut self,
        choice: &Choice,
        f: impl FnMut(&mut Self, &Loc),
        beyond: impl FnOnce(&mut Self),
    ) {
        let mut f = f;
        let mut cases = Vec::with_capacity(choice.parts.len());
        for (position, part) in choice.reachable().iter().enumerate() {
            self.reporter.work(1);
            let body = self.buffered(|l| f(l, part));
            cases.push((limbs(&position.into(), choice.index.ty.width), body));
        }
        let default = self.buffered(beyond);
        self.emit(Stmt::Switch { on: choice.index.clone(), cases, default });
    }

    /// Copies a chosen element of any type.
    pub(super) fn copy_chosen(&mut self, to: &Loc, from: &Choice, ty: &Type) {
        self.for_chosen_or(
            from,
            |l, from| l.assign(to, Value::Loc(from.clone()), ty),
            |l| l.clear(to, ty),
        );
    }

    /// A value that is not a choice, unless it is a scalar: a copy of the chosen element.
    pub(super) fn settled(&mut self, value: Value, ty: &Type) -> Value {
        match value {
            Value::Loc(Loc::Choice(_)) if scalar(ty).is_none() => self.keep(value, ty),
            other => other,
        }
    }

    /// Zeros, and invalid headers.
    fn clear(&mut self, loc: &Loc, ty: &Type) {
        self.reporter.work(1);
        if let Some(ty) = scalar(ty) {
            self.assign_scalar(loc, build::constant(&0.into(), ty));
        } else if let Some((value, length)) = self.varbit(loc) {
            for part in [value, length] {
                if let Some(old) = self.read(&part) {
                    self.assign_scalar(&part, build::constant(&0.into(), old.ty));
                }
            }
        } else if let Some(header) = self.header_ref(loc) {
            self.emit(Stmt::SetInvalid(header));
        } else {
            for (position, part) in ty.parts().iter().enumerate() {
                let inner = self.element_part(loc.clone(), ty, position);
                self.clear(&inner, part);
            }
        }
    }
}

/// Selects a value by halves, because the phases recurse over the tree.
fn tree(choice: &Choice, values: &[Expr], first: usize) -> Expr {
    match values {
        [only] => only.clone(),
        _ => {
            let (low, high) = values.split_at(values.len() / 2);
            let middle = first + low.len();
            let below = build::binary(BinaryOp::Lt, choice.index.clone(), choice.constant(middle));
            build::mux(below, tree(choice, low, first), tree(choice, high, middle))
        }
    }
}
