//! The program after each phase, as text for people: what `tributary p4 check --dump` prints.
//!
//! The text of a program is the same in each run. Its form is not an interface.

mod ir;
mod typed;

use std::fmt;

use crate::source::{Reporter, Text};
use crate::{Defines, Diagnostics, Sources, check, compile, lexer, load, on_large_stack, parser};

/// A phase of the front end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pass {
    /// Parsers, controls, functions and actions with resolved names, and with types and conversions
    /// written out.
    Typed,
    /// The intermediate representation that an engine runs.
    Ir,
}

impl Pass {
    /// All passes, in order.
    pub const ALL: [Self; 2] = [Self::Typed, Self::Ir];

    /// The pass with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pass| pass.name() == name)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Typed => "typed",
            Self::Ir => "ir",
        }
    }

    /// What its text shows.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Typed => "blocks with resolved names, types and conversions",
            Self::Ir => "the intermediate representation that the engine runs",
        }
    }
}

/// Prints a program after a pass. Later passes need not accept it.
///
/// # Errors
///
/// All errors and warnings up to the pass, if there is an error.
pub fn dump(
    sources: &Sources,
    main: &str,
    defines: Defines<'_>,
    pass: Pass,
) -> Result<String, Diagnostics> {
    match pass {
        Pass::Ir => Ok(ir::print(&compile(sources, main, defines)?.program)),
        Pass::Typed => on_large_stack(|| {
            let (text, diagnostics) = load(sources, main, defines)?;
            typed(&text, diagnostics)
        }),
    }
}

fn typed(text: &Text, diagnostics: Diagnostics) -> Result<String, Diagnostics> {
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    let mut reporter = Reporter::with(text, diagnostics);
    let tokens = lexer::lex(&mut reporter);
    let syntax = parser::parse(&mut reporter, &tokens);
    let complete = !reporter.list.has_errors();
    let checked = check::check(&mut reporter, &syntax, complete);
    if reporter.list.has_errors() { Err(reporter.list) } else { Ok(typed::print(&checked)) }
}

/// Indented lines.
#[derive(Default)]
struct Lines {
    text: String,
    depth: usize,
}

impl Lines {
    fn line(&mut self, line: impl fmt::Display) {
        for _ in 0..self.depth {
            self.text.push_str("    ");
        }
        self.text.push_str(&line.to_string());
        self.text.push('\n');
    }

    /// `head {`, the lines of `body`, `}` and `tail`.
    fn block(&mut self, head: impl fmt::Display, tail: &str, body: impl FnOnce(&mut Self)) {
        let head = head.to_string();
        self.line(format!("{head}{}{{", if head.is_empty() { "" } else { " " }));
        self.depth += 1;
        body(self);
        self.depth -= 1;
        self.line(format!("}}{tail}"));
    }
}

/// The texts of items, with commas.
fn list<T>(items: &[T], text: impl FnMut(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}
