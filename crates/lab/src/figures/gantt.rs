//! A schedule of optical circuits as a picture: slots from left to right, a row for each pair of units
//! with its circuits, and a row for each job with its rates.

use tributary_base::Svg;
use tributary_optical::{Job, Schedule, UnitId};

const ROW: usize = 16;
const LEFT: usize = 150;
const TOP: usize = 40;

/// Draws a schedule as SVG.
#[must_use]
pub fn gantt(title: &str, jobs: &[Job], schedule: &Schedule) -> String {
    let slots = schedule.slots.len();
    let wide = (900 / slots.max(1)).clamp(12, 60);
    // Pairs that carry traffic; with idle ones, most rows would be the same number.
    let between = |job: usize, a: UnitId, b: UnitId| {
        let flows = &jobs[job].ways[schedule.ways[job]].flows;
        flows.iter().any(|flow| (flow.from, flow.to) == (a, b) || (flow.from, flow.to) == (b, a))
    };
    let pairs: Vec<(UnitId, UnitId)> = (schedule.initial.pairs())
        .map(|(a, b, _)| (a, b))
        .filter(|&(a, b)| (0..jobs.len()).any(|job| between(job, a, b)))
        .collect();
    let rows = pairs.len() + jobs.len();
    let (width, height) = (LEFT + wide * slots + 20, TOP + ROW * (rows + 4));
    let mut svg = Svg::new(&[
        ("width", &width),
        ("height", &height),
        ("font-family", &"sans-serif"),
        ("font-size", &11),
    ]);
    svg.shape("rect", &[("width", &width), ("height", &height), ("fill", &"white")]);
    text(&mut svg, 10, 18, title);
    for slot in 0..slots {
        text(&mut svg, LEFT + wide * slot + 2, TOP, &slot.to_string());
    }
    let mut y = TOP + ROW;
    text(&mut svg, 10, y, "circuits (new ones dark)");
    for (a, b) in pairs {
        y += ROW;
        text(&mut svg, 10, y, &format!("units {} and {}", a.0, b.0));
        let mut before = schedule.initial.between(a, b);
        for (slot, decision) in schedule.slots.iter().enumerate() {
            let count = decision.circuits.between(a, b);
            let color = if count > before { "#c85a00" } else { "#f3e3d3" };
            before = count;
            if count > 0 {
                let x = LEFT + wide * slot;
                bar(&mut svg, x, y, wide, color, 1.0, &format!("circuits: {count}"));
                text(&mut svg, x + 2, y, &count.to_string());
            }
        }
    }
    y += 2 * ROW;
    text(&mut svg, 10, y, "jobs, Gb/s of a worker");
    let rates = schedule.slots.iter().flat_map(|slot| &slot.rates);
    let highest = rates.copied().fold(0.0, f64::max);
    for (at, job) in jobs.iter().enumerate() {
        y += ROW;
        let switch = match jobs[at].ways[schedule.ways[at]].inc {
            Some(unit) => format!("job {}, switch {}", job.id, unit.0),
            None => format!("job {}", job.id),
        };
        text(&mut svg, 10, y, &switch);
        for (slot, decision) in schedule.slots.iter().enumerate() {
            let rate = decision.rates[at];
            if rate > 0.0 {
                let x = LEFT + wide * slot;
                let shown = format!("{:.2} Gb/s", rate / 1e9);
                let color = if jobs[at].ways[schedule.ways[at]].inc.is_some() {
                    "#008246"
                } else {
                    "#005aa0"
                };
                bar(&mut svg, x, y, wide, color, 0.25 + 0.75 * rate / highest, &shown);
                if wide >= 30 {
                    text(&mut svg, x + 2, y, &format!("{:.1}", rate / 1e9));
                }
            }
        }
    }
    svg.finish()
}

fn text(svg: &mut Svg, x: usize, y: usize, text: &str) {
    svg.text("text", &[("x", &x), ("y", &y)], text);
}

/// A bar of one slot behind the text of a row, with a tooltip.
fn bar(svg: &mut Svg, x: usize, y: usize, wide: usize, color: &str, opacity: f64, tip: &str) {
    svg.with_title(
        "rect",
        &[
            ("x", &x),
            ("y", &(y - 11)),
            ("width", &(wide - 1)),
            ("height", &(ROW - 2)),
            ("fill", &color),
            ("fill-opacity", &format!("{opacity:.2}")),
        ],
        tip,
    );
}

#[cfg(test)]
mod tests {
    use tributary_optical::{Scheduler as _, Setting, Tw};

    use super::*;

    #[test]
    fn each_slot_in_which_a_job_sends_has_a_bar() {
        let setting = Setting { units: 2, ..Setting::small() };
        let jobs = setting.training(6, 1).unwrap();
        let schedule = Tw::new(true, true).schedule(&setting.network(), &jobs).unwrap();
        let svg = gantt("a < b", &jobs, &schedule);
        let sending = schedule.slots.iter().flat_map(|slot| &slot.rates).filter(|r| **r > 0.0);
        assert_eq!(svg.matches("Gb/s</title>").count(), sending.count());
        assert!(svg.contains("a &lt; b") && svg.contains("job 5"));
    }
}
