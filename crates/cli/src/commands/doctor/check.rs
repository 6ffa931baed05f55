//! Checks, and their output.

use serde::Serialize;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As it should be.
    Ok,
    /// Neutral for these jobs, or unknown.
    Note,
    /// Jobs run, but not as well as they could.
    Warn,
    /// Jobs do not run.
    Fail,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        }
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// What it is about, such as `kernel` or `interface eth0`.
    pub(crate) area: String,
    /// What was checked.
    pub(crate) name: &'static str,
    /// The result.
    pub(crate) verdict: Verdict,
    /// What was found.
    pub(crate) found: String,
    /// How to fix it.
    pub(crate) fix: Option<String>,
}

/// Makes the checks of one area.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    name: String,
    checks: Vec<Check>,
}

impl Area {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), checks: Vec::new() }
    }

    pub(crate) fn ok(&mut self, name: &'static str, found: impl Into<String>) {
        self.add(name, Verdict::Ok, found.into(), None);
    }

    pub(crate) fn note(&mut self, name: &'static str, found: impl Into<String>) {
        self.add(name, Verdict::Note, found.into(), None);
    }

    /// A neutral result, with advice for using the feature.
    pub(crate) fn note_with(
        &mut self,
        name: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(name, Verdict::Note, found.into(), Some(fix.into()));
    }

    pub(crate) fn warn(
        &mut self,
        name: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(name, Verdict::Warn, found.into(), Some(fix.into()));
    }

    pub(crate) fn fail(
        &mut self,
        name: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(name, Verdict::Fail, found.into(), Some(fix.into()));
    }

    fn add(&mut self, name: &'static str, verdict: Verdict, found: String, fix: Option<String>) {
        self.checks.push(Check { area: self.name.clone(), name, verdict, found, fix });
    }

    pub(crate) fn into_checks(self) -> Vec<Check> {
        self.checks
    }
}

/// All checks as text: one line each, with the advice in the next line.
pub(crate) fn text(checks: &[Check]) -> String {
    let mut lines = Vec::new();
    let mut area = "";
    for check in checks {
        if check.area != area {
            area = &check.area;
            lines.push(area.to_owned());
        }
        lines.push(format!("  {:<4}  {}: {}", check.verdict.word(), check.name, check.found));
        if let Some(fix) = &check.fix {
            lines.push(format!("        → {fix}"));
        }
    }
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    lines.push(format!(
        "{} checks: {} ok, {} notes, {} warnings, {} failed",
        checks.len(),
        count(Verdict::Ok),
        count(Verdict::Note),
        count(Verdict::Warn),
        count(Verdict::Fail)
    ));
    lines.join("\n")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The check of this name.
    pub(crate) fn named<'c>(checks: &'c [Check], name: &str) -> &'c Check {
        let mut found = checks.iter().filter(|check| check.name == name);
        let first = found.next().unwrap_or_else(|| panic!("no check {name} in {checks:#?}"));
        assert_eq!(found.next(), None, "{name} is there once");
        // Every warning and failure has one line of advice.
        let troubled = matches!(first.verdict, Verdict::Warn | Verdict::Fail);
        assert!(!troubled || first.fix.is_some(), "{first:?}");
        assert!(!first.found.contains('\n'), "{first:?}");
        first
    }

    #[test]
    fn text_groups_by_area_and_counts() {
        let mut kernel = Area::new("kernel");
        kernel.ok("version", "6.1");
        kernel.fail("AF_PACKET", "missing", "load it");
        let mut nic = Area::new("interface eth0");
        nic.note("queues", "1");
        let checks: Vec<Check> =
            kernel.into_checks().into_iter().chain(nic.into_checks()).collect();
        assert_eq!(
            text(&checks),
            "kernel\n  ok    version: 6.1\n  FAIL  AF_PACKET: missing\n        → load it\n\
             interface eth0\n  note  queues: 1\n3 checks: 1 ok, 1 notes, 0 warnings, 1 failed"
        );
    }
}
