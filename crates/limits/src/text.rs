//! Text from outside in messages.

use std::borrow::Cow;

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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(shortened("a\nb\u{1b}[0m", 60), "a b [0m");
        assert_eq!(shortened("a\nbcdefghij", 4), "a …j");
    }
}
