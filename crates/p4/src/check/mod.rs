//! The checker: resolves names, types expressions, evaluates constants, and makes implicit casts
//! explicit.
//!
//! It continues after errors. [`Type::Unknown`] and [`hir::ExprKind::Error`] prevent follow-up
//! errors.

mod annotations;
mod blocks;
mod calls;
mod construct;
mod convert;
mod decls;
mod expr;
pub(crate) mod fold;
mod infer;
mod instances;
mod operators;
mod resolve;
mod stmt;
mod tables;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use strsim::levenshtein;

use crate::ast::{self, Direction, Ident, Str};
use crate::hir::{self, DeclId};
use crate::limits::{SUGGESTED_BYTES, SUGGESTIONS};
use crate::source::{Reporter, Span};
use crate::types::{BlockType, ExternType, GenericStruct, PackageType, Signature, Type};

/// The meaning of a name.
#[derive(Clone)]
pub(crate) enum Entry {
    Type(Type),
    Extern(Rc<ExternType>),
    /// A parser or control type that needs type arguments.
    BlockType(Rc<BlockType>),
    Block(Rc<hir::Block>),
    Package(Rc<PackageType>),
    Const(hir::Expr),
    Var(Var),
    Action(Rc<hir::Action>),
    /// Overloads.
    Functions(Vec<FunctionEntry>),
    /// A struct, header or union with type parameters.
    Generic(Rc<GenericStruct>),
    ExternFunctions(Vec<Rc<Signature>>),
    Table(Rc<hir::Table>),
    /// Its declaration was invalid, which has been reported.
    Broken,
}

/// A function of the program.
#[derive(Clone)]
pub(crate) struct FunctionEntry {
    pub(crate) signature: Rc<Signature>,
    pub(crate) body: FunctionBody,
}

#[derive(Clone)]
pub(crate) enum FunctionBody {
    Plain(Rc<hir::Function>),
    Generic(Rc<GenericFunction>),
}

/// A generic function, which is checked for each list of type arguments.
pub(crate) struct GenericFunction {
    name: Ident,
    decl: Rc<ast::FunctionDecl>,
    /// `None` while the instance is being checked.
    #[expect(clippy::type_complexity, reason = "a small map")]
    made: RefCell<Vec<(Vec<Type>, Option<Rc<hir::Function>>)>>,
}

/// A variable, a parameter or an instance.
#[derive(Clone)]
pub(crate) struct Var {
    pub(crate) id: DeclId,
    pub(crate) ty: Type,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum VarKind {
    Local,
    Param(Direction),
    /// A constructor parameter, which is known when the block is instantiated.
    Ctor,
    Instance,
}

/// The kind of scope, which determines the allowed statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    TopLevel,
    Parser,
    Control,
    Action,
    Function,
    /// A method defined by an instance.
    Method,
}

struct Named {
    entry: Entry,
    span: Span,
}

pub(crate) struct Checker<'r, 't> {
    reporter: &'r mut Reporter<'t>,
    /// Whether the whole program was parsed. If not, missing declarations are not reported.
    complete: bool,
    scopes: Vec<HashMap<Str, Named>>,
    errors: Vec<Str>,
    match_kinds: Vec<Str>,
    next_id: u32,
    place: Place,
    /// The return type of the current function.
    ret: Type,
    instances: Vec<Rc<hir::Instance>>,
    controller_headers: Vec<Type>,
    /// Nesting depth of generic types and functions that are being instantiated.
    depth: u32,
    /// Number of loops around the current statement.
    loops: u32,
    /// In a method of an instance: the instance's type, for `this`.
    this: Option<Type>,
    /// Name and kind of each variable.
    vars: HashMap<DeclId, (Str, VarKind)>,
}

/// Checks a program, or what could be parsed of it.
pub(crate) fn check(
    reporter: &mut Reporter<'_>,
    program: &ast::Program,
    complete: bool,
) -> hir::Program {
    let mut checker = Checker {
        reporter,
        complete,
        scopes: vec![HashMap::new()],
        errors: Vec::new(),
        match_kinds: Vec::new(),
        next_id: 0,
        place: Place::TopLevel,
        ret: Type::Void,
        instances: Vec::new(),
        controller_headers: Vec::new(),
        depth: 0,
        loops: 0,
        this: None,
        vars: HashMap::new(),
    };
    for decl in &program.decls {
        checker.top_level(decl);
    }
    let main = checker.instances.iter().find(|i| &*i.name == "main").cloned();
    let instances = checker.instances.iter().filter(|i| &*i.name != "main").cloned().collect();
    let no_action = match checker.lookup_global("NoAction") {
        Some(Entry::Action(action)) => Some(action.clone()),
        _ => None,
    };
    let controller_headers = checker.controller_headers;
    hir::Program { errors: checker.errors, instances, main, no_action, controller_headers }
}

impl Checker<'_, '_> {
    fn fresh(&mut self) -> DeclId {
        self.next_id += 1;
        self.next_id
    }

    fn declare(&mut self, name: &Ident, entry: Entry) {
        self.no_parameter(name, &entry);
        let Some(scope) = self.scopes.last_mut() else { return };
        if let Some(Named { entry: Entry::Functions(all), .. }) = scope.get(&name.name) {
            self.reporter.work(all.len() as u64);
        }
        match (scope.get_mut(&name.name), entry) {
            (
                Some(Named { entry: Entry::ExternFunctions(all), .. }),
                Entry::ExternFunctions(new),
            ) => {
                all.extend(new);
            }
            (Some(Named { entry: Entry::Functions(all), .. }), Entry::Functions(new))
                if !all
                    .iter()
                    .any(|a| new.iter().any(|b| a.signature.same_names(&b.signature))) =>
            {
                all.extend(new);
            }
            (Some(old), _) => {
                let other = old.span;
                let message = format!("`{}` is declared twice in this scope", name.name);
                self.reporter.error_at(name.span, message, "declared first", other);
            }
            (None, entry) => {
                scope.insert(name.name.clone(), Named { entry, span: name.span });
            }
        }
    }

    /// Reports a declaration in a body that hides a parameter. Only another parameter may, and what a
    /// parser or control declares outside of its bodies.
    fn no_parameter(&mut self, name: &Ident, entry: &Entry) {
        if self.place == Place::TopLevel {
            return;
        }
        let is_parameter =
            |c: &Self, id| matches!(c.vars.get(&id), Some((_, VarKind::Param(_) | VarKind::Ctor)));
        match entry {
            Entry::Var(var) if is_parameter(self, var.id) => return,
            Entry::Var(_) | Entry::Const(_) | Entry::Action(_) | Entry::Table(_) => {}
            _ => return,
        }
        let found = self.scopes.iter().rev().find_map(|s| s.get(&name.name));
        if let Some(Named { entry: Entry::Var(var), span }) = found
            && is_parameter(self, var.id)
        {
            let message = format!("`{}` has the name of a parameter", name.name);
            self.reporter.error_at(name.span, message, "the parameter is declared", *span);
        }
    }

    /// Declares a variable or parameter in the current scope.
    fn declare_var(&mut self, name: &Ident, ty: Type, kind: VarKind) -> DeclId {
        let id = self.fresh();
        self.vars.insert(id, (name.name.clone(), kind));
        self.declare(name, Entry::Var(Var { id, ty }));
        id
    }

    fn lookup(&self, name: &str) -> Option<&Entry> {
        self.scopes.iter().rev().find_map(|s| s.get(name)).map(|n| &n.entry)
    }

    fn lookup_global(&self, name: &str) -> Option<&Entry> {
        self.scopes.first().and_then(|s| s.get(name)).map(|n| &n.entry)
    }

    fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(HashMap::new());
        let result = f(self);
        self.scopes.pop();
        result
    }

    /// Runs `f` in another kind of scope.
    fn placed<T>(&mut self, place: Place, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.place, place);
        let result = f(self);
        self.place = outer;
        result
    }

    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.reporter.error(span, message);
    }

    fn error_help(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.reporter.error_help(span, message, help);
    }

    fn unsupported(&mut self, span: Span, what: &str) {
        self.reporter.unsupported(span, what);
    }

    /// Reports an unknown name, unless its declaration may have been lost to a syntax error.
    fn unknown(&mut self, span: Span, message: String, name: &str) {
        if !self.complete {
            return;
        }
        self.suggest(span, message, self.similar(name));
    }

    /// Reports a wrong name. The help is a similar name, if there is one.
    fn suggest(&mut self, span: Span, message: String, similar: Option<Str>) {
        match similar {
            Some(other) => self.error_help(span, message, format!("did you mean `{other}`?")),
            None => self.error(span, message),
        }
    }

    /// The most similar name in scope, for "did you mean".
    fn similar(&self, name: &str) -> Option<Str> {
        let names = self.scopes.iter().flat_map(HashMap::keys);
        closest(name, names)
    }
}

/// The name that is most similar to `name`, if any is similar enough.
fn closest<'a>(name: &str, names: impl Iterator<Item = &'a Str>) -> Option<Str> {
    if name.len() > SUGGESTED_BYTES {
        return None;
    }
    let limit = 1 + name.len() / 4;
    names
        .take(SUGGESTIONS)
        .filter(|n| n.len().abs_diff(name.len()) <= limit)
        .map(|n| (levenshtein(name, n), n))
        .filter(|(d, _)| *d <= limit)
        .min_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)))
        .map(|(_, n)| n.clone())
}
