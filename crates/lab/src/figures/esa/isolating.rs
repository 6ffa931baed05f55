//! Studies that isolate a cause: each changes one rule or setting of the paper's figures.

use std::time::Duration;

use crate::studies::training::{Delays, Ranking, Setup};
use tributary_model::{Preemption, Protocol};
use tributary_protocol::priority::Code;
use tributary_protocol::{Addressing, LaterResults, Recovery};

use super::measured::Quantity;
use super::memory::small;
use super::series::{
    ALWAYS, ATP, COIN, ESA, Effort, MIXES, Mix, SWITCHML, Series, named, names, notes, numbers,
    panel,
};
use super::study::{Grid, Published, Ratio, Results, Study, View};
use crate::figures::interval::Interval;

/// Whether three later results halve the window in ATP and in ESA: all four cases.
pub(super) fn halving(effort: Effort) -> Study {
    let series = [ATP, ESA];
    let rule = |halve| if halve { LaterResults::Halve } else { LaterResults::Ignore };
    // In the order of the heat map: ESA's rule by row, ATP's by column.
    let cases = named(&[
        ("neither", (false, false)),
        ("ATP only", (true, false)),
        ("ESA only", (false, true)),
        ("both", (true, true)),
    ]);
    let of = |mix: Mix| {
        let setup = |(atp, esa): (bool, bool), series: Series| {
            let mut setup = effort.setup(mix, 8, 8);
            setup.readings.later_results = rule(if series == ATP { atp } else { esa });
            setup
        };
        panel(mix.0, "windows are halved in", Quantity::Jct, &series, &cases, setup)
    };
    let both = ["left alone", "halved"].map(str::to_owned).to_vec();
    Study {
        id: "halving",
        title: effort.title("Whether three later results halve windows"),
        series: names(&series),
        ratios: vec![Ratio::new(1, 0)],
        columns: vec![Quantity::BySwitch],
        panels: MIXES.map(of).to_vec(),
        notes: notes(&[
            "Eight jobs of eight workers. Three results of later packets make a worker recover the packet \
             in both protocols. By ATP's rules they also halve its window, as a lost packet does. ESA uses \
             ATP's window and congestion control (§5.1), but its switches send results themselves, \
             which overtake those of the parameter server without any loss; the paper does not say \
             whether its windows are halved then. Figures 6 to 11 have the rule “neither”.",
        ]),
        view: View::Grid(Grid {
            row: "windows of ESA",
            rows: both.clone(),
            column: "windows of ATP",
            columns: both,
            across: 3,
        }),
        seeds: effort.seeds,
        conclude: Some(range_of_cases),
    }
}

/// The range of the first ratio over the panels, for each value of the parameter.
fn range_of_cases(results: &Results<'_>) -> Vec<String> {
    let study = results.study;
    let ratio = &study.ratios[0];
    let of = |(value, (_, name)): (usize, &(f64, String))| {
        let mean = |panel| Interval::of(&results.ratio(ratio, panel, value)).mean;
        let means: Vec<f64> = (0..study.panels.len()).map(mean).collect();
        let least = means.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        format!("{name}: {least:.2} to {greatest:.2}")
    };
    let ranges: Vec<String> = study.panels[0].values.iter().enumerate().map(of).collect();
    vec![format!("{} over the models, by case: {}.", study.label(ratio), ranges.join("; "))]
}

/// What a collision costs under each rule of preemption, and whether that depends on how far apart
/// priorities are.
pub(super) fn repairs(effort: Effort) -> Study {
    let effort = effort.at_most(3, 3);
    let series = [ESA, ALWAYS, COIN];
    let rankings = named(&[
        ("by the formula", Ranking::Formula),
        ("one for all jobs and layers", Ranking::Equal),
        ("far apart between jobs", Ranking::Apart),
    ]);
    let of = |mix: Mix| {
        let setup = |ranking, _: Series| Setup { ranking, ..effort.setup(mix, 8, 8) };
        panel(mix.0, "priorities", Quantity::Jct, &series, &rankings, setup)
    };
    let repaired = Ratio { quantity: Some(Quantity::ByServer), ..Ratio::new(0, 1) };
    Study {
        id: "repairs",
        title: effort.title("What a collision costs"),
        series: names(&series),
        ratios: vec![Ratio::new(0, 1), Ratio::new(0, 2), repaired],
        columns: vec![Quantity::ByServer, Quantity::Preempted, Quantity::Failed],
        panels: [MIXES[0], MIXES[2]].map(of).to_vec(),
        notes: notes(&[
            "Eight jobs of eight workers, as in figure 11. An explanation to test: under the rule of priorities \
             a collision costs two tasks. The packet that fails to preempt goes to the server, so its \
             task cannot be completed by the switch; and it halves the holder's priority, so that the next packet of \
             the same task evicts the holder, which needs the server, too. With “always”, only the \
             holder does. If that is right, the server completes about twice as many tasks as with \
             “always” if all priorities are equal, and about as many if priorities of jobs are so far apart that \
             downgradings do not reach the next job. With eight jobs, 36 levels of priority lie between two jobs, \
             which is six downgradings; tasks of the same job are equal in all rows.",
        ]),
        view: View::Bars,
        seeds: effort.seeds,
        conclude: Some(two_tasks_or_one),
    }
}

/// Whether the explanation of [`repairs`] holds: the dividing line between one task and two is 1.5.
fn two_tasks_or_one(results: &Results<'_>) -> Vec<String> {
    const MIDDLE: f64 = 1.5;
    let repaired = &results.study.ratios[2];
    let of_panel = |(panel, name): (usize, &str)| {
        let of = |value| Interval::of(&results.ratio(repaired, panel, value));
        let [formula, equal, apart] = [0, 1, 2].map(of);
        let verdict = if equal.low() > MIDDLE && apart.high() < MIDDLE {
            "as the explanation predicts"
        } else if equal.high() < MIDDLE || apart.low() > MIDDLE {
            "which contradicts the explanation"
        } else {
            "which does not decide whether the explanation is right"
        };
        format!(
            "Model {name}: the server completes {} times as many tasks as with “always” if all have one \
             priority (predicted: 2) and {} times as many if priorities are far apart (predicted: 1), {verdict}; with the \
             formula, {} times as many.",
            equal.shown(2),
            apart.shown(2),
            formula.shown(2),
        )
    };
    let panels = results.study.panels.iter().map(|panel| panel.name.as_str());
    panels.enumerate().map(of_panel).collect()
}

const SMALL: Series = Series("SwitchML, small packets", Protocol::SwitchMl, Preemption::Priority);

/// Settings that the paper's text allows: is ESA 1.89 times as fast as SwitchML in one of them?
pub(super) fn search(effort: Effort) -> Study {
    let effort = effort.at_most(2, 2);
    let series = [SWITCHML, SMALL, ATP, ESA];
    let of = |(name, delays, grows): (&str, Delays, bool)| {
        let setup = |us: u32, series: Series| {
            let mut setup = small(effort, MIXES[0], 8);
            setup.cable.latency = Duration::from_nanos(250 * u64::from(us));
            setup.delays = delays;
            if grows {
                setup.slots *= us / 10;
            }
            if series == SMALL {
                // §7.1.1: 180 bytes.
                setup.values = 32;
            }
            setup
        };
        let values = numbers(&effort.some(&[10, 20, 40, 80, 160]));
        panel(name, "base round trip, µs", Quantity::Jct, &series, &values, setup)
    };
    let panels = [
        ("a delay in each iteration", Delays::PerIteration, false),
        ("a delay before each tensor", Delays::PerTensor, false),
        ("a delay in each iteration, larger windows", Delays::PerIteration, true),
        ("a delay before each tensor, larger windows", Delays::PerTensor, true),
    ];
    Study {
        id: "search",
        title: effort.title("Settings that could make ESA 1.89 times as fast as SwitchML"),
        series: names(&series),
        ratios: vec![
            Ratio::new(3, 0).published(&[Published::UpTo(1.89); 4]),
            Ratio::new(3, 1).published(&[Published::UpTo(1.89); 4]),
            Ratio::new(3, 2).published(&[Published::UpTo(1.35); 4]),
        ],
        columns: vec![Quantity::BySwitch],
        panels: panels.map(of).to_vec(),
        notes: notes(&[
            "Eight jobs of eight workers train model A at a quarter of its size, with 5 MB of memory; fewer seeds and \
             iterations than in the figures. \
             The base round trip is 10 µs in §7.2.1; §2.2 has 1 MB for a job at 100 Gb/s, which is 80 µs. Packets of \
             SwitchML have 306 bytes in §7.2.1 and 180 bytes in §7.1.1 (small packets). The jitter of §7.2.1 is \
             added once in each iteration, or before each tensor. The largest window is 1024 packets, or \
             grows with the round trip; SwitchML's never exceeds its partition of the memory.",
        ]),
        view: View::Lines,
        seeds: effort.seeds,
        conclude: Some(settings_that_reach),
    }
}

/// How many settings of [`search`] reach the paper's number, and which is best.
fn settings_that_reach(results: &Results<'_>) -> Vec<String> {
    let study = results.study;
    let of_ratio = |ratio: &Ratio| {
        let paper = ratio.paper(0)?.number();
        let samples: Vec<_> = results.samples(ratio).into_iter().flatten().collect();
        let intervals: Vec<_> =
            samples.iter().map(|sample| (Interval::of(&sample.values), &sample.at)).collect();
        let reach = intervals.iter().filter(|(interval, _)| interval.mean >= paper).count();
        let (best, at) = intervals.iter().max_by(|a, b| a.0.mean.total_cmp(&b.0.mean))?;
        Some(format!(
            "{}: {reach} of {} settings reach {paper} in the mean; the greatest is {} ({at}).",
            study.label(ratio),
            intervals.len(),
            best.shown(2),
        ))
    };
    study.ratios.iter().filter_map(of_ratio).collect()
}

/// A change of one rule or setting.
type Change = (&'static str, fn(&mut Setup));

/// One change each, and the state before all of them.
const CHANGES: [Change; 11] = [
    ("as in the figures", |_| {}),
    ("1 a shift lowers the logarithmic code", |setup| setup.shift = true),
    ("1 linear code, which a shift lowers", |setup| {
        setup.priorities = Code::Linear { unit: 16.0 };
        setup.shift = true;
    }),
    ("2 three later results halve windows", |setup| {
        setup.readings.later_results = LaterResults::Halve;
    }),
    ("3 initial timeout of 20 ms", |setup| setup.timeouts.initial = Duration::from_millis(20)),
    ("4 reminders wait for the entry's timer", |setup| setup.readings.reminders_wait = true),
    ("5 addresses in arithmetic progression", |setup| setup.addressing = Addressing::Spread),
    ("5 default addresses: ATP's settle", |setup| setup.addressing = Addressing::Default),
    ("1 to 5 together", |setup| {
        setup.shift = true;
        setup.readings.later_results = LaterResults::Halve;
        setup.readings.reminders_wait = true;
        setup.timeouts.initial = Duration::from_millis(20);
        setup.addressing = Addressing::Default;
    }),
    ("recovery of RACK", |setup| setup.recovery = Recovery::Rack),
    ("RACK and default addresses", |setup| {
        setup.recovery = Recovery::Rack;
        setup.addressing = Addressing::Default;
    }),
];

/// What each rule of ours changes.
pub(super) fn causes(effort: Effort) -> Study {
    let effort = effort.at_most(2, 2);
    let series = [ATP, ESA, ALWAYS];
    let values = named(&CHANGES);
    let setup = |change: fn(&mut Setup), _: Series| {
        let mut setup = effort.setup(MIXES[0], 8, 8);
        change(&mut setup);
        setup
    };
    Study {
        id: "causes",
        title: effort.title("What each rule changes"),
        series: names(&series),
        ratios: vec![Ratio::new(1, 0)],
        columns: vec![Quantity::BySwitch],
        panels: vec![panel(MIXES[0].0, "change", Quantity::Jct, &series, &values, setup)],
        notes: notes(&[
            "Eight jobs of eight workers. Each row changes one rule or setting alone, except where \
             it says otherwise. Numbers are those of the suspected causes in this project's issue \
             17. Changes 1 and 4 do not affect ATP.",
        ]),
        view: View::Table,
        seeds: effort.seeds,
        conclude: None,
    }
}
