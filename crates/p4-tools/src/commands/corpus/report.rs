//! The table of counts, and the list of disagreements.

use std::collections::HashMap;
use std::fmt;

use super::Outcome;
use super::answer::Answer;
use crate::args::CorpusArgs;

/// Longer messages are cut.
const MESSAGE: usize = 200;

pub(super) struct Report<'a> {
    pub(super) args: &'a CorpusArgs,
    /// Name of the other compiler.
    pub(super) other: Option<&'a str>,
    pub(super) outcomes: &'a [Outcome],
}

/// Row or column of the table.
fn kind(answer: &Answer) -> usize {
    match answer {
        Answer::Accepted => 0,
        Answer::Refused(_) => 1,
        Answer::None(_) => 2,
    }
}

const KINDS: [&str; 3] = ["accepted", "refused", "no answer"];

impl Report<'_> {
    /// Number of programs that one accepts and the other refuses, and of programs without an answer
    /// from this compiler.
    pub(super) fn disagreements(&self) -> usize {
        self.outcomes.iter().filter(|outcome| disagree(outcome)).count()
    }

    /// The programs for which a predicate holds, each with a message. Those whose messages have the
    /// same form follow one another, the most frequent form first.
    fn list(
        &self,
        f: &mut fmt::Formatter<'_>,
        heading: &str,
        message: impl Fn(&Outcome) -> Option<&str>,
    ) -> fmt::Result {
        let mut found: Vec<(&Outcome, &str, String)> = Vec::new();
        for outcome in self.outcomes {
            found.extend(message(outcome).map(|text| (outcome, text, form(text))));
        }
        if found.is_empty() {
            return Ok(());
        }
        let mut counts: HashMap<String, usize> = HashMap::new();
        for (.., form) in &found {
            *counts.entry(form.clone()).or_default() += 1;
        }
        found.sort_by(|a, b| {
            let count = |form: &String| counts.get(form).copied().unwrap_or(0);
            count(&b.2).cmp(&count(&a.2)).then_with(|| a.2.cmp(&b.2))
        });
        writeln!(f, "\n{heading}: {}", found.len())?;
        for (outcome, text, _) in found {
            let program = outcome.program.strip_prefix(&self.args.dir).unwrap_or(&outcome.program);
            let end = text.floor_char_boundary(MESSAGE);
            let dots = if end < text.len() { "…" } else { "" };
            writeln!(f, "  {}\n    {}{dots}", program.display(), &text[..end])?;
        }
        Ok(())
    }

    fn table(&self, f: &mut fmt::Formatter<'_>, other: &str) -> fmt::Result {
        let mut counts = [[0usize; 3]; 3];
        for outcome in self.outcomes {
            let Some(theirs) = &outcome.theirs else { continue };
            counts[kind(&outcome.ours)][kind(theirs)] += 1;
        }
        writeln!(f, "\n{:>24}{:>12}{:>12}   by {other}", KINDS[0], KINDS[1], KINDS[2])?;
        for (row, name) in counts.iter().zip(KINDS) {
            writeln!(f, "{name:>12}{:>12}{:>12}{:>12}", row[0], row[1], row[2])?;
        }
        writeln!(f, "{:>12}", "here")
    }
}

fn disagree(outcome: &Outcome) -> bool {
    let theirs = outcome.theirs.as_ref().map(kind);
    match kind(&outcome.ours) {
        2 => true,
        ours => matches!(theirs, Some(theirs @ 0..2) if theirs != ours),
    }
}

/// A message without what differs between programs: positions, numbers and quoted names.
fn form(message: &str) -> String {
    let text = message.split_once("error: ").map_or(message, |(_, text)| text);
    let mut out = String::new();
    let mut quoted = None;
    for c in text.chars() {
        match quoted {
            Some(end) if c == end => quoted = None,
            Some(_) => {}
            None if matches!(c, '`' | '"') => quoted = Some(c),
            None if c.is_ascii_digit() => {}
            None => out.push(c),
        }
    }
    out
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = self.args.dir.display();
        let programs = if self.outcomes.len() == 1 { "program" } else { "programs" };
        writeln!(f, "{dir}: {} {programs} for {}", self.outcomes.len(), self.args.arch.name())?;
        let refusal = |outcome: &Outcome| match &outcome.ours {
            Answer::Refused(text) => Some(text.clone()),
            _ => None,
        };
        self.list(f, "no answer from tributary", |outcome| match &outcome.ours {
            Answer::None(text) => Some(text),
            _ => None,
        })?;
        let Some(other) = self.other else {
            let refused = self.outcomes.iter().filter_map(refusal).count();
            let accepted = self.outcomes.iter().filter(|o| kind(&o.ours) == 0).count();
            writeln!(f, "accepted: {accepted}, refused: {refused}")?;
            self.list(f, "refused", |outcome| match &outcome.ours {
                Answer::Refused(text) => Some(text),
                _ => None,
            })?;
            return writeln!(f, "\nno other compiler is on the PATH to compare with");
        };
        self.table(f, other)?;
        self.list(f, &format!("refused here, accepted by {other}"), |outcome| {
            match (&outcome.ours, &outcome.theirs) {
                (Answer::Refused(text), Some(Answer::Accepted)) => Some(text),
                _ => None,
            }
        })?;
        self.list(f, &format!("accepted here, refused by {other}"), |outcome| {
            match (&outcome.ours, &outcome.theirs) {
                (Answer::Accepted, Some(Answer::Refused(text))) => Some(text),
                _ => None,
            }
        })?;
        self.list(f, &format!("no answer from {other}"), |outcome| match &outcome.theirs {
            Some(Answer::None(text)) => Some(text),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_leave_out_names_numbers_and_places() {
        let form_of = |text| form(text);
        assert_eq!(form_of("a.p4:3:4: error: there is no `x` here"), "there is no  here");
        assert_eq!(
            form_of("b.p4:9:1: error: bit<8> is not bit<16>"),
            form_of("c.p4:1:1: error: bit<32> is not bit<4>")
        );
        assert_ne!(form_of("a.p4:1:1: error: x"), form_of("a.p4:1:1: error: y"));
    }
}
