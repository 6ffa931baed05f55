//! Where the parts of a program come from, for errors that only its loading finds.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::{ExternId, HeaderId, TableId};
use crate::diagnostics::{Diagnostic, Severity};
use crate::source::{Span, Text};

/// The origin of a part of a program in its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin(Span);

/// The origins of a compiled program's parts. They have no effect on packets, and those of a program
/// that was not compiled are unknown.
#[derive(Clone, Default)]
pub struct Origins {
    pub(crate) text: Option<Arc<Text>>,
    pub(crate) main: Span,
    pub(crate) headers: Vec<Span>,
    pub(crate) tables: Vec<Span>,
    pub(crate) externs: Vec<Span>,
    /// The ends of marked statements, by their starts.
    pub(crate) statements: HashMap<u32, u32>,
}

impl Origins {
    /// The package's instance.
    #[must_use]
    pub fn main(&self) -> Origin {
        Origin(self.main)
    }

    /// The type of a header.
    #[must_use]
    pub fn header(&self, header: HeaderId) -> Option<Origin> {
        self.headers.get(header.index()).copied().map(Origin)
    }

    /// The declaration of a table.
    #[must_use]
    pub fn table(&self, table: TableId) -> Option<Origin> {
        self.tables.get(table.index()).copied().map(Origin)
    }

    /// The declaration of an instance.
    #[must_use]
    pub fn instance(&self, instance: ExternId) -> Option<Origin> {
        self.externs.get(instance.index()).copied().map(Origin)
    }

    /// The statement with this number in its [`Mark::At`](super::Mark::At).
    #[must_use]
    pub fn statement(&self, number: u32) -> Option<Origin> {
        let end = *self.statements.get(&number)?;
        Some(Origin(Span { start: number, end }))
    }

    /// An error at this place; `None` if the program was not compiled.
    #[must_use]
    pub fn error(&self, at: Origin, message: String) -> Option<Diagnostic> {
        let text = self.text.as_ref()?;
        Some(text.diagnostic(Severity::Error, at.0, message).tidied())
    }
}

impl fmt::Debug for Origins {
    /// Without the program's text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origins").finish_non_exhaustive()
    }
}
