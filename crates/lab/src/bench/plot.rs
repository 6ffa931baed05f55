//! Throughput of several protocols as an SVG: medians joined by lines, ranges as bars.

use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::Spread;

const SIZE: (u32, u32) = (720, 420);
const FONT: &str = "sans-serif";

/// Throughput in several settings.
pub(super) struct Chart<'a> {
    /// The part before the first comma is emphasised.
    pub(super) title: &'a str,
    /// The varying quantity.
    pub(super) axis: &'a str,
    /// The settings.
    pub(super) labels: Vec<&'a str>,
    pub(super) lines: Vec<Line<'a>>,
}

/// A line of the chart.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) color: RGBColor,
    /// MB/s in each setting.
    pub(super) spreads: Vec<Spread>,
}

/// One line per protocol: a name, a colour, and the measurements at that index.
pub(super) fn lines<P>(
    protocols: [(P, &'static str, RGBColor); 4],
    spreads: impl Fn(usize) -> Vec<Spread>,
) -> Vec<Line<'static>> {
    let line = |(at, (_, name, color))| Line { name, color, spreads: spreads(at) };
    protocols.into_iter().enumerate().map(line).collect()
}

/// ATP's line.
pub(super) const ATP: RGBColor = RGBColor(200, 90, 0);
/// ESA's line.
pub(super) const ESA: RGBColor = RGBColor(0, 90, 160);
/// P4INC's line.
pub(super) const P4INC: RGBColor = RGBColor(0, 130, 70);
/// SwitchML's line.
pub(super) const SWITCHML: RGBColor = RGBColor(120, 120, 120);

/// Horizontal shift between the lines' ranges, so that they do not overlap.
const SHIFT: f64 = 0.08;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The SVG text of what is drawn on a white area.
fn drawn(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Result<()>) -> Result<String> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
    root.fill(&WHITE).map_err(describe)?;
    draw(&root)?;
    root.present().map_err(describe)?;
    drop(root);
    Ok(text)
}

/// Two measures of the same things, on logarithmic axes of the same range.
pub(super) struct Scatter<'a> {
    pub(super) title: &'a str,
    /// Name of the horizontal axis.
    pub(super) across: &'a str,
    /// Name of the vertical axis.
    pub(super) up: &'a str,
    pub(super) clouds: &'a [Cloud<'a>],
}

/// Points of one colour; coordinates are positive.
pub(super) struct Cloud<'a> {
    pub(super) name: &'a str,
    pub(super) color: RGBColor,
    pub(super) points: Vec<(f64, f64)>,
}

/// Draws points and the diagonal as SVG text.
///
/// # Errors
/// If the library fails.
pub(super) fn scatter(what: &Scatter<'_>) -> Result<String> {
    drawn((520, 520), |root| scatter_on(root, what))
}

fn scatter_on(root: &Area<'_>, what: &Scatter<'_>) -> Result<()> {
    let root = root.titled(what.title, (FONT, 18)).map_err(describe)?;
    let all = what.clouds.iter().flat_map(|cloud| &cloud.points);
    let all = all.flat_map(|&(x, y)| [x, y]);
    let (least, most) =
        all.fold((1.0_f64, 1.0_f64), |(least, most), value| (least.min(value), most.max(value)));
    let range = || (least / 1.2..most * 1.2).log_scale();
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(range(), range())
        .map_err(describe)?;
    chart
        .configure_mesh()
        .x_desc(what.across)
        .y_desc(what.up)
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .light_line_style(WHITE)
        .draw()
        .map_err(describe)?;
    let diagonal = [least / 1.2, most * 1.2].map(|end| (end, end));
    chart.draw_series(LineSeries::new(diagonal, BLACK.mix(0.4))).map_err(describe)?;
    for cloud in what.clouds {
        let color = cloud.color;
        let points = cloud.points.iter().map(|&at| Circle::new(at, 4, color.filled()));
        chart
            .draw_series(points)
            .map_err(describe)?
            .label(cloud.name)
            .legend(move |at| Circle::new((at.0 + 10, at.1), 4, color.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font((FONT, 14))
        .border_style(BLACK.mix(0.3))
        .background_style(WHITE.filled())
        .draw()
        .map_err(describe)?;
    Ok(())
}

/// Draws a chart as SVG text.
///
/// # Errors
/// If the library fails.
pub(super) fn render(what: &Chart<'_>) -> Result<String> {
    drawn(SIZE, |root| render_on(root, what))
}

fn render_on(root: &Area<'_>, what: &Chart<'_>) -> Result<()> {
    let (title, rest) = what.title.split_once(", ").unwrap_or((what.title, ""));
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let root = root.titled(&title, (FONT, 20)).map_err(describe)?;
    let root = root.titled(rest, (FONT, 13)).map_err(describe)?;

    let across: Range<f64> = -0.5..what.labels.len() as f64 - 0.5;
    let most = what.lines.iter().flat_map(|line| &line.spreads);
    let most = most.map(|spread| spread.greatest).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(across, 0.0..1.1 * most.max(1e-9))
        .map_err(describe)?;
    // Labels only at whole numbers: the points are categories.
    let label = |x: &f64| {
        let at = x.round();
        let label = what.labels.get(at.max(0.0) as usize);
        label.filter(|_| (x - at).abs() < 1e-6).map_or(String::new(), ToString::to_string)
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(2 * what.labels.len() + 1)
        .x_label_formatter(&label)
        .x_desc(what.axis)
        .y_desc("sums a worker receives, MB/s")
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .light_line_style(WHITE)
        .draw()
        .map_err(describe)?;
    let middle = (what.lines.len() as f64 - 1.0) / 2.0;
    for (at, line) in what.lines.iter().enumerate() {
        let color = line.color;
        let shift = SHIFT * (at as f64 - middle);
        let spreads = line.spreads.iter().enumerate();
        let spreads: Vec<(f64, Spread)> =
            spreads.map(|(at, &spread)| (at as f64 + shift, spread)).collect();
        chart
            .draw_series(LineSeries::new(
                spreads.iter().map(|&(x, spread)| (x, spread.median)),
                color.stroke_width(2),
            ))
            .map_err(describe)?
            .label(line.name)
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
    Ok(())
}

/// Converts the library's errors, which borrow from it.
fn describe(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_names_its_points_and_lines() {
        let spreads = |factor: f64| -> Vec<Spread> {
            [10.0, 30.0, 40.0].iter().map(|mb| Spread::of(vec![factor * mb, *mb])).collect()
        };
        let chart = Chart {
            title: "ESA and ATP, 4 jobs, memory fabric",
            axis: "size of a tensor",
            labels: vec!["64.0 KB", "1.0 MB", "4.0 MB"],
            lines: vec![
                Line { name: "ESA", color: ESA, spreads: spreads(1.2) },
                Line { name: "ATP", color: ATP, spreads: spreads(0.9) },
            ],
        };
        let text = render(&chart).unwrap();
        assert!(text.starts_with("<svg ") && text.trim_end().ends_with("</svg>"), "{text}");
        for word in ["64.0 KB", "1.0 MB", "4.0 MB", "ESA", "ATP", "size of a tensor"] {
            assert_eq!(text.matches(&format!(">\n{word}\n<")).count(), 1, "{word}\n{text}");
        }
        // A median for each point and line.
        assert_eq!(text.matches("<circle ").count(), 6, "{text}");
    }
}
