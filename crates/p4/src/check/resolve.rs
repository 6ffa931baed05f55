//! Resolution of type names.

use std::rc::Rc;

use num_traits::ToPrimitive;

use super::decls::contains;
use super::{Checker, Entry};
use crate::ast::{Expr, Ident, TypeKind, TypeRef};
use crate::limits::{LIST_VALUES, TYPE_DEPTH, TYPE_VALUES, WIDTH, shown};
use crate::source::Span;
use crate::types::{BlockType, Extent, ParamType, Substitution, Type, TypeVar};

impl Checker<'_, '_> {
    /// Resolves a type.
    pub(super) fn resolve(&mut self, ty: &TypeRef) -> Type {
        self.reporter.step(ty.span);
        let resolved = self.resolve_here(ty);
        self.bounded(&resolved, ty.span);
        resolved
    }

    /// Ends the compilation if a type is too large.
    pub(super) fn bounded(&mut self, ty: &Type, span: Span) {
        self.charge(ty);
        let Extent { values, depth, .. } = ty.extent();
        if values > TYPE_VALUES {
            let message = format!("a type of {values} values: it may have {TYPE_VALUES}");
            self.reporter.stop(span, message, "make the arrays or structs in it smaller");
        }
        if depth > TYPE_DEPTH {
            let message = format!("more than {TYPE_DEPTH} types inside one another");
            self.reporter.stop(span, message, "put fewer structs, tuples or arrays into others");
        }
    }

    /// The same for a list expression, which may be as long as a program.
    pub(super) fn bounded_list(&mut self, ty: &Type, span: Span) {
        self.charge(ty);
        let Extent { values, depth, .. } = ty.extent();
        if values > LIST_VALUES || depth > 2 * TYPE_DEPTH {
            let message = format!("a list of more than {LIST_VALUES} values");
            self.reporter.stop(span, message, "make several of it");
        }
    }

    /// Charges steps for visiting a whole type.
    pub(super) fn charge(&mut self, ty: &Type) {
        if let Type::Tuple(_) | Type::Record(_) | Type::Stack(..) | Type::Struct(_) = ty {
            self.reporter.work(ty.extent().values / 32);
        }
    }

    fn resolve_here(&mut self, ty: &TypeRef) -> Type {
        match &ty.kind {
            TypeKind::Void => Type::Void,
            TypeKind::Bool => Type::Bool,
            TypeKind::Error => Type::ErrorCode,
            TypeKind::String => Type::Text,
            TypeKind::MatchKind => Type::MatchKind,
            TypeKind::Int => Type::Int,
            TypeKind::Bit(None) => Type::Bit(1),
            TypeKind::Bit(Some(width)) => self.width(width, 0).map_or(Type::Unknown, Type::Bit),
            TypeKind::Signed(width) => self.width(width, 1).map_or(Type::Unknown, Type::Signed),
            TypeKind::Varbit(width) => self.width(width, 1).map_or(Type::Unknown, Type::Varbit),
            TypeKind::Name(name) => self.named(name, &[], ty.span),
            TypeKind::Specialised(name, args) => {
                // `_` is determined by the use of an extern, or by the arguments of a package.
                let of_object =
                    matches!(self.lookup(&name.name), Some(Entry::Extern(_) | Entry::Package(_)));
                let mut list = Vec::with_capacity(args.len());
                for arg in args {
                    list.push(match arg.kind {
                        TypeKind::DontCare if of_object => {
                            Type::Var(TypeVar { id: self.fresh(), name: "_".into() })
                        }
                        _ => self.resolve(arg),
                    });
                }
                self.named(name, &list, ty.span)
            }
            TypeKind::Stack(of, size) => {
                let element = self.resolve(of);
                let Some(size) = self.width(size, 1) else { return Type::Unknown };
                match element {
                    Type::Unknown => Type::Unknown,
                    t if Self::is_header(&t) => Type::Stack(Rc::new(t), size),
                    t if stored(&t) => {
                        let array = Type::Stack(Rc::new(t), size);
                        if array.extent().values > TYPE_VALUES {
                            let what = format!("an array of more than {TYPE_VALUES} values is");
                            self.unsupported(ty.span, &what);
                            return Type::Unknown;
                        }
                        array
                    }
                    other => {
                        self.error(ty.span, format!("there are no arrays of {other}"));
                        Type::Unknown
                    }
                }
            }
            TypeKind::Tuple(items) => {
                let mut types = Vec::with_capacity(items.len());
                for item in items {
                    let of = self.resolve(item);
                    if matches!(of, Type::Extern(..) | Type::Block(_) | Type::Package(_)) {
                        self.error(item.span, format!("{of} cannot be part of a tuple"));
                        return Type::Unknown;
                    }
                    types.push(of);
                }
                Type::Tuple(types.into())
            }
            TypeKind::List(of) => Type::List(Rc::new(self.resolve(of))),
            TypeKind::DontCare => {
                self.error(
                    ty.span,
                    "`_` stands for a type only among the type arguments of a call or instance",
                );
                Type::Unknown
            }
        }
    }

    fn width(&mut self, expr: &Expr, least: u32) -> Option<u32> {
        let value = self.constant_int(expr)?;
        match value.to_u32() {
            Some(w) if w >= least && w <= WIDTH => Some(w),
            Some(0) => {
                let what = "an array of no elements, or a type of no bits other than bit<0>, is";
                self.unsupported(expr.span, what);
                None
            }
            _ => {
                self.error(
                    expr.span,
                    format!(
                        "{} is not a width or size: it must be from {least} to {WIDTH}",
                        shown(&value)
                    ),
                );
                None
            }
        }
    }

    fn named(&mut self, name: &Ident, args: &[Type], span: Span) -> Type {
        let Some(entry) = self.lookup(&name.name).cloned() else {
            let message = format!("there is no type `{}`", name.name);
            self.unknown(name.span, message, &name.name);
            return Type::Unknown;
        };
        if let Entry::Extern(e) = &entry
            && args.iter().any(|arg| contains(arg, e.id))
        {
            let message = format!("`{}` cannot be part of its own type arguments", e.name);
            self.error(span, message);
            return Type::Unknown;
        }
        let (params, what): (&[TypeVar], _) = match &entry {
            Entry::Extern(e) => (&e.type_params, Type::Extern(e.clone(), Rc::from(args))),
            Entry::BlockType(b) => {
                let map: Substitution =
                    b.type_params.iter().map(|p| p.id).zip(args.iter().cloned()).collect();
                let params = b
                    .params
                    .iter()
                    .map(|p| ParamType { ty: p.ty.substitute(&map), ..p.clone() })
                    .collect();
                let ty = BlockType {
                    kind: b.kind,
                    name: b.name.clone(),
                    type_params: Vec::new(),
                    params,
                };
                (&b.type_params, Type::Block(Rc::new(ty)))
            }
            Entry::Block(b) => (&[], Type::Block(b.signature.clone())),
            Entry::Package(p) => (&[], Type::Package(p.clone())),
            Entry::Type(ty) => (&[], ty.clone()),
            Entry::Generic(generic) if generic.type_params.len() == args.len() => {
                return self.make_struct(generic, args, span);
            }
            Entry::Generic(generic) => {
                let (wanted, given) = (generic.type_params.len(), args.len());
                let name = &name.name;
                let message =
                    format!("`{name}` takes {wanted} type arguments, but {given} are given");
                self.error(span, message);
                return Type::Unknown;
            }
            Entry::Broken => return Type::Unknown,
            _ => {
                self.error(name.span, format!("`{}` is not a type", name.name));
                return Type::Unknown;
            }
        };
        if matches!(entry, Entry::Package(_)) || params.len() == args.len() {
            return what;
        }
        let message = format!(
            "`{}` takes {} type arguments, but {} are given",
            name.name,
            params.len(),
            args.len()
        );
        self.error(span, message);
        Type::Unknown
    }

    /// Declares type parameters in the current scope.
    pub(super) fn type_params(&mut self, params: &[Ident]) -> Vec<TypeVar> {
        params
            .iter()
            .map(|p| {
                let var = TypeVar { id: self.fresh(), name: p.name.clone() };
                self.declare(p, Entry::Type(Type::Var(var.clone())));
                var
            })
            .collect()
    }
}

/// Whether variables of the type have storage, so that arrays of it are possible.
fn stored(ty: &Type) -> bool {
    matches!(
        ty.repr(),
        Type::Bool
            | Type::ErrorCode
            | Type::Bit(_)
            | Type::Signed(_)
            | Type::Struct(_)
            | Type::Enum(_)
            | Type::Stack(..)
            | Type::Tuple(_)
    )
}
