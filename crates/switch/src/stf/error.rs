//! Errors in a script, and failures of a test.

use std::fmt;

/// A position in a script.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column in that line, from 1, in characters.
    pub column: u32,
}

impl Place {
    pub(crate) fn error(self, message: impl Into<String>) -> ParseError {
        ParseError { place: self, message: shortened(message.into()) }
    }

    pub(crate) fn failure(self, reason: impl fmt::Display) -> Failure {
        Failure { place: Some(self), reason: shortened(reason.to_string()) }
    }
}

/// Shortens a message to its two ends. A message quotes words of the script, which may be as long
/// as the script. The list of all commands is not shortened.
fn shortened(message: String) -> String {
    const END: usize = 400;
    let first = message.char_indices().nth(END).map(|(at, _)| at);
    let last = message.char_indices().rev().nth(END).map(|(at, _)| at);
    match (first, last) {
        (Some(first), Some(last)) if first < last => {
            format!("{} … {}", &message[..first], &message[last..])
        }
        _ => message,
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A syntax error in a script: position and fix, in one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ParseError {
    /// The position.
    pub place: Place,
    /// The problem, and what to write instead.
    pub message: String,
}

/// Why a test failed, in one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Failure {
    /// The statement that failed; `None` for packets that no statement mentions.
    pub place: Option<Place>,
    /// The reason.
    pub reason: String,
}

impl Failure {
    /// One line that says where it is in a file.
    #[must_use]
    pub fn in_file(&self, file: impl fmt::Display) -> String {
        match self.place {
            Some(_) => format!("{file}:{self}"),
            None => format!("{file}: {self}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(place) => write!(f, "{place}: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_keeps_both_ends() {
        let place = Place { line: 1, column: 2 };
        assert_eq!(place.error("`é` is too much").to_string(), "1:2: `é` is too much");
        let word = "é".repeat(1 << 20);
        let message = place.error(format!("`{word}` is not a command")).message;
        assert!(
            message.starts_with("`ééé") && message.ends_with("éé` is not a command"),
            "{message}"
        );
        assert!(message.chars().count() < 850);
    }
}
