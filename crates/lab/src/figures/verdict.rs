//! Verdicts on claims, computed from samples by rules that are stated here.
//!
//! Intervals are the 95 % confidence intervals of single points; they are not widened for claims
//! about many points.

use crate::figures::interval::Interval;
use crate::figures::page::Figure;
use crate::figures::table::{Cell, Table};

/// Values of each repetition, and where they were measured.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Sample {
    /// The point.
    pub(crate) at: String,
    pub(crate) values: Vec<f64>,
}

/// What a claim says about ratios, and so when it holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Rule {
    /// Every ratio is above this number. Holds if the whole interval is above it at every point;
    /// fails if the whole interval is below it at some point.
    EachAbove(f64),
    /// Every ratio is below this number. Holds if the whole interval is below it at every point;
    /// fails if the whole interval is above it at some point.
    EachBelow(f64),
    /// Some ratio is at least this number. Holds if the whole interval is at or above it at some
    /// point; fails if the whole interval is below it at every point.
    SomeReaches(f64),
}

/// A verdict on samples.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Finding {
    Holds,
    Fails,
    /// The intervals are too wide to decide.
    Undecided,
}

impl Finding {
    pub(crate) fn shown(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Undecided => "undecided",
        }
    }
}

impl Rule {
    /// Judges samples.
    pub(crate) fn judge(self, samples: &[Sample]) -> Finding {
        let intervals = || samples.iter().map(|sample| Interval::of(&sample.values));
        let (holds, fails) = match self {
            Self::EachAbove(number) => (
                intervals().all(|one| one.low() > number),
                intervals().any(|one| one.high() < number),
            ),
            Self::EachBelow(number) => (
                intervals().all(|one| one.high() < number),
                intervals().any(|one| one.low() > number),
            ),
            Self::SomeReaches(number) => (
                intervals().any(|one| one.low() >= number),
                intervals().all(|one| one.high() < number),
            ),
        };
        match (holds, fails) {
            // Without samples, each condition on all of them is true.
            _ if samples.is_empty() => Finding::Undecided,
            (true, _) => Finding::Holds,
            (_, true) => Finding::Fails,
            _ => Finding::Undecided,
        }
    }

    /// The sample on which the verdict rests: the least ratio or the greatest.
    pub(crate) fn deciding(self, samples: &[Sample]) -> Option<(Interval, &str)> {
        let known = samples.iter().map(|one| (Interval::of(&one.values), one.at.as_str()));
        let order = |a: &(Interval, &str), b: &(Interval, &str)| a.0.mean.total_cmp(&b.0.mean);
        match self {
            Self::EachAbove(_) => known.min_by(order),
            Self::EachBelow(_) | Self::SomeReaches(_) => known.max_by(order),
        }
    }
}

/// Set-ups that differ in one thing only: what a verdict may depend on.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Isolation {
    /// What differs, for "depends on …".
    pub(crate) on: &'static str,
    /// The cases, each with its samples.
    pub(crate) cases: Vec<(String, Vec<Sample>)>,
}

/// A verdict on a claim.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Verdict {
    /// The same in all set-ups, as far as they decide anything.
    Is(Finding),
    /// It holds in some set-ups and fails in others: on what it depends.
    DependsOn(Vec<&'static str>),
}

impl Verdict {
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Is(finding) => finding.shown().to_owned(),
            Self::DependsOn(what) => format!("depends on {}", what.join(" and on ")),
        }
    }
}

/// A claim of the paper, and what we measured.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Claim {
    /// Section of the paper.
    pub(crate) section: &'static str,
    pub(crate) statement: &'static str,
    /// The paper's number, if it has one.
    pub(crate) paper: String,
    pub(crate) rule: Rule,
    /// Ratios in the set-up of the figures, at all points.
    pub(crate) samples: Vec<Sample>,
    pub(crate) isolations: Vec<Isolation>,
    /// Studies that isolate the cause, whether they were made or not.
    pub(crate) isolated_in: &'static [&'static str],
}

/// Most cases that a reason lists; of more, it names one.
const LISTED: usize = 4;

impl Claim {
    /// A claim without isolations.
    pub(crate) fn new(
        section: &'static str,
        statement: &'static str,
        rule: Rule,
        samples: Vec<Sample>,
    ) -> Self {
        let (paper, isolations) = (String::new(), Vec::new());
        Self { section, statement, paper, rule, samples, isolations, isolated_in: &[] }
    }

    /// With the paper's number or numbers, for readers.
    pub(crate) fn reported(self, paper: impl Into<String>) -> Self {
        Self { paper: paper.into(), ..self }
    }

    /// With set-ups that isolate causes, and the names of the studies that have them.
    pub(crate) fn isolated(
        mut self,
        by: impl IntoIterator<Item = Option<Isolation>>,
        names: &'static [&'static str],
    ) -> Self {
        self.isolations.extend(by.into_iter().flatten());
        Self { isolated_in: names, ..self }
    }

    /// The verdicts in the cases of an isolation.
    fn findings<'a>(&self, isolation: &'a Isolation) -> Vec<(Finding, &'a str)> {
        let of =
            |(name, samples): &'a (String, Vec<Sample>)| (self.rule.judge(samples), name.as_str());
        isolation.cases.iter().map(of).collect()
    }

    /// The verdict: that on the figures, unless the claim holds in one and fails in another of the
    /// set-ups that isolate something. The figures do not count among these: they have other points.
    pub(crate) fn verdict(&self) -> Verdict {
        let depends = |isolation: &&Isolation| {
            let findings = self.findings(isolation);
            let any = |wanted| findings.iter().any(|(one, _)| *one == wanted);
            any(Finding::Holds) && any(Finding::Fails)
        };
        let on: Vec<_> = self.isolations.iter().filter(depends).map(|one| one.on).collect();
        if on.is_empty() {
            Verdict::Is(self.rule.judge(&self.samples))
        } else {
            Verdict::DependsOn(on)
        }
    }

    /// The ratio that decides in the set-up of the figures, and where it was measured.
    pub(crate) fn ours(&self) -> Option<(Interval, &str)> {
        self.rule.deciding(&self.samples)
    }

    /// Why the verdict is what it is: the verdicts in all cases.
    pub(crate) fn why(&self) -> String {
        let base = self.rule.judge(&self.samples).shown();
        let points = match self.samples.len() {
            1 => "the one point".to_owned(),
            count => format!("{count} points"),
        };
        let mut reasons = vec![format!("{} over {points} of the figures", capitalised(base))];
        for isolation in &self.isolations {
            let findings = self.findings(isolation);
            let of = |wanted: Finding| {
                let names: Vec<&str> = findings
                    .iter()
                    .filter(|(one, _)| *one == wanted)
                    .map(|(_, name)| *name)
                    .collect();
                let listed = match names.as_slice() {
                    [] => return None,
                    [first, ..] if names.len() > LISTED => {
                        format!("{} cases, such as {first}", names.len())
                    }
                    few => few.join(", "),
                };
                Some(format!("{} with {listed}", wanted.shown()))
            };
            let verdicts =
                [Finding::Holds, Finding::Fails, Finding::Undecided].into_iter().filter_map(of);
            reasons.push(format!(
                "{}: {}",
                capitalised(isolation.on),
                verdicts.collect::<Vec<_>>().join("; ")
            ));
        }
        reasons.join(". ")
    }
}

/// Claims with their verdicts as a figure; `None` if there are none. `made` tells which studies were.
pub(crate) fn figure(
    id: &str,
    title: String,
    claims: &[Claim],
    made: impl Fn(&str) -> bool,
) -> Option<Figure> {
    if claims.is_empty() {
        return None;
    }
    let mut table = Table::new([
        "section",
        "claim",
        "the paper",
        "verdict",
        "ours",
        "where",
        "why",
        "cause isolated in",
    ]);
    for claim in claims {
        let (ours, place) = match claim.ours() {
            Some((interval, place)) => (Cell::Interval(interval, 2), Cell::text(place)),
            None => (Cell::None, Cell::None),
        };
        let isolated = |name: &&str| match made(name) {
            true => (*name).to_owned(),
            false => format!("{name} (not made)"),
        };
        let isolated: Vec<String> = claim.isolated_in.iter().map(isolated).collect();
        table.push(vec![
            Cell::text(claim.section),
            Cell::text(claim.statement),
            if claim.paper.is_empty() { Cell::None } else { Cell::text(&claim.paper) },
            Cell::text(claim.verdict().shown()),
            ours,
            place,
            Cell::text(claim.why()),
            if isolated.is_empty() { Cell::None } else { Cell::text(isolated.join(", ")) },
        ]);
    }
    let notes = RULES.map(str::to_owned).to_vec();
    Some(Figure { id: id.to_owned(), title, notes, table, charts: Vec::new() })
}

/// The rules of verdicts, for readers.
const RULES: [&str; 4] = [
    "Each verdict is computed from 95 % confidence intervals over the seeds (Student's t; ± is half of the \
     width). A claim about every point holds if the whole interval is on its side at each point, and fails if \
     the whole interval is on the other side at some point. A claim that a gain reaches a number holds if the \
     whole interval is at or above the number at some point, and fails if the whole interval is below it at \
     each point: a greater gain than the paper's holds, too. Otherwise the claim is undecided, as it always is with one seed.",
    "A claim depends on something if it holds in one and fails in another of the set-ups that differ in this thing \
     only; the last column names their figure. Otherwise the verdict is that of the paper's figures.",
    "“Ours” is the ratio that decides: the least for “at every point”, the greatest for “up to”. \
     “Over” means that one gain was divided by another.",
    "Intervals are those of single points. With many points, a claim about every point fails more easily by chance.",
];

/// A sentence's first letter.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mean of three seeds with an interval of about ± 0.05.
    fn near(mean: f64) -> Sample {
        Sample { at: format!("at {mean}"), values: vec![mean - 0.02, mean, mean + 0.02] }
    }

    fn samples(means: &[f64]) -> Vec<Sample> {
        means.iter().copied().map(near).collect()
    }

    #[test]
    fn a_claim_about_every_point_needs_all_whole_intervals() {
        let judge = |means: &[f64]| Rule::EachAbove(1.0).judge(&samples(means));
        assert_eq!(judge(&[1.2, 1.4]), Finding::Holds);
        assert_eq!(judge(&[1.2, 1.02]), Finding::Undecided, "an interval contains 1");
        assert_eq!(judge(&[1.2, 0.98]), Finding::Undecided, "and so does this one");
        assert_eq!(judge(&[1.2, 0.9]), Finding::Fails, "one point is enough");
        let judge = |means: &[f64]| Rule::EachBelow(1.01).judge(&samples(means));
        assert_eq!(judge(&[0.9, 0.8]), Finding::Holds);
        assert_eq!(judge(&[0.9, 1.0]), Finding::Undecided);
        assert_eq!(judge(&[0.9, 1.1]), Finding::Fails);
    }

    #[test]
    fn a_greatest_ratio_needs_one_whole_interval() {
        let judge = |means: &[f64]| Rule::SomeReaches(1.35).judge(&samples(means));
        assert_eq!(judge(&[1.1, 1.5]), Finding::Holds);
        assert_eq!(judge(&[1.1, 1.36]), Finding::Undecided);
        assert_eq!(judge(&[1.1, 1.2]), Finding::Fails);
    }

    #[test]
    fn a_single_seed_decides_nothing() {
        let single = [Sample { at: String::new(), values: vec![7.0] }];
        for rule in [Rule::EachAbove(1.0), Rule::EachBelow(1.0), Rule::SomeReaches(1.0)] {
            assert_eq!(rule.judge(&single), Finding::Undecided, "{rule:?}");
        }
    }

    #[test]
    fn the_deciding_point_is_the_weakest_for_every_point_and_the_best_for_a_greatest_ratio() {
        let samples = samples(&[1.2, 1.5, 1.3]);
        let at = |rule: Rule| rule.deciding(&samples).unwrap().1.to_owned();
        assert_eq!(at(Rule::EachAbove(1.0)), "at 1.2");
        assert_eq!(at(Rule::EachBelow(2.0)), "at 1.5");
        assert_eq!(at(Rule::SomeReaches(1.35)), "at 1.5");
        assert_eq!(Rule::EachAbove(1.0).deciding(&[]), None);
    }

    fn claim(base: &[f64], cases: &[(&str, f64)]) -> Claim {
        let case = |&(name, mean): &(&str, f64)| (name.to_owned(), vec![near(mean)]);
        Claim {
            section: "7.2.2",
            statement: "ESA is faster",
            paper: String::new(),
            rule: Rule::EachAbove(1.0),
            samples: samples(base),
            isolations: vec![Isolation {
                on: "the rule of windows",
                cases: cases.iter().map(case).collect(),
            }],
            isolated_in: &["halving"],
        }
    }

    #[test]
    fn a_verdict_that_changes_between_isolated_set_ups_depends_on_them() {
        let depends = claim(&[1.5], &[("neither", 1.5), ("both", 0.8)]);
        assert_eq!(depends.verdict(), Verdict::DependsOn(vec!["the rule of windows"]));
        assert_eq!(depends.verdict().shown(), "depends on the rule of windows");
        assert_eq!(
            depends.why(),
            "Holds over the one point of the figures. The rule of windows: holds with neither; fails with both"
        );
        // The figures have points that the cases have not, so they are not one of the cases.
        let other = claim(&[0.8], &[("neither", 1.5)]);
        assert_eq!(other.verdict(), Verdict::Is(Finding::Fails));
    }

    #[test]
    fn a_verdict_that_does_not_change_is_that_of_the_figures() {
        let same = claim(&[1.5, 1.4], &[("neither", 1.5), ("both", 1.2)]);
        assert_eq!(same.verdict(), Verdict::Is(Finding::Holds));
        assert!(same.why().starts_with("Holds over 2 points of the figures"), "{}", same.why());
        let unclear = claim(&[1.5], &[("both", 1.0)]);
        assert_eq!(unclear.verdict(), Verdict::Is(Finding::Holds), "undecided is no contradiction");
        assert_eq!(claim(&[0.8], &[]).verdict(), Verdict::Is(Finding::Fails));
        assert_eq!(claim(&[1.0], &[]).verdict(), Verdict::Is(Finding::Undecided));
    }

    #[test]
    fn a_reason_names_one_of_many_cases() {
        let cases: Vec<(String, f64)> = (1..=6).map(|at| (format!("case {at}"), 1.5)).collect();
        let cases: Vec<(&str, f64)> =
            cases.iter().map(|(name, mean)| (name.as_str(), *mean)).collect();
        let why = claim(&[1.5], &cases).why();
        assert!(why.ends_with("holds with 6 cases, such as case 1"), "{why}");
    }
}
