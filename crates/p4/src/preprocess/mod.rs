//! The preprocessor: `#include`, `#define`, conditionals and macro expansion.
//!
//! The result is one text that needs no other file. Lines of the form `# n "file"` give the origin
//! of the text. Preprocessing such a text again changes nothing and keeps these lines.

mod condition;
mod expand;
mod token;

use std::rc::Rc;
use std::sync::Arc;

use crate::diagnostics::{Diagnostic, Diagnostics, Severity, Stop};
use crate::limits;
use crate::source::{Originals, Sources, Text, parse_marker};
use expand::{Expander, Failure, Macro, Macros};
use token::{Kind, Token, blank_comments, names_any, scan, tokenize, write};

/// Whether two texts differ in white space and comments only, as the preprocessor sees them.
pub(crate) fn have_same_tokens(one: &str, other: &str) -> bool {
    let (one, other) = (blank_comments(one).0, blank_comments(other).0);
    let tokens = |text: &str| text.lines().flat_map(tokenize).map(|token| token.text).collect();
    let (one, other): (Vec<Rc<str>>, Vec<Rc<str>>) = (tokens(&one), tokens(&other));
    one == other
}

/// Preprocesses a main file and all files that it includes, with `(name, value)` defines.
pub(crate) fn run(
    sources: &Sources,
    main: &str,
    text: &str,
    defines: &[(String, String)],
) -> (Text, Diagnostics) {
    let mut p = Preprocessor {
        sources,
        macros: Macros::new(),
        out: String::with_capacity(text.len() * 2),
        originals: Originals::new(),
        diagnostics: Diagnostics::default(),
        depth: 0,
        includes: 0,
        bytes: 0,
        produced: 0,
        file: main.to_owned(),
        written: (main.to_owned(), 1),
    };
    for (name, value) in defines {
        p.macros.insert(
            Rc::from(name.as_str()),
            Rc::new(Macro { params: None, variadic: false, body: tokenize(value) }),
        );
    }
    p.file(main, text);
    (Text::new(p.out, main, p.originals), p.diagnostics)
}

struct Preprocessor<'s> {
    sources: &'s Sources,
    macros: Macros,
    out: String,
    originals: Originals,
    diagnostics: Diagnostics,
    /// Nesting of the current file, number of files included so far, their total bytes, and number
    /// of tokens that macros produced: see `limits`.
    depth: usize,
    includes: usize,
    bytes: usize,
    produced: usize,
    /// Name of the current file in markers.
    file: String,
    /// File and line that the markers written so far imply for the next line.
    written: (String, u32),
}

/// The lines of one file, and the current position.
struct Reader<'t> {
    lines: Vec<&'t str>,
    next: usize,
    /// Offset that markers in the file add to its line numbers.
    shift: i64,
}

impl Reader<'_> {
    /// Joins lines that end in a backslash.
    fn logical(&mut self) -> Option<String> {
        let mut line = (*self.lines.get(self.next)?).to_owned();
        self.next += 1;
        while line.trim_end().ends_with('\\') {
            line.truncate(line.trim_end().len() - 1);
            let Some(more) = self.lines.get(self.next) else { break };
            line.push_str(more);
            self.next += 1;
        }
        Some(line)
    }

    fn number(&self, index: usize) -> u32 {
        u32::try_from(index as i64 + 1 + self.shift).unwrap_or(1)
    }
}

/// An open `#if`.
struct Conditional {
    line: u32,
    /// Whether the surrounding text is kept.
    outer: bool,
    /// Whether a branch has been kept already.
    taken: bool,
    /// Whether the current branch is kept.
    active: bool,
    seen_else: bool,
}

impl Preprocessor<'_> {
    fn file(&mut self, name: &str, text: &str) {
        self.bytes += text.len();
        if self.bytes > limits::SOURCE_BYTES {
            let message = format!(
                "the program and what it includes have more than {} bytes",
                limits::SOURCE_BYTES
            );
            self.stop(1, &message, "make it smaller, or include each file once");
        }
        // A text with markers is not an original: its lines belong to other files.
        if !text.lines().any(|l| parse_marker(l).is_some()) {
            self.originals.entry(name.to_owned()).or_insert_with(|| Arc::from(text));
        }
        let (clean, unterminated) = blank_comments(text);
        let mut reader = Reader { lines: clean.lines().collect(), next: 0, shift: 0 };
        let outer_file = std::mem::replace(&mut self.file, name.to_owned());
        if let Some(line) = unterminated {
            self.error(line, "comment has no end", None);
        }
        let mut conditionals: Vec<Conditional> = Vec::new();
        loop {
            let line = reader.number(reader.next);
            let Some(content) = reader.logical() else { break };
            if let Some(directive) = content.trim_start().strip_prefix('#') {
                self.directive(&content, directive.trim(), line, &mut reader, &mut conditionals);
            } else if conditionals.last().is_none_or(|c| c.active) && !content.trim().is_empty() {
                self.content(&content, line, &mut reader);
            }
            if self.out.len() > limits::TEXT_BYTES {
                let message = format!(
                    "the program has more than {} bytes after preprocessing",
                    limits::TEXT_BYTES
                );
                self.stop(
                    line,
                    &message,
                    "macros or included files make it long: use them less often",
                );
            }
        }
        for open in conditionals {
            self.error(open.line, "`#if` without `#endif`", None);
        }
        self.file = outer_file;
    }

    /// An ordinary line.
    fn content(&mut self, content: &str, line: u32, reader: &mut Reader<'_>) {
        self.sync(line);
        let dynamic = |n: &str| n == "__LINE__" || n == "__FILE__";
        if names_any(content, |n| self.macros.contains_key(n) || dynamic(n)) {
            let indent = content.len() - content.trim_start().len();
            let mut tokens = tokenize(content);
            for t in &mut tokens {
                self.dynamic(t, line);
            }
            let mut expander = Expander::new(&self.macros, self.produced);
            let expanded = expander.expand(tokens, &mut || reader.logical().map(|l| tokenize(&l)));
            self.produced = expander.produced;
            match expanded {
                Ok(mut tokens) => {
                    if let Some(first) = tokens.first_mut() {
                        first.space = false;
                    }
                    self.out.push_str(&content[..indent]);
                    write(&tokens, &mut self.out);
                }
                Err(failure) => self.failed(line, failure),
            }
        } else {
            self.out.push_str(content);
        }
        self.out.push('\n');
        self.written.1 += 1;
    }

    /// Handles a failed expansion. Ends the compilation if a limit was reached.
    fn failed(&mut self, line: u32, failure: Failure) {
        match failure {
            Failure::Wrong(message) => self.error(line, &message, None),
            Failure::Endless(message) => {
                self.stop(line, &message, "define the macro without so many others in it");
            }
        }
    }

    fn dynamic(&self, token: &mut Token, line: u32) {
        match &*token.text {
            "__LINE__" => {
                token.kind = Kind::Number;
                token.text = line.to_string().into();
            }
            "__FILE__" => {
                token.kind = Kind::Text;
                token.text = format!("\"{}\"", self.file).into();
            }
            _ => {}
        }
    }

    /// Makes the next output line map to this line of the current file.
    fn sync(&mut self, line: u32) {
        if self.written.0 == self.file && self.written.1 <= line && line - self.written.1 < 8 {
            for _ in self.written.1..line {
                self.out.push('\n');
            }
        } else if self.written.0 == self.file {
            self.out.push_str(&format!("# {line}\n"));
        } else {
            self.out.push_str(&format!("# {line} \"{}\"\n", self.file));
        }
        self.written = (self.file.clone(), line);
    }

    fn directive(
        &mut self,
        content: &str,
        directive: &str,
        line: u32,
        reader: &mut Reader<'_>,
        conditionals: &mut Vec<Conditional>,
    ) {
        let active = conditionals.last().is_none_or(|c| c.active);
        let length = directive.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(directive.len());
        let (name, rest) = (&directive[..length], directive[length..].trim());
        match name {
            "if" | "ifdef" | "ifndef" => {
                let holds = active
                    && match name {
                        "if" => self.condition(rest, line),
                        _ => self.known(rest, line) == (name == "ifdef"),
                    };
                if conditionals.len() >= limits::CONDITIONAL_DEPTH {
                    let message = format!(
                        "more than {} `#if`s inside one another",
                        limits::CONDITIONAL_DEPTH
                    );
                    self.stop(line, &message, "use `#elif`, or end one with `#endif` first");
                }
                conditionals.push(Conditional {
                    line,
                    outer: active,
                    taken: holds,
                    active: holds,
                    seen_else: false,
                });
            }
            "elif" | "else" => {
                let Some(current) = conditionals.last_mut() else {
                    self.error(line, &format!("`#{name}` without `#if`"), None);
                    return;
                };
                if current.seen_else {
                    self.error(line, &format!("`#{name}` after `#else`"), None);
                    return;
                }
                current.seen_else = name == "else";
                let wanted = current.outer && !current.taken;
                let holds = wanted && (name == "else" || self.condition(rest, line));
                if let Some(current) = conditionals.last_mut() {
                    current.active = holds;
                    current.taken |= holds;
                }
            }
            "endif" => {
                if conditionals.pop().is_none() {
                    self.error(line, "`#endif` without `#if`", None);
                }
            }
            _ if !active => {}
            "define" => self.define(rest, line),
            "undef" => {
                if self.known(rest, line) {
                    self.macros.remove(rest);
                }
            }
            "include" => self.include(rest, line),
            "error" => self.error(line, &format!("#error {rest}"), None),
            "warning" => self.report(Severity::Warning, line, &format!("#warning {rest}"), None),
            "pragma" | "" if directive.is_empty() || name == "pragma" => {}
            _ => match parse_marker(content.trim_start()) {
                Some((number, file)) => {
                    reader.shift = i64::from(number) - reader.next as i64 - 1;
                    if let Some(file) = file {
                        self.file = file;
                    }
                }
                None => self.error(line, &format!("unknown directive `#{name}`"), None),
            },
        }
    }

    /// Whether a macro is defined (`#ifdef`, `#undef`).
    fn known(&mut self, name: &str, line: u32) -> bool {
        if name.is_empty() || scan(name) != (name.len(), Kind::Ident) {
            self.error(line, &format!("`{name}` is not a macro name"), None);
        }
        self.macros.contains_key(name)
    }

    fn condition(&mut self, text: &str, line: u32) -> bool {
        let mut tokens = tokenize(text);
        for t in &mut tokens {
            self.dynamic(t, line);
        }
        let mut resolved = Vec::with_capacity(tokens.len());
        let mut i = 0;
        while i < tokens.len() {
            if &*tokens[i].text != "defined" {
                resolved.push(tokens[i].clone());
                i += 1;
                continue;
            }
            let parenthesis = tokens.get(i + 1).is_some_and(|t| t.is("("));
            let at = if parenthesis { i + 2 } else { i + 1 };
            let Some(name) = tokens.get(at).filter(|t| t.kind == Kind::Ident) else {
                self.error(line, "`defined` needs a macro name", None);
                return false;
            };
            if parenthesis && !tokens.get(at + 1).is_some_and(|t| t.is(")")) {
                self.error(line, "`defined(` needs a `)` after the name", None);
                return false;
            }
            let known = if self.macros.contains_key(&name.text) { "1" } else { "0" };
            resolved.push(Token { kind: Kind::Number, text: known.into(), ..tokens[i].clone() });
            i = at + if parenthesis { 2 } else { 1 };
        }
        let mut expander = Expander::new(&self.macros, self.produced);
        let expanded = expander.expand(resolved, &mut || None);
        self.produced = expander.produced;
        let evaluate = |tokens: Vec<Token>| condition::evaluate(&tokens).map_err(Failure::Wrong);
        match expanded.and_then(evaluate) {
            Ok(value) => value != 0,
            Err(failure) => {
                self.failed(line, failure);
                false
            }
        }
    }

    fn define(&mut self, text: &str, line: u32) {
        let (length, kind) = if text.is_empty() { (0, Kind::Empty) } else { scan(text) };
        if kind != Kind::Ident {
            self.error(line, "`#define` needs a name", None);
            return;
        }
        let (name, rest) = text.split_at(length);
        let mut variadic = false;
        let (params, body) = match rest.strip_prefix('(') {
            None => (None, rest),
            Some(after) => {
                let Some(close) = after.find(')') else {
                    self.error(
                        line,
                        &format!("the parameters of macro `{name}` have no closing parenthesis"),
                        None,
                    );
                    return;
                };
                let mut params: Vec<Rc<str>> = Vec::new();
                for param in after[..close].split(',').map(str::trim) {
                    match param {
                        "" if after[..close].trim().is_empty() => {}
                        "..." => variadic = true,
                        _ if !variadic
                            && !param.is_empty()
                            && scan(param) == (param.len(), Kind::Ident) =>
                        {
                            params.push(Rc::from(param));
                        }
                        _ => {
                            self.error(
                                line,
                                &format!("`{param}` is not a parameter name for macro `{name}`"),
                                None,
                            );
                            return;
                        }
                    }
                }
                (Some(params), &after[close + 1..])
            }
        };
        let body = tokenize(body);
        if let Some(old) = self.macros.get(name) {
            let same = old.params == params
                && old.body.len() == body.len()
                && old.body.iter().zip(&body).all(|(a, b)| a.text == b.text);
            if !same {
                let help = Some("write `#undef` first if that is meant");
                self.report(
                    Severity::Warning,
                    line,
                    &format!("macro `{name}` is defined again, differently"),
                    help,
                );
            }
        }
        self.macros.insert(Rc::from(name), Rc::new(Macro { params, variadic, body }));
    }

    fn include(&mut self, text: &str, line: u32) {
        let (name, angle) =
            if let Some(name) = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
                (name, false)
            } else if let Some(name) = text.strip_prefix('<').and_then(|t| t.strip_suffix('>')) {
                (name, true)
            } else {
                self.error(line, "`#include` needs \"file\" or <file>", None);
                return;
            };
        if self.depth >= limits::INCLUDE_DEPTH {
            let message =
                format!("`{name}` is included {} files deep: does it include itself?", self.depth);
            self.stop(line, &message, "put `#ifndef NAME`, `#define NAME` and `#endif` around it");
        }
        self.includes += 1;
        if self.includes > limits::INCLUDES {
            let message = format!("more than {} files are included", limits::INCLUDES);
            self.stop(line, &message, "include each file once");
        }
        let from = self.file.clone();
        match self.sources.include(name, angle, &from) {
            Some((resolved, text)) => {
                self.depth += 1;
                self.file(&resolved, &text);
                self.depth -= 1;
            }
            None => {
                let help = "quoted names are looked for beside the including file, then on the include path";
                self.error(line, &format!("cannot find `{name}`"), Some(help));
            }
        }
    }

    fn error(&mut self, line: u32, message: &str, help: Option<&str>) {
        self.report(Severity::Error, line, message, help);
    }

    /// Ends the compilation with this error.
    fn stop(&mut self, line: u32, message: &str, help: &str) -> ! {
        self.error(line, message, Some(help));
        Stop::unwind(std::mem::take(&mut self.diagnostics))
    }

    fn report(&mut self, severity: Severity, line: u32, message: &str, help: Option<&str>) {
        if severity == Severity::Warning && self.diagnostics.warned_enough() {
            return;
        }
        let original = self.originals.get(&self.file);
        let text =
            original.and_then(|t| t.lines().nth(line.saturating_sub(1) as usize)).unwrap_or("");
        let start = text.len() - text.trim_start().len();
        let diagnostic = Diagnostic {
            severity,
            file: self.file.clone(),
            line,
            column: start as u32 + 1,
            message: message.to_owned(),
            label: None,
            help: help.map(str::to_owned),
            notes: Vec::new(),
            source_line: text.to_owned(),
            underline: start..text.trim_end().len().max(start),
        };
        match severity {
            Severity::Error => self.diagnostics.report(diagnostic),
            Severity::Warning => self.diagnostics.push(diagnostic),
        }
    }
}

#[cfg(test)]
mod tests;
