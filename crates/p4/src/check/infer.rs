//! Type inference: type arguments from the arguments of a call.

use super::Checker;
use super::operators::takes;
use crate::source::Span;
use crate::types::{Substitution, Type, TypeVar};

impl Checker<'_, '_> {
    /// Binds the type parameters in `formal` so that it equals `actual`. Returns false if that is
    /// impossible.
    pub(super) fn unify(&self, formal: &Type, actual: &Type, map: &mut Substitution) -> bool {
        match (formal, actual) {
            (_, Type::Unknown) => true,
            (Type::Var(v), _) => match map.get(&v.id) {
                None => {
                    map.insert(v.id, actual.clone());
                    true
                }
                Some(Type::Unknown) => true,
                // Left open by `_`.
                Some(Type::Var(_)) => {
                    map.insert(v.id, actual.clone());
                    true
                }
                // A number without a width, or a list, takes the type of the other argument.
                Some(bound) if takes(bound, actual) => true,
                Some(bound) if takes(actual, bound) => {
                    map.insert(v.id, actual.clone());
                    true
                }
                Some(_) => false,
            },
            (Type::Tuple(a), Type::Tuple(b)) if a.len() == b.len() => {
                a.iter().zip(b.iter()).all(|(a, b)| self.unify(a, b, map))
            }
            (Type::Generic(a, s), Type::Struct(b)) => match &b.origin {
                Some((id, t)) => {
                    *id == a.id && s.iter().zip(t.iter()).all(|(a, b)| self.unify(a, b, map))
                }
                None => false,
            },
            // Determined once the parameters are.
            (Type::Generic(..), Type::Tuple(_) | Type::Record(_) | Type::Invalid) => true,
            (Type::List(a), Type::List(b)) => self.unify(a, b, map),
            (Type::List(a), Type::Tuple(items)) => items.iter().all(|b| self.unify(a, b, map)),
            (Type::Stack(a, n), Type::Stack(b, m)) => n == m && self.unify(a, b, map),
            (Type::Extern(a, s), Type::Extern(b, t)) => {
                a.id == b.id && s.iter().zip(t.iter()).all(|(a, b)| self.unify(a, b, map))
            }
            (Type::Block(a), Type::Block(b)) => {
                // Trailing parameters may be omitted if they are optional.
                a.kind == b.kind
                    && a.params.len() >= b.params.len()
                    && a.params[b.params.len()..].iter().all(|p| p.optional)
                    && a.params.iter().zip(&b.params).all(|(a, b)| {
                        let same = a.ty.is_open() || a.ty == b.ty || b.ty == Type::Unknown;
                        a.direction == b.direction && same && self.unify(&a.ty, &b.ty, map)
                    })
            }
            // Types without parameters are checked later, by conversion.
            (formal, actual) => !formal.is_open() || formal == actual,
        }
    }

    /// Explicit type arguments. Those that are missing or `_` are inferred.
    pub(super) fn explicit(
        &mut self,
        params: &[TypeVar],
        given: &[crate::ast::TypeRef],
        name: &str,
        span: Span,
    ) -> Option<Substitution> {
        let mut map = Substitution::new();
        if given.is_empty() {
            return Some(map);
        }
        if given.len() != params.len() {
            let message = format!(
                "`{name}` takes {} type arguments, but {} are given",
                params.len(),
                given.len()
            );
            self.error(span, message);
            return None;
        }
        for (param, ty) in params.iter().zip(given) {
            if !matches!(ty.kind, crate::ast::TypeKind::DontCare) {
                let ty = self.resolve(ty);
                map.insert(param.id, ty);
            }
        }
        Some(map)
    }
}
