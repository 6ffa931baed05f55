//! Diagnostics: the problem, its position, and how to fix it.
//!
//! A [`Diagnostic`] contains the source line, so it can be rendered without the sources: on the
//! machine that compiles, or in a switch's answer to an invalid program.

use std::fmt;
use std::ops::Range;

use ariadne::{Color, Config, IndexType, Label, Report, ReportKind, Source};
use tributary_base::{printable, unprintable};

use crate::limits::{ERRORS, MESSAGE_BYTES, WARNINGS, shortened};

/// Greater line numbers are shown in the heading only.
const MAX_PADDING: u32 = 100_000;

/// Longer lines are cut to the surroundings of the position.
const LONG_LINE: usize = 400;

/// The text around a range, and the position of the range in it.
pub(crate) fn window(line: &str, range: &Range<usize>) -> (String, Range<usize>) {
    let start = line.floor_char_boundary(range.start.saturating_sub(40));
    let end = line.floor_char_boundary((range.end + 40).min(range.start + EXCERPT)).max(start);
    let underline =
        range.start - start..range.end.clamp(range.start, end.max(range.start)).min(end) - start;
    (line[start..end].to_owned(), underline)
}

/// Number of bytes shown of a long line, from the position on.
pub(crate) const EXCERPT: usize = 160;

/// The severity of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The program does not compile.
    Error,
    /// The program compiles, but probably does not do what was intended.
    Warning,
}

/// One error or warning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// Name of the source file, before inclusion and macro expansion.
    pub file: String,
    /// Line in that file, from 1.
    pub line: u32,
    /// Column in that line, from 1, in characters. Within a macro's expansion it is that of the
    /// line's first non-blank character.
    pub column: u32,
    /// The problem, in one sentence without a full stop.
    pub message: String,
    /// A label for the underlined text, if it adds to the message.
    pub label: Option<String>,
    /// How to fix it.
    pub help: Option<String>,
    /// Additional facts, one line each.
    pub notes: Vec<String>,
    /// The text of the line.
    pub source_line: String,
    /// The range of bytes in `source_line` that caused the diagnostic.
    pub underline: Range<usize>,
}

impl Diagnostic {
    /// Shortens text that a hostile program made long: names, and the line to the surroundings of
    /// the position. Escapes characters that a terminal would interpret.
    pub(crate) fn tidied(mut self) -> Self {
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
        self
    }

    /// Renders the diagnostic with its line and the cause underlined, with or without colours.
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
        // Empty lines before it produce the right line number.
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
        if !self.file.is_empty() {
            write!(f, "{}:{}:{}: {kind}: ", self.file, self.line, self.column)?;
        }
        f.write_str(&self.message)
    }
}

/// All diagnostics of one compilation, in the order of detection.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Why the program was not even looked at, if that is so: a lack of resources.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        let first = self.list.first().filter(|first| first.file.is_empty())?;
        Some(&first.message)
    }

    /// One line: the failure, or the number of errors.
    #[must_use]
    pub fn summary(&self) -> String {
        if let Some(failure) = self.failure() {
            return failure.to_owned();
        }
        let errors = self.iter().filter(|one| one.severity == Severity::Error).count();
        tributary_base::counted(errors, "error")
    }

    /// Adds a diagnostic, unless the same one exists for the same position. Long texts are
    /// shortened.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let diagnostic = diagnostic.tidied();
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

    /// Adds an error. The last one that is allowed ends the compilation.
    pub(crate) fn report(&mut self, error: Diagnostic) {
        let last = (self.count(Severity::Error) + 1 >= ERRORS).then(|| Diagnostic {
            message: format!("there are more than {ERRORS} errors: what follows is not compiled"),
            help: Some("correct the first ones: they are the cause of most others".to_owned()),
            notes: Vec::new(),
            ..error.clone()
        });
        self.push(error);
        if let Some(last) = last {
            self.push(last);
            Stop::unwind(std::mem::take(self));
        }
    }

    /// Whether further warnings are dropped.
    pub(crate) fn warned_enough(&self) -> bool {
        self.count(Severity::Warning) >= WARNINGS
    }

    /// All diagnostics.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// Number of diagnostics.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no diagnostics.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Number of diagnostics with this severity.
    fn count(&self, severity: Severity) -> usize {
        self.list.iter().filter(|d| d.severity == severity).count()
    }

    /// Whether one of them is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }

    /// Renders all diagnostics, see [`Diagnostic::render`].
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

/// Payload that unwinds from any depth of a phase when a limit is reached, with the diagnostics so
/// far. It ends the compiler's thread.
pub(crate) struct Stop(pub(crate) Diagnostics);

impl Stop {
    /// Ends the compilation. No panic is reported, because this is the regular outcome for a
    /// hostile program.
    pub(crate) fn unwind(list: Diagnostics) -> ! {
        std::panic::resume_unwind(Box::new(Self(list)))
    }
}
