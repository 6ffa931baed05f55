//! Marks: where statements come from, for traces.
//!
//! Marks change nothing else: no statement, no storage, and no limit of the program's size depends
//! on them.

use super::Lowerer;
use crate::ir::{Inlined, Mark, Position, Stmt};
use crate::source::Span;

impl Lowerer<'_, '_> {
    /// Marks the origin of the statements that follow.
    pub(super) fn mark_at(&mut self, span: Span) {
        let mark = self.mark(span);
        self.out.extend(mark);
    }

    /// The mark of statements from there, if there are marks.
    pub(super) fn mark(&mut self, span: Span) -> Option<Stmt> {
        self.marks.then(|| {
            self.program.origins.statements.insert(span.start, span.end);
            Stmt::Mark(Mark::At(self.position(span), span.start))
        })
    }

    /// Marks the beginning of an inlined part.
    pub(super) fn mark_enter(&mut self, kind: Inlined, name: &str) {
        if self.marks {
            self.out.push(Stmt::Mark(Mark::Enter(kind, name.to_owned())));
        }
    }

    /// Marks the end of an inlined part.
    pub(super) fn mark_leave(&mut self) {
        if self.marks {
            self.out.push(Stmt::Mark(Mark::Leave));
        }
    }

    fn position(&mut self, span: Span) -> Position {
        let (file, line) = self.reporter.text.locate(span);
        let files = &mut self.program.files;
        let known = files.iter().position(|known| known == file).unwrap_or_else(|| {
            files.push(file.to_owned());
            files.len() - 1
        });
        Position { file: known as u32, line }
    }
}
