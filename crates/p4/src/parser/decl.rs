//! Declarations.

use std::rc::Rc;

use super::{Parse, Parser};
use crate::ast::{
    ActionDecl, Aggregate, Annotations, BlockType, Decl, DeclKind, FieldDecl, FunctionDecl, Ident,
    Method, TypeRef,
};
use crate::lexer::Kind;
use crate::source::Span;

impl Parser<'_, '_> {
    /// A declaration at the top level; `None` for a stray `;`.
    pub(super) fn declaration(&mut self) -> Parse<Option<Decl>> {
        let start = self.span();
        if self.eat(Kind::Semicolon) {
            return Ok(None);
        }
        let annotations = self.annotations()?;
        let decl = match self.kind() {
            Kind::Const => self.constant(start, annotations)?,
            Kind::Typedef => self.alias(start, annotations, false)?,
            Kind::Ident if self.word() == "type" && !self.is_type("type") => {
                self.alias(start, annotations, true)?
            }
            Kind::Enum => self.enumeration(start, annotations)?,
            Kind::Error if self.ahead(1) == Kind::LBrace => self.members(start, annotations)?,
            Kind::MatchKeyword => self.members(start, annotations)?,
            Kind::Header | Kind::Struct | Kind::HeaderUnion => {
                self.aggregate(start, annotations)?
            }
            Kind::Extern => self.external(start, annotations)?,
            Kind::Package => self.package(start, annotations)?,
            Kind::Parser => self.parser_decl(start, annotations)?,
            Kind::Control => self.control_decl(start, annotations)?,
            Kind::Action => self.action(start, annotations)?,
            _ => self.typed_declaration(start, annotations)?,
        };
        Ok(Some(decl))
    }

    pub(super) fn decl(
        &self,
        start: Span,
        annotations: Annotations,
        name: Ident,
        kind: DeclKind,
    ) -> Decl {
        Decl { annotations, span: self.since(start), name, kind }
    }

    /// `const T x = e;`
    pub(super) fn constant(&mut self, start: Span, annotations: Annotations) -> Parse<Decl> {
        self.bump();
        let ty = self.type_ref()?;
        let name = self.name("the constant's name")?;
        self.expect(Kind::Assign, "`=` and the constant's value")?;
        let value = self.expression()?;
        self.expect_semicolon("the constant")?;
        self.declare(&name.name, false);
        Ok(self.decl(start, annotations, name, DeclKind::Const { ty, value }))
    }

    fn alias(&mut self, start: Span, annotations: Annotations, new: bool) -> Parse<Decl> {
        self.bump();
        // `typedef struct S {…} T` is C, not P4.
        let ty = self.type_ref()?;
        let name = self.new_type_name("the new type's name")?;
        self.expect_semicolon("the type")?;
        Ok(self.decl(start, annotations, name, DeclKind::Alias { ty, new }))
    }

    fn new_type_name(&mut self, what: &str) -> Parse<Ident> {
        let name = self.name(what)?;
        self.declare(&name.name, true);
        Ok(name)
    }

    fn enumeration(&mut self, start: Span, annotations: Annotations) -> Parse<Decl> {
        self.bump();
        let ty = if self.kind() == Kind::Ident && self.ahead(1) == Kind::LBrace {
            None
        } else {
            Some(self.type_ref()?)
        };
        let name = self.new_type_name("the enum's name")?;
        self.expect(Kind::LBrace, "`{` and the enum's members")?;
        let Some(ty) = ty else {
            let members = self.comma_list(Kind::RBrace, "`,` or `}`", |p| {
                p.annotations()?;
                p.name("a member's name")
            })?;
            return Ok(self.decl(start, annotations, name, DeclKind::Enum { members }));
        };
        let members = self.comma_list(Kind::RBrace, "`,` or `}`", |p| {
            p.annotations()?;
            let name = p.name("a member's name")?;
            p.expect(Kind::Assign, "`=` and the member's value")?;
            Ok((name, p.expression()?))
        })?;
        Ok(self.decl(start, annotations, name, DeclKind::SerEnum { ty, members }))
    }

    /// `error { A, B }` and `match_kind { a, b }`.
    fn members(&mut self, start: Span, annotations: Annotations) -> Parse<Decl> {
        let token = self.bump();
        let name = Ident { name: self.intern(self.slice(token.span)), span: token.span };
        self.expect(Kind::LBrace, "`{`")?;
        let members = self.comma_list(Kind::RBrace, "`,` or `}`", |p| {
            p.annotations()?;
            p.name("a member's name")
        })?;
        let kind = match token.kind {
            Kind::Error => DeclKind::Errors { members },
            _ => DeclKind::MatchKinds { members },
        };
        Ok(self.decl(start, annotations, name, kind))
    }

    fn aggregate(&mut self, start: Span, annotations: Annotations) -> Parse<Decl> {
        let what = match self.bump().kind {
            Kind::Header => Aggregate::Header,
            Kind::Struct => Aggregate::Struct,
            _ => Aggregate::Union,
        };
        let name = self.new_type_name("the type's name")?;
        let (type_params, fields) = self.scoped(|p| {
            let type_params = p.type_params()?;
            p.expect(Kind::LBrace, "`{` and the fields")?;
            let mut fields = Vec::new();
            p.until_brace(|p| {
                let annotations = p.annotations()?;
                let ty = p.type_ref()?;
                let name = p.name("the field's name")?;
                let ty = p.sizes_behind(ty)?;
                p.expect_semicolon("the field")?;
                fields.push(FieldDecl { annotations, ty, name });
                Ok(())
            })?;
            Ok((type_params, fields))
        })?;
        Ok(self.decl(start, annotations, name, DeclKind::Aggregate { what, type_params, fields }))
    }

    fn external(&mut self, start: Span, annotations: Annotations) -> Parse<Decl> {
        self.bump();
        // `extern Name {` or `extern Name<T> {` declares a type, anything else a function.
        let is_type = self.kind() == Kind::Ident && {
            let mut n = 1;
            if self.ahead(1) == Kind::Less {
                while !matches!(self.ahead(n), Kind::Greater | Kind::End | Kind::Semicolon) {
                    n += 1;
                }
                n += 1;
            }
            self.ahead(n) == Kind::LBrace
        };
        if !is_type {
            let method = self.scoped(|p| p.method(None))?;
            self.expect_semicolon("the function")?;
            self.declare(&method.name.name, false);
            let name = method.name.clone();
            return Ok(self.decl(start, annotations, name, DeclKind::ExternFunction(method)));
        }
        let name = self.new_type_name("the extern's name")?;
        let (type_params, methods) = self.scoped(|p| {
            let type_params = p.type_params()?;
            p.expect(Kind::LBrace, "`{`")?;
            let mut methods = Vec::new();
            p.until_brace(|p| {
                p.annotations()?;
                let method = p.scoped(|p| p.method(Some(&name)))?;
                p.expect_semicolon("the method")?;
                methods.push(method);
                Ok(())
            })?;
            Ok((type_params, methods))
        })?;
        Ok(self.decl(start, annotations, name, DeclKind::Extern { type_params, methods }))
    }

    /// A prototype. In an extern of this name, also its constructor.
    fn method(&mut self, owner: Option<&Ident>) -> Parse<Method> {
        let is_abstract = self.eat(Kind::Abstract);
        let constructor =
            owner.is_some_and(|o| self.is_word(&o.name)) && self.ahead(1) == Kind::LParen;
        if constructor {
            let name = self.name("the constructor")?;
            let params = self.params()?;
            return Ok(Method { name, ret: None, type_params: Vec::new(), params, is_abstract });
        }
        // The return type may be a type parameter that is declared only after it.
        let (ret, name) = self.type_and_name("the function's name")?;
        let type_params = self.type_params()?;
        let params = self.params()?;
        Ok(Method { name, ret: Some(ret), type_params, params, is_abstract })
    }

    fn type_and_name(&mut self, what: &str) -> Parse<(TypeRef, Ident)> {
        let ty = self.type_ref()?;
        Ok((ty, self.name(what)?))
    }

    fn package(&mut self, start: Span, annotations: Annotations) -> Parse<Decl> {
        self.bump();
        let name = self.new_type_name("the package's name")?;
        let (type_params, params) = self.scoped(|p| Ok((p.type_params()?, p.params()?)))?;
        self.expect_semicolon("the package")?;
        Ok(self.decl(start, annotations, name, DeclKind::Package { type_params, params }))
    }

    pub(super) fn block_type(&mut self) -> Parse<BlockType> {
        Ok(BlockType { type_params: self.type_params()?, params: self.params()? })
    }

    pub(super) fn action(&mut self, start: Span, annotations: Annotations) -> Parse<Decl> {
        self.bump();
        let name = self.name("the action's name")?;
        self.declare(&name.name, false);
        let (params, body) = self.scoped(|p| Ok((p.params()?, p.block("the action's body")?)))?;
        Ok(self.decl(
            start,
            annotations,
            name,
            DeclKind::Action(Rc::new(ActionDecl { params, body })),
        ))
    }

    /// A declaration that starts with a type: an instance, a function or (not at the top level) a
    /// variable.
    pub(super) fn typed_declaration(
        &mut self,
        start: Span,
        annotations: Annotations,
    ) -> Parse<Decl> {
        if self.kind() == Kind::ValueSet {
            return self.value_set(start, annotations);
        }
        // A function's return type may be one of its own type parameters: `T max<T>(…)`.
        let generic = self.kind() == Kind::Ident
            && self.ahead(1) == Kind::Ident
            && self.ahead(2) == Kind::Less;
        if !self.at_type() && !generic {
            let help = self.kind() == Kind::Ident && self.ahead(1) == Kind::Ident;
            if help {
                let message = format!("there is no type `{}`", self.word());
                self.error(self.span(), message);
                return Err(super::Failed);
            }
            if self.kind() == Kind::LBrace && self.ahead(1) == Kind::Text {
                let help = "this looks like p4c's output in JSON, which only BMv2 takes: give the \
                            program's source";
                let message = format!("expected a declaration, found {}", self.found());
                self.reporter.error_help(self.span(), message, help);
                return Err(super::Failed);
            }
            return Err(self.unexpected("a declaration"));
        }
        let ty = self.type_ref()?;
        if self.kind() == Kind::LParen {
            let args = self.args()?;
            let name = self.name("the instance's name")?;
            self.declare(&name.name, false);
            let body = if self.kind() == Kind::Assign && self.ahead(1) == Kind::LBrace {
                self.bump();
                self.bump();
                Some(self.methods()?)
            } else {
                None
            };
            self.expect_semicolon("the instance")?;
            return Ok(self.decl(start, annotations, name, DeclKind::Instance { ty, args, body }));
        }
        let name = self.name("a name")?;
        self.declare(&name.name, false);
        if matches!(self.kind(), Kind::LParen | Kind::Less) {
            let (type_params, params, body) = self.scoped(|p| {
                let type_params = p.type_params()?;
                Ok((type_params, p.params()?, p.block("the function's body")?))
            })?;
            let function = FunctionDecl { ret: ty, type_params, params, body };
            return Ok(self.decl(start, annotations, name, DeclKind::Function(Rc::new(function))));
        }
        let init = if self.eat(Kind::Assign) { Some(self.expression()?) } else { None };
        self.expect_semicolon("the variable")?;
        Ok(self.decl(start, annotations, name, DeclKind::Variable { ty, init }))
    }

    /// The methods of an instance, up to the closing brace.
    fn methods(&mut self) -> Parse<Vec<Decl>> {
        self.scoped(|p| {
            let mut methods = Vec::new();
            p.until_brace(|p| {
                let start = p.span();
                let annotations = p.annotations()?;
                let decl = p.nested(|p| p.typed_declaration(start, annotations))?;
                if !matches!(decl.kind, DeclKind::Function(_)) {
                    p.error(decl.name.span, "an instance gives methods only".to_owned());
                    return Err(super::Failed);
                }
                methods.push(decl);
                Ok(())
            })?;
            Ok(methods)
        })
    }

    /// `value_set<T>(size) name;`
    fn value_set(&mut self, start: Span, annotations: Annotations) -> Parse<Decl> {
        self.bump();
        self.expect(Kind::Less, "`<` and the type of the set's values")?;
        let ty = self.type_ref()?;
        self.expect(Kind::Greater, "`>` after the type of the set's values")?;
        let args = self.args()?;
        let name = self.name("the value set's name")?;
        self.declare(&name.name, false);
        self.expect_semicolon("the value set")?;
        Ok(self.decl(start, annotations, name, DeclKind::ValueSet { ty, args }))
    }
}
