//! Parsers, controls and tables.

use std::rc::Rc;

use super::{Parse, Parser};
use crate::ast::{
    ActionRef, Annotations, ControlDecl, Decl, DeclKind, EntryDecl, KeyElement, ParserDecl,
    Property, PropertyKind, SelectCase, StateDecl, TableDecl, Transition,
};
use crate::lexer::Kind;
use crate::source::Span;

impl Parser<'_, '_> {
    pub(super) fn parser_decl(&mut self, start: Span, annotations: Annotations) -> Parse<Decl> {
        self.bump();
        let name = self.name("the parser's name")?;
        self.declare(&name.name, true);
        let kind = self.scoped(|p| {
            let signature = p.block_type()?;
            if p.eat(Kind::Semicolon) {
                return Ok(DeclKind::ParserType(signature));
            }
            let ctor_params = if p.kind() == Kind::LParen { p.params()? } else { Vec::new() };
            p.expect(Kind::LBrace, "`{` and the parser's states")?;
            let (mut locals, mut states) = (Vec::new(), Vec::new());
            p.until_brace(|p| {
                let start = p.span();
                if p.eat(Kind::Semicolon) {
                    return Ok(());
                }
                let annotations = p.annotations()?;
                if p.is_word("state") && p.ahead(1) == Kind::Ident {
                    states.push(p.state()?);
                } else if p.kind() == Kind::Const {
                    locals.push(p.constant(start, annotations)?);
                } else {
                    locals.push(p.typed_declaration(start, annotations)?);
                }
                Ok(())
            })?;
            Ok(DeclKind::Parser(Rc::new(ParserDecl { signature, ctor_params, locals, states })))
        })?;
        Ok(self.decl(start, annotations, name, kind))
    }

    fn state(&mut self) -> Parse<StateDecl> {
        self.bump();
        let name = self.name("the state's name")?;
        self.expect(Kind::LBrace, "`{` and the state's body")?;
        let mut body = Vec::new();
        let mut transition = Transition::None;
        self.scoped(|p| {
            p.until_brace(|p| {
                if p.eat(Kind::Transition) {
                    transition = p.transition()?;
                    if p.kind() != Kind::RBrace {
                        return Err(p.unexpected("`}`: the transition is a state's last statement"));
                    }
                } else {
                    body.push(p.statement()?);
                }
                Ok(())
            })
        })?;
        Ok(StateDecl { name, body, transition })
    }

    fn transition(&mut self) -> Parse<Transition> {
        if !self.eat(Kind::Select) {
            let target = self.name("a state's name")?;
            self.expect_semicolon("the transition")?;
            return Ok(Transition::To(target));
        }
        self.expect(Kind::LParen, "`(` and what to select on")?;
        let on = self.comma_list(Kind::RParen, "`,` or `)`", Self::expression)?;
        self.expect(Kind::LBrace, "`{` and the cases")?;
        let mut cases = Vec::new();
        self.until_brace(|p| {
            let keyset = p.keyset()?;
            p.expect(Kind::Colon, "`:` after the case's value")?;
            let target = p.name("a state's name")?;
            p.expect_semicolon("the state's name")?;
            cases.push(SelectCase { keyset, target });
            Ok(())
        })?;
        // The specification has no semicolon here, but many programs do.
        self.eat(Kind::Semicolon);
        Ok(Transition::Select { on, cases })
    }

    pub(super) fn control_decl(&mut self, start: Span, annotations: Annotations) -> Parse<Decl> {
        self.bump();
        let name = self.name("the control's name")?;
        self.declare(&name.name, true);
        let kind = self.scoped(|p| {
            let signature = p.block_type()?;
            if p.eat(Kind::Semicolon) {
                return Ok(DeclKind::ControlType(signature));
            }
            let ctor_params = if p.kind() == Kind::LParen { p.params()? } else { Vec::new() };
            p.expect(Kind::LBrace, "`{` and the control's declarations")?;
            let (mut locals, mut apply) = (Vec::new(), None);
            p.until_brace(|p| {
                let start = p.span();
                if p.eat(Kind::Semicolon) {
                    return Ok(());
                }
                let annotations = p.annotations()?;
                if p.is_word("apply") && matches!(p.ahead(1), Kind::LBrace | Kind::At) {
                    p.bump();
                    apply = Some(p.block("the statements to apply")?);
                    return Ok(());
                }
                let decl = match p.kind() {
                    Kind::Action => p.action(start, annotations)?,
                    Kind::Table => p.table(start, annotations)?,
                    Kind::Const => p.constant(start, annotations)?,
                    _ => p.typed_declaration(start, annotations)?,
                };
                locals.push(decl);
                Ok(())
            })?;
            let Some(apply) = apply else {
                let message = format!("control `{}` has no `apply` block", name.name);
                p.error(name.span, message);
                return Err(super::Failed);
            };
            Ok(DeclKind::Control(Rc::new(ControlDecl { signature, ctor_params, locals, apply })))
        })?;
        Ok(self.decl(start, annotations, name, kind))
    }

    fn table(&mut self, start: Span, annotations: Annotations) -> Parse<Decl> {
        self.bump();
        let name = self.name("the table's name")?;
        self.declare(&name.name, false);
        self.expect(Kind::LBrace, "`{` and the table's properties")?;
        let mut properties = Vec::new();
        self.until_brace(|p| {
            properties.push(p.property()?);
            Ok(())
        })?;
        Ok(self.decl(start, annotations, name, DeclKind::Table(Rc::new(TableDecl { properties }))))
    }

    fn property(&mut self) -> Parse<Property> {
        let annotations = self.annotations()?;
        let is_const = self.eat(Kind::Const);
        let name = self.name("a property of the table")?;
        self.expect(Kind::Assign, "`=` after the property's name")?;
        let list = self.kind() == Kind::LBrace;
        let kind = match &*name.name {
            "key" if list => {
                self.bump();
                let mut keys = Vec::new();
                self.until_brace(|p| {
                    let value = p.expression()?;
                    p.expect(Kind::Colon, "`:` and the kind of match")?;
                    let kind = p.name("a kind of match")?;
                    let annotations = p.annotations()?;
                    p.expect_semicolon("the key")?;
                    keys.push(KeyElement { annotations, value, kind });
                    Ok(())
                })?;
                PropertyKind::Key(keys)
            }
            "actions" if list => {
                self.bump();
                let mut actions = Vec::new();
                self.until_brace(|p| {
                    let annotations = p.annotations()?;
                    let value = p.action_call()?;
                    // A comma between actions is not in the specification, but BMv2 programs use
                    // it.
                    if !p.eat(Kind::Comma) {
                        p.expect_semicolon("the action")?;
                    }
                    actions.push(ActionRef { annotations, value });
                    Ok(())
                })?;
                PropertyKind::Actions(actions)
            }
            "entries" if list => {
                self.bump();
                let mut entries = Vec::new();
                self.until_brace(|p| {
                    entries.push(p.entry()?);
                    Ok(())
                })?;
                PropertyKind::Entries(entries)
            }
            _ => {
                let value = self.expression()?;
                self.expect_semicolon("the property")?;
                return Ok(Property {
                    annotations,
                    is_const,
                    name,
                    kind: PropertyKind::Value(value),
                });
            }
        };
        self.eat(Kind::Semicolon);
        Ok(Property { annotations, is_const, name, kind })
    }

    fn entry(&mut self) -> Parse<EntryDecl> {
        let is_const = self.eat(Kind::Const);
        let priority = if self.is_word("priority") && self.ahead(1) == Kind::Assign {
            self.bump();
            self.bump();
            let value = self.expression()?;
            self.expect(Kind::Colon, "`:` after the priority")?;
            Some(value)
        } else {
            None
        };
        let keyset = self.keyset()?;
        self.expect(Kind::Colon, "`:` and the entry's action")?;
        let action = self.action_call()?;
        let annotations = self.annotations()?;
        self.expect_semicolon("the entry")?;
        Ok(EntryDecl { annotations, is_const, priority, keyset, action })
    }
}
