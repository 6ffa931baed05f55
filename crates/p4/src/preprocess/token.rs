//! Preprocessing tokens.

use std::rc::Rc;

/// The kind of a preprocessing token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Ident,
    Number,
    Text,
    Punct,
    /// An empty token, from pasting empty arguments.
    Empty,
}

/// The macros whose expansion produced a token, and which must not expand it again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hidden(Option<Rc<(Rc<str>, Hidden)>>);

impl Hidden {
    /// Number of names.
    pub(crate) fn len(&self) -> usize {
        std::iter::successors(self.0.as_ref(), |node| node.1.0.as_ref()).count()
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        let mut at = self;
        while let Some(node) = &at.0 {
            if *node.0 == *name {
                return true;
            }
            at = &node.1;
        }
        false
    }

    pub(crate) fn with(&self, name: &Rc<str>) -> Self {
        if self.contains(name) {
            self.clone()
        } else {
            Self(Some(Rc::new((name.clone(), self.clone()))))
        }
    }

    /// Names in both.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut result = Self::default();
        let mut at = self;
        while let Some(node) = &at.0 {
            if other.contains(&node.0) {
                result = result.with(&node.0);
            }
            at = &node.1;
        }
        result
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        if self.0.is_none() {
            return other.clone();
        }
        let mut result = self.clone();
        let mut at = other;
        while let Some(node) = &at.0 {
            result = result.with(&node.0);
            at = &node.1;
        }
        result
    }
}

/// A preprocessing token.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: Rc<str>,
    /// Whether white space precedes it.
    pub(crate) space: bool,
    pub(crate) hidden: Hidden,
}

impl Token {
    pub(crate) fn is(&self, punct: &str) -> bool {
        self.kind == Kind::Punct && &*self.text == punct
    }
}

/// Operators with several characters, longest first.
const OPERATORS: [&str; 17] = [
    "|+|", "|-|", "&&&", "...", "<<=", "##", "<<", "<=", ">=", "==", "!=", "&&", "||", "++", "..",
    "+=", "-=",
];

/// Length in bytes and kind of the first token of `text`, which must not be empty or start with a
/// blank.
pub(crate) fn scan(text: &str) -> (usize, Kind) {
    let bytes = text.as_bytes();
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    match bytes[0] {
        b'0'..=b'9' => (bytes.iter().take_while(|b| word(b)).count(), Kind::Number),
        b if word(&b) => (bytes.iter().take_while(|b| word(b)).count(), Kind::Ident),
        b'"' => {
            let mut i = 1;
            while i < bytes.len() && bytes[i] != b'"' {
                i += if bytes[i] == b'\\' { 2 } else { 1 };
            }
            let mut end = (i + 1).min(bytes.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            (end, Kind::Text)
        }
        _ => {
            let operator = OPERATORS.iter().find(|o| text.starts_with(**o));
            let length =
                operator.map_or_else(|| text.chars().next().map_or(1, char::len_utf8), |o| o.len());
            (length, Kind::Punct)
        }
    }
}

/// Splits a line into tokens.
pub(crate) fn tokenize(line: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = line;
    loop {
        let trimmed = rest.trim_start();
        if trimmed.is_empty() {
            return tokens;
        }
        let space = trimmed.len() < rest.len();
        let (length, kind) = scan(trimmed);
        tokens.push(Token {
            kind,
            text: Rc::from(&trimmed[..length]),
            space,
            hidden: Hidden::default(),
        });
        rest = &trimmed[length..];
    }
}

/// Whether a line contains an identifier for which `known` returns true.
pub(crate) fn names_any(line: &str, known: impl Fn(&str) -> bool) -> bool {
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (length, kind) = scan(rest);
        if kind == Kind::Ident && known(&rest[..length]) {
            return true;
        }
        rest = rest[length..].trim_start();
    }
    false
}

/// Appends tokens as text, with blanks only where the source has them or tokens would merge.
pub(crate) fn write(tokens: &[Token], out: &mut String) {
    for (i, token) in tokens.iter().enumerate() {
        if token.kind == Kind::Empty {
            continue;
        }
        let first = token.text.chars().next().unwrap_or(' ');
        let last = out.chars().next_back().unwrap_or(' ');
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let sign = |c: char| "<>=&|+-*/!.#".contains(c);
        // A shift is two tokens, because two `>` may also end two lists of type arguments.
        let shift = token.is(">") && last == '>';
        let glued =
            (word(first) && word(last)) || (sign(first) && sign(last) && !shift) || last == ',';
        if (i > 0 && (token.space || glued)) || (i == 0 && token.space && last != ' ') {
            out.push(' ');
        }
        out.push_str(&token.text);
    }
}

/// Replaces comments with blanks, keeping newlines and columns. Returns the line of an unterminated
/// comment.
///
/// A string is a value after `(`, `,` or `=`, and may have several lines, in which `//` begins no
/// comment. Elsewhere a quotation mark that its line leaves open is part of a text, as in `#error`.
pub(crate) fn blank_comments(text: &str) -> (String, Option<u32>) {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut line = 1u32;
    let (mut in_text, mut long) = (false, false);
    // The last character that is neither blank nor part of a comment.
    let mut before = ' ';
    let mut unterminated = None;
    while let Some(c) = chars.next() {
        let last = before;
        if !c.is_whitespace() {
            before = c;
        }
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' => {
                in_text &= long;
                line += 1;
                out.push('\n');
            }
            '\\' if in_text => {
                out.push(c);
                if let Some(next) = chars.next_if(|n| *n != '\n') {
                    out.push(next);
                }
            }
            '"' => {
                in_text = !in_text;
                long = matches!(last, '(' | ',' | '=');
                out.push(c);
            }
            '/' if !in_text && chars.peek() == Some(&'/') => {
                before = last;
                while let Some(c) = chars.next_if(|n| *n != '\n') {
                    let _ = c;
                    out.push(' ');
                }
                out.push(' ');
            }
            '/' if !in_text && chars.peek() == Some(&'*') => {
                before = last;
                chars.next();
                out.push_str("  ");
                let start = line;
                let mut previous = ' ';
                let mut closed = false;
                for c in chars.by_ref() {
                    if c == '\n' {
                        line += 1;
                        out.push('\n');
                    } else {
                        out.push(' ');
                    }
                    if previous == '*' && c == '/' {
                        closed = true;
                        break;
                    }
                    previous = c;
                }
                if !closed {
                    unterminated = Some(start);
                }
            }
            c => out.push(c),
        }
    }
    (out, unterminated)
}
