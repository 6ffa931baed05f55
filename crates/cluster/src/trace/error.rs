//! Errors and warnings of traces.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::columns::Field;
use super::format::Format;

/// Why a file is not a valid trace.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("{file}: cannot read the trace: {source}")]
    Read {
        /// The file as the caller named it.
        file: Arc<str>,
        /// The error of the operating system, or of unpacking.
        source: io::Error,
    },
    /// No format matches.
    #[error(
        "{file}:{line}: this is not a known trace ({found}); give one of {}, or name the columns of \
         a table",
        formats()
    )]
    Unknown {
        /// The file.
        file: Arc<str>,
        /// Line, from 1.
        line: u64,
        /// The text found there.
        found: String,
    },
    /// A table lacks a column that its format has.
    #[error(
        "{file}:{line}: a {format} trace has a column `{column}`, this table has none; add it or \
         name the format that the table has"
    )]
    NoColumn {
        /// The file.
        file: Arc<str>,
        /// Line of the header, from 1.
        line: u64,
        /// The format.
        format: Format,
        /// The column's name.
        column: &'static str,
    },
    /// A table lacks a column that [`Columns`](super::Columns) name.
    #[error("{file}:{line}: there is no column `{column}`; correct `{field}={column}`: {hint}")]
    NotThere {
        /// The file.
        file: Arc<str>,
        /// Line of the header, from 1.
        line: u64,
        /// The field.
        field: Field,
        /// The column's name.
        column: String,
        /// The names that there are, or the nearest.
        hint: String,
    },
    /// Two columns of a table have the name that is looked for.
    #[error("{file}:{line}: two columns are called `{column}`; rename one")]
    Ambiguous {
        /// The file.
        file: Arc<str>,
        /// Line of the header, from 1.
        line: u64,
        /// The name.
        column: String,
    },
    /// Two records have the same job number.
    #[error(
        "{file}:{line}: the job has the number of the job in line {first}; remove one of the two, or \
         give them different numbers"
    )]
    Repeated {
        /// The file.
        file: Arc<str>,
        /// Line of the second record, from 1.
        line: u32,
        /// Line of the first.
        first: u32,
    },
    /// There was no record, or every record was omitted.
    #[error("{file}: no job of this trace can run ({left_out} records were left out{why})")]
    NoJob {
        /// The file.
        file: Arc<str>,
        /// Number of omitted records.
        left_out: u64,
        /// The reason for the first omission.
        why: String,
    },
}

fn formats() -> String {
    Format::ALL.map(Format::name).join(", ")
}

/// An omitted record, or another remark about a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// The file as the caller named it.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u64,
    /// The problem, and how it was handled.
    pub what: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}
