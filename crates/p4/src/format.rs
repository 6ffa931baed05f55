//! The layout of source text: `tributary p4 fmt`.
//!
//! Lines stay as the author broke them. What changes is white space: the indentation follows the
//! brackets, one blank stands where tokens need one, and empty lines do not follow one another.
//! Columns that the author aligned with several blanks stay aligned. Comments, directives of the
//! preprocessor, strings and the contents of annotations are kept as they are, so the formatted
//! text means the same program.

use crate::preprocess::have_same_tokens;

/// Blanks for each level of brackets.
const INDENT: usize = 4;

/// Operators of several characters, longest first. `>>` is two tokens.
const OPERATORS: [&str; 30] = [
    "|+|=", "|-|=", "&&&", "|+|", "|-|", "++=", "<<=", "...", "{#}", "&&", "||", "==", "!=", "<=",
    ">=", "++", "<<", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "+:", "..", "->", "##", "::",
];

/// Operators that have two operands in any case: blanks stand around them.
const BINARY: [&str; 27] = [
    "=", "==", "!=", "<=", "&&", "||", "&&&", "|+|", "|-|", "++", "<<", "+=", "-=", "*=", "/=",
    "%=", "&=", "|=", "^=", "|+|=", "|-|=", "++=", "<<=", "?", "..", "|", "^",
];

/// Operators after which a statement goes on in the next line, or before which it went on.
const JOINING: [&str; 35] = [
    "=", "==", "!=", "<=", ">=", "&&", "||", "&&&", "|+|", "|-|", "++", "<<", "+=", "-=", "*=",
    "/=", "%=", "&=", "|=", "^=", "|+|=", "|-|=", "++=", "<<=", "?", "..", "|", "^", "+", "-", "*",
    "/", "%", "&", ".",
];

/// Words that are followed by a blank and a parenthesis.
const SPACED: [&str; 7] = ["if", "for", "switch", "return", "else", "in", "transition"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A name or a number.
    Word,
    Sign,
    Text,
    /// A comment up to the end of the line.
    Line,
    /// A comment between `/*` and `*/`.
    Block,
}

/// A token and the white space before it in its line.
#[derive(Clone, Copy, Debug)]
struct Piece<'t> {
    kind: Kind,
    text: &'t str,
    before: &'t str,
    /// Whether it is within the contents of an annotation, which are kept.
    kept: bool,
}

impl Piece<'_> {
    fn is(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }
}

/// A line, or several that a comment or a string joins.
#[derive(Debug)]
enum Line<'t> {
    Empty,
    /// A directive with the lines that continue it.
    Directive(&'t str),
    Code(Vec<Piece<'t>>),
}

/// The text with its white space in order. The result is the same if it is formatted again. A text
/// whose tokens would change stays as it is: one with a quotation mark that nothing closes, for
/// example.
#[must_use]
pub fn format(text: &str) -> String {
    let unix = text.replace("\r\n", "\n");
    let mut layout = Layout::default();
    for line in lines(&unix) {
        layout.line(&line);
    }
    if have_same_tokens(&unix, &layout.out) { layout.out } else { text.to_owned() }
}

/// Splits a text into lines.
fn lines(text: &str) -> Vec<Line<'_>> {
    let mut scanner = Scanner { text, at: 0, raw: Raw::Not };
    let mut lines = Vec::new();
    while scanner.at < text.len() {
        lines.push(scanner.line());
    }
    lines
}

/// What of an annotation has been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Raw {
    Not,
    /// `@`.
    At,
    /// `@name`.
    Name,
    /// Its contents, within this many brackets of the given kind.
    Within(u32, char, char),
    /// The rest of a line with `@pragma`.
    Pragma,
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    raw: Raw,
}

impl<'t> Scanner<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn line(&mut self) -> Line<'t> {
        let rest = self.rest();
        let end = rest.find('\n').unwrap_or(rest.len());
        let blank = rest[..end].trim();
        let within = matches!(self.raw, Raw::Within(..));
        if blank.is_empty() && !within {
            self.at += (end + 1).min(rest.len());
            return Line::Empty;
        }
        if blank.starts_with('#') {
            let mut end = end;
            while rest[..end].trim_end_matches([' ', '\t']).ends_with('\\') && end < rest.len() {
                let next = rest[end + 1..].find('\n').unwrap_or(rest.len() - end - 1);
                end += 1 + next;
            }
            self.at += (end + 1).min(rest.len());
            return Line::Directive(&rest[..end]);
        }
        let mut pieces = Vec::new();
        loop {
            let start = self.at;
            let blanks = self.rest().find(|c: char| c == '\n' || !c.is_whitespace());
            self.at += blanks.unwrap_or(self.rest().len());
            let before = &self.text[start..self.at];
            let rest = self.rest();
            if rest.is_empty() || rest.starts_with('\n') {
                self.at += 1.min(rest.len());
                if self.raw == Raw::Pragma {
                    self.raw = Raw::Not;
                }
                return Line::Code(pieces);
            }
            let (kind, length) = scan(rest);
            let text = &rest[..length];
            self.at += length;
            let kept = self.follow(kind, text);
            pieces.push(Piece { kind, text, before, kept });
        }
    }

    /// Keeps track of annotations. Returns whether a token is part of one's contents.
    fn follow(&mut self, kind: Kind, text: &str) -> bool {
        if matches!(kind, Kind::Line | Kind::Block) {
            return matches!(self.raw, Raw::Within(..) | Raw::Pragma);
        }
        let (raw, kept) = match (self.raw, text) {
            (Raw::Within(1, _, close), _) if text.starts_with(close) && text.len() == 1 => {
                (Raw::Not, true)
            }
            (Raw::Within(depth, open, close), _) if kind == Kind::Sign => {
                let more = u32::from(text.len() == 1 && text.starts_with(open));
                let less = u32::from(text.len() == 1 && text.starts_with(close));
                (Raw::Within(depth + more - less, open, close), true)
            }
            (raw @ (Raw::Within(..) | Raw::Pragma), _) => (raw, true),
            (_, "@") => (Raw::At, false),
            (Raw::At, "pragma") => (Raw::Pragma, false),
            (Raw::At, _) => (Raw::Name, false),
            (Raw::Name, "(") => (Raw::Within(1, '(', ')'), false),
            (Raw::Name, "[") => (Raw::Within(1, '[', ']'), false),
            _ => (Raw::Not, false),
        };
        self.raw = raw;
        kept
    }
}

/// Kind and length in bytes of the first token.
fn scan(text: &str) -> (Kind, usize) {
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let first = text.chars().next().unwrap_or(' ');
    if text.starts_with("//") {
        return (Kind::Line, text.find('\n').unwrap_or(text.len()));
    }
    if let Some(rest) = text.strip_prefix("/*") {
        return (Kind::Block, rest.find("*/").map_or(text.len(), |end| end + 4));
    }
    if first == '"' {
        let mut escaped = true;
        let end = text.char_indices().find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        return (Kind::Text, end.map_or(text.len(), |(at, _)| at + 1));
    }
    if word(first) {
        return (Kind::Word, text.find(|c| !word(c)).unwrap_or(text.len()));
    }
    let operator = OPERATORS.iter().find(|o| text.starts_with(**o));
    (Kind::Sign, operator.map_or(first.len_utf8(), |o| o.len()))
}

/// An open bracket.
#[derive(Clone, Copy, Debug)]
struct Open {
    sign: char,
    /// Indentation of the line that opens it.
    outside: usize,
    inside: usize,
    /// The columns after it: in the author's text and in the result. A line that the author began
    /// below the first argument stays there.
    after: (usize, usize),
}

/// The text so far, and the open brackets.
#[derive(Default)]
struct Layout {
    out: String,
    open: Vec<Open>,
    /// For each open `#if`: the brackets before it, and after its first branch.
    branches: Vec<(Vec<Open>, Option<Vec<Open>>)>,
    /// Whether the last line was empty; none is written before the next one that is not.
    empty: bool,
    /// Whether the last line of code ends with an operator, and the indentation of the line where
    /// its statement begins.
    joins: bool,
    statement: usize,
    /// The last token of code.
    last: Option<String>,
}

impl Layout {
    fn line(&mut self, line: &Line<'_>) {
        match line {
            Line::Empty => self.empty = !self.out.is_empty(),
            Line::Directive(text) => {
                self.separate();
                for part in text.split('\n') {
                    self.out.push_str(part.trim_end());
                    self.out.push('\n');
                }
                self.conditional(text.trim_start()[1..].trim_start());
            }
            Line::Code(pieces) => {
                self.separate();
                self.code(pieces);
            }
        }
    }

    /// Writes the empty line before this one, if there is one.
    fn separate(&mut self) {
        if std::mem::take(&mut self.empty) {
            self.out.push('\n');
        }
    }

    /// Brackets that the branches of an `#if` open are open once.
    fn conditional(&mut self, directive: &str) {
        let word = directive.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or("");
        match word {
            "if" | "ifdef" | "ifndef" => self.branches.push((self.open.clone(), None)),
            "else" | "elif" => {
                if let Some((before, first)) = self.branches.last_mut() {
                    let after = std::mem::replace(&mut self.open, before.clone());
                    first.get_or_insert(after);
                }
            }
            "endif" => {
                if let Some((_, Some(first))) = self.branches.pop() {
                    self.open = first;
                }
            }
            _ => {}
        }
    }

    fn code(&mut self, pieces: &[Piece<'_>]) {
        let indent = self.indentation(pieces);
        let mut outside = indent;
        let mut column = 0;
        let mut before: Option<&Piece<'_>> = None;
        for (i, piece) in pieces.iter().enumerate() {
            match before {
                // Within an annotation, the line begins as it did.
                None if piece.kept => self.out.push_str(piece.before),
                None => self.out.extend(std::iter::repeat_n(' ', indent)),
                Some(_) if piece.kept => self.out.push_str(piece.before),
                Some(last) => self.gap(pieces, i, last, piece),
            }
            match piece.kind {
                Kind::Block if !piece.kept => self.comment(piece.text, indent),
                Kind::Line => self.out.push_str(piece.text.trim_end()),
                _ => self.out.push_str(piece.text),
            }
            column += piece.before.chars().count() + piece.text.chars().count();
            self.track(piece, &mut outside, column);
            before = Some(piece);
        }
        while self.out.ends_with([' ', '\t']) && pieces.last().is_none_or(|p| p.kind != Kind::Text)
        {
            self.out.pop();
        }
        self.out.push('\n');
        let code = pieces.iter().rev().find(|p| !matches!(p.kind, Kind::Line | Kind::Block));
        if let Some(last) = code {
            self.joins = last.kind == Kind::Sign && !last.kept && JOINING.contains(&last.text);
            self.last = Some(last.text.to_owned());
        }
    }

    /// The indentation of a line.
    fn indentation(&mut self, pieces: &[Piece<'_>]) -> usize {
        let closing =
            pieces.iter().take_while(|p| p.kind == Kind::Sign && closes(p.text).is_some());
        let closed = closing.count();
        let base = match closed {
            0 => {
                let written = pieces.first().map_or(0, |first| first.before.chars().count());
                let below = |open: &Open| open.sign != '{' && open.after.0 == written;
                match self.open.last() {
                    // It is a place of its own, for statements that go on, too.
                    Some(open) if below(open) => return open.after.1,
                    open => open.map_or(0, |open| open.inside),
                }
            }
            _ => {
                let at = self.open.len().saturating_sub(closed);
                self.open.get(at).map_or(0, |open| open.outside)
            }
        };
        let comment = pieces.first().is_some_and(|p| matches!(p.kind, Kind::Line | Kind::Block));
        let goes_on = |p: &Piece<'_>| {
            p.kind == Kind::Sign && (JOINING.contains(&p.text) || matches!(p.text, ":" | "&"))
        };
        let joined = self.joins || (!comment && pieces.first().is_some_and(goes_on));
        if joined && self.last.is_some() && closed == 0 {
            return base.max(self.statement) + INDENT;
        }
        if !comment {
            self.statement = base;
        }
        base
    }

    /// Opens and closes brackets. `outside` is the indentation of what a bracket in this line belongs
    /// to: the line, or an earlier one whose bracket this line closes.
    fn track(&mut self, piece: &Piece<'_>, outside: &mut usize, column: usize) {
        if piece.kind != Kind::Sign {
            return;
        }
        if let (1, Some(sign @ ('(' | '[' | '{'))) = (piece.text.len(), piece.text.chars().next()) {
            let line = self.out.rfind('\n').map_or(0, |at| at + 1);
            let after = (column, self.out[line..].chars().count());
            self.open.push(Open { sign, outside: *outside, inside: *outside + INDENT, after });
        } else if let Some(sign) = closes(piece.text)
            && let Some(at) = self.open.iter().rposition(|open| open.sign == sign)
        {
            *outside = self.open[at].outside.min(*outside);
            self.open.truncate(at);
        }
    }

    /// The white space between two tokens of a line.
    fn gap(&mut self, pieces: &[Piece<'_>], i: usize, last: &Piece<'_>, next: &Piece<'_>) {
        if matches!(next.kind, Kind::Line | Kind::Block) || last.kind == Kind::Block {
            let written = next.before.replace('\t', " ");
            let least = if next.kind == Kind::Line { " " } else { "" };
            self.out.push_str(if written.is_empty() { least } else { &written });
            return;
        }
        let wanted = wanted(pieces, i, last, next).unwrap_or(!next.before.is_empty());
        // Aligned columns stay aligned.
        let aligned = next.before.len() > 1 && !next.before.contains('\t');
        match (wanted, aligned) {
            (true, true) => self.out.push_str(next.before),
            (true, false) => self.out.push(' '),
            (false, _) => {}
        }
    }

    /// A comment of several lines: lines that begin with `*` are put below its first one.
    fn comment(&mut self, text: &str, indent: usize) {
        for (i, line) in text.split('\n').enumerate() {
            let trimmed = line.trim();
            match i {
                0 => self.out.push_str(line.trim_end()),
                _ if trimmed.starts_with('*') => {
                    self.out.push('\n');
                    self.out.extend(std::iter::repeat_n(' ', indent + 1));
                    self.out.push_str(trimmed);
                }
                _ => {
                    self.out.push('\n');
                    self.out.push_str(line.trim_end());
                }
            }
        }
    }
}

/// The opening bracket that a sign closes.
fn closes(sign: &str) -> Option<char> {
    match sign {
        ")" => Some('('),
        "]" => Some('['),
        "}" => Some('{'),
        _ => None,
    }
}

/// Whether a blank belongs between two tokens; `None` where the author decides, because only the
/// meaning tells a comparison from a list of types, or a sign from a subtraction.
fn wanted(pieces: &[Piece<'_>], i: usize, last: &Piece<'_>, next: &Piece<'_>) -> Option<bool> {
    let binary = |p: &Piece<'_>| p.kind == Kind::Sign && BINARY.contains(&p.text);
    let in_index = || {
        let mut depth = 0i32;
        pieces[..i].iter().rev().any(|p| {
            depth += i32::from(p.is("]")) - i32::from(p.is("["));
            depth < 0
        })
    };
    Some(match (last, next) {
        // `> >` and `>>` differ.
        _ if last.is(">") || next.is(">") || last.is("<") || next.is("<") => return None,
        _ if last.is("@") || last.is(".") || next.is(".") => false,
        _ if next.is(",") || next.is(";") => false,
        _ if last.is(",") || last.is(";") => true,
        _ if last.is("(") || last.is("[") || next.is(")") || next.is("]") => false,
        _ if last.is("{") && next.is("}") => return None,
        _ if last.is("{") || next.is("}") || next.is("{") => true,
        _ if binary(last) || binary(next) => true,
        _ if last.is(":") && in_index() => return None,
        _ if last.is(":") => true,
        _ if next.is("(") && last.kind == Kind::Word => SPACED.contains(&last.text),
        _ if last.is("}") => return None,
        _ if last.kind != Kind::Sign && next.kind != Kind::Sign => true,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn becomes(text: &str, want: &str) {
        let once = format(text);
        assert_eq!(once, want);
        assert_eq!(format(&once), once, "again");
    }

    #[test]
    fn a_text_whose_tokens_would_change_stays_as_it_is() {
        let text = "#if 0\n5\" wide\n#endif\nx=log_msg(\"a;b\");\n";
        assert_eq!(format(text), text);
        let text = "#define X 1 /* see\nthe \"old */\nx=f(\"a;b\");\n";
        assert!(format(text).contains("\"a;b\""), "{}", format(text));
    }

    #[test]
    fn indentation_follows_the_brackets() {
        becomes(
            "control C(inout h_t h,\n  in bit<8>x) {\napply{\n\tif(x==1){h.a=2;}\n  else {\nt.apply( ) ;\n}\n}\n   }\n",
            "control C(inout h_t h,\n    in bit<8> x) {\n    apply {\n        if (x == 1) { h.a = 2; }\n        else {\n            t.apply();\n        }\n    }\n}\n"
                .replace("in bit<8> x", "in bit<8>x")
                .as_str(),
        );
        becomes(
            "a = f(g(\n1,\n2\n),\n3);\nb = 1;\n",
            "a = f(g(\n    1,\n    2\n),\n    3);\nb = 1;\n",
        );
    }

    #[test]
    fn statements_that_go_on_are_indented() {
        becomes(
            "bit<8> a =\n1 +\n2;\nbit<8> b = c\n? d\n: e;\nkey = {\nhdr.a.isValid()\n: exact;\n}\n",
            "bit<8> a =\n    1 +\n    2;\nbit<8> b = c\n    ? d\n    : e;\nkey = {\n    hdr.a.isValid()\n        : exact;\n}\n",
        );
    }

    #[test]
    fn what_is_not_code_is_kept() {
        let text = "#define F(x) \\\n   x  +  1\n@note(a/b   c,\n     d) @pragma  x   y\n// a  b\nx = \"a  b\";   // far\n";
        becomes(text, text);
        becomes("/* a\n      * b\n   c */\nx;\n", "/* a\n * b\n   c */\nx;\n");
        becomes("\n\n\nx;\n\n\n\ny;\n\n", "x;\n\ny;\n");
        becomes("x;", "x;\n");
    }

    #[test]
    fn columns_and_what_only_the_meaning_tells_are_the_authors() {
        let text = "header h {\n    bit<8>    a;\n    bit<16>   long;\n}\nx = a<b; y = c < d; z = -1 - -2; w = v >> 1;\n";
        becomes(text, text);
        becomes("x = y [ 7 : 0 ] ++ z[3:0];\n", "x = y [7 : 0] ++ z[3:0];\n");
    }

    #[test]
    fn arguments_below_one_another_stay_there() {
        becomes(
            "control C(inout h_t h,\n          in bit<8> x,\n  out bit<8> y) {\n  a( b,\n     c) ;\n}\n",
            "control C(inout h_t h,\n          in bit<8> x,\n    out bit<8> y) {\n    a(b,\n        c);\n}\n",
        );
    }

    #[test]
    fn branches_of_the_preprocessor_open_brackets_once() {
        let text = "#if A\ncontrol A() {\n#else\ncontrol B() {\n#endif\n    apply { }\n}\n";
        becomes(text, text);
    }
}
