//! Storage: the mapping of values of any type to the program's fields, and locations.

use std::rc::Rc;

use super::{Lowerer, build};
use crate::ir::{
    self, Expr, ExprKind, Field, FieldId, FieldRole, HeaderId, HeaderRef, Place, Scalar, StackId,
};
use crate::limits::{FIELD_BITS, FIELDS};
use crate::source::Span;
use crate::types::{Aggregate, StructType, Type};

/// The storage of a value.
#[derive(Clone, Debug)]
pub(super) enum Store {
    Scalar(FieldId),
    Header(HeaderId, Rc<[Store]>),
    /// A struct or tuple.
    Struct(Rc<[Store]>),
    Stack(StackId, Rc<[Store]>),
    /// An array of a type other than headers. The stack represents its elements for run-time
    /// indices, see [`Lowerer::allocate_array`].
    Array(Option<StackId>, Rc<[Store]>),
    /// The headers of a union.
    Union(Rc<[Store]>),
    UnionStack(Rc<UnionStack>, Rc<[Store]>),
    /// A value and its length in bits.
    Varbit(FieldId, FieldId),
}

/// A stack of header unions consists of one stack per member of the union, with a common
/// `nextIndex`.
#[derive(Debug)]
pub(super) struct UnionStack {
    pub(super) members: Vec<StackId>,
    pub(super) next_index: FieldId,
}

/// An element of a stack with a run-time index.
#[derive(Clone, Debug)]
pub(super) enum Which {
    Next,
    Last,
    Index(Expr),
}

impl Which {
    /// The element of a particular stack.
    pub(super) fn of(&self, stack: StackId) -> HeaderRef {
        match self {
            Which::Next => HeaderRef::Next(stack),
            Which::Last => HeaderRef::Last(stack),
            Which::Index(index) => HeaderRef::Index(stack, Box::new(index.clone())),
        }
    }
}

/// A location that can be read, and also written if the checker allowed it.
#[derive(Clone, Debug)]
pub(super) enum Loc {
    Store(Store),
    /// A header of a stack with a run-time index.
    Element(HeaderRef, Rc<StructType>),
    /// A union of a stack with a run-time index.
    UnionElement(Which, Rc<UnionStack>, Rc<StructType>),
    /// A part of such a header, from scalar number `at` on.
    Part {
        stack: StackId,
        index: Expr,
        at: u32,
        ty: Type,
    },
    /// Bits of a scalar.
    Slice(Box<Loc>, u32, u32),
    /// One of several places, by a run-time index.
    Choice(Rc<Choice>),
}

/// The elements of an array, and the index that chooses one.
#[derive(Debug)]
pub(super) struct Choice {
    /// Unsigned, and kept: later statements do not change it.
    pub(super) index: Expr,
    pub(super) parts: Vec<Loc>,
}

/// Type of the field that holds the length of a varbit.
const LENGTH: Scalar = Scalar::bit(32);

/// The scalar that represents a type. `bit<0>` has none: it is stored as a struct without fields
/// is, and its value is the constant zero ([`Lowerer::value_scalar`]).
pub(super) fn scalar(ty: &Type) -> Option<Scalar> {
    Some(match ty.repr() {
        Type::Bool => Scalar::BOOL,
        Type::Bit(0) => return None,
        Type::Bit(w) => Scalar::bit(*w),
        Type::Signed(w) => Scalar { width: *w, signed: true },
        Type::Enum(_) | Type::ErrorCode => Scalar::bit(32),
        _ => return None,
    })
}

/// Number of scalars of a type.
pub(super) fn scalars(ty: &Type) -> u32 {
    // The value is bounded by `limits`.
    ty.scalars() as u32
}

impl Store {
    /// All scalars, including headers' validity bits.
    pub(super) fn fields(&self, headers: &[ir::Header], out: &mut Vec<FieldId>) {
        match self {
            Store::Scalar(f) => out.push(*f),
            Store::Header(h, parts) => {
                out.push(headers[h.index()].valid);
                parts.iter().for_each(|p| p.fields(headers, out));
            }
            Store::Varbit(value, length) => out.extend([*value, *length]),
            Store::Struct(parts)
            | Store::Union(parts)
            | Store::Stack(_, parts)
            | Store::Array(_, parts)
            | Store::UnionStack(_, parts) => parts.iter().for_each(|p| p.fields(headers, out)),
        }
    }

    /// Its scalars in order, without validity bits and lengths of varbits.
    pub(super) fn scalars(&self, out: &mut Vec<FieldId>) {
        match self {
            Store::Scalar(f) | Store::Varbit(f, _) => out.push(*f),
            Store::Header(_, parts)
            | Store::Struct(parts)
            | Store::Union(parts)
            | Store::Stack(_, parts)
            | Store::Array(_, parts)
            | Store::UnionStack(_, parts) => parts.iter().for_each(|p| p.scalars(out)),
        }
    }

    /// Its headers, in order.
    pub(super) fn headers(&self, out: &mut Vec<HeaderId>) {
        match self {
            Store::Scalar(_) | Store::Varbit(..) => {}
            Store::Header(h, _) => out.push(*h),
            Store::Struct(parts)
            | Store::Union(parts)
            | Store::Stack(_, parts)
            | Store::Array(_, parts)
            | Store::UnionStack(_, parts) => parts.iter().for_each(|p| p.headers(out)),
        }
    }
}

impl Lowerer<'_, '_> {
    pub(super) fn field(&mut self, name: String, ty: Scalar, role: FieldRole) -> FieldId {
        self.reporter.work(1 + name.len() as u64 / 32);
        self.bits += u64::from(ty.width);
        if self.program.fields.len() >= FIELDS || self.bits > FIELD_BITS {
            let message = format!(
                "the variables of the program have more than {FIELDS} fields or {FIELD_BITS} bits"
            );
            self.reporter
                .stop_here(message, "use fewer or smaller variables, headers and instances");
        }
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
                // Structs without scalars cost steps, too.
                self.reporter.work(1);
                let s = s.clone();
                let parts = s.fields.iter().map(|f| {
                    let name = format!("{name}.{}", f.name);
                    let store = self.allocate(&name, &f.ty, role);
                    self.note_field_lists(&f.annotations, &store);
                    store
                });
                let parts: Rc<[Store]> = parts.collect();
                if s.what == Aggregate::Union {
                    self.note_union(&parts);
                    return Store::Union(parts);
                }
                Store::Struct(parts)
            }
            Type::Tuple(items) => {
                self.reporter.work(1);
                let items = items.clone();
                let parts = items.iter().enumerate();
                Store::Struct(
                    parts.map(|(i, t)| self.allocate(&format!("{name}.f{i}"), t, role)).collect(),
                )
            }
            Type::Stack(of, n) => {
                let (of, n) = (of.clone(), *n);
                self.allocate_stack(name, &of, n, role)
            }
            Type::Bit(0) => {
                self.reporter.work(1);
                Store::Struct(Rc::default())
            }
            Type::Varbit(width) => {
                let value = self.field(name.to_owned(), Scalar::bit(*width), role);
                Store::Varbit(value, self.field(format!("{name}.$length$"), LENGTH, role))
            }
            other => {
                let scalar = scalar(other).unwrap_or_else(|| {
                    if !matches!(other, Type::Unknown) {
                        let message =
                            format!("a value of type {other} is not known at compile time");
                        self.reporter.error_here(message, "give it a type that variables can have");
                    }
                    Scalar::bit(1)
                });
                let field = self.field(name.to_owned(), scalar, role);
                if matches!(role, FieldRole::Header(_)) {
                    self.note_enum(field, ty);
                }
                Store::Scalar(field)
            }
        }
    }

    fn allocate_stack(&mut self, name: &str, of: &Type, size: u32, role: FieldRole) -> Store {
        let parts: Rc<[Store]> =
            (0..size).map(|i| self.allocate(&format!("{name}[{i}]"), of, role)).collect();
        if !matches!(of, Type::Struct(s) if s.what != Aggregate::Struct) {
            return self.allocate_array(name, of, parts);
        }
        let inner = match role {
            FieldRole::Metadata | FieldRole::Intrinsic => role,
            _ => FieldRole::Local,
        };
        let next_index = self.field(format!("{name}.nextIndex"), Scalar::bit(32), inner);
        let header = |store: &Store| match store {
            Store::Header(header, _) => Some(*header),
            _ => None,
        };
        let Type::Struct(s) = of else { return Store::Struct(parts) };
        if s.what == Aggregate::Header {
            let elements = parts.iter().flat_map(header).collect();
            let id = self.push_stack(name.to_owned(), elements, next_index);
            return Store::Stack(id, parts);
        }
        let mut members = Vec::with_capacity(s.fields.len());
        for (i, field) in s.fields.iter().enumerate() {
            let member = |part: &Store| match part {
                Store::Union(headers) => headers.get(i).and_then(header),
                _ => None,
            };
            let elements = parts.iter().flat_map(member).collect();
            members.push(self.push_stack(format!("{name}.{}", field.name), elements, next_index));
        }
        let all: Rc<[StackId]> = members.as_slice().into();
        self.union_stacks.extend(members.iter().map(|member| (*member, Rc::clone(&all))));
        Store::UnionStack(Rc::new(UnionStack { members, next_index }), parts)
    }

    /// An array of a type other than headers. The IR supports run-time indices for header stacks
    /// only, so each element also counts as a header, which is never valid nor accessed as a whole.
    /// This does not work for elements that contain headers or varbits.
    fn allocate_array(&mut self, name: &str, of: &Type, parts: Rc<[Store]>) -> Store {
        if !of.is_plain() {
            return Store::Array(None, parts);
        }
        let mut elements = Vec::with_capacity(parts.len());
        for (i, part) in parts.iter().enumerate() {
            let id = HeaderId(self.program.headers.len() as u32);
            let name = format!("{name}[{i}]");
            let valid =
                self.field(format!("{name}.$valid$"), Scalar::BOOL, FieldRole::Validity(id));
            let mut fields = Vec::new();
            part.scalars(&mut fields);
            let bits: u32 =
                fields.iter().map(|f| self.program.fields[f.index()].ty.width % 8).sum();
            if !bits.is_multiple_of(8) {
                // Headers consist of whole bytes.
                let ty = Scalar::bit(8 - bits % 8);
                fields.push(self.field(format!("{name}.$padding$"), ty, FieldRole::Local));
            }
            let type_name = of.to_string();
            self.program.origins.headers.push(Span::default());
            self.program.headers.push(ir::Header { name, type_name, fields, valid, varbit: None });
            elements.push(id);
        }
        let next = self.field(format!("{name}.nextIndex"), Scalar::bit(32), FieldRole::Local);
        Store::Array(Some(self.push_stack(name.to_owned(), elements, next)), parts)
    }

    fn push_stack(
        &mut self,
        name: String,
        elements: Vec<HeaderId>,
        next_index: FieldId,
    ) -> StackId {
        let id = StackId(self.program.stacks.len() as u32);
        self.program.stacks.push(ir::Stack { name, elements, next_index });
        id
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
        self.program.origins.headers.push(s.span);
        self.program.headers.push(header);
        let parts: Rc<[Store]> = s
            .fields
            .iter()
            .map(|f| self.allocate(&format!("{name}.{}", f.name), &f.ty, FieldRole::Header(id)))
            .collect();
        let (mut fields, mut all) = (Vec::new(), Vec::new());
        parts.iter().for_each(|p| p.scalars(&mut fields));
        parts.iter().for_each(|p| p.fields(&self.program.headers, &mut all));
        // Scalars come in the order of the fields. The only other field is the length after a
        // varbit.
        let length = (0..all.len()).find(|&at| fields.get(at) != Some(&all[at]));
        // Tofino's compiler lays out a header with flexible fields itself, in whole bytes.
        let flexible = s.is_flexible();
        let bits: u32 = fields.iter().map(|f| self.program.fields[f.index()].ty.width).sum();
        if flexible && !bits.is_multiple_of(8) {
            let pad = Scalar::bit(8 - bits % 8);
            fields.push(self.field(format!("{name}.$pad"), pad, FieldRole::Header(id)));
        }
        let header = &mut self.program.headers[id.index()];
        header.varbit = length.map(|at| (at - 1, all[at]));
        header.fields = fields;
        Store::Header(id, parts)
    }

    /// A field of a struct or header.
    pub(super) fn member(&mut self, base: Loc, ty: &Type, position: usize) -> Loc {
        match base {
            Loc::Store(
                Store::Header(_, parts)
                | Store::Struct(parts)
                | Store::Union(parts)
                | Store::Array(_, parts),
            ) => Loc::Store(parts[position].clone()),
            Loc::UnionElement(which, stack, s) => match &s.fields[position].ty {
                Type::Struct(header) => {
                    Loc::Element(which.of(stack.members[position]), header.clone())
                }
                _ => Loc::UnionElement(which, stack, s),
            },
            Loc::Element(header, s) => {
                self.reporter.work(position as u64 / 16);
                let at: u32 = s.fields[..position].iter().map(|f| scalars(&f.ty)).sum();
                let (stack, index) = self.element_index(&header);
                Loc::Part { stack, index, at, ty: s.fields[position].ty.clone() }
            }
            Loc::Choice(choice) => {
                self.chosen_parts(&choice, |l, part| l.element_part(part, ty, position))
            }
            Loc::Part { stack, index, at, ty } if !ty.parts().is_empty() => {
                let parts = ty.parts();
                self.reporter.work(parts.len() as u64 / 16);
                let inner: u32 = parts[..position].iter().map(scalars).sum();
                Loc::Part { stack, index, at: at + inner, ty: parts[position].clone() }
            }
            other => {
                debug_assert!(false, "{ty} has no parts");
                other
            }
        }
    }

    /// A part of a value of any composite type: a field, or an element.
    pub(super) fn element_part(&mut self, base: Loc, ty: &Type, position: usize) -> Loc {
        match base {
            Loc::Store(Store::Stack(_, parts) | Store::UnionStack(_, parts)) => {
                Loc::Store(parts[position].clone())
            }
            other => self.member(other, ty, position),
        }
    }

    /// The stack and the index of an element with a run-time index.
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

    /// The header at a location.
    pub(super) fn header_ref(&self, loc: &Loc) -> Option<HeaderRef> {
        match loc {
            Loc::Store(Store::Header(id, _)) => Some(HeaderRef::Fixed(*id)),
            Loc::Element(header, _) => Some(header.clone()),
            _ => None,
        }
    }

    /// The field that holds a stack's `nextIndex`.
    pub(super) fn next_index(&self, store: &Store) -> Option<FieldId> {
        match store {
            Store::Stack(id, _) => Some(self.program.stacks[id.index()].next_index),
            Store::UnionStack(stack, _) => Some(stack.next_index),
            _ => None,
        }
    }

    /// The locations of a varbit's value and length.
    pub(super) fn varbit(&self, loc: &Loc) -> Option<(Loc, Loc)> {
        match loc {
            Loc::Store(Store::Varbit(value, length)) => {
                let of = |field: &FieldId| Loc::Store(Store::Scalar(*field));
                Some((of(value), of(length)))
            }
            Loc::Part { stack, index, at, ty: Type::Varbit(width) } => {
                let element = self.program.stacks[stack.index()].elements.first()?;
                // After the fields, see [`ir::ExprKind::Element`].
                let behind = self.program.headers[element.index()].fields.len() as u32;
                let of = |at, width| {
                    let ty = Type::Bit(width);
                    Loc::Part { stack: *stack, index: index.clone(), at, ty }
                };
                Some((of(*at, *width), of(behind, LENGTH.width)))
            }
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
            Loc::Choice(choice) => Self::chosen_value(choice, &mut |part| self.read(part))?,
            _ => return None,
        })
    }

    /// A scalar location as a place, with the place's type. `None` for bits of a part of a header
    /// with a run-time index.
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

    /// `loc[hi:lo]`; nested slices are merged.
    pub(super) fn slice_of(&self, loc: Loc, hi: u32, lo: u32) -> Loc {
        match loc {
            Loc::Slice(inner, _, base) => Loc::Slice(inner, hi + base, lo + base),
            other => Loc::Slice(Box::new(other), hi, lo),
        }
    }

    /// Records the lists on which `@field_list(1, 2)` puts a field.
    fn note_field_lists(&mut self, annotations: &[ir::Annotation], store: &Store) {
        for annotation in annotations.iter().filter(|a| a.name == "field_list") {
            for number in annotation.body.split(',') {
                // The checker has replaced its contents with plain numbers.
                let Ok(number) = number.trim().parse() else { continue };
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
