//! Storage: how values of any type lie in the program's fields, and locations in it.

use std::rc::Rc;

use super::{Lowerer, build};
use crate::ir::{
    self, Expr, ExprKind, Field, FieldId, FieldRole, HeaderId, HeaderRef, Place, Scalar, StackId,
};
use crate::types::{Aggregate, StructType, Type};

/// Where a value lies.
#[derive(Clone, Debug)]
pub(super) enum Store {
    Scalar(FieldId),
    Header(HeaderId, Rc<[Store]>),
    /// A struct or tuple.
    Struct(Rc<[Store]>),
    Stack(StackId, Rc<[Store]>),
}

/// Something that can be read, and written if the checker allowed it.
#[derive(Clone, Debug)]
pub(super) enum Loc {
    Store(Store),
    /// A header of a stack that is known at run time only.
    Element(HeaderRef, Rc<StructType>),
    /// Part of such a header: scalar number `at` and on.
    Part {
        stack: StackId,
        index: Expr,
        at: u32,
        ty: Type,
    },
    /// Bits of a scalar.
    Slice(Box<Loc>, u32, u32),
}

/// The scalar that represents a type.
pub(super) fn scalar(ty: &Type) -> Option<Scalar> {
    Some(match ty.repr() {
        Type::Bool => Scalar::BOOL,
        Type::Bit(w) | Type::Varbit(w) => Scalar::bit(*w),
        Type::Signed(w) => Scalar { width: *w, signed: true },
        Type::Enum(_) | Type::ErrorCode => Scalar::bit(32),
        _ => return None,
    })
}

/// Number of scalars that a type takes.
pub(super) fn scalars(ty: &Type) -> u32 {
    match ty.repr() {
        Type::Struct(s) => s.fields.iter().map(|f| scalars(&f.ty)).sum(),
        Type::Tuple(items) => items.iter().map(scalars).sum(),
        Type::Stack(of, n) => scalars(of) * n,
        _ => 1,
    }
}

impl Store {
    /// All scalars, headers' validity bits included.
    pub(super) fn fields(&self, headers: &[ir::Header], out: &mut Vec<FieldId>) {
        match self {
            Store::Scalar(f) => out.push(*f),
            Store::Header(h, parts) => {
                out.push(headers[h.index()].valid);
                parts.iter().for_each(|p| p.fields(headers, out));
            }
            Store::Struct(parts) | Store::Stack(_, parts) => {
                parts.iter().for_each(|p| p.fields(headers, out))
            }
        }
    }

    /// Its scalars, in order, without validity bits.
    pub(super) fn scalars(&self, out: &mut Vec<FieldId>) {
        match self {
            Store::Scalar(f) => out.push(*f),
            Store::Header(_, parts) | Store::Struct(parts) | Store::Stack(_, parts) => {
                parts.iter().for_each(|p| p.scalars(out));
            }
        }
    }

    /// Its headers, in order.
    pub(super) fn headers(&self, out: &mut Vec<HeaderId>) {
        match self {
            Store::Scalar(_) => {}
            Store::Header(h, _) => out.push(*h),
            Store::Struct(parts) | Store::Stack(_, parts) => {
                parts.iter().for_each(|p| p.headers(out))
            }
        }
    }
}

impl Lowerer<'_, '_> {
    pub(super) fn field(&mut self, name: String, ty: Scalar, role: FieldRole) -> FieldId {
        let id = FieldId(self.program.fields.len() as u32);
        self.program.fields.push(Field { name, ty, role });
        id
    }

    /// A local scalar.
    pub(super) fn temp(&mut self, name: &str, ty: Scalar) -> FieldId {
        let name = format!("{}.${name}{}", self.prefix, self.temps);
        self.temps += 1;
        self.field(name, ty, FieldRole::Local)
    }

    /// Storage for a value of any type.
    pub(super) fn allocate(&mut self, name: &str, ty: &Type, role: FieldRole) -> Store {
        match ty.repr() {
            Type::Struct(s) if s.what == Aggregate::Header => self.allocate_header(name, s),
            Type::Struct(s) => {
                let s = s.clone();
                let parts = s.fields.iter().map(|f| {
                    let name = format!("{name}.{}", f.name);
                    let store = self.allocate(&name, &f.ty, role);
                    self.note_field_lists(&f.annotations, &store);
                    store
                });
                Store::Struct(parts.collect())
            }
            Type::Tuple(items) => {
                let items = items.clone();
                let parts = items.iter().enumerate();
                Store::Struct(
                    parts.map(|(i, t)| self.allocate(&format!("{name}.f{i}"), t, role)).collect(),
                )
            }
            Type::Stack(of, n) => {
                let (of, n) = (of.clone(), *n);
                let parts: Vec<Store> =
                    (0..n).map(|i| self.allocate(&format!("{name}[{i}]"), &of, role)).collect();
                let elements = parts.iter().flat_map(|p| match p {
                    Store::Header(h, _) => Some(*h),
                    _ => None,
                });
                let elements = elements.collect();
                let inner = if role == FieldRole::Metadata || role == FieldRole::Intrinsic {
                    role
                } else {
                    FieldRole::Local
                };
                let next_index = self.field(format!("{name}.nextIndex"), Scalar::bit(32), inner);
                let id = StackId(self.program.stacks.len() as u32);
                self.program.stacks.push(ir::Stack { name: name.to_owned(), elements, next_index });
                Store::Stack(id, parts.into())
            }
            other => {
                // What has no scalar was refused by the checker.
                let ty = scalar(other).unwrap_or(Scalar::bit(1));
                Store::Scalar(self.field(name.to_owned(), ty, role))
            }
        }
    }

    fn allocate_header(&mut self, name: &str, s: &Rc<StructType>) -> Store {
        let id = HeaderId(self.program.headers.len() as u32);
        let valid = self.field(format!("{name}.$valid$"), Scalar::BOOL, FieldRole::Validity(id));
        let header = ir::Header {
            name: name.to_owned(),
            type_name: s.name.to_string(),
            fields: Vec::new(),
            valid,
            varbit: None,
        };
        self.program.headers.push(header);
        let parts: Rc<[Store]> = s
            .fields
            .iter()
            .map(|f| self.allocate(&format!("{name}.{}", f.name), &f.ty, FieldRole::Header(id)))
            .collect();
        let mut fields = Vec::new();
        parts.iter().for_each(|p| p.fields(&self.program.headers, &mut fields));
        self.program.headers[id.index()].fields = fields;
        Store::Header(id, parts)
    }

    /// A field of a struct or header.
    pub(super) fn member(&mut self, base: Loc, ty: &Type, position: usize) -> Loc {
        match base {
            Loc::Store(Store::Header(_, parts) | Store::Struct(parts)) => {
                Loc::Store(parts[position].clone())
            }
            Loc::Element(header, s) => {
                let at: u32 = s.fields[..position].iter().map(|f| scalars(&f.ty)).sum();
                let (stack, index) = self.element_index(&header);
                Loc::Part { stack, index, at, ty: s.fields[position].ty.clone() }
            }
            Loc::Part { stack, index, at, ty: Type::Struct(s) } => {
                let inner: u32 = s.fields[..position].iter().map(|f| scalars(&f.ty)).sum();
                Loc::Part { stack, index, at: at + inner, ty: s.fields[position].ty.clone() }
            }
            other => {
                debug_assert!(false, "{ty} has no parts");
                other
            }
        }
    }

    /// The stack and the index of an element chosen at run time.
    fn element_index(&self, header: &HeaderRef) -> (StackId, Expr) {
        let next = |s: StackId| {
            let field = self.program.stacks[s.index()].next_index;
            Expr { ty: Scalar::bit(32), kind: ExprKind::Field(field) }
        };
        match header {
            HeaderRef::Index(stack, index) => (*stack, (**index).clone()),
            HeaderRef::Next(stack) => (*stack, next(*stack)),
            HeaderRef::Last(stack) => {
                let one = build::constant(&1.into(), Scalar::bit(32));
                (*stack, build::binary(ir::BinaryOp::Sub, next(*stack), one))
            }
            HeaderRef::Fixed(_) => (StackId(0), build::constant(&0.into(), Scalar::bit(32))),
        }
    }

    /// The header that a location is.
    pub(super) fn header_ref(&self, loc: &Loc) -> Option<HeaderRef> {
        match loc {
            Loc::Store(Store::Header(id, _)) => Some(HeaderRef::Fixed(*id)),
            Loc::Element(header, _) => Some(header.clone()),
            _ => None,
        }
    }

    /// The value of a scalar location.
    pub(super) fn read(&self, loc: &Loc) -> Option<Expr> {
        Some(match loc {
            Loc::Store(Store::Scalar(f)) => {
                Expr { ty: self.program.fields[f.index()].ty, kind: ExprKind::Field(*f) }
            }
            Loc::Part { stack, index, at, ty } => Expr {
                ty: scalar(ty)?,
                kind: ExprKind::Element(*stack, Box::new(index.clone()), *at),
            },
            Loc::Slice(of, hi, lo) => build::slice(self.read(of)?, *hi, *lo),
            _ => return None,
        })
    }

    /// A scalar location as a place, with the place's type. None for bits of a part of a header
    /// that is known at run time only.
    pub(super) fn place(&self, loc: &Loc) -> Option<(Place, Scalar)> {
        Some(match loc {
            Loc::Store(Store::Scalar(f)) => (Place::Field(*f), self.program.fields[f.index()].ty),
            Loc::Part { stack, index, at, ty } => {
                (Place::Element(*stack, Box::new(index.clone()), *at), scalar(ty)?)
            }
            Loc::Slice(of, hi, lo) => {
                let (field, base) = match &**of {
                    Loc::Store(Store::Scalar(f)) => (*f, 0),
                    Loc::Slice(inner, _, base) => match &**inner {
                        Loc::Store(Store::Scalar(f)) => (*f, *base),
                        _ => return None,
                    },
                    _ => return None,
                };
                (Place::Slice(field, hi + base, lo + base), Scalar::bit(hi - lo + 1))
            }
            _ => return None,
        })
    }

    /// `loc[hi:lo]`; slices of slices are one.
    pub(super) fn slice_of(&self, loc: Loc, hi: u32, lo: u32) -> Loc {
        match loc {
            Loc::Slice(inner, _, base) => Loc::Slice(inner, hi + base, lo + base),
            other => Loc::Slice(Box::new(other), hi, lo),
        }
    }

    /// Notes which lists `@field_list(1, 2)` puts a field on.
    fn note_field_lists(&mut self, annotations: &[ir::Annotation], store: &Store) {
        for annotation in annotations.iter().filter(|a| a.name == "field_list") {
            for number in annotation.body.split(',') {
                let Some(number) = self.field_list_number(number.trim()) else { continue };
                let mut fields = Vec::new();
                store.fields(&self.program.headers, &mut fields);
                match self.program.field_lists.iter_mut().find(|l| l.0 == number) {
                    Some(list) => list.1.extend(fields),
                    None => self.program.field_lists.push((number, fields)),
                }
            }
        }
    }
}
