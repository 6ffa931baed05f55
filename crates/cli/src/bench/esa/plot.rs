//! A sweep as an SVG: throughput of ATP and ESA, medians joined by lines, ranges as bars.

use std::ops::Range;
use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::{Point, Sweep, throughput};
use crate::bench::Spread;

const SIZE: (u32, u32) = (720, 420);
const FONT: &str = "sans-serif";

/// One of the lines.
struct Series {
    name: &'static str,
    color: RGBColor,
    /// Sideways shift of the ranges, so that those of different lines do not cover each other.
    shift: f64,
    of: fn(&Point) -> Spread,
}

const SERIES: [Series; 2] = [
    Series {
        name: "ESA",
        color: RGBColor(0, 90, 160),
        shift: -0.04,
        of: |point| throughput(&point.esa),
    },
    Series {
        name: "ATP",
        color: RGBColor(200, 90, 0),
        shift: 0.04,
        of: |point| throughput(&point.atp),
    },
];

/// Draws a sweep into a file.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn draw(sweep: &Sweep, path: &Path) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| anyhow!("cannot draw {}: {error}", path.display());
    let mut text = String::new();
    render(sweep, &mut text).map_err(|error| failed(&error))?;
    std::fs::write(path, text).map_err(|error| failed(&error))
}

/// Draws a sweep as SVG text.
fn render(sweep: &Sweep, text: &mut String) -> Result<()> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(describe)?;
    let (title, rest) = sweep.title.split_once(", ").unwrap_or((&sweep.title, ""));
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let root = root.titled(&title, (FONT, 20)).map_err(describe)?;
    let root = root.titled(rest, (FONT, 13)).map_err(describe)?;

    let across: Range<f64> = -0.5..sweep.points.len() as f64 - 0.5;
    let most = SERIES.iter().flat_map(|series| sweep.points.iter().map(series.of));
    let most = most.map(|spread| spread.greatest).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(across, 0.0..1.1 * most.max(1e-9))
        .map_err(describe)?;
    // A label stands at whole numbers only: the points are categories.
    let label = |x: &f64| {
        let at = x.round();
        let point = sweep.points.get(at.max(0.0) as usize);
        point.filter(|_| (x - at).abs() < 1e-6).map_or(String::new(), |point| point.label.clone())
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(2 * sweep.points.len() + 1)
        .x_label_formatter(&label)
        .x_desc(sweep.axis)
        .y_desc("sums a worker receives, MB/s")
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .light_line_style(WHITE)
        .draw()
        .map_err(describe)?;
    for series in &SERIES {
        let color = series.color;
        let spreads: Vec<(f64, Spread)> = sweep
            .points
            .iter()
            .enumerate()
            .map(|(at, point)| (at as f64 + series.shift, (series.of)(point)))
            .collect();
        chart
            .draw_series(LineSeries::new(
                spreads.iter().map(|&(x, spread)| (x, spread.median)),
                color.stroke_width(2),
            ))
            .map_err(describe)?
            .label(series.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
        chart
            .draw_series(spreads.iter().map(|&(x, spread)| {
                PathElement::new([(x, spread.least), (x, spread.greatest)], color.stroke_width(1))
            }))
            .map_err(describe)?;
        chart
            .draw_series(
                spreads
                    .iter()
                    .map(|&(x, spread)| Circle::new((x, spread.median), 3, color.filled())),
            )
            .map_err(describe)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font((FONT, 14))
        .border_style(BLACK.mix(0.3))
        .background_style(WHITE.filled())
        .draw()
        .map_err(describe)?;
    drop(chart);
    root.present().map_err(describe)?;
    Ok(())
}

/// Errors of the library borrow from it.
fn describe(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::esa::{Measured, Setting};

    #[test]
    fn a_plot_names_its_points_and_lines() {
        let run = |throughput: f64| Measured {
            seed: 1,
            first: true,
            throughput: vec![throughput],
            in_network: vec![None],
            kept_bytes: 0,
        };
        let point = |label: &str, mb: f64| Point {
            label: label.to_owned(),
            setting: Setting { jobs: 1, tensor_bytes: 4, pool: 1, jitter_us: 0 },
            atp: vec![run(mb), run(0.9 * mb)],
            esa: vec![run(1.2 * mb), run(mb)],
        };
        let sweep = Sweep {
            name: "x".into(),
            title: "ESA and ATP, 4 jobs, memory fabric".into(),
            axis: "size of a tensor",
            points: vec![point("64.0 KB", 10.0), point("1.0 MB", 30.0), point("4.0 MB", 40.0)],
        };
        let mut text = String::new();
        render(&sweep, &mut text).unwrap();
        assert!(text.starts_with("<svg ") && text.trim_end().ends_with("</svg>"), "{text}");
        for word in ["64.0 KB", "1.0 MB", "4.0 MB", "ESA", "ATP", "size of a tensor"] {
            assert_eq!(text.matches(&format!(">\n{word}\n<")).count(), 1, "{word}\n{text}");
        }
        // A median for each point and line.
        assert_eq!(text.matches("<circle ").count(), 6, "{text}");
    }
}
