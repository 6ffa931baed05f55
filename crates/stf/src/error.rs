//! What is wrong with a script, or went otherwise than it says.

use std::fmt;

/// A place in a script.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column in that line, from 1, in characters.
    pub column: u32,
}

impl Place {
    pub(crate) fn error(self, message: impl Into<String>) -> ParseError {
        ParseError { place: self, message: message.into() }
    }

    pub(crate) fn failure(self, reason: impl fmt::Display) -> Failure {
        Failure { place: Some(self), reason: reason.to_string() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A script that cannot be read: where, and what to mend, in one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ParseError {
    /// Where.
    pub place: Place,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// Why a test failed, in one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Failure {
    /// The statement that was not met or could not be carried out; none for packets that no statement
    /// speaks of.
    pub place: Option<Place>,
    /// What happened.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(place) => write!(f, "{place}: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}
