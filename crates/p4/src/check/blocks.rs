//! Parsers and controls.

use std::collections::HashMap;
use std::rc::Rc;

use super::convert::cast_help;
use super::operators::plain;
use super::{Checker, Entry, Place, VarKind, closest};
use crate::ast::{self, Decl, DeclKind, Ident, Str};
use crate::hir::{self, Expr, ExprKind, Keyset, Local, Target};
use crate::source::Span;
use crate::types::{Aggregate, BlockKind, BlockType, Type};

impl Checker<'_, '_> {
    pub(super) fn control(&mut self, decl: &Decl, control: &Rc<ast::ControlDecl>) {
        let block =
            self.block(decl, BlockKind::Control, &control.signature, &control.ctor_params, |c| {
                let locals = c.locals(&control.locals);
                let body = c.placed(Place::Control, |c| c.scoped(|c| c.statements(&control.apply)));
                (locals, body, Vec::new(), 0)
            });
        self.declare(&decl.name, Entry::Block(Rc::new(block)));
    }

    pub(super) fn parser(&mut self, decl: &Decl, parser: &Rc<ast::ParserDecl>) {
        let block =
            self.block(decl, BlockKind::Parser, &parser.signature, &parser.ctor_params, |c| {
                let locals = c.locals(&parser.locals);
                let (states, start) = c.placed(Place::Parser, |c| c.states(decl, &parser.states));
                (locals, Vec::new(), states, start)
            });
        self.declare(&decl.name, Entry::Block(Rc::new(block)));
    }

    fn block(
        &mut self,
        decl: &Decl,
        kind: BlockKind,
        signature: &ast::BlockType,
        ctor_params: &[ast::Param],
        f: impl FnOnce(&mut Self) -> (Vec<Local>, Vec<hir::Stmt>, Vec<hir::State>, usize),
    ) -> hir::Block {
        if let Some(first) = signature.type_params.first() {
            self.error_help(
                first.span,
                "a parser or control with a body has no type parameters",
                "only types of parsers and controls do",
            );
        }
        let outer = std::mem::replace(&mut self.ret, Type::Void);
        let block = self.scoped(|c| {
            c.type_params(&signature.type_params);
            let params = c.params(&signature.params, false);
            let ctor_params = c.params(ctor_params, true);
            let (locals, body, states, start) = c.scoped(f);
            let ty = BlockType {
                kind,
                name: decl.name.name.clone(),
                type_params: Vec::new(),
                params: params.iter().map(super::calls::param_type).collect(),
            };
            hir::Block {
                kind,
                name: decl.name.name.clone(),
                signature: Rc::new(ty),
                params,
                ctor_params,
                locals,
                body,
                states,
                start,
                annotations: c.annotations(&decl.annotations),
            }
        });
        self.ret = outer;
        block
    }

    fn locals(&mut self, decls: &[Decl]) -> Vec<Local> {
        let mut locals = Vec::with_capacity(decls.len());
        for decl in decls {
            match &decl.kind {
                DeclKind::Const { .. } => self.constant(decl),
                DeclKind::Variable { .. } => {
                    locals.extend(self.variable(decl).map(Local::Variable))
                }
                DeclKind::Instance { .. } => {
                    locals.extend(self.instance(decl).map(Local::Instance))
                }
                DeclKind::Action(action) => {
                    let action = Rc::new(self.action(decl, action, false));
                    self.declare(&decl.name, Entry::Action(action));
                }
                DeclKind::Table(table) => {
                    let table = Rc::new(self.table(decl, table));
                    self.declare(&decl.name, Entry::Table(table));
                }
                DeclKind::ValueSet { ty, args } => {
                    locals.extend(self.value_set(decl, ty, args).map(Local::ValueSet));
                }
                _ => {
                    self.error(
                        decl.name.span,
                        format!("`{}` cannot be declared here", decl.name.name),
                    );
                    self.declare(&decl.name, Entry::Broken);
                }
            }
        }
        locals
    }

    /// `value_set<T>(size) name;`
    fn value_set(
        &mut self,
        decl: &Decl,
        ty: &ast::TypeRef,
        args: &[ast::Arg],
    ) -> Option<Rc<hir::ValueSet>> {
        let span = ty.span;
        let ty = self.resolve(ty);
        let parts = set_parts(&ty);
        if let Some(part) = parts.iter().find(|part| !selectable(part) || part.is_empty()) {
            self.error(span, format!("{part} cannot be selected on"));
        }
        let size = match args {
            [size] => self.size_of_store("value set", &size.value),
            _ => {
                self.error(decl.span, "a value set takes one argument: its size");
                self.declare(&decl.name, Entry::Broken);
                return None;
            }
        };
        let (name, annotations) = (decl.name.name.clone(), self.annotations(&decl.annotations));
        let kind = VarKind::Instance;
        let id = self.declare_var(&decl.name, Type::ValueSet(Rc::new(ty.clone())), kind);
        Some(Rc::new(hir::ValueSet { id, name, ty, size, annotations, span: decl.name.span }))
    }

    /// A case that consists of a whole value set.
    fn whole_set(&mut self, e: &ast::Expr, types: &[Type]) -> Option<Keyset> {
        let ast::ExprKind::Name(name) = &e.kind else { return None };
        let Some(Entry::Var(var)) = self.lookup(&name.name) else { return None };
        let Type::ValueSet(of) = &var.ty else { return None };
        let (id, parts) = (var.id, set_parts(of));
        let types: Vec<Type> = types.iter().flat_map(set_parts).collect();
        let converts = |(part, ty): (&Type, &Type)| part == ty || part.operand() == ty;
        let fits = parts.len() == types.len() && parts.iter().zip(&types).all(converts);
        let unknown = parts.iter().chain(&types).any(|t| matches!(t, Type::Unknown));
        if !fits && !unknown {
            let list = types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            self.error(e.span, format!("value_set<{of}> has no values of type ({list})"));
        }
        Some(Keyset::Set(id))
    }

    fn states(&mut self, decl: &Decl, states: &[ast::StateDecl]) -> (Vec<hir::State>, usize) {
        let mut names: HashMap<Str, usize> = HashMap::new();
        for (i, state) in states.iter().enumerate() {
            if matches!(&*state.name.name, "accept" | "reject") {
                self.error(
                    state.name.span,
                    format!("`{}` is the name of a final state", state.name.name),
                );
            }
            if names.insert(state.name.name.clone(), i).is_some() {
                self.error(
                    state.name.span,
                    format!("state `{}` is declared twice", state.name.name),
                );
            }
        }
        let start = names.get("start").copied();
        if start.is_none() && self.complete {
            self.error(decl.name.span, format!("parser `{}` has no state `start`", decl.name.name));
        }
        let list: Vec<hir::State> = states
            .iter()
            .map(|state| {
                self.scoped(|c| {
                    let body = c.statements(&state.body);
                    for s in &body {
                        c.parser_statement(s);
                    }
                    let transition = c.transition(&state.transition, &names);
                    hir::State {
                        span: state.name.span,
                        name: state.name.name.clone(),
                        body,
                        transition,
                    }
                })
            })
            .collect();
        self.ends(decl, &list, start.unwrap_or(0));
        (list, start.unwrap_or(0))
    }

    /// Reports a parser in which no path reaches a final state.
    fn ends(&mut self, decl: &Decl, states: &[hir::State], start: usize) {
        let mut seen = vec![false; states.len()];
        let mut left = vec![start];
        while let Some(at) = left.pop() {
            let Some(state) = states.get(at).filter(|_| !seen[at]) else { continue };
            seen[at] = true;
            let mut targets = match &state.transition {
                hir::Transition::To(target) => vec![*target],
                hir::Transition::Select { cases, .. } => cases.iter().map(|case| case.1).collect(),
            };
            if let hir::Transition::Select { cases, .. } = &state.transition {
                // Without a matching case, the packet is rejected.
                let any = |case: &(Vec<Keyset>, Target)| {
                    case.0.iter().all(|set| matches!(set, Keyset::Any))
                };
                if !cases.iter().any(any) {
                    targets.push(Target::Reject);
                }
            }
            for target in targets {
                match target {
                    Target::State(next) => left.push(next),
                    Target::Accept | Target::Reject => return,
                }
            }
        }
        if self.complete && !states.is_empty() {
            let message = format!("parser `{}` never reaches `accept` or `reject`", decl.name.name);
            self.error_help(decl.name.span, message, "its states follow one another in a circle");
        }
    }

    fn target(&mut self, name: &Ident, states: &HashMap<Str, usize>) -> Target {
        match &*name.name {
            "accept" => Target::Accept,
            "reject" => Target::Reject,
            other => match states.get(other) {
                Some(i) => Target::State(*i),
                None if !self.complete => Target::Reject,
                None => {
                    let message = format!("there is no state `{other}`");
                    self.suggest(name.span, message, closest(other, states.keys()));
                    Target::Reject
                }
            },
        }
    }

    fn transition(
        &mut self,
        transition: &ast::Transition,
        states: &HashMap<Str, usize>,
    ) -> hir::Transition {
        match transition {
            ast::Transition::None => hir::Transition::To(Target::Reject),
            ast::Transition::To(name) => hir::Transition::To(self.target(name, states)),
            ast::Transition::Select { on, cases } => {
                let whole = self.expect_all(on);
                let types: Vec<Type> = match &whole[..] {
                    // Like p4c, compare a serialisable enum that is the only key as an integer.
                    [only] => vec![only.ty.operand().clone()],
                    all => all.iter().map(|e| e.ty.clone()).collect(),
                };
                let mut on = Vec::with_capacity(whole.len());
                for e in &whole {
                    if matches!(&e.ty, Type::Struct(s) if s.what == Aggregate::Struct) {
                        let message = format!("{} cannot be selected on", e.ty);
                        self.error_help(e.span, message, "select on its fields");
                    }
                    // Each part of a struct gets a copy of the expression that selects the struct.
                    self.copied(e, e.ty.extent().values);
                }
                whole.into_iter().for_each(|e| take_apart(e, &mut on));
                for e in &on {
                    if !selectable(&e.ty) {
                        self.error(e.span, format!("{} cannot be selected on", e.ty));
                    }
                }
                let mut list = Vec::with_capacity(cases.len());
                for case in cases {
                    let keys = self.keysets(&case.keyset, &types);
                    let target = self.target(&case.target, states);
                    list.extend(keys.map(|k| (k, target)));
                }
                hir::Transition::Select { on, cases: list }
            }
        }
    }

    /// The keysets of one case or entry, one per key.
    pub(super) fn keysets(&mut self, e: &ast::Expr, types: &[Type]) -> Option<Vec<Keyset>> {
        if let Some(set) = self.whole_set(e, types) {
            return Some(vec![set]);
        }
        let items: Vec<&ast::Expr> = match (&e.kind, types) {
            (_, [only]) if !set_parts_of(only).is_empty() => vec![e],
            (ast::ExprKind::List(items), _) => items.iter().collect(),
            (ast::ExprKind::Any, _) => types.iter().map(|_| e).collect(),
            _ => vec![e],
        };
        if items.len() != types.len() {
            self.error(
                e.span,
                format!("{} values are given for {} keys", items.len(), types.len()),
            );
            return None;
        }
        self.reporter.work(types.iter().map(|ty| ty.extent().values).sum());
        let mut sets = Vec::with_capacity(types.len());
        for (item, ty) in items.iter().zip(types) {
            self.spread(item, ty, &mut sets);
        }
        Some(sets)
    }

    /// The keysets of one value, one per scalar in it.
    fn spread(&mut self, e: &ast::Expr, ty: &Type, out: &mut Vec<Keyset>) {
        let parts = set_parts_of(ty);
        match &e.kind {
            _ if parts.is_empty() => out.push(self.keyset(e, ty)),
            ast::ExprKind::Any => parts.iter().for_each(|part| self.spread(e, part, out)),
            ast::ExprKind::List(items) if items.len() == parts.len() => {
                for (item, part) in items.iter().zip(&parts) {
                    self.spread(item, part, out);
                }
            }
            _ => {
                let value = self.expr(e);
                let value = self.matched(value, ty);
                let mut values = Vec::new();
                take_apart(value, &mut values);
                out.extend(values.into_iter().map(Keyset::Value));
            }
        }
    }

    fn keyset(&mut self, e: &ast::Expr, ty: &Type) -> Keyset {
        if let Some(set) = self.whole_set(e, std::slice::from_ref(ty)) {
            return set;
        }
        match &e.kind {
            ast::ExprKind::Any => Keyset::Any,
            ast::ExprKind::Mask(value, mask) => {
                let (value, mask) = self.set_operands("&&&", value, mask, ty, e.span);
                Keyset::Mask(value, mask)
            }
            ast::ExprKind::Range(low, high) => {
                let (low, high) = self.set_operands("..", low, high, ty, e.span);
                if let (Some(a), Some(b)) = (low.int(), high.int())
                    && a > b
                {
                    let message = "the range is empty: its low end is above its high end";
                    self.reporter.warning(e.span, message);
                }
                Keyset::Range(low, high)
            }
            _ => {
                let value = self.expr(e);
                Keyset::Value(self.matched(value, ty))
            }
        }
    }

    /// The operands of `&&&` or `..`. Both have one integer type. The values of the set have the
    /// type of the first operand that has a width.
    fn set_operands(
        &mut self,
        sign: &str,
        a: &ast::Expr,
        b: &ast::Expr,
        key: &Type,
        span: Span,
    ) -> (Expr, Expr) {
        let (a, b) = (self.expr(a), self.expr(b));
        if matches!(a.ty, Type::Unknown) || matches!(b.ty, Type::Unknown) {
            return (a, b);
        }
        let of = match (&a.ty, &b.ty) {
            (Type::Int, Type::Int) => return (self.matched(a, key), self.matched(b, key)),
            (Type::Int, other) => other.operand().clone(),
            (first, _) => first.clone(),
        };
        let Some((a, b)) = self.same_integers(sign, plain(a), plain(b), span) else {
            return (Expr::error(span), Expr::error(span));
        };
        if of != *key && of.operand() != key {
            self.mismatched(&of, key, span);
            return (Expr::error(span), Expr::error(span));
        }
        (a, b)
    }

    /// Converts a value implicitly to the type of the key with which it is compared, or reports that
    /// they do not match.
    fn matched(&mut self, value: Expr, key: &Type) -> Expr {
        let span = value.span;
        let value = match (&value.ty, key) {
            // In an assignment, it would get the new type.
            (Type::Int, Type::New(_)) => Err(Type::Int),
            _ => self.try_coerce(value, key),
        };
        value.unwrap_or_else(|from| {
            self.mismatched(&from, key, span);
            Expr::error(span)
        })
    }

    fn mismatched(&mut self, from: &Type, key: &Type, span: Span) {
        let message = format!("{from} does not match a key of type {key}");
        match cast_help(from, key) {
            Some(help) => self.error_help(span, message, help),
            None => self.error(span, message),
        }
    }
}

/// Whether a value of the type can be selected on.
fn selectable(ty: &Type) -> bool {
    matches!(
        ty.operand(),
        Type::Bit(_) | Type::Signed(_) | Type::Bool | Type::Enum(_) | Type::Unknown
    )
}

/// Types of the parts of a struct or tuple; empty for other types.
fn set_parts_of(ty: &Type) -> Vec<Type> {
    match ty {
        Type::Struct(s) if s.what == Aggregate::Struct => {
            s.fields.iter().map(|f| f.ty.clone()).collect()
        }
        Type::Tuple(items) => items.to_vec(),
        _ => Vec::new(),
    }
}

/// The scalars in the type of a selected value.
fn set_parts(ty: &Type) -> Vec<Type> {
    let parts = set_parts_of(ty);
    if parts.is_empty() { vec![ty.clone()] } else { parts.iter().flat_map(set_parts).collect() }
}

/// The scalars in a selected value.
fn take_apart(e: Expr, out: &mut Vec<Expr>) {
    let parts = set_parts_of(&e.ty);
    if parts.is_empty() {
        out.push(e);
        return;
    }
    let tuple = matches!(e.ty, Type::Tuple(_));
    if let ExprKind::List(items) = e.kind {
        items.into_iter().for_each(|item| take_apart(item, out));
        return;
    }
    for (i, ty) in parts.into_iter().enumerate() {
        let (span, base) = (e.span, Box::new(e.clone()));
        let kind = if tuple {
            let index = Expr { span, ty: Type::Int, kind: ExprKind::Int(i.into()) };
            ExprKind::Index(base, Box::new(index))
        } else {
            ExprKind::Field(base, i)
        };
        take_apart(Expr { span, ty, kind }, out);
    }
}
