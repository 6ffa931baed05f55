//! Declarations outside of parsers and controls.

use std::cell::RefCell;
use std::rc::Rc;

use num_bigint::BigInt;

use super::{Checker, Entry, FunctionBody, FunctionEntry, GenericFunction, Place, VarKind};
use crate::ast::{self, Aggregate, Decl, DeclKind, Direction, Ident, Method, Str};
use crate::hir;
use crate::limits::{CALL_DEPTH, NAME_BYTES};
use crate::source::{Reporter, Span};
use crate::types::{
    BlockKind, BlockType, EnumType, Extent, ExternType, FieldType, GenericStruct, NewType,
    PackageType, ParamType, SerEnumType, Signature, StructType, Type, TypeVar,
};

/// Adds the names of a declaration to those of earlier ones.
fn collect(reporter: &mut Reporter<'_>, what: &str, names: &[Ident], all: &mut Vec<Str>) {
    for name in names {
        reporter.work(all.len() as u64 / 16);
        if all.contains(&name.name) {
            reporter.error(name.span, format!("{what} `{}` is declared twice", name.name));
        } else {
            all.push(name.name.clone());
        }
    }
}

impl Checker<'_, '_> {
    pub(super) fn top_level(&mut self, decl: &Decl) {
        let name = &decl.name;
        if &*name.name == "main" && matches!(decl.kind, DeclKind::Extern { .. }) {
            let help = "only the instance of a package that runs the program has this name";
            self.error_help(name.span, "`main` is not a package", help);
        }
        if matches!(
            decl.kind,
            DeclKind::Const { .. }
                | DeclKind::Alias { new: false, .. }
                | DeclKind::Function(_)
                | DeclKind::Extern { .. }
                | DeclKind::ExternFunction(_)
        ) {
            // The result is not needed, but errors must be reported.
            self.annotations(&decl.annotations);
        }
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
                collect(self.reporter, "error", members, &mut self.errors);
            }
            DeclKind::MatchKinds { members } => {
                collect(self.reporter, "match kind", members, &mut self.match_kinds);
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
            DeclKind::ValueSet { .. } => {
                self.error(decl.span, "value sets are declared inside parsers");
                self.declare(name, Entry::Broken);
            }
            DeclKind::Table(_) => self.error(decl.span, "tables are declared inside controls"),
        }
    }

    /// Reports duplicate names.
    fn distinct<'a>(&mut self, names: impl Iterator<Item = &'a Ident>) {
        let mut seen = std::collections::HashMap::new();
        for name in names {
            if let Some(first) = seen.insert(name.name.clone(), name.span) {
                let message = format!("`{}` is declared twice", name.name);
                self.reporter.error_at(name.span, message, "declared first", first);
            }
        }
    }

    /// `const T x = e;` in any scope.
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
        if !matches!(ty, Type::Bit(_) | Type::Signed(_) | Type::Bool | Type::New(_) | Type::Unknown)
        {
            let message = format!("`type` makes new types from integers and bool, not from {ty}");
            self.error(decl.name.span, message);
        }
        let annotations = self.annotations(&decl.annotations);
        for (annotation, written) in annotations.iter().zip(decl.annotations.iter()) {
            if annotation.name == "p4runtime_translation" && !translates(&annotation.body) {
                let message = "this annotation takes a URI, and `string` or a width in bits";
                let help = "write it as in @p4runtime_translation(\"\", string)";
                self.error_help(written.name.span, message, help);
            }
        }
        let new = NewType { id: self.fresh(), name: decl.name.name.clone(), repr: ty, annotations };
        self.declare(&decl.name, Entry::Type(Type::New(Rc::new(new))));
    }

    fn ser_enum(&mut self, name: &Ident, ty: &ast::TypeRef, members: &[(Ident, ast::Expr)]) {
        let repr = self.resolve(ty);
        if !matches!(repr, Type::Bit(_) | Type::Signed(_) | Type::Unknown) {
            self.error(
                ty.span,
                format!("an enum is represented by bit<W> or int<W>, not by {repr}"),
            );
        }
        self.distinct(members.iter().map(|m| &m.0));
        let mut values: Vec<(crate::types::Str, BigInt)> = Vec::new();
        self.scoped(|c| {
            for (member, value) in members {
                let value = c.expect(value, repr.repr());
                match value.int() {
                    Some(v) => {
                        values.push((member.name.clone(), v.clone()));
                        // Later constants may use it.
                        c.scopes.last_mut().map(|scope| {
                            let named =
                                super::Named { entry: Entry::Const(value), span: member.span };
                            scope.insert(member.name.clone(), named)
                        });
                    }
                    None if matches!(value.kind, hir::ExprKind::Error) => {}
                    None => c.error(
                        value.span,
                        format!("the value of `{}` is not known at compile time", member.name),
                    ),
                }
            }
        });
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
        let annotations = self.annotations(&decl.annotations);
        if !type_params.is_empty() {
            self.distinct(type_params.iter());
            self.scoped(|c| {
                c.type_params(type_params);
                c.fields(what, &decl.name, fields);
            });
            let generic = GenericStruct {
                id: self.fresh(),
                what,
                name: decl.name.clone(),
                type_params: type_params.to_vec(),
                fields: fields.to_vec(),
                annotations,
                made: RefCell::default(),
            };
            self.declare(&decl.name, Entry::Generic(Rc::new(generic)));
            return;
        }
        let fields = self.fields(what, &decl.name, fields);
        let (id, name, span) = (self.fresh(), decl.name.name.clone(), decl.name.span);
        let extent = Extent::of_parts(fields.iter().map(|f| &f.ty));
        let of_controller = annotations.iter().any(|a| a.name == "controller_header");
        let ty = StructType { id, what, name, span, fields, extent, annotations, origin: None };
        let ty = Type::Struct(Rc::new(ty));
        self.bounded(&ty, span);
        if of_controller && what == Aggregate::Header {
            self.controller_headers.push(ty.clone());
        }
        self.declare(&decl.name, Entry::Type(ty));
    }

    /// Instantiates a generic struct.
    pub(super) fn make_struct(
        &mut self,
        generic: &Rc<GenericStruct>,
        args: &[Type],
        span: Span,
    ) -> Type {
        if args.iter().any(|arg| contains(arg, generic.id)) {
            let name = &generic.name.name;
            let message = format!("`{name}` cannot be part of its own type arguments");
            self.reporter.error(span, message);
            return Type::Unknown;
        }
        if args.iter().any(Type::is_open) {
            return Type::Generic(generic.clone(), args.into());
        }
        self.reporter.work(generic.made.borrow().len() as u64);
        let known = generic.made.borrow().iter().find(|(of, _)| **of == *args).cloned();
        if let Some((_, ty)) = known {
            return ty;
        }
        let fields = self.at_top_level(&generic.type_params, args, |c| {
            c.fields(generic.what, &generic.name, &generic.fields)
        });
        let list: Vec<String> = args.iter().map(ToString::to_string).collect();
        let name = format!("{}<{}>", generic.name.name, list.join(", "));
        if name.len() > NAME_BYTES {
            let message = format!("a type with a name of more than {NAME_BYTES} bytes");
            let help = "give it fewer type arguments, or such as have none themselves";
            self.reporter.stop(generic.name.span, message, help);
        }
        let args: Rc<[Type]> = args.into();
        let extent = Extent::of_parts(fields.iter().map(|f| &f.ty));
        let ty = Type::Struct(Rc::new(StructType {
            id: self.fresh(),
            what: generic.what,
            name: name.into(),
            span: generic.name.span,
            fields,
            extent,
            annotations: generic.annotations.clone(),
            origin: Some((generic.id, args.clone())),
        }));
        generic.made.borrow_mut().push((args, ty.clone()));
        ty
    }

    /// Runs `f` with only top-level declarations and the given type parameters in scope.
    fn at_top_level<T>(
        &mut self,
        type_params: &[Ident],
        args: &[Type],
        f: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.depth += 1;
        if self.depth > CALL_DEPTH {
            let message =
                format!("more than {CALL_DEPTH} generic types or functions inside one another");
            let span = type_params.first().map_or_else(Span::default, |p| p.span);
            self.reporter.stop(span, message, "reduce how often they use one another");
        }
        let inner = self.scopes.split_off(1);
        let result = self.scoped(|c| {
            for (param, arg) in type_params.iter().zip(args) {
                c.declare(param, Entry::Type(arg.clone()));
            }
            f(c)
        });
        self.scopes.extend(inner);
        self.depth -= 1;
        result
    }

    /// The fields of a struct, header or union.
    fn fields(
        &mut self,
        what: Aggregate,
        name: &Ident,
        fields: &[ast::FieldDecl],
    ) -> Vec<FieldType> {
        self.distinct(fields.iter().map(|f| &f.name));
        let mut list = Vec::with_capacity(fields.len());
        for field in fields {
            let mut ty = self.resolve(&field.ty);
            let fits = match what {
                // It depends on the type argument.
                _ if matches!(ty, Type::Var(_) | Type::Generic(..)) || ty.is_opaque() => true,
                Aggregate::Header => scalar_field(&ty),
                Aggregate::Union => ty.as_header().is_some() || matches!(ty, Type::Unknown),
                Aggregate::Struct => {
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
                let kind = match what {
                    Aggregate::Header => "header",
                    Aggregate::Struct => "struct",
                    Aggregate::Union => "header union",
                };
                self.error(field.ty.span, format!("a {kind} cannot have a field of type {ty}"));
                ty = Type::Unknown;
            }
            list.push(FieldType {
                name: field.name.name.clone(),
                ty,
                annotations: self.field_annotations(&field.annotations),
            });
        }
        let varbits = list.iter().map(|f| varbits(&f.ty)).sum::<u32>();
        if what == Aggregate::Header && varbits > 1 {
            self.unsupported(name.span, "a header with several varbit fields is");
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
                let of = if method.ret.is_none() { &mut constructors } else { &mut list };
                let twin = |known: &Rc<Signature>| {
                    known.name == signature.name && known.same_names(&signature)
                };
                if method.ret.is_some() && method.name.name == name.name {
                    let message = format!("a constructor of `{}` returns nothing", name.name);
                    c.error_help(method.name.span, message, "leave out the type before its name");
                } else if of.iter().any(twin) {
                    let message = format!("`{}` is declared twice", method.name.name);
                    let help = "overloads differ in the number or the names of their parameters";
                    c.error_help(method.name.span, message, help);
                }
                of.push(signature);
            }
            (type_params, constructors, list)
        });
        let ty = ExternType { id, name: name.name.clone(), type_params, constructors, methods };
        self.declare(name, Entry::Extern(Rc::new(ty)));
    }

    /// A prototype. Its type parameters are declared in the current scope.
    fn signature(&mut self, method: &Method) -> Signature {
        let type_params = self.type_params(&method.type_params);
        let ret = method.ret.as_ref().map_or(Type::Void, |t| self.resolve(t));
        if let (Type::Int | Type::Text, Some(written)) = (&ret, &method.ret) {
            let message = format!("a method of an extern cannot return {ret}");
            self.error_help(written.span, message, "give the result a width, as in bit<32>");
        }
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
        self.distinct(params.iter().map(|p| &p.name));
        params
            .iter()
            .map(|p| {
                let ty = self.resolve(&p.ty);
                self.may_have_direction(&ty, p);
                self.default_of(p, &ty);
                ParamType {
                    name: p.name.name.clone(),
                    direction: p.direction,
                    ty,
                    optional: p.default.is_some()
                        || p.annotations.iter().any(|a| &*a.name.name == "optional"),
                }
            })
            .collect()
    }

    /// The default value of a parameter.
    fn default_of(&mut self, param: &ast::Param, ty: &Type) -> Option<hir::Expr> {
        let default = param.default.as_ref()?;
        if !matches!(param.direction, Direction::None | Direction::In) {
            let message = format!("`{}` is written to: it has no default value", param.name.name);
            self.error(default.span, message);
        }
        if param.annotations.iter().any(|a| &*a.name.name == "optional") {
            let message =
                format!("`{}` has a default value: it needs no @optional", param.name.name);
            self.error(param.name.span, message);
        }
        let value = match ty.is_open() {
            true => self.expr(default),
            false => self.expect(default, ty),
        };
        let instance = matches!(value.kind, hir::ExprKind::Construct(_) | hir::ExprKind::Var(_));
        if !instance && !is_constant(&value) {
            self.error(value.span, "a default value must be known at compile time");
        }
        Some(value)
    }

    /// Reports a direction on a parameter that is a compile-time value.
    fn may_have_direction(&mut self, ty: &Type, param: &ast::Param) {
        let fixed = matches!(
            ty,
            Type::Extern(..) | Type::Text | Type::Int | Type::Block(_) | Type::Package(_)
        );
        if fixed && param.direction != Direction::None {
            let message = format!("a parameter of type {ty} has no direction");
            self.error(param.name.span, message);
        }
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

    /// Converts parameters, and declares them in the current scope.
    pub(super) fn params(&mut self, params: &[ast::Param], ctor: bool) -> Vec<hir::Param> {
        params
            .iter()
            .map(|p| {
                let ty = self.resolve(&p.ty);
                self.may_have_direction(&ty, p);
                let default = self.default_of(p, &ty);
                let kind = if ctor { VarKind::Ctor } else { VarKind::Param(p.direction) };
                if let (ast::TypeKind::Name(name), Type::Block(_)) = (&p.ty.kind, &ty)
                    && matches!(self.lookup(&name.name), Some(Entry::Block(_)))
                {
                    let message = format!("a parameter of type {ty}, which has a body");
                    let help = "declare a type of parsers or controls, without a body, for it";
                    self.error_help(p.ty.span, message, help);
                }
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
                    span: p.name.span,
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
                    if let Type::Extern(..) | Type::Int = p.ty {
                        let message = format!("an action has no parameter of type {}", p.ty);
                        c.error(decl.name.span, message);
                    }
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

    fn function(&mut self, name: &Ident, function: &Rc<ast::FunctionDecl>) {
        let signature = self.scoped(|c| {
            let type_params = c.type_params(&function.type_params);
            let ret = c.resolve(&function.ret);
            let params = c.param_types(&function.params);
            let name = name.name.clone();
            Rc::new(Signature { name, type_params, params, ret, is_abstract: false })
        });
        let body = if function.type_params.is_empty() {
            FunctionBody::Plain(self.function_body(name, function))
        } else {
            let generic = Rc::new(GenericFunction {
                name: name.clone(),
                decl: function.clone(),
                made: RefCell::default(),
            });
            // Checked for types of which nothing is known, even if it is never called.
            let opaque: Vec<Type> = function.type_params.iter().map(|p| self.opaque(p)).collect();
            self.make_function(&generic, &opaque);
            FunctionBody::Generic(generic)
        };
        self.declare(name, Entry::Functions(vec![FunctionEntry { signature, body }]));
    }

    /// A type of which nothing is known.
    fn opaque(&mut self, name: &Ident) -> Type {
        let (id, name) = (self.fresh(), name.name.clone());
        let repr = Type::Var(TypeVar { id, name: name.clone() });
        Type::New(Rc::new(NewType { id: self.fresh(), name, repr, annotations: Vec::new() }))
    }

    /// Checks a function in the current scope.
    fn function_body(&mut self, name: &Ident, function: &ast::FunctionDecl) -> Rc<hir::Function> {
        let ret = self.resolve(&function.ret);
        let (params, body) = self.placed(Place::Function, |c| {
            let outer = std::mem::replace(&mut c.ret, ret.clone());
            let loops = std::mem::take(&mut c.loops);
            let result = c.scoped(|c| {
                let params = c.params(&function.params, false);
                (params, c.scoped(|c| c.statements(&function.body)))
            });
            c.loops = loops;
            c.ret = outer;
            result
        });
        let returns = matches!(ret, Type::Void | Type::Unknown) || always_returns(&body);
        if self.complete && !returns {
            self.error(name.span, format!("function `{}` can end without `return`", name.name));
        }
        let (name, span) = (name.name.clone(), name.span);
        Rc::new(hir::Function { name, span, params, ret, body })
    }

    /// Instantiates a generic function; `None` if it calls itself.
    pub(super) fn make_function(
        &mut self,
        generic: &Rc<GenericFunction>,
        args: &[Type],
    ) -> Option<Rc<hir::Function>> {
        args.iter().for_each(|ty| self.bounded(ty, generic.name.span));
        self.reporter.work(generic.made.borrow().len() as u64);
        let known = generic.made.borrow().iter().find(|(of, _)| of == args).cloned();
        if let Some((_, function)) = known {
            return function;
        }
        generic.made.borrow_mut().push((args.to_vec(), None));
        let function = self.at_top_level(&generic.decl.type_params, args, |c| {
            c.function_body(&generic.name, &generic.decl)
        });
        for (of, made) in generic.made.borrow_mut().iter_mut() {
            if of == args {
                *made = Some(function.clone());
            }
        }
        Some(function)
    }
}

/// Whether a type is an instance of the generic type or extern with this ID, or has it among its
/// type arguments.
pub(super) fn contains(ty: &Type, id: u32) -> bool {
    match ty {
        Type::Struct(s) => match &s.origin {
            Some((of, args)) => *of == id || args.iter().any(|arg| contains(arg, id)),
            None => false,
        },
        Type::Generic(of, args) => of.id == id || args.iter().any(|arg| contains(arg, id)),
        Type::Extern(of, args) => of.id == id || args.iter().any(|arg| contains(arg, id)),
        Type::Tuple(items) => items.iter().any(|item| contains(item, id)),
        Type::Stack(of, _) | Type::List(of) => contains(of, id),
        _ => false,
    }
}

/// Whether the body of `@p4runtime_translation` has the form `"URI", string`, `"URI", bit<W>` or
/// `"URI", W`.
fn translates(body: &str) -> bool {
    let Some((uri, ty)) = body.rsplit_once(',') else { return false };
    let uri = uri.trim();
    let ty = ty.trim();
    let bits = ty.strip_prefix("bit").map_or(ty, str::trim);
    let bits = bits.strip_prefix('<').and_then(|t| t.strip_suffix('>')).unwrap_or(bits);
    uri.len() > 1
        && uri.starts_with('"')
        && uri.ends_with('"')
        && (ty == "string" || bits.trim().parse::<u32>().is_ok_and(|bits| bits > 0))
}

/// Number of varbits in a field of a header.
fn varbits(ty: &Type) -> u32 {
    match ty.repr() {
        Type::Varbit(_) => 1,
        Type::Struct(s) => s.fields.iter().map(|f| varbits(&f.ty)).sum(),
        _ => 0,
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
        Type::Stack(of, _) => !Checker::is_header(of) && scalar_field(of),
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
        K::Int(_) | K::Bool(_) | K::Text(_) | K::Member(_) | K::Invalid | K::Rest | K::Error => {
            true
        }
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
        // A loop without a condition ends only by `break` or `return`.
        hir::StmtKind::For { condition, body, .. } => {
            matches!(condition.kind, hir::ExprKind::Bool(true)) && !breaks(body)
        }
        _ => false,
    })
}
