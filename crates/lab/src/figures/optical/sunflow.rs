//! One coflow at a time: Sunflow's bound, and what slots cost.

use tributary_cluster::metrics::Spread;
use tributary_optical::{Alone, Lone, Refine, Shuffle, Tw, Unsolved, alone};

use super::Schedulers;
use crate::figures::chart::{Chart, Marks, Scale};
use crate::figures::page::Figure;
use crate::figures::runs::Progress;
use crate::figures::table::{Cell, Table};

/// Seconds of a slot.
pub(super) const SLOTS: [f64; 2] = [1.0, 0.1];

/// Groups of coflows by their bound in seconds: from, and below.
const GROUPS: [(&str, f64, f64); 4] = [
    ("all", 0.0, f64::INFINITY),
    ("below 1 s", 0.0, 1.0),
    ("1 to 10 s", 1.0, 10.0),
    ("10 s or more", 10.0, f64::INFINITY),
];

/// Average of Sunflow's completion times divided by the bounds (CoNEXT 2016, abstract and §5.3).
const PAPER: f64 = 1.03;

fn schedulers() -> Schedulers {
    vec![Box::new(Tw::new(false, true)), Box::new(Refine::default())]
}

pub(super) fn figures(trace: &[Shuffle], progress: Progress<'_>) -> Result<Vec<Figure>, Unsolved> {
    let total = (SLOTS.len() * trace.len()) as u64;
    let schedulers = schedulers();
    let mut runs = Vec::new();
    for (at, slot) in SLOTS.into_iter().enumerate() {
        let before = (at * trace.len()) as u64;
        let lone = Lone { slot, ..Lone::default() };
        runs.push(alone(trace, &lone, &schedulers, &|done, _| progress(before + done, total))?);
    }
    Ok(vec![without_slots(&runs[0]), in_slots(&runs, &schedulers)])
}

/// The coflows of a group.
fn group<'a>(
    all: &'a [Alone],
    (_, from, below): (&str, f64, f64),
) -> impl Iterator<Item = &'a Alone> {
    all.iter().filter(move |one| (from..below).contains(&one.bound))
}

/// Mean and largest ratio of times to bounds.
fn ratios(times: impl Iterator<Item = (f64, f64)>) -> [Cell; 2] {
    let ratios: Vec<f64> = times.map(|(time, bound)| time / bound).collect();
    if ratios.is_empty() {
        return [Cell::None, Cell::None];
    }
    let most = ratios.iter().copied().fold(0.0, f64::max);
    [Cell::Number(Spread::of(&ratios).mean, 3), Cell::Number(most, 3)]
}

fn without_slots(all: &[Alone]) -> Figure {
    let mut table = Table::new([
        "bound",
        "coflows",
        "order of ports: mean",
        "most",
        "largest first: mean",
        "most",
        "paper: mean",
        "paper: proven",
    ]);
    for of in GROUPS {
        let mut row = vec![Cell::text(of.0), Cell::Number(group(all, of).count() as f64, 0)];
        row.extend(ratios(group(all, of).map(|one| (one.by_port, one.bound))));
        row.extend(ratios(group(all, of).map(|one| (one.largest, one.bound))));
        row.extend([
            if of.0 == "all" { Cell::Number(PAPER, 2) } else { Cell::None },
            Cell::Number(2.0, 0),
        ]);
        table.push(row);
    }
    let Lone { racks, port_rate, setup, .. } = Lone::default();
    let line = |name: &str, time: fn(&Alone) -> f64| {
        let mut ratios: Vec<f64> = all.iter().map(|one| time(one) / one.bound).collect();
        ratios.sort_by(f64::total_cmp);
        let share = 100.0 / ratios.len() as f64;
        let point =
            |(at, ratio): (usize, f64)| ((at + 1) as f64 * share, Some(Spread::of(&[ratio])));
        (name.to_owned(), ratios.into_iter().enumerate().map(point).collect())
    };
    Figure {
        id: "sunflow".to_owned(),
        title: "Sunflow: time of a coflow divided by the bound".to_owned(),
        notes: vec![format!(
            "One coflow at a time on {racks} racks with a port of {} Gb/s in each direction; a circuit is \
             set up in {} ms. Coflows within a rack are left out.",
            port_rate / 1e9,
            setup * 1e3,
        )],
        table,
        charts: vec![Chart {
            title: "Sunflow: one coflow at a time".to_owned(),
            y: "time divided by the bound".to_owned(),
            marks: Marks::Lines {
                x: "percent of the coflows at or below".to_owned(),
                scales: [Scale::Linear; 2],
                lines: vec![
                    line("order of ports", |one| one.by_port),
                    line("largest first", |one| one.largest),
                ],
            },
        }],
    }
}

fn in_slots(runs: &[Vec<Alone>], schedulers: &Schedulers) -> Figure {
    let mut columns = vec!["slot, s".to_owned(), "bound".to_owned(), "coflows".to_owned()];
    let names = schedulers.iter().map(|scheduler| scheduler.name());
    columns.extend(
        std::iter::once("Sunflow")
            .chain(names)
            .flat_map(|name| [format!("{name}: mean"), "most".to_owned()]),
    );
    let mut table = Table::new(columns);
    for (slot, all) in SLOTS.iter().zip(runs) {
        for of in GROUPS {
            let some: Vec<&Alone> = group(all, of).filter(|one| !one.in_slots.is_empty()).collect();
            let mut row =
                vec![Cell::Number(*slot, 1), Cell::text(of.0), Cell::Number(some.len() as f64, 0)];
            row.extend(ratios(some.iter().map(|one| (one.by_port, one.bound))));
            for at in 0..schedulers.len() {
                row.extend(ratios(some.iter().map(|one| (one.in_slots[at], one.bound))));
            }
            table.push(row);
        }
    }
    Figure {
        id: "sunflow-slots".to_owned(),
        title: "One coflow at a time in slots: time divided by the same bound".to_owned(),
        notes: vec![format!(
            "Coflows with at most {} flows. A rack has one port, which sends and receives, and a circuit \
             lasts at least a slot.",
            Lone::default().flows,
        )],
        table,
        charts: Vec::new(),
    }
}
