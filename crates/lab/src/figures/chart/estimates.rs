//! Means with their confidence intervals over settings, beside the values of a paper.

use std::ops::Range;

use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::{Area, Axes, COLORS, Chart, HEADROOM, Series, describe, draw_key, extent};
use crate::figures::interval::Interval;

/// Distance between the marks of two lines, so that their intervals do not overlap.
const SHIFT: f64 = 0.08;
/// Width of all bars of a setting.
const BARS: f64 = 0.8;
/// Half of a diamond's width in units of the picture.
const DIAMOND: i32 = 6;

/// Means with intervals, in settings at equal distances.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimates {
    /// Label of the horizontal axis.
    pub x: String,
    /// Labels of the settings.
    pub settings: Vec<String>,
    /// The series, each with an interval in each setting, if any.
    pub series: Vec<Series<Option<Interval>>>,
    /// Bars; else lines.
    pub bars: bool,
    /// Whether the value 1 has a line, as ratios need.
    pub parity: bool,
    /// What a paper reports.
    pub paper: Vec<Paper>,
}

/// A value of a paper in a chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Paper {
    /// Name in the legend.
    pub name: String,
    /// The index of the series to which it belongs; `None` if it belongs to all.
    pub series: Option<usize>,
    /// Where it is.
    pub at: PaperAt,
}

/// Where a paper's value is drawn.
#[derive(Clone, PartialEq, Debug)]
pub enum PaperAt {
    /// A dashed line over all settings: the paper does not say where it measured this value.
    Level(f64),
    /// A diamond in each setting with a value.
    Points(Vec<Option<f64>>),
}

impl Estimates {
    /// Horizontal place of a series in a setting, from the middle of the setting.
    fn shift(&self, series: usize) -> f64 {
        let count = self.series.len().max(1) as f64;
        let step = if self.bars { BARS / count } else { SHIFT };
        step * (series as f64 - (count - 1.0) / 2.0)
    }

    /// Factor by which the vertical axis is longer than usual, so that a legend of many lines covers
    /// no data.
    fn room_for_key(&self) -> f64 {
        /// Height of a line of the legend, and of its margins, as parts of the chart's.
        const LINE: f64 = 0.066;
        const MARGINS: f64 = 0.09;
        let key = LINE * (self.series.len() + self.paper.len()) as f64 + MARGINS;
        (1.0 / (1.0 - key.min(0.8)) / HEADROOM).max(1.0)
    }

    /// All heights that the chart shows.
    fn heights(&self) -> impl Iterator<Item = f64> {
        let top = |interval: &Interval| interval.mean + interval.half.unwrap_or(0.0);
        let ours = self.series.iter().flat_map(|series| series.points.iter().flatten()).map(top);
        let papers = self.paper.iter().flat_map(|paper| match &paper.at {
            PaperAt::Level(level) => vec![*level],
            PaperAt::Points(points) => points.iter().copied().flatten().collect(),
        });
        ours.chain(papers).chain(self.parity.then_some(1.0))
    }
}

impl Chart {
    pub(super) fn draw_estimates<S: DrawingBackend>(
        &self,
        root: &Area<S>,
        shown: &Estimates,
    ) -> Result<(), String> {
        let up = extent(shown.heights())?;
        let up = up.start..up.end * shown.room_for_key();
        let mut chart = self.categories(root, &shown.x, &shown.settings, up)?;
        if shown.parity {
            let ends = shown.ends().map(|x| (x, 1.0));
            let line = PathElement::new(ends, BLACK.mix(0.5).stroke_width(1));
            chart.draw_series([line]).map_err(describe)?;
        }
        for at in 0..shown.series.len() {
            shown.draw_series(&mut chart, at)?;
        }
        for paper in &shown.paper {
            shown.draw_paper(&mut chart, paper)?;
        }
        draw_key(&mut chart, SeriesLabelPosition::UpperRight)
    }
}

/// A chart of settings.
type Categories<'a, S> = Axes<'a, S, Range<f64>, Range<f64>>;

impl Estimates {
    /// Both ends of the horizontal axis.
    fn ends(&self) -> [f64; 2] {
        [-0.5, self.settings.len() as f64 - 0.5]
    }

    fn draw_series<'a, S: DrawingBackend + 'a>(
        &self,
        chart: &mut Categories<'a, S>,
        at: usize,
    ) -> Result<(), String> {
        let series = &self.series[at];
        let color = COLORS[series.color % COLORS.len()];
        let shift = self.shift(at);
        let points = || {
            let known = series.points.iter().enumerate();
            known.filter_map(|(setting, of)| Some((setting as f64 + shift, (*of)?)))
        };
        if self.bars {
            let half = 0.45 * BARS / self.series.len() as f64;
            let bar = |(x, of): (f64, Interval)| {
                Rectangle::new([(x - half, 0.0), (x + half, of.mean)], color.filled())
            };
            let drawn = chart.draw_series(points().map(bar)).map_err(describe)?;
            drawn.label(&series.name).legend(move |(x, y)| {
                Rectangle::new([(x, y - 5), (x + 12, y + 5)], color.filled())
            });
        } else {
            let means = || points().map(|(x, of)| (x, of.mean));
            let line = LineSeries::new(means(), color.stroke_width(2));
            let drawn = chart.draw_series(line).map_err(describe)?;
            drawn.label(&series.name).legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2))
            });
            let dots = means().map(|at| Circle::new(at, 3, color.filled()));
            chart.draw_series(dots).map_err(describe)?;
        }
        let ink = if self.bars { BLACK } else { color };
        let ranges = points().filter_map(|(x, of)| {
            let half = of.half.filter(|half| *half > 0.0)?;
            let ends = [(x, of.mean - half), (x, of.mean + half)];
            Some(PathElement::new(ends, ink.stroke_width(1)))
        });
        chart.draw_series(ranges).map_err(describe)?;
        Ok(())
    }

    fn draw_paper<'a, S: DrawingBackend + 'a>(
        &self,
        chart: &mut Categories<'a, S>,
        paper: &Paper,
    ) -> Result<(), String> {
        let of_series = |at: usize| COLORS[self.series[at].color % COLORS.len()];
        let color = paper.series.map_or(BLACK, of_series);
        match &paper.at {
            PaperAt::Level(level) => {
                let style = color.stroke_width(1);
                let line = DashedLineSeries::new(self.ends().map(|x| (x, *level)), 7, 5, style);
                let drawn = chart.draw_series(line).map_err(describe)?;
                drawn.label(&paper.name).legend(move |(x, y)| {
                    DashedPathElement::new([(x, y), (x + 20, y)], 5, 3, style)
                });
            }
            PaperAt::Points(points) => {
                let shift = paper.series.map_or(0.0, |series| self.shift(series));
                let known = points.iter().enumerate();
                let known = known.filter_map(|(x, y)| Some((x as f64 + shift, (*y)?)));
                let mark = move |at| EmptyElement::at(at) + diamond() + outline(color);
                let drawn = chart.draw_series(known.map(mark)).map_err(describe)?;
                let sample =
                    move |(x, y)| EmptyElement::at((x + 10, y)) + diamond() + outline(color);
                drawn.label(&paper.name).legend(sample);
            }
        }
        Ok(())
    }
}

/// The corners of a diamond around a point, in units of the picture.
const CORNERS: [(i32, i32); 4] = [(-DIAMOND, 0), (0, -DIAMOND), (DIAMOND, 0), (0, DIAMOND)];

/// White, so that it is seen on a bar of its colour.
fn diamond() -> Polygon<(i32, i32)> {
    Polygon::new(CORNERS, WHITE.filled())
}

fn outline(color: RGBColor) -> PathElement<(i32, i32)> {
    let [first, second, third, fourth] = CORNERS;
    PathElement::new([first, second, third, fourth, first], color.stroke_width(2))
}

#[cfg(test)]
mod tests {
    use super::super::Marks;
    use super::*;

    fn chart(bars: bool) -> Chart {
        let series = |name: &str, color, mean| Series {
            name: name.to_owned(),
            color,
            points: vec![
                Some(Interval { mean, half: Some(0.1) }),
                None,
                Some(Interval::of(&[mean])),
            ],
        };
        Chart {
            title: "Ratios".to_owned(),
            y: "ESA / ATP".to_owned(),
            marks: Marks::Estimates(Estimates {
                x: "jobs".to_owned(),
                settings: ["two", "four", "six"].map(String::from).to_vec(),
                series: vec![series("model A", 0, 1.5), series("model B", 1, 1.2)],
                bars,
                parity: true,
                paper: vec![
                    Paper {
                        name: "the paper, up to".to_owned(),
                        series: None,
                        at: PaperAt::Level(1.35),
                    },
                    Paper {
                        name: "the paper, model A".to_owned(),
                        series: Some(0),
                        at: PaperAt::Points(vec![Some(1.4), None, Some(1.45)]),
                    },
                ],
            }),
        }
    }

    #[test]
    fn estimates_have_their_names_and_the_papers_marks() {
        for bars in [false, true] {
            let svg = chart(bars).to_svg().unwrap();
            for word in [
                "two",
                "four",
                "six",
                "jobs",
                "model A",
                "model B",
                "the paper, up to",
                "the paper, model A",
            ] {
                assert_eq!(svg.matches(&format!(">\n{word}\n<")).count(), 1, "{word}\n{svg}");
            }
            // Two diamonds, and one in the legend.
            assert_eq!(svg.matches("<polygon ").count(), 3, "{svg}");
            // A dot for each of two known points of two lines.
            assert_eq!(svg.matches("<circle ").count(), if bars { 0 } else { 4 }, "{svg}");
            assert!(chart(bars).to_png().unwrap().starts_with(b"\x89PNG"));
        }
    }

    #[test]
    fn a_long_legend_gets_more_room() {
        let room = |count: usize| {
            let Marks::Estimates(mut shown) = chart(true).marks else { unreachable!() };
            shown.paper = vec![shown.paper[0].clone(); count];
            shown.room_for_key()
        };
        assert_eq!(room(1), 1.0);
        assert!(room(4) > 1.2 && room(5) > room(4), "{} {}", room(4), room(5));
    }

    #[test]
    fn what_has_no_place_is_rejected() {
        let mut without = chart(false);
        let Marks::Estimates(shown) = &mut without.marks else { unreachable!() };
        shown.series[0].points[0] = Some(Interval { mean: f64::NAN, half: None });
        let error = without.to_svg().unwrap_err().to_string();
        assert!(error.ends_with("NaN has no place on an axis"), "{error}");
    }
}
