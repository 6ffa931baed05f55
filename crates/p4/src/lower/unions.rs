//! Header unions: when one header becomes valid, the others become invalid.

use std::rc::Rc;

use super::store::{Loc, Store, Which};
use super::{Lowerer, build};
use crate::ir::{BinaryOp, Expr, ExprKind, HeaderId, HeaderRef, Place, Scalar, StackId, Stmt};

impl Lowerer<'_, '_> {
    /// Records the headers that share a union.
    pub(super) fn note_union(&mut self, parts: &[Store]) {
        let mut headers = Vec::new();
        parts.iter().for_each(|part| part.headers(&mut headers));
        let all: Rc<[HeaderId]> = headers.as_slice().into();
        self.unions.extend(headers.iter().map(|header| (*header, Rc::clone(&all))));
    }

    /// The other headers of a header's union.
    fn others(&self, header: &HeaderRef) -> Vec<HeaderRef> {
        let stacks = |stack: StackId| {
            let all = self.union_stacks.get(&stack).into_iter().flat_map(|all| all.iter().copied());
            all.filter(move |other| *other != stack)
        };
        match header {
            HeaderRef::Fixed(header) => {
                let all = self.unions.get(header).into_iter().flat_map(|all| all.iter());
                let others = all.filter(|other| *other != header);
                others.map(|other| HeaderRef::Fixed(*other)).collect()
            }
            HeaderRef::Next(stack) => stacks(*stack).map(HeaderRef::Next).collect(),
            HeaderRef::Last(stack) => stacks(*stack).map(HeaderRef::Last).collect(),
            HeaderRef::Index(stack, index) => {
                stacks(*stack).map(|other| HeaderRef::Index(other, index.clone())).collect()
            }
        }
    }

    fn displace_others(&mut self, header: &HeaderRef) {
        for other in self.others(header) {
            self.emit(Stmt::Displace(other));
        }
    }

    /// A header with a short index, because each header of a union has a copy of it.
    fn keep_union_index(&mut self, header: HeaderRef) -> HeaderRef {
        match header {
            HeaderRef::Index(stack, index) if self.union_stacks.contains_key(&stack) => {
                HeaderRef::Index(stack, Box::new(self.keep_index(*index)))
            }
            other => other,
        }
    }

    pub(super) fn set_valid(&mut self, header: HeaderRef) {
        let header = self.keep_union_index(header);
        self.emit(Stmt::SetValid(header.clone()));
        self.displace_others(&header);
    }

    pub(super) fn extract(&mut self, header: HeaderRef, varbit_bits: Option<Expr>) {
        let header = self.keep_union_index(header);
        // Extraction increments `nextIndex`.
        let extracted = match header {
            HeaderRef::Next(stack) => HeaderRef::Last(stack),
            ref other => other.clone(),
        };
        self.emit(Stmt::Extract { header, varbit_bits });
        self.displace_others(&extracted);
    }

    /// Copies a header, including its validity.
    pub(super) fn copy_header(&mut self, to: HeaderRef, from: HeaderRef) {
        // The copy may change the operands of the index.
        let to = self.keep_union_index(to);
        self.emit(Stmt::CopyHeader { to: to.clone(), from });
        let then = self.buffered(|l| l.displace_others(&to));
        if !then.is_empty() {
            let condition = Expr { ty: Scalar::BOOL, kind: ExprKind::Valid(to) };
            self.emit(Stmt::If { condition, then, otherwise: Vec::new() });
        }
    }

    /// An index that no longer changes.
    pub(super) fn keep_index(&mut self, index: Expr) -> Expr {
        if matches!(index.kind, ExprKind::Const(_)) {
            return index;
        }
        let ty = index.ty;
        let temp = self.temp("index", ty);
        self.emit(Stmt::Assign(Place::Field(temp), index));
        Expr { ty, kind: ExprKind::Field(temp) }
    }

    /// Whether a header, or one of a union's headers, is valid.
    pub(super) fn validity(&mut self, loc: &Loc) -> Option<Expr> {
        fn any(headers: &[HeaderRef]) -> Expr {
            match headers {
                [] => build::boolean(false),
                [header] => valid(header.clone()),
                _ => {
                    // A balanced tree, because the phases recurse over it.
                    let (some, others) = headers.split_at(headers.len().div_ceil(2));
                    build::binary(BinaryOp::Or, any(some), any(others))
                }
            }
        }
        fn valid(header: HeaderRef) -> Expr {
            Expr { ty: Scalar::BOOL, kind: ExprKind::Valid(header) }
        }
        if let Some(header) = self.header_ref(loc) {
            return Some(valid(header));
        }
        if let Loc::Choice(choice) = loc {
            return Self::chosen_value(choice, &mut |part| self.validity(part));
        }
        let headers: Vec<HeaderRef> = match loc {
            Loc::Store(store @ Store::Union(_)) => {
                let mut headers = Vec::new();
                store.headers(&mut headers);
                headers.into_iter().map(HeaderRef::Fixed).collect()
            }
            Loc::UnionElement(which, stack, _) => {
                let which = match which {
                    Which::Index(index) => Which::Index(self.keep_index(index.clone())),
                    other => other.clone(),
                };
                stack.members.iter().map(|member| which.of(*member)).collect()
            }
            _ => return None,
        };
        self.reporter.work(2 * headers.len() as u64);
        Some(any(&headers))
    }

    /// `push_front` and `pop_front`.
    pub(super) fn shift_stack(
        &mut self,
        store: &Store,
        count: u32,
        statement: fn(StackId, u32) -> Stmt,
    ) {
        match store {
            Store::Stack(id, _) => self.emit(statement(*id, count)),
            Store::UnionStack(stack, _) => {
                // Each of the stacks moves `nextIndex` from the same start.
                let ty = Scalar::bit(32);
                let before = self.temp("next", ty);
                let read = |field| Expr { ty, kind: ExprKind::Field(field) };
                self.emit(Stmt::Assign(Place::Field(before), read(stack.next_index)));
                for member in &stack.members {
                    self.emit(Stmt::Assign(Place::Field(stack.next_index), read(before)));
                    self.emit(statement(*member, count));
                }
            }
            _ => {}
        }
    }
}
