//! Charts as SVG and PNG: lines over time, a parameter or settings, grouped bars, scatter plots, and heat
//! maps.

mod estimates;
mod heat;

use std::ops::Range;

use plotters::coord::CoordTranslate;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use tiny_skia::Pixmap;
use tributary_cluster::metrics::Spread;

use crate::figures::raster::{Raster, SCALE};

pub use estimates::{Estimates, Paper, PaperAt};
pub use heat::{Heat, HeatPanel};

const SIZE: (u32, u32) = (760, 420);
/// Size of a chart whose axes have the same range.
const SQUARE: (u32, u32) = (520, 520);
const FONT: &str = "sans-serif";

/// Factor by which an axis extends beyond the largest value, so that the legend covers no data.
const HEADROOM: f64 = 1.45;

/// Colours that are distinguishable with red-green colour blindness, in the order of use.
const COLORS: [RGBColor; 11] = [
    RGBColor(0, 90, 160),
    RGBColor(200, 90, 0),
    RGBColor(0, 130, 70),
    RGBColor(150, 60, 150),
    RGBColor(120, 120, 120),
    RGBColor(90, 170, 220),
    RGBColor(220, 170, 40),
    RGBColor(110, 80, 50),
    RGBColor(30, 30, 30),
    RGBColor(240, 130, 190),
    RGBColor(150, 170, 90),
];

/// The scale of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Linear.
    Linear,
    /// Logarithmic; values must be positive.
    Logarithmic,
}

/// A chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// Label of the vertical axis, with its unit.
    pub y: String,
    /// The data.
    pub marks: Marks,
}

/// The data of a chart.
#[derive(Clone, PartialEq, Debug)]
pub enum Marks {
    /// Lines through points.
    Lines {
        /// Label of the horizontal axis, with its unit.
        x: String,
        /// Scales of both axes, horizontal first.
        scales: [Scale; 2],
        /// The lines.
        lines: Vec<Line>,
    },
    /// Grouped bars.
    Bars {
        /// Labels of the groups.
        groups: Vec<String>,
        /// Series of bars: a name, and its bar in each group, if any.
        bars: Vec<(String, Vec<Option<Spread>>)>,
    },
    /// Points with a regression line.
    Points {
        /// Label of the horizontal axis, with its unit.
        x: String,
        /// Sets of points: a name, and the points.
        clouds: Vec<(String, Vec<(f64, f64)>)>,
        /// Slope and intercept of the line; `None` if there is no regression line.
        fit: Option<(f64, f64)>,
    },
    /// Lines over settings, which are at equal distances.
    Settings {
        /// Label of the horizontal axis.
        x: String,
        /// Labels of the settings.
        settings: Vec<String>,
        /// The lines, each with a value in each setting.
        lines: Vec<Series<Measured>>,
    },
    /// Two measures of the same things, on logarithmic axes of the same range, with the diagonal.
    Agreement {
        /// Label of the horizontal axis, with its unit.
        x: String,
        /// Sets of points.
        clouds: Vec<Series<(f64, f64)>>,
    },
    /// Means with their confidence intervals over settings, beside the values of a paper.
    Estimates(Estimates),
    /// Ratios over two settings.
    Heat(Heat),
}

/// Marks of one colour.
#[derive(Clone, PartialEq, Debug)]
pub struct Series<T> {
    /// Name in the legend.
    pub name: String,
    /// Place of its colour among those of all charts.
    pub color: usize,
    /// Its data.
    pub points: Vec<T>,
}

/// A median, and the range of all measurements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// The median.
    pub median: f64,
    /// The least measurement.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
}

/// A line: a name, and points from left to right. A `None` is a gap in the line.
pub type Line = (String, Vec<(f64, Option<Spread>)>);

/// Why a chart could not be drawn.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot draw “{title}”: {why}")]
pub struct DrawError {
    /// The chart's title.
    pub title: String,
    /// The error of the plotting library.
    pub why: String,
}

impl Chart {
    /// Renders the chart as SVG text.
    ///
    /// # Errors
    ///
    /// If there is no data, or a value cannot be shown on its scale.
    pub fn to_svg(&self) -> Result<String, DrawError> {
        let mut text = String::new();
        self.draw_on(SVGBackend::with_string(&mut text, self.size()))?;
        Ok(text)
    }

    /// Renders the chart as a PNG file, with two pixels per unit of the SVG.
    ///
    /// # Errors
    ///
    /// As for [`to_svg`](Self::to_svg).
    pub fn to_png(&self) -> Result<Vec<u8>, DrawError> {
        let (width, height) = self.size();
        let mut pixels = Pixmap::new(SCALE * width, SCALE * height).expect("a size above zero");
        self.draw_on(Raster::new(&mut pixels))?;
        pixels.encode_png().map_err(|error| self.error(error.to_string()))
    }

    fn size(&self) -> (u32, u32) {
        match &self.marks {
            Marks::Agreement { .. } => SQUARE,
            Marks::Heat(heat) => heat.size(),
            _ => SIZE,
        }
    }

    fn error(&self, why: String) -> DrawError {
        DrawError { title: self.title.clone(), why }
    }

    fn draw_on<S: DrawingBackend>(&self, surface: S) -> Result<(), DrawError> {
        self.draw(surface).map_err(|why| self.error(why))
    }

    fn draw<S: DrawingBackend>(&self, surface: S) -> Result<(), String> {
        let root = surface.into_drawing_area();
        root.fill(&WHITE).map_err(describe)?;
        // Measurements name their setting after the first comma.
        let (title, setting) = match self.marks {
            Marks::Settings { .. } => self.title.split_once(", ").unwrap_or((&self.title, "")),
            _ => (self.title.as_str(), ""),
        };
        let mut root = root.titled(title, (FONT, 18)).map_err(describe)?;
        if !setting.is_empty() {
            root = root.titled(setting, (FONT, 13)).map_err(describe)?;
        }
        match &self.marks {
            Marks::Lines { x, scales, lines } => self.draw_lines(&root, x, *scales, lines)?,
            Marks::Bars { groups, bars } => self.draw_bars(&root, groups, bars)?,
            Marks::Points { x, clouds, fit } => self.draw_points(&root, x, clouds, *fit)?,
            Marks::Settings { x, settings, lines } => {
                self.draw_settings(&root, x, settings, lines)?;
            }
            Marks::Agreement { x, clouds } => self.draw_agreement(&root, x, clouds)?,
            Marks::Estimates(shown) => self.draw_estimates(&root, shown)?,
            Marks::Heat(heat) => self.draw_heat(&root, heat)?,
        }
        root.present().map_err(describe)
    }

    fn draw_lines<S: DrawingBackend>(
        &self,
        root: &Area<S>,
        x: &str,
        scales: [Scale; 2],
        lines: &[Line],
    ) -> Result<(), String> {
        let points = || lines.iter().flat_map(|(_, points)| points);
        let across = extent(points().map(|&(x, _)| x))?;
        let up = extent(points().filter_map(|(_, y)| Some((*y)?.mean)))?;
        let linear_up = up.start.min(0.0)..up.end * HEADROOM + f64::from(u8::from(up.end == 0.0));
        if scales[0] == Scale::Logarithmic && across.start <= 0.0 {
            return Err("a logarithmic axis starts above zero".to_owned());
        }
        if scales[1] == Scale::Logarithmic && up.start <= 0.0 {
            return Err("a logarithmic axis starts above zero".to_owned());
        }
        let log_up = up.start * 0.8..up.end * (up.end / up.start).max(2.0).powf(HEADROOM - 1.0);
        match scales {
            [Scale::Linear, Scale::Linear] => self.lines_on(root, x, across, linear_up, lines),
            [Scale::Logarithmic, Scale::Linear] => {
                self.lines_on(root, x, across.log_scale(), linear_up, lines)
            }
            [Scale::Linear, Scale::Logarithmic] => {
                self.lines_on(root, x, across, log_up.log_scale(), lines)
            }
            [Scale::Logarithmic, Scale::Logarithmic] => {
                self.lines_on(root, x, across.log_scale(), log_up.log_scale(), lines)
            }
        }
    }

    /// An empty chart with two numeric axes.
    fn axes<'a, S, X, Y>(
        &self,
        root: &Area<S>,
        x: &str,
        across: X,
        up: Y,
    ) -> Result<Axes<'a, S, X, Y>, String>
    where
        S: DrawingBackend + 'a,
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(root)
            .margin(12)
            // Half of the last label extends beyond the axis.
            .margin_right(36)
            .x_label_area_size(44)
            .y_label_area_size(72)
            .build_cartesian_2d(across, up)
            .map_err(describe)?;
        chart
            .configure_mesh()
            .x_desc(x)
            .y_desc(&self.y)
            .x_label_formatter(&|x| short(*x))
            .y_label_formatter(&|y| short(*y))
            .label_style((FONT, 13))
            .axis_desc_style((FONT, 14))
            .light_line_style(WHITE)
            .draw()
            .map_err(describe)?;
        Ok(chart)
    }

    fn lines_on<S, X, Y>(
        &self,
        root: &Area<S>,
        x: &str,
        across: X,
        up: Y,
        lines: &[Line],
    ) -> Result<(), String>
    where
        S: DrawingBackend,
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut chart = self.axes(root, x, across, up)?;
        for ((name, points), color) in lines.iter().zip(COLORS.iter().cycle()) {
            let known = || points.iter().filter_map(|&(x, y)| Some((x, y?)));
            let parts: Vec<Vec<(f64, f64)>> = points
                .split(|(_, y)| y.is_none())
                .map(|part| part.iter().filter_map(|&(x, y)| Some((x, y?.mean))).collect())
                .collect();
            for (at, part) in parts.into_iter().enumerate() {
                let drawn = chart
                    .draw_series(LineSeries::new(part, color.stroke_width(2)))
                    .map_err(describe)?;
                if at == 0 {
                    drawn.label(name).legend(|(x, y)| {
                        PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2))
                    });
                }
            }
            // Many points are a curve, few are measurements.
            if points.len() <= 32 {
                let dots = known().map(|(x, y)| Circle::new((x, y.mean), 3, color.filled()));
                chart.draw_series(dots).map_err(describe)?;
            }
            let ranges = known().filter(|(_, y)| y.deviation > 0.0).map(|(x, y)| {
                let ends = [(x, y.mean - y.deviation), (x, y.mean + y.deviation)];
                PathElement::new(ends, color.stroke_width(1))
            });
            chart.draw_series(ranges).map_err(describe)?;
        }
        draw_key(&mut chart, SeriesLabelPosition::UpperRight)
    }

    fn draw_points<S: DrawingBackend>(
        &self,
        root: &Area<S>,
        x: &str,
        clouds: &[(String, Vec<(f64, f64)>)],
        fit: Option<(f64, f64)>,
    ) -> Result<(), String> {
        let points = || clouds.iter().flat_map(|(_, points)| points);
        let across = extent(points().map(|&(x, _)| x))?;
        let up = extent(points().map(|&(_, y)| y))?;
        let right = across.start.min(0.0)..across.end * 1.05;
        let mut chart = self.axes(root, x, right, up.start.min(0.0)..up.end * HEADROOM)?;
        if let Some((slope, height)) = fit {
            let ends = [across.start, across.end].map(|x| (x, slope * x + height));
            chart
                .draw_series(LineSeries::new(ends, BLACK.stroke_width(1)))
                .map_err(describe)?
                .label(format!("y = {slope:.2} x {height:+.2}"))
                .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], BLACK.stroke_width(1)));
        }
        for ((name, points), color) in clouds.iter().zip(COLORS.iter().cycle()) {
            chart
                .draw_series(points.iter().map(|&point| Circle::new(point, 3, color.filled())))
                .map_err(describe)?
                .label(name)
                .legend(|(x, y)| Circle::new((x + 10, y), 3, color.filled()));
        }
        draw_key(&mut chart, SeriesLabelPosition::UpperRight)
    }

    fn draw_agreement<S: DrawingBackend>(
        &self,
        root: &Area<S>,
        x: &str,
        clouds: &[Series<(f64, f64)>],
    ) -> Result<(), String> {
        let points = clouds.iter().flat_map(|cloud| &cloud.points);
        let all = extent(points.flat_map(|&(x, y)| [x, y]))?;
        if all.start <= 0.0 {
            return Err("a logarithmic axis starts above zero".to_owned());
        }
        // The point where both measures are 1 is always shown.
        let ends = [all.start.min(1.0) / 1.2, all.end.max(1.0) * 1.2];
        let range = || (ends[0]..ends[1]).log_scale();
        let mut chart = self.axes(root, x, range(), range())?;
        let diagonal = ends.map(|end| (end, end));
        chart.draw_series(LineSeries::new(diagonal, BLACK.mix(0.4))).map_err(describe)?;
        for Series { name, color, points } in clouds {
            let color = COLORS[color % COLORS.len()];
            chart
                .draw_series(points.iter().map(|&point| Circle::new(point, 4, color.filled())))
                .map_err(describe)?
                .label(name)
                .legend(move |(x, y)| Circle::new((x + 10, y), 4, color.filled()));
        }
        draw_key(&mut chart, SeriesLabelPosition::UpperLeft)
    }

    fn draw_settings<S: DrawingBackend>(
        &self,
        root: &Area<S>,
        x: &str,
        settings: &[String],
        lines: &[Series<Measured>],
    ) -> Result<(), String> {
        /// Distance between the ranges of two lines, so that they do not overlap.
        const SHIFT: f64 = 0.08;
        let all = lines.iter().flat_map(|line| &line.points);
        let up = extent(all.map(|measured| measured.greatest))?;
        let mut chart = self.categories(root, x, settings, up)?;
        let middle = (lines.len() as f64 - 1.0) / 2.0;
        for (at, Series { name, color, points }) in lines.iter().enumerate() {
            let color = COLORS[color % COLORS.len()];
            let shift = SHIFT * (at as f64 - middle);
            let points =
                || points.iter().enumerate().map(|(setting, of)| (setting as f64 + shift, of));
            let medians = || points().map(|(x, of)| (x, of.median));
            chart
                .draw_series(LineSeries::new(medians(), color.stroke_width(2)))
                .map_err(describe)?
                .label(name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2))
                });
            let ranges = points().map(|(x, of)| {
                PathElement::new([(x, of.least), (x, of.greatest)], color.stroke_width(1))
            });
            chart.draw_series(ranges).map_err(describe)?;
            let dots = medians().map(|median| Circle::new(median, 3, color.filled()));
            chart.draw_series(dots).map_err(describe)?;
        }
        draw_key(&mut chart, SeriesLabelPosition::UpperRight)
    }

    /// An empty chart with a category at each whole number of the horizontal axis.
    fn categories<'a, S: DrawingBackend + 'a>(
        &self,
        root: &Area<S>,
        x: &str,
        names: &[String],
        up: Range<f64>,
    ) -> Result<Axes<'a, S, Range<f64>, Range<f64>>, String> {
        let across = -0.5..names.len() as f64 - 0.5;
        let mut chart = ChartBuilder::on(root)
            .margin(12)
            .x_label_area_size(if x.is_empty() { 30 } else { 44 })
            .y_label_area_size(72)
            .build_cartesian_2d(across, up.start.min(0.0)..up.end * HEADROOM)
            .map_err(describe)?;
        let label = |x: &f64| {
            let name = names.get(x.round().max(0.0) as usize);
            name.filter(|_| (x - x.round()).abs() < 1e-6).cloned().unwrap_or_default()
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(2 * names.len() + 1)
            .x_label_formatter(&label)
            .y_label_formatter(&|y| short(*y))
            .x_desc(x)
            .y_desc(&self.y)
            .label_style((FONT, 13))
            .axis_desc_style((FONT, 14))
            .light_line_style(WHITE)
            .draw()
            .map_err(describe)?;
        Ok(chart)
    }

    fn draw_bars<S: DrawingBackend>(
        &self,
        root: &Area<S>,
        groups: &[String],
        bars: &[(String, Vec<Option<Spread>>)],
    ) -> Result<(), String> {
        let all = bars.iter().flat_map(|(_, bars)| bars).flatten();
        let up = extent(all.map(|spread| spread.mean + spread.deviation))?;
        let mut chart = self.categories(root, "", groups, up)?;
        let width = 0.8 / bars.len().max(1) as f64;
        for (at, ((name, bars), color)) in bars.iter().zip(COLORS.iter().cycle()).enumerate() {
            let left = -0.4 + width * at as f64;
            let present =
                || bars.iter().enumerate().filter_map(|(group, bar)| Some((group as f64, (*bar)?)));
            chart
                .draw_series(present().map(|(group, bar)| {
                    let corners = [(group + left, 0.0), (group + left + 0.9 * width, bar.mean)];
                    Rectangle::new(corners, color.filled())
                }))
                .map_err(describe)?
                .label(name)
                .legend(|(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], color.filled()));
            chart
                .draw_series(present().filter(|(_, bar)| bar.deviation > 0.0).map(
                    |(group, bar)| {
                        let middle = group + left + 0.45 * width;
                        let ends = [
                            (middle, bar.mean - bar.deviation),
                            (middle, bar.mean + bar.deviation),
                        ];
                        PathElement::new(ends, BLACK.stroke_width(1))
                    },
                ))
                .map_err(describe)?;
        }
        draw_key(&mut chart, SeriesLabelPosition::UpperRight)
    }
}

/// Draws the legend.
fn draw_key<'a, S: DrawingBackend + 'a, T: CoordTranslate>(
    chart: &mut ChartContext<'a, S, T>,
    position: SeriesLabelPosition,
) -> Result<(), String> {
    chart
        .configure_series_labels()
        .position(position)
        .label_font((FONT, 13))
        .border_style(BLACK.mix(0.3))
        .background_style(WHITE.mix(0.85).filled())
        .draw()
        .map_err(describe)
}

type Axes<'a, S, X, Y> = ChartContext<
    'a,
    S,
    Cartesian2d<<X as AsRangedCoord>::CoordDescType, <Y as AsRangedCoord>::CoordDescType>,
>;

type Area<S> = DrawingArea<S, plotters::coord::Shift>;

/// Minimum and maximum of some values.
fn extent(values: impl Iterator<Item = f64>) -> Result<Range<f64>, String> {
    let mut range: Option<Range<f64>> = None;
    for value in values {
        if !value.is_finite() {
            return Err(format!("{value} has no place on an axis"));
        }
        let so_far = range.unwrap_or(value..value);
        range = Some(so_far.start.min(value)..so_far.end.max(value));
    }
    let range = range.ok_or("there is nothing to draw")?;
    // A single value still needs some width.
    Ok(if range.start == range.end { range.start..range.end + 1.0 } else { range })
}

/// Formats a number for an axis without unnecessary digits.
fn short(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 1e6 || (magnitude > 0.0 && magnitude < 1e-3) {
        format!("{value:.1e}")
    } else if magnitude >= 100.0 || value == value.round() {
        format!("{value:.0}")
    } else {
        let digits = format!("{value:.3}");
        digits.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Errors of the library are not `'static`.
fn describe(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(scales: [Scale; 2], points: &[(f64, f64)]) -> Chart {
        let spread = |mean| Some(Spread { runs: 2, mean, deviation: 0.1 });
        let points = points.iter().map(|&(x, y)| (x, spread(y))).collect();
        Chart {
            title: "JCT by size".to_owned(),
            y: "JCT, s".to_owned(),
            marks: Marks::Lines {
                x: "servers".to_owned(),
                scales,
                lines: vec![("NetPack".to_owned(), points)],
            },
        }
    }

    /// Rows and columns of the pixels that differ.
    fn differences(one: &Pixmap, other: &Pixmap) -> Vec<(u32, u32)> {
        let at = |pixel| (pixel as u32 / one.width(), pixel as u32 % one.width());
        let pairs = one.pixels().iter().zip(other.pixels()).enumerate();
        pairs.filter(|(_, (one, other))| one != other).map(|(pixel, _)| at(pixel)).collect()
    }

    #[test]
    fn a_png_has_the_marks_of_the_chart_and_its_texts() {
        let chart = lines([Scale::Linear; 2], &[(1.0, 2.0), (2.0, 3.0), (3.0, 9.0)]);
        let drawn = |chart: &Chart| Pixmap::decode_png(&chart.to_png().unwrap()).unwrap();
        let picture = drawn(&chart);
        assert_eq!((picture.width(), picture.height()), (SCALE * SIZE.0, SCALE * SIZE.1));
        let count = |RGBColor(red, green, blue)| {
            let is = |pixel: &&tiny_skia::PremultipliedColorU8| {
                (pixel.red(), pixel.green(), pixel.blue(), pixel.alpha()) == (red, green, blue, 255)
            };
            picture.pixels().iter().filter(is).count()
        };
        let all = picture.pixels().len();
        assert!(count(WHITE) > all * 3 / 4, "the background is opaque");
        assert!(count(COLORS[0]) > 1_000, "the line, its dots, and its legend");
        // Another title changes only the pixels of the title, and enough for eleven letters.
        let other = drawn(&Chart { title: String::new(), ..chart.clone() });
        let title = differences(&picture, &other);
        assert!(title.len() > 1_000, "{}", title.len());
        assert!(title.iter().all(|&(row, _)| row < SCALE * 30), "{title:?}");
        // The vertical axis has its label at the left edge, from bottom to top.
        let other = drawn(&Chart { y: String::new(), ..chart });
        let label = differences(&picture, &other);
        let rows = label.iter().map(|&(row, _)| row);
        assert!(label.len() > 300, "{}", label.len());
        assert!(label.iter().all(|&(_, column)| column < SCALE * 40), "{label:?}");
        let height = rows.clone().max().unwrap() - rows.min().unwrap();
        assert!(height > SCALE * 20, "{height} rows: more than a line of text is high");
    }

    #[test]
    fn numbers_on_an_axis_have_the_digits_that_they_need() {
        let numbers = [0.0, 0.5, 1.25, 2.0, 99.75, 1234.5, 0.001, 0.0001, 2e6, -0.25];
        let expected =
            ["0", "0.5", "1.25", "2", "99.75", "1234", "0.001", "1.0e-4", "2.0e6", "-0.25"];
        assert_eq!(numbers.map(short), expected.map(String::from));
    }

    #[test]
    fn lines_have_their_points_and_names() {
        for scales in [
            [Scale::Linear, Scale::Linear],
            [Scale::Logarithmic, Scale::Linear],
            [Scale::Linear, Scale::Logarithmic],
            [Scale::Logarithmic, Scale::Logarithmic],
        ] {
            let svg = lines(scales, &[(1.0, 2.0), (10.0, 3.0), (100.0, 9.0)]).to_svg().unwrap();
            assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
            assert_eq!(svg.matches("<circle ").count(), 3, "{svg}");
            for word in ["JCT by size", "JCT, s", "servers", "NetPack"] {
                assert_eq!(svg.matches(&format!(">\n{word}\n<")).count(), 1, "{word}\n{svg}");
            }
        }
    }

    #[test]
    fn a_missing_point_leaves_a_gap() {
        let mut chart =
            lines([Scale::Linear; 2], &[(1.0, 2.0), (2.0, 3.0), (3.0, 9.0), (4.0, 1.0)]);
        let drawn = |chart: &Chart, what: &str| chart.to_svg().unwrap().matches(what).count();
        let (whole, dots) = (drawn(&chart, "<polyline"), drawn(&chart, "<circle "));
        let Marks::Lines { lines, .. } = &mut chart.marks else { unreachable!() };
        lines[0].1.insert(2, (2.5, None));
        // One more line; the number of dots is unchanged.
        assert_eq!((drawn(&chart, "<polyline"), drawn(&chart, "<circle ")), (whole + 1, dots));
    }

    #[test]
    fn points_have_their_line() {
        let chart = Chart {
            title: "JCT".to_owned(),
            y: "testbed".to_owned(),
            marks: Marks::Points {
                x: "simulator".to_owned(),
                clouds: vec![("real".to_owned(), vec![(1.0, 1.1), (2.0, 2.0)])],
                fit: Some((0.9, 0.2)),
            },
        };
        let svg = chart.to_svg().unwrap();
        for word in ["testbed", "simulator", "real", "y = 0.90 x +0.20"] {
            assert_eq!(svg.matches(&format!(">\n{word}\n<")).count(), 1, "{word}\n{svg}");
        }
        // Two points, and one in the legend.
        assert_eq!(svg.matches("<circle ").count(), 3, "{svg}");
    }

    #[test]
    fn settings_and_lines_have_their_names_and_medians() {
        let line = |name: &str, color, factor: f64| Series {
            name: name.to_owned(),
            color,
            points: [10.0, 30.0, 40.0]
                .map(|mb| Measured { median: factor * mb, least: mb / 2.0, greatest: 2.0 * mb })
                .to_vec(),
        };
        let settings = ["64.0 KB", "1.0 MB", "4.0 MB"];
        let chart = Chart {
            title: "ESA and ATP, 4 jobs, memory fabric".to_owned(),
            y: "MB/s".to_owned(),
            marks: Marks::Settings {
                x: "size of a tensor".to_owned(),
                settings: settings.map(String::from).to_vec(),
                lines: vec![line("ESA", 0, 1.2), line("ATP", 1, 0.9)],
            },
        };
        let text = chart.to_svg().unwrap();
        assert!(text.starts_with("<svg ") && text.trim_end().ends_with("</svg>"), "{text}");
        for word in ["64.0 KB", "1.0 MB", "4.0 MB", "ESA", "ATP", "size of a tensor"] {
            assert_eq!(text.matches(&format!(">\n{word}\n<")).count(), 1, "{word}\n{text}");
        }
        // A median for each point and line.
        assert_eq!(text.matches("<circle ").count(), 6, "{text}");
    }

    #[test]
    fn values_outside_the_scale_are_rejected() {
        let nothing = lines([Scale::Linear; 2], &[]).to_svg().unwrap_err();
        assert_eq!(nothing.to_string(), "cannot draw “JCT by size”: there is nothing to draw");
        let nan = lines([Scale::Linear; 2], &[(1.0, f64::NAN)]).to_svg().unwrap_err();
        assert!(nan.to_string().ends_with("NaN has no place on an axis"), "{nan}");
        let zero = lines([Scale::Linear, Scale::Logarithmic], &[(1.0, 0.0)]).to_svg().unwrap_err();
        assert!(zero.to_string().ends_with("starts above zero"), "{zero}");
    }

    #[test]
    fn a_missing_bar_leaves_a_gap() {
        let bar = |mean| Some(Spread::of(&[mean]));
        let chart = Chart {
            title: "JCT".to_owned(),
            y: "normalized".to_owned(),
            marks: Marks::Bars {
                groups: vec!["real".to_owned(), "Poisson".to_owned()],
                bars: vec![
                    ("NetPack".to_owned(), vec![bar(1.0), bar(1.0)]),
                    ("GB".to_owned(), vec![bar(1.4), None]),
                ],
            },
        };
        let svg = chart.to_svg().unwrap();
        for word in ["real", "Poisson", "NetPack", "GB"] {
            assert_eq!(svg.matches(&format!(">\n{word}\n<")).count(), 1, "{word}\n{svg}");
        }
        // Background, three bars, two legend entries, and the legend's box twice: filled and
        // outlined.
        let filled = |color: &str| {
            svg.lines().filter(|line| line.starts_with("<rect") && line.contains(color)).count()
        };
        assert_eq!((filled("#005AA0"), filled("#C85A00")), (3, 2), "{svg}");
    }
}
