//! The origin of source text, and the mapping of positions in preprocessed text to it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tributary_base::FileLimit;

use crate::arch;
use crate::diagnostics::{Diagnostic, Diagnostics, EXCERPT, Severity, Stop, window};
use crate::limits;

/// Limit of a source file: a regular file, because it may be read more than once, not much larger
/// than hand-written or generated programs.
pub const SOURCE: FileLimit = FileLimit::regular("P4 source file", 16 << 20);

/// Finds included files: on disk, in an embedded map, or among the built-in architectures
/// (`core.p4`, `v1model.p4`, `tna.p4`).
#[derive(Clone, Debug, Default)]
pub struct Sources {
    search: Vec<PathBuf>,
    embedded: BTreeMap<String, String>,
    disk: bool,
}

impl Sources {
    /// Reads included files from disk: next to the including file, then from the search path.
    #[must_use]
    pub fn disk() -> Self {
        Self { disk: true, ..Self::default() }
    }

    /// Uses only the built-in architectures and files added by [`Self::embed`].
    #[must_use]
    pub fn embedded() -> Self {
        Self::default()
    }

    /// Adds a directory to the search path.
    #[must_use]
    pub fn search(mut self, directory: impl Into<PathBuf>) -> Self {
        self.search.push(directory.into());
        self
    }

    /// Adds an in-memory file. Its name is a path with `/`. Programs include it by that name, or by
    /// a path relative to the directory of another embedded file.
    #[must_use]
    pub fn embed(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.embedded.insert(name.into(), text.into());
        self
    }

    /// The main file's text.
    pub(crate) fn main(&self, name: &str) -> Option<String> {
        self.embedded.get(name).cloned().or_else(|| self.read(Path::new(name)))
    }

    /// Resolves an `#include`: the name of the file, and its text. `from` is the name of the
    /// including file.
    pub(crate) fn include(&self, name: &str, angle: bool, from: &str) -> Option<(String, String)> {
        if !angle {
            let beside = beside(from, name);
            if let Some(text) = self.embedded.get(&beside) {
                return Some((beside, text.clone()));
            }
            if let Some(text) = self.read(Path::new(&beside)) {
                return Some((beside, text));
            }
        }
        if let Some(text) = self.embedded.get(name) {
            return Some((name.to_owned(), text.clone()));
        }
        if let Some(text) = arch::builtin(name) {
            return Some((name.to_owned(), text.to_owned()));
        }
        for directory in &self.search {
            let path = directory.join(name);
            if let Some(text) = self.read(&path) {
                return Some((path.to_string_lossy().into_owned(), text));
            }
        }
        None
    }

    fn read(&self, path: &Path) -> Option<String> {
        if !self.disk {
            return None;
        }
        let bytes = SOURCE.read(path).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// `name` relative to the directory of `from`, with `.` and `..` resolved by name.
fn beside(from: &str, name: &str) -> String {
    if name.starts_with('/') {
        return name.to_owned();
    }
    let mut parts: Vec<&str> = match from.rfind('/') {
        Some(0) => vec![""],
        Some(i) => from[..i].split('/').collect(),
        None => Vec::new(),
    };
    for part in name.split('/') {
        match part {
            "." | "" => {}
            ".." if parts.last().is_some_and(|p| !p.is_empty() && *p != "..") => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}

/// A range of bytes in the preprocessed text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// The span from the start of `self` to the end of `other`.
    pub(crate) fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end.max(self.end) }
    }
}

/// Files before preprocessing, by name. Files that were not read here, because a preprocessed text
/// only names them, are missing.
pub(crate) type Originals = HashMap<String, Arc<str>>;

/// The preprocessed text with its mapping to the sources.
pub(crate) struct Text {
    pub(crate) text: String,
    /// Start of each line other than markers, with its file and line.
    lines: Vec<(u32, u32, u32)>,
    files: Vec<String>,
    originals: Originals,
}

impl Text {
    pub(crate) fn new(text: String, main: &str, originals: Originals) -> Self {
        let mut files = vec![main.to_owned()];
        let mut known = HashMap::from([(main.to_owned(), 0)]);
        let mut lines = Vec::new();
        let (mut file, mut line, mut offset) = (0u32, 1u32, 0usize);
        for physical in text.split_inclusive('\n') {
            if let Some((number, name)) = parse_marker(physical) {
                line = number;
                if let Some(name) = name {
                    file = *known.entry(name).or_insert_with_key(|name| {
                        files.push(name.clone());
                        files.len() as u32 - 1
                    });
                }
            } else {
                lines.push((offset as u32, file, line));
                line = line.saturating_add(1);
            }
            offset += physical.len();
        }
        Self { text, lines, files, originals }
    }

    /// File and line of a position.
    pub(crate) fn locate(&self, span: Span) -> (&str, u32) {
        match self.lines.partition_point(|l| l.0 <= span.start).checked_sub(1) {
            Some(i) => (&self.files[self.lines[i].1 as usize], self.lines[i].2),
            None => (&self.files[0], 1),
        }
    }

    /// The text of a span.
    pub(crate) fn slice(&self, span: Span) -> &str {
        &self.text[span.start as usize..span.end as usize]
    }

    /// `file:line` for notes.
    pub(crate) fn place(&self, span: Span) -> String {
        let (file, line) = self.locate(span);
        format!("{file}:{line}")
    }

    /// Creates a diagnostic for a span.
    pub(crate) fn diagnostic(&self, severity: Severity, span: Span, message: String) -> Diagnostic {
        let (file, line) = self.locate(span);
        let index = self.lines.partition_point(|l| l.0 <= span.start).saturating_sub(1);
        let start = self.lines.get(index).map_or(0, |l| l.0 as usize);
        let expanded = self.text[start..].split('\n').next().unwrap_or("");
        let from = (span.start as usize).saturating_sub(start).min(expanded.len());
        let to = (span.end as usize).saturating_sub(start).clamp(from, expanded.len());
        let original = self
            .originals
            .get(file)
            .and_then(|text| text.lines().nth(line.saturating_sub(1) as usize));
        let excerpt = Excerpt::choose(expanded, from..to, original);
        Diagnostic {
            severity,
            file: file.to_owned(),
            line,
            column: excerpt.line[..excerpt.underline.start].chars().count() as u32 + 1,
            message,
            label: None,
            help: None,
            notes: excerpt.note.into_iter().collect(),
            source_line: excerpt.line,
            underline: excerpt.underline,
        }
    }
}

/// The line shown in a diagnostic.
struct Excerpt {
    line: String,
    underline: std::ops::Range<usize>,
    note: Option<String>,
}

impl Excerpt {
    fn choose(expanded: &str, range: std::ops::Range<usize>, original: Option<&str>) -> Self {
        let token = &expanded[range.clone()];
        if let Some(original) = original {
            if original.get(range.clone()) == Some(token) {
                return Self { line: original.to_owned(), underline: range, note: None };
            }
            let note = Some(format!("after macro expansion: {}", window(expanded, &range).0));
            let words = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if let Some(at) =
                original.find(token).filter(|_| token.len() > 2 && token.chars().all(words))
            {
                return Self { line: original.to_owned(), underline: at..at + token.len(), note };
            }
            let start = original.len() - original.trim_start().len();
            let end = original.trim_end().trim_end_matches('\\').trim_end().len().max(start);
            return Self { line: original.to_owned(), underline: start..end, note };
        }
        if expanded.len() <= EXCERPT {
            return Self { line: expanded.to_owned(), underline: range, note: None };
        }
        let (line, underline) = window(expanded, &range);
        Self { line, underline, note: None }
    }
}

/// Limit for line numbers, because markers may contain any number.
const MAX_LINE: u32 = 1 << 30;

/// `# 12 "file"` or `#line 12 "file"`: the number of the next line, and the file if it changes.
pub(crate) fn parse_marker(line: &str) -> Option<(u32, Option<String>)> {
    let rest = line.strip_prefix('#')?.trim();
    let rest = rest.strip_prefix("line").unwrap_or(rest).trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let number = rest[..digits].parse::<u32>().ok()?.clamp(1, MAX_LINE);
    let name = rest[digits..]
        .trim()
        .strip_prefix('"')
        .and_then(|r| r.rfind('"').map(|end| r[..end].to_owned()));
    Some((number, name))
}

/// Collects diagnostics during a phase, and counts the cost of the program.
pub(crate) struct Reporter<'t> {
    pub(crate) text: &'t Text,
    pub(crate) list: Diagnostics,
    /// Number of steps left, see [`limits::STEPS`].
    left: u64,
    /// The position that is being compiled.
    at: Span,
}

impl<'t> Reporter<'t> {
    pub(crate) fn new(text: &'t Text) -> Self {
        Self::with(text, Diagnostics::default())
    }

    /// Continues with the preprocessor's diagnostics.
    pub(crate) fn with(text: &'t Text, list: Diagnostics) -> Self {
        Self { text, list, left: limits::STEPS, at: Span::default() }
    }

    /// Charges one step, at a position.
    pub(crate) fn step(&mut self, at: Span) {
        self.at = at;
        self.work(1);
    }

    /// Charges steps at the position of the last step.
    pub(crate) fn work(&mut self, steps: u64) {
        match self.left.checked_sub(steps) {
            Some(left) => self.left = left,
            None => self.stop_here(
                format!("the program is too large: it takes more than {} steps to compile", limits::STEPS),
                "something is repeated very often here or before: macros, instances, calls, types or values that contain each other several times",
            ),
        }
    }

    /// Number of steps so far.
    pub(crate) fn steps(&self) -> u64 {
        limits::STEPS - self.left
    }

    /// Reports an error at the position of the last step.
    pub(crate) fn error_here(&mut self, message: impl Into<String>, help: impl Into<String>) {
        self.error_help(self.at, message, help);
    }

    /// Ends the compilation with an error at the position of the last step.
    pub(crate) fn stop_here(&mut self, message: impl Into<String>, help: impl Into<String>) -> ! {
        self.stop(self.at, message, help)
    }

    /// Ends the compilation with this error.
    pub(crate) fn stop(
        &mut self,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> ! {
        let mut d = self.text.diagnostic(Severity::Error, span, message.into());
        d.help = Some(help.into());
        self.list.push(d);
        Stop::unwind(std::mem::take(&mut self.list))
    }

    /// Reports an error.
    pub(crate) fn error(&mut self, span: Span, message: impl Into<String>) {
        let d = self.text.diagnostic(Severity::Error, span, message.into());
        self.push(d);
    }

    /// Reports an error and how to fix it.
    pub(crate) fn error_help(
        &mut self,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let mut d = self.text.diagnostic(Severity::Error, span, message.into());
        d.help = Some(help.into());
        self.push(d);
    }

    /// Reports an error with a note on another position.
    pub(crate) fn error_at(
        &mut self,
        span: Span,
        message: impl Into<String>,
        what: &str,
        other: Span,
    ) {
        let mut d = self.text.diagnostic(Severity::Error, span, message.into());
        d.notes.push(format!("{what} at {}", self.text.place(other)));
        self.push(d);
    }

    /// Adds a diagnostic. Duplicates, from code that is checked twice such as the parameters of a
    /// function, are dropped.
    fn push(&mut self, d: Diagnostic) {
        // Finding the line takes time proportional to the text.
        self.work(100 + self.text.text.len() as u64 / 1000);
        self.list.report(d);
    }

    /// Reports a language construct that this compiler does not support.
    pub(crate) fn unsupported(&mut self, span: Span, what: &str) {
        self.error(span, format!("{what} not supported yet"));
    }

    /// Reports a warning.
    pub(crate) fn warning(&mut self, span: Span, message: impl Into<String>) {
        if self.list.warned_enough() {
            return;
        }
        self.work(100 + self.text.text.len() as u64 / 1000);
        self.list.push(self.text.diagnostic(Severity::Warning, span, message.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_are_relative_to_the_including_file() {
        assert_eq!(beside("a/b/c.p4", "../d.p4"), "a/d.p4");
        assert_eq!(beside("c.p4", "x/./d.p4"), "x/d.p4");
        assert_eq!(beside("/c.p4", "d.p4"), "/d.p4");
        assert_eq!(beside("c.p4", "../d.p4"), "../d.p4");
        assert_eq!(beside("a/c.p4", "/d.p4"), "/d.p4");
    }

    #[test]
    fn markers_in_both_spellings() {
        assert_eq!(parse_marker("# 12 \"x.p4\"\n"), Some((12, Some("x.p4".into()))));
        assert_eq!(parse_marker("#line 3"), Some((3, None)));
        assert_eq!(parse_marker("#define A 1"), None);
        assert_eq!(parse_marker("a # 1"), None);
    }

    #[test]
    fn places_map_back_through_markers() {
        let text = Text::new("a\n# 7 \"f.p4\"\nb\nc\n".into(), "m.p4", Originals::new());
        assert_eq!(text.locate(Span::new(0, 1)), ("m.p4", 1));
        let c = text.text.rfind('c').unwrap();
        assert_eq!(text.locate(Span::new(c, c + 1)), ("f.p4", 8));
    }
}
