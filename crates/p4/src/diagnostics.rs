//! What went wrong, where, and what to do about it.
//!
//! A [`Diagnostic`] carries the line it is about, so it can be rendered anywhere (on the machine
//! that compiles, or in the answer of a switch that was sent a bad program) without the sources at
//! hand.

use std::fmt;
use std::ops::Range;

use ariadne::{Color, Config, IndexType, Label, Report, ReportKind, Source};

use crate::limits::{MESSAGE_BYTES, shortened};

/// Line numbers beyond this are shown in the heading only.
const MAX_PADDING: u32 = 100_000;

/// Lines longer than this are cut to what surrounds the place.
const LONG_LINE: usize = 400;

/// The text around a range, and where the range is in it.
pub(crate) fn window(line: &str, range: &Range<usize>) -> (String, Range<usize>) {
    let start = line.floor_char_boundary(range.start.saturating_sub(40));
    let end = line.floor_char_boundary((range.end + 40).min(range.start + EXCERPT)).max(start);
    let underline =
        range.start - start..range.end.clamp(range.start, end.max(range.start)).min(end) - start;
    (line[start..end].to_owned(), underline)
}

/// Whether a terminal would act on a character: control characters, and those that turn the direction
/// of writing, which make a line look like another one.
fn unprintable(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control() && c != '\t'
}

/// The text with characters that a terminal would act on written as in a string of Rust.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if unprintable(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// Bytes that are shown of a long line, from the place on.
pub(crate) const EXCERPT: usize = 160;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The program does not compile.
    Error,
    /// The program compiles, but probably does not do what was meant.
    Warning,
}

/// One error or warning.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// Name of the source file, before any inclusion or macro expansion.
    pub file: String,
    /// Line in that file, from 1.
    pub line: u32,
    /// Column in that line, from 1, in characters. Inside a macro's expansion: of the line's first
    /// character that is not blank.
    pub column: u32,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// What the underlined text is, where that says more than the message.
    pub label: Option<String>,
    /// What to do about it.
    pub help: Option<String>,
    /// More facts, each on a line of its own.
    pub notes: Vec<String>,
    /// The text of the line.
    pub source_line: String,
    /// The bytes of `source_line` that are at fault.
    pub underline: Range<usize>,
}

impl Diagnostic {
    /// Cuts what a hostile program made long: names, and the line itself to what surrounds its cause.
    /// Escapes what a terminal would act on.
    fn tidy(&mut self) {
        let texts = [Some(&mut self.file), Some(&mut self.message)].into_iter().flatten();
        let texts = texts.chain(&mut self.label).chain(&mut self.help).chain(&mut self.notes);
        for text in texts {
            if text.len() > MESSAGE_BYTES {
                *text = shortened(text, MESSAGE_BYTES).into_owned();
            }
            if text.contains(unprintable) {
                *text = printable(text);
            }
        }
        if self.source_line.len() > LONG_LINE {
            let (line, underline) = window(&self.source_line, &self.underline);
            (self.source_line, self.underline) = (line, underline);
        }
        if self.source_line.contains(unprintable) {
            let (before, rest) = self.source_line.split_at(self.underline.start);
            let (within, behind) = rest.split_at(self.underline.len());
            let [before, within, behind] = [before, within, behind].map(printable);
            self.underline = before.len()..before.len() + within.len();
            self.source_line = before + &within + &behind;
        }
    }

    /// The diagnostic with its line and its cause underlined, in colours or as plain text.
    #[must_use]
    pub fn render(&self, colours: bool) -> String {
        let kind = match self.severity {
            Severity::Error => ReportKind::Error,
            Severity::Warning => ReportKind::Warning,
        };
        let colour = match self.severity {
            Severity::Error => Color::Red,
            Severity::Warning => Color::Yellow,
        };
        // Empty lines in front make the line number come out right.
        let above = if self.line > MAX_PADDING { 0 } else { self.line.saturating_sub(1) as usize };
        let underline = self.underline.start + above..self.underline.end + above;
        let span = (self.file.clone(), underline);
        let mut label = Label::new(span.clone()).with_color(colour);
        label = label.with_message(self.label.as_deref().unwrap_or("here"));
        let mut report = Report::build(kind, span)
            .with_config(Config::default().with_color(colours).with_index_type(IndexType::Byte))
            .with_message(&self.message)
            .with_label(label);
        for note in &self.notes {
            report.add_note(note);
        }
        if let Some(help) = &self.help {
            report.set_help(help);
        }
        let source = Source::from("\n".repeat(above) + &self.source_line);
        let mut out = Vec::new();
        match report.finish().write((self.file.clone(), source), &mut out) {
            Ok(()) => String::from_utf8_lossy(&out).into_owned(),
            Err(_) => format!("{self}\n"),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}:{}:{}: {kind}: {}", self.file, self.line, self.column, self.message)
    }
}

/// All that was found in one compilation, in the order of discovery.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Adds one, unless the same was said of the same place before. Long texts in it are shortened.
    pub fn push(&mut self, mut diagnostic: Diagnostic) {
        diagnostic.tidy();
        let same = |d: &Diagnostic| {
            d.line == diagnostic.line
                && d.column == diagnostic.column
                && d.message == diagnostic.message
                && d.file == diagnostic.file
        };
        if !self.list.iter().any(same) {
            self.list.push(diagnostic);
        }
    }

    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many are of a kind.
    pub(crate) fn count(&self, severity: Severity) -> usize {
        self.list.iter().filter(|d| d.severity == severity).count()
    }

    /// Whether one of them is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }

    /// All of them rendered one after the other, see [`Diagnostic::render`].
    #[must_use]
    pub fn render(&self, colours: bool) -> String {
        self.list.iter().map(|d| d.render(colours)).collect()
    }
}

impl fmt::Display for Diagnostics {
    /// One line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self.list.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{d}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
