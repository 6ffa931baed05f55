//! Words of a command line.
//!
//! Words are separated by blanks. So that actions can be written as calls, `forward(port=1, mac=2)`, parentheses and
//! commas separate words, too, except within quotation marks and braces. The arrows `->`, `=>` and `→` are
//! left out.

use tributary_base::printable;

use crate::Error;

/// Splits a line into words. A `#` at the beginning of a word starts a comment.
///
/// # Errors
/// If a quotation mark or a brace is not closed.
pub fn split(line: &str) -> Result<Vec<String>, Error> {
    let mut words = Words::default();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '#' if !words.open => break,
            '"' | '\'' => words.quoted(c, &mut chars)?,
            '{' | '}' => words.brace(c)?,
            ' ' | '\t' | '\r' | '\n' | ',' | '(' | ')' if words.depth == 0 => words.end(),
            c => words.push(c),
        }
    }
    if words.depth > 0 {
        return Err(Error::input("a `{` is not closed; add `}`"));
    }
    words.end();
    words.all.retain(|word| !matches!(&**word, "->" | "=>" | "→"));
    Ok(words.all)
}

/// The words of arguments that a shell has split already. A single argument may be a whole command, and an argument
/// that calls an action is split, too.
///
/// # Errors
/// As for [`split`].
pub fn arguments(arguments: &[String]) -> Result<Vec<String>, Error> {
    if let [line] = arguments {
        return split(line);
    }
    let mut words = Vec::new();
    for argument in arguments {
        let call = argument.split(['=', '"', '\'']).next().is_some_and(|name| name.contains('('));
        match &**argument {
            "->" | "=>" | "→" => {}
            text if call => words.extend(split(text)?),
            text => words.push(text.to_owned()),
        }
    }
    Ok(words)
}

#[derive(Default)]
struct Words {
    all: Vec<String>,
    word: String,
    /// Whether a word has begun: it may be empty, in quotation marks.
    open: bool,
    /// Number of open braces.
    depth: u32,
}

impl Words {
    fn push(&mut self, c: char) {
        self.word.push(c);
        self.open = true;
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.open) {
            self.all.push(std::mem::take(&mut self.word));
        }
    }

    fn brace(&mut self, c: char) -> Result<(), Error> {
        self.depth = match c {
            '{' => self.depth + 1,
            _ => self
                .depth
                .checked_sub(1)
                .ok_or_else(|| Error::input("a `}` closes nothing; quote the word: \"…\""))?,
        };
        self.push(c);
        Ok(())
    }

    fn quoted(&mut self, mark: char, chars: &mut std::str::Chars<'_>) -> Result<(), Error> {
        self.open = true;
        while let Some(c) = chars.next() {
            match c {
                c if c == mark => return Ok(()),
                '\\' if mark == '"' => self.escaped(chars)?,
                c => self.word.push(c),
            }
        }
        Err(Error::input(format!("a quotation mark is not closed; add {mark}")))
    }

    /// The character behind a backslash: `\n`, `\r`, `\t`, `\u{1b}`, or any other one for itself.
    fn escaped(&mut self, chars: &mut std::str::Chars<'_>) -> Result<(), Error> {
        let c = match chars.next() {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') if chars.as_str().starts_with('{') => {
                let digits: String = chars.by_ref().take_while(|&c| c != '}').skip(1).collect();
                let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                code.ok_or_else(|| {
                    Error::input(format!(
                        "`\\u{{{digits}}}` is not a character; write its number in hexadecimal digits"
                    ))
                })?
            }
            Some(c) => c,
            None => return Ok(()),
        };
        self.word.push(c);
        Ok(())
    }
}

/// Writes a text so that it is one word in one line. What a terminal would interpret is escaped.
#[must_use]
pub fn quote(text: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !"\"'\\(),{}#".contains(c);
    let is_plain = text.chars().all(plain) && printable(text) == text;
    let arrow = matches!(text, "->" | "=>" | "→");
    if !text.is_empty() && !arrow && is_plain {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' | '\r' | '\t' => quoted.extend(c.escape_default()),
            c => quoted.push_str(&printable(c.encode_utf8(&mut [0; 4]))),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        split(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    #[test]
    fn calls_and_arrows_are_words() {
        let expected = ["add", "t", "dst=10.0.0.0/8", "forward", "port=1", "mac=2"];
        for line in [
            "add t dst=10.0.0.0/8 forward port=1 mac=2",
            "add t dst=10.0.0.0/8 -> forward(port=1, mac=2)  # comment",
            "add t dst=10.0.0.0/8 => forward( port=1,mac=2 )",
        ] {
            assert_eq!(words(line), expected, "{line}");
        }
        let shell = ["add", "t", "dst=10.0.0.0/8", "forward(port=1, mac=2)"].map(str::to_owned);
        assert_eq!(arguments(&shell).unwrap(), expected);
        assert_eq!(arguments(&["tables actions".to_owned()]).unwrap(), ["tables", "actions"]);
        let name = ["add", "t", "vrf=a (b)", "x"].map(str::to_owned);
        assert_eq!(arguments(&name).unwrap(), name, "a value keeps its parentheses");
        assert_eq!(
            words("register r 1 {a=1, b={2, 3}}"),
            ["register", "r", "1", "{a=1, b={2, 3}}"]
        );
    }

    #[test]
    fn what_would_break_a_line_is_escaped() {
        let name = "a\nb\t\"\u{1b}[0m\u{202e}";
        assert_eq!(quote(name), "\"a\\nb\\t\\\"\\u{1b}[0m\\u{202e}\"");
        assert_eq!(words(&quote(name)), [name]);
        assert_eq!(quote("\u{7}"), "\"\\u{7}\"");
        for line in ["\"\\u{}\"", "\"\\u{110000}\"", "\"\\u{12"] {
            assert!(split(line).is_err(), "{line}");
        }
        assert_eq!(words("\"\\u\\q\""), ["uq"]);
    }

    #[test]
    fn what_is_not_closed_is_an_error() {
        for line in ["a \"b", "a 'b", "r {1", "r }"] {
            assert!(split(line).is_err(), "{line}");
        }
        assert_eq!(words("a \"\" b"), ["a", "", "b"]);
    }

    proptest! {
        #[test]
        fn a_quoted_text_is_one_word(text in "(?s).{0,12}", next in "[a-z]{1,3}") {
            let quoted = quote(&text);
            prop_assert!(!quoted.contains('\n'), "{}", quoted);
            prop_assert_eq!(words(&format!("{quoted} {next}")), [text, next]);
        }
    }
}
