//! Text from outside in messages.

use std::borrow::Cow;
use std::error::Error;

/// Most characters of a foreign value in a message.
pub const EXCERPT: usize = 60;

/// Text that a message repeats, in one line of at most `most` characters: control characters become blanks,
/// and the middle of a longer text an ellipsis.
#[must_use]
pub fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    let long = text.len() > most && text.chars().nth(most).is_some();
    if !long && !text.contains(|c: char| c.is_control()) {
        return Cow::Borrowed(text);
    }
    let line = |c: char| if c.is_control() { ' ' } else { c };
    if !long {
        return text.chars().map(line).collect();
    }
    let (head, tail) = (most / 2, (most - most / 2).saturating_sub(1));
    let start = tail.checked_sub(1).and_then(|back| text.char_indices().rev().nth(back));
    let end = &text[start.map_or(text.len(), |(at, _)| at)..];
    text.chars().take(head).chain(['…']).chain(end.chars()).map(line).collect()
}

/// Whether a terminal would interpret a character: control characters, and characters that change
/// the writing direction and so disguise a line.
#[must_use]
pub fn unprintable(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control() && c != '\t'
}

/// Escapes characters that a terminal would interpret, as in a Rust string.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if unprintable(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// The lines of a text in one, without empty ones.
#[must_use]
pub fn joined_lines(text: &str, separator: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(separator)
}

/// A number and a noun whose plural ends in s: `1 test`, `2 tests`.
#[must_use]
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Most characters of a line of an error.
const LINE: usize = 2_000;

/// The chain of causes in one line, without causes that their error's text already contains. Errors
/// can contain text of any length from files and other machines, so control characters are escaped, and the
/// middle of a long line is left out.
#[must_use]
pub fn one_line(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    let line = causes.fold(error.to_string(), |line, cause| {
        let cause = cause.to_string();
        if line.contains(&cause) { line } else { format!("{line}: {cause}") }
    });
    let short = |line| shortened(&printable(line), LINE).into_owned();
    line.split('\n').map(short).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Caused(&'static str, Option<Box<Caused>>);

    impl std::fmt::Display for Caused {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Caused {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    #[test]
    fn an_error_stays_short_whatever_it_repeats() {
        let long: &str = format!("`{}` is no name\nline 2", "x".repeat(200_000)).leak();
        let line = one_line(&Caused("job 1", Some(Box::new(Caused(long, None)))));
        assert!(
            line.starts_with("job 1: `xxx") && line.ends_with("` is no name\nline 2"),
            "{line}"
        );
        assert!(line.chars().count() < LINE + 10, "{}", line.len());
        let same = Caused("a: b", Some(Box::new(Caused("b", Some(Box::new(Caused("c", None)))))));
        assert_eq!(one_line(&same), "a: b: c");
    }

    #[test]
    fn long_text_loses_its_middle() {
        assert_eq!(shortened("abcdefgh", 8), "abcdefgh");
        assert_eq!(shortened("abcdefghi", 8), "abcd…ghi");
        assert_eq!(shortened("äöüß", 4), "äöüß");
        assert_eq!(shortened("äöüßäöüß", 4), "äö…ß");
        assert_eq!(shortened("abc", 1), "…");
        assert_eq!(shortened("abc", 0), "…");
        assert_eq!(shortened(&"x".repeat(200_000), EXCERPT).chars().count(), EXCERPT);
    }

    #[test]
    fn text_is_one_line() {
        assert_eq!(joined_lines("a\n\n  b\n", " | "), "a | b");
        assert_eq!(counted(1, "packet") + ", " + &counted(0, "error"), "1 packet, 0 errors");
        assert_eq!(shortened("a\nb\u{1b}[0m", 60), "a b [0m");
        assert_eq!(shortened("a\nbcdefghij", 4), "a …j");
    }
}
