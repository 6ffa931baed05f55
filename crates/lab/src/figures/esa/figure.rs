//! A study as a table and charts.

use super::describe;
use super::measured::Quantity;
use super::study::{Grid, Panel, Published, Ratio, Results, View};
use crate::figures::chart::{Chart, Estimates, Heat, HeatPanel, Marks, Paper, PaperAt, Series};
use crate::figures::interval::Interval;
use crate::figures::page::Figure;
use crate::figures::table::{Cell, Table};

/// The figure of a study.
pub(super) fn figure(results: &Results<'_>) -> Figure {
    let study = results.study;
    let conclusions = study.conclude.map(|conclude| conclude(results)).unwrap_or_default();
    let set_up =
        format!("Set-up, with {} seeds: {}", study.seeds, describe::describe(study.setups()));
    Figure {
        id: study.id.to_owned(),
        title: study.title.clone(),
        notes: study.notes.iter().cloned().chain(conclusions).chain([set_up]).collect(),
        table: table(results),
        charts: charts(results),
    }
}

fn table(results: &Results<'_>) -> Table {
    let study = results.study;
    let quantity = study.panels[0].quantity;
    let mut columns = vec!["models".to_owned(), study.panels[0].x.to_owned()];
    columns.extend(study.series.iter().map(|name| format!("{name}: {}", quantity.label())));
    for ratio in &study.ratios {
        columns.push(study.label(ratio));
        if !ratio.paper.is_empty() {
            columns.push(format!("{}, the paper", study.label(ratio)));
        }
    }
    for also in &study.columns {
        columns.extend(study.series.iter().map(|name| format!("{name}: {}", also.label())));
    }
    let mut table = Table::new(columns);
    for (at, panel) in study.panels.iter().enumerate() {
        for (value, (_, shown)) in panel.values.iter().enumerate() {
            let of_all = |quantity: Quantity| {
                let of = move |series| {
                    let values = results.quantity(quantity, (at, value, series));
                    Cell::Interval(Interval::of(&values), quantity.digits())
                };
                (0..study.series.len()).map(of)
            };
            let mut cells = vec![Cell::text(&panel.name), Cell::text(shown)];
            cells.extend(of_all(panel.quantity));
            for ratio in &study.ratios {
                cells.push(Cell::Interval(Interval::of(&results.ratio(ratio, at, value)), 2));
                if !ratio.paper.is_empty() {
                    let paper = ratio.paper(at);
                    cells.push(paper.map_or(Cell::None, |paper| Cell::text(paper.shown())));
                }
            }
            for &also in &study.columns {
                cells.extend(of_all(also));
            }
            table.push(cells);
        }
    }
    table
}

fn charts(results: &Results<'_>) -> Vec<Chart> {
    let study = results.study;
    match &study.view {
        View::Grid(grid) => return vec![heat(results, grid)],
        View::Table => return Vec::new(),
        View::Lines | View::Bars => {}
    }
    let panels = || study.panels.iter().enumerate();
    let mut charts: Vec<Chart> =
        panels().map(|(at, panel)| quantities(results, at, panel)).collect();
    let published = study.ratios.iter().any(|ratio| !ratio.paper.is_empty());
    let comparable = study.view == View::Lines && study.has_one_axis();
    if !published && !comparable {
        return charts;
    }
    if !study.has_one_axis() {
        charts.extend(panels().map(|(at, panel)| ratios_of_panel(results, at, panel)));
    } else if study.panels[0].values.len() == 1 {
        charts.push(ratios_of_models(results));
    } else {
        charts.extend(study.ratios.iter().map(|ratio| ratio_of_panels(results, ratio)));
    }
    charts
}

/// A series of a chart, with the interval of each setting.
fn series(
    name: &str,
    color: usize,
    intervals: impl Iterator<Item = Interval>,
) -> Series<Option<Interval>> {
    Series { name: name.to_owned(), color, points: intervals.map(Some).collect() }
}

fn settings(panel: &Panel) -> Vec<String> {
    panel.values.iter().map(|(_, shown)| shown.clone()).collect()
}

/// A panel's quantity over its parameter.
fn quantities(results: &Results<'_>, at: usize, panel: &Panel) -> Chart {
    let study = results.study;
    let of_series = |(index, name): (usize, &String)| {
        let of = |value| Interval::of(&results.quantity(panel.quantity, (at, value, index)));
        series(name, index, (0..panel.values.len()).map(of))
    };
    Chart {
        title: format!("{}: {}", study.title, panel.name),
        y: panel.quantity.label().to_owned(),
        marks: Marks::Estimates(Estimates {
            x: panel.x.to_owned(),
            settings: settings(panel),
            series: study.series.iter().enumerate().map(of_series).collect(),
            bars: study.view == View::Bars,
            parity: false,
            paper: Vec::new(),
        }),
    }
}

/// A ratio over the parameter, with a series for each panel.
fn ratio_of_panels(results: &Results<'_>, ratio: &Ratio) -> Chart {
    let study = results.study;
    let of_panel = |(at, panel): (usize, &Panel)| {
        let of = |value| Interval::of(&results.ratio(ratio, at, value));
        series(&panel.name, at, (0..panel.values.len()).map(of))
    };
    let level = |name: String, series, paper: Published| Paper {
        name,
        series,
        at: PaperAt::Level(paper.number()),
    };
    let shown = |paper: Published| format!("the paper: {}", paper.shown());
    let all = (0..study.panels.len()).map(|at| ratio.paper(at));
    let papers = match ratio.paper.first().copied().flatten() {
        Some(first) if all.clone().all(|one| one == Some(first)) => {
            vec![level(shown(first), None, first)]
        }
        _ => {
            let of = |(at, paper): (usize, Option<Published>)| {
                let name = |paper| format!("{}, {}", shown(paper), study.panels[at].name);
                paper.map(|paper| level(name(paper), Some(at), paper))
            };
            all.enumerate().filter_map(of).collect()
        }
    };
    Chart {
        title: format!("{}: {}", study.title, study.label(ratio)),
        y: study.label(ratio),
        marks: Marks::Estimates(Estimates {
            x: study.panels[0].x.to_owned(),
            settings: settings(&study.panels[0]),
            series: study.panels.iter().enumerate().map(of_panel).collect(),
            bars: false,
            parity: true,
            paper: papers,
        }),
    }
}

/// All ratios of a panel over its parameter.
fn ratios_of_panel(results: &Results<'_>, at: usize, panel: &Panel) -> Chart {
    let study = results.study;
    let of_ratio = |(color, ratio): (usize, &Ratio)| {
        let of = |value| Interval::of(&results.ratio(ratio, at, value));
        series(&study.label(ratio), color, (0..panel.values.len()).map(of))
    };
    let of_paper = |(color, ratio): (usize, &Ratio)| {
        let paper = ratio.paper(at)?;
        Some(Paper {
            name: format!("the paper: {}, {}", study.label(ratio), paper.shown()),
            series: Some(color),
            at: PaperAt::Level(paper.number()),
        })
    };
    Chart {
        title: format!("{}: {}", study.title, panel.name),
        y: "ratio".to_owned(),
        marks: Marks::Estimates(Estimates {
            x: panel.x.to_owned(),
            settings: settings(panel),
            series: study.ratios.iter().enumerate().map(of_ratio).collect(),
            bars: false,
            parity: true,
            paper: study.ratios.iter().enumerate().filter_map(of_paper).collect(),
        }),
    }
}

/// All ratios of a study with a single value of its parameter: bars for each panel, and the paper's
/// numbers as diamonds.
fn ratios_of_models(results: &Results<'_>) -> Chart {
    let study = results.study;
    let panels = 0..study.panels.len();
    let of_ratio = |(color, ratio): (usize, &Ratio)| {
        let of = |panel| Interval::of(&results.ratio(ratio, panel, 0));
        series(&study.label(ratio), color, panels.clone().map(of))
    };
    let of_paper = |(color, ratio): (usize, &Ratio)| Paper {
        name: format!("the paper: {}", study.label(ratio)),
        series: Some(color),
        at: PaperAt::Points(
            panels.clone().map(|panel| ratio.paper(panel).map(Published::number)).collect(),
        ),
    };
    Chart {
        title: format!("{}: ratios", study.title),
        y: "ratio".to_owned(),
        marks: Marks::Estimates(Estimates {
            x: "models".to_owned(),
            settings: study.panels.iter().map(|panel| panel.name.clone()).collect(),
            series: study.ratios.iter().enumerate().map(of_ratio).collect(),
            bars: true,
            parity: true,
            paper: study.ratios.iter().enumerate().map(of_paper).collect(),
        }),
    }
}

/// The first ratio over two settings.
fn heat(results: &Results<'_>, grid: &Grid) -> Chart {
    let study = results.study;
    let ratio = &study.ratios[0];
    let of_panel = |(at, panel): (usize, &Panel)| {
        let mean = |value| Some(Interval::of(&results.ratio(ratio, at, value)).mean);
        let means: Vec<_> = (0..panel.values.len()).map(mean).collect();
        let ratios = means.chunks(grid.columns.len()).map(<[_]>::to_vec).collect();
        HeatPanel { name: panel.name.clone(), ratios }
    };
    Chart {
        title: format!("{}: {}", study.title, study.label(ratio)),
        y: grid.row.to_owned(),
        marks: Marks::Heat(Heat {
            x: grid.column.to_owned(),
            columns: grid.columns.clone(),
            rows: grid.rows.clone(),
            panels: study.panels.iter().enumerate().map(of_panel).collect(),
            across: grid.across,
        }),
    }
}
