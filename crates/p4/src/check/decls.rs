//! Declarations outside of parsers and controls.

use std::rc::Rc;

use num_bigint::BigInt;

use super::{Checker, Entry, Place, VarKind};
use crate::ast::{self, Aggregate, Annotations, Decl, DeclKind, Direction, Ident, Method};
use crate::hir::{self, Expr, ExprKind};
use crate::ir;
use crate::types::{
    BlockKind, BlockType, EnumType, ExternType, FieldType, NewType, PackageType, ParamType,
    SerEnumType, Signature, StructType, Type,
};

impl Checker<'_, '_> {
    pub(super) fn top_level(&mut self, decl: &Decl) {
        let name = &decl.name;
        match &decl.kind {
            DeclKind::Const { .. } => self.constant(decl),
            DeclKind::Alias { ty, new } => self.alias(decl, ty, *new),
            DeclKind::Enum { members } => {
                self.distinct(members.iter());
                let members = members.iter().map(|m| m.name.clone()).collect();
                let ty = EnumType { id: self.fresh(), name: name.name.clone(), members };
                self.declare(name, Entry::Type(Type::Enum(Rc::new(ty))));
            }
            DeclKind::SerEnum { ty, members } => self.ser_enum(name, ty, members),
            DeclKind::Errors { members } => {
                for member in members {
                    if self.errors.contains(&member.name) {
                        self.error(
                            member.span,
                            format!("error `{}` is declared twice", member.name),
                        );
                    } else {
                        self.errors.push(member.name.clone());
                    }
                }
            }
            DeclKind::MatchKinds { members } => {
                self.match_kinds.extend(members.iter().map(|m| m.name.clone()))
            }
            DeclKind::Aggregate { what, type_params, fields } => {
                self.aggregate(decl, *what, type_params, fields)
            }
            DeclKind::Extern { type_params, methods } => {
                self.extern_type(name, type_params, methods)
            }
            DeclKind::ExternFunction(method) => {
                let signature = self.scoped(|c| c.signature(method));
                self.declare(name, Entry::ExternFunctions(vec![Rc::new(signature)]));
            }
            DeclKind::Package { type_params, params } => {
                let package = self.scoped(|c| PackageType {
                    name: name.name.clone(),
                    type_params: c.type_params(type_params),
                    params: c.param_types(params),
                });
                self.declare(name, Entry::Package(Rc::new(package)));
            }
            DeclKind::ParserType(ty) => self.block_type(BlockKind::Parser, name, ty),
            DeclKind::ControlType(ty) => self.block_type(BlockKind::Control, name, ty),
            DeclKind::Parser(parser) => self.parser(decl, parser),
            DeclKind::Control(control) => self.control(decl, control),
            DeclKind::Action(action) => {
                let action = self.action(decl, action, true);
                self.declare(name, Entry::Action(Rc::new(action)));
            }
            DeclKind::Function(function) => self.function(name, function),
            DeclKind::Instance { .. } => {
                if let Some(instance) = self.instance(decl) {
                    self.instances.push(instance);
                }
            }
            DeclKind::Variable { .. } => {
                self.error_help(
                    decl.span,
                    "variables cannot be declared at the top level",
                    "make it a `const`, or move it into the parser or control that uses it",
                );
                self.declare(name, Entry::Broken);
            }
            DeclKind::ValueSet => {
                self.unsupported(decl.span, "`value_set` is");
                self.declare(name, Entry::Broken);
            }
            DeclKind::Table(_) => self.error(decl.span, "tables are declared inside controls"),
        }
    }

    /// Reports names that occur twice.
    fn distinct<'a>(&mut self, names: impl Iterator<Item = &'a Ident>) {
        let mut seen = std::collections::HashMap::new();
        for name in names {
            if let Some(first) = seen.insert(name.name.clone(), name.span) {
                let message = format!("`{}` is declared twice", name.name);
                self.reporter.error_at(name.span, message, "declared first", first);
            }
        }
    }

    /// `const T x = e;`, anywhere.
    pub(super) fn constant(&mut self, decl: &Decl) {
        let DeclKind::Const { ty, value } = &decl.kind else { return };
        let ty = self.resolve(ty);
        let value = self.expect(value, &ty);
        if matches!(value.kind, hir::ExprKind::Error) {
            self.declare(&decl.name, Entry::Broken);
            return;
        }
        if !is_constant(&value) {
            self.error(
                value.span,
                format!("the value of constant `{}` is not known at compile time", decl.name.name),
            );
            self.declare(&decl.name, Entry::Broken);
            return;
        }
        self.declare(&decl.name, Entry::Const(value));
    }

    fn alias(&mut self, decl: &Decl, ty: &ast::TypeRef, new: bool) {
        let ty = self.resolve(ty);
        if !new {
            self.declare(&decl.name, Entry::Type(ty));
            return;
        }
        if !matches!(
            ty,
            Type::Bit(_)
                | Type::Signed(_)
                | Type::Bool
                | Type::New(_)
                | Type::SerEnum(_)
                | Type::Unknown
        ) {
            self.error(decl.name.span, format!("`type` makes new integer types, but {ty} is none"));
        }
        let annotations = self.annotations(&decl.annotations);
        let new = NewType { id: self.fresh(), name: decl.name.name.clone(), repr: ty, annotations };
        self.declare(&decl.name, Entry::Type(Type::New(Rc::new(new))));
    }

    fn ser_enum(&mut self, name: &Ident, ty: &ast::TypeRef, members: &[(Ident, ast::Expr)]) {
        let repr = self.resolve(ty);
        if !matches!(repr.repr(), Type::Bit(_) | Type::Signed(_) | Type::Unknown) {
            self.error(
                ty.span,
                format!("an enum is represented by bit<W> or int<W>, not by {repr}"),
            );
        }
        self.distinct(members.iter().map(|m| &m.0));
        let mut values: Vec<(crate::types::Str, BigInt)> = Vec::new();
        for (member, value) in members {
            // A member may use those before it: `B = A + 1` is not P4, but `B = X.A` is.
            let value = self.expect(value, repr.repr());
            match value.int() {
                Some(v) => values.push((member.name.clone(), v.clone())),
                None if matches!(value.kind, hir::ExprKind::Error) => {}
                None => self.error(
                    value.span,
                    format!("the value of `{}` is not known at compile time", member.name),
                ),
            }
        }
        let ty = SerEnumType { id: self.fresh(), name: name.name.clone(), repr, members: values };
        self.declare(name, Entry::Type(Type::SerEnum(Rc::new(ty))));
    }

    fn aggregate(
        &mut self,
        decl: &Decl,
        what: Aggregate,
        type_params: &[Ident],
        fields: &[ast::FieldDecl],
    ) {
        if let Some(first) = type_params.first() {
            self.unsupported(first.span, "type parameters of structs and headers are");
            self.declare(&decl.name, Entry::Broken);
            return;
        }
        if what == Aggregate::Union {
            self.unsupported(decl.name.span, "`header_union` is");
            self.declare(&decl.name, Entry::Broken);
            return;
        }
        self.distinct(fields.iter().map(|f| &f.name));
        let mut list = Vec::with_capacity(fields.len());
        for field in fields {
            let mut ty = self.resolve(&field.ty);
            if let Type::Varbit(_) = ty {
                self.unsupported(field.ty.span, "`varbit` is");
                ty = Type::Unknown;
            }
            let fits = match what {
                Aggregate::Header => scalar_field(&ty),
                _ => {
                    scalar_field(&ty)
                        || matches!(
                            ty,
                            Type::Struct(_)
                                | Type::Stack(..)
                                | Type::Tuple(_)
                                | Type::Enum(_)
                                | Type::ErrorCode
                        )
                }
            };
            if !fits {
                let kind = if what == Aggregate::Header { "header" } else { "struct" };
                self.error(field.ty.span, format!("a {kind} cannot have a field of type {ty}"));
                ty = Type::Unknown;
            }
            list.push(FieldType {
                name: field.name.name.clone(),
                ty,
                annotations: self.field_annotations(&field.annotations),
            });
        }
        let ty = StructType {
            id: self.fresh(),
            what,
            name: decl.name.name.clone(),
            fields: list,
            annotations: self.annotations(&decl.annotations),
        };
        self.declare(&decl.name, Entry::Type(Type::Struct(Rc::new(ty))));
    }

    /// `@field_list` may name constants; whoever reads annotations later has no scope to ask.
    fn field_annotations(&mut self, list: &Annotations) -> Vec<ir::Annotation> {
        let mut list = self.annotations(list);
        for annotation in list.iter_mut().filter(|a| a.name == "field_list") {
            let number = |name: &str| match self.lookup(name.trim()) {
                Some(Entry::Const(Expr { kind: ExprKind::Int(value), .. })) => value.to_string(),
                _ => name.trim().to_owned(),
            };
            annotation.body = annotation.body.split(',').map(number).collect::<Vec<_>>().join(",");
        }
        list
    }

    fn extern_type(&mut self, name: &Ident, type_params: &[Ident], methods: &[Method]) {
        let id = self.fresh();
        let (type_params, constructors, methods) = self.scoped(|c| {
            let type_params = c.type_params(type_params);
            let (mut constructors, mut list) = (Vec::new(), Vec::new());
            for method in methods {
                let signature = Rc::new(c.scoped(|c| c.signature(method)));
                if method.ret.is_none() {
                    constructors.push(signature)
                } else {
                    list.push(signature)
                }
            }
            (type_params, constructors, list)
        });
        let ty = ExternType { id, name: name.name.clone(), type_params, constructors, methods };
        self.declare(name, Entry::Extern(Rc::new(ty)));
    }

    /// A prototype; its type parameters go into the current scope.
    fn signature(&mut self, method: &Method) -> Signature {
        let type_params = self.type_params(&method.type_params);
        let ret = method.ret.as_ref().map_or(Type::Void, |t| self.resolve(t));
        let params = self.param_types(&method.params);
        Signature {
            name: method.name.name.clone(),
            type_params,
            params,
            ret,
            is_abstract: method.is_abstract,
        }
    }

    pub(super) fn param_types(&mut self, params: &[ast::Param]) -> Vec<ParamType> {
        params
            .iter()
            .map(|p| ParamType {
                name: p.name.name.clone(),
                direction: p.direction,
                ty: self.resolve(&p.ty),
                optional: p.default.is_some()
                    || p.annotations.iter().any(|a| &*a.name.name == "optional"),
            })
            .collect()
    }

    fn block_type(&mut self, kind: BlockKind, name: &Ident, ty: &ast::BlockType) {
        let block = self.scoped(|c| BlockType {
            kind,
            name: name.name.clone(),
            type_params: c.type_params(&ty.type_params),
            params: c.param_types(&ty.params),
        });
        self.declare(name, Entry::BlockType(Rc::new(block)));
    }

    /// Parameters with declarations in the current scope.
    pub(super) fn params(&mut self, params: &[ast::Param], ctor: bool) -> Vec<hir::Param> {
        params
            .iter()
            .map(|p| {
                let ty = self.resolve(&p.ty);
                let default = p.default.as_ref().map(|e| self.expect(e, &ty));
                let kind = if ctor { VarKind::Ctor } else { VarKind::Param(p.direction) };
                if ctor && p.direction != Direction::None {
                    self.error(p.name.span, "constructor parameters have no direction");
                }
                let id = self.declare_var(&p.name, ty.clone(), kind);
                let annotations = self.annotations(&p.annotations);
                hir::Param {
                    id,
                    name: p.name.name.clone(),
                    direction: p.direction,
                    ty,
                    default,
                    annotations,
                }
            })
            .collect()
    }

    pub(super) fn action(
        &mut self,
        decl: &Decl,
        action: &ast::ActionDecl,
        top_level: bool,
    ) -> hir::Action {
        let id = self.fresh();
        let (params, body) = self.placed(Place::Action, |c| {
            let ret = std::mem::replace(&mut c.ret, Type::Void);
            let result = c.scoped(|c| {
                let params = c.params(&action.params, false);
                let mut data = false;
                for (p, decl) in params.iter().zip(&action.params) {
                    if p.direction == Direction::None {
                        data = true;
                    } else if data {
                        let help = "parameters without a direction come from the table's entries: put them last";
                        c.error_help(decl.name.span, "a parameter with a direction follows one without", help);
                    }
                }
                (params, c.scoped(|c| c.statements(&action.body)))
            });
            c.ret = ret;
            result
        });
        let annotations = self.annotations(&decl.annotations);
        hir::Action { id, name: decl.name.name.clone(), top_level, params, body, annotations }
    }

    fn function(&mut self, name: &Ident, function: &ast::FunctionDecl) {
        if let Some(first) = function.type_params.first() {
            self.unsupported(first.span, "type parameters of functions are");
            self.declare(name, Entry::Broken);
            return;
        }
        if matches!(self.lookup_global(&name.name), Some(Entry::Function(_))) {
            self.unsupported(name.span, "overloaded functions are");
            return;
        }
        let ret = self.resolve(&function.ret);
        let (params, body) = self.placed(Place::Function, |c| {
            let outer = std::mem::replace(&mut c.ret, ret.clone());
            let result = c.scoped(|c| {
                let params = c.params(&function.params, false);
                (params, c.scoped(|c| c.statements(&function.body)))
            });
            c.ret = outer;
            result
        });
        if ret != Type::Void && !matches!(ret, Type::Unknown) && !always_returns(&body) {
            self.error(name.span, format!("function `{}` can end without `return`", name.name));
        }
        let function =
            hir::Function { name: name.name.clone(), span: name.span, params, ret, body };
        self.declare(name, Entry::Function(Rc::new(function)));
    }
}

/// Whether a header can have a field of the type.
fn scalar_field(ty: &Type) -> bool {
    match ty {
        Type::Bit(_)
        | Type::Signed(_)
        | Type::Bool
        | Type::SerEnum(_)
        | Type::Varbit(_)
        | Type::Unknown => true,
        Type::New(n) => scalar_field(&n.repr),
        Type::Struct(s) => {
            s.what == Aggregate::Struct && s.fields.iter().all(|f| scalar_field(&f.ty))
        }
        _ => false,
    }
}

/// Whether a checked expression is a compile-time constant.
pub(super) fn is_constant(e: &hir::Expr) -> bool {
    use hir::ExprKind as K;
    match &e.kind {
        K::Int(_) | K::Bool(_) | K::Text(_) | K::Member(_) | K::Invalid | K::Error => true,
        K::List(items) => items.iter().all(is_constant),
        K::Record(items) => items.iter().all(|(_, e)| is_constant(e)),
        _ => false,
    }
}

/// Whether a loop's body can leave the loop by `break`.
fn breaks(body: &[hir::Stmt]) -> bool {
    body.iter().any(|s| match &s.kind {
        hir::StmtKind::Break => true,
        hir::StmtKind::If(_, then, otherwise) => breaks(then) || breaks(otherwise),
        hir::StmtKind::Block(body) => breaks(body),
        hir::StmtKind::Switch(_, cases, default) => {
            breaks(default) || cases.iter().any(|(_, body)| breaks(body))
        }
        hir::StmtKind::SwitchAction(_, cases, default) => {
            breaks(default) || cases.iter().any(|(_, body)| breaks(body))
        }
        _ => false,
    })
}

fn always_returns(body: &[hir::Stmt]) -> bool {
    body.iter().any(|s| match &s.kind {
        hir::StmtKind::Return(_) | hir::StmtKind::Exit => true,
        hir::StmtKind::If(_, then, otherwise) => always_returns(then) && always_returns(otherwise),
        hir::StmtKind::Block(body) => always_returns(body),
        hir::StmtKind::Switch(_, cases, default) => {
            always_returns(default) && cases.iter().all(|(_, body)| always_returns(body))
        }
        // Without a condition that fails, a loop ends by `break` or `return` only.
        hir::StmtKind::For { condition, body, .. } => {
            matches!(condition.kind, hir::ExprKind::Bool(true)) && !breaks(body)
        }
        _ => false,
    })
}
