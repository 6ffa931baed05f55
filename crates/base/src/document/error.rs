//! Errors in a file: the problem, its position, and the fix, always in one line.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use crate::shortened;

/// Why a file was rejected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("{}: cannot read the {kind}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The expected kind of file.
        kind: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file was read, but its content is invalid.
    #[error(transparent)]
    Invalid(Box<Fault>),
}

impl Error {
    /// Line and column (from 1, in characters) of the error, if it is in the file's text.
    #[must_use]
    pub fn position(&self) -> Option<(usize, usize)> {
        match self {
            Self::Read { .. } => None,
            Self::Invalid(fault) => Some((fault.line, fault.column)),
        }
    }
}

/// One error in a file. Displays as `file.toml:LINE:COLUMN: problem; fix`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}:{column}: {problem}; {fix}")]
pub struct Fault {
    /// The file, as named by the caller.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// The problem.
    pub problem: String,
    /// How to fix it.
    pub fix: String,
}

/// Most characters of a problem, which may repeat a value of the file, and of its fix, which may list names.
const PROBLEM: usize = 300;
const FIX: usize = 1_000;

/// The text of a file and its name; converts byte offsets to faults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl Source<'_> {
    /// A fault at the start of a span of bytes.
    pub(crate) fn fault(
        &self,
        span: &Range<usize>,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> Error {
        let (line, column) = self.position(span.start);
        Error::Invalid(Box::new(Fault {
            file: shortened(self.file, usize::MAX).into_owned(),
            line,
            column,
            problem: shortened(&problem.into(), PROBLEM).into_owned(),
            fix: shortened(&fix.into(), FIX).into_owned(),
        }))
    }

    /// Line and column, from 1, of a byte offset. An offset past the end, or within a character, is
    /// rounded down to the preceding character.
    fn position(&self, offset: usize) -> (usize, usize) {
        let offset = self.text.floor_char_boundary(offset.min(self.text.len()));
        let before = &self.text[..offset];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, offset: usize) -> (usize, usize) {
        Source { file: "f", text }.position(offset)
    }

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        assert_eq!(at("", 0), (1, 1));
        assert_eq!(at("ab\ncd", 1), (1, 2));
        assert_eq!(at("ab\ncd", 3), (2, 1));
        assert_eq!(at("ab\ncd", 4), (2, 2));
        assert_eq!(at("é=1", 2), (1, 2), "a two-byte character is one column");
        assert_eq!(at("ab\n", 99), (2, 1));
    }

    #[test]
    fn an_error_is_one_line_even_if_it_quotes_control_characters() {
        let source = Source { file: "a\nb.toml", text: "x" };
        let text = source.fault(&(0..1), "key \"a\nb\"", "remove\r\nit").to_string();
        assert_eq!(text, "a b.toml:1:1: key \"a b\"; remove  it");
    }

    #[test]
    fn an_error_stays_short_even_if_it_quotes_a_long_value() {
        let value = "x".repeat(200_000);
        let source = Source { file: "f", text: "x" };
        let fault = source.fault(&(0..1), format!("`size` is `{value}`, not a size"), &value);
        let text = fault.to_string();
        assert!(text.starts_with("f:1:1: `size` is `xxx"), "{text}");
        assert!(text.contains("xxx`, not a size; xxx"), "{text}");
        assert!(text.chars().count() < 1_400, "{}", text.len());
    }
}
