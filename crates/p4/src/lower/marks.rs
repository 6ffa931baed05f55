//! Marks: calls that tell which statement of the source comes next.

use super::Lowerer;
use crate::ir::{Arg, Expr, ExprKind, ExternCall, MARK, Mark, Scalar, Stmt};
use crate::source::Span;

/// Whether the lowered program has marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Marks {
    None,
    /// Calls of [`MARK`].
    Calls,
}

impl Lowerer<'_, '_> {
    /// Marks the statement that follows.
    pub(super) fn mark(&mut self, span: Span) {
        if self.marks == Marks::None {
            return;
        }
        let known = self.marked.get(&(span.start, span.end)).copied();
        let number = known.unwrap_or_else(|| {
            let text = self.reporter.text;
            let (file, line) = text.locate(span);
            let first = text.slice(span).lines().next().unwrap_or_default().trim_end();
            let marks = &mut self.program.marks;
            marks.push(Mark { file: file.to_owned(), line, text: first.to_owned() });
            self.marked.insert((span.start, span.end), marks.len() - 1);
            marks.len() - 1
        });
        let number = ExprKind::Const(Box::new([number as u64]));
        let number = Arg::In(Expr { ty: Scalar::bit(32), kind: number });
        let call = ExternCall { instance: None, method: MARK.to_owned(), args: vec![number] };
        self.emit(Stmt::Call(call));
    }
}
