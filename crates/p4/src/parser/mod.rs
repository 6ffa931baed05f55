//! Recursive-descent parser.
//!
//! P4's grammar depends on which names are types: `(a) - b` is a cast or a difference. The parser
//! tracks scopes of declared names only to decide this; the checker does everything else.
//!
//! After an error it skips to the next `;` or `}` and continues.

mod control;
mod decl;
mod expr;
mod stmt;
mod types;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::ast::{Annotation, AnnotationBody, AnnotationValue, Annotations, Ident, Program, Str};
use crate::lexer::{Kind, Token, values_in_parentheses};
use crate::limits::{HEIGHT, NESTING};
use crate::source::{Reporter, Span};

/// Error: a construct could not be parsed, which has been reported.
pub(crate) struct Failed;

pub(crate) type Parse<T> = Result<T, Failed>;

pub(crate) struct Parser<'r, 't> {
    reporter: &'r mut Reporter<'t>,
    tokens: &'r [Token],
    at: usize,
    strings: HashSet<Str>,
    /// Scopes, innermost last: whether a name is a type.
    scopes: Vec<HashMap<Str, bool>>,
    depth: u32,
    /// Height of the highest tree that was parsed since this depth was entered.
    height: u32,
    no_annotations: Annotations,
    /// Whether a speculative parse is in progress, during which no errors are reported.
    speculative: bool,
}

/// Parses tokens (ending in [`Kind::End`]).
pub(crate) fn parse(reporter: &mut Reporter<'_>, tokens: &[Token]) -> Program {
    let mut parser = Parser {
        reporter,
        tokens,
        at: 0,
        strings: HashSet::new(),
        scopes: vec![HashMap::new()],
        depth: 0,
        height: 0,
        no_annotations: Rc::from([]),
        speculative: false,
    };
    let mut program = Program::default();
    while parser.kind() != Kind::End {
        let before = parser.at;
        match parser.declaration() {
            Ok(Some(decl)) => program.decls.push(decl),
            Ok(None) => {}
            Err(Failed) => {
                parser.scopes.truncate(1);
                parser.depth = 0;
                parser.recover(before);
                if parser.kind() == Kind::RBrace {
                    parser.bump();
                }
            }
        }
    }
    program
}

impl<'t> Parser<'_, 't> {
    fn kind(&self) -> Kind {
        self.tokens[self.at].kind
    }

    fn ahead(&self, n: usize) -> Kind {
        self.tokens.get(self.at + n).map_or(Kind::End, |t| t.kind)
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    /// Span of the preceding token.
    fn previous(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    fn slice(&self, span: Span) -> &'t str {
        &self.reporter.text.text[span.start as usize..span.end as usize]
    }

    fn word(&self) -> &'t str {
        self.slice(self.span())
    }

    /// Whether the current token is that identifier.
    fn is_word(&self, word: &str) -> bool {
        self.kind() == Kind::Ident && self.word() == word
    }

    fn bump(&mut self) -> Token {
        let token = self.tokens[self.at];
        // Some alternatives are tried first, so a token may be consumed several times.
        self.reporter.step(token.span);
        if token.kind != Kind::End {
            self.at += 1;
        }
        token
    }

    fn eat(&mut self, kind: Kind) -> bool {
        let found = self.kind() == kind;
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, kind: Kind, what: &str) -> Parse<Token> {
        if self.kind() == kind { Ok(self.bump()) } else { Err(self.unexpected(what)) }
    }

    fn expect_semicolon(&mut self, after: &str) -> Parse<()> {
        if self.eat(Kind::Semicolon) {
            return Ok(());
        }
        // The error is at the end of the statement, not at the start of the next one.
        let end = self.previous().end as usize;
        let found = self.found();
        self.error(
            Span::new(end.saturating_sub(1), end),
            format!("expected `;` after {after}, found {found}"),
        );
        Err(Failed)
    }

    fn found(&self) -> String {
        match self.kind() {
            Kind::End => "the end of the program".to_owned(),
            _ => format!("`{}`", self.word()),
        }
    }

    fn unexpected(&mut self, what: &str) -> Failed {
        let message = format!("expected {what}, found {}", self.found());
        self.error(self.span(), message);
        Failed
    }

    fn error(&mut self, span: Span, message: String) {
        if !self.speculative {
            self.reporter.error(span, message);
        }
    }

    fn intern(&mut self, text: &str) -> Str {
        if let Some(s) = self.strings.get(text) {
            return s.clone();
        }
        let s: Str = Rc::from(text);
        self.strings.insert(s.clone());
        s
    }

    /// A name in a declaration or a member access.
    fn name(&mut self, what: &str) -> Parse<Ident> {
        if self.kind() != Kind::Ident {
            return Err(self.unexpected(what));
        }
        let span = self.bump().span;
        Ok(Ident { name: self.intern(self.slice(span)), span })
    }

    /// Runs a deeper level of the grammar.
    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        self.depth += 1;
        if self.depth > NESTING {
            let message = format!("nested too deeply: more than {NESTING} levels");
            self.reporter.stop(
                self.span(),
                message,
                "move what is inside into a function, an action or a constant",
            );
        }
        let outer = std::mem::take(&mut self.height);
        let result = f(self);
        self.height = outer.max(self.height + 1);
        self.depth -= 1;
        result
    }

    /// Records that the tree of this level grew by a link of a chain.
    fn higher(&mut self) {
        self.height += 1;
        if self.height > HEIGHT {
            let message = format!("more than {HEIGHT} operators or members in a row");
            self.reporter.stop(self.span(), message, "take it apart: give names to parts of it");
        }
    }

    /// Tries an alternative. On failure restores the state.
    fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Parse<T>) -> Option<T> {
        let (at, depth, outer) = (self.at, self.depth, self.speculative);
        self.speculative = true;
        let result = f(self).ok();
        self.speculative = outer;
        if result.is_none() {
            self.at = at;
            self.depth = depth;
        }
        result
    }

    /// Skips to after the next `;`, or to before the `}` that closes the current block. Skips at
    /// least one token if none has been consumed since `from`.
    fn recover(&mut self, from: usize) {
        // The failed construct may have opened braces that are still open.
        let mut depth = 0usize;
        for token in &self.tokens[from.min(self.at)..self.at] {
            match token.kind {
                Kind::LBrace => depth += 1,
                Kind::RBrace => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        if depth == 0 && self.at > from && matches!(self.previous_kind(), Kind::Semicolon) {
            return;
        }
        loop {
            match self.kind() {
                Kind::End => return,
                Kind::LBrace => depth += 1,
                Kind::RBrace if depth == 0 => {
                    return;
                }
                Kind::RBrace => {
                    depth -= 1;
                    if depth == 0 {
                        self.bump();
                        return;
                    }
                }
                Kind::Semicolon if depth == 0 => {
                    self.bump();
                    return;
                }
                _ => {}
            }
            self.bump();
        }
    }

    fn previous_kind(&self) -> Kind {
        self.tokens[self.at.saturating_sub(1)].kind
    }

    /// Parses `item`s until the closing brace, with error recovery. The opening brace has been
    /// consumed.
    fn until_brace(&mut self, mut item: impl FnMut(&mut Self) -> Parse<()>) -> Parse<()> {
        while self.kind() != Kind::RBrace {
            if self.kind() == Kind::End {
                return Err(self.unexpected("`}`"));
            }
            let (before, scopes, depth) = (self.at, self.scopes.len(), self.depth);
            if item(self).is_err() {
                if self.speculative {
                    return Err(Failed);
                }
                self.scopes.truncate(scopes);
                self.depth = depth;
                self.recover(before);
            }
        }
        self.bump();
        Ok(())
    }

    /// Parses `item { "," item }` up to and including `close`. An empty list and a trailing comma
    /// are accepted.
    fn comma_list<T>(
        &mut self,
        close: Kind,
        what: &str,
        mut item: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        let mut list = Vec::new();
        loop {
            if self.eat(close) {
                return Ok(list);
            }
            list.push(item(self)?);
            if !self.eat(Kind::Comma) {
                self.expect(close, what)?;
                return Ok(list);
            }
        }
    }

    // Scopes.

    fn declare(&mut self, name: &Str, is_type: bool) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.clone(), is_type);
        }
    }

    fn is_type(&self, name: &str) -> bool {
        self.scopes.iter().rev().find_map(|s| s.get(name).copied()).unwrap_or(false)
    }

    /// Whether the current token is an identifier that names a type.
    fn at_type_name(&self) -> bool {
        self.kind() == Kind::Ident && self.is_type(self.word())
    }

    fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        let outer = self.scopes.len();
        self.scopes.push(HashMap::new());
        let result = f(self);
        self.scopes.truncate(outer);
        result
    }

    // Annotations.

    fn annotations(&mut self) -> Parse<Annotations> {
        if self.kind() != Kind::At {
            return Ok(self.no_annotations.clone());
        }
        let mut list = Vec::new();
        while self.eat(Kind::At) {
            // Any word may name an annotation, including keywords.
            let span = self.span();
            let text = self.word();
            if !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                return Err(self.unexpected("the annotation's name"));
            }
            self.bump();
            if text == "pragma" {
                list.extend(self.pragma());
                continue;
            }
            let name = Ident { name: self.intern(text), span };
            let body = match self.kind() {
                Kind::LParen
                    if values_in_parentheses(text)
                        && !(matches!(text, "name" | "deprecated")
                            && (self.ahead(1), self.ahead(2)) == (Kind::Text, Kind::RParen)) =>
                {
                    self.structured(Kind::RParen)?
                }
                Kind::LParen => {
                    let (text, only) = self.balanced(Kind::LParen, Kind::RParen)?;
                    let string = only.map(|s| unquote(self.slice(s)).into());
                    AnnotationBody::Raw { text: self.intern(text.trim()), string }
                }
                Kind::LBracket => self.structured(Kind::RBracket)?,
                _ if values_in_parentheses(text) && text != "field_list" => {
                    return Err(self.unexpected(&format!("the values of @{text} in parentheses")));
                }
                _ => AnnotationBody::None,
            };
            list.push(Annotation { name, body });
        }
        Ok(Rc::from(list))
    }

    /// Constants, or named constants, up to a bracket.
    fn structured(&mut self, close: Kind) -> Parse<AnnotationBody> {
        let start = self.bump().span;
        let mut values: Vec<AnnotationValue> = Vec::new();
        while self.kind() != close {
            let after = self.tokens.get(self.at + 1).map(|token| token.kind);
            let named = self.kind() == Kind::Ident && after == Some(Kind::Assign);
            if values.first().is_some_and(|first| first.key.is_some() != named) {
                return Err(self.unexpected("values that all have names, or none"));
            }
            let key = match named {
                true => {
                    let key = self.name("the value's name")?;
                    self.bump();
                    Some(key)
                }
                false => None,
            };
            values.push(AnnotationValue { key, value: self.expression()? });
            if !self.eat(Kind::Comma) {
                break;
            }
        }
        let end = self.expect(close, "the annotation's end")?.span;
        let text = self.intern(self.slice(Span { start: start.end, end: end.start }).trim());
        Ok(AnnotationBody::Structured { text, values })
    }

    /// `@pragma name words`, which ends with its line and is equivalent to `@name(words)`.
    fn pragma(&mut self) -> Option<Annotation> {
        let first = self.span();
        let same_line = |p: &Self, from: Span| {
            let between = Span { start: from.end, end: p.span().start };
            p.kind() != Kind::End && !p.slice(between).contains('\n')
        };
        if !same_line(self, self.previous()) {
            return None;
        }
        let name = Ident { name: self.intern(self.word()), span: first };
        self.bump();
        let start = self.previous();
        while same_line(self, self.previous()) {
            self.bump();
        }
        let text = self.slice(Span { start: start.end, end: self.previous().end }).trim();
        let text = self.intern(text);
        Some(Annotation { name, body: AnnotationBody::Raw { text, string: None } })
    }

    /// The text between brackets, and the span of its token if it is a single string.
    fn balanced(&mut self, open: Kind, close: Kind) -> Parse<(&'t str, Option<Span>)> {
        let start = self.bump().span;
        let first = self.at;
        let mut depth = 0usize;
        loop {
            match self.kind() {
                Kind::End => return Err(self.unexpected("the annotation's end")),
                k if k == open => depth += 1,
                k if k == close && depth == 0 => break,
                k if k == close => depth -= 1,
                _ => {}
            }
            self.bump();
        }
        let count = self.at - first;
        let end = self.bump().span;
        let only =
            (count == 1 && self.tokens[first].kind == Kind::Text).then(|| self.tokens[first].span);
        Ok((self.slice(Span { start: start.end, end: end.start }), only))
    }
}

/// The value of a string literal.
fn unquote(literal: &str) -> String {
    let inner = literal.strip_prefix('"').and_then(|s| s.strip_suffix('"')).unwrap_or(literal);
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                Some(other) => out.push(other),
                None => {}
            },
            c => out.push(c),
        }
    }
    out
}
