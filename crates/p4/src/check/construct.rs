//! Constructor calls: instances of externs, parsers and controls, and packages.

use std::rc::Rc;

use super::calls::param_type;
use super::{Checker, Entry};
use crate::ast::{self, Arg, Direction, TypeRef};
use crate::hir::{Construct, Expr, ExprKind};
use crate::source::Span;
use crate::types::{ExternType, PackageType, ParamType, Substitution, Type, TypeVar};

impl Checker<'_, '_> {
    pub(super) fn construct_expr(&mut self, ty: &TypeRef, args: &[Arg], span: Span) -> Expr {
        match self.construct(ty, args, span) {
            Some(construct) if has_abstract(&construct.ty) => {
                let message =
                    format!("{} has methods that only a named instance can give", construct.ty);
                self.error(span, message);
                Expr::error(span)
            }
            Some(construct) => Expr {
                span,
                ty: construct.ty.clone(),
                kind: ExprKind::Construct(Rc::new(construct)),
            },
            None => Expr::error(span),
        }
    }

    pub(super) fn construct(
        &mut self,
        ty: &TypeRef,
        args: &[Arg],
        span: Span,
    ) -> Option<Construct> {
        if let ast::TypeKind::Name(name) = &ty.kind
            && let Some(Entry::Block(block)) = self.lookup(&name.name).cloned()
        {
            let params: Vec<ParamType> = block.ctor_params.iter().map(param_type).collect();
            let defaults: Vec<Option<Expr>> =
                block.ctor_params.iter().map(|p| p.default.clone()).collect();
            let args = self.arguments(&name.name, &params, &defaults, args, span)?;
            let args =
                args.into_iter().map(|a| a.value.unwrap_or_else(|| Expr::error(span))).collect();
            return Some(Construct {
                ty: Type::Block(block.signature.clone()),
                block: Some(block),
                args,
            });
        }
        match self.resolve(ty) {
            Type::Unknown => {
                for arg in args {
                    self.expr(&arg.value);
                }
                None
            }
            Type::Package(package) => self.construct_package(&package, ty, args, span),
            Type::Extern(e, given) => {
                let signature = if e.constructors.is_empty() && args.is_empty() {
                    None
                } else {
                    Some(self.choose(&e.constructors, args, &e.name, span)?)
                };
                let mut map: Substitution =
                    e.type_params.iter().map(|p| p.id).zip(given.iter().cloned()).collect();
                let params = signature.as_ref().map_or(&[][..], |s| &s.params);
                let args = self.generic_arguments(&e.name, params, &mut map, args, span)?;
                let args: Vec<Expr> = args.into_iter().filter_map(|a| a.value).collect();
                self.index_of_register(&e, &given, &args, &mut map, ty.span);
                let ty = Type::Extern(e.clone(), given_types(&e, &given, &map));
                Some(Construct { ty, block: None, args })
            }
            other => {
                self.error(span, format!("{other} has no instances"));
                None
            }
        }
    }

    /// A register action whose type of index is left open takes that of its register, as older compilers for Tofino
    /// had it.
    fn index_of_register(
        &mut self,
        e: &ExternType,
        given: &[Type],
        args: &[Expr],
        map: &mut Substitution,
        span: Span,
    ) {
        let ([_, open @ Type::Var(_), _], [register, ..]) = (given, args) else { return };
        let Type::Extern(of, types) = &register.ty else { return };
        if &*e.name != "RegisterAction" || &*of.name != "Register" || !open.is_open() {
            return;
        }
        let (Some(param), Some(index)) = (e.type_params.get(1), types.get(1)) else { return };
        map.insert(param.id, index.clone());
        self.reporter.warning(
            span,
            format!(
                "the index type is open, which p4c refuses: write `{index}`, the register's index type"
            ),
        );
    }

    fn construct_package(
        &mut self,
        package: &Rc<PackageType>,
        ty: &TypeRef,
        args: &[Arg],
        span: Span,
    ) -> Option<Construct> {
        let given: &[TypeRef] = match &ty.kind {
            ast::TypeKind::Specialised(_, given) => given,
            _ => &[],
        };
        let mut map = self.explicit(&package.type_params, given, &package.name, span)?;
        let slots = self.match_arguments(&package.name, &package.params, args, span)?;
        let mut values = Vec::with_capacity(slots.len());
        let given = slots.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        for (param, slot) in package.params.iter().zip(slots).take(given) {
            let Some((_, arg)) = slot else {
                self.unsupported(
                    span,
                    &format!(
                        "leaving out the optional argument `{}` of {} is",
                        param.name, package.name
                    ),
                );
                return None;
            };
            let value = self.expr(&arg.value);
            if matches!(value.ty, Type::Unknown) {
                return None;
            }
            if !self.unify(&param.ty, &value.ty, &mut map) {
                self.block_mismatch(param, &value, &map);
                return None;
            }
            if !matches!(param.ty, Type::Block(_)) {
                let ty = param.ty.substitute(&map);
                values.push(self.coerce(value, &ty));
            } else if matches!(value.ty, Type::Block(_)) {
                values.push(value);
            } else {
                self.error(
                    value.span,
                    format!("{} cannot be the {} of {}", value.ty, param.name, package.name),
                );
                return None;
            }
        }
        Some(Construct { ty: Type::Package(package.clone()), block: None, args: values })
    }

    /// Reports the parameter in which a block differs from the package's requirement.
    fn block_mismatch(&mut self, param: &ParamType, value: &Expr, map: &Substitution) {
        let (Type::Block(wanted), Type::Block(found)) = (&param.ty, &value.ty) else {
            self.error(
                value.span,
                format!(
                    "{} cannot be the argument `{}`, which is {}",
                    value.ty, param.name, param.ty
                ),
            );
            return;
        };
        let show = |p: &ParamType| {
            let direction = match p.direction {
                Direction::None => "",
                Direction::In => "in ",
                Direction::Out => "out ",
                Direction::Inout => "inout ",
            };
            format!("{direction}{}", p.ty.substitute(map))
        };
        let list = |params: &[ParamType]| params.iter().map(show).collect::<Vec<_>>().join(", ");
        let message = format!("{} does not fit the argument `{}`", value.ty, param.name);
        let help = format!(
            "it takes ({}), but the package wants ({})",
            list(&found.params),
            list(&wanted.params)
        );
        self.error_help(value.span, message, help);
    }
}

/// The type arguments of an extern, with inferred types for those left open (`_`).
pub(super) fn given_types(e: &ExternType, given: &[Type], map: &Substitution) -> Rc<[Type]> {
    let one = |(param, given): (&TypeVar, &Type)| match given {
        Type::Var(_) => map.get(&param.id).cloned().unwrap_or_else(|| given.clone()),
        known => known.clone(),
    };
    e.type_params.iter().zip(given).map(one).collect()
}

fn has_abstract(ty: &Type) -> bool {
    matches!(ty, Type::Extern(e, _) if e.methods.iter().any(|m| m.is_abstract))
}
