//! The claims of the paper's section 7 beside our results.

use super::study::{Published, Results};
use crate::figures::page::Figure;
use crate::figures::verdict::{self, Claim, Isolation, Rule, Sample};

/// The results of all studies that were made.
pub(super) struct Evidence<'a>(pub(super) Vec<Results<'a>>);

/// The names of two series.
type Pair = (&'static str, &'static str);

const OVER_ATP: Pair = ("ESA", "ATP");
const OVER_SWITCHML: Pair = ("ESA", "SwitchML");

const ON_WINDOWS: &str = "whether three later results halve windows (halving)";
const ON_SETTINGS: &str = "settings that the paper leaves open (search)";
const ON_PRIORITIES: &str = "how far apart priorities are (repairs)";
const ON_MACHINES: &str = "the speed of the machines (figure-6)";

impl Evidence<'_> {
    fn study(&self, id: &str) -> Option<&Results<'_>> {
        self.0.iter().find(|results| results.study.id == id)
    }

    fn has(&self, id: &str) -> bool {
        self.study(id).is_some()
    }

    /// A ratio by panel and value of the parameter; empty without this study.
    fn by_panel(&self, id: &str, (first, second): Pair) -> Vec<Vec<Sample>> {
        let samples = |results: &Results<'_>| results.samples(&results.ratio_of(first, second));
        self.study(id).map(samples).unwrap_or_default()
    }

    /// A ratio at all points of a study.
    fn all(&self, id: &str, pair: Pair) -> Vec<Sample> {
        self.by_panel(id, pair).into_iter().flatten().collect()
    }

    /// A ratio at all points of a panel.
    fn of_panel(&self, id: &str, panel: &str, pair: Pair) -> Vec<Sample> {
        let at = self.panel(id, panel);
        at.and_then(|at| self.by_panel(id, pair).into_iter().nth(at)).unwrap_or_default()
    }

    fn panel(&self, id: &str, name: &str) -> Option<usize> {
        self.study(id)?.study.panels.iter().position(|panel| panel.name == name)
    }

    /// How much greater the ratio is at the last value of the parameter than at the first, by panel.
    fn trend(&self, id: &str, pair: Pair) -> Vec<Sample> {
        let of = |samples: Vec<Sample>| match samples.as_slice() {
            [first, .., last] => Some(over(last, first)),
            _ => None,
        };
        self.by_panel(id, pair).into_iter().filter_map(of).collect()
    }

    /// How much greater the ratio is with one mix of models than with another.
    fn contrast(&self, id: &str, [more, less]: [&str; 2], pair: Pair) -> Vec<Sample> {
        let [more, less] = [more, less].map(|panel| self.of_panel(id, panel, pair));
        more.iter().zip(&less).map(|(more, less)| over(more, less)).collect()
    }

    /// The values of a study's parameter as cases: each with the samples that `of` returns for its
    /// index.
    fn cases(&self, id: &str, of: impl Fn(usize) -> Vec<Sample>) -> Vec<(String, Vec<Sample>)> {
        let Some(results) = self.study(id) else { return Vec::new() };
        let values = results.study.panels[0].values.iter().enumerate();
        values.map(|(value, (_, name))| (name.clone(), of(value))).collect()
    }

    /// Cases of the rule of windows: the ratio with each mix of models.
    fn windows(&self) -> Option<Isolation> {
        let of = |value| at_value(self.by_panel("halving", OVER_ATP), value);
        isolation(ON_WINDOWS, self.cases("halving", of))
    }

    /// Cases of the rule of windows: model A over model B.
    fn windows_by_model(&self) -> Option<Isolation> {
        let contrast = self.contrast("halving", ["A", "B"], OVER_ATP);
        let of = |value| contrast.get(value).cloned().into_iter().collect();
        isolation(ON_WINDOWS, self.cases("halving", of))
    }

    /// Cases of the priorities: ESA over another rule of preemption.
    fn priorities(&self, pair: Pair) -> Option<Isolation> {
        let of = |value| at_value(self.by_panel("repairs", pair), value);
        isolation(ON_PRIORITIES, self.cases("repairs", of))
    }

    /// Cases of figure 6: each machine.
    fn machines(&self, model: &str) -> Option<Isolation> {
        let samples = self.of_panel("figure-6", model, OVER_ATP);
        let of = |value| samples.get(value).cloned().into_iter().collect();
        let named = |(name, samples): (String, _)| (format!("{name} × a V100"), samples);
        let cases = self.cases("figure-6", of).into_iter().map(named).collect();
        isolation(ON_MACHINES, cases)
    }

    /// Each setting of the search is a case.
    fn settings(&self) -> Option<Isolation> {
        let of = |second| {
            let samples = self.all("search", ("ESA", second));
            samples
                .into_iter()
                .map(move |sample| (format!("{}, {second}", sample.at), vec![sample]))
        };
        let cases = of("SwitchML").chain(of("SwitchML, small packets")).collect();
        isolation(ON_SETTINGS, cases)
    }
}

/// `None` without cases.
fn isolation(on: &'static str, cases: Vec<(String, Vec<Sample>)>) -> Option<Isolation> {
    (!cases.is_empty()).then_some(Isolation { on, cases })
}

/// A ratio of ratios for each seed.
fn over(first: &Sample, second: &Sample) -> Sample {
    let values = first.values.iter().zip(&second.values).map(|(first, second)| first / second);
    Sample { at: format!("{} over {}", first.at, second.at), values: values.collect() }
}

/// The samples of all panels at a value of the parameter.
fn at_value(panels: Vec<Vec<Sample>>, value: usize) -> Vec<Sample> {
    panels.into_iter().filter_map(|samples| samples.into_iter().nth(value)).collect()
}

/// Claims on ESA and ATP in simulation (§7.2.2, §7.3).
fn on_atp(evidence: &Evidence<'_>) -> Vec<Claim> {
    let everywhere = ["figure-8", "figure-9"].map(|id| evidence.all(id, OVER_ATP)).concat();
    let windows = || [evidence.windows()];
    vec![
        Claim::new(
            "7.2.2",
            "ESA is faster than ATP at every point of figures 8 and 9",
            Rule::EachAbove(1.0),
            everywhere,
        )
        .isolated(windows(), &["halving", "causes", "sweeps"]),
        Claim::new(
            "7.2.2",
            "ESA is up to 1.35 times as fast as ATP",
            Rule::SomeReaches(1.35),
            evidence.all("figure-8", OVER_ATP),
        )
        .reported(Published::UpTo(1.35).shown())
        .isolated(windows(), &["halving", "causes"]),
        Claim::new(
            "7.2.2",
            "the gain over ATP grows with the number of jobs: most over fewest",
            Rule::EachAbove(1.0),
            evidence.trend("figure-8", OVER_ATP),
        ),
        Claim::new(
            "7.2.2",
            "the gain over ATP grows with the number of workers: most over fewest",
            Rule::EachAbove(1.0),
            evidence.trend("figure-9", OVER_ATP),
        ),
        Claim::new(
            "7.3",
            "models that communicate more gain more over ATP, in JCT: A over B",
            Rule::EachAbove(1.0),
            evidence.contrast("figure-8", ["A", "B"], OVER_ATP),
        )
        .isolated([evidence.windows_by_model()], &["halving"]),
    ]
}

/// Claims on ESA and SwitchML in simulation (§7.2.2).
fn on_switchml(evidence: &Evidence<'_>) -> Vec<Claim> {
    let everywhere = ["figure-8", "figure-9"].map(|id| evidence.all(id, OVER_SWITCHML)).concat();
    vec![
        Claim::new(
            "7.2.2",
            "ESA is faster than SwitchML at every point of figures 8 and 9",
            Rule::EachAbove(1.0),
            everywhere,
        )
        .isolated([evidence.settings()], &["search", "sweeps"]),
        Claim::new(
            "7.2.2",
            "ESA is up to 1.89 times as fast as SwitchML",
            Rule::SomeReaches(1.89),
            evidence.all("figure-8", OVER_SWITCHML),
        )
        .reported(Published::UpTo(1.89).shown())
        .isolated([evidence.settings()], &["search"]),
    ]
}

/// Claims on the utilisation (§7.3): the paper's numbers, and that it is more with model A.
fn on_utilisation(evidence: &Evidence<'_>) -> Vec<Claim> {
    let reach = |statement, model, pair, number| {
        let samples = evidence.of_panel("figure-10", model, pair);
        Claim::new("7.3", statement, Rule::SomeReaches(number), samples)
            .reported(Published::Exactly(number).shown())
    };
    let more = |statement, pair| {
        let samples = evidence.contrast("figure-10", ["A", "B"], pair);
        Claim::new("7.3", statement, Rule::EachAbove(1.0), samples)
    };
    let atp: &[&str] = &["halving"];
    let switchml: &[&str] = &["search"];
    vec![
        reach(
            "utilisation with model A: ESA has at least 1.45 times that of ATP",
            "A",
            OVER_ATP,
            1.45,
        )
        .isolated([], atp),
        reach(
            "utilisation with model B: ESA has at least 1.28 times that of ATP",
            "B",
            OVER_ATP,
            1.28,
        )
        .isolated([], atp),
        reach(
            "utilisation with model A: ESA has at least 2.27 times that of SwitchML",
            "A",
            OVER_SWITCHML,
            2.27,
        )
        .isolated([], switchml),
        reach(
            "utilisation with model B: ESA has at least 1.9 times that of SwitchML",
            "B",
            OVER_SWITCHML,
            1.9,
        )
        .isolated([], switchml),
        more(
            "utilisation: the gain over ATP is greater with model A than with B: A over B",
            OVER_ATP,
        ),
        more(
            "utilisation: the gain over SwitchML is greater with model A than with B: A over B",
            OVER_SWITCHML,
        ),
    ]
}

/// Claims on the rules of preemption (§7.3).
fn on_preemption(evidence: &Evidence<'_>) -> Vec<Claim> {
    let over_atp = ["ESA", "always", "coin"].map(|rule| evidence.all("figure-11", (rule, "ATP")));
    let beats = |statement, other| {
        Claim::new(
            "7.3",
            statement,
            Rule::EachAbove(1.0),
            evidence.all("figure-11", ("ESA", other)),
        )
        .reported("up to 1.16 over both")
        .isolated([evidence.priorities(("ESA", other))], &["repairs"])
    };
    let mixed = ["always", "coin"]
        .map(|other| evidence.contrast("figure-11", ["A and B", "A"], ("ESA", other)));
    vec![
        Claim::new(
            "7.3",
            "each rule of preemption is faster than ATP in figure 11",
            Rule::EachAbove(1.0),
            over_atp.concat(),
        )
        .reported("1.19 to 1.35, 1.05 to 1.22")
        .isolated([], &["halving"]),
        beats("priorities are faster than always preempting", "always"),
        beats("priorities are faster than a coin", "coin"),
        Claim::new(
            "7.3",
            "priorities gain more over the other rules with mixed models than with model A",
            Rule::EachAbove(1.0),
            mixed.concat(),
        )
        .isolated([], &["repairs"]),
    ]
}

/// Claims on the testbed (§7.1).
fn on_testbed(evidence: &Evidence<'_>) -> Vec<Claim> {
    let throughput = |statement, pair, number| {
        let samples = evidence.all("figure-7", pair);
        Claim::new("7.1.3", statement, Rule::SomeReaches(number), samples)
            .reported(Published::UpTo(number).shown())
    };
    vec![
        throughput("ESA has up to 1.39 times the throughput of SwitchML", OVER_SWITCHML, 1.39)
            .isolated([], &["search"]),
        throughput("ESA has up to 1.18 times the throughput of ATP", OVER_ATP, 1.18)
            .isolated([], &["halving", "causes"]),
        Claim::new(
            "7.1.2",
            "ESA trains VGG-16 1.15 times as fast as ATP",
            Rule::SomeReaches(1.15),
            evidence.of_panel("figure-6", "VGG-16", OVER_ATP),
        )
        .reported(Published::Exactly(1.15).shown())
        .isolated([evidence.machines("VGG-16")], &["figure-6"]),
        Claim::new(
            "7.1.2",
            "ESA trains ResNet-50 less than 1.01 times as fast as ATP",
            Rule::EachBelow(1.01),
            evidence.of_panel("figure-6", "ResNet-50", OVER_ATP),
        )
        .reported(Published::Below(1.01).shown())
        .isolated([evidence.machines("ResNet-50")], &["figure-6"]),
    ]
}

/// Claims of ours about ESA with our default rules.
fn on_memory(evidence: &Evidence<'_>) -> Vec<Claim> {
    vec![
        Claim::new(
            "ours",
            "our default rules: ESA is faster than ATP at every memory, window, number of jobs and model",
            Rule::EachAbove(1.0),
            evidence.all("memory", OVER_ATP),
        )
        .isolated([], &["memory-paper", "memory-parts"]),
        Claim::new(
            "ours",
            "our default rules: ESA is more than 0.95 times as fast as SwitchML there",
            Rule::EachAbove(0.95),
            evidence.all("memory", OVER_SWITCHML),
        )
        .isolated([], &["memory-paper", "memory-parts"]),
    ]
}

/// All claims about which something was measured.
pub(super) fn claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    let all = [
        on_atp(evidence),
        on_switchml(evidence),
        on_utilisation(evidence),
        on_preemption(evidence),
        on_testbed(evidence),
        on_memory(evidence),
    ];
    all.into_iter().flatten().filter(|claim| !claim.samples.is_empty()).collect()
}

/// The claims with their verdicts; `None` if nothing was measured about any of them.
pub(super) fn figure(evidence: &Evidence<'_>, title: String) -> Option<Figure> {
    verdict::figure("claims", title, &claims(evidence), |name| evidence.has(name))
}

#[cfg(test)]
mod tests {
    use tributary_model::Protocol;

    use super::super::measure::key;
    use super::super::measured::Measured;
    use super::super::series::Effort;
    use super::super::store::Store;
    use super::super::study::Study;
    use super::super::{Which, studies};
    use super::*;
    use crate::studies::training::Setup;

    const EFFORT: Effort = Effort { seeds: 3, iterations: 1, quick: true };

    /// Results without a run: ESA is 1.5 times as fast as ATP unless its windows are halved, and slower
    /// than SwitchML.
    fn invented(setup: &Setup) -> Measured {
        let milliseconds = match setup.protocol {
            Protocol::Esa if setup.readings.later_results.halve(Protocol::Esa) => 4.0,
            Protocol::Esa => 2.0,
            Protocol::Atp => 3.0,
            _ => 1.9,
        };
        let milliseconds = milliseconds + 0.001 * setup.seed as f64;
        let jobs = setup.jobs.len();
        Measured {
            jct_ms: vec![milliseconds; jobs],
            throughput_gbps: vec![100.0 / milliseconds; jobs],
            utilisation: vec![1.0 / milliseconds; jobs],
            ..Measured::default()
        }
    }

    /// The claims' rows of studies with these results.
    fn rows(studies: &[Study]) -> Vec<Vec<String>> {
        let mut store = Store::in_memory();
        for (_, setup) in studies.iter().flat_map(Study::experiments) {
            store.insert(key(&setup), invented(&setup)).unwrap();
        }
        let of = |study| Results { study, store: &store };
        let made =
            figure(&Evidence(studies.iter().map(of).collect()), "Claims".to_owned()).unwrap();
        made.table.shown().map(|row| row.into_iter().map(|(cell, _)| cell).collect()).collect()
    }

    fn row<'a>(rows: &'a [Vec<String>], claim: &str) -> &'a [String] {
        let found = rows.iter().find(|row| row[1] == claim);
        found.unwrap_or_else(|| panic!("no claim `{claim}` in {rows:#?}"))
    }

    #[test]
    fn verdicts_follow_from_the_results() {
        const FASTER: &str = "ESA is faster than ATP at every point of figures 8 and 9";
        let alone = rows(&studies(&[Which::Number(8)], EFFORT));
        let claim = row(&alone, FASTER);
        assert!(claim[3] == "holds" && claim[4].starts_with("1.50 ± 0.0"), "{claim:?}");
        assert!(claim[7].contains("halving (not made)"), "{claim:?}");
        let claim = row(&alone, "ESA is up to 1.89 times as fast as SwitchML");
        assert_eq!((claim[2].as_str(), claim[3].as_str()), ("up to 1.89", "fails"));
        let claim = row(&alone, "ESA is faster than SwitchML at every point of figures 8 and 9");
        assert_eq!(claim[3], "fails");
        let claim =
            row(&alone, "the gain over ATP grows with the number of jobs: most over fewest");
        assert_eq!(claim[3], "undecided", "it is the same everywhere");
        assert!(
            !alone.iter().any(|row| row[1].contains("number of workers")),
            "figure 9 is missing"
        );

        let both = rows(&studies(&[Which::Number(8), Which::Halving], EFFORT));
        let claim = row(&both, FASTER);
        assert_eq!(claim[3], format!("depends on {ON_WINDOWS}"));
        assert!(
            claim[6].contains("holds with neither, ATP only; fails with ESA only, both"),
            "{claim:?}"
        );
        assert!(claim[7].starts_with("halving, "), "{claim:?}");
    }

    #[test]
    fn every_claim_has_its_figures() {
        let all = rows(&studies(&Which::ALL, EFFORT));
        assert_eq!(all.len(), 23);
        assert!(all.iter().all(|row| !row[7].contains("not made")), "{all:#?}");
        let claim = row(&all, "ESA has up to 1.18 times the throughput of ATP");
        assert_eq!(claim[3], "holds");
    }
}
