//! TOML that people write, read with a place for every fault.
//!
//! A [`Document`] is a parsed file; its [`Table`]s and [`Item`]s know where they stand and what
//! they are called, so that whatever is wrong becomes one line that names file, line and column and
//! says how to mend it ([`Fault`]). What may stand in a file is its reader's matter:
//! `tributary-jobfile` for job files, `tributary-cluster` for clusters and model profiles.

mod error;
mod reader;
pub mod suggest;
mod units;

use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;
use tributary_limits::FileLimit;

pub use error::{Error, Fault};
pub use reader::{Item, Place, Table};

use error::Source;

/// Largest file: hundreds of times what a person writes.
const MAX_BYTES: usize = 4 << 20;

/// A kind of file: what messages call it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// Its name, without an article: `job file`.
    pub name: &'static str,
    /// The page that says how it is written.
    pub page: &'static str,
}

impl Kind {
    /// The text of a file of this kind.
    ///
    /// # Errors
    /// [`Error::Read`] if there is no such file, it is not text, or it is far too long.
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
    /// Parses text; messages call it `file`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not TOML, or far too long.
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
            let mend = format!("see {} for how it is written", kind.page);
            source.fault(&span, error.message().trim_end(), mend)
        })?;
        Ok(Self { kind, source, root })
    }

    /// The whole file as a table.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it has a key that is not one of `keys`.
    pub fn table(&'a self, keys: &[&str]) -> Result<Table<'a>, Error> {
        Table::document(self.source, self.kind, self.root.get_ref(), keys)
    }
}
