//! Hand-written TOML, read with a position for every error.
//!
//! A [`Document`] is a parsed file. Its [`Table`]s and [`Item`]s know their position and name, so
//! that every error becomes one line that names file, line and column and tells how to fix it
//! ([`Fault`]). The crates that read the files define their content: `tributary_model::jobfile` for job
//! files, `tributary-cluster` for clusters and model profiles.

mod error;
mod reader;
pub mod suggest;
mod units;

use std::path::Path;

use crate::FileLimit;
use toml::Spanned;
use toml::de::DeTable;

pub use error::{Error, Fault};
pub use reader::{Item, Place, Table};
pub use units::{duration, rate, size};

use error::Source;

/// Maximum file size in bytes: hundreds of times the size of a hand-written file.
const MAX_BYTES: usize = 4 << 20;

/// A kind of file, for messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// Its name, without an article: `job file`.
    pub name: &'static str,
    /// The page that documents its format.
    pub page: &'static str,
}

impl Kind {
    /// Reads the text of a file of this kind.
    ///
    /// # Errors
    ///
    /// [`Error::Read`] if the file does not exist, is not text, or is too long.
    pub fn read(self, path: &Path) -> Result<String, Error> {
        FileLimit::new(self.name, MAX_BYTES as u64).read_text(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            kind: self.name,
            source,
        })
    }
}

/// A parsed file.
#[derive(Debug)]
pub struct Document<'a> {
    kind: Kind,
    source: Source<'a>,
    root: Spanned<DeTable<'a>>,
}

impl<'a> Document<'a> {
    /// Parses text. Messages call the file `file`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the text is not TOML, or too long.
    pub fn parse(kind: Kind, text: &'a str, file: &'a str) -> Result<Self, Error> {
        let source = Source { file, text };
        if text.len() > MAX_BYTES {
            return Err(source.fault(
                &(MAX_BYTES..MAX_BYTES),
                format!("the file has more than {MAX_BYTES} bytes"),
                format!("is this a {}?", kind.name),
            ));
        }
        let root = DeTable::parse(text).map_err(|error| {
            let span = error.span().unwrap_or(text.len()..text.len());
            let fix = format!("see {} for how it is written", kind.page);
            source.fault(&span, error.message().trim_end(), fix)
        })?;
        Ok(Self { kind, source, root })
    }

    /// The whole file as a table.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the file has a key that is not in `keys`.
    pub fn table(&'a self, keys: &[&str]) -> Result<Table<'a>, Error> {
        Table::document(self.source, self.kind, self.root.get_ref(), keys)
    }
}
