//! Parses a script into statements. This file finds the statements and reads names and numbers;
//! `commands` parses the operands of each command.
//!
//! A command starts at the beginning of a line. A line that does not start with a command continues
//! the preceding line: bytes of a long packet, or the rest of a long entry.

mod commands;
mod network;
mod tofino;

use crate::stf::error::{ParseError, Place};
use crate::stf::lexer::{Kind, Token, lex};
use crate::stf::number::Number;
use crate::stf::script::{Name, Script, Statement};

type Result<T> = std::result::Result<T, ParseError>;

impl Script {
    /// Parses a script.
    ///
    /// # Errors
    ///
    /// The first error, with line and column.
    pub fn parse(text: &str) -> Result<Self> {
        let tokens = lex(text)?;
        let mut statements = Vec::new();
        let mut rest = &tokens[..];
        while let Some(first) = rest.first() {
            let next = rest[1..].iter().position(starts_statement);
            let (statement, after) = rest.split_at(next.map_or(rest.len(), |next| next + 1));
            if !starts_statement(first) {
                return Err(no_command(first));
            }
            statements.push((first.place, statement_of(statement)?));
            rest = after;
        }
        Ok(Self { statements })
    }
}

/// Parses one statement, whose first token is a command.
fn statement_of(tokens: &[Token<'_>]) -> Result<Statement> {
    let mut operands = Operands::new(tokens);
    let command = tokens[0].text().to_ascii_lowercase();
    let parsed = match tofino::NAMES.contains(&command.as_str()) {
        true => tofino::statement(&command, &mut operands)?,
        false => commands::statement(&command, &mut operands)?,
    };
    operands.end()?;
    Ok(parsed)
}

fn starts_statement(token: &Token<'_>) -> bool {
    let command = |word: &str| names().any(|name| name.eq_ignore_ascii_case(word));
    token.starts_line && matches!(token.kind, Kind::Word(word) if command(word))
}

/// All commands.
fn names() -> impl Iterator<Item = &'static str> {
    commands::NAMES.into_iter().chain(tofino::NAMES)
}

fn no_command(token: &Token<'_>) -> ParseError {
    let known = names().collect::<Vec<_>>().join(", ");
    token.place.error(format!("`{}` is not a command: the commands are {known}", token.text()))
}

/// The operands of a command.
struct Operands<'a> {
    rest: &'a [Token<'a>],
    /// The position after the last token.
    end: Place,
}

impl<'a> Operands<'a> {
    /// The operands of a statement, whose first token is the command.
    fn new(statement: &'a [Token<'a>]) -> Self {
        let end = statement.last().map_or(Place { line: 1, column: 1 }, |last| {
            let length = u32::try_from(last.text().chars().count()).unwrap_or(u32::MAX);
            Place { column: last.place.column.saturating_add(length), ..last.place }
        });
        Self { rest: statement.get(1..).unwrap_or_default(), end }
    }

    fn peek(&self) -> Option<&'a Token<'a>> {
        self.rest.first()
    }

    fn next(&mut self) -> Option<&'a Token<'a>> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// The position of the next token.
    fn place(&self) -> Place {
        self.peek().map_or(self.end, |token| token.place)
    }

    /// An error at the next token.
    fn error(&self, wanted: &str) -> ParseError {
        match self.peek() {
            Some(token) => {
                token.place.error(format!("expected {wanted}, found `{}`", token.text()))
            }
            None => self.end.error(format!("expected {wanted} after this")),
        }
    }

    /// Rejects superfluous operands.
    fn end(&self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(token) if token.starts_line => Err(no_command(token)),
            Some(token) => Err(token.place.error(format!(
                "`{}` is too much here: the statement ended before it",
                token.text()
            ))),
        }
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self
            .peek()
            .is_some_and(|token| matches!(token.kind, Kind::Sign(found) if found == sign));
        if found {
            self.next();
        }
        found
    }

    fn sign(&mut self, sign: &str) -> Result<()> {
        if self.take(sign) { Ok(()) } else { Err(self.error(&format!("`{sign}`"))) }
    }

    fn word(&mut self, wanted: &str) -> Result<&'a str> {
        match self.peek().map(|token| token.kind) {
            Some(Kind::Word(word)) => {
                self.next();
                Ok(word)
            }
            _ => Err(self.error(wanted)),
        }
    }

    fn number(&mut self, wanted: &str) -> Result<Number> {
        let place = self.place();
        Number::parse(self.word(wanted)?).map_err(|message| place.error(message))
    }

    /// A number without `*` that fits in the type.
    fn small<T: TryFrom<u64>>(&mut self, wanted: &str) -> Result<T> {
        let place = self.place();
        let number = self.number(wanted)?;
        if number.has_wildcards() {
            return Err(place.error(format!("{wanted} has no `*`")));
        }
        let small = number.to_u64().and_then(|number| T::try_from(number).ok());
        small.ok_or_else(|| place.error(format!("this is too large for {wanted}")))
    }

    /// Parses `hdr.stack[0].field`, or any text between double quotes.
    fn name(&mut self, wanted: &str) -> Result<Name> {
        let place = self.place();
        let mut text = String::new();
        loop {
            match self.peek().map(|token| token.kind) {
                Some(Kind::Quoted(part)) => text.push_str(part),
                Some(Kind::Word(part)) if !part.starts_with(|c: char| c.is_ascii_digit()) => {
                    text.push_str(part);
                }
                _ => return Err(self.error(wanted)),
            }
            self.next();
            while self.take("[") {
                let index: u32 = self.small("an index")?;
                self.sign("]")?;
                text.push_str(&format!("[{index}]"));
            }
            if !self.take(".") {
                return Ok(Name { text, place });
            }
            text.push('.');
        }
    }
}

#[cfg(test)]
mod tests;
