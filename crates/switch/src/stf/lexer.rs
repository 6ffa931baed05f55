//! Tokens of a script, each with its position.
//!
//! A word consists of the characters between blanks and signs: a name, a number, or bytes of a
//! packet. The command determines which one it is, so the parser decides: `add` is a command at the
//! start of a line and three hexadecimal digits within a packet.

use crate::stf::error::{ParseError, Place};

/// Longer signs come first, so that the longest match is taken.
const SIGNS: [&str; 18] = [
    "&&&", "->", "..", "==", "!=", "<=", ">=", ":", ",", ".", "[", "]", "(", ")", "/", "=", "<",
    ">",
];

/// The kind of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind<'a> {
    /// Letters, digits, `_`, `$` and `*`.
    Word(&'a str),
    /// Text between double quotes: a name that is not a valid word.
    Quoted(&'a str),
    Sign(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind<'a>,
    pub(crate) place: Place,
    /// Whether it is the first of its line.
    pub(crate) starts_line: bool,
}

impl Token<'_> {
    /// The source text.
    pub(crate) fn text(&self) -> &str {
        match self.kind {
            Kind::Word(text) | Kind::Quoted(text) => text,
            Kind::Sign(sign) => sign,
        }
    }
}

/// All tokens of a script. A `#` starts a comment that extends to the end of the line.
pub(crate) fn lex(script: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut tokens = Vec::new();
    for (index, line) in script.lines().enumerate() {
        lex_line(line, u32::try_from(index + 1).unwrap_or(u32::MAX), &mut tokens)?;
    }
    Ok(tokens)
}

fn lex_line<'a>(line: &'a str, number: u32, to: &mut Vec<Token<'a>>) -> Result<(), ParseError> {
    let mut rest = line;
    let mut starts_line = true;
    // The last position that was computed, so that each line is scanned once, however long it is.
    let (mut counted, mut column) = (0, 1);
    while let Some(first) = rest.chars().next() {
        let at = line.len() - rest.len();
        if first.is_whitespace() {
            rest = &rest[first.len_utf8()..];
            continue;
        }
        column += line[counted..at].chars().count();
        counted = at;
        let place = Place { line: number, column: u32::try_from(column).unwrap_or(u32::MAX) };
        let (kind, length) = match first {
            '#' => break,
            '"' => {
                let Some((quoted, _)) = rest[1..].split_once('"') else {
                    return Err(place.error("a quoted name does not end: close it with `\"`"));
                };
                (Kind::Quoted(quoted), quoted.len() + 2)
            }
            _ => match word_length(rest) {
                0 => {
                    let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
                    let sign = sign.ok_or_else(|| {
                        place
                            .error(format!("`{first}` means nothing here: comments start with `#`"))
                    })?;
                    (Kind::Sign(sign), sign.len())
                }
                length => (Kind::Word(&rest[..length]), length),
            },
        };
        to.push(Token { kind, place, starts_line });
        starts_line = false;
        rest = &rest[length..];
    }
    Ok(())
}

fn word_length(text: &str) -> usize {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '*');
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}
