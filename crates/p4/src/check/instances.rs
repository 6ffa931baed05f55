//! Instances, and the methods that they define: a register action's `apply`.

use std::rc::Rc;

use super::calls::param_type;
use super::construct::given_types;
use super::{Checker, Entry, Place, VarKind};
use crate::ast::{self, Arg, Decl, DeclKind, Direction, Ident};
use crate::hir::{self, Call, Callee, Expr, ExprKind};
use crate::source::Span;
use crate::types::{ExternType, ParamType, Signature, Substitution, Type};

impl Checker<'_, '_> {
    /// `Type(args) name;`, anywhere.
    pub(super) fn instance(&mut self, decl: &Decl) -> Option<Rc<hir::Instance>> {
        let DeclKind::Instance { ty, args, body } = &decl.kind else { return None };
        let Some(mut construct) = self.construct(ty, args, decl.span) else {
            self.declare(&decl.name, Entry::Broken);
            return None;
        };
        let methods = match (&construct.ty, body) {
            (Type::Extern(e, given), _) => {
                let (e, given) = (e.clone(), given.clone());
                let (methods, given) = self.methods(decl, &e, &given, body.as_deref());
                construct.ty = Type::Extern(e, given);
                methods
            }
            (other, Some(_)) => {
                let message = format!("{other} has no methods that an instance could give");
                self.error(decl.name.span, message);
                Vec::new()
            }
            (_, None) => Vec::new(),
        };
        let id = self.declare_var(&decl.name, construct.ty.clone(), VarKind::Instance);
        Some(Rc::new(hir::Instance {
            id,
            name: decl.name.name.clone(),
            annotations: self.annotations(&decl.annotations),
            construct: Rc::new(construct),
            methods,
            span: decl.name.span,
        }))
    }

    /// Checks the methods of an instance against the abstract methods of its type. They may
    /// determine type arguments that were left open.
    fn methods(
        &mut self,
        decl: &Decl,
        e: &Rc<ExternType>,
        given: &[Type],
        body: Option<&[Decl]>,
    ) -> (Vec<Rc<hir::Function>>, Rc<[Type]>) {
        let mut map: Substitution =
            e.type_params.iter().map(|p| p.id).zip(given.iter().cloned()).collect();
        let mut list: Vec<Rc<hir::Function>> = Vec::new();
        for method in body.unwrap_or_default() {
            let DeclKind::Function(function) = &method.kind else { continue };
            let name = &method.name;
            let wanted = e.methods.iter().find(|m| m.is_abstract && m.name == name.name).cloned();
            let Some(wanted) = wanted else {
                let names = e.methods.iter().filter(|m| m.is_abstract).map(|m| &m.name);
                let names: Vec<String> = names.map(|n| format!("`{n}`")).collect();
                let message = format!("{} has no abstract method `{}`", e.name, name.name);
                match names.is_empty() {
                    true => self.error(name.span, message),
                    false => {
                        self.error_help(name.span, message, format!("it has {}", names.join(", ")))
                    }
                }
                continue;
            };
            if list.iter().any(|m| m.name == name.name) {
                self.error(name.span, format!("method `{}` is given twice", name.name));
                continue;
            }
            let checked = self.method(name, function, e, given);
            self.method_fits(&wanted, &checked, &mut map);
            list.push(Rc::new(checked));
        }
        for method in e.methods.iter().filter(|m| m.is_abstract) {
            if !list.iter().any(|m| m.name == method.name) {
                let params: Vec<String> = method.params.iter().map(|p| show(p, &map)).collect();
                let help = format!(
                    "write = {{ {} {}({}) {{ … }} }} after the instance's name",
                    method.ret.substitute(&map),
                    method.name,
                    params.join(", ")
                );
                let message =
                    format!("`{}` does not give the method `{}`", decl.name.name, method.name);
                self.error_help(decl.name.span, message, help);
            }
        }
        let given = given_types(e, given, &map);
        (list, given)
    }

    fn method(
        &mut self,
        name: &Ident,
        function: &ast::FunctionDecl,
        e: &Rc<ExternType>,
        given: &[Type],
    ) -> hir::Function {
        if let Some(first) = function.type_params.first() {
            self.unsupported(first.span, "type parameters of an instance's methods are");
        }
        let ret = self.resolve(&function.ret);
        let this = self.this.replace(Type::Extern(e.clone(), given.into()));
        let (params, body) = self.placed(Place::Method, |c| {
            let outer = std::mem::replace(&mut c.ret, ret.clone());
            let result = c.scoped(|c| {
                let params = c.params(&function.params, false);
                (params, c.scoped(|c| c.statements(&function.body)))
            });
            c.ret = outer;
            result
        });
        self.this = this;
        hir::Function { name: name.name.clone(), span: name.span, params, ret, body }
    }

    /// Whether a method has the declared parameters. Reports an error if not.
    fn method_fits(&mut self, wanted: &Signature, found: &hir::Function, map: &mut Substitution) {
        let params: Vec<ParamType> = found.params.iter().map(param_type).collect();
        let least = wanted.params.iter().filter(|p| !p.optional).count();
        let counts = params.len() >= least && params.len() <= wanted.params.len();
        let ret = wanted.ret.substitute(map);
        if !ret.is_open() && ret != found.ret && !matches!(found.ret, Type::Unknown) {
            let message = format!(
                "method `{}` returns {} here, but its declaration wants {ret}",
                wanted.name, found.ret
            );
            self.error(found.span, message);
            return;
        }
        let fits = counts
            && self.unify(&ret, &found.ret, map)
            && wanted.params.iter().zip(&params).all(|(w, f)| {
                let ty = w.ty.substitute(map);
                let known = ty.is_open() || ty == f.ty || matches!(f.ty, Type::Unknown);
                w.direction == f.direction && known && self.unify(&w.ty, &f.ty, map)
            });
        if !fits {
            let list = |params: &[ParamType], map: &Substitution| {
                params.iter().map(|p| show(p, map)).collect::<Vec<_>>().join(", ")
            };
            let message = format!(
                "method `{}` takes ({}) here, but its declaration wants ({})",
                wanted.name,
                list(&params, &Substitution::new()),
                list(&wanted.params, map)
            );
            self.error(found.span, message);
        }
    }

    /// `this.method(…)`: the instance's own methods. A body may only call `predicate`, whose value
    /// is computed in place.
    pub(super) fn this_call(
        &mut self,
        this: Span,
        method: &Ident,
        args: &[Arg],
        span: Span,
    ) -> Expr {
        let Some(Type::Extern(e, given)) = self.this.clone() else {
            self.error(this, "`this` stands in the methods of an instance only");
            return Expr::error(span);
        };
        let found = e.methods.iter().find(|m| !m.is_abstract && m.name == method.name).cloned();
        let Some(signature) = found.filter(|_| &*method.name == "predicate") else {
            let message = format!("`{}` cannot be called by a method of {}", method.name, e.name);
            self.error_help(method.span, message, "`this.predicate(…)` is all that can");
            return Expr::error(span);
        };
        let Some(args) = self.arguments(&method.name, &signature.params, &[], args, span) else {
            return Expr::error(span);
        };
        let map: Substitution =
            e.type_params.iter().map(|p| p.id).zip(given.iter().cloned()).collect();
        let ty = signature.ret.substitute(&map);
        let call = Call { target: Callee::Predicate, args };
        Expr { span, ty, kind: ExprKind::Call(Box::new(call)) }
    }
}

/// A parameter in P4 syntax.
fn show(p: &ParamType, map: &Substitution) -> String {
    let direction = match p.direction {
        Direction::None => "",
        Direction::In => "in ",
        Direction::Out => "out ",
        Direction::Inout => "inout ",
    };
    let open = if p.optional { "@optional " } else { "" };
    let ty = match p.ty.substitute(map) {
        Type::Struct(s) => s.name.to_string(),
        other => other.to_string(),
    };
    format!("{open}{direction}{ty} {}", p.name)
}
